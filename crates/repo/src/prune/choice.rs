//! Which packs go.

use std::collections::{BTreeMap, HashSet};

use ibid_format::pack::PackKind;

use super::facts::Facts;
use super::rules::{self, Rule};
use crate::Result;
use crate::index::{LoadedIndex, NumberSet};

/// Bytes that are moved for one that is freed, at most.
const MOVED_PER_FREED_MAX: u64 = 8;
/// A pack with a smaller share of what is not needed is left as it is: to free a byte would take eight that are
/// moved, read and written.
const UNUSED_SHARE_MIN: f64 = 0.2;
/// Packs of about one size are merged when they are so many.
const ALIKE: usize = 8;

/// Limits of a prune, bytes.
pub(super) struct Limits {
    /// What may stay unused.
    pub(super) unused: u64,
    /// What may be moved, and encoded anew.
    pub(super) repacked: u64,
    /// Packs of this size are full.
    pub(super) pack: u64,
}

/// Bytes of a pack's frames.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Of chunks that snapshots need, as far as they are moved.
    needed: u64,
    /// Of frames that are only decoded for others.
    bases: u64,
    /// Of what is not needed, or will not be once other frames are encoded anew.
    unused: u64,
}

impl Use {
    fn kept(&self) -> u64 {
        self.needed + self.bases
    }

    fn unused_share(&self) -> f64 {
        self.unused as f64 / (self.kept() + self.unused).max(1) as f64
    }
}

/// Packs that go, and frames whose chunks are stored again.
#[derive(Default)]
pub(super) struct Chosen {
    pub(super) goes: Vec<u32>,
    pub(super) anew: NumberSet,
}

/// The packs chosen so far.
pub(super) struct Choice<'a> {
    loaded: &'a LoadedIndex,
    facts: &'a mut Facts,
    anew: NumberSet,
    /// Packs that can't be read: they go if nothing of them is kept, and stay otherwise.
    frozen: &'a NumberSet,
    uses: Vec<Use>,
    goes: NumberSet,
    /// Bytes that must be moved.
    moved: u64,
}

impl<'a> Choice<'a> {
    /// Chooses the packs that go if these frames are encoded anew; none if that is too expensive. Those of `adopted`
    /// are encoded anew whatever it costs.
    pub(super) fn make(
        loaded: &'a LoadedIndex,
        facts: &'a mut Facts,
        anew: NumberSet,
        adopted: &NumberSet,
        frozen: &'a NumberSet,
        limits: &Limits,
    ) -> Result<Option<Chosen>> {
        let mut choice = Choice {
            uses: uses(loaded, facts, &anew, adopted)?,
            loaded,
            facts,
            anew,
            frozen,
            goes: NumberSet::default(),
            moved: 0,
        };
        let mut packs_anew = NumberSet::default();
        for frame in choice.anew.iter() {
            packs_anew.insert(loaded.index.frame(frame).pack);
        }
        packs_anew.iter().for_each(|pack| choice.add(pack));
        let has_anew = !choice.anew.is_empty();
        choice.whole();
        if has_anew {
            // The trees are walked anyway, and lists are small.
            choice.worst_first(Some(PackKind::Metadata), 0, limits.repacked);
        }
        choice.worst_first(None, limits.unused, limits.repacked);
        choice.alike(limits.repacked, SMALL_MAX.min(limits.pack / 2));
        let holds = !rules::holds(Rule::BasesStay) || choice.with_dependents(limits.repacked)?;
        if has_anew && !(holds && choice.is_worth_it()) {
            return Ok(None);
        }
        Ok(Some(Chosen {
            goes: choice.goes.iter().collect(),
            anew: choice.anew,
        }))
    }

    fn add(&mut self, pack: u32) {
        if self.goes.insert(pack) {
            self.moved += self.uses[pack as usize].kept();
        }
    }

    /// Returns whether enough is freed for what is moved.
    fn is_worth_it(&self) -> bool {
        let freed: u64 = self.goes.iter().map(|pack| self.uses[pack as usize].unused).sum();
        self.moved <= freed.saturating_mul(MOVED_PER_FREED_MAX)
    }

    /// Packs of which nothing is needed.
    fn whole(&mut self) {
        let unused = |number: &u32| self.uses[*number as usize].kept() == 0;
        let packs: Vec<u32> = self
            .loaded
            .index
            .packs()
            .map(|(number, _)| number)
            .filter(unused)
            .collect();
        packs.into_iter().for_each(|pack| self.add(pack));
    }

    /// Packs of a kind, or any, of which the largest share is not needed, until no more than `unused_max` bytes are
    /// left in all.
    fn worst_first(&mut self, kind: Option<PackKind>, unused_max: u64, repack_max: u64) {
        let share = |number: u32| self.uses[number as usize].unused_share();
        let packs = self.loaded.index.packs();
        let packs = packs.filter(|(_, pack)| kind.is_none_or(|kind| kind == pack.kind));
        let packs = packs
            .map(|(number, _)| number)
            .filter(|number| !self.frozen.contains(*number));
        let mut packs: Vec<u32> = packs.filter(|number| share(*number) >= UNUSED_SHARE_MIN).collect();
        packs.sort_unstable_by(|a, b| share(*b).total_cmp(&share(*a)).then(a.cmp(b)));
        let is_left = |number: &usize| !self.goes.contains(*number as u32);
        let left = (0..self.uses.len())
            .filter(is_left)
            .map(|number| self.uses[number].unused);
        let mut left: u64 = left.sum();
        for pack in packs {
            let of_pack = self.uses[pack as usize];
            if left <= unused_max || self.goes.contains(pack) {
                continue;
            }
            if self.moved + of_pack.kept() <= repack_max {
                self.add(pack);
                left -= of_pack.unused;
            }
        }
    }

    /// Small packs of one kind and of about one size, if they are many.
    fn alike(&mut self, repack_max: u64, small_max: u64) {
        let mut tiers: BTreeMap<(PackKind, u32), Vec<u32>> = BTreeMap::new();
        for (number, pack) in self.loaded.index.packs() {
            let can_move = !self.facts.stays(number) && !self.frozen.contains(number);
            if pack.size < small_max && !self.goes.contains(number) && can_move {
                let tier = pack.size.max(SMALL_MIN).ilog2() / 2;
                tiers.entry((pack.kind, tier)).or_default().push(number);
            }
        }
        for packs in tiers.into_values().filter(|packs| packs.len() >= ALIKE) {
            let bytes: u64 = packs.iter().map(|pack| self.uses[*pack as usize].kept()).sum();
            if self.moved + bytes <= repack_max {
                packs.into_iter().for_each(|pack| self.add(pack));
            }
        }
    }

    /// A pack that stays may have frames which are not needed, and whose bases are in packs that go: it goes as
    /// well or, if that were to cost too much, those packs stay. Returns whether none of them had to.
    fn with_dependents(&mut self, repack_max: u64) -> Result<bool> {
        let (before, moved_before) = (self.goes.iter().collect::<Vec<_>>(), self.moved);
        let mut can_move = true;
        while can_move && let Some((dependents, _)) = self.broken()? {
            can_move = !dependents.iter().any(|pack| self.frozen.contains(*pack));
            dependents.into_iter().for_each(|pack| self.add(pack));
        }
        let is_more = self.moved > moved_before;
        if can_move && (!is_more || self.is_worth_it() && self.moved <= repack_max.max(moved_before)) {
            return Ok(true);
        }
        let mut goes: HashSet<u32> = before.into_iter().collect();
        loop {
            self.goes = NumberSet::default();
            self.moved = 0;
            goes.iter().for_each(|pack| self.add(*pack));
            let Some((_, needed)) = self.broken()? else {
                return Ok(false);
            };
            goes.retain(|pack| !needed.contains(pack));
        }
    }

    /// Returns the packs that stay and have frames whose bases go, and the packs of these bases; `None` if there
    /// are none.
    fn broken(&mut self) -> Result<Option<(HashSet<u32>, HashSet<u32>)>> {
        let index = &self.loaded.index;
        let (mut dependents, mut needed) = (HashSet::new(), HashSet::new());
        for at in 0..self.facts.bases.len() {
            let (frame, base) = self.facts.bases.get(at)?;
            // The bases of what is kept are moved, or stored again.
            let kept = &self.facts.kept;
            if kept.contains(frame) || kept.contains(base) && !self.anew.contains(base) {
                continue;
            }
            let (pack, of_base) = (index.frame(frame).pack, index.frame(base).pack);
            if self.goes.contains(of_base) && !self.goes.contains(pack) {
                dependents.insert(pack);
                needed.insert(of_base);
            }
        }
        Ok((!dependents.is_empty()).then_some((dependents, needed)))
    }
}

/// Returns what is in each pack.
fn uses(loaded: &LoadedIndex, facts: &mut Facts, anew: &NumberSet, adopted: &NumberSet) -> Result<Vec<Use>> {
    let mut uses = vec![Use::default(); loaded.index.pack_count() as usize];
    loaded.index.each_frame(|number, frame| {
        let sealed = u64::from(frame.sealed);
        let of_pack = &mut uses[frame.pack as usize];
        if !facts.kept.contains(number) || anew.contains(number) || adopted.contains(number) {
            of_pack.unused += sealed;
        } else if !facts.is_needed(number)? {
            of_pack.bases += sealed;
        } else if facts.is_free_to_shrink(number, &frame)? {
            let part = facts.needed_part(number, &frame)?;
            of_pack.needed += part;
            of_pack.unused += sealed - part;
        } else {
            of_pack.needed += sealed;
        }
        Ok(())
    })?;
    Ok(uses)
}

/// Packs below this size are merged if there are many, bytes.
const SMALL_MAX: u64 = 4 << 20;
/// Packs up to this size count as of one size, bytes.
const SMALL_MIN: u64 = 64 << 10;
