//! Visiting the entries of a snapshot.

use std::ffi::OsStr;
use std::io::Write;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ibid_format::content::{Content, Item};
use ibid_format::tree::{EntryKind, TreeEntry};

use super::planned::PlannedItems;
use super::recipe::Entries;
use super::walk::{TreeStep, TreeWalk};
use crate::read::ChunkReader;
use crate::{Error, Repository, Result, SnapshotPath};

/// A visitor's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Continue; enter the directory, if the entry is one.
    Descend,
    /// Continue without entering this directory.
    Skip,
}

/// The entry at a path of a snapshot.
pub(crate) enum Found {
    /// The root, which has no entry of its own.
    Root(Content),
    Entry(Box<TreeEntry>),
}

/// Returns a path inside a snapshot without a leading slash, double slashes and `.`.
pub(crate) fn clean(path: &Path) -> PathBuf {
    components(path).map(OsStr::from_bytes).collect()
}

/// Returns the names in a path inside a snapshot.
fn components(path: &Path) -> impl Iterator<Item = &[u8]> {
    path.as_os_str()
        .as_bytes()
        .split(|&byte| byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
}

impl Repository {
    /// Returns the entry at a path in a snapshot.
    pub(crate) fn find(&self, reader: &ChunkReader<'_>, at: &SnapshotPath<'_>) -> Result<Found> {
        let SnapshotPath { snapshot: info, path } = at;
        let missing = || Error::NoSuchPath {
            snapshot: info.short_id(),
            path: path.to_path_buf(),
        };
        let mut found = Found::Root(info.snapshot.root.clone());
        for name in components(path) {
            let listing = match &found {
                Found::Root(listing) => listing,
                Found::Entry(entry) => match &entry.kind {
                    EntryKind::Directory(listing) => listing,
                    _ => return Err(missing()),
                },
            };
            let mut next = None;
            for entry in Entries::new(reader, listing) {
                let entry = entry?;
                if entry.name.as_slice() >= name {
                    next = (entry.name == name).then_some(entry);
                    break;
                }
            }
            found = Found::Entry(Box::new(next.ok_or_else(missing)?));
        }
        Ok(found)
    }

    /// Visits the entry at `path` of a snapshot and everything below it, parents first, in order of
    /// names. The visitor gets paths from the snapshot's root, and decides whether to enter a
    /// directory.
    ///
    /// # Errors
    /// [`Error::NoSuchPath`]; damage; the visitor's own errors.
    pub fn visit<'a>(
        &self,
        at: impl Into<SnapshotPath<'a>>,
        mut visitor: impl FnMut(&Path, &TreeEntry) -> Result<Visit>,
    ) -> Result<()> {
        let at = at.into();
        let reader = self.tree_reader()?;
        let base = clean(&at.path);
        let listing = match self.find(&reader, &at)? {
            Found::Root(listing) => listing,
            Found::Entry(entry) => {
                let visit = visitor(&base, &entry)?;
                match (&entry.kind, visit) {
                    (EntryKind::Directory(listing), Visit::Descend) => listing.clone(),
                    _ => return Ok(()),
                }
            }
        };
        let mut walk = TreeWalk::new(&reader, &listing);
        while let Some(step) = walk.next() {
            self.monitor.check_cancelled()?;
            if let TreeStep::Entry(entry) = step? {
                let visit = visitor(&base.join(walk.path()), &entry)?;
                if let (EntryKind::Directory(listing), Visit::Descend) = (&entry.kind, visit) {
                    walk.descend(listing);
                }
            }
        }
        Ok(())
    }

    /// Writes the contents of the file at `path` to `out`; returns the number of bytes. Only
    /// verified bytes are written.
    ///
    /// # Errors
    /// [`Error::NoSuchPath`], [`Error::WrongType`] for anything but a file; [`Error::Archived`] if something must be
    /// [thawed](Repository::thaw) first: [`plan_dump`](Repository::plan_dump) tells before; damage; [`Error::Pipe`].
    pub fn dump<'a>(&self, at: impl Into<SnapshotPath<'a>>, mut out: impl Write) -> Result<u64> {
        let length = self.dump_parts(at, 0..u64::MAX, |part| match part {
            FilePart::Data(bytes) => out.write_all(bytes),
            FilePart::Hole(length) => write_zeros(&mut out, length),
        })?;
        out.flush().map_err(failed_write)?;
        Ok(length)
    }

    /// Passes the bytes of the file at `path` from `range.start` to `range.end`, or to the end of the
    /// file, to `write`, in order. Returns their number. What lies before the range is not read, and
    /// only verified bytes are passed on.
    ///
    /// # Errors
    /// As [`dump`](Repository::dump). An error of `write` becomes [`Error::Pipe`].
    pub fn dump_parts<'a>(
        &self,
        at: impl Into<SnapshotPath<'a>>,
        range: Range<u64>,
        mut write: impl FnMut(FilePart<'_>) -> std::io::Result<()>,
    ) -> Result<u64> {
        let at = at.into();
        let reader = self.tree_reader()?;
        let content = self.file_content(&reader, &at)?;
        self.refuse_archived(|rehearsal| rehearsal.plan_dump(at.clone(), range.clone()))?;
        let loaded = self.loaded()?;
        let data = self.bulk_reader_ahead(&loaded);
        let mut buffer = Vec::new();
        let mut written = 0;
        let dumped = data.while_fetching(|| {
            for item in PlannedItems::new(&reader, &data, &content, range.clone()) {
                self.monitor.check_cancelled()?;
                let (start, item) = item?;
                let wanted = range.start.max(start)..range.end.min(start + item.length());
                let length = wanted.end - wanted.start;
                let passed_on = match item {
                    Item::Hole { .. } => write(FilePart::Hole(length)),
                    Item::Chunk { id, length } => {
                        buffer.clear();
                        data.read(&id, length, &mut buffer)?;
                        let part = (wanted.start - start) as usize..(wanted.end - start) as usize;
                        crate::ProgressCounters::add(&self.monitor.counters.bytes, part.len() as u64);
                        write(FilePart::Data(&buffer[part]))
                    }
                };
                passed_on.map_err(failed_write)?;
                written += length;
            }
            Ok(written)
        });
        self.counting_archived(dumped, |rehearsal| rehearsal.plan_dump(at, range))
    }

    /// Does what [`dump_parts`](Repository::dump_parts) does before it reads contents. In a
    /// [rehearsal](Repository::rehearsing), that counts what it would read.
    ///
    /// # Errors
    /// Those of a dump.
    ///
    /// ```
    /// # use ibid_repo::{Argon2Cost, BackupOptions, InitOptions, MemoryStorage, Repository};
    /// # let storage = std::sync::Arc::new(MemoryStorage::new());
    /// # let init = InitOptions::default().cost(Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 });
    /// let repository = Repository::init(storage, Some(b"secret"), &init)?;
    /// let file = std::fs::canonicalize("src/lib.rs").unwrap();
    /// repository.backup(&BackupOptions::default().path(&file))?;
    /// let latest = repository.snapshots()?.pop().unwrap();
    /// // What would have to be thawed first.
    /// let packs = repository.archived_for(|rehearsal| rehearsal.plan_dump(latest.at(&file), 0..u64::MAX))?;
    /// assert_eq!(packs.waiting().packs, 0);
    /// # Ok::<(), ibid_repo::Error>(())
    /// ```
    pub fn plan_dump<'a>(&self, at: impl Into<SnapshotPath<'a>>, range: Range<u64>) -> Result<()> {
        let reader = self.tree_reader()?;
        let content = self.file_content(&reader, &at.into())?;
        if self.files.rehearsal.is_none() {
            return Ok(());
        }
        let data = self.bulk_reader_ahead(&self.loaded()?);
        for item in PlannedItems::new(&reader, &data, &content, range) {
            self.monitor.check_cancelled()?;
            item?;
        }
        data.rehearse_bases(&self.monitor)
    }

    /// Returns the content of the file at a path in a snapshot.
    fn file_content(&self, reader: &ChunkReader<'_>, at: &SnapshotPath<'_>) -> Result<Content> {
        let wrong = |found| Error::WrongType {
            snapshot: at.snapshot.short_id(),
            path: at.path.to_path_buf(),
            expected: "a file",
            found,
        };
        match self.find(reader, at)? {
            Found::Root(_) => Err(wrong("the root of the snapshot")),
            Found::Entry(entry) => match entry.kind {
                EntryKind::File(content) => Ok(content),
                other => Err(wrong(other.description())),
            },
        }
    }
}

/// A part of a file's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePart<'a> {
    /// These bytes.
    Data(&'a [u8]),
    /// A hole: so many zeros.
    Hole(u64),
}

fn failed_write(source: std::io::Error) -> Error {
    Error::Pipe {
        action: "write the file's contents",
        source,
    }
}

fn write_zeros(out: &mut dyn Write, mut length: u64) -> std::io::Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    while length > 0 {
        let now = length.min(ZEROS.len() as u64);
        out.write_all(&ZEROS[..now as usize])?;
        length -= now;
    }
    Ok(())
}
