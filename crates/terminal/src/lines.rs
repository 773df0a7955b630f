//! Lines of bounded length from a file, which may be compressed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use crate::FileError;
use crate::input::{self, PatientInput};

/// Bytes that are read at once.
const BUFFER: usize = 256 << 10;
/// The magic number of zstd frames.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The magic number of skippable zstd frames; the lower half of the first byte can be anything.
const ZSTD_SKIPPED: [u8; 4] = [0x50, 0x2a, 0x4d, 0x18];

/// The lines of a file, plain or compressed by zstd.
pub struct Lines {
    reader: Box<dyn BufRead>,
    line: Vec<u8>,
    state: State,
    line_bytes_max: usize,
    /// Bytes of the file, compressed or not; [`None`] for standard input and pipes.
    pub file_bytes: Option<u64>,
    /// The number of the last line, from 1.
    pub number: u64,
}

/// A line without its end.
#[derive(Debug)]
pub enum Line<'l> {
    /// A line.
    Whole(&'l [u8]),
    /// The line was too long, and was skipped.
    TooLong {
        /// The longest allowed line, bytes.
        bytes_max: usize,
    },
    /// No input came for a while. A line that has begun is returned when the rest comes.
    Waiting,
}

/// The state of the current line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Done,
    Begun,
    /// The rest of the line is skipped.
    TooLong,
}

impl Lines {
    /// Opens a file, or standard input for `-`.
    ///
    /// Calls `advance` often, with the bytes read since the last call, which may be 0; if it
    /// returns false, reading ends with an error. zstd's window may take a quarter of `memory`, so
    /// that 512 MiB suffice for `zstd --long`, and a line an eighth.
    ///
    /// # Errors
    /// The file can't be opened, or its beginning can't be read.
    pub fn open(path: &Path, memory: u64, advance: impl FnMut(u64) -> bool + 'static) -> Result<Lines, FileError> {
        let (source, file_bytes): (Box<dyn Read>, _) = if input::is_stdin(path) {
            (Box::new(PatientInput), None)
        } else {
            let file = File::open(path).map_err(|source| FileError::new("open", path, source))?;
            let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file);
            (Box::new(file), metadata.map(|metadata| metadata.len()))
        };
        let lines = Lines::of(source, memory, Box::new(advance));
        let lines = lines.map_err(|source| FileError::new("read", path, source))?;
        Ok(Lines { file_bytes, ..lines })
    }

    fn of(source: Box<dyn Read>, memory: u64, advance: Box<dyn FnMut(u64) -> bool>) -> io::Result<Lines> {
        Ok(Lines {
            reader: plain(Watched { source, advance }, memory / 4)?,
            line: Vec::new(),
            state: State::Done,
            line_bytes_max: usize::try_from(memory / 8).unwrap_or(usize::MAX),
            file_bytes: None,
            number: 0,
        })
    }

    /// Gives the memory of the last line back, if it was long.
    pub fn release(&mut self) {
        if self.state == State::Done && self.line.capacity() > 4 * BUFFER {
            self.line = Vec::new();
        }
    }

    /// Returns the next line; [`None`] at the end.
    ///
    /// # Errors
    /// The file can't be read or decompressed, or `advance` returned false.
    #[allow(clippy::should_implement_trait, reason = "a line borrows from the reader")]
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        match self.read() {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(Line::Waiting)),
            Err(error) => return Err(error),
        }
        self.number += 1;
        if std::mem::replace(&mut self.state, State::Done) == State::TooLong {
            let bytes_max = self.line_bytes_max;
            return Ok(Some(Line::TooLong { bytes_max }));
        }
        Ok(Some(Line::Whole(without_end(&self.line))))
    }

    /// Reads to the end of a line, and skips a line that is too long. Returns whether there is a
    /// line. After an error of the kind `WouldBlock`, the next call continues.
    fn read(&mut self) -> io::Result<bool> {
        if self.state == State::Done {
            self.release();
            self.line.clear();
            self.state = State::Begun;
        }
        if self.state == State::Begun {
            // The limit includes the line end, which has at most two bytes.
            let left = (self.line_bytes_max as u64).saturating_add(2) - self.line.len() as u64;
            (&mut self.reader).take(left).read_until(b'\n', &mut self.line)?;
            if without_end(&self.line).len() > self.line_bytes_max {
                self.state = State::TooLong;
            }
        }
        if self.state == State::TooLong && !self.line.ends_with(b"\n") {
            self.reader.skip_until(b'\n')?;
        }
        Ok(!self.line.is_empty())
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    match line.strip_suffix(b"\n") {
        Some(line) => line.strip_suffix(b"\r").unwrap_or(line),
        None => line,
    }
}

/// Returns a reader that decompresses compressed input.
fn plain(mut source: Watched, window_max: u64) -> io::Result<Box<dyn BufRead>> {
    let (mut start, mut length) = ([0; 4], 0);
    while length < start.len() {
        match source.read(&mut start[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    let is_zstd = start == ZSTD || start[0] & 0xf0 == ZSTD_SKIPPED[0] && start[1..] == ZSTD_SKIPPED[1..];
    let start = start[..length].to_vec();
    let source = BufReader::with_capacity(BUFFER, Cursor::new(start).chain(source));
    if !is_zstd {
        return Ok(Box::new(source));
    }
    let mut decoder = zstd::stream::read::Decoder::with_buffer(source)?;
    // zstd takes windows of 1 KiB to 2 GiB.
    decoder.window_log_max(window_max.max(1).ilog2().clamp(10, 31))?;
    Ok(Box::new(BufReader::with_capacity(BUFFER, decoder)))
}

/// Counts the bytes read, fails when the user asks to stop, and fails with `WouldBlock` when
/// nothing has come for a while.
struct Watched {
    source: Box<dyn Read>,
    advance: Box<dyn FnMut(u64) -> bool>,
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !(self.advance)(0) {
            return Err(io::Error::other("stopped"));
        }
        let read = self.source.read(buffer).map_err(|error| match error.kind() {
            // Line readers would retry at once, without a check for signals.
            io::ErrorKind::Interrupted => io::ErrorKind::WouldBlock.into(),
            _ => error,
        })?;
        (self.advance)(read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one byte at a time, with a pause before each.
    struct Halting(Cursor<Vec<u8>>, bool);

    impl Read for Halting {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            match self.1 {
                true => Err(io::ErrorKind::Interrupted.into()),
                false => self.0.read(&mut buffer[..1]),
            }
        }
    }

    /// Returns the lines of a text that arrives in pieces.
    fn lines(text: impl AsRef<[u8]>, bytes_max: u64) -> Vec<Option<Vec<u8>>> {
        let text = Cursor::new(text.as_ref().to_vec());
        let at_once = read(Box::new(text.clone()), bytes_max);
        assert_eq!(read(Box::new(Halting(text, false)), bytes_max), at_once);
        at_once
    }

    fn read(source: Box<dyn Read>, bytes_max: u64) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::of(source, bytes_max * 8, Box::new(|_| true)).unwrap();
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push(match line {
                Line::Whole(line) => Some(line.to_vec()),
                Line::TooLong { .. } => None,
                Line::Waiting => continue,
            });
        }
        assert_eq!(lines.number, found.len() as u64);
        found
    }

    #[test]
    fn a_line_may_be_as_long_as_it_may_be() {
        let whole = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(lines("", 4), []);
        assert_eq!(lines("1234", 4), [whole("1234")]);
        assert_eq!(lines("1234\n5678\r\n\n", 4), [whole("1234"), whole("5678"), whole("")]);
        for end in ["", "\n", "\r\n"] {
            for long in ["12345", "123456", "1234567", &"x".repeat(1000)] {
                let found = lines(format!("1\n{long}{end}"), 4);
                assert_eq!(found, [whole("1"), None], "{long}");
                assert_eq!(lines(format!("{long}\n1{end}"), 4), [None, whole("1")]);
            }
        }
    }

    #[test]
    fn zstd_files_are_known_by_their_first_bytes() {
        let text = "one\ntwo\n";
        let packed = zstd::stream::encode_all(text.as_bytes(), 3).unwrap();
        let expected = lines(text, 1 << 20);
        assert_eq!(lines(&packed, 1 << 20), expected);
        let skippable = [&[0x5e, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9][..], &packed, &packed].concat();
        assert_eq!(lines(skippable, 1 << 20), [expected.clone(), expected].concat());
    }
}
