//! Watching over an operation: progress, warnings, and the wish to stop.

use crate::failure::{Failure, Result};
use crate::print::{self, Progress, Verb};
use ibid_repo::{Monitor, Warning};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// Files that could not be read or restored, and why. All are named on standard error; JSON names so many again.
const PROBLEMS_MAX: usize = 10_000;

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
        stop_on_signals(&monitor).map_err(|error| Failure::Fatal(format!("cannot listen to signals: {error}")))?;
        Ok(Watch {
            monitor,
            problems,
            progress: None,
        })
    }

    /// With progress, unless it is to be quiet.
    pub(crate) fn start(verb: Verb, quiet: bool) -> Result<Watch> {
        let mut watch = Watch::silent(verb)?;
        watch.progress = Some(Progress::start(&watch.monitor, quiet));
        Ok(watch)
    }

    /// Takes progress off the screen; returns the files that could not be read or restored.
    pub(crate) fn finish(self) -> Vec<(PathBuf, String)> {
        drop(self.progress);
        std::mem::take(&mut *self.problems.lock().expect("no holder of this lock panics"))
    }
}

/// The first signal asks the operation to stop, the second ends the program.
fn stop_on_signals(monitor: &Arc<Monitor>) -> std::io::Result<()> {
    const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
    let asked = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS {
        // In this order: the first registered acts first, and finds the flag as the signal before left it.
        signal_hook::flag::register_conditional_shutdown(signal, 130, asked.clone())?;
        signal_hook::flag::register(signal, asked.clone())?;
    }
    let mut signals = signal_hook::iterator::Signals::new(SIGNALS)?;
    let monitor = monitor.clone();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            monitor.cancel();
            Progress::stopping();
        }
    });
    Ok(())
}
