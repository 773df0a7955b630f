//! From the number of a record to its body, along the chain of records that it is a delta of.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ibid_delta::DeltaDecoder;
use ibid_delta::advanced::describe;
use ibid_format::record::{self, BODY_BYTES_MAX, BodyCheck, PieceList, Place, Record, key_of};

use super::frames::{Frame, Frames};
use super::{lookup, pieces, places};
use crate::engine::{Direction, Read, Table};
use crate::error::{Damage, Error};

/// The namespace, key and version that a record must have.
pub(crate) type Owner<'a> = (u32, &'a [u8], u32);

/// The body of a record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoredBody {
    Deleted,
    Whole(Vec<u8>),
    Delta {
        base: u64,
        check: BodyCheck,
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

    /// Returns it as a part of a record.
    pub(crate) fn as_body(&self) -> record::Body<'_> {
        match self {
            StoredBody::Deleted => record::Body::Deleted,
            StoredBody::Whole(body) => record::Body::Whole(body),
            StoredBody::Delta { base, check, delta } => {
                let (base, check) = (*base, *check);
                record::Body::Delta { base, check, delta }
            }
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

/// Bytes of deltas that are kept in memory on the way to a whole record.
const DELTAS_KEPT: usize = 8 << 20;

/// A buffer for a body is kept for the next one if it has no more bytes, and so is a frame on the way to a body.
const SCRATCH_BYTES: usize = 1 << 20;

/// Returns the body of a record, if the record has the expected owner.
pub(super) fn owned_body(record: Record<'_>, owner: Option<Owner<'_>>) -> Result<StoredBody, Damage> {
    check_owner(&record, owner).map(|()| StoredBody::of(record.body))
}

fn check_owner(record: &Record<'_>, owner: Option<Owner<'_>>) -> Result<(), Damage> {
    match owner {
        Some(owner) if owner != (record.namespace, record.key, record.version) => Err(Damage::Misplaced),
        Some(_) | None => Ok(()),
    }
}

pub(super) fn damaged(number: u64, damage: impl Into<Damage>) -> Error {
    Error::damaged(Table::Records, &number.to_be_bytes(), damage)
}

/// A counter that grows when a replica replaces all of its contents: what was cached under one
/// generation is not valid in another.
pub(crate) type Generation = u64;

/// Finds records, in entries of their own or in frames, and decodes deltas.
pub(crate) struct Records {
    /// Its cache also has records that are stored whole and were read from frames: often read ones stay in memory
    /// although most of their frames' other records are not read.
    frames: Frames,
    /// What no thread decodes with: at most one for each that reads.
    idle: Mutex<Vec<Scratch>>,
    /// Bytes of bodies and deltas that have left their blocks.
    moved_out: AtomicU64,
    /// Longest body that is read, bytes.
    body_bytes_max: usize,
}

impl Records {
    /// Returns a reader with a cache of so many bytes. It refuses bodies that are longer than `body_bytes_max`.
    pub(crate) fn new(cache_bytes: usize, body_bytes_max: usize) -> Self {
        Records {
            body_bytes_max,
            frames: Frames::new(cache_bytes, body_bytes_max),
            idle: Mutex::default(),
            moved_out: AtomicU64::new(0),
        }
    }

    /// Notes that so many bytes of bodies and deltas are in blocks and of no use there: they have left them, or came
    /// too late.
    pub(crate) fn note_moved_out(&self, bytes: usize) {
        self.moved_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns how many bytes of bodies and deltas have left their blocks since the store was opened.
    pub(crate) fn moved_out(&self) -> u64 {
        self.moved_out.load(Ordering::Relaxed)
    }

    pub(crate) fn body_bytes_max(&self) -> usize {
        self.body_bytes_max
    }

    /// Shows a record to `found`, and returns whether there is one.
    pub(crate) fn visit(
        &self,
        read: &(impl Read + ?Sized),
        number: u64,
        found: &mut dyn FnMut(Record<'_>),
    ) -> Result<bool, Error> {
        self.visit_bytes(read, number, &mut Near::default(), &mut |record, _| found(record))
    }

    /// Like [`visit`](Self::visit), for a record in an entry of its own.
    pub(super) fn visit_single(
        &self,
        read: &(impl Read + ?Sized),
        number: u64,
        found: &mut dyn FnMut(Record<'_>),
    ) -> Result<bool, Error> {
        let mut decoded = Ok(());
        let mut single = |value: &[u8]| {
            let record = Record::decode(number, value);
            decoded = record.map(&mut *found).map_err(|error| Damage::of(value, error));
        };
        let is_there = read.get(Table::Records, &number.to_be_bytes(), &mut single)?;
        decoded.map(|()| is_there).map_err(|damage| damaged(number, damage))
    }

    /// Like [`visit`](Self::visit), with the bytes of a record that is in a frame. Notes the frame.
    fn visit_bytes(
        &self,
        read: &(impl Read + ?Sized),
        number: u64,
        near: &mut Near,
        found: &mut dyn FnMut(Record<'_>, Option<&[u8]>),
    ) -> Result<bool, Error> {
        if self.visit_single(read, number, &mut |record| found(record, None))? {
            return Ok(true);
        }
        self.visit_framed(read, number, near, found)
    }

    /// Like [`visit`](Self::visit), for a record that is in a frame, which it notes.
    fn visit_framed(
        &self,
        read: &(impl Read + ?Sized),
        number: u64,
        near: &mut Near,
        found: &mut dyn FnMut(Record<'_>, Option<&[u8]>),
    ) -> Result<bool, Error> {
        let Some(frame) = self.frames.of(read, number)? else {
            return Ok(false);
        };
        let bytes = frame.record(number).ok_or_else(|| damaged(number, Damage::Missing))?;
        let decoded = Record::decode_packed(number, bytes).map_err(|error| damaged(number, error))?;
        found(decoded, Some(bytes));
        near.note(frame);
        Ok(true)
    }

    /// Returns the place of a record; [`None`] if it is in no block.
    pub(crate) fn place_of(&self, read: &(impl Read + ?Sized), number: u64) -> Result<Option<Place>, Error> {
        self.frames.place_of(read, number)
    }

    /// Returns the frame at a place.
    pub(crate) fn frame(&self, read: &(impl Read + ?Sized), place: Place) -> Result<Arc<Frame>, Error> {
        self.frames.at(read, place)
    }

    /// Returns whether there is a record of this number.
    pub(crate) fn contains(&self, read: &(impl Read + ?Sized), number: u64) -> Result<bool, Error> {
        let single = read.contains(Table::Records, &number.to_be_bytes())?;
        Ok(single || self.frames.place_of(read, number)?.is_some())
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
        lookup::is_latest(read, &stored_key, number)
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

    /// Returns the bytes of a record that is stored whole and was read from a frame before.
    pub(super) fn cached_whole(&self, generation: Generation, number: u64) -> Option<Arc<[u8]>> {
        self.frames.cache.whole(generation, number)
    }

    /// Keeps the bytes of a record that is stored whole and was read from a frame.
    pub(super) fn cache_whole(&self, generation: Generation, number: u64, bytes: &[u8]) {
        self.frames.cache.keep_whole(generation, number, bytes);
    }

    /// Shows the body of a version of a key to `found`; returns false if the version deletes the key. A body that is
    /// stored whole is not copied. With a generation, takes what is stored whole in frames from the cache, and caches
    /// it: the record itself, or what it is a delta of.
    pub(crate) fn show(
        &self,
        read: &(impl Read + ?Sized),
        generation: Option<Generation>,
        number: u64,
        owner: Owner<'_>,
        found: &mut dyn FnMut(Cow<'_, [u8]>),
    ) -> Result<bool, Error> {
        let mut list = None;
        let is_body = self.show_stored(read, generation, number, Some(owner), &mut |stored, in_pieces| {
            if in_pieces {
                list = Some(stored.into_owned());
            } else {
                found(stored);
            }
        })?;
        if let Some(list) = list {
            let list = pieces::list_of(number, &list)?;
            found(Cow::Owned(pieces::assembled(self, read, &list)?));
        }
        Ok(is_body)
    }

    /// Returns the body of a version of a key; [`None`] if the version deletes the key.
    pub(crate) fn body(
        &self,
        read: &(impl Read + ?Sized),
        number: u64,
        owner: Owner<'_>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut body = None;
        self.show(read, None, number, owner, &mut |found| body = Some(found.into_owned()))?;
        Ok(body)
    }

    /// Returns what is stored as the body of a record of any key that is not a deletion: of one in pieces, its list.
    pub(crate) fn body_of_any(&self, read: &(impl Read + ?Sized), number: u64) -> Result<Vec<u8>, Error> {
        let mut body = None;
        let mut found = |stored: Cow<'_, [u8]>, _| body = Some(stored.into_owned());
        self.show_stored(read, None, number, None, &mut found)?;
        body.ok_or_else(|| damaged(number, Damage::Misplaced))
    }

    /// Returns the list of the pieces of a record; [`None`] if it is not in pieces.
    pub(crate) fn list(&self, read: &(impl Read + ?Sized), number: u64) -> Result<Option<PieceList>, Error> {
        let mut in_pieces = false;
        self.visit(read, number, &mut |record| in_pieces = record.in_pieces)?;
        match in_pieces {
            true => pieces::list_of(number, &self.body_of_any(read, number)?).map(Some),
            false => Ok(None),
        }
    }

    /// Shows what is stored as the body of a record to `found`, and whether it is a list of pieces; returns false for a
    /// deletion.
    pub(crate) fn show_stored(
        &self,
        read: &(impl Read + ?Sized),
        generation: Option<Generation>,
        number: u64,
        owner: Option<Owner<'_>>,
        found: &mut dyn FnMut(Cow<'_, [u8]>, bool),
    ) -> Result<bool, Error> {
        let mut seen = None;
        let mut in_pieces = false;
        let mut fits = Ok(());
        let mut near = Near::default();
        let mut see = |record: Record<'_>, bytes: Option<&[u8]>| {
            fits = Error::check_body(record.body.stored().len(), self.body_bytes_max);
            if fits.is_err() {
                return;
            }
            in_pieces = record.in_pieces;
            let record::Body::Whole(body) = record.body else {
                seen = Some(owned_body(record, owner));
                return;
            };
            let is_owned = check_owner(&record, owner);
            if is_owned.is_ok() {
                if let (Some(generation), Some(bytes)) = (generation, bytes) {
                    self.cache_whole(generation, number, bytes);
                }
                found(Cow::Borrowed(body), in_pieces);
            }
            // The body itself is not needed any more.
            seen = Some(is_owned.map(|()| StoredBody::Whole(Vec::new())));
        };
        match generation.and_then(|generation| self.cached_whole(generation, number)) {
            Some(bytes) => {
                let record = Record::decode_packed(number, &bytes).map_err(|error| damaged(number, error))?;
                see(record, None);
            }
            None => {
                self.visit_bytes(read, number, &mut near, &mut see)?;
            }
        }
        fits?;
        let seen = seen.ok_or_else(|| damaged(number, Damage::Missing))?;
        match seen.map_err(|damage| damaged(number, damage))? {
            StoredBody::Deleted => Ok(false),
            StoredBody::Whole(_) => Ok(true),
            delta @ StoredBody::Delta { .. } => {
                let fetch = |base, see: See<'_>| match near.record(base) {
                    Some(record) => {
                        see(record?.body);
                        Ok(true)
                    }
                    None => self.visit_base(read, base, generation, &mut near, see),
                };
                let decoded = self.decode(number, delta, fetch);
                let body = match decoded {
                    // It may have been outdated.
                    Err(_) if near.is_used => {
                        let delta = self.stored(read, number, owner)?;
                        let delta = delta.ok_or_else(|| damaged(number, Damage::Missing))?;
                        let fetch =
                            |base, see: See<'_>| self.visit_base(read, base, generation, &mut Near::default(), see);
                        self.decode(number, delta, fetch)?
                    }
                    decoded => decoded?,
                };
                body.into_iter().for_each(|body| found(Cow::Owned(body), in_pieces));
                Ok(true)
            }
        }
    }

    /// Shows the body of a record that others are deltas of to `see`, and returns whether there is one.
    fn visit_base(
        &self,
        read: &(impl Read + ?Sized),
        number: u64,
        generation: Option<Generation>,
        near: &mut Near,
        see: See<'_>,
    ) -> Result<bool, Error> {
        if let Some(bytes) = generation.and_then(|generation| self.cached_whole(generation, number)) {
            let record = Record::decode_packed(number, &bytes).map_err(|error| damaged(number, error))?;
            see(record.body);
            return Ok(true);
        }
        let mut found = |record: Record<'_>, bytes: Option<&[u8]>| {
            if let (Some(generation), Some(bytes), record::Body::Whole(_)) = (generation, bytes, &record.body) {
                self.cache_whole(generation, number, bytes);
            }
            see(record.body);
        };
        // Most bases are older than the last few minutes, and in a block. Those that are not can be read although where
        // others of their group are is damaged.
        match self.visit_framed(read, number, near, &mut found) {
            Ok(true) => Ok(true),
            not_framed => Ok(self.visit_single(read, number, &mut |record| found(record, None))? || not_framed?),
        }
    }

    /// Decodes the body of a record that was read; [`None`] if it is a deletion. `fetch` shows the records that it is a
    /// delta of, directly or not, and returns whether there is one.
    ///
    /// Takes memory for two bodies at a time, and for [`DELTAS_KEPT`] bytes of deltas. What is read is not copied.
    pub(crate) fn decode(
        &self,
        number: u64,
        stored: StoredBody,
        mut fetch: impl FnMut(u64, See<'_>) -> Result<bool, Error>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let (mut next, expected, delta) = match stored {
            StoredBody::Deleted => return Ok(None),
            StoredBody::Whole(body) => return Ok(Some(body)),
            StoredBody::Delta { base, check, delta } => (base, check, delta),
        };
        let max = self.body_bytes_max;
        let Scratch {
            mut decoder,
            mut body,
            mut made,
        } = self.take_scratch();
        let mut result = Vec::new();
        // The deltas on the way to a whole record; those that take too much memory are read again. A base has a larger
        // number than its deltas, so the way ends.
        let mut kept = delta.len();
        let mut way = vec![(number, Some(delta))];
        loop {
            let mut seen = None;
            let made = if way.len() == 1 { &mut result } else { &mut body };
            let mut see = |record: record::Body<'_>| {
                seen = Some(match (record, way.last()) {
                    (record::Body::Whole(base), Some((number, Some(delta)))) => {
                        decode_one(&mut decoder, base, (*number, delta), max, made).map(|()| Seen::Made)
                    }
                    (record::Body::Whole(base), _) => Error::check_body(base.len(), max).map(|()| {
                        empty(made, base.len());
                        made.extend_from_slice(base);
                        Seen::Base
                    }),
                    (record::Body::Delta { base, delta, .. }, _) => {
                        let keeps = kept + delta.len() <= DELTAS_KEPT;
                        kept += if keeps { delta.len() } else { 0 };
                        Ok(Seen::Delta(base, keeps.then(|| delta.to_vec())))
                    }
                    (record::Body::Deleted, _) => Err(damaged(next, Damage::Misplaced)),
                });
            };
            fetch(next, &mut see)?;
            match seen.ok_or_else(|| damaged(next, Damage::Missing))?? {
                Seen::Made => {
                    way.pop();
                    break;
                }
                Seen::Base => break,
                Seen::Delta(base, delta) => {
                    way.push((next, delta));
                    next = base;
                }
            }
        }
        while let Some((number, delta)) = way.pop() {
            let is_last = way.is_empty();
            if is_last {
                shrink(&mut made);
            }
            let into = if is_last { &mut result } else { &mut made };
            let mut decoded = None;
            match delta {
                Some(delta) => decoded = Some(decode_one(&mut decoder, &body, (number, &delta), max, into)),
                None => {
                    let mut see = |record: record::Body<'_>| {
                        if let record::Body::Delta { delta, .. } = record {
                            decoded = Some(decode_one(&mut decoder, &body, (number, delta), max, into));
                        }
                    };
                    fetch(number, &mut see)?;
                }
            }
            decoded.ok_or_else(|| damaged(number, Damage::Missing))??;
            if !is_last {
                std::mem::swap(&mut body, &mut made);
            }
        }
        self.give_back(Scratch { decoder, body, made });
        if !expected.is_of(&result) {
            return Err(damaged(number, Damage::OtherBody));
        }
        Ok(Some(result))
    }

    fn take_scratch(&self) -> Scratch {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.pop().unwrap_or_default()
    }

    fn give_back(&self, mut scratch: Scratch) {
        shrink(&mut scratch.body);
        shrink(&mut scratch.made);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
    }
}

/// What a thread decodes with: a long chain needs no more memory than a short one, and none that is new.
#[derive(Debug, Default)]
struct Scratch {
    decoder: DeltaDecoder,
    /// What was made last.
    body: Vec<u8>,
    /// What is made of it. They change places.
    made: Vec<u8>,
}

/// Empties a buffer that is to have so many bytes. To make a short one longer would copy what it had.
fn empty(buffer: &mut Vec<u8>, bytes: usize) {
    buffer.clear();
    if buffer.capacity() < bytes {
        *buffer = Vec::new();
    }
}

/// Frees a buffer that is too long to be kept.
fn shrink(buffer: &mut Vec<u8>) {
    if buffer.capacity() > SCRATCH_BYTES {
        *buffer = Vec::new();
    }
}

/// The frame that the last record of a chain was found in. The next ones are mostly in it, too.
///
/// What is found so may be outdated: a copy that its block keeps beside the record's place, a delta of a base that is
/// gone. It is never of another body.
#[derive(Debug, Default)]
struct Near {
    frame: Option<Arc<Frame>>,
    is_used: bool,
}

impl Near {
    /// Notes a frame. One of a long body would take memory that is needed to decode.
    fn note(&mut self, frame: Arc<Frame>) {
        self.frame = (frame.memory() <= SCRATCH_BYTES).then_some(frame);
    }

    fn record(&mut self, number: u64) -> Option<Result<Record<'_>, Error>> {
        let bytes = self.frame.as_ref()?.record(number)?;
        self.is_used = true;
        Some(Record::decode_packed(number, bytes).map_err(|error| damaged(number, error)))
    }
}

/// Is shown the body of a record.
pub(crate) type See<'s> = &'s mut dyn FnMut(record::Body<'_>);

/// What was seen on the way to a whole record.
enum Seen {
    /// The whole record, and what the last delta makes of it was decoded.
    Made,
    /// The whole record, for a delta that was not kept.
    Base,
    /// A delta and its base.
    Delta(u64, Option<Vec<u8>>),
}

/// Replaces the content of `made` with what the delta of a record makes of a base, if both have at most `max` bytes.
fn decode_one(
    decoder: &mut DeltaDecoder,
    base: &[u8],
    (number, delta): (u64, &[u8]),
    max: usize,
    made: &mut Vec<u8>,
) -> Result<(), Error> {
    let (_, length) = describe(delta).map_err(|error| damaged(number, error))?;
    // A body that is too long for the format is damage.
    if length <= BODY_BYTES_MAX {
        Error::check_body(length.max(base.len()), max)?;
    }
    empty(made, length);
    let decoded = decoder.decode(base, delta, BODY_BYTES_MAX, made);
    decoded.map_err(|error| damaged(number, error))
}
