//! `ibid key`.

use super::open::{Context, Opened, now};
use super::password;
use crate::args::KeyCommand;
use crate::failure::{Failure, Outcome, Result};
use crate::print;

pub(crate) fn run(context: &mut Context, command: &KeyCommand) -> Result<Outcome> {
    let opened = context.open()?;
    let Opened {
        repository,
        about,
        password: Some(old),
        ..
    } = &opened
    else {
        return Err(Failure::Fatal("a repository that is not encrypted has no keys".into()));
    };
    let about = *about;
    match command {
        KeyCommand::List => print::keys(&mut context.out, about, &repository.key_list()?)?,
        KeyCommand::Add(args) => {
            let new = password::ask_for_new(context, &args.password)?;
            let id = repository.key_add(&new, args.argon2.unwrap_or_default(), &args.label, now())?;
            print::key_changed(&mut context.out, about, "key add", "added key", id)?;
        }
        KeyCommand::Remove(args) => {
            let id = repository.key_remove(&args.key)?;
            print::key_changed(&mut context.out, about, "key remove", "removed key", id)?;
        }
        KeyCommand::Passwd(args) => {
            let new = password::ask_for_new(context, &args.password)?;
            let id = repository.key_change(old, &new, args.argon2.unwrap_or_default(), now())?;
            print::key_changed(
                &mut context.out,
                about,
                "key passwd",
                "the password is changed; the new key is",
                id,
            )?;
        }
    }
    Ok(Outcome::Done)
}
