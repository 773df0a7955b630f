//! When a running backup stores a [checkpoint](crate::checkpoint), and how.
//!
//! The builder writes the listings of the open directories so far, beside those that it goes on with, and sends
//! off all open frames. The checkpoint follows them to the packer and to an uploader, which stores it once all
//! packs before it are durable. The builder does not wait.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use ibid_format::FileId;
use ibid_format::checkpoint::Checkpoint;
use ibid_format::content::Content;
use ibid_format::snapshot::SnapshotTotals;

use super::build::Built;
use super::job::Job;
use super::options::Checkpoints;
use crate::checkpoint::{CheckpointInfo, order};
use crate::layout::{folder, name_in, new_id};
use crate::{Error, Repository, Result, Warning, clock};

/// After so many bytes were read, or after that time, there is another checkpoint...
const BYTES: u64 = 1 << 30;
const TIME: Duration = Duration::from_secs(60);
/// ...or after this part of all bytes or of the time so far, if that is more: a checkpoint ends packs before they
/// are full, so a backup of days should not have thousands.
const PART: u32 = 50;
/// Bytes to read for each that a checkpoint took.
const READ_PER_WRITTEN: u64 = 100;

/// What all checkpoints of a backup have in common.
#[derive(Clone)]
pub(crate) struct CheckpointOrigin {
    pub(crate) session: FileId,
    pub(crate) sequence: u64,
    pub(crate) host: String,
    pub(crate) program: String,
    pub(crate) paths: Vec<Vec<u8>>,
    /// Checkpoints of earlier backups.
    pub(crate) earlier: Vec<CheckpointInfo>,
}

/// The state of a tree at a checkpoint.
pub(super) struct Reached {
    pub(super) root: Content,
    /// The path of the last entry.
    pub(super) last: Vec<u8>,
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl CheckpointOrigin {
    /// Returns a checkpoint to store, and takes note of what it makes useless.
    fn due(&mut self, repository: &Repository, reached: Reached) -> Result<CheckpointDue> {
        let Reached {
            root,
            last,
            files,
            bytes,
        } = reached;
        let is_behind = |earlier: &mut CheckpointInfo| order(&earlier.checkpoint.last, &last).is_le();
        let replaced = self.earlier.extract_if(.., is_behind).map(|info| info.id).collect();
        let checkpoint = Checkpoint {
            session: self.session,
            time: clock::now(),
            sequence: self.sequence,
            host: self.host.clone(),
            program: self.program.clone(),
            paths: self.paths.clone(),
            root,
            last,
            files,
            bytes,
        };
        let id = new_id();
        let bytes = checkpoint
            .encode(&repository.files.keys, id)
            .map_err(Error::damaged("the new checkpoint"))?;
        Ok(CheckpointDue { id, bytes, replaced })
    }

    /// Stores a checkpoint of a complete tree whose chunks are durable, for a backup that ends without a snapshot.
    pub(super) fn put_complete(mut self, repository: &Repository, built: &Built, counters: &SnapshotTotals) {
        let reached = Reached {
            root: built.root.clone(),
            last: b"/".to_vec(),
            files: counters.files,
            bytes: counters.bytes,
        };
        let due = self.due(repository, reached);
        match due.and_then(|due| put(repository, &due).map(|()| due)) {
            Ok(due) => repository.drop_checkpoints(due.replaced.into_iter().chain(built.checkpoint)),
            Err(error) => repository.monitor.warn(Warning::Repository { error }),
        }
    }
}

/// A checkpoint on its way to an uploader.
pub(crate) struct CheckpointDue {
    id: FileId,
    bytes: Vec<u8>,
    /// Checkpoints that it makes useless.
    replaced: Vec<FileId>,
}

fn put(repository: &Repository, due: &CheckpointDue) -> Result<()> {
    let name = name_in(folder::CHECKPOINTS, due.id);
    Ok(repository.files.storage.put(&name, &[&due.bytes])?)
}

/// Decides when a checkpoint is due.
pub(super) struct Pace {
    every: Checkpoints,
    began: Instant,
    /// When the last one was made.
    last: Instant,
    /// Bytes of chunks read since, and before.
    read: u64,
    read_before: u64,
    /// Files completed since that were read.
    files: u64,
    /// Bytes that the last one took.
    written: u64,
}

impl Pace {
    fn new(every: Checkpoints) -> Pace {
        let now = clock::instant();
        Pace {
            every,
            began: now,
            last: now,
            read: 0,
            read_before: 0,
            files: 0,
            written: 0,
        }
    }

    /// Notes a chunk that was read.
    pub(super) fn read(&mut self, bytes: u32) {
        self.read += u64::from(bytes);
    }

    /// Notes a file that was read to its end.
    pub(super) fn file(&mut self) {
        self.files += 1;
    }

    /// Notes a checkpoint that took so many bytes.
    fn made(&mut self, bytes: u64) {
        self.last = clock::instant();
        self.read_before += std::mem::take(&mut self.read);
        self.files = 0;
        self.written = bytes;
    }

    fn is_due(&self) -> bool {
        match self.every {
            Checkpoints::Off => false,
            Checkpoints::Every(bytes) => self.files > 0 && self.read >= bytes,
            Checkpoints::Auto => {
                let is_worth_it = self.files > 0 && self.read >= self.written.saturating_mul(READ_PER_WRITTEN);
                let is_much = || self.read >= BYTES.max(self.read_before / u64::from(PART));
                let is_long = || clock::since(self.last) >= TIME.max(clock::since(self.began) / PART);
                is_worth_it && (is_much() || is_long())
            }
        }
    }
}

/// The checkpoints of a backup, for its builder.
pub(super) struct Checkpointing {
    pub(super) pace: Pace,
    /// `None` if there are none.
    origin: Option<CheckpointOrigin>,
}

impl Checkpointing {
    pub(super) fn new(job: &Job<'_>, origin: Option<CheckpointOrigin>) -> Checkpointing {
        Checkpointing {
            pace: Pace::new(job.options.checkpoints),
            origin,
        }
    }

    /// Returns whether it is time for another one.
    pub(super) fn is_due(&self) -> bool {
        self.origin.is_some() && self.pace.is_due()
    }

    /// Returns whether there is anything that the last one does not have.
    pub(super) fn has_more(&self) -> bool {
        self.origin.is_some() && self.pace.files > 0
    }

    /// Returns a checkpoint whose listings took so many bytes; `None` if there can't be one.
    pub(super) fn make(&mut self, job: &Job<'_>, reached: Reached, written: u64) -> Option<CheckpointDue> {
        let due = self.origin.as_mut()?.due(job.repository, reached);
        match due {
            Ok(due) => {
                self.pace.made(written + due.bytes.len() as u64);
                Some(due)
            }
            Err(error) => {
                // It is beyond a limit, as later ones would be. A backup needs none.
                job.monitor.warn(Warning::Repository { error });
                self.origin = None;
                None
            }
        }
    }
}

/// The checkpoint of a backup that is in the storage.
#[derive(Default)]
pub(super) struct LastCheckpoint(Mutex<Option<(u64, FileId)>>);

impl LastCheckpoint {
    /// Stores a checkpoint that comes after so many packs, which are durable, and deletes the one before. Without
    /// it, an interruption costs more; so a failure is only told.
    pub(super) fn put(&self, job: &Job<'_>, due: CheckpointDue, number: u64) {
        if let Err(error) = put(job.repository, &due) {
            job.monitor.warn(Warning::Repository { error });
            return;
        }
        job.count(|tally| tally.written += due.bytes.len() as u64);
        // Two uploaders may come here in the other order.
        let (new, mut last) = ((number, due.id), self.0.lock().expect("no holder of this lock panics"));
        let useless = match *last {
            Some(later) if later.0 > number => Some(due.id),
            ref mut last => last.replace(new).map(|(_, id)| id),
        };
        drop(last);
        job.repository.drop_checkpoints(useless.into_iter().chain(due.replaced));
    }

    /// Returns its id, if there is one.
    pub(super) fn id(&self) -> Option<FileId> {
        let last = self.0.lock().expect("no holder of this lock panics");
        last.map(|(_, id)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(read: u64) -> Pace {
        let mut pace = Pace::new(Checkpoints::Auto);
        pace.read = read;
        pace.file();
        pace
    }

    #[test]
    fn a_checkpoint_is_due_once_much_was_read_and_a_file_is_complete() {
        assert!(!pace(BYTES - 1).is_due());
        assert!(pace(BYTES).is_due());
        let unfinished = Pace {
            files: 0,
            ..pace(BYTES)
        };
        assert!(!unfinished.is_due());
        let mut long = Pace {
            read_before: 200 * BYTES,
            ..pace(4 * BYTES - 1)
        };
        assert!(!long.is_due(), "2 % of all that was read is more");
        long.read(1);
        assert!(long.is_due());
        long.made(1);
        assert_eq!((long.read_before, long.read, long.files), (204 * BYTES, 0, 0));
    }

    #[test]
    fn a_checkpoint_is_due_after_a_minute_in_which_anything_was_read() {
        let before = |seconds| {
            Instant::now()
                .checked_sub(Duration::from_secs(seconds))
                .expect("a running machine")
        };
        let last = before(61);
        assert!(Pace { last, ..pace(1) }.is_due());
        let began = before(3600);
        assert!(!Pace { last, began, ..pace(1) }.is_due(), "2 % of an hour is more");
    }

    #[test]
    fn a_checkpoint_takes_no_more_than_a_hundredth_of_what_is_read_before_the_next() {
        let written = BYTES / 10;
        assert!(
            !Pace {
                written,
                ..pace(10 * BYTES - 101)
            }
            .is_due()
        );
        assert!(
            Pace {
                written,
                ..pace(10 * BYTES)
            }
            .is_due()
        );
    }
}
