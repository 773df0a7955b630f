//! The tests that every [`Engine`] passes.
//!
//! They are public, so that you can test an engine of your own:
//!
//! ```
//! use ibid_record::conformance;
//! use ibid_record::engine::Redb;
//!
//! let folder = tempfile::tempdir()?;
//! conformance::run(folder.path(), |path| Ok(Box::new(Redb::open(path, 1 << 20)?)));
//! # Ok::<(), std::io::Error>(())
//! ```

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::engine::{Commit, Direction, Engine, EngineError, KeyRange, Read, Table, Transaction, Unused};

/// Opens the engine at a path, which exists if it was opened before.
pub type Open<'a> = &'a dyn Fn(&Path) -> Result<Box<dyn Engine>, EngineError>;

type Test = fn(&Path, Open<'_>);
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Checks all promises of [`Engine`] but those about crashes, which [`killed`] checks. Works in
/// `folder`, which must be empty.
///
/// # Panics
/// If a promise is broken. The message says which.
pub fn run(folder: &Path, open: impl Fn(&Path) -> Result<Box<dyn Engine>, EngineError>) {
    let tests: [(&str, Test); 14] = [
        ("got", put_values_can_be_read),
        ("part", a_part_of_a_value_is_read_as_of_the_whole),
        ("given-back", what_is_given_back_takes_nothing_away),
        ("tables", tables_are_apart),
        ("order", ranges_are_in_the_order_of_bytes),
        ("own", a_transaction_reads_its_own_writes),
        ("all", a_failed_transaction_leaves_nothing),
        ("snapshot", a_snapshot_does_not_change),
        ("whole", readers_see_whole_transactions),
        ("large", large_values_are_kept),
        ("parts", a_value_in_parts_is_one_value),
        ("reopened", committed_records_are_there_after_reopening),
        ("once", it_is_open_once),
        ("foreign", foreign_files_are_refused),
    ];
    for (name, test) in tests {
        test(&folder.join(name), &open);
    }
}

fn opened(path: &Path, open: Open<'_>) -> Box<dyn Engine> {
    open(path).unwrap_or_else(|error| panic!("{error}"))
}

fn value(from: &(impl Read + ?Sized), table: Table, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = None;
    let there = from.get(table, key, &mut |bytes| value = Some(bytes.to_vec()));
    assert_eq!(there.expect("it can be read"), value.is_some());
    value
}

fn pairs(from: &(impl Read + ?Sized), table: Table, range: KeyRange<'_>, direction: Direction) -> Pairs {
    let mut pairs = Vec::new();
    let mut each = |key: &[u8], value: &[u8]| {
        pairs.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    from.range(table, range, direction, &mut each).expect("it can be read");
    pairs
}

fn all(from: &(impl Read + ?Sized), table: Table) -> Pairs {
    pairs(from, table, (Bound::Unbounded, Bound::Unbounded), Direction::Forward)
}

fn put(engine: &dyn Engine, commit: Commit, table: Table, new: &[(&[u8], &[u8])]) {
    let mut work = |transaction: &mut dyn Transaction| {
        new.iter()
            .try_for_each(|(key, value)| transaction.put(table, key, value))
    };
    engine
        .write(commit, &mut work)
        .unwrap_or_else(|error| panic!("{error}"));
}

fn put_values_can_be_read(path: &Path, open: Open<'_>) {
    let engine = opened(path, open);
    let snapshot = engine.snapshot().expect("a new engine can be read");
    assert_eq!(value(&*snapshot, Table::Keys, b"a"), None, "a new engine is empty");
    put(&*engine, Commit::Unsynced, Table::Keys, &[(b"a", b"1"), (b"b", b"")]);
    let now = |key: &[u8]| value(&*engine.snapshot().expect("it can be read"), Table::Keys, key);
    assert_eq!(now(b"a").as_deref(), Some(&b"1"[..]));
    assert_eq!(now(b"b").as_deref(), Some(&b""[..]), "an empty value is a value");
    put(&*engine, Commit::Synced, Table::Keys, &[(b"a", b"2")]);
    assert_eq!(now(b"a").as_deref(), Some(&b"2"[..]));
    let mut delete = |transaction: &mut dyn Transaction| {
        transaction.delete(Table::Keys, b"a")?;
        transaction.delete(Table::Keys, b"never there")
    };
    engine
        .write(Commit::Unsynced, &mut delete)
        .expect("keys can be deleted");
    assert_eq!(now(b"a"), None);
    assert_eq!(now(b"b").as_deref(), Some(&b""[..]));
}

fn a_part_of_a_value_is_read_as_of_the_whole(path: &Path, open: Open<'_>) {
    let engine = opened(path, open);
    for (table, length) in [
        (Table::Keys, 100),
        (Table::Records, 40),
        (Table::Records, 5000),
        (Table::Blocks, 200_000),
    ] {
        let bytes = noise(length, 4);
        put(&*engine, Commit::Unsynced, table, &[(b"key", &bytes)]);
        let snapshot = engine.snapshot().expect("it can be read");
        for (at, part) in [
            (0, 10),
            (7, 0),
            (20, 20),
            (length - 1, 5),
            (length, 3),
            (usize::MAX, 3),
            (1, usize::MAX),
        ] {
            let from = at.min(length);
            let expected = &bytes[from..from.saturating_add(part).min(length)];
            let mut found = None;
            let mut show = |bytes: &[u8]| found = Some(bytes.to_vec());
            let there = snapshot.get_part(table, b"key", at as u64, part, &mut show);
            assert!(there.expect("it can be read"), "{part} bytes at {at} of {length}");
            assert_eq!(found.as_deref(), Some(expected), "{part} bytes at {at} of {length}");
        }
        let there = snapshot.get_part(table, b"none", 0, 1, &mut |_| panic!("there is none"));
        assert!(!there.expect("it can be read"));
        assert!(snapshot.contains(table, b"key").expect("it can be read"));
        assert!(!snapshot.contains(table, b"none").expect("it can be read"));
        let mut keys = Vec::new();
        let mut each = |key: &[u8]| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        };
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let read = snapshot.keys(table, everything, Direction::Forward, &mut each);
        read.expect("it can be read");
        assert_eq!(keys, [b"key"]);
    }
}

fn what_is_given_back_takes_nothing_away(path: &Path, open: Open<'_>) {
    let engine = opened(path, open);
    let number = |i: u32| i.to_be_bytes();
    for i in 0..2000 {
        put(
            &*engine,
            Commit::Unsynced,
            Table::Records,
            &[(&number(i), &noise(3000, i))],
        );
    }
    let before = engine.snapshot().expect("it can be read");
    for i in (0..2000).filter(|i| i % 7 != 0) {
        let mut delete = |transaction: &mut dyn Transaction| transaction.delete(Table::Records, &number(i));
        engine.write(Commit::Unsynced, &mut delete).expect("it commits");
    }
    for unused in [Unused::VeryMuch, Unused::Much, Unused::Any] {
        let given = engine.reclaim(unused, &mut |_| ControlFlow::Continue(()));
        given.expect("unused space can be given back");
        let after = engine.snapshot().expect("it can be read");
        for i in 0..2000 {
            let bytes = noise(3000, i);
            assert!(
                value(&*before, Table::Records, &number(i)).as_ref() == Some(&bytes),
                "{i} before"
            );
            let expected = (i % 7 == 0).then_some(bytes);
            assert!(value(&*after, Table::Records, &number(i)) == expected, "{i} after");
        }
    }
    drop(before);
    drop(engine);
    let engine = opened(path, open);
    let after = engine.snapshot().expect("it can be read");
    assert_eq!(all(&*after, Table::Records).len(), 2000_usize.div_ceil(7));
}

fn tables_are_apart(path: &Path, open: Open<'_>) {
    let engine = opened(path, open);
    for table in Table::ALL {
        put(&*engine, Commit::Unsynced, table, &[(b"key", table.name().as_bytes())]);
    }
    let snapshot = engine.snapshot().expect("it can be read");
    for table in Table::ALL {
        assert_eq!(all(&*snapshot, table), [(b"key".to_vec(), table.name().into())]);
    }
}

fn ranges_are_in_the_order_of_bytes(path: &Path, open: Open<'_>) {
    let engine = opened(path, open);
    let keys: [&[u8]; 8] = [b"\0", b"\0\0", b"a", b"a\0", b"a\xff", b"b", b"\x80", b"\xff\xff"];
    let scattered: Vec<(&[u8], &[u8])> = [3, 0, 7, 5, 1, 6, 2, 4].map(|i| (keys[i], keys[i])).to_vec();
    for pair in scattered.chunks(3) {
        put(&*engine, Commit::Unsynced, Table::Records, pair);
    }
    let snapshot = engine.snapshot().expect("it can be read");
    let bounds = || {
        keys.iter()
            .flat_map(|&key| [Bound::Included(key), Bound::Excluded(key)])
    };
    let bounds = || bounds().chain([Bound::Unbounded]);
    for from in bounds() {
        for to in bounds() {
            let within = |key: &&&[u8]| {
                let above = match from {
                    Bound::Included(from) => **key >= from,
                    Bound::Excluded(from) => **key > from,
                    Bound::Unbounded => true,
                };
                let below = match to {
                    Bound::Included(to) => **key <= to,
                    Bound::Excluded(to) => **key < to,
                    Bound::Unbounded => true,
                };
                above && below
            };
            let mut expected: Pairs = keys
                .iter()
                .filter(within)
                .map(|key| (key.to_vec(), key.to_vec()))
                .collect();
            let range = (from, to);
            assert_eq!(
                pairs(&*snapshot, Table::Records, range, Direction::Forward),
                expected,
                "{range:?}"
            );
            expected.reverse();
            assert_eq!(
                pairs(&*snapshot, Table::Records, range, Direction::Backward),
                expected,
                "{range:?}"
            );
        }
    }
    let mut seen = 0;
    let mut each = |_: &[u8], _: &[u8]| {
        seen += 1;
        if seen == 3 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let everything = (Bound::Unbounded, Bound::Unbounded);
    snapshot
        .range(Table::Records, everything, Direction::Forward, &mut each)
        .expect("it can be read");
    assert_eq!(seen, 3, "a range ends where it is broken off");
}

fn a_transaction_reads_its_own_writes(path: &Path, open: Open<'_>) {
    let engine = opened(path, open);
    put(
        &*engine,
        Commit::Unsynced,
        Table::Keys,
        &[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")],
    );
    let mut work = |transaction: &mut dyn Transaction| {
        transaction.put(Table::Keys, b"a", b"new")?;
        transaction.delete(Table::Keys, b"b")?;
        transaction.put(Table::Keys, b"d", b"4")?;
        assert_eq!(value(transaction, Table::Keys, b"a").as_deref(), Some(&b"new"[..]));
        assert_eq!(value(transaction, Table::Keys, b"b"), None);
        let keys: Vec<_> = all(transaction, Table::Keys).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [b"a", b"c", b"d"]);
        let outside = engine.snapshot()?;
        assert_eq!(
            value(&*outside, Table::Keys, b"a").as_deref(),
            Some(&b"1"[..]),
            "not committed yet"
        );
        Ok(())
    };
    engine.write(Commit::Unsynced, &mut work).expect("it commits");
}

fn a_failed_transaction_leaves_nothing(path: &Path, open: Open<'_>) {
    let engine = opened(path, open);
    put(&*engine, Commit::Unsynced, Table::Keys, &[(b"a", b"1")]);
    let mut work = |transaction: &mut dyn Transaction| {
        transaction.put(Table::Keys, b"a", b"2")?;
        transaction.put(Table::Records, b"b", b"2")?;
        Err(EngineError::InUse { path: path.into() })
    };
    let failed = engine.write(Commit::Synced, &mut work);
    assert!(
        matches!(failed, Err(EngineError::InUse { .. })),
        "the error of the work is returned"
    );
    let snapshot = engine.snapshot().expect("it can be read");
    assert_eq!(value(&*snapshot, Table::Keys, b"a").as_deref(), Some(&b"1"[..]));
    assert_eq!(value(&*snapshot, Table::Records, b"b"), None);
}

fn a_snapshot_does_not_change(path: &Path, open: Open<'_>) {
    let engine = opened(path, open);
    put(&*engine, Commit::Unsynced, Table::Keys, &[(b"a", b"1"), (b"b", b"1")]);
    let before = engine.snapshot().expect("it can be read");
    let mut work = |transaction: &mut dyn Transaction| {
        transaction.put(Table::Keys, b"a", b"2")?;
        transaction.put(Table::Keys, b"aa", b"2")?;
        transaction.delete(Table::Keys, b"b")?;
        transaction.put(Table::Records, b"r", b"2")
    };
    engine.write(Commit::Synced, &mut work).expect("it commits");
    // The first look at a table, and at a key, may come after the commit.
    assert_eq!(
        all(&*before, Table::Keys),
        [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"1".to_vec())]
    );
    assert_eq!(value(&*before, Table::Records, b"r"), None);
    assert_eq!(value(&*before, Table::Keys, b"a").as_deref(), Some(&b"1"[..]));
    let after = engine.snapshot().expect("it can be read");
    assert_eq!(value(&*after, Table::Keys, b"a").as_deref(), Some(&b"2"[..]));
    assert_eq!(value(&*after, Table::Records, b"r").as_deref(), Some(&b"2"[..]));
}

fn readers_see_whole_transactions(path: &Path, open: Open<'_>) {
    const ROUNDS: u32 = 200;
    let engine = opened(path, open);
    let engine = &*engine;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while last < ROUNDS {
                    let snapshot = engine.snapshot().expect("it can be read");
                    let number = |table, key: &[u8]| {
                        let bytes = value(&*snapshot, table, key);
                        bytes.map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")))
                    };
                    let seen = number(Table::Keys, b"first");
                    assert_eq!(seen, number(Table::Records, b"second"), "half of a transaction");
                    assert_eq!(
                        all(&*snapshot, Table::Versions).len(),
                        seen as usize,
                        "half of a transaction"
                    );
                    assert!(seen >= last, "back in time");
                    last = seen;
                }
            });
        }
        for round in 1..=ROUNDS {
            let bytes = round.to_be_bytes();
            let mut work = |transaction: &mut dyn Transaction| {
                transaction.put(Table::Keys, b"first", &bytes)?;
                transaction.put(Table::Versions, &bytes, b"")?;
                transaction.put(Table::Records, b"second", &bytes)
            };
            engine.write(Commit::Unsynced, &mut work).expect("it commits");
        }
    });
}

fn noise(length: usize, seed: u32) -> Vec<u8> {
    (0..length as u32)
        .map(|i| ((i ^ seed).wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

fn large_values_are_kept(path: &Path, open: Open<'_>) {
    let (large, key) = (noise(20_000_000, 1), noise(4200, 2));
    let engine = opened(path, open);
    put(
        &*engine,
        Commit::Synced,
        Table::Records,
        &[(&key, &large), (b"small", b"s")],
    );
    let snapshot = engine.snapshot().expect("it can be read");
    assert!(
        value(&*snapshot, Table::Records, &key) == Some(large),
        "a large value reads back differently"
    );
    assert_eq!(value(&*snapshot, Table::Records, b"small").as_deref(), Some(&b"s"[..]));
}

fn a_value_in_parts_is_one_value(path: &Path, open: Open<'_>) {
    let large = noise(1_000_000, 1);
    let cases: [&[&[u8]]; 5] = [
        &[],
        &[b"", b""],
        &[b"a", b"", b"bc"],
        &[b"a", &large, b"c"],
        &[&large, &large],
    ];
    for reads in 0..2 {
        let engine = opened(path, open);
        if reads == 0 {
            let mut work = |transaction: &mut dyn Transaction| {
                for (key, parts) in (0..).zip(cases) {
                    transaction.put(Table::Records, &[key], b"replaced")?;
                    transaction.put_parts(Table::Records, &[key], parts)?;
                    assert!(value(transaction, Table::Records, &[key]) == Some(parts.concat()));
                }
                Ok(())
            };
            engine.write(Commit::Synced, &mut work).expect("it can be written");
        }
        let snapshot = engine.snapshot().expect("it can be read");
        for (key, parts) in (0..).zip(cases) {
            let found = value(&*snapshot, Table::Records, &[key]);
            assert!(
                found == Some(parts.concat()),
                "a value in {} parts reads back differently",
                parts.len()
            );
        }
    }
}

fn committed_records_are_there_after_reopening(path: &Path, open: Open<'_>) {
    let mut expected = BTreeMap::new();
    for round in 0..4_u32 {
        let engine = opened(path, open);
        assert_eq!(
            all(&*engine.snapshot().expect("it can be read"), Table::Records),
            expected.clone().into_iter().collect::<Vec<_>>()
        );
        for i in 0..50_u32 {
            let (key, bytes) = ((i * (round + 1)).to_be_bytes(), noise(i as usize * 20, round));
            put(&*engine, Commit::Unsynced, Table::Records, &[(&key, &bytes)]);
            expected.insert(key.to_vec(), bytes);
        }
        engine.sync().expect("it can be synced");
    }
}

fn it_is_open_once(path: &Path, open: Open<'_>) {
    let engine = opened(path, open);
    put(&*engine, Commit::Synced, Table::Keys, &[(b"a", b"1")]);
    match open(path) {
        Ok(_) => panic!("it was opened twice"),
        Err(error) => assert!(matches!(error, EngineError::InUse { .. }), "{error}"),
    }
    drop(engine);
    let engine = opened(path, open);
    let snapshot = engine.snapshot().expect("it can be read");
    assert_eq!(value(&*snapshot, Table::Keys, b"a").as_deref(), Some(&b"1"[..]));
}

fn foreign_files_are_refused(path: &Path, open: Open<'_>) {
    std::fs::write(path, noise(100_000, 3)).expect("a file can be written");
    let error = open(path).err().expect("noise is no engine's file");
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()), "{text}");
    assert_eq!(
        std::fs::read(path).expect("it is there").len(),
        100_000,
        "it was left alone"
    );
}

/// Commits transaction after transaction, and acknowledges each that has returned. The process that
/// [`killed`] starts calls it.
///
/// Returns only when the acknowledgements cannot be written any more.
///
/// # Panics
/// If a commit fails.
pub fn write_until_killed(engine: &dyn Engine, mut acknowledge: impl Write) {
    for number in next_number(engine).. {
        let commit = if number % 5 == 4 {
            Commit::Unsynced
        } else {
            Commit::Synced
        };
        let bytes = noise((number % 97) as usize * 100, number);
        let mut work = |transaction: &mut dyn Transaction| {
            transaction.put(Table::Records, &number.to_be_bytes(), &bytes)?;
            transaction.put(Table::Keys, b"last", &number.to_be_bytes())?;
            if number % 7 == 6 {
                transaction.delete(Table::Versions, b"odd")
            } else {
                transaction.put(Table::Versions, b"odd", &bytes)
            }
        };
        engine
            .write(commit, &mut work)
            .unwrap_or_else(|error| panic!("{error}"));
        let mut synced = commit == Commit::Synced;
        if number % 10 == 9 {
            engine.sync().unwrap_or_else(|error| panic!("{error}"));
            synced = true;
        }
        let line = format!("{ACKNOWLEDGED}{number} {synced}\n");
        if acknowledge
            .write_all(line.as_bytes())
            .and_then(|()| acknowledge.flush())
            .is_err()
        {
            return;
        }
    }
}

const ACKNOWLEDGED: &str = "acknowledged ";

fn next_number(engine: &dyn Engine) -> u32 {
    let snapshot = engine.snapshot().expect("it can be read");
    value(&*snapshot, Table::Keys, b"last")
        .map_or(0, |bytes| 1 + u32::from_be_bytes(bytes.try_into().expect("four bytes")))
}

/// Kills a process while it writes, `rounds` times. Checks each time that all transactions are
/// there that were acknowledged as synced, and whole later ones up to some transaction.
///
/// `start` returns a command for a process that opens the engine at `path` and calls
/// [`write_until_killed`] with it and its standard output, which may also have other lines.
///
/// # Panics
/// If a promise is broken. The message says which.
pub fn killed(path: &Path, open: Open<'_>, rounds: u32, start: impl Fn(&Path) -> std::process::Command) {
    for round in 0..rounds {
        let child = start(path).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let synced = listen_and_kill(child.expect("the process starts"), 3 + round * 5);
        let engine = opened(path, open);
        let next = next_number(&*engine);
        assert!(next > synced, "transaction {synced} was acknowledged; {next} are there");
        let snapshot = engine.snapshot().expect("it can be read");
        let expected = (0..next).map(|number| {
            let bytes = noise((number % 97) as usize * 100, number);
            (number.to_be_bytes().to_vec(), bytes)
        });
        let found = all(&*snapshot, Table::Records);
        assert!(
            found == expected.collect::<Vec<_>>(),
            "whole transactions up to {next} are there"
        );
        let odd = value(&*snapshot, Table::Versions, b"odd");
        assert_eq!(odd.is_none(), (next - 1) % 7 == 6, "part of transaction {}", next - 1);
    }
}

/// Returns the number of the last transaction that was acknowledged as synced before the kill.
fn listen_and_kill(mut child: Child, lines: u32) -> u32 {
    let mut output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
    let (mut synced, mut heard, mut line) = (None, 0, String::new());
    // The process is killed while it writes. Its acknowledgements are read to the end.
    while output.read_line(&mut line).is_ok_and(|length| length > 0) {
        if let Some((_, rest)) = line.split_once(ACKNOWLEDGED)
            && let Some((number, durable)) = rest.trim().split_once(' ')
        {
            heard += 1;
            if durable == "true" {
                synced = number.parse().ok();
            }
        }
        if heard == lines {
            child.kill().expect("it can be killed");
        }
        line.clear();
    }
    child.wait().expect("it ends");
    synced.expect("something was synced before the kill")
}
