//! `checkpoints/<id>`: the tree of a backup as far as it has come, so that the next one need not read it
//! again if this one never gets a snapshot.
//!
//! ```
//! use ibid_format::checkpoint::Checkpoint;
//! use ibid_format::content::Content;
//! use ibid_format::tree::Time;
//! use ibid_format::{FileId, Keys, MasterKey};
//!
//! let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
//! let checkpoint = Checkpoint {
//!     session: FileId::random(),
//!     time: Time { seconds: 1_800_000_000, nanos: 0 },
//!     sequence: 7,
//!     host: "amber".into(),
//!     program: "ibid 0.1.0".into(),
//!     paths: vec![b"/home/ada".to_vec()],
//!     root: Content::empty(),
//!     last: b"/home/ada/mill.c".to_vec(),
//!     files: 1,
//!     bytes: 17,
//! };
//! let id = FileId::random();
//! let mut file = checkpoint.encode(&keys, id)?;
//! assert_eq!(Checkpoint::open(&keys, id, &mut file)?, checkpoint);
//! # Ok::<(), ibid_format::Error>(())
//! ```

use crate::content::Content;
use crate::error::in_range;
use crate::tree::Time;
use crate::values::ValuesFile;
use crate::wire::{self, Reader};
use crate::{Error, FileId, Keys, SealKind};

/// Largest checkpoint file, bytes.
pub const LIMIT: u64 = 64 << 20;
/// Longest string in a checkpoint, bytes.
pub const STRING_BYTES_MAX: usize = 64 << 10;
/// Most paths.
pub const PATHS_MAX: u64 = 1 << 20;
/// Longest path of the last entry, bytes.
pub const LAST_BYTES_MAX: usize = 1 << 20;

const FILE: ValuesFile = ValuesFile {
    kind: SealKind::Checkpoint,
    limit: LIMIT,
    file: "checkpoint file",
    values: "checkpoint",
    padding: "checkpoint padding",
};

/// The tree of a backup as far as it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The session of the backup.
    pub session: FileId,
    /// When the checkpoint was made.
    pub time: Time,
    /// A number above the sequence of every snapshot that there was when the backup began.
    pub sequence: u64,
    /// The machine that the snapshot would have recorded.
    pub host: String,
    /// The program, such as `ibid 0.1.0`.
    pub program: String,
    /// The paths that are backed up: absolute, as the snapshot would have recorded them.
    pub paths: Vec<Vec<u8>>,
    /// The content of the listing of `/`, of which the end is missing, as of every directory that leads to
    /// the last entry.
    pub root: Content,
    /// The path of the last entry, from `/`; empty if there is none, and `/` if the tree is complete.
    pub last: Vec<u8>,
    /// Files in the tree.
    pub files: u64,
    /// Length of these files together, bytes.
    pub bytes: u64,
}

impl Checkpoint {
    /// Returns the file named `id` of this checkpoint.
    ///
    /// # Errors
    ///
    /// If a reader would refuse it: a string, the number of paths, the root or the whole beyond its limit.
    pub fn encode(&self, keys: &Keys, id: FileId) -> Result<Vec<u8>, Error> {
        self.check()?;
        let mut values = Vec::new();
        self.put(&mut values);
        FILE.seal(keys, id, &values)
    }

    /// Reads the file named `id`.
    ///
    /// # Errors
    ///
    /// If it is not a checkpoint, has another version, its seal does not open, or its content breaks a rule of
    /// the format.
    pub fn open(keys: &Keys, id: FileId, bytes: &mut [u8]) -> Result<Checkpoint, Error> {
        Checkpoint::decode(FILE.open(keys, id, bytes)?)
    }

    /// Reads the plaintext of the seal.
    #[doc(hidden)]
    pub fn decode(plaintext: &[u8]) -> Result<Checkpoint, Error> {
        let mut reader = Reader::new(FILE.values(plaintext)?);
        let checkpoint = Checkpoint::read(&mut reader)?;
        reader.finish("checkpoint")?;
        checkpoint.check()?;
        Ok(checkpoint)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Checkpoint, Error> {
        let session = FileId(reader.array("session")?);
        let time = Time::read(reader)?;
        let sequence = reader.varint("sequence")?;
        let host = reader.text("host", STRING_BYTES_MAX)?.to_owned();
        let program = reader.text("program", STRING_BYTES_MAX)?.to_owned();
        let count = reader.count("paths of a checkpoint", PATHS_MAX, 1)?;
        let mut paths = Vec::new();
        for _ in 0..count {
            paths.push(reader.bytes("path", STRING_BYTES_MAX)?.to_vec());
        }
        Ok(Checkpoint {
            session,
            time,
            sequence,
            host,
            program,
            paths,
            root: Content::decode(reader)?,
            last: reader.bytes("last path", LAST_BYTES_MAX)?.to_vec(),
            files: reader.varint("files")?,
            bytes: reader.varint("bytes")?,
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.session.0);
        self.time.put(out);
        wire::put_varint(out, self.sequence);
        wire::put_bytes(out, self.host.as_bytes());
        wire::put_bytes(out, self.program.as_bytes());
        wire::put_varint(out, self.paths.len() as u64);
        self.paths.iter().for_each(|path| wire::put_bytes(out, path));
        self.root.encode(out);
        wire::put_bytes(out, &self.last);
        wire::put_varint(out, self.files);
        wire::put_varint(out, self.bytes);
    }

    fn check(&self) -> Result<(), Error> {
        self.time.check()?;
        in_range("paths of a checkpoint", self.paths.len() as u64, 0, PATHS_MAX)?;
        let texts = [&self.host, &self.program].map(|text| text.as_bytes());
        for string in texts.into_iter().chain(self.paths.iter().map(Vec::as_slice)) {
            in_range(
                "string of a checkpoint",
                string.len() as u64,
                0,
                STRING_BYTES_MAX as u64,
            )?;
        }
        in_range("last path", self.last.len() as u64, 0, LAST_BYTES_MAX as u64)?;
        self.root.check()
    }
}
