//! `ibid`: encrypted, deduplicated, verifiable snapshots of your files.
//!
//! | question | module |
//! |---|---|
//! | What does the command line say? | [`args`] |
//! | What does the config file say? | [`profile`] |
//! | What does each command do? | [`commands`] |
//! | What could the user type next? | [`complete`] |
//! | What does the user see? | [`mod@print`], and no other module prints |
//! | What went wrong, what can you do, and which exit code is that? | [`failure`] |
//! | What happens where there is no memory? | [`allocator`], which has the only `unsafe` beside `heaps` |
//! | What happens to memory that is freed? | [`heaps`] |

mod allocator;
mod args;
mod commands;
mod complete;
mod failure;
mod heaps;
mod print;
mod profile;

// Tests of the whole workspace have the simulations' feature; what users run never does.
const _: () = assert!(
    cfg!(debug_assertions) || !ibid_repo::CAN_BE_SIMULATED,
    "build the program without ibid-sim: it would have the feature `simulation` of ibid-repo"
);

fn main() -> std::process::ExitCode {
    heaps::set_up();
    allocator::end_where_others_lack_memory();
    allocator::report_as_asked(std::env::args_os());
    complete::answer_shell();
    commands::run(std::env::args_os())
}
