//! The thread that keeps a store small.
//!
//! It moves records into blocks once they have come to rest, compresses blocks anew of which little is left, and gives
//! unused space back. While others write it takes a stated part of a processor; once they have paused, it does the
//! rest.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ibid_format::record::{EncoderWatermark, WATERMARK_KEY};

use super::packer::{BlockNumbers, Occasion, Packer};
use super::{Activity, Compacting};
use crate::encode::yield_to_others;
use crate::engine::{Engine, Snapshot, Table};
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

pub(crate) struct Keeper {
    pub(crate) settings: Compacting,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) records: Arc<Records>,
    pub(crate) numbers: Arc<BlockNumbers>,
    pub(crate) writer: WriterHandle,
    pub(crate) activity: Arc<Activity>,
    pub(crate) progress: KeeperProgress,
}

/// What a keeper has done.
#[derive(Debug, Default)]
pub(crate) struct KeeperProgress {
    /// How many bytes were committed when records were moved last.
    packed_at: u64,
    /// How many bytes had left their blocks when these were looked through last, and how many were in blocks; [`None`]
    /// before the first time.
    looked_at: Option<(u64, u64)>,
}

impl Keeper {
    /// Does all that it does in a pause of the writers.
    pub(crate) fn settle(mut self) -> Result<(), Error> {
        let activity = self.activity.clone();
        let _hurried = activity.hurry();
        self.step(self.activity.bytes(), true).map(drop)
    }

    /// Works until the store closes or the engine fails. The store works without it, and only grows.
    pub(crate) fn run(mut self) {
        yield_to_others();
        self.work();
        self.activity.has_no_keeper();
    }

    fn work(&mut self) {
        let tick = self.settings.idle_after.clamp(TICK_MIN, TICK);
        while !self.activity.rest(tick) {
            let bytes = self.activity.bytes();
            let is_idle = self.activity.is_idle(self.settings.idle_after);
            match self.step(bytes, is_idle) {
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

    /// Does what there is to do. Returns whether that was all.
    fn step(&mut self, bytes: u64, is_idle: bool) -> Result<bool, Error> {
        let is_due = bytes - self.progress.packed_at >= self.settings.recent_bytes as u64 / 2;
        if !is_idle && !is_due {
            return Ok(false);
        }
        self.progress.packed_at = bytes;
        // To the end: another one's snapshot would stand in the way of giving space back.
        let numbers = self.numbers.clone();
        let mut numbers = numbers.lock();
        let snapshot = self.engine.snapshot()?;
        let examined = self.examined(&*snapshot)?;
        drop(snapshot);
        let recent_from = match is_idle {
            true => u64::MAX,
            false => self.activity.recent_from(self.settings.recent_bytes as u64),
        };
        let below = recent_from.min(examined);
        let is_packed = self.pack(below, is_idle, &mut numbers)?;
        self.reclaim(is_idle)?;
        if is_packed {
            self.activity.was_packed(below);
        }
        Ok(examined >= self.activity.next())
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

    /// Moves the records before `below` into blocks, if there are enough. Returns whether it came to the end.
    fn pack(&mut self, below: u64, is_idle: bool, numbers: &mut u64) -> Result<bool, Error> {
        let moved_out = self.records.moved_out();
        let is_worn = self.are_blocks_worn(moved_out, is_idle);
        let snapshot = self.engine.snapshot()?;
        let mut pace = Pace::new(&self.activity, self.settings);
        let mut go_on = || pace.rest();
        // A keeper that can't keep up compresses in a fifth of the time.
        let occasion = match !is_idle && self.activity.pressure_on_keeper() > 0.0 {
            true => Occasion::Hurry,
            false => Occasion::Background,
        };
        let mut packer = Packer::new(
            &*snapshot,
            &self.records,
            numbers,
            &self.writer,
            (occasion, self.settings.window_bytes),
            &mut go_on,
        );
        let freed = if is_worn {
            let worn = packer.read_worn_blocks()?;
            self.progress.looked_at = Some((moved_out, packer.bytes_in_blocks()));
            worn
        } else {
            Vec::new()
        };
        // Those that are stored whole may still become deltas, and leave a hole in their block.
        let with_whole = is_idle || packer.whole_bytes(below)? > self.settings.recent_bytes as u64;
        let mut after = 0;
        while !packer.has_ended()
            && let Some(last) = packer.read_window(after, below, with_whole)?
        {
            if freed.is_empty() && packer.waiting_bytes() < WORTH_BYTES && !packer.is_long_next() {
                break; // they wait for others
            }
            after = last;
            packer.compress_window()?;
        }
        if after > 0 || !freed.is_empty() {
            packer.finish()?;
        }
        let has_ended = packer.has_ended();
        packer.remove_blocks(freed)?;
        Ok(!has_ended)
    }

    /// Whether it is worth looking through the blocks.
    fn are_blocks_worn(&self, moved_out: u64, is_idle: bool) -> bool {
        let (before, in_blocks) = match self.progress.looked_at {
            Some(looked_at) => looked_at,
            None if is_idle => return self.activity.bytes() > 0,
            None => (0, 0),
        };
        let allowed = match is_idle {
            true => in_blocks / WORN_PART_IDLE,
            false => in_blocks / WORN_PART + WORN_RECENT * self.settings.recent_bytes as u64,
        };
        moved_out > before + allowed
    }

    /// Gives unused space back.
    fn reclaim(&self, is_idle: bool) -> Result<(), Error> {
        let mut pace = Pace::new(&self.activity, self.settings);
        Ok(self.engine.reclaim(is_idle, &mut |_| pace.rest())?)
    }
}

/// Pauses for others.
struct Pace<'a> {
    activity: &'a Activity,
    settings: Compacting,
    began: Instant,
}

impl<'a> Pace<'a> {
    fn new(activity: &'a Activity, settings: Compacting) -> Self {
        Pace {
            activity,
            settings,
            began: Instant::now(),
        }
    }

    /// Pauses, if others write, for as long as the stated part of a processor demands. It may be the end.
    fn rest(&mut self) -> ControlFlow<()> {
        let worked = self.began.elapsed();
        let percent = u32::from(self.settings.percent.clamp(1, 100));
        // Writers that have to wait gain nothing by it.
        let is_waited_for = self.activity.is_hurried() || self.activity.pressure_on_keeper() > 0.0;
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
