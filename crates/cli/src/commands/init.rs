//! `ibid init`.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use ibid_chunk::Settings;
use ibid_repo::{AVERAGE_DEFAULT, CHUNKER_DEFAULT, Error, InitOptions, Repository, check_memory};
use ibid_storage::{Local, Storage};
use ibid_terminal::{escape, path_text};

use super::open::{Context, Opened};
use super::password;
use super::place::{self, Place};
use crate::args::{InitArgs, InitSettings, LikeArgs, PasswordArgs, Whose};
use crate::failure::{Failure, Outcome, Result};
use crate::print;

/// The size of packs with a server, bytes: each put costs.
const PACK_ON_SERVERS: u32 = 32 << 20;

pub(crate) fn run(context: &mut Context, args: &InitArgs) -> Result<Outcome> {
    let opened = make(context, &args.settings, Some(&args.like))?;
    let path = context.path()?.to_owned();
    print::init(&mut context.out, &opened.repository, &path)?;
    Ok(Outcome::Done)
}

/// Opens a repository to back up into, or creates it. If several processes create it at once, one
/// succeeds and the others use its repository.
pub(crate) fn open_or_make(context: &Context, settings: &InitSettings) -> Result<Opened> {
    let mut opened = context.open_to_store();
    if matches!(opened, Err(Failure::Repo(Error::NoRepository { .. }))) {
        match make(context, settings, None) {
            Err(Failure::Repo(Error::RepositoryExists { .. })) => opened = context.open_to_store(),
            result => return result,
        }
    }
    let opened = opened?;
    if let Some(what) = kept(&opened.repository, settings)? {
        print::kept_settings(&what);
    }
    Ok(opened)
}

/// Returns the options that differ from the settings of the repository, by name.
fn kept(repository: &Repository, settings: &InitSettings) -> Result<Option<String>> {
    let asked = options(settings)?;
    let cutting = settings.chunker.is_some() || settings.average.is_some();
    let differ = [
        (
            "--chunker and --average",
            cutting && asked.chunker != *repository.chunker(),
        ),
        (
            "--frame",
            settings.frame.is_some_and(|size| size != repository.frame_size()),
        ),
        (
            "--pack",
            settings.pack.is_some_and(|size| size != repository.pack_size()),
        ),
        ("--argon2 (see `ibid key passwd`)", settings.argon2.is_some()),
        ("--label", settings.label.is_some()),
    ];
    let named: Vec<&str> = differ
        .iter()
        .filter(|(_, differs)| *differs)
        .map(|(name, _)| *name)
        .collect();
    Ok((!named.is_empty()).then(|| named.join(", ")))
}

/// Creates a repository. Asks for a password only after all other checks.
fn make(context: &Context, settings: &InitSettings, like: Option<&LikeArgs>) -> Result<Opened> {
    let path = context.path()?;
    let mut options = options(settings)?;
    check_memory(context.global.memory)?;
    let network = &context.global.network;
    // Asked before and after: another process may be creating it, and its files look unrelated until then.
    let server = match place::address(path, network)? {
        None => {
            let refuse_existing = || match Local::open(path) {
                Ok(storage) => refuse_existing(&storage),
                Err(_) => Ok(()),
            };
            refuse_existing()?;
            refuse_other_files(path).or_else(|refused| refuse_existing().and(Err(refused)))?;
            None
        }
        Some(address) => {
            let place = place::reach(&address, network, &context.servers)?;
            if place.open_if_there()? {
                let storage = place.storage();
                refuse_existing(&*storage)?;
                refuse_other_objects(&place).or_else(|refused| refuse_existing(&*storage).and(Err(refused)))?;
            }
            if let Place::Server(_) = place {
                options.pack_size = settings.pack.unwrap_or(PACK_ON_SERVERS);
            }
            Some(place)
        }
    };
    if let Some(lock) = network.lock() {
        refuse_without_locks(path, server.as_ref())?;
        options.lock = Some(lock);
    }
    if let Some(like) = like {
        options = options_like(context, options, settings, like)?;
    }
    let password = match context.global.unencrypted {
        true if password::given(&context.global.password)?.is_some() => {
            return Err(Failure::Usage(
                "--unencrypted does not go with a password. Leave out one of them".into(),
            ));
        }
        true => None,
        false => {
            options.cost = super::key::cost(settings.argon2);
            Some(password::ask_for_new_place(context, context.path()?)?)
        }
    };
    let place = match server {
        Some(place) => {
            place.create()?;
            place::keeps_what_is_there(&*place.storage())?;
            place
        }
        None => Place::Folder(Arc::new(Local::create(path)?)),
    };
    let bytes = password.as_ref().map(|password| password.as_slice());
    let repository = Repository::init(place.storage(), bytes, &options)?;
    context.ready(repository, place, password)
}

/// Refuses a place that can't lock files, before anything is stored in it.
fn refuse_without_locks(path: &Path, place: Option<&Place>) -> Result<()> {
    let storage = place.map(Place::storage);
    match storage.as_ref().and_then(|storage| storage.locks()) {
        Some(locks) => Ok(locks.check()?),
        None => Err(place::cannot_lock(&path_text(path).to_string())),
    }
}

/// Returns these options with what the repository that --like names decides.
fn options_like(
    context: &Context,
    options: InitOptions,
    settings: &InitSettings,
    args: &LikeArgs,
) -> Result<InitOptions> {
    let Some(model) = &args.like else {
        return Ok(options);
    };
    let password = PasswordArgs {
        password_file: args.like_password_file.clone(),
        password_command: args.like_password_command.clone(),
        whose: Whose::Model,
    };
    let opened = context
        .of_another(model.clone(), password, args.like_unencrypted)
        .open()?;
    if opened.repository.is_encrypted() && context.global.unencrypted {
        return Err(Error::KeyWouldBeOpen.into());
    }
    let mut alike = options.like(&opened.repository);
    alike.frame_size = settings.frame.unwrap_or(alike.frame_size);
    alike.pack_size = settings.pack.unwrap_or(alike.pack_size);
    Ok(alike)
}

fn refuse_existing(storage: &dyn Storage) -> Result<()> {
    match Repository::probe(storage) {
        Ok(_) => Err(Error::RepositoryExists {
            location: storage.location(),
        }
        .into()),
        // It is one that has to be repaired.
        Err(error @ (Error::ConfigMissing { .. } | Error::ConfigDamaged { .. })) => Err(error.into()),
        Err(_) => Ok(()),
    }
}

fn options(settings: &InitSettings) -> Result<InitOptions> {
    let mut options = InitOptions::default();
    if settings.chunker.is_some() || settings.average.is_some() {
        let name = settings.chunker.as_deref().unwrap_or(CHUNKER_DEFAULT);
        let average = settings
            .average
            .map_or(AVERAGE_DEFAULT, |size| usize::try_from(size).unwrap_or(usize::MAX));
        options.chunker =
            Settings::for_average(name, average).map_err(|error| Failure::Usage(format!("--average: {error}")))?;
    }
    options.frame_size = settings.frame.unwrap_or(options.frame_size);
    options.pack_size = settings.pack.unwrap_or(options.pack_size);
    options.key_label = settings.label.clone().unwrap_or_default();
    Ok(options)
}

/// Refuses a place at a server, or on another machine, with other objects in it. Accepts the keys of an interrupted
/// `init`.
fn refuse_other_objects(place: &Place) -> Result<()> {
    // As many as a page of a list has: a bucket may have millions.
    const PEEKED: usize = 1000;
    let (found, what) = match place {
        Place::Folder(_) | Place::Past(_) => return Ok(()),
        Place::Server(server) => {
            let found = server.peek(PEEKED)?.into_iter().find(|name| !name.starts_with("keys/"));
            (found, "prefix")
        }
        Place::Host(host) => (host.other_file(), "folder"),
    };
    match found {
        None => Ok(()),
        Some(name) => Err(Failure::Fatal(format!(
            "{} is not empty: it has {}. Choose another {what}",
            place.location(),
            escape(name.as_bytes())
        ))),
    }
}

/// Refuses a folder with other files in it. Accepts the files of an interrupted `init`, and those
/// of a new file system.
fn refuse_other_files(path: &Path) -> Result<()> {
    match other_file(path).map_err(|source| Failure::local("list", path, source))? {
        None => Ok(()),
        Some(name) => Err(Failure::Fatal(format!(
            "{} is not empty: it contains {}. Choose an empty or a new folder",
            path_text(path),
            path_text(Path::new(&name))
        ))),
    }
}

/// Returns the name of something in a folder that neither an interrupted `init` has left, nor is in a new file system.
pub(super) fn other_file(path: &Path) -> std::io::Result<Option<OsString>> {
    let entries = match std::fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        if name != "keys" && name != ibid_storage::RESERVED && name != "lost+found" {
            return Ok(Some(name));
        }
    }
    Ok(None)
}
