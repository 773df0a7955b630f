//! The observer of the program: progress, files that can't be read, Ctrl-C.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use ibid_bench::Observer;
use ibid_terminal::{Progress, State, Unit, message, on_stop_signal, path_text};

use crate::failure::{Failure, Outcome, Result};

/// The number of bytes is unknown.
const UNKNOWN: u64 = u64::MAX;

/// Shows the progress of an experiment, names files that can't be read, and stops when the user
/// asks.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    progress: Option<Progress>,
    outcome: Outcome,
    /// Files that were reported already: experiments with several passes meet them each time.
    named: HashSet<PathBuf>,
}

struct Shared {
    bytes: AtomicU64,
    bytes_total: AtomicU64,
    is_stopped: AtomicBool,
}

impl Shared {
    fn advance(&self, bytes: u64) -> bool {
        self.bytes.fetch_add(bytes, Relaxed);
        !self.is_stopped.load(Relaxed)
    }

    fn expect(&self, bytes: u64) {
        self.bytes.store(0, Relaxed);
        self.bytes_total.store(bytes, Relaxed);
    }

    fn state(&self) -> State {
        let total = self.bytes_total.load(Relaxed);
        State {
            bytes: self.bytes.load(Relaxed),
            bytes_total: (total != UNKNOWN).then_some(total),
            ..State::default()
        }
    }
}

impl Watch {
    /// Listens to signals and, unless `quiet`, shows progress.
    pub(crate) fn start(unit: Unit, quiet: bool) -> Result<Watch> {
        let shared = Arc::new(Shared {
            bytes: AtomicU64::new(0),
            bytes_total: AtomicU64::new(UNKNOWN),
            is_stopped: AtomicBool::new(false),
        });
        let stopped = shared.clone();
        on_stop_signal(move || stopped.is_stopped.store(true, Relaxed))
            .map_err(|error| Failure::Fatal(format!("cannot listen to signals: {error}")))?;
        let shown = shared.clone();
        Ok(Watch {
            shared,
            progress: (!quiet).then(|| Progress::start(unit, move || shown.state())),
            outcome: Outcome::Done,
            named: HashSet::new(),
        })
    }

    /// Returns a function that counts bytes, and returns whether to continue.
    pub(crate) fn counter(&self) -> impl FnMut(u64) -> bool + use<> {
        let shared = self.shared.clone();
        move |bytes| shared.advance(bytes)
    }

    /// Adds the bytes of a file to the total.
    pub(crate) fn expect_more(&self, bytes: u64) {
        self.shared.bytes_total.store(bytes, Relaxed);
    }

    /// Returns whether the user asked to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.shared.is_stopped.load(Relaxed)
    }

    /// Removes the progress from the screen.
    pub(crate) fn finish(self) -> Outcome {
        drop(self.progress);
        self.outcome
    }
}

impl Observer for Watch {
    fn expect(&mut self, bytes: u64) {
        self.shared.expect(bytes);
    }

    fn advance(&mut self, bytes: u64) -> bool {
        self.shared.advance(bytes)
    }

    fn problem(&mut self, path: &Path, error: &std::io::Error) {
        self.outcome = Outcome::Partial;
        if self.named.insert(path.to_owned()) {
            message(&format!("passed over: {}: {error}", path_text(path)));
        }
    }
}
