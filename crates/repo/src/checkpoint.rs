//! Checkpoints: a backup that is interrupted keeps what it has finished.
//!
//! A running backup stores the tree as far as it has come in `checkpoints/<id>` ([`crate::ingest`] says when).
//! The next one of the same host and paths takes files over from it, as from a parent snapshot. A checkpoint
//! is advice: without it, files are read again.
//!
//! A checkpoint is *useful* until there is a later snapshot of its host and paths. Several may be: one of a
//! backup that had come far, and later ones of backups that were interrupted earlier.

use std::cmp::Ordering;
use std::collections::HashMap;

use ibid_format::FileId;
use ibid_format::checkpoint::{self, Checkpoint};
use ibid_format::tree::Time;
use ibid_storage::ErrorKind;

use crate::files::Files;
use crate::layout::{folder, name_in};
use crate::listed::Listed;
use crate::threads::{each, groups};
use crate::tree::{Each, Reach};
use crate::{Error, Repository, Result, SnapshotInfo, Warning, clock};

/// An older checkpoint is not useful any more, seconds. A clock that is wrong costs only work.
const AGE_MAX: i64 = 30 * 24 * 3600;
/// Useful checkpoints of one host and paths, at most: the next backup looks into each.
const USEFUL_MAX: usize = 4;

/// A checkpoint and its id.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckpointInfo {
    /// Id of the checkpoint: the name of its file.
    pub id: FileId,
    /// Contents of the file.
    pub checkpoint: Checkpoint,
}

impl CheckpointInfo {
    fn group(&self) -> (&str, &[Vec<u8>]) {
        (&self.checkpoint.host, &self.checkpoint.paths)
    }
}

impl Repository {
    /// Returns the checkpoints of backups that are running or were interrupted, oldest first. One that can't be
    /// read is passed to `on_damage`.
    ///
    /// # Errors
    /// Errors of the storage when it can't be reached.
    pub fn checkpoints(&self, on_damage: impl FnMut(FileId, Error)) -> Result<Vec<CheckpointInfo>> {
        self.checkpoints_listed(&Listed::default(), on_damage)
    }

    /// Does the same, with the list of checkpoints if they were listed.
    pub(crate) fn checkpoints_listed(
        &self,
        listed: &Listed,
        mut on_damage: impl FnMut(FileId, Error),
    ) -> Result<Vec<CheckpointInfo>> {
        let mut found = Vec::new();
        for group in groups(&listed.ids(&*self.files.storage, folder::CHECKPOINTS)?) {
            let read = |(id, _): &(FileId, u64)| self.files.read_checkpoint(*id);
            for (&(id, _), read) in group.iter().zip(each(self.files.storage.is_remote(), group, read)) {
                match read {
                    Ok(checkpoint) => found.push(CheckpointInfo { id, checkpoint }),
                    // Its backup has stored another one, or its snapshot.
                    Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) if error.is_fault() => on_damage(id, error),
                    Err(error) => return Err(error),
                }
            }
        }
        found.sort_by_key(|info| (info.checkpoint.sequence, info.checkpoint.time, info.id));
        Ok(found)
    }

    /// Calls `each` with the chunks that useful checkpoints need. A tree that can't be read counts as far as it
    /// can. Visit what must be complete before, because `reach` passes over what it has met. Checkpoints may have been
    /// listed.
    pub(crate) fn visit_checkpoints(
        &self,
        listed: &Listed,
        reach: &mut Reach<'_>,
        snapshots: &[SnapshotInfo],
        each: Each<'_>,
    ) -> Result<()> {
        let checkpoints = self.checkpoints_listed(listed, |_, _| {})?;
        for info in useful(&checkpoints, snapshots, clock::now()) {
            match reach.visit(&info.checkpoint.root, &mut *each) {
                Err(error) if error.is_fault() => {}
                visited => visited?,
            }
        }
        Ok(())
    }

    /// Deletes the checkpoints that are not useful, or damaged.
    pub(crate) fn drop_useless_checkpoints(&self, listed: &Listed) -> Result<()> {
        // Before the snapshots: one that is stored meanwhile can only make more checkpoints useless.
        let mut useless = Vec::new();
        let checkpoints = self.checkpoints_listed(listed, |id, error| {
            if error.is_of_content() {
                useless.push(id);
            }
        })?;
        if !checkpoints.is_empty() {
            let snapshots = self.snapshots()?;
            let useful = useful(&checkpoints, &snapshots, clock::now());
            let is_useful = |id| useful.iter().any(|info| info.id == id);
            useless.extend(checkpoints.iter().map(|info| info.id).filter(|id| !is_useful(*id)));
        }
        useless.into_iter().try_for_each(|id| self.drop_checkpoint(id))
    }

    pub(crate) fn drop_checkpoint(&self, id: FileId) -> Result<()> {
        self.delete_if_there(&name_in(folder::CHECKPOINTS, id))
    }

    /// Deletes checkpoints after the snapshot that makes them useless. What can't be deleted is left to a prune.
    pub(crate) fn drop_checkpoints(&self, ids: impl IntoIterator<Item = FileId>) {
        for id in ids {
            if let Err(error) = self.drop_checkpoint(id) {
                self.monitor.warn(Warning::Repository { error });
            }
        }
    }
}

impl Files {
    fn read_checkpoint(&self, id: FileId) -> Result<Checkpoint> {
        let name = name_in(folder::CHECKPOINTS, id);
        let mut bytes = self.storage.get(&name, checkpoint::LIMIT)?;
        Checkpoint::open(&self.keys, id, &mut bytes).map_err(Error::damaged(name))
    }
}

/// Returns those of these checkpoints, oldest first, that a backup can use, newest first: later than all snapshots
/// of their host and paths, not too old, and further in the tree than every newer one.
pub(crate) fn useful<'c>(
    checkpoints: &'c [CheckpointInfo],
    snapshots: &[SnapshotInfo],
    now: Time,
) -> Vec<&'c CheckpointInfo> {
    let mut latest: HashMap<(&str, &[Vec<u8>]), u64> = HashMap::new();
    for info in snapshots {
        let snapshot = &info.snapshot;
        let of_group = latest.entry((&snapshot.host, &snapshot.paths)).or_default();
        *of_group = snapshot.sequence.max(*of_group);
    }
    let mut furthest: HashMap<_, (&[u8], usize)> = HashMap::new();
    let mut useful = Vec::new();
    for info in checkpoints.iter().rev() {
        let Checkpoint {
            time, sequence, last, ..
        } = &info.checkpoint;
        let is_later = latest.get(&info.group()).is_none_or(|snapshot| *sequence > *snapshot);
        if !is_later || now.seconds.saturating_sub(time.seconds) > AGE_MAX {
            continue;
        }
        let (newer, count) = furthest.entry(info.group()).or_default();
        if (*count == 0 || order(last, newer) == Ordering::Greater) && *count < USEFUL_MAX {
            (*newer, *count) = (last, *count + 1);
            useful.push(info);
        }
    }
    useful
}

/// Compares two paths by when a backup is done with them: names in ascending order, and a directory after what is
/// in it. `/` is the last of all, and no path is before every path.
pub(crate) fn order(a: &[u8], b: &[u8]) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return a.len().cmp(&b.len());
    }
    let names = |path| <[u8]>::split(path, |byte: &u8| *byte == b'/').filter(|name| !name.is_empty());
    let (mut a, mut b) = (names(a), names(b));
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Greater,
            (Some(_), None) => return Ordering::Less,
            (Some(a), Some(b)) if a == b => {}
            (Some(a), Some(b)) => return a.cmp(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use ibid_format::content::Content;
    use ibid_format::snapshot::{Snapshot, SnapshotTotals};

    use super::*;

    const NOW: Time = Time {
        seconds: 1_800_000_000,
        nanos: 0,
    };

    fn checkpoint(id: u8, host: &str, sequence: u64, age: i64, last: &str) -> CheckpointInfo {
        CheckpointInfo {
            id: FileId([id; 16]),
            checkpoint: Checkpoint {
                session: FileId([id; 16]),
                time: Time {
                    seconds: NOW.seconds - age,
                    nanos: 0,
                },
                sequence,
                host: host.into(),
                program: String::new(),
                paths: vec![b"/home".to_vec()],
                root: Content::empty(),
                last: last.into(),
                files: 0,
                bytes: 0,
            },
        }
    }

    fn snapshot(host: &str, sequence: u64) -> SnapshotInfo {
        SnapshotInfo {
            id: FileId([0; 16]),
            file_size: 0,
            snapshot: Snapshot {
                time: NOW,
                sequence,
                duration_ms: 0,
                host: host.into(),
                user: String::new(),
                program: String::new(),
                paths: vec![b"/home".to_vec()],
                tags: Vec::new(),
                parent: None,
                original: None,
                root: Content::empty(),
                users: Vec::new(),
                groups: Vec::new(),
                counters: SnapshotTotals::default(),
            },
        }
    }

    fn ids(checkpoints: &[CheckpointInfo], snapshots: &[SnapshotInfo]) -> Vec<u8> {
        let useful = useful(checkpoints, snapshots, NOW);
        useful.iter().map(|info| info.id.0[0]).collect()
    }

    #[test]
    fn a_directory_is_done_after_what_is_in_it() {
        let ordered = ["", "/a", "/a-b", "/b/c/d", "/b/c", "/b/d", "/b", "/b-", "/"];
        for (at, a) in ordered.iter().enumerate() {
            for (to, b) in ordered.iter().enumerate() {
                assert_eq!(order(a.as_bytes(), b.as_bytes()), at.cmp(&to), "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn a_checkpoint_is_useful_until_there_is_a_later_snapshot_of_its_host_and_paths() {
        let all = [
            checkpoint(1, "amber", 3, 60, "/home/a"),
            checkpoint(2, "birch", 5, 60, "/home/a"),
        ];
        assert_eq!(ids(&all, &[]), [2, 1]);
        assert_eq!(ids(&all, &[snapshot("amber", 2), snapshot("birch", 5)]), [1]);
        assert_eq!(ids(&all, &[snapshot("amber", 3)]), [2]);
        assert_eq!(ids(&[checkpoint(1, "amber", 3, AGE_MAX + 1, "/home/a")], &[]), [0; 0]);
    }

    /// A backup that had come far was interrupted, and the next one early.
    #[test]
    fn an_older_checkpoint_is_useful_if_it_is_further_in_the_tree() {
        let all = [
            checkpoint(1, "amber", 3, 500, "/home/k"),
            checkpoint(2, "amber", 3, 400, "/home/z"),
            checkpoint(3, "amber", 3, 300, "/home/b"),
            checkpoint(4, "amber", 3, 200, "/home/c"),
            checkpoint(5, "amber", 3, 100, "/home/c"),
        ];
        assert_eq!(ids(&all, &[]), [5, 2]);
        let fewer: Vec<_> = (1..=9)
            .map(|n| checkpoint(n, "amber", 3, i64::from(n), &format!("/home/{n}")))
            .rev()
            .collect();
        assert_eq!(ids(&fewer, &[]), [1, 2, 3, 4], "each costs the next backup a little");
    }
}
