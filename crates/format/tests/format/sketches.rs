//! Sketches are read back as written, and no other bytes are accepted.

use ibid_format::sketches::{FEATURES_MAX, Features, Run, Sketches};
use ibid_format::tree::Time;
use ibid_format::{Error, FileId, SEAL_OVERHEAD, SealKind};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use crate::common::*;

fn features() -> impl Strategy<Value = Features> {
    vec(btree_set(any::<u32>(), 0..=FEATURES_MAX), 1..6).prop_map(|chunks| {
        let mut features = Features::default();
        for chunk in chunks {
            features.push(&chunk.into_iter().rev().collect::<Vec<_>>()).unwrap();
        }
        features
    })
}

fn sketches() -> impl Strategy<Value = Sketches> {
    let run = (0..4u8, any::<u32>(), 0..60_000u16, features());
    let run = run.prop_map(|(pack, offset, slot, chunks)| Run {
        pack: FileId([pack; 16]),
        offset,
        slot,
        chunks,
    });
    (vec(run, 0..20), -1000..1000i64, 0..1_000_000_000u32).prop_map(|(runs, seconds, nanos)| Sketches {
        time: Time { seconds, nanos },
        runs,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn written_values_are_read_back(sketches in sketches()) {
        for keys in both_keys() {
            let mut file = sketches.encode(&keys, FILE).unwrap();
            prop_assert_eq!(Sketches::open(&keys, FILE, &mut file), Ok(sketches.clone()));
        }
    }

    #[test]
    fn a_changed_byte_is_noticed(sketches in sketches(), at in any::<prop::sample::Index>(), flip in 1..=255u8) {
        for keys in both_keys() {
            let mut file = sketches.encode(&keys, FILE).unwrap();
            let at = at.index(file.len());
            file[at] ^= flip;
            prop_assert!(Sketches::open(&keys, FILE, &mut file).is_err());
        }
    }

    #[test]
    fn any_values_give_sketches_or_an_error(values in vec(any::<u8>(), 0..300)) {
        let mut plaintext = (values.len() as u32).to_le_bytes().to_vec();
        plaintext.extend_from_slice(&values);
        let fixed = 8 + SEAL_OVERHEAD;
        plaintext.resize(ibid_format::padme::padded((plaintext.len() + fixed) as u64) as usize - fixed, 0);
        if let Ok(sketches) = Sketches::decode(&plaintext) {
            let [_, keys] = both_keys();
            let mut file = sketches.encode(&keys, FILE).unwrap();
            prop_assert_eq!(Sketches::open(&keys, FILE, &mut file), Ok(sketches));
        }
    }
}

fn one_run(slot: u16, chunks: Features) -> Sketches {
    let run = Run {
        pack: FileId([1; 16]),
        offset: 8,
        slot,
        chunks,
    };
    Sketches {
        time: Time { seconds: 0, nanos: 0 },
        runs: vec![run],
    }
}

#[test]
fn features_descend_and_are_few() {
    let mut features = Features::default();
    assert_eq!(
        features.push(&[2, 2]),
        Err(Error::Unordered {
            field: "features of a chunk",
            position: 1
        })
    );
    let many: Vec<u32> = (0..=FEATURES_MAX as u32).rev().collect();
    assert!(matches!(features.push(&many), Err(Error::OutOfRange { .. })));
    assert!(features.is_empty());
    features.push(&many[1..]).unwrap();
    assert_eq!(features.iter().collect::<Vec<_>>(), [&many[1..]]);
}

#[test]
fn a_run_has_chunks_and_ends_where_slots_end() {
    let [keys, _] = both_keys();
    let refused = |sketches: Sketches| matches!(sketches.encode(&keys, FILE), Err(Error::OutOfRange { .. }));
    assert!(refused(one_run(0, Features::default())));
    let mut two = Features::default();
    two.push(&[1]).unwrap();
    two.push(&[]).unwrap();
    assert!(refused(one_run(65_534, two.clone())));
    assert!(!refused(one_run(65_533, two)));
}

/// The example of `docs/format/README.md`: two chunks in the first frame of a pack, with two
/// features and none.
#[test]
fn the_bytes_are_as_documented() {
    let mut chunks = Features::default();
    chunks.push(&[0xffff_f000, 0xffff_e000]).unwrap();
    chunks.push(&[]).unwrap();
    let [_, keys] = both_keys();
    let file = one_run(0, chunks).encode(&keys, FILE).unwrap();
    assert_eq!(&file[..8], b"ibidskt\x01");
    let mut sealed = file[8..].to_vec();
    let plaintext = keys.open(SealKind::Sketches, FILE, 8, &mut sealed).unwrap();
    let mut expected = vec![31, 0, 0, 0, 0, 0, 1];
    expected.extend_from_slice(&[1; 16]);
    expected.extend_from_slice(&[1, 0, 8, 0, 2, 2, 11, 0xfd, 0xbf, 0xff, 3, 0]);
    assert_eq!(plaintext[..expected.len()], expected);
    assert!(plaintext[expected.len()..].iter().all(|&byte| byte == 0));
}
