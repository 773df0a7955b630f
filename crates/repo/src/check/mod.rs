//! Is everything there, and is it right? And if not: which files of which snapshots does it touch?

mod trees;

use crate::chunks::{ChunkReader, FrameReader};
use crate::index::{Frame, Pack, Place};
use crate::load::{Loaded, read_directory, read_index};
use crate::repository::{folder, list_ids, name_in};
use crate::show::Size;
use crate::similar;
use crate::threads::spawn;
use crate::{Counters, Error, Monitor, Repository, Result};
use ibid_format::pack::Summary;
use ibid_format::slot::{self, Slot};
use ibid_format::{FileId, FileKind};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use trees::Lost;

/// How thoroughly to look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ReadData {
    /// Only the structure: keys, index, directories of packs, snapshots, trees, recipes.
    #[default]
    No,
    /// Also every byte of this share of the packs (0 to 1), chosen by the seed.
    Share {
        /// The share.
        share: f64,
        /// Another seed, other packs.
        seed: u64,
    },
    /// Also every byte of every pack.
    All,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which file of the repository: its path in it.
    pub object: String,
    /// What is wrong with it.
    pub problem: String,
}

/// A file (or directory) that a fault touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affected {
    /// In which snapshot.
    pub snapshot: FileId,
    /// Where in it.
    pub path: PathBuf,
    /// Why it can't be restored whole.
    pub problem: String,
}

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Snapshots looked at.
    pub snapshots: u64,
    /// Packs whose structure was looked at.
    pub packs: u64,
    /// Packs that were read whole.
    pub packs_read: u64,
    /// Bytes read from packs.
    pub bytes_read: u64,
    /// Bytes of all packs.
    pub pack_bytes: u64,
    /// What is wrong.
    pub faults: Vec<Fault>,
    /// What is not as it should be, and harms nothing.
    pub notes: Vec<Fault>,
    /// Whom it touches, at most [`AFFECTED_MAX`].
    pub affected: Vec<Affected>,
    /// How many it touches.
    pub affected_total: u64,
    /// Packs that no index file lists, since a backup was cut short or an index file is lost: the next backup lists them.
    pub unlisted_packs: u64,
}

impl CheckReport {
    /// Whether all is well.
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty() && self.affected_total == 0
    }
}

/// The most affected files that a report names.
pub const AFFECTED_MAX: usize = 10_000;

/// Where a key file says which repository it opens.
const REPOSITORY_IN_SLOT: std::ops::Range<usize> = 8..24;

struct Checking<'a> {
    repository: &'a Repository,
    loaded: &'a Loaded,
    /// For frames that others may be encoded against.
    bodies: ChunkReader<'a>,
    monitor: &'a Monitor,
    faults: Mutex<Vec<Fault>>,
    notes: Mutex<Vec<Fault>>,
    bad: Mutex<Bad>,
}

/// Where the index finds what can't be read. The same chunk may lie in a good pack too, but it is this one that a restore would read.
#[derive(Default)]
struct Bad {
    /// Numbers of frames.
    frames: HashSet<u32>,
    places: HashSet<Place>,
}

impl Checking<'_> {
    fn fault(&self, object: impl ToString, problem: impl ToString) {
        let fault = Fault {
            object: object.to_string(),
            problem: problem.to_string(),
        };
        self.faults.lock().expect("no holder of this lock panics").push(fault);
    }

    fn note(&self, object: impl ToString, problem: impl ToString) {
        let note = Fault {
            object: object.to_string(),
            problem: problem.to_string(),
        };
        self.notes.lock().expect("no holder of this lock panics").push(note);
    }

    fn bad(&self) -> MutexGuard<'_, Bad> {
        self.bad.lock().expect("no holder of this lock panics")
    }
}

impl Repository {
    /// Checks the repository.
    ///
    /// # Errors
    /// Only what keeps it from looking (storage out of reach, memory, cancelled). What is wrong in the repository is in the report.
    pub fn check(&self, read: ReadData, monitor: &Monitor) -> Result<CheckReport> {
        // Snapshots before the index: whatever a snapshot needs was stored before it, so backups that end meanwhile raise no alarm.
        let mut unreadable = Vec::new();
        let snapshots = self.snapshots_with(|id, error| unreadable.push((id, error)))?;
        self.refresh();
        let loaded = self.loaded(monitor)?;
        let checking = Checking {
            repository: self,
            loaded: &loaded,
            bodies: self.body_reader(&loaded),
            monitor,
            faults: Mutex::default(),
            notes: Mutex::default(),
            bad: Mutex::default(),
        };
        let mut report = CheckReport {
            unlisted_packs: loaded.unlisted.len() as u64,
            ..CheckReport::default()
        };
        checking.keys()?;
        checking.sketches()?;
        for (object, problem) in &loaded.damaged {
            checking.fault(object.clone(), problem);
        }
        checking.packs(read, &mut report)?;
        report.snapshots = snapshots.len() as u64;
        let mut lost = checking.trees(&snapshots, &mut report)?;
        lost.perhaps_more |= !unreadable.is_empty();
        for (id, error) in unreadable {
            checking.fault(name_in(folder::SNAPSHOTS, id), error.problem());
        }
        checking.missing(&lost)?;
        report.faults = checking.faults.into_inner().expect("no holder of this lock panics");
        report.notes = checking.notes.into_inner().expect("no holder of this lock panics");
        for list in [&mut report.faults, &mut report.notes] {
            list.sort_by(|a, b| a.object.cmp(&b.object));
        }
        Ok(report)
    }
}

impl Checking<'_> {
    fn keys(&self) -> Result<()> {
        if !self.repository.is_encrypted() {
            return Ok(());
        }
        for (id, slot) in self.repository.slots()? {
            let name = name_in(folder::KEYS, id);
            match slot {
                Ok(slot) if slot.repository() != self.repository.id() => {
                    let says = format!("it says that it opens repository {}, not this one", slot.repository());
                    if self.is_own_slot(id)? {
                        self.fault(name, says);
                    } else {
                        let left = "an `init` that was cut short may have left it";
                        self.note(name, format!("{says}; {left}, and `ibid key remove` removes it"));
                    }
                }
                Ok(slot) => {
                    if let Err(error) = slot.note(&self.repository.keys) {
                        self.fault(name, error);
                    }
                }
                Err(error) => self.fault(name, error.problem()),
            }
        }
        Ok(())
    }

    /// Sketches, all of them: nobody else would tell that one is damaged.
    fn sketches(&self) -> Result<()> {
        for (id, _) in list_ids(self.repository.storage.as_ref(), folder::SKETCHES)? {
            self.monitor.check_cancelled()?;
            match similar::read(self.repository, id) {
                Ok(_) => {}
                Err(error) if is_fault(&error) => {
                    let problem = error.problem();
                    let advice = "no data is lost, and the file can be deleted: backups find less that is similar";
                    self.fault(name_in(folder::SKETCHES, id), format!("{problem}; {advice}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Packs that an index file lists and that are not there as they should be. What was in them may have been stored again since, or
    /// nobody may need it any more: then they are no fault.
    fn missing(&self, lost: &Lost) -> Result<()> {
        let missing = &self.loaded.missing;
        if missing.is_empty() {
            return Ok(());
        }
        let needed = self.needed(lost)?;
        for pack in missing {
            let name = name_in(folder::PACKS, pack.id);
            let found = pack
                .found
                .map_or_else(|| "nothing".to_owned(), |size| Size(size).to_string());
            let mut problem = format!("expected {}, found {found}", Size(pack.expected));
            if pack
                .found
                .is_some_and(|found| Size(found).to_string() == Size(pack.expected).to_string())
            {
                problem = format!(
                    "expected {} bytes, found {} bytes",
                    pack.expected,
                    pack.found.unwrap_or(0)
                );
            }
            if needed.contains(&pack.id) {
                self.fault(name, problem);
            } else {
                self.note(name, format!("{problem}; no snapshot needs what was only there"));
            }
        }
        Ok(())
    }

    /// Missing packs that held something which is lost, by the index files that list them.
    fn needed(&self, lost: &Lost) -> Result<HashSet<FileId>> {
        let missing: HashSet<FileId> = self.loaded.missing.iter().map(|pack| pack.id).collect();
        let mut needed = HashSet::new();
        for (id, _) in list_ids(self.repository.storage.as_ref(), folder::INDEX)? {
            self.monitor.check_cancelled()?;
            let file = match read_index(self.repository, id) {
                Ok(file) => file,
                // Damage was named when the index was loaded, and another backup may have taken a file away.
                Err(error) if is_fault(&error) => continue,
                Err(error) => return Err(error),
            };
            let packs: Vec<_> = file.packs().collect();
            if packs.iter().all(|pack| !missing.contains(&pack.id)) {
                continue;
            }
            for entry in file.entries() {
                let at = packs.partition_point(|pack| pack.first_frame <= entry.frame);
                let Some(pack) = at.checked_sub(1).map(|at| packs[at].id) else {
                    continue;
                };
                let is_lost = || match lost.perhaps_more {
                    true => self.loaded.index.get(&entry.id).is_none(),
                    false => lost.chunks.contains(&entry.id),
                };
                if missing.contains(&pack) && !needed.contains(&pack) && is_lost() {
                    needed.insert(pack);
                }
            }
        }
        Ok(needed)
    }

    /// Whether a slot is this repository's, whatever its header says. If not, it is what an `init` left that was cut short before
    /// there was a config, and in nobody's way.
    fn is_own_slot(&self, id: FileId) -> Result<bool> {
        let name = name_in(folder::KEYS, id);
        let mut bytes = self.repository.storage.get(&name, slot::LIMIT)?;
        let Some(header) = bytes.get_mut(REPOSITORY_IN_SLOT) else {
            return Ok(true);
        };
        header.copy_from_slice(&self.repository.id().0);
        Ok(Slot::parse(id, &bytes).is_ok_and(|slot| slot.note(&self.repository.keys).is_ok()))
    }

    /// Directories of all packs against the index; all bytes of some.
    fn packs(&self, read: ReadData, report: &mut CheckReport) -> Result<()> {
        let packs = &self.loaded.index.packs;
        let mut frames: Vec<Vec<(u32, Frame)>> = vec![Vec::new(); packs.len()];
        for (frame, number) in self.loaded.index.frames.iter().zip(0..) {
            frames[frame.pack as usize].push((number, *frame));
        }
        let counters = &self.monitor.counters;
        let chosen = choose(packs, read);
        let total = packs
            .iter()
            .zip(&chosen)
            .filter(|(_, chosen)| **chosen)
            .map(|(pack, _)| pack.size)
            .sum();
        counters.bytes_total.store(total, Ordering::Relaxed);
        counters.totals_final.store(true, Ordering::Relaxed);
        let next = AtomicUsize::new(0);
        let failure = Mutex::new(None);
        let fail = |error| {
            failure
                .lock()
                .expect("no holder of this lock panics")
                .get_or_insert(error);
            next.store(packs.len(), Ordering::Relaxed);
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let started = spawn(scope, || {
                    let mut reader = FrameReader::default();
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        if n >= packs.len() || self.monitor.is_cancelled() {
                            return;
                        }
                        if let Err(error) = self.pack(n, &frames[n], chosen[n], &mut reader) {
                            return fail(error);
                        }
                    }
                });
                if let Err(error) = started {
                    return fail(error);
                }
            }
        });
        self.monitor.check_cancelled()?;
        if let Some(error) = failure.into_inner().expect("no holder of this lock panics") {
            return Err(error);
        }
        report.packs = packs.len() as u64;
        report.packs_read = chosen.iter().filter(|chosen| **chosen).count() as u64;
        report.bytes_read = counters.bytes.load(Ordering::Relaxed);
        report.pack_bytes = packs.iter().map(|pack| pack.size).sum();
        Ok(())
    }

    fn pack(&self, number: usize, frames: &[(u32, Frame)], read: bool, reader: &mut FrameReader) -> Result<()> {
        let pack = self.loaded.index.packs[number];
        let object = name_in(folder::PACKS, pack.id).to_string();
        let summary = match read_directory(self.repository, pack.id, pack.size) {
            Ok(summary) => Some(summary),
            Err(error) if is_fault(&error) => {
                self.fault(&object, error.problem());
                None
            }
            Err(error) => return Err(error),
        };
        if let Some(summary) = &summary {
            self.compare(number as u32, frames, summary, &object);
        }
        if read {
            self.magic(pack.id, &object)?;
            for (n, (number, frame)) in frames.iter().enumerate() {
                if self.monitor.is_cancelled() {
                    return Ok(());
                }
                let listed = summary.as_ref().and_then(|summary| summary.frames.get(n));
                self.frame(*number, frame, listed, reader, &object)?;
                Counters::add(&self.monitor.counters.bytes, u64::from(frame.sealed));
            }
        }
        Ok(())
    }

    /// The first bytes of a pack, which no seal covers.
    fn magic(&self, id: FileId, object: &str) -> Result<()> {
        let kind = FileKind::Pack;
        let mut magic = kind.magic();
        let name = name_in(folder::PACKS, id);
        let read = self
            .repository
            .storage
            .read_at(&name, 0, &mut magic)
            .map_err(Error::from);
        match read.and_then(|()| kind.check(&magic).map_err(Error::damaged(object))) {
            Err(error) if is_fault(&error) => self.fault(object, error.problem()),
            result => result?,
        }
        Ok(())
    }

    /// The index against what the pack says of itself.
    fn compare(&self, number: u32, frames: &[(u32, Frame)], summary: &Summary, object: &str) {
        let same = frames.len() == summary.frames.len()
            && frames
                .iter()
                .zip(&summary.frames)
                .all(|((_, a), b)| (a.offset, a.sealed) == (b.offset, b.sealed) && a.blobs as usize == b.blobs.len());
        if !same {
            self.fault(object, "the index lists other frames than the pack's own directory");
            return;
        }
        for listed in &summary.frames {
            for (blob, slot) in listed.blobs.iter().zip(0u16..) {
                // The same chunk may lie in two packs; the index knows one.
                match self.loaded.index.get(&blob.id) {
                    None => self.fault(
                        object,
                        format!("chunk {} is in the pack's directory, but not in the index", blob.id),
                    ),
                    Some(place) => {
                        let frame = self.loaded.index.frame(place.frame);
                        if frame.pack == number && frame.offset == listed.offset && place.slot != slot {
                            self.fault(
                                object,
                                format!("chunk {} is in slot {slot}, but the index says {}", blob.id, place.slot),
                            );
                        }
                    }
                }
            }
        }
    }

    /// One frame: seal, compression, and every chunk against its id.
    fn frame(
        &self,
        number: u32,
        frame: &Frame,
        listed: Option<&ibid_format::pack::FrameSummary>,
        reader: &mut FrameReader,
        object: &str,
    ) -> Result<()> {
        let keys = &self.repository.keys;
        let opened = match reader.open(&self.bodies, number, None) {
            Ok(opened) => opened,
            Err(error) if is_fault(&error) => {
                self.fault(object, format!("at offset {}: {}", frame.offset, error.problem()));
                self.bad().frames.insert(number);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let blobs = listed.map_or(&[][..], |listed| &listed.blobs);
        let mut wrong = 0;
        for (blob, slot) in blobs.iter().zip(0u16..) {
            if opened.id(keys, slot) != Some(blob.id) {
                wrong += 1;
                self.bad().places.insert(Place { frame: number, slot });
            }
        }
        if wrong > 0 {
            self.fault(
                object,
                format!(
                    "{wrong} chunks of the frame at offset {} have other bytes than their ids say",
                    frame.offset
                ),
            );
        }
        Ok(())
    }
}

/// Whether an error tells of the repository's state: then it goes into the report and the check goes on.
pub(crate) fn is_fault(error: &Error) -> bool {
    use ibid_storage::ErrorKind;
    match error {
        Error::Storage(error) => matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::Truncated | ErrorKind::TooLarge | ErrorKind::Io
        ),
        error => error.is_damage(),
    }
}

/// Which packs are to be read whole: of a share, so many that it is reached, the smallest by a fingerprint of id and seed. There is always one.
fn choose(packs: &[Pack], read: ReadData) -> Vec<bool> {
    let ReadData::Share { share, seed } = read else {
        return vec![read == ReadData::All; packs.len()];
    };
    let order = |pack: &Pack| {
        // SplitMix64's last steps: ids are random, but somebody else chose them.
        let mut z = u64::from_le_bytes(pack.id.0[..8].try_into().expect("8 bytes")) ^ seed;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    };
    let mut numbers: Vec<usize> = (0..packs.len()).collect();
    numbers.sort_unstable_by_key(|&n| order(&packs[n]));
    let count = (packs.len() as f64 * share.clamp(0.0, 1.0)).ceil() as usize;
    let mut chosen = vec![false; packs.len()];
    for &n in &numbers[..count] {
        chosen[n] = true;
    }
    chosen
}
