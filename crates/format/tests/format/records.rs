//! Records and the entries that lead to them are as `docs/format/records.md` says, and safe to read
//! for any bytes.

use ibid_delta::{Interval, Method};
use ibid_format::Error;
use ibid_format::record::{
    BODY_BYTES_MAX, BlockBuilder, BlockFrameBuilder, BlockFrameDecoder, BlockHead, Body, BodyCheck, COMMIT_HEAD_BYTES,
    ChainEntry, CheckHash, CommitChange, CommitHasher, CommitHead, EncoderWatermark, EncodingStopped, Epoch,
    INDEX_VALUE_BYTES_MAX, INDEX_VALUES_MAX, INDEXES_MAX, IndexEntry, IndexRow, IndexValues, KEY_BYTES_MAX, KeyEntry,
    LONG_BODY_BYTES_MAX, LastBlock, LatestEntry, LogChange, LogEntry, LogOperation, LogStart, LogState, NUMBER_MAX,
    NamespaceEntry, NextNumbers, Part, PartKind, PieceList, Place, Places, PurgedMark, READERS_NOTE_BYTES, ReadersNote,
    Record, References, RetentionClock, RetentionEntry, Role, SegmentEntry, Stopped, StoredValue, TIME_MAX, ValuePlace,
    VersionEntry, VersionGroup, after_index_value, commit_log_header, commit_log_id, commit_log_note, frame_of_block,
    frames_of_block, index_value_prefix, key_of, open_log_entry, records_of_frame, split_key, synced_by_note,
};
use proptest::prelude::*;

/// Returns the bytes of an example: lines of hexadecimal pairs, then two spaces and a comment.
fn example(name: &str) -> Vec<u8> {
    let document = include_str!("../../../../docs/format/records.md");
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
    in_pieces: false,
    namespace: 1,
    version: 2,
    key: b"page",
    body: Body::Whole(b"in the same place"),
};

/// A key with one version.
const KEY: KeyEntry = KeyEntry {
    deleted: false,
    lineage: 3,
    versions: 1,
    latest: 3,
    time: 0,
    oldest: 1,
    expires: 0,
    uses: 0,
    in_pieces: false,
};

/// 2026-11-21 12:00:00 in UTC.
const NOON: u64 = 1_795_262_400_000;

fn version(deleted: bool, number: u64, time: u64) -> VersionEntry {
    VersionEntry {
        deleted,
        purged: false,
        number,
        time,
    }
}

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
    let method = Method::Anchor {
        interval: Interval::I16,
    };
    let mut delta = Vec::new();
    let (base, body) = (b"in the very same place", b"in the same place");
    ibid_delta::DeltaEncoder::new()
        .encode(method, base, body, &mut delta)
        .unwrap();
    for (name, hash) in [("delta", CheckHash::Xxh3), ("delta-by-blake3", CheckHash::Blake3)] {
        let delta = Record {
            body: Body::Delta {
                base: 9,
                check: BodyCheck::by(hash, body),
                delta: &delta,
            },
            ..PLACE
        };
        assert_example(name, &encoded(7, &delta));
        assert_eq!(Record::decode(7, &example(name)), Ok(delta));
    }
    assert_eq!(Record::decode(7, &example("whole-by-blake3")), Ok(PLACE));
    assert!(Record::is_whole(&example("whole")) && Record::is_whole(&example("whole-by-blake3")));
    assert!(!Record::is_whole(&example("delta")) && !Record::is_whole(&example("delta-by-blake3")));
    assert_example("deleted", &encoded(8, &deleted));
    assert_eq!(Record::decode(8, &example("deleted")), Ok(deleted));
}

#[test]
fn bodies_in_pieces_are_as_documented() {
    let mut id = [0; 32];
    (0..).zip(&mut id).for_each(|(at, byte)| *byte = at);
    let length = 2_000_000;
    let list = PieceList {
        namespace: 2,
        kind: PartKind::List,
        parts: vec![Part { id, length }],
    };
    let bytes = list.encode().unwrap();
    let record = Record {
        in_pieces: true,
        body: Body::Whole(&bytes),
        ..PLACE
    };
    assert_example("in-pieces", &encoded(7, &record));
    let stored = example("in-pieces");
    let read = Record::decode(7, &stored).unwrap();
    assert!(read.in_pieces && Record::is_whole(&stored));
    assert_eq!(PieceList::decode(read.body.stored()), Ok(list.clone()));
    assert_eq!(list.length(), length);
    assert_eq!(
        list.stored_keys().into_iter().collect::<Vec<_>>(),
        [key_of(2, &PartKind::List.key(&id))]
    );

    let entry = KeyEntry {
        uses: 2,
        in_pieces: true,
        ..KEY
    };
    let key = key_of(2, &PartKind::List.key(&id));
    assert_example("key-uses", &entry.encode(&key).unwrap());
    assert_eq!(KeyEntry::decode(&key, &example("key-uses")), Ok(entry));
}

#[test]
fn a_list_of_pieces_keeps_its_limits() {
    let list = |kind, parts: &[u64]| PieceList {
        namespace: 2,
        kind,
        parts: parts.iter().map(|&length| Part { id: [7; 32], length }).collect(),
    };
    for kind in [PartKind::Piece, PartKind::List] {
        assert!(list(kind, &[]).encode().is_err() && list(kind, &[1, 0]).encode().is_err());
        let most = list(kind, &[1, LONG_BODY_BYTES_MAX - 1]);
        assert_eq!(PieceList::decode(&most.encode().unwrap()), Ok(most));
        assert!(list(kind, &[2, LONG_BODY_BYTES_MAX - 1]).encode().is_err());
        assert!(list(kind, &[u64::MAX, u64::MAX]).encode().is_err());
    }
    let bytes = list(PartKind::Piece, &[5, 6]).encode().unwrap();
    for at in 0..bytes.len() {
        assert!(PieceList::decode(&bytes[..at]).is_err(), "cut off at {at}");
    }
    let changed = |at: usize, to: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = to;
        PieceList::decode(&bytes)
    };
    assert!(changed(0, 0).is_err() && changed(0, 3).is_err(), "no such kind");
    assert!(changed(1, 0).is_err(), "no such namespace");
    assert!(
        changed(2, 1).is_err() && changed(2, 3).is_err() && changed(2, 0).is_err(),
        "another number of parts"
    );
    let deleted = Record {
        in_pieces: true,
        body: Body::Deleted,
        ..PLACE
    };
    assert!(deleted.encode(1, &mut Vec::new()).is_err());
    let mut stored = encoded(
        8,
        &Record {
            body: Body::Deleted,
            ..PLACE
        },
    );
    stored[0] = 8 + 4;
    assert!(Record::decode_packed(8, &stored).is_err());
}

#[test]
fn entries_are_as_documented() {
    let key = KeyEntry {
        deleted: true,
        versions: 3,
        latest: 8,
        ..KEY
    };
    let stored_key = key_of(1, b"page");
    assert_eq!(split_key(&stored_key), Ok((1, &b"page"[..])));
    assert_example("key", &key.encode(&stored_key).unwrap());
    assert_eq!(KeyEntry::decode(&stored_key, &example("key")), Ok(key));
    let key = KeyEntry {
        time: NOON + 1500,
        oldest: 2,
        expires: NOON + 365 * 86_400_000,
        ..key
    };
    assert_example("key-timed", &key.encode(&stored_key).unwrap());
    assert_eq!(KeyEntry::decode(&stored_key, &example("key-timed")), Ok(key));

    let mut versions = VersionGroup::new(3, 0);
    for (deleted, number) in [(false, 7), (true, 8)] {
        versions.push(version(deleted, number, 0));
    }
    assert_example("versions", &versions.encode().unwrap());
    assert_eq!(VersionGroup::decode(3, 0, &example("versions")), Ok(versions));
    let mut versions = VersionGroup::new(3, 0);
    versions.first_time = NOON;
    for (deleted, number) in [(false, 7), (true, 8)] {
        versions.push(version(deleted, number, NOON + 1500));
    }
    versions.purge(2);
    assert_example("versions-timed", &versions.encode().unwrap());
    assert_eq!(VersionGroup::decode(3, 0, &example("versions-timed")), Ok(versions));

    let mut references = References::default();
    references.set(7, 1, false);
    references.set(8, 2, true);
    assert_example("references", &references.encode(0).unwrap());
    assert_eq!(References::decode(0, &example("references")), Ok(references.clone()));
    references.purge(7);
    references.purge(8);
    assert!(
        !references.is_purged(7) && references.is_purged(8),
        "only what is obsolete can be purged"
    );
    assert_example("references-purged", &references.encode(0).unwrap());
    assert_eq!(
        References::decode(0, &example("references-purged")),
        Ok(references.clone())
    );
    references.set(8, 0, true);
    assert!(!references.is_purged(8), "it is gone");

    let chain = ChainEntry {
        namespace: 1,
        position: 9,
        distance: 16,
        hops: vec![Some(7), Some(3)],
        features: vec![0xfff0_0000, 0xff00_0000],
        feature_bytes: 64,
        check: None,
        copies: Vec::new(),
    };
    assert_example("chain", &chain.encode(8).unwrap());
    assert_eq!(ChainEntry::decode(8, &example("chain")), Ok(chain));
    for (name, hash) in [
        ("chain-check", CheckHash::Xxh3),
        ("chain-check-by-blake3", CheckHash::Blake3),
    ] {
        let found = ChainEntry {
            namespace: 1,
            features: vec![0xfff0_0000],
            check: Some(BodyCheck::by(hash, b"in the same place")),
            copies: vec![3, 7],
            ..ChainEntry::default()
        };
        assert_example(name, &found.encode(8).unwrap());
        assert_eq!(ChainEntry::decode(8, &example(name)), Ok(found));
    }
    let sparse = ChainEntry {
        namespace: 1,
        features: vec![0xfff0_0000],
        feature_bytes: 1024,
        ..ChainEntry::default()
    };
    assert_example("chain-1024", &sparse.encode(8).unwrap());
    assert_eq!(ChainEntry::decode(8, &example("chain-1024")), Ok(sparse));

    let mut places = Places::default();
    for (number, block, frame) in [(1, 1, 0), (2, 1, 0), (4, 2, 3)] {
        places.set(number, Some(Place { block, frame }));
    }
    assert_example("places", &places.encode(0).unwrap());
    assert_eq!(Places::decode(0, &example("places")), Ok(places));

    let given_up = EncodingStopped { since: 9 };
    for (stopped, name) in [(Stopped::All, "given-up"), (Stopped::OtherKeys, "given-up-other-keys")] {
        assert_example(name, &given_up.encode(1, stopped));
        assert_eq!(EncodingStopped::decode(1, stopped, &example(name)), Ok(given_up));
        assert_eq!(
            EncodingStopped::of_key(&EncodingStopped::key(1, stopped)),
            Some((1, stopped))
        );
    }
    assert!(EncodingStopped::decode(1, Stopped::All, &example("given-up-other-keys")).is_err());
    for other in [
        &b"encoded"[..],
        b"given up/123",
        b"given up/1234\x02",
        b"given up/1234\x01\x01",
    ] {
        assert_eq!(EncodingStopped::of_key(other), None);
    }

    let encoded = EncoderWatermark { next: 9 };
    assert_example("encoded", &encoded.encode());
    assert_eq!(EncoderWatermark::decode(&example("encoded")), Ok(encoded));

    let namespace = NamespaceEntry {
        number: 1,
        versions_kept: true,
        retention: RetentionEntry::default(),
        has_expiring: false,
        latest: LatestEntry::Automatic,
    };
    assert_example("namespace", &namespace.encode("pages").unwrap());
    assert_eq!(NamespaceEntry::decode(b"pages", &example("namespace")), Ok(namespace));
    let retention = RetentionEntry {
        versions: 10,
        within: 30 * 86_400_000,
        lifetime: 0,
    };
    let namespace = NamespaceEntry { retention, ..namespace };
    assert_example("namespace-retention", &namespace.encode("pages").unwrap());
    assert_eq!(
        NamespaceEntry::decode(b"pages", &example("namespace-retention")),
        Ok(namespace)
    );
    let namespace = NamespaceEntry {
        retention: RetentionEntry::default(),
        latest: LatestEntry::Deltas,
        ..namespace
    };
    assert_example("namespace-latest", &namespace.encode("pages").unwrap());
    assert_eq!(
        NamespaceEntry::decode(b"pages", &example("namespace-latest")),
        Ok(namespace)
    );

    let purged = PurgedMark { purges: 3 };
    assert_example("purged", &purged.encode());
    assert_eq!(PurgedMark::decode(&example("purged")), Ok(purged));
    let last = LastBlock { number: 128 };
    assert_example("last-block", &last.encode());
    assert_eq!(LastBlock::decode(&example("last-block")), Ok(last));
    let clock = RetentionClock { time: NOON };
    assert_example("retention", &clock.encode());
    assert_eq!(RetentionClock::decode(&example("retention")), Ok(clock));

    let (record, namespace) = (9, 2);
    let next = NextNumbers { record, namespace };
    assert_example("next", &next.encode());
    assert_eq!(NextNumbers::decode(&example("next")), Ok(next));
}

/// The index values of `page` in the examples.
fn page_values() -> IndexValues {
    IndexValues::from([(1, b"anna".to_vec()), (2, b"a\0b".to_vec())])
}

#[test]
fn indexes_are_as_documented_and_every_byte_is_checked() {
    let key = KEY;
    let (stored_key, values) = (key_of(1, b"page"), page_values());
    assert_example("key-values", &key.encode_with_values(&stored_key, &values).unwrap());
    let bytes = example("key-values");
    assert_eq!(KeyEntry::decode(&stored_key, &bytes), Ok(key));
    assert_eq!(
        KeyEntry::decode_with_values(&stored_key, &bytes),
        Ok((key, values.clone()))
    );

    for (name, stored, number, unique) in [("index", "author", 1, false), ("index-unique", "email", 2, true)] {
        let index = IndexEntry { number, unique };
        assert_example(name, &index.encode(1, stored).unwrap());
        let stored_key = IndexEntry::key(1, stored);
        assert_eq!(IndexEntry::split_key(&stored_key), Some((1, stored)));
        assert_eq!(IndexEntry::decode(&stored_key, &example(name)), Ok(index));
    }

    for ((index, value), name) in values.into_iter().zip(["", "-zero"]) {
        let (namespace, key) = (1, b"page".to_vec());
        let row = IndexRow {
            namespace,
            index,
            value,
            key,
        };
        let (stored, check) = row.encode().unwrap();
        assert_example(&format!("index-row-key{name}"), &stored);
        assert_example(&format!("index-row{name}"), &check);
        assert_eq!(IndexEntry::split_key(&stored), None);
        assert_eq!(IndexRow::decode(&stored, &check), Ok(row));
        for bit in 0..(stored.len() + check.len()) * 8 {
            let mut bad = [&stored[..], &check].concat();
            bad[bit / 8] ^= 1 << (bit % 8);
            let (stored, check) = bad.split_at(stored.len());
            assert!(
                matches!(IndexRow::decode(stored, check), Err(Error::Check { .. })),
                "bit {bit}"
            );
        }
    }
}

#[test]
fn indexes_hold_to_their_limits() {
    let key = KeyEntry {
        deleted: true,
        versions: 2,
        latest: 4,
        ..KEY
    };
    let encoded = |deleted, values: &IndexValues| {
        let key = KeyEntry { deleted, ..key };
        key.encode_with_values(b"key", values).map(drop)
    };
    assert!(encoded(false, &page_values()).is_ok());
    assert!(encoded(true, &page_values()).is_err(), "a deleted key has no values");
    let many = |count: usize| {
        (0..count)
            .map(|value| (1, value.to_be_bytes().to_vec()))
            .collect::<IndexValues>()
    };
    assert!(encoded(false, &many(INDEX_VALUES_MAX)).is_ok() && encoded(false, &many(INDEX_VALUES_MAX + 1)).is_err());
    let row = |index, length, key| IndexRow {
        namespace: 1,
        index,
        value: vec![0; length],
        key: vec![0; key],
    };
    let longest = row(INDEXES_MAX, INDEX_VALUE_BYTES_MAX, KEY_BYTES_MAX);
    let (stored, check) = longest.encode().unwrap();
    assert_eq!(IndexRow::decode(&stored, &check), Ok(longest));
    for refused in [
        row(0, 1, 1),
        row(INDEXES_MAX + 1, 1, 1),
        row(1, INDEX_VALUE_BYTES_MAX + 1, 1),
        row(1, 1, KEY_BYTES_MAX + 1),
    ] {
        assert!(refused.encode().is_err(), "{refused:?}");
    }
    for (number, name) in [(0, "a"), (INDEXES_MAX + 1, "a"), (1, ""), (1, &"a".repeat(256)[..])] {
        assert!(IndexEntry { number, unique: true }.encode(1, name).is_err());
    }
    // Only what stores a body, or sets values, may have some, and only in a batch with a time.
    let entry = |change, time| {
        let operations = vec![LogOperation {
            namespace: 1,
            change,
            time: 0,
            expires: 0,
            values: page_values(),
            key: b"page".to_vec(),
        }];
        let record = 9;
        LogEntry::Batch {
            record,
            time,
            operations,
        }
        .encode(&mut Vec::new())
        .is_ok()
    };
    assert!(
        entry(
            LogChange::Body {
                prior: 0,
                in_pieces: false
            },
            1
        ) && entry(LogChange::IndexValues, 1)
    );
    assert!(
        !entry(
            LogChange::Body {
                prior: 0,
                in_pieces: false
            },
            0
        ) && !entry(LogChange::IndexValues, 0)
    );
    for change in [
        LogChange::Deletion,
        LogChange::Removal,
        LogChange::Purge,
        LogChange::PurgeVersions { from: 1, to: 1 },
    ] {
        assert!(!entry(change, 1), "{change:?}");
    }
}

/// The figures of decision 55.
#[test]
fn a_value_takes_few_bytes() {
    let key = KeyEntry {
        lineage: 1000,
        latest: 1000,
        time: NOON,
        ..KEY
    };
    let (stored_key, value) = (key_of(1, b"12345678"), b"anna@example.org".to_vec());
    let row = IndexRow {
        namespace: 1,
        index: 1,
        value: value.clone(),
        key: b"12345678".to_vec(),
    };
    let (row_key, row_value) = row.encode().unwrap();
    let with = key
        .encode_with_values(&stored_key, &IndexValues::from([(1, value)]))
        .unwrap();
    let without = key.encode(&stored_key).unwrap();
    assert_eq!((row_key.len() + row_value.len(), with.len() - without.len()), (35, 19));
}

#[test]
fn blocks_are_as_documented() {
    let mut frame = BlockFrameBuilder::new(9);
    let mut packed = Vec::new();
    PLACE.encode_packed(7, &mut packed).unwrap();
    frame.push(7, &packed);
    let deleted = Record {
        version: 3,
        body: Body::Deleted,
        ..PLACE
    };
    let mut last = Vec::new();
    deleted.encode_packed(8, &mut last).unwrap();
    frame.push(8, &last);
    let mut block = BlockBuilder::default();
    assert_eq!(block.push(frame.finish().unwrap()), 0);
    assert_example("block", &block.finish(1).unwrap());

    let bytes = example("block");
    let mut raw = Vec::new();
    let packed = frame_of_block(1, &bytes, 0).unwrap();
    let head = BlockHead::decode(1, &bytes).unwrap();
    assert_eq!((head.records(), head.block_bytes()), (2, bytes.len() as u64));
    BlockFrameDecoder::default().decode(&packed, &mut raw).unwrap();
    let records = records_of_frame(&raw, packed.records()).unwrap();
    assert!(
        records_of_frame(&raw, 1).is_err() && records_of_frame(&raw, 3).is_err() && records_of_frame(&raw, 0).is_err()
    );
    assert_eq!(records.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [7, 8]);
    assert_eq!(Record::decode_packed(7, records[0].1), Ok(PLACE));
    assert_eq!(Record::decode_packed(8, records[1].1), Ok(deleted));
    assert!(frame_of_block(1, &bytes, 1).is_err() && frame_of_block(2, &bytes, 0).is_err());
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(frame_of_block(1, &bad, 0).is_err(), "bit {bit}");
        assert!(frames_of_block(1, &bad).is_err(), "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert!(frame_of_block(1, &bytes[..length], 0).is_err(), "cut to {length}");
    }
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
fn values_that_readers_refuse_are_not_written() {
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
            ..KEY
        };
        entry.encode(b"key").is_ok()
    };
    assert!(entry(false, 3, 1, 3) && entry(true, 3, 2, 4) && entry(false, u64::MAX, 1, u64::MAX));
    assert!(!entry(true, 3, 1, 3), "a key does not begin with its deletion");
    assert!(!entry(false, 3, 1, 4) && !entry(false, 3, 3, 4) && !entry(false, 3, 2, 2));
    assert!(!entry(false, 0, 1, 0) && !entry(false, 3, 0, 3));
}

/// The figures of decision 52.
#[test]
fn times_take_few_bytes() {
    let bytes = |later: &[u64]| {
        let mut group = VersionGroup::new(1, 1);
        let mut time = NOON;
        group.push(version(false, 2, time));
        for (number, later) in (3..).zip(later) {
            time += later;
            group.push(version(false, number, time));
        }
        group.encode().unwrap().len()
    };
    let of_one = |later| bytes(&[0, later]) - bytes(&[0]);
    assert_eq!((of_one(0), of_one(3_600_000), of_one(3600)), (2, 5, 3));
    let mut untimed = VersionGroup::new(1, 1);
    untimed.push(version(false, 2, 0));
    let one = untimed.encode().unwrap().len();
    untimed.push(version(false, 3, 0));
    assert_eq!(untimed.encode().unwrap().len() - one, 1);
}

#[test]
fn entries_hold_to_their_limits() {
    let mut group = VersionGroup::new(3, 0);
    assert!(group.encode().is_err(), "no versions");
    for number in 4..66 {
        group.push(version(false, number, 0));
        assert!(group.encode().is_ok());
    }
    assert_eq!((group.first(), group.get(63).map(|entry| entry.number)), (2, Some(65)));
    group.push(version(false, 66, 0));
    assert!(group.encode().is_err(), "version 64 is of the next group");
    let mut unordered = VersionGroup::new(3, 1);
    unordered.push(version(true, 3, 0));
    assert!(unordered.encode().is_err());
    for times in [[2, 1], [0, TIME_MAX + 1]] {
        let mut backward = VersionGroup::new(3, 1);
        for (number, time) in (4..).zip(times) {
            backward.push(version(false, number, time));
        }
        assert!(backward.encode().is_err());
    }
    let mut untimed = VersionGroup::new(3, 1);
    untimed.first_time = 1;
    untimed.push(version(false, 4, 1));
    assert!(untimed.encode().is_err(), "version 1 is in group 0");

    let key = KeyEntry {
        versions: 2,
        latest: 4,
        time: TIME_MAX,
        oldest: 2,
        expires: TIME_MAX,
        ..KEY
    };
    assert!(key.encode(b"key").is_ok());
    let time = TIME_MAX + 1;
    assert!(KeyEntry { time, ..key }.encode(b"key").is_err());
    assert!(KeyEntry { expires: time, ..key }.encode(b"key").is_err());
    assert!(
        KeyEntry { oldest: 3, ..key }.encode(b"key").is_err(),
        "the latest is never purged"
    );

    let mut references = References::default();
    references.set(5, 0, true);
    assert!(references.is_empty() && !references.is_obsolete(5));
    references.set(5, u32::MAX, false);
    assert!(references.encode(0).is_err());

    let chain = |hops: Vec<Option<u64>>, features: Vec<u32>| {
        ChainEntry {
            hops,
            features,
            ..ChainEntry::default()
        }
        .encode(8)
        .is_ok()
    };
    assert!(chain(vec![Some(7), Some(1), None], vec![9, 8]));
    assert!(!chain(vec![Some(8)], vec![]) && !chain(vec![Some(0)], vec![]) && !chain(vec![None; 17], vec![]));
    assert!(!chain(vec![], vec![8, 8]) && !chain(vec![], (0..33).rev().collect()));
    let of_bytes = |feature_bytes| {
        let entry = ChainEntry {
            feature_bytes,
            ..ChainEntry::default()
        };
        entry.encode(8).is_ok()
    };
    assert!([32, 64, 128, 256, 512, 1024].into_iter().all(of_bytes));
    assert!(
        ![0, 1, 16, 48, 63, 1000, 2048, 1 << 31, u32::MAX]
            .into_iter()
            .any(of_bytes)
    );

    let delta = |base| {
        let body = Body::Delta {
            base,
            check: BodyCheck::of(b""),
            delta: b"",
        };
        Record { body, ..PLACE }.encode(7, &mut Vec::new()).is_ok()
    };
    assert!(delta(8) && delta(NUMBER_MAX) && !delta(7) && !delta(6) && !delta(NUMBER_MAX + 1));
}

proptest! {
    #[test]
    fn rows_of_indexes_are_in_the_order_of_values_and_keys(
        rows in prop::collection::vec(
            (1..3u32, 1..3u8, "[\\x00-\\x02]{0,4}", "[\\x00-\\x02]{0,3}"), 2..20,
        ),
    ) {
        let mut rows: Vec<IndexRow> = rows
            .into_iter()
            .map(|(namespace, index, value, key)| IndexRow {
                namespace,
                index,
                value: value.into_bytes(),
                key: key.into_bytes(),
            })
            .collect();
        let of = |row: &IndexRow| (row.namespace, row.index, row.value.clone(), row.key.clone());
        let mut expected = rows.clone();
        expected.sort_by_key(of);
        rows.sort_by_key(|row| row.encode().unwrap().0);
        prop_assert_eq!(&rows, &expected);
        for row in &rows {
            let (stored, check) = row.encode().unwrap();
            prop_assert_eq!(&IndexRow::decode(&stored, &check), &Ok(row.clone()));
            let from = index_value_prefix(row.namespace, row.index, &row.value);
            let to = after_index_value(row.namespace, row.index, &row.value);
            for other in &rows {
                let of = |row: &IndexRow| (row.namespace, row.index, row.value.clone());
                let is_of_value = of(row) == of(other);
                let other = other.encode().unwrap().0;
                prop_assert_eq!(other >= from && other < to, is_of_value);
            }
        }
    }

    #[test]
    fn any_versions_references_and_chains_are_read_as_they_were_written(
        numbers in prop::collection::btree_set(2..1000u64, 1..62), deleted: u64,
        purged in prop_oneof![Just(0), any::<u64>()], times in prop_oneof![Just(0), any::<u64>()],
        counts in prop::collection::vec((0..64u64, 1..1000u32, any::<bool>()), 1..64),
        hops in prop::collection::vec(prop::option::of(1..2000u64), 0..16),
        features in prop::collection::btree_set(any::<u32>(), 0..32),
        exponent in 5..=10u32, check: bool,
        copies in prop::collection::btree_set(1..2000u64, 0..64),
    ) {
        let mut group = VersionGroup::new(1, 0);
        group.first_time = times & 0xff;
        for (place, &number) in numbers.iter().enumerate() {
            let time = (times & 0xff) + place as u64 * (times & 0xff_ff00);
            let purged = purged >> place & 1 == 1;
            group.push(VersionEntry { purged, ..version(deleted >> place & 1 == 1, number, time) });
        }
        prop_assert_eq!(VersionGroup::decode(1, 0, &group.encode().unwrap()), Ok(group));

        let mut references = References::default();
        for (number, count, obsolete) in counts {
            references.set(number, count, obsolete);
        }
        prop_assert_eq!(References::decode(5, &references.encode(5).unwrap()), Ok(references));

        let features = features.into_iter().rev().collect();
        let (position, feature_bytes) = (deleted, 1 << exponent);
        let hash = if deleted & 1 == 0 { CheckHash::Blake3 } else { CheckHash::Xxh3 };
        let check = check.then(|| BodyCheck::by(hash, &deleted.to_le_bytes()));
        let copies = copies.into_iter().filter(|_| check.is_some()).collect();
        let chain = ChainEntry { namespace: 3, position, distance: 16, hops, features, feature_bytes, check, copies };
        prop_assert_eq!(ChainEntry::decode(2000, &chain.encode(2000).unwrap()), Ok(chain));
    }

    #[test]
    fn any_records_are_read_from_frames_as_they_were_put_there(
        frames in prop::collection::vec(
            prop::collection::btree_map(1..1u64 << 40, prop::collection::vec(any::<u8>(), 1..300), 1..20),
            1..5,
        ),
        level in 1..12, block in 1..1u64 << 40,
    ) {
        let mut builder = BlockBuilder::default();
        let mut frame = BlockFrameBuilder::new(level);
        let mut bytes = 0;
        for records in &frames {
            for (&number, record) in records.iter().rev() {
                match number % 2 {
                    0 => frame.push(number, record),
                    _ => frame.push_owned(number, record.clone()),
                }
            }
            let packed = frame.finish().unwrap();
            bytes += packed.stored_bytes_max();
            builder.push(packed);
        }
        prop_assert!(builder.stored_bytes_max() <= bytes + 16);
        let bytes = builder.finish(block).unwrap();
        let (mut decoder, mut raw) = (BlockFrameDecoder::default(), Vec::new());
        for (number, records) in frames.iter().enumerate() {
            let packed = frame_of_block(block, &bytes, number as u8).unwrap();
            decoder.decode(&packed, &mut raw).unwrap();
            let found = records_of_frame(&raw, packed.records()).unwrap();
            prop_assert!(found.into_iter().eq(records.iter().rev().map(|(&number, record)| (number, &record[..]))));
        }
        prop_assert_eq!(frames_of_block(block, &bytes).unwrap().len(), frames.len());
        let records: usize = frames.iter().map(|records| records.len()).sum();
        let head = BlockHead::decode(block, &bytes[..bytes.len().min(BlockHead::BYTES_MAX)]).unwrap();
        prop_assert_eq!((head.records(), head.block_bytes()), (records as u64, bytes.len() as u64));
    }

    #[test]
    fn any_places_are_read_as_they_were_written(
        records in prop::collection::btree_map(0..256u64, (1..1u64 << 55, any::<u8>()), 1..256)
    ) {
        let mut places = Places::default();
        for (number, (block, frame)) in records {
            places.set(number, Some(Place { block, frame }));
        }
        prop_assert_eq!(Places::decode(3, &places.encode(3).unwrap()), Ok(places));
    }

    #[test]
    fn any_record_is_read_as_it_was_written(
        number in 1..=NUMBER_MAX, namespace in 1..=u32::MAX, version in 1..=u32::MAX,
        key in prop::collection::vec(any::<u8>(), 0..200),
        body in prop::option::of(prop::collection::vec(any::<u8>(), 0..2000)), in_pieces: bool,
    ) {
        let body = body.as_deref().map_or(Body::Deleted, Body::Whole);
        let record = Record { namespace, version, key: &key, in_pieces: in_pieces && body != Body::Deleted, body };
        let bytes = encoded(number, &record);
        prop_assert_eq!(Record::decode(number, &bytes), Ok(record));
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        number: u64,
        key in prop::collection::vec(any::<u8>(), 0..20),
        bytes in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let _ = Record::decode(number, &bytes);
        let _ = KeyEntry::decode(&key, &bytes);
        let _ = VersionGroup::decode(number, number as u32, &bytes);
        let _ = References::decode(number, &bytes);
        let _ = ChainEntry::decode(number, &bytes);
        let _ = EncoderWatermark::decode(&bytes);
        let _ = EncodingStopped::decode(number as u32, Stopped::All, &bytes);
        let _ = EncodingStopped::of_key(&bytes);
        let _ = Places::decode(number, &bytes);
        let _ = frames_of_block(number, &bytes);
        let _ = records_of_frame(&bytes, number as usize);
        let _ = Record::decode_packed(number, &bytes);
        let _ = NamespaceEntry::decode(&key, &bytes);
        let _ = IndexEntry::decode(&key, &bytes);
        let _ = IndexRow::decode(&key, &bytes);
        let _ = IndexRow::split(&bytes);
        let _ = IndexEntry::split_key(&bytes);
        let _ = NextNumbers::decode(&bytes);
        let _ = split_key(&key);
        let _ = PieceList::decode(&bytes);
    }
}

#[test]
fn the_log_is_as_documented() {
    let operation = |change| LogOperation {
        namespace: 1,
        change,
        time: 0,
        expires: 0,
        values: IndexValues::new(),
        key: b"page".to_vec(),
    };
    let batch = LogEntry::Batch {
        record: 7,
        time: 0,
        operations: vec![
            operation(LogChange::Body {
                prior: 3,
                in_pieces: false,
            }),
            operation(LogChange::Deletion),
        ],
    };
    let rewrites = LogEntry::Rewrites {
        interval: 16,
        rewrites: vec![(7, 9)],
    };
    let purge = LogEntry::Batch {
        record: 9,
        time: NOON + 1500,
        operations: vec![operation(LogChange::PurgeVersions { from: 2, to: 2 })],
    };
    let values = LogEntry::Batch {
        record: 9,
        time: NOON + 1500,
        operations: vec![LogOperation {
            values: IndexValues::from([(1, b"anna".to_vec())]),
            ..operation(LogChange::Body {
                prior: 0,
                in_pieces: false,
            })
        }],
    };
    let mut digest = [1; 8];
    let mut digests = Vec::new();
    for (name, position, entry) in [
        ("log batch", 2, &batch),
        ("log rewrites", 3, &rewrites),
        ("log purge", 4, &purge),
        ("log values", 5, &values),
    ] {
        let (sealed, after) = entry.seal(position, digest).unwrap();
        assert_example(name, &sealed);
        let (bytes, found) = open_log_entry(position, &sealed).unwrap();
        assert_eq!((LogEntry::decode(bytes).unwrap(), found), (entry.clone(), after));
        assert!(open_log_entry(position + 1, &sealed).is_err());
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 4;
            assert!(open_log_entry(position, &changed).is_err());
        }
        digest = after;
        digests.push(digest);
    }
    let mut log = LogState::new(Role::Primary, [11; 16], 7);
    log.epoch = Epoch { number: 1, id: 12 };
    (log.first, log.next, log.before, log.digest) = (2, 5, [1; 8], digests[2]);
    assert_example("log", &log.encode());
    assert_eq!(LogState::decode(&example("log")), Ok(log.clone()));
    for role in [
        Role::Replica,
        Role::Fenced { by: 300 },
        Role::Incomplete {
            transfer: 5,
            table: 2,
            key: b"page".to_vec(),
        },
    ] {
        let log = LogState { role, ..log.clone() };
        assert_eq!(LogState::decode(&log.encode()), Ok(log));
    }
    for entry in [
        LogEntry::Namespace {
            versions_kept: true,
            name: "pages".to_owned(),
        },
        LogEntry::Retention {
            namespace: 3,
            retention: RetentionEntry {
                versions: u32::MAX,
                within: TIME_MAX,
                lifetime: 1,
            },
        },
        LogEntry::Latest {
            namespace: 3,
            latest: LatestEntry::Automatic,
        },
        LogEntry::Latest {
            namespace: u32::MAX,
            latest: LatestEntry::Deltas,
        },
        LogEntry::Rewrites {
            interval: 32,
            rewrites: vec![(7, 7), (8, 300)],
        },
        LogEntry::Batch {
            record: 300,
            time: TIME_MAX,
            operations: vec![
                LogOperation {
                    time: 5,
                    expires: TIME_MAX,
                    ..operation(LogChange::Body {
                        prior: 0,
                        in_pieces: false,
                    })
                },
                LogOperation {
                    time: 5,
                    ..operation(LogChange::Deletion)
                },
                operation(LogChange::Removal),
                operation(LogChange::Purge),
                operation(LogChange::PurgeVersions { from: 1, to: u32::MAX }),
                operation(LogChange::IndexValues),
                LogOperation {
                    values: page_values(),
                    ..operation(LogChange::IndexValues)
                },
            ],
        },
        LogEntry::Index {
            namespace: 3,
            unique: true,
            name: "email".to_owned(),
        },
        LogEntry::Truncated { first: 300 },
        LogEntry::Promoted {
            epoch: Epoch { number: 2, id: 7 },
        },
    ] {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes).unwrap();
        assert_eq!(LogEntry::decode(&bytes), Ok(entry));
    }
}

/// What names the log of commits of the examples.
const COMMIT_LOG: [u8; 16] = [0x0b; 16];

#[test]
fn the_log_of_commits_is_as_documented() {
    for (name, hash) in [
        ("commit-log", CheckHash::Xxh3),
        ("commit-log-by-blake3", CheckHash::Blake3),
    ] {
        assert_example(name, &commit_log_header(&COMMIT_LOG, hash));
        let header = *example(name).first_chunk().unwrap();
        assert_eq!(commit_log_id(&header), Ok((COMMIT_LOG, hash)));
    }
    assert_example("commit-log-note", &commit_log_note(&COMMIT_LOG, 6));
    let note = *example("commit-log-note").first_chunk().unwrap();
    assert_eq!(synced_by_note(&COMMIT_LOG, &note), Some(6));
    let changes = [
        CommitChange {
            table: 4,
            key: b"format",
            value: Some(b"ibidrec\x03"),
        },
        CommitChange {
            table: 1,
            key: b"page",
            value: None,
        },
    ];
    let mut bytes = Vec::new();
    for change in changes {
        change.encode_before_value(&mut bytes);
        bytes.extend_from_slice(change.value.unwrap_or_default());
    }
    let head = CommitHead {
        length: bytes.len() as u64,
        number: 7,
        synced: 6,
    };
    let encoded = head.encode(&COMMIT_LOG);
    let check = |hash| {
        let mut hasher = CommitHasher::new(hash);
        hasher.update(&bytes);
        hasher.finish(&encoded)
    };
    assert_example("commit-check-by-blake3", &check(CheckHash::Blake3));
    let check = check(CheckHash::Xxh3);
    assert_example("commit", &[&encoded[..], &bytes, &check].concat());
    let commit = example("commit");
    let found = CommitHead::find(&COMMIT_LOG, &[b"ibcm ib", &commit[..]].concat(), 0);
    assert_eq!(found, Some((7, head)));
    let mut read = Vec::new();
    CommitChange::decode_all(&commit[COMMIT_HEAD_BYTES..][..bytes.len()], |change| {
        read.push(change);
        Ok::<_, Error>(())
    })
    .unwrap();
    assert_eq!(read, changes);
}

#[test]
fn places_of_values_are_as_documented() {
    let place = StoredValue::Placed(ValuePlace {
        segment: 3,
        offset: 1080,
        length: 33,
    });
    let mut bytes = Vec::new();
    place.encode(&mut bytes);
    assert_example("value-place", &bytes);
    assert_eq!(StoredValue::decode(&bytes), Ok(place));
    bytes.clear();
    StoredValue::Here(b"ibid").encode(&mut bytes);
    assert_eq!(StoredValue::decode(&bytes), Ok(StoredValue::Here(b"ibid")));
    for wrong in [&b""[..], b"\x02", b"\x01\x03\x04", b"\x01\x03\x04\x05\x06"] {
        assert!(StoredValue::decode(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn what_redb_knows_of_segments_is_as_documented_and_every_byte_is_checked() {
    let start = LogStart {
        segment: 3,
        offset: 1234,
    };
    assert_example("log-start", &start.encode(&COMMIT_LOG));
    let entry = SegmentEntry { used: 33 };
    assert_example("segment-entry", &entry.encode(&COMMIT_LOG, 3));
    let (start_bytes, entry_bytes) = (example("log-start"), example("segment-entry"));
    assert_eq!(LogStart::decode(&COMMIT_LOG, &start_bytes), Ok(start));
    assert_eq!(SegmentEntry::decode(&COMMIT_LOG, 3, &entry_bytes), Ok(entry));
    assert!(SegmentEntry::decode(&COMMIT_LOG, 4, &entry_bytes).is_err());
    let changed = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        bytes
    };
    for at in 0..start_bytes.len() {
        assert!(LogStart::decode(&COMMIT_LOG, &changed(&start_bytes, at)).is_err());
        assert!(LogStart::decode(&COMMIT_LOG, &start_bytes[..at]).is_err());
    }
    for at in 0..entry_bytes.len() {
        assert!(SegmentEntry::decode(&COMMIT_LOG, 3, &changed(&entry_bytes, at)).is_err());
        assert!(SegmentEntry::decode(&COMMIT_LOG, 3, &entry_bytes[..at]).is_err());
    }
}

#[test]
fn the_note_for_readers_is_as_documented_and_every_byte_is_checked() {
    let note = ReadersNote { first: 12, from: 15 };
    assert_example("readers-note", &note.encode());
    for note in [note, ReadersNote { from: u64::MAX, ..note }, ReadersNote::CLOSED] {
        assert_eq!(ReadersNote::decode(&note.encode()), Ok(note));
        for at in 0..READERS_NOTE_BYTES {
            let mut bytes = note.encode();
            bytes[at] ^= 1;
            assert!(ReadersNote::decode(&bytes).is_err(), "byte {at} of {note:?}");
        }
    }
}

#[test]
fn every_byte_of_a_log_of_commits_is_checked() {
    let header = commit_log_header(&COMMIT_LOG, CheckHash::Xxh3);
    let note = commit_log_note(&COMMIT_LOG, 6);
    let head = CommitHead {
        length: 23,
        number: 7,
        synced: 6,
    };
    let encoded = head.encode(&COMMIT_LOG);
    let flipped = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        bytes
    };
    for at in 0..header.len() {
        assert!(commit_log_id(flipped(&header, at).first_chunk().unwrap()).is_err());
    }
    for at in 0..note.len() {
        assert_eq!(
            synced_by_note(&COMMIT_LOG, flipped(&note, at).first_chunk().unwrap()),
            None
        );
    }
    for at in 0..encoded.len() {
        assert!(CommitHead::decode(&COMMIT_LOG, flipped(&encoded, at).first_chunk().unwrap()).is_err());
    }
    // Heads of another log are none of this.
    assert!(CommitHead::decode(&[0; 16], &encoded).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_safe_to_read_as_a_log_of_commits(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = CommitChange::decode_all(&bytes, |_| Ok::<_, Error>(()));
        let _ = CommitHead::find(&COMMIT_LOG, &bytes, 0);
    }
}
