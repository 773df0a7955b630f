//! Finds the copies, and compresses the bytes between them.

use super::context::Context;
use super::instructions::Instructions;
use super::rest_len;
use super::table::Table;
use crate::codec::matches::{Match, common_ends, common_prefix, common_suffix};
use crate::codec::outline::Outline;
use crate::codec::prefix;
use crate::codec::scan::for_each_anchor;
use crate::sample::{Interval, sample};
use crate::window::FOUND_BY;
use crate::{Backend, Error};

/// Shortest copy that does not continue the copy before it, bytes. For a shorter one the instruction
/// takes more bytes than zstd needs for its data, and without it zstd sees longer runs. Deltas of
/// source files, databases and dumps are smaller with 64 than with 32 or 128.
const ELSEWHERE_MIN: usize = 64;

/// Buffers and tables for finding copies.
#[derive(Debug)]
pub(crate) struct AnchorZstdEncoder {
    backend: Backend,
    positions: Vec<u32>,
    table: Table,
    copies: Vec<Match>,
    instructions: Instructions,
    context: Context,
    rest: Vec<u8>,
}

impl AnchorZstdEncoder {
    pub(crate) fn new(backend: Backend) -> AnchorZstdEncoder {
        AnchorZstdEncoder {
            backend,
            positions: Vec::new(),
            table: Table::default(),
            copies: Vec::new(),
            instructions: Instructions::default(),
            context: Context::default(),
            rest: Vec::new(),
        }
    }

    /// Appends the body of the delta, and returns how many bytes no copy covers. The target is not
    /// empty.
    pub(crate) fn encode(
        &mut self,
        (level, interval): (i32, Interval),
        zstd: &mut prefix::PrefixEncoder,
        base: &[u8],
        target: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        self.find_copies(interval, base, target);
        self.instructions.write(&self.copies, zstd, level, out)?;
        self.gather_rest(target);
        if !self.rest.is_empty() {
            let context = self.context.derive(base, &self.copies, target.len());
            zstd.encode(context, &self.rest, level, out)?;
        }
        Ok(self.rest.len())
    }

    /// Returns the outline of the last target, given its length.
    pub(crate) fn outline(&self, length: usize) -> Outline {
        Outline::new(&self.copies, self.rest.clone(), length)
    }

    /// Finds the copies, in the target's order.
    fn find_copies(&mut self, interval: Interval, base: &[u8], target: &[u8]) {
        let (first, last) = common_ends(base, target, FOUND_BY);
        self.copies.clear();
        self.copies.extend(first);
        let from = first.map_or(0, |copy| copy.length as usize);
        let end = last.map_or(target.len(), |copy| copy.target as usize);
        self.find_by_anchors(interval, base, &target[..end], from);
        self.copies.extend(last);
    }

    /// Adds the copies that anchors of the base find, from position `from` of the target on.
    fn find_by_anchors(&mut self, interval: Interval, base: &[u8], target: &[u8], from: usize) {
        if target.len() - from < FOUND_BY || base.len() < FOUND_BY {
            return;
        }
        self.positions.clear();
        sample(self.backend, interval, base, 0, &mut self.positions);
        self.table.fill(base, &self.positions);

        let (table, copies) = (&self.table, &mut self.copies);
        // The offset between base and target if the last copy continues.
        let mut ahead = 0_isize;
        for_each_anchor(
            (self.backend, interval),
            target,
            from..target.len(),
            &mut self.positions,
            |taken, anchor| {
                let window: &[u8; FOUND_BY] = target[anchor..].first_chunk()?;
                let agrees = |place: &usize| base.get(*place..).and_then(|there| there.first_chunk()) == Some(window);
                let place = anchor
                    .checked_add_signed(ahead)
                    .filter(agrees)
                    .or_else(|| table.find(window).filter(agrees))?;
                let forwards = common_prefix(&base[place..], &target[anchor..]);
                let backwards = common_suffix(&base[..place], &target[taken..anchor]);
                let goes_on = place as isize - anchor as isize == ahead;
                if !goes_on && forwards + backwards < ELSEWHERE_MIN {
                    return None;
                }
                let found = Match {
                    base: (place - backwards) as u32,
                    target: (anchor - backwards) as u32,
                    length: (forwards + backwards) as u32,
                };
                ahead = place as isize - anchor as isize;
                copies.push(found);
                Some(found)
            },
        );
    }

    fn gather_rest(&mut self, target: &[u8]) {
        self.rest.clear();
        self.rest.reserve(rest_len(&self.copies, target.len()));
        let mut written = 0;
        for copy in &self.copies {
            self.rest.extend_from_slice(&target[written..copy.target as usize]);
            written = copy.target_end() as usize;
        }
        self.rest.extend_from_slice(&target[written..]);
    }

    pub(crate) fn memory(&self) -> usize {
        self.positions.capacity() * size_of::<u32>()
            + self.table.memory()
            + self.copies.capacity() * size_of::<Match>()
            + self.instructions.memory()
            + self.context.memory()
            + self.rest.capacity()
    }
}
