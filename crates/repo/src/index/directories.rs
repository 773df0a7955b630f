//! Reading the directories of many packs, which say what the frames are encoded against.

use ibid_format::ChunkPrefix;
use ibid_format::pack::PackSummary;

use super::frames::Pack;
use super::lookup::Index;
use crate::Result;
use crate::files::Files;
use crate::threads::{REQUESTS, each};

/// Chunks in the directories that are in memory at once: each takes about 50 bytes there.
const CHUNKS_MAX: u64 = 64 << 10;

/// Returns what the directory of a pack says that the frame at an offset is encoded against; nothing if there is no
/// such frame.
pub(crate) fn bases_of(directory: &PackSummary, offset: u32) -> &[ChunkPrefix] {
    let found = directory.frames.binary_search_by_key(&offset, |frame| frame.offset);
    found.map_or(&[], |at| &directory.frames[at].bases)
}

impl Index {
    /// Returns where the directory of a pack should begin: where its last frame ends.
    pub(crate) fn directory_begins(&self, pack: u32) -> Option<u64> {
        self.frames_of(pack).last().map(|frame| self.frame(frame).end())
    }

    /// Reads the directory of a pack.
    pub(crate) fn read_directory(&self, files: &Files, number: u32) -> Result<PackSummary> {
        let pack = self.pack(number);
        files.read_directory_at(pack.id, pack.size, self.directory_begins(number))
    }

    /// Returns how many bytes are read to find the directory of a pack.
    pub(crate) fn directory_length(&self, files: &Files, number: u32) -> u64 {
        files.directory_length(self.pack(number).size, self.directory_begins(number))
    }

    /// Calls `work` with the directory of each pack that has deltas and `is_wanted`, in order: the number of the pack,
    /// the pack, and its directory. Where the storage is far, several are fetched at once.
    pub(crate) fn each_directory(
        &self,
        files: &Files,
        mut is_wanted: impl FnMut(&Pack) -> Result<bool>,
        mut work: impl FnMut(u32, &Pack, Result<PackSummary>) -> Result<()>,
    ) -> Result<()> {
        let at_once = files.storage.is_remote();
        let mut group: Vec<(u32, Pack)> = Vec::new();
        let mut chunks = 0;
        let mut work_on = |group: &mut Vec<(u32, Pack)>| -> Result<()> {
            let read = each(at_once, group, |(number, _)| self.read_directory(files, *number));
            let read = group.drain(..).zip(read);
            read.into_iter()
                .try_for_each(|((number, pack), read)| work(number, &pack, read))
        };
        for (number, pack) in self.packs() {
            let frames = self.frames_of(number).map(|frame| self.frame(frame));
            let (mut has_deltas, mut of_pack) = (false, 0);
            for frame in frames {
                has_deltas |= frame.depth > 0;
                of_pack += u64::from(frame.blobs);
            }
            if !has_deltas || !is_wanted(&pack)? {
                continue;
            }
            if !group.is_empty() && (!at_once || group.len() == REQUESTS || chunks + of_pack > CHUNKS_MAX) {
                work_on(&mut group)?;
                chunks = 0;
            }
            chunks += of_pack;
            group.push((number, pack));
        }
        work_on(&mut group)
    }
}
