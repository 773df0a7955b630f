//! Checks that all data is present and intact, and finds the files of snapshots that a fault
//! affects.

mod checking;
mod dependents;
mod frames;
mod keys;
mod order;
mod packs;
mod report;
mod trees;
mod unfinished;

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use checking::Checking;
use ibid_format::FileId;
use ibid_storage::{ArchiveState, Name};
pub use report::{AFFECTED_MAX, Affected, CheckReport, FAULTS_MAX, Fault, PackBytes, ReadData, Unfinished};

use crate::index::Run;
use crate::layout::{folder, list_ids, name_in};
use crate::prune::PruneState;
use crate::similar::SketchRun;
use crate::{Repository, Result};

/// How often a check looks, if prunes go on meanwhile.
const LOOKS: u32 = 5;

/// What a check has looked at, in case that it has to look again.
#[derive(Default)]
struct Seen {
    looks: u32,
    /// Entry of the log of prunes that it went by.
    entry: u64,
    snapshots: Vec<FileId>,
    /// Packs that were read as a whole, and in which there is no fault.
    intact: HashSet<FileId>,
    bytes_read: u64,
}

impl Repository {
    /// Returns whether a prune may have deleted what a check has looked for: the log has gone on, or a snapshot has
    /// gone, whose data could go before the log was read.
    fn pruned_since(&self, seen: &Seen) -> Result<bool> {
        if PruneState::read(&self.files)?.number != seen.entry {
            return Ok(true);
        }
        let listed = list_ids(self.files.storage.as_ref(), folder::SNAPSHOTS)?;
        let there: HashSet<FileId> = listed.into_iter().map(|(id, _)| id).collect();
        Ok(seen.snapshots.iter().any(|id| !there.contains(id)))
    }

    /// Returns the packs in an archive, without those that are thawed if these are to be `read`.
    fn packs_not_read(&self, read: bool) -> Result<HashSet<FileId>> {
        let mut archived: Vec<FileId> = self.archived_packs()?.into_keys().collect();
        if read && let Some(archives) = self.files.storage.archives() {
            archived.sort_unstable();
            let names: Vec<Name> = archived.iter().map(|id| name_in(folder::PACKS, *id)).collect();
            let mut states = archives.states(&names)?.into_iter();
            archived.retain(|_| !matches!(states.next(), Some(ArchiveState::Readable(_) | ArchiveState::Gone)));
        }
        Ok(archived.into_iter().collect())
    }

    /// Checks the repository. If there are faults and a prune has gone on meanwhile, it looks again, without the
    /// data that it has read: what the prune has deleted is no fault.
    ///
    /// # Errors
    /// Errors that prevent the check itself: unreachable storage, lack of memory, cancellation.
    /// Faults of the repository are in the report.
    pub fn check(&self, read: ReadData) -> Result<CheckReport> {
        self.read_from_copies();
        let mut seen = Seen::default();
        loop {
            let report = self.check_once(read, &mut seen)?;
            if report.is_clean() || seen.looks == LOOKS || !self.pruned_since(&seen)? {
                return Ok(report);
            }
        }
    }

    fn check_once(&self, read: ReadData, seen: &mut Seen) -> Result<CheckReport> {
        // A cache would hide damage of the files that it stands for.
        let uncached = self.without_cache();
        // List snapshots before the index: a snapshot's data is stored before the snapshot itself,
        // so a backup that ends meanwhile raises no false alarm.
        let mut unreadable = Vec::new();
        let mut voids = 0;
        let snapshots = uncached.snapshots_and_voids(|id, error| unreadable.push((id, error)), &mut voids)?;
        let loaded = uncached.loaded()?;
        seen.looks += 1;
        seen.entry = loaded.state.number;
        seen.snapshots = snapshots.iter().map(|info| info.id).collect();
        let archived = uncached.packs_not_read(read != ReadData::No)?;
        let checking = Checking {
            archived,
            repository: &uncached,
            loaded: &loaded,
            reader: uncached.bulk_reader_ahead(&loaded),
            monitor: &self.monitor,
            scratch: uncached.scratch(),
            bytes_read: AtomicU64::new(seen.bytes_read),
            faults: Mutex::default(),
            notes: Mutex::default(),
            damage: Mutex::default(),
        };
        let mut report = CheckReport {
            unlisted_packs: loaded.unlisted.len() as u64,
            ..CheckReport::default()
        };
        checking.config_copy()?;
        checking.keys()?;
        let sketches = checking.sketches()?;
        for file in &loaded.damaged {
            checking.fault(&file.name, &file.problem);
        }
        if let Some(cache) = &self.cache {
            // The cache stands for these files, so no backup would notice that they are damaged.
            let keys = &self.files.keys;
            let index_files = loaded.damaged.iter().filter(|file| file.is_of_content);
            let index_files: Vec<FileId> = index_files
                .filter_map(|file| FileId::parse(file.name.last_segment()))
                .collect();
            cache.forget::<Run>(keys, &self.monitor, &index_files);
            cache.forget::<SketchRun>(keys, &self.monitor, &sketches);
            if let Some(copies) = &self.files.copies {
                index_files.iter().for_each(|id| copies.remove(folder::INDEX, *id));
                sketches.iter().for_each(|id| copies.remove(folder::SKETCHES, *id));
            }
        }
        for &id in &loaded.archived {
            let problem = "in an archive, and in no index file: a backup that was killed may have left it. What is in \
                           it is known once it is thawed";
            checking.note(name_in(folder::PACKS, id), problem);
        }
        let chosen = checking.packs(read, &seen.intact, &mut report)?;
        let mut lacking_bases = checking.causes()?;
        checking.whole(&chosen, &mut seen.intact);
        report.snapshots = snapshots.len() as u64;
        report.unfinished = checking.unfinished(voids)?;
        let mut lost = checking.trees(&snapshots, &mut report)?;
        lost.perhaps_more |= !unreadable.is_empty();
        for (id, error) in unreadable {
            checking.fault(name_in(folder::SNAPSHOTS, id), error.problem());
        }
        checking.orphans(&lost, &mut lacking_bases, &mut report.unfinished)?;
        report.unneeded = checking.missing(&lost, &mut lacking_bases)?;
        seen.bytes_read = checking.bytes_read.load(Ordering::Relaxed);
        let faults = checking.faults.into_inner().expect("no holder of this lock panics");
        if faults.total == faults.listed.len() as u64 {
            for fault in &faults.listed {
                if let Some(id) = fault.object.rsplit('/').next().and_then(FileId::parse) {
                    seen.intact.remove(&id);
                }
            }
        } else {
            // Which packs the others are in is not known.
            seen.intact.clear();
        }
        report.faults = faults.listed;
        report.faults_total = faults.total;
        report.notes = checking.notes.into_inner().expect("no holder of this lock panics");
        for list in [&mut report.faults, &mut report.notes] {
            list.sort_by(|a, b| a.object.cmp(&b.object));
        }
        Ok(report)
    }
}
