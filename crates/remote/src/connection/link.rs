//! One connection to a server, from its greeting to its end. Calls of many threads go over it at once.
//!
//! A thread of the connection reads answers, straight into the buffer of the call that each is for, and wakes the call
//! when its answer is complete. Another watches that bytes come: the server says every few seconds that it is alive.

use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ibid_storage::{ErrorKind, Name};

use super::budget::Budget;
use super::decode::Fields;
use super::line::Line;
use super::messages::{
    ALIVE, BEGUN, BYTES, BYTES_MAX, DONE, FAILED, Failed, Header, MORE, NAMES, NoGreeting, OPENED, PIECE, REFUSED,
    REQUESTS_MAX, Request, SIZED, Told, Unread, VERSION, Violation, greeting, plain, read_greeting, violation,
};
use super::watched::{Progress, Watched};
use crate::requests::Kind;
use crate::wire::Shared;

/// Memory that is taken for an object before its bytes come, at most.
const AHEAD: usize = 32 << 20;
/// Bytes of the names of one list.
const NAMES_MAX: usize = 2 << 30;

/// Reaches a server, anew each time that a connection is lost.
pub trait Dial: Send + Sync {
    /// Starts what leads to the server. That it is reached shows when its greeting comes.
    ///
    /// # Errors
    /// If nothing can be started.
    fn dial(&self) -> io::Result<Streams>;
}

/// Two streams that lead to a server, and what ends them.
pub struct Streams {
    /// What the server sends.
    pub answers: Box<dyn Read + Send>,
    /// What it is sent. The server must see the end of this stream when it is dropped.
    pub requests: Box<dyn Write + Send>,
    /// Ends both.
    pub ending: Box<dyn Ending>,
}

/// Ends the streams to a server.
pub trait Ending: Send {
    /// Ends both streams, if they have not ended, so that reads and writes return. `by_itself` says that one has ended,
    /// so that there is a reason to find. Returns why.
    fn end(&mut self, by_itself: bool) -> Ended;
}

/// Why a connection has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ended {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// Why, for people.
    pub why: String,
    /// Whether it is of no use to try again, if the server was never reached.
    pub is_hopeless: bool,
}

impl Ended {
    /// Returns a reason that may pass.
    pub fn new(why: impl Into<String>) -> Ended {
        Ended {
            kind: ErrorKind::Io,
            why: why.into(),
            is_hopeless: false,
        }
    }

    /// Returns a reason that does not pass by itself.
    pub fn hopeless(kind: ErrorKind, why: impl Into<String>) -> Ended {
        Ended {
            kind,
            why: why.into(),
            is_hopeless: true,
        }
    }
}

/// What a call accepts as its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    Opened,
    Done,
    Size,
    Names,
    /// An object of at most so many bytes.
    Whole {
        limit: u64,
    },
    /// Just so many bytes.
    Part {
        length: u64,
    },
}

/// How the answer to a call ended.
#[derive(Clone, Debug)]
pub(super) enum End {
    Done,
    Size(u64),
    Opened(Told),
    Failed(Failed),
}

/// A complete answer: what came, and how it ended.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) bytes: Vec<u8>,
    pub(super) end: End,
}

/// A call that got no answer.
#[derive(Clone, Debug)]
pub(super) struct Lost {
    pub(super) ended: Ended,
    /// Whether the server may have the request.
    pub(super) is_in_doubt: bool,
    /// Whether the server does not keep to the protocol, so that asking again is of no use.
    pub(super) is_violation: bool,
}

/// A call that waits for its answer.
struct Slot {
    wants: Wants,
    state: Mutex<SlotState>,
    changed: Condvar,
}

#[derive(Default)]
struct SlotState {
    bytes: Vec<u8>,
    /// How long the object is, once the server has said it.
    begun: Option<u64>,
    end: Option<Result<End, Lost>>,
}

impl Slot {
    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection.
pub(super) struct Link {
    line: Line<Box<dyn Write + Send>>,
    slots: Mutex<Slots>,
    shared: Arc<Shared>,
    progress: Arc<Progress>,
    /// Requests without an answer.
    asked: Budget,
    /// Objects on their way.
    going: Budget,
}

struct Slots {
    by_number: HashMap<u32, Arc<Slot>>,
    last: u32,
    ending: Option<Box<dyn Ending>>,
    /// Why the connection has ended, and whether the server broke the protocol.
    ended: Option<(Ended, bool)>,
}

impl Link {
    /// Connects, and reads the greeting of the server.
    pub(super) fn connect(dial: &dyn Dial, shared: &Arc<Shared>) -> Result<Arc<Link>, Ended> {
        let streams = dial
            .dial()
            .map_err(|error| Ended::hopeless(ErrorKind::Unsupported, format!("no program can be started: {error}")))?;
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

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns why the connection has ended, if it has.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.slots().ended.as_ref().map(|(ended, _)| ended.clone())
    }

    /// Ends the connection; returns why it has ended. See [`Ending::end`].
    fn end(&self, by_itself: bool) -> Ended {
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
    fn end_with(&self, ended: Ended, is_violation: bool) {
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
            slot.changed.notify_all();
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
        let slot = Arc::new(Slot {
            wants: wants(request),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let number = self.enter(&slot)?;
        self.shared.counters.request(kind_of(request), again);
        if self.send_request(number, request, parts).is_err() {
            // The server may have refused and said why, which the other thread reads.
            self.end(true);
        }
        let mut state = slot.state();
        loop {
            match state.end.take() {
                Some(Ok(end)) => {
                    let bytes = std::mem::take(&mut state.bytes);
                    return Ok(Answer { bytes, end });
                }
                Some(Err(lost)) => return Err(lost),
                None => state = slot.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
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

    /// Reads answers until the connection ends.
    fn read_answers(&self, mut answers: BufReader<Watched<Box<dyn Read + Send>>>) {
        let mut fields = Vec::new();
        loop {
            let read = Header::read(&mut answers).and_then(|header| match header {
                Some(header) => self.take_in(header, &mut answers, &mut fields).map(|()| true),
                None => Ok(false),
            });
            match read {
                Ok(true) => {}
                Ok(false) | Err(Unread::Io(_)) => {
                    self.end(true);
                    return;
                }
                Err(Unread::Violation(Violation(found))) => {
                    let why = format!("the server has sent {found}");
                    self.end_with(Ended::hopeless(ErrorKind::Io, why), true);
                    return;
                }
            }
        }
    }

    fn slot(&self, number: u32) -> Result<Arc<Slot>, Violation> {
        let slot = self.slots().by_number.get(&number).cloned();
        slot.ok_or_else(|| violation("an answer to a request that was not made"))
    }

    /// Completes a call.
    fn complete(&self, number: u32, end: End) -> Result<(), Violation> {
        let slot = self.slot(number)?;
        let mut state = slot.state();
        let length = state.bytes.len() as u64;
        let is_due = match (&end, slot.wants) {
            (End::Failed(_), _) => true,
            (End::Opened(_), wants) => wants == Wants::Opened,
            (End::Size(_), wants) => wants == Wants::Size,
            (End::Done, Wants::Done | Wants::Names) => true,
            (End::Done, Wants::Whole { .. }) => state.begun == Some(length),
            (End::Done, Wants::Part { length: wanted }) => wanted == length,
            (End::Done, Wants::Opened | Wants::Size) => false,
        };
        if !is_due {
            return Err(violation("an answer of the wrong kind or length"));
        }
        state.end = Some(Ok(end));
        drop(state);
        self.slots().by_number.remove(&number);
        slot.changed.notify_all();
        Ok(())
    }

    /// Takes in a message of the server.
    fn take_in(&self, header: Header, reader: &mut impl Read, fields: &mut Vec<u8>) -> Result<(), Unread> {
        let number = header.number;
        if matches!(header.kind, BYTES | NAMES) {
            return self.append(header, reader);
        }
        header.read_fields(reader, fields)?;
        let mut of = Fields::new(fields);
        match header.kind {
            OPENED => self.complete(number, End::Opened(Told::decode(fields)?))?,
            FAILED => self.complete(number, End::Failed(Failed::decode(fields)?))?,
            DONE => {
                of.end()?;
                self.complete(number, End::Done)?;
            }
            SIZED => {
                let size = of.u64()?;
                of.end()?;
                self.complete(number, End::Size(size))?;
            }
            BEGUN => {
                let size = of.u64()?;
                of.end()?;
                let slot = self.slot(number)?;
                let mut state = slot.state();
                match slot.wants {
                    Wants::Whole { limit } if size <= limit && state.begun.is_none() => {}
                    _ => return Err(violation("an object that was not asked for, or too long a one").into()),
                }
                state.begun = Some(size);
                state
                    .bytes
                    .reserve_exact(usize::try_from(size).unwrap_or(AHEAD).min(AHEAD));
            }
            ALIVE => of.end()?,
            REFUSED => {
                let found = of.text()?;
                let why = format!("the server refuses to go on: {}", plain(&found));
                self.end_with(Ended::hopeless(ErrorKind::Io, why), true);
                return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into());
            }
            kind => return Err(violation(format!("an answer of the unknown kind {kind}")).into()),
        }
        Ok(())
    }

    /// Appends bytes to the answer of a call.
    fn append(&self, header: Header, reader: &mut impl Read) -> Result<(), Unread> {
        let slot = self.slot(header.number)?;
        let mut state = slot.state();
        let room = match (header.kind, slot.wants) {
            (BYTES, Wants::Whole { .. }) => state.begun.unwrap_or(0),
            (BYTES, Wants::Part { length }) => length,
            (NAMES, Wants::Names) => NAMES_MAX as u64,
            _ => 0,
        };
        if header.length as u64 > room.saturating_sub(state.bytes.len() as u64) {
            return Err(violation("more bytes than were asked for").into());
        }
        // Not under the lock: the bytes may come slowly, and the call has to learn of an end meanwhile.
        let mut bytes = std::mem::take(&mut state.bytes);
        drop(state);
        if let (0, Wants::Part { length }) = (bytes.capacity(), slot.wants) {
            bytes.reserve_exact((length as usize).min(AHEAD));
        }
        let read = header.append_fields(reader, &mut bytes);
        slot.state().bytes = bytes;
        Ok(read?)
    }
}

/// Returns what a request accepts as its answer.
fn wants(request: &Request) -> Wants {
    match *request {
        Request::Open { .. } => Wants::Opened,
        Request::Put { .. } | Request::Settle { .. } | Request::Delete { .. } => Wants::Done,
        Request::Get { limit, .. } => Wants::Whole { limit },
        Request::Read { length, .. } => Wants::Part { length },
        Request::Size { .. } => Wants::Size,
        Request::List { .. } | Request::ListTaken { .. } => Wants::Names,
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

/// Calls `each` with the names of an answer.
pub(super) fn each_name(bytes: &[u8], each: &mut dyn FnMut(Name, u64)) -> Result<(), Violation> {
    let mut fields = Fields::new(bytes);
    while fields.left() > 0 {
        let (name, size) = (fields.name()?, fields.u64()?);
        each(name, size);
    }
    Ok(())
}
