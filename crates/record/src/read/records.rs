//! From the number of a record to what is stored of it.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ibid_format::record::{self, BodyCheck, PieceList, Place, Record, key_of};

use super::chain::{Near, Scratch, See};
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
    pub(super) idle: Mutex<Vec<Scratch>>,
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
                let body = self.follow(read, generation, number, delta, near)?;
                body.into_iter().for_each(|body| found(Cow::Owned(body), in_pieces));
                Ok(true)
            }
        }
    }

    /// Shows the body of a record that others are deltas of to `see`, and returns whether there is one. Looks near the
    /// last one first.
    pub(super) fn visit_base(
        &self,
        read: &(impl Read + ?Sized),
        number: u64,
        generation: Option<Generation>,
        near: &mut Near,
        see: See<'_>,
    ) -> Result<bool, Error> {
        if let Some(record) = near.record(number) {
            see(record?.body);
            return Ok(true);
        }
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
}
