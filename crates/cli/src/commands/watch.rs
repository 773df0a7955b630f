//! Watching over an operation: progress, warnings, and the wish to stop.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use ibid_repo::{Error, Monitor, Warning};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::{Failure, Result};
use crate::print::{self, Progress, Unit, Verb};

/// Files that could not be read or restored, and why. All are named on standard error; JSON names
/// so many again.
pub(crate) const PROBLEMS_MAX: usize = 10_000;

pub(crate) struct Watch {
    pub(crate) monitor: Arc<Monitor>,
    problems: Arc<Mutex<Vec<(PathBuf, String)>>>,
    progress: Option<Progress>,
}

impl Watch {
    /// Without progress: for commands that print as they go.
    pub(crate) fn silent(verb: Verb) -> Result<Watch> {
        let problems: Arc<Mutex<Vec<(PathBuf, String)>>> = Arc::default();
        let noted = problems.clone();
        let monitor = Arc::new(Monitor::new(move |warning| {
            let problem = print::warning(verb, &warning);
            if let (Some(problem), Warning::Skipped { path, .. }) = (problem, warning) {
                let mut noted = noted.lock().expect("no holder of this lock panics");
                if noted.len() < PROBLEMS_MAX {
                    noted.push((path, problem));
                }
            }
        }));
        stop_on_signals(&monitor)?;
        Ok(Watch {
            monitor,
            problems,
            progress: None,
        })
    }

    /// With progress, unless it is to be quiet.
    pub(crate) fn start(verb: Verb, quiet: bool) -> Result<Watch> {
        let mut watch = Watch::silent(verb)?;
        watch.progress = Some(Progress::start(&watch.monitor, Unit::Files, quiet));
        Ok(watch)
    }

    /// The same where records are counted instead of files.
    pub(crate) fn start_records(quiet: bool) -> Result<Watch> {
        let mut watch = Watch::silent(Verb::Look)?;
        watch.progress = Some(Progress::start(&watch.monitor, Unit::Records, quiet));
        Ok(watch)
    }

    /// Shows progress anew: other work begins, which counts records.
    pub(crate) fn go_on_records(&mut self, quiet: bool) {
        self.progress = None;
        for counter in [&self.monitor.counters.bytes, &self.monitor.counters.files] {
            counter.store(0, Relaxed);
        }
        self.monitor.counters.totals_final.store(false, Relaxed);
        self.progress = Some(Progress::start(&self.monitor, Unit::Records, quiet));
    }

    /// Takes progress off the screen; returns the files that could not be read or restored.
    pub(crate) fn finish(self) -> Vec<(PathBuf, String)> {
        drop(self.progress);
        std::mem::take(&mut *self.problems.lock().expect("no holder of this lock panics"))
    }
}

/// The signals that are ignored, one bit each, from what the kernel says of a process.
fn ignored(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// The first signal asks the operation to stop, the second ends the program.
fn stop_on_signals(monitor: &Arc<Monitor>) -> Result<()> {
    let ignored = std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| ignored(&status));
    // `nohup` and shells that start something in the background have signals ignored for good reason.
    // Where that can't be told, nobody takes the one of `nohup`: it ends the program or does
    // nothing, as it should.
    let is_taken = |signal: &i32| ignored.map_or(*signal != SIGHUP, |ignored| ignored >> (signal - 1) & 1 == 0);
    let signals: Vec<i32> = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(is_taken).collect();
    let failed = |error| Failure::Fatal(format!("cannot listen to signals: {error}"));
    let asked = Arc::new(AtomicBool::new(false));
    for &signal in &signals {
        // In this order: the first registered acts first, and finds the flag as the signal before left it.
        signal_hook::flag::register_conditional_shutdown(signal, 130, asked.clone()).map_err(failed)?;
        signal_hook::flag::register(signal, asked.clone()).map_err(failed)?;
    }
    let mut signals = signal_hook::iterator::Signals::new(signals).map_err(failed)?;
    let monitor = monitor.clone();
    let listen = move || {
        for _ in signals.forever() {
            monitor.cancel();
            Progress::stopping();
        }
    };
    let started = std::thread::Builder::new().spawn(listen);
    started.map(drop).map_err(|source| Error::Threads { source }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_kernel() {
        assert_eq!(
            ignored("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"),
            Some(0x1001)
        );
        assert_eq!(ignored("Name:\tx\n"), None);
    }
}
