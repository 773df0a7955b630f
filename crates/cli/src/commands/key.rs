//! `ibid key`.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use ibid_repo::{Argon2Cost, Error, KeyOptions, Repository};

use super::open::{Context, Opened};
use super::password;
use crate::args::{KeyAddWriterArgs, KeyCommand};
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, About, KeyDone};

pub(crate) fn run(context: &mut Context, command: &KeyCommand) -> Result<Outcome> {
    let opened = context.open()?;
    let Opened {
        repository,
        about,
        password: Some(old),
        ..
    } = &opened
    else {
        return Err(Failure::Fatal(
            "the repository is not encrypted, so it has no keys".into(),
        ));
    };
    let about = *about;
    match command {
        KeyCommand::List => print::keys(&mut context.out, about, &repository.keys()?, &repository.writers()?)?,
        KeyCommand::Add(args) => {
            let cost = cost(args.argon2);
            let new = password::ask_for_new(context, &args.password)?;
            let id = repository.add_key(&new, &KeyOptions::default().cost(cost).label(args.label.as_str()))?;
            print::key_done(&mut context.out, about, &KeyDone::Added(id))?;
        }
        KeyCommand::Remove(args) => {
            let done = match is_writer(repository, &args.key)? {
                true => KeyDone::RemovedWriter(repository.remove_writer(&args.key)?),
                false => KeyDone::Removed(repository.remove_key(&args.key)?),
            };
            print::key_done(&mut context.out, about, &done)?;
        }
        KeyCommand::AddWriter(args) => add_writer(context, about, repository, args)?,
        KeyCommand::Passwd(args) => {
            let cost = cost(args.argon2);
            let new = password::ask_for_new(context, &args.password)?;
            let change = repository.change_password(old, &new, &KeyOptions::default().cost(cost))?;
            for (id, why) in &change.untried {
                print::untried_key(*id, why);
            }
            print::key_done(&mut context.out, about, &KeyDone::Changed(&change))?;
        }
    }
    Ok(Outcome::Done)
}

/// Returns whether no key is meant, and a writer is.
fn is_writer(repository: &Repository, wanted: &str) -> Result<bool> {
    let prefix = wanted.to_ascii_lowercase();
    if repository
        .keys()?
        .iter()
        .any(|key| key.id.to_string().starts_with(&prefix))
    {
        return Ok(false);
    }
    match repository.find_writer(wanted) {
        Err(Error::UnknownWriter { matches: 0, .. }) => Ok(false),
        found => Ok(found.map(|_| true)?),
    }
}

/// Makes a writer, and writes its key into a new file or prints it.
fn add_writer(context: &mut Context, about: About, repository: &Repository, args: &KeyAddWriterArgs) -> Result<()> {
    let Some(path) = &args.out else {
        let key = repository.add_writer(&args.label)?;
        return Ok(print::writer_key(&mut context.out, about, &key)?);
    };
    // Before there is a writer: its key can't be had again.
    let mut file = std::fs::File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|source| Failure::local("create", path, source))?;
    let key = repository.add_writer(&args.label).inspect_err(|_| {
        // It is empty. If it can't be deleted, it does no harm.
        let _ = std::fs::remove_file(path);
    })?;
    file.write_all(key.to_text().as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|source| Failure::local("write", path, source))?;
    Ok(print::writer_added(&mut context.out, about, &key, &args.label, path)?)
}

/// Returns the cost of a new key, and warns if it is cheap to guess.
pub(super) fn cost(asked: Option<Argon2Cost>) -> Argon2Cost {
    let cost = asked.unwrap_or_default();
    if cost.is_cheap() {
        print::cheap_guesses();
    }
    cost
}
