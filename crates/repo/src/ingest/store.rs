//! Seals frames into durable packs, and writes the index files that list them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

use ibid_format::FileId;
use ibid_format::pack::{self, PackKind, PackSummary};

use super::checkpoints::{CheckpointDue, LastCheckpoint};
use super::compress::{EncodedFrame, FrameBuffers};
use super::job::Job;
use crate::index::{Unlisted, each_unlisted};
use crate::layout::new_id;
use crate::threads::{Receiver, Sender, wait};
use crate::{Error, ProgressCounters, Result};

/// What is stored again is many versions of the same. This share of the memory for bases may be chunks that are not
/// durable yet, and so can't be read once the cache has dropped them.
const UNSTORED_SHARE: u64 = 3;

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
    unlisted: Mutex<Unlisted>,
    /// Index files that were written, with their sizes in bytes.
    index_files: Mutex<Vec<(FileId, u64)>>,
    failure: Mutex<Option<Error>>,
    failed: AtomicBool,
    durable: Mutex<DurablePacks>,
    pub(super) checkpoint: LastCheckpoint,
    /// Notified when a pack becomes durable, or when an upload fails.
    progress: Condvar,
}

impl Stored {
    /// Returns an empty set, for a memory budget in bytes.
    pub(crate) fn new(memory: u64) -> Stored {
        Stored {
            unlisted: Mutex::new(Unlisted::new(memory)),
            index_files: Mutex::default(),
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
        let mut durable = self.durable.lock().expect("no holder of this lock panics");
        while durable.below < number && !self.failed.load(Ordering::Acquire) {
            durable = wait(&self.progress, &self.durable, durable);
        }
        durable.below >= number
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
        let (loaded, files) = (&job.loaded, &job.repository.files);
        each_unlisted(loaded, files, job.monitor, |pack| self.add_unlisted(job, pack))?;
        self.write_index(job)
    }

    fn unlisted(&self) -> MutexGuard<'_, Unlisted> {
        self.unlisted.lock().expect("no holder of this lock panics")
    }

    /// Notes a durable pack, and writes index files if there are many.
    fn add_unlisted(&self, job: &Job<'_>, pack: PackSummary) -> Result<()> {
        let are_many = self.unlisted().add(pack, job.repository.files.archives_data());
        if are_many { self.write_index(job) } else { Ok(()) }
    }

    /// Writes index files for the packs not listed yet.
    pub(crate) fn write_index(&self, job: &Job<'_>) -> Result<()> {
        let mut unlisted = self.unlisted().take();
        let (files, epoch) = (&job.repository.files, job.loaded.state.number);
        let written = unlisted.list(files, epoch, job.options.dry_run)?;
        job.count(|tally| tally.written += written.iter().map(|(_, size)| size).sum::<u64>());
        let mut index_files = self.index_files.lock().expect("no holder of this lock panics");
        index_files.extend(written);
        Ok(())
    }

    /// Returns the index files that were written, with their sizes in bytes.
    pub(crate) fn index_files(&self) -> Vec<(FileId, u64)> {
        self.index_files.lock().expect("no holder of this lock panics").clone()
    }

    /// Returns the number of packs not listed yet.
    pub(crate) fn unlisted_packs(&self) -> usize {
        self.unlisted().len()
    }
}

/// Packs being filled. A backup that fills no pack has one of data. Once it has filled one, it separates whole frames
/// from deltas: these are seldom needed for as long, and a prune has less to move.
struct OpenPacks<'a> {
    job: &'a Job<'a>,
    packs: &'a Sender<Upload>,
    metadata: Option<OpenPack>,
    whole: Option<OpenPack>,
    deltas: Option<OpenPack>,
    separates: bool,
    /// Bytes of chunks that were added since all packs were sent off, and that may be.
    length: u64,
    length_max: u64,
    /// Number of packs that are full.
    full: u64,
}

impl OpenPacks<'_> {
    /// Adds a frame to its pack, and sends off what is full. Returns false if the receivers are gone.
    fn add(&mut self, due: &FrameDue, frame: &EncodedFrame) -> bool {
        let slot = match (due.kind, frame.depth) {
            (PackKind::Metadata, _) => &mut self.metadata,
            (PackKind::Data, 1..) if self.separates => &mut self.deltas,
            (PackKind::Data, _) => &mut self.whole,
        };
        let pack = slot.get_or_insert_with(|| OpenPack {
            builder: pack::PackBuilder::new(&self.job.repository.files.keys, new_id(), due.kind),
            frames: Vec::new(),
        });
        let before = pack.builder.len();
        pack.builder
            .add(&frame.plaintext, &frame.blobs, frame.depth, &frame.bases);
        pack.frames.push(due.number);
        self.length += length_of(frame);
        if due.kind == PackKind::Data {
            count(self.job, frame, pack.builder.len() - before);
        }
        if self.length >= self.length_max {
            self.length = 0;
            return self.send_all();
        }
        let size_max = self.job.limits.pack;
        let Some(full) = slot.take_if(|pack| pack.builder.is_full(size_max)) else {
            return true;
        };
        if due.kind == PackKind::Metadata {
            return self.send(full);
        }
        self.separates = true;
        // Its frames may have their bases in the other one, which must be durable first.
        let whole = if frame.depth > 0 { self.whole.take() } else { None };
        whole.is_none_or(|whole| self.send(whole)) && self.send(full)
    }

    /// Sends off a pack. Returns false if the receivers are gone.
    fn send(&mut self, pack: OpenPack) -> bool {
        let due = pack.finish(self.full);
        self.full += 1;
        self.packs.send(Upload::Pack(due)).is_ok()
    }

    /// Sends off all packs, whole frames before what may need them. A pack with deltas waits for all before it, and so
    /// not for that of metadata. Returns false if the receivers are gone.
    fn send_all(&mut self) -> bool {
        let open = [self.whole.take(), self.deltas.take(), self.metadata.take()];
        open.into_iter().flatten().all(|pack| self.send(pack))
    }
}

/// Seals frames into packs, in order, and sends full packs to the uploaders.
pub(crate) fn pack(
    job: &Job<'_>,
    stored: &Stored,
    frames: &Receiver<Due>,
    packs: &Sender<Upload>,
    spare: &Sender<FrameBuffers>,
) {
    let mut open = OpenPacks {
        job,
        packs,
        metadata: None,
        whole: None,
        deltas: None,
        separates: false,
        // What is stored again is many versions of the same. Each is to be durable, and so can be read as a base,
        // before it is dropped from the cache.
        length: 0,
        length_max: match job.limits.bases {
            1.. if job.is_again() => job.limits.bases / UNSTORED_SHARE,
            _ => u64::MAX,
        },
        full: 0,
    };
    while let Ok(due) = frames.recv() {
        let due = match due {
            Due::Frame(due) => due,
            Due::Checkpoint(due) => {
                if !open.send_all() || packs.send(Upload::Checkpoint(due, open.full)).is_err() {
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
        if !open.add(&due, &encoded) {
            return;
        }
        // At the end the receiver of buffers is gone.
        let _ = spare.send(FrameBuffers::from(encoded));
    }
    open.send_all();
}

/// Returns the length of a frame's chunks together, bytes.
fn length_of(frame: &EncodedFrame) -> u64 {
    frame.blobs.iter().map(|blob| u64::from(blob.length)).sum()
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
        data.bytes += length_of(frame);
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
            && let Err(error) = job.repository.files.put_pack(&due.summary, &due.bytes)
        {
            stored.fail(error);
            return;
        }
        if !job.options.dry_run {
            let files = &job.repository.files;
            files.keep_pack(due.summary.kind, due.summary.id, &due.bytes);
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
            tally.packs += 1;
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
