//! What the threads of one backup share.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use ibid_format::tree::Time;

use super::limits::Limits;
use super::options::BackupOptions;
use super::sampling::Gains;
use crate::index::Loaded;
use crate::read::ChunkReader;
use crate::source::{Filter, XattrFault};
use crate::{Error, Monitor, Repository, Warning};

/// Everything the threads of one backup share.
pub(crate) struct Job<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) filter: Arc<Filter>,
    pub(crate) limits: Limits,
    /// Reads what similar chunks are encoded against; none if nobody looks for that.
    pub(crate) bases: Option<ChunkReader<'a>>,
    pub(crate) monitor: &'a Monitor,
    pub(crate) options: &'a BackupOptions,
    /// When reading began: what changed since can't be told from its times later.
    pub(crate) started: Time,
    /// Bytes of the last frames in a row that did not compress.
    pub(crate) incompressible: AtomicU64,
    /// Bytes of new chunks for which nothing similar was looked for, since what came before did not
    /// compress.
    pub(crate) passed_over: AtomicU64,
    /// Bytes that `bases` may read; none if it may read whatever pays.
    pub(crate) reads_max: Option<u64>,
    /// What looking for what is similar has gained.
    pub(crate) gains: Gains,
    /// Bytes of new chunks for which nothing similar was looked for, since their kind has gained
    /// too little.
    pub(crate) without_gain: AtomicU64,
    /// Whether following what is stored pays, once somebody has measured it.
    pub(crate) follows: OnceLock<bool>,
    /// Bytes that were cut so.
    pub(crate) hinted: AtomicU64,
    /// Set at the end, for those who only accompany the work.
    pub(crate) finished: AtomicBool,
    /// Extended attributes that could not be read, or for which there is no room.
    pub(crate) attributes_lost: AtomicU64,
    /// Frames that were wanted as bases and can't be read.
    pub(super) damaged: Mutex<HashSet<u32>>,
}

impl Job<'_> {
    /// Whether more may be read back from the repository for the sake of what is similar.
    pub(crate) fn may_read(&self, bases: &ChunkReader<'_>) -> bool {
        self.reads_max.is_none_or(|most| bases.bytes_read() < most)
    }

    /// Says that a frame can't be read, once.
    pub(crate) fn damaged(&self, frame: u32, error: Error) {
        let mut damaged = self.damaged.lock().expect("no holder of this lock panics");
        if damaged.insert(frame) {
            self.monitor.warn(Warning::Repository { error });
        }
    }

    /// Says which attributes of a file are not stored with it.
    pub(crate) fn attributes_lost(&self, path: &Path, faults: Vec<XattrFault>) {
        for (name, source) in faults {
            self.attributes_lost.fetch_add(1, Ordering::Relaxed);
            self.monitor.warn(Warning::Attributes {
                path: path.to_owned(),
                what: format!("extended attribute {}", String::from_utf8_lossy(&name)),
                source,
            });
        }
    }
}
