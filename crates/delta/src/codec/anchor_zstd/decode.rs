//! The way back: copies, the context that they give, the rest, the target.

use super::context::Context;
use super::instructions::Instructions;
use super::rest_len;
use crate::Error;
use crate::codec::matches::Match;
use crate::codec::pieces::Pieces;
use crate::codec::prefix;
use crate::error::equal;

/// What deltas are read with. Memory: some bytes for each byte of the longest rest so far, and the context.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    instructions: Instructions,
    copies: Vec<Match>,
    context: Context,
    rest: Vec<u8>,
}

impl Decoder {
    /// Appends the target, which is `length` bytes long, at least 1.
    pub(crate) fn decode(
        &mut self,
        zstd: &mut prefix::Decoder,
        base: Pieces<'_>,
        body: &[u8],
        length: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let mut body = body;
        let ends = (base.len(), length);
        self.instructions.take(ends, zstd, &mut body, &mut self.copies)?;
        let rest_len = rest_len(&self.copies, length);
        self.rest.clear();
        if rest_len > 0 {
            let context = self.context.derive(base, &self.copies, length);
            zstd.decode(context, body, rest_len, &mut self.rest)?;
        } else {
            equal("bytes of the rest", 0, body.len() as u64)?;
        }

        out.reserve_exact(length);
        let (mut written, mut rest) = (0, &self.rest[..]);
        for copy in &self.copies {
            let (run, after) = rest.split_at(copy.target as usize - written);
            rest = after;
            out.extend_from_slice(run);
            base.append(copy.base as usize..copy.base_end() as usize, out);
            written = copy.target_end() as usize;
        }
        out.extend_from_slice(rest);
        Ok(())
    }

    pub(crate) fn memory(&self) -> usize {
        self.instructions.memory()
            + self.copies.capacity() * size_of::<Match>()
            + self.context.memory()
            + self.rest.capacity()
    }
}
