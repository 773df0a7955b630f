//! Snapshots of file trees, deduplicated, encrypted, verifiable.
//!
//! A [`Repository`] lives in some [`Storage`](ibid_storage::Storage). [`Repository::backup`] makes
//! a snapshot, [`Repository::restore`] brings it back, [`Repository::check`] says whether
//! everything is there and right. What is stored is described in `docs/format/`, what is promised
//! in `docs/durability.md`.
//!
//! ```
//! use ibid_repo::{BackupOptions, InitOptions, Monitor, Repository, RestoreOptions};
//! # use ibid_format::slot::Argon2Cost;
//! let storage = std::sync::Arc::new(ibid_storage::Memory::new());
//! # let options = InitOptions { cost: Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 }, ..InitOptions::default() };
//! let repository = Repository::init(storage, Some(b"a good password"), &options, 0)?;
//! let paths = vec!["src".into()];
//! repository.backup(BackupOptions { paths, ..BackupOptions::default() }, &Monitor::silent())?;
//!
//! let snapshot = repository.snapshot("latest")?;
//! # let folder = tempfile::tempdir().unwrap();
//! # let destination = folder.path().join("restored");
//! let summary = repository.restore(&snapshot, b"", &destination, &RestoreOptions::default(), &Monitor::silent())?;
//! assert_eq!(summary.failed, 0);
//! # Ok::<(), ibid_repo::Error>(())
//! ```
#![forbid(unsafe_code)]

mod budget;
mod check;
mod clock;
mod error;
mod files;
mod index;
mod ingest;
mod key_slots;
mod keys;
mod layout;
mod monitor;
mod pattern;
mod read;
mod repository;
mod restore;
mod similar;
mod snapshots;
mod source;
mod stats;
mod text;
mod threads;
mod tree;

pub use budget::{MEMORY_DEFAULT, MEMORY_MIN};
pub use check::{AFFECTED_MAX, Affected, CheckReport, Fault, ReadData};
pub use error::{BaseFault, Error, Result};
pub use ingest::{BackupOptions, BackupSummary, Compression, Hints, Similarity, StoredData, Stream};
pub use keys::{KeyChange, KeyInfo};
pub use monitor::{Counters, Monitor, Warning};
pub use pattern::Patterns;
pub use repository::{AVERAGE_DEFAULT, CHUNKER_DEFAULT, InitOptions, Probe, Repository};
pub use restore::{Overwrite, Planned, RestoreOptions, RestoreSummary};
pub use snapshots::{SnapshotFilter, SnapshotInfo, recorded_as, split_address};
pub use source::{Excludes, host_name, user_name};
pub use stats::{DepthClass, FrameClass, ReadCost, SizeClass, Stats};
pub use text::{Size, escape, escape_text};
pub use tree::{Change, Difference, Visit, kind_name};
