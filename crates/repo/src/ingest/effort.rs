//! Which way of compressing suits the data: found by trying all of them on some frames.

use ibid_format::Error;
use ibid_format::frame::{Builder, Compression, Encoder};
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
/// At least one frame in so many is tried in every way.
const TRIAL_EVERY: u32 = 32;
/// At most one frame in so many is.
const TRIAL_AT_MOST: u32 = 4;
/// The data has changed when a frame takes so many times what frames took at the last trial, or this part of it.
const JUMP: u64 = 2;

/// The choice so far. Shared by all who compress.
pub(crate) struct EffortChoice {
    /// Frames since the last trial.
    since: AtomicU32,
    chosen: AtomicUsize,
    /// Bytes that a frame takes, as of the last trial.
    usual: AtomicU64,
    /// Bytes that each way would have taken in trials, older ones counting less and less; all zero before the first.
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

    /// Compresses in the way that is best as far as is known; now and then, in every way. `other` is memory for trials.
    pub(crate) fn encode(
        &self,
        encoder: &mut Encoder,
        frame: &Builder,
        out: &mut Vec<u8>,
        other: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let mut encode = |(way, _): (Compression, u64), out: &mut Vec<u8>| {
            out.clear();
            encoder.encode(frame.blobs(), frame.body(), way, out)
        };
        let since = self.since.fetch_add(1, Ordering::Relaxed);
        if since < TRIAL_EVERY {
            encode(WAYS[self.chosen.load(Ordering::Relaxed)], out)?;
            let (taken, usual) = (out.len() as u64, self.usual.load(Ordering::Relaxed));
            if since >= TRIAL_AT_MOST && (taken > usual * JUMP || taken * JUMP < usual) {
                self.since.store(TRIAL_EVERY, Ordering::Relaxed);
            }
            return Ok(());
        }
        self.since.store(1, Ordering::Relaxed);
        let mut sizes = [0; WAYS.len()];
        encode(WAYS[0], out)?;
        sizes[0] = out.len() as u64;
        for (way, size) in WAYS.into_iter().zip(&mut sizes).skip(1) {
            encode(way, other)?;
            *size = other.len() as u64;
            if other.len() < out.len() {
                std::mem::swap(out, other);
            }
        }
        self.usual.store(out.len() as u64, Ordering::Relaxed);
        self.learn(&sizes);
        Ok(())
    }

    fn learn(&self, sizes: &[u64; WAYS.len()]) {
        let mut taken = self.taken.lock().expect("no holder of this lock panics");
        for (taken, size) in taken.iter_mut().zip(sizes) {
            *taken = *taken / 2 + size;
        }
        self.chosen.store(choose(&taken), Ordering::Relaxed);
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
        assert_eq!(choose(&[101, 100, 100]), 0);
    }

    #[test]
    fn a_trial_leaves_the_smallest_and_what_follows_is_compressed_like_it() {
        // Numbers that count up: matches are short.
        let body: Vec<u8> = (0..60_000u32).flat_map(|n| (n * 7).to_le_bytes()).collect();
        let mut frame = Builder::new();
        frame.push(ibid_format::ChunkId([1; 32]), &body);
        let (mut encoder, choice) = (Encoder::new(), EffortChoice::new());
        let sizes = WAYS.map(|(way, _)| {
            let mut out = Vec::new();
            encoder.encode(frame.blobs(), frame.body(), way, &mut out).unwrap();
            out.len()
        });
        let (mut out, mut other) = (Vec::new(), Vec::new());
        choice.encode(&mut encoder, &frame, &mut out, &mut other).unwrap();
        assert_eq!(out.len(), *sizes.iter().min().unwrap());
        choice.encode(&mut encoder, &frame, &mut out, &mut other).unwrap();
        let expected = choose(&sizes.map(|size| size as u64));
        assert_eq!(out.len(), sizes[expected]);
    }
}
