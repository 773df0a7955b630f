//! Forgetting snapshots, by a policy too, and taking that back.

mod policy;
mod seen;

use ibid_format::FileId;
use ibid_format::snapshot::{self, Snapshot};
use ibid_storage::ErrorKind;
pub use policy::{GroupBy, KeepPolicy, KeepWithin, PolicyDecision, PolicyGap, PolicyGroup};

use crate::derived::{DerivedEnd, Due, IsDue, same_as};
use crate::index::{LoadedIndex, View};
use crate::layout::{folder, name_in};
use crate::prune::PruneState;
use crate::session::OpenSession;
use crate::snapshots::order;
use crate::threads::{REQUESTS, each};
use crate::tree::Reach;
use crate::{Error, Repository, Result, SnapshotInfo};

impl PolicyGroup {
    /// Returns the ids of the snapshots of all groups that are forgotten.
    pub fn ids_forgotten(groups: &[PolicyGroup]) -> Vec<FileId> {
        policy::forgotten(groups)
    }
}

impl Repository {
    /// Forgets snapshots: they are no longer listed, and the next [`prune`](Repository::prune) frees what only
    /// they need. Until then [`remember`](Repository::remember) brings them back.
    ///
    /// # Errors
    /// Errors of the storage. Some of the snapshots may be forgotten then.
    pub fn forget(&self, snapshots: &[FileId]) -> Result<()> {
        self.refuse_append_only()?;
        for group in snapshots.chunks(REQUESTS) {
            let copied = each(self.files.storage.is_remote(), group, |id| self.copy_forgotten(*id));
            copied.into_iter().collect::<Result<()>>()?;
            self.delete_snapshots(group)?;
        }
        Ok(())
    }

    /// Copies a snapshot to where it can be brought back from, unless it is gone.
    fn copy_forgotten(&self, id: FileId) -> Result<()> {
        let bytes = match self.files.snapshot_bytes(id) {
            // Another process was faster.
            Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound => return Ok(()),
            bytes => bytes?,
        };
        match self.files.storage.put(&name_in(folder::FORGOTTEN, id), &[&bytes]) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Forgets snapshots so that nothing brings them back. That takes no space, where [`forget`](Repository::forget)
    /// needs some on a full disk.
    ///
    /// # Errors
    /// Errors of the storage. Some of the snapshots may be forgotten then.
    pub fn forget_for_good(&self, snapshots: &[FileId]) -> Result<()> {
        self.refuse_append_only()?;
        self.delete_snapshots(snapshots)
    }

    /// Returns the snapshots that were forgotten and that no prune has freed yet, oldest first. One that can't be
    /// read, and so can't come back, is passed to `on_damage`.
    ///
    /// # Errors
    /// Errors of the storage when it can't be reached.
    pub fn forgotten(&self, mut on_damage: impl FnMut(FileId, Error)) -> Result<Vec<SnapshotInfo>> {
        let mut found = Vec::new();
        for (id, file_size) in self.files.list(folder::FORGOTTEN)? {
            match self.read_forgotten(id) {
                Ok(Some(snapshot)) => found.push(SnapshotInfo {
                    id,
                    file_size,
                    snapshot,
                }),
                Ok(None) => {}
                // Another process has brought it back, or freed it.
                Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound => {}
                Err(error) if error.is_fault() => on_damage(id, error),
                Err(error) => return Err(error),
            }
        }
        found.sort_by_key(order);
        Ok(found)
    }

    /// Returns whether a keeper has forgotten a snapshot, and it was neither brought back nor freed since.
    pub(crate) fn is_forgotten(&self, id: FileId) -> Result<bool> {
        match self.read_forgotten(id) {
            Ok(snapshot) => Ok(snapshot.is_some()),
            Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) if error.is_fault() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn read_forgotten(&self, id: FileId) -> Result<Option<Snapshot>> {
        let name = name_in(folder::FORGOTTEN, id);
        let mut bytes = self.files.storage.get(&name, snapshot::LIMIT)?;
        Snapshot::open(&self.files.keys, id, &mut bytes).map_err(Error::damaged(name))
    }

    /// Brings back a forgotten snapshot, under a new id, which is returned. All that it needs must still be
    /// there.
    ///
    /// # Errors
    /// [`Error::NotForgotten`]; [`Error::PartlyFreed`] if a prune has begun to free what it needs;
    /// [`Error::SessionEnded`]; damage; errors of the storage.
    pub fn remember(&self, forgotten: FileId, program: &str) -> Result<FileId> {
        self.refuse_append_only()?;
        let gone = || Error::NotForgotten {
            wanted: forgotten.to_string(),
        };
        let snapshot = match self.read_forgotten(forgotten) {
            Ok(Some(snapshot)) => snapshot,
            Err(Error::Storage(error)) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            Ok(None) | Err(Error::Storage(_)) => return Err(gone()),
            Err(error) => return Err(error),
        };
        let again = Snapshot {
            original: Some(snapshot.original.unwrap_or(forgotten)),
            ..snapshot
        };
        let name = name_in(folder::FORGOTTEN, forgotten);
        let lacking = || Error::PartlyFreed { id: forgotten };
        let id = self.put_again(&again, "forget --undo", program, lacking, &|seen, again| {
            if let Some(other) = same_as(seen, again) {
                // Another process was faster, or one was killed before it deleted the forgotten one.
                return Ok(Due::IsThere(other.id));
            }
            match self.files.storage.size(&name) {
                Ok(_) => Ok(Due::Yes),
                Err(error) if error.kind() == ErrorKind::NotFound => Err(gone()),
                Err(error) => Err(error.into()),
            }
        })?;
        self.delete_if_there(&name)?;
        Ok(id)
    }

    /// Stores a snapshot of which everything is stored already, in a session of its own, unless it is no longer due.
    /// Returns its id. `lacking` is the error if something is not stored, or is about to be deleted.
    pub(crate) fn put_again(
        &self,
        snapshot: &Snapshot,
        action: &str,
        program: &str,
        lacking: impl Fn() -> Error,
        is_due: IsDue<'_>,
    ) -> Result<FileId> {
        let mut session = OpenSession::begin(&self.files, action, program, &snapshot.paths)?;
        let stored = self.put_if_complete(&mut session, snapshot, lacking, is_due);
        let ended = session.end(&self.files);
        let id = stored?;
        ended?;
        Ok(id)
    }

    fn put_if_complete(
        &self,
        session: &mut OpenSession,
        snapshot: &Snapshot,
        lacking: impl Fn() -> Error,
        is_due: IsDue<'_>,
    ) -> Result<FileId> {
        PruneState::read(&self.files)?.settled(&self.files)?;
        self.refresh();
        let loaded = LoadedIndex::settled(&self.files, || LoadedIndex::load(self, View::Writer))?;
        let reader = self.tree_reader()?;
        let visited =
            Reach::new(self, &reader).visit(&snapshot.root, &mut |id, _, _| match loaded.index.get_stored(id) {
                Some(_) => Ok(()),
                None => Err(Error::ChunkMissing { id: *id }),
            });
        match visited {
            Err(Error::ChunkMissing { .. } | Error::ChunkFreed { .. }) => return Err(lacking()),
            visited => visited?,
        }
        let put = |session: &mut OpenSession| session.put(&self.files, snapshot);
        match self.put_derived(session, snapshot, &mut Vec::new(), is_due, put)? {
            DerivedEnd::Stored(id, _) => Ok(id),
            DerivedEnd::Void => Err(Error::SessionEnded),
        }
    }
}
