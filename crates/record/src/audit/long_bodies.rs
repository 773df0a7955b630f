//! Whether the parts of long bodies are there, and are needed as often as is counted.

use std::collections::BTreeSet;
use std::ops::Bound;

use ibid_format::record::{KeyEntry, PIECES_NAMESPACE, PieceList, body_digest, split_key};

use super::fault::Problem;
use super::verify::Verifier;
use crate::engine::Table;
use crate::error::{Damage, Error};
use crate::read::{lookup, pieces};

/// Damaged parts whose bodies are looked for.
const PARTS_MAX: usize = 1 << 16;

/// What is known of the parts.
#[derive(Default)]
pub(super) struct Parts {
    /// The parts that the lists of all versions name.
    needed: Uses,
    /// The same, as the entries of the parts say.
    pub(super) counted: Uses,
    /// The keys of the first parts that cannot be read, as they are in the table `keys`.
    damaged: BTreeSet<Vec<u8>>,
}

/// A sum over parts of long bodies: of how many records need each, with and without what names the part. Two such sums
/// are the same for the same parts, and practically never for others.
#[derive(Default, PartialEq, Eq)]
pub(super) struct Uses {
    total: u64,
    of_parts: u64,
}

impl Uses {
    pub(super) fn add(&mut self, stored_key: &[u8], uses: u64) {
        if uses == 0 {
            return; // most keys are of no part
        }
        let named = u64::from_le_bytes(body_digest(stored_key));
        self.total = self.total.wrapping_add(uses);
        self.of_parts = self.of_parts.wrapping_add(named.wrapping_mul(uses));
    }
}

impl Verifier<'_> {
    fn is_of_pieces(&self, namespace: u32) -> bool {
        let found = self.namespaces.get(&namespace);
        found.is_some_and(|found| found.name == PIECES_NAMESPACE)
    }

    /// Notes that a key of this namespace cannot be read, if it is a part of long bodies.
    pub(super) fn note_part(&mut self, namespace: u32, stored_key: &[u8]) {
        if self.is_of_pieces(namespace) && self.parts.damaged.len() < PARTS_MAX {
            self.parts.damaged.insert(stored_key.to_vec());
        }
    }

    /// Checks that the parts of a long body are there, of which each is checked with its own key.
    pub(super) fn list(&mut self, list: &PieceList) -> Result<(), Error> {
        for stored_key in list.stored_keys() {
            self.parts.needed.add(&stored_key, 1);
            if !self.read.contains(Table::Keys, &stored_key)? {
                self.fault(Table::Keys, &stored_key, Problem::Damaged(Damage::Missing));
                self.note_part(list.namespace, &stored_key);
            }
        }
        Ok(())
    }

    /// Names the keys whose bodies need parts that cannot be read.
    pub(super) fn bodies(&mut self) -> Result<(), Error> {
        if self.parts.damaged.is_empty() {
            return Ok(());
        }
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let walked = self.walk_range(Table::Keys, everything, |verifier, key, value| {
            let looked = verifier.bodies_of_key(key, value);
            verifier.absorb(looked, Table::Keys, key)
        });
        // The walk before this one has told of the same.
        self.absorb(walked, Table::Keys, b"")
    }

    fn bodies_of_key(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        let damaged = |error| Error::damaged(Table::Keys, stored_key, error);
        let entry = KeyEntry::decode(stored_key, value).map_err(damaged)?;
        let (namespace, _) = split_key(stored_key).map_err(damaged)?;
        if !entry.in_pieces || self.is_of_pieces(namespace) {
            return Ok(());
        }
        let (mut versions, mut first) = (0, 0);
        for (version, found) in lookup::versions(self.read, &entry)? {
            let Some(list) = self.records.list(self.read, found.number)? else {
                continue;
            };
            if !self.is_damaged(&list) {
                continue;
            }
            (versions, first) = (versions + 1, if first == 0 { version } else { first });
            if let Some(counts) = self.namespaces.get_mut(&namespace) {
                let latest = if version == entry.versions { list.length() } else { 0 };
                counts.records = counts.records.saturating_sub(1);
                counts.body_bytes = counts.body_bytes.saturating_sub(list.length());
                counts.latest_body_bytes = counts.latest_body_bytes.saturating_sub(latest);
            }
        }
        if versions > 0 {
            self.fault(Table::Keys, stored_key, Problem::Pieces { versions, first });
        }
        Ok(())
    }

    /// Whether a part of a body cannot be read.
    fn is_damaged(&self, list: &PieceList) -> bool {
        let is_noted = |list: &PieceList| {
            let mut keys = list.parts.iter().map(|part| list.stored_key(part));
            keys.any(|key| self.parts.damaged.contains(&key))
        };
        is_noted(list)
            || list.parts.iter().any(|part| {
                let parts = pieces::parts_of(self.records, self.read, list, part);
                parts.map_or(true, |parts| is_noted(&parts))
            })
    }

    /// Checks that the parts of long bodies are needed as often as their entries say. If they are not, a part may be
    /// removed too early, or never. What is damaged is not counted, so that only a sound store is checked.
    pub(super) fn uses(&mut self) {
        let Parts { needed, counted, .. } = &self.parts;
        if !self.stopped && self.faults_total == 0 && needed != counted {
            let field = "how often lists name pieces of long bodies";
            let (expected, found) = (needed.total, counted.total);
            let problem = Problem::Disagrees { field, expected, found };
            self.fault(Table::Namespaces, PIECES_NAMESPACE.as_bytes(), problem);
        }
    }
}
