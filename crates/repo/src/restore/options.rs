//! What to restore and how, and what was done.

use crate::options::setters;

/// What to do where something exists already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Stop before anything is written.
    #[default]
    Refuse,
    /// Make it as in the snapshot; bytes that are right already are not written again.
    Always,
    /// The same, but take the contents of a file with the right size and mtime as right without
    /// reading it.
    IfChanged,
    /// Leave it.
    Never,
}

/// What to restore and how.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// What to do where something exists.
    pub overwrite: Overwrite,
    /// Restore only what matches one of these [`Patterns`], and what is below. Paths are those of
    /// the snapshot.
    pub include: Vec<String>,
    /// Leave out what matches one of these.
    pub exclude: Vec<String>,
    /// Afterwards, read everything back from the disk and compare.
    pub verify: bool,
    /// Keep what is left of a file that is damaged in the repository: beside its place, as
    /// `NAME.damaged`, with zeros for what is lost. It counts as failed.
    pub keep_damaged: bool,
    /// Give files to the recorded numeric owners, even if names say otherwise here.
    pub numeric_ids: bool,
    /// Threads; the number of cores if none. Fewer, if the memory budget has no room for what each
    /// needs.
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

/// What a restore did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreSummary {
    /// Files restored (or that would be).
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symlinks, FIFOs, devices.
    pub others: u64,
    /// Bytes of restored files.
    pub bytes: u64,
    /// Bytes that had to be written; the rest was there.
    pub bytes_written: u64,
    /// Files and others left alone because something was there.
    pub kept: u64,
    /// What could not be restored, and include patterns that match nothing; each was reported.
    pub failed: u64,
    /// Of these, files of which something was kept: see [`RestoreOptions::keep_damaged`].
    pub damaged: u64,
    /// Files that [`RestoreOptions::verify`] read back and found right.
    pub verified: u64,
}

/// What a restore would do about something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {
    /// Nothing is there: it would be made.
    Write,
    /// What is there would be made as in the snapshot.
    Replace,
    /// What is there would stay, but perhaps for its attributes.
    Keep,
}
