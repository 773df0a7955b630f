//! The key slots: several passwords, one master key.

use ibid_format::FileId;
use ibid_format::slot::{Argon2Cost, Note, Slot};
use ibid_format::tree::Time;

use crate::key_slots::{add_slot, read_slot, try_slot};
use crate::layout::{folder, name_in};
use crate::options::setters;
use crate::{Error, Repository, Result, clock};

/// A key slot in a listing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeyInfo {
    /// Id of its file.
    pub id: FileId,
    /// Whether this slot opened the repository. Only for this one slot is it certain that its
    /// password works.
    pub current: bool,
    /// Cost of opening the slot, if it can be read.
    pub cost: Option<Argon2Cost>,
    /// Label, creation time, host and user of the slot; or the reason why they can't be read.
    pub note: std::result::Result<Note, String>,
}

/// Settings of a new key slot.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KeyOptions {
    /// Cost of one guess at the password, and of opening the slot.
    pub cost: Argon2Cost,
    /// Label shown in listings. If it is empty, a slot that replaces others keeps their label.
    pub label: String,
    /// Creation time to record; the current time if none.
    pub created: Option<Time>,
}

setters!(KeyOptions {
    cost: Argon2Cost,
} into {
    label: String,
    created: Option<Time>,
});

/// Result of a password change.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeyChange {
    /// The new slot.
    pub id: FileId,
    /// Removed slots: all that opened with the old password.
    pub removed: Vec<FileId>,
    /// Slots that could not be tried with the old password, and why. They are unchanged.
    pub untried: Vec<(FileId, String)>,
}

impl Repository {
    /// Returns every key slot, or the reason why it can't be read.
    pub(crate) fn slots(&self) -> Result<Vec<(FileId, Result<Slot>)>> {
        let ids = self.files.list(folder::KEYS)?;
        Ok(ids
            .into_iter()
            .map(|(id, _)| (id, read_slot(self.files.storage.as_ref(), id)))
            .collect())
    }

    /// Returns all key slots. Slots of other repositories and unreadable slots are listed with that
    /// problem.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn keys(&self) -> Result<Vec<KeyInfo>> {
        self.refuse_writers("listing keys")?;
        let info = |(id, slot): (FileId, Result<Slot>)| KeyInfo {
            id,
            current: self.slot == Some(id),
            cost: slot.as_ref().ok().map(Slot::cost),
            note: match slot {
                Ok(slot) => slot.note(&self.files.keys).map_err(|error| error.to_string()),
                Err(error) => Err(error.problem()),
            },
        };
        Ok(self.slots()?.into_iter().map(info).collect())
    }

    /// Adds a slot that opens with `password` and returns its id.
    ///
    /// # Errors
    /// [`Error::NotEncrypted`] for an unencrypted repository; [`Error::PasswordInUse`];
    /// [`Error::Refused`] for a cost above this program's limits; errors of the storage.
    pub fn add_key(&self, password: &[u8], options: &KeyOptions) -> Result<FileId> {
        self.refuse_writers("adding keys")?;
        if !self.is_encrypted() {
            return Err(Error::NotEncrypted {
                location: self.location(),
            });
        }
        for (id, slot) in self.slots()? {
            if let Ok(slot) = slot
                && slot.repository() == self.id()
                && let Ok(Some(_)) = try_slot(&slot, password)
            {
                return Err(Error::PasswordInUse { id });
            }
        }
        let created = options.created.unwrap_or_else(clock::now).seconds;
        let (cost, label) = (options.cost, &options.label);
        let slot = add_slot(
            self.files.storage.as_ref(),
            &self.files.keys,
            password,
            cost,
            label,
            created,
        )?;
        Ok(slot.id)
    }

    /// Removes the slot whose id starts with `prefix`. The slot that opened the repository can't be
    /// removed: it is the only one known to work.
    ///
    /// # Errors
    /// [`Error::UnknownKey`]; [`Error::KeyInUse`]; errors of the storage.
    pub fn remove_key(&self, prefix: &str) -> Result<FileId> {
        self.refuse_writers("removing keys")?;
        self.refuse_append_only()?;
        let wanted = prefix.to_ascii_lowercase();
        let mut matching = self.files.list(folder::KEYS)?;
        matching.retain(|(id, _)| id.to_string().starts_with(&wanted));
        let [(id, _)] = matching[..] else {
            return Err(Error::UnknownKey {
                wanted: prefix.to_owned(),
                matches: matching.len(),
            });
        };
        if self.slot == Some(id) {
            return Err(Error::KeyInUse { id });
        }
        self.files.storage.delete(&name_in(folder::KEYS, id))?;
        Ok(id)
    }

    /// Replaces all slots that open with `old` by one that opens with `new`. The new slot is stored
    /// and opened once before an old one is removed.
    ///
    /// # Errors
    /// [`Error::WrongPassword`] if `old` opens no slot, [`Error::PasswordInUse`] if `new` opens
    /// another; those of [`add_key`](Repository::add_key).
    pub fn change_password(&self, old: &[u8], new: &[u8], options: &KeyOptions) -> Result<KeyChange> {
        self.refuse_writers("changing passwords")?;
        self.refuse_append_only()?;
        let mut replaced = Vec::new();
        let mut others = Vec::new();
        let mut untried = Vec::new();
        for (id, slot) in self.slots()? {
            let slot = match slot {
                Ok(slot) if slot.repository() == self.id() => slot,
                Ok(_) => continue,
                Err(error) => {
                    untried.push((id, error.problem()));
                    continue;
                }
            };
            match try_slot(&slot, old) {
                Ok(Some(_)) => replaced.push(slot),
                Ok(None) => others.push(slot),
                Err(error) => untried.push((id, error.to_string())),
            }
        }
        // Keep the label of the slot that opened the repository, if that slot is replaced.
        let Some(first) = replaced
            .iter()
            .find(|slot| self.slot == Some(slot.id()))
            .or(replaced.first())
        else {
            return Err(Error::WrongPassword {
                slots: others.len(),
                location: self.location(),
                untried: None,
            });
        };
        let kept = || first.note(&self.files.keys).map(|note| note.label).unwrap_or_default();
        let label = match options.label.as_str() {
            "" => kept(),
            label => label.to_owned(),
        };
        if let Some(slot) = others.iter().find(|slot| matches!(try_slot(slot, new), Ok(Some(_)))) {
            return Err(Error::PasswordInUse { id: slot.id() });
        }
        let created = options.created.unwrap_or_else(clock::now).seconds;
        let id = add_slot(
            self.files.storage.as_ref(),
            &self.files.keys,
            new,
            options.cost,
            &label,
            created,
        )?
        .id;
        let removed: Vec<FileId> = replaced.iter().map(Slot::id).collect();
        for id in &removed {
            self.files.storage.delete(&name_in(folder::KEYS, *id))?;
        }
        Ok(KeyChange { id, removed, untried })
    }
}
