//! Options and summary of a restore.

use crate::options::setters;

/// How to treat files that already exist in the destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Refuse to start if anything would be overwritten.
    #[default]
    Refuse,
    /// Restore the file as in the snapshot. Bytes that already match are not written again.
    Always,
    /// Like `Always`, but assume that a file with the same size and mtime has the right contents,
    /// without reading it.
    IfChanged,
    /// Leave the existing file unchanged.
    Never,
}

/// Options of a restore.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// How to treat files that already exist.
    pub overwrite: Overwrite,
    /// Restore only entries that match one of these [`Patterns`](crate::Patterns), with everything below them.
    /// Patterns apply to paths in the snapshot.
    pub include: Vec<String>,
    /// Leave out entries that match one of these.
    pub exclude: Vec<String>,
    /// After writing, read every file back from the disk and compare.
    pub verify: bool,
    /// Keep the readable parts of a file that is damaged in the repository: next to its place, as
    /// `NAME.damaged`, with zeros for lost bytes. The file counts as failed.
    pub keep_damaged: bool,
    /// Restore recorded numeric owners, even if the recorded names have other numbers on this
    /// machine.
    pub numeric_ids: bool,
    /// Number of threads; the number of cores if none. Fewer are used if the memory budget has no
    /// room for their buffers.
    pub threads: Option<usize>,
}

setters!(RestoreOptions {
    overwrite: Overwrite,
    verify: bool,
    keep_damaged: bool,
    numeric_ids: bool,
    threads: Option<usize>,
} into {
    include: Vec<String>,
    exclude: Vec<String>,
});

/// Counts of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreSummary {
    /// Files restored, or that a preview would restore.
    pub files: u64,
    /// Directories restored.
    pub directories: u64,
    /// Symlinks, FIFOs, devices.
    pub others: u64,
    /// Bytes of restored files.
    pub bytes: u64,
    /// Bytes written; the others were already there.
    pub bytes_written: u64,
    /// Files and special files left alone because something existed in their place.
    pub kept: u64,
    /// Entries that could not be restored, and include patterns that match nothing. Each was
    /// reported.
    pub failed: u64,
    /// Failed files whose readable parts were kept: see [`RestoreOptions::keep_damaged`].
    pub damaged: u64,
    /// Files that [`RestoreOptions::verify`] read back and found correct.
    pub verified: u64,
    /// Restored entries that belong to this user instead of their recorded owner and group, because
    /// only root can set these. Set-user-ID and set-group-ID bits of them were left out.
    pub owners_lost: u64,
    /// Restored files and directories that lack some of their inode flags, because this user may not set them, or
    /// the file system does not have them.
    pub inode_flags_lost: u64,
}

/// What a restore would do to one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {
    /// The entry does not exist and would be created.
    Write,
    /// The existing entry would be replaced by the snapshot's.
    Replace,
    /// The existing entry would be kept; its attributes might change.
    Keep,
}
