//! What a prune sets out to do.

use std::collections::HashSet;

use super::choice::{Choice, Limits};
use super::facts::Facts;
use super::rules::{self, Rule};
use super::{PruneEstimate, PruneOptions, rebase};
use crate::index::{LoadedIndex, NumberSet};
use crate::{Repository, Result, SnapshotInfo, Warning};

/// What a prune sets out to do.
pub(super) struct Plan {
    pub(super) facts: Facts,
    /// Packs that go, by their numbers.
    pub(super) goes: Vec<u32>,
    /// Frames whose chunks are stored again, in packs that go.
    pub(super) anew: NumberSet,
    /// About how many bytes their chunks take afterwards.
    pub(super) written_anew: u64,
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
        for error in std::mem::take(&mut facts.unread.reasons) {
            repository.monitor.warn(Warning::Repository { error });
        }
        // What no keeper has is only where it does not hold what the writer says.
        estimate.lost_packs += facts.staying().filter(|pack| loaded.is_doubted(*pack)).count() as u64;
        let kept = estimate.needed + estimate.bases;
        // Nothing is read of a pack in an archive: it goes as a whole, or stays. If there are deltas in one, any less
        // deep frame elsewhere may be a base of theirs, and stays where it is.
        let frozen = frozen(repository, loaded)?;
        let moves = frozen.is_empty() || !facts.waits_for_lost();
        let repacked = options.max_repack.map_or(u64::MAX, |limit| limit.of(kept));
        let limits = Limits {
            unused: options.max_unused.of(kept),
            repacked: if moves { repacked } else { 0 },
            pack: repository.config.pack_size.into(),
        };
        // What is lost can't be encoded anew, and what is not may be needed to find it again.
        let has_lost = !loaded.missing.is_empty() || facts.waits_for_lost();
        let may_encode = encodes && frozen.is_empty() && !repository.files.archives_data();
        let encodes = may_encode && !has_lost && rules::holds(Rule::BasesStay);
        let anew = match encodes {
            true => rebase::choose(loaded, &mut facts, limits.repacked)?,
            false => NumberSet::default(),
        };
        // Of a writer's packs, what is not encoded anew moves as it is: it was verified.
        let adopted = match may_encode {
            true => adopted(loaded, &mut facts, limits.repacked)?,
            false => NumberSet::default(),
        };
        let make = |facts: &mut Facts, anew| Choice::make(loaded, facts, anew, &adopted, &frozen, &limits);
        let chosen = match make(&mut facts, anew)? {
            Some(chosen) => chosen,
            None => make(&mut facts, NumberSet::default())?.unwrap_or_default(),
        };
        let goes: HashSet<u32> = chosen.goes.iter().copied().collect();
        for pack in frozen.iter().filter(|pack| !goes.contains(pack)) {
            let unused = loaded
                .index
                .frames_of(pack)
                .filter(|frame| !facts.kept.contains(*frame));
            estimate.archived += unused
                .map(|frame| u64::from(loaded.index.frame(frame).sealed))
                .sum::<u64>();
        }
        let mut anew = chosen.anew;
        for frame in adopted.iter() {
            anew.insert(frame);
        }
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
                if encodes && facts.is_free_to_shrink(frame_number, &frame)? {
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
            written_anew,
            estimate,
        })
    }

    /// Returns whether a frame moves to another pack as it is, if its pack goes.
    pub(super) fn moves(&self, frame: u32) -> bool {
        self.facts.kept.contains(frame) && !self.anew.contains(frame)
    }
}

/// Returns the packs that were in an archive when they were listed.
fn frozen(repository: &Repository, loaded: &LoadedIndex) -> Result<NumberSet> {
    let archived = repository.archived_packs_lately()?;
    let mut frozen = NumberSet::default();
    if !archived.is_empty() {
        let packs = loaded.index.packs().filter(|(_, pack)| archived.contains_key(&pack.id));
        for (number, _) in packs {
            frozen.insert(number);
        }
    }
    Ok(frozen)
}

/// Returns the frames of packs that the writer has signed whose chunks are stored again, as a keeper stores them: all
/// that are needed, up to so many bytes, but for packs that stay because they do not hold something that is needed as
/// well.
fn adopted(loaded: &LoadedIndex, facts: &mut Facts, sealed_max: u64) -> Result<NumberSet> {
    let (mut adopted, mut sealed) = (NumberSet::default(), 0);
    for (number, _) in loaded.index.packs() {
        if !loaded.is_doubted(number) || facts.stays(number) {
            continue;
        }
        let mut needed = Vec::new();
        for frame in loaded.index.frames_of(number) {
            if facts.is_needed(frame)? {
                needed.push(frame);
            }
        }
        let bytes: u64 = needed
            .iter()
            .map(|frame| u64::from(loaded.index.frame(*frame).sealed))
            .sum();
        if sealed + bytes <= sealed_max {
            sealed += bytes;
            for frame in needed {
                adopted.insert(frame);
            }
        }
    }
    Ok(adopted)
}

/// Returns what there is, and what of it is needed.
fn estimate(loaded: &LoadedIndex, facts: &mut Facts) -> Result<PruneEstimate> {
    let mut estimate = PruneEstimate {
        lost_packs: loaded.lost_packs().count() + facts.unread.packs,
        ..PruneEstimate::default()
    };
    loaded.index.each_frame(|number, frame| {
        let sealed = u64::from(frame.sealed);
        match (facts.is_needed(number)?, facts.kept.contains(number)) {
            (true, _) => estimate.needed += sealed,
            (false, true) if facts.held.contains(number) => estimate.held += sealed,
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
