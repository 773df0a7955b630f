//! Snapshots that are made from others, when several processes make the same one.
//!
//! No lock keeps two processes from it. Each looks at the snapshots once more right before it stores its own, and finds
//! what others have stored by then. If two store theirs after that, each looks again: it deletes its own if there is an
//! equal one with a smaller id.
//!
//! Why one stays: before a process deletes its own, it makes the one with the smaller id durable. Of all that are
//! equal, the one with the smallest id is deleted by no process for that reason. It may be forgotten in the same
//! moment, by a command that knows only of it: then none is listed, as if it had been forgotten a moment later, and
//! [`remember`](Repository::remember) brings it back.
//!
//! Why two may stay: a process may have looked before the other one stored its own with a smaller id. That one can't
//! tell whether the first will look again. If it deleted its own, both might. So it only names the other.

use std::collections::HashSet;

use ibid_format::FileId;
use ibid_format::snapshot::Snapshot;
use ibid_storage::ErrorKind;

use crate::layout::{folder, name_in};
use crate::session::{OpenSession, SessionEnd};
use crate::snapshots::{first_id, order};
use crate::{Error, Repository, Result, SnapshotInfo, Warning};

/// Whether a snapshot that is made from another one is still to be stored.
pub(crate) enum Due {
    /// It is.
    Yes,
    /// Another process has stored this one, which is the same.
    IsThere(FileId),
}

/// How the storing of a snapshot that is made from another one ended.
pub(crate) enum DerivedEnd {
    /// The snapshot with this id is durable. It has so many bytes if this process has stored it.
    Stored(FileId, Option<u64>),
    /// A pruner has ended the session.
    Void,
}

/// Decides whether a snapshot is still to be stored, by the snapshots that there are now.
pub(crate) type IsDue<'a> = &'a dyn Fn(&[SnapshotInfo], &Snapshot) -> Result<Due>;

impl Repository {
    /// Stores a snapshot that is made from another one, if it is still due. `seen` are the snapshots as they were last
    /// read, and then as they are.
    pub(crate) fn put_derived(
        &self,
        session: &mut OpenSession,
        snapshot: &Snapshot,
        seen: &mut Vec<SnapshotInfo>,
        is_due: IsDue<'_>,
        put: impl FnOnce(&mut OpenSession) -> Result<SessionEnd>,
    ) -> Result<DerivedEnd> {
        self.look_again(seen)?;
        if let Due::IsThere(id) = is_due(seen, snapshot)? {
            self.files.storage.settle(&name_in(folder::SNAPSHOTS, id))?;
            return Ok(DerivedEnd::Stored(id, None));
        }
        let SessionEnd::Stored(size) = put(session)? else {
            return Ok(DerivedEnd::Void);
        };
        let before: HashSet<FileId> = seen.iter().map(|info| info.id).collect();
        match self.keep_smallest(session.id, snapshot, seen) {
            Ok(id) if id == session.id => {
                self.name_others(id, &before, seen);
                Ok(DerivedEnd::Stored(id, Some(size)))
            }
            Ok(id) => Ok(DerivedEnd::Stored(id, None)),
            Err(error) => {
                // It is durable. At worst, an equal one is there, too.
                self.monitor.warn(Warning::Repository { error });
                Ok(DerivedEnd::Stored(session.id, Some(size)))
            }
        }
    }

    /// Deletes the snapshot that this process has stored if an equal one with a smaller id is there. Returns the id of
    /// the one that stays.
    fn keep_smallest(&self, own: FileId, snapshot: &Snapshot, seen: &mut Vec<SnapshotInfo>) -> Result<FileId> {
        let smaller = loop {
            self.look_again(seen)?;
            let is_smaller = |other: &&SnapshotInfo| other.id < own && is_same(&other.snapshot, snapshot);
            let Some(smaller) = seen.iter().filter(is_smaller).map(|other| other.id).min() else {
                return Ok(own);
            };
            // If it is gone, it counts no longer.
            if !self.files.settle(folder::SNAPSHOTS, smaller)? {
                continue;
            }
            break smaller;
        };
        match self.delete_snapshots(&[own]) {
            Ok(()) => seen.retain(|info| info.id != own),
            Err(error) => self.monitor.warn(Warning::Repository { error }),
        }
        Ok(smaller)
    }

    /// Names the snapshots that other processes have made of the same original since `before`, and that may stay.
    fn name_others(&self, own: FileId, before: &HashSet<FileId>, seen: &[SnapshotInfo]) {
        let Some(info) = seen.iter().find(|info| info.id == own) else {
            return;
        };
        for other in seen {
            let is_new = other.id != own && !before.contains(&other.id);
            if is_new && first_id(other) == first_id(info) {
                self.monitor.warn(Warning::StoredAtOnce {
                    snapshot: info.short_id(),
                    other: other.short_id(),
                });
            }
        }
    }

    /// Brings a list of snapshots up to date: those that are gone leave it, and those that came are read. One that
    /// can't be read stays out of it.
    pub(crate) fn look_again(&self, seen: &mut Vec<SnapshotInfo>) -> Result<()> {
        let listed = self.files.list(folder::SNAPSHOTS)?;
        let place = |id: FileId| listed.binary_search_by_key(&id, |(id, _)| *id);
        seen.retain(|info| place(info.id).is_ok());
        let known: HashSet<FileId> = seen.iter().map(|info| info.id).collect();
        for &(id, file_size) in listed.iter().filter(|(id, _)| !known.contains(id)) {
            match self.files.read_snapshot(id, file_size) {
                Ok(Some(snapshot)) => seen.push(SnapshotInfo {
                    id,
                    file_size,
                    snapshot,
                }),
                Ok(None) => {}
                Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound => {}
                Err(error) if error.is_fault() => {}
                Err(error) => return Err(error),
            }
        }
        seen.sort_by_key(order);
        Ok(())
    }

    /// Deletes the files of snapshots, if they are there.
    pub(crate) fn delete_snapshots(&self, ids: &[FileId]) -> Result<()> {
        if self.files.keys.is_of_writer() {
            // A writer may not be allowed to delete its sessions. Without a snapshot, they would not have ended.
            self.delete_all(folder::SESSIONS, ids)?;
        }
        self.delete_all(folder::SNAPSHOTS, ids)?;
        if let Some(copies) = &self.files.copies {
            ids.iter().for_each(|id| copies.remove(folder::SNAPSHOTS, *id));
        }
        Ok(())
    }
}

/// Returns the snapshot among these that is the same as one that is to be stored.
pub(crate) fn same_as<'a>(seen: &'a [SnapshotInfo], snapshot: &Snapshot) -> Option<&'a SnapshotInfo> {
    seen.iter().find(|other| is_same(&other.snapshot, snapshot))
}

/// Returns an error if a snapshot is no longer among these.
pub(crate) fn is_there(seen: &[SnapshotInfo], info: &SnapshotInfo) -> Result<()> {
    match seen.iter().any(|other| other.id == info.id) {
        true => Ok(()),
        false => Err(Error::SnapshotGone {
            snapshot: info.short_id(),
        }),
    }
}

/// Returns whether two snapshots are the same to a user. What a process has stored for one, and what it was compared
/// with, differs between processes.
fn is_same(a: &Snapshot, b: &Snapshot) -> bool {
    let plain = |snapshot: &Snapshot| {
        let mut plain = Snapshot {
            parent: None,
            ..snapshot.clone()
        };
        let counters = &mut plain.counters;
        (counters.new_chunks, counters.new_bytes, counters.stored_bytes) = (0, 0, 0);
        plain
    };
    a.original.is_some() && a.original == b.original && plain(a) == plain(b)
}
