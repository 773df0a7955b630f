//! Dependencies between frames, from the directories of their packs.
//!
//! There may be more of them than fit into memory: a frame has up to as many bases as chunks. So pairs
//! are sorted in temporary files and found by binary search.

use std::ops::Range;

use ibid_format::ChunkPrefix;
use ibid_format::pack::FrameSummary;
use ibid_format::run::ShortId;

use super::frames::{Frame, Pack, Place};
use super::loaded::{LoadedIndex, LostPacks};
use super::run::Sorter;
use crate::scratch::{Array, Bits, Scratch};
use crate::{Error, Monitor, Result};

/// Pairs of numbers, each once, ascending.
pub(crate) struct Pairs(Array<u64>);

impl Pairs {
    fn pair(packed: u64) -> (u32, u32) {
        ((packed >> 32) as u32, packed as u32)
    }

    /// Returns the number of pairs.
    pub(crate) fn len(&self) -> u64 {
        self.0.len()
    }

    /// Returns the pair at a position below [`len`](Pairs::len).
    pub(crate) fn get(&mut self, at: u64) -> Result<(u32, u32)> {
        self.0.get(at).map(Pairs::pair)
    }

    /// Returns the position of the first pair that begins with `first` or more.
    pub(crate) fn start(&mut self, first: u32) -> Result<u64> {
        self.0.partition_point(|packed| Pairs::pair(packed).0 < first)
    }

    /// Returns the second number of the pair at a position, if it begins with `first`.
    pub(crate) fn second(&mut self, at: u64, first: u32) -> Result<Option<u32>> {
        if at >= self.0.len() {
            return Ok(None);
        }
        let pair = Pairs::pair(self.0.get(at)?);
        Ok((pair.0 == first).then_some(pair.1))
    }
}

/// Sorts pairs of numbers.
pub(crate) struct PairSorter<'s> {
    scratch: &'s Scratch,
    sorter: Sorter<'s>,
}

impl<'s> PairSorter<'s> {
    pub(crate) fn new(scratch: &'s Scratch) -> PairSorter<'s> {
        PairSorter {
            scratch,
            sorter: sorter(scratch),
        }
    }

    pub(crate) fn push(&mut self, first: u32, second: u32) -> Result<()> {
        // In the high bits, so that a page of a run finds them by its first ones.
        let packed = u128::from(first) << 96 | u128::from(second) << 64;
        self.sorter.push(ShortId(packed), 0)
    }

    pub(crate) fn finish(self) -> Result<Pairs> {
        let mut pairs = Array::zeros(self.scratch, 0)?;
        let mut sorted = self.sorter.finish(Vec::new())?;
        let mut last = None;
        while let Some((ShortId(packed), _)) = sorted.next()? {
            let packed = (packed >> 64) as u64;
            if last.replace(packed) != Some(packed) {
                pairs.push(packed)?;
            }
        }
        Ok(Pairs(pairs))
    }
}

fn sorter(scratch: &Scratch) -> Sorter<'_> {
    // What is sorted are the ids; the numbers are zeros.
    Sorter::new(&scratch.files.keys, &scratch.folder, scratch.limits.sorted, 0)
}

/// Chunks by the first 12 bytes of their ids, each with a frame, ascending.
struct Prefixes(Array<u128>);

impl Prefixes {
    fn sorted(scratch: &Scratch, sorter: Sorter<'_>) -> Result<Prefixes> {
        let mut prefixes = Array::zeros(scratch, 0)?;
        let mut sorted = sorter.finish(Vec::new())?;
        while let Some((ShortId(packed), _)) = sorted.next()? {
            prefixes.push(packed)?;
        }
        Ok(Prefixes(prefixes))
    }

    fn pack(chunk: ChunkPrefix, frame: u32) -> ShortId {
        let (ShortId(first), _) = ShortId::range_of(chunk);
        ShortId(first | u128::from(frame))
    }

    fn get(&mut self, at: u64) -> Result<(ChunkPrefix, u32)> {
        let packed = self.0.get(at)?;
        Ok((ShortId(packed).padded().prefix(), packed as u32))
    }

    fn start(&mut self, chunk: ChunkPrefix) -> Result<u64> {
        let (ShortId(first), _) = ShortId::range_of(chunk);
        self.0.partition_point(|packed| packed < first)
    }

    /// Calls `each` with the frames of this chunk and their positions, until it returns false.
    fn each(&mut self, chunk: ChunkPrefix, mut each: impl FnMut(u64, u32) -> Result<bool>) -> Result<()> {
        for at in self.start(chunk)?..self.0.len() {
            let (other, frame) = self.get(at)?;
            if other != chunk || !each(at, frame)? {
                break;
            }
        }
        Ok(())
    }
}

/// Chunks whose dependents are wanted, by ordinal.
pub(crate) type Wanted<'w> = Option<&'w mut Bits>;

/// Dependencies between frames, named by their numbers in the index.
pub(crate) struct Dependencies {
    /// Pairs of a base frame and a frame encoded against a chunk in it.
    frames: Pairs,
    /// The same for chunks that were asked for.
    of_chunks: Pairs,
    /// Bases that no less deep frame holds, each with a frame encoded against it.
    unknown: Prefixes,
    /// Depth of the deepest frame whose bases could not be read.
    unread_depth: u8,
    unread: Unread,
    /// For each frame, the last search that met it.
    met: Array<u32>,
    searches: u32,
}

/// Packs that are there, and of which bases of frames could not be read.
#[derive(Default)]
pub(crate) struct Unread {
    pub(crate) packs: u64,
    /// Of the first of them.
    pub(crate) reasons: Vec<Error>,
}

/// Pairs while directories are read.
struct Reading<'s> {
    frames: PairSorter<'s>,
    of_chunks: PairSorter<'s>,
    unknown: Sorter<'s>,
    unread_depth: u8,
    unread: Unread,
    /// Chunks of lost frames.
    lost: Sorter<'s>,
}

impl Dependencies {
    /// Returns dependencies of which there are none.
    pub(crate) fn none(scratch: &Scratch) -> Result<Dependencies> {
        Ok(Dependencies {
            frames: PairSorter::new(scratch).finish()?,
            of_chunks: PairSorter::new(scratch).finish()?,
            unknown: Prefixes(Array::zeros(scratch, 0)?),
            unread_depth: 0,
            unread: Unread::default(),
            met: Array::zeros(scratch, 0)?,
            searches: 0,
        })
    }

    /// Reads the directories of all packs with delta frames. Also records the frames that need the chunks
    /// in `wanted`. If a directory can't be read, the frames themselves are, where they can be. Packs whose
    /// directories contradict the index are skipped.
    pub(crate) fn read(
        scratch: &Scratch,
        loaded: &LoadedIndex,
        mut wanted: Wanted<'_>,
        monitor: &Monitor,
    ) -> Result<Dependencies> {
        let index = &loaded.index;
        let mut reading = Reading {
            frames: PairSorter::new(scratch),
            of_chunks: PairSorter::new(scratch),
            unknown: sorter(scratch),
            unread_depth: 0,
            unread: Unread::default(),
            lost: sorter(scratch),
        };
        // What a repair has dealt with is given up.
        let missing = loaded.missing.iter().filter(|pack| !pack.is_set_aside);
        for number in missing.filter_map(|pack| index.find_pack(pack.id)) {
            if index.is_missing(number) {
                index
                    .frames_of(number)
                    .for_each(|frame| reading.unread(index.frame(frame).depth));
            }
        }
        index.each_directory(
            &scratch.files,
            |_| Ok(true),
            |number, pack, summary| {
                monitor.check_cancelled()?;
                let range = index.frames_of(number);
                let frames: Vec<Frame> = range.clone().map(|number| index.frame(number)).collect();
                let summary = match summary {
                    Ok(summary) => summary,
                    Err(error) if error.is_archived() => {
                        // It is whole: there is nothing to tell.
                        frames.iter().for_each(|frame| reading.unread(frame.depth));
                        return Ok(());
                    }
                    Err(error) if error.is_fault() => return reading.add_from_frames(scratch, loaded, pack, range),
                    Err(error) => return Err(error),
                };
                let listed = frames.iter().map(|frame| (frame.offset, frame.depth));
                if listed.eq(summary.frames.iter().map(|frame| (frame.offset, frame.depth))) {
                    for (frame, number) in summary.frames.iter().zip(range) {
                        reading.add(loaded, frame, number, &mut wanted)?;
                    }
                } else {
                    frames.iter().for_each(|frame| reading.unread(frame.depth));
                }
                Ok(())
            },
        )?;
        reading.finish(scratch, loaded)
    }

    /// Returns the depth of the deepest frame whose bases could not be read, because its pack is missing, or a part
    /// of it: any less deep frame may hold them.
    pub(crate) fn unread_depth(&self) -> u8 {
        self.unread_depth
    }

    /// Takes what is to be said of packs that are there, and of which bases could not be read.
    pub(crate) fn take_unread(&mut self) -> Unread {
        std::mem::take(&mut self.unread)
    }

    /// Returns pairs of a frame and a base frame.
    pub(crate) fn bases(&mut self, scratch: &Scratch) -> Result<Pairs> {
        let mut bases = PairSorter::new(scratch);
        for at in 0..self.frames.len() {
            let (base, frame) = Pairs::pair(self.frames.0.get(at)?);
            bases.push(frame, base)?;
        }
        bases.finish()
    }

    /// Returns pairs of a base frame and a frame that is encoded against it, and of these again those that are so
    /// because of a chunk that was asked for.
    pub(crate) fn into_dependents(self) -> (Pairs, Pairs) {
        (self.frames, self.of_chunks)
    }

    /// Returns the number of pairs of a base that can't be read and a frame that is encoded against it.
    pub(crate) fn missing_bases(&self) -> u64 {
        self.unknown.0.len()
    }

    /// Returns the base that can't be read at a position below
    /// [`missing_bases`](Dependencies::missing_bases), and the frame that is encoded against it.
    pub(crate) fn missing_base(&mut self, at: u64) -> Result<(ChunkPrefix, u32)> {
        self.unknown.get(at)
    }

    /// Calls `each` with the frames that are encoded against a base that can't be read, and with the
    /// positions of these pairs.
    pub(crate) fn each_lacking(
        &mut self,
        base: ChunkPrefix,
        mut each: impl FnMut(u64, u32) -> Result<()>,
    ) -> Result<()> {
        self.unknown.each(base, |at, frame| each(at, frame).map(|()| true))
    }

    /// Begins a search for frames.
    pub(crate) fn search(&mut self) -> Search<'_> {
        self.searches += 1;
        Search {
            dependencies: self,
            found: 0,
        }
    }
}

/// A search for the direct and indirect dependents of frames. It finds each frame once.
pub(crate) struct Search<'d> {
    dependencies: &'d mut Dependencies,
    found: u64,
}

impl Search<'_> {
    /// Returns the number of frames found so far.
    pub(crate) fn found(&self) -> u64 {
        self.found
    }

    /// Finds a frame and all its dependents; passes those to `each` that were not found before.
    pub(crate) fn frame(&mut self, frame: u32, each: &mut dyn FnMut(u32)) -> Result<()> {
        if !self.meet(frame, each)? {
            return Ok(());
        }
        // A frame and the position in the pairs of its next dependent. Each is deeper than the one
        // before it, so there are few.
        let mut path = vec![(frame, self.dependencies.frames.start(frame)?)];
        while let Some((base, at)) = path.last_mut() {
            let Some(next) = self.dependencies.frames.second(*at, *base)? else {
                path.pop();
                continue;
            };
            *at += 1;
            if self.meet(next, each)? {
                path.push((next, self.dependencies.frames.start(next)?));
            }
        }
        Ok(())
    }

    /// Finds the dependents of a frame, but not the frame itself.
    pub(crate) fn dependents_of_frame(&mut self, frame: u32, each: &mut dyn FnMut(u32)) -> Result<()> {
        let mut at = self.dependencies.frames.start(frame)?;
        while let Some(next) = self.dependencies.frames.second(at, frame)? {
            self.frame(next, each)?;
            at += 1;
        }
        Ok(())
    }

    /// Finds the dependents of those chunks of a frame that [`Dependencies::read`] was asked for.
    pub(crate) fn dependents_of_chunks(&mut self, frame: u32, each: &mut dyn FnMut(u32)) -> Result<()> {
        let mut at = self.dependencies.of_chunks.start(frame)?;
        while let Some(next) = self.dependencies.of_chunks.second(at, frame)? {
            self.frame(next, each)?;
            at += 1;
        }
        Ok(())
    }

    /// Finds the frames that are encoded against bases that can't be read, and their dependents.
    pub(crate) fn lacking_bases(&mut self, each: &mut dyn FnMut(u32)) -> Result<()> {
        for at in 0..self.dependencies.missing_bases() {
            let (_, frame) = self.dependencies.missing_base(at)?;
            self.frame(frame, each)?;
        }
        Ok(())
    }

    /// Returns whether a frame was not found before.
    fn meet(&mut self, frame: u32, each: &mut dyn FnMut(u32)) -> Result<bool> {
        let Dependencies { met, searches, .. } = &mut *self.dependencies;
        if met.get(frame.into())? == *searches {
            return Ok(false);
        }
        met.set(frame.into(), *searches)?;
        self.found += 1;
        each(frame);
        Ok(true)
    }
}

impl Reading<'_> {
    /// Adds the frames of a pack whose directory can't be read. Frames name their bases, but not their own
    /// chunks.
    fn add_from_frames(
        &mut self,
        scratch: &Scratch,
        loaded: &LoadedIndex,
        pack: &Pack,
        frames: Range<u32>,
    ) -> Result<()> {
        let mut problem = None;
        for number in frames {
            scratch.monitor.check_cancelled()?;
            let frame = loaded.index.frame(number);
            if frame.depth == 0 {
                continue;
            }
            if loaded.index.is_cut_off(&frame) {
                self.unread(frame.depth);
                continue;
            }
            let bases = match scratch.files.read_bases(pack, frame.offset, frame.sealed) {
                Ok(bases) => bases,
                Err(error) if error.is_fault() => {
                    self.unread(frame.depth);
                    problem = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let summary = FrameSummary {
                offset: frame.offset,
                sealed: frame.sealed,
                depth: frame.depth,
                bases,
                blobs: Vec::new(),
            };
            self.add(loaded, &summary, number, &mut None)?;
        }
        if let Some(error) = problem {
            self.unread.packs += 1;
            if self.unread.reasons.len() < LostPacks::NAMED_MAX {
                self.unread.reasons.push(error);
            }
        }
        Ok(())
    }

    /// Notes a frame whose bases can't be read.
    fn unread(&mut self, depth: u8) {
        self.unread_depth = self.unread_depth.max(depth);
    }

    fn add(&mut self, loaded: &LoadedIndex, frame: &FrameSummary, number: u32, wanted: &mut Wanted<'_>) -> Result<()> {
        // Most bases of a frame are in few other frames.
        let mut pushed: Vec<u32> = Vec::new();
        for &base in &frame.bases {
            let Some(place) = find_base(loaded, base, frame.depth) else {
                self.unknown.push(Prefixes::pack(base, number), 0)?;
                continue;
            };
            if let Some(wanted) = wanted
                && wanted.contains(loaded.index.ordinal(place))?
            {
                self.of_chunks.push(place.frame, number)?;
            }
            if !pushed.contains(&place.frame) {
                pushed.push(place.frame);
                self.frames.push(place.frame, number)?;
            }
        }
        // The index does not know the chunks of lost frames, but frames encoded against these depend
        // on them.
        if loaded.index.lost().contains(number) {
            for blob in &frame.blobs {
                self.lost.push(Prefixes::pack(blob.id.prefix(), number), 0)?;
            }
        }
        Ok(())
    }

    fn finish(self, scratch: &Scratch, loaded: &LoadedIndex) -> Result<Dependencies> {
        let Reading {
            mut frames,
            of_chunks,
            unknown,
            unread_depth,
            unread,
            lost,
        } = self;
        let depth = |frame| loaded.index.frame(frame).depth;
        let mut lost = Prefixes::sorted(scratch, lost)?;
        let mut left = Prefixes(Array::zeros(scratch, 0)?);
        let mut unknown = unknown.finish(Vec::new())?;
        while let Some((ShortId(packed), _)) = unknown.next()? {
            let (base, frame) = (ShortId(packed).padded().prefix(), packed as u32);
            // Any of them may be the one whose own bases are stored late.
            let mut is_known = false;
            lost.each(base, |_, holder| {
                if depth(holder) < depth(frame) {
                    is_known = true;
                    frames.push(holder, frame)?;
                }
                Ok(true)
            })?;
            if !is_known {
                left.0.push(packed)?;
            }
        }
        Ok(Dependencies {
            frames: frames.finish()?,
            of_chunks: of_chunks.finish()?,
            unknown: left,
            unread_depth,
            unread,
            met: Array::zeros(scratch, loaded.index.stored_frames().into())?,
            searches: 0,
        })
    }
}

/// Returns the place of a base for a frame of this depth. The base must be in a frame of smaller
/// depth.
pub(crate) fn find_base(loaded: &LoadedIndex, base: ChunkPrefix, depth: u8) -> Option<Place> {
    let (_, place) = loaded.index.find_for(base, depth)?;
    (loaded.index.frame(place.frame).depth < depth).then_some(place)
}
