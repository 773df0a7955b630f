//! The server of a connection.
//!
//! One thread reads requests and never waits for anything but the next bytes, so that the client can always send. A
//! few workers do what is asked. Memory is bounded: a client may not have more on its way than the protocol allows, and
//! workers wait before they read more than that.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use ibid_storage::{Error, ErrorKind, Name, Operation, Storage};

use super::append_only::AppendOnly;
use super::budget::Budget;
use super::line::Line;
use super::messages::{
    ALIVE, BEGUN, BYTES, BYTES_MAX, DONE, FAILED, Failed, Header, MORE, NAMES, NoGreeting, OBJECT_MAX, OPENED, PIECE,
    READ_MAX, REFUSED, REQUESTS_MAX, Request, SIZED, Told, Unread, VERSION, Violation, greeting, put_name, put_text,
    read_greeting, violation,
};

/// Requests that are worked on at once: most of their time goes to a disk.
const WORKERS_MAX: usize = 16;
/// Bytes of names that are sent together.
const NAMES_MAX: usize = 32 << 10;

/// A storage that was opened for a client.
#[non_exhaustive]
pub struct Opened {
    /// The storage.
    pub storage: Arc<dyn Storage>,
    /// The name of a file there that is of no repository, if there is one: then no repository is made there.
    pub other: Option<String>,
}

impl Opened {
    /// Returns a storage with nothing else in it.
    pub fn new(storage: Arc<dyn Storage>) -> Opened {
        Opened { storage, other: None }
    }

    /// Sets the name of a file there that is of no repository.
    #[must_use]
    pub fn beside(mut self, other: Option<String>) -> Opened {
        self.other = other;
        self
    }
}

/// Opens the storage of a server; creates it first if told so.
pub type OpenStorage<'o> = dyn Fn(bool) -> Result<Opened, Error> + Sync + 'o;

/// How [`serve`] serves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServeOptions {
    /// Whether the client can only add to a repository; see [`AppendOnly`].
    pub append_only: bool,
    /// How often the client is told that the connection is alive. By default every 10 s.
    pub alive: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions {
            append_only: false,
            alive: Duration::from_secs(10),
        }
    }
}

impl ServeOptions {
    /// Sets whether the client can only add to a repository.
    #[must_use]
    pub fn append_only(mut self, append_only: bool) -> Self {
        self.append_only = append_only;
        self
    }

    /// Sets how often the client is told that the connection is alive.
    #[must_use]
    pub fn alive(mut self, every: Duration) -> Self {
        self.alive = every;
        self
    }
}

/// Why a server has ended a connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// No client of this protocol speaks.
    #[error("the other side is no client of ibid: it has sent {0:?}")]
    NotAClient(String),
    /// The client speaks another version.
    #[error("the client is {program} and speaks version {found} of the connection, and this is version {VERSION}")]
    Version {
        /// Its version.
        found: u8,
        /// What it says of itself.
        program: String,
    },
    /// The client has sent what the protocol does not have.
    #[error("the client has sent {0}")]
    Violation(#[from] Violation),
    /// The stream of requests can't be read.
    #[error("requests can't be read")]
    Io(#[source] io::Error),
}

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
    let server = Server {
        open,
        options,
        line: Line::new(answers),
        storage: RwLock::default(),
        queue: Mutex::default(),
        wake: Condvar::new(),
        ended: (Mutex::new(false), Condvar::new()),
        asked: Budget::new(u64::MAX, REQUESTS_MAX),
        coming: Budget::new(BYTES_MAX, usize::MAX),
        reading: Budget::new(BYTES_MAX, usize::MAX),
    };
    let mut requests = BufReader::with_capacity(2 * PIECE, requests);
    // A client that is gone is noticed where requests are read.
    let _ = server.line.send_raw(&greeting());
    std::thread::scope(|scope| {
        scope.spawn(|| server.say_alive());
        let ended = server.read_all(&mut requests, &|| {
            scope.spawn(|| server.work());
        });
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

/// What is to be done for a request.
struct Job {
    number: u32,
    request: Request,
    /// The pieces of an object.
    pieces: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    workers: usize,
    ended: bool,
}

struct Server<'s, W> {
    open: &'s OpenStorage<'s>,
    options: &'s ServeOptions,
    line: Line<W>,
    storage: RwLock<Option<(Arc<dyn Storage>, Told)>>,
    queue: Mutex<Queue>,
    wake: Condvar,
    ended: (Mutex<bool>, Condvar),
    /// Requests without an answer.
    asked: Budget,
    /// Objects on their way.
    coming: Budget,
    /// What is read for answers.
    reading: Budget,
}

/// An object of which not all bytes have come.
struct Coming {
    job: Job,
    missing: u64,
}

impl<W: Write + Send> Server<'_, W> {
    /// Reads requests until the client ends the connection.
    fn read_all<R: Read>(&self, reader: &mut BufReader<R>, spawn: &dyn Fn()) -> Result<(), ServeError> {
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
            if let Some(job) = self.take_in(header, &fields, &mut coming)? {
                self.push(job, spawn);
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
                let missing = self.admit(&request)?;
                let job = Job {
                    number,
                    request,
                    pieces: Vec::new(),
                };
                (job, &fields[at..], missing)
            }
        };
        let come = bytes.len() as u64;
        missing = missing
            .checked_sub(come)
            .ok_or_else(|| violation("more bytes of an object than it has announced"))?;
        if come > 0 {
            job.pieces.push(bytes.to_vec());
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

    /// Checks a request against the limits; returns how many bytes of an object follow it.
    fn admit(&self, request: &Request) -> Result<u64, Violation> {
        if !self.asked.try_take(0) {
            return Err(violation(format!("more than {REQUESTS_MAX} requests at once")));
        }
        match *request {
            Request::Put { size, .. } if size > OBJECT_MAX => Err(violation(format!(
                "an object of {size} bytes, where at most {OBJECT_MAX} are allowed"
            ))),
            Request::Put { size, .. } if !self.coming.try_take(size) => Err(violation(format!(
                "an object of {size} bytes, with which more than {BYTES_MAX} are on their way"
            ))),
            Request::Put { size, .. } => Ok(size),
            Request::Read { length, .. } if length > READ_MAX as u64 => Err(violation(format!(
                "a request for {length} bytes, where at most {READ_MAX} are allowed"
            ))),
            _ => Ok(0),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job, spawn: &dyn Fn()) {
        let mut queue = self.queue();
        queue.jobs.push_back(job);
        if queue.jobs.len() > queue.idle && queue.workers < WORKERS_MAX {
            queue.workers += 1;
            spawn();
        }
        drop(queue);
        self.wake.notify_one();
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
        while !*is_over {
            let waited = changed.wait_timeout(is_over, self.options.alive);
            let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            is_over = guard;
            if timeout.timed_out() && !*is_over {
                drop(is_over);
                let _ = self.line.send(0, ALIVE, &[]);
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

    fn fail(&self, number: u32, error: &Error) {
        let _ = self.line.send(number, FAILED, &[&Failed::of(error).encode()]);
    }

    /// Does what is asked, and answers. Where the answer can't be sent, the client is gone.
    fn answer(&self, job: Job) {
        let number = job.number;
        let opened = self.storage.read().unwrap_or_else(PoisonError::into_inner);
        let storage = opened.as_ref().map(|(storage, _)| storage.clone());
        drop(opened);
        let done = match storage {
            Some(storage) => self.execute(&*storage, job),
            None => {
                let (request, found) = (&job.request, "it was not opened");
                let (kind, operation) = (ErrorKind::Unsupported, request.operation());
                let error = Error::new(kind, operation, request.name(), "the server").with_found(found);
                if let Request::Put { size, .. } = job.request {
                    self.coming.give(size);
                }
                Err(error)
            }
        };
        self.asked.give(0);
        match done {
            Ok(End::Done) => drop(self.line.send(number, DONE, &[])),
            Ok(End::Sized(size)) => drop(self.line.send(number, SIZED, &[&size.to_le_bytes()])),
            Err(error) => self.fail(number, &error),
        }
    }

    fn execute(&self, storage: &dyn Storage, job: Job) -> Result<End, Error> {
        let number = job.number;
        match job.request {
            Request::Put { name, size } => {
                let parts: Vec<&[u8]> = job.pieces.iter().map(Vec::as_slice).collect();
                let put = storage.put(&name, &parts);
                drop(parts);
                drop(job.pieces);
                self.coming.give(size);
                put?;
            }
            Request::Get { name, limit } => {
                let size = storage.size(&name).map_err(|error| as_get(error, &name))?;
                if size > limit {
                    return Err(Error::too_large(size, limit, &name, storage.location()));
                }
                let _share = self.reading.take(size);
                let bytes = storage.get(&name, limit)?;
                let _ = self.line.send(number, BEGUN, &[&(bytes.len() as u64).to_le_bytes()]);
                self.send_bytes(number, &bytes);
            }
            Request::Read { name, offset, length } => {
                let _share = self.reading.take(length);
                let mut bytes = vec![0; length as usize];
                storage.read_at(&name, offset, &mut bytes)?;
                self.send_bytes(number, &bytes);
            }
            Request::Size { name } => return Ok(End::Sized(storage.size(&name)?)),
            Request::List { folder } => {
                let mut names = Names::new(self, number);
                storage.list(&folder, &mut |name, size| names.add(&name, size))?;
                names.send();
            }
            Request::ListTaken { folder } => {
                let mut names = Names::new(self, number);
                storage.list_taken(&folder, &mut |name| names.add(&name, 0))?;
                names.send();
            }
            Request::Settle { name } => storage.settle(&name)?,
            Request::Delete { name } => storage.delete(&name)?,
            Request::Open { .. } => {} // done where requests are read
        }
        Ok(End::Done)
    }

    fn send_bytes(&self, number: u32, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE) {
            if self.line.send(number, BYTES, &[piece]).is_err() {
                return;
            }
        }
    }
}

/// How the answer to a request ends.
enum End {
    Done,
    Sized(u64),
}

/// Returns an error of a size as one of the read that it prepared.
fn as_get(error: Error, name: &Name) -> Error {
    let found = Failed::of(&error).found;
    Error::new(error.kind(), Operation::Get, Some(name), error.location()).with_found(found)
}

/// Names on their way to the client.
struct Names<'s, 'o, W> {
    server: &'s Server<'o, W>,
    number: u32,
    fields: Vec<u8>,
}

impl<'s, 'o, W: Write + Send> Names<'s, 'o, W> {
    fn new(server: &'s Server<'o, W>, number: u32) -> Self {
        Names {
            server,
            number,
            fields: Vec::new(),
        }
    }

    fn add(&mut self, name: &Name, size: u64) {
        put_name(&mut self.fields, name.as_str());
        self.fields.extend(size.to_le_bytes());
        if self.fields.len() > NAMES_MAX {
            self.send();
        }
    }

    fn send(&mut self) {
        if !self.fields.is_empty() {
            let _ = self.server.line.send(self.number, NAMES, &[&self.fields]);
            self.fields.clear();
        }
    }
}
