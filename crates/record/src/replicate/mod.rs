//! Keeping other stores the same as a primary: a replica asks, its primary answers.
//!
//! A [`Receiver`] asks for the log entries after its position. A [`Sender`] answers with the
//! entries and the bodies that they name, each as a delta of a body that the receiver has if that
//! is shorter. Both read and write their own stores only, and messages may be lost, repeated or
//! late: an answer that does not fit the receiver's position changes nothing. An [`Oplog`] takes
//! requests to a primary: the sender itself, or a connection to one. [`follow`] asks it again and
//! again. `docs/replication.md` says what is promised, and describes the messages.
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
//! assert!(pages.insert(b"idem", b"the same").is_err()); // a replica does not change by itself
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod answering;
mod bodies_digest;
mod follow;
mod gathered;
mod later_deltas;
pub mod nats;
pub mod net;
mod page_builder;
mod receive;
mod send;
mod take_over;
mod transfers;

pub use follow::{Oplog, follow};
pub use receive::{Progress, Receiver};
pub use send::{Sender, Traffic};
pub use take_over::{TakenOver, take_over};
