//! Writing runs.

use std::path::Path;

use ibid_format::index::IndexedFrame;
use ibid_format::run::{
    BLOCK, EntryPage, EntryPageBuilder, FilterBuilder, FramePageBuilder, PAGE, RunPack, ShortId, Tables, Trailer,
};
use ibid_format::{FileId, Keys};

use super::Run;
use crate::cache::{Kept, SealedWriter};
use crate::{Error, Result};

/// Writes a run: first packs with their frames, then entries in order.
pub(in crate::index) struct RunWriter {
    file: SealedWriter,
    plain: Vec<u8>,
    frames: FramePageBuilder,
    entries: EntryPageBuilder,
    trailer: Trailer,
    tables: Tables,
}

impl RunWriter {
    /// Begins a run in this folder, where it stays or is a file without a name.
    pub(in crate::index) fn new(keys: &Keys, folder: &Path, stays: bool) -> Result<RunWriter> {
        let mut file = SealedWriter::new(keys, folder, stays)?;
        file.plain(&Trailer::head())?;
        Ok(RunWriter {
            file,
            plain: Vec::new(),
            frames: FramePageBuilder::new(),
            entries: EntryPageBuilder::new(0),
            trailer: Trailer::default(),
            tables: Tables::default(),
        })
    }

    /// Returns the ordinal of the first chunk of the next frame.
    pub(in crate::index) fn ordinal(&self) -> u64 {
        self.frames.ordinal()
    }

    /// Adds a pack. Its frames follow; a pack without frames must not be followed by one with frames.
    pub(in crate::index) fn pack(&mut self, pack: RunPack) {
        let first_frame = self.trailer.frames;
        self.tables.packs.push(RunPack { first_frame, ..pack });
    }

    /// Adds a frame of the last pack.
    pub(in crate::index) fn frame(&mut self, frame: &IndexedFrame) -> Result<()> {
        let pack = self.tables.packs.len() as u32 - 1;
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
    pub(in crate::index) fn begin_entries(&mut self, value_bits: u32) -> Result<()> {
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
    pub(in crate::index) fn entry(&mut self, id: ShortId, value: u64) -> Result<()> {
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
    pub(in crate::index) fn finish(mut self, covers: Vec<FileId>) -> Result<Run> {
        if let Some(first) = self.entries.finish(&mut self.plain) {
            self.entry_page(first)?;
        }
        self.trailer.packs = self.tables.packs.len() as u32;
        self.trailer.covers = covers.len() as u32;
        self.tables.covers = covers;
        self.filter()?;
        self.file.section(&self.tables.encode())?;
        self.file.append(|keys, id, out| self.trailer.seal(keys, id, out))?;
        Run::open(self.file.finish()?)
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
