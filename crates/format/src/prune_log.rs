//! `prune/<number>`: the log of pruners. Each entry has the whole state after it, so that the last one is all
//! that a reader needs.
//!
//! `docs/prune.md` explains the protocol.
//!
//! ```
//! use ibid_format::prune_log::{Batch, Entry};
//! use ibid_format::tree::Time;
//! use ibid_format::{FileId, Keys, MasterKey};
//!
//! let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
//! let time = Time { seconds: 1_800_000_000, nanos: 0 };
//! let batch = Batch { time, packs: vec![FileId([1; 16])], seen: None };
//! let entry = Entry { batches: vec![batch], fence: 7, ..Entry::first(time, "amber") };
//! let mut file = entry.encode(&keys, 7)?;
//! assert_eq!(Entry::open(&keys, 7, &mut file)?, entry);
//! # Ok::<(), ibid_format::Error>(())
//! ```

use crate::error::in_range;
use crate::tree::Time;
use crate::values::ValuesFile;
use crate::wire::{self, Reader};
use crate::{Error, FileId, Keys, SealKind};

/// Largest entry, bytes.
pub const LIMIT: u64 = 256 << 20;
/// Longest name of a host, bytes.
pub const HOST_BYTES_MAX: usize = 64 << 10;

const FILE: ValuesFile = ValuesFile {
    kind: SealKind::PruneLog,
    limit: LIMIT,
    file: "entry of the prune log",
    values: "log entry",
    padding: "padding of a log entry",
};
const ID: usize = 16;

/// Packs that were condemned by one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// When that was.
    pub time: Time,
    /// The packs, strictly ascending.
    pub packs: Vec<FileId>,
    /// The sessions that were open afterwards, strictly ascending; `None` until they have been listed.
    pub seen: Option<Vec<FileId>>,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it was written.
    pub time: Time,
    /// The machine that wrote it.
    pub host: String,
    /// Packs that are about to be deleted: to a backup they are missing.
    pub batches: Vec<Batch>,
    /// Packs that are being deleted, or were, strictly ascending: to everyone they are missing.
    pub doomed: Vec<FileId>,
    /// Index files whose epoch is smaller are trusted only if they are among those verified.
    pub fence: u64,
    /// Index files that a pruner has found to list only frames whose bases are there, strictly ascending.
    pub verified: Vec<FileId>,
}

impl Entry {
    /// Returns the state before the first entry, as if it were one.
    pub fn first(time: Time, host: impl Into<String>) -> Entry {
        Entry {
            time,
            host: host.into(),
            batches: Vec::new(),
            doomed: Vec::new(),
            fence: 0,
            verified: Vec::new(),
        }
    }

    /// Returns the file of the entry with this number.
    ///
    /// # Errors
    ///
    /// If a reader would refuse it: a list that does not ascend, or the whole beyond its limit.
    pub fn encode(&self, keys: &Keys, number: u64) -> Result<Vec<u8>, Error> {
        self.check()?;
        let mut values = Vec::new();
        self.put(&mut values);
        FILE.seal(keys, FileId::numbered(number), &values)
    }

    /// Reads the entry with this number.
    ///
    /// # Errors
    ///
    /// If it is not one, has another version, its seal does not open, or its content breaks a rule of the
    /// format.
    pub fn open(keys: &Keys, number: u64, bytes: &mut [u8]) -> Result<Entry, Error> {
        Entry::decode(FILE.open(keys, FileId::numbered(number), bytes)?)
    }

    /// Reads the plaintext of the seal.
    #[doc(hidden)]
    pub fn decode(plaintext: &[u8]) -> Result<Entry, Error> {
        let mut reader = Reader::new(FILE.values(plaintext)?);
        let mut entry = Entry::first(Time::read(&mut reader)?, reader.text("host", HOST_BYTES_MAX)?);
        let count = reader.count("batches of a log entry", u32::MAX.into(), 4)?;
        for _ in 0..count {
            entry.batches.push(Batch {
                time: Time::read(&mut reader)?,
                packs: read_ids(&mut reader, "condemned packs")?,
                seen: match reader.u8("whether sessions were listed")? {
                    0 => None,
                    1 => Some(read_ids(&mut reader, "sessions of a log entry")?),
                    other => {
                        return Err(Error::Unknown {
                            field: "whether sessions were listed",
                            found: other.into(),
                        });
                    }
                },
            });
        }
        entry.doomed = read_ids(&mut reader, "doomed packs")?;
        entry.fence = reader.varint("fence")?;
        entry.verified = read_ids(&mut reader, "verified index files")?;
        reader.finish("log entry")?;
        entry.check()?;
        Ok(entry)
    }

    fn put(&self, out: &mut Vec<u8>) {
        self.time.put(out);
        wire::put_bytes(out, self.host.as_bytes());
        wire::put_varint(out, self.batches.len() as u64);
        for batch in &self.batches {
            batch.time.put(out);
            put_ids(out, &batch.packs);
            out.push(batch.seen.is_some().into());
            batch.seen.iter().for_each(|seen| put_ids(out, seen));
        }
        put_ids(out, &self.doomed);
        wire::put_varint(out, self.fence);
        put_ids(out, &self.verified);
    }

    fn check(&self) -> Result<(), Error> {
        self.time.check()?;
        in_range("host", self.host.len() as u64, 0, HOST_BYTES_MAX as u64)?;
        for batch in &self.batches {
            batch.time.check()?;
            ascending("condemned packs", &batch.packs)?;
            batch
                .seen
                .as_ref()
                .map_or(Ok(()), |seen| ascending("sessions of a log entry", seen))?;
        }
        ascending("doomed packs", &self.doomed)?;
        ascending("verified index files", &self.verified)
    }
}

fn put_ids(out: &mut Vec<u8>, ids: &[FileId]) {
    wire::put_varint(out, ids.len() as u64);
    ids.iter().for_each(|id| out.extend_from_slice(&id.0));
}

/// Reads a count and so many ids, which the input has.
fn read_ids(reader: &mut Reader<'_>, field: &'static str) -> Result<Vec<FileId>, Error> {
    let count = reader.count(field, LIMIT / ID as u64, ID)?;
    (0..count).map(|_| reader.array(field).map(FileId)).collect()
}

fn ascending(field: &'static str, ids: &[FileId]) -> Result<(), Error> {
    match ids.windows(2).position(|pair| pair[0] >= pair[1]) {
        None => Ok(()),
        Some(position) => Err(Error::Unordered {
            field,
            position: position as u64 + 1,
        }),
    }
}
