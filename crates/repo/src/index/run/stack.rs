//! Temporary runs to which entries were moved from memory.

use std::path::Path;
use std::sync::Arc;

use ibid_format::Keys;
use ibid_format::run::{ShortId, VALUE_BITS_MAX};

use super::{FilterRoom, Merge, Merged, Run, RunWriter};
use crate::Result;
use crate::scratch::Scratch;

/// Runs that are merged into one.
const MERGED: usize = 8;

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
            let mut writer = RunWriter::new(&scratch.files.keys, folder, false)?;
            writer.begin_entries(VALUE_BITS_MAX)?;
            each(&mut |id, value| writer.entry(id, value))?;
            writer.finish(Vec::new())
        })?;
        run.load_filter(filters);
        self.0.push(Arc::new(run));
        // Merge the newest runs as long as they are of one size.
        while let Some(from) = alike(&self.0) {
            let merged = scratch.in_some_folder(|folder| merge(&scratch.files.keys, folder, &self.0[from..]))?;
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

/// Merges runs of entries into a temporary one in this folder.
pub(super) fn merge(keys: &Keys, folder: &Path, runs: &[Arc<Run>]) -> Result<Run> {
    let mut writer = RunWriter::new(keys, folder, false)?;
    writer.begin_entries(VALUE_BITS_MAX)?;
    let mut merge = Merge::new(runs.iter().map(|run| Merged::run(run.clone(), 0)).collect())?;
    while let Some((id, value)) = merge.next()? {
        writer.entry(id, value)?;
    }
    writer.finish(Vec::new())
}
