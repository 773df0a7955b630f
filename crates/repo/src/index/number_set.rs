//! Sets of numbers.

/// A set of frames or packs, by their numbers in the index: a bit for each number up to the largest, which
/// is 1 MiB of memory for 8 TiB of data in frames of 1 MiB.
#[derive(Default)]
pub(crate) struct NumberSet {
    words: Vec<u64>,
    is_any: bool,
}

impl NumberSet {
    /// Adds a number; returns whether it was not in the set.
    pub(crate) fn insert(&mut self, number: u32) -> bool {
        let word = number as usize / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let bit = 1 << (number % 64);
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.is_any = true;
        is_new
    }

    /// Removes a number, if it is there.
    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(word) = self.words.get_mut(number as usize / 64) {
            *word &= !(1 << (number % 64));
        }
    }

    /// Returns whether a number is in the set.
    pub(crate) fn contains(&self, number: u32) -> bool {
        let word = self.words.get(number as usize / 64);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Returns whether there are no numbers.
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_any
    }

    /// Returns the numbers, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let of_word = |(number, &word): (u32, &u64)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(number * 64 + bit)
            })
        };
        (0..).zip(&self.words).flat_map(of_word)
    }

    /// Returns the memory in use, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_numbers_that_were_inserted_in_order() {
        let mut set = NumberSet::default();
        assert!(set.is_empty() && set.iter().next().is_none() && !set.contains(7));
        for frame in [700, 0, 63, 64, 100_000] {
            assert!(set.insert(frame), "{frame} is new");
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 700, 100_000]);
        assert!(set.contains(64) && !set.contains(65) && !set.contains(1 << 30));
        assert!(!set.insert(700), "it is there");
    }
}
