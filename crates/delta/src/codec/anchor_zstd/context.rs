//! Selects the context: the bytes of the base that resemble the rest of the target.
//!
//! These are the bytes that the rest replaced: those between the copies, or, if the copies before
//! and after are far apart in the base, those beside either.

use std::ops::Range;

use crate::codec::matches::Match;

/// Bytes at the end of a copy that belong to the context.
const MARGIN: usize = 32;

/// All of the base between two copies is taken if it is at most so much longer than the target
/// between them, bytes.
const LONGER_MAX: usize = 512;

/// Most bytes of the base that are taken after a copy, or before one, if not all between the two
/// are taken.
const BESIDE_MAX: usize = 8 << 10;

/// Derives contexts. It takes 16 bytes for each place with inserted bytes.
#[derive(Debug, Default)]
pub(super) struct Context {
    stretches: Vec<Range<u32>>,
    bytes: Vec<u8>,
}

impl Context {
    /// Returns the bytes of the base beside these copies.
    pub(super) fn derive(&mut self, base: &[u8], copies: &[Match], target_len: usize) -> &[u8] {
        self.bytes.clear();
        self.find(base.len(), copies, target_len);
        for stretch in &self.stretches {
            self.bytes
                .extend_from_slice(&base[stretch.start as usize..stretch.end as usize]);
        }
        &self.bytes
    }

    /// Returns the ranges of the bytes beside these copies in a base of this length, ascending and
    /// without overlap. So they are at most as long as the base.
    pub(super) fn find(&mut self, base_len: usize, copies: &[Match], target_len: usize) -> &[Range<u32>] {
        self.gather_stretches(base_len, copies, target_len);
        // Copies mostly ascend in the base as in the target, so this sorts a sorted list.
        self.stretches.sort_unstable_by_key(|stretch| stretch.start);
        let mut taken = 0;
        self.stretches.retain_mut(|stretch| {
            stretch.start = stretch.start.max(taken);
            let is_new = stretch.start < stretch.end;
            if is_new {
                taken = stretch.end;
            }
            is_new
        });
        &self.stretches
    }

    /// Adds one or two ranges of the base for every run of the target that no copy covers.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The rule of `docs/format/delta.md`, byte by byte.
    fn by_definition(base: &[u8], copies: &[Match], target_len: usize) -> Vec<u8> {
        let mut taken = vec![false; base.len()];
        let mut take = |from: i64, until: i64| {
            for at in from.max(0)..until.min(base.len() as i64) {
                taken[at as usize] = true;
            }
        };
        let (mut e, mut written) = (0, 0);
        for number in 0..=copies.len() {
            let after = copies.get(number);
            let r = after.map_or(target_len as i64, |copy| copy.target.into()) - written;
            let m = r.min(8192);
            match after.map(|copy| i64::from(copy.base)) {
                _ if r == 0 => {}
                Some(b) if e <= b && b - e <= r + 512 => take(e - 32, b + 32),
                Some(b) => {
                    take(e - 32, e + m + 32);
                    take(b - m - 32, b + 32);
                }
                None => take(e - 32, e + m + 32),
            }
            if let Some(copy) = after {
                (e, written) = (copy.base_end().into(), copy.target_end().into());
            }
        }
        let kept = base.iter().zip(taken).filter(|(_, taken)| *taken);
        kept.map(|(&byte, _)| byte).collect()
    }

    proptest! {
        #[test]
        fn a_context_is_what_the_format_says(
            base_len in 16usize..40_000,
            copies in prop::collection::vec(
                (prop_oneof![Just(0), 0u32..40, 0u32..20_000], 16u32..3000, any::<u32>()),
                0..12,
            ),
            last_run in 0usize..10_000,
        ) {
            let byte = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
            let base: Vec<u8> = (0..base_len as u64).map(byte).collect();
            let mut written = 0;
            let copies: Vec<Match> = copies.into_iter().map(|(run, length, from)| {
                let length = length.min(base_len as u32);
                let copy = Match { base: from % (base_len as u32 - length + 1), target: written + run, length };
                written = copy.target_end();
                copy
            }).collect();
            let target_len = written as usize + last_run;
            let mut context = Context::default();
            let derived = context.derive(&base, &copies, target_len).to_vec();
            prop_assert!(derived.len() <= base.len());
            prop_assert!(derived == by_definition(&base, &copies, target_len));
        }
    }
}
