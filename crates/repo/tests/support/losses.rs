//! Packs that are lost, cut short and found again between backups, forgets, prunes and repairs.

use std::collections::BTreeMap;

use ibid_repo::{FileId, Limit, PruneOptions, RepairOptions, Repository};
use ibid_storage::Name;

use super::place::{Place, empty};
use super::pruning::{Kept, Trees, compare, init};
use super::seam::Seam;
use super::{Random, backup};

/// Steps of a history.
const STEPS: u64 = 14;

/// What was seen in histories.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub backups: u64,
    pub prunes: u64,
    pub freed: u64,
    pub repairs: u64,
    /// Packs that were lost or cut short, and that were there again.
    pub lost: u64,
    pub found: u64,
    /// Snapshots that did not restore after a step.
    pub unreadable: u64,
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, other: Seen) {
        self.backups += other.backups;
        self.prunes += other.prunes;
        self.freed += other.freed;
        self.repairs += other.repairs;
        self.lost += other.lost;
        self.found += other.found;
        self.unreadable += other.unreadable;
    }
}

struct History<'a> {
    trees: &'a Trees,
    store: Place,
    random: Random,
    /// Snapshots that were acknowledged and not forgotten.
    kept: Vec<Kept>,
    /// Packs that were lost or cut short, as they were.
    lost: BTreeMap<Name, Vec<u8>>,
    /// Snapshots that did not restore when a repair gave packs up.
    given_up: Vec<FileId>,
    seen: Seen,
}

/// Lets a history go as the seed says. Returns what was seen, or what is broken: a snapshot that was stored after
/// losses and does not restore, one that restored until something else than a loss happened, or one that does not
/// restore once all that was lost is there again, unless a repair had given it up.
pub fn history(trees: &Trees, seed: u64, seam: &Seam) -> Result<Seen, String> {
    seam.process(seed, || {
        let store = empty();
        drop(init(&store, seam));
        let mut history = History {
            trees,
            store,
            random: Random(seed ^ 0x1057),
            kept: Vec::new(),
            lost: BTreeMap::new(),
            given_up: Vec::new(),
            seen: Seen::default(),
        };
        for _ in 0..3 {
            history.backup()?;
        }
        let (mut unreadable, mut steps) = (Vec::new(), String::new());
        for _ in 0..STEPS {
            let (what, loses) = history.step()?;
            steps += &format!("{what}; ");
            let now = history.unreadable();
            history.seen.unreadable += now.len() as u64;
            if let Some((id, problem)) = now.iter().find(|(id, _)| !loses && !unreadable.contains(id)) {
                return Err(format!("{steps}and snapshot {id} is lost: {problem}"));
            }
            unreadable = now.into_iter().map(|(id, _)| id).collect();
        }
        for (name, bytes) in std::mem::take(&mut history.lost) {
            history.put_back(&name, &bytes);
        }
        let unreadable = history.unreadable();
        let mut others = unreadable.iter().filter(|(id, _)| !history.given_up.contains(id));
        match others.next() {
            Some((id, problem)) => Err(format!(
                "{steps}all is there again, and snapshot {id} is lost: {problem}"
            )),
            None => Ok(history.seen),
        }
    })
}

impl History<'_> {
    fn open(&self) -> Repository {
        Repository::open(self.store.clone(), Some(b"secret")).unwrap()
    }

    /// Does something; returns what it was, and whether something may be lost by it.
    fn step(&mut self) -> Result<(String, bool), String> {
        match self.random.below(10) {
            0 | 1 => Ok((self.lose(), true)),
            2 => {
                let at = self.random.below(self.lost.len().max(1) as u64) as usize;
                let Some(name) = self.lost.keys().nth(at).cloned() else {
                    return Ok(("nothing".to_owned(), false));
                };
                let bytes = self.lost.remove(&name).unwrap();
                self.put_back(&name, &bytes);
                Ok((format!("{name} is there again"), false))
            }
            3 | 4 if self.kept.len() > 1 => {
                let kept = self
                    .kept
                    .swap_remove(self.random.below(self.kept.len() as u64) as usize);
                self.open()
                    .forget(&[kept.id])
                    .map_err(|error| format!("forget: {error}"))?;
                Ok((format!("snapshot {} is forgotten", kept.id), false))
            }
            5 | 6 => {
                let mut options = PruneOptions::default();
                if self.random.below(2) == 0 {
                    options = options.max_unused(Limit::Bytes(0));
                }
                // It frees nothing if it can't read what snapshots need.
                if let Ok(summary) = self.open().prune(&options) {
                    self.seen.prunes += 1;
                    self.seen.freed += summary.packs_deleted;
                }
                Ok(("prune".to_owned(), false))
            }
            7 => {
                self.given_up.extend(self.unreadable().into_iter().map(|(id, _)| id));
                let repaired = self.open().repair(&RepairOptions::default());
                repaired.map_err(|error| format!("repair: {error}"))?;
                self.seen.repairs += 1;
                Ok(("repair".to_owned(), false))
            }
            _ => Ok((self.backup()?, false)),
        }
    }

    fn backup(&mut self) -> Result<String, String> {
        let tree = self.random.below(self.trees.versions.len() as u64) as usize;
        let summary = backup(&self.open(), &self.trees.versions[tree].0);
        let id = summary.id.ok_or("a backup made no snapshot")?;
        self.kept.push(Kept {
            id,
            tree,
            is_rewritten: false,
        });
        self.seen.backups += 1;
        Ok(format!("backup {id}"))
    }

    /// Deletes a pack or cuts it short.
    fn lose(&mut self) -> String {
        let mut packs = Vec::new();
        self.store.list("packs", &mut |name, _| packs.push(name)).unwrap();
        if packs.is_empty() {
            return "nothing is left to lose".to_owned();
        }
        let name = packs.swap_remove(self.random.below(packs.len() as u64) as usize);
        let bytes = self.store.get(&name, u64::MAX).unwrap();
        self.store.delete(&name).unwrap();
        let left = match self.random.below(2) {
            0 => 0,
            _ => self.random.below(bytes.len() as u64) as usize,
        };
        if left > 0 {
            self.store.put(&name, &[&bytes[..left]]).unwrap();
        }
        self.seen.lost += 1;
        let what = format!("{name} has {left} of {} bytes left", bytes.len());
        self.lost.entry(name).or_insert(bytes);
        what
    }

    fn put_back(&mut self, name: &Name, bytes: &[u8]) {
        let _ = self.store.delete(name);
        self.store.put(name, &[bytes]).unwrap();
        self.seen.found += 1;
    }

    /// Returns the snapshots that do not restore, each with a reason.
    fn unreadable(&self) -> Vec<(FileId, String)> {
        let repository = self.open();
        let problem = |kept: &Kept| match repository.snapshot(&kept.id.to_string()) {
            Ok(info) => compare(&repository, &info, kept, self.trees),
            Err(error) => Some(error.to_string()),
        };
        let found = self.kept.iter().map(|kept| (kept.id, problem(kept)));
        found.filter_map(|(id, problem)| Some((id, problem?))).collect()
    }
}
