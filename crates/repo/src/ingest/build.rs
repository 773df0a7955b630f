//! The builder: starts the other threads, takes their results in the order of the tree, and writes
//! trees.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread::Scope;

use ibid_format::FileId;
use ibid_format::content::{Content, Item};
use ibid_format::tree::{EntryKind, TreeEntry};
use ibid_storage::Name;

use super::checkpoints::{CheckpointOrigin, Checkpointing, Reached};
use super::compress::Efforts;
use super::gather::{Channels, Gather};
use super::groups::DeltaGroups;
use super::job::{Job, Source};
use super::large::{self, Large, LargePart};
use super::read::{self, Baseline, Event, Input, Outlets};
use super::store::{self, Stored};
use super::work::{self, BatchOutcome, FileKey, Names, Part, Piece, TakenFrom, ToRead, Work};
use crate::layout::{folder, name_in};
use crate::similar::{Similar, fits_one_backup};
use crate::source::{OwnFolders, Owners};
use crate::threads::{Receiver, both, bounded, scope, spawn, unbounded};
use crate::tree::{ListWriter, ListingWriter, MetadataChunkers, MetadataSink};
use crate::{Error, ProgressCounters, Result, Warning};

/// Result of the builder: the root's listing, the names of all files' owners, and the last checkpoint.
pub(crate) struct Built {
    pub(crate) root: Content,
    pub(crate) users: Vec<(u32, Vec<u8>)>,
    pub(crate) groups: Vec<(u32, Vec<u8>)>,
    pub(crate) checkpoint: Option<FileId>,
}

/// What is left to write once all packs are durable: index files that list them, and the sketches of their chunks.
/// Without these all is found, but not as quickly. So they are written beside the snapshot, or before it.
pub(crate) struct Lists {
    stored: Stored,
    similar: Option<Similar>,
}

impl Lists {
    /// Writes what was not written before.
    pub(crate) fn write(&mut self, job: &Job<'_>) -> Result<()> {
        let (stored, similar) = (&self.stored, self.similar.take());
        // Neither needs the other.
        let at_once = job.repository.files.storage.is_remote();
        let (listed, saved) = both(
            at_once,
            || stored.write_index(job),
            || similar.map_or(Ok(()), |similar| save_sketches(job, similar)),
        );
        listed.and(saved)
    }

    /// Returns all index files that are known, with their sizes in bytes.
    pub(crate) fn index_files(&self, job: &Job<'_>) -> Vec<(FileId, u64)> {
        let mut index_files = job.loaded.index_files.clone();
        index_files.extend(self.stored.index_files());
        index_files
    }

    /// Returns whether index files may be due to be merged once these are written.
    pub(crate) fn may_lead_to_merging(&self, job: &Job<'_>) -> bool {
        let known = self.index_files(job);
        job.repository
            .may_merge_index_files(&known, self.stored.unlisted_packs())
    }
}

/// Runs the whole pipeline. This thread becomes the builder. Without an origin, there are no checkpoints. All packs
/// are durable when this returns; on failure those that are durable are listed, too.
pub(crate) fn run(
    job: &Job<'_>,
    input: Input,
    baseline: Baseline<'_>,
    origin: Option<CheckpointOrigin>,
) -> Result<(Built, Lists)> {
    let stored = Stored::new(job.repository.memory);
    stored.list_packs(job)?;
    if !job.options.dry_run {
        job.delete_replaced(job.loaded.replaceable_index_files());
    }
    let efforts = Efforts::new();
    let build = || {
        scope(|scope| {
            let (channels, events) = start(scope, job, &stored, &efforts, input, baseline)?;
            gather(job, &stored, channels, events, Checkpointing::new(job, origin))
        })
    };
    let build = || match &job.bases {
        Some(bases) => bases.while_fetching(build),
        None => build(),
    };
    let end = match &job.source {
        Some(Source::Copy(source)) => source.reader.while_fetching(build),
        Some(Source::Again(again)) => again.reader.while_fetching(build),
        _ => build(),
    };
    // All threads have ended: their packs are durable, and any failure is known.
    let failure = stored.failure();
    let (mut built, similar) = match (failure, end) {
        (Ok(()), Ok(built)) => built,
        (failure, end) => {
            // What was stored is found all the same, but not as quickly.
            let listed = stored.write_index(job);
            return Err(failure
                .and(end.map(drop))
                .and(listed)
                .expect_err("one of them has failed"));
        }
    };
    built.checkpoint = stored.checkpoint.id();
    Ok((built, Lists { stored, similar }))
}

/// Starts the reader, cutters, workers, packer and uploaders. Returns the builder's ends of their
/// channels.
fn start<'scope, 'j: 'scope>(
    scope: &'scope Scope<'scope, 'j>,
    job: &'j Job<'j>,
    stored: &'j Stored,
    efforts: &'j Efforts,
    input: Input,
    baseline: Baseline<'j>,
) -> Result<(Channels, Receiver<Event>)> {
    let limits = job.limits;
    let own = own_folders(job);
    let (events_in, events) = bounded(limits.events);
    let (work_in, work) = bounded(2 * limits.workers);
    let (large_in, large) = bounded(limits.cutters);
    let (frames_in, frames) = bounded(limits.frames);
    // A full pack waits in the packer until an uploader is free.
    let (packs_in, packs) = bounded(0);
    let (slots_in, slots) = bounded(limits.pieces_all);
    (0..limits.pieces_all).for_each(|_| slots_in.send(()).expect("there is room for all"));
    let (spare_in, spare) = unbounded();
    let (spare_frames_in, spare_frames) = unbounded();
    for _ in 0..limits.workers {
        let (work, spare) = (work.clone(), spare.clone());
        spawn(scope, move || work::run(job, efforts, &work, &spare))?;
    }
    for _ in 0..limits.cutters {
        let (large, work, spare) = (large.clone(), work_in.clone(), spare.clone());
        spawn(scope, move || large::cut_large(job, &large, &work, &spare))?;
    }
    for _ in 0..limits.uploaders {
        let packs = packs.clone();
        spawn(scope, move || store::upload(job, stored, &packs))?;
    }
    spawn(scope, move || {
        store::pack(job, stored, &frames, &packs_in, &spare_frames_in);
    })?;
    if let (Input::Paths(paths), true) = (&input, job.options.estimate) {
        let paths = paths.clone();
        spawn(scope, move || read::estimate(job, &paths, own))?;
    }
    let outlets = Outlets {
        events: events_in,
        work: work_in.clone(),
        large: large_in,
        slots,
    };
    spawn(scope, move || read::run(job, input, baseline, own, &outlets))?;
    // Each thread ends when all senders to it are dropped. This function's receivers are dropped on
    // return.
    let channels = Channels {
        work: work_in,
        frames: frames_in,
        spare: spare_in,
        spares: spare,
        spare_frames,
        slots: slots_in,
    };
    Ok((channels, events))
}

/// Takes the other threads' results in the order of the tree, and gathers new chunks into frames.
fn gather(
    job: &Job<'_>,
    stored: &Stored,
    channels: Channels,
    events: Receiver<Event>,
    checkpointing: Checkpointing,
) -> Result<(Built, Option<Similar>)> {
    let groups = job
        .bases
        .as_ref()
        .map(|bases| DeltaGroups::new(job, bases))
        .transpose()?;
    let mut gather = Gather::new(job, stored, channels, groups)?;
    let mut builder = Builder {
        gather: &mut gather,
        chunkers: MetadataChunkers::new(),
        directories: vec![(None, ListingWriter::new())],
        owners: Owners::default(),
        links: HashMap::new(),
        checkpointing,
        is_interrupted: false,
    };
    let root = builder.build(events);
    if root.is_err()
        && builder.checkpointing.has_more()
        && stored.check().is_ok()
        && let Err(error) = builder.checkpoint()
    {
        // The backup has failed for another reason.
        job.monitor.warn(Warning::Repository { error });
    }
    let (users, owner_groups) = builder.owners.into_names();
    // Store all gathered chunks even if reading has failed: the next backup will find them.
    let flushed = gather.flush();
    job.finished.store(true, Ordering::Relaxed);
    job.count(|tally| *tally += gather.tally);
    let similar = gather.groups.take().and_then(|groups| groups.similar);
    let root = root?;
    flushed?;
    let built = Built {
        root,
        users,
        groups: owner_groups,
        checkpoint: None,
    };
    Ok((built, similar))
}

/// Saves the sketches of new chunks for later backups.
fn save_sketches(job: &Job<'_>, mut similar: Similar) -> Result<()> {
    let (chunks, bytes, moved) = job.count(|tally| {
        let (whole, deltas) = (tally.whole, tally.deltas);
        (
            whole.chunks + deltas.chunks,
            whole.bytes + deltas.bytes,
            tally.moved_frames,
        )
    });
    // A first backup's sketches are used only by the second one, which can compute them itself
    // unless there are too many, or they came with frames that were moved, or it would have to fetch everything.
    let is_near = !job.repository.files.storage.is_remote();
    let is_first = job.loaded.index.stored_frames() == 0;
    let is_left_to_the_next = is_near && is_first && moved == 0 && fits_one_backup(chunks, bytes);
    if !job.options.dry_run && !is_left_to_the_next {
        let written = similar.save(&job.repository.files, &job.loaded)?;
        job.count(|tally| tally.written += written);
    }
    if !job.options.dry_run {
        let damaged = similar.damaged.iter();
        let names: Vec<Name> = damaged.map(|id| name_in(folder::SKETCHES, *id)).collect();
        job.delete_replaced(&names);
    }
    Ok(())
}

/// Returns the folders of the repository and of its cache: a repository is not backed up into itself.
fn own_folders(job: &Job<'_>) -> OwnFolders {
    let of = |folder: &Path| {
        let stat = rustix::fs::stat(folder).ok()?;
        Some((stat.st_dev, stat.st_ino))
    };
    OwnFolders {
        repository: job.repository.files.storage.folder().and_then(|folder| of(&folder)),
        cache: job.repository.cache.as_ref().and_then(|cache| of(cache.folder())),
    }
}

struct Builder<'g, 'j> {
    gather: &'g mut Gather<'j>,
    chunkers: MetadataChunkers,
    /// Directories on the path to the current one, with their listings so far; the first is the
    /// root, which has no entry.
    directories: Vec<(Option<Box<TreeEntry>>, ListingWriter)>,
    owners: Owners,
    /// Files with several names, by device and inode: the entry of the first name.
    links: HashMap<FileKey, TreeEntry>,
    checkpointing: Checkpointing,
    /// Whether the backup was cancelled while a large file was read.
    is_interrupted: bool,
}

impl Builder<'_, '_> {
    /// Processes events to the end; returns the root's listing.
    fn build(&mut self, events: Receiver<Event>) -> Result<Content> {
        loop {
            self.gather.stored.check()?;
            // The reader's last event says how it ended. If there is none, the reader panicked, and
            // the scope passes that on.
            match events.recv().map_err(|_| Error::Interrupted)? {
                Event::Batch(batch) => {
                    let batch = batch.recv().map_err(|_| Error::Interrupted)?;
                    self.batch(batch)?;
                }
                Event::Large {
                    path,
                    pieces,
                    slots,
                    names,
                } => {
                    self.gather.job.monitor.show_path(path.clone());
                    self.large(path, &pieces, names)?;
                    for _ in 0..slots {
                        // At the end the receiver is gone.
                        let _ = self.gather.channels.slots.send(());
                    }
                }
                Event::Moved(moved) => self.gather.take(moved)?,
                Event::Metadata(chunk) => drop(self.gather.store(&chunk)?),
                Event::Failed { path, error } => self.failed(path, error)?,
                Event::End(end) => {
                    end?;
                    if self.is_interrupted {
                        return Err(Error::Interrupted);
                    }
                    let (_, listing) = self.directories.pop().expect("the root");
                    if self.gather.job.is_again() {
                        return Ok(Content::empty());
                    }
                    return listing.finish(&self.chunkers, self.gather);
                }
            }
            self.checkpoint_if_due()?;
        }
    }

    fn checkpoint_if_due(&mut self) -> Result<()> {
        match self.checkpointing.is_due() {
            true => self.checkpoint(),
            false => Ok(()),
        }
    }

    /// Stores the tree so far, beside the one that goes on.
    fn checkpoint(&mut self) -> Result<()> {
        let before = self.gather.tally.new_metadata_bytes;
        let (mut below, mut root) = (None::<TreeEntry>, None);
        for (entry, listing) in self.directories.iter().rev() {
            let mut listing = listing.clone();
            if let Some(entry) = below.take() {
                match listing.push(&self.chunkers, self.gather, &entry) {
                    // The backup will leave it out, too.
                    Err(Error::Unstorable(_)) => {}
                    pushed => pushed?,
                }
            }
            let content = listing.finish(&self.chunkers, self.gather)?;
            match entry {
                Some(entry) => {
                    below = Some(TreeEntry {
                        kind: EntryKind::Directory(content),
                        ..(**entry).clone()
                    });
                }
                None => root = Some(content),
            }
        }
        // The root is gone once the tree is complete.
        let Some(root) = root else { return Ok(()) };
        let written = self.gather.tally.new_metadata_bytes - before;
        let counters = &self.gather.tally.counters;
        let reached = Reached {
            root,
            last: self.last_path(),
            files: counters.files,
            bytes: counters.bytes,
        };
        match self.checkpointing.make(self.gather.job, reached, written) {
            Some(due) => self.gather.checkpoint(due),
            None => Ok(()),
        }
    }

    /// Returns the path of the last entry; empty if there is none yet.
    fn last_path(&self) -> Vec<u8> {
        let Some(deepest) = self
            .directories
            .iter()
            .rposition(|(_, listing)| !listing.last().is_empty())
        else {
            return Vec::new();
        };
        let above = self.directories[..=deepest]
            .iter()
            .filter_map(|(entry, _)| entry.as_ref());
        let names = above.map(|entry| entry.name.as_slice());
        let mut path = Vec::new();
        for name in names.chain([self.directories[deepest].1.last()]) {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        path
    }

    /// Ends the current directory.
    fn leave(&mut self) -> Result<()> {
        let (entry, listing) = self.directories.pop().expect("entered before");
        let mut entry = entry.expect("only the root has none, and it is not left");
        entry.kind = EntryKind::Directory(listing.finish(&self.chunkers, self.gather)?);
        self.entry(&entry)
    }

    fn entry(&mut self, entry: &TreeEntry) -> Result<()> {
        let (_, listing) = self.directories.last_mut().expect("the root");
        match listing.push(&self.chunkers, self.gather, entry) {
            Err(error @ Error::Unstorable(_)) => {
                let path = self.path_of(&entry.name);
                return self.failed(path, error);
            }
            result => result?,
        }
        self.owners.note(entry);
        let counters = &mut self.gather.tally.counters;
        match &entry.kind {
            EntryKind::File(content) => {
                counters.files += 1;
                counters.bytes += content.length;
            }
            EntryKind::Directory(_) => {}
            _ => counters.others += 1,
        }
        counters.changed_while_read += u64::from(entry.changed_while_read);
        if let EntryKind::File(_) = entry.kind {
            let monitor = &self.gather.job.monitor;
            ProgressCounters::add(&monitor.counters.files, 1);
            monitor.note_path(|| self.path_of(&entry.name));
        }
        Ok(())
    }

    /// Returns the path of an entry in the current directory.
    fn path_of(&self, name: &[u8]) -> PathBuf {
        let directories = self.directories.iter().filter_map(|(entry, _)| entry.as_ref());
        let names = directories.map(|entry| entry.name.as_slice()).chain([name]);
        std::iter::once(OsStr::new("/"))
            .chain(names.map(OsStr::from_bytes))
            .collect()
    }

    /// Leaves out a file that could not be read.
    fn failed(&mut self, path: PathBuf, error: Error) -> Result<()> {
        // A copy has all that the snapshot has, or there is none.
        if self.gather.job.source.is_some() {
            return Err(error);
        }
        self.gather.tally.counters.unreadable += 1;
        let error = match error {
            // The path was listed a moment before.
            Error::Local { action, path, source } if source.kind() == std::io::ErrorKind::NotFound => {
                let source = std::io::Error::new(source.kind(), "it vanished during the backup");
                Error::Local { action, path, source }
            }
            error => error,
        };
        self.gather.job.monitor.warn(Warning::Skipped { path, error });
        Ok(())
    }

    /// Adds the entry of a file that was read.
    fn read(&mut self, mut entry: TreeEntry, list: ListWriter, names: Names) -> Result<()> {
        entry.kind = EntryKind::File(list.finish(&self.chunkers, self.gather)?);
        if names == Names::Apart {
            entry.hard_link_device = None;
        }
        self.checkpointing.pace.file();
        self.entry(&entry)?;
        if let (Names::Remember, Some(device)) = (names, entry.hard_link_device) {
            self.links.insert((device, entry.inode), entry);
        }
        Ok(())
    }

    /// Adds another name of a file that was read under its first name.
    fn link(&mut self, name: Vec<u8>, file: FileKey, last: bool, path: PathBuf) -> Result<()> {
        let Some(entry) = self.links.get(&file) else {
            let source = std::io::Error::other("it could not be read by the first of its names");
            let error = Error::local("read", &path, source);
            return self.failed(path, error);
        };
        let entry = TreeEntry { name, ..entry.clone() };
        self.entry(&entry)?;
        if last {
            self.links.remove(&file);
        }
        Ok(())
    }

    fn batch(&mut self, mut batch: work::Batch) -> Result<()> {
        loop {
            let rest = std::mem::take(&mut batch.rest);
            self.part_of_batch(batch)?;
            if rest.is_empty() {
                return Ok(());
            }
            let (reply, next) = bounded(1);
            let sent = self.gather.channels.work.send(Work::Batch { items: rest, reply });
            sent.map_err(|_| Error::Interrupted)?;
            batch = next.recv().map_err(|_| Error::Interrupted)?;
        }
    }

    fn part_of_batch(&mut self, mut batch: work::Batch) -> Result<()> {
        for outcome in std::mem::take(&mut batch.outcomes) {
            match outcome {
                BatchOutcome::Enter(entry) => {
                    self.gather.tally.counters.directories += 1;
                    self.directories.push((Some(entry), ListingWriter::new()));
                }
                BatchOutcome::Leave => self.leave()?,
                BatchOutcome::Ready { entry, taken_from } => {
                    let tally = &mut self.gather.tally;
                    match (taken_from, &entry.kind) {
                        (Some(TakenFrom::Parent), _) => tally.unchanged_files += 1,
                        (Some(TakenFrom::Checkpoint), EntryKind::File(content)) => {
                            tally.resumed_files += 1;
                            tally.resumed_bytes += content.length;
                        }
                        _ => {}
                    }
                    self.entry(&entry)?;
                }
                BatchOutcome::Failed { path, error } => self.failed(path, error)?,
                BatchOutcome::Link { name, file, last, path } => self.link(name, file, last, path)?,
                BatchOutcome::Grown(file) => self.grown(*file)?,
                BatchOutcome::Again(parts) => {
                    for part in &batch.parts[parts] {
                        if let Part::Chunk(span) = part {
                            self.gather.data(span, &batch.data, &batch.sketches)?;
                        }
                    }
                }
                BatchOutcome::Read { entry, parts, names } => {
                    let mut list = ListWriter::new();
                    for part in &batch.parts[parts] {
                        let item = match part {
                            Part::Hole(length) => {
                                self.gather.tally.holes += length;
                                Item::Hole { length: *length }
                            }
                            Part::Chunk(span) => {
                                self.checkpointing.pace.read(span.length);
                                self.gather.data(span, &batch.data, &batch.sketches)?;
                                Item::Chunk {
                                    id: span.id,
                                    length: span.length,
                                }
                            }
                        };
                        list.push(&self.chunkers, self.gather, item)?;
                    }
                    self.read(*entry, list, names)?;
                }
            }
            self.checkpoint_if_due()?;
        }
        self.gather.recycle(batch.data);
        Ok(())
    }

    /// Reads a file that became large after the reader met it, with a cutter of its own.
    fn grown(&mut self, file: ToRead) -> Result<()> {
        let (parts, pieces) = bounded(0);
        let (job, channels) = (self.gather.job, &self.gather.channels);
        let (work, spare) = (channels.work.clone(), channels.spares.clone());
        let (path, names) = (file.path.clone(), file.names);
        scope(move |scope| {
            spawn(scope, move || {
                let image = None;
                large::cut(job, Large::File { file, image, parts }, &work, &spare)
            })?;
            // On failure, the pieces are dropped first, and the cutter that waits on them ends.
            let pieces = pieces;
            self.large(path, &pieces, names)
        })
    }

    fn large(&mut self, path: PathBuf, parts: &Receiver<LargePart>, names: Names) -> Result<()> {
        let mut list = ListWriter::new();
        loop {
            self.gather.stored.check()?;
            match parts.recv().map_err(|_| Error::Interrupted)? {
                LargePart::Piece(piece) => {
                    let piece = piece.recv().map_err(|_| Error::Interrupted)?;
                    self.piece(piece, &mut list)?;
                    // The file itself is not in it, but what came before.
                    self.checkpoint_if_due()?;
                }
                LargePart::End(Ok(entry)) => return self.read(*entry, list, names),
                // The stream is the whole backup. A map that is known to be wrong makes a wrong snapshot.
                LargePart::End(Err(error @ (Error::Pipe { .. } | Error::ChangedBlocks(_)))) => return Err(error),
                // What was read of the next files goes into the last checkpoint.
                LargePart::End(Err(Error::Interrupted)) => {
                    self.is_interrupted = true;
                    return Ok(());
                }
                // Leave out the entry of a file that was read in part. Its chunks stay for the next
                // backup.
                LargePart::End(Err(error)) => return self.failed(path, error),
            }
        }
    }

    /// Stores the chunks of a piece, and lists them.
    fn piece(&mut self, piece: Piece, list: &mut ListWriter) -> Result<()> {
        let mut without_data = piece.without_data.into_iter().peekable();
        for number in 0..=piece.chunks.len() {
            while let Some((_, item)) = without_data.next_if(|(before, _)| *before == number) {
                let tally = &mut self.gather.tally;
                match item {
                    Item::Hole { length } => tally.holes += length,
                    Item::Chunk { length, .. } => tally.taken_over_bytes += u64::from(length),
                }
                list.push(&self.chunkers, self.gather, item)?;
            }
            if let Some(span) = piece.chunks.get(number) {
                self.checkpointing.pace.read(span.length);
                self.gather.data(span, &piece.data, &piece.sketches)?;
                let (id, length) = (span.id, span.length);
                list.push(&self.chunkers, self.gather, Item::Chunk { id, length })?;
            }
        }
        if !piece.chunks.is_empty() {
            self.gather.recycle(piece.data);
        }
        Ok(())
    }
}
