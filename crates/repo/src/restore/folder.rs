//! Directories of the destination that receive files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use ibid_format::tree::TreeEntry;
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::attributes::{self, Held, Owner};
use super::inode_flags;
use super::target;
use super::task::Task;
use crate::Warning;

/// Action on a directory when all its entries are done.
pub(crate) enum Then {
    /// Leave it unchanged.
    Nothing,
    /// Set it back to this mode, which did not permit writing.
    Mode(u32),
    /// Set all attributes from the snapshot.
    All(Option<Owner>, Box<TreeEntry>),
}

/// A directory that receives files. It gets its attributes on drop: when the planner has left it
/// and every file in it is done under all its names. Not before, because creating and removing
/// files changes its mtime, and its mode may forbid them.
pub(crate) struct Folder<'a> {
    task: &'a Task<'a>,
    root: &'a OwnedFd,
    /// Parent directory; `None` for the destination itself.
    above: Option<Arc<Folder<'a>>>,
    name: Vec<u8>,
    then: Then,
}

impl<'a> Folder<'a> {
    /// Returns the destination.
    pub(crate) fn destination(task: &'a Task<'a>, root: &'a OwnedFd, then: Then) -> Arc<Folder<'a>> {
        Arc::new(Folder {
            task,
            root,
            above: None,
            name: Vec::new(),
            then,
        })
    }

    pub(crate) fn within(above: &Arc<Folder<'a>>, name: &[u8], then: Then) -> Arc<Folder<'a>> {
        Arc::new(Folder {
            task: above.task,
            root: above.root,
            above: Some(above.clone()),
            name: name.to_vec(),
            then,
        })
    }

    /// Returns a directory that may have its attributes already, and keeps those that it has.
    pub(crate) fn reopened(above: &Arc<Folder<'a>>, name: &[u8]) -> Arc<Folder<'a>> {
        Folder::within(above, name, Then::Nothing)
    }

    /// Returns whether the directory and those on its path can be opened when they have their
    /// attributes.
    pub(crate) fn stays_open(&self) -> bool {
        let mut at = Some(self);
        while let Some(folder) = at {
            let mode = match &folder.then {
                Then::Nothing => 0o700,
                Then::Mode(mode) => *mode,
                Then::All(_, entry) => entry.mode,
            };
            if mode & 0o500 != 0o500 {
                return false;
            }
            at = folder.above.as_deref();
        }
        true
    }

    /// Returns the names on the path from the destination.
    pub(crate) fn names(&self) -> Vec<&[u8]> {
        let mut names = Vec::new();
        let mut at = self;
        while let Some(above) = &at.above {
            names.push(at.name.as_slice());
            at = above;
        }
        names.reverse();
        names
    }

    fn path(&self) -> PathBuf {
        let names = self.names().into_iter().map(OsStr::from_bytes);
        self.task.destination.join(names.collect::<PathBuf>())
    }

    pub(crate) fn open(&self) -> Result<OwnedFd, Errno> {
        target::open_beneath(self.root, &self.names())
    }

    fn finish(&mut self) {
        let then = std::mem::replace(&mut self.then, Then::Nothing);
        if matches!(then, Then::Nothing) {
            return;
        }
        let faults = match self.open() {
            Err(error) => vec![("all".to_owned(), error.into())],
            Ok(directory) => match then {
                Then::Nothing => Vec::new(),
                Then::Mode(mode) => {
                    let given_back = Held::open(&directory).chmod(mode);
                    given_back
                        .err()
                        .map(|error| ("mode".to_owned(), error.into()))
                        .into_iter()
                        .collect()
                }
                Then::All(owner, entry) => {
                    let held = Held::open(&directory);
                    let mut faults = attributes::mend_attributes(&held, &entry, owner);
                    faults.extend(inode_flags::set_last(self.task, &held, &entry));
                    faults
                }
            },
        };
        for (what, source) in faults {
            let path = self.path();
            self.task.monitor.warn(Warning::Attributes { path, what, source });
        }
    }
}

impl Drop for Folder<'_> {
    fn drop(&mut self) {
        self.finish();
        // Use a loop: recursion over a deep tree would overflow the stack.
        let mut above = self.above.take();
        while let Some(mut folder) = above.and_then(Arc::into_inner) {
            folder.finish();
            above = folder.above.take();
        }
    }
}
