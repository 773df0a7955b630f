//! `ibid records`: opens stores and namespaces.

mod batch;
mod batch_line;
mod compact;
mod connect;
mod delete;
mod expire;
mod find;
mod get;
mod index;
mod indexes;
mod latest;
mod load;
mod promote;
mod purge;
mod put;
mod repair;
mod replicate;
mod retention;
mod salvage;
mod scan;
mod serve;
mod stats;
mod unique;
mod verify;
mod versions;

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use ibid_format::record::BODY_BYTES_MAX;
use ibid_record::engine::EngineError;
use ibid_record::{Argon2Cost, Compacting, Condition, Encoding, Error, Namespace, Options, Store};
use ibid_repo::Monitor;
use ibid_terminal::{escape, path_text};

use super::open::{Context, local_folder};
use super::password::{self, Password};
use crate::args::{NamespaceArgs, NewRecordsArgs, RecordsCommand, StoreArgs, VersionName};
use crate::failure::advice::GIVE_PASSWORD;
use crate::failure::{Failure, Outcome, Result};
use crate::print;

/// The part of the memory limit that a body may take which is stored, compared, compacted or sent. Most of it is
/// for the engine's pages, which can be twice as long as what is in them, and of which it has up to three at a time.
const STORED_PART: u64 = 8;
/// How much less than a fourth of a large memory limit is for frames while records are stored, bytes.
const LEFT_BY_FRAMES: usize = 48 << 20;
/// The part of the memory limit that a body may take which is only read.
const READ_PART: u64 = 5;

/// Unit of `st_blocks` in `stat`, bytes, whatever the block size of the disk.
const BLOCK: u64 = 512;

pub(crate) fn run(context: &mut Context, command: &RecordsCommand) -> Result<Outcome> {
    silence_the_engine();
    match command {
        RecordsCommand::Load(args) => load::run(context, args),
        RecordsCommand::Compact(args) => compact::run(context, args),
        RecordsCommand::Put(args) => put::run(context, args),
        RecordsCommand::Batch(args) => batch::run(context, args),
        RecordsCommand::Get(args) => get::run(context, args),
        RecordsCommand::Delete(args) => delete::run(context, args),
        RecordsCommand::Purge(args) => purge::run(context, args),
        RecordsCommand::Retention(args) => retention::run(context, args),
        RecordsCommand::Latest(args) => latest::run(context, args),
        RecordsCommand::Expire(args) => expire::run(context, args),
        RecordsCommand::Scan(args) => scan::run(context, args),
        RecordsCommand::Find(args) => find::run(context, args),
        RecordsCommand::Index(args) => index::run(context, args),
        RecordsCommand::Versions(args) => versions::run(context, args),
        RecordsCommand::Stats(args) => stats::run(context, args),
        RecordsCommand::Verify(args) => verify::run(context, args),
        RecordsCommand::Repair(args) => repair::run(context, args),
        RecordsCommand::Salvage(args) => salvage::run(context, args),
        RecordsCommand::Serve(args) => serve::run(context, args),
        RecordsCommand::Replicate(args) => replicate::run(context, args),
        RecordsCommand::Promote(args) => promote::run(context, args),
    }
}

/// Hides the panics of redb over damaged pages. The store turns them into errors with a message.
fn silence_the_engine() {
    let otherwise = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // The name of a folder of redb's sources.
        let is_of_engine = |part: &OsStr| part == "redb" || part.as_bytes().starts_with(b"redb-");
        let place = panic.location().map(|location| Path::new(location.file()));
        if !place.is_some_and(|place| place.iter().any(is_of_engine)) {
            otherwise(panic);
        }
    }));
}

fn place(args: &StoreArgs) -> Result<&Path> {
    let none_given = "no store of records was given. Use --store DIR, or set IBID_STORE";
    local_folder(args.store.as_deref(), "a store of records is a folder here", none_given)
}

/// Whether the folder exists and is not empty.
fn is_there(path: &Path) -> Result<bool> {
    match std::fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Failure::local("open", path, source)),
    }
}

/// Returns a callback that counts bytes in a monitor, and stops the work on a signal.
fn stepping(monitor: &Monitor) -> impl FnMut(u64) -> ControlFlow<()> + '_ {
    move |bytes| {
        monitor.counters.bytes.fetch_add(bytes, Relaxed);
        match monitor.is_cancelled() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

fn none_there(path: &Path) -> Failure {
    Failure::NoStore(format!(
        "there is no store of records in {}. `ibid records load` and `ibid records put` create one",
        path_text(path)
    ))
}

/// Returns the disk space that all files in a folder occupy, bytes. The engine doubles the length
/// of its file when it needs a page, and most of that is a hole.
fn size_on_disk(folder: &Path) -> Result<u64> {
    let failed = |source| Failure::local("look into", folder, source);
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let metadata = entry.metadata().map_err(failed)?;
        bytes += if metadata.is_dir() {
            size_on_disk(&entry.path())?
        } else {
            BLOCK * metadata.blocks()
        };
    }
    Ok(bytes)
}

/// Returns the options for commands that store nothing: without what works in the background, which writes.
fn options(context: &Context) -> Options {
    // The rest is for buffers. The engine copies them while it commits.
    Options::default()
        .with_cache_bytes(part(context, 8))
        .with_frame_cache_bytes(part(context, 8))
        .with_replication_bytes(Options::default().replication_bytes.min(part(context, 8)))
        .with_body_bytes_max(part(context, READ_PART))
        .with_encoding(Encoding::default().with_enabled(false))
        .with_compacting(Compacting::default().with_enabled(false))
        .with_retention_interval(None)
}

fn options_to_store(context: &Context) -> Options {
    let usual = Encoding::default();
    // A new version is compared with the one before, which may be any, and be in a frame with others. Where there is
    // much memory, more frames stay in it.
    let frames = part(context, 8).max(part(context, 4).saturating_sub(LEFT_BY_FRAMES));
    let encoding = usual
        .with_source_cache_bytes(usual.source_cache_bytes.min(part(context, 12)))
        .with_write_back_bytes(usual.write_back_bytes.min(part(context, 16)))
        .with_index_bytes_max(usual.index_bytes_max.min(part(context, 8)))
        .with_compared_bytes_max(stored_bytes_max(context));
    let usual_whole = Options::default().whole_bytes_max;
    let usual = Compacting::default();
    let compacting = usual
        .with_recent_bytes(usual.recent_bytes.min(part(context, 16)))
        .with_window_bytes(usual.window_bytes.min(part(context, 16)));
    options(context)
        .with_frame_cache_bytes(frames)
        .with_body_bytes_max(stored_bytes_max(context))
        .with_whole_bytes_max(usual_whole.min(stored_bytes_max(context)))
        .with_encoding(encoding)
        .with_compacting(compacting)
        .with_retention_interval(Options::default().retention_interval)
}

/// Returns the length of the longest body that the memory limit allows to store, bytes.
fn stored_bytes_max(context: &Context) -> usize {
    part(context, STORED_PART).min(BODY_BYTES_MAX)
}

/// Returns a part of the memory limit, bytes.
fn part(context: &Context, of: u64) -> usize {
    usize::try_from(context.global.memory / of).unwrap_or(usize::MAX)
}

/// Opens a store that exists, to change it.
fn open(context: &Context, args: &StoreArgs) -> Result<Store> {
    open_existing(context, args, options(context))
}

/// Opens a store that exists, only to read it: also while another process has it open, or where nothing may be written.
fn open_to_read(context: &Context, args: &StoreArgs) -> Result<Store> {
    match open_existing(context, args, options(context).with_read_only(true)) {
        // An earlier version wrote it last, or another engine.
        Err(Failure::Records(Error::Engine(EngineError::NotReadOnly { .. }))) => open(context, args),
        opened => opened,
    }
}

fn open_existing(context: &Context, args: &StoreArgs, options: Options) -> Result<Store> {
    let path = place(args)?;
    if !is_there(path)? {
        return Err(none_there(path));
    }
    open_at(context, path, options, false)
}

/// Returns the password of a store that is encrypted.
fn password_of(context: &Context, path: &Path) -> Result<Password> {
    let needed = || {
        Failure::Password(format!(
            "the store in {} is encrypted, and no password was given. {GIVE_PASSWORD}",
            path_text(path)
        ))
    };
    password::ask(context, path, needed)
}

/// Opens a store, with its password if it is encrypted. Creates one if there is none, encrypted if
/// `encrypted`.
fn open_at(context: &Context, path: &Path, options: Options, encrypted: bool) -> Result<Store> {
    let given = &context.global.password;
    let password = if Store::is_encrypted(path)? {
        password_of(context, path)?
    } else if encrypted && !is_there(path)? {
        password::ask_for_new_place(context, path)?
    } else if encrypted || given.password_file.is_some() || given.password_command.is_some() {
        // The user gave a password and expects encryption. (Environment variables may be meant for
        // a repository.)
        let path = path.to_owned();
        return Err(Error::NotEncrypted { path }.into());
    } else {
        return Ok(Store::open(path, options)?);
    };
    Ok(Store::open_encrypted(path, options, &password, Argon2Cost::default())?)
}

/// Opens a store and a namespace that exist, to change them.
fn open_namespace(context: &Context, args: &NamespaceArgs) -> Result<(Store, Namespace)> {
    existing_namespace(open(context, &args.store)?, args)
}

/// Opens a store and a namespace that exist, only to read them.
fn open_namespace_to_read(context: &Context, args: &NamespaceArgs) -> Result<(Store, Namespace)> {
    existing_namespace(open_to_read(context, &args.store)?, args)
}

fn existing_namespace(store: Store, args: &NamespaceArgs) -> Result<(Store, Namespace)> {
    let namespace = store.find_namespace(&args.namespace)?;
    let namespace = namespace.ok_or_else(|| no_namespace(&args.namespace))?;
    Ok((store, namespace))
}

fn no_namespace(name: &str) -> Failure {
    Failure::NotThere(format!(
        "there is no namespace \"{}\" in the store. `ibid records stats` lists the namespaces",
        escape(name.as_bytes())
    ))
}

/// Opens a store to write to. Creates it if it does not exist and `may_make`.
fn open_store_or_make(context: &Context, args: &StoreArgs, new: &NewRecordsArgs, may_make: bool) -> Result<Store> {
    let path = place(args)?;
    let is_new = !is_there(path)?;
    if is_new && !may_make {
        return Err(none_there(path));
    }
    let store = open_at(context, path, options_to_store(context), new.encrypted)?;
    if is_new && !context.global.quiet {
        print::new_store(path);
    }
    Ok(store)
}

/// Opens a store and a namespace to write to. Creates them if they do not exist, unless the
/// condition of the change can only hold in a namespace that exists.
fn open_or_make(
    context: &Context,
    args: &NamespaceArgs,
    new: &NewRecordsArgs,
    condition: Option<Condition>,
) -> Result<(Store, Namespace)> {
    let may_make = matches!(condition, None | Some(Condition::Absent));
    let store = open_store_or_make(context, &args.store, new, may_make)?;
    let namespace = match (new.versions, store.find_namespace(&args.namespace)?) {
        (None, Some(namespace)) => namespace,
        (_, None) if !may_make => return Err(no_namespace(&args.namespace)),
        _ => store.namespace(&args.namespace, new.versions())?,
    };
    if let Some(latest) = new.latest {
        namespace.set_latest_as(latest.latest())?;
    }
    Ok((store, namespace))
}

/// Returns the failure for a missing record, with a command that lists those that exist.
fn not_there(namespace: &Namespace, key: &[u8], asked: VersionName) -> Result<Failure> {
    let versions = namespace.versions(key)?;
    let (name, shown) = (escape(namespace.name().as_bytes()), escape(key));
    let asked = match asked {
        VersionName::Latest => versions.last().map_or(1, |latest| latest.version),
        VersionName::Number(version) => version,
        VersionName::AsOf(time) => {
            return Ok(Failure::NotThere(format!(
                "namespace \"{name}\" had no record under \"{shown}\" at {time}. `ibid records versions` lists the \
                 times"
            )));
        }
    };
    let is_deletion = versions
        .iter()
        .any(|version| version.version == asked && version.deleted);
    Ok(Failure::NotThere(match versions.last() {
        None => format!(
            "namespace \"{name}\" has no record under \"{shown}\". `ibid records scan --keys-only` lists the keys"
        ),
        Some(_) if is_deletion => {
            format!(
                "\"{shown}\" was deleted with version {asked}. `ibid records versions` lists the versions before it"
            )
        }
        Some(latest) => format!(
            "\"{shown}\" has no version {asked}: the latest is {}. `ibid records versions` lists them",
            latest.version
        ),
    }))
}
