//! What of the base is of use for the rest of the target?
//!
//! That which stood in its place: between the copies, or, where the copies before and after lie apart, beside either.

use std::ops::Range;

use crate::codec::matches::Match;

/// Bytes of a copy's end that belong to the context.
const MARGIN: usize = 32;

/// Between two copies the base is taken whole if it is at most so much longer than the target there, bytes.
const LONGER_MAX: usize = 512;

/// Most bytes of the base that are taken after a copy, or before one, if the base is not taken whole between the two.
const BESIDE_MAX: usize = 8 << 10;

/// Derives contexts. Memory: 16 bytes for each place where something was inserted.
#[derive(Debug, Default)]
pub(super) struct Context {
    stretches: Vec<Range<u32>>,
    bytes: Vec<u8>,
}

impl Context {
    /// The bytes of the base beside these copies, each at most once: so they are at most as many as the base's.
    pub(super) fn derive(&mut self, base: &[u8], copies: &[Match], target_len: usize) -> &[u8] {
        self.gather_stretches(base.len(), copies, target_len);
        // Copies mostly ascend in the base as in the target, and then this is a pass over what is sorted.
        self.stretches.sort_unstable_by_key(|stretch| stretch.start);
        self.bytes.clear();
        let mut taken = 0;
        for stretch in &self.stretches {
            let start = (stretch.start as usize).max(taken);
            let end = stretch.end as usize;
            if start < end {
                self.bytes.extend_from_slice(&base[start..end]);
                taken = end;
            }
        }
        &self.bytes
    }

    /// One or two stretches of the base for every run of the target that no copy covers.
    fn gather_stretches(&mut self, base_len: usize, copies: &[Match], target_len: usize) {
        self.stretches.clear();
        let mut push = |start: usize, end: usize| {
            let start = start.saturating_sub(MARGIN) as u32;
            self.stretches.push(start..base_len.min(end + MARGIN) as u32);
        };
        let (mut read, mut written) = (0, 0);
        for copy in copies {
            let run = copy.target as usize - written;
            let from = copy.base as usize;
            if run > 0 {
                if read <= from && from - read <= run + LONGER_MAX {
                    push(read, from);
                } else {
                    let most = run.min(BESIDE_MAX);
                    push(read, read + most);
                    push(from.saturating_sub(most), from);
                }
            }
            (read, written) = (copy.base_end() as usize, copy.target_end() as usize);
        }
        let run = target_len - written;
        if run > 0 {
            push(read, read + run.min(BESIDE_MAX));
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.stretches.capacity() * size_of::<Range<u32>>() + self.bytes.capacity()
    }
}
