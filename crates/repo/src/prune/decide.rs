//! Sessions that were open when packs were condemned: have they ended, and if not, for how long do we wait?

use std::collections::BTreeSet;

use ibid_format::prune_log::Batch;
use ibid_format::{FileId, snapshot};
use ibid_storage::{ErrorKind, Name};

use super::rules::{self, Rule};
use super::{PruneOptions, WaitingFor};
use crate::layout::{folder, name_in};
use crate::listed::Listed;
use crate::session::SessionState;
use crate::{Error, Repository, Result, clock};

/// Files that are deleted before it is looked whether the user wants to stop.
const DELETED_AT_ONCE: usize = 1000;

impl Repository {
    /// Returns those of the sessions that were seen which must still be waited for. Those whose process is gone,
    /// those that have lasted too long, and those to give up on are ended.
    pub(super) fn decide(&self, batches: &[Batch], options: &PruneOptions) -> Result<Vec<WaitingFor>> {
        let seen: BTreeSet<FileId> = batches
            .iter()
            .flat_map(|batch| batch.seen.iter().flatten())
            .copied()
            .collect();
        let mut waiting = Vec::new();
        for id in seen {
            let info = match self.session(id) {
                // Its file is deleted once its snapshot is stored, or will never be.
                Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) if error.is_fault() => None,
                info => Some(info?),
            };
            let first_seen = batches
                .iter()
                .filter(|batch| batch.seen.iter().flatten().any(|seen| *seen == id));
            let first_seen = first_seen.map(|batch| batch.time.seconds).min().unwrap_or(i64::MAX);
            let waited = clock::now().seconds.saturating_sub(first_seen);
            let is_patient = u64::try_from(waited).unwrap_or(0) < options.patience.as_secs();
            match info.as_ref().map_or(SessionState::Unknown, |info| info.state) {
                SessionState::Ended if self.delete_ended(id)? => {}
                // Should it live all the same, it will notice.
                SessionState::Dead => self.end_session(id)?,
                _ if !is_patient || options.give_up_on.contains(&id) => self.end_session(id)?,
                _ => waiting.push(WaitingFor { id, info }),
            }
        }
        Ok(waiting)
    }

    /// Ends the sessions to give up on, and those whose process is gone: also if there is nothing to free that they
    /// may need, or they would be listed for ever.
    pub(super) fn end_dead_sessions(&self, options: &PruneOptions, listed: &Listed) -> Result<()> {
        for (id, _) in listed.ids(&*self.files.storage, folder::SESSIONS)? {
            match self.session(id) {
                Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound => {}
                Ok(info) if info.state == SessionState::Ended => drop(self.delete_ended(id)?),
                Ok(info) if info.state == SessionState::Dead => self.end_session(id)?,
                Err(error) if !error.is_fault() => return Err(error),
                _ if options.give_up_on.contains(&id) => self.end_session(id)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Deletes a session that was ended, once what has ended it is durable. Returns whether it has: if a server has
    /// lost its power since, and that file with it, the session is open again.
    fn delete_ended(&self, id: FileId) -> Result<bool> {
        let is_there = self.files.settle(folder::SNAPSHOTS, id)?;
        if is_there {
            self.delete_if_there(&name_in(folder::SESSIONS, id))?;
        }
        Ok(is_there)
    }

    /// Ends a session by a void file in its snapshot's place. If the snapshot came first, that ends it, too.
    pub(super) fn end_session(&self, id: FileId) -> Result<()> {
        if !rules::holds(Rule::Fence) {
            return self.delete_if_there(&name_in(folder::SESSIONS, id));
        }
        let bytes = snapshot::encode_void(&self.files.keys, id).map_err(Error::damaged("a void file"))?;
        match self.files.storage.put(&name_in(folder::SNAPSHOTS, id), &[&bytes]) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
            _ => {}
        }
        // The backup that notices deletes its file, too.
        self.delete_if_there(&name_in(folder::SESSIONS, id))
    }

    /// Deletes files of a folder unless they are gone already.
    pub(crate) fn delete_all(&self, folder: &str, ids: &[FileId]) -> Result<()> {
        let names: Vec<Name> = ids.iter().map(|id| name_in(folder, *id)).collect();
        self.delete_names(&names)
    }

    /// Deletes files unless they are gone already.
    pub(crate) fn delete_names(&self, names: &[Name]) -> Result<()> {
        for names in names.chunks(DELETED_AT_ONCE) {
            self.monitor.check_cancelled()?;
            self.files.storage.delete_all(names)?;
        }
        Ok(())
    }

    /// Deletes a file unless it is gone already.
    pub(crate) fn delete_if_there(&self, name: &Name) -> Result<()> {
        match self.files.storage.delete(name) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}
