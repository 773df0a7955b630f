//! Measurements, watched as backups are.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use ibid_bench::Observer;
use ibid_repo::Monitor;

use crate::print;

/// Shows how far a measurement is through the counters of a monitor, names what could not be read,
/// and stops when the user asks for it.
pub(crate) struct Observed<'a> {
    monitor: &'a Monitor,
    /// Whether everything could be read.
    pub(crate) is_complete: bool,
    /// What was named: experiments that go over the data several times find it each time.
    named: HashSet<PathBuf>,
}

impl<'a> Observed<'a> {
    pub(crate) fn new(monitor: &'a Monitor) -> Observed<'a> {
        Observed {
            monitor,
            is_complete: true,
            named: HashSet::new(),
        }
    }
}

impl Observer for Observed<'_> {
    fn expect(&mut self, bytes: u64) {
        let counters = &self.monitor.counters;
        counters.bytes.store(0, Relaxed);
        counters.bytes_total.store(bytes, Relaxed);
        counters.totals_final.store(true, Relaxed);
    }

    fn advance(&mut self, bytes: u64) -> bool {
        self.monitor.counters.bytes.fetch_add(bytes, Relaxed);
        !self.monitor.is_cancelled()
    }

    fn problem(&mut self, path: &Path, error: &std::io::Error) {
        self.is_complete = false;
        if self.named.insert(path.to_owned()) {
            print::passed_over(path, error);
        }
    }
}
