//! One connection to a server, from its greeting to its end. Calls of many threads go over it at once.
//!
//! A thread of the connection [reads answers](super::receive), and wakes the call that each is for when it is complete.
//! Another watches that bytes come: the server says every few seconds that it is alive.

use std::collections::HashMap;
use std::io::{self, BufReader, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ibid_storage::ErrorKind;

use super::budget::Budget;
use super::dial::{Dial, Ended, Ending};
use super::frame::{BYTES_MAX, PIECE, REQUESTS_MAX};
use super::greeting::{NoGreeting, VERSION, greeting, read_greeting};
use super::line::Line;
use super::request::{MORE, Request};
use super::slot::{Answer, Lost, Slot};
use super::watched::{Progress, Watched};
use crate::requests::Kind;
use crate::wire::Shared;

/// One connection.
pub(super) struct Link {
    line: Line<Box<dyn Write + Send>>,
    slots: Mutex<Slots>,
    shared: Arc<Shared>,
    progress: Arc<Progress>,
    /// Requests without an answer.
    asked: Budget,
    /// Objects on their way.
    pub(super) going: Budget,
}

pub(super) struct Slots {
    pub(super) by_number: HashMap<u32, Arc<Slot>>,
    last: u32,
    ending: Option<Box<dyn Ending>>,
    /// Why the connection has ended, and whether the server broke the protocol.
    ended: Option<(Ended, bool)>,
}

impl Link {
    /// Connects, and reads the greeting of the server.
    pub(super) fn connect(dial: &dyn Dial, shared: &Arc<Shared>) -> Result<Arc<Link>, Ended> {
        let streams = dial.dial()?;
        let progress = Arc::new(Progress::default());
        let link = Link {
            line: Line::new(streams.requests),
            slots: Mutex::new(Slots {
                by_number: HashMap::new(),
                last: 0,
                ending: Some(streams.ending),
                ended: None,
            }),
            shared: shared.clone(),
            progress: progress.clone(),
            asked: Budget::new(u64::MAX, REQUESTS_MAX),
            going: Budget::new(BYTES_MAX, usize::MAX),
        };
        let watched = Watched {
            reader: streams.answers,
            shared: shared.clone(),
            progress,
        };
        let mut answers = BufReader::with_capacity(2 * PIECE, watched);
        // If the other side is gone already, what it has said is read below.
        let _ = link.send_raw(&greeting());
        if let Err(error) = read_greeting(&mut answers) {
            return Err(link.not_greeted(error));
        }
        let link = Arc::new(link);
        let thread = std::thread::Builder::new().name("answers".into());
        let spawned = thread.spawn({
            let link = link.clone();
            move || link.read_answers(answers)
        });
        let spawned = spawned.and_then(|_| {
            let (link, stall) = (Arc::downgrade(&link), shared.stall);
            let thread = std::thread::Builder::new().name("stalls".into());
            thread.spawn(move || watch(|| link.upgrade(), stall))
        });
        if let Err(error) = spawned {
            let ended = Ended::hopeless(ErrorKind::Unsupported, format!("no thread can be started: {error}"));
            link.end_with(ended.clone(), false);
            return Err(ended);
        }
        Ok(link)
    }

    /// Ends a connection on which the server did not greet; returns why.
    fn not_greeted(&self, error: NoGreeting) -> Ended {
        let unsupported = |why: String| Ended::hopeless(ErrorKind::Unsupported, why);
        let this = concat!("this is ibid ", env!("CARGO_PKG_VERSION"));
        match error {
            // What ended the connection says why.
            NoGreeting::Nothing | NoGreeting::Io(_) => self.end(true),
            NoGreeting::Noise(found) => {
                self.end(false);
                unsupported(format!(
                    "{found:?} came in place of the greeting of `ibid serve`: a login script there prints it, or \
                     another program was started"
                ))
            }
            NoGreeting::Version { found, program } => {
                self.end(false);
                unsupported(format!(
                    "the server is {program} and speaks version {found} of the connection; {this}, which speaks \
                     version {VERSION}"
                ))
            }
        }
    }

    pub(super) fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns why the connection has ended, if it has.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.slots().ended.as_ref().map(|(ended, _)| ended.clone())
    }

    /// Ends the connection; returns why it has ended. See [`Ending::end`].
    pub(super) fn end(&self, by_itself: bool) -> Ended {
        let ending = self.slots().ending.take();
        match ending {
            Some(mut ending) => {
                let ended = ending.end(by_itself);
                self.note_end(ended, false)
            }
            // Another thread is about to say why, or has.
            None => self.ended().unwrap_or_else(|| Ended::new("the connection was ended")),
        }
    }

    /// Ends the connection for this reason, unless it had ended.
    pub(super) fn end_with(&self, ended: Ended, is_violation: bool) {
        let ending = self.slots().ending.take();
        if let Some(mut ending) = ending {
            ending.end(false);
            self.note_end(ended, is_violation);
        }
    }

    /// Tells all calls that the connection has ended.
    fn note_end(&self, ended: Ended, is_violation: bool) -> Ended {
        let mut slots = self.slots();
        let (ended, is_violation) = slots.ended.get_or_insert((ended, is_violation)).clone();
        let waiting: Vec<Arc<Slot>> = slots.by_number.drain().map(|(_, slot)| slot).collect();
        drop(slots);
        for slot in waiting {
            let lost = Lost {
                ended: ended.clone(),
                is_in_doubt: true,
                is_violation,
            };
            slot.state().end.get_or_insert(Err(lost));
            slot.wake();
        }
        ended
    }

    fn send_raw(&self, bytes: &[u8]) -> io::Result<()> {
        self.shared.counters.moved(bytes.len(), true);
        self.line.send_raw(bytes)
    }

    /// Sends a message, no faster than is allowed.
    fn send(&self, number: u32, kind: u8, fields: &[&[u8]]) -> io::Result<()> {
        let length = 9 + fields.iter().map(|part| part.len()).sum::<usize>();
        // Before its turn, so that small messages pass by.
        self.shared.upload.wait(length);
        self.shared.counters.moved(length, true);
        self.line.send(number, kind, fields)
    }

    /// Sends a request, with the bytes of an object if it is a put, and waits for the answer.
    pub(super) fn call(&self, request: &Request, parts: &[&[u8]], again: bool) -> Result<Answer, Lost> {
        let size: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let _going = self.going.take(size);
        let _asked = self.asked.take(0);
        let slot = Arc::new(Slot::of(request));
        let number = self.enter(&slot)?;
        self.shared.counters.request(kind_of(request), again);
        if self.send_request(number, request, parts).is_err() {
            // The server may have refused and said why, which the other thread reads.
            self.end(true);
        }
        slot.wait()
    }

    /// Enters a call; returns its number.
    fn enter(&self, slot: &Arc<Slot>) -> Result<u32, Lost> {
        let mut slots = self.slots();
        if let Some((ended, is_violation)) = &slots.ended {
            return Err(Lost {
                ended: ended.clone(),
                is_in_doubt: false,
                is_violation: *is_violation,
            });
        }
        loop {
            slots.last = slots.last.wrapping_add(1);
            let number = slots.last;
            if number != 0 && !slots.by_number.contains_key(&number) {
                slots.by_number.insert(number, slot.clone());
                return Ok(number);
            }
        }
    }

    fn send_request(&self, number: u32, request: &Request, parts: &[&[u8]]) -> io::Result<()> {
        let fields = request.fields();
        // Pieces of the object, each from one or more of its parts.
        let mut piece: Vec<&[u8]> = vec![&fields];
        let (mut kind, mut room) = (request.kind(), PIECE);
        for part in parts {
            let mut part = *part;
            while !part.is_empty() {
                if room == 0 {
                    self.send(number, kind, &piece)?;
                    piece.clear();
                    (kind, room) = (MORE, PIECE);
                }
                let (these, others) = part.split_at(part.len().min(room));
                piece.push(these);
                room -= these.len();
                part = others;
            }
        }
        self.send(number, kind, &piece)
    }

    /// Closes the connection, on which nothing is waited for. The server ends then.
    pub(super) fn close(&self) {
        self.line.close();
    }
}

fn kind_of(request: &Request) -> Kind {
    match request {
        Request::Put { .. } => Kind::Put,
        Request::Get { .. } | Request::Read { .. } => Kind::Get,
        Request::Size { .. } => Kind::Head,
        Request::List { .. } | Request::ListTaken { .. } => Kind::List,
        Request::Delete { .. } => Kind::Delete,
        Request::Open { .. } | Request::Settle { .. } => Kind::Other,
    }
}

/// Ends a connection on which no byte has come for `stall`. What counts are looks at it and not a clock, so that a
/// machine which was asleep has time to hear from the server.
fn watch(link: impl Fn() -> Option<Arc<Link>>, stall: Duration) {
    const LOOKS: u32 = 20;
    let (mut seen, mut idle) = (0, 0);
    loop {
        std::thread::sleep(stall / LOOKS);
        let Some(link) = link().filter(|link| link.ended().is_none()) else {
            return;
        };
        let bytes = link.progress.bytes.load(Relaxed);
        idle = match link.progress.waits.load(Relaxed) && bytes == seen {
            true => idle + 1,
            false => 0,
        };
        seen = bytes;
        if idle > LOOKS {
            let why = format!("nothing came for {} s", stall.as_secs_f64().round());
            link.end_with(Ended::new(why), false);
            return;
        }
    }
}
