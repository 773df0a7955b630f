//! Copies found by anchors, then zstd on the bytes between them.
//!
//! ```text
//! match the common prefix and suffix
//! remember the base's sampled positions, each by a hash of the 32 bytes there
//! for every sampled position of the target that no match covers yet:
//!     take the place in the base where the last match would go on, after a gap of equal length in both
//!     if its 32 bytes differ: take the place remembered for the hash, if its 32 bytes are the same
//!     extend the match both ways; leave it if it is short and does not continue the last match
//! write the matches as copies, compressed by zstd
//! rest := the bytes that no copy covers; context := the base's bytes beside the copies, in its order
//! write the rest as a delta against the context, by zstd-prefix
//! ```
//!
//! zstd alone would process all bytes of base and target. Two versions of a file often agree in
//! nine tenths, in long stretches, which anchors find and copy at the speed of memory. That leaves
//! zstd's time and tables to the parts that need them. A changed part mostly resembles the bytes
//! that it replaced, which are between the copies of the base, so a small part of the base serves
//! as well as the whole.
//!
//! The reader derives the context from the copies, so a delta does not state it.

mod context;
mod decode;
mod encode;
mod instructions;
mod table;

pub(super) use decode::AnchorZstdDecoder;
pub(super) use encode::AnchorZstdEncoder;

use crate::codec::matches::Match;

/// Shortest copy, bytes: it keeps the memory for instructions in proportion to the target.
const COPY_MIN: usize = 16;

/// Bytes of the target that no copy covers.
fn rest_len(copies: &[Match], target_len: usize) -> usize {
    let copied: usize = copies.iter().map(|copy| copy.length as usize).sum();
    target_len - copied
}
