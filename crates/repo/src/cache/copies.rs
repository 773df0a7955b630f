//! Copies of files that commands read again and again, for storage that is reached over a network:
//! packs of trees, snapshots, and the files of index and sketches that no run of the cache stands for yet.
//!
//! Such files never change, and their names are random, so a copy is never old. What is in the storage
//! is decided by its listing alone: a copy of a deleted file is not asked for, and is deleted in turn.
//! A copy is as sealed as its original, so damage is noticed when it is opened.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ibid_format::FileId;
use ibid_storage::Storage;

use super::{Cache, age, files_in, id_of, remove_abandoned};
use crate::layout::{folder, name_in};
use crate::threads::wait;
use crate::{Error, Monitor, Result, Warning};

/// Folders of the cache that have copies.
pub(super) const FOLDERS: [&str; 4] = [folder::PACKS, folder::SNAPSHOTS, "index-files", "sketch-files"];

/// The folders of the repository that these are of.
pub(super) const OF_REPOSITORY: [&str; 4] = [folder::PACKS, folder::SNAPSHOTS, folder::INDEX, folder::SKETCHES];

/// An empty file, as old as the last list of packs.
pub(super) const LISTED: &str = "listed";
const LATELY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the folder of the cache for the copies of files in a folder of the repository. Runs have the names of those
/// that they stand for.
fn in_cache(of_repository: &str) -> &str {
    match of_repository {
        folder::INDEX => FOLDERS[2],
        folder::SKETCHES => FOLDERS[3],
        other => other,
    }
}

/// Bytes that are fetched at once.
const FETCHED: u64 = 4 << 20;

/// Copies of files of the repository in its local cache.
pub(crate) struct Copies {
    cache: Cache,
    monitor: Arc<Monitor>,
    /// The cache can't be written to: more is not tried.
    is_full: AtomicBool,
    /// Files that some thread is fetching.
    fetching: Mutex<HashSet<FileId>>,
    fetched: Condvar,
}

impl Copies {
    pub(crate) fn new(cache: Cache, monitor: Arc<Monitor>) -> Copies {
        Copies {
            cache,
            monitor,
            is_full: AtomicBool::new(false),
            fetching: Mutex::default(),
            fetched: Condvar::new(),
        }
    }

    /// Fills `buffer` from a copy of a file with `size` bytes. Makes the copy if there is none. Returns
    /// false if there is none then either, or if the file is shorter.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn read_at(
        &self,
        storage: &dyn Storage,
        (folder, id, size): (&str, FileId, u64),
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<bool> {
        let path = self.path(folder, id);
        let mut is_fetched = false;
        loop {
            if let Ok(file) = File::open(&path) {
                // One that is cut off is fetched again, next time.
                let is_read = file.read_exact_at(buffer, offset).is_ok();
                if !is_read {
                    self.remove(folder, id);
                }
                return Ok(is_read);
            }
            if is_fetched || self.is_full.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let Some(_claim) = self.claim(id) else { continue };
            let fetch = |file: &mut File| fetch(storage, folder, id, size, &path, file);
            match self.cache.write_whole(in_cache(folder), &path, fetch) {
                Err(error @ Error::Local { .. }) => self.give_up(error),
                // A part of it can still be read.
                Err(error) if error.is_damage() => return Ok(false),
                written => written?,
            }
            is_fetched = true;
        }
    }

    /// Makes a copy of a file with `size` bytes, if there is none and it can be made.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn fetch(&self, storage: &dyn Storage, file: (&str, FileId, u64)) -> Result<()> {
        self.read_at(storage, file, 0, &mut []).map(drop)
    }

    /// Returns whether there is no copy of a file, and one can be made.
    pub(crate) fn lacks(&self, folder: &str, id: FileId) -> bool {
        !self.is_full.load(Ordering::Relaxed) && !self.path(folder, id).exists()
    }

    /// Returns the copy of a whole file, if there is one of at most `limit` bytes.
    pub(crate) fn get(&self, folder: &str, id: FileId, limit: u64) -> Option<Vec<u8>> {
        let path = self.path(folder, id);
        let is_short = std::fs::metadata(&path).is_ok_and(|file| file.len() <= limit);
        is_short.then(|| std::fs::read(path).ok())?
    }

    /// Returns a part of a file, if there is a copy of it that has all of the part.
    pub(crate) fn part(&self, folder: &str, id: FileId, offset: u64, length: usize) -> Option<Vec<u8>> {
        let file = File::open(self.path(folder, id)).ok()?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, offset).ok().map(|()| bytes)
    }

    /// Keeps a copy of a file that was just stored, or read.
    pub(crate) fn put(&self, folder: &str, id: FileId, bytes: &[u8]) {
        let path = self.path(folder, id);
        if !self.is_full.load(Ordering::Relaxed)
            && let Err(error) = self.cache.write_bytes(in_cache(folder), &path, bytes)
        {
            self.give_up(error);
        }
    }

    /// Deletes a copy, because it is damaged.
    pub(crate) fn remove(&self, folder: &str, id: FileId) {
        let _ = std::fs::remove_file(self.path(folder, id));
    }

    /// Deletes the copies of files that are not among these, ascending by their ids.
    pub(crate) fn retain_listed(&self, folder: &str, listed: &[(FileId, u64)]) {
        self.retain(folder, |id| listed.binary_search_by_key(&id, |(id, _)| *id).is_ok());
    }

    /// Deletes the copies of files in this folder that are not there any more, and what killed processes
    /// have left behind.
    pub(crate) fn retain(&self, folder: &str, is_there: impl Fn(FileId) -> bool) {
        let paths = files_in(&self.cache.folder().join(in_cache(folder)));
        for path in paths.unwrap_or_default() {
            match id_of(&path) {
                Some(id) if is_there(id) => {}
                Some(id) => self.remove(folder, id),
                None => remove_abandoned(&path),
            }
        }
    }

    /// Notes that all known packs were in a list of today.
    pub(crate) fn remember_list_of_packs(&self) {
        let folder = self.cache.folder();
        // Without it, they are listed again.
        let _ = self
            .cache
            .make_folder(folder)
            .map(|()| File::create(folder.join(LISTED)));
    }

    /// Returns whether they were, less than a day ago.
    pub(crate) fn listed_packs_lately(&self) -> bool {
        age(&self.cache.folder().join(LISTED)).is_some_and(|age| age < LATELY)
    }

    fn path(&self, folder: &str, id: FileId) -> PathBuf {
        self.cache.folder().join(in_cache(folder)).join(id.to_string())
    }

    /// Returns the right to fetch a file, or waits until another thread has fetched it.
    fn claim(&self, id: FileId) -> Option<Claim<'_>> {
        let mut fetching = self.fetching.lock().expect("no holder of this lock panics");
        if fetching.insert(id) {
            return Some(Claim { copies: self, id });
        }
        while fetching.contains(&id) {
            fetching = wait(&self.fetched, &self.fetching, fetching);
        }
        None
    }

    /// Makes no more copies: the disk may be full.
    fn give_up(&self, error: Error) {
        if !self.is_full.swap(true, Ordering::Relaxed) {
            self.monitor.warn(Warning::Cache { error });
        }
    }
}

/// The right to fetch a file.
struct Claim<'c> {
    copies: &'c Copies,
    id: FileId,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut fetching = self.copies.fetching.lock().expect("no holder of this lock panics");
        fetching.remove(&self.id);
        self.copies.fetched.notify_all();
    }
}

/// Copies a file of the storage into another.
fn fetch(storage: &dyn Storage, folder: &str, id: FileId, size: u64, path: &Path, file: &mut File) -> Result<()> {
    let name = name_in(folder, id);
    let mut bytes = Vec::new();
    let mut offset = 0;
    while offset < size {
        bytes.resize((size - offset).min(FETCHED) as usize, 0);
        storage.read_at(&name, offset, &mut bytes)?;
        let written = file.write_all(&bytes);
        written.map_err(|source| Error::local("write", path, source))?;
        offset += bytes.len() as u64;
    }
    Ok(())
}
