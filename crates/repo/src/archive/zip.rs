//! Zip archives, as PKWARE's APPNOTE 6.3.10 has them, with what Info-ZIP adds for Unix.
//!
//! ```text
//! for each entry:  local header, contents [, data descriptor]
//! at the end:      directory [, zip64 end record, zip64 locator], end record
//! ```
//!
//! Checksum and compressed size of a file are known only when it is written. They follow its contents,
//! in a data descriptor, so a file is always deflated: deflated data show where they end. What the
//! directory says of each entry waits in a temporary file when it is much.
//!
//! A file of almost 4 GiB or more has sizes of 64 bits (zip64), which is decided before it is read.

use std::io::{Read, Write};

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use ibid_format::tree::{EntryKind, Time, TreeEntry};

use super::contents::Contents;
use super::{Unwritten, failed_write, with_slash};
use crate::Result;
use crate::scratch::{Scratch, Texts};

/// Version of the format that a reader needs: 4.5 for zip64, which all readers of today have.
const VERSION: u16 = 45;
/// What wrote the archive: version 6.3 of the format, on Unix.
const MADE_BY: u16 = 3 << 8 | 63;
/// Flags: sizes and checksum follow the contents; the name is UTF-8.
const DESCRIPTOR: u16 = 1 << 3;
const UTF8: u16 = 1 << 11;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// Longest name, bytes, with room for a slash.
const NAME_MAX: usize = u16::MAX as usize - 1;
/// Numbers that say "see the zip64 field".
const ELSEWHERE_32: u32 = u32::MAX;
const ELSEWHERE_16: u16 = u16::MAX;
/// Files of this many bytes and more get sizes of 64 bits. Deflating adds at most 5 bytes to 16 KiB of
/// data that do not compress, so smaller ones fit into 32 bits.
const LARGE: u64 = 0xFF00_0000;

pub(super) struct ZipWriter<W> {
    out: Counted<W>,
    directory: Texts,
    entries: u64,
    /// Size from which on a file has sizes of 64 bits.
    large: u64,
}

/// A writer that knows how much was written.
struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        let length = self.out.write(buffer)?;
        self.bytes += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// What the headers say of the contents of an entry.
#[derive(Clone, Copy)]
struct Sizes {
    crc: u32,
    compressed: u64,
    plain: u64,
}

impl<W: Write> ZipWriter<W> {
    pub(super) fn new(out: W, scratch: &Scratch) -> ZipWriter<W> {
        ZipWriter::starting_at(out, scratch, 0, LARGE)
    }

    /// Returns a writer that continues a file of so many bytes, and calls a file of `large` bytes large.
    pub(super) fn starting_at(out: W, scratch: &Scratch, bytes: u64, large: u64) -> ZipWriter<W> {
        ZipWriter {
            out: Counted { out, bytes },
            directory: Texts::new(scratch),
            entries: 0,
            large,
        }
    }

    /// Writes an entry.
    pub(super) fn add(
        &mut self,
        name: &[u8],
        entry: &TreeEntry,
        contents: Option<&mut Contents<'_>>,
    ) -> std::result::Result<(), Unwritten> {
        if name.len() > NAME_MAX {
            return Err(Unwritten::NoForm("its path is longer than zip allows"));
        }
        match (&entry.kind, contents) {
            (EntryKind::File(_), Some(contents)) if contents.length > 0 => {
                let length = contents.length;
                self.add_file(name, entry, contents, length)
            }
            (EntryKind::File(_) | EntryKind::Directory(_), _) => self.add_short(name, entry, b""),
            (EntryKind::Symlink(target), _) => self.add_short(name, entry, target),
            _ => Err(Unwritten::NoForm("zip has only files, folders and symlinks")),
        }
    }

    /// Writes an entry whose contents are in memory.
    fn add_short(&mut self, name: &[u8], entry: &TreeEntry, data: &[u8]) -> std::result::Result<(), Unwritten> {
        let mut crc = Crc::new();
        crc.update(data);
        let sizes = Sizes {
            crc: crc.sum(),
            compressed: data.len() as u64,
            plain: data.len() as u64,
        };
        let header = Header::new(name, entry, STORED);
        let start = self.out.bytes;
        self.out.write_all(&header.local(sizes, false))?;
        self.out.write_all(data)?;
        self.enter(&header, entry, sizes, start)
    }

    /// Writes a file of `length` bytes.
    pub(super) fn add_file(
        &mut self,
        name: &[u8],
        entry: &TreeEntry,
        contents: &mut impl Read,
        length: u64,
    ) -> std::result::Result<(), Unwritten> {
        let is_large = length >= self.large;
        let header = Header::new(name, entry, DEFLATED);
        let start = self.out.bytes;
        let unknown = Sizes {
            crc: 0,
            compressed: 0,
            plain: 0,
        };
        self.out.write_all(&header.local(unknown, is_large))?;
        let data_start = self.out.bytes;
        let mut encoder = DeflateEncoder::new(&mut self.out, Compression::fast());
        let mut crc = Crc::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = contents.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            crc.update(&buffer[..read]);
            encoder.write_all(&buffer[..read])?;
        }
        encoder.finish()?;
        let sizes = Sizes {
            crc: crc.sum(),
            compressed: self.out.bytes - data_start,
            plain: length,
        };
        self.out.write_all(&descriptor(sizes, is_large))?;
        self.enter(&header, entry, sizes, start)
    }

    /// Adds an entry to the directory.
    fn enter(
        &mut self,
        header: &Header,
        entry: &TreeEntry,
        sizes: Sizes,
        start: u64,
    ) -> std::result::Result<(), Unwritten> {
        self.entries += 1;
        self.directory.add(&header.central(entry, sizes, start))?;
        Ok(())
    }

    /// Writes the directory, and the end of the archive.
    pub(super) fn finish(self) -> Result<()> {
        let ZipWriter {
            mut out,
            mut directory,
            entries,
            ..
        } = self;
        let start = out.bytes;
        directory.each(|entry| out.write_all(entry).map_err(failed_write))?;
        let end = end_of_archive(entries, start, out.bytes);
        out.write_all(&end).map_err(failed_write)
    }
}

/// What both headers of an entry have.
struct Header {
    name: Vec<u8>,
    flags: u16,
    method: u16,
    /// Time and date of MS-DOS.
    dos: u32,
    /// Extra fields.
    extra: Vec<u8>,
}

impl Header {
    fn new(name: &[u8], entry: &TreeEntry, method: u16) -> Header {
        let name = with_slash(name, entry);
        let utf8 = if std::str::from_utf8(&name).is_ok() { UTF8 } else { 0 };
        let descriptor = if method == DEFLATED { DESCRIPTOR } else { 0 };
        let mut extra = Vec::new();
        // Times of 32 bits, and owners.
        if let Ok(seconds) = i32::try_from(entry.mtime.seconds) {
            extra.extend_from_slice(b"UT\x05\x00\x01");
            extra.extend_from_slice(&seconds.to_le_bytes());
        }
        extra.extend_from_slice(b"ux\x0B\x00\x01\x04");
        extra.extend_from_slice(&entry.uid.to_le_bytes());
        extra.push(4);
        extra.extend_from_slice(&entry.gid.to_le_bytes());
        Header {
            flags: utf8 | descriptor,
            name,
            method,
            dos: dos_time(entry.mtime),
            extra,
        }
    }

    /// Appends the fields that follow the versions in both headers, up to the lengths.
    fn common(&self, crc: u32, compressed: u32, plain: u32, extra: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.flags.to_le_bytes());
        out.extend_from_slice(&self.method.to_le_bytes());
        out.extend_from_slice(&self.dos.to_le_bytes());
        for number in [crc, compressed, plain] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for length in [self.name.len(), extra] {
            out.extend_from_slice(&(length as u16).to_le_bytes());
        }
    }

    /// Returns the header in front of the contents.
    fn local(&self, sizes: Sizes, is_large: bool) -> Vec<u8> {
        let mut extra = Vec::new();
        let (mut compressed, mut plain) = (sizes.compressed as u32, sizes.plain as u32);
        if is_large {
            zip64_field(&[sizes.plain, sizes.compressed], &mut extra);
            (compressed, plain) = (ELSEWHERE_32, ELSEWHERE_32);
        }
        extra.extend_from_slice(&self.extra);
        let mut out = b"PK\x03\x04".to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        self.common(sizes.crc, compressed, plain, extra.len(), &mut out);
        out.extend_from_slice(&self.name);
        out.extend_from_slice(&extra);
        out
    }

    /// Returns the entry of the directory for contents whose header is at `start`.
    fn central(&self, entry: &TreeEntry, sizes: Sizes, start: u64) -> Vec<u8> {
        let mut numbers = Vec::new();
        let mut short = |number: u64| match u32::try_from(number) {
            Ok(short) if short != ELSEWHERE_32 => short,
            _ => {
                numbers.push(number);
                ELSEWHERE_32
            }
        };
        let (plain, compressed, start) = (short(sizes.plain), short(sizes.compressed), short(start));
        let mut extra = Vec::new();
        if !numbers.is_empty() {
            zip64_field(&numbers, &mut extra);
        }
        extra.extend_from_slice(&self.extra);
        let mut out = b"PK\x01\x02".to_vec();
        out.extend_from_slice(&MADE_BY.to_le_bytes());
        out.extend_from_slice(&VERSION.to_le_bytes());
        self.common(sizes.crc, compressed, plain, extra.len(), &mut out);
        out.extend_from_slice(&[0; 6]); // no comment, the first disk, no attributes of MS-DOS files
        out.extend_from_slice(&attributes(entry).to_le_bytes());
        out.extend_from_slice(&start.to_le_bytes());
        out.extend_from_slice(&self.name);
        out.extend_from_slice(&extra);
        out
    }
}

/// Returns Unix's mode in the upper half, and MS-DOS's attributes in the lower.
fn attributes(entry: &TreeEntry) -> u32 {
    let (kind, dos) = match entry.kind {
        EntryKind::Directory(_) => (0o040_000, 0x10),
        EntryKind::Symlink(_) => (0o120_000, 0),
        _ => (0o100_000, 0),
    };
    (kind | entry.mode) << 16 | dos
}

fn zip64_field(numbers: &[u64], out: &mut Vec<u8>) {
    out.extend_from_slice(&1u16.to_le_bytes());
    out.extend_from_slice(&(8 * numbers.len() as u16).to_le_bytes());
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

fn descriptor(sizes: Sizes, is_large: bool) -> Vec<u8> {
    let mut out = b"PK\x07\x08".to_vec();
    out.extend_from_slice(&sizes.crc.to_le_bytes());
    for number in [sizes.compressed, sizes.plain] {
        match is_large {
            true => out.extend_from_slice(&number.to_le_bytes()),
            false => out.extend_from_slice(&(number as u32).to_le_bytes()),
        }
    }
    out
}

/// Returns what follows the directory, which is in bytes `start` to `end` of the archive.
fn end_of_archive(entries: u64, start: u64, end: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let size = end - start;
    let is_short = entries < ELSEWHERE_16.into() && size < ELSEWHERE_32.into() && start < ELSEWHERE_32.into();
    if !is_short {
        out.extend_from_slice(b"PK\x06\x06");
        out.extend_from_slice(&44u64.to_le_bytes()); // bytes that follow in this record
        out.extend_from_slice(&MADE_BY.to_le_bytes());
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 8]); // both on the first disk
        for number in [entries, entries, size, start] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(b"PK\x06\x07\0\0\0\0");
        out.extend_from_slice(&end.to_le_bytes());
        out.extend_from_slice(&1u32.to_le_bytes()); // one disk
    }
    let entries = entries.min(ELSEWHERE_16.into()) as u16;
    out.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    out.extend_from_slice(&entries.to_le_bytes());
    out.extend_from_slice(&entries.to_le_bytes());
    for number in [size, start] {
        out.extend_from_slice(&(number.min(ELSEWHERE_32.into()) as u32).to_le_bytes());
    }
    out.extend_from_slice(&[0; 2]); // no comment
    out
}

/// Returns a time as MS-DOS has it, in UTC: the date in the upper half, the time in the lower. Years are
/// 1980 to 2107.
fn dos_time(time: Time) -> u32 {
    const DAY: i64 = 24 * 60 * 60;
    /// The years that MS-DOS knows, in seconds since 1970.
    const FIRST: i64 = 3652 * DAY;
    const LAST: i64 = 50_403 * DAY - 1;
    let seconds = time.seconds.clamp(FIRST, LAST);
    let (year, month, day) = civil(seconds / DAY);
    let second = seconds % DAY;
    let date = (year - 1980) << 9 | month << 5 | day;
    let (hour, minute, pair) = (second / 3600, second / 60 % 60, second % 60 / 2);
    let clock = hour << 11 | minute << 5 | pair;
    (date << 16 | clock) as u32
}

/// Returns year, month and day of a day after 1970-01-01, by Howard Hinnant's `civil_from_days`.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468; // since 0000-03-01
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153; // from March on
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_ms_dos_are_in_its_years() {
        let dos = |seconds| dos_time(Time { seconds, nanos: 0 });
        let expected = |year: u32, month: u32, day: u32, hour: u32, minute: u32, second: u32| {
            let date = (year - 1980) << 9 | month << 5 | day;
            let pair = second / 2;
            date << 16 | hour << 11 | minute << 5 | pair
        };
        assert_eq!(dos(0), expected(1980, 1, 1, 0, 0, 0));
        assert_eq!(dos(315_532_800), expected(1980, 1, 1, 0, 0, 0));
        assert_eq!(dos(951_782_399), expected(2000, 2, 28, 23, 59, 58));
        assert_eq!(dos(951_782_400), expected(2000, 2, 29, 0, 0, 0));
        assert_eq!(dos(1_795_262_400), expected(2026, 11, 21, 12, 0, 0));
        assert_eq!(dos(i64::MAX), expected(2107, 12, 31, 23, 59, 58));
    }
}
