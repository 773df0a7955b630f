//! Writers: those who can store snapshots, and nothing else. `docs/format/writers.md` says how.
//!
//! The files of a writer are those of a repository of its own, below `written/<writer>/`. So all that reads a
//! repository reads them, once they are [behind their headers](storage).

mod doubts;
mod mending;
mod storage;

use std::collections::BTreeSet;
use std::sync::Arc;

use ibid_format::config;
use ibid_format::slot::Note;
use ibid_format::writer::signed::{self, HEADER};
use ibid_format::writer::{NOTE_LIMIT, REVOCATION_LIMIT, Revocation, StoredKind, WriterKey, encode_note, open_note};
use ibid_format::{FileId, FileKind, Keys};
use ibid_storage::{ErrorKind, Name, Storage};

use crate::layout::{config_copy_name, config_name, folder, list_ids, name_in, new_id};
use crate::opening::{read_config, read_header};
use crate::{Error, Repository, Result, clock};
pub(crate) use doubts::Doubts;
use storage::WriterStorage;

/// A writer in a listing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WriterInfo {
    /// Its id.
    pub id: FileId,
    /// Label, creation time, host and user; or the reason why they can't be read.
    pub note: std::result::Result<Note, String>,
    /// Whether it was revoked.
    pub is_revoked: bool,
}

/// Who works with which files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// Someone who can do anything with the files of the repository, but for those of writers.
    Owner,
    /// The same, with the files of one writer.
    Keeper,
    /// A writer, which can only store.
    Writer,
}

/// What a keeper does with the files of a writer beside reading and storing.
#[derive(Clone)]
pub(crate) struct Written {
    pub(crate) storage: Arc<WriterStorage>,
    /// The writer's own keys; `None` if it was revoked, or has opened the repository itself.
    pub(crate) keys: Option<Keys>,
    /// What is known of its packs, for those who change several snapshots.
    doubts: Arc<Doubts>,
}

impl WriterInfo {
    /// Returns the label; empty if it can't be read.
    pub fn label(&self) -> &str {
        self.note.as_ref().map_or("", |note| &note.label)
    }
}

impl Repository {
    /// Makes a writer, and returns its key: whoever has that can store snapshots in this repository, and read or delete
    /// nothing.
    ///
    /// # Errors
    /// [`Error::NotEncrypted`] for a repository without encryption; [`Error::Refused`] for a label that is too long, or
    /// one that another writer has; errors of the storage.
    ///
    /// ```
    /// # use ibid_repo::{Argon2Cost, BackupOptions, InitOptions, MemoryStorage, Repository};
    /// # let storage = std::sync::Arc::new(MemoryStorage::new());
    /// # let init = InitOptions::default().cost(Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 });
    /// let repository = Repository::init(storage.clone(), Some(b"secret"), &init)?;
    /// let key = repository.add_writer("laptop")?;
    ///
    /// // On the laptop.
    /// let writer = Repository::open_as_writer(storage, &key)?;
    /// let summary = writer.backup(&BackupOptions::default().path("src"))?;
    /// assert!(writer.snapshots().is_err(), "it can't read");
    ///
    /// // Elsewhere, with the password.
    /// let laptop = repository.writer("laptop")?;
    /// assert_eq!(Some(laptop.snapshot("latest")?.id), summary.id);
    /// # Ok::<(), ibid_repo::Error>(())
    /// ```
    pub fn add_writer(&self, label: &str) -> Result<WriterKey> {
        self.refuse_writers("making a writer")?;
        if !self.is_encrypted() {
            return Err(Error::NotEncrypted {
                location: self.location(),
            });
        }
        if self
            .writers()?
            .iter()
            .any(|writer| !label.is_empty() && writer.label() == label)
        {
            return Err(Error::WriterExists {
                label: label.to_owned(),
            });
        }
        let id = new_id();
        let of_format = |source| Error::Refused {
            what: "the writer",
            source,
        };
        let key = WriterKey::derive(&self.files.keys, id).map_err(of_format)?;
        let created = clock::now().seconds;
        let note = Note {
            created,
            label: label.to_owned(),
            host: crate::source::host_name(),
            user: crate::source::user_name(),
        };
        let note = encode_note(&self.files.keys, id, &note).map_err(of_format)?;
        let keys = self.files.keys.of_writer(id).map_err(of_format)?;
        let config = self.config_of_writer(created, &keys)?;
        // The config comes first: a writer that is listed can be used.
        let storage = WriterStorage::new(self.files.storage.clone(), id, keys, None);
        storage.put(&config_name(), &[&config])?;
        storage.put(&config_copy_name(), &[&config])?;
        self.files.storage.put(&name_in(folder::WRITERS, id), &[&note])?;
        Ok(key)
    }

    /// Returns all writers, by id.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn writers(&self) -> Result<Vec<WriterInfo>> {
        self.refuse_writers("listing writers")?;
        let storage = self.files.storage.as_ref();
        let mut found = Vec::new();
        for (id, _) in list_ids(storage, folder::WRITERS)? {
            let name = name_in(folder::WRITERS, id);
            let note = match storage.get(&name, NOTE_LIMIT) {
                Ok(mut bytes) => open_note(&self.files.keys, id, &mut bytes).map_err(Error::damaged(name)),
                Err(error) => Err(error.into()),
            };
            let note = match note {
                Ok(note) => Ok(note),
                Err(error) if error.is_fault() => Err(error.problem()),
                Err(error) => return Err(error),
            };
            found.push(WriterInfo {
                id,
                note,
                is_revoked: self.revocation(id)?.is_some(),
            });
        }
        Ok(found)
    }

    /// Returns a repository of the snapshots of one writer, to read from. `wanted` is its label, or the beginning of
    /// its id.
    ///
    /// # Errors
    /// [`Error::UnknownWriter`]; damage; errors of the storage.
    pub fn writer(&self, wanted: &str) -> Result<Repository> {
        let info = self.find_writer(wanted)?;
        let keys = self.files.keys.of_writer(info.id).map_err(Error::damaged("the key"))?;
        let counted = self.revocation(info.id)?;
        let is_revoked = counted.is_some();
        let storage = WriterStorage::new(self.files.storage.clone(), info.id, keys.clone(), counted);
        let mut opened = match Repository::assemble_writer(storage, keys) {
            Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound => {
                let problem = "it is missing, and so is its copy".to_owned();
                return Err(Error::WriterConfig { id: info.id, problem });
            }
            opened => opened?,
        };
        if let Some(written) = opened.written.as_mut().filter(|_| !is_revoked) {
            let key = WriterKey::derive(&self.files.keys, info.id).map_err(Error::damaged("the key"))?;
            written.keys = Some(key.keys());
        }
        Ok(opened.with_memory(self.memory)?.watched_by(&self.monitor))
    }

    /// Returns the writer with this label, or whose id begins so.
    ///
    /// # Errors
    /// [`Error::UnknownWriter`] if none or several match; errors of the storage.
    pub fn find_writer(&self, wanted: &str) -> Result<WriterInfo> {
        let writers = self.writers()?;
        let labelled: Vec<_> = writers
            .iter()
            .filter(|info| !wanted.is_empty() && info.label() == wanted)
            .collect();
        let begins = |info: &&WriterInfo| info.id.to_string().starts_with(&wanted.to_ascii_lowercase());
        let matching = match labelled.is_empty() && !wanted.is_empty() {
            true => writers.iter().filter(begins).collect(),
            false => labelled,
        };
        match matching[..] {
            [one] => Ok(one.clone()),
            _ => Err(Error::UnknownWriter {
                wanted: wanted.to_owned(),
                matches: matching.len(),
            }),
        }
    }

    /// Revokes the writer with this label, or whose id begins so, and returns its id. What it has stored stays. What it
    /// stores from now on does not count.
    ///
    /// # Errors
    /// [`Error::UnknownWriter`]; [`Error::WriterRevoked`] if that was done before; errors of the storage.
    pub fn remove_writer(&self, wanted: &str) -> Result<FileId> {
        let info = self.find_writer(wanted)?;
        if info.is_revoked {
            return Err(Error::WriterRevoked { id: info.id });
        }
        let keys = self.files.keys.of_writer(info.id).map_err(Error::damaged("the key"))?;
        let storage = WriterStorage::new(self.files.storage.clone(), info.id, keys.clone(), None);
        let mut files = BTreeSet::new();
        let kinds = [folder::PACKS, folder::INDEX, folder::SNAPSHOTS, folder::SESSIONS];
        for (folder, kind) in kinds.into_iter().zip(StoredKind::ALL) {
            files.extend(list_ids(&storage, folder)?.into_iter().map(|(id, _)| (kind, id)));
        }
        let revocation = Revocation {
            time: clock::now(),
            files,
        };
        let id = new_id();
        let bytes = revocation
            .encode(&self.files.keys, info.id, id)
            .map_err(Error::damaged("the new revocation"))?;
        let header = signed::sign(&keys, FileKind::Revocation, id, &[&bytes]).map_err(Error::damaged("the key"))?;
        self.files
            .storage
            .put(&revocation_name(info.id, id), &[&header, &bytes])?;
        Ok(info.id)
    }

    /// Returns the files that count of a writer that was revoked; `None` if it was not. A file that no keeper has
    /// stored revokes nothing.
    fn revocation(&self, writer: FileId) -> Result<Option<BTreeSet<(StoredKind, FileId)>>> {
        let mut counted: Option<BTreeSet<_>> = None;
        let keys = self.files.keys.of_writer(writer).map_err(Error::damaged("the key"))?;
        for (id, mut bytes) in revocations(self.files.storage.as_ref(), &keys)? {
            let Ok(found) = Revocation::open(&self.files.keys, writer, id, &mut bytes) else {
                continue;
            };
            // Of two, the one that lets less count.
            counted = Some(match counted {
                Some(counted) => counted.intersection(&found.files).copied().collect(),
                None => found.files,
            });
        }
        Ok(counted)
    }

    /// Opens a repository with the key of a writer: to back up into it, and for nothing else.
    ///
    /// # Errors
    /// [`Error::WriterOfAnother`] if the key is for another repository, [`Error::WriterRevoked`],
    /// [`Error::UnknownWriter`]; damage; errors of the storage.
    pub fn open_as_writer(storage: Arc<dyn Storage>, key: &WriterKey) -> Result<Repository> {
        // Nothing else of the repository is looked at: a writer needs no access to it.
        let config = read_config(storage.as_ref())?;
        let found = read_header(storage.as_ref(), &config)?.repository;
        if found != key.repository() {
            return Err(Error::WriterOfAnother {
                expected: key.repository(),
                found,
                location: storage.location(),
            });
        }
        let keys = key.keys();
        if !revocations(storage.as_ref(), &keys)?.is_empty() {
            return Err(Error::WriterRevoked { id: key.id() });
        }
        match Repository::assemble_writer(WriterStorage::new(storage, key.id(), keys.clone(), None), keys) {
            Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound => Err(Error::UnknownWriter {
                wanted: key.id().to_string(),
                matches: 0,
            }),
            opened => opened,
        }
    }

    /// Returns the repository of a writer's files.
    fn assemble_writer(storage: WriterStorage, keys: Keys) -> Result<Repository> {
        let bytes = match storage.get(&config_name(), config::LIMIT) {
            // A writer whose config is lost goes on with the copy.
            Err(error) if error.kind() == ErrorKind::NotFound => storage.get(&config_copy_name(), config::LIMIT),
            read => read,
        };
        let unusable = |problem| Error::WriterConfig {
            id: keys.repository(),
            problem,
        };
        let bytes = match bytes.map_err(Error::from) {
            Err(error) if error.is_damage() => return Err(unusable(error.problem())),
            bytes => bytes?,
        };
        let config = match config::open(&bytes, &keys) {
            Err(source @ ibid_format::Error::Version { .. }) => return Err(Error::ConfigDamaged { source }),
            opened => opened.map_err(|source| unusable(source.to_string()))?,
        };
        let storage = Arc::new(storage);
        let written = Written {
            storage: storage.clone(),
            keys: None,
            doubts: Arc::new(Doubts::verifying()),
        };
        let mut opened = Repository::with_config(storage, keys, None, config)?;
        opened.written = Some(written);
        Ok(opened)
    }

    /// Refuses what the key of a writer, or a repository of a writer's files, is not for.
    pub(crate) fn refuse_writers(&self, action: &'static str) -> Result<()> {
        self.refuse_write_only(action)?;
        match self.files.keys.is_of_writer() {
            true => Err(Error::OfWriter { action }),
            false => Ok(()),
        }
    }

    /// Refuses what the key of a writer is not for.
    pub(crate) fn refuse_write_only(&self, action: &'static str) -> Result<()> {
        match self.is_write_only() {
            true => Err(Error::WriteOnly { action }),
            false => Ok(()),
        }
    }

    /// Returns who works with which files.
    pub fn party(&self) -> Party {
        match self.files.keys.is_of_writer() {
            false => Party::Owner,
            true if self.is_write_only() => Party::Writer,
            true => Party::Keeper,
        }
    }

    /// Returns whether it was opened with the key of a writer, which can only store.
    pub fn is_write_only(&self) -> bool {
        self.files.keys.is_write_only()
    }
}

/// Returns the name of a file that revokes a writer.
fn revocation_name(writer: FileId, id: FileId) -> Name {
    Name::new(&format!("{}/{writer}/{id}", folder::REVOKED)).expect("hexadecimal digits make a valid name")
}

/// Returns the files that revoke the writer of these keys, without their headers. What no keeper has signed is none.
fn revocations(storage: &dyn Storage, keys: &Keys) -> Result<Vec<(FileId, Vec<u8>)>> {
    let writer = keys.repository();
    let mut ids = Vec::new();
    storage.list(&format!("{}/{writer}", folder::REVOKED), &mut |name, _| {
        ids.extend(FileId::parse(name.last_segment()));
    })?;
    ids.sort_unstable();
    let mut found = Vec::new();
    for id in ids {
        let mut bytes = match storage.get(&revocation_name(writer, id), REVOCATION_LIMIT + HEADER as u64) {
            Err(error) if matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::NotAnObject) => continue,
            read => read?,
        };
        let Some((header, content)) = bytes.split_at_checked(HEADER) else {
            continue;
        };
        let header = signed::open(keys, FileKind::Revocation, id, header);
        if header.is_ok_and(|header| header.check(content).is_ok()) {
            bytes.drain(..HEADER);
            found.push((id, bytes));
        }
    }
    Ok(found)
}
