//! A target as ranges of its base, not assembled yet.

use std::ops::Range;

use crate::codec::matches::Match;

/// A target as ranges of its base and the bytes inserted between them.
///
/// It holds the inserted bytes and 16 bytes for each range. So many targets that differ little from
/// their bases fit into memory as outlines, and a reader fetches only the ranges of a base that it
/// needs. [`DeltaDecoder::outline`](crate::DeltaDecoder::outline) makes one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    copies: Vec<Copied>,
    /// The inserted bytes, in the target's order.
    rest: Vec<u8>,
    len: usize,
}

/// A copy, and how many inserted bytes come before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Copied {
    base: u32,
    target: u32,
    length: u32,
    rest: u32,
}

impl Copied {
    fn target_end(&self) -> usize {
        self.target as usize + self.length as usize
    }
}

/// A part of a target, at least one byte long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment<'o> {
    /// This range of the base.
    Base(Range<usize>),
    /// Bytes that the delta inserts.
    Inserted(&'o [u8]),
}

impl Segment<'_> {
    /// Returns its length, at least 1 byte.
    #[allow(clippy::len_without_is_empty, reason = "no segment is empty")]
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Segment::Base(range) => range.len(),
            Segment::Inserted(bytes) => bytes.len(),
        }
    }
}

impl Outline {
    /// Returns the outline of a target of `len` bytes, in which the copies ascend without overlap.
    pub(super) fn new(copies: &[Match], rest: Vec<u8>, len: usize) -> Outline {
        let mut copied = 0;
        let copies = copies.iter().map(|copy| {
            let rest = copy.target - copied;
            copied += copy.length;
            Copied {
                base: copy.base,
                target: copy.target,
                length: copy.length,
                rest,
            }
        });
        let copies = copies.collect();
        Outline { copies, rest, len }
    }

    /// Returns the length of the target, bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the target is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the segments that a range of the target consists of, in order.
    ///
    /// # Panics
    /// If the range ends beyond the target.
    pub fn segments(&self, range: Range<usize>) -> impl Iterator<Item = Segment<'_>> {
        assert!(range.end <= self.len, "{range:?} of a target of {} bytes", self.len);
        let mut at = range.start;
        let mut next = self.copies.partition_point(|copy| copy.target_end() <= at);
        std::iter::from_fn(move || {
            if at >= range.end {
                return None;
            }
            let copy = self.copies.get(next);
            if let Some(copy) = copy.filter(|copy| copy.target as usize <= at) {
                let start = copy.base as usize + at - copy.target as usize;
                let length = copy.target_end().min(range.end) - at;
                at += length;
                next += 1;
                return Some(Segment::Base(start..start + length));
            }
            let (run_end, rest_end) = match copy {
                Some(copy) => (copy.target as usize, copy.rest as usize),
                None => (self.len, self.rest.len()),
            };
            let start = rest_end - (run_end - at);
            let length = run_end.min(range.end) - at;
            at += length;
            Some(Segment::Inserted(&self.rest[start..start + length]))
        })
    }

    /// Appends the whole target to `out`.
    ///
    /// # Panics
    /// If `base` is shorter than the base that the outline was made for.
    pub fn assemble(&self, base: &[u8], out: &mut Vec<u8>) {
        out.reserve_exact(self.len);
        for segment in self.segments(0..self.len) {
            out.extend_from_slice(match segment {
                Segment::Base(range) => &base[range],
                Segment::Inserted(bytes) => bytes,
            });
        }
    }

    /// Memory it holds, bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.copies.capacity() * size_of::<Copied>() + self.rest.capacity()
    }
}
