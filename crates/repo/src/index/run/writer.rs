//! Writing runs.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ibid_format::index::IndexedFrame;
use ibid_format::run::{
    BLOCK, EntryPage, EntryPageBuilder, FilterBuilder, FramePageBuilder, PAGE, RunPack, Section, ShortId, Tables,
    Trailer, open, seal,
};
use ibid_format::{FileId, Keys};

use super::Run;
use crate::{Error, Result};

/// Bytes gathered before they are written.
const BUFFER: usize = 256 << 10;

/// Writes a run: first packs with their frames, then entries in order.
pub(in crate::index) struct RunWriter {
    file: File,
    /// Where the file is, and where it is to be; none if it has no name.
    path: PathBuf,
    named: Option<PathBuf>,
    keys: Keys,
    id: FileId,
    position: u64,
    buffer: Vec<u8>,
    plain: Vec<u8>,
    frames: FramePageBuilder,
    entries: EntryPageBuilder,
    trailer: Trailer,
    tables: Tables,
}

impl RunWriter {
    /// Begins a run that has no name: it is gone when it is closed.
    pub(in crate::index) fn temporary(keys: &Keys, folder: &Path) -> Result<RunWriter> {
        RunWriter::new(keys, folder, None)
    }

    /// Begins a run that is named `folder/<id>` when it is finished.
    pub(in crate::index) fn named(keys: &Keys, folder: &Path) -> Result<RunWriter> {
        let id = FileId::random();
        RunWriter::new(keys, folder, Some((id, folder.join(id.to_string()))))
    }

    fn new(keys: &Keys, folder: &Path, named: Option<(FileId, PathBuf)>) -> Result<RunWriter> {
        let id = named.as_ref().map_or_else(FileId::random, |(id, _)| *id);
        let path = folder.join(format!("tmp-{id}"));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|source| Error::local("make", &path, source))?;
        let writer = RunWriter {
            file,
            path,
            named: named.map(|(_, path)| path),
            keys: keys.clone(),
            id,
            position: 0,
            buffer: Trailer::head(),
            plain: Vec::new(),
            frames: FramePageBuilder::new(),
            entries: EntryPageBuilder::new(0),
            trailer: Trailer::default(),
            tables: Tables::default(),
        };
        if writer.named.is_none() {
            // Whatever happens now, nothing is left behind.
            std::fs::remove_file(&writer.path).map_err(|source| Error::local("unlink", &writer.path, source))?;
        }
        Ok(writer)
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
        let position = self.position + self.buffer.len() as u64;
        seal(&self.keys, self.id, position, &self.plain, &mut self.buffer);
        self.plain.clear();
        if self.buffer.len() >= BUFFER {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let written = self.file.write_all(&self.buffer);
        written.map_err(|source| Error::local("write", &self.path, source))?;
        self.position += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Ends the run, which stands for these index files. Its memory is that of a run that was opened.
    pub(in crate::index) fn finish(mut self, covers: Vec<FileId>) -> Result<Run> {
        if let Some(first) = self.entries.finish(&mut self.plain) {
            self.entry_page(first)?;
        }
        self.write()?;
        self.trailer.packs = self.tables.packs.len() as u32;
        self.trailer.covers = covers.len() as u32;
        self.tables.covers = covers;
        self.filter()?;
        let tables = self.tables.encode();
        self.section(self.trailer.tables(), &tables)?;
        self.trailer.seal(&self.keys, self.id, &mut self.buffer);
        self.write()?;
        if let Some(path) = self.named.take() {
            // Not synced: a run that a crash leaves incomplete does not open.
            std::fs::rename(&self.path, &path).map_err(|source| Error::local("name", &path, source))?;
            self.path = path;
        }
        let file = self
            .file
            .try_clone()
            .map_err(|source| Error::local("use", &self.path, source))?;
        Run::open(file, self.path.clone(), &self.keys, self.id)
    }

    /// Makes the filter from the pages just written, so that it takes no memory meanwhile.
    fn filter(&mut self) -> Result<()> {
        let mut builder = FilterBuilder::new(self.trailer.entries);
        let (mut filter, mut page) = (Vec::new(), vec![0; PAGE]);
        let section = self.trailer.filter();
        let mut blocks = section.blocks();
        for number in 0..self.trailer.entry_pages {
            let position = self.trailer.entry_page(number);
            let failed = |source| Error::local("read", &self.path, source);
            self.file.read_exact_at(&mut page, position).map_err(failed)?;
            let plain = open(&self.keys, self.id, position, &mut page);
            let entries = plain.and_then(EntryPage::read);
            for (id, _) in entries.map_err(Error::damaged(self.path.display()))?.entries() {
                builder.push(id, &mut filter);
            }
            while filter.len() > BLOCK {
                self.block(&mut blocks, &filter[..BLOCK])?;
                filter.drain(..BLOCK);
            }
        }
        builder.finish(&mut filter);
        filter
            .chunks(BLOCK)
            .try_for_each(|block| self.block(&mut blocks, block))
    }

    fn block(&mut self, blocks: &mut impl Iterator<Item = Range<u64>>, plain: &[u8]) -> Result<()> {
        let position = blocks.next().expect("as many as the section has").start;
        seal(&self.keys, self.id, position, plain, &mut self.buffer);
        self.write()
    }

    fn section(&mut self, section: Section, plain: &[u8]) -> Result<()> {
        let mut blocks = section.blocks();
        plain.chunks(BLOCK).try_for_each(|block| self.block(&mut blocks, block))
    }
}

impl Drop for RunWriter {
    fn drop(&mut self) {
        if self.named.is_some() {
            // It was not finished.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
