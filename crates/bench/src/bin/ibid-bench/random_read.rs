//! The cost of reading one chunk, for several frame sizes: the same steps as in ibid, on packs in a
//! folder.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ibid_bench::{Random, preferred_chunker};
use ibid_chunk::{Settings, chunks};
use ibid_format::frame::{self, Compression, FrameDecoder, FrameEncoder};
use ibid_format::pack::{self, PackKind};
use ibid_format::{ChunkId, FileId, Keys, MasterKey};
use ibid_storage::{Local, Name, Storage};

use crate::record::{FrameResult, Outcome, RandomRead, Record};
use crate::report;
use crate::statistics::{median, percentile};

/// Most bytes of the file that are read into memory.
const FILE_BYTES_MAX: usize = 256 << 20;
/// The default of ibid.
const PACK_SIZE: u32 = 16 << 20;
const LEVEL: i32 = 3;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ibid-bench random-read --file corpora/lnx/v01.tar --reads 200")]
pub(crate) struct Options {
    /// Read chunks of this file: of its first 256 MiB, if it is larger
    #[arg(long)]
    file: PathBuf,
    /// Compress this much together; the smallest size means every chunk alone
    #[arg(
        long,
        value_name = "KIB",
        value_delimiter = ',',
        default_values_t = [4, 256, 1024, 2048, 4096],
        value_parser = clap::value_parser!(u32).range(4..=8192)
    )]
    frames_kib: Vec<u32>,
    /// Set the average size of chunks
    #[arg(long, value_name = "KIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    average_kib: u32,
    /// Read N chunks
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    reads: u32,
    /// Keep the packs in this folder meanwhile [default: the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Write every sample and the results into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The place of a chunk.
struct Place {
    pack: FileId,
    name: Name,
    offset: u32,
    sealed: u32,
    slot: u16,
}

/// The chunks of the file in frames of one size.
struct Stored {
    frame: u32,
    frames: u64,
    bytes: u64,
    /// Places by the number of the chunk.
    places: Vec<Place>,
    read_bytes: u64,
    samples_us: Vec<f64>,
}

/// Runs the experiment.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut data = std::fs::read(&options.file).with_context(|| format!("reading {}", options.file.display()))?;
    data.truncate(FILE_BYTES_MAX);
    let average = options.average_kib << 10;
    let mut record = Record::begin("random-read", Outcome::RandomRead(measure(&data, average, options)?));
    record.save(options.json.as_deref())?;
    report::show(&report::markdown(&record));
    Ok(())
}

fn measure(data: &[u8], average: u32, options: &Options) -> Result<RandomRead> {
    let work = options.work.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new().prefix("ibid-bench-").tempdir_in(work)?;
    let storage = Local::create(folder.path().join("packs"))?;
    let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
    let chunker = preferred_chunker(&Settings::for_average("fastcdc", average as usize)?)?;
    let mut seen = HashSet::new();
    let unique: Vec<(ChunkId, &[u8])> = chunks(&chunker, data)
        .map(|chunk| (keys.chunk_id(chunk), chunk))
        .filter(|(id, _)| seen.insert(*id))
        .collect();
    ensure!(!unique.is_empty(), "{} is empty", options.file.display());
    let mut stored = Vec::new();
    for kib in &options.frames_kib {
        stored.push(store(&storage, &keys, &unique, kib << 10)?);
    }
    let mut random = Random::new(1);
    let mut reader = Reader {
        storage: &storage,
        keys: &keys,
        sealed: Vec::new(),
        decoder: FrameDecoder::new(),
    };
    for _ in 0..options.reads {
        let number = random.below(unique.len() as u64) as usize;
        let (id, bytes) = unique[number];
        // Every frame size reads the same chunk in turn, so that a disturbance affects all alike.
        for stored in &mut stored {
            let place = &stored.places[number];
            let start = Instant::now();
            let chunk = reader.read(place, &id)?;
            let took = start.elapsed();
            ensure!(chunk == bytes, "chunk {number} came back with other bytes");
            stored.read_bytes += u64::from(place.sealed);
            stored.samples_us.push((took.as_nanos() as f64 / 100.0).round() / 10.0);
        }
    }
    Ok(RandomRead {
        file: options
            .file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        average,
        chunks: unique.len() as u64,
        bytes: unique.iter().map(|(_, chunk)| chunk.len() as u64).sum(),
        frames: stored.into_iter().filter_map(result).collect(),
    })
}

fn result(stored: Stored) -> Option<FrameResult> {
    Some(FrameResult {
        frame: stored.frame,
        frames: stored.frames,
        stored_bytes: stored.bytes,
        read_bytes_mean: stored.read_bytes as f64 / stored.samples_us.len() as f64,
        median_us: median(&stored.samples_us)?,
        p99_us: percentile(&stored.samples_us, 99.0)?,
        max_us: percentile(&stored.samples_us, 100.0)?,
        samples_us: stored.samples_us,
    })
}

/// Writes packs as a backup does: a frame is complete once it holds `frame` bytes or more.
fn store(storage: &Local, keys: &Keys, unique: &[(ChunkId, &[u8])], frame: u32) -> Result<Stored> {
    let mut stored = Stored {
        frame,
        frames: 0,
        bytes: 0,
        places: Vec::new(),
        read_bytes: 0,
        samples_us: Vec::new(),
    };
    let new_pack = || pack::PackBuilder::new(keys, FileId::random(), PackKind::Data);
    let (mut encoder, mut gathered, mut plaintext) = (FrameEncoder::new(), frame::FrameBuilder::new(), Vec::new());
    let mut pack = new_pack();
    for (number, (id, chunk)) in unique.iter().enumerate() {
        gathered.push(*id, chunk);
        let last = number + 1 == unique.len();
        if gathered.len() < frame as usize && !last {
            continue;
        }
        plaintext.clear();
        encoder.encode(
            gathered.blobs(),
            gathered.body(),
            Compression::Zstd(LEVEL),
            &mut plaintext,
        )?;
        pack.add(&plaintext, gathered.blobs(), 0, &[]);
        gathered.clear();
        if last || pack.is_full(PACK_SIZE) {
            stored.put(storage, std::mem::replace(&mut pack, new_pack()))?;
        }
    }
    Ok(stored)
}

impl Stored {
    fn put(&mut self, storage: &Local, pack: pack::PackBuilder) -> Result<()> {
        let (bytes, summary) = pack.finish();
        let name = Name::new(&format!("packs/{}", summary.id))?;
        storage.put(&name, &[&bytes])?;
        self.bytes += bytes.len() as u64;
        self.frames += summary.frames.len() as u64;
        for frame in &summary.frames {
            self.places.extend((0..frame.blobs.len() as u16).map(|slot| Place {
                pack: summary.id,
                name: name.clone(),
                offset: frame.offset,
                sealed: frame.sealed,
                slot,
            }));
        }
        Ok(())
    }
}

/// Reads chunks as ibid does, without a cache.
struct Reader<'a> {
    storage: &'a Local,
    keys: &'a Keys,
    sealed: Vec<u8>,
    decoder: FrameDecoder,
}

impl Reader<'_> {
    /// Fetches the frame, opens its seal, decompresses it up to the end of the chunk, and checks
    /// the chunk against its id.
    fn read(&mut self, place: &Place, id: &ChunkId) -> Result<&[u8]> {
        self.sealed.resize(place.sealed as usize, 0);
        self.storage
            .read_at(&place.name, place.offset.into(), &mut self.sealed)?;
        let plaintext = pack::open_frame(self.keys, place.pack, place.offset, &mut self.sealed)?;
        let chunk = self
            .decoder
            .decode(plaintext, &[], Some(place.slot))?
            .chunk(place.slot)?;
        ensure!(
            self.keys.chunk_id(chunk) == *id,
            "a chunk does not have the bytes that its id says"
        );
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_frames_take_less_space_and_more_reading() {
        let words: Vec<String> = (0..60_000u32)
            .map(|n| format!("word {} of many; ", n.wrapping_mul(2_654_435_761) >> 20))
            .collect();
        let data = words.concat().into_bytes();
        let options = Options {
            file: PathBuf::from("folder/words"),
            frames_kib: vec![4, 256],
            average_kib: 8,
            reads: 50,
            work: None,
            json: None,
        };
        let found = measure(&data, 8 << 10, &options).unwrap();
        assert_eq!((found.file.as_str(), found.bytes), ("words", data.len() as u64));
        let [alone, together] = found.frames.as_slice() else {
            panic!("two sizes")
        };
        assert_eq!((alone.samples_us.len(), together.samples_us.len()), (50, 50));
        assert!(alone.frames > together.frames && together.frames > 1);
        assert!(alone.stored_bytes > together.stored_bytes);
        assert!(alone.read_bytes_mean < together.read_bytes_mean);
        assert!(alone.median_us <= alone.p99_us && alone.p99_us <= alone.max_us);
        assert!(measure(b"", 8 << 10, &options).is_err(), "nothing to read");
    }
}
