//! `docs/commands.md` does what it says.

use crate::support::{Home, ran};
use std::process::Command;

const DOCUMENT: &str = include_str!("../../../../docs/commands.md");

/// Blocks marked `sh`, in order.
fn blocks() -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = DOCUMENT.lines();
    while lines.by_ref().any(|line| line == "```sh") {
        blocks.push(
            lines
                .by_ref()
                .take_while(|line| *line != "```")
                .fold(String::new(), |block, line| block + line + "\n"),
        );
    }
    blocks
}

#[test]
fn every_block_runs_as_written() {
    let home = Home::bare();
    home.write("letters/anna.txt", "dear Anna\n");
    home.write("letters/drafts/ben.txt", "dear Ben\n");
    let blocks = blocks();
    assert!(blocks.len() >= 15, "{blocks:?}");
    // One shell for all: what a block sets, the next ones use. The name of a block comes in front of what goes wrong in it.
    let mut script = String::from("set -eu\n");
    for (n, block) in blocks.iter().enumerate() {
        script += &format!("echo \"block {n}\" >&2\n{block}");
    }
    let programs = std::path::Path::new(env!("CARGO_BIN_EXE_ibid")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &script])
        .current_dir(home.path(""))
        .env_clear()
        .env("HOME", home.path(""))
        .env("PATH", path);
    let ran = ran(shell.output().unwrap());
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    assert!(
        ran.out.contains("select 1;") && ran.out.contains("a line more"),
        "{}",
        ran.out
    );
}

#[test]
fn every_command_has_its_section() {
    for command in [
        "init",
        "backup",
        "snapshots",
        "ls",
        "find",
        "restore",
        "dump",
        "diff",
        "stats",
        "check",
        "key",
        "chunk",
        "bench chunkers",
        "bench duplicate-locality",
        "bench locality",
        "bench breakdown",
        "bench hashes",
        "bench cpu",
        "tune seqcdc",
        "generate versions",
        "completions",
        "man",
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
            // One row for all that hash a window: most are called by their parts.
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
