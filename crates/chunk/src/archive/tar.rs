//! tar: blocks of 512 bytes. A header is a block with a valid checksum.

use super::Member;

/// Length of a block, bytes.
pub(super) const BLOCK: usize = 512;

/// Stands for a block that is no header: the next block may be one.
pub(super) const NONE: Member = Member {
    body: BLOCK as u64,
    size: 0,
    next: BLOCK as u64,
};

/// The places of three fields in a header: the same in POSIX.1-1988 ("ustar"), GNU's and the oldest
/// form.
const SIZE: core::ops::Range<usize> = 124..136;
const CHECKSUM: core::ops::Range<usize> = 148..156;
const KIND: usize = 156;

/// Parses a header.
pub(super) fn member(header: &[u8; BLOCK]) -> Option<Member> {
    // The checksum is the sum of all bytes, with its own field taken as blanks.
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    let blanks = CHECKSUM.len() as u64 * u64::from(b' ');
    if octal(&header[CHECKSUM])? != sum(header) - sum(&header[CHECKSUM]) + blanks {
        return None;
    }
    let size = match header[KIND] {
        // Links, devices, directories and FIFOs have no body, whatever the size field says.
        b'1'..=b'6' => 0,
        _ => size(&header[SIZE])?,
    };
    Some(Member {
        body: BLOCK as u64,
        size,
        next: size
            .checked_next_multiple_of(BLOCK as u64)
            .map_or(u64::MAX, |padded| padded.saturating_add(BLOCK as u64)),
    })
}

/// Parses a size: octal digits, or GNU's big-endian number with the first bit set.
fn size(field: &[u8]) -> Option<u64> {
    match field.split_first_chunk() {
        Some((&[0x80, 0, 0, 0], number)) => Some(u64::from_be_bytes(number.try_into().ok()?)),
        _ => octal(field),
    }
}

/// Parses octal digits between blanks or zero bytes.
fn octal(field: &[u8]) -> Option<u64> {
    let blank = |byte: &u8| matches!(byte, b' ' | 0);
    let start = field.iter().position(|byte| !blank(byte))?;
    let digits = field[start..].split(blank).next()?;
    digits.iter().try_fold(0, |number: u64, &digit| match digit {
        b'0'..=b'7' => Some(number * 8 + u64::from(digit - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: u8, size: &[u8]) -> [u8; BLOCK] {
        let mut header = [0; BLOCK];
        header[..4].copy_from_slice(b"name");
        header[SIZE][..size.len()].copy_from_slice(size);
        header[KIND] = kind;
        header[CHECKSUM].fill(b' ');
        let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
        header[CHECKSUM][..7].copy_from_slice(alloc::format!("{sum:06o}\0").as_bytes());
        header
    }

    #[test]
    fn sizes_are_read_as_every_tar_writes_them() {
        for (field, expected) in [
            (&b"00000001750\0"[..], 1000),
            (b"       1750 ", 1000),
            (b"77777777777\0", 0o77_777_777_777),
            (b"\x80\0\0\0\0\0\0\x02\0\0\0\0", 1 << 33),
        ] {
            let member = member(&header(b'0', field)).unwrap();
            assert_eq!((member.body, member.size), (512, expected));
            assert_eq!(member.next, 512 + expected.next_multiple_of(512));
        }
    }

    #[test]
    fn links_and_directories_have_no_body() {
        for kind in b'1'..=b'6' {
            assert_eq!(member(&header(kind, b"00000001750\0")), Some(NONE));
        }
    }

    #[test]
    fn a_wrong_sum_or_size_makes_no_header() {
        let right = header(b'0', b"00000001750\0");
        // The bytes after the checksum's digits do not count.
        for at in (0..BLOCK).filter(|at| !(CHECKSUM.start + 6..CHECKSUM.end).contains(at)) {
            let mut wrong = right;
            wrong[at] ^= 4;
            assert_eq!(member(&wrong), None, "byte {at}");
        }
        assert_eq!(member(&header(b'0', b"0000000175x\0")), None);
        assert_eq!(member(&header(b'0', b"")), None);
        assert_eq!(member(&[0; BLOCK]), None);
    }
}
