//! Steps of a restore that are looked at before their turn, so that what they need is fetched in time.

use std::collections::VecDeque;
use std::path::PathBuf;

use ibid_format::content::Content;
use ibid_format::tree::{EntryKind, TreeEntry};

use super::selected::Selected;
use crate::Error;
use crate::read::ChunkReader;
use crate::tree::{PLANNED_BYTES, PLANNED_CHUNKS, chunks_of};

/// Bytes of files between the step that is looked at and the one that is done.
const BYTES_MAX: u64 = 4 * PLANNED_BYTES;
/// Steps between them.
const STEPS_MAX: usize = 4096;
/// Chunks of their files.
const ITEMS_MAX: usize = 16 * PLANNED_CHUNKS;

/// A [`Selected`] that is kept.
pub(super) enum Step {
    Entry {
        path: PathBuf,
        entry: Box<TreeEntry>,
        wanted: bool,
    },
    Leave,
    Damaged {
        path: PathBuf,
        error: Error,
    },
}

/// Steps that wait for their turn.
#[derive(Default)]
pub(super) struct Lookahead {
    steps: VecDeque<Step>,
    bytes: u64,
    items: usize,
    /// How many of the last steps are not planned yet, and the bytes of their files.
    unplanned: usize,
    unplanned_bytes: u64,
}

impl Step {
    fn of(step: Selected<'_>) -> Step {
        match step {
            Selected::Entry { path, entry, wanted } => Step::Entry {
                path: path.to_path_buf(),
                entry: Box::new(entry.clone()),
                wanted,
            },
            Selected::Leave => Step::Leave,
            Selected::Damaged { path, error } => Step::Damaged {
                path: path.to_path_buf(),
                error,
            },
        }
    }

    /// Returns the step for a planner.
    pub(super) fn selected(&self) -> Option<Selected<'_>> {
        match self {
            Step::Entry { path, entry, wanted } => Some(Selected::Entry {
                path,
                entry,
                wanted: *wanted,
            }),
            Step::Leave => Some(Selected::Leave),
            Step::Damaged { .. } => None,
        }
    }

    /// Returns the content of a file that is planned here: not that of a large one, whose chunks are planned window by
    /// window.
    fn content(&self) -> Option<&Content> {
        match self {
            Step::Entry {
                entry, wanted: true, ..
            } => planned(entry),
            _ => None,
        }
    }
}

/// Returns the content of a file whose frames are planned before its turn.
pub(super) fn planned(entry: &TreeEntry) -> Option<&Content> {
    match &entry.kind {
        EntryKind::File(content) if content.depth == 0 && content.length <= PLANNED_BYTES => Some(content),
        _ => None,
    }
}

impl Lookahead {
    /// Adds a step. If those before it are many, their turn has come.
    pub(super) fn push(&mut self, step: Selected<'_>, reader: &ChunkReader<'_>) {
        let step = Step::of(step);
        if let Some(content) = step.content() {
            self.bytes += content.length;
            self.unplanned_bytes += content.length;
            self.items += content.items.len();
        }
        self.steps.push_back(step);
        self.unplanned += 1;
        if self.unplanned_bytes >= PLANNED_BYTES || self.unplanned >= STEPS_MAX / 4 {
            self.plan(reader);
        }
    }

    /// Plans what is not planned yet.
    pub(super) fn plan(&mut self, reader: &ChunkReader<'_>) {
        let first = self.steps.len() - self.unplanned;
        let contents = self.steps.iter().skip(first).filter_map(Step::content);
        reader.plan(&reader.frames_of(chunks_of(contents.flat_map(|content| &content.items))));
        (self.unplanned, self.unplanned_bytes) = (0, 0);
    }

    /// Returns the first step if its turn has come: if so much is planned after it that the threads that fetch have
    /// enough to do, or if there will be no more steps.
    pub(super) fn pop(&mut self, is_end: bool) -> Option<Step> {
        let is_full = self.bytes > BYTES_MAX || self.items > ITEMS_MAX || self.steps.len() > STEPS_MAX;
        if !is_full && !is_end {
            return None;
        }
        let step = self.steps.pop_front()?;
        if let Some(content) = step.content() {
            self.bytes -= content.length;
            self.items -= content.items.len();
        }
        self.unplanned = self.unplanned.min(self.steps.len());
        Some(step)
    }
}
