//! Copies and inserts, found by anchors: dDedup §4.2.
//!
//! ```text
//! trim the common prefix and suffix
//! remember the anchors of the base: sampled positions, each by a checksum of the 16 bytes there
//! for every anchor of the target that no copy covers yet:
//!     of the places in the base with the same checksum, take the one whose match, extended both ways, is longest
//!     add the match; go on after it
//! look for short matches in what is left between matches
//! write copies for the matches, inserts for the rest
//! ```
//!
//! Where this deviates from Algorithm 1, and why:
//!
//! - *Anchors are chosen by a hash of each window of eight bytes, not by a rolling checksum.*
//!   Vector instructions find them ten times as fast, and the checksum of 16 bytes is computed for
//!   anchors only.
//! - *The last few places with a checksum are remembered, not only the last.* Records repeat
//!   themselves, and the longest of several matches makes the smallest delta.
//! - *The gap between two matches is searched again, densely.* Anchors miss matches shorter than
//!   some two intervals. Two matches that are close in base and target are the two sides of an
//!   edit, so the gap is short and a dense search costs little.

mod encode;
mod instructions;
mod refine;
mod reverse;
mod table;

pub(super) use encode::AnchorEncoder;
pub(super) use instructions::decode;
pub use reverse::Reversal;
