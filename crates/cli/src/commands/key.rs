//! `ibid key`.

use ibid_repo::{Argon2Cost, KeyOptions};

use super::open::{Context, Opened};
use super::password;
use crate::args::KeyCommand;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, KeyDone};

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
        KeyCommand::List => print::keys(&mut context.out, about, &repository.keys()?)?,
        KeyCommand::Add(args) => {
            let cost = cost(args.argon2);
            let new = password::ask_for_new(context, &args.password)?;
            let id = repository.add_key(&new, &KeyOptions::default().cost(cost).label(args.label.as_str()))?;
            print::key_done(&mut context.out, about, &KeyDone::Added(id))?;
        }
        KeyCommand::Remove(args) => {
            let id = repository.remove_key(&args.key)?;
            print::key_done(&mut context.out, about, &KeyDone::Removed(id))?;
        }
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

/// Returns the cost of a new key, and warns if it is cheap to guess.
pub(super) fn cost(asked: Option<Argon2Cost>) -> Argon2Cost {
    let cost = asked.unwrap_or_default();
    if cost.is_cheap() {
        print::cheap_guesses();
    }
    cost
}
