//! Going through what a snapshot holds.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ibid_format::content::{Content, Item};
use ibid_format::tree::{EntryKind, TreeEntry};

use super::recipe::{Entries, Items};
use super::walk::{TreeStep, TreeWalk};
use crate::read::ChunkReader;
use crate::{Error, Monitor, Repository, Result, SnapshotInfo};

/// What a visitor wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Go on; into the directory, if it is one.
    Descend,
    /// Go on, but not into this directory.
    Skip,
}

/// What stands at a path of a snapshot.
pub(crate) enum Found {
    /// The root, which has no entry of its own.
    Root(Content),
    Entry(Box<TreeEntry>),
}

/// Names of the kinds of entries, for messages.
pub fn kind_name(kind: &EntryKind) -> &'static str {
    match kind {
        EntryKind::File(_) => "a file",
        EntryKind::Directory(_) => "a directory",
        EntryKind::Symlink(_) => "a symlink",
        EntryKind::Fifo => "a FIFO",
        EntryKind::Socket => "a socket",
        EntryKind::CharDevice { .. } => "a character device",
        EntryKind::BlockDevice { .. } => "a block device",
    }
}

/// The names of a path inside a snapshot; a leading slash, double slashes and `.` mean nothing.
pub(crate) fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
}

impl Repository {
    /// What stands at `path` in a snapshot.
    pub(crate) fn find(&self, reader: &ChunkReader<'_>, info: &SnapshotInfo, path: &[u8]) -> Result<Found> {
        let missing = || Error::NoSuchPath {
            snapshot: info.short_id(),
            path: PathBuf::from(OsStr::from_bytes(path)),
        };
        let mut found = Found::Root(info.snapshot.root.clone());
        for name in components(path) {
            let listing = match &found {
                Found::Root(listing) => listing,
                Found::Entry(entry) => match &entry.kind {
                    EntryKind::Directory(listing) => listing,
                    _ => return Err(missing()),
                },
            };
            let mut next = None;
            for entry in Entries::new(reader, listing) {
                let entry = entry?;
                if entry.name.as_slice() >= name {
                    next = (entry.name == name).then_some(entry);
                    break;
                }
            }
            found = Found::Entry(Box::new(next.ok_or_else(missing)?));
        }
        Ok(found)
    }

    /// Visits what is at and below `path` of a snapshot, parents first, in order of names. The
    /// visitor gets paths from the snapshot's root, and decides whether a directory is
    /// descended into.
    ///
    /// # Errors
    /// [`Error::NoSuchPath`]; damage; the visitor's own errors.
    pub fn visit(
        &self,
        info: &SnapshotInfo,
        path: &[u8],
        monitor: &Monitor,
        visitor: &mut dyn FnMut(&Path, &TreeEntry) -> Result<Visit>,
    ) -> Result<()> {
        let reader = self.tree_reader(monitor)?;
        let base: Vec<u8> = components(path).collect::<Vec<_>>().join(&b'/');
        let base = Path::new(OsStr::from_bytes(&base));
        let listing = match self.find(&reader, info, path)? {
            Found::Root(listing) => listing,
            Found::Entry(entry) => {
                let visit = visitor(base, &entry)?;
                match (&entry.kind, visit) {
                    (EntryKind::Directory(listing), Visit::Descend) => listing.clone(),
                    _ => return Ok(()),
                }
            }
        };
        let mut walk = TreeWalk::new(&reader, &listing);
        while let Some(step) = walk.next() {
            monitor.check_cancelled()?;
            if let TreeStep::Entry(entry) = step? {
                let visit = visitor(&base.join(walk.path()), &entry)?;
                if let (EntryKind::Directory(listing), Visit::Descend) = (&entry.kind, visit) {
                    walk.descend(listing);
                }
            }
        }
        Ok(())
    }

    /// Writes the contents of the file at `path` to `out`; returns how many bytes. Nothing that was
    /// not verified is written.
    ///
    /// # Errors
    /// [`Error::NoSuchPath`], [`Error::WrongType`] for anything but a file; damage;
    /// [`Error::Pipe`].
    pub fn dump(&self, info: &SnapshotInfo, path: &[u8], monitor: &Monitor, out: &mut dyn Write) -> Result<u64> {
        let reader = self.tree_reader(monitor)?;
        let wrong = |found| Error::WrongType {
            snapshot: info.short_id(),
            path: PathBuf::from(OsStr::from_bytes(path)),
            expected: "a file",
            found,
        };
        let content = match self.find(&reader, info, path)? {
            Found::Root(_) => return Err(wrong("the root of the snapshot")),
            Found::Entry(entry) => match entry.kind {
                EntryKind::File(content) => content,
                other => return Err(wrong(kind_name(&other))),
            },
        };
        let failed = |source| Error::Pipe {
            action: "write the file's contents",
            source,
        };
        let mut buffer = Vec::new();
        for item in Items::new(&reader, &content) {
            monitor.check_cancelled()?;
            match item? {
                Item::Chunk { id, length } => {
                    buffer.clear();
                    reader.read(&id, length, &mut buffer)?;
                    out.write_all(&buffer).map_err(failed)?;
                    crate::Counters::add(&monitor.counters.bytes, u64::from(length));
                }
                Item::Hole { length } => write_zeros(out, length).map_err(failed)?,
            }
        }
        out.flush().map_err(failed)?;
        Ok(content.length)
    }
}

fn write_zeros(out: &mut dyn Write, mut length: u64) -> std::io::Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    while length > 0 {
        let now = length.min(ZEROS.len() as u64);
        out.write_all(&ZEROS[..now as usize])?;
        length -= now;
    }
    Ok(())
}
