//! Moves files out of the way, and deletes those that are replaced.
//!
//! A storage can't rename, so a file is copied below `damaged/`, and deleted once the copy is durable. An empty
//! file there stands for a pack of which nothing was left.

use std::collections::HashSet;

use ibid_format::{FileId, pack};
use ibid_storage::{ErrorKind, Name, Storage};

use super::Repairing;
use crate::files::Files;
use crate::layout::{DAMAGED_PACKS, folder, name_in};
use crate::listed::Listed;
use crate::{Error, Fault, Result};

/// Files that are larger are no files of a repository.
const SIZE_MAX: u64 = 2 * pack::LIMIT;
/// Names that are tried for a file that is set aside, if others have been under its name before.
const NAMES_MAX: u32 = 100;

impl Repairing<'_> {
    /// Removes a pack of which every frame that can be read is durable in another pack that an index file
    /// lists.
    pub(super) fn remove_pack(&mut self, id: FileId, problem: String, is_replaced: bool) -> Result<()> {
        let name = name_in(folder::PACKS, id);
        match is_replaced {
            true => self.delete(name, problem),
            false => self.set_aside(name, problem),
        }
    }

    /// Moves a damaged file below `damaged/`. One that can't be read stays where it is.
    pub(super) fn set_aside(&mut self, name: Name, problem: String) -> Result<()> {
        if !self.options.dry_run {
            let storage = &self.repository.files.storage;
            let read = match &self.repository.written {
                Some(written) => written.storage.whole(&name, SIZE_MAX),
                None => storage.get(&name, SIZE_MAX),
            };
            let bytes = match read.map_err(Error::from) {
                Ok(bytes) => bytes,
                Err(error) if error.is_fault() => {
                    let problem = format!("{problem}; it can't be set aside: {}", error.problem());
                    self.leave(name, problem);
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            self.report.written += put_aside(storage.as_ref(), &name, &bytes)?;
            delete(storage.as_ref(), &name)?;
        }
        self.report.set_aside.push(fault(&name, problem));
        Ok(())
    }

    /// Deletes a file whose contents are elsewhere.
    pub(super) fn delete(&mut self, name: Name, problem: String) -> Result<()> {
        if !self.options.dry_run {
            delete(self.repository.files.storage.as_ref(), &name)?;
        }
        self.report.deleted.push(fault(&name, problem));
        Ok(())
    }

    /// Reports a file that can't be read now, and is left as it is.
    pub(super) fn leave(&mut self, name: Name, problem: String) {
        self.report.left.push(fault(&name, problem));
    }

    /// Deletes all that earlier repairs have set aside.
    pub(super) fn delete_aside(&mut self) -> Result<()> {
        let storage = &self.repository.files.storage;
        let mut names = Vec::new();
        storage.list(folder::DAMAGED, &mut |name, size| names.push((name, size)))?;
        // Empty files stand for packs that are lost: they have nothing to delete.
        names.retain(|(_, size)| *size > 0);
        for (name, _) in &names {
            self.monitor.check_cancelled()?;
            if !self.options.dry_run {
                delete(storage.as_ref(), name)?;
            }
        }
        self.report.deleted_aside = names.len() as u64;
        Ok(())
    }

    /// Records that a repair has dealt with these packs, of which nothing is there.
    pub(super) fn mark_set_aside(&mut self, missing: impl Iterator<Item = FileId>) -> Result<()> {
        let files = &self.repository.files;
        let known = packs_set_aside(files, &Listed::default())?;
        for id in missing.filter(|id| !known.contains(id)) {
            put_aside(files.storage.as_ref(), &name_in(folder::PACKS, id), &[])?;
        }
        Ok(())
    }

    /// Deletes what was set aside of a pack that is there again, and whole.
    pub(super) fn take_back(&mut self, pack: FileId) -> Result<()> {
        let files = &self.repository.files;
        let mut names = Vec::new();
        each_set_aside(files, |id, name| {
            if id == pack {
                names.push(name);
            }
        })?;
        for name in names {
            delete(files.storage.as_ref(), &name)?;
            self.report.deleted_aside += 1;
        }
        Ok(())
    }
}

/// Returns the packs that repairs have dealt with. Of a writer there are none: its index files list such packs no more.
pub(crate) fn packs_set_aside(files: &Files, listed: &Listed) -> Result<HashSet<FileId>> {
    if files.keys.is_of_writer() {
        return Ok(HashSet::new());
    }
    if let Some(names) = listed.take(DAMAGED_PACKS) {
        return Ok(names.iter().filter_map(|(name, _)| pack_of(name)).collect());
    }
    let mut found = HashSet::new();
    each_set_aside(files, |id, _| {
        found.insert(id);
    })?;
    Ok(found)
}

/// Returns the pack that a file below `damaged/packs` is of.
fn pack_of(name: &Name) -> Option<FileId> {
    name.last_segment().split('.').next().and_then(FileId::parse)
}

/// Calls `each` with the packs that repairs have dealt with, and what there is of each.
fn each_set_aside(files: &Files, mut each: impl FnMut(FileId, Name)) -> Result<()> {
    files.storage.list(DAMAGED_PACKS, &mut |name, _| {
        if let Some(id) = pack_of(&name) {
            each(id, name);
        }
    })?;
    Ok(())
}

/// Stores bytes below `damaged/`, unless they are there. Returns how many were written.
pub(crate) fn put_aside(storage: &dyn Storage, name: &Name, bytes: &[u8]) -> Result<u64> {
    for number in 0..NAMES_MAX {
        let suffix = if number == 0 {
            String::new()
        } else {
            format!(".{number}")
        };
        let name = format!("{}/{name}{suffix}", folder::DAMAGED);
        let name = Name::new(&name).expect("a valid name with a folder before it");
        match storage.put(&name, &[bytes]) {
            Ok(()) => return Ok(bytes.len() as u64),
            // A repair that was cut short may have put it there.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if storage.get(&name, SIZE_MAX).is_ok_and(|there| there == bytes) {
                    return Ok(0);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::TooMuch {
        what: "the number of files set aside under one name",
        limit: NAMES_MAX.into(),
    })
}

/// Deletes a file, if another process has not done so.
pub(crate) fn delete(storage: &dyn Storage, name: &Name) -> Result<()> {
    match storage.delete(name) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn fault(name: &Name, problem: String) -> Fault {
    Fault {
        object: name.to_string(),
        problem,
    }
}
