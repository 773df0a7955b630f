//! Looks at directories before the walk gets there, so that the walk does not wait for the disk: what
//! the system has read once, it has in memory.
//!
//! The walk itself looks at one name after another, in the order of names. Here several threads each
//! look at one directory, in the order of inodes, which is that of the disk.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir};

use super::walk::open_directory;
use crate::clock;
use crate::threads::{Receiver, Sender, bounded};

/// Threads that look ahead. They wait for the disk, not for a core.
pub(crate) const THREADS: usize = 4;
/// Directories that wait for a thread.
const WAITING: usize = 4 * THREADS;
/// Directories in a directory that are looked at ahead, those that come first.
const FOLDERS_MAX: usize = 4096;
/// Entries of a directory that are looked at ahead.
const ENTRIES_MAX: usize = 16 << 10;
/// A directory that takes no longer than this, and so much for each entry, was in memory already.
const KNOWN: Duration = Duration::from_micros(30);
const KNOWN_ENTRY: Duration = Duration::from_micros(4);
/// Directories that are left to the walk, at most, before one is looked at again to find out whether
/// they still are in memory.
const LEFT_MAX: u32 = 256;

/// A directory to look at.
pub(crate) struct Folder {
    parent: Arc<OwnedFd>,
    name: Vec<u8>,
    device: u64,
}

/// The walk's end of the channel to the threads.
pub(crate) struct Ahead {
    folders: Sender<Folder>,
    left: Arc<AtomicU32>,
}

/// The threads' end.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(super) folders: Receiver<Folder>,
    /// How many of the next directories are left to the walk: no thread is woken for them.
    left: Arc<AtomicU32>,
}

/// Returns the two ends of a channel for directories.
pub(crate) fn channel() -> (Ahead, Asked) {
    let (sender, folders) = bounded(WAITING);
    let left = Arc::new(AtomicU32::new(0));
    let ahead = Ahead {
        folders: sender,
        left: left.clone(),
    };
    (ahead, Asked { folders, left })
}

/// Names of directories in a directory, in the order in which the walk will enter them.
#[derive(Default)]
pub(super) struct Folders(VecDeque<Vec<u8>>);

impl Folders {
    pub(super) fn push(&mut self, name: &[u8]) {
        if self.0.len() < FOLDERS_MAX {
            self.0.push_back(name.to_vec());
        }
    }

    pub(super) fn sort(&mut self) {
        self.0.make_contiguous().sort_unstable();
    }

    /// Forgets the names up to this one, which the walk has reached.
    pub(super) fn reached(&mut self, name: &[u8]) {
        while self.0.front().is_some_and(|front| front.as_slice() <= name) {
            self.0.pop_front();
        }
    }

    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        self.0.pop_front()
    }
}

impl Ahead {
    /// Has a directory on this device looked at, if there is room for another, and unless it is left to the walk.
    pub(super) fn look(&self, parent: &Arc<OwnedFd>, name: Vec<u8>, device: u64) {
        let one_less = |left: u32| left.checked_sub(1);
        let is_left = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_ok();
        if !is_left {
            let parent = parent.clone();
            let _ = self.folders.try_send(Folder { parent, name, device });
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.folders.is_full()
    }
}

/// Looks at directories until the walk ends. While they are in memory already, leaves most of them to
/// the walk.
pub(crate) fn run(asked: &Asked) {
    let mut pause = 1;
    for folder in &asked.folders {
        let start = clock::instant();
        let entries = folder.look();
        match clock::since(start) <= KNOWN + KNOWN_ENTRY * entries {
            true => {
                asked.left.store(pause, Ordering::Relaxed);
                pause = (2 * pause).min(LEFT_MAX);
            }
            false => pause = 1,
        }
    }
}

impl Folder {
    #[cfg(test)]
    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Looks at the entries; returns their number. What goes wrong here, the walk will meet and report.
    fn look(&self) -> u32 {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let stat = rustix::fs::statat(&self.parent, &self.name, flags);
        // The walk may stay out of other file systems.
        if !stat.is_ok_and(|stat| stat.st_dev == self.device) {
            return 0;
        }
        let Ok(directory) = open_directory(&self.parent, &self.name) else {
            return 0;
        };
        let Ok(entries) = Dir::read_from(&directory) else {
            return 0;
        };
        let entries = entries.flatten().take(ENTRIES_MAX);
        let mut entries: Vec<_> = entries
            .map(|entry| (entry.ino(), entry.file_name().to_owned()))
            .collect();
        entries.sort_unstable();
        for (_, name) in &entries {
            let _ = rustix::fs::statat(&directory, name, flags);
        }
        entries.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_looked_at_unless_they_are_on_another_device() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("d")).unwrap();
        for n in 0..100 {
            std::fs::write(folder.path().join("d").join(n.to_string()), b"").unwrap();
        }
        std::fs::write(folder.path().join("file"), b"").unwrap();
        std::os::unix::fs::symlink("d", folder.path().join("link")).unwrap();
        let parent = Arc::new(OwnedFd::from(std::fs::File::open(folder.path()).unwrap()));
        let device = rustix::fs::fstat(&parent).unwrap().st_dev;
        let look = |name: &str, device| {
            let (parent, name) = (parent.clone(), name.into());
            Folder { parent, name, device }.look()
        };
        // With `.` and `..`.
        assert_eq!(look("d", device), 102);
        assert_eq!(look("d", device + 1), 0);
        for name in ["file", "link", "missing"] {
            assert_eq!(look(name, device), 0, "{name}");
        }
    }

    #[test]
    fn folders_come_in_order_without_those_that_the_walk_has_reached() {
        let mut folders = Folders::default();
        for name in ["c", "a", "d", "b"] {
            folders.push(name.as_bytes());
        }
        folders.sort();
        folders.reached(b"b");
        assert_eq!(folders.next().unwrap(), b"c");
        folders.reached(b"c-");
        assert_eq!(folders.next().unwrap(), b"d");
        assert!(folders.next().is_none());
    }
}
