//! One check: what its threads share, and what they have found so far.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard};

use ibid_format::FileId;

use super::report::Fault;
use crate::index::{Frame, LoadedIndex, Place};
use crate::read::ChunkReader;
use crate::threads::spawn;
use crate::{Error, Monitor, Repository, Result};

/// One check: what its threads share.
pub(super) struct Checking<'a> {
    pub(super) repository: &'a Repository,
    pub(super) loaded: &'a LoadedIndex,
    /// For frames that others may be encoded against.
    pub(super) reader: ChunkReader<'a>,
    pub(super) monitor: &'a Monitor,
    /// Bytes of frames read from packs.
    pub(super) bytes_read: AtomicU64,
    pub(super) faults: Mutex<Vec<Fault>>,
    pub(super) notes: Mutex<Vec<Fault>>,
    pub(super) damage: Mutex<Damage>,
}

/// Where the index finds what can't be read. The same chunk may lie in a good pack too, but it is
/// this one that a restore would read.
#[derive(Default)]
pub(super) struct Damage {
    /// Numbers of frames that can't be read.
    pub(super) frames: HashSet<u32>,
    pub(super) places: HashSet<Place>,
    /// Numbers of frames that are encoded against something of the above, or something lost, by
    /// however many steps.
    pub(super) dependents: HashSet<u32>,
    /// Why, by pack and offset of the frame that is to blame.
    pub(super) causes: BTreeMap<(FileId, u32), Cause>,
    /// Frames that can't be decoded for want of a base, unless something above says why.
    pub(super) unexplained: BTreeMap<u32, String>,
    /// A pack's directory names bases that are not to be had.
    pub(super) lacks_bases: bool,
}

impl Damage {
    /// Notes that these frames depend on something that was named.
    pub(super) fn explain(&mut self, dependents: HashSet<u32>) {
        self.unexplained.retain(|number, _| !dependents.contains(number));
        self.dependents.extend(dependents);
    }
}

impl Checking<'_> {
    pub(super) fn fault(&self, object: impl ToString, problem: impl ToString) {
        let fault = Fault {
            object: object.to_string(),
            problem: problem.to_string(),
        };
        self.faults.lock().expect("no holder of this lock panics").push(fault);
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

    /// Works with several threads until all are done; after an error `stop` has to make the others
    /// end soon.
    pub(super) fn side_by_side(&self, stop: impl Fn() + Sync, work: impl Fn() -> Result<()> + Sync) -> Result<()> {
        let failure = Mutex::new(None);
        let fail = |error| {
            failure
                .lock()
                .expect("no holder of this lock panics")
                .get_or_insert(error);
            stop();
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(8).min(self.repository.readers_max(self.loaded));
        std::thread::scope(|scope| {
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

    /// The frames of a pack by the index, and the number of the first.
    pub(super) fn frames_of(&self, pack: u32) -> (u32, &[Frame]) {
        let frames = &self.loaded.index.frames;
        let first = frames.partition_point(|frame| frame.pack < pack);
        let count = frames[first..].partition_point(|frame| frame.pack == pack);
        (first as u32, &frames[first..][..count])
    }
}

/// Why chunks of a frame can't be had.
pub(super) enum Cause {
    /// The frame can't be read.
    Frame(String),
    /// Some of its chunks are not what they should be.
    Chunks(String),
}

impl Cause {
    pub(super) fn frame(offset: u32, error: &Error) -> Cause {
        Cause::Frame(format!("at offset {offset}: {}", error.problem()))
    }
}
