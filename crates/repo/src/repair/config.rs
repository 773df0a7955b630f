//! The copy of the config, and the config from its copy.
//!
//! Both have the same bytes. A repository without its config can't be opened by anyone, so there are two.

use std::path::PathBuf;
use std::sync::Arc;

use ibid_format::config;
use ibid_storage::{Archives, ErrorKind, Locks, Name, Storage};

use super::Repairing;
use super::aside::{delete, put_aside};
use crate::files::Files;
use crate::layout::{config_copy_name, config_name, folder};
use crate::listed::Listed;
use crate::opening::read_header;
use crate::{Error, Probe, Repository, Result};

impl Repository {
    /// Returns what the copy of the config says of a repository without a password; `None` if there is no copy,
    /// or if the config is there and is the same.
    ///
    /// # Errors
    /// A copy that can't be parsed; errors of the storage.
    pub fn probe_copy(storage: &dyn Storage) -> Result<Option<Probe>> {
        let Some(copy) = get(storage, false)? else {
            return Ok(None);
        };
        if get(storage, true)?.as_ref() == Some(&copy) {
            return Ok(None);
        }
        let header = read_header(storage, &copy)?;
        Ok(Some(Probe {
            id: header.repository,
            encrypted: header.encrypted,
            config: copy,
            slots: None,
            remembered: None,
        }))
    }

    /// Makes a lost or damaged config again from its copy, if the copy opens the repository with this password.
    /// Moves a damaged config below `damaged/`. Returns whether there was anything to do.
    ///
    /// # Errors
    /// Those of [`open`](Repository::open) if the copy does not open the repository either, or there is none;
    /// errors of the storage.
    ///
    /// ```
    /// # use ibid_repo::{Argon2Cost, InitOptions, MemoryStorage, Repository, Storage};
    /// # let storage = std::sync::Arc::new(MemoryStorage::new());
    /// # let options = InitOptions::default().cost(Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 });
    /// Repository::init(storage.clone(), Some(b"secret"), &options)?;
    /// storage.delete(&ibid_storage::Name::new("config").unwrap())?;
    /// assert!(Repository::repair_config(storage.clone(), Some(b"secret"))?);
    /// Repository::open(storage, Some(b"secret"))?;
    /// # Ok::<(), ibid_repo::Error>(())
    /// ```
    pub fn repair_config(storage: Arc<dyn Storage>, password: Option<&[u8]>) -> Result<bool> {
        let Some(Mending { damaged, copy, .. }) = mending(&storage, password)? else {
            return Ok(false);
        };
        if let Some(damaged) = damaged {
            put_aside(storage.as_ref(), &config_name(), &damaged)?;
            delete(storage.as_ref(), &config_name())?;
        }
        match storage.put(&config_name(), &[&copy]) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error.into()),
            _ => Ok(true),
        }
    }

    /// Opens a repository as it would be after [`repair_config`](Repository::repair_config), and writes nothing:
    /// its config seems to be the copy. Returns `None` if there is nothing to do.
    ///
    /// # Errors
    /// Those of [`repair_config`](Repository::repair_config).
    pub fn open_with_copy(storage: Arc<dyn Storage>, password: Option<&[u8]>) -> Result<Option<Repository>> {
        let mending = mending(&storage, password)?;
        Ok(mending.map(|Mending { repository, .. }| repository))
    }
}

/// What makes a config again.
struct Mending {
    /// The config that is to be moved away.
    damaged: Option<Vec<u8>>,
    copy: Vec<u8>,
    /// The repository as the copy opens it.
    repository: Repository,
}

/// Returns what makes the config again; `None` if it opens the repository.
fn mending(storage: &Arc<dyn Storage>, password: Option<&[u8]>) -> Result<Option<Mending>> {
    let error = match Repository::open(storage.clone(), password) {
        Ok(_) => return Ok(None),
        // A newer version of this program wrote it.
        Err(
            error @ Error::ConfigDamaged {
                source: ibid_format::Error::Version { .. },
            },
        ) => return Err(error),
        Err(error) => error,
    };
    let damaged = get(storage.as_ref(), true)?;
    let copy = get(storage.as_ref(), false)?;
    let Some(copy) = copy.filter(|copy| damaged.as_ref() != Some(copy)) else {
        return Err(error);
    };
    let repaired = Repaired {
        storage: storage.clone(),
        config: copy.clone(),
    };
    let repository = Repository::open_with(Arc::new(repaired), &copy, password, None)?;
    Ok(Some(Mending {
        damaged,
        copy,
        repository,
    }))
}

/// A storage whose config seems to have these bytes.
struct Repaired {
    storage: Arc<dyn Storage>,
    config: Vec<u8>,
}

type StorageResult<T> = std::result::Result<T, ibid_storage::Error>;

impl Storage for Repaired {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> StorageResult<()> {
        self.storage.put(name, parts)
    }

    fn put_data(&self, name: &Name, parts: &[&[u8]]) -> StorageResult<()> {
        self.storage.put_data(name, parts)
    }

    fn locks(&self) -> Option<&dyn Locks> {
        self.storage.locks()
    }

    fn archives(&self) -> Option<&dyn Archives> {
        self.storage.archives()
    }

    fn get(&self, name: &Name, limit: u64) -> StorageResult<Vec<u8>> {
        match *name == config_name() {
            true => Ok(self.config.clone()),
            false => self.storage.get(name, limit),
        }
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> StorageResult<()> {
        self.storage.read_at(name, offset, buffer)
    }

    fn size(&self, name: &Name) -> StorageResult<u64> {
        match *name == config_name() {
            true => Ok(self.config.len() as u64),
            false => self.storage.size(name),
        }
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

    fn location(&self) -> String {
        self.storage.location()
    }

    fn folder(&self) -> Option<PathBuf> {
        self.storage.folder()
    }

    fn is_remote(&self) -> bool {
        self.storage.is_remote()
    }

    fn is_append_only(&self) -> bool {
        self.storage.is_append_only()
    }
}

impl Repairing<'_> {
    /// Makes the copy of the config again if it is missing or differs: the config has opened the repository.
    pub(super) fn config_copy(&mut self) -> Result<()> {
        let storage = self.repository.files.storage.as_ref();
        let copy = match get(storage, false) {
            Ok(copy) => copy,
            // That of a writer is behind a header.
            Err(error) if error.is_of_content() => {
                self.delete(config_copy_name(), error.problem())?;
                None
            }
            Err(error) if error.is_fault() => {
                self.leave(config_copy_name(), error.problem());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if copy.is_some() && copy == get(storage, true)? {
            return Ok(());
        }
        if copy.is_some() {
            self.delete(config_copy_name(), "it differs from the config".to_owned())?;
        }
        if !self.options.dry_run {
            keep_copy(&self.repository.files, &Listed::default())?;
        }
        Ok(())
    }
}

/// Makes the copy of the config, if there is none. If something else has its name, it stays: a check tells of it.
pub(crate) fn keep_copy(files: &Files, listed: &Listed) -> Result<()> {
    let storage = &files.storage;
    match listed.take(folder::CONFIG_COPY) {
        Some(names) if !names.is_empty() => return Ok(()),
        Some(_) => {}
        None => match storage.size(&config_copy_name()) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::NotAnObject => return Ok(()),
            found => return Ok(found.map(drop)?),
        },
    }
    let bytes = storage.get(&config_name(), config::LIMIT)?;
    match storage.put(&config_copy_name(), &[&bytes]) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    }
}

/// Returns whether there is a copy of the config that differs from it.
pub(crate) fn copy_differs(files: &Files) -> Result<bool> {
    let copy = get(files.storage.as_ref(), false)?;
    Ok(copy.is_some() && copy != get(files.storage.as_ref(), true)?)
}

/// Returns the bytes of the config or of its copy, if it is there. More than a config has are cut off.
fn get(storage: &dyn Storage, is_config: bool) -> Result<Option<Vec<u8>>> {
    let name = if is_config { config_name() } else { config_copy_name() };
    match storage.get(&name, config::LIMIT) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::TooLarge => {
            let mut bytes = vec![0; config::LIMIT as usize];
            storage.read_at(&name, 0, &mut bytes)?;
            Ok(Some(bytes))
        }
        Err(error) => Err(error.into()),
    }
}
