//! Failures of commands: text, advice and exit code.
//!
//! A message says what failed, on which object, and why, in lower case. Advice follows as a
//! sentence of its own, which [`advice`] selects.

pub(crate) mod advice;

use std::borrow::Cow;
use std::error::Error as StdError;
use std::path::{Path, PathBuf};

use ibid_storage::ErrorKind;
use ibid_terminal::number::counted;
use ibid_terminal::{FileError, path_text, reason};

/// Result of a command that could do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All work was done.
    Done,
    /// Some files or records were left out; each was reported.
    Partial,
    /// A check found faults.
    Faults,
    /// Steps failed; each was reported. The exit code is that of the first.
    Failed(u8),
}

impl Outcome {
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Outcome::Done => 0,
            Outcome::Partial => 3,
            Outcome::Faults => 4,
            Outcome::Failed(code) => code,
        }
    }
}

/// Reason why a command could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of a repository.
    Repo(ibid_repo::Error),
    /// An error of a store of records.
    Records(ibid_record::Error),
    /// The user asked to stop. The text says which part of the work is kept, and how to continue.
    Interrupted(Cow<'static, str>),
    /// The command line is invalid.
    Usage(String),
    /// The record, version or namespace does not exist.
    NotThere(String),
    /// The folder holds no record store.
    NoStore(String),
    /// What is to be checked is too damaged to be opened, which is what a check is to find.
    Faults(Box<Failure>),
    /// No password was given, or it can't be used.
    Password(String),
    /// A failure, and how far the work came before it.
    Partly { cause: Box<Failure>, done: String },
    /// Any other failure.
    Fatal(String),
    /// The operating system refused something.
    Local {
        /// The attempted action, a verb.
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

    /// Adds to an interruption the part of the work that is kept.
    pub(crate) fn if_interrupted(left: &'static str) -> impl FnOnce(ibid_repo::Error) -> Failure {
        move |error| match error {
            ibid_repo::Error::Interrupted => Failure::Interrupted(left.into()),
            error => Failure::Repo(error),
        }
    }

    /// Returns the program's exit code. `ibid --help` lists all of them.
    pub(crate) fn exit_code(&self) -> u8 {
        use ibid_repo::{ChangedBlocksError, Error};
        match self {
            Failure::Faults(_) => 4,
            Failure::NotThere(_)
            | Failure::Records(
                ibid_record::Error::NoSuchKey { .. }
                | ibid_record::Error::Purged { .. }
                | ibid_record::Error::TimeUnknown { .. },
            ) => 6,
            Failure::Records(ibid_record::Error::ConditionFailed { .. } | ibid_record::Error::ValueTaken { .. }) => 7,
            Failure::NoStore(_) | Failure::Records(ibid_record::Error::NotAStore { .. }) => 10,
            Failure::Usage(_) | Failure::Repo(Error::BadPattern { .. }) => 2,
            // With another map, or another parent, the command works.
            Failure::Repo(Error::ChangedBlocks(error))
                if !matches!(
                    error,
                    ChangedBlocksError::Unreadable { .. } | ChangedBlocksError::Wrong { .. }
                ) =>
            {
                2
            }
            Failure::Repo(Error::TooManyPaths { .. } | Error::BadTagName { .. }) => 2,
            Failure::Password(_) => 5,
            Failure::Records(ibid_record::Error::Key {
                source: ibid_format::Error::WrongPassword,
                ..
            }) => 5,
            Failure::Repo(Error::WrongPassword { .. } | Error::PasswordNeeded { .. }) => 5,
            Failure::Repo(Error::NoRepository { .. } | Error::NotARepository { .. }) => 10,
            Failure::Repo(Error::Interrupted) | Failure::Interrupted(_) => 130,
            Failure::Partly { cause, .. } => cause.exit_code(),
            Failure::Repo(_) | Failure::Records(_) | Failure::Fatal(_) | Failure::Local { .. } => 1,
        }
    }

    /// Returns whether the reader of standard output closed it.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        match self {
            Failure::Repo(ibid_repo::Error::Pipe { source, .. }) => source.kind() == std::io::ErrorKind::BrokenPipe,
            _ => false,
        }
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

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        Failure::local(error.action, error.path, error.source)
    }
}

/// Prints the cause, then the advice.
impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.write_cause(f)?;
        match advice::advice(self) {
            Some(advice) => write!(f, ". {advice}"),
            None => Ok(()),
        }
    }
}

impl Failure {
    /// Adds to a failure how far the work came.
    pub(crate) fn after(self, done: String) -> Failure {
        let cause = Box::new(self);
        Failure::Partly { cause, done }
    }

    fn write_cause(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Partly { cause, done } => {
                cause.write_cause(f)?;
                write!(f, "; {done}")
            }
            Failure::Repo(ibid_repo::Error::Local { action, path, source })
            | Failure::Local { action, path, source } => {
                write!(f, "cannot {action} {}: {}", path_text(path), reason(source))
            }
            Failure::Repo(ibid_repo::Error::WrongPassword {
                slots,
                location,
                untried: None,
            }) => {
                let tried = counted(*slots as u64, "key was tried", "keys were tried");
                write!(f, "wrong password for the repository in {location} ({tried})")
            }
            // Which password a damaged key had, nothing can tell.
            Failure::Repo(ibid_repo::Error::WrongPassword {
                slots,
                location,
                untried: Some(untried),
            }) => {
                let tried = counted(*slots as u64, "key was tried", "keys were tried");
                let (other, advice) = (with_causes(untried.as_ref()), advice::on_repository(untried));
                write!(
                    f,
                    "the password opens no key of the repository in {location} ({tried}). But {other}, "
                )?;
                write!(f, "and it may be the password of that one")?;
                advice.map_or(Ok(()), |advice| write!(f, ". {advice}"))
            }
            Failure::Records(ibid_record::Error::Key {
                path,
                source: ibid_format::Error::WrongPassword,
            }) => write!(f, "wrong password for the key file {}", path_text(path)),
            // Libraries quote names as Rust does; the program shows them as it does everywhere.
            Failure::Repo(ibid_repo::Error::WouldOverwrite { path }) => {
                write!(f, "{} exists; nothing was written", path_text(path))
            }
            Failure::Repo(ibid_repo::Error::WrongType {
                snapshot,
                path,
                expected,
                ..
            }) if path.as_os_str().is_empty() => {
                write!(f, "the root of snapshot {snapshot} is not {expected}")
            }
            Failure::Repo(ibid_repo::Error::NoSuchPath { snapshot, path }) => {
                write!(f, "snapshot {snapshot} has no {}", path_text(path))
            }
            Failure::Repo(ibid_repo::Error::WrongType {
                snapshot,
                path,
                expected,
                found,
            }) => write!(
                f,
                "{} in snapshot {snapshot} is {found}, not {expected}",
                path_text(path)
            ),
            Failure::Faults(cause) => cause.write_cause(f),
            Failure::Repo(error) => f.write_str(&with_causes(error)),
            Failure::Records(error) => f.write_str(&with_causes(error)),
            Failure::Interrupted(left) => write!(f, "interrupted; {left}"),
            Failure::Usage(text)
            | Failure::NotThere(text)
            | Failure::NoStore(text)
            | Failure::Password(text)
            | Failure::Fatal(text) => f.write_str(text),
        }
    }
}

/// Returns an error's text followed by its causes, each fact once.
pub(crate) fn with_causes(error: &(dyn StdError + 'static)) -> String {
    ibid_terminal::with_causes(error, names_its_cause)
}

/// Returns whether the error's own text includes its cause, as far as it is worth reading.
fn names_its_cause(error: &(dyn StdError + 'static)) -> bool {
    let of_storage = match error.downcast_ref() {
        Some(ibid_repo::Error::Damaged { .. } | ibid_repo::Error::ConfigDamaged { .. }) => return true,
        Some(ibid_repo::Error::Storage(error)) => Some(error),
        _ => error.downcast_ref::<ibid_storage::Error>(),
    };
    of_storage.is_some_and(|error| error.kind() != ErrorKind::Io)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(number: i32) -> Failure {
        Failure::local("read", "/etc/shadow", std::io::Error::from_raw_os_error(number))
    }

    #[test]
    fn a_message_says_what_failed_on_what_and_why_and_then_what_to_do() {
        let denied = local(rustix::io::Errno::ACCESS.raw_os_error()).to_string();
        let advice = "Run as root, or give this user access to it.";
        assert_eq!(denied, format!("cannot read /etc/shadow: permission denied. {advice}"));
        let absent = local(rustix::io::Errno::NOENT.raw_os_error()).to_string();
        assert_eq!(absent, "cannot read /etc/shadow: no such file or directory");
        assert!(
            local(rustix::io::Errno::IO.raw_os_error())
                .to_string()
                .ends_with(": input/output error")
        );
    }

    #[test]
    fn no_room_to_write_leads_to_advice() {
        for number in [rustix::io::Errno::NOSPC, rustix::io::Errno::DQUOT] {
            let text = local(number.raw_os_error()).to_string();
            assert!(text.ends_with(". Free space there, or choose another place."), "{text}");
        }
    }

    #[test]
    fn each_fact_is_said_once() {
        let source = std::io::Error::from_raw_os_error(rustix::io::Errno::ACCESS.raw_os_error());
        let error = ibid_repo::Error::Local {
            action: "read",
            path: "secret".into(),
            source,
        };
        let text = with_causes(&error);
        assert_eq!(text.to_lowercase().matches("permission denied").count(), 1, "{text}");
        assert!(!text.contains("os error"), "{text}");
    }
}
