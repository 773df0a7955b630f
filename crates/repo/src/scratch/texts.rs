//! Byte strings by number, in memory while they are few, and otherwise in a temporary file.

use super::{Array, Scratch};
use crate::Result;

/// Byte strings. Each has a number, which grows with every string that is added.
pub(crate) struct Texts {
    /// The length of each string, and its bytes in words.
    words: Array<u64>,
}

impl Texts {
    /// Returns an empty collection.
    pub(crate) fn new(scratch: &Scratch) -> Texts {
        Texts {
            words: Array::new(scratch),
        }
    }

    /// Adds a string; returns its number.
    pub(crate) fn add(&mut self, text: &[u8]) -> Result<u64> {
        let number = self.words.push(text.len() as u64)?;
        for part in text.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.words.push(u64::from_le_bytes(word))?;
        }
        Ok(number)
    }

    /// Returns a string, and the number of the one that was added next.
    ///
    /// # Panics
    ///
    /// If no string has this number.
    pub(crate) fn get(&mut self, number: u64) -> Result<(Vec<u8>, u64)> {
        let length = self.words.get(number)?;
        let end = number + 1 + length.div_ceil(8);
        let mut text = Vec::new();
        for at in number + 1..end {
            text.extend_from_slice(&self.words.get(at)?.to_le_bytes());
        }
        text.truncate(length as usize);
        Ok((text, end))
    }

    /// Passes all strings to `visit`, in the order in which they were added.
    pub(crate) fn each(&mut self, mut visit: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut number = 0;
        while number < self.words.len() {
            let (text, next) = self.get(number)?;
            visit(&text)?;
            number = next;
        }
        Ok(())
    }
}
