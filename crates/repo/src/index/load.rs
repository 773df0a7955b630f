//! Loads the index, and finds what it misses.
//!
//! The packs are authoritative; index files only speed up finding them. A pack that no readable
//! index file lists (the backup was killed, or the index file is damaged) is added from its
//! directory. A listed pack that is missing is ignored: its chunks count as unknown, and so do
//! those of its direct and indirect dependents. The next backup stores them again.
//!
//! Runs of the cache stand for most index files. The others are read into memory if they are few, and
//! become a run if they are many, in the cache or else in a temporary file. So loading takes time for
//! what is new, and memory for little of it.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use ibid_format::pack::PackSummary;
use ibid_format::run::RunPack;
use ibid_format::{FileId, index as index_file};
use ibid_storage::{ErrorKind, Name};

use super::build::Building;
use super::dependencies::Dependencies;
use super::frame_set::FrameSet;
use super::frames::{Pack, Place};
use super::loaded::{LoadedIndex, MissingPack};
use super::lookup::Index;
use super::run::Run;
use crate::files::Files;
use crate::layout::{folder, name_in};
use crate::scratch::Scratch;
use crate::{Error, Monitor, Repository, Result, Warning};

/// Times that loading begins again because another process has merged index files.
const MERGES_MET_MAX: usize = 5;
/// A run becomes part of a new one unless it has more entries than this many times those of the new
/// one. So an entry is written few times, and there are few runs.
const ABSORBED_SHARE: u64 = 3;

impl LoadedIndex {
    /// Loads the index of a repository.
    pub(crate) fn load(repository: &Repository) -> Result<LoadedIndex> {
        for _ in 0..MERGES_MET_MAX {
            match LoadedIndex::try_load(repository, true) {
                // Another process has merged an index file meanwhile.
                Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound => {}
                loaded => return loaded,
            }
        }
        LoadedIndex::try_load(repository, false)
    }

    /// Loads the index. If an index file that was listed is not found, fails if it `may_vanish`;
    /// otherwise it counts as damaged.
    fn try_load(repository: &Repository, may_vanish: bool) -> Result<LoadedIndex> {
        let (files, monitor) = (&repository.files, &repository.monitor);
        // List index files before packs: a pack is stored before any index file lists it, so a
        // listed pack that is not found is missing.
        let listed = files.list(folder::INDEX)?;
        let packs = files.list(folder::PACKS)?;
        let scratch = repository.scratch();
        let mut sources = Sources::new(repository, listed);
        sources.may_vanish = may_vanish;
        sources.build_if_many(repository, &scratch)?;
        let mut read = Vec::new();
        for (id, _) in std::mem::take(&mut sources.files) {
            monitor.check_cancelled()?;
            match files.read_index(id) {
                Ok(file) => read.push((id, file)),
                Err(error) => sources.note_damage(id, error, monitor)?,
            }
        }
        let mut unlisted = Unlisted::default();
        unlisted.read_if_many(&mut sources, &read, &packs, &scratch)?;
        let mut loading = Loading {
            packs,
            known: HashMap::new(),
            loaded: LoadedIndex {
                index: Index::new(scratch, sources.runs),
                unlisted: unlisted.packs,
                missing: Vec::new(),
                damaged: sources.damaged,
                index_bytes: sources.index_bytes,
            },
        };
        loading.packs_of_runs();
        for (id, file) in read {
            if let Err(error) = loading.index_file(id, &file) {
                note_damage(&mut loading.loaded.damaged, name_in(folder::INDEX, id), error, monitor)?;
            }
        }
        loading.unlisted_packs(&unlisted.unreadable, files, monitor)?;
        let mut loaded = loading.loaded;
        loaded.index.loaded();
        loaded.lose_dependents(&repository.scratch(), monitor)?;
        Ok(loaded)
    }

    /// Finds the frames that can't be decoded because a pack is missing.
    fn lose_dependents(&mut self, scratch: &Scratch, monitor: &Monitor) -> Result<()> {
        if !self.lacks_packs() || !self.index.has_deltas() {
            return Ok(());
        }
        // The bases of all other frames stay where they are.
        let mut dependencies = Dependencies::read(scratch, self, None, monitor)?;
        let mut lost = FrameSet::default();
        dependencies.search().lacking_bases(&mut |frame| {
            lost.insert(frame);
        })?;
        self.index.lose(lost.iter());
        Ok(())
    }
}

/// Records damage of one file, so that loading goes on without it. Any other error (no permission,
/// cancellation) ends the operation.
fn note_damage(damaged: &mut Vec<(Name, String)>, what: Name, error: Error, monitor: &Monitor) -> Result<()> {
    if !error.is_fault() {
        return Err(error);
    }
    damaged.push((what, error.problem()));
    monitor.warn(Warning::Repository { error });
    Ok(())
}

/// What the index is loaded from.
struct Sources {
    /// Runs, largest first.
    runs: Vec<Arc<Run>>,
    /// Index files that no run stands for, with their sizes in bytes.
    files: Vec<(FileId, u64)>,
    /// All index files.
    listed: HashSet<FileId>,
    index_bytes: u64,
    damaged: Vec<(Name, String)>,
    /// Whether an index file may have been merged into another since they were listed.
    may_vanish: bool,
}

impl Sources {
    /// Records damage of an index file.
    fn note_damage(&mut self, id: FileId, error: Error, monitor: &Monitor) -> Result<()> {
        match error {
            Error::Storage(error) if self.may_vanish && error.kind() == ErrorKind::NotFound => Err(error.into()),
            error => note_damage(&mut self.damaged, name_in(folder::INDEX, id), error, monitor),
        }
    }

    fn new(repository: &Repository, listed: Vec<(FileId, u64)>) -> Sources {
        let runs = match &repository.cache {
            Some(cache) => cache.files(&repository.files.keys, &repository.monitor),
            None => Vec::new(),
        };
        let runs: Vec<Arc<Run>> = runs.into_iter().map(Arc::new).collect();
        let covered: HashSet<FileId> = runs.iter().flat_map(|run| &run.tables.covers).copied().collect();
        Sources {
            runs,
            index_bytes: listed.iter().map(|(_, size)| size).sum(),
            listed: listed.iter().map(|(id, _)| *id).collect(),
            files: listed.into_iter().filter(|(id, _)| !covered.contains(id)).collect(),
            damaged: Vec::new(),
            may_vanish: false,
        }
    }

    /// Makes a run of the index files that no run stands for, if they are many. Smaller runs become
    /// part of it.
    fn build_if_many(&mut self, repository: &Repository, scratch: &Scratch) -> Result<()> {
        let bytes: u64 = self.files.iter().map(|(_, size)| size).sum();
        if bytes <= scratch.limits.bytes_read && self.files.len() <= scratch.limits.files_read {
            return Ok(());
        }
        if let Some(cache) = &repository.cache {
            match cache
                .make::<Run>()
                .and_then(|folder| self.build(scratch, &folder, true, bytes))
            {
                // No room, or no permission: a temporary file may do.
                Err(error @ Error::Local { .. }) => repository.monitor.warn(Warning::Cache { error }),
                built => return built,
            }
        }
        match self.build(scratch, &scratch.folder, false, bytes) {
            Err(Error::Local { .. }) => self.build(scratch, &std::env::temp_dir(), false, bytes),
            built => built,
        }
    }

    /// Makes the run in this folder, where it stays or not.
    fn build(&mut self, scratch: &Scratch, folder: &Path, stays: bool, bytes: u64) -> Result<()> {
        let mut building = Building::new(scratch, folder, stays)?;
        let mut absorbed = Vec::new();
        let mut entries = bytes / 40;
        // Smaller runs come last.
        for (at, run) in self.runs.iter().enumerate().rev() {
            if run.trailer.entries > entries.saturating_mul(ABSORBED_SHARE) {
                break;
            }
            entries += run.trailer.entries;
            if let Err(error) = building.absorb(run.clone()) {
                return self.build_without(error, scratch, folder, stays, bytes);
            }
            absorbed.push(at);
        }
        let mut known = KnownPacks::default();
        self.runs.iter().for_each(|run| known.add_run(run));
        let mut damaged = Vec::new();
        for (id, _) in &self.files {
            scratch.monitor.check_cancelled()?;
            match add_index_file(&mut building, &mut known, scratch, *id) {
                Ok(()) => building.covers(*id),
                Err(error) => damaged.push((*id, error)),
            }
        }
        for (id, error) in damaged {
            self.note_damage(id, error, &scratch.monitor)?;
        }
        let run = match building.finish(|id| self.listed.contains(id)) {
            Ok(run) => run,
            Err(error) => return self.build_without(error, scratch, folder, stays, bytes),
        };
        for at in absorbed {
            let run = self.runs.remove(at);
            if stays {
                run.file().delete();
            }
        }
        self.runs.push(Arc::new(run));
        self.runs
            .sort_by_key(|run| std::cmp::Reverse((run.trailer.entries, run.file().id())));
        self.files.clear();
        Ok(())
    }

    /// Begins again without the run that can't be read, if that is the error: from its index files.
    fn build_without(&mut self, error: Error, scratch: &Scratch, folder: &Path, stays: bool, bytes: u64) -> Result<()> {
        let is_at_fault = |run: &Arc<Run>| match &error {
            Error::Damaged { object, .. } => *object == run.file().path().display().to_string(),
            Error::Local { path, .. } => path == run.file().path(),
            _ => false,
        };
        let Some(at) = self.runs.iter().position(is_at_fault) else {
            return Err(error);
        };
        scratch.monitor.warn(Warning::Cache { error });
        let run = self.runs.remove(at);
        run.file().delete();
        let again = run.tables.covers.iter().filter(|id| self.listed.contains(id));
        self.files.extend(again.map(|id| (*id, 0)));
        self.build(scratch, folder, stays, bytes)
    }
}

/// Size and number of frames of packs that are in runs.
#[derive(Default)]
struct KnownPacks(HashMap<FileId, (u64, usize)>);

impl KnownPacks {
    fn add_run(&mut self, run: &Run) {
        let packs = &run.tables.packs;
        let ends = packs
            .iter()
            .skip(1)
            .map(|next| next.first_frame)
            .chain([run.trailer.frames]);
        for (pack, end) in packs.iter().zip(ends) {
            self.0.insert(pack.id, (pack.size, (end - pack.first_frame) as usize));
        }
    }
}

/// Adds the packs of an index file that are new to a run. A file that contradicts another, or itself,
/// is ignored as a whole.
fn add_index_file(building: &mut Building<'_>, known: &mut KnownPacks, scratch: &Scratch, id: FileId) -> Result<()> {
    let file = scratch.files.read_index(id)?;
    let mut listed_here = HashSet::new();
    for (listed, frames) in file.packs_with_frames() {
        let agrees = known
            .0
            .get(&listed.id)
            .is_none_or(|known| *known == (listed.size, frames.len()));
        if !agrees || !listed_here.insert(listed.id) {
            return Err(Error::Contradiction {
                index: id,
                pack: listed.id,
            });
        }
    }
    // Ordinal of every frame's first chunk, unless it is known.
    let mut ordinals: Vec<Option<u64>> = Vec::new();
    let mut frames_of_pack = Vec::new();
    for (listed, frames) in file.packs_with_frames() {
        if known.0.contains_key(&listed.id) {
            ordinals.extend(frames.map(|_| None));
            continue;
        }
        known.0.insert(listed.id, (listed.size, frames.len()));
        frames_of_pack.clear();
        frames_of_pack.extend(frames.filter_map(|number| file.frame(number)));
        let pack = RunPack {
            id: listed.id,
            kind: listed.kind,
            size: listed.size,
            first_frame: 0,
        };
        let mut ordinal = building.pack(&pack, &frames_of_pack)?;
        for frame in &frames_of_pack {
            ordinals.push(Some(ordinal));
            ordinal += u64::from(frame.blobs);
        }
    }
    for entry in file.entries() {
        if let Some(first) = ordinals[entry.frame as usize] {
            building.entry(&entry.id, first + u64::from(entry.slot))?;
        }
    }
    Ok(())
}

/// Packs that no index file lists and that are too many to keep their chunks in memory.
#[derive(Default)]
struct Unlisted {
    packs: Vec<(FileId, u64)>,
    /// Packs whose directory can't be read.
    unreadable: HashSet<FileId>,
}

impl Unlisted {
    /// Makes a temporary run of the unlisted packs, if they are many.
    fn read_if_many(
        &mut self,
        sources: &mut Sources,
        read: &[(FileId, index_file::Index)],
        packs: &[(FileId, u64)],
        scratch: &Scratch,
    ) -> Result<()> {
        let of_runs = sources
            .runs
            .iter()
            .flat_map(|run| run.tables.packs.iter().map(|pack| pack.id));
        let of_files = read.iter().flat_map(|(_, file)| file.packs().map(|pack| pack.id));
        let listed: HashSet<FileId> = of_runs.chain(of_files).collect();
        let unlisted = || packs.iter().filter(|(id, _)| !listed.contains(id));
        let bytes: u64 = unlisted().map(|(_, size)| size).sum();
        if bytes <= scratch.limits.unlisted {
            return Ok(());
        }
        let temporary = std::env::temp_dir();
        let mut building = match Building::new(scratch, &scratch.folder, false) {
            Err(Error::Local { .. }) => Building::new(scratch, &temporary, false)?,
            begun => begun?,
        };
        for &(id, size) in unlisted() {
            scratch.monitor.check_cancelled()?;
            match scratch.files.read_directory(id, size) {
                Ok(summary) => {
                    building.directory(&summary)?;
                    self.packs.push((id, size));
                }
                Err(error) => {
                    self.unreadable.insert(id);
                    note_damage(
                        &mut sources.damaged,
                        name_in(folder::PACKS, id),
                        error,
                        &scratch.monitor,
                    )?;
                }
            }
        }
        sources.runs.push(Arc::new(building.finish(|_| false)?));
        Ok(())
    }
}

struct Loading {
    /// Stored packs, with their sizes in bytes, by id.
    packs: Vec<(FileId, u64)>,
    /// Numbers of the packs that were met.
    known: HashMap<FileId, u32>,
    loaded: LoadedIndex,
}

impl Loading {
    /// Returns the size of a stored pack, bytes.
    fn size_of(&self, pack: FileId) -> Option<u64> {
        let at = self.packs.binary_search_by_key(&pack, |(id, _)| *id).ok()?;
        Some(self.packs[at].1)
    }

    /// Records a listed pack; notes it if it is missing or has another size.
    fn meet(&mut self, number: u32, id: FileId, size: u64) {
        self.known.insert(id, number);
        let found = self.size_of(id);
        if found != Some(size) {
            self.loaded.index.miss(number);
            self.loaded.missing.push(MissingPack {
                id,
                expected: size,
                found,
            });
        }
    }

    fn packs_of_runs(&mut self) {
        for number in 0..self.loaded.index.pack_count() {
            let pack = self.loaded.index.pack(number);
            self.meet(number, pack.id, pack.size);
        }
    }

    /// Reads an index file into memory.
    fn index_file(&mut self, id: FileId, file: &index_file::Index) -> Result<()> {
        let frames: Vec<_> = file.frames().collect();
        // Compare all packs before adding any: a file that contradicts another, or itself, is
        // ignored as a whole.
        let mut listed_here = HashSet::new();
        for (listed, range) in file.packs_with_frames() {
            let frames = &frames[range.start as usize..range.end as usize];
            if !listed_here.insert(listed.id) || !self.agrees(&listed, frames) {
                return Err(Error::Contradiction {
                    index: id,
                    pack: listed.id,
                });
            }
        }
        // Number of every frame of the file, unless all about its pack is known.
        let mut numbers = Vec::with_capacity(frames.len());
        for (listed, range) in file.packs_with_frames() {
            if self.known.contains_key(&listed.id) {
                numbers.extend(range.map(|_| None));
                continue;
            }
            let frames = &frames[range.start as usize..range.end as usize];
            let start = self.add_pack(listed.id, listed.kind, listed.size, frames);
            numbers.extend((start..).take(frames.len()).map(Some));
        }
        for entry in file.entries() {
            if let Some(frame) = numbers[entry.frame as usize] {
                let slot = entry.slot;
                self.loaded.index.insert_stored(&entry.id, Place { frame, slot })?;
            }
        }
        Ok(())
    }

    /// Returns whether a listed pack matches everything known about it.
    fn agrees(&self, listed: &index_file::IndexedPack, frames: &[index_file::IndexedFrame]) -> bool {
        let Some(&number) = self.known.get(&listed.id) else {
            return true;
        };
        let index = &self.loaded.index;
        let known = index.frames_of(number);
        index.pack(number).size == listed.size
            && known.len() == frames.len()
            && known.zip(frames).all(|(number, frame)| index.frame(number).is(frame))
    }

    /// Adds a pack and its frames; returns the number of the first.
    fn add_pack(
        &mut self,
        id: FileId,
        kind: ibid_format::pack::PackKind,
        size: u64,
        frames: &[index_file::IndexedFrame],
    ) -> u32 {
        let pack = Pack {
            id,
            kind,
            size,
            first_frame: 0,
        };
        let number = self.loaded.index.pack_count();
        let start = self.loaded.index.add_pack(pack, frames);
        self.meet(number, id, size);
        start
    }

    /// Adds packs that no index file lists, from their own directories.
    fn unlisted_packs(&mut self, unreadable: &HashSet<FileId>, files: &Files, monitor: &Monitor) -> Result<()> {
        let is_new = |(id, _): &&(FileId, u64)| !self.known.contains_key(id) && !unreadable.contains(id);
        let unlisted: Vec<_> = self.packs.iter().filter(is_new).copied().collect();
        for (id, size) in unlisted {
            monitor.check_cancelled()?;
            match files.read_directory(id, size) {
                Ok(summary) => {
                    self.unlisted_pack(&summary)?;
                    self.loaded.unlisted.push((id, size));
                }
                Err(error) => {
                    note_damage(&mut self.loaded.damaged, name_in(folder::PACKS, id), error, monitor)?;
                }
            }
        }
        Ok(())
    }

    fn unlisted_pack(&mut self, summary: &PackSummary) -> Result<()> {
        let frames: Vec<_> = summary.frames.iter().map(index_file::IndexedFrame::from).collect();
        let start = self.add_pack(summary.id, summary.kind, summary.size, &frames);
        for (number, frame) in (start..).zip(&summary.frames) {
            for (slot, blob) in (0..).zip(&frame.blobs) {
                let place = Place { frame: number, slot };
                self.loaded.index.insert_stored(&blob.id, place)?;
            }
        }
        Ok(())
    }
}
#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use ibid_format::ChunkId;
    use ibid_format::frame::Blob;
    use ibid_format::pack::FrameSummary;

    use super::*;
    use crate::{BackupOptions, InitOptions, Repository};

    /// One index file lists a frame more than the pack has. It is read before the correct one, and
    /// after it.
    #[test]
    fn of_two_index_files_that_contradict_each_other_the_second_is_not_used() {
        let storage = Arc::new(ibid_storage::Memory::new());
        let repository = Repository::init(storage, Some(b"secret"), &InitOptions::quick()).unwrap();
        repository.backup(&BackupOptions::default().path("src/source")).unwrap();
        let (id, size) = repository.files.list(folder::PACKS).unwrap()[0];
        let mut summary = repository.files.read_directory(id, size).unwrap();
        let end = summary.frames.last().map(|frame| frame.offset + frame.sealed).unwrap();
        let nowhere = ChunkId([7; 32]);
        let blob = Blob { id: nowhere, length: 7 };
        summary.frames.push(FrameSummary {
            offset: end,
            sealed: 50,
            depth: 0,
            bases: vec![],
            blobs: vec![blob],
        });
        let honest = repository.files.list(folder::INDEX).unwrap()[0].0;
        for (false_one, second) in [(FileId([0; 16]), honest), (FileId([0xFF; 16]), FileId([0xFF; 16]))] {
            let bytes = index_file::encode(&repository.files.keys, false_one, std::slice::from_ref(&summary)).unwrap();
            let name = name_in(folder::INDEX, false_one);
            repository.files.storage.put(&name, &[&bytes]).unwrap();
            let heard = Arc::new(Mutex::new(Vec::new()));
            let monitor = Monitor::new({
                let heard = heard.clone();
                move |warning| heard.lock().unwrap().push(warning)
            });
            let loaded = LoadedIndex::load(&repository.watched_by(&Arc::new(monitor))).unwrap();
            let warnings = std::mem::take(&mut *heard.lock().unwrap());
            assert!(
                matches!(&warnings[..], [Warning::Repository { error: Error::Contradiction { index, pack } }]
                    if (*index, *pack) == (second, id)),
                "{warnings:?}"
            );
            assert_eq!(loaded.index.get(&nowhere).is_some(), second == honest);
            let places = summary.frames.iter().flat_map(|frame| &frame.blobs);
            for place in places.filter_map(|blob| loaded.index.get(&blob.id)) {
                assert!(place.frame < loaded.index.stored_frames());
            }
            repository.files.storage.delete(&name).unwrap();
        }
    }
}
