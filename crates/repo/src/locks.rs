//! Files that their storage keeps, whatever is deleted: object lock.

use std::path::PathBuf;
use std::sync::Arc;

use ibid_storage::{Archives, Error as StorageError, ErrorKind, Lock, Locks, Name, Operation, Storage};

use crate::layout::{folder, is_kept};
use crate::prune::PruneState;
use crate::repository::recorded_lock;
use crate::{PruneSummary, Repository, Result};

type StorageResult<T> = std::result::Result<T, StorageError>;

/// Returns the error of a storage that can't lock files.
pub(crate) fn cannot_lock(storage: &dyn Storage, lock: Lock) -> StorageError {
    let found = format!(
        "files of this repository are to be locked for {lock}, and only servers with S3 (s3://...) can lock files. \
         They can be read here"
    );
    StorageError::new(ErrorKind::Unsupported, Operation::Put, None, storage.location()).with_found(found)
}

/// Returns a storage that locks the files of a repository. One that can't do that only stores what need not be locked.
pub(crate) fn locking(storage: Arc<dyn Storage>, lock: Lock) -> Arc<dyn Storage> {
    if let Some(locks) = storage.locks() {
        locks.keep(lock, is_kept);
        return storage;
    }
    Arc::new(Lockless { storage, lock })
}

/// A storage that can't lock files, and refuses those that are to be locked.
struct Lockless {
    storage: Arc<dyn Storage>,
    lock: Lock,
}

impl Lockless {
    fn refuse(&self, name: &Name) -> StorageResult<()> {
        match is_kept(name) {
            true => Err(cannot_lock(&*self.storage, self.lock)),
            false => Ok(()),
        }
    }
}

impl Storage for Lockless {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> StorageResult<()> {
        self.refuse(name)?;
        self.storage.put(name, parts)
    }

    fn put_noting_repeats(&self, name: &Name, parts: &[&[u8]]) -> StorageResult<bool> {
        self.refuse(name)?;
        self.storage.put_noting_repeats(name, parts)
    }

    fn put_data(&self, name: &Name, parts: &[&[u8]]) -> StorageResult<()> {
        self.refuse(name)?;
        self.storage.put_data(name, parts)
    }

    fn get(&self, name: &Name, limit: u64) -> StorageResult<Vec<u8>> {
        self.storage.get(name, limit)
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> StorageResult<()> {
        self.storage.read_at(name, offset, buffer)
    }

    fn size(&self, name: &Name) -> StorageResult<u64> {
        self.storage.size(name)
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> StorageResult<()> {
        self.storage.list(folder, each)
    }

    fn list_together(&self, folders: &[&str], each: &mut dyn FnMut(Name, u64)) -> StorageResult<Vec<bool>> {
        self.storage.list_together(folders, each)
    }

    fn list_taken(&self, folder: &str, each: &mut dyn FnMut(Name)) -> StorageResult<()> {
        self.storage.list_taken(folder, each)
    }

    fn settle(&self, name: &Name) -> StorageResult<()> {
        self.storage.settle(name)
    }

    fn delete(&self, name: &Name) -> StorageResult<()> {
        self.storage.delete(name)
    }

    fn delete_all(&self, names: &[Name]) -> StorageResult<()> {
        self.storage.delete_all(names)
    }

    fn tells_absence(&self) -> bool {
        self.storage.tells_absence()
    }

    fn is_append_only(&self) -> bool {
        self.storage.is_append_only()
    }

    fn archives(&self) -> Option<&dyn Archives> {
        self.storage.archives()
    }

    fn location(&self) -> String {
        self.storage.location()
    }

    fn folder(&self) -> Option<PathBuf> {
        self.storage.folder()
    }

    fn is_remote(&self) -> bool {
        self.storage.is_remote()
    }
}

impl Repository {
    /// Returns what locks files, if the repository has its files locked.
    fn locks_kept(&self) -> Option<&dyn Locks> {
        self.files.storage.locks().filter(|locks| locks.kept().is_some())
    }

    /// Notes until when the storage keeps packs that are about to be deleted.
    pub(crate) fn note_locked(&self, packs: &[Name], summary: &mut PruneSummary) -> Result<()> {
        if let Some(locks) = self.locks_kept().filter(|_| !packs.is_empty()) {
            summary.locked_until = summary.locked_until.max(locks.until(packs)?);
        }
        Ok(())
    }

    /// Locks anew what is there and will stay, if less than half of its time is left.
    pub(crate) fn renew_locks(&self, summary: &mut PruneSummary) -> Result<()> {
        let Some(locks) = self.locks_kept() else {
            return Ok(());
        };
        let state = PruneState::read(&self.files).ok();
        let condemned = state.as_ref().map(PruneState::condemned).unwrap_or_default();
        let stays = |name: &Name| {
            let pack = Some(name)
                .filter(|name| name.is_in(folder::PACKS))
                .and_then(|name| ibid_format::FileId::parse(name.last_segment()));
            let goes = |pack| {
                state
                    .as_ref()
                    .is_some_and(|state| state.is_doomed(pack) || condemned.contains(&pack))
            };
            is_kept(name) && !pack.is_some_and(goes)
        };
        // Programs that store here lock what the repository records, and know of no more.
        let is_more = locks.kept() != recorded_lock(&self.config);
        let due = locks.due(is_more, &stays)?;
        locks.renew(&due, &|| self.monitor.check_cancelled().is_ok())?;
        self.monitor.check_cancelled()?;
        summary.locks_renewed = due.len() as u64;
        Ok(())
    }
}
