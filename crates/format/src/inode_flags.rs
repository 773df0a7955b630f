//! Inode flags.

use std::fmt;

use crate::Error;
use crate::wire::Reader;

/// Letters of the flags that are kept, in the order of `lsattr`.
const LETTERS: [(char, InodeFlags); 15] = [
    ('s', InodeFlags(0x1)),
    ('u', InodeFlags(0x2)),
    ('S', InodeFlags(0x8)),
    ('D', InodeFlags(0x1_0000)),
    ('i', InodeFlags::IMMUTABLE),
    ('a', InodeFlags::APPEND_ONLY),
    ('d', InodeFlags(0x40)),
    ('A', InodeFlags(0x80)),
    ('c', InodeFlags(0x4)),
    ('j', InodeFlags(0x4000)),
    ('t', InodeFlags(0x8000)),
    ('T', InodeFlags(0x2_0000)),
    ('C', InodeFlags(0x80_0000)),
    ('x', InodeFlags(0x200_0000)),
    ('m', InodeFlags(0x400)),
];

/// Inode flags of a file or a directory: those that `chattr` sets and that say the same on another file system.
///
/// Not among them: what a file system does of itself or sets once and for all (extents, indexes, large files, data in
/// the inode, encryption, verity), what it must be made for (names without case), and whether project ids are
/// inherited, since these ids are not kept.
///
/// ```
/// use ibid_format::tree::InodeFlags;
///
/// let flags = InodeFlags::of(0x8_0050);
/// assert_eq!(flags.to_string(), "id");
/// assert_eq!(flags.bits(), 0x50);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct InodeFlags(u32);

impl InodeFlags {
    /// `i`: nothing of it can be changed, and it can't be removed or get another name.
    pub const IMMUTABLE: InodeFlags = InodeFlags(0x10);
    /// `a`: its bytes can't be changed, only added to; of a directory, names.
    pub const APPEND_ONLY: InodeFlags = InodeFlags(0x20);
    /// `i` and `a`: after one of them is set, nothing else can be.
    pub const LOCKS: InodeFlags = InodeFlags(0x30);
    /// `C`, `c` and `m`: how the file system stores the data, so they are set before there is any.
    pub const BEFORE_DATA: InodeFlags = InodeFlags(0x80_0404);
    /// All flags that are kept.
    pub const ALL: InodeFlags = {
        let (mut bits, mut at) = (0, 0);
        while at < LETTERS.len() {
            bits |= LETTERS[at].1.0;
            at += 1;
        }
        InodeFlags(bits)
    };

    /// Returns those of these bits, with the numbers that Linux gives them, that are kept.
    pub const fn of(bits: u32) -> InodeFlags {
        InodeFlags(bits & InodeFlags::ALL.0)
    }

    /// Returns the bits, as in `FS_IOC_GETFLAGS`.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns those that `other` has, too.
    #[must_use]
    pub const fn and(self, other: InodeFlags) -> InodeFlags {
        InodeFlags(self.0 & other.0)
    }

    /// Returns those of both.
    #[must_use]
    pub const fn or(self, other: InodeFlags) -> InodeFlags {
        InodeFlags(self.0 | other.0)
    }

    /// Returns those that `other` does not have.
    #[must_use]
    pub const fn without(self, other: InodeFlags) -> InodeFlags {
        InodeFlags(self.0 & !other.0)
    }

    /// Returns each of them with its letter in `chattr` and `lsattr`, in the order of `lsattr`.
    pub fn each(self) -> impl Iterator<Item = (char, InodeFlags)> {
        LETTERS.into_iter().filter(move |(_, flag)| self.0 & flag.0 != 0)
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<InodeFlags, Error> {
        let bits = reader.varint_u32("inode flags")?;
        match InodeFlags::of(bits) {
            flags if flags.0 == bits && bits != 0 => Ok(flags),
            _ => Err(Error::Unknown {
                field: "inode flags",
                found: bits.into(),
            }),
        }
    }
}

/// Writes the letters of `lsattr`: `id`.
impl fmt::Display for InodeFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.each().try_for_each(|(letter, _)| write!(f, "{letter}"))
    }
}
