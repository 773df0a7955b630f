//! The chunks of a reader's data.

use std::io::{self, ErrorKind, Read};

use crate::Chunker;

/// Cuts the data of a reader into chunks, lent one after another from one buffer.
///
/// The chunks depend on the bytes alone, not on how the reader divides them. Reads that were
/// interrupted are repeated. After any other error nothing is lost: the next call goes on where the
/// reader stopped.
///
/// ```
/// use ibid_chunk::{Chunker, Settings, Stream};
///
/// let chunker = Chunker::new(&Settings::for_average("fixed", 64)?)?;
/// let mut stream = Stream::new(&chunker, &[7u8; 150][..]);
/// let mut lengths = Vec::new();
/// while let Some(chunk) = stream.next_chunk()? {
///     lengths.push(chunk.len());
/// }
/// assert_eq!(lengths, [64, 64, 22]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Stream<R> {
    chunker: Chunker,
    reader: R,
    buffer: Box<[u8]>,
    /// The bytes read and not yet lent are `buffer[start..end]`.
    start: usize,
    end: usize,
    reader_ended: bool,
    offset: u64,
}

impl<R: Read> Stream<R> {
    /// Returns a stream with a buffer of twice the maximum chunk size.
    pub fn new(chunker: &Chunker, reader: R) -> Stream<R> {
        Stream::with_buffer_size(chunker, reader, 2 * chunker.size_max())
    }

    /// Returns a stream with a buffer of `size` bytes, or of the maximum chunk size if that is
    /// more. A larger buffer moves fewer bytes within itself.
    pub fn with_buffer_size(chunker: &Chunker, reader: R, size: usize) -> Stream<R> {
        let buffer = vec![0; size.max(chunker.size_max())].into_boxed_slice();
        Stream {
            chunker: chunker.clone(),
            reader,
            buffer,
            start: 0,
            end: 0,
            reader_ended: false,
            offset: 0,
        }
    }

    /// Returns the next chunk, or `None` after the last.
    ///
    /// # Errors
    /// The errors of the reader, except [`ErrorKind::Interrupted`].
    pub fn next_chunk(&mut self) -> io::Result<Option<&[u8]>> {
        let mut len = self.chunker.cut(&self.buffer[self.start..self.end]);
        if self.start + len == self.end && len < self.chunker.size_max() && !self.reader_ended {
            // The cut is not final: read on.
            self.fill()?;
            len = self.chunker.cut(&self.buffer[self.start..self.end]);
        }
        if len == 0 {
            return Ok(None);
        }
        let chunk = self.start..self.start + len;
        self.start += len;
        self.offset += len as u64;
        Ok(Some(&self.buffer[chunk]))
    }

    /// Appends the next chunk to `into` and returns its length, 0 after the last.
    ///
    /// # Errors
    /// Those of [`Stream::next_chunk`]. Nothing is appended then.
    pub fn next_chunk_into(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        let Some(chunk) = self.next_chunk()? else {
            return Ok(0);
        };
        into.extend_from_slice(chunk);
        Ok(chunk.len())
    }

    /// Reads until the buffer surely holds a whole chunk, or the rest of the input.
    fn fill(&mut self) -> io::Result<()> {
        let size_max = self.chunker.size_max();
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < size_max {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.reader_ended = true;
                    break;
                }
                Ok(len) => self.end += len,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl<R> Stream<R> {
    /// Returns the number of bytes lent so far: the offset of the next chunk in the input.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the reader. It may have been read further than [`Stream::offset`].
    #[must_use]
    pub fn into_reader(self) -> R {
        self.reader
    }
}
