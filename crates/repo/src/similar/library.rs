//! Sketches on the local disk, for repositories with more of them than fit into memory.
//!
//! A [`SketchRun`] stands for sketch files. It has the sketches of each pack by themselves, and leads
//! from the largest features of a chunk to its pack. A new chunk that resembles nothing in memory looks
//! there, and the sketches of the packs that it finds come into memory: the chunks after it probably
//! resemble their neighbours. That takes one page a feature and run, and then a page and a few kilobytes
//! a pack. In memory are only the ids with which pages begin.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use ibid_delta::Sketch;
use ibid_format::run::{
    EntryPage, EntryPageBuilder, PAGE, SKETCH_PACKS_A_PAGE, ShortId, SketchPack, SketchPackPageBuilder, SketchTables,
    SketchTrailer, feature_id, sketch_packs,
};
use ibid_format::sketches::{Run, Sketches};
use ibid_format::{FileId, FileKind, Keys};

use crate::cache::{Kept, SealedFile, SealedWriter};
use crate::index::{EntryOrder, Merge, Merged, Sorter};
use crate::{Error, Result};

/// Bits of a pack's number.
const NUMBER_BITS: u32 = 32;
/// Features of a chunk by which it is found: the largest. Two chunks that share half of their features
/// share one of these with a probability of 15/16.
const FEATURES_FOUND: usize = 4;
/// Packs that are found by one feature, the newest. Features have 32 bits and the largest lie close
/// together, so one of 128 KiB of data leads to a chunk in two million that has nothing else in common.
const POSTING_MAX: usize = 64;
/// If a sketch leads to more packs than this, those to which only one feature leads are there by chance.
const PACKS_BY_ONE_FEATURE: usize = 8;
/// Packs whose sketches are loaded for one chunk, those that most of its features lead to.
const PACKS_AT_ONCE: usize = 2;

/// A run of sketches.
pub(crate) struct SketchRun {
    file: SealedFile,
    trailer: SketchTrailer,
    tables: SketchTables,
}

impl Kept for SketchRun {
    const FOLDER: &'static str = "sketches";

    fn open(file: SealedFile) -> Result<SketchRun> {
        file.check(FileKind::SketchRun)?;
        let size = file.size()?;
        let mut sealed = [0; SketchTrailer::LEN];
        file.read_at(&mut sealed, size.saturating_sub(SketchTrailer::LEN as u64))?;
        let trailer = SketchTrailer::open(file.keys(), file.id(), size, &mut sealed).map_err(file.damaged())?;
        let tables = file.section(trailer.tables())?;
        Ok(SketchRun {
            tables: SketchTables::read(&trailer, &tables).map_err(file.damaged())?,
            file,
            trailer,
        })
    }

    fn file(&self) -> &SealedFile {
        &self.file
    }

    fn weight(&self) -> u64 {
        self.trailer.chunks
    }

    fn covers(&self) -> &[FileId] {
        &self.tables.covers
    }
}

impl SketchRun {
    /// Reads the sketches of a pack, by its number in the run.
    fn sketches(&self, number: u32, sealed: &mut Vec<u8>) -> Result<Vec<Run>> {
        let a_page = SKETCH_PACKS_A_PAGE as u32;
        let page = number / a_page;
        let packs = match page < self.trailer.pack_pages() {
            true => self.packs(page)?,
            false => Vec::new(),
        };
        let pack = packs.get((number % a_page) as usize);
        let pack = pack.ok_or_else(|| self.no_such(number))?;
        let values = self.file.block(pack.offset, pack.sealed as usize, sealed)?;
        let sketches = Sketches::from_values(values).map_err(self.file.damaged())?;
        Ok(sketches.runs)
    }

    /// Reads a page of packs.
    fn packs(&self, page: u32) -> Result<Vec<SketchPack>> {
        let read = |plain: &[u8]| sketch_packs(&self.trailer, page, plain);
        self.file.page(self.tables.pack_pages[page as usize], read)
    }

    /// Calls `each` with all packs, in the order of their numbers.
    fn each_pack(&self, mut each: impl FnMut(SketchPack) -> Result<()>) -> Result<()> {
        (0..self.trailer.pack_pages()).try_for_each(|page| self.packs(page)?.into_iter().try_for_each(&mut each))
    }

    /// Calls `found` with the numbers of the packs that have chunks with this feature.
    fn find(&self, feature: u32, found: impl FnMut(u32)) -> Result<()> {
        let page = |number| self.trailer.entry_page(number);
        self.find_entries(&self.tables.entry_fences, feature_id(feature), page, found)
    }

    /// Calls `found` with the numbers of the places with sketches of a pack.
    fn numbers_of(&self, pack: FileId, found: impl FnMut(u32)) -> Result<()> {
        let page = |number| self.trailer.pack_id_page(number);
        self.find_entries(&self.tables.pack_fences, ShortId::of_file(pack), page, found)
    }

    fn find_entries(
        &self,
        fences: &[u32],
        id: ShortId,
        page: impl Fn(u32) -> u64,
        mut found: impl FnMut(u32),
    ) -> Result<()> {
        let start = fences.partition_point(|&fence| fence < id.fence()).saturating_sub(1);
        let end = fences.partition_point(|&fence| fence <= id.fence());
        for number in start..end {
            let page = self.file.page(page(number as u32), EntryPage::read)?;
            page.find(id, id).for_each(|(_, number)| found(number as u32));
        }
        Ok(())
    }

    fn no_such(&self, number: u32) -> Error {
        self.file.damaged()(ibid_format::Error::OutOfRange {
            field: "pack of a run of sketches",
            min: 0,
            max: self.trailer.packs.into(),
            found: number.into(),
        })
    }
}

/// Makes a run of sketches.
pub(crate) struct SketchRunWriter<'a> {
    file: SealedWriter,
    /// Numbers of packs by feature, and by their ids.
    features: Sorter<'a>,
    ids: Sorter<'a>,
    packs: SketchPackPageBuilder,
    tables: SketchTables,
    count: u32,
    chunks: u64,
    /// Runs that become part of this one, each with the number of its first pack.
    absorbed: Vec<(Arc<SketchRun>, u32)>,
}

impl<'a> SketchRunWriter<'a> {
    /// Begins a run in this folder, where it stays or is a file without a name. Sorting takes about
    /// `memory` bytes.
    pub(crate) fn new(keys: &'a Keys, folder: &'a Path, stays: bool, memory: u64) -> Result<SketchRunWriter<'a>> {
        let mut file = SealedWriter::new(keys, folder, stays)?;
        file.plain(&SketchTrailer::head())?;
        Ok(SketchRunWriter {
            file,
            features: Sorter::new(keys, folder, memory - memory / 8, NUMBER_BITS),
            ids: Sorter::new(keys, folder, memory / 8, NUMBER_BITS),
            packs: SketchPackPageBuilder::new(),
            tables: SketchTables::default(),
            count: 0,
            chunks: 0,
            absorbed: Vec::new(),
        })
    }

    /// Adds the sketches of a pack, and returns its number.
    fn pack(&mut self, id: FileId, time: i64, values: &[u8]) -> Result<u32> {
        let number = self.count;
        self.count = number.checked_add(1).ok_or(Error::TooMuch {
            what: "the number of packs with sketches",
            limit: u32::MAX.into(),
        })?;
        let offset = self.file.position();
        self.file.seal(values)?;
        let pack = SketchPack {
            id,
            time,
            offset,
            sealed: (self.file.position() - offset) as u32,
        };
        let mut page = Vec::new();
        if self.packs.push(&pack, &mut page) {
            self.tables.pack_pages.push(self.file.position());
            self.file.seal(&page)?;
        }
        Ok(number)
    }

    /// Makes another run part of this one. Call it before any file is added.
    pub(crate) fn absorb(&mut self, run: Arc<SketchRun>) -> Result<()> {
        let mut sealed = Vec::new();
        self.absorbed.push((run.clone(), self.count));
        self.tables.covers.extend_from_slice(&run.tables.covers);
        self.chunks += run.trailer.chunks;
        run.each_pack(|pack| {
            let values = run.file.block(pack.offset, pack.sealed as usize, &mut sealed)?;
            self.pack(pack.id, pack.time, values).map(drop)
        })
    }

    /// Adds the sketches of a file.
    pub(crate) fn add(&mut self, file: FileId, sketches: Sketches) -> Result<()> {
        let Sketches { time, runs } = sketches;
        let mut packs: Vec<(FileId, Vec<Run>)> = Vec::new();
        let mut numbers = HashMap::new();
        for run in runs {
            let number = *numbers.entry(run.pack).or_insert(packs.len());
            if number == packs.len() {
                packs.push((run.pack, Vec::new()));
            }
            packs[number].1.push(run);
        }
        for (id, runs) in packs {
            self.chunks += runs.iter().map(|run| run.chunks.len() as u64).sum::<u64>();
            let sketches = Sketches { time, runs };
            let values = sketches.to_values();
            let values = values.map_err(Error::damaged("the sketches of a pack"))?;
            let number = self.pack(id, time.seconds, &values)?;
            self.ids.push(ShortId::of_file(id), number.into())?;
            for features in sketches.runs.iter().flat_map(|run| run.chunks.iter()) {
                for &feature in features.iter().take(FEATURES_FOUND) {
                    self.features.push(feature_id(feature), number.into())?;
                }
            }
        }
        self.tables.covers.push(file);
        Ok(())
    }

    /// Ends the run. Of the files that it stands for, `is_there` says which still exist.
    pub(crate) fn finish(self, is_there: impl Fn(&FileId) -> bool) -> Result<SketchRun> {
        let SketchRunWriter {
            mut file,
            features,
            ids,
            mut packs,
            mut tables,
            count,
            chunks,
            absorbed,
        } = self;
        let mut page = Vec::new();
        if packs.finish(&mut page) {
            tables.pack_pages.push(file.position());
            file.seal(&page)?;
        }
        let sketches_end = file.position();
        let bits = u32::BITS - count.saturating_sub(1).leading_zeros();
        let of_absorbed = |entries: fn(Arc<SketchRun>, u32) -> Merged| {
            let sources = absorbed.iter().map(|(run, first)| entries(run.clone(), *first));
            sources.collect::<Vec<_>>()
        };
        let mut merge = features.finish(of_absorbed(features_of))?;
        let mut pages = EntryPages::new(bits);
        let mut posting: VecDeque<(ShortId, u64)> = VecDeque::new();
        loop {
            let next = merge.next()?;
            if posting.back().map(|(id, _)| *id) != next.map(|(id, _)| id) {
                for (id, number) in posting.drain(..) {
                    pages.push(id, number, &mut file)?;
                }
            }
            let Some(next) = next else { break };
            if posting.back() == Some(&next) {
                continue;
            }
            // The last have the largest numbers: they are the newest.
            if posting.len() == POSTING_MAX {
                posting.pop_front();
            }
            posting.push_back(next);
        }
        let entries = pages.finish(&mut file, &mut tables.entry_fences)?;
        let mut merge = ids.finish(of_absorbed(packs_of))?;
        let mut pages = EntryPages::new(bits);
        while let Some((id, number)) = merge.next()? {
            pages.push(id, number, &mut file)?;
        }
        pages.finish(&mut file, &mut tables.pack_fences)?;
        tables.covers.retain(is_there);
        let trailer = SketchTrailer {
            sketches_end,
            chunks,
            entries,
            entry_pages: tables.entry_fences.len() as u32,
            packs: count,
            covers: tables.covers.len() as u32,
            pack_id_pages: tables.pack_fences.len() as u32,
        };
        file.section(&tables.encode())?;
        file.append(|keys, id, out| trailer.seal(keys, id, out))?;
        SketchRun::open(file.finish()?)
    }
}

/// Pages of entries being written.
struct EntryPages {
    builder: EntryPageBuilder,
    fences: Vec<u32>,
    plain: Vec<u8>,
    entries: u64,
}

impl EntryPages {
    fn new(bits: u32) -> EntryPages {
        EntryPages {
            builder: EntryPageBuilder::new(bits),
            fences: Vec::new(),
            plain: Vec::new(),
            entries: 0,
        }
    }

    fn push(&mut self, id: ShortId, number: u64, file: &mut SealedWriter) -> Result<()> {
        self.entries += 1;
        let full = self.builder.push(id, number, &mut self.plain);
        full.map_or(Ok(()), |first| self.write(first, file))
    }

    fn write(&mut self, first: ShortId, file: &mut SealedWriter) -> Result<()> {
        self.fences.push(first.fence());
        file.seal(&self.plain)?;
        self.plain.clear();
        Ok(())
    }

    /// Writes the last page, and tells with what the pages begin. Returns the number of entries.
    fn finish(mut self, file: &mut SealedWriter, fences: &mut Vec<u32>) -> Result<u64> {
        if let Some(first) = std::mem::replace(&mut self.builder, EntryPageBuilder::new(1)).finish(&mut self.plain) {
            self.write(first, file)?;
        }
        *fences = self.fences;
        Ok(self.entries)
    }
}

/// Returns what leads from features to packs in a run, with `first` added to each number.
fn features_of(run: Arc<SketchRun>, first: u32) -> Merged {
    let pages = 0..run.trailer.entry_pages;
    entries_of(run, SketchTrailer::entry_page, pages, first)
}

/// Returns what leads from the ids of packs to their numbers in a run, with `first` added to each.
fn packs_of(run: Arc<SketchRun>, first: u32) -> Merged {
    let pages = 0..run.trailer.pack_id_pages;
    entries_of(run, SketchTrailer::pack_id_page, pages, first)
}

fn entries_of(
    run: Arc<SketchRun>,
    position: fn(&SketchTrailer, u32) -> u64,
    mut pages: Range<u32>,
    first: u32,
) -> Merged {
    let mut entries = Vec::new().into_iter();
    let mut order = EntryOrder::new(run.trailer.packs.into());
    Merged::other(move || {
        loop {
            if let Some((id, number)) = entries.next() {
                order.check((id, number)).map_err(run.file.damaged())?;
                return Ok(Some((id, number + u64::from(first))));
            }
            let Some(number) = pages.next() else { return Ok(None) };
            let page = run.file.page(position(&run.trailer, number), EntryPage::read)?;
            entries = page.entries().collect::<Vec<_>>().into_iter();
        }
    })
}

/// Sketches that are on the disk and come into memory as they are needed.
pub(crate) struct Library {
    runs: Vec<Arc<SketchRun>>,
    /// Number of the first pack of each run among all.
    firsts: Vec<u32>,
    /// The pack that was asked for last, and the numbers of the places with its sketches.
    near: Option<(FileId, Vec<u32>)>,
    /// Number of the first chunk that was made of each pack in memory.
    loaded: HashMap<u32, u32>,
    sealed: Vec<u8>,
}

impl Library {
    pub(crate) fn new(runs: Vec<Arc<SketchRun>>) -> Library {
        let (mut firsts, mut count) = (Vec::new(), 0);
        for run in &runs {
            firsts.push(count);
            count += run.trailer.packs;
        }
        Library {
            runs,
            firsts,
            near: None,
            loaded: HashMap::new(),
            sealed: Vec::new(),
        }
    }

    /// Returns the number of chunks with sketches.
    pub(crate) fn chunks(&self) -> u64 {
        self.runs.iter().map(|run| run.trailer.chunks).sum()
    }

    /// Returns the number of pages that are read to look a sketch up.
    pub(crate) fn runs(&self) -> u64 {
        (self.runs.len() * FEATURES_FOUND) as u64
    }

    /// Returns the memory in use, bytes.
    pub(crate) fn memory(&self) -> u64 {
        let of = |tables: &SketchTables| {
            tables.covers.capacity() * 16
                + tables.pack_pages.capacity() * 8
                + (tables.entry_fences.capacity() + tables.pack_fences.capacity()) * 4
        };
        let tables: usize = self.runs.iter().map(|run| of(&run.tables)).sum();
        (tables + self.loaded.capacity() * 16) as u64
    }

    /// Returns the ids of all packs with sketches, ascending.
    pub(crate) fn packs(&self) -> Result<Merge> {
        let of_runs = self.runs.iter().zip(&self.firsts);
        Merge::new(of_runs.map(|(run, first)| packs_of(run.clone(), *first)).collect())
    }

    /// Returns the numbers of the places with sketches of a pack.
    pub(crate) fn numbers_of(&mut self, pack: FileId) -> Result<&[u32]> {
        if self.near.as_ref().is_none_or(|(id, _)| *id != pack) {
            let mut numbers = Vec::new();
            for (run, first) in self.runs.iter().zip(&self.firsts) {
                run.numbers_of(pack, |number| numbers.push(first.saturating_add(number)))?;
            }
            self.near = Some((pack, numbers));
        }
        Ok(self.near.as_ref().map_or(&[], |(_, numbers)| numbers))
    }

    /// Returns all numbers, those whose sketches were written first before the others.
    pub(crate) fn all(&self) -> Result<Vec<u32>> {
        let mut numbers: Vec<(i64, u32)> = Vec::new();
        for (run, first) in self.runs.iter().zip(&self.firsts) {
            let mut number = *first..;
            run.each_pack(|pack| {
                numbers.extend(number.next().map(|number| (pack.time, number)));
                Ok(())
            })?;
        }
        numbers.sort_unstable();
        Ok(numbers.into_iter().map(|(_, number)| number).collect())
    }

    /// Returns the numbers of the packs that the largest features of a sketch lead to, those that most
    /// lead to first.
    pub(crate) fn find(&self, sketch: &Sketch) -> Result<Vec<u32>> {
        let (mut packs, mut of_feature) = (Vec::new(), Vec::new());
        for &feature in sketch.features().iter().take(FEATURES_FOUND) {
            for (run, first) in self.runs.iter().zip(&self.firsts) {
                run.find(feature as u32, |pack| of_feature.push(first.saturating_add(pack)))?;
            }
            // A feature that many chunks of a pack have counts once.
            of_feature.sort_unstable();
            of_feature.dedup();
            packs.append(&mut of_feature);
        }
        packs.sort_unstable();
        let votes = packs.chunk_by(|a, b| a == b).map(|same| (same[0], same.len()));
        let mut votes: Vec<(u32, usize)> = votes.collect();
        if votes.len() > PACKS_BY_ONE_FEATURE {
            votes.retain(|(_, count)| *count > 1);
        }
        // Of packs with as many votes, the newer one.
        votes.sort_unstable_by_key(|&(number, count)| std::cmp::Reverse((count, number)));
        votes.truncate(PACKS_AT_ONCE);
        Ok(votes.into_iter().map(|(number, _)| number).collect())
    }

    /// Returns the number of the first chunk that was made of a pack's sketches, if they were loaded.
    pub(crate) fn loaded(&self, number: u32) -> Option<u32> {
        self.loaded.get(&number).copied()
    }

    /// Reads sketches of a pack. From then on they count as loaded; `first` is the number of their
    /// first chunk.
    pub(crate) fn load(&mut self, number: u32, first: u32) -> Result<Vec<Run>> {
        self.loaded.insert(number, first);
        let at = self.firsts.partition_point(|first| *first <= number) - 1;
        self.runs[at].sketches(number - self.firsts[at], &mut self.sealed)
    }

    /// Returns the sketches of a pack.
    pub(crate) fn sketches_of(&mut self, pack: FileId) -> Result<Vec<Run>> {
        let numbers = self.numbers_of(pack)?.to_vec();
        let mut found = Vec::new();
        for number in numbers {
            found.append(&mut self.load(number, 0)?);
        }
        Ok(found)
    }

    /// Deletes the files that the cache keeps: one of them is damaged.
    pub(crate) fn delete(&self) {
        self.runs.iter().for_each(|run| run.file.delete());
    }
}

/// Returns the number of bytes of a page, the cost of looking a feature up in one run.
pub(crate) const LOOKUP_BYTES: u64 = PAGE as u64;

#[cfg(test)]
mod tests {
    use ibid_format::MasterKey;
    use ibid_format::sketches::Features;
    use ibid_format::tree::Time;

    use super::*;

    /// Returns sketches of a pack: one chunk with these features.
    fn pack(number: u8, features: &[u32]) -> Sketches {
        let mut chunks = Features::default();
        chunks.push(features).unwrap();
        let run = Run {
            pack: FileId([number; 16]),
            offset: 8,
            slot: 0,
            chunks,
        };
        let time = Time { seconds: 0, nanos: 0 };
        Sketches { time, runs: vec![run] }
    }

    #[test]
    fn a_pack_to_which_several_features_lead_is_found_among_newer_ones_that_share_one_by_chance() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
        let mut writer = SketchRunWriter::new(&keys, folder.path(), false, 1 << 20).unwrap();
        let wanted = [900, 800, 700, 600, 500];
        writer.add(FileId::random(), pack(0, &wanted)).unwrap();
        for number in 1..=120 {
            let other = pack(number, &[wanted[usize::from(number) % 4], u32::from(number)]);
            writer.add(FileId::random(), other).unwrap();
        }
        let library = Library::new(vec![Arc::new(writer.finish(|_| true).unwrap())]);
        let find = |features: &[u32]| library.find(&Sketch::of(features.iter().map(|&f| f.into()))).unwrap();
        assert_eq!(find(&wanted), [0]);
        assert_eq!(find(&[900, 700]), [0], "two are enough");
        assert_eq!(find(&[900]), [], "one leads to many");
        assert_eq!(find(&[77]), [77], "and another to one only");
        assert_eq!(find(&[600]).len(), 0);
        assert_eq!(find(&[4321]), []);
    }
}
