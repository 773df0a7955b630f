//! Repairs a repository: salvages what can still be read, and moves out of the way what can't.
//!
//! ```text
//! examine ─▶ salvage ─▶ new packs ─▶ index files ─▶ damaged packs and index files go ─▶ the rest ─▶ check
//! ```
//!
//! - [`examine`] reads every frame of every pack. A frame has a seal of its own, so it is whole or lost by
//!   itself.
//! - [`salvage`] stores the frames of damaged packs that still open in new packs, and writes index files that
//!   list these, and all packs that none has listed.
//! - [`aside`] then removes a damaged pack: it is deleted if all of it is elsewhere, and moved below `damaged/` if
//!   something of it is lost.
//!
//! The index goes on listing a pack of which something is lost. So every command knows which chunks are lost, a
//! backup stores them again without bases, and deltas against them can be read again. Once nothing needs them,
//! the pack is forgotten.
//!
//! From then on a prune frees what such a pack may have been encoded against. So if it is there again, its frames
//! may lack their bases: the mark below `damaged/` tells whoever loads the index, until a repair finds it whole.
//!
//! Of the files of a writer, that is [given up](give_up) at once: a writer can't read what is encoded against what. And
//! nothing that the writer has signed is believed before it was decoded, as in a prune: else keepers would sign what it
//! claims, or set aside what it says is damaged.
//!
//! # Interruption, and other processes
//!
//! Nothing is removed before every frame of it that opens is durable in a pack that a durable index file lists.
//! So at any moment, what could be read before can be read, and another repair continues. A backup that runs at
//! the same time may rely on a frame of a damaged pack: it is in a new pack then, with the same depth, under the
//! same ids. Readers that meet a pack which has gone report that, and find its chunks when they begin again.

mod aside;
mod config;
mod examine;
mod give_up;
mod hearsay;
mod report;
mod salvage;

use std::collections::HashSet;
use std::sync::Arc;

pub(crate) use aside::{delete, packs_set_aside, put_aside};
pub(crate) use config::{copy_differs, keep_copy};
use examine::DamagedPack;
use ibid_format::{FileId, index as index_file};
use ibid_storage::Name;
pub use report::{RepairOptions, RepairReport};

use crate::index::{DamagedFile, LoadedIndex, MissingPack};
use crate::layout::{folder, name_in, new_id};
use crate::prune::PruneState;
use crate::{Error, Monitor, ReadData, Repository, Result, similar};

/// A repair that is running.
struct Repairing<'a> {
    /// Without a cache.
    repository: &'a Repository,
    loaded: Arc<LoadedIndex>,
    monitor: &'a Monitor,
    options: RepairOptions,
    report: RepairReport,
}

impl Repository {
    /// Leaves the best repository that can be had: salvages what can be read of damaged packs, lists packs that
    /// no index file lists, writes again or deletes what follows from other files, and moves damaged files
    /// below `damaged/`. Reports which files of which snapshots can't be restored. A later backup of the same
    /// files heals them.
    ///
    /// The files of a [writer](Repository::writer) are repaired by a handle to them. What is missing is not listed any
    /// more then: the writer stores again what it has of it, and its backups rely on nothing that may need it.
    ///
    /// It can be interrupted at any point, and other processes may back up and restore meanwhile. Files that
    /// can't be read now, or that a newer version of this program wrote, are left as they are.
    ///
    /// # Errors
    /// Errors that prevent the repair: unreachable storage, lack of memory, cancellation. The repository is
    /// never worse than before.
    ///
    /// ```
    /// # use ibid_repo::{Argon2Cost, InitOptions, MemoryStorage, RepairOptions, Repository};
    /// # let storage = std::sync::Arc::new(MemoryStorage::new());
    /// # let options = InitOptions::default().cost(Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 });
    /// # let repository = Repository::init(storage, Some(b"secret"), &options)?;
    /// let report = repository.repair(&RepairOptions::default())?;
    /// assert!(report.is_clean());
    /// # Ok::<(), ibid_repo::Error>(())
    /// ```
    pub fn repair(&self, options: &RepairOptions) -> Result<RepairReport> {
        self.refuse_write_only("repairing")?;
        let uncached = self.without_cache().doubting(true);
        let log = PruneState::read(&uncached.files)?;
        let log_entries = log.damaged.len() as u64;
        if !options.dry_run {
            uncached.refuse_append_only()?;
            // As backups and prunes do.
            log.settled(&uncached.files)?;
        }
        let load = || {
            uncached.refresh();
            uncached.loaded()
        };
        let loaded = match options.dry_run {
            true => load()?,
            false => LoadedIndex::settled(&uncached.files, load)?,
        };
        let mut repairing = Repairing {
            repository: &uncached,
            loaded,
            monitor: &self.monitor,
            options: *options,
            report: RepairReport {
                dry_run: options.dry_run,
                log_entries,
                ..RepairReport::default()
            },
        };
        if options.delete_damaged {
            repairing.delete_aside()?;
        }
        let damaged = repairing.examine()?;
        repairing.packs(damaged)?;
        repairing.config_copy()?;
        repairing.snapshots()?;
        repairing.keys()?;
        repairing.sketches()?;
        repairing.checkpoints()?;
        repairing.forget_missing()?;
        let report = repairing.report;
        self.refresh();
        Ok(report)
    }
}

impl Repairing<'_> {
    /// Salvages what opens, and removes damaged packs and index files.
    fn packs(&mut self, mut damaged: Vec<DamagedPack>) -> Result<()> {
        damaged.extend(self.by_hearsay()?);
        let known: HashSet<FileId> = damaged.iter().map(|pack| pack.pack.id).collect();
        self.report.lost_frames = damaged.iter().map(DamagedPack::lost).sum();
        let salvaged = self.salvage(damaged)?;
        let loaded = self.loaded.clone();
        // Packs without a directory, and without an index file that says what is in them.
        let is_silent = |name: &Name| !FileId::parse(name.last_segment()).is_some_and(|id| known.contains(&id));
        let silent = loaded
            .damaged
            .iter()
            .filter(|file| file.is_pack() && is_silent(&file.name));
        let replaceable: HashSet<&Name> = loaded.replaceable_index_files().collect();
        for file in loaded.damaged.iter().filter(|file| !file.is_pack()) {
            self.index_file(file, &replaceable)?;
        }
        for pack in salvaged {
            self.monitor.check_cancelled()?;
            let is_replaced = pack.lost() == 0;
            self.remove_pack(pack.pack.id, pack.problem, is_replaced)?;
        }
        // An index file that can be read again tomorrow may say what is in them.
        let may_be_told = loaded.damaged.iter().any(|file| !file.is_pack() && !file.is_of_content);
        for file in silent {
            match file.is_of_content && !may_be_told {
                true => self.set_aside(file.name.clone(), file.problem.clone())?,
                false => self.leave(file.name.clone(), file.problem.clone()),
            }
        }
        // Packs that are cut so short that no frame is left.
        let index = &loaded.index;
        let has_frames = |pack: &MissingPack| index.find_pack(pack.id).is_some_and(|at| index.cut_to(at).is_some());
        let stumps = loaded.missing.iter().filter(|pack| !has_frames(pack));
        for pack in stumps {
            if let Some(size) = pack.found {
                let problem = format!("{} bytes are missing at its end", pack.expected - size);
                self.remove_pack(pack.id, problem, false)?;
            }
        }
        Ok(())
    }

    /// Removes a damaged index file. All packs that say what is in them are listed again.
    fn index_file(&mut self, file: &DamagedFile, replaceable: &HashSet<&Name>) -> Result<()> {
        let (name, problem) = (file.name.clone(), file.problem.clone());
        if name.is_in(folder::PRUNE) && self.options.dry_run {
            return Ok(());
        }
        if replaceable.contains(&name) {
            return self.delete(name, problem);
        }
        match file.is_of_content {
            true => self.set_aside(name, problem),
            false => {
                self.leave(name, problem);
                Ok(())
            }
        }
    }

    /// Moves damaged snapshots out of the way.
    fn snapshots(&mut self) -> Result<()> {
        let mut damaged = Vec::new();
        self.repository.snapshots_with(|id, error| damaged.push((id, error)))?;
        for (id, error) in damaged {
            self.set_aside_if_damaged(name_in(folder::SNAPSHOTS, id), &error)?;
        }
        Ok(())
    }

    /// Moves keys out of the way that are damaged, or of an initialisation that was cut short.
    fn keys(&mut self) -> Result<()> {
        if !self.repository.is_encrypted() || self.repository.files.keys.is_of_writer() {
            return Ok(());
        }
        for (id, slot) in self.repository.slots()? {
            let name = name_in(folder::KEYS, id);
            match slot {
                // The one that opened the repository.
                _ if self.repository.slot == Some(id) => {}
                Ok(slot) if slot.repository() != self.repository.id() => {
                    let problem = format!("it opens repository {}, not this one", slot.repository());
                    self.set_aside(name, problem)?;
                }
                Ok(slot) => {
                    if let Err(error) = slot.note(&self.repository.files.keys) {
                        self.set_aside(name, error.to_string())?;
                    }
                }
                Err(error) => self.set_aside_if_damaged(name, &error)?,
            }
        }
        Ok(())
    }

    /// Deletes damaged sketches: the next backups make them again.
    fn sketches(&mut self) -> Result<()> {
        for (id, _) in self.repository.files.list(folder::SKETCHES)? {
            self.monitor.check_cancelled()?;
            let name = name_in(folder::SKETCHES, id);
            match similar::read(&self.repository.files, id) {
                Ok(_) => {}
                Err(error) if error.is_of_content() => self.delete(name, error.problem())?,
                Err(error) if error.is_fault() => self.leave(name, error.problem()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Deletes damaged checkpoints: what they had is read again.
    fn checkpoints(&mut self) -> Result<()> {
        let mut damaged = Vec::new();
        self.repository.checkpoints(|id, error| damaged.push((id, error)))?;
        for (id, error) in damaged {
            let name = name_in(folder::CHECKPOINTS, id);
            match error.is_of_content() {
                true => self.delete(name, error.problem())?,
                false => self.leave(name, error.problem()),
            }
        }
        Ok(())
    }

    fn set_aside_if_damaged(&mut self, name: Name, error: &Error) -> Result<()> {
        match error.is_of_content() {
            true => self.set_aside(name, error.problem()),
            false => {
                self.leave(name, error.problem());
                Ok(())
            }
        }
    }

    /// Checks the repository. Forgets the missing packs that nothing needs, and records that the others are
    /// dealt with.
    fn forget_missing(&mut self) -> Result<()> {
        if self.options.dry_run {
            let read = if self.options.fast { ReadData::No } else { ReadData::All };
            self.report.check = self.repository.check(read)?;
            self.report.forgotten_packs = match self.repository.files.keys.is_of_writer() {
                true => self.loaded.gone().count() as u64,
                false => self.report.check.unneeded.len() as u64,
            };
            return Ok(());
        }
        if self.repository.files.keys.is_of_writer() {
            self.give_up()?;
            self.repository.refresh();
            self.report.check = self.repository.check(ReadData::No)?;
            return Ok(());
        }
        self.report.check = self.repository.check(ReadData::No)?;
        let unneeded: HashSet<FileId> = self.report.check.unneeded.iter().copied().collect();
        self.forget(&unneeded)?;
        self.repository.refresh();
        let loaded = self.repository.loaded()?;
        let missing = loaded.missing.iter().filter(|pack| pack.found.is_none());
        self.mark_set_aside(missing.map(|pack| pack.id))?;
        // Their frames were all read, unless this is fast.
        let whole = loaded
            .returned
            .iter()
            .filter(|pack| !self.options.fast && loaded.is_whole(**pack));
        let whole: Vec<FileId> = whole.copied().collect();
        for pack in whole {
            self.take_back(pack)?;
        }
        if !unneeded.is_empty() {
            self.report.check = self.repository.check(ReadData::No)?;
        }
        Ok(())
    }

    /// Writes the index files that list these packs again without them.
    fn forget(&mut self, packs: &HashSet<FileId>) -> Result<()> {
        if packs.is_empty() {
            return Ok(());
        }
        let files = &self.repository.files;
        let state = PruneState::read(files)?;
        for (id, _) in files.list(folder::INDEX)? {
            self.monitor.check_cancelled()?;
            let file = match files.read_index(id) {
                Ok(file) => file,
                Err(error) if error.is_fault() => continue,
                Err(error) => return Err(error),
            };
            let others = file.packs().filter(|pack| !packs.contains(&pack.id)).count();
            // Index files that are not trusted are not read; a pruner deletes them.
            if others == file.packs().len() || !state.trusts(id, file.epoch()) {
                continue;
            }
            if others > 0 {
                let new = new_id();
                let bytes = index_file::merge(&files.keys, new, state.number, &[file], |pack| !packs.contains(&pack));
                let bytes = bytes.map_err(Error::damaged("the new index"))?;
                files.storage.put(&name_in(folder::INDEX, new), &[&bytes])?;
                self.report.written += bytes.len() as u64;
            }
            aside::delete(files.storage.as_ref(), &name_in(folder::INDEX, id))?;
        }
        self.report.forgotten_packs = packs.len() as u64;
        Ok(())
    }
}
