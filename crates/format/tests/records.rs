//! Records and the entries that lead to them: as `docs/format/records.md` says, and safe to read whatever the bytes.

use ibid_format::Error;
use ibid_format::record::{
    BODY_BYTES_MAX, Body, KEY_BYTES_MAX, KeyEntry, NamespaceEntry, Next, Record, VersionEntry, key_of, split_key,
};
use proptest::prelude::*;

/// The bytes of an example: hexadecimal pairs, then two spaces and what they are.
fn example(name: &str) -> Vec<u8> {
    let document = include_str!("../../../docs/format/records.md");
    let (_, after) = document
        .split_once(&format!("```hex {name}\n"))
        .unwrap_or_else(|| panic!("no example {name}"));
    let (lines, _) = after.split_once("```").expect("a closing fence");
    let pairs = lines
        .lines()
        .flat_map(|line| line.split("  ").next().unwrap_or("").split(' '));
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("a pair of digits"))
        .collect()
}

#[track_caller]
fn assert_example(name: &str, written: &[u8]) {
    let hex: String = written.iter().map(|byte| format!("{byte:02x} ")).collect();
    assert_eq!(
        example(name),
        written,
        "docs/format/records.md, {name}: the code writes {hex}"
    );
}

const PLACE: Record<'_> = Record {
    namespace: 1,
    version: 2,
    key: b"page",
    body: Body::Whole(b"in the same place"),
};

fn encoded(number: u64, record: &Record<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.encode(number, &mut bytes).unwrap();
    bytes
}

#[test]
fn records_are_as_documented() {
    assert_example("whole", &encoded(7, &PLACE));
    assert_eq!(Record::decode(7, &example("whole")), Ok(PLACE));
    let deleted = Record {
        version: 3,
        body: Body::Deleted,
        ..PLACE
    };
    assert_example("deleted", &encoded(8, &deleted));
    assert_eq!(Record::decode(8, &example("deleted")), Ok(deleted));
}

#[test]
fn entries_are_as_documented() {
    let (deleted, lineage, versions, latest) = (true, 3, 3, 8);
    let key = KeyEntry {
        deleted,
        lineage,
        versions,
        latest,
    };
    let stored_key = key_of(1, b"page");
    assert_eq!(split_key(&stored_key), Ok((1, &b"page"[..])));
    assert_example("key", &key.encode(&stored_key).unwrap());
    assert_eq!(KeyEntry::decode(&stored_key, &example("key")), Ok(key));

    let (deleted, number) = (false, 7);
    let version = VersionEntry { deleted, number };
    assert_example("version", &version.encode(3, 2).unwrap());
    assert_eq!(VersionEntry::decode(3, 2, &example("version")), Ok(version));

    let (number, versions_kept) = (1, true);
    let namespace = NamespaceEntry { number, versions_kept };
    assert_example("namespace", &namespace.encode("pages").unwrap());
    assert_eq!(NamespaceEntry::decode(b"pages", &example("namespace")), Ok(namespace));

    let (record, namespace) = (9, 2);
    let next = Next { record, namespace };
    assert_example("next", &next.encode());
    assert_eq!(Next::decode(&example("next")), Ok(next));
}

#[test]
fn every_other_bit_is_an_error() {
    let sound = encoded(7, &PLACE);
    for bit in 0..sound.len() * 8 {
        let mut bad = sound.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(Record::decode(7, &bad), Err(Error::Check { .. })), "bit {bit}");
    }
    for length in 0..sound.len() {
        assert!(Record::decode(7, &sound[..length]).is_err(), "cut to {length}");
    }
    assert!(
        matches!(Record::decode(6, &sound), Err(Error::Check { .. })),
        "of another number"
    );
}

#[test]
fn what_no_reader_would_accept_is_not_written() {
    let refused = |number, record: &Record<'_>| {
        let mut bytes = vec![1];
        let refused = matches!(record.encode(number, &mut bytes), Err(Error::OutOfRange { .. }));
        refused && bytes == [1]
    };
    assert!(refused(0, &PLACE));
    assert!(refused(1, &Record { namespace: 0, ..PLACE }));
    assert!(refused(1, &Record { version: 0, ..PLACE }));
    let (key, body) = (vec![0; KEY_BYTES_MAX + 1], vec![0; BODY_BYTES_MAX + 1]);
    assert!(refused(1, &Record { key: &key, ..PLACE }));
    assert!(!refused(
        1,
        &Record {
            key: &key[1..],
            ..PLACE
        }
    ));
    let body = Body::Whole(&body);
    assert!(refused(1, &Record { body, ..PLACE }));

    let entry = |deleted, lineage, versions, latest| {
        let entry = KeyEntry {
            deleted,
            lineage,
            versions,
            latest,
        };
        entry.encode(b"key").is_ok()
    };
    assert!(entry(false, 3, 1, 3) && entry(true, 3, 2, 4) && entry(false, u64::MAX, 1, u64::MAX));
    assert!(!entry(true, 3, 1, 3), "a key does not begin with its deletion");
    assert!(!entry(false, 3, 1, 4) && !entry(false, 3, 3, 4) && !entry(false, 3, 2, 2));
    assert!(!entry(false, 0, 1, 0) && !entry(false, 3, 0, 3));
}

proptest! {
    #[test]
    fn any_record_is_read_as_it_was_written(
        number in 1..=u64::MAX, namespace in 1..=u32::MAX, version in 1..=u32::MAX,
        key in prop::collection::vec(any::<u8>(), 0..200), body in prop::option::of(prop::collection::vec(any::<u8>(), 0..2000)),
    ) {
        let body = body.as_deref().map_or(Body::Deleted, Body::Whole);
        let record = Record { namespace, version, key: &key, body };
        let bytes = encoded(number, &record);
        prop_assert_eq!(Record::decode(number, &bytes), Ok(record));
    }

    #[test]
    fn any_bytes_are_read_or_refused(number: u64, key in prop::collection::vec(any::<u8>(), 0..20), bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = Record::decode(number, &bytes);
        let _ = KeyEntry::decode(&key, &bytes);
        let _ = VersionEntry::decode(number, number as u32, &bytes);
        let _ = NamespaceEntry::decode(&key, &bytes);
        let _ = Next::decode(&bytes);
        let _ = split_key(&key);
    }
}
