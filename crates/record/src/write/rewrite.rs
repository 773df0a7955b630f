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

#[cfg(test)]
mod tests {
    use ibid_format::record::{Body, BodyCheck};

    use super::*;
    use crate::engine::{Commit, Engine, Redb};

    /// Record 1 is the only delta of record 3, which no key has any more.
    #[test]
    fn a_base_stays_that_one_record_needs_no_longer_and_another_needs_now() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Redb::open(&folder.path().join("redb"), 1 << 20).unwrap();
        let records = Records::new(1 << 20, 1 << 20);
        let check = BodyCheck::of(b"body");
        let put = |transaction: &mut dyn Transaction, number: u64, body: Body<'_>| {
            let record = Record {
                in_pieces: false,
                namespace: 1,
                key: b"key",
                version: number as u32,
                body,
            };
            let (head, check) = record.encode_around(number).unwrap();
            let parts = [&head, body.stored(), &check];
            transaction.put_parts(Table::Records, &number.to_be_bytes(), &parts)
        };
        let rewrite = |number: u64, base: u64| Rewrite {
            number,
            base,
            check,
            delta: b"delta".to_vec(),
        };
        let mut work = |transaction: &mut dyn Transaction| {
            let (base, delta) = (3, &b"delta"[..]);
            put(transaction, 1, Body::Delta { base, check, delta })?;
            for number in 2..=4 {
                put(transaction, number, Body::Whole(b"body"))?;
            }
            references::add(transaction, vec![base]).unwrap();
            references::release(transaction, &records, base).unwrap();
            let written = apply_rewrites(transaction, &records, &[rewrite(1, 4), rewrite(2, base)]);
            assert_eq!(written.unwrap(), [(1, 4), (2, base)]);
            assert!(records.contains(transaction, base).unwrap());
            let counts = references::group(transaction, base).unwrap();
            assert_eq!((counts.count(base), counts.count(4)), (1, 1));
            assert!(counts.is_obsolete(base));
            // The last one that needs it takes it along.
            apply_rewrites(transaction, &records, &[rewrite(2, 4)]).unwrap();
            assert!(!records.contains(transaction, base).unwrap());
            Ok(())
        };
        engine.write(Commit::Unsynced, &mut work).unwrap();
    }
}
