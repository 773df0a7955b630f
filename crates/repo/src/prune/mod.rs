//! Deleting what no snapshot needs, beside running backups and without locks.
//!
//! `docs/prune.md` explains the protocol and why it is safe; `ibid-sim model` tries it, and leaves out each
//! of its rules in turn.
//!
//! | step | module |
//! |---|---|
//! | What is needed, and of which is it decoded? | [`facts`] |
//! | Which packs go? | [`plan`], [`choice`] |
//! | Which frames are encoded anew, so that their bases can go? | [`rebase`] |
//! | What is needed is moved out of the packs that are to go. | [`repack`] |
//! | The packs are condemned: to backups they are missing from now on. | [`log`], [`keep`] |
//! | Sessions that were open are listed, and have ended or are ended. | [`decide`], [`wait`] |
//! | What is needed after all is released, the rest is doomed. | [`keep`] |
//! | Index files and sketches are written without it, and it is deleted. | [`sweep`] |

mod choice;
mod decide;
mod facts;
mod fetch;
mod keep;
mod log;
mod moved;
mod options;
mod plan;
mod rebase;
mod repack;
pub(crate) mod rules;
mod sweep;
mod wait;

use std::collections::HashSet;
use std::sync::Arc;

use ibid_format::prune_log::{Batch, Entry};
use ibid_format::writer::Signer;
use ibid_format::{FileId, FileKind, snapshot};
use ibid_storage::{ErrorKind, Name};
pub(crate) use log::{PruneState, append, entry_name, read_entry};
pub use options::{Limit, PruneEstimate, PruneOptions, PruneSummary, WaitingFor};

use crate::index::{LoadedIndex, View};
use crate::layout::{DAMAGED_PACKS, folder, name_in, new_id};
use crate::listed::Listed;
use crate::threads::{both, each};
use crate::{Error, Repository, Result, SnapshotInfo, StorageError, Warning, clock};
use keep::Known;
use moved::Moved;
use plan::Plan;
use rules::Rule;

/// Times that a pruner begins again because another one was faster.
const TRIES_MAX: usize = 10;

impl Repository {
    /// Returns what [`prune`](Repository::prune) would do.
    ///
    /// # Errors
    /// As [`prune`](Repository::prune).
    pub fn prune_estimate(&self, options: &PruneOptions) -> Result<PruneEstimate> {
        self.prune_estimate_without(&[], options)
    }

    /// Returns what [`prune`](Repository::prune) would do if these snapshots were [forgotten](Repository::forget).
    ///
    /// # Errors
    /// As [`prune`](Repository::prune).
    pub fn prune_estimate_without(&self, forgotten: &[FileId], options: &PruneOptions) -> Result<PruneEstimate> {
        let doubting = self.with_some_cache().doubting(false);
        let loaded = LoadedIndex::load(&doubting, View::Writer)?;
        loaded.lost_packs().tell(self);
        doubting.estimate_of(&loaded, forgotten, options)
    }

    /// Does the same with an index that is loaded. To a reader, packs that are condemned are not gone yet.
    pub(crate) fn estimate_of(
        &self,
        loaded: &LoadedIndex,
        forgotten: &[FileId],
        options: &PruneOptions,
    ) -> Result<PruneEstimate> {
        let mut snapshots = self.snapshots_needed(&Listed::default())?;
        snapshots.retain(|info| !forgotten.contains(&info.id));
        Ok(Plan::make(self, loaded, &snapshots, options, true)?.estimate)
    }

    /// Frees what no snapshot needs. Backups, restores and other prunes may run beside it, and it may be
    /// killed at any moment: the next one goes on.
    ///
    /// What sessions may still need that were open when it began is freed by a later prune, once they have
    /// ended. [`PruneSummary::waiting`] names them.
    ///
    /// It leaves the files of writers alone. Those of [one writer](Repository::writer) are pruned by a handle to them:
    /// what the writer has stored is read, compared with its ids, and stored again as a backup with a password stores
    /// it, with deltas. The monitor is told of packs that do not hold what the writer says. Where no other pack has
    /// what is needed of one, it stays.
    ///
    /// # Errors
    /// A snapshot or a tree that can't be read: what it needs is unknown, and nothing is freed. No space, if
    /// packs that nothing needs can't be freed either.
    /// [`Error::SessionOpen`] if the prune was to be [exclusive](PruneOptions#structfield.exclusive).
    /// [`Error::Interrupted`] if the monitor was cancelled; errors of the storage.
    ///
    /// ```
    /// # use ibid_repo::{Argon2Cost, BackupOptions, InitOptions, MemoryStorage, PruneOptions, Repository};
    /// # let storage = std::sync::Arc::new(MemoryStorage::new());
    /// # let init = InitOptions::default().cost(Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 });
    /// let repository = Repository::init(storage, Some(b"secret"), &init)?;
    /// let summary = repository.backup(&BackupOptions::default().path("src"))?;
    /// repository.forget(&[summary.id.unwrap()])?;
    /// let pruned = repository.prune(&PruneOptions::default())?;
    /// assert!(pruned.freed() > 0 && pruned.stored < 20_000);
    /// # Ok::<(), ibid_repo::Error>(())
    /// ```
    pub fn prune(&self, options: &PruneOptions) -> Result<PruneSummary> {
        self.refuse_append_only()?;
        let pruned = self.with_some_cache().doubting(true).prune_doubting(options);
        self.refresh();
        pruned
    }

    fn prune_doubting(&self, options: &PruneOptions) -> Result<PruneSummary> {
        if self.files.doubts.is_some() && (self.files.archives_data() || !self.archived_packs()?.is_empty()) {
            return Err(Error::WriterArchives);
        }
        let mut pruned = self.prune_once(options);
        if let Err(Error::Storage(error)) = &pruned
            && error.kind() == ErrorKind::NoSpace
            && self.drop_sketches()?
        {
            // Not even what says which packs go could be stored.
            self.monitor.warn(Warning::DropsSketches);
            pruned = self.prune_once(options);
        }
        let is_reached = |error: &Error| match error {
            Error::Interrupted => false,
            // A server that does not answer is not asked again for as long.
            Error::Storage(error) => !matches!(error.kind(), ErrorKind::Io | ErrorKind::PermissionDenied),
            _ => true,
        };
        if pruned.as_ref().is_err_and(is_reached) {
            // What is needed is unknown, so all that is there stays locked. The error that is told is the first one.
            let _ = self.renew_locks(&mut PruneSummary::default());
        }
        match pruned? {
            (summary, Some(error)) if summary.deleted == 0 => Err(error.into()),
            (summary, _) => Ok(summary),
        }
    }

    /// Prunes. Also returns why nothing was moved, if no space was left for that.
    fn prune_once(&self, options: &PruneOptions) -> Result<(PruneSummary, Option<StorageError>)> {
        let mut summary = PruneSummary::default();
        if options.exclusive {
            self.refuse_open_sessions(options)?;
        }
        let folders = [
            DAMAGED_PACKS,
            folder::CHECKPOINTS,
            folder::FORGOTTEN,
            folder::INDEX,
            folder::PACKS,
            folder::PRUNE,
            folder::SESSIONS,
            folder::SKETCHES,
            folder::SNAPSHOTS,
        ];
        let listed = Listed::of(&*self.files.storage, &folders)?;
        let first_listed = listed.copy();
        // What an earlier one has begun.
        let state = PruneState::read_listed(&self.files, &listed)?;
        let first = state.number;
        let (state, listed_last) = self.settle_batches(state, listed.clone(), options, None, &mut summary)?;
        let moved = &mut Moved::new(&self.scratch());
        self.sweep(&state, listed_last, moved, Vec::new(), &mut summary)?;
        self.drop_useless_checkpoints(&listed)?;
        self.end_dead_sessions(options, &listed)?;
        // To make it durable which snapshots are gone, these and their copies have to be listed in order.
        let is_as_listed = state.number == first && summary.packs_deleted + summary.files_merged == 0;
        let mut listed = (is_as_listed && !self.files.storage.tells_absence()).then_some(first_listed);
        let swept = state.number;
        let mut state = Some(state);
        let mut encodes = true;
        let mut options = options.clone();
        let mut no_space = None;
        for _ in 0..TRIES_MAX {
            let options = &mut options;
            let before = match state.take() {
                Some(state) => state,
                None => PruneState::read(&self.files)?.settled(&self.files)?,
            };
            let (were_together, listed) = (listed.is_some(), listed.take().unwrap_or_default());
            match self.condemn_garbage(before, listed, options, encodes, &mut summary) {
                // A snapshot may be there of which something was not yet, when it was listed.
                Err(Error::NeedsUnknown { .. }) if were_together => self.refresh(),
                // What is moved is there twice for a while. The packs that nothing needs go without that.
                Err(Error::Storage(error)) if error.kind() == ErrorKind::NoSpace && no_space.is_none() => {
                    self.monitor.warn(Warning::MovesNothing);
                    options.max_repack = Some(Limit::Bytes(0));
                    no_space = Some(error);
                }
                Err(error) => return Err(error),
                Ok(Emptied::Condemned(condemned)) => {
                    self.finish(*condemned, swept, options, &mut summary)?;
                    return Ok((summary, no_space));
                }
                Ok(Emptied::Only(warning)) => {
                    // What can be freed by moving alone is freed all the same.
                    self.monitor.warn(warning);
                    encodes = false;
                }
                Ok(Emptied::Overtaken) => {}
            }
        }
        Err(Error::PruneBusy)
    }

    /// Deletes what was condemned, as far as sessions let it, and says what is left. What was doomed up to entry
    /// `swept` of the log is deleted already.
    fn finish(
        &self,
        condemned: Condemned,
        swept: u64,
        options: &PruneOptions,
        summary: &mut PruneSummary,
    ) -> Result<()> {
        self.refresh();
        let Condemned {
            state,
            known,
            mut moved,
            forgotten,
        } = condemned;
        let (state, listed) = self.settle_batches(state, Listed::default(), options, known, summary)?;
        // They can't come back now.
        let forgotten = forgotten.iter().map(|id| name_in(folder::FORGOTTEN, *id));
        let gone: Vec<Name> = forgotten.collect();
        match state.number == swept {
            true => self.delete_names(&gone)?,
            false => self.sweep(&state, listed, &mut moved, gone, summary)?,
        }
        self.refresh();
        self.renew_locks(summary)?;
        self.sum_up(summary)
    }

    /// Returns the snapshots. What a writer has signed as a snapshot, and is none, is named and deleted: no one else
    /// has changed it, so it never was one, and it must not keep what others need from being known.
    fn snapshots_needed(&self, listed: &Listed) -> Result<Vec<SnapshotInfo>> {
        let (mut damage, mut never) = (None, Vec::new());
        let on_damage = |id, error: Error| match error {
            // What a newer version has stored is a snapshot to that.
            error if error.is_of_content() && self.is_as_signed(id) => {
                self.monitor.warn(Warning::Repository { error });
                never.push(id);
            }
            error => drop(damage.get_or_insert(error)),
        };
        let snapshots = self.snapshots_listed(listed, on_damage, &mut 0)?;
        if self.files.verifies() {
            self.delete_all(folder::SNAPSHOTS, &never)?;
        }
        damage.map_or(Ok(snapshots), Err)
    }

    /// Lists snapshots, and what the index is loaded from. What a snapshot needs is in that, because it was `known`
    /// before or snapshots were listed first.
    fn list_with_snapshots(&self, known: impl Fn(FileId) -> bool) -> Result<(Vec<SnapshotInfo>, Listed)> {
        let listed = LoadedIndex::list_for_pruner(self)?;
        let snapshots = self.snapshots_needed(&listed)?;
        if listed.is_empty() || snapshots.iter().all(|info| known(info.id)) {
            return Ok((snapshots, listed));
        }
        let snapshots = self.snapshots_needed(&Listed::default())?;
        Ok((snapshots, LoadedIndex::list_for_pruner(self)?))
    }

    /// Returns whether a file in the place of a snapshot is as the writer has signed it, and what it has signed is
    /// doubted.
    fn is_as_signed(&self, snapshot: FileId) -> bool {
        let name = name_in(folder::SNAPSHOTS, snapshot);
        // This compares the whole file with what was signed.
        self.files.doubts.is_some()
            && self.files.storage.get(&name, snapshot::LIMIT).is_ok()
            && self.files.keys.signer_of(FileKind::Snapshot, snapshot) == Some(Signer::Writer)
    }

    /// Deletes all sketches: they only help later backups, which make them again, and this takes no space. Returns
    /// whether there were any.
    fn drop_sketches(&self) -> Result<bool> {
        let sketches = self.files.list(folder::SKETCHES)?;
        let ids: Vec<FileId> = sketches.into_iter().map(|(id, _)| id).collect();
        self.delete_all(folder::SKETCHES, &ids)?;
        Ok(!ids.is_empty())
    }

    /// Makes it durable that snapshots are gone: after a loss of power, none must be back whose data is gone. Returns
    /// the copies in `forgotten/` of those that are not among these, which were listed before.
    fn settle_forgotten(&self, snapshots: &[SnapshotInfo], listed: &Listed) -> Result<Vec<FileId>> {
        // One that was gone when snapshots were listed had been copied before. In the other order, it could be missing
        // in both lists.
        let forgotten = listed.ids(&*self.files.storage, folder::FORGOTTEN)?;
        let mut forgotten: Vec<FileId> = forgotten.into_iter().map(|(id, _)| id).collect();
        forgotten.retain(|id| !snapshots.iter().any(|info| info.id == *id));
        // Drawn for any storage, so that the history of a simulation is the same on each.
        let never_stored = new_id();
        if !self.files.storage.tells_absence() {
            // What such a server no longer lists is gone for good.
            return Ok(forgotten);
        }
        let mut absent = Vec::new();
        for &id in &forgotten {
            // A writer could name one here that is about to be stored, and have it deleted.
            if self.files.doubts.is_none() || self.is_forgotten(id)? {
                absent.push(id);
            }
        }
        // In a folder, that makes all durable that was removed from it: also what was not copied.
        absent.push(never_stored);
        self.delete_all(folder::SNAPSHOTS, &absent)?;
        Ok(forgotten)
    }

    /// Moves what is needed out of the packs that are to go, or encodes it anew, and condemns them. `listed` has what
    /// was listed together.
    fn condemn_garbage(
        &self,
        state: PruneState,
        mut listed: Listed,
        options: &PruneOptions,
        encodes: bool,
        summary: &mut PruneSummary,
    ) -> Result<Emptied> {
        let snapshots = self.snapshots_needed(&listed)?;
        let forgotten = self.settle_forgotten(&snapshots, &listed)?;
        if !listed.has(folder::INDEX) {
            listed = LoadedIndex::list_for_pruner(self)?;
        }
        let loaded = LoadedIndex::load_for_pruner(self, View::Writer, &state, listed.copy())?;
        if !loaded.settle(&self.files)? {
            return Ok(Emptied::Overtaken);
        }
        self.load_to_read(&state, listed)?;
        if summary.estimate.lost_packs == 0 {
            // Once, however often it begins again.
            loaded.lost_packs().tell(self);
        }
        let mut plan = Plan::make(self, &loaded, &snapshots, options, encodes)?;
        summary.estimate = plan.estimate;
        let mut condemned = Condemned {
            state: loaded.state.clone(),
            known: None,
            moved: Moved::new(&self.scratch()),
            forgotten,
        };
        self.list_whole_packs(&loaded)?;
        // An index file that the writer has signed may say what is not. Once keepers list what is, it goes.
        if plan.goes.is_empty() && !loaded.has_doubted_files(&self.files) {
            return Ok(Emptied::Condemned(Box::new(condemned)));
        }
        self.fetch_to_encode(&loaded, &mut plan)?;
        let (moved, goes) = self.repack(&loaded, &plan, summary)?;
        condemned.moved = moved;
        let before = loaded.state.clone();
        if plan.anew.is_empty() {
            drop((loaded, plan));
        } else {
            match self.encode_anew(loaded, plan, &snapshots, summary) {
                Err(error) if error.is_fault() => return Ok(Emptied::Only(Warning::Repository { error })),
                Ok(false) => return Ok(Emptied::Only(Warning::EncodesNothingAnew)),
                encoded => encoded.map(drop)?,
            }
        }
        let planned: HashSet<FileId> = snapshots.iter().map(|info| info.id).collect();
        let Some(Condemnation { entry, known }) = self.condemnation(&before, goes, &planned)? else {
            return Ok(Emptied::Overtaken);
        };
        condemned.known = known;
        if let Some(entry) = entry {
            match log::append(&self.files, &before, entry)? {
                Some(state) => condemned.state = state,
                None => return Ok(Emptied::Overtaken),
            }
        }
        Ok(Emptied::Condemned(Box::new(condemned)))
    }

    /// Returns the entry that condemns those of these packs that can go, if any can. `None` if the log has gone
    /// on since `before`. `planned` are the snapshots that were planned with.
    fn condemnation(
        &self,
        before: &PruneState,
        goes: Vec<FileId>,
        planned: &HashSet<FileId>,
    ) -> Result<Option<Condemnation>> {
        let (snapshots, listed) = self.list_with_snapshots(|id| planned.contains(&id))?;
        let Some((all, kept)) = self.load_views(before, &listed, View::Writer, View::Without(goes.clone()))? else {
            return Ok(None);
        };
        let (released, known) = self.still_needed(&all, &kept, &snapshots, None, &goes)?;
        let mut packs: Vec<FileId> = goes.into_iter().filter(|pack| !released.contains(pack)).collect();
        packs.sort_unstable();
        if packs.is_empty() && !all.has_doubted_files(&self.files) {
            return Ok(Some(Condemnation::default()));
        }
        let mut entry = Entry {
            fence: before.number + 1,
            verified: self.verified(&all)?,
            doomed: self.still_listed(&all, &before.entry.doomed)?,
            ..before.entry.clone()
        };
        if !packs.is_empty() {
            entry.batches.push(Batch {
                time: clock::now(),
                packs,
                seen: None,
            });
        }
        // Packs that were condemned before were looked at by another pruner, at another time.
        let known = before.entry.batches.is_empty().then_some(known);
        Ok(Some(Condemnation {
            entry: Some(entry),
            known,
        }))
    }

    /// Goes on with condemned packs: lists sessions, decides, and dooms what is due. `state` is the last entry of the
    /// log that is known, and the one that is returned is; `known` says what was looked at when the last packs of it
    /// were condemned. Also returns what was listed before packs were doomed; `listed` if none were.
    fn settle_batches(
        &self,
        state: PruneState,
        mut listed: Listed,
        options: &PruneOptions,
        known: Option<Known>,
        summary: &mut PruneSummary,
    ) -> Result<(PruneState, Listed)> {
        summary.waiting.clear();
        let mut last = Some(state);
        for _ in 0..TRIES_MAX {
            let state = match last.take() {
                Some(state) => state,
                None => PruneState::read(&self.files)?,
            };
            let state = state.settled(&self.files)?;
            if state.entry.batches.is_empty() {
                return Ok((state, listed));
            }
            let mut batches = state.entry.batches.clone();
            if batches.iter().any(|batch| batch.seen.is_none()) {
                self.wait_for_caches(2, options)?;
                let mut open: Vec<FileId> = self
                    .files
                    .list(folder::SESSIONS)?
                    .into_iter()
                    .map(|(id, _)| id)
                    .collect();
                if !rules::holds(Rule::Seen) {
                    open.clear();
                }
                for batch in batches.iter_mut().filter(|batch| batch.seen.is_none()) {
                    batch.seen = Some(open.clone());
                    batch.time = clock::now();
                }
                // Where none is open, there is none to wait for, and the next entry can doom these packs.
                if !open.is_empty() {
                    let entry = Entry {
                        batches,
                        ..state.entry.clone()
                    };
                    last = log::append(&self.files, &state, entry)?;
                    continue;
                }
            }
            let waiting = self.decide(&batches, options)?;
            let is_due = |batch: &Batch| {
                let seen = batch.seen.as_deref().unwrap_or_default();
                !waiting.iter().any(|session| seen.contains(&session.id))
            };
            let due: Vec<bool> = batches.iter().map(is_due).collect();
            summary.waiting = waiting;
            if !due.contains(&true) {
                return Ok((state, listed));
            }
            if batches.iter().any(was_any_seen) {
                // Their last snapshots may not be listed yet.
                self.wait_for_caches(1, options)?;
            }
            let Some((entry, listed_before)) = self.doom(&state, batches, &due, known.as_ref())? else {
                continue;
            };
            last = log::append(&self.files, &state, entry)?;
            if last.is_some() {
                listed = listed_before;
            }
            if !due.contains(&false)
                && let Some(state) = last.take()
            {
                return Ok((state, listed));
            }
        }
        Err(Error::PruneBusy)
    }

    /// Loads the index in two views, from the same lists, and also to read with. What is kept is durable then: a loss
    /// of power must not take it back once its other copy is deleted. `None` if the log has gone on since `state`, or
    /// a pack is gone.
    fn load_views(
        &self,
        state: &PruneState,
        listed: &Listed,
        all: View,
        kept: View,
    ) -> Result<Option<(Arc<LoadedIndex>, LoadedIndex)>> {
        let load = |view| LoadedIndex::load_for_pruner(self, view, state, listed.copy());
        let read = || self.load_to_read(state, listed.copy());
        let is_of_readers = all.left_out(state).is_empty();
        let load_all = || match is_of_readers {
            true => read(),
            false => load(all).map(Arc::new),
        };
        let (all, kept) = both(self.files.storage.is_remote(), load_all, || load(kept));
        let (all, kept) = (all?, kept?);
        if !is_of_readers {
            read()?;
        }
        let is_same = all.state.number == state.number && kept.state.number == state.number;
        let is_durable = is_same && kept.settle_packs(&self.files)?;
        Ok(is_durable.then_some((all, kept)))
    }

    /// Returns the entry that dooms those of the batches of a state that are due, and releases what is needed after
    /// all, and what was listed for that. `None` if the log has gone on.
    fn doom(
        &self,
        state: &PruneState,
        batches: Vec<Batch>,
        due: &[bool],
        known: Option<&Known>,
    ) -> Result<Option<(Entry, Listed)>> {
        let condemned = state.condemned();
        let were_any_open = batches.iter().any(was_any_seen);
        let (snapshots, listed) = match known.filter(|_| !were_any_open) {
            Some(known) => self.list_with_snapshots(|id| known.has_snapshot(id))?,
            None => {
                let snapshots = self.snapshots_needed(&Listed::default())?;
                if were_any_open {
                    // One of a session that was open may have been stored, and forgotten, since packs were condemned.
                    self.settle_forgotten(&snapshots, &Listed::default())?;
                }
                (snapshots, LoadedIndex::list_for_pruner(self)?)
            }
        };
        let Some((all, kept)) = self.load_views(state, &listed, View::Reader, View::Writer)? else {
            return Ok(None);
        };
        let released = match rules::holds(Rule::MarkAgain) {
            true => self.still_needed(&all, &kept, &snapshots, known, &condemned)?.0,
            false => HashSet::new(),
        };
        let mut entry = Entry {
            verified: self.verified(&all)?,
            batches,
            ..state.entry.clone()
        };
        for (batch, is_due) in entry.batches.iter_mut().zip(due) {
            batch.packs.retain(|pack| !released.contains(pack));
            if *is_due {
                entry.doomed.append(&mut batch.packs);
            }
        }
        entry.batches.retain(|batch| !batch.packs.is_empty());
        entry.doomed.sort_unstable();
        entry.doomed.dedup();
        Ok(Some((entry, listed)))
    }

    /// Notes the bytes of all files of the repository but keys and config, and the number of writers.
    fn sum_up(&self, summary: &mut PruneSummary) -> Result<()> {
        let storage = &*self.files.storage;
        let folders = [
            folder::PACKS,
            folder::INDEX,
            folder::SNAPSHOTS,
            folder::CHECKPOINTS,
            folder::SKETCHES,
        ];
        let listed = Listed::of(storage, &[&folders[..], &[folder::WRITERS]].concat())?;
        let bytes_in = |folder: &&str| {
            let mut bytes = 0;
            listed.each(storage, folder, |_, size| {
                bytes += size;
                Ok(())
            })?;
            Ok(bytes)
        };
        let bytes = each(storage.is_remote(), &folders, bytes_in).into_iter();
        summary.stored = bytes.sum::<Result<u64>>()?;
        if self.is_encrypted() && !self.files.keys.is_of_writer() {
            summary.writers = listed.ids(storage, folder::WRITERS)?.len() as u64;
        }
        Ok(())
    }
}

/// Returns whether sessions were open when the packs of a batch had been condemned.
fn was_any_seen(batch: &Batch) -> bool {
    batch.seen.as_ref().is_some_and(|seen| !seen.is_empty())
}

/// How an attempt to empty and condemn packs ended.
enum Emptied {
    Condemned(Box<Condemned>),
    /// Another pruner was faster, or the storage has lost what was not durable yet.
    Overtaken,
    /// Nothing can be encoded anew, for this reason.
    Only(Warning),
}

/// An entry that condemns packs, if any can go, and what was looked at for it.
#[derive(Default)]
struct Condemnation {
    entry: Option<Entry>,
    known: Option<Known>,
}

/// What was done before packs were condemned.
struct Condemned {
    /// The last entry of the log that is known.
    state: PruneState,
    /// `None` if nothing was condemned.
    known: Option<Known>,
    /// Frames that were moved.
    moved: Moved,
    /// Forgotten snapshots that were no longer among those that are needed.
    forgotten: Vec<FileId>,
}
