//! Finds the stored chunks that a new chunk resembles.
//!
//! Every sketched chunk gets a number here once its frame is complete; before that, the chunk could
//! not be read.
//!
//! The index keeps eight places per feature. Chunks that can be any base of another have tables of
//! their own, and so have deep ones. In a common table, the last eight versions of a page would fill all
//! places: these are too deep to be more than a first base, and soon too deep to be one at all.

mod library;
mod of_frames;
mod saved;

use std::cmp::Reverse;
use std::collections::VecDeque;

use ibid_delta::{FeatureIndex, Sketch, Sketcher};
use ibid_format::{FileId, frame};
pub(crate) use library::SketchRun;
use library::{LOOKUP_BYTES, Library};
pub(crate) use of_frames::SketchesOfFrames;
use saved::find_frame;
pub(crate) use saved::{CHUNKS_OF_ONE_FILE, fits_one_backup, read, read_each, refresh, unsaved_max};

use crate::Result;
use crate::index::{LoadedIndex, Place};

/// Maximum depth of a chunk: the number of deltas to apply to get its bytes.
pub(crate) const DEPTH_MAX: u8 = frame::DEPTH_MAX;
/// Bits kept of each feature, as in sketch files.
const FEATURE_BITS: u32 = 32;
/// Features in a sketch. A chunk of 128 KiB holds sixteen database pages, each of which may
/// resemble another page; two features per page find most of them.
pub(crate) const FEATURES: usize = 32;
/// Data shorter than this per feature gets fewer features, but at least [`FEATURES_MIN`]: source
/// files are many and small, and their sketches must stay small next to them. With 256 bytes, 12
/// versions of a source tree take 26.25 MB, with 512 26.1, with 1024 26.5; with 32 features for
/// every file, 26.5.
const FEATURE_BYTES: usize = 512;
const FEATURES_MIN: usize = 4;
/// Number of indexed features of a chunk that can only be a first base.
const FEATURES_FIRST_BASE: usize = 8;
/// All bases of a chunk except the first must have a depth below this: scattered bases must be
/// quick to read.
const ANY_BASE_DEPTH_END: u8 = 1;
/// Chunks from this depth on have tables of their own.
const DEEP_BASE_DEPTH: u8 = 5;
/// What a missing feature counts in a base of each depth, in thousandths: a tenth more for each level. A chain of
/// versions that took the last one as its base each time would soon be as deep as it may be, and all that comes
/// later would be encoded against a version that grows old. So a version now and then takes an older, less deep one.
const WEIGHTS: [u32; DEPTH_MAX as usize] = [
    1000, 1100, 1210, 1331, 1464, 1611, 1772, 1949, 2144, 2358, 2594, 2853, 3138, 3452, 3797, 4177,
];
/// The same for [`Similarity::Max`](crate::Similarity::Max): depth does not count before a chain is nearly full.
/// Dumps take 6 % less space, and chains become deep.
const WEIGHTS_THOROUGH: [u32; DEPTH_MAX as usize] = [
    1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1100, 1210, 1331, 1464,
];
/// Missing features that a base counts as having if its frame was not used recently, so that it must perhaps be read.
const DISTANT_MISSING: u32 = 3;
/// At least one feature in this many must be found, or the chunk counts as resembling nothing.
const SHARED_PART_MIN: u32 = 4;
/// Number of new features that a base which is not in the cache must add to be read besides
/// another.
const GAIN_MIN_DISTANT: u32 = 2;
/// Initial room in the index beyond the features of stored chunks, in entries: the features of 256
/// MiB of new data. When it is full, the index grows. Lookups hit random places, so a larger table
/// than necessary costs cache misses.
const ENTRIES_NEW: u64 = 64 << 10;

/// Returns a sketcher with the settings of this index.
pub(crate) fn sketcher() -> Sketcher {
    Sketcher::new()
        .with_features(FEATURES)
        .with_fewer_of_short_data(FEATURE_BYTES, FEATURES_MIN)
}

/// A chunk that can be a base.
#[derive(Clone, Copy, Debug)]
struct KnownChunk {
    place: Place,
    /// Depth of its frame, or a larger value.
    depth: u8,
    source: Source,
    /// Number of its features kept beside the index, and the position of the first.
    count: u8,
    features: u32,
}

/// How the sketch of a chunk came into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// It is of this backup, or was read when the search began.
    Memory,
    /// The data before a new chunk is in its pack.
    Neighbour,
    /// The largest features of a new chunk led to its pack.
    Features,
}

/// Expected speed of reading a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locality {
    /// Its frame was used recently.
    Recent,
    /// Its frame, and perhaps the bases of that, must be read.
    Distant,
}

/// Group of tables that hold a chunk's features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    /// The chunk can be any base of another. A single page in common shows in only about two
    /// features, so the table holds all of them.
    Any,
    /// The chunk can only be a first base, so it matters only if it shares most features. A few
    /// indexed features find it; the others are compared afterwards.
    First,
    /// The same of deep chunks. Of a chain of versions most are here, and the less deep ones that later versions
    /// return to stay in the table before.
    Deep,
}

impl Layer {
    const ALL: [Layer; 3] = [Layer::Any, Layer::First, Layer::Deep];

    /// Returns the layer of chunks of this depth.
    fn of(depth: u8) -> Layer {
        match depth {
            ..ANY_BASE_DEPTH_END => Layer::Any,
            ANY_BASE_DEPTH_END..DEEP_BASE_DEPTH => Layer::First,
            DEEP_BASE_DEPTH.. => Layer::Deep,
        }
    }

    /// Returns how many of a chunk's features, the largest ones, are put into its tables.
    fn features(self) -> usize {
        match self {
            Layer::Any => FEATURES,
            Layer::First | Layer::Deep => FEATURES_FIRST_BASE,
        }
    }

    /// Returns the number of the partition that follows `before` earlier ones of this layer.
    fn partition(self, before: u64) -> u64 {
        before * Layer::ALL.len() as u64 + self as u64
    }
}

/// A base found for a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) number: u32,
    pub(crate) place: Place,
    pub(crate) depth: u8,
}

/// A stored chunk that shares features with the new one.
#[derive(Clone, Copy, Debug)]
struct Match {
    base: Base,
    /// The shared features of the new chunk, one bit each.
    shared: u32,
    locality: Locality,
}

/// Bytes of new data that pay for looking at sketches on the disk, so that data that resembles nothing
/// costs little.
struct Credit(u64);

impl Credit {
    const START: u64 = 4 << 20;
    const MOST: u64 = 64 << 20;

    fn earn(&mut self, bytes: u64) {
        self.0 = (self.0 + bytes).min(Credit::MOST);
    }

    fn spend(&mut self, bytes: u64) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

impl Default for Credit {
    fn default() -> Credit {
        Credit(Credit::START)
    }
}

/// Bytes of new data for which the sketches of one pack are read.
const PACK_BYTES: u64 = 64 << 10;

/// A sketch that is not saved yet.
struct UnsavedSketch {
    place: Place,
    count: u8,
    features: [u32; FEATURES],
}

/// Sketches of the chunks of this backup and earlier ones.
pub(crate) struct Similar {
    index: FeatureIndex,
    /// Number of partitions of each layer: one, plus one for each time that the earlier ones were
    /// full.
    partitions: [u64; Layer::ALL.len()],
    /// Memory limit of the index, bytes.
    index_memory: u64,
    weights: &'static [u32; DEPTH_MAX as usize],
    /// Chunks that can be found, the oldest first, and how many older ones are forgotten. A number
    /// counts those too; both wrap around.
    known: VecDeque<KnownChunk>,
    forgotten: u32,
    /// Features of chunks that can only be first bases, chunk after chunk, and how many older ones are
    /// forgotten.
    features: VecDeque<u32>,
    features_forgotten: u32,
    /// Sketches that no file holds yet.
    unsaved: VecDeque<UnsavedSketch>,
    /// Sketches on the disk, if there are more than fit into memory.
    library: Option<Library>,
    credit: Credit,
    /// Whether the last look at the disk was cut short, to cost little.
    was_refused: bool,
    /// Whether sketches of this backup were forgotten, or displaced from the index.
    has_lost: bool,
    /// Chunks that the index holds, once it is full: new ones displace the oldest.
    held: Option<u32>,
    /// Files of sketches whose bytes are damaged.
    pub(crate) damaged: Vec<FileId>,
    /// Scratch memory for index hits of one sketch: a chunk, and one of its features.
    hits: Vec<(u32, u32)>,
    found: Vec<Match>,
}

impl Similar {
    /// Creates an empty index, with room for the features of these stored chunks (depth, number)
    /// and some more, within `memory` bytes.
    pub(crate) fn new(chunks: impl Iterator<Item = (u8, u64)>, memory: u64, thorough: bool) -> Similar {
        let mut similar = Similar {
            index: FeatureIndex::new(),
            partitions: Default::default(),
            index_memory: memory,
            weights: if thorough { &WEIGHTS_THOROUGH } else { &WEIGHTS },
            known: VecDeque::new(),
            forgotten: 0,
            features: VecDeque::new(),
            features_forgotten: 0,
            unsaved: VecDeque::new(),
            library: None,
            credit: Credit::default(),
            was_refused: false,
            has_lost: false,
            held: None,
            damaged: Vec::new(),
            hits: Vec::new(),
            found: Vec::new(),
        };
        let mut stored = [0_u64; Layer::ALL.len()];
        for (depth, chunks) in chunks {
            stored[Layer::of(depth) as usize] += chunks;
        }
        let first_only = stored[Layer::First as usize] + stored[Layer::Deep as usize];
        let beside = first_only.saturating_mul((FEATURES * size_of::<u32>()) as u64);
        similar.index_memory = memory.saturating_sub(beside);
        let entries = Layer::ALL.map(|layer| {
            let chunks = stored[layer as usize];
            chunks
                .saturating_mul(layer.features() as u64)
                .saturating_add(ENTRIES_NEW)
        });
        // If there is not room for all, each layer starts with its part.
        let part = similar.room() / Layer::ALL.len() as u64;
        for (layer, entries) in Layer::ALL.into_iter().zip(entries) {
            similar.add_partition(layer, entries.min(part));
        }
        similar
    }

    /// Returns the number of entries for which memory is left.
    fn room(&self) -> u64 {
        let left = self.index_memory.saturating_sub(self.index.memory() as u64);
        // A table takes up to 2/0.9 of the requested entries.
        left / ibid_delta::FeatureIndex::BYTES_PER_ENTRY as u64 * 9 / 20
    }

    fn add_partition(&mut self, layer: Layer, entries: u64) {
        let before = &mut self.partitions[layer as usize];
        self.index
            .add_partition(layer.partition(*before), entries as usize)
            .expect("less than a billion entries");
        *before += 1;
    }

    /// Returns the partition of a layer for new features. Adds a partition if the last is full and
    /// memory is left.
    fn newest(&mut self, layer: Layer) -> u64 {
        let newest = |partitions: &[u64]| layer.partition(partitions[layer as usize] - 1);
        let (entries, most) = self
            .index
            .load(newest(&self.partitions))
            .expect("each layer has one at least");
        if entries >= most / 10 * 9 {
            let room = self.room();
            match room >= ENTRIES_NEW {
                true => self.add_partition(layer, room.min(2 * most as u64)),
                false => {
                    self.has_lost = true;
                    self.held.get_or_insert(self.known.len() as u32);
                }
            }
        }
        newest(&self.partitions)
    }

    /// Returns the memory in use, bytes.
    pub(crate) fn memory(&self) -> u64 {
        let unsaved = self.unsaved.capacity() * size_of::<UnsavedSketch>();
        let known = self.known.capacity() * size_of::<KnownChunk>() + self.features.capacity() * size_of::<u32>();
        let library = self.library.as_ref().map_or(0, Library::memory);
        (self.index.memory() + known + unsaved) as u64 + library
    }

    /// Adds a chunk of a complete frame of this depth. From now on it can be found, if its sketch
    /// has features.
    pub(crate) fn add(&mut self, place: Place, depth: u8, sketch: &Sketch) {
        let sketch = shortened(sketch);
        let mut unsaved = UnsavedSketch {
            place,
            count: 0,
            features: [0; FEATURES],
        };
        for (kept, &feature) in unsaved.features.iter_mut().zip(sketch.features()) {
            *kept = feature as u32;
            unsaved.count += 1;
        }
        self.unsaved.push_back(unsaved);
        self.enter(place, depth, Source::Memory, &sketch);
    }

    fn enter(&mut self, place: Place, depth: u8, source: Source, sketch: &Sketch) {
        if depth < DEPTH_MAX && !sketch.features().is_empty() {
            let (layer, before) = (Layer::of(depth), self.features.len());
            let partition = self.newest(layer);
            let sketch = if layer != Layer::Any {
                self.features
                    .extend(sketch.features().iter().map(|&feature| feature as u32));
                sketch.largest(FEATURES_FIRST_BASE)
            } else {
                *sketch
            };
            let number = self.forgotten.wrapping_add(self.known.len() as u32);
            self.index.insert(partition, &sketch, number);
            self.known.push_back(KnownChunk {
                place,
                depth,
                source,
                count: (self.features.len() - before) as u8,
                features: self.features_forgotten.wrapping_add(before as u32),
            });
        }
    }

    /// Fills `bases` with the chunks that together share most features with this sketch, the best
    /// first. Each shares features that the earlier ones do not. Leaves `bases` empty if too few
    /// features are found. `locality` returns how quickly a place can be read, or `None` if it
    /// can't be read. Returns whether they share at least half of its features.
    pub(crate) fn bases(
        &mut self,
        sketch: &Sketch,
        locality: impl Fn(Place) -> Option<Locality>,
        bases: &mut Vec<Base>,
    ) -> bool {
        bases.clear();
        let sketch = shortened(sketch);
        self.find(&sketch, locality);
        let mut covered = 0u32;
        let features = sketch.features().len() as u32;
        loop {
            let depth_end = if bases.is_empty() {
                DEPTH_MAX
            } else {
                ANY_BASE_DEPTH_END
            };
            let cost = |found: &Match| {
                let gain = (found.shared & !covered).count_ones();
                let is_recent = found.locality == Locality::Recent;
                let gain_min = if bases.is_empty() || is_recent {
                    1
                } else {
                    GAIN_MIN_DISTANT
                };
                if gain < gain_min || found.base.depth >= depth_end {
                    return None;
                }
                let missing = features - (found.shared | covered).count_ones();
                let distant = if is_recent {
                    0
                } else {
                    2 * DISTANT_MISSING * self.weights[0]
                };
                // Half a feature more, so that among those that lack none the less deep is better.
                let cost = (2 * missing + 1) * self.weights[usize::from(found.base.depth)] + distant;
                Some((cost, Reverse(found.base.number)))
            };
            let costs = self.found.iter().filter_map(|found| Some((cost(found)?, found)));
            let Some((_, best)) = costs.min_by_key(|(cost, _)| *cost) else {
                break;
            };
            covered |= best.shared;
            bases.push(best.base);
        }
        if covered.count_ones() * SHARED_PART_MIN < features {
            bases.clear();
        }
        covered.count_ones() * 2 >= features
    }

    /// Finds all chunks that share a feature with this sketch, and the shared features.
    fn find(&mut self, sketch: &Sketch, locality: impl Fn(Place) -> Option<Locality>) {
        self.hits.clear();
        for layer in Layer::ALL {
            let sketch = sketch.largest(layer.features());
            for before in 0..self.partitions[layer as usize] {
                self.index.places(layer.partition(before), &sketch, |feature, number| {
                    self.hits.push((number, 1 << feature));
                });
            }
        }
        self.hits.sort_unstable();
        self.found.clear();
        for hits in self.hits.chunk_by(|(a, _), (b, _)| a == b) {
            let number = hits[0].0;
            // The index may return a number that does not exist, or that is forgotten.
            let Some(known) = self.get(number) else {
                continue;
            };
            let Some(locality) = locality(known.place) else {
                continue;
            };
            let base = Base {
                number,
                place: known.place,
                depth: known.depth,
            };
            let shared = match Layer::of(known.depth) {
                Layer::Any => hits.iter().fold(0, |shared, (_, feature)| shared | feature),
                Layer::First | Layer::Deep => {
                    let first = known.features.wrapping_sub(self.features_forgotten) as usize;
                    shared(sketch, self.features.range(first..first + usize::from(known.count)))
                }
            };
            self.found.push(Match { base, shared, locality });
        }
    }

    /// Brings sketches into memory from the disk that a new chunk, of so many bytes, may resemble: those
    /// of the packs that its largest features lead to, and of the pack that the data before it is in.
    /// Returns whether there are more now.
    pub(crate) fn fetch(&mut self, loaded: &LoadedIndex, sketch: &Sketch, near: Option<FileId>) -> Result<bool> {
        self.was_refused = false;
        let Some(library) = &mut self.library else {
            return Ok(false);
        };
        let lookups = LOOKUP_BYTES * library.runs();
        if !self.credit.spend(lookups) {
            self.was_refused = true;
            return Ok(false);
        }
        let near = near.map_or(Ok(&[][..]), |pack| library.numbers_of(pack))?.iter();
        let mut wanted: Vec<(u32, Source)> = near.map(|&number| (number, Source::Neighbour)).collect();
        let found = library.find(&shortened(sketch))?;
        wanted.extend(found.into_iter().map(|number| (number, Source::Features)));
        let mut more = false;
        for (number, source) in wanted {
            if self.is_loaded(number) {
                continue;
            }
            if !self.credit.spend(PACK_BYTES) {
                self.was_refused = true;
                break;
            }
            self.load_pack(loaded, number, source)?;
            more = true;
        }
        if more {
            // It pays: what follows will find its like in memory.
            self.credit.earn(lookups);
        }
        Ok(more)
    }

    /// Returns whether the last chunk for which [`fetch`](Similar::fetch) was called may resemble another
    /// whose sketch could not be looked at.
    pub(crate) fn is_limited(&self) -> bool {
        self.was_refused || self.has_lost
    }

    /// Returns how the sketch of a base came into memory.
    pub(crate) fn source(&self, base: &Base) -> Source {
        self.get(base.number).map_or(Source::Memory, |known| known.source)
    }

    /// Counts new data, which pays for looking at sketches on the disk.
    pub(crate) fn earn(&mut self, bytes: u64) {
        self.credit.earn(bytes);
    }

    /// Returns whether there are sketches on the disk that may not be in memory.
    pub(crate) fn has_library(&self) -> bool {
        self.library.is_some()
    }

    /// Goes on without the sketches on the disk.
    pub(crate) fn close_library(&mut self) {
        self.was_refused = false;
        if let Some(library) = self.library.take() {
            library.delete();
        }
    }

    /// Returns whether a pack's sketches are in memory, and in the index of features.
    fn is_loaded(&self, number: u32) -> bool {
        let Some(first) = self.library.as_ref().and_then(|library| library.loaded(number)) else {
            return false;
        };
        let since = self.forgotten.wrapping_add(self.known.len() as u32).wrapping_sub(first);
        self.get(first).is_some() && self.held.is_none_or(|held| since <= held)
    }

    fn load_pack(&mut self, loaded: &LoadedIndex, number: u32, source: Source) -> Result<()> {
        let first = self.forgotten.wrapping_add(self.known.len() as u32);
        let Some(library) = &mut self.library else {
            return Ok(());
        };
        for run in library.load(number, first)? {
            if let Some(frame) = find_frame(loaded, run.pack, run.offset) {
                self.remember(loaded, frame, source, &run);
            }
        }
        Ok(())
    }

    /// Drops the older half of the unsaved sketches.
    pub(crate) fn forget_unsaved(&mut self) {
        self.unsaved.drain(..self.unsaved.len() / 2);
    }

    /// Forgets the oldest chunks until the others take about `memory` bytes besides the index of
    /// features.
    pub(crate) fn keep_within(&mut self, memory: u64) {
        let bytes = |similar: &Similar| {
            similar.known.len() * size_of::<KnownChunk>() + similar.features.len() * size_of::<u32>()
        };
        if bytes(self) as u64 <= memory {
            return;
        }
        // A quarter at once, so that it happens seldom.
        let count = self.known.len().div_ceil(4);
        self.has_lost |= self.known.range(..count).any(|known| known.source == Source::Memory);
        let features: usize = self.known.drain(..count).map(|known| usize::from(known.count)).sum();
        self.features.drain(..features);
        self.forgotten = self.forgotten.wrapping_add(count as u32);
        self.features_forgotten = self.features_forgotten.wrapping_add(features as u32);
    }

    /// Returns the chunk with this number, unless it was forgotten.
    fn get(&self, number: u32) -> Option<&KnownChunk> {
        self.known.get(number.wrapping_sub(self.forgotten) as usize)
    }
}

/// Returns the features of a sketch that are among others, as a bit set. Both are sorted in
/// descending order.
fn shared<'o>(sketch: &Sketch, others: impl Iterator<Item = &'o u32>) -> u32 {
    let mut others = others.map(|&other| u64::from(other)).peekable();
    let mut shared = 0;
    for (number, &feature) in sketch.features().iter().enumerate() {
        while others.next_if(|&other| other > feature).is_some() {}
        if others.peek() == Some(&feature) {
            shared |= 1 << number;
        }
    }
    shared
}

/// Returns a sketch with the upper halves of its features. Shared features stay shared.
fn shortened(sketch: &Sketch) -> Sketch {
    Sketch::of(sketch.features().iter().map(|feature| feature >> FEATURE_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch(chunk: u64) -> Sketch {
        let feature = |number: u64| (chunk * FEATURES as u64 + number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Sketch::of((0..FEATURES as u64).map(feature))
    }

    /// Adds this many chunks, and counts those whose versions are found afterwards.
    fn found_of(similar: &mut Similar, chunks: u64) -> usize {
        let place = |chunk: u64| Place {
            frame: chunk as u32,
            slot: 0,
        };
        for chunk in 0..chunks {
            similar.add(place(chunk), 0, &sketch(chunk));
        }
        let mut bases = Vec::new();
        let is_found = |&chunk: &u64| {
            similar.bases(&sketch(chunk), |_| Some(Locality::Distant), &mut bases);
            bases.first().is_some_and(|base| u64::from(base.number) == chunk)
        };
        (0..chunks).filter(is_found).count()
    }

    #[test]
    fn the_index_grows_with_new_chunks_while_it_has_memory() {
        let chunks = 3 * ENTRIES_NEW / FEATURES as u64;
        let mut roomy = Similar::new(std::iter::empty(), 64 << 20, false);
        let before = roomy.memory();
        assert_eq!(found_of(&mut roomy, chunks), chunks as usize);
        assert!(roomy.memory() > before);

        let mut tight = Similar::new(std::iter::empty(), 1 << 20, false);
        let found = found_of(&mut tight, chunks);
        assert!(
            (1..chunks as usize).contains(&found),
            "the oldest are forgotten: {found}"
        );
        assert!(tight.index.memory() <= 1 << 20);
    }

    #[test]
    fn a_deep_chunk_is_found_by_its_largest_features_and_compared_by_all() {
        let place = |frame| Place { frame, slot: 0 };
        let mut similar = Similar::new(std::iter::empty(), 64 << 20, false);
        let (whole, other) = (sketch(1), sketch(2));
        similar.add(place(0), 1, &whole);
        let smaller = &whole.features()[FEATURES_FIRST_BASE..];
        similar.add(place(1), 0, &Sketch::of(smaller.iter().copied()));
        let mut found = |sketch: &Sketch| {
            let mut bases = Vec::new();
            similar.bases(sketch, |_| Some(Locality::Distant), &mut bases);
            bases.iter().map(|base| base.number).collect::<Vec<_>>()
        };
        assert_eq!(found(&whole), [0], "it has all, and nothing is left for the other");
        assert_eq!(found(&Sketch::of(smaller.iter().copied())), [1]);
        let three_and_smaller = whole.features()[..3]
            .iter()
            .chain(&smaller[..20])
            .chain(&other.features()[23..]);
        assert_eq!(found(&Sketch::of(three_and_smaller.copied())), [0]);
    }

    #[test]
    fn shared_features_are_those_that_both_have() {
        let of = |features: &[u64]| Sketch::of(features.iter().copied());
        assert_eq!(shared(&of(&[9, 7, 5, 3]), [10, 9, 5, 4, 3, 1].iter()), 0b1101);
        assert_eq!(shared(&of(&[9, 7]), [8, 6].iter()), 0);
        assert_eq!(shared(&of(&[9, 7]), [].iter()), 0);
        assert_eq!(shared(&of(&[]), [9].iter()), 0);
        let all = sketch(3);
        let kept: Vec<u32> = shortened(&all)
            .features()
            .iter()
            .map(|&feature| feature as u32)
            .collect();
        assert_eq!(shared(&shortened(&all), kept.iter()), u32::MAX);
    }

    #[test]
    fn many_versions_of_a_deep_chunk_do_not_displace_chunks_that_can_be_any_base() {
        let mut similar = Similar::new(std::iter::empty(), 64 << 20, false);
        let half = |sketch: Sketch| sketch.features()[..FEATURES / 2].to_vec();
        let (table, log) = (half(sketch(1)), half(sketch(2)));
        let mut add = |depth, features: &[u64]| {
            let frame = similar.known.len() as u32;
            similar.add(Place { frame, slot: 0 }, depth, &Sketch::of(features.iter().copied()));
            frame
        };
        let shallow = add(0, &table);
        for _ in 0..2 * ibid_delta::FeatureIndex::POSTING_MAX {
            add(3, &table);
        }
        let deep = add(1, &log);
        let mut bases = Vec::new();
        let page = Sketch::of(table.iter().chain(&log).copied());
        // Bases that are read anyway come first.
        let locality = |place: Place| {
            Some(if place.frame == deep {
                Locality::Recent
            } else {
                Locality::Distant
            })
        };
        similar.bases(&page, locality, &mut bases);
        let found: Vec<u32> = bases.iter().map(|base| base.number).collect();
        assert_eq!(found, [deep, shallow]);
    }
}
