//! Records become deltas of newer ones: what the encoder found out is written.

use ibid_format::record::{self, BODY_CHECK_BYTES, ChainEntry, ENCODED_KEY, Record};

use super::bodies::Stored;
use super::error::{Damage, Error};
use super::references;
use crate::engine::{Table, Transaction};

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
}

/// Writes it. What was deleted since is left alone: a record's body never changes, so that it is there is all that has to be known.
pub(crate) fn carry_out(transaction: &mut dyn Transaction, encoded: &Encoded) -> Result<(), Error> {
    let mut bytes = Vec::new();
    for rewrite in &encoded.rewrites {
        bytes.clear();
        if !transaction.get(Table::Records, &rewrite.base.to_be_bytes(), &mut |_| {})? {
            continue;
        }
        let key = rewrite.number.to_be_bytes();
        let mut before = Ok(None);
        let mut found = |value: &[u8]| before = delta_of(value, rewrite, &mut bytes).map(Some);
        transaction.get(Table::Records, &key, &mut found)?;
        let Some(base_before) = before.map_err(|damage| Error::damaged(Table::Records, &key, damage))? else {
            continue;
        };
        transaction.put(Table::Records, &key, &bytes)?;
        references::add(transaction, rewrite.base)?;
        if let Some(base) = base_before {
            references::subtract(transaction, base)?;
        }
    }
    for (number, entry) in &encoded.chains {
        let key = number.to_be_bytes();
        match entry {
            Some(entry) if transaction.get(Table::Records, &key, &mut |_| {})? => {
                let value = entry.encode(*number);
                let value = value.map_err(|error| Error::damaged(Table::Chains, &key, error))?;
                transaction.put(Table::Chains, &key, &value)?;
            }
            Some(_) | None => transaction.delete(Table::Chains, &key)?,
        }
    }
    let next = record::Encoded { next: encoded.next };
    transaction.put(Table::Meta, ENCODED_KEY, &next.encode())?;
    Ok(())
}

/// Puts the record into `bytes` as it is to be stored, given how it is, and gives the base that it has.
fn delta_of(value: &[u8], rewrite: &Rewrite, bytes: &mut Vec<u8>) -> Result<Option<u64>, Damage> {
    let record = Record::decode(rewrite.number, value)?;
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
