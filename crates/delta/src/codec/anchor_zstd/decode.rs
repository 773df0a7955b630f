//! Decodes a delta: reads the copies, derives the context, decompresses the rest, assembles the
//! target.

use std::ops::Range;

use super::context::Context;
use super::instructions::Instructions;
use super::rest_len;
use crate::Error;
use crate::codec::matches::Match;
use crate::codec::outline::Outline;
use crate::codec::prefix;
use crate::error::equal;

/// Buffers for reading deltas. They take some bytes for each byte of the longest rest so far, and
/// the context.
#[derive(Debug, Default)]
pub(crate) struct AnchorZstdDecoder {
    instructions: Instructions,
    copies: Vec<Match>,
    context: Context,
    /// A context that was read.
    read: Vec<u8>,
    rest: Vec<u8>,
}

impl AnchorZstdDecoder {
    /// Appends the target, which is `length` bytes long, at least 1.
    pub(crate) fn decode(
        &mut self,
        zstd: &mut prefix::PrefixDecoder,
        base: &[u8],
        body: &[u8],
        length: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let mut body = body;
        self.take_copies(zstd, base.len(), &mut body, length)?;
        self.rest.clear();
        let rest_len = rest_len(&self.copies, length);
        if rest_len > 0 {
            let context = self.context.derive(base, &self.copies, length);
            zstd.decode(context, body, rest_len, &mut self.rest)?;
        }
        out.reserve_exact(length);
        let (mut written, mut rest) = (0, &self.rest[..]);
        for copy in &self.copies {
            let (run, after) = rest.split_at(copy.target as usize - written);
            rest = after;
            out.extend_from_slice(run);
            out.extend_from_slice(&base[copy.base as usize..copy.base_end() as usize]);
            written = copy.target_end() as usize;
        }
        out.extend_from_slice(rest);
        Ok(())
    }

    /// Returns the outline of the target, which is `length` bytes long, at least 1. `read` appends
    /// ranges of the base, which is `base_len` bytes long.
    pub(crate) fn outline<E: From<Error>>(
        &mut self,
        zstd: &mut prefix::PrefixDecoder,
        base_len: usize,
        body: &[u8],
        length: usize,
        read: impl FnOnce(&[Range<u32>], &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Outline, E> {
        let mut body = body;
        self.take_copies(zstd, base_len, &mut body, length)?;
        let mut rest = Vec::new();
        let rest_len = rest_len(&self.copies, length);
        if rest_len > 0 {
            let wanted = self.context.find(base_len, &self.copies, length);
            self.read.clear();
            read(wanted, &mut self.read)?;
            let expected = wanted
                .iter()
                .map(|stretch| u64::from(stretch.end - stretch.start))
                .sum();
            equal("bytes of the base", expected, self.read.len() as u64)?;
            zstd.decode(&self.read, body, rest_len, &mut rest)?;
        }
        Ok(Outline::new(&self.copies, rest, length))
    }

    /// Reads the copies and removes them from the front of a body. The rest follows them, if there
    /// is one.
    fn take_copies(
        &mut self,
        zstd: &mut prefix::PrefixDecoder,
        base_len: usize,
        body: &mut &[u8],
        length: usize,
    ) -> Result<(), Error> {
        self.instructions
            .take((base_len, length), zstd, body, &mut self.copies)?;
        if rest_len(&self.copies, length) == 0 {
            equal("bytes of the rest", 0, body.len() as u64)?;
        }
        Ok(())
    }

    pub(crate) fn memory(&self) -> usize {
        self.instructions.memory()
            + self.copies.capacity() * size_of::<Match>()
            + self.context.memory()
            + self.read.capacity()
            + self.rest.capacity()
    }
}
