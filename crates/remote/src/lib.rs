//! Objects that a server keeps, or another machine, behind the blocking [`Storage`](ibid_storage::Storage) of
//! ibid-storage.
//!
//! ```no_run
//! use ibid_remote::{Options, open};
//! use ibid_storage::{Name, Storage};
//!
//! let storage = open(&"s3://backups/laptop".parse()?, &Options::default())?;
//! storage.put(&Name::new("snapshots/1")?, &[b"durable from here on"])?;
//! println!("{} requests", storage.requests().count());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An [`Address`] says where: `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`. [`open`] finds
//! credentials as the tools of the service do. What fails for reasons that pass is tried again, and requests are
//! counted.
//!
//! The protocols are those of the crate `object_store`; its runtime stays in here. [`connection`] reaches other
//! machines, by SSH and `ibid serve`.
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc, clippy::unwrap_used)]

mod address;
pub mod connection;
mod found;
mod judge;
mod objects;
mod open;
mod options;
mod prices;
mod profile;
mod requests;
mod s3;
mod silence;
mod together;
mod wire;

pub use address::{Address, AddressError, Addressing, Service};
pub use judge::NOT_TRUSTED;
pub use objects::ObjectStorage;
pub use open::open;
pub use options::{Credentials, Options};
pub use prices::{Prices, ThawPrice, thaw_hours};
pub use requests::Requests;
pub use s3::PastStorage;
pub use silence::Silence;
