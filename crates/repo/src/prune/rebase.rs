//! Which frames are encoded anew, so that their bases can go.
//!
//! A chunk that no snapshot needs stays as long as others are encoded against it. When these are stored again, against
//! what snapshots need, it goes. Chunks that snapshots need can be bases of frames that stay: they are stored again,
//! too, and become no deeper than they were, since a base counts only in a frame that is less deep.

use std::collections::HashSet;

use super::facts::Facts;
use crate::index::{LoadedIndex, NumberSet, find_base};
use crate::scratch::{Array, Scratch};
use crate::similar::DEPTH_MAX;
use crate::{Repository, Result};

/// Share of the bytes that are kept, from which on frames that only serve as bases are freed whatever it costs.
const BASES_SHARE_MAX: f64 = 0.08;
/// Below this share, deltas that only serve as bases are not looked at.
const DELTAS_SHARE_MIN: f64 = 0.01;
/// Bytes of chunks that are encoded anew for each byte of a delta that is freed, at most: a second of one core frees
/// 6 MB or more.
const ENCODED_PER_FREED_MAX: u64 = 16;
/// Frames that are encoded anew together, at most, to free some deltas.
const TOGETHER_MAX: usize = 4096;

/// Chooses frames to encode anew.
struct Choice<'a> {
    loaded: &'a LoadedIndex,
    facts: &'a mut Facts,
    anew: NumberSet,
    /// Bytes of these frames.
    sealed: u64,
    sealed_max: u64,
}

/// Frames that go together.
#[derive(Default)]
struct Together {
    frames: HashSet<u32>,
    /// Bytes of all, and of deltas that only serve as bases.
    sealed: u64,
    freed: u64,
    /// Bytes of chunks that snapshots need.
    encoded: u64,
}

/// Returns the frames to encode anew, with their bases that go: at most so many bytes.
pub(super) fn choose(loaded: &LoadedIndex, facts: &mut Facts, sealed_max: u64) -> Result<NumberSet> {
    let (mut kept, mut bases, mut deltas) = (0, 0, 0);
    loaded.index.each_frame(|number, frame| {
        let sealed = u64::from(frame.sealed);
        if facts.kept.contains(number) {
            kept += sealed;
            if !facts.is_needed(number)? {
                bases += sealed;
                deltas += if frame.depth > 0 { sealed } else { 0 };
            } else if facts.is_partly_needed(number, &frame)? && facts.has_dependents_on_unneeded(number)? {
                bases += sealed - facts.needed_part(number, &frame)?;
            }
        }
        Ok(())
    })?;
    let mut choice = Choice {
        loaded,
        facts,
        anew: NumberSet::default(),
        sealed: 0,
        sealed_max,
    };
    let share = |bytes: u64| bytes as f64 / kept.max(1) as f64;
    if share(bases) > BASES_SHARE_MAX {
        choice.all_bases()?;
    } else if share(deltas) > DELTAS_SHARE_MIN {
        choice.deltas()?;
    }
    Ok(choice.anew)
}

impl Choice<'_> {
    /// Adds the deltas that only serve as bases, where little must be encoded anew for them: the deepest first.
    fn deltas(&mut self) -> Result<()> {
        for depth in (1..=DEPTH_MAX).rev() {
            for number in self.bases_of_depth(Some(depth))?.iter() {
                if let Some(together) = self.together(number, TOGETHER_MAX)?
                    && together.encoded <= together.freed.saturating_mul(ENCODED_PER_FREED_MAX)
                {
                    self.add(together);
                }
            }
        }
        Ok(())
    }

    /// Adds all frames that only serve as bases.
    fn all_bases(&mut self) -> Result<()> {
        for number in self.bases_of_depth(None)?.iter() {
            if let Some(together) = self.together(number, usize::MAX)? {
                self.add(together);
            }
        }
        Ok(())
    }

    /// Returns the frames of this depth, or of any, of which little or nothing is needed but as bases.
    fn bases_of_depth(&mut self, depth: Option<u8>) -> Result<NumberSet> {
        let mut found = NumberSet::default();
        let facts = &mut *self.facts;
        self.loaded.index.each_frame(|number, frame| {
            let is_wanted = facts.kept.contains(number)
                && depth.is_none_or(|depth| depth == frame.depth)
                && match facts.is_needed(number)? {
                    false => true,
                    true => {
                        depth.is_none()
                            && facts.is_partly_needed(number, &frame)?
                            && facts.has_dependents_on_unneeded(number)?
                    }
                };
            if is_wanted {
                found.insert(number);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns a frame with all that must be encoded anew so that what is not needed of them can go; none if that is
    /// more than `most` frames. What is needed is stored again, and goes on to be a base of others.
    fn together(&mut self, frame: u32, most: usize) -> Result<Option<Together>> {
        let mut together = Together::default();
        let mut todo = vec![frame];
        while let Some(number) = todo.pop() {
            if self.anew.contains(number) || !together.frames.insert(number) {
                continue;
            }
            if together.frames.len() > most {
                return Ok(None);
            }
            let frame = self.loaded.index.frame(number);
            together.sealed += u64::from(frame.sealed);
            together.encoded += u64::from(self.facts.bytes.get(number.into())?);
            if frame.depth > 0 {
                together.freed += u64::from(frame.sealed) - self.facts.needed_part(number, &frame)?;
            }
            let mut at = self.facts.on_unneeded.start(number)?;
            while let Some(dependent) = self.facts.on_unneeded.second(at, number)? {
                if self.facts.kept.contains(dependent) {
                    todo.push(dependent);
                }
                at += 1;
            }
        }
        Ok(Some(together))
    }

    fn add(&mut self, together: Together) {
        if self.sealed + together.sealed > self.sealed_max {
            return;
        }
        self.sealed += together.sealed;
        for frame in together.frames {
            self.anew.insert(frame);
        }
    }
}

/// Chunks of frames that go, against which frames that stay are encoded.
pub(super) struct HeldBases {
    /// For each chunk, by its ordinal, the depth of the least deep of these frames; 0 if there is none.
    pub(super) depths: Array<u8>,
    /// The frames that have them.
    pub(super) frames: NumberSet,
}

impl HeldBases {
    /// Finds them, if the frames `anew` go.
    pub(super) fn find(
        repository: &Repository,
        scratch: &Scratch,
        loaded: &LoadedIndex,
        facts: &mut Facts,
        anew: &NumberSet,
    ) -> Result<HeldBases> {
        let index = &loaded.index;
        let mut held = HeldBases {
            depths: Array::zeros(scratch, index.ordinals())?,
            frames: NumberSet::default(),
        };
        let stays = |facts: &Facts, frame| facts.kept.contains(frame) && !anew.contains(frame);
        let mut packs = NumberSet::default();
        for base in anew.iter() {
            let mut at = facts.dependents.start(base)?;
            while let Some(dependent) = facts.dependents.second(at, base)? {
                if stays(facts, dependent) {
                    packs.insert(index.frame(dependent).pack);
                }
                at += 1;
            }
        }
        for number in packs.iter() {
            repository.monitor.check_cancelled()?;
            let pack = index.pack(number);
            let directory = repository.files.read_directory(pack.id, pack.size)?;
            for (frame, listed) in index.frames_of(number).zip(&directory.frames) {
                if !stays(facts, frame) {
                    continue;
                }
                for base in &listed.bases {
                    if let Some(place) = find_base(loaded, *base, listed.depth).filter(|at| anew.contains(at.frame)) {
                        let ordinal = index.ordinal(place);
                        let before = held.depths.get(ordinal)?;
                        if before == 0 || listed.depth < before {
                            held.depths.set(ordinal, listed.depth)?;
                        }
                        held.frames.insert(place.frame);
                    }
                }
            }
        }
        Ok(held)
    }
}
