//! Opening files, and finding their data and holes.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

/// A contiguous part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Data { start: u64, length: u64 },
    Hole { length: u64 },
}

/// A file open for reading.
pub(crate) struct Opened {
    pub(crate) fd: OwnedFd,
    pub(crate) stat: Stat,
}

impl Opened {
    /// Opens `name` in `directory`, never through a symlink, and without waiting for the other end
    /// of a FIFO.
    pub(crate) fn open(directory: impl AsFd, name: &[u8]) -> Result<Opened, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        // A backup should not update access times. Only the owner and root may request that.
        let fd = match rustix::fs::openat(&directory, name, flags | OFlags::NOATIME, Mode::empty()) {
            Err(Errno::PERM) => rustix::fs::openat(&directory, name, flags, Mode::empty())?,
            result => result?,
        };
        let stat = rustix::fs::fstat(&fd)?;
        Ok(Opened { fd, stat })
    }

    /// Returns the size of a regular file when it was opened, and that of a block device now, bytes.
    pub(crate) fn size(&self) -> Result<u64, Errno> {
        match FileType::from_raw_mode(self.stat.st_mode) {
            FileType::BlockDevice => rustix::fs::seek(&self.fd, SeekFrom::End(0)),
            _ => Ok(self.stat.st_size as u64),
        }
    }

    /// Fills `buffer` from `offset` up to the end of the file; returns the bytes read.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pread(&self.fd, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Returns the extents of data and holes from `start` up to `size`, which is at most the file's
    /// size. Each is looked up when it is asked for, so any number of them takes no memory. A device
    /// and a file without missing blocks are one extent of data.
    pub(crate) fn extents(&self, start: u64, size: u64) -> Extents<'_> {
        let is_file = FileType::from_raw_mode(self.stat.st_mode) == FileType::RegularFile;
        let may_have_holes = is_file && (self.stat.st_blocks as u64) < size.div_ceil(512);
        Extents {
            file: self,
            at: start,
            size,
            known: if may_have_holes { Known::Nothing } else { Known::Data },
        }
    }
}

/// Iterator over the extents of a file, in order. Their lengths add up to the part that was asked
/// for.
pub(crate) struct Extents<'f> {
    file: &'f Opened,
    /// End of the last extent.
    at: u64,
    size: u64,
    known: Known,
}

/// What is known of the bytes that follow the last extent.
enum Known {
    /// Nothing: the file system must be asked.
    Nothing,
    /// They are data; where that ends is unknown.
    DataBegins,
    /// All of them are read as data.
    Data,
}

impl Iterator for Extents<'_> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        let (start, size) = (self.at, self.size);
        if start >= size {
            return None;
        }
        if let Known::Nothing = self.known {
            let data = match rustix::fs::seek(&self.file.fd, SeekFrom::Data(start)) {
                Ok(data) => data.min(size),
                Err(Errno::NXIO) => size, // a hole to the end
                // The file system can't tell.
                Err(_) => {
                    self.known = Known::Data;
                    start
                }
            };
            if data > start {
                (self.at, self.known) = (data, Known::DataBegins);
                return Some(Extent::Hole { length: data - start });
            }
        }
        let end = match self.known {
            Known::Data => size,
            // A file that is changing may return inconsistent offsets; the rest is then read as
            // data.
            Known::Nothing | Known::DataBegins => match rustix::fs::seek(&self.file.fd, SeekFrom::Hole(start)) {
                Ok(hole) if hole > start => hole.min(size),
                _ => size,
            },
        };
        self.at = end;
        if let Known::DataBegins = self.known {
            self.known = Known::Nothing;
        }
        Some(Extent::Data {
            start,
            length: end - start,
        })
    }
}

/// State of a file that shows changes: its size, mtime and ctime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    size: i64,
    mtime: (i64, u64),
    ctime: (i64, u64),
}

impl From<&Stat> for Moment {
    fn from(stat: &Stat) -> Moment {
        Moment {
            size: stat.st_size,
            mtime: (stat.st_mtime, stat.st_mtime_nsec),
            ctime: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use rustix::fs::CWD;

    use super::*;

    #[test]
    fn extents_cover_a_file_from_any_place_on_and_hold_all_data() {
        const SIZE: u64 = 1_000_000;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        let file = File::create(&path).unwrap();
        file.set_len(SIZE).unwrap();
        let places = [0, 4096, 50_000, 700_000, SIZE - 1];
        for place in places {
            file.write_all_at(b"x", place).unwrap();
        }
        drop(file);
        let file = Opened::open(CWD, std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())).unwrap();
        for start in [0, 1, 5000, 49_999, 50_001, 650_000, SIZE - 1, SIZE] {
            for size in [start, SIZE / 2, SIZE] {
                let mut at = start;
                let mut data = Vec::new();
                for extent in file.extents(start, size) {
                    match extent {
                        Extent::Hole { length } => at += length,
                        Extent::Data { start, length } => {
                            assert_eq!(start, at);
                            at += length;
                            data.push(start..at);
                        }
                    }
                }
                assert_eq!(at, size.max(start), "from {start}");
                let held = |place: &u64| data.iter().any(|extent| extent.contains(place));
                assert!(
                    places.iter().filter(|place| (start..size).contains(place)).all(held),
                    "{data:?}"
                );
                let bytes: u64 = data.iter().map(|extent| extent.end - extent.start).sum();
                assert!(bytes <= 1 << 16 || bytes == size - start, "{data:?}");
            }
        }
    }
}
