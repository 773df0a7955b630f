//! Small entries that lead to records. Each ends with a checksum of four bytes over its table, its
//! key and its value.

use super::index::{IndexValues, put_values, read_values};
use super::places::BLOCK_MAX;
use super::{
    ENCODING_STOPPED_PREFIX, KEY_BYTES_MAX, LAST_BLOCK_KEY, NAME_BYTES_MAX, NEXT_KEY, NUMBER_MAX, PURGED_KEY,
    RETENTION_CLOCK_KEY, TIME_MAX, WATERMARK_KEY,
};
use crate::Error;
use crate::error::{equal, in_range};
use crate::wire::{self, Reader};

const CHECK_BYTES: usize = 4;
/// Length of a namespace's number in front of a key, bytes.
const NAMESPACE_BYTES: usize = 4;

/// The table of an entry. The checksum covers it, so an entry is valid in one table only.
#[derive(Clone, Copy)]
pub(super) enum Table {
    Keys = 1,
    Versions = 2,
    Namespaces = 3,
    Meta = 4,
    References = 5,
    Chains = 6,
    Places = 7,
    Blocks = 8,
    Oplog = 10,
    Indexes = 11,
}

/// Returns the key in the table `keys`: the namespace's number, big-endian, so that its keys are
/// together and in order, and the key.
pub fn key_of(namespace: u32, key: &[u8]) -> Vec<u8> {
    [&namespace.to_be_bytes(), key].concat()
}

/// Splits a key of the table `keys` into namespace and key.
///
/// # Errors
///
/// [`Error::Truncated`] for fewer than four bytes, [`Error::OutOfRange`] for a key that is too
/// long.
pub fn split_key(stored: &[u8]) -> Result<(u32, &[u8]), Error> {
    let mut reader = Reader::new(stored);
    let namespace = reader.array::<NAMESPACE_BYTES>("namespace of a key")?;
    in_range("key", reader.remaining() as u64, 0, KEY_BYTES_MAX as u64)?;
    Ok((u32::from_be_bytes(namespace), reader.rest()))
}

/// Where the records of a key are: an entry of the table `keys`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyEntry {
    /// Whether the latest version deletes the key.
    pub deleted: bool,
    /// Number of the record of the first version, from 1.
    pub lineage: u64,
    /// Number of versions, at least 1.
    pub versions: u32,
    /// Number of the record of the latest version, at least `lineage`.
    pub latest: u64,
    /// When the latest version was stored, milliseconds since 1970; 0 if that is unknown.
    pub time: u64,
    /// All versions before this one were purged; 1 if none was. Of the others, entries of the table `versions` say
    /// which were purged. The latest never was.
    pub oldest: u32,
    /// When the key is to be removed, milliseconds since 1970; 0 if no time was given.
    pub expires: u64,
    /// Of a piece, or of a list of pieces: the number of records whose list names it.
    pub uses: u64,
    /// Whether a version of the key is, or was, in pieces.
    pub in_pieces: bool,
}

/// Bits of the state of a key.
const DELETED: u8 = 1;
const HAS_TIME: u8 = 2;
const HAS_OLDEST: u8 = 4;
const EXPIRES: u8 = 8;
const HAS_VALUES: u8 = 16;
const HAS_USES: u8 = 32;
const IS_IN_PIECES: u8 = 64;

impl KeyEntry {
    /// Returns the entry as stored under `key`, which [`key_of`] made, of a key without index values.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] or [`Error::Mismatch`] for values that no decoder would accept.
    pub fn encode(&self, key: &[u8]) -> Result<Vec<u8>, Error> {
        self.encode_with_values(key, &IndexValues::new())
    }

    /// Returns the entry as stored under `key`, which [`key_of`] made, with the index values of the key.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn encode_with_values(&self, key: &[u8], values: &IndexValues) -> Result<Vec<u8>, Error> {
        self.validate()?;
        let has_values = !values.is_empty();
        check_values_of(self.deleted, has_values)?;
        let optional = [
            (HAS_TIME, self.time, self.time > 0),
            (HAS_OLDEST, self.oldest.into(), self.oldest > 1),
            (EXPIRES, self.expires, self.expires > 0),
            (HAS_USES, self.uses, self.uses > 0),
        ];
        let present = optional.into_iter().filter(|(.., is_present)| *is_present);
        let state = present
            .clone()
            .fold(u8::from(self.deleted), |state, (bit, ..)| state | bit);
        let flag = |is_set, bit| if is_set { bit } else { 0 };
        let mut out = vec![state | flag(has_values, HAS_VALUES) | flag(self.in_pieces, IS_IN_PIECES)];
        wire::put_varint(&mut out, self.lineage);
        wire::put_varint(&mut out, self.versions.into());
        wire::put_varint(&mut out, self.latest - self.lineage);
        for (_, value, _) in present {
            wire::put_varint(&mut out, value);
        }
        if has_values {
            put_values(&mut out, values)?;
        }
        Ok(closed(Table::Keys, key, out))
    }

    /// Reads the entry stored under `key`.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte of it or of the key changed; else the fault in the bytes.
    pub fn decode(key: &[u8], bytes: &[u8]) -> Result<Self, Error> {
        KeyEntry::read(key, bytes, |_, _| {})
    }

    /// Reads the entry stored under `key`, and the index values of the key.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode).
    pub fn decode_with_values(key: &[u8], bytes: &[u8]) -> Result<(Self, IndexValues), Error> {
        let mut values = IndexValues::new();
        let entry = KeyEntry::read(key, bytes, |index, value| {
            values.insert((index, value.to_vec()));
        })?;
        Ok((entry, values))
    }

    fn read(key: &[u8], bytes: &[u8], each_value: impl FnMut(u8, &[u8])) -> Result<Self, Error> {
        let mut reader = opened("entry of a key", Table::Keys, key, bytes)?;
        let state = reader.u8("state of a key")?;
        in_range(
            "state of a key",
            state.into(),
            0,
            (DELETED | HAS_TIME | HAS_OLDEST | EXPIRES | HAS_VALUES | HAS_USES | IS_IN_PIECES).into(),
        )?;
        let lineage = reader.varint("first record of a key")?;
        let versions = reader.varint_u32("versions of a key")?;
        let latest = plus("latest record of a key", lineage, &mut reader)?;
        let mut optional = |bit, field, min, otherwise| match state & bit {
            0 => Ok(otherwise),
            _ => reader.varint_in(field, min, TIME_MAX),
        };
        let time = optional(HAS_TIME, "time of a version", 1, 0)?;
        let oldest = optional(HAS_OLDEST, "oldest version of a key", 2, 1)?;
        let expires = optional(EXPIRES, "time at which a key expires", 1, 0)?;
        let uses = match state & HAS_USES {
            0 => 0,
            _ => reader.varint_in("records that need a piece", 1, NUMBER_MAX)?,
        };
        let has_values = state & HAS_VALUES != 0;
        check_values_of(state & DELETED != 0, has_values)?;
        if has_values {
            read_values(&mut reader, each_value)?;
        }
        reader.finish("entry of a key")?;
        in_range("oldest version of a key", oldest, 1, versions.into())?;
        let entry = KeyEntry {
            deleted: state & DELETED != 0,
            lineage,
            versions,
            latest,
            time,
            oldest: oldest as u32,
            expires,
            uses,
            in_pieces: state & IS_IN_PIECES != 0,
        };
        entry.validate().map(|()| entry)
    }

    fn validate(&self) -> Result<(), Error> {
        in_range("first record of a key", self.lineage, 1, u64::MAX)?;
        in_range("versions of a key", self.versions.into(), 1, u32::MAX.into())?;
        in_range("oldest version of a key", self.oldest.into(), 1, self.versions.into())?;
        in_range("time of a version", self.time, 0, TIME_MAX)?;
        in_range("time at which a key expires", self.expires, 0, TIME_MAX)?;
        in_range("records that need a piece", self.uses, 0, NUMBER_MAX)?;
        let further = u64::from(self.versions - 1);
        // Every further version has a record with a higher number. A first version is never a
        // deletion.
        in_range(
            "latest record of a key",
            self.latest,
            self.lineage.saturating_add(further),
            u64::MAX,
        )?;
        if self.versions == 1 {
            equal("latest record of a key", self.lineage, self.latest)?;
            equal("state of a key", 0, self.deleted.into())?;
        }
        Ok(())
    }
}

/// Refuses index values of a deleted key.
fn check_values_of(deleted: bool, has_values: bool) -> Result<(), Error> {
    let both = deleted && has_values;
    in_range("index values of a deleted key", both.into(), 0, 0).map(drop)
}

/// A namespace: an entry of the table `namespaces`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceEntry {
    /// Its number, from 1.
    pub number: u32,
    /// Whether earlier versions are kept.
    pub versions_kept: bool,
    /// What of it is kept for how long.
    pub retention: RetentionEntry,
    /// Whether a record was stored in it with a time at which it expires.
    pub has_expiring: bool,
    /// How the latest versions of its keys are stored.
    pub latest: LatestEntry,
}

/// How a namespace stores the latest versions of its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum LatestEntry {
    /// As suits its records; it was never set.
    #[default]
    Automatic = 0,
    /// Whole.
    Whole = 1,
    /// Whole, but the same bytes only once.
    Shared = 2,
    /// As deltas of similar records.
    Deltas = 3,
}

impl LatestEntry {
    const ALL: [LatestEntry; 4] = [
        LatestEntry::Automatic,
        LatestEntry::Whole,
        LatestEntry::Shared,
        LatestEntry::Deltas,
    ];

    pub(super) fn put(self, out: &mut Vec<u8>) {
        out.push(self as u8);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let field = "way of storing latest versions";
        let value = reader.u8(field)?;
        let known = LatestEntry::ALL.into_iter().find(|known| *known as u8 == value);
        known.ok_or(Error::OutOfRange {
            field,
            min: 0,
            max: LatestEntry::Deltas as u64,
            found: value.into(),
        })
    }
}

/// What a namespace keeps. A version that both [`versions`](Self::versions) and [`within`](Self::within) let go is
/// purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionEntry {
    /// So many of the last versions are kept; 0 if their number does not matter.
    pub versions: u32,
    /// A version is kept for so long after the next one was stored, milliseconds; 0 if its age does not matter.
    pub within: u64,
    /// A key is removed when its latest version is so old, milliseconds; 0 if none is.
    pub lifetime: u64,
}

/// Bits of the flags of a namespace.
const VERSIONS_KEPT: u8 = 1;
const HAS_RETENTION: u8 = 2;
const HAS_EXPIRING: u8 = 4;
const HAS_LATEST: u8 = 8;

impl RetentionEntry {
    pub(super) fn put(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        for (value, max) in self.values() {
            in_range("retention of a namespace", value, 0, max)?;
            wire::put_varint(out, value);
        }
        Ok(())
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let mut values = [0; 3];
        for (value, (_, max)) in values.iter_mut().zip(RetentionEntry::default().values()) {
            *value = reader.varint_in("retention of a namespace", 0, max)?;
        }
        let [versions, within, lifetime] = values;
        let versions = versions as u32;
        Ok(RetentionEntry {
            versions,
            within,
            lifetime,
        })
    }

    /// Returns the values with the largest that each may have.
    fn values(&self) -> [(u64, u64); 3] {
        let versions = (self.versions.into(), u32::MAX.into());
        [versions, (self.within, TIME_MAX), (self.lifetime, TIME_MAX)]
    }
}

impl NamespaceEntry {
    /// Returns the entry as stored under `name`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for an empty or too long name, or number 0.
    pub fn encode(&self, name: &str) -> Result<Vec<u8>, Error> {
        in_range("name of a namespace", name.len() as u64, 1, NAME_BYTES_MAX as u64)?;
        in_range("number of a namespace", self.number.into(), 1, u32::MAX.into())?;
        let mut out = Vec::new();
        wire::put_varint(&mut out, self.number.into());
        let has_retention = self.retention != RetentionEntry::default();
        let flags = [
            (VERSIONS_KEPT, self.versions_kept),
            (HAS_RETENTION, has_retention),
            (HAS_EXPIRING, self.has_expiring),
            (HAS_LATEST, self.latest != LatestEntry::Automatic),
        ];
        out.push(
            flags
                .into_iter()
                .filter(|(_, is_set)| *is_set)
                .map(|(bit, _)| bit)
                .sum(),
        );
        if has_retention {
            self.retention.put(&mut out)?;
        }
        if self.latest != LatestEntry::Automatic {
            self.latest.put(&mut out);
        }
        Ok(closed(Table::Namespaces, name.as_bytes(), out))
    }

    /// Reads the entry stored under `name`.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(name: &[u8], bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = opened("entry of a namespace", Table::Namespaces, name, bytes)?;
        let number = reader.varint_in("number of a namespace", 1, u32::MAX.into())? as u32;
        let flags = reader.u8("flags of a namespace")?;
        in_range(
            "flags of a namespace",
            flags.into(),
            0,
            (VERSIONS_KEPT | HAS_RETENTION | HAS_EXPIRING | HAS_LATEST).into(),
        )?;
        let mut retention = RetentionEntry::default();
        if flags & HAS_RETENTION != 0 {
            retention = RetentionEntry::read(&mut reader)?;
            let is_set = retention != RetentionEntry::default();
            in_range("retention of a namespace", is_set.into(), 1, 1)?;
        }
        let mut latest = LatestEntry::Automatic;
        if flags & HAS_LATEST != 0 {
            latest = LatestEntry::read(&mut reader)?;
            let is_chosen = latest != LatestEntry::Automatic;
            in_range("way of storing latest versions", is_chosen.into(), 1, 1)?;
        }
        reader.finish("entry of a namespace")?;
        Ok(NamespaceEntry {
            number,
            versions_kept: flags & VERSIONS_KEPT != 0,
            retention,
            has_expiring: flags & HAS_EXPIRING != 0,
            latest,
        })
    }
}

/// What is no longer encoded in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stopped {
    /// Records as deltas of those of other keys. Versions are still deltas of later ones of their keys.
    OtherKeys,
    /// All records.
    All,
}

/// The mark of a namespace whose records are no longer encoded as deltas: an entry of the table
/// `meta`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodingStopped {
    /// Number of the first record that was not compared with others because of it.
    pub since: u64,
}

impl EncodingStopped {
    /// Returns its key in the table `meta`: [`ENCODING_STOPPED_PREFIX`], the namespace's number,
    /// big-endian, and a byte 1 if it is only about other keys.
    pub fn key(namespace: u32, stopped: Stopped) -> Vec<u8> {
        let last: &[u8] = match stopped {
            Stopped::OtherKeys => &[1],
            Stopped::All => &[],
        };
        [ENCODING_STOPPED_PREFIX, &namespace.to_be_bytes(), last].concat()
    }

    /// Returns the namespace of such a key, and what is stopped there, or `None` for another key of the table `meta`.
    pub fn of_key(key: &[u8]) -> Option<(u32, Stopped)> {
        let (number, last) = key.strip_prefix(ENCODING_STOPPED_PREFIX)?.split_first_chunk()?;
        let stopped = match last {
            [] => Stopped::All,
            [1] => Stopped::OtherKeys,
            _ => return None,
        };
        Some((u32::from_be_bytes(*number), stopped))
    }

    /// Returns the entry as stored under [`key`](Self::key).
    pub fn encode(&self, namespace: u32, stopped: Stopped) -> Vec<u8> {
        let mut out = Vec::new();
        wire::put_varint(&mut out, self.since);
        closed(Table::Meta, &Self::key(namespace, stopped), out)
    }

    /// Reads the entry stored under [`key`](Self::key).
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(namespace: u32, stopped: Stopped, bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = opened("namespace given up", Table::Meta, &Self::key(namespace, stopped), bytes)?;
        let since = reader.varint_in("namespace given up", 1, u64::MAX)?;
        reader.finish("namespace given up")?;
        Ok(EncodingStopped { since })
    }
}

/// The next unused numbers: the entry `next` of the table `meta`. No number is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextNumbers {
    /// Of the next record.
    pub record: u64,
    /// Of the next namespace.
    pub namespace: u32,
}

/// The progress of the encoder: the entry `encoded` of the table `meta`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncoderWatermark {
    /// Number of the first record that it has not considered yet.
    pub next: u64,
}

impl EncoderWatermark {
    /// Returns the watermark of a store without the entry.
    pub const FIRST: EncoderWatermark = EncoderWatermark { next: 1 };

    /// Returns the entry as stored under [`WATERMARK_KEY`].
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        wire::put_varint(&mut out, self.next);
        closed(Table::Meta, WATERMARK_KEY, out)
    }

    /// Reads the entry stored under [`WATERMARK_KEY`].
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = opened("next record to encode", Table::Meta, WATERMARK_KEY, bytes)?;
        let next = reader.varint_in("next record to encode", 1, u64::MAX)?;
        reader.finish("next record to encode")?;
        Ok(EncoderWatermark { next })
    }
}

/// How often something was purged whose bytes may still be in the files: the entry `purged` of the table `meta`. A
/// compaction overwrites these bytes, and removes the entry if nothing was purged meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgedMark {
    /// The number of purges, from 1.
    pub purges: u64,
}

/// The time up to which background retention has come: the entry `retention` of the table `meta`. It never goes much
/// faster than time itself, whatever the system's clock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionClock {
    /// The time, milliseconds since 1970.
    pub time: u64,
}

/// A block that was removed when it had the largest number of all: the entry `last block` of the table `meta`. So no
/// number is given to two blocks, which a process that reads while another writes could take for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastBlock {
    /// Its number, from 1.
    pub number: u64,
}

impl LastBlock {
    /// Returns the entry as stored under [`LAST_BLOCK_KEY`].
    pub fn encode(&self) -> Vec<u8> {
        encode_number(LAST_BLOCK_KEY, self.number)
    }

    /// Reads the entry stored under [`LAST_BLOCK_KEY`].
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let number = decode_number(LAST_BLOCK_KEY, "number of a block", BLOCK_MAX, bytes)?;
        Ok(LastBlock { number })
    }
}

impl PurgedMark {
    /// Returns the entry as stored under [`PURGED_KEY`].
    pub fn encode(&self) -> Vec<u8> {
        encode_number(PURGED_KEY, self.purges)
    }

    /// Reads the entry stored under [`PURGED_KEY`].
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let purges = decode_number(PURGED_KEY, "number of purges", u64::MAX, bytes)?;
        Ok(PurgedMark { purges })
    }
}

impl RetentionClock {
    /// Returns the entry as stored under [`RETENTION_CLOCK_KEY`].
    pub fn encode(&self) -> Vec<u8> {
        encode_number(RETENTION_CLOCK_KEY, self.time)
    }

    /// Reads the entry stored under [`RETENTION_CLOCK_KEY`].
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let time = decode_number(RETENTION_CLOCK_KEY, "time of retention", TIME_MAX, bytes)?;
        Ok(RetentionClock { time })
    }
}

fn encode_number(key: &[u8], number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    wire::put_varint(&mut out, number);
    closed(Table::Meta, key, out)
}

fn decode_number(key: &[u8], field: &'static str, max: u64, bytes: &[u8]) -> Result<u64, Error> {
    let mut reader = opened(field, Table::Meta, key, bytes)?;
    let number = reader.varint_in(field, 1, max)?;
    reader.finish(field)?;
    Ok(number)
}

impl NextNumbers {
    /// Returns the numbers of a new store.
    pub const FIRST: NextNumbers = NextNumbers {
        record: 1,
        namespace: 1,
    };

    /// Returns the entry as stored under [`NEXT_KEY`].
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        wire::put_varint(&mut out, self.record);
        wire::put_varint(&mut out, self.namespace.into());
        closed(Table::Meta, NEXT_KEY, out)
    }

    /// Reads the entry stored under [`NEXT_KEY`].
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = opened("next numbers", Table::Meta, NEXT_KEY, bytes)?;
        let record = reader.varint_in("next record", 1, u64::MAX)?;
        let namespace = reader.varint_in("next namespace", 1, u32::MAX.into())? as u32;
        reader.finish("next numbers")?;
        Ok(NextNumbers { record, namespace })
    }
}

pub(super) fn flag(reader: &mut Reader<'_>, field: &'static str) -> Result<bool, Error> {
    match reader.u8(field)? {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(Error::Unknown {
            field,
            found: found.into(),
        }),
    }
}

/// Reads the distance from `base`, and returns their sum.
pub(super) fn plus(field: &'static str, base: u64, reader: &mut Reader<'_>) -> Result<u64, Error> {
    let distance = reader.varint(field)?;
    base.checked_add(distance).ok_or(Error::OutOfRange {
        field,
        min: 0,
        max: u64::MAX - base,
        found: distance,
    })
}

/// Returns `value` with its checksum.
pub(super) fn closed(table: Table, key: &[u8], mut value: Vec<u8>) -> Vec<u8> {
    let check = check(table, key, &value);
    value.extend_from_slice(&check);
    value
}

/// Checks the checksum, and returns a reader of the value.
pub(super) fn opened<'a>(field: &'static str, table: Table, key: &[u8], bytes: &'a [u8]) -> Result<Reader<'a>, Error> {
    let (value, stated) = bytes.split_last_chunk::<CHECK_BYTES>().ok_or(Error::Truncated {
        field,
        expected: CHECK_BYTES as u64,
        found: bytes.len() as u64,
    })?;
    let computed = check(table, key, value);
    if computed != *stated {
        let expected = u32::from_be_bytes(computed).into();
        let found = u32::from_be_bytes(*stated).into();
        return Err(Error::Check { field, expected, found });
    }
    Ok(Reader::new(value))
}

fn check(table: Table, key: &[u8], value: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[table as u8]);
    hasher
        .update(&(key.len() as u64).to_le_bytes())
        .update(key)
        .update(value);
    let mut check = [0; CHECK_BYTES];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..CHECK_BYTES]);
    check
}

/// Checks the checksum of a head of so many bytes, and returns a reader of the bytes after it.
pub(super) fn opened_prefix<'a>(
    field: &'static str,
    table: Table,
    key: &[u8],
    bytes: &'a [u8],
    head: usize,
) -> Result<Reader<'a>, Error> {
    let end = bytes.len().min(head + CHECK_BYTES);
    opened(field, table, key, &bytes[..end])?;
    Ok(Reader::new(&bytes[end..]))
}
