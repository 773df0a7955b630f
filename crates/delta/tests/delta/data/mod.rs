//! Test data: functions of a seed alone.
#![allow(dead_code, reason = "every test file takes what it needs")]

use std::ops::Range;

use ibid_delta::advanced::{Outline, Segment};
use ibid_delta::{DeltaDecoder, Error};
use proptest::prelude::*;

/// The splitmix64 sequence.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Words of a small vocabulary, so that there are repetitions of every length.
pub(crate) fn text(seed: u64, len: usize) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "in ",
        "the ",
        "same ",
        "place ",
        "where ",
        "it ",
        "was ",
        "before ",
        "\"key\": ",
        "true,\n",
        "{ ",
        "}\n",
        "0",
        "12",
        "a",
        "change ",
    ];
    let mut source = Random(seed);
    let mut text = Vec::with_capacity(len + 10);
    while text.len() < len {
        text.extend_from_slice(WORDS[source.below(WORDS.len())].as_bytes());
    }
    text.truncate(len);
    text
}

/// Returns `data` after some edits: pieces inserted, removed, replaced, repeated or moved.
pub(crate) fn edited(data: &[u8], seed: u64, edits: usize) -> Vec<u8> {
    let mut source = Random(seed);
    let mut data = data.to_vec();
    for _ in 0..edits {
        let at = source.below(data.len() + 1);
        let until = data.len().min(at + source.below(1 + data.len() / 8));
        let new = match source.below(4) {
            0 => Vec::new(),
            1 => {
                let length = source.below(40);
                source.bytes(length)
            }
            2 => {
                let from = source.below(data.len() + 1);
                data[from..data.len().min(from + 200)].to_vec()
            }
            _ => data[at..until].iter().rev().copied().collect(),
        };
        let until = if source.below(3) == 0 {
            at
        } else {
            until.min(at + source.below(300))
        };
        data.splice(at..until, new);
    }
    data
}

/// A base and a target that share much, little or nothing.
pub(crate) fn any_pair() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let one = (any::<u64>(), 0usize..9000, 0u8..4).prop_map(|(seed, len, kind)| match kind {
        0 => Random(seed).bytes(len),
        1 => text(seed, len),
        2 => vec![seed as u8; len],
        _ => text(seed, 1 + len % 97).iter().copied().cycle().take(len).collect(),
    });
    let related = (one.clone(), any::<u64>(), 0usize..12).prop_map(|(base, seed, edits)| {
        let target = edited(&base, seed, edits);
        (base, target)
    });
    prop_oneof![4 => related, 1 => (one.clone(), one)]
}

/// Returns the outline of a delta's target.
pub(crate) fn outline(
    decoder: &mut DeltaDecoder,
    base: &[u8],
    delta: &[u8],
    target_max: usize,
) -> Result<Outline, Error> {
    decoder.outline(base.len(), delta, target_max, |stretches, out| {
        assert!(
            stretches.windows(2).all(|pair| pair[0].end <= pair[1].start),
            "ascending and apart: {stretches:?}"
        );
        for stretch in stretches {
            out.extend_from_slice(&base[stretch.start as usize..stretch.end as usize]);
        }
        Ok(())
    })
}

/// Returns a range of a target, assembled from its outline.
pub(crate) fn put_together(outline: &Outline, base: &[u8], range: Range<usize>) -> Vec<u8> {
    let mut target = Vec::new();
    for stretch in outline.segments(range) {
        let before = target.len();
        match &stretch {
            Segment::Base(range) => target.extend_from_slice(&base[range.clone()]),
            Segment::Inserted(bytes) => target.extend_from_slice(bytes),
        }
        assert_eq!(target.len() - before, stretch.len());
        assert_ne!(stretch.len(), 0);
    }
    target
}
