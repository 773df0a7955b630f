//! The server of a connection.
//!
//! One thread reads requests and never waits for anything but the next bytes, so that the client can always send. A
//! few workers [do what is asked](super::execute). Memory is bounded: a client may not have more on its way than its
//! window allows, and workers wait before they read more than that. What is longer than the window comes alone; where
//! a server has many clients, it is for [all of them](Neighbours) together that there is room for so much.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{Builder, Scope};

use ibid_storage::Storage;

use super::answer::{ALIVE, OPENED, REFUSED, Told};
use super::append_only::AppendOnly;
use super::budget::{Budget, Share};
use super::frame::{
    BYTES_MAX, Header, OBJECT_MAX, PIECE, READ_MAX, REQUESTS_MAX, Unread, Violation, put_text, violation,
};
use super::greeting::{NoGreeting, greeting, read_greeting};
use super::line::Line;
use super::request::{MORE, Request};
use super::serving::{OpenStorage, ServeError, ServeOptions};

/// Requests that are worked on at once: most of their time goes to a disk. With a small window there are fewer.
const WORKERS: std::ops::RangeInclusive<u64> = 2..=16;
/// Bytes of the window for each worker.
const WINDOW_OF_WORKER: u64 = 2 << 20;

/// What a client shares with the others of its server.
pub(super) struct Neighbours<'s> {
    /// Bytes of puts without an answer that this client may have.
    pub(super) window: u64,
    /// Room for objects on their way that are longer than a window.
    pub(super) coming: Option<Arc<Budget>>,
    /// Room for what is read for answers and longer than a window.
    pub(super) reading: Option<Arc<Budget>>,
    /// Ends the streams of this client, of which nothing comes any more where something is due.
    pub(super) give_up: &'s (dyn Fn() + Sync),
}

/// How often the client is told that the connection is alive, in a row, while nothing comes of an object that it has
/// begun to send, until it is given up.
const SILENT_MAX: u32 = 12;

/// Answers the client at the other end of two streams until it ends the connection.
///
/// Objects that it has sent whole are stored, also if it is gone before that is done.
///
/// # Errors
/// If the client does not speak this protocol. That it is gone is none.
pub fn serve<W: Write + Send>(
    open: &OpenStorage<'_>,
    requests: impl Read,
    answers: W,
    options: &ServeOptions,
) -> Result<(), ServeError> {
    let alone = Neighbours {
        window: BYTES_MAX,
        coming: None,
        reading: None,
        give_up: &|| (),
    };
    serve_beside(open, requests, answers, options, &alone)
}

/// As [`serve`], for one of several clients.
pub(super) fn serve_beside<W: Write + Send>(
    open: &OpenStorage<'_>,
    requests: impl Read,
    answers: W,
    options: &ServeOptions,
    neighbours: &Neighbours<'_>,
) -> Result<(), ServeError> {
    let server = Server {
        open,
        options,
        neighbours,
        workers_max: (neighbours.window / WINDOW_OF_WORKER).clamp(*WORKERS.start(), *WORKERS.end()) as usize,
        came: AtomicU64::new(0),
        is_due: AtomicBool::new(false),
        line: Line::new(answers),
        storage: RwLock::default(),
        queue: Mutex::default(),
        wake: Condvar::new(),
        ended: (Mutex::new(false), Condvar::new()),
        asked: Budget::new(u64::MAX, REQUESTS_MAX),
        coming: Budget::new(neighbours.window, usize::MAX),
        reading: Budget::new(neighbours.window, usize::MAX),
    };
    let mut requests = BufReader::with_capacity(2 * PIECE, requests);
    // A client that is gone is noticed where requests are read.
    let _ = server.line.send_raw(&greeting());
    std::thread::scope(|scope| {
        let alive = spawn(scope, || server.say_alive());
        let ended = alive
            .map_err(ServeError::Io)
            .and_then(|()| server.read_all(&mut requests, &|| spawn(scope, || server.work())));
        if let Err(error @ (ServeError::Violation(_) | ServeError::Version { .. } | ServeError::NotAClient(_))) = &ended
        {
            let mut why = Vec::new();
            put_text(&mut why, &error.to_string());
            let _ = server.line.send(0, REFUSED, &[&why]);
        }
        server.end();
        ended
    })
}

/// A share of the room for long objects.
pub(super) type Room = Share<Arc<Budget>>;

/// Starts a thread, if the system has one more.
fn spawn<'scope>(scope: &'scope Scope<'scope, '_>, work: impl FnOnce() + Send + 'scope) -> io::Result<()> {
    Builder::new().spawn_scoped(scope, work).map(drop)
}

/// What is to be done for a request.
pub(super) struct Job {
    pub(super) number: u32,
    pub(super) request: Request,
    /// The pieces of an object.
    pub(super) pieces: Vec<Vec<u8>>,
    /// Its share of the room for long objects.
    pub(super) room: Option<Room>,
}

impl Job {
    /// Adds bytes of its object. However small the pieces are in which they come, they take little more memory than
    /// they have bytes.
    fn add(&mut self, bytes: &[u8]) {
        match self.pieces.last_mut() {
            Some(last) if last.len() + bytes.len() <= PIECE => last.extend_from_slice(bytes),
            _ => self.pieces.push(bytes.to_vec()),
        }
    }
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    workers: usize,
    ended: bool,
}

pub(super) struct Server<'s, W> {
    open: &'s OpenStorage<'s>,
    options: &'s ServeOptions,
    pub(super) neighbours: &'s Neighbours<'s>,
    workers_max: usize,
    /// Messages that have come.
    came: AtomicU64,
    /// Whether an object has come in part.
    is_due: AtomicBool,
    pub(super) line: Line<W>,
    pub(super) storage: RwLock<Option<(Arc<dyn Storage>, Told)>>,
    queue: Mutex<Queue>,
    wake: Condvar,
    ended: (Mutex<bool>, Condvar),
    /// Requests without an answer.
    pub(super) asked: Budget,
    /// Objects on their way.
    pub(super) coming: Budget,
    /// What is read for answers.
    pub(super) reading: Budget,
}

/// An object of which not all bytes have come.
struct Coming {
    job: Job,
    missing: u64,
}

impl<W: Write + Send> Server<'_, W> {
    /// Reads requests until the client ends the connection.
    fn read_all<R: Read>(
        &self,
        reader: &mut BufReader<R>,
        spawn: &dyn Fn() -> io::Result<()>,
    ) -> Result<(), ServeError> {
        match read_greeting(reader) {
            Ok(_) => {}
            Err(NoGreeting::Nothing) => return Ok(()),
            Err(NoGreeting::Io(error)) => return Err(ServeError::Io(error)),
            Err(NoGreeting::Noise(found)) => return Err(ServeError::NotAClient(found)),
            Err(NoGreeting::Version { found, program }) => return Err(ServeError::Version { found, program }),
        }
        let mut coming: HashMap<u32, Coming> = HashMap::new();
        let mut fields = Vec::new();
        loop {
            let read = Header::read(reader).and_then(|header| match header {
                Some(header) => {
                    header.read_fields(reader, &mut fields)?;
                    Ok(Some(header))
                }
                None => Ok(None),
            });
            let header = match read {
                Ok(Some(header)) => header,
                Ok(None) => return Ok(()),
                Err(Unread::Violation(violation)) => return Err(violation.into()),
                // The client is gone, and with it what it had not sent to the end.
                Err(Unread::Io(error))
                    if matches!(
                        error.kind(),
                        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
                    ) =>
                {
                    return Ok(());
                }
                Err(Unread::Io(error)) => return Err(ServeError::Io(error)),
            };
            self.came.fetch_add(1, Relaxed);
            let job = self.take_in(header, &fields, &mut coming)?;
            self.is_due.store(!coming.is_empty(), Relaxed);
            if let Some(job) = job {
                self.push(job, spawn).map_err(ServeError::Io)?;
            }
        }
    }

    /// Takes in a message; returns what is to be done if it completes a request.
    fn take_in(
        &self,
        header: Header,
        fields: &[u8],
        coming: &mut HashMap<u32, Coming>,
    ) -> Result<Option<Job>, Violation> {
        let number = header.number;
        let (mut job, bytes, mut missing) = match header.kind {
            MORE => {
                let found = coming.remove(&number);
                let Coming { job, missing } =
                    found.ok_or_else(|| violation("bytes of an object that it has not put"))?;
                (job, fields, missing)
            }
            kind => {
                let (request, at) = Request::decode(kind, fields)?;
                if coming.contains_key(&number) {
                    return Err(violation("two requests of one number"));
                }
                let (missing, room) = self.admit(&request)?;
                let job = Job {
                    number,
                    request,
                    pieces: Vec::new(),
                    room,
                };
                (job, &fields[at..], missing)
            }
        };
        let come = bytes.len() as u64;
        missing = missing
            .checked_sub(come)
            .ok_or_else(|| violation("more bytes of an object than it has announced"))?;
        if come > 0 {
            job.add(bytes);
        } else if header.kind == MORE {
            return Err(violation("no bytes where more of an object were due"));
        }
        if missing > 0 {
            coming.insert(number, Coming { job, missing });
            return Ok(None);
        }
        if let Request::Open { create } = job.request {
            // Whatever follows finds it open.
            self.open(number, create);
            return Ok(None);
        }
        Ok(Some(job))
    }

    /// Checks a request against the limits; returns how many bytes of an object follow it, and the room for them.
    fn admit(&self, request: &Request) -> Result<(u64, Option<Room>), Violation> {
        if !self.asked.try_take(0) {
            return Err(violation(format!("more than {REQUESTS_MAX} requests at once")));
        }
        match *request {
            Request::Put { size, .. } if size > OBJECT_MAX => Err(violation(format!(
                "an object of {size} bytes, where at most {OBJECT_MAX} are allowed"
            ))),
            Request::Put { size, .. } if !self.coming.try_take(size) => Err(violation(format!(
                "an object of {size} bytes, with which more than {} are on their way",
                self.neighbours.window
            ))),
            // It comes alone: the client holds nothing for which others could wait, while this one waits for them.
            Request::Put { size, .. } if size > self.neighbours.window => {
                Ok((size, self.neighbours.coming.as_ref().map(|room| room.take_shared(size))))
            }
            Request::Put { size, .. } => Ok((size, None)),
            Request::Read { length, .. } if length > READ_MAX as u64 => Err(violation(format!(
                "a request for {length} bytes, where at most {READ_MAX} are allowed"
            ))),
            _ => Ok((0, None)),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job, spawn: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        let mut queue = self.queue();
        queue.jobs.push_back(job);
        if queue.jobs.len() > queue.idle && queue.workers < self.workers_max {
            match spawn() {
                Ok(()) => queue.workers += 1,
                // The others do it.
                Err(_) if queue.workers > 0 => {}
                Err(error) => return Err(error),
            }
        }
        drop(queue);
        self.wake.notify_one();
        Ok(())
    }

    /// Ends the workers: what they have begun they complete.
    fn end(&self) {
        let mut queue = self.queue();
        queue.ended = true;
        queue.jobs.clear();
        drop(queue);
        self.wake.notify_all();
        *self.ended.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.1.notify_all();
    }

    fn say_alive(&self) {
        let (ended, changed) = &self.ended;
        let mut is_over = ended.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut seen, mut silent) = (0, 0);
        while !*is_over {
            let waited = changed.wait_timeout(is_over, self.options.alive);
            let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            is_over = guard;
            if timeout.timed_out() && !*is_over {
                drop(is_over);
                let _ = self.line.send(0, ALIVE, &[]);
                let came = self.came.load(Relaxed);
                silent = match self.is_due.load(Relaxed) && came == seen {
                    true => silent + 1,
                    false => 0,
                };
                seen = came;
                if silent == SILENT_MAX {
                    (self.neighbours.give_up)();
                }
                is_over = ended.lock().unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn work(&self) {
        loop {
            let mut queue = self.queue();
            let job = loop {
                if queue.ended {
                    return;
                }
                if let Some(job) = queue.jobs.pop_front() {
                    break job;
                }
                queue.idle += 1;
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
            };
            drop(queue);
            self.answer(job);
        }
    }

    fn open(&self, number: u32, create: bool) {
        let mut storage = self.storage.write().unwrap_or_else(PoisonError::into_inner);
        let told = match &*storage {
            Some((_, told)) => Ok(told.encode()),
            None => (self.open)(create).map(|opened| {
                let told = Told {
                    append_only: self.options.append_only,
                    window: self.neighbours.window,
                    place: opened.storage.location(),
                    other: opened.other.unwrap_or_default(),
                };
                let opened: Arc<dyn Storage> = match self.options.append_only {
                    true => Arc::new(AppendOnly::new(opened.storage)),
                    false => opened.storage,
                };
                let bytes = told.encode();
                *storage = Some((opened, told));
                bytes
            }),
        };
        drop(storage);
        self.asked.give(0);
        match told {
            Ok(fields) => drop(self.line.send(number, OPENED, &[&fields])),
            Err(error) => self.fail(number, &error),
        }
    }
}
