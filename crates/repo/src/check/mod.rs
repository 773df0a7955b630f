//! Is everything there, and is it right? And if not: which files of which snapshots does it touch?

mod dependents;
mod frames;
mod order;
mod packs;
mod trees;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use dependents::Cause;
use ibid_format::FileId;
use ibid_format::slot::{self, Slot};

use crate::error::is_fault;
use crate::index::Loaded;
use crate::index::Place;
use crate::layout::{folder, list_ids, name_in};
use crate::read::ChunkReader;
use crate::similar;
use crate::{Monitor, Repository, Result};

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
    /// Packs that no index file lists, since a backup was cut short or an index file is lost: the
    /// next backup lists them.
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

/// Where the index finds what can't be read. The same chunk may lie in a good pack too, but it is
/// this one that a restore would read.
#[derive(Default)]
struct Bad {
    /// Numbers of frames that can't be read.
    frames: HashSet<u32>,
    places: HashSet<Place>,
    /// Numbers of frames that are encoded against something of the above, or something lost, by
    /// however many steps.
    hanging: HashSet<u32>,
    /// Why, by pack and offset of the frame that is to blame.
    causes: BTreeMap<(FileId, u32), Cause>,
    /// Frames that can't be decoded for want of a base, unless something above says why.
    unexplained: BTreeMap<u32, String>,
    /// A pack's directory names bases that are not to be had.
    lacks_bases: bool,
}

impl Bad {
    /// These frames hang on something that was named.
    fn explain(&mut self, hanging: HashSet<u32>) {
        self.unexplained.retain(|number, _| !hanging.contains(number));
        self.hanging.extend(hanging);
    }
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
    /// Only what keeps it from looking (storage out of reach, memory, cancelled). What is wrong in
    /// the repository is in the report.
    pub fn check(&self, read: ReadData, monitor: &Monitor) -> Result<CheckReport> {
        // Snapshots before the index: whatever a snapshot needs was stored before it, so backups that end
        // meanwhile raise no alarm.
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
        let lacking = checking.causes()?;
        report.snapshots = snapshots.len() as u64;
        let mut lost = checking.trees(&snapshots, &mut report)?;
        lost.perhaps_more |= !unreadable.is_empty();
        for (id, error) in unreadable {
            checking.fault(name_in(folder::SNAPSHOTS, id), error.problem());
        }
        checking.missing(&lost, &lacking)?;
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
                    let advice = "no data is lost, and the file can be deleted: what it told of is found out again by the next backups";
                    self.fault(name_in(folder::SKETCHES, id), format!("{problem}; {advice}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether a slot is this repository's, whatever its header says. If not, it is what an `init`
    /// left that was cut short before there was a config, and in nobody's way.
    fn is_own_slot(&self, id: FileId) -> Result<bool> {
        let name = name_in(folder::KEYS, id);
        let mut bytes = self.repository.storage.get(&name, slot::LIMIT)?;
        let Some(header) = bytes.get_mut(REPOSITORY_IN_SLOT) else {
            return Ok(true);
        };
        header.copy_from_slice(&self.repository.id().0);
        Ok(Slot::parse(id, &bytes).is_ok_and(|slot| slot.note(&self.repository.keys).is_ok()))
    }
}
