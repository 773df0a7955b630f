//! The byte formats of ibid's repositories and record stores.
//!
//! `docs/format/README.md` of the repository is the specification; this crate implements it. It does
//! no I/O, reads no clock and prints nothing: callers pass bytes and get values, or the other way
//! round. Two rules hold everywhere:
//!
//! - **A decoder returns a value or an [`Error`]** for any input: it does not panic, and allocates no
//!   more than the input can account for.
//! - **An encoder refuses what its decoder would refuse**, so everything written can be read.
//!
//! | question | module |
//! |---|---|
//! | How are integers and strings written? | [`wire`] |
//! | Who may read or forge a file? | [`Keys`], [`config`], [`slot`] |
//! | Where are chunks? | [`frame`], [`pack`], [`index`] |
//! | How does a local cache say where chunks are? | [`run`] |
//! | What do chunks resemble? | [`sketches`] |
//! | What do chunks make up? | [`content`], [`tree`], [`snapshot`], [`checkpoint`] |
//! | Who can store, and not read? | [`writer`] |
//! | What is stored under a key? | [`record`] |
//!
//! ```
//! use ibid_format::frame::{Compression, FrameBuilder, FrameDecoder, FrameEncoder};
//! use ibid_format::{FileId, Keys, MasterKey};
//!
//! // Compress two chunks into a frame, and read the second one.
//! let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
//! let mut builder = FrameBuilder::new();
//! for chunk in [&b"one chunk"[..], b"another chunk"] {
//!     builder.push(keys.chunk_id(chunk), chunk);
//! }
//! let mut plaintext = Vec::new();
//! FrameEncoder::new().encode(builder.blobs(), builder.body(), Compression::Zstd(3), &mut plaintext)?;
//! let mut decoder = FrameDecoder::new();
//! let frame = decoder.decode(&plaintext, b"", None)?;
//! assert_eq!(frame.chunk(1)?, b"another chunk");
//! # Ok::<(), ibid_format::Error>(())
//! ```
//!
//! The crate has one block of `unsafe`, in [`slot`]: it views mapped memory as Argon2's blocks.
#![warn(clippy::missing_errors_doc, clippy::unwrap_used)]

pub mod checkpoint;
pub mod config;
pub mod content;
mod error;
mod fingerprint;
pub mod frame;
mod ids;
pub mod index;
mod inode_flags;
mod keys;
mod magic;
pub mod pack;
pub mod padme;
pub mod prune_log;
pub mod record;
mod rice;
pub mod run;
mod seal;
pub mod session;
pub mod sketches;
pub mod slot;
pub mod snapshot;
pub mod tree;
mod values;
pub mod wire;
pub mod writer;

pub use error::{Error, NameFault};
pub use fingerprint::Fingerprinter;
pub use ids::{ChunkId, ChunkPrefix, FileId};
pub use keys::{ChunkHasher, ChunkKey, Keys, MasterKey};
pub use magic::FileKind;
pub use seal::{SEAL_OVERHEAD, SealKind};

/// Returns random bytes of the operating system.
///
/// # Panics
///
/// If the operating system has none. Without them ids would collide and nonces repeat.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}
