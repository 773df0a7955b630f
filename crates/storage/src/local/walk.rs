//! Lists the content of the folder.

use std::path::{Path, PathBuf};

use super::sweep::is_temporary;
use super::{Local, is_absent};
use crate::disk::{Disk, FolderEntryKind};
use crate::name::{RESERVED, SEGMENTS_MAX};
use crate::{Error, Name, Operation};

/// An entry that a walk finds.
pub(super) enum Item {
    Object(Name, u64),
    Foreign(PathBuf),
}

impl<D: Disk> Local<D> {
    /// The paths, relative to the folder, of everything in it that is neither an object nor an
    /// unfinished file: what [`Storage::list`](crate::Storage::list) leaves out.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn foreign(&self) -> Result<Vec<PathBuf>, Error> {
        let mut found = Vec::new();
        self.walk("", 0, &mut |item| {
            if let Item::Foreign(path) = item {
                found.push(path);
            }
        })?;
        let unfinished = self.disk.list(&self.root.join(RESERVED)).unwrap_or_default();
        let others = unfinished.into_iter().filter(|entry| !is_temporary(&entry.name));
        found.extend(others.map(|entry| Path::new(RESERVED).join(entry.name)));
        Ok(found)
    }

    /// Visits the names of all entries of `folder` that are no files.
    pub(super) fn taken(&self, folder: &str, each: &mut dyn FnMut(Name)) -> Result<(), Error> {
        let entries = match self.disk.list(&self.path(folder)) {
            Err(error) if !folder.is_empty() && is_absent(&error) => return self.check_root(),
            entries => entries.map_err(|error| self.error(error, Operation::List, None))?,
        };
        let others = entries
            .into_iter()
            .filter(|entry| !matches!(entry.kind, FolderEntryKind::File { .. }));
        for entry in others {
            let path = Path::new(folder).join(entry.name);
            if let Some(name) = path.to_str().and_then(|name| Name::new(name).ok()) {
                each(name);
            }
        }
        Ok(())
    }

    /// Visits all entries below `folder`, which has `depth` segments.
    pub(super) fn walk(&self, folder: &str, depth: usize, each: &mut dyn FnMut(Item)) -> Result<(), Error> {
        let entries = match self.disk.list(&self.path(folder)) {
            // A missing folder is empty, unless the root is also gone: then an empty list would be
            // wrong.
            Err(error) if depth > 0 && is_absent(&error) => return self.check_root(),
            entries => entries.map_err(|error| self.error(error, Operation::List, None))?,
        };
        for entry in entries {
            let relative = Path::new(folder).join(&entry.name);
            let name = relative.to_str().and_then(|name| Name::new(name).ok());
            match (name, entry.kind) {
                (Some(name), FolderEntryKind::File { size }) => each(Item::Object(name, size)),
                (Some(name), FolderEntryKind::Folder) if depth + 1 < SEGMENTS_MAX => {
                    self.walk(name.as_str(), depth + 1, each)?;
                }
                _ if depth == 0 && entry.name == RESERVED => {}
                _ => each(Item::Foreign(relative)),
            }
        }
        Ok(())
    }

    fn check_root(&self) -> Result<(), Error> {
        let listed = self.disk.list(&self.root);
        listed
            .map(drop)
            .map_err(|error| self.error(error, Operation::List, None))
    }
}
