//! Stored packs on their way into index files.

use ibid_format::pack::PackSummary;
use ibid_format::{FileId, index as index_file};

use super::loaded::LoadedIndex;
use crate::files::Files;
use crate::layout::{folder, new_id};
use crate::{Error, Monitor, Result};

/// Maximum number of stored chunks that no index file lists. It bounds memory; after a crash, the directories of
/// unlisted packs are read.
const CHUNKS_MAX: usize = 200_000;
/// The same, packs, where these can't be read after a crash: what is left in none is stored again, and is paid for as
/// long as the storage keeps it.
const PACKS_MAX_ARCHIVED: usize = 16;
/// Memory budget for each of these chunks, bytes: it takes about 150 until its index file is written.
const BUDGET_A_CHUNK: u64 = 2500;

/// Stored packs that no index file lists yet.
pub(crate) struct Unlisted {
    packs: Vec<PackSummary>,
    chunks: usize,
    chunks_max: usize,
}

impl Unlisted {
    /// Returns an empty set, for a memory budget in bytes.
    pub(crate) fn new(memory: u64) -> Unlisted {
        Unlisted {
            packs: Vec::new(),
            chunks: 0,
            chunks_max: (memory / BUDGET_A_CHUNK).min(CHUNKS_MAX as u64) as usize,
        }
    }

    /// Adds a pack that is durable, and whose frames have their bases. Returns whether there are now so many that
    /// they must be [listed](Unlisted::list): fewer if they are `archived`.
    pub(crate) fn add(&mut self, pack: PackSummary, archived: bool) -> bool {
        self.chunks += chunks_of(&pack);
        self.packs.push(pack);
        self.chunks >= self.chunks_max || archived && self.packs.len() >= PACKS_MAX_ARCHIVED
    }

    /// Returns the number of packs.
    pub(crate) fn len(&self) -> usize {
        self.packs.len()
    }

    /// Takes all packs out.
    pub(crate) fn take(&mut self) -> Unlisted {
        Unlisted {
            packs: std::mem::take(&mut self.packs),
            chunks: std::mem::take(&mut self.chunks),
            chunks_max: self.chunks_max,
        }
    }

    /// Writes index files of these packs, unless this is a dry run. Returns them, with their sizes in bytes.
    pub(crate) fn list(&mut self, files: &Files, epoch: u64, dry_run: bool) -> Result<Vec<(FileId, u64)>> {
        let mut rest = self.packs.as_slice();
        let mut written = Vec::new();
        while !rest.is_empty() {
            let count = packs_of_one_file(rest, self.chunks_max);
            let id = new_id();
            let bytes =
                index_file::encode(&files.keys, id, epoch, &rest[..count]).map_err(Error::damaged("the new index"))?;
            if !dry_run {
                files.put_copied(folder::INDEX, id, &bytes)?;
            }
            written.push((id, bytes.len() as u64));
            rest = &rest[count..];
        }
        self.packs.clear();
        self.chunks = 0;
        Ok(written)
    }
}

/// Calls `each` with the packs that no trusted index file lists and whose frames all have their bases: an index
/// file lists only such.
pub(crate) fn each_unlisted(
    loaded: &LoadedIndex,
    files: &Files,
    monitor: &Monitor,
    mut each: impl FnMut(PackSummary) -> Result<()>,
) -> Result<()> {
    for &(id, size) in loaded.unlisted.iter().filter(|(id, _)| loaded.is_whole(*id)) {
        monitor.check_cancelled()?;
        // A keeper lists what keepers have signed.
        if loaded
            .index
            .find_pack(id)
            .is_some_and(|number| loaded.is_doubted(number))
        {
            continue;
        }
        match files.read_directory(id, size) {
            Ok(pack) => each(pack)?,
            // It could be read a moment ago. The next command reports it.
            Err(error) if error.is_fault() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns how many of these packs go into one index file. Even with one pack per chunk, the file stays well below
/// its size limit; writing it takes a few times its size in memory.
fn packs_of_one_file(packs: &[PackSummary], chunks_max: usize) -> usize {
    let mut chunks = 0;
    let fits = |pack: &&PackSummary| {
        chunks += chunks_of(pack);
        chunks <= chunks_max
    };
    packs.iter().take_while(fits).count().max(1)
}

fn chunks_of(pack: &PackSummary) -> usize {
    pack.frames.iter().map(|frame| frame.blobs.len()).sum()
}

#[cfg(test)]
mod tests {
    use ibid_format::ChunkId;
    use ibid_format::frame::Blob;
    use ibid_format::pack::{FrameSummary, PackKind};

    use super::*;

    /// The case of a repository with one chunk per frame that has lost all its index files.
    #[test]
    fn a_million_frames_that_no_index_file_lists_fit_into_several() {
        let frame = FrameSummary {
            offset: 0,
            sealed: 0,
            depth: 0,
            bases: vec![],
            blobs: vec![Blob {
                id: ChunkId([1; 32]),
                length: 1,
            }],
        };
        let pack = PackSummary {
            id: FileId::random(),
            kind: PackKind::Data,
            size: 0,
            frames: vec![frame; 999],
        };
        let packs = vec![pack; 1400];
        let mut rest = packs.as_slice();
        let mut files = 0;
        while !rest.is_empty() {
            let count = packs_of_one_file(rest, CHUNKS_MAX);
            let frames = count as u32 * 999;
            assert!(index_file::would_fit(count as u32, frames, frames), "{count} packs");
            rest = &rest[count..];
            files += 1;
        }
        assert_eq!(files, 7);
        let most = CHUNKS_MAX as u32;
        assert!(index_file::would_fit(most, most, most));
    }
}
