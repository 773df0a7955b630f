//! Workers of a restore: read and verify each frame once, and write its chunks to all their places.

use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::file::{Part, write_all_at};
use super::finish::finish;
use super::progress::{Tally, fail, lose};
use super::task::Task;
use crate::read::{ChunkReader, FrameReader};
use crate::threads::Receiver;
use crate::{Error, ProgressCounters};

/// Works until the channel closes. Each group holds the parts of one frame, in order of slots. All
/// workers share `chunks`.
pub(crate) fn run(task: &Task<'_>, chunks: &ChunkReader<'_>, progress: &Tally, groups: &Receiver<Vec<Part<'_>>>) {
    let mut reader = FrameReader::default();
    let mut scratch = Vec::new();
    while let Ok(mut group) = groups.recv() {
        let frame = group.first().map(|part| part.frame);
        if progress.is_stopped() || task.monitor.is_cancelled() {
            group
                .iter()
                .for_each(|part| part.file.failed.store(true, Ordering::Relaxed));
        } else {
            group.retain(|part| !is_right_already(task, part, &mut scratch, progress));
            if !group.is_empty() {
                write_group(task, chunks, progress, &mut reader, &group);
            }
        }
        if let Some(frame) = frame {
            chunks.release(frame);
        }
        for part in group {
            finish(task, progress, &part.file);
        }
    }
}

/// Returns whether the file already has the right bytes here; if so, marks the part as done.
fn is_right_already(task: &Task<'_>, part: &Part<'_>, scratch: &mut Vec<u8>, progress: &Tally) -> bool {
    if part.is_needed() {
        return false;
    }
    scratch.resize(part.length as usize, 0);
    let mut done = 0;
    while done < scratch.len() {
        match rustix::io::pread(&part.file.file, &mut scratch[done..], part.offset + done as u64) {
            Ok(0) => return false,
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(_) => return false, // writing it reports the error
        }
    }
    if task.repository.files.keys.chunk_id(scratch) != part.id {
        return false;
    }
    ProgressCounters::add(&task.monitor.counters.bytes, u64::from(part.length));
    finish(task, progress, &part.file);
    true
}

fn write_group(
    task: &Task<'_>,
    chunks: &ChunkReader<'_>,
    progress: &Tally,
    reader: &mut FrameReader,
    group: &[Part<'_>],
) {
    let index = &chunks.loaded.index;
    let frame = index.frame(group[0].frame);
    ProgressCounters::add(&task.monitor.counters.stored, u64::from(frame.sealed));
    let last = group.iter().map(|part| part.slot).max();
    let opened = match reader.open(chunks, group[0].frame, last) {
        Ok(opened) => opened,
        Err(error) => {
            // Report one message per file.
            let text = error.to_string();
            for part in group {
                let mut chunk = Vec::new();
                // A prune may have moved the chunk, or freed it.
                let moved = match error.is_fault() {
                    true => chunks.read_moved(&part.id, part.length, &mut chunk),
                    false => Ok(false),
                };
                let text = match moved {
                    Ok(true) => {
                        write_part(task, progress, part, &chunk);
                        continue;
                    }
                    Ok(false) => text.clone(),
                    Err(error) => error.to_string(),
                };
                let error = Error::local("restore", &part.file.path, std::io::Error::other(text));
                lose(task, progress, &part.file, part.offset, part.length.into(), error);
            }
            return;
        }
    };
    // Many files may need the same chunk: compare it with its id once.
    let mut verified: Option<(&Part<'_>, Option<&[u8]>)> = None;
    for part in group {
        if part.file.failed.load(Ordering::Relaxed) {
            continue;
        }
        let same = |before: &Part<'_>| (before.slot, before.length, before.id) == (part.slot, part.length, part.id);
        let chunk = match verified {
            Some((before, chunk)) if same(before) => chunk,
            _ => {
                let id = opened.id(&task.repository.files.keys, part.slot);
                let chunk = opened.chunk(part.slot).filter(|_| id == Some(part.id));
                chunk.filter(|chunk| chunk.len() == part.length as usize)
            }
        };
        verified = Some((part, chunk));
        let Some(chunk) = chunk else {
            let (id, pack) = (part.id, index.pack(frame.pack).id);
            let error = Error::ChunkDamaged { id, pack };
            lose(task, progress, &part.file, part.offset, part.length.into(), error);
            continue;
        };
        write_part(task, progress, part, chunk);
    }
}

/// Writes a verified chunk to its place in a file.
fn write_part(task: &Task<'_>, progress: &Tally, part: &Part<'_>, chunk: &[u8]) {
    part.file.changed.store(true, Ordering::Relaxed);
    match write_all_at(&part.file.file, chunk, part.offset) {
        Ok(()) => {
            ProgressCounters::add(&task.monitor.counters.bytes, u64::from(part.length));
            progress.written.fetch_add(u64::from(part.length), Ordering::Relaxed);
        }
        Err(error) => fail(
            task,
            progress,
            &part.file,
            Error::local("write", &part.file.path, error),
        ),
    }
}
