//! From a delta to its body, along the chain of records that it is a delta of.

use std::sync::{Arc, PoisonError};

use ibid_delta::DeltaDecoder;
use ibid_delta::advanced::describe;
use ibid_format::record::{self, BODY_BYTES_MAX, Record};

use super::frames::Frame;
use super::records::{Generation, Records, StoredBody, damaged};
use crate::engine::Read;
use crate::error::{Damage, Error};

/// Bytes of deltas that are kept in memory on the way to a whole record.
const DELTAS_KEPT: usize = 8 << 20;

/// A buffer for a body is kept for the next one if it has no more bytes, and so is a frame on the way to a body.
const SCRATCH_BYTES: usize = 1 << 20;

impl Records {
    /// Decodes the body of a record that was read; [`None`] if it is a deletion. With a generation, takes what is
    /// stored whole in frames from the cache, and caches it.
    pub(super) fn follow(
        &self,
        read: &(impl Read + ?Sized),
        generation: Option<Generation>,
        number: u64,
        stored: StoredBody,
        mut near: Near,
    ) -> Result<Option<Vec<u8>>, Error> {
        let fetch = |base, see: See<'_>| self.visit_base(read, base, generation, &mut near, see);
        match self.decode(number, stored, fetch) {
            Err(_) if near.is_used => {
                // What was near may have been outdated.
                let stored = self.stored(read, number, None)?;
                let stored = stored.ok_or_else(|| damaged(number, Damage::Missing))?;
                let fetch = |base, see: See<'_>| self.visit_base(read, base, generation, &mut Near::default(), see);
                self.decode(number, stored, fetch)
            }
            decoded => decoded,
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
        let max = self.body_bytes_max();
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
pub(super) struct Scratch {
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
pub(super) struct Near {
    frame: Option<Arc<Frame>>,
    is_used: bool,
}

impl Near {
    /// Notes a frame. One of a long body would take memory that is needed to decode.
    pub(super) fn note(&mut self, frame: Arc<Frame>) {
        self.frame = (frame.memory() <= SCRATCH_BYTES).then_some(frame);
    }

    pub(super) fn record(&mut self, number: u64) -> Option<Result<Record<'_>, Error>> {
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
