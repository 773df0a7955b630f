//! What to back up, and how.

use std::io::Read;
use std::path::PathBuf;

use ibid_format::tree::Time;

use crate::source::Excludes;

/// How hard to compress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// One of three ways between zstd's levels 1 and 3: the fastest that is about the smallest on a
    /// sample of the data's own frames.
    #[default]
    Auto,
    /// Not at all.
    Off,
    /// zstd at this level, 1–22.
    Level(i32),
}

/// What to do about data that is like other data, and not the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Similarity {
    /// Store it as the difference from what it is like, where that gains.
    #[default]
    Auto,
    /// Nothing.
    Off,
    /// Look for what is similar in all data, also in such that does not compress, and for more of
    /// it: the least is stored, and it takes longer.
    Max,
}

/// Whether large files are cut where the repository suggests (RapidCDC; paper 003): behind a chunk
/// that is known, at the sizes of the chunks that were stored behind it.
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
    /// The name it gets: one file in the root of the snapshot.
    pub name: Vec<u8>,
    /// Its bytes. An error ends the backup; [`Interrupted`](std::io::ErrorKind::Interrupted) only
    /// makes it look whether it should stop, so a reader that waits for long returns that now
    /// and then.
    pub reader: Box<dyn Read + Send + Sync>,
}

/// What to back up and how.
#[derive(Default)]
pub struct BackupOptions {
    /// Files and directories. A block device named here is read like a file.
    pub paths: Vec<PathBuf>,
    /// A stream, instead of paths.
    pub stream: Option<Stream>,
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
    /// What to do about data that is like other data. Without compression, nothing is done.
    pub similarity: Similarity,
    /// Bytes of frames that may be read back to encode against them, or to find out what they are
    /// like, if the storage is not a folder of this machine: 256 MiB if none. Frames that are
    /// on their way when so many are read come on top.
    pub remote_reads: Option<u64>,
    /// Whether large files are cut where the repository suggests.
    pub hints: Hints,
    /// Count files and bytes beforehand, beside the work, so that progress can tell how much is
    /// left.
    pub estimate: bool,
    /// Threads that read, fingerprint and compress; the number of cores if none.
    pub threads: Option<usize>,
}

/// See [`BackupOptions::remote_reads`].
pub(super) const REMOTE_READS: u64 = 256 << 20;
