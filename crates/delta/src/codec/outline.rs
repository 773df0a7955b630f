//! What a delta makes of its base, before it is put together.

use std::ops::Range;

use crate::codec::matches::Match;

/// A target as stretches of its base, and between them bytes that the base does not have.
///
/// It takes memory for these bytes and 16 for each stretch: so many targets of which little differs
/// can be at hand as outlines, and of the base only what is asked for has to be read.
/// [`DeltaDecoder::outline`](super::DeltaDecoder::outline) makes one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    copies: Vec<Copied>,
    /// What no copy covers, in the target's order.
    rest: Vec<u8>,
    len: usize,
}

/// A copy, and where in the rest it would stand.
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

/// A part of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stretch<'o> {
    /// Bytes of the base.
    Base(Range<usize>),
    /// Bytes of the delta's own.
    Own(&'o [u8]),
}

impl Stretch<'_> {
    /// Bytes, at least 1.
    #[allow(clippy::len_without_is_empty, reason = "no stretch is empty")]
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Stretch::Base(range) => range.len(),
            Stretch::Own(bytes) => bytes.len(),
        }
    }
}

impl Outline {
    /// That of a target of `len` bytes; the copies ascend in it and do not overlap there.
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

    /// Length of the target, bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the target has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What a range of the target is made of, in order.
    ///
    /// # Panics
    /// If the range ends beyond the target.
    pub fn stretches(&self, range: Range<usize>) -> impl Iterator<Item = Stretch<'_>> {
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
                return Some(Stretch::Base(start..start + length));
            }
            let (run_end, rest_end) = match copy {
                Some(copy) => (copy.target as usize, copy.rest as usize),
                None => (self.len, self.rest.len()),
            };
            let start = rest_end - (run_end - at);
            let length = run_end.min(range.end) - at;
            at += length;
            Some(Stretch::Own(&self.rest[start..start + length]))
        })
    }

    /// Appends the whole target to `out`, made of a base that is at hand.
    ///
    /// # Panics
    /// If the base is shorter than the one that the outline was made for.
    pub fn put_together(&self, base: &[u8], out: &mut Vec<u8>) {
        out.reserve_exact(self.len);
        for stretch in self.stretches(0..self.len) {
            out.extend_from_slice(match stretch {
                Stretch::Base(range) => &base[range],
                Stretch::Own(bytes) => bytes,
            });
        }
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.copies.capacity() * size_of::<Copied>() + self.rest.capacity()
    }
}
