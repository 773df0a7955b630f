//! Progress reports, one line a second.

use std::time::{Duration, Instant};

pub(crate) struct Report {
    last: Instant,
}

impl Report {
    pub(crate) fn new() -> Report {
        Report { last: Instant::now() }
    }

    /// Prints the line unless one was printed less than a second ago.
    pub(crate) fn line(&mut self, line: impl FnOnce() -> String) {
        if self.last.elapsed() >= Duration::from_secs(1) {
            println!("{}", line());
            self.last = Instant::now();
        }
    }
}
