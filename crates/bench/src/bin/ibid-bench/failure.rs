//! How a command ends, and its exit code.

use std::fmt::{Display, Formatter};
use std::io::ErrorKind;

use ibid_bench::Error;
use ibid_terminal::{FileError, with_causes};

/// The result of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The command did everything.
    Done,
    /// The command left out some files that could not be read; each was named.
    Partial,
}

impl Outcome {
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Outcome::Done => 0,
            Outcome::Partial => 3,
        }
    }
}

/// The reason why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is not valid.
    Usage(String),
    /// The user asked to stop. The text says what is left of the work.
    Interrupted(&'static str),
    /// Standard output can't be written to.
    Output(std::io::Error),
    /// Any other error, with its causes.
    Fatal(String),
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// Returns the exit code, as `ibid-bench --help` lists them.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Interrupted(_) => 130,
            Failure::Output(_) | Failure::Fatal(_) => 1,
        }
    }

    /// Returns whether the only error is that the reader of the output closed the pipe.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Failure::Output(error) if error.kind() == ErrorKind::BrokenPipe)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Usage(text) | Failure::Fatal(text) => f.write_str(text),
            Failure::Interrupted(left) => write!(f, "interrupted; {left}"),
            Failure::Output(error) => write!(f, "cannot write to standard output: {error}"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::File { action, path, source } => FileError::new(action, path, source).into(),
            Error::Settings(_) | Error::OutOfRange { .. } => Failure::Usage(error.to_string()),
            Error::Stopped => Failure::Interrupted("nothing was written"),
            error => Failure::Fatal(with_causes(&error, |_| false)),
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        Failure::Fatal(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Output(error)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::Fatal(format!("{error:#}"))
    }
}
