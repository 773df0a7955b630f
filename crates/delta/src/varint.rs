//! Variable-length integers, the same as in all of ibid's formats.

use crate::Error;

/// Longest varint, bytes.
const BYTES_MAX: usize = 10;

/// Appends unsigned LEB128: seven bits a byte, lowest first, the top bit set on all but the last.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed integer. Small magnitudes of either sign are short.
#[inline]
pub(crate) fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

/// Bytes that [`put`] appends.
#[inline]
pub(crate) fn len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Reads a varint and removes it from the front of `rest`.
///
/// # Errors
/// [`Error::Truncated`] if it does not end, [`Error::NotMinimal`] if it is longer than necessary.
#[inline]
pub(crate) fn take(field: &'static str, rest: &mut &[u8]) -> Result<u64, Error> {
    if let Some((&byte, after)) = rest.split_first()
        && byte < 0x80
    {
        *rest = after;
        return Ok(byte.into());
    }
    take_long(field, rest)
}

fn take_long(field: &'static str, rest: &mut &[u8]) -> Result<u64, Error> {
    let mut value = 0;
    for (position, &byte) in rest.iter().take(BYTES_MAX).enumerate() {
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * position as u32;
        if position == BYTES_MAX - 1 && byte > 1 || position > 0 && byte == 0 {
            return Err(Error::NotMinimal { field });
        }
        value |= bits << shift;
        if byte < 0x80 {
            *rest = &rest[position + 1..];
            return Ok(value);
        }
    }
    Err(Error::Truncated { field })
}

/// Reads what [`put_zigzag`] wrote.
#[inline]
pub(crate) fn take_zigzag(field: &'static str, rest: &mut &[u8]) -> Result<i64, Error> {
    take(field, rest).map(|value| (value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_one_spelling() {
        for value in (0..64)
            .flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1])
            .chain([u64::MAX])
        {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out.len(), len(value));
            assert_eq!(take("value", &mut &out[..]), Ok(value));
            let signed = value.cast_signed();
            let mut zigzag = Vec::new();
            put_zigzag(&mut zigzag, signed);
            assert_eq!(take_zigzag("value", &mut &zigzag[..]), Ok(signed));
            // A longer spelling of the same value.
            let last = out.len() - 1;
            out[last] |= 0x80;
            out.push(0);
            assert_eq!(take("value", &mut &out[..]), Err(Error::NotMinimal { field: "value" }));
        }
        assert_eq!(
            take("value", &mut &[0x80u8, 0x80][..]),
            Err(Error::Truncated { field: "value" })
        );
    }
}
