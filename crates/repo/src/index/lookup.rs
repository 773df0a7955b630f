//! Lookups in everything that is known: chunks in memory, in runs of the cache, and in runs to which
//! memory was moved.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock};

use ibid_format::pack::PackSummary;
use ibid_format::run::{RunFrame, RunPack, ShortId};
use ibid_format::{ChunkId, ChunkPrefix, FileId};

use super::build;
use super::frames::{Frame, Pack, Place};
use super::memory::MemoryIndex;
use super::number_set::NumberSet;
use super::run::{FilterRoom, Merge, Merged, PageCache, Run, RunStack};
use crate::scratch::{Array, Scratch};
use crate::{Error, Result, Warning};

/// A run whose frames have numbers in the index.
struct RunPart {
    run: Arc<Run>,
    /// The same run, made again because a page of the first is damaged; `None` if that failed.
    again: OnceLock<Option<Arc<Run>>>,
    first_frame: u32,
    first_pack: u32,
    first_ordinal: u64,
}

/// Index of chunk ids to frames, and of frames to packs.
pub(crate) struct Index {
    /// Runs, by ascending frame numbers.
    runs: Vec<RunPart>,
    /// Number of frames, of packs, and of chunks, in runs.
    frames_in_runs: u32,
    packs_in_runs: u32,
    chunks_in_runs: u64,
    /// Stored packs that are in no run; their numbers follow those of packs in runs. Some may be
    /// [missing](Index::is_missing).
    packs: Vec<Pack>,
    /// The numbers of these packs.
    numbers: HashMap<FileId, u32>,
    missing: HashSet<u32>,
    /// Packs that are shorter than they were, with their sizes in bytes.
    cut: HashMap<u32, u64>,
    /// Frames beyond the end of a pack that is cut short, and frames that depend on chunks lost with a
    /// pack. Their chunks count as unknown.
    lost: NumberSet,
    /// Frames whose chunks are to be stored again, and frames that are not needed. Their chunks count as unknown,
    /// but are read where others are encoded against them.
    hidden: NumberSet,
    /// Frames of packs that a writer has signed, to a keeper who prunes them. What others have is taken from there.
    doubted: NumberSet,
    /// Chunks of hidden frames in `memory` that were stored again.
    again: MemoryIndex,
    /// Chunks of stored packs that are in no run, and chunks that a backup adds.
    memory: MemoryIndex,
    /// Frames of stored packs that are in no run, and the ordinals of their first chunks.
    frames: Vec<Frame>,
    ordinals: Vec<u64>,
    /// Frames added by a backup since; their numbers follow those above.
    added: Mutex<Added>,
    /// Runs to which chunks were moved from memory. Their numbers are places.
    moved: RwLock<RunStack>,
    has_deltas: AtomicBool,
    length_max: u32,
    pages: PageCache,
    filters: FilterRoom,
    scratch: Scratch,
}

/// What a backup adds, which may be as much as the index had before.
struct Added {
    frames: Array<Frame>,
    packs: Array<Pack>,
}

/// How well a place serves: not stored yet, too deep, doubted, and its depth. The least is the best.
type Rank = (bool, bool, bool, u8);

impl Index {
    /// Returns an index of these runs.
    pub(super) fn new(scratch: Scratch, runs: Vec<Arc<Run>>) -> Index {
        let limits = scratch.limits;
        let mut index = Index {
            runs: Vec::new(),
            frames_in_runs: 0,
            packs_in_runs: 0,
            chunks_in_runs: 0,
            packs: Vec::new(),
            numbers: HashMap::new(),
            missing: HashSet::new(),
            cut: HashMap::new(),
            lost: NumberSet::default(),
            hidden: NumberSet::default(),
            doubted: NumberSet::default(),
            again: MemoryIndex::new(),
            memory: MemoryIndex::new(),
            frames: Vec::new(),
            ordinals: Vec::new(),
            added: Mutex::new(Added {
                frames: Array::new(&scratch),
                packs: Array::new(&scratch),
            }),
            moved: RwLock::default(),
            has_deltas: AtomicBool::new(false),
            length_max: 0,
            pages: PageCache::new(limits.pages),
            filters: FilterRoom::new(limits.filters),
            scratch,
        };
        for run in runs {
            index.add_run(run);
        }
        index
    }

    fn add_run(&mut self, run: Arc<Run>) {
        let trailer = run.trailer;
        self.runs.push(RunPart {
            run,
            again: OnceLock::new(),
            first_frame: self.frames_in_runs,
            first_pack: self.packs_in_runs,
            first_ordinal: self.chunks_in_runs,
        });
        self.frames_in_runs += trailer.frames;
        self.packs_in_runs += trailer.packs;
        self.chunks_in_runs += trailer.chunks;
        self.length_max = self.length_max.max(trailer.length_max);
        self.has_deltas.fetch_or(trailer.depth_max > 0, Ordering::Relaxed);
    }

    /// Adds a stored pack; returns the number of its first frame.
    pub(super) fn add_pack(&mut self, pack: Pack, frames: &[ibid_format::index::IndexedFrame]) -> u32 {
        let (number, start) = (self.pack_count(), self.stored_frames());
        self.numbers.insert(pack.id, number);
        self.packs.push(Pack {
            first_frame: start,
            ..pack
        });
        for frame in frames {
            self.ordinals.push(self.ordinals());
            self.frames.push(Frame::of(number, frame));
        }
        let length_max = frames.iter().map(|frame| frame.length).max();
        self.length_max = self.length_max.max(length_max.unwrap_or(0));
        self.has_deltas
            .fetch_or(frames.iter().any(|frame| frame.depth > 0), Ordering::Relaxed);
        start
    }

    /// Frees memory that was reserved while loading.
    pub(super) fn loaded(&mut self) {
        self.frames.shrink_to_fit();
        self.ordinals.shrink_to_fit();
        self.packs.shrink_to_fit();
        self.numbers.shrink_to_fit();
    }

    /// Records that a pack with this number is missing. Its chunks count as unknown.
    pub(super) fn miss(&mut self, pack: u32) {
        self.missing.insert(pack);
    }

    /// Returns whether any pack that is listed is missing.
    pub(crate) fn lacks_packs(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Records that a pack is cut short, to `size` bytes. Chunks of the frames beyond its end count as
    /// unknown; all of its chunks do if no frame is left.
    pub(super) fn cut(&mut self, pack: u32, size: u64) {
        let frames = self.frames_of(pack);
        let is_whole = |number: &u32| self.frame(*number).end() <= size;
        let whole = frames.clone().take_while(is_whole).count() as u32;
        if whole == 0 {
            return self.miss(pack);
        }
        self.cut.insert(pack, size);
        self.lose(frames.skip(whole as usize));
    }

    /// Returns the size in bytes of a pack that is cut short and has frames left; `None` for any other
    /// pack.
    pub(crate) fn cut_to(&self, pack: u32) -> Option<u64> {
        self.cut.get(&pack).copied()
    }

    /// Returns whether a stored frame is beyond the end of its pack, which is cut short.
    pub(crate) fn is_cut_off(&self, frame: &Frame) -> bool {
        self.cut_to(frame.pack).is_some_and(|size| frame.end() > size)
    }

    /// Records that these frames can't be decoded. Their chunks count as unknown.
    pub(crate) fn lose(&mut self, frames: impl IntoIterator<Item = u32>) {
        for frame in frames {
            self.lost.insert(frame);
        }
    }

    /// Returns the frames that are beyond the end of a pack, or depend on chunks lost with one.
    pub(crate) fn lost(&self) -> &NumberSet {
        &self.lost
    }

    /// Makes the chunks of these frames unknown to [`contains`](Index::contains) and [`get`](Index::get), until they
    /// are stored again. Other frames' bases are still found in them.
    pub(crate) fn hide(&mut self, frames: NumberSet) {
        self.hidden = frames;
    }

    /// Makes these frames rank behind all others that have the same chunks, and no bases.
    pub(crate) fn doubt(&mut self, frames: NumberSet) {
        self.doubted = frames;
    }

    /// Returns whether a frame is [doubted](Index::doubt).
    pub(crate) fn is_doubted(&self, frame: u32) -> bool {
        self.doubted.contains(frame)
    }

    /// Returns whether new chunks may be encoded against those of a stored frame.
    pub(crate) fn can_be_base(&self, frame: u32) -> bool {
        !self.lost.contains(frame) && !self.hidden.contains(frame) && !self.doubted.contains(frame)
    }

    /// Returns whether the pack with this number is listed but not in the storage.
    pub(crate) fn is_missing(&self, pack: u32) -> bool {
        self.missing.contains(&pack)
    }

    /// Returns the largest length of a stored frame's chunks together, bytes.
    pub(crate) fn length_max(&self) -> u32 {
        self.length_max
    }

    /// Returns whether any stored frame needs others to be decoded.
    pub(crate) fn has_deltas(&self) -> bool {
        self.has_deltas.load(Ordering::Relaxed)
    }

    /// Returns the number of frames that were stored when the index was loaded. Their numbers are
    /// below it; they include those of missing packs.
    pub(crate) fn stored_frames(&self) -> u32 {
        self.frames_in_runs + self.frames.len() as u32
    }

    /// Returns the packs that were stored when the index was loaded, with their numbers.
    pub(crate) fn packs(&self) -> impl Iterator<Item = (u32, Pack)> + '_ {
        let stored = (0..self.pack_count()).filter(|number| !self.is_missing(*number));
        stored.map(|number| (number, self.pack(number)))
    }

    /// Returns the number of a pack that was stored when the index was loaded.
    pub(crate) fn find_pack(&self, id: FileId) -> Option<u32> {
        let in_memory = self.numbers.get(&id).copied();
        in_memory.or_else(|| {
            self.runs.iter().find_map(|part| {
                let (number, _) = self.read_run(part, |run| run.find_pack(id, &self.pages))??;
                Some(part.first_pack + number)
            })
        })
    }

    /// Returns the packs that were stored when the index was loaded, missing ones included, in the order
    /// of their ids, with the [values](RunPack::value) of their numbers.
    pub(crate) fn packs_sorted(&self) -> Result<Merge> {
        self.packs_sorted_with(Vec::new())
    }

    /// Does the same, with other packs among them.
    fn packs_sorted_with(&self, mut others: Vec<(ShortId, u64)>) -> Result<Merge> {
        for (number, pack) in (self.packs_in_runs..).zip(&self.packs) {
            others.push((ShortId::of_file(pack.id), pack.size << 32 | u64::from(number)));
        }
        others.sort_unstable();
        let runs = self.runs.iter();
        let runs = runs.map(|part| Merged::packs(part.run.clone(), part.first_pack));
        Merge::new(runs.chain([Merged::Memory(others.into_iter())]).collect())
    }

    /// Calls `each` with the ids and sizes in bytes of all stored packs, ascending, those that a backup
    /// has added included.
    pub(super) fn each_pack_sorted(&self, mut each: impl FnMut(FileId, u64)) -> Result<()> {
        let mut others = Vec::new();
        let mut added = self.added();
        for at in 0..added.packs.len() {
            let pack = added.packs.get(at)?;
            others.push((ShortId::of_file(pack.id), pack.size << 32));
        }
        drop(added);
        let mut merge = self.packs_sorted_with(others)?;
        let mut last = None;
        while let Some((id, value)) = merge.next()? {
            if last.replace(id) != Some(id) {
                let (_, size) = RunPack::of_value(value);
                each(id.file(), size);
            }
        }
        Ok(())
    }

    /// Returns the number of packs that were stored when the index was loaded, missing ones included:
    /// the numbers of all are below it.
    pub(crate) fn pack_count(&self) -> u32 {
        self.packs_in_runs + self.packs.len() as u32
    }

    /// Returns the numbers of a stored pack's frames.
    pub(crate) fn frames_of(&self, pack: u32) -> std::ops::Range<u32> {
        if pack < self.packs_in_runs {
            let (pack, end) = self.pack_in_run(pack);
            return pack.first_frame..end;
        }
        let number = (pack - self.packs_in_runs) as usize;
        let next = self.packs.get(number + 1);
        self.packs[number].first_frame..next.map_or(self.stored_frames(), |next| next.first_frame)
    }

    /// Returns a pack of a run, and the number of the first frame after it.
    fn pack_in_run(&self, number: u32) -> (Pack, u32) {
        let at = self.runs.partition_point(|part| part.first_pack <= number) - 1;
        let part = &self.runs[at];
        let found = self.read_run(part, |run| run.pack(number - part.first_pack, &self.pages));
        // If the run can't be made again, there is no such pack, as for its frames.
        found.map_or((Pack::UNKNOWN, 0), |(pack, end)| {
            let pack = Pack {
                id: pack.id,
                kind: pack.kind,
                size: pack.size,
                first_frame: part.first_frame + pack.first_frame,
            };
            (pack, part.first_frame + end)
        })
    }

    /// Returns the frame with this number; see [`Frame::is_stored`] for frames not stored yet.
    pub(crate) fn frame(&self, number: u32) -> Frame {
        if number < self.frames_in_runs {
            return self.frame_in_run(number);
        }
        let number = (number - self.frames_in_runs) as usize;
        match self.frames.get(number) {
            Some(frame) => *frame,
            // If a temporary file can't be read, the frame counts as not stored.
            None => {
                let number = (number - self.frames.len()) as u64;
                self.added().frames.get(number).unwrap_or(Frame::UNSTORED)
            }
        }
    }

    fn frame_in_run(&self, number: u32) -> Frame {
        let at = self.runs.partition_point(|part| part.first_frame <= number) - 1;
        let part = &self.runs[at];
        let found = self.read_run(part, |run| run.frame(number - part.first_frame, &self.pages));
        // If the run can't be made again, the frame counts as not stored.
        found.map_or(Frame::UNSTORED, |found| part.frame(&found))
    }

    /// Returns whether the frame with this number is stored.
    pub(crate) fn is_stored(&self, number: u32) -> bool {
        number < self.stored_frames() || self.frame(number).is_stored()
    }

    /// Returns the pack with this number.
    pub(crate) fn pack(&self, number: u32) -> Pack {
        if number < self.packs_in_runs {
            return self.pack_in_run(number).0;
        }
        let number = (number - self.packs_in_runs) as usize;
        match self.packs.get(number) {
            Some(pack) => *pack,
            None => {
                let number = (number - self.packs.len()) as u64;
                self.added().packs.get(number).unwrap_or(Pack::UNKNOWN)
            }
        }
    }

    /// Adds a frame that is not stored yet; returns its number.
    ///
    /// # Errors
    /// [`Error::Local`](crate::Error::Local) if there is no room for a temporary file.
    pub(crate) fn add_frame(&self) -> Result<u32> {
        let number = self.added().frames.push(Frame::UNSTORED)?;
        Ok(self.stored_frames() + number as u32)
    }

    /// Marks added frames as stored in this pack. `numbers` are theirs, in the pack's order.
    ///
    /// # Errors
    /// As [`add_frame`](Index::add_frame).
    pub(crate) fn frames_stored(&self, pack: &PackSummary, numbers: &[u32]) -> Result<()> {
        let mut added = self.added();
        let number = added.packs.push(Pack {
            id: pack.id,
            kind: pack.kind,
            size: pack.size,
            first_frame: u32::MAX,
        })?;
        let number = self.pack_count() + number as u32;
        for (frame, at) in pack.frames.iter().zip(numbers) {
            self.has_deltas.fetch_or(frame.depth > 0, Ordering::Relaxed);
            let frame = ibid_format::index::IndexedFrame::from(frame);
            let at = u64::from(*at - self.stored_frames());
            added.frames.set(at, Frame::of(number, &frame))?;
        }
        Ok(())
    }

    fn added(&self) -> MutexGuard<'_, Added> {
        self.added.lock().expect("no holder of this lock panics")
    }

    /// Returns whether a chunk can be read from this place, or will be.
    fn is_usable(&self, place: Place) -> bool {
        self.lost.is_empty() && self.missing.is_empty()
            || !self.lost.contains(place.frame)
                && (place.frame >= self.stored_frames() || !self.is_missing(self.frame(place.frame).pack))
    }

    /// Returns whether a chunk is known.
    pub(crate) fn contains(&self, id: &ChunkId) -> bool {
        if self.missing.is_empty() && self.lost.is_empty() && self.hidden.is_empty() {
            let short = ShortId::of(id);
            return self.memory.get(id).is_some()
                || self.in_moved((short, short), |_, _| true).is_some()
                || self.runs.iter().rev().any(|part| {
                    let mut found = false;
                    self.find_in_run(part, (short, short), |_, _| found = true);
                    found
                });
        }
        self.get(id).is_some()
    }

    /// Returns whether a chunk that is not known was stored once, and is lost with a pack or a part of one.
    pub(crate) fn is_lost(&self, id: &ChunkId) -> bool {
        if self.missing.is_empty() && self.lost.is_empty() {
            return false;
        }
        let short = ShortId::of(id);
        self.memory.get(id).is_some()
            || self.in_moved((short, short), |_, _| true).is_some()
            || self.runs.iter().any(|part| {
                let mut found = false;
                self.find_in_run(part, (short, short), |_, _| found = true);
                found
            })
    }

    /// Returns the [lost](Index::lost) frames that have a chunk.
    pub(crate) fn lost_frames_of(&self, id: &ChunkId) -> Vec<u32> {
        let short = ShortId::of(id);
        let copies = self.copies(id.prefix()).into_iter();
        let copies = copies.filter(|(other, _)| other == id).map(|(_, place)| place);
        self.lost_among((short, short), self.memory.get(id).into_iter().chain(copies))
    }

    /// Returns the [lost](Index::lost) frames that have a chunk whose id begins with this prefix.
    pub(crate) fn lost_frames_with(&self, prefix: ChunkPrefix) -> Vec<u32> {
        let known = self.memory.find(prefix).into_iter().chain(self.copies(prefix));
        self.lost_among(ShortId::range_of(prefix), known.map(|(_, place)| place))
    }

    /// Returns the lost frames at these places, and those with chunks of runs in this range.
    fn lost_among(&self, range: (ShortId, ShortId), places: impl Iterator<Item = Place>) -> Vec<u32> {
        if self.lost.is_empty() {
            return Vec::new();
        }
        let mut frames: Vec<u32> = places.map(|place| place.frame).collect();
        self.in_moved(range, |_, place| {
            frames.push(place.frame);
            false
        });
        for part in &self.runs {
            self.find_in_run(part, range, |_, ordinal| {
                let found = self.read_run(part, |run| run.frame_of(ordinal, &self.pages));
                frames.extend(found.map(|(number, _)| part.first_frame + number));
            });
        }
        frames.retain(|frame| self.lost.contains(*frame));
        frames
    }

    /// Returns the place of a chunk, if it is known.
    pub(crate) fn get(&self, id: &ChunkId) -> Option<Place> {
        self.place_of(id, &self.hidden)
    }

    /// Returns the place of a chunk, if it is known or in a [hidden](Index::hide) frame.
    pub(crate) fn get_any(&self, id: &ChunkId) -> Option<Place> {
        self.place_of(id, &NumberSet::default())
    }

    /// Returns the place of a chunk, if it is known in a frame that is not among these.
    fn place_of(&self, id: &ChunkId, hidden: &NumberSet) -> Option<Place> {
        let short = ShortId::of(id);
        let is_seen = |place: &Place| !hidden.contains(place.frame);
        // A backup adds only chunks that were unknown, so there is no better place.
        if let Some(place) = self.memory.get(id).filter(is_seen)
            && (place.frame >= self.stored_frames() || self.runs.is_empty())
            && self.is_usable(place)
            && !self.doubted.contains(place.frame)
        {
            return Some(place);
        }
        let memory = [self.memory.get(id), self.again.get(id)].into_iter().flatten();
        let copies = self.copies(id.prefix()).into_iter();
        let copies = copies.filter(|(other, _)| other == id).map(|(_, place)| place);
        let best = self.best((short, short), memory.chain(copies), hidden, None);
        best.map(|(_, place)| place)
    }

    /// Returns the place of a chunk, if it can be read.
    pub(crate) fn get_stored(&self, id: &ChunkId) -> Option<Place> {
        self.get(id).filter(|place| self.is_stored(place.frame))
    }

    /// Returns a known chunk whose id begins with this prefix, if any.
    pub(crate) fn find(&self, prefix: ChunkPrefix) -> Option<(ShortId, Place)> {
        self.find_ranked(prefix, None)
    }

    /// Does the same for a frame of this depth that is encoded against the chunk: a place that is less deep comes
    /// before those that can't serve it, also if it is [doubted](Index::doubt). There may be none.
    pub(crate) fn find_for(&self, prefix: ChunkPrefix, depth: u8) -> Option<(ShortId, Place)> {
        self.find_ranked(prefix, Some(depth))
    }

    fn find_ranked(&self, prefix: ChunkPrefix, below: Option<u8>) -> Option<(ShortId, Place)> {
        let range = ShortId::range_of(prefix);
        let again = match self.hidden.is_empty() {
            true => None,
            false => self.again.find(prefix),
        };
        let in_memory = self.memory.find(prefix).into_iter().chain(again);
        let in_memory = in_memory.chain(self.copies(prefix));
        let mut known: Vec<(ShortId, Place)> = in_memory.map(|(id, place)| (ShortId::of(&id), place)).collect();
        if let Some(first) = known.first().copied() {
            // Readers take the copies of one chunk only.
            known.retain(|(id, _)| *id == first.0);
            let places = known.into_iter().map(|(_, place)| place);
            return self.best((first.0, first.0), places, &NumberSet::default(), below);
        }
        self.best(range, std::iter::empty(), &NumberSet::default(), below)
    }

    fn copies(&self, prefix: ChunkPrefix) -> Vec<(ChunkId, Place)> {
        // A copy matters only if the place in the table can't be used, or another one is better.
        if self.missing.is_empty() && self.lost.is_empty() && self.doubted.is_empty() {
            return Vec::new();
        }
        self.memory.copies(prefix)
    }

    /// Returns the place in the stored frame of smallest depth, or else in one that is not stored yet, among those
    /// given (all of the first id in the range, if any) and those in runs. Passes over the frames in `hidden`. Those
    /// that are less deep than `below` come first.
    fn best(
        &self,
        range: (ShortId, ShortId),
        known: impl Iterator<Item = Place>,
        hidden: &NumberSet,
        below: Option<u8>,
    ) -> Option<(ShortId, Place)> {
        let mut best: Option<(ShortId, Place, Rank)> = None;
        let mut meet = |id: ShortId, place: Place, frame: Frame| {
            let is_too_deep = below.is_some_and(|below| frame.depth >= below);
            let is_doubted = self.doubted.contains(place.frame);
            let rank = (!frame.is_stored(), is_too_deep, is_doubted, frame.depth);
            let is_better = best.is_none_or(|(other, _, least)| id < other || id == other && rank < least);
            if is_better && self.is_usable(place) && !hidden.contains(place.frame) {
                best = Some((id, place, rank));
            }
        };
        for place in known {
            meet(range.0, place, self.frame(place.frame));
        }
        self.in_moved(range, |id, place| {
            meet(id, place, self.frame(place.frame));
            false
        });
        for part in &self.runs {
            let mut ordinals = Vec::new();
            self.find_in_run(part, range, |id, ordinal| ordinals.push((id, ordinal)));
            for (id, ordinal) in ordinals {
                let found = self.read_run(part, |run| run.frame_of(ordinal, &self.pages));
                if let Some((number, found)) = found {
                    let place = Place {
                        frame: part.first_frame + number,
                        slot: (ordinal - found.ordinal) as u16,
                    };
                    meet(id, place, part.frame(&found));
                }
            }
        }
        best.map(|(id, place, _)| (id, place))
    }

    /// Calls `found` for the chunks in this range that were moved from memory, until it returns true.
    fn in_moved(&self, range: (ShortId, ShortId), mut found: impl FnMut(ShortId, Place) -> bool) -> Option<()> {
        let moved = self.moved.read().expect("no holder of this lock panics");
        for run in moved.newest_first() {
            let mut done = false;
            let looked = run.find(range, &self.pages, &self.filters, |id, value| {
                let place = Place {
                    frame: (value >> 16) as u32,
                    slot: value as u16,
                };
                done |= found(id, place);
            });
            if let Err(error) = looked {
                // The entries are nowhere else: chunks may be stored twice, and none is lost.
                self.scratch.monitor.warn(Warning::Repository { error });
            }
            if done {
                return Some(());
            }
        }
        None
    }

    fn find_in_run(&self, part: &RunPart, range: (ShortId, ShortId), mut found: impl FnMut(ShortId, u64)) {
        let look = |run: &Run| {
            let mut entries = Vec::new();
            run.find(range, &self.pages, &self.filters, |id, value| entries.push((id, value)))?;
            Ok(entries)
        };
        let entries = self.read_run(part, look).unwrap_or_default();
        entries.into_iter().for_each(|(id, value)| found(id, value));
    }

    /// Reads something of a run. If a page is damaged, makes the run again from the repository.
    fn read_run<T>(&self, part: &RunPart, read: impl Fn(&Run) -> Result<T>) -> Option<T> {
        if let Some(again) = part.again.get() {
            return read(again.as_ref()?).ok();
        }
        match read(&part.run) {
            Ok(found) => Some(found),
            Err(error) => {
                let again = part.again.get_or_init(|| self.make_again(part, error));
                read(again.as_ref()?).ok()
            }
        }
    }

    /// Makes a damaged run again, with the same numbers.
    fn make_again(&self, part: &RunPart, error: Error) -> Option<Arc<Run>> {
        let monitor = &self.scratch.monitor;
        monitor.warn(Warning::Cache { error });
        // The next command must not use it.
        part.run.file().delete();
        let make = |folder: &Path| build::from_directories(&self.scratch, folder, &part.run);
        match self.scratch.in_some_folder(make) {
            Ok(run) => Some(Arc::new(run)),
            Err(error) => {
                monitor.warn(Warning::Repository { error });
                None
            }
        }
    }

    /// Adds a chunk that was unknown.
    pub(crate) fn insert(&self, id: &ChunkId, place: Place) -> Result<()> {
        if !self.hidden.is_empty() && self.memory.get(id).is_some() {
            return self.again.insert(id, place, |_| true);
        }
        self.memory.insert(id, place, |known| !self.is_usable(known))
    }

    /// Adds a stored chunk. If it was known, the place in the frame of smaller depth wins.
    pub(crate) fn insert_stored(&self, id: &ChunkId, place: Place) -> Result<()> {
        let is_less_deep = |known: Place| self.frame(place.frame).depth < self.frame(known.frame).depth;
        self.memory.insert_stored(id, place, is_less_deep)
    }

    /// Moves the chunks in memory to a temporary file if they take too much of it.
    pub(crate) fn make_room(&self) -> Result<()> {
        if self.memory.bytes() > self.scratch.limits.memory {
            self.move_memory()?;
        }
        Ok(())
    }

    fn move_memory(&self) -> Result<()> {
        let mut moved = self.moved.read().expect("no holder of this lock panics").clone();
        moved.add(&self.scratch, &self.filters, |entry| {
            self.memory.each_sorted(|id, place| {
                let value = u64::from(place.frame) << 16 | u64::from(place.slot);
                entry(ShortId::of(&id), value)
            })
        })?;
        // Lookups search memory first and runs afterwards, so they find every chunk at all times.
        *self.moved.write().expect("no holder of this lock panics") = moved;
        self.memory.clear();
        Ok(())
    }

    /// Returns the number of known chunks. A chunk that is stored twice may count twice.
    pub(crate) fn len(&self) -> u64 {
        let moved = self.moved.read().expect("no holder of this lock panics");
        let moved: u64 = moved.newest_first().map(|run| run.trailer.entries).sum();
        let runs: u64 = self.runs.iter().map(|part| part.run.trailer.entries).sum();
        self.memory.len() + moved + runs
    }

    /// Returns how many pages of runs were read so far, without those that were still in memory.
    pub(crate) fn pages_read(&self) -> u64 {
        self.pages.pages_read()
    }

    /// Returns the memory in use, bytes; pages count as if all were in use.
    pub(crate) fn bytes(&self) -> u64 {
        let added = {
            let added = self.added();
            added.frames.memory() + added.packs.memory()
        };
        let (frames, packs) = (self.frames.capacity(), self.packs.capacity());
        let moved = self.moved.read().expect("no holder of this lock panics");
        let parts = self.runs.iter().flat_map(|part| {
            let again = part.again.get().and_then(Option::as_ref);
            again.map_or(0, |run| run.memory()).checked_add(part.run.memory())
        });
        let runs = parts.sum::<u64>() + moved.newest_first().map(Run::memory).sum::<u64>();
        let pages = if self.runs.is_empty() && moved.newest_first().next().is_none() {
            0
        } else {
            self.pages.memory()
        };
        let sets = self.lost.bytes() + self.hidden.bytes() + self.missing.capacity() * 8;
        self.memory.bytes()
            + self.again.bytes()
            + runs
            + pages
            + added
            + (frames * size_of::<(Frame, u64)>() + packs * size_of::<Pack>() + sets) as u64
            + (self.numbers.capacity() * size_of::<(FileId, u64)>()) as u64
    }

    /// Calls `each` with all frames that were stored when the index was loaded, except those that are
    /// missing with their packs or parts of these, and their numbers.
    pub(crate) fn each_frame(&self, mut each: impl FnMut(u32, Frame) -> Result<()>) -> Result<()> {
        for number in 0..self.stored_frames() {
            let frame = self.frame(number);
            if frame.is_stored() && !self.is_missing(frame.pack) && !self.is_cut_off(&frame) {
                each(number, frame)?;
            }
        }
        Ok(())
    }

    /// Returns the number of chunks in frames before this stored one, missing packs included: a number
    /// for every chunk.
    pub(crate) fn ordinal(&self, place: Place) -> u64 {
        if place.frame < self.frames_in_runs {
            let at = self.runs.partition_point(|part| part.first_frame <= place.frame) - 1;
            let part = &self.runs[at];
            let found = self.read_run(part, |run| run.frame(place.frame - part.first_frame, &self.pages));
            return part.first_ordinal + found.map_or(0, |found| found.ordinal) + u64::from(place.slot);
        }
        let first = self.ordinals[(place.frame - self.frames_in_runs) as usize];
        first + u64::from(place.slot)
    }

    /// Returns the number of chunks in all stored frames, missing packs included.
    pub(crate) fn ordinals(&self) -> u64 {
        match (self.ordinals.last(), self.frames.last()) {
            (Some(first), Some(frame)) => first + u64::from(frame.blobs),
            _ => self.chunks_in_runs,
        }
    }
}

impl RunPart {
    fn frame(&self, found: &RunFrame) -> Frame {
        Frame::of(self.first_pack + found.pack, &found.frame)
    }
}
