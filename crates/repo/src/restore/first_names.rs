//! The names under which files with several names were first restored.

use std::collections::HashMap;
use std::sync::Arc;

use super::folder::Folder;
use super::links::Links;
use crate::Result;
use crate::index::IdMap;
use crate::scratch::{Inode, Scratch, Texts, inode_id};

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
    /// The number of each path.
    starts: IdMap,
    paths: Texts,
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
        let (path, _) = moved.paths.get(start)?;
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
                paths: Texts::new(&self.scratch),
            }),
        };
        let first = &self.held[&inode];
        let mut path = first.folder.names();
        path.push(&first.name);
        let start = moved.paths.add(&path.join(&b'/'))?;
        moved.starts.insert(inode_id(&self.scratch, inode), start)
    }
}
