//! A process that writes to a store is killed, again and again. Everything that was acknowledged as
//! synced is there afterwards, and later changes are there as complete batches up to one of them.

#[path = "record/common/mod.rs"]
mod common;

use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Kind, Model, Op, assert_same, batch, noise, open_spaces};
use ibid_record::{Compacting, Durability, EngineKind, Options, Store};

/// The engine of the child process.
const CHILD: &str = "IBID_RECORD_KILLED_CHILD";
const PROGRESS: &[u8] = b"progress";

fn options(engine: &str) -> Options {
    Options::default()
        .with_engine(match engine {
            "redb" => EngineKind::Redb,
            #[cfg(feature = "fjall")]
            "fjall" => EngineKind::Fjall,
            _ => panic!("no engine {engine}"),
        })
        .with_cache_bytes(1 << 20)
        .with_durability(Durability::Sync)
        // So that kills come while it works.
        .with_compacting(
            Compacting::default()
                .with_recent_bytes(0)
                .with_idle_after(Duration::ZERO),
        )
}

/// Returns the n-th batch of the history, for the model after the batches before it.
fn step(number: u32, model: &Model) -> Vec<Op> {
    let op = |space: usize, key: &[u8], kind, body| Op {
        space,
        key: key.to_vec(),
        kind,
        time: None,
        expires: 0,
        // One value that many keys have, and one that no other has.
        values: match body {
            _ if !Kind::has_values(kind) => common::Values::new(),
            _ => [(0, vec![number as u8 % 3]), (1, key.to_vec())].into(),
        },
        body,
    };
    let chosen = number.wrapping_mul(2_654_435_761) >> 16;
    let key = |keys| format!("key {}", chosen % keys).into_bytes();
    // The body is similar to earlier ones, so that they become deltas meanwhile.
    let alike = |length: u32| [&noise(length as usize, chosen % 3)[..], &number.to_be_bytes()].concat();
    let mut ops = vec![
        op(1, PROGRESS, Kind::Put, number.to_be_bytes().to_vec()),
        op(0, &key(11), Kind::Put, alike(chosen % 3000)),
        op(1, &key(7), Kind::Put, alike(chosen % 501)),
    ];
    let removed = key(5);
    if chosen.is_multiple_of(3) && model.live(0).iter().any(|(key, _)| *key == removed) {
        let kind = if chosen.is_multiple_of(2) {
            Kind::Purge
        } else {
            Kind::Delete
        };
        ops.push(op(0, &removed, kind, Vec::new()));
    }
    ops
}

fn durability(number: u32) -> Durability {
    match number % 4 {
        0 | 1 => Durability::Sync,
        2 => Durability::None,
        _ => Durability::Batched(Duration::from_millis(2)),
    }
}

/// Returns the model after this number of batches.
fn model_after(count: u32) -> Model {
    (0..count).fold(Model::default(), |model, number| {
        model.after(&step(number, &model)).expect("the history refuses nothing")
    })
}

/// Returns the number of batches in the store.
fn done(store: &Store) -> u32 {
    let [_, latest] = open_spaces(store);
    let progress = latest.get(PROGRESS).unwrap();
    progress.map_or(0, |bytes| 1 + u32::from_be_bytes(bytes.try_into().unwrap()))
}

#[test]
#[ignore = "the process that the other tests start and kill"]
fn child_process() {
    let Ok(child) = std::env::var(CHILD) else { return };
    let (engine, path) = child.split_once(':').unwrap();
    let store = Store::open(Path::new(path), options(engine)).unwrap();
    let spaces = open_spaces(&store);
    let first = done(&store);
    let mut model = model_after(first);
    for number in first.. {
        let ops = step(number, &model);
        model = model.after(&ops).unwrap();
        let durability = durability(number);
        store.commit_with(batch(&spaces, &ops), durability).unwrap();
        if number % 16 == 15 {
            store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
        }
        let synced = durability == Durability::Sync;
        if writeln!(std::io::stdout(), "acknowledged {number} {synced}").is_err() {
            return;
        }
    }
}

/// Kills a writing process after this number of acknowledgements. Returns the last batch that it
/// acknowledged as synced.
fn write_and_kill(engine: &str, path: &Path, lines: u32) -> u32 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_process", "--nocapture", "--include-ignored"])
        .env(CHILD, format!("{engine}:{}", path.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut synced, mut heard) = (None, 0);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let Some((_, said)) = line.split_once("acknowledged ") else {
            continue;
        };
        heard += 1;
        if let Some(number) = said.strip_suffix(" true") {
            synced = Some(number.parse().unwrap());
        }
        if heard == lines {
            child.kill().unwrap(); // while it goes on writing; what it said until then is read to the end
        }
    }
    child.wait().unwrap();
    synced.expect("something was synced")
}

fn killed_again_and_again(engine: &str) {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..6_u32 {
        let synced = write_and_kill(engine, folder.path(), 3 + round * 7);
        let store = Store::open(folder.path(), options(engine)).unwrap();
        let done = done(&store);
        assert!(
            done > synced,
            "batch {synced} was acknowledged as synced; {done} are there"
        );
        assert_same(&store.snapshot().unwrap(), &open_spaces(&store), &model_after(done));
        let found = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
        assert!(found.is_clean(), "{found:?}");
    }
}

#[test]
fn with_redb() {
    killed_again_and_again("redb");
}

#[cfg(feature = "fjall")]
#[test]
fn with_fjall() {
    killed_again_and_again("fjall");
}
