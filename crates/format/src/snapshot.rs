//! `snapshots/<id>`: one backup.

use std::ops::AddAssign;

use crate::content::Content;
use crate::error::{equal, in_range};
use crate::magic::MAGIC;
use crate::tree::Time;
use crate::wire::{self, Reader};
use crate::{Error, FileId, FileKind, Keys, SEAL_OVERHEAD, SealKind, padme};

/// Largest snapshot file, bytes.
pub const LIMIT: u64 = 64 << 20;
/// Longest string in a snapshot, bytes.
pub const STRING_BYTES_MAX: usize = 64 << 10;

/// Most paths, tags, users or groups.
pub const LIST_MAX: usize = 1 << 20;

/// A length in front of the values, so that padding can follow them.
const LENGTH: usize = 4;
/// Length of a snapshot file without values and padding, bytes.
const FIXED: usize = MAGIC + SEAL_OVERHEAD + LENGTH;

/// One backup: its time, host, user and paths, and the root of its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// When the backup began, or the time that the user set.
    pub time: Time,
    /// How long it took, milliseconds.
    pub duration_ms: u64,
    /// The machine.
    pub host: String,
    /// The user who ran it.
    pub user: String,
    /// The program that made it, such as `ibid 0.1.0`.
    pub program: String,
    /// The paths that were backed up: absolute, as given.
    pub paths: Vec<Vec<u8>>,
    /// Strictly ascending.
    pub tags: Vec<String>,
    /// The snapshot that unchanged files were compared with.
    pub parent: Option<FileId>,
    /// The content of the listing of `/`.
    pub root: Content,
    /// Names of users, strictly ascending by number.
    pub users: Vec<(u32, Vec<u8>)>,
    /// Names of groups, strictly ascending by number.
    pub groups: Vec<(u32, Vec<u8>)>,
    /// Totals of the backup.
    pub counters: SnapshotTotals,
}

/// Totals of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnapshotTotals {
    /// Files in the snapshot.
    pub files: u64,
    /// Directories in the snapshot.
    pub directories: u64,
    /// Everything else in the snapshot.
    pub others: u64,
    /// Length of all files together, bytes.
    pub bytes: u64,
    /// Chunks that the repository did not have.
    pub new_chunks: u64,
    /// Their length, uncompressed, bytes.
    pub new_bytes: u64,
    /// Length of the packs written, bytes.
    pub stored_bytes: u64,
    /// Files and directories that could not be read.
    pub unreadable: u64,
    /// Files that changed while they were read.
    pub changed_while_read: u64,
}

impl AddAssign for SnapshotTotals {
    fn add_assign(&mut self, other: SnapshotTotals) {
        let SnapshotTotals {
            files,
            directories,
            others,
            bytes,
            new_chunks,
            new_bytes,
            stored_bytes,
            unreadable,
            changed_while_read,
        } = other;
        self.files += files;
        self.directories += directories;
        self.others += others;
        self.bytes += bytes;
        self.new_chunks += new_chunks;
        self.new_bytes += new_bytes;
        self.stored_bytes += stored_bytes;
        self.unreadable += unreadable;
        self.changed_while_read += changed_while_read;
    }
}

impl SnapshotTotals {
    fn numbers(&self) -> [u64; 9] {
        [
            self.files,
            self.directories,
            self.others,
            self.bytes,
            self.new_chunks,
            self.new_bytes,
            self.stored_bytes,
            self.unreadable,
            self.changed_while_read,
        ]
    }

    fn read(reader: &mut Reader<'_>) -> Result<SnapshotTotals, Error> {
        let mut next = || reader.varint("counter");
        Ok(SnapshotTotals {
            files: next()?,
            directories: next()?,
            others: next()?,
            bytes: next()?,
            new_chunks: next()?,
            new_bytes: next()?,
            stored_bytes: next()?,
            unreadable: next()?,
            changed_while_read: next()?,
        })
    }
}

impl Snapshot {
    /// Returns the file named `id` of this snapshot.
    ///
    /// # Errors
    ///
    /// If a reader would refuse it: a string, the root or the whole beyond its limit, tags, users
    /// or groups out of order.
    pub fn encode(&self, keys: &Keys, id: FileId) -> Result<Vec<u8>, Error> {
        self.check()?;
        let mut plaintext = vec![0; LENGTH];
        self.put(&mut plaintext);
        let length = plaintext.len() - LENGTH;
        let size = padme::padded((FIXED + length) as u64);
        in_range("snapshot file", size, 0, LIMIT)?;
        plaintext[..LENGTH].copy_from_slice(&(length as u32).to_le_bytes());
        plaintext.resize(size as usize - MAGIC - SEAL_OVERHEAD, 0);
        let mut out = FileKind::Snapshot.magic().to_vec();
        keys.seal(SealKind::Snapshot, id, MAGIC as u64, &plaintext, &mut out);
        Ok(out)
    }

    /// Reads the file named `id`.
    ///
    /// # Errors
    ///
    /// If it is not a snapshot, has another version, its seal does not open, or its content breaks
    /// a rule of the format.
    pub fn open(keys: &Keys, id: FileId, bytes: &mut [u8]) -> Result<Snapshot, Error> {
        FileKind::Snapshot.check(bytes)?;
        in_range("snapshot file", bytes.len() as u64, 0, LIMIT)?;
        Snapshot::decode(keys.open(SealKind::Snapshot, id, MAGIC as u64, &mut bytes[MAGIC..])?)
    }

    /// Reads the plaintext of the seal.
    #[doc(hidden)]
    pub fn decode(plaintext: &[u8]) -> Result<Snapshot, Error> {
        let mut padded = Reader::new(plaintext);
        let length = padded.u32("snapshot length")?;
        let mut reader = Reader::new(padded.take("snapshot", length as usize)?);
        padded.zeros("snapshot padding")?;
        equal(
            "snapshot file",
            padme::padded(FIXED as u64 + u64::from(length)),
            (plaintext.len() + FIXED - LENGTH) as u64,
        )?;
        let snapshot = Snapshot::read(&mut reader)?;
        reader.finish("snapshot")?;
        snapshot.check()?;
        Ok(snapshot)
    }

    fn put(&self, out: &mut Vec<u8>) {
        self.time.put(out);
        wire::put_varint(out, self.duration_ms);
        for text in [&self.host, &self.user, &self.program] {
            wire::put_bytes(out, text.as_bytes());
        }
        wire::put_varint(out, self.paths.len() as u64);
        self.paths.iter().for_each(|path| wire::put_bytes(out, path));
        wire::put_varint(out, self.tags.len() as u64);
        self.tags.iter().for_each(|tag| wire::put_bytes(out, tag.as_bytes()));
        out.push(self.parent.is_some().into());
        if let Some(parent) = self.parent {
            out.extend_from_slice(&parent.0);
        }
        self.root.encode(out);
        for names in [&self.users, &self.groups] {
            wire::put_varint(out, names.len() as u64);
            for (number, name) in names {
                wire::put_varint(out, (*number).into());
                wire::put_bytes(out, name);
            }
        }
        self.counters
            .numbers()
            .into_iter()
            .for_each(|number| wire::put_varint(out, number));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Snapshot, Error> {
        Ok(Snapshot {
            time: Time::read(reader)?,
            duration_ms: reader.varint("duration")?,
            host: reader.text("host", STRING_BYTES_MAX)?.to_owned(),
            user: reader.text("user", STRING_BYTES_MAX)?.to_owned(),
            program: reader.text("program", STRING_BYTES_MAX)?.to_owned(),
            paths: read_list(reader, "paths", 1, |reader| {
                Ok(reader.bytes("path", STRING_BYTES_MAX)?.to_vec())
            })?,
            tags: read_list(reader, "tags", 1, |reader| {
                Ok(reader.text("tag", STRING_BYTES_MAX)?.to_owned())
            })?,
            parent: match reader.u8("parent")? {
                0 => None,
                1 => Some(FileId(reader.array("parent")?)),
                other => {
                    return Err(Error::Unknown {
                        field: "parent",
                        found: other.into(),
                    });
                }
            },
            root: Content::decode(reader)?,
            users: read_list(reader, "users", 2, read_name)?,
            groups: read_list(reader, "groups", 2, read_name)?,
            counters: SnapshotTotals::read(reader)?,
        })
    }

    fn check(&self) -> Result<(), Error> {
        self.time.check()?;
        let counts = [self.paths.len(), self.tags.len(), self.users.len(), self.groups.len()];
        for (field, count) in ["paths", "tags", "users", "groups"].into_iter().zip(counts) {
            in_range(field, count as u64, 0, LIST_MAX as u64)?;
        }
        let texts = [&self.host, &self.user, &self.program]
            .into_iter()
            .chain(&self.tags)
            .map(String::as_bytes);
        let names = self.users.iter().chain(&self.groups).map(|(_, name)| name.as_slice());
        for string in texts.chain(names).chain(self.paths.iter().map(Vec::as_slice)) {
            in_range("string of a snapshot", string.len() as u64, 0, STRING_BYTES_MAX as u64)?;
        }
        ascending("tags", &self.tags, |tag| tag)?;
        ascending("users", &self.users, |(number, _)| number)?;
        ascending("groups", &self.groups, |(number, _)| number)?;
        self.root.check()
    }
}

/// Reads a count and so many items of at least `size_min` bytes. Memory grows as they are read, in
/// proportion to the input.
fn read_list<T>(
    reader: &mut Reader<'_>,
    field: &'static str,
    size_min: usize,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let count = reader.count(field, LIST_MAX as u64, size_min)?;
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(read(reader)?);
    }
    Ok(list)
}

fn read_name(reader: &mut Reader<'_>) -> Result<(u32, Vec<u8>), Error> {
    Ok((
        reader.varint_u32("number of a user or group")?,
        reader.bytes("name of a user or group", STRING_BYTES_MAX)?.to_vec(),
    ))
}

fn ascending<T, K: Ord + ?Sized>(field: &'static str, list: &[T], key: impl Fn(&T) -> &K) -> Result<(), Error> {
    match list.windows(2).position(|pair| key(&pair[0]) >= key(&pair[1])) {
        None => Ok(()),
        Some(position) => Err(Error::Unordered {
            field,
            position: position as u64 + 1,
        }),
    }
}
