//! Whether packs can go: what stays must have all that snapshots need, and the bases of all its frames.

use std::collections::HashSet;

use ibid_format::pack::PackSummary;
use ibid_format::run::ShortId;
use ibid_format::{ChunkId, ChunkPrefix, FileId};

use super::rules::{self, Rule};
use crate::index::{IdMap, LoadedIndex, Pack, bases_of, find_base};
use crate::tree::Reach;
use crate::{Repository, Result, SnapshotInfo};

/// What was looked at when packs were condemned. All of it is as it was, as long as the log has not gone on.
pub(super) struct Known {
    snapshots: HashSet<FileId>,
    packs: IdMap,
}

impl Known {
    pub(super) fn has_snapshot(&self, id: FileId) -> bool {
        self.snapshots.contains(&id)
    }

    fn has_pack(known: Option<&Known>, id: FileId) -> Result<bool> {
        match known {
            Some(known) => Ok(known.packs.get(ShortId::of_file(id))?.is_some()),
            None => Ok(false),
        }
    }
}

/// A search for packs that can't go.
struct Search<'a> {
    repository: &'a Repository,
    /// All packs, and those that stay.
    all: &'a LoadedIndex,
    kept: &'a LoadedIndex,
    goes: HashSet<FileId>,
    needed: HashSet<FileId>,
    met: HashSet<u32>,
    /// The directory that was read last.
    directory: Option<PackSummary>,
}

impl Repository {
    /// Returns those of the packs `goes` that are needed after all: `kept` does not have them, `all` has. What
    /// `known` says was looked at need not be looked at again. Also returns what has been looked at now.
    pub(super) fn still_needed(
        &self,
        all: &LoadedIndex,
        kept: &LoadedIndex,
        snapshots: &[SnapshotInfo],
        known: Option<&Known>,
        goes: &[FileId],
    ) -> Result<(HashSet<FileId>, Known)> {
        let mut search = Search {
            repository: self,
            all,
            kept,
            goes: goes.iter().copied().collect(),
            needed: HashSet::new(),
            met: HashSet::new(),
            directory: None,
        };
        let reader = self.tree_reader()?;
        let mut reach = Reach::new(self, &reader);
        let is_known = |info: &SnapshotInfo| known.is_some_and(|known| known.has_snapshot(info.id));
        let new = snapshots.iter().filter(|info| !is_known(info));
        for info in new {
            let visited = reach.visit(&info.snapshot.root, &mut |id, _, _| {
                if !search.need(id)? {
                    search.need_lost(id)?;
                }
                Ok(())
            });
            visited.map_err(|error| error.of_what_is_needed(info))?;
        }
        let of_checkpoint = &mut |id: &ChunkId, _, _| search.need(id).map(drop);
        self.visit_checkpoints(&all.listed, &mut reach, snapshots, of_checkpoint)?;
        let mut now_known = Known {
            snapshots: snapshots.iter().map(|info| info.id).collect(),
            packs: IdMap::new(&self.scratch()),
        };
        for (_, pack) in kept.index.packs() {
            self.monitor.check_cancelled()?;
            now_known.packs.insert(ShortId::of_file(pack.id), 0)?;
        }
        if rules::holds(Rule::BasesStay) {
            let is_new = |pack: &Pack| Ok(!Known::has_pack(known, pack.id)?);
            // Of the deepest frame in an archive, whose bases can't be read.
            let mut unread_depth = 0;
            kept.index.each_directory(&self.files, is_new, |number, _, directory| {
                self.monitor.check_cancelled()?;
                match directory {
                    Ok(directory) => search.frames_of(number, &directory),
                    Err(error) if error.is_archived() => {
                        let depths = kept.index.frames_of(number).map(|frame| kept.index.frame(frame).depth);
                        unread_depth = unread_depth.max(depths.max().unwrap_or_default());
                        Ok(())
                    }
                    Err(error) if error.is_fault() => Ok(()),
                    Err(error) => Err(error),
                }
            })?;
            search.keep_less_deep(unread_depth)?;
        }
        Ok((search.needed, now_known))
    }

    /// Returns the index files that list only frames whose bases are there, ascending.
    pub(super) fn verified(&self, loaded: &LoadedIndex) -> Result<Vec<FileId>> {
        let mut verified = loaded.trusted.clone();
        for &id in &loaded.untrusted {
            match self.files.read_index(id) {
                Ok(file) => {
                    if self.files.believes_index(id) && file.packs().all(|pack| loaded.is_whole(pack.id)) {
                        verified.push(id);
                    }
                }
                Err(error) if error.is_fault() => {}
                Err(error) => return Err(error),
            }
        }
        verified.sort_unstable();
        Ok(verified)
    }

    /// Returns those of the doomed packs that are still there, or in an index file.
    pub(super) fn still_listed(&self, loaded: &LoadedIndex, doomed: &[FileId]) -> Result<Vec<FileId>> {
        if doomed.is_empty() {
            return Ok(Vec::new());
        }
        let mut listed: HashSet<FileId> = HashSet::new();
        for &id in loaded.trusted.iter().chain(&loaded.untrusted) {
            match self.files.read_index(id) {
                Ok(file) => listed.extend(
                    file.packs()
                        .map(|pack| pack.id)
                        .filter(|pack| doomed.binary_search(pack).is_ok()),
                ),
                Err(error) if error.is_fault() => {}
                Err(error) => return Err(error),
            }
        }
        self.files.each(crate::layout::folder::PACKS, |id, _| {
            if doomed.binary_search(&id).is_ok() {
                listed.insert(id);
            }
            Ok(())
        })?;
        Ok(doomed.iter().filter(|pack| listed.contains(pack)).copied().collect())
    }
}

impl Search<'_> {
    /// Keeps a chunk. Returns whether it can be decoded.
    fn need(&mut self, id: &ChunkId) -> Result<bool> {
        if self.kept.index.get_stored(id).is_some() {
            return Ok(true);
        }
        match self.all.index.get_stored(id) {
            Some(place) => self.keep(place.frame).map(|()| true),
            None => Ok(false),
        }
    }

    /// Keeps a chunk that can't be decoded now.
    fn need_lost(&mut self, id: &ChunkId) -> Result<()> {
        let frames = self.all.index.lost_frames_of(id);
        frames.into_iter().try_for_each(|frame| self.keep(frame))
    }

    /// Keeps the packs that were to go and have frames which are less deep: any may be a base of what can't be read.
    fn keep_less_deep(&mut self, depth: u8) -> Result<()> {
        let all = self.all;
        for (number, pack) in all.index.packs().filter(|_| depth > 0) {
            if self.goes.contains(&pack.id) {
                let mut frames = all.index.frames_of(number);
                if let Some(frame) = frames.find(|frame| all.index.frame(*frame).depth < depth) {
                    self.keep(frame)?;
                }
            }
        }
        Ok(())
    }

    /// Keeps a frame of `all` with its pack, and what they are decoded from.
    fn keep(&mut self, frame: u32) -> Result<()> {
        let mut todo = vec![frame];
        while let Some(frame) = todo.pop() {
            if !self.met.insert(frame) {
                continue;
            }
            let found = self.all.index.frame(frame);
            let pack = self.all.index.pack(found.pack);
            if self.goes.contains(&pack.id) && self.needed.insert(pack.id) && rules::holds(Rule::BasesStay) {
                // It stays as a whole, so all its frames keep their bases.
                todo.extend(self.all.index.frames_of(found.pack));
            }
            if found.depth > 0 {
                let bases = self.bases(found.pack, pack.id, found.offset)?;
                todo.extend(bases.into_iter().flat_map(|base| self.only_in_all(base, found.depth)));
            }
        }
        Ok(())
    }

    /// Returns the frame of a base in `all`, if those that stay have no copy that counts. If none can be decoded, these
    /// are all that hold it: what they lack may be stored late.
    fn only_in_all(&self, base: ChunkPrefix, depth: u8) -> Vec<u32> {
        if find_base(self.kept, base, depth).is_some() {
            return Vec::new();
        }
        match find_base(self.all, base, depth) {
            Some(place) => vec![place.frame],
            None => {
                let mut frames = self.all.index.lost_frames_with(base);
                frames.retain(|frame| self.all.index.frame(*frame).depth < depth);
                frames
            }
        }
    }

    /// Returns the bases of a frame of `all`; none if its pack can't be read.
    fn bases(&mut self, number: u32, pack: FileId, offset: u32) -> Result<Vec<ChunkPrefix>> {
        if self.directory.as_ref().is_none_or(|directory| directory.id != pack) {
            self.directory = match self.all.index.read_directory(&self.repository.files, number) {
                Ok(directory) => Some(directory),
                Err(error) if error.is_fault() => None,
                Err(error) => return Err(error),
            };
        }
        let directory = self.directory.as_ref();
        Ok(directory.map_or(Vec::new(), |directory| bases_of(directory, offset).to_vec()))
    }

    /// Keeps the bases of all frames of a pack that stays.
    fn frames_of(&mut self, number: u32, directory: &PackSummary) -> Result<()> {
        let index = &self.kept.index;
        let frames = index.frames_of(number).map(|frame| index.frame(frame));
        for frame in frames.filter(|frame| frame.depth > 0) {
            for &base in bases_of(directory, frame.offset) {
                for base in self.only_in_all(base, frame.depth) {
                    self.keep(base)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ibid_storage::fault::{Flaky, ObjectFault};
    use ibid_storage::{ErrorKind, Memory, Operation, Storage};

    use super::*;
    use crate::InitOptions;
    use crate::index::{NumberSet, View};
    use crate::layout::{folder, name_in, new_id};
    use crate::testing::put_pack;

    /// Stores a pack with a chunk, encoded against `base` if there is one, and an index file that lists it.
    fn pack(repository: &Repository, storage: &dyn Storage, chunk: &[u8], base: Option<&[u8]>) -> FileId {
        pack_of_depth(repository, storage, chunk, base, base.is_some().into())
    }

    /// Does the same, in a frame of this depth.
    fn pack_of_depth(
        repository: &Repository,
        storage: &dyn Storage,
        chunk: &[u8],
        base: Option<&[u8]>,
        depth: u8,
    ) -> FileId {
        let against: Vec<_> = base.into_iter().map(<[u8]>::to_vec).collect();
        let summary = put_pack(storage, repository, &[(chunk.to_vec(), against)], depth);
        let (id, index) = (summary.id, new_id());
        let listed = ibid_format::index::encode(&repository.files.keys, index, 0, &[summary]).unwrap();
        storage.put(&name_in(folder::INDEX, index), &[&listed]).unwrap();
        id
    }

    /// The keepers' copy of a base is lost, and the writer has stored the base again. What keepers made of that is a
    /// delta against a chunk that needs the base: it can't take the place of the whole one.
    #[test]
    fn what_a_writer_has_signed_stays_if_only_that_is_less_deep_than_what_needs_it() {
        let (base, delta) = (&b"a base of deltas"[..], &b"one delta of a base"[..]);
        for is_whole in [false, true] {
            let storage = Arc::new(Memory::new());
            let repository = Repository::init(storage.clone(), Some(b"secret"), &InitOptions::quick()).unwrap();
            let load = || LoadedIndex::load(&repository, View::Reader).unwrap();
            pack(&repository, &*storage, delta, Some(base));
            match is_whole {
                true => pack(&repository, &*storage, base, None),
                false => pack_of_depth(&repository, &*storage, base, Some(delta), 2),
            };
            let kept = load();
            let of_writer = pack(&repository, &*storage, base, None);
            let mut all = load();
            let mut doubted = NumberSet::default();
            for frame in all.index.frames_of(all.index.find_pack(of_writer).unwrap()) {
                doubted.insert(frame);
            }
            all.index.doubt(doubted);
            let needed = repository.still_needed(&all, &kept, &[], None, &[of_writer]);
            let stays = needed.unwrap().0.contains(&of_writer);
            assert_eq!(stays, !is_whole);
        }
    }

    #[test]
    fn what_may_be_a_base_of_a_pack_in_an_archive_stays_and_nothing_else() {
        let storage = Arc::new(Flaky::new(Memory::new()));
        let repository = Repository::init(storage.clone(), Some(b"secret"), &InitOptions::quick()).unwrap();
        let loaded = || {
            repository.refresh();
            repository.loaded().unwrap()
        };
        // What stays: a delta, and something that is read at once as a whole.
        pack(
            &repository,
            &*storage,
            b"one delta of a base",
            Some(b"a base of deltas"),
        );
        let kept = loaded();
        // What was to go: its base, and what is as deep as it.
        let base = pack(&repository, &*storage, b"a base of deltas", None);
        let as_deep = pack(
            &repository,
            &*storage,
            b"another delta of a base",
            Some(b"a base of deltas"),
        );
        let all = loaded();
        let needed = || {
            let found = repository.still_needed(&all, &kept, &[], None, &[base, as_deep]);
            found.unwrap().0
        };
        assert_eq!(
            needed(),
            HashSet::from([base]),
            "the directory of the delta names its base"
        );
        storage.fail_always(Operation::ReadAt, ObjectFault::Before(ErrorKind::Archived));
        assert_eq!(needed(), HashSet::from([base]), "any that is less deep may be its base");
        // What is damaged, and in no archive, lacks its bases anyway.
        storage.heal();
        storage.fail_always(Operation::ReadAt, ObjectFault::Before(ErrorKind::NotFound));
        assert_eq!(needed(), HashSet::new());
    }
}
