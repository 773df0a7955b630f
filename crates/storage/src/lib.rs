//! Durable storage of named objects, each written once and whole.
//!
//! ```
//! use ibid_storage::{Local, Name, Storage};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("backup");
//! let storage = Local::create(&path)?;
//! let name = Name::new("snapshots/1")?;
//! storage.put(&name, &[b"durable ", b"from here on"])?;
//!
//! let mut tail = [0; 4];
//! storage.read_at(&name, 16, &mut tail)?;
//! assert_eq!(&tail, b"e on");
//!
//! let mut total = 0;
//! storage.list("snapshots", &mut |_name, size| total += size)?;
//! assert_eq!(total, 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Storage`] is the small blocking trait that every storage implements; it knows names and bytes
//! only. [`Local`] keeps objects in a folder, [`Memory`] in memory. To add a storage, implement the
//! trait and run [`conformance`], the tests that every implementation passes. [`fault`] has storage
//! that fails on purpose: a simulated disk that loses power, and a wrapper that fails, corrupts and
//! counts. [`probe`] tries out whether the place where the objects are keeps the promises.
//!
//! # What is assumed of a disk
//!
//! - A sync that succeeds makes everything written before it durable, unless an earlier sync of the
//!   same file failed.
//! - A rename within a file system is visible to other processes at once and as a whole.
//! - A read returns what was written, or an error.
//!
//! A storage does not detect bytes that change silently. The layers above, which know what the bytes
//! mean, do.
//!
//! # Platforms
//!
//! Unix only: the guarantees rest on renames that refuse to overwrite and on syncs of folders.
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc, clippy::unwrap_used)]

mod archive;
pub mod conformance;
pub mod disk;
mod error;
pub mod fault;
mod local;
mod lock;
mod memory;
mod name;
pub mod probe;
mod storage;

pub use archive::{ArchiveState, Archives, Thaw, ThawTier};
pub use error::{Error, ErrorKind, Operation};
pub use local::{Local, SWEEP_AGE, Swept};
pub use lock::{DueLock, Lock, LockMode, Locks};
pub use memory::Memory;
pub use name::{NAME_LENGTH_MAX, Name, NameError, RESERVED, SEGMENT_LENGTH_MAX, SEGMENTS_MAX};
pub use storage::Storage;
