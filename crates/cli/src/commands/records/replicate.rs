//! `ibid records serve`, `replicate`, `promote`.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use ibid_record::replicate::nats::{self, Publishing};
use ibid_record::replicate::net::{self, tls};
use ibid_record::replicate::{self, Oplog, Progress};
use ibid_record::{Role, Store};
use ibid_terminal::{path_text, reason};

use super::{is_there, none_there, open, open_at, options_to_store, place};
use crate::args::{Followed, PromoteArgs, ReplicateArgs, ServeArgs};
use crate::commands::open::Context;
use crate::commands::watch::Watch;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Verb};

/// How often to check whether the user wants to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) fn serve(context: &mut Context, args: &ServeArgs) -> Result<Outcome> {
    let path = place(&args.store)?;
    if !is_there(path)? {
        return Err(none_there(path));
    }
    let watch = Watch::silent(Verb::Look)?;
    let options = options_to_store(context)
        .with_oplog(true)
        .with_log_entries_max(args.log_entries);
    let store = open_at(context, path, options, false)?;
    let (tls, publishing_at) = tls_of_server(args)?;
    let listener = args.listen.map(listen).transpose()?;
    if let Some((_, address)) = &listener {
        print::records_serving(*address);
    }
    until_cancelled(&watch, |stop| {
        std::thread::scope(|scope| {
            let serving = listener
                .as_ref()
                .map(|(listener, _)| scope.spawn(|| net::serve(&store, listener, tls.as_ref(), stop)));
            let published = publishing_at.as_ref().map_or(Ok(()), |at| {
                let published = publish(&store, at, args, stop);
                // A store that can't publish any more needs attention, so stop serving as well.
                stop.store(true, Relaxed);
                published
            });
            let served = serving.map_or(Ok(()), |serving| {
                serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            Ok(published.and(served)?)
        })
    })?;
    Ok(Outcome::Done)
}

fn listen(at: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let failed = |error: std::io::Error| Failure::Fatal(format!("cannot listen at {at}: {}", reason(&error)));
    let listener = TcpListener::bind(at).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|source| Failure::local("read", path, source))
}

/// Reads certificate and key (PEM), if they are given.
fn pair(certificate: Option<&Path>, key: Option<&Path>) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let read = |(certificate, key)| Ok((read(certificate)?, read(key)?));
    certificate.zip(key).map(read).transpose()
}

fn identity((certificates, key): &(Vec<u8>, Vec<u8>)) -> tls::Identity<'_> {
    tls::Identity { certificates, key }
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
    let published = published.map(|at| over_tls(at, args.authority.as_deref(), shown.as_ref()));
    Ok((server, published.transpose()?))
}

/// Returns the address, with TLS if there is an authority.
fn over_tls(at: nats::Address, authority: Option<&Path>, shown: Option<&(Vec<u8>, Vec<u8>)>) -> Result<nats::Address> {
    Ok(match authority {
        Some(authority) => at.with_tls(&read(authority)?, shown.map(identity))?,
        None => at,
    })
}

fn tls_of_client(args: &ReplicateArgs, address: &str) -> Result<Option<tls::Client>> {
    let Some(authority) = &args.authority else {
        return Ok(None);
    };
    let shown = pair(args.certificate.as_deref(), args.private_key.as_deref())?;
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let name = args.server_name.as_deref().unwrap_or(host);
    let client = tls::Client::new(&read(authority)?, name, shown.as_ref().map(identity))?;
    Ok(Some(client))
}

fn publish(store: &Store, at: &nats::Address, args: &ServeArgs, stop: &AtomicBool) -> Result<(), ibid_record::Error> {
    let mut publishing = Publishing::default();
    if let Some(replicas) = args.stream_replicas {
        publishing = publishing.with_replicas(replicas);
    }
    if let Some(bytes_max) = args.stream_max {
        publishing = publishing.with_bytes_max(bytes_max);
    }
    let (mut retrying, mut said) = (Retrying::default(), false);
    nats::publish(store, at, publishing, stop, &mut |told| {
        let is_current = retrying.told(told).is_some_and(|progress| progress.is_current());
        if is_current && !said {
            said = true;
            print::records_published(at);
        }
    })
}

/// Prints why a step is retried, each reason once.
#[derive(Default)]
struct Retrying {
    why: Option<String>,
}

impl Retrying {
    fn told(&mut self, progress: Result<Progress, &ibid_record::Error>) -> Option<Progress> {
        match progress {
            Ok(progress) => {
                self.why = None;
                Some(progress)
            }
            Err(error) => {
                let why = error.to_string();
                if self.why.as_ref() != Some(&why) {
                    print::records_retrying(&why);
                    self.why = Some(why);
                }
                None
            }
        }
    }
}

pub(crate) fn follow(context: &mut Context, args: &ReplicateArgs) -> Result<Outcome> {
    let path = place(&args.store)?;
    let watch = Watch::silent(Verb::Look)?;
    let store = open_at(context, path, options_to_store(context), args.encrypted)?;
    match store.log()? {
        Some(log) if log.role == Role::Replica => {}
        Some(_) if !args.discard => {
            return Err(Failure::Fatal(format!(
                "the store in {} is, or was, a primary: it would lose changes that the other store does not have. \
                 Choose another folder, or accept that with --discard",
                path_text(path)
            )));
        }
        Some(_) | None => store.follow()?,
    }
    let mut log: Box<dyn Oplog> = match &args.from {
        Followed::Served(address) => {
            let connection = net::Connection::to(address);
            Box::new(match tls_of_client(args, address)? {
                Some(tls) => connection.with_tls(tls),
                None => connection,
            })
        }
        Followed::Published(_) if args.server_name.is_some() => {
            return Err(Failure::Usage(
                "--server-name does not go with nats://: each NATS server has a certificate for its own host"
                    .to_owned(),
            ));
        }
        Followed::Published(address) => {
            let shown = pair(args.certificate.as_deref(), args.private_key.as_deref())?;
            let address = over_tls(address.clone(), args.authority.as_deref(), shown.as_ref())?;
            Box::new(nats::Published::at(address)?)
        }
    };
    let (mut reached, mut retrying) = (false, Retrying::default());
    until_cancelled(&watch, |stop| {
        let mut told = |progress: Result<Progress, &ibid_record::Error>| {
            if let Some(progress) = retrying.told(progress) {
                reached = progress.is_current();
                if reached && args.once {
                    stop.store(true, Relaxed);
                }
            }
        };
        Ok(replicate::follow(&store, &mut *log, stop, &mut told)?)
    })?;
    let log = store.log()?.ok_or(ibid_record::Error::NoLog)?;
    print::records_followed(&mut context.out, log.next, log.epoch, reached)?;
    if args.once && !reached {
        return Err(Failure::Interrupted(
            "the next `ibid records replicate` continues from here".into(),
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

/// Runs `work` until it ends, or the user stops it.
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
