//! The chunks that snapshots need.

use ibid_format::ChunkId;
use ibid_format::content::{Content, Item};
use ibid_format::pack::PackKind;
use ibid_format::tree::EntryKind;

use super::{Items, TreeStep, TreeWalk, content_key};
use crate::index::IdMap;
use crate::read::ChunkReader;
use crate::{ProgressCounters, Repository, Result};

/// Called with a chunk that is needed, its length in bytes, and the kind of pack that it belongs in.
pub(crate) type Each<'e> = &'e mut dyn FnMut(&ChunkId, u32, PackKind) -> Result<()>;

/// Visits the chunks that snapshots need. Equal directories, and equal files of many chunks, are visited once.
pub(crate) struct Reach<'a> {
    repository: &'a Repository,
    reader: &'a ChunkReader<'a>,
    met: IdMap,
}

impl<'a> Reach<'a> {
    pub(crate) fn new(repository: &'a Repository, reader: &'a ChunkReader<'a>) -> Reach<'a> {
        Reach {
            repository,
            reader,
            met: IdMap::new(&repository.scratch()),
        }
    }

    /// Calls `each` with the chunks that the tree of this root needs, with their lengths in bytes and the kind of
    /// pack that they belong in; some of them several times.
    ///
    /// # Errors
    /// Trees that can't be read: what is below is then unknown.
    pub(crate) fn visit(&mut self, root: &Content, each: Each<'_>) -> Result<()> {
        if !self.enter(root)? {
            return Ok(());
        }
        self.content(root, PackKind::Metadata, each)?;
        let mut walk = TreeWalk::new(self.reader, root);
        while let Some(step) = walk.next() {
            self.repository.monitor.check_cancelled()?;
            let TreeStep::Entry(entry) = step? else { continue };
            match &entry.kind {
                EntryKind::Directory(listing) if self.enter(listing)? => {
                    self.content(listing, PackKind::Metadata, each)?;
                    walk.descend(listing);
                }
                EntryKind::File(content) if content.depth == 0 || self.enter(content)? => {
                    ProgressCounters::add(&self.repository.monitor.counters.files, 1);
                    self.content(content, PackKind::Data, each)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns whether a content was not met before.
    fn enter(&mut self, content: &Content) -> Result<bool> {
        let key = content_key(&self.repository.files.keys, content);
        let is_new = self.met.get(key)?.is_none();
        if is_new {
            self.met.insert(key, 0)?;
        }
        Ok(is_new)
    }

    /// Passes on the chunks of a content, and those of the lists that lead to them.
    fn content(&self, content: &Content, kind: PackKind, each: Each<'_>) -> Result<()> {
        let mut items = Items::noting(self.reader, content);
        let mut pass = |item: &Item, kind| match item {
            Item::Chunk { id, length } => each(id, *length, kind),
            Item::Hole { .. } => Ok(()),
        };
        while let Some(item) = items.next() {
            pass(&item?, kind)?;
            items.noted().try_for_each(|list| pass(&list, PackKind::Metadata))?;
        }
        items.noted().try_for_each(|list| pass(&list, PackKind::Metadata))
    }
}
