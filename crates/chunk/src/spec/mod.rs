//! The specification: every algorithm again, one byte at a time, written to be read.
//!
//! These functions are slow, and they *define* the cut points of each algorithm number. Tests
//! compare the code that [`Chunker`](crate::Chunker) runs with them. They also take sizes below the
//! limits of [`Settings::validate`](crate::Settings::validate), so that tests can try every short
//! string.
//!
//! Each takes `data` that starts where a chunk starts and returns the length of that chunk: at most
//! `size_max`, all of `data` if it has no boundary, and 0 for no data.
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

mod ae;
mod argmin;
mod fastcdc;
mod fixed;
mod gear;
mod maxp;
mod place;
mod ram;
mod seqcdc;
mod windowed;

pub use ae::ae;
pub use argmin::argmin;
pub(crate) use argmin::{ADDEND, MULTIPLIER_FIRST, MULTIPLIER_LAST};
pub use fastcdc::{FastCdcParameters, fastcdc};
pub use fixed::fixed;
pub(crate) use gear::GEAR;
pub use maxp::maxp;
pub use place::fits_at;
pub use ram::ram;
pub use seqcdc::seqcdc;
pub(crate) use windowed::{RABIN_KARP_MULTIPLIER, shift_in_crc32, shift_in_rabin};
pub use windowed::{window_hash, windowed};

use crate::Settings;

/// Returns the length of the first chunk of `data` by the algorithm of valid settings.
///
/// # Panics
/// When the settings do not pass [`Settings::validate`].
#[must_use]
pub fn cut(settings: &Settings, data: &[u8]) -> usize {
    match settings {
        Settings::Fixed(s) => fixed(s.size, data),
        Settings::FastCdc(s) => fastcdc(&FastCdcParameters::new(s), data),
        Settings::SeqCdc(s) => seqcdc(s, data),
        Settings::Ae(s) => ae(s, data),
        Settings::Ram(s) => ram(s, data),
        Settings::Maxp(s) => maxp(s, data),
        Settings::Argmin(s) => argmin(s, data),
        Settings::Windowed(s) => windowed(s, data),
    }
}
