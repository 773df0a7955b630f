//! Checks every frame of the packs selected for a complete read: seal, compression, and each chunk
//! against its id.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use ibid_format::pack::PackSummary;

use super::checking::{Cause, Checking};
use super::order::{Fingerprint, Plan, Turn, Turns};
use crate::error::BaseFault;
use crate::index::{Frame, Place};
use crate::read::{FrameReader, Opened};
use crate::{Error, ProgressCounters, Result};

/// Buffers of one reading thread.
#[derive(Default)]
struct Reading {
    reader: FrameReader,
    /// Scratch memory for the ids of a frame.
    ids: Vec<u8>,
    /// The pack directory read most recently for a comparison.
    directory: Option<PackSummary>,
}

/// Plans frames some time before their turn, where the storage is far.
#[derive(Default)]
struct Planning {
    /// Frames that had their turn, and that were planned.
    turns: usize,
    planned: usize,
}

impl Planning {
    /// Number of frames that are planned together. At least as many are planned at any time.
    const GROUP: usize = 512;

    /// Notes that a frame has its turn. Returns frames to plan, if it is time.
    fn go_on(&mut self, turns: &Turns) -> Result<Option<Vec<u32>>> {
        self.turns += 1;
        if self.planned >= self.turns + Planning::GROUP {
            return Ok(None);
        }
        self.planned += 2 * Planning::GROUP;
        turns.foresee(2 * Planning::GROUP).map(Some)
    }
}

impl Checking<'_> {
    /// Reads all frames of the selected packs, in an order in which few frames are decoded twice.
    pub(super) fn frames(&self, plan: Plan, chosen: &[bool]) -> Result<()> {
        let is_read = |number| {
            let frame = self.loaded.index.frame(number);
            chosen[frame.pack as usize] && !self.loaded.index.is_cut_off(&frame)
        };
        let turns = Turns::new(plan)?;
        if self.repository.files.rehearsal.is_some() {
            return self.rehearse_frames(&turns, is_read);
        }
        let planning = Mutex::new(Planning::default());
        let work = || {
            let mut reading = Reading::default();
            while let Some(turn) = turns.next()? {
                if self.monitor.is_cancelled() {
                    turns.stop();
                    return Ok(());
                }
                if self.reader.fetches_ahead() {
                    let mut planning = planning.lock().expect("no holder of this lock panics");
                    if let Some(mut frames) = planning.go_on(&turns)? {
                        frames.retain(|&number| is_read(number));
                        self.reader.plan(&frames);
                    }
                }
                if is_read(turn.frame) {
                    let frame = self.loaded.index.frame(turn.frame);
                    self.frame(&turn, &frame, &mut reading)?;
                    ProgressCounters::add(&self.monitor.counters.bytes, u64::from(frame.sealed));
                    self.bytes_read.fetch_add(frame.sealed.into(), Ordering::Relaxed);
                    self.reader.release(turn.frame);
                }
            }
            Ok(())
        };
        let frames = self.loaded.index.stored_frames() as usize;
        // What is fetched ahead, other threads wait for.
        let waits = self.repository.files.storage.is_remote() && !self.reader.fetches_ahead();
        self.reader
            .while_fetching(|| self.side_by_side(frames, waits, || turns.stop(), work))
    }

    /// Plans what would be read, as its threads do.
    fn rehearse_frames(&self, turns: &Turns, is_read: impl Fn(u32) -> bool) -> Result<()> {
        loop {
            let mut frames = turns.foresee(2 * Planning::GROUP)?;
            if frames.is_empty() {
                return self.reader.rehearse_bases(self.monitor);
            }
            frames.retain(|&number| is_read(number));
            self.reader.plan(&frames);
        }
    }

    fn frame(&self, turn: &Turn<'_>, frame: &Frame, reading: &mut Reading) -> Result<()> {
        let keys = &self.repository.files.keys;
        let number = turn.frame;
        let Reading { reader, ids, directory } = reading;
        let opened = if turn.is_base {
            reader.open(&self.reader, number, None)
        } else {
            reader.open_last(&self.reader, number)
        };
        let opened = match opened {
            Ok(opened) => opened,
            // What it is encoded against is whole, as far as anyone knows.
            Err(error) if error.is_archived() => return Ok(()),
            Err(error) if error.is_fault() => {
                return self.unreadable(number, frame, &error);
            }
            Err(error) => return Err(error),
        };
        let Some(named) = turn.named else {
            return Ok(());
        };
        ids.clear();
        ids.extend(
            (0..=u16::MAX)
                .map_while(|slot| opened.id(keys, slot))
                .flat_map(|id| id.0),
        );
        if Fingerprint::of(keys, ids) != named {
            self.wrong(number, frame, &opened, directory)?;
        }
        Ok(())
    }

    /// Finds the chunks of a frame that differ from its pack's directory, which is read again for
    /// that.
    fn wrong(&self, number: u32, frame: &Frame, opened: &Opened<'_>, last: &mut Option<PackSummary>) -> Result<()> {
        let pack = self.loaded.index.pack(frame.pack);
        let summary = match last.take().filter(|summary| summary.id == pack.id) {
            Some(summary) => summary,
            None => match self.loaded.index.read_directory(&self.repository.files, frame.pack) {
                Ok(summary) => summary,
                Err(error) if error.is_fault() => {
                    return self.unreadable(number, frame, &error);
                }
                Err(error) => return Err(error),
            },
        };
        let (first, _) = self.frames_of(frame.pack);
        let listed = &summary.frames[(number - first) as usize].blobs;
        let mut wrong = 0;
        for (blob, slot) in listed.iter().zip(0u16..) {
            if opened.id(&self.repository.files.keys, slot) != Some(blob.id) {
                wrong += 1;
                let place = Place { frame: number, slot };
                self.damage().add_wrong(&self.scratch, &self.loaded.index, place)?;
            }
        }
        if wrong > 0 {
            let offset = frame.offset;
            let problem = format!("{wrong} chunks of the frame at offset {offset} have other bytes than their ids say");
            self.damage()
                .add_cause((pack.id, offset), Some(number), Cause::Chunks(problem), true);
        }
        *last = Some(summary);
        Ok(())
    }

    /// Records that a frame can't be read, for its own fault or for that of a frame it depends on.
    /// In the second case that frame is blamed, even if this check does not read it.
    fn unreadable(&self, number: u32, frame: &Frame, error: &Error) -> Result<()> {
        let index = &self.loaded.index;
        let mut damage = self.damage();
        let Error::BaseUnreadable { base, fault, .. } = error else {
            damage.frames.insert(number);
            let at = (index.pack(frame.pack).id, frame.offset);
            damage.add_cause(at, Some(number), Cause::frame(frame.offset, error), true);
            return Ok(());
        };
        damage.dependents.insert(number);
        let place = index.find(*base).map(|(_, place)| place);
        let frame = place.map(|place| place.frame);
        match fault {
            BaseFault::Unreadable { pack, offset, error } => {
                damage.add_cause((*pack, *offset), frame, Cause::frame(*offset, error), false);
            }
            BaseFault::Damaged { pack, offset } => {
                let problem = format!("a chunk of the frame at offset {offset} has other bytes than its id says");
                damage.add_cause((*pack, *offset), frame, Cause::Chunks(problem), false);
                if let Some(place) = place {
                    damage.add_wrong(&self.scratch, index, place)?;
                }
            }
            _ => damage.add_unexplained(number, error.problem()),
        }
        Ok(())
    }
}
