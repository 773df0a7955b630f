//! A delta turns its base into its target, whatever they are, and the reversed delta turns the
//! target into the base.

use ibid_delta::advanced::{Codec, Reversal, describe};
use ibid_delta::{Backend, DeltaDecoder, DeltaEncoder, Error, Interval, Method};
use proptest::prelude::*;

use crate::data::{Random, any_pair, edited, outline, put_together, text};

const ANCHOR_ZSTD: Method = Method::AnchorZstd {
    level: 3,
    interval: Interval::I32,
};

fn methods() -> Vec<Method> {
    let levels = [-7, 1, 3, 19].map(|level| Method::ZstdPrefix { level });
    let intervals = Interval::ALL.map(|interval| Method::Anchor { interval });
    let both = [(1, Interval::I16), (3, Interval::I32), (6, Interval::I128)]
        .map(|(level, interval)| Method::AnchorZstd { level, interval });
    levels.into_iter().chain(intervals).chain(both).collect()
}

fn encoded(encoder: &mut DeltaEncoder, method: Method, base: &[u8], target: &[u8]) -> Vec<u8> {
    let mut delta = b"before".to_vec();
    encoder
        .encode(method, base, target, &mut delta)
        .expect("lengths within the limits");
    assert_eq!(&delta[..6], b"before");
    delta.split_off(6)
}

#[track_caller]
fn assert_decodes(decoder: &mut DeltaDecoder, base: &[u8], delta: &[u8], target: &[u8]) {
    let mut out = b"before".to_vec();
    assert_eq!(decoder.decode(base, delta, target.len(), &mut out), Ok(()));
    assert_eq!(&out[..6], b"before");
    assert!(out[6..] == *target, "another target");

    let outline = outline(decoder, base, delta, target.len()).expect("what decodes has an outline");
    assert_eq!(outline.len(), target.len());
    out.truncate(6);
    outline.assemble(base, &mut out);
    assert!(
        out[..6] == *b"before" && out[6..] == *target,
        "another target by its outline"
    );
    let third = target.len() / 3;
    for range in [0..target.len(), third..target.len() - third, third..third, 0..third] {
        assert!(
            put_together(&outline, base, range.clone()) == target[range],
            "another target by its outline"
        );
    }
}

/// Checks all promises for one pair.
fn check(encoder: &mut DeltaEncoder, decoder: &mut DeltaDecoder, method: Method, base: &[u8], target: &[u8]) {
    let forward = encoded(encoder, method, base, target);
    let outlined = matches!(method, Method::AnchorZstd { .. }) && !target.is_empty();
    let expected =
        outlined.then(|| outline(decoder, base, &forward, target.len()).expect("what decodes has an outline"));
    assert!(encoder.outline() == expected, "writer and reader have the same outline");
    assert_eq!(describe(&forward), Ok((method.codec(), target.len())));
    assert_decodes(decoder, base, &forward, target);
    for uncovered_max in [0, Reversal::uncovered_max(base.len()), usize::MAX] {
        let mut backward = Vec::new();
        *encoder = std::mem::take(encoder).with_uncovered_max(uncovered_max);
        let reversal = encoder
            .reverse(method, base, target, &forward, &mut backward)
            .expect("a delta of these ends");
        assert_decodes(decoder, target, &backward, base);
        match reversal {
            Reversal::TurnedRound { uncovered } => assert!(uncovered <= uncovered_max),
            Reversal::Encoded => assert_eq!(backward, encoded(encoder, method, target, base)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn any_pair_by_every_method((base, target) in any_pair()) {
        let (mut encoder, mut decoder) = (DeltaEncoder::new(), DeltaDecoder::new());
        for method in methods() {
            check(&mut encoder, &mut decoder, method, &base, &target);
        }
    }

    #[test]
    fn every_backend_writes_the_same((base, target) in any_pair()) {
        for interval in Interval::ALL {
            for method in [Method::Anchor { interval }, Method::AnchorZstd { level: 1, interval }] {
                let of = |backend| encoded(&mut DeltaEncoder::new().with_backend(backend), method, &base, &target);
                let expected = of(Backend::scalar());
                for backend in Backend::available() {
                    prop_assert_eq!(&of(backend), &expected);
                }
            }
        }
    }
}

/// The zstd frame header changes for targets of more than 255 and 65 791 bytes, and the way to
/// compress changes at some lengths of base and target.
#[test]
fn lengths_where_something_changes() {
    let (mut encoder, mut decoder) = (DeltaEncoder::new(), DeltaDecoder::new());
    let lengths = [0, 1, 8, 255, 256, 65_791, 65_792, 131_073, 524_289];
    let longest = text(3, 700_000);
    for base_len in lengths {
        for target_len in lengths {
            let from = longest.len() - target_len;
            let (base, target) = (&longest[..base_len], &longest[from..].to_vec());
            for method in [
                Method::ZstdPrefix { level: 1 },
                Method::Anchor {
                    interval: Interval::I64,
                },
                ANCHOR_ZSTD,
            ] {
                check(&mut encoder, &mut decoder, method, base, target);
            }
        }
    }
}

/// zstd would take such a base for a trained dictionary.
#[test]
fn a_base_that_looks_like_a_dictionary_is_mere_bytes() {
    let mut base = vec![0x37, 0xa4, 0x30, 0xec];
    base.extend_from_slice(&text(5, 5000));
    let target = edited(&base, 6, 3);
    for level in [1, 19] {
        check(
            &mut DeltaEncoder::new(),
            &mut DeltaDecoder::new(),
            Method::ZstdPrefix { level },
            &base,
            &target,
        );
        let long: Vec<u8> = base.iter().copied().cycle().take(700_000).collect();
        check(
            &mut DeltaEncoder::new(),
            &mut DeltaDecoder::new(),
            Method::ZstdPrefix { level },
            &long,
            &target,
        );
    }
}

/// zstd also finds matches in a base that is too long for its default tables.
#[test]
fn the_beginning_of_a_long_base_counts() {
    let base = Random(1).bytes(1 << 20);
    let target = base[5000..25_000].to_vec();
    for method in [
        Method::ZstdPrefix { level: 1 },
        Method::ZstdPrefix { level: 3 },
        ANCHOR_ZSTD,
    ] {
        assert!(
            encoded(&mut DeltaEncoder::new(), method, &base, &target).len() < 1000,
            "{method:?}"
        );
    }
}

#[test]
fn an_edit_costs_about_what_it_inserts() {
    let base = Random(2).bytes(50_000);
    let mut target = base.clone();
    for (at, removed) in [(40_000, 7), (20_000, 0), (100, 30)] {
        target.splice(at..at + removed, *b"a few words");
    }
    for interval in Interval::ALL {
        for method in [Method::Anchor { interval }, Method::AnchorZstd { level: 1, interval }] {
            let delta = encoded(&mut DeltaEncoder::new(), method, &base, &target);
            assert!(delta.len() < 3 * (11 + 8) + 8, "{method:?}: {}", delta.len());
        }
    }
}

/// Repeated copies in the target cover the base only once; the rest of the base needs a new search.
#[test]
fn a_reversal_that_covers_little_falls_back() {
    let mut encoder = DeltaEncoder::new();
    let piece = Random(7).bytes(500);
    let base = [&piece[..], &piece, &piece, &piece].concat();
    let target = [b"once: ", &piece[..]].concat();
    let method = Method::Anchor {
        interval: Interval::I16,
    };
    let forward = encoded(&mut encoder, method, &base, &target);
    let mut backward = Vec::new();
    assert_eq!(
        encoder.reverse(method, &base, &target, &forward, &mut backward),
        Ok(Reversal::Encoded)
    );
    assert!(backward.len() < 100);
}

#[test]
fn a_delta_between_other_ends_is_not_turned_round() {
    let (base, target) = (text(1, 3000), text(2, 3000));
    let mut encoder = DeltaEncoder::new();
    let method = Method::Anchor {
        interval: Interval::I16,
    };
    let forward = encoded(&mut encoder, method, &base, &base);
    let mut out = b"before".to_vec();
    assert_eq!(
        encoder.reverse(method, &base, &target, &forward, &mut out),
        Err(Error::OtherEnds { position: 0 })
    );
    assert_eq!(out, b"before");
}

/// Pairs that are hard for anchors: nothing in common, one byte repeated, one block repeated, many
/// places with the same bytes, the base's blocks backwards, and the last two combined.
#[test]
fn pairs_that_have_little_or_too_much_in_common() {
    let (mut encoder, mut decoder) = (DeltaEncoder::new(), DeltaDecoder::new());
    let random = Random(11).bytes(60_000);
    let block = &random[..700];
    let repeated: Vec<u8> = block.iter().copied().cycle().take(50_000).collect();
    let backwards: Vec<u8> = random.rchunks(500).flatten().copied().collect();
    let sprinkled: Vec<u8> = random
        .chunks(100)
        .flat_map(|piece| [piece, &block[..90]].concat())
        .collect();
    let ends = [
        Vec::new(),
        vec![0; 40_000],
        vec![0; 31],
        random,
        repeated,
        backwards,
        sprinkled,
        text(12, 30_000),
    ];
    for base in &ends {
        for target in &ends {
            check(&mut encoder, &mut decoder, ANCHOR_ZSTD, base, target);
        }
    }
}

/// Only changed bytes take space, and they resemble the base's bytes beside the copies.
#[test]
fn uncopied_bytes_are_written_against_the_bytes_in_their_place() {
    let base = Random(13).bytes(300_000);
    let mut target = base.clone();
    for at in (1000..299_000).step_by(5000) {
        // Every 20th byte of a stretch of 400: too dense for anchors.
        for changed in (at..at + 400).step_by(20) {
            target[changed] ^= 1;
        }
    }
    let delta = encoded(&mut DeltaEncoder::new(), ANCHOR_ZSTD, &base, &target);
    let changed = 60 * 400;
    assert!(delta.len() < changed / 2, "{} of {changed}", delta.len());
}

#[test]
fn codecs_have_numbers_for_ever() {
    for (codec, number, name) in [
        (Codec::ZstdPrefix, 1, "zstd-prefix"),
        (Codec::Anchor, 2, "anchor"),
        (Codec::AnchorZstd, 3, "anchor-zstd"),
    ] {
        assert_eq!((codec.number(), codec.name()), (number, name));
        assert_eq!(Codec::from_number(number), Ok(codec));
    }
    for number in [0, 4, 255] {
        assert!(Codec::from_number(number).is_err());
    }
}

/// As many anchors as usual would take 60 MiB.
#[test]
fn a_long_base_takes_no_more_tables_than_one_of_16_mib() {
    let mut random = Random(3);
    let base: Vec<u8> = (0..5 << 20).flat_map(|_| random.next().to_le_bytes()).collect();
    let middle = base.len() / 2;
    let mut target = [&base[middle..], &base[..middle]].concat();
    for at in (0..target.len()).step_by(100_000) {
        target[at] ^= 1;
    }
    let method = Method::Anchor {
        interval: Interval::I16,
    };
    let (mut encoder, mut decoder) = (DeltaEncoder::new(), DeltaDecoder::new());
    let others = encoder.memory();
    let delta = encoded(&mut encoder, method, &base, &target);
    assert_decodes(&mut decoder, &base, &delta, &target);
    assert!(delta.len() < base.len() / 1000, "{} bytes", delta.len());
    let tables = encoder.memory() - others;
    assert!(tables < 40 << 20, "{tables} bytes");
}

#[test]
fn a_delta_within_a_limit_is_the_same_or_is_not_written() {
    let (mut encoder, mut refused, mut written) = (DeltaEncoder::new(), 0, 0);
    for seed in 0..50 {
        let base = text(seed, 3000);
        let target = edited(&base, seed, 20);
        for method in methods() {
            let expected = encoded(&mut encoder, method, &base, &target);
            for bytes_max in [
                0,
                1,
                5,
                expected.len() - 1,
                expected.len(),
                expected.len() + 1,
                usize::MAX,
            ] {
                let mut out = b"before".to_vec();
                let is_within = encoder
                    .encode_within(method, &base, &target, bytes_max, &mut out)
                    .unwrap();
                assert_eq!(is_within, expected.len() <= bytes_max);
                let whole = if is_within { &expected[..] } else { b"" };
                assert!(out == [b"before", whole].concat());
                *if is_within { &mut written } else { &mut refused } += 1;
            }
        }
    }
    assert!(refused > 1000 && written > 1000, "{refused} and {written}");
}
