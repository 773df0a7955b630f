//! Stores the frames of damaged packs that still open in new packs, byte for byte, and lists these.

use std::collections::{BTreeMap, HashMap, HashSet};

use ibid_format::frame::{self, Blob};
use ibid_format::pack::{FrameSummary, PackBuilder, PackKind, PackSummary};
use ibid_format::{ChunkId, FileId};

use super::Repairing;
use super::examine::DamagedPack;
use crate::index::{Frame, Pack, Unlisted, each_unlisted};
use crate::layout::{folder, name_in, new_id};
use crate::{Error, Result};

/// Ids of a frame's chunks by their slots, for frames by their positions in a pack.
type Ids = HashMap<FileId, HashMap<u32, BTreeMap<u16, ChunkId>>>;

/// New packs being filled.
pub(super) struct Salvage {
    open: [Option<PackBuilder>; 2],
    /// Packs that are durable, or would be.
    unlisted: Unlisted,
    /// The index files that list them.
    index_files: Vec<FileId>,
}

impl Salvage {
    fn new(memory: u64) -> Salvage {
        Salvage {
            open: [None, None],
            unlisted: Unlisted::new(memory),
            index_files: Vec::new(),
        }
    }
}

impl Repairing<'_> {
    /// Stores all frames of these packs that open in new packs, and lists these in index files. Returns the
    /// packs of which no frame that opens is left out.
    pub(super) fn salvage(&mut self, damaged: Vec<DamagedPack>) -> Result<Vec<DamagedPack>> {
        let ids = self.ids_from_index(&damaged)?;
        let mut salvage = Salvage::new(self.repository.memory);
        let mut salvaged = Vec::new();
        for pack in damaged {
            self.monitor.check_cancelled()?;
            match self.summaries(&pack, &ids)? {
                Some(frames) => {
                    for summary in &frames {
                        self.report.salvaged_frames += 1;
                        self.report.salvaged_bytes += u64::from(summary.sealed);
                        self.store_again(&mut salvage, &pack.pack, summary)?;
                    }
                    salvaged.push(pack);
                }
                None => {
                    let problem = format!("{}; no index file says what else is in it", pack.problem);
                    self.leave(name_in(folder::PACKS, pack.pack.id), problem);
                }
            }
        }
        self.store_open(&mut salvage)?;
        self.list_unlisted(&mut salvage)?;
        self.write_index(&mut salvage)?;
        Ok(salvaged)
    }

    /// Stores all frames of these packs that can be decoded in new packs, too, and lists these. Returns the index files
    /// that do so.
    pub(super) fn move_out(&mut self, packs: &[u32]) -> Result<Vec<FileId>> {
        let mut salvage = Salvage::new(self.repository.memory);
        let loaded = self.loaded.clone();
        for &number in packs {
            self.monitor.check_cancelled()?;
            let pack = loaded.index.pack(number);
            let directory = match loaded.index.read_directory(&self.repository.files, number) {
                Ok(directory) => directory,
                // What is in it is not listed any more: the writer stores it again.
                Err(error) if error.is_fault() => continue,
                Err(error) => return Err(error),
            };
            for (frame, summary) in loaded.index.frames_of(number).zip(&directory.frames) {
                if loaded.index.lost().contains(frame) || loaded.index.frame(frame).offset != summary.offset {
                    continue;
                }
                match self.store_again(&mut salvage, &pack, summary) {
                    Err(error) if error.is_fault() => {}
                    stored => stored?,
                }
            }
        }
        self.store_open(&mut salvage)?;
        self.write_index(&mut salvage)?;
        Ok(salvage.index_files)
    }

    /// Stores the packs that are not full.
    fn store_open(&mut self, salvage: &mut Salvage) -> Result<()> {
        let open = std::mem::take(&mut salvage.open);
        let mut open = open.into_iter().flatten();
        open.try_for_each(|pack| self.store(salvage, pack))
    }

    /// Returns the summaries of a pack's frames that open, as a directory has them; none if it is not known
    /// which chunks are in one of them.
    fn summaries(&self, pack: &DamagedPack, ids: &Ids) -> Result<Option<Vec<FrameSummary>>> {
        let mut summaries = Vec::new();
        for ((frame, opens), at) in pack.frames.iter().zip(0..) {
            if !opens {
                continue;
            }
            let summary = match &pack.summary {
                Some(summary) => summary.frames.get(at as usize).cloned(),
                None => {
                    let known = ids.get(&pack.pack.id).and_then(|frames| frames.get(&at));
                    known
                        .map(|ids| self.summary_of(&pack.pack, frame, ids))
                        .transpose()?
                        .flatten()
                }
            };
            match summary {
                Some(summary) => summaries.push(summary),
                None => return Ok(None),
            }
        }
        Ok(Some(summaries))
    }

    /// Returns the summary of a frame whose chunks have these ids; none if it has more chunks, or others.
    pub(super) fn summary_of(
        &self,
        pack: &Pack,
        frame: &Frame,
        ids: &BTreeMap<u16, ChunkId>,
    ) -> Result<Option<FrameSummary>> {
        let files = &self.repository.files;
        let plaintext = files.read_plain_frame(pack, frame.offset, frame.sealed)?;
        let damaged = || Error::damaged(name_in(folder::PACKS, pack.id));
        let lengths = frame::lengths(&plaintext).map_err(damaged())?;
        if !ids.keys().copied().eq((0..=u16::MAX).take(lengths.len())) {
            return Ok(None);
        }
        let blobs = ids.values().zip(lengths);
        let blobs = blobs.map(|(&id, length)| Blob { id, length }).collect();
        let mut bases = Vec::new();
        let mut met = HashSet::new();
        for piece in frame::pieces(&plaintext).map_err(damaged())? {
            if met.insert(piece.base) {
                bases.push(piece.base);
            }
        }
        Ok(Some(FrameSummary {
            offset: frame.offset,
            sealed: frame.sealed,
            depth: frame.depth,
            bases,
            blobs,
        }))
    }

    /// Adds a frame to a new pack.
    fn store_again(&mut self, salvage: &mut Salvage, pack: &Pack, summary: &FrameSummary) -> Result<()> {
        if self.options.dry_run {
            return Ok(());
        }
        let files = &self.repository.files;
        let plaintext = files.read_plain_frame(pack, summary.offset, summary.sealed)?;
        let kind = pack.kind;
        let slot = &mut salvage.open[usize::from(kind == PackKind::Metadata)];
        let open = slot.get_or_insert_with(|| PackBuilder::new(&files.keys, new_id(), kind));
        open.add(&plaintext, &summary.blobs, summary.depth, &summary.bases);
        match slot.take_if(|open| open.is_full(self.repository.config.pack_size)) {
            Some(full) => self.store(salvage, full),
            None => Ok(()),
        }
    }

    /// Stores a new pack.
    fn store(&mut self, salvage: &mut Salvage, pack: PackBuilder) -> Result<()> {
        let (bytes, summary) = pack.finish();
        self.repository.files.put_pack(&summary, &bytes)?;
        self.report.written += bytes.len() as u64;
        self.add_unlisted(salvage, summary)
    }

    /// Adds the packs that no index file lists.
    fn list_unlisted(&mut self, salvage: &mut Salvage) -> Result<()> {
        let (loaded, files, monitor) = (self.loaded.clone(), &self.repository.files, self.monitor);
        each_unlisted(&loaded, files, monitor, |pack| {
            self.report.listed_packs += 1;
            self.add_unlisted(salvage, pack)
        })
    }

    fn add_unlisted(&mut self, salvage: &mut Salvage, pack: PackSummary) -> Result<()> {
        match salvage.unlisted.add(pack, false) {
            true => self.write_index(salvage),
            false => Ok(()),
        }
    }

    /// Writes index files for the packs that are not listed yet.
    fn write_index(&mut self, salvage: &mut Salvage) -> Result<()> {
        let (files, epoch) = (&self.repository.files, self.loaded.state.number);
        let written = salvage.unlisted.list(files, epoch, self.options.dry_run)?;
        if !self.options.dry_run {
            self.report.written += written.iter().map(|(_, size)| size).sum::<u64>();
        }
        salvage.index_files.extend(written.into_iter().map(|(id, _)| id));
        Ok(())
    }

    /// Returns the ids of the chunks in packs whose directories can't be read, from the index files.
    fn ids_from_index(&self, damaged: &[DamagedPack]) -> Result<Ids> {
        let silent = damaged.iter().filter(|pack| pack.summary.is_none());
        let mut wanted: HashSet<FileId> = silent.map(|pack| pack.pack.id).collect();
        let mut found = Ids::new();
        if wanted.is_empty() {
            return Ok(found);
        }
        for (id, _) in self.repository.files.list(folder::INDEX)? {
            self.monitor.check_cancelled()?;
            let file = match self.repository.files.read_index(id) {
                Ok(file) => file,
                Err(error) if error.is_fault() => continue,
                Err(error) => return Err(error),
            };
            if !self.repository.files.believes_index(id) {
                continue;
            }
            let packs: Vec<_> = file.packs().collect();
            // Each pack as the first file has it that lists it.
            let here: HashSet<FileId> = packs
                .iter()
                .map(|pack| pack.id)
                .filter(|id| wanted.remove(id))
                .collect();
            for entry in file.entries().filter(|_| !here.is_empty()) {
                let at = packs.partition_point(|pack| pack.first_frame <= entry.frame);
                let Some(pack) = at.checked_sub(1).map(|at| &packs[at]) else {
                    continue;
                };
                if here.contains(&pack.id) {
                    let frame = found.entry(pack.id).or_default();
                    let frame = frame.entry(entry.frame - pack.first_frame).or_default();
                    frame.insert(entry.slot, entry.id);
                }
            }
        }
        Ok(found)
    }
}
