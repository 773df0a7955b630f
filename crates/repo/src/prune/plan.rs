//! What snapshots need, what only bases are for, and which packs are to go.

use std::collections::{BTreeMap, HashSet};

use ibid_format::ChunkId;
use ibid_format::pack::PackKind;

use super::rules::{self, Rule};
use super::{PruneEstimate, PruneOptions, rebase};
use crate::index::{Dependencies, Frame, LoadedIndex, NumberSet, PairSorter, Pairs};
use crate::scratch::{Array, Bits};
use crate::tree::Reach;
use crate::{Repository, Result, SnapshotInfo};

/// A pack with a smaller share that nobody needs is left as it is: to free a byte would take eight that are
/// moved, read and written.
const UNUSED_SHARE_MIN: f64 = 0.2;
/// Bytes that are moved for one that is freed, at most.
const MOVED_PER_FREED_MAX: u64 = 8;
/// Packs of about one size are merged when they are so many.
const ALIKE: usize = 8;

/// What is known of the frames.
pub(super) struct Facts {
    /// Frames that snapshots need, or that are bases of some that are.
    pub(super) kept: NumberSet,
    /// For each frame, how many bytes of its chunks snapshots need.
    pub(super) bytes: Array<u32>,
    /// Pairs of a frame and a base frame, and the other way round.
    bases: Pairs,
    pub(super) dependents: Pairs,
    /// Frames that can't be decoded because of damage. They are kept: what they lack may be stored again.
    lost: NumberSet,
}

impl Facts {
    fn find(repository: &Repository, loaded: &LoadedIndex, snapshots: &[SnapshotInfo]) -> Result<Facts> {
        let mut bytes = needed_bytes(repository, loaded, snapshots)?;
        let mut lost = NumberSet::default();
        if !loaded.missing.is_empty() {
            for frame in loaded.index.lost().iter() {
                lost.insert(frame);
            }
        }
        let (mut bases, dependents) = dependencies(repository, loaded)?;
        let mut needed = NumberSet::default();
        for frame in 0..loaded.index.stored_frames() {
            if bytes.get(frame.into())? > 0 || lost.contains(frame) {
                needed.insert(frame);
            }
        }
        Ok(Facts {
            kept: with_bases(&needed, &mut bases)?,
            bytes,
            bases,
            dependents,
            lost,
        })
    }

    /// Returns whether a frame has chunks that snapshots need.
    pub(super) fn is_needed(&mut self, frame: u32) -> Result<bool> {
        Ok(self.bytes.get(frame.into())? > 0 || self.lost.contains(frame))
    }

    /// Returns about how many of a frame's stored bytes are for chunks that snapshots need.
    pub(super) fn needed_part(&mut self, number: u32, frame: &Frame) -> Result<u64> {
        if self.lost.contains(number) {
            return Ok(frame.sealed.into());
        }
        let bytes = u64::from(self.bytes.get(number.into())?.min(frame.length));
        Ok(u64::from(frame.sealed) * bytes / u64::from(frame.length.max(1)))
    }

    /// Returns whether so little of a frame is needed that the rest is worth freeing.
    pub(super) fn is_partly_needed(&mut self, number: u32, frame: &Frame) -> Result<bool> {
        let unneeded = u64::from(frame.sealed) - self.needed_part(number, frame)?;
        Ok(unneeded as f64 >= f64::from(frame.sealed) * UNUSED_SHARE_MIN)
    }

    /// Returns whether frames that are kept are encoded against a frame.
    pub(super) fn has_dependents(&mut self, frame: u32) -> Result<bool> {
        let mut at = self.dependents.start(frame)?;
        while let Some(dependent) = self.dependents.second(at, frame)? {
            if self.kept.contains(dependent) {
                return Ok(true);
            }
            at += 1;
        }
        Ok(false)
    }
}

/// Bytes of a pack's frames.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Of chunks that snapshots need, as far as they are moved.
    needed: u64,
    /// Of frames that are only decoded for others.
    bases: u64,
    /// Of what nobody needs, or will need once other frames are encoded anew.
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
    pub(super) facts: Facts,
    /// Packs that go, by their numbers.
    pub(super) goes: Vec<u32>,
    /// Frames whose chunks are stored again, in packs that go.
    pub(super) anew: NumberSet,
    pub(super) estimate: PruneEstimate,
}

impl Plan {
    /// Finds out what these snapshots need, and chooses the packs that go. `encodes` says whether chunks may be
    /// encoded anew.
    pub(super) fn make(
        repository: &Repository,
        loaded: &LoadedIndex,
        snapshots: &[SnapshotInfo],
        options: &PruneOptions,
        encodes: bool,
    ) -> Result<Plan> {
        let mut facts = Facts::find(repository, loaded, snapshots)?;
        let mut estimate = estimate(loaded, &mut facts)?;
        let kept = estimate.needed + estimate.bases;
        let limits = Limits {
            unused: options.max_unused.of(kept),
            repacked: options.max_repack.map_or(u64::MAX, |limit| limit.of(kept)),
        };
        // What is lost can't be encoded anew, and what is not may be needed to find it again.
        let encodes = encodes && loaded.missing.is_empty() && rules::holds(Rule::BasesStay);
        let anew = match encodes {
            true => rebase::choose(loaded, &mut facts, limits.repacked)?,
            false => NumberSet::default(),
        };
        let chosen = match Choice::make(loaded, &mut facts, anew, &limits)? {
            Some(chosen) => chosen,
            None => Choice::make(loaded, &mut facts, NumberSet::default(), &limits)?.unwrap_or_default(),
        };
        let mut anew = chosen.anew;
        let (mut gone, mut written_anew) = (0, 0);
        for &number in &chosen.goes {
            let mut moved = 0;
            gone += loaded.index.pack(number).size;
            for frame_number in loaded.index.frames_of(number) {
                let frame = loaded.index.frame(frame_number);
                if !facts.kept.contains(frame_number) {
                    continue;
                }
                // The rest of it is freed while its pack goes anyway.
                if encodes
                    && facts.is_needed(frame_number)?
                    && facts.is_partly_needed(frame_number, &frame)?
                    && !facts.has_dependents(frame_number)?
                {
                    anew.insert(frame_number);
                }
                match anew.contains(frame_number) {
                    true => {
                        estimate.encoded_anew += u64::from(facts.bytes.get(frame_number.into())?);
                        // About as much as before; instead of a whole base, what comes first becomes whole.
                        let is_base = !facts.is_needed(frame_number)? && frame.depth == 0;
                        written_anew += match is_base {
                            true => frame.sealed.into(),
                            false => facts.needed_part(frame_number, &frame)?,
                        };
                    }
                    false => moved += u64::from(frame.sealed),
                }
            }
            estimate.moved += moved;
            match loaded.index.frames_of(number).any(|frame| facts.kept.contains(frame)) {
                false => estimate.packs_deleted += 1,
                true => estimate.packs_repacked += 1,
            }
        }
        estimate.freed = gone.saturating_sub(estimate.moved + written_anew);
        Ok(Plan {
            facts,
            goes: chosen.goes,
            anew,
            estimate,
        })
    }

    /// Returns whether a frame moves to another pack as it is, if its pack goes.
    pub(super) fn moves(&self, frame: u32) -> bool {
        self.facts.kept.contains(frame) && !self.anew.contains(frame)
    }
}

/// Returns what there is, and what of it is needed.
fn estimate(loaded: &LoadedIndex, facts: &mut Facts) -> Result<PruneEstimate> {
    let mut estimate = PruneEstimate::default();
    loaded.index.each_frame(|number, frame| {
        let sealed = u64::from(frame.sealed);
        match (facts.is_needed(number)?, facts.kept.contains(number)) {
            (true, _) => estimate.needed += sealed,
            (false, true) => estimate.bases += sealed,
            (false, false) => estimate.unused += sealed,
        }
        Ok(())
    })?;
    for (_, pack) in loaded.index.packs() {
        estimate.packs += 1;
        estimate.pack_bytes += pack.size;
    }
    Ok(estimate)
}

/// Limits of a prune, bytes.
struct Limits {
    /// What may stay unused.
    unused: u64,
    /// What may be moved, and encoded anew.
    repacked: u64,
}

/// Returns for each frame how many bytes of its chunks these snapshots need.
fn needed_bytes(repository: &Repository, loaded: &LoadedIndex, snapshots: &[SnapshotInfo]) -> Result<Array<u32>> {
    let (index, scratch) = (&loaded.index, repository.scratch());
    let reader = repository.tree_reader()?;
    let mut reach = Reach::new(repository, &reader);
    let mut met = Bits::new(&scratch, index.ordinals())?;
    let mut needed: Array<u32> = Array::zeros(&scratch, index.stored_frames().into())?;
    let mut need = |id: &ChunkId, length: u32, _| {
        // A chunk that is lost needs nothing.
        if let Some(place) = index.get_stored(id)
            && met.insert(index.ordinal(place))?
        {
            let before = needed.get(place.frame.into())?;
            needed.set(place.frame.into(), before.saturating_add(length))?;
        }
        Ok(())
    };
    for info in snapshots {
        reach.visit(&info.snapshot.root, &mut need)?;
    }
    repository.visit_checkpoints(&mut reach, snapshots, &mut need)?;
    Ok(needed)
}

/// Returns pairs of a frame and a base frame, and the same the other way round.
fn dependencies(repository: &Repository, loaded: &LoadedIndex) -> Result<(Pairs, Pairs)> {
    let scratch = repository.scratch();
    if !loaded.index.has_deltas() {
        let none = || PairSorter::new(&scratch).finish();
        return Ok((none()?, none()?));
    }
    let mut dependencies = Dependencies::read(&scratch, loaded, None, &repository.monitor)?;
    Ok((dependencies.bases(&scratch)?, dependencies.into_dependents()))
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

/// Packs that go, and frames whose chunks are stored again.
#[derive(Default)]
struct Chosen {
    goes: Vec<u32>,
    anew: NumberSet,
}

/// The packs chosen so far.
struct Choice<'a> {
    loaded: &'a LoadedIndex,
    facts: &'a mut Facts,
    anew: NumberSet,
    uses: Vec<Use>,
    goes: NumberSet,
    /// Bytes that must be moved.
    moved: u64,
}

impl<'a> Choice<'a> {
    /// Chooses the packs that go if these frames are encoded anew; none if that is too expensive.
    fn make(loaded: &'a LoadedIndex, facts: &'a mut Facts, anew: NumberSet, limits: &Limits) -> Result<Option<Chosen>> {
        let mut choice = Choice {
            uses: uses(loaded, facts, &anew)?,
            loaded,
            facts,
            anew,
            goes: NumberSet::default(),
            moved: 0,
        };
        let packs_anew: Vec<u32> = choice.anew.iter().map(|frame| loaded.index.frame(frame).pack).collect();
        packs_anew.into_iter().for_each(|pack| choice.add(pack));
        let has_anew = !choice.anew.is_empty();
        choice.whole();
        choice.worst_first(limits.unused, limits.repacked);
        choice.alike(limits.repacked);
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
    /// well or, if that were to cost too much, those packs stay. Returns whether none of them had to.
    fn with_dependents(&mut self, repack_max: u64) -> Result<bool> {
        let (before, moved_before) = (self.goes.iter().collect::<Vec<_>>(), self.moved);
        while let Some((dependents, _)) = self.broken()? {
            dependents.into_iter().for_each(|pack| self.add(pack));
        }
        let is_more = self.moved > moved_before;
        if !is_more || self.is_worth_it() && self.moved <= repack_max.max(moved_before) {
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
fn uses(loaded: &LoadedIndex, facts: &mut Facts, anew: &NumberSet) -> Result<Vec<Use>> {
    let mut uses = vec![Use::default(); loaded.index.pack_count() as usize];
    loaded.index.each_frame(|number, frame| {
        let sealed = u64::from(frame.sealed);
        let of_pack = &mut uses[frame.pack as usize];
        if !facts.kept.contains(number) || anew.contains(number) {
            of_pack.unused += sealed;
        } else if !facts.is_needed(number)? {
            of_pack.bases += sealed;
        } else if facts.is_partly_needed(number, &frame)? && !facts.has_dependents(number)? {
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
