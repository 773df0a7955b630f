//! Which frames are encoded anew, so that their bases can go.
//!
//! A chunk that no snapshot needs stays as long as others are encoded against it, and so does a frame of which other
//! chunks are needed. When all that is directly or indirectly encoded against such a frame is stored again, against
//! what snapshots need, as if it were backed up for the first time, the frame goes.

use super::facts::Facts;
use crate::Result;
use crate::index::{LoadedIndex, NumberSet};

/// Share of the bytes that are kept, from which on what only serves as bases is freed.
const BASES_SHARE_MAX: f64 = 0.04;

/// Returns the frames to encode anew, with their bases that go: at most so many bytes.
pub(super) fn choose(loaded: &LoadedIndex, facts: &mut Facts, sealed_max: u64) -> Result<NumberSet> {
    let (mut kept, mut unneeded) = (0, 0);
    let mut bases = NumberSet::default();
    loaded.index.each_frame(|number, frame| {
        if facts.kept.contains(number) {
            kept += u64::from(frame.sealed);
            if facts.is_partly_needed(number, &frame)? && facts.is_base(number)? {
                unneeded += u64::from(frame.sealed) - facts.needed_part(number, &frame)?;
                bases.insert(number);
            }
        }
        Ok(())
    })?;
    if unneeded as f64 <= kept as f64 * BASES_SHARE_MAX {
        return Ok(NumberSet::default());
    }
    let mut choice = Choice {
        loaded,
        facts,
        anew: NumberSet::default(),
        sealed: 0,
        sealed_max,
        added: (kept > sealed_max).then(Vec::new),
    };
    for base in bases.iter() {
        choice.add(base)?;
    }
    Ok(match choice.sealed {
        0 => NumberSet::default(),
        _ => choice.anew,
    })
}

/// The frames chosen so far.
struct Choice<'a> {
    loaded: &'a LoadedIndex,
    facts: &'a mut Facts,
    anew: NumberSet,
    /// Bytes of these frames, and how many there may be.
    sealed: u64,
    sealed_max: u64,
    /// Frames that were added together; `None` if all that is kept may be chosen.
    added: Option<Vec<u32>>,
}

impl Choice<'_> {
    /// Adds a frame with all that is directly or indirectly encoded against it, if that is not too much.
    fn add(&mut self, base: u32) -> Result<()> {
        let before = self.sealed;
        if let Some(added) = &mut self.added {
            added.clear();
        }
        // A frame, and the position of its next dependent. Each is deeper than the one before it, so there are few.
        let mut path = Vec::new();
        self.visit(base, &mut path)?;
        while let Some((frame, at)) = path.last_mut() {
            let Some(dependent) = self.facts.dependents.second(*at, *frame)? else {
                path.pop();
                continue;
            };
            *at += 1;
            if self.facts.kept.contains(dependent) {
                self.visit(dependent, &mut path)?;
            }
            if self.sealed > self.sealed_max {
                self.sealed = before;
                self.added.iter().flatten().for_each(|frame| self.anew.remove(*frame));
                return Ok(());
            }
        }
        Ok(())
    }

    fn visit(&mut self, frame: u32, path: &mut Vec<(u32, u64)>) -> Result<()> {
        if self.anew.insert(frame) {
            self.sealed += u64::from(self.loaded.index.frame(frame).sealed);
            if let Some(added) = &mut self.added {
                added.push(frame);
            }
            path.push((frame, self.facts.dependents.start(frame)?));
        }
        Ok(())
    }
}
