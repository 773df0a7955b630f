//! Requests to the writer, and its answers.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use ibid_format::record::{
    Body, BodyCheck, ChainEntry, Digest, Epoch, IndexValues, LatestEntry, LogEntry, LogState, Place, PurgedMark,
    RetentionEntry, Stopped,
};

use crate::compact::RECORD_BYTES;
use crate::condition::Condition;
use crate::engine::Table;
use crate::error::Error;
use crate::index::Unique;
use crate::read::records::StoredBody;
use crate::versions::Versions;

/// The promise of a change when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The change is on disk.
    Sync,
    /// Readers see the change, and it is on disk after this time. A crash before that may lose it
    /// and the changes after it. If the sync fails, all later changes return an error.
    Batched(Duration),
    /// Readers see the change. It is on disk after [`Store::sync`](crate::Store::sync), after a
    /// later change that is synced, or when the store is closed.
    None,
}

/// A command, and where its outcome goes.
pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) durability: Durability,
    pub(crate) outcome: SyncSender<Result<Outcome, Error>>,
}

pub(crate) enum Command {
    /// Do all operations if all requirements hold, or none.
    Batch(Changes),
    /// Find the namespace of this name, or make it.
    Namespace(Arc<str>, Versions),
    /// Find the index of this name, or make it.
    Index(Target, Arc<str>, Unique),
    /// Change a setting of a namespace.
    Set(Target, Setting),
    /// Remove what namespaces no longer keep.
    Expire(Expirations),
    /// Store the results of the encoder.
    Encode(EncodedBatch),
    /// Store records without the purged ones that they needed.
    Rebase(Vec<Rewrite>),
    /// Note that the bytes of all that was purged until then are gone.
    ForgetPurges(PurgedMark),
    /// Move records into a block.
    AddBlock(NewBlock),
    /// Remove these blocks, if no record is in them.
    RemoveBlocks(FreedBlocks),
    /// Change the role of the store, or its log.
    Log(LogCommand),
    /// Do nothing but sync.
    Sync,
}

impl Command {
    /// Returns the bytes of bodies that it holds in memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Command::Batch(changes) => changes.operations.iter().map(Operation::body_bytes).sum(),
            Command::Rebase(rewrites) => rewrites.iter().map(|rewrite| rewrite.delta.len()).sum(),
            Command::AddBlock(block) => block.bytes.len(),
            Command::Log(LogCommand::Replay(received)) => {
                let operations = received.entries.iter().flat_map(|entry| &entry.operations);
                operations.map(Operation::body_bytes).sum()
            }
            Command::Namespace(..)
            | Command::Index(..)
            | Command::Set(..)
            | Command::Expire(_)
            | Command::ForgetPurges(_)
            | Command::Encode(_)
            | Command::RemoveBlocks(_)
            | Command::Log(_)
            | Command::Sync => 0,
        }
    }

    /// Returns how many records it changes, at least 1.
    pub(crate) fn changes(&self) -> usize {
        let changes = match self {
            Command::Batch(changes) => changes.operations.len(),
            Command::Rebase(rewrites) => rewrites.len(),
            Command::Encode(encoded) => encoded.rewrites.len(),
            Command::AddBlock(block) => block.records.len(),
            Command::Log(LogCommand::Replay(received)) => {
                received.entries.iter().map(|entry| entry.operations.len()).sum()
            }
            Command::Namespace(..)
            | Command::Index(..)
            | Command::Set(..)
            | Command::Expire(_)
            | Command::ForgetPurges(_)
            | Command::RemoveBlocks(_)
            | Command::Log(_)
            | Command::Sync => 1,
        };
        changes.max(1)
    }

    /// Returns about how many bytes of records it changes, at least 1 if any; 0 for a command of the keeper. For each
    /// operation of a batch, [`RECORD_BYTES`] are among them.
    pub(crate) fn changed_bytes(&self) -> u64 {
        let bytes = match self {
            Command::Batch(_) | Command::Log(LogCommand::Replay(_)) => {
                self.bytes() + RECORD_BYTES as usize * self.changes()
            }
            Command::Encode(encoded) => encoded.rewrites.iter().map(|rewrite| rewrite.delta.len()).sum(),
            Command::Log(LogCommand::StorePart(_)) => PART_BYTES,
            Command::Log(_) | Command::Rebase(_) | Command::Expire(_) => self.bytes(),
            Command::Namespace(..)
            | Command::Index(..)
            | Command::Set(..)
            | Command::ForgetPurges(_)
            | Command::AddBlock(_)
            | Command::RemoveBlocks(_)
            | Command::Sync => return 0,
        };
        bytes as u64 + 1
    }
}

/// About the bytes of a part of the contents that a replica receives.
const PART_BYTES: usize = 1 << 20;

/// A setting of a namespace.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Setting {
    /// What it keeps.
    Retention(RetentionEntry),
    /// How its latest versions are stored.
    Latest(LatestEntry),
}

impl Setting {
    /// Returns what the log says of it.
    pub(crate) fn log_entry(self, namespace: u32) -> LogEntry {
        match self {
            Setting::Retention(retention) => LogEntry::Retention { namespace, retention },
            Setting::Latest(latest) => LogEntry::Latest { namespace, latest },
        }
    }
}

pub(crate) enum Outcome {
    /// For each operation of a batch the record that it wrote, if it wrote one.
    Written(Vec<Option<Written>>),
    /// The number of a namespace.
    Namespace(u32),
    /// The number of an index.
    Index(u8),
    /// The epoch for which the store was fenced before; [`None`] if it was not.
    Fenced(Option<u64>),
    Done,
}

/// A record that an operation wrote.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) number: u64,
    /// The record that was the key's latest before, or else the latest of the key that the caller
    /// named as similar.
    pub(crate) prior: Option<Prior>,
}

/// An older record that a new one probably resembles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prior {
    pub(crate) number: u64,
    /// Whether it was replaced, so that it is no key's latest version any more.
    pub(crate) is_replaced: bool,
}

/// The contents of a batch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    pub(crate) operations: Vec<Operation>,
    /// In the order of the operations before them.
    pub(crate) requirements: Vec<Requirement>,
    /// Whether records without a time of their own get none, instead of that of the commit.
    pub(crate) undated: bool,
}

/// A state that a key must be in.
#[derive(Debug, Clone)]
pub(crate) struct Requirement {
    pub(crate) target: Target,
    pub(crate) key: Vec<u8>,
    pub(crate) condition: Condition,
    /// The number of operations before it, whose changes it sees.
    pub(crate) after: usize,
}

/// One change of one key.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) target: Target,
    pub(crate) key: Vec<u8>,
    pub(crate) change: Change,
    /// The key of a record that resembles this one, as the caller says.
    pub(crate) like: Option<Vec<u8>>,
    /// The time of the record, milliseconds since 1970; 0 for that of the commit.
    pub(crate) time: u64,
    /// When the record expires, milliseconds since 1970; 0 if it does not.
    pub(crate) expires: u64,
    /// The index values that the key has from then on.
    pub(crate) values: IndexValues,
    /// Whether the body is a list of pieces.
    pub(crate) in_pieces: bool,
}

impl Operation {
    /// Returns a change of a key with nothing else.
    pub(crate) fn new(target: Target, key: Vec<u8>, change: Change) -> Self {
        Operation {
            target,
            key,
            change,
            like: None,
            time: 0,
            expires: 0,
            values: IndexValues::new(),
            in_pieces: false,
        }
    }

    pub(crate) fn body_bytes(&self) -> usize {
        self.change.body().map_or(0, <[u8]>::len)
    }

    /// Returns about how many bytes its keys take in the log: its own and its index values.
    pub(crate) fn key_bytes(&self) -> usize {
        let values = self.values.iter().map(|(_, value)| value.len() + 4);
        self.key.len() + values.sum::<usize>()
    }
}

/// A namespace as the writer needs it: it holds nothing that keeps the store open.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) name: Arc<str>,
    pub(crate) number: u32,
    pub(crate) versions_kept: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Change {
    Insert(Vec<u8>),
    Update(Vec<u8>),
    Put(Vec<u8>),
    /// Store a body unless the key has one.
    PutIfAbsent(Vec<u8>),
    Delete,
    Purge,
    /// Purge versions from the first to the last.
    PurgeVersions {
        from: u32,
        to: u32,
    },
    /// Set the index values of a key that has a body, without a new version.
    SetIndexValues,
}

impl Change {
    /// Returns the body that is stored, to be replaced.
    pub(crate) fn body_mut(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Change::Insert(body) | Change::Update(body) | Change::Put(body) | Change::PutIfAbsent(body) => Some(body),
            Change::Delete | Change::Purge | Change::PurgeVersions { .. } | Change::SetIndexValues => None,
        }
    }

    /// Returns the body that is stored; [`None`] if the change removes one.
    pub(crate) fn body(&self) -> Option<&[u8]> {
        match self {
            Change::Insert(body) | Change::Update(body) | Change::Put(body) | Change::PutIfAbsent(body) => Some(body),
            Change::Delete | Change::Purge | Change::PurgeVersions { .. } | Change::SetIndexValues => None,
        }
    }
}

/// What namespaces no longer keep.
pub(crate) struct Expirations {
    /// Each with the record that was the key's latest version. If the key has changed, it stays.
    pub(crate) operations: Vec<(u64, Operation)>,
    /// The time at which they were to be removed, milliseconds since 1970.
    pub(crate) clock: u64,
}

/// The results of the encoder since they were last written.
#[derive(Debug)]
pub(crate) struct EncodedBatch {
    pub(crate) rewrites: Vec<Rewrite>,
    /// New entries of the table `chains`; [`None`] removes an entry.
    pub(crate) chains: Vec<(u64, Option<ChainEntry>)>,
    /// The first record that the encoder has not looked at.
    pub(crate) next: u64,
    /// Namespaces in which something is not encoded any more.
    pub(crate) given_up: Vec<(u32, Stopped)>,
}

/// A record as a delta of another, or whole.
#[derive(Debug)]
pub(crate) struct Rewrite {
    pub(crate) number: u64,
    /// The record from which the delta makes the body; the record itself if it is whole.
    pub(crate) base: u64,
    /// The checksum of the body.
    pub(crate) check: BodyCheck,
    /// The delta, or the body if it is whole.
    pub(crate) delta: Vec<u8>,
}

impl Rewrite {
    pub(crate) fn is_whole(&self) -> bool {
        self.base == self.number
    }

    /// Returns the body as it will be stored.
    pub(crate) fn body(&self) -> Body<'_> {
        if self.is_whole() {
            return Body::Whole(&self.delta);
        }
        Body::Delta {
            base: self.base,
            check: self.check,
            delta: &self.delta,
        }
    }

    pub(crate) fn stored_body(&self) -> StoredBody {
        StoredBody::of(self.body())
    }
}

/// Blocks whose records were moved elsewhere.
#[derive(Debug, Default)]
pub(crate) struct FreedBlocks {
    pub(crate) blocks: Vec<u64>,
    /// The records that were in them; [`None`] if all records are to be looked at for one that still is.
    pub(crate) records: Option<Vec<u64>>,
}

/// A block, and the records that move into it.
#[derive(Debug)]
pub(crate) struct NewBlock {
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) records: Vec<MovedRecord>,
}

/// A record that moves into a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MovedRecord {
    pub(crate) number: u64,
    /// The frame of the block that it moves into.
    pub(crate) frame: u8,
    pub(crate) origin: Origin,
    /// Its length in the frame, before compression.
    pub(crate) bytes: u32,
}

/// The place of a record when it was compressed into a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In an entry of its own, which ends with this checksum.
    Single([u8; 8]),
    /// In another block.
    Block(Place),
}

/// A change of a store's role or of its log.
pub(crate) enum LogCommand {
    /// Become a replica.
    Follow,
    /// Become the primary of a new epoch with this random id, and with this number if there is one.
    Promote { number: Option<u64>, id: u64 },
    /// Write nothing more: another store is, or will be, the primary of this epoch.
    Fence { by: u64 },
    /// Remove the entries before this position.
    Truncate { first: u64 },
    /// Repeat entries of the primary.
    Replay(ReceivedEntries),
    /// Remove all contents, before those of the primary of this store are received in parts.
    BeginTransfer {
        transfer: u64,
        store: [u8; 16],
        epoch: Epoch,
    },
    /// Store a part of the primary's contents.
    StorePart(TransferPart),
}

/// Entries of a primary's log, with the bodies of their records.
pub(crate) struct ReceivedEntries {
    /// The id of the store that they are from.
    pub(crate) store: [u8; 16],
    /// The position of the first.
    pub(crate) from: u64,
    pub(crate) entries: Vec<ReceivedEntry>,
    /// The digest of the last.
    pub(crate) digest: Digest,
}

pub(crate) struct ReceivedEntry {
    pub(crate) entry: LogEntry,
    /// The operations of a batch; none for other entries.
    pub(crate) operations: Vec<Operation>,
}

/// A part of all contents of a primary.
pub(crate) struct TransferPart {
    pub(crate) transfer: u64,
    /// The table and key of the last pair before this part.
    pub(crate) after: (u8, Vec<u8>),
    pub(crate) pairs: Vec<(u8, Vec<u8>, Vec<u8>)>,
    /// The state of the primary's log, with the last part only.
    pub(crate) log: Option<LogState>,
}

/// The tables that a transfer contains, with their numbers in messages, in the order in which they
/// are sent. Of `meta` only the numbers that come next are sent.
pub(crate) const TRANSFERRED_TABLES: [(u8, Table); 8] = [
    (1, Table::Namespaces),
    (2, Table::Keys),
    (3, Table::Versions),
    (4, Table::References),
    (5, Table::Oplog),
    (6, Table::Records),
    (7, Table::Meta),
    (8, Table::Indexes),
];
