//! Threads, which the system may refuse, and what they wait for. In a simulation the order in which they run follows
//! from a seed.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::{Builder, Scope};

use ibid_format::FileId;

use crate::{Error, Result};

#[cfg(feature = "simulation")]
mod channels;

#[cfg(feature = "simulation")]
pub(crate) use channels::{Receiver, Sender, bounded, unbounded};
#[cfg(not(feature = "simulation"))]
pub(crate) use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

/// Starts a thread in the scope.
///
/// # Errors
/// [`Error::Threads`]. The caller must then close the channels that the threads already started
/// wait for, so that they end.
pub(crate) fn spawn<'scope>(scope: &'scope Scope<'scope, '_>, work: impl FnOnce() + Send + 'scope) -> Result<()> {
    #[cfg(feature = "simulation")]
    let work = {
        let begun = crate::simulation::Begun::new(number(scope));
        move || begun.work(work)
    };
    let started = Builder::new().spawn_scoped(scope, work);
    started.map(drop).map_err(|source| Error::Threads { source })
}

/// Returns what `work` does with a scope for threads, once they have ended.
pub(crate) fn scope<'env, T>(work: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    std::thread::scope(|scope| {
        #[cfg(feature = "simulation")]
        let _waits = crate::simulation::Waits(number(scope));
        work(scope)
    })
}

/// Does two things and returns what both return: at once, the second in this thread, if `at_once`, or else one after
/// the other.
pub(crate) fn both<A: Send, B>(
    at_once: bool,
    first: impl FnOnce() -> Result<A> + Send,
    second: impl FnOnce() -> B,
) -> (Result<A>, B) {
    if !at_once {
        let first = first();
        return (first, second());
    }
    let mut done = None;
    let (begun, second) = scope(|scope| {
        let done = &mut done;
        let begun = spawn(scope, move || *done = Some(first()));
        (begun, second())
    });
    let first = begun.and_then(|()| done.expect("a thread that was begun has ended"));
    (first, second)
}

/// Requests to a far storage that are made at once.
pub(crate) const REQUESTS: usize = 16;

/// Does the same with all of these, at most [`REQUESTS`], and returns what it returned, in order. Does it with all at
/// once if `at_once`, the first in this thread, and with those for which no thread can be begun one after the other.
pub(crate) fn each<I: Sync, T: Send>(at_once: bool, items: &[I], work: impl Fn(&I) -> T + Sync) -> Vec<T> {
    debug_assert!(items.len() <= REQUESTS);
    let Some((first, others)) = items.split_first().filter(|_| at_once) else {
        return items.iter().map(work).collect();
    };
    let mut done: Vec<Option<T>> = others.iter().map(|_| None).collect();
    let first = scope(|scope| {
        for (item, done) in others.iter().zip(&mut done) {
            let work = &work;
            let _ = spawn(scope, move || *done = Some(work(item)));
        }
        work(first)
    });
    let others = others.iter().zip(done);
    let others = others.map(|(item, done)| done.unwrap_or_else(|| work(item)));
    std::iter::once(first).chain(others).collect()
}

/// Returns files, each with its size in bytes, in groups that can be fetched and kept in memory [at once](each).
pub(crate) fn groups(files: &[(FileId, u64)]) -> impl Iterator<Item = &[(FileId, u64)]> {
    groups_within(files, 8 << 20)
}

/// Returns files, each with its size in bytes, in groups of so many bytes at most, or of one file.
pub(crate) fn groups_within(files: &[(FileId, u64)], bytes_max: u64) -> impl Iterator<Item = &[(FileId, u64)]> {
    let mut rest = files;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |(_, size): &&(FileId, u64)| {
            bytes += size;
            bytes <= bytes_max
        };
        let count = rest.iter().take(REQUESTS).take_while(fits).count();
        let (group, others) = rest.split_at(count.max(1).min(rest.len()));
        rest = others;
        (!group.is_empty()).then_some(group)
    })
}

#[cfg(feature = "simulation")]
fn number(scope: &Scope<'_, '_>) -> usize {
    std::ptr::from_ref(scope).addr()
}

/// Returns how many threads can run at once.
pub(crate) fn cores() -> usize {
    #[cfg(feature = "simulation")]
    if crate::simulation::is_on() {
        return crate::simulation::CORES;
    }
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Locks what another thread may hold while it waits for others, such as one that makes requests [at once](each). In a
/// simulation this thread would not give way in [`Mutex::lock`], and the holder could never go on.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(feature = "simulation")]
    while crate::simulation::is_on() {
        match mutex.try_lock() {
            Err(std::sync::TryLockError::WouldBlock) => crate::simulation::give_way(),
            guard => return guard.expect("no holder of this lock panics"),
        }
    }
    mutex.lock().expect("no holder of this lock panics")
}

/// Waits until another thread may have changed what `mutex` guards, of which this thread has the guard.
pub(crate) fn wait<'a, T>(changed: &Condvar, mutex: &'a Mutex<T>, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    #[cfg(feature = "simulation")]
    if crate::simulation::is_on() {
        drop(guard);
        crate::simulation::give_way();
        return mutex.lock().expect("no holder of this lock panics");
    }
    #[cfg(not(feature = "simulation"))]
    let _ = mutex;
    changed.wait(guard).expect("no holder of this lock panics")
}
