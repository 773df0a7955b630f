//! The builder: takes everything in the order of the tree, asks the index, fills frames, writes trees.

use super::deltas::{Against, Group, Near};
use super::effort::{DeltaEffort, EffortChoice};
use super::large::{self, Large, LargePart};
use super::read::{self, Event, Input, Outlets};
use super::store::{self, Data, FrameDue, Stored};
use super::work::{self, Complete, Efforts, FileKey, FrameBuffers, Names, Outcome, Part, Sketches, Span, ToRead, Work};
use super::{Compression, Job, Similarity as Wish};
use crate::bodies::Body;
use crate::chunks::ChunkReader;
use crate::index::{Frame, Place};
use crate::recipe::{ListWriter, ListingWriter, MetadataChunkers, MetadataSink};
use crate::similar::{Base, DEPTH_MAX, Distance, Similar, UNSAVED_MAX};
use crate::source::Owners;
use crate::threads::spawn;
use crate::{Counters, Error, Result, Warning};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use ibid_delta::Sketch;
use ibid_format::ChunkId;
use ibid_format::content::{Content, Item};
use ibid_format::pack::{PackKind, Summary};
use ibid_format::snapshot::{self, Snapshot};
use ibid_format::tree::{Entry, EntryKind};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of metadata that are compressed together: trees are read a piece at a time, so their frames are smaller.
const METADATA_FRAME: u32 = 256 << 10;

/// Most chunks that are encoded together.
const LANE_CHUNKS: usize = 64;
/// Chunks after which what was gathered to be encoded is sent off, however little it is. What is encoded together is read together: the bases of what lies far apart
/// lie far apart too, and reading it back took 30 times as long with 256 (lnx 22.65 MB, 23.17 with 8).
const LANE_PATIENCE: u64 = 8;

/// After so many new chunks it is checked that the index stays within the budget.
const CHECK_EVERY: u64 = 4096;

/// What the builder has made.
pub(crate) struct Built {
    pub(crate) root: Content,
    pub(crate) users: Vec<(u32, Vec<u8>)>,
    pub(crate) groups: Vec<(u32, Vec<u8>)>,
    pub(crate) counters: snapshot::Counters,
    pub(crate) unchanged_files: u64,
    pub(crate) holes: u64,
    pub(crate) new_metadata_bytes: u64,
    pub(crate) data: Data,
    pub(crate) written: u64,
}

/// Runs the whole pipeline; this thread is the builder.
pub(crate) fn run(job: &Job<'_>, unlisted: Vec<Summary>, input: Input, parent: Option<&Snapshot>) -> Result<Built> {
    let limits = job.limits;
    let own = own_folder(job);
    let efforts = Efforts {
        whole: EffortChoice::new(),
        delta: DeltaEffort::new(),
    };
    let similar = match &job.bases {
        Some(_) => Some(Similar::load(
            job.repository,
            &job.loaded,
            job.limits.features,
            job.options.similarity == Wish::Max,
            job.monitor,
        )?),
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
        // Each thread ends when all who could send to it have gone; this one must not hold on to what the others wait for.
        drop((work, large, packs));
        let mut gather = Gather {
            job,
            stored,
            work: work_in,
            frames: frames_in,
            spare: spare_in,
            spares: spare,
            spare_frames,
            slots: slots_in,
            data: Open::new(job, FrameBuffers::default()),
            metadata: Open::new(job, FrameBuffers::default()),
            new_chunks: [0; 2],
            new_bytes: [0; 2],
            new_frames: 0,
            similarity: similar
                .zip(job.bases.as_ref())
                .map(|(similar, bases)| Similarity::new(job, similar, bases)),
        };
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
        let similar = gather.similarity.take().map(|similarity| similarity.similar);
        root.and_then(|root| flushed.map(|()| (root, tally, new, similar)))
    });
    // All threads have ended: what they stored is durable, and what failed is known.
    let failure = stored.failure();
    let listed = stored.write_index(job);
    failure?;
    let (root, tally, (new_chunks, new_bytes), similar) = root?;
    listed?;
    let mut written = stored.written.load(Ordering::Relaxed);
    if let Some(mut similar) = similar.filter(|_| !job.options.dry_run) {
        written += similar.save(job.repository, &job.loaded)?;
    }
    let (users, groups) = tally.owners.into_names();
    let counters = snapshot::Counters {
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
        data: stored.data.into_inner().expect("no holder of this lock panics"),
        written,
    })
}

/// (device, inode) of the folder that holds the repository, if it is a folder here: it is not to be backed up into itself.
fn own_folder(job: &Job<'_>) -> Option<(u64, u64)> {
    let stat = rustix::fs::stat(job.repository.storage.folder()?).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// Gathers new chunks into frames and sends these off.
struct Gather<'j> {
    job: &'j Job<'j>,
    stored: &'j Stored,
    work: Sender<Work>,
    frames: Sender<FrameDue>,
    /// Where buffers that were read into go when they are done with.
    spare: Sender<Vec<u8>>,
    spares: Receiver<Vec<u8>>,
    spare_frames: Receiver<FrameBuffers>,
    /// Where the slots of a large file's pieces go when all of them are done with.
    slots: Sender<()>,
    data: Open,
    metadata: Open,
    /// Of data and of metadata.
    new_chunks: [u64; 2],
    new_bytes: [u64; 2],
    new_frames: u64,
    similarity: Option<Similarity<'j>>,
}

/// What is done about data that is like other data.
struct Similarity<'j> {
    similar: Similar,
    bases: &'j ChunkReader<'j>,
    /// The frames in use.
    near: Near,
    /// Chunks with bases, by the depth of the deepest of these.
    lanes: Vec<Lane>,
    /// What the chunks in the frame of those without bases are like.
    unlike: Vec<(Place, Sketch)>,
    /// Chunks that were stored since the beginning.
    clock: u64,
    /// The bases of the chunk at hand.
    found: Vec<Base>,
}

/// Chunks that are gathered to be encoded together.
struct Lane {
    open: Open,
    group: Group,
    /// The clock when the first of them came.
    since: u64,
}

impl<'j> Similarity<'j> {
    fn new(job: &Job<'_>, similar: Similar, bases: &'j ChunkReader<'j>) -> Similarity<'j> {
        let lane = |_| Lane {
            open: Open::new(job, FrameBuffers::default()),
            group: Group::default(),
            since: 0,
        };
        Similarity {
            similar,
            bases,
            near: Near::new(
                (job.limits.bases + job.limits.bases_lent) / 4 * 3 / u64::from(job.repository.config.frame_size),
            ),
            lanes: (0..DEPTH_MAX).map(lane).collect(),
            unlike: Vec::new(),
            clock: 0,
            found: Vec::new(),
        }
    }

    /// Finds the bases of a chunk with this sketch, and gives the depth of the deepest; none if there are none.
    fn find(&mut self, job: &Job<'_>, sketch: &Sketch) -> Option<usize> {
        let distance = |place: Place| {
            let is_readable = job.loaded.index.frame(place.frame).is_stored() || self.bases.bodies.has(place.frame);
            match is_readable {
                true if self.near.has(place.frame) => Some(Distance::Near),
                true => Some(Distance::Far),
                false => None,
            }
        };
        self.similar.bases(sketch, distance, &mut self.found);
        for base in &self.found {
            self.near.touch(self.similar.known(base.number).place.frame);
        }
        self.found.iter().map(|base| usize::from(base.depth)).max()
    }

    /// A lane that is to be sent off, since it is full, or its first chunk has waited for long.
    fn due(&self, frame_size: u32) -> Option<usize> {
        let is_due = |lane: &Lane| {
            let is_old = self.clock - lane.since >= LANE_PATIENCE;
            !lane.group.is_empty() && (is_old || lane.group.len() >= LANE_CHUNKS || lane.open.is_full(frame_size))
        };
        self.lanes.iter().position(is_due)
    }
}

/// A frame that is being gathered.
struct Open {
    number: u32,
    buffers: FrameBuffers,
}

impl Open {
    fn new(job: &Job<'_>, buffers: FrameBuffers) -> Open {
        let number = job.loaded.index.add_frame();
        Open { number, buffers }
    }

    /// Whether nothing more should come into it, when frames have so many bytes.
    fn is_full(&self, size: u32) -> bool {
        self.buffers.body.len() >= size as usize || self.buffers.blobs.len() >= usize::from(u16::MAX)
    }
}

/// Puts a chunk that is not known into a frame.
fn push(job: &Job<'_>, open: &mut Open, id: &ChunkId, bytes: &[u8]) -> Result<Place> {
    let place = Place {
        frame: open.number,
        slot: open.buffers.blobs.len() as u16,
    };
    job.loaded.index.insert(id, place)?;
    open.buffers.push(*id, bytes);
    Ok(place)
}

impl<'j> Gather<'j> {
    /// Stores a chunk of metadata unless it is stored already.
    fn metadata(&mut self, id: &ChunkId, bytes: &[u8]) -> Result<()> {
        if self.job.loaded.index.get(id).is_some() {
            return Ok(());
        }
        push(self.job, &mut self.metadata, id, bytes)?;
        self.count(PackKind::Metadata, bytes)?;
        let full = self.job.repository.config.frame_size.min(METADATA_FRAME);
        if self.metadata.is_full(full) {
            self.send_metadata()?;
        }
        Ok(())
    }

    /// Stores a chunk of data unless it is stored already.
    fn data(&mut self, span: &Span, data: &[u8], sketches: &Sketches) -> Result<()> {
        let job = self.job;
        if job.loaded.index.get(&span.id).is_some() {
            return Ok(());
        }
        let (bytes, sketch) = (span.of(data), sketches.of(span));
        let lane = match (&mut self.similarity, sketch) {
            (Some(similarity), Some(sketch)) => similarity.find(job, sketch),
            _ => None,
        };
        match (lane, sketch) {
            (Some(lane), Some(sketch)) => self.similar(&span.id, bytes, sketch, lane)?,
            _ => self.unlike(&span.id, bytes, sketch)?,
        }
        self.count(PackKind::Data, bytes)
    }

    /// Gathers a chunk whose bases were found.
    fn similar(&mut self, id: &ChunkId, bytes: &[u8], sketch: &Sketch, lane: usize) -> Result<()> {
        let similarity = self.similarity.as_mut().expect("who found the bases");
        let lane = &mut similarity.lanes[lane];
        if lane.group.is_empty() {
            lane.since = similarity.clock;
        }
        let place = push(self.job, &mut lane.open, id, bytes)?;
        lane.group
            .push(place, sketch, &similarity.found, &similarity.similar, similarity.bases);
        self.tick()
    }

    /// Gathers a chunk for which there is no base.
    fn unlike(&mut self, id: &ChunkId, bytes: &[u8], sketch: Option<&Sketch>) -> Result<()> {
        let place = push(self.job, &mut self.data, id, bytes)?;
        if let (Some(similarity), Some(sketch)) = (&mut self.similarity, sketch) {
            similarity.unlike.push((place, *sketch));
        }
        if self.data.is_full(self.job.repository.config.frame_size) {
            self.send_data()?;
        }
        self.tick()
    }

    /// Another chunk was stored: sends off what is due.
    fn tick(&mut self) -> Result<()> {
        if let Some(similarity) = &mut self.similarity {
            similarity.clock += 1;
        }
        let size = self.job.repository.config.frame_size;
        while let Some(lane) = self.similarity.as_ref().and_then(|similarity| similarity.due(size)) {
            self.send_lane(lane)?;
        }
        Ok(())
    }

    /// Counts a new chunk, and now and then looks after memory.
    fn count(&mut self, kind: PackKind, bytes: &[u8]) -> Result<()> {
        let of = usize::from(kind == PackKind::Metadata);
        self.new_chunks[of] += 1;
        self.new_bytes[of] += bytes.len() as u64;
        if !self.new_chunks.iter().sum::<u64>().is_multiple_of(CHECK_EVERY) {
            return Ok(());
        }
        if let Some(similarity) = &mut self.similarity
            && similarity.similar.unsaved() >= UNSAVED_MAX
        {
            if self.job.options.dry_run {
                similarity.similar.forget_unsaved();
            } else {
                let written = similarity.similar.save(self.job.repository, &self.job.loaded)?;
                self.stored.written.fetch_add(written, Ordering::Relaxed);
            }
        }
        // It grows in steps, and goes on growing until the next check; and a small backup is to succeed after this one has failed.
        self.check_memory(self.job.loaded.index.bytes() / 8)
    }

    fn send_metadata(&mut self) -> Result<()> {
        let next = self.fresh();
        let open = std::mem::replace(&mut self.metadata, next);
        self.send(PackKind::Metadata, open, None).map(drop)
    }

    fn send_data(&mut self) -> Result<()> {
        let next = self.fresh();
        let open = std::mem::replace(&mut self.data, next);
        self.send(PackKind::Data, open, None)?;
        if let Some(similarity) = &mut self.similarity {
            for (place, sketch) in similarity.unlike.drain(..) {
                similarity.similar.add(place, 0, &sketch);
            }
        }
        Ok(())
    }

    fn send_lane(&mut self, lane: usize) -> Result<()> {
        let next = self.fresh();
        let similarity = self.similarity.as_mut().expect("it has the lane");
        let lane = &mut similarity.lanes[lane];
        let open = std::mem::replace(&mut lane.open, next);
        let against = lane.group.close(&mut similarity.similar);
        self.send(PackKind::Data, open, Some(against))
    }

    /// A frame to gather into, in memory that was used before if there is any.
    fn fresh(&mut self) -> Open {
        let mut buffers = self.spare_frames.try_recv().unwrap_or_default();
        if buffers.body.capacity() == 0
            && let Some(similarity) = &self.similarity
        {
            buffers.body = similarity.bases.bodies.spare();
        }
        Open::new(self.job, buffers)
    }

    /// Sends a frame off to be compressed, and keeps it for those that are like it.
    fn send(&mut self, kind: PackKind, open: Open, against: Option<Against>) -> Result<()> {
        let Open { number, buffers } = open;
        if buffers.blobs.is_empty() {
            return Ok(());
        }
        self.new_frames += 1;
        let body = Arc::new(Body::gathered(buffers.body, &buffers.blobs));
        if let Some(similarity) = self.similarity.as_mut().filter(|_| kind == PackKind::Data) {
            similarity.near.touch(number);
            similarity.bases.bodies.put(number, body.clone());
        }
        let compression = match (kind, self.job.options.compression) {
            // Metadata never gains from another level than the default's.
            (PackKind::Metadata, Compression::Auto) => Compression::Level(3),
            (_, compression) => compression,
        };
        let frame = Complete {
            blobs: buffers.blobs,
            body,
            plaintext: buffers.plaintext,
            against,
        };
        let (reply, encoded) = bounded(1);
        // Neither can fail but for a failure that `check` knows.
        let due = FrameDue { kind, number, encoded };
        let work = Work::Frame {
            frame,
            compression,
            reply,
        };
        let sent = self.frames.send(due).is_ok() && self.work.send(work).is_ok();
        if sent { Ok(()) } else { Err(Error::Interrupted) }
    }

    /// Whether the index, with all that is new and `more` bytes, leaves room for buffers: for those of this backup, and for the least that
    /// others do with, which must be able to read what this one stores.
    fn check_memory(&self, more: u64) -> Result<()> {
        let Job {
            repository,
            loaded,
            limits,
            ..
        } = self.job;
        // While it is loaded, the list of frames takes up to twice its size.
        let frames = (loaded.index.frames.len() as u64 + self.new_frames) * size_of::<Frame>() as u64;
        let similar = self.similarity.as_ref().map_or(0, |similarity| {
            similarity.similar.memory().saturating_sub(limits.features)
        });
        let index = loaded.index.bytes() + frames + similar + (1 << 20) + more;
        let buffers = limits.bytes(repository.config.frame_size);
        if let Some(similarity) = &self.similarity {
            let left = repository.memory.saturating_sub(index + buffers);
            similarity
                .bases
                .bodies
                .limit(limits.bases + limits.bases_lent.min(left));
        }
        repository.check_memory(index, buffers)
    }

    /// Gives a buffer back to those who read. There may be nobody left who does.
    fn recycle(&self, buffer: Vec<u8>) {
        let _ = self.spare.send(buffer);
    }

    /// Sends off what is not full.
    fn flush(&mut self) -> Result<()> {
        for lane in 0..self.similarity.as_ref().map_or(0, |similarity| similarity.lanes.len()) {
            self.send_lane(lane)?;
        }
        self.send_data()?;
        self.send_metadata()
    }
}

impl MetadataSink for Gather<'_> {
    fn store(&mut self, chunk: &[u8]) -> Result<ChunkId> {
        let id = self.job.repository.keys.chunk_id(chunk);
        self.metadata(&id, chunk)?;
        Ok(id)
    }
}

/// What was met.
#[derive(Default)]
struct Tally {
    counters: snapshot::Counters,
    owners: Owners,
    unchanged_files: u64,
    /// Bytes of holes in files that were read.
    holes: u64,
}

struct Builder<'g, 'j> {
    gather: &'g mut Gather<'j>,
    chunkers: MetadataChunkers,
    /// The directories we are in, with their listings so far; the first is the root, which has no entry.
    directories: Vec<(Option<Box<Entry>>, ListingWriter)>,
    tally: Tally,
    /// Files with several names, by what they are: the entry of the first.
    links: HashMap<FileKey, Entry>,
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
                        let _ = self.gather.slots.send(());
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

    fn entry(&mut self, entry: &Entry) -> Result<()> {
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
                Counters::add(&self.gather.job.monitor.counters.files, 1);
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
    fn read(&mut self, mut entry: Entry, list: ListWriter, names: Names) -> Result<()> {
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
        let entry = Entry { name, ..entry.clone() };
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
            let sent = self.gather.work.send(Work::Group { files: rest, reply });
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
        let (job, work, spare) = (self.gather.job, self.gather.work.clone(), self.gather.spares.clone());
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
