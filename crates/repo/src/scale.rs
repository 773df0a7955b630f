//! What benchmarks need to see how the index, and the search for similar chunks, behave at sizes that no test
//! machine has data for. No part of the public API: it changes as these do.

use std::path::PathBuf;
use std::sync::Arc;

use ibid_format::frame::Blob;
use ibid_format::index::{self as index_file, IndexedFrame};
use ibid_format::pack::{FRAMES_AT, FrameSummary, PackKind, PackSummary};
use ibid_format::run::{RunPack, ShortId};
use ibid_format::sketches::{Features, Run as SketchedRun, Sketches};
use ibid_format::{ChunkId, FileId};

use crate::index::{LoadedIndex, Place, Run, RunWriter, View};
use crate::layout::{folder, name_in};
use crate::similar::FEATURES;
use crate::{Error, Repository, Result, clock};

/// Length of every synthetic chunk, bytes.
const CHUNK: u32 = 128 << 10;
/// Chunks of a frame, and frames of a pack.
const CHUNKS_A_FRAME: u64 = 8;
const FRAMES_A_PACK: u64 = 16;
/// Bytes of a pack beside its frames.
const PACK_OVERHEAD: u64 = 1 << 10;

/// A repository of so many chunks of 128 KiB of data that can't be compressed, in frames of 1 MiB and packs
/// of 16 MiB, of which only the index exists. Every id follows from its number.
#[derive(Clone, Copy, Debug)]
pub struct SyntheticIndex {
    /// Number of chunks.
    pub chunks: u64,
}

impl SyntheticIndex {
    /// Returns the id of the chunk with this number: ascending, and otherwise random.
    pub fn id(&self, number: u64) -> ChunkId {
        // Each chunk has a stretch of all ids to itself, and lies somewhere in it.
        let step = u128::MAX / u128::from(self.chunks);
        let random = random128(2 * number);
        let (high, low) = (random >> 64, u128::from(random as u64));
        let within = high * (step >> 64) + ((low * (step >> 64)) >> 64);
        let first = u128::from(number) * step + within;
        let mut id = [0; 32];
        id[..16].copy_from_slice(&first.to_be_bytes());
        id[16..].copy_from_slice(&random128(2 * number + 1).to_le_bytes());
        ChunkId(id)
    }

    /// Returns the ordinal of a chunk: the place of neighbours in the order of ids is in different packs.
    pub fn ordinal(&self, number: u64) -> u64 {
        // A prime that divides no number of chunks below it, so no two have the same.
        const FAR: u128 = 0x9E37_79B9_7F4A_7C55;
        (u128::from(number) * FAR % u128::from(self.chunks)) as u64
    }

    /// Returns the number of packs.
    pub fn packs(&self) -> u64 {
        self.chunks.div_ceil(CHUNKS_A_FRAME * FRAMES_A_PACK)
    }

    /// Returns the id of a pack and its size in bytes.
    pub fn pack(&self, number: u64) -> (FileId, u64) {
        let id = FileId(random128(!number).to_le_bytes());
        let frames = self.frames().saturating_sub(number * FRAMES_A_PACK).min(FRAMES_A_PACK);
        (id, FRAMES_AT + frames * u64::from(frame_length()) + PACK_OVERHEAD)
    }

    fn frames(&self) -> u64 {
        self.chunks.div_ceil(CHUNKS_A_FRAME)
    }

    /// Writes the run of this index into the cache of a repository, and returns its file. `each` is called
    /// now and then with the number of entries written.
    ///
    /// # Errors
    /// [`Error::Local`], [`Error::TooMuch`].
    ///
    /// # Panics
    /// If the repository has no cache.
    pub fn write(&self, repository: &Repository, mut each: impl FnMut(u64)) -> Result<PathBuf> {
        let cache = repository.cache.as_ref().expect("a cache to write into");
        let mut writer = RunWriter::new(&repository.files.keys, &cache.make::<Run>()?, true, 0)?;
        let mut left = self.chunks;
        for number in 0..self.packs() {
            let (id, size) = self.pack(number);
            writer.pack(RunPack {
                id,
                kind: PackKind::Data,
                size,
                first_frame: 0,
            })?;
            for frame in 0..FRAMES_A_PACK.min(left.div_ceil(CHUNKS_A_FRAME)) {
                let blobs = CHUNKS_A_FRAME.min(left);
                left -= blobs;
                writer.frame(&IndexedFrame {
                    offset: FRAMES_AT as u32 + frame as u32 * frame_length(),
                    sealed: frame_length(),
                    blobs: blobs as u16,
                    depth: 0,
                    length: blobs as u32 * CHUNK,
                })?;
            }
        }
        writer.begin_entries(u64::BITS - self.chunks.saturating_sub(1).leading_zeros())?;
        for number in 0..self.chunks {
            writer.entry(ShortId::of(&self.id(number)), self.ordinal(number))?;
            if number % (1 << 20) == 0 {
                repository.monitor.check_cancelled()?;
                each(number);
            }
        }
        Ok(writer.finish(Vec::new())?.file().path().to_owned())
    }
}

/// Length of a sealed frame, bytes.
fn frame_length() -> u32 {
    CHUNKS_A_FRAME as u32 * CHUNK + 40
}

/// Two numbers of SplitMix64.
fn random128(number: u64) -> u128 {
    let mix = |number: u64| {
        let mut z = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    };
    u128::from(mix(number.wrapping_mul(2))) << 64 | u128::from(mix(number.wrapping_mul(2).wrapping_add(1)))
}

/// The index of a repository, loaded as a backup loads it.
pub struct OpenIndex(Arc<LoadedIndex>);

impl OpenIndex {
    /// Loads the index.
    ///
    /// # Errors
    /// As every operation.
    pub fn load(repository: &Repository) -> Result<OpenIndex> {
        let loaded = LoadedIndex::load(repository, View::Reader)?;
        let missing = loaded.missing.len() as u64 + loaded.unlisted.len() as u64 + loaded.damaged.len() as u64;
        if missing > 0 {
            return Err(Error::TooMuch {
                what: "the number of packs that differ from those listed",
                limit: 0,
            });
        }
        Ok(OpenIndex(Arc::new(loaded)))
    }

    /// Returns whether a chunk is known, as a backup asks.
    pub fn contains(&self, id: &ChunkId) -> bool {
        self.0.index.contains(id)
    }

    /// Returns the place of a chunk, as a restore asks.
    pub fn get(&self, id: &ChunkId) -> Option<FoundChunk> {
        self.0.index.get(id).map(FoundChunk)
    }

    /// Returns the ordinal of a chunk that was found.
    pub fn ordinal(&self, found: FoundChunk) -> u64 {
        self.0.index.ordinal(found.0)
    }

    /// Returns how many pages were read from files so far.
    pub fn pages_read(&self) -> u64 {
        self.0.index.pages_read()
    }

    /// Returns the memory that the index says it takes, bytes.
    pub fn memory(&self) -> u64 {
        self.0.index.bytes()
    }
}

/// The place of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct FoundChunk(Place);

/// Packs whose chunks and sketches are listed by one file each.
const PACKS_A_FILE: u64 = 512;

/// Chunks whose sketches a backup reads into memory at once. If there are more, they stay on the disk.
pub fn sketches_in_memory(repository: &Repository) -> u64 {
    repository.index_limits().sketches
}

/// Adds an index file and a file of sketches of so many chunks that resemble nothing, 128 in a pack. Returns
/// the packs, with their sizes in bytes. They do not exist: the storage must list them from now on.
///
/// # Errors
/// Those of the storage.
pub fn add_unlike_chunks(repository: &Repository, chunks: u64, seed: u64) -> Result<Vec<(FileId, u64)>> {
    let synthetic = SyntheticIndex { chunks };
    let (files, mut packs) = (&repository.files, Vec::new());
    let mut random = (seed << 40..).map(random128);
    let mut number = || random.next().expect("there is no end of them");
    let numbers: Vec<u64> = (0..synthetic.packs()).collect();
    for numbers in numbers.chunks(PACKS_A_FILE as usize) {
        let (mut summaries, mut runs) = (Vec::new(), Vec::new());
        for &pack in numbers {
            let (_, size) = synthetic.pack(pack);
            let id = FileId(number().to_le_bytes());
            packs.push((id, size));
            let chunks = synthetic.chunks - pack * CHUNKS_A_FRAME * FRAMES_A_PACK;
            let frames = chunks.div_ceil(CHUNKS_A_FRAME).min(FRAMES_A_PACK);
            let frames: Vec<FrameSummary> = (0..frames)
                .map(|frame| {
                    let blobs = (chunks - frame * CHUNKS_A_FRAME).min(CHUNKS_A_FRAME);
                    let mut blob = |_| {
                        let mut id = [0; 32];
                        id[..16].copy_from_slice(&number().to_le_bytes());
                        let id = ChunkId(id);
                        Blob { id, length: CHUNK }
                    };
                    FrameSummary {
                        offset: FRAMES_AT as u32 + frame as u32 * frame_length(),
                        sealed: frame_length(),
                        depth: 0,
                        bases: Vec::new(),
                        blobs: (0..blobs).map(&mut blob).collect(),
                    }
                })
                .collect();
            for frame in &frames {
                let mut chunks = Features::default();
                for _ in &frame.blobs {
                    let features = largest_features(&mut number);
                    chunks.push(&features).map_err(Error::damaged("new sketches"))?;
                }
                runs.push(SketchedRun {
                    pack: id,
                    offset: frame.offset,
                    slot: 0,
                    chunks,
                });
            }
            summaries.push(PackSummary {
                id,
                kind: PackKind::Data,
                size,
                frames,
            });
        }
        let id = FileId::random();
        let bytes = index_file::encode(&files.keys, id, 0, &summaries).map_err(Error::damaged("a new index"))?;
        files.storage.put(&name_in(folder::INDEX, id), &[&bytes])?;
        let (id, time) = (FileId::random(), clock::now());
        let bytes = Sketches { time, runs }.encode(&files.keys, id);
        let bytes = bytes.map_err(Error::damaged("new sketches"))?;
        files.storage.put(&name_in(folder::SKETCHES, id), &[&bytes])?;
    }
    repository.refresh();
    Ok(packs)
}

/// Returns the features of a chunk of random bytes, descending: the largest of the 2048 that are sampled in
/// 128 KiB. They lie close together at the upper end, as those of all chunks do, so chunks that have nothing
/// in common share some.
fn largest_features(mut random: impl FnMut() -> u128) -> Vec<u32> {
    const SAMPLED: f64 = 2048.0;
    let mut features: Vec<u32> = Vec::new();
    let mut below = 0.0;
    while features.len() < FEATURES {
        for number in words(random()) {
            // Distances between neighbours among many uniform numbers are distributed exponentially.
            below -= (f64::from(number) + 0.5).log2() * std::f64::consts::LN_2 - 32.0 * std::f64::consts::LN_2;
            let feature = ((1.0 - below / SAMPLED) * 2f64.powi(32)) as u32;
            if features.last() != Some(&feature) && features.len() < FEATURES {
                features.push(feature);
            }
        }
    }
    features
}

fn words(number: u128) -> [u32; 4] {
    [0, 32, 64, 96].map(|bits| (number >> bits) as u32)
}
