//! Rehearsals: commands run as they are, but nothing changes, and data of files is not read. What the storage would
//! have been asked for that is counted.
//!
//! What is needed to plan a command is read as always: the index, snapshots, trees. So an estimate makes the requests
//! with which the command begins, and only what comes after them is spared. Both together are what the command asks.
//!
//! | what a command does | in a rehearsal |
//! |---|---|
//! | stores or deletes a file | kept in memory, and counted ([`storage`]) |
//! | plans to fetch frames ahead | divided into requests as always, and counted ([`reads`]) |
//! | writes to the local cache | writes to a twin of it, made of links |

mod reads;
mod storage;

use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) use reads::Reads;
pub(crate) use storage::Rehearsal;

use crate::cache::Copies;
use crate::files::Files;
use crate::{Repository, Result};

/// What a storage would have been asked in a [rehearsal](Repository::rehearsing), and was not.
///
/// Where [`inexact`](Estimate::inexact) is empty, the command asks exactly this beyond what the rehearsal has asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Estimate {
    /// Files that would be stored.
    pub puts: u64,
    /// Files, or parts of them, that would be read.
    pub gets: u64,
    /// Files that would be asked for their size.
    pub sizes: u64,
    /// Files that would be deleted.
    pub deletes: u64,
    /// Bytes of the files that would be stored.
    pub sent: u64,
    /// Bytes that would be read.
    pub received: u64,
    /// Reads that the rehearsal made for itself, and that the command does not make.
    pub own_gets: u64,
    /// Bytes of these reads.
    pub own_received: u64,
    /// Why the numbers are not exact, if they are not.
    pub inexact: BTreeSet<Inexact>,
}

/// A reason why an [`Estimate`] is not exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Inexact {
    /// Deltas are read, and their bases are fetched when they are here: which of them come together depends on timing.
    Bases,
    /// Frames are needed several times, or more is read than there is room for: some may be fetched again.
    Again,
    /// Files are there that differ from the snapshot: only the frames are read that have other bytes, and no more than
    /// these.
    Patches,
    /// Chunks are encoded anew, and how small they become is not known before.
    Encodes,
    /// What is stored depends on what the destination has and on how well it compresses there.
    Stores,
    /// Packs with deltas are in an archive: what these are encoded against is known once they are thawed.
    Archived,
    /// It waits until packs are thawed, and asks now and then whether they are.
    Waits,
    /// Something is damaged, or another command has changed the repository meanwhile.
    Damage,
}

impl Estimate {
    /// Returns whether the command asks exactly this.
    pub fn is_exact(&self) -> bool {
        self.inexact.is_empty()
    }
}

impl Repository {
    /// Returns a handle in which operations are rehearsed: they do nothing to the repository, and read no data of
    /// files. [`estimate`](Repository::estimate) tells what the storage was spared.
    ///
    /// These can be rehearsed: [`forget`](Repository::forget) and [`prune`](Repository::prune),
    /// [`check`](Repository::check), [`plan_restore`](Repository::plan_restore), [`plan_dump`](Repository::plan_dump),
    /// [`plan_archive`](Repository::plan_archive), and
    /// [`copy_to`](Repository::copy_to) as a dry run. A check of a rehearsal says nothing of the data that it does not
    /// read.
    ///
    /// The local cache gains what the rehearsal has read, and does not change otherwise.
    ///
    /// # Errors
    /// [`Error::Local`](crate::Error::Local) if the twin of the cache can't be made.
    ///
    /// ```
    /// # use ibid_repo::{Argon2Cost, BackupOptions, InitOptions, MemoryStorage, PruneOptions, Repository};
    /// # let storage = std::sync::Arc::new(MemoryStorage::new());
    /// # let init = InitOptions::default().cost(Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 });
    /// let repository = Repository::init(storage, Some(b"secret"), &init)?;
    /// let backup = repository.backup(&BackupOptions::default().path("src"))?;
    /// let rehearsal = repository.rehearsing()?;
    /// rehearsal.forget(&[backup.id.unwrap()])?;
    /// rehearsal.prune(&PruneOptions::default())?;
    /// let estimate = rehearsal.estimate();
    /// assert!(estimate.is_exact() && estimate.deletes > 0);
    /// assert_eq!(repository.snapshots()?.len(), 1, "nothing has changed");
    /// # Ok::<(), ibid_repo::Error>(())
    /// ```
    pub fn rehearsing(&self) -> Result<Repository> {
        let rehearsal = Arc::new(Rehearsal::new(self.files.storage.clone()));
        let cache = match &self.cache {
            Some(cache) => Some(cache.twin(rehearsal.clone())?),
            None => None,
        };
        let files = Files {
            names_denied: self.files.names_denied,
            rehearsal: Some(rehearsal.clone()),
            ..Files::new(rehearsal, self.files.keys.clone())
        };
        let rehearsing = self.with_files(files, cache);
        rehearsing.share_loaded(self);
        Ok(rehearsing)
    }

    /// Returns what the storage was not asked so far, in a [rehearsal](Repository::rehearsing). Elsewhere it is
    /// nothing.
    pub fn estimate(&self) -> Estimate {
        match &self.files.rehearsal {
            Some(rehearsal) => rehearsal.estimate(),
            None => Estimate::default(),
        }
    }

    /// In a rehearsal, lets what reads without the cache find copies in it: that counts as if the storage was asked.
    pub(crate) fn read_from_copies(&self) {
        if let (Some(rehearsal), Some(cache)) = (&self.files.rehearsal, &self.cache)
            && self.files.storage.is_remote()
        {
            rehearsal.read_from(Copies::new(cache.clone(), self.monitor.clone()));
        }
    }
}
