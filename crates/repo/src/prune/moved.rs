//! Where frames are that were moved, by where they were.

use std::collections::HashMap;
use std::ops::Range;

use ibid_format::FileId;

use crate::Result;
use crate::scratch::{Array, Scratch};

/// Frames that were moved into other packs.
pub(super) struct Moved {
    /// For each frame, from the highest bits on: where it was in its pack, the number of the pack that has it now, and
    /// where it is there.
    frames: Array<u128>,
    /// By pack, which of these were in it, ascending.
    by_pack: HashMap<FileId, Range<u64>>,
    /// The packs that have them now, by number.
    packs: Vec<FileId>,
}

impl Moved {
    pub(super) fn new(scratch: &Scratch) -> Moved {
        Moved {
            frames: Array::new(scratch),
            by_pack: HashMap::new(),
            packs: Vec::new(),
        }
    }

    /// Numbers a pack into which frames are moved.
    pub(super) fn number(&mut self, pack: FileId) -> u32 {
        self.packs.push(pack);
        self.packs.len() as u32 - 1
    }

    /// Adds a frame. Those of one pack are added one after another, ascending.
    pub(super) fn add(&mut self, (pack, offset): (FileId, u32), (new_pack, new_offset): (u32, u32)) -> Result<()> {
        let packed = u128::from(offset) << 64 | u128::from(new_pack) << 32 | u128::from(new_offset);
        let at = self.frames.push(packed)?;
        self.by_pack.entry(pack).or_insert(at..at).end = at + 1;
        Ok(())
    }

    /// Returns where a frame is now, if it was moved.
    pub(super) fn find(&mut self, pack: FileId, offset: u32) -> Result<Option<(FileId, u32)>> {
        let Some(of_pack) = self.by_pack.get(&pack).cloned() else {
            return Ok(None);
        };
        let first = u128::from(offset) << 64;
        let at = self
            .frames
            .partition_point_in(of_pack.clone(), |packed| packed < first)?;
        if at == of_pack.end {
            return Ok(None);
        }
        let packed = self.frames.get(at)?;
        let (was, new_pack, new_offset) = ((packed >> 64) as u32, (packed >> 32) as u32, packed as u32);
        Ok((was == offset).then(|| (self.packs[new_pack as usize], new_offset)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_where_they_are_now() {
        let folder = tempfile::tempdir().unwrap();
        let mut moved = Moved::new(&Scratch::tiny(folder.path()));
        let [first, second, new, newer] = [1, 2, 3, 4].map(|byte| FileId([byte; 16]));
        let (a, b) = (moved.number(new), moved.number(newer));
        for n in 0..3000 {
            moved.add((first, n * 10), (n % 2, n)).unwrap();
        }
        for n in 0..3000 {
            moved.add((second, n * 7), (b - n % 2, n * 3)).unwrap();
        }
        for n in 0..3000 {
            let pack = [new, newer][n as usize % 2];
            assert_eq!(moved.find(first, n * 10).unwrap(), Some((pack, n)));
            assert_eq!(moved.find(first, n * 10 + 1).unwrap(), None);
            let pack = [newer, new][n as usize % 2];
            assert_eq!(moved.find(second, n * 7).unwrap(), Some((pack, n * 3)));
        }
        assert_eq!(moved.find(first, u32::MAX).unwrap(), None);
        assert_eq!(moved.find(second, u32::MAX).unwrap(), None);
        assert_eq!(moved.find(new, 0).unwrap(), None);
        assert_eq!((a, b), (0, 1));
    }
}
