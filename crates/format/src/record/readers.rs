//! The note with which the process that writes an engine's file tells others what they may rely on.

use super::checks::{Check, checked};
use super::commit_log::check_of;
use crate::Error;
use crate::wire::Reader;

const FIELDS: usize = 2 * size_of::<u64>();
/// Length of the note, bytes.
pub const READERS_NOTE_BYTES: usize = FIELDS + size_of::<Check>();

/// What the process that writes says to those that read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadersNote {
    /// The first transaction of the engine whose pages are kept as long as a reader has the lock of its number.
    pub first: u64,
    /// The first transaction whose lock counts if it is taken now.
    pub from: u64,
}

impl ReadersNote {
    /// Nothing is kept: the file is not open for writing, or is being opened or closed.
    pub const CLOSED: ReadersNote = ReadersNote {
        first: u64::MAX,
        from: 0,
    };

    /// Returns the note.
    pub fn encode(&self) -> [u8; READERS_NOTE_BYTES] {
        let mut note = [0; READERS_NOTE_BYTES];
        note[..8].copy_from_slice(&self.first.to_le_bytes());
        note[8..FIELDS].copy_from_slice(&self.from.to_le_bytes());
        let (fields, check) = note.split_at_mut(FIELDS);
        check.copy_from_slice(&check_of(&[b"readers", fields]));
        note
    }

    /// Reads the note.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if it is not whole, for example because it was read while it was written.
    pub fn decode(note: &[u8; READERS_NOTE_BYTES]) -> Result<Self, Error> {
        const FIELD: &str = "note for readers";
        let mut reader = Reader::new(note);
        let fields = reader.take(FIELD, FIELDS)?;
        checked(FIELD, &check_of(&[b"readers", fields]), &mut reader)?;
        let mut reader = Reader::new(fields);
        Ok(ReadersNote {
            first: reader.u64(FIELD)?,
            from: reader.u64(FIELD)?,
        })
    }
}
