//! `ibid records promote`.

use ibid_record::replicate::{TakenOver, take_over};
use ibid_record::{Error, Role, Store};
use ibid_terminal::path_text;

use super::connect::{Retrying, TRIES, until_cancelled};
use super::{open, place};
use crate::args::{Followed, PromoteArgs};
use crate::commands::open::Context;
use crate::commands::watch::Watch;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Verb};

pub(crate) fn run(context: &mut Context, args: &PromoteArgs) -> Result<Outcome> {
    let fence = match &args.fence {
        Some(Followed::Served(address)) => Some(&address[..]),
        Some(Followed::Published(_)) => {
            return Err(Failure::Usage(
                "--fence needs the HOST:PORT of a store that is served. Through NATS, a primary is fenced by the log \
                 that its successor publishes"
                    .to_owned(),
            ));
        }
        None if args.connection.is_given() => {
            return Err(Failure::Usage(
                "--authority and --tries are for the connection to the old primary. Add --fence HOST:PORT".to_owned(),
            ));
        }
        None => None,
    };
    let store = open(context, &args.store)?;
    let Some(log) = store.log()? else {
        return Err(Failure::Fatal(format!(
            "the store in {} is no replica: it has no log, and takes changes as it is",
            path_text(place(&args.store)?)
        )));
    };
    let fenced = match (fence, log.role) {
        (Some(address), _) => Some((address, fence_and_promote(&store, args, address)?)),
        // Its own epoch was ended for another one, which may be in use.
        (None, Role::Fenced { by }) if args.force => {
            store.promote_to(by + 1)?;
            None
        }
        (None, _) => {
            store.promote()?;
            None
        }
    };
    let log = store.log()?.ok_or(Error::NoLog)?;
    print::records_promoted(&mut context.out, log.next, log.epoch, fenced)?;
    Ok(Outcome::Done)
}

/// Ends the writing of the primary at an address, and promotes the store unless it is promoted
/// already.
fn fence_and_promote(store: &Store, args: &PromoteArgs, address: &str) -> Result<TakenOver> {
    let watch = Watch::silent(Verb::Look)?;
    let mut primary = args.connection.served(address)?;
    let mut retrying = Retrying::up_to(Some(args.connection.tries.unwrap_or(TRIES)));
    let done = until_cancelled(&watch, |stop| {
        let mut told = |progress: Result<_, &Error>| {
            retrying.told(progress, stop);
        };
        Ok(take_over(store, &mut primary, args.force, stop, &mut told)?)
    });
    let is_primary = matches!(store.log()?, Some(log) if log.role == Role::Primary);
    let was_reached = retrying.was_answered();
    let left = || match (is_primary, was_reached) {
        (true, _) => format!("the store at {address} may still take changes"),
        (false, false) => "nothing was promoted".to_owned(),
        (false, true) => format!("nothing was promoted, and the store at {address} may be fenced already"),
    };
    match done {
        Ok(Some(taken)) => Ok(taken),
        Ok(None) => {
            retrying.gave_up().map_err(|failure| failure.after(left()))?;
            Err(Failure::Interrupted(left().into()))
        }
        // These answers say what the store does.
        Err(failure @ Failure::Records(Error::Refused(_) | Error::FencedBefore { .. })) if is_primary => Err(failure),
        Err(failure) => Err(failure.after(left())),
    }
}
