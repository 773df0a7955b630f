//! Measures the cost of a commit: inserts a second by durability and number of writers, reads of
//! the latest version, bytes on disk.
//!
//! `cargo run --release -p ibid-record --features fjall --example commits [FOLDER]`

#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use ibid_record::{Batch, Durability, EngineKind, Namespace, Options, Store, Versions};

/// Bytes of a body.
const BODY: usize = 4000;
/// Changes in one row of the table.
const CHANGES: u32 = 20_000;

fn body(number: u32) -> Vec<u8> {
    let byte = |i: u32| ((i ^ number.wrapping_mul(0x9e37_79b9)).wrapping_mul(2_654_435_761) >> 24) as u8;
    (0..BODY as u32).map(byte).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    println!("| engine | durability | writers | inserts/s | reads/s | bytes on disk per byte |");
    println!("|---|---|---|---|---|---|");
    let engines = [
        EngineKind::Redb,
        #[cfg(feature = "fjall")]
        EngineKind::Fjall,
    ];
    for engine in engines {
        let batched = Durability::Batched(Duration::from_millis(100));
        for (durability, writers) in [
            (Durability::Sync, 1),
            (Durability::Sync, 8),
            (Durability::Sync, 64),
            (batched, 1),
            (batched, 8),
            (Durability::None, 1),
        ] {
            let place = tempfile::tempdir_in(&folder)?;
            let options = Options::default().with_engine(engine).with_durability(durability);
            let (written, read) = measure(place.path(), options, writers)?;
            let stored = size(place.path())? as f64 / (f64::from(CHANGES) * BODY as f64);
            println!("| {engine:?} | {durability:?} | {writers} | {written:.0} | {read:.0} | {stored:.2} |");
        }
    }
    Ok(())
}

/// Returns inserts and reads a second.
fn measure(place: &Path, options: Options, writers: u32) -> Result<(f64, f64), Box<dyn Error>> {
    let store = Store::open(place, options)?;
    let space = store.namespace("space", Versions::Latest)?;
    let before = Instant::now();
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (store, space) = (&store, &space);
            scope.spawn(move || insert(store, space, (writer..CHANGES).step_by(writers as usize)));
        }
    });
    let written = f64::from(CHANGES) / before.elapsed().as_secs_f64();
    let before = Instant::now();
    for number in 0..CHANGES {
        let found = space.get(&number.to_be_bytes())?;
        assert!(found.is_some_and(|found| found.len() == BODY));
    }
    Ok((written, f64::from(CHANGES) / before.elapsed().as_secs_f64()))
}

fn insert(store: &Store, space: &Namespace, numbers: impl Iterator<Item = u32>) {
    for number in numbers {
        let mut batch = Batch::new();
        batch.insert(space, &number.to_be_bytes(), body(number));
        store.commit(batch).unwrap_or_else(|error| panic!("{error}"));
    }
}

fn size(place: &Path) -> Result<u64, std::io::Error> {
    let mut total = 0;
    for entry in std::fs::read_dir(place)? {
        let entry = entry?;
        total += if entry.file_type()?.is_dir() {
            size(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(total)
}
