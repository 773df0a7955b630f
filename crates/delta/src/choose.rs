//! Which candidate becomes the base? dDedup §3.1.3.
//!
//! The candidate that shares the most features, unless another is cheaper to read. A base in the
//! caller's cache is preferred by as much as two features, and each level of depth costs half a
//! feature. Candidates with equal scores are all encoded against, and the smallest delta wins.
//!
//! A hot feature, one that many records share, says little. But among many versions of one record
//! hot features are most of the evidence, so each counts a quarter. On 6000 revisions of JSON
//! documents and of wiki pages that stored 1/50 and 1/17 of their bytes; 1/40 and 1/13 if hot
//! features counted only where there were no others, and 1/47 and 1/16 if they counted half
//! (`examples/similar.rs`, features of 64 bytes at one position in 64).
//!
//! Half a feature a level keeps chains short and costs no space: on versions of source trees,
//! database files and dumps in chunks of 64 KiB the depth was 3 on average, of 8 allowed.

use crate::{Candidate, DeltaEncoder, Error, Method};

/// What the caller knows about a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CandidateState {
    /// Whether its bytes are in memory.
    pub cached: bool,
    /// Deltas to apply until its bytes are there: 0 if it is stored whole.
    pub depth: u32,
}

/// How candidates are ranked. Weights are in shared features.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Ranking {
    /// Added for a cached candidate: dDedup's reward.
    pub cached_reward: f32,
    /// Weight of a shared feature that is hot; any other weighs 1.
    pub hot_weight: f32,
    /// Subtracted for each level of depth.
    pub depth_penalty: f32,
    /// Largest depth of a delta: a candidate at this depth can't be a base.
    pub depth_max: u32,
}

impl Default for Ranking {
    /// Returns a reward of 2, a quarter for hot features, a penalty of 0.5 and a depth of at most 8.
    fn default() -> Self {
        Ranking {
            cached_reward: 2.0,
            hot_weight: 0.25,
            depth_penalty: 0.5,
            depth_max: 8,
        }
    }
}

/// A candidate and its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankedCandidate {
    /// The number it was inserted with: [`Candidate::place`].
    pub place: u32,
    /// Shared features by weight, plus reward, minus penalty.
    pub score: f32,
}

impl Ranking {
    /// Adds so many features for a cached candidate.
    #[must_use]
    pub fn with_cached_reward(mut self, features: f32) -> Ranking {
        self.cached_reward = features;
        self
    }

    /// Counts a hot feature as so much of another.
    #[must_use]
    pub fn with_hot_weight(mut self, weight: f32) -> Ranking {
        self.hot_weight = weight;
        self
    }

    /// Subtracts so many features for each level of depth.
    #[must_use]
    pub fn with_depth_penalty(mut self, features: f32) -> Ranking {
        self.depth_penalty = features;
        self
    }

    /// Allows deltas of this depth at most.
    #[must_use]
    pub fn with_depth_max(mut self, depth: u32) -> Ranking {
        self.depth_max = depth;
        self
    }

    /// Puts into `ranked` the candidates that may be a base, best first; of two with the same
    /// score, the larger place first. `state` returns `None` for a candidate that no longer exists.
    pub fn rank(
        &self,
        candidates: &[Candidate],
        mut state: impl FnMut(u32) -> Option<CandidateState>,
        ranked: &mut Vec<RankedCandidate>,
    ) {
        ranked.clear();
        for candidate in candidates {
            let Some(state) = state(candidate.place) else {
                continue;
            };
            if state.depth >= self.depth_max {
                continue;
            }
            let reward = if state.cached { self.cached_reward } else { 0.0 };
            ranked.push(RankedCandidate {
                place: candidate.place,
                score: candidate.shared as f32 + self.hot_weight * candidate.hot as f32 + reward
                    - self.depth_penalty * state.depth as f32,
            });
        }
        ranked.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(b.place.cmp(&a.place)));
    }
}

/// The base that [`BaseChooser::choose`] chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChosenBase {
    /// The number it was inserted with: [`Candidate::place`].
    pub place: u32,
    /// Length of the delta, bytes.
    pub delta_len: usize,
}

/// Encodes against the best of several candidates. Reuse it: it owns an encoder and a buffer.
///
/// ```
/// use ibid_delta::{BaseChooser, Method, RankedCandidate};
///
/// let bases = [b"an old version of the record", b"another record, not like it."];
/// let ranked = [RankedCandidate { place: 0, score: 3.0 }, RankedCandidate { place: 1, score: 3.0 }];
/// let mut chooser = BaseChooser::new(Method::ZstdPrefix { level: 1 });
/// let mut delta = Vec::new();
/// let base = |place: u32| bases.get(place as usize);
/// let chosen = chooser.choose(&ranked, base, b"an old version of this record", &mut delta)?;
/// assert_eq!(chosen.map(|chosen| chosen.place), Some(0));
/// # Ok::<(), ibid_delta::Error>(())
/// ```
#[derive(Debug)]
pub struct BaseChooser {
    method: Method,
    trials_max: usize,
    encoder: DeltaEncoder,
    trial: Vec<u8>,
}

impl BaseChooser {
    /// Returns a chooser that encodes by this method, against at most three candidates with the
    /// same score.
    ///
    /// # Panics
    /// If there is no memory for a zstd context.
    #[must_use]
    pub fn new(method: Method) -> BaseChooser {
        BaseChooser {
            method,
            trials_max: 3,
            encoder: DeltaEncoder::new(),
            trial: Vec::new(),
        }
    }

    /// Encodes against at most so many candidates with the same score. 0 counts as 1.
    #[must_use]
    pub fn with_trials_max(mut self, trials: usize) -> BaseChooser {
        self.trials_max = trials;
        self
    }

    /// Uses this encoder.
    #[must_use]
    pub fn with_encoder(mut self, encoder: DeltaEncoder) -> BaseChooser {
        self.encoder = encoder;
        self
    }

    /// Returns the encoder, for deltas against a base that is known already.
    pub fn encoder(&mut self) -> &mut DeltaEncoder {
        &mut self.encoder
    }

    /// Appends to `out` the smallest delta of `target` against one of the candidates that share the
    /// best score, and returns which. Returns `None` if no candidate could be read.
    ///
    /// `base` returns the bytes of a candidate, or `None` to pass over it; if it passes over all
    /// with the best score, the next best are tried. Whether the delta is small enough to keep is
    /// the caller's decision.
    ///
    /// # Errors
    /// As [`DeltaEncoder::encode`]. `out` is then as it was.
    pub fn choose<B: AsRef<[u8]>>(
        &mut self,
        ranked: &[RankedCandidate],
        mut base: impl FnMut(u32) -> Option<B>,
        target: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<ChosenBase>, Error> {
        let start = out.len();
        let mut best: Option<(f32, ChosenBase)> = None;
        let mut trials = 0;
        for candidate in ranked {
            if best.is_some_and(|(score, _)| candidate.score < score) || trials == self.trials_max.max(1) {
                break;
            }
            let Some(base) = base(candidate.place) else {
                continue;
            };
            trials += 1;
            self.trial.clear();
            let encoded = self.encoder.encode(self.method, base.as_ref(), target, &mut self.trial);
            if let Err(error) = encoded {
                out.truncate(start);
                return Err(error);
            }
            if best.is_none_or(|(_, best)| self.trial.len() < best.delta_len) {
                out.truncate(start);
                out.extend_from_slice(&self.trial);
                let chosen = ChosenBase {
                    place: candidate.place,
                    delta_len: self.trial.len(),
                };
                best = Some((candidate.score, chosen));
            }
        }
        Ok(best.map(|(_, chosen)| chosen))
    }
}
