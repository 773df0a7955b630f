//! cpio in the "new" ASCII formats, with and without checksum. Numbers have eight hexadecimal
//! digits; headers and bodies are padded to four bytes.

use super::Member;

/// Length of a header without the name after it, bytes.
pub(super) const HEADER: usize = 110;

/// Length of the magic, bytes. The fields follow.
const MAGIC: usize = 6;

/// Indices of two fields: the length of the body, and the length of the name with its zero byte.
const SIZE: usize = 6;
const NAME: usize = 11;

/// The longest name of a plausible header, bytes.
const NAME_MAX: u64 = 4096;

/// Parses a header. Only its first [`HEADER`] bytes are read.
pub(super) fn member(header: &[u8]) -> Option<Member> {
    let header = header.get(..HEADER)?;
    if !matches!(&header[..MAGIC], b"070701" | b"070702") {
        return None;
    }
    let mut numbers = [0; 13];
    for (number, digits) in numbers.iter_mut().zip(header[MAGIC..].chunks_exact(8)) {
        for &digit in digits {
            *number = *number << 4 | u64::from((digit as char).to_digit(16)?);
        }
    }
    let (size, name) = (numbers[SIZE], numbers[NAME]);
    if name == 0 || name > NAME_MAX {
        return None;
    }
    let body = (HEADER as u64 + name).next_multiple_of(4);
    Some(Member {
        body,
        size,
        next: body + size.next_multiple_of(4),
    })
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    fn header(size: u32, name: u32) -> String {
        let numbers = [1, 0o100_644, 0, 0, 1, 0, size, 0, 0, 0, 0, name, 0];
        numbers.iter().fold(String::from("070701"), |text, number| {
            text + &alloc::format!("{number:08X}")
        })
    }

    #[test]
    fn bodies_and_headers_are_padded_to_four_bytes() {
        let member = member(header(1001, 5).as_bytes()).unwrap();
        assert_eq!((member.body, member.size, member.next), (116, 1001, 116 + 1004));
    }

    #[test]
    fn anything_but_digits_makes_no_header() {
        let right = header(1001, 5);
        for at in 0..HEADER {
            let mut wrong = right.clone().into_bytes();
            wrong[at] = b'x';
            assert_eq!(member(&wrong), None, "byte {at}");
        }
        assert_eq!(member(header(1001, 0).as_bytes()), None);
        assert_eq!(member(header(1001, u32::MAX).as_bytes()), None);
        assert_eq!(member(&right.as_bytes()[1..]), None);
    }
}
