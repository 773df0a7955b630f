//! redb's file, whose syncs no commit has to wait for.
//!
//! redb relies on an order only: of what it writes after a sync, nothing is on disk before all that it wrote before. So
//! a sync is only begun, by a thread that does nothing else, and what redb writes after it waits in memory until it is
//! done. Then the thread writes that, up to the next sync. Reads see what waits. Who needs to know that something is on
//! disk waits for it, or is told.

use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use redb::{BackendError, StorageBackend};

/// Most bytes that wait. With more, redb waits.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// How soon is told again what could not be taken.
const TELL_AGAIN: Duration = Duration::from_millis(1);

/// What is called once everything before it is on disk, or cannot be; and again, until it breaks. It must not wait for
/// those who use the file.
type Tell = Box<dyn FnMut(io::Result<()>) -> ControlFlow<()> + Send>;

/// What is still to be done, in this order.
enum Step {
    Do(FileStep),
    Tell(Tell),
}

/// What is to be done with the file.
#[derive(Clone)]
enum FileStep {
    Write { offset: u64, bytes: Arc<[u8]> },
    Sync,
}

#[derive(Default)]
struct State {
    steps: VecDeque<Step>,
    /// Length of what waits to be written, bytes.
    bytes: usize,
    /// Why a step failed. Nothing more is written then.
    failure: Option<(io::ErrorKind, String)>,
    has_ended: bool,
}

impl State {
    fn check(&self) -> io::Result<()> {
        match &self.failure {
            Some((kind, text)) => Err(io::Error::new(*kind, text.clone())),
            None => Ok(()),
        }
    }

    /// Whether there is a step to do. After a failure this is only to tell.
    fn has_step(&self) -> bool {
        match self.failure {
            Some(_) => self.steps.iter().any(|step| matches!(step, Step::Tell(_))),
            None => !self.steps.is_empty(),
        }
    }

    /// Takes out all that are to be told something.
    fn take_tells(&mut self) -> Vec<Tell> {
        let (mut tells, mut others) = (Vec::new(), VecDeque::new());
        for step in self.steps.drain(..) {
            match step {
                Step::Tell(tell) => tells.push(tell),
                step => others.push_back(step),
            }
        }
        self.steps = others;
        tells
    }
}

struct Shared {
    file: Box<dyn StorageBackend>,
    state: Mutex<State>,
    /// Something is to be done, or is done.
    changed: Condvar,
    /// Whether there are steps.
    is_waiting: AtomicBool,
    /// What redb was told first that failed. It refuses all that comes after it without saying why.
    told: OnceLock<(io::ErrorKind, String)>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that may panic is done while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, state: &mut State, step: Step) {
        if let Step::Do(FileStep::Write { bytes, .. }) = &step {
            state.bytes += bytes.len();
        }
        state.steps.push_back(step);
        self.is_waiting.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset + out.len() as u64;
        let mut waiting = Vec::new();
        if self.is_waiting.load(Ordering::Acquire) {
            waiting.extend(self.state().steps.iter().filter_map(|step| match step {
                Step::Do(FileStep::Write { offset: at, bytes }) if *at < end && at + bytes.len() as u64 > offset => {
                    Some((*at, bytes.clone()))
                }
                Step::Do(_) | Step::Tell(_) => None,
            }));
        }
        // After that: what was not waiting any more is in the file.
        self.file.read(offset, out)?;
        for (at, bytes) in waiting {
            let (from, to) = (at.max(offset), (at + bytes.len() as u64).min(end));
            out[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        // A file that becomes longer loses nothing.
        if length < self.file.len()? {
            self.wait()?;
        }
        self.file.set_len(length)
    }

    /// Has the thread sync what was written until now.
    fn sync_after_all(&self) -> io::Result<()> {
        let mut state = self.state();
        state.check()?;
        self.push(&mut state, Step::Do(FileStep::Sync));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.check()?;
        if state.steps.is_empty() {
            drop(state);
            return self.file.write(offset, data);
        }
        let full = |state: &mut State| state.bytes >= WAITING_BYTES_MAX && state.failure.is_none();
        let waited = self.changed.wait_while(state, full);
        state = waited.unwrap_or_else(PoisonError::into_inner);
        state.check()?;
        let bytes = data.into();
        self.push(&mut state, Step::Do(FileStep::Write { offset, bytes }));
        Ok(())
    }

    /// Waits until all steps are done.
    fn wait(&self) -> io::Result<()> {
        let waiting = |state: &mut State| !state.steps.is_empty() && state.failure.is_none();
        let waited = self.changed.wait_while(self.state(), waiting);
        waited.unwrap_or_else(PoisonError::into_inner).check()
    }

    /// Does the steps until the end.
    fn run(&self) {
        let _end = OnPanic(self);
        // Those that were not ready when they were told.
        let mut to_tell: Vec<Tell> = Vec::new();
        loop {
            to_tell.retain_mut(|tell| tell(self.state().check()).is_continue());
            let state = self.state();
            let idle = |state: &mut State| !state.has_ended && !state.has_step();
            let mut state = if to_tell.is_empty() {
                let waited = self.changed.wait_while(state, idle);
                waited.unwrap_or_else(PoisonError::into_inner)
            } else {
                let waited = self.changed.wait_timeout_while(state, TELL_AGAIN, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
            if state.failure.is_some() {
                to_tell.extend(state.take_tells());
            } else if let Some(step) = state.steps.front() {
                let step = match step {
                    Step::Do(step) => Some(step.clone()),
                    Step::Tell(_) => None,
                };
                drop(state);
                let done = match step {
                    Some(FileStep::Write { offset, bytes }) => self.file.write(offset, &bytes),
                    Some(FileStep::Sync) => self.file.sync_data(),
                    None => Ok(()),
                };
                self.step_is_done(done, &mut to_tell);
                continue;
            }
            if state.has_ended {
                return;
            }
        }
    }

    /// Removes the first step, which stays there until it is done, so that reads see it.
    fn step_is_done(&self, done: io::Result<()>, to_tell: &mut Vec<Tell>) {
        let state = &mut *self.state();
        match done {
            // What waits must not be on disk without this, but reads still see it.
            Err(error) => state.failure = Some((error.kind(), error.to_string())),
            Ok(()) => match state.steps.pop_front() {
                Some(Step::Do(FileStep::Write { bytes, .. })) => state.bytes -= bytes.len(),
                Some(Step::Tell(tell)) => to_tell.push(tell),
                Some(Step::Do(FileStep::Sync)) | None => {}
            },
        }
        self.is_waiting.store(!state.steps.is_empty(), Ordering::Release);
        self.changed.notify_all();
    }
}

/// Lets no one wait for a thread that has panicked.
struct OnPanic<'s>(&'s Shared);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let state = &mut *self.0.state();
            state.failure = Some((
                io::ErrorKind::Other,
                "the thread that writes the file panicked".to_owned(),
            ));
            self.0.changed.notify_all();
        }
    }
}

/// The file, as redb has it.
pub(super) struct Ordered(Order);

/// The order of what is done with the file.
#[derive(Clone)]
pub(super) struct Order {
    shared: Arc<Shared>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Ordered {
    pub(super) fn new(file: impl StorageBackend) -> Self {
        Ordered(Order {
            shared: Arc::new(Shared {
                file: Box::new(file),
                state: Mutex::default(),
                changed: Condvar::new(),
                is_waiting: AtomicBool::new(false),
                told: OnceLock::new(),
            }),
            thread: Arc::default(),
        })
    }

    pub(super) fn order(&self) -> Order {
        self.0.clone()
    }
}

impl Order {
    /// Has the thread call `tell`, until it breaks, once everything that was synced is on disk, or cannot be.
    /// [`has_thread`](Self::has_thread) comes before.
    pub(super) fn tell(&self, tell: impl FnMut(io::Result<()>) -> ControlFlow<()> + Send + 'static) {
        let state = &mut *self.shared.state();
        self.shared.push(state, Step::Tell(Box::new(tell)));
    }

    /// Waits until everything that was written is on disk as far as it was synced.
    ///
    /// # Errors
    /// Why it is not.
    pub(super) fn wait(&self) -> io::Result<()> {
        self.shared.wait()
    }

    /// Returns the first error that redb was told, after which it refuses everything without a reason.
    pub(super) fn first_error(&self) -> Option<io::Error> {
        let (kind, text) = self.shared.told.get()?;
        Some(io::Error::new(*kind, text.clone()))
    }

    /// Does something for redb, and notes the error that it is told.
    fn told<T>(&self, work: impl FnOnce(&Shared) -> io::Result<T>) -> io::Result<T> {
        work(&self.shared).inspect_err(|error| {
            let _ = self.shared.told.set((error.kind(), error.to_string()));
        })
    }

    /// Whether there is a thread that syncs, which the operating system may refuse.
    pub(super) fn has_thread(&self) -> bool {
        let thread = &mut *self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = self.shared.clone();
            let spawned = std::thread::Builder::new().name("ibid-sync".to_owned());
            *thread = spawned.spawn(move || shared.run()).ok();
        }
        thread.is_some()
    }

    fn end(&self) {
        // Why it could not be written was told before.
        let _ = self.wait();
        self.shared.state().has_ended = true;
        self.shared.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Debug for Ordered {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.shared.file.fmt(f)
    }
}

impl StorageBackend for Ordered {
    fn len(&self) -> io::Result<u64> {
        self.0.told(|shared| shared.file.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.told(|shared| shared.read(offset, out))
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.told(|shared| shared.set_len(length))
    }

    fn sync_data(&self) -> io::Result<()> {
        let has_thread = self.0.has_thread();
        self.0.told(|shared| match has_thread {
            true => shared.sync_after_all(),
            false => shared.file.sync_data(),
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.told(|shared| shared.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.0.end();
        self.0.shared.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.shared.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.shared.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.shared.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.shared.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.shared.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.shared.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A file in memory, whose syncs wait until they are allowed, and which notes what was done with it.
    #[derive(Debug, Clone)]
    struct Noted {
        bytes: Arc<Mutex<Vec<u8>>>,
        done: Arc<Mutex<Vec<String>>>,
        allowed: Arc<Mutex<mpsc::Receiver<bool>>>,
    }

    impl Noted {
        fn new() -> (Self, mpsc::Sender<bool>) {
            let (allow, allowed) = mpsc::channel();
            let noted = Noted {
                bytes: Arc::new(Mutex::new(vec![0; 100])),
                done: Arc::default(),
                allowed: Arc::new(Mutex::new(allowed)),
            };
            (noted, allow)
        }

        fn done(&self) -> Vec<String> {
            self.done.lock().unwrap().clone()
        }

        fn note(&self, what: String) {
            self.done.lock().unwrap().push(what);
        }
    }

    impl StorageBackend for Noted {
        fn len(&self) -> io::Result<u64> {
            Ok(self.bytes.lock().unwrap().len() as u64)
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            out.copy_from_slice(&self.bytes.lock().unwrap()[offset as usize..][..out.len()]);
            Ok(())
        }

        fn set_len(&self, length: u64) -> io::Result<()> {
            self.note(format!("length {length}"));
            self.bytes.lock().unwrap().resize(length as usize, 0);
            Ok(())
        }

        fn sync_data(&self) -> io::Result<()> {
            let is_allowed = self.allowed.lock().unwrap().recv().unwrap_or(true);
            self.note("sync".to_owned());
            if is_allowed {
                Ok(())
            } else {
                Err(io::Error::other("the disk is gone"))
            }
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.note(format!("write {offset}"));
            self.bytes.lock().unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
            Ok(())
        }
    }

    /// Begins a sync between two writes, and another. Returns what is told.
    fn begin(file: &Ordered) -> mpsc::Receiver<io::Result<()>> {
        let (tell, told) = mpsc::channel();
        file.write(10, &[1; 10]).unwrap();
        file.sync_data().unwrap();
        file.write(15, &[2; 10]).unwrap();
        file.sync_data().unwrap();
        file.order().tell(move |synced| {
            tell.send(synced).unwrap();
            ControlFlow::Break(())
        });
        file.write(24, &[3; 10]).unwrap();
        told
    }

    const ALL: [u8; 26] = [
        0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
    ];

    fn read(file: &Ordered) -> [u8; 26] {
        let mut found = [0; 26];
        file.read(8, &mut found).unwrap();
        found
    }

    #[test]
    fn nothing_is_written_before_what_was_synced_before_it_and_reads_see_all() {
        let (noted, allow) = Noted::new();
        let file = Ordered::new(noted.clone());
        let told = begin(&file);
        assert_eq!(noted.done(), ["write 10"]);
        assert_eq!(read(&file), ALL);
        file.set_len(200).unwrap(); // the file becomes longer at once
        allow.send(true).unwrap();
        while noted.done().len() < 4 {
            std::thread::yield_now();
        }
        assert_eq!(read(&file), ALL);
        assert!(told.try_recv().is_err(), "it is not synced");
        allow.send(true).unwrap();
        told.recv().unwrap().unwrap();
        let others = ["write 10", "length 200", "sync", "write 15", "sync", "write 24"];
        file.order().wait().unwrap();
        assert_eq!(noted.done(), others);
        assert_eq!(read(&file), ALL);
        file.write(0, &[4]).unwrap();
        assert_eq!(noted.done().last().unwrap(), "write 0");
        file.close().unwrap();
    }

    #[test]
    fn a_file_becomes_shorter_after_everything_before() {
        let (noted, allow) = Noted::new();
        let file = Ordered::new(noted.clone());
        let _told = begin(&file);
        std::thread::scope(|scope| {
            let shortens = scope.spawn(|| file.set_len(50));
            allow.send(true).unwrap();
            allow.send(true).unwrap();
            shortens.join().unwrap().unwrap();
        });
        assert_eq!(noted.done().len(), 6);
        assert_eq!(noted.done()[5], "length 50");
    }

    #[test]
    fn nothing_more_is_written_after_a_sync_that_failed() {
        let (noted, allow) = Noted::new();
        let file = Ordered::new(noted.clone());
        let told = begin(&file);
        allow.send(false).unwrap();
        assert_eq!(told.recv().unwrap().unwrap_err().to_string(), "the disk is gone");
        for failed in [
            file.write(0, &[1]),
            file.sync_data(),
            file.set_len(1),
            file.order().wait(),
        ] {
            assert_eq!(failed.unwrap_err().to_string(), "the disk is gone");
        }
        assert_eq!(noted.done(), ["write 10", "sync"]);
        // What was committed can still be read.
        assert_eq!(read(&file), ALL);
        file.close().unwrap();
    }

    #[test]
    fn no_one_waits_for_a_thread_that_panicked() {
        let (noted, allow) = Noted::new();
        let file = Ordered::new(noted.clone());
        file.sync_data().unwrap();
        file.write(100, &[1]).unwrap(); // it is behind the end of the file
        allow.send(true).unwrap();
        assert!(file.order().wait().unwrap_err().to_string().contains("panicked"));
        assert!(file.write(0, &[1]).is_err() && file.sync_data().is_err());
        file.close().unwrap();
    }

    #[test]
    fn what_waits_is_limited() {
        let (noted, allow) = Noted::new();
        let file = Ordered::new(noted.clone());
        file.set_len(2 * WAITING_BYTES_MAX as u64).unwrap();
        let _told = begin(&file);
        std::thread::scope(|scope| {
            let writes = scope.spawn(|| {
                for _ in 0..20 {
                    file.write(0, &vec![5; WAITING_BYTES_MAX / 8]).unwrap();
                }
            });
            let waiting = || file.order().shared.state().bytes;
            while waiting() < WAITING_BYTES_MAX {
                std::thread::yield_now();
            }
            assert!(waiting() <= WAITING_BYTES_MAX + WAITING_BYTES_MAX / 8);
            allow.send(true).unwrap();
            allow.send(true).unwrap();
            writes.join().unwrap();
        });
    }

    #[test]
    fn what_can_not_be_told_is_told_again() {
        let (noted, allow) = Noted::new();
        let file = Ordered::new(noted);
        let (tell, told) = mpsc::channel();
        let mut times = 0;
        file.sync_data().unwrap();
        file.order().tell(move |_| {
            times += 1;
            if times < 3 {
                return ControlFlow::Continue(());
            }
            tell.send(()).unwrap();
            ControlFlow::Break(())
        });
        allow.send(true).unwrap();
        told.recv().unwrap();
    }
}
