//! `docs/commands.md` and `docs/records.md` do what they say.

use crate::blocks::{blocks, run_blocks};
use crate::support::Home;

const DOCUMENT: &str = include_str!("../../../../docs/commands.md");
const RECORDS: &str = include_str!("../../../../docs/records.md");

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
        "completions",
        "man",
    ] {
        assert!(DOCUMENT.contains(&format!("\n## {command}\n")), "{command}");
    }
}
