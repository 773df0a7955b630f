//! The chunks of large data in memory, cut by several threads.
//!
//! The end of a chunk depends on no byte before it. So two ways to cut the same data agree from
//! their first common boundary on, and with content-defined chunking such a boundary comes soon.
//! That allows two stages:
//!
//! 1. Threads take the segments of the data in turns and cut each as if a chunk began at its start.
//! 2. The caller's thread walks along the segments. It cuts chunk by chunk from the last true
//!    boundary until it meets a boundary that the segment's thread also found. From there to the
//!    end of the segment, the thread's boundaries are the true ones.
//!
//! The cuts are those of [`chunks`](crate::chunks()) for every algorithm. Only the beginning of each
//! segment is cut twice. On random data, the first common boundary comes after so many chunks:
//!
//! | average | most algorithms | `fastcdc` | `seqcdc` | `ae`, `ram` |
//! |---|---|---|---|---|
//! | 8 KiB | 1.1 to 1.4 chunks, of 64 to 256 | 2.3 | 5.7 | 75 |
//! | 64 KiB | the same | 2.3 | 5.7 | nearly all |
//!
//! (AE and RAM depend on a few large bytes after a window, so they also take long to return to
//! their boundaries after an edit.) SS-CDC's two-stage form marks every place where the hash fits
//! and then chooses among them. It also has to hash the bytes below the minimum size, often half of
//! all, and it allows no skips and no choices that depend on the start of a chunk.
//!
//! In long constant or periodic data, a common boundary may never come. Then the first stage is
//! wasted, and cutting takes as long as with one thread. Segments are multiples of the maximum
//! size, so fixed sizes, and data whose chunks all have the maximum size, do not suffer from this.

use alloc::vec::Vec;
use core::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::Chunker;

/// Least length of a segment: less is not worth handing over.
const SEGMENT_LEAST: usize = 1 << 20;
/// Average chunks in a segment: many compared with those that are cut twice.
const SEGMENT_CHUNKS: usize = 256;
/// Least average chunks in a segment, for data too short to give every thread several full
/// segments.
const SEGMENT_CHUNKS_LEAST: usize = 64;
/// Segments for each thread, if the data is long enough: the last ones then keep few threads
/// waiting.
const SEGMENTS_WANTED: NonZeroUsize = NonZeroUsize::new(8).expect("8 is not zero");
/// Segments that a thread may be ahead.
const SEGMENTS_AHEAD: usize = 2;

/// Calls `take` with every chunk of `data`, in order, on the caller's thread, while `threads` other
/// threads find most of the boundaries.
///
/// The chunks are those of [`chunks`](crate::chunks()). Data too short to share is cut without any
/// thread. The gain depends on how soon an algorithm resynchronises: most do at once, `ae` and
/// `ram` with large averages hardly ever. Algorithms that are as fast as memory gain nothing. Each
/// thread keeps at most three lists of the boundaries of a segment, 8 bytes a chunk; a segment is
/// 64 to 256 average chunks, at least 1 MiB.
///
/// ```
/// use core::{convert::Infallible, num::NonZeroUsize};
/// use ibid_chunk::{Chunker, Settings, chunks, for_each_chunk};
///
/// let chunker = Chunker::new(&Settings::for_average("fastcdc", 8192)?)?;
/// let data: Vec<u8> = (0..5_000_000u32).map(|at| (at.wrapping_mul(at) >> 13) as u8).collect();
/// let mut found = Vec::new();
/// let two = NonZeroUsize::new(2).unwrap();
/// let note = |chunk: &[u8]| Ok::<(), Infallible>(found.push(chunk.len()));
/// for_each_chunk(&chunker, &data, two, note).unwrap();
/// assert_eq!(found, chunks(&chunker, &data).map(<[u8]>::len).collect::<Vec<_>>());
/// # Ok::<(), ibid_chunk::SettingsError>(())
/// ```
///
/// # Errors
/// The error of `take`, after which it is not called again.
pub fn for_each_chunk<'a, E>(
    chunker: &Chunker,
    data: &'a [u8],
    threads: NonZeroUsize,
    take: impl FnMut(&'a [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let average = chunker.settings().size_average();
    let segment = (data.len() / threads.saturating_mul(SEGMENTS_WANTED))
        .clamp(
            SEGMENT_CHUNKS_LEAST.saturating_mul(average),
            SEGMENT_CHUNKS.saturating_mul(average),
        )
        .max(SEGMENT_LEAST)
        .next_multiple_of(chunker.size_max());
    for_each_chunk_by_segments(chunker, data, threads, segment, take)
}

/// Does [`for_each_chunk`] with segments of this many bytes.
pub(crate) fn for_each_chunk_by_segments<'a, E>(
    chunker: &Chunker,
    data: &'a [u8],
    threads: NonZeroUsize,
    segment: usize,
    mut take: impl FnMut(&'a [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let segments = data.len().div_ceil(segment);
    // Alone, the only segment would be cut at once.
    let threads = if segments < 2 { 0 } else { threads.get().min(segments) };
    thread::scope(|scope| {
        // A thread that cannot be started counts as one that found no boundaries.
        let (found, threads): (Vec<_>, Vec<_>) = (0..threads)
            .map(|first| {
                let (sender, receiver) = sync_channel(SEGMENTS_AHEAD - 1);
                let mine = (first..segments).step_by(threads);
                let work = move || cut_segments(chunker, data, segment, mine, &sender);
                let builder = thread::Builder::new().name("chunks".into());
                (receiver, builder.spawn_scoped(scope, work).ok())
            })
            .unzip();
        let mut start = 0;
        let result = (0..segments).try_for_each(|number| {
            let finder: Option<&Receiver<Vec<usize>>> = found.get(number % found.len().max(1));
            let boundaries = finder.and_then(|found| found.recv().ok()).unwrap_or_default();
            let end = data.len().min((number + 1) * segment);
            take_segment(chunker, data, &mut start, end, &boundaries, &mut take)
        });
        // Without receivers the threads end. Joining them frees their resources before this
        // returns.
        drop(found);
        for thread in threads.into_iter().flatten() {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        result
    })
}

/// Does the second stage for one segment: takes the chunks that begin at `start` or later and
/// before `end`, and advances `start` to the next chunk.
fn take_segment<'a, E>(
    chunker: &Chunker,
    data: &'a [u8],
    start: &mut usize,
    end: usize,
    boundaries: &[usize],
    take: &mut impl FnMut(&'a [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut boundaries = boundaries;
    while *start < end {
        let passed = boundaries.partition_point(|boundary| boundary < start);
        boundaries = &boundaries[passed..];
        let len = match boundaries {
            [here, next, ..] if here == start => next - here,
            _ => chunker.cut(&data[*start..]),
        };
        take(&data[*start..*start + len])?;
        *start += len;
    }
    Ok(())
}

/// Does the first stage: sends the boundaries of each segment, from its start to the first one that
/// is not before its end.
fn cut_segments(
    chunker: &Chunker,
    data: &[u8],
    segment: usize,
    numbers: impl Iterator<Item = usize>,
    sender: &SyncSender<Vec<usize>>,
) {
    for number in numbers {
        let mut at = number * segment;
        let end = data.len().min(at + segment);
        let mut boundaries = Vec::from([at]);
        while at < end {
            at += chunker.cut(&data[at..]);
            boundaries.push(at);
        }
        if sender.send(boundaries).is_err() {
            // The caller takes no more chunks.
            return;
        }
    }
}
