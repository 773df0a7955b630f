//! Making runs from what the repository says.

use std::path::Path;
use std::sync::Arc;

use ibid_format::index::IndexedFrame;
use ibid_format::pack::PackSummary;
use ibid_format::run::{RunPack, ShortId};
use ibid_format::{ChunkId, FileId};

use super::run::{Merged, Run, RunWriter, Sorter};
use crate::Result;
use crate::scratch::Scratch;

/// Bits of an ordinal, at most.
const ORDINAL_BITS: u32 = 48;

/// A run being made: packs first, in any order of calls to the methods that add them.
pub(super) struct Building<'a> {
    writer: RunWriter,
    sorter: Sorter<'a>,
    /// Runs that become part of this one, each with the ordinal at which it begins.
    absorbed: Vec<(Arc<Run>, u64)>,
    /// Packs without frames, which come last.
    empty: Vec<RunPack>,
    covers: Vec<FileId>,
}

impl<'a> Building<'a> {
    /// Begins a run in this folder: one that stays in the cache, or a temporary one.
    /// `epoch` is the number of the last entry of the prune log.
    pub(super) fn new(scratch: &'a Scratch, folder: &'a Path, stays: bool, epoch: u64) -> Result<Building<'a>> {
        let keys = &scratch.files.keys;
        Ok(Building {
            writer: RunWriter::new(keys, folder, stays, epoch)?,
            sorter: Sorter::new(keys, folder, scratch.limits.sorted, ORDINAL_BITS),
            absorbed: Vec::new(),
            empty: Vec::new(),
            covers: Vec::new(),
        })
    }

    /// Makes another run part of this one. Call it before any pack is added.
    pub(super) fn absorb(&mut self, run: Arc<Run>) -> Result<()> {
        self.absorbed.push((run.clone(), self.writer.ordinal()));
        self.covers.extend_from_slice(&run.tables.covers);
        let mut frames = Frames::new(&run);
        run.each_pack(|pack, end| {
            if end == pack.first_frame {
                self.empty.push(pack);
                return Ok(());
            }
            self.writer.pack(pack)?;
            (pack.first_frame..end).try_for_each(|_| self.writer.frame(&frames.next()?))
        })
    }

    /// Adds a pack with its frames. Returns the ordinal of its first chunk.
    pub(super) fn pack(&mut self, pack: &RunPack, frames: &[IndexedFrame]) -> Result<u64> {
        let ordinal = self.writer.ordinal();
        if frames.is_empty() {
            self.empty.push(*pack);
            return Ok(ordinal);
        }
        self.writer.pack(*pack)?;
        frames.iter().try_for_each(|frame| self.writer.frame(frame))?;
        Ok(ordinal)
    }

    /// Adds the entry of a chunk.
    pub(super) fn entry(&mut self, id: &ChunkId, ordinal: u64) -> Result<()> {
        self.sorter.push(ShortId::of(id), ordinal)
    }

    /// Adds a pack with all its chunks.
    pub(super) fn directory(&mut self, summary: &PackSummary) -> Result<()> {
        let frames: Vec<IndexedFrame> = summary.frames.iter().map(IndexedFrame::from).collect();
        let pack = RunPack {
            id: summary.id,
            kind: summary.kind,
            size: summary.size,
            first_frame: 0,
        };
        let first = self.pack(&pack, &frames)?;
        let blobs = summary.frames.iter().flat_map(|frame| &frame.blobs);
        (first..)
            .zip(blobs)
            .try_for_each(|(ordinal, blob)| self.entry(&blob.id, ordinal))
    }

    /// Records that the run stands for an index file.
    pub(super) fn covers(&mut self, id: FileId) {
        self.covers.push(id);
    }

    /// Ends the run. Of the index files that it stands for, `is_there` says which still exist.
    pub(super) fn finish(mut self, is_there: impl Fn(&FileId) -> bool) -> Result<Run> {
        self.empty.iter().try_for_each(|pack| self.writer.pack(*pack))?;
        let chunks = self.writer.ordinal();
        self.writer
            .begin_entries(u64::BITS - chunks.saturating_sub(1).leading_zeros())?;
        let absorbed = self.absorbed.into_iter().map(|(run, first)| Merged::chunks(run, first));
        let mut merge = self.sorter.finish(absorbed.collect())?;
        while let Some((id, ordinal)) = merge.next()? {
            self.writer.entry(id, ordinal)?;
        }
        self.covers.retain(is_there);
        self.covers.sort_unstable();
        self.covers.dedup();
        self.writer.finish(self.covers)
    }
}

/// Makes a temporary run of the packs of another one from their directories, with the frame numbers that
/// they have there. Frames of packs that can't be read have no chunks.
pub(super) fn from_directories(scratch: &Scratch, folder: &Path, run: &Run) -> Result<Run> {
    let mut building = Building::new(scratch, folder, false, run.trailer.epoch)?;
    run.each_pack(|pack, end| {
        scratch.monitor.check_cancelled()?;
        let count = end - pack.first_frame;
        match scratch.files.read_directory(pack.id, pack.size) {
            Ok(summary) if summary.frames.len() == count as usize => building.directory(&summary),
            Err(error) if !error.is_fault() => Err(error),
            _ => {
                let unknown = |n| IndexedFrame {
                    offset: 8 + n,
                    sealed: 1,
                    blobs: 0,
                    depth: 0,
                    length: 0,
                };
                building.pack(&pack, &(0..count).map(unknown).collect::<Vec<_>>())?;
                Ok(())
            }
        }
    })?;
    building.finish(|_| false)
}

/// The frames of a run in order.
struct Frames<'r> {
    run: &'r Run,
    number: u32,
    page: std::vec::IntoIter<IndexedFrame>,
}

impl<'r> Frames<'r> {
    fn new(run: &'r Run) -> Frames<'r> {
        Frames {
            run,
            number: 0,
            page: Vec::new().into_iter(),
        }
    }

    fn next(&mut self) -> Result<IndexedFrame> {
        loop {
            if let Some(frame) = self.page.next() {
                return Ok(frame);
            }
            let page = self.run.read_frames(self.number)?;
            self.number += 1;
            self.page = page.frames().map(|found| found.frame).collect::<Vec<_>>().into_iter();
        }
    }
}
