//! The copies of a delta as bytes: three columns, packed by zstd if that is shorter.
//!
//! All runs that are not copied, then all lengths of copies, then all places: so like stands beside like.

use super::COPY_MIN;
use crate::codec::matches::Match;
use crate::codec::prefix;
use crate::error::{equal, in_range};
use crate::{Error, varint};

/// Fewest and most bytes that the three numbers of a copy take: each is below 2^35.
const COPY_BYTES_MIN: u64 = 3;
const COPY_BYTES_MAX: u64 = 15;

/// Room for columns.
#[derive(Debug, Default)]
pub(super) struct Columns {
    plain: Vec<u8>,
    packed: Vec<u8>,
}

impl Columns {
    /// Appends the copies, which ascend in the target and do not overlap there.
    pub(super) fn write(
        &mut self,
        copies: &[Match],
        zstd: &mut prefix::Encoder,
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
        let plain = &mut self.plain;
        plain.clear();
        let mut written = 0;
        for copy in copies {
            varint::put(plain, (copy.target - written).into());
            written = copy.target_end();
        }
        for copy in copies {
            varint::put(plain, copy.length.into());
        }
        let (mut read, mut written) = (0, 0);
        for copy in copies {
            let expected = read + i64::from(copy.target - written);
            varint::put_zigzag(plain, i64::from(copy.base) - expected);
            (read, written) = (copy.base_end().into(), copy.target_end());
        }
    }

    /// Takes the copies off the front of `rest`. They lie in the base, and one after the other within the target.
    pub(super) fn take(
        &mut self,
        (base_len, target_len): (usize, usize),
        zstd: &mut prefix::Decoder,
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
        let plain_len = varint::take("length of columns", rest)?;
        let plain_len = in_range(
            "length of columns",
            plain_len,
            COPY_BYTES_MIN * count,
            COPY_BYTES_MAX * count,
        )?;
        let stored = varint::take("bytes of columns", rest)?;
        let stored = in_range("bytes of columns", stored, 1, plain_len.min(rest.len() as u64))?;
        let (stored, after) = rest.split_at(stored as usize);
        *rest = after;
        let columns = if stored.len() as u64 == plain_len {
            stored
        } else {
            self.plain.clear();
            zstd.decode(&[], stored, plain_len as usize, &mut self.plain)?;
            &self.plain
        };
        read(columns, count, (base_len as u64, target_len as u64), copies)
    }

    pub(super) fn memory(&self) -> usize {
        self.plain.capacity() + self.packed.capacity()
    }
}

/// Reads the columns of `count` copies, and checks each.
fn read(
    mut columns: &[u8],
    count: u64,
    (base_len, target_len): (u64, u64),
    copies: &mut Vec<Match>,
) -> Result<(), Error> {
    copies.reserve(count as usize);
    for _ in 0..count {
        let run = in_range("run", varint::take("run", &mut columns)?, 0, target_len)?;
        copies.push(Match {
            base: 0,
            target: run as u32,
            length: 0,
        });
    }
    let mut written = 0;
    for copy in &mut *copies {
        // Both at most 2^30.
        let from = written + u64::from(copy.target);
        in_range("run up to", from, 0, target_len)?;
        let length = varint::take("bytes copied", &mut columns)?;
        let length = in_range("bytes copied", length, COPY_MIN as u64, target_len - from)?;
        (copy.target, copy.length) = (from as u32, length as u32);
        written = from + length;
    }
    let (mut base_end, mut written) = (0, 0);
    for copy in &mut *copies {
        let expected = base_end + i64::from(copy.target - written);
        let from = expected.saturating_add(varint::take_zigzag("copied from", &mut columns)?);
        let most = base_len.saturating_sub(copy.length.into());
        let from = in_range("copied from", from.cast_unsigned(), 0, most)?;
        in_range("copied up to", from + u64::from(copy.length), 0, base_len)?;
        copy.base = from as u32;
        (base_end, written) = (copy.base_end().into(), copy.target_end());
    }
    equal("columns left over", 0, columns.len() as u64)
}
