//! Reading several records at once: each frame is decompressed once for all the records in it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ibid_format::record::{Place, Record};

use super::frames::Frame;
use super::pieces;
use super::records::{Generation, Owner, Records, StoredBody, damaged, owned_body};
use crate::engine::Snapshot;
use crate::error::{Damage, Error};

/// Reads the latest versions of these owners, whose records have these numbers. Returns their bodies
/// in the same order; [`None`] for a deletion.
///
/// Frames are taken in the order of the smallest number that is needed of each. A base has a larger
/// number than its deltas, so a frame of bases mostly comes after those of their deltas. It is
/// decompressed again only if another frame lies between two of its records on a chain.
pub(super) fn latest_bodies(
    records: &Records,
    read: &dyn Snapshot,
    generation: Generation,
    wanted: &[(u64, Owner<'_>)],
) -> Result<Vec<Option<Vec<u8>>>, Error> {
    let mut gathering = Gathering {
        records,
        read,
        generation,
        owners: HashMap::with_capacity(wanted.len()),
        found: HashMap::with_capacity(wanted.len()),
        bases: HashSet::new(),
        in_pieces: HashSet::new(),
        waiting: BTreeMap::new(),
        order: BTreeSet::new(),
    };
    for &(number, owner) in wanted {
        if gathering.owners.insert(number, owner).is_some() {
            // Each record is of one version of one key.
            return Err(damaged(number, Damage::Misplaced));
        }
    }
    for &(number, _) in wanted {
        gathering.want_latest(number)?;
    }
    gathering.read_frames()?;
    let Gathering {
        mut found,
        bases,
        in_pieces,
        ..
    } = gathering;
    let body = |&(number, _): &(u64, Owner<'_>)| {
        let latest = match bases.contains(&number) {
            true => found.get(&number).cloned(),
            false => found.remove(&number),
        };
        let latest = latest.ok_or_else(|| damaged(number, Damage::Missing))?;
        let body = records.decode(number, latest, |base, see| {
            let base = found.get(&base);
            base.into_iter().for_each(|base| see(base.as_body()));
            Ok(base.is_some())
        })?;
        match body {
            Some(list) if in_pieces.contains(&number) => {
                pieces::assembled(records, read, &pieces::list_of(number, &list)?).map(Some)
            }
            body => Ok(body),
        }
    };
    wanted.iter().map(body).collect()
}

/// The records that were read, and those that wait for their frames.
struct Gathering<'r> {
    records: &'r Records,
    read: &'r dyn Snapshot,
    generation: Generation,
    /// Who must own the records that are wanted for themselves; bases may be of any key.
    owners: HashMap<u64, Owner<'r>>,
    found: HashMap<u64, StoredBody>,
    /// The records among these that others are deltas of.
    bases: HashSet<u64>,
    /// Those whose bodies are lists of pieces.
    in_pieces: HashSet<u64>,
    /// The records to read from each frame.
    waiting: BTreeMap<Place, BTreeSet<u64>>,
    /// The frames by the numbers of these records. Some of them may be read already.
    order: BTreeSet<(u64, Place)>,
}

impl Gathering<'_> {
    /// Reads a latest version, from the cache if it is there.
    fn want_latest(&mut self, number: u64) -> Result<(), Error> {
        match self.records.cached_whole(self.generation, number) {
            Some(bytes) => self.take_packed(number, &bytes),
            None => self.want(number),
        }
    }

    /// Reads a record and its bases, as far as they are in no frame; the first that is in one waits
    /// for it.
    fn want(&mut self, number: u64) -> Result<(), Error> {
        let mut next = Some(number);
        while let Some(number) = next.take().filter(|number| !self.found.contains_key(number)) {
            let owner = self.owners.get(&number).copied();
            let (mut single, mut in_pieces) = (None, false);
            self.records.visit_single(self.read, number, &mut |record| {
                in_pieces = record.in_pieces;
                single = Some(owned_body(record, owner));
            })?;
            self.note_pieces(number, in_pieces);
            if let Some(stored) = single {
                let stored = stored.map_err(|damage| damaged(number, damage))?;
                next = self.keep(number, stored);
                continue;
            }
            let place = self.records.place_of(self.read, number)?;
            let place = place.ok_or_else(|| damaged(number, Damage::Missing))?;
            self.waiting.entry(place).or_default().insert(number);
            self.order.insert((number, place));
        }
        Ok(())
    }

    /// Reads all that wait.
    fn read_frames(&mut self) -> Result<(), Error> {
        while let Some((_, place)) = self.order.pop_first() {
            if !self.waiting.contains_key(&place) {
                continue;
            }
            let frame = self.records.frame(self.read, place)?;
            // Their bases may be in the same frame.
            while let Some(numbers) = self.waiting.remove(&place) {
                for number in numbers {
                    self.take_from(&frame, number)?;
                }
            }
        }
        Ok(())
    }

    fn take_from(&mut self, frame: &Frame, number: u64) -> Result<(), Error> {
        let bytes = frame.record(number).ok_or_else(|| damaged(number, Damage::Missing))?;
        self.take_packed(number, bytes)?;
        if self.owners.contains_key(&number) && matches!(self.found.get(&number), Some(StoredBody::Whole(_))) {
            self.records.cache_whole(self.generation, number, bytes);
        }
        Ok(())
    }

    /// Takes a record as it is in a frame, and wants its base.
    fn take_packed(&mut self, number: u64, bytes: &[u8]) -> Result<(), Error> {
        let record = Record::decode_packed(number, bytes).map_err(|error| damaged(number, error))?;
        self.note_pieces(number, record.in_pieces);
        let stored = owned_body(record, self.owners.get(&number).copied());
        let stored = stored.map_err(|damage| damaged(number, damage))?;
        match self.keep(number, stored) {
            Some(base) => self.want(base),
            None => Ok(()),
        }
    }

    fn note_pieces(&mut self, number: u64, in_pieces: bool) {
        if in_pieces {
            self.in_pieces.insert(number);
        }
    }

    /// Keeps a record that was read, and returns its base if it is a delta.
    fn keep(&mut self, number: u64, stored: StoredBody) -> Option<u64> {
        let base = match stored {
            StoredBody::Delta { base, .. } => Some(base),
            StoredBody::Whole(_) | StoredBody::Deleted => None,
        };
        self.bases.extend(base);
        self.found.insert(number, stored);
        base
    }
}
