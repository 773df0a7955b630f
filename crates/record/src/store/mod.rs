//! The store: opening it, and handing work to its writer.

pub(crate) mod batch;
pub(crate) mod folder;
mod namespace;
mod snapshot;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

pub use batch::Batch;
use ibid_format::slot::Argon2Cost;
pub use namespace::Namespace;
pub use snapshot::{Record, Snapshot, Version};

use crate::audit::Blocks;
use crate::encode::{Counters, Encoder, Encoding, EncodingReport};
use crate::engine::{Engine, Snapshot as Snapshotted};
use crate::error::Error;
use crate::read::bodies::{Bodies, History};
use crate::read::lookup;
use crate::write::feed::Feed;
use crate::write::replay::{self, Wholeness};
use crate::write::writer::{Outcome, Request, What, Writer};

/// Requests that wait for the writer before callers wait for a place among them.
const QUEUE: usize = 1024;

/// What is promised when a change returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It is on disk.
    Sync,
    /// It is seen by readers, and on disk after so long; a crash before that may lose it, and what
    /// came after it. If the sync fails, everything that is asked of the writer afterwards is
    /// an error.
    Batched(Duration),
    /// It is seen by readers, and on disk after [`Store::sync`], or when the store is closed, or
    /// with a later change that is synced.
    None,
}

/// Whether a namespace keeps earlier versions of what is stored under its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    /// The latest only.
    Latest,
    /// All of them, also of keys that were deleted, until they are purged.
    Kept,
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Versions::Latest => "not kept",
            Versions::Kept => "kept",
        })
    }
}

/// Which [`Engine`] keeps a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineKind {
    /// [`Redb`](crate::engine::Redb).
    Redb,
    /// `Fjall`.
    #[cfg(feature = "fjall")]
    Fjall,
}

/// How a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// What keeps the bytes. A store is opened with the engine that it was made with.
    pub engine: EngineKind,
    /// Memory for pages of the engine, bytes.
    pub cache_bytes: usize,
    /// Memory for what was decompressed, bytes: most of it for latest versions, the rest for frames
    /// of others.
    pub frame_cache_bytes: usize,
    /// Of changes for which nothing else is said.
    pub durability: Durability,
    /// How records that resemble each other are made small.
    pub encoding: Encoding,
    /// Whether the store begins a log, by which others can have the same. A store that has one
    /// keeps it whatever this says.
    pub oplog: bool,
    /// Entries of the log that a primary keeps; the oldest are removed as others come, [as by
    /// hand](Store::truncate_log). All of them with [`None`]: only who knows how far behind a
    /// replica may be can say how many are enough.
    pub log_entries_max: Option<u64>,
}

impl Default for Options {
    /// redb, 64 and 16 MiB, [`Durability::Sync`], [`Encoding::default`], and no log.
    fn default() -> Self {
        Options {
            engine: EngineKind::Redb,
            cache_bytes: 64 << 20,
            frame_cache_bytes: 16 << 20,
            durability: Durability::Sync,
            encoding: Encoding::default(),
            oplog: false,
            log_entries_max: None,
        }
    }
}

/// Records under keys, in namespaces.
///
/// Any number of threads read and write. Reads see what was committed when they began, and wait for
/// nobody; changes go to one thread that commits together what came in meanwhile. The store closes
/// when it, its namespaces and its snapshots are dropped.
///
/// ```
/// use ibid_record::{Options, Store, Versions};
/// # let folder = tempfile::tempdir()?;
/// let store = Store::open(&folder.path().join("wiki"), Options::default())?;
/// let pages = store.namespace("pages", Versions::Kept)?;
/// pages.insert(b"ibid", b"in the same place")?;
/// pages.update(b"ibid", b"in the very same place")?;
///
/// assert_eq!(pages.get(b"ibid")?.as_deref(), Some(&b"in the very same place"[..]));
/// assert_eq!(pages.get_version(b"ibid", 1)?.as_deref(), Some(&b"in the same place"[..]));
/// assert_eq!(pages.versions(b"ibid")?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

impl Store {
    /// Opens the store in a folder, or makes it, with the folder. One process at a time may have it
    /// open.
    ///
    /// # Errors
    /// [`Error::NotAStore`] if something else is there, [`Error::OtherEngine`]; [`Error::Engine`]
    /// if it is open already or damaged, or the disk fails; [`Error::Damaged`].
    pub fn open(path: &Path, options: Options) -> Result<Self, Error> {
        let engine = folder::open(path, options, None)?;
        Store::with_engine(path, engine, options)
    }

    /// Opens the encrypted store in a folder with its password, or makes it. What is stored is
    /// sealed as in an encrypted repository, under a key in the file `key` that the
    /// password opens; [`Sealed`](crate::engine::Sealed) says what can be seen all the same.
    /// Without the password, or without that file, nothing can be read again.
    ///
    /// `cost` is what guessing the password of a new store is to cost, and opening it: some 30 ms
    /// by default.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`Error::Key`] for a wrong password, [`Error::NotEncrypted`].
    ///
    /// ```
    /// use ibid_record::{Argon2Cost, Error, Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let (path, options, cost) = (folder.path().join("wiki"), Options::default(), Argon2Cost::default());
    /// let store = Store::open_encrypted(&path, options, b"correct horse battery staple", cost)?;
    /// store.namespace("pages", Versions::Kept)?.insert(b"ibid", b"in the same place")?;
    /// drop(store);
    /// assert!(matches!(Store::open_encrypted(&path, options, b"wrong", cost), Err(Error::Key { .. })));
    /// assert!(matches!(Store::open(&path, options), Err(Error::Encrypted { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_encrypted(path: &Path, options: Options, password: &[u8], cost: Argon2Cost) -> Result<Self, Error> {
        let engine = folder::open(path, options, Some((password, cost)))?;
        Store::with_engine(path, engine, options)
    }

    /// Whether there is an encrypted store in a folder.
    ///
    /// # Errors
    /// [`Error::Engine`] if that can't be found out.
    pub fn is_encrypted(path: &Path) -> Result<bool, Error> {
        folder::is_encrypted(path)
    }

    /// Opens the store that an engine of the caller's keeps, or makes it if the engine is empty.
    /// `path` is for messages; what `options` say of an engine does not matter.
    ///
    /// # Errors
    /// [`Error::NotAStore`] if something else is in the engine, [`Error::Damaged`],
    /// [`Error::Engine`].
    pub fn with_engine(path: &Path, engine: Box<dyn Engine>, options: Options) -> Result<Self, Error> {
        let engine: Arc<dyn Engine> = Arc::from(engine);
        let next = folder::begin(path, &*engine)?;
        let log = replay::begin(&*engine, next, options.oplog)?;
        let wholeness = Arc::new(Wholeness::of(log.as_ref()));
        // A replica does what its primary's encoder found out.
        let encodes = options.encoding.on && replay::check_primary(log.as_ref()).is_ok();
        let (requests, queue) = sync_channel(QUEUE);
        let feed = encodes.then(|| Arc::new(Feed::default()));
        let (bodies, counters) = (
            Arc::new(Bodies::new(
                options.frame_cache_bytes / 8,
                options.frame_cache_bytes - options.frame_cache_bytes / 8,
            )),
            Arc::new(Counters::default()),
        );
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
            spawned.map_err(|error| folder::io("start a thread for", path, error))
        };
        let writer = Writer::new(
            engine.clone(),
            bodies.clone(),
            queue,
            feed.clone(),
            next,
            (log, wholeness.clone()),
            options,
        );
        let writer = spawn("ibid-record", Box::new(move || writer.run()))?;
        let mut inner = Inner {
            engine,
            bodies,
            counters,
            blocks: Blocks::default(),
            wholeness,
            durability: options.durability,
            requests: Some(requests.clone()),
            writer: Some(writer),
            feed,
            encoder: None,
        };
        if let Some(feed) = inner.feed.clone() {
            let (engine, bodies) = (inner.engine.clone(), inner.bodies.clone());
            let encoder = Encoder::new(options.encoding, engine, bodies, requests, feed, inner.counters.clone());
            inner.encoder = Some(spawn("ibid-encode", Box::new(move || encoder.run()))?);
        }
        Ok(Store { inner: Arc::new(inner) })
    }

    /// The namespace of this name (1 to 255 bytes); made if there is none.
    ///
    /// # Errors
    /// [`Error::NamespaceDiffers`] if it was made with other `versions`, [`Error::OutOfRange`] for
    /// its name.
    pub fn namespace(&self, name: &str, versions: Versions) -> Result<Namespace, Error> {
        let name: Arc<str> = name.into();
        let made = |number| Namespace::new(self.inner.clone(), name.clone(), number, versions);
        // An empty name is no key of an engine; the writer refuses it.
        if !name.is_empty()
            && let Some(number) = lookup::namespace(&*self.inner.whole_snapshot()?.0, &name, versions)?
        {
            return Ok(made(number));
        }
        // Synced whatever the options say, so that no record of it can be on disk before it.
        match self
            .inner
            .ask(What::Namespace(name.clone(), versions), Durability::Sync)?
        {
            Outcome::Namespace(number) => Ok(made(number)),
            Outcome::Written(_) | Outcome::Done => unreachable!("the outcome is of the kind that was asked for"),
        }
    }

    /// The namespace of this name, with the versions that it was made to keep, if there is one.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Engine`].
    pub fn find_namespace(&self, name: &str) -> Result<Option<Namespace>, Error> {
        // An empty name is no key of an engine.
        if name.is_empty() {
            return Ok(None);
        }
        let found = lookup::find_namespace(&*self.inner.whole_snapshot()?.0, name)?;
        Ok(found.map(|(number, versions)| Namespace::new(self.inner.clone(), name.into(), number, versions)))
    }

    /// Names of all namespaces, and what they keep, in the order in which they were made.
    ///
    /// ```
    /// # use ibid_record::{Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// store.namespace("pages", Versions::Kept)?;
    /// store.namespace("log", Versions::Latest)?;
    /// let expected = [("pages".to_owned(), Versions::Kept), ("log".to_owned(), Versions::Latest)];
    /// assert_eq!(store.namespaces()?, expected);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Engine`].
    pub fn namespaces(&self) -> Result<Vec<(String, Versions)>, Error> {
        let all = lookup::namespaces(&*self.inner.engine.snapshot()?)?;
        Ok(all.into_values().collect())
    }

    /// Does everything in a batch, or nothing, and returns when it has the durability of the
    /// store's options. Gives for each change the number of the record that it wrote: none for
    /// one that only removes.
    ///
    /// # Errors
    /// [`Error::KeyExists`], [`Error::NoSuchKey`], [`Error::OutOfRange`], [`Error::ForeignNamespace`], [`Error::Damaged`]:
    /// nothing was done. [`Error::Engine`], [`Error::WriterEnded`]: whether it was done is known
    /// after opening the store again.
    pub fn commit(&self, batch: Batch) -> Result<Vec<Option<u64>>, Error> {
        self.inner.commit(batch, self.inner.durability)
    }

    /// [`commit`](Self::commit) with a durability of its own.
    ///
    /// # Errors
    /// As there.
    pub fn commit_with(&self, batch: Batch, durability: Durability) -> Result<Vec<Option<u64>>, Error> {
        self.inner.commit(batch, durability)
    }

    /// Returns when every change that has returned before is on disk.
    ///
    /// # Errors
    /// [`Error::Engine`], [`Error::WriterEnded`]: what is on disk is known after opening the store again.
    pub fn sync(&self) -> Result<(), Error> {
        self.inner.ask(What::Sync, Durability::Sync).map(drop)
    }

    /// Returns when everything that was committed before is encoded, as far as that pays. On disk
    /// it is with the next [`sync`](Self::sync), or within a second. A replica has nothing to
    /// encode: it does what its primary found out.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Engine`], [`Error::WriterEnded`]; what is stored can be read
    /// all the same.
    pub fn finish_encoding(&self) -> Result<(), Error> {
        let Some(feed) = &self.inner.feed else {
            return Ok(());
        };
        // It may have become one since it was opened.
        if replay::check_primary(replay::state(&*self.inner.engine.snapshot()?)?.as_ref()).is_err() {
            return Ok(());
        }
        let (told, answer) = sync_channel(1);
        feed.finish(told);
        answer.recv().map_err(|_| Error::WriterEnded)?
    }

    /// What was encoded since the store was opened.
    pub fn encoding(&self) -> EncodingReport {
        self.inner.counters.report()
    }

    /// What is committed now.
    ///
    /// # Errors
    /// [`Error::Engine`].
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        Snapshot::new(&self.inner)
    }
}

/// What a store, its namespaces and its snapshots share.
pub(crate) struct Inner {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) bodies: Arc<Bodies>,
    counters: Arc<Counters>,
    pub(crate) blocks: Blocks,
    wholeness: Arc<Wholeness>,
    pub(crate) durability: Durability,
    /// [`None`] only while it is dropped: that ends the writer.
    requests: Option<SyncSender<Request>>,
    writer: Option<JoinHandle<()>>,
    /// [`None`] if nothing is encoded.
    feed: Option<Arc<Feed>>,
    encoder: Option<JoinHandle<()>>,
}

impl Inner {
    /// What is committed now, unless it is only a part of what another store has.
    pub(crate) fn whole_snapshot(&self) -> Result<(Box<dyn Snapshotted>, History), Error> {
        let history = self.wholeness.now()?;
        let snapshot = self.engine.snapshot()?;
        if self.wholeness.now()? == history {
            Ok((snapshot, history))
        } else {
            Err(Error::Incomplete)
        }
    }

    fn commit(self: &Arc<Self>, batch: Batch, durability: Durability) -> Result<Vec<Option<u64>>, Error> {
        if let Some((foreign, _)) = batch.operations.iter().find(|(namespace, _)| !namespace.is_of(self)) {
            let name = foreign.name().to_owned();
            return Err(Error::ForeignNamespace { name });
        }
        // The writer gets no namespaces: as the last holder of a store it would have to wait for its own
        // end.
        let operations = batch.operations.into_iter().map(|(_, operation)| operation).collect();
        match self.ask(What::Batch(operations), durability)? {
            Outcome::Written(written) => Ok(written.into_iter().map(|written| Some(written?.number)).collect()),
            Outcome::Namespace(_) | Outcome::Done => unreachable!("the outcome is of the kind that was asked for"),
        }
    }

    pub(crate) fn ask(&self, what: What, durability: Durability) -> Result<Outcome, Error> {
        let (outcome, answer) = sync_channel(1);
        let request = Request {
            what,
            durability,
            outcome,
        };
        let requests = self.requests.as_ref().ok_or(Error::WriterEnded)?;
        if let Some(feed) = &self.feed {
            feed.writer_has(1);
        }
        requests.send(request).map_err(|_| Error::WriterEnded)?;
        answer.recv().map_err(|_| Error::WriterEnded)?
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The encoder first: it asks the writer to write what it has found out.
        if let Some(feed) = &self.feed {
            feed.end();
        }
        if let Some(encoder) = self.encoder.take() {
            let _ = encoder.join();
        }
        self.requests = None;
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has told its callers by ending.
            let _ = writer.join();
        }
    }
}
