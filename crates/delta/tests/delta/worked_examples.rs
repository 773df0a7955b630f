//! The code and `docs/format/delta.md` agree.

use ibid_delta::advanced::{Codec, describe};
use ibid_delta::{DeltaDecoder, DeltaEncoder, Error, FeatureIndex, Interval, Method, Sketch};

/// Returns the bytes of an example: lines of hexadecimal pairs, then two spaces and a comment.
fn example(name: &str) -> Vec<u8> {
    let document = include_str!("../../../../docs/format/delta.md");
    let opening = format!("```hex {name}\n");
    let (_, after) = document
        .split_once(&opening)
        .unwrap_or_else(|| panic!("no example {name}"));
    let (lines, _) = after.split_once("```").expect("a closing fence");
    let pairs = lines
        .lines()
        .flat_map(|line| line.split("  ").next().unwrap_or("").split(' '));
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("a pair of digits"))
        .collect()
}

fn decoded(base: &[u8], delta: &[u8]) -> Result<Vec<u8>, Error> {
    let mut target = Vec::new();
    DeltaDecoder::new()
        .decode(base, delta, 1000, &mut target)
        .map(|()| target)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x} ")).collect()
}

#[test]
fn a_delta_by_zstd_prefix() {
    let (base, target) = (b"in the same place", b"in the same place, again");
    let mut written = Vec::new();
    DeltaEncoder::new()
        .encode(Method::ZstdPrefix { level: 1 }, base, target, &mut written)
        .unwrap();
    let delta = example("zstd-prefix");
    assert_eq!(describe(&delta), Ok((Codec::ZstdPrefix, 24)));
    // zstd's output may change with its version, so only reading is fixed.
    assert_eq!(decoded(base, &written), Ok(target.to_vec()));
    assert_eq!(
        decoded(base, &delta),
        Ok(target.to_vec()),
        "now written: {}",
        hex(&written)
    );
}

#[test]
fn a_delta_by_anchors() {
    let (base, target) = (
        b"where it was before, in the same place",
        b"it was before, in the very same place",
    );
    let mut written = Vec::new();
    let method = Method::Anchor {
        interval: Interval::I16,
    };
    DeltaEncoder::new().encode(method, base, target, &mut written).unwrap();
    let delta = example("anchor");
    assert_eq!(hex(&written), hex(&delta));
    assert_eq!(decoded(base, &delta), Ok(target.to_vec()));
}

#[test]
fn a_delta_by_anchors_and_zstd() {
    let (base, target) = (
        b"it stands in the same place where it stood before, unchanged",
        b"it stands in the same place where it stood long before, unchanged",
    );
    let mut written = Vec::new();
    let method = Method::AnchorZstd {
        level: 3,
        interval: Interval::I32,
    };
    DeltaEncoder::new().encode(method, base, target, &mut written).unwrap();
    let delta = example("anchor-zstd");
    assert_eq!(describe(&delta), Ok((Codec::AnchorZstd, target.len())));
    assert_eq!(decoded(base, &written), Ok(target.to_vec()));
    assert_eq!(
        decoded(base, &delta),
        Ok(target.to_vec()),
        "now written: {}",
        hex(&written)
    );
    // The rest depends on the context: with other bytes there, the target differs.
    let mut other = *base;
    other[base.len() - 1] = b'D';
    assert_eq!(decoded(&other, &delta).unwrap().last(), Some(&b'D'));
}

#[test]
fn a_feature_index() {
    let mut index = FeatureIndex::new();
    index.add_partition(7, 50).unwrap();
    index.insert(7, &Sketch::of([42]), 1000);
    let mut written = Vec::new();
    index.save(&mut written);
    let bytes = example("feature-index");
    assert_eq!(hex(&written), hex(&bytes));
    let loaded = FeatureIndex::load_from(&bytes, 1 << 20).expect("the example loads");
    let mut candidates = Vec::new();
    loaded.candidates(7, &Sketch::of([42]), &mut candidates);
    assert_eq!(candidates.len(), 1);
    assert_eq!((candidates[0].place, candidates[0].shared), (1000, 1));
}
