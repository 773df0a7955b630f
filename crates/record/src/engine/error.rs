//! What can go wrong between the store and the disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A call to an [`Engine`](super::Engine) failed.
///
/// Its text says what was attempted and where, what was expected and what was found. Cheap
/// to clone, because all callers whose batches shared a failed commit get it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Someone else has it open.
    #[error("{path} is open already, here or in another process", path = .path.display())]
    InUse {
        /// The engine's file or folder.
        path: PathBuf,
    },
    /// What is stored is not what the engine wrote.
    #[error("{path} is damaged or not of {engine}: {found}", path = .path.display())]
    Damaged {
        /// The engine.
        engine: &'static str,
        /// Its file or folder.
        path: PathBuf,
        /// What it found, in its own words.
        found: String,
    },
    /// It was written by a version of the engine that this one does not read.
    #[error("{path} has a format of {engine} that this program does not read ({found})", path = .path.display())]
    Version {
        /// The engine.
        engine: &'static str,
        /// Its file or folder.
        path: PathBuf,
        /// What it found, in its own words.
        found: String,
    },
    /// A key or value is longer than the engine takes. Nothing was written.
    #[error("{field}: at most {expected} bytes expected, found {found}")]
    TooLarge {
        /// Key or value.
        field: &'static str,
        /// The most it takes, bytes.
        expected: u64,
        /// What it was given, bytes.
        found: u64,
    },
    /// The disk or the operating system failed. A commit that fails so may or may not be there
    /// after reopening.
    #[error("cannot {operation} {path}: {source}", path = .path.display())]
    Io {
        /// What was attempted.
        operation: &'static str,
        /// The engine's file or folder.
        path: PathBuf,
        /// What the operating system says.
        source: Arc<io::Error>,
    },
    /// A write failed earlier, so that what is on disk is uncertain and nothing more is written.
    #[error("cannot {operation} {path}: an earlier write to it failed", path = .path.display())]
    Stopped {
        /// What was attempted.
        operation: &'static str,
        /// The engine's file or folder.
        path: PathBuf,
    },
    /// The engine failed in a way that none of the above describes.
    #[error("cannot {operation} {path}: {engine} says \"{found}\"", path = .path.display())]
    Engine {
        /// The engine.
        engine: &'static str,
        /// What was attempted.
        operation: &'static str,
        /// Its file or folder.
        path: PathBuf,
        /// In the engine's own words.
        found: String,
    },
}

impl EngineError {
    /// Of work that gives up, for a reason that its caller knows.
    pub(crate) fn abandoned() -> Self {
        EngineError::Stopped {
            operation: "write",
            path: PathBuf::new(),
        }
    }

    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        EngineError::Io {
            operation,
            path: path.to_owned(),
            source: Arc::new(source),
        }
    }
}
