//! Writes the stores that every later version must read into the folder given, and aborts: one of them is as a crash
//! leaves it, with all of its log to repeat. Run it for a new version of the format only: a store in `tests/fixtures`
//! is never written again.
//!
//! ```sh
//! cargo run -p ibid-record --example write_store_fixtures -- target/fixtures
//! ```

#[path = "../tests/record/content.rs"]
mod content;

use std::error::Error;
use std::ops::ControlFlow;
use std::path::PathBuf;

use content::{PAGES, PASSWORD, SETTINGS, VERSIONS, page, pages, setting, settings};
use ibid_record::{Argon2Cost, Options, Store};

fn main() -> Result<(), Box<dyn Error>> {
    let target = PathBuf::from(std::env::args_os().nth(1).ok_or("name a folder to write into")?);
    let options = Options::default().with_oplog(true);
    let cost = Argon2Cost {
        memory_kib: 64,
        passes: 1,
        lanes: 1,
    };
    fill(&Store::open_encrypted(
        target.join("encrypted"),
        options,
        PASSWORD,
        cost,
    )?)?;
    let open = Store::open(target.join("open"), options)?;
    fill(&open)?;
    std::process::abort()
}

/// Writes single records, deltas, and blocks, into which all but the last versions are compressed.
fn fill(store: &Store) -> Result<(), Box<dyn Error>> {
    let (pages, settings) = (pages(store)?, settings(store)?);
    for version in 1..=VERSIONS {
        for key in PAGES {
            pages.put(key.as_bytes(), &page(key, version))?;
        }
        if version == VERSIONS - 2 {
            store.compact(&mut |_bytes| ControlFlow::Continue(()))?;
        }
    }
    pages.delete(PAGES[PAGES.len() - 1].as_bytes())?;
    for key in SETTINGS {
        settings.put(key.as_bytes(), b"as set first")?;
        settings.put(key.as_bytes(), &setting(key))?;
    }
    store.finish_encoding()?;
    Ok(store.sync()?)
}
