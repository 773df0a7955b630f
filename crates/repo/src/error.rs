//! Errors of this crate, one variant per cause. A message says what failed, on which object, and
//! why. Advice to the user is left to the program.

use std::path::PathBuf;

use ibid_format::{ChunkId, ChunkPrefix, FileId};

use crate::changed_blocks::ChangedBlocksError;

/// Reason why an operation on a repository failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage reported an error.
    #[error(transparent)]
    Storage(ibid_storage::Error),
    /// A writer's key was used for something else than to store a snapshot.
    #[error("the key of a writer stores snapshots and nothing else: {action} takes a password of the repository")]
    WriteOnly {
        /// What was to be done.
        action: &'static str,
    },
    /// Something was to be done with the snapshots of a writer that works with those of keepers alone.
    #[error("{action} is not possible yet with the snapshots of a writer: they can be read, and copied elsewhere")]
    OfWriter {
        /// What was to be done.
        action: &'static str,
    },
    /// The config of a writer is lost or damaged. A keeper [makes it again](crate::Repository::repair_writer_config).
    #[error("the config of writer {} can't be used: {problem}", &id.to_string()[..8])]
    WriterConfig {
        /// Id of the writer.
        id: FileId,
        /// What is wrong with it.
        problem: String,
    },
    /// No writer, or more than one, has this label or an id that begins so.
    #[error("{}", writers_text(wanted, *matches))]
    UnknownWriter {
        /// What was given.
        wanted: String,
        /// How many match.
        matches: usize,
    },
    /// Another writer has the label that a new one was to have.
    #[error("there is a writer {label:?} already")]
    WriterExists {
        /// The label.
        label: String,
    },
    /// A lock is weaker than the one that the repository records.
    #[error("the files of this repository are locked for {recorded}, and {lock} is less")]
    WeakerLock {
        /// The weaker one.
        lock: ibid_storage::Lock,
        /// What the repository records.
        recorded: ibid_storage::Lock,
    },
    /// The writer was revoked.
    #[error("writer {id} was removed: what it stores does not count any more")]
    WriterRevoked {
        /// Its id.
        id: FileId,
    },
    /// The key is that of a writer of another repository.
    #[error("the key is for repository {expected}, and the one in {location} is {found}")]
    WriterOfAnother {
        /// The repository that the key is for.
        expected: FileId,
        /// The repository that is there.
        found: FileId,
        /// Address of the storage.
        location: String,
    },
    /// Data that is needed is in packs that the storage keeps in an archive, and that are not thawed. A restore has
    /// written nothing.
    #[error("{} in an archive, and not thawed", needed_text(*packs, *bytes))]
    Archived {
        /// How many packs.
        packs: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// A writer was to store in an archive class, or the files of one are in it: a prune could not verify them.
    #[error("what a writer stores must be read to be verified, so it can't be kept in an archive")]
    WriterArchives,
    /// A file of the repository is damaged: it can't be decrypted or parsed.
    #[error("{object} is damaged or was tampered with{}", beyond_its_place(source))]
    Damaged {
        /// Path of the file, or the frame in it.
        object: String,
        /// Error of the decoder.
        source: ibid_format::Error,
    },
    /// An entry of the prune log is damaged. Which packs are being deleted follows from the entry before it.
    #[error("{object}, an entry of the prune log, is unreadable: {problem}")]
    LogDamaged {
        /// Path of the entry.
        object: String,
        /// The problem.
        problem: String,
    },
    /// A pruner has ended this backup, because it had waited for too long. What it has stored stays, and the
    /// next one uses what is still there.
    #[error("a prune has ended this backup, because it did not end for so long")]
    SessionEnded,
    /// A span of time can't be read.
    #[error("{text:?} is no span of time: write it as 1y2m3w4d5h, with any of these parts")]
    BadSpan {
        /// What was given.
        text: String,
    },
    /// No forgotten snapshot has this name.
    #[error(
        "there is no forgotten snapshot {wanted:?}: it was never forgotten, is back already, or a prune has freed it"
    )]
    NotForgotten {
        /// The beginning of the id that was given.
        wanted: String,
    },
    /// A forgotten snapshot can't come back, because a prune has begun to free what it needs.
    #[error("snapshot {id} can't come back: a prune has begun to free what it needs")]
    PartlyFreed {
        /// Its id.
        id: FileId,
    },
    /// A snapshot can't be stored again under another id, because a part of what it needs is missing.
    #[error("snapshot {snapshot} can't be stored again: a part of its data is missing")]
    SnapshotIncomplete {
        /// First digits of its id.
        snapshot: String,
    },
    /// A snapshot that was to be changed has been changed or forgotten by another process meanwhile.
    #[error("snapshot {snapshot} is no longer there: another process has changed or forgotten it meanwhile")]
    SnapshotGone {
        /// First digits of its id.
        snapshot: String,
    },
    /// A repository without encryption was to share the key of chunk ids of an encrypted one.
    #[error(
        "a repository without encryption cannot be like an encrypted one: anyone could read the key of its chunk ids"
    )]
    KeyWouldBeOpen,
    /// A prune was to be the only one at work, and a session is open.
    #[error(
        "session {} is open: {what}. A prune with --exclusive needs that nothing else runs",
        &session.to_string()[..8]
    )]
    SessionOpen {
        /// The session.
        session: ibid_format::FileId,
        /// What it says of itself, or why it can't be read.
        what: String,
    },
    /// Other prunes were faster, again and again. Try again later.
    #[error("other prunes of this repository were faster, again and again")]
    PruneBusy,
    /// The format can't represent a file's entry, so the file can't be backed up.
    #[error("it cannot be stored: {0}")]
    Unstorable(ibid_format::Error),
    /// The config can't be read. Without it, the repository can't be opened.
    #[error("{}", config_text(source))]
    ConfigDamaged {
        /// Error of the decoder.
        source: ibid_format::Error,
    },
    /// The config is missing, but other files of the repository are there. Without it, the repository can't
    /// be opened.
    #[error("the file config of the repository in {location} is missing, its other files are there")]
    ConfigMissing {
        /// Address of the storage.
        location: String,
        /// Whether there is a copy of it, from which a
        /// [repair](crate::Repository::repair_config) can make it again.
        has_copy: bool,
    },
    /// The storage holds data that is not a repository.
    #[error("{location} is no ibid repository: {found}")]
    NotARepository {
        /// Address of the storage.
        location: String,
        /// Contents of the storage.
        found: String,
    },
    /// The storage holds no repository.
    #[error("there is no repository in {location}")]
    NoRepository {
        /// Address of the storage.
        location: String,
    },
    /// A new repository can't be created because one exists there already.
    #[error("there is a repository in {location} already")]
    RepositoryExists {
        /// Address of the storage.
        location: String,
    },
    /// The password opens no key slot.
    #[error(
        "wrong password: it opens no key slot of {location} ({slots} tried{})",
        also(untried)
    )]
    WrongPassword {
        /// Number of slots tried.
        slots: usize,
        /// Address of the repository.
        location: String,
        /// Error of the last slot that could not be tried, if any.
        untried: Option<Box<Error>>,
    },
    /// The key with which a cache has opened the repository is not there any more. Nothing was read or changed.
    #[error("the key that this machine remembers opens {location} no longer")]
    KeyGone {
        /// Address of the repository.
        location: String,
    },
    /// A key slot asks for more memory or time than this program allows.
    #[error("key {id} can't be used: {source}")]
    KeyUnusable {
        /// Id of the slot.
        id: FileId,
        /// The limit exceeded.
        source: ibid_format::Error,
    },
    /// The settings given for a new object are out of range, or the object could not be opened
    /// again.
    #[error("cannot make {what}: {source}")]
    Refused {
        /// Type of the object.
        what: &'static str,
        /// The limit violated.
        source: ibid_format::Error,
    },
    /// A new key slot was stored and read back, but did not open the repository. The slot was
    /// removed; all other keys are unchanged.
    #[error("the new key {id} did not open the repository when it was read back; all keys are as they were before")]
    KeyNotStored {
        /// Id of the slot.
        id: FileId,
    },
    /// The new password already opens another slot.
    #[error("key {id} opens with this password already")]
    PasswordInUse {
        /// Id of that slot.
        id: FileId,
    },
    /// The repository is encrypted and no password was given.
    #[error("the repository in {location} is encrypted and no password was given")]
    PasswordNeeded {
        /// Address of the repository.
        location: String,
    },
    /// A password was given for a repository that is not encrypted. An attacker may have replaced
    /// your repository with this one.
    #[error("a password was given, but the repository in {location} is NOT encrypted")]
    NotEncrypted {
        /// Address of the repository.
        location: String,
    },
    /// The repository has no readable key slot.
    #[error("the repository in {location} has no usable key slot ({found} files under keys/)")]
    NoKeys {
        /// Address of the repository.
        location: String,
        /// Number of files in the folder of key slots.
        found: usize,
    },
    /// The key slot that opened the repository can't be removed: it is the only one known to open
    /// it.
    #[error("key {id} is the one that opened the repository")]
    KeyInUse {
        /// Id of the slot.
        id: FileId,
    },
    /// No key slot, or more than one, has an id that starts with these digits.
    #[error("{} an id that starts with {wanted:?}", count_text(*matches))]
    UnknownKey {
        /// The digits given.
        wanted: String,
        /// Number of slots that match.
        matches: usize,
    },
    /// The chunker settings are invalid.
    #[error("chunker: {0}")]
    Chunker(#[from] ibid_chunk::SettingsError),
    /// No snapshot has this name.
    #[error("no snapshot matches {wanted:?}")]
    UnknownSnapshot {
        /// The name given.
        wanted: String,
    },
    /// Several snapshot ids start with these digits.
    #[error("{wanted:?} could be any of {matches} snapshots")]
    AmbiguousSnapshot {
        /// The digits given.
        wanted: String,
        /// Number of snapshots that match.
        matches: usize,
    },
    /// The snapshot does not contain this path.
    #[error("snapshot {snapshot} has no {path:?}")]
    NoSuchPath {
        /// The first digits of the snapshot's id.
        snapshot: String,
        /// The path asked for.
        path: PathBuf,
    },
    /// A path in a snapshot has another file type than the operation needs.
    #[error("{path:?} in snapshot {snapshot} is {found}, not {expected}")]
    WrongType {
        /// The first digits of the snapshot's id.
        snapshot: String,
        /// The path.
        path: PathBuf,
        /// File type that the operation needs.
        expected: &'static str,
        /// File type of the path.
        found: &'static str,
    },
    /// A tree refers to a chunk that is not in the index.
    #[error("chunk {id} is in no pack of the repository")]
    ChunkMissing {
        /// The chunk.
        id: ChunkId,
    },
    /// A chunk was there when the index was loaded, and no snapshot needed it when a prune looked meanwhile.
    #[error("chunk {id} was freed by a prune meanwhile")]
    ChunkFreed {
        /// The chunk.
        id: ChunkId,
    },
    /// A chunk's bytes do not match its id.
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
        /// Pack and offset of the frame.
        object: String,
        /// The first bytes of the base chunk's id.
        base: ChunkPrefix,
        /// Number of frames between this frame and the base chunk: 0 if the frame itself names the
        /// chunk.
        steps: u8,
        /// Reason why the chunk can't be read.
        fault: BaseFault,
    },
    /// Two index files contradict each other about one pack.
    #[error("index {index} contradicts what else is known of pack {pack}, and is not used")]
    Contradiction {
        /// Id of the index file that was read later.
        index: FileId,
        /// Id of the pack.
        pack: FileId,
    },
    /// A pack that a writer has signed does not hold the chunks that it says, or has deltas, which writers do not
    /// store. The writer was taken over, or its machine is broken.
    #[error("pack {pack} does not hold the chunks that the writer says")]
    FalsePack {
        /// Id of the pack.
        pack: FileId,
    },
    /// A slot of a frame holds another chunk than the index says.
    #[error("slot {slot} of the frame at offset {offset} of pack {pack} holds another chunk than the index says")]
    Misplaced {
        /// Id of the pack.
        pack: FileId,
        /// Offset of the frame in the pack, bytes.
        offset: u32,
        /// Slot in the frame.
        slot: u16,
    },
    /// The lengths in a list of chunks do not add up.
    #[error("a list of chunks in the repository contradicts itself: expected {expected} bytes, found {found}")]
    BadRecipe {
        /// Length that the parent states, bytes.
        expected: u64,
        /// Sum of the lengths in the list, bytes.
        found: u64,
    },
    /// An operation on the local file system failed.
    #[error("cannot {action} {path:?}: {source}")]
    Local {
        /// The attempted action, a verb.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A stream, such as standard input or output, failed.
    #[error("cannot {action}: {source}")]
    Pipe {
        /// The attempted action, a verb with its object.
        action: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The destination of a restore already contains files, and no rule for overwriting was given.
    /// Nothing was written.
    #[error("{path:?} exists; nothing was written")]
    WouldOverwrite {
        /// The first such path.
        path: PathBuf,
    },
    /// A pattern has a syntax error.
    #[error("pattern {pattern:?}{place}: {reason}")]
    BadPattern {
        /// The pattern.
        pattern: String,
        /// Position of the pattern if it comes from a file; starts with a space.
        place: String,
        /// The syntax error.
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
        /// Smallest budget that the operation can run with, bytes.
        needed: u64,
    },
    /// None of the paths to back up could be read.
    #[error("nothing to back up: no path could be read ({paths} given)")]
    NothingToBackUp {
        /// Number of paths given.
        paths: usize,
    },
    /// So many paths, or so long ones, do not fit into a snapshot. Nothing was read.
    #[error(
        "{paths} paths of {bytes} bytes are more than a snapshot can record: at most {} paths of {} MiB",
        ibid_format::snapshot::LIST_MAX,
        crate::ingest::PATHS_BYTES_MAX >> 20
    )]
    TooManyPaths {
        /// Number of paths given, without duplicates.
        paths: usize,
        /// Bytes of these paths.
        bytes: u64,
    },
    /// A rewrite would leave nothing of a snapshot.
    #[error("nothing would be left of snapshot {snapshot}")]
    NothingLeft {
        /// The first digits of its id.
        snapshot: String,
    },
    /// A folder of a snapshot can't be read, so a prune does not know what it needs. Nothing is freed.
    #[error("a folder of snapshot {snapshot} can't be read, so nothing is freed: what it needs is unknown. {source}")]
    NeedsUnknown {
        /// The first digits of its id.
        snapshot: String,
        /// The cause.
        source: Box<Error>,
    },
    /// No file has this name, so its presence can't exclude anything.
    #[error("no file can be called {name:?}: {source}")]
    BadTagName {
        /// The name.
        name: String,
        /// The rule violated.
        source: ibid_format::Error,
    },
    /// A stream can't be stored as a file of this name.
    #[error("a stream cannot be stored as {name:?}: {source}")]
    BadStreamName {
        /// The name.
        name: String,
        /// The rule violated.
        source: ibid_format::Error,
    },
    /// A map of changed blocks can't be used.
    #[error("cannot use the map of changed blocks: {0}")]
    ChangedBlocks(#[from] ChangedBlocksError),
    /// A limit of the format was exceeded.
    #[error("{what} is beyond what the format can hold: at most {limit}")]
    TooMuch {
        /// The quantity that exceeded it.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The system can't start another thread.
    #[error("cannot start the threads that this takes: {source}")]
    Threads {
        /// The system's error.
        source: std::io::Error,
    },
    /// The operation was cancelled through its [`Monitor`](crate::Monitor).
    #[error("interrupted")]
    Interrupted,
}

/// Reason why a base chunk can't be read. Each message continues the chunk's name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaseFault {
    /// The chunk is not in the index.
    #[error("which is in no pack of the repository")]
    Missing,
    /// All frames that hold the chunk are at the same depth or deeper, so they might depend on the
    /// frame that needs it.
    #[error("which is in frames of depth {found} and more only, and less than {depth} is needed")]
    TooDeep {
        /// Depth of the frame that needs the chunk.
        depth: u8,
        /// Smallest depth of the frames that hold it.
        found: u8,
    },
    /// The chunk ends before the bytes that are needed.
    #[error("of which {end} bytes are needed, and it has {length}")]
    TooShort {
        /// End of the needed bytes in the chunk.
        end: u64,
        /// Length of the chunk, bytes.
        length: u32,
    },
    /// The chunk's bytes do not match its id.
    #[error("which does not have the bytes it was stored with, in pack {pack} at offset {offset}")]
    Damaged {
        /// Pack that holds the chunk.
        pack: FileId,
        /// Offset of the chunk's frame in the pack, bytes.
        offset: u32,
    },
    /// The chunk's frame can't be read.
    #[error("whose frame, in pack {pack} at offset {offset}, cannot be read: {}", error.problem())]
    Unreadable {
        /// Pack that holds the chunk.
        pack: FileId,
        /// Offset of the chunk's frame in the pack, bytes.
        offset: u32,
        /// The read error.
        error: Box<Error>,
    },
    /// Its chain of deltas needs more frames than a reader decodes for one chunk, with the memory that
    /// it has to keep them.
    #[error("which takes more than {limit} frames to decode in this memory")]
    TooManyFrames {
        /// The limit.
        limit: u32,
    },
}

/// Returns a phrase with the number of frames between a frame and a chunk that it does not name
/// itself.
fn through(steps: u8) -> String {
    match steps {
        0 => String::new(),
        1 => " by way of another frame".to_owned(),
        steps => format!(" by way of {steps} other frames"),
    }
}

/// Returns what the decoder says, unless that is only the file and the place, which the message
/// names already.
fn beyond_its_place(source: &ibid_format::Error) -> String {
    match source {
        ibid_format::Error::Seal { .. } | ibid_format::Error::Check { .. } => String::new(),
        source => format!(": {source}"),
    }
}

/// Returns whether a write failed because the disk or the user's quota is full.
pub(crate) fn is_no_room(source: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn config_text(source: &ibid_format::Error) -> String {
    match source {
        // The file may be intact but written by a newer version of the program.
        ibid_format::Error::Version { .. } => source.to_string(),
        source => format!("config is damaged or was tampered with{}", beyond_its_place(source)),
    }
}

fn count_text(matches: usize) -> String {
    match matches {
        0 => "no key slot has".to_owned(),
        matches => format!("{matches} key slots have"),
    }
}

fn writers_text(wanted: &str, matches: usize) -> String {
    match matches {
        0 => format!("there is no writer {wanted:?}"),
        matches => format!("{matches} writers are called {wanted:?}, or have ids that begin so"),
    }
}

fn needed_text(packs: u64, bytes: u64) -> String {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    let size = match bytes >> 20 {
        0 => format!("{} KiB", bytes.div_ceil(1 << 10)),
        1..1024 => format!("{mebibytes:.1} MiB"),
        _ => format!("{:.1} GiB", mebibytes / 1024.0),
    };
    match packs {
        1 => format!("a pack that is needed ({size}) is"),
        packs => format!("{packs} packs that are needed ({size}) are"),
    }
}

/// Returns a phrase that counts the key slots that could not be tried.
fn also(untried: &Option<Box<Error>>) -> String {
    untried
        .as_ref()
        .map_or_else(String::new, |error| format!("; also: {error}"))
}

/// Result of an operation on a repository.
pub type Result<T> = std::result::Result<T, Error>;

impl From<ibid_storage::Error> for Error {
    /// Takes what the storage of a writer's files says of a header for what it is: damage of the file.
    fn from(error: ibid_storage::Error) -> Error {
        let of_header =
            std::error::Error::source(&error).and_then(|source| source.downcast_ref::<ibid_format::Error>());
        if crate::confirming::is_gone(&error) {
            return Error::KeyGone {
                location: error.location().to_owned(),
            };
        }
        match (of_header, error.name()) {
            (Some(source), Some(name)) => Error::Damaged {
                object: name.to_string(),
                source: source.clone(),
            },
            _ => Error::Storage(error),
        }
    }
}

impl Error {
    pub(crate) fn local(action: &'static str, path: impl Into<PathBuf>, source: impl Into<std::io::Error>) -> Error {
        Error::Local {
            action,
            path: path.into(),
            source: source.into(),
        }
    }

    /// Returns whether the error describes the state of one file of the repository, such as damage, its
    /// absence, or that it can't be opened, rather than unreachable storage, lack of memory, or the like.
    pub(crate) fn is_fault(&self) -> bool {
        use ibid_storage::ErrorKind;
        match self {
            Error::Storage(error) => matches!(
                error.kind(),
                ErrorKind::NotFound
                    | ErrorKind::Truncated
                    | ErrorKind::TooLarge
                    | ErrorKind::Io
                    | ErrorKind::PermissionDenied
                    | ErrorKind::NotAnObject
                    | ErrorKind::Archived
            ),
            // A base whose pack is gone, or can't be opened, is a fault as the pack itself is.
            Error::BaseUnreadable {
                fault: BaseFault::Unreadable { error, .. },
                ..
            } => error.is_fault(),
            Error::ChunkFreed { .. } => true,
            error => error.is_damage(),
        }
    }

    /// Returns whether what could not be read is whole, and in an archive: the storage must
    /// [thaw](crate::Repository::thaw) it first.
    pub fn is_archived(&self) -> bool {
        match self {
            Error::Storage(error) => error.kind() == ibid_storage::ErrorKind::Archived,
            Error::BaseUnreadable {
                fault: BaseFault::Unreadable { error, .. },
                ..
            } => error.is_archived(),
            Error::NeedsUnknown { source, .. } => source.is_archived(),
            error => matches!(error, Error::Archived { .. }),
        }
    }

    /// Returns this error of reading what a snapshot needs, with that snapshot.
    pub(crate) fn of_what_is_needed(self, info: &crate::SnapshotInfo) -> Error {
        match self.is_fault() {
            true => Error::NeedsUnknown {
                snapshot: info.short_id(),
                source: Box::new(self),
            },
            false => self,
        }
    }

    /// Returns whether the bytes of a file are damaged, so that it will never be read again: not whether it
    /// could not be read now, or a newer version of this program may read it.
    pub(crate) fn is_of_content(&self) -> bool {
        use ibid_format::Error as FormatError;
        match self {
            Error::Damaged { source, .. } => {
                !matches!(source, FormatError::Version { .. } | FormatError::Unknown { .. })
            }
            _ => false,
        }
    }

    /// Returns whether permission to read a file of the repository was denied.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Error::Storage(error) if error.kind() == ibid_storage::ErrorKind::PermissionDenied)
    }

    pub(crate) fn damaged(object: impl std::fmt::Display) -> impl FnOnce(ibid_format::Error) -> Error {
        move |source| Error::Damaged {
            object: object.to_string(),
            source,
        }
    }

    /// Returns the problem without the name of the file, for a report that already names the file.
    pub(crate) fn problem(&self) -> String {
        match self {
            Error::Damaged { source, .. } => format!("damaged or tampered with{}", beyond_its_place(source)),
            Error::Contradiction { pack, .. } => {
                format!("contradicts what else is known of pack {pack}, and is not used")
            }
            Error::BaseUnreadable { base, steps, fault, .. } => {
                format!("a delta against chunk {base}…{}, {fault}", through(*steps))
            }
            Error::ChunkMissing { id } => format!("chunk {id} is missing"),
            Error::LogDamaged { problem, .. } => problem.clone(),
            Error::ChunkDamaged { id, pack } => {
                format!("chunk {id} in pack {pack} does not have the bytes it was stored with")
            }
            error => error.to_string(),
        }
    }

    /// Returns whether stored data is damaged. Run [`check`](crate::Repository::check) for details.
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
                    | Error::Misplaced { .. }
                    | Error::FalsePack { .. }
                    | Error::ChunkMissing { .. }
                    | Error::ChunkDamaged { .. }
                    | Error::BadRecipe { .. }
                    | Error::BaseUnreadable { .. }
                    | Error::LogDamaged { .. }
                    | Error::WriterConfig { .. }
            ),
        }
    }
}
