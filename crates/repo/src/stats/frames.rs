//! Frames by depth, and the cost of reading one chunk.

use crate::index::{Dependencies, LoadedIndex, PairSorter};
use crate::scratch::{Array, Scratch};
use crate::{Monitor, Result};

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
pub(super) fn read_cost(scratch: &Scratch, loaded: &LoadedIndex, monitor: &Monitor) -> Result<ReadCost> {
    let mut bases = match loaded.index.has_deltas() {
        true => Dependencies::read(scratch, loaded, None, monitor)?.bases(scratch)?,
        false => PairSorter::new(scratch).finish()?,
    };
    let (mut bytes, mut decoded, mut chunks) = (0u128, 0u128, 0u128);
    let mut cost = ReadCost::default();
    // For each frame, one more than the last frame for which it was counted, so that each counts once
    // per frame.
    let mut met = Array::<u32>::zeros(scratch, loaded.index.stored_frames().into())?;
    // A frame and the position of its next base. Each is less deep than the one before it, so there are
    // few.
    let mut path: Vec<(u32, u64)> = Vec::new();
    loaded.index.each_frame(|number, frame| {
        monitor.check_cancelled()?;
        let (mut frame_bytes, mut frame_count) = (u64::from(frame.length), 1);
        if frame.depth > 0 {
            path.push((number, bases.start(number)?));
        }
        while let Some((needed, at)) = path.last_mut() {
            let Some(base) = bases.second(*at, *needed)? else {
                path.pop();
                continue;
            };
            *at += 1;
            if met.get(base.into())? == number + 1 {
                continue;
            }
            met.set(base.into(), number + 1)?;
            let base_frame = loaded.index.frame(base);
            frame_bytes += u64::from(base_frame.length);
            frame_count += 1;
            if base_frame.depth > 0 {
                path.push((base, bases.start(base)?));
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
