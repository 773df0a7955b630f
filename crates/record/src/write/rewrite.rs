//! Storing records as deltas of newer ones, as the encoder chose.

use ibid_format::record::{self, EncoderWatermark, EncodingStopped, RECORD_CHECK_BYTES, Record, WATERMARK_KEY};

use super::request::{EncodedBatch, Rewrite};
use super::{places, references};
use crate::engine::{Table, Transaction};
use crate::error::{Damage, Error};
use crate::read::records::Records;

/// Writes the results of the encoder. Returns the records that became deltas, each with its base.
pub(crate) fn apply_encoded(
    transaction: &mut dyn Transaction,
    records: &Records,
    encoded: &EncodedBatch,
) -> Result<Vec<(u64, u64)>, Error> {
    let written = apply_rewrites(transaction, records, &encoded.rewrites)?;
    for (number, entry) in &encoded.chains {
        let key = number.to_be_bytes();
        match entry {
            Some(entry) if records.contains(transaction, *number)? => {
                let value = entry.encode(*number);
                let value = value.map_err(|error| Error::damaged(Table::Chains, &key, error))?;
                transaction.put(Table::Chains, &key, &value)?;
            }
            Some(_) | None => transaction.delete(Table::Chains, &key)?,
        }
    }
    for &(namespace, stopped) in &encoded.given_up {
        let entry = EncodingStopped { since: encoded.next };
        let key = EncodingStopped::key(namespace, stopped);
        transaction.put(Table::Meta, &key, &entry.encode(namespace, stopped))?;
    }
    let next = EncoderWatermark { next: encoded.next };
    transaction.put(Table::Meta, WATERMARK_KEY, &next.encode())?;
    Ok(written)
}

/// Writes rewrites, ascending by record, so that a replica can do the same in the same order.
/// Returns the records that became deltas, each with its base. Passes over records that were
/// removed since, or whose base was: a record's body never changes, so nothing else can be out of
/// date.
pub(crate) fn apply_rewrites(
    transaction: &mut dyn Transaction,
    records: &Records,
    rewrites: &[Rewrite],
) -> Result<Vec<(u64, u64)>, Error> {
    let mut ascending: Vec<&Rewrite> = rewrites.iter().collect();
    ascending.sort_unstable_by_key(|rewrite| rewrite.number);
    let mut written = Vec::with_capacity(rewrites.len());
    let mut placed = places::Removal::default();
    let (mut bases, mut bases_before) = (Vec::new(), Vec::new());
    for rewrite in ascending {
        // What needs a purged record is stored anew without it, so nothing is made to need one.
        let is_gone = !records.contains(transaction, rewrite.base)?
            || references::group(transaction, rewrite.base)?.is_purged(rewrite.base);
        if is_gone && !rewrite.is_whole() {
            continue;
        }
        let (mut before, mut bytes_before) = (None, 0);
        let mut found = |record: Record<'_>| {
            bytes_before = record.body.stored().len();
            before = Some(around(record, rewrite));
        };
        records.visit(transaction, rewrite.number, &mut found)?;
        let key = rewrite.number.to_be_bytes();
        let before = before.transpose();
        let Some(around) = before.map_err(|damage| Error::damaged(Table::Records, &key, damage))? else {
            continue;
        };
        transaction.put_parts(Table::Records, &key, &[&around.head, &rewrite.delta, &around.check])?;
        placed.remove(transaction, records, rewrite.number, bytes_before)?;
        if !rewrite.is_whole() {
            bases.push(rewrite.base);
        }
        bases_before.extend(around.base_before);
        written.push((rewrite.number, rewrite.base));
    }
    placed.finish(transaction)?;
    // What one needs no longer, another may need now: counts that are lower remove it.
    references::add(transaction, bases)?;
    for base in bases_before {
        references::subtract(transaction, records, base)?;
    }
    Ok(written)
}

/// What is stored around a delta or a body.
struct Around {
    head: Vec<u8>,
    check: [u8; RECORD_CHECK_BYTES],
    /// The base that the record had before, if it was a delta.
    base_before: Option<u64>,
}

/// Returns what is stored around the delta that `rewrite` makes of a record, or around its body.
fn around(record: Record<'_>, rewrite: &Rewrite) -> Result<Around, Damage> {
    let base_before = match record.body {
        record::Body::Whole(_) => None,
        record::Body::Delta { base, .. } => Some(base),
        record::Body::Deleted => return Err(Damage::Misplaced),
    };
    let body = rewrite.body();
    let (head, check) = Record { body, ..record }.encode_around(rewrite.number)?;
    Ok(Around {
        head,
        check,
        base_before,
    })
}
