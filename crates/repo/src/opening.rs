//! Opening a repository: what can be read without a password, and the key that opens the rest.

use std::path::Path;
use std::sync::Arc;

use ibid_format::config;
use ibid_format::{FileId, Keys};
use ibid_storage::{ErrorKind, Storage};

use crate::cache::LastOpened;
use crate::confirming::Confirming;
use crate::key_slots::{OpenedSlot, list_slots, unlock, unlock_remembered};
use crate::layout::{config_copy_name, config_name, folder, list_ids};
use crate::listed::Listed;
use crate::threads::both;
use crate::{Error, Repository, Result};

/// Properties of a repository that can be read without a password.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Probe {
    /// Id of the repository.
    pub id: FileId,
    /// Whether the repository is encrypted.
    pub encrypted: bool,
    /// The bytes of its config.
    pub(crate) config: Vec<u8>,
    /// The key slots that there were, if they were listed.
    pub(crate) slots: Option<Vec<FileId>>,
    /// The key file with its id, if a cache remembers all this, and the storage was not asked.
    pub(crate) remembered: Option<(FileId, Vec<u8>)>,
}

impl Probe {
    /// Opens the repository, with the config that was read: as [`Repository::open`], which reads it again.
    ///
    /// # Errors
    /// Those of [`Repository::open`].
    ///
    /// ```
    /// # use ibid_repo::{Argon2Cost, InitOptions, MemoryStorage, Repository};
    /// # let storage = std::sync::Arc::new(MemoryStorage::new());
    /// # let init = InitOptions::default().cost(Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 });
    /// # Repository::init(storage.clone(), Some(b"secret"), &init)?;
    /// let probe = Repository::probe(storage.as_ref())?;
    /// let password = probe.encrypted.then_some(b"secret".as_slice());
    /// let repository = probe.open(storage, password)?;
    /// # assert!(repository.is_encrypted());
    /// # Ok::<(), ibid_repo::Error>(())
    /// ```
    pub fn open(&self, storage: Arc<dyn Storage>, password: Option<&[u8]>) -> Result<Repository> {
        let opened = Repository::open_with(storage.clone(), &self.config, password, self.slots.as_deref());
        match opened {
            // The storage can't be reached, or the keys were tried.
            Err(Error::Storage(error)) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            Err(error @ Error::WrongPassword { slots: 1.., .. }) => Err(error),
            // There may be another repository now.
            Err(_) if self.remembered.is_some() => Repository::open(storage, password),
            opened => opened,
        }
    }

    /// Opens the repository to make a backup, with the key that a [cache](Repository::probe_with_cache) remembers if it
    /// opens with the password. Then the storage is asked nothing: the list that a backup makes once it has begun tells
    /// whether the key is still there. Anything else that is asked of it first looks for that.
    ///
    /// If the key is gone, the backup fails with [`Error::KeyGone`] before it has read or stored anything but its
    /// session, which it deletes. Then [`Repository::open`] tells why, or opens the repository with another key.
    ///
    /// # Errors
    /// Those of [`Repository::open`].
    ///
    /// ```
    /// # use ibid_repo::{Argon2Cost, BackupOptions, InitOptions, MemoryStorage, Repository};
    /// # let storage = std::sync::Arc::new(MemoryStorage::new());
    /// # let init = InitOptions::default().cost(Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 });
    /// # Repository::init(storage.clone(), Some(b"secret"), &init)?;
    /// let folder = tempfile::tempdir().unwrap();
    /// for _ in 0..2 {
    ///     let probe = Repository::probe_with_cache(storage.as_ref(), folder.path())?;
    ///     let repository = probe.open_to_back_up(storage.clone(), Some(b"secret"))?.with_cache(folder.path());
    ///     repository.backup(&BackupOptions::default().path("src"))?;
    /// }
    /// # Ok::<(), ibid_repo::Error>(())
    /// ```
    pub fn open_to_back_up(&self, storage: Arc<dyn Storage>, password: Option<&[u8]>) -> Result<Repository> {
        if let (Some((slot, file)), Some(password)) = (&self.remembered, password)
            && let Some(keys) = unlock_remembered(self.id, *slot, file, password)
        {
            let confirming = Arc::new(Confirming::new(storage.clone(), *slot));
            let slot = OpenedSlot {
                id: *slot,
                file: file.clone(),
            };
            if let Ok(repository) = Repository::open_with_keys(confirming, &self.config, keys, Some(slot)) {
                return Ok(repository);
            }
        }
        self.open(storage, password)
    }
}

impl Repository {
    /// Returns the properties that can be read without a password.
    ///
    /// # Errors
    /// [`Error::NoRepository`]; a config that can't be parsed; errors of the storage.
    pub fn probe(storage: &dyn Storage) -> Result<Probe> {
        // Who opens it needs the keys next.
        let is_remote = storage.is_remote();
        let (slots, bytes) = both(
            is_remote,
            || is_remote.then(|| list_slots(storage)).transpose(),
            || read_config(storage),
        );
        let bytes = bytes?;
        let header = read_header(storage, &bytes)?;
        Ok(Probe {
            id: header.repository,
            encrypted: header.encrypted,
            config: bytes,
            // Should that fail, they are listed again, and the error is told.
            slots: slots.ok().flatten(),
            remembered: None,
        })
    }

    /// Does the same as [`probe`](Repository::probe), but asks the storage nothing if it is reached over a network and
    /// a [cache](Repository::with_cache) below `folder` remembers the encrypted repository that was opened there last.
    /// Should there be another one now, [`Probe::open`] opens that.
    ///
    /// # Errors
    /// Those of [`probe`](Repository::probe).
    ///
    /// ```
    /// # use ibid_repo::{Argon2Cost, InitOptions, MemoryStorage, Repository};
    /// # let storage = std::sync::Arc::new(MemoryStorage::new());
    /// # let init = InitOptions::default().cost(Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 });
    /// # Repository::init(storage.clone(), Some(b"secret"), &init)?;
    /// # let folder = tempfile::tempdir().unwrap();
    /// let probe = Repository::probe_with_cache(storage.as_ref(), folder.path())?;
    /// let repository = probe.open(storage, Some(b"secret"))?.with_cache(folder.path());
    /// # assert!(repository.is_encrypted());
    /// # Ok::<(), ibid_repo::Error>(())
    /// ```
    pub fn probe_with_cache(storage: &dyn Storage, folder: &Path) -> Result<Probe> {
        let address = storage.is_remote().then(|| storage.location());
        let last = address.and_then(|address| LastOpened::find(folder, &address));
        let remembered = last.and_then(|last| {
            let header = config::header(&last.config).ok()?;
            header.encrypted.then_some(Probe {
                id: header.repository,
                encrypted: true,
                config: last.config,
                slots: Some(vec![last.slot]),
                remembered: Some((last.slot, last.key)),
            })
        });
        match remembered {
            Some(probe) => Ok(probe),
            None => Repository::probe(storage),
        }
    }

    /// Opens a repository with its password, or an unencrypted one without.
    ///
    /// # Errors
    /// [`Error::WrongPassword`], [`Error::PasswordNeeded`], [`Error::NotEncrypted`] if a password
    /// was given for a repository without encryption.
    pub fn open(storage: Arc<dyn Storage>, password: Option<&[u8]>) -> Result<Repository> {
        Repository::probe(storage.as_ref())?.open(storage, password)
    }

    /// Opens a repository with the bytes of its config.
    pub(crate) fn open_with(
        storage: Arc<dyn Storage>,
        bytes: &[u8],
        password: Option<&[u8]>,
        slots: Option<&[FileId]>,
    ) -> Result<Repository> {
        let location = storage.location();
        let header = read_header(storage.as_ref(), bytes)?;
        let (keys, slot) = match (password, header.master) {
            (None, Some(master)) => (Keys::unencrypted(header.repository, &master), None),
            (Some(_), Some(_)) => return Err(Error::NotEncrypted { location }),
            (None, None) => return Err(Error::PasswordNeeded { location }),
            (Some(password), None) => {
                let (keys, slot) = unlock(storage.as_ref(), header.repository, password, slots)?;
                (keys, Some(slot))
            }
        };
        Repository::open_with_keys(storage, bytes, keys, slot)
    }

    /// Opens a repository with the bytes of its config and its keys.
    fn open_with_keys(
        storage: Arc<dyn Storage>,
        bytes: &[u8],
        keys: Keys,
        slot: Option<OpenedSlot>,
    ) -> Result<Repository> {
        let config = config::open(bytes, &keys).map_err(|source| Error::ConfigDamaged { source })?;
        let keys = match &config.chunk_key {
            Some(key) => keys.with_chunk_key(key),
            None => keys,
        };
        let id = slot.as_ref().map(|slot| slot.id);
        let opened = slot.map(|slot| LastOpened::of(slot, bytes));
        let mut repository = Repository::with_config(storage, keys, id, config)?;
        repository.opened = opened.map(Arc::new);
        Ok(repository)
    }
}

pub(crate) fn read_config(storage: &dyn Storage) -> Result<Vec<u8>> {
    match storage.get(&config_name(), config::LIMIT) {
        Err(error) if error.kind() == ErrorKind::NotFound => match without_config(storage)? {
            Some(error) => Err(error),
            None => Ok(storage.get(&config_name(), config::LIMIT)?),
        },
        Err(error) if error.kind() == ErrorKind::TooLarge => Err(damaged_config(
            storage,
            ibid_format::Error::OutOfRange {
                field: "config file",
                min: 0,
                max: config::LIMIT,
                found: storage.size(&config_name())?,
            },
        )?),
        result => Ok(result?),
    }
}

/// Returns what the lack of a config means: that there is no repository, or that it is lost. A key alone may be
/// left of an initialisation that was cut short. Returns [`None`] if there is a config by now, because another program
/// has made the repository meanwhile.
pub(crate) fn without_config(storage: &dyn Storage) -> Result<Option<Error>> {
    const FOLDERS: [&str; 4] = [folder::SNAPSHOTS, folder::INDEX, folder::SKETCHES, folder::PACKS];
    let location = storage.location();
    let listed = Listed::of(storage, &[&FOLDERS[..], &[folder::CONFIG_COPY]].concat())?;
    let has_copy = match listed.take(folder::CONFIG_COPY) {
        Some(names) => !names.is_empty(),
        None => match storage.size(&config_copy_name()) {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error.into()),
        },
    };
    let mut is_ours = has_copy;
    for folder in FOLDERS {
        is_ours = is_ours || !listed.ids(storage, folder)?.is_empty();
    }
    if !is_ours {
        return Ok(Some(Error::NoRepository { location }));
    }
    match storage.size(&config_name()) {
        Ok(_) => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Some(Error::ConfigMissing { location, has_copy })),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn read_header(storage: &dyn Storage, bytes: &[u8]) -> Result<config::Header> {
    config::header(bytes).or_else(|source| Err(damaged_config(storage, fault_of(storage, bytes, source)?)?))
}

/// Returns why a config can't be parsed. One of another version was written by a newer program, unless the copy of the
/// config differs from it in nothing else: then the number of the version is damaged.
fn fault_of(storage: &dyn Storage, bytes: &[u8], source: ibid_format::Error) -> Result<ibid_format::Error> {
    let ibid_format::Error::Version { kind, .. } = source else {
        return Ok(source);
    };
    let copy = match storage.get(&config_copy_name(), config::LIMIT) {
        Ok(copy) => copy,
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::TooLarge | ErrorKind::NotAnObject
            ) =>
        {
            return Ok(source);
        }
        Err(error) => return Err(error.into()),
    };
    let (Some((found, rest)), Some((_, same))) = (bytes.split_first_chunk(), copy.split_first_chunk::<8>()) else {
        return Ok(source);
    };
    let is_damaged = rest == same && config::header(&copy).is_ok();
    Ok(match is_damaged {
        true => ibid_format::Error::Magic {
            expected: kind,
            found: *found,
        },
        false => source,
    })
}

/// Classifies an unreadable config: damaged if our keys or snapshots are beside it, else another
/// program's file.
fn damaged_config(storage: &dyn Storage, source: ibid_format::Error) -> Result<Error> {
    let is_version = matches!(source, ibid_format::Error::Version { .. });
    let is_ours = || {
        Ok::<_, Error>(
            !(list_ids(storage, folder::KEYS)?.is_empty() && list_ids(storage, folder::SNAPSHOTS)?.is_empty()),
        )
    };
    Ok(if is_version || is_ours()? {
        Error::ConfigDamaged { source }
    } else {
        Error::NotARepository {
            location: storage.location(),
            found: format!("its config is that of something else ({source})"),
        }
    })
}
