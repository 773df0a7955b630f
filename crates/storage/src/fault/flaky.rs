//! A wrapper that makes a storage's calls fail, lie and count.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Archives, Error, ErrorKind, Name, Operation, Storage};

/// Wraps a storage: fails chosen calls, shows chosen objects damaged, delays, and counts.
///
/// It only shows damage: the objects of the wrapped storage stay whole, and [`heal`](Self::heal)
/// removes all damage.
///
/// ```
/// use ibid_storage::fault::{Damage, Flaky, ObjectFault};
/// use ibid_storage::{ErrorKind, Memory, Name, Operation, Storage};
/// let place = Flaky::new(Memory::new());
/// let name = Name::new("a")?;
/// place.fail(Operation::Put, 0, ObjectFault::Before(ErrorKind::NoSpace));
/// assert_eq!(place.put(&name, &[b"bytes"]).unwrap_err().kind(), ErrorKind::NoSpace);
/// place.put(&name, &[b"bytes"])?;
/// place.damage(&name, Damage::Truncate(2));
/// assert_eq!(place.get(&name, 100)?, b"by");
/// assert_eq!((place.counts().put, place.counts().get, place.counts().bytes_read), (2, 1, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Flaky<S> {
    inner: S,
    state: Mutex<State>,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectFault {
    /// The call has no effect.
    Before(ErrorKind),
    /// The call takes effect, but returns a failure: its answer was lost.
    After(ErrorKind),
}

/// How an object is shown damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// With one bit flipped; bit 8 is the lowest of the second byte.
    FlipBit(u64),
    /// Cut off after so many bytes.
    Truncate(u64),
    /// With the bytes of another object.
    ReadFrom(Name),
    /// With these bytes, even if it was deleted meanwhile.
    Replace(Vec<u8>),
    /// As if it were not there; a `put` still meets the real one.
    Hide,
    /// There, but the medium cannot read it.
    Unreadable,
    /// There, but permission to read it is denied.
    Denied,
}

impl Damage {
    /// Returns whether the object is as it was, but can't be read.
    fn is_closed(&self) -> bool {
        matches!(self, Damage::Unreadable | Damage::Denied)
    }
}

/// Counts of calls, failed ones included, and of the bytes of those that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls of [`Storage::put`].
    pub put: u64,
    /// Calls of [`Storage::get`].
    pub get: u64,
    /// Calls of [`Storage::read_at`].
    pub read_at: u64,
    /// Calls of [`Storage::size`].
    pub size: u64,
    /// Calls of [`Storage::list`].
    pub list: u64,
    /// Calls of [`Storage::delete`].
    pub delete: u64,
    /// Calls of [`Storage::settle`].
    pub settle: u64,
    /// Bytes given by `get` and `read_at`.
    pub bytes_read: u64,
    /// Bytes taken by `put`.
    pub bytes_written: u64,
}

#[derive(Default)]
struct State {
    counts: Counts,
    /// Faults by kind of call and index among calls of the kind.
    faults: Vec<(Operation, u64, ObjectFault)>,
    always: Vec<(Operation, ObjectFault)>,
    delays: Vec<(Operation, Duration)>,
    damages: BTreeMap<Name, Damage>,
}

impl<S: Storage> Flaky<S> {
    /// Wraps `inner`. Until you ask for more, it only counts.
    #[must_use]
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            state: Mutex::default(),
        }
    }

    /// Returns the wrapped storage.
    #[must_use]
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Makes one call of this kind fail, after `skip` others of its kind.
    pub fn fail(&self, operation: Operation, skip: u64, fault: ObjectFault) {
        let mut state = self.state();
        let number = *state.counts.of(operation) + skip;
        state.faults.push((operation, number, fault));
    }

    /// Makes every call of this kind fail.
    pub fn fail_always(&self, operation: Operation, fault: ObjectFault) {
        self.state().always.push((operation, fault));
    }

    /// Makes every call of this kind wait first.
    pub fn delay(&self, operation: Operation, time: Duration) {
        self.state().delays.push((operation, time));
    }

    /// Shows the object damaged from now on.
    pub fn damage(&self, name: &Name, damage: Damage) {
        self.state().damages.insert(name.clone(), damage);
    }

    /// Shows each of two objects with the bytes of the other.
    pub fn swap(&self, one: &Name, other: &Name) {
        self.damage(one, Damage::ReadFrom(other.clone()));
        self.damage(other, Damage::ReadFrom(one.clone()));
    }

    /// Shows the object as it is now from now on, even if it is deleted or stored anew: a stale
    /// replay.
    ///
    /// # Errors
    /// If the object cannot be read now.
    pub fn replay(&self, name: &Name) -> Result<(), Error> {
        let bytes = self.inner.get(name, u64::MAX)?;
        self.damage(name, Damage::Replace(bytes));
        Ok(())
    }

    /// Removes all faults, delays and damage; the counts stay.
    pub fn heal(&self) {
        let mut state = self.state();
        *state = State {
            counts: state.counts,
            ..State::default()
        };
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, waits, performs it, and fails before or after it if a fault is set.
    fn call<T>(
        &self,
        operation: Operation,
        name: Option<&Name>,
        perform: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut state = self.state();
        let count = state.counts.of(operation);
        let number = *count;
        *count += 1;
        let fault = state.fault(operation, number);
        let delay: Duration = state
            .delays
            .iter()
            .filter(|(kind, _)| *kind == operation)
            .map(|(_, time)| *time)
            .sum();
        drop(state);
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        let fail = |kind| Err(Error::new(kind, operation, name, self.inner.location()));
        match fault {
            Some(ObjectFault::Before(kind)) => fail(kind),
            Some(ObjectFault::After(kind)) => perform().and_then(|_| fail(kind)),
            None => perform(),
        }
    }

    /// Returns the bytes shown for a damaged object.
    fn show(&self, operation: Operation, name: &Name, damage: Damage) -> Result<Vec<u8>, Error> {
        let whole = |name| self.inner.get(name, u64::MAX);
        match damage {
            Damage::FlipBit(bit) => {
                let mut bytes = whole(name)?;
                if let Some(byte) = usize::try_from(bit / 8).ok().and_then(|at| bytes.get_mut(at)) {
                    *byte ^= 1 << (bit % 8);
                }
                Ok(bytes)
            }
            Damage::Truncate(length) => {
                let mut bytes = whole(name)?;
                bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
                Ok(bytes)
            }
            Damage::ReadFrom(other) => whole(&other),
            Damage::Replace(bytes) => Ok(bytes),
            Damage::Hide | Damage::Unreadable | Damage::Denied => {
                let kind = match damage {
                    Damage::Hide => ErrorKind::NotFound,
                    Damage::Denied => ErrorKind::PermissionDenied,
                    _ => ErrorKind::Io,
                };
                Err(Error::new(kind, operation, Some(name), self.inner.location()))
            }
        }
    }

    fn damage_of(&self, name: &Name) -> Option<Damage> {
        self.state().damages.get(name).cloned()
    }
}

impl State {
    fn fault(&self, operation: Operation, number: u64) -> Option<ObjectFault> {
        let once = self
            .faults
            .iter()
            .find(|fault| (fault.0, fault.1) == (operation, number));
        let always = self.always.iter().find(|fault| fault.0 == operation);
        once.map(|fault| fault.2).or(always.map(|fault| fault.1))
    }
}

impl Counts {
    fn of(&mut self, operation: Operation) -> &mut u64 {
        match operation {
            Operation::Put => &mut self.put,
            Operation::Get => &mut self.get,
            Operation::ReadAt => &mut self.read_at,
            Operation::Size => &mut self.size,
            Operation::Delete => &mut self.delete,
            Operation::Settle => &mut self.settle,
            // The others are not calls of the trait; `list` is the nearest one.
            Operation::List | Operation::Create | Operation::Open | Operation::Sweep | Operation::Thaw => {
                &mut self.list
            }
        }
    }
}

impl<S: Storage> Storage for Flaky<S> {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        self.call(Operation::Put, Some(name), || {
            self.inner.put(name, parts)?;
            self.state().counts.bytes_written += parts.iter().map(|part| part.len() as u64).sum::<u64>();
            Ok(())
        })
    }

    fn put_noting_repeats(&self, name: &Name, parts: &[&[u8]]) -> Result<bool, Error> {
        self.call(Operation::Put, Some(name), || {
            let repeated = self.inner.put_noting_repeats(name, parts)?;
            self.state().counts.bytes_written += parts.iter().map(|part| part.len() as u64).sum::<u64>();
            Ok(repeated)
        })
    }

    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        self.call(Operation::Get, Some(name), || {
            let bytes = match self.damage_of(name) {
                None => self.inner.get(name, limit)?,
                Some(damage) => self.show(Operation::Get, name, damage)?,
            };
            if bytes.len() as u64 > limit {
                return Err(Error::too_large(bytes.len() as u64, limit, name, self.location()));
            }
            self.state().counts.bytes_read += bytes.len() as u64;
            Ok(bytes)
        })
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.call(Operation::ReadAt, Some(name), || {
            match self.damage_of(name) {
                None => self.inner.read_at(name, offset, buffer)?,
                Some(damage) => {
                    let bytes = self.show(Operation::ReadAt, name, damage)?;
                    let from = usize::try_from(offset).ok().filter(|&from| from <= bytes.len());
                    let part = from.and_then(|from| bytes[from..].get(..buffer.len()));
                    match part {
                        Some(part) => buffer.copy_from_slice(part),
                        None if buffer.is_empty() => {}
                        None => {
                            let (size, length) = (bytes.len() as u64, buffer.len());
                            return Err(Error::truncated(size, offset, length, name, self.location()));
                        }
                    }
                }
            }
            self.state().counts.bytes_read += buffer.len() as u64;
            Ok(())
        })
    }

    fn size(&self, name: &Name) -> Result<u64, Error> {
        self.call(Operation::Size, Some(name), || match self.damage_of(name) {
            None => self.inner.size(name),
            Some(damage) if damage.is_closed() => self.inner.size(name),
            Some(damage) => Ok(self.show(Operation::Size, name, damage)?.len() as u64),
        })
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        self.call(Operation::List, None, || {
            let mut shown = BTreeMap::new();
            self.inner.list(folder, &mut |name, size| {
                shown.insert(name, size);
            })?;
            let damages = self.state().damages.clone();
            let seen = |(name, damage): &(Name, Damage)| name.is_in(folder) && !damage.is_closed();
            for (name, damage) in damages.into_iter().filter(seen) {
                match self.show(Operation::List, &name, damage) {
                    Ok(bytes) => shown.insert(name, bytes.len() as u64),
                    Err(_) => shown.remove(&name),
                };
            }
            shown.into_iter().for_each(|(name, size)| each(name, size));
            Ok(())
        })
    }

    fn settle(&self, name: &Name) -> Result<(), Error> {
        self.call(Operation::Settle, Some(name), || match self.damage_of(name) {
            Some(damage @ Damage::Hide) => self.show(Operation::Settle, name, damage).map(drop),
            _ => self.inner.settle(name),
        })
    }

    fn delete(&self, name: &Name) -> Result<(), Error> {
        self.call(Operation::Delete, Some(name), || self.inner.delete(name))
    }

    fn archives(&self) -> Option<&dyn Archives> {
        self.inner.archives()
    }

    fn location(&self) -> String {
        self.inner.location()
    }
}
