//! When keepers saw the snapshots of a writer first.
//!
//! A policy ranks snapshots by their times, and a writer that was taken over says of its snapshots what it likes. What
//! it can't choose is when a keeper looks. A snapshot that is there, and was not when a keeper looked before, was
//! stored between the two: so its time counts only as far as it lies between them.

use std::collections::{BTreeMap, HashSet};

use ibid_format::tree::Time;
use ibid_format::writer::{FirstSeen, SEEN_LIMIT, Seen, Signer};
use ibid_format::{FileId, FileKind};
use ibid_storage::ErrorKind;

use super::policy::Ranked;
use crate::layout::{folder, name_in, new_id};
use crate::snapshots::first_id;
use crate::{Error, GroupBy, KeepPolicy, PolicyGroup, Repository, Result, SnapshotInfo, Warning, clock};

impl Repository {
    /// Applies a policy to snapshots of this repository, oldest first, as [`KeepPolicy::apply`] does. Those of a
    /// [writer](Repository::writer) are ranked by when keepers [saw them first](Repository::note_seen), and in between
    /// by the times that they give themselves: so a writer that was taken over can store no snapshots that take the
    /// places of earlier ones.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn apply_policy(
        &self,
        policy: &KeepPolicy,
        snapshots: Vec<SnapshotInfo>,
        by: GroupBy,
    ) -> Result<Vec<PolicyGroup>> {
        if !self.files.keys.is_of_writer() {
            return Ok(policy.apply(snapshots, by));
        }
        let seen = self.seen()?;
        let now = clock::now();
        let rank = |info: SnapshotInfo| {
            let first_seen = self.first_seen(&seen, &info, now);
            Ranked {
                time: info.snapshot.time.min(first_seen.at).max(first_seen.after),
                first: self.own_first_id(&info),
                was_seen: seen.snapshots.contains_key(&info.id),
                info,
            }
        };
        let mut ranked: Vec<Ranked> = snapshots.into_iter().map(rank).collect();
        // Those of one time stay in the order that the writer gives them.
        ranked.sort_by_key(|one| one.time);
        Ok(policy.apply_ranked(ranked, by))
    }

    /// Notes which snapshots of a writer are there now, for [`apply_policy`](Repository::apply_policy). Does nothing
    /// for other repositories, whose snapshots are believed.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn note_seen(&self) -> Result<()> {
        if !self.files.keys.is_of_writer() {
            return Ok(());
        }
        self.refuse_append_only()?;
        let (files, before) = (self.seen_files()?, self.seen()?);
        let now = clock::now();
        let mut unread = Vec::new();
        let infos = self.snapshots_with(|id, _| unread.push(id))?;
        let mut snapshots = BTreeMap::new();
        for info in &infos {
            snapshots.insert(info.id, self.first_seen(&before, info, now));
            snapshots.extend(kept(&before, self.own_first_id(info)));
        }
        let forgotten = self.files.list(folder::FORGOTTEN)?.into_iter().map(|(id, _)| id);
        snapshots.extend(forgotten.chain(unread).filter_map(|id| kept(&before, id)));
        let seen = Seen {
            looked: now.max(before.looked),
            snapshots,
        };
        let id = new_id();
        let bytes = seen
            .encode(&self.files.keys, id)
            .map_err(Error::damaged("the new list of snapshots that were seen"))?;
        self.files.storage.put(&name_in(folder::SEEN, id), &[&bytes])?;
        // All that these say is in the new one.
        self.delete_all(folder::SEEN, &files)
    }

    /// Returns when keepers saw snapshots first. What can't be read counts as if it were not there.
    fn seen(&self) -> Result<Seen> {
        let mut all = Seen {
            looked: Time {
                seconds: self.config.created,
                nanos: 0,
            },
            snapshots: BTreeMap::new(),
        };
        for id in self.seen_files()? {
            let name = name_in(folder::SEEN, id);
            let read = match self.files.storage.get(&name, SEEN_LIMIT) {
                Ok(mut bytes) => Seen::open(&self.files.keys, id, &mut bytes).map_err(Error::damaged(name)),
                Err(error) => Err(error.into()),
            };
            match read {
                Ok(seen) => {
                    all.looked = all.looked.max(seen.looked);
                    for (id, seen) in seen.snapshots {
                        let known = all.snapshots.entry(id).or_insert(seen);
                        if seen.at < known.at {
                            *known = seen;
                        }
                    }
                }
                // Another keeper has looked meanwhile.
                Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound => {}
                Err(error) if error.is_fault() => self.monitor.warn(Warning::Repository { error }),
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    fn seen_files(&self) -> Result<Vec<FileId>> {
        Ok(self.files.list(folder::SEEN)?.into_iter().map(|(id, _)| id).collect())
    }

    /// Returns between which times a snapshot was stored.
    fn first_seen(&self, seen: &Seen, info: &SnapshotInfo, now: Time) -> FirstSeen {
        let known = seen.snapshots.get(&info.id);
        let known = known.or_else(|| seen.snapshots.get(&self.own_first_id(info)));
        known.copied().unwrap_or(FirstSeen {
            after: seen.looked,
            at: now.max(seen.looked),
        })
    }

    /// Returns the id of the first of the snapshots that this one was made from, if a keeper says so.
    pub(crate) fn own_first_id(&self, info: &SnapshotInfo) -> FileId {
        match self.files.keys.signer_of(FileKind::Snapshot, info.id) {
            Some(Signer::Writer) => info.id,
            _ => first_id(info),
        }
    }
}

/// Returns what is known of a snapshot, if anything is.
fn kept(seen: &Seen, id: FileId) -> Option<(FileId, FirstSeen)> {
    seen.snapshots.get(&id).map(|known| (id, *known))
}

impl PolicyGroup {
    /// Returns whether more than half of the snapshots are forgotten that were there when a keeper looked last: perhaps
    /// others were stored to take their places. Of snapshots that are no writer's, this returns `false`.
    pub fn loses_most_seen(&self) -> bool {
        let seen: HashSet<FileId> = self.was_seen.iter().copied().collect();
        let lost = self.snapshots.iter().filter(|one| !one.is_kept());
        let lost = lost.filter(|one| seen.contains(&one.info.id)).count();
        lost * 2 > seen.len()
    }
}
