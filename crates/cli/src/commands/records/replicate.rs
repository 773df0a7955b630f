//! `ibid records serve`, `replicate`, `promote`.

use super::{is_there, none_there, open, open_at, options_to_store, place};
use crate::args::{PromoteArgs, ReplicateArgs, ServeArgs};
use crate::commands::open::Context;
use crate::commands::watch::Watch;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Verb};
use ibid_record::replicate::{self, Progress, net};
use ibid_record::{Options, Role};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How often is looked whether the user wants it to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) fn serve(context: &mut Context, args: &ServeArgs) -> Result<Outcome> {
    let path = place(&args.store)?;
    if !is_there(path)? {
        return Err(none_there(path));
    }
    let watch = Watch::silent(Verb::Look)?;
    let options = Options {
        oplog: true,
        ..options_to_store(context)
    };
    let store = open_at(context, path, options, false)?;
    let listener = TcpListener::bind(args.listen);
    let failed = |error: std::io::Error| Failure::Fatal(format!("cannot listen at {}: {error}", args.listen));
    let listener = listener.map_err(failed)?;
    print::records_serving(listener.local_addr().map_err(failed)?);
    until_cancelled(&watch, |stop| Ok(net::serve(&store, &listener, stop)?))?;
    Ok(Outcome::Done)
}

pub(crate) fn follow(context: &mut Context, args: &ReplicateArgs) -> Result<Outcome> {
    let path = place(&args.store)?;
    let watch = Watch::silent(Verb::Look)?;
    let store = open_at(context, path, options_to_store(context), args.encrypted)?;
    match store.log()? {
        Some(log) if log.role == Role::Replica => {}
        Some(_) if !args.discard => {
            return Err(Failure::Fatal(format!(
                "the store in {} is one that others follow, or was: what it has and the other one has not would be gone. Give another folder, or say --discard if that is not needed",
                print::name(path)
            )));
        }
        Some(_) | None => store.follow()?,
    }
    let mut reached = false;
    let mut log = net::Connection::to(args.from);
    until_cancelled(&watch, |stop| {
        let mut failed = None;
        let mut told = |progress: Result<Progress, &ibid_record::Error>| match progress {
            Ok(progress) => {
                reached = progress.is_current();
                failed = None;
                if reached && args.once {
                    stop.store(true, Relaxed);
                }
            }
            Err(error) => {
                // Once, however often it is tried.
                let why = error.to_string();
                if failed.as_ref() != Some(&why) {
                    print::records_retrying(&why);
                    failed = Some(why);
                }
            }
        };
        Ok(replicate::follow(&store, &mut log, stop, &mut told)?)
    })?;
    let log = store.log()?.ok_or(ibid_record::Error::NoLog)?;
    print::records_followed(&mut context.out, log.next, log.epoch, reached)?;
    if args.once && !reached {
        return Err(Failure::Interrupted(
            "what came is stored; the next `ibid records replicate` goes on from there".into(),
        ));
    }
    Ok(Outcome::Done)
}

pub(crate) fn promote(context: &mut Context, args: &PromoteArgs) -> Result<Outcome> {
    let store = open(context, &args.store)?;
    store.promote()?;
    let log = store.log()?.ok_or(ibid_record::Error::NoLog)?;
    print::records_promoted(&mut context.out, log.next, log.epoch)?;
    Ok(Outcome::Done)
}

/// Does `work` until it ends by itself, or the user wants it to.
fn until_cancelled(watch: &Watch, work: impl FnOnce(&AtomicBool) -> Result<()>) -> Result<()> {
    let (stop, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Relaxed) {
                if watch.monitor.is_cancelled() {
                    stop.store(true, Relaxed);
                }
                std::thread::sleep(LOOK_EVERY);
            }
        });
        let worked = work(&stop);
        ended.store(true, Relaxed);
        worked
    })
}
