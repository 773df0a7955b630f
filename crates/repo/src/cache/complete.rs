//! Which snapshots are known to be complete, and with which packs.
//!
//! A backup looks up every chunk of unchanged files: a pack may be lost together with the index files
//! that listed it. If the repository has exactly the packs that it had when the parent was made, nothing
//! is lost, and the look-ups are saved.

use std::path::PathBuf;

use ibid_format::{ChunkId, FileId, FileKind, Keys, SealKind};

use super::Cache;
use crate::Result;

/// Snapshots that are remembered.
const SNAPSHOTS_MAX: usize = 32;
const MAGIC: usize = 8;
const RECORD: usize = 48;
/// Size of the largest file, bytes.
const SIZE_MAX: u64 = (MAGIC + SNAPSHOTS_MAX * RECORD + ibid_format::SEAL_OVERHEAD) as u64;

/// A snapshot that was complete with a set of packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Complete {
    pub(crate) snapshot: FileId,
    /// Hash of the ids and sizes of the packs.
    pub(crate) packs: ChunkId,
}

impl Cache {
    fn complete_file(&self) -> PathBuf {
        self.folder().join("complete")
    }

    /// Returns the snapshots that were complete, the newest last; none if that can't be read.
    pub(crate) fn complete(&self, keys: &Keys) -> Vec<Complete> {
        let path = self.complete_file();
        let is_small = std::fs::metadata(&path).is_ok_and(|file| file.len() <= SIZE_MAX);
        let Some(mut bytes) = is_small.then(|| std::fs::read(&path).ok()).flatten() else {
            return Vec::new();
        };
        if FileKind::Complete.check(&bytes).is_err() {
            return Vec::new();
        }
        // Without it, a backup only takes longer.
        let plain = keys.open(SealKind::Run, FileId::ZERO, MAGIC as u64, &mut bytes[MAGIC..]);
        let records = plain.map(|plain| plain.as_chunks::<RECORD>().0.to_vec());
        let read = |record: [u8; RECORD]| {
            let (mut snapshot, mut packs) = ([0; 16], [0; 32]);
            snapshot.copy_from_slice(&record[..16]);
            packs.copy_from_slice(&record[16..]);
            Complete {
                snapshot: FileId(snapshot),
                packs: ChunkId(packs),
            }
        };
        records.unwrap_or_default().into_iter().map(read).collect()
    }

    /// Remembers a snapshot that is complete. Of several processes that do so at once, one may win.
    pub(crate) fn remember_complete(&self, keys: &Keys, new: Complete) -> Result<()> {
        let mut known = self.complete(keys);
        known.retain(|other| other.snapshot != new.snapshot);
        known.push(new);
        let first = known.len().saturating_sub(SNAPSHOTS_MAX);
        let records = known[first..].iter();
        let plain: Vec<u8> = records
            .flat_map(|one| one.snapshot.0.into_iter().chain(one.packs.0))
            .collect();
        let mut bytes = FileKind::Complete.magic().to_vec();
        keys.seal(SealKind::Run, FileId::ZERO, MAGIC as u64, &plain, &mut bytes);
        self.write_bytes("", &self.complete_file(), &bytes)
    }
}
