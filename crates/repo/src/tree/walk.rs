//! Walks a listing and everything below it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ibid_format::content::Content;
use ibid_format::tree::TreeEntry;

use super::recipe::Entries;
use crate::Result;
use crate::read::ChunkReader;

/// Depth-first walk over a listing; paths are relative to its start.
pub(crate) struct TreeWalk<'r> {
    reader: &'r ChunkReader<'r>,
    /// Open listings, each with the length of its directory's path.
    levels: Vec<(Entries<'r>, usize)>,
    path: Vec<u8>,
}

/// A step of a [`TreeWalk`].
pub(crate) enum TreeStep {
    Entry(Box<TreeEntry>),
    Leave,
}

impl<'r> TreeWalk<'r> {
    pub(crate) fn new(reader: &'r ChunkReader<'r>, listing: &Content) -> TreeWalk<'r> {
        TreeWalk {
            reader,
            levels: vec![(Entries::new(reader, listing), 0)],
            path: Vec::new(),
        }
    }

    /// Returns the path of the last entry.
    pub(crate) fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    /// Returns the next entry, or the end of a directory that was entered.
    pub(crate) fn next(&mut self) -> Option<Result<TreeStep>> {
        let (entries, length) = self.levels.last_mut()?;
        self.path.truncate(*length);
        match entries.next() {
            Some(Ok(entry)) => {
                if !self.path.is_empty() {
                    self.path.push(b'/');
                }
                self.path.extend_from_slice(&entry.name);
                Some(Ok(TreeStep::Entry(Box::new(entry))))
            }
            Some(Err(error)) => Some(Err(error)),
            None => {
                self.levels.pop();
                (!self.levels.is_empty()).then_some(Ok(TreeStep::Leave))
            }
        }
    }

    /// Enters the directory that was the last entry; its [`TreeStep::Leave`] follows.
    pub(crate) fn descend(&mut self, listing: &Content) {
        if let Some((entries, _)) = self.levels.last() {
            entries.fetch_ahead(listing);
        }
        self.levels.push((Entries::new(self.reader, listing), self.path.len()));
    }
}
