//! Writers: those who can store snapshots in a repository, and open none.
//!
//! A **keeper** has a password of the repository, and so its master key. A **writer** has a [`WriterKey`] that a keeper
//! made. Each writer has files of its own, as in a repository within the repository. Their keys follow from a secret
//! that the writer and the keepers have, except that
//!
//! - packs, snapshots and all else in which contents or names are have a key each, which is agreed with the keepers'
//!   public key (X25519) and forgotten by the writer;
//! - every file begins with a [header](signed) that its writer or a keeper has signed (Ed25519).
//!
//! `docs/format/writers.md` is the specification.
//!
//! ```
//! use ibid_format::writer::{WriterKey, signed};
//! use ibid_format::{Error, FileId, FileKind, Keys, MasterKey, SealKind};
//!
//! let repository = Keys::encrypted(FileId::random(), &MasterKey::random());
//! // A keeper makes a key, and gives its text to a writer.
//! let text = WriterKey::derive(&repository, FileId::random())?.to_text();
//! let key = WriterKey::parse(&text)?;
//!
//! // The writer seals and signs. It can't open what it sealed.
//! let (writer, id) = (key.keys(), FileId::random());
//! let mut sealed = Vec::new();
//! writer.seal(SealKind::Snapshot, id, 8, b"a snapshot", &mut sealed);
//! let header = signed::sign(&writer, FileKind::Snapshot, id, &[&sealed])?;
//! assert!(matches!(writer.open(SealKind::Snapshot, id, 8, &mut sealed.clone()), Err(Error::WriteOnly { .. })));
//!
//! // A keeper verifies the header, and opens.
//! let keeper = repository.of_writer(key.id())?;
//! signed::open(&keeper, FileKind::Snapshot, id, &header)?.check(&sealed)?;
//! assert_eq!(keeper.open(SealKind::Snapshot, id, 8, &mut sealed)?, b"a snapshot");
//! # Ok::<(), Error>(())
//! ```

mod key;
mod listed;
mod parties;
mod seen;
pub mod signed;

pub use key::{TEXT_MAX, WriterKey};
pub use listed::{NOTE_LIMIT, REVOCATION_LIMIT, Revocation, StoredKind, encode_note, open_note};
pub use parties::Signer;
pub(crate) use parties::{Lookup, Parties};
pub use seen::{FirstSeen, SEEN_LIMIT, Seen};
