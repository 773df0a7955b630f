//! Loads the index, and finds what it misses.
//!
//! The packs are authoritative; index files only speed up finding them. A pack that no readable
//! index file lists (the backup was killed, or the index file is damaged) is added from its
//! directory. A listed pack that is missing is ignored: its chunks count as unknown, and so do
//! those of its direct and indirect dependents. The next backup stores them again. Of a pack that is cut
//! short, that holds for the frames beyond its end. A pack with bytes after its end is whole.
//!
//! Runs of the cache stand for most index files. The others are read into memory if they are few, and
//! become a run if they are many, in the cache or else in a temporary file. So loading takes time for
//! what is new, and memory for little of it.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use ibid_format::pack::PackSummary;
use ibid_format::run::{RunPack, ShortId};
use ibid_format::{ChunkPrefix, FileId, index as index_file};
use ibid_storage::{ErrorKind, Name};

use super::build::Building;
use super::dependencies::{Dependencies, find_base};
use super::frames::{Pack, Place};
use super::id_map::IdMap;
use super::loaded::{DamagedFile, LoadedIndex, LongerPack, MissingPack, View};
use super::lookup::Index;
use super::number_set::NumberSet;
use super::run::{PageCache, Run};
use super::stored::StoredPacks;
use crate::files::Files;
use crate::layout::{DAMAGED_PACKS, folder, name_in};
use crate::listed::Listed;
use crate::prune::PruneState;
use crate::prune::rules::{self, Rule};
use crate::scratch::Scratch;
use crate::threads::{both, each, groups};
use crate::{Error, Monitor, Repository, Result, Warning};

/// Times that loading begins again because another process has merged index files, or because a run of
/// the cache is damaged.
const LOADED_AGAIN_MAX: usize = 8;
/// A run becomes part of a new one unless it has more entries than this many times those of the new
/// one. So an entry is written few times, and there are few runs.
const ABSORBED_SHARE: u64 = 3;
/// Bits for the number of a pack's frames beside its size, which has 29: together as many as an
/// [`IdMap`] keeps. A pack has fewer frames.
const FRAMES_BITS: u32 = 19;
const FRAMES_KNOWN: u64 = (1 << FRAMES_BITS) - 1;
/// Pages that are kept while packs are looked up in runs, bytes.
const KNOWN_PAGES: u64 = 4 << 20;

impl LoadedIndex {
    /// Loads the index of a repository.
    pub(crate) fn load(repository: &Repository, view: View) -> Result<LoadedIndex> {
        LoadedIndex::load_with(repository, view, None, Listing::New, Listed::default())
    }

    /// Loads the index for one who reads, and loads it again when a pack is gone.
    pub(crate) fn load_for_reader(repository: &Repository) -> Result<LoadedIndex> {
        let listed = Listed::of(
            &*repository.files.storage,
            &[DAMAGED_PACKS, folder::INDEX, folder::PACKS, folder::PRUNE],
        )?;
        LoadedIndex::load_with(repository, View::Reader, None, Listing::OfToday, listed)
    }

    /// Loads the index for a pruner. `state` is the last entry of the log that it knows, from before the folders were
    /// listed.
    pub(crate) fn load_for_pruner(
        repository: &Repository,
        view: View,
        state: &PruneState,
        listed: Listed,
    ) -> Result<LoadedIndex> {
        LoadedIndex::load_with(repository, view, Some(state.clone()), Listing::New, listed)
    }

    /// Lists what a pruner loads an index from, checkpoints, what it needs to encode chunks anew, and snapshots.
    pub(crate) fn list_for_pruner(repository: &Repository) -> Result<Listed> {
        let folders = [
            DAMAGED_PACKS,
            folder::CHECKPOINTS,
            folder::INDEX,
            folder::PACKS,
            folder::SKETCHES,
            folder::SNAPSHOTS,
        ];
        Listed::of(&*repository.files.storage, &folders)
    }

    /// Loads the index of a repository for a writer who has just read the log.
    pub(crate) fn load_for_writer(repository: &Repository, state: PruneState, listed: Listed) -> Result<LoadedIndex> {
        LoadedIndex::load_with(repository, View::Writer, Some(state), Listing::OfToday, listed)
    }

    /// Loads an index by `load` until all of it that others have stored is durable, so that a new snapshot can rely on
    /// it.
    pub(crate) fn settled<L: Borrow<LoadedIndex>>(files: &Files, mut load: impl FnMut() -> Result<L>) -> Result<L> {
        for _ in 0..LOADED_AGAIN_MAX {
            let loaded = load()?;
            if loaded.borrow().settle(files)? {
                return Ok(loaded);
            }
        }
        Err(Error::PruneBusy)
    }

    fn load_with(
        repository: &Repository,
        view: View,
        mut state: Option<PruneState>,
        mut listing: Listing,
        listed: Listed,
    ) -> Result<LoadedIndex> {
        let mut next_state = || match state.take() {
            Some(state) => Ok(state),
            None => PruneState::read_listed(&repository.files, &listed),
        };
        for _ in 0..LOADED_AGAIN_MAX {
            let are_together = listed.has(folder::PACKS);
            let mut sources = Sources::list(repository, next_state()?, true, &listed)?;
            match LoadedIndex::of(repository, &mut sources, &view, std::mem::take(&mut listing), &listed) {
                // Another process has merged an index file meanwhile.
                Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound => {}
                // A damaged run of the cache is made again.
                Err(error) if sources.drop_run_at_fault(&error).is_some() => {
                    repository.monitor.warn(Warning::Cache { error });
                }
                Err(error) => return Err(error),
                // A pack may have been stored, and then the index file that lists it, while they were listed together.
                Ok(Some(loaded)) if are_together && loaded.lacks_packs() => {}
                // A prune has deleted packs since the log was read. What was needed of them was moved before.
                Ok(Some(loaded)) if loaded.is_overtaken(repository)? => {}
                Ok(Some(loaded)) => return Ok(LoadedIndex { listed, ..loaded }),
                // Outdated runs of the cache are made again.
                Ok(None) => {}
            }
        }
        let mut sources = Sources::list(repository, next_state()?, false, &listed)?;
        sources.runs_may_be_outdated = false;
        let loaded = LoadedIndex::of(repository, &mut sources, &view, Listing::New, &listed)?;
        let loaded = loaded.expect("its runs stay");
        Ok(LoadedIndex { listed, ..loaded })
    }

    /// Loads the index from these sources; none if they have to be listed again.
    fn of(
        repository: &Repository,
        sources: &mut Sources,
        view: &View,
        listing: Listing,
        listed: &Listed,
    ) -> Result<Option<LoadedIndex>> {
        let (files, monitor) = (&repository.files, &repository.monitor);
        let scratch = repository.scratch();
        sources.build_if_many(repository, &scratch)?;
        let mut read = Vec::new();
        for group in groups(&std::mem::take(&mut sources.files)) {
            monitor.check_cancelled()?;
            let fetched = each(files.storage.is_remote(), group, |(id, _)| files.read_index(*id));
            for (&(id, _), file) in group.iter().zip(fetched) {
                match file {
                    Ok(file) if sources.state.trusts(id, file.epoch()) && files.believes_index(id) => {
                        read.push((id, file));
                    }
                    Ok(_) => sources.untrusted.push(id),
                    Err(error) => sources.note_damage(id, error, &scratch)?,
                }
            }
        }
        let state = sources.state.clone();
        let condemned = view.left_out(&state);
        let is_out = |pack: FileId| state.is_doomed(pack) || condemned.binary_search(&pack).is_ok();
        let packs = sources.runs.iter().map(|run| u64::from(run.trailer.packs)).sum::<u64>()
            + read.iter().map(|(_, file)| file.packs().len() as u64).sum::<u64>();
        // A prune, a check and a repair always list them.
        let far = files.copies.as_ref().filter(|_| packs > scratch.limits.packs_listed);
        let was_listed = far.is_some_and(|copies| listing == Listing::OfToday && copies.listed_packs_lately());
        let (aside, stored) = both(
            files.storage.is_remote(),
            || crate::repair::packs_set_aside(files, listed),
            || match was_listed {
                true => Ok(StoredPacks::as_listed(&read)),
                false => StoredPacks::compare(&sources.runs, &read, &scratch, listed),
            },
        );
        let mut stored = stored?;
        // A writer can't read what is in a pack that no index file lists. It stores that again.
        let reads_packs = !files.keys.is_write_only();
        stored.unlisted.retain(|(id, _)| reads_packs && !is_out(*id));
        if !stored.differing.is_empty() && sources.drop_outdated_runs() {
            return Ok(None);
        }
        let mut unlisted = Unlisted::default();
        unlisted.read_if_many(sources, &stored.unlisted, &scratch)?;
        let trusted = sources.trusted();
        let mut loading = Loading {
            stored: stored.of_files,
            loaded: LoadedIndex {
                index: Index::new(scratch.clone(), std::mem::take(&mut sources.runs)),
                unlisted: unlisted.packs,
                missing: Vec::new(),
                returned: Vec::new(),
                longer: unlisted.longer,
                damaged: std::mem::take(&mut sources.damaged),
                archived: Vec::new(),
                index_files: std::mem::take(&mut sources.listed),
                trusted,
                untrusted: std::mem::take(&mut sources.untrusted),
                state,
                listed: Listed::default(),
            },
            suspects: Vec::new(),
        };
        for (number, missing) in stored.differing {
            loading.note(number, missing);
        }
        for (id, file) in read {
            if let Err(error) = loading.index_file(id, &file) {
                note_damage(&mut loading.loaded.damaged, name_in(folder::INDEX, id), error, &scratch)?;
            }
        }
        let (unlisted_are_many, archived) = (unlisted.are_in_run, unlisted.archived);
        let mut unlisted = if unlisted_are_many { Vec::new() } else { stored.unlisted };
        if reads_packs {
            unlisted.extend(loading.packs_of_ignored_files());
        }
        loading.unlisted_packs(&unlisted, archived, &scratch)?;
        loading.leave_out(&condemned);
        loading.loaded.doubt(files, monitor)?;
        loading.lose_suspects();
        let mut loaded = loading.loaded;
        loaded.index.loaded();
        loaded.note_set_aside(aside?);
        loaded.lose_dependents(&scratch, unlisted_are_many, monitor)?;
        if let Some(copies) = far.filter(|_| !was_listed && !loaded.lacks_packs()) {
            copies.remember_list_of_packs();
        }
        Ok(Some(loaded))
    }

    /// Returns whether packs are missing and the log has gone on.
    fn is_overtaken(&self, repository: &Repository) -> Result<bool> {
        let looks_again = self.lacks_packs() && rules::holds(Rule::Reload);
        Ok(looks_again && PruneState::read(&repository.files)?.number != self.state.number)
    }

    /// Finds the frames that can't be decoded because a pack is missing, or was.
    fn lose_dependents(&mut self, scratch: &Scratch, unlisted_are_many: bool, monitor: &Monitor) -> Result<()> {
        let may_lack = self.may_lack_bases() || unlisted_are_many && self.state.is_any();
        if !may_lack || !self.index.has_deltas() {
            return Ok(());
        }
        if scratch.files.keys.is_write_only() {
            return self.lose_what_may_lack_bases(scratch);
        }
        // The bases of all other frames stay where they are.
        let mut dependencies = Dependencies::read(scratch, self, None, monitor)?;
        let mut lost = NumberSet::default();
        dependencies.search().lacking_bases(&mut |frame| {
            lost.insert(frame);
        })?;
        self.index.lose(lost.iter());
        Ok(())
    }
}

/// Records damage of one file, so that loading goes on without it. Any other error (cancellation, no
/// memory) ends the operation. So does a lack of permission, unless [all files are
/// named](Files::names_denied): a backup must not store again what another user may read.
fn note_damage(damaged: &mut Vec<DamagedFile>, name: Name, error: Error, scratch: &Scratch) -> Result<()> {
    if !error.is_fault() || error.is_denied() && !scratch.files.names_denied {
        return Err(error);
    }
    let monitor = &scratch.monitor;
    damaged.push(DamagedFile {
        name,
        problem: error.problem(),
        is_of_content: error.is_of_content(),
    });
    monitor.warn(Warning::Repository { error });
    Ok(())
}

/// Which list of the stored packs is used.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Listing {
    /// A new one.
    #[default]
    New,
    /// If there are many packs, and the storage is far: one of today, which had all packs that were known then. That a
    /// pack is lost is noticed a day later.
    OfToday,
}

/// What the index is loaded from.
struct Sources {
    state: PruneState,
    /// Runs, largest first.
    runs: Vec<Arc<Run>>,
    /// Index files that no run stands for, with their sizes in bytes.
    files: Vec<(FileId, u64)>,
    /// All index files, ascending, with their sizes in bytes.
    listed: Vec<(FileId, u64)>,
    damaged: Vec<DamagedFile>,
    /// Index files that are not trusted.
    untrusted: Vec<FileId>,
    /// Whether an index file may have been merged into another since they were listed.
    may_vanish: bool,
    /// Whether runs of the cache stand for index files that are gone. These may have been merged, or written
    /// again without packs that are missing.
    runs_may_be_outdated: bool,
}

impl Sources {
    /// Returns the index files that are trusted and could be read, ascending.
    fn trusted(&self) -> Vec<FileId> {
        let untrusted: HashSet<&FileId> = self.untrusted.iter().collect();
        let damaged: HashSet<&Name> = self.damaged.iter().map(|file| &file.name).collect();
        let mut files: Vec<FileId> = self.listed.iter().map(|(id, _)| *id).collect();
        files.retain(|id| !untrusted.contains(id) && !damaged.contains(&name_in(folder::INDEX, *id)));
        files.sort_unstable();
        files
    }

    fn lists(&self, file: FileId) -> bool {
        self.listed.binary_search_by_key(&file, |(id, _)| *id).is_ok()
    }

    /// Records damage of an index file.
    fn note_damage(&mut self, id: FileId, error: Error, scratch: &Scratch) -> Result<()> {
        match error {
            Error::Storage(error) if self.may_vanish && error.kind() == ErrorKind::NotFound => Err(error.into()),
            error => note_damage(&mut self.damaged, name_in(folder::INDEX, id), error, scratch),
        }
    }

    /// Lists index files, and opens the runs that stand for some. If an index file that was listed is not
    /// found later, loading fails if it `may_vanish`; otherwise the file counts as damaged.
    ///
    /// Index files must be listed before packs: a pack is stored before any index file lists it, so a
    /// listed pack that is not found is missing. If they were listed together, both are listed again then.
    fn list(repository: &Repository, state: PruneState, may_vanish: bool, listed: &Listed) -> Result<Sources> {
        for (what, problem) in &state.damaged {
            let error = Error::LogDamaged {
                object: what.to_string(),
                problem: problem.clone(),
            };
            repository.monitor.warn(Warning::Repository { error });
        }
        let listed = listed.ids(&*repository.files.storage, folder::INDEX)?;
        let mut runs: Vec<Run> = match &repository.cache {
            Some(cache) => cache.files(&repository.files.keys, &repository.monitor),
            None => Vec::new(),
        };
        // Runs from before packs were condemned may list what is deleted since, and stand for index files
        // that are not trusted.
        runs.retain(|run| {
            let is_valid = run.trailer.epoch >= state.entry.fence;
            if !is_valid {
                run.file().delete();
            }
            is_valid
        });
        let runs: Vec<Arc<Run>> = runs.into_iter().map(Arc::new).collect();
        let covered: HashSet<FileId> = runs.iter().flat_map(|run| &run.tables.covers).copied().collect();
        let listed_ids: HashSet<FileId> = listed.iter().map(|(id, _)| *id).collect();
        let runs_may_be_outdated = !covered.is_subset(&listed_ids);
        let uncovered = listed.iter().filter(|(id, _)| !covered.contains(id));
        let uncovered: Vec<_> = uncovered.copied().collect();
        if let Some(copies) = &repository.files.copies {
            copies.retain_listed(folder::INDEX, &uncovered);
        }
        Ok(Sources {
            damaged: state.damaged.iter().map(DamagedFile::of_log).collect(),
            state,
            runs,
            listed,
            files: uncovered,
            untrusted: Vec::new(),
            may_vanish,
            runs_may_be_outdated,
        })
    }

    /// Removes the run that can't be read, if that is the error, and deletes its file.
    fn drop_run_at_fault(&mut self, error: &Error) -> Option<Arc<Run>> {
        let at = self.runs.iter().position(|run| run.file().is_at_fault(error))?;
        let run = self.runs.remove(at);
        run.file().delete();
        Some(run)
    }

    /// Deletes the runs of the cache, which list packs that are missing, if the index files may do so no longer.
    /// Returns whether there are any.
    fn drop_outdated_runs(&self) -> bool {
        if self.runs_may_be_outdated {
            // All of them: one may say nothing because another stands for what its index file was merged from.
            self.runs.iter().for_each(|run| run.file().delete());
        }
        self.runs_may_be_outdated
    }

    /// Makes a run of the index files that no run stands for, if they are many. Smaller runs become
    /// part of it.
    fn build_if_many(&mut self, repository: &Repository, scratch: &Scratch) -> Result<()> {
        let bytes: u64 = self.files.iter().map(|(_, size)| size).sum();
        if bytes <= scratch.limits.bytes_read && self.files.len() <= scratch.limits.files_read {
            return Ok(());
        }
        if let Some(cache) = &repository.cache {
            match cache
                .make::<Run>()
                .and_then(|folder| self.build(scratch, &folder, true, bytes))
            {
                // No room, or no permission: a temporary file may do.
                Err(error @ Error::Local { .. }) => repository.monitor.warn(Warning::Cache { error }),
                built => return built,
            }
        }
        match self.build(scratch, &scratch.folder, false, bytes) {
            Err(Error::Local { .. }) => self.build(scratch, &std::env::temp_dir(), false, bytes),
            built => built,
        }
    }

    /// Makes the run in this folder, where it stays or not.
    fn build(&mut self, scratch: &Scratch, folder: &Path, stays: bool, bytes: u64) -> Result<()> {
        let epoch = match stays {
            true => self.state.durable_number(&scratch.files),
            false => self.state.number,
        };
        let mut building = Building::new(scratch, folder, stays, epoch)?;
        let mut absorbed = Vec::new();
        let mut entries = bytes / 40;
        // Smaller runs come last.
        for (at, run) in self.runs.iter().enumerate().rev() {
            if run.trailer.entries > entries.saturating_mul(ABSORBED_SHARE) {
                break;
            }
            entries += run.trailer.entries;
            if let Err(error) = building.absorb(run.clone()) {
                return self.build_without(error, scratch, folder, stays, bytes);
            }
            absorbed.push(at);
        }
        let mut known = KnownPacks::new(&self.runs, scratch);
        let (mut damaged, mut run_damaged) = (Vec::new(), None);
        for group in groups(&self.files) {
            scratch.monitor.check_cancelled()?;
            let files = &scratch.files;
            let fetched = each(files.storage.is_remote(), group, |(id, _)| files.read_index_once(*id));
            for (&(id, _), file) in group.iter().zip(fetched) {
                let file = file.map(|file| files.believes_index(id).then_some(file));
                match add_index_file(&mut building, &mut known, id, file, &self.state) {
                    Ok(()) => building.covers(id),
                    Err(Unusable::Untrusted) => self.untrusted.push(id),
                    Err(Unusable::File(error)) => damaged.push((id, error)),
                    Err(Unusable::Run(error)) => run_damaged = run_damaged.or(Some(error)),
                }
            }
        }
        if let Some(error) = run_damaged {
            return self.build_without(error, scratch, folder, stays, bytes);
        }
        for (id, error) in damaged {
            self.note_damage(id, error, scratch)?;
        }
        let run = match building.finish(|id| self.lists(*id)) {
            Ok(run) => run,
            Err(error) => return self.build_without(error, scratch, folder, stays, bytes),
        };
        for at in absorbed {
            let run = self.runs.remove(at);
            if stays {
                run.file().delete();
            }
        }
        self.runs.push(Arc::new(run));
        self.runs
            .sort_by_key(|run| std::cmp::Reverse((run.trailer.entries, run.file().id())));
        self.files.clear();
        Ok(())
    }

    /// Begins again without the run that can't be read, if that is the error: from its index files.
    fn build_without(&mut self, error: Error, scratch: &Scratch, folder: &Path, stays: bool, bytes: u64) -> Result<()> {
        let Some(run) = self.drop_run_at_fault(&error) else {
            return Err(error);
        };
        scratch.monitor.warn(Warning::Cache { error });
        let mut again = run.tables.covers.clone();
        again.retain(|id| self.lists(*id));
        self.files.extend(again.into_iter().map(|id| (id, 0)));
        self.build(scratch, folder, stays, bytes)
    }
}

/// Size and number of frames of packs that are in runs, and of those that a new run will have.
struct KnownPacks<'r> {
    runs: &'r [Arc<Run>],
    pages: PageCache,
    /// The size, and in the lower [`FRAMES_BITS`] the number of frames.
    new: IdMap,
}

impl<'r> KnownPacks<'r> {
    fn new(runs: &'r [Arc<Run>], scratch: &Scratch) -> KnownPacks<'r> {
        KnownPacks {
            runs,
            pages: PageCache::new(KNOWN_PAGES),
            new: IdMap::new(scratch),
        }
    }

    fn get(&self, id: FileId) -> Result<Option<(u64, u32)>> {
        if let Some(number) = self.new.get(ShortId::of_file(id))? {
            return Ok(Some((number >> FRAMES_BITS, (number & FRAMES_KNOWN) as u32)));
        }
        for run in self.runs {
            if let Some((number, size)) = run.find_pack(id, &self.pages)? {
                let (pack, end) = run.pack(number, &self.pages)?;
                return Ok(Some((size, end - pack.first_frame)));
            }
        }
        Ok(None)
    }

    fn insert(&mut self, id: FileId, size: u64, frames: usize) -> Result<()> {
        let frames = (frames as u64).min(FRAMES_KNOWN);
        self.new.insert(ShortId::of_file(id), size << FRAMES_BITS | frames)
    }
}

/// What can't be read: an index file, or a run or a temporary file that has some of its packs.
enum Unusable {
    /// The index file is not trusted.
    Untrusted,
    File(Error),
    Run(Error),
}

impl From<Error> for Unusable {
    fn from(error: Error) -> Unusable {
        Unusable::File(error)
    }
}

/// Adds the packs of an index file that are new to a run. A file that contradicts another, or itself,
/// is ignored as a whole.
fn add_index_file(
    building: &mut Building<'_>,
    known: &mut KnownPacks<'_>,
    id: FileId,
    file: Result<Option<index_file::Index>>,
    state: &PruneState,
) -> std::result::Result<(), Unusable> {
    let Some(file) = file?.filter(|file| state.trusts(id, file.epoch())) else {
        return Err(Unusable::Untrusted);
    };
    let mut listed_here = HashMap::new();
    for (listed, frames) in file.packs_with_frames() {
        let before = known.get(listed.id).map_err(Unusable::Run)?;
        let agrees = before.is_none_or(|known| known == (listed.size, frames.len() as u32));
        if !agrees || listed_here.insert(listed.id, before.is_some()).is_some() {
            return Err(Unusable::File(Error::Contradiction {
                index: id,
                pack: listed.id,
            }));
        }
    }
    // Ordinal of every frame's first chunk, unless it is known.
    let mut ordinals: Vec<Option<u64>> = Vec::new();
    let mut frames_of_pack = Vec::new();
    for (listed, frames) in file.packs_with_frames() {
        if listed_here[&listed.id] {
            ordinals.extend(frames.map(|_| None));
            continue;
        }
        known
            .insert(listed.id, listed.size, frames.len())
            .map_err(Unusable::Run)?;
        frames_of_pack.clear();
        frames_of_pack.extend(frames.filter_map(|number| file.frame(number)));
        let pack = RunPack {
            id: listed.id,
            kind: listed.kind,
            size: listed.size,
            first_frame: 0,
        };
        let mut ordinal = building.pack(&pack, &frames_of_pack)?;
        for frame in &frames_of_pack {
            ordinals.push(Some(ordinal));
            ordinal += u64::from(frame.blobs);
        }
    }
    for entry in file.entries() {
        if let Some(first) = ordinals[entry.frame as usize] {
            building.entry(&entry.id, first + u64::from(entry.slot))?;
        }
    }
    Ok(())
}

/// Packs that no index file lists and that are too many to keep their chunks in memory.
#[derive(Default)]
struct Unlisted {
    packs: Vec<(FileId, u64)>,
    /// Those with bytes after their ends.
    longer: Vec<LongerPack>,
    /// Whether they are in a run now, those that can be read.
    are_in_run: bool,
    /// Packs that can't be read, because they are in an archive.
    archived: Vec<(FileId, u64)>,
}

impl Unlisted {
    /// Makes a temporary run of the unlisted packs, if they are many.
    fn read_if_many(&mut self, sources: &mut Sources, unlisted: &[(FileId, u64)], scratch: &Scratch) -> Result<()> {
        let bytes: u64 = unlisted.iter().map(|(_, size)| size).sum();
        if bytes <= scratch.limits.unlisted {
            return Ok(());
        }
        let temporary = std::env::temp_dir();
        let epoch = sources.state.number;
        let mut building = match Building::new(scratch, &scratch.folder, false, epoch) {
            Err(Error::Local { .. }) => Building::new(scratch, &temporary, false, epoch)?,
            begun => begun?,
        };
        for &(id, size) in unlisted {
            scratch.monitor.check_cancelled()?;
            match scratch.files.find_directory(id, size) {
                Ok(summary) => {
                    building.directory(&summary)?;
                    self.packs.push((id, summary.size));
                    self.longer.extend(LongerPack::of(&summary, size));
                }
                Err(error) if error.is_archived() => self.archived.push((id, size)),
                Err(error) => note_damage(&mut sources.damaged, name_in(folder::PACKS, id), error, scratch)?,
            }
        }
        self.are_in_run = true;
        sources.runs.push(Arc::new(building.finish(|_| false)?));
        Ok(())
    }
}

struct Loading {
    /// Sizes of the stored packs that index files list and no run has, bytes.
    stored: HashMap<FileId, u64>,
    loaded: LoadedIndex,
    /// Frames of packs that no trusted index file lists, which may lack their bases: depth, number, bases.
    suspects: Vec<(u8, u32, Vec<ChunkPrefix>)>,
}

impl Loading {
    /// Records if a listed pack is missing or has another size.
    fn meet(&mut self, number: u32, id: FileId, size: u64) {
        let found = self.stored.get(&id).copied();
        if found != Some(size) {
            let expected = size;
            let missing = MissingPack {
                id,
                expected,
                found,
                is_set_aside: false,
            };
            self.note(number, missing);
        }
    }

    /// Notes that a listed pack is missing or has another size. That is no damage if it was doomed.
    fn note(&mut self, number: u32, pack: MissingPack) {
        if self.loaded.state.is_doomed(pack.id) {
            self.loaded.index.miss(number);
        } else {
            self.loaded.meet(number, pack);
        }
    }

    /// Leaves out doomed packs that are still there, and these.
    fn leave_out(&mut self, condemned: &[FileId]) {
        let LoadedIndex { index, state, .. } = &mut self.loaded;
        for &pack in condemned.iter().chain(&state.entry.doomed) {
            if let Some(number) = index.find_pack(pack) {
                index.miss(number);
            }
        }
    }

    /// Finds the suspects that lack a base: it was deleted after a pruner had ended their backup.
    fn lose_suspects(&mut self) {
        let mut suspects = std::mem::take(&mut self.suspects);
        // A base is in a frame that is less deep.
        suspects.sort_unstable_by_key(|(depth, number, _)| (*depth, *number));
        for (depth, number, bases) in suspects {
            let lacks = |base: &ChunkPrefix| find_base(&self.loaded, *base, depth).is_none();
            if rules::holds(Rule::Closure) && bases.iter().any(lacks) {
                self.loaded.index.lose([number]);
            }
        }
    }

    /// Returns stored packs that only index files list which contradict others, and were ignored.
    fn packs_of_ignored_files(&self) -> Vec<(FileId, u64)> {
        let is_unknown = |(id, _): &(&FileId, &u64)| self.loaded.index.find_pack(**id).is_none();
        let packs = self.stored.iter().filter(is_unknown);
        let mut packs: Vec<_> = packs.map(|(id, size)| (*id, *size)).collect();
        packs.sort_unstable();
        packs
    }

    /// Reads an index file into memory.
    fn index_file(&mut self, id: FileId, file: &index_file::Index) -> Result<()> {
        let frames: Vec<_> = file.frames().collect();
        // Compare all packs before adding any: a file that contradicts another, or itself, is
        // ignored as a whole.
        let (mut listed_here, mut known) = (HashSet::new(), HashSet::new());
        for (listed, range) in file.packs_with_frames() {
            let frames = &frames[range.start as usize..range.end as usize];
            let number = self.loaded.index.find_pack(listed.id);
            let agrees = number.is_none_or(|number| self.agrees(number, &listed, frames));
            if !listed_here.insert(listed.id) || !agrees {
                return Err(Error::Contradiction {
                    index: id,
                    pack: listed.id,
                });
            }
            known.extend(number.map(|_| listed.id));
        }
        // Number of every frame of the file, unless all about its pack is known.
        let mut numbers = Vec::with_capacity(frames.len());
        for (listed, range) in file.packs_with_frames() {
            if known.contains(&listed.id) {
                numbers.extend(range.map(|_| None));
                continue;
            }
            let frames = &frames[range.start as usize..range.end as usize];
            let (number, start) = self.add_pack(listed.id, listed.kind, listed.size, frames);
            self.meet(number, listed.id, listed.size);
            numbers.extend((start..).take(frames.len()).map(Some));
        }
        for entry in file.entries() {
            if let Some(frame) = numbers[entry.frame as usize] {
                let slot = entry.slot;
                self.loaded.index.insert_stored(&entry.id, Place { frame, slot })?;
            }
        }
        Ok(())
    }

    /// Returns whether a listed pack matches everything known about the pack with this number.
    fn agrees(&self, number: u32, listed: &index_file::IndexedPack, frames: &[index_file::IndexedFrame]) -> bool {
        let index = &self.loaded.index;
        let known = index.frames_of(number);
        index.pack(number).size == listed.size
            && known.len() == frames.len()
            && known.zip(frames).all(|(number, frame)| index.frame(number).is(frame))
    }

    /// Adds a pack and its frames; returns its number, and that of the first frame.
    fn add_pack(
        &mut self,
        id: FileId,
        kind: ibid_format::pack::PackKind,
        size: u64,
        frames: &[index_file::IndexedFrame],
    ) -> (u32, u32) {
        let pack = Pack {
            id,
            kind,
            size,
            first_frame: 0,
        };
        let number = self.loaded.index.pack_count();
        (number, self.loaded.index.add_pack(pack, frames))
    }

    /// Adds packs that no index file lists, from their own directories. Those that are `archived` can't be read, and
    /// neither may others.
    fn unlisted_packs(
        &mut self,
        unlisted: &[(FileId, u64)],
        mut archived: Vec<(FileId, u64)>,
        scratch: &Scratch,
    ) -> Result<()> {
        for &(id, size) in unlisted {
            scratch.monitor.check_cancelled()?;
            match scratch.files.find_directory(id, size) {
                Ok(summary) => {
                    self.unlisted_pack(&summary)?;
                    self.loaded.unlisted.push((id, summary.size));
                    self.loaded.longer.extend(LongerPack::of(&summary, size));
                }
                Err(error) if error.is_archived() => archived.push((id, size)),
                Err(error) => {
                    note_damage(&mut self.loaded.damaged, name_in(folder::PACKS, id), error, scratch)?;
                }
            }
        }
        match archived.is_empty() {
            true => Ok(()),
            false => self.archived_packs(archived.into_iter().collect(), scratch),
        }
    }

    /// Adds packs whose own directories can't be read as index files have them that are not trusted. These may list
    /// frames that lack their bases; those that have none lack nothing.
    fn archived_packs(&mut self, mut packs: HashMap<FileId, u64>, scratch: &Scratch) -> Result<()> {
        for id in self.loaded.untrusted.clone() {
            let file = match scratch.files.read_index(id) {
                Ok(file) if scratch.files.believes_index(id) => file,
                Ok(_) => continue,
                Err(error) if error.is_fault() => continue,
                Err(error) => return Err(error),
            };
            // Where frames of the file are in the index.
            let mut places: HashMap<u32, u32> = HashMap::new();
            for (listed, range) in file.packs_with_frames() {
                let frames: Vec<_> = range.clone().filter_map(|number| file.frame(number)).collect();
                let is_it = packs.get(&listed.id) == Some(&listed.size);
                if is_it && frames.iter().all(|frame| frame.depth == 0) {
                    packs.remove(&listed.id);
                    let (_, start) = self.add_pack(listed.id, listed.kind, listed.size, &frames);
                    places.extend(range.zip(start..));
                }
            }
            for entry in file.entries() {
                if let Some(&frame) = places.get(&entry.frame) {
                    let slot = entry.slot;
                    self.loaded.index.insert_stored(&entry.id, Place { frame, slot })?;
                }
            }
        }
        self.loaded.archived.extend(packs.into_keys());
        self.loaded.archived.sort_unstable();
        Ok(())
    }

    fn unlisted_pack(&mut self, summary: &PackSummary) -> Result<()> {
        let frames: Vec<_> = summary.frames.iter().map(index_file::IndexedFrame::from).collect();
        let (_, start) = self.add_pack(summary.id, summary.kind, summary.size, &frames);
        for (number, frame) in (start..).zip(&summary.frames) {
            if frame.depth > 0 && self.loaded.state.is_any() {
                self.suspects.push((frame.depth, number, frame.bases.clone()));
            }
            for (slot, blob) in (0..).zip(&frame.blobs) {
                let place = Place { frame: number, slot };
                self.loaded.index.insert_stored(&blob.id, place)?;
            }
        }
        Ok(())
    }
}
#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, SystemTime};

    use ibid_format::ChunkId;
    use ibid_format::frame::Blob;
    use ibid_format::pack::FrameSummary;
    use ibid_storage::Storage;
    use ibid_storage::fault::Flaky;

    use super::*;
    use crate::index::IndexLimits;
    use crate::{BackupOptions, InitOptions, Overwrite, Repository, RestoreOptions};

    const NOWHERE: ChunkId = ChunkId([7; 32]);

    /// Returns a frame that a pack does not have, after its last one.
    fn frame_after(pack: &PackSummary) -> FrameSummary {
        let last = pack.frames.last().unwrap();
        FrameSummary {
            offset: last.offset + last.sealed,
            sealed: 50,
            depth: 0,
            bases: vec![],
            blobs: vec![Blob { id: NOWHERE, length: 7 }],
        }
    }

    /// One index file lists a frame more than the pack has. It is read before the correct one, and
    /// after it.
    #[test]
    fn of_two_index_files_that_contradict_each_other_the_second_is_not_used() {
        let storage = Arc::new(ibid_storage::Memory::new());
        let repository = Repository::init(storage, Some(b"secret"), &InitOptions::quick()).unwrap();
        repository.backup(&BackupOptions::default().path("src/source")).unwrap();
        let (id, size) = repository.files.list(folder::PACKS).unwrap()[0];
        let mut summary = repository.files.read_directory(id, size).unwrap();
        summary.frames.push(frame_after(&summary));
        let honest = repository.files.list(folder::INDEX).unwrap()[0].0;
        for (false_one, second) in [(FileId([0; 16]), honest), (FileId([0xFF; 16]), FileId([0xFF; 16]))] {
            let bytes =
                index_file::encode(&repository.files.keys, false_one, 0, std::slice::from_ref(&summary)).unwrap();
            let name = name_in(folder::INDEX, false_one);
            repository.files.storage.put(&name, &[&bytes]).unwrap();
            let heard = Arc::new(Mutex::new(Vec::new()));
            let monitor = Monitor::new({
                let heard = heard.clone();
                move |warning| heard.lock().unwrap().push(warning)
            });
            let loaded = LoadedIndex::load(&repository.watched_by(&Arc::new(monitor)), View::Reader).unwrap();
            let warnings = std::mem::take(&mut *heard.lock().unwrap());
            assert!(
                matches!(&warnings[..], [Warning::Repository { error: Error::Contradiction { index, pack } }]
                    if (*index, *pack) == (second, id)),
                "{warnings:?}"
            );
            assert_eq!(loaded.index.get(&NOWHERE).is_some(), second == honest);
            let places = summary.frames.iter().flat_map(|frame| &frame.blobs);
            for place in places.filter_map(|blob| loaded.index.get(&blob.id)) {
                assert!(place.frame < loaded.index.stored_frames());
            }
            repository.files.storage.delete(&name).unwrap();
        }
    }

    /// The index file of the second backup is lost, and another lists its pack, but contradicts that of the
    /// first.
    #[test]
    fn packs_of_an_index_file_that_is_not_used_are_read_from_their_directories() {
        let storage = Arc::new(ibid_storage::Memory::new());
        let repository = Repository::init(storage, Some(b"secret"), &InitOptions::quick()).unwrap();
        repository.backup(&BackupOptions::default().path("src/source")).unwrap();
        let first = repository.files.list(folder::INDEX).unwrap()[0].0;
        repository.backup(&BackupOptions::default().path("src/read")).unwrap();
        let known = LoadedIndex::load(&repository, View::Reader).unwrap().index.len();
        let lost = repository.files.list(folder::INDEX).unwrap();
        let lost = lost.into_iter().find(|(id, _)| *id != first).unwrap().0;
        let directory = |(id, size)| repository.files.read_directory(id, size).unwrap();
        let mut packs: Vec<PackSummary> = repository
            .files
            .list(folder::PACKS)
            .unwrap()
            .into_iter()
            .map(directory)
            .collect();
        let of_first = repository.files.read_index(first).unwrap();
        let contradicted = packs
            .iter_mut()
            .find(|pack| of_first.packs().any(|listed| listed.id == pack.id))
            .unwrap();
        contradicted.frames.push(frame_after(contradicted));
        let false_one = FileId([0xFF; 16]);
        let bytes = index_file::encode(&repository.files.keys, false_one, 0, &packs).unwrap();
        repository
            .files
            .storage
            .put(&name_in(folder::INDEX, false_one), &[&bytes])
            .unwrap();
        repository.files.storage.delete(&name_in(folder::INDEX, lost)).unwrap();
        let loaded = LoadedIndex::load(&repository, View::Reader).unwrap();
        assert_eq!(loaded.damaged.len(), 1, "{:?}", loaded.damaged);
        assert_eq!(loaded.index.len(), known);
        assert!(!loaded.unlisted.is_empty());
    }

    #[test]
    fn an_unlisted_pack_that_is_gone_by_now_ends_no_backup_and_nothing_relies_on_it() {
        let storage = Arc::new(ibid_storage::Memory::new());
        let repository = Repository::init(storage.clone(), Some(b"secret"), &InitOptions::quick()).unwrap();
        repository.backup(&BackupOptions::default().path("src/source")).unwrap();
        for (id, _) in repository.files.list(folder::INDEX).unwrap() {
            storage.delete(&name_in(folder::INDEX, id)).unwrap();
        }
        let loaded = LoadedIndex::load(&repository, View::Writer).unwrap();
        assert!(!loaded.unlisted.is_empty());
        assert!(loaded.settle_packs(&repository.files).unwrap());
        for (id, _) in &loaded.unlisted {
            storage.delete(&name_in(folder::PACKS, *id)).unwrap();
        }
        assert!(!loaded.settle(&repository.files).unwrap());
        let load = || LoadedIndex::load(&repository, View::Writer);
        let loaded_again = LoadedIndex::settled(&repository.files, load).unwrap();
        assert!(loaded_again.unlisted.is_empty());
        storage.delete(&crate::layout::config_name()).unwrap();
        assert!(loaded.settle(&repository.files).is_err());
    }

    /// Where the storage is far. A lost pack is missed once they are listed again, by whoever reads it, and by a check.
    #[test]
    fn many_packs_are_listed_once_a_day() {
        let storage = Arc::new(Flaky::new(ibid_storage::Memory::new()));
        let repository = Repository::init(storage.clone(), Some(b"secret"), &InitOptions::quick()).unwrap();
        let cache = tempfile::tempdir().unwrap();
        // With the data in its cache, this machine would restore what is lost.
        let mut repository = repository.with_cached_data(0).with_cache(cache.path());
        let few = repository.index_limits();
        let backup = |repository: &Repository| {
            let before = storage.counts().list;
            repository.backup(&BackupOptions::default().path("src/source")).unwrap();
            storage.counts().list - before
        };
        backup(&repository);
        let each_time = backup(&repository);
        assert_eq!(backup(&repository), each_time, "few packs are listed each time");
        repository.index_limits = Some(IndexLimits { packs_listed: 0, ..few });
        assert_eq!(backup(&repository), each_time);
        let seldom = backup(&repository);
        assert_eq!(seldom, each_time - 1);

        // The chunks of the source, without the listings.
        let (id, _) = *repository
            .files
            .list(folder::PACKS)
            .unwrap()
            .iter()
            .max_by_key(|(_, size)| *size)
            .unwrap();
        storage.delete(&name_in(folder::PACKS, id)).unwrap();
        assert_eq!(backup(&repository), seldom, "it is not missed yet");
        let restored = tempfile::tempdir().unwrap();
        let restore = |repository: &Repository| {
            let snapshot = repository.snapshot("latest").unwrap();
            let options = RestoreOptions::default().overwrite(Overwrite::Always);
            repository.restore(&snapshot, restored.path(), &options).unwrap()
        };
        assert!(restore(&repository).failed > 0);
        assert!(!repository.check(crate::ReadData::No).unwrap().is_clean());
        let listed = cache.path().join(repository.id().to_string()).join("listed");
        for (hours, misses) in [(23, false), (25, true)] {
            let file = std::fs::File::options().write(true).open(&listed).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600))
                .unwrap();
            let fresh = repository.watched_by(&Arc::default());
            fresh.backup(&BackupOptions::default().path("src/source")).unwrap();
            assert_eq!(
                repository.check(crate::ReadData::No).unwrap().is_clean(),
                misses,
                "after {hours} hours"
            );
        }
        repository.refresh();
        assert_eq!(restore(&repository).failed, 0, "what was lost is stored again");
    }
}
