//! A byte that changed in the engine's tables is an error: never a panic, a wrong record, or one
//! that is silently missing.

use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use ibid_format::record::{PIECES_NAMESPACE, PIECES_SECRET_KEY, Record as StoredRecord};
use ibid_record::engine::{Engine, Table};
use ibid_record::{
    Batch, Damage, Direction, Durability, Encoding, Error, IndexedKey, IndexedRecord, KeyFilter, Namespace, Options,
    Prefix, Record, Store, Unique, Version, Versions,
};

use crate::common::{entries, folder, set, with_engine};

fn options() -> Options {
    Options::default()
        .with_cache_bytes(1 << 20)
        .with_durability(Durability::None)
}

/// Tables that readers use. Only writers use the others.
const READ: [Table; 8] = [
    Table::Meta,
    Table::Namespaces,
    Table::Keys,
    Table::Versions,
    Table::Records,
    Table::Places,
    Table::Blocks,
    Table::Indexes,
];

/// Everything that a reader can get.
#[derive(Debug, PartialEq)]
struct Seen {
    bodies: Vec<Option<Vec<u8>>>,
    many: Vec<Option<Record>>,
    versions: [Vec<Version>; 2],
    old: Vec<Option<Vec<u8>>>,
    scanned: Vec<Record>,
    in_order: Vec<Record>,
    by_value: Vec<Option<Vec<u8>>>,
    of_values: [Vec<IndexedKey>; 2],
    with_records: Vec<IndexedRecord>,
    values: Vec<(String, Vec<u8>)>,
}

fn look(path: &Path) -> Result<Seen, Error> {
    let store = Store::open(path, options())?;
    store.finish_encoding()?;
    let pages = store.namespace("pages", Versions::Kept)?;
    let (by_author, by_place) = (pages.index("author", Unique::No)?, pages.index("place", Unique::Yes)?);
    let everything = (Bound::Unbounded, Bound::Unbounded);
    Ok(Seen {
        bodies: [b"a".as_slice(), b"b", b"gone", b"absent"]
            .into_iter()
            .map(|key| pages.get(key))
            .collect::<Result<_, _>>()?,
        many: pages.get_many(&[b"b", b"a", b"gone", b"absent"])?,
        versions: [pages.versions(b"a")?, pages.versions(b"gone")?],
        old: [(b"a".as_slice(), 1), (b"a", 2), (b"a", 3), (b"gone", 1), (b"gone", 2)]
            .into_iter()
            .map(|(key, version)| pages.get_version(key, version))
            .collect::<Result<_, _>>()?,
        scanned: pages
            .scan((Bound::Unbounded, Bound::Unbounded), Direction::Forward)?
            .collect::<Result<_, _>>()?,
        in_order: pages.written_after(0)?.collect::<Result<_, _>>()?,
        by_value: [b"y".as_slice(), b"z", b"absent"]
            .into_iter()
            .map(|value| by_place.get(value))
            .collect::<Result<_, _>>()?,
        of_values: [
            by_author
                .keys(everything, Direction::Forward)?
                .collect::<Result<_, _>>()?,
            by_place
                .keys(everything, Direction::Backward)?
                .collect::<Result<_, _>>()?,
        ],
        with_records: by_author
            .scan(everything, Direction::Forward)?
            .collect::<Result<_, _>>()?,
        values: pages.index_values(b"a")?,
    })
}

fn fill(path: &Path) -> Seen {
    fill_with(path, options())
}

/// Fills a store in the same way, with bodies in pieces.
fn fill_in_pieces(path: &Path) -> Seen {
    fill_with(path, options().with_whole_bytes_max(100))
}

fn fill_with(path: &Path, options: Options) -> Seen {
    let store = Store::open(path, options).unwrap();
    let pages: Namespace = store.namespace("pages", Versions::Kept).unwrap();
    let (by_author, by_place) = (
        pages.index("author", Unique::No).unwrap(),
        pages.index("place", Unique::Yes).unwrap(),
    );
    let mut batch = Batch::new();
    let long = crate::common::noise(200, 1);
    let with = |end: &[u8]| [&long, end].concat();
    batch
        .insert(&pages, b"a", with(b"in the same place"))
        .insert(&pages, b"b", b"there");
    batch
        .update(&pages, b"a", with(b"where it was before"))
        .update(&pages, b"a", with(b"elsewhere"));
    batch.insert(&pages, b"gone", b"away").delete(&pages, b"gone");
    for (key, place) in [(b"a", b"y"), (b"b", b"z")] {
        let set = batch.set_index_values(&pages, key);
        set.index(&by_author, b"anna\0").index(&by_place, place);
    }
    store.commit(batch).unwrap();
    store.finish_encoding().unwrap();
    assert_eq!(store.encoding().deltas, 2);
    drop((by_author, by_place, pages, store));
    look(path).unwrap()
}

/// Fills a store in the same way, and compacts it.
fn fill_compacted(path: &Path) -> Seen {
    let sound = fill(path);
    let store = Store::open(path, options()).unwrap();
    store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
    drop(store);
    assert_eq!(with_engine(path, |engine| entries(engine, Table::Records)), []);
    assert_eq!(look(path).unwrap(), sound);
    sound
}

/// Replaces an entry by `bad`, reads the store, and puts the entry back.
#[track_caller]
fn assert_noticed(path: &Path, table: Table, (key, value): &(Vec<u8>, Vec<u8>), bad: Option<&[u8]>) {
    with_engine(path, |engine| {
        set(engine, table, key, bad);
        engine.sync().unwrap();
    });
    match catch_unwind(AssertUnwindSafe(|| look(path))) {
        Err(_) => panic!("a panic, with {bad:02x?} in {table:?} under {key:02x?}"),
        Ok(Ok(_)) => panic!("not noticed: {bad:02x?} in {table:?} under {key:02x?}"),
        Ok(Err(Error::Damaged { .. } | Error::NotAStore { .. })) => {}
        Ok(Err(error)) => panic!("{error}, with {bad:02x?} in {table:?} under {key:02x?}"),
    }
    with_engine(path, |engine| {
        set(engine, table, key, Some(value));
        engine.sync().unwrap();
    });
}

#[test]
fn every_byte_of_every_entry_is_checked() {
    every_byte_is_checked(fill);
}

#[test]
fn every_byte_of_compressed_records_is_checked() {
    every_byte_is_checked(fill_compacted);
}

#[test]
fn every_byte_of_bodies_in_pieces_is_checked() {
    every_byte_is_checked(fill_in_pieces);
}

/// Whether only writers use an entry: of the namespace of pieces, or of the secret by which they are named.
fn is_of_writers(table: Table, (key, value): &(Vec<u8>, Vec<u8>)) -> bool {
    match table {
        Table::Namespaces => key == PIECES_NAMESPACE.as_bytes(),
        Table::Keys => key[4..] == *PIECES_SECRET_KEY,
        Table::Records => {
            let number = u64::from_be_bytes(key[..].try_into().unwrap());
            StoredRecord::decode(number, value).unwrap().key == PIECES_SECRET_KEY
        }
        _ => false,
    }
}

fn every_byte_is_checked(fill: impl FnOnce(&Path) -> Seen) {
    let folder = folder();
    let sound = fill(folder.path());
    for table in READ {
        let all = with_engine(folder.path(), |engine| entries(engine, table));
        for entry in all.into_iter().filter(|entry| !is_of_writers(table, entry)) {
            for position in 0..entry.1.len() {
                let mut bad = entry.1.clone();
                bad[position] ^= 1 << (position % 8);
                assert_noticed(folder.path(), table, &entry, Some(&bad));
            }
            for length in [0, 1, entry.1.len() - 1] {
                assert_noticed(folder.path(), table, &entry, Some(&entry.1[..length]));
            }
        }
    }
    assert_eq!(look(folder.path()).unwrap(), sound, "all was put back");
}

#[test]
fn every_byte_of_a_record_is_checked_where_the_engine_keeps_it() {
    let folder = folder();
    let sound = fill(folder.path());
    let record = with_engine(folder.path(), |engine| entries(engine, Table::Records))
        .swap_remove(0)
        .1;
    let file = folder.path().join("redb");
    let bytes = std::fs::read(&file).unwrap();
    // redb may also have copies of it in pages that it replaced.
    let copies: Vec<usize> = (0..bytes.len() - record.len())
        .filter(|&at| bytes[at..].starts_with(&record))
        .collect();
    assert!(!copies.is_empty());
    for position in 0..record.len() {
        let mut bad = bytes.clone();
        for copy in &copies {
            bad[copy + position] ^= 1 << (position % 8);
        }
        std::fs::write(&file, bad).unwrap();
        let error = look(folder.path()).expect_err("a byte changed");
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    }
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(look(folder.path()).unwrap(), sound);
}

#[test]
fn damage_to_entries_of_the_encoder_loses_no_record() {
    let folder = folder();
    let sound = fill(folder.path());
    for entry in with_engine(folder.path(), |engine| entries(engine, Table::Chains)) {
        for position in 0..entry.1.len() {
            let mut bad = entry.1.clone();
            bad[position] ^= 1 << (position % 8);
            with_engine(folder.path(), |engine| set(engine, Table::Chains, &entry.0, Some(&bad)));
            let store = Store::open(folder.path(), options()).unwrap();
            let pages = store.namespace("pages", Versions::Kept).unwrap();
            // A new version of each key affects every chain.
            let mut batch = Batch::new();
            batch.put(&pages, b"a", b"new").put(&pages, b"b", b"new");
            store.commit(batch).unwrap();
            store.finish_encoding().unwrap();
        }
    }
    let seen = look(folder.path()).unwrap();
    assert_eq!(seen.old, sound.old);
}

/// Records share entries of places: damage of one costs those that are in blocks.
#[test]
fn where_others_are_stands_in_the_way_of_no_record_that_is_in_no_block() {
    let folder = folder();
    let sound = fill(folder.path());
    with_engine(folder.path(), |engine| {
        assert_eq!(entries(engine, Table::Places).len(), 0, "nothing is in a block");
        set(engine, Table::Places, &0_u64.to_be_bytes(), Some(b"damaged"));
    });
    let store = Store::open(folder.path(), options()).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    for (version, body) in (1..=3).zip(&sound.old) {
        assert!(
            body.is_some() && pages.get_version(b"a", version).unwrap() == *body,
            "{version}"
        );
    }
}

#[test]
fn a_base_is_not_removed_for_damage() {
    let folder = folder();
    let sound = fill(folder.path());
    let entry = with_engine(folder.path(), |engine| entries(engine, Table::References)).swap_remove(0);
    for position in 0..entry.1.len() {
        let mut bad = entry.1.clone();
        bad[position] ^= 1 << (position % 8);
        with_engine(folder.path(), |engine| {
            set(engine, Table::References, &entry.0, Some(&bad))
        });
        let store = Store::open(folder.path(), options()).unwrap();
        let pages = store.namespace("pages", Versions::Kept).unwrap();
        let mut batch = Batch::new();
        batch.put(&pages, b"c", b"with it").purge(&pages, b"a");
        let refused = store.commit(batch).unwrap_err();
        let of_references = Table::References;
        assert!(
            matches!(refused, Error::Damaged { table, .. } if table == of_references),
            "{refused}"
        );
        assert_eq!(pages.get(b"c").unwrap(), None, "nothing of the batch is done");
        drop((pages, store));
        assert_eq!(look(folder.path()).unwrap(), sound);
    }
}

#[test]
fn entries_that_change_places_are_noticed() {
    let folder = folder();
    fill(folder.path());
    for table in READ {
        let all = with_engine(folder.path(), |engine| entries(engine, table));
        for entry in &all {
            for other in all.iter().filter(|other| other.0 != entry.0) {
                assert_noticed(folder.path(), table, entry, Some(&other.1));
            }
        }
    }
}

#[test]
fn a_record_that_is_lost_is_missed() {
    for fill in [fill, fill_compacted] {
        let folder = folder();
        fill(folder.path());
        for table in [Table::Records, Table::Versions, Table::Places, Table::Blocks] {
            for entry in with_engine(folder.path(), |engine| entries(engine, table)) {
                assert_noticed(folder.path(), table, &entry, None);
            }
        }
    }
    let folder = folder();
    fill(folder.path());
    with_engine(folder.path(), |engine| {
        set(engine, Table::Records, &1_u64.to_be_bytes(), None)
    });
    let error = Store::open(folder.path(), options()).unwrap();
    let error = error.namespace("pages", Versions::Kept).unwrap().get_version(b"a", 1);
    assert!(matches!(
        error,
        Err(Error::Damaged {
            table: Table::Records,
            found: Damage::Missing,
            ..
        })
    ));
}

#[test]
fn damage_of_one_record_stands_in_the_way_of_no_other() {
    let folder = folder();
    let path = folder.path();
    let store = Store::open(path, options()).unwrap();
    let pages = store.namespace("pages", Versions::Latest).unwrap();
    let by_author = pages.index("author", Unique::No).unwrap();
    for key in [b"a", b"b", b"c"] {
        let mut batch = Batch::new();
        batch.put(&pages, key, key).index(&by_author, b"anna");
        store.commit(batch).unwrap();
    }
    let damaged = pages.latest(b"b").unwrap().unwrap().number;
    drop((by_author, pages, store));
    with_engine(path, |engine| {
        set(engine, Table::Records, &damaged.to_be_bytes(), Some(b"damaged"));
    });
    let store = Store::open(path, options().with_encoding(Encoding::default().with_enabled(false))).unwrap();
    let pages = store.namespace("pages", Versions::Latest).unwrap();
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let by_author = pages.index("author", Unique::No).unwrap();
    let scanned: Vec<_> = pages.scan(everything, Direction::Forward).unwrap().collect();
    let found = by_author.scan(everything, Direction::Backward).unwrap();
    let mut found: Vec<_> = found.map(|found| found.map(|found| found.record)).collect();
    found.reverse();
    for shown in [scanned, found] {
        assert_eq!(shown.len(), 3);
        assert!(shown[0].as_ref().unwrap().body == b"a" && shown[2].as_ref().unwrap().body == b"c");
        let Err(Error::OfKey { key, source }) = &shown[1] else {
            panic!("{:?}", shown[1])
        };
        assert!(key == b"b" && matches!(**source, Error::Damaged { .. }), "{source}");
    }
    // In the order of records, what is damaged does not say which key it has.
    let in_order: Vec<_> = pages.written_after(0).unwrap().collect();
    assert!(in_order.len() == 3 && in_order[0].is_ok() && in_order[2].is_ok());
    assert!(matches!(in_order[1], Err(Error::OfRecord { number, .. }) if number == damaged));
}

/// Even if no record is left.
#[test]
fn keys_are_listed_without_a_look_at_their_records() {
    for fill in [fill, fill_compacted] {
        let folder = folder();
        fill(folder.path());
        let list = || {
            let store = Store::open(folder.path(), options()).unwrap();
            let pages = store.namespace("pages", Versions::Kept).unwrap();
            let everything = (Bound::Unbounded, Bound::Unbounded);
            let keys = [KeyFilter::Live, KeyFilter::Deleted].map(|filter| {
                let keys = pages.keys(everything, Direction::Forward, filter).unwrap();
                keys.map(Result::unwrap).collect::<Vec<_>>()
            });
            let prefix = pages.keys(Prefix::new(b"b").range(), Direction::Backward, KeyFilter::All);
            assert!(prefix.unwrap().map(|found| found.unwrap().key).eq([b"b".to_vec()]));
            let latest = [b"a", b"b"].map(|key| pages.latest(key).unwrap());
            let can_be_read = pages
                .scan(everything, Direction::Forward)
                .unwrap()
                .all(|read| read.is_ok());
            (keys, latest, can_be_read)
        };
        let (keys, latest, can_be_read) = list();
        assert!(can_be_read);
        assert_eq!((keys[0].len(), keys[1].len()), (2, 1));
        with_engine(folder.path(), |engine| {
            for table in [Table::Records, Table::Versions, Table::Places, Table::Blocks] {
                for (key, value) in entries(engine, table) {
                    set(engine, table, &key, Some(&value[..value.len() / 2]));
                }
            }
            engine.sync().unwrap();
        });
        assert_eq!(list(), (keys, latest, false));
    }
}

#[test]
fn a_folder_that_is_no_store_is_refused_and_not_changed() {
    let folder = folder();
    std::fs::write(folder.path().join("letter.txt"), "dear").unwrap();
    let error = Store::open(folder.path(), options()).err().unwrap();
    assert!(error.to_string().contains("letter.txt"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    let foreign = folder.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    with_engine(&foreign, |engine| set(engine, Table::Keys, b"key", Some(b"value")));
    assert!(matches!(Store::open(&foreign, options()), Err(Error::NotAStore { .. })));
    with_engine(&foreign, |engine| {
        set(engine, Table::Meta, b"format", Some(b"ibidrec\x04"))
    });
    let error = Store::open(&foreign, options()).err().unwrap().to_string();
    assert!(
        error.contains("ibidrec\\x04") && error.contains("ibidrec\\x03"),
        "{error}"
    );
}

#[cfg(feature = "fjall")]
#[test]
fn a_store_is_opened_with_its_own_engine_only() {
    let folder = folder();
    fill(folder.path());
    let engine = ibid_record::EngineKind::Fjall;
    let error = Store::open(folder.path(), options().with_engine(engine)).err().unwrap();
    let (expected, found) = ("fjall", "redb");
    assert!(
        matches!(&error, Error::OtherEngine { expected: e, found: f, .. } if (*e, *f) == (expected, found)),
        "{error}"
    );
}

#[test]
fn keys_and_names_out_of_range_are_refused() {
    let folder = folder();
    let store = Store::open(folder.path(), options()).unwrap();
    let pages = store.namespace("pages", Versions::Latest).unwrap();
    assert!(matches!(
        pages.insert(&[0; 4097], b""),
        Err(Error::OutOfRange {
            max: 4096,
            found: 4097,
            ..
        })
    ));
    assert_eq!(pages.get(&[0; 4097]).unwrap(), None);
    pages.insert(&[0; 4096], b"long").unwrap();
    assert_eq!(pages.get(&[0; 4096]).unwrap().as_deref(), Some(&b"long"[..]));
    for name in ["", &"n".repeat(256)] {
        assert!(matches!(
            store.namespace(name, Versions::Latest),
            Err(Error::OutOfRange { .. })
        ));
    }
    assert!(matches!(
        store.namespace("pages", Versions::Kept),
        Err(Error::NamespaceDiffers { .. })
    ));

    let other = crate::common::folder();
    let other = Store::open(other.path(), options()).unwrap();
    let mut batch = Batch::new();
    batch.insert(&pages, b"a", b"");
    assert!(matches!(other.commit(batch), Err(Error::ForeignNamespace { .. })));
    let snapshot = other.snapshot().unwrap();
    assert!(matches!(
        snapshot.get(&pages, b"a"),
        Err(Error::ForeignNamespace { .. })
    ));
}

/// Changes bytes in redb's file, including its own structure: one in `step` of those that are not
/// zero.
fn change_bytes_of_the_file(step: usize) {
    let folder = folder();
    let sound = fill(folder.path());
    let file = folder.path().join("redb");
    let bytes = std::fs::read(&file).unwrap();
    let mut noticed = 0;
    for at in (0..bytes.len()).filter(|&at| bytes[at] != 0).step_by(step) {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 8);
        std::fs::write(&file, bad).unwrap();
        let seen = catch_unwind(AssertUnwindSafe(|| look(folder.path())));
        match seen.unwrap_or_else(|_| panic!("a panic, with byte {at} changed")) {
            Err(_) => noticed += 1,
            // A reader cannot know of a key that the engine does not find.
            Ok(seen) => {
                for (body, expected) in seen
                    .bodies
                    .iter()
                    .chain(&seen.old)
                    .zip(sound.bodies.iter().chain(&sound.old))
                {
                    assert!(
                        body.is_none() || body == expected,
                        "a wrong record, with byte {at} changed"
                    );
                }
            }
        }
    }
    assert!(noticed > 0);
}

#[test]
fn no_byte_of_the_engines_file_makes_a_wrong_record() {
    change_bytes_of_the_file(47);
}

#[test]
#[ignore = "takes a minute"]
fn every_byte_of_the_engines_file() {
    change_bytes_of_the_file(1);
}

#[test]
fn a_file_that_was_cut_to_nothing_is_damage_and_no_new_store() {
    let folder = folder();
    drop(Store::open(folder.path(), options()).unwrap());
    let file = folder.path().join("redb");
    std::fs::write(&file, b"").unwrap();
    let error = Store::open(folder.path(), options()).map(drop).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), b"", "it was left as it is");
}

#[test]
fn a_kill_while_the_file_was_made_leaves_a_folder_that_opens() {
    let folder = folder();
    let unfinished = folder.path().join("redb.new.0123456789abcdef");
    std::fs::write(&unfinished, [0; 4096]).unwrap();
    drop(Store::open(folder.path(), options()).unwrap());
    assert!(!unfinished.exists());
    Store::open(folder.path(), options()).unwrap();
}
