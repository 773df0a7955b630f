//! What can go wrong, by meaning. Every message says what was expected, what was found, and what to
//! do next.

use std::path::PathBuf;

use ibid_format::{ChunkId, ChunkPrefix, FileId};

use crate::text::{Size, quoted, quoted_path};

/// Why an operation on a repository failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The place where the repository lives refused or failed.
    #[error(transparent)]
    Storage(#[from] ibid_storage::Error),
    /// A file of the repository is not what it should be.
    #[error(
        "{object} is damaged or was tampered with: {source}; run `ibid check --read-data` to see what depends on it"
    )]
    Damaged {
        /// Which file.
        object: String,
        /// What its reader found.
        source: ibid_format::Error,
    },
    /// A file's entry has something that the format does not allow.
    #[error("it cannot be stored: {0}")]
    Unstorable(ibid_format::Error),
    /// The config is not what it should be: nothing opens without it.
    #[error("{}", config_text(source))]
    ConfigDamaged {
        /// What its reader found.
        source: ibid_format::Error,
    },
    /// There is something else at this place.
    #[error("{location} is no ibid repository: {found}; check the path, or make a repository in another folder")]
    NotARepository {
        /// Where it was looked for.
        location: String,
        /// What is there.
        found: String,
    },
    /// There is no repository at this place.
    #[error("there is no repository at {location}; make one with `ibid init`, or give `--init` to `ibid backup`")]
    NoRepository {
        /// Where it was looked for.
        location: String,
    },
    /// `init` found one already.
    #[error("there is a repository at {location} already; choose another place")]
    RepositoryExists {
        /// Where.
        location: String,
    },
    /// No key slot opens with this password.
    #[error(
        "wrong password: it opens no key slot of {location} ({slots} tried{})",
        also(untried)
    )]
    WrongPassword {
        /// How many were tried.
        slots: usize,
        /// The repository.
        location: String,
        /// Why the last of those that could not be tried could not.
        untried: Option<Box<Error>>,
    },
    /// A key slot that may well be right can't be used here.
    #[error("key {id} can't be used: {source}; give the program more memory, or use another key")]
    KeyUnusable {
        /// The slot.
        id: FileId,
        /// What it asks for.
        source: ibid_format::Error,
    },
    /// What was asked for can't be made, or could not be opened again.
    #[error("cannot make {what}: {source}")]
    Refused {
        /// What.
        what: &'static str,
        /// Why.
        source: ibid_format::Error,
    },
    /// A new key slot was stored, and what came back does not open the repository.
    #[error(
        "the new key {id} did not open the repository when it was read back; all keys are as they were before. Check the disk"
    )]
    KeyNotStored {
        /// The slot, which is removed again.
        id: FileId,
    },
    /// A slot opens with the new password already.
    #[error("key {id} opens with this password already; see `ibid key list`")]
    PasswordInUse {
        /// The slot.
        id: FileId,
    },
    /// The repository is encrypted and no password was given.
    #[error(
        "the repository at {location} is encrypted and no password was given; set IBID_PASSWORD, or use --password-file or --password-command"
    )]
    PasswordNeeded {
        /// The repository.
        location: String,
    },
    /// A password was given for a repository that has no encryption: somebody may have put another
    /// repository in its place.
    #[error(
        "a password was given, but the repository at {location} is NOT encrypted; if that is what you expect, give no password and say --unencrypted, else find out who replaced it"
    )]
    NotEncrypted {
        /// The repository.
        location: String,
    },
    /// Every key slot is unreadable or there is none.
    #[error(
        "the repository at {location} has no usable key slot ({found} files under keys/); restore the folder keys/ from a copy of the repository"
    )]
    NoKeys {
        /// The repository.
        location: String,
        /// How many files were there.
        found: usize,
    },
    /// The key slot that opened the repository must stay: of no other is it known that it opens.
    #[error(
        "key {id} is the one that opened the repository: change its password with `ibid key passwd`, or open the repository with \
         another password and remove it then"
    )]
    KeyInUse {
        /// The slot.
        id: FileId,
    },
    /// No key slot has this id, or several have.
    #[error("{} an id that starts with {}; name one by its id, as `ibid key list` shows it", count_text(*matches), quoted(wanted))]
    UnknownKey {
        /// What was asked for.
        wanted: String,
        /// How many have it.
        matches: usize,
    },
    /// The chunker settings are unusable.
    #[error("chunker: {0}")]
    Chunker(#[from] ibid_chunk::SettingsError),
    /// Nothing is named so.
    #[error("no snapshot matches {}; see `ibid snapshots`", quoted(wanted))]
    UnknownSnapshot {
        /// What was asked for.
        wanted: String,
    },
    /// Several are.
    #[error("{} could be any of {matches} snapshots; give more digits", quoted(wanted))]
    AmbiguousSnapshot {
        /// What was asked for.
        wanted: String,
        /// How many it could be.
        matches: usize,
    },
    /// The snapshot has no such path.
    #[error("snapshot {snapshot} has no {}; see `ibid ls {snapshot}`", quoted_path(path))]
    NoSuchPath {
        /// The snapshot, abbreviated.
        snapshot: String,
        /// The path asked for.
        path: PathBuf,
    },
    /// A file was needed and something else is there, or the other way round.
    #[error("{} in snapshot {snapshot} is {found}, not {expected}", quoted_path(path))]
    WrongType {
        /// The snapshot, abbreviated.
        snapshot: String,
        /// The path.
        path: PathBuf,
        /// What the command needs.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// The index does not know a chunk that a tree refers to.
    #[error("chunk {id} is in no pack of the repository; run `ibid check` to see which files need it")]
    ChunkMissing {
        /// The chunk.
        id: ChunkId,
    },
    /// A chunk's bytes are not those that were stored.
    #[error(
        "chunk {id} in pack {pack} does not have the bytes it was stored with; run `ibid check --read-data` to see which files need it"
    )]
    ChunkDamaged {
        /// The chunk.
        id: ChunkId,
        /// The pack it was read from.
        pack: FileId,
    },
    /// A frame can't be decoded, since it is encoded against a chunk that is not to be had.
    #[error(
        "{object} is encoded against chunk {base}…{}, {fault}; run `ibid check --read-data` to see what depends on it",
        through(*steps)
    )]
    BaseUnreadable {
        /// The frame that was to be read: its pack, and where in that.
        object: String,
        /// The first bytes of the chunk's id.
        base: ChunkPrefix,
        /// How many frames lie between: with 0, the frame itself names the chunk.
        steps: u8,
        /// Why the chunk is not to be had.
        fault: BaseFault,
    },
    /// Two index files say different things of one pack.
    #[error(
        "index {index} contradicts what else is known of pack {pack}, and is not used; run `ibid check` to see what depends on the pack"
    )]
    Contradiction {
        /// The index file that was read later.
        index: FileId,
        /// The pack.
        pack: FileId,
    },
    /// What lies in a place is not the chunk that the index has there.
    #[error(
        "slot {slot} of the frame at offset {offset} of pack {pack} holds another chunk than the index says; run `ibid check --read-data`"
    )]
    Misplaced {
        /// The pack.
        pack: FileId,
        /// Where the frame begins in it.
        offset: u32,
        /// The slot in the frame.
        slot: u16,
    },
    /// A recipe's lengths do not add up.
    #[error("a list of chunks in the repository contradicts itself: expected {expected} bytes, found {found}")]
    BadRecipe {
        /// What the parent says.
        expected: u64,
        /// What the parts say.
        found: u64,
    },
    /// Something on this machine's file system refused or failed.
    #[error("cannot {action} {}: {source}{}", quoted_path(path), next_step(source))]
    Local {
        /// What was attempted: a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Standard input or output failed.
    #[error("cannot {action}: {source}")]
    Pipe {
        /// What was attempted.
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The destination holds something and no rule for that was given.
    #[error(
        "{} exists; say what to do with existing files: --overwrite always, if-changed or never. Nothing was written",
        quoted_path(path)
    )]
    WouldOverwrite {
        /// The first such path.
        path: PathBuf,
    },
    /// A pattern cannot be understood.
    #[error("pattern {}{place}: {reason}", quoted(pattern))]
    BadPattern {
        /// The pattern.
        pattern: String,
        /// Where it stands, if in a file.
        place: String,
        /// Why.
        reason: String,
    },
    /// The memory budget is too small for this repository.
    #[error(
        "a memory budget of {} is too small: {} are needed here; give --memory a larger size",
        Size(*budget),
        Size(*needed)
    )]
    MemoryBudget {
        /// What was allowed.
        budget: u64,
        /// What the work needs at least.
        needed: u64,
    },
    /// None of the paths to back up could be read.
    #[error("nothing to back up: no path could be read ({paths} given)")]
    NothingToBackUp {
        /// How many were given.
        paths: usize,
    },
    /// A stream was to become a file of a name that no file can have.
    #[error("a stream cannot be stored as {name:?}: {source}; give the name of one file, without folders")]
    BadStreamName {
        /// The name.
        name: String,
        /// What is wrong with it.
        source: ibid_format::Error,
    },
    /// More than the format can hold.
    #[error("{what} is beyond what the format can hold: at most {limit}")]
    TooMuch {
        /// What.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The system refuses to start a thread.
    #[error(
        "cannot start the threads that this takes: {source}; allow more (see `ulimit -u` and `ulimit -v`), or use fewer by --threads"
    )]
    Threads {
        /// The system's answer.
        source: std::io::Error,
    },
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Why a chunk that others are encoded against is not to be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaseFault {
    /// The index does not know it.
    #[error("which is in no pack of the repository")]
    Missing,
    /// It is stored in deeper frames only, which could be encoded against the one that wants it.
    #[error("which is in frames of depth {found} and more only, and less than {depth} is needed")]
    TooDeep {
        /// The depth of the frame that wants it.
        depth: u8,
        /// That of the least deep frame which has it.
        found: u8,
    },
    /// It ends before the bytes that are wanted.
    #[error("of which {end} bytes are needed, and it has {length}")]
    TooShort {
        /// Where the bytes wanted end in it.
        end: u64,
        /// Its length.
        length: u32,
    },
    /// Its bytes are not those that were stored.
    #[error("which does not have the bytes it was stored with, in pack {pack} at offset {offset}")]
    Damaged {
        /// The pack that it is in.
        pack: FileId,
        /// Where its frame begins there.
        offset: u32,
    },
    /// Its frame can't be read.
    #[error("whose frame, in pack {pack} at offset {offset}, is not to be had: {}", error.problem())]
    Unreadable {
        /// The pack that it is in.
        pack: FileId,
        /// Where its frame begins there.
        offset: u32,
        /// Why.
        error: Box<Error>,
    },
    /// Chunk after chunk, it takes more than a reader does for one frame.
    #[error("which takes more than {limit} frames to decode")]
    TooManyFrames {
        /// The limit.
        limit: u32,
    },
}

/// How a frame comes to need a chunk that it does not name itself.
fn through(steps: u8) -> String {
    match steps {
        0 => String::new(),
        1 => " by way of another frame".to_owned(),
        steps => format!(" by way of {steps} other frames"),
    }
}

/// Whether the system refuses to write any more: the disk is full, or what this user may have of
/// it.
pub(crate) fn is_no_room(source: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn next_step(source: &std::io::Error) -> &'static str {
    if is_no_room(source) {
        "; make room there, or choose another place"
    } else {
        ""
    }
}

fn config_text(source: &ibid_format::Error) -> String {
    match source {
        // It may be whole, and this program too old for it.
        ibid_format::Error::Version { .. } => source.to_string(),
        source => {
            format!("config is damaged or was tampered with: {source}; restore that file from a copy of the repository")
        }
    }
}

fn count_text(matches: usize) -> String {
    match matches {
        0 => "no key slot has".to_owned(),
        matches => format!("{matches} key slots have"),
    }
}

/// What else is to be said of a wrong password.
fn also(untried: &Option<Box<Error>>) -> String {
    untried
        .as_ref()
        .map_or_else(String::new, |error| format!("; also: {error}"))
}

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn local(action: &'static str, path: impl Into<PathBuf>, source: impl Into<std::io::Error>) -> Error {
        Error::Local {
            action,
            path: path.into(),
            source: source.into(),
        }
    }

    /// Whether this tells of the repository's state, such as damage or a file that is missing, and not of
    /// storage that is out of reach, memory, or the like.
    pub(crate) fn is_fault(&self) -> bool {
        use ibid_storage::ErrorKind;
        match self {
            Error::Storage(error) => matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::Truncated | ErrorKind::TooLarge | ErrorKind::Io
            ),
            error => error.is_damage(),
        }
    }

    pub(crate) fn damaged(object: impl std::fmt::Display) -> impl FnOnce(ibid_format::Error) -> Error {
        move |source| Error::Damaged {
            object: object.to_string(),
            source,
        }
    }

    /// What is wrong, for whoever is looking at the repository's state already: without the advice
    /// to do so.
    pub(crate) fn problem(&self) -> String {
        match self {
            Error::Damaged { source, .. } => format!("damaged or tampered with: {source}"),
            Error::Contradiction { pack, .. } => {
                format!("contradicts what else is known of pack {pack}, and is not used")
            }
            Error::BaseUnreadable { base, steps, fault, .. } => {
                format!("encoded against chunk {base}…{}, {fault}", through(*steps))
            }
            Error::ChunkMissing { id } => format!("chunk {id} is missing"),
            Error::ChunkDamaged { id, pack } => {
                format!("chunk {id} in pack {pack} does not have the bytes it was stored with")
            }
            error => error.to_string(),
        }
    }

    /// Whether the fault lies in what is stored (and `check` can tell more), not in how it was
    /// asked for.
    pub fn is_damage(&self) -> bool {
        use ibid_storage::ErrorKind;
        match self {
            Error::Storage(error) => matches!(error.kind(), ErrorKind::Truncated | ErrorKind::TooLarge),
            Error::BaseUnreadable {
                fault: BaseFault::Unreadable { error, .. },
                ..
            } => error.is_damage(),
            error => matches!(
                error,
                Error::Damaged { .. }
                    | Error::Contradiction { .. }
                    | Error::ChunkMissing { .. }
                    | Error::ChunkDamaged { .. }
                    | Error::BadRecipe { .. }
                    | Error::BaseUnreadable { .. }
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_room_to_write_is_told_what_to_do() {
        let text = |errno| {
            let source = std::io::Error::from_raw_os_error(errno);
            let (action, path) = ("write", PathBuf::from("out/file"));
            Error::Local { action, path, source }.to_string()
        };
        for errno in [rustix::io::Errno::NOSPC, rustix::io::Errno::DQUOT] {
            assert!(text(errno.raw_os_error()).ends_with("; make room there, or choose another place"));
        }
        assert!(!text(rustix::io::Errno::ACCESS.raw_os_error()).contains("room"));
    }
}
