//! Temporary runs to which entries were moved from memory.

use std::path::Path;
use std::sync::Arc;

use ibid_format::Keys;
use ibid_format::run::ShortId;

use super::{FilterRoom, Merge, Merged, Run, RunWriter};
use crate::Result;
use crate::scratch::Scratch;

/// Runs that are merged into one.
const MERGED: usize = 8;
/// Most bits of an entry's number: 32 of a frame, 16 of a slot.
const NUMBER_BITS: u32 = 48;

/// Temporary runs, the oldest first. Runs of one size are merged, so that they stay few.
#[derive(Clone, Default)]
pub(in crate::index) struct RunStack(Vec<Arc<Run>>);

impl RunStack {
    /// Adds a run of the entries that `each` passes on in order.
    pub(in crate::index) fn add(
        &mut self,
        scratch: &Scratch,
        filters: &FilterRoom,
        each: impl Fn(&mut dyn FnMut(ShortId, u64) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let run = scratch.in_some_folder(|folder| {
            let mut writer = RunWriter::new(&scratch.files.keys, folder, false, 0)?;
            writer.begin_entries(NUMBER_BITS)?;
            each(&mut |id, value| writer.entry(id, value))?;
            writer.finish(Vec::new())
        })?;
        run.load_filter(filters);
        self.0.push(Arc::new(run));
        // Merge the newest runs as long as they are of one size.
        while let Some(from) = alike(&self.0) {
            let make = |folder: &_| merge(&scratch.files.keys, folder, &self.0[from..], NUMBER_BITS);
            let merged = scratch.in_some_folder(make)?;
            self.0.drain(from..).for_each(|run| run.drop_filter(filters));
            merged.load_filter(filters);
            self.0.push(Arc::new(merged));
        }
        Ok(())
    }

    /// Returns the runs, the newest first.
    pub(in crate::index) fn newest_first(&self) -> impl Iterator<Item = &Run> {
        self.0.iter().rev().map(|run| &**run)
    }
}

/// Returns the first of the newest runs that are to be merged: [`MERGED`] of them, none of which is
/// larger than the others together.
pub(super) fn alike(runs: &[Arc<Run>]) -> Option<usize> {
    let from = runs.len().checked_sub(MERGED)?;
    let entries = |run: &Arc<Run>| run.trailer.entries;
    let most = runs[from..].iter().map(entries).max()?;
    let all: u64 = runs[from..].iter().map(entries).sum();
    (most <= all - most).then_some(from)
}

/// Merges runs of entries, with numbers of at most so many bits, into a temporary one in this folder.
pub(super) fn merge(keys: &Keys, folder: &Path, runs: &[Arc<Run>], value_bits: u32) -> Result<Run> {
    let mut writer = RunWriter::new(keys, folder, false, 0)?;
    writer.begin_entries(value_bits)?;
    let mut merge = Merge::new(runs.iter().cloned().map(Merged::temporary).collect())?;
    while let Some((id, value)) = merge.next()? {
        writer.entry(id, value)?;
    }
    writer.finish(Vec::new())
}
