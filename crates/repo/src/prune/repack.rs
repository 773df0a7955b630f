//! Moving frames into new packs as they are: opened and sealed again, not decoded.

use ibid_format::pack::{FrameSummary, PackBuilder, PackKind, PackSummary};
use ibid_format::{FileId, index as index_file};

use super::plan::Plan;
use super::{PruneSummary, sweep};
use crate::index::{Frame, LoadedIndex, Pack};
use crate::layout::{folder, name_in};
use crate::{Error, ProgressCounters, Repository, Result, Warning};

/// A frame that was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moved {
    pub(super) from: (FileId, u32),
    pub(super) to: (FileId, u32),
}

/// Packs that are being filled: of metadata, of whole frames, and of deltas, which seldom live as long.
#[derive(Default)]
struct OpenPacks([Option<PackBuilder>; 3]);

impl Repository {
    /// Moves the frames that are kept out of the packs that go. Returns where they are now, and the packs that
    /// can go: not those of which a frame can't be read, which the monitor is told of.
    pub(super) fn repack(
        &self,
        loaded: &LoadedIndex,
        plan: &Plan,
        summary: &mut PruneSummary,
    ) -> Result<(Vec<Moved>, Vec<FileId>)> {
        let counters = &self.monitor.counters;
        counters
            .bytes_total
            .store(plan.estimate.moved, std::sync::atomic::Ordering::Relaxed);
        counters.totals_final.store(true, std::sync::atomic::Ordering::Relaxed);
        let mut open = OpenPacks::default();
        let (mut moved, mut packs, mut goes) = (Vec::new(), Vec::new(), Vec::new());
        for &number in &plan.goes {
            self.monitor.check_cancelled()?;
            let pack = loaded.index.pack(number);
            let kept = loaded
                .index
                .frames_of(number)
                .filter(|frame| plan.kept.contains(*frame));
            let kept: Vec<Frame> = kept.map(|frame| loaded.index.frame(frame)).collect();
            let frames = match self.open_frames(&pack, &kept) {
                Ok(frames) => frames,
                Err(error) if error.is_fault() => {
                    self.monitor.warn(Warning::Repository { error });
                    continue;
                }
                Err(error) => return Err(error),
            };
            goes.push(pack.id);
            for (listed, plain) in frames {
                let class = match (pack.kind, listed.depth) {
                    (PackKind::Metadata, _) => 0,
                    (PackKind::Data, 0) => 1,
                    (PackKind::Data, _) => 2,
                };
                let slot = &mut open.0[class];
                let builder =
                    slot.get_or_insert_with(|| PackBuilder::new(&self.files.keys, FileId::random(), pack.kind));
                let offset = builder.len() as u32;
                builder.add(&plain, &listed.blobs, listed.depth, &listed.bases);
                moved.push(Moved {
                    from: (pack.id, listed.offset),
                    to: (builder.id(), offset),
                });
                ProgressCounters::add(&counters.bytes, listed.sealed.into());
                if builder.is_full(self.config.pack_size)
                    && let Some(full) = slot.take()
                {
                    packs.push(self.put_pack(full, summary)?);
                    self.list_if_many(&mut packs, loaded.state.number)?;
                }
            }
        }
        for rest in open.0.into_iter().flatten() {
            packs.push(self.put_pack(rest, summary)?);
        }
        self.put_index_files(&packs, loaded.state.number)?;
        moved.sort_unstable();
        Ok((moved, goes))
    }

    /// Returns frames of a pack, their seals opened.
    fn open_frames(&self, pack: &Pack, frames: &[Frame]) -> Result<Vec<(FrameSummary, Vec<u8>)>> {
        if frames.is_empty() {
            return Ok(Vec::new());
        }
        let directory = self.files.read_directory(pack.id, pack.size)?;
        let mut listed = directory.frames.into_iter();
        let mut opened = Vec::with_capacity(frames.len());
        for frame in frames {
            let Some(listed) = listed.find(|listed| (listed.offset, listed.sealed) == (frame.offset, frame.sealed))
            else {
                return Err(Error::Misplaced {
                    pack: pack.id,
                    offset: frame.offset,
                    slot: 0,
                });
            };
            let mut sealed = vec![0; listed.sealed as usize];
            let (plain, _) = self.files.read_frame(pack, listed.offset, &mut sealed)?;
            let plain = plain.map_err(Error::damaged(format!("pack {} at offset {}", pack.id, listed.offset)))?;
            sealed.truncate(plain.end);
            sealed.drain(..plain.start);
            opened.push((listed, sealed));
        }
        Ok(opened)
    }

    fn put_pack(&self, builder: PackBuilder, summary: &mut PruneSummary) -> Result<PackSummary> {
        let (bytes, pack) = builder.finish();
        self.files.storage.put(&name_in(folder::PACKS, pack.id), &[&bytes])?;
        if let Some(copies) = self.files.copies.as_ref().filter(|_| pack.kind == PackKind::Metadata) {
            copies.put(folder::PACKS, pack.id, &bytes);
        }
        summary.packs_written += 1;
        summary.written += pack.size;
        ProgressCounters::add(&self.monitor.counters.stored, pack.size);
        Ok(pack)
    }

    /// Writes an index file if the packs that none lists have many chunks.
    fn list_if_many(&self, packs: &mut Vec<PackSummary>, epoch: u64) -> Result<()> {
        let chunks: usize = packs
            .iter()
            .flat_map(|pack| &pack.frames)
            .map(|frame| frame.blobs.len())
            .sum();
        if chunks >= sweep::listed_at_once(self.memory) {
            self.put_index_files(packs, epoch)?;
            packs.clear();
        }
        Ok(())
    }

    /// Writes index files of these packs.
    pub(super) fn put_index_files(&self, packs: &[PackSummary], epoch: u64) -> Result<()> {
        let mut rest = packs;
        while !rest.is_empty() {
            let most = sweep::listed_at_once(self.memory);
            let mut chunks = 0;
            let fits = |pack: &&PackSummary| {
                chunks += pack.frames.iter().map(|frame| frame.blobs.len()).sum::<usize>();
                chunks <= most
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let id = FileId::random();
            let bytes = index_file::encode(&self.files.keys, id, epoch, &rest[..count])
                .map_err(Error::damaged("the new index"))?;
            self.files.storage.put(&name_in(folder::INDEX, id), &[&bytes])?;
            rest = &rest[count..];
        }
        Ok(())
    }

    /// Lists the packs that no trusted index file lists, if all their frames count.
    pub(super) fn list_whole_packs(&self, loaded: &LoadedIndex) -> Result<()> {
        let mut packs = Vec::new();
        for &(id, size) in &loaded.unlisted {
            self.monitor.check_cancelled()?;
            if loaded.is_whole(id) {
                match self.files.read_directory(id, size) {
                    Ok(pack) => packs.push(pack),
                    Err(error) if error.is_fault() => {}
                    Err(error) => return Err(error),
                }
                self.list_if_many(&mut packs, loaded.state.number)?;
            }
        }
        self.put_index_files(&packs, loaded.state.number)
    }
}
