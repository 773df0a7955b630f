//! Which stretches of which bases are worth reading into a prefix?
//!
//! One base seldom has all that a target shares with what is stored: a page of a database's log has
//! copies of pages from anywhere in its tables. Whole bases together make a long prefix, most of
//! which is of no use. So: the target's anchors are what is to be covered, and of each base, in the
//! order of preference, only the stretches count whose anchors the target has and no base before
//! had.
//!
//! A base that is scattered over a file is offered for one target after another. Its anchors can be
//! kept: then it is looked through once.

use std::ops::Range;

use crate::codec::LENGTH_MAX;
use crate::error::in_range;
use crate::sample::{Interval, sample};
use crate::window::{FOUND_BY, hash};
use crate::{Backend, Error};

/// Slots that are looked at for an anchor. One that finds no room in these is left out, which only
/// data made for it brings about.
const PROBES_MAX: usize = 16;

/// How finely [`Cover`] looks, and how much it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoverSettings {
    /// How densely anchors are sampled.
    pub interval: Interval,
    /// A base with fewer new anchors than this is not worth reading. At least 1.
    pub anchors_min: usize,
    /// Bytes that are taken before and after an anchor: changed ones are like what stands beside
    /// the unchanged.
    pub margin: u32,
    /// Stretches that are at most so many bytes apart are joined.
    pub gap_max: u32,
}

impl Default for CoverSettings {
    /// One position in 64, 4 anchors, 2 KiB on either side, 4 KiB between.
    fn default() -> Self {
        CoverSettings {
            interval: Interval::I64,
            anchors_min: 4,
            margin: 2 << 10,
            gap_max: 4 << 10,
        }
    }
}

/// What [`Cover`] has to know of a base: 8 bytes for each of its anchors.
#[derive(Debug, Clone)]
pub struct Anchors {
    list: Box<[Anchor]>,
    base_len: u32,
}

impl Anchors {
    /// Bytes of memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of_val(&*self.list)
    }
}

/// A sampled position in the lower bits, and a hash of what stands there in the others: of 17
/// billion pairs that differ one looks as if it did not.
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

    /// What it is known by, while it is not covered.
    fn entry(self) -> u64 {
        self.0 >> POSITION_BITS << POSITION_BITS | SET
    }
}

/// Chooses stretches of bases that together have what a target has.
///
/// Bases are offered one at a time, and not kept. Keep the cover itself: its memory, some 28 bytes
/// for each anchor of the target and 12 for each of a base, serves for the next target.
///
/// ```
/// use ibid_delta::Cover;
///
/// # let mut state = 1_u64;
/// # let mut noise = |length: usize| -> Vec<u8> {
/// #     std::iter::repeat_with(|| { state = state.wrapping_mul(6364136223846793005).wrapping_add(1); (state >> 56) as u8 }).take(length).collect()
/// # };
/// let (table, heap) = (noise(100_000), noise(100_000));
/// let target = [&table[20_000..28_000], &heap[50_000..60_000]].concat();
///
/// let mut cover = Cover::new();
/// cover.begin(&target)?;
/// let mut stretches = Vec::new();
/// let mut prefix = Vec::new();
/// for base in [&table, &heap, &table] {
///     cover.offer(base, &mut stretches)?;
///     for stretch in &stretches {
///         prefix.extend_from_slice(&base[stretch.start as usize..stretch.end as usize]);
///     }
/// }
/// assert!(cover.uncovered() < 0.02);
/// // What is needed of either, and some beside; the last has nothing new.
/// assert!(prefix.len() < 18_000 + 4 * 3000);
/// # Ok::<(), ibid_delta::Error>(())
/// ```
#[derive(Debug)]
pub struct Cover {
    backend: Backend,
    settings: CoverSettings,
    positions: Vec<u32>,
    /// Of the target or base at hand.
    sampled: Vec<Anchor>,
    /// The target's anchors; [`COVERED`] if a base has the anchor. 0: free.
    slots: Vec<u64>,
    anchors: usize,
    covered: usize,
    /// Of the base at hand: what it has that is new, as position and slot.
    found: Vec<(u32, u32)>,
}

const COVERED: u64 = 1;
const SET: u64 = 2;

impl Cover {
    /// One with the default settings and the fastest vector instructions of this machine.
    #[must_use]
    pub fn new() -> Cover {
        Cover::with_settings(Backend::best(), CoverSettings::default())
    }

    /// One with these settings, that uses these vector instructions. It chooses the same with all
    /// of them.
    #[must_use]
    pub fn with_settings(backend: Backend, settings: CoverSettings) -> Cover {
        Cover {
            backend,
            settings,
            positions: Vec::new(),
            sampled: Vec::new(),
            slots: Vec::new(),
            anchors: 0,
            covered: 0,
            found: Vec::new(),
        }
    }

    /// Takes the anchors of another target, none of which is covered.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if it is longer than [`LENGTH_MAX`].
    pub fn begin(&mut self, target: &[u8]) -> Result<(), Error> {
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

    /// Finds the anchors of what is at hand.
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

    /// The anchors of a base, to be offered in its place as often as one likes: to this cover, or
    /// to others that sample at the same interval.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if it is longer than [`LENGTH_MAX`].
    pub fn anchors(&mut self, base: &[u8]) -> Result<Anchors, Error> {
        let base_len = in_range("base length", base.len() as u64, 0, LENGTH_MAX)? as u32;
        self.sample(base);
        let list = self.sampled.as_slice().into();
        Ok(Anchors { list, base_len })
    }

    /// Puts into `stretches` those parts of `base` that have anchors of the target which no base
    /// before had, ascending and apart, and says how many such anchors there are. If they are
    /// too few, there is no stretch, 0 is returned, and they are as uncovered as before.
    ///
    /// A base that is wanted nearly whole (three quarters) is one stretch.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if it is longer than [`LENGTH_MAX`].
    pub fn offer(&mut self, base: &[u8], stretches: &mut Vec<Range<u32>>) -> Result<usize, Error> {
        stretches.clear();
        let base_len = in_range("base length", base.len() as u64, 0, LENGTH_MAX)? as u32;
        if self.covered == self.anchors {
            return Ok(0);
        }
        self.sample(base);
        let sampled = std::mem::take(&mut self.sampled);
        let new = self.choose(&sampled, base_len, stretches);
        self.sampled = sampled;
        Ok(new)
    }

    /// [`offer`](Cover::offer)s the base that these are the anchors of.
    pub fn offer_anchors(&mut self, base: &Anchors, stretches: &mut Vec<Range<u32>>) -> usize {
        stretches.clear();
        if self.covered == self.anchors {
            return 0;
        }
        self.choose(&base.list, base.base_len, stretches)
    }

    fn choose(&mut self, base: &[Anchor], base_len: u32, stretches: &mut Vec<Range<u32>>) -> usize {
        self.find_new(base);
        if self.found.len() < self.settings.anchors_min.max(1) {
            for &(_, slot) in &self.found {
                self.slots[slot as usize] &= !COVERED;
            }
            return 0;
        }
        self.covered += self.found.len();
        self.join(base_len, stretches);
        self.found.len()
    }

    /// Marks the anchors that a base is the first to have, each where it stands first.
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

    fn join(&self, base_len: u32, stretches: &mut Vec<Range<u32>>) {
        let CoverSettings { margin, gap_max, .. } = self.settings;
        for &(at, _) in &self.found {
            let start = at.saturating_sub(margin);
            let end = base_len.min((at + FOUND_BY as u32).saturating_add(margin));
            match stretches.last_mut() {
                Some(last) if start <= last.end.saturating_add(gap_max) => last.end = end,
                _ => stretches.push(start..end),
            }
        }
        let wanted: u64 = stretches
            .iter()
            .map(|stretch| u64::from(stretch.end - stretch.start))
            .sum();
        if 4 * wanted >= 3 * u64::from(base_len) {
            stretches.clear();
            stretches.push(0..base_len);
        }
    }

    /// The share of the target's anchors that no base has yet, 0 to 1; 0 if it has no anchors, as
    /// constant data has none.
    #[must_use]
    pub fn uncovered(&self) -> f32 {
        if self.anchors == 0 {
            return 0.0;
        }
        (self.anchors - self.covered) as f32 / self.anchors as f32
    }

    /// Bytes of memory it holds between calls.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.positions.capacity() * size_of::<u32>()
            + self.sampled.capacity() * size_of::<Anchor>()
            + self.slots.capacity() * size_of::<u64>()
            + self.found.capacity() * size_of::<(u32, u32)>()
    }
}

impl Default for Cover {
    fn default() -> Self {
        Cover::new()
    }
}

/// The slot of an anchor, or a free one for it.
#[inline(always)]
fn find(slots: &[u64], sum: u64) -> Option<usize> {
    let mask = slots.len() - 1;
    let first = (sum >> POSITION_BITS) as usize;
    (0..PROBES_MAX)
        .map(|step| (first + step) & mask)
        .find(|&slot| slots[slot] & !COVERED == sum || slots[slot] == 0)
}
