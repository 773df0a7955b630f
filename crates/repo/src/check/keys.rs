//! Checks the copy of the config, key slots and sketch files.

use ibid_format::FileId;
use ibid_format::slot::{self, Slot};
use ibid_storage::ErrorKind;

use super::checking::Checking;
use crate::layout::{config_copy_name, folder, name_in};
use crate::repair::copy_differs;
use crate::{Error, Result, similar};

impl Checking<'_> {
    /// Compares the copy of the config with the config, which has opened the repository.
    pub(super) fn config_copy(&self) -> Result<()> {
        let problem = match copy_differs(&self.repository.files) {
            Ok(false) => return Ok(()),
            Ok(true) => "it differs from the config, so it could not replace that".to_owned(),
            Err(error) if error.is_fault() => error.problem(),
            Err(error) => return Err(error),
        };
        self.fault(config_copy_name(), problem);
        Ok(())
    }

    pub(super) fn keys(&self) -> Result<()> {
        if !self.repository.is_encrypted() {
            return Ok(());
        }
        for (id, slot) in self.repository.slots()? {
            let name = name_in(folder::KEYS, id);
            match slot {
                Ok(slot) if slot.repository() != self.repository.id() => {
                    let says = format!("it says that it opens repository {}, not this one", slot.repository());
                    if self.is_own_slot(id)? {
                        self.fault(name, says);
                    } else {
                        let left = "an initialisation that was cut short may have left it";
                        self.note(name, format!("{says}; {left}, and it can be removed"));
                    }
                }
                Ok(slot) => {
                    if let Err(error) = slot.note(&self.repository.files.keys) {
                        self.fault(name, error);
                    }
                }
                // It was removed.
                Err(error) if self.is_gone(folder::KEYS, id, &error)? => {}
                Err(error) => self.fault(name, error.problem()),
            }
        }
        Ok(())
    }

    /// Checks all sketch files: no other operation reports damage in them. Returns the damaged ones.
    pub(super) fn sketches(&self) -> Result<Vec<FileId>> {
        let mut damaged = Vec::new();
        for (id, _) in self.repository.files.list(folder::SKETCHES)? {
            self.monitor.check_cancelled()?;
            match similar::read(&self.repository.files, id) {
                Ok(_) => {}
                // A prune has made few of many, or another process has deleted it for its damage.
                Err(error) if self.is_gone(folder::SKETCHES, id, &error)? => {}
                Err(error) if error.is_fault() => {
                    let problem = error.problem();
                    let advice = "no data is lost: the next backups make its sketches again";
                    self.fault(name_in(folder::SKETCHES, id), format!("{problem}; {advice}"));
                    damaged.extend(error.is_of_content().then_some(id));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(damaged)
    }

    /// Returns whether a file that was listed can't be read because another process has deleted it meanwhile.
    fn is_gone(&self, folder: &str, id: FileId, error: &Error) -> Result<bool> {
        match error {
            Error::Storage(error) if error.kind() == ErrorKind::NotFound => {
                let there = self.repository.files.list(folder)?;
                Ok(there.iter().all(|(other, _)| *other != id))
            }
            _ => Ok(false),
        }
    }

    /// Returns whether a slot is this repository's, whatever its header says. If not, an `init`
    /// that was interrupted before it wrote the config left it, and it does no harm.
    fn is_own_slot(&self, id: FileId) -> Result<bool> {
        let name = name_in(folder::KEYS, id);
        let mut bytes = self.repository.files.storage.get(&name, slot::LIMIT)?;
        slot::set_repository(&mut bytes, self.repository.id());
        Ok(Slot::parse(id, &bytes).is_ok_and(|slot| slot.note(&self.repository.files.keys).is_ok()))
    }
}
