//! The commands, one file each.

mod backup;
mod cache;
mod check;
mod copy;
mod costs;
mod descendants;
mod diff;
mod dump;
mod find;
mod forget;
mod generate;
mod init;
mod key;
mod lists;
mod ls;
mod open;
mod password;
mod place;
mod producer;
mod prune;
mod records;
mod repair;
mod restore;
mod rewrite;
mod run;
mod serve;
mod sessions;
mod silence;
mod snapshots;
mod stats;
mod storage;
mod tag;
mod thaw;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) use costs::{Estimated, OfServer, ThawCost};
use open::Context;
pub(crate) use password::from_file as password_from_file;
pub(crate) use place::{Servers, of_another_program};

use crate::args::{self, Cli, Command};
use crate::failure::{Failure, Outcome, Result};
use crate::print;
use crate::profile;
use crate::{allocator, heaps};

/// The name and version of this program, as snapshots record it.
pub(crate) const PROGRAM: &str = concat!("ibid ", env!("CARGO_PKG_VERSION"));

/// Runs the command line, and returns the exit code.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let wants_json = arguments.iter().any(|word| word == "--json");
    let arguments = match profile::expand(arguments) {
        Ok(arguments) => arguments,
        Err(failure) => {
            print::fatal(&failure, wants_json, false);
            return ExitCode::from(failure.exit_code());
        }
    };
    let cli = match args::parse(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            print::usage(&error);
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    raise_open_files();
    let (json, of_writer) = (cli.global.json, cli.global.writer.is_some());
    heaps::keep_to(cli.global.memory);
    allocator::report_with(cli.global.memory, json);
    match execute(cli) {
        Ok(outcome) => ExitCode::from(outcome.exit_code()),
        // The reader closed the pipe: it has read enough.
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            print::fatal(&failure, json, of_writer);
            ExitCode::from(failure.exit_code())
        }
    }
}

fn execute(cli: Cli) -> Result<Outcome> {
    let mut context = Context::new(cli.global);
    context.as_of = cli.command.as_of();
    let tells_requests = has_summary(&cli.command) && !context.global.json && !context.global.quiet;
    let outcome = dispatch(&mut context, cli.command)?;
    context.out.finish()?;
    if let Some(requests) = context.servers.requests().filter(|_| tells_requests) {
        print::requests(&requests);
    }
    Ok(outcome)
}

/// Returns whether a command ends by telling what it did.
fn has_summary(command: &Command) -> bool {
    matches!(
        command,
        Command::Init(_)
            | Command::Backup(_)
            | Command::Restore(_)
            | Command::Stats(_)
            | Command::Copy(_)
            | Command::Rewrite(_)
            | Command::Forget(_)
            | Command::Prune(_)
            | Command::Check(_)
            | Command::Repair(_)
            | Command::Storage(_)
    )
}

fn dispatch(context: &mut Context, command: Command) -> Result<Outcome> {
    match command {
        Command::Init(args) => init::run(context, &args),
        Command::Backup(args) => backup::run(context, *args),
        Command::Snapshots(args) => snapshots::run(context, &args),
        Command::Ls(args) => ls::run(context, &args),
        Command::Find(args) => find::run(context, &args),
        Command::Restore(args) => restore::run(context, args),
        Command::Dump(args) => dump::run(context, &args),
        Command::Diff(args) => diff::run(context, &args),
        Command::Stats(args) => stats::run(context, &args),
        Command::Copy(args) => copy::run(context, &args),
        Command::Tag(command) => tag::run(context, &command),
        Command::Rewrite(args) => rewrite::run(context, &args),
        Command::Forget(args) => forget::run(context, &args),
        Command::Prune(args) => prune::run(context, &args),
        Command::Run(args) => run::run(context, &args),
        Command::Sessions(_) => sessions::run(context),
        Command::Check(args) => check::run(context, &args),
        Command::Repair(args) => repair::run(context, &args),
        Command::Storage(command) => storage::run(context, &command),
        Command::Serve(args) => serve::run(context, &args),
        Command::Cache(command) => cache::run(context, &command),
        Command::Key(command) => key::run(context, &command),
        Command::Records(command) => records::run(context, &command),
        Command::Completions(args) => generate::completions(context, &args),
        Command::Man(args) => generate::man(context, &args),
    }
}

/// Refuses --json for a command that has no JSON output.
fn no_json(context: &Context, command: &str) -> Result<()> {
    match context.global.json {
        false => Ok(()),
        true => Err(Failure::Usage(format!(
            "`ibid {command}` has no JSON. Leave out --json"
        ))),
    }
}

/// Raises the limit of open files, because a backup keeps many open. It also works with fewer.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit.maximum,
                maximum: limit.maximum,
            },
        );
    }
}
