//! Steps of a restore that are looked at before their turn, so that what they need is fetched in time.

use std::collections::VecDeque;
use std::path::PathBuf;

use ibid_format::content::{Content, Item};
use ibid_format::tree::{EntryKind, TreeEntry, Xattr};

use super::selected::Selected;
use crate::Error;
use crate::read::ChunkReader;
use crate::tree::{PLANNED_BYTES, chunks_of};

/// Bytes of files that are planned together: the more, the fewer requests for the same packs.
const BYTES_TOGETHER: u64 = 8 * PLANNED_BYTES;
/// Bytes of files between the step that is looked at and the one that is done.
const BYTES_MAX: u64 = 4 * BYTES_TOGETHER;

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
pub(super) struct Lookahead {
    steps: VecDeque<Step>,
    /// Bytes of the files.
    bytes: u64,
    /// Bytes of memory that the steps take, and how many they may take.
    memory: u64,
    room: u64,
    /// How many of the last steps are not planned yet, the bytes of their files, and their memory.
    unplanned: usize,
    unplanned_bytes: u64,
    unplanned_memory: u64,
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

    /// Returns about how many bytes of memory it takes.
    fn memory(&self) -> u64 {
        let more = match self {
            Step::Entry { path, entry, .. } => {
                let kind = match &entry.kind {
                    EntryKind::File(content) | EntryKind::Directory(content) => content.items.len() * size_of::<Item>(),
                    EntryKind::Symlink(target) => target.len(),
                    _ => 0,
                };
                let attribute = |(name, value): &Xattr| size_of::<Xattr>() + name.len() + value.len();
                let attributes: usize = entry.xattrs.iter().map(attribute).sum();
                size_of::<TreeEntry>() + path.as_os_str().len() + entry.name.len() + kind + attributes
            }
            Step::Damaged { path, .. } => path.as_os_str().len(),
            Step::Leave => 0,
        };
        (size_of::<Step>() + more) as u64
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
    /// Makes room for steps that take so many bytes of memory.
    pub(super) fn new(room: u64) -> Lookahead {
        Lookahead {
            steps: VecDeque::new(),
            bytes: 0,
            memory: 0,
            room,
            unplanned: 0,
            unplanned_bytes: 0,
            unplanned_memory: 0,
        }
    }

    /// Adds a step. If those before it are many, their turn has come.
    pub(super) fn push(&mut self, step: Selected<'_>, reader: &ChunkReader<'_>) {
        let step = Step::of(step);
        let (bytes, memory) = (step.content().map_or(0, |content| content.length), step.memory());
        self.bytes += bytes;
        self.unplanned_bytes += bytes;
        self.memory += memory;
        self.unplanned_memory += memory;
        self.steps.push_back(step);
        self.unplanned += 1;
        if self.unplanned_bytes >= BYTES_TOGETHER || self.unplanned_memory >= self.room / 4 {
            self.plan(reader);
        }
    }

    /// Plans what is not planned yet.
    pub(super) fn plan(&mut self, reader: &ChunkReader<'_>) {
        let first = self.steps.len() - self.unplanned;
        let contents = self.steps.iter().skip(first).filter_map(Step::content);
        reader.plan(&reader.frames_of(chunks_of(contents.flat_map(|content| &content.items))));
        (self.unplanned, self.unplanned_bytes, self.unplanned_memory) = (0, 0, 0);
    }

    /// Returns the first step if its turn has come: if so much is planned after it that the threads that fetch have
    /// enough to do, or if there will be no more steps.
    pub(super) fn pop(&mut self, is_end: bool) -> Option<Step> {
        if self.bytes <= BYTES_MAX && self.memory <= self.room && !is_end {
            return None;
        }
        let step = self.steps.pop_front()?;
        self.bytes -= step.content().map_or(0, |content| content.length);
        self.memory -= step.memory();
        self.unplanned = self.unplanned.min(self.steps.len());
        Some(step)
    }
}
