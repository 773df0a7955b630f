//! Why an experiment gave no result.

use std::path::{Path, PathBuf};

use ibid_chunk::SettingsError;

/// The result of every experiment.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an experiment gave no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings of a chunker are not valid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A file or folder cannot be read or written.
    #[error("cannot {action} {path:?}")]
    File {
        /// The operation that failed, as in "cannot *read* PATH".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A number is outside its limits.
    #[error("{what}: expected {expected}, found {found}")]
    OutOfRange {
        /// The number, in words.
        what: &'static str,
        /// The values that are allowed.
        expected: String,
        /// The value that was given.
        found: String,
    },
    /// A store of records failed.
    #[error(transparent)]
    Records(#[from] ibid_record::Error),
    /// zstd failed, for which lack of memory is the only cause.
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

/// Carries [`Error::Stopped`] through functions of the standard library.
#[derive(Debug, thiserror::Error)]
#[error("stopped, as asked")]
pub(crate) struct Stop;
