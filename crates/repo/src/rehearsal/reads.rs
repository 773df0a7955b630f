//! Frames that a rehearsal would have fetched.

use std::collections::BTreeMap;

use ibid_format::pack::PackSummary;

use super::{Inexact, Rehearsal};
use crate::files::Files;
use crate::index::{LoadedIndex, NumberSet, bases_of, find_base};
use crate::{Monitor, Result};

/// Frames that were planned so far, each once.
#[derive(Default)]
pub(crate) struct Reads {
    met: NumberSet,
    /// Those of them that are deltas whose bases are not known, by their packs.
    deltas: BTreeMap<u32, Vec<u32>>,
    bytes: u64,
}

impl Reads {
    /// Notes that a frame is planned. Returns whether it is so for the first time.
    pub(crate) fn add(&mut self, loaded: &LoadedIndex, rehearsal: &Rehearsal, number: u32) -> bool {
        if !self.met.insert(number) {
            // By then it may have been used and given up, or not.
            rehearsal.doubt(Inexact::Again);
            return false;
        }
        self.bytes += u64::from(loaded.index.frame(number).sealed);
        true
    }

    /// Notes frames whose bases were not planned with them.
    pub(crate) fn bases_unknown(&mut self, loaded: &LoadedIndex, frames: impl Iterator<Item = u32>) {
        for number in frames {
            let frame = loaded.index.frame(number);
            if frame.depth > 0 {
                self.deltas.entry(frame.pack).or_default().push(number);
            }
        }
    }

    /// Returns the bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether there are deltas among them.
    pub(crate) fn has_deltas(&self) -> bool {
        !self.deltas.is_empty()
    }

    /// Returns the frames that these need, directly and indirectly, by depth, the deepest first. They are in the
    /// directories of packs, which are read for this.
    pub(crate) fn bases(&mut self, files: &Files, loaded: &LoadedIndex, monitor: &Monitor) -> Result<Vec<Vec<u32>>> {
        let mut by_depth: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
        // Bases are mostly in older packs, which have lower numbers: so few directories are read twice.
        while let Some((pack, mut deltas)) = self.deltas.pop_last() {
            monitor.check_cancelled()?;
            let Some(directory) = directory(files, loaded, pack)? else {
                continue;
            };
            while let Some(number) = deltas.pop() {
                let frame = loaded.index.frame(number);
                let listed = bases_of(&directory, frame.offset);
                for place in listed.iter().filter_map(|&base| find_base(loaded, base, frame.depth)) {
                    if !self.met.insert(place.frame) {
                        continue;
                    }
                    let base = loaded.index.frame(place.frame);
                    by_depth.entry(base.depth).or_default().push(place.frame);
                    match base.depth {
                        0 => {}
                        _ if base.pack == pack => deltas.push(place.frame),
                        _ => self.deltas.entry(base.pack).or_default().push(place.frame),
                    }
                }
            }
        }
        Ok(by_depth.into_values().rev().collect())
    }
}

/// Reads the directory of a pack for the rehearsal alone; none if it is damaged.
fn directory(files: &Files, loaded: &LoadedIndex, number: u32) -> Result<Option<PackSummary>> {
    let pack = loaded.index.pack(number);
    let is_kept = files
        .parts
        .as_ref()
        .is_some_and(|parts| parts.has(pack.id, 0, pack.size));
    if let Some(rehearsal) = files.rehearsal.as_ref().filter(|_| !is_kept) {
        rehearsal.own_get(loaded.index.directory_length(files, number));
    }
    match loaded.index.read_directory(files, number) {
        Ok(directory) => Ok(Some(directory)),
        Err(error) if error.is_fault() => {
            if let Some(rehearsal) = &files.rehearsal {
                rehearsal.doubt(match error.is_archived() {
                    true => Inexact::Archived,
                    false => Inexact::Damage,
                });
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
