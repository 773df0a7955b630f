//! From a record to its body: along the records that it is a delta of, one after the other.

use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex, PoisonError};

use ibid_delta::DeltaDecoder;
use ibid_format::record::{self, BODY_BYTES_MAX, BODY_CHECK_BYTES, Place, Record, body_check, key_of};

use super::frames::{self, Frame, Frames};
use super::lookup;
use crate::engine::{Direction, Read, Table};
use crate::error::{Damage, Error};
use crate::recent::Recent;

/// Whose a record is: namespace, key and version.
pub(crate) type Owner<'a> = (u32, &'a [u8], u32);

/// A record's body as it is stored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    Deleted,
    Whole(Vec<u8>),
    Delta {
        base: u64,
        check: [u8; BODY_CHECK_BYTES],
        delta: Vec<u8>,
    },
}

impl Stored {
    /// How many bytes are in memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Stored::Deleted => 0,
            Stored::Whole(bytes) | Stored::Delta { delta: bytes, .. } => bytes.len(),
        }
    }

    pub(crate) fn of(body: record::Body<'_>) -> Self {
        match body {
            record::Body::Deleted => Stored::Deleted,
            record::Body::Whole(body) => Stored::Whole(body.to_vec()),
            record::Body::Delta { base, check, delta } => Stored::Delta {
                base,
                check,
                delta: delta.to_vec(),
            },
        }
    }
}

/// The body of a record, if it is the owner's.
fn of_owner(record: Record<'_>, owner: Option<Owner<'_>>) -> Result<Stored, Damage> {
    match owner {
        Some(owner) if owner != (record.namespace, record.key, record.version) => Err(Damage::Misplaced),
        Some(_) | None => Ok(Stored::of(record.body)),
    }
}

/// A store's contents from one state to the next that has nothing to do with it: the even numbers
/// of [`Wholeness`](crate::write::replay::Wholeness).
pub(crate) type History = u64;

type Latest = Recent<(History, u64), Arc<[u8]>>;

/// Finds records wherever they lie, and makes bodies of deltas.
pub(crate) struct Bodies {
    frames: Frames,
    /// Latest versions that are whole and were read from frames, as they are there. A record that
    /// is whole never changes, so one that is kept is right for every snapshot of its history;
    /// and hot ones stay when frames, most of whose records nobody asked for, would have no room.
    latest: Mutex<Latest>,
    /// One for each reader at work at most.
    decoders: Mutex<Vec<DeltaDecoder>>,
}

impl Bodies {
    /// Keeps frames of so many bytes, and latest versions from frames.
    pub(crate) fn new(frame_bytes: usize, latest_bytes: usize) -> Self {
        Bodies {
            frames: Frames::new(frame_bytes),
            latest: Mutex::new(Recent::new(latest_bytes)),
            decoders: Mutex::default(),
        }
    }

    /// Shows a record to `found`, and says whether there is one.
    pub(crate) fn record(
        &self,
        read: &(impl Read + ?Sized),
        number: u64,
        found: &mut dyn FnMut(Record<'_>),
    ) -> Result<bool, Error> {
        self.find(read, number, &mut |record, _| found(record))
    }

    /// The same, with the record's bytes if it lies in a frame.
    fn find(
        &self,
        read: &(impl Read + ?Sized),
        number: u64,
        found: &mut dyn FnMut(Record<'_>, Option<&[u8]>),
    ) -> Result<bool, Error> {
        let key = number.to_be_bytes();
        let mut decoded = Ok(());
        let mut single = |value: &[u8]| decoded = Record::decode(number, value).map(|record| found(record, None));
        if read.get(Table::Records, &key, &mut single)? {
            let decoded = decoded.map_err(|error| Error::damaged(Table::Records, &key, error));
            return decoded.map(|()| true);
        }
        let Some(frame) = self.frames.of(read, number)? else {
            return Ok(false);
        };
        let record = frame.record(number);
        let record = record.ok_or_else(|| Error::damaged(Table::Records, &key, Damage::Missing))?;
        let decoded = Record::decode_packed(number, record).map(|decoded| found(decoded, Some(record)));
        decoded.map_err(|error| Error::damaged(Table::Records, &key, error))?;
        Ok(true)
    }

    /// The frame at a place, for who looks at all records of it.
    pub(crate) fn frame(&self, read: &(impl Read + ?Sized), place: Place) -> Result<Arc<Frame>, Error> {
        self.frames.at(read, place)
    }

    /// Whether there is a record.
    pub(crate) fn is_there(&self, read: &(impl Read + ?Sized), number: u64) -> Result<bool, Error> {
        let single = read.get(Table::Records, &number.to_be_bytes(), &mut |_| {})?;
        Ok(single || frames::places(read, number)?.get(number).is_some())
    }

    /// Numbers of the records after `after`, ascending, `limit` at most.
    pub(crate) fn numbers(&self, read: &(impl Read + ?Sized), after: u64, limit: usize) -> Result<Vec<u64>, Error> {
        let mut numbers = Vec::new();
        let mut damage = None;
        let mut single = |key: &[u8], _: &[u8]| {
            match key.try_into() {
                Ok(key) => numbers.push(u64::from_be_bytes(key)),
                Err(_) => damage = Some(Error::damaged(Table::Records, key, Damage::Misplaced)),
            }
            if damage.is_some() || numbers.len() == limit {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let from = after.to_be_bytes();
        let range = (Bound::Excluded(&from[..]), Bound::Unbounded);
        read.range(Table::Records, range, Direction::Forward, &mut single)?;
        if let Some(error) = damage {
            return Err(error);
        }
        frames::placed(read, after, limit, &mut numbers)?;
        numbers.sort_unstable();
        numbers.dedup();
        numbers.truncate(limit);
        Ok(numbers)
    }

    /// Whether the record's key leads to it as its latest version.
    pub(crate) fn is_latest(&self, read: &(impl Read + ?Sized), number: u64) -> Result<bool, Error> {
        let mut stored_key = None;
        let mut found = |record: Record<'_>| stored_key = Some(key_of(record.namespace, record.key));
        self.record(read, number, &mut found)?;
        let Some(stored_key) = stored_key else {
            return Ok(false);
        };
        let entry = lookup::key_entry(read, &stored_key)?;
        Ok(entry.is_some_and(|entry| entry.latest == number && !entry.deleted))
    }

    /// Reads a record; whoever it is of, unless an owner is named. [`None`] if there is none.
    pub(crate) fn stored(
        &self,
        read: &(impl Read + ?Sized),
        number: u64,
        owner: Option<Owner<'_>>,
    ) -> Result<Option<Stored>, Error> {
        let mut stored = None;
        self.record(read, number, &mut |record| stored = Some(of_owner(record, owner)))?;
        let damaged = |damage| Error::damaged(Table::Records, &number.to_be_bytes(), damage);
        stored.transpose().map_err(damaged)
    }

    /// Reads what a key leads to as its latest version, and keeps it.
    pub(crate) fn latest(
        &self,
        read: &(impl Read + ?Sized),
        history: History,
        number: u64,
        owner: Owner<'_>,
    ) -> Result<Option<Stored>, Error> {
        let damaged = |damage| Error::damaged(Table::Records, &number.to_be_bytes(), damage);
        let kept = || self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept().get((history, number));
        if let Some(record) = known {
            let record = Record::decode_packed(number, &record).map_err(|error| damaged(error.into()))?;
            return of_owner(record, Some(owner)).map(Some).map_err(damaged);
        }
        let mut stored = None;
        let mut found = |record: Record<'_>, packed: Option<&[u8]>| {
            if let (record::Body::Whole(_), Some(packed)) = (record.body, packed) {
                kept().insert((history, number), packed.into(), packed.len());
            }
            stored = Some(of_owner(record, Some(owner)));
        };
        self.find(read, number, &mut found)?;
        stored.transpose().map_err(damaged)
    }

    /// The body of a record of which `stored` was read, and of how many other records it took;
    /// [`None`] if it says that its key was deleted. Gets those that it is a delta of, directly
    /// or not, from `fetch`.
    pub(crate) fn decode(
        &self,
        number: u64,
        stored: Stored,
        mut fetch: impl FnMut(u64) -> Result<Option<Stored>, Error>,
    ) -> Result<(Option<Vec<u8>>, usize), Error> {
        let (mut next, expected, delta) = match stored {
            Stored::Deleted => return Ok((None, 0)),
            Stored::Whole(body) => return Ok((Some(body), 0)),
            Stored::Delta { base, check, delta } => (base, check, delta),
        };
        // The way to a record that is whole. Numbers grow on it, so it ends.
        let mut deltas = vec![(number, delta)];
        let damaged = |number: u64, damage: Damage| Error::damaged(Table::Records, &number.to_be_bytes(), damage);
        let mut body = loop {
            match fetch(next)? {
                Some(Stored::Whole(body)) => break body,
                Some(Stored::Delta { base, delta, .. }) => {
                    deltas.push((next, delta));
                    next = base;
                }
                Some(Stored::Deleted) => return Err(damaged(next, Damage::Misplaced)),
                None => return Err(damaged(next, Damage::Missing)),
            }
        };
        let fetched = deltas.len();
        let mut decoder = self.take();
        let mut made = Vec::new();
        for (number, delta) in deltas.iter().rev() {
            made.clear();
            let decoded = decoder.decode(&body, delta, BODY_BYTES_MAX, &mut made);
            decoded.map_err(|error| damaged(*number, error.into()))?;
            std::mem::swap(&mut body, &mut made);
        }
        self.decoders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(decoder);
        if body_check(&body) != expected {
            return Err(damaged(number, Damage::OtherBody));
        }
        Ok((Some(body), fetched))
    }

    fn take(&self) -> DeltaDecoder {
        let mut decoders = self.decoders.lock().unwrap_or_else(PoisonError::into_inner);
        decoders.pop().unwrap_or_default()
    }
}
