//! A base as it lies in memory: in one piece or in several.

use std::ops::Range;

/// Slices that together are a base, one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pieces<'a> {
    slices: &'a [&'a [u8]],
    /// Where each of them ends in the base.
    ends: &'a [usize],
}

impl<'a> Pieces<'a> {
    /// Those of `slices`; `ends` is memory for where they end.
    pub(super) fn of(slices: &'a [&'a [u8]], ends: &'a mut Vec<usize>) -> Pieces<'a> {
        ends.clear();
        let mut end = 0;
        ends.extend(slices.iter().map(|slice| {
            end += slice.len();
            end
        }));
        Pieces { slices, ends }
    }

    pub(super) fn len(self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Appends the bytes in a range, which must lie within the base.
    pub(super) fn append(self, range: Range<usize>, out: &mut Vec<u8>) {
        let mut at = range.start;
        let first = self.ends.partition_point(|&end| end <= at);
        for (slice, &end) in self.slices[first..].iter().zip(&self.ends[first..]) {
            if at >= range.end {
                break;
            }
            let start = end - slice.len();
            out.extend_from_slice(&slice[at - start..range.end.min(end) - start]);
            at = end;
        }
        debug_assert!(at >= range.end, "the range lies within the base");
    }

    /// All bytes as one slice: as they are if they lie in one piece, else put together in `space`.
    pub(super) fn joined(self, space: &'a mut Vec<u8>) -> &'a [u8] {
        match self.slices {
            [] => &[],
            [all] => all,
            _ => {
                space.clear();
                space.reserve_exact(self.len());
                self.append(0..self.len(), space);
                space
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_are_as_all_of_them_in_one(
            slices in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..7),
            bounds in any::<[prop::sample::Index; 2]>(),
        ) {
            let all = slices.concat();
            let slices: Vec<&[u8]> = slices.iter().map(Vec::as_slice).collect();
            let (mut ends, mut space, mut out) = (Vec::new(), Vec::new(), b"before".to_vec());
            let pieces = Pieces::of(&slices, &mut ends);
            prop_assert_eq!(pieces.len(), all.len());
            let mut bounds = bounds.map(|bound| bound.index(all.len() + 1));
            bounds.sort_unstable();
            pieces.append(bounds[0]..bounds[1], &mut out);
            prop_assert_eq!(&out[6..], &all[bounds[0]..bounds[1]]);
            prop_assert_eq!(pieces.joined(&mut space), all);
        }
    }
}
