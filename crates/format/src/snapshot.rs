//! `snapshots/<id>`: one backup, or a void file that ends the session of the same name.

use std::ops::AddAssign;

use crate::content::Content;
use crate::error::in_range;
use crate::tree::Time;
use crate::values::ValuesFile;
use crate::wire::{self, Reader};
use crate::{Error, FileId, Keys, SealKind};

/// Largest snapshot file, bytes.
pub const LIMIT: u64 = 64 << 20;
/// Longest string in a snapshot, bytes.
pub const STRING_BYTES_MAX: usize = 64 << 10;

/// Most paths, tags, users or groups.
pub const LIST_MAX: usize = 1 << 20;

/// The kind of a file that holds a snapshot, and of one that is void.
const SNAPSHOT: u8 = 0;
const VOID: u8 = 1;
const FILE: ValuesFile = ValuesFile {
    kind: SealKind::Snapshot,
    limit: LIMIT,
    file: "snapshot file",
    values: "snapshot",
    padding: "snapshot padding",
};

/// One backup: its time, host, user and paths, and the root of its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// When the backup began, or the time that the user set.
    pub time: Time,
    /// Its place in the order of snapshots, which does not depend on clocks: snapshots are ordered by this
    /// number, those of one number by their time, then by their id. A backup takes a larger number than any
    /// that it finds.
    pub sequence: u64,
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
    /// The snapshot that this one was made from, by changing tags, leaving out files or copying, if it was.
    pub original: Option<FileId>,
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
        let mut values = vec![SNAPSHOT];
        self.put(&mut values);
        FILE.seal(keys, id, &values)
    }

    /// Reads the file named `id`. Returns `None` if it is [void](encode_void).
    ///
    /// # Errors
    ///
    /// If it is not a snapshot, has another version, its seal does not open, or its content breaks
    /// a rule of the format.
    pub fn open(keys: &Keys, id: FileId, bytes: &mut [u8]) -> Result<Option<Snapshot>, Error> {
        Snapshot::decode(FILE.open(keys, id, bytes)?)
    }

    /// Reads the plaintext of the seal.
    #[doc(hidden)]
    pub fn decode(plaintext: &[u8]) -> Result<Option<Snapshot>, Error> {
        let mut reader = Reader::new(FILE.values(plaintext)?);
        let snapshot = match reader.u8("kind of snapshot")? {
            SNAPSHOT => Some(Snapshot::read(&mut reader)?),
            VOID => None,
            other => {
                return Err(Error::Unknown {
                    field: "kind of snapshot",
                    found: other.into(),
                });
            }
        };
        reader.finish("snapshot")?;
        snapshot.as_ref().map_or(Ok(()), Snapshot::check)?;
        Ok(snapshot)
    }

    fn put(&self, out: &mut Vec<u8>) {
        self.time.put(out);
        wire::put_varint(out, self.sequence);
        wire::put_varint(out, self.duration_ms);
        for text in [&self.host, &self.user, &self.program] {
            wire::put_bytes(out, text.as_bytes());
        }
        wire::put_varint(out, self.paths.len() as u64);
        self.paths.iter().for_each(|path| wire::put_bytes(out, path));
        wire::put_varint(out, self.tags.len() as u64);
        self.tags.iter().for_each(|tag| wire::put_bytes(out, tag.as_bytes()));
        for other in [self.parent, self.original] {
            out.push(other.is_some().into());
            if let Some(id) = other {
                out.extend_from_slice(&id.0);
            }
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
            sequence: reader.varint("sequence")?,
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
            parent: read_other(reader, "parent")?,
            original: read_other(reader, "original")?,
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

/// Returns the file `snapshots/<id>` that ends the session `id` without a snapshot: once it is there, no
/// backup can put a snapshot of that name.
///
/// ```
/// use ibid_format::snapshot::{self, Snapshot};
/// use ibid_format::{FileId, Keys, MasterKey};
///
/// let (keys, id) = (Keys::encrypted(FileId::random(), &MasterKey::random()), FileId::random());
/// let mut file = snapshot::encode_void(&keys, id)?;
/// assert_eq!(Snapshot::open(&keys, id, &mut file)?, None);
/// # Ok::<(), ibid_format::Error>(())
/// ```
///
/// # Errors
///
/// None today; as [`Snapshot::encode`].
pub fn encode_void(keys: &Keys, id: FileId) -> Result<Vec<u8>, Error> {
    FILE.seal(keys, id, &[VOID])
}

fn read_other(reader: &mut Reader<'_>, field: &'static str) -> Result<Option<FileId>, Error> {
    match reader.u8(field)? {
        0 => Ok(None),
        1 => Ok(Some(FileId(reader.array(field)?))),
        other => Err(Error::Unknown {
            field,
            found: other.into(),
        }),
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
