//! How does another store come to have the same? A replica asks, a primary answers.
//!
//! A [`Receiver`] asks for what comes after its position in the log; a [`Sender`] answers with the
//! entries and the bodies that they name, each as a delta of one that the receiver has where that
//! is shorter. Neither does any input or output but to its own store, and neither minds if messages
//! are lost, repeated or late: an answer that does not fit where the receiver is changes nothing.
//! An [`Oplog`] is where requests go: the sender itself, or one that brings them there; [`follow`]
//! goes on asking it. `docs/replication.md` says what is promised, and describes the messages.
//!
//! ```
//! use ibid_record::replicate::{Receiver, Sender};
//! use ibid_record::{Options, Store, Versions};
//! # let folder = tempfile::tempdir()?;
//! let primary = Store::open(folder.path().join("one"), Options::default().with_oplog(true))?;
//! primary.namespace("pages", Versions::Kept)?.insert(b"ibid", b"in the same place")?;
//!
//! let replica = Store::open(folder.path().join("two"), Options::default())?;
//! replica.follow()?;
//! let (mut sender, mut receiver) = (Sender::new(&primary)?, Receiver::new(&replica)?);
//! while !receiver.take(&sender.answer(&receiver.ask()?)?)?.is_current() {}
//! let pages = replica.namespace("pages", Versions::Kept)?;
//! assert_eq!(pages.get(b"ibid")?.as_deref(), Some(&b"in the same place"[..]));
//! assert!(pages.insert(b"idem", b"the same").is_err()); // it is a replica
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bodies_digest;
mod follow;
mod later_deltas;
pub mod nats;
pub mod net;
mod page_builder;
mod receive;
mod send;

pub use follow::{Oplog, follow};
pub use receive::{Progress, Receiver};
pub use send::{Sender, Traffic};
