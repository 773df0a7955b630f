//! Checksums of bodies and of what is stored around them.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::BODY_CHECK_BYTES;
use crate::Error;
use crate::wire::Reader;

/// Length of a checksum of a record, of a frame or of a part of the log of commits, bytes.
pub(super) const CHECK_BYTES: usize = 8;
pub(super) type Check = [u8; CHECK_BYTES];

/// What checksums are made by. They find accidents, not attackers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckHash {
    /// BLAKE3, as versions 1 and 2 of the format have it: the first bytes.
    Blake3,
    /// XXH3 with 64 bits, little-endian: the first bytes.
    Xxh3,
}

impl CheckHash {
    /// Returns what a byte with this bit says, if it is set for XXH3.
    pub(super) fn marked_in(byte: u8, bit: u8) -> Self {
        match byte & bit {
            0 => CheckHash::Blake3,
            _ => CheckHash::Xxh3,
        }
    }

    /// Returns the bit for XXH3, or none.
    pub(super) fn mark(self, bit: u8) -> u8 {
        match self {
            CheckHash::Blake3 => 0,
            CheckHash::Xxh3 => bit,
        }
    }

    /// Returns the checksum of these bytes.
    pub(super) fn of(self, bytes: &[u8]) -> Check {
        match self {
            CheckHash::Blake3 => first_bytes(&blake3::hash(bytes)),
            CheckHash::Xxh3 => xxh3_64(bytes).to_le_bytes(),
        }
    }

    /// Returns the checksum of bytes that are given in parts.
    pub(super) fn of_parts(self, parts: &[&[u8]]) -> Check {
        let mut hasher = CheckHasher::new(self);
        for part in parts {
            hasher.update(part);
        }
        hasher.finish()
    }
}

/// Makes a checksum of bytes that come in parts.
#[derive(Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are few at a time, and one on the heap for each record would cost more"
)]
pub(super) enum CheckHasher {
    Blake3(blake3::Hasher),
    Xxh3(Xxh3),
}

impl CheckHasher {
    pub(super) fn new(hash: CheckHash) -> Self {
        match hash {
            CheckHash::Blake3 => CheckHasher::Blake3(blake3::Hasher::new()),
            CheckHash::Xxh3 => CheckHasher::Xxh3(Xxh3::new()),
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            CheckHasher::Blake3(hasher) => {
                hasher.update(bytes);
            }
            CheckHasher::Xxh3(hasher) => hasher.update(bytes),
        }
    }

    pub(super) fn finish(&self) -> Check {
        match self {
            CheckHasher::Blake3(hasher) => first_bytes(&hasher.finalize()),
            CheckHasher::Xxh3(hasher) => hasher.digest().to_le_bytes(),
        }
    }
}

fn first_bytes(hash: &blake3::Hash) -> Check {
    *hash.as_bytes().first_chunk().expect("a hash is longer")
}

/// Compares a checksum with the next bytes.
pub(super) fn checked(field: &'static str, computed: &Check, reader: &mut Reader<'_>) -> Result<(), Error> {
    let stated = reader.array::<CHECK_BYTES>(field)?;
    if stated != *computed {
        let (expected, found) = (u64::from_be_bytes(*computed), u64::from_be_bytes(stated));
        return Err(Error::Check { field, expected, found });
    }
    Ok(())
}

/// The checksum of a body, which is stored with a delta that makes it.
///
/// ```
/// use ibid_format::record::BodyCheck;
///
/// let check = BodyCheck::of(b"in the same place");
/// assert!(check.is_of(b"in the same place") && !check.is_of(b"in the same plane"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyCheck {
    /// What it is made by.
    pub hash: CheckHash,
    /// Its bytes.
    pub bytes: [u8; BODY_CHECK_BYTES],
}

impl BodyCheck {
    /// Returns the checksum of a body as it is stored today.
    pub fn of(body: &[u8]) -> Self {
        BodyCheck::by(CheckHash::Xxh3, body)
    }

    /// Returns the checksum of a body that is made in this way.
    pub fn by(hash: CheckHash, body: &[u8]) -> Self {
        let [a, b, c, d, ..] = hash.of(body);
        let bytes = [a, b, c, d];
        BodyCheck { hash, bytes }
    }

    /// Returns whether it is the checksum of this body.
    pub fn is_of(self, body: &[u8]) -> bool {
        self == BodyCheck::by(self.hash, body)
    }
}
