//! From the number of a record to its body, along the chain of records that it is a delta of.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ibid_delta::DeltaDecoder;
use ibid_format::record::{self, BODY_BYTES_MAX, BODY_CHECK_BYTES, Place, Record, body_check, key_of};

use super::frames::{Frame, Frames};
use super::{lookup, places};
use crate::engine::{Direction, Read, Table};
use crate::error::{Damage, Error};
use crate::lru::LruCache;

/// The namespace, key and version that a record must have.
pub(crate) type Owner<'a> = (u32, &'a [u8], u32);

/// The body of a record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoredBody {
    Deleted,
    Whole(Vec<u8>),
    Delta {
        base: u64,
        check: [u8; BODY_CHECK_BYTES],
        delta: Vec<u8>,
    },
}

impl StoredBody {
    pub(crate) fn of(body: record::Body<'_>) -> Self {
        match body {
            record::Body::Deleted => StoredBody::Deleted,
            record::Body::Whole(body) => StoredBody::Whole(body.to_vec()),
            record::Body::Delta { base, check, delta } => StoredBody::Delta {
                base,
                check,
                delta: delta.to_vec(),
            },
        }
    }

    /// Returns how many bytes it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            StoredBody::Deleted => 0,
            StoredBody::Whole(bytes) | StoredBody::Delta { delta: bytes, .. } => bytes.len(),
        }
    }
}

/// Returns the body of a record, if the record has the expected owner.
pub(super) fn owned_body(record: Record<'_>, owner: Option<Owner<'_>>) -> Result<StoredBody, Damage> {
    match owner {
        Some(owner) if owner != (record.namespace, record.key, record.version) => Err(Damage::Misplaced),
        Some(_) | None => Ok(StoredBody::of(record.body)),
    }
}

pub(super) fn damaged(number: u64, damage: impl Into<Damage>) -> Error {
    Error::damaged(Table::Records, &number.to_be_bytes(), damage)
}

/// A counter that grows when a replica replaces all of its contents: what was cached under one
/// generation is not valid in another.
pub(crate) type Generation = u64;

type LatestCache = LruCache<(Generation, u64), Arc<[u8]>>;

/// Finds records, in entries of their own or in frames, and decodes deltas.
pub(crate) struct Records {
    frames: Frames,
    /// Latest versions that are stored whole and were read from frames. A whole record never
    /// changes, so a cached one is right for every snapshot of its generation. Caching records
    /// instead of their frames keeps often read ones in memory although most of their frames'
    /// other records are not read.
    latest: Mutex<LatestCache>,
    /// Idle decoders: at most one for each thread that reads.
    decoders: Mutex<Vec<DeltaDecoder>>,
    /// Records that have left their blocks.
    moved_out: AtomicU64,
}

impl Records {
    /// Returns a reader that caches so many bytes of frames, and of latest versions from frames.
    pub(crate) fn new(frame_bytes: usize, latest_bytes: usize) -> Self {
        Records {
            frames: Frames::new(frame_bytes),
            latest: Mutex::new(LruCache::new(latest_bytes)),
            decoders: Mutex::default(),
            moved_out: AtomicU64::new(0),
        }
    }

    /// Notes that a record is not in its block any more.
    pub(crate) fn note_moved_out(&self) {
        self.moved_out.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many records have left their blocks since the store was opened.
    pub(crate) fn moved_out(&self) -> u64 {
        self.moved_out.load(Ordering::Relaxed)
    }

    /// Shows a record to `found`, and returns whether there is one.
    pub(crate) fn visit(
        &self,
        read: &(impl Read + ?Sized),
        number: u64,
        found: &mut dyn FnMut(Record<'_>),
    ) -> Result<bool, Error> {
        self.visit_bytes(read, number, &mut |record, _| found(record))
    }

    /// Like [`visit`](Self::visit), for a record in an entry of its own.
    pub(super) fn visit_single(
        &self,
        read: &(impl Read + ?Sized),
        number: u64,
        found: &mut dyn FnMut(Record<'_>),
    ) -> Result<bool, Error> {
        let mut decoded = Ok(());
        let mut single = |value: &[u8]| decoded = Record::decode(number, value).map(&mut *found);
        let is_there = read.get(Table::Records, &number.to_be_bytes(), &mut single)?;
        decoded.map(|()| is_there).map_err(|error| damaged(number, error))
    }

    /// Like [`visit`](Self::visit), with the bytes of a record that is in a frame.
    fn visit_bytes(
        &self,
        read: &(impl Read + ?Sized),
        number: u64,
        found: &mut dyn FnMut(Record<'_>, Option<&[u8]>),
    ) -> Result<bool, Error> {
        if self.visit_single(read, number, &mut |record| found(record, None))? {
            return Ok(true);
        }
        let Some(frame) = self.frames.of(read, number)? else {
            return Ok(false);
        };
        let bytes = frame.record(number).ok_or_else(|| damaged(number, Damage::Missing))?;
        let decoded = Record::decode_packed(number, bytes).map_err(|error| damaged(number, error))?;
        found(decoded, Some(bytes));
        Ok(true)
    }

    /// Returns the frame at a place.
    pub(crate) fn frame(&self, read: &(impl Read + ?Sized), place: Place) -> Result<Arc<Frame>, Error> {
        self.frames.at(read, place)
    }

    /// Returns whether there is a record of this number.
    pub(crate) fn contains(&self, read: &(impl Read + ?Sized), number: u64) -> Result<bool, Error> {
        let single = read.contains(Table::Records, &number.to_be_bytes())?;
        Ok(single || places::group(read, number)?.get(number).is_some())
    }

    /// Returns the numbers of at most `limit` records after `after`, ascending.
    pub(crate) fn numbers(&self, read: &(impl Read + ?Sized), after: u64, limit: usize) -> Result<Vec<u64>, Error> {
        let mut numbers = Vec::new();
        let mut damage = None;
        let mut single = |key: &[u8]| {
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
        read.keys(Table::Records, range, Direction::Forward, &mut single)?;
        if let Some(error) = damage {
            return Err(error);
        }
        places::numbers(read, after, limit, &mut numbers)?;
        numbers.sort_unstable();
        numbers.dedup();
        numbers.truncate(limit);
        Ok(numbers)
    }

    /// Returns whether a record is the latest version of its key.
    pub(crate) fn is_latest(&self, read: &(impl Read + ?Sized), number: u64) -> Result<bool, Error> {
        let mut stored_key = None;
        let mut found = |record: Record<'_>| stored_key = Some(key_of(record.namespace, record.key));
        self.visit(read, number, &mut found)?;
        let Some(stored_key) = stored_key else {
            return Ok(false);
        };
        let entry = lookup::key_entry(read, &stored_key)?;
        Ok(entry.is_some_and(|entry| entry.latest == number && !entry.deleted))
    }

    /// Returns the body of a record as it is stored; [`None`] if there is no such record.
    ///
    /// # Errors
    /// [`Damage::Misplaced`] if an `owner` is given and the record has another.
    pub(crate) fn stored(
        &self,
        read: &(impl Read + ?Sized),
        number: u64,
        owner: Option<Owner<'_>>,
    ) -> Result<Option<StoredBody>, Error> {
        let mut stored = None;
        self.visit(read, number, &mut |record| stored = Some(owned_body(record, owner)))?;
        stored.transpose().map_err(|damage| damaged(number, damage))
    }

    /// Returns the bytes of a latest version that was read from a frame before.
    pub(super) fn cached_latest(&self, generation: Generation, number: u64) -> Option<Arc<[u8]>> {
        let mut cache = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get((generation, number))
    }

    /// Keeps the bytes of a latest version that is stored whole and was read from a frame.
    pub(super) fn cache_latest(&self, generation: Generation, number: u64, bytes: &[u8]) {
        let mut cache = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        cache.insert((generation, number), bytes.into(), bytes.len());
    }

    /// Returns the body of a latest version as it is stored, and caches it if it is whole and in a
    /// frame.
    fn stored_latest(
        &self,
        read: &(impl Read + ?Sized),
        generation: Generation,
        number: u64,
        owner: Owner<'_>,
    ) -> Result<Option<StoredBody>, Error> {
        if let Some(record) = self.cached_latest(generation, number) {
            let record = Record::decode_packed(number, &record).map_err(|error| damaged(number, error))?;
            let body = owned_body(record, Some(owner));
            return body.map(Some).map_err(|damage| damaged(number, damage));
        }
        let mut stored = None;
        let mut found = |record: Record<'_>, bytes: Option<&[u8]>| {
            if let (record::Body::Whole(_), Some(bytes)) = (record.body, bytes) {
                self.cache_latest(generation, number, bytes);
            }
            stored = Some(owned_body(record, Some(owner)));
        };
        self.visit_bytes(read, number, &mut found)?;
        stored.transpose().map_err(|damage| damaged(number, damage))
    }

    /// Returns the body of a version of a key; [`None`] if the version deletes the key.
    pub(crate) fn body(
        &self,
        read: &(impl Read + ?Sized),
        number: u64,
        owner: Owner<'_>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let stored = self.stored(read, number, Some(owner))?;
        self.decode_stored(read, number, stored)
    }

    /// Returns the body of the latest version of a key, from the cache if it is there.
    pub(crate) fn latest_body(
        &self,
        read: &(impl Read + ?Sized),
        generation: Generation,
        number: u64,
        owner: Owner<'_>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let stored = self.stored_latest(read, generation, number, owner)?;
        self.decode_stored(read, number, stored)
    }

    /// Returns the body of a record of any key that is not a deletion.
    pub(crate) fn body_of_any(&self, read: &(impl Read + ?Sized), number: u64) -> Result<Vec<u8>, Error> {
        let stored = self.stored(read, number, None)?;
        let body = self.decode_stored(read, number, stored)?;
        body.ok_or_else(|| damaged(number, Damage::Misplaced))
    }

    fn decode_stored(
        &self,
        read: &(impl Read + ?Sized),
        number: u64,
        stored: Option<StoredBody>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let stored = stored.ok_or_else(|| damaged(number, Damage::Missing))?;
        self.decode(number, stored, |base| self.stored(read, base, None))
    }

    /// Decodes the body of a record that was read; [`None`] if it is a deletion. Gets the records
    /// that it is a delta of, directly or not, from `fetch`.
    pub(crate) fn decode(
        &self,
        number: u64,
        stored: StoredBody,
        mut fetch: impl FnMut(u64) -> Result<Option<StoredBody>, Error>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let (mut next, expected, delta) = match stored {
            StoredBody::Deleted => return Ok(None),
            StoredBody::Whole(body) => return Ok(Some(body)),
            StoredBody::Delta { base, check, delta } => (base, check, delta),
        };
        // Collects the deltas on the way to a whole record. A base has a larger number than its
        // deltas, so the way ends.
        let mut deltas = vec![(number, delta)];
        let mut body = loop {
            match fetch(next)? {
                Some(StoredBody::Whole(body)) => break body,
                Some(StoredBody::Delta { base, delta, .. }) => {
                    deltas.push((next, delta));
                    next = base;
                }
                Some(StoredBody::Deleted) => return Err(damaged(next, Damage::Misplaced)),
                None => return Err(damaged(next, Damage::Missing)),
            }
        };
        let mut decoder = self.take_decoder();
        let mut decoded = Vec::new();
        for (number, delta) in deltas.iter().rev() {
            decoded.clear();
            let done = decoder.decode(&body, delta, BODY_BYTES_MAX, &mut decoded);
            done.map_err(|error| damaged(*number, error))?;
            std::mem::swap(&mut body, &mut decoded);
        }
        self.decoders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(decoder);
        if body_check(&body) != expected {
            return Err(damaged(number, Damage::OtherBody));
        }
        Ok(Some(body))
    }

    fn take_decoder(&self) -> DeltaDecoder {
        let mut decoders = self.decoders.lock().unwrap_or_else(PoisonError::into_inner);
        decoders.pop().unwrap_or_default()
    }
}
