//! The log of pruners in the storage: its last entry is the state.
//!
//! The number of an entry is its name, entries are never put over others, and each is computed from what was
//! listed after the entry before it. So pruners take turns without a lock: who comes second reads again.
//!
//! Only the last entries are kept. A pruner that has slept may put an entry where an old one was; nobody
//! reads it, and the pruner goes on from the last one, as every step does.

use ibid_format::FileId;
use ibid_format::prune_log::{self, Entry};
use ibid_storage::{ErrorKind, Name, Storage};

use super::rules::{self, Rule};
use crate::files::Files;
use crate::layout::{folder, list_ids, name_in};
use crate::listed::Listed;
use crate::threads::both;
use crate::{Error, Result, clock};

/// Entries that are kept, the last ones.
const KEPT: u64 = 16;

/// The state of pruners: the last entry of the log.
#[derive(Clone, Debug)]
pub(crate) struct PruneState {
    /// Number of the entry; 0 if there is none.
    pub(crate) number: u64,
    pub(crate) entry: Entry,
    /// Entries that can't be read, with the problems. What the last readable one says is then only a part.
    pub(crate) damaged: Vec<(Name, String)>,
    /// Whether this process has stored the entry, so that it is durable.
    is_own: bool,
}

/// Returns the name of an entry.
pub(crate) fn entry_name(number: u64) -> Name {
    name_in(folder::PRUNE, FileId::numbered(number))
}

impl PruneState {
    fn found(number: u64, entry: Entry, damaged: Vec<(Name, String)>) -> PruneState {
        PruneState {
            number,
            entry,
            damaged,
            is_own: false,
        }
    }

    /// Returns the state of a repository that was never pruned.
    fn none() -> PruneState {
        PruneState::found(0, Entry::first(clock::now(), ""), Vec::new())
    }

    /// Reads the last entry. If it is damaged, returns what can be said of the state from the one before it.
    pub(crate) fn read(files: &Files) -> Result<PruneState> {
        PruneState::read_listed(files, &Listed::default())
    }

    /// Does the same, with the list of the log if it was listed.
    pub(crate) fn read_listed(files: &Files, listed: &Listed) -> Result<PruneState> {
        loop {
            let listed = listed.ids(&*files.storage, folder::PRUNE)?;
            let mut numbers: Vec<u64> = listed.iter().filter_map(|(id, _)| id.number()).collect();
            let Some(&last) = numbers.last() else {
                return Ok(PruneState::none());
            };
            // Others may have added entries since. Mostly none have.
            let is_remote = files.storage.is_remote();
            let (more, state) = both(
                is_remote,
                || entries_after(files, last),
                || PruneState::of(files, &numbers),
            );
            let more = more?;
            let state = match more.is_empty() {
                true => state?,
                false => {
                    numbers.extend(more);
                    PruneState::of(files, &numbers)?
                }
            };
            if let Some(state) = state {
                return Ok(state);
            }
        }
    }

    /// Reads the last of these entries; `None` if it is no longer there.
    fn of(files: &Files, numbers: &[u64]) -> Result<Option<PruneState>> {
        let mut damaged = Vec::new();
        for &number in numbers.iter().rev() {
            match read_entry(files, number) {
                Ok(entry) if damaged.is_empty() => return Ok(Some(PruneState::found(number, entry, damaged))),
                Ok(entry) => {
                    let last = numbers.last().copied().unwrap_or(number);
                    return Ok(Some(PruneState::after_damage(last, entry, damaged)));
                }
                Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound && damaged.is_empty() => {
                    return Ok(None);
                }
                Err(error) if error.is_fault() => damaged.push((entry_name(number), error.problem())),
                Err(error) => return Err(error),
            }
        }
        let last = numbers.last().copied().unwrap_or(0);
        Ok(Some(PruneState::after_damage(
            last,
            Entry::first(clock::now(), ""),
            damaged,
        )))
    }

    /// Returns what is known of a state from an entry before it. The lost entries may have condemned any pack,
    /// and doomed those that were condemned before; they have trusted index files that are not known.
    fn after_damage(number: u64, entry: Entry, damaged: Vec<(Name, String)>) -> PruneState {
        let entry = Entry {
            fence: number,
            verified: Vec::new(),
            ..entry
        };
        PruneState::found(number, entry, damaged)
    }

    /// Returns the state that a writer can go on from. If the last entry is damaged, adds one that dooms what
    /// it may have doomed, and releases the rest: no pruner can go on from the damaged one then.
    pub(crate) fn settled(mut self, files: &Files) -> Result<PruneState> {
        while !self.damaged.is_empty() {
            let mut doomed = self.condemned();
            doomed.extend_from_slice(&self.entry.doomed);
            doomed.sort_unstable();
            doomed.dedup();
            let entry = Entry {
                batches: Vec::new(),
                doomed,
                ..self.entry.clone()
            };
            self = match append(files, &self, entry)? {
                Some(state) => state,
                None => PruneState::read(files)?,
            };
        }
        Ok(self)
    }

    /// Makes the last entry durable. Who wrote it may have been killed before it was, and index files that are
    /// written now have its number: without it they would be newer than the log. Returns whether this is still what is
    /// stored: a server that lost its power since may have lost the entry, and have another in its place.
    pub(crate) fn settle(&self, files: &Files) -> Result<bool> {
        if self.number == 0 || self.is_own {
            return Ok(true);
        }
        match files.storage.settle(&entry_name(self.number)) {
            // What such a storage has shown is durable.
            Ok(()) if !files.storage.tells_absence() => return Ok(true),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        match read_entry(files, self.number) {
            Ok(entry) => Ok(entry == self.entry || !self.damaged.is_empty()),
            // Old ones are deleted once there are many others.
            Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound => {
                Ok(PruneState::read(files)?.number > self.number)
            }
            Err(error) if error.is_fault() => Ok(!self.damaged.is_empty()),
            Err(error) => Err(error),
        }
    }

    /// Returns the number of the last entry that no loss of power takes back. Another entry could have that number
    /// then, and what is noted under it would count as newer than that.
    pub(crate) fn durable_number(&self, files: &Files) -> u64 {
        self.number - u64::from(!self.settle(files).unwrap_or(false))
    }

    /// Returns the condemned packs, ascending.
    pub(crate) fn condemned(&self) -> Vec<FileId> {
        let mut packs: Vec<FileId> = self
            .entry
            .batches
            .iter()
            .flat_map(|batch| &batch.packs)
            .copied()
            .collect();
        packs.sort_unstable();
        packs
    }

    pub(crate) fn is_doomed(&self, pack: FileId) -> bool {
        self.entry.doomed.binary_search(&pack).is_ok()
    }

    /// Returns whether an index file lists only frames whose bases are there.
    pub(crate) fn trusts(&self, file: FileId, epoch: u64) -> bool {
        !rules::holds(Rule::Trust) || epoch >= self.entry.fence || self.entry.verified.binary_search(&file).is_ok()
    }

    /// Returns whether anything was ever pruned, so that a frame may lack its bases.
    pub(crate) fn is_any(&self) -> bool {
        self.number > 0
    }
}

/// Returns the numbers of the entries that there are after this one.
fn entries_after(files: &Files, last: u64) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for number in last + 1.. {
        match files.storage.size(&entry_name(number)) {
            Ok(_) => numbers.push(number),
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(numbers)
}

/// Reads an entry.
pub(crate) fn read_entry(files: &Files, number: u64) -> Result<Entry> {
    let name = entry_name(number);
    let mut bytes = files.storage.get(&name, prune_log::LIMIT)?;
    Entry::open(&files.keys, number, &mut bytes).map_err(Error::damaged(name))
}

/// Adds an entry after `before`. Returns `None` if another process has added one first, or `before` is gone.
pub(crate) fn append(files: &Files, before: &PruneState, entry: Entry) -> Result<Option<PruneState>> {
    // No loss of power leaves an entry without the one before it. What is damaged is replaced by the new one.
    if before.damaged.is_empty() && !before.settle(files)? {
        return Ok(None);
    }
    let number = before.number + 1;
    let entry = Entry {
        time: clock::now(),
        host: crate::source::host_name(),
        ..entry
    };
    let bytes = entry
        .encode(&files.keys, number)
        .map_err(Error::damaged("the new entry of the prune log"))?;
    match files.storage.put(&entry_name(number), &[&bytes]) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // It may be ours: the answer to the first try was lost.
            if read_entry(files, number).ok().as_ref() != Some(&entry) {
                return Ok(None);
            }
            files.storage.settle(&entry_name(number))?;
        }
        put => put?,
    }
    forget_old(files.storage.as_ref(), number)?;
    Ok(Some(PruneState {
        is_own: true,
        ..PruneState::found(number, entry, Vec::new())
    }))
}

/// Deletes entries that are no longer needed: several at a time, since they have to be listed.
fn forget_old(storage: &dyn Storage, last: u64) -> Result<()> {
    if !last.is_multiple_of(KEPT) {
        return Ok(());
    }
    for (id, _) in list_ids(storage, folder::PRUNE)? {
        if id.number().is_some_and(|number| number + KEPT <= last) {
            match storage.delete(&name_in(folder::PRUNE, id)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{InitOptions, Repository};

    #[test]
    fn an_entry_that_a_server_has_lost_since_or_replaced_is_not_relied_on() {
        let storage = Arc::new(ibid_storage::Memory::new());
        let files = Repository::init(storage.clone(), Some(b"secret"), &InitOptions::quick())
            .unwrap()
            .files;
        let none = PruneState::read(&files).unwrap();
        let added = |before: &PruneState, fence| {
            let entry = Entry {
                fence,
                ..before.entry.clone()
            };
            append(&files, before, entry).unwrap()
        };
        added(&none, 0).unwrap();
        // As another process finds it.
        let first = PruneState::read(&files).unwrap();
        assert!(first.settle(&files).unwrap());
        assert_eq!(first.durable_number(&files), 1);

        storage.delete(&entry_name(1)).unwrap();
        assert!(!first.settle(&files).unwrap());
        assert_eq!(first.durable_number(&files), 0);
        assert!(added(&first, 1).is_none());

        added(&none, 1).unwrap();
        let other = PruneState::read(&files).unwrap();
        assert!(!first.settle(&files).unwrap(), "another one has its number");
        assert!(other.settle(&files).unwrap());

        added(&other, 2).unwrap();
        storage.delete(&entry_name(1)).unwrap();
        assert!(
            other.settle(&files).unwrap(),
            "old ones are deleted once there are others"
        );
    }
}
