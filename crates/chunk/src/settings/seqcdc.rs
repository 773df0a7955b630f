//! Parameters of SeqCDC.

use alloc::vec;
use alloc::vec::Vec;

use super::{SIZE_MAX_MOST, SIZE_MIN_LEAST, counted, in_order, in_range, word};
use crate::SettingsError;

/// The greatest [`SeqCdcSettings::seq_length`]: random data has no such run.
const SEQ_LENGTH_MOST: usize = 63;
/// The greatest [`SeqCdcSettings::skip_trigger`].
const SKIP_TRIGGER_MOST: usize = 1 << 16;

/// Parameters of SeqCDC; [`spec::seqcdc`](crate::spec::seqcdc) says what they do (paper, section
/// 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeqCdcSettings {
    /// Bytes below which no chunk ends unless the data does. At least [`SIZE_MIN_LEAST`].
    pub size_min: usize,
    /// Bytes that the other parameters were chosen to give on average. It moves no cut.
    pub size_average: usize,
    /// Bytes at which a chunk ends whatever it holds. At most [`SIZE_MAX_MOST`].
    pub size_max: usize,
    /// Which way the bytes of a sequence go.
    pub mode: Mode,
    /// What two equal neighbours do.
    pub equal: Equal,
    /// Pairs in the wanted order that end a chunk, 1 to 63 and below `size_min` (SeqCDC's
    /// SeqLength).
    pub seq_length: u32,
    /// Opposing pairs that start a skip, up to 65536; 0 for no skips (SeqCDC's SkipTrigger).
    pub skip_trigger: u32,
    /// Bytes that a skip passes over, up to [`SIZE_MAX_MOST`]; 0 if and only if `skip_trigger` is
    /// (SeqCDC's SkipSize).
    pub skip_size: u32,
}

/// Which way SeqCDC's sequences go. The two are mirror images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Every byte larger than the one before.
    Increasing,
    /// Every byte smaller than the one before.
    Decreasing,
}

/// What two equal neighbours do to a sequence of SeqCDC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Equal {
    /// They neither extend nor break it (as the authors' program has it).
    Absorb,
    /// They break it (as the vector text of the paper has it). They never count as opposing.
    Strict,
}

impl SeqCdcSettings {
    /// See [`Settings::validate`](crate::Settings::validate).
    ///
    /// # Errors
    /// The first limit that does not hold.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let SeqCdcSettings {
            size_min,
            size_average,
            size_max,
            ..
        } = *self;
        let SeqCdcSettings {
            seq_length,
            skip_trigger,
            skip_size,
            ..
        } = *self;
        in_range("minimum chunk size", SIZE_MIN_LEAST, SIZE_MAX_MOST, size_min)?;
        in_range("average chunk size", SIZE_MIN_LEAST, SIZE_MAX_MOST, size_average)?;
        in_range("maximum chunk size", SIZE_MIN_LEAST, SIZE_MAX_MOST, size_max)?;
        in_order(size_min, size_average, size_max)?;
        // 63 is below every valid minimum, so a whole sequence always fits before the first cut.
        in_range("sequence length", 1, SEQ_LENGTH_MOST, seq_length as usize)?;
        in_range("skip trigger", 0, SKIP_TRIGGER_MOST, skip_trigger as usize)?;
        in_range("skip size", 0, SIZE_MAX_MOST, skip_size as usize)?;
        if (skip_trigger == 0) != (skip_size == 0) {
            return Err(SettingsError::HalfASkip {
                skip_trigger,
                skip_size,
            });
        }
        Ok(())
    }

    pub(super) fn to_words(self) -> Vec<u32> {
        vec![
            word(self.size_min),
            word(self.size_average),
            word(self.size_max),
            match self.mode {
                Mode::Increasing => 0,
                Mode::Decreasing => 1,
            },
            match self.equal {
                Equal::Absorb => 0,
                Equal::Strict => 1,
            },
            self.seq_length,
            self.skip_trigger,
            self.skip_size,
        ]
    }

    pub(super) fn from_words(words: &[u32]) -> Result<SeqCdcSettings, SettingsError> {
        let [
            size_min,
            size_average,
            size_max,
            mode,
            equal,
            seq_length,
            skip_trigger,
            skip_size,
        ] = counted("seqcdc", words)?;
        in_range("sequence mode", 0, 1, mode as usize)?;
        in_range("equal neighbours", 0, 1, equal as usize)?;
        Ok(SeqCdcSettings {
            size_min: size_min as usize,
            size_average: size_average as usize,
            size_max: size_max as usize,
            mode: if mode == 0 { Mode::Increasing } else { Mode::Decreasing },
            equal: if equal == 0 { Equal::Absorb } else { Equal::Strict },
            seq_length,
            skip_trigger,
            skip_size,
        })
    }
}
