//! The chunks of data that arrives in pieces.

use alloc::vec::Vec;

use crate::Chunker;

/// A chunker that is fed pieces of any size and hands out chunks as they become certain.
///
/// The chunks depend on the bytes alone, not on how they were divided into pieces. A piece is cut
/// in place, unless a chunk began in an earlier piece. Bytes that have to wait for the next piece
/// are copied, once or twice, into a buffer that stays below three times the maximum chunk size.
///
/// ```
/// use ibid_chunk::{Chunker, Pusher, Settings};
/// use core::convert::Infallible;
///
/// let chunker = Chunker::new(&Settings::for_average("fixed", 64)?)?;
/// let mut lengths = Vec::new();
/// let mut note = |chunk: &[u8]| Ok::<(), Infallible>(lengths.push(chunk.len()));
/// let mut pusher = Pusher::new(&chunker);
/// for piece in [&[1; 50], &[2; 50], &[3; 50]] {
///     pusher.push(piece, &mut note).unwrap();
/// }
/// pusher.finish(&mut note).unwrap();
/// assert_eq!(lengths, [64, 64, 22]);
/// # Ok::<(), ibid_chunk::SettingsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pusher {
    chunker: Chunker,
    /// Bytes not yet in a chunk are `held[start..]`; between calls fewer than `size_max`.
    held: Vec<u8>,
    /// Fewer than `size_max` between calls.
    start: usize,
}

impl Pusher {
    /// Returns a pusher at the start of an input.
    #[must_use]
    pub fn new(chunker: &Chunker) -> Pusher {
        Pusher {
            chunker: chunker.clone(),
            held: Vec::new(),
            start: 0,
        }
    }

    /// Returns how many pushed bytes are in no chunk yet: fewer than the maximum chunk size.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.held.len() - self.start
    }

    /// Takes the next piece of the input and calls `take` with every chunk that it completes.
    ///
    /// # Errors
    /// The error of `take`. It ends the input: the pusher drops it and is ready for another.
    pub fn push<E>(&mut self, piece: &[u8], mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let result = self.push_piece(piece, &mut take);
        if result.is_err() {
            self.forget();
        }
        result
    }

    fn push_piece<E>(&mut self, piece: &[u8], take: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let size_max = self.chunker.size_max();
        let mut piece = piece;
        if self.pending() > 0 {
            // Enough to decide every chunk that starts among the bytes held.
            let old = self.held.len();
            let lent = piece.len().min(size_max);
            self.held.extend_from_slice(&piece[..lent]);
            while self.start < old && self.pending() >= size_max {
                let waiting = &self.held[self.start..];
                let chunk = &waiting[..self.chunker.cut(waiting)];
                self.start += chunk.len();
                take(chunk)?;
            }
            if self.start < old {
                // The piece is used up, or it would have been enough. The rest is moved only after
                // as many bytes have gone, so every byte moves at most once.
                if self.start >= size_max {
                    self.held.drain(..self.start);
                    self.start = 0;
                }
                return Ok(());
            }
            piece = &piece[self.start - old..];
            self.forget();
        }
        loop {
            let (chunk, rest) = piece.split_at(self.chunker.cut(piece));
            if rest.is_empty() && chunk.len() < size_max {
                // Not final.
                break;
            }
            take(chunk)?;
            piece = rest;
        }
        self.held.extend_from_slice(piece);
        Ok(())
    }

    /// Ends the input: calls `take` with the chunks that were held back. The pusher is then ready
    /// for another input.
    ///
    /// # Errors
    /// The error of `take`. The pusher drops the input.
    pub fn finish<E>(&mut self, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let result = crate::chunks(&self.chunker, &self.held[self.start..]).try_for_each(&mut take);
        self.forget();
        result
    }

    fn forget(&mut self) {
        self.held.clear();
        self.start = 0;
    }
}
