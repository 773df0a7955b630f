//! Statistics agree with a verification of the same store, and count the records that must be read
//! for each record.

use std::ops::ControlFlow;
use std::path::Path;

use ibid_record::engine::Table;
use ibid_record::{
    Amount, Batch, Durability, Encoding, Governor, NamespaceStatistics, Options, Retrieval, Statistics, Store, Unique,
    Versions,
};

use crate::common::{entries, folder, with_engine};

fn open(path: &Path, retrieval: Retrieval) -> Store {
    let encoding = Encoding::default().with_retrieval(retrieval).with_lossy(false);
    let options = Options::default()
        .with_cache_bytes(1 << 20)
        .with_durability(Durability::None)
        .with_encoding(encoding);
    Store::open(path, options).unwrap()
}

fn statistics(store: &Store) -> Statistics {
    store.statistics(&mut |_| ControlFlow::Continue(())).unwrap()
}

/// Returns version `number` of a page, which is longer than the one before.
fn body(page: u64, number: u64) -> Vec<u8> {
    let word = |at: u64| (page << 32 | at).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..300 + number).flat_map(|at| word(at).to_le_bytes()).collect()
}

#[test]
fn values_of_indexes_are_counted() {
    let folder = folder();
    let store = open(folder.path(), Retrieval::Chain);
    let users = store.namespace("users", Versions::Latest).unwrap();
    let (email, city) = (
        users.index("email", Unique::Yes).unwrap(),
        users.index("city", Unique::No).unwrap(),
    );
    let mut batch = Batch::new();
    batch
        .put(&users, b"1", b"Anna")
        .index(&email, b"anna")
        .index(&city, b"Bern");
    batch.put(&users, b"2", b"Ben").index(&city, b"Zug");
    store.commit(batch).unwrap();
    let found = statistics(&store);
    let indexes = found.namespaces[0].indexes.iter();
    let indexes: Vec<_> = indexes
        .map(|index| (&index.name[..], index.unique, index.values.count, index.values.bytes))
        .collect();
    assert_eq!(indexes, [("email", Unique::Yes, 1, 4), ("city", Unique::No, 2, 7)]);
}

fn put_versions(store: &Store, namespace: &str, versions: Versions, pages: u64, count: u64) {
    let namespace = store.namespace(namespace, versions).unwrap();
    for number in 0..count {
        for page in 0..pages {
            namespace.put(&page.to_be_bytes(), &body(page, number)).unwrap();
        }
    }
    store.finish_encoding().unwrap();
}

/// Checks the figures that statistics and a verification share.
#[track_caller]
fn agree_with_verification(store: &Store, found: &Statistics) {
    let verified = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(verified.is_clean(), "{:?}", verified.faults);
    assert_eq!((found.damaged, found.stopped), (0, false));
    assert_eq!(found.namespaces.len(), verified.namespaces.len());
    for (found, verified) in found.namespaces.iter().zip(&verified.namespaces) {
        assert_eq!((&found.name, found.versions), (&verified.name, verified.versions));
        assert_eq!((found.keys, found.keys_deleted), (verified.keys, verified.keys_deleted));
        assert_eq!(found.records.count, verified.records);
        assert_eq!(found.records.bytes, verified.body_bytes);
        assert_eq!(found.latest.bytes, verified.latest_body_bytes);
        assert_eq!(found.stored_bytes(), verified.stored_bytes);
        let in_all = found.whole.count + found.deltas.count + found.deletions;
        assert_eq!(in_all, found.records.count);
        assert_eq!(found.latest.count, found.keys);
        let sizes = found
            .sizes
            .classes()
            .fold((0, 0, 0), |(records, bodies, stored), class| {
                (
                    records + class.records,
                    bodies + class.body_bytes,
                    stored + class.stored_bytes,
                )
            });
        let expected = (
            in_all - found.deletions,
            found.records.bytes,
            found.whole.bytes + found.deltas.bytes,
        );
        assert_eq!(sizes, expected);
    }
}

fn bars(space: &NamespaceStatistics) -> Vec<(u64, u64, u64)> {
    let bar = |bucket: ibid_record::Bucket| (bucket.from, bucket.to, bucket.records);
    space.retrievals.buckets().map(bar).collect()
}

#[test]
fn retrievals_grow_with_the_chain_and_version_jumping_bounds_them() {
    let folder = folder();
    let store = open(&folder.path().join("chain"), Retrieval::Chain);
    put_versions(&store, "pages", Versions::Kept, 3, 10);
    for _ in ["as it was stored", "compacted"] {
        let found = statistics(&store);
        agree_with_verification(&store, &found);
        let pages = &found.namespaces[0];
        assert_eq!(bars(pages), [(0, 0, 3), (1, 1, 3), (2, 3, 6), (4, 7, 12), (8, 15, 6)]);
        assert_eq!((pages.retrievals.max(), pages.retrievals.mean()), (9, Some(4.5)));
        assert_eq!(pages.latest_retrievals.max(), 0);
        assert_eq!((pages.deltas.count, pages.whole.count), (27, 3));
        assert_eq!((pages.chains, pages.chain_longest), (3, 10));
        assert_eq!((pages.unencoded, pages.obsolete), (0, Amount::default()));
        store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
    }
    let found = statistics(&store);
    assert_eq!(found.namespaces[0].in_blocks.count, 30);
    assert_eq!(found.namespaces[0].in_blocks.bytes, found.namespaces[0].stored_bytes());
    // One of latest versions, and one of older ones.
    assert!(found.blocks.count == 2 && found.blocks.bytes > 0, "{:?}", found.blocks);

    let store = open(
        &folder.path().join("jumping"),
        Retrieval::VersionJumping { distance: 4 },
    );
    put_versions(&store, "pages", Versions::Kept, 1, 40);
    let found = statistics(&store);
    agree_with_verification(&store, &found);
    assert_eq!(found.namespaces[0].retrievals.max(), 3);
}

#[test]
fn a_base_without_a_key_is_obsolete_and_deletions_have_no_body() {
    let folder = folder();
    let store = open(folder.path(), Retrieval::Hop { distance: 4 });
    put_versions(&store, "pages", Versions::Kept, 2, 20);
    put_versions(&store, "settings", Versions::Latest, 3, 1);
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    pages.delete(&0_u64.to_be_bytes()).unwrap();
    let found = statistics(&store);
    agree_with_verification(&store, &found);
    assert_eq!(found.namespaces[0].deletions, 1);

    // Each record is similar to the one before, under a key of its own. The newest three are
    // deleted.
    let log = store.namespace("log", Versions::Latest).unwrap();
    for number in 0..6_u64 {
        log.put(&number.to_be_bytes(), &body(9, number)).unwrap();
        store.finish_encoding().unwrap();
    }
    for number in 3..6_u64 {
        log.delete(&number.to_be_bytes()).unwrap();
    }
    let found = statistics(&store);
    agree_with_verification(&store, &found);
    let log = &found.namespaces[2];
    assert_eq!((log.records.count, log.latest.count), (3, 3));
    assert!(
        log.obsolete.count > 0 && log.retrievals == log.latest_retrievals,
        "{log:?}"
    );
}

#[test]
fn numbers_far_apart_are_found_and_a_stop_is_one() {
    let folder = folder();
    let store = open(folder.path(), Retrieval::Hop { distance: 16 });
    let log = store.namespace("log", Versions::Latest).unwrap();
    log.put(b"first", b"one").unwrap();
    for number in 0..70_u32 {
        let mut batch = ibid_record::Batch::new();
        for _ in 0..1000 {
            batch.put(&log, b"again", &number.to_be_bytes());
        }
        store.commit(batch).unwrap();
    }
    let found = statistics(&store);
    agree_with_verification(&store, &found);
    assert_eq!(found.namespaces[0].records, Amount { count: 2, bytes: 7 });
    assert!(store.statistics(&mut |_| ControlFlow::Break(())).unwrap().stopped);
}

#[test]
fn damaged_entries_are_counted_and_nothing_else_of_them() {
    let folder = folder();
    let path = folder.path().join("store");
    let store = open(&path, Retrieval::Chain);
    put_versions(&store, "pages", Versions::Kept, 1, 3);
    drop(store);
    with_engine(&path, |engine| {
        let (key, mut value) = entries(engine, Table::Records).swap_remove(1);
        value[20] ^= 1;
        crate::common::set(engine, Table::Records, &key, Some(&value));
    });
    let found = statistics(&open(&path, Retrieval::Chain));
    // The damaged record, and the one that is a delta of it.
    assert_eq!(found.damaged, 2);
    assert_eq!(found.namespaces[0].records.count, 2);
}

#[test]
fn a_namespace_that_was_given_up_is_reported() {
    let folder = folder();
    let mut options = Options::default();
    options.encoding.governor = Governor {
        records: 10,
        ..Governor::default()
    };
    let store = Store::open(folder.path(), options).unwrap();
    let log = store.namespace("noise", Versions::Latest).unwrap();
    for number in 0..10 {
        log.put(&[number], &crate::common::noise(500, number.into())).unwrap();
    }
    store.finish_encoding().unwrap();
    put_versions(&store, "pages", Versions::Kept, 1, 2);
    let found = statistics(&store);
    let given_up: Vec<bool> = found.namespaces.iter().map(|space| space.encoding_stopped).collect();
    assert_eq!((given_up, found.encoding.given_up), (vec![true, false], 1));
}
