//! Ids: of chunks by their bytes, of files at random.

use std::fmt;

use crate::random;

/// The name of a chunk: BLAKE3 over its bytes, keyed by the repository. Equal ids mean equal bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(pub [u8; 32]);

/// The first 12 bytes of a [`ChunkId`], by which a delta frame names its bases.
///
/// The chance that any two of 2²⁴ chunks (a TiB in chunks of 64 KiB) share a prefix is 2⁻⁴⁹. If two
/// did, one would be taken for the other, and a chunk decoded against it would not match its id: an
/// error, never wrong data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkPrefix(pub [u8; 12]);

/// The name of a file in the repository, or of the repository itself: 16 random bytes, shown as 32
/// hexadecimal digits.
///
/// ```
/// use ibid_format::FileId;
///
/// let id = FileId::random();
/// assert_eq!(FileId::parse(&id.to_string()), Some(id));
/// assert_eq!(FileId::parse("config"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub [u8; 16]);

impl FileId {
    /// The id that stands in for `config`, which has none.
    pub const ZERO: FileId = FileId([0; 16]);

    /// Returns a new id.
    ///
    /// # Panics
    ///
    /// If the operating system has no random bytes to give.
    pub fn random() -> FileId {
        FileId(random())
    }

    /// Returns the id of a file that has a number: its last 8 bytes, big-endian, after zeros.
    ///
    /// ```
    /// # use ibid_format::FileId;
    /// assert_eq!(FileId::numbered(0x2a).to_string(), "0000000000000000000000000000002a");
    /// assert_eq!(FileId::numbered(0x2a).number(), Some(0x2a));
    /// ```
    pub fn numbered(number: u64) -> FileId {
        FileId(u128::from(number).to_be_bytes())
    }

    /// Returns the number that [`numbered`](FileId::numbered) made the id from, if it did.
    pub fn number(self) -> Option<u64> {
        u64::try_from(u128::from_be_bytes(self.0)).ok()
    }

    /// Returns the id that `text` spells in exactly 32 lower-case hexadecimal digits, or `None`.
    pub fn parse(text: &str) -> Option<FileId> {
        parse_hex(text).map(FileId)
    }
}

impl ChunkId {
    /// Returns the id that `text` spells in exactly 64 lower-case hexadecimal digits, or `None`.
    pub fn parse(text: &str) -> Option<ChunkId> {
        parse_hex(text).map(ChunkId)
    }

    /// Returns its first 12 bytes.
    ///
    /// ```
    /// # use ibid_format::{ChunkId, ChunkPrefix};
    /// assert_eq!(ChunkId([7; 32]).prefix(), ChunkPrefix([7; 12]));
    /// ```
    pub fn prefix(&self) -> ChunkPrefix {
        let (prefix, _) = self.0.split_first_chunk().expect("an id is longer");
        ChunkPrefix(*prefix)
    }

    /// The leading 64 bits as a number that orders as ids do; uniform, as ids are.
    pub(crate) fn leading_bits(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ChunkPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for ChunkPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
