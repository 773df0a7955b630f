//! Translation of patterns into [programs](super::program).

use std::iter::Peekable;
use std::str::Chars;

use super::Parsed;
use super::program::{ANY, CLASS, FOLDERS, FORK, IN_ANY_FOLDER, JUMP, LEAP, NAME, REST, WITHIN, literal_head};

/// Facts about a program that tell where to look for it, as offsets in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Start of the literal at the end.
    tail: usize,
    /// Start of what the last name of a path is compared with, if nothing after it matches slashes.
    name: Option<usize>,
    /// Literal bytes that each matching path contains; see [`bytes_in`].
    pub(super) requires: u64,
}

impl Shape {
    /// Returns the literal at the end of a program.
    pub(super) fn tail<'p>(&self, program: &'p [u8]) -> &'p [u8] {
        &program[self.tail..]
    }

    /// Returns the literal that the last name of each matching path starts with.
    pub(super) fn name_head<'p>(&self, program: &'p [u8]) -> &'p [u8] {
        self.name.map_or(&[], |start| literal_head(&program[start..]))
    }

    /// Returns whether a program matches names in any folder: it starts with [`IN_ANY_FOLDER`], and
    /// the rest of it decides by the last name of a path alone.
    pub(super) fn matches_names(&self, program: &[u8]) -> bool {
        self.name.is_some_and(|start| program[..start] == IN_ANY_FOLDER)
    }
}

/// Returns a set of bytes as bits; 4 bytes share a bit.
pub(super) fn bytes_in(text: &[u8]) -> u64 {
    text.iter().fold(0, |set, byte| set | 1 << (byte % 64))
}

/// Appends the program of a pattern. What is appended before an error is to be removed again.
///
/// # Errors
/// The reason why it is not a pattern.
pub(super) fn compile(pattern: &str, ignore_case: bool, program: &mut Vec<u8>) -> Parsed<Shape> {
    let start = program.len();
    let mut compiler = Compiler {
        text: pattern.chars().peekable(),
        before: None,
        current: None,
        ignore_case,
        groups: Vec::new(),
        jumps: Vec::new(),
        branch: Branch { start, last: None },
        tail: start,
        name: Some(start),
        requires: 0,
        program,
    };
    compiler.run()?;
    if !compiler.groups.is_empty() {
        return Err("unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)".into());
    }
    let Compiler {
        branch,
        mut tail,
        mut name,
        requires,
        ..
    } = compiler;
    // Alone, `**` also matches what is not in a folder.
    if program[start..] == IN_ANY_FOLDER && branch.last == Some(start) {
        program.truncate(start);
        program.push(REST);
        (tail, name) = (program.len(), None);
    }
    Ok(Shape {
        tail: tail - start,
        name: name.map(|name| name - start),
        requires,
    })
}

/// An alternative, or the pattern around all groups.
#[derive(Clone, Copy)]
struct Branch {
    /// Where its program starts.
    start: usize,
    /// Where the program of its last token starts, if it has a token.
    last: Option<usize>,
}

/// A group of alternatives that is still open.
struct Group {
    start: usize,
    /// The branch that contains the group.
    around: Branch,
    /// `FORK` of the current alternative, and of the one before it.
    fork: usize,
    fork_before: usize,
    /// Number of earlier entries in `jumps`.
    jumps: usize,
}

struct Compiler<'a> {
    text: Peekable<Chars<'a>>,
    before: Option<char>,
    current: Option<char>,
    ignore_case: bool,
    program: &'a mut Vec<u8>,
    groups: Vec<Group>,
    /// Each `JUMP` in open groups.
    jumps: Vec<usize>,
    branch: Branch,
    /// As in [`Shape`].
    tail: usize,
    name: Option<usize>,
    requires: u64,
}

impl Compiler<'_> {
    fn run(&mut self) -> Parsed<()> {
        while let Some(c) = self.next() {
            match c {
                '?' => self.wildcard(&[ANY], false),
                '*' => self.star(),
                '[' => self.class()?,
                '{' => self.open_group(),
                '}' => self.close_group()?,
                ',' if !self.groups.is_empty() => {
                    self.end_alternative();
                }
                '\\' => match self.next() {
                    Some(c) => self.literal(c),
                    None => return Err("dangling '\\'".into()),
                },
                c => self.literal(c),
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Option<char> {
        self.before = self.current;
        self.current = self.text.next();
        self.current
    }

    fn literal(&mut self, c: char) {
        self.begin_token();
        let c = if self.ignore_case { super::lower_char(c) } else { c };
        let start = self.program.len();
        let mut utf8 = [0; 4];
        self.program.extend(c.encode_utf8(&mut utf8).bytes());
        if self.groups.is_empty() {
            self.requires |= bytes_in(&self.program[start..]);
        }
        if c == '/' {
            self.begin_name();
        }
    }

    fn wildcard(&mut self, program: &[u8], matches_slash: bool) {
        self.begin_token();
        self.program.extend_from_slice(program);
        self.end_wildcard(matches_slash);
    }

    fn begin_token(&mut self) {
        self.branch.last = Some(self.program.len());
    }

    fn end_wildcard(&mut self, matches_slash: bool) {
        if self.groups.is_empty() {
            self.tail = self.program.len();
        }
        if matches_slash {
            self.name = None;
        }
    }

    /// Notes that what precedes ends with a slash, or with nothing.
    fn begin_name(&mut self) {
        self.name = self.groups.is_empty().then_some(self.program.len());
    }

    /// Two asterisks match folders where they stand between slashes, commas and ends.
    fn star(&mut self) {
        let is_slash = |c: Option<char>| c == Some('/');
        let before = self.before;
        if self.text.peek() != Some(&'*') {
            return self.wildcard(&[NAME], false);
        }
        self.next();
        let after = self.text.peek().copied();
        let Some(last) = self.branch.last else {
            if !is_slash(after) && after.is_some() {
                return self.wildcard(&[NAME], false);
            }
            self.next();
            self.wildcard(&IN_ANY_FOLDER, false);
            return self.begin_name();
        };
        let in_group = !self.groups.is_empty();
        let begins = is_slash(before) || in_group && matches!(before, Some(',' | '{'));
        let ends = after.is_none() || in_group && matches!(after, Some(',' | '}'));
        if !begins || !ends && !is_slash(after) {
            return self.wildcard(&[NAME], false);
        }
        if !ends {
            self.next();
        }
        if self.program[last] == FOLDERS {
            return;
        }
        // The slash before is part of it.
        self.program.truncate(last);
        if ends {
            self.wildcard(&[b'/', REST], true);
        } else {
            self.wildcard(&[b'/', FOLDERS, WITHIN], false);
            self.begin_name();
        }
    }

    fn class(&mut self) -> Parsed<()> {
        let mut ranges: Vec<(char, char)> = Vec::new();
        let negated = matches!(self.text.peek(), Some('!' | '^'));
        if negated {
            self.next();
        }
        let mut in_range = false;
        loop {
            let c = self.next().ok_or("unclosed character class; missing ']'")?;
            match (c, ranges.last_mut()) {
                (']', Some(_)) => break,
                ('-', Some(_)) if !in_range => in_range = true,
                (c, Some(range)) if in_range => {
                    if c < range.0 {
                        return Err(format!("invalid range; '{}' > '{c}'", range.0));
                    }
                    range.1 = c;
                    in_range = false;
                }
                (c, _) => ranges.push((c, c)),
            }
        }
        if in_range {
            ranges.push(('-', '-'));
        }
        let class = Class::new(&ranges, negated, self.ignore_case);
        self.begin_token();
        class.write(self.program);
        self.end_wildcard(class.0[usize::from(b'/')]);
        Ok(())
    }

    fn open_group(&mut self) {
        let start = self.program.len();
        self.groups.push(Group {
            start,
            around: self.branch,
            fork: start,
            fork_before: start,
            jumps: self.jumps.len(),
        });
        self.begin_alternative();
    }

    fn begin_alternative(&mut self) {
        self.program.extend([FORK, 0, 0]);
        self.branch = Branch {
            start: self.program.len(),
            last: None,
        };
    }

    /// Begins the next alternative, in place of the current one if that is empty.
    fn end_alternative(&mut self) {
        if self.branch.start == self.program.len() {
            self.branch.last = None;
            return;
        }
        let group = self.groups.last_mut().expect("a comma outside of groups is a literal");
        self.jumps.push(self.program.len());
        self.program.extend([JUMP, 0, 0]);
        let end = self.program.len();
        leap(self.program, group.fork, end);
        (group.fork_before, group.fork) = (group.fork, end);
        self.begin_alternative();
    }

    fn close_group(&mut self) -> Parsed<()> {
        let Some(group) = self.groups.pop() else {
            return Err("unopened alternate group; missing '{' (maybe escape '}' with '[}]'?)".into());
        };
        if self.branch.start == self.program.len() {
            // Without its last alternative, which is empty, and without the jump before that.
            let is_only = group.fork == group.start;
            self.program.truncate(group.fork - if is_only { 0 } else { LEAP });
            if !is_only {
                self.jumps.pop();
                leap(self.program, group.fork_before, group.fork_before);
            }
        }
        let end = self.program.len();
        for jump in self.jumps.drain(group.jumps..) {
            leap(self.program, jump, end);
        }
        self.branch = Branch {
            start: group.around.start,
            last: Some(group.start),
        };
        self.end_wildcard(false);
        Ok(())
    }
}

/// Sets the target of the `FORK` or `JUMP` at an offset.
fn leap(program: &mut [u8], at: usize, to: usize) {
    let distance = u16::try_from(to - at).expect("a pattern of at most PATTERN_MAX bytes has a program below 64 KiB");
    program[at + 1..at + LEAP].copy_from_slice(&distance.to_le_bytes());
}

/// Bytes that a class matches.
///
/// Characters beyond ASCII are sequences of bytes here, and a class matches one byte: `[é]` matches
/// each byte of `é`, but only one.
struct Class([bool; 256]);

impl Class {
    fn new(ranges: &[(char, char)], negated: bool, ignore_case: bool) -> Class {
        let mut class = Class([false; 256]);
        for &(first, last) in ranges {
            let (mut utf8, mut utf8_last) = ([0; 4], [0; 4]);
            let first_bytes = first.encode_utf8(&mut utf8).as_bytes();
            let last_bytes = last.encode_utf8(&mut utf8_last).as_bytes();
            for &byte in first_bytes {
                class.0[usize::from(byte)] = true;
            }
            if first != last {
                let from = first_bytes[first_bytes.len() - 1];
                for byte in (from..=last_bytes[0]).chain(last_bytes.iter().copied()) {
                    class.0[usize::from(byte)] = true;
                }
            }
        }
        if ignore_case {
            for (lower, upper) in (b'a'..=b'z').zip(b'A'..=b'Z') {
                // Paths are made lower-case before they are compared.
                class.0[usize::from(lower)] |= class.0[usize::from(upper)];
            }
        }
        if negated {
            class.0 = class.0.map(|matches| !matches);
        }
        class
    }

    fn write(&self, program: &mut Vec<u8>) {
        let at = program.len();
        program.extend([CLASS, 0]);
        let mut bytes = (0..=u8::MAX).filter(|&byte| self.0[usize::from(byte)]).peekable();
        while let Some(first) = bytes.next() {
            let mut last = first;
            while let Some(next) = bytes.next_if(|&next| next - last == 1) {
                last = next;
            }
            program.extend([first, last]);
            program[at + 1] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::PATTERN_MAX;

    #[test]
    fn a_pattern_of_any_kind_has_a_program_in_which_offsets_fit() {
        let groups = |text: &str| format!("{{{}}}", text.repeat((PATTERN_MAX - 2) / text.len()));
        let deep = "{".repeat(PATTERN_MAX / 2) + &"}".repeat(PATTERN_MAX / 2);
        let deep_with_text = "{a,".repeat(PATTERN_MAX / 4) + &"}".repeat(PATTERN_MAX / 4);
        let classes = "[acegikmoqsuwy]".repeat(PATTERN_MAX / 15);
        for pattern in [
            groups("a,"),
            groups("*,"),
            groups("{a},"),
            groups("**/,"),
            deep,
            deep_with_text,
            classes,
        ] {
            let mut program = Vec::new();
            compile(&pattern, false, &mut program).unwrap();
            assert!(program.len() < 1 << 16, "{}", program.len());
        }
    }

    #[test]
    fn a_literal_is_its_own_program() {
        let mut program = Vec::new();
        let shape = compile("Grüße/\\*a", true, &mut program).unwrap();
        assert_eq!(program, "grüße/*a".as_bytes());
        assert_eq!(literal_head(&program), program);
        assert_eq!(shape.name_head(&program), b"*a");
    }
}
