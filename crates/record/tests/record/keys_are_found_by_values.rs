//! Keys are found by the values that the last change of each gave it, and by no others.

use std::ops::{Bound, ControlFlow};
use std::path::Path;

use ibid_format::record::{IndexRow, KeyEntry};
use ibid_record::engine::{Engine, Table};
use ibid_record::replicate::{Receiver, Sender};
use ibid_record::{
    Batch, Condition, Damage, Direction, Durability, Error, Index, Namespace, Options, Prefix, Retention, Store, Time,
    Unique, Versions,
};

use crate::common::{entries, folder, set, with_engine};

fn options() -> Options {
    Options::default()
        .with_cache_bytes(1 << 20)
        .with_retention_interval(None)
        .with_durability(Durability::None)
}

struct Users {
    store: Store,
    users: Namespace,
    email: Index,
    city: Index,
}

fn open(path: &Path) -> Users {
    let store = Store::open(path, options().with_oplog(true)).unwrap();
    let users = store.namespace("users", Versions::Kept).unwrap();
    let email = users.index("email", Unique::Yes).unwrap();
    let city = users.index("city", Unique::No).unwrap();
    Users {
        store,
        users,
        email,
        city,
    }
}

impl Users {
    /// Stores users, each with an e-mail address and a city.
    fn put(&self, users: &[(&str, &str, &str)]) -> Result<(), Error> {
        let mut batch = Batch::new();
        for (key, email, city) in users {
            let put = batch.put(&self.users, key.as_bytes(), email.as_bytes());
            put.index(&self.email, email.as_bytes())
                .index(&self.city, city.as_bytes());
        }
        self.store.commit(batch).map(drop)
    }

    fn by_email(&self, email: &str) -> Option<String> {
        let key = self.email.get(email.as_bytes()).unwrap();
        key.map(|key| String::from_utf8(key).unwrap())
    }

    fn all(&self, index: &Index) -> Vec<(String, String)> {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let keys = index.keys(everything, Direction::Forward).unwrap().map(Result::unwrap);
        keys.map(|found| (text(found.value), text(found.key))).collect()
    }

    fn cities(&self) -> Vec<(String, String)> {
        self.all(&self.city)
    }

    fn assert_cities(&self, expected: &[(&str, &str)]) {
        let expected = expected.iter().map(|(city, key)| (city.to_string(), key.to_string()));
        assert_eq!(self.cities(), expected.collect::<Vec<_>>());
        assert!(
            self.store
                .verify(&mut |_| ControlFlow::Continue(()))
                .unwrap()
                .is_clean()
        );
    }
}

#[test]
fn a_value_of_a_unique_index_is_of_one_key() {
    let folder = folder();
    let users = open(folder.path());
    users.put(&[("1", "anna@x", "Bern"), ("2", "ben@x", "Bern")]).unwrap();
    let taken = users
        .put(&[("3", "carl@x", "Zug"), ("4", "anna@x", "Zug")])
        .unwrap_err();
    let Error::ValueTaken { index, value, key } = &taken else {
        panic!("{taken}")
    };
    assert_eq!((&index[..], &value[..], &key[..]), ("email", &b"anna@x"[..], &b"1"[..]));
    assert_eq!(
        taken.to_string(),
        "\"1\" has the value \"anna@x\" of the unique index email already"
    );
    assert_eq!(users.users.latest(b"3").unwrap(), None, "all of the batch was refused");
    users.assert_cities(&[("Bern", "1"), ("Bern", "2")]);

    let both = users.put(&[("3", "new@x", "Zug"), ("4", "new@x", "Zug")]);
    assert!(matches!(both, Err(Error::ValueTaken { key, .. }) if key == b"3"));
    // A key may keep its own.
    users.put(&[("1", "anna@x", "Basel")]).unwrap();
    users.assert_cities(&[("Basel", "1"), ("Bern", "2")]);

    let mut given_back = Batch::new();
    given_back.put(&users.users, b"3", b"").index(&users.email, b"anna@x");
    given_back.delete(&users.users, b"1");
    users.store.commit(given_back).unwrap();
    assert_eq!(
        users.by_email("anna@x").as_deref(),
        Some("3"),
        "the end of a batch counts"
    );
}

#[test]
fn two_keys_exchange_their_values_in_one_batch() {
    let folder = folder();
    let users = open(folder.path());
    users.put(&[("1", "anna@x", "Bern"), ("2", "ben@x", "Zug")]).unwrap();
    users.put(&[("1", "ben@x", "Bern"), ("2", "anna@x", "Zug")]).unwrap();
    assert_eq!(users.by_email("anna@x").as_deref(), Some("2"));
    assert_eq!(users.by_email("ben@x").as_deref(), Some("1"));
    // Three in a circle, and one that is left out.
    users.put(&[("3", "carl@x", "Zug")]).unwrap();
    users
        .put(&[("1", "anna@x", ""), ("2", "carl@x", ""), ("3", "ben@x", "")])
        .unwrap();
    assert!(users.put(&[("1", "carl@x", ""), ("2", "ben@x", "")]).is_err());
    let found = ["anna@x", "ben@x", "carl@x"].map(|email| users.by_email(email).unwrap());
    assert_eq!(found, ["1", "3", "2"]);
}

#[test]
fn a_change_that_states_no_values_removes_those_of_its_key() {
    let folder = folder();
    let users = open(folder.path());
    let refill = || {
        users.put(&[("1", "anna@x", "Bern"), ("2", "ben@x", "Zug")]).unwrap();
        users.assert_cities(&[("Bern", "1"), ("Zug", "2")]);
    };
    let changes: [&dyn Fn(); 6] = [
        &|| assert!(users.users.put(b"1", b"plain").is_ok()),
        &|| assert!(users.users.update(b"1", b"plain").is_ok()),
        &|| users.users.delete(b"1").unwrap(),
        &|| users.users.purge(b"1").unwrap(),
        &|| {
            let mut batch = Batch::new();
            batch.set_index_values(&users.users, b"1");
            users.store.commit(batch).unwrap();
        },
        &|| {
            let mut batch = Batch::new();
            let put = batch.put(&users.users, b"1", b"").index(&users.city, b"Bern");
            put.expire_at(Time::from_millis(1).unwrap());
            users.store.commit(batch).unwrap();
            users.assert_cities(&[("Bern", "1"), ("Zug", "2")]);
            let all = &mut |_| ControlFlow::Continue(());
            users.store.expire(Time::from_millis(2).unwrap(), all).unwrap();
        },
    ];
    for change in changes {
        refill();
        change();
        users.assert_cities(&[("Zug", "2")]);
        assert_eq!(users.by_email("anna@x"), None);
        assert_eq!(users.users.index_values(b"1").unwrap(), []);
    }
    refill();
    users.put(&[("1", "anna@x", "Basel")]).unwrap();
    users.users.purge_versions(b"1", 1..=1).unwrap();
    let retention = Retention::default().with_versions(1);
    users.users.set_retention(retention).unwrap();
    users
        .store
        .expire(Time::now(), &mut |_| ControlFlow::Continue(()))
        .unwrap();
    assert_eq!(users.users.versions(b"1").unwrap().len(), 1);
    users.assert_cities(&[("Basel", "1"), ("Zug", "2")]);
}

#[test]
fn values_can_be_set_without_a_new_version() {
    let folder = folder();
    let users = open(folder.path());
    users.put(&[("1", "anna@x", "Bern")]).unwrap();
    let by_name = users.users.index("name", Unique::No).unwrap();
    assert_eq!(by_name.get(b"Anna").unwrap(), None, "a new index knows no keys");
    let before = users.users.latest(b"1").unwrap();
    let mut batch = Batch::new();
    let set = batch.require(&users.users, b"1", Condition::Version(1));
    set.set_index_values(&users.users, b"1")
        .index(&by_name, b"Anna")
        .index(&by_name, b"A.");
    assert_eq!(users.store.commit(batch).unwrap(), [None]);
    assert_eq!(users.users.latest(b"1").unwrap(), before);
    let found = by_name.scan(Prefix::new(b"An").range(), Direction::Forward).unwrap();
    let found: Vec<_> = found.map(Result::unwrap).collect();
    assert_eq!(
        (found.len(), &found[0].value[..], &found[0].record.body[..]),
        (1, &b"Anna"[..], &b"anna@x"[..])
    );
    users.assert_cities(&[]);
    for absent in [&b"2"[..], b"gone"] {
        let mut batch = Batch::new();
        batch.put(&users.users, b"gone", b"").delete(&users.users, b"gone");
        batch.set_index_values(&users.users, absent).index(&by_name, b"Nobody");
        assert!(matches!(users.store.commit(batch), Err(Error::NoSuchKey { .. })));
    }
}

#[test]
fn a_snapshot_finds_what_was_there_at_its_moment() {
    let folder = folder();
    let users = open(folder.path());
    users.put(&[("1", "anna@x", "Bern"), ("2", "ben@x", "Bern")]).unwrap();
    let before = users.store.snapshot().unwrap();
    users.put(&[("1", "ben@x", "Zug"), ("2", "anna@x", "Zug")]).unwrap();
    assert_eq!(
        before.index_get(&users.email, b"anna@x").unwrap().as_deref(),
        Some(&b"1"[..])
    );
    let found = before.index_scan(&users.city, Prefix::new(b"").range(), Direction::Backward);
    let bodies: Vec<_> = found.unwrap().map(|found| found.unwrap().record.body).collect();
    assert_eq!(bodies, [&b"ben@x"[..], b"anna@x"]);
    let other = open(crate::common::folder().path());
    assert!(matches!(
        before.index_get(&other.email, b"anna@x"),
        Err(Error::ForeignNamespace { .. })
    ));
}

#[test]
fn what_is_beyond_a_limit_or_of_another_index_is_refused() {
    let folder = folder();
    let users = open(folder.path());
    let differs = users.users.index("email", Unique::No).unwrap_err();
    assert_eq!(
        differs.to_string(),
        "index email of namespace users is unique, and was expected to be not unique"
    );
    for name in ["", &"n".repeat(256)] {
        assert!(matches!(
            users.users.index(name, Unique::No),
            Err(Error::OutOfRange { .. })
        ));
    }
    for number in 2..64 {
        users.users.index(&format!("index {number}"), Unique::No).unwrap();
    }
    let (field, min, max, found) = ("indexes of a namespace", 0, 64, 65);
    let refused = users.users.index("one more", Unique::No).unwrap_err();
    assert_eq!(
        refused.to_string(),
        Error::OutOfRange { field, min, max, found }.to_string()
    );
    assert_eq!(users.users.indexes().unwrap().len(), 64);

    let other = users.store.namespace("other", Versions::Latest).unwrap();
    let commit = |batch: &dyn Fn(&mut Batch)| {
        let mut all = Batch::new();
        batch(&mut all);
        users.store.commit(all).map(drop)
    };
    let out_of_range = |refused: Result<(), Error>| matches!(refused, Err(Error::OutOfRange { .. }));
    let foreign = |refused: Result<(), Error>| matches!(refused, Err(Error::ForeignIndex { .. }));
    assert!(foreign(commit(&|batch| {
        batch.put(&other, b"1", b"").index(&users.city, b"Bern");
    })));
    assert!(foreign(commit(&|batch| {
        batch.index(&users.city, b"Bern").put(&users.users, b"1", b"");
    })));
    let elsewhere = open(crate::common::folder().path());
    assert!(foreign(commit(&|batch| {
        batch.put(&users.users, b"1", b"").index(&elsewhere.city, b"Bern");
    })));
    assert!(out_of_range(commit(&|batch| {
        batch.put(&users.users, b"1", b"").index(&users.city, &[b'x'; 4097]);
    })));
    let many = |count: u32| {
        commit(&|batch| {
            let put = batch.put(&users.users, b"1", b"");
            for value in 0..count {
                put.index(&users.city, &value.to_be_bytes());
            }
        })
    };
    assert!(out_of_range(many(257)));
    many(256).unwrap();
    assert_eq!(users.users.index_values(b"1").unwrap().len(), 256);
    assert!(out_of_range(commit(&|batch| {
        batch.delete(&users.users, b"1").index(&users.city, b"Bern");
    })));
    assert!(out_of_range(commit(&|batch| {
        batch.purge(&users.users, b"1").index(&users.city, b"Bern");
    })));
    assert_eq!(users.users.index_values(b"1").unwrap().len(), 256);
}

/// Each takes two bytes in the key of its table.
const ZEROS: [u8; 4096] = [0; 4096];

#[test]
fn the_longest_values_of_the_longest_keys_are_found_also_in_a_copy_in_small_parts() {
    let folder = folder();
    let users = open(&folder.path().join("primary"));
    let mut batch = Batch::new();
    let keys = [[7; 4096], [8; 4096]];
    for key in &keys {
        let put = batch.put(&users.users, key, b"body");
        put.index(&users.city, &ZEROS)
            .index(&users.city, &ZEROS[..4095])
            .index(&users.city, b"");
    }
    users.store.commit(batch).unwrap();
    let log = users.store.log().unwrap().unwrap();
    users.store.truncate_log(log.next).unwrap();

    let replica = Store::open(folder.path().join("replica"), options()).unwrap();
    replica.follow().unwrap();
    let mut sender = Sender::new(&users.store).unwrap().with_message_bytes(1);
    let mut receiver = Receiver::new(&replica).unwrap();
    for round in 0.. {
        assert!(round < 1000, "it never catches up");
        let answer = sender.answer(&receiver.ask().unwrap()).unwrap();
        if receiver.take(&answer).unwrap().is_current() {
            break;
        }
    }
    let copied = replica.find_namespace("users").unwrap().unwrap();
    let copied = copied.index("city", Unique::No).unwrap();
    for city in [&users.city, &copied] {
        assert_eq!(city.get(&ZEROS).unwrap().as_deref(), Some(&keys[0][..]));
        let found = |range| {
            city.keys(range, Direction::Forward)
                .unwrap()
                .map(Result::unwrap)
                .count()
        };
        assert_eq!(found((Bound::Included(&ZEROS[..]), Bound::Unbounded)), 2);
        assert_eq!(found((Bound::Included(&ZEROS[..4095]), Bound::Included(&ZEROS[..]))), 4);
        assert_eq!(found((Bound::Excluded(&ZEROS[..4095]), Bound::Excluded(&ZEROS[..]))), 0);
        assert_eq!(found((Bound::Unbounded, Bound::Unbounded)), 6);
        // No value is as long as these.
        assert_eq!(city.get(&[0; 5000]).unwrap(), None);
        assert_eq!(found((Bound::Unbounded, Bound::Included(&[0; 100_000][..]))), 6);
        assert_eq!(found((Bound::Excluded(&[0; 100_000][..]), Bound::Unbounded)), 0);
    }
    let made = copied.namespace().index("new", Unique::No);
    assert!(matches!(made, Err(Error::IsReplica)), "{made:?}");
}

#[test]
fn many_keys_of_one_value_come_in_order_page_by_page() {
    let folder = folder();
    let users = open(folder.path());
    for count in [63, 64, 65, 200] {
        let keys: Vec<String> = (0..count).map(|number| format!("{number:03}")).collect();
        let mut batch = Batch::new();
        for key in &keys {
            batch
                .put(&users.users, key.as_bytes(), key.as_bytes())
                .index(&users.city, b"Bern");
        }
        users.store.commit(batch).unwrap();
        for direction in [Direction::Forward, Direction::Backward] {
            let mut expected: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
            if direction == Direction::Backward {
                expected.reverse();
            }
            let range = || (Bound::Included(&b"Bern"[..]), Bound::Included(&b"Bern"[..]));
            let found = users.city.keys(range(), direction).unwrap().map(Result::unwrap);
            assert!(found.take(300).map(|found| found.key).eq(expected.iter().copied()));
            let found = users.city.scan(range(), direction).unwrap().map(Result::unwrap);
            assert!(found.take(300).map(|found| found.record.body).eq(expected));
        }
    }
}

#[test]
fn a_row_that_other_entries_contradict_is_an_error() {
    let folder = folder();
    let users = open(folder.path());
    users.put(&[("1", "anna@x", "Bern"), ("2", "ben@x", "Zug")]).unwrap();
    drop(users);
    let row = |index, value: &str, key: &str| {
        let (namespace, value, key) = (1, value.into(), key.into());
        let row = IndexRow {
            namespace,
            index,
            value,
            key,
        };
        row.encode().unwrap()
    };
    // As if a change of the engine had been lost: each is what a writer writes, but not now.
    with_engine(folder.path(), |engine| {
        for (key, value) in [row(1, "anna@x", "2"), row(2, "Chur", "1"), row(2, "Wil", "gone")] {
            set(engine, Table::Indexes, &key, Some(&value));
        }
        engine.sync().unwrap();
    });
    let users = open(folder.path());
    let is_damaged = |error: Error, table, found| match error {
        Error::Damaged {
            table: at, found: what, ..
        } => (at, what) == (table, found),
        _ => false,
    };
    let two = users.email.get(b"anna@x").unwrap_err();
    assert!(is_damaged(two, Table::Indexes, Damage::Misplaced), "it is of two keys");
    let scan = |city: &str| {
        let found = users
            .city
            .scan(Prefix::new(city.as_bytes()).range(), Direction::Forward);
        found.unwrap().next().unwrap().map(|found| found.record.key)
    };
    assert_eq!(scan("Bern").unwrap(), b"1");
    assert!(is_damaged(scan("Chur").unwrap_err(), Table::Indexes, Damage::Misplaced));
    assert!(is_damaged(scan("Wil").unwrap_err(), Table::Keys, Damage::Missing));
    let verified = users.store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(verified.faults.len(), 3, "{verified:?}");
}

#[test]
fn a_namespace_without_indexes_pays_nothing() {
    let folder = folder();
    let users = open(folder.path());
    let plain = users.store.namespace("plain", Versions::Latest).unwrap();
    plain.put(b"1", b"body").unwrap();
    drop((plain, users));
    let keys = with_engine(folder.path(), |engine| entries(engine, Table::Keys));
    let [(key, value)] = &keys[..] else { panic!("{keys:?}") };
    let entry = KeyEntry::decode(key, value).unwrap();
    assert_eq!(*value, entry.encode(key).unwrap());
    let rows = with_engine(folder.path(), |engine| entries(engine, Table::Indexes));
    assert_eq!(rows.len(), 2, "the indexes of the other namespace");
}
