//! Writing runs.

use std::path::{Path, PathBuf};

use ibid_format::index::IndexedFrame;
use ibid_format::run::{
    BLOCK, EntryPage, EntryPageBuilder, FilterBuilder, FramePageBuilder, PACK_VALUE_BITS, PACKS_A_PAGE, PAGE, PackPage,
    PackPageBuilder, RunPack, ShortId, Tables, Trailer,
};
use ibid_format::{FileId, Keys};

use super::{Run, Sorter};
use crate::cache::{Kept, SealedWriter};
use crate::{Error, Result};

/// Memory for sorting the ids of packs, bytes.
const PACKS_SORTED: u64 = 4 << 20;

/// Writes a run: first packs with their frames, then entries in order.
pub(crate) struct RunWriter {
    keys: Keys,
    folder: PathBuf,
    file: SealedWriter,
    plain: Vec<u8>,
    frames: FramePageBuilder,
    entries: EntryPageBuilder,
    packs: Packs,
    trailer: Trailer,
    tables: Tables,
}

/// Packs of a run that is being written. They follow the entries, so they wait in a temporary file.
#[derive(Default)]
struct Packs {
    pages: PackPageBuilder,
    /// Made once there is a page.
    file: Option<SealedWriter>,
    plain: Vec<u8>,
}

impl RunWriter {
    /// Begins a run in this folder, where it stays or is a file without a name.
    /// `epoch` is the number of the last entry of the prune log.
    pub(crate) fn new(keys: &Keys, folder: &Path, stays: bool, epoch: u64) -> Result<RunWriter> {
        let mut file = SealedWriter::new(keys, folder, stays)?;
        file.plain(&Trailer::head())?;
        Ok(RunWriter {
            keys: keys.clone(),
            folder: folder.to_owned(),
            file,
            plain: Vec::new(),
            frames: FramePageBuilder::new(),
            entries: EntryPageBuilder::new(0),
            packs: Packs::default(),
            trailer: Trailer {
                epoch,
                ..Trailer::default()
            },
            tables: Tables::default(),
        })
    }

    /// Returns the ordinal of the first chunk of the next frame.
    pub(crate) fn ordinal(&self) -> u64 {
        self.frames.ordinal()
    }

    /// Adds a pack. Its frames follow; a pack without frames must not be followed by one with frames.
    pub(crate) fn pack(&mut self, pack: RunPack) -> Result<()> {
        let first_frame = self.trailer.frames;
        self.trailer.packs = self.trailer.packs.checked_add(1).ok_or(Error::TooMuch {
            what: "the number of packs in the index",
            limit: u32::MAX.into(),
        })?;
        let Packs { pages, file, plain } = &mut self.packs;
        let is_full = pages.push(&RunPack { first_frame, ..pack }, plain);
        if is_full.map_err(Error::damaged("a new run"))? {
            let file = match file {
                Some(file) => file,
                None => file.insert(SealedWriter::new(&self.keys, &self.folder, false)?),
            };
            file.seal(plain)?;
            plain.clear();
        }
        Ok(())
    }

    /// Adds a frame of the last pack.
    pub(crate) fn frame(&mut self, frame: &IndexedFrame) -> Result<()> {
        let pack = self.trailer.packs - 1;
        let full = self
            .frames
            .push(pack, frame, &mut self.plain)
            .map_err(Error::damaged("a new run"))?;
        self.trailer.frames = self.trailer.frames.checked_add(1).ok_or(Error::TooMuch {
            what: "the number of frames in the index",
            limit: u32::MAX.into(),
        })?;
        self.trailer.length_max = self.trailer.length_max.max(frame.length);
        self.trailer.depth_max = self.trailer.depth_max.max(frame.depth);
        if let Some(ordinal) = full {
            self.tables.frame_fences.push(ordinal);
            self.seal_plain()?;
        }
        Ok(())
    }

    /// Ends the frames. The numbers of entries have at most this many bits.
    pub(crate) fn begin_entries(&mut self, value_bits: u32) -> Result<()> {
        if let Some(ordinal) = self.frames.finish(&mut self.plain) {
            self.tables.frame_fences.push(ordinal);
            self.seal_plain()?;
        }
        self.trailer.chunks = self.frames.ordinal();
        self.trailer.value_bits = value_bits as u8;
        self.entries = EntryPageBuilder::new(value_bits);
        Ok(())
    }

    /// Adds an entry. Ids must not descend.
    pub(crate) fn entry(&mut self, id: ShortId, value: u64) -> Result<()> {
        self.trailer.entries += 1;
        match self.entries.push(id, value, &mut self.plain) {
            Some(first) => self.entry_page(first),
            None => Ok(()),
        }
    }

    fn entry_page(&mut self, first: ShortId) -> Result<()> {
        self.tables.entry_fences.push(first.fence());
        self.trailer.entry_pages += 1;
        self.seal_plain()
    }

    /// Seals what is in `plain` and adds it to the file.
    fn seal_plain(&mut self) -> Result<()> {
        self.file.seal(&self.plain)?;
        self.plain.clear();
        Ok(())
    }

    /// Ends the run, which stands for these index files.
    pub(crate) fn finish(mut self, covers: Vec<FileId>) -> Result<Run> {
        if let Some(first) = self.entries.finish(&mut self.plain) {
            self.entry_page(first)?;
        }
        self.write_packs()?;
        self.trailer.covers = covers.len() as u32;
        self.tables.covers = covers;
        self.filter()?;
        self.file.section(&self.tables.encode())?;
        self.file.append(|keys, id, out| self.trailer.seal(keys, id, out))?;
        Run::open(self.file.finish()?)
    }

    /// Writes the pages of packs, and those that lead to them from their ids.
    fn write_packs(&mut self) -> Result<()> {
        let Packs { mut pages, file, plain } = std::mem::take(&mut self.packs);
        let mut last = plain;
        pages.finish(&mut last);
        let (mut waiting, mut sealed) = (file, Vec::new());
        let (keys, folder) = (self.keys.clone(), self.folder.clone());
        let mut ids = Sorter::new(&keys, &folder, PACKS_SORTED, PACK_VALUE_BITS);
        let Trailer { packs, frames, .. } = self.trailer;
        for page in 0..self.trailer.pack_pages() {
            let position = u64::from(page) * PAGE as u64;
            let plain = match &mut waiting {
                Some(file) if position < file.position() => {
                    file.read_back(position..position + PAGE as u64, &mut sealed)?
                }
                _ => &last,
            };
            let first = page * PACKS_A_PAGE as u32;
            let count = ((packs - first) as usize).min(PACKS_A_PAGE);
            let read = PackPage::read(plain, count, frames).map_err(Error::damaged("a new run"))?;
            for (number, pack) in (first..).zip(read.packs()) {
                ids.push(ShortId::of_file(pack.id), pack.value(number))?;
            }
            self.file.seal(plain)?;
        }
        let mut ids = ids.finish(Vec::new())?;
        let mut pages = EntryPageBuilder::new(PACK_VALUE_BITS);
        while let Some((id, value)) = ids.next()? {
            if let Some(first) = pages.push(id, value, &mut self.plain) {
                self.pack_id_page(first)?;
            }
        }
        match pages.finish(&mut self.plain) {
            Some(first) => self.pack_id_page(first),
            None => Ok(()),
        }
    }

    fn pack_id_page(&mut self, first: ShortId) -> Result<()> {
        self.tables.pack_fences.push(first.fence());
        self.trailer.pack_id_pages += 1;
        self.seal_plain()
    }

    /// Makes the filter from the pages just written, so that it takes no memory meanwhile.
    fn filter(&mut self) -> Result<()> {
        let mut builder = FilterBuilder::new(self.trailer.entries);
        let (mut filter, mut sealed) = (Vec::new(), Vec::new());
        for number in 0..self.trailer.entry_pages {
            let position = self.trailer.entry_page(number);
            let plain = self.file.read_back(position..position + PAGE as u64, &mut sealed)?;
            let page = EntryPage::read(plain).map_err(Error::damaged(self.file.path().display()))?;
            page.entries().for_each(|(id, _)| builder.push(id, &mut filter));
            while filter.len() > BLOCK {
                self.file.seal(&filter[..BLOCK])?;
                filter.drain(..BLOCK);
            }
        }
        builder.finish(&mut filter);
        self.file.section(&filter)
    }
}
