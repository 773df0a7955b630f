//! Finds the anchors of a target that no match covers yet.

use std::ops::Range;

use super::matches::Match;
use crate::Backend;
use crate::sample::{Interval, WINDOW, sample};

/// Bytes of the target sampled at a time. Matches cover most of a target, and those bytes are never
/// sampled.
const PIECE: usize = 2048;

/// Calls `find` for every anchor in a `range` of `target` that no earlier match covers, in order.
///
/// `find` gets the end of the last match and the anchor. The match that it returns begins between
/// the two and ends after the anchor.
pub(super) fn for_each_anchor(
    (backend, interval): (Backend, Interval),
    target: &[u8],
    range: Range<usize>,
    positions: &mut Vec<u32>,
    mut find: impl FnMut(usize, usize) -> Option<Match>,
) {
    let (mut at, mut taken) = (range.start, range.start);
    while at < range.end {
        let piece_end = range.end.min(at + PIECE);
        positions.clear();
        // Sample the windows that begin before the piece ends.
        let piece = &target[at..range.end.min(piece_end + WINDOW - 1)];
        sample(backend, interval, piece, at as u32, positions);
        at = piece_end;
        for &anchor in positions.iter() {
            let anchor = anchor as usize;
            if anchor >= taken
                && let Some(found) = find(taken, anchor)
            {
                taken = found.target_end() as usize;
            }
        }
        at = at.max(taken);
    }
}
