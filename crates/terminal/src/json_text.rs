//! Texts in JSON: where one ends, what it says without escapes, and what is space outside of them.
//!
//! `serde_json` goes on anew after each escape, and bodies of HTML or JSON have one in every ten bytes. Here 64 bytes
//! are compared at once, and what was found in them is used up before the next are looked at.

use std::ops::Range;

use ibid_simd::{BLOCK, Backend, Kernel, Vector};

/// The first byte that may stand in a text as it is. Those below are written as escapes.
const FIRST_ALLOWED: u8 = 0x20;

/// What each byte stands for after a backslash; 0 for `u`, and for all that stand for nothing. Branches instead would
/// be mispredicted: what comes next changes too often.
const ESCAPED: [u8; 256] = {
    let mut escaped = [0; 256];
    let known = *b"\"\"\\\\//b\x08f\x0cn\nr\rt\t";
    let mut at = 0;
    while at < known.len() {
        escaped[known[at] as usize] = known[at + 1];
        at += 2;
    }
    escaped
};

/// Returns where the text that begins at `start`, after its quotation mark, has its other one; [`None`] if it has none,
/// or a byte before it that may not be there.
pub(crate) fn end(line: &[u8], start: usize) -> Option<usize> {
    backend().run(End { line, start })
}

struct End<'l> {
    line: &'l [u8],
    start: usize,
}

impl Kernel for End<'_> {
    type Output = Option<usize>;

    fn run_scalar(self) -> Option<usize> {
        let mut is_escaped = false;
        for (at, byte) in self.line.iter().enumerate().skip(self.start) {
            match byte {
                0..FIRST_ALLOWED => return None,
                b'"' if !is_escaped => return Some(at),
                _ => is_escaped = *byte == b'\\' && !is_escaped,
            }
        }
        None
    }

    #[inline(always)]
    fn run<V: Vector>(self, vector: V) -> Option<usize> {
        let (quote, backslash) = (vector.splat(b'"'), vector.splat(b'\\'));
        let first_allowed = vector.splat(FIRST_ALLOWED);
        let mut at = self.start;
        while let Some(block) = next::<BLOCK>(self.line, at) {
            let (mut found, mut refused) = (0, 0);
            for part in (0..BLOCK).step_by(V::LANES) {
                let bytes = vector.load(block, part);
                found |= (vector.equal(bytes, quote) | vector.equal(bytes, backslash)) << part;
                refused |= vector.below(bytes, first_allowed) << part;
            }
            let mut after = BLOCK;
            while found != 0 {
                let place = found.trailing_zeros() as usize;
                if block[place] == b'"' {
                    return (refused & ((1 << place) - 1) == 0).then_some(at + place);
                }
                // The byte after a backslash ends nothing. If that is the last, the next block begins with it.
                if place + 1 == BLOCK {
                    after = place;
                }
                found &= !(0b11 << place);
            }
            if refused != 0 {
                return None;
            }
            at += after;
        }
        let line = self.line;
        End { line, start: at }.run_scalar()
    }
}

/// Returns what is between the quotation marks of a text, without escapes; [`None`] if one is unknown, or stands for
/// half a character, without the other half.
pub(crate) fn unescaped(inner: &str) -> Option<Vec<u8>> {
    unescaped_by(backend(), inner)
}

/// Returns the backend that is preferred, or the fastest if a setting names none: here it decides no more than time.
fn backend() -> Backend {
    Backend::preferred().unwrap_or_else(|_| Backend::best())
}

fn unescaped_by(backend: Backend, inner: &str) -> Option<Vec<u8>> {
    // No escape is shorter than what it stands for.
    let mut text = vec![0; inner.len()];
    let length = backend.run(Unescape {
        inner,
        text: &mut text,
        read: 0,
        written: 0,
    })?;
    Some(shortened(text, length))
}

/// Cuts bytes off at a length, and gives back their memory if it is much.
fn shortened(mut bytes: Vec<u8>, length: usize) -> Vec<u8> {
    bytes.truncate(length);
    if length < bytes.capacity() / 4 * 3 {
        bytes.shrink_to_fit();
    }
    bytes
}

struct Unescape<'t> {
    inner: &'t str,
    /// As long as `inner`.
    text: &'t mut [u8],
    /// How much of `inner` was read.
    read: usize,
    /// How much of `text` was written: never more.
    written: usize,
}

impl Unescape<'_> {
    /// Writes what the escape stands for whose backslash is at `at`. Returns where it ends.
    #[inline(always)]
    fn escape(&mut self, at: usize) -> Option<usize> {
        let letter = *self.inner.as_bytes().get(at + 1)?;
        let character = ESCAPED[usize::from(letter)];
        if character == 0 {
            if letter != b'u' {
                return None;
            }
            let (character, length) = utf16_escape(&self.inner[at + 1..])?;
            let bytes = character.encode_utf8(&mut self.text[self.written..]);
            self.written += bytes.len();
            return Some(at + 1 + length);
        }
        self.text[self.written] = character;
        self.written += 1;
        Some(at + 2)
    }
}

impl Kernel for Unescape<'_> {
    /// How long the text is.
    type Output = Option<usize>;

    fn run_scalar(mut self) -> Option<usize> {
        let bytes = self.inner.as_bytes();
        loop {
            let length = bytes[self.read..].iter().position(|byte| *byte == b'\\');
            let plain = &bytes[self.read..][..length.unwrap_or(bytes.len() - self.read)];
            self.text[self.written..][..plain.len()].copy_from_slice(plain);
            self.written += plain.len();
            self.read += plain.len();
            if length.is_none() {
                return Some(self.written);
            }
            self.read = self.escape(self.read)?;
        }
    }

    #[inline(always)]
    fn run<V: Vector>(mut self, vector: V) -> Option<usize> {
        let bytes = self.inner.as_bytes();
        let backslash = vector.splat(b'\\');
        // More is copied than is before the next escape. There is room: the text is as long as the input.
        while let Some(blocks) = next(bytes, self.read) {
            let start = self.read;
            let mut found = 0;
            for part in (0..BLOCK).step_by(V::LANES) {
                found |= vector.equal(vector.load(blocks, part), backslash) << part;
            }
            // How much of the block was read.
            let mut place = 0;
            loop {
                let next = (found.trailing_zeros() as usize).min(BLOCK);
                copy(vector, blocks, place..next, self.text, self.written);
                self.written += next - place;
                if next == BLOCK {
                    self.read = start + BLOCK;
                    break;
                }
                self.read = self.escape(start + next)?;
                place = self.read - start;
                if place >= BLOCK {
                    break;
                }
                found &= !0 << place;
            }
        }
        self.run_scalar()
    }
}

/// Removes the space between the tokens of valid JSON. Numbers and the order of fields stay as they are, which
/// `serde_json::Value` would not keep.
pub(crate) fn compact(json: &str) -> Vec<u8> {
    compact_by(backend(), json)
}

fn compact_by(backend: Backend, json: &str) -> Vec<u8> {
    let json = json.as_bytes();
    let mut kept = vec![0; json.len()];
    let length = backend.run(Compact {
        json,
        kept: &mut kept,
        read: 0,
        written: 0,
        in_text: false,
    });
    shortened(kept, length)
}

struct Compact<'j> {
    json: &'j [u8],
    /// As long as `json`.
    kept: &'j mut [u8],
    /// How much of `json` was read.
    read: usize,
    /// How much of `kept` was written: never more.
    written: usize,
    /// Whether what was read ends within a text.
    in_text: bool,
}

impl Kernel for Compact<'_> {
    /// How much is kept.
    type Output = usize;

    fn run_scalar(mut self) -> usize {
        let mut is_escaped = false;
        for byte in &self.json[self.read..] {
            if self.in_text || !SPACES.contains(byte) {
                self.kept[self.written] = *byte;
                self.written += 1;
            }
            self.in_text ^= *byte == b'"' && !is_escaped;
            is_escaped = *byte == b'\\' && !is_escaped;
        }
        self.written
    }

    #[inline(always)]
    fn run<V: Vector>(mut self, vector: V) -> usize {
        let (quote, backslash) = (vector.splat(b'"'), vector.splat(b'\\'));
        let spaces = SPACES.map(|space| vector.splat(space));
        while let Some(blocks) = next(self.json, self.read) {
            let (mut quotes, mut backslashes, mut space) = (0, 0, 0);
            for part in (0..BLOCK).step_by(V::LANES) {
                let bytes = vector.load(blocks, part);
                quotes |= vector.equal(bytes, quote) << part;
                backslashes |= vector.equal(bytes, backslash) << part;
                for one in spaces {
                    space |= vector.equal(bytes, one) << part;
                }
            }
            let mut length = BLOCK;
            while backslashes != 0 {
                let place = backslashes.trailing_zeros();
                if place == BLOCK as u32 - 1 {
                    length = BLOCK - 1; // what it stands before is in the next block, which begins with it
                }
                let both = 0b11 << place;
                quotes &= !both;
                backslashes &= !both;
            }
            let in_text = if self.in_text { !0 } else { 0 };
            let in_text = in_text ^ odd_before(quotes);
            let mut dropped = space & !in_text;
            let mut place = 0;
            loop {
                let next = (dropped.trailing_zeros() as usize).min(length);
                copy(vector, blocks, place..next, self.kept, self.written);
                self.written += next - place;
                if next == length {
                    break;
                }
                place = next + (dropped >> next).trailing_ones() as usize;
                if place >= length {
                    break;
                }
                dropped &= !0 << place;
            }
            self.in_text = in_text >> (length - 1) & 1 == 1;
            self.read += length;
        }
        self.run_scalar()
    }
}

/// What JSON may have between its tokens.
pub(crate) const SPACES: [u8; 4] = [b' ', b'\n', b'\t', b'\r'];

/// Returns for each bit whether an odd number is set of it and those below.
#[inline(always)]
fn odd_before(bits: u64) -> u64 {
    [1, 2, 4, 8, 16, 32].iter().fold(bits, |bits, by| bits ^ bits << by)
}

/// Returns the next block. With another behind it, registers can be loaded wherever they begin in it.
#[inline(always)]
fn next<const BYTES: usize>(bytes: &[u8], at: usize) -> Option<&[u8; BYTES]> {
    bytes.get(at..).and_then(|rest| rest.first_chunk())
}

/// Copies this part of the first block to `at`, and what comes after it to the end of a register.
#[inline(always)]
fn copy<V: Vector>(vector: V, blocks: &[u8; 2 * BLOCK], part: Range<usize>, into: &mut [u8], at: usize) {
    let mut copied = 0;
    loop {
        vector.store(vector.load(blocks, part.start + copied), into, at + copied);
        copied += V::LANES;
        if copied >= part.len() {
            break;
        }
    }
}

/// Returns the character of an escape that begins with `u`, or of two for one character, and their length without the
/// first backslash.
fn utf16_escape(escape: &str) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = escape.get(at..at + 4)?;
        let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_number.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
    };
    let first = unit(1)?;
    if let Some(character) = char::from_u32(first.into()) {
        return Some((character, 5));
    }
    let second = escape.get(5..7).filter(|next| *next == "\\u").and_then(|_| unit(7))?;
    let character = char::decode_utf16([first, second]).next()?.ok()?;
    Some((character, 11))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts that all backends read a text as `serde_json` does, wherever it begins, and returns whether it is one.
    #[track_caller]
    fn is_read_alike(json: &str) -> bool {
        let expected: Option<String> = serde_json::from_str(json).ok();
        let inner = &json[1..json.len() - 1];
        for backend in Backend::available() {
            for padding in [0, 1, 31, 62, 63, 64, 65, 130] {
                let around = "x".repeat(padding);
                let padded = unescaped_by(backend, &format!("{around}{inner}{around}"));
                let text = expected.as_ref().map(|text| format!("{around}{text}{around}"));
                assert_eq!(
                    padded,
                    text.map(String::into_bytes),
                    "{json} after {padding} with {backend:?}"
                );
            }
        }
        expected.is_some()
    }

    /// Returns what returns numbers below its argument, the same ones each time.
    fn numbers() -> impl FnMut(usize) -> usize {
        let mut state = 1_u64;
        move |below| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        }
    }

    #[test]
    fn escapes_are_read_as_serde_json_reads_them() {
        for text in [
            "",
            "\0\u{1f}\u{7f}\u{80}",
            "\"\\/\u{8}\u{c}\n\r\t",
            "é\\😀\\\\\"é",
            "\u{ffff}\u{10ffff}",
        ] {
            assert!(is_read_alike(&serde_json::to_string(text).unwrap()));
        }
        for escape in [
            "\\/",
            "\\b",
            "\\u00e9",
            "\\ud83d\\uDE00",
            "\\ud83d\\ude00é",
            "a\\u0000b",
        ] {
            assert!(is_read_alike(&format!("\"{escape}\"")));
        }
        for wrong in [
            "\\x",
            "\\u",
            "\\u12",
            "\\u12é",
            "\\u+123",
            "\\ud83d\\u",
            "\\ud83d\\ué000",
            "\\é",
        ] {
            assert!(!is_read_alike(&format!("\"{wrong}\"")), "{wrong}");
        }
    }

    #[test]
    fn halves_of_characters_are_read_as_serde_json_reads_them() {
        let mut halves = 0;
        for first in 0..=u16::MAX {
            for after in [
                "", "é", "\\n", "\\u0041", "\\ud800", "\\udbff", "\\udc00", "\\udfff", "dc00",
            ] {
                let inner = format!("\\u{first:04x}{after}");
                let expected: Option<String> = serde_json::from_str(&format!("\"{inner}\"")).ok();
                halves += usize::from(expected.is_none());
                assert_eq!(unescaped(&inner), expected.map(String::into_bytes), "{inner}");
            }
        }
        assert!(halves > 10_000);
        assert_eq!(unescaped("\\"), None);
    }

    /// Texts of runs of backslashes, quotation marks and others, of all lengths around those of blocks.
    #[test]
    fn texts_end_where_their_bytes_one_by_one_say() {
        let mut below = numbers();
        let (mut ended, mut refused) = (0, 0);
        for case in 0..20_000 {
            let rare = 1 + below(100);
            let length = below(300);
            let line: Vec<u8> = (0..length)
                .map(|_| match below(2 * rare) {
                    0 => b'\\',
                    1 => [b'"', b'\\', b'\\', b'\n'][below(4)],
                    _ => b'x',
                })
                .collect();
            let start = below(70);
            let expected = End { line: &line, start }.run_scalar();
            for backend in Backend::available() {
                let found = backend.run(End { line: &line, start });
                assert_eq!(found, expected, "case {case} with {backend:?}");
            }
            ended += usize::from(expected.is_some());
            refused += usize::from(expected.is_none() && line.contains(&b'\n'));
        }
        assert!(ended > 1000 && refused > 1000, "{ended}, {refused}");
    }

    /// Pieces of JSON in all orders of some seed, with space between them, of all lengths around those of blocks.
    #[test]
    fn only_space_outside_of_texts_is_dropped() {
        let pieces = [
            "{",
            "}",
            "17",
            ",",
            " ",
            "\n",
            "\t\r ",
            "                                       ",
            "\"\"",
            "\"a b\"",
            "\"\\\"\"",
            "\"\\\\\"",
            "\" \\\" \\\\ \\\\\\\" \"",
            "\"é \\n\"",
            "\"a text that is longer than a block, with spaces and one \\\" between two \\\\\\\\ backslashes\"",
        ];
        let mut below = numbers();
        let mut dropped = 0;
        for case in 0..3000 {
            let mut json = String::new();
            for _ in 0..case % 40 {
                json += pieces[below(pieces.len())];
            }
            let expected = compact_by(Backend::scalar(), &json);
            dropped += json.len() - expected.len();
            for backend in Backend::available() {
                assert!(compact_by(backend, &json) == expected, "{json} with {backend:?}");
            }
        }
        assert!(dropped > 10_000, "{dropped}");
        assert_eq!(compact("{ \"a b\\\" c\" :\n1 }"), b"{\"a b\\\" c\":1}");
    }

    #[test]
    fn a_text_of_escapes_takes_no_more_memory_than_it_needs() {
        let text = unescaped(&"\\u00e9".repeat(1000)).unwrap();
        assert_eq!((text.len(), text.capacity()), (2000, 2000));
    }
}
