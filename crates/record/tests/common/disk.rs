//! A disk in memory.

use std::io;
use std::sync::{Arc, Mutex};

use ibid_record::engine::StorageBackend;

/// A disk that loses unsynced writes, or a part of them, at a power failure.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<Content>>);

#[derive(Debug, Default)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Each write since the last sync with its offset; [`None`] sets the length.
    unsynced: Vec<(u64, Option<Vec<u8>>)>,
}

/// Bytes that are written completely or not at all.
const SECTOR: usize = 512;

impl Disk {
    /// Returns the disk as it is after the process was killed: the operating system still writes all.
    pub(crate) fn after_a_kill(&self) -> Disk {
        let content = self.0.lock().unwrap();
        Disk(Arc::new(Mutex::new(Content {
            now: content.now.clone(),
            synced: content.synced.clone(),
            unsynced: content.unsynced.clone(),
        })))
    }

    /// Returns the disk as it is after a power failure. `below` returns random numbers below its
    /// argument.
    pub(crate) fn after_power_failure(&self, below: &mut dyn FnMut(u64) -> u64) -> Disk {
        let content = self.0.lock().unwrap();
        let mut image = content.synced.clone();
        // All unsynced writes survive, or some, or none.
        let part = below(4);
        let mut length = image.len();
        for (at, written) in &content.unsynced {
            let kept = below(3) < part;
            let at = *at as usize;
            match written {
                None => {
                    length = at;
                    if kept {
                        image.resize(at, 0);
                    }
                }
                Some(bytes) if kept => {
                    let torn = below(8) == 0;
                    let part = below(bytes.len() as u64 + 1) as usize / SECTOR * SECTOR;
                    let kept = if torn { part } else { bytes.len() };
                    if image.len() < at + kept {
                        // Nothing is beyond the end of the file, which had been extended before.
                        image.resize(length, 0);
                    }
                    image[at..at + kept].copy_from_slice(&bytes[..kept]);
                }
                Some(_) => {}
            }
        }
        let (now, synced) = (image.clone(), image);
        Disk(Arc::new(Mutex::new(Content {
            now,
            synced,
            unsynced: Vec::new(),
        })))
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let content = self.0.lock().unwrap();
        let from = offset as usize;
        let found = content
            .now
            .get(from..from + out.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut content = self.0.lock().unwrap();
        content.now.resize(len as usize, 0);
        content.unsynced.push((len, None));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut content = self.0.lock().unwrap();
        for (at, written) in std::mem::take(&mut content.unsynced) {
            let at = at as usize;
            match written {
                None => content.synced.resize(at, 0),
                Some(bytes) => content.synced[at..at + bytes.len()].copy_from_slice(&bytes),
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut content = self.0.lock().unwrap();
        let at = offset as usize;
        content
            .now
            .get_mut(at..at + data.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?
            .copy_from_slice(data);
        content.unsynced.push((offset, Some(data.to_vec())));
        Ok(())
    }
}
