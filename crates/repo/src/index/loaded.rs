//! The index as it was loaded, and what was found wrong on the way.

use std::collections::HashSet;

use ibid_format::FileId;
use ibid_format::pack::PackSummary;
use ibid_storage::Name;

use super::memory::Index;
use crate::Result;
use crate::files::Files;
use crate::layout::{config_name, folder, name_in};

/// The index in memory and how it came about.
pub(crate) struct LoadedIndex {
    pub(crate) index: Index,
    /// Packs that no index file lists.
    pub(crate) unlisted: Vec<PackSummary>,
    /// Packs that an index file lists but that are not there, or not of the size they had.
    pub(crate) missing: Vec<MissingPack>,
    /// Index files that can't be read, and packs whose directory can't be.
    pub(crate) damaged: Vec<(Name, String)>,
    /// Numbers of frames that depend on chunks which are lost with a pack. Their chunks are unknown to
    /// the index.
    pub(crate) lost: HashSet<u32>,
    /// Bytes of index files.
    pub(crate) index_bytes: u64,
}

/// A pack that should be there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingPack {
    pub(crate) id: FileId,
    pub(crate) expected: u64,
    /// Its size, if there is one of another size.
    pub(crate) found: Option<u64>,
}

impl LoadedIndex {
    pub(super) fn empty() -> LoadedIndex {
        LoadedIndex {
            index: Index::new(),
            unlisted: Vec::new(),
            missing: Vec::new(),
            damaged: Vec::new(),
            lost: HashSet::new(),
            index_bytes: 0,
        }
    }

    /// Packs that are there.
    pub(super) fn packs(&self) -> HashSet<FileId> {
        self.index.packs.iter().map(|pack| pack.id).collect()
    }

    /// Whether packs are lost, so that frames may lack what they are encoded against.
    pub(super) fn lacks_packs(&self) -> bool {
        let is_pack = |(name, _): &(Name, String)| name.as_str().starts_with(folder::PACKS);
        !self.missing.is_empty() || self.damaged.iter().any(is_pack)
    }

    /// Makes durable what the next snapshot will rely on and what may not be durable yet: the config,
    /// and packs that are adopted.
    ///
    /// A writer that has returned has made its object durable; but the writer of an object that is
    /// only *seen* may have been killed a moment before that. Packs that an index file lists were
    /// durable before it was written (here too: an adopted pack is settled before an index file
    /// lists it), and so was everything that a snapshot needs. An index file that vanishes takes
    /// nothing with it.
    pub(crate) fn settle(&self, files: &Files) -> Result<()> {
        let storage = &files.storage;
        storage.settle(&config_name())?;
        for pack in &self.unlisted {
            storage.settle(&name_in(folder::PACKS, pack.id))?;
        }
        Ok(())
    }
}
