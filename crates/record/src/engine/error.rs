//! Why an engine failed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A call to an [`Engine`](super::Engine) failed.
///
/// The text says what was attempted, where, and why it failed. Cheap to clone, because all callers
/// whose changes shared a failed commit get it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// It is open already. Only one process at a time can have it open.
    #[error("{path} is open already, here or in another process", path = .path.display())]
    InUse {
        /// The engine's file or folder.
        path: PathBuf,
    },
    /// The stored bytes are not those that the engine wrote.
    #[error("{path} is damaged or not of {engine}: {found}", path = .path.display())]
    Damaged {
        /// The engine.
        engine: &'static str,
        /// Its file or folder.
        path: PathBuf,
        /// The engine's message.
        found: String,
    },
    /// It was written by a version of the engine that this one cannot read.
    #[error("{path} has a format of {engine} that this version cannot read: {found}", path = .path.display())]
    Version {
        /// The engine.
        engine: &'static str,
        /// Its file or folder.
        path: PathBuf,
        /// The engine's message.
        found: String,
    },
    /// A key or value is longer than the engine takes. Nothing was written.
    #[error("{field}: at most {expected} bytes expected, found {found}")]
    TooLarge {
        /// Key or value.
        field: &'static str,
        /// The most that the engine takes, bytes.
        expected: u64,
        /// The length, bytes.
        found: u64,
    },
    /// The disk or the operating system failed. Whether a failed commit took place is known after
    /// opening it again.
    #[error("cannot {operation} {path}: {source}", path = .path.display())]
    Io {
        /// What was attempted.
        operation: &'static str,
        /// The operating system's error.
        path: PathBuf,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
    /// An earlier write failed. The state on disk is uncertain, and nothing more is written. Open
    /// the engine again to find which commits took place.
    #[error("cannot {operation} {path}: an earlier write to it failed", path = .path.display())]
    Stopped {
        /// What was attempted.
        operation: &'static str,
        /// The engine's file or folder.
        path: PathBuf,
    },
    /// It was opened read only. Nothing was written. Open it for writing.
    #[error("{path} was opened read only", path = .path.display())]
    ReadOnly {
        /// The engine's file.
        path: PathBuf,
    },
    /// It can't be opened read only. Open it for writing: once, if only then it can be opened read only.
    #[error("{path} cannot be opened read only: {found}. Open it for writing", path = .path.display())]
    NotReadOnly {
        /// The engine's file or folder.
        path: PathBuf,
        /// The reason.
        found: &'static str,
    },
    /// Another process has changed it, and does not keep what was being read. Nothing wrong was returned.
    /// [Refresh](super::Engine::refresh), and read again from a new snapshot.
    #[error("another process has changed {path}, and does not keep what was being read: read it again",
        path = .path.display())]
    Outdated {
        /// The engine's file.
        path: PathBuf,
    },
    /// The engine failed in another way.
    #[error("cannot {operation} {path}: {engine} says \"{found}\"", path = .path.display())]
    Engine {
        /// The engine.
        engine: &'static str,
        /// What was attempted.
        operation: &'static str,
        /// Its file or folder.
        path: PathBuf,
        /// The engine's message.
        found: String,
    },
}

impl EngineError {
    /// Returns the error of work that stops for a reason that its caller knows.
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
