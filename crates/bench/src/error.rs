//! Why an experiment gave no result.

use std::path::{Path, PathBuf};

use ibid_chunk::SettingsError;

/// What every experiment returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an experiment gave no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Settings of a chunker that can't be.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A file or folder.
    #[error("cannot {action} {path:?}")]
    File {
        /// What was to be done with it.
        action: &'static str,
        /// Which.
        path: PathBuf,
        /// Why that failed.
        source: std::io::Error,
    },
    /// A number outside its limits.
    #[error("{what}: expected {expected}, found {found}")]
    OutOfRange {
        /// Which number, in words.
        what: &'static str,
        /// What it may be.
        expected: String,
        /// What it was.
        found: String,
    },
    /// A store of records.
    #[error(transparent)]
    Records(#[from] ibid_record::Error),
    /// zstd, which is asked for nothing that could fail but for memory.
    #[error("cannot compress")]
    Compression(#[source] std::io::Error),
    /// The observer asked to stop.
    #[error("stopped, as asked")]
    Stopped,
}

impl Error {
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        move |source| match source.get_ref() {
            Some(inner) if inner.is::<Stop>() => Error::Stopped,
            _ => Error::File {
                action,
                path: path.to_owned(),
                source,
            },
        }
    }
}

/// How [`Error::Stopped`] passes through functions of the standard library.
#[derive(Debug, thiserror::Error)]
#[error("stopped, as asked")]
pub(crate) struct Stop;
