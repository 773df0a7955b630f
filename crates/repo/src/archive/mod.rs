//! Archives of a part of a snapshot, written to a stream: `ibid dump --archive`.
//!
//! Entries are written in the order of the tree, and contents chunk by chunk, each verified. What an
//! archive needs to remember of earlier entries (first names of hard links, the directory of a zip
//! file) goes to temporary files when it is much. So memory is bounded however many files there are.
//!
//! An archive that can't be completed gets no end: programs that read it then report that it is cut
//! short, whatever became of the error.

mod contents;
mod tar;
#[cfg(test)]
mod tests;
mod zip;

use std::io::{Error as IoError, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use contents::Contents;
use ibid_format::content::Content;
use ibid_format::tree::{EntryKind, TreeEntry};

use crate::index::IdMap;
use crate::read::ChunkReader;
use crate::scratch::{Scratch, Texts, inode_id};
use crate::tree::{Found, PLANNED_BYTES, PLANNED_CHUNKS, PlannedFrames, PlannedItems, TreeStep, TreeWalk, clean};
use crate::{Error, ProgressCounters, Repository, Result, SnapshotInfo, SnapshotPath, Warning};

/// Format of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArchiveFormat {
    /// POSIX tar (pax), with everything that a restore gives but sockets and holes.
    Tar,
    /// Zip with deflated files. It has names, contents, symlinks, modes, owners and times in seconds.
    /// Each name of a file is a file of its own; devices, FIFOs and sockets are left out.
    Zip,
}

/// What an archive has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchiveSummary {
    /// Files, each hard link counted.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symlinks, devices and FIFOs.
    pub others: u64,
    /// Bytes of files.
    pub bytes: u64,
    /// Entries that the format has no form for; each was reported as [`Warning::Skipped`].
    pub left_out: u64,
}

/// An archive that is being written.
enum Writer<'a> {
    Tar(tar::TarWriter<'a>),
    Zip(Box<zip::ZipWriter<&'a mut dyn Write>>),
    /// Nothing is written: what would be read is planned.
    None,
}

/// Why an entry was not written.
enum Unwritten {
    /// The output failed, or the contents could not be read: then [`Contents::failure`] says why.
    Failed(IoError),
    /// An error of this library.
    Error(Error),
    /// The format has no form for it.
    NoForm(&'static str),
}

impl From<IoError> for Unwritten {
    fn from(error: IoError) -> Unwritten {
        Unwritten::Failed(error)
    }
}

impl From<Error> for Unwritten {
    fn from(error: Error) -> Unwritten {
        Unwritten::Error(error)
    }
}

impl Repository {
    /// Writes an archive to `out`: of everything in the directory at a path of a snapshot, or of the
    /// one file there. Names in the archive are relative to that directory, which is not in it itself.
    ///
    /// Entries that the format has no form for are reported to the monitor, counted, and left out.
    ///
    /// # Errors
    /// [`Error::NoSuchPath`]; [`Error::Archived`] if something must be [thawed](Repository::thaw) first:
    /// [`plan_archive`](Repository::plan_archive) tells before; damage; [`Error::Pipe`] if `out` fails;
    /// [`Error::Interrupted`]. The archive then has no end, and programs that read it report that.
    pub fn archive<'a>(
        &self,
        at: impl Into<SnapshotPath<'a>>,
        format: ArchiveFormat,
        mut out: impl Write,
    ) -> Result<ArchiveSummary> {
        let at = at.into();
        self.refuse_archived(|rehearsal| rehearsal.plan_archive(at.clone()))?;
        let written = self.write_archive(&at, format, &mut out);
        let summary = self.counting_archived(written, |rehearsal| rehearsal.plan_archive(at))?;
        out.flush().map_err(failed_write)?;
        Ok(summary)
    }

    /// Walks what [`archive`](Repository::archive) would write, and writes nothing. In a
    /// [rehearsal](Repository::rehearsing), that counts what it would read.
    ///
    /// # Errors
    /// Those of an archive.
    pub fn plan_archive<'a>(&self, at: impl Into<SnapshotPath<'a>>) -> Result<()> {
        let (trees, loaded) = (self.tree_reader()?, self.loaded()?);
        let data = match self.files.rehearsal.is_some() {
            true => self.bulk_reader_ahead(&loaded),
            false => self.bulk_reader(&loaded),
        };
        let at = at.into();
        let mut archive = self.archiving(&at, &trees, &data, Writer::None);
        archive.all(&at)?;
        data.rehearse_bases(&self.monitor)
    }

    fn archiving<'a>(
        &'a self,
        at: &'a SnapshotPath<'a>,
        trees: &'a ChunkReader<'a>,
        data: &'a ChunkReader<'a>,
        writer: Writer<'a>,
    ) -> Archive<'a> {
        Archive {
            repository: self,
            info: at.snapshot,
            trees,
            data,
            first_names: FirstNames::new(&self.scratch()),
            writer,
            summary: ArchiveSummary::default(),
        }
    }

    fn write_archive(
        &self,
        at: &SnapshotPath<'_>,
        format: ArchiveFormat,
        out: &mut dyn Write,
    ) -> Result<ArchiveSummary> {
        let trees = self.tree_reader()?;
        let loaded = self.loaded()?;
        let data = self.bulk_reader_ahead(&loaded);
        let writer = match format {
            ArchiveFormat::Tar => Writer::Tar(tar::TarWriter::new(out)),
            ArchiveFormat::Zip => Writer::Zip(Box::new(zip::ZipWriter::new(out, &self.scratch()))),
        };
        let mut archive = self.archiving(at, &trees, &data, writer);
        data.while_fetching(|| archive.all(at))?;
        let summary = archive.summary;
        match archive.writer {
            Writer::Tar(tar) => tar.finish().map_err(failed_write)?,
            Writer::Zip(zip) => zip.finish()?,
            Writer::None => {}
        }
        Ok(summary)
    }
}

struct Archive<'a> {
    repository: &'a Repository,
    info: &'a SnapshotInfo,
    trees: &'a ChunkReader<'a>,
    data: &'a ChunkReader<'a>,
    first_names: FirstNames,
    writer: Writer<'a>,
    summary: ArchiveSummary,
}

/// An entry that is to be written.
struct Coming {
    /// Its path below the directory that is written.
    path: PathBuf,
    entry: Box<TreeEntry>,
}

/// Entries whose frames are planned.
#[derive(Default)]
struct Group<'a> {
    entries: Vec<Coming>,
    bytes: u64,
    items: usize,
    /// Released with the group.
    frames: Option<PlannedFrames<'a>>,
}

impl<'a> Archive<'a> {
    fn all(&mut self, at: &SnapshotPath<'_>) -> Result<()> {
        let base = clean(&at.path);
        let listing = match self.repository.find(self.trees, at)? {
            Found::Root(listing) => listing,
            Found::Entry(entry) => match entry.kind {
                EntryKind::Directory(listing) => listing,
                _ => return self.entry(&base, &entry.name, &entry),
            },
        };
        let mut walk = TreeWalk::new(self.trees, &listing);
        let (mut first, mut second) = (Group::default(), Group::default());
        let result = loop {
            let step = match walk.next() {
                None => break Ok(()),
                Some(Err(error)) => break Err(error),
                Some(Ok(TreeStep::Leave)) => continue,
                Some(Ok(TreeStep::Entry(entry))) => entry,
            };
            if let EntryKind::Directory(listing) = &step.kind {
                walk.descend(listing);
            }
            second.push(walk.path().to_path_buf(), step);
            if !self.data.fetches_ahead() || second.is_full() {
                second.plan(self.data);
                self.group(&base, &first)?;
                first = std::mem::take(&mut second);
            }
        };
        second.plan(self.data);
        self.group(&base, &first)?;
        self.group(&base, &second)?;
        result
    }

    fn group(&mut self, base: &Path, group: &Group<'a>) -> Result<()> {
        for Coming { path, entry } in &group.entries {
            self.repository.monitor.check_cancelled()?;
            if let (Writer::None, EntryKind::File(content)) = (&self.writer, &entry.kind)
                && is_planned_in_group(content)
            {
                continue;
            }
            self.entry(&base.join(path), path.as_os_str().as_bytes(), entry)?;
        }
        Ok(())
    }

    /// Writes one entry under `name`. `path` is its path in the snapshot, for messages.
    fn entry(&mut self, path: &Path, name: &[u8], entry: &TreeEntry) -> Result<()> {
        let content = match &entry.kind {
            EntryKind::File(content) => Some(content),
            _ => None,
        };
        if let Writer::None = self.writer {
            return content.map_or(Ok(()), |content| self.plan(content));
        }
        let mut contents =
            content.map(|content| Contents::new(self.trees, self.data, content, &self.repository.monitor));
        let written = match &mut self.writer {
            Writer::Tar(tar) => self
                .first_names
                .first(entry, name)
                .map_err(Unwritten::from)
                .and_then(|first| tar.add(name, entry, &self.info.snapshot, first.as_deref(), contents.as_mut())),
            Writer::Zip(zip) => zip.add(name, entry, contents.as_mut()),
            Writer::None => Ok(()),
        };
        match written {
            Ok(()) => {}
            Err(Unwritten::Error(error)) => return Err(error),
            Err(Unwritten::Failed(error)) => {
                return Err(contents
                    .and_then(|contents| contents.failure)
                    .unwrap_or_else(|| failed_write(error)));
            }
            Err(Unwritten::NoForm(why)) => {
                self.summary.left_out += 1;
                let error = Error::local("archive", path, IoError::other(why));
                self.repository.monitor.warn(Warning::Skipped {
                    path: Path::new("/").join(path),
                    error,
                });
                return Ok(());
            }
        }
        match &entry.kind {
            EntryKind::File(content) => {
                self.summary.files += 1;
                self.summary.bytes += content.length;
                ProgressCounters::add(&self.repository.monitor.counters.files, 1);
            }
            EntryKind::Directory(_) => self.summary.directories += 1,
            _ => self.summary.others += 1,
        }
        Ok(())
    }

    /// Plans the frames of a file that is not planned with others.
    fn plan(&self, content: &Content) -> Result<()> {
        for item in PlannedItems::new(self.trees, self.data, content, 0..u64::MAX) {
            self.repository.monitor.check_cancelled()?;
            item?;
        }
        Ok(())
    }
}

impl<'a> Group<'a> {
    fn push(&mut self, path: PathBuf, entry: Box<TreeEntry>) {
        if let EntryKind::File(content) = &entry.kind {
            self.bytes = self.bytes.saturating_add(content.length);
            self.items += content.items.len();
        }
        self.entries.push(Coming { path, entry });
    }

    fn is_full(&self) -> bool {
        const ENTRIES_MAX: usize = 256;
        self.entries.len() >= ENTRIES_MAX || self.bytes >= PLANNED_BYTES || self.items >= PLANNED_CHUNKS
    }

    /// Plans the frames of the files, but for those of large ones, which are planned while they are written.
    fn plan(&mut self, data: &'a ChunkReader<'a>) {
        let contents = self.entries.iter().filter_map(|coming| match &coming.entry.kind {
            EntryKind::File(content) if is_planned_in_group(content) => Some(content),
            _ => None,
        });
        self.frames = Some(PlannedFrames::new(data, contents.flat_map(|content| &content.items)));
    }
}

/// Returns whether the frames of a file are planned with those of the files beside it.
fn is_planned_in_group(content: &Content) -> bool {
    content.depth == 0 && content.length <= PLANNED_BYTES
}

/// The names under which files with several names were written first.
struct FirstNames {
    scratch: Scratch,
    numbers: IdMap,
    names: Texts,
}

impl FirstNames {
    fn new(scratch: &Scratch) -> FirstNames {
        FirstNames {
            scratch: scratch.clone(),
            numbers: IdMap::new(scratch),
            names: Texts::new(scratch),
        }
    }

    /// Returns the name under which this file was written first; `None` if this is the first.
    fn first(&mut self, entry: &TreeEntry, name: &[u8]) -> Result<Option<Vec<u8>>> {
        // No archive has sockets.
        let (Some(device), true) = (entry.hard_link_device, !matches!(entry.kind, EntryKind::Socket)) else {
            return Ok(None);
        };
        let id = inode_id(&self.scratch, (device, entry.inode));
        if let Some(number) = self.numbers.get(id)? {
            return Ok(Some(self.names.get(number)?.0));
        }
        self.numbers.insert(id, self.names.add(name)?)?;
        Ok(None)
    }
}

/// Returns the name of an owner in a list of a snapshot.
fn owner_name(names: &[(u32, Vec<u8>)], id: u32) -> Option<&[u8]> {
    let at = names.binary_search_by_key(&id, |(id, _)| *id).ok()?;
    Some(&names[at].1)
}

/// Returns a name in an archive, with a slash after directories.
fn with_slash(name: &[u8], entry: &TreeEntry) -> Vec<u8> {
    let slash: &[u8] = match entry.kind {
        EntryKind::Directory(_) => b"/",
        _ => b"",
    };
    [name, slash].concat()
}

fn failed_write(source: IoError) -> Error {
    Error::Pipe {
        action: "write the archive",
        source,
    }
}
