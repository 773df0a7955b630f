//! `ibid records replicate`.

use ibid_record::replicate::{self, Oplog, Progress};
use ibid_record::{Error, Role};
use ibid_terminal::path_text;

use super::connect::{Retrying, TRIES, until_cancelled};
use super::{open_at, options_to_store, place};
use crate::args::{Followed, ReplicateArgs};
use crate::commands::open::Context;
use crate::commands::watch::Watch;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Copying, Verb};

pub(crate) fn run(context: &mut Context, args: &ReplicateArgs) -> Result<Outcome> {
    let path = place(&args.store)?;
    let watch = Watch::silent(Verb::Look)?;
    let store = open_at(context, path, options_to_store(context), args.encrypted)?;
    let role = store.log()?.map(|log| log.role);
    match &role {
        Some(Role::Replica | Role::Incomplete { .. }) => {}
        Some(Role::Primary | Role::Fenced { .. }) if !args.discard => {
            return Err(Failure::Fatal(format!(
                "the store in {} is, or was, a primary: it would lose changes that the other store does not have. \
                 Choose another folder, or accept that with --discard",
                path_text(path)
            )));
        }
        Some(Role::Primary | Role::Fenced { .. }) | None => store.follow()?,
    }
    let mut log: Box<dyn Oplog> = match &args.from {
        Followed::Served(address) => Box::new(args.connection.served(address)?),
        Followed::Published(address) => Box::new(args.connection.published(address)?),
    };
    let tries = args.connection.tries.or(args.once.then_some(TRIES));
    let (mut reached, mut retrying) = (false, Retrying::up_to(tries));
    let mut copy = Copy {
        began: matches!(role, Some(Role::Incomplete { .. })),
        said: context.global.quiet,
    };
    until_cancelled(&watch, |stop| {
        let mut told = |progress: Result<Progress, &Error>| {
            if let Some(progress) = retrying.told(progress, stop) {
                copy.told(progress);
                reached = progress.is_current();
                if reached && args.once {
                    stop.store(true, std::sync::atomic::Ordering::Relaxed);
                }
            }
        };
        Ok(replicate::follow(&store, &mut *log, stop, &mut told)?)
    })?;
    retrying.gave_up()?;
    let log = store.log()?.ok_or(Error::NoLog)?;
    let is_partial = matches!(log.role, Role::Incomplete { .. });
    print::records_followed(&mut context.out, &log, reached)?;
    if args.once && !reached {
        return Err(Failure::Interrupted(
            if is_partial {
                "the next `ibid records replicate` continues the copy, or begins it again if the primary has changed \
                 since"
            } else {
                "the next `ibid records replicate` continues from here"
            }
            .into(),
        ));
    }
    Ok(Outcome::Done)
}

/// Tells how the copy of a whole store begins and continues.
struct Copy {
    /// Whether it has begun before.
    began: bool,
    /// Whether nothing more is said until it begins again.
    said: bool,
}

impl Copy {
    fn told(&mut self, progress: Progress) {
        match progress {
            Progress::Began => {
                print::records_copying(if self.began { Copying::Again } else { Copying::Begins });
                (self.began, self.said) = (true, true);
            }
            Progress::Part | Progress::Whole if self.began && !self.said => {
                print::records_copying(Copying::Continues);
                self.said = true;
            }
            _ => {}
        }
        if progress == Progress::Whole {
            self.began = false;
        }
    }
}
