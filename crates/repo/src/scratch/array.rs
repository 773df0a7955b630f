//! Numbers by position, in memory while they are few, and otherwise in a temporary file.

use std::ops::Range;

use ibid_format::run::PAGE_PLAIN;

use super::Scratch;
use super::pages::{Pages, Plain};
use crate::Result;

/// What an array can hold. The default is zeros.
pub(crate) trait Element: Copy + Default {
    /// Bytes of an element.
    const WIDTH: usize;

    /// Reads an element from [`WIDTH`](Element::WIDTH) bytes.
    fn read(bytes: &[u8]) -> Self;

    /// Writes an element into [`WIDTH`](Element::WIDTH) bytes.
    fn write(self, bytes: &mut [u8]);
}

macro_rules! elements {
    ($($number:ty)*) => {$(
        impl Element for $number {
            const WIDTH: usize = size_of::<$number>();

            fn read(bytes: &[u8]) -> $number {
                <$number>::from_le_bytes(bytes.try_into().expect("an element's width"))
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

elements!(u32 u64 u128);

/// Elements by position. They are in memory while they take at most
/// [`IndexLimits::arrays`](crate::index::IndexLimits), and otherwise in a temporary file of which as
/// much is kept in memory.
pub(crate) struct Array<T> {
    scratch: Scratch,
    length: u64,
    elements: Elements<T>,
}

enum Elements<T> {
    Memory(Vec<T>),
    File(Pages),
}

/// Returns the page of an element, and where it begins there.
fn place<T: Element>(at: u64) -> (u64, usize) {
    let a_page = (PAGE_PLAIN / T::WIDTH) as u64;
    (at / a_page, (at % a_page) as usize * T::WIDTH)
}

impl<T: Element> Array<T> {
    /// Returns an array without elements.
    pub(crate) fn new(scratch: &Scratch) -> Array<T> {
        Array {
            scratch: scratch.clone(),
            length: 0,
            elements: Elements::Memory(Vec::new()),
        }
    }

    /// Returns an array of so many zeros.
    pub(crate) fn zeros(scratch: &Scratch, length: u64) -> Result<Array<T>> {
        let fits = length.saturating_mul(T::WIDTH as u64) <= scratch.limits.arrays;
        Ok(Array {
            scratch: scratch.clone(),
            length,
            elements: match fits {
                true => Elements::Memory(vec![T::default(); length as usize]),
                false => Elements::File(Pages::new(scratch, scratch.limits.arrays)?),
            },
        })
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// Returns the memory in use, bytes.
    pub(crate) fn memory(&self) -> u64 {
        match &self.elements {
            Elements::Memory(elements) => (elements.capacity() * size_of::<T>()) as u64,
            Elements::File(_) => self.scratch.limits.arrays,
        }
    }

    /// Returns the element at a position.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub(crate) fn get(&mut self, at: u64) -> Result<T> {
        assert!(at < self.length, "an array has no element beyond its end");
        match &mut self.elements {
            Elements::Memory(elements) => Ok(elements[at as usize]),
            Elements::File(pages) => {
                let (page, start) = place::<T>(at);
                Ok(T::read(&pages.read(page)?[start..start + T::WIDTH]))
            }
        }
    }

    /// Replaces the element at a position.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub(crate) fn set(&mut self, at: u64, element: T) -> Result<()> {
        assert!(at < self.length, "an array has no element beyond its end");
        match &mut self.elements {
            Elements::Memory(elements) => elements[at as usize] = element,
            Elements::File(pages) => put(pages, at, element)?,
        }
        Ok(())
    }

    /// Adds an element at the end; returns its position.
    pub(crate) fn push(&mut self, element: T) -> Result<u64> {
        let at = self.length;
        if let Elements::Memory(elements) = &mut self.elements {
            let most = (self.scratch.limits.arrays / T::WIDTH as u64) as usize;
            if elements.len() < most {
                if elements.len() == elements.capacity() {
                    let more = elements.len().max(64).min(most - elements.len());
                    elements.reserve_exact(more);
                }
                elements.push(element);
                self.length += 1;
                return Ok(at);
            }
            self.move_to_file()?;
        }
        if let Elements::File(pages) = &mut self.elements {
            put(pages, at, element)?;
        }
        self.length += 1;
        Ok(at)
    }

    fn move_to_file(&mut self) -> Result<()> {
        let mut pages = Pages::new(&self.scratch, self.scratch.limits.arrays)?;
        if let Elements::Memory(elements) = &self.elements {
            for (at, element) in (0..).zip(elements) {
                put(&mut pages, at, *element)?;
            }
        }
        self.elements = Elements::File(pages);
        Ok(())
    }

    /// Returns the first position whose element does not satisfy `is_before`, for an array in which
    /// all elements that satisfy it come first.
    pub(crate) fn partition_point(&mut self, is_before: impl Fn(T) -> bool) -> Result<u64> {
        self.partition_point_in(0..self.length, is_before)
    }

    /// Does the same among the elements at these positions.
    pub(crate) fn partition_point_in(&mut self, among: Range<u64>, is_before: impl Fn(T) -> bool) -> Result<u64> {
        let (mut low, mut high) = (among.start, among.end);
        while low < high {
            let middle = low + (high - low) / 2;
            match is_before(self.get(middle)?) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low)
    }
}

fn put<T: Element>(pages: &mut Pages, at: u64, element: T) -> Result<()> {
    let (page, start) = place::<T>(at);
    let plain: &mut Plain = pages.write(page)?;
    element.write(&mut plain[start..start + T::WIDTH]);
    Ok(())
}

/// A set of numbers below a limit, a bit for each.
pub(crate) struct Bits(Array<u64>);

impl Bits {
    /// Returns an empty set of numbers below `limit`.
    pub(crate) fn new(scratch: &Scratch, limit: u64) -> Result<Bits> {
        Ok(Bits(Array::zeros(scratch, limit.div_ceil(64))?))
    }

    /// Adds a number; returns whether it was not in the set.
    pub(crate) fn insert(&mut self, number: u64) -> Result<bool> {
        let word = self.0.get(number / 64)?;
        let bit = 1 << (number % 64);
        if word & bit != 0 {
            return Ok(false);
        }
        self.0.set(number / 64, word | bit)?;
        Ok(true)
    }

    /// Returns the numbers below the limit, rounded up, that are not in the set.
    pub(crate) fn complement(mut self) -> Result<Bits> {
        for at in 0..self.0.len() {
            let word = self.0.get(at)?;
            self.0.set(at, !word)?;
        }
        Ok(self)
    }

    /// Returns whether a number is in the set.
    pub(crate) fn contains(&mut self, number: u64) -> Result<bool> {
        Ok(self.0.get(number / 64)? >> (number % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check<T: Element + PartialEq + std::fmt::Debug>(
        length: u64,
        steps: &[(u64, u32)],
        make: impl Fn(u32) -> T,
    ) -> std::result::Result<(), TestCaseError> {
        let folder = tempfile::tempdir().unwrap();
        let tiny = Scratch::tiny(folder.path());
        let mut large = tiny.clone();
        large.limits.arrays = u64::MAX;
        let mut in_file = Array::<T>::zeros(&tiny, length).unwrap();
        let mut in_memory = Array::<T>::zeros(&large, length).unwrap();
        for &(at, value) in steps {
            let value = make(value);
            if at % 3 == 0 || in_memory.len() == 0 {
                prop_assert_eq!(in_file.push(value).unwrap(), in_memory.push(value).unwrap());
                continue;
            }
            let at = at % in_memory.len();
            prop_assert_eq!(in_file.get(at).unwrap(), in_memory.get(at).unwrap());
            in_file.set(at, value).unwrap();
            in_memory.set(at, value).unwrap();
        }
        prop_assert_eq!(in_file.len(), in_memory.len());
        for at in 0..in_memory.len() {
            prop_assert_eq!(in_file.get(at).unwrap(), in_memory.get(at).unwrap());
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Elements of each width, in an array that begins in a file and in one that moves there.
        #[test]
        fn an_array_in_a_file_is_the_same_as_one_in_memory(
            begins_in_file in any::<bool>(),
            steps in prop::collection::vec((any::<u64>(), any::<u32>()), 1..3000),
        ) {
            let length = if begins_in_file { 40_000 } else { 0 };
            check::<u32>(length, &steps, |value| value)?;
            check::<u64>(length, &steps, |value| u64::from(value) << 20)?;
            check::<u128>(length, &steps, |value| u128::from(value) << 90 | 7)?;
        }
    }

    #[test]
    fn bits_in_a_file_are_those_that_were_set() {
        let folder = tempfile::tempdir().unwrap();
        let mut bits = Bits::new(&Scratch::tiny(folder.path()), 5_000_000).unwrap();
        assert!(matches!(bits.0.elements, Elements::File(_)));
        for n in 0..5000 {
            assert!(bits.insert(n * 991).unwrap());
            assert!(!bits.insert(n * 991).unwrap());
        }
        for n in 0..5_000_000 {
            assert_eq!(bits.contains(n).unwrap(), n % 991 == 0 && n < 5000 * 991, "{n}");
        }
    }

    #[test]
    fn a_partition_point_is_found_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut array = Array::<u64>::zeros(&Scratch::tiny(folder.path()), 0).unwrap();
        assert_eq!(array.partition_point(|_| true).unwrap(), 0);
        for n in 0..10_000 {
            array.push(n * 2).unwrap();
        }
        for n in [0, 1, 2, 9999, 10_000, 19_998, 19_999, 30_000] {
            assert_eq!(
                array.partition_point(|other| other < n).unwrap(),
                n.div_ceil(2).min(10_000)
            );
        }
    }
}
