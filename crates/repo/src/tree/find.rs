//! Searching snapshots for paths that match patterns.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ibid_format::Keys;
use ibid_format::content::Content;
use ibid_format::run::ShortId;
use ibid_format::tree::{EntryKind, TreeEntry};

use super::visit::{Found, clean};
use super::walk::{TreeStep, TreeWalk};
use crate::index::IdMap;
use crate::read::ChunkReader;
use crate::{Patterns, Repository, Result, SnapshotInfo, SnapshotPath};

/// A search for paths that match patterns, in one snapshot after the other.
///
/// Folders below which nothing can match are left out, and so are those that were searched before, at the same
/// path and with the same contents, and had no match.
///
/// ```
/// # use ibid_repo::{Argon2Cost, BackupOptions, InitOptions, MemoryStorage, Patterns, Repository};
/// # let storage = std::sync::Arc::new(MemoryStorage::new());
/// # let init = InitOptions::default().cost(Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 });
/// let repository = Repository::init(storage, Some(b"secret"), &init)?;
/// repository.backup(&BackupOptions::default().path("src"))?;
/// let patterns = Patterns::new(&["tree/find.rs"], false)?;
/// let mut found = Vec::new();
/// let mut search = repository.search(&patterns)?;
/// let snapshots = repository.snapshots()?;
/// search.prefetch(&snapshots)?;
/// for snapshot in &snapshots {
///     search.visit(snapshot, |path, _| Ok(found.push(path.to_owned())))?;
/// }
/// assert_eq!(found.len(), 1);
/// # Ok::<(), ibid_repo::Error>(())
/// ```
pub struct Search<'a> {
    repository: &'a Repository,
    patterns: &'a Patterns,
    reader: ChunkReader<'a>,
    /// Folders without a match, by their contents and paths.
    barren: IdMap,
}

/// A folder that is being searched.
struct Level {
    key: ShortId,
    has_match: bool,
}

impl Repository {
    /// Begins a search for paths that match patterns.
    ///
    /// # Errors
    /// Errors of the storage when the index is loaded.
    pub fn search<'a>(&'a self, patterns: &'a Patterns) -> Result<Search<'a>> {
        Ok(Search {
            repository: self,
            patterns,
            reader: self.tree_reader()?,
            barren: IdMap::new(&self.scratch()),
        })
    }
}

impl Search<'_> {
    /// Fetches what the trees of these snapshots begin with, many at once, if the storage is far and there is a local
    /// cache. To [visit](Search::visit) one after the other then takes fewer round trips.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted). What can't be fetched is told by the visit.
    pub fn prefetch<'s>(&self, snapshots: impl IntoIterator<Item = &'s SnapshotInfo>) -> Result<()> {
        self.repository.fetch_roots(&self.reader, snapshots)
    }

    /// Passes the entries at `path` of a snapshot and below it that match to `found`, with their paths from the
    /// snapshot's root, parents first and in order of names.
    ///
    /// # Errors
    /// As [`visit`](Repository::visit).
    pub fn visit<'s>(
        &mut self,
        at: impl Into<SnapshotPath<'s>>,
        mut found: impl FnMut(&Path, &TreeEntry) -> Result<()>,
    ) -> Result<()> {
        let at = at.into();
        let base = clean(&at.path);
        let listing = match self.repository.find(&self.reader, &at)? {
            Found::Root(listing) => listing,
            Found::Entry(entry) => {
                if is_match(self.patterns, &base, &entry) {
                    found(&base, &entry)?;
                }
                match entry.kind {
                    EntryKind::Directory(listing) => listing,
                    _ => return Ok(()),
                }
            }
        };
        let keys = &self.repository.files.keys;
        let Some(level) = enter(self.patterns, keys, &self.barren, &base, &listing)? else {
            return Ok(());
        };
        let mut levels = vec![level];
        let mut walk = TreeWalk::new(&self.reader, &listing);
        while let Some(step) = walk.next() {
            self.repository.monitor.check_cancelled()?;
            let TreeStep::Entry(entry) = step? else {
                leave(&mut self.barren, &mut levels)?;
                continue;
            };
            let path = base.join(walk.path());
            if is_match(self.patterns, &path, &entry) {
                if let Some(level) = levels.last_mut() {
                    level.has_match = true;
                }
                found(&path, &entry)?;
            }
            if let EntryKind::Directory(listing) = &entry.kind
                && let Some(level) = enter(self.patterns, keys, &self.barren, &path, listing)?
            {
                levels.push(level);
                walk.descend(listing);
            }
        }
        leave(&mut self.barren, &mut levels)
    }
}

fn is_match(patterns: &Patterns, path: &Path, entry: &TreeEntry) -> bool {
    patterns.matches(path, matches!(entry.kind, EntryKind::Directory(_)))
}

/// Returns a level of the search for a folder at a path; `None` if it need not be searched.
fn enter(patterns: &Patterns, keys: &Keys, barren: &IdMap, path: &Path, listing: &Content) -> Result<Option<Level>> {
    if !patterns.may_match_below(path) {
        return Ok(None);
    }
    // The contents say how long they are themselves, so no path can be taken for a part of them.
    let mut bytes = Vec::new();
    listing.encode(&mut bytes);
    bytes.extend_from_slice(path.as_os_str().as_bytes());
    let key = ShortId::of(&keys.chunk_id(&bytes));
    let is_new = barren.get(key)?.is_none();
    Ok(is_new.then_some(Level { key, has_match: false }))
}

/// Leaves the last folder, and notes it if it had no match.
fn leave(barren: &mut IdMap, levels: &mut Vec<Level>) -> Result<()> {
    match (levels.pop(), levels.last_mut()) {
        (Some(level), _) if !level.has_match => barren.insert(level.key, 0),
        (_, Some(above)) => {
            above.has_match = true;
            Ok(())
        }
        _ => Ok(()),
    }
}
