//! Which packs the storage has of those that are listed.

use std::collections::HashMap;
use std::sync::Arc;

use ibid_format::run::{RunPack, ShortId};
use ibid_format::{FileId, index as index_file};

use super::loaded::MissingPack;
use super::run::{Merge, Merged, Run, Sorter};
use crate::Result;
use crate::layout::{folder, id_of};
use crate::listed::Listed;
use crate::scratch::Scratch;

/// Bits of a size in a sorted list of packs.
const SIZE_BITS: u32 = 61;

/// What the storage has of the packs that runs and index files list.
#[derive(Default)]
pub(super) struct StoredPacks {
    /// Packs of runs that are missing or have another size, with their numbers in the index.
    pub(super) differing: Vec<(u32, MissingPack)>,
    /// Sizes of the packs that only index files list, bytes.
    pub(super) of_files: HashMap<FileId, u64>,
    /// Packs that neither lists, with their sizes in bytes.
    pub(super) unlisted: Vec<(FileId, u64)>,
}

impl StoredPacks {
    /// Returns what is stored if all packs are that are listed.
    pub(super) fn as_listed(read: &[(FileId, index_file::Index)]) -> StoredPacks {
        let of_files = read.iter().flat_map(|(_, file)| file.packs());
        StoredPacks {
            of_files: of_files.map(|pack| (pack.id, pack.size)).collect(),
            ..StoredPacks::default()
        }
    }

    /// Lists the stored packs, and compares them with those of runs and index files. There may be
    /// millions: both are read in order, so memory is needed only for what differs.
    pub(super) fn compare(
        runs: &[Arc<Run>],
        read: &[(FileId, index_file::Index)],
        scratch: &Scratch,
        listed: &Listed,
    ) -> Result<StoredPacks> {
        let mut firsts = Vec::new();
        let mut packs_in_runs = 0;
        for run in runs {
            // Once a page is known to be intact, nothing but a failing disk makes it unreadable.
            run.each_pack(|_, _| scratch.monitor.check_cancelled())?;
            firsts.push(packs_in_runs);
            packs_in_runs += run.trailer.packs;
        }
        let of_runs = runs.iter().zip(firsts);
        let of_runs = of_runs.map(|(run, first)| Merged::packs(run.clone(), first));
        let mut known = Merge::new(of_runs.collect())?;
        let mut listing = list_packs(scratch, listed)?;
        let of_files = read.iter().flat_map(|(_, file)| file.packs().map(|pack| pack.id));
        let mut of_files: HashMap<FileId, Option<u64>> = of_files.map(|id| (id, None)).collect();
        let mut found = StoredPacks::default();
        let mut before = None;
        let mut stored = listing.next()?;
        loop {
            let next = known.next()?;
            // Those before it are in no run, except the last one, if it was just met.
            while let Some((id, size)) = stored
                && next.is_none_or(|(next, _)| id < next)
            {
                let file = id.file();
                match of_files.get_mut(&file) {
                    _ if before == Some(id) => {}
                    Some(place) => *place = Some(size),
                    None => found.unlisted.push((file, size)),
                }
                stored = listing.next()?;
            }
            let Some((id, value)) = next else { break };
            let (number, expected) = RunPack::of_value(value);
            let size = stored.filter(|(other, _)| *other == id).map(|(_, size)| size);
            if size != Some(expected) {
                let missing = MissingPack {
                    id: id.file(),
                    expected,
                    found: size,
                    is_set_aside: false,
                };
                found.differing.push((number, missing));
            }
            before = Some(id);
        }
        found.of_files = of_files
            .into_iter()
            .filter_map(|(id, size)| Some((id, size?)))
            .collect();
        Ok(found)
    }
}

/// Returns the stored packs, with their sizes in bytes, ascending by their ids.
fn list_packs(scratch: &Scratch, listed: &Listed) -> Result<Merge> {
    let mut packs = Sorter::new(&scratch.files.keys, &scratch.folder, scratch.limits.sorted, SIZE_BITS);
    let mut push = |id, size: u64| packs.push(ShortId::of_file(id), size.min((1 << SIZE_BITS) - 1));
    match listed.take(folder::PACKS) {
        Some(names) => {
            let ids = names
                .iter()
                .filter_map(|(name, size)| Some((id_of(folder::PACKS, name)?, *size)));
            ids.into_iter().try_for_each(|(id, size)| push(id, size))?;
        }
        None => scratch.files.each(folder::PACKS, push)?,
    }
    packs.finish(Vec::new())
}
