//! `writers/<id>`: a writer, for those with a password. `revoked/<writer>/<id>`: that it is none any more.

use std::collections::BTreeSet;

use crate::error::{equal, in_range};
use crate::magic::MAGIC;
use crate::slot::{NOTE, Note};
use crate::tree::Time;
use crate::values::ValuesFile;
use crate::wire::{self, Reader};
use crate::{Error, FileId, FileKind, Keys, SEAL_OVERHEAD, SealKind};

/// Length of the file of a writer, bytes. Never read more of one.
pub const NOTE_LIMIT: u64 = (MAGIC + SEAL_OVERHEAD + NOTE) as u64;
/// Largest file that revokes a writer, bytes.
pub const REVOCATION_LIMIT: u64 = 256 << 20;

const REVOCATION: ValuesFile = ValuesFile {
    kind: SealKind::Revocation,
    limit: REVOCATION_LIMIT,
    file: "revocation",
    values: "revocation",
    padding: "padding of a revocation",
};

/// Returns the file `writers/<id>` with this note, sealed with the keys of the repository.
///
/// # Errors
///
/// [`Error::OutOfRange`] if the strings of the note are too long.
pub fn encode_note(keys: &Keys, writer: FileId, note: &Note) -> Result<Vec<u8>, Error> {
    let mut out = FileKind::Writer.magic().to_vec();
    keys.seal(SealKind::Writer, writer, MAGIC as u64, &note.encode()?, &mut out);
    Ok(out)
}

/// Reads the file `writers/<id>`.
///
/// # Errors
///
/// If it is not of a writer, has another version, or its seal does not open.
pub fn open_note(keys: &Keys, writer: FileId, bytes: &mut [u8]) -> Result<Note, Error> {
    FileKind::Writer.check(bytes)?;
    equal("file of a writer", NOTE_LIMIT, bytes.len() as u64)?;
    Note::decode(keys.open(SealKind::Writer, writer, MAGIC as u64, &mut bytes[MAGIC..])?)
}

/// That a writer is none any more, and the files that it had stored until then: those of later count no more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revocation {
    /// When it was revoked.
    pub time: Time,
    /// Its files.
    pub files: BTreeSet<(StoredKind, FileId)>,
}

/// The kind of a file that a writer stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoredKind {
    /// A pack.
    Pack,
    /// An index file.
    Index,
    /// A snapshot.
    Snapshot,
    /// A session.
    Session,
}

impl StoredKind {
    /// All kinds, by number.
    pub const ALL: [StoredKind; 4] = [
        StoredKind::Pack,
        StoredKind::Index,
        StoredKind::Snapshot,
        StoredKind::Session,
    ];
}

impl Revocation {
    /// Returns the file `revoked/<writer>/<id>`, sealed with the keys of the repository.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if there are too many files for one.
    pub fn encode(&self, keys: &Keys, writer: FileId, id: FileId) -> Result<Vec<u8>, Error> {
        self.time.check()?;
        let mut values = writer.0.to_vec();
        self.time.put(&mut values);
        for kind in StoredKind::ALL {
            let files = || self.files.iter().filter(|(found, _)| *found == kind);
            wire::put_varint(&mut values, files().count() as u64);
            files().for_each(|(_, id)| values.extend_from_slice(&id.0));
        }
        in_range("revocation", values.len() as u64, 0, REVOCATION_LIMIT)?;
        REVOCATION.seal(keys, id, &values)
    }

    /// Reads the file `revoked/<writer>/<id>`.
    ///
    /// # Errors
    ///
    /// If it is none, has another version, its seal does not open, it is of another writer, or its content breaks a
    /// rule of the format.
    pub fn open(keys: &Keys, writer: FileId, id: FileId, bytes: &mut [u8]) -> Result<Revocation, Error> {
        let (found, revocation) = Revocation::decode(REVOCATION.open(keys, id, bytes)?)?;
        match found == writer {
            true => Ok(revocation),
            false => Err(Error::Repository {
                expected: writer,
                found,
            }),
        }
    }

    /// Reads the plaintext of the seal: the writer, and what is said of it.
    #[doc(hidden)]
    pub fn decode(plaintext: &[u8]) -> Result<(FileId, Revocation), Error> {
        let mut reader = Reader::new(REVOCATION.values(plaintext)?);
        let writer = FileId(reader.array("writer id")?);
        let time = Time::read(&mut reader)?;
        time.check()?;
        let mut files = BTreeSet::new();
        for kind in StoredKind::ALL {
            let count = reader.count("files of a writer", REVOCATION_LIMIT / 16, 16)?;
            let mut last = None;
            for position in 0..count {
                let id = FileId(reader.array("file of a writer")?);
                if last.is_some_and(|last| last >= id) {
                    return Err(Error::Unordered {
                        field: "files of a writer",
                        position: position as u64,
                    });
                }
                last = Some(id);
                files.insert((kind, id));
            }
        }
        reader.finish("revocation")?;
        Ok((writer, Revocation { time, files }))
    }
}
