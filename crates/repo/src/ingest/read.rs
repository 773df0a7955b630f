//! The reader: walks, decides which files to read, and fixes the order of the results.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ibid_format::content::{Content, Item};
use ibid_format::snapshot::Snapshot;
use ibid_format::tree::{EntryKind, TreeEntry};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Stat};

use super::again;
use super::batches::Batches;
use super::copied;
use super::image::Image;
use super::job::Job;
use super::large::{Large, LargePart};
use super::limits::BATCH_BYTES;
use super::moves::Moved;
use super::options::Stream;
use super::sampling::FileClasses;
use super::work::{BatchItem, FileKey, Names, TakenFrom, ToRead, Work, attribute_bytes};
use crate::checkpoint::CheckpointInfo;
use crate::read::ChunkReader;
use crate::source::{Moment, OwnFolders, Step, Walker, ahead, entry_from, read_attributes, read_xattrs_at, version_of};
use crate::threads::{Receiver, Sender, bounded, scope, spawn};
use crate::tree::{Entries, Items};
use crate::{Error, Monitor, ProgressCounters, Result, Warning};

/// Source of a backup.
pub(crate) enum Input {
    Paths(Vec<PathBuf>),
    /// One file or device of which a map says what has changed.
    Image(PathBuf, Box<Image>),
    Stream(Stream),
    /// The snapshot that the [job](Job::copy_source) names.
    Copy,
    /// The chunks that the [job](Job::again) names.
    Again,
}

/// What files are compared with. Those that have not changed are not read.
#[derive(Clone, Copy, Default)]
pub(crate) struct Baseline<'a> {
    pub(crate) parent: Option<&'a Snapshot>,
    /// Checkpoints of backups that were interrupted, newest first.
    pub(crate) checkpoints: &'a [CheckpointInfo],
}

/// Events for the builder, in the order of the tree.
pub(crate) enum Event {
    Batch(Receiver<super::work::Batch>),
    Large {
        path: PathBuf,
        pieces: Receiver<LargePart>,
        /// Slots taken by its pieces.
        slots: usize,
        names: Names,
    },
    /// A frame of another repository that is moved as it is.
    Moved(Moved),
    /// A chunk of metadata to store again.
    Metadata(Vec<u8>),
    Failed {
        path: PathBuf,
        error: Error,
    },
    /// The end, with the error if there was one.
    End(Result<()>),
}

/// Channels for the reader's results.
pub(crate) struct Outlets {
    pub(crate) events: Sender<Event>,
    pub(crate) work: Sender<Work>,
    pub(crate) large: Sender<Large>,
    /// Slots, one for each queued piece of a large file. The reader takes them in the order of the
    /// files, so the builder's current file always has its own and never waits for later files.
    pub(crate) slots: Receiver<()>,
}

impl Outlets {
    /// Announces a large file of about so many pieces; returns the sender for its parts.
    pub(super) fn announce(
        &self,
        job: &Job<'_>,
        path: PathBuf,
        pieces: u64,
        names: Names,
    ) -> std::result::Result<Sender<LargePart>, Disconnected> {
        // One more slot for the end, so that the cutter need not wait for the builder to get there.
        let slots = pieces.saturating_add(1).min(job.limits.pieces as u64) as usize;
        for _ in 0..slots {
            self.slots.recv().map_err(|_| Disconnected)?;
        }
        let (parts, pieces) = bounded(slots);
        self.events.send(Event::Large {
            path,
            pieces,
            slots,
            names,
        })?;
        Ok(parts)
    }
}

/// The receiver is gone: the backup has failed elsewhere and is reported there.
pub(super) struct Disconnected;

impl<T> From<crossbeam_channel::SendError<T>> for Disconnected {
    fn from(_: crossbeam_channel::SendError<T>) -> Disconnected {
        Disconnected
    }
}

/// Reads the whole input; the last event says how it ended.
pub(crate) fn run(job: &Job<'_>, input: Input, baseline: Baseline<'_>, own: OwnFolders, outlets: &Outlets) {
    let result = match input {
        Input::Stream(stream) => send_stream(job, stream, outlets),
        Input::Copy => copied::walk(job, job.copy_source(), outlets),
        Input::Again => again::walk(job, outlets),
        Input::Paths(paths) => walk(job, &paths, None, baseline, own, outlets),
        Input::Image(path, image) => {
            let counters = &job.monitor.counters;
            ProgressCounters::add(&counters.files_total, 1);
            ProgressCounters::add(&counters.bytes_total, image.size);
            counters.totals_final.store(true, Ordering::Relaxed);
            walk(job, &[path], Some(image), baseline, own, outlets)
        }
    };
    if let Ok(end) = result {
        // If the receiver is gone, the error is reported where it occurred.
        drop(outlets.events.send(Event::End(end)));
    }
}

fn send_stream(job: &Job<'_>, stream: Stream, outlets: &Outlets) -> std::result::Result<Result<()>, Disconnected> {
    let path = PathBuf::from("/").join(String::from_utf8_lossy(&stream.name).as_ref());
    let parts = outlets.announce(job, path, u64::MAX, Names::Each)?;
    outlets.large.send(Large::Stream { stream, parts })?;
    Ok(Ok(()))
}

/// The parent snapshot's listing of the current directory.
pub(super) struct ParentListing<'r> {
    entries: Entries<'r>,
    /// What comes after the name that was asked for last, if it was read.
    next: Option<TreeEntry>,
}

impl<'r> ParentListing<'r> {
    pub(super) fn new(entries: Entries<'r>) -> ParentListing<'r> {
        ParentListing { entries, next: None }
    }

    /// Returns the former entry of that name. Names must be requested in ascending order.
    pub(super) fn take(&mut self, name: &[u8], monitor: &Monitor) -> Option<TreeEntry> {
        loop {
            let next = match self.next.take() {
                Some(entry) => Ok(entry),
                None => self.entries.next()?,
            };
            match next {
                Ok(entry) if entry.name.as_slice() < name => {}
                Ok(entry) if entry.name.as_slice() == name => return Some(entry),
                Ok(entry) => {
                    self.next = Some(entry);
                    return None;
                }
                // The snapshot was forgotten meanwhile.
                Err(Error::ChunkFreed { .. }) => return None,
                Err(error) => {
                    monitor.warn(Warning::Repository { error });
                    return None;
                }
            }
        }
    }

    /// Returns the listing of the former directory of that name. Names must be requested in ascending order.
    fn below(&mut self, name: &[u8], reader: &'r ChunkReader<'r>, monitor: &Monitor) -> Option<ParentListing<'r>> {
        match self.take(name, monitor)?.kind {
            EntryKind::Directory(listing) => {
                self.entries.fetch_ahead(&listing);
                Some(ParentListing::new(Entries::new(reader, &listing)))
            }
            _ => None,
        }
    }
}

/// The listings of one directory in what files are compared with; `None` where there is no such directory.
struct Former<'r> {
    parent: Option<ParentListing<'r>>,
    /// As many as there are checkpoints, which are few; usually none.
    checkpoints: Vec<Option<ParentListing<'r>>>,
}

impl<'r> Former<'r> {
    /// Returns the former listings of a directory in this one.
    fn below(&mut self, name: &[u8], reader: &'r ChunkReader<'r>, monitor: &Monitor) -> Former<'r> {
        let below = |listing: &mut Option<ParentListing<'r>>| listing.as_mut()?.below(name, reader, monitor);
        Former {
            parent: below(&mut self.parent),
            checkpoints: self.checkpoints.iter_mut().map(below).collect(),
        }
    }
}

struct Reading<'r, 'j> {
    job: &'j Job<'j>,
    outlets: &'j Outlets,
    reader: &'r ChunkReader<'r>,
    /// The current directory's path.
    path: Vec<u8>,
    /// One per directory on the path to the current one.
    former: Vec<Former<'r>>,
    batches: Batches<'j>,
    /// Files with several names, already met under one of them.
    linked: HashMap<FileKey, Linked>,
    kinds: FileClasses,
    /// What is known of the only file, if it is backed up with a map of changed blocks.
    image: Option<Box<Image>>,
}

/// A file already met under one of its names.
struct Linked {
    /// State of the file then: before it is met again it may change, or its number may be reused
    /// for another file.
    moment: Moment,
    /// Number of names still to come.
    left: u64,
}

/// Maximum number of files with several names to remember; beyond it, each name is read separately.
const LINKED_MAX: u64 = 1 << 16;
/// Bytes of the budget for each of them. Most take less than 1 KiB.
const LINKED_SHARE: u64 = 8 << 10;

/// How to treat a name of a file.
enum Met {
    /// Read the file under this name.
    First(Names),
    /// Take the entry read under another name.
    Again { file: FileKey, last: bool },
}

/// Steps of the walk that are passed on at once, and how many of them may be directories, which are
/// open.
const STEPS: usize = 256;
const STEPS_ENTERED: usize = 16;
/// Such batches that wait.
const BATCHES_OF_STEPS: usize = 2;

fn walk(
    job: &Job<'_>,
    paths: &[PathBuf],
    image: Option<Box<Image>>,
    baseline: Baseline<'_>,
    own: OwnFolders,
    outlets: &Outlets,
) -> std::result::Result<Result<()>, Disconnected> {
    let walker = match Walker::new(paths, job.filter.clone(), own, job.repository.scratch()) {
        Ok(walker) => walker,
        Err(error) => return Ok(Err(error)),
    };
    let reader = ChunkReader::new(&job.repository.files, job.loaded.clone(), 16 << 20);
    let root = |content| Some(ParentListing::new(Entries::new(&reader, content)));
    let former = Former {
        parent: baseline.parent.and_then(|parent| root(&parent.root)),
        checkpoints: baseline
            .checkpoints
            .iter()
            .map(|one| root(&one.checkpoint.root))
            .collect(),
    };
    let mut reading = Reading {
        job,
        outlets,
        reader: &reader,
        path: Vec::new(),
        former: vec![former],
        batches: Batches::new(job.limits.open_in_batch(), outlets),
        linked: HashMap::new(),
        kinds: FileClasses::default(),
        image,
    };
    scope(|scope| {
        let (ahead, asked) = ahead::channel();
        for _ in 0..ahead::THREADS {
            let asked = asked.clone();
            // These threads only save time.
            let _ = spawn(scope, move || ahead::run(&asked));
        }
        let (sender, steps) = bounded(BATCHES_OF_STEPS);
        if let Err(error) = spawn(scope, || pass_on(walker.looking_ahead(ahead), sender)) {
            return Ok(Err(error));
        }
        for step in steps.into_iter().flatten() {
            if job.monitor.is_cancelled() {
                return Ok(Err(Error::Interrupted));
            }
            reading.step(step)?;
        }
        reading.batches.flush()?;
        Ok(Ok(()))
    })
}

/// Walks in a thread of its own, and passes on many steps at once.
fn pass_on(mut walker: Walker, steps: Sender<Vec<Step>>) {
    let (mut batch, mut entered) = (Vec::new(), 0);
    while let Some(step) = walker.next() {
        entered += usize::from(matches!(step, Step::Enter { .. }));
        batch.push(step);
        if batch.len() >= STEPS || entered >= STEPS_ENTERED {
            entered = 0;
            if steps.send(std::mem::take(&mut batch)).is_err() {
                // The reader has failed and is gone.
                return;
            }
        }
    }
    let _ = steps.send(batch);
}

impl<'r> Reading<'r, '_> {
    fn step(&mut self, step: Step) -> std::result::Result<(), Disconnected> {
        match step {
            Step::Enter { name, stat, directory } => {
                self.path.push(b'/');
                self.path.extend_from_slice(&name);
                let here = self.former.last_mut().expect("the root's is never left");
                let below = here.below(&name, self.reader, self.job.monitor);
                self.former.push(below);
                let mut entry = entry_from(&name, &stat).expect("a directory is of a known type");
                let faults = read_attributes(directory.as_fd(), &mut entry);
                self.job
                    .attributes_lost(Path::new(OsStr::from_bytes(&self.path)), faults);
                self.batches.enter(entry)?;
            }
            Step::Leave => {
                let parent = self.path.iter().rposition(|&byte| byte == b'/');
                self.path.truncate(parent.unwrap_or(0));
                self.former.pop();
                self.batches.leave()?;
            }
            Step::Node {
                name,
                stat,
                parent,
                named,
            } => self.node(name, stat, parent, named)?,
            Step::Failed { path, error } => {
                self.batches.flush()?;
                self.outlets.events.send(Event::Failed { path, error })?;
            }
            Step::OwnFolder { path } => self.job.monitor.warn(Warning::OwnFolder { path }),
        }
        Ok(())
    }

    fn take_former(&mut self, name: &[u8]) -> Option<TreeEntry> {
        self.former.last_mut()?.parent.as_mut()?.take(name, self.job.monitor)
    }

    /// Returns the entry of a file that has not changed since the parent or a checkpoint, if there is one.
    /// `former` is the parent's.
    fn take_unchanged(
        &mut self,
        former: &mut Option<TreeEntry>,
        name: &[u8],
        stat: &Stat,
    ) -> Option<(TreeEntry, TakenFrom)> {
        let (job, reader) = (self.job, self.reader);
        let is_stored = |content: &Content| is_stored(job, reader, content);
        if former
            .as_ref()
            .is_some_and(|former| is_unchanged(former, stat, is_stored))
        {
            return Some((former.take()?, TakenFrom::Parent));
        }
        let has_all = |content: &Content| has_all(job, reader, content);
        let checkpoints = &mut self.former.last_mut()?.checkpoints;
        checkpoints.iter_mut().flatten().find_map(|listing| {
            let former = listing.take(name, job.monitor)?;
            is_unchanged(&former, stat, has_all).then_some((former, TakenFrom::Checkpoint))
        })
    }

    fn node(
        &mut self,
        name: Vec<u8>,
        stat: Stat,
        parent: Arc<OwnedFd>,
        named: bool,
    ) -> std::result::Result<(), Disconnected> {
        let mut former = self.take_former(&name);
        let file_type = FileType::from_raw_mode(stat.st_mode);
        if file_type == FileType::RegularFile || named && file_type == FileType::BlockDevice {
            let image = self.image.take();
            // The map says better than times whether it has changed.
            let asks_times = !self.job.options.force && image.is_none();
            if asks_times && let Some((entry, taken_from)) = self.take_unchanged(&mut former, &name, &stat) {
                self.job.monitor.counters.skip(stat.st_size as u64);
                let bytes = attribute_bytes(&entry) as u64;
                return self.batches.add(
                    BatchItem::Ready {
                        entry: Box::new(entry),
                        taken_from: Some(taken_from),
                    },
                    bytes,
                );
            }
            let names = match self.meet(&stat) {
                Met::Again { file, last } => {
                    self.job.monitor.counters.skip(stat.st_size as u64);
                    let path = self.path_of(&name);
                    return self.batches.add(BatchItem::Link { name, file, last, path }, 0);
                }
                Met::First(names) => names,
            };
            let file = ToRead {
                kind: self.kinds.of(&name, former.as_ref()),
                path: self.path_of(&name),
                parent,
                name,
                stat,
                names,
            };
            if file_type == FileType::RegularFile && stat.st_size as u64 <= BATCH_BYTES as u64 && image.is_none() {
                return self.batches.add(BatchItem::Read(Box::new(file)), stat.st_size as u64);
            }
            self.batches.flush()?;
            let pieces = match file_type {
                FileType::RegularFile => stat.st_size as u64 / self.job.limits.piece as u64 + 1,
                _ => u64::MAX,
            };
            let parts = self.outlets.announce(self.job, file.path.clone(), pieces, names)?;
            return Ok(self.outlets.large.send(Large::File { file, image, parts })?);
        }
        match self.special(&name, &stat, &parent) {
            Ok(entry) => {
                let bytes = attribute_bytes(&entry) as u64;
                self.batches.add(
                    BatchItem::Ready {
                        entry: Box::new(entry),
                        taken_from: None,
                    },
                    bytes,
                )
            }
            Err(error) => {
                self.batches.flush()?;
                let path = self.path_of(&name);
                Ok(self.outlets.events.send(Event::Failed { path, error })?)
            }
        }
    }

    /// Returns the path of a name in the current directory.
    fn path_of(&self, name: &[u8]) -> PathBuf {
        let path = [&self.path, b"/".as_slice(), name].concat();
        PathBuf::from(OsString::from_vec(path))
    }

    /// Finds out whether a file was already met under another name.
    fn meet(&mut self, stat: &Stat) -> Met {
        if stat.st_nlink < 2 {
            return Met::First(Names::Each);
        }
        let file = (stat.st_dev, stat.st_ino);
        let moment = Moment::from(stat);
        let Some(linked) = self.linked.get_mut(&file) else {
            let most = LINKED_MAX.min(self.job.repository.memory / LINKED_SHARE);
            if self.linked.len() as u64 >= most {
                return Met::First(Names::Each);
            }
            let left = stat.st_nlink - 1;
            self.linked.insert(file, Linked { moment, left });
            return Met::First(Names::Remember);
        };
        if linked.moment != moment {
            return Met::First(Names::Apart);
        }
        linked.left -= 1;
        let last = linked.left == 0;
        if last {
            self.linked.remove(&file);
        }
        Met::Again { file, last }
    }

    /// Returns the entry of a symlink, FIFO, socket or device.
    fn special(&self, name: &[u8], stat: &Stat, parent: &OwnedFd) -> Result<TreeEntry> {
        let path = self.path_of(name);
        let failed = |error: std::io::Error| Error::local("read", &path, error);
        let mut entry =
            entry_from(name, stat).ok_or_else(|| failed(std::io::Error::other("a type of file that is not known")))?;
        if let EntryKind::Symlink(target) = &mut entry.kind {
            let read = rustix::fs::readlinkat(parent, name, Vec::new()).map_err(|error| failed(error.into()))?;
            *target = read.into_bytes();
        }
        let (xattrs, faults) = read_xattrs_at(parent, name);
        entry.xattrs = xattrs;
        self.job.attributes_lost(&path, faults);
        Ok(entry)
    }
}

/// Returns whether size, mtime, ctime and inode are unchanged and reliable, and all chunks still stored.
fn is_unchanged(former: &TreeEntry, stat: &Stat, is_stored: impl FnOnce(&Content) -> bool) -> bool {
    let EntryKind::File(content) = &former.kind else {
        return false;
    };
    content.length == stat.st_size as u64
        && (former.mtime, former.ctime, former.inode) == version_of(stat)
        && !former.changed_while_read
        && is_stored(content)
}

/// Returns whether all chunks of a content of the parent are in the index. A pack may be lost together with the index
/// files that listed it, and then only this test notices.
pub(super) fn is_stored(job: &Job<'_>, reader: &ChunkReader<'_>, content: &Content) -> bool {
    job.parent_is_complete || has_all(job, reader, content)
}

/// Returns whether all chunks of a content are in the index.
pub(super) fn has_all(job: &Job<'_>, reader: &ChunkReader<'_>, content: &Content) -> bool {
    let known = |item: &Item| match item {
        Item::Chunk { id, .. } => job.loaded.index.contains(id),
        Item::Hole { .. } => true,
    };
    content.items.iter().all(known)
        && (content.depth == 0 || Items::new(reader, content).all(|item| item.is_ok_and(|item| known(&item))))
}

/// Counts the files and bytes to back up, concurrently with the backup.
pub(crate) fn estimate(job: &Job<'_>, paths: &[PathBuf], own: OwnFolders) {
    let counters = &job.monitor.counters;
    let Ok(mut walker) = Walker::new(paths, job.filter.clone(), own, job.repository.scratch()) else {
        return;
    };
    while let Some(step) = walker.next() {
        if job.monitor.is_cancelled() || job.finished.load(Ordering::Relaxed) {
            return;
        }
        if let Step::Node { stat, .. } = step
            && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        {
            ProgressCounters::add(&counters.files_total, 1);
            ProgressCounters::add(&counters.bytes_total, stat.st_size as u64);
        }
    }
    counters.totals_final.store(true, Ordering::Relaxed);
}
