//! Similar records become deltas, and other records stay whole.

use std::ops::ControlFlow;

use ibid_record::{Batch, Durability, Encoding, FeatureBytes, Governor, Options, Retrieval, Store, Versions};

use crate::common::{folder, noise};

fn options() -> Options {
    Options::default().with_durability(Durability::None)
}

/// Returns a text of 4000 bytes with this number of edits.
fn edited(seed: u32, edits: u32) -> Vec<u8> {
    let mut body = noise(4000, seed);
    for edit in 0..edits {
        body[(edit as usize * 997) % 4000] ^= 1 + edit as u8 % 255;
    }
    body
}

#[test]
fn versions_become_deltas_of_those_after_them() {
    let folder = folder();
    let store = Store::open(folder.path(), options()).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    for version in 0..100 {
        pages.put(b"a", &edited(1, version)).unwrap();
    }
    store.finish_encoding().unwrap();
    let report = store.encoding();
    assert_eq!((report.records, report.deltas, report.damaged), (100, 99, 0));
    assert!(report.saved_bytes > 98 * 3900, "{report:?}");
    let found = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(
        found.is_clean() && found.namespaces[0].stored_bytes < 4000 + 99 * 100,
        "{found:?}"
    );
}

#[test]
fn similar_records_of_other_keys_are_found() {
    let folder = folder();
    let store = Store::open(folder.path(), options()).unwrap();
    let drafts = store.namespace("drafts", Versions::Latest).unwrap();
    for round in 0..10 {
        for text in 0..20 {
            drafts
                .insert(format!("{text}/{round}").as_bytes(), &edited(text, round))
                .unwrap();
        }
    }
    store.finish_encoding().unwrap();
    assert_eq!(store.encoding().deltas, 180, "each but the last of its text");
}

#[test]
fn features_of_other_bytes_are_not_compared() {
    let folder = folder();
    let of = |feature_bytes| {
        let mut options = options();
        options.encoding.feature_bytes = feature_bytes;
        Store::open(folder.path(), options).unwrap()
    };
    let insert = |store: &Store, namespace: &str, texts: std::ops::Range<u32>, round: u32| {
        let drafts = store.namespace(namespace, Versions::Latest).unwrap();
        for text in texts {
            // Edits are in the first quarter only, so that features of both lengths remain.
            let mut body = noise(4000, text);
            body[round as usize] ^= 1;
            drafts.insert(format!("{text}/{round}").as_bytes(), &body).unwrap();
        }
        store.finish_encoding().unwrap();
        store.encoding().deltas
    };
    let store = of(FeatureBytes::B64);
    assert_eq!(insert(&store, "drafts", 0..20, 0), 0);
    assert_eq!(insert(&store, "drafts", 0..20, 1), 20);
    let of_short_ones = store.encoding().index_entries;
    drop(store);

    let store = of(FeatureBytes::B1024);
    assert_eq!(
        insert(&store, "drafts", 0..20, 2),
        0,
        "those of 64 bytes have nothing in common with them"
    );
    assert!(
        store.encoding().index_entries < of_short_ones * 3 / 4,
        "{:?}",
        store.encoding()
    );
    assert!(
        insert(&store, "drafts", 0..20, 3) > 15,
        "a record may have none of so many bytes"
    );
    drop(store);

    // Both kinds of features are stored, and each is used again with its own setting.
    let store = of(FeatureBytes::B64);
    assert_eq!(insert(&store, "drafts", 0..20, 4), 20);
    assert!(store.verify(&mut |_| ControlFlow::Continue(())).unwrap().is_clean());
}

#[test]
fn records_not_encoded_in_time_are_encoded_after_opening() {
    let folder = folder();
    let mut off = options();
    off.encoding.enabled = false;
    let store = Store::open(folder.path(), off).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    for version in 0..200 {
        pages.put(b"a", &edited(1, version)).unwrap();
    }
    drop((pages, store));
    let store = Store::open(folder.path(), options()).unwrap();
    store.finish_encoding().unwrap();
    assert_eq!(store.encoding().deltas, 199);
    drop(store);
    let store = Store::open(folder.path(), options()).unwrap();
    store.finish_encoding().unwrap();
    assert_eq!(store.encoding().records, 0, "nothing is done twice");
}

#[test]
fn latest_versions_stay_whole_where_versions_are_kept() {
    let folder = folder();
    let store = Store::open(folder.path(), options()).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    for key in 0..50_u32 {
        pages.insert(&key.to_be_bytes(), &edited(1, key)).unwrap();
    }
    store.finish_encoding().unwrap();
    assert_eq!(store.encoding().deltas, 0);
    pages.delete(&7_u32.to_be_bytes()).unwrap();
    pages.insert(b"more", &edited(1, 7)).unwrap();
    store.finish_encoding().unwrap();
    assert_eq!(store.encoding().deltas, 1, "the one that was deleted");
}

#[test]
fn the_oldest_version_needs_as_few_retrievals_as_promised() {
    let folder = folder();
    let store = Store::open(folder.path(), options()).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    for version in 0..958 {
        pages.put(b"a", &edited(1, version)).unwrap();
    }
    store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
    for version in [1, 2, 15, 16, 17, 500, 957, 958] {
        let body = pages.get_version(b"a", version).unwrap().unwrap();
        assert_eq!(body, edited(1, version - 1));
    }
    assert_eq!(store.encoding().deltas, 957);
    assert!(store.encoding().hops > 957 / 8 + 957 / 16 - 4);
}

/// Returns options with which a namespace is judged after 50 records.
fn judged_early() -> Options {
    let mut options = options();
    options.encoding.governor = Governor {
        records: 50,
        ratio_percent_min: 110,
    };
    options
}

#[test]
fn a_namespace_in_which_encoding_does_not_pay_is_given_up_for_good() {
    let folder = folder();
    let mut options = judged_early();
    let store = Store::open(folder.path(), options).unwrap();
    let (gains, loses) = (
        store.namespace("gains", Versions::Kept).unwrap(),
        store.namespace("loses", Versions::Kept).unwrap(),
    );
    for version in 0..100 {
        gains.put(b"a", &edited(1, version)).unwrap();
        loses.put(b"a", &noise(4000, version)).unwrap();
    }
    store.finish_encoding().unwrap();
    let report = store.encoding();
    // 50 versions, and the first one, which is the next of none.
    assert_eq!((report.records, report.given_up), (151, 1));
    drop((gains, loses, store));

    let store = Store::open(folder.path(), options).unwrap();
    let loses = store.namespace("loses", Versions::Kept).unwrap();
    loses.put(b"a", &noise(4000, 99)).unwrap();
    store.finish_encoding().unwrap();
    assert_eq!((store.encoding().records, store.encoding().given_up), (0, 1));
    assert!(store.verify(&mut |_| ControlFlow::Continue(())).unwrap().is_clean());
    drop((loses, store));

    options.encoding.governor.records = 0;
    let store = Store::open(folder.path(), options).unwrap();
    let loses = store.namespace("loses", Versions::Kept).unwrap();
    loses.put(b"a", &noise(4000, 99)).unwrap();
    store.finish_encoding().unwrap();
    assert_eq!((store.encoding().deltas, store.encoding().given_up), (1, 0));
}

/// As rows of a table that is imported, and lives from then on.
#[test]
fn versions_become_deltas_also_of_records_that_resembled_nothing_when_they_were_new() {
    let folder = folder();
    let options = judged_early();
    let row = |number: u8, version: u8| {
        let mut row = noise(4000, number.into());
        row[usize::from(version)] ^= 1;
        row
    };
    for version in 0..3 {
        let store = Store::open(folder.path(), options).unwrap();
        let rows = store.namespace("rows", Versions::Kept).unwrap();
        for number in 0..100 {
            rows.put(&[number], &row(number, version)).unwrap();
        }
        store.finish_encoding().unwrap();
        let found = store.statistics(&mut |_| ControlFlow::Continue(())).unwrap();
        let rows = &found.namespaces[0];
        assert_eq!((rows.search_stopped, rows.encoding_stopped), (true, false));
        assert_eq!(rows.deltas.count, 100 * u64::from(version));
        assert!(store.verify(&mut |_| ControlFlow::Continue(())).unwrap().is_clean());
    }
    // Until versions do not resemble each other either.
    let store = Store::open(folder.path(), options).unwrap();
    let rows = store.namespace("rows", Versions::Kept).unwrap();
    for number in 0..100 {
        rows.put(&[number], &noise(4000, 1000 + u32::from(number))).unwrap();
    }
    store.finish_encoding().unwrap();
    assert_eq!((store.encoding().records, store.encoding().given_up), (50, 1));
}

#[test]
fn small_records_are_passed_over_if_asked_to() {
    let deltas = |percent| {
        let folder = folder();
        let mut options = options();
        options.encoding.size_filter_percent = percent;
        let store = Store::open(folder.path(), options).unwrap();
        let drafts = store.namespace("drafts", Versions::Latest).unwrap();
        let mut batch = Batch::new();
        for number in 0..1000_u32 {
            batch.insert(&drafts, &number.to_be_bytes(), &edited(number, 0)[..number as usize]);
        }
        // Not the same bytes, which are found whatever their length.
        for (key, length) in [(&b"short"[..], 300), (b"long", 800)] {
            let mut twin = edited(length as u32, 0)[..length].to_vec();
            twin[length - 1] ^= 1;
            batch.insert(&drafts, key, &twin);
        }
        store.commit(batch).unwrap();
        store.finish_encoding().unwrap();
        store.encoding().deltas
    };
    assert_eq!(deltas(40) + 1, deltas(0), "the twin of the short one stays whole");
}

#[test]
fn no_record_is_lost_when_every_delta_is_dropped() {
    let folder = folder();
    let mut options = options();
    let encoding = &mut options.encoding;
    *encoding = Encoding::default()
        .with_retrieval(Retrieval::Chain)
        .with_source_cache_bytes(0)
        .with_write_back_bytes(0);
    let store = Store::open(folder.path(), options).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    for version in 0..20 {
        pages.put(b"a", &edited(1, version)).unwrap();
    }
    store.finish_encoding().unwrap();
    assert_eq!((store.encoding().dropped, store.encoding().cache_hits), (19, 0));
    for version in 0..20 {
        assert_eq!(
            pages.get_version(b"a", version + 1).unwrap().unwrap(),
            edited(1, version)
        );
    }
}

#[test]
fn a_record_that_the_caller_names_as_similar_is_compared() {
    let folder = folder();
    let store = Store::open(folder.path(), options()).unwrap();
    let (drafts, pages) = (
        store.namespace("drafts", Versions::Latest).unwrap(),
        store.namespace("pages", Versions::Kept).unwrap(),
    );
    // The bodies are too short for a sketch.
    let short = |edits| edited(1, edits)[..60].to_vec();
    for space in [&drafts, &pages] {
        let mut batch = Batch::new();
        batch
            .insert(space, b"1", short(0))
            .insert(space, b"2", short(1))
            .like(b"1");
        batch
            .insert(space, b"3", short(2))
            .like(b"3")
            .insert(space, b"4", short(3))
            .like(b"none");
        store.commit(batch).unwrap();
    }
    store.finish_encoding().unwrap();
    assert_eq!(store.encoding().deltas, 1, "in `pages` it is a latest version");
    for space in [&drafts, &pages] {
        assert_eq!(space.get(b"1").unwrap().unwrap(), short(0));
    }
}

#[test]
fn a_block_is_written_anew_only_if_that_saves_bytes() {
    let folder = folder();
    let store = Store::open(folder.path(), options()).unwrap();
    let drafts = store.namespace("drafts", Versions::Latest).unwrap();
    let compact = || store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
    let put = |keys: std::ops::Range<u32>| {
        let mut batch = Batch::new();
        for key in keys {
            // The bodies are too different for deltas, and hardly compress.
            batch.put(&drafts, &key.to_be_bytes(), noise(3000, key.wrapping_mul(0x85eb_ca6b)));
        }
        store.commit(batch).unwrap();
    };
    put(0..8);
    assert_eq!(compact().records, 8);
    assert_eq!(
        compact(),
        ibid_record::Compaction::default(),
        "it is short, and would be as short again"
    );
    put(8..12);
    let done = compact();
    assert_eq!((done.records, done.blocks_freed), (12, 1), "the short one is filled up");
    for key in 0..6_u32 {
        drafts.delete(&key.to_be_bytes()).unwrap();
    }
    let done = compact();
    assert_eq!((done.records, done.blocks_freed), (6, 1), "half of it is of no use");
    for key in 6..12_u32 {
        drafts.delete(&key.to_be_bytes()).unwrap();
    }
    let done = compact();
    assert_eq!((done.records, done.blocks_freed), (0, 1), "none of it is");
}
