//! `ibid`: encrypted, deduplicated, verifiable snapshots of your files.
//!
//! | question | module |
//! |---|---|
//! | What was typed? | [`args`] |
//! | What is to be done about it? | [`commands`] |
//! | What does the user get to see? | [`mod@print`], and nobody else |
//! | What went wrong, and which exit code is that? | [`failure`] |
#![forbid(unsafe_code)]

mod args;
mod commands;
mod failure;
mod print;

fn main() -> std::process::ExitCode {
    commands::run(std::env::args_os())
}
