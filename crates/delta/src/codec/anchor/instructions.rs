//! The bytes of an anchor delta.
//!
//! `insert bytes (varint length, bytes) ‖ instructions`. An instruction is
//! `inserted (varint) ‖ copied (varint) ‖ from (zigzag)`: take so many of the insert bytes, then
//! copy so many bytes of the base, from where the last copy ended plus `from`. A `copied` of 0
//! copies all bytes that the target still lacks. After the last instruction, the remaining insert
//! bytes complete the target.

use crate::codec::LENGTH_MAX;
use crate::codec::matches::Match;
use crate::error::{equal, in_range};
use crate::{Error, varint};

/// Bytes of a cheap copy instruction. A shorter copy saves nothing.
pub(super) fn copy_cost(distance: i64, length: u32) -> usize {
    2 + varint::len(distance.unsigned_abs() << 1) + varint::len(length.into())
}

/// Returns how many bytes of the target no match covers.
pub(super) fn inserted(matches: &[Match], target: &[u8]) -> usize {
    let copied: usize = matches.iter().map(|found| found.length as usize).sum();
    target.len() - copied
}

/// Appends the body of a delta with these matches, which ascend in the target without overlap.
pub(super) fn write(matches: &[Match], target: &[u8], out: &mut Vec<u8>) {
    let inserted = inserted(matches, target);
    // Growing by steps could take twice the memory.
    out.reserve(varint::len(inserted as u64) + inserted);
    varint::put(out, inserted as u64);
    let mut written = 0;
    for found in matches {
        out.extend_from_slice(&target[written..found.target as usize]);
        written = found.target_end() as usize;
    }
    out.extend_from_slice(&target[written..]);

    let (mut written, mut read) = (0, 0);
    for found in matches {
        varint::put(out, (found.target - written).into());
        written = found.target_end();
        let ends = written as usize == target.len();
        varint::put(out, if ends { 0 } else { found.length.into() });
        varint::put_zigzag(out, i64::from(found.base) - read);
        read = found.base_end().into();
    }
}

/// One step towards the target.
pub(super) struct Instruction<'a> {
    /// The bytes inserted first.
    pub(super) insert: &'a [u8],
    /// Where in the base the copy begins.
    pub(super) from: usize,
    /// Bytes copied, 0 only in the last step.
    pub(super) length: usize,
}

/// The steps of a body, checked one by one: each copy is within the base, and together they make
/// exactly the target's length.
pub(super) struct Steps<'a> {
    base_len: usize,
    inserts: &'a [u8],
    instructions: &'a [u8],
    /// Bytes of the target still to come, including the remaining inserts.
    left: usize,
    /// Where in the base the last copy ended.
    read: i64,
}

impl<'a> Steps<'a> {
    pub(super) fn new(base_len: usize, body: &'a [u8], target_len: usize) -> Result<Steps<'a>, Error> {
        let mut rest = body;
        let length = varint::take("insert bytes", &mut rest)?;
        in_range("insert bytes", length, 0, (target_len as u64).min(rest.len() as u64))?;
        let (inserts, instructions) = rest.split_at(length as usize);
        Ok(Steps {
            base_len,
            inserts,
            instructions,
            left: target_len,
            read: 0,
        })
    }

    /// Returns the most bytes that the body can give: every instruction takes at least three bytes
    /// and copies at most the whole base.
    fn most(&self) -> u64 {
        const INSTRUCTION_MIN: u64 = 3;
        self.inserts.len() as u64 + self.instructions.len() as u64 / INSTRUCTION_MIN * self.base_len as u64
    }

    /// Returns the next step, or `None` after the last.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Instruction<'a>>, Error> {
        if self.instructions.is_empty() {
            let insert = std::mem::take(&mut self.inserts);
            equal("insert bytes", self.left as u64, insert.len() as u64)?;
            self.left = 0;
            let step = Instruction {
                insert,
                from: 0,
                length: 0,
            };
            return Ok((!insert.is_empty()).then_some(step));
        }
        let inserted = varint::take("bytes inserted", &mut self.instructions)?;
        let inserted = in_range("bytes inserted", inserted, 0, self.inserts.len().min(self.left) as u64)? as usize;
        let (insert, rest) = self.inserts.split_at(inserted);
        self.inserts = rest;
        let before_copy = self.left - inserted;

        let length = varint::take("bytes copied", &mut self.instructions)?;
        let length = in_range("bytes copied", length, 0, before_copy as u64)? as usize;
        let length = if length == 0 { before_copy } else { length };
        in_range("bytes copied", length as u64, 1, LENGTH_MAX)?;
        self.left = before_copy - length;

        let distance = varint::take_zigzag("copied from", &mut self.instructions)?;
        let from = self.read.saturating_add(distance);
        let last = self.base_len as u64;
        let from = in_range(
            "copied from",
            from.cast_unsigned(),
            0,
            last.saturating_sub(length as u64),
        )? as usize;
        in_range("copied up to", (from + length) as u64, 0, last)?;
        self.read = (from + length) as i64;
        Ok(Some(Instruction { insert, from, length }))
    }
}

/// Appends the target, `length` bytes.
pub(crate) fn decode(base: &[u8], body: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut steps = Steps::new(base.len(), body, length)?;
    in_range("target length", length as u64, 0, steps.most())?;
    out.reserve_exact(length);
    while let Some(step) = steps.next()? {
        out.extend_from_slice(step.insert);
        out.extend_from_slice(&base[step.from..step.from + step.length]);
    }
    Ok(())
}
