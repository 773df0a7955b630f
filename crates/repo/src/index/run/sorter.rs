//! Sorting of entries in bounded memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::Arc;

use ibid_format::Keys;
use ibid_format::run::ShortId;

use super::stack::{alike, merge};
use super::{Entries, Run, RunWriter};
use crate::Result;
use crate::scratch::in_some_folder;

/// Sorts entries; what does not fit into memory goes to temporary runs.
pub(crate) struct Sorter<'a> {
    keys: &'a Keys,
    folder: &'a Path,
    entries: Vec<(ShortId, u64)>,
    /// Entries that are kept in memory.
    most: usize,
    /// Most bits of an entry's number.
    value_bits: u32,
    runs: Vec<Arc<Run>>,
}

impl<'a> Sorter<'a> {
    /// Returns a sorter of numbers of at most `value_bits` bits that takes about `memory` bytes and writes
    /// temporary files in `folder`.
    pub(crate) fn new(keys: &'a Keys, folder: &'a Path, memory: u64, value_bits: u32) -> Sorter<'a> {
        let entry = size_of::<(ShortId, u64)>() as u64;
        Sorter {
            keys,
            folder,
            entries: Vec::new(),
            most: (memory / entry).max(16) as usize,
            value_bits,
            runs: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, id: ShortId, value: u64) -> Result<()> {
        if self.entries.len() >= self.most {
            self.spill()?;
        }
        if self.entries.len() == self.entries.capacity() {
            let more = self
                .entries
                .len()
                .clamp(1024.min(self.most), self.most)
                .min(self.most - self.entries.len());
            self.entries.reserve_exact(more.max(1));
        }
        self.entries.push((id, value));
        Ok(())
    }

    fn spill(&mut self) -> Result<()> {
        self.entries.sort_unstable();
        let run = in_some_folder(self.folder, |folder| {
            let mut writer = RunWriter::new(self.keys, folder, false, 0)?;
            writer.begin_entries(self.value_bits)?;
            let mut entries = self.entries.iter();
            entries.try_for_each(|(id, value)| writer.entry(*id, *value))?;
            writer.finish(Vec::new())
        })?;
        self.runs.push(Arc::new(run));
        self.entries.clear();
        // Every run is an open file: they must stay few.
        while let Some(from) = alike(&self.runs) {
            let make = |folder: &Path| merge(self.keys, folder, &self.runs[from..], self.value_bits);
            let merged = in_some_folder(self.folder, make)?;
            self.runs.truncate(from);
            self.runs.push(Arc::new(merged));
        }
        Ok(())
    }

    /// Returns all entries in order, with those of `others`.
    pub(crate) fn finish(mut self, others: Vec<Merged>) -> Result<Merge> {
        self.entries.sort_unstable();
        let mut sources = others;
        sources.extend(self.runs.into_iter().map(Merged::temporary));
        sources.push(Merged::Memory(self.entries.into_iter()));
        Merge::new(sources)
    }
}

/// A sorted source of entries.
pub(crate) enum Merged {
    Memory(std::vec::IntoIter<(ShortId, u64)>),
    /// Returns the next entry.
    Other(Box<NextEntry>),
}

/// Returns the next entry of a sorted source.
type NextEntry = dyn FnMut() -> Result<Option<(ShortId, u64)>>;

impl Merged {
    /// Returns the entries of a temporary run.
    pub(in crate::index) fn temporary(run: Arc<Run>) -> Merged {
        Merged::entries(Entries::of_chunks(run, u64::MAX), 0)
    }

    /// Returns the entries of a run's chunks, with this added to the ordinal of each.
    pub(in crate::index) fn chunks(run: Arc<Run>, add: u64) -> Merged {
        let end = run.trailer.chunks;
        Merged::entries(Entries::of_chunks(run, end), add)
    }

    /// Returns the ids of a run's packs, with this added to each number.
    pub(in crate::index) fn packs(run: Arc<Run>, add: u32) -> Merged {
        Merged::entries(Entries::of_packs(run), add.into())
    }

    fn entries(mut entries: Entries, add: u64) -> Merged {
        Merged::other(move || Ok(entries.next()?.map(|(id, value)| (id, value + add))))
    }

    /// Returns the entries that a function returns one by one.
    pub(crate) fn other(next: impl FnMut() -> Result<Option<(ShortId, u64)>> + 'static) -> Merged {
        Merged::Other(Box::new(next))
    }

    fn next(&mut self) -> Result<Option<(ShortId, u64)>> {
        match self {
            Merged::Memory(entries) => Ok(entries.next()),
            Merged::Other(next) => next(),
        }
    }
}

/// Entries of several sorted sources, in order.
pub(crate) struct Merge {
    sources: Vec<Merged>,
    heads: BinaryHeap<Reverse<(ShortId, u64, usize)>>,
}

impl Merge {
    pub(crate) fn new(mut sources: Vec<Merged>) -> Result<Merge> {
        let mut heads = BinaryHeap::new();
        for (number, source) in sources.iter_mut().enumerate() {
            if let Some((id, value)) = source.next()? {
                heads.push(Reverse((id, value, number)));
            }
        }
        Ok(Merge { sources, heads })
    }

    pub(crate) fn next(&mut self) -> Result<Option<(ShortId, u64)>> {
        let Some(mut head) = self.heads.peek_mut() else {
            return Ok(None);
        };
        let Reverse((id, value, number)) = *head;
        match self.sources[number].next()? {
            Some((next, other)) => *head = Reverse((next, other, number)),
            None => drop(std::collections::binary_heap::PeekMut::pop(head)),
        }
        Ok(Some((id, value)))
    }
}

#[cfg(test)]
mod tests {
    use ibid_format::run::{EntryPageBuilder, Filter, Tables, Trailer};
    use ibid_format::{FileId, MasterKey};

    use super::*;
    use crate::cache::{Kept, SealedWriter};

    /// The folder of temporary files may be deleted, or its disk full, at any time.
    #[test]
    fn entries_are_sorted_without_the_folder_of_temporary_files() {
        let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
        let mut sorter = Sorter::new(&keys, Path::new("/no/such/folder"), 1000, 16);
        // 7919 has no factor in common with 2000, so each id comes once.
        let ids = (0..2000_u64).map(|n| n * 7919 % 2000);
        ids.for_each(|id| sorter.push(ShortId(id.into()), id * 3).unwrap());
        let mut merge = sorter.finish(Vec::new()).unwrap();
        for id in 0..2000_u64 {
            assert_eq!(merge.next().unwrap(), Some((ShortId(id.into()), id * 3)));
        }
        assert_eq!(merge.next().unwrap(), None);
    }

    /// Returns a run of five chunks with a page for each of these entries, whatever they are.
    fn sealed_by_mistake(entries: &[(u128, u64)]) -> Run {
        let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
        let folder = tempfile::tempdir().unwrap();
        let mut file = SealedWriter::new(&keys, folder.path(), false).unwrap();
        file.plain(&Trailer::head()).unwrap();
        for &(id, number) in entries {
            let (mut page, mut plain) = (EntryPageBuilder::new(8), Vec::new());
            page.push(ShortId(id), number, &mut plain);
            page.finish(&mut plain);
            file.seal(&plain).unwrap();
        }
        let count = entries.len() as u64;
        file.section(&vec![0; Filter::len_of(count) as usize]).unwrap();
        let tables = Tables {
            entry_fences: vec![0; entries.len()],
            ..Tables::default()
        };
        file.section(&tables.encode()).unwrap();
        let trailer = Trailer {
            entries: count,
            chunks: 5,
            entry_pages: count as u32,
            value_bits: 8,
            ..Trailer::default()
        };
        file.append(|keys, id, out| trailer.seal(keys, id, out)).unwrap();
        Run::open(file.finish().unwrap()).unwrap()
    }

    /// A writer of entries panics if they are out of order or their numbers too large.
    #[test]
    fn entries_that_no_writer_makes_are_damage_when_a_run_becomes_part_of_another() {
        let read = |entries: &[(u128, u64)]| {
            let mut merge = Merge::new(vec![Merged::chunks(Arc::new(sealed_by_mistake(entries)), 10)])?;
            let mut found = Vec::new();
            while let Some((id, number)) = merge.next()? {
                found.push((id.0, number));
            }
            Ok(found)
        };
        assert_eq!(read(&[(3, 0), (3, 1), (5, 4)]).unwrap(), [(3, 10), (3, 11), (5, 14)]);
        for entries in [[(5, 0), (3, 1)], [(3, 0), (5, 5)]] {
            let error: crate::Error = read(&entries).unwrap_err();
            assert!(matches!(error, crate::Error::Damaged { .. }), "{error}");
        }
    }
}
