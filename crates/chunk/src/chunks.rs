//! Chunks of data that is all in memory.

use core::iter::FusedIterator;

use crate::Chunker;

/// The chunks of `data`, in order; together they are `data`.
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
