//! The names under which files with several names were first restored.

use std::collections::HashMap;
use std::sync::Arc;

use ibid_format::run::ShortId;

use super::folder::Folder;
use super::links::Links;
use crate::Result;
use crate::index::IdMap;
use crate::scratch::{Array, Scratch};

/// Identity of a file in a snapshot: device and inode.
pub(super) type Inode = (u64, u64);

/// Memory of a file that is held, bytes.
const HELD: u64 = 512;

/// The directory and name under which a file was first restored, and its state.
#[derive(Clone)]
pub(super) struct FirstName<'a> {
    pub(super) folder: Arc<Folder<'a>>,
    pub(super) name: Vec<u8>,
    pub(super) links: Arc<Links<'a>>,
}

/// Files with several names, by device and inode. The paths of complete ones go to temporary files when
/// there are many.
pub(super) struct FirstNames<'a> {
    scratch: Scratch,
    held: HashMap<Inode, FirstName<'a>>,
    /// Files that are held before others are moved.
    most: usize,
    moved: Option<Moved>,
}

/// Paths of complete files.
struct Moved {
    /// Where a path begins.
    starts: IdMap,
    /// The length of each path, and its bytes in words.
    paths: Array<u64>,
}

impl<'a> FirstNames<'a> {
    pub(super) fn new(scratch: Scratch) -> FirstNames<'a> {
        FirstNames {
            held: HashMap::new(),
            most: (scratch.limits.ids / HELD).max(1) as usize,
            moved: None,
            scratch,
        }
    }

    /// Returns the first name of a file.
    ///
    /// # Errors
    ///
    /// A temporary file can't be read.
    pub(super) fn get(&mut self, inode: Inode, destination: &Arc<Folder<'a>>) -> Result<Option<FirstName<'a>>> {
        if let Some(first) = self.held.get(&inode) {
            return Ok(Some(first.clone()));
        }
        let key = inode_id(&self.scratch, inode);
        let Some(moved) = &mut self.moved else {
            return Ok(None);
        };
        let Some(start) = moved.starts.get(key)? else {
            return Ok(None);
        };
        let path = moved.path(start)?;
        let mut names = path.split(|&byte| byte == b'/');
        let name = names.next_back().unwrap_or_default().to_vec();
        let folder = names.fold(destination.clone(), |above, name| Folder::reopened(&above, name));
        let links = Links::complete();
        Ok(Some(FirstName { folder, name, links }))
    }

    /// Adds the first name of a file.
    pub(super) fn insert(&mut self, inode: Inode, first: FirstName<'a>) {
        if self.held.len() >= self.most {
            self.make_room();
        }
        self.held.insert(inode, first);
    }

    /// Moves complete files to temporary files. If that fails, they stay: a file must not become two.
    fn make_room(&mut self) {
        let movable: Vec<Inode> = self
            .held
            .iter()
            .filter(|(_, first)| first.links.is_complete() && first.folder.stays_open())
            .map(|(inode, _)| *inode)
            .collect();
        for inode in movable {
            match self.move_one(inode) {
                Ok(()) => drop(self.held.remove(&inode)),
                Err(_) => {
                    self.most = usize::MAX;
                    return;
                }
            }
        }
        // Do not look at files again and again that can't be moved.
        self.most = self.most.max(2 * self.held.len());
    }

    fn move_one(&mut self, inode: Inode) -> Result<()> {
        let moved = match &mut self.moved {
            Some(moved) => moved,
            none => none.insert(Moved {
                starts: IdMap::new(&self.scratch),
                paths: Array::zeros(&self.scratch, 0)?,
            }),
        };
        let first = &self.held[&inode];
        let mut path = first.folder.names();
        path.push(&first.name);
        let start = moved.add(&path.join(&b'/'))?;
        moved.starts.insert(inode_id(&self.scratch, inode), start)
    }
}

/// Returns the key of a file: its numbers are not uniform, as ids must be.
pub(super) fn inode_id(scratch: &Scratch, (device, inode): Inode) -> ShortId {
    let bytes = [device.to_le_bytes(), inode.to_le_bytes()].concat();
    ShortId::of(&scratch.files.keys.chunk_id(&bytes))
}

impl Moved {
    fn add(&mut self, path: &[u8]) -> Result<u64> {
        let start = self.paths.push(path.len() as u64)?;
        for part in path.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.paths.push(u64::from_le_bytes(word))?;
        }
        Ok(start)
    }

    fn path(&mut self, start: u64) -> Result<Vec<u8>> {
        let length = self.paths.get(start)?;
        let mut path = Vec::new();
        for at in start + 1..start + 1 + length.div_ceil(8) {
            path.extend_from_slice(&self.paths.get(at)?.to_le_bytes());
        }
        path.truncate(length as usize);
        Ok(path)
    }
}
