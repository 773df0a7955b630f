//! The loaded index, with the damage found while loading.

use ibid_format::{ChunkId, FileId, Keys};
use ibid_storage::Name;

use super::lookup::Index;
use crate::Result;
use crate::files::Files;
use crate::layout::{config_name, folder, name_in};
use crate::prune::PruneState;

/// The loaded index, with the damage found while loading.
pub(crate) struct LoadedIndex {
    pub(crate) index: Index,
    /// Packs that no index file lists, with their sizes in bytes.
    pub(crate) unlisted: Vec<(FileId, u64)>,
    /// Packs that an index file lists but that are missing or have another size.
    pub(crate) missing: Vec<MissingPack>,
    /// Unreadable index files, and packs with an unreadable directory, each with the problem.
    pub(crate) damaged: Vec<(Name, String)>,
    /// Bytes of index files.
    pub(crate) index_bytes: u64,
    /// The state of pruners.
    pub(crate) state: PruneState,
    /// Index files that were read, and that are trusted: what they list has its bases.
    pub(crate) trusted: Vec<FileId>,
    /// Index files that are not trusted.
    pub(crate) untrusted: Vec<FileId>,
}

/// Whose view of the packs is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Of a reader: condemned packs are still there.
    Reader,
    /// Of a writer: condemned packs are missing, because they may be deleted before its snapshot is stored.
    Writer,
    /// Of a pruner who considers to condemn these packs, too.
    Without(Vec<FileId>),
}

impl View {
    /// Returns the packs that are missing in this view though they are there, ascending.
    pub(super) fn left_out(&self, state: &PruneState) -> Vec<FileId> {
        let mut packs = match self {
            View::Reader => return Vec::new(),
            View::Writer => Vec::new(),
            View::Without(packs) => packs.clone(),
        };
        packs.extend(state.condemned());
        packs.sort_unstable();
        packs.dedup();
        packs
    }
}

/// A listed pack that is missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingPack {
    pub(crate) id: FileId,
    pub(crate) expected: u64,
    /// Its actual size in bytes, if it exists with another size.
    pub(crate) found: Option<u64>,
}

impl LoadedIndex {
    /// Returns whether packs are missing, so that frames may lack their bases.
    pub(super) fn lacks_packs(&self) -> bool {
        let is_pack = |(name, _): &(Name, String)| name.as_str().starts_with(folder::PACKS);
        !self.missing.is_empty() || self.damaged.iter().any(is_pack)
    }

    /// Returns whether all frames of a stored pack can be decoded.
    pub(crate) fn is_whole(&self, pack: FileId) -> bool {
        let frames = self.index.find_pack(pack).map(|number| self.index.frames_of(number));
        frames.is_some_and(|mut frames| !frames.any(|frame| self.index.lost().contains(frame)))
    }

    /// Returns a hash of the stored packs, those that a backup has added included; `None` if anything is
    /// missing or damaged.
    pub(crate) fn packs_hash(&self, keys: &Keys) -> Option<ChunkId> {
        if self.index.lacks_packs() || !self.damaged.is_empty() {
            return None;
        }
        let mut hash = keys.chunk_hasher();
        let add = |id: FileId, size: u64| {
            hash.add(&id.0);
            hash.add(&size.to_le_bytes());
        };
        // Without the hash, the next backup looks all chunks up.
        self.index.each_pack_sorted(add).ok()?;
        Some(hash.finish())
    }

    /// Syncs the objects that the next snapshot will rely on and that may not be durable yet: the
    /// config, and unlisted packs.
    ///
    /// A writer that has returned has made its object durable, but the writer of an object that
    /// another process merely sees may have been killed just before that. A listed pack was durable
    /// before its index file was written (here too: an unlisted pack is synced before an index file
    /// lists it), and so was everything that a snapshot needs. Losing an index file loses no data.
    pub(crate) fn settle(&self, files: &Files) -> Result<()> {
        let storage = &files.storage;
        storage.settle(&config_name())?;
        for (pack, _) in &self.unlisted {
            storage.settle(&name_in(folder::PACKS, *pack))?;
        }
        Ok(())
    }
}
