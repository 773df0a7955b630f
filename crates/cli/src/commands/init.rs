//! `ibid init`.

use super::open::{self, Context, Opened};
use super::password;
use crate::args::{InitArgs, InitSettings};
use crate::failure::{Failure, Outcome, Result};
use crate::print;
use ibid_chunk::Settings;
use ibid_repo::{Error, InitOptions, Repository};
use ibid_storage::{Local, Storage};
use std::path::Path;
use std::sync::Arc;

pub(crate) fn run(context: &mut Context, args: &InitArgs) -> Result<Outcome> {
    let opened = make(context, &args.settings)?;
    let path = context.path()?.to_owned();
    print::init(&mut context.out, &opened.repository, &path)?;
    Ok(Outcome::Done)
}

/// Makes a repository; nobody is asked for a password unless all else is right.
pub(crate) fn make(context: &Context, settings: &InitSettings) -> Result<Opened> {
    let path = context.path()?;
    let options = options(settings)?;
    if let Ok(storage) = Local::open(path)
        && Repository::probe(&storage).is_ok()
    {
        return Err(Error::RepositoryExists {
            location: storage.location(),
        }
        .into());
    }
    refuse_strangers(path)?;
    let password = match context.global.unencrypted {
        true if password::given(&context.global.password)?.is_some() => {
            return Err(Failure::Usage(
                "a password was given, and --unencrypted: which of them do you mean?".into(),
            ));
        }
        true => None,
        false => Some(password::ask_for_init(context)?),
    };
    let storage = Arc::new(Local::create(path)?);
    let bytes = password.as_ref().map(|password| password.as_slice());
    let repository = Repository::init(storage.clone(), bytes, &options, open::now())?;
    context.ready(repository, storage, password)
}

fn options(settings: &InitSettings) -> Result<InitOptions> {
    let mut options = InitOptions::default();
    if settings.chunker.is_some() || settings.average.is_some() {
        let name = settings.chunker.map_or("fastcdc", |chunker| chunker.name());
        let average = settings.average.unwrap_or(64 << 10);
        let average = usize::try_from(average).unwrap_or(usize::MAX);
        options.chunker =
            Settings::for_average(name, average).map_err(|error| Failure::Usage(format!("--average: {error}")))?;
    }
    options.frame_size = settings.frame.unwrap_or(options.frame_size);
    options.pack_size = settings.pack.unwrap_or(options.pack_size);
    options.cost = settings.argon2.unwrap_or(options.cost);
    options.key_label = settings.label.clone().unwrap_or_default();
    Ok(options)
}

/// Refuses a folder with other things in it. What an `init` that was cut short leaves, and what a new disk has, is all right.
fn refuse_strangers(path: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|source| Failure::local("list", path, source))?,
    };
    for entry in entries {
        let name = entry
            .map_err(|source| Failure::local("list", path, source))?
            .file_name();
        if name != "keys" && name != ibid_storage::RESERVED && name != "lost+found" {
            return Err(Failure::Fatal(format!(
                "there are other things in {path:?}, such as {name:?}: choose an empty or a new folder"
            )));
        }
    }
    Ok(())
}
