//! Data, by file and by piece.

use std::fs::File;
use std::io::{self, Read, Write};

use ibid_chunk::Settings;

use super::LocalityData;
use crate::error::Stop;
use crate::inputs::Inputs;
use crate::{Error, Observer, Result, Series};

/// Bytes of a piece, which stays in memory while every run processes it.
const PIECE: usize = 64 << 20;
/// Bytes between two reports to the observer.
pub(super) const STEP: usize = 4 << 20;

/// A part of a file.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    /// The bytes: those held back from the previous piece, and new ones.
    pub(super) bytes: &'a [u8],
    /// The offset at which the next piece starts.
    pub(super) passed: usize,
    /// Whether the file starts here.
    pub(super) first: bool,
    /// Whether the file ends here.
    pub(super) last: bool,
}

/// Totals of the data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// The origin of the data.
pub(super) enum Source {
    Files(Inputs),
    Series(Series),
}

impl Source {
    pub(super) fn new(data: &LocalityData, observer: &mut impl Observer) -> Result<Source> {
        Ok(match data {
            LocalityData::Files(paths) => Source::Files(Inputs::list(paths, observer)?),
            LocalityData::Series(series) => {
                series.validate()?;
                Source::Series(series.clone())
            }
        })
    }

    /// Returns the bytes of all files, or an estimate for a series.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Source::Files(inputs) => inputs.bytes,
            Source::Series(series) => series.bytes_expected(),
        }
    }

    /// Returns an upper limit of the number of chunks.
    pub(super) fn chunks_most(&self, settings: &Settings) -> usize {
        let files = match self {
            Source::Files(inputs) => inputs.files.len(),
            Source::Series(series) => series.versions as usize,
        };
        // Assumes for a series that every edit inserts.
        let more = match self {
            Source::Files(_) => 0,
            Source::Series(series) => {
                let edited = series.edits.saturating_mul(series.edit_bytes);
                edited.saturating_mul(u64::from(series.versions).pow(2))
            }
        };
        let bytes = usize::try_from(self.bytes().saturating_add(more)).unwrap_or(usize::MAX);
        (bytes / settings.size_min().max(1)).saturating_add(files)
    }

    /// Calls `take` with every file or version, and its number from 0. A file that was not named
    /// and can't be read is reported to the observer and left out.
    pub(super) fn for_each_file<O: Observer>(
        &self,
        observer: &mut O,
        mut take: impl FnMut(usize, &mut dyn Read, &mut O) -> io::Result<()>,
    ) -> Result<Total> {
        let mut total = Total::default();
        match self {
            Source::Files(inputs) => {
                for (number, input) in inputs.files.iter().enumerate() {
                    let result = File::open(&input.path).and_then(|file| {
                        let mut counted = Counted { file, bytes: 0 };
                        let result = take(number, &mut counted, observer);
                        total.files += 1;
                        total.bytes += counted.bytes;
                        result
                    });
                    match result.map_err(Error::file("read", &input.path)) {
                        Ok(()) => {}
                        Err(Error::File { source, .. }) if !input.is_named => observer.problem(&input.path, &source),
                        Err(error) => return Err(error),
                    }
                }
            }
            Source::Series(series) => {
                let mut version = Vec::new();
                for n in 1..=series.versions {
                    version = make(series, n, &version, observer)?;
                    total.files += 1;
                    total.bytes += version.len() as u64;
                    take(n as usize - 1, &mut &version[..], observer).map_err(Error::file("read", VERSION.as_ref()))?;
                }
            }
        }
        Ok(total)
    }

    /// Calls `take` with all data in pieces. Each piece except a file's last holds back as many
    /// bytes for the next as the longest chunk has, and one more.
    pub(super) fn for_each_piece<O: Observer>(
        &self,
        longest: usize,
        observer: &mut O,
        mut take: impl FnMut(Piece<'_>, &mut O) -> io::Result<()>,
    ) -> Result<Total> {
        let mut buffer = vec![0; PIECE + longest + 1];
        self.for_each_file(observer, |_, reader, observer| {
            pieces(reader, &mut buffer, longest + 1, observer, &mut take)
        })
    }
}

/// The name of a version that is not a file.
const VERSION: &str = "a version";

/// Makes version `n` of a series from the one before.
pub(super) fn make(series: &Series, n: u32, previous: &[u8], observer: &mut impl Observer) -> Result<Vec<u8>> {
    let edited = series.edits.saturating_mul(series.edit_bytes);
    let length = if n == 1 {
        series.size
    } else {
        previous.len() as u64 + edited
    };
    let mut out = Growing {
        bytes: Vec::new(),
        observer,
    };
    // If so much memory can't be reserved, the buffer grows step by step, or fails there.
    let _ = out.bytes.try_reserve(usize::try_from(length).unwrap_or(usize::MAX));
    let made = match n {
        1 => series.first(&mut out),
        n => series.next(n, previous, previous.len() as u64, &mut out).map(|_| ()),
    };
    made.map_err(Error::file("make", VERSION.as_ref()))?;
    Ok(out.bytes)
}

/// Bytes that are generated in memory step by step, so that generation can be stopped.
struct Growing<'o, O> {
    bytes: Vec<u8>,
    observer: &'o mut O,
}

impl<O: Observer> Write for Growing<'_, O> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        match self.observer.advance(0) {
            true => Ok(bytes.len()),
            false => Err(io::Error::other(Stop)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Counted {
    file: File,
    bytes: u64,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

fn pieces<O: Observer>(
    reader: &mut dyn Read,
    buffer: &mut [u8],
    most: usize,
    observer: &mut O,
    take: &mut impl FnMut(Piece<'_>, &mut O) -> io::Result<()>,
) -> io::Result<()> {
    let (mut held, mut first) = (0, true);
    loop {
        let (mut filled, mut last) = (held, false);
        while filled < buffer.len() && !last {
            let upto = buffer.len().min(filled + STEP);
            let read = read_some(reader, &mut buffer[filled..upto])?;
            filled += read;
            last = read == 0;
            // Reading counts as no progress; each run counts the bytes that it processes.
            if !observer.advance(0) {
                return Err(io::Error::other(Stop));
            }
        }
        let piece = Piece {
            bytes: &buffer[..filled],
            passed: if last { filled } else { filled - most },
            first,
            last,
        };
        take(piece, observer)?;
        if last {
            return Ok(());
        }
        first = false;
        buffer.copy_within(filled - most..filled, 0);
        held = most;
    }
}

/// Reads into a buffer, and returns the bytes that were read, none at the end. Interrupted reads
/// are repeated.
fn read_some(reader: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Data that is read through a small buffer.
pub(super) struct Window {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    pub(super) is_last: bool,
    longest: usize,
}

impl Window {
    pub(super) fn new(longest: usize) -> Window {
        Window {
            buffer: vec![0; STEP + longest + 1],
            start: 0,
            end: 0,
            is_last: false,
            longest,
        }
    }

    /// Starts a file.
    pub(super) fn restart(&mut self) {
        (self.start, self.end, self.is_last) = (0, 0, false);
    }

    /// Reads more if less than the longest chunk and a byte is left. Returns how many bytes were
    /// read.
    pub(super) fn fill(&mut self, reader: &mut dyn Read) -> io::Result<usize> {
        if self.is_last || self.end - self.start > self.longest {
            return Ok(0);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let held = self.end;
        while self.end < self.buffer.len() && !self.is_last {
            let read = read_some(reader, &mut self.buffer[self.end..])?;
            self.end += read;
            self.is_last = read == 0;
        }
        Ok(self.end - held)
    }

    /// Returns the available bytes, from the start of the next chunk.
    pub(super) fn data(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Skips a chunk.
    pub(super) fn pass(&mut self, length: usize) {
        self.start += length;
    }
}
