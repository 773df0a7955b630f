//! Numbers by id, in memory while they are few, and otherwise in temporary files.

use std::collections::HashMap;

use ibid_format::run::ShortId;

use super::run::{FilterRoom, PageCache, RunStack};
use crate::Result;
use crate::scratch::Scratch;

/// Memory of an entry, bytes: 24 in a table that may be half empty, and as much while it is moved.
const ENTRY: u64 = 75;

/// Numbers of at most 48 bits by id. Entries move to temporary files when they take more than
/// [`IndexLimits::ids`](super::IndexLimits), and as much is used for reading these.
pub(crate) struct IdMap {
    scratch: Scratch,
    memory: HashMap<[u8; 16], u64>,
    /// Entries that are kept in memory.
    most: usize,
    moved: RunStack,
    pages: PageCache,
    filters: FilterRoom,
}

impl IdMap {
    /// Returns an empty map.
    pub(crate) fn new(scratch: &Scratch) -> IdMap {
        let bytes = scratch.limits.ids;
        IdMap {
            scratch: scratch.clone(),
            memory: HashMap::new(),
            most: (bytes / ENTRY).max(16) as usize,
            moved: RunStack::default(),
            pages: PageCache::new(bytes / 2),
            filters: FilterRoom::new(bytes / 2),
        }
    }

    /// Returns the number of an id.
    pub(crate) fn get(&self, id: ShortId) -> Result<Option<u64>> {
        if let Some(value) = self.memory.get(&id.0.to_be_bytes()) {
            return Ok(Some(*value));
        }
        for run in self.moved.newest_first() {
            let mut found = None;
            run.find((id, id), &self.pages, &self.filters, |_, value| found = Some(value))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Adds an id that is not in the map. After an error, the map has all others still.
    pub(crate) fn insert(&mut self, id: ShortId, value: u64) -> Result<()> {
        if self.memory.len() >= self.most {
            self.move_memory()?;
        }
        self.memory.insert(id.0.to_be_bytes(), value);
        Ok(())
    }

    fn move_memory(&mut self) -> Result<()> {
        let mut entries: Vec<([u8; 16], u64)> = self.memory.iter().map(|(id, value)| (*id, *value)).collect();
        entries.sort_unstable();
        self.moved.add(&self.scratch, &self.filters, |entry| {
            let mut entries = entries.iter();
            entries.try_for_each(|(id, value)| entry(ShortId(u128::from_be_bytes(*id)), *value))
        })?;
        self.memory.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::id;
    use super::*;

    #[test]
    fn ids_are_found_in_memory_and_in_files_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let mut map = IdMap::new(&Scratch::tiny(folder.path()));
        let of = |n| ShortId::of(&id(n));
        for n in 0..20_000 {
            assert_eq!(map.get(of(n)).unwrap(), None);
            map.insert(of(n), n * 3).unwrap();
            assert_eq!(map.get(of(n)).unwrap(), Some(n * 3));
        }
        assert!(map.memory.len() < 200, "most are in files");
        for n in 0..20_000 {
            assert_eq!(map.get(of(n)).unwrap(), Some(n * 3));
        }
    }

    #[test]
    fn files_of_ids_stay_few() {
        let folder = tempfile::tempdir().unwrap();
        let mut map = IdMap::new(&Scratch::tiny(folder.path()));
        for n in 0..50_000 {
            map.insert(ShortId::of(&id(n)), n).unwrap();
        }
        // 600 files were written.
        assert!(
            map.moved.newest_first().count() <= 24,
            "{}",
            map.moved.newest_first().count()
        );
    }
}
