//! Sketch files, which keep sketches between backups.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use ibid_delta::Sketch;
use ibid_format::FileId;
use ibid_format::pack::PackKind;
use ibid_format::run::RunPack;
use ibid_format::sketches::{CHUNK_BYTES, Features, LIMIT, Run, Sketches};
use ibid_storage::ErrorKind;

use super::library::{Library, SketchRun, SketchRunWriter};
use super::{DEPTH_MAX, Similar, Source, UnsavedSketch};
use crate::cache::Kept;
use crate::files::Files;
use crate::index::{Frame, LoadedIndex, NumberSet, Place};
use crate::layout::{folder, new_id};
use crate::listed::Listed;
use crate::threads::{each, groups};
use crate::{Error, Repository, Result, Warning};

/// Maximum number of chunks per file: as many as fit even if each has a run of its own.
pub(crate) const CHUNKS_OF_ONE_FILE: usize = LIMIT as usize / 2 / (CHUNK_BYTES + 16);
/// Maximum number of unsaved sketches: they take memory, and are lost if the backup is killed.
const UNSAVED_MAX: usize = 200_000;
/// Maximum number of chunks and bytes that one backup sketches because no file holds their
/// sketches: a second of one core, and 20 MiB of memory.
const UNSKETCHED_CHUNKS_MAX: u64 = 64 << 10;
const UNSKETCHED_BYTES_MAX: u64 = 1 << 30;

/// A run becomes part of a new one unless it has more chunks than this many times those of the new one.
const ABSORBED_SHARE: u64 = 3;

/// How often the files are listed at most, if prunes replace them meanwhile.
const LISTS_MAX: usize = 4;

/// Returns the maximum number of unsaved sketches with this memory budget, bytes.
pub(crate) fn unsaved_max(memory: u64) -> usize {
    let most = memory / 16 / size_of::<UnsavedSketch>() as u64;
    (most as usize).min(UNSAVED_MAX)
}

/// Returns whether one backup can sketch this much data that no sketch file covers.
pub(crate) fn fits_one_backup(chunks: u64, bytes: u64) -> bool {
    chunks <= UNSKETCHED_CHUNKS_MAX && bytes <= UNSKETCHED_BYTES_MAX
}

impl Similar {
    /// Loads the sketches saved by earlier backups. If they do not fit into `memory` bytes, they stay on
    /// the disk and come into memory as they are [needed](Similar::fetch). Also returns the frames to
    /// sketch now because no file covers them.
    pub(crate) fn load(
        repository: &Repository,
        loaded: &LoadedIndex,
        memory: u64,
        thorough: bool,
    ) -> Result<(Similar, Vec<u32>)> {
        let sources = Sources::read(repository, memory, &loaded.listed)?;
        let library = (!sources.runs.is_empty()).then(|| Library::new(sources.runs));
        let mut saved = sources.saved;
        saved.sort_by_key(|sketches| (sketches.time.seconds, sketches.time.nanos));
        let runs = saved.iter().flat_map(|sketches| &sketches.runs);
        let known: Vec<(u32, &Run)> = runs
            .filter_map(|run| Some((find_frame(loaded, run.pack, run.offset)?, run)))
            .collect();
        let sketched = match &library {
            Some(library) => packs_with_sketches(loaded, library),
            None => Ok(NumberSet::default()),
        };
        let (library, sketched) = match sketched {
            Ok(sketched) => (library, sketched),
            Err(error) => {
                repository.monitor.warn(Warning::Cache { error });
                library.inspect(Library::delete);
                (None, NumberSet::default())
            }
        };
        let unsketched = unsketched(loaded, &known, &sketched);
        let frame = |number: &u32| loaded.index.frame(*number);
        let chunks_of_library = library.as_ref().map_or(0, Library::chunks);
        let is_all_read = chunks_of_library <= repository.index_limits().sketches;
        let of_library = is_all_read.then_some((0, chunks_of_library));
        let saved = known
            .iter()
            .map(|(number, run)| (frame(number).depth, run.chunks.len() as u64));
        let unsaved = unsketched
            .iter()
            .map(|number| (frame(number).depth, u64::from(frame(number).blobs)));
        let mut similar = Similar::new(saved.chain(unsaved).chain(of_library), memory, thorough);
        similar.library = library;
        similar.damaged = sources.damaged;
        if is_all_read && let Err(error) = similar.load_all(loaded) {
            repository.monitor.warn(Warning::Cache { error });
            similar.close_library();
        }
        for (frame, run) in known {
            similar.remember(loaded, frame, Source::Memory, run);
        }
        Ok((similar, unsketched))
    }

    /// Brings all sketches from the disk into memory.
    fn load_all(&mut self, loaded: &LoadedIndex) -> Result<()> {
        for number in self.library.as_ref().map_or(Ok(Vec::new()), Library::all)? {
            self.load_pack(loaded, number, Source::Memory)?;
        }
        self.library = None;
        Ok(())
    }

    pub(super) fn remember(&mut self, loaded: &LoadedIndex, number: u32, source: Source, run: &Run) {
        let frame = loaded.index.frame(number);
        for (features, slot) in run.chunks.iter().zip(run.slot..frame.blobs) {
            let sketch = Sketch::of(features.iter().map(|&feature| feature.into()));
            self.enter(Place { frame: number, slot }, frame.depth, source, &sketch);
        }
    }

    /// Returns the number of unsaved sketches.
    pub(crate) fn unsaved(&self) -> usize {
        self.unsaved.len()
    }

    /// Writes the unsaved sketches of stored chunks; returns the bytes written.
    ///
    /// Stops at the first chunk that is not stored yet: call it again later.
    pub(crate) fn save(&mut self, files: &Files, loaded: &LoadedIndex) -> Result<u64> {
        let mut written = 0;
        loop {
            let (runs, chunks) = self.stored_runs(loaded);
            if chunks == 0 {
                return Ok(written);
            }
            let id = new_id();
            let sketches = Sketches {
                time: crate::clock::now(),
                runs,
            };
            let bytes = sketches
                .encode(&files.keys, id)
                .map_err(Error::damaged("the new sketches"))?;
            files.put_copied(folder::SKETCHES, id, &bytes)?;
            written += bytes.len() as u64;
            self.unsaved.drain(..chunks);
        }
    }

    /// Returns the runs of the oldest unsaved sketches up to the first chunk that is not stored,
    /// and the number of chunks in them.
    fn stored_runs(&self, loaded: &LoadedIndex) -> (Vec<Run>, usize) {
        let mut runs: Vec<Run> = Vec::new();
        let mut last: Option<Place> = None;
        let mut chunks = 0;
        for UnsavedSketch { place, count, features } in self.unsaved.iter().take(CHUNKS_OF_ONE_FILE) {
            let frame = loaded.index.frame(place.frame);
            if !frame.is_stored() {
                break;
            }
            if last.is_none_or(|last| (last.frame, last.slot + 1) != (place.frame, place.slot)) {
                runs.push(Run {
                    pack: loaded.index.pack(frame.pack).id,
                    offset: frame.offset,
                    slot: place.slot,
                    chunks: Features::default(),
                });
            }
            let run = runs.last_mut().expect("just pushed if there was none");
            let features = &features[..usize::from(*count)];
            run.chunks
                .push(features)
                .expect("a sketch has few features, and they descend");
            last = Some(*place);
            chunks += 1;
        }
        (runs, chunks)
    }
}

/// Returns the data frames that no sketches cover, up to the limit for one backup: those of smallest
/// depth, in order of their numbers.
fn unsketched(loaded: &LoadedIndex, known: &[(u32, &Run)], packs_sketched: &NumberSet) -> Vec<u32> {
    let index = &loaded.index;
    let sketched: HashSet<u32> = known.iter().map(|(frame, _)| *frame).collect();
    let packs = (0..index.pack_count())
        .filter(|number| !packs_sketched.contains(*number) && !index.is_missing(*number))
        .map(|number| (number, index.pack(number)))
        .filter(|(_, pack)| pack.kind == PackKind::Data);
    // Of each depth, as many as fit alone: there may be far more.
    let mut by_depth: [Unsketched; DEPTH_MAX as usize] = Default::default();
    for (number, _) in packs {
        for number in index.frames_of(number) {
            let frame = index.frame(number);
            if let Some(of_depth) = by_depth.get_mut(usize::from(frame.depth))
                && frame.is_stored()
                && !sketched.contains(&number)
                && index.can_be_base(number)
            {
                of_depth.add(number, &frame);
            }
        }
    }
    let mut all = Unsketched::default();
    for number in by_depth.into_iter().flat_map(|of_depth| of_depth.frames) {
        all.add(number, &index.frame(number));
    }
    all.frames.sort_unstable();
    all.frames
}

/// Returns the numbers of the packs in the index that have sketches in the library. Both are read in the
/// order of ids, since there may be millions.
fn packs_with_sketches(loaded: &LoadedIndex, library: &Library) -> Result<NumberSet> {
    let mut found = NumberSet::default();
    let (mut packs, mut sketched) = (loaded.index.packs_sorted()?, library.packs()?);
    let (mut pack, mut next) = (packs.next()?, sketched.next()?);
    while let (Some((id, value)), Some((other, _))) = (pack, next) {
        match id.cmp(&other) {
            Ordering::Less => pack = packs.next()?,
            Ordering::Greater => next = sketched.next()?,
            Ordering::Equal => {
                found.insert(RunPack::of_value(value).0);
                pack = packs.next()?;
            }
        }
    }
    Ok(found)
}

/// Frames without sketches, up to the limit for one backup.
#[derive(Default)]
struct Unsketched {
    frames: Vec<u32>,
    chunks: u64,
    bytes: u64,
    is_full: bool,
}

impl Unsketched {
    /// Adds a frame, unless it or one before it did not fit.
    fn add(&mut self, number: u32, frame: &Frame) {
        self.chunks += u64::from(frame.blobs);
        self.bytes += u64::from(frame.length);
        self.is_full |= !fits_one_backup(self.chunks, self.bytes);
        if !self.is_full {
            self.frames.push(number);
        }
    }
}

/// Brings the runs of the cache up to date with the sketch files, if these are many.
pub(crate) fn refresh(repository: &Repository) -> Result<()> {
    Sources::read(repository, repository.memory / 4, &Listed::default()).map(drop)
}

/// Sketches of earlier backups: in runs, and in memory.
pub(super) struct Sources {
    pub(super) runs: Vec<Arc<SketchRun>>,
    pub(super) saved: Vec<Sketches>,
    /// Files whose bytes are damaged.
    damaged: Vec<FileId>,
    absent: Absent,
}

/// What a listed file means that is gone when it is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absent {
    IsAnError,
    IsPassedOver,
}

impl Sources {
    /// Reads the sketch files that no run of the cache stands for, or makes a run of them if they are
    /// many.
    pub(super) fn read(repository: &Repository, memory: u64, listed: &Listed) -> Result<Sources> {
        for _ in 1..LISTS_MAX {
            match Sources::read_listed(repository, memory, listed, Absent::IsAnError) {
                // A prune has put another file in the place of several.
                Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound => {}
                read => return read,
            }
        }
        Sources::read_listed(repository, memory, listed, Absent::IsPassedOver)
    }

    fn read_listed(repository: &Repository, memory: u64, listed: &Listed, absent: Absent) -> Result<Sources> {
        let (files, monitor) = (&repository.files, &repository.monitor);
        let listed = listed.ids(&*files.storage, folder::SKETCHES)?;
        let mut sources = Sources {
            runs: match &repository.cache {
                Some(cache) => cache.files(&files.keys, monitor).into_iter().map(Arc::new).collect(),
                None => Vec::new(),
            },
            saved: Vec::new(),
            damaged: Vec::new(),
            absent,
        };
        let covered: HashSet<FileId> = sources.runs.iter().flat_map(|run| run.covers()).copied().collect();
        let uncovered: Vec<_> = listed.iter().filter(|(id, _)| !covered.contains(id)).copied().collect();
        if let Some(copies) = &files.copies {
            copies.retain_listed(folder::SKETCHES, &uncovered);
        }
        let bytes: u64 = uncovered.iter().map(|(_, size)| size).sum();
        let limits = repository.index_limits();
        // In memory, each feature takes four bytes beside the index, instead of three in the file.
        let is_much = match &repository.cache {
            Some(_) => uncovered.len() > limits.files_read || bytes > (memory / 2).min(limits.bytes_read),
            None => bytes > memory / 2,
        };
        if is_much {
            sources.build_from_intact(repository, uncovered, &listed)?;
            return Ok(sources);
        }
        for group in groups(&uncovered) {
            monitor.check_cancelled()?;
            for (&(id, _), read) in group.iter().zip(read_each(&repository.files, group)) {
                let read = sources.if_intact(repository, id, read)?;
                sources.saved.extend(read);
            }
        }
        Ok(sources)
    }

    /// Returns the sketches of a file that was read. Goes on without a damaged one, which the monitor is told of.
    fn if_intact(&mut self, repository: &Repository, id: FileId, read: Result<Sketches>) -> Result<Option<Sketches>> {
        match read {
            Ok(sketches) => Ok(Some(sketches)),
            Err(error) if error.is_damage() => {
                if error.is_of_content() && !self.damaged.contains(&id) {
                    self.damaged.push(id);
                }
                repository.monitor.warn(Warning::Repository { error });
                Ok(None)
            }
            Err(Error::Storage(error))
                if error.kind() == ErrorKind::NotFound && self.absent == Absent::IsPassedOver =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes a run of these sketch files. A run that can't be read is deleted, and its sketch files are read
    /// again.
    fn build_from_intact(
        &mut self,
        repository: &Repository,
        mut files: Vec<(FileId, u64)>,
        listed: &[(FileId, u64)],
    ) -> Result<()> {
        let ids = listed.iter().map(|(id, _)| *id).collect();
        while let Err(error) = self.build(repository, &files, &ids) {
            let at_fault = self.runs.iter().position(|run| run.file().is_at_fault(&error));
            match at_fault.map(|at| self.runs.remove(at)) {
                Some(run) => {
                    run.file().delete();
                    let covers: HashSet<&FileId> = run.covers().iter().collect();
                    files.extend(listed.iter().filter(|(id, _)| covers.contains(id)));
                    repository.monitor.warn(Warning::Cache { error });
                }
                // Sketches are optional: without room for them, less is found.
                None if matches!(error, Error::Local { .. }) => {
                    repository.monitor.warn(Warning::Cache { error });
                    break;
                }
                None => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes a run of these sketch files. Smaller runs become part of it.
    fn build(&mut self, repository: &Repository, files: &[(FileId, u64)], listed: &HashSet<FileId>) -> Result<()> {
        let (keys, sorted) = (&repository.files.keys, repository.index_limits().sorted);
        let (folder, stays) = match &repository.cache {
            Some(cache) => (cache.make::<SketchRun>()?, true),
            None => (repository.scratch_folder(), false),
        };
        let mut writer = SketchRunWriter::new(keys, &folder, stays, sorted)?;
        let bytes: u64 = files.iter().map(|(_, size)| size).sum();
        let mut chunks = bytes / 100;
        let mut absorbed = Vec::new();
        // Smaller runs come last.
        for (at, run) in self.runs.iter().enumerate().rev() {
            if run.weight() > chunks.saturating_mul(ABSORBED_SHARE) {
                break;
            }
            chunks += run.weight();
            writer.absorb(run.clone())?;
            absorbed.push(at);
        }
        for group in groups(files) {
            repository.monitor.check_cancelled()?;
            for (&(id, _), read) in group.iter().zip(read_each(&repository.files, group)) {
                if let Some(sketches) = self.if_intact(repository, id, read)? {
                    writer.add(id, sketches)?;
                }
            }
        }
        let run = writer.finish(|id| listed.contains(id))?;
        for at in absorbed {
            let run = self.runs.remove(at);
            run.file().delete();
        }
        self.runs.push(Arc::new(run));
        Ok(())
    }
}

/// Reads several files of sketches, where the storage is far at once.
pub(crate) fn read_each(files: &Files, group: &[(FileId, u64)]) -> Vec<Result<Sketches>> {
    each(files.storage.is_remote(), group, |(id, _)| read(files, *id))
}

/// Reads a file of sketches.
pub(crate) fn read(files: &Files, id: FileId) -> Result<Sketches> {
    let open = |mut bytes: Vec<u8>| Sketches::open(&files.keys, id, &mut bytes);
    files.read_copied(folder::SKETCHES, id, LIMIT, true, open)
}

/// Returns the number of the frame at an offset of a pack.
pub(super) fn find_frame(loaded: &LoadedIndex, pack: FileId, offset: u32) -> Option<u32> {
    let number = loaded.index.find_pack(pack)?;
    if loaded.index.is_missing(number) {
        return None;
    }
    let mut range = loaded.index.frames_of(number);
    while !range.is_empty() {
        let middle = range.start + (range.end - range.start) / 2;
        match loaded.index.frame(middle).offset.cmp(&offset) {
            Ordering::Less => range.start = middle + 1,
            Ordering::Equal => return loaded.index.can_be_base(middle).then_some(middle),
            Ordering::Greater => range.end = middle,
        }
    }
    None
}
