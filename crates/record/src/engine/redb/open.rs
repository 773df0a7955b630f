//! Opening redb's file and its log of commits, and giving up what the log has lost.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, RwLock};

use ibid_format::FileId;
use ibid_format::record::{COMMIT_LOG_ID_BYTES, CommitLogId};
use redb::{Builder, Database, DatabaseError, ReadableDatabase, StorageBackend};

use super::commit_log::{CommitLog, Found, GIVE_UP};
use super::{CACHE_BYTES_MIN, COMMITS, DONE, ENGINE, LOG, Redb, failed, unless_it_panics};
use crate::engine::{Commit, EngineError};

/// The commits that a log had, and has no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostCommits {
    /// None: nothing was given up.
    None,
    /// So many of those that were synced.
    Number(u64),
    /// Those since redb's file was synced last. Nothing says how many: the log is missing, or its header is damaged.
    Unknown,
}

/// What redb knows of the log.
struct LogState {
    id: CommitLogId,
    /// The last commit that redb has.
    done: u64,
}

impl Redb {
    /// Opens the file, or makes it. Its log is beside it, under the same name with `.log` behind it. Caches pages up
    /// to `cache_bytes`.
    ///
    /// # Errors
    /// [`EngineError::InUse`] if it is open already; [`EngineError::Damaged`] or
    /// [`EngineError::Version`] if it is not as redb writes it, or the log is missing or damaged; [`EngineError::Io`].
    pub fn open(path: &Path, cache_bytes: usize) -> Result<Self, EngineError> {
        let there = path
            .try_exists()
            .map_err(|source| EngineError::io("open", path, source))?;
        if !there {
            make(path)?;
        }
        let open = |builder: &Builder| builder.open(path);
        Redb::opened(path, cache_bytes, open, |new| Ok(Box::new(log_file(path, new)?)))
    }

    /// Opens it on storage of your own, for example of a test that simulates power failures. `path`
    /// is for messages.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(
        file: impl StorageBackend,
        log: impl StorageBackend,
        path: &Path,
        cache_bytes: usize,
    ) -> Result<Self, EngineError> {
        let open = |builder: &Builder| builder.create_with_backend(file);
        Redb::opened(path, cache_bytes, open, |_| Ok(Box::new(log)))
    }

    fn opened(
        path: &Path,
        cache_bytes: usize,
        open: impl FnOnce(&Builder) -> Result<Database, DatabaseError>,
        open_log: impl FnOnce(bool) -> io::Result<Box<dyn StorageBackend>>,
    ) -> Result<Self, EngineError> {
        let database = open_database(path, cache_bytes, open)?;
        let log_path = log_path(path);
        let state = unless_it_panics(path, || log_state(&database, path))?;
        let file = open_log(state.is_none()).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => EngineError::Damaged {
                engine: ENGINE,
                path: log_path.clone(),
                found: format!("it is missing. {GIVE_UP}"),
            },
            _ => EngineError::io("open", &log_path, source),
        })?;
        let log = match &state {
            Some(state) => CommitLog::open(file, &log_path, state.id, state.done)?,
            None => CommitLog::create(file, &log_path, new_log_id(), 0)?,
        };
        let engine = Redb::of(database, path, log);
        unless_it_panics(path, || match state {
            Some(_) => engine.repeat_commits(false).map(drop),
            None => engine.adopt_log(),
        })?;
        Ok(engine)
    }

    fn of(database: Database, path: &Path, log: CommitLog) -> Self {
        Redb {
            database: RwLock::new(Some(database)),
            path: path.to_owned(),
            log: Mutex::new(log),
            first_failure: OnceLock::new(),
        }
    }

    /// Gives up the commits that the log of the engine at `path` has lost, so that it opens again, with what was
    /// committed before them.
    ///
    /// # Errors
    /// As [`open`](Self::open), but not because of the log. Nothing was given up then.
    ///
    /// ```
    /// use ibid_record::engine::{LostCommits, Redb};
    /// # let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("redb");
    /// drop(Redb::open(&path, 1 << 20)?);
    /// assert_eq!(Redb::give_up_lost_commits(&path)?, LostCommits::None);
    /// std::fs::remove_file(folder.path().join("redb.log"))?;
    /// assert!(Redb::open(&path, 1 << 20).is_err());
    /// assert_eq!(Redb::give_up_lost_commits(&path)?, LostCommits::Unknown);
    /// Redb::open(&path, 1 << 20)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn give_up_lost_commits(path: &Path) -> Result<LostCommits, EngineError> {
        let database = open_database(path, CACHE_BYTES_MIN, |builder| builder.open(path))?;
        unless_it_panics(path, || {
            let Some(state) = log_state(&database, path)? else {
                return Ok(LostCommits::None); // it has not begun a log yet
            };
            let log_path = log_path(path);
            let file = || {
                let file = log_file(path, true).map_err(|source| EngineError::io("open", &log_path, source))?;
                Ok(Box::new(file))
            };
            let (log, is_readable) = match CommitLog::open(file()?, &log_path, state.id, state.done) {
                Ok(log) => (log, true),
                Err(EngineError::Damaged { .. }) => {
                    let log = CommitLog::create(file()?, &log_path, state.id, state.done)?;
                    (log, false)
                }
                Err(error) => return Err(error),
            };
            let engine = Redb::of(database, path, log);
            let lost = match engine.repeat_commits(true)?.lost() {
                _ if !is_readable => LostCommits::Unknown,
                0 => return Ok(LostCommits::None),
                lost => LostCommits::Number(lost),
            };
            // Under another name: what is left of the old log says nothing then.
            let log = CommitLog::create(file()?, &log_path, new_log_id(), engine.lock_log().last())?;
            *engine.lock_log() = log;
            engine.adopt_log()?;
            Ok(lost)
        })
    }

    /// Returns the length of the file, bytes; [`None`] if there is none.
    pub(super) fn length(&self) -> Result<Option<u64>, EngineError> {
        match fs::metadata(&self.path) {
            Ok(found) => Ok(Some(found.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(EngineError::io("look at", &self.path, source)),
        }
    }

    /// Makes all tables if they are not there, so that snapshots find them, and says what names the log.
    fn adopt_log(&self) -> Result<(), EngineError> {
        let log = &*self.lock_log();
        let transaction = self.begin(Commit::Synced)?;
        self.tables(&transaction)?;
        self.finish(transaction, log.last(), Some(log.id()))
    }

    /// Repeats the commits that only the log has. It is an error if some are lost, unless they are given up.
    fn repeat_commits(&self, gives_up: bool) -> Result<Found, EngineError> {
        let log = &mut *self.lock_log();
        // Without a sync, since the log still has them.
        let transaction = self.begin(Commit::Unsynced)?;
        let done = log.last();
        let found = {
            let mut tables = self.tables(&transaction)?;
            log.repeat(&mut |table, change| {
                let table = &mut tables[table as usize];
                let changed = match change.value {
                    Some(value) => table.insert(change.key, value).map(drop),
                    None => table.remove(change.key).map(drop),
                };
                changed.map_err(|error| self.failed("write to", error.into()))
            })?
        };
        if found.lost() > 0 && !gives_up {
            let lost = log.damaged(format!(
                "commits {} to {} were synced, and are damaged or missing",
                found.last + 1,
                found.synced
            ));
            return Err(log.fail(lost));
        }
        if found.last > done {
            let repeated = self.finish(transaction, found.last, None);
            repeated.map_err(|error| log.fail(error))?;
        } else {
            transaction.abort().map_err(|error| self.failed("open", error.into()))?;
        }
        Ok(found)
    }
}

fn open_database(
    path: &Path,
    cache_bytes: usize,
    open: impl FnOnce(&Builder) -> Result<Database, DatabaseError>,
) -> Result<Database, EngineError> {
    unless_it_panics(path, || {
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes.max(CACHE_BYTES_MIN));
        open(&builder).map_err(|error| failed("open", path, error.into()))
    })
}

/// The file of a log. It needs no lock of its own: redb's file has one.
#[derive(Debug)]
struct LogFile(File);

impl StorageBackend for LogFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}

/// Opens the log beside redb's file; makes it if it is `new`.
fn log_file(path: &Path, new: bool) -> io::Result<LogFile> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(new).open(log_path(path))?;
    if new {
        // The name is on disk before redb relies on it.
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(LogFile(file))
}

fn new_log_id() -> CommitLogId {
    let mut id = [0; COMMIT_LOG_ID_BYTES];
    id.copy_from_slice(&FileId::random().0);
    id
}

/// Returns the path of the log beside redb's file.
fn log_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".log");
    name.into()
}

/// Returns what redb knows of the log; [`None`] if it has none yet.
fn log_state(database: &Database, path: &Path) -> Result<Option<LogState>, EngineError> {
    let failed = |error: redb::Error| failed("open", path, error);
    let transaction = database.begin_read().map_err(|error| failed(error.into()))?;
    let commits = match transaction.open_table(COMMITS) {
        Ok(commits) => commits,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(failed(error.into())),
    };
    let read = |key| {
        let value = commits.get(key).map_err(|error| failed(error.into()))?;
        Ok(value.map(|value| value.value().to_vec()))
    };
    let id = read(LOG)?.and_then(|id| id.try_into().ok());
    let done = read(DONE)?
        .and_then(|done| done.try_into().ok())
        .map(u64::from_be_bytes);
    match id.zip(done) {
        Some((id, done)) => Ok(Some(LogState { id, done })),
        None => Err(EngineError::Damaged {
            engine: ENGINE,
            path: path.to_owned(),
            found: "it does not say which log of commits is its own".to_owned(),
        }),
    }
}

/// Makes an empty database under another name, and gives it its own once it is whole. So a process
/// that is killed meanwhile leaves no file that does not open, and a file without content is
/// damage.
fn make(path: &Path) -> Result<(), EngineError> {
    let create = |path: &Path| {
        unless_it_panics(path, || {
            let database = Database::builder().create(path);
            database.map(drop).map_err(|error| failed("create", path, error.into()))
        })
    };
    let new = path.with_extension(format!("new.{}", FileId::random()));
    let made = create(&new).and_then(|()| match fs::hard_link(&new, path) {
        Ok(()) => Ok(()),
        // Another process was faster.
        Err(_) if path.exists() => Ok(()),
        // The file system has no links, and a rename could replace what another process has open.
        Err(_) => create(path),
    });
    // The next process that opens the store removes a file that stays.
    let _ = fs::remove_file(&new);
    made
}
