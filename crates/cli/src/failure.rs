//! Why a command failed, and the exit code that says so.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a command comes to when nothing kept it from its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All of it.
    Done,
    /// Done but for some files; each was named.
    Partial,
    /// A check that found faults.
    Faults,
}

impl Outcome {
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Outcome::Done => 0,
            Outcome::Partial => 3,
            Outcome::Faults => 4,
        }
    }
}

/// Why a command did not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The repository, or what it is asked for.
    Repo(ibid_repo::Error),
    /// The user asked to stop. What is left of the work, and what is to be done with it.
    Interrupted(Cow<'static, str>),
    /// The command line asks for something that makes no sense.
    Usage(String),
    /// A store of records.
    Records(ibid_record::Error),
    /// A record, or where it should be, that was asked for and is not there.
    NotThere(String),
    /// There is no store of records at this place.
    NoStore(String),
    /// What was to be checked is damaged so that not even its beginning can be read.
    Faults(String),
    /// No password was to be had, or none that can be used.
    Password(String),
    /// Something else, said in full.
    Fatal(String),
    /// A file of this machine.
    Local {
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn local(action: &'static str, path: impl AsRef<Path>, source: std::io::Error) -> Failure {
        Failure::Local {
            action,
            path: path.as_ref().to_owned(),
            source,
        }
    }

    /// If the user asked to stop, what to tell of what is left.
    pub(crate) fn if_interrupted(left: &'static str) -> impl FnOnce(ibid_repo::Error) -> Failure {
        move |error| match error {
            ibid_repo::Error::Interrupted => Failure::Interrupted(left.into()),
            error => Failure::Repo(error),
        }
    }

    /// What the program ends with. `ibid --help` lists these.
    pub(crate) fn exit_code(&self) -> u8 {
        use ibid_repo::Error;
        match self {
            Failure::Faults(_) => 4,
            Failure::NotThere(_) | Failure::Records(ibid_record::Error::NoSuchKey { .. }) => 6,
            Failure::NoStore(_) | Failure::Records(ibid_record::Error::NotAStore { .. }) => 10,
            Failure::Usage(_) | Failure::Repo(Error::BadPattern { .. }) => 2,
            Failure::Password(_) => 5,
            Failure::Records(ibid_record::Error::Key {
                source: ibid_format::Error::WrongPassword,
                ..
            }) => 5,
            Failure::Repo(Error::WrongPassword { .. } | Error::PasswordNeeded { .. }) => 5,
            Failure::Repo(Error::NoRepository { .. } | Error::NotARepository { .. }) => 10,
            Failure::Repo(Error::Interrupted) | Failure::Interrupted(_) => 130,
            Failure::Repo(_) | Failure::Records(_) | Failure::Fatal(_) | Failure::Local { .. } => 1,
        }
    }

    /// Whether all that happened is that whoever read our output has read enough.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Failure::Repo(ibid_repo::Error::Pipe { source, .. }) if source.kind() == std::io::ErrorKind::BrokenPipe)
    }
}

impl From<ibid_repo::Error> for Failure {
    fn from(error: ibid_repo::Error) -> Failure {
        Failure::Repo(error)
    }
}

impl From<ibid_record::Error> for Failure {
    fn from(error: ibid_record::Error) -> Failure {
        Failure::Records(error)
    }
}

impl From<ibid_storage::Error> for Failure {
    fn from(error: ibid_storage::Error) -> Failure {
        Failure::Repo(error.into())
    }
}

impl From<ibid_measure::Error> for Failure {
    fn from(error: ibid_measure::Error) -> Failure {
        use ibid_measure::Error;
        match error {
            Error::File { action, path, source } => Failure::Local { action, path, source },
            Error::Settings(_) | Error::OutOfRange { .. } => Failure::Usage(error.to_string()),
            Error::Stopped => Failure::Interrupted("nothing is left of it".into()),
            error => Failure::Fatal(with_causes(&error)),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Repo(error) => write!(f, "{}", with_causes(error)),
            Failure::Records(error) => write!(f, "{}", with_causes(error)),
            Failure::Interrupted(left) => write!(f, "interrupted; {left}"),
            Failure::Usage(text)
            | Failure::NotThere(text)
            | Failure::NoStore(text)
            | Failure::Faults(text)
            | Failure::Password(text)
            | Failure::Fatal(text) => f.write_str(text),
            Failure::Local { action, path, source } => write!(
                f,
                "cannot {action} \"{}\": {source}",
                ibid_repo::escape(path.as_os_str().as_bytes())
            ),
        }
    }
}

/// An error and what caused it, each cause once: some errors say theirs themselves.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
