//! An open repository: its storage, keys and settings.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ibid_chunk::{Backend, Chunker, Settings, SettingsError};
use ibid_format::config::{self, Config};
use ibid_format::slot::Argon2Cost;
use ibid_format::tree::Time;
use ibid_format::{ChunkKey, FileId, Keys, MasterKey};
use ibid_storage::{Error as StorageError, ErrorKind, Lock, LockMode, Operation, Storage};

use crate::budget::{BUFFERS_MIN, MEMORY_DEFAULT, MEMORY_MIN};
use crate::cache::{Cache, CacheStats, Copies, LastOpened, Parts};
use crate::files::Files;
use crate::index::{IndexLimits, LoadedIndex, View};
use crate::key_slots::add_slot;
use crate::layout::{config_copy_name, config_name, folder, is_kept, name_in, new_id};
use crate::listed::Listed;
use crate::locks::{cannot_lock, locking};
use crate::opening::without_config;
use crate::options::setters;
use crate::prune::PruneState;
use crate::read::ChunkReader;
use crate::scratch::Scratch;
use crate::threads::lock;
use crate::writers::Written;
use crate::{Error, Monitor, Result, clock};

/// Default chunker of new repositories, a name in [`ibid_chunk::NAMES`]: the one that saves most
/// among those that cut at least 1.5 GB/s.
pub const CHUNKER_DEFAULT: &str = "argmin";
/// Default average chunk size of new repositories, bytes.
pub const AVERAGE_DEFAULT: usize = 128 << 10;
/// Data that a local cache keeps by default, bytes.
pub const CACHED_DATA_DEFAULT: u64 = 2 << 30;
/// Data that a [temporary cache](Repository::with_some_cache) keeps at most, bytes.
const TEMPORARY_DATA_MAX: u64 = 256 << 20;

/// Cache of decoded frames in a reader of trees, bytes.
const TREE_CACHE: u64 = 32 << 20;

/// Settings of a new repository.
///
/// ```
/// # use ibid_repo::{ChunkerSettings, InitOptions};
/// let chunker = ChunkerSettings::for_average("fastcdc", 64 << 10)?;
/// let options = InitOptions::default().chunker(chunker).key_label("laptop");
/// # Ok::<(), ibid_repo::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InitOptions {
    /// Chunker settings. They are recorded and can't be changed later.
    pub chunker: Settings,
    /// Bytes of neighbouring chunks compressed together, 4 KiB to 8 MiB.
    pub frame_size: u32,
    /// Target size of a pack, 1 to 64 MiB.
    pub pack_size: u32,
    /// Cost of one attempt to open the first key slot, for you and for an attacker.
    pub cost: Argon2Cost,
    /// Label of the first key slot.
    pub key_label: String,
    /// Creation time to record; the current time if none.
    pub created: Option<Time>,
    /// How its storage is to lock its files: packs, index files, snapshots, config, keys and the log of prunes. It is
    /// recorded, and every program that stores in the repository keeps to it.
    pub lock: Option<Lock>,
    /// The key of chunk ids of another repository, and whether that is encrypted.
    shared: Option<(ChunkKey, bool)>,
}

setters!(InitOptions {
    chunker: Settings,
    frame_size: u32,
    pack_size: u32,
    cost: Argon2Cost,
} into {
    key_label: String,
    created: Option<Time>,
    lock: Option<Lock>,
});

impl InitOptions {
    /// Makes the repository like another one: with its chunker and its sizes of frames and packs, and with the same
    /// ids for equal chunks, so that a [copy](Repository::copy_to) between the two does not read what is there.
    ///
    /// They share the key of chunk ids, which opens nothing, and no other.
    #[must_use]
    pub fn like(mut self, other: &Repository) -> InitOptions {
        self.chunker = other.chunker().clone();
        (self.frame_size, self.pack_size) = (other.frame_size(), other.pack_size());
        self.shared = Some((other.files.keys.shared_chunk_key(), other.is_encrypted()));
        self
    }
}

#[cfg(feature = "simulation")]
impl InitOptions {
    /// Gives chunks the ids that they have with this key, which opens nothing. All other keys stay random.
    #[doc(hidden)]
    #[must_use]
    pub fn chunk_key(mut self, key: [u8; 32]) -> InitOptions {
        self.shared = Some((ChunkKey::from_bytes(key), true));
        self
    }
}

#[cfg(test)]
impl InitOptions {
    /// Returns options of a repository that opens quickly.
    pub(crate) fn quick() -> InitOptions {
        InitOptions::default().cost(Argon2Cost {
            memory_kib: 64,
            passes: 1,
            lanes: 1,
        })
    }
}

impl Default for InitOptions {
    fn default() -> InitOptions {
        InitOptions {
            chunker: Settings::for_average(CHUNKER_DEFAULT, AVERAGE_DEFAULT).expect("a valid average"),
            frame_size: 1 << 20,
            pack_size: 16 << 20,
            cost: Argon2Cost::default(),
            key_label: String::new(),
            created: None,
            lock: None,
            shared: None,
        }
    }
}

/// Handle to an open repository. It is cheap to clone and can be used from several threads.
#[derive(Clone)]
pub struct Repository {
    pub(crate) files: Arc<Files>,
    /// The key slot that opened the repository.
    pub(crate) slot: Option<FileId>,
    /// The same with the config, if it was opened with a password: a cache remembers it.
    pub(crate) opened: Option<Arc<LastOpened>>,
    pub(crate) config: Config,
    pub(crate) chunker: Arc<Chunker>,
    pub(crate) memory: u64,
    loaded: Arc<Mutex<Option<Arc<LoadedIndex>>>>,
    pub(crate) monitor: Arc<Monitor>,
    pub(crate) cache: Option<Cache>,
    /// Bytes of data in the cache, if the storage is far.
    cached_data: u64,
    /// Folder of temporary files.
    scratch: Option<PathBuf>,
    /// Limits of the index, if they do not follow from the memory budget.
    pub(crate) index_limits: Option<IndexLimits>,
    /// What a keeper has of a writer, if these are the files of one.
    pub(crate) written: Option<Written>,
}

impl Repository {
    /// Creates a repository. Without a password it is **not encrypted**: do that only on the user's
    /// explicit request.
    ///
    /// # Errors
    /// [`Error::RepositoryExists`]; settings out of range; [`Error::KeyWouldBeOpen`]; errors of the storage.
    ///
    /// ```
    /// use ibid_repo::{Argon2Cost, InitOptions, MemoryStorage, Repository};
    /// let storage = std::sync::Arc::new(MemoryStorage::new());
    /// let options = InitOptions::default().cost(Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 });
    /// let repository = Repository::init(storage.clone(), Some(b"secret"), &options)?;
    /// assert!(repository.is_encrypted());
    /// assert!(Repository::init(storage, Some(b"secret"), &options).is_err(), "it exists");
    /// # Ok::<(), ibid_repo::Error>(())
    /// ```
    pub fn init(storage: Arc<dyn Storage>, password: Option<&[u8]>, options: &InitOptions) -> Result<Repository> {
        let created = options.created.unwrap_or_else(clock::now).seconds;
        let location = storage.location();
        match storage.size(&config_name()) {
            Ok(_) => return Err(Error::RepositoryExists { location }),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        // A repository that has lost its config must not get another, which would not open its files.
        match without_config(storage.as_ref())? {
            Some(Error::NoRepository { .. }) => {}
            Some(error) => return Err(error),
            None => return Err(Error::RepositoryExists { location }),
        }
        if password.is_none() && matches!(options.shared, Some((_, true))) {
            return Err(Error::KeyWouldBeOpen);
        }
        let chunker = chunker_of(&options.chunker)?;
        if let Some(lock) = options.lock {
            let locks = storage.locks().ok_or_else(|| cannot_lock(&*storage, lock))?;
            locks.check()?;
            locks.keep(lock, is_kept);
        }
        let master = MasterKey::random();
        let id = new_id();
        let keys = if password.is_some() {
            Keys::encrypted(id, &master)
        } else {
            Keys::unencrypted(id, &master)
        };
        let chunk_key = options.shared.as_ref().map(|(key, _)| key.clone());
        let keys = chunk_key.as_ref().map_or(keys.clone(), |key| keys.with_chunk_key(key));
        let config = Config {
            created,
            chunker_number: options.chunker.number(),
            chunker_words: options.chunker.to_words(),
            frame_size: options.frame_size,
            pack_size: options.pack_size,
            chunk_key,
            lock: options.lock.map(|lock| config::Lock {
                is_compliance: lock.mode() == LockMode::Compliance,
                days: lock.days(),
            }),
        };
        let bytes = config::encode(&config, &keys).map_err(|source| Error::Refused {
            what: "the repository",
            source,
        })?;
        let add = |password| {
            add_slot(
                storage.as_ref(),
                &keys,
                password,
                options.cost,
                &options.key_label,
                created,
            )
        };
        let slot = password.map(add).transpose()?;
        // Write the config last: the repository exists once its config does, and by then it has a
        // key.
        match storage.put(&config_name(), &[&bytes]) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                // Another process was faster, and our key opens nothing. If it can't be deleted, it
                // does no harm.
                if let Some(slot) = slot
                    && Repository::probe(storage.as_ref()).is_ok_and(|probe| probe.id != id)
                {
                    let _ = storage.delete(&name_in(folder::KEYS, slot.id));
                }
                return Err(Error::RepositoryExists { location });
            }
            result => result?,
        }
        // After the config, so that there is never a copy of one that another process has won over. Should it
        // fail, the next backup makes it.
        let _ = storage.put(&config_copy_name(), &[&bytes]);
        let id = slot.as_ref().map(|slot| slot.id);
        let opened = slot.map(|slot| LastOpened::of(slot, &bytes));
        Ok(Repository {
            opened: opened.map(Arc::new),
            ..Repository::assemble(storage, keys, id, config, chunker)
        })
    }

    fn assemble(
        storage: Arc<dyn Storage>,
        keys: Keys,
        slot: Option<FileId>,
        config: Config,
        chunker: Chunker,
    ) -> Repository {
        Repository {
            files: Arc::new(Files::new(storage, keys)),
            slot,
            opened: None,
            config,
            chunker: Arc::new(chunker),
            memory: MEMORY_DEFAULT,
            loaded: Arc::default(),
            monitor: Arc::default(),
            cache: None,
            cached_data: CACHED_DATA_DEFAULT,
            scratch: None,
            index_limits: None,
            written: None,
        }
    }

    /// Returns the repository with this config.
    pub(crate) fn with_config(
        storage: Arc<dyn Storage>,
        keys: Keys,
        slot: Option<FileId>,
        config: Config,
    ) -> Result<Repository> {
        let settings = Settings::from_words(config.chunker_number, &config.chunker_words)?;
        let chunker = chunker_of(&settings)?;
        let storage = match recorded_lock(&config) {
            Some(lock) => locking(storage, lock),
            None => storage,
        };
        Ok(Repository::assemble(storage, keys, slot, config, chunker))
    }

    /// Sets the memory budget of every operation, bytes. It covers the index, all buffers and all
    /// queues; the program itself takes up to 20 MiB besides.
    ///
    /// That holds if the allocator gives back what is freed. glibc's keeps large buffers in heaps with
    /// gaps, which may take as much again, unless `MALLOC_MMAP_THRESHOLD_=131072` is set in the
    /// environment, or the same by `mallopt` as the program `ibid` does.
    ///
    /// # Errors
    /// [`Error::MemoryBudget`] below [`MEMORY_MIN`].
    pub fn with_memory(mut self, budget: u64) -> Result<Repository> {
        check_memory(budget)?;
        self.memory = budget;
        Ok(self)
    }

    /// Keeps a local cache below `folder`, so that opening takes time only for what is new. The cache
    /// holds sealed copies of what the repository knows of its chunks, and of its trees and snapshots if
    /// the storage [is reached over a network](ibid_storage::Storage::is_remote). It can be deleted at any
    /// time, and several processes can use it at once.
    /// If the folder can't be made or written to, the monitor is told, and operations go on without.
    ///
    /// ```
    /// # use ibid_repo::{Argon2Cost, InitOptions, MemoryStorage, Repository};
    /// # let storage = std::sync::Arc::new(MemoryStorage::new());
    /// # let init = InitOptions::default().cost(Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 });
    /// # let folder = tempfile::tempdir().unwrap();
    /// let repository = Repository::init(storage, Some(b"secret"), &init)?.with_cache(folder.path());
    /// // What opens it.
    /// assert_eq!(repository.cache_stats()?.map(|stats| stats.files), Some(1));
    /// # Ok::<(), ibid_repo::Error>(())
    /// ```
    #[must_use]
    pub fn with_cache(self, folder: &Path) -> Repository {
        let cache = Cache::new(folder, self.id());
        if let Some(opened) = self.opened.as_ref().filter(|_| self.files.storage.is_remote()) {
            cache.remember_opened(&self.location(), opened);
        }
        Repository {
            cache: Some(cache),
            ..self
        }
        .with_copies()
    }

    /// Returns this handle or, if the storage is far and there is no cache, one with a cache that goes with it: of
    /// files that an operation would fetch several times otherwise. It does not remember the key, and what it loads is
    /// its own.
    pub(crate) fn with_some_cache(&self) -> Repository {
        if self.cache.is_some() || !self.files.storage.is_remote() || self.files.keys.is_of_writer() {
            return self.clone();
        }
        Repository {
            cache: Some(Cache::temporary(&self.scratch_folder())),
            cached_data: self.cached_data.min(TEMPORARY_DATA_MAX),
            loaded: Arc::default(),
            ..self.clone()
        }
        .with_copies()
    }

    /// Lets the local cache keep about so many bytes of data, if the storage [is reached over a
    /// network](ibid_storage::Storage::is_remote): what this machine stores, and what its backups read to encode deltas
    /// against. The next backup then reads less. By default [`CACHED_DATA_DEFAULT`]; with 0, none is kept.
    #[must_use]
    pub fn with_cached_data(self, bytes: u64) -> Repository {
        let cached_data = bytes;
        Repository { cached_data, ..self }.with_copies()
    }

    /// Keeps copies of files in the cache, if there is one and the storage is reached over a network.
    fn with_copies(mut self) -> Repository {
        // Copies of a writer's files would be without the headers that their keys follow from.
        let is_copied = self.files.storage.is_remote() && !self.files.keys.is_of_writer();
        let cache = self.cache.clone().filter(|_| is_copied);
        if cache.is_some() || self.files.copies.is_some() {
            let new_parts = |cache| Parts::new(cache, self.monitor.clone(), self.cached_data);
            self.files = Arc::new(Files {
                parts: cache.clone().map(new_parts),
                copies: cache.map(|cache| Copies::new(cache, self.monitor.clone())),
                names_denied: self.files.names_denied,
                rehearsal: self.files.rehearsal.clone(),
                ..Files::new(self.files.storage.clone(), self.files.keys.clone())
            });
        }
        self
    }

    /// Puts temporary files into `folder`, which must exist; by default they are in the cache, or where
    /// the system puts temporary files. They have no names, so a killed process leaves none.
    #[must_use]
    pub fn with_scratch(self, folder: &Path) -> Repository {
        let scratch = Some(folder.to_owned());
        Repository { scratch, ..self }
    }

    /// Returns a handle that reads everything from the repository itself, and goes on without files that
    /// this user may not read.
    pub(crate) fn without_cache(&self) -> Repository {
        Repository {
            files: Arc::new(Files {
                names_denied: true,
                rehearsal: self.files.rehearsal.clone(),
                ..Files::new(self.files.storage.clone(), self.files.keys.clone())
            }),
            scratch: Some(self.scratch_folder()),
            cache: None,
            loaded: Arc::default(),
            ..self.clone()
        }
    }

    /// Returns a handle with other files and another cache, and nothing loaded.
    pub(crate) fn with_files(&self, files: Files, cache: Option<Cache>) -> Repository {
        Repository {
            files: Arc::new(files),
            cache,
            loaded: Arc::default(),
            ..self.clone()
        }
        .with_copies()
    }

    /// Returns what the local cache holds; `None` without a cache.
    ///
    /// # Errors
    /// [`Error::Local`] if the cache can't be read.
    pub fn cache_stats(&self) -> Result<Option<CacheStats>> {
        self.cache
            .as_ref()
            .map(|cache| cache.stats(&self.files.keys))
            .transpose()
    }

    /// Deletes the local cache; returns the number of files and their bytes.
    ///
    /// # Errors
    /// [`Error::Local`] if a file can't be deleted.
    pub fn clear_cache(&self) -> Result<(u64, u64)> {
        self.cache.as_ref().map_or(Ok((0, 0)), Cache::clear)
    }

    /// Makes the index of a few chunks take every way that very large ones take. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_tiny_index(self) -> Repository {
        let index_limits = Some(IndexLimits::tiny());
        Repository { index_limits, ..self }
    }

    pub(crate) fn index_limits(&self) -> IndexLimits {
        let by_budget = || IndexLimits::of(self.memory, self.cache.is_some());
        self.index_limits.unwrap_or_else(by_budget)
    }

    /// Returns what it takes to write temporary files.
    pub(crate) fn scratch(&self) -> Scratch {
        Scratch {
            files: self.files.clone(),
            folder: self.scratch_folder(),
            limits: self.index_limits(),
            monitor: self.monitor.clone(),
        }
    }

    /// Returns the folder of temporary files.
    pub(crate) fn scratch_folder(&self) -> PathBuf {
        let cached = || self.cache.as_ref().map(Cache::scratch);
        self.scratch.clone().or_else(cached).unwrap_or_else(std::env::temp_dir)
    }

    /// Returns a handle to the same repository that reports to `monitor`: the monitor receives
    /// warnings and counts, and can cancel the operation. Use a new monitor for each operation.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use ibid_repo::{Argon2Cost, InitOptions, MemoryStorage, Monitor, ReadData, Repository};
    /// # let storage = Arc::new(MemoryStorage::new());
    /// # let options = InitOptions::default().cost(Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 });
    /// # let repository = Repository::init(storage, Some(b"secret"), &options)?;
    /// let monitor = Arc::new(Monitor::new(|warning| eprintln!("{warning:?}")));
    /// let report = repository.watched_by(&monitor).check(ReadData::All)?;
    /// # Ok::<(), ibid_repo::Error>(())
    /// ```
    #[must_use]
    pub fn watched_by(&self, monitor: &Arc<Monitor>) -> Repository {
        let monitor = monitor.clone();
        Repository {
            monitor,
            ..self.clone()
        }
        .with_copies()
    }

    /// Returns the id of the repository.
    pub fn id(&self) -> FileId {
        self.files.keys.repository()
    }

    /// Returns whether the repository is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.files.keys.is_encrypted()
    }

    /// Returns the address of the storage, for messages.
    pub fn location(&self) -> String {
        self.files.storage.location()
    }

    /// Returns the chunker settings.
    pub fn chunker(&self) -> &Settings {
        self.chunker.settings()
    }

    /// Returns the number of bytes of neighbouring chunks compressed together.
    pub fn frame_size(&self) -> u32 {
        self.config.frame_size
    }

    /// Returns the target size of a pack, bytes.
    pub fn pack_size(&self) -> u32 {
        self.config.pack_size
    }

    /// Returns how files are locked that this handle stores: as the repository records it, or
    /// [longer](Repository::with_lock).
    pub fn lock(&self) -> Option<Lock> {
        self.files.storage.locks()?.kept()
    }

    /// Locks what this handle stores for longer than the repository records, or if it records no lock. Other programs
    /// do not know of that; a [`prune`](Repository::prune) with the same lock locks what they have stored, too.
    /// Nothing is asked of the storage: [`check_lock`](Repository::check_lock) does that.
    ///
    /// # Errors
    /// [`Error::WeakerLock`] if the repository records a longer lock or a stronger mode;
    /// [`Unsupported`](ErrorKind::Unsupported) if the storage can never lock.
    pub fn with_lock(self, lock: Lock) -> Result<Repository> {
        if let Some(recorded) = recorded_lock(&self.config)
            && recorded.and(lock) != lock
        {
            return Err(Error::WeakerLock { lock, recorded });
        }
        let storage = &self.files.storage;
        let locks = storage.locks().ok_or_else(|| cannot_lock(&**storage, lock))?;
        locks.keep(lock, is_kept);
        Ok(self)
    }

    /// Asks whether the storage can lock files, if this handle locks what it stores.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) if not; errors of the storage.
    pub fn check_lock(&self) -> Result<()> {
        match self.files.storage.locks() {
            Some(locks) if locks.kept().is_some() => Ok(locks.check()?),
            _ => Ok(()),
        }
    }

    /// Returns the index. It is loaded on first use and kept.
    pub(crate) fn loaded(&self) -> Result<Arc<LoadedIndex>> {
        self.refuse_write_only("reading")?;
        let mut loaded = lock(&self.loaded);
        if let Some(loaded) = loaded.as_ref() {
            return Ok(loaded.clone());
        }
        let fresh = Arc::new(LoadedIndex::load_for_reader(self)?);
        *loaded = Some(fresh.clone());
        Ok(fresh)
    }

    /// Takes the index that another handle of this repository has loaded, if it has.
    pub(crate) fn share_loaded(&self, other: &Repository) {
        let loaded = lock(&other.loaded).clone();
        *lock(&self.loaded) = loaded;
    }

    /// Loads it anew, from what a pruner has listed after it had read the log.
    pub(crate) fn load_to_read(&self, state: &PruneState, listed: Listed) -> Result<Arc<LoadedIndex>> {
        self.refresh();
        let fresh = Arc::new(LoadedIndex::load_for_pruner(self, View::Reader, state, listed)?);
        *lock(&self.loaded) = Some(fresh.clone());
        Ok(fresh)
    }

    pub(crate) fn tree_reader(&self) -> Result<ChunkReader<'_>> {
        Ok(ChunkReader::new(&self.files, self.loaded()?, TREE_CACHE).looking_again(self))
    }

    /// Returns a reader for very many frames. Its cache of decoded frames takes most of the memory
    /// that the index and buffers leave: a base that stays in the cache is not decoded again. (The
    /// last of eight versions of a database's pages takes four times as long with a budget of 128
    /// MiB as with 512, of which it uses 210; for source trees and dumps 32 MiB are enough.)
    pub(crate) fn bulk_reader(&self, loaded: &Arc<LoadedIndex>) -> ChunkReader<'_> {
        const BUDGET_MIN: u64 = 16 << 20;
        // `readers_max` divides the other half of the buffers among the threads that read.
        let left = self.memory.saturating_sub(loaded.index.bytes() + BUFFERS_MIN / 2);
        ChunkReader::new(&self.files, loaded.clone(), (left / 4 * 3).max(BUDGET_MIN)).looking_again(self)
    }

    /// Returns a [`bulk_reader`](Repository::bulk_reader) that fetches ahead if the storage is far. A sixth of its
    /// cache makes room for that. Where the frames may not fit into the rest, this machine keeps what is fetched, so
    /// that a base which has left memory is read from its disk.
    pub(crate) fn bulk_reader_ahead(&self, loaded: &Arc<LoadedIndex>) -> ChunkReader<'_> {
        if !self.files.storage.is_remote() {
            return self.bulk_reader(loaded);
        }
        let left = self.memory.saturating_sub(loaded.index.bytes() + BUFFERS_MIN / 2);
        let budget = left / 4 * 3;
        let reader = self.reader_ahead(loaded, budget).looking_again(self);
        match loaded.may_outgrow(budget) {
            true => reader.keeping_fetched(),
            false => reader,
        }
    }

    /// Returns a reader that caches and fetches ahead about `budget` bytes of frames. It only fetches ahead if the
    /// storage is far.
    pub(crate) fn reader_ahead(&self, loaded: &Arc<LoadedIndex>, budget: u64) -> ChunkReader<'_> {
        const ROOM_MAX: u64 = 64 << 20;
        if !self.files.storage.is_remote() {
            return ChunkReader::new(&self.files, loaded.clone(), budget);
        }
        let room = (budget / 6).min(ROOM_MAX);
        ChunkReader::new(&self.files, loaded.clone(), budget - room).fetching_ahead(room)
    }

    /// Returns how many bytes of memory may be taken by what a restore is going to make, while it is fetched.
    pub(crate) fn lookahead_room(&self) -> u64 {
        self.memory / 32
    }

    /// Returns how many threads can read frames at once with the memory that is left beside a
    /// [`bulk_reader`](Repository::bulk_reader). Each thread holds a frame sealed, opened and
    /// decoded, and the same for its bases: measured, 4 to 5 times the largest frame, plus some MiB
    /// of tables and allocator overhead.
    pub(crate) fn readers_max(&self, loaded: &LoadedIndex) -> usize {
        const TABLES: u64 = 6 << 20;
        let left = self.memory.saturating_sub(loaded.index.bytes() + BUFFERS_MIN);
        // Frames that are fetched are cached, even if none is a base.
        let (room, frames) = if loaded.index.has_deltas() || self.files.storage.is_remote() {
            (left / 4, 5)
        } else {
            (left, 2)
        };
        let each = TABLES + frames * u64::from(loaded.index.length_max());
        ((BUFFERS_MIN / 2 + room) / each).max(1) as usize
    }

    /// Refuses what would be of no use in a storage that lets nothing be deleted.
    pub(crate) fn refuse_append_only(&self) -> Result<()> {
        self.refuse_write_only("deleting or changing")?;
        let storage = &self.files.storage;
        match storage.is_append_only() {
            true => Err(StorageError::append_only(Operation::Delete, None, storage.location()).into()),
            false => Ok(()),
        }
    }

    /// Discards the loaded index, so that the next operation sees what other processes have written
    /// since.
    pub fn refresh(&self) {
        *self.loaded.lock().expect("no holder of this lock panics") = None;
    }
}

/// Checks whether a repository can work with a budget of so many bytes, before one is created.
///
/// # Errors
/// [`Error::MemoryBudget`] below [`MEMORY_MIN`].
pub fn check_memory(budget: u64) -> Result<()> {
    match budget < MEMORY_MIN {
        true => Err(Error::MemoryBudget {
            budget,
            needed: MEMORY_MIN,
        }),
        false => Ok(()),
    }
}

impl std::fmt::Debug for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repository")
            .field("location", &self.location())
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

/// Returns the lock that a config records.
pub(crate) fn recorded_lock(config: &Config) -> Option<Lock> {
    let lock = config.lock?;
    let mode = match lock.is_compliance {
        true => LockMode::Compliance,
        false => LockMode::Governance,
    };
    Lock::new(lock.days, mode)
}

/// Returns a chunker with the vector instructions selected by the environment.
fn chunker_of(settings: &Settings) -> Result<Chunker> {
    let backend = Backend::preferred().map_err(SettingsError::from)?;
    Ok(Chunker::with_backend(settings, backend)?)
}
