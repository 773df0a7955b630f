//! A disk in memory.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ibid_record::engine::{EngineError, Redb, SegmentFiles, StorageBackend};

/// The file of an engine, and the segments of its log, on a disk that loses unsynced writes, or a part of them, at a
/// power failure. It is full after a number of bytes, if one is [set](Self::set_room).
#[derive(Debug, Clone)]
pub(crate) struct Disk(Arc<Mutex<Files>>, Arc<Room>);

/// How many bytes can still be written.
#[derive(Debug)]
struct Room(AtomicU64);

impl Room {
    fn new() -> Arc<Self> {
        Arc::new(Room(AtomicU64::new(u64::MAX)))
    }

    /// Takes room for so many bytes; returns for how many there is some.
    fn take(&self, bytes: usize) -> usize {
        let less = |room: u64| {
            Some(if room == u64::MAX {
                room
            } else {
                room.saturating_sub(bytes as u64)
            })
        };
        let before = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).unwrap();
        bytes.min(usize::try_from(before).unwrap_or(usize::MAX))
    }
}

impl Default for Disk {
    fn default() -> Self {
        Disk(Arc::default(), Room::new())
    }
}

#[derive(Debug, Clone, Default)]
struct Files {
    engine: Arc<File>,
    segments: BTreeMap<u64, Arc<File>>,
}

/// A file, which can be read even after it was removed.
#[derive(Debug, Default)]
struct File(Mutex<Content>);

#[derive(Debug, Clone, Default)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Each write since the last sync with its offset; [`None`] sets the length.
    unsynced: Vec<(u64, Option<Vec<u8>>)>,
}

/// Bytes that are written completely or not at all.
const SECTOR: usize = 512;

/// Does what [`Vec::resize`] does with zeros, which with the little optimisation of tests is a loop over bytes.
fn set_len(bytes: &mut Vec<u8>, length: usize) {
    match length.checked_sub(bytes.len()) {
        Some(more) => bytes.extend_from_slice(&vec![0; more]),
        None => bytes.truncate(length),
    }
}

impl Content {
    /// Returns the file as it is after a power failure.
    fn after_power_failure(&self, below: &mut dyn FnMut(u64) -> u64) -> Content {
        let mut image = self.synced.clone();
        // All unsynced writes survive, or some, or none.
        let part = below(4);
        let mut length = image.len();
        for (at, written) in &self.unsynced {
            let kept = below(3) < part;
            let at = *at as usize;
            match written {
                None => {
                    length = at;
                    if kept {
                        set_len(&mut image, at);
                    }
                }
                Some(bytes) if kept => {
                    let torn = below(8) == 0;
                    let part = below(bytes.len() as u64 + 1) as usize / SECTOR * SECTOR;
                    let kept = if torn { part } else { bytes.len() };
                    if image.len() < at + kept {
                        // Nothing is beyond the end of the file, which had been extended before.
                        set_len(&mut image, length);
                    }
                    image[at..at + kept].copy_from_slice(&bytes[..kept]);
                }
                Some(_) => {}
            }
        }
        Content {
            now: image.clone(),
            synced: image,
            unsynced: Vec::new(),
        }
    }
}

impl File {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap()
    }
}

impl Disk {
    /// Returns a disk with what `change` makes of each file. No file is written meanwhile.
    fn copy(&self, mut change: impl FnMut(&Content) -> Content) -> Disk {
        let files = self.0.lock().unwrap();
        let files_now: Vec<&Arc<File>> = [&files.engine].into_iter().chain(files.segments.values()).collect();
        let contents: Vec<_> = files_now.iter().map(|file| file.content()).collect();
        let mut copies = contents
            .iter()
            .map(|content| Arc::new(File(Mutex::new(change(content)))));
        let engine = copies.next().unwrap();
        let segments = files.segments.keys().copied().zip(copies).collect();
        Disk(Arc::new(Mutex::new(Files { engine, segments })), Room::new())
    }

    /// Says how many bytes can be written until it is full; [`u64::MAX`] for as many as one likes.
    pub(crate) fn set_room(&self, bytes: u64) {
        self.1.0.store(bytes, Ordering::SeqCst);
    }

    /// Returns how many bytes can be written until it is full.
    pub(crate) fn room(&self) -> u64 {
        self.1.0.load(Ordering::SeqCst)
    }

    /// Returns the disk as it is after the process was killed: the operating system still writes all.
    pub(crate) fn after_a_kill(&self) -> Disk {
        self.copy(Content::clone)
    }

    /// Returns the disk as it is after a power failure, which all files meet at the same moment. `below` returns
    /// random numbers below its argument.
    pub(crate) fn after_power_failure(&self, below: &mut dyn FnMut(u64) -> u64) -> Disk {
        self.copy(|content| content.after_power_failure(below))
    }

    /// Returns the length of all files, bytes.
    #[allow(dead_code, reason = "not every test asks for it")]
    pub(crate) fn bytes(&self) -> usize {
        let files = self.0.lock().unwrap();
        let all = [&files.engine].into_iter().chain(files.segments.values());
        all.map(|file| file.content().now.len()).sum()
    }

    pub(crate) fn engine(&self, cache_bytes: usize) -> Redb {
        self.slow_engine(cache_bytes, Duration::ZERO)
    }

    /// Opens an engine, of whose file a sync takes so long.
    pub(crate) fn slow_engine(&self, cache_bytes: usize, sync: Duration) -> Redb {
        self.try_engine(cache_bytes, sync).unwrap()
    }

    /// Like [`slow_engine`](Self::slow_engine), where opening may fail.
    pub(crate) fn try_engine(&self, cache_bytes: usize, sync: Duration) -> Result<Redb, EngineError> {
        let engine = self.0.lock().unwrap().engine.clone();
        Redb::open_on(self.file(engine, sync), self.clone(), Path::new("disk"), cache_bytes)
    }

    fn file(&self, file: Arc<File>, sync: Duration) -> DiskFile {
        DiskFile(file, sync, self.1.clone())
    }
}

impl SegmentFiles for Disk {
    fn create(&self, number: u64) -> io::Result<Arc<dyn StorageBackend>> {
        let file: Arc<File> = Arc::default();
        self.0.lock().unwrap().segments.insert(number, file.clone());
        Ok(Arc::new(self.file(file, Duration::ZERO)))
    }

    fn open(&self, number: u64) -> io::Result<Arc<dyn StorageBackend>> {
        let file = self.0.lock().unwrap().segments.get(&number).cloned();
        let file = file.ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(self.file(file, Duration::ZERO)))
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        self.0.lock().unwrap().segments.remove(&number);
        Ok(())
    }

    fn numbers(&self) -> io::Result<Vec<u64>> {
        Ok(self.0.lock().unwrap().segments.keys().copied().collect())
    }
}

/// A file of the disk, how long a sync of it takes, and the room on the disk.
#[derive(Debug)]
struct DiskFile(Arc<File>, Duration, Arc<Room>);

impl DiskFile {
    fn with<T>(&self, work: impl FnOnce(&mut Content) -> T) -> T {
        work(&mut self.0.content())
    }
}

impl StorageBackend for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.with(|content| content.now.len() as u64))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|content| {
            let from = offset as usize;
            let found = content.now.get(from..from + out.len());
            out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|content| {
            set_len(&mut content.now, len as usize);
            content.unsynced.push((len, None));
        });
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if !self.1.is_zero() {
            std::thread::sleep(self.1);
        }
        self.with(|content| {
            for (at, written) in std::mem::take(&mut content.unsynced) {
                let at = at as usize;
                match written {
                    None => set_len(&mut content.synced, at),
                    Some(bytes) => content.synced[at..at + bytes.len()].copy_from_slice(&bytes),
                }
            }
        });
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with(|content| {
            let (at, fits) = (offset as usize, self.2.take(data.len()));
            let (data, is_full) = (&data[..fits], fits < data.len());
            let place = content.now.get_mut(at..at + data.len());
            place.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
            content.unsynced.push((offset, Some(data.to_vec())));
            if is_full {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(())
        })
    }
}
