//! How values are written as bytes: every file of an ibid repository, every record of a store, and
//! nothing else.
//!
//! The specification is `docs/format/README.md`; this crate is its implementation. It does no I/O,
//! reads no clock and prints nothing: callers give it bytes and get bytes or values. Two rules hold
//! everywhere:
//!
//! - **A decoder gives a value or an [`Error`]**, for any input whatever: no panic, and no
//!   allocation larger than the input can account for.
//! - **An encoder refuses what its decoder would refuse**, so nothing is written that can't be read
//!   again.
//!
//! | question | module |
//! |---|---|
//! | How are integers and strings written? | [`wire`] |
//! | Who may read or forge it? | [`Keys`], [`config`], [`slot`] |
//! | Where do chunks live? | [`frame`], [`pack`], [`index`] |
//! | What are chunks like? | [`sketches`] |
//! | What do chunks make up? | [`content`], [`tree`], [`snapshot`] |
//! | What is stored under a key? | [`record`] |

pub mod config;
pub mod content;
mod error;
mod fingerprint;
pub mod frame;
mod ids;
pub mod index;
mod keys;
mod magic;
pub mod pack;
pub mod padme;
pub mod record;
mod rice;
mod seal;
pub mod sketches;
pub mod slot;
pub mod snapshot;
pub mod tree;
pub mod wire;

pub use error::{Error, NameFault};
pub use fingerprint::Fingerprinter;
pub use ids::{ChunkId, ChunkPrefix, FileId};
pub use keys::{Keys, MasterKey};
pub use magic::FileKind;
pub use seal::{SEAL_OVERHEAD, SealKind};

/// Fills an array with random bytes of the operating system.
///
/// # Panics
///
/// If the operating system has no randomness to give, which leaves nothing sensible to do: ids
/// would collide and nonces repeat.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}
