//! Records with the same body: the newest is whole, and the others are deltas that copy it.

use std::sync::Arc;

use ibid_delta::Sketch;
use ibid_format::record::{self, BodyCheck, COPIES_MAX, ChainEntry, LatestEntry, Stopped, key_of};

use super::{CachedBody, Choice, EncoderThread, REPLACED_SAVED_PART, Source, number_of};
use crate::engine::Snapshot;
use crate::error::Error;
use crate::read::{lookup, namespaces};
use crate::write::request::Rewrite;

/// A record that is a delta already becomes one of a record with the same body if that saves so many bytes.
const SHARED_SAVED_MIN: u64 = 256;
/// When there are so many more copies of a body, all become deltas of the last: so no more records are read for one.
const COPIES_IN_A_ROW: usize = 8;
/// An older record with the same body as the new one.
pub(super) struct SameBody {
    pub(super) choice: Choice,
    /// The latest versions with this body that are deltas of the new record then.
    pub(super) copies: Vec<u64>,
}

impl EncoderThread {
    /// Makes the new record the one that its body is found by. Returns the one before as a delta of it, which takes a
    /// few bytes, if that saves enough.
    pub(super) fn same_body(
        &mut self,
        read: &dyn Snapshot,
        source: Source<'_>,
        check: BodyCheck,
    ) -> Result<Option<SameBody>, Error> {
        let place = self.bodies.replace(source.number, check);
        let Some(place) = place.or_else(|| self.bodies.take_earlier(source.body)) else {
            return Ok(None);
        };
        let number = number_of(place, source.number);
        let mut owner = None;
        let mut stored_bytes = 0;
        let mut is_certain = false;
        self.records.visit(read, number, &mut |record| {
            let is_same = match record.body {
                record::Body::Whole(body) => {
                    is_certain = body == source.body;
                    is_certain
                }
                record::Body::Delta { check: found, .. } => {
                    found == check || found.hash != check.hash && found.is_of(source.body)
                }
                record::Body::Deleted => false,
            };
            if is_same {
                owner = Some((record.namespace, key_of(record.namespace, record.key)));
                stored_bytes = record.body.stored().len() as u64;
            }
        })?;
        let Some((namespace, stored_key)) = owner else {
            return Ok(None);
        };
        let mut copies = self.chain(read, number)?.map_or(Vec::new(), |entry| entry.copies);
        if lookup::is_latest(read, &stored_key, number)? {
            let versions_kept = namespaces::keeps_versions(read, namespace)?;
            match self.latest(read, namespace, versions_kept)? {
                LatestEntry::Whole => return Ok(None),
                LatestEntry::Deltas => {}
                LatestEntry::Automatic | LatestEntry::Shared if copies.len() == COPIES_MAX => return Ok(None),
                LatestEntry::Automatic | LatestEntry::Shared => copies.push(number),
            }
        }
        if !is_certain && self.body_as_it_will_be(read, source, number)?.as_deref() != Some(source.body) {
            return Ok(None);
        }
        let stored_bytes = match self.pending.get(number) {
            Some(rewrite) => rewrite.delta.len() as u64,
            None => stored_bytes,
        };
        let is_whole = stored_bytes == source.body.len() as u64;
        let bytes_max = source.body.len() / REPLACED_SAVED_PART;
        let choice = self.delta(source, (number, source.body, Some(check)), bytes_max)?;
        let Some(mut choice) = choice else {
            return Ok(None);
        };
        choice.saved = stored_bytes.saturating_sub(choice.rewrite.delta.len() as u64);
        if !is_whole && choice.saved < SHARED_SAVED_MIN {
            return Ok(None);
        }
        // One that is no copy itself would make the way of the others longer without being counted.
        let is_copy = copies.last() == Some(&number);
        if !is_copy || copies.len().is_multiple_of(COPIES_IN_A_ROW) {
            copies = self.latest_of(read, copies)?;
            let others = if is_copy { copies.len() - 1 } else { copies.len() };
            self.point_at(source.number, &copies[..others], &choice.rewrite);
        }
        Ok(Some(SameBody { choice, copies }))
    }

    /// Returns those of these records that are the latest of their keys.
    fn latest_of(&self, read: &dyn Snapshot, records: Vec<u64>) -> Result<Vec<u64>, Error> {
        let mut latest = Vec::with_capacity(records.len());
        for number in records {
            if self.records.is_latest(read, number)? {
                latest.push(number);
            }
        }
        Ok(latest)
    }

    /// Makes copies deltas of another record with the same body, like the one that `rewrite` is of.
    fn point_at(&mut self, base: u64, copies: &[u64], rewrite: &Rewrite) {
        for &number in copies {
            let delta = rewrite.delta.clone();
            // It saves time and no bytes, like a hop.
            self.pending.rewrite(
                u64::MAX,
                Rewrite {
                    number,
                    base,
                    delta,
                    ..*rewrite
                },
            );
        }
    }

    /// If latest versions are deltas of this record because they have the same body, makes the last of them whole, and
    /// the others deltas of that: the record is about to become a delta, and they would be read more slowly.
    pub(super) fn hand_over_copies(
        &mut self,
        read: &dyn Snapshot,
        source: Source<'_>,
        number: u64,
    ) -> Result<(), Error> {
        let Some(ChainEntry {
            copies,
            features,
            check: Some(check),
            ..
        }) = self.chain(read, number)?
        else {
            return Ok(());
        };
        let mut others = self.latest_of(read, copies)?;
        let Some(last) = others.pop() else {
            return Ok(());
        };
        let mut namespace = None;
        let mut is_whole = false;
        self.records.visit(read, last, &mut |record| {
            namespace = Some(record.namespace);
            is_whole = matches!(record.body, record::Body::Whole(_));
        })?;
        let (Some(namespace), Some(body)) = (namespace, self.body_as_it_will_be(read, source, number)?) else {
            return Ok(());
        };
        let source = Source {
            number: last,
            body: &body,
        };
        let copy = self.delta(source, (number, &body, None), body.len())?;
        if let Some(Choice { rewrite, .. }) = copy {
            self.point_at(last, &others, &rewrite);
        }
        self.pending.forget(last);
        if !is_whole {
            let rewrite = Rewrite {
                number: last,
                base: last,
                check,
                delta: body.clone(),
            };
            self.pending.rewrite(u64::MAX, rewrite);
        }
        self.bodies.replace(last, check);
        if self.stopped(namespace) == Some(Stopped::All) {
            return Ok(());
        }
        let mut entry = self.first_of_chain(namespace);
        (entry.check, entry.copies) = (Some(check), others);
        let sketch = Sketch::of(features.into_iter().map(u64::from));
        self.add_newest(read, last, entry, &sketch)?;
        let length = body.len();
        self.cache
            .insert(last, Arc::new(CachedBody { body, check: None }), length);
        Ok(())
    }

    /// Makes a record, which is not the newest of the new one's chain, a delta of the new one.
    pub(super) fn share(&mut self, read: &dyn Snapshot, choice: Choice) -> Result<(), Error> {
        let older = choice.rewrite.number;
        if let Some(entry) = self.chain(read, older)? {
            self.index.remove(older, &entry);
        }
        self.replace(choice);
        Ok(())
    }
}
