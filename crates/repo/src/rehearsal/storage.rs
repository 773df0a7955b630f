//! A storage that keeps changes to itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use ibid_format::FileId;
use ibid_storage::{ArchiveState, Archives, DueLock, Error, ErrorKind, Lock, Locks, Name, Operation, Storage, Thaw};

use super::{Estimate, Inexact};
use crate::cache::Copies;
use crate::layout::{folder, name_in};

/// Files that a server deletes with one request, and about what it takes to say the name of each, bytes.
const DELETED: usize = 1000;
const NAMED: u64 = 40;
/// What it takes to say how a file is locked anew, bytes.
const RENEWED: u64 = 149;

/// A storage of which one reads, and in which what is stored and deleted is only seen through this.
pub(crate) struct Rehearsal {
    inner: Arc<dyn Storage>,
    changes: Mutex<BTreeMap<Name, Change>>,
    estimate: Mutex<Estimate>,
    /// Packs of which something would be read.
    packs: Mutex<BTreeSet<FileId>>,
    /// Those that would be fetched as a whole before, and kept.
    fetched: Mutex<BTreeSet<FileId>>,
    /// Copies that stand for reads of the storage.
    copies: OnceLock<Copies>,
}

/// What has become of a file.
enum Change {
    Stored(Vec<u8>),
    /// Of a pack with data, only the directory is kept: it begins here.
    Pack {
        size: u64,
        from: u64,
        directory: Vec<u8>,
    },
    Deleted,
}

impl Change {
    fn size(&self) -> Option<u64> {
        match self {
            Change::Stored(bytes) => Some(bytes.len() as u64),
            Change::Pack { size, .. } => Some(*size),
            Change::Deleted => None,
        }
    }
}

impl Rehearsal {
    pub(super) fn new(inner: Arc<dyn Storage>) -> Rehearsal {
        Rehearsal {
            inner,
            changes: Mutex::default(),
            estimate: Mutex::default(),
            packs: Mutex::default(),
            fetched: Mutex::default(),
            copies: OnceLock::new(),
        }
    }

    pub(super) fn estimate(&self) -> Estimate {
        self.spared().clone()
    }

    /// Uses these copies in place of the storage from now on.
    pub(super) fn read_from(&self, copies: Copies) {
        let _ = self.copies.set(copies);
    }

    /// Returns whether this file is only there in the rehearsal.
    pub(crate) fn has_stored(&self, folder: &str, id: FileId) -> bool {
        self.changes().contains_key(&name_in(folder, id))
    }

    /// Counts a read of so many bytes that is not made.
    pub(crate) fn spare_get(&self, bytes: u64) {
        let mut spared = self.spared();
        spared.gets += 1;
        spared.received += bytes;
    }

    /// Notes that something of a pack would be read.
    pub(crate) fn needs_pack(&self, pack: FileId) {
        self.packs.lock().expect("no holder of this lock panics").insert(pack);
    }

    /// Returns the packs of which something would be read, as noted since the last call.
    pub(crate) fn take_packs_needed(&self) -> BTreeSet<FileId> {
        std::mem::take(&mut *self.packs.lock().expect("no holder of this lock panics"))
    }

    /// Notes that a pack would be fetched and kept: what is read of it from now on takes no request.
    pub(crate) fn fetches_pack(&self, pack: FileId) {
        self.fetched.lock().expect("no holder of this lock panics").insert(pack);
    }

    /// Returns whether a pack would be here.
    pub(crate) fn has_fetched(&self, pack: FileId) -> bool {
        self.fetched
            .lock()
            .expect("no holder of this lock panics")
            .contains(&pack)
    }

    /// Counts a file of about so many bytes that would be stored.
    pub(crate) fn spare_put(&self, bytes: u64) {
        let mut spared = self.spared();
        spared.puts += 1;
        spared.sent += bytes;
    }

    /// Counts files that would be deleted.
    pub(crate) fn spare_deletes(&self, count: u64) {
        self.spared().deletes += count;
    }

    /// Notes a read that the rehearsal makes and the command does not.
    pub(crate) fn own_get(&self, bytes: u64) {
        let mut spared = self.spared();
        spared.own_gets += 1;
        spared.own_received += bytes;
    }

    /// Notes that the numbers are not exact.
    pub(crate) fn doubt(&self, why: Inexact) {
        self.spared().inexact.insert(why);
    }

    /// Stores a pack of which only the bytes from `from` on can be read afterwards.
    pub(crate) fn put_pack(&self, name: &Name, bytes: &[u8], from: u64) {
        let size = bytes.len() as u64;
        self.spare_put(size);
        let directory = bytes[from as usize..].to_vec();
        let pack = Change::Pack { size, from, directory };
        self.changes().insert(name.clone(), pack);
    }

    fn spared(&self) -> MutexGuard<'_, Estimate> {
        self.estimate.lock().expect("no holder of this lock panics")
    }

    fn changes(&self) -> MutexGuard<'_, BTreeMap<Name, Change>> {
        self.changes.lock().expect("no holder of this lock panics")
    }

    fn fail(&self, kind: ErrorKind, operation: Operation, name: &Name) -> Error {
        Error::new(kind, operation, Some(name), self.location())
    }

    /// Notes that a file is deleted. Returns whether it was there, as far as the storage tells.
    fn drop_file(&self, name: &Name) -> Result<bool, Error> {
        let found = self.changes().get(name).map(|change| change.size().is_some());
        let is_there = match found {
            Some(is_there) => is_there,
            None if self.inner.tells_absence() => match self.inner.size(name) {
                Ok(_) => true,
                Err(error) if error.kind() == ErrorKind::NotFound => false,
                Err(error) => return Err(error),
            },
            None => true,
        };
        if is_there {
            self.changes().insert(name.clone(), Change::Deleted);
        }
        Ok(is_there)
    }

    /// Calls `each` with the files that were found, and with what has become of some: of those that are listed.
    fn list_changes(
        &self,
        mut found: BTreeMap<Name, u64>,
        is_listed: impl Fn(&Name) -> bool,
        each: &mut dyn FnMut(Name, u64),
    ) {
        for (name, change) in self.changes().iter().filter(|(name, _)| is_listed(name)) {
            match change.size() {
                Some(size) => drop(found.insert(name.clone(), size)),
                None => drop(found.remove(name)),
            }
        }
        found.into_iter().for_each(|(name, size)| each(name, size));
    }

    /// Returns the whole copy of a file, or a part of it, if there is one.
    fn copy(&self, name: &Name, part: Option<(u64, usize)>) -> Option<Vec<u8>> {
        let copies = self.copies.get()?;
        let folder = [folder::PACKS, folder::INDEX, folder::SNAPSHOTS, folder::SKETCHES];
        let folder = folder.into_iter().find(|folder| name.is_in(folder))?;
        let id = FileId::parse(name.last_segment())?;
        match part {
            None => copies.get(folder, id, u64::MAX),
            Some((offset, length)) => copies.part(folder, id, offset, length),
        }
    }
}

impl Storage for Rehearsal {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        let bytes = parts.concat();
        self.spare_put(bytes.len() as u64);
        let mut changes = self.changes();
        if changes.get(name).is_some_and(|change| change.size().is_some()) {
            return Err(self.fail(ErrorKind::AlreadyExists, Operation::Put, name));
        }
        changes.insert(name.clone(), Change::Stored(bytes));
        Ok(())
    }

    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        let found = match self.changes().get(name) {
            Some(Change::Stored(bytes)) => Some(bytes.clone()),
            Some(_) => {
                self.spare_get(0);
                return Err(self.fail(ErrorKind::NotFound, Operation::Get, name));
            }
            None => self.copy(name, None),
        };
        let Some(bytes) = found else {
            return self.inner.get(name, limit);
        };
        let size = bytes.len() as u64;
        self.spare_get(size);
        match size <= limit {
            true => Ok(bytes),
            false => Err(Error::too_large(size, limit, name, self.location())),
        }
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let length = buffer.len();
        let found = match self.changes().get(name) {
            Some(Change::Stored(bytes)) => Some((bytes.len() as u64, part(bytes, offset, length))),
            Some(Change::Pack { size, from, directory }) => {
                let within = offset.checked_sub(*from);
                Some((*size, within.and_then(|within| part(directory, within, length))))
            }
            Some(Change::Deleted) => {
                self.spare_get(0);
                return Err(self.fail(ErrorKind::NotFound, Operation::ReadAt, name));
            }
            None => self.copy(name, Some((offset, length))).map(|bytes| (0, Some(bytes))),
        };
        let Some((size, bytes)) = found else {
            return self.inner.read_at(name, offset, buffer);
        };
        self.spare_get(length as u64);
        match bytes {
            Some(bytes) => buffer.copy_from_slice(&bytes),
            None => return Err(Error::truncated(size, offset, length, name, self.location())),
        }
        Ok(())
    }

    fn size(&self, name: &Name) -> Result<u64, Error> {
        let found = self.changes().get(name).map(Change::size);
        let Some(size) = found else {
            return self.inner.size(name);
        };
        self.spared().sizes += 1;
        size.ok_or_else(|| self.fail(ErrorKind::NotFound, Operation::Size, name))
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        // Collected first: `each` may call this storage again.
        let mut found = BTreeMap::new();
        self.inner.list(folder, &mut |name, size| {
            found.insert(name, size);
        })?;
        self.list_changes(found, |name| name.is_in(folder), each);
        Ok(())
    }

    fn list_together(&self, folders: &[&str], each: &mut dyn FnMut(Name, u64)) -> Result<Vec<bool>, Error> {
        let mut found = BTreeMap::new();
        let whole = self.inner.list_together(folders, &mut |name, size| {
            found.insert(name, size);
        })?;
        let is_listed = |name: &Name| {
            let has_it = |(folder, _): &(&&str, &bool)| name.as_str() == **folder || name.is_in(folder);
            folders.iter().zip(&whole).find(has_it).is_some_and(|(_, whole)| *whole)
        };
        self.list_changes(found, is_listed, each);
        Ok(whole)
    }

    fn list_taken(&self, folder: &str, each: &mut dyn FnMut(Name)) -> Result<(), Error> {
        self.inner.list_taken(folder, each)
    }

    fn settle(&self, name: &Name) -> Result<(), Error> {
        let found = self.changes().get(name).map(|change| change.size().is_some());
        match found {
            None => self.inner.settle(name),
            Some(false) if self.tells_absence() => Err(self.fail(ErrorKind::NotFound, Operation::Settle, name)),
            Some(_) => Ok(()),
        }
    }

    fn delete(&self, name: &Name) -> Result<(), Error> {
        self.spare_deletes(1);
        match self.drop_file(name)? {
            false if self.tells_absence() => Err(self.fail(ErrorKind::NotFound, Operation::Delete, name)),
            _ => Ok(()),
        }
    }

    fn delete_all(&self, names: &[Name]) -> Result<(), Error> {
        for name in names {
            self.drop_file(name)?;
        }
        let mut spared = self.spared();
        // A server is told many names with one request.
        let is_server = !self.inner.tells_absence();
        let at_once = if is_server { DELETED } else { 1 };
        spared.deletes += names.len().div_ceil(at_once) as u64;
        if is_server && names.len() > 1 {
            spared.sent += names.iter().map(|name| name.as_str().len() as u64 + NAMED).sum::<u64>();
        }
        Ok(())
    }

    fn tells_absence(&self) -> bool {
        self.inner.tells_absence()
    }

    fn is_append_only(&self) -> bool {
        self.inner.is_append_only()
    }

    fn locks(&self) -> Option<&dyn Locks> {
        self.inner.locks().is_some().then_some(self)
    }

    fn archives(&self) -> Option<&dyn Archives> {
        self.inner.archives().is_some().then_some(self)
    }

    fn location(&self) -> String {
        self.inner.location()
    }

    fn folder(&self) -> Option<PathBuf> {
        self.inner.folder()
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }
}

impl Rehearsal {
    fn inner_locks(&self) -> Result<&dyn Locks, Error> {
        let none = || Error::new(ErrorKind::Unsupported, Operation::Open, None, self.location());
        self.inner.locks().ok_or_else(none)
    }
}

/// What locks are is asked, and none is renewed.
impl Locks for Rehearsal {
    fn keep(&self, lock: Lock, is_kept: fn(&Name) -> bool) {
        if let Some(locks) = self.inner.locks() {
            locks.keep(lock, is_kept);
        }
    }

    fn kept(&self) -> Option<Lock> {
        self.inner.locks()?.kept()
    }

    fn check(&self) -> Result<(), Error> {
        self.inner_locks()?.check()
    }

    fn due(&self, young_too: bool, is_wanted: &dyn Fn(&Name) -> bool) -> Result<Vec<DueLock>, Error> {
        let is_wanted = |name: &Name| is_wanted(name) && !self.changes().contains_key(name);
        self.inner_locks()?.due(young_too, &is_wanted)
    }

    fn renew(&self, due: &[DueLock], each: &(dyn Fn() -> bool + Sync)) -> Result<(), Error> {
        for _ in due {
            self.spare_put(RENEWED);
            if !each() {
                break;
            }
        }
        Ok(())
    }

    fn until(&self, names: &[Name]) -> Result<Option<i64>, Error> {
        self.inner_locks()?.until(names)
    }
}

impl Rehearsal {
    /// Passes on what is archived and was not changed.
    fn unchanged(&self, each: &mut dyn FnMut(Name, u64, &str)) -> impl FnMut(Name, u64, &str) {
        |name, size, class| {
            if !self.changes().contains_key(&name) {
                each(name, size, class);
            }
        }
    }

    fn inner_archives(&self) -> Result<&dyn Archives, Error> {
        let none = || Error::new(ErrorKind::Unsupported, Operation::Open, None, self.location());
        self.inner.archives().ok_or_else(none)
    }
}

/// What is archived is asked, and nothing is thawed.
impl Archives for Rehearsal {
    fn class_of_data(&self) -> Option<&str> {
        self.inner.archives()?.class_of_data()
    }

    fn list_archived(&self, folder: &str, each: &mut dyn FnMut(Name, u64, &str)) -> Result<(), Error> {
        self.inner_archives()?.list_archived(folder, &mut self.unchanged(each))
    }

    fn list_archived_lately(&self, folder: &str, each: &mut dyn FnMut(Name, u64, &str)) -> Result<(), Error> {
        self.inner_archives()?
            .list_archived_lately(folder, &mut self.unchanged(each))
    }

    fn states(&self, names: &[Name]) -> Result<Vec<ArchiveState>, Error> {
        self.inner_archives()?.states(names)
    }

    fn thaw(&self, _names: &[Name], _thaw: Thaw, _each: &(dyn Fn(u64) -> bool + Sync)) -> Result<(), Error> {
        Ok(())
    }
}

/// Returns a part of bytes, if all of it is there.
fn part(bytes: &[u8], offset: u64, length: usize) -> Option<Vec<u8>> {
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..start.checked_add(length)?).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use ibid_storage::Memory;

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn a_rehearsal_sees_its_own_changes_and_the_storage_none() {
        let inner = Arc::new(Memory::new());
        inner.put(&name("a/old"), &[b"old"]).unwrap();
        let rehearsal = Rehearsal::new(inner.clone());
        rehearsal.put(&name("a/new"), &[b"ne", b"w"]).unwrap();
        let again = rehearsal.put(&name("a/new"), &[b"x"]).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        rehearsal.delete(&name("a/old")).unwrap();
        rehearsal.put_pack(&name("a/pack"), b"datadirectory", 4);

        let mut listed = Vec::new();
        rehearsal
            .list("a", &mut |name, size| listed.push((name.to_string(), size)))
            .unwrap();
        assert_eq!(listed, [("a/new".to_owned(), 3), ("a/pack".to_owned(), 13)]);
        assert_eq!(rehearsal.get(&name("a/new"), 10).unwrap(), b"new");
        assert_eq!(
            rehearsal.get(&name("a/new"), 2).unwrap_err().kind(),
            ErrorKind::TooLarge
        );
        assert_eq!(rehearsal.size(&name("a/old")).unwrap_err().kind(), ErrorKind::NotFound);
        let mut directory = [0; 9];
        rehearsal.read_at(&name("a/pack"), 4, &mut directory).unwrap();
        assert_eq!(&directory, b"directory");
        assert!(
            rehearsal.read_at(&name("a/pack"), 0, &mut directory).is_err(),
            "data is not kept"
        );
        assert_eq!(
            rehearsal.delete(&name("a/old")).unwrap_err().kind(),
            ErrorKind::NotFound
        );

        let spared = rehearsal.estimate();
        assert_eq!((spared.puts, spared.sent), (3, 3 + 1 + 13));
        assert_eq!((spared.gets, spared.received), (4, 3 + 3 + 9 + 9));
        assert_eq!((spared.sizes, spared.deletes), (1, 2));
        let mut there = Vec::new();
        inner.list("", &mut |name, _| there.push(name.to_string())).unwrap();
        assert_eq!(there, ["a/old"]);
    }
}
