//! The specification: every algorithm once more, one byte at a time, written to be read.
//!
//! Nothing here is fast. The cut points of an algorithm number are *defined* by these functions;
//! the code that [`Chunker`](crate::Chunker) runs is tested to cut at the same places. They take
//! any sizes, also far below the limits of [`Settings::validate`](crate::Settings::validate), so
//! that tests can try every short string.
//!
//! All of them read `data` as the bytes from a chunk's start on and return the length of that
//! chunk: at most `size_max`, all of `data` when nothing is found before its end, zero for no data.
//!
//! ```
//! use ibid_chunk::{Equal, Mode, SeqCdcSettings, spec};
//!
//! let settings = SeqCdcSettings {
//!     size_min: 4,
//!     size_average: 8,
//!     size_max: 16,
//!     mode: Mode::Increasing,
//!     equal: Equal::Absorb,
//!     seq_length: 3,
//!     skip_trigger: 0,
//!     skip_size: 0,
//! };
//! // 2 < 5 < 5 < 7 < 9 has three ascents; the 9 that completes them ends the chunk.
//! assert_eq!(spec::seqcdc(&settings, &[4, 3, 2, 5, 5, 7, 9, 9, 9, 9]), 7);
//! ```

mod fastcdc;
mod fixed;
mod gear;
mod seqcdc;

pub use fastcdc::{FastCdcParameters, fastcdc};
pub use fixed::fixed;
pub(crate) use gear::GEAR;
pub use seqcdc::seqcdc;
