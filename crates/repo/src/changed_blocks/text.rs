//! Maps as lines of text.

use std::io::BufRead;

use super::{ChangedBlocks, ChangedBlocksError, Ranges, Result, buffered, excerpt};

/// Longest line, bytes.
const LINE_MAX: usize = 4096;
/// Fewest digits of a snapshot's id.
const ID_MIN: usize = 8;
/// Digits of a whole id.
const ID_MAX: usize = 32;

const LINES: &str = "OFFSET LENGTH in bytes, or one of the lines `parent ID`, `size BYTES` and `end`";

/// What a line says.
enum Statement {
    Nothing,
    Range { offset: u64, length: u64 },
    Parent(String),
    Size(u64),
    End,
}

impl Statement {
    /// Returns what a line says, or what was expected of it.
    fn of(line: &[u8]) -> Result<Statement, &'static str> {
        let words: Vec<&[u8]> = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
            .collect();
        match words.as_slice() {
            [] => Ok(Statement::Nothing),
            [first, ..] if first.starts_with(b"#") => Ok(Statement::Nothing),
            [b"end"] => Ok(Statement::End),
            [b"parent", id] => {
                let is_id = (ID_MIN..=ID_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_hexdigit);
                let id = is_id.then(|| String::from_utf8_lossy(id).to_ascii_lowercase());
                id.map(Statement::Parent)
                    .ok_or("`parent` and 8 to 32 digits of a snapshot's id")
            }
            [b"size", bytes] => decimal(bytes)
                .map(Statement::Size)
                .ok_or("`size` and a number of bytes"),
            [offset, length] => decimal(offset)
                .zip(decimal(length))
                .map(|(offset, length)| Statement::Range { offset, length })
                .ok_or(LINES),
            _ => Err(LINES),
        }
    }
}

/// Reads a map of lines to its end.
pub(super) fn read(mut input: impl BufRead) -> Result<ChangedBlocks, ChangedBlocksError> {
    let mut map = ChangedBlocks::default();
    let mut ranges = Ranges::default();
    let mut line = Vec::new();
    let mut is_whole = false;
    for number in 1u64.. {
        let place = || format!("line {number}");
        let end = next_line(&mut input, &mut line, &place)?;
        let wrong = |expected| ChangedBlocksError::Syntax {
            place: place(),
            expected,
            found: format!("{:?}", excerpt(line.trim_ascii())),
        };
        match Statement::of(&line).map_err(wrong)? {
            Statement::Nothing => {}
            _ if is_whole => return Err(wrong("nothing after the line `end`")),
            Statement::End => is_whole = true,
            // Its number may have lost its last digits.
            _ if end == LineEnd::OfMap => {
                return Err(ChangedBlocksError::CutShort {
                    expected: "a line feed after the last line, or a line `end`",
                });
            }
            Statement::Parent(id) => set(&mut map.parent, id).map_err(|()| wrong("one parent only"))?,
            Statement::Size(bytes) => set(&mut map.size, bytes).map_err(|()| wrong("one size only"))?,
            Statement::Range { offset, length } => ranges.add(offset, length, &place)?,
        }
        if end == LineEnd::OfMap {
            break;
        }
    }
    map.ranges = ranges.finish();
    if map.ranges.is_empty() && !is_whole {
        return Err(ChangedBlocksError::Empty);
    }
    Ok(map)
}

/// What ended a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    Feed,
    OfMap,
}

/// Reads a line without its line feed.
fn next_line(
    input: &mut impl BufRead,
    line: &mut Vec<u8>,
    place: &dyn Fn() -> String,
) -> Result<LineEnd, ChangedBlocksError> {
    line.clear();
    loop {
        let bytes = buffered(input)?;
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let length = end.unwrap_or(bytes.len());
        line.extend_from_slice(&bytes[..length]);
        let is_empty = bytes.is_empty();
        input.consume(length + usize::from(end.is_some()));
        if line.len() > LINE_MAX {
            return Err(ChangedBlocksError::Syntax {
                place: place(),
                expected: "at most 4096 bytes",
                found: format!("{:?}", excerpt(line)),
            });
        }
        if end.is_some() {
            return Ok(LineEnd::Feed);
        }
        if is_empty {
            return Ok(LineEnd::OfMap);
        }
    }
}

/// Sets a value that may be given again, but not differently.
fn set<T: PartialEq>(place: &mut Option<T>, value: T) -> Result<(), ()> {
    match place {
        Some(found) if *found != value => Err(()),
        _ => {
            *place = Some(value);
            Ok(())
        }
    }
}

/// Returns a number of decimal digits alone.
fn decimal(word: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(word).ok()?;
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
}
