//! Frames by depth, and the cost of reading one chunk.

use std::collections::HashSet;

use crate::index::{Dependencies, LoadedIndex};
use crate::{Monitor, Repository, Result};

/// Frames of one depth. A frame without bases has depth 0; another is one deeper than its deepest
/// base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameClass {
    /// Frames.
    pub frames: u64,
    /// Their chunks.
    pub chunks: u64,
    /// Bytes of these chunks.
    pub bytes: u64,
    /// Bytes of the frames in packs.
    pub packed: u64,
}

/// Cost of reading one chunk alone: decoding its frame and all its direct and indirect bases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ReadCost {
    /// Bytes decoded, mean over all chunks.
    pub bytes_mean: u64,
    /// Bytes decoded for the most expensive chunk.
    pub bytes_worst: u64,
    /// Frames decoded, mean over all chunks.
    pub frames_mean: f64,
    /// Frames decoded for the most expensive chunk.
    pub frames_worst: u64,
}

/// Returns the frames by depth: element n counts those of depth n.
pub(super) fn classes(loaded: &LoadedIndex) -> Result<Vec<FrameClass>> {
    let mut classes: Vec<FrameClass> = Vec::new();
    loaded.index.each_frame(|_, frame| {
        let depth = usize::from(frame.depth);
        if classes.len() <= depth {
            classes.resize(depth + 1, FrameClass::default());
        }
        let class = &mut classes[depth];
        class.frames += 1;
        class.chunks += u64::from(frame.blobs);
        class.bytes += u64::from(frame.length);
        class.packed += u64::from(frame.sealed);
        Ok(())
    })?;
    Ok(classes)
}

/// Computes the cost of reading chunks without a cache.
pub(super) fn read_cost(repository: &Repository, loaded: &LoadedIndex, monitor: &Monitor) -> Result<ReadCost> {
    let mut bases: Vec<(u32, u32)> = if loaded.index.has_deltas() {
        let dependencies = Dependencies::read(&repository.files, loaded, &HashSet::new(), monitor)?;
        dependencies
            .frames()
            .iter()
            .map(|&(base, frame)| (frame, base))
            .collect()
    } else {
        Vec::new()
    };
    bases.sort_unstable();
    let (mut bytes, mut decoded, mut chunks) = (0u128, 0u128, 0u128);
    let mut cost = ReadCost::default();
    // For each frame, the last frame for which it was counted, so that each counts once per frame.
    let mut met = vec![u32::MAX; loaded.index.stored_frames() as usize];
    let mut todo = Vec::new();
    loaded.index.each_frame(|number, frame| {
        let (mut frame_bytes, mut frame_count) = (0, 0);
        todo.push(number);
        met[number as usize] = number;
        while let Some(needed) = todo.pop() {
            frame_bytes += u64::from(loaded.index.frame(needed).length);
            frame_count += 1;
            let first = bases.partition_point(|edge| edge.0 < needed);
            for &(_, base) in bases[first..].iter().take_while(|edge| edge.0 == needed) {
                if std::mem::replace(&mut met[base as usize], number) != number {
                    todo.push(base);
                }
            }
        }
        let count = u128::from(frame.blobs);
        bytes += u128::from(frame_bytes) * count;
        decoded += u128::from(frame_count) * count;
        chunks += count;
        cost.bytes_worst = cost.bytes_worst.max(frame_bytes);
        cost.frames_worst = cost.frames_worst.max(frame_count);
        Ok(())
    })?;
    cost.bytes_mean = bytes.checked_div(chunks).unwrap_or(0) as u64;
    cost.frames_mean = decoded as f64 / chunks.max(1) as f64;
    Ok(cost)
}
