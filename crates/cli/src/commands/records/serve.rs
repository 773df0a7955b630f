//! `ibid records serve`.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use ibid_record::replicate::nats::{self, Publishing};
use ibid_record::replicate::net::{self, tls};
use ibid_record::{Error, Role, Store};
use ibid_terminal::reason;

use super::connect::{Retrying, identity, known_at, pair, read, until_cancelled};
use super::{is_there, none_there, open_at, options_to_store, place};
use crate::args::ServeArgs;
use crate::commands::open::Context;
use crate::commands::watch::Watch;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Verb};

/// How often to check whether another store has taken the place of this one.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(crate) fn run(context: &mut Context, args: &ServeArgs) -> Result<Outcome> {
    let path = place(&args.store)?;
    if !is_there(path)? {
        return Err(none_there(path));
    }
    let watch = Watch::silent(Verb::Look)?;
    let options = options_to_store(context)
        .with_oplog(true)
        .with_log_entries_max(args.log_entries);
    let store = open_at(context, path, options, false)?;
    let log = store.log()?.ok_or(Error::NoLog)?;
    if log.epoch == 0 || matches!(log.role, Role::Incomplete { .. }) {
        return Err(Error::Incomplete.into()); // it has nothing that it could answer
    }
    let (tls, publishing_at) = tls_of_server(args)?;
    let listener = args.listen.map(listen).transpose()?;
    if let Some((_, address)) = &listener {
        print::serving(*address);
    }
    until_cancelled(&watch, |stop| {
        std::thread::scope(|scope| {
            let serving = listener
                .as_ref()
                .map(|(listener, _)| scope.spawn(|| net::serve(&store, listener, tls.as_ref(), stop)));
            let noticing = serving.is_some().then(|| scope.spawn(|| notice_a_fence(&store, stop)));
            let published = publishing_at.as_ref().map_or(Ok(()), |at| {
                let published = publish(&store, at, args, stop);
                // A store that can't publish any more needs attention, so stop serving as well. But the
                // store that takes its place has yet to receive the rest.
                if serving.is_none() || !matches!(published, Err(Error::Fenced { .. })) {
                    stop.store(true, Relaxed);
                }
                published
            });
            let served = serving.map_or(Ok(()), joined);
            noticing.map_or(Ok(()), joined)?;
            Ok(published.and(served)?)
        })
    })?;
    Ok(Outcome::Done)
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Says it when another store takes the place of this one.
fn notice_a_fence(store: &Store, stop: &AtomicBool) -> Result<(), Error> {
    while !stop.load(Relaxed) {
        if let Some(Role::Fenced { by }) = store.log()?.map(|log| log.role) {
            print::records_fenced(by);
            break;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn listen(at: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let failed = |error: std::io::Error| Failure::Fatal(format!("cannot listen at {at}: {}", reason(&error)));
    let listener = TcpListener::bind(at).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Returns the TLS of the server, and the address to publish to.
fn tls_of_server(args: &ServeArgs) -> Result<(Option<tls::Server>, Option<nats::Address>)> {
    let shown = pair(args.certificate.as_deref(), args.private_key.as_deref())?;
    if shown.is_some() && args.listen.is_none() && args.authority.is_none() {
        return Err(Failure::Usage(
            "--certificate needs TLS, which --publish uses only with --authority. Add --authority FILE".to_owned(),
        ));
    }
    let clients = args.clients.as_deref().map(read).transpose()?;
    let server = match (&shown, args.listen) {
        (Some(shown), Some(_)) => Some(tls::Server::new(identity(shown), clients.as_deref())?),
        _ => None,
    };
    let published = args.publish.clone();
    let credentials = args.nats_credentials.as_deref();
    let published = published.map(|at| known_at(at, args.authority.as_deref(), shown.as_ref(), credentials));
    Ok((server, published.transpose()?))
}

fn publish(store: &Store, at: &nats::Address, args: &ServeArgs, stop: &AtomicBool) -> Result<(), Error> {
    let mut publishing = Publishing::default();
    if let Some(replicas) = args.stream_replicas {
        publishing = publishing.with_replicas(replicas);
    }
    if let Some(bytes_max) = args.stream_max {
        publishing = publishing.with_bytes_max(bytes_max);
    }
    let (mut retrying, mut said) = (Retrying::default(), false);
    nats::publish(store, at, publishing, stop, &mut |told| {
        let is_current = retrying.told(told, stop).is_some_and(|progress| progress.is_current());
        if is_current && !said {
            said = true;
            print::records_published(at);
        }
    })
}
