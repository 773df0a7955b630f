//! [`HostStorage`]: the storage trait over a connection, which is made again when it is lost.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use ibid_storage::{Error, ErrorKind, Name, Operation, Storage};

use super::answer::Told;
use super::dial::{Dial, Ended};
use super::frame::{OBJECT_MAX, READ_MAX};
use super::link::Link;
use super::receive::each_name;
use super::request::Request;
use super::slot::{Answer, End, Lost};
use crate::found::{Found, compare};
use crate::objects::{PAUSE_FIRST, next_pause};
use crate::wire::{FIRST_TRIES, Pace, Shared};
use crate::{Options, Requests, Silence};

/// A server that was never reached is given up earlier if so much time has gone by.
const FIRST_PATIENCE: Duration = Duration::from_secs(30);
/// Requests to delete that are sent at once.
const DELETES: usize = 16;
/// How often a call is tried at least whose connection is lost each time, however long that takes.
const TRIES_MIN: u32 = 3;

/// Objects that `ibid serve` keeps on another machine.
///
/// Calls block, and many at once share one connection. If it is lost, it is made again, for as long as
/// [`Options::patience`] says, and what had no answer is asked again. Call [`open`](HostStorage::open) or
/// [`create`](HostStorage::create) first.
///
/// **No put overwrites.** If it is not known whether one was done, it is sent again, and an object with the very bytes
/// is taken for the one that was sent.
pub struct HostStorage {
    dial: Box<dyn Dial>,
    location: String,
    shared: Arc<Shared>,
    patience: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    link: Option<Arc<Link>>,
    /// What the server has said of the storage, once it is open.
    told: Option<Told>,
    /// Whether the server was ever reached.
    was_reached: bool,
    /// Since when it can't be reached.
    down_since: Option<Instant>,
}

impl fmt::Debug for HostStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostStorage")
            .field("location", &self.location)
            .finish_non_exhaustive()
    }
}

impl Drop for HostStorage {
    fn drop(&mut self) {
        if let Some(link) = &self.state().link {
            link.close();
        }
    }
}

/// A request that failed for want of a connection.
struct Trouble {
    ended: Ended,
    tries: u32,
}

impl HostStorage {
    /// Returns a storage that `dial` leads to, and that messages call `location`. Nothing is started yet. Of the
    /// options, limits of speed, patience and stall are used.
    pub fn new(dial: impl Dial + 'static, location: impl Into<String>, options: &Options) -> HostStorage {
        let shared = Shared::new(Pace::new(options.upload), Pace::new(options.download), options.stall);
        HostStorage {
            dial: Box::new(dial),
            location: location.into(),
            shared: Arc::new(shared),
            patience: options.patience,
            state: Mutex::default(),
        }
    }

    /// Opens the storage on the other machine.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) if there is none; then [`create`](HostStorage::create) makes it. If the server
    /// can't be reached, [`PermissionDenied`](ErrorKind::PermissionDenied) where SSH refuses,
    /// [`Unsupported`](ErrorKind::Unsupported) where no `ibid` of this version answers, and otherwise
    /// [`Io`](ErrorKind::Io).
    pub fn open(&self) -> Result<(), Error> {
        self.open_or_create(false)
    }

    /// Opens the storage on the other machine, and makes it first if there is none.
    ///
    /// # Errors
    /// As [`open`](HostStorage::open), and if it can't be made.
    pub fn create(&self) -> Result<(), Error> {
        self.open_or_create(true)
    }

    fn open_or_create(&self, create: bool) -> Result<(), Error> {
        let request = Request::Open { create };
        match self.ask(&request, &[])?.0.end {
            End::Opened(told) => {
                self.state().told = Some(told);
                Ok(())
            }
            end => Err(self.refused(&request, end)),
        }
    }

    /// Returns what was sent so far.
    #[must_use]
    pub fn requests(&self) -> Requests {
        self.shared.counters.get()
    }

    /// Returns where the server stores, as it says itself, once it is open.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        self.state().told.as_ref().map(|told| told.place.clone())
    }

    /// Returns the name of a file in the place of the storage that is of no repository, if there was one when it was
    /// opened.
    #[must_use]
    pub fn other_file(&self) -> Option<String> {
        let told = self.state().told.clone();
        told.map(|told| told.other).filter(|other| !other.is_empty())
    }

    /// Returns for how long the connection has been lost, while something is asked. Ask now and then, and say it once
    /// it is worth saying.
    #[must_use]
    pub fn silence(&self) -> Option<Silence> {
        // A server that works on an answer says so now and then, and is not silent.
        self.shared.silences.get().filter(|silence| silence.why.is_some())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the connection, and makes it if there is none. Others wait meanwhile.
    fn link(&self) -> Result<Arc<Link>, Result<Error, Trouble>> {
        let mut state = self.state();
        if let Some(link) = &state.link
            && link.ended().is_none()
        {
            return Ok(link.clone());
        }
        state.link = None;
        let begun = Instant::now();
        let (mut pause, mut tries) = (PAUSE_FIRST, 0);
        loop {
            tries += 1;
            let ended = match Link::connect(&*self.dial, &self.shared) {
                Ok(link) => match self.open_again(&link, &mut state) {
                    Ok(()) => {
                        state.link = Some(link.clone());
                        state.was_reached = true;
                        state.down_since = None;
                        self.shared.silences.answered();
                        return Ok(link);
                    }
                    Err(Ok(error)) => return Err(Ok(error)),
                    Err(Err(lost)) => lost.ended,
                },
                Err(ended) => ended,
            };
            self.shared.silences.failed(ended.why.clone());
            let down_since = *state.down_since.get_or_insert(begun);
            let is_over = match state.was_reached {
                true => ended.is_final || down_since.elapsed() + pause > self.patience,
                false => {
                    let patience = self.patience.min(FIRST_PATIENCE);
                    ended.is_hopeless || tries >= FIRST_TRIES || begun.elapsed() + pause > patience
                }
            };
            if is_over {
                return Err(Err(Trouble { ended, tries }));
            }
            sleep(pause);
            pause = next_pause(pause);
        }
    }

    /// Opens on a new connection what was open on the last one.
    fn open_again(&self, link: &Arc<Link>, state: &mut State) -> Result<(), Result<Error, Lost>> {
        if state.told.is_none() {
            return Ok(());
        }
        let request = Request::Open { create: false };
        match link.call(&request, &[], false).map_err(Err)?.end {
            End::Opened(told) => {
                state.told = Some(told);
                Ok(())
            }
            end => Err(Ok(self.refused(&request, end))),
        }
    }

    /// Sends a request until it is answered. Also returns whether an earlier try may have been done.
    fn ask(&self, request: &Request, parts: &[&[u8]]) -> Result<(Answer, bool), Error> {
        let fail = |ended: Ended, tries: u32| {
            let tried = match tries {
                0 | 1 => String::new(),
                tries => format!("; tried {tries} times"),
            };
            let found = format!("{}{tried}", ended.why);
            Error::new(ended.kind, request.operation(), request.name(), self.location()).with_found(found)
        };
        let _asking = self.shared.silences.asking();
        let (mut tries, mut is_in_doubt, mut first_lost, mut pause) = (0, false, None, PAUSE_FIRST);
        loop {
            let link = match self.link() {
                Ok(link) => link,
                Err(Ok(error)) => return Err(error),
                Err(Err(trouble)) => return Err(fail(trouble.ended, tries + trouble.tries)),
            };
            let lost = match link.call(request, parts, tries > 0) {
                Ok(answer) => return Ok((answer, is_in_doubt)),
                Err(lost) => lost,
            };
            tries += 1;
            is_in_doubt |= lost.is_in_doubt;
            let since: &mut Instant = first_lost.get_or_insert_with(Instant::now);
            if lost.is_violation || tries >= TRIES_MIN && since.elapsed() > self.patience {
                return Err(fail(lost.ended, tries));
            }
            if tries > 1 {
                // The server can be reached, and ends each time.
                sleep(pause);
                pause = next_pause(pause);
            }
        }
    }

    /// Returns the error for an answer that is not the one that was wanted.
    fn refused(&self, request: &Request, end: End) -> Error {
        match end {
            End::Failed(failed) => failed.into_error(self.location()),
            // A connection gives no other answers to a request.
            End::Done | End::Size(_) | End::Opened(_) => {
                Error::new(ErrorKind::Io, request.operation(), request.name(), self.location())
                    .with_found("the server gave the answer to another request")
            }
        }
    }

    /// Asks for what is answered by *done*, with or without bytes before.
    fn done(&self, request: &Request, parts: &[&[u8]]) -> Result<(Vec<u8>, bool), (Error, bool)> {
        let (answer, is_in_doubt) = self.ask(request, parts).map_err(|error| (error, false))?;
        match answer.end {
            End::Done => Ok((answer.bytes, is_in_doubt)),
            end => Err((self.refused(request, end), is_in_doubt)),
        }
    }

    fn names(&self, request: &Request, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        let (bytes, _) = self.done(request, &[]).map_err(|(error, _)| error)?;
        each_name(&bytes, each).map_err(|violation| {
            Error::new(ErrorKind::Io, Operation::List, None, self.location())
                .with_found(format!("the server has sent {violation}"))
        })
    }
}

impl Storage for HostStorage {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        self.put_noting_repeats(name, parts).map(drop)
    }

    fn put_noting_repeats(&self, name: &Name, parts: &[&[u8]]) -> Result<bool, Error> {
        let size: u64 = parts.iter().map(|part| part.len() as u64).sum();
        if size > OBJECT_MAX {
            return Err(
                Error::new(ErrorKind::Unsupported, Operation::Put, Some(name), self.location()).with_found(format!(
                    "the object has {size} bytes, and `ibid serve` takes {OBJECT_MAX} at most"
                )),
            );
        }
        let name = name.clone();
        let request = Request::Put { name, size };
        let mut was_in_doubt = false;
        loop {
            let (error, is_in_doubt) = match self.done(&request, parts) {
                Ok((_, is_in_doubt)) => return Ok(was_in_doubt || is_in_doubt),
                Err(failed) => failed,
            };
            was_in_doubt |= is_in_doubt;
            let name = request.name().expect("a put has a name");
            if error.kind() != ErrorKind::AlreadyExists || !was_in_doubt {
                return Err(error);
            }
            match compare(self, name, parts)? {
                // One of several tries has stored it.
                Found::These => return Ok(true),
                Found::Others => return Err(error),
                // It was deleted since.
                Found::Nothing => {}
            }
        }
    }

    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        let name = name.clone();
        let got = self.done(&Request::Get { name, limit }, &[]);
        got.map(|(bytes, _)| bytes).map_err(|(error, _)| error)
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let length = buffer.len();
        let mut rest = buffer;
        let mut at = offset;
        loop {
            let (these, others) = rest.split_at_mut(rest.len().min(READ_MAX));
            let request = Request::Read {
                name: name.clone(),
                offset: at,
                length: these.len() as u64,
            };
            let (bytes, _) = self.done(&request, &[]).map_err(|(error, _)| error)?;
            these.copy_from_slice(&bytes);
            if others.is_empty() {
                return Ok(());
            }
            at = at
                .checked_add(these.len() as u64)
                .ok_or_else(|| Error::truncated(at, offset, length, name, self.location()))?;
            rest = others;
        }
    }

    fn size(&self, name: &Name) -> Result<u64, Error> {
        let request = Request::Size { name: name.clone() };
        match self.ask(&request, &[])?.0.end {
            End::Size(size) => Ok(size),
            end => Err(self.refused(&request, end)),
        }
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        Error::check_folder(folder, || self.location())?;
        let folder = folder.to_owned();
        self.names(&Request::List { folder }, each)
    }

    fn list_taken(&self, folder: &str, each: &mut dyn FnMut(Name)) -> Result<(), Error> {
        Error::check_folder(folder, || self.location())?;
        let folder = folder.to_owned();
        self.names(&Request::ListTaken { folder }, &mut |name, _| each(name))
    }

    fn settle(&self, name: &Name) -> Result<(), Error> {
        let name = name.clone();
        let settled = self.done(&Request::Settle { name }, &[]);
        settled.map(drop).map_err(|(error, _)| error)
    }

    fn delete(&self, name: &Name) -> Result<(), Error> {
        let name = name.clone();
        match self.done(&Request::Delete { name }, &[]) {
            Ok(_) => Ok(()),
            // An earlier try has deleted it.
            Err((error, true)) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err((error, _)) => Err(error),
        }
    }

    fn delete_all(&self, names: &[Name]) -> Result<(), Error> {
        let next = AtomicUsize::new(0);
        let delete = || {
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.delete(name) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let others = (1..names.len().min(DELETES)).map(|_| Builder::new().spawn_scoped(scope, delete));
            // Without one of them it takes longer.
            let others: Vec<_> = others.flatten().collect();
            let done = delete();
            others
                .into_iter()
                .map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .fold(done, Result::and)
        })
    }

    fn is_append_only(&self) -> bool {
        self.state().told.as_ref().is_some_and(|told| told.append_only)
    }

    fn location(&self) -> String {
        self.location.clone()
    }
}
