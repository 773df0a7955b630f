//! Reading and cutting large files and streams a piece at a time, while workers fingerprint earlier
//! pieces.

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use crossbeam_channel::{Receiver, Sender, bounded};
use ibid_chunk::ArchiveCutter;
use ibid_format::content::Content;
use ibid_format::tree::{EntryKind, Time, TreeEntry};
use rustix::fs::FileType;

use super::fingerprint::Span;
use super::hints::{Followed, Follower};
use super::job::Job;
use super::options::Stream;
use super::sampling::FileClass;
use super::work::{Piece, ToRead, Work};
use crate::source::{Extent, Opened};
use crate::{Error, ProgressCounters, Result};

/// Message to the builder about a large file.
pub(crate) enum LargePart {
    Piece(Receiver<Piece>),
    Hole(u64),
    /// The end of the file: its entry, without content.
    End(Result<Box<TreeEntry>>),
}

/// A large file queued for a cutter.
pub(crate) enum Large {
    File { file: ToRead, parts: Sender<LargePart> },
    Stream { stream: Stream, parts: Sender<LargePart> },
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
        Large::File { file, parts } => (parts.clone(), file.kind),
        Large::Stream { parts, .. } => (parts.clone(), FileClass::NEW),
    };
    let mut cutter = LargeCutter {
        job,
        parts,
        work,
        spare,
        buffer: Vec::new(),
        filled: 0,
        cutter: ArchiveCutter::new(&job.repository.chunker),
        kind,
        follower: Follower::new(job),
    };
    cutter.buffer = cutter.fresh();
    let end = match file {
        Large::File { file, .. } => cutter.file(&file),
        Large::Stream { stream, .. } => cutter.stream(stream),
    };
    // `Ok(None)`: the receiver is gone.
    if let Some(end) = end.transpose() {
        drop(cutter.parts.send(LargePart::End(end)));
    }
}

struct LargeCutter<'a> {
    job: &'a Job<'a>,
    parts: Sender<LargePart>,
    work: &'a Sender<Work>,
    spare: &'a Receiver<Vec<u8>>,
    /// The piece being filled, and its length so far.
    buffer: Vec<u8>,
    filled: usize,
    /// Tracks how much of the file is cut.
    cutter: ArchiveCutter<'a>,
    kind: FileClass,
    /// Predicts the next chunks from the repository, where that pays.
    follower: Option<Follower<'a>>,
}

impl LargeCutter<'_> {
    fn file(&mut self, file: &ToRead) -> Result<Option<Box<TreeEntry>>> {
        let path = &file.path;
        let (file, mut entry) = super::work::open(self.job, file)?;
        let failed = |error| Error::local("read", path, error);
        let mut size = file.stat.st_size as u64;
        if FileType::from_raw_mode(file.stat.st_mode) == FileType::BlockDevice {
            size = crate::source::device_size(&file.fd).map_err(failed)?;
            entry.kind = EntryKind::File(Content::empty());
            entry.mode &= 0o666;
        }
        let extents = if matches!(FileType::from_raw_mode(file.stat.st_mode), FileType::BlockDevice) {
            vec![Extent::Data { start: 0, length: size }]
        } else {
            file.extents(size)
        };
        let mut short = false;
        for extent in extents {
            match extent {
                Extent::Hole { length } => {
                    self.job.monitor.counters.skip(length);
                    self.cutter.skip(length);
                    if let Some(follower) = &mut self.follower {
                        follower.lose();
                    }
                    if self.parts.send(LargePart::Hole(length)).is_err() {
                        return Ok(None);
                    }
                }
                Extent::Data { start, length } => match self.extent(&file, path, start, length)? {
                    None => return Ok(None),
                    Some(read) if read < length => {
                        short = true;
                        break;
                    }
                    Some(_) => {}
                },
            }
            self.job.monitor.check_cancelled()?;
        }
        super::work::finish_entry(self.job.monitor, &file, &mut entry, path, short, self.job.started)?;
        Ok(Some(Box::new(entry)))
    }

    /// Cuts one extent of data; returns its length as found, or `None` if the receiver is gone.
    fn extent(&mut self, file: &Opened, path: &Path, start: u64, length: u64) -> Result<Option<u64>> {
        let mut done = 0;
        loop {
            let buffer = &mut self.buffer[self.filled..];
            let wanted = (buffer.len() as u64).min(length - done) as usize;
            let read = file
                .read_at(start + done, &mut buffer[..wanted])
                .map_err(|error| Error::local("read", path, error))?;
            done += read as u64;
            let last = read < wanted || done == length;
            if !self.cut(read, last) {
                return Ok(None);
            }
            if last {
                return Ok(Some(done));
            }
            self.job.monitor.check_cancelled()?;
        }
    }

    fn stream(&mut self, mut stream: Stream) -> Result<Option<Box<TreeEntry>>> {
        let failed = |source| Error::Pipe {
            action: "read the stream to back up",
            source,
        };
        loop {
            let buffer = &mut self.buffer[self.filled..];
            let mut read = 0;
            let mut last = false;
            while read < buffer.len() && !last {
                match stream.reader.read(&mut buffer[read..]) {
                    Ok(0) => last = true,
                    Ok(n) => read += n,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                        self.job.monitor.check_cancelled()?;
                    }
                    Err(error) => return Err(failed(error)),
                }
            }
            if !self.cut(read, last) {
                return Ok(None);
            }
            self.job.monitor.check_cancelled()?;
            if last {
                break;
            }
        }
        let now = crate::clock::now();
        Ok(Some(Box::new(TreeEntry {
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
            xattrs: Vec::new(),
        })))
    }

    /// Adds `read` new bytes, cuts the chunks that are complete, and sends them off. Returns false
    /// if the receiver is gone.
    fn cut(&mut self, read: usize, last: bool) -> bool {
        let filled = self.filled + read;
        let size_average = self.job.repository.chunker.settings().size_average();
        let mut chunks = Vec::with_capacity(filled / size_average + 16);
        let mut start = 0;
        if let Some(follower) = &mut self.follower {
            follower.next_piece();
        }
        while let Some(length) = self.next(start..filled, last, &mut chunks) {
            start += length;
        }
        ProgressCounters::add(&self.job.monitor.counters.bytes, read as u64);
        let mut next = self.fresh();
        self.filled = filled - start;
        next[..self.filled].copy_from_slice(&self.buffer[start..filled]);
        let piece = Piece {
            data: std::mem::replace(&mut self.buffer, next),
            chunks,
            ..Piece::default()
        };
        if piece.chunks.is_empty() {
            return true;
        }
        let (reply, result) = bounded(1);
        self.parts.send(LargePart::Piece(result)).is_ok() && self.work.send(Work::Piece { piece, reply }).is_ok()
    }

    /// Takes the next chunks from the buffer and returns their bytes, or `None` if there is too
    /// little data.
    fn next(&mut self, left: Range<usize>, last: bool, chunks: &mut Vec<Span>) -> Option<usize> {
        let (start, data) = (left.start, &self.buffer[left]);
        if let Some(follower) = &mut self.follower {
            match follower.follow(&mut self.cutter, data, last, start, chunks) {
                Followed::Some(bytes) => {
                    self.job.count(|tally| tally.cut_by_hints_bytes += bytes as u64);
                    return Some(bytes);
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
        Some(length)
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
