//! What can go wrong, by meaning. A message says what failed, on what, and why; what to do about it is for
//! the program to say.

use std::path::PathBuf;

use ibid_format::{ChunkId, ChunkPrefix, FileId};

/// Why an operation on a repository failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage refused or failed.
    #[error(transparent)]
    Storage(#[from] ibid_storage::Error),
    /// A file of the repository can't be read as what it should be.
    #[error("{object} is damaged or was tampered with: {source}")]
    Damaged {
        /// The file, or the frame in it.
        object: String,
        /// What its reader found.
        source: ibid_format::Error,
    },
    /// A file can't be backed up, since the format can't hold its entry.
    #[error("it cannot be stored: {0}")]
    Unstorable(ibid_format::Error),
    /// The config can't be read. Without it, nothing opens.
    #[error("{}", config_text(source))]
    ConfigDamaged {
        /// What its reader found.
        source: ibid_format::Error,
    },
    /// The storage holds something else.
    #[error("{location} is no ibid repository: {found}")]
    NotARepository {
        /// Where the repository was expected.
        location: String,
        /// What is there.
        found: String,
    },
    /// The storage holds no repository.
    #[error("there is no repository in {location}")]
    NoRepository {
        /// Where the repository was expected.
        location: String,
    },
    /// A new repository was to be made where there is one.
    #[error("there is a repository in {location} already")]
    RepositoryExists {
        /// Where.
        location: String,
    },
    /// The password opens no key slot.
    #[error(
        "wrong password: it opens no key slot of {location} ({slots} tried{})",
        also(untried)
    )]
    WrongPassword {
        /// How many slots were tried.
        slots: usize,
        /// The repository.
        location: String,
        /// Why the last of the slots that could not be tried could not.
        untried: Option<Box<Error>>,
    },
    /// A key slot asks for more than this program gives.
    #[error("key {id} can't be used: {source}")]
    KeyUnusable {
        /// The slot.
        id: FileId,
        /// What it asks for.
        source: ibid_format::Error,
    },
    /// Something new can't be made with these settings, or would not open again.
    #[error("cannot make {what}: {source}")]
    Refused {
        /// What was to be made.
        what: &'static str,
        /// Why it can't be.
        source: ibid_format::Error,
    },
    /// A new key slot was stored, read back, and did not open the repository. It was removed, and all
    /// other keys are as they were.
    #[error("the new key {id} did not open the repository when it was read back; all keys are as they were before")]
    KeyNotStored {
        /// The slot.
        id: FileId,
    },
    /// The new password opens another slot already.
    #[error("key {id} opens with this password already")]
    PasswordInUse {
        /// That slot.
        id: FileId,
    },
    /// The repository is encrypted and no password was given.
    #[error("the repository in {location} is encrypted and no password was given")]
    PasswordNeeded {
        /// The repository.
        location: String,
    },
    /// A password was given for a repository that is not encrypted. An attacker may have put it in
    /// the place of yours.
    #[error("a password was given, but the repository in {location} is NOT encrypted")]
    NotEncrypted {
        /// The repository.
        location: String,
    },
    /// There is no key slot, or none can be read.
    #[error("the repository in {location} has no usable key slot ({found} files under keys/)")]
    NoKeys {
        /// The repository.
        location: String,
        /// How many files were there.
        found: usize,
    },
    /// The key slot that opened the repository can't be removed: no other is known to open it.
    #[error("key {id} is the one that opened the repository")]
    KeyInUse {
        /// The slot.
        id: FileId,
    },
    /// No key slot has an id that starts so, or several have.
    #[error("{} an id that starts with {wanted:?}", count_text(*matches))]
    UnknownKey {
        /// The digits given.
        wanted: String,
        /// How many slots match.
        matches: usize,
    },
    /// The chunker settings are unusable.
    #[error("chunker: {0}")]
    Chunker(#[from] ibid_chunk::SettingsError),
    /// No snapshot has this name.
    #[error("no snapshot matches {wanted:?}")]
    UnknownSnapshot {
        /// The name given.
        wanted: String,
    },
    /// Several snapshots have an id that starts so.
    #[error("{wanted:?} could be any of {matches} snapshots")]
    AmbiguousSnapshot {
        /// The digits given.
        wanted: String,
        /// How many snapshots match.
        matches: usize,
    },
    /// The snapshot has no such path.
    #[error("snapshot {snapshot} has no {path:?}")]
    NoSuchPath {
        /// The first digits of the snapshot's id.
        snapshot: String,
        /// The path asked for.
        path: PathBuf,
    },
    /// A path of a snapshot leads to another type of file than the operation needs.
    #[error("{path:?} in snapshot {snapshot} is {found}, not {expected}")]
    WrongType {
        /// The first digits of the snapshot's id.
        snapshot: String,
        /// The path.
        path: PathBuf,
        /// What the operation needs.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A tree refers to a chunk that the index does not know.
    #[error("chunk {id} is in no pack of the repository")]
    ChunkMissing {
        /// The chunk.
        id: ChunkId,
    },
    /// A chunk's bytes are not those that were stored.
    #[error("chunk {id} in pack {pack} does not have the bytes it was stored with")]
    ChunkDamaged {
        /// The chunk.
        id: ChunkId,
        /// The pack it was read from.
        pack: FileId,
    },
    /// A frame is a delta against a chunk that can't be read.
    #[error("{object} is a delta against chunk {base}…{}, {fault}", through(*steps))]
    BaseUnreadable {
        /// The frame that was to be read: its pack, and its offset there.
        object: String,
        /// The first bytes of the base chunk's id.
        base: ChunkPrefix,
        /// How many other frames lead from the frame to the chunk: 0 if the frame itself names it.
        steps: u8,
        /// Why the chunk can't be read.
        fault: BaseFault,
    },
    /// Two index files contradict each other about one pack.
    #[error("index {index} contradicts what else is known of pack {pack}, and is not used")]
    Contradiction {
        /// The index file that was read later.
        index: FileId,
        /// The pack.
        pack: FileId,
    },
    /// A frame holds another chunk in a slot than the index says.
    #[error("slot {slot} of the frame at offset {offset} of pack {pack} holds another chunk than the index says")]
    Misplaced {
        /// The pack.
        pack: FileId,
        /// The frame's offset in it, bytes.
        offset: u32,
        /// The slot in the frame.
        slot: u16,
    },
    /// The lengths in a list of chunks do not add up.
    #[error("a list of chunks in the repository contradicts itself: expected {expected} bytes, found {found}")]
    BadRecipe {
        /// Bytes by the parent.
        expected: u64,
        /// Bytes by the list.
        found: u64,
    },
    /// This machine's file system refused or failed.
    #[error("cannot {action} {path:?}: {source}")]
    Local {
        /// What was attempted: a verb.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A stream, such as standard input or output, failed.
    #[error("cannot {action}: {source}")]
    Pipe {
        /// What was attempted: a verb with its object.
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The destination of a restore holds something, and no rule for that was given. Nothing was
    /// written.
    #[error("{path:?} exists; nothing was written")]
    WouldOverwrite {
        /// The first such path.
        path: PathBuf,
    },
    /// A pattern can't be understood.
    #[error("pattern {pattern:?}{place}: {reason}")]
    BadPattern {
        /// The pattern.
        pattern: String,
        /// Where it stands, if in a file; starts with a space.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The memory budget is too small for this repository.
    #[error(
        "a memory budget of {} MiB is too small: {} MiB are needed",
        *budget >> 20,
        needed.div_ceil(1 << 20)
    )]
    MemoryBudget {
        /// The budget, bytes.
        budget: u64,
        /// What the operation needs at least, bytes.
        needed: u64,
    },
    /// None of the paths to back up could be read.
    #[error("nothing to back up: no path could be read ({paths} given)")]
    NothingToBackUp {
        /// How many paths were given.
        paths: usize,
    },
    /// A stream can't become a file of this name.
    #[error("a stream cannot be stored as {name:?}: {source}")]
    BadStreamName {
        /// The name.
        name: String,
        /// What is wrong with it.
        source: ibid_format::Error,
    },
    /// The format can't hold so much.
    #[error("{what} is beyond what the format can hold: at most {limit}")]
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The system refuses to start a thread.
    #[error("cannot start the threads that this takes: {source}")]
    Threads {
        /// The system's answer.
        source: std::io::Error,
    },
    /// The [`Monitor`](crate::Monitor) was told to stop the operation.
    #[error("interrupted")]
    Interrupted,
}

/// Why a chunk that others are stored as deltas against can't be read. Each text continues the
/// chunk's name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaseFault {
    /// The index does not know the chunk.
    #[error("which is in no pack of the repository")]
    Missing,
    /// The chunk is stored only in frames that could themselves depend on the one that needs it.
    #[error("which is in frames of depth {found} and more only, and less than {depth} is needed")]
    TooDeep {
        /// The depth of the frame that needs it.
        depth: u8,
        /// The least depth of the frames which have it.
        found: u8,
    },
    /// The chunk ends before the bytes that are needed.
    #[error("of which {end} bytes are needed, and it has {length}")]
    TooShort {
        /// Where the bytes needed end in it.
        end: u64,
        /// Its length, bytes.
        length: u32,
    },
    /// The chunk's bytes are not those that were stored.
    #[error("which does not have the bytes it was stored with, in pack {pack} at offset {offset}")]
    Damaged {
        /// The pack that it is in.
        pack: FileId,
        /// Its frame's offset there, bytes.
        offset: u32,
    },
    /// The chunk's frame can't be read.
    #[error("whose frame, in pack {pack} at offset {offset}, cannot be read: {}", error.problem())]
    Unreadable {
        /// The pack that it is in.
        pack: FileId,
        /// Its frame's offset there, bytes.
        offset: u32,
        /// Why it can't be read.
        error: Box<Error>,
    },
    /// Through a chain of deltas, the chunk needs more frames than a reader decodes for one.
    #[error("which takes more than {limit} frames to decode")]
    TooManyFrames {
        /// The limit.
        limit: u32,
    },
}

/// Says how many frames lead from a frame to a chunk that it does not name itself.
fn through(steps: u8) -> String {
    match steps {
        0 => String::new(),
        1 => " by way of another frame".to_owned(),
        steps => format!(" by way of {steps} other frames"),
    }
}

/// Whether the system refuses to write any more: the disk or the user's quota is full.
pub(crate) fn is_no_room(source: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn config_text(source: &ibid_format::Error) -> String {
    match source {
        // It may be whole, and this program too old for it.
        ibid_format::Error::Version { .. } => source.to_string(),
        source => format!("config is damaged or was tampered with: {source}"),
    }
}

fn count_text(matches: usize) -> String {
    match matches {
        0 => "no key slot has".to_owned(),
        matches => format!("{matches} key slots have"),
    }
}

/// Says why some key slots could not be tried.
fn also(untried: &Option<Box<Error>>) -> String {
    untried
        .as_ref()
        .map_or_else(String::new, |error| format!("; also: {error}"))
}

/// What operations on a repository return.
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

    /// Returns what is wrong, for a report that names the file already.
    pub(crate) fn problem(&self) -> String {
        match self {
            Error::Damaged { source, .. } => format!("damaged or tampered with: {source}"),
            Error::Contradiction { pack, .. } => {
                format!("contradicts what else is known of pack {pack}, and is not used")
            }
            Error::BaseUnreadable { base, steps, fault, .. } => {
                format!("a delta against chunk {base}…{}, {fault}", through(*steps))
            }
            Error::ChunkMissing { id } => format!("chunk {id} is missing"),
            Error::ChunkDamaged { id, pack } => {
                format!("chunk {id} in pack {pack} does not have the bytes it was stored with")
            }
            error => error.to_string(),
        }
    }

    /// Whether what is stored is damaged. [`check`](crate::Repository::check) then tells more.
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
