//! State of one check, shared by its threads.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard};

use ibid_format::FileId;

use super::report::{FAULTS_MAX, Fault};
use crate::index::{Frame, Index, LoadedIndex, NumberSet, Place};
use crate::read::ChunkReader;
use crate::scratch::{Bits, Scratch};
use crate::threads::{REQUESTS, cores, scope, spawn};
use crate::{Error, Monitor, Repository, Result};

/// State of one check, shared by its threads.
pub(super) struct Checking<'a> {
    pub(super) repository: &'a Repository,
    pub(super) loaded: &'a LoadedIndex,
    /// Reads frames that may be bases of others.
    pub(super) reader: ChunkReader<'a>,
    pub(super) monitor: &'a Monitor,
    /// Packs that are not read, because they are in an archive.
    pub(super) archived: HashSet<FileId>,
    pub(super) scratch: Scratch,
    /// Bytes of frames read from packs.
    pub(super) bytes_read: AtomicU64,
    pub(super) faults: Mutex<Faults>,
    pub(super) notes: Mutex<Vec<Fault>>,
    pub(super) damage: Mutex<Damage>,
}

/// Faults found: all are counted, and of each kind of file [`FAULTS_MAX`] are listed.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) listed: Vec<Fault>,
    pub(super) total: u64,
    /// Number of those listed, by folder.
    of_folder: BTreeMap<String, usize>,
}

impl Faults {
    fn add(&mut self, fault: Fault) {
        self.total += 1;
        let folder = fault.object.split('/').next().unwrap_or_default();
        let listed = self.of_folder.entry(folder.to_owned()).or_default();
        if *listed < FAULTS_MAX {
            *listed += 1;
            self.listed.push(fault);
        }
    }
}

/// Damage found, by the frames that the index names. A chunk may also be in an intact pack, but a
/// restore would read this frame.
#[derive(Default)]
pub(super) struct Damage {
    /// Frames that can't be read.
    pub(super) frames: NumberSet,
    /// Chunks that have other bytes than their ids say, by their ordinals; `None` if there are none.
    pub(super) wrong: Option<Bits>,
    /// Frames that depend, directly or indirectly, on those above or on lost frames.
    pub(super) dependents: NumberSet,
    /// Causes, by pack and offset of the frame at fault, as many as are listed.
    pub(super) causes: BTreeMap<(FileId, u32), Cause>,
    /// Frames at fault beyond those.
    pub(super) more_causes: NumberSet,
    /// Frames that can't be decoded because a base is missing, unless one of the causes explains
    /// it. As many as are listed: the others are among `dependents` only.
    pub(super) unexplained: BTreeMap<u32, String>,
    /// Whether a pack's directory names bases that are missing.
    pub(super) lacks_bases: bool,
}

impl Damage {
    /// Records why chunks of a frame can't be read. What reading the frame itself has found replaces what
    /// was found when it was needed as a base.
    pub(super) fn add_cause(&mut self, at: (FileId, u32), frame: Option<u32>, cause: Cause, is_own: bool) {
        let is_room = self.causes.len() < FAULTS_MAX;
        match self.causes.entry(at) {
            Entry::Vacant(entry) if is_room => drop(entry.insert(cause)),
            Entry::Vacant(_) => {
                if let Some(frame) = frame {
                    self.more_causes.insert(frame);
                    if let Cause::Frame(_) = cause {
                        self.frames.insert(frame);
                    }
                }
            }
            Entry::Occupied(mut entry) => {
                if is_own {
                    entry.insert(cause);
                }
            }
        }
    }

    /// Records that a frame can't be decoded because a base is missing.
    pub(super) fn add_unexplained(&mut self, frame: u32, problem: String) {
        if self.unexplained.len() < FAULTS_MAX {
            self.unexplained.insert(frame, problem);
        }
    }

    /// Records that a chunk has other bytes than its id says.
    pub(super) fn add_wrong(&mut self, scratch: &Scratch, index: &Index, place: Place) -> Result<()> {
        let wrong = match &mut self.wrong {
            Some(wrong) => wrong,
            none => none.insert(Bits::new(scratch, index.ordinals())?),
        };
        wrong.insert(index.ordinal(place)).map(drop)
    }

    /// Returns whether a chunk has other bytes than its id says.
    pub(super) fn is_wrong(&mut self, index: &Index, place: Place) -> Result<bool> {
        match &mut self.wrong {
            Some(wrong) => wrong.contains(index.ordinal(place)),
            None => Ok(false),
        }
    }

    /// Records that a frame depends on a reported cause.
    pub(super) fn explain(&mut self, dependent: u32) {
        self.unexplained.remove(&dependent);
        self.dependents.insert(dependent);
    }
}

impl Checking<'_> {
    pub(super) fn fault(&self, object: impl ToString, problem: impl ToString) {
        let fault = Fault {
            object: object.to_string(),
            problem: problem.to_string(),
        };
        self.faults.lock().expect("no holder of this lock panics").add(fault);
    }

    /// Counts faults that are not listed.
    pub(super) fn more_faults(&self, count: u64) {
        self.faults.lock().expect("no holder of this lock panics").total += count;
    }

    pub(super) fn note(&self, object: impl ToString, problem: impl ToString) {
        let note = Fault {
            object: object.to_string(),
            problem: problem.to_string(),
        };
        self.notes.lock().expect("no holder of this lock panics").push(note);
    }

    pub(super) fn damage(&self) -> MutexGuard<'_, Damage> {
        self.damage.lock().expect("no holder of this lock panics")
    }

    /// Runs `work` on several threads, but no more than there are `pieces` of it, until all are done: on more than
    /// there are cores if it `waits` for the storage. After an error, `stop` must make the others end soon.
    pub(super) fn side_by_side(
        &self,
        pieces: usize,
        waits: bool,
        stop: impl Fn() + Sync,
        work: impl Fn() -> Result<()> + Sync,
    ) -> Result<()> {
        let failure = Mutex::new(None);
        let fail = |error| {
            failure
                .lock()
                .expect("no holder of this lock panics")
                .get_or_insert(error);
            stop();
        };
        let wanted = if waits { REQUESTS } else { cores().min(8) };
        let threads = wanted.min(self.repository.readers_max(self.loaded)).min(pieces);
        scope(|scope| {
            for _ in 0..threads {
                if let Err(error) = spawn(scope, || work().unwrap_or_else(&fail)) {
                    return fail(error);
                }
            }
        });
        self.monitor.check_cancelled()?;
        match failure.into_inner().expect("no holder of this lock panics") {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Returns the frames of a pack from the index, and the number of the first.
    pub(super) fn frames_of(&self, pack: u32) -> (u32, Vec<Frame>) {
        let range = self.loaded.index.frames_of(pack);
        (
            range.start,
            range.map(|number| self.loaded.index.frame(number)).collect(),
        )
    }
}

/// Reason why chunks of a frame can't be read.
pub(super) enum Cause {
    /// The frame can't be read.
    Frame(String),
    /// Some of its chunks do not match their ids.
    Chunks(String),
}

impl Cause {
    pub(super) fn frame(offset: u32, error: &Error) -> Cause {
        Cause::Frame(format!("at offset {offset}: {}", error.problem()))
    }
}
