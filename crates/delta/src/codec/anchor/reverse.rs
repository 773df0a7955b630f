//! Turning a delta round: dDedup, Algorithm 2.
//!
//! A copy from base to target is also a copy from target to base. Sorted by position in the base,
//! the copies cover it except for bytes that were removed or changed; those are inserted. Where
//! copies overlap in the base, the later one is shortened.

use super::AnchorEncoder;
use super::instructions::{Steps, write};
use crate::Error;
use crate::codec::matches::Match;

/// How [`DeltaEncoder::reverse`](crate::DeltaEncoder::reverse) made a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reversal {
    /// It turned the copies of the forward delta round.
    TurnedRound {
        /// Bytes of the base that no copy covers and that were inserted.
        uncovered: usize,
    },
    /// It encoded from scratch.
    Encoded,
}

impl Reversal {
    /// Returns how many bytes of a base of `base_len` bytes may stay uncovered before encoding from
    /// scratch is worth its time: 1/32 of the base, at least 64 bytes.
    ///
    /// A forward delta that copies from one position many times, as in repetitive JSON, leaves the
    /// other occurrences uncovered, although a search would find them in the target.
    #[must_use]
    pub const fn uncovered_max(base_len: usize) -> usize {
        let part = base_len / 32;
        if part < 64 { 64 } else { part }
    }
}

impl AnchorEncoder {
    /// Turns the copies of a forward delta round, and returns how many bytes of the base they leave
    /// uncovered.
    pub(crate) fn turn_round(&mut self, base: &[u8], target: &[u8], body: &[u8]) -> Result<usize, Error> {
        self.matches.clear();
        let mut steps = Steps::new(base.len(), body, target.len())?;
        let mut written = 0;
        while let Some(step) = steps.next()? {
            written += step.insert.len();
            if base[step.from..step.from + step.length] != target[written..written + step.length] {
                return Err(Error::OtherEnds {
                    position: written as u64,
                });
            }
            if step.length > 0 {
                self.matches.push(Match {
                    base: written as u32,
                    target: step.from as u32,
                    length: step.length as u32,
                });
            }
            written += step.length;
        }
        // From here on the old target is the base, and the old base is the target.
        self.matches.sort_unstable_by_key(|found| (found.target, found.base));
        let (mut covered_to, mut covered) = (0, 0);
        self.matches.retain_mut(|found| {
            let overlap = u32::saturating_sub(covered_to, found.target);
            if overlap >= found.length {
                return false;
            }
            found.target += overlap;
            found.base += overlap;
            found.length -= overlap;
            covered_to = found.target_end();
            covered += found.length as usize;
            true
        });
        Ok(base.len() - covered)
    }

    /// Appends the body of the reversed delta, which makes `base`.
    pub(crate) fn write_turned(&mut self, base: &[u8], out: &mut Vec<u8>) {
        self.drop_costly();
        write(&self.matches, base, out);
    }
}
