//! The commands in `docs/measuring.md` run as written.

use crate::blocks::{blocks, run_blocks};
use crate::support::Home;

const DOCUMENT: &str = include_str!("../../../../docs/measuring.md");

#[test]
fn every_block_runs_as_written() {
    let home = Home::bare();
    home.write("letters/anna.txt", "dear Anna\n");
    home.write("letters/drafts/ben.txt", "dear Ben\n");
    let pages = |n: u32| format!("{{\"page\": \"a\", \"revision\": {n}, \"text\": \"the {n}th revision\"}}\n");
    home.write("revisions.jsonl", (0..40).map(pages).collect::<String>());
    let blocks = blocks(DOCUMENT);
    assert!(blocks.len() >= 10, "{blocks:?}");
    let printed = run_blocks(&home, &blocks);
    assert!(printed.contains("BASE ") && printed.contains("savings"), "{printed}");
}

#[test]
fn every_command_has_its_section() {
    for command in [
        "chunk",
        "chunkers",
        "duplicate-locality",
        "locality",
        "records",
        "breakdown",
        "hashes",
        "cpu",
        "tune seqcdc",
        "generate versions",
        "repositories",
        "chunk-sizes",
        "random-read",
        "index",
        "similarity",
        "soak",
        "aging",
        "databases",
        "table",
        "charts",
    ] {
        assert!(DOCUMENT.contains(&format!("\n## {command}\n")), "{command}");
    }
}

#[test]
fn every_chunker_and_each_of_its_parameters_is_explained() {
    for name in ibid_chunk::NAMES {
        let settings = ibid_chunk::Settings::for_average(name, 64 << 10).unwrap();
        let row = DOCUMENT.lines().find(|line| {
            let named = line.strip_prefix("| ").and_then(|line| line.split('|').next());
            // One row covers all chunkers that hash a window: most are named METHOD/HASH.
            let of = if name.contains('/') { "METHOD/HASH" } else { name };
            named.is_some_and(|named| named.contains(&format!("`{of}`")))
        });
        let row = row.unwrap_or_else(|| panic!("no row of {name}"));
        for parameter in settings.parameters() {
            let words = [&[parameter.name], parameter.choices].concat();
            for word in words {
                assert!(row.contains(&format!("`{word}`")), "{name} without {word}");
            }
        }
    }
}
