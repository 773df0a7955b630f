//! Opening files, and finding their data and holes.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, SeekFrom, Stat};
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

    /// Returns the extents of data and holes up to `size`. Files without missing blocks are not
    /// queried.
    pub(crate) fn extents(&self, size: u64) -> Vec<Extent> {
        let whole = vec![Extent::Data { start: 0, length: size }];
        if size == 0 {
            return Vec::new();
        }
        if self.stat.st_blocks as u64 * 512 >= size {
            return whole;
        }
        let mut extents = Vec::new();
        let mut at = 0;
        while at < size {
            let data = match rustix::fs::seek(&self.fd, SeekFrom::Data(at)) {
                Ok(data) => data.min(size),
                Err(Errno::NXIO) => size,          // a hole to the end
                Err(_) if at == 0 => return whole, // the file system can't say
                Err(_) => at,
            };
            if data > at {
                extents.push(Extent::Hole { length: data - at });
            }
            if data == size {
                break;
            }
            let hole = rustix::fs::seek(&self.fd, SeekFrom::Hole(data)).map_or(size, |hole| hole.min(size));
            // A file that is changing may return inconsistent offsets; the rest is then read as
            // data.
            let hole = if hole > data { hole } else { size };
            extents.push(Extent::Data {
                start: data,
                length: hole - data,
            });
            at = hole;
        }
        extents
    }
}

/// Returns the size of a block device, bytes.
pub(crate) fn device_size(file: impl AsFd) -> Result<u64, Errno> {
    rustix::fs::seek(file, SeekFrom::End(0))
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
