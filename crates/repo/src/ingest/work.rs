//! Workers: read and cut small files, fingerprint and sketch chunks, compress frames. One thread
//! per core.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ibid_chunk::ArchiveCutter;
use ibid_format::content::Item;
use ibid_format::tree::{Time, TreeEntry};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Stat};

use super::again::{self, StoredChunk};
use super::compress::{CompleteFrame, Compressor, Efforts, EncodedFrame};
use super::copied::{self, CopiedFile};
use super::fingerprint::{Analyzer, Sketches, Span};
use super::job::Job;
use super::limits::BATCH_BYTES;
use super::moves::{self, ReadFrame};
use super::sampling;
use crate::read::FrameReader;
use crate::source::{Extent, Moment, Opened, entry_from, read_attributes};
use crate::threads::{Receiver, Sender};
use crate::{Error, Monitor, ProgressCounters, Warning};

/// A job for a worker, and the channel for its result.
pub(crate) enum Work {
    /// Read these files and fingerprint their chunks.
    Batch {
        items: Vec<BatchItem>,
        reply: Sender<Batch>,
    },
    /// Fingerprint these chunks.
    Piece { piece: Piece, reply: Sender<Piece> },
    /// Compress a frame.
    Frame {
        frame: CompleteFrame,
        reply: Sender<EncodedFrame>,
    },
    /// Read a frame of another repository that is moved as it is.
    Move {
        number: u32,
        /// Whether other such frames are encoded against it.
        is_base: bool,
        reply: Sender<crate::Result<ReadFrame>>,
    },
}

/// A piece of a large file: its bytes, and the positions of its chunks.
#[derive(Default)]
pub(crate) struct Piece {
    pub(crate) data: Vec<u8>,
    pub(crate) chunks: Vec<Span>,
    pub(crate) sketches: Sketches,
    /// Holes, and chunks that are not read, each with the number of [`chunks`](Piece::chunks) before
    /// it.
    pub(crate) without_data: Vec<(usize, Item)>,
}

/// A file to read.
pub(crate) struct ToRead {
    pub(crate) parent: Arc<OwnedFd>,
    pub(crate) name: Vec<u8>,
    /// `stat` of the file during the walk.
    pub(crate) stat: Stat,
    pub(crate) path: PathBuf,
    pub(crate) names: Names,
    pub(crate) kind: sampling::FileClass,
}

/// A small file to read, or what keeps its place in the order of the tree.
pub(crate) enum BatchItem {
    /// A directory begins: what follows is in it.
    Enter(Box<TreeEntry>),
    /// The last directory that has begun ends.
    Leave,
    Read(Box<ToRead>),
    Ready {
        entry: Box<TreeEntry>,
        taken_from: Option<TakenFrom>,
    },
    /// A file of another repository.
    Copied(Box<CopiedFile>),
    /// Chunks to store again.
    Again(Vec<StoredChunk>),
    /// Another name of a file that was met before.
    Link {
        name: Vec<u8>,
        file: FileKey,
        /// Whether this is the last of its names.
        last: bool,
        path: PathBuf,
    },
}

/// Where the entry of a file that was not read comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakenFrom {
    /// From the parent.
    Parent,
    /// From a checkpoint of a backup that was interrupted.
    Checkpoint,
}

/// (device, inode): identifies a file under all its names.
pub(crate) type FileKey = (u64, u64);

/// Treatment of a file's other names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// The file has no other name, or each name is read.
    Each,
    /// Its entry is kept for the other names.
    Remember,
    /// The file changed since it was read under another name, or its number now belongs to another
    /// file. It is stored without a link.
    Apart,
}

/// Part of a file's content.
pub(crate) enum Part {
    Chunk(Span),
    Hole(u64),
}

/// Result for one item of a batch.
pub(crate) enum BatchOutcome {
    Enter(Box<TreeEntry>),
    Leave,
    /// The file was read: its entry without content, and the range of its parts in the batch.
    Read {
        entry: Box<TreeEntry>,
        parts: std::ops::Range<usize>,
        names: Names,
    },
    Ready {
        entry: Box<TreeEntry>,
        taken_from: Option<TakenFrom>,
    },
    /// The file is no longer small.
    Grown(Box<ToRead>),
    /// Chunks to store again: the range of their parts in the batch.
    Again(std::ops::Range<usize>),
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

/// A batch of small files that was read.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) data: Vec<u8>,
    pub(crate) parts: Vec<Part>,
    pub(crate) sketches: Sketches,
    pub(crate) outcomes: Vec<BatchOutcome>,
    /// Bytes of extended attributes of the files read.
    attributes: usize,
    /// Bytes read, also from files that failed.
    pub(super) bytes_read: u64,
    /// What was not done because the files before it filled the batch: some had grown meanwhile, or
    /// reported no size.
    pub(crate) rest: Vec<BatchItem>,
}

/// Works until the channel closes.
pub(crate) fn run(job: &Job<'_>, efforts: &Efforts, work: &Receiver<Work>, spare: &Receiver<Vec<u8>>) {
    let mut analyzer = Analyzer::new(job);
    let mut compressor = Compressor::new(job, efforts);
    let mut frames = FrameReader::default();
    while let Ok(work) = work.recv() {
        // If the receiver of a reply is gone, the backup has failed elsewhere.
        match work {
            Work::Batch { items, reply } => drop(reply.send(read_batch(job, &mut analyzer, spare, items))),
            Work::Piece { mut piece, reply } => {
                analyzer.analyze(piece.chunks.iter_mut(), &piece.data, &mut piece.sketches);
                drop(reply.send(piece));
            }
            Work::Frame { frame, reply } => drop(reply.send(compressor.encode(frame))),
            Work::Move { number, is_base, reply } => {
                drop(reply.send(moves::read(job, &mut frames, number, is_base)));
            }
        }
    }
}

/// Returns the bytes that an entry's extended attributes take.
pub(crate) fn attribute_bytes(entry: &TreeEntry) -> usize {
    entry.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum()
}

fn read_batch(job: &Job<'_>, analyzer: &mut Analyzer<'_>, spare: &Receiver<Vec<u8>>, items: Vec<BatchItem>) -> Batch {
    let mut batch = Batch {
        data: spare.try_recv().unwrap_or_default(),
        ..Batch::default()
    };
    batch.data.clear();
    let _planned = copied::plan(job, &items);
    let mut items = items.into_iter();
    while batch.data.len() + batch.attributes < BATCH_BYTES
        && let Some(item) = items.next()
    {
        let outcome = match item {
            BatchItem::Enter(entry) => BatchOutcome::Enter(entry),
            BatchItem::Leave => BatchOutcome::Leave,
            BatchItem::Ready { entry, taken_from } => BatchOutcome::Ready { entry, taken_from },
            BatchItem::Link { name, file, last, path } => BatchOutcome::Link { name, file, last, path },
            BatchItem::Copied(file) => match copied::read_small(job, &mut batch, &file) {
                Ok(parts) => BatchOutcome::Read {
                    entry: Box::new(file.entry),
                    parts,
                    names: Names::Each,
                },
                Err(error) => BatchOutcome::Failed { path: file.path, error },
            },
            BatchItem::Again(chunks) => match again::read(job, &mut batch, &chunks) {
                Ok(parts) => BatchOutcome::Again(parts),
                Err(error) => BatchOutcome::Failed {
                    path: PathBuf::new(),
                    error,
                },
            },
            BatchItem::Read(file) => match read_small(job, &mut batch, &file) {
                Ok(Some((entry, parts))) => {
                    batch.attributes += attribute_bytes(&entry);
                    BatchOutcome::Read {
                        entry: Box::new(entry),
                        parts,
                        names: file.names,
                    }
                }
                Ok(None) => BatchOutcome::Grown(file),
                Err(error) => BatchOutcome::Failed { path: file.path, error },
            },
        };
        batch.outcomes.push(outcome);
    }
    batch.rest = items.collect();
    job.count(|tally| tally.read_bytes += batch.bytes_read);
    // Fingerprinting small chunks together is faster.
    let Batch {
        data, parts, sketches, ..
    } = &mut batch;
    let chunks = parts.iter_mut().filter_map(|part| match part {
        Part::Chunk(span) => Some(span),
        Part::Hole(_) => None,
    });
    analyzer.analyze(chunks, data, sketches);
    batch
}

/// Reads a file into the batch; returns `None` if the file is no longer small.
fn read_small(
    job: &Job<'_>,
    batch: &mut Batch,
    wanted: &ToRead,
) -> crate::Result<Option<(TreeEntry, std::ops::Range<usize>)>> {
    let path = &wanted.path;
    let failed = |action: &'static str| move |error: rustix::io::Errno| Error::local(action, path, error);
    let (file, mut entry) = open(job, wanted)?;
    let first = batch.parts.len();
    let size = file.stat.st_size as u64;
    if size > BATCH_BYTES as u64 {
        return Ok(None);
    }
    let mut short = false;
    let mut cutter = ArchiveCutter::new(&job.repository.chunker);
    for extent in file.extents(0, size) {
        let (start, length) = match extent {
            Extent::Hole { length } => {
                job.monitor.counters.skip(length);
                cutter.skip(length);
                batch.parts.push(Part::Hole(length));
                continue;
            }
            Extent::Data { start, length } => (start, length),
        };
        let base = batch.data.len();
        batch.data.resize(base + length as usize, 0);
        let read = file.read_at(start, &mut batch.data[base..]).map_err(failed("read"))?;
        batch.data.truncate(base + read);
        ProgressCounters::add(&job.monitor.counters.bytes, read as u64);
        batch.bytes_read += read as u64;
        cut_from(&mut cutter, batch, base, wanted.kind);
        if (read as u64) < length {
            short = true;
            break;
        }
    }
    if size == 0 {
        let base = batch.data.len();
        short = !read_unsized(&file, &mut batch.data).map_err(failed("read"))?;
        batch.bytes_read += (batch.data.len() - base) as u64;
        cut_from(&mut cutter, batch, base, wanted.kind);
    }
    finish_entry(job.monitor, &file, &mut entry, path, short, job.started)?;
    Ok(Some((entry, first..batch.parts.len())))
}

/// Cuts the data added to a batch since it was `base` bytes long.
fn cut_from(cutter: &mut ArchiveCutter<'_>, batch: &mut Batch, base: usize, kind: sampling::FileClass) {
    let mut at = base;
    while let Some(length) = cutter.cut(&batch.data[at..], true) {
        batch.parts.push(Part::Chunk(Span::new(at, length, kind)));
        at += length;
    }
}

/// Reads a file without a size, as in `/proc` and `/sys`. Reads at most the room of a batch;
/// returns false if there is more.
fn read_unsized(file: &Opened, data: &mut Vec<u8>) -> Result<bool, rustix::io::Errno> {
    let mut page = [0; 4096];
    let mut done = 0;
    while done < BATCH_BYTES {
        let read = file.read_at(done as u64, &mut page)?;
        data.extend_from_slice(&page[..read]);
        done += read;
        if read < page.len() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Opens a regular file. Its entry comes from the open file, so that a file put in its place
/// meanwhile is described correctly.
pub(crate) fn open(job: &Job<'_>, wanted: &ToRead) -> crate::Result<(Opened, TreeEntry)> {
    let (name, path) = (&wanted.name, &wanted.path);
    let file = Opened::open(&wanted.parent, name).map_err(|error| Error::local("open", path, error))?;
    // A device named by the user is read like a file. Any other file must still have its type.
    if FileType::from_raw_mode(file.stat.st_mode) != FileType::from_raw_mode(wanted.stat.st_mode) {
        return Err(replaced(path));
    }
    let mut entry = entry_from(name, &file.stat).ok_or_else(|| replaced(path))?;
    let faults = read_attributes(rustix::fd::AsFd::as_fd(&file.fd), &mut entry);
    job.attributes_lost(path, faults);
    Ok((file, entry))
}

/// Returns the error for a file that is not the one that was meant.
pub(crate) fn replaced(path: &Path) -> Error {
    let source = std::io::Error::other("another file was put in its place during the backup");
    Error::local("read", path, source)
}

/// Returns whether any change to a file after it was read is sure to alter this ctime. `started` is
/// the time at which the backup began.
///
/// The kernel's clock for files ticks every few milliseconds: a change within the tick of the read
/// would leave no trace. Some file systems keep only whole seconds (ext3, ext4 with small inodes)
/// or even seconds (FAT).
fn tells_later_changes(ctime: Time, started: Time) -> bool {
    const TICK: i128 = 20_000_000;
    let nanos = |time: Time| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    let coarse = if ctime.nanos == 0 { 2_000_000_000 } else { 0 };
    nanos(ctime) < nanos(started) - TICK - coarse
}

/// Marks a file that changed while it was read, and removes its ctime if a later change might not
/// alter it.
pub(crate) fn finish_entry(
    monitor: &Monitor,
    file: &Opened,
    entry: &mut TreeEntry,
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
