//! Records become deltas of newer ones: what the encoder found out is written.

use ibid_format::record::{self, BODY_CHECK_BYTES, ChainEntry, EncodingStopped, Record, WATERMARK_KEY};

use super::references;
use crate::engine::{Table, Transaction};
use crate::error::{Damage, Error};
use crate::read::bodies::{Bodies, Stored};
use crate::read::frames;

/// A record, as a delta of another.
#[derive(Debug)]
pub(crate) struct Rewrite {
    pub(crate) number: u64,
    /// Of which the delta makes the body.
    pub(crate) base: u64,
    /// [`body_check`](record::body_check) of the body.
    pub(crate) check: [u8; BODY_CHECK_BYTES],
    pub(crate) delta: Vec<u8>,
}

impl Rewrite {
    pub(crate) fn stored(&self) -> Stored {
        Stored::Delta {
            base: self.base,
            check: self.check,
            delta: self.delta.clone(),
        }
    }
}

/// What the encoder found out.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) rewrites: Vec<Rewrite>,
    /// Entries of the table `chains`, or that there are to be none.
    pub(crate) chains: Vec<(u64, Option<ChainEntry>)>,
    /// The first record that was not looked at.
    pub(crate) next: u64,
    /// Namespaces that encoding was given up for.
    pub(crate) given_up: Vec<u32>,
}

/// Writes it, and gives what became a delta of what.
pub(crate) fn carry_out(
    transaction: &mut dyn Transaction,
    bodies: &Bodies,
    encoded: &Encoded,
) -> Result<Vec<(u64, u64)>, Error> {
    let written = carry_out_rewrites(transaction, bodies, &encoded.rewrites)?;
    for (number, entry) in &encoded.chains {
        let key = number.to_be_bytes();
        match entry {
            Some(entry) if bodies.is_there(transaction, *number)? => {
                let value = entry.encode(*number);
                let value = value.map_err(|error| Error::damaged(Table::Chains, &key, error))?;
                transaction.put(Table::Chains, &key, &value)?;
            }
            Some(_) | None => transaction.delete(Table::Chains, &key)?,
        }
    }
    for &namespace in &encoded.given_up {
        let entry = EncodingStopped { since: encoded.next };
        transaction.put(Table::Meta, &EncodingStopped::key(namespace), &entry.encode(namespace))?;
    }
    let next = record::EncoderWatermark { next: encoded.next };
    transaction.put(Table::Meta, WATERMARK_KEY, &next.encode())?;
    Ok(written)
}

/// Writes rewrites, ascending by record, so that a replica can do the same in the same order. What
/// was deleted since is left alone: a record's body never changes, so that it is there is all that
/// has to be known.
pub(crate) fn carry_out_rewrites(
    transaction: &mut dyn Transaction,
    bodies: &Bodies,
    rewrites: &[Rewrite],
) -> Result<Vec<(u64, u64)>, Error> {
    let mut ascending: Vec<&Rewrite> = rewrites.iter().collect();
    ascending.sort_unstable_by_key(|rewrite| rewrite.number);
    let mut written = Vec::with_capacity(rewrites.len());
    let mut bytes = Vec::new();
    for rewrite in ascending {
        bytes.clear();
        if !bodies.is_there(transaction, rewrite.base)? {
            continue;
        }
        let mut before = None;
        let mut found = |record: Record<'_>| before = Some(delta_of(record, rewrite, &mut bytes));
        bodies.record(transaction, rewrite.number, &mut found)?;
        let key = rewrite.number.to_be_bytes();
        let Some(base_before) = before
            .transpose()
            .map_err(|damage| Error::damaged(Table::Records, &key, damage))?
        else {
            continue;
        };
        transaction.put(Table::Records, &key, &bytes)?;
        frames::take_out(transaction, rewrite.number)?;
        references::add(transaction, rewrite.base)?;
        if let Some(base) = base_before {
            references::subtract(transaction, bodies, base)?;
        }
        written.push((rewrite.number, rewrite.base));
    }
    Ok(written)
}

/// Puts the record into `bytes` as it is to be stored, given how it is, and gives the base that it
/// has.
fn delta_of(record: Record<'_>, rewrite: &Rewrite, bytes: &mut Vec<u8>) -> Result<Option<u64>, Damage> {
    let base = match record.body {
        record::Body::Whole(_) => None,
        record::Body::Delta { base, .. } => Some(base),
        record::Body::Deleted => return Err(Damage::Misplaced),
    };
    let body = record::Body::Delta {
        base: rewrite.base,
        check: rewrite.check,
        delta: &rewrite.delta,
    };
    Record { body, ..record }.encode(rewrite.number, bytes)?;
    Ok(base)
}
