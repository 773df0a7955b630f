//! What index files list in packs that are missing, or cut short.

use std::collections::HashMap;

use ibid_format::FileId;
use ibid_format::index::{Index as IndexFile, IndexedChunk};

use super::frames::Frame;
use super::loaded::LoadedIndex;
use crate::Result;

/// The packs that are missing, each with its position among them and the bytes that are left of it.
pub(crate) struct MissingPacks(HashMap<FileId, (u32, u64)>);

impl LoadedIndex {
    /// Returns the packs that are missing.
    pub(crate) fn missing_packs(&self) -> MissingPacks {
        let missing = self.missing.iter().zip(0..);
        MissingPacks(
            missing
                .map(|(pack, at)| (pack.id, (at, pack.found.unwrap_or(0))))
                .collect(),
        )
    }
}

impl MissingPacks {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls `each` for every chunk that an index file lists in a missing pack or in a missing part of one, with that
    /// pack's position among those that are missing, and the frame.
    pub(crate) fn each_chunk(
        &self,
        file: &IndexFile,
        mut each: impl FnMut(u32, &IndexedChunk, Frame) -> Result<()>,
    ) -> Result<()> {
        let packs: Vec<_> = file.packs().collect();
        if packs.iter().all(|pack| !self.0.contains_key(&pack.id)) {
            return Ok(());
        }
        for entry in file.entries() {
            let at = packs.partition_point(|pack| pack.first_frame <= entry.frame);
            if let Some((pack, left)) = at.checked_sub(1).and_then(|at| self.0.get(&packs[at].id))
                && let Some(frame) = file.frame(entry.frame).map(|frame| Frame::of(0, &frame))
                && frame.end() > *left
            {
                each(*pack, &entry, frame)?;
            }
        }
        Ok(())
    }
}
