//! From frames to durable packs, and the index files that list them.

use super::Job;
use super::work::{Encoded, FrameBuffers};
use crate::repository::{folder, name_in};
use crate::{Counters, Error, Result};
use crossbeam_channel::{Receiver, Sender};
use ibid_format::pack::{self, PackKind, Summary};
use ibid_format::{FileId, index as index_file};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Chunks that may be stored before an index file lists them. It bounds memory; after a crash, packs that are not listed
/// are read for their directories.
const UNLISTED_MAX: usize = 200_000;

/// A frame on its way, in the order in which frames go into packs.
pub(crate) struct FrameDue {
    pub(crate) kind: PackKind,
    /// Its number in the index.
    pub(crate) number: u32,
    pub(crate) encoded: Receiver<Encoded>,
}

/// A pack on its way to storage.
pub(crate) struct PackDue {
    bytes: Vec<u8>,
    summary: Summary,
    /// The numbers of its frames in the index.
    frames: Vec<u32>,
}

/// A pack being filled.
struct Open {
    builder: pack::Builder,
    frames: Vec<u32>,
}

impl Open {
    fn finish(self) -> PackDue {
        let (bytes, summary) = self.builder.finish();
        PackDue {
            bytes,
            summary,
            frames: self.frames,
        }
    }
}

/// What packer and uploaders share.
pub(crate) struct Stored {
    unlisted: Mutex<Vec<Summary>>,
    failure: Mutex<Option<Error>>,
    failed: AtomicBool,
    /// Bytes written: packs and index files.
    pub(crate) written: AtomicU64,
    /// Bytes of packs written.
    pub(crate) packs: AtomicU64,
}

impl Stored {
    /// `unlisted` are packs found without an index file: the first one written lists them too.
    pub(crate) fn new(unlisted: Vec<Summary>) -> Stored {
        Stored {
            unlisted: Mutex::new(unlisted),
            failure: Mutex::new(None),
            failed: AtomicBool::new(false),
            written: AtomicU64::new(0),
            packs: AtomicU64::new(0),
        }
    }

    fn fail(&self, error: Error) {
        self.failure
            .lock()
            .expect("no holder of this lock panics")
            .get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }

    /// Stops whoever asks once packer or uploaders have failed; why they did is for [`failure`](Stored::failure) to say at the end.
    pub(crate) fn check(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) {
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    /// The first error of packer or uploaders, if there was one.
    pub(crate) fn failure(&self) -> Result<()> {
        let error = self.failure.lock().expect("no holder of this lock panics").take();
        error.map_or(Ok(()), Err)
    }

    /// Writes index files for what is not listed yet.
    pub(crate) fn write_index(&self, job: &Job<'_>) -> Result<()> {
        let unlisted = std::mem::take(&mut *self.unlisted.lock().expect("no holder of this lock panics"));
        let mut rest = unlisted.as_slice();
        while !rest.is_empty() {
            let count = packs_of_one_index_file(rest);
            let id = FileId::random();
            let bytes = index_file::encode(&job.repository.keys, id, &rest[..count])
                .map_err(Error::damaged("the new index"))?;
            if !job.options.dry_run {
                job.repository.storage.put(&name_in(folder::INDEX, id), &[&bytes])?;
            }
            self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            rest = &rest[count..];
        }
        Ok(())
    }
}

/// How many of these packs go into one index file. Even if every chunk had a pack of its own, it would be far from the limit of a file;
/// and writing it takes a few times its memory.
fn packs_of_one_index_file(packs: &[Summary]) -> usize {
    let mut chunks = 0;
    let fits = |summary: &&Summary| {
        chunks += chunks_of(summary);
        chunks <= UNLISTED_MAX
    };
    packs.iter().take_while(fits).count().max(1)
}

fn chunks_of(summary: &Summary) -> usize {
    summary.frames.iter().map(|frame| frame.blobs.len()).sum()
}

/// Seals frames into packs, in order; full packs go to the uploaders.
pub(crate) fn pack(
    job: &Job<'_>,
    stored: &Stored,
    frames: &Receiver<FrameDue>,
    packs: &Sender<PackDue>,
    spare: &Sender<FrameBuffers>,
) {
    let mut open: [Option<Open>; 2] = [None, None];
    while let Ok(due) = frames.recv() {
        // The worker has gone only if the backup failed elsewhere.
        let Ok(encoded) = due.encoded.recv() else { return };
        if let Some(source) = encoded.error {
            stored.fail(Error::Damaged {
                object: "a frame being compressed".into(),
                source,
            });
            return;
        }
        let slot = &mut open[usize::from(due.kind == PackKind::Metadata)];
        let pack = slot.get_or_insert_with(|| Open {
            builder: pack::Builder::new(&job.repository.keys, FileId::random(), due.kind),
            frames: Vec::new(),
        });
        let mut frame = encoded.frame;
        pack.builder.add(&frame.plaintext, frame.builder.blobs(), 0, &[]);
        pack.frames.push(due.number);
        frame.builder.clear();
        // At the end nobody has a use for the buffers any more.
        let _ = spare.send(frame);
        if pack.builder.is_full(job.limits.pack) {
            let full = slot.take().expect("just filled").finish();
            if packs.send(full).is_err() {
                return;
            }
        }
    }
    for pack in open.into_iter().flatten() {
        if packs.send(pack.finish()).is_err() {
            return;
        }
    }
}

/// Stores packs until there are no more.
pub(crate) fn upload(job: &Job<'_>, stored: &Stored, packs: &Receiver<PackDue>) {
    while let Ok(due) = packs.recv() {
        let size = due.bytes.len() as u64;
        if !job.options.dry_run
            && let Err(error) = job
                .repository
                .storage
                .put(&name_in(folder::PACKS, due.summary.id), &[&due.bytes])
        {
            stored.fail(error.into());
            return;
        }
        drop(due.bytes);
        if !job.options.dry_run {
            job.loaded.index.frames_stored(&due.summary, &due.frames);
        }
        stored.written.fetch_add(size, Ordering::Relaxed);
        stored.packs.fetch_add(size, Ordering::Relaxed);
        Counters::add(&job.monitor.counters.stored, size);
        let many = {
            let mut unlisted = stored.unlisted.lock().expect("no holder of this lock panics");
            unlisted.push(due.summary);
            unlisted.iter().map(chunks_of).sum::<usize>() >= UNLISTED_MAX
        };
        if many && let Err(error) = stored.write_index(job) {
            stored.fail(error);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ibid_format::ChunkId;
    use ibid_format::frame::Blob;
    use ibid_format::pack::FrameSummary;

    /// As after a loss of all index files of a repository that has one chunk in every frame.
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
        let pack = Summary {
            id: FileId::random(),
            kind: PackKind::Data,
            size: 0,
            frames: vec![frame; 999],
        };
        let packs = vec![pack; 1400];
        let mut rest = packs.as_slice();
        let mut files = 0;
        while !rest.is_empty() {
            let count = packs_of_one_index_file(rest);
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
