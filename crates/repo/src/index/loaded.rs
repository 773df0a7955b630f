//! The loaded index, with the damage found while loading.

use std::collections::HashSet;

use ibid_format::pack::{PackKind, PackSummary};
use ibid_format::{ChunkId, FileId, Keys};
use ibid_storage::Name;

use super::frames::Pack;
use super::lookup::Index;
use crate::files::Files;
use crate::layout::{config_name, folder, name_in};
use crate::listed::Listed;
use crate::prune::PruneState;
use crate::prune::rules::{self, Rule};
use crate::threads::{REQUESTS, each};
use crate::{Repository, Result, Warning};

/// The loaded index, with the damage found while loading.
pub(crate) struct LoadedIndex {
    pub(crate) index: Index,
    /// Packs that no index file lists, with their sizes in bytes.
    pub(crate) unlisted: Vec<(FileId, u64)>,
    /// Packs that an index file lists but that are missing, or cut short.
    pub(crate) missing: Vec<MissingPack>,
    /// Packs that are there again, after a repair had given them up: a prune may have freed what they need.
    pub(crate) returned: Vec<FileId>,
    /// Packs with bytes after their ends. All that is in them can be read.
    pub(crate) longer: Vec<LongerPack>,
    /// Unreadable index files, and packs with an unreadable directory.
    pub(crate) damaged: Vec<DamagedFile>,
    /// Packs in an archive of which nothing is known: no index file lists them, and they can't be read.
    pub(crate) archived: Vec<FileId>,
    /// All index files, with their sizes in bytes.
    pub(crate) index_files: Vec<(FileId, u64)>,
    /// The state of pruners.
    pub(crate) state: PruneState,
    /// Index files that were read, and that are trusted: what they list has its bases.
    pub(crate) trusted: Vec<FileId>,
    /// Index files that are not trusted.
    pub(crate) untrusted: Vec<FileId>,
    /// What was listed together with them, and was not asked for yet.
    pub(crate) listed: Listed,
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
    pub(crate) fn left_out(&self, state: &PruneState) -> Vec<FileId> {
        let mut packs = match self {
            View::Reader => return Vec::new(),
            View::Writer if !rules::holds(Rule::CondemnedIsMissing) => return Vec::new(),
            View::Writer => Vec::new(),
            View::Without(packs) => packs.clone(),
        };
        packs.extend(state.condemned());
        packs.sort_unstable();
        packs.dedup();
        packs
    }
}

/// Packs that are not whole.
#[derive(Clone, Debug)]
pub(crate) struct LostPacks {
    pub(crate) missing: u64,
    pub(crate) cut: u64,
    pub(crate) unreadable: u64,
    /// The names of the first of them.
    named: Vec<Name>,
}

impl LostPacks {
    /// Names that a message has at most.
    pub(super) const NAMED_MAX: usize = 10;

    /// Returns how many there are.
    pub(crate) fn count(&self) -> u64 {
        self.missing + self.cut + self.unreadable
    }

    /// Tells of them, if there are any.
    pub(crate) fn tell(self, repository: &Repository) {
        if self.count() == 0 {
            return;
        }
        repository.monitor.warn(Warning::LostPacks {
            missing: self.missing,
            cut: self.cut,
            unreadable: self.unreadable,
            named: self.named.iter().map(Name::to_string).collect(),
            party: repository.party(),
        });
    }
}

/// A file of the repository that can't be read.
#[derive(Clone, Debug)]
pub(crate) struct DamagedFile {
    pub(crate) name: Name,
    pub(crate) problem: String,
    /// Whether its [bytes are damaged](crate::Error::is_of_content).
    pub(crate) is_of_content: bool,
}

impl DamagedFile {
    /// Returns an entry of the prune log that can't be read, with the problem. It is never replaced.
    pub(super) fn of_log((name, problem): &(Name, String)) -> DamagedFile {
        DamagedFile {
            name: name.clone(),
            problem: problem.clone(),
            is_of_content: false,
        }
    }

    /// Returns whether it is a pack.
    pub(crate) fn is_pack(&self) -> bool {
        self.name.is_in(folder::PACKS)
    }
}

/// A listed pack that is missing, or whose end is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingPack {
    pub(crate) id: FileId,
    pub(crate) expected: u64,
    /// Its actual size in bytes, if it exists: smaller than expected.
    pub(crate) found: Option<u64>,
    /// Whether a repair has dealt with it: what could be salvaged is in other packs.
    pub(crate) is_set_aside: bool,
}

/// A pack with bytes after its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongerPack {
    pub(crate) id: FileId,
    /// Bytes after its end.
    pub(crate) excess: u64,
}

impl LongerPack {
    /// Returns a pack whose file has `size` bytes, if that is more than its directory says.
    pub(super) fn of(summary: &PackSummary, size: u64) -> Option<LongerPack> {
        let excess = size.checked_sub(summary.size).filter(|excess| *excess > 0)?;
        Some(LongerPack { id: summary.id, excess })
    }
}

impl LoadedIndex {
    /// Records that a listed pack is missing or has another size. What lies within the file can be read:
    /// each frame has a seal of its own.
    pub(super) fn meet(&mut self, number: u32, pack: MissingPack) {
        match pack.found {
            Some(found) if found > pack.expected => {
                let excess = found - pack.expected;
                return self.longer.push(LongerPack { id: pack.id, excess });
            }
            Some(found) => self.index.cut(number, found),
            None => self.index.miss(number),
        }
        self.missing.push(pack);
    }

    /// Returns the packs that are missing, cut short, and unreadable. Those that a repair has dealt with do not
    /// count.
    pub(crate) fn lost_packs(&self) -> LostPacks {
        let unreadable = self.damaged.iter().filter(|file| file.is_pack());
        let missing = self.missing.iter().filter(|pack| !pack.is_set_aside);
        let cut = missing.clone().filter(|pack| pack.found.is_some()).count();
        let names = missing.clone().map(|pack| name_in(folder::PACKS, pack.id));
        let names = names.chain(unreadable.clone().map(|file| file.name.clone()));
        LostPacks {
            missing: (missing.count() - cut) as u64,
            cut: cut as u64,
            unreadable: unreadable.count() as u64,
            named: names.take(LostPacks::NAMED_MAX).collect(),
        }
    }

    /// Returns the packs that index files list and of which nothing is there.
    pub(crate) fn gone(&self) -> impl Iterator<Item = FileId> {
        self.missing
            .iter()
            .filter(|pack| pack.found.is_none())
            .map(|pack| pack.id)
    }

    /// Returns the packs that are there and of which nothing can be read.
    pub(crate) fn damaged_packs(&self) -> impl Iterator<Item = FileId> {
        let packs = self.damaged.iter().filter(|file| file.is_pack());
        packs.filter_map(|file| FileId::parse(file.name.last_segment()))
    }

    /// Finds the packs that a repair has dealt with.
    pub(super) fn note_set_aside(&mut self, aside: HashSet<FileId>) {
        if aside.is_empty() {
            return;
        }
        for pack in &mut self.missing {
            pack.is_set_aside = pack.found.is_none() && aside.contains(&pack.id);
        }
        let is_there = |id: &FileId| {
            self.index
                .find_pack(*id)
                .is_some_and(|number| !self.index.is_missing(number))
        };
        self.returned = aside.into_iter().filter(is_there).collect();
    }

    /// Returns the damaged index files that no pack needs any more once the unlisted ones are listed: not
    /// those that a reader could not get, and none as long as some pack can't say itself what is in it.
    pub(crate) fn replaceable_index_files(&self) -> impl Iterator<Item = &Name> {
        let all_say = self.archived.is_empty() && !self.damaged.iter().any(DamagedFile::is_pack);
        let files = self.damaged.iter().filter(move |file| all_say && file.is_of_content);
        files.map(|file| &file.name)
    }

    /// Returns whether packs are missing.
    pub(crate) fn lacks_packs(&self) -> bool {
        !self.missing.is_empty() || !self.archived.is_empty() || self.damaged.iter().any(DamagedFile::is_pack)
    }

    /// Returns whether packs are missing, or were, so that frames may lack their bases.
    pub(super) fn may_lack_bases(&self) -> bool {
        self.lacks_packs() || !self.returned.is_empty()
    }

    /// Returns whether all frames of a stored pack can be decoded.
    pub(crate) fn is_whole(&self, pack: FileId) -> bool {
        let frames = self.index.find_pack(pack).map(|number| self.index.frames_of(number));
        frames.is_some_and(|mut frames| !frames.any(|frame| self.index.lost().contains(frame)))
    }

    /// Returns a hash of the stored packs, those that a backup has added included; `None` if anything is
    /// missing or damaged.
    pub(crate) fn packs_hash(&self, keys: &Keys) -> Option<ChunkId> {
        if self.index.lacks_packs() || !self.damaged.is_empty() || !self.returned.is_empty() {
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

    /// Returns whether there are deltas, and all packs with data may take more than so many bytes once decoded.
    pub(crate) fn may_outgrow(&self, budget: u64) -> bool {
        /// Sources are packed to about a fourth.
        const DECODED: u64 = 4;
        let mut bytes: u64 = 0;
        let mut outgrows = |pack: Pack| {
            if pack.kind == PackKind::Data {
                bytes = bytes.saturating_add(pack.size.saturating_mul(DECODED));
            }
            bytes > budget
        };
        self.index.has_deltas() && self.index.packs().any(|(_, pack)| outgrows(pack))
    }

    /// Syncs the objects that the next snapshot will rely on and that may not be durable yet: the
    /// config, and unlisted packs.
    ///
    /// A writer that has returned has made its object durable, but the writer of an object that
    /// another process merely sees may have been killed just before that. A listed pack was durable
    /// before its index file was written (here too: an unlisted pack is synced before an index file
    /// lists it), and so was everything that a snapshot needs. Losing an index file loses no data.
    ///
    /// Returns whether all of it is still there: a server may have lost its power since, or a prune have deleted an
    /// unlisted pack. Then load the index again.
    pub(crate) fn settle(&self, files: &Files) -> Result<bool> {
        files.storage.settle(&config_name())?;
        Ok(self.state.settle(files)? && self.settle_packs(files)?)
    }

    /// Syncs unlisted packs alone. Returns whether all are there.
    pub(crate) fn settle_packs(&self, files: &Files) -> Result<bool> {
        if !rules::holds(Rule::DurablePacks) {
            return Ok(true);
        }
        let settle = |(pack, _): &(FileId, u64)| files.settle(folder::PACKS, *pack);
        for group in self.unlisted.chunks(REQUESTS) {
            for is_there in each(files.storage.is_remote(), group, settle) {
                if !is_there? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}
