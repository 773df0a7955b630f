//! Pages of entries: short ids in order, each with a number.

use super::{PAGE_PLAIN, ShortId};
use crate::Error;
use crate::error::{equal, in_range};

/// Most bits of an entry's number.
pub const VALUE_BITS_MAX: u32 = 61;
/// Count, widths, shift and base.
const HEAD: usize = 21;
const ROOM: usize = PAGE_PLAIN - HEAD;
/// Most entries that a page can count.
const COUNT_MAX: usize = u16::MAX as usize;
/// Bytes after the entries, so that any of them can be read as whole words.
const SLACK: usize = 24;

/// Gathers sorted entries into pages.
///
/// Ids of a page share their leading bits, so each is kept as its distance to the first, in as many
/// bits as the last one needs. Bits that are zero at the end of all distances are left out.
#[derive(Debug)]
pub struct EntryPageBuilder {
    value_bits: u32,
    entries: Vec<(ShortId, u64)>,
    /// All distances in the page, one upon another.
    distances: u128,
}

impl EntryPageBuilder {
    /// Returns a builder for numbers of at most `value_bits` bits.
    ///
    /// # Panics
    ///
    /// If that is more than [`VALUE_BITS_MAX`].
    pub fn new(value_bits: u32) -> EntryPageBuilder {
        assert!(
            value_bits <= VALUE_BITS_MAX,
            "a number has {VALUE_BITS_MAX} bits at most"
        );
        EntryPageBuilder {
            value_bits,
            entries: Vec::new(),
            distances: 0,
        }
    }

    /// Adds an entry. If the page had no room for it, first appends that page's plaintext to `out`, and
    /// returns the page's first id.
    ///
    /// # Panics
    ///
    /// If the id is smaller than the last one, or the number too large.
    pub fn push(&mut self, id: ShortId, value: u64, out: &mut Vec<u8>) -> Option<ShortId> {
        assert!(value >> self.value_bits == 0, "the number has too many bits");
        let mut full = None;
        if let (Some((first, _)), Some((last, _))) = (self.entries.first(), self.entries.last()) {
            assert!(*last <= id, "entries ascend");
            let distances = self.distances | (id.0 - first.0);
            let bits = (self.entries.len() + 1) * (width(distances) + self.value_bits) as usize;
            // Equal ids with numbers of no bits take no room.
            match bits > ROOM * 8 || self.entries.len() == COUNT_MAX {
                true => full = self.finish(out),
                false => self.distances = distances,
            }
        }
        self.entries.push((id, value));
        full
    }

    /// Appends the plaintext of the last page to `out` and returns the page's first id; `None` if
    /// there are no entries.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Option<ShortId> {
        let first = self.entries.first()?.0;
        let distances = std::mem::take(&mut self.distances);
        let (width, shift) = (width(distances), shift(distances));
        let start = out.len();
        out.extend_from_slice(&(self.entries.len() as u16).to_le_bytes());
        out.extend_from_slice(&[width as u8, shift as u8, self.value_bits as u8]);
        out.extend_from_slice(&first.0.to_be_bytes());
        let (mut held, mut bits) = (0u128, 0u32);
        let mut put = |mut value: u128, mut count: u32| {
            while count > 0 {
                let take = count.min(64);
                held |= (value & ((1 << take) - 1)) << bits;
                bits += take;
                while bits >= 8 {
                    out.push(held as u8);
                    held >>= 8;
                    bits -= 8;
                }
                value = value.checked_shr(take).unwrap_or(0);
                count -= take;
            }
        };
        for (id, value) in self.entries.drain(..) {
            put((id.0 - first.0) >> shift, width);
            put(value.into(), self.value_bits);
        }
        put(0, 7);
        out.resize(start + PAGE_PLAIN, 0);
        Some(first)
    }
}

/// Returns the number of bits that are zero at the end of all distances.
fn shift(distances: u128) -> u32 {
    distances.trailing_zeros() % 128
}

/// Returns the number of bits between those that are zero in all distances.
fn width(distances: u128) -> u32 {
    128 - distances.leading_zeros() - shift(distances)
}

/// A page of entries.
///
/// ```
/// use ibid_format::run::{EntryPage, EntryPageBuilder, ShortId};
///
/// let mut builder = EntryPageBuilder::new(24);
/// let mut plain = Vec::new();
/// for n in 0..100u64 {
///     assert_eq!(builder.push(ShortId(u128::from(n) << 100), n * n, &mut plain), None, "there is room");
/// }
/// builder.finish(&mut plain);
/// let page = EntryPage::read(&plain)?;
/// let found: Vec<u64> = page.find(ShortId(7 << 100), ShortId(8 << 100)).map(|(_, value)| value).collect();
/// assert_eq!(found, [49, 64]);
/// # Ok::<(), ibid_format::Error>(())
/// ```
#[derive(Clone)]
pub struct EntryPage {
    base: u128,
    count: u16,
    width: u8,
    shift: u8,
    value_bits: u8,
    bits: Box<[u8]>,
}

impl EntryPage {
    /// Memory of a page, bytes.
    pub const MEMORY: usize = ROOM + SLACK + size_of::<EntryPage>() + 16;

    /// Reads a page's plaintext.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`] for another length, [`Error::OutOfRange`] for widths or a count that no page
    /// has.
    pub fn read(plain: &[u8]) -> Result<EntryPage, Error> {
        equal("page of a run", PAGE_PLAIN as u64, plain.len() as u64)?;
        let count = u16::from_le_bytes([plain[0], plain[1]]);
        let (width, shift, value_bits) = (plain[2], plain[3], plain[4]);
        in_range("id width of a run's page", u64::from(width) + u64::from(shift), 0, 128)?;
        in_range(
            "number width of a run's page",
            value_bits.into(),
            0,
            VALUE_BITS_MAX.into(),
        )?;
        let bits = u64::from(count) * (u64::from(width) + u64::from(value_bits));
        in_range("entries of a run's page", bits, 0, ROOM as u64 * 8)?;
        let mut base = [0; 16];
        base.copy_from_slice(&plain[5..HEAD]);
        let mut padded = Vec::with_capacity(ROOM + SLACK);
        padded.extend_from_slice(&plain[HEAD..]);
        padded.resize(ROOM + SLACK, 0);
        Ok(EntryPage {
            base: u128::from_be_bytes(base),
            count,
            width,
            shift: shift % 128,
            value_bits,
            bits: padded.into_boxed_slice(),
        })
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.count.into()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns `count` bits, at most 128, from a position.
    fn bits(&self, at: usize, count: u8) -> u128 {
        let (byte, shift) = (at / 8, at % 8);
        let word = |at: usize| {
            let bytes: [u8; 16] = self.bits[at..at + 16].try_into().expect("there is slack");
            u128::from_le_bytes(bytes)
        };
        let mut found = word(byte) >> shift;
        if shift + usize::from(count) > 128 {
            found |= u128::from(self.bits[byte + 16]) << (128 - shift);
        }
        match count {
            128 => found,
            count => found & ((1 << count) - 1),
        }
    }

    fn stride(&self) -> usize {
        usize::from(self.width) + usize::from(self.value_bits)
    }

    fn id(&self, number: usize) -> ShortId {
        let distance = self.bits(number * self.stride(), self.width) << self.shift;
        // A page that was not written by us may hold any distance.
        ShortId(self.base.wrapping_add(distance))
    }

    fn value(&self, number: usize) -> u64 {
        let at = number * self.stride() + usize::from(self.width);
        self.bits(at, self.value_bits) as u64
    }

    /// Returns the entry at a position, which must be below [`len`](EntryPage::len).
    pub fn entry(&self, position: usize) -> (ShortId, u64) {
        (self.id(position), self.value(position))
    }

    /// Returns the entries, ascending by id.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (ShortId, u64)> + '_ {
        (0..self.len()).map(|number| self.entry(number))
    }

    /// Returns the entries with ids from `first` to `last`, both included.
    pub fn find(&self, first: ShortId, last: ShortId) -> impl Iterator<Item = (ShortId, u64)> + '_ {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.id(middle) < first {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (low..self.len())
            .map(|number| (self.id(number), number))
            .take_while(move |(id, _)| *id <= last)
            .map(|(id, number)| (id, self.value(number)))
    }
}

impl std::fmt::Debug for EntryPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EntryPage")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}
