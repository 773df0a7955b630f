//! What to back up, and how.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use ibid_format::tree::Time;

use crate::options::setters;
use crate::source::Excludes;

/// How hard to compress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// The fastest of four settings of zstd, around its levels 1 to 3, that is about the smallest on
    /// a sample of the data's own frames.
    #[default]
    Auto,
    /// Not at all.
    Off,
    /// zstd at this level, 1–22.
    Level(i32),
}

/// Whether chunks that resemble stored ones are stored as deltas against them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Similarity {
    /// Where that makes them smaller.
    #[default]
    Auto,
    /// Never.
    Off,
    /// As [`Auto`](Similarity::Auto), but look for similar chunks in all data, even where it does
    /// not compress or has gained nothing before. Least is stored, and it takes longest.
    Max,
}

/// Whether large files are cut at the boundaries that the repository suggests: after a known chunk,
/// at the sizes of the chunks that were stored after it (RapidCDC §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hints {
    /// If looking for boundaries takes longer than fingerprinting, with this chunker on this
    /// machine.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Always.
    Always,
}

/// A stream to back up as one file.
pub struct Stream {
    pub(super) name: Vec<u8>,
    pub(super) reader: Box<dyn Read + Send + Sync>,
}

impl Stream {
    /// A stream that becomes the file `name` in the root of the snapshot.
    ///
    /// An error of `reader` ends the backup. [`Interrupted`](std::io::ErrorKind::Interrupted) only
    /// makes the backup look whether it should stop, so a reader that may wait for long should
    /// return that now and then.
    pub fn new(name: impl Into<OsString>, reader: impl Read + Send + Sync + 'static) -> Stream {
        Stream {
            name: name.into().into_vec(),
            reader: Box::new(reader),
        }
    }
}

/// What to back up and how.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BackupOptions {
    /// Files and directories. A block device named here is read like a file.
    pub paths: Vec<PathBuf>,
    /// What to leave out.
    pub excludes: Excludes,
    /// Labels.
    pub tags: Vec<String>,
    /// The machine's name to record; this machine's if none.
    pub host: Option<String>,
    /// When the backup was made, to record; now if none.
    pub time: Option<Time>,
    /// The program's name and version, to record.
    pub program: String,
    /// Read every file, even those that look unchanged.
    pub force: bool,
    /// The snapshot to compare with (see [`Repository::snapshot`](crate::Repository::snapshot));
    /// the latest of the same host and paths if none.
    pub parent: Option<String>,
    /// Do all but write.
    pub dry_run: bool,
    /// How hard to compress.
    pub compression: Compression,
    /// Whether chunks that resemble stored ones are stored as deltas. Without compression, none are.
    pub similarity: Similarity,
    /// Bytes of frames that may be read back as bases of deltas, or to sketch them, if the storage is
    /// not a folder of this machine; 256 MiB if none. Frames that are being read when the limit is
    /// reached come on top.
    pub remote_reads: Option<u64>,
    /// Whether large files are cut where the repository suggests.
    pub hints: Hints,
    /// Count files and bytes beside the work, so that progress can show how much is left.
    pub estimate: bool,
    /// Threads that read, fingerprint and compress; the number of cores if none.
    pub threads: Option<usize>,
}

setters!(BackupOptions {
    excludes: Excludes,
    force: bool,
    dry_run: bool,
    compression: Compression,
    similarity: Similarity,
    remote_reads: Option<u64>,
    hints: Hints,
    estimate: bool,
    threads: Option<usize>,
} into {
    paths: Vec<PathBuf>,
    tags: Vec<String>,
    host: Option<String>,
    time: Option<Time>,
    program: String,
    parent: Option<String>,
});

impl BackupOptions {
    /// Adds a path to those that are backed up.
    #[must_use]
    pub fn path(mut self, path: impl Into<PathBuf>) -> BackupOptions {
        self.paths.push(path.into());
        self
    }
}

/// See [`BackupOptions::remote_reads`].
pub(super) const REMOTE_READS: u64 = 256 << 20;
