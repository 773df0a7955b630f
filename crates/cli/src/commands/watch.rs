//! Watches an operation: shows progress and warnings, and stops it on signals.

use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use ibid_repo::{Error, Monitor, Warning};
use ibid_terminal::{Progress, State, Unit, on_stop_signal, path_text, reason};

use super::costs::Meter;
use crate::failure::{Failure, Result, advice};
use crate::print::{self, Verb};

/// Maximum number of unreadable or unrestored files in JSON. Standard error names all of them.
pub(crate) const PROBLEMS_MAX: usize = 10_000;

/// Lost chunks that are named. A pack with listings of folders that is lost has one for each folder.
const LOST_NAMED_MAX: u64 = 3;

pub(crate) struct Watch {
    pub(crate) monitor: Arc<Monitor>,
    verb: Verb,
    problems: Arc<Mutex<Vec<(PathBuf, String)>>>,
    /// Whether permission to read or write one of them was denied.
    denied: Arc<AtomicBool>,
    /// Chunks that were met and that are missing or damaged.
    lost: Arc<AtomicU64>,
    /// Whether records that are stored are being encoded.
    encoding: Arc<AtomicBool>,
    progress: Option<Progress>,
}

impl Watch {
    /// Starts without progress, for commands that print as they go.
    pub(crate) fn silent(verb: Verb) -> Result<Watch> {
        Watch::metered(verb, None)
    }

    /// Starts without progress. Stops the operation once it has cost too much.
    fn metered(verb: Verb, meter: Option<Meter>) -> Result<Watch> {
        let problems: Arc<Mutex<Vec<(PathBuf, String)>>> = Arc::default();
        let denied: Arc<AtomicBool> = Arc::default();
        let lost: Arc<AtomicU64> = Arc::default();
        let (noted, was_denied, lost_before) = (problems.clone(), denied.clone(), lost.clone());
        let monitor = Monitor::new(move |warning| {
            if is_of_chunk(&warning) && lost_before.fetch_add(1, Relaxed) >= LOST_NAMED_MAX {
                return;
            }
            let problem = print::warning(verb, &warning);
            if let (Some(problem), Warning::Skipped { path, error }) = (problem, warning) {
                was_denied.fetch_or(advice::is_denied(&error), Relaxed);
                let mut noted = noted.lock().expect("no holder of this lock panics");
                if noted.len() < PROBLEMS_MAX {
                    noted.push((path, problem));
                }
            }
        });
        let monitor = Arc::new(match meter {
            Some(meter) => monitor.stopping_when(move || meter.is_over()),
            None => monitor,
        });
        let stopped = monitor.clone();
        on_stop_signal(move || stopped.cancel()).map_err(|error| {
            let (reason, advice) = (reason(&error), advice::allow_more());
            Failure::Fatal(format!("cannot listen for signals: {reason}. {advice}"))
        })?;
        Ok(Watch {
            monitor,
            verb,
            problems,
            denied,
            lost,
            encoding: Arc::default(),
            progress: None,
        })
    }

    /// Starts with progress, unless `quiet`.
    pub(crate) fn start(verb: Verb, quiet: bool) -> Result<Watch> {
        Watch::start_metered(verb, quiet, &None)
    }

    /// Starts with progress, unless `quiet`. Stops the operation once it has cost too much.
    pub(crate) fn start_metered(verb: Verb, quiet: bool, meter: &Option<Meter>) -> Result<Watch> {
        let mut watch = Watch::metered(verb, meter.clone())?;
        watch.show(Unit::Files, quiet);
        Ok(watch)
    }

    /// Starts with progress that counts records instead of files.
    pub(crate) fn start_records(quiet: bool) -> Result<Watch> {
        let mut watch = Watch::silent(Verb::Look)?;
        watch.show(Unit::Records, quiet);
        Ok(watch)
    }

    /// Starts the progress of the next step, which counts records.
    pub(crate) fn go_on_records(&mut self, quiet: bool) {
        self.begin_anew();
        self.monitor.counters.files.store(0, Relaxed);
        self.encoding.store(false, Relaxed);
        self.show(Unit::Records, quiet);
    }

    /// Starts the progress of encoding the records that were counted, of so many bytes at least.
    pub(crate) fn go_on_encoding(&mut self, bytes: u64, quiet: bool) {
        self.begin_anew();
        self.expect(Some(bytes).filter(|&bytes| bytes > 0));
        self.encoding.store(true, Relaxed);
        self.show(Unit::Records, quiet);
    }

    fn begin_anew(&mut self) {
        self.progress = None;
        self.monitor.counters.bytes.store(0, Relaxed);
        self.monitor.counters.totals_final.store(false, Relaxed);
    }

    fn show(&mut self, unit: Unit, quiet: bool) {
        let (monitor, encoding) = (self.monitor.clone(), self.encoding.clone());
        self.progress = (!quiet).then(|| Progress::start(unit, move || state(&monitor, encoding.load(Relaxed))));
    }

    /// Returns a callback that counts bytes read, and returns whether to continue.
    pub(crate) fn advance(&self) -> impl FnMut(u64) -> bool + use<> {
        let monitor = self.monitor.clone();
        move |bytes| {
            monitor.counters.bytes.fetch_add(bytes, Relaxed);
            !monitor.is_cancelled()
        }
    }

    /// Sets the total number of bytes to read, if known.
    pub(crate) fn expect(&self, bytes: Option<u64>) {
        if let Some(bytes) = bytes {
            self.monitor.counters.bytes_total.store(bytes, Relaxed);
            self.monitor.counters.totals_final.store(true, Relaxed);
        }
    }

    /// Clears the progress line. Returns the files that could not be read or restored.
    pub(crate) fn finish(self) -> Vec<(PathBuf, String)> {
        drop(self.progress);
        if let Some(more @ 1..) = self.lost.load(Relaxed).checked_sub(LOST_NAMED_MAX) {
            print::more_lost(more);
        }
        if self.denied.load(Relaxed) {
            print::denied(self.verb);
        }
        std::mem::take(&mut *self.problems.lock().expect("no holder of this lock panics"))
    }
}

/// Returns whether a warning is of a single chunk that can't be read.
fn is_of_chunk(warning: &Warning) -> bool {
    let Warning::Repository { error } = warning else {
        return false;
    };
    matches!(
        error,
        Error::ChunkMissing { .. } | Error::ChunkDamaged { .. } | Error::ChunkFreed { .. }
    )
}

fn state(monitor: &Monitor, is_encoding: bool) -> State {
    let counters = &monitor.counters;
    let bytes_total = counters
        .totals_final
        .load(Relaxed)
        .then(|| counters.bytes_total.load(Relaxed));
    State {
        bytes: counters.bytes.load(Relaxed),
        bytes_skipped: counters.skipped.load(Relaxed),
        bytes_total,
        count: counters.files.load(Relaxed),
        name: monitor.path().map(|path| path_text(&path)),
        step: match counters.verifying.load(Relaxed) {
            true => Some("verifying"),
            false => is_encoding.then_some("encoding"),
        },
    }
}
