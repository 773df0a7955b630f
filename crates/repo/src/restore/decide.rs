//! Decides what to do about an entry, given the existing file in its place.

use std::path::Path;

use ibid_format::content::Content;
use ibid_format::tree::{EntryKind, TreeEntry};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::attributes::{self, Held, Owner};
use super::inode_flags::Lock;
use super::options::Overwrite;
use super::target;
use super::task::Task;
use crate::read::ChunkReader;
use crate::source::Opened;
use crate::{Error, Result};

/// Action for an entry that is not a directory.
pub(crate) enum Decision {
    /// Nothing exists there.
    Create,
    /// The rule keeps the existing file.
    Keep,
    /// The existing file is right except perhaps for its attributes, and no other name shares
    /// these.
    Right,
    /// A regular file that can be updated in place; its length.
    Patch(OwnedFd, u64),
    /// The existing file is replaced once the new one is complete.
    Replace,
}

impl Task<'_> {
    /// Decides about `entry`, in whose place `existing` was found.
    pub(crate) fn decide(
        &self,
        reader: &ChunkReader<'_>,
        parent: &OwnedFd,
        entry: &TreeEntry,
        owner: Option<Owner>,
        existing: Option<&Stat>,
        path: &Path,
    ) -> Result<Decision> {
        let Some(stat) = existing else {
            return Ok(Decision::Create);
        };
        match self.options.overwrite {
            // Nothing existed when the restore began. The file was created since, or the file
            // system treats two names as one.
            Overwrite::Refuse => return Err(target::exists(path)),
            Overwrite::Never => return Ok(Decision::Keep),
            Overwrite::Always | Overwrite::IfChanged => {}
        }
        let name = entry.name.as_slice();
        let same = match &entry.kind {
            _ if target::is_directory(stat) => {
                return match target::is_empty(parent, name) {
                    Ok(true) => Ok(Decision::Replace),
                    Ok(false) => Err(target::cannot_replace(path, Errno::NOTEMPTY)),
                    Err(error) => Err(target::cannot_replace(path, error)),
                };
            }
            EntryKind::File(_) if !target::is_file(stat) => false,
            EntryKind::File(content) => {
                if self.passes_for_right(entry, content, stat) {
                    true
                } else {
                    // Do not write to a file with other names: they may be outside the destination.
                    // Nor write data that may be damaged.
                    if stat.st_nlink == 1
                        && !self.options.keep_damaged
                        && let Some((file, length)) = target::open_existing(parent, name)
                    {
                        return Ok(Decision::Patch(file, length));
                    }
                    self.has_contents(reader, parent, name, content, path)
                }
            }
            kind => is_same_special(kind, stat, parent, name),
        };
        // All names of a file share its attributes.
        let right = same
            && (stat.st_nlink == 1
                || Held::at(parent, name).is_ok_and(|held| attributes::are_right(&held, entry, owner)));
        if right {
            return Ok(Decision::Right);
        }
        // Found out before anything is written.
        match Lock::of(parent, name) {
            Some(lock) => Err(Error::local("replace", path, lock.error("it"))),
            None => match Lock::of(parent, b"") {
                Some(lock) => Err(Error::local("replace", path, lock.error("its folder"))),
                None => Ok(Decision::Replace),
            },
        }
    }

    fn passes_for_right(&self, entry: &TreeEntry, content: &Content, stat: &Stat) -> bool {
        self.options.overwrite == Overwrite::IfChanged
            && stat.st_size as u64 == content.length
            && attributes::has_mtime(stat, entry)
    }

    /// Returns whether a file that must not be written to has the right contents. A file that can't
    /// be read is replaced.
    fn has_contents(
        &self,
        reader: &ChunkReader<'_>,
        parent: &OwnedFd,
        name: &[u8],
        content: &Content,
        path: &Path,
    ) -> bool {
        let mut equal = true;
        Opened::open(parent, name).is_ok_and(|file| {
            file.stat.st_size as u64 == content.length
                && self
                    .compare(reader, &file, content, path, &mut |piece| {
                        equal = piece.equal;
                        equal
                    })
                    .is_ok()
        }) && equal
    }
}

fn is_same_special(kind: &EntryKind, stat: &Stat, parent: &OwnedFd, name: &[u8]) -> bool {
    let there = FileType::from_raw_mode(stat.st_mode);
    let device = |major: &u32, minor: &u32| stat.st_rdev == rustix::fs::makedev(*major, *minor);
    match kind {
        EntryKind::Symlink(target) => {
            there == FileType::Symlink
                && rustix::fs::readlinkat(parent, name, Vec::new()).is_ok_and(|to| to.as_bytes() == target.as_slice())
        }
        EntryKind::Fifo => there == FileType::Fifo,
        EntryKind::Socket => there == FileType::Socket,
        EntryKind::CharDevice { major, minor } => there == FileType::CharacterDevice && device(major, minor),
        EntryKind::BlockDevice { major, minor } => there == FileType::BlockDevice && device(major, minor),
        EntryKind::File(_) | EntryKind::Directory(_) => false,
    }
}
