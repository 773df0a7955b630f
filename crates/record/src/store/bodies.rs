//! From a record to its body: along the records that it is a delta of, one after the other.

use std::sync::{Mutex, PoisonError};

use ibid_delta::Decoder;
use ibid_format::record::{self, BODY_BYTES_MAX, BODY_CHECK_BYTES, body_check};

use super::error::{Damage, Error};
use crate::engine::{Read, Table};

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

/// Reads a record; whoever it is of, unless an owner is named. [`None`] if there is none.
pub(crate) fn stored(
    read: &(impl Read + ?Sized),
    number: u64,
    owner: Option<Owner<'_>>,
) -> Result<Option<Stored>, Error> {
    let key = number.to_be_bytes();
    let mut stored = Ok(None);
    let mut found = |value: &[u8]| {
        stored = match record::Record::decode(number, value) {
            Err(error) => Err(Damage::Bytes(error)),
            Ok(record) if owner.is_some_and(|owner| owner != (record.namespace, record.key, record.version)) => {
                Err(Damage::Misplaced)
            }
            Ok(record) => Ok(Some(Stored::of(record.body))),
        }
    };
    read.get(Table::Records, &key, &mut found)?;
    stored.map_err(|damage| Error::damaged(Table::Records, &key, damage))
}

/// Makes bodies of deltas.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    /// One for each reader at work at most.
    decoders: Mutex<Vec<Decoder>>,
}

impl Bodies {
    /// The body of a record of which `stored` was read, and of how many other records it took; [`None`] if it says that its key was deleted. Gets those that it is a
    /// delta of, directly or not, from `fetch`.
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

    fn take(&self) -> Decoder {
        let mut decoders = self.decoders.lock().unwrap_or_else(PoisonError::into_inner);
        decoders.pop().unwrap_or_default()
    }
}
