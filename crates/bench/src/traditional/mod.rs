//! Traditional deduplication, as for files: each record is cut into chunks, and a chunk that is in
//! the index is not stored again (dDedup §2.2).
//!
//! This is the rival of the paper's figures 1 and 9. Chunks are appended to one sequence of bytes,
//! the line. Adjacent chunks of a record make one [`Stretch`], so that references take as few bytes
//! as possible. The caller stores the line.

mod rabin;

use std::collections::HashMap;

use ibid_format::wire::{self, Reader};
use rabin::Rabin;
use sha1::{Digest, Sha1};

/// A SHA-1 digest.
type Name = [u8; 20];
/// A place in the line, with 40 bits of position and 24 of length, without alignment.
type Place = [u8; 8];
const LENGTH_BITS: u32 = 24;

/// Consecutive bytes of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The offset of the first byte in the line.
    pub position: u64,
    /// The length, bytes.
    pub length: u64,
}

impl Stretch {
    /// Returns the offset after the last byte.
    #[must_use]
    pub fn end(self) -> u64 {
        self.position + self.length
    }

    /// Returns the form in the index; none beyond 1 TiB of line or 16 MiB of chunk.
    fn place(self) -> Option<Place> {
        let fits = self.position >> (u64::BITS - LENGTH_BITS) == 0 && self.length >> LENGTH_BITS == 0;
        fits.then(|| (self.position << LENGTH_BITS | self.length).to_le_bytes())
    }

    fn at(place: Place) -> Stretch {
        let place = u64::from_le_bytes(place);
        Stretch {
            position: place >> LENGTH_BITS,
            length: place & ((1 << LENGTH_BITS) - 1),
        }
    }
}

/// An index of chunks by their SHA-1.
///
/// ```
/// use ibid_bench::traditional::{ChunkIndex, Stretch};
///
/// let (mut index, mut line) = (ChunkIndex::new(64), Vec::new());
/// let mut store = |body: &[u8]| {
///     index.store(body, |chunk| {
///         line.extend_from_slice(chunk);
///         Stretch { position: (line.len() - chunk.len()) as u64, length: chunk.len() as u64 }
///     })
/// };
/// let text: String = (0..500).map(|number| format!("line {number}\n")).collect();
/// let first = store(text.as_bytes());
/// assert_eq!(first, [Stretch { position: 0, length: text.len() as u64 }]);
/// assert_eq!(store(text.as_bytes()), first);
/// assert_eq!(line, text.as_bytes());
/// ```
#[derive(Debug)]
pub struct ChunkIndex {
    rabin: Rabin,
    places: HashMap<Name, Place>,
}

impl ChunkIndex {
    /// Returns an index for chunks of `average` bytes on average, a power of two, and at most
    /// sixteen times that. Rabin's fingerprint of 48 bytes decides where they end.
    #[must_use]
    pub fn new(average: usize) -> ChunkIndex {
        ChunkIndex {
            rabin: Rabin::new(average),
            places: HashMap::new(),
        }
    }

    /// Returns where the chunks of a record are in the line. Calls `append` with each new chunk; it
    /// adds the chunk to the end of the line and returns its place.
    pub fn store(&mut self, body: &[u8], mut append: impl FnMut(&[u8]) -> Stretch) -> Vec<Stretch> {
        let mut stretches = Vec::new();
        for chunk in self.rabin.chunks(body) {
            let name: Name = Sha1::digest(chunk).into();
            let stretch = match self.places.get(&name) {
                Some(place) => Stretch::at(*place),
                None => {
                    let stretch = append(chunk);
                    // A chunk whose place the index can't hold is stored again next time.
                    if let Some(place) = stretch.place() {
                        self.places.insert(name, place);
                    }
                    stretch
                }
            };
            push(&mut stretches, stretch);
        }
        stretches
    }

    /// Returns the number of different chunks.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.places.len() as u64
    }

    /// Returns the memory of their names and places, 28 bytes each, without the free slots of a
    /// hash table.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.entries() * (size_of::<Name>() + size_of::<Place>()) as u64
    }
}

/// Appends a stretch to a list, or extends the last one if they are adjacent.
fn push(stretches: &mut Vec<Stretch>, next: Stretch) {
    match stretches.last_mut() {
        Some(last) if last.end() == next.position => last.length += next.length,
        _ => stretches.push(next),
    }
}

/// Encodes a list of stretches, a record's recipe: for each, the distance from the end of the one
/// before, and its length.
#[must_use]
pub fn encode(stretches: &[Stretch]) -> Vec<u8> {
    let (mut out, mut end) = (Vec::new(), 0);
    for stretch in stretches {
        wire::put_zigzag(&mut out, stretch.position.wrapping_sub(end) as i64);
        wire::put_varint(&mut out, stretch.length);
        end = stretch.end();
    }
    out
}

/// Decodes a recipe that [`encode`] wrote.
///
/// # Errors
/// [`OutOfRange`](ibid_format::Error::OutOfRange) for a stretch that begins before the line or ends
/// beyond 64 bits; other errors of the format.
pub fn decode(recipe: &[u8]) -> Result<Vec<Stretch>, ibid_format::Error> {
    let (mut reader, mut stretches, mut end) = (Reader::new(recipe), Vec::new(), 0u64);
    let outside = |field, max, found| ibid_format::Error::OutOfRange {
        field,
        min: 0,
        max,
        found,
    };
    while reader.remaining() > 0 {
        let distance = reader.zigzag("distance of a stretch")?;
        let position = end.checked_add_signed(distance);
        let position = position.ok_or_else(|| outside("distance of a stretch", end, distance.unsigned_abs()))?;
        let length = reader.varint("length of a stretch")?;
        let too_long = || outside("length of a stretch", u64::MAX - position, length);
        end = position.checked_add(length).ok_or_else(too_long)?;
        stretches.push(Stretch { position, length });
    }
    Ok(stretches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(position: u64, length: u64) -> Stretch {
        Stretch { position, length }
    }

    #[test]
    fn stretches_that_follow_each_other_are_one() {
        let mut list = Vec::new();
        for next in [
            stretch(500, 10),
            stretch(510, 20),
            stretch(0, 3),
            stretch(3, 1),
            stretch(500, 10),
        ] {
            push(&mut list, next);
        }
        assert_eq!(list, [stretch(500, 30), stretch(0, 4), stretch(500, 10)]);
        let recipe = encode(&list);
        assert_eq!(recipe.len(), 3 + 3 + 3);
        assert_eq!(decode(&recipe).unwrap(), list);
        assert!(decode(&recipe[..2]).is_err());
        assert!(decode(&[1, 1]).is_err(), "one byte before the line");
    }

    #[test]
    fn the_index_says_what_fits_into_eight_bytes() {
        for stretch in [stretch(0, 0), stretch((1 << 40) - 1, (1 << 24) - 1)] {
            assert_eq!(stretch.place().map(Stretch::at), Some(stretch));
        }
        assert_eq!(stretch(1 << 40, 1).place(), None);
        assert_eq!(stretch(1, 1 << 24).place(), None);
    }
}
