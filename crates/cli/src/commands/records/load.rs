//! `ibid records load`.
//!
//! One thread reads lines and groups them into batches; another commits the batches in order. So
//! whenever loading ends, the store has the records of all lines up to some line.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use ibid_format::record::{BODY_BYTES_MAX, KEY_BYTES_MAX};
use ibid_record::{Batch, Durability, Error, Namespace, Store};
use ibid_repo::Monitor;
use ibid_terminal::number::{counted, size};
use ibid_terminal::{Fields, Line, LineRecord, Lines, escape};

use super::compact::{self, left_by};
use super::indexes::{self, FieldIndexes};
use super::unique::{self, FirstKeys};
use super::{open_or_make, place, size_on_disk, stepping};
use crate::allocator;
use crate::args::{DurabilityName, LoadArgs, NAMESPACE, value};
use crate::commands::open::Context;
use crate::commands::watch::{PROBLEMS_MAX, Watch};
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, BadLine, Loaded};

/// Maximum number of records in a batch. It is one commit: whoever opens the store after a crash repeats all of it.
const BATCH_RECORDS: usize = 1024;
/// Maximum bytes of keys and bodies in a batch, beyond its first record; also at most a sixteenth
/// of the memory.
const BATCH_BYTES: u64 = 8 << 20;
/// About how many bytes a change takes beside its key and body.
const CHANGE_BYTES: usize = 200;
/// A batch is long if it has more than so many times the bytes of others, because of its last record.
const LONG_BATCHES: usize = 2;
/// What an interruption leaves once all lines are stored.
const LEFT: &str = "some take more space than they will once a later command has encoded them";
/// How long a record waits for others before it is committed, and, with `--durability batched`, how
/// long committed records wait to be synced.
const DELAY: Duration = Duration::from_secs(1);

pub(crate) fn run(context: &mut Context, args: &LoadArgs) -> Result<Outcome> {
    let mut watch = Watch::start_records(context.global.quiet)?;
    let monitor = watch.monitor.clone();
    // Check before creating a store for a file that does not exist.
    let memory = context.global.memory;
    let lines = Lines::open(&args.file, memory, watch.advance());
    if monitor.is_cancelled() {
        return Err(Failure::Interrupted("nothing was stored".into()));
    }
    let mut lines = lines?;
    watch.expect(lines.file_bytes);
    let (store, namespace) = open_or_make(context, &args.place, &args.new, None)?;
    let indexes = FieldIndexes::open(&namespace, &args.index, &args.unique_index)?;
    let has_indexes = args.index.is_empty() && args.unique_index.is_empty() && !namespace.indexes()?.is_empty();
    if has_indexes {
        print::not_indexed(namespace.name());
    }
    allocator::loaded_up_to(0);
    let started = Instant::now();
    let mut loader = Loader {
        namespace: &namespace,
        monitor: &monitor,
        fields: if args.scanned {
            Fields::Scanned
        } else {
            let (key, body, time) = (args.key.clone(), args.body.clone(), args.time.clone());
            Fields::Named { key, body, time }
        },
        indexes,
        strict: args.strict,
        batch_bytes: BATCH_BYTES.min(memory / 16) as usize,
        pending: Pending::default(),
        bad: Vec::new(),
        bad_total: 0,
        first_keys: FirstKeys::default(),
    };
    let (ended, done) = loader.transfer(&mut lines, &store, args.durability)?;
    ended.into_result(args, done, namespace.name())?;
    let Loader {
        bad,
        bad_total,
        first_keys,
        ..
    } = loader;
    let name = namespace.name().to_owned();
    // All lines are stored, whatever fails from here on.
    let stored = done.stored(&name);
    let failed = |cause: Failure| cause.after(stored.clone());
    // What works in the background ends with the program.
    watch.go_on_encoding(store.encoding().waiting_bytes, context.global.quiet);
    store
        .settle(&mut stepping(&monitor))
        .map_err(|error| failed(error.into()))?;
    let duration_ms = started.elapsed().as_millis() as u64;
    if monitor.is_cancelled() {
        return Err(Failure::Interrupted(format!("{stored}; {LEFT}").into()));
    }
    let unique_keys = first_keys
        .are_unique(&namespace)
        .map_err(|error| failed(error.into()))?;
    let latest = namespace.latest_as().map_err(|error| failed(error.into()))?;
    drop(namespace);
    let compacted = if args.compact {
        let path = place(&args.place.store)?;
        watch.go_on_records(context.global.quiet);
        let work = compact::Work::begin(size_on_disk(path).map_err(failed)?);
        let compacted = work.carry_out(store, path, &watch).map_err(failed)?;
        if monitor.is_cancelled() {
            let left = format!("{stored}; {}", left_by(&compacted));
            return Err(Failure::Interrupted(left.into()));
        }
        Some(compacted)
    } else {
        None
    };
    watch.finish();
    let loaded = Loaded {
        namespace: &name,
        records: done.synced.records,
        bytes: done.synced.bytes,
        lines: lines.number,
        bad: &bad,
        bad_total,
        duration_ms,
        unique_keys,
        compacted,
    };
    print::records_load(&mut context.out, &loaded)?;
    if unique_keys && unique::are_kept_apart(latest) {
        print::unique_keys(&name, latest);
    }
    Ok(if bad_total > 0 { Outcome::Partial } else { Outcome::Done })
}

/// Reason why no more lines were read.
enum Ended {
    AtTheEnd,
    Stopped,
    Unreadable(std::io::Error),
    Failed(Failure),
    BadLine(BadLine),
}

impl Ended {
    /// Returns why the load failed, with what it stored until then, unless it reached the end.
    fn into_result(self, args: &LoadArgs, done: Done, namespace: &str) -> Result<()> {
        let stored = done.stored(namespace);
        match self {
            Ended::AtTheEnd => Ok(()),
            Ended::Stopped => Err(Failure::Interrupted(stored.into())),
            Ended::Unreadable(source) => Err(Failure::local("read", &args.file, source).after(stored)),
            // Of other lines something may be stored, so it is not that nothing was changed.
            Ended::Failed(Failure::Records(error @ Error::ValueTaken { .. })) => {
                Err(Failure::Fatal(format!("{error}; {stored}")))
            }
            Ended::Failed(cause) => Err(cause.after(stored)),
            Ended::BadLine(BadLine { line, problem }) => {
                Err(Failure::Fatal(format!("line {line}: {problem}; {stored}")))
            }
        }
    }
}

/// The next batch to commit, with totals of everything committed.
#[derive(Default)]
struct Pending {
    batch: Batch,
    /// When its first record was added.
    since: Option<Instant>,
    /// Bytes of its keys and bodies.
    bytes_held: usize,
    amount: Amount,
    /// Is dropped when a long record was committed and encoded.
    done: Option<SyncSender<()>>,
}

impl Pending {
    /// Returns whether to commit the batch: it is large enough, or its first record has waited long
    /// enough.
    fn is_due(&self, bytes_max: usize) -> bool {
        let has_waited = self.since.is_some_and(|since| since.elapsed() >= DELAY);
        has_waited || self.batch.len() >= BATCH_RECORDS || self.bytes_held >= bytes_max
    }
}

/// A part of the input.
#[derive(Clone, Copy, Default)]
struct Amount {
    records: u64,
    /// Bytes of bodies.
    bytes: u64,
    /// Number of the last line with a record.
    line: u64,
}

/// How far a load came.
#[derive(Clone, Copy, Default)]
struct Done {
    /// What is on disk for certain.
    synced: Amount,
    /// What readers saw.
    committed: Amount,
    /// The last line that was to be committed.
    tried: u64,
    /// Whether no more is stored than what is on disk for certain.
    is_certain: bool,
}

impl Done {
    /// Says how much of the input is stored.
    fn stored(self, namespace: &str) -> String {
        let Amount { records, line, .. } = self.synced;
        let certain = match records {
            0 => "nothing was stored".to_owned(),
            records => {
                let records = counted(records, "record is", "records are");
                format!("{records} stored, up to line {line}")
            }
        };
        if self.is_certain || self.tried <= line {
            return certain;
        }
        let perhaps = match records {
            0 => format!(
                "perhaps nothing was stored, perhaps the records up to line {}",
                self.tried
            ),
            _ => format!("{certain}, and perhaps those up to line {}", self.tried),
        };
        let namespace = match namespace {
            NAMESPACE => String::new(),
            other => format!(" --namespace {}", escape(other.as_bytes())),
        };
        format!(
            "{perhaps}. Once the store opens again, the last key of `ibid records scan --in-order --keys-only\
             {namespace}` is that of the last line that is stored"
        )
    }
}

struct Loader<'l> {
    namespace: &'l Namespace,
    monitor: &'l Monitor,
    fields: Fields,
    indexes: FieldIndexes,
    strict: bool,
    batch_bytes: usize,
    pending: Pending,
    /// Bad lines to list in JSON.
    bad: Vec<BadLine>,
    bad_total: u64,
    first_keys: FirstKeys,
}

impl Loader<'_> {
    /// Loads all lines, unless an error or the user stops it.
    fn transfer(&mut self, lines: &mut Lines, store: &Store, durability: DurabilityName) -> Result<(Ended, Done)> {
        let monitor = self.monitor;
        std::thread::scope(|scope| {
            let (batches, received) = sync_channel(1);
            let committer = std::thread::Builder::new();
            let work = Committer {
                store,
                durability,
                monitor,
                done: Done::default(),
                unsynced_since: None,
            };
            let committer = committer.spawn_scoped(scope, move || work.run(received));
            let committer = committer.map_err(|source| ibid_repo::Error::Threads { source })?;
            let ended = self.load(lines, batches);
            let worked = committer.join();
            let (done, failed) = worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((
                failed.map_or_else(|error| Ended::Failed(error.into()), |()| ended),
                done,
            ))
        })
    }

    /// Passes on all lines. However it ends, all earlier lines are passed on.
    fn load(&mut self, lines: &mut Lines, batches: SyncSender<Pending>) -> Ended {
        loop {
            if self.monitor.is_cancelled() {
                self.hand_over(&batches);
                return Ended::Stopped;
            }
            if self.pending.is_due(self.batch_bytes) && !self.hand_over(&batches) {
                // The other thread failed, and reports why.
                return Ended::Stopped;
            }
            let line = match lines.next() {
                Ok(Some(line)) => line,
                // The process that writes our input may have received the same signal.
                Ok(None) | Err(_) if self.monitor.is_cancelled() => continue,
                Ok(None) => {
                    self.hand_over(&batches);
                    return Ended::AtTheEnd;
                }
                Err(error) => {
                    self.hand_over(&batches);
                    return Ended::Unreadable(error);
                }
            };
            let taken = match line {
                Line::Whole(line) => self.take(line),
                Line::Waiting => Ok(false),
                Line::TooLong { bytes_max } => Err(format!(
                    "expected at most {} in a line, found more. The limit is an eighth of --memory",
                    size(bytes_max as u64)
                )),
            };
            match taken {
                Ok(true) => {
                    self.pending.amount.line = lines.number;
                    lines.release();
                }
                Ok(false) => {}
                Err(problem) => {
                    let bad = BadLine {
                        line: lines.number,
                        problem,
                    };
                    if self.strict {
                        self.hand_over(&batches);
                        return Ended::BadLine(bad);
                    }
                    self.name(bad);
                }
            }
        }
    }

    fn name(&mut self, bad: BadLine) {
        print::bad_line(&bad);
        self.bad_total += 1;
        if self.bad.len() < PROBLEMS_MAX {
            self.bad.push(bad);
        }
    }

    /// Adds the record of a line. An empty line has none.
    fn take(&mut self, line: &[u8]) -> Result<bool, String> {
        if line.trim_ascii().is_empty() {
            return Ok(false);
        }
        let LineRecord { key, body, time } = self.fields.record(line)?;
        let time = time.as_deref().map(value::record_time_in_json).transpose()?;
        // The store would refuse the whole batch.
        within("the key", key.len(), KEY_BYTES_MAX)?;
        within("the body", body.len(), BODY_BYTES_MAX)?;
        let values = self.indexes.values(line)?;
        let Pending {
            batch,
            since,
            bytes_held,
            amount,
            ..
        } = &mut self.pending;
        *bytes_held +=
            CHANGE_BYTES + key.len() + body.len() + values.iter().map(|(_, value)| value.len()).sum::<usize>();
        amount.records += 1;
        amount.bytes += body.len() as u64;
        batch.put(self.namespace, &key, body);
        if let Some(time) = time {
            batch.at(time);
        }
        indexes::add(batch, &values);
        self.first_keys.note(self.namespace, &key);
        since.get_or_insert_with(Instant::now);
        Ok(true)
    }

    /// Sends the batch; returns whether the other thread still takes batches. Waits until a long record is done, so
    /// that there is memory for the next one.
    fn hand_over(&mut self, batches: &SyncSender<Pending>) -> bool {
        let is_long = self.pending.bytes_held > LONG_BATCHES * self.batch_bytes;
        let (done, is_done) = sync_channel(1);
        let pending = Pending {
            done: is_long.then_some(done),
            ..std::mem::take(&mut self.pending)
        };
        let is_taken = batches.send(pending).is_ok();
        // It is an error, since nothing is sent; at once if there is no long record.
        let _ = is_done.recv();
        is_taken
    }
}

pub(super) fn within(what: &str, found: usize, max: usize) -> Result<(), String> {
    match found > max {
        true => Err(format!("{what}: expected at most {max} bytes, found {found}")),
        false => Ok(()),
    }
}

/// Commits batches as they arrive, and syncs when it is due and at the end.
struct Committer<'c> {
    store: &'c Store,
    durability: DurabilityName,
    monitor: &'c Monitor,
    done: Done,
    /// Since when there are commits that are not synced.
    unsynced_since: Option<Instant>,
}

impl Committer<'_> {
    /// Returns how far it came, and whether all went well.
    fn run(mut self, batches: Receiver<Pending>) -> (Done, Result<(), Error>) {
        let committed = self.commit_all(batches);
        let synced = self.sync();
        // If a batch failed and the store still works, nothing of the batch is in it.
        self.done.is_certain = synced.is_ok();
        (self.done, committed.and(synced))
    }

    fn commit_all(&mut self, batches: Receiver<Pending>) -> Result<(), Error> {
        loop {
            let due = self
                .unsynced_since
                .filter(|_| self.durability == DurabilityName::Batched);
            let received = match due {
                None => batches.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(since) => batches.recv_timeout(DELAY.saturating_sub(since.elapsed())),
            };
            match received {
                Ok(pending) => self.commit(pending, due)?,
                Err(RecvTimeoutError::Timeout) => self.sync()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn commit(&mut self, pending: Pending, due: Option<Instant>) -> Result<(), Error> {
        let Pending {
            batch, amount, done, ..
        } = pending;
        if batch.is_empty() {
            return Ok(());
        }
        let is_due = due.is_some_and(|since| since.elapsed() >= DELAY);
        let is_synced = is_due || self.durability == DurabilityName::Sync;
        self.done.tried = amount.line;
        let durability = if is_synced { Durability::Sync } else { Durability::None };
        self.store.commit_with(batch, durability)?;
        let committed = &mut self.done.committed;
        committed.records += amount.records;
        committed.bytes += amount.bytes;
        committed.line = amount.line;
        self.monitor.counters.files.store(committed.records, Relaxed);
        if is_synced {
            self.note_sync();
        } else {
            self.unsynced_since.get_or_insert_with(Instant::now);
        }
        if done.is_some() {
            self.store.finish_encoding()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.store.sync()?;
        self.note_sync();
        Ok(())
    }

    fn note_sync(&mut self) {
        self.done.synced = self.done.committed;
        allocator::loaded_up_to(self.done.synced.line);
        self.unsynced_since = None;
    }
}
