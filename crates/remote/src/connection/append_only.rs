//! A storage of a repository to which a client can add, and from which it can take nothing.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use ibid_storage::{Error, ErrorKind, Name, Operation, Storage};

/// Folders of a repository in which a backup stores, and two files that a new repository has. Not among them: `prune`,
/// since an entry of its log can give packs up for deletion; `damaged`, since an empty file there gives a pack up for
/// lost; `forgotten`, which only a `forget` needs.
const FOLDERS: [&str; 9] = [
    "packs",
    "index",
    "snapshots",
    "sessions",
    "checkpoints",
    "sketches",
    "keys",
    "writers",
    "revoked",
];
/// The folder of the files of writers: those of each are in a folder with its id, and named as in a repository.
const WRITTEN: &str = "written";
const FILES: [&str; 2] = ["config", "config.copy"];

/// A storage of a repository that lets a client store what a backup stores, and delete what a backup has to delete:
///
/// - checkpoints, which are advice: without one, a backup reads files again;
/// - a session that has ended, because there is a snapshot of its name, or that was stored through this very value. One
///   of another backup that runs must stay, or a prune would not wait for that backup;
/// - a key that was stored through this value, and `keys/probe-…`, which is never a key.
///
/// In the folder of each writer, the same may be stored and deleted. Writers can be added and revoked.
///
/// Everything else is [refused](Error::append_only). Use a value for one client.
pub struct AppendOnly<S> {
    storage: S,
    /// The sessions and keys that were stored through this value.
    stored: Mutex<HashSet<Name>>,
}

impl<S: Storage> AppendOnly<S> {
    /// Returns the storage, to which things can only be added.
    pub fn new(storage: S) -> Self {
        AppendOnly {
            storage,
            stored: Mutex::default(),
        }
    }

    fn refused(&self, operation: Operation, name: &Name) -> Error {
        Error::append_only(operation, Some(name), self.location())
    }

    fn stored(&self) -> std::sync::MutexGuard<'_, HashSet<Name>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn may_delete(&self, name: &Name) -> Result<bool, Error> {
        let own = || self.stored().contains(name);
        Ok(match top(name) {
            "checkpoints" => true,
            "keys" if is_written(name) => false,
            "keys" => name.as_str().starts_with("keys/probe-") || own(),
            "sessions" => own() || self.has_ended(name)?,
            _ => false,
        })
    }

    /// Returns whether there is a snapshot of a session's name, and makes it durable.
    fn has_ended(&self, session: &Name) -> Result<bool, Error> {
        let folder = session
            .as_str()
            .strip_suffix(session.last_segment())
            .unwrap_or_default();
        let snapshot = format!(
            "{}snapshots/{}",
            folder.strip_suffix("sessions/").unwrap_or_default(),
            session.last_segment()
        );
        let snapshot = Name::new(&snapshot);
        let Ok(snapshot) = snapshot else { return Ok(false) };
        match self.storage.settle(&snapshot) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotAnObject) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Returns the folder of a repository that an object is in, or the folder of a writer's files; empty if in none.
fn top(name: &Name) -> &str {
    in_repository(name).split_once('/').map_or("", |(top, _)| top)
}

/// Returns the name that an object has in its repository, or among the files of its writer.
fn in_repository(name: &Name) -> &str {
    let mut parts = name.as_str().splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(WRITTEN), Some(_), Some(own)) => own,
        _ => name.as_str(),
    }
}

fn is_written(name: &Name) -> bool {
    name.is_in(WRITTEN)
}

impl<S: Storage> Storage for AppendOnly<S> {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        if !FOLDERS.contains(&top(name)) && !FILES.contains(&in_repository(name)) {
            return Err(self.refused(Operation::Put, name));
        }
        self.storage.put(name, parts)?;
        if matches!(top(name), "sessions" | "keys") {
            self.stored().insert(name.clone());
        }
        Ok(())
    }

    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        self.storage.get(name, limit)
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.storage.read_at(name, offset, buffer)
    }

    fn size(&self, name: &Name) -> Result<u64, Error> {
        self.storage.size(name)
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        self.storage.list(folder, each)
    }

    fn list_taken(&self, folder: &str, each: &mut dyn FnMut(Name)) -> Result<(), Error> {
        self.storage.list_taken(folder, each)
    }

    fn settle(&self, name: &Name) -> Result<(), Error> {
        self.storage.settle(name)
    }

    fn delete(&self, name: &Name) -> Result<(), Error> {
        if !self.may_delete(name)? {
            return Err(self.refused(Operation::Delete, name));
        }
        self.storage.delete(name)?;
        self.stored().remove(name);
        Ok(())
    }

    fn tells_absence(&self) -> bool {
        self.storage.tells_absence()
    }

    fn is_append_only(&self) -> bool {
        true
    }

    fn location(&self) -> String {
        self.storage.location()
    }
}
