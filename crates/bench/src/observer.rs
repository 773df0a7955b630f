//! Watching an experiment while it runs.

use std::path::Path;

/// Follows an experiment, and may stop it.
pub trait Observer {
    /// Announces the work ahead, in bytes. It replaces an earlier announcement.
    fn expect(&mut self, bytes: u64);

    /// Reports that `bytes` more are done. Called often, each time for a few MiB at most.
    ///
    /// Returns whether to go on; if not, the experiment ends with
    /// [`Error::Stopped`](crate::Error::Stopped).
    fn advance(&mut self, bytes: u64) -> bool;

    /// A file or folder could not be read, and the experiment goes on without it.
    fn problem(&mut self, path: &Path, error: &std::io::Error) {
        let _ = (path, error);
    }
}

/// Ignores all reports, and never stops an experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn expect(&mut self, _: u64) {}

    fn advance(&mut self, _: u64) -> bool {
        true
    }
}
