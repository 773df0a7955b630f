//! Emptying the packs that go: frames are moved as they are, opened and sealed again, or their chunks are stored
//! again.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use ibid_format::pack::{FrameSummary, PackBuilder, PackKind};
use ibid_format::{FileId, SEAL_OVERHEAD};

use super::PruneSummary;
use super::moved::Moved;
use super::plan::Plan;
use crate::index::{LoadedIndex, NumberSet, Pack, Unlisted, each_unlisted};
use crate::ingest::Again;
use crate::layout::{folder, name_in, new_id};
use crate::read::{Ahead, FrameSource};
use crate::rehearsal::Inexact;
use crate::{Error, ProgressCounters, Repository, Result, SnapshotInfo, Warning};

/// Memory that finding what chunks resemble, and encoding them, gets before the frames that are read for it, bytes.
const ENCODE_MIN: u64 = 120 << 20;

/// Moves frames into new packs: of metadata, of whole frames, and of deltas, which seldom live as long.
struct Moving<'a> {
    repository: &'a Repository,
    from: FrameSource<'a>,
    /// Fetches what is moved, if the storage is far.
    ahead: Option<&'a Ahead>,
    /// Memory of a frame.
    plain: Vec<u8>,
    epoch: u64,
    /// With the numbers that these packs have in `moved`.
    open: [Option<(PackBuilder, u32)>; 3],
    unlisted: Unlisted,
    moved: Moved,
    summary: &'a mut PruneSummary,
}

impl Repository {
    /// Moves the frames that are kept as they are out of the packs that go. Returns where they are now, and the
    /// packs that can go: not those of which a frame can't be read, which the monitor is told of.
    pub(super) fn repack(
        &self,
        loaded: &LoadedIndex,
        plan: &Plan,
        summary: &mut PruneSummary,
    ) -> Result<(Moved, Vec<FileId>)> {
        let counters = &self.monitor.counters;
        let total = plan.estimate.moved + plan.estimate.encoded_anew;
        counters.bytes_total.store(total, Ordering::Relaxed);
        counters.totals_final.store(true, Ordering::Relaxed);
        let from = FrameSource {
            files: &self.files,
            loaded,
            cache: None,
            keeps: false,
        };
        let ahead = self.files.storage.is_remote().then(|| Ahead::new(self.memory / 16));
        let mut moving = Moving {
            repository: self,
            from,
            ahead: ahead.as_ref(),
            plain: Vec::new(),
            epoch: loaded.state.number,
            open: [None, None, None],
            unlisted: Unlisted::new(self.memory),
            moved: Moved::new(&self.scratch()),
            summary,
        };
        let goes = match &ahead {
            Some(ahead) => ahead.while_fetching(from, || moving.packs(plan))?,
            None => moving.packs(plan)?,
        };
        Ok((moving.finish()?, goes))
    }

    /// Stores the chunks again that are in frames which go and are not moved. Some packs were
    /// [fetched](Repository::fetch_to_encode). Returns whether the memory suffices for that.
    ///
    /// # Errors
    /// Damage of what is to be read. What was stored before it is listed, and is a copy.
    pub(super) fn encode_anew(
        &self,
        mut loaded: LoadedIndex,
        mut plan: Plan,
        snapshots: &[SnapshotInfo],
        summary: &mut PruneSummary,
    ) -> Result<bool> {
        if self.files.rehearsal.is_some() {
            return self.rehearse_encoding(&loaded, &plan);
        }
        let mut hidden = NumberSet::default();
        for frame in 0..loaded.index.stored_frames() {
            // New deltas against what only serves as a base would have to be encoded anew again.
            if !plan.moves(frame) || !plan.facts.is_needed(frame)? {
                hidden.insert(frame);
            }
        }
        let unneeded = plan.facts.unneeded;
        loaded.index.hide(hidden);
        let cache = read_cache(self.memory);
        let everything = self.loaded()?;
        let beside = cache + everything.index.bytes();
        let again = Again {
            reader: self.reader_ahead(&everything, cache).looking_again(self),
            unneeded: Mutex::new(unneeded),
            snapshots,
            beside,
        };
        let Some(stored) = self.store_again(loaded, again)? else {
            return Ok(false);
        };
        summary.encoded_anew += stored.bytes;
        summary.packs_written += stored.packs;
        summary.written += stored.stored;
        Ok(true)
    }

    /// Counts about what it takes to store chunks again.
    fn rehearse_encoding(&self, loaded: &LoadedIndex, plan: &Plan) -> Result<bool> {
        let Some(rehearsal) = &self.files.rehearsal else {
            return Ok(true);
        };
        rehearsal.doubt(Inexact::Encodes);
        let everything = self.loaded()?;
        let reader = self.reader_ahead(&everything, read_cache(self.memory));
        let frames: Vec<u32> = plan.anew.iter().collect();
        reader.plan(&frames);
        reader.rehearse_bases(&self.monitor)?;
        let (mut left, full) = (plan.written_anew, u64::from(self.config.pack_size));
        while left > 0 {
            rehearsal.spare_put(left.min(full));
            left -= left.min(full);
        }
        // Without what would be stored again, these packs are still needed here, and stay.
        let goes = plan.goes.iter().filter(|&&pack| {
            let mut frames = loaded.index.frames_of(pack);
            frames.any(|frame| plan.anew.contains(frame))
        });
        rehearsal.spare_deletes(goes.count() as u64);
        Ok(true)
    }

    /// Lists the packs that no trusted index file lists, if all their frames count.
    pub(super) fn list_whole_packs(&self, loaded: &LoadedIndex) -> Result<()> {
        let (mut unlisted, epoch) = (Unlisted::new(self.memory), loaded.state.number);
        each_unlisted(loaded, &self.files, &self.monitor, |pack| {
            if unlisted.add(pack, false) {
                unlisted.list(&self.files, epoch, false)?;
            }
            Ok(())
        })?;
        unlisted.list(&self.files, epoch, false).map(drop)
    }
}

/// Returns the part of a memory budget, in bytes, for frames that are read to be encoded anew. A chunk is decoded from
/// frames of several packs, and those of its neighbours are the same: with a sixteenth of 256 MiB, each was decoded
/// several times (12 versions of lnx without the first six: 9.4 s of CPU; with a quarter 2.1 s, and as small).
fn read_cache(memory: u64) -> u64 {
    (memory / 4).min(memory.saturating_sub(ENCODE_MIN)).max(memory / 16)
}

impl Moving<'_> {
    /// Moves what is kept of the packs that go. Returns those that can go.
    fn packs(&mut self, plan: &Plan) -> Result<Vec<FileId>> {
        let (index, monitor) = (&self.from.loaded.index, &self.repository.monitor);
        let moved = |pack| -> Vec<u32> { index.frames_of(pack).filter(|frame| plan.moves(*frame)).collect() };
        let mut goes = Vec::new();
        let mut to_plan = plan.goes.iter();
        for (at, &number) in plan.goes.iter().enumerate() {
            monitor.check_cancelled()?;
            if let Some(ahead) = self.ahead {
                // While one pack is emptied, the next one is fetched.
                let count = if at == 0 { 2 } else { 1 };
                to_plan
                    .by_ref()
                    .take(count)
                    .for_each(|&pack| ahead.plan(self.from, &moved(pack)));
            }
            let pack = index.pack(number);
            let frames = moved(number);
            let emptied = self.pack(&pack, &frames);
            if let Some(ahead) = self.ahead {
                frames.iter().for_each(|&frame| ahead.release(frame));
            }
            match emptied {
                Ok(()) => goes.push(pack.id),
                Err(error) if error.is_fault() => monitor.warn(Warning::Repository { error }),
                Err(error) => return Err(error),
            }
        }
        Ok(goes)
    }

    /// Moves these frames of a pack, ascending.
    fn pack(&mut self, pack: &Pack, frames: &[u32]) -> Result<()> {
        let Some(first) = frames.first() else {
            return Ok(());
        };
        let index = &self.from.loaded.index;
        let directory = index.read_directory(&self.repository.files, index.frame(*first).pack)?;
        let mut listed = directory.frames.iter();
        for &number in frames {
            let index = &self.from.loaded.index;
            if index.is_doubted(number) && index.lost().contains(number) {
                // A keeper does not sign what it found to be false.
                return Err(Error::FalsePack { pack: pack.id });
            }
            let offset = index.frame(number).offset;
            let Some(frame) = listed.find(|frame| frame.offset == offset) else {
                return Err(Error::Misplaced {
                    pack: pack.id,
                    offset,
                    slot: 0,
                });
            };
            let mut plain = std::mem::take(&mut self.plain);
            if self.is_rehearsed(pack) {
                // Of this length, and not read.
                plain.clear();
                plain.resize((frame.sealed as usize).saturating_sub(SEAL_OVERHEAD), 0);
                self.frame(pack, frame, &plain)?;
                self.plain = plain;
                continue;
            }
            let length = match self.ahead.and_then(|ahead| ahead.take(self.from, number, &mut plain)) {
                Some(taken) => taken.length,
                None => {
                    plain = self
                        .repository
                        .files
                        .read_plain_frame(pack, frame.offset, frame.sealed)?;
                    plain.len()
                }
            };
            self.frame(pack, frame, &plain[..length])?;
            self.plain = plain;
        }
        Ok(())
    }

    /// Returns whether the frames of a pack are not read: those of trees are, since they are needed afterwards.
    fn is_rehearsed(&self, pack: &Pack) -> bool {
        let Some(rehearsal) = &self.repository.files.rehearsal else {
            return false;
        };
        if pack.kind == PackKind::Metadata && self.repository.files.copies.is_none() {
            // They are counted as planned, too.
            rehearsal.doubt(Inexact::Again);
        }
        pack.kind == PackKind::Data
    }

    fn frame(&mut self, pack: &Pack, frame: &FrameSummary, plain: &[u8]) -> Result<()> {
        let repository = self.repository;
        let class = match (pack.kind, frame.depth) {
            (PackKind::Metadata, _) => 0,
            (PackKind::Data, 0) => 1,
            (PackKind::Data, _) => 2,
        };
        let (open, number) = self.open[class].get_or_insert_with(|| {
            let id = new_id();
            (
                PackBuilder::new(&repository.files.keys, id, pack.kind),
                self.moved.number(id),
            )
        });
        let offset = open.len() as u32;
        open.add(plain, &frame.blobs, frame.depth, &frame.bases);
        self.moved.add((pack.id, frame.offset), (*number, offset))?;
        ProgressCounters::add(&repository.monitor.counters.bytes, frame.sealed.into());
        match self.open[class].take_if(|(open, _)| open.is_full(repository.config.pack_size)) {
            Some((full, _)) => self.store(full),
            None => Ok(()),
        }
    }

    fn store(&mut self, builder: PackBuilder) -> Result<()> {
        let (bytes, pack) = builder.finish();
        let files = &self.repository.files;
        let name = name_in(folder::PACKS, pack.id);
        match (&files.rehearsal, pack.kind) {
            (Some(rehearsal), PackKind::Data) => {
                let from = pack.frames.last().map_or(0, |frame| frame.offset + frame.sealed);
                rehearsal.put_pack(&name, &bytes, from.into());
            }
            _ => files.put_pack(&pack, &bytes)?,
        }
        files.keep_pack(pack.kind, pack.id, &bytes);
        self.summary.packs_written += 1;
        self.summary.written += pack.size;
        ProgressCounters::add(&self.repository.monitor.counters.stored, pack.size);
        if self.unlisted.add(pack, false) {
            self.unlisted.list(files, self.epoch, false)?;
        }
        Ok(())
    }

    /// Stores and lists the packs that are not full, and returns what was moved.
    fn finish(mut self) -> Result<Moved> {
        for (open, _) in std::mem::take(&mut self.open).into_iter().flatten() {
            self.store(open)?;
        }
        self.unlisted.list(&self.repository.files, self.epoch, false)?;
        Ok(self.moved)
    }
}
