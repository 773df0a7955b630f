//! Which of the candidates is the base? Paper 004, section 3.1.3.
//!
//! The one that shares the most features, unless another costs less to read: one that is in the
//! caller's cache is preferred by as much as two features, and each step of depth counts against a
//! candidate as half a feature. Between equals, encoding decides.
//!
//! Features that many records share say little. But among many versions of one record they are most
//! of what there is to go by, so they count a quarter each: on 6000 revisions of JSON documents and
//! of wiki pages that stored 1/50 and 1/17 of them, against 1/40 and 1/13 where they counted only
//! if there was nothing else, and 1/47 and 1/16 where they counted half (`examples/similar.rs`,
//! features of 64 bytes at one position in 64).
//!
//! Half a feature a level keeps chains short and loses nothing: on versions of source trees,
//! database files and dumps in chunks of 64 KiB, depth was 3 on average where it might have been 8.

use crate::{Candidate, DeltaEncoder, Error, Method};

/// What the caller knows of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Its bytes are in memory.
    pub cached: bool,
    /// Deltas to apply until its bytes are there: 0 if it is stored whole.
    pub depth: u32,
}

/// What counts for and against a candidate, in shared features.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scoring {
    /// For one that is cached: the paper's reward.
    pub cached_reward: f32,
    /// For a feature that is hot, in place of 1.
    pub hot_weight: f32,
    /// Against each level of depth.
    pub depth_penalty: f32,
    /// Deepest a delta may come to lie: candidates of this depth are no bases.
    pub depth_max: u32,
    /// Most equal candidates that are encoded against.
    pub trials_max: usize,
}

impl Default for Scoring {
    /// Reward 2, a quarter for hot features, penalty 0.5, depth at most 8, three trials.
    fn default() -> Self {
        Scoring {
            cached_reward: 2.0,
            hot_weight: 0.25,
            depth_penalty: 0.5,
            depth_max: 8,
            trials_max: 3,
        }
    }
}

/// A candidate and what it scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    /// As in [`Candidate::place`].
    pub place: u32,
    /// Shared features, with reward and penalty.
    pub score: f32,
}

impl Scoring {
    /// Puts into `ranked` the candidates that may be a base, best first; of equals, the larger
    /// place first. `standing` is asked about each, and gives `None` for one that is gone.
    ///
    /// Hot features, which many records have, are boilerplate, or else belong to many versions of
    /// one record. So they count, but less than others.
    pub fn rank(
        &self,
        candidates: &[Candidate],
        mut standing: impl FnMut(u32) -> Option<Standing>,
        ranked: &mut Vec<Scored>,
    ) {
        ranked.clear();
        for candidate in candidates {
            let Some(standing) = standing(candidate.place) else {
                continue;
            };
            if standing.depth >= self.depth_max {
                continue;
            }
            let reward = if standing.cached { self.cached_reward } else { 0.0 };
            ranked.push(Scored {
                place: candidate.place,
                score: candidate.shared as f32 + self.hot_weight * candidate.hot as f32 + reward
                    - self.depth_penalty * standing.depth as f32,
            });
        }
        ranked.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(b.place.cmp(&a.place)));
    }
}

/// The base that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    /// As in [`Candidate::place`].
    pub place: u32,
    /// Bytes of the delta.
    pub delta_len: usize,
}

/// Encodes against the best candidate. Owns an encoder and room for a second delta: keep it.
#[derive(Debug, Default)]
pub struct Chooser {
    encoder: DeltaEncoder,
    trial: Vec<u8>,
}

impl Chooser {
    /// One with this encoder.
    #[must_use]
    pub fn new(encoder: DeltaEncoder) -> Chooser {
        Chooser {
            encoder,
            trial: Vec::new(),
        }
    }

    /// The encoder, for deltas without a choice.
    pub fn encoder(&mut self) -> &mut DeltaEncoder {
        &mut self.encoder
    }

    /// Appends to `out` the smallest delta of `target` against one of the best equals of `ranked`,
    /// at most `trials_max` of them.
    ///
    /// `base` gives the bytes of a candidate; one that it has none for is passed over, and if that
    /// is all the best, the next best are tried. `None` if there is no candidate.
    ///
    /// Whether the delta is small enough to be worth it is for the caller to say.
    ///
    /// # Errors
    /// As [`DeltaEncoder::encode`]. `out` is then as it was.
    pub fn choose<B: AsRef<[u8]>>(
        &mut self,
        method: Method,
        trials_max: usize,
        ranked: &[Scored],
        mut base: impl FnMut(u32) -> Option<B>,
        target: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Chosen>, Error> {
        let start = out.len();
        let mut best: Option<(f32, Chosen)> = None;
        let mut trials = 0;
        for candidate in ranked {
            if best.is_some_and(|(score, _)| candidate.score < score) || trials == trials_max.max(1) {
                break;
            }
            let Some(base) = base(candidate.place) else {
                continue;
            };
            trials += 1;
            self.trial.clear();
            if let Err(error) = self.encoder.encode(method, base.as_ref(), target, &mut self.trial) {
                out.truncate(start);
                return Err(error);
            }
            if best.is_none_or(|(_, best)| self.trial.len() < best.delta_len) {
                out.truncate(start);
                out.extend_from_slice(&self.trial);
                let chosen = Chosen {
                    place: candidate.place,
                    delta_len: self.trial.len(),
                };
                best = Some((candidate.score, chosen));
            }
        }
        Ok(best.map(|(_, chosen)| chosen))
    }
}
