//! The real disk. The only place in this crate that calls the file system.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::{Access, Disk, FolderEntry, FolderEntryKind};

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsDisk;

/// A file that [`OsDisk`] opened.
#[derive(Debug)]
pub struct OsFile(File);

impl Disk for OsDisk {
    type File = OsFile;

    fn create_new(&self, path: &Path) -> io::Result<OsFile> {
        OpenOptions::new()
            .read(true)
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map(OsFile)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<OsFile> {
        // A link out of the folder is no object, nor is a pipe, which would block without a writer.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(access == Access::Lock)
            .custom_flags(flags.bits().cast_signed());
        let file = match options.open(path) {
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                return Err(not_a_file());
            }
            opened => opened?,
        };
        let kind = file.metadata()?.file_type();
        if kind.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if kind.is_file() {
            Ok(OsFile(file))
        } else {
            Err(not_a_file())
        }
    }

    #[cfg(target_os = "linux")]
    fn is_remote(&self, folder: &Path) -> bool {
        /// Numbers that Linux gives to file systems: NFS, SMB (two), CIFS, 9P, AFS, Ceph, Coda, and FUSE,
        /// which sshfs and rclone use.
        const REMOTE: [u32; 9] = [
            0x6969,
            0x517B,
            0xFE53_4D42,
            0xFF53_4D42,
            0x0102_1997,
            0x5346_414F,
            0x00C3_6400,
            0x7375_7245,
            0x6573_5546,
        ];
        // The type of the number differs between machines; it has 32 bits.
        rustix::fs::statfs(folder).is_ok_and(|found| REMOTE.contains(&(found.f_type as u32)))
    }

    fn lock(&self, file: &OsFile) -> io::Result<bool> {
        match file.0.try_lock() {
            // The process that held the lock before us may have removed the file: then the lock protects nothing.
            Ok(()) => Ok(file.0.metadata()?.nlink() > 0),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(match error.raw_os_error() {
                Some(code) if code == Errno::NOLCK.raw_os_error() || code == Errno::NOSYS.raw_os_error() => {
                    io::Error::new(io::ErrorKind::Unsupported, error)
                }
                _ => error,
            }),
        }
    }

    fn write(&self, file: &mut OsFile, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        file.0.write_vectored(parts)
    }

    fn sync(&self, file: &OsFile) -> io::Result<()> {
        file.0.sync_all()
    }

    fn rename_noreplace(&self, from: &Path, to: &Path) -> io::Result<()> {
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // NFS, some FUSE file systems and old kernels do not know the flag.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => link_and_unlink(from, to),
            result => Ok(result?),
        }
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        match File::open(path)?.sync_all() {
            // Some network and FUSE file systems refuse this call for folders. There is no other
            // way, and the durability of names is then up to their servers.
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(()),
            result => result,
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<FolderEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let metadata = match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            let kind = match metadata.file_type() {
                kind if kind.is_file() => FolderEntryKind::File { size: metadata.len() },
                kind if kind.is_dir() => FolderEntryKind::Folder,
                _ => FolderEntryKind::Other,
            };
            entries.push(FolderEntry {
                name: entry.file_name(),
                kind,
            });
        }
        Ok(entries)
    }

    fn read_at(&self, file: &OsFile, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        file.0.read_at(buffer, offset)
    }

    fn length(&self, file: &OsFile) -> io::Result<u64> {
        Ok(file.0.metadata()?.len())
    }

    fn age(&self, file: &OsFile) -> io::Result<Duration> {
        let modified = file.0.metadata()?.modified()?;
        Ok(SystemTime::now().duration_since(modified).unwrap_or_default())
    }

    fn unique(&self) -> io::Result<u128> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(u128::from_le_bytes(bytes))
    }
}

/// A link is made only if its name is free, as the rename without overwriting would be.
fn link_and_unlink(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to).map_err(|error| match error.raw_os_error() {
        // Linux's error for a file system without links, such as FAT.
        Some(code) if code == Errno::PERM.raw_os_error() => io::Error::new(io::ErrorKind::Unsupported, error),
        _ => error,
    })?;
    // The object is published. If its second name stays, a sweep takes it later.
    let _ = fs::remove_file(from);
    Ok(())
}

fn not_a_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "this is not a regular file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_name_cannot_be_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = OsDisk.create_new(&path).unwrap();
        let other = OsDisk.open(&path, Access::Lock).unwrap();
        assert!(OsDisk.lock(&other).unwrap());
        assert!(!OsDisk.lock(&file).unwrap(), "another handle has the lock");
        OsDisk.remove(&path).unwrap();
        drop(other);
        assert!(!OsDisk.lock(&file).unwrap(), "its lock would protect nothing");
    }

    #[test]
    fn a_link_publishes_once_and_never_overwrites() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("one"), b"one").unwrap();
        fs::write(path("two"), b"two").unwrap();
        link_and_unlink(&path("one"), &path("object")).unwrap();
        let error = link_and_unlink(&path("two"), &path("object")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(path("object")).unwrap(), b"one");
        assert!(!path("one").exists() && path("two").exists());
    }
}
