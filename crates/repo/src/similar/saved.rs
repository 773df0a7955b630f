//! Sketch files, which keep sketches between backups.

use std::cmp::Ordering;
use std::collections::HashMap;

use ibid_delta::Sketch;
use ibid_format::FileId;
use ibid_format::pack::PackKind;
use ibid_format::sketches::{CHUNK_BYTES, Features, LIMIT, Run, Sketches};

use super::{DEPTH_MAX, Similar, UnsavedSketch};
use crate::files::Files;
use crate::index::{LoadedIndex, Place};
use crate::layout::{folder, name_in};
use crate::{Error, Monitor, Result, Warning};

/// Maximum number of chunks per file: as many as fit even if each has a run of its own.
const CHUNKS_OF_ONE_FILE: usize = LIMIT as usize / 2 / (CHUNK_BYTES + 16);
/// Maximum number of unsaved sketches: they take memory, and are lost if the backup is killed.
const UNSAVED_MAX: usize = 200_000;
/// Maximum number of chunks and bytes that one backup sketches because no file holds their
/// sketches: a second of one core, and 20 MiB of memory.
const UNSKETCHED_CHUNKS_MAX: u64 = 64 << 10;
const UNSKETCHED_BYTES_MAX: u64 = 1 << 30;

/// Returns the maximum number of unsaved sketches with this memory budget, bytes.
pub(crate) fn unsaved_max(memory: u64) -> usize {
    let most = memory / 16 / size_of::<UnsavedSketch>() as u64;
    (most as usize).min(UNSAVED_MAX)
}

/// Returns whether one backup can sketch this much data that no sketch file covers.
pub(crate) fn fits_one_backup(chunks: u64, bytes: u64) -> bool {
    chunks <= UNSKETCHED_CHUNKS_MAX && bytes <= UNSKETCHED_BYTES_MAX
}

impl Similar {
    /// Loads the sketches saved by earlier backups into at most `memory` bytes. Also returns the
    /// frames to sketch now because no file covers them.
    pub(crate) fn load(
        files: &Files,
        loaded: &LoadedIndex,
        memory: u64,
        thorough: bool,
        monitor: &Monitor,
    ) -> Result<(Similar, Vec<u32>)> {
        let frames = FramesOfPacks::new(loaded);
        let mut saved = Vec::new();
        // In memory, each feature takes four bytes beside the index, instead of three in the file.
        let (mut bytes, most) = (0, memory / 2);
        for (id, size) in files.list(folder::SKETCHES)? {
            monitor.check_cancelled()?;
            bytes += size;
            if bytes > most {
                break;
            }
            match read(files, id) {
                Ok(sketches) => saved.push(sketches),
                // Sketches are optional: go on without a damaged file.
                Err(error) if error.is_damage() => monitor.warn(Warning::Repository { error }),
                Err(error) => return Err(error),
            }
        }
        saved.sort_by_key(|sketches| (sketches.time.seconds, sketches.time.nanos));
        let runs = saved.iter().flat_map(|sketches| &sketches.runs);
        let known: Vec<(u32, &Run)> = runs
            .filter_map(|run| Some((frames.find(loaded, run.pack, run.offset)?, run)))
            .collect();
        let unsketched = if bytes > most {
            // The files not read may cover any frame.
            Vec::new()
        } else {
            let mut sketched = vec![false; loaded.index.stored_frames() as usize];
            known.iter().for_each(|(frame, _)| sketched[*frame as usize] = true);
            unsketched(loaded, &sketched)
        };
        let frame = |number: &u32| loaded.index.frame(*number);
        let saved = known
            .iter()
            .map(|(number, run)| (frame(number).depth, run.chunks.len() as u64));
        let unsaved = unsketched
            .iter()
            .map(|number| (frame(number).depth, u64::from(frame(number).blobs)));
        let mut similar = Similar::new(saved.chain(unsaved), memory, thorough);
        for (frame, run) in known {
            similar.remember(loaded, frame, run);
        }
        Ok((similar, unsketched))
    }

    fn remember(&mut self, loaded: &LoadedIndex, number: u32, run: &Run) {
        let frame = loaded.index.frame(number);
        for (features, slot) in run.chunks.iter().zip(run.slot..frame.blobs) {
            let sketch = Sketch::of(features.iter().map(|&feature| feature.into()));
            self.enter(Place { frame: number, slot }, frame.depth, &sketch);
        }
    }

    /// Returns the number of unsaved sketches.
    pub(crate) fn unsaved(&self) -> usize {
        self.unsaved.len()
    }

    /// Writes the unsaved sketches of stored chunks; returns the bytes written.
    ///
    /// Stops at the first chunk that is not stored yet: call it again later.
    pub(crate) fn save(&mut self, files: &Files, loaded: &LoadedIndex) -> Result<u64> {
        let mut written = 0;
        loop {
            let (runs, chunks) = self.stored_runs(loaded);
            if chunks == 0 {
                return Ok(written);
            }
            let id = FileId::random();
            let sketches = Sketches {
                time: crate::clock::now(),
                runs,
            };
            let bytes = sketches
                .encode(&files.keys, id)
                .map_err(Error::damaged("the new sketches"))?;
            files.storage.put(&name_in(folder::SKETCHES, id), &[&bytes])?;
            written += bytes.len() as u64;
            self.unsaved.drain(..chunks);
        }
    }

    /// Returns the runs of the oldest unsaved sketches up to the first chunk that is not stored,
    /// and the number of chunks in them.
    fn stored_runs(&self, loaded: &LoadedIndex) -> (Vec<Run>, usize) {
        let mut runs: Vec<Run> = Vec::new();
        let mut last: Option<Place> = None;
        let mut chunks = 0;
        for UnsavedSketch { place, count, features } in self.unsaved.iter().take(CHUNKS_OF_ONE_FILE) {
            let frame = loaded.index.frame(place.frame);
            if !frame.is_stored() {
                break;
            }
            if last.is_none_or(|last| (last.frame, last.slot + 1) != (place.frame, place.slot)) {
                runs.push(Run {
                    pack: loaded.index.pack(frame.pack).id,
                    offset: frame.offset,
                    slot: place.slot,
                    chunks: Features::default(),
                });
            }
            let run = runs.last_mut().expect("just pushed if there was none");
            let features = &features[..usize::from(*count)];
            run.chunks
                .push(features)
                .expect("a sketch has few features, and they descend");
            last = Some(*place);
            chunks += 1;
        }
        (runs, chunks)
    }
}

/// Returns the data frames that no sketch file covers, up to the limit for one backup: those of
/// smallest depth, in order of their numbers.
fn unsketched(loaded: &LoadedIndex, sketched: &[bool]) -> Vec<u32> {
    let index = &loaded.index;
    let is_of_use = |number: &u32| {
        let frame = index.frame(*number);
        frame.is_stored()
            && !index.is_missing(frame.pack)
            && index.pack(frame.pack).kind == PackKind::Data
            && frame.depth < DEPTH_MAX
            && !sketched[*number as usize]
            && !index.lost().contains(number)
    };
    let mut unsketched: Vec<u32> = (0..index.stored_frames()).filter(is_of_use).collect();
    unsketched.sort_by_key(|number| index.frame(*number).depth);
    let (mut chunks, mut bytes) = (0, 0);
    let within = unsketched.iter().take_while(|number| {
        let frame = index.frame(**number);
        chunks += u64::from(frame.blobs);
        bytes += u64::from(frame.length);
        fits_one_backup(chunks, bytes)
    });
    let count = within.count();
    unsketched.truncate(count);
    unsketched.sort_unstable();
    unsketched
}

/// Reads a file of sketches.
pub(crate) fn read(files: &Files, id: FileId) -> Result<Sketches> {
    let name = name_in(folder::SKETCHES, id);
    let mut bytes = files.storage.get(&name, LIMIT)?;
    Sketches::open(&files.keys, id, &mut bytes).map_err(Error::damaged(name))
}

/// Numbers of packs by their ids.
struct FramesOfPacks(HashMap<FileId, u32>);

impl FramesOfPacks {
    fn new(loaded: &LoadedIndex) -> FramesOfPacks {
        FramesOfPacks(loaded.index.packs().map(|(number, pack)| (pack.id, number)).collect())
    }

    /// Returns the number of the frame at an offset of a pack.
    fn find(&self, loaded: &LoadedIndex, pack: FileId, offset: u32) -> Option<u32> {
        let mut range = loaded.index.frames_of(*self.0.get(&pack)?);
        while !range.is_empty() {
            let middle = range.start + (range.end - range.start) / 2;
            match loaded.index.frame(middle).offset.cmp(&offset) {
                Ordering::Less => range.start = middle + 1,
                Ordering::Equal => return Some(middle),
                Ordering::Greater => range.end = middle,
            }
        }
        None
    }
}
