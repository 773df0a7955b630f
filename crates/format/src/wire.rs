//! Integers and strings as all parts of the format write them.
//!
//! Fixed-size integers are little-endian. A *varint* is unsigned LEB128, at most 10 bytes, and
//! minimal: each value has one spelling, so equal values are equal bytes. *zigzag* maps signed
//! integers to varints, small magnitudes to short ones.
//!
//! ```
//! use ibid_format::wire::{self, Reader};
//!
//! let mut out = Vec::new();
//! wire::put_varint(&mut out, 300);
//! wire::put_bytes(&mut out, b"ibid");
//! assert_eq!(out, [0xac, 0x02, 4, b'i', b'b', b'i', b'd']);
//!
//! let mut reader = Reader::new(&out);
//! assert_eq!(reader.varint("number")?, 300);
//! assert_eq!(reader.bytes("name", 255)?, b"ibid");
//! reader.finish("example")?;
//! # Ok::<(), ibid_format::Error>(())
//! ```

use crate::Error;
use crate::error::in_range;

/// Longest varint, bytes.
pub const VARINT_BYTES_MAX: usize = 10;

/// Appends a little-endian `u16`.
pub fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a little-endian `u32`.
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a little-endian `u64`.
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a varint: seven bits a byte, lowest first, the top bit set on all but the last.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that [`put_varint`] appends for `value`, 1 to 10.
pub fn varint_len(value: u64) -> usize {
    // 64 - leading zeros is the number of significant bits; zero takes a byte too.
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Appends a signed integer as zigzag varint.
pub fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends a varint length and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads values from a slice, front to back. Every method takes the name of the field, for error
/// messages.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    /// Returns a reader at the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader {
            rest: bytes,
            length: bytes.len(),
        }
    }

    /// Returns the number of bytes read so far.
    pub fn position(&self) -> usize {
        self.length - self.rest.len()
    }

    /// Returns the number of bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Reads all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Reads the next `length` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if fewer are left.
    pub fn take(&mut self, field: &'static str, length: usize) -> Result<&'a [u8], Error> {
        let found = self.rest.len() as u64;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Error::Truncated {
            field,
            expected: length as u64,
            found,
        })?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads the next `N` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if fewer are left.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Error> {
        let found = self.rest.len() as u64;
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Error::Truncated {
            field,
            expected: N as u64,
            found,
        })?;
        self.rest = rest;
        Ok(*taken)
    }

    /// One byte.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if none is left.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, Error> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    /// A little-endian `u16`.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if fewer than 2 bytes are left.
    pub fn u16(&mut self, field: &'static str) -> Result<u16, Error> {
        self.array(field).map(u16::from_le_bytes)
    }

    /// A little-endian `u32`.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if fewer than 4 bytes are left.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, Error> {
        self.array(field).map(u32::from_le_bytes)
    }

    /// A little-endian `u64`.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if fewer than 8 bytes are left.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, Error> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// A varint.
    ///
    /// # Errors
    ///
    /// [`Error::NotMinimal`] for one that is longer than its value needs, or that does not fit 64
    /// bits.
    pub fn varint(&mut self, field: &'static str) -> Result<u64, Error> {
        let mut value = 0;
        for (position, &byte) in self.rest.iter().take(VARINT_BYTES_MAX).enumerate() {
            let last = position == VARINT_BYTES_MAX - 1;
            // The tenth byte has room for one bit; a zero at the end (not alone) says that a shorter form
            // exists.
            if (last && byte > 1) || (byte == 0 && position > 0) {
                return Err(Error::NotMinimal { field });
            }
            value |= u64::from(byte & 0x7f) << (7 * position);
            if byte < 0x80 {
                self.rest = &self.rest[position + 1..];
                return Ok(value);
            }
        }
        let found = self.rest.len() as u64;
        Err(Error::Truncated {
            field,
            expected: found + 1,
            found,
        })
    }

    /// Reads a varint within `min..=max`.
    ///
    /// # Errors
    ///
    /// Those of [`varint`](Reader::varint); [`Error::OutOfRange`].
    pub fn varint_in(&mut self, field: &'static str, min: u64, max: u64) -> Result<u64, Error> {
        in_range(field, self.varint(field)?, min, max)
    }

    /// Reads a varint that fits 32 bits.
    ///
    /// # Errors
    ///
    /// Those of [`varint`](Reader::varint); [`Error::OutOfRange`].
    pub fn varint_u32(&mut self, field: &'static str) -> Result<u32, Error> {
        self.varint_in(field, 0, u64::from(u32::MAX)).map(|value| value as u32)
    }

    /// Reads a zigzag varint.
    ///
    /// # Errors
    ///
    /// Those of [`varint`](Reader::varint).
    pub fn zigzag(&mut self, field: &'static str) -> Result<i64, Error> {
        let value = self.varint(field)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads a varint length and that many bytes, at most `limit`.
    ///
    /// # Errors
    ///
    /// Those of [`varint_in`](Reader::varint_in) and of [`take`](Reader::take).
    pub fn bytes(&mut self, field: &'static str, limit: usize) -> Result<&'a [u8], Error> {
        let length = self.varint_in(field, 0, limit as u64)?;
        self.take(field, length as usize)
    }

    /// Reads the same as [`bytes`](Reader::bytes), which must be UTF-8.
    ///
    /// # Errors
    ///
    /// Those of [`bytes`](Reader::bytes); [`Error::NotUtf8`].
    pub fn text(&mut self, field: &'static str, limit: usize) -> Result<&'a str, Error> {
        let bytes = self.bytes(field, limit)?;
        std::str::from_utf8(bytes).map_err(|error| Error::NotUtf8 {
            field,
            valid: error.valid_up_to() as u64,
        })
    }

    /// Reads a varint count of items that take at least `size_min` bytes each.
    ///
    /// It refuses a count that the remaining bytes cannot hold, so reserving memory for the items
    /// takes at most a small multiple of the input.
    ///
    /// # Errors
    ///
    /// Those of [`varint_in`](Reader::varint_in); [`Error::Truncated`] for too many items.
    pub fn count(&mut self, field: &'static str, max: u64, size_min: usize) -> Result<usize, Error> {
        let count = self.varint_in(field, 0, max)?;
        let expected = count.saturating_mul(size_min as u64);
        if expected > self.rest.len() as u64 {
            return Err(Error::Truncated {
                field,
                expected,
                found: self.rest.len() as u64,
            });
        }
        Ok(count as usize)
    }

    /// Reads all remaining bytes, which must be zeros.
    ///
    /// # Errors
    ///
    /// [`Error::NotZero`].
    pub fn zeros(&mut self, field: &'static str) -> Result<(), Error> {
        match self.rest().iter().enumerate().find(|&(_, &byte)| byte != 0) {
            None => Ok(()),
            Some((position, &found)) => Err(Error::NotZero {
                field,
                position: position as u64,
                found,
            }),
        }
    }

    /// Checks that no bytes are left.
    ///
    /// # Errors
    ///
    /// [`Error::Trailing`].
    pub fn finish(self, field: &'static str) -> Result<(), Error> {
        match self.rest.len() {
            0 => Ok(()),
            found => Err(Error::Trailing {
                field,
                found: found as u64,
            }),
        }
    }
}
