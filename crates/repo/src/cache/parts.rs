//! Parts of packs of data that this machine has stored, or has read to encode deltas against, for storage that is
//! reached over a network: what changes often is needed again at each backup.
//!
//! A part is a file named `<pack>-<start>`, with the bytes of the pack from there on. Packs never change, so a part is
//! never old; whether its pack is in the storage is decided by a listing alone. A part is as sealed as the pack, so
//! damage is noticed when a frame of it is opened.
//!
//! All parts together take about as many bytes as are allowed. Those go first that were not used for longest.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use ibid_format::FileId;

use super::{Cache, files_in, remove_abandoned, touch};
use crate::{Monitor, Warning};

/// The folder of the cache that has parts.
pub(super) const FOLDER: &str = "data";
/// Parts that are kept at most: each takes memory while a command runs.
const PARTS_MAX: usize = 32 << 10;
/// Room that is made at once: one in so many bytes of what is allowed.
const FREED_SHARE: u64 = 16;
/// What a file takes on a disk at least, bytes.
const BLOCK: u64 = 4096;

/// Parts of packs in a local cache.
pub(crate) struct Parts {
    cache: Cache,
    monitor: Arc<Monitor>,
    /// Bytes of all parts.
    limit: u64,
    /// What there is; none until it is asked for.
    state: Mutex<Option<State>>,
}

#[derive(Default)]
struct State {
    /// The parts of each pack, ascending by their starts.
    packs: HashMap<FileId, Vec<Part>>,
    count: usize,
    bytes: u64,
    /// Bytes of parts that are being written.
    coming: u64,
    /// Bytes that this process has written. It does not replace its own parts, so that storing a lot does not write it
    /// all to the disk of this machine, too.
    written: u64,
    /// The cache can't be written to: more is not tried.
    is_full: bool,
    /// What was used last has the largest number.
    uses: u64,
}

#[derive(Clone, Copy)]
struct Part {
    start: u64,
    length: u64,
    used: u64,
    /// Whether this process has used it, and its file says so.
    is_touched: bool,
}

impl Part {
    fn has(&self, start: u64, length: u64) -> bool {
        self.start <= start && start + length <= self.start + self.length
    }

    /// Returns what the file takes on a disk, bytes.
    fn takes(&self) -> u64 {
        self.length.next_multiple_of(BLOCK)
    }
}

impl Parts {
    /// Returns the parts in a cache, of which all may have so many bytes together.
    pub(crate) fn new(cache: Cache, monitor: Arc<Monitor>, limit: u64) -> Parts {
        Parts {
            cache,
            monitor,
            limit,
            state: Mutex::default(),
        }
    }

    /// Returns how many bytes all parts may have together.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns whether a part has these bytes of a pack.
    pub(crate) fn has(&self, pack: FileId, start: u64, length: u64) -> bool {
        self.with(|state| state.find(pack, start, length).is_some())
    }

    /// Fills `buffer` with the bytes of a pack from `start` on, and returns whether a part has them.
    pub(crate) fn read_at(&self, pack: FileId, start: u64, buffer: &mut [u8]) -> bool {
        let length = buffer.len() as u64;
        let found = self.with(|state| {
            let used = state.next_use();
            let part = state.find(pack, start, length)?;
            part.used = used;
            Some((part.start, std::mem::replace(&mut part.is_touched, true)))
        });
        let Some((first, was_touched)) = found else {
            return false;
        };
        let read = File::open(self.path(pack, first)).and_then(|file| {
            file.read_exact_at(buffer, start - first)?;
            if !was_touched {
                touch(&file);
            }
            Ok(())
        });
        if read.is_err() {
            // Another process has deleted it, or a crash has cut it off.
            self.with(|state| state.remove(pack, first));
            self.delete(&[(pack, first)]);
        }
        read.is_ok()
    }

    /// Keeps bytes of a pack from `start` on, if no part has them, in place of what was not used for longest.
    pub(crate) fn put(&self, pack: FileId, start: u64, bytes: &[u8]) {
        self.put_if(pack, start, bytes, |_, _| true);
    }

    /// Does the same if nothing has to go for it, and at least half of the room is left for what is put otherwise.
    pub(crate) fn put_where_room(&self, pack: FileId, start: u64, bytes: &[u8]) {
        self.put_if(pack, start, bytes, |state, takes| {
            state.bytes + state.coming + takes <= self.limit / 2 && state.count < PARTS_MAX / 2
        });
    }

    fn put_if(&self, pack: FileId, start: u64, bytes: &[u8], has_room: impl FnOnce(&State, u64) -> bool) {
        let part = Part {
            start,
            length: bytes.len() as u64,
            used: 0,
            is_touched: true,
        };
        let gone = self.with(|state| {
            let is_wanted = part.length > 0
                && !state.is_full
                && state.written + part.takes() <= self.limit
                && state.find(pack, start, part.length).is_none()
                && has_room(state, part.takes());
            is_wanted.then(|| {
                state.written += part.takes();
                let gone = state.make_room(part.takes(), self.limit);
                state.coming += part.takes();
                gone
            })
        });
        let Some(gone) = gone else { return };
        self.delete(&gone);
        let path = self.path(pack, start);
        let kept = self.cache.write_bytes(FOLDER, &path, bytes);
        let was_full = self.with(|state| {
            state.coming -= part.takes();
            let was_full = state.is_full;
            match kept {
                Ok(()) => state.add(pack, part),
                Err(_) => state.is_full = true,
            }
            was_full
        });
        if let Err(error) = kept
            && !was_full
        {
            self.monitor.warn(Warning::Cache { error });
        }
    }

    /// Deletes the parts of a pack: it is gone, or one of them is damaged.
    pub(crate) fn remove(&self, pack: FileId) {
        let gone = self.with(|state| state.remove_all(pack));
        self.delete(&gone);
    }

    /// Deletes the parts of packs that are not there any more.
    pub(crate) fn retain(&self, is_there: impl Fn(FileId) -> bool) {
        let gone: Vec<FileId> = self.with(|state| state.packs.keys().copied().filter(|id| !is_there(*id)).collect());
        gone.into_iter().for_each(|pack| self.remove(pack));
    }

    fn delete(&self, parts: &[(FileId, u64)]) {
        for &(pack, start) in parts {
            // If it can't be deleted, the next process finds it again.
            let _ = std::fs::remove_file(self.path(pack, start));
        }
    }

    fn path(&self, pack: FileId, start: u64) -> PathBuf {
        self.folder().join(format!("{pack}-{start}"))
    }

    fn folder(&self) -> PathBuf {
        self.cache.folder().join(FOLDER)
    }

    /// Calls `work` with what there is, which is looked up first.
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state: MutexGuard<'_, Option<State>> = self.state.lock().expect("no holder of this lock panics");
        work(state.get_or_insert_with(|| {
            let mut state = State::of(&self.folder());
            self.delete(&state.make_room(0, self.limit));
            state
        }))
    }
}

impl State {
    /// Returns what is in a folder.
    fn of(folder: &Path) -> State {
        let mut found = Vec::new();
        for path in files_in(folder).unwrap_or_default() {
            let Some((pack, start)) = named(&path) else {
                remove_abandoned(&path);
                continue;
            };
            let Ok(file) = std::fs::metadata(&path) else { continue };
            found.push((
                file.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                pack,
                start,
                file.len(),
            ));
        }
        found.sort_unstable();
        let mut state = State::default();
        for (_, pack, start, length) in found {
            let part = Part {
                start,
                length,
                used: 0,
                is_touched: false,
            };
            state.add(pack, part);
        }
        state
    }

    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    /// Returns the part that has these bytes of a pack.
    fn find(&mut self, pack: FileId, start: u64, length: u64) -> Option<&mut Part> {
        let parts = self.packs.get_mut(&pack)?;
        parts.iter_mut().find(|part| part.has(start, length))
    }

    /// Adds a part, in place of one that begins where it begins, as the last one used.
    fn add(&mut self, pack: FileId, part: Part) {
        self.remove(pack, part.start);
        let used = self.next_use();
        let parts = self.packs.entry(pack).or_default();
        let at = parts.partition_point(|other| other.start < part.start);
        parts.insert(at, Part { used, ..part });
        self.count += 1;
        self.bytes += part.takes();
    }

    /// Forgets a part, if it is there.
    fn remove(&mut self, pack: FileId, start: u64) {
        let Some(parts) = self.packs.get_mut(&pack) else { return };
        if let Ok(at) = parts.binary_search_by_key(&start, |part| part.start) {
            self.bytes -= parts.remove(at).takes();
            self.count -= 1;
        }
        if parts.is_empty() {
            self.packs.remove(&pack);
        }
    }

    /// Forgets the parts of a pack, and returns them.
    fn remove_all(&mut self, pack: FileId) -> Vec<(FileId, u64)> {
        let parts = self.packs.remove(&pack).unwrap_or_default();
        self.count -= parts.len();
        self.bytes -= parts.iter().map(Part::takes).sum::<u64>();
        parts.iter().map(|part| (pack, part.start)).collect()
    }

    /// Forgets parts that were not used for longest, if there is no room for `bytes` more, or if there are too many.
    /// Returns them.
    fn make_room(&mut self, bytes: u64, limit: u64) -> Vec<(FileId, u64)> {
        let mut gone = Vec::new();
        let bytes = bytes + self.coming;
        if self.bytes + bytes <= limit && self.count < PARTS_MAX {
            return gone;
        }
        let bytes_left = limit.saturating_sub(bytes).saturating_sub(limit / FREED_SHARE);
        let count_left = PARTS_MAX - PARTS_MAX / FREED_SHARE as usize;
        let parts = self.packs.iter();
        let mut oldest: Vec<_> = parts
            .flat_map(|(pack, parts)| parts.iter().map(|part| (part.used, *pack, part.start)))
            .collect();
        oldest.sort_unstable();
        for (_, pack, start) in oldest {
            if self.bytes <= bytes_left && self.count <= count_left {
                break;
            }
            self.remove(pack, start);
            gone.push((pack, start));
        }
        gone
    }
}

/// Returns the pack and the start that a file is named after.
fn named(path: &Path) -> Option<(FileId, u64)> {
    let (pack, start) = path.file_name()?.to_str()?.split_once('-')?;
    // No pack is longer.
    let start: u32 = start.parse().ok()?;
    Some((FileId::parse(pack)?, start.into()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LIMIT: u64 = 64 * BLOCK;

    fn parts(folder: &Path, limit: u64) -> Parts {
        Parts::new(Cache::new(folder, FileId([1; 16])), Arc::default(), limit)
    }

    fn pack(number: u8) -> FileId {
        FileId([number; 16])
    }

    /// Returns which of the packs from 0 on have the part that begins at 0.
    fn there(parts: &Parts) -> Vec<u8> {
        (0..100).filter(|number| parts.has(pack(*number), 0, 1)).collect()
    }

    #[test]
    fn a_part_gives_what_is_in_it_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..200).collect();
        let first = parts(folder.path(), LIMIT);
        first.put(pack(1), 100, &bytes);
        for parts in [&first, &parts(folder.path(), LIMIT)] {
            for (start, length, is_there) in [
                (100, 200, true),
                (150, 20, true),
                (299, 1, true),
                (99, 2, false),
                (299, 2, false),
                (300, 1, false),
                (0, 1, false),
            ] {
                let mut read = vec![0; length];
                assert_eq!(parts.has(pack(1), start, length as u64), is_there, "{start} {length}");
                assert_eq!(parts.read_at(pack(1), start, &mut read), is_there, "{start} {length}");
                if is_there {
                    assert_eq!(read, bytes[start as usize - 100..][..length]);
                }
            }
            assert!(!parts.read_at(pack(2), 100, &mut [0]));
        }
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first_in_this_process_and_in_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let first = parts(folder.path(), LIMIT);
        for number in 0..64 {
            first.put(pack(number), 0, &[number]);
            let path = first.path(pack(number), 0);
            let hours = Duration::from_secs(3600 * (1000 - u64::from(number)));
            let file = File::options().write(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - hours).unwrap();
        }
        assert_eq!(there(&first).len(), 64);
        let second = parts(folder.path(), LIMIT);
        assert!(second.read_at(pack(0), 0, &mut [0]));
        second.put(pack(64), 0, &[1]);
        // One in 16 goes, and one more for the new one.
        let left: Vec<u8> = [0].into_iter().chain(6..65).collect();
        assert_eq!(there(&second), left);
        assert_eq!(there(&parts(folder.path(), LIMIT)), left);
        let newest: Vec<u8> = [0].into_iter().chain(57..65).collect();
        assert_eq!(there(&parts(folder.path(), 10 * BLOCK)), newest);
    }

    #[test]
    fn a_process_does_not_replace_what_it_has_written_itself() {
        let folder = tempfile::tempdir().unwrap();
        let parts = parts(folder.path(), LIMIT);
        for number in 0..100 {
            parts.put(pack(number), 0, &[number; BLOCK as usize]);
        }
        assert_eq!(there(&parts), (0..64).collect::<Vec<u8>>());
    }

    #[test]
    fn a_part_that_another_process_has_deleted_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let parts = parts(folder.path(), LIMIT);
        parts.put(pack(1), 0, b"first");
        parts.put(pack(1), 10, b"second");
        std::fs::remove_file(parts.path(pack(1), 0)).unwrap();
        assert!(!parts.read_at(pack(1), 0, &mut [0; 5]));
        assert!(!parts.has(pack(1), 0, 5));
        assert!(parts.read_at(pack(1), 10, &mut [0; 6]), "the other one is");
    }

    #[test]
    fn what_is_no_part_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let first = parts(folder.path(), LIMIT);
        first.put(pack(1), 0, b"bytes");
        let id = pack(2);
        for name in [
            format!("{id}-{}", u64::MAX),
            format!("{id}"),
            format!("{id}-x"),
            "tmp-1".to_owned(),
        ] {
            std::fs::write(first.folder().join(name), b"bytes").unwrap();
        }
        assert_eq!(there(&parts(folder.path(), LIMIT)), [1]);
    }

    #[test]
    fn there_are_not_more_parts_than_there_is_memory_for() {
        let mut state = State::default();
        for number in 0..PARTS_MAX as u64 {
            let part = Part {
                start: number,
                length: 1,
                used: 0,
                is_touched: true,
            };
            state.add(pack((number % 7) as u8), part);
        }
        let gone = state.make_room(1, u64::MAX);
        assert_eq!(gone.len(), PARTS_MAX / FREED_SHARE as usize);
        assert_eq!(gone[0], (pack(0), 0));
        assert_eq!(state.count, PARTS_MAX - gone.len());
        assert_eq!(state.bytes, state.count as u64 * BLOCK);
    }
}
