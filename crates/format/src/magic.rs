//! The eight bytes that every file begins with.

use std::fmt;

use crate::Error;

/// Length of the magic, bytes.
pub(crate) const MAGIC: usize = 8;
/// The format version this crate reads and writes.
const VERSION: u8 = 1;

/// The kinds of file in a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// `config`
    Config,
    /// `keys/<id>`
    Key,
    /// `packs/<ab>/<id>`
    Pack,
    /// `index/<id>`
    Index,
    /// `snapshots/<id>`
    Snapshot,
    /// `sketches/<id>`
    Sketches,
    /// `sessions/<id>`
    Session,
    /// `prune/<number>`
    PruneLog,
    /// `checkpoints/<id>`
    Checkpoint,
    /// Tables of a store of records.
    Records,
    /// A run of the local cache.
    Run,
    /// A run of sketches of the local cache.
    SketchRun,
    /// The list of complete snapshots of the local cache.
    Complete,
    /// What opened a repository last, in its local cache.
    Opened,
    /// The header of a file of a writer.
    Signed,
    /// `writers/<id>`
    Writer,
    /// `revoked/<writer>/<id>`
    Revocation,
    /// `written/<writer>/seen/<id>`
    Seen,
}

impl FileKind {
    /// Returns the magic of such a file.
    pub fn magic(self) -> [u8; 8] {
        let [a, b, c] = match self {
            FileKind::Config => *b"cfg",
            FileKind::Key => *b"key",
            FileKind::Pack => *b"pck",
            FileKind::Index => *b"idx",
            FileKind::Snapshot => *b"snp",
            FileKind::Sketches => *b"skt",
            FileKind::Session => *b"ses",
            FileKind::PruneLog => *b"prn",
            FileKind::Checkpoint => *b"ckp",
            FileKind::Records => *b"rec",
            FileKind::Run => *b"run",
            FileKind::SketchRun => *b"skr",
            FileKind::Complete => *b"cpl",
            FileKind::Opened => *b"opn",
            FileKind::Signed => *b"sgn",
            FileKind::Writer => *b"wrt",
            FileKind::Revocation => *b"rvk",
            FileKind::Seen => *b"sen",
        };
        [b'i', b'b', b'i', b'd', a, b, c, VERSION]
    }

    /// Checks the magic at the beginning of `bytes`, which hold at least the file's first 8. A
    /// pack's first 8 bytes are in no seal, so a check of a whole pack has to call this.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`], [`Error::Magic`], or [`Error::Version`] if all but the version is as
    /// expected.
    pub fn check(self, bytes: &[u8]) -> Result<(), Error> {
        let found = *bytes.first_chunk::<MAGIC>().ok_or(Error::Truncated {
            field: "magic",
            expected: MAGIC as u64,
            found: bytes.len() as u64,
        })?;
        let expected = self.magic();
        if found == expected {
            Ok(())
        } else if found[..MAGIC - 1] == expected[..MAGIC - 1] {
            Err(Error::Version {
                kind: self,
                expected: VERSION,
                found: found[MAGIC - 1],
            })
        } else {
            Err(Error::Magic { expected: self, found })
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::Config => "the config",
            FileKind::Key => "a key",
            FileKind::Pack => "a pack",
            FileKind::Index => "an index",
            FileKind::Snapshot => "a snapshot",
            FileKind::Sketches => "sketches",
            FileKind::Session => "a session",
            FileKind::PruneLog => "an entry of the prune log",
            FileKind::Checkpoint => "a checkpoint",
            FileKind::Records => "records",
            FileKind::Run => "a run",
            FileKind::SketchRun => "a run of sketches",
            FileKind::Complete => "a list of complete snapshots",
            FileKind::Opened => "what opened a repository",
            FileKind::Signed => "a signed file",
            FileKind::Writer => "a writer",
            FileKind::Revocation => "a revocation",
            FileKind::Seen => "a list of snapshots that were seen",
        })
    }
}
