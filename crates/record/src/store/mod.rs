//! The store as a program uses it: it opens the store, its namespaces and snapshots, and makes all
//! calls.

mod batch;
mod body_reader;
mod body_writer;
mod folder;
mod index;
mod namespace;
mod options;
mod pieces;
mod shared;
mod snapshot;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

pub use batch::Batch;
pub use body_reader::BodyReader;
pub use body_writer::{BodyWriter, NewBody, StagedBody};
use ibid_format::slot::Argon2Cost;
pub use index::Index;
pub use namespace::Namespace;
pub use options::{EngineKind, Options};
pub(crate) use pieces::Drafts;
pub(crate) use shared::Shared;
pub use snapshot::Snapshot;

use crate::audit::{self, Statistics, Verification};
use crate::compact::{self, Compaction, KeptFor};
use crate::encode::EncodingReport;
use crate::engine::{Engine, EngineError, LostCommits};
use crate::error::Error;
use crate::log::{Log, state};
use crate::read::namespaces::{self, StoredNamespace};
use crate::retention::{self, Expiring, Sweeper};
use crate::salvage::Salvaged;
use crate::time::Time;
use crate::versions::Versions;
use crate::write::feed::Finish;
use crate::write::request::{Changes, Command, Durability, LogCommand, Outcome};
use crate::write::{oplog, truncate};

/// How often a caller that waits for the encoder is told how far it has come.
const LOOK: Duration = Duration::from_millis(100);

/// Records under keys, in namespaces.
///
/// Any number of threads read and write. A read sees the state that was committed when it began,
/// and waits for no other thread. One thread makes all changes, and commits those that arrive
/// during a commit together. The store closes when it, its namespaces and its snapshots are
/// dropped.
///
/// ```
/// use ibid_record::{Options, Store, Versions};
/// # let folder = tempfile::tempdir()?;
/// let store = Store::open(folder.path().join("wiki"), Options::default())?;
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
    pub(crate) shared: Arc<Shared>,
}

impl Store {
    /// Opens the store in a folder. Makes the store, and the folder, if there is none. Only one
    /// process at a time can have a store open, and any number can read it meanwhile:
    /// [`Options::read_only`].
    ///
    /// # Errors
    /// [`Error::NotAStore`] if something else is in the folder, or nothing and it is to be read only;
    /// [`Error::OtherEngine`]; [`Error::Encrypted`]; [`Error::Engine`] if another process has the store open, the
    /// engine's file is damaged, or the disk fails; [`Error::Damaged`].
    ///
    /// ```
    /// use ibid_record::{Error, Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("wiki");
    /// let pages = Store::open(&path, Options::default())?.namespace("pages", Versions::Kept)?;
    /// pages.insert(b"ibid", b"in the same place")?;
    ///
    /// let reader = Store::open(&path, Options::default().with_read_only(true))?;
    /// let read = reader.find_namespace("pages")?.expect("it was made before");
    /// assert_eq!(read.get(b"ibid")?.as_deref(), Some(&b"in the same place"[..]));
    /// assert!(matches!(read.delete(b"ibid"), Err(Error::ReadOnly)));
    ///
    /// pages.update(b"ibid", b"in the very same place")?;
    /// assert!(reader.refresh()?);
    /// assert_eq!(read.get(b"ibid")?.as_deref(), Some(&b"in the very same place"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let path = path.as_ref();
        let engine = folder::open(path, options, None)?;
        Store::with_engine(path, engine, options)
    }

    /// Opens the encrypted store in a folder with its password, or makes one. The tables are
    /// encrypted as a repository is, with a key in the file `key`, which the password opens.
    /// [`Sealed`](crate::engine::Sealed) says what can be seen without it. If you lose the password
    /// or that file, nothing can be read again.
    ///
    /// `cost` is the cost of guessing the password of a new store, and of opening it: about 30 ms by
    /// default.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`Error::Key`] for a wrong password; [`Error::NotEncrypted`].
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
    pub fn open_encrypted(
        path: impl AsRef<Path>,
        options: Options,
        password: &[u8],
        cost: Argon2Cost,
    ) -> Result<Self, Error> {
        let path = path.as_ref();
        let engine = folder::open(path, options, Some((password, cost)))?;
        Store::with_engine(path, engine, options)
    }

    /// Makes a store open again whose log of commits is damaged or missing: gives up the commits that it has lost.
    /// What was committed before them stays. The password of an encrypted store is not needed.
    ///
    /// # Errors
    /// [`Error::NotAStore`]; [`Error::Engine`] if the store is open, or damaged in another way.
    ///
    /// ```
    /// use ibid_record::engine::LostCommits;
    /// use ibid_record::{Options, Store};
    /// # let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("wiki");
    /// drop(Store::open(&path, Options::default())?);
    /// assert_eq!(Store::repair(&path)?, LostCommits::None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn repair(path: impl AsRef<Path>) -> Result<LostCommits, Error> {
        folder::repair(path.as_ref())
    }

    /// Makes a new store in the folder `into` with everything that can be read of the damaged one in the folder `from`,
    /// which stays as it is. `into` is not there yet, or empty. Calls `progress` with the number of bytes read since
    /// its last call; it may stop the work, and then there is no new store.
    ///
    /// A version that can't be read is in the new store as one that was purged. If it was the latest, the key is
    /// deleted, so that no earlier version is taken for it. Keys and their versions, times, settings and indexes are as
    /// before, numbers of records are not. The new store is no replica, and has no log: with
    /// [`Options::oplog`] it begins one when it is opened, and replicas take everything anew.
    ///
    /// If redb's file is lost, everything comes from its segments: see [`Salvaged::of_segments`].
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`open_encrypted`](Self::open_encrypted), with the password of the damaged store,
    /// which is that of the new one, too. [`Error::NotEmpty`] if something is in `into`, or in a folder beside it of
    /// the same name with `.salvage` or `.found` behind it, in which it is made. [`Error::BodyTooLong`].
    ///
    /// ```
    /// use ibid_record::{Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let (damaged, new) = (folder.path().join("damaged"), folder.path().join("new"));
    /// let pages = Store::open(&damaged, Options::default())?.namespace("pages", Versions::Kept)?;
    /// pages.put(b"ibid", b"in the same place")?;
    /// drop(pages);
    ///
    /// let mut progress = |_| std::ops::ControlFlow::Continue(());
    /// let found = Store::salvage(&damaged, &new, Options::default(), None, &mut progress)?;
    /// assert_eq!((found.versions, found.losses_total), (1, 0));
    /// let pages = Store::open(&new, Options::default())?.namespace("pages", Versions::Kept)?;
    /// assert_eq!(pages.get(b"ibid")?.as_deref(), Some(&b"in the same place"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn salvage(
        from: impl AsRef<Path>,
        into: impl AsRef<Path>,
        options: Options,
        password: Option<(&[u8], Argon2Cost)>,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Salvaged, Error> {
        folder::salvage(from.as_ref(), into.as_ref(), options, password, progress)
    }

    /// Returns whether there is an encrypted store in a folder.
    ///
    /// # Errors
    /// [`Error::Engine`] if the folder cannot be read.
    pub fn is_encrypted(path: impl AsRef<Path>) -> Result<bool, Error> {
        folder::is_encrypted(path.as_ref())
    }

    /// Opens the store in an engine of your own, or makes one if the engine is empty. `path` is for
    /// error messages. The engine settings in `options` are ignored.
    ///
    /// # Errors
    /// [`Error::NotAStore`] if something else is in the engine; [`Error::Damaged`];
    /// [`Error::Engine`].
    pub fn with_engine(path: &Path, engine: Box<dyn Engine>, options: Options) -> Result<Self, Error> {
        let shared = Arc::new(Shared::open(path, engine, options)?);
        Ok(Store { shared })
    }

    /// Returns the namespace of this name, 1 to 255 bytes; makes it if there is none.
    ///
    /// # Errors
    /// [`Error::NamespaceDiffers`] if it was made with other `versions`; [`Error::OutOfRange`] for
    /// its name.
    pub fn namespace(&self, name: &str, versions: Versions) -> Result<Namespace, Error> {
        pieces::check_name(name)?;
        let name: Arc<str> = name.into();
        let namespace = |number| Namespace::new(self.shared.clone(), name.clone(), number, versions);
        // An engine has no empty keys. The writer refuses the name.
        if !name.is_empty()
            && let Some(number) = namespaces::number(&*self.shared.complete_snapshot()?.0, &name, versions)?
        {
            return Ok(namespace(number));
        }
        // Always synced, so that none of its records can be on disk before it.
        let command = Command::Namespace(name.clone(), versions);
        match self.shared.ask(command, Durability::Sync)? {
            Outcome::Namespace(number) => Ok(namespace(number)),
            Outcome::Written(_) | Outcome::Index(_) | Outcome::Fenced(_) | Outcome::Done => {
                unreachable!("the outcome is of the kind that was asked for")
            }
        }
    }

    /// Returns the namespace of this name if there is one, with the versions that it was made with.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Engine`].
    pub fn find_namespace(&self, name: &str) -> Result<Option<Namespace>, Error> {
        // An engine has no empty keys.
        if name.is_empty() || pieces::check_name(name).is_err() {
            return Ok(None);
        }
        let found = namespaces::find(&*self.shared.complete_snapshot()?.0, name)?;
        let namespace = |found: StoredNamespace| {
            Namespace::new(self.shared.clone(), found.name.into(), found.number, found.versions)
        };
        Ok(found.map(namespace))
    }

    /// Returns the names of all namespaces, and which versions they keep, in the order in which they
    /// were made.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Engine`].
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
    pub fn namespaces(&self) -> Result<Vec<(String, Versions)>, Error> {
        let all = namespaces::all(&*self.shared.engine.snapshot()?)?.into_values();
        let all = all.filter(|found| pieces::check_name(&found.name).is_ok());
        Ok(all.map(|found| (found.name, found.versions)).collect())
    }

    /// Makes all changes of a batch if all its conditions hold, or else none, and returns when they
    /// have the durability of the store's options. Returns for each change the number of the record
    /// that it wrote; [`None`] for a change that only removes.
    ///
    /// # Errors
    /// [`Error::ConditionFailed`], [`Error::VersionsNotKept`], [`Error::KeyExists`],
    /// [`Error::NoSuchKey`], [`Error::ValueTaken`], [`Error::OutOfRange`], [`Error::ForeignNamespace`],
    /// [`Error::ForeignIndex`] and [`Error::Damaged`], after which nothing was changed. After [`Error::Engine`] and
    /// [`Error::WriterEnded`] the store must be opened again to see whether it was.
    pub fn commit(&self, batch: Batch) -> Result<Vec<Option<u64>>, Error> {
        self.commit_with(batch, self.shared.durability)
    }

    /// Does what [`commit`](Self::commit) does, with this durability.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_with(&self, batch: Batch, durability: Durability) -> Result<Vec<Option<u64>>, Error> {
        let (changes, _held) = batch.into_changes(&self.shared)?;
        self.shared.commit(changes, durability)
    }

    /// Commits a batch whose changes have no times but their own.
    pub(crate) fn commit_undated(&self, batch: Batch) -> Result<(), Error> {
        let (changes, _held) = batch.into_changes(&self.shared)?;
        let changes = Changes {
            undated: true,
            ..changes
        };
        self.shared.commit(changes, Durability::None).map(drop)
    }

    /// Returns what stores a body of any length piece by piece, before a [`Batch`] gives it a key.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    pub fn body_writer(&self) -> Result<BodyWriter, Error> {
        BodyWriter::new(self.shared.clone())
    }

    /// Returns when every change that has returned before is on disk.
    ///
    /// # Errors
    /// [`Error::Engine`] and [`Error::WriterEnded`], after which the store must be opened again to
    /// see what is on disk.
    pub fn sync(&self) -> Result<(), Error> {
        self.shared.ask(Command::Sync, Durability::Sync).map(drop)
    }

    /// Returns when everything committed before this call is encoded, where encoding pays. The
    /// deltas are on disk within a second, or with the next [`sync`](Self::sync). A replica encodes
    /// nothing itself.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Damaged`], [`Error::Engine`], [`Error::WriterEnded`]. All stored records can still
    /// be read.
    pub fn finish_encoding(&self) -> Result<(), Error> {
        self.encode_waiting(false, &mut |_| ControlFlow::Continue(())).map(drop)
    }

    /// Does what [`finish_encoding`](Self::finish_encoding) does, unless that costs much for little, or takes long: the
    /// encoder of a large store reads first what all keys are like, and less than 64 records with less than 4 MiB do
    /// not wait for that; and where an earlier opening was killed, and has left many, it encodes some of them, for
    /// about a second. A later opening goes on. For a program that writes a record and ends.
    ///
    /// # Errors
    /// As [`finish_encoding`](Self::finish_encoding).
    ///
    /// ```
    /// use ibid_record::{Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// store.namespace("pages", Versions::Kept)?.put(b"ibid", b"in the same place")?;
    /// store.finish_or_leave_encoding()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn finish_or_leave_encoding(&self) -> Result<(), Error> {
        self.encode_waiting(true, &mut |_| ControlFlow::Continue(())).map(drop)
    }

    /// Calls `progress` several times a second with the number of bytes of bodies that were encoded since its last
    /// call, and waits no longer if it breaks.
    fn encode_waiting(
        &self,
        leaves_some: bool,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Error> {
        let writer = self.shared.writer()?;
        let Some(feed) = &self.shared.feed else {
            return Ok(ControlFlow::Continue(()));
        };
        // It may have become a replica since it was opened.
        if state::check_primary(state::read(&*self.shared.engine.snapshot()?)?.as_ref()).is_err() {
            return Ok(ControlFlow::Continue(()));
        }
        let (told, answer) = sync_channel(1);
        let mut told_of = self.shared.tally.report().bytes;
        feed.finish(Finish { told, leaves_some });
        loop {
            let answered = answer.recv_timeout(LOOK);
            let encoded = self.shared.tally.report().bytes;
            let goes_on = progress(encoded - std::mem::replace(&mut told_of, encoded));
            match answered {
                Ok(done) => return done.map(|()| goes_on),
                Err(RecvTimeoutError::Disconnected) => return Err(writer.failure()),
                Err(RecvTimeoutError::Timeout) if goes_on.is_break() => return Ok(goes_on),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Returns what the encoder has done since the store was opened.
    pub fn encoding(&self) -> EncodingReport {
        let waiting_bytes = match self.shared.feed {
            Some(_) => self.shared.activity.unexamined(),
            None => 0,
        };
        EncodingReport {
            waiting_bytes,
            ..self.shared.tally.report()
        }
    }

    /// Makes a store that was opened [read only](Options::read_only) show what was synced until now. Returns whether
    /// there is anything new. Another store always shows everything that was committed.
    ///
    /// A snapshot that is there stays as it was. Reading from it may fail with
    /// [`EngineError::Outdated`](crate::engine::EngineError::Outdated) if another process opened the store for writing
    /// since.
    ///
    /// # Errors
    /// As [`open`](Self::open). The store shows what it showed before then.
    pub fn refresh(&self) -> Result<bool, Error> {
        self.shared.refresh()
    }

    /// Returns a snapshot of everything that is committed now.
    ///
    /// # Errors
    /// [`Error::Incomplete`] in a replica that is receiving all contents; [`Error::Engine`].
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        Snapshot::new(&self.shared)
    }

    /// Checks everything that is committed now, and reports all damage. Calls `progress` with the
    /// number of bytes checked since its last call; it may stop the check.
    ///
    /// Every record is read three times: where it is stored, from its key, and by number. Other
    /// threads may read and write meanwhile; their changes are not checked.
    ///
    /// # Errors
    /// [`Error::Engine`] if the disk fails; [`Error::BodyTooLong`]. Damage is no error here: it is in the report.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use ibid_record::{Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// store.namespace("pages", Versions::Kept)?.insert(b"ibid", b"in the same place")?;
    /// let found = store.verify(&mut |_bytes| ControlFlow::Continue(()))?;
    /// assert!(found.is_clean());
    /// assert_eq!((found.namespaces[0].keys, found.namespaces[0].body_bytes), (1, 17));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify(&self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<Verification, Error> {
        let (snapshot, _) = self.shared.complete_snapshot()?;
        let mut found = audit::verify(&*snapshot, self.shared.records.body_bytes_max(), progress)?;
        match self.shared.engine.verify() {
            Err(EngineError::Damaged { found: why, .. }) => found.add_of_engine(why),
            verified => verified?,
        }
        Ok(found)
    }

    /// Counts everything that is committed now. Calls `progress` with the number of bytes read
    /// since its last call; it may stop the count.
    ///
    /// Every record is read once, and not decoded. Other threads may read and write meanwhile;
    /// their changes are not counted.
    ///
    /// # Errors
    /// [`Error::Engine`] if the disk fails.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use ibid_record::{Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let pages = store.namespace("pages", Versions::Kept)?;
    /// pages.put(b"ibid", "in the same place ".repeat(50).as_bytes())?;
    /// pages.put(b"ibid", "in the very same place ".repeat(50).as_bytes())?;
    /// store.finish_encoding()?;
    /// let found = store.statistics(&mut |_bytes| ControlFlow::Continue(()))?;
    /// let pages = &found.namespaces[0];
    /// assert_eq!((pages.keys, pages.records.count, pages.records.bytes), (1, 2, 2050));
    /// assert_eq!((pages.deltas.count, pages.retrievals.max(), pages.latest_retrievals.max()), (1, 1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn statistics(&self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<Statistics, Error> {
        let (snapshot, _) = self.shared.complete_snapshot()?;
        let encoding = self.encoding();
        let counted = audit::count(&*snapshot, &self.shared.records, progress)?;
        Ok(Statistics { encoding, ..counted })
    }

    /// Does at once what the store does by itself when nothing is written for a while, and returns when it is done:
    /// encodes records, compresses them together, and gives unused space back, as far as it is worth it, also of redb's
    /// file where that has grown by a quarter and more, for which reads and writes have to wait. A program that
    /// ends after it has written much calls this before. Calls `progress` with the number of bytes of bodies encoded,
    /// and then of records compressed, since its last call; it may stop the work, which the store then does by itself,
    /// also when it is opened next.
    ///
    /// # Errors
    /// [`Error::Incomplete`] in a replica that is receiving all contents; [`Error::Engine`],
    /// [`Error::WriterEnded`], [`Error::Damaged`]. All records can still be read.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use ibid_record::{Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let pages = store.namespace("pages", Versions::Kept)?;
    /// for version in 0..1000 {
    ///     pages.put(b"ibid", format!("{} {version}", "in the same place ".repeat(50)).as_bytes())?;
    /// }
    /// store.settle(&mut |_bytes| ControlFlow::Continue(()))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn settle(&self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<(), Error> {
        self.shared.complete_snapshot()?;
        if self.encode_waiting(false, progress)?.is_break() {
            return Ok(());
        }
        let writer = self.shared.writer()?.clone();
        if self
            .shared
            .keeper(writer, KeptFor::Caller)
            .settle(progress)?
            .is_continue()
        {
            // The keeper in the background has no snapshot meanwhile.
            let _alone = self.shared.block_numbers.lock();
            self.shared.engine.shrink()?;
        }
        Ok(())
    }

    /// Encodes all records that are not encoded yet, compresses all records together with others,
    /// and returns unused disk space. Calls `progress` with the number of bytes of bodies encoded, and then of records
    /// compressed, since its last call; it may stop the work. Other threads may read and write
    /// meanwhile; their changes are not compressed.
    ///
    /// # Errors
    /// [`Error::Incomplete`] in a replica that is receiving all contents; [`Error::Engine`],
    /// [`Error::WriterEnded`], [`Error::Damaged`], [`Error::BodyTooLong`]. Records that were compressed before the
    /// error stay compressed, and nothing is lost.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use ibid_record::{Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let pages = store.namespace("pages", Versions::Kept)?;
    /// for version in 0..100 {
    ///     pages.put(b"ibid", format!("{} {version}", "in the same place ".repeat(50)).as_bytes())?;
    /// }
    /// let done = store.compact(&mut |_bytes| ControlFlow::Continue(()))?;
    /// assert!(done.records == 100 && done.bytes_after < 3000);
    /// assert!(pages.get_version(b"ibid", 1)?.unwrap().ends_with(b"place  0"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compact(&self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<Compaction, Error> {
        let shared = &*self.shared;
        shared.complete_snapshot()?;
        shared.drafts.remove_abandoned(&*shared.engine, shared.writer()?)?;
        if self.encode_waiting(false, progress)?.is_break() {
            return Ok(Compaction::default());
        }
        let (engine, numbers) = (&*shared.engine, &shared.block_numbers);
        let how = (shared.interval, shared.compacting.window_bytes);
        let _hurried = shared.activity.hurry();
        compact::compact(engine, &shared.records, numbers, shared.writer()?, how, progress)
    }

    /// Removes what namespaces no longer keep at a time, in small commits. Shows each key to `each`
    /// before, which may stop the work. The store does the same in the background; with a
    /// time before that of the system's clock, this removes less, and with a later one more.
    ///
    /// # Errors
    /// [`Error::Incomplete`], [`Error::IsReplica`] and the other errors of a change. What was removed before
    /// the error is removed.
    pub fn expire(&self, at: Time, each: &mut dyn FnMut(Expiring) -> ControlFlow<()>) -> Result<(), Error> {
        let log = state::read(&*self.shared.complete_snapshot()?.0)?;
        state::check_primary(log.as_ref())?;
        let shared = &self.shared;
        Sweeper::new(shared.engine.clone(), shared.writer()?.clone(), shared.drafts.clone()).sweep(at, each)
    }

    /// Shows what [`expire`](Self::expire) would remove at a time to `each`, until it breaks.
    ///
    /// # Errors
    /// [`Error::Incomplete`], [`Error::Damaged`], [`Error::Engine`].
    pub fn expiring(&self, at: Time, each: &mut dyn FnMut(Expiring) -> ControlFlow<()>) -> Result<(), Error> {
        retention::each_expiring(&*self.shared.complete_snapshot()?.0, at, each)
    }

    /// Returns the last time that the store knows of: up to which what is no longer kept was removed, or,
    /// if nothing ever was, the last of a version in a namespace that does not keep everything. A clock
    /// that shows a much later one may be wrong.
    ///
    /// # Errors
    /// As [`expiring`](Self::expiring).
    pub fn last_known_time(&self) -> Result<Option<Time>, Error> {
        retention::last_known(&*self.shared.complete_snapshot()?.0)
    }

    /// Returns the state of the store's log; [`None`] if it has none.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Engine`].
    pub fn log(&self) -> Result<Option<Log>, Error> {
        let state = state::read(&*self.shared.engine.snapshot()?)?;
        Ok(state.map(Log::from))
    }

    /// Removes the entries of the log before the position `first`, and the records that were kept
    /// only for them. A replica that needs these entries takes all contents instead.
    ///
    /// # Errors
    /// [`Error::NoLog`]; [`Error::IsReplica`] and the other errors of a change.
    pub fn truncate_log(&self, first: u64) -> Result<(), Error> {
        let log = self.log()?.ok_or(Error::NoLog)?;
        // Each removal appends an entry, which stays.
        let last = first.min(log.next);
        let mut from = log.first;
        while from < last {
            from = last.min(from.saturating_add(truncate::ENTRIES_AT_ONCE));
            let command = LogCommand::Truncate { first: from };
            self.shared.ask(Command::Log(command), self.shared.durability)?;
        }
        Ok(())
    }

    /// Makes the store a replica, if it is empty or has a log. From then on it changes only as its
    /// primary does, until it is [promoted](Self::promote).
    ///
    /// # Errors
    /// [`Error::NoLog`] if it has records that are in no log.
    pub fn follow(&self) -> Result<(), Error> {
        let command = Command::Log(LogCommand::Follow);
        self.shared.ask(command, Durability::Sync).map(drop)
    }

    /// Makes a replica the primary of a new epoch. Stores that hear of the new epoch no longer
    /// follow an earlier primary. The store encodes new records once it is opened again.
    ///
    /// [`take_over`](crate::replicate::take_over) ends the writing of the old primary before.
    ///
    /// # Errors
    /// [`Error::NoLog`] if it is no replica; [`Error::Incomplete`] if it has received nothing yet, or
    /// only a part; [`Error::Fenced`].
    pub fn promote(&self) -> Result<(), Error> {
        self.promote_with(None)
    }

    /// Makes a replica, or a fenced store, the primary of the epoch of this number. A fenced store
    /// becomes the primary again if the epoch is later than the one for which it was fenced. So it
    /// can take back its place from a store that was lost.
    ///
    /// # Errors
    /// As [`promote`](Self::promote); [`Error::OutOfRange`] if the epoch is not later than the
    /// store's own.
    pub fn promote_to(&self, epoch: u64) -> Result<(), Error> {
        self.promote_with(Some(epoch))
    }

    fn promote_with(&self, number: Option<u64>) -> Result<(), Error> {
        let id = oplog::random()?;
        let command = Command::Log(LogCommand::Promote { number, id });
        self.shared.ask(command, Durability::Sync).map(drop)
    }
}
