//! Objects that `ibid serve` keeps on another machine: a client, a server, and what they say to each other.
//!
//! [`HostStorage`] is the client, a [`Storage`](ibid_storage::Storage) that reaches the server by SSH, or by any other
//! pair of byte streams ([`Dial`]). [`serve`] is the server, for any storage. `docs/format/connection.md` describes
//! every byte between them.
//!
//! ```
//! use std::io::{Write, pipe};
//! use std::sync::Arc;
//!
//! use ibid_remote::connection::{Opened, ServeOptions, serve};
//! use ibid_storage::Memory;
//!
//! // What a client would send: nothing but its greeting.
//! let (requests, mut to_server) = pipe()?;
//! to_server.write_all(b"ibidcon\x01\x06ibid 0")?;
//! drop(to_server);
//! let memory = Arc::new(Memory::new());
//! let open = |_create: bool| Ok(Opened::new(memory.clone()));
//! let mut answers = Vec::new();
//! serve(&open, requests, &mut answers, &ServeOptions::default())?;
//! assert!(answers.starts_with(b"ibidcon\x01"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod append_only;
mod budget;
mod client;
mod decode;
mod host_address;
mod line;
mod link;
mod messages;
mod server;
mod ssh;
mod watched;

pub use append_only::AppendOnly;
pub use client::HostStorage;
pub use host_address::{HostAddress, HostAddressError};
pub use link::{Dial, Ended, Ending, Streams};
pub use messages::{Violation, decode_answers, decode_requests};
pub use server::{OpenStorage, Opened, ServeError, ServeOptions, serve};
pub use ssh::Ssh;
