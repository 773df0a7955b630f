//! Measurements, watched as backups are.

use ibid_measure::Observer;
use ibid_repo::Monitor;
use std::sync::atomic::Ordering::Relaxed;

/// Shows how far a measurement is through the counters of a monitor, and stops it when the user asks for it.
pub(crate) struct Observed<'a>(pub(crate) &'a Monitor);

impl Observer for Observed<'_> {
    fn expect(&mut self, bytes: u64) {
        let counters = &self.0.counters;
        counters.bytes.store(0, Relaxed);
        counters.bytes_total.store(bytes, Relaxed);
        counters.totals_final.store(true, Relaxed);
    }

    fn advance(&mut self, bytes: u64) -> bool {
        self.0.counters.bytes.fetch_add(bytes, Relaxed);
        !self.0.is_cancelled()
    }
}
