//! Maps as the JSON of `nbdinfo` and `qemu-img map`: an array of extents that cover the image.
//!
//! Both programs describe extents of other kinds in the same form. A map of allocated blocks taken
//! for a dirty bitmap would call all data unchanged, so only what a dirty bitmap can give is
//! accepted.
//!
//! `qemu-img` knows nothing of dirty bitmaps. With the option `x-dirty-bitmap` it takes the bitmap's
//! bit for that of a hole, so "data": false means dirty.

use std::io::BufRead;

use super::{ChangedBlocks, ChangedBlocksError, Ranges, Result, buffered, excerpt};

/// Longest name or value, bytes.
const TOKEN_MAX: usize = 256;
/// Most members of an extent.
const MEMBERS_MAX: usize = 16;

/// Reads a map of extents to its end.
pub(super) fn read(input: impl BufRead) -> Result<ChangedBlocks, ChangedBlocksError> {
    let mut tokens = Tokens { input, extent: 0 };
    let mut ranges = Ranges::default();
    let mut end = 0;
    let mut program = None;
    tokens.expect(b'[', "an array")?;
    if tokens.peek()? == Some(b']') {
        tokens.expect(b']', "the end of the array")?;
    } else {
        loop {
            tokens.extent += 1;
            let members = tokens.object()?;
            let place = || format!("extent {}", tokens.extent);
            let extent = Extent::of(&members, &place)?;
            if *program.get_or_insert(extent.program) != extent.program {
                return Err(ChangedBlocksError::NoDirtyBitmap {
                    place: place(),
                    found: "the form of another program than before".to_owned(),
                });
            }
            if extent.offset != end {
                return Err(ChangedBlocksError::Gap {
                    place: place(),
                    expected: end,
                    found: extent.offset,
                });
            }
            if extent.is_dirty {
                ranges.add(extent.offset, extent.length, &place)?;
            }
            end = extent
                .offset
                .checked_add(extent.length)
                .ok_or_else(|| ChangedBlocksError::TooFar {
                    place: place(),
                    offset: extent.offset,
                    length: extent.length,
                })?;
            if tokens.either(b',', b']', "a comma or the end of the array")? == b']' {
                break;
            }
        }
    }
    tokens.end()?;
    let ranges = ranges.finish();
    if ranges.is_empty() && program == Some(Program::QemuImg) {
        return Err(ChangedBlocksError::AllClean);
    }
    Ok(ChangedBlocks {
        ranges,
        parent: None,
        size: Some(end),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Program {
    NbdInfo,
    QemuImg,
}

struct Extent {
    program: Program,
    offset: u64,
    length: u64,
    is_dirty: bool,
}

impl Extent {
    fn of(members: &[(String, Value)], place: &dyn Fn() -> String) -> Result<Extent, ChangedBlocksError> {
        let get = |name: &str| members.iter().find(|(found, _)| found == name).map(|(_, value)| value);
        let number = |name: &str, expected| match get(name) {
            Some(Value::Number(number)) => Ok(*number),
            _ => Err(ChangedBlocksError::Syntax {
                place: place(),
                expected,
                found: described(members),
            }),
        };
        let length = number("length", "the number \"length\"")?;
        let (program, offset, is_dirty) = match get("start") {
            // "offset" is a place in the file that holds the image.
            Some(_) => {
                let is_dirty = match (get("zero"), get("data")) {
                    (Some(Value::Bool(false)), Some(Value::Bool(data))) => Some(!data),
                    _ => None,
                };
                (Program::QemuImg, number("start", "the number \"start\"")?, is_dirty)
            }
            None => {
                let is_dirty = match (get("type"), get("description")) {
                    (Some(Value::Number(0)), Some(Value::Text(text))) if text == "clean" => Some(false),
                    (Some(Value::Number(1)), Some(Value::Text(text))) if text == "dirty" => Some(true),
                    _ => None,
                };
                let offset = number("offset", "the number \"offset\" or \"start\"")?;
                (Program::NbdInfo, offset, is_dirty)
            }
        };
        let is_dirty = is_dirty.ok_or_else(|| ChangedBlocksError::NoDirtyBitmap {
            place: place(),
            found: described(members),
        })?;
        Ok(Extent {
            program,
            offset,
            length,
            is_dirty,
        })
    }
}

/// Returns an extent as text, for messages.
fn described(members: &[(String, Value)]) -> String {
    let members: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("{name:?}: {value}"))
        .collect();
    format!("{{{}}}", members.join(", "))
}

/// A value that extents have. Both programs write whole numbers.
enum Value {
    Number(u64),
    Bool(bool),
    Text(String),
    Null,
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Null => f.write_str("null"),
        }
    }
}

/// Reads the tokens of JSON without nesting beyond an array of objects, in bounded memory.
struct Tokens<R> {
    input: R,
    /// Number of the current extent, from 1.
    extent: u64,
}

impl<R: BufRead> Tokens<R> {
    /// Returns the next byte that is no white space, without taking it.
    fn peek(&mut self) -> Result<Option<u8>, ChangedBlocksError> {
        loop {
            let bytes = buffered(&mut self.input)?;
            match bytes
                .iter()
                .position(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
            {
                _ if bytes.is_empty() => return Ok(None),
                None => {
                    let all = bytes.len();
                    self.input.consume(all);
                }
                Some(spaces) => {
                    let byte = bytes[spaces];
                    self.input.consume(spaces);
                    return Ok(Some(byte));
                }
            }
        }
    }

    /// Takes the byte that [`peek`](Tokens::peek) returned, if it is one of two.
    fn either(&mut self, one: u8, other: u8, expected: &'static str) -> Result<u8, ChangedBlocksError> {
        match self.peek()? {
            Some(byte) if byte == one || byte == other => {
                self.input.consume(1);
                Ok(byte)
            }
            found => Err(self.wrong(expected, found.as_slice())),
        }
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), ChangedBlocksError> {
        self.either(byte, byte, expected).map(drop)
    }

    /// Returns the error for something unexpected; nothing means the end.
    fn wrong(&self, expected: &'static str, found: &[u8]) -> ChangedBlocksError {
        if found.is_empty() {
            return ChangedBlocksError::CutShort { expected };
        }
        ChangedBlocksError::Syntax {
            place: format!("extent {}", self.extent),
            expected,
            found: format!("{:?}", excerpt(found)),
        }
    }

    /// Reads the members of an object.
    fn object(&mut self) -> Result<Vec<(String, Value)>, ChangedBlocksError> {
        self.expect(b'{', "an extent, which begins with {")?;
        let mut members = Vec::new();
        loop {
            let name = self.text()?;
            self.expect(b':', "a colon")?;
            let value = self.value()?;
            if members.len() == MEMBERS_MAX || members.iter().any(|(known, _)| *known == name) {
                return Err(self.wrong("at most 16 members, each once", name.as_bytes()));
            }
            members.push((name, value));
            if self.either(b',', b'}', "a comma or }")? == b'}' {
                return Ok(members);
            }
        }
    }

    fn value(&mut self) -> Result<Value, ChangedBlocksError> {
        if self.peek()? == Some(b'"') {
            return self.text().map(Value::Text);
        }
        let word = self.take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-'))?;
        match word.as_slice() {
            b"true" => Ok(Value::Bool(true)),
            b"false" => Ok(Value::Bool(false)),
            b"null" => Ok(Value::Null),
            digits if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
                let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
                number
                    .map(Value::Number)
                    .ok_or_else(|| self.wrong("a number below 2^64", digits))
            }
            [] => {
                let found = self.peek()?;
                Err(self.wrong("a whole number, a text, true, false or null", found.as_slice()))
            }
            found => Err(self.wrong("a whole number, a text, true, false or null", found)),
        }
    }

    /// Reads a text. Neither program writes escapes in the texts that matter; others are kept as they
    /// are.
    fn text(&mut self) -> Result<String, ChangedBlocksError> {
        self.expect(b'"', "a text")?;
        let mut is_escaped = false;
        let text = self.take_while(|byte| {
            let goes_on = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            goes_on
        })?;
        match buffered(&mut self.input)? {
            [] => return Err(self.wrong("the end of a text", &[])),
            _ => self.input.consume(1),
        }
        String::from_utf8(text).map_err(|error| self.wrong("a text in UTF-8", error.as_bytes()))
    }

    /// Takes the bytes for which `goes_on` holds.
    fn take_while(&mut self, mut goes_on: impl FnMut(u8) -> bool) -> Result<Vec<u8>, ChangedBlocksError> {
        let mut taken = Vec::new();
        loop {
            let bytes = buffered(&mut self.input)?;
            let length = bytes.iter().position(|&byte| !goes_on(byte));
            let part = &bytes[..length.unwrap_or(bytes.len())];
            if taken.len() + part.len() > TOKEN_MAX {
                taken.extend_from_slice(&part[..part.len().min(TOKEN_MAX)]);
                return Err(self.wrong("at most 256 bytes", &taken));
            }
            taken.extend_from_slice(part);
            let is_at_end = bytes.is_empty();
            let count = part.len();
            self.input.consume(count);
            if length.is_some() || is_at_end {
                return Ok(taken);
            }
        }
    }

    /// Checks that nothing follows.
    fn end(&mut self) -> Result<(), ChangedBlocksError> {
        match self.peek()? {
            None => Ok(()),
            found => Err(self.wrong("nothing after the array", found.as_slice())),
        }
    }
}
