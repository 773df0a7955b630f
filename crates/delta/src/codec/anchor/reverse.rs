//! The delta the other way round: paper 004, Algorithm 2.
//!
//! A copy from base to target is a copy from target to base as well. Sorted by their place in the
//! base, the copies cover it, but for what was removed or changed, which is inserted. Where copies
//! overlap in the base, the later gives way.

use super::AnchorEncoder;
use super::instructions::{Steps, write};
use crate::Error;
use crate::codec::matches::Match;

/// How [`DeltaEncoder::reverse`](crate::DeltaEncoder::reverse) did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reversal {
    /// By turning round the copies of the forward delta.
    TurnedRound {
        /// Bytes of the base that no copy covers, which are inserted.
        uncovered: usize,
    },
    /// By encoding from scratch.
    Encoded,
}

impl Reversal {
    /// Bytes of a base of `base_len` bytes that may be left uncovered before encoding from scratch
    /// is worth it: 1/32 of it, 64 at least.
    ///
    /// A forward delta that copies from one place many times, as in JSON with its repetitions,
    /// leaves the others uncovered, which a search would find in the target.
    #[must_use]
    pub const fn uncovered_max(base_len: usize) -> usize {
        let part = base_len / 32;
        if part < 64 { 64 } else { part }
    }
}

impl AnchorEncoder {
    /// Turns the matches of a forward delta round, and gives the number of bytes of the base that
    /// they leave uncovered.
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
        // From here on the old target is the base, the old base the target.
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

    /// Appends the body of the delta that was turned round, which makes `base`.
    pub(crate) fn write_turned(&mut self, base: &[u8], out: &mut Vec<u8>) {
        self.drop_costly();
        write(&self.matches, base, out);
    }
}
