//! What workers do: read small files, fingerprint, sketch, compress. One thread a core.

use super::deltas::{self, Against};
use super::effort::{DeltaEffort, EffortChoice};
use super::{Compression, GROUP, Job, Similarity};
use crate::bodies::Body;
use crate::similar::FEATURES;
use crate::source::{Extent, Moment, Opened, entry_from, read_xattrs_of};
use crate::{Counters, Error, Monitor, Warning};
use crossbeam_channel::{Receiver, Sender};
use ibid_chunk::ArchiveCutter;
use ibid_delta::{Cover, Sketch, Sketcher};
use ibid_format::frame::{self, Blob};
use ibid_format::tree::{Entry, Time};
use ibid_format::{ChunkId, ChunkPrefix};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Stat};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Something for a worker to do, and where its result goes.
pub(crate) enum Work {
    /// Read these files and fingerprint their chunks.
    Group { files: Vec<Small>, reply: Sender<Group> },
    /// Fingerprint these chunks.
    Piece { piece: Piece, reply: Sender<Piece> },
    /// Compress a frame.
    Frame {
        frame: Complete,
        compression: Compression,
        reply: Sender<Encoded>,
    },
}

/// A stretch of a large file: its bytes, and where its chunks are.
#[derive(Default)]
pub(crate) struct Piece {
    pub(crate) data: Vec<u8>,
    pub(crate) chunks: Vec<Span>,
    pub(crate) sketches: Sketches,
}

/// The sketches of the chunks in a buffer that were unknown when they were looked at.
#[derive(Default)]
pub(crate) struct Sketches(Vec<Sketch>);

impl Sketches {
    /// The sketch of a chunk, if it has one.
    pub(crate) fn of(&self, span: &Span) -> Option<&Sketch> {
        self.0.get(span.sketch as usize)
    }
}

/// A chunk in a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) length: u32,
    pub(crate) id: ChunkId,
    /// Its number among the buffer's sketches.
    pub(crate) sketch: u32,
}

impl Span {
    /// A chunk that was cut, and neither fingerprinted nor sketched.
    pub(crate) fn new(start: usize, length: usize) -> Span {
        Span {
            start: start as u32,
            length: length as u32,
            id: ChunkId([0; 32]),
            sketch: u32::MAX,
        }
    }

    pub(crate) fn of<'d>(&self, data: &'d [u8]) -> &'d [u8] {
        &data[self.start as usize..(self.start + self.length) as usize]
    }
}

/// A file to read.
pub(crate) struct ToRead {
    pub(crate) parent: Arc<OwnedFd>,
    pub(crate) name: Vec<u8>,
    /// As the walk found it.
    pub(crate) stat: Stat,
    pub(crate) path: PathBuf,
    pub(crate) names: Names,
}

/// A small file to read, or an entry that is complete and only keeps its place in the order.
pub(crate) enum Small {
    Read(Box<ToRead>),
    Ready {
        entry: Box<Entry>,
        unchanged: bool,
    },
    /// Another name of a file that was met before.
    Link {
        name: Vec<u8>,
        file: FileKey,
        /// Whether no other name is to come.
        last: bool,
        path: PathBuf,
    },
}

/// (device, inode): which file it is, whatever its name.
pub(crate) type FileKey = (u64, u64);

/// What is to be made of the other names of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Nothing: it has none, or each is read.
    Each,
    /// Its entry is kept for them.
    Remember,
    /// It is not what was read by another name: the file has changed since, or its number is another file's now. So it stands by itself.
    Apart,
}

/// Part of a file's content.
pub(crate) enum Part {
    Chunk(Span),
    Hole(u64),
}

/// What became of one file of a group.
pub(crate) enum Outcome {
    /// Read: the entry without content, and its parts among the group's.
    Read {
        entry: Box<Entry>,
        parts: std::ops::Range<usize>,
        names: Names,
    },
    Ready {
        entry: Box<Entry>,
        unchanged: bool,
    },
    /// Not small any more.
    Grown(Box<ToRead>),
    Failed {
        path: PathBuf,
        error: Error,
    },
    Link {
        name: Vec<u8>,
        file: FileKey,
        last: bool,
        path: PathBuf,
    },
}

/// A group of small files, read.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) data: Vec<u8>,
    pub(crate) parts: Vec<Part>,
    pub(crate) sketches: Sketches,
    pub(crate) outcomes: Vec<Outcome>,
    /// Bytes of extended attributes of files that were read.
    attributes: usize,
    /// Files that were not read since those before them took all the room: some had grown meanwhile, or had no size to go by.
    pub(crate) rest: Vec<Small>,
}

/// Chunks gathered for a frame. Its buffers are used again and again: fresh memory costs page faults.
#[derive(Default)]
pub(crate) struct FrameBuffers {
    pub(crate) blobs: Vec<Blob>,
    /// Their bytes, in order.
    pub(crate) body: Vec<u8>,
    /// What [`frame::Encoder::encode`] makes of it.
    pub(crate) plaintext: Vec<u8>,
}

/// A frame that nothing more comes into.
pub(crate) struct Complete {
    pub(crate) blobs: Vec<Blob>,
    pub(crate) body: Arc<Body>,
    pub(crate) plaintext: Vec<u8>,
    /// What to encode it against, if there is something similar.
    pub(crate) against: Option<Against>,
}

/// A frame, compressed.
pub(crate) struct Encoded {
    pub(crate) blobs: Vec<Blob>,
    pub(crate) body: Arc<Body>,
    pub(crate) plaintext: Vec<u8>,
    /// How deep it lies, and the bases it names.
    pub(crate) depth: u8,
    pub(crate) bases: Vec<ChunkPrefix>,
    pub(crate) error: Option<Error>,
}

impl FrameBuffers {
    pub(crate) fn push(&mut self, id: ChunkId, chunk: &[u8]) {
        let length = chunk.len() as u32;
        self.blobs.push(Blob { id, length });
        self.body.extend_from_slice(chunk);
    }
}

impl From<Encoded> for FrameBuffers {
    /// The memory of a frame that is done with: of its body only if nobody keeps that.
    fn from(frame: Encoded) -> FrameBuffers {
        let mut blobs = frame.blobs;
        blobs.clear();
        FrameBuffers {
            blobs,
            body: memory_of(frame.body),
            plaintext: frame.plaintext,
        }
    }
}

/// The memory of a body that nobody keeps.
pub(crate) fn memory_of(body: Arc<Body>) -> Vec<u8> {
    let mut bytes = Arc::into_inner(body).map(Body::into_bytes).unwrap_or_default();
    bytes.clear();
    bytes
}

/// Works until nobody has work any more.
pub(crate) fn run(job: &Job<'_>, efforts: &Efforts, work: &Receiver<Work>, spare: &Receiver<Vec<u8>>) {
    let mut eye = Eye::new(job);
    let mut compressor = Compressor::new(job, efforts);
    while let Ok(work) = work.recv() {
        // A reply that nobody waits for means that the backup has failed elsewhere.
        match work {
            Work::Group { files, reply } => drop(reply.send(read_group(job, &mut eye, spare, files))),
            Work::Piece { mut piece, reply } => {
                for span in &mut piece.chunks {
                    eye.see(span, &piece.data, &mut piece.sketches);
                }
                drop(reply.send(piece));
            }
            Work::Frame {
                frame,
                compression,
                reply,
            } => drop(reply.send(compressor.encode(frame, compression))),
        }
    }
}

/// Looks at chunks: what are they called, and what are they like?
struct Eye<'a> {
    job: &'a Job<'a>,
    sketcher: Option<Sketcher>,
    /// Chunks that were unknown.
    unknown: u64,
}

/// After so many bytes that did not compress, what is similar is looked for in one chunk of so many only: media and archives that were compressed have nothing in common but
/// whole chunks.
const INCOMPRESSIBLE_MAX: u64 = 16 << 20;
const LOOK_EVERY: u64 = 16;

impl<'a> Eye<'a> {
    fn new(job: &'a Job<'a>) -> Eye<'a> {
        Eye {
            job,
            sketcher: job.bases.is_some().then(|| Sketcher::new().with_features(FEATURES)),
            unknown: 0,
        }
    }

    /// Fingerprints a chunk, and sketches it if it is unknown so far.
    fn see(&mut self, span: &mut Span, data: &[u8], sketches: &mut Sketches) {
        let chunk = span.of(data);
        span.id = self.job.repository.keys.chunk_id(chunk);
        if let Some(sketcher) = &mut self.sketcher
            && self.job.loaded.index.get(&span.id).is_none()
        {
            let job = self.job;
            self.unknown += 1;
            if job.options.similarity == Similarity::Auto
                && job.incompressible.load(Ordering::Relaxed) >= INCOMPRESSIBLE_MAX
                && !self.unknown.is_multiple_of(LOOK_EVERY)
            {
                job.passed_over.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                return;
            }
            let sketch = sketcher.sketch(chunk);
            if !sketch.features().is_empty() {
                span.sketch = sketches.0.len() as u32;
                sketches.0.push(sketch);
            }
        }
    }
}

/// What all who compress have found out about what suits the data.
pub(crate) struct Efforts {
    pub(crate) whole: EffortChoice,
    pub(crate) delta: DeltaEffort,
}

/// Compresses frames.
struct Compressor<'a> {
    job: &'a Job<'a>,
    efforts: &'a Efforts,
    encoder: frame::Encoder,
    cover: Cover,
    prefix: Vec<u8>,
    space: Vec<u8>,
}

impl<'a> Compressor<'a> {
    fn new(job: &'a Job<'a>, efforts: &'a Efforts) -> Compressor<'a> {
        Compressor {
            job,
            efforts,
            encoder: frame::Encoder::default(),
            cover: deltas::cover(),
            prefix: Vec::new(),
            space: Vec::new(),
        }
    }

    fn encode(&mut self, frame: Complete, compression: Compression) -> Encoded {
        let mut encoded = Encoded {
            blobs: frame.blobs,
            body: frame.body,
            plaintext: frame.plaintext,
            depth: 0,
            bases: Vec::new(),
            error: None,
        };
        encoded.plaintext.clear();
        let result = match frame.against {
            None => self.whole(&mut encoded, compression),
            Some(against) => self.delta(&mut encoded, &against, compression),
        };
        encoded.error = result.err();
        encoded
    }

    /// Compresses a frame by itself.
    fn whole(&mut self, frame: &mut Encoded, compression: Compression) -> crate::Result<()> {
        let Encoded {
            blobs, body, plaintext, ..
        } = frame;
        let mut fixed = |compression| self.encoder.encode(blobs, body.bytes(), compression, plaintext);
        let result = match compression {
            Compression::Off => fixed(frame::Compression::Stored),
            Compression::Level(level) => fixed(frame::Compression::Zstd(level)),
            Compression::Auto => {
                let effort = &self.efforts.whole;
                effort.encode(&mut self.encoder, blobs, body.bytes(), plaintext, &mut self.space)
            }
        };
        let run = &self.job.incompressible;
        if plaintext.len() < body.bytes().len() {
            run.store(0, Ordering::Relaxed);
        } else {
            run.fetch_add(body.bytes().len() as u64, Ordering::Relaxed);
        }
        result.map_err(Error::damaged("a frame being compressed"))
    }

    /// Compresses a frame against its bases, or by itself if that is about as small.
    fn delta(&mut self, frame: &mut Encoded, against: &Against, compression: Compression) -> crate::Result<()> {
        let reader = self.job.bases.as_ref().expect("who has found bases can read them");
        let target = frame.body.bytes();
        let bases = against.read(reader, &mut self.cover, target, &mut self.space, &mut self.prefix)?;
        for error in bases.faults {
            self.job.monitor.warn(Warning::Repository { error });
        }
        if bases.pieces.is_empty() {
            return self.whole(frame, compression);
        }
        let level = match compression {
            Compression::Level(level) => Some(level),
            Compression::Off | Compression::Auto => None,
        };
        let bytes = frame.body.bytes().len();
        self.efforts
            .delta
            .encode(
                &mut self.encoder,
                (&frame.blobs, frame.body.bytes()),
                (&bases.pieces, &self.prefix),
                level,
                &mut frame.plaintext,
            )
            .map_err(Error::damaged("a frame being compressed"))?;
        if frame.plaintext.len() > self.efforts.whole.expected(bytes) {
            let delta = std::mem::take(&mut frame.plaintext);
            self.whole(frame, compression)?;
            // Depth has its price, too.
            if frame.plaintext.len() <= delta.len() + delta.len() / 16 {
                return Ok(());
            }
            frame.plaintext = delta;
        }
        // Whatever it looks like by itself, this data gains.
        self.job.incompressible.store(0, Ordering::Relaxed);
        frame.depth = bases.depth;
        frame.bases = names(&bases.pieces);
        Ok(())
    }
}

/// The bases of these pieces, each once, in order of first use.
fn names(pieces: &[frame::Piece]) -> Vec<ChunkPrefix> {
    let mut names: Vec<ChunkPrefix> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        if !names.contains(&piece.base) {
            names.push(piece.base);
        }
    }
    names
}

/// Bytes that the extended attributes of an entry take.
pub(crate) fn attribute_bytes(entry: &Entry) -> usize {
    entry.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum()
}

fn read_group(job: &Job<'_>, eye: &mut Eye<'_>, spare: &Receiver<Vec<u8>>, files: Vec<Small>) -> Group {
    let mut group = Group {
        data: spare.try_recv().unwrap_or_default(),
        ..Group::default()
    };
    group.data.clear();
    let mut files = files.into_iter();
    while group.data.len() + group.attributes < GROUP
        && let Some(file) = files.next()
    {
        let outcome = match file {
            Small::Ready { entry, unchanged } => Outcome::Ready { entry, unchanged },
            Small::Link { name, file, last, path } => Outcome::Link { name, file, last, path },
            Small::Read(file) => match read_small(job, eye, &mut group, &file) {
                Ok(Some((entry, parts))) => {
                    group.attributes += attribute_bytes(&entry);
                    Outcome::Read {
                        entry: Box::new(entry),
                        parts,
                        names: file.names,
                    }
                }
                Ok(None) => Outcome::Grown(file),
                Err(error) => Outcome::Failed { path: file.path, error },
            },
        };
        group.outcomes.push(outcome);
    }
    group.rest = files.collect();
    group
}

/// Reads a file into the group; none if it is not small any more.
fn read_small(
    job: &Job<'_>,
    eye: &mut Eye<'_>,
    group: &mut Group,
    file: &ToRead,
) -> crate::Result<Option<(Entry, std::ops::Range<usize>)>> {
    let path = &file.path;
    let failed = |action: &'static str| move |error: rustix::io::Errno| Error::local(action, path, error);
    let (file, mut entry) = open(job, file)?;
    let first = group.parts.len();
    let size = file.stat.st_size as u64;
    if size > GROUP as u64 {
        return Ok(None);
    }
    let mut short = false;
    let mut cutter = ArchiveCutter::new(&job.repository.chunker);
    for extent in file.extents(size) {
        let (start, length) = match extent {
            Extent::Hole { length } => {
                job.monitor.counters.skip(length);
                cutter.skip(length);
                group.parts.push(Part::Hole(length));
                continue;
            }
            Extent::Data { start, length } => (start, length),
        };
        let base = group.data.len();
        group.data.resize(base + length as usize, 0);
        let read = file.read_at(start, &mut group.data[base..]).map_err(failed("read"))?;
        group.data.truncate(base + read);
        Counters::add(&job.monitor.counters.bytes, read as u64);
        cut_from(&mut cutter, eye, group, base);
        if (read as u64) < length {
            short = true;
            break;
        }
    }
    if size == 0 {
        let base = group.data.len();
        short = !read_unsized(&file, &mut group.data).map_err(failed("read"))?;
        cut_from(&mut cutter, eye, group, base);
    }
    finish_entry(job.monitor, &file, &mut entry, path, short, job.started)?;
    Ok(Some((entry, first..group.parts.len())))
}

/// Cuts and looks at what a group's data has gained since it was `base` long.
fn cut_from(cutter: &mut ArchiveCutter<'_>, eye: &mut Eye<'_>, group: &mut Group, base: usize) {
    let mut at = base;
    while let Some(length) = cutter.cut(&group.data[at..], true) {
        let mut span = Span::new(at, length);
        eye.see(&mut span, &group.data, &mut group.sketches);
        group.parts.push(Part::Chunk(span));
        at += length;
    }
}

/// Files of `/proc` and `/sys` have contents and no size. Reads at most a group's worth; false if there is more.
fn read_unsized(file: &Opened, data: &mut Vec<u8>) -> Result<bool, rustix::io::Errno> {
    let mut page = [0; 4096];
    let mut done = 0;
    while done < GROUP {
        let read = file.read_at(done as u64, &mut page)?;
        data.extend_from_slice(&page[..read]);
        done += read;
        if read < page.len() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Opens a regular file; its entry comes from the open file, so that a file put in its place meanwhile is described as itself.
pub(crate) fn open(job: &Job<'_>, wanted: &ToRead) -> crate::Result<(Opened, Entry)> {
    let (name, path) = (&wanted.name, &wanted.path);
    let file = Opened::open(&wanted.parent, name).map_err(|error| Error::local("open", path, error))?;
    let replaced = || {
        Error::local(
            "read",
            path,
            std::io::Error::other("another file was put in its place during the backup"),
        )
    };
    // A device that the user named is read like a file; else a regular file must still be one.
    if FileType::from_raw_mode(file.stat.st_mode) != FileType::from_raw_mode(wanted.stat.st_mode) {
        return Err(replaced());
    }
    let mut entry = entry_from(name, &file.stat).ok_or_else(replaced)?;
    let (xattrs, faults) = read_xattrs_of(rustix::fd::AsFd::as_fd(&file.fd));
    entry.xattrs = xattrs;
    job.attributes_lost(path, faults);
    Ok((file, entry))
}

/// Whether a file with this ctime, read by a backup that began at `started`, gets another ctime by any change after it was read.
///
/// The kernel's clock for files ticks every few milliseconds: a change within the tick that we read in would leave no trace. Some file systems
/// keep whole seconds only (ext3, ext4 with small inodes), or even ones (FAT).
fn tells_later_changes(ctime: Time, started: Time) -> bool {
    const TICK: i128 = 20_000_000;
    let nanos = |time: Time| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    let coarse = if ctime.nanos == 0 { 2_000_000_000 } else { 0 };
    nanos(ctime) < nanos(started) - TICK - coarse
}

/// Marks what changed while it was read, and takes away the ctime of what can't be told from a later change by it.
pub(crate) fn finish_entry(
    monitor: &Monitor,
    file: &Opened,
    entry: &mut Entry,
    path: &PathBuf,
    short: bool,
    started: Time,
) -> crate::Result<()> {
    let after = rustix::fs::fstat(&file.fd).map_err(|error| Error::local("look again at", path, error))?;
    if short || Moment::from(&file.stat) != Moment::from(&after) {
        entry.changed_while_read = true;
        monitor.warn(Warning::ChangedWhileRead { path: path.clone() });
    }
    if entry.changed_while_read || !tells_later_changes(entry.ctime, started) {
        entry.ctime = Time { seconds: 0, nanos: 0 };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ctime_tells_later_changes_once_the_clock_of_files_has_surely_ticked() {
        let at = |seconds, nanos| Time { seconds, nanos };
        assert!(tells_later_changes(at(99, 984_999_999), at(100, 5_000_000)));
        assert!(!tells_later_changes(at(99, 985_000_001), at(100, 5_000_000)));
        assert!(tells_later_changes(at(100, 400_000_000), at(100, 500_000_000)));
        assert!(!tells_later_changes(at(100, 490_000_000), at(100, 500_000_000)));
        assert!(
            !tells_later_changes(at(101, 1), at(100, 500_000_000)),
            "the clock was set back"
        );
        assert!(tells_later_changes(at(-5, 1), at(-4, 0)));
    }

    #[test]
    fn where_ctimes_are_whole_seconds_a_change_in_the_same_two_seconds_is_reckoned_with() {
        let at = |seconds, nanos| Time { seconds, nanos };
        assert!(!tells_later_changes(at(100, 0), at(100, 900_000_000)));
        assert!(!tells_later_changes(at(100, 0), at(102, 0)));
        assert!(tells_later_changes(at(100, 0), at(102, 30_000_000)));
    }
}
