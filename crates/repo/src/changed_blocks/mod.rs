//! Maps of changed blocks: which bytes of an image may have changed since a snapshot.
//!
//! A map is read as a stream and takes at most [`RANGES_MAX`] ranges of memory, however large its
//! file is: if it has more, ranges close to each other become one. A range that is too long only
//! costs reading.

mod error;
mod extents;
mod text;

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::ops::Range;

pub use error::ChangedBlocksError;

type Result<T, E = crate::Error> = std::result::Result<T, E>;

/// Ranges are extended to multiples of this, bytes: the size of a file system's blocks.
const GRANULE_MIN: u64 = 4096;
/// Most ranges of a map.
const RANGES_MAX: usize = 1 << 20;
/// Most bytes that an image can have.
const OFFSET_MAX: u64 = i64::MAX as u64;
/// Size of a sector, bytes. The programs that keep dirty bitmaps round sizes of images up to it.
const SECTOR: u64 = 512;

/// The bytes of an image that may have changed since a snapshot, for
/// [`BackupOptions::changed_blocks`](crate::BackupOptions#structfield.changed_blocks).
///
/// ```
/// use ibid_repo::ChangedBlocks;
///
/// let map = ChangedBlocks::read(&b"# offset length\n65536 100\n1048576 65536\n"[..])?;
/// assert_eq!(map.ranges().collect::<Vec<_>>(), [65_536..69_632, 1_048_576..1_114_112]);
/// # Ok::<(), ibid_repo::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedBlocks {
    /// Ascending, and not adjacent.
    pub(crate) ranges: Vec<Range<u64>>,
    /// Beginning of the id of the snapshot that it is relative to, if it says so.
    pub(crate) parent: Option<String>,
    /// Size of the image that it describes, bytes, if it says so.
    pub(crate) size: Option<u64>,
}

impl ChangedBlocks {
    /// Returns a map of these ranges, bytes, in any order.
    ///
    /// # Errors
    /// [`ChangedBlocksError::TooFar`] for a range that ends beyond 2^63 bytes.
    pub fn new(ranges: impl IntoIterator<Item = Range<u64>>) -> Result<ChangedBlocks> {
        let mut collected = Ranges::default();
        for (range, number) in ranges.into_iter().zip(1..) {
            let length = range.end.saturating_sub(range.start);
            collected.add(range.start, length, &|| format!("range {number}"))?;
        }
        Ok(ChangedBlocks {
            ranges: collected.finish(),
            parent: None,
            size: None,
        })
    }

    /// Reads a map, in one of three forms:
    ///
    /// - Lines `OFFSET LENGTH`, decimal numbers of bytes, in any order; they may overlap. Blank lines
    ///   and lines that start with `#` are ignored. A line `parent ID` gives the snapshot that the
    ///   map is relative to, by at least 8 digits of its id; a line `size BYTES` the size of the
    ///   image. The line `end` ends the map, and shows that it is whole. A map without ranges must
    ///   have it.
    /// - The JSON of `nbdinfo --map=qemu:dirty-bitmap:NAME --json`.
    /// - The JSON of `qemu-img map --output=json` for an NBD server opened with `x-dirty-bitmap`.
    ///
    /// # Errors
    /// [`Error::ChangedBlocks`](crate::Error::ChangedBlocks): the input can't be read, is in another
    /// form, or contradicts itself.
    pub fn read(input: impl Read) -> Result<ChangedBlocks> {
        let mut input = BufReader::with_capacity(64 << 10, input);
        let map = match first_byte(&mut input)? {
            Some(b'[') => extents::read(input)?,
            _ => text::read(input)?,
        };
        Ok(map)
    }

    /// Returns the ranges: ascending, not adjacent, and extended to multiples of 4 KiB or, in a map
    /// of more than a million ranges, of more.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().cloned()
    }

    /// Returns the sum of their lengths, bytes.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// Checks that the map can describe an image of `size` bytes, which was or is `longest` bytes
    /// long at most.
    pub(crate) fn check(&self, size: u64, longest: u64) -> Result<(), ChangedBlocksError> {
        if let Some(expected) = self.size
            && expected != size
            && Some(expected) != size.checked_next_multiple_of(SECTOR)
        {
            return Err(ChangedBlocksError::OtherSize { expected, found: size });
        }
        // The last range may end beyond it: blocks of a map are larger than sectors.
        match self.ranges.last() {
            Some(range) if range.start >= longest => Err(ChangedBlocksError::BeyondTheEnd {
                offset: range.start,
                size: longest,
            }),
            _ => Ok(()),
        }
    }
}

/// Returns the first byte that is no white space, if it arrives with the first bytes. Consumes
/// nothing.
fn first_byte(input: &mut impl BufRead) -> Result<Option<u8>, ChangedBlocksError> {
    Ok(buffered(input)?
        .iter()
        .copied()
        .find(|byte| !byte.is_ascii_whitespace()))
}

/// Returns the next bytes; none at the end.
fn buffered(input: &mut impl BufRead) -> Result<&[u8], ChangedBlocksError> {
    loop {
        match input.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(ChangedBlocksError::Unreadable { source }),
            // Asked again because a borrow can't leave the loop.
            Ok(_) => break,
        }
    }
    input
        .fill_buf()
        .map_err(|source| ChangedBlocksError::Unreadable { source })
}

/// Returns the beginning of what was found in place of something else, for a message.
fn excerpt(found: &[u8]) -> String {
    const MOST: usize = 60;
    let text = String::from_utf8_lossy(&found[..found.len().min(MOST)]).into_owned();
    if found.len() > MOST { text + "…" } else { text }
}

/// Collects ranges in bounded memory.
struct Ranges {
    /// In order and not adjacent up to the last [`compact`](Ranges::compact).
    ranges: Vec<Range<u64>>,
    granule: u64,
}

impl Default for Ranges {
    fn default() -> Ranges {
        Ranges {
            ranges: Vec::new(),
            granule: GRANULE_MIN,
        }
    }
}

impl Ranges {
    /// Adds a range. `place` says where it was found.
    fn add(&mut self, offset: u64, length: u64, place: &dyn Fn() -> String) -> Result<(), ChangedBlocksError> {
        let end = offset.checked_add(length).filter(|end| *end <= OFFSET_MAX);
        let Some(end) = end else {
            return Err(ChangedBlocksError::TooFar {
                place: place(),
                offset,
                length,
            });
        };
        if length == 0 {
            return Ok(());
        }
        let range = self.extended(offset..end);
        match self.ranges.last_mut() {
            Some(last) if last.start <= range.start && range.start <= last.end => last.end = last.end.max(range.end),
            _ => self.ranges.push(range),
        }
        if self.ranges.len() >= 2 * RANGES_MAX {
            self.compact(RANGES_MAX);
        }
        Ok(())
    }

    fn extended(&self, range: Range<u64>) -> Range<u64> {
        range.start - range.start % self.granule..range.end.next_multiple_of(self.granule)
    }

    /// Joins ranges that overlap or touch; then neighbours, until there are at most `most`.
    fn compact(&mut self, most: usize) {
        self.ranges.sort_unstable_by_key(|range| range.start);
        loop {
            self.ranges.dedup_by(|next, last| {
                let joins = next.start <= last.end;
                if joins {
                    last.end = last.end.max(next.end);
                }
                joins
            });
            if self.ranges.len() <= most {
                return;
            }
            self.granule *= 2;
            for at in 0..self.ranges.len() {
                self.ranges[at] = self.extended(self.ranges[at].clone());
            }
        }
    }

    fn finish(mut self) -> Vec<Range<u64>> {
        self.compact(RANGES_MAX);
        self.ranges.shrink_to_fit();
        self.ranges
    }
}

#[cfg(test)]
mod tests;
