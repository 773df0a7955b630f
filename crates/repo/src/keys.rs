//! The key slots: several passwords, one master key.

use crate::repository::{folder, list_ids, name_in};
use crate::{Error, Repository, Result};
use ibid_format::slot::{self, Argon2Cost, Note, Slot};
use ibid_format::{FileId, Keys};
use ibid_storage::Storage;

/// The most memory that opening a key slot may ask for, KiB: a hostile slot must not exhaust the machine.
const ARGON2_MEMORY_MAX_KIB: u32 = 1 << 20;

/// A key slot, as listed.
#[derive(Clone, Debug)]
pub struct KeyInfo {
    /// Its file's id.
    pub id: FileId,
    /// What opening it costs.
    pub cost: Argon2Cost,
    /// Who made it, when, and the label given; or why that can't be read.
    pub note: std::result::Result<Note, String>,
}

fn read_slot(storage: &dyn Storage, id: FileId) -> Result<Slot> {
    let bytes = storage.get(&name_in(folder::KEYS, id), slot::LIMIT)?;
    Slot::parse(id, &bytes).map_err(Error::damaged(format_args!("key {id}")))
}

/// Tries the password on every slot. A damaged slot does not keep a good one from opening.
pub(crate) fn unlock(storage: &dyn Storage, repository: FileId, password: &[u8]) -> Result<Keys> {
    let ids = list_ids(storage, folder::KEYS)?;
    let mut tried = 0;
    let mut damage = None;
    for (id, _) in &ids {
        let slot = match read_slot(storage, *id) {
            Ok(slot) if slot.repository() == repository => slot,
            Ok(_) => continue,
            Err(error) => {
                damage = Some(error);
                continue;
            }
        };
        match slot.unlock(password, ARGON2_MEMORY_MAX_KIB) {
            Ok(master) => return Ok(Keys::encrypted(repository, &master)),
            Err(ibid_format::Error::WrongPassword) => tried += 1,
            Err(source) => {
                damage = Some(Error::Damaged {
                    object: format!("key {id}"),
                    source,
                })
            }
        }
    }
    match damage {
        _ if tried > 0 => Err(Error::WrongPassword {
            slots: tried,
            location: storage.location(),
        }),
        Some(error) => Err(error),
        None => Err(Error::NoKeys {
            location: storage.location(),
            found: ids.len(),
        }),
    }
}

pub(crate) fn add_slot(
    storage: &dyn Storage,
    keys: &Keys,
    password: &[u8],
    cost: Argon2Cost,
    label: &str,
    now: i64,
) -> Result<FileId> {
    let id = FileId::random();
    let note = Note {
        created: now,
        label: label.to_owned(),
        host: crate::source::host_name(),
        user: crate::source::user_name(),
    };
    let bytes = slot::create(id, keys, password, cost, &note).map_err(Error::damaged("the new key slot"))?;
    storage.put(&name_in(folder::KEYS, id), &[&bytes])?;
    Ok(id)
}

impl Repository {
    /// Every key slot, or why it can't be read.
    pub(crate) fn slots(&self) -> Result<Vec<(FileId, Result<Slot>)>> {
        let ids = list_ids(self.storage.as_ref(), folder::KEYS)?;
        Ok(ids
            .into_iter()
            .map(|(id, _)| (id, read_slot(self.storage.as_ref(), id)))
            .collect())
    }

    /// All key slots.
    ///
    /// # Errors
    /// Whatever the storage says; a slot that is no slot. (One that is of another repository or was altered is listed with that.)
    pub fn key_list(&self) -> Result<Vec<KeyInfo>> {
        let mut found = Vec::new();
        for (id, slot) in self.slots()? {
            let slot = slot?;
            let note = slot.note(&self.keys).map_err(|error| error.to_string());
            found.push(KeyInfo {
                id,
                cost: slot.cost(),
                note,
            });
        }
        Ok(found)
    }

    /// Adds a slot that opens with `password`; returns its id.
    ///
    /// # Errors
    /// [`Error::NotEncrypted`] for an unencrypted repository; whatever the storage says.
    pub fn key_add(&self, password: &[u8], cost: Argon2Cost, label: &str, now: i64) -> Result<FileId> {
        if !self.is_encrypted() {
            return Err(Error::NotEncrypted {
                location: self.location(),
            });
        }
        add_slot(self.storage.as_ref(), &self.keys, password, cost, label, now)
    }

    /// Removes the slot whose id starts with `prefix`. The last slot stays.
    ///
    /// # Errors
    /// [`Error::UnknownKey`], [`Error::LastKey`]; whatever the storage says.
    pub fn key_remove(&self, prefix: &str) -> Result<FileId> {
        let ids = list_ids(self.storage.as_ref(), folder::KEYS)?;
        let matching: Vec<_> = ids
            .iter()
            .filter(|(id, _)| id.to_string().starts_with(prefix))
            .collect();
        let [(id, _)] = matching.as_slice() else {
            return Err(Error::UnknownKey {
                wanted: prefix.to_owned(),
            });
        };
        // Only a slot that holds this repository's key counts as another one.
        let usable =
            |id: &FileId| read_slot(self.storage.as_ref(), *id).is_ok_and(|slot| slot.note(&self.keys).is_ok());
        if !ids.iter().any(|(other, _)| other != id && usable(other)) {
            return Err(Error::LastKey { id: *id });
        }
        self.storage.delete(&name_in(folder::KEYS, *id))?;
        Ok(*id)
    }

    /// Replaces the slot that opens with `old` by one that opens with `new`: the new one is stored before the old one goes.
    ///
    /// # Errors
    /// [`Error::WrongPassword`] if `old` opens none; whatever the storage says.
    pub fn key_change(&self, old: &[u8], new: &[u8], cost: Argon2Cost, now: i64) -> Result<FileId> {
        for (id, _) in list_ids(self.storage.as_ref(), folder::KEYS)? {
            let slot = read_slot(self.storage.as_ref(), id)?;
            if slot.unlock(old, ARGON2_MEMORY_MAX_KIB).is_ok() {
                let label = slot.note(&self.keys).map(|note| note.label).unwrap_or_default();
                let fresh = self.key_add(new, cost, &label, now)?;
                self.storage.delete(&name_in(folder::KEYS, id))?;
                return Ok(fresh);
            }
        }
        Err(Error::WrongPassword {
            slots: self.key_list()?.len(),
            location: self.location(),
        })
    }
}
