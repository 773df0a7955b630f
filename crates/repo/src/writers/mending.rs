//! The config of a writer that is lost or damaged, made again by a keeper.

use ibid_format::Keys;
use ibid_format::config::{self, Config};
use ibid_storage::{ErrorKind, Name, Storage};

use super::WriterStorage;
use crate::layout::{config_copy_name, config_name};
use crate::repair::{delete, put_aside};
use crate::{Error, Repository, Result};

/// Files that are larger are not kept.
const SIZE_MAX: u64 = 1 << 20;

impl Repository {
    /// Makes the config of a writer again if it is lost or damaged: from its copy or, if that is damaged, too, from
    /// what this repository says. Moves what is damaged below `damaged/`. A dry run only looks. Returns whether there
    /// was anything to do.
    ///
    /// # Errors
    /// [`Error::UnknownWriter`]; a config that a newer version of this program has stored; errors of the storage.
    pub fn repair_writer_config(&self, wanted: &str, dry_run: bool) -> Result<bool> {
        let id = self.find_writer(wanted)?.id;
        let keys = self.files.keys.of_writer(id).map_err(Error::damaged("the key"))?;
        let storage = WriterStorage::new(self.files.storage.clone(), id, keys.clone(), None);
        if read(&storage, &keys, &config_name())?.is_some() {
            return Ok(false);
        }
        if dry_run {
            return Ok(true);
        }
        self.refuse_append_only()?;
        let bytes = match read(&storage, &keys, &config_copy_name())? {
            Some(bytes) => bytes,
            None => {
                move_aside(&storage, &config_copy_name())?;
                self.config_of_writer(self.config.created, &keys)?
            }
        };
        move_aside(&storage, &config_name())?;
        for name in [config_name(), config_copy_name()] {
            match storage.put(&name, &[&bytes]) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
                _ => {}
            }
        }
        Ok(true)
    }

    /// Returns the bytes of a config for a writer with these keys.
    pub(super) fn config_of_writer(&self, created: i64, keys: &Keys) -> Result<Vec<u8>> {
        let config = Config {
            created,
            chunker_number: self.config.chunker_number,
            chunker_words: self.config.chunker_words.clone(),
            frame_size: self.config.frame_size,
            pack_size: self.config.pack_size,
            chunk_key: None,
            lock: self.config.lock,
        };
        config::encode(&config, keys).map_err(|source| Error::Refused {
            what: "the writer",
            source,
        })
    }
}

/// Returns the bytes of a config or of its copy; `None` if it is not there or damaged.
fn read(storage: &WriterStorage, keys: &Keys, name: &Name) -> Result<Option<Vec<u8>>> {
    let bytes = match storage.get(name, config::LIMIT) {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::TooLarge) => return Ok(None),
        Err(error) => {
            let error = Error::from(error);
            return if error.is_of_content() { Ok(None) } else { Err(error) };
        }
    };
    match config::open(&bytes, keys) {
        Ok(_) => Ok(Some(bytes)),
        Err(source @ ibid_format::Error::Version { .. }) => Err(Error::ConfigDamaged { source }),
        Err(_) => Ok(None),
    }
}

/// Moves a file of a writer below `damaged/`, if it is there.
fn move_aside(storage: &WriterStorage, name: &Name) -> Result<()> {
    match storage.whole(name, SIZE_MAX) {
        Ok(bytes) => {
            put_aside(storage, name, &bytes)?;
            delete(storage, name)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // It is none, so nothing of it is needed.
        Err(error) if error.kind() == ErrorKind::TooLarge => delete(storage, name),
        Err(error) => Err(error.into()),
    }
}
