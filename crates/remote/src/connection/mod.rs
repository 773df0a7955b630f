//! Objects that `ibid serve` keeps on another machine: a client, a server, and what they say to each other.
//!
//! [`HostStorage`] is the client, a [`Storage`](ibid_storage::Storage) that reaches the server by SSH, over TLS, or by
//! any other pair of byte streams ([`Dial`]). [`serve`] is the server of one client, for any storage, and [`listen`]
//! that of many, over TLS. `docs/format/connection.md` describes every byte between them.
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

mod answer;
mod append_only;
mod budget;
mod client;
mod decode;
mod dial;
mod execute;
mod frame;
mod fuzzing;
mod greeting;
mod host_address;
mod keep_alive;
mod line;
mod link;
mod listen;
mod receive;
mod request;
mod server;
mod serving;
mod slot;
mod ssh;
mod tls;
mod watched;

pub use append_only::AppendOnly;
pub use client::HostStorage;
pub use dial::{Dial, Ended, Ending, Streams};
pub use frame::Violation;
pub use fuzzing::{decode_answers, decode_requests};
pub use host_address::{HostAddress, HostAddressError};
pub use ibid_tls::{CertificateError, Client as TlsClient, Identity};
pub use listen::{MutualTls, listen};
pub use server::serve;
pub use serving::{ListenOptions, OpenStorage, Opened, ServeError, ServeOptions};
pub use ssh::{NOT_STARTED, Ssh};
pub use tls::{Tls, TlsAddress, TlsAddressError};
