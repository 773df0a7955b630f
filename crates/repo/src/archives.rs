//! Packs of data that the storage keeps in an archive, and must thaw before anyone reads them.
//!
//! All else is read at once: trees, index files, snapshots. So a rehearsal of what is to be done tells which packs it
//! would read, and the storage says which of them are in an archive. Of a pack with deltas, what these are encoded
//! against is not known before it is thawed; then more packs may be needed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ibid_format::FileId;
use ibid_storage::{ArchiveState, Archives, ErrorKind, Name, Thaw};

use crate::layout::{folder, name_in};
use crate::rehearsal::Inexact;
use crate::{Error, Monitor, PackBytes, Repository, Result, StorageError, Warning, clock};

/// What is thawed for no longer than this is asked for again, seconds.
const SOON: i64 = 24 * 60 * 60;
/// Looks that may fail one after the other, each after it was tried for minutes.
const FAILED_MAX: u32 = 20;
/// How often a wait looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(100);

/// A pack that is in an archive.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) size: u64,
    pub(crate) class: String,
}

/// The packs in an archive that an operation reads.
#[derive(Clone, Debug, Default)]
pub struct ArchivedPacks {
    packs: Vec<ArchivedPack>,
    more: bool,
}

#[derive(Clone, Debug)]
struct ArchivedPack {
    name: Name,
    size: u64,
    class: String,
    state: ArchiveState,
}

impl ArchivedPack {
    fn is_readable(&self) -> bool {
        // What is gone is for the operation to say.
        matches!(self.state, ArchiveState::Readable(_) | ArchiveState::Gone)
    }
}

impl ArchivedPacks {
    /// The number of packs that a [wait](Repository::wait_until_thawed) asks for each time.
    pub const LOOKED_AT: usize = 16;

    fn those(&self, of: impl Fn(&ArchivedPack) -> bool) -> PackBytes {
        let mut found = PackBytes::default();
        for pack in self.packs.iter().filter(|pack| of(pack)) {
            found.packs += 1;
            found.bytes += pack.size;
        }
        found
    }

    /// Returns all of them.
    #[must_use]
    pub fn all(&self) -> PackBytes {
        self.those(|_| true)
    }

    /// Returns those that the storage was not asked to thaw.
    #[must_use]
    pub fn frozen(&self) -> PackBytes {
        self.those(|pack| pack.state == ArchiveState::Frozen)
    }

    /// Returns those of them that are in each class, as the service calls it.
    #[must_use]
    pub fn frozen_by_class(&self) -> BTreeMap<String, PackBytes> {
        let mut classes: BTreeMap<String, PackBytes> = BTreeMap::new();
        for pack in self.packs.iter().filter(|pack| pack.state == ArchiveState::Frozen) {
            let of_class = classes.entry(pack.class.clone()).or_default();
            of_class.packs += 1;
            of_class.bytes += pack.size;
        }
        classes
    }

    /// Returns those that the storage is thawing.
    #[must_use]
    pub fn thawing(&self) -> PackBytes {
        self.those(|pack| pack.state == ArchiveState::Thawing)
    }

    /// Returns those that can't be read yet.
    #[must_use]
    pub fn waiting(&self) -> PackBytes {
        self.those(|pack| !pack.is_readable())
    }

    /// Returns those among these packs that can't be read yet.
    pub(crate) fn waiting_among(&self, packs: &BTreeSet<FileId>) -> PackBytes {
        let is_among = |name: &Name| FileId::parse(name.last_segment()).is_some_and(|id| packs.contains(&id));
        self.those(|pack| !pack.is_readable() && is_among(&pack.name))
    }

    /// Returns the class of each pack that can't be read yet, as the service calls it.
    pub fn classes_waiting(&self) -> impl Iterator<Item = &str> {
        let waiting = self.packs.iter().filter(|pack| !pack.is_readable());
        waiting.map(|pack| pack.class.as_str())
    }

    /// Returns until when all that can be read now can be read, seconds since 1970; `None` if there is no end.
    #[must_use]
    pub fn until(&self) -> Option<i64> {
        let ends = self.packs.iter().filter_map(|pack| match pack.state {
            ArchiveState::Readable(until) => until,
            _ => None,
        });
        ends.min()
    }

    /// Returns whether the operation may need more packs, which are known once these can be read: what deltas in them
    /// are encoded against.
    #[must_use]
    pub fn may_need_more(&self) -> bool {
        self.more
    }
}

impl Repository {
    /// Returns the packs that are in an archive, thawed or not. Where the storage has no archives, it is not asked.
    pub(crate) fn archived_packs(&self) -> Result<HashMap<FileId, Kept>> {
        self.archived_by(|archives, each| archives.list_archived(folder::PACKS, each))
    }

    /// Returns the same, as the last list of packs mostly says. If none was made lately, the storage is asked.
    pub(crate) fn archived_packs_lately(&self) -> Result<HashMap<FileId, Kept>> {
        self.archived_by(|archives, each| archives.list_archived_lately(folder::PACKS, each))
    }

    fn archived_by(
        &self,
        list: impl FnOnce(&dyn Archives, &mut dyn FnMut(Name, u64, &str)) -> std::result::Result<(), StorageError>,
    ) -> Result<HashMap<FileId, Kept>> {
        let mut found = HashMap::new();
        if let Some(archives) = self.files.storage.archives() {
            list(archives, &mut |name, size, class| {
                if let Some(id) = FileId::parse(name.last_segment()) {
                    let class = class.to_owned();
                    found.insert(id, Kept { size, class });
                }
            })?;
        }
        Ok(found)
    }

    /// Returns which packs in an archive an operation reads. `rehearse` runs it in a
    /// [rehearsal](Repository::rehearsing), and is called only if there are any. What this machine keeps itself is not
    /// needed. Where the storage has archives, the index is loaded for this, and is used by what follows until
    /// [`refresh`](Repository::refresh).
    ///
    /// # Errors
    /// Those of the rehearsal, and of the storage.
    ///
    /// ```
    /// # use ibid_repo::{Argon2Cost, BackupOptions, InitOptions, MemoryStorage, Repository, RestoreOptions};
    /// # let storage = std::sync::Arc::new(MemoryStorage::new());
    /// # let init = InitOptions::default().cost(Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 });
    /// let repository = Repository::init(storage, Some(b"secret"), &init)?;
    /// repository.backup(&BackupOptions::default().path("src"))?;
    /// let latest = repository.snapshots()?.pop().unwrap();
    /// let packs = repository.archived_for(|rehearsal| {
    ///     let options = RestoreOptions::default();
    ///     rehearsal.plan_restore(&latest, "/nowhere", &options, |_, _| Ok(())).map(drop)
    /// })?;
    /// assert_eq!(packs.all().packs, 0, "memory has no archives");
    /// # Ok::<(), ibid_repo::Error>(())
    /// ```
    pub fn archived_for(&self, rehearse: impl FnOnce(&Repository) -> Result<()>) -> Result<ArchivedPacks> {
        if self.files.storage.archives().is_none() {
            return Ok(ArchivedPacks::default());
        }
        // The list of packs, which is made then, mostly says what is archived, too.
        self.loaded()?;
        let archived = self.archived_packs_lately()?;
        if archived.is_empty() {
            return Ok(ArchivedPacks::default());
        }
        let rehearsal = self.rehearsing_quietly()?;
        rehearse(&rehearsal)?;
        let needed = rehearsal.take_packs_needed();
        let needed = needed.into_iter().filter_map(|id| Some((id, archived.get(&id)?)));
        let packs = needed.map(|(id, kept)| ArchivedPack {
            name: name_in(folder::PACKS, id),
            size: kept.size,
            class: kept.class.clone(),
            state: ArchiveState::Frozen,
        });
        let mut packs = ArchivedPacks {
            packs: packs.collect(),
            more: rehearsal.estimate().inexact.contains(&Inexact::Archived),
        };
        self.look(&mut packs.packs)?;
        Ok(packs)
    }

    /// Returns a rehearsal that tells nothing: what is to be told is told by the operation itself.
    pub(crate) fn rehearsing_quietly(&self) -> Result<Repository> {
        let watching = self.monitor.clone();
        let quiet = Monitor::new(|_| {}).stopping_when(move || watching.is_cancelled());
        Ok(self.rehearsing()?.watched_by(&Arc::new(quiet)))
    }

    /// Asks whether packs can be read.
    fn look(&self, packs: &mut [ArchivedPack]) -> Result<()> {
        let Some(archives) = self.files.storage.archives() else {
            return Ok(());
        };
        let names: Vec<Name> = packs.iter().map(|pack| pack.name.clone()).collect();
        for (pack, state) in packs.iter_mut().zip(archives.states(&names)?) {
            pack.state = state;
        }
        Ok(())
    }

    /// Asks the storage to thaw packs, and does not wait for that. Those that are being thawed are not asked for again;
    /// what can be read, but for less than a day from now, is kept for longer. Returns how many were asked for.
    ///
    /// # Errors
    /// [`Error::Interrupted`], or an error of the storage: some packs may have been asked for. It can be called again.
    pub fn thaw(&self, packs: &mut ArchivedPacks, thaw: Thaw) -> Result<u64> {
        let Some(archives) = self.files.storage.archives() else {
            return Ok(0);
        };
        let soon = clock::now().seconds + SOON;
        let mut asked: Vec<&mut ArchivedPack> = packs
            .packs
            .iter_mut()
            .filter(|pack| match pack.state {
                ArchiveState::Frozen => true,
                ArchiveState::Readable(Some(until)) => until < soon,
                _ => false,
            })
            .collect();
        let names: Vec<Name> = asked.iter().map(|pack| pack.name.clone()).collect();
        let done = AtomicU64::new(0);
        archives.thaw(&names, thaw, &|count| {
            done.fetch_add(count, Ordering::Relaxed);
            self.monitor.check_cancelled().is_ok()
        })?;
        self.monitor.check_cancelled()?;
        for pack in asked.iter_mut().filter(|pack| pack.state == ArchiveState::Frozen) {
            pack.state = ArchiveState::Thawing;
        }
        Ok(done.into_inner())
    }

    /// Waits until packs can be read, and asks for that `every` so often: first about those that were asked for first,
    /// and about others once these are thawed. `each` is called after each look. What is no longer being thawed, though
    /// it can't be read, is [asked for](Repository::thaw) again. A storage that does not answer is asked again the next
    /// time, and the monitor gets a [`Warning::ThawUnknown`]. After a wait, this handle loads the index anew: others
    /// may have pruned meanwhile.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the monitor was cancelled; errors of the storage, those of a network that is down only
    /// after 20 looks in a row. The thawing goes on.
    pub fn wait_until_thawed(
        &self,
        packs: &mut ArchivedPacks,
        thaw: Thaw,
        every: Duration,
        mut each: impl FnMut(&ArchivedPacks),
    ) -> Result<()> {
        // Looks that failed one after the other.
        let mut failed = 0;
        loop {
            match self.look_and_ask(packs, thaw) {
                Ok(()) => failed = 0,
                // A wait of days outlives a network that is down for an hour.
                Err(Error::Storage(error)) if error.kind() == ErrorKind::Io && failed < FAILED_MAX => {
                    failed += 1;
                    let (waiting, error) = (packs.waiting(), error.into());
                    self.monitor.warn(Warning::ThawUnknown { waiting, error });
                }
                Err(error) => return Err(error),
            }
            each(packs);
            if packs.waiting().packs == 0 {
                return Ok(());
            }
            self.refresh();
            let begun = clock::instant();
            while let Some(left) = every.checked_sub(clock::since(begun)).filter(|left| !left.is_zero()) {
                self.monitor.check_cancelled()?;
                std::thread::sleep(left.min(LOOK));
            }
        }
    }

    /// Looks once which packs can be read by now, and asks again for those that are not being thawed.
    fn look_and_ask(&self, packs: &mut ArchivedPacks, thaw: Thaw) -> Result<()> {
        let mut waiting: Vec<usize> = (0..packs.packs.len()).collect();
        waiting.retain(|at| !packs.packs[*at].is_readable());
        for group in waiting.chunks(ArchivedPacks::LOOKED_AT) {
            self.monitor.check_cancelled()?;
            let mut looked: Vec<ArchivedPack> = group.iter().map(|at| packs.packs[*at].clone()).collect();
            self.look(&mut looked)?;
            let all = looked.iter().all(ArchivedPack::is_readable);
            for (at, pack) in group.iter().zip(looked) {
                packs.packs[*at] = pack;
            }
            if !all {
                break;
            }
        }
        match packs.frozen().packs {
            0 => Ok(()),
            _ => self.thaw(packs, thaw).map(drop),
        }
    }

    /// Refuses an operation that reads packs which are in an archive, and not thawed.
    pub(crate) fn refuse_archived(&self, rehearse: impl FnOnce(&Repository) -> Result<()>) -> Result<()> {
        if self.files.rehearsal.is_some() {
            return Ok(());
        }
        match self.archived_for(rehearse)?.waiting() {
            PackBytes { packs: 0, .. } => Ok(()),
            PackBytes { packs, bytes } => Err(Error::Archived { packs, bytes }),
        }
    }

    /// Says of an operation that met a pack in an archive how much of what it reads must be thawed.
    pub(crate) fn counting_archived<T>(
        &self,
        result: Result<T>,
        rehearse: impl FnOnce(&Repository) -> Result<()>,
    ) -> Result<T> {
        match result {
            Err(error) if error.is_archived() => match self.archived_for(rehearse).map(|packs| packs.waiting()) {
                Ok(PackBytes { packs: 0, .. }) | Err(_) => Err(error),
                Ok(PackBytes { packs, bytes }) => Err(Error::Archived { packs, bytes }),
            },
            result => result,
        }
    }

    /// Returns the packs of which something would be read in a rehearsal, as noted since the last call.
    pub(crate) fn take_packs_needed(&self) -> BTreeSet<FileId> {
        let rehearsal = self.files.rehearsal.as_ref();
        rehearsal
            .map(|rehearsal| rehearsal.take_packs_needed())
            .unwrap_or_default()
    }
}
