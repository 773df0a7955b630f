//! A body that is too long for one record is stored in pieces, each once, and takes memory for a few of them.

use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::Path;

use ibid_format::record::{KeyEntry, PartKind};
use ibid_record::engine::Table;
use ibid_record::{Batch, Compacting, Condition, Encoding, Error, Fault, Options, Problem, Store, Versions};

use crate::common::{entries, random, set, with_engine};

/// Bodies of more than 64 KiB are in pieces, of 2 KiB on average.
const WHOLE: usize = 64 << 10;

fn options() -> Options {
    Options::default()
        .with_whole_bytes_max(WHOLE)
        .with_compacting(Compacting::default().with_enabled(false))
}

fn verified(store: &Store) {
    let found = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(found.is_clean(), "{:?}", found.faults);
}

/// Returns how many pieces and lists the store has.
fn parts(store: &Store) -> u64 {
    let found = store.statistics(&mut |_| ControlFlow::Continue(())).unwrap();
    // One key has the secret.
    found.pieces.map_or(0, |pieces| pieces.keys - 1)
}

/// Copies the files of a store, as they are if its process is stopped now.
fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy_folder(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), &to).unwrap();
        }
    }
}

fn read(mut from: impl Read) -> Vec<u8> {
    let mut body = Vec::new();
    from.read_to_end(&mut body).unwrap();
    body
}

#[test]
fn a_body_of_any_length_is_read_as_it_was_stored_in_any_way() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), options()).unwrap();
    let bodies = store.namespace("bodies", Versions::Kept).unwrap();
    for length in [0, 1, WHOLE - 1, WHOLE, WHOLE + 1, 200_000, 3_000_000] {
        let body = random(length as u64, length);
        let key = length.to_string();
        let number = bodies.put_from(key.as_bytes(), &mut &body[..]).unwrap();
        assert_eq!(bodies.latest(key.as_bytes()).unwrap().unwrap().number, number);
        bodies.put(key.as_bytes(), &body).unwrap();
        let mut writer = store.body_writer().unwrap();
        body.chunks(7777).for_each(|bytes| writer.write_all(bytes).unwrap());
        let staged = writer.finish().unwrap();
        assert_eq!((staged.len(), staged.is_empty()), (length as u64, length == 0));
        let mut batch = Batch::new();
        batch.update(&bodies, key.as_bytes(), staged);
        store.commit(batch).unwrap();
    }
    verified(&store);
    store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
    drop((bodies, store));
    let store = Store::open(folder.path(), options()).unwrap();
    let bodies = store.namespace("bodies", Versions::Kept).unwrap();
    for length in [0, 1, WHOLE - 1, WHOLE, WHOLE + 1, 200_000, 3_000_000] {
        let (body, key) = (random(length as u64, length), length.to_string());
        let key = key.as_bytes();
        for version in 1..=3 {
            assert!(bodies.get_version(key, version).unwrap().unwrap() == body, "{length}");
            let reader = bodies.open_version(key, version).unwrap().unwrap();
            assert!(reader.len() == length as u64 && read(reader) == body, "{length}");
        }
        assert!(bodies.get(key).unwrap().unwrap() == body);
        assert!(bodies.get_many(&[key]).unwrap()[0].as_ref().unwrap().body == body);
        let mut reader = bodies.open(key).unwrap().unwrap();
        for from in [0, length / 3, length / 2, (length / 2 + 1).min(length), length] {
            reader.seek_to(from as u64);
            assert!(read(&mut reader) == body[from..], "{length} from {from}");
        }
        reader.seek_to(length as u64 + 5);
        assert_eq!(read(&mut reader), b"");
    }
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    for record in bodies.scan(all, ibid_record::Direction::Forward).unwrap() {
        let record = record.unwrap();
        assert_eq!(record.body.len().to_string().as_bytes(), record.key);
    }
    assert_eq!(
        bodies
            .written_after(0)
            .unwrap()
            .map(|record| record.unwrap().body.len())
            .sum::<usize>(),
        { WHOLE * 3 + 3_200_001 }
    );
    assert!(bodies.open(b"none").unwrap().is_none() && bodies.open_version(b"0", 4).unwrap().is_none());
    assert_eq!(store.namespaces().unwrap().len(), 1);
    assert!(store.find_namespace("\0pieces").unwrap().is_none());
    assert!(matches!(
        store.namespace("\0pieces", Versions::Latest),
        Err(Error::ReservedName)
    ));
    verified(&store);
}

#[test]
fn what_two_bodies_have_in_common_is_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(
        folder.path(),
        options().with_encoding(Encoding::default().with_enabled(false)),
    )
    .unwrap();
    let bodies = store.namespace("bodies", Versions::Kept).unwrap();
    let others = store.namespace("others", Versions::Latest).unwrap();
    let body = random(1, 2_000_000);
    bodies.put(b"a", &body).unwrap();
    let first = parts(&store);
    assert!(first > 500, "{first}");
    others.put(b"b", &body).unwrap();
    assert_eq!(parts(&store), first);
    let mut changed = body.clone();
    changed.splice(1_000_000..1_000_000, *b"inserted");
    bodies.put(b"a", &changed).unwrap();
    let more = parts(&store) - first;
    assert!(more < 60, "{more} parts for one change");
    verified(&store);

    // A part stays as long as one body needs it.
    bodies.purge_versions(b"a", 1..=1).unwrap();
    assert!(others.get(b"b").unwrap().unwrap() == body);
    others.put(b"b", b"short").unwrap();
    assert!(parts(&store) < first + more, "what only the first version had is gone");
    assert!(bodies.get(b"a").unwrap().unwrap() == changed);
    verified(&store);
    bodies.purge(b"a").unwrap();
    assert_eq!(parts(&store), 0);
    verified(&store);
}

#[test]
fn a_body_that_no_batch_stores_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), options()).unwrap();
    let bodies = store.namespace("bodies", Versions::Kept).unwrap();
    let body = random(1, 1_000_000);
    {
        let mut writer = store.body_writer().unwrap();
        writer.write_all(&body).unwrap();
        assert!(parts(&store) > 100);
    }
    assert_eq!(parts(&store), 0);
    let mut writer = store.body_writer().unwrap();
    writer.write_all(&body).unwrap();
    drop(writer.finish().unwrap());
    assert_eq!(parts(&store), 0);

    let mut batch = Batch::new();
    batch
        .require(&bodies, b"a", Condition::Version(1))
        .put(&bodies, b"a", &body);
    assert!(matches!(store.commit(batch), Err(Error::ConditionFailed { .. })));
    assert!(bodies.update(b"a", &body).is_err());
    assert_eq!(parts(&store), 0);

    // A staged body may be stored under several keys.
    let mut writer = store.body_writer().unwrap();
    writer.write_all(&body).unwrap();
    let staged = writer.finish().unwrap();
    let mut batch = Batch::new();
    batch.put(&bodies, b"a", staged.clone()).put(&bodies, b"b", staged);
    store.commit(batch).unwrap();
    verified(&store);
    let mut batch = Batch::new();
    // In the same batch one key lets go what another takes.
    batch
        .purge(&bodies, b"a")
        .purge(&bodies, b"b")
        .put(&bodies, b"c", &body);
    store.commit(batch).unwrap();
    assert!(bodies.get(b"c").unwrap().unwrap() == body);
    verified(&store);

    let other = tempfile::tempdir().unwrap();
    let other = Store::open(other.path(), options()).unwrap();
    let elsewhere = other.namespace("bodies", Versions::Kept).unwrap();
    let mut writer = store.body_writer().unwrap();
    writer.write_all(&body).unwrap();
    let mut batch = Batch::new();
    batch.put(&elsewhere, b"a", writer.finish().unwrap());
    assert!(matches!(other.commit(batch), Err(Error::ForeignBody)));
}

#[test]
fn a_body_of_which_something_was_not_stored_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), options().with_oplog(true)).unwrap();
    let bodies = store.namespace("bodies", Versions::Kept).unwrap();
    let body = random(1, 1_000_000);
    bodies.put(b"a", &body).unwrap();
    let mut writer = store.body_writer().unwrap();
    writer.write_all(&body).unwrap();
    // It takes no writes as a replica, and does again once it is promoted.
    store.follow().unwrap();
    let failed = writer.write_all(&random(2, 1_000_000)).unwrap_err();
    assert!(failed.to_string().contains("replica"), "{failed}");
    store.promote().unwrap();
    assert!(writer.write_all(b"more").is_err());
    assert!(matches!(writer.finish(), Err(Error::IsReplica)));
    assert!(bodies.get(b"a").unwrap().unwrap() == body);
    verified(&store);
}

#[test]
fn what_a_stopped_process_was_storing_is_removed_later() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), options()).unwrap();
    let bodies = store.namespace("bodies", Versions::Kept).unwrap();
    let body = random(1, 1_000_000);
    bodies.put(b"a", &body[..500_000]).unwrap();
    let kept = parts(&store);
    let mut writer = store.body_writer().unwrap();
    writer.write_all(&body).unwrap();
    store.sync().unwrap();
    let copy = tempfile::tempdir().unwrap();
    copy_folder(folder.path(), copy.path());

    // One that is still being stored stays.
    store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
    let mut batch = Batch::new();
    batch.put(&bodies, b"b", writer.finish().unwrap());
    store.commit(batch).unwrap();
    assert!(bodies.get(b"b").unwrap().unwrap() == body);
    verified(&store);

    let stopped = Store::open(copy.path(), options()).unwrap();
    assert!(parts(&stopped) > kept + 100);
    stopped.compact(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(parts(&stopped), kept);
    let bodies = stopped.namespace("bodies", Versions::Kept).unwrap();
    assert!(bodies.get(b"a").unwrap().unwrap() == body[..500_000]);
    verified(&stopped);
}

/// In a piece, in a list, and in the entry of the key of one.
#[test]
fn damage_of_a_part_is_told_of_all_bodies_that_need_it_and_of_no_others() {
    for part in [PartKind::Piece, PartKind::List] {
        for table in [Table::Records, Table::Keys] {
            for is_lost in [false, true] {
                let folder = tempfile::tempdir().unwrap();
                let (first, second) = (random(1, 200_000), random(2, 200_000));
                let damaged = {
                    let store = Store::open(folder.path(), options()).unwrap();
                    let bodies = store.namespace("bodies", Versions::Kept).unwrap();
                    bodies.put(b"sound", &second).unwrap();
                    bodies.put(b"short", b"in the same place").unwrap();
                    for body in [&second, &first, &first] {
                        bodies.put(b"a", body).unwrap();
                    }
                    bodies.written_after(0).unwrap().last().unwrap().unwrap().number
                };
                with_engine(folder.path(), |engine| {
                    // The last part is one of the second body.
                    let is_part = |key: &[u8]| key.len() == 37 && key[4] == part as u8;
                    let all = entries(engine, Table::Keys).into_iter();
                    let parts = all.filter(|(key, _)| is_part(key));
                    let of = |(key, value): (Vec<u8>, Vec<u8>)| (KeyEntry::decode(&key, &value).unwrap().latest, key);
                    let (number, key) = parts.map(of).filter(|(number, _)| *number < damaged).max().unwrap();
                    let key = if table == Table::Keys {
                        key
                    } else {
                        number.to_be_bytes().to_vec()
                    };
                    set(engine, table, &key, Some(&b"damaged"[..]).filter(|_| !is_lost));
                });
                let store = Store::open(
                    folder.path(),
                    options().with_encoding(Encoding::default().with_enabled(false)),
                );
                let store = store.unwrap();
                let found = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
                let case = format!("{part:?}, {table:?}, {is_lost}: {:?}", found.faults);
                // By its whole key, as that of a part may end with this byte too.
                let is_of_a = |fault: &&Fault| fault.key == b"\0\0\0\x01a";
                let named: Vec<_> = found.faults.iter().filter(is_of_a).collect();
                let problem = Problem::Pieces { versions: 2, first: 2 };
                assert!(named.len() == 1 && named[0].problem == problem, "{case}");
                assert!(
                    !found.faults.iter().any(|fault| fault.key.ends_with(b"sound")),
                    "{case}"
                );
                let counts = &found.namespaces[0];
                assert_eq!((counts.records, counts.body_bytes), (3, 2 * 200_000 + 17), "{case}");
                let bodies = store.namespace("bodies", Versions::Kept).unwrap();
                assert!(bodies.get(b"a").is_err() && bodies.get_version(b"a", 1).unwrap().unwrap() == second);
                assert!(bodies.get(b"sound").unwrap().unwrap() == second);
            }
        }
    }
}

#[test]
fn a_reader_sees_the_body_as_it_was_when_it_was_opened() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), options()).unwrap();
    let bodies = store.namespace("bodies", Versions::Latest).unwrap();
    let body = random(1, 1_000_000);
    bodies.put(b"a", &body).unwrap();
    let mut reader = bodies.open(b"a").unwrap().unwrap();
    let first = reader.next_bytes().unwrap().to_vec();
    bodies.put(b"a", &random(2, 1_000_000)).unwrap();
    assert_eq!(first[..], body[..first.len()]);
    assert!(read(reader) == body[first.len()..]);
    bodies.delete(b"a").unwrap();
    assert_eq!(parts(&store), 0);
    let limited = options().with_body_bytes_max(WHOLE);
    bodies.put(b"a", &body).unwrap();
    drop((bodies, store));
    let store = Store::open(folder.path(), limited).unwrap();
    let bodies = store.namespace("bodies", Versions::Latest).unwrap();
    assert!(matches!(
        bodies.get(b"a"),
        Err(Error::BodyTooLong { found: 1_000_000, .. })
    ));
    assert!(read(bodies.open(b"a").unwrap().unwrap()) == body);
    verified(&store);
}
