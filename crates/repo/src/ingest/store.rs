//! Seals frames into durable packs, and writes the index files that list them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};

use crossbeam_channel::{Receiver, Sender};
use ibid_format::pack::{self, PackKind, PackSummary};
use ibid_format::{FileId, index as index_file};

use super::checkpoints::{CheckpointDue, LastCheckpoint};
use super::compress::{EncodedFrame, FrameBuffers};
use super::job::Job;
use crate::layout::{folder, name_in};
use crate::{Error, ProgressCounters, Result};

/// Maximum number of stored chunks that no index file lists. It bounds memory; after a crash, the
/// directories of unlisted packs are read.
const UNLISTED_MAX: usize = 200_000;
/// Memory budget for each of these chunks, bytes: it takes about 150 until its index file is written.
const BUDGET_A_CHUNK: u64 = 2500;

/// What the packer takes, in the order of the packs.
pub(crate) enum Due {
    Frame(FrameDue),
    /// A checkpoint that needs all frames before it.
    Checkpoint(CheckpointDue),
}

/// A frame on its way to the packer.
pub(crate) struct FrameDue {
    pub(crate) kind: PackKind,
    /// Its number in the index.
    pub(crate) number: u32,
    pub(crate) encoded: Receiver<EncodedFrame>,
}

/// What an uploader stores.
pub(crate) enum Upload {
    Pack(PackDue),
    /// A checkpoint that needs so many packs.
    Checkpoint(CheckpointDue, u64),
}

/// A pack on its way to an uploader.
pub(crate) struct PackDue {
    bytes: Vec<u8>,
    summary: PackSummary,
    /// Numbers of its frames in the index.
    frames: Vec<u32>,
    /// Number of packs before this one.
    number: u64,
}

/// A pack being filled.
struct OpenPack {
    builder: pack::PackBuilder,
    frames: Vec<u32>,
}

impl OpenPack {
    fn finish(self, number: u64) -> PackDue {
        let (bytes, summary) = self.builder.finish();
        PackDue {
            bytes,
            summary,
            frames: self.frames,
            number,
        }
    }
}

/// Set of durable packs.
#[derive(Default)]
struct DurablePacks {
    /// All packs with a smaller number are durable.
    below: u64,
    /// Durable packs with a larger number.
    more: BTreeSet<u64>,
}

impl DurablePacks {
    fn add(&mut self, number: u64) {
        self.more.insert(number);
        while self.more.remove(&self.below) {
            self.below += 1;
        }
    }
}

/// State shared by the packer and the uploaders.
pub(crate) struct Stored {
    unlisted: Mutex<Vec<PackSummary>>,
    failure: Mutex<Option<Error>>,
    failed: AtomicBool,
    durable: Mutex<DurablePacks>,
    pub(super) checkpoint: LastCheckpoint,
    /// Notified when a pack becomes durable, or when an upload fails.
    progress: Condvar,
}

impl Stored {
    pub(crate) fn new() -> Stored {
        Stored {
            unlisted: Mutex::default(),
            failure: Mutex::new(None),
            failed: AtomicBool::new(false),
            durable: Mutex::default(),
            checkpoint: LastCheckpoint::default(),
            progress: Condvar::new(),
        }
    }

    fn fail(&self, error: Error) {
        self.failure
            .lock()
            .expect("no holder of this lock panics")
            .get_or_insert(error);
        self.failed.store(true, Ordering::Release);
        // Hold the lock, or a thread that is about to wait would miss the notification.
        let _durable = self.durable.lock().expect("no holder of this lock panics");
        self.progress.notify_all();
    }

    /// Waits until all earlier packs are durable. Returns false if an upload failed.
    fn wait_for_those_before(&self, number: u64) -> bool {
        let durable = self.durable.lock().expect("no holder of this lock panics");
        let waits = |durable: &mut DurablePacks| durable.below < number && !self.failed.load(Ordering::Acquire);
        let durable = self.progress.wait_while(durable, waits);
        durable.expect("no holder of this lock panics").below >= number
    }

    fn mark_durable(&self, number: u64) {
        self.durable.lock().expect("no holder of this lock panics").add(number);
        self.progress.notify_all();
    }

    /// Fails once the packer or an uploader has failed; [`failure`](Stored::failure) returns the
    /// cause at the end.
    pub(crate) fn check(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) {
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    /// Returns the first error of the packer or an uploader, if any.
    pub(crate) fn failure(&self) -> Result<()> {
        let error = self.failure.lock().expect("no holder of this lock panics").take();
        error.map_or(Ok(()), Err)
    }

    /// Writes index files for the packs that were found without one.
    pub(crate) fn list_packs(&self, job: &Job<'_>) -> Result<()> {
        for &(id, size) in &job.loaded.unlisted {
            job.monitor.check_cancelled()?;
            // An index file lists only frames whose bases are there.
            if !job.loaded.is_whole(id) {
                continue;
            }
            match job.repository.files.read_directory(id, size) {
                Ok(summary) => self.add_unlisted(job, summary)?,
                // It could be read a moment ago. The next command reports it.
                Err(error) if error.is_fault() => {}
                Err(error) => return Err(error),
            }
        }
        self.write_index(job)
    }

    /// Notes a durable pack, and writes index files if there are many.
    fn add_unlisted(&self, job: &Job<'_>, summary: PackSummary) -> Result<()> {
        let chunks: usize = {
            let mut unlisted = self.unlisted.lock().expect("no holder of this lock panics");
            unlisted.push(summary);
            unlisted.iter().map(chunks_of).sum()
        };
        if chunks >= unlisted_max(job.repository.memory) {
            self.write_index(job)?;
        }
        Ok(())
    }

    /// Writes index files for the packs not listed yet.
    pub(crate) fn write_index(&self, job: &Job<'_>) -> Result<()> {
        let unlisted = std::mem::take(&mut *self.unlisted.lock().expect("no holder of this lock panics"));
        let mut rest = unlisted.as_slice();
        while !rest.is_empty() {
            let count = packs_of_one_index_file(rest, unlisted_max(job.repository.memory));
            let id = FileId::random();
            let epoch = job.loaded.state.number;
            let bytes = index_file::encode(&job.repository.files.keys, id, epoch, &rest[..count])
                .map_err(Error::damaged("the new index"))?;
            if !job.options.dry_run {
                job.repository
                    .files
                    .storage
                    .put(&name_in(folder::INDEX, id), &[&bytes])?;
            }
            job.count(|tally| tally.written += bytes.len() as u64);
            rest = &rest[count..];
        }
        Ok(())
    }
}

/// Returns how many of these packs go into one index file. Even with one pack per chunk, the file
/// stays well below its size limit; writing it takes a few times its size in memory.
pub(crate) fn packs_of_one_index_file(packs: &[PackSummary], most: usize) -> usize {
    let mut chunks = 0;
    let fits = |summary: &&PackSummary| {
        chunks += chunks_of(summary);
        chunks <= most
    };
    packs.iter().take_while(fits).count().max(1)
}

/// Returns how many stored chunks may be in no index file, with this memory budget.
pub(crate) fn unlisted_max(memory: u64) -> usize {
    (memory / BUDGET_A_CHUNK).min(UNLISTED_MAX as u64) as usize
}

fn chunks_of(summary: &PackSummary) -> usize {
    summary.frames.iter().map(|frame| frame.blobs.len()).sum()
}

/// Seals frames into packs, in order, and sends full packs to the uploaders.
pub(crate) fn pack(
    job: &Job<'_>,
    stored: &Stored,
    frames: &Receiver<Due>,
    packs: &Sender<Upload>,
    spare: &Sender<FrameBuffers>,
) {
    let mut open: [Option<OpenPack>; 2] = [None, None];
    let mut packs = PacksOut { packs, count: 0 };
    while let Ok(due) = frames.recv() {
        let due = match due {
            Due::Frame(due) => due,
            Due::Checkpoint(due) => {
                let sent = packs.send(open.iter_mut().filter_map(Option::take)).is_ok();
                if !sent || packs.packs.send(Upload::Checkpoint(due, packs.count)).is_err() {
                    return;
                }
                continue;
            }
        };
        // The worker is gone only if the backup failed elsewhere.
        let Ok(encoded) = due.encoded.recv() else { return };
        if let Some(error) = encoded.error {
            stored.fail(error);
            return;
        }
        let slot = &mut open[usize::from(due.kind == PackKind::Metadata)];
        let pack = slot.get_or_insert_with(|| OpenPack {
            builder: pack::PackBuilder::new(&job.repository.files.keys, FileId::random(), due.kind),
            frames: Vec::new(),
        });
        let before = pack.builder.len();
        pack.builder
            .add(&encoded.plaintext, &encoded.blobs, encoded.depth, &encoded.bases);
        pack.frames.push(due.number);
        if due.kind == PackKind::Data {
            count(job, &encoded, pack.builder.len() - before);
        }
        // At the end the receiver of buffers is gone.
        let _ = spare.send(FrameBuffers::from(encoded));
        if pack.builder.is_full(job.limits.pack) {
            let sent = packs.send(slot.take());
            if sent.is_err() {
                return;
            }
        }
    }
    // If the receivers are gone, the backup has failed elsewhere.
    let _ = packs.send(open.into_iter().flatten());
}

/// Packs on their way to the uploaders.
struct PacksOut<'p> {
    packs: &'p Sender<Upload>,
    /// How many were sent.
    count: u64,
}

impl PacksOut<'_> {
    fn send(
        &mut self,
        full: impl IntoIterator<Item = OpenPack>,
    ) -> std::result::Result<(), crossbeam_channel::SendError<Upload>> {
        for pack in full {
            self.packs.send(Upload::Pack(pack.finish(self.count)))?;
            self.count += 1;
        }
        Ok(())
    }
}

/// Counts a data frame that takes `stored` bytes in its pack.
fn count(job: &Job<'_>, frame: &EncodedFrame, stored: u64) {
    job.count(|tally| {
        let data = if frame.depth > 0 {
            &mut tally.deltas
        } else {
            &mut tally.whole
        };
        data.chunks += frame.blobs.len() as u64;
        data.bytes += frame.body.whole().len() as u64;
        data.stored += stored;
    });
}

/// Stores packs until the channel closes.
pub(crate) fn upload(job: &Job<'_>, stored: &Stored, packs: &Receiver<Upload>) {
    while let Ok(due) = packs.recv() {
        let due = match due {
            Upload::Pack(due) => due,
            Upload::Checkpoint(due, number) => {
                if !stored.wait_for_those_before(number) {
                    return;
                }
                stored.checkpoint.put(job, due, number);
                continue;
            }
        };
        let size = due.bytes.len() as u64;
        // The frames' bases may be in any earlier pack. A pack must not become durable before its
        // bases: after a crash, its chunks would look stored but be unreadable.
        if due.summary.frames.iter().any(|frame| frame.depth > 0) && !stored.wait_for_those_before(due.number) {
            return;
        }
        if !job.options.dry_run
            && let Err(error) = job
                .repository
                .files
                .storage
                .put(&name_in(folder::PACKS, due.summary.id), &[&due.bytes])
        {
            stored.fail(error.into());
            return;
        }
        let copies = &job.repository.files.copies;
        if let Some(copies) = copies
            && due.summary.kind == PackKind::Metadata
            && !job.options.dry_run
        {
            copies.put(folder::PACKS, due.summary.id, &due.bytes);
        }
        drop(due.bytes);
        if !job.options.dry_run
            && let Err(error) = job.loaded.index.frames_stored(&due.summary, &due.frames)
        {
            stored.fail(error);
            return;
        }
        stored.mark_durable(due.number);
        job.count(|tally| {
            tally.written += size;
            tally.counters.stored_bytes += size;
        });
        ProgressCounters::add(&job.monitor.counters.stored, size);
        if let Err(error) = stored.add_unlisted(job, due.summary) {
            stored.fail(error);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use ibid_format::ChunkId;
    use ibid_format::frame::Blob;
    use ibid_format::pack::FrameSummary;

    use super::*;

    /// The case of a repository with one chunk per frame that has lost all its index files.
    #[test]
    fn a_million_frames_that_no_index_file_lists_fit_into_several() {
        let frame = FrameSummary {
            offset: 0,
            sealed: 0,
            depth: 0,
            bases: vec![],
            blobs: vec![Blob {
                id: ChunkId([1; 32]),
                length: 1,
            }],
        };
        let pack = PackSummary {
            id: FileId::random(),
            kind: PackKind::Data,
            size: 0,
            frames: vec![frame; 999],
        };
        let packs = vec![pack; 1400];
        let mut rest = packs.as_slice();
        let mut files = 0;
        while !rest.is_empty() {
            let count = packs_of_one_index_file(rest, UNLISTED_MAX);
            let frames = count as u32 * 999;
            assert!(index_file::would_fit(count as u32, frames, frames), "{count} packs");
            rest = &rest[count..];
            files += 1;
        }
        assert_eq!(files, 7);
        let most = UNLISTED_MAX as u32;
        assert!(index_file::would_fit(most, most, most));
    }
}
