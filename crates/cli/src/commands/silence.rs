//! Says on a terminal that a server does not answer, since a command that waits looks as one that hangs.

use std::io::IsTerminal;
use std::sync::{Arc, Weak};
use std::thread::{Builder, sleep};
use std::time::Duration;

use ibid_remote::connection::HostStorage;
use ibid_remote::{ObjectStorage, Silence};
use ibid_storage::Storage;

use super::place::Place;
use crate::print;

/// After how long it is said.
const SAID_AFTER: Duration = Duration::from_secs(5);
/// How often a storage is asked how long its server has been silent.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// What watches a storage without keeping it.
enum Watched {
    Server(Weak<ObjectStorage>),
    Host(Weak<HostStorage>),
}

impl Watched {
    fn get(&self) -> Option<(Option<Silence>, String)> {
        Some(match self {
            Watched::Server(server) => server.upgrade().map(|server| (server.silence(), server.location()))?,
            Watched::Host(host) => host.upgrade().map(|host| (host.silence(), host.location()))?,
        })
    }
}

/// Says when the server of a place is silent, and when it answers again, for as long as the place is in use. Without a
/// terminal, and with --quiet, it says nothing: then the error says how often was tried. A command that ends as soon as
/// it has its answer shows that, and need not say it.
pub(crate) fn tell(place: &Place, quiet: bool) {
    if quiet || !std::io::stderr().is_terminal() {
        return;
    }
    let watched = match place {
        Place::Server(server) => Watched::Server(Arc::downgrade(server)),
        Place::Host(host) => Watched::Host(Arc::downgrade(host)),
        // The first one reads the storage of a server that is watched.
        Place::Past(_) | Place::Folder(_) => return,
    };
    let watch = move || {
        let mut lasted = Duration::ZERO;
        while let Some((silence, location)) = watched.get() {
            match silence {
                Some(silence) if silence.lasts >= SAID_AFTER => {
                    if lasted.is_zero() {
                        print::silent(&location, &silence);
                    }
                    lasted = silence.lasts;
                }
                _ if !lasted.is_zero() => {
                    print::answers_again(&location, lasted);
                    lasted = Duration::ZERO;
                }
                _ => {}
            }
            sleep(ASK_EVERY);
        }
    };
    // Without this thread, the command says less and does the same.
    let _ = Builder::new().name("silence".into()).spawn(watch);
}
