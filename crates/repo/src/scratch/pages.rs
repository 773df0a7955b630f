//! A temporary file that is read and written by pages, of which some are kept in memory.

use ibid_format::run::{PAGE, PAGE_PLAIN};

use super::Scratch;
use crate::Result;
use crate::cache::{SealedFile, SealedWriter};

/// Pages that may be in the same place of the cache.
const WAYS: usize = 4;

/// Bytes of a page.
pub(super) type Plain = [u8; PAGE_PLAIN];

/// A page in memory.
struct Held {
    number: u64,
    /// Whether it differs from the file.
    is_changed: bool,
    plain: Box<Plain>,
}

/// A temporary file that is read and written by pages. A page that was never written is zeros.
pub(super) struct Pages {
    file: SealedFile,
    /// A bit for each page in the file.
    written: Vec<u64>,
    /// Pages by number; in each set, the most recently used comes first.
    sets: Vec<[Option<Held>; WAYS]>,
}

impl Pages {
    /// Makes an empty file, of which about `memory` bytes of pages are kept in memory.
    pub(super) fn new(scratch: &Scratch, memory: u64) -> Result<Pages> {
        let make = |folder: &_| SealedWriter::new(&scratch.files.keys, folder, false)?.finish();
        let sets = (memory / (WAYS * PAGE) as u64).max(1);
        Ok(Pages {
            file: scratch.in_some_folder(make)?,
            written: Vec::new(),
            sets: (0..sets).map(|_| Default::default()).collect(),
        })
    }

    /// Returns a page to be read.
    pub(super) fn read(&mut self, number: u64) -> Result<&Plain> {
        Ok(&self.held(number)?.plain)
    }

    /// Returns a page to be changed.
    pub(super) fn write(&mut self, number: u64) -> Result<&mut Plain> {
        let held = self.held(number)?;
        held.is_changed = true;
        Ok(&mut held.plain)
    }

    fn held(&mut self, number: u64) -> Result<&mut Held> {
        let Pages { file, written, sets } = self;
        let at = (number % sets.len() as u64) as usize;
        let set = &mut sets[at];
        let is_it = |held: &Option<Held>| held.as_ref().is_some_and(|held| held.number == number);
        match set.iter().position(is_it) {
            Some(found) => set[..=found].rotate_right(1),
            None => {
                set.rotate_right(1);
                // Nothing is lost if one of these fails: the page stays until it is written.
                let mut plain = match &mut set[0] {
                    Some(old) => {
                        if old.is_changed {
                            file.write_page(old.number * PAGE as u64, &old.plain)?;
                            mark(written, old.number);
                        }
                        old.is_changed = false;
                        set[0].take().expect("it was there").plain
                    }
                    None => Box::new([0; PAGE_PLAIN]),
                };
                match is_marked(written, number) {
                    true => file.read_page(number * PAGE as u64, &mut plain)?,
                    false => plain.fill(0),
                }
                set[0] = Some(Held {
                    number,
                    is_changed: false,
                    plain,
                });
            }
        }
        Ok(set[0].as_mut().expect("just put there"))
    }
}

fn mark(bits: &mut Vec<u64>, number: u64) {
    let word = (number / 64) as usize;
    if bits.len() <= word {
        bits.resize(word + 1, 0);
    }
    bits[word] |= 1 << (number % 64);
}

fn is_marked(bits: &[u64], number: u64) -> bool {
    bits.get((number / 64) as usize)
        .is_some_and(|word| word >> (number % 64) & 1 == 1)
}
