//! Command blocks of documentation pages, run as written.

use std::process::Command;

use crate::support::{Home, ran};

/// Returns the blocks marked `sh`, in order.
pub(crate) fn blocks(document: &str) -> Vec<String> {
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

/// Runs all blocks in one home; returns their output.
#[track_caller]
pub(crate) fn run_blocks(home: &Home, blocks: &[String]) -> String {
    // Run all blocks in one shell, because later blocks use variables set in earlier ones. The name
    // of a block precedes its errors.
    let mut script = String::from("set -eu\n");
    for (n, block) in blocks.iter().enumerate() {
        script += &format!("echo \"block {n}\" >&2\n{block}");
    }
    let programs = std::path::Path::new(crate::PROGRAM).parent().unwrap();
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
