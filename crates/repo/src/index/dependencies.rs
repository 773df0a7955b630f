//! Dependencies between frames, from the directories of their packs.

use std::collections::{HashMap, HashSet};

use ibid_format::ChunkPrefix;
use ibid_format::pack::FrameSummary;

use super::frames::{Frame, Place};
use super::loaded::LoadedIndex;
use crate::files::Files;
use crate::{Monitor, Result};

/// Dependencies between frames, named by their numbers in the index.
#[derive(Default)]
pub(crate) struct Dependencies {
    /// Pairs of a base frame and a frame encoded against a chunk in it, ascending.
    frames: Vec<(u32, u32)>,
    /// Pairs of a requested chunk and a frame encoded against it, ascending.
    places: Vec<(Place, u32)>,
    /// Pairs of a base that no less deep frame holds and a frame encoded against it.
    unknown: Vec<(ChunkPrefix, u32)>,
}

impl Dependencies {
    /// Reads the directories of all packs with delta frames, except those given. For chunks in
    /// `places`, also records the frames that need them. Packs whose directories can't be read, or
    /// contradict the index, are skipped.
    pub(crate) fn read(
        files: &Files,
        loaded: &LoadedIndex,
        places: &HashSet<Place>,
        monitor: &Monitor,
    ) -> Result<Dependencies> {
        let index = &loaded.index;
        let mut dependencies = Dependencies::default();
        // The index does not know the chunks of lost frames, but frames encoded against these
        // depend on them.
        let mut lost = HashMap::new();
        for (number, pack) in index.packs() {
            let range = index.frames_of(number);
            let frames: Vec<Frame> = range.clone().map(|number| index.frame(number)).collect();
            if frames.iter().all(|frame| frame.depth == 0) {
                continue;
            }
            monitor.check_cancelled()?;
            let summary = match files.read_directory(pack.id, pack.size) {
                Ok(summary) => summary,
                Err(error) if error.is_fault() => continue,
                Err(error) => return Err(error),
            };
            let listed = frames.iter().map(|frame| (frame.offset, frame.depth));
            if listed.eq(summary.frames.iter().map(|frame| (frame.offset, frame.depth))) {
                for (frame, number) in summary.frames.iter().zip(range) {
                    dependencies.add(loaded, frame, number, places);
                    if index.lost().contains(&number) {
                        lost.extend(frame.blobs.iter().map(|blob| (blob.id.prefix(), number)));
                    }
                }
            }
        }
        dependencies.unknown.retain(|(base, frame)| match lost.get(base) {
            Some(&holder) if index.frame(holder).depth < index.frame(*frame).depth => {
                dependencies.frames.push((holder, *frame));
                false
            }
            _ => true,
        });
        dependencies.frames.sort_unstable();
        dependencies.frames.dedup();
        dependencies.places.sort_unstable();
        Ok(dependencies)
    }

    fn add(&mut self, loaded: &LoadedIndex, frame: &FrameSummary, number: u32, places: &HashSet<Place>) {
        let before = self.frames.len();
        for &base in &frame.bases {
            let Some(place) = find_base(loaded, base, frame.depth) else {
                self.unknown.push((base, number));
                continue;
            };
            if places.contains(&place) {
                self.places.push((place, number));
            }
            // Most bases of a frame are in few other frames.
            if !self.frames[before..].contains(&(place.frame, number)) {
                self.frames.push((place.frame, number));
            }
        }
    }

    /// Returns pairs of a base frame and a frame encoded against a chunk in it, ascending.
    pub(crate) fn frames(&self) -> &[(u32, u32)] {
        &self.frames
    }

    /// Returns bases that can't be read, each with a frame that is encoded against it.
    pub(crate) fn missing_bases(&self) -> &[(ChunkPrefix, u32)] {
        &self.unknown
    }

    /// Returns the frames encoded against the chunk in this place, if it was one of those
    /// requested.
    pub(crate) fn dependents_of_chunk(&self, place: Place) -> impl Iterator<Item = u32> + '_ {
        let start = self.places.partition_point(|edge| edge.0 < place);
        let on_place = move |edge: &&(Place, u32)| edge.0 == place;
        self.places[start..].iter().take_while(on_place).map(|&(_, on)| on)
    }

    /// Returns the frames encoded against chunks of this frame.
    pub(crate) fn direct_dependents(&self, frame: u32) -> impl Iterator<Item = u32> + '_ {
        let start = self.frames.partition_point(|edge| edge.0 < frame);
        let of_frame = move |edge: &&(u32, u32)| edge.0 == frame;
        self.frames[start..].iter().take_while(of_frame).map(|&(_, on)| on)
    }

    /// Returns these frames and all their direct and indirect dependents.
    pub(crate) fn dependents(&self, frames: impl IntoIterator<Item = u32>) -> HashSet<u32> {
        let mut todo: Vec<u32> = frames.into_iter().collect();
        let mut all: HashSet<u32> = todo.iter().copied().collect();
        while let Some(frame) = todo.pop() {
            todo.extend(self.direct_dependents(frame).filter(|on| all.insert(*on)));
        }
        all
    }
}

/// Returns the place of a base for a frame of this depth. The base must be in a frame of smaller
/// depth.
pub(crate) fn find_base(loaded: &LoadedIndex, base: ChunkPrefix, depth: u8) -> Option<Place> {
    let (_, place) = loaded.index.find(base)?;
    (loaded.index.frame(place.frame).depth < depth).then_some(place)
}
