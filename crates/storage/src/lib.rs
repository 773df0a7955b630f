//! Where do bytes live? Named objects, written once and whole, in a place that survives what
//! befalls it.
//!
//! [`Storage`] is the small blocking trait that every place implements; it knows names and bytes
//! only. [`Local`] is a folder, [`Memory`] is memory. [`conformance`] holds the tests that every
//! implementation passes. [`fault`] holds places that fail on purpose: a simulated disk that loses
//! power, and a wrapper that fails, corrupts and counts.
//!
//! What is assumed of a disk: a sync that succeeds makes durable what was written before it, unless
//! an earlier sync of the same file failed; a rename within a file
//! system is seen by other processes at once and whole; a read returns what was written, or an
//! error. Places do not detect bytes that change silently: the layers above, which know what the
//! bytes mean, do.
//!
//! Unix only: the guarantees rest on renames that refuse to overwrite and on syncs of folders.
//!
//! ```
//! use ibid_storage::{Local, Name, Storage};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("backup");
//! let place = Local::create(&path)?;
//! let name = Name::new("snapshots/1")?;
//! place.put(&name, &[b"durable ", b"from here on"])?;
//!
//! let mut tail = [0; 4];
//! place.read_at(&name, 16, &mut tail)?;
//! assert_eq!(&tail, b"e on");
//!
//! let mut total = 0;
//! place.list("snapshots", &mut |_name, size| total += size)?;
//! assert_eq!(total, 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod conformance;
pub mod disk;
mod error;
pub mod fault;
mod local;
mod memory;
mod name;
mod storage;

pub use error::{Error, ErrorKind, Operation};
pub use local::{Local, SWEEP_AGE, Swept};
pub use memory::Memory;
pub use name::{NAME_LENGTH_MAX, Name, NameError, RESERVED, SEGMENT_LENGTH_MAX, SEGMENTS_MAX};
pub use storage::Storage;
