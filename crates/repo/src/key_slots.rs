//! Key slots in storage: reading, trying and adding them.

use ibid_format::slot::{self, Argon2Cost, MEMORY_KIB_ALLOWED, Note, Slot};
use ibid_format::{FileId, Keys, MasterKey};
use ibid_storage::Storage;

use crate::layout::{folder, list_ids, name_in, new_id};
use crate::{Error, Result};

pub(crate) fn read_slot(storage: &dyn Storage, id: FileId) -> Result<Slot> {
    Ok(read_file(storage, id)?.1)
}

/// Reads a slot, and returns the bytes of its file, too.
fn read_file(storage: &dyn Storage, id: FileId) -> Result<(Vec<u8>, Slot)> {
    let name = name_in(folder::KEYS, id);
    let bytes = storage.get(&name, slot::LIMIT)?;
    let slot = Slot::parse(id, &bytes).map_err(Error::damaged(name))?;
    Ok((bytes, slot))
}

/// The slot that has opened a repository.
pub(crate) struct OpenedSlot {
    pub(crate) id: FileId,
    /// The bytes of its file.
    pub(crate) file: Vec<u8>,
}

/// Returns the keys of a repository if this key file, which a cache remembers, opens with the password.
pub(crate) fn unlock_remembered(repository: FileId, id: FileId, file: &[u8], password: &[u8]) -> Option<Keys> {
    let slot = Slot::parse(id, file).ok()?;
    let is_of_it = slot.repository() == repository;
    let master = is_of_it.then(|| try_slot(&slot, password)).and_then(Result::ok)??;
    Some(Keys::encrypted(repository, &master))
}

/// Returns the master key, or none if the slot opens with another password.
pub(crate) fn try_slot(slot: &Slot, password: &[u8]) -> Result<Option<MasterKey>> {
    match slot.unlock(password, MEMORY_KIB_ALLOWED) {
        Ok(master) => Ok(Some(master)),
        Err(ibid_format::Error::WrongPassword) => Ok(None),
        Err(source) => Err(Error::KeyUnusable { id: slot.id(), source }),
    }
}

/// Returns the ids of all slots.
pub(crate) fn list_slots(storage: &dyn Storage) -> Result<Vec<FileId>> {
    let listed = list_ids(storage, folder::KEYS)?;
    Ok(listed.into_iter().map(|(id, _)| id).collect())
}

/// Tries the password on every slot and returns the keys and the slot that opened. A damaged slot
/// does not prevent another from opening. `listed` are the slots that there were a moment ago, if they are known.
pub(crate) fn unlock(
    storage: &dyn Storage,
    repository: FileId,
    password: &[u8],
    listed: Option<&[FileId]>,
) -> Result<(Keys, OpenedSlot)> {
    let Some(listed) = listed else {
        return unlock_any(storage, repository, password, &list_slots(storage)?);
    };
    unlock_any(storage, repository, password, listed).or_else(|error| match list_slots(storage)? {
        now if now == listed => Err(error),
        now => unlock_any(storage, repository, password, &now),
    })
}

fn unlock_any(
    storage: &dyn Storage,
    repository: FileId,
    password: &[u8],
    ids: &[FileId],
) -> Result<(Keys, OpenedSlot)> {
    let mut slots = 0;
    let mut foreign = Vec::new();
    let mut untried = None;
    for id in ids {
        let tried = match read_file(storage, *id) {
            Ok((_, slot)) if slot.repository() != repository => {
                foreign.push(slot);
                continue;
            }
            Ok((file, slot)) => try_slot(&slot, password).map(|master| (master, file)),
            Err(error) => Err(error),
        };
        match tried {
            Ok((Some(master), file)) => {
                let opened = OpenedSlot { id: *id, file };
                return Ok((Keys::encrypted(repository, &master), opened));
            }
            Ok((None, _)) => slots += 1,
            Err(error) => untried = Some(error),
        }
    }
    if slots > 0 {
        return Err(Error::WrongPassword {
            slots,
            location: storage.location(),
            untried: untried.map(Box::new),
        });
    }
    // A slot that opens is intact, and so is the repository id in it: then the config has the wrong
    // id.
    for slot in foreign {
        if let Ok(Some(_)) = try_slot(&slot, password) {
            return Err(Error::ConfigDamaged {
                source: ibid_format::Error::Repository {
                    expected: slot.repository(),
                    found: repository,
                },
            });
        }
    }
    Err(untried.unwrap_or(Error::NoKeys {
        location: storage.location(),
        found: ids.len(),
    }))
}

/// Stores a slot, reads it back and opens it: the caller may be about to delete its predecessor.
pub(crate) fn add_slot(
    storage: &dyn Storage,
    keys: &Keys,
    password: &[u8],
    cost: Argon2Cost,
    label: &str,
    now: i64,
) -> Result<OpenedSlot> {
    let id = new_id();
    let note = Note {
        created: now,
        label: label.to_owned(),
        host: crate::source::host_name(),
        user: crate::source::user_name(),
    };
    let refused = |source| Error::Refused {
        what: "the key",
        source,
    };
    let bytes = slot::create(id, keys, password, cost, &note).map_err(refused)?;
    let name = name_in(folder::KEYS, id);
    storage.put(&name, &[&bytes])?;
    let opened = read_slot(storage, id).and_then(|slot| {
        let master = try_slot(&slot, password)?;
        // The note opens only with the key that it was sealed with.
        let is_right = |master| slot.note(&Keys::encrypted(keys.repository(), &master)).is_ok();
        if master.is_some_and(is_right) {
            Ok(OpenedSlot { id, file: bytes })
        } else {
            Err(Error::KeyNotStored { id })
        }
    });
    // What was read back is not what was written.
    let opened = opened.map_err(|error| match error.is_damage() {
        true => Error::KeyNotStored { id },
        false => error,
    });
    if opened.is_err() {
        // A slot that does not open is useless. If deleting it fails too, a check reports it.
        let _ = storage.delete(&name);
    }
    opened
}
