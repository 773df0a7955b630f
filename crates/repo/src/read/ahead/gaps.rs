//! What came between frames that were wanted: other frames, some of which are wanted later.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// What each part takes beside its bytes, about.
const EACH: u64 = 128;

/// Parts of packs that were fetched with others, the last ones.
pub(super) struct Gaps {
    /// By pack and start.
    parts: BTreeMap<(u32, u64), Box<[u8]>>,
    /// The oldest first.
    order: VecDeque<(u32, u64)>,
    bytes: u64,
    most: u64,
}

impl Gaps {
    /// Makes room for so many bytes.
    pub(super) fn new(most: u64) -> Gaps {
        Gaps {
            parts: BTreeMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            most,
        }
    }

    /// Keeps what a segment of a pack has between its frames, which are given in the order of their places.
    pub(super) fn add(&mut self, pack: u32, start: u64, segment: &[u8], frames: &[(u32, Range<u32>)]) {
        let mut end = 0;
        for (_, range) in frames {
            let gap = end..range.start as usize;
            end = end.max(range.end as usize);
            let key = (pack, start + gap.start as u64);
            let takes = gap.len() as u64 + EACH;
            if gap.is_empty() || takes > self.most || self.parts.contains_key(&key) {
                continue;
            }
            self.bytes += takes;
            self.parts.insert(key, segment[gap].into());
            self.order.push_back(key);
        }
        while self.bytes > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            let gone = self.parts.remove(&oldest).map_or(0, |part| part.len() as u64 + EACH);
            self.bytes -= gone;
        }
    }

    /// Returns bytes of a pack, if one part has them.
    pub(super) fn find(&self, pack: u32, start: u64, length: u64) -> Option<&[u8]> {
        let (&(_, first), part) = self.parts.range((pack, 0)..=(pack, start)).next_back()?;
        let at = (start - first) as usize;
        part.get(at..at + length as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_found_until_there_is_no_room_for_them() {
        let segment: Vec<u8> = (0..100).collect();
        let mut gaps = Gaps::new(2 * (20 + EACH));
        gaps.add(1, 1000, &segment, &[(7, 10..20), (8, 20..30), (9, 50..60)]);
        assert_eq!(gaps.find(1, 1000, 10), Some(&segment[..10]));
        assert_eq!(gaps.find(1, 1032, 18), Some(&segment[32..50]));
        for (pack, start, length) in [(1, 1032, 19), (1, 1010, 5), (1, 999, 2), (0, 1000, 1), (2, 5, 1)] {
            assert_eq!(gaps.find(pack, start, length), None, "{pack} {start} {length}");
        }
        // The same again takes no more room; another one takes that of the first.
        gaps.add(1, 1000, &segment, &[(7, 10..20), (8, 20..30), (9, 50..60)]);
        assert_eq!(gaps.find(1, 1000, 10), Some(&segment[..10]));
        gaps.add(2, 0, &segment, &[(1, 20..30)]);
        assert_eq!(gaps.find(1, 1000, 10), None);
        assert_eq!(gaps.find(2, 5, 15), Some(&segment[5..20]));
        assert_eq!(gaps.find(1, 1030, 20), Some(&segment[30..50]));
        // One that is too large for the room leaves the others.
        gaps.add(3, 0, &vec![0; 1000], &[(1, 900..1000)]);
        assert_eq!(gaps.find(3, 0, 1), None);
        assert_eq!(gaps.find(2, 5, 15), Some(&segment[5..20]));
    }
}
