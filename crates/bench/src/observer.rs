//! Watching an experiment while it runs.

use std::path::Path;

/// Is told how far an experiment is, and may stop it.
pub trait Observer {
    /// So much work is ahead in all, in bytes; what was announced before no longer counts.
    fn expect(&mut self, bytes: u64);

    /// So many bytes more are done. Called often, for a few MiB at most each time.
    ///
    /// Returns whether to go on; if not, the experiment ends with
    /// [`Error::Stopped`](crate::Error::Stopped).
    fn advance(&mut self, bytes: u64) -> bool;

    /// A file or folder could not be read, and the experiment goes on without it.
    fn problem(&mut self, path: &Path, error: &std::io::Error) {
        let _ = (path, error);
    }
}

/// Watches nothing, and never stops an experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn expect(&mut self, _: u64) {}

    fn advance(&mut self, _: u64) -> bool {
        true
    }
}
