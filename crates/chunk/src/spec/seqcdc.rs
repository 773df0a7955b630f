//! SeqCDC: a chunk ends where enough bytes have risen (or fallen) in a row.
//!
//! After Udayashankar, Baba and Al-Kiswany, *SeqCDC: Hashless Content-Defined Chunking for Data
//! Deduplication* (Middleware '24), section 3. Where the paper leaves a choice:
//!
//! - A sequence is counted in *pairs* of neighbours: `seq_length` ascents span `seq_length + 1`
//!   bytes. Five pairs, not five bytes, give the averages that the paper publishes.
//! - Equal neighbours are handled in one of two ways, [`Equal`]: the authors' program passes over
//!   them, and in the paper's vector version they break the sequence.
//! - A skip passes over `skip_size` pairs: the next pair is the last byte skipped and the byte
//!   after it. The sequence and the count of opposing pairs both restart from zero.
//! - Scanning starts `seq_length` pairs before `size_min`, so that `size_min` is the least possible
//!   length.

use core::cmp::Ordering;

use crate::{Equal, Mode, SeqCdcSettings};

/// Returns the length of the first chunk of `data` by SeqCDC.
///
/// # Panics
/// Unless `1 <= seq_length < size_min <= size_max`.
#[must_use]
pub fn seqcdc(settings: &SeqCdcSettings, data: &[u8]) -> usize {
    let SeqCdcSettings {
        size_min,
        size_max,
        seq_length,
        skip_trigger,
        skip_size,
        ..
    } = *settings;
    assert!(1 <= seq_length && (seq_length as usize) < size_min && size_min <= size_max);
    let end = data.len().min(size_max);
    if end <= size_min {
        return end;
    }

    let mut run = 0;
    let mut opposing = 0;
    // The current pair is (data[right - 1], data[right]).
    let mut right = size_min - seq_length as usize;
    while right < end {
        match direction(settings.mode, data[right - 1], data[right]) {
            Ordering::Greater => {
                run += 1;
                if run == seq_length {
                    return right + 1;
                }
            }
            Ordering::Equal => {
                if settings.equal == Equal::Strict {
                    run = 0;
                }
            }
            Ordering::Less => {
                run = 0;
                opposing += 1;
                if opposing == skip_trigger {
                    opposing = 0;
                    right += skip_size as usize;
                }
            }
        }
        right += 1;
    }
    end
}

/// Returns `Greater` if the pair goes the way of the mode, `Less` if it goes the opposite way.
fn direction(mode: Mode, left: u8, right: u8) -> Ordering {
    match mode {
        Mode::Increasing => right.cmp(&left),
        Mode::Decreasing => left.cmp(&right),
    }
}
