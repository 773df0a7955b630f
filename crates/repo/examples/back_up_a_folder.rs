//! Backs up a folder into a new repository, lists its contents, restores it, and checks everything.
//!
//! ```sh
//! cargo run -p ibid-repo --example back_up_a_folder -- crates/repo/src
//! ```
#![allow(clippy::print_stdout, reason = "an example that shows what it does")]

use std::sync::Arc;

use ibid_repo::{BackupOptions, EntryKind, InitOptions, LocalStorage, ReadData, Repository, RestoreOptions, Visit};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).ok_or("name a folder to back up")?;
    let place = tempfile::tempdir()?;

    let storage = Arc::new(LocalStorage::create(place.path().join("repository"))?);
    let repository = Repository::init(storage, Some(b"a good password"), &InitOptions::default())?;
    let summary = repository.backup(&BackupOptions::default().path(folder))?;
    println!(
        "backed up {} files in {} bytes",
        summary.counters.files, summary.written
    );

    let snapshot = repository.snapshot("latest")?;
    repository.visit(&snapshot, |path, entry| {
        if let EntryKind::File(content) = &entry.kind {
            println!("{:>12} {}", content.length, path.display());
        }
        Ok(Visit::Descend)
    })?;

    let options = RestoreOptions::default().verify(true);
    let restored = repository.restore(&snapshot, place.path().join("restored"), &options)?;
    println!("restored and verified {} files", restored.verified);

    let report = repository.check(ReadData::All)?;
    println!(
        "the repository is {}",
        if report.is_clean() { "whole" } else { "damaged" }
    );
    Ok(())
}
