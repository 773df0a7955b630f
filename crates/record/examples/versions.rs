//! Keeps the versions of a document, reads each back, and shows the bytes that they take.
//!
//! ```text
//! cargo run -p ibid-record --example versions
//! ```

#![allow(clippy::print_stdout, reason = "this program is for its output")]

use std::error::Error;
use std::ops::ControlFlow;

use ibid_record::{Options, Store, Versions};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let store = Store::open(folder.path(), Options::default())?;
    let pages = store.namespace("pages", Versions::Kept)?;

    // Each version has one line more than the one before.
    let mut page = String::new();
    for line in 1..=200 {
        page += &format!("{line}. {} in the same place\n", line * line);
        pages.put(b"ibid", page.as_bytes())?;
    }

    let first = pages.get_version(b"ibid", 1)?.ok_or("the first version is missing")?;
    println!("version 1: {}", String::from_utf8(first)?.trim_end());
    let latest = pages.get(b"ibid")?.ok_or("the latest version is missing")?;
    println!("version {}: {} bytes", pages.versions(b"ibid")?.len(), latest.len());

    // Encodes the versions as deltas of newer ones, and compresses these together.
    let compacted = store.compact(&mut |_bytes| ControlFlow::Continue(()))?;
    let statistics = store.statistics(&mut |_bytes| ControlFlow::Continue(()))?;
    let versions = &statistics.namespaces[0];
    println!("all versions: {} bytes", versions.records.bytes);
    println!("as deltas: {} bytes", versions.stored_bytes());
    println!("compressed: {} bytes", compacted.bytes_after);
    Ok(())
}
