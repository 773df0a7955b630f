//! Many patterns, found by literals that the paths they match contain.
//!
//! A pattern is entered under one literal and the place where that must be: the whole path, its
//! first or last names, a folder, the start of the last name, or the end of the path. A path is
//! then compared only with the patterns whose literal it has in that place, and with those that
//! have no such literal. Patterns under one literal form a chain, the latest first, because the
//! latest pattern that matches decides. Literals are kept as hashes alone: a comparison with the
//! program follows anyway.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use super::Parsed;
use super::parse::{Shape, bytes_in};
use super::program::{self, IN_ANY_FOLDER, literal_head};

/// Longest start of a name, and end of a path, that patterns are entered under, bytes.
const PART_MAX: usize = 64;
/// Memory of a pattern beside its program, bytes: itself, and its place in the hash table, whose
/// capacity is up to 16/7 of what it holds.
const ENTRY_BYTES: usize = size_of::<Pattern>() + (size_of::<(u64, Chain)>() + 1) * 16 / 7;

/// What a pattern does if it matches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meaning {
    /// Whether it takes back what earlier patterns match.
    pub(super) negates: bool,
    /// Whether it matches nothing but directories.
    pub(super) only_directories: bool,
}

#[derive(Clone, Debug)]
struct Pattern {
    /// Offset of the program; it ends where the next one starts.
    program: u32,
    /// The pattern before it in its chain. [`Chain::count`] says where the chain ends.
    older: u32,
    meaning: Meaning,
    /// Whether the program matches names in any folder, as [`Shape::matches_names`] says.
    matches_names: bool,
}

/// Patterns with a literal in common.
#[derive(Clone, Copy, Debug)]
struct Chain {
    newest: u32,
    count: u32,
}

/// A pattern without a literal to enter it under.
#[derive(Clone, Debug)]
struct Other {
    number: u32,
    requires: u64,
}

/// Place of a literal in a path.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Place {
    /// All of it.
    Whole,
    /// All names from one on.
    LastNames,
    /// All names up to one, which is not the last.
    FirstNames,
    /// Any name but the last.
    Folder,
    /// The start of the last name.
    NameStart,
    /// The end of all of it.
    End,
}

/// Patterns, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    programs: Vec<u8>,
    patterns: Vec<Pattern>,
    chains: HashMap<u64, Chain, BuildHasherDefault<Hashed>>,
    others: Vec<Other>,
    hasher: RandomState,
    has_whole: bool,
    has_folders: bool,
    /// Numbers of slashes in literals that are last names, and first names: bit `n` for `n`, and
    /// the highest bit for as many and more.
    last_names: u64,
    first_names: u64,
    /// Lengths of literals: bit `n` for `n + 1` bytes.
    name_starts: u64,
    ends: u64,
}

impl Table {
    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns the memory that the patterns take, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.programs.len() + self.patterns.len() * ENTRY_BYTES + self.others.len() * size_of::<Other>()
    }

    /// Adds a pattern. `compile` appends its program.
    pub(super) fn add(&mut self, meaning: Meaning, compile: impl FnOnce(&mut Vec<u8>) -> Parsed<Shape>) -> Parsed<()> {
        let start = self.programs.len();
        let shape = compile(&mut self.programs).inspect_err(|_| self.programs.truncate(start))?;
        let number = self.patterns.len() as u32;
        let program = &self.programs[start..];
        let matches_names = shape.matches_names(program);
        // Of several literals, the one that fewest patterns share, and then the longest.
        let keys = literals(program, &shape).map(|(place, literal)| {
            let key = self.key(place, literal);
            let count = self.chains.get(&key).map_or(0, |chain| chain.count);
            (count, usize::MAX - literal.len(), place, literal, key)
        });
        let mut older = 0;
        if let Some((count, _, place, literal, key)) = keys.min_by_key(|&(count, length, ..)| (count, length)) {
            let slashes = || 1 << literal.iter().filter(|&&byte| byte == b'/').count().min(63);
            match place {
                Place::Whole => self.has_whole = true,
                Place::Folder => self.has_folders = true,
                Place::LastNames => self.last_names |= slashes(),
                Place::FirstNames => self.first_names |= slashes(),
                Place::NameStart => self.name_starts |= 1 << (literal.len() - 1),
                Place::End => self.ends |= 1 << (literal.len() - 1),
            }
            let chain = Chain {
                newest: number,
                count: count + 1,
            };
            older = self.chains.insert(key, chain).map_or(0, |chain| chain.newest);
        } else {
            self.others.push(Other {
                number,
                requires: shape.requires,
            });
        }
        self.patterns.push(Pattern {
            program: start as u32,
            older,
            meaning,
            matches_names,
        });
        Ok(())
    }

    /// Gives back memory that was kept for further patterns.
    pub(super) fn finish(&mut self) {
        self.programs.shrink_to_fit();
        self.patterns.shrink_to_fit();
        self.chains.shrink_to_fit();
        self.others.shrink_to_fit();
    }

    /// Returns the meaning of the last pattern that matches a path without leading slash.
    pub(super) fn last_match(&self, path: &[u8], is_directory: bool) -> Option<Meaning> {
        let mut search = Search {
            table: self,
            path,
            name: &path[last_slash(path).map_or(0, |at| at + 1)..],
            is_directory,
            found: None,
        };
        search.by_last_names();
        search.by_folders();
        search.by_parts();
        search.others();
        search.found.map(|number| self.patterns[number as usize].meaning)
    }

    fn key(&self, place: Place, literal: &[u8]) -> u64 {
        self.hasher.hash_one((place, literal))
    }

    fn program(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let end = self
            .patterns
            .get(number + 1)
            .map_or(self.programs.len(), |next| next.program as usize);
        &self.programs[self.patterns[number].program as usize..end]
    }
}

fn last_slash(path: &[u8]) -> Option<usize> {
    path.iter().rposition(|&byte| byte == b'/')
}

/// Returns literals that each path has that matches a program, and where.
fn literals<'p>(program: &'p [u8], shape: &Shape) -> impl Iterator<Item = (Place, &'p [u8])> {
    let (head, tail) = (literal_head(program), shape.tail(program));
    if head.len() == program.len() {
        return [Some((Place::Whole, head)), None, None, None].into_iter().flatten();
    }
    let end = if program[..program.len() - tail.len()] == IN_ANY_FOLDER {
        Some((Place::LastNames, tail))
    } else if let Some(slash) = tail.iter().position(|&byte| byte == b'/') {
        Some((Place::LastNames, &tail[slash + 1..]))
    } else {
        let end = &tail[tail.len().saturating_sub(PART_MAX)..];
        (!end.is_empty()).then_some((Place::End, end))
    };
    let start = last_slash(head).map(|slash| (Place::FirstNames, &head[..slash]));
    let folder = program.strip_prefix(&IN_ANY_FOLDER).and_then(|program| {
        let head = literal_head(program);
        let slash = head.iter().position(|&byte| byte == b'/')?;
        Some((Place::Folder, &head[..slash]))
    });
    let name = shape.name_head(program);
    let name = &name[..name.len().min(PART_MAX)];
    let name = (!name.is_empty()).then_some((Place::NameStart, name));
    [end, start, folder, name].into_iter().flatten()
}

/// A path that is compared with patterns.
struct Search<'a> {
    table: &'a Table,
    path: &'a [u8],
    name: &'a [u8],
    is_directory: bool,
    /// The latest pattern that matches, so far.
    found: Option<u32>,
}

impl Search<'_> {
    fn by_last_names(&mut self) {
        let (table, path) = (self.table, self.path);
        if table.has_whole {
            self.chain(Place::Whole, path);
        }
        let mut slashes = 0;
        let mut end = path.len();
        while table.last_names >> slashes != 0 {
            let slash = last_slash(&path[..end]);
            if table.last_names >> slashes & 1 != 0 {
                self.chain(Place::LastNames, &path[slash.map_or(0, |at| at + 1)..]);
            }
            let Some(slash) = slash else { break };
            end = slash;
            slashes = 63.min(slashes + 1);
        }
    }

    fn by_folders(&mut self) {
        let (table, path) = (self.table, self.path);
        let (mut start, mut slashes) = (0, 0);
        while table.has_folders || table.first_names >> slashes != 0 {
            let Some(length) = path[start..].iter().position(|&byte| byte == b'/') else {
                break;
            };
            let end = start + length;
            if table.has_folders {
                self.chain(Place::Folder, &path[start..end]);
            }
            if table.first_names >> slashes & 1 != 0 {
                self.chain(Place::FirstNames, &path[..end]);
            }
            start = end + 1;
            slashes = 63.min(slashes + 1);
        }
    }

    fn by_parts(&mut self) {
        for length in lengths(self.table.name_starts).take_while(|&length| length <= self.name.len()) {
            self.chain(Place::NameStart, &self.name[..length]);
        }
        for length in lengths(self.table.ends).take_while(|&length| length <= self.path.len()) {
            self.chain(Place::End, &self.path[self.path.len() - length..]);
        }
    }

    fn chain(&mut self, place: Place, literal: &[u8]) {
        let Some(&chain) = self.table.chains.get(&self.table.key(place, literal)) else {
            return;
        };
        let mut number = chain.newest;
        for _ in 0..chain.count {
            if self.compare(number) {
                return;
            }
            number = self.table.patterns[number as usize].older;
        }
    }

    fn others(&mut self) {
        if self.table.others.is_empty() {
            return;
        }
        let contains = bytes_in(self.path);
        for other in self.table.others.iter().rev() {
            if other.requires & !contains == 0 && self.compare(other.number) {
                return;
            }
        }
    }

    /// Compares with a pattern. Returns whether no earlier pattern matters any more: this one
    /// matches, or one after it does.
    fn compare(&mut self, number: u32) -> bool {
        if self.found.is_some_and(|found| found >= number) {
            return true;
        }
        let pattern = &self.table.patterns[number as usize];
        if pattern.meaning.only_directories && !self.is_directory {
            return false;
        }
        let program = self.table.program(number);
        let matches = match pattern.matches_names {
            true => program::matches(&program[IN_ANY_FOLDER.len()..], self.name),
            false => program::matches(program, self.path),
        };
        if matches {
            self.found = Some(number);
        }
        matches
    }
}

/// Returns the lengths in a set of them, in ascending order.
fn lengths(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let length = set.trailing_zeros() as usize + 1;
        (set != 0).then(|| {
            set &= set - 1;
            length
        })
    })
}

/// Hasher of keys that are hashes already.
#[derive(Clone, Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

#[cfg(test)]
mod tests {
    use crate::pattern::PatternsBuilder;

    #[test]
    fn a_path_is_compared_with_few_of_many_patterns() {
        let kinds: [fn(usize) -> String; 9] = [
            |n| format!("/home/anna/{}/{n}", n % 7),
            |n| format!("name-{n}"),
            |n| format!("folder/{n}/"),
            |n| format!("*.{n}"),
            |n| format!("{n}-*.tmp"),
            |n| format!("/home/*/{n}"),
            |n| format!("/home/{n}/**/*.o"),
            |n| format!("{n}/**"),
            |n| format!("a/**/b*-{n}"),
        ];
        for kind in kinds {
            let mut builder = PatternsBuilder::new(false);
            for n in 0..1000 {
                builder.add(&kind(n)).unwrap();
            }
            let table = builder.build().table;
            let longest = table.chains.values().map(|chain| chain.count).max().unwrap_or(0);
            assert!(
                table.others.is_empty() && longest <= 2,
                "{}: {longest} in a chain",
                kind(0)
            );
        }
    }
}
