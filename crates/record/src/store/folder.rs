//! The folder of a store: its engine, and the key file of an encrypted one.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ibid_format::record::{FORMAT, FORMAT_KEY, FORMATS_BEFORE, NEXT_KEY, NextNumbers};
use ibid_format::slot::{self, Argon2Cost, Note, Slot};
use ibid_format::{FileId, Keys, MasterKey};

use super::{EngineKind, Options, Store};
use crate::engine::{
    self, Commit, Direction, Engine, EngineError, LostCommits, Read, Redb, RedbReader, Sealed, Snapshot, Table,
};
use crate::error::{Damage, Error};
use crate::salvage::{self, Salvaged};

/// The names of the engines' files and folders.
const ENGINES: [&str; 2] = ["redb", "fjall"];
/// What belongs to redb's file: the segments of its log of commits, the log that earlier versions wrote, and the locks
/// of readers.
const REDB_LOGS: [&str; 3] = ["redb.segments", "redb.log", "redb.readers"];
/// How names begin of files that are to become redb's.
const REDB_NEW: &[u8] = b"redb.new.";
/// The file with the key of an encrypted store, which the password opens.
const KEY: &str = "key";
/// The name of the key file until all of it is written.
const KEY_NEW: &str = "key.new";

/// Returns the error of a failed operation on a path.
pub(super) fn io(operation: &'static str, path: &Path, source: io::Error) -> Error {
    EngineError::io(operation, path, source).into()
}

/// The password of an encrypted store, and the cost of guessing it if the store is new.
pub(super) type Password<'p> = (&'p [u8], Argon2Cost);

/// Opens the engine in a folder. Makes both if they are not there, unless they are only to be read.
pub(super) fn open(path: &Path, options: Options, password: Option<Password<'_>>) -> Result<Box<dyn Engine>, Error> {
    let expected = match options.engine {
        EngineKind::Redb => "redb",
        #[cfg(feature = "fjall")]
        EngineKind::Fjall => "fjall",
    };
    let failed = |source| io("open", path, source);
    if !options.read_only {
        fs::create_dir_all(path).map_err(failed)?;
    }
    let (mut new, mut encrypted, mut has_log) = (true, false, None);
    let mut unfinished = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        match ENGINES.into_iter().find(|engine| name == *engine) {
            Some(found) if found == expected => new = false,
            Some(found) => {
                let path = path.to_owned();
                return Err(Error::OtherEngine { path, expected, found });
            }
            None if name == KEY => encrypted = true,
            None if name == KEY_NEW => {}
            None if REDB_LOGS.iter().any(|log| name == *log) => has_log = Some(name),
            None if name.as_encoded_bytes().starts_with(REDB_NEW) => unfinished.push(path.join(name)),
            None => {
                let found = format!("{} is in it", name.display());
                let path = path.to_owned();
                return Err(Error::NotAStore { path, found });
            }
        }
    }
    if let Some(log) = has_log.filter(|_| new) {
        // It is made after the file that it belongs to.
        let found = format!("{} is in it, but not the file redb that it belongs to", log.display());
        let path = path.to_owned();
        return Err(Error::NotAStore { path, found });
    }
    if new && options.read_only {
        let (path, found) = (path.to_owned(), "no engine is in it".to_owned());
        return Err(Error::NotAStore { path, found });
    }
    let keys = match password {
        Some((password, cost)) if new && !encrypted => Some(lock(path, password, cost)?),
        password => keys(path, password, encrypted)?,
    };
    let place = path.join(expected);
    let engine: Box<dyn Engine> = match options.engine {
        EngineKind::Redb if options.read_only => Box::new(RedbReader::open(&place, options.cache_bytes)?),
        #[cfg(feature = "fjall")]
        EngineKind::Fjall if options.read_only => {
            let found = "fjall is open in one process only";
            return Err(EngineError::NotReadOnly { path: place, found }.into());
        }
        EngineKind::Redb => Box::new(Redb::open(&place, options.cache_bytes)?),
        #[cfg(feature = "fjall")]
        EngineKind::Fjall => Box::new(crate::engine::Fjall::open(&place, options.cache_bytes)?),
    };
    // Processes that were killed while they made the engine's file left these.
    for file in unfinished.into_iter().filter(|_| !options.read_only) {
        let _ = fs::remove_file(file);
    }
    if new {
        // Without this, a crash after the engine's first sync could lose its file or the folder.
        for folder in [Some(path), path.parent().filter(|parent| *parent != Path::new(""))] {
            let synced = folder.map_or(Ok(()), |folder| File::open(folder)?.sync_all());
            synced.map_err(failed)?;
        }
    }
    Ok(sealed(engine, keys, &place))
}

/// Returns the keys of a store that is there, if it is encrypted.
fn keys(path: &Path, password: Option<Password<'_>>, encrypted: bool) -> Result<Option<Keys>, Error> {
    match (password, encrypted) {
        (None, false) => Ok(None),
        (None, true) => Err(Error::Encrypted { path: path.to_owned() }),
        (Some((password, _)), true) => unlock(path, password).map(Some),
        (Some(_), false) => Err(Error::NotEncrypted { path: path.to_owned() }),
    }
}

/// Seals what is stored in an engine, if there are keys.
fn sealed(engine: Box<dyn Engine>, keys: Option<Keys>, path: &Path) -> Box<dyn Engine> {
    match keys {
        Some(keys) => Box::new(Sealed::new(engine, keys, path)),
        None => engine,
    }
}

/// Gives up what the log of commits of the store in a folder has lost.
pub(super) fn repair(path: &Path) -> Result<LostCommits, Error> {
    let file = path.join(ENGINES[0]);
    let there = file.try_exists().map_err(|source| io("look into", path, source))?;
    if there {
        return Ok(Redb::give_up_lost_commits(&file)?);
    }
    let other = path.join(ENGINES[1]);
    let there = other.try_exists().map_err(|source| io("look into", path, source))?;
    if there {
        return Ok(LostCommits::None); // it has no such log
    }
    let found = "no engine is in it".to_owned();
    let path = path.to_owned();
    Err(Error::NotAStore { path, found })
}

/// Brings what can be read of the store in the folder `from` into a new one in `into`.
pub(super) fn salvage(
    from: &Path,
    into: &Path,
    options: Options,
    password: Option<Password<'_>>,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Salvaged, Error> {
    let (made_in, found_in) = (beside(into, ".salvage")?, beside(into, ".found")?);
    for folder in [into, &made_in, &found_in] {
        if !is_empty(folder)? {
            return Err(Error::NotEmpty {
                path: folder.to_owned(),
            });
        }
    }
    let parent = match into.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let is_within = fs::canonicalize(parent).and_then(|parent| Ok(parent.starts_with(fs::canonicalize(from)?)));
    if is_within.map_err(|source| io("look into", parent, source))? {
        let within = io::Error::new(io::ErrorKind::InvalidInput, "it is in the damaged one");
        return Err(io("make a store in", into, within));
    }
    // What was stopped stays so, whatever is asked next.
    let mut stopped = false;
    let progress = &mut |bytes| {
        stopped = stopped || progress(bytes).is_break();
        match stopped {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let damaged = open_damaged(from, &found_in, options, password, progress);
    let done = damaged.and_then(|(engine, is_of_segments)| {
        let snapshot = engine.snapshot()?;
        salvage_into(snapshot, &made_in, options, password, progress).map(|found| Salvaged {
            of_segments: is_of_segments,
            ..found
        })
    });
    // They were made just now, and nothing else is in them.
    let _ = fs::remove_dir_all(&found_in);
    match done {
        Ok(found) if !found.stopped => {
            let renamed = fs::rename(&made_in, into).and_then(|()| File::open(parent)?.sync_all());
            renamed.map_err(|source| io("rename the new store to", into, source))?;
            Ok(found)
        }
        done => {
            let _ = fs::remove_dir_all(&made_in);
            done
        }
    }
}

/// Opens a damaged store. If redb's file is lost, makes another one in the folder `found_in` of its segments, and
/// returns so.
fn open_damaged(
    from: &Path,
    found_in: &Path,
    options: Options,
    password: Option<Password<'_>>,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(Box<dyn Engine>, bool), Error> {
    let opened = match open(from, options.with_read_only(true), password) {
        // Another engine, or an earlier version wrote it last.
        Err(Error::Engine(EngineError::NotReadOnly { .. })) => open(from, options.with_read_only(false), password),
        opened => opened,
    };
    let is_lost = match &opened {
        Err(Error::Engine(error @ EngineError::Damaged { .. })) => !engine::is_of_log(error),
        Err(Error::NotAStore { .. }) => !from.join(ENGINES[0]).exists() && from.join(REDB_LOGS[0]).is_dir(),
        _ => false,
    };
    if !is_lost || !matches!(options.engine, EngineKind::Redb) {
        return opened.map(|engine| (engine, false));
    }
    let keys = keys(from, password, is_encrypted(from)?)?;
    fs::create_dir_all(found_in).map_err(|source| io("make", found_in, source))?;
    let (lost, new) = (from.join(ENGINES[0]), found_in.join(ENGINES[0]));
    let engine = Redb::from_segments(&lost, &new, options.cache_bytes, progress)?;
    let engine = sealed(Box::new(engine), keys, from);
    salvage::restore_places(&*engine, progress)?;
    Ok((engine, true))
}

/// Brings what can be read in a snapshot into a new store in the folder `made_in`, which is synced if it is whole.
fn salvage_into(
    snapshot: Box<dyn Snapshot>,
    made_in: &Path,
    options: Options,
    password: Option<Password<'_>>,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Salvaged, Error> {
    // A log of what is brought would be of no use: replicas lack what was before it.
    let options = options.with_read_only(false).with_oplog(false);
    let store = Store::with_engine(made_in, open(made_in, options, password)?, options)?;
    let found = salvage::salvage(snapshot, options.body_bytes_max, &store, progress)?;
    if !found.stopped {
        store.settle(progress)?;
        store.sync()?;
    }
    Ok(found)
}

/// Returns the folder beside `into` whose name has this ending.
fn beside(into: &Path, ending: &str) -> Result<PathBuf, Error> {
    let none = || io::Error::new(io::ErrorKind::InvalidInput, "the path has no name");
    let name = into.file_name().ok_or_else(|| io("make a store in", into, none()))?;
    let mut name = name.to_owned();
    name.push(ending);
    Ok(into.with_file_name(name))
}

/// Whether a folder is not there, or has nothing in it.
fn is_empty(path: &Path) -> Result<bool, Error> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(source) => Err(io("look into", path, source)),
    }
}

/// Returns whether a folder has a key file.
pub(super) fn is_encrypted(path: &Path) -> Result<bool, Error> {
    let there = path.join(KEY).try_exists();
    there.map_err(|source| io("look into", path, source))
}

/// Makes the keys of a new store, and its key file.
fn lock(path: &Path, password: &[u8], cost: Argon2Cost) -> Result<Keys, Error> {
    let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
    let created = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let note = Note {
        created: created.map_or(0, |created| created.as_secs() as i64),
        label: String::new(),
        host: String::new(),
        user: String::new(),
    };
    let slot = slot::create(FileId::ZERO, &keys, password, cost, &note);
    let slot = slot.map_err(|source| {
        let path = path.to_owned();
        Error::Key { path, source }
    })?;
    let written = (|| {
        let mut file = File::create(path.join(KEY_NEW))?;
        file.write_all(&slot)?;
        file.sync_all()?;
        fs::rename(path.join(KEY_NEW), path.join(KEY))?;
        File::open(path)?.sync_all()
    })();
    written.map_err(|source| io("write the file `key` in", path, source))?;
    Ok(keys)
}

/// Opens the key file with the password.
fn unlock(path: &Path, password: &[u8]) -> Result<Keys, Error> {
    let file = path.join(KEY);
    let mut bytes = Vec::new();
    let read = File::open(&file).and_then(|file| file.take(slot::LIMIT + 1).read_to_end(&mut bytes));
    read.map_err(|source| io("read", &file, source))?;
    let unlocked = Slot::parse(FileId::ZERO, &bytes).and_then(|slot| {
        let master = slot.unlock(password, slot::MEMORY_KIB_ALLOWED)?;
        Ok(Keys::encrypted(slot.repository(), &master))
    });
    unlocked.map_err(|source| Error::Key { path: file, source })
}

/// Returns the numbers that come next, and whether the store is of an earlier version of the format. Begins a new store
/// if the engine is empty, unless it is only read.
pub(super) fn begin(path: &Path, engine: &dyn Engine, read_only: bool) -> Result<(NextNumbers, bool), Error> {
    let not_a_store = |found: String| Error::NotAStore {
        path: path.to_owned(),
        found,
    };
    let is_earlier = |format: &[u8]| FORMATS_BEFORE.contains(&format);
    let snapshot = engine.snapshot()?;
    match value(&*snapshot, FORMAT_KEY)? {
        Some(format) if is_earlier(&format) || format == FORMAT => {
            let next = value(&*snapshot, NEXT_KEY)?;
            let next = next.ok_or_else(|| Error::damaged(Table::Meta, NEXT_KEY, Damage::Missing))?;
            let next = NextNumbers::decode(&next).map_err(|error| Error::damaged(Table::Meta, NEXT_KEY, error))?;
            Ok((next, is_earlier(&format)))
        }
        Some(format) => {
            let (found, expected) = (format.escape_ascii(), FORMAT.escape_ascii());
            let is_of_records = format.starts_with(&FORMAT[..FORMAT.len() - 1]);
            let perhaps = if is_of_records {
                "; perhaps a later one wrote it"
            } else {
                ""
            };
            Err(not_a_store(format!(
                "its format is \"{found}\", this program reads \"{expected}\"{perhaps}"
            )))
        }
        None if read_only => Err(not_a_store("nothing is in it yet".to_owned())),
        None => {
            for table in Table::ALL {
                let mut empty = true;
                let mut each = |_: &[u8], _: &[u8]| {
                    empty = false;
                    ControlFlow::Break(())
                };
                let everything = (Bound::Unbounded, Bound::Unbounded);
                snapshot.range(table, everything, Direction::Forward, &mut each)?;
                if !empty {
                    return Err(not_a_store(format!(
                        "its table {} has entries without a format",
                        table.name()
                    )));
                }
            }
            drop(snapshot);
            engine.write(Commit::Synced, &mut |transaction| {
                transaction.put(Table::Meta, FORMAT_KEY, &FORMAT)?;
                transaction.put(Table::Meta, NEXT_KEY, &NextNumbers::FIRST.encode())
            })?;
            Ok((NextNumbers::FIRST, false))
        }
    }
}

fn value(read: &(impl Read + ?Sized), key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
    let mut value = None;
    read.get(Table::Meta, key, &mut |bytes| value = Some(bytes.to_vec()))?;
    Ok(value)
}
