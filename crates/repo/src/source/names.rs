//! The names in a directory, sorted. There may be millions: those that exceed their room are in sorted
//! runs in a temporary file.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::cache::{SealedFile, SealedWriter};
use crate::scratch::Scratch;
use crate::{Error, Result};

/// Bytes of names that are written and read at once. While the runs are merged, so much of each is in
/// memory.
const BLOCK: usize = 4 << 10;

/// Names in one allocation.
#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    /// (start, length); those before `next` have been taken.
    spans: Vec<(u32, u16)>,
    next: usize,
}

impl Held {
    fn memory(&self) -> u64 {
        (self.bytes.capacity() + self.spans.capacity() * size_of::<(u32, u16)>()) as u64
    }

    fn push(&mut self, name: &[u8]) -> Result<()> {
        let too_much = |limit| Error::TooMuch {
            what: "the names of one directory",
            limit,
        };
        let start = u32::try_from(self.bytes.len()).map_err(|_| too_much(4 << 30))?;
        let length = u16::try_from(name.len()).map_err(|_| too_much(u16::MAX.into()))?;
        self.spans.push((start, length));
        self.bytes.extend_from_slice(name);
        Ok(())
    }

    fn sort(&mut self) {
        let Held { bytes, spans, .. } = self;
        spans.sort_unstable_by(|a, b| span(bytes, *a).cmp(span(bytes, *b)));
    }

    fn peek(&self) -> Option<&[u8]> {
        Some(span(&self.bytes, *self.spans.get(self.next)?))
    }
}

fn span(bytes: &[u8], (start, length): (u32, u16)) -> &[u8] {
    &bytes[start as usize..start as usize + usize::from(length)]
}

/// A sealed block of names in the file: its position and length, bytes.
type Block = (u64, usize);

/// Sorts names.
pub(super) struct NameSorter<'s> {
    scratch: &'s Scratch,
    /// Names move to the file when they take more memory than this, bytes.
    room: u64,
    held: Held,
    file: Option<SealedWriter>,
    runs: Vec<VecDeque<Block>>,
}

impl<'s> NameSorter<'s> {
    /// Returns a sorter that keeps about `room` bytes of names in memory.
    pub(super) fn new(scratch: &'s Scratch, room: u64) -> NameSorter<'s> {
        NameSorter {
            scratch,
            room,
            held: Held::default(),
            file: None,
            runs: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, name: &[u8]) -> Result<()> {
        if self.held.memory() > self.room {
            self.held.sort();
            match self.write_run() {
                Ok(run) => {
                    self.runs.push(run);
                    self.held = Held::default();
                }
                // No room on the disk: a backup that takes more memory is better than one without
                // these files.
                Err(Error::Local { .. }) => self.room = u64::MAX,
                Err(error) => return Err(error),
            }
        }
        self.held.push(name)
    }

    fn write_run(&mut self) -> Result<VecDeque<Block>> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let make = |folder: &_| SealedWriter::new(&self.scratch.files.keys, folder, false);
                none.insert(self.scratch.in_some_folder(make)?)
            }
        };
        let (mut run, mut plain) = (VecDeque::new(), Vec::new());
        let mut seal = |plain: &mut Vec<u8>| {
            let start = file.position();
            file.seal(plain)?;
            run.push_back((start, (file.position() - start) as usize));
            plain.clear();
            Ok::<_, Error>(())
        };
        for &at in &self.held.spans {
            plain.extend_from_slice(&at.1.to_le_bytes());
            plain.extend_from_slice(span(&self.held.bytes, at));
            if plain.len() >= BLOCK {
                seal(&mut plain)?;
            }
        }
        if !plain.is_empty() {
            seal(&mut plain)?;
        }
        file.flush()?;
        Ok(run)
    }

    /// Returns the names in order, each once: the system may list a name twice if the file is removed
    /// and recreated meanwhile.
    pub(super) fn finish(mut self) -> Result<Names> {
        self.held.sort();
        let mut names = Names {
            held: self.held,
            file: self.file.map(SealedWriter::finish).transpose()?,
            runs: self.runs.into_iter().map(Run::new).collect(),
            heads: BinaryHeap::new(),
            last: None,
        };
        (0..names.runs.len()).try_for_each(|number| names.read_head(number))?;
        Ok(names)
    }
}

/// A run while it is read.
struct Run {
    blocks: VecDeque<Block>,
    plain: Vec<u8>,
    at: usize,
}

impl Run {
    fn new(blocks: VecDeque<Block>) -> Run {
        Run {
            blocks,
            plain: Vec::new(),
            at: 0,
        }
    }

    fn next(&mut self, file: &SealedFile) -> Result<Option<Vec<u8>>> {
        if self.at == self.plain.len() {
            let Some((position, length)) = self.blocks.pop_front() else {
                return Ok(None);
            };
            let mut sealed = Vec::new();
            self.plain.clear();
            self.plain.extend_from_slice(file.block(position, length, &mut sealed)?);
            self.at = 0;
        }
        // The seal says that the block is as it was written.
        let length = u16::from_le_bytes([self.plain[self.at], self.plain[self.at + 1]]);
        let start = self.at + 2;
        self.at = start + usize::from(length);
        Ok(Some(self.plain[start..self.at].to_vec()))
    }
}

/// Names of one directory in order.
pub(super) struct Names {
    held: Held,
    file: Option<SealedFile>,
    runs: Vec<Run>,
    /// The next name of each run, with the run's number.
    heads: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    last: Option<Vec<u8>>,
}

impl Names {
    /// Returns the memory in use, bytes.
    pub(super) fn memory(&self) -> u64 {
        self.held.memory() + (self.runs.len() * BLOCK) as u64
    }

    fn read_head(&mut self, number: usize) -> Result<()> {
        if let Some(file) = &self.file
            && let Some(name) = self.runs[number].next(file)?
        {
            self.heads.push(Reverse((name, number)));
        }
        Ok(())
    }

    /// Returns the next name.
    ///
    /// # Errors
    ///
    /// The temporary file can't be read. Then there are no more names.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            let in_run = self.heads.peek().map(|Reverse((name, _))| name.as_slice());
            let name = match (in_run, self.held.peek()) {
                (None, None) => return Ok(None),
                (Some(in_run), held) if held.is_none_or(|held| in_run <= held) => {
                    let Reverse((name, number)) = self.heads.pop().expect("just seen");
                    if let Err(error) = self.read_head(number) {
                        self.give_up();
                        return Err(error);
                    }
                    name
                }
                (_, held) => {
                    let name = held.map(<[u8]>::to_vec).unwrap_or_default();
                    self.held.next += 1;
                    name
                }
            };
            if self.last.as_ref() != Some(&name) {
                self.last = Some(name.clone());
                return Ok(Some(name));
            }
        }
    }

    /// Skips the remaining names; returns whether there were any.
    pub(super) fn give_up(&mut self) -> bool {
        let left = self.held.peek().is_some() || !self.heads.is_empty();
        *self = Names {
            held: Held::default(),
            file: None,
            runs: Vec::new(),
            heads: BinaryHeap::new(),
            last: None,
        };
        left
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn sorted(scratch: &Scratch, room: u64, names: &[Vec<u8>]) -> Names {
        let mut sorter = NameSorter::new(scratch, room);
        names.iter().for_each(|name| sorter.push(name).unwrap());
        sorter.finish().unwrap()
    }

    fn all(names: &mut Names) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| names.next().unwrap()).collect()
    }

    fn many() -> Vec<Vec<u8>> {
        // Each third name comes twice, far from the first time.
        let name = |n: u64| {
            format!(
                "{:x}{}",
                n.wrapping_mul(0x9E37_79B9_7F4A_7C15),
                "-".repeat(n as usize % 250)
            )
        };
        let once = (0..20_000).map(name);
        once.chain((0..20_000).step_by(3).map(name))
            .map(String::into_bytes)
            .collect()
    }

    #[test]
    fn names_in_a_file_come_in_order_and_once_as_those_in_memory_do() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::tiny(folder.path());
        let expected: Vec<Vec<u8>> = many().into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        assert_eq!(all(&mut sorted(&scratch, u64::MAX, &many())), expected);
        for room in [1000, 10_000, 1 << 20] {
            let mut names = sorted(&scratch, room, &many());
            assert!(names.runs.len() > 1, "{room} bytes are exceeded");
            assert_eq!(all(&mut names), expected, "{room}");
        }
    }

    #[test]
    fn a_damaged_file_of_names_is_an_error_and_ends_them() {
        let folder = tempfile::tempdir().unwrap();
        let mut names = sorted(&Scratch::tiny(folder.path()), 10_000, &many());
        for run in &mut names.runs {
            run.blocks.iter_mut().for_each(|(position, _)| *position += 1);
        }
        while let Ok(name) = names.next() {
            assert!(name.is_some(), "the error comes before the end");
        }
        assert_eq!(names.next().unwrap(), None);
    }

    #[test]
    fn names_that_are_given_up_are_told() {
        let folder = tempfile::tempdir().unwrap();
        for room in [10_000, u64::MAX] {
            let mut names = sorted(&Scratch::tiny(folder.path()), room, &many());
            assert!(names.give_up() && names.next().unwrap().is_none());
            assert!(!names.give_up());
        }
    }
}
