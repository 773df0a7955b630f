//! The files of one writer, as a storage of a repository: behind the headers, and with the names of a repository.
//!
//! What was not signed by the writer or by a keeper is damaged. So is what the writer has signed after it was revoked.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ibid_format::writer::signed::{self, HEADER, Header};
use ibid_format::writer::{Signer, StoredKind};
use ibid_format::{FileId, FileKind, Keys};
use ibid_storage::{ArchiveState, Archives, DueLock, Error, ErrorKind, Lock, Locks, Name, Operation, Storage, Thaw};

use crate::layout::folder;

/// The files of a writer.
pub(crate) struct WriterStorage {
    storage: Arc<dyn Storage>,
    /// `written/<writer>/`.
    prefix: String,
    keys: Keys,
    /// The files that count of a writer that was revoked.
    counted: Option<BTreeSet<(StoredKind, FileId)>>,
    /// The packs whose headers were verified: each is read once.
    verified: Mutex<HashSet<FileId>>,
}

/// What a file of a writer is: its kind, and its id.
type What = (FileKind, FileId);

impl WriterStorage {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        writer: FileId,
        keys: Keys,
        counted: Option<BTreeSet<(StoredKind, FileId)>>,
    ) -> WriterStorage {
        WriterStorage {
            storage,
            prefix: format!("{}/{writer}/", folder::WRITTEN),
            keys,
            counted,
            verified: Mutex::default(),
        }
    }

    /// Returns the name that a file has in the storage.
    fn stored_name(&self, name: &Name) -> Name {
        let stored = match name.as_str().strip_prefix(folder::DAMAGED) {
            Some(rest) if self.is_aside(name) => format!("{}{rest}", self.folder_aside()),
            _ => format!("{}{name}", self.prefix),
        };
        Name::new(&stored).expect("names of a repository are short")
    }

    /// Returns the header of a file of these parts.
    fn header(&self, name: &Name, parts: &[&[u8]]) -> Result<[u8; HEADER], Error> {
        let (kind, id) = self.what(Operation::Put, name)?;
        let header = signed::sign(&self.keys, kind, id, parts);
        header.map_err(|source| self.refuse(Operation::Put, name, source))
    }

    fn refuse(&self, operation: Operation, name: &Name, source: ibid_format::Error) -> Error {
        Error::new(ErrorKind::Io, operation, Some(&self.stored_name(name)), self.location())
            .with_found(source.to_string())
            .with_source(source)
    }

    /// Returns what a file is; an error if a writer has no such files.
    fn what(&self, operation: Operation, name: &Name) -> Result<What, Error> {
        what(name).ok_or_else(|| Error::new(ErrorKind::NotFound, operation, Some(name), self.location()))
    }

    fn verified(&self) -> MutexGuard<'_, HashSet<FileId>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Verifies a header.
    fn verify(&self, operation: Operation, name: &Name, (kind, id): What, header: &[u8]) -> Result<Header, Error> {
        let refuse = |source| self.refuse(operation, name, source);
        let header = signed::open(&self.keys, kind, id, header).map_err(refuse)?;
        if header.signer() == Signer::Writer && name.is_in(folder::FORGOTTEN) {
            // To a prune, a snapshot that was forgotten must not come back.
            return Err(refuse(ibid_format::Error::Signer { kind, file: id }));
        }
        if header.signer() == Signer::Writer && !self.counts(kind, id) {
            return Err(refuse(ibid_format::Error::Revoked { kind, file: id }));
        }
        Ok(header)
    }

    /// Returns whether a file counts though the writer has signed it.
    fn counts(&self, kind: FileKind, id: FileId) -> bool {
        let is_counted = |counted: &BTreeSet<_>| stored_kind(kind).is_some_and(|kind| counted.contains(&(kind, id)));
        self.counted.as_ref().is_none_or(is_counted)
    }

    /// Returns whether a file counts only if a keeper has signed it, though writers sign such files, too.
    fn is_doubtful(&self, name: &Name, kind: FileKind, id: FileId) -> bool {
        name.is_in(folder::FORGOTTEN) || !self.counts(kind, id)
    }

    /// Returns whether only the writer has signed a file that a keeper must have signed, so that it is passed over: one
    /// that was stored after the writer was revoked, or says that a snapshot was forgotten.
    fn is_late(&self, name: &Name) -> bool {
        let Some((kind, id)) = what(name).filter(|(kind, id)| self.is_doubtful(name, *kind, *id)) else {
            return false;
        };
        let stored = self.stored_name(name);
        let mut header = [0; HEADER];
        let read = self.storage.read_at(&stored, 0, &mut header);
        // What can't be read is named when it is to be used.
        read.is_ok()
            && signed::open(&self.keys, kind, id, &header).is_ok_and(|header| header.signer() == Signer::Writer)
    }

    /// Returns whether a name is that of a file that a repair has set aside. Such files mean nothing and are stored as
    /// they were, headers and all, in a folder beside those that other repairs have set aside: with that of the writer,
    /// there would be too many folders for a name.
    fn is_aside(&self, name: &Name) -> bool {
        name.is_in(folder::DAMAGED) && !self.keys.is_write_only()
    }

    /// Returns the folder of what repairs have set aside of this writer.
    fn folder_aside(&self) -> String {
        format!("{}/{}", folder::DAMAGED, self.keys.repository())
    }

    /// Returns a file with its header, whoever has signed it.
    pub(crate) fn whole(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        self.storage.get(&self.stored_name(name), limit)
    }

    /// Stores a file as the writer with these keys does.
    pub(crate) fn put_as(&self, keys: &Keys, name: &Name, bytes: &[u8]) -> Result<(), Error> {
        let (kind, id) = self.what(Operation::Put, name)?;
        let header =
            signed::sign(keys, kind, id, &[bytes]).map_err(|source| self.refuse(Operation::Put, name, source))?;
        self.storage.put(&self.stored_name(name), &[&header, bytes])
    }

    /// Calls `each` with the files of the writer among those that `list` calls its argument with.
    fn list_by<T>(
        &self,
        each: &mut dyn FnMut(Name, u64),
        list: impl FnOnce(&mut dyn FnMut(Name, u64)) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut late = Vec::new();
        let listed = list(&mut |name, size| {
            let own = name.as_str().strip_prefix(&self.prefix);
            let own = own
                .and_then(|own| Name::new(own).ok())
                .filter(|own| what(own).is_some());
            let Some(own) = own else { return };
            let size = size.saturating_sub(HEADER as u64);
            match what(&own) {
                Some((kind, id)) if self.is_doubtful(&own, kind, id) => late.push((own, size)),
                _ => each(own, size),
            }
        })?;
        // Keepers may have stored such files.
        for (own, size) in late {
            if !self.is_late(&own) {
                each(own, size);
            }
        }
        Ok(listed)
    }

    fn cut_short(&self, operation: Operation, name: &Name, found: usize) -> Error {
        let source = ibid_format::Error::Truncated {
            field: "header",
            expected: HEADER as u64,
            found: found as u64,
        };
        self.refuse(operation, name, source)
    }

    /// Reads the header of a pack if it was not read before.
    fn read_header(&self, name: &Name, what: What) -> Result<(), Error> {
        if self.verified().contains(&what.1) {
            return Ok(());
        }
        let mut header = [0; HEADER];
        match self.storage.read_at(&self.stored_name(name), 0, &mut header) {
            Err(error) if error.kind() == ErrorKind::Truncated => {
                let found = self.storage.size(&self.stored_name(name))?;
                return Err(self.cut_short(Operation::ReadAt, name, found as usize));
            }
            read => read?,
        }
        self.verify(Operation::ReadAt, name, what, &header)?;
        self.verified().insert(what.1);
        Ok(())
    }
}

/// Returns the parts of a file with its header.
fn signed_parts<'p>(header: &'p [u8], parts: &[&'p [u8]]) -> Vec<&'p [u8]> {
    std::iter::once(header).chain(parts.iter().copied()).collect()
}

/// Returns what a file of a writer is; `None` for names that a writer has no files of.
fn what(name: &Name) -> Option<What> {
    let (top, _) = match name.as_str().split_once('/') {
        Some(split) => split,
        None if name.as_str() == folder::CONFIG || name.as_str() == folder::CONFIG_COPY => {
            return Some((FileKind::Config, FileId::ZERO));
        }
        None => return None,
    };
    let kind = match top {
        folder::PACKS => FileKind::Pack,
        folder::INDEX => FileKind::Index,
        folder::SNAPSHOTS | folder::FORGOTTEN => FileKind::Snapshot,
        folder::SESSIONS => FileKind::Session,
        folder::PRUNE => FileKind::PruneLog,
        folder::SKETCHES => FileKind::Sketches,
        folder::SEEN => FileKind::Seen,
        _ => return None,
    };
    Some((kind, FileId::parse(name.last_segment())?))
}

fn stored_kind(kind: FileKind) -> Option<StoredKind> {
    match kind {
        FileKind::Pack => Some(StoredKind::Pack),
        FileKind::Index => Some(StoredKind::Index),
        FileKind::Snapshot => Some(StoredKind::Snapshot),
        FileKind::Session => Some(StoredKind::Session),
        _ => None,
    }
}

impl WriterStorage {
    fn all_locks(&self) -> &dyn Locks {
        self.storage.locks().expect("`locks` has looked whether there are any")
    }
}

/// Names are those of the writer's files, but for what is due.
impl Locks for WriterStorage {
    fn keep(&self, lock: Lock, is_kept: fn(&Name) -> bool) {
        self.all_locks().keep(lock, is_kept);
    }

    fn kept(&self) -> Option<Lock> {
        self.all_locks().kept()
    }

    fn check(&self) -> Result<(), Error> {
        self.all_locks().check()
    }

    fn due(&self, young_too: bool, is_wanted: &dyn Fn(&Name) -> bool) -> Result<Vec<DueLock>, Error> {
        let is_wanted = |name: &Name| {
            let own = name.as_str().strip_prefix(&self.prefix);
            own.and_then(|own| Name::new(own).ok())
                .is_some_and(|own| is_wanted(&own))
        };
        self.all_locks().due(young_too, &is_wanted)
    }

    fn renew(&self, due: &[DueLock], each: &(dyn Fn() -> bool + Sync)) -> Result<(), Error> {
        self.all_locks().renew(due, each)
    }

    fn until(&self, names: &[Name]) -> Result<Option<i64>, Error> {
        let names: Vec<Name> = names.iter().map(|name| self.stored_name(name)).collect();
        self.all_locks().until(&names)
    }
}

impl WriterStorage {
    fn all_archives(&self) -> &dyn Archives {
        self.storage
            .archives()
            .expect("`archives` has looked whether there are any")
    }

    /// Passes on what is archived of the writer's own files.
    fn own_archived(&self, each: &mut dyn FnMut(Name, u64, &str)) -> impl FnMut(Name, u64, &str) {
        |name, size, class| {
            let own = name.as_str().strip_prefix(&self.prefix);
            if let Some(own) = own.and_then(|own| Name::new(own).ok()) {
                each(own, size.saturating_sub(HEADER as u64), class);
            }
        }
    }

    fn stored_names(&self, names: &[Name]) -> Vec<Name> {
        names.iter().map(|name| self.stored_name(name)).collect()
    }
}

/// Names are those of the writer's files.
impl Archives for WriterStorage {
    fn class_of_data(&self) -> Option<&str> {
        self.all_archives().class_of_data()
    }

    fn list_archived(&self, folder: &str, each: &mut dyn FnMut(Name, u64, &str)) -> Result<(), Error> {
        let folder = format!("{}{folder}", self.prefix);
        self.all_archives()
            .list_archived(folder.trim_end_matches('/'), &mut self.own_archived(each))
    }

    fn list_archived_lately(&self, folder: &str, each: &mut dyn FnMut(Name, u64, &str)) -> Result<(), Error> {
        let folder = format!("{}{folder}", self.prefix);
        self.all_archives()
            .list_archived_lately(folder.trim_end_matches('/'), &mut self.own_archived(each))
    }

    fn states(&self, names: &[Name]) -> Result<Vec<ArchiveState>, Error> {
        self.all_archives().states(&self.stored_names(names))
    }

    fn thaw(&self, names: &[Name], thaw: Thaw, each: &(dyn Fn(u64) -> bool + Sync)) -> Result<(), Error> {
        self.all_archives().thaw(&self.stored_names(names), thaw, each)
    }
}

impl Storage for WriterStorage {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        if self.is_aside(name) {
            return self.storage.put(&self.stored_name(name), parts);
        }
        let header = self.header(name, parts)?;
        self.storage.put(&self.stored_name(name), &signed_parts(&header, parts))
    }

    fn put_noting_repeats(&self, name: &Name, parts: &[&[u8]]) -> Result<bool, Error> {
        let header = self.header(name, parts)?;
        self.storage
            .put_noting_repeats(&self.stored_name(name), &signed_parts(&header, parts))
    }

    fn put_data(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        let header = self.header(name, parts)?;
        self.storage
            .put_data(&self.stored_name(name), &signed_parts(&header, parts))
    }

    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        if self.is_aside(name) {
            return self.whole(name, limit);
        }
        let what = self.what(Operation::Get, name)?;
        let mut bytes = self
            .storage
            .get(&self.stored_name(name), limit.saturating_add(HEADER as u64))?;
        let (header, content) = bytes
            .split_at_checked(HEADER)
            .ok_or_else(|| self.cut_short(Operation::Get, name, bytes.len()))?;
        self.verify(Operation::Get, name, what, header)?
            .check(content)
            .map_err(|source| self.refuse(Operation::Get, name, source))?;
        bytes.drain(..HEADER);
        Ok(bytes)
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let what @ (kind, _) = self.what(Operation::ReadAt, name)?;
        if kind == FileKind::Pack {
            // Each of its seals proves itself: the signature says whose key they were made with.
            self.read_header(name, what)?;
            return self
                .storage
                .read_at(&self.stored_name(name), offset.saturating_add(HEADER as u64), buffer);
        }
        let bytes = self.get(name, u64::MAX)?;
        let end = offset
            .checked_add(buffer.len() as u64)
            .filter(|end| *end <= bytes.len() as u64);
        match end {
            Some(end) => buffer.copy_from_slice(&bytes[offset as usize..end as usize]),
            None => {
                let (size, length) = (bytes.len() as u64, buffer.len());
                return Err(Error::truncated(size, offset, length, name, self.location()));
            }
        }
        Ok(())
    }

    fn size(&self, name: &Name) -> Result<u64, Error> {
        self.what(Operation::Size, name)?;
        let size = self.storage.size(&self.stored_name(name))?;
        Ok(size.saturating_sub(HEADER as u64))
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        Error::check_folder(folder, || self.location())?;
        if folder == folder::DAMAGED && !self.keys.is_write_only() {
            let aside = self.folder_aside();
            return self.storage.list(&aside, &mut |name, size| {
                let rest = name.as_str().strip_prefix(&aside);
                let own = rest.and_then(|rest| Name::new(&format!("{}{rest}", folder::DAMAGED)).ok());
                if let Some(own) = own {
                    each(own, size);
                }
            });
        }
        let stored = format!("{}{folder}", self.prefix);
        self.list_by(each, |each| self.storage.list(stored.trim_end_matches('/'), each))
    }

    fn list_together(&self, folders: &[&str], each: &mut dyn FnMut(Name, u64)) -> Result<Vec<bool>, Error> {
        let stored: Vec<String> = folders
            .iter()
            .map(|folder| format!("{}{folder}", self.prefix))
            .collect();
        let stored: Vec<&str> = stored.iter().map(String::as_str).collect();
        self.list_by(each, |each| self.storage.list_together(&stored, each))
    }

    fn list_taken(&self, folder: &str, each: &mut dyn FnMut(Name)) -> Result<(), Error> {
        self.storage
            .list_taken(&format!("{}{folder}", self.prefix), &mut |name| {
                let own = name.as_str().strip_prefix(&self.prefix);
                if let Some(own) = own.and_then(|own| Name::new(own).ok()) {
                    each(own);
                }
            })
    }

    fn settle(&self, name: &Name) -> Result<(), Error> {
        self.storage.settle(&self.stored_name(name))
    }

    fn delete(&self, name: &Name) -> Result<(), Error> {
        // A writer ends its own session, and has nothing else to delete.
        match what(name) {
            None if self.is_aside(name) => self.storage.delete(&self.stored_name(name)),
            Some((kind, _)) if kind == FileKind::Session || !self.keys.is_write_only() => {
                self.storage.delete(&self.stored_name(name))
            }
            _ => Err(Error::append_only(
                Operation::Delete,
                Some(&self.stored_name(name)),
                self.location(),
            )),
        }
    }

    fn delete_all(&self, names: &[Name]) -> Result<(), Error> {
        if self.keys.is_write_only() {
            return names.iter().try_for_each(|name| self.delete(name));
        }
        let known = names.iter().filter(|name| what(name).is_some());
        let stored: Vec<Name> = known.map(|name| self.stored_name(name)).collect();
        self.storage.delete_all(&stored)
    }

    fn tells_absence(&self) -> bool {
        self.storage.tells_absence()
    }

    fn locks(&self) -> Option<&dyn Locks> {
        self.storage.locks().map(|_| self as &dyn Locks)
    }

    fn archives(&self) -> Option<&dyn Archives> {
        self.storage.archives().map(|_| self as &dyn Archives)
    }

    fn is_append_only(&self) -> bool {
        self.keys.is_write_only() || self.storage.is_append_only()
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
