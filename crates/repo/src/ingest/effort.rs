//! Choice of compression levels by trials on parts of some frames.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use ibid_delta::{Interval, Method};
use ibid_format::Error;
use ibid_format::frame::{Blob, Compression, FrameEncoder, Piece};

/// Levels, the fastest first, and the weight of an output byte of each, in thousandths: slower
/// levels weigh more. No level is always the smallest: the second is on Redis dumps, the third on
/// database pages, the last on sources.
const WAYS: [(Compression, u64); 4] = [
    (Compression::Zstd(1), 1000),
    (Compression::ZstdNear, 1002),
    (Compression::ZstdShort, 1005),
    (Compression::Zstd(3), 1020),
];
/// Index of the level used before the first trial.
const FIRST: usize = 3;
/// At least one frame in this many is a trial.
const TRIAL_EVERY: u32 = 32;
/// At most one frame in this many is a trial.
const TRIAL_AT_MOST: u32 = 4;
/// The data counts as changed when a frame's ratio differs from that of the last trial by this
/// factor, up or down.
const JUMP: u64 = 2;
/// Bytes in the middle of a frame that a trial compresses.
const SAMPLE: usize = 256 << 10;

/// Costs of the alternatives, averaged over trials.
struct Trials<const N: usize> {
    chosen: AtomicUsize,
    /// Cost of each alternative, with older trials weighing less and less; all zero before the
    /// first.
    costs: Mutex<[u64; N]>,
}

impl<const N: usize> Trials<N> {
    fn new(first: usize) -> Trials<N> {
        Trials {
            chosen: AtomicUsize::new(first),
            costs: Mutex::new([0; N]),
        }
    }

    fn chosen(&self) -> usize {
        self.chosen.load(Ordering::Relaxed)
    }

    /// Adds the costs of one more trial.
    fn learn(&self, costs: [u64; N]) {
        let mut sums = self.costs.lock().expect("no holder of this lock panics");
        for (sum, cost) in sums.iter_mut().zip(costs) {
            *sum = *sum / 2 + cost;
        }
        let best = (0..N).min_by_key(|&way| sums[way]).expect("there are ways");
        self.chosen.store(best, Ordering::Relaxed);
    }
}

/// Choice of the level for frames without bases, shared by all workers.
pub(crate) struct EffortChoice {
    trials: Trials<{ WAYS.len() }>,
    /// Frames since the last trial.
    since: AtomicU32,
    /// Compressed bytes per MiB of body in the last trial's frame.
    usual: AtomicU64,
}

impl EffortChoice {
    pub(crate) fn new() -> EffortChoice {
        EffortChoice {
            trials: Trials::new(FIRST),
            since: AtomicU32::new(TRIAL_EVERY),
            usual: AtomicU64::new(0),
        }
    }

    /// Compresses at the level that has been best so far. Now and then it runs a new trial; `space`
    /// is memory for that.
    pub(crate) fn encode(
        &self,
        encoder: &mut FrameEncoder,
        blobs: &[Blob],
        body: &[u8],
        out: &mut Vec<u8>,
        space: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let since = self.since.fetch_add(1, Ordering::Relaxed);
        let on_trial = since >= TRIAL_EVERY;
        if on_trial {
            self.since.store(1, Ordering::Relaxed);
            self.learn(encoder, body, space)?;
        }
        let (way, _) = WAYS[self.trials.chosen()];
        encoder.encode(blobs, body, way, out)?;
        let taken = ((out.len() as u64) << 20) / body.len().max(1) as u64;
        if on_trial {
            self.usual.store(taken, Ordering::Relaxed);
        } else if since >= TRIAL_AT_MOST {
            let usual = self.usual.load(Ordering::Relaxed);
            if taken > usual * JUMP || taken * JUMP < usual {
                self.since.store(TRIAL_EVERY, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Runs a trial of all levels on the middle of a body.
    fn learn(&self, encoder: &mut FrameEncoder, body: &[u8], space: &mut Vec<u8>) -> Result<(), Error> {
        let length = body.len().min(SAMPLE);
        let start = (body.len() - length) / 2;
        let mut sizes = [0; WAYS.len()];
        for (size, (way, _)) in sizes.iter_mut().zip(WAYS) {
            *size = encoder.compressed_len(&body[start..start + length], way, space)? as u64;
        }
        self.trials.learn(costs(sizes));
        Ok(())
    }
}

/// Converts compressed sizes into costs.
fn costs(mut sizes: [u64; WAYS.len()]) -> [u64; WAYS.len()] {
    for (size, (_, weight)) in sizes.iter_mut().zip(WAYS) {
        *size *= weight;
    }
    sizes
}

/// zstd's levels for deltas, the fastest first, and the cost of their time in bytes per KiB of
/// input: about 2.5 MB a second, and twice that for the third. The first gives the smallest deltas
/// on Redis dumps, the third on database pages and on sources. On database pages so much input is
/// left that the second costs less.
const LEVELS: [(i32, u64); 3] = [(1, 0), (3, 3), (6, 24)];
/// Index of the level used before the first trial.
const LEVEL_FIRST: usize = 1;
/// One delta frame in this many is a trial.
const DELTA_TRIAL_EVERY: u32 = 32;

/// Choice of the level for deltas, shared by all workers.
pub(crate) struct DeltaEffort {
    trials: Trials<{ LEVELS.len() }>,
    /// Frames encoded so far.
    frames: AtomicU32,
}

impl DeltaEffort {
    pub(crate) fn new() -> DeltaEffort {
        DeltaEffort {
            trials: Trials::new(LEVEL_FIRST),
            frames: AtomicU32::new(0),
        }
    }

    /// Encodes a frame against a prefix, at the given level, or else at the level that has been
    /// best so far. Now and then it tries all levels and keeps the cheapest result; `space` is
    /// memory for that.
    pub(crate) fn encode(
        &self,
        encoder: &mut FrameEncoder,
        (blobs, body): (&[Blob], &[u8]),
        (pieces, prefix): (&[Piece], &[u8]),
        level: Option<i32>,
        out: &mut Vec<u8>,
        space: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let mut encode = |level, out: &mut Vec<u8>| {
            out.clear();
            let method = Method::AnchorZstd {
                level,
                interval: Interval::I32,
            };
            encoder.encode_delta(blobs, body, pieces, prefix, method, out)
        };
        if let Some(level) = level {
            return encode(level, out).map(drop);
        }
        let frames = self.frames.fetch_add(1, Ordering::Relaxed);
        if !frames.is_multiple_of(DELTA_TRIAL_EVERY) {
            return encode(LEVELS[self.trials.chosen()].0, out).map(drop);
        }
        let mut costs = [0; LEVELS.len()];
        let mut least = u64::MAX;
        for (cost, (level, price)) in costs.iter_mut().zip(LEVELS) {
            let looked_at = encode(level, space)? as u64;
            *cost = space.len() as u64 * 1024 + looked_at * price;
            if *cost < least {
                least = *cost;
                std::mem::swap(space, out);
            }
        }
        self.trials.learn(costs);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_unless_a_faster_one_is_about_as_small() {
        let chosen = |sizes| {
            let trials = Trials::new(FIRST);
            trials.learn(costs(sizes));
            trials.chosen()
        };
        // Thousands of bytes in the frames of Redis dumps, PostgreSQL pages, and sources.
        assert_eq!(chosen([154_890, 139_500, 168_460, 186_210]), 1);
        assert_eq!(chosen([106_620, 112_300, 94_400, 95_340]), 2);
        assert_eq!(chosen([134_740, 179_200, 136_820, 123_770]), 3);
        assert_eq!(chosen([100, 100, 100, 99]), 0);
    }

    #[test]
    fn the_first_frame_is_compressed_in_the_way_that_suits_it_and_a_change_is_noticed() {
        let noise = |seed: u64, length: usize| {
            let mut state = seed;
            let next = move || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            };
            std::iter::repeat_with(next).take(length).collect::<Vec<u8>>()
        };
        let framed = |body: Vec<u8>| {
            let id = ibid_format::ChunkId([1; 32]);
            let length = body.len() as u32;
            ([Blob { id, length }], body)
        };
        // Five-byte matches between noise, too short for level 1; then the same long text again and
        // again.
        let short: Vec<u8> = (0..60_000)
            .flat_map(|n| [b"short".to_vec(), noise(n, 3)].concat())
            .collect();
        let long = noise(7, 1000).repeat(400);
        let mut encoder = FrameEncoder::new();
        let mut size = |(blobs, body): &([Blob; 1], Vec<u8>), way| {
            let mut out = Vec::new();
            encoder.encode(blobs, body, way, &mut out).unwrap();
            out.len()
        };
        let (short, long) = (framed(short), framed(long));
        assert!(size(&short, Compression::ZstdShort) < size(&short, Compression::Zstd(1)));
        let expected = [size(&short, Compression::ZstdShort), size(&short, Compression::Zstd(3))];

        let choice = EffortChoice::new();
        let (mut encoder, mut space) = (FrameEncoder::new(), Vec::new());
        let mut encode = |(blobs, body): &([Blob; 1], Vec<u8>)| {
            let mut out = Vec::new();
            choice.encode(&mut encoder, blobs, body, &mut out, &mut space).unwrap();
            out.len()
        };
        encode(&long);
        assert_eq!(choice.trials.chosen(), 0, "the fastest is best where all are alike");
        for _ in 0..2 * TRIAL_AT_MOST {
            encode(&short);
        }
        assert!(expected.contains(&encode(&short)));
    }
}
