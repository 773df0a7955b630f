//! Cache of pages of runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ibid_format::run::{EntryPage, FramePage, PackPage};

use super::Run;
use crate::Result;

/// Pages that may be in the same place of the cache.
const WAYS: usize = 4;

/// A page of any kind.
#[derive(Clone)]
enum Page {
    Entries(Arc<EntryPage>),
    Frames(Arc<FramePage>),
    Packs(Arc<PackPage>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Entries,
    Frames,
    Packs,
    PackIds,
}

/// Pages in one set, the most recently used first.
type Set = [Option<(Key, Page)>; WAYS];

/// Run, kind and number of a page.
type Key = (u64, Kind, u32);

/// Pages that were used lately. A page has one of four places, so that finding it takes no search and
/// keeping it no common lock.
pub(in crate::index) struct PageCache {
    sets: Vec<Mutex<Set>>,
    read: AtomicU64,
}

impl PageCache {
    /// Returns a cache that takes about `bytes` of memory, which it fills as pages are used.
    pub(in crate::index) fn new(bytes: u64) -> PageCache {
        let sets = (bytes / (EntryPage::MEMORY * WAYS) as u64).max(1);
        PageCache {
            sets: (0..sets).map(|_| Mutex::default()).collect(),
            read: AtomicU64::new(0),
        }
    }

    /// Returns how many pages were not in the cache.
    pub(in crate::index) fn pages_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Returns the most memory that it takes, bytes.
    pub(in crate::index) fn memory(&self) -> u64 {
        (self.sets.len() * WAYS * EntryPage::MEMORY) as u64
    }

    pub(super) fn entries(&self, run: &Run, number: u32) -> Result<Arc<EntryPage>> {
        self.entries_of((serial(run), Kind::Entries, number), || run.read_entries(number))
    }

    pub(super) fn pack_ids(&self, run: &Run, number: u32) -> Result<Arc<EntryPage>> {
        self.entries_of((serial(run), Kind::PackIds, number), || run.read_pack_ids(number))
    }

    fn entries_of(&self, key: Key, read: impl FnOnce() -> Result<EntryPage>) -> Result<Arc<EntryPage>> {
        match self.get(key, || Ok(Page::Entries(Arc::new(read()?))))? {
            Page::Entries(page) => Ok(page),
            Page::Frames(_) | Page::Packs(_) => unreachable!("its key says which kind it is"),
        }
    }

    pub(super) fn frames(&self, run: &Run, number: u32) -> Result<Arc<FramePage>> {
        let read = || run.read_frames(number).map(|page| Page::Frames(Arc::new(page)));
        match self.get((serial(run), Kind::Frames, number), read)? {
            Page::Frames(page) => Ok(page),
            Page::Entries(_) | Page::Packs(_) => unreachable!("its key says which kind it is"),
        }
    }

    pub(super) fn packs(&self, run: &Run, number: u32) -> Result<Arc<PackPage>> {
        let read = || run.read_packs(number).map(|page| Page::Packs(Arc::new(page)));
        match self.get((serial(run), Kind::Packs, number), read)? {
            Page::Packs(page) => Ok(page),
            Page::Entries(_) | Page::Frames(_) => unreachable!("its key says which kind it is"),
        }
    }

    fn get(&self, key: Key, read: impl FnOnce() -> Result<Page>) -> Result<Page> {
        // Ids of runs are random; multiplying spreads the numbers.
        let (run, kind, number) = key;
        let mixed = (run ^ u64::from(number) << 2 ^ kind as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let at = ((u128::from(mixed) * self.sets.len() as u128) >> 64) as usize;
        let set = || self.sets[at].lock().expect("no holder of this lock panics");
        {
            let mut set = set();
            let found = set
                .iter()
                .position(|place| matches!(place, Some((other, _)) if *other == key));
            if let Some(found) = found {
                set[..=found].rotate_right(1);
                let (_, page) = set[0].as_ref().expect("just found");
                return Ok(page.clone());
            }
        }
        self.read.fetch_add(1, Ordering::Relaxed);
        // Two threads may read the same page: it is kept twice until one of them is pushed out.
        let page = read()?;
        let mut set = set();
        set.rotate_right(1);
        set[0] = Some((key, page.clone()));
        Ok(page)
    }
}

fn serial(run: &Run) -> u64 {
    let id = run.file().id();
    let (first, _) = id.0.split_first_chunk::<8>().expect("an id is longer");
    u64::from_le_bytes(*first)
}
