//! Records that are long beside the memory that they may take.

use std::ops::{Bound, ControlFlow};

use ibid_record::{Direction, Encoding, Error, Namespace, Options, Retrieval, Store, Versions};

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn open(path: &std::path::Path, options: Options) -> (Store, Namespace) {
    // As stores of earlier versions have them.
    let store = Store::open(path, options.with_whole_bytes_max(usize::MAX)).unwrap();
    let space = store.namespace("space", Versions::Kept).unwrap();
    (store, space)
}

#[track_caller]
fn assert_too_long<T>(result: Result<T, Error>, expected: u64) {
    match result.map(drop).unwrap_err() {
        Error::BodyTooLong { max, .. } => assert_eq!(max, expected),
        error => panic!("{error}"),
    }
}

/// The deltas on the way to the oldest version take more memory than is kept of them.
#[test]
fn an_old_version_is_the_same_however_long_the_deltas_are() {
    let folder = tempfile::tempdir().unwrap();
    let encoding = Encoding::default()
        .with_retrieval(Retrieval::Chain)
        .with_write_back_bytes(64 << 20);
    let (store, space) = open(folder.path(), Options::default().with_encoding(encoding));
    let bodies: Vec<Vec<u8>> = (0..9)
        .map(|version| [noise(2 << 20, 1), noise(2 << 20, 100 + version)].concat())
        .collect();
    for body in &bodies {
        space.put(b"key", body).unwrap();
        store.finish_encoding().unwrap();
    }
    let found = store.statistics(&mut |_| ControlFlow::Continue(())).unwrap();
    let deltas = &found.namespaces[0].deltas;
    assert!(deltas.count == 8 && deltas.bytes > 15 << 20, "{deltas:?}");
    let snapshot = store.snapshot().unwrap();
    for (version, expected) in (1..).zip(&bodies) {
        assert!(space.get_version(b"key", version).unwrap().as_ref() == Some(expected));
        let mut shown = Vec::new();
        let mut show = |body: &[u8]| shown.extend_from_slice(body);
        assert!(snapshot.show_version(&space, b"key", version, &mut show).unwrap());
        assert!(shown == *expected, "version {version}");
    }
}

#[test]
fn what_is_shown_is_what_is_got() {
    let folder = tempfile::tempdir().unwrap();
    let (store, space) = open(folder.path(), Options::default());
    let text = b"in the same place ".repeat(100);
    for key in 0..20_u8 {
        space.put(&[key], &[&text[..], &[key; 10]].concat()).unwrap();
        space.put(&[key], &[&text[..], &[key; 20]].concat()).unwrap();
    }
    space.delete(&[3]).unwrap();
    for _ in 0..2 {
        let snapshot = store.snapshot().unwrap();
        for key in 0..21_u8 {
            for version in 0..5 {
                let mut shown = None;
                let mut show = |body: &[u8]| shown = Some(body.to_vec());
                let (is_shown, got) = match version {
                    0 => (snapshot.show(&space, &[key], &mut show), snapshot.get(&space, &[key])),
                    _ => (
                        snapshot.show_version(&space, &[key], version, &mut show),
                        snapshot.get_version(&space, &[key], version),
                    ),
                };
                let got = got.unwrap();
                assert_eq!((is_shown.unwrap(), &shown), (got.is_some(), &got), "{key}, {version}");
            }
        }
        // The second time from frames.
        store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
    }
}

/// Whole, as a delta, and compressed.
#[test]
fn a_body_beyond_the_limit_is_refused_wherever_it_is_and_is_no_damage() {
    const LIMIT: usize = 2 << 20;
    let folder = tempfile::tempdir().unwrap();
    let long: Vec<Vec<u8>> = (0..2_u8)
        .map(|version| [noise(4 << 20, 1), vec![version; 9]].concat())
        .collect();
    let limited = Options::default().with_body_bytes_max(LIMIT);
    for compacts in [false, true] {
        {
            let (store, space) = open(folder.path(), Options::default());
            if compacts {
                store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
            } else {
                for body in &long {
                    space.put(b"long", body).unwrap();
                }
                space.put(b"short", &long[0][..LIMIT]).unwrap();
                store.finish_encoding().unwrap();
                assert_eq!(store.encoding().deltas, 1);
            }
        }
        {
            let (store, space) = open(folder.path(), limited);
            // A frame has room for other records.
            let limit = LIMIT as u64 + if compacts { 1 << 20 } else { 0 };
            assert_too_long(space.get(b"long"), limit);
            assert_too_long(space.get_version(b"long", 1), limit);
            assert!(space.get(b"short").unwrap().unwrap() == long[0][..LIMIT]);
            let all = (Bound::Unbounded, Bound::Unbounded);
            let scanned: Vec<_> = space.scan(all, Direction::Forward).unwrap().collect();
            assert!(matches!(&scanned[0], Err(Error::OfKey { key, .. }) if key == b"long"));
            assert!(
                scanned.len() > 1 && scanned[1..].iter().all(Result::is_ok),
                "the others are shown"
            );
            let verified = store.verify(&mut |_| ControlFlow::Continue(()));
            assert!(matches!(verified, Err(Error::BodyTooLong { .. })), "{verified:?}");
            // The encoder goes on.
            let body = noise(10_000, 8);
            space.put(b"other", &body).unwrap();
            space.put(b"other", &[&body[..], b"more"].concat()).unwrap();
            store.finish_encoding().unwrap();
            assert_eq!(store.encoding().deltas, 1);
            space.purge(b"other").unwrap();
            store.sync().unwrap();
        }
        let (store, space) = open(folder.path(), Options::default());
        for (version, body) in (1..).zip(&long) {
            assert!(space.get_version(b"long", version).unwrap().as_ref() == Some(body));
        }
        assert!(store.verify(&mut |_| ControlFlow::Continue(())).unwrap().is_clean());
    }
}

#[test]
fn bodies_that_are_too_long_to_be_compared_stay_whole() {
    let folder = tempfile::tempdir().unwrap();
    let encoding = Encoding::default().with_compared_bytes_max(10_000);
    let (store, space) = open(folder.path(), Options::default().with_encoding(encoding));
    for length in [10_000, 10_001] {
        let body = noise(length, length as u64);
        space.put(&length.to_be_bytes(), &body).unwrap();
        space.put(&length.to_be_bytes(), &[b"x", &body[1..]].concat()).unwrap();
    }
    // A short record after a long one, and a long one after a short one.
    let body = noise(20_000, 7);
    for length in [9_000, 15_000, 9_001] {
        space.put(b"grows", &body[..length]).unwrap();
    }
    store.finish_encoding().unwrap();
    // That of 10 000 bytes, and the shortest of those that grow.
    assert_eq!(store.encoding().deltas, 2);
    for length in [9_000, 15_000, 9_001] {
        assert!((1..4).any(|version| space.get_version(b"grows", version).unwrap().unwrap() == body[..length]));
    }
}

/// A record of some megabytes is compressed alone, between others.
#[test]
fn long_and_short_records_are_compacted() {
    let folder = tempfile::tempdir().unwrap();
    let (store, space) = open(folder.path(), Options::default());
    let lengths = [10, 5 << 20, 6 << 20, 300, 3 << 20, 4 << 20, 20];
    let body = |place: usize, version: usize| {
        let mut body = noise(lengths[place], place as u64);
        body[version] ^= 1;
        if place == 2 {
            body.fill(version as u8)
        }
        body
    };
    for version in 0..3 {
        for place in 0..lengths.len() {
            space.put(&[place as u8], &body(place, version)).unwrap();
        }
    }
    for _ in 0..2 {
        store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
        for place in 0..lengths.len() {
            for version in 0..3 {
                let found = space.get_version(&[place as u8], version as u32 + 1).unwrap();
                assert!(found == Some(body(place, version)), "{place}, {version}");
            }
        }
        assert!(store.verify(&mut |_| ControlFlow::Continue(())).unwrap().is_clean());
        space.put(&[1], b"new").unwrap();
        space.purge(&[1]).unwrap();
        for version in 0..3 {
            space.put(&[1], &body(1, version)).unwrap();
        }
    }
    let found = store.statistics(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(found.namespaces[0].records.count > 20);
}
