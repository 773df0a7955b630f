//! The log of commits beside the file of an engine: what a commit has changed, so that whoever opens
//! the engine after a crash can repeat it.

use super::checks::{CHECK_BYTES, Check, CheckHash, CheckHasher, checked};
use crate::Error;
use crate::error::{equal, in_range};
use crate::wire::{self, Reader};

/// Length of what names a log, bytes.
pub const COMMIT_LOG_ID_BYTES: usize = 16;
/// What names a log: its engine has the same.
pub type CommitLogId = [u8; COMMIT_LOG_ID_BYTES];

const MAGIC: [u8; 7] = *b"ibidwal";
/// The version of segments whose commits have checksums by BLAKE3.
const VERSION_BLAKE3: u8 = 1;
/// That of those with checksums by XXH3.
const VERSION_XXH3: u8 = 2;
const MARK: [u8; 4] = *b"ibcm";

/// Length of the header, bytes.
pub const COMMIT_LOG_HEADER_BYTES: usize = MAGIC.len() + 1 + COMMIT_LOG_ID_BYTES + CHECK_BYTES;
/// Where the note is of what was synced.
pub const COMMIT_LOG_NOTE_AT: u64 = 512;
/// Length of that note, bytes.
pub const COMMIT_LOG_NOTE_BYTES: usize = 8 + CHECK_BYTES;
/// Where the first commit begins.
pub const COMMIT_LOG_COMMITS_AT: u64 = 1024;
/// Length of the head of a commit, bytes.
pub const COMMIT_HEAD_BYTES: usize = MARK.len() + 3 * 8 + CHECK_BYTES;
/// Length of the checksum behind the changes of a commit, bytes.
pub const COMMIT_CHECK_BYTES: usize = CHECK_BYTES;

/// Set in the table's number if a key is removed.
const REMOVED: u8 = 0x80;
/// Longest key of a change, bytes.
pub const COMMIT_KEY_BYTES_MAX: usize = 64 << 10;

/// Returns the header of a segment of the log, in which commits have checksums that are made in this way.
pub fn commit_log_header(id: &CommitLogId, hash: CheckHash) -> [u8; COMMIT_LOG_HEADER_BYTES] {
    let version = match hash {
        CheckHash::Blake3 => VERSION_BLAKE3,
        CheckHash::Xxh3 => VERSION_XXH3,
    };
    let head = [&MAGIC[..], &[version], id].concat();
    let header = [&head[..], &check_of(&[&head])].concat();
    header.try_into().expect("the fields have their lengths")
}

/// Reads the header of a segment of the log: what names the log, and what checksums of commits are made by.
///
/// # Errors
///
/// [`Error::Mismatch`] if it is none; [`Error::Check`] if a byte changed; [`Error::OutOfRange`] if it is one of another
/// version.
pub fn commit_log_id(header: &[u8; COMMIT_LOG_HEADER_BYTES]) -> Result<(CommitLogId, CheckHash), Error> {
    let mut reader = Reader::new(header);
    let magic = reader.array::<8>("magic of a log of commits")?;
    let [found @ .., version] = magic;
    let number = |bytes: [u8; 7]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    equal("magic of a log of commits", number(MAGIC), number(found))?;
    let id = reader.array("what names a log of commits")?;
    checked("header of a log of commits", &check_of(&[&magic, &id]), &mut reader)?;
    let (min, max) = (VERSION_BLAKE3.into(), VERSION_XXH3.into());
    in_range("version of a log of commits", version.into(), min, max)?;
    let hash = match version {
        VERSION_BLAKE3 => CheckHash::Blake3,
        _ => CheckHash::Xxh3,
    };
    Ok((id, hash))
}

/// Returns the note that all commits up to this number were synced.
pub fn commit_log_note(id: &CommitLogId, synced: u64) -> [u8; COMMIT_LOG_NOTE_BYTES] {
    let mut note = [0; COMMIT_LOG_NOTE_BYTES];
    let (number, check) = note.split_at_mut(8);
    number.copy_from_slice(&synced.to_le_bytes());
    check.copy_from_slice(&check_of(&[id, number]));
    note
}

/// Returns the number in a note; [`None`] if it is not whole: it is not synced, so a power failure may tear it.
pub fn synced_by_note(id: &CommitLogId, note: &[u8; COMMIT_LOG_NOTE_BYTES]) -> Option<u64> {
    let (number, check) = note.split_first_chunk::<8>()?;
    let number = u64::from_le_bytes(*number);
    (commit_log_note(id, number)[8..] == *check).then_some(number)
}

/// The head of a commit in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitHead {
    /// Length of its changes, bytes.
    pub length: u64,
    /// One more than that of the commit before.
    pub number: u64,
    /// The last commit that had been synced when this one was written; less than `number`.
    pub synced: u64,
}

impl CommitHead {
    /// Returns the head in the log of this id.
    pub fn encode(&self, id: &CommitLogId) -> [u8; COMMIT_HEAD_BYTES] {
        let mut head = Vec::with_capacity(COMMIT_HEAD_BYTES);
        head.extend_from_slice(&MARK);
        for value in [self.length, self.number, self.synced] {
            wire::put_u64(&mut head, value);
        }
        let check = check_of(&[id, &head]);
        head.extend_from_slice(&check);
        head.try_into().expect("the fields have their lengths")
    }

    /// Reads a head in the log of this id.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if these bytes are not of a head in this log; [`Error::OutOfRange`].
    pub fn decode(id: &CommitLogId, head: &[u8; COMMIT_HEAD_BYTES]) -> Result<Self, Error> {
        const FIELD: &str = "head of a commit";
        let mut reader = Reader::new(head);
        let fields = reader.take(FIELD, COMMIT_HEAD_BYTES - CHECK_BYTES)?;
        checked(FIELD, &check_of(&[id, fields]), &mut reader)?;
        let mut reader = Reader::new(fields);
        let mark = reader.array::<4>(FIELD)?;
        equal(FIELD, u32::from_be_bytes(mark).into(), u32::from_be_bytes(MARK).into())?;
        let [length, number, synced] = [reader.u64(FIELD)?, reader.u64(FIELD)?, reader.u64(FIELD)?];
        in_range("commit synced before", synced, 0, number.saturating_sub(1))?;
        Ok(CommitHead { length, number, synced })
    }

    /// Returns where in `bytes` a head in the log of this id begins, from `from` on, with the head.
    pub fn find(id: &CommitLogId, bytes: &[u8], from: usize) -> Option<(usize, Self)> {
        let mut at = from;
        loop {
            at += bytes.get(at..)?.windows(MARK.len()).position(|window| window == MARK)?;
            if let Ok(head) = Self::decode(id, bytes[at..].first_chunk()?) {
                return Some((at, head));
            }
            at += 1;
        }
    }
}

/// The checksum over the changes of a commit and its head.
#[derive(Clone)]
pub struct CommitHasher(CheckHasher);

impl CommitHasher {
    /// Begins with no changes.
    pub fn new(hash: CheckHash) -> Self {
        CommitHasher(CheckHasher::new(hash))
    }

    /// Adds bytes of changes.
    pub fn update(&mut self, changes: &[u8]) {
        self.0.update(changes);
    }

    /// Returns the checksum of the changes behind this head.
    pub fn finish(mut self, head: &[u8; COMMIT_HEAD_BYTES]) -> [u8; COMMIT_CHECK_BYTES] {
        self.0.update(head);
        self.0.finish()
    }
}

/// A change of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitChange<'a> {
    /// Number of the table, 1 to 127.
    pub table: u8,
    /// The key in the table.
    pub key: &'a [u8],
    /// The value that it has now; [`None`] if it was removed.
    pub value: Option<&'a [u8]>,
}

impl<'a> CommitChange<'a> {
    /// Appends all of the change but its value, which follows.
    pub fn encode_before_value(&self, out: &mut Vec<u8>) {
        match self.value {
            Some(value) => CommitChange::encode_before_value_of(self.table, self.key, value.len(), out),
            None => {
                out.push(self.table | REMOVED);
                wire::put_bytes(out, self.key);
            }
        }
    }

    /// Appends all of a change that stores a value of `length` bytes but the value, which follows.
    pub fn encode_before_value_of(table: u8, key: &[u8], length: usize, out: &mut Vec<u8>) {
        out.push(table);
        wire::put_bytes(out, key);
        wire::put_varint(out, length as u64);
    }

    /// Shows all changes of a commit, in their order.
    ///
    /// # Errors
    ///
    /// The fault in the bytes, or the error of `each`.
    pub fn decode_all<E: From<Error>>(
        changes: &'a [u8],
        mut each: impl FnMut(CommitChange<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut reader = Reader::new(changes);
        while reader.remaining() > 0 {
            let table = reader.u8("table of a change")?;
            let key = reader.bytes("key of a change", COMMIT_KEY_BYTES_MAX)?;
            let value = match table & REMOVED {
                0 => Some(reader.bytes("value of a change", changes.len())?),
                _ => None,
            };
            let table = table & !REMOVED;
            each(CommitChange { table, key, value })?;
        }
        Ok(())
    }
}

/// Returns the checksum of what is short: by BLAKE3 in every version.
pub(super) fn check_of(parts: &[&[u8]]) -> Check {
    CheckHash::Blake3.of_parts(parts)
}
