//! Finding the copies, and writing what is left.

use super::context::Context;
use super::instructions::Instructions;
use super::rest_len;
use super::table::Table;
use crate::codec::matches::{Match, common_prefix, common_suffix};
use crate::codec::outline::Outline;
use crate::codec::prefix;
use crate::codec::scan::for_each_anchor;
use crate::sample::{Interval, sample};
use crate::window::FOUND_BY;
use crate::{Backend, Error};

/// A shorter match is not copied unless it goes on where the match before would: the bytes that say
/// where it is outweigh what zstd makes of it, and without it zstd sees longer runs. Measured: 64
/// gives smaller deltas than 32 or 128 of files of sources, databases and dumps.
const ELSEWHERE_MIN: usize = 64;

/// The memory that pairs are compared with.
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

    /// Appends the body of the delta, and gives the bytes that no copy covers. The target is not
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

    /// The outline of the target that was encoded last, which was so long.
    pub(crate) fn outline(&self, length: usize) -> Outline {
        Outline::new(&self.copies, self.rest.clone(), length)
    }

    /// Finds what of the target is copied, in its order.
    fn find_copies(&mut self, interval: Interval, base: &[u8], target: &[u8]) {
        let long_enough = |length| if length < FOUND_BY { 0 } else { length };
        let prefix = long_enough(common_prefix(base, target));
        let suffix = long_enough(common_suffix(&base[prefix..], &target[prefix..]));
        self.copies.clear();
        if prefix > 0 {
            self.copies.push(Match {
                base: 0,
                target: 0,
                length: prefix as u32,
            });
        }
        self.find_by_anchors(interval, base, &target[..target.len() - suffix], prefix);
        if suffix > 0 {
            self.copies.push(Match {
                base: (base.len() - suffix) as u32,
                target: (target.len() - suffix) as u32,
                length: suffix as u32,
            });
        }
    }

    /// Adds the copies that anchors of the base give from position `from` of the target on.
    fn find_by_anchors(&mut self, interval: Interval, base: &[u8], target: &[u8], from: usize) {
        if target.len() - from < FOUND_BY || base.len() < FOUND_BY {
            return;
        }
        self.positions.clear();
        sample(self.backend, interval, base, 0, &mut self.positions);
        self.table.fill(base, &self.positions);

        let (table, copies) = (&self.table, &mut self.copies);
        // Where the base is if the copy before goes on.
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
