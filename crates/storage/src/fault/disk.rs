//! A simulated disk that fails on request.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use super::random::Random;
use super::tree::Tree;

/// A simulated disk, in memory, for [`Local::create_on`](crate::Local::create_on). A clone is the
/// same disk.
///
/// It tracks which writes were synced, so that [`crash`](Self::crash) can lose the others. The same
/// seed, calls and settings give the same results. Paths start at `/`, which exists and is empty.
///
/// Operations are counted from 0. A failure that is set for an operation happens instead of it.
/// After a failed sync of a file, its content never becomes durable, although it can be read and a
/// second sync succeeds, as on Linux. A failed sync of a folder can be repeated, because a file
/// system with a journal would stop altogether.
#[derive(Clone)]
pub struct FaultDisk {
    pub(super) state: Arc<Mutex<State>>,
}

/// The operations of a disk, one for each method of [`Disk`](crate::disk::Disk) that touches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "they are named as the methods of Disk")]
pub enum Call {
    CreateNew,
    Open,
    Lock,
    Write,
    Sync,
    RenameNoreplace,
    MakeDir,
    SyncDir,
    Remove,
    List,
    ReadAt,
    Length,
    Age,
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The device failed (`EIO`).
    Io,
    /// No space is left (`ENOSPC`).
    NoSpace,
    /// Permission was denied (`EACCES`).
    PermissionDenied,
    /// The file system is read-only (`EROFS`).
    ReadOnly,
    /// A signal interrupted the call; trying again succeeds (`EINTR`).
    Interrupted,
    /// The file system cannot do this (`EOPNOTSUPP`).
    Unsupported,
}

/// The disk has no power, or the process that used it was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulated disk crashed")]
pub struct Crashed;

pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) random: Random,
    pub(super) settings: Settings,
    pub(super) crashed: bool,
    pub(super) clock: Duration,
    pub(super) handles: u64,
    calls: Vec<Call>,
}

#[derive(Default)]
pub(super) struct Settings {
    at: BTreeMap<u64, DiskFault>,
    every: BTreeMap<Call, DiskFault>,
    crash_at: Option<u64>,
    pub(super) short_reads: bool,
    pub(super) short_writes: bool,
    pub(super) drop_syncs: bool,
    pub(super) space: Option<usize>,
}

impl FaultDisk {
    /// Returns an empty disk. The seed decides names, short reads and short writes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with(Tree::new(), seed, Duration::ZERO)
    }

    fn with(tree: Tree, seed: u64, clock: Duration) -> Self {
        let (random, settings) = (Random::new(seed), Settings::default());
        let state = State {
            tree,
            random,
            settings,
            crashed: false,
            clock,
            handles: 0,
            calls: Vec::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Returns how many operations were performed or failed so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().calls.len() as u64
    }

    /// Returns these operations, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// Makes operation `number` fail.
    pub fn fail_at(&self, number: u64, fault: DiskFault) {
        self.state().settings.at.insert(number, fault);
    }

    /// Makes every operation of this kind fail.
    pub fn fail_every(&self, call: Call, fault: DiskFault) {
        self.state().settings.every.insert(call, fault);
    }

    /// Cuts power just before operation `number`: it and all later ones fail with [`Crashed`].
    pub fn crash_at(&self, number: u64) {
        self.state().settings.crash_at = Some(number);
    }

    /// Cuts power now, if it was not cut before. Returns the disk after power came back, with all
    /// durable data and the parts of the rest that the seed chooses. This disk and its files fail
    /// from now on; the new one has no settings.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let mut state = self.state();
        state.crashed = true;
        let mut random = Random::new(seed);
        let tree = state.tree.survive(&mut random);
        Self::with(tree, random.next(), state.clock)
    }

    /// Kills the process now, if it was not killed before; the machine runs on. Returns the disk as
    /// the next process finds it: no data is lost, unsynced data is still unsynced, and there are
    /// no locks. This disk and its files fail from now on; the new one has no settings.
    #[must_use]
    pub fn restart(&self) -> Self {
        let mut state = self.state();
        state.crashed = true;
        let mut tree = std::mem::replace(&mut state.tree, Tree::new());
        tree.forget_locks();
        Self::with(tree, state.random.next(), state.clock)
    }

    /// Sets whether reads return fewer bytes than requested, at least one.
    pub fn short_reads(&self, short: bool) {
        self.state().settings.short_reads = short;
    }

    /// Sets whether writes take fewer bytes than given, at least one.
    pub fn short_writes(&self, short: bool) {
        self.state().settings.short_writes = short;
    }

    /// Sets whether the disk lies: syncs succeed and make no data durable.
    pub fn drop_syncs(&self, drop: bool) {
        self.state().settings.drop_syncs = drop;
    }

    /// Sets how many more bytes of content can be written until files are removed; `None` for no
    /// limit.
    pub fn space(&self, bytes: Option<usize>) {
        self.state().settings.space = bytes;
    }

    /// Removes all settings. A disk that crashed stays crashed.
    pub fn heal(&self) {
        self.state().settings = Settings::default();
    }

    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        self.state().clock += time;
    }

    /// Flips one bit of a stored file, silently; bit 8 is the lowest of the second byte. Does
    /// nothing past the end.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn flip_bit(&self, path: impl AsRef<Path>, bit: usize) -> io::Result<()> {
        self.damage(path.as_ref(), |content| {
            if let Some(byte) = content.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        })
    }

    /// Cuts a stored file off after `length` bytes, silently.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn truncate(&self, path: impl AsRef<Path>, length: usize) -> io::Result<()> {
        self.damage(path.as_ref(), |content| content.truncate(length))
    }

    fn damage(&self, path: &Path, damage: impl Fn(&mut Vec<u8>)) -> io::Result<()> {
        let tree = &mut self.state().tree;
        let id = tree.find(path)?;
        tree.file_mut(id)?.damage(damage);
        Ok(())
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation, and fails if it is to fail.
    pub(super) fn begin(&self, call: Call) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        match state.begin(call) {
            Ok(()) => Ok(state),
            Err(error) => Err(error),
        }
    }
}

impl State {
    pub(super) fn begin(&mut self, call: Call) -> io::Result<()> {
        let number = self.calls.len() as u64;
        if self.crashed || self.settings.crash_at.is_some_and(|at| number >= at) {
            self.crashed = true;
            return Err(io::Error::other(Crashed));
        }
        self.calls.push(call);
        match self.settings.at.get(&number).or_else(|| self.settings.every.get(&call)) {
            Some(fault) => Err(fault.errno().into()),
            None => Ok(()),
        }
    }
}

impl DiskFault {
    fn errno(self) -> Errno {
        match self {
            Self::Io => Errno::IO,
            Self::NoSpace => Errno::NOSPC,
            Self::PermissionDenied => Errno::ACCESS,
            Self::ReadOnly => Errno::ROFS,
            Self::Interrupted => Errno::INTR,
            Self::Unsupported => Errno::OPNOTSUPP,
        }
    }
}
