//! What `ibid serve --listen` and `ibid records serve` say.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ibid_terminal::number::counted;
use ibid_terminal::{escape_text, message as line};

/// How often it is said at most that a client was not answered.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// Says where others can connect.
pub(crate) fn serving(address: SocketAddr) {
    line(&format!("listening at {address}; press Ctrl-C to stop"));
}

/// Says which clients were not answered, and why: of many in a second, the first one and how many more there were.
#[derive(Default)]
pub(crate) struct NotAnswered(Mutex<Said>);

#[derive(Default)]
struct Said {
    last: Option<Instant>,
    more: u64,
}

impl NotAnswered {
    pub(crate) fn say(&self, client: SocketAddr, why: &str) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.last.is_some_and(|last| last.elapsed() < SAY_EVERY) {
            said.more += 1;
            return;
        }
        let more = match std::mem::take(&mut said.more) {
            0 => String::new(),
            more => format!(" ({} before it)", counted(more, "more client", "more clients")),
        };
        said.last = Some(Instant::now());
        line(&format!("{client} was not answered: {}{more}", escape_text(why)));
    }
}
