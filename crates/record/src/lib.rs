//! Which versions has a record? Values under keys, in namespaces, on an embedded transactional
//! engine.
//!
//! A [`Store`] is a folder. A [`Namespace`] of it holds records under keys and, if asked to, all
//! their versions. A [`Batch`] changes several at once, a [`Snapshot`] reads several at once. Every
//! change is committed with a [`Durability`].
//!
//! Beneath is an [`engine`], which can be another one than redb; [`conformance`] holds the tests
//! that every engine passes. What lies in its tables is described in `docs/format/records.md`, with
//! checksums of our own: a byte that changes on the way is an error, never a wrong record.
//!
//! ```
//! use std::time::Duration;
//! use ibid_record::{Durability, Options, Store, Versions};
//! # let folder = tempfile::tempdir()?;
//! let durability = Durability::Batched(Duration::from_millis(100));
//! let store = Store::open(folder.path(), Options { durability, ..Options::default() })?;
//! let settings = store.namespace("settings", Versions::Latest)?;
//! settings.insert(b"colour", b"green")?;
//! settings.put(b"colour", b"blue")?;
//! assert_eq!(settings.get_many(&[b"colour", b"size"])?, [Some(b"blue".to_vec()), None]);
//! store.sync()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod audit;
pub mod conformance;
mod encode;
pub mod engine;
mod error;
mod read;
mod recent;
pub mod replicate;
mod store;
mod write;

pub use audit::{
    Amount, BodySizes, Bucket, Compaction, FAULTS_MAX, Fault, NamespaceCounts, NamespaceStatistics, Problem,
    Retrievals, SizeClass, Statistics, Verification,
};
pub use encode::{Encoding, EncodingReport, Governor, Retrieval};
pub use error::{Damage, Error};
pub use ibid_delta::{FeatureBytes, Interval};
pub use ibid_format::record::{Refusal, Role};
pub use ibid_format::slot::Argon2Cost;
pub use store::{Batch, Durability, EngineKind, Namespace, Options, Record, Snapshot, Store, Version, Versions};
pub use write::replay::Log;
