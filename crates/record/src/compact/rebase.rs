//! Storing records anew that need records that were purged.
//!
//! A purged record stays as long as others are deltas of it, directly or not. Each of these becomes a delta of the next
//! record that the purged one was itself a delta of; without one, the newest of them is stored whole, and the others
//! become deltas of that. With the last of them, the purged record is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use ibid_delta::{DeltaEncoder, Interval, Method};
use ibid_format::record::{Body, BodyCheck, References};

use crate::engine::{Direction, Engine, Snapshot, Table};
use crate::error::Error;
use crate::log::state;
use crate::read::records::Records;
use crate::write::handle::WriterHandle;
use crate::write::references;
use crate::write::request::{Command, Durability, Rewrite};

/// A record becomes a delta if that takes at most this percentage of it, as for the encoder.
const DELTA_PERCENT_MAX: usize = 75;
/// Bytes of records that are written in one commit, beyond the first record.
const COMMIT_BYTES: usize = 4 << 20;

/// Stores what needs purged records without them. Returns how many purged records are left, because the log names them.
/// Stores nothing in a replica, whose primary does it.
pub(super) fn rebase(
    engine: &dyn Engine,
    records: &Records,
    writer: &WriterHandle,
    interval: Interval,
) -> Result<u64, Error> {
    loop {
        let snapshot = engine.snapshot()?;
        let purged = purged(&*snapshot)?;
        let left = purged.len() as u64;
        let is_primary = state::check_primary(state::read(&*snapshot)?.as_ref()).is_ok();
        if !is_primary || left == 0 {
            return Ok(left);
        }
        let mut rebase = Rebase {
            read: &*snapshot,
            records,
            writer,
            interval,
            encoder: DeltaEncoder::new(),
            purged: purged.keys().copied().collect(),
            pending: Vec::new(),
            pending_bytes: 0,
        };
        let dependents = rebase.dependents(purged)?;
        if dependents.is_empty() {
            return Ok(left); // the log keeps them
        }
        for (base, dependents) in dependents {
            rebase.without(base, &dependents)?;
        }
        rebase.write()?;
    }
}

/// Returns the purged records that are still there, and how many deltas each has.
fn purged(read: &dyn Snapshot) -> Result<BTreeMap<u64, u32>, Error> {
    // The log counts as one more.
    let logged = state::first_record(read)?;
    let mut purged = BTreeMap::new();
    let mut damage = None;
    let mut each = |key: &[u8], value: &[u8]| {
        let group = key.try_into().map_or(u64::MAX, u64::from_be_bytes);
        match References::decode(group, value) {
            Ok(references) => {
                let here = references
                    .iter(group)
                    .filter(|(number, ..)| references.is_purged(*number));
                purged
                    .extend(here.map(|(number, count, _)| (number, count.saturating_sub(u32::from(number >= logged)))));
                ControlFlow::Continue(())
            }
            Err(error) => {
                damage = Some(Error::damaged(Table::References, key, error));
                ControlFlow::Break(())
            }
        }
    };
    let everything = (Bound::Unbounded, Bound::Unbounded);
    read.range(Table::References, everything, Direction::Forward, &mut each)?;
    damage.map_or(Ok(purged), Err)
}

struct Rebase<'r> {
    read: &'r dyn Snapshot,
    records: &'r Records,
    writer: &'r WriterHandle,
    interval: Interval,
    encoder: DeltaEncoder,
    purged: BTreeSet<u64>,
    pending: Vec<Rewrite>,
    pending_bytes: usize,
}

impl Rebase<'_> {
    /// Returns the records that are deltas of these and were not purged, ascending, by base. Looks at records from the
    /// last of these down, until all were seen.
    fn dependents(&self, mut missing: BTreeMap<u64, u32>) -> Result<BTreeMap<u64, Vec<u64>>, Error> {
        const AT_ONCE: u64 = 1 << 12;
        missing.retain(|_, count| *count > 0);
        let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut below = missing.last_key_value().map_or(0, |(&last, _)| last);
        while below > 0 && !missing.is_empty() {
            let after = below.saturating_sub(AT_ONCE + 1);
            let mut numbers = self.records.numbers(self.read, after, AT_ONCE as usize)?;
            numbers.retain(|&number| number < below);
            for &number in &numbers {
                let mut base = None;
                self.records.visit(self.read, number, &mut |record| {
                    if let Body::Delta { base: found, .. } = record.body {
                        base = Some(found);
                    }
                })?;
                let Some(base) = base else { continue };
                let Some(count) = missing.get_mut(&base) else { continue };
                *count -= 1;
                if *count == 0 {
                    missing.remove(&base);
                }
                if !self.purged.contains(&number) {
                    found.entry(base).or_default().push(number);
                }
            }
            below = after + 1;
            if after == 0 {
                break;
            }
        }
        for numbers in found.values_mut() {
            numbers.sort_unstable();
        }
        Ok(found)
    }

    /// Stores the deltas of a purged record without it.
    fn without(&mut self, purged: u64, dependents: &[u64]) -> Result<(), Error> {
        let mut base = match self.next_base(purged)? {
            Some(base) => Some((base, self.records.body_of_any(self.read, base)?)),
            None => None,
        };
        // The newest first: the others may become deltas of it.
        for &number in dependents.iter().rev() {
            let body = self.records.body_of_any(self.read, number)?;
            let delta = match &base {
                Some((base, newer)) => self.delta(number, &body, *base, newer)?,
                None => None,
            };
            let rewrite = delta.unwrap_or_else(|| Rewrite {
                number,
                base: number,
                check: BodyCheck::of(&body),
                delta: body.clone(),
            });
            if base.is_none() && !references::group(self.read, number)?.is_obsolete(number) {
                base = Some((number, body));
            }
            self.pending_bytes += rewrite.delta.len();
            self.pending.push(rewrite);
            if self.pending_bytes > COMMIT_BYTES {
                self.write()?;
            }
        }
        Ok(())
    }

    /// Returns the next record that a purged one is a delta of, directly or not, and that stays.
    fn next_base(&self, purged: u64) -> Result<Option<u64>, Error> {
        let mut next = purged;
        loop {
            let mut base = None;
            self.records.visit(self.read, next, &mut |record| {
                if let Body::Delta { base: found, .. } = record.body {
                    base = Some(found);
                }
            })?;
            match base {
                Some(base) if references::group(self.read, base)?.is_obsolete(base) => next = base,
                base => return Ok(base),
            }
        }
    }

    /// Returns a record as a delta of a newer one; [`None`] if that saves too little.
    fn delta(&mut self, number: u64, older: &[u8], base: u64, newer: &[u8]) -> Result<Option<Rewrite>, Error> {
        let method = Method::Anchor {
            interval: self.interval,
        };
        let mut delta = Vec::new();
        let encoded = self.encoder.encode(method, newer, older, &mut delta);
        encoded.map_err(|error| Error::damaged(Table::Records, &number.to_be_bytes(), error))?;
        let rewrite = Rewrite {
            number,
            base,
            check: BodyCheck::of(older),
            delta,
        };
        Ok((rewrite.delta.len() * 100 <= older.len() * DELTA_PERCENT_MAX).then_some(rewrite))
    }

    fn write(&mut self) -> Result<(), Error> {
        let rewrites = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        if rewrites.is_empty() {
            return Ok(());
        }
        self.writer.ask(Command::Rebase(rewrites), Durability::None).map(drop)
    }
}
