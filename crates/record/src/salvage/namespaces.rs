//! The namespaces of the new store, and their indexes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::{Bound, ControlFlow};

use ibid_format::record::{
    DRAFT_PREFIX, IndexEntry, LatestEntry, PIECE_ID_BYTES, PIECES_NAMESPACE, PIECES_SECRET_KEY, RetentionEntry,
    index_prefix, key_of, split_key,
};

use super::source::Source;
use super::target::Space;
use super::{Loss, Salvage, reason};
use crate::engine::{Read, Table};
use crate::error::{Damage, Error};
use crate::latest::Latest;
use crate::read::indexes::StoredIndex;
use crate::read::namespaces::StoredNamespace;
use crate::versions::Versions;

/// Most namespaces whose names are lost of which it is found out whether they are of pieces.
const NAMESPACES_MAX: usize = 1000;

impl Salvage<'_> {
    /// Makes the namespaces and their indexes.
    pub(super) fn find_namespaces(&mut self) -> Result<(), Error> {
        let (mut whole, mut damaged) = (Vec::new(), Vec::new());
        let from = self.from;
        let failure = from.each_key(Table::Namespaces, (Bound::Unbounded, Bound::Unbounded), &mut |name| {
            match value(from, Table::Namespaces, name, |value| {
                StoredNamespace::decode(name, value)
            }) {
                Ok(namespace) if std::str::from_utf8(name).is_ok() => whole.push(namespace),
                Ok(_) => {}
                Err(error) => damaged.push((String::from_utf8(name.to_vec()), error)),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if let Some(why) = failure {
            self.lose_entries(Table::Namespaces, why);
        }
        whole.sort_unstable_by_key(|namespace| namespace.number);
        // Numbers are given one after the other, and none is taken back.
        let next = from.next_namespace();
        let missing: Vec<u32> = (1..next.unwrap_or(1))
            .filter(|number| whole.iter().all(|namespace| namespace.number != *number))
            .take(NAMESPACES_MAX)
            .collect();
        let is_known = missing.len() == 1 && damaged.len() == 1;
        for (name, error) in damaged {
            let why = reason(error)?;
            let Ok(name) = name else { continue };
            if is_known {
                whole.push(StoredNamespace {
                    number: missing[0],
                    name: name.clone(),
                    versions: Versions::Kept,
                    retention: RetentionEntry::default(),
                    has_expiring: false,
                    latest: LatestEntry::default(),
                });
            }
            if name != PIECES_NAMESPACE {
                let namespace = name;
                self.found.lose(Loss::NamespaceSettings { namespace, why });
            }
        }
        for namespace in whole {
            self.make_namespace(&namespace)?;
        }
        if self.pieces.is_none() {
            self.pieces = missing.into_iter().find(|number| self.is_of_pieces(*number));
        }
        Ok(())
    }

    /// Whether a namespace whose name is lost is that with the pieces of long bodies: it has the secret that they are
    /// named by, and no key but those of pieces.
    fn is_of_pieces(&self, number: u32) -> bool {
        let (first, after) = (key_of(number, b""), key_of(number + 1, b""));
        let range = (Bound::Included(&first[..]), Bound::Excluded(&after[..]));
        let (mut is_secret, mut are_all) = (false, true);
        let read = self.from.each_key(Table::Keys, range, &mut |stored_key| {
            match (split_key(stored_key), is_secret) {
                (Ok((_, PIECES_SECRET_KEY)), false) => is_secret = true,
                (Ok((_, [1 | 2, id @ ..])), true) if id.len() == PIECE_ID_BYTES => {}
                (Ok((_, [DRAFT_PREFIX, ..])), true) => {}
                _ => are_all = false,
            }
            Ok(match are_all {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        });
        read.is_ok() && is_secret && are_all
    }

    fn make_namespace(&mut self, stored: &StoredNamespace) -> Result<(), Error> {
        let number = stored.number;
        if stored.name == PIECES_NAMESPACE {
            self.pieces = Some(number);
            return Ok(());
        }
        let namespace = self.into.store().namespace(&stored.name, stored.versions)?;
        if stored.latest != LatestEntry::default() {
            namespace.set_latest_as(Latest::of(stored.latest))?;
        }
        if stored.retention != RetentionEntry::default() {
            self.retention.push((number, stored.retention));
        }
        let (mut whole, mut lost) = (Vec::new(), Vec::new());
        let (from, to) = (index_prefix(number, 0), index_prefix(number, 1));
        let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let from = self.from;
        let failure = from.each_key(Table::Indexes, range, &mut |key| {
            match value(from, Table::Indexes, key, |value| StoredIndex::decode(key, value)) {
                Ok((_, index)) => whole.push(index),
                Err(error) => lost.push((IndexEntry::split_key(key).map(|(_, name)| name.to_owned()), error)),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if let Some(why) = failure {
            self.lose_entries(Table::Indexes, why);
        }
        for (index, error) in lost {
            let (namespace, why) = (stored.name.clone(), reason(error)?);
            let index = index.unwrap_or_default();
            self.found.lose(Loss::Index { namespace, index, why });
        }
        whole.sort_unstable_by_key(|index| index.number);
        let mut indexes = BTreeMap::new();
        for index in whole {
            indexes.insert(index.number, namespace.index(&index.name, index.unique)?);
        }
        self.spaces.insert(number, Space { namespace, indexes });
        Ok(())
    }

    /// Returns a namespace; one of a new name if its own is lost.
    pub(super) fn space(&mut self, number: u32) -> Result<&Space, Error> {
        if let Entry::Vacant(place) = self.spaces.entry(number) {
            let store = self.into.store();
            let mut now = format!("recovered-{number}");
            while store.find_namespace(&now)?.is_some() {
                now.push('-');
            }
            let namespace = store.namespace(&now, Versions::Kept)?;
            self.found.lose(Loss::NamespaceName { now });
            let indexes = BTreeMap::new();
            place.insert(Space { namespace, indexes });
        }
        Ok(&self.spaces[&number])
    }

    pub(super) fn name(&mut self, number: u32) -> Result<String, Error> {
        Ok(self.space(number)?.namespace.name().to_owned())
    }
}

/// Reads a value.
fn value<T>(from: &Source, table: Table, key: &[u8], decode: impl Fn(&[u8]) -> Result<T, Error>) -> Result<T, Error> {
    let mut decoded = None;
    from.get(table, key, &mut |value| decoded = Some(decode(value)))?;
    decoded.unwrap_or_else(|| Err(Error::damaged(table, key, Damage::Missing)))
}
