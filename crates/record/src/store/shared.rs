//! The state that a store, its namespaces and its snapshots share.

use std::borrow::Borrow;
use std::ops::Deref;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::thread::JoinHandle;

use ibid_delta::Interval;
use ibid_format::record::{BODY_BYTES_MAX, LogState};

use super::body_writer::{BodyWriter, NewBody};
use super::{Drafts, Options, folder};
use crate::compact::{Activity, BlockNumbers, Compacting, Keeper, KeptFor};
use crate::encode::{EncoderThread, Tally};
use crate::engine::{self, Engine, EngineError};
use crate::error::Error;
use crate::log::{Completeness, state};
use crate::read::records::{Generation, Records};
use crate::read::view::View;
use crate::replicate::answering::Answering;
use crate::retention::Sweeper;
use crate::write::execute::State;
use crate::write::feed::Feed;
use crate::write::handle::{WriterFailure, WriterHandle};
use crate::write::oplog;
use crate::write::request::{Changes, Command, Durability, Outcome};
use crate::write::writer::{PendingSync, Writer};

/// Requests that may wait for the writer. With more, a caller waits until it can send its own.
const QUEUE: usize = 1024;
/// Bytes of a long body that are cut at once.
const AT_ONCE: usize = 1 << 20;
/// How often a store that is only read is read anew if another process changes it each time.
const TRIES: u32 = 100;

/// An open store. Dropping it ends its threads.
pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) records: Arc<Records>,
    pub(super) tally: Arc<Tally>,
    pub(super) block_numbers: Arc<BlockNumbers>,
    pub(super) activity: Arc<Activity>,
    pub(super) compacting: Compacting,
    /// What holds the pieces of bodies that have no key yet.
    pub(super) drafts: Arc<Drafts>,
    /// Longest body that is stored in one record, bytes.
    pub(super) whole_bytes_max: usize,
    completeness: Arc<Completeness>,
    pub(crate) durability: Durability,
    /// Is taken for writing while a store that is only read is refreshed.
    refreshing: RwLock<()>,
    /// How densely records are searched for copies.
    pub(super) interval: Interval,
    /// [`None`] in a store that is only read, and while it is dropped, which ends the writer.
    writer: Option<WriterHandle>,
    writer_thread: Option<JoinHandle<()>>,
    /// [`None`] if nothing is encoded.
    pub(super) feed: Option<Arc<Feed>>,
    encoder_thread: Option<JoinHandle<()>>,
    keeper_threads: Vec<JoinHandle<()>>,
    /// What the senders share, if there are any.
    answering: Mutex<Weak<Answering>>,
    replication_bytes: usize,
    /// Dropping it ends the thread that removes what is no longer kept.
    sweeping: Option<(SyncSender<()>, JoinHandle<()>)>,
}

impl Shared {
    /// Opens the store in an engine, and starts its threads, none of them if it is only read. `path` is for messages.
    pub(super) fn open(path: &Path, engine: Box<dyn Engine>, options: Options) -> Result<Self, Error> {
        let engine: Arc<dyn Engine> = Arc::from(engine);
        let (next, is_of_earlier_version) = up_to_date(&*engine, || folder::begin(path, &*engine, options.read_only))?;
        let log = up_to_date(&*engine, || {
            oplog::begin(&*engine, next, options.oplog && !options.read_only)
        })?;
        let completeness = Arc::new(Completeness::of(log.as_ref()));
        // A replica stores the deltas that its primary's encoder found.
        let encodes = options.encoding.enabled && !options.read_only && state::check_primary(log.as_ref()).is_ok();
        let feed = encodes.then(|| Arc::new(Feed::new(options.encoding.source_cache_bytes)));
        let records = Arc::new(Records::new(options.frame_cache_bytes, options.body_bytes_max));
        let tally = Arc::new(Tally::default());
        let activity = Arc::new(Activity::new(next.record, options.encoding.lag_bytes_max));
        let mut shared = Shared {
            engine,
            records,
            tally,
            block_numbers: Arc::default(),
            activity,
            compacting: options.compacting,
            drafts: Arc::default(),
            whole_bytes_max: options.whole_bytes_max.min(BODY_BYTES_MAX),
            completeness,
            durability: options.durability,
            refreshing: RwLock::default(),
            interval: options.encoding.interval,
            writer: None,
            writer_thread: None,
            feed,
            encoder_thread: None,
            keeper_threads: Vec::new(),
            answering: Mutex::default(),
            replication_bytes: options.replication_bytes,
            sweeping: None,
        };
        if options.read_only {
            return Ok(shared);
        }
        let (requests, queue) = sync_channel(QUEUE);
        let failure = WriterFailure::default();
        let writer = Writer {
            engine: shared.engine.clone(),
            records: shared.records.clone(),
            requests: queue,
            feed: shared.feed.clone(),
            state: State { next, log },
            is_of_earlier_version,
            completeness: shared.completeness.clone(),
            interval: options.encoding.interval,
            log_entries_max: options.log_entries_max,
            sync: PendingSync::default(),
            activity: shared.activity.clone(),
            failure: failure.clone(),
        };
        shared.writer_thread = Some(spawn(path, "ibid-record", move || writer.run())?);
        shared.writer = Some(WriterHandle::new(requests, shared.feed.clone(), failure));
        if shared.feed.is_none() {
            shared.activity.has_no_encoder();
        }
        // If a thread can't be started, `shared` is dropped and waits for the writer: no other handle may be left then.
        if !options.compacting.enabled {
            shared.activity.has_no_keeper();
        } else {
            let keeper = shared.keeper(shared.writer()?.clone(), KeptFor::Later);
            let mut helper = shared.keeper(shared.writer()?.clone(), KeptFor::Writers);
            helper.progress = keeper.progress.clone();
            for (name, keeper) in [("ibid-compact", keeper), ("ibid-catch-up", helper)] {
                shared.keeper_threads.push(spawn(path, name, move || keeper.run())?);
            }
        }
        if let Some(interval) = options.retention_interval {
            let sweeper = Sweeper::new(shared.engine.clone(), shared.writer()?.clone(), shared.drafts.clone());
            let (ends, ended) = sync_channel(0);
            let thread = spawn(path, "ibid-retain", move || sweeper.run(interval, &ended))?;
            shared.sweeping = Some((ends, thread));
        }
        if let Some(feed) = shared.feed.clone() {
            let (engine, records) = (shared.engine.clone(), shared.records.clone());
            let (tally, activity) = (shared.tally.clone(), shared.activity.clone());
            let writer = shared.writer()?.clone();
            let encoder = EncoderThread::new(options.encoding, engine, records, writer, feed, tally, activity);
            shared.encoder_thread = Some(spawn(path, "ibid-encode", move || encoder.run())?);
        }
        Ok(shared)
    }

    /// Returns a keeper, which has done nothing yet.
    pub(super) fn keeper(&self, writer: WriterHandle, works_for: KeptFor) -> Keeper {
        Keeper {
            works_for,
            settings: self.compacting,
            engine: self.engine.clone(),
            records: self.records.clone(),
            numbers: self.block_numbers.clone(),
            writer,
            activity: self.activity.clone(),
            progress: Arc::default(),
        }
    }

    /// Returns a snapshot of the engine, unless the store has only a part of its primary's
    /// contents.
    pub(crate) fn complete_snapshot(&self) -> Result<(Box<dyn engine::Snapshot>, Generation), Error> {
        // So that the snapshot and the generation are of the same state. In another store the writer sees to that.
        let is_only_read = self.writer.is_none();
        let _refreshed = is_only_read.then(|| self.refreshing.read().unwrap_or_else(PoisonError::into_inner));
        let generation = self.completeness.generation()?;
        let snapshot = self.engine.snapshot()?;
        if self.completeness.generation()? == generation {
            Ok((snapshot, generation))
        } else {
            Err(Error::Incomplete)
        }
    }

    /// Returns what all senders of the store share.
    pub(crate) fn answering(&self) -> Arc<Answering> {
        let mut shared = self.answering.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let new = Arc::new(Answering::new(self.replication_bytes));
            *shared = Arc::downgrade(&new);
            new
        })
    }

    /// Makes a store that is only read show what was synced until now. Returns whether there is anything new.
    pub(super) fn refresh(&self) -> Result<bool, Error> {
        if self.writer.is_some() {
            return Ok(false);
        }
        let _refreshing = self.refreshing.write().unwrap_or_else(PoisonError::into_inner);
        let is_primary = |log: &Option<LogState>| state::check_primary(log.as_ref()).is_ok();
        // If what it showed is not kept any more, it may have been anything.
        let was_primary = state::read(&*self.engine.snapshot()?).is_ok_and(|log| is_primary(&log));
        let is_new = self.engine.refresh()?;
        if is_new {
            let log = up_to_date(&*self.engine, || state::read(&*self.engine.snapshot()?));
            if !was_primary || !log.as_ref().is_ok_and(is_primary) {
                // A replica may have replaced all contents, and with them what numbers mean.
                self.completeness.advance();
            }
            self.completeness.set(state::is_incomplete(log?.as_ref()));
        }
        Ok(is_new)
    }

    /// Returns a view of everything that is committed now.
    pub(super) fn view(self: &Arc<Self>) -> Result<OpenView, Error> {
        let (snapshot, generation) = self.complete_snapshot()?;
        Ok(OpenView {
            view: View::new(snapshot, generation, self.records.clone()),
            store: self.clone(),
        })
    }

    /// Commits all of `changes`, or none. Returns for each operation the number of the record that it
    /// wrote, if it wrote one. Long bodies are stored in pieces.
    pub(super) fn commit(
        self: &Arc<Self>,
        mut changes: Changes,
        durability: Durability,
    ) -> Result<Vec<Option<u64>>, Error> {
        self.writer()?;
        // What holds the pieces until their records are there.
        let mut held = Vec::new();
        for operation in &mut changes.operations {
            if operation.in_pieces || operation.body_bytes() <= self.whole_bytes_max {
                continue;
            }
            if let Some(body) = operation.change.body_mut() {
                let mut writer = BodyWriter::new(self.clone())?;
                for bytes in std::mem::take(body).chunks(AT_ONCE) {
                    writer.push(bytes)?;
                }
                let draft;
                (*body, draft) = NewBody::from(writer.finish()?).into_stored();
                operation.in_pieces = draft.is_some();
                held.extend(draft);
            }
        }
        self.commit_stored(changes, durability)
    }

    /// Does what [`commit`](Self::commit) does, with bodies as records have them.
    pub(super) fn commit_stored(&self, changes: Changes, durability: Durability) -> Result<Vec<Option<u64>>, Error> {
        self.writer()?;
        let records = changes.operations.len();
        let command = Command::Batch(changes);
        self.activity.give_way(command.changed_bytes());
        if let Some(feed) = &self.feed {
            feed.give_way(records);
        }
        match self.ask(command, durability)? {
            Outcome::Written(written) => Ok(written.into_iter().map(|written| Some(written?.number)).collect()),
            Outcome::Namespace(_) | Outcome::Index(_) | Outcome::Fenced(_) | Outcome::Done => {
                unreachable!("the outcome is of the kind that was asked for")
            }
        }
    }

    /// Sends a command to the writer, and waits for its outcome.
    pub(crate) fn ask(&self, command: Command, durability: Durability) -> Result<Outcome, Error> {
        self.writer()?.ask(command, durability)
    }

    pub(super) fn writer(&self) -> Result<&WriterHandle, Error> {
        self.writer.as_ref().ok_or(Error::ReadOnly)
    }
}

/// Reads from an engine. If it is only read, and another process has changed what is read, reads it anew.
fn up_to_date<T>(engine: &dyn Engine, read: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 0..TRIES {
        match read() {
            Err(Error::Engine(EngineError::Outdated { .. })) => engine.refresh()?,
            done => return done,
        };
    }
    read()
}

fn spawn(path: &Path, name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map_err(|error| folder::io("start a thread for", path, error))
}

impl Drop for Shared {
    fn drop(&mut self) {
        // These end before the writer, because they send commands to it.
        self.activity.end();
        for keeper in self.keeper_threads.drain(..) {
            let _ = keeper.join();
        }
        if let Some((ends, sweeper)) = self.sweeping.take() {
            drop(ends);
            let _ = sweeper.join();
        }
        if let Some(feed) = &self.feed {
            feed.end();
        }
        if let Some(encoder) = self.encoder_thread.take() {
            let _ = encoder.join();
        }
        self.writer = None;
        if let Some(writer) = self.writer_thread.take() {
            // The end of a writer that panicked has told its callers.
            let _ = writer.join();
        }
    }
}

/// A view that keeps its store open.
pub(crate) struct OpenView {
    // Declared before the store, so that it is dropped while the engine is still open.
    view: View,
    store: Arc<Shared>,
}

impl OpenView {
    pub(super) fn store(&self) -> &Arc<Shared> {
        &self.store
    }
}

impl Deref for OpenView {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl Borrow<View> for OpenView {
    fn borrow(&self) -> &View {
        &self.view
    }
}
