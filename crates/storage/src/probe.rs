//! Tries out what a storage promises: some network folders and object stores do not keep it.
//!
//! Programs that work in one repository at once agree through the storage alone: one of many puts of a name must
//! win, and a list must show what was stored before it began. [`conformance`](crate::conformance) tests
//! implementations; this tests the place where the objects are.
//!
//! ```
//! use ibid_storage::{Memory, Storage, probe};
//! let storage = Memory::new();
//! let report = probe::run(&storage, "keys");
//! assert!(report.is_ok());
//! storage.list("", &mut |name, _| panic!("{name} was left"))?;
//! # Ok::<(), ibid_storage::Error>(())
//! ```

use std::collections::BTreeMap;
use std::sync::{Barrier, Mutex};

use crate::{Error, ErrorKind, Name, NameError, Storage};

/// Threads that put one name at once.
const WRITERS: usize = 16;
/// Names that they put, one after the other.
const RACES: usize = 24;
/// Objects that are stored and listed, one after the other.
const LISTED: usize = 16;
/// Bytes of an object in a race: enough that two writers overlap.
const RACE_BYTES: usize = 64 << 10;
/// Bytes of the object that is stored, settled and read in parts.
const LARGE_BYTES: usize = 3 << 20;

/// A race of several processes for names, each of which has a `Race` with the same tag.
///
/// ```
/// use ibid_storage::{Memory, probe::Race};
/// let storage = Memory::new();
/// let race = Race::new("keys", "3fa9")?;
/// // Each process does this at the same time as the others, with a number of its own.
/// let won: Vec<Vec<bool>> = [0, 1].map(|number| race.run(&storage, number)).into_iter().collect::<Result<_, _>>()?;
/// // One of them does this when all have ended.
/// assert_eq!(race.judge(&storage, &won)?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Race(Vec<Name>);

impl Race {
    /// Returns a race for names `probe-…` in a folder, with a tag that no other race has.
    ///
    /// # Errors
    /// If the folder or the tag makes no valid name.
    pub fn new(folder: &str, tag: &str) -> Result<Race, NameError> {
        let name = |number| Name::new(&format!("{folder}/probe-{tag}-race-{number}"));
        (0..RACES).map(name).collect::<Result<_, _>>().map(Race)
    }

    /// Puts all names, one after the other; returns which of these puts succeeded.
    ///
    /// # Errors
    /// Errors of the storage, but that a name is taken.
    pub fn run(&self, storage: &dyn Storage, writer: u8) -> Result<Vec<bool>, Error> {
        let bytes = vec![writer; RACE_BYTES];
        let put = |name| match storage.put(name, &[&bytes]) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        };
        self.0.iter().map(put).collect()
    }

    /// Returns what is wrong, if it is not so that for each name one of the writers 0, 1, … won, and that its bytes
    /// are there. Then deletes the objects.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn judge(&self, storage: &dyn Storage, won: &[Vec<bool>]) -> Result<Option<String>, Error> {
        let mut problem = None;
        for (at, name) in self.0.iter().enumerate() {
            let is_winner = |writer: &usize| won[*writer].get(at) == Some(&true);
            let winners: Vec<usize> = (0..won.len()).filter(is_winner).collect();
            let found = match storage.get(name, RACE_BYTES as u64) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                found => found.ok(),
            };
            match winners[..] {
                [winner] if found == Some(vec![winner as u8; RACE_BYTES]) => {}
                [_] => problem = Some("one of several processes stored an object, but others' bytes are there".into()),
                _ => {
                    let count = winners.len();
                    problem = Some(format!(
                        "{count} of {} processes that put one name at once succeeded",
                        won.len()
                    ));
                }
            }
            match storage.delete(name) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(problem)
    }
}

/// Something that a storage promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Promise {
    /// Of many puts of one name at once exactly one succeeds, and its bytes are there.
    OneWins,
    /// A put never overwrites.
    NoOverwrite,
    /// What was put can be read at once, whole and in parts.
    ReadAfterWrite,
    /// A list shows each object whose put has returned, with its size, and none that was deleted.
    List,
    /// What was deleted is gone, and its name is free.
    Delete,
    /// Objects can be made durable: files and folders are synced, and files renamed.
    Durable,
}

impl Promise {
    /// All of them.
    pub const ALL: [Promise; 6] = [
        Promise::OneWins,
        Promise::NoOverwrite,
        Promise::ReadAfterWrite,
        Promise::List,
        Promise::Delete,
        Promise::Durable,
    ];
}

/// Whether a promise was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The promise.
    pub promise: Promise,
    /// What was wrong, for people; `None` if it was kept.
    pub problem: Option<String>,
}

/// What a probe has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// One for each [promise](Promise::ALL).
    pub findings: Vec<Finding>,
    /// Objects of the probe that could not be deleted.
    pub left: Vec<Name>,
}

impl Report {
    /// Returns whether all promises were kept.
    pub fn is_ok(&self) -> bool {
        self.findings.iter().all(|finding| finding.problem.is_none())
    }

    /// Notes that a promise was broken.
    pub fn fail(&mut self, promise: Promise, problem: impl Into<String>) {
        let mut of_promise = self.findings.iter_mut().filter(|finding| finding.promise == promise);
        if let Some(finding) = of_promise.next() {
            finding.problem.get_or_insert(problem.into());
        }
    }

    /// Returns whether a promise was kept.
    pub fn keeps(&self, promise: Promise) -> bool {
        let mut of_promise = self.findings.iter().filter(|finding| finding.promise == promise);
        of_promise.all(|finding| finding.problem.is_none())
    }
}

/// Tries each [promise](Promise) with objects `probe-…` in a folder, which must be empty or a valid name. They are
/// deleted afterwards. A probe that keeps its promises once may break them another time: only a failure is
/// certain.
///
/// Errors of the storage are findings.
pub fn run(storage: &dyn Storage, folder: &str) -> Report {
    let probe = Probe {
        storage,
        folder,
        tag: random_tag(),
        names: Mutex::default(),
    };
    let findings = Promise::ALL.map(|promise| Finding {
        promise,
        problem: probe.try_out(promise).err().map(|problem| problem.0),
    });
    Report {
        findings: findings.into(),
        left: probe.clean_up(),
    }
}

/// Returns a text that no other probe has.
pub fn random_tag() -> String {
    use std::hash::{BuildHasher, RandomState};
    // Seeded anew by the system in each process and for each of them.
    let half = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", half(), half())
}

/// What is wrong.
struct Problem(String);

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        Problem(error.to_string())
    }
}

type Tried = Result<(), Problem>;

fn broken(problem: impl Into<String>) -> Tried {
    Err(Problem(problem.into()))
}

struct Probe<'s> {
    storage: &'s dyn Storage,
    folder: &'s str,
    tag: String,
    /// All names that were used.
    names: Mutex<Vec<Name>>,
}

impl Probe<'_> {
    fn try_out(&self, promise: Promise) -> Tried {
        match promise {
            Promise::OneWins => self.one_wins(),
            Promise::NoOverwrite => self.no_overwrite(),
            Promise::ReadAfterWrite => self.read_after_write(),
            Promise::List => self.list(),
            Promise::Delete => self.delete(),
            Promise::Durable => self.durable(),
        }
    }

    /// Returns a name that was not used before.
    fn name(&self) -> Result<Name, Problem> {
        let mut names = self.names.lock().expect("no holder of this lock panics");
        let last = format!("probe-{}-{}", self.tag, names.len());
        let name = match self.folder {
            "" => Name::new(&last),
            folder => Name::new(&format!("{folder}/{last}")),
        };
        let name = name.map_err(|error| Problem(error.to_string()))?;
        names.push(name.clone());
        Ok(name)
    }

    fn one_wins(&self) -> Tried {
        for _ in 0..RACES {
            let name = self.name()?;
            let start = Barrier::new(WRITERS);
            let (won, failed) = (Mutex::new(Vec::new()), Mutex::new(None));
            std::thread::scope(|scope| {
                for writer in 0..WRITERS {
                    let (name, start, won, failed) = (&name, &start, &won, &failed);
                    scope.spawn(move || {
                        let bytes = vec![writer as u8; RACE_BYTES];
                        start.wait();
                        match self.storage.put(name, &[&bytes]) {
                            Ok(()) => won.lock().expect("no holder of this lock panics").push(writer),
                            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                            Err(error) => *failed.lock().expect("no holder of this lock panics") = Some(error),
                        }
                    });
                }
            });
            if let Some(error) = failed.into_inner().expect("no holder of this lock panics") {
                return Err(error.into());
            }
            let won = won.into_inner().expect("no holder of this lock panics");
            let [winner] = won[..] else {
                return broken(format!(
                    "of {WRITERS} puts of one name at once, {} succeeded",
                    won.len()
                ));
            };
            let found = self.storage.get(&name, u64::MAX)?;
            if found != vec![winner as u8; RACE_BYTES] {
                return broken(format!(
                    "of {WRITERS} puts of one name at once, one succeeded, but others' bytes are there"
                ));
            }
        }
        Ok(())
    }

    fn no_overwrite(&self) -> Tried {
        let name = self.name()?;
        self.storage.put(&name, &[b"first"])?;
        for second in [b"other".as_slice(), b"something longer", b"first"] {
            match self.storage.put(&name, &[second]) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
                Ok(()) => return broken("a put of a name that is taken succeeded"),
            }
            if self.storage.get(&name, u64::MAX)? != b"first" {
                return broken("a put of a name that is taken changed the object");
            }
        }
        Ok(())
    }

    fn read_after_write(&self) -> Tried {
        for number in 0..LISTED {
            let name = self.name()?;
            let bytes = vec![number as u8; 1000 + number];
            self.storage.put(&name, &[&bytes])?;
            let mut tail = [0; 10];
            self.storage.read_at(&name, bytes.len() as u64 - 10, &mut tail)?;
            let size = self.storage.size(&name)?;
            if size != bytes.len() as u64 || tail != [number as u8; 10] || self.storage.get(&name, u64::MAX)? != bytes {
                return broken("an object reads back differently");
            }
        }
        Ok(())
    }

    /// Returns the objects of this probe that are listed, with their sizes.
    fn listed(&self) -> Result<BTreeMap<Name, u64>, Error> {
        let mut found = BTreeMap::new();
        self.storage.list(self.folder, &mut |name, size| {
            if name.last_segment().contains(&self.tag) {
                found.insert(name, size);
            }
        })?;
        Ok(found)
    }

    fn list(&self) -> Tried {
        let mut stored = Vec::new();
        for number in 0..LISTED {
            let name = self.name()?;
            self.storage.put(&name, &[&vec![0; 1 + number]])?;
            stored.push((name, 1 + number as u64));
            let listed = self.listed()?;
            let missing = stored.iter().filter(|(name, size)| listed.get(name) != Some(size));
            let missing = missing.count();
            if missing > 0 {
                return broken(format!(
                    "a list lacks {missing} of {} objects that were stored before it",
                    stored.len()
                ));
            }
        }
        for (name, _) in &stored {
            self.storage.delete(name)?;
            if self.listed()?.contains_key(name) {
                return broken("a list has an object that was deleted before it");
            }
        }
        Ok(())
    }

    fn delete(&self) -> Tried {
        let name = self.name()?;
        for bytes in [b"first", b"again"] {
            self.storage.put(&name, &[bytes])?;
            if self.storage.get(&name, u64::MAX)? != bytes {
                return broken("a deleted object is there again in place of a new one");
            }
            self.storage.delete(&name)?;
            let gone = [self.storage.get(&name, u64::MAX).err(), self.storage.size(&name).err()];
            let deleted = self.storage.delete(&name).err();
            for error in gone.into_iter().chain(self.storage.tells_absence().then_some(deleted)) {
                match error {
                    Some(error) if error.kind() == ErrorKind::NotFound => {}
                    Some(error) => return Err(error.into()),
                    None => return broken("a deleted object is still there"),
                }
            }
        }
        Ok(())
    }

    fn durable(&self) -> Tried {
        let name = self.name()?;
        let bytes: Vec<u8> = (0..LARGE_BYTES as u32)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        self.storage.put(&name, &[&bytes])?;
        self.storage.settle(&name)?;
        match self.storage.get(&name, u64::MAX)? == bytes {
            true => Ok(()),
            false => broken("an object reads back differently after it was synced"),
        }
    }

    /// Deletes all objects; returns those that are still there.
    fn clean_up(self) -> Vec<Name> {
        let names = self.names.into_inner().expect("no holder of this lock panics");
        let storage = self.storage;
        let is_left = |name: &Name| {
            let deleted = storage.delete(name);
            deleted.is_err_and(|error| error.kind() != ErrorKind::NotFound)
        };
        names.into_iter().filter(is_left).collect()
    }
}
