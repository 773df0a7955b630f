//! The builder: starts all others, takes what they give in the order of the tree, and writes trees.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use crossbeam_channel::{Receiver, bounded, unbounded};
use ibid_format::content::{Content, Item};
use ibid_format::pack::PackSummary;
use ibid_format::snapshot::{self, Snapshot};
use ibid_format::tree::{EntryKind, TreeEntry};

use super::compress::Efforts;
use super::earlier;
use super::gather::{Channels, Gather};
use super::groups::Lanes;
use super::job::Job;
use super::large::{self, Large, LargePart};
use super::read::{self, Event, Input, Outlets};
use super::store::{self, Data, Stored};
use super::work::{self, FileKey, Names, Outcome, Part, ToRead, Work};
use crate::similar::can_wait;
use crate::source::Owners;
use crate::threads::spawn;
use crate::tree::{ListWriter, ListingWriter, MetadataChunkers};
use crate::{Error, ProgressCounters, Result, Warning};

/// What the builder has made.
pub(crate) struct Built {
    pub(crate) root: Content,
    pub(crate) users: Vec<(u32, Vec<u8>)>,
    pub(crate) groups: Vec<(u32, Vec<u8>)>,
    pub(crate) counters: snapshot::SnapshotTotals,
    pub(crate) unchanged_files: u64,
    pub(crate) holes: u64,
    pub(crate) new_metadata_bytes: u64,
    pub(crate) data: Data,
    pub(crate) written: u64,
}

/// Runs the whole pipeline; this thread is the builder.
pub(crate) fn run(job: &Job<'_>, unlisted: Vec<PackSummary>, input: Input, parent: Option<&Snapshot>) -> Result<Built> {
    let limits = job.limits;
    let own = own_folder(job);
    let efforts = Efforts::new();
    let similar = match &job.bases {
        Some(bases) => Some(earlier::look_back(job, bases)?),
        None => None,
    };
    let stored = Stored::new(unlisted);
    // Listed at once, the packs that were found need no memory any more.
    stored.write_index(job)?;
    let (events_in, events) = bounded(limits.events);
    let (work_in, work) = bounded(2 * limits.workers);
    let (large_in, large) = bounded(limits.cutters);
    let (frames_in, frames) = bounded(limits.frames);
    // A pack waits where it was filled until somebody has time to store it.
    let (packs_in, packs) = bounded(0);
    let (slots_in, slots) = bounded(limits.pieces_all);
    (0..limits.pieces_all).for_each(|_| slots_in.send(()).expect("there is room for all"));
    let (spare_in, spare) = unbounded();
    let (spare_frames_in, spare_frames) = unbounded();
    let estimate = match &input {
        Input::Paths(paths) if job.options.estimate => Some(paths.clone()),
        _ => None,
    };
    let root = std::thread::scope(|scope| {
        for _ in 0..limits.workers {
            let (work, efforts, spare) = (work.clone(), &efforts, spare.clone());
            spawn(scope, move || work::run(job, efforts, &work, &spare))?;
        }
        for _ in 0..limits.cutters {
            let (large, work, spare) = (large.clone(), work_in.clone(), spare.clone());
            spawn(scope, move || large::cut_large(job, &large, &work, &spare))?;
        }
        for _ in 0..limits.uploaders {
            let (packs, stored) = (packs.clone(), &stored);
            spawn(scope, move || store::upload(job, stored, &packs))?;
        }
        let stored = &stored;
        spawn(scope, move || {
            store::pack(job, stored, &frames, &packs_in, &spare_frames_in);
        })?;
        if let Some(paths) = estimate {
            spawn(scope, move || read::estimate(job, &paths, own))?;
        }
        let outlets = Outlets {
            events: events_in,
            work: work_in.clone(),
            large: large_in,
            slots,
        };
        spawn(scope, move || read::run(job, input, parent, own, &outlets))?;
        // Each thread ends when all who could send to it have gone; this one must not hold on to what the
        // others wait for.
        drop((work, large, packs));
        let channels = Channels {
            work: work_in,
            frames: frames_in,
            spare: spare_in,
            spares: spare,
            spare_frames,
            slots: slots_in,
        };
        let lanes = similar
            .zip(job.bases.as_ref())
            .map(|(similar, bases)| Lanes::new(job, similar, bases));
        let mut gather = Gather::new(job, stored, channels, lanes);
        let mut builder = Builder {
            gather: &mut gather,
            chunkers: MetadataChunkers::new(),
            directories: vec![(None, ListingWriter::new())],
            tally: Tally::default(),
            links: HashMap::new(),
        };
        let root = builder.build(events);
        let tally = builder.tally;
        // What was read is stored even if reading has failed: the next backup finds it.
        let flushed = gather.flush().and_then(|()| gather.check_memory(0));
        job.finished.store(true, Ordering::Relaxed);
        let new = (gather.new_chunks, gather.new_bytes);
        let similar = gather.lanes.take().map(|lanes| lanes.similar);
        root.and_then(|root| flushed.map(|()| (root, tally, new, similar)))
    });
    // All threads have ended: what they stored is durable, and what failed is known.
    let failure = stored.failure();
    let listed = stored.write_index(job);
    failure?;
    let (root, tally, (new_chunks, new_bytes), similar) = root?;
    listed?;
    let mut written = stored.written.load(Ordering::Relaxed);
    let data = stored.data.into_inner().expect("no holder of this lock panics");
    // What the first backup stores is of use to another one only, which can find out what it is like as
    // well, if it is not too much.
    let Data { unlike, similar: alike } = data;
    let is_left_to_the_next =
        job.loaded.index.frames.is_empty() && can_wait(unlike.chunks + alike.chunks, unlike.bytes + alike.bytes);
    if let Some(mut similar) = similar.filter(|_| !job.options.dry_run && !is_left_to_the_next) {
        written += similar.save(&job.repository.files, &job.loaded)?;
    }
    let (users, groups) = tally.owners.into_names();
    let counters = snapshot::SnapshotTotals {
        new_chunks: new_chunks.iter().sum(),
        new_bytes: new_bytes.iter().sum(),
        stored_bytes: stored.packs.load(Ordering::Relaxed),
        ..tally.counters
    };
    Ok(Built {
        root,
        users,
        groups,
        counters,
        unchanged_files: tally.unchanged_files,
        holes: tally.holes,
        new_metadata_bytes: new_bytes[1],
        data,
        written,
    })
}

/// (device, inode) of the folder that holds the repository, if it is a folder here: it is not to be
/// backed up into itself.
fn own_folder(job: &Job<'_>) -> Option<(u64, u64)> {
    let stat = rustix::fs::stat(job.repository.files.storage.folder()?).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// What was met.
#[derive(Default)]
struct Tally {
    counters: snapshot::SnapshotTotals,
    owners: Owners,
    unchanged_files: u64,
    /// Bytes of holes in files that were read.
    holes: u64,
}

struct Builder<'g, 'j> {
    gather: &'g mut Gather<'j>,
    chunkers: MetadataChunkers,
    /// The directories we are in, with their listings so far; the first is the root, which has no
    /// entry.
    directories: Vec<(Option<Box<TreeEntry>>, ListingWriter)>,
    tally: Tally,
    /// Files with several names, by what they are: the entry of the first.
    links: HashMap<FileKey, TreeEntry>,
}

impl Builder<'_, '_> {
    /// Takes events to the end; returns the root's listing.
    fn build(&mut self, events: Receiver<Event>) -> Result<Content> {
        loop {
            self.gather.stored.check()?;
            // The reader says how it ended; if it can't, it has panicked, and the scope passes that on.
            match events.recv().map_err(|_| Error::Interrupted)? {
                Event::Enter(entry) => {
                    self.tally.counters.directories += 1;
                    self.directories.push((Some(entry), ListingWriter::new()));
                }
                Event::Leave => {
                    let (entry, listing) = self.directories.pop().expect("entered before");
                    let mut entry = entry.expect("only the root has none, and it is not left");
                    entry.kind = EntryKind::Directory(listing.finish(&self.chunkers, self.gather)?);
                    self.entry(&entry)?;
                }
                Event::Group(group) => {
                    let group = group.recv().map_err(|_| Error::Interrupted)?;
                    self.group(group)?;
                }
                Event::Large {
                    path,
                    pieces,
                    slots,
                    names,
                } => {
                    self.large(path, &pieces, names)?;
                    for _ in 0..slots {
                        // At the end nobody waits for them any more.
                        let _ = self.gather.channels.slots.send(());
                    }
                }
                Event::Failed { path, error } => self.failed(path, error),
                Event::End(end) => {
                    end?;
                    let (_, listing) = self.directories.pop().expect("the root");
                    return listing.finish(&self.chunkers, self.gather);
                }
            }
        }
    }

    fn entry(&mut self, entry: &TreeEntry) -> Result<()> {
        let (_, listing) = self.directories.last_mut().expect("the root");
        match listing.push(&self.chunkers, self.gather, entry) {
            Err(error @ Error::Unstorable(_)) => {
                let path = self.path_of(&entry.name);
                self.failed(path, error);
                return Ok(());
            }
            result => result?,
        }
        self.tally.owners.note(entry);
        match &entry.kind {
            EntryKind::File(content) => {
                self.tally.counters.files += 1;
                self.tally.counters.bytes += content.length;
                ProgressCounters::add(&self.gather.job.monitor.counters.files, 1);
            }
            EntryKind::Directory(_) => {}
            _ => self.tally.counters.others += 1,
        }
        self.tally.counters.changed_while_read += u64::from(entry.changed_while_read);
        Ok(())
    }

    /// The path of an entry in the directory we are in.
    fn path_of(&self, name: &[u8]) -> PathBuf {
        let directories = self.directories.iter().filter_map(|(entry, _)| entry.as_ref());
        let names = directories.map(|entry| entry.name.as_slice()).chain([name]);
        std::iter::once(OsStr::new("/"))
            .chain(names.map(OsStr::from_bytes))
            .collect()
    }

    fn failed(&mut self, path: PathBuf, error: Error) {
        self.tally.counters.unreadable += 1;
        let error = match error {
            // All that is looked at was listed a moment before.
            Error::Local { action, path, source } if source.kind() == std::io::ErrorKind::NotFound => {
                let source = std::io::Error::new(source.kind(), "it vanished during the backup");
                Error::Local { action, path, source }
            }
            error => error,
        };
        self.gather.job.monitor.warn(Warning::Skipped { path, error });
    }

    /// Takes the entry of a file that was read.
    fn read(&mut self, mut entry: TreeEntry, list: ListWriter, names: Names) -> Result<()> {
        entry.kind = EntryKind::File(list.finish(&self.chunkers, self.gather)?);
        if names == Names::Apart {
            entry.hard_link_device = None;
        }
        self.entry(&entry)?;
        if let (Names::Remember, Some(device)) = (names, entry.hard_link_device) {
            self.links.insert((device, entry.inode), entry);
        }
        Ok(())
    }

    /// Another name of a file that was read by its first.
    fn link(&mut self, name: Vec<u8>, file: FileKey, last: bool, path: PathBuf) -> Result<()> {
        let Some(entry) = self.links.get(&file) else {
            let source = std::io::Error::other("it could not be read by the first of its names");
            let error = Error::local("read", &path, source);
            self.failed(path, error);
            return Ok(());
        };
        let entry = TreeEntry { name, ..entry.clone() };
        self.entry(&entry)?;
        if last {
            self.links.remove(&file);
        }
        Ok(())
    }

    fn group(&mut self, mut group: work::Group) -> Result<()> {
        loop {
            let rest = std::mem::take(&mut group.rest);
            self.part_of_group(group)?;
            if rest.is_empty() {
                return Ok(());
            }
            let (reply, next) = bounded(1);
            let sent = self.gather.channels.work.send(Work::Group { files: rest, reply });
            sent.map_err(|_| Error::Interrupted)?;
            group = next.recv().map_err(|_| Error::Interrupted)?;
        }
    }

    fn part_of_group(&mut self, mut group: work::Group) -> Result<()> {
        for outcome in std::mem::take(&mut group.outcomes) {
            match outcome {
                Outcome::Ready { entry, unchanged } => {
                    self.tally.unchanged_files += u64::from(unchanged);
                    self.entry(&entry)?;
                }
                Outcome::Failed { path, error } => self.failed(path, error),
                Outcome::Link { name, file, last, path } => self.link(name, file, last, path)?,
                Outcome::Grown(file) => self.grown(*file)?,
                Outcome::Read { entry, parts, names } => {
                    let mut list = ListWriter::new();
                    for part in &group.parts[parts] {
                        let item = match part {
                            Part::Hole(length) => {
                                self.tally.holes += length;
                                Item::Hole { length: *length }
                            }
                            Part::Chunk(span) => {
                                self.gather.data(span, &group.data, &group.sketches)?;
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
        }
        self.gather.recycle(group.data);
        Ok(())
    }

    /// A file that has become large since the reader met it: a cutter of its own reads it now.
    fn grown(&mut self, file: ToRead) -> Result<()> {
        let (parts, pieces) = bounded(0);
        let (job, channels) = (self.gather.job, &self.gather.channels);
        let (work, spare) = (channels.work.clone(), channels.spares.clone());
        let (path, names) = (file.path.clone(), file.names);
        std::thread::scope(move |scope| {
            spawn(scope, move || {
                large::cut(job, Large::File { file, parts }, &work, &spare)
            })?;
            // In a failure the pieces go first, and with them what the cutter waits for.
            let pieces = pieces;
            self.large(path, &pieces, names)
        })
    }

    fn large(&mut self, path: PathBuf, parts: &Receiver<LargePart>, names: Names) -> Result<()> {
        let mut list = ListWriter::new();
        loop {
            self.gather.stored.check()?;
            match parts.recv().map_err(|_| Error::Interrupted)? {
                LargePart::Hole(length) => {
                    self.tally.holes += length;
                    list.push(&self.chunkers, self.gather, Item::Hole { length })?;
                }
                LargePart::Piece(piece) => {
                    let piece = piece.recv().map_err(|_| Error::Interrupted)?;
                    for span in &piece.chunks {
                        self.gather.data(span, &piece.data, &piece.sketches)?;
                        list.push(
                            &self.chunkers,
                            self.gather,
                            Item::Chunk {
                                id: span.id,
                                length: span.length,
                            },
                        )?;
                    }
                    self.gather.recycle(piece.data);
                }
                LargePart::End(Ok(entry)) => return self.read(*entry, list, names),
                // A stream is all there is to back up.
                LargePart::End(Err(error @ (Error::Interrupted | Error::Pipe { .. }))) => return Err(error),
                // Half a file is no file: its chunks stay for the next backup, its entry is left out.
                LargePart::End(Err(error)) => {
                    self.failed(path, error);
                    return Ok(());
                }
            }
        }
    }
}
