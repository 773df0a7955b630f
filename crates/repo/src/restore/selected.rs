//! The entries of a tree that a restore selects, and those that exist already.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use ibid_format::content::Content;
use ibid_format::tree::{EntryKind, TreeEntry};

use super::open_files::OpenFiles;
use super::target::{self, Stack};
use super::task::Task;
use crate::read::ChunkReader;
use crate::tree::{TreeStep, TreeWalk};
use crate::{Error, Result};

/// A step of [`Task::selected`].
pub(crate) enum Selected<'a> {
    /// `wanted` is false for a directory that only leads to entries that may be selected. The
    /// visitor returns whether to descend.
    Entry {
        path: &'a Path,
        entry: &'a TreeEntry,
        wanted: bool,
    },
    Leave,
    /// The rest of a directory's listing can't be read; its `Leave` follows.
    Damaged {
        path: &'a Path,
        error: Error,
    },
}

impl Task<'_> {
    /// Walks the selected entries; the visitor gets paths relative to the destination.
    pub(crate) fn selected<'r>(
        &self,
        reader: &'r ChunkReader<'r>,
        listing: &Content,
        single: Option<&TreeEntry>,
        visitor: &mut dyn FnMut(Selected<'_>) -> Result<bool>,
    ) -> Result<()> {
        if let Some(entry) = single {
            // A single file is selected by its path: patterns do not apply.
            self.selection.unmatched().clear();
            let path = Path::new(OsStr::from_bytes(&entry.name));
            return visitor(Selected::Entry {
                path,
                entry,
                wanted: true,
            })
            .map(drop);
        }
        let mut walk = TreeWalk::new(reader, listing);
        // For each directory on the path: whether all its entries are selected.
        let mut wanted = vec![self.selection.includes_all()];
        while let Some(step) = walk.next() {
            self.monitor.check_cancelled()?;
            let step = match step {
                // The rest of this directory is lost; others may be intact.
                Err(error) if error.is_fault() => {
                    let path = walk.path();
                    visitor(Selected::Damaged { path, error })?;
                    continue;
                }
                step => step?,
            };
            match step {
                TreeStep::Leave => {
                    wanted.pop();
                    visitor(Selected::Leave)?;
                }
                TreeStep::Entry(entry) => {
                    let path = walk.path();
                    let directory = matches!(entry.kind, EntryKind::Directory(_));
                    // Test in any case: the call records which patterns match.
                    let is_named = self.selection.includes(path, directory);
                    if self.selection.excludes(path, directory) {
                        continue;
                    }
                    let is_wanted = is_named || *wanted.last().expect("the root");
                    if !is_wanted && !directory {
                        continue;
                    }
                    let descend = visitor(Selected::Entry {
                        path,
                        entry: &entry,
                        wanted: is_wanted,
                    })?;
                    if let (EntryKind::Directory(listing), true) = (&entry.kind, descend) {
                        wanted.push(is_wanted);
                        walk.descend(listing);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns an error if an entry to restore, other than a directory, exists in the destination.
    pub(crate) fn refuse_existing<'r>(
        &self,
        reader: &'r ChunkReader<'r>,
        listing: &Content,
        single: Option<&TreeEntry>,
    ) -> Result<()> {
        let Some(root) = target::open_if_there(&self.destination)? else {
            return Ok(());
        };
        let is_empty = target::is_empty(&root, b".").map_err(|error| Error::local("read", &self.destination, error))?;
        if is_empty {
            return Ok(());
        }
        let mut stack = Stack::new(Arc::new(root), OpenFiles::within_limits().directories);
        self.selected(reader, listing, single, &mut |step| match step {
            Selected::Leave => {
                stack.pop();
                Ok(true)
            }
            // Reported when it is restored.
            Selected::Damaged { .. } => Ok(true),
            Selected::Entry { path, entry, .. } => {
                let full = self.destination.join(path);
                let parent = stack
                    .current()
                    .map_err(|error| Error::local("open the directory of", &full, error))?;
                match target::look(&parent, &entry.name).map_err(|error| Error::local("look at", &full, error))? {
                    None => Ok(false),
                    Some(stat) if target::is_directory(&stat) && matches!(entry.kind, EntryKind::Directory(_)) => {
                        stack.push(entry.name.clone());
                        Ok(true)
                    }
                    Some(_) => Err(Error::WouldOverwrite { path: full }),
                }
            }
        })
    }
}
