//! `docs/commands.md` and `docs/records.md` do what they say.

use std::process::Command;

use crate::support::{Home, ran};

const DOCUMENT: &str = include_str!("../../../../docs/commands.md");
const RECORDS: &str = include_str!("../../../../docs/records.md");

/// Blocks marked `sh`, in order.
fn blocks(document: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = document.lines();
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
    let blocks = blocks(DOCUMENT);
    assert!(blocks.len() >= 15, "{blocks:?}");
    let printed = run_blocks(&home, &blocks);
    assert!(
        printed.contains("select 1;") && printed.contains("a line more"),
        "{printed}"
    );
}

#[test]
fn the_guide_to_records_runs_as_written() {
    let blocks = blocks(RECORDS);
    assert!(blocks.len() >= 4, "{blocks:?}");
    let printed = run_blocks(&Home::bare(), &blocks);
    // What the guide says that is printed.
    let mut lines = RECORDS.lines();
    let mut shown = 0;
    while lines.by_ref().any(|line| line == "```text") {
        for line in lines.by_ref().take_while(|line| *line != "```") {
            assert!(printed.contains(&format!("{line}\n")), "{line}\nin\n{printed}");
            shown += 1;
        }
    }
    assert!(shown > 5, "{shown}");
}

/// Runs all blocks in one home; returns what was printed.
#[track_caller]
fn run_blocks(home: &Home, blocks: &[String]) -> String {
    // One shell for all: what a block sets, the next ones use. The name of a block comes in front of
    // what goes wrong in it.
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
    ran.out
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
        "records load",
        "records put",
        "records get",
        "records delete",
        "records scan",
        "records versions",
        "records compact",
        "records stats",
        "records verify",
        "chunk",
        "bench chunkers",
        "bench duplicate-locality",
        "bench locality",
        "bench records",
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
