//! Storage that fails on purpose, for tests of this crate and of those above it.
//!
//! [`FaultDisk`] is a disk for [`Local`](crate::Local): a file system in memory that knows what was
//! synced and what was not. It can lose power at any operation, and a seed says what survives.
//! [`Flaky`] wraps any storage and fails, corrupts, delays and counts whole calls.
//!
//! ```
//! use ibid_storage::fault::FaultDisk;
//! use ibid_storage::{Local, Name, Storage};
//! let disk = FaultDisk::new(1);
//! let place = Local::create_on(disk.clone(), "/place")?;
//! let name = Name::new("a")?;
//! disk.crash_at(disk.operations() + 6); // in the middle of the next put
//! assert!(place.put(&name, &[b"bytes"]).is_err());
//!
//! let after = Local::open_on(disk.crash(7), "/place")?; // 7 decides what of the un-synced state is left
//! assert!(matches!(after.get(&name, 100).as_deref(), Err(_) | Ok(b"bytes")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod disk;
mod flaky;
mod operations;
mod random;
mod tree;

pub use disk::{Call, Crashed, DiskFault, FaultDisk};
pub use flaky::{Counts, Damage, Flaky, ObjectFault};
pub use operations::FaultFile;
