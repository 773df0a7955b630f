//! An embedded store of records: values under keys, in namespaces, with all their versions if you
//! ask for them.
//!
//! A [`Store`] is a folder. A [`Namespace`] in it holds records under keys and, if you ask for it,
//! all their versions. A [`Batch`] makes several changes at once, and a [`Snapshot`] reads several
//! records at one moment. Each change is committed with a [`Durability`].
//!
//! Records that resemble each other are stored as deltas, in the background: a new version of a
//! document takes about as many bytes as it changes. The latest version of a key is read without
//! decoding. [`Store::compact`] also compresses records together.
//!
//! ```
//! use ibid_record::{Options, Store, Versions};
//! # let folder = tempfile::tempdir()?;
//! let store = Store::open(folder.path(), Options::default())?;
//! let pages = store.namespace("pages", Versions::Kept)?;
//! pages.put(b"ibid", b"in the same place")?;
//! pages.put(b"ibid", b"in the very same place")?;
//! assert_eq!(pages.get(b"ibid")?, Some(b"in the very same place".to_vec()));
//! assert_eq!(pages.get_version(b"ibid", 1)?, Some(b"in the same place".to_vec()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every version has the time at which it was stored, so [`Namespace::get_as_of`] reads the past. A
//! namespace keeps all versions, unless its [`Retention`] says otherwise.
//! [`Namespace::purge_versions`] removes single ones.
//!
//! An [`Index`] finds keys by other values, which [`Batch::index`] gives with the write.
//!
//! An [`engine`] stores the tables, redb by default; [`conformance`] has the tests that every
//! engine passes. [`replicate`] keeps replicas of a store. `docs/format/records.md` describes the
//! tables byte by byte. Each entry has a checksum: a byte that changed on the disk is an error,
//! never a wrong record.

#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc, clippy::unwrap_used)]

mod audit;
mod compact;
mod condition;
pub mod conformance;
mod encode;
pub mod engine;
mod error;
mod index;
mod keys;
mod latest;
mod log;
mod lru;
mod read;
pub mod replicate;
mod retention;
mod salvage;
mod store;
mod time;
mod versions;
mod write;

pub use audit::{
    Amount, BodySizes, Bucket, FAULTS_MAX, Fault, IndexStatistics, NamespaceCounts, NamespaceStatistics, Problem,
    Retrievals, SizeClass, Statistics, Verification,
};
pub use compact::{Compacting, Compaction};
pub use condition::Condition;
pub use encode::{Encoding, EncodingReport, Governor, Retrieval};
pub use engine::{Direction, KeyRange};
pub use error::{Damage, Error};
pub use ibid_delta::{Error as DeltaError, FeatureBytes, Interval};
pub use ibid_format::record::{Refusal, Role};
pub use ibid_format::slot::Argon2Cost;
pub use ibid_format::{Error as FormatError, FileId, Keys, MasterKey};
pub use index::{IndexedKey, IndexedRecord, Unique};
pub use keys::{KeyFilter, KeyState, Prefix};
pub use latest::Latest;
pub use log::Log;
pub use read::view::Record;
pub use retention::{Expiring, Retention};
pub use salvage::{Loss, Salvaged};
pub use store::{
    Batch, BodyReader, BodyWriter, EngineKind, Index, Namespace, NewBody, Options, Snapshot, StagedBody, Store,
};
pub use time::Time;
pub use versions::{Version, Versions};
pub use write::request::Durability;
