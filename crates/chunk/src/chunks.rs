//! The chunks of data in memory.

use core::iter::FusedIterator;

use crate::Chunker;

/// Returns the chunks of `data`, in order; together they are `data`.
///
/// ```
/// use ibid_chunk::{Chunker, Settings, chunks};
///
/// let chunker = Chunker::new(&Settings::for_average("fixed", 64)?)?;
/// let data = [7; 150];
/// let lengths: Vec<usize> = chunks(&chunker, &data).map(<[u8]>::len).collect();
/// assert_eq!(lengths, [64, 64, 22]);
/// # Ok::<(), ibid_chunk::SettingsError>(())
/// ```
pub fn chunks<'a>(chunker: &'a Chunker, data: &'a [u8]) -> Chunks<'a> {
    Chunks { chunker, data }
}

/// The iterator that [`chunks`] returns.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    chunker: &'a Chunker,
    data: &'a [u8],
}

impl<'a> Chunks<'a> {
    /// Yields each chunk with its offset, in bytes from where this iterator stands.
    ///
    /// ```
    /// use ibid_chunk::{Chunker, Settings, chunks};
    ///
    /// let chunker = Chunker::new(&Settings::for_average("fixed", 64)?)?;
    /// let data = [7; 150];
    /// let last = chunks(&chunker, &data).with_offsets().last();
    /// assert_eq!(last, Some((128, &[7; 22][..])));
    /// # Ok::<(), ibid_chunk::SettingsError>(())
    /// ```
    #[must_use]
    pub fn with_offsets(self) -> ChunksWithOffsets<'a> {
        ChunksWithOffsets {
            chunks: self,
            offset: 0,
        }
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.data.is_empty() {
            return None;
        }
        let (chunk, rest) = self.data.split_at(self.chunker.cut(self.data));
        self.data = rest;
        Some(chunk)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let settings = self.chunker.settings();
        let left = self.data.len();
        (
            left.div_ceil(settings.size_max()),
            Some(left.div_ceil(settings.size_min())),
        )
    }
}

impl FusedIterator for Chunks<'_> {}

/// The iterator that [`Chunks::with_offsets`] returns.
#[derive(Clone, Debug)]
pub struct ChunksWithOffsets<'a> {
    chunks: Chunks<'a>,
    offset: usize,
}

impl<'a> Iterator for ChunksWithOffsets<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<(usize, &'a [u8])> {
        let chunk = self.chunks.next()?;
        let offset = self.offset;
        self.offset += chunk.len();
        Some((offset, chunk))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.chunks.size_hint()
    }
}

impl FusedIterator for ChunksWithOffsets<'_> {}
