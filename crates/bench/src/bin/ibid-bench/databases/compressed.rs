//! Values compressed one by one: the length of the original, then a frame of zstd.

use anyhow::{Context, Result};
use ibid_format::wire::{self, Reader};
use zstd::bulk::{Compressor, Decompressor};

use super::subject::LEVEL;

/// The longest value, so that a damaged length does not allocate more.
const BYTES_MAX: u64 = 1 << 30;

/// The window of `zstd --long`. A value that is shorter has a shorter one.
#[cfg(feature = "sqlite")]
const WINDOW_LOG: u32 = 27;

/// A compressor and a decompressor, which are reused.
pub(crate) struct Codec {
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
}

impl Codec {
    pub(crate) fn new() -> Result<Codec> {
        Ok(Codec {
            compressor: Compressor::new(LEVEL)?,
            decompressor: Decompressor::new()?,
        })
    }

    /// Returns one whose values can only be read with the same dictionary.
    #[cfg(feature = "sqlite")]
    pub(crate) fn with_dictionary(dictionary: &[u8]) -> Result<Codec> {
        Ok(Codec {
            compressor: Compressor::with_dictionary(LEVEL, dictionary)?,
            decompressor: Decompressor::with_dictionary(dictionary)?,
        })
    }

    /// Returns one that finds what repeats far apart in a long value, as `zstd --long` does.
    #[cfg(feature = "sqlite")]
    pub(crate) fn with_long_window() -> Result<Codec> {
        let mut codec = Codec::new()?;
        codec.compressor.window_log(WINDOW_LOG)?;
        codec.compressor.long_distance_matching(true)?;
        Ok(codec)
    }

    pub(crate) fn compress(&mut self, value: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        wire::put_varint(&mut out, value.len() as u64);
        out.extend(self.compressor.compress(value)?);
        Ok(out)
    }

    pub(crate) fn decompress(&mut self, stored: &[u8]) -> Result<Vec<u8>> {
        let mut reader = Reader::new(stored);
        let length = reader.varint_in("length", 0, BYTES_MAX)?;
        self.decompressor
            .decompress(reader.rest(), length as usize)
            .context("decompressing a value")
    }
}
