//! Any bytes as a map of changed blocks: its ranges ascend, lie apart and are those that its lines
//! state, however the bytes arrive. Maps of any extents are read alike in the forms of both programs,
//! and no part of one is taken for the whole.

#![no_main]

mod memory;

use std::io::Read;
use std::ops::Range;

use ibid_repo::{ChangedBlocks, Error};
use libfuzzer_sys::fuzz_target;

/// Ranges are extended to multiples of this, bytes.
const GRANULE: u64 = 4096;
/// A reader's buffer, errors, and a line or text of the most bytes.
const SLACK: usize = 100 << 10;

/// Passes on a few bytes at a time.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = self.1.min(buffer.len());
        self.0.read(&mut buffer[..most])
    }
}

/// Returns the map, or what its error says.
fn read(input: impl Read) -> Result<ChangedBlocks, String> {
    ChangedBlocks::read(input).map_err(|error| {
        assert!(matches!(error, Error::ChangedBlocks { .. }), "{error:?}");
        error.to_string()
    })
}

/// Returns ranges as a map has them: extended, joined where they touch, and ascending.
fn joined(given: impl IntoIterator<Item = (u64, u64)>) -> Vec<Range<u64>> {
    let mut extended: Vec<Range<u64>> = given
        .into_iter()
        .filter(|(_, length)| *length > 0)
        .map(|(offset, length)| offset / GRANULE * GRANULE..(offset + length).div_ceil(GRANULE) * GRANULE)
        .collect();
    extended.sort_unstable_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in extended {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Returns the ranges that the lines of an accepted map state.
fn stated(text: &[u8]) -> Vec<Range<u64>> {
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u64>().ok();
    let lines = text.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        number(words.next()?).zip(number(words.next()?))
    });
    joined(lines)
}

/// Checks any bytes as a map.
fn check(bytes: &[u8], piece: usize) {
    let found = memory::within(SLACK + 40 * bytes.len(), || read(bytes));
    // The form is told by the first byte that is no white space, of those that arrive first.
    if bytes.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
        assert_eq!(read(Trickle(bytes, piece)), found);
    }
    let Ok(map) = found else {
        return;
    };
    let ranges: Vec<Range<u64>> = map.ranges().collect();
    assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
    let is_valid = |range: &Range<u64>| range.start < range.end && (range.start | range.end).is_multiple_of(GRANULE);
    assert!(ranges.iter().all(is_valid) && ranges.last().is_none_or(|last| last.end <= 1 << 63));
    assert_eq!(
        map.bytes(),
        ranges.iter().map(|range| range.end - range.start).sum::<u64>()
    );
    // The last byte that a range may have is the one before the largest offset.
    let clipped = || ranges.iter().map(|range| range.start..range.end.min(i64::MAX as u64));
    let same = ChangedBlocks::new(clipped()).expect("they were read");
    assert!(same.ranges().eq(ranges.iter().cloned()));
    let lines: String = clipped()
        .map(|range| format!("{} {}\n", range.start, range.end - range.start))
        .collect();
    assert_eq!(read((lines + "end").as_bytes()), Ok(same));
    if bytes.trim_ascii_start().first() != Some(&b'[') {
        assert_eq!(ranges, stated(bytes));
    }
}

/// Returns a map of extents, given by their lengths and whether they changed, as each program prints it.
fn printed(extents: &[(u32, bool)]) -> [String; 2] {
    let mut offset = 0;
    let (mut nbdinfo, mut qemu_img) = (Vec::new(), Vec::new());
    for &(length, is_dirty) in extents {
        let description = if is_dirty { "dirty" } else { "clean" };
        nbdinfo.push(format!(
            r#"{{ "offset": {offset}, "length": {length}, "type": {}, "description": "{description}"}}"#,
            u8::from(is_dirty),
        ));
        qemu_img.push(format!(
            r#"{{ "start": {offset}, "length": {length}, "depth": 0, "present": true, "zero": false, "data": {}}}"#,
            !is_dirty,
        ));
        offset += u64::from(length);
    }
    [nbdinfo, qemu_img].map(|extents| format!("[{}]", extents.join(",\n")))
}

/// Extents of an image, each with its length and whether it was changed; the rest says how they are read and damaged.
type Input<'b> = (Vec<(u32, bool)>, u8, u16, u8, &'b [u8]);

fuzz_target!(|input: Input<'_>| {
    let (extents, piece, at, removed, bytes) = input;
    let piece = usize::from(piece) + 1;
    check(bytes, piece);

    let mut offset = 0;
    let placed = extents.iter().map(|&(length, is_dirty)| {
        let start = offset;
        offset += u64::from(length);
        (start, if is_dirty { length.into() } else { 0 })
    });
    let expected = joined(placed);
    let has_dirty = extents.iter().any(|&(length, is_dirty)| is_dirty && length > 0);
    let maps = printed(&extents);
    for (map, is_nbdinfo) in maps.iter().zip([true, false]) {
        // Without a dirty extent, the map of an image without holes looks the same.
        match read(map.as_bytes()) {
            Ok(found) => assert!(found.ranges().eq(expected.iter().cloned())),
            Err(error) => assert!(!is_nbdinfo && !has_dirty && !extents.is_empty(), "{error}"),
        }
        let at = usize::from(at) % map.len();
        assert!(read(&map.as_bytes()[..at]).is_err(), "a part was taken for the whole");
        let end = map.len().min(at + usize::from(removed));
        let other = [
            &map.as_bytes()[..at],
            &bytes[..bytes.len().min(32)],
            &map.as_bytes()[end..],
        ]
        .concat();
        check(&other, piece);
    }
    if let [Ok(one), Ok(other)] = maps.map(|map| read(map.as_bytes())) {
        assert_eq!(one, other);
    }
});
