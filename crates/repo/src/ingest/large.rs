//! Reading and cutting large files and streams a piece at a time, while workers fingerprint earlier
//! pieces.

use std::io::Read;
use std::path::Path;

use ibid_chunk::ArchiveCutter;
use ibid_format::content::{Content, Item};
use ibid_format::tree::{EntryKind, Time, TreeEntry};
use rustix::fs::FileType;

use super::copied::CopiedFile;
use super::fingerprint::Span;
use super::hints::{Followed, Follower};
use super::image::Image;
use super::job::{Job, Source};
use super::options::Stream;
use super::sampling::FileClass;
use super::work::{Piece, ToRead, Work};
use crate::source::{Extent, Opened};
use crate::threads::{Receiver, Sender, bounded};
use crate::{Error, ProgressCounters, Result};

/// Message to the builder about a large file.
pub(crate) enum LargePart {
    Piece(Receiver<Piece>),
    /// The end of the file: its entry, without content.
    End(Result<Box<TreeEntry>>),
}

/// A large file queued for a cutter.
pub(crate) enum Large {
    File {
        file: ToRead,
        /// What is known of it, if it is read with a map of changed blocks.
        image: Option<Box<Image>>,
        parts: Sender<LargePart>,
    },
    Stream {
        stream: Stream,
        parts: Sender<LargePart>,
    },
    /// A file of another repository.
    Copied {
        file: Box<CopiedFile>,
        parts: Sender<LargePart>,
    },
}

/// Cuts large files until the channel closes. Two cutters run, so that one can read the next file
/// while the last is still being fingerprinted.
pub(crate) fn cut_large(job: &Job<'_>, large: &Receiver<Large>, work: &Sender<Work>, spare: &Receiver<Vec<u8>>) {
    while let Ok(file) = large.recv() {
        cut(job, file, work, spare);
    }
}

/// Cuts one large file.
pub(crate) fn cut(job: &Job<'_>, file: Large, work: &Sender<Work>, spare: &Receiver<Vec<u8>>) {
    let (parts, kind) = match &file {
        Large::File { file, parts, .. } => (parts.clone(), file.kind),
        Large::Stream { parts, .. } => (parts.clone(), FileClass::NEW),
        Large::Copied { file, parts } => (parts.clone(), file.kind),
    };
    let mut cutter = LargeCutter {
        job,
        parts,
        work,
        spare,
        piece: Piece::default(),
        filled: 0,
        cut: 0,
        cutter: ArchiveCutter::new(&job.repository.chunker),
        kind,
        follower: Follower::new(job),
        bytes_read: 0,
        compared: Vec::new(),
    };
    let end = match file {
        Large::File {
            file,
            image: Some(image),
            ..
        } => cutter.image(&file, *image),
        Large::File { file, .. } => cutter.file(&file),
        Large::Stream { stream, .. } => cutter.stream(stream),
        Large::Copied { file, .. } => cutter.copied(*file),
    };
    cutter.end(end);
}

/// Reason why a file was not read to its end.
pub(super) enum Stop {
    /// The builder is gone: the backup has failed elsewhere, and is reported there.
    Gone,
    Failed(Error),
}

/// Result of a step of reading a file.
pub(super) type StopResult<T> = std::result::Result<T, Stop>;

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

impl<T> From<crossbeam_channel::SendError<T>> for Stop {
    fn from(_: crossbeam_channel::SendError<T>) -> Stop {
        Stop::Gone
    }
}

/// Most items without data in one piece.
const WITHOUT_DATA_MAX: usize = 4096;

pub(super) struct LargeCutter<'a> {
    pub(super) job: &'a Job<'a>,
    parts: Sender<LargePart>,
    work: &'a Sender<Work>,
    spare: &'a Receiver<Vec<u8>>,
    /// The piece being filled.
    piece: Piece,
    /// Bytes in its buffer, and how many of them are cut into chunks.
    filled: usize,
    cut: usize,
    /// Tracks how much of the file is cut.
    cutter: ArchiveCutter<'a>,
    kind: FileClass,
    /// Predicts the next chunks from the repository, where that pays.
    pub(super) follower: Option<Follower<'a>>,
    pub(super) bytes_read: u64,
    /// A chunk to compare.
    pub(super) compared: Vec<u8>,
}

impl LargeCutter<'_> {
    fn file(&mut self, file: &ToRead) -> StopResult<Box<TreeEntry>> {
        let path = &file.path;
        let (file, mut entry, size) = self.open(file)?;
        let mut is_short = false;
        for extent in file.extents(0, size) {
            match extent {
                Extent::Hole { length } => self.hole(length)?,
                Extent::Data { start, length } => is_short = self.extent(&file, path, start, length)? < length,
            }
            if is_short {
                break;
            }
            self.job.monitor.check_cancelled()?;
        }
        super::work::finish_entry(self.job.monitor, &file, &mut entry, path, is_short, self.job.started)?;
        Ok(Box::new(entry))
    }

    /// Opens a file or a device; returns it with its entry and its size.
    pub(super) fn open(&self, file: &ToRead) -> Result<(Opened, TreeEntry, u64)> {
        let (opened, mut entry) = super::work::open(self.job, file)?;
        let size = opened.size().map_err(|error| Error::local("read", &file.path, error))?;
        if FileType::from_raw_mode(opened.stat.st_mode) == FileType::BlockDevice {
            entry.kind = EntryKind::File(Content::empty());
            entry.mode &= 0o666;
        }
        Ok((opened, entry, size))
    }

    /// Adds a hole after all data, which is cut.
    pub(super) fn hole(&mut self, length: u64) -> StopResult<()> {
        self.without_data(Item::Hole { length })
    }

    /// Counts bytes that are not read.
    fn count_skipped(&self, bytes: u64) {
        let counters = &self.job.monitor.counters;
        match &self.job.source {
            Some(Source::Copy(source)) => source.skip(counters, bytes),
            _ => counters.skip(bytes),
        }
    }

    /// Adds an item that is not read, after all data, which is cut.
    pub(super) fn without_data(&mut self, item: Item) -> StopResult<()> {
        self.count_skipped(item.length());
        self.cutter.skip(item.length());
        if let Some(follower) = &mut self.follower {
            follower.lose();
        }
        let Piece {
            chunks, without_data, ..
        } = &mut self.piece;
        // Parts of one hole are one item.
        if let Item::Hole { length: more } = item
            && let Some((before, Item::Hole { length })) = without_data.last_mut()
            && *before == chunks.len()
        {
            *length += more;
            return Ok(());
        }
        if without_data.len() == WITHOUT_DATA_MAX {
            self.send()?;
        }
        self.piece.without_data.push((self.piece.chunks.len(), item));
        Ok(())
    }

    /// Cuts one extent of data; returns its length as found.
    fn extent(&mut self, file: &Opened, path: &Path, start: u64, length: u64) -> StopResult<u64> {
        let mut done = 0;
        loop {
            let wanted = self.room()?.min(length - done);
            let read = self.read(file, path, start + done, wanted)?;
            done += read;
            let last = read < wanted || done == length;
            self.cut_all(last);
            if last {
                return Ok(done);
            }
            self.job.monitor.check_cancelled()?;
        }
    }

    /// Returns how many bytes the piece has room for, at least 1. Sends off a full one.
    pub(super) fn room(&mut self) -> StopResult<u64> {
        if self.filled == self.piece.data.len() {
            self.send()?;
            if self.piece.data.is_empty() {
                self.piece.data = self.fresh();
            }
        }
        Ok((self.piece.data.len() - self.filled) as u64)
    }

    /// Reads up to `wanted` bytes at `offset` into the piece, which has room for them. Returns how
    /// many; fewer only at the end of the file.
    pub(super) fn read(&mut self, file: &Opened, path: &Path, offset: u64, wanted: u64) -> Result<u64> {
        let read = file
            .read_at(offset, &mut self.piece.data[self.filled..][..wanted as usize])
            .map_err(|error| Error::local("read", path, error))?;
        self.add(read);
        Ok(read as u64)
    }

    /// Takes `read` bytes that were read into the piece as data to cut.
    fn add(&mut self, read: usize) {
        self.filled += read;
        self.bytes_read += read as u64;
    }

    fn stream(&mut self, mut stream: Stream) -> StopResult<Box<TreeEntry>> {
        let failed = |source| Error::Pipe {
            action: "read the stream to back up",
            source,
        };
        let mut last = false;
        while !last {
            let room = self.room()? as usize;
            let buffer = &mut self.piece.data[self.filled..];
            let mut read = 0;
            while read < room && !last {
                match stream.reader.read(&mut buffer[read..]) {
                    Ok(0) => last = true,
                    Ok(n) => read += n,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                        self.job.monitor.check_cancelled()?;
                    }
                    Err(error) => return Err(failed(error).into()),
                }
            }
            self.add(read);
            self.cut_all(last);
            self.job.monitor.check_cancelled()?;
        }
        let now = crate::clock::now();
        Ok(Box::new(TreeEntry {
            name: stream.name,
            kind: EntryKind::File(Content::empty()),
            mode: 0o600,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            mtime: now,
            ctime: Time { seconds: 0, nanos: 0 },
            inode: 0,
            changed_while_read: false,
            hard_link_device: None,
            inode_flags: Default::default(),
            xattrs: Vec::new(),
        }))
    }

    /// Cuts the chunks that are complete; all of the data if it is the `last`.
    fn cut_all(&mut self, last: bool) {
        if let Some(follower) = &mut self.follower {
            follower.next_piece();
        }
        while self.cut_next(last).is_some() {}
    }

    /// Cuts the next chunks from the data and returns their bytes, or `None` if there is too little
    /// data. Without a follower, that is one chunk.
    pub(super) fn cut_next(&mut self, last: bool) -> Option<u64> {
        let (start, Piece { data, chunks, .. }) = (self.cut, &mut self.piece);
        let data = &data[start..self.filled];
        if let Some(follower) = &mut self.follower {
            match follower.follow(&mut self.cutter, data, last, start, chunks) {
                Followed::Some(bytes) => {
                    self.cut += bytes;
                    self.job.count(|tally| tally.cut_by_hints_bytes += bytes as u64);
                    return Some(bytes as u64);
                }
                Followed::More => return None,
                Followed::Nothing => {}
            }
        }
        let length = self.cutter.cut(data, last)?;
        let mut span = Span::new(start, length, self.kind);
        if let Some(follower) = &mut self.follower {
            follower.cut(&mut span, &data[..length]);
        }
        chunks.push(span);
        self.cut += length;
        Some(length as u64)
    }

    /// Adds a chunk after all data, which is cut.
    pub(super) fn whole_chunk(&mut self, chunk: &[u8]) -> StopResult<()> {
        if self.piece.data.len() - self.filled < chunk.len() {
            self.send()?;
            if self.piece.data.is_empty() {
                self.piece.data = self.fresh();
            }
            // A chunk that was copied from elsewhere may be longer than any chunker of today makes.
            let room = self.piece.data.len().max(self.filled + chunk.len());
            self.piece.data.resize(room, 0);
        }
        self.piece.data[self.filled..][..chunk.len()].copy_from_slice(chunk);
        self.piece.chunks.push(Span::new(self.cut, chunk.len(), self.kind));
        self.add(chunk.len());
        self.cut += chunk.len();
        Ok(())
    }

    /// Drops the last `bytes` of the data that is not cut.
    pub(super) fn drop_last(&mut self, bytes: u64) {
        self.filled -= bytes as usize;
    }

    /// Sends off the piece, and starts another with the data that is not cut.
    fn send(&mut self) -> StopResult<()> {
        let (reply, result) = bounded(1);
        if self.piece.chunks.is_empty() {
            if !self.piece.without_data.is_empty() {
                let without_data = std::mem::take(&mut self.piece.without_data);
                self.parts.send(LargePart::Piece(result))?;
                reply.send(Piece {
                    without_data,
                    ..Piece::default()
                })?;
            }
            return Ok(());
        }
        let left = self.filled - self.cut;
        let mut data = self.fresh();
        data[..left].copy_from_slice(&self.piece.data[self.cut..self.filled]);
        let piece = std::mem::replace(
            &mut self.piece,
            Piece {
                data,
                ..Piece::default()
            },
        );
        ProgressCounters::add(&self.job.monitor.counters.bytes, self.cut as u64);
        (self.filled, self.cut) = (left, 0);
        self.parts.send(LargePart::Piece(result))?;
        Ok(self.work.send(Work::Piece { piece, reply })?)
    }

    /// Sends off what is left, and how the file ended.
    fn end(mut self, end: StopResult<Box<TreeEntry>>) {
        self.job.count(|tally| tally.read_bytes += self.bytes_read);
        let end = match (end, self.send()) {
            (Err(Stop::Gone), _) | (_, Err(Stop::Gone)) => return,
            (Err(Stop::Failed(error)), _) | (_, Err(Stop::Failed(error))) => Err(error),
            (Ok(entry), Ok(())) => Ok(entry),
        };
        // If the receiver is gone, the backup has failed elsewhere.
        let _ = self.parts.send(LargePart::End(end));
    }

    /// Returns an empty buffer. A reused one causes no page faults.
    fn fresh(&self) -> Vec<u8> {
        let room = self.job.limits.piece;
        match self.spare.try_recv() {
            Ok(mut buffer) if buffer.capacity() >= room => {
                buffer.resize(room, 0);
                buffer
            }
            // The system hands out zeroed memory: nothing need be written.
            _ => vec![0; room],
        }
    }
}
