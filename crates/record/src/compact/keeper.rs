//! The thread that keeps a store small.
//!
//! It moves records into blocks once they have come to rest, compresses blocks anew of which little is left, and gives
//! unused space back. While others write it takes a stated part of a processor; once they have paused, it does the
//! rest.
//!
//! Its thread yields to all others on the machine. If these leave it nothing, what it has not done grows until writers
//! have to wait for it. Then another thread takes over, which does not yield.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ibid_format::record::{EncoderWatermark, WATERMARK_KEY};

use super::packer::{BlockNumbers, Occasion, Packer, Worn};
use super::{Activity, Compacting};
use crate::encode::yield_to_others;
use crate::engine::{Engine, Snapshot, Table, Unused};
use crate::error::Error;
use crate::read::records::Records;
use crate::write::handle::WriterHandle;

/// How often it looks whether there is something to do, at least and at most.
const TICK: Duration = Duration::from_millis(100);
const TICK_MIN: Duration = Duration::from_millis(1);
/// The longest pause for others at once.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Less than so many bytes of records are not worth a block of their own.
const WORTH_BYTES: usize = 256 << 10;
/// Blocks are looked through again when this part of what they had has left them since the last time, by bytes before
/// compression: in a pause of the writers; and otherwise, when in addition so many times the recent bytes have left.
const WORN_PART_IDLE: u64 = 16;
const WORN_PART: u64 = 6;
const WORN_RECENT: u64 = 2;
/// Another keeper takes over at this pressure: three quarters of the bodies wait that may.
const TAKEN_OVER: f64 = 0.5;
/// Blocks that are compressed anew in one step have so many times the recent bytes.
const WORN_AT_ONCE: u64 = 4;

/// For whom a keeper works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptFor {
    /// For later: nothing waits for it. It ends what it does when writers have to wait.
    Later,
    /// For writers that have to wait.
    Writers,
    /// For a caller that waits until all is done.
    Caller,
}

pub(crate) struct Keeper {
    pub(crate) works_for: KeptFor,
    pub(crate) settings: Compacting,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) records: Arc<Records>,
    pub(crate) numbers: Arc<BlockNumbers>,
    pub(crate) writer: WriterHandle,
    pub(crate) activity: Arc<Activity>,
    pub(crate) progress: Arc<Mutex<KeeperProgress>>,
}

/// What keepers have done and found.
#[derive(Debug, Default)]
pub(crate) struct KeeperProgress {
    /// How many bytes were committed when records were moved last.
    packed_at: u64,
    /// The last look through all blocks.
    looked: Option<Look>,
    /// The same, if only those were to be found then of which most has left.
    looked_in_a_hurry: Option<Look>,
    /// Blocks that were found not worth keeping then, and are still to be compressed anew. In a large store these are
    /// many, and new records must not wait for all of them.
    worn: VecDeque<Worn>,
}

/// What was found when blocks were looked through.
#[derive(Debug, Clone, Copy)]
struct Look {
    /// How many bytes had left their blocks.
    moved_out: u64,
    /// How many were in blocks.
    in_blocks: u64,
}

impl Keeper {
    /// Does all that it does in a pause of the writers. Calls `progress` with the number of bytes of records compressed
    /// since its last call; it may stop the work. Returns whether it did.
    pub(crate) fn settle(self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<ControlFlow<()>, Error> {
        let _hurried = self.activity.hurry();
        let mut stopped = ControlFlow::Continue(());
        loop {
            self.step(self.activity.bytes(), true, &mut |bytes| {
                if stopped.is_continue() {
                    stopped = progress(bytes);
                }
                stopped
            })?;
            if stopped.is_break() || self.progress().worn.is_empty() {
                return Ok(stopped);
            }
        }
    }

    fn progress(&self) -> MutexGuard<'_, KeeperProgress> {
        // Whatever it says, no record is lost by it.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until the store closes or the engine fails. The store works without it, and only grows.
    pub(crate) fn run(self) {
        if self.works_for == KeptFor::Later {
            yield_to_others();
        }
        self.work();
        self.activity.has_no_keeper();
    }

    fn work(&self) {
        let tick = self.settings.idle_after.clamp(TICK_MIN, TICK);
        while !self.activity.rest(tick) {
            let bytes = self.activity.bytes();
            let is_idle = self.activity.is_idle(self.settings.idle_after);
            let do_writers_wait = self.activity.pressure_on_keeper() > TAKEN_OVER;
            if do_writers_wait != (self.works_for == KeptFor::Writers) {
                if !do_writers_wait && is_idle && self.activity.wait(bytes) {
                    return;
                }
                continue;
            }
            match self.step(bytes, is_idle, &mut |_| ControlFlow::Continue(())) {
                // Nothing more can be done until something is committed.
                Ok(true) if is_idle && self.activity.wait(bytes) => return,
                Ok(_) => {}
                // Readers and verification report damage. Writers must not wait for what can't be done.
                Err(Error::Damaged { .. }) => {
                    self.activity.has_no_keeper();
                    if self.activity.wait(bytes) {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }

    /// Does what there is to do, and a part of what is left of earlier steps. Calls `watched` with the number of bytes
    /// of records compressed since its last call; it may end the step. Returns whether that was all.
    fn step(&self, bytes: u64, is_idle: bool, watched: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<bool, Error> {
        // To the end: no other one may make blocks or give space back meanwhile.
        let mut numbers = self.numbers.lock();
        let progress = &mut *self.progress();
        let is_due = bytes.saturating_sub(progress.packed_at) >= self.settings.recent_bytes as u64 / 2;
        let do_writers_wait = self.works_for == KeptFor::Writers;
        if !is_idle && !is_due && !do_writers_wait && progress.worn.is_empty() {
            return Ok(false);
        }
        progress.packed_at = bytes;
        let snapshot = self.engine.snapshot()?;
        let examined = self.examined(&*snapshot)?;
        drop(snapshot);
        let recent_from = match is_idle {
            // Not what comes meanwhile, of which there may be no end.
            true => self.activity.next(),
            false => self.activity.recent_from(self.settings.recent_bytes as u64),
        };
        let below = recent_from.min(examined);
        let is_packed = self.pack(below, is_idle, &mut numbers, progress, watched)?;
        self.reclaim(is_idle, watched)?;
        if is_packed {
            self.activity.was_packed(below);
        }
        Ok(examined >= self.activity.next() && progress.worn.is_empty())
    }

    /// Returns the first record that is not moved because the encoder has not examined it.
    fn examined(&self, read: &dyn Snapshot) -> Result<u64, Error> {
        if !self.activity.has_encoder() {
            return Ok(u64::MAX);
        }
        let mut watermark = Ok(EncoderWatermark::FIRST);
        read.get(Table::Meta, WATERMARK_KEY, &mut |value| {
            watermark = EncoderWatermark::decode(value);
        })?;
        let watermark = watermark.map_err(|error| Error::damaged(Table::Meta, WATERMARK_KEY, error))?;
        Ok(watermark.next)
    }

    /// Moves the records before `below` into blocks, if there are enough, together with those of some worn blocks.
    /// Returns whether it came to the end.
    fn pack(
        &self,
        below: u64,
        is_idle: bool,
        numbers: &mut u64,
        progress: &mut KeeperProgress,
        watched: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<bool, Error> {
        let moved_out = self.records.moved_out();
        let mut pace = self.pace();
        let mut go_on = |bytes| {
            watched(bytes)?;
            pace.rest()
        };
        // A keeper that can't keep up compresses in a fifth of the time.
        let occasion = match self.works_for {
            KeptFor::Writers => Occasion::Hurry,
            KeptFor::Later | KeptFor::Caller if !is_idle && self.activity.pressure_on_keeper() > 0.0 => Occasion::Hurry,
            KeptFor::Later | KeptFor::Caller => Occasion::Background,
        };
        let mut packer = Packer::new(
            &*self.engine,
            &self.records,
            numbers,
            &self.writer,
            (occasion, self.settings.window_bytes),
            &mut go_on,
        );
        let in_a_hurry = occasion == Occasion::Hurry;
        let last_look = match in_a_hurry {
            true => progress.looked_in_a_hurry,
            false => progress.looked,
        };
        if progress.worn.is_empty() && self.are_blocks_worn(last_look, moved_out, is_idle) {
            progress.worn = packer.worn_blocks()?;
            if !packer.has_ended() {
                let in_blocks = packer.bytes_in_blocks();
                progress.looked_in_a_hurry = Some(Look { moved_out, in_blocks });
                if !in_a_hurry {
                    progress.looked = progress.looked_in_a_hurry;
                }
            }
        }
        let worn_bytes = WORN_AT_ONCE * self.settings.recent_bytes as u64;
        let mut worn = packer.read_worn_blocks(&mut progress.worn, worn_bytes.max(1))?;
        // Those that are stored whole may still become deltas, and leave a hole in their block.
        let with_whole = is_idle || packer.whole_bytes(below)? > self.settings.recent_bytes as u64;
        let mut after = 0;
        while !packer.has_ended()
            && let Some(last) = packer.read_window(after, below, with_whole)?
        {
            if worn.is_empty() && packer.waiting_bytes() < WORTH_BYTES && !packer.is_long_next() {
                break; // they wait for others
            }
            after = last;
            packer.compress_window()?;
            if !packer.has_ended() {
                self.activity.was_packed(last);
            }
        }
        if after > 0 || !worn.is_empty() {
            packer.finish()?;
        }
        let has_ended = packer.has_ended();
        if has_ended {
            // Of these it is not known which are done. The others are not there any more next time.
            worn.append(&mut progress.worn);
            progress.worn = worn;
        }
        packer.remove_blocks()?;
        Ok(!has_ended)
    }

    /// Whether it is worth looking through the blocks.
    fn are_blocks_worn(&self, last_look: Option<Look>, moved_out: u64, is_idle: bool) -> bool {
        let (before, in_blocks) = match last_look {
            Some(look) => (look.moved_out, look.in_blocks),
            None if is_idle => return self.activity.bytes() > 0,
            None => (0, 0),
        };
        let allowed = match is_idle {
            true => in_blocks / WORN_PART_IDLE,
            false => in_blocks / WORN_PART + WORN_RECENT * self.settings.recent_bytes as u64,
        };
        moved_out > before + allowed
    }

    fn pace(&self) -> Pace<'_> {
        Pace {
            activity: &self.activity,
            settings: self.settings,
            works_for: self.works_for,
            began: Instant::now(),
        }
    }

    /// Gives unused space back.
    fn reclaim(&self, is_idle: bool, watched: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<(), Error> {
        let mut pace = self.pace();
        let mut go_on = |_| {
            watched(0)?;
            pace.rest()
        };
        let unused = if is_idle { Unused::Any } else { Unused::Much };
        Ok(self.engine.reclaim(unused, &mut go_on)?)
    }
}

/// Pauses for others.
struct Pace<'a> {
    activity: &'a Activity,
    settings: Compacting,
    works_for: KeptFor,
    began: Instant,
}

impl Pace<'_> {
    /// Pauses, if others write, for as long as the stated part of a processor demands. It may be the end.
    fn rest(&mut self) -> ControlFlow<()> {
        let worked = self.began.elapsed();
        let percent = u32::from(self.settings.percent.clamp(1, 100));
        let pressure = self.activity.pressure_on_keeper();
        if pressure > TAKEN_OVER && self.works_for == KeptFor::Later {
            return ControlFlow::Break(());
        }
        // Those who wait gain nothing by pauses.
        let is_waited_for = self.activity.is_hurried() || pressure > 0.0;
        let is_alone = is_waited_for || self.activity.is_idle(self.settings.idle_after);
        let pause = match is_alone {
            true => Duration::ZERO,
            false => (worked * (100 - percent) / percent).min(PAUSE_MAX),
        };
        let ended = self.activity.rest(pause);
        self.began = Instant::now();
        if ended {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}
