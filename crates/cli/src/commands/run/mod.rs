//! `ibid run`: the steps of a profile, one after the other.

mod state;
mod systemd;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use ibid_terminal::{on_stop_signal, reason};
use state::{Lock, State};

use super::open::Context;
use crate::args::{self, Command, RunArgs};
use crate::failure::{Failure, Outcome, Result};
use crate::print::Out;
use crate::print::run::{self as print, Ended, Step};
use crate::profile::{self, COMMANDS, Config, Profile};

/// Exit codes after which no other step can do better: wrong password, no repository, interrupted.
const HOPELESS: [u8; 3] = [5, 10, 130];

pub(crate) fn run(context: &mut Context, args: &RunArgs) -> Result<Outcome> {
    if context.global.profile.is_some() {
        return Err(Failure::Usage(
            "`ibid run` takes its profiles without --profile: ibid run home".into(),
        ));
    }
    let config = Config::read(context.global.config.as_deref())?;
    if args.list {
        print::list(&mut context.out, &config)?;
        return Ok(Outcome::Done);
    }
    let named: Vec<(&str, &Profile)> = args
        .profiles
        .iter()
        .map(|name| Ok((name.as_str(), config.profile(name)?)))
        .collect::<Result<_>>()?;
    if args.print_systemd {
        let [(name, profile)] = named.as_slice() else {
            return Err(Failure::Usage("--print-systemd takes one profile".into()));
        };
        super::no_json(context, "run --print-systemd")?;
        let units = systemd::units(&config, name, profile, &args.on_calendar)?;
        context.out.bytes(units.as_bytes())?;
        return Ok(Outcome::Done);
    }
    if let Some((name, _)) = named.iter().find(|(_, profile)| profile.tables.is_empty()) {
        return Err(Failure::Usage(format!(
            "profile {name:?} has nothing to run: add a table such as [profile.{name}.backup]"
        )));
    }
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = stopped.clone();
    on_stop_signal(move || stop.store(true, Relaxed))
        .map_err(|error| Failure::Fatal(format!("cannot listen for signals: {}", reason(&error))))?;
    let mut runner = Runner {
        context,
        config: &config,
        stopped,
        codes: Vec::new(),
    };
    print::begin(&mut runner.context.out)?;
    for (name, profile) in named {
        runner.profile(name, profile)?;
    }
    print::end(&mut runner.context.out)?;
    Ok(outcome(&runner.codes))
}

/// Returns the outcome of steps that ended with these codes: that of the first failure.
fn outcome(codes: &[u8]) -> Outcome {
    match codes.iter().find(|code| ![0, 3].contains(*code)) {
        Some(code) => Outcome::Failed(*code),
        None if codes.contains(&3) => Outcome::Partial,
        None => Outcome::Done,
    }
}

/// Returns whether a step can still be of use after these codes of the steps before it.
fn is_worth_it(command: &str, before: &[(&str, u8)]) -> bool {
    let failed = |code: u8| ![0, 3].contains(&code);
    let backup_failed = before.iter().any(|(step, code)| *step == "backup" && failed(*code));
    let is_hopeless = before.iter().any(|(_, code)| HOPELESS.contains(code));
    let needs_backup = matches!(command, "forget" | "prune");
    !is_hopeless && (!needs_backup || !backup_failed)
}

struct Runner<'c> {
    context: &'c mut Context,
    config: &'c Config,
    stopped: Arc<AtomicBool>,
    /// Exit codes of the steps so far.
    codes: Vec<u8>,
}

impl Runner<'_> {
    /// Runs one profile.
    ///
    /// # Errors
    /// Standard output is closed. Anything else is reported as a step.
    fn profile(&mut self, name: &str, profile: &Profile) -> Result<()> {
        let locked = State::folder().and_then(|folder| Lock::take(&folder, &self.config.path, name));
        let lock = match locked {
            Ok(Some(lock)) => lock,
            Ok(None) => return self.report(name, "run", Ended::Busy),
            Err(failure) => return self.failed(name, "run", failure, Vec::new()),
        };
        let mut state = State::read(&lock);
        let mut before = Vec::new();
        for command in COMMANDS {
            let Some(table) = profile.tables.get(command) else {
                continue;
            };
            if self.stopped.load(Relaxed) && !self.codes.contains(&130) {
                let left = Failure::Interrupted("the remaining steps were not run".into());
                self.failed(name, command, left, Vec::new())?;
            }
            if self.codes.contains(&130) {
                break;
            }
            let now = SystemTime::now();
            if !is_worth_it(command, &before) {
                self.report(name, command, Ended::NotRun)?;
                continue;
            }
            if let Some(due) = table.every.and_then(|every| state.not_before(command, every, now)) {
                self.report(name, command, Ended::NotDue(due))?;
                continue;
            }
            self.step(name, command)?;
            let code = self.codes.last().copied().unwrap_or_default();
            before.push((command, code));
            if code == 0 && table.every.is_some() {
                state.succeeded(command, now);
                if let Err(failure) = state.write(&lock) {
                    self.failed(name, command, failure, Vec::new())?;
                }
            }
        }
        Ok(())
    }

    /// Runs one step, and reports how it ended.
    fn step(&mut self, name: &str, command: &'static str) -> Result<()> {
        let full = self.context.out.is_terminal() && !self.context.global.json && !self.context.global.quiet;
        if full {
            print::title(&mut self.context.out, name, command)?;
        }
        let (result, caught) = self.dispatch(name, command, full);
        match result {
            Ok(outcome) => {
                self.codes.push(outcome.exit_code());
                match full {
                    true => Ok(()),
                    false => self.print(name, command, Ended::Ran(outcome), caught),
                }
            }
            Err(failure) if failure.is_closed_pipe() => Err(failure),
            Err(failure) => self.failed(name, command, failure, caught),
        }
    }

    /// Runs a command as if it had been typed. Unless it may print in `full`, returns its JSON.
    fn dispatch(&self, name: &str, command: &str, full: bool) -> (Result<Outcome>, Vec<serde_json::Value>) {
        let mut words: Vec<OsString> = vec!["ibid".into()];
        let typed: Vec<OsString> = std::env::args_os().collect();
        words.extend(profile::globals_given(&typed));
        words.extend(["--profile".into(), name.into(), command.into()]);
        let parsed = profile::expand(words)
            .and_then(|words| args::parse(words).map_err(|error| Failure::Usage(profile::one_line(&error))));
        let mut cli = match parsed {
            Ok(cli) => cli,
            Err(failure) => return (Err(failure), Vec::new()),
        };
        cli.global.json = !full;
        cli.global.quiet = self.context.global.quiet;
        if let Command::Forget(args) = &mut cli.command {
            args.by_profile = true;
        }
        let mut context = Context::new(cli.global);
        context.out = if full { Out::new(false, false) } else { Out::catching() };
        context.out.servers = context.servers.clone();
        let result = super::dispatch(&mut context, cli.command);
        let result = result.and_then(|outcome| {
            context.out.finish()?;
            Ok(outcome)
        });
        (result, context.out.caught())
    }

    fn failed(&mut self, name: &str, command: &str, failure: Failure, caught: Vec<serde_json::Value>) -> Result<()> {
        self.codes.push(failure.exit_code());
        self.print(name, command, Ended::Failed(failure), caught)
    }

    fn report(&mut self, name: &str, command: &str, ended: Ended) -> Result<()> {
        self.print(name, command, ended, Vec::new())
    }

    fn print(&mut self, profile: &str, command: &str, ended: Ended, caught: Vec<serde_json::Value>) -> Result<()> {
        let step = Step {
            profile,
            command,
            ended,
            document: caught.into_iter().next(),
        };
        print::step(&mut self.context.out, step)?;
        Ok(self.context.out.finish()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_that_of_the_first_failure() {
        assert_eq!(outcome(&[]), Outcome::Done);
        assert_eq!(outcome(&[0, 3, 0]), Outcome::Partial);
        assert_eq!(outcome(&[3, 4, 1]), Outcome::Failed(4));
    }

    #[test]
    fn steps_that_need_another_one_do_not_run_without_it() {
        for command in ["forget", "prune", "check"] {
            assert!(is_worth_it(command, &[("backup", 0)]) && is_worth_it(command, &[("backup", 3)]));
            assert!(!is_worth_it(command, &[("backup", 10)]) && !is_worth_it(command, &[("backup", 130)]));
            assert_eq!(is_worth_it(command, &[("backup", 1)]), command == "check");
        }
        assert!(is_worth_it("prune", &[("backup", 0), ("forget", 2)]));
    }
}
