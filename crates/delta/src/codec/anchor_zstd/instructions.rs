//! The copies of a delta as bytes: one instruction for each, together compressed by zstd if that is
//! shorter.

use super::COPY_MIN;
use crate::codec::matches::Match;
use crate::codec::prefix;
use crate::error::{equal, in_range};
use crate::{Error, varint};

/// Fewest and most bytes of an instruction: three numbers below 2^35.
const INSTRUCTION_MIN: u64 = 3;
const INSTRUCTION_MAX: u64 = 15;

/// A buffer for instructions.
#[derive(Debug, Default)]
pub(super) struct Instructions {
    plain: Vec<u8>,
    packed: Vec<u8>,
}

impl Instructions {
    /// Appends the copies, which ascend in the target without overlap.
    pub(super) fn write(
        &mut self,
        copies: &[Match],
        zstd: &mut prefix::PrefixEncoder,
        level: i32,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        varint::put(out, copies.len() as u64);
        if copies.is_empty() {
            return Ok(());
        }
        self.put(copies);
        self.packed.clear();
        zstd.encode(&[], &self.plain, level, &mut self.packed)?;
        let stored = if self.packed.len() < self.plain.len() {
            &self.packed
        } else {
            &self.plain
        };
        varint::put(out, self.plain.len() as u64);
        varint::put(out, stored.len() as u64);
        out.extend_from_slice(stored);
        Ok(())
    }

    fn put(&mut self, copies: &[Match]) {
        self.plain.clear();
        let (mut written, mut read) = (0, 0);
        for copy in copies {
            let run = copy.target - written;
            varint::put(&mut self.plain, run.into());
            varint::put(&mut self.plain, copy.length.into());
            varint::put_zigzag(&mut self.plain, i64::from(copy.base) - read - i64::from(run));
            (written, read) = (copy.target_end(), copy.base_end().into());
        }
    }

    /// Reads the copies and removes them from the front of `rest`. Each is within the base, and
    /// they ascend in the target without overlap.
    pub(super) fn take(
        &mut self,
        (base_len, target_len): (usize, usize),
        zstd: &mut prefix::PrefixDecoder,
        rest: &mut &[u8],
        copies: &mut Vec<Match>,
    ) -> Result<(), Error> {
        copies.clear();
        let most = target_len / COPY_MIN;
        let count = varint::take("copies", rest)?;
        let count = in_range("copies", count, 0, most as u64)?;
        if count == 0 {
            return Ok(());
        }
        let plain_len = varint::take("length of instructions", rest)?;
        let plain_len = in_range(
            "length of instructions",
            plain_len,
            INSTRUCTION_MIN * count,
            INSTRUCTION_MAX * count,
        )?;
        let stored = varint::take("bytes of instructions", rest)?;
        let stored = in_range("bytes of instructions", stored, 1, plain_len.min(rest.len() as u64))?;
        let (stored, after) = rest.split_at(stored as usize);
        *rest = after;
        let instructions = if stored.len() as u64 == plain_len {
            stored
        } else {
            self.plain.clear();
            zstd.decode(&[], stored, plain_len as usize, &mut self.plain)?;
            &self.plain
        };
        read(instructions, count, (base_len as u64, target_len as u64), copies)
    }

    pub(super) fn memory(&self) -> usize {
        self.plain.capacity() + self.packed.capacity()
    }
}

/// Reads the instructions for `count` copies, and checks each.
fn read(
    mut instructions: &[u8],
    count: u64,
    (base_len, target_len): (u64, u64),
    copies: &mut Vec<Match>,
) -> Result<(), Error> {
    copies.reserve(count as usize);
    let (mut written, mut base_end) = (0, 0);
    for _ in 0..count {
        let run = varint::take("run", &mut instructions)?;
        let run = in_range("run", run, 0, target_len - written)?;
        let length = varint::take("bytes copied", &mut instructions)?;
        let left = target_len - written - run;
        let length = in_range("bytes copied", length, COPY_MIN as u64, left)?;
        let distance = varint::take_zigzag("copied from", &mut instructions)?;
        let from = (base_end + run).cast_signed().saturating_add(distance).cast_unsigned();
        let from = in_range("copied from", from, 0, base_len.saturating_sub(length))?;
        in_range("copied up to", from + length, 0, base_len)?;
        copies.push(Match {
            base: from as u32,
            target: (written + run) as u32,
            length: length as u32,
        });
        (written, base_end) = (written + run + length, from + length);
    }
    equal("instructions left over", 0, instructions.len() as u64)
}
