//! Fetching the packs of metadata that listings are in, many at once.
//!
//! Each backup stores what it has changed of a tree in a pack of its own. So a tree has parts in many of them, and a
//! walk that reads one listing after the other would wait for a request for each.

use std::borrow::Cow;
use std::collections::BTreeSet;

use ibid_format::FileId;
use ibid_format::content::{Content, Item};
use ibid_format::pack::PackKind;

use super::ChunkReader;
use crate::cache::Copies;
use crate::layout::folder;
use crate::threads::{each, groups};
use crate::{Repository, Result, SnapshotInfo};

/// Roots that are fetched before it is asked again whether the command was cancelled.
const ROOTS: usize = 256;

impl ChunkReader<'_> {
    /// Fetches the packs of metadata that a listing is in, and with them those that others are in, if this machine
    /// keeps copies. Does nothing if it has those of the first. What can't be fetched is read when it is needed, which
    /// says why.
    pub(crate) fn fetch_listings<'l>(&self, first: &'l Content, others: impl Iterator<Item = Cow<'l, Content>>) {
        let Some(copies) = &self.files.copies else { return };
        let mut packs = self.lacking(copies, first);
        if packs.is_empty() {
            return;
        }
        others.for_each(|listing| packs.append(&mut self.lacking(copies, &listing)));
        let packs: Vec<_> = packs.into_iter().collect();
        for group in groups(&packs) {
            let storage = self.files.storage.as_ref();
            each(true, group, |&(id, size)| {
                // What fails here fails again.
                let _ = copies.fetch(storage, (folder::PACKS, id, size));
            });
        }
    }

    /// Returns the packs of metadata that a listing is in and of which copies are lacking, with their sizes in bytes.
    fn lacking(&self, copies: &Copies, listing: &Content) -> BTreeSet<(FileId, u64)> {
        let index = &self.loaded.index;
        let places = listing.items.iter().filter_map(|item| match item {
            Item::Chunk { id, .. } => index.get_stored(id),
            Item::Hole { .. } => None,
        });
        let packs = places.map(|place| index.pack(index.frame(place.frame).pack));
        let lacking = packs.filter(|pack| pack.kind == PackKind::Metadata && copies.lacks(folder::PACKS, pack.id));
        lacking.map(|pack| (pack.id, pack.size)).collect()
    }
}

impl Repository {
    /// Fetches what the roots of these trees are in, if this machine keeps copies: they are walked one after the other,
    /// and each is in another pack.
    ///
    /// # Errors
    /// [`Interrupted`](crate::Error::Interrupted).
    pub(crate) fn fetch_roots<'s>(
        &self,
        reader: &ChunkReader<'_>,
        snapshots: impl IntoIterator<Item = &'s SnapshotInfo>,
    ) -> Result<()> {
        let roots: Vec<&Content> = snapshots.into_iter().map(|info| &info.snapshot.root).collect();
        for some in roots.chunks(ROOTS) {
            self.monitor.check_cancelled()?;
            let mut some = some.iter().copied();
            while let Some(first) = some.next() {
                reader.fetch_listings(first, some.by_ref().map(Cow::Borrowed));
            }
        }
        Ok(())
    }
}
