//! Decoding any bytes gives an error or a target within the limit, and leaves the earlier output
//! intact.

use ibid_delta::advanced::describe;
use ibid_delta::{DeltaDecoder, DeltaEncoder, Error, Interval, Method};
use proptest::prelude::*;

use crate::data::{Random, any_pair, outline, put_together};

fn check(base: &[u8], delta: &[u8], target_max: usize) {
    let mut out = b"before".to_vec();
    let decoded = DeltaDecoder::new().decode(base, delta, target_max, &mut out);
    let outlined = outline(&mut DeltaDecoder::new(), base, delta, target_max);
    assert_eq!(
        outlined.map(|outline| put_together(&outline, base, 0..outline.len())),
        decoded.clone().map(|()| out[6..].to_vec()),
        "an outline is of the same target, or there is the same error"
    );
    match decoded {
        Ok(()) => {
            let (_, length) = describe(delta).expect("it was decoded");
            assert!(length <= target_max);
            assert_eq!(out.len(), 6 + length);
        }
        Err(_) => assert_eq!(out.len(), 6),
    }
    assert_eq!(&out[..6], b"before");
    assert!(out.capacity() <= 64 + 2 * target_max);
}

proptest! {
    #[test]
    fn noise(codec in 0u8..5, body in prop::collection::vec(any::<u8>(), 0..200), target_max in 0usize..3000) {
        let base = crate::data::text(1, 500);
        check(&base, &[&[codec], &body[..]].concat(), target_max);
    }

    #[test]
    fn damaged_deltas((base, target) in any_pair(), seed: u64, codec in 1u8..4) {
        let interval = Interval::I16;
        let method = match codec {
            1 => Method::ZstdPrefix { level: 1 },
            2 => Method::Anchor { interval },
            _ => Method::AnchorZstd { level: 1, interval },
        };
        let mut delta = Vec::new();
        DeltaEncoder::new().encode(method, &base, &target, &mut delta).unwrap();
        let mut source = Random(seed);
        for _ in 0..20 {
            let mut damaged = delta.clone();
            for _ in 0..1 + source.below(3) {
                let at = source.below(damaged.len());
                match source.below(3) {
                    0 => damaged[at] = source.next() as u8,
                    1 => damaged[at] ^= 1 << source.below(8),
                    _ => damaged.truncate(at.max(1)),
                }
            }
            check(&base, &damaged, target.len() + 100);
            // A base that the delta was not made for.
            check(&base[..source.below(base.len() + 1)], &delta, target.len());
            // Use it as a delta to be turned round.
            let mut out = b"before".to_vec();
            let mut encoder = DeltaEncoder::new().with_uncovered_max(usize::MAX);
            if encoder.reverse(method, &base, &target, &damaged, &mut out).is_ok() {
                let mut decoded = Vec::new();
                DeltaDecoder::new().decode(&target, &out[6..], base.len(), &mut decoded).unwrap();
                prop_assert!(decoded == base, "a reversal that succeeds is right");
            } else {
                prop_assert_eq!(out, b"before");
            }
        }
    }
}

#[test]
fn a_target_over_the_limit_is_refused_before_memory_is_taken() {
    let base = vec![0; 1000];
    let mut delta = Vec::new();
    let method = Method::ZstdPrefix { level: 1 };
    DeltaEncoder::new()
        .encode(method, &base, &vec![0; 1 << 20], &mut delta)
        .unwrap();
    let mut out = Vec::new();
    let refused = DeltaDecoder::new().decode(&base, &delta, (1 << 20) - 1, &mut out);
    assert!(
        matches!(
            refused,
            Err(Error::OutOfRange {
                field: "target length",
                ..
            })
        ),
        "{refused:?}"
    );
    assert_eq!(out.capacity(), 0);
}

#[test]
fn a_body_that_cannot_give_the_stated_length_is_refused_before_memory_is_taken() {
    // A target of 2^30 bytes from a body of three bytes, from an empty one, from one that inserts
    // nothing and copies all missing bytes, and from one with 2^26 copies compressed into a few
    // bytes.
    let many_copies = b"\x80\x80\x80\x20\x80\x80\x80\x60\x04abcd";
    for codec in [1, 2, 3] {
        for body in [&b"abc"[..], b"", b"\0\0\0\0", many_copies] {
            let delta = [&[codec, 0x80, 0x80, 0x80, 0x80, 0x04], body].concat();
            let mut out = Vec::new();
            let mut decoder = DeltaDecoder::new();
            let before = decoder.memory();
            let refused = decoder.decode(&[0; 16], &delta, 1 << 30, &mut out);
            assert!(refused.is_err());
            assert!(out.capacity() <= 64, "{codec} {body:?}");
            assert!(decoder.memory() - before < 1 << 18, "{codec} {body:?}");
        }
    }
}
