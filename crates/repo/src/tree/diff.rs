//! Differences between two snapshots.

use std::ffi::OsStr;
use std::iter::Peekable;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ibid_format::content::Content;
use ibid_format::tree::{EntryKind, TreeEntry};

use super::recipe::Entries;
use super::visit::Found;
use crate::read::ChunkReader;
use crate::{Monitor, Repository, Result, SnapshotPath};

/// Type of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Only in the second.
    Added,
    /// Only in the first.
    Removed,
    /// In both, with other contents (a file's bytes, a symlink's target, a device's numbers).
    Modified,
    /// In both, with the same contents and other attributes (mode, owner, mtime, extended
    /// attributes).
    Attributes,
    /// In both, with different file types.
    Type,
}

/// One difference. An added or removed directory is followed by everything below it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Difference<'a> {
    /// Type of the difference.
    pub change: Change,
    /// Path, relative to the two compared paths.
    pub path: &'a Path,
    /// Entry in the first snapshot.
    pub old: Option<&'a TreeEntry>,
    /// Entry in the second snapshot.
    pub new: Option<&'a TreeEntry>,
}

impl Repository {
    /// Passes every difference between two (sub)trees to `visitor`, in order of paths. Equal
    /// subtrees are not read.
    ///
    /// # Errors
    /// [`Error::NoSuchPath`](crate::Error::NoSuchPath); damage; the visitor's own errors.
    pub fn diff<'a, 'b>(
        &self,
        old: impl Into<SnapshotPath<'a>>,
        new: impl Into<SnapshotPath<'b>>,
        mut visitor: impl FnMut(&Difference<'_>) -> Result<()>,
    ) -> Result<()> {
        let reader = self.tree_reader()?;
        let (a, b) = (self.find(&reader, &old.into())?, self.find(&reader, &new.into())?);
        let mut walk = Walk {
            reader: &reader,
            monitor: &self.monitor,
            visitor: &mut visitor,
            levels: Vec::new(),
        };
        match (listing(&a), listing(&b)) {
            (Some(a), Some(b)) => walk.run(Some(a), Some(b)),
            _ => match (a, b) {
                (Found::Entry(a), Found::Entry(b)) => {
                    walk.compare(&a, &b, Path::new(OsStr::from_bytes(&b.name))).map(drop)
                }
                _ => Ok(()),
            },
        }
    }
}

/// Passes every difference between two listings to `visitor`. Without the first, all of the second is added.
pub(crate) fn changes<'r>(
    reader: &'r ChunkReader<'r>,
    monitor: &Monitor,
    old: Option<&Content>,
    new: &Content,
    visitor: &mut dyn FnMut(&Difference<'_>) -> Result<()>,
) -> Result<()> {
    let levels = Vec::new();
    let mut walk = Walk {
        reader,
        monitor,
        visitor,
        levels,
    };
    walk.run(old, Some(new))
}

fn listing(found: &Found) -> Option<&Content> {
    match found {
        Found::Root(listing) => Some(listing),
        Found::Entry(entry) => match &entry.kind {
            EntryKind::Directory(listing) => Some(listing),
            _ => None,
        },
    }
}

/// A pair of directories being compared; one of them may not exist.
struct Level<'r> {
    old: Option<Peekable<Entries<'r>>>,
    new: Option<Peekable<Entries<'r>>>,
    path: PathBuf,
}

struct Walk<'r, 'v> {
    reader: &'r ChunkReader<'r>,
    monitor: &'v Monitor,
    visitor: &'v mut dyn FnMut(&Difference<'_>) -> Result<()>,
    levels: Vec<Level<'r>>,
}

/// Returns the entries of the next name in two sorted listings.
fn next_pair<'r>(level: &mut Level<'r>) -> Result<Option<(Option<TreeEntry>, Option<TreeEntry>)>> {
    let name = |entries: &mut Option<Peekable<Entries<'r>>>| match entries.as_mut().and_then(|entries| entries.peek()) {
        Some(Ok(entry)) => Some(entry.name.clone()),
        Some(Err(_)) => Some(Vec::new()), // comes first, and is passed on below
        None => None,
    };
    let (old, new) = (name(&mut level.old), name(&mut level.new));
    let take_old = old.is_some() && (new.is_none() || old <= new);
    let take_new = new.is_some() && (old.is_none() || new <= old);
    let take = |entries: &mut Option<Peekable<Entries<'r>>>, take: bool| match entries {
        Some(entries) if take => entries.next().transpose(),
        _ => Ok(None),
    };
    let pair = (take(&mut level.old, take_old)?, take(&mut level.new, take_new)?);
    Ok((pair.0.is_some() || pair.1.is_some()).then_some(pair))
}

impl<'r> Walk<'r, '_> {
    fn run(&mut self, old: Option<&Content>, new: Option<&Content>) -> Result<()> {
        self.push(old, new, PathBuf::new());
        while let Some(level) = self.levels.last_mut() {
            self.monitor.check_cancelled()?;
            let Some((old, new)) = next_pair(level)? else {
                self.levels.pop();
                continue;
            };
            let name = &old.as_ref().or(new.as_ref()).expect("one of them is there").name;
            let path = level.path.join(OsStr::from_bytes(name));
            match (&old, &new) {
                (Some(a), Some(b)) => {
                    self.compare(a, b, &path)?;
                    match (directory(a), directory(b)) {
                        (Some(x), Some(y)) if x == y => {}
                        (None, None) => {}
                        (x, y) => self.push(x, y, path),
                    }
                }
                (one, None) | (None, one) => {
                    let change = if old.is_some() { Change::Removed } else { Change::Added };
                    (self.visitor)(&Difference {
                        change,
                        path: &path,
                        old: old.as_ref(),
                        new: new.as_ref(),
                    })?;
                    let inside = one.as_ref().and_then(directory);
                    if inside.is_some() {
                        let (x, y) = if old.is_some() { (inside, None) } else { (None, inside) };
                        self.push(x, y, path);
                    }
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, old: Option<&Content>, new: Option<&Content>, path: PathBuf) {
        let entries = |listing: &Content| Entries::new(self.reader, listing).peekable();
        self.levels.push(Level {
            old: old.map(entries),
            new: new.map(entries),
            path,
        });
    }

    fn compare(&mut self, old: &TreeEntry, new: &TreeEntry, path: &Path) -> Result<()> {
        let change = if std::mem::discriminant(&old.kind) != std::mem::discriminant(&new.kind) {
            Change::Type
        } else if old.kind != new.kind && directory(old).is_none() {
            Change::Modified
        } else if (old.mode, old.uid, old.gid, old.mtime, old.inode_flags, &old.xattrs)
            != (new.mode, new.uid, new.gid, new.mtime, new.inode_flags, &new.xattrs)
        {
            Change::Attributes
        } else {
            return Ok(());
        };
        (self.visitor)(&Difference {
            change,
            path,
            old: Some(old),
            new: Some(new),
        })
    }
}

fn directory(entry: &TreeEntry) -> Option<&Content> {
    match &entry.kind {
        EntryKind::Directory(listing) => Some(listing),
        _ => None,
    }
}
