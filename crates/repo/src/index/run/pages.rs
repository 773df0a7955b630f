//! Cache of pages of runs.

use std::sync::{Arc, Mutex};

use ibid_format::run::{EntryPage, FramePage};

use super::Run;
use crate::Result;

/// Pages that may be in the same place of the cache.
const WAYS: usize = 4;

/// A page of either kind.
#[derive(Clone)]
enum Page {
    Entries(Arc<EntryPage>),
    Frames(Arc<FramePage>),
}

/// Pages in one set, the most recently used first.
type Set = [Option<(Key, Page)>; WAYS];

/// Run, kind and number of a page.
type Key = (u64, bool, u32);

/// Pages that were used lately. A page has one of four places, so that finding it takes no search and
/// keeping it no common lock.
pub(in crate::index) struct PageCache {
    sets: Vec<Mutex<Set>>,
}

impl PageCache {
    /// Returns a cache that takes about `bytes` of memory, which it fills as pages are used.
    pub(in crate::index) fn new(bytes: u64) -> PageCache {
        let sets = (bytes / (EntryPage::MEMORY * WAYS) as u64).max(1);
        PageCache {
            sets: (0..sets).map(|_| Mutex::default()).collect(),
        }
    }

    /// Returns the most memory that it takes, bytes.
    pub(in crate::index) fn memory(&self) -> u64 {
        (self.sets.len() * WAYS * EntryPage::MEMORY) as u64
    }

    pub(super) fn entries(&self, run: &Run, number: u32) -> Result<Arc<EntryPage>> {
        let read = || run.read_entries(number).map(|page| Page::Entries(Arc::new(page)));
        match self.get((serial(run), false, number), read)? {
            Page::Entries(page) => Ok(page),
            Page::Frames(_) => unreachable!("its key says which kind it is"),
        }
    }

    pub(super) fn frames(&self, run: &Run, number: u32) -> Result<Arc<FramePage>> {
        let read = || run.read_frames(number).map(|page| Page::Frames(Arc::new(page)));
        match self.get((serial(run), true, number), read)? {
            Page::Frames(page) => Ok(page),
            Page::Entries(_) => unreachable!("its key says which kind it is"),
        }
    }

    fn get(&self, key: Key, read: impl FnOnce() -> Result<Page>) -> Result<Page> {
        // Ids of runs are random; multiplying spreads the numbers.
        let (run, kind, number) = key;
        let mixed = (run ^ u64::from(number) << 1 ^ u64::from(kind)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
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
