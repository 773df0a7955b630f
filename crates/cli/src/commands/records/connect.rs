//! How `ibid records` reaches other stores: certificates, tries, and Ctrl-C.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use ibid_record::Error;
use ibid_record::replicate::Progress;
use ibid_record::replicate::nats;
use ibid_record::replicate::net::{Connection, tls};
use ibid_terminal::number::counted;

use crate::args::ConnectionArgs;
use crate::commands::watch::Watch;
use crate::failure::{Failure, Result};
use crate::print;

/// How often to check whether the user wants to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The tries of a command that ends by itself. They take longer than a cluster of NATS needs to
/// elect a leader.
pub(super) const TRIES: u64 = 10;

pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|source| Failure::local("read", path, source))
}

/// Reads certificate and key (PEM), if they are given.
pub(super) fn pair(certificate: Option<&Path>, key: Option<&Path>) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let read = |(certificate, key)| Ok((read(certificate)?, read(key)?));
    certificate.zip(key).map(read).transpose()
}

pub(super) fn identity((certificates, key): &(Vec<u8>, Vec<u8>)) -> tls::Identity<'_> {
    tls::Identity { certificates, key }
}

/// Returns the address, with TLS if there is an authority, and with credentials if there are some.
pub(super) fn known_at(
    at: nats::Address,
    authority: Option<&Path>,
    shown: Option<&(Vec<u8>, Vec<u8>)>,
    credentials: Option<&Path>,
) -> Result<nats::Address> {
    let at = match authority {
        Some(authority) => at.with_tls(&read(authority)?, shown.map(identity))?,
        None => at,
    };
    Ok(match credentials {
        Some(credentials) => at.with_credentials(&read(credentials)?)?,
        None => at,
    })
}

impl ConnectionArgs {
    fn shown(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        pair(self.certificate.as_deref(), self.private_key.as_deref())
    }

    /// Returns a connection to a store that is served at `address`.
    pub(super) fn served(&self, address: &str) -> Result<Connection> {
        if self.nats_credentials.is_some() {
            return Err(Failure::Usage(
                "--nats-credentials does not go with HOST:PORT: a store that is served knows replicas by --certificate"
                    .to_owned(),
            ));
        }
        let connection = Connection::to(address);
        let Some(authority) = &self.authority else {
            return Ok(connection);
        };
        let shown = self.shown()?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let name = self.server_name.as_deref().unwrap_or(host);
        let client = tls::Client::new(&read(authority)?, name, shown.as_ref().map(identity))?;
        Ok(connection.with_tls(client))
    }

    /// Returns the log that is published at `address`.
    pub(super) fn published(&self, address: &nats::Address) -> Result<nats::Published> {
        if self.server_name.is_some() {
            return Err(Failure::Usage(
                "--server-name does not go with nats://: each NATS server has a certificate for its own host"
                    .to_owned(),
            ));
        }
        let shown = self.shown()?;
        let (authority, credentials) = (self.authority.as_deref(), self.nats_credentials.as_deref());
        let address = known_at(address.clone(), authority, shown.as_ref(), credentials)?;
        Ok(nats::Published::at(address)?)
    }

    /// Returns whether any of these options was given.
    pub(super) fn is_given(&self) -> bool {
        self.authority.is_some() || self.nats_credentials.is_some() || self.tries.is_some()
    }
}

/// Prints why a step is retried, each reason once, and gives up after a number of tries in a row.
#[derive(Default)]
pub(super) struct Retrying {
    tries: Option<u64>,
    failed: u64,
    said: BTreeSet<String>,
    last: Option<Error>,
    answered: bool,
}

impl Retrying {
    /// Returns a counter that gives up after this number of tries; never without a number.
    pub(super) fn up_to(tries: Option<u64>) -> Self {
        Retrying {
            tries,
            ..Retrying::default()
        }
    }

    /// Notes what a try brought, and sets `stop` if it was the last. Returns the progress.
    pub(super) fn told(&mut self, progress: Result<Progress, &Error>, stop: &AtomicBool) -> Option<Progress> {
        let error = match progress {
            Ok(progress) => {
                (self.failed, self.last, self.answered) = (0, None, true);
                self.said.clear();
                return Some(progress);
            }
            Err(error) => error,
        };
        self.failed += 1;
        self.last = Some(error.clone());
        if self.is_over() {
            stop.store(true, Relaxed);
        } else if self.said.insert(error.to_string()) {
            print::records_retrying(&error.to_string(), self.tries);
        }
        None
    }

    /// Returns whether there was an answer.
    pub(super) fn was_answered(&self) -> bool {
        self.answered
    }

    fn is_over(&self) -> bool {
        self.tries.is_some_and(|tries| self.failed >= tries)
    }

    /// Returns the failure of the last try if there are no more.
    pub(super) fn gave_up(self) -> Result<()> {
        match &self.last {
            Some(last) if self.is_over() => {
                let tries = counted(self.failed, "try", "tries");
                Err(Failure::Records(last.clone()).after(format!("gave up after {tries}")))
            }
            _ => Ok(()),
        }
    }
}

/// Runs `work` until it ends, or the user stops it.
pub(super) fn until_cancelled<T>(watch: &Watch, work: impl FnOnce(&AtomicBool) -> Result<T>) -> Result<T> {
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
