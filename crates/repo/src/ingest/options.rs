//! Options of a backup.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use ibid_format::tree::Time;

use crate::ChangedBlocks;
use crate::options::setters;
use crate::source::{Excludes, Filter};
use crate::{Error, Result};

/// Compression of chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Choose between four fast settings of zstd, about its levels 1 to 3, by trying them on
    /// samples of the data.
    #[default]
    Auto,
    /// Do not compress.
    Off,
    /// zstd at this level, 1 to 22.
    Level(i32),
}

/// Storing chunks that resemble stored ones as deltas against them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Similarity {
    /// Store a delta where it is smaller.
    #[default]
    Auto,
    /// Do not store deltas.
    Off,
    /// As [`Auto`](Similarity::Auto), but look for similar chunks in all data, including data that
    /// does not compress and files whose earlier changes resembled nothing. This stores the least
    /// and takes the longest.
    Max,
}

/// Cutting large files at boundaries predicted from the repository: after a known chunk, at the
/// sizes of the chunks that were stored after it (RapidCDC §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hints {
    /// Use hints if, with this chunker on this machine, finding boundaries takes longer than
    /// fingerprinting.
    #[default]
    Auto,
    /// Do not use hints.
    Off,
    /// Always use hints.
    Always,
}

/// How often a backup stores a [checkpoint](crate::Repository::checkpoints), so that an interruption costs
/// little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checkpoints {
    /// After 1 GiB was read or 60 s have passed, or 2 % of all so far if that is more; and not before 100 times
    /// of what the last one took was read.
    #[default]
    Auto,
    /// Store none, not even if the backup is interrupted.
    Off,
    /// After so many bytes were read.
    Every(u64),
}

/// A stream to back up as one file.
pub struct Stream {
    pub(super) name: Vec<u8>,
    pub(super) reader: Box<dyn Read + Send + Sync>,
}

impl Stream {
    /// Creates a stream that becomes the file `name` in the root of the snapshot.
    ///
    /// If `reader` returns an error, the backup fails.
    /// [`Interrupted`](std::io::ErrorKind::Interrupted) is not an error: the backup checks whether
    /// it was cancelled and reads again. A reader that may block for long should return it now and
    /// then.
    pub fn new(name: impl Into<OsString>, reader: impl Read + Send + Sync + 'static) -> Stream {
        Stream {
            name: name.into().into_vec(),
            reader: Box::new(reader),
        }
    }
}

/// Options of a backup.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BackupOptions {
    /// Files and directories to back up. A block device named here is read like a file.
    pub paths: Vec<PathBuf>,
    /// Files to leave out.
    pub excludes: Excludes,
    /// Labels of the snapshot.
    pub tags: Vec<String>,
    /// Host name to record; this machine's if none.
    pub host: Option<String>,
    /// Time of the backup to record; the current time if none.
    pub time: Option<Time>,
    /// Name and version of the calling program, to record.
    pub program: String,
    /// Read every file, even if it looks unchanged.
    pub force: bool,
    /// Snapshot to compare with (see [`Repository::snapshot`](crate::Repository::snapshot)); the
    /// latest of the same host and paths if none.
    pub parent: Option<String>,
    /// What may have changed since the [`parent`](BackupOptions#structfield.parent) in the only path
    /// to back up, which must be a regular file or a block device. Only that is read; the rest is
    /// taken over from the parent. The parent must be given by at least 8 digits of its id, because a
    /// map is relative to one certain snapshot.
    ///
    /// Bytes that have changed and that the map does not name are **wrong in the snapshot**. A backup
    /// without a map reads everything again. [`force`](BackupOptions#structfield.force) does, too,
    /// and ignores the map.
    pub changed_blocks: Option<ChangedBlocks>,
    /// Share of the chunks outside of [`changed_blocks`](BackupOptions#structfield.changed_blocks) to
    /// read and compare all the same, 0 to 1, others each time. If one of them differs, the backup
    /// fails with [`ChangedBlocksError::Wrong`](crate::ChangedBlocksError::Wrong).
    pub verify_unchanged: f64,
    /// Make no snapshot if all that it would hold is as in its parent: names, contents and attributes
    /// of everything in the [`paths`](BackupOptions#structfield.paths), with the times and inode
    /// numbers by which the next backup tells changed files. Attributes of the folders that lead to
    /// the paths do not count. It has no effect on a stream and on a
    /// [`dry_run`](BackupOptions#structfield.dry_run).
    pub skip_if_unchanged: bool,
    /// Do everything except write.
    pub dry_run: bool,
    /// Compression of chunks.
    pub compression: Compression,
    /// Whether to store similar chunks as deltas. Without compression, there are no deltas.
    pub similarity: Similarity,
    /// Bytes of frames that may be read from remote storage, as bases of deltas or to sketch them;
    /// 256 MiB if none. Reads in progress when the limit is reached may exceed it. Local folders
    /// have no limit.
    pub remote_reads: Option<u64>,
    /// Whether to cut large files at predicted boundaries.
    pub hints: Hints,
    /// How often to store a checkpoint. A stream has none.
    pub checkpoints: Checkpoints,
    /// Count files and bytes on a separate thread while the backup runs, so that progress can show
    /// how much is left.
    pub estimate: bool,
    /// Number of threads that read, fingerprint and compress; the number of cores if none.
    pub threads: Option<usize>,
}

setters!(BackupOptions {
    excludes: Excludes,
    force: bool,
    verify_unchanged: f64,
    skip_if_unchanged: bool,
    dry_run: bool,
    compression: Compression,
    similarity: Similarity,
    remote_reads: Option<u64>,
    hints: Hints,
    checkpoints: Checkpoints,
    estimate: bool,
    threads: Option<usize>,
} into {
    paths: Vec<PathBuf>,
    tags: Vec<String>,
    host: Option<String>,
    time: Option<Time>,
    program: String,
    parent: Option<String>,
    changed_blocks: Option<ChangedBlocks>,
});

impl BackupOptions {
    /// Checks what can be checked without a repository: patterns, names, and whether there is anything
    /// to back up at the paths. A backup does so, too; this is for programs that create a repository
    /// first.
    ///
    /// # Errors
    /// [`Error::BadPattern`](crate::Error::BadPattern), [`Error::BadTagName`](crate::Error::BadTagName);
    /// a file of patterns that can't be read; [`Error::NothingToBackUp`](crate::Error::NothingToBackUp)
    /// if none of at least one path exists; [`Error::TooManyPaths`](crate::Error::TooManyPaths).
    pub fn check(&self) -> Result<()> {
        Filter::new(&self.excludes)?;
        let exists = |path: &PathBuf| path.symlink_metadata().is_ok();
        if !self.paths.is_empty() && !self.paths.iter().any(exists) {
            let paths = self.paths.len();
            return Err(Error::NothingToBackUp { paths });
        }
        super::check_paths(&self.paths)
    }

    /// Adds a path to back up.
    #[must_use]
    pub fn path(mut self, path: impl Into<PathBuf>) -> BackupOptions {
        self.paths.push(path.into());
        self
    }
}

/// Default of [`BackupOptions::remote_reads`], bytes.
pub(super) const REMOTE_READS: u64 = 256 << 20;
