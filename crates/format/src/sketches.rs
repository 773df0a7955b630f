//! `sketches/<id>`: the sketches of the chunks that one backup stored.
//!
//! A later backup searches them for chunks that resemble its own. They are hints: without them it
//! reads the chunks again or finds fewer similar ones.
//!
//! ```
//! use ibid_format::sketches::{Features, Run, Sketches};
//! use ibid_format::tree::Time;
//! use ibid_format::{FileId, Keys, MasterKey};
//!
//! let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
//! let mut chunks = Features::default();
//! chunks.push(&[30, 20, 10])?;
//! let run = Run { pack: FileId::random(), offset: 8, slot: 0, chunks };
//! let sketches = Sketches { time: Time { seconds: 0, nanos: 0 }, runs: vec![run] };
//!
//! let id = FileId::random();
//! let mut file = sketches.encode(&keys, id)?;
//! assert_eq!(Sketches::open(&keys, id, &mut file)?, sketches);
//! # Ok::<(), ibid_format::Error>(())
//! ```

use std::collections::HashMap;

use crate::error::{equal, in_range};
use crate::frame::BLOBS_MAX;
use crate::magic::MAGIC;
use crate::tree::Time;
use crate::wire::{self, Reader};
use crate::{Error, FileId, FileKind, Keys, SEAL_OVERHEAD, SealKind, padme, rice};

/// Largest file of sketches, bytes.
pub const LIMIT: u64 = 64 << 20;
/// Most features of a chunk.
pub const FEATURES_MAX: usize = 32;
/// Most bytes that a chunk takes, unless it is the first of its run.
pub const CHUNK_BYTES: usize = 2 + 4 * FEATURES_MAX;

/// A length in front of the values, so that padding can follow them.
const LENGTH: usize = 4;
/// Length of a file without values and padding, bytes.
const FIXED: usize = MAGIC + SEAL_OVERHEAD + LENGTH;
/// Shortest run: pack, offset, slot, count, and a chunk without features.
const RUN_MIN: usize = 5;

/// The features of some chunks, one chunk after another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Features {
    /// The number of features of each chunk.
    counts: Vec<u8>,
    features: Vec<u32>,
}

impl Features {
    /// Adds the features of a chunk, strictly descending; none if it has no sketch.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for more than [`FEATURES_MAX`]; [`Error::Unordered`] unless they
    /// descend strictly.
    pub fn push(&mut self, descending: &[u32]) -> Result<(), Error> {
        let field = "features of a chunk";
        in_range(field, descending.len() as u64, 0, FEATURES_MAX as u64)?;
        if let Some(position) = descending.windows(2).position(|pair| pair[0] <= pair[1]) {
            let position = position as u64 + 1;
            return Err(Error::Unordered { field, position });
        }
        self.counts.push(descending.len() as u8);
        self.features.extend_from_slice(descending);
        Ok(())
    }

    /// Chunks.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether it has no chunks.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns the features of each chunk.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let mut rest = self.features.as_slice();
        self.counts.iter().map(move |&count| {
            let (features, after) = rest.split_at(count.into());
            rest = after;
            features
        })
    }
}

/// Chunks in neighbouring slots of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The pack.
    pub pack: FileId,
    /// Offset of the frame's seal in the pack.
    pub offset: u32,
    /// The slot of the first.
    pub slot: u16,
    /// The features of each: one chunk at least.
    pub chunks: Features,
}

/// The sketches of the chunks that a backup stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sketches {
    /// When they were written.
    pub time: Time,
    /// The sketched chunks.
    pub runs: Vec<Run>,
}

impl Sketches {
    /// Returns these sketches as the file named `id`.
    ///
    /// # Errors
    ///
    /// If a reader would refuse it.
    pub fn encode(&self, keys: &Keys, id: FileId) -> Result<Vec<u8>, Error> {
        self.time.check()?;
        let mut plaintext = vec![0; LENGTH];
        self.put(&mut plaintext)?;
        let length = plaintext.len() - LENGTH;
        let size = padme::padded((FIXED + length) as u64);
        in_range("sketches", size, 0, LIMIT)?;
        plaintext[..LENGTH].copy_from_slice(&(length as u32).to_le_bytes());
        plaintext.resize(size as usize - MAGIC - SEAL_OVERHEAD, 0);
        let mut out = FileKind::Sketches.magic().to_vec();
        keys.seal(SealKind::Sketches, id, MAGIC as u64, &plaintext, &mut out);
        Ok(out)
    }

    fn put(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.time.put(out);
        let mut packs = Vec::new();
        let mut numbers = HashMap::new();
        for run in &self.runs {
            numbers.entry(run.pack).or_insert_with(|| {
                packs.push(run.pack);
                packs.len() as u64 - 1
            });
        }
        wire::put_varint(out, packs.len() as u64);
        packs.iter().for_each(|pack| out.extend_from_slice(&pack.0));
        wire::put_varint(out, self.runs.len() as u64);
        for run in &self.runs {
            check_slots(run.slot, run.chunks.len())?;
            for number in [
                numbers[&run.pack],
                run.offset.into(),
                run.slot.into(),
                run.chunks.len() as u64,
            ] {
                wire::put_varint(out, number);
            }
            for features in run.chunks.iter() {
                out.push(features.len() as u8);
                if !features.is_empty() {
                    rice::put(out, features);
                }
            }
        }
        Ok(())
    }

    /// Reads the file named `id`.
    ///
    /// # Errors
    ///
    /// If it is not a file of sketches, has another version, its seal does not open, or its content
    /// breaks a rule of the format.
    pub fn open(keys: &Keys, id: FileId, bytes: &mut [u8]) -> Result<Sketches, Error> {
        FileKind::Sketches.check(bytes)?;
        in_range("sketches", bytes.len() as u64, 0, LIMIT)?;
        Sketches::decode(keys.open(SealKind::Sketches, id, MAGIC as u64, &mut bytes[MAGIC..])?)
    }

    /// Reads the plaintext of the seal.
    #[doc(hidden)]
    pub fn decode(plaintext: &[u8]) -> Result<Sketches, Error> {
        let mut padded = Reader::new(plaintext);
        let length = padded.u32("length of sketches")?;
        let values = padded.take("sketches", length as usize)?;
        padded.zeros("padding of sketches")?;
        equal(
            "sketches",
            padme::padded(FIXED as u64 + u64::from(length)),
            (plaintext.len() + FIXED - LENGTH) as u64,
        )?;
        Sketches::from_values(values)
    }

    /// Returns the values of a file, without its length, padding and seal.
    ///
    /// # Errors
    ///
    /// If a reader would refuse them.
    pub fn to_values(&self) -> Result<Vec<u8>, Error> {
        self.time.check()?;
        let mut values = Vec::new();
        self.put(&mut values)?;
        Ok(values)
    }

    /// Reads what [`to_values`](Sketches::to_values) returned.
    ///
    /// # Errors
    ///
    /// If it breaks a rule of the format.
    pub fn from_values(values: &[u8]) -> Result<Sketches, Error> {
        let mut reader = Reader::new(values);
        let time = Time::read(&mut reader)?;
        time.check()?;
        let count = reader.count("packs of sketches", LIMIT, size_of::<FileId>())?;
        let mut packs = Vec::with_capacity(count);
        for _ in 0..count {
            packs.push(FileId(reader.array("pack of sketches")?));
        }
        let count = reader.count("runs of sketches", LIMIT, RUN_MIN)?;
        let mut runs = Vec::new();
        for _ in 0..count {
            runs.push(read_run(&mut reader, &packs)?);
        }
        reader.finish("sketches")?;
        Ok(Sketches { time, runs })
    }
}

/// Checks that the run's last slot exists.
fn check_slots(first: u16, count: usize) -> Result<(), Error> {
    let most = (BLOBS_MAX as u64).saturating_sub(first.into());
    in_range("chunks of a run of sketches", count as u64, 1, most).map(drop)
}

fn read_run(reader: &mut Reader<'_>, packs: &[FileId]) -> Result<Run, Error> {
    let last = (packs.len() as u64).checked_sub(1).ok_or(Error::OutOfRange {
        field: "packs of sketches",
        min: 1,
        max: LIMIT,
        found: 0,
    })?;
    let pack = packs[reader.varint_in("pack of a run of sketches", 0, last)? as usize];
    let offset = reader.varint_u32("frame of a run of sketches")?;
    let slot = reader.varint_in("slot of a run of sketches", 0, BLOBS_MAX as u64 - 1)? as u16;
    let count = reader.count("chunks of a run of sketches", BLOBS_MAX as u64, 1)?;
    check_slots(slot, count)?;
    let mut chunks = Features::default();
    for _ in 0..count {
        let count = reader.u8("features of a chunk")?;
        in_range("features of a chunk", count.into(), 0, FEATURES_MAX as u64)?;
        let mut features = [0; FEATURES_MAX];
        let features = &mut features[..usize::from(count)];
        if !features.is_empty() {
            rice::read(reader, "features of a chunk", features)?;
        }
        chunks.push(features)?;
    }
    Ok(Run {
        pack,
        offset,
        slot,
        chunks,
    })
}
