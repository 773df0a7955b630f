//! Prints the fields of a repository's files that need no key.
//!
//! `cargo run -p ibid-format --example header FILE...`
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;
use std::path::Path;

use ibid_format::slot::Slot;
use ibid_format::{FileId, FileKind, config};

const KINDS: [FileKind; 6] = [
    FileKind::Config,
    FileKind::Key,
    FileKind::Pack,
    FileKind::Index,
    FileKind::Snapshot,
    FileKind::Sketches,
];

fn describe(path: &Path) -> Result<String, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let Some(kind) = KINDS.into_iter().find(|kind| kind.check(&bytes).is_ok()) else {
        return Ok("no file of a repository of this version".into());
    };
    Ok(match kind {
        FileKind::Config => {
            let header = config::header(&bytes)?;
            let encrypted = if header.encrypted { "encrypted" } else { "not encrypted" };
            format!("{kind} of repository {}, {encrypted}", header.repository)
        }
        FileKind::Key => {
            let slot = Slot::parse(FileId::ZERO, &bytes)?;
            let memory = slot.cost().memory_kib >> 10;
            format!(
                "{kind} of repository {}; the password takes {memory} MiB",
                slot.repository()
            )
        }
        _ => format!("{kind}, {} bytes, sealed", bytes.len()),
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args_os().skip(1) {
        let path = Path::new(&path);
        println!("{}: {}", path.display(), describe(path)?);
    }
    Ok(())
}
