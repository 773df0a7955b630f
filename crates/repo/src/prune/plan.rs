//! What snapshots need, what only bases are for, and which packs are to go.

use std::collections::{BTreeMap, HashSet};

use ibid_format::pack::PackKind;

use super::rules::{self, Rule};
use super::{PruneEstimate, PruneOptions};
use crate::index::{Dependencies, LoadedIndex, NumberSet, PairSorter, Pairs};
use crate::tree::Reach;
use crate::{Repository, Result, SnapshotInfo};

/// A pack with a smaller share that nobody needs is left as it is: to free a byte would take eight that are
/// moved, read and written.
const UNUSED_SHARE_MIN: f64 = 0.2;
/// Bytes that are moved for one that is freed, at most.
const MOVED_PER_FREED_MAX: u64 = 8;
/// Packs of about one size are merged when they are so many.
const ALIKE: usize = 8;

/// Bytes of a pack's frames.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Of frames that snapshots need.
    needed: u64,
    /// Of frames that are only decoded for others.
    bases: u64,
    /// Of frames that nobody needs.
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

/// What a prune sets out to do.
pub(super) struct Plan {
    /// Frames that are needed, or are bases of some that are.
    pub(super) kept: NumberSet,
    /// Packs that go, by their numbers.
    pub(super) goes: Vec<u32>,
    pub(super) estimate: PruneEstimate,
}

impl Plan {
    /// Finds out what these snapshots need, and chooses the packs that go.
    pub(super) fn make(
        repository: &Repository,
        loaded: &LoadedIndex,
        snapshots: &[SnapshotInfo],
        options: &PruneOptions,
    ) -> Result<Plan> {
        let mut needed = needed_frames(repository, loaded, snapshots)?;
        if !loaded.missing.is_empty() {
            // Frames that lack a base because of damage can be read again once it is stored again.
            for frame in loaded.index.lost().iter() {
                needed.insert(frame);
            }
        }
        let mut bases = bases(repository, loaded)?;
        let kept = with_bases(&needed, &mut bases)?;
        let mut uses: Vec<Use> = vec![Use::default(); loaded.index.pack_count() as usize];
        loaded.index.each_frame(|number, frame| {
            let sealed = u64::from(frame.sealed);
            let of_pack = &mut uses[frame.pack as usize];
            if needed.contains(number) {
                of_pack.needed += sealed;
            } else if kept.contains(number) {
                of_pack.bases += sealed;
            } else {
                of_pack.unused += sealed;
            }
            Ok(())
        })?;
        let mut choice = Choice {
            loaded,
            uses: &uses,
            kept: &kept,
            goes: NumberSet::default(),
            moved: 0,
        };
        let sum = |of: fn(&Use) -> u64| uses.iter().map(of).sum::<u64>();
        let total = sum(Use::kept);
        choice.whole();
        let repack_max = options.max_repack.map_or(u64::MAX, |limit| limit.of(total));
        choice.worst_first(options.max_unused.of(total), repack_max);
        choice.alike(repack_max);
        if rules::holds(Rule::BasesStay) {
            choice.with_dependents(&mut bases, repack_max)?;
        }
        let goes: Vec<u32> = choice.goes.iter().collect();
        let mut estimate = PruneEstimate {
            needed: sum(|of_pack| of_pack.needed),
            bases: sum(|of_pack| of_pack.bases),
            unused: sum(|of_pack| of_pack.unused),
            ..PruneEstimate::default()
        };
        for (_, pack) in loaded.index.packs() {
            estimate.packs += 1;
            estimate.pack_bytes += pack.size;
        }
        let mut gone = 0;
        for &number in &goes {
            let moved = uses[number as usize].kept();
            gone += loaded.index.pack(number).size;
            estimate.moved += moved;
            match moved {
                0 => estimate.packs_deleted += 1,
                _ => estimate.packs_repacked += 1,
            }
        }
        estimate.freed = gone.saturating_sub(estimate.moved);
        Ok(Plan { kept, goes, estimate })
    }
}

/// Returns the frames that have chunks which these snapshots need.
fn needed_frames(repository: &Repository, loaded: &LoadedIndex, snapshots: &[SnapshotInfo]) -> Result<NumberSet> {
    let reader = repository.tree_reader()?;
    let mut reach = Reach::new(repository, &reader);
    let mut needed = NumberSet::default();
    for info in snapshots {
        reach.visit(&info.snapshot.root, &mut |id, _| {
            // A chunk that is lost needs nothing.
            if let Some(place) = loaded.index.get_stored(id) {
                needed.insert(place.frame);
            }
            Ok(())
        })?;
    }
    repository.visit_checkpoints(&mut reach, snapshots, &mut |id| {
        if let Some(place) = loaded.index.get_stored(id) {
            needed.insert(place.frame);
        }
        Ok(())
    })?;
    Ok(needed)
}

/// Returns pairs of a frame and a base frame.
fn bases(repository: &Repository, loaded: &LoadedIndex) -> Result<Pairs> {
    let scratch = repository.scratch();
    match loaded.index.has_deltas() {
        true => Dependencies::read(&scratch, loaded, None, &repository.monitor)?.bases(&scratch),
        false => PairSorter::new(&scratch).finish(),
    }
}

/// Returns these frames with all that they are decoded from.
fn with_bases(frames: &NumberSet, bases: &mut Pairs) -> Result<NumberSet> {
    let mut found = NumberSet::default();
    let mut todo = Vec::new();
    for frame in frames.iter() {
        todo.push(frame);
        while let Some(frame) = todo.pop() {
            if found.insert(frame) {
                let mut at = bases.start(frame)?;
                while let Some(base) = bases.second(at, frame)? {
                    todo.push(base);
                    at += 1;
                }
            }
        }
    }
    Ok(found)
}

/// The packs chosen so far.
struct Choice<'a> {
    loaded: &'a LoadedIndex,
    uses: &'a [Use],
    kept: &'a NumberSet,
    goes: NumberSet,
    /// Bytes that must be moved.
    moved: u64,
}

impl Choice<'_> {
    fn add(&mut self, pack: u32) {
        if self.goes.insert(pack) {
            self.moved += self.uses[pack as usize].kept();
        }
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

    /// Packs of which the largest share is not needed, until no more than `unused_max` bytes are left.
    fn worst_first(&mut self, unused_max: u64, repack_max: u64) {
        let share = |number: u32| self.uses[number as usize].unused_share();
        let packs = self.loaded.index.packs().map(|(number, _)| number);
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
    fn alike(&mut self, repack_max: u64) {
        let mut tiers: BTreeMap<(PackKind, u32), Vec<u32>> = BTreeMap::new();
        for (number, pack) in self.loaded.index.packs() {
            if pack.size < SMALL_MAX && !self.goes.contains(number) {
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

    /// A pack that stays may have frames which nobody needs, and whose bases are in packs that go: it goes as
    /// well or, if that were to cost too much, those packs stay.
    fn with_dependents(&mut self, bases: &mut Pairs, repack_max: u64) -> Result<()> {
        let (before, moved_before) = (self.goes.iter().collect::<Vec<_>>(), self.moved);
        while let Some((dependents, _)) = self.broken(bases)? {
            dependents.into_iter().for_each(|pack| self.add(pack));
        }
        let freed: u64 = self.goes.iter().map(|pack| self.uses[pack as usize].unused).sum();
        let is_worth_it = self.moved == moved_before || self.moved <= freed.saturating_mul(MOVED_PER_FREED_MAX);
        if is_worth_it && self.moved <= repack_max.max(moved_before) {
            return Ok(());
        }
        self.goes = NumberSet::default();
        self.moved = 0;
        let mut goes: HashSet<u32> = before.into_iter().collect();
        loop {
            goes.iter().for_each(|pack| self.add(*pack));
            let Some((_, needed)) = self.broken(bases)? else {
                return Ok(());
            };
            goes.retain(|pack| !needed.contains(pack));
            self.goes = NumberSet::default();
            self.moved = 0;
        }
    }

    /// Returns the packs that stay and have frames whose bases go, and the packs of these bases; `None` if there
    /// are none.
    fn broken(&self, bases: &mut Pairs) -> Result<Option<(HashSet<u32>, HashSet<u32>)>> {
        let index = &self.loaded.index;
        let (mut dependents, mut needed) = (HashSet::new(), HashSet::new());
        for at in 0..bases.len() {
            let (frame, base) = bases.get(at)?;
            // A base that is needed by what is kept is moved.
            if self.kept.contains(base) {
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

/// Packs below this size are merged if there are many, bytes.
const SMALL_MAX: u64 = 4 << 20;
/// Packs up to this size count as of one size, bytes.
const SMALL_MIN: u64 = 64 << 10;
