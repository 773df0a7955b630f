//! Which byte ranges of several bases go into one prefix?
//!
//! One base seldom has everything that a target shares with stored data: a page of a database's
//! log has copies of pages from anywhere in its tables. Several whole bases make a long prefix, and
//! most of it is useless. So the selector samples the target's anchors. Of each base, in the order
//! in which the caller offers them, it selects only the ranges whose anchors the target has and no
//! earlier base had.
//!
//! A base may be offered for many targets. [`RangeSelector::anchors_of`] samples it once for all.

use std::ops::Range;

use crate::codec::LENGTH_MAX;
use crate::error::in_range;
use crate::sample::{Interval, sample};
use crate::window::{FOUND_BY, hash};
use crate::{Backend, Error};

/// Slots searched for an anchor. An anchor that finds no free slot among them is left out, which
/// only crafted data causes.
const PROBES_MAX: usize = 16;

/// How densely a [`RangeSelector`] samples, and how much it selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeSettings {
    /// How densely anchors are sampled.
    pub interval: Interval,
    /// Fewest new anchors for which a base is read, at least 1.
    pub anchors_min: usize,
    /// Bytes selected before and after an anchor: the bytes beside an anchor often match too.
    pub margin: u32,
    /// Largest gap between two ranges that are joined, bytes.
    pub gap_max: u32,
}

impl RangeSettings {
    /// Anchors at one position in 64, at least 4 of them, 2 KiB on either side, gaps of at most
    /// 4 KiB.
    #[must_use]
    pub const fn new() -> RangeSettings {
        RangeSettings {
            interval: Interval::I64,
            anchors_min: 4,
            margin: 2 << 10,
            gap_max: 4 << 10,
        }
    }

    /// Samples anchors at this interval.
    #[must_use]
    pub const fn with_interval(mut self, interval: Interval) -> RangeSettings {
        self.interval = interval;
        self
    }

    /// Passes over a base with fewer new anchors than this. 0 counts as 1.
    #[must_use]
    pub const fn with_anchors_min(mut self, anchors_min: usize) -> RangeSettings {
        self.anchors_min = anchors_min;
        self
    }

    /// Selects so many bytes before and after each anchor.
    #[must_use]
    pub const fn with_margin(mut self, margin: u32) -> RangeSettings {
        self.margin = margin;
        self
    }

    /// Joins ranges that are at most so many bytes apart.
    #[must_use]
    pub const fn with_gap_max(mut self, gap_max: u32) -> RangeSettings {
        self.gap_max = gap_max;
        self
    }
}

impl Default for RangeSettings {
    fn default() -> Self {
        RangeSettings::new()
    }
}

/// The anchors of a base, 8 bytes each: they stand in for its bytes in
/// [`RangeSelector::select_by_anchors`].
#[derive(Debug, Clone)]
pub struct BaseAnchors {
    list: Box<[Anchor]>,
    base_len: u32,
}

impl BaseAnchors {
    /// Memory it holds, bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of_val(&*self.list)
    }
}

/// A sampled position in the lower bits, and a hash of the bytes there in the others. One in 17
/// billion pairs of different windows has the same hash.
#[derive(Debug, Clone, Copy)]
struct Anchor(u64);

/// Bits of a position.
const POSITION_BITS: u32 = 30;
const _: () = assert!(LENGTH_MAX <= 1 << POSITION_BITS, "every position has room");

impl Anchor {
    fn new(window: &[u8; FOUND_BY], at: u32) -> Anchor {
        Anchor(hash(window) >> POSITION_BITS << POSITION_BITS | u64::from(at))
    }

    fn at(self) -> u32 {
        (self.0 & ((1 << POSITION_BITS) - 1)) as u32
    }

    /// Its value in a slot while no base has it.
    fn entry(self) -> u64 {
        self.0 >> POSITION_BITS << POSITION_BITS | SET
    }
}

/// Selects byte ranges of several bases that together have what a target has.
///
/// Offer one base at a time; none is kept. Reuse the selector: its memory, some 28 bytes for each
/// anchor of the target and 12 for each of a base, serves the next target.
///
/// ```
/// use ibid_delta::advanced::RangeSelector;
///
/// # let mut state = 1_u64;
/// # let mut noise = |length: usize| -> Vec<u8> {
/// #     let step = || { state = state.wrapping_mul(6364136223846793005).wrapping_add(1); (state >> 56) as u8 };
/// #     std::iter::repeat_with(step).take(length).collect()
/// # };
/// let (table, heap) = (noise(100_000), noise(100_000));
/// let target = [&table[20_000..28_000], &heap[50_000..60_000]].concat();
///
/// let mut selector = RangeSelector::new();
/// selector.set_target(&target)?;
/// let mut ranges = Vec::new();
/// let mut prefix = Vec::new();
/// for base in [&table, &heap, &table] {
///     selector.select(base, &mut ranges)?;
///     for range in &ranges {
///         prefix.extend_from_slice(&base[range.start as usize..range.end as usize]);
///     }
/// }
/// assert!(selector.uncovered_share() < 0.02);
/// // The needed bytes of both and their margins; offered again, the table has nothing new.
/// assert!(prefix.len() < 18_000 + 4 * 3000);
/// # Ok::<(), ibid_delta::Error>(())
/// ```
#[derive(Debug)]
pub struct RangeSelector {
    backend: Backend,
    settings: RangeSettings,
    positions: Vec<u32>,
    /// Anchors of the target or base that was sampled last.
    sampled: Vec<Anchor>,
    /// The target's anchors, marked [`COVERED`] if a base has them; 0 for a free slot.
    slots: Vec<u64>,
    anchors: usize,
    covered: usize,
    /// New anchors of the last base: position and slot.
    found: Vec<(u32, u32)>,
}

const COVERED: u64 = 1;
const SET: u64 = 2;

impl RangeSelector {
    /// Returns a selector with the default settings and the fastest vector instructions of this
    /// machine.
    #[must_use]
    pub fn new() -> RangeSelector {
        RangeSelector {
            backend: Backend::best(),
            settings: RangeSettings::new(),
            positions: Vec::new(),
            sampled: Vec::new(),
            slots: Vec::new(),
            anchors: 0,
            covered: 0,
            found: Vec::new(),
        }
    }

    /// Replaces the settings. Anchors made at another interval no longer fit.
    #[must_use]
    pub fn with_settings(mut self, settings: RangeSettings) -> RangeSelector {
        self.settings = settings;
        self
    }

    /// Uses these vector instructions. All backends select the same ranges.
    #[must_use]
    pub fn with_backend(mut self, backend: Backend) -> RangeSelector {
        self.backend = backend;
        self
    }

    /// Starts with another target, none of whose anchors is covered.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if it is longer than [`LENGTH_MAX`].
    pub fn set_target(&mut self, target: &[u8]) -> Result<(), Error> {
        in_range("target length", target.len() as u64, 0, LENGTH_MAX)?;
        (self.anchors, self.covered) = (0, 0);
        self.sample(target);
        self.slots.clear();
        self.slots.resize((2 * self.sampled.len()).next_power_of_two(), 0);
        for anchor in &self.sampled {
            let sum = anchor.entry();
            if let Some(slot) = find(&self.slots, sum)
                && self.slots[slot] == 0
            {
                self.slots[slot] = sum;
                self.anchors += 1;
            }
        }
        Ok(())
    }

    /// Finds the anchors of a target or base.
    fn sample(&mut self, data: &[u8]) {
        self.positions.clear();
        sample(self.backend, self.settings.interval, data, 0, &mut self.positions);
        self.sampled.clear();
        let anchors = self.positions.iter().map_while(|&at| {
            let window = data[at as usize..].first_chunk()?;
            Some(Anchor::new(window, at))
        });
        self.sampled.extend(anchors);
    }

    /// Returns the anchors of a base. Any selector with the same interval takes them in place of
    /// the base's bytes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the base is longer than [`LENGTH_MAX`].
    pub fn anchors_of(&mut self, base: &[u8]) -> Result<BaseAnchors, Error> {
        let base_len = in_range("base length", base.len() as u64, 0, LENGTH_MAX)? as u32;
        self.sample(base);
        let list = self.sampled.as_slice().into();
        Ok(BaseAnchors { list, base_len })
    }

    /// Puts into `ranges` the parts of `base` around anchors of the target that no earlier base
    /// had, in ascending order and without overlap, and returns the number of such anchors. If
    /// there are fewer than [`RangeSettings::anchors_min`], it selects nothing, returns 0 and leaves
    /// them uncovered.
    ///
    /// If three quarters of the base or more would be selected, the whole base is one range.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the base is longer than [`LENGTH_MAX`].
    pub fn select(&mut self, base: &[u8], ranges: &mut Vec<Range<u32>>) -> Result<usize, Error> {
        ranges.clear();
        let base_len = in_range("base length", base.len() as u64, 0, LENGTH_MAX)? as u32;
        if self.covered == self.anchors {
            return Ok(0);
        }
        self.sample(base);
        let sampled = std::mem::take(&mut self.sampled);
        let new = self.choose(&sampled, base_len, ranges);
        self.sampled = sampled;
        Ok(new)
    }

    /// Does what [`select`](RangeSelector::select) does with the base that these anchors are of.
    pub fn select_by_anchors(&mut self, base: &BaseAnchors, ranges: &mut Vec<Range<u32>>) -> usize {
        ranges.clear();
        if self.covered == self.anchors {
            return 0;
        }
        self.choose(&base.list, base.base_len, ranges)
    }

    fn choose(&mut self, base: &[Anchor], base_len: u32, ranges: &mut Vec<Range<u32>>) -> usize {
        self.find_new(base);
        if self.found.len() < self.settings.anchors_min.max(1) {
            for &(_, slot) in &self.found {
                self.slots[slot as usize] &= !COVERED;
            }
            return 0;
        }
        self.covered += self.found.len();
        self.join(base_len, ranges);
        self.found.len()
    }

    /// Marks the anchors that this base is the first to have, each at its first position.
    fn find_new(&mut self, base: &[Anchor]) {
        self.found.clear();
        for anchor in base {
            let sum = anchor.entry();
            if let Some(slot) = find(&self.slots, sum)
                && self.slots[slot] == sum
            {
                self.slots[slot] |= COVERED;
                self.found.push((anchor.at(), slot as u32));
            }
        }
    }

    fn join(&self, base_len: u32, ranges: &mut Vec<Range<u32>>) {
        let RangeSettings { margin, gap_max, .. } = self.settings;
        for &(at, _) in &self.found {
            let start = at.saturating_sub(margin);
            let end = base_len.min((at + FOUND_BY as u32).saturating_add(margin));
            match ranges.last_mut() {
                Some(last) if start <= last.end.saturating_add(gap_max) => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        let wanted: u64 = ranges.iter().map(|range| u64::from(range.end - range.start)).sum();
        if 4 * wanted >= 3 * u64::from(base_len) {
            ranges.clear();
            ranges.push(0..base_len);
        }
    }

    /// Returns the share of the target's anchors that no base had so far, from 0 to 1. It is 0 for a
    /// target without anchors, such as constant data.
    #[must_use]
    pub fn uncovered_share(&self) -> f32 {
        if self.anchors == 0 {
            return 0.0;
        }
        (self.anchors - self.covered) as f32 / self.anchors as f32
    }

    /// Memory it holds between calls, bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.positions.capacity() * size_of::<u32>()
            + self.sampled.capacity() * size_of::<Anchor>()
            + self.slots.capacity() * size_of::<u64>()
            + self.found.capacity() * size_of::<(u32, u32)>()
    }
}

impl Default for RangeSelector {
    fn default() -> Self {
        RangeSelector::new()
    }
}

/// Returns the slot of an anchor, or a free one for it.
#[inline(always)]
fn find(slots: &[u64], sum: u64) -> Option<usize> {
    let mask = slots.len() - 1;
    let first = (sum >> POSITION_BITS) as usize;
    (0..PROBES_MAX)
        .map(|step| (first + step) & mask)
        .find(|&slot| slots[slot] & !COVERED == sum || slots[slot] == 0)
}
