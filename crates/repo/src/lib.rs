//! Snapshots of file trees, deduplicated, encrypted, verifiable.
//!
//! A [`Repository`] lives in a [`Storage`]. [`Repository::backup`] makes a snapshot,
//! [`Repository::restore`] writes its files back, and [`Repository::check`] finds missing and damaged
//! data. `docs/format/` specifies the stored format; `docs/durability.md` states what survives a
//! crash.
//!
//! ```
//! use ibid_repo::{BackupOptions, InitOptions, MemoryStorage, Repository, RestoreOptions};
//! # use ibid_repo::Argon2Cost;
//! let storage = std::sync::Arc::new(MemoryStorage::new());
//! let options = InitOptions::default();
//! # let options = options.cost(Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 });
//! let repository = Repository::init(storage, Some(b"a good password"), &options)?;
//! repository.backup(&BackupOptions::default().path("src"))?;
//!
//! let snapshot = repository.snapshot("latest")?;
//! # let folder = tempfile::tempdir().unwrap();
//! # let destination = folder.path().join("restored");
//! let summary = repository.restore(&snapshot, &destination, &RestoreOptions::default())?;
//! assert_eq!(summary.failed, 0);
//! # Ok::<(), ibid_repo::Error>(())
//! ```
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc, clippy::unwrap_used)]

mod archive;
mod archives;
mod budget;
mod cache;
mod changed_blocks;
mod check;
mod checkpoint;
mod clock;
mod confirming;
mod copy;
mod derived;
mod error;
mod files;
mod forget;
mod index;
mod ingest;
mod key_slots;
mod keys;
mod layout;
mod listed;
mod locks;
mod monitor;
mod opening;
mod options;
mod pattern;
mod prune;
mod read;
mod rehearsal;
mod repair;
mod repository;
mod restore;
mod rewrite;
#[doc(hidden)]
pub mod scale;
mod scratch;
mod session;
mod similar;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation;
mod snapshots;
mod source;
mod stats;
mod tags;
#[cfg(test)]
mod testing;
mod threads;
mod tree;
mod writers;

/// Whether ids, time and rules can be replaced by simulations. A release build of the program must not have that.
#[doc(hidden)]
pub const CAN_BE_SIMULATED: bool = cfg!(feature = "simulation");

pub use archive::{ArchiveFormat, ArchiveSummary};
pub use archives::ArchivedPacks;
pub use budget::{MEMORY_DEFAULT, MEMORY_MIN};
pub use cache::{CacheStats, Rates};
pub use changed_blocks::{ChangedBlocks, ChangedBlocksError};
pub use check::{AFFECTED_MAX, Affected, CheckReport, FAULTS_MAX, Fault, PackBytes, ReadData, Unfinished};
pub use checkpoint::CheckpointInfo;
pub use copy::{CopiedSnapshot, CopyOptions, CopyOutcome, CopySummary, MissingData};
pub use error::{BaseFault, Error, Result};
pub use forget::{GroupBy, KeepPolicy, KeepWithin, PolicyDecision, PolicyGap, PolicyGroup};
pub use ibid_chunk::{Settings as ChunkerSettings, SettingsError as ChunkerSettingsError};
pub use ibid_format::checkpoint::Checkpoint;
pub use ibid_format::session::{Process, Session};
pub use ibid_format::slot::{Argon2Cost, Note as KeyNote};
pub use ibid_format::snapshot::{Snapshot, SnapshotTotals};
pub use ibid_format::tree::{EntryKind, InodeFlags, Time, TreeEntry};
pub use ibid_format::writer::WriterKey;
pub use ibid_format::{ChunkId, ChunkPrefix, Error as FormatError, FileId};
pub use ibid_storage::{
    Error as StorageError, Local as LocalStorage, Lock, LockMode, Memory as MemoryStorage, Storage,
};
pub use ingest::{
    BackupOptions, BackupSummary, Checkpoints, Compression, Hints, Similarity, SimilaritySearch, StoredData, Stream,
};
pub use keys::{KeyChange, KeyInfo, KeyOptions};
pub use monitor::{Monitor, ProgressCounters, Warning};
pub use opening::Probe;
pub use pattern::Patterns;
pub use prune::{Limit, PruneEstimate, PruneOptions, PruneSummary, WaitingFor};
pub use rehearsal::{Estimate, Inexact};
pub use repair::{RepairOptions, RepairReport};
pub use repository::{AVERAGE_DEFAULT, CACHED_DATA_DEFAULT, CHUNKER_DEFAULT, InitOptions, Repository, check_memory};
pub use restore::{Overwrite, Planned, RestoreOptions, RestoreSummary};
pub use rewrite::{RewriteOptions, RewriteSummary};
pub use session::{SessionInfo, SessionState};
pub use snapshots::{SnapshotFilter, SnapshotInfo, SnapshotPath};
pub use source::Excludes;
pub use stats::{DepthClass, FrameClass, ReadCost, SizeClass, Stats};
pub use tree::{Change, Difference, FilePart, Search, Visit};
pub use writers::{Party, WriterInfo};
