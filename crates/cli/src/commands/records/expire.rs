//! `ibid records expire`.

use std::ops::ControlFlow;
use std::time::Duration;

use ibid_record::{Expiring, Store, Time};

use super::{open, open_to_read};
use crate::args::ExpireArgs;
use crate::commands::open::Context;
use crate::commands::watch::Watch;
use crate::failure::{Failure, Outcome, Result};
use crate::print::ExpirePrinter;

/// A clock that is so far ahead of what the store knows may be wrong.
const AHEAD_MAX: Duration = Duration::from_secs(366 * 86_400);

pub(crate) fn run(context: &mut Context, args: &ExpireArgs) -> Result<Outcome> {
    let store = match args.dry_run {
        true => open_to_read(context, &args.store)?,
        false => open(context, &args.store)?,
    };
    let at = match args.at {
        Some(at) => at,
        None => now(&store)?,
    };
    let watch = Watch::start_records(context.global.quiet)?;
    let mut printer = ExpirePrinter::begin(&mut context.out, args.dry_run, at)?;
    let mut printed = Ok(());
    let mut each = |expiring: Expiring| {
        printed = printer.key(&expiring);
        match printed.is_err() || watch.monitor.is_cancelled() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let done = match args.dry_run {
        true => store.expiring(at, &mut each),
        false => store.expire(at, &mut each),
    };
    let stopped = watch.monitor.is_cancelled();
    watch.finish();
    done?;
    printed?;
    if stopped {
        return Err(Failure::Interrupted(
            "not everything was looked at; the next `expire` continues".into(),
        ));
    }
    printer.end()?;
    Ok(Outcome::Done)
}

/// Returns the time of the clock, unless it is too far from all that the store knows.
fn now(store: &Store) -> Result<Time> {
    let now = Time::now();
    match store.last_known_time()? {
        Some(known) if known.after(AHEAD_MAX) < now => Err(Failure::Fatal(format!(
            "the clock of this machine shows {now}, more than a year after the last time that the store knows, \
             {known}. If the clock is right, add --at {now}"
        ))),
        _ => Ok(now),
    }
}
