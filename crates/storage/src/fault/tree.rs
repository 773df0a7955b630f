//! A file system in memory that knows which data survives a loss of power.
//!
//! Every file has its live content, its durable content, and the writes since its last sync; every
//! folder its live entries, its durable entries, and the changes of entries since its last sync. A
//! loss of power keeps durable data and a random part of the rest: a write may be lost, kept, cut
//! at any byte, or there in length only (zeros); each change of an entry is lost or kept by itself,
//! so that a rename may leave both names, or none.
//!
//! That is harsher than most file systems (many order such changes), and no harsher than what POSIX
//! allows.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path};
use std::time::Duration;

use rustix::io::Errno;

use super::random::Random;
use crate::disk::{FolderEntry, FolderEntryKind};

pub(super) type Id = u64;
const ROOT: Id = 0;

pub(super) struct Tree {
    nodes: BTreeMap<Id, Node>,
}

enum Node {
    File(File),
    Folder(Folder),
}

#[derive(Default)]
pub(super) struct File {
    pub(super) live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Write>,
    /// The number of its current names.
    pub(super) names: usize,
    /// The handle that has the lock.
    pub(super) lock: Option<u64>,
    /// The time of its last write, by the clock of the disk.
    pub(super) modified: Duration,
}

struct Write {
    offset: usize,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Folder {
    live: BTreeMap<OsString, Id>,
    durable: BTreeMap<OsString, Id>,
    pending: Vec<Change>,
}

struct Change {
    name: OsString,
    /// The file of the name from now on; none if it was removed.
    target: Option<Id>,
}

impl Tree {
    pub(super) fn new() -> Self {
        Self {
            nodes: BTreeMap::from([(ROOT, Node::Folder(Folder::default()))]),
        }
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<Id> {
        let mut id = ROOT;
        for component in path.components() {
            match component {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => id = *self.folder(id)?.live.get(name).ok_or(Errno::NOENT)?,
                Component::Prefix(_) | Component::ParentDir => return Err(Errno::INVAL.into()),
            }
        }
        Ok(id)
    }

    fn split<'p>(&self, path: &'p Path) -> io::Result<(Id, &'p OsStr)> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        Ok((self.find(path.parent().unwrap_or(Path::new("/")))?, name))
    }

    fn folder(&self, id: Id) -> io::Result<&Folder> {
        match self.nodes.get(&id) {
            Some(Node::Folder(folder)) => Ok(folder),
            Some(Node::File(_)) => Err(Errno::NOTDIR.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    fn folder_mut(&mut self, id: Id) -> io::Result<&mut Folder> {
        match self.nodes.get_mut(&id) {
            Some(Node::Folder(folder)) => Ok(folder),
            Some(Node::File(_)) => Err(Errno::NOTDIR.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    pub(super) fn file(&self, id: Id) -> io::Result<&File> {
        match self.nodes.get(&id) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Folder(_)) => Err(Errno::ISDIR.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    pub(super) fn file_mut(&mut self, id: Id) -> io::Result<&mut File> {
        match self.nodes.get_mut(&id) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Folder(_)) => Err(Errno::ISDIR.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    pub(super) fn create_file(&mut self, path: &Path, now: Duration) -> io::Result<Id> {
        let file = File {
            names: 1,
            modified: now,
            ..File::default()
        };
        self.create(path, Node::File(file))
    }

    pub(super) fn make_folder(&mut self, path: &Path) -> io::Result<()> {
        self.create(path, Node::Folder(Folder::default())).map(drop)
    }

    fn create(&mut self, path: &Path, node: Node) -> io::Result<Id> {
        if path.file_name().is_none() {
            return Err(Errno::EXIST.into()); // the root
        }
        let (folder, name) = self.split(path)?;
        if self.folder(folder)?.live.contains_key(name) {
            return Err(Errno::EXIST.into());
        }
        // Numbers are never reused: a name whose removal is not durable may come back after a
        // crash.
        let id = self.nodes.last_key_value().map_or(0, |(&last, _)| last + 1);
        self.nodes.insert(id, node);
        self.folder_mut(folder)?.change(name, Some(id));
        Ok(id)
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_folder, from_name) = self.split(from)?;
        let (to_folder, to_name) = self.split(to)?;
        let id = self.find(from)?;
        self.file(id)?;
        if self.folder(to_folder)?.live.contains_key(to_name) {
            return Err(Errno::EXIST.into());
        }
        self.folder_mut(to_folder)?.change(to_name, Some(id));
        self.folder_mut(from_folder)?.change(from_name, None);
        Ok(())
    }

    /// Removes the name of a file. Returns how many bytes that frees.
    pub(super) fn remove(&mut self, path: &Path) -> io::Result<usize> {
        let (folder, name) = self.split(path)?;
        let id = self.find(path)?;
        let file = self.file_mut(id)?;
        file.names -= 1;
        let freed = if file.names == 0 { file.live.len() } else { 0 };
        self.folder_mut(folder)?.change(name, None);
        Ok(freed)
    }

    pub(super) fn entries(&self, path: &Path) -> io::Result<Vec<FolderEntry>> {
        let folder = self.folder(self.find(path)?)?;
        let entries = folder.live.iter().map(|(name, id)| {
            let kind = match &self.nodes[id] {
                Node::File(file) => FolderEntryKind::File {
                    size: file.live.len() as u64,
                },
                Node::Folder(_) => FolderEntryKind::Folder,
            };
            FolderEntry {
                name: name.clone(),
                kind,
            }
        });
        Ok(entries.collect())
    }

    pub(super) fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
        let folder = self.find(path).and_then(|id| self.folder_mut(id))?;
        for change in std::mem::take(&mut folder.pending) {
            change.apply(&mut folder.durable);
        }
        Ok(())
    }

    /// Returns the state after a loss of power.
    pub(super) fn survive(&self, random: &mut Random) -> Self {
        let mut after = Self { nodes: BTreeMap::new() };
        // The chance in quarters that unsynced data survives: a fair coin would hardly ever lose,
        // or keep, all of it.
        let quarters = random.below(5);
        self.survive_below(ROOT, &mut after, random, quarters);
        after
    }

    fn survive_below(&self, id: Id, after: &mut Self, random: &mut Random, quarters: usize) {
        if let Some(Node::File(file)) = after.nodes.get_mut(&id) {
            file.names += 1; // reached before, by another name
            return;
        }
        match &self.nodes[&id] {
            Node::File(file) => {
                let live = file.survive(random, quarters);
                let durable = live.clone();
                let file = File {
                    live,
                    durable,
                    names: 1,
                    modified: file.modified,
                    ..File::default()
                };
                after.nodes.insert(id, Node::File(file));
            }
            Node::Folder(folder) => {
                let mut live = folder.durable.clone();
                for change in &folder.pending {
                    if random.chance(quarters) {
                        change.apply(&mut live);
                    }
                }
                for &target in live.values() {
                    self.survive_below(target, after, random, quarters);
                }
                let durable = live.clone();
                after.nodes.insert(
                    id,
                    Node::Folder(Folder {
                        live,
                        durable,
                        pending: Vec::new(),
                    }),
                );
            }
        }
    }

    /// Returns the state after the processes were killed: all data, but no locks.
    pub(super) fn forget_locks(&mut self) {
        for node in self.nodes.values_mut() {
            if let Node::File(file) = node {
                file.lock = None;
            }
        }
    }
}

impl File {
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.pending.push(Write {
            offset: self.live.len(),
            bytes: bytes.to_vec(),
        });
        self.live.extend_from_slice(bytes);
    }

    pub(super) fn sync(&mut self) {
        for write in std::mem::take(&mut self.pending) {
            place(&mut self.durable, write.offset, &write.bytes);
        }
    }

    /// Keeps earlier writes from ever becoming durable, although they can be read: as on Linux,
    /// where the kernel drops the pages that it could not write and a second sync succeeds.
    pub(super) fn fail_sync(&mut self) {
        self.pending.clear();
    }

    /// Changes stored bytes without the file system's knowledge.
    pub(super) fn damage(&mut self, damage: impl Fn(&mut Vec<u8>)) {
        damage(&mut self.live);
        damage(&mut self.durable);
    }

    fn survive(&self, random: &mut Random, quarters: usize) -> Vec<u8> {
        let mut content = self.durable.clone();
        for write in &self.pending {
            let length = write.bytes.len();
            if random.chance(quarters) {
                place(&mut content, write.offset, &write.bytes);
                continue;
            }
            match random.below(3) {
                0 => {}
                1 => place(&mut content, write.offset, &write.bytes[..random.below(length + 1)]),
                _ => {
                    // The new length survived, with a prefix of the data.
                    let mut torn = write.bytes.clone();
                    torn[random.below(length + 1)..].fill(0);
                    place(&mut content, write.offset, &torn);
                }
            }
        }
        content
    }
}

/// Writes `bytes` at `offset`, over existing bytes. A gap before it becomes zeros.
fn place(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

impl Folder {
    fn change(&mut self, name: &OsStr, target: Option<Id>) {
        let change = Change {
            name: name.to_owned(),
            target,
        };
        change.apply(&mut self.live);
        self.pending.push(change);
    }
}

impl Change {
    fn apply(&self, entries: &mut BTreeMap<OsString, Id>) {
        match self.target {
            Some(id) => entries.insert(self.name.clone(), id),
            None => entries.remove(&self.name),
        };
    }
}
