//! Compiled patterns, and how one is compared with a path.
//!
//! A program is the text of a pattern, with each wildcard replaced by an opcode and its operands.
//! Opcodes are bytes that UTF-8 never contains, so every other byte stands for itself, and a
//! pattern without wildcards is its own program. Offsets in programs only lead forward: the
//! positions that a comparison has reached are worked through in ascending order, once for each
//! byte of the path. The time of a comparison is at most proportional to the product of both
//! lengths, whatever the pattern.

/// Any byte but a slash: `?`.
pub(super) const ANY: u8 = 0xF5;
/// Any number of bytes that are not slashes: `*`.
pub(super) const NAME: u8 = 0xF6;
/// Nothing, or any bytes up to a slash: `**/`. [`WITHIN`] follows.
pub(super) const FOLDERS: u8 = 0xF7;
/// The position of a comparison that is somewhere inside of [`FOLDERS`].
pub(super) const WITHIN: u8 = 0xF8;
/// Any number of any bytes: `**` at the end.
pub(super) const REST: u8 = 0xF9;
/// One byte of a class. The number of ranges follows, and the first and last byte of each.
pub(super) const CLASS: u8 = 0xFA;
/// Start of an alternative. The distance to the next alternative follows, in two bytes: 0 if this
/// is the last.
pub(super) const FORK: u8 = 0xFB;
/// End of an alternative that is not the last. The distance to the end of the group follows, in two
/// bytes.
pub(super) const JUMP: u8 = 0xFC;

/// `**/`.
pub(super) const IN_ANY_FOLDER: [u8; 2] = [FOLDERS, WITHIN];
/// Bytes of [`FORK`] and of [`JUMP`] with their operand.
pub(super) const LEAP: usize = 3;

/// Programs shorter than this are run without allocating, bytes.
const SHORT: usize = 256;

/// Returns the literal at the start of a program.
pub(super) fn literal_head(program: &[u8]) -> &[u8] {
    let end = program.iter().position(|&byte| byte >= ANY);
    &program[..end.unwrap_or(program.len())]
}

/// Returns whether a program matches all of `text`.
pub(super) fn matches(program: &[u8], text: &[u8]) -> bool {
    let head = literal_head(program);
    let Some(text) = text.strip_prefix(head) else {
        return false;
    };
    let program = &program[head.len()..];
    if program.is_empty() {
        text.is_empty()
    } else if program.len() < SHORT {
        run(program, text, &mut [0; SHORT / 64], &mut [0; SHORT / 64])
    } else {
        let words = program.len() / 64 + 1;
        run(program, text, &mut vec![0; words], &mut vec![0; words])
    }
}

/// A set of positions in a program: a bit for each, with one more for its end.
type Positions = [u64];

fn insert(positions: &mut Positions, at: usize) {
    positions[at / 64] |= 1 << (at % 64);
}

/// Runs a program from its start. Both sets are empty and have room for the end of the program.
fn run<'a>(program: &[u8], text: &[u8], mut now: &'a mut Positions, mut next: &'a mut Positions) -> bool {
    let words = program.len() / 64 + 1;
    insert(now, 0);
    for &byte in text {
        // Taking positions out leaves the set empty, ready to be the next one.
        for word in 0..words {
            while now[word] != 0 {
                let at = word * 64 + now[word].trailing_zeros() as usize;
                now[word] &= now[word] - 1;
                for free in free_moves(program, at).into_iter().flatten() {
                    insert(now, free);
                }
                for taken in moves(program, at, byte).into_iter().flatten() {
                    insert(next, taken);
                }
            }
        }
        if next[..words].iter().all(|&word| word == 0) {
            return false;
        }
        std::mem::swap(&mut now, &mut next);
    }
    for word in 0..words {
        while now[word] != 0 {
            let at = word * 64 + now[word].trailing_zeros() as usize;
            if at == program.len() {
                return true;
            }
            now[word] &= now[word] - 1;
            for free in free_moves(program, at).into_iter().flatten() {
                insert(now, free);
            }
        }
    }
    false
}

/// Returns the positions that are reached together with a position. They are larger.
fn free_moves(program: &[u8], at: usize) -> [Option<usize>; 2] {
    let leap = || usize::from(u16::from_le_bytes([program[at + 1], program[at + 2]]));
    match program.get(at) {
        Some(&(NAME | REST)) => [Some(at + 1), None],
        Some(&FOLDERS) => [Some(at + 1), Some(at + 2)],
        Some(&FORK) => [Some(at + LEAP), Some(at + leap()).filter(|&other| other != at)],
        Some(&JUMP) => [Some(at + leap()), None],
        _ => [None, None],
    }
}

/// Returns the positions that are reached from a position by a byte of the text.
fn moves(program: &[u8], at: usize, byte: u8) -> [Option<usize>; 2] {
    let only = |to: usize, taken: bool| [taken.then_some(to), None];
    match program.get(at) {
        None | Some(&(FOLDERS | FORK | JUMP)) => [None, None],
        Some(&ANY) => only(at + 1, byte != b'/'),
        Some(&NAME) => only(at, byte != b'/'),
        Some(&WITHIN) => [Some(at), (byte == b'/').then_some(at + 1)],
        Some(&REST) => only(at, true),
        Some(&CLASS) => {
            let ranges = &program[at + 2..at + 2 + 2 * usize::from(program[at + 1])];
            let mut ranges = ranges.chunks_exact(2);
            let end = at + 2 + ranges.len() * 2;
            only(end, ranges.any(|range| (range[0]..=range[1]).contains(&byte)))
        }
        Some(&literal) => only(at + 1, literal == byte),
    }
}
