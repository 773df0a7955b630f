//! Sketches on the local disk, for repositories with more of them than fit into memory.
//!
//! A [`SketchRun`] stands for sketch files. It has the sketches of each pack by themselves, and leads
//! from the largest features of a chunk to its pack. A new chunk that resembles nothing in memory looks
//! there, and the sketches of the packs that it finds come into memory: the chunks after it probably
//! resemble their neighbours. That takes one page a feature and run, and then a few kilobytes a pack.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use ibid_delta::Sketch;
use ibid_format::run::{EntryPage, EntryPageBuilder, PAGE, SketchPack, SketchTables, SketchTrailer, feature_id};
use ibid_format::sketches::{Run, Sketches};
use ibid_format::{FileId, FileKind, Keys};

use crate::cache::{Kept, SealedFile, SealedWriter};
use crate::index::{EntryOrder, Merged, Sorter};
use crate::{Error, Result};

/// Features of a chunk by which it is found: the largest. Two chunks that share half of their features
/// share one of these with a probability of 15/16.
const FEATURES_FOUND: usize = 4;
/// Chunks that are found by one feature, the newest. Features have 32 bits and the largest lie close
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
    /// Reads the sketches of a pack, by its number in the tables.
    fn sketches(&self, pack: usize, sealed: &mut Vec<u8>) -> Result<Vec<Run>> {
        let SketchPack {
            offset, sealed: length, ..
        } = self.tables.packs[pack];
        let values = self.file.block(offset, length as usize, sealed)?;
        let sketches = Sketches::from_values(values).map_err(self.file.damaged())?;
        Ok(sketches.runs)
    }

    /// Calls `found` with the numbers of the packs that have chunks with this feature.
    fn find(&self, feature: u32, mut found: impl FnMut(usize)) -> Result<()> {
        let id = feature_id(feature);
        let fences = &self.tables.entry_fences;
        let start = fences.partition_point(|&fence| fence < feature).saturating_sub(1);
        let end = fences.partition_point(|&fence| fence <= feature);
        for number in start..end {
            let page = self.page(number as u32)?;
            for (_, chunk) in page.find(id, id) {
                let after = self.tables.packs.partition_point(|pack| u64::from(pack.first) <= chunk);
                found(after.saturating_sub(1));
            }
        }
        Ok(())
    }

    fn page(&self, number: u32) -> Result<EntryPage> {
        self.file.page(self.trailer.entry_page(number), EntryPage::read)
    }
}

/// Makes a run of sketches.
pub(crate) struct SketchRunWriter<'a> {
    file: SealedWriter,
    sorter: Sorter<'a>,
    tables: SketchTables,
    chunks: u64,
    absorbed: Vec<(Arc<SketchRun>, u64)>,
}

impl<'a> SketchRunWriter<'a> {
    /// Begins a run in this folder, where it stays or is a file without a name. Sorting takes about
    /// `memory` bytes.
    pub(crate) fn new(keys: &'a Keys, folder: &'a Path, stays: bool, memory: u64) -> Result<SketchRunWriter<'a>> {
        let mut file = SealedWriter::new(keys, folder, stays)?;
        file.plain(&SketchTrailer::head())?;
        Ok(SketchRunWriter {
            file,
            sorter: Sorter::new(keys, folder, memory, 40),
            tables: SketchTables::default(),
            chunks: 0,
            absorbed: Vec::new(),
        })
    }

    fn pack(&mut self, id: FileId, time: i64, chunks: u64, values: &[u8]) -> Result<()> {
        let beyond = |_| Error::TooMuch {
            what: "the number of sketches",
            limit: u32::MAX.into(),
        };
        let offset = self.file.position();
        self.file.seal(values)?;
        self.tables.packs.push(SketchPack {
            id,
            time,
            offset,
            sealed: (self.file.position() - offset) as u32,
            first: self.chunks.try_into().map_err(beyond)?,
        });
        self.chunks += chunks;
        Ok(())
    }

    /// Makes another run part of this one. Call it before any file is added.
    pub(crate) fn absorb(&mut self, run: Arc<SketchRun>) -> Result<()> {
        let mut sealed = Vec::new();
        self.absorbed.push((run.clone(), self.chunks));
        self.tables.covers.extend_from_slice(&run.tables.covers);
        let ends = run.tables.packs.iter().skip(1).map(|next| next.first.into());
        for (pack, end) in run.tables.packs.iter().zip(ends.chain([run.trailer.chunks])) {
            let values = run.file.block(pack.offset, pack.sealed as usize, &mut sealed)?;
            self.pack(pack.id, pack.time, end.saturating_sub(pack.first.into()), values)?;
        }
        Ok(())
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
            let first = self.chunks;
            let features = runs.iter().flat_map(|run| run.chunks.iter());
            for (chunk, features) in (first..).zip(features) {
                for &feature in features.iter().take(FEATURES_FOUND) {
                    self.sorter.push(feature_id(feature), chunk)?;
                }
            }
            let chunks = runs.iter().map(|run| run.chunks.len() as u64).sum();
            let values = Sketches { time, runs }.to_values();
            let values = values.map_err(Error::damaged("the sketches of a pack"))?;
            self.pack(id, time.seconds, chunks, &values)?;
        }
        self.tables.covers.push(file);
        Ok(())
    }

    /// Ends the run. Of the files that it stands for, `is_there` says which still exist.
    pub(crate) fn finish(self, is_there: impl Fn(&FileId) -> bool) -> Result<SketchRun> {
        let SketchRunWriter {
            mut file,
            sorter,
            mut tables,
            chunks,
            absorbed,
        } = self;
        let mut trailer = SketchTrailer {
            sketches_end: file.position(),
            chunks,
            ..SketchTrailer::default()
        };
        let entries = absorbed
            .into_iter()
            .map(|(run, first)| Merged::other(entries_of(run, first)));
        let mut merge = sorter.finish(entries.collect())?;
        let mut pages = EntryPageBuilder::new(u64::BITS - chunks.saturating_sub(1).leading_zeros());
        let (mut plain, mut posting) = (Vec::new(), Vec::new());
        loop {
            let next = merge.next()?;
            if let (Some((id, _)), Some((other, _))) = (posting.first(), &next)
                && id == other
            {
                posting.extend(next);
                continue;
            }
            // The last have the largest numbers: they are the newest.
            let newest = posting.len().saturating_sub(POSTING_MAX);
            for (id, chunk) in posting.drain(..).skip(newest) {
                trailer.entries += 1;
                if let Some(first) = pages.push(id, chunk, &mut plain) {
                    tables.entry_fences.push(first.fence());
                    file.seal(&plain)?;
                    plain.clear();
                }
            }
            match next {
                Some(next) => posting.push(next),
                None => break,
            }
        }
        if let Some(first) = pages.finish(&mut plain) {
            tables.entry_fences.push(first.fence());
            file.seal(&plain)?;
        }
        tables.covers.retain(is_there);
        trailer.entry_pages = tables.entry_fences.len() as u32;
        trailer.packs = tables.packs.len() as u32;
        trailer.covers = tables.covers.len() as u32;
        file.section(&tables.encode())?;
        file.append(|keys, id, out| trailer.seal(keys, id, out))?;
        SketchRun::open(file.finish()?)
    }
}

/// Returns the entries of a run in order, with `first` added to each chunk.
fn entries_of(
    run: Arc<SketchRun>,
    first: u64,
) -> impl FnMut() -> Result<Option<(ibid_format::run::ShortId, u64)>> + use<> {
    let mut pages = 0..run.trailer.entry_pages;
    let mut entries = Vec::new().into_iter();
    let mut order = EntryOrder::new(run.trailer.chunks);
    move || {
        loop {
            if let Some((id, chunk)) = entries.next() {
                order.check((id, chunk)).map_err(run.file.damaged())?;
                return Ok(Some((id, chunk + first)));
            }
            let Some(number) = pages.next() else { return Ok(None) };
            let page = run.page(number)?;
            entries = page.entries().collect::<Vec<_>>().into_iter();
        }
    }
}

/// Sketches that are on the disk and come into memory as they are needed.
pub(crate) struct Library {
    runs: Vec<Arc<SketchRun>>,
    /// Number of the first pack of each run among all.
    firsts: Vec<u32>,
    /// All packs by their ids, with their numbers.
    by_id: Vec<(FileId, u32)>,
    /// Number of the first chunk that was made of each pack in memory.
    loaded: HashMap<u32, u32>,
    sealed: Vec<u8>,
}

impl Library {
    pub(crate) fn new(runs: Vec<Arc<SketchRun>>) -> Library {
        let (mut firsts, mut by_id, mut count) = (Vec::new(), Vec::new(), 0);
        for run in &runs {
            firsts.push(count);
            by_id.extend(run.tables.packs.iter().map(|pack| pack.id).zip(count..));
            count += run.tables.packs.len() as u32;
        }
        by_id.sort_unstable();
        Library {
            runs,
            firsts,
            by_id,
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
        let packs = self.by_id.capacity() * (size_of::<(FileId, u32)>() + size_of::<SketchPack>());
        let pages: usize = self.runs.iter().map(|run| run.tables.entry_fences.capacity() * 4).sum();
        (packs + pages + self.loaded.capacity() * 16) as u64
    }

    /// Returns whether there are sketches of chunks in this pack.
    pub(crate) fn has(&self, pack: FileId) -> bool {
        self.numbers_of(pack).next().is_some()
    }

    /// Returns the numbers of the places with sketches of a pack.
    pub(crate) fn numbers_of(&self, pack: FileId) -> impl Iterator<Item = u32> + use<'_> {
        let start = self.by_id.partition_point(|(id, _)| *id < pack);
        let same = self.by_id[start..].iter().take_while(move |(id, _)| *id == pack);
        same.map(|(_, number)| *number)
    }

    /// Returns all numbers, those whose sketches were written first before the others.
    pub(crate) fn all(&self) -> Vec<u32> {
        let times = self
            .runs
            .iter()
            .flat_map(|run| run.tables.packs.iter().map(|pack| pack.time));
        let mut numbers: Vec<(i64, u32)> = times.zip(0..).collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|(_, number)| number).collect()
    }

    /// Returns the numbers of the packs that the largest features of a sketch lead to, those that most
    /// lead to first.
    pub(crate) fn find(&self, sketch: &Sketch) -> Result<Vec<u32>> {
        let (mut packs, mut of_feature) = (Vec::new(), Vec::new());
        for &feature in sketch.features().iter().take(FEATURES_FOUND) {
            for (run, first) in self.runs.iter().zip(&self.firsts) {
                run.find(feature as u32, |pack| of_feature.push(first + pack as u32))?;
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
        self.runs[at].sketches((number - self.firsts[at]) as usize, &mut self.sealed)
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
