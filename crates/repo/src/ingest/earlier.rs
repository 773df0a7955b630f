//! Sketches of chunks stored by earlier backups. Sketch files hold most of them; the backup
//! computes the rest.

use std::sync::atomic::{AtomicUsize, Ordering};

use ibid_delta::{Sketch, Sketcher};

use super::fingerprint::{INCOMPRESSIBLE_MAX, sketch_length_min};
use super::job::Job;
use super::options::Similarity;
use super::sampling::SAMPLE_EVERY;
use crate::Result;
use crate::index::Place;
use crate::read::ChunkReader;
use crate::similar::{self, Similar};
use crate::threads::{scope, spawn, unbounded};

/// Frames that are planned together, where the storage is far.
const PLANNED: usize = 256;

/// Loads the sketches of stored chunks, and computes those that no file holds.
pub(crate) fn load_similar(job: &Job<'_>, bases: &ChunkReader<'_>) -> Result<Similar> {
    let thorough = job.options.similarity == Similarity::Max;
    let (mut similar, unsketched) = Similar::load(job.repository, &job.loaded, job.limits.features, thorough)?;
    sketch_frames(job, bases, &unsketched, &mut similar)?;
    Ok(similar)
}

/// Sketches the chunks in these stored frames.
fn sketch_frames(job: &Job<'_>, reader: &ChunkReader<'_>, frames: &[u32], similar: &mut Similar) -> Result<()> {
    let passed_over = passed_over(job, frames);
    let next = AtomicUsize::new(0);
    let (seen_in, seen) = unbounded();
    scope(|scope| -> Result<()> {
        for _ in 0..job.limits.workers.min(frames.len()) {
            let (next, passed_over, seen) = (&next, &passed_over, seen_in.clone());
            spawn(scope, move || {
                let mut sketcher = similar::sketcher();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&frame) = frames.get(at).filter(|_| job.may_read(reader)) else {
                        break;
                    };
                    if at.is_multiple_of(PLANNED) {
                        let is_read = |at: &usize| !passed_over[*at];
                        let group = (at..frames.len()).take(PLANNED).filter(is_read);
                        reader.plan(&group.map(|at| frames[at]).collect::<Vec<_>>());
                    }
                    let sketches = if passed_over[at] {
                        Ok(vec![Sketch::default(); job.loaded.index.frame(frame).blobs.into()])
                    } else {
                        sketches_of(job, reader, frame, &mut sketcher)
                    };
                    reader.release(frame);
                    let failed = sketches.is_err();
                    // The receiver waits for all of them.
                    let _ = seen.send((at, sketches));
                    if failed {
                        break;
                    }
                }
            })?;
        }
        Ok(())
    })?;
    drop(seen_in);
    let mut seen: Vec<_> = seen.into_iter().collect();
    seen.sort_unstable_by_key(|(at, _)| *at);
    for (at, sketches) in seen {
        let frame = frames[at];
        let depth = job.loaded.index.frame(frame).depth;
        for (sketch, slot) in sketches?.iter().zip(0..) {
            similar.add(Place { frame, slot }, depth, sketch);
        }
    }
    Ok(())
}

/// Selects the frames to skip: among frames that did not compress, the same share as was skipped
/// while they were stored.
fn passed_over(job: &Job<'_>, frames: &[u32]) -> Vec<bool> {
    let (mut count, mut bytes) = (0_u64, 0);
    let is_passed_over = |&number: &u32| {
        let frame = job.loaded.index.frame(number);
        if job.options.similarity == Similarity::Max || frame.depth > 0 || frame.sealed < frame.length {
            return false;
        }
        count += 1;
        bytes += u64::from(frame.length);
        bytes > INCOMPRESSIBLE_MAX && !count.is_multiple_of(SAMPLE_EVERY)
    };
    frames.iter().map(is_passed_over).collect()
}

/// Returns the sketches of a frame's chunks; none if it can't be read.
fn sketches_of(job: &Job<'_>, reader: &ChunkReader<'_>, frame: u32, sketcher: &mut Sketcher) -> Result<Vec<Sketch>> {
    job.monitor.check_cancelled()?;
    let mut space = Vec::new();
    let mut sketches = || {
        let Some(body) = reader.frame(frame)? else {
            return Ok(Vec::new());
        };
        let ranges = || (0..).map_while(|slot| body.range(slot));
        let least = sketch_length_min(job, ranges().map(|range| range.len() as u32), &mut Vec::new());
        let sketches = ranges().map(|range| {
            if range.len() < least as usize {
                return Ok(Sketch::default());
            }
            Ok(sketcher.sketch(reader.bytes(&body, range, &mut space)?))
        });
        sketches.collect::<Result<Vec<Sketch>>>()
    };
    match sketches() {
        Err(error) if error.is_fault() => {
            job.damaged(frame, error);
            Ok(Vec::new())
        }
        sketches => sketches,
    }
}
