//! `written/<writer>/seen/<id>`: when keepers saw the snapshots of a writer first.
//!
//! A writer says itself when it made a snapshot. A keeper who looks knows better when it was stored: after the last
//! look, and before this one.

use std::collections::BTreeMap;

use crate::error::in_range;
use crate::tree::Time;
use crate::values::ValuesFile;
use crate::wire::{self, Reader};
use crate::{Error, FileId, Keys, SealKind};

/// Largest file of this kind, bytes.
pub const SEEN_LIMIT: u64 = 64 << 20;

const SEEN: ValuesFile = ValuesFile {
    kind: SealKind::Seen,
    limit: SEEN_LIMIT,
    file: "list of snapshots that were seen",
    values: "snapshots that were seen",
    padding: "padding of a list of snapshots that were seen",
};

/// When keepers saw the snapshots of a writer first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// When a keeper looked last.
    pub looked: Time,
    /// The snapshots that were there then.
    pub snapshots: BTreeMap<FileId, FirstSeen>,
}

/// Between which times a snapshot was stored, by the clocks of keepers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstSeen {
    /// When a keeper looked, and it was not there yet.
    pub after: Time,
    /// When a keeper saw it first.
    pub at: Time,
}

impl Seen {
    /// Returns the file `seen/<id>`, sealed with the keys of the writer's files.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if there are too many snapshots for one file, or a time is none.
    pub fn encode(&self, keys: &Keys, id: FileId) -> Result<Vec<u8>, Error> {
        let mut values = Vec::new();
        put_time(&mut values, self.looked)?;
        wire::put_varint(&mut values, self.snapshots.len() as u64);
        for (id, seen) in &self.snapshots {
            values.extend_from_slice(&id.0);
            put_time(&mut values, seen.after)?;
            put_time(&mut values, seen.at)?;
        }
        in_range("list of snapshots that were seen", values.len() as u64, 0, SEEN_LIMIT)?;
        SEEN.seal(keys, id, &values)
    }

    /// Reads the file `seen/<id>`.
    ///
    /// # Errors
    ///
    /// If it is none, has another version, its seal does not open, or its content breaks a rule of the format.
    pub fn open(keys: &Keys, id: FileId, bytes: &mut [u8]) -> Result<Seen, Error> {
        Seen::decode(SEEN.open(keys, id, bytes)?)
    }

    /// Reads the plaintext of the seal.
    #[doc(hidden)]
    pub fn decode(plaintext: &[u8]) -> Result<Seen, Error> {
        let mut reader = Reader::new(SEEN.values(plaintext)?);
        let looked = read_time(&mut reader)?;
        let count = reader.count("snapshots that were seen", SEEN_LIMIT / 20, 20)?;
        let mut snapshots = BTreeMap::new();
        for position in 0..count {
            let id = FileId(reader.array("snapshot that was seen")?);
            if snapshots.last_key_value().is_some_and(|(last, _)| *last >= id) {
                return Err(Error::Unordered {
                    field: "snapshots that were seen",
                    position: position as u64,
                });
            }
            let (after, at) = (read_time(&mut reader)?, read_time(&mut reader)?);
            snapshots.insert(id, FirstSeen { after, at });
        }
        reader.finish("list of snapshots that were seen")?;
        Ok(Seen { looked, snapshots })
    }
}

fn put_time(out: &mut Vec<u8>, time: Time) -> Result<(), Error> {
    time.check()?;
    time.put(out);
    Ok(())
}

fn read_time(reader: &mut Reader<'_>) -> Result<Time, Error> {
    let time = Time::read(reader)?;
    time.check()?;
    Ok(time)
}
