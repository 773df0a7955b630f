//! An encrypted store opens only with its password, shows no stored bytes, and notices changes.

use std::ops::{Bound, ControlFlow};
use std::path::Path;

use ibid_record::engine::{Engine, EngineError, Table};
use ibid_record::{Argon2Cost, Batch, Direction, Durability, Error, Options, Store, Unique, Versions};

use crate::common::{entries, folder, noise, set, with_engine};

const PASSWORD: &[u8] = b"correct horse battery staple";
const SECRET: &[u8] = b"what nobody else may read";
/// An index value, which is as visible as a key.
const VALUE: &[u8] = b"anna@example.org";
/// A cheap cost of guessing keeps the test fast.
const COST: Argon2Cost = Argon2Cost {
    memory_kib: 8,
    passes: 1,
    lanes: 1,
};

fn options() -> Options {
    Options::default()
        .with_cache_bytes(1 << 20)
        .with_durability(Durability::None)
}

fn open(path: &Path) -> Result<Store, Error> {
    Store::open_encrypted(path, options(), PASSWORD, COST)
}

fn body(version: u32) -> Vec<u8> {
    [&noise(300, 1)[..], SECRET, &version.to_be_bytes()].concat()
}

/// Stores ten versions of a page, nine of them as deltas.
fn fill(path: &Path, compacted: bool) {
    let store = open(path).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    for version in 1..=10 {
        pages.put(b"a", &body(version)).unwrap();
    }
    let by_author = pages.index("author", Unique::No).unwrap();
    let mut batch = Batch::new();
    batch
        .set_index_values(&pages, b"a")
        .index(&by_author, VALUE)
        .index(&by_author, b"ben");
    store.commit(batch).unwrap();
    store.finish_encoding().unwrap();
    assert_eq!(store.encoding().deltas, 9);
    if compacted {
        store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
    }
}

fn look(path: &Path) -> Result<(), Error> {
    let store = open(path)?;
    store.finish_encoding()?;
    let pages = store.namespace("pages", Versions::Kept)?;
    for version in 1..=10 {
        assert!(pages.get_version(b"a", version)? == Some(body(version)), "a wrong body");
    }
    let records: Vec<_> = pages
        .scan((Bound::Unbounded, Bound::Unbounded), Direction::Forward)?
        .collect::<Result<_, _>>()?;
    assert_eq!(records.len(), 1);
    let by_author = pages.index("author", Unique::No)?;
    assert_eq!(by_author.get(VALUE)?.as_deref(), Some(&b"a"[..]));
    assert_eq!(by_author.get(b"ben")?.as_deref(), Some(&b"a"[..]));
    Ok(())
}

#[test]
fn it_opens_with_its_password_only() {
    let folder = folder();
    fill(folder.path(), true);
    look(folder.path()).unwrap();
    let store = open(folder.path()).unwrap();
    assert!(store.verify(&mut |_| ControlFlow::Continue(())).unwrap().is_clean());
    drop(store);
    let wrong = Store::open_encrypted(folder.path(), options(), b"correct horse battery stable", COST);
    let wrong = wrong.err().unwrap();
    let is_wrong = matches!(
        &wrong,
        Error::Key {
            source: ibid_format::Error::WrongPassword,
            ..
        }
    );
    assert!(is_wrong, "{wrong}");
    assert!(matches!(
        Store::open(folder.path(), options()),
        Err(Error::Encrypted { .. })
    ));

    let plain = crate::common::folder();
    drop(Store::open(plain.path(), options()).unwrap());
    assert!(matches!(open(plain.path()), Err(Error::NotEncrypted { .. })));
}

#[test]
fn without_its_file_or_with_that_of_another_store_it_does_not_open() {
    let (one, other) = (folder(), folder());
    fill(one.path(), false);
    fill(other.path(), false);
    let key = one.path().join("key");
    std::fs::copy(other.path().join("key"), &key).unwrap();
    assert!(matches!(
        look(one.path()),
        Err(Error::Engine(EngineError::Damaged { .. }))
    ));
    std::fs::remove_file(&key).unwrap();
    assert!(matches!(look(one.path()), Err(Error::NotEncrypted { .. })));
    assert!(matches!(
        Store::open(one.path(), options()),
        Err(Error::NotAStore { .. })
    ));
    for bytes in [&b""[..], b"key", &[7; 10_000]] {
        std::fs::write(&key, bytes).unwrap();
        assert!(matches!(look(one.path()), Err(Error::Key { .. })));
    }
}

/// Returns whether the beginning of a body is in any file of a folder.
fn has_secret(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return has_secret(&path);
        }
        let file = std::fs::read(path).unwrap();
        file.windows(12).any(|bytes| bytes == &SECRET[..12])
    })
}

#[test]
fn nothing_of_a_body_is_on_the_disk() {
    for compacted in [false, true] {
        let folder = folder();
        fill(folder.path(), compacted);
        assert!(!has_secret(folder.path()));
        let plain = crate::common::folder();
        let store = Store::open(plain.path(), options()).unwrap();
        store
            .namespace("pages", Versions::Kept)
            .unwrap()
            .put(b"a", &body(1))
            .unwrap();
        drop(store);
        assert!(has_secret(plain.path()), "else this test could not fail");
    }
}

#[test]
fn values_that_changed_or_changed_places_are_errors() {
    for compacted in [false, true] {
        let folder = folder();
        fill(folder.path(), compacted);
        let put = |table, key: &[u8], value: &[u8]| {
            with_engine(folder.path(), |engine| {
                set(engine, table, key, Some(value));
                engine.sync().unwrap();
            });
        };
        for table in Table::ALL {
            let all = with_engine(folder.path(), |engine| entries(engine, table));
            for (place, (key, value)) in all.iter().enumerate() {
                let (_, other) = &all[(place + 1) % all.len()];
                let changed = (0..value.len()).step_by(7).map(|at| {
                    let mut changed = value.clone();
                    changed[at] ^= 0x10;
                    changed
                });
                for bad in changed
                    .chain([value[..39].to_vec(), vec![]])
                    .chain((all.len() > 1).then(|| other.clone()))
                {
                    put(table, key, &bad);
                    match look(folder.path()) {
                        Err(Error::Engine(EngineError::Damaged { .. }) | Error::Damaged { .. }) => {}
                        // Readers do not use these tables.
                        Ok(()) if matches!(table, Table::Chains | Table::References) => {}
                        looked => panic!("{looked:?} with {table:?} changed"),
                    }
                }
                put(table, key, value);
            }
        }
        look(folder.path()).unwrap();
    }
}
