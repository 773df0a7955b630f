//! Which way of compressing suits the data: found by trying all of them on parts of some frames.

use ibid_delta::{Interval, Method};
use ibid_format::Error;
use ibid_format::frame::{Blob, Compression, Encoder, Piece};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The ways, the fastest first, and what a byte of each weighs, in thousandths: more where it takes longer to make. None is always the
/// smallest: on Redis dumps it is the first, on database pages the second, on sources the third.
const WAYS: [(Compression, u64); 3] = [
    (Compression::Zstd(1), 1000),
    (Compression::ZstdShort, 1005),
    (Compression::Zstd(3), 1020),
];
/// The way that is taken until something is known.
const FIRST: usize = 2;
/// At least one frame in so many is sampled.
const TRIAL_EVERY: u32 = 32;
/// At most one frame in so many is.
const TRIAL_AT_MOST: u32 = 4;
/// The data has changed when a frame takes so many times what the one at the last trial took, or this part of it.
const JUMP: u64 = 2;
/// Bytes in the middle of a frame that are tried.
const SAMPLE: usize = 256 << 10;

/// The choice so far. Shared by all who compress.
pub(crate) struct EffortChoice {
    /// Frames since the last trial.
    since: AtomicU32,
    chosen: AtomicUsize,
    /// Bytes that the frame of the last trial took.
    usual: AtomicU64,
    /// Bytes that each way took in trials, older ones counting less and less; all zero before the first.
    taken: Mutex<[u64; WAYS.len()]>,
}

impl EffortChoice {
    pub(crate) fn new() -> EffortChoice {
        EffortChoice {
            since: AtomicU32::new(TRIAL_EVERY),
            chosen: AtomicUsize::new(FIRST),
            usual: AtomicU64::new(0),
            taken: Mutex::new([0; WAYS.len()]),
        }
    }

    /// Compresses in the way that is best as far as is known. Now and then it is found out anew; `space` is memory for that.
    pub(crate) fn encode(
        &self,
        encoder: &mut Encoder,
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
        let (way, _) = WAYS[self.chosen.load(Ordering::Relaxed)];
        encoder.encode(blobs, body, way, out)?;
        let taken = out.len() as u64;
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

    /// Tries all ways on the middle of a body.
    fn learn(&self, encoder: &mut Encoder, body: &[u8], space: &mut Vec<u8>) -> Result<(), Error> {
        let length = body.len().min(SAMPLE);
        let start = (body.len() - length) / 2;
        let mut sizes = [0; WAYS.len()];
        for (size, (way, _)) in sizes.iter_mut().zip(WAYS) {
            *size = encoder.compressed_len(&body[start..start + length], way, space)? as u64;
        }
        let mut taken = self.taken.lock().expect("no holder of this lock panics");
        for (taken, size) in taken.iter_mut().zip(sizes) {
            *taken = *taken / 2 + size;
        }
        self.chosen.store(choose(&taken), Ordering::Relaxed);
        Ok(())
    }
}

/// zstd's levels for deltas, the faster first, and what a byte of each weighs, in thousandths. On Redis dumps the first gives the smaller deltas, on sources and
/// pages of databases the second.
const LEVELS: [(i32, u64); 2] = [(3, 1000), (6, 1030)];
/// One delta frame in so many is encoded at both.
const DELTA_TRIAL_EVERY: u32 = 16;

/// Which level suits deltas of this data. Shared by all who compress.
pub(crate) struct DeltaEffort {
    /// Frames so far.
    frames: AtomicU32,
    chosen: AtomicUsize,
    /// Bytes that each level took in trials, older ones counting less and less.
    taken: Mutex<[u64; LEVELS.len()]>,
}

impl DeltaEffort {
    pub(crate) fn new() -> DeltaEffort {
        DeltaEffort {
            frames: AtomicU32::new(0),
            chosen: AtomicUsize::new(LEVELS.len() - 1),
            taken: Mutex::new([0; LEVELS.len()]),
        }
    }

    /// Encodes a frame against a prefix, at this level if there is one, else at the one that is best as far as is known. Now and then that is found out
    /// anew; `space` is memory for that.
    pub(crate) fn encode(
        &self,
        encoder: &mut Encoder,
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
            return encode(level, out);
        }
        let chosen = self.chosen.load(Ordering::Relaxed);
        encode(LEVELS[chosen].0, out)?;
        if !self
            .frames
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(DELTA_TRIAL_EVERY)
        {
            return Ok(());
        }
        let other = 1 - chosen;
        encode(LEVELS[other].0, space)?;
        let mut taken = self.taken.lock().expect("no holder of this lock panics");
        for (level, length) in [(chosen, out.len()), (other, space.len())] {
            taken[level] = taken[level] / 2 + length as u64;
        }
        let weight = |&level: &usize| taken[level] * LEVELS[level].1;
        let best = (0..LEVELS.len()).min_by_key(weight).unwrap_or(chosen);
        self.chosen.store(best, Ordering::Relaxed);
        if space.len() < out.len() {
            std::mem::swap(space, out);
        }
        Ok(())
    }
}

/// The way whose bytes weigh least.
fn choose(taken: &[u64; WAYS.len()]) -> usize {
    let weight = |&way: &usize| taken[way] * WAYS[way].1;
    (0..WAYS.len()).min_by_key(weight).unwrap_or(FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_unless_a_faster_one_is_about_as_small() {
        // Thousands of bytes of the frames of Redis dumps, of PostgreSQL's pages, and of sources.
        assert_eq!(choose(&[154_890, 168_460, 186_210]), 0);
        assert_eq!(choose(&[106_620, 94_400, 95_340]), 1);
        assert_eq!(choose(&[134_740, 136_820, 123_770]), 2);
        assert_eq!(choose(&[100, 100, 99]), 0);
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
        // Five bytes that come back between noise: too short for level 1. And the same long text again and again.
        let short: Vec<u8> = (0..60_000)
            .flat_map(|n| [b"short".to_vec(), noise(n, 3)].concat())
            .collect();
        let long = noise(7, 1000).repeat(400);
        let mut encoder = Encoder::new();
        let mut size = |(blobs, body): &([Blob; 1], Vec<u8>), way| {
            let mut out = Vec::new();
            encoder.encode(blobs, body, way, &mut out).unwrap();
            out.len()
        };
        let (short, long) = (framed(short), framed(long));
        assert!(size(&short, Compression::ZstdShort) < size(&short, Compression::Zstd(1)));
        let expected = [size(&short, Compression::ZstdShort), size(&short, Compression::Zstd(3))];

        let choice = EffortChoice::new();
        let (mut encoder, mut space) = (Encoder::new(), Vec::new());
        let mut encode = |(blobs, body): &([Blob; 1], Vec<u8>)| {
            let mut out = Vec::new();
            choice.encode(&mut encoder, blobs, body, &mut out, &mut space).unwrap();
            out.len()
        };
        encode(&long);
        assert_eq!(
            choice.chosen.load(Ordering::Relaxed),
            0,
            "the fastest is best where all are alike"
        );
        for _ in 0..2 * TRIAL_AT_MOST {
            encode(&short);
        }
        assert!(expected.contains(&encode(&short)));
    }
}
