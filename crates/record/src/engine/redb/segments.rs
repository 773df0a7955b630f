//! Segments: the files of the log of commits, in which large values stay (`docs/format/records.md`, "Log of commits").

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use ibid_format::record::ValuePlace;
use redb::StorageBackend;

use super::{VALUE_BYTES_MAX, beside};
use crate::engine::EngineError;

/// The number of the one file that earlier versions wrote their log into.
pub(super) const EARLIER_LOG: u64 = 0;
/// Each thread keeps a buffer for values up to this length, bytes. With 1 MiB, a primary that six replicas ask took
/// 1 to 2 MiB more of a budget of 16.
const BUFFER_BYTES_MAX: usize = 256 << 10;

/// The files of an engine's segments, each with a number.
///
/// [`Redb::open`](super::Redb::open) has them in a folder. Tests that simulate power failures have their own.
pub trait SegmentFiles: Debug + Send + Sync {
    /// Makes an empty file, in place of one that is there. A crash does not take its name away any more.
    ///
    /// # Errors
    /// Those of the storage.
    fn create(&self, number: u64) -> io::Result<Arc<dyn StorageBackend>>;

    /// Opens a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is none; others of the storage.
    fn open(&self, number: u64) -> io::Result<Arc<dyn StorageBackend>>;

    /// Removes a file for good if it is there. Whoever has it open can still read it.
    ///
    /// # Errors
    /// Those of the storage.
    fn remove(&self, number: u64) -> io::Result<()>;

    /// Returns the numbers of all files.
    ///
    /// # Errors
    /// Those of the storage.
    fn numbers(&self) -> io::Result<Vec<u64>>;
}

/// Segments in a folder beside redb's file, and the log of earlier versions.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The log that earlier versions wrote.
    earlier: PathBuf,
}

impl Folder {
    /// Returns the segments of redb's file at `path`.
    pub(super) fn beside(path: &Path) -> Self {
        Folder {
            path: beside(path, ".segments"),
            earlier: beside(path, ".log"),
        }
    }

    fn file(&self, number: u64) -> PathBuf {
        match number {
            EARLIER_LOG => self.earlier.clone(),
            number => self.path.join(number.to_string()),
        }
    }

    /// Opens a file that is only read.
    pub(super) fn open_read_only(&self, number: u64) -> io::Result<Arc<dyn StorageBackend>> {
        self.opened(number, OpenOptions::new().read(true))
    }

    fn opened(&self, number: u64, options: &OpenOptions) -> io::Result<Arc<dyn StorageBackend>> {
        Ok(Arc::new(SegmentFile(options.open(self.file(number))?)))
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

impl SegmentFiles for Folder {
    fn create(&self, number: u64) -> io::Result<Arc<dyn StorageBackend>> {
        if !self.path.is_dir() {
            fs::create_dir(&self.path)?;
            let parent = self.path.parent().filter(|parent| *parent != Path::new(""));
            sync_folder(parent.unwrap_or(Path::new(".")))?;
        }
        let mut options = OpenOptions::new();
        let file = self.opened(number, options.read(true).write(true).create(true).truncate(true))?;
        sync_folder(&self.path)?;
        Ok(file)
    }

    fn open(&self, number: u64) -> io::Result<Arc<dyn StorageBackend>> {
        self.opened(number, OpenOptions::new().read(true).write(true))
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        let path = self.file(number);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => match path.parent().filter(|parent| *parent != Path::new("")) {
                Some(parent) if !parent.exists() => Ok(()),
                parent => sync_folder(parent.unwrap_or(Path::new("."))),
            },
        }
    }

    fn numbers(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        if self.earlier.try_exists()? {
            numbers.push(EARLIER_LOG);
        }
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(numbers),
            entries => entries?,
        };
        for entry in entries {
            // Files of other names are none of the engine's, and stay.
            numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// The file of a segment. It needs no lock of its own: redb's file has one.
#[derive(Debug)]
struct SegmentFile(File);

impl StorageBackend for SegmentFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}

/// Segments that are open for reading. Whoever holds a set can read all of its segments, even if they are removed.
pub(super) type SegmentSet = BTreeMap<u64, Arc<dyn StorageBackend>>;

/// The segments of an engine.
pub(super) struct Segments {
    files: Box<dyn SegmentFiles>,
    open: RwLock<Arc<SegmentSet>>,
    /// redb's file, for messages.
    path: PathBuf,
}

impl Segments {
    pub(super) fn new(files: Box<dyn SegmentFiles>, path: &Path) -> Self {
        Segments {
            files,
            open: RwLock::default(),
            path: path.to_owned(),
        }
    }

    /// Returns those that are open now.
    pub(super) fn set(&self) -> Arc<SegmentSet> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change_set(&self, change: impl FnOnce(&mut SegmentSet)) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let mut set = SegmentSet::clone(&open);
        change(&mut set);
        *open = Arc::new(set);
    }

    /// Makes an empty segment, and adds it.
    pub(super) fn create(&self, number: u64) -> Result<Arc<dyn StorageBackend>, EngineError> {
        let file = self.files.create(number);
        let file = file.map_err(|source| self.failed("create a segment of", source))?;
        self.change_set(|set| drop(set.insert(number, file.clone())));
        Ok(file)
    }

    /// Opens a segment, and adds it; [`None`] if it is missing.
    pub(super) fn open(&self, number: u64) -> Result<Option<Arc<dyn StorageBackend>>, EngineError> {
        match self.files.open(number) {
            Ok(file) => {
                self.change_set(|set| drop(set.insert(number, file.clone())));
                Ok(Some(file))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("open a segment of", error)),
        }
    }

    /// Removes a segment that nothing needs any more.
    pub(super) fn remove(&self, number: u64) -> Result<(), EngineError> {
        self.change_set(|set| drop(set.remove(&number)));
        let removed = self.files.remove(number);
        removed.map_err(|source| self.failed("remove a segment of", source))
    }

    /// Returns the numbers of all files that are there.
    pub(super) fn numbers(&self) -> Result<Vec<u64>, EngineError> {
        let numbers = self.files.numbers();
        numbers.map_err(|source| self.failed("list the segments of", source))
    }

    /// Returns a number behind those of all files that are there.
    pub(super) fn next_number(&self) -> Result<u64, EngineError> {
        let last = self.numbers()?.last().copied();
        Ok(last.unwrap_or(EARLIER_LOG).saturating_add(1))
    }

    fn failed(&self, operation: &'static str, source: io::Error) -> EngineError {
        EngineError::io(operation, &self.path, source)
    }
}

thread_local! {
    /// Values of segments are read into it, so that a read allocates nothing.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Shows a value of a segment. For one that is not there it shows nothing.
pub(super) fn show(
    set: &SegmentSet,
    place: ValuePlace,
    path: &Path,
    found: &mut dyn FnMut(&[u8]),
) -> Result<(), EngineError> {
    let mut buffer = BUFFER.take();
    let length = read(set, place, path, &mut buffer)?;
    found(&buffer[..length]);
    if buffer.len() <= BUFFER_BYTES_MAX {
        BUFFER.set(buffer);
    }
    Ok(())
}

/// Reads a value of a segment to the beginning of the buffer, which may stay longer. Returns how much of it there is.
fn read(set: &SegmentSet, place: ValuePlace, path: &Path, buffer: &mut Vec<u8>) -> Result<usize, EngineError> {
    let Some(segment) = set.get(&place.segment) else {
        return Ok(0);
    };
    let failed = |source| EngineError::io("read a segment of", path, source);
    let Some(length) = usize::try_from(place.length)
        .ok()
        .filter(|length| *length <= VALUE_BYTES_MAX)
    else {
        return Ok(0); // no value is as long
    };
    if length > BUFFER_BYTES_MAX && length > buffer.len() {
        // Nothing is allocated for a damaged place.
        let there = segment.len().map_err(failed)?;
        if place.offset.saturating_add(place.length) > there {
            return Ok(0);
        }
    }
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    match segment.read(place.offset, &mut buffer[..length]) {
        Ok(()) => Ok(length),
        // What the place says is not there.
        Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput) => Ok(0),
        Err(error) => Err(failed(error)),
    }
}
