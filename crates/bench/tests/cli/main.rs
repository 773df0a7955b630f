//! The program as users and scripts run it.

#[path = "../../../cli/tests/cli/blocks.rs"]
mod blocks;
mod chunking;
mod documents;
mod json;
mod locality;
mod output;
mod records;
#[allow(dead_code, reason = "shared with the tests of the program ibid")]
#[path = "../../../cli/tests/cli/support.rs"]
mod support;
#[path = "../../../cli/tests/cli/tables.rs"]
mod tables;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ibid-bench");
