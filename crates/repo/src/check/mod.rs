//! Is everything there, and is it right? And if not: which files of which snapshots does it touch?

mod trees;

use crate::chunks::FrameReader;
use crate::index::{Frame, Place};
use crate::load::{Loaded, read_directory};
use crate::repository::{folder, name_in};
use crate::threads::spawn;
use crate::{Counters, Error, Monitor, Repository, Result};
use ibid_format::pack::Summary;
use ibid_format::slot::{self, Slot};
use ibid_format::{FileId, FileKind};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

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
    /// Which file of the repository.
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
    /// What is wrong.
    pub faults: Vec<Fault>,
    /// Whom it touches, at most [`AFFECTED_MAX`].
    pub affected: Vec<Affected>,
    /// How many it touches.
    pub affected_total: u64,
    /// Packs that no index file lists: from a backup that was cut short; the next one uses them.
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
    monitor: &'a Monitor,
    faults: Mutex<Vec<Fault>>,
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
    fn fault(&self, object: impl Into<String>, problem: impl ToString) {
        let fault = Fault {
            object: object.into(),
            problem: problem.to_string(),
        };
        self.faults.lock().expect("no holder of this lock panics").push(fault);
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
            monitor,
            faults: Mutex::default(),
            bad: Mutex::default(),
        };
        let mut report = CheckReport {
            unlisted_packs: loaded.unlisted.len() as u64,
            ..CheckReport::default()
        };
        checking.keys()?;
        for (object, problem) in &loaded.damaged {
            checking.fault(object.clone(), problem);
        }
        for missing in &loaded.missing {
            let found = missing
                .found
                .map_or("nothing".to_owned(), |size| format!("{size} bytes"));
            checking.fault(
                format!("pack {}", missing.id),
                format!("expected {} bytes, found {found}", missing.expected),
            );
        }
        checking.packs(read, &mut report)?;
        for (id, error) in unreadable {
            checking.fault(format!("snapshot {id}"), error);
        }
        report.snapshots = snapshots.len() as u64;
        checking.trees(&snapshots, &mut report)?;
        report.faults = checking.faults.into_inner().expect("no holder of this lock panics");
        report.faults.sort_by(|a, b| a.object.cmp(&b.object));
        Ok(report)
    }
}

impl Checking<'_> {
    fn keys(&self) -> Result<()> {
        if !self.repository.is_encrypted() {
            return Ok(());
        }
        for (id, slot) in self.repository.slots()? {
            match slot {
                Ok(slot) if slot.repository() != self.repository.id() => {
                    if self.is_own_slot(id)? {
                        let problem = format!("it says that it opens repository {}, not this one", slot.repository());
                        self.fault(format!("key {id}"), problem);
                    }
                }
                Ok(slot) => {
                    if let Err(error) = slot.note(&self.repository.keys) {
                        self.fault(format!("key {id}"), error);
                    }
                }
                Err(error) => self.fault(format!("key {id}"), error),
            }
        }
        Ok(())
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
        let chosen: Vec<bool> = packs.iter().map(|pack| is_chosen(pack.id, read)).collect();
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
        Ok(())
    }

    fn pack(&self, number: usize, frames: &[(u32, Frame)], read: bool, reader: &mut FrameReader) -> Result<()> {
        let pack = self.loaded.index.packs[number];
        let object = format!("pack {}", pack.id);
        let summary = match read_directory(self.repository, pack.id, pack.size) {
            Ok(summary) => Some(summary),
            Err(error) if is_fault(&error) => {
                self.fault(object.clone(), error);
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
            Err(error) if is_fault(&error) => self.fault(object, error),
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
                        let frame = &self.loaded.index.frames[place.frame as usize];
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
        let opened = match reader.read(self.repository, self.loaded, frame, None) {
            Ok(opened) => opened,
            Err(error) if is_fault(&error) => {
                self.fault(object, error);
                self.bad().frames.insert(number);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let blobs = listed.map_or(&[][..], |listed| &listed.blobs);
        let mut wrong = 0;
        for (blob, slot) in blobs.iter().zip(0u16..) {
            if !opened.chunk(slot).is_ok_and(|chunk| keys.chunk_id(chunk) == blob.id) {
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

/// Whether a pack is among those to be read whole. Its id is random: with the seed it makes a fair coin.
fn is_chosen(id: FileId, read: ReadData) -> bool {
    match read {
        ReadData::No => false,
        ReadData::All => true,
        ReadData::Share { share, seed } => {
            let bits = u64::from_le_bytes(id.0[..8].try_into().expect("8 bytes"));
            let mixed = (bits ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
            ((mixed >> 11) as f64) < share * (1u64 << 53) as f64
        }
    }
}
