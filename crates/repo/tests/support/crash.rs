//! Backups on a disk that loses power, and the conditions that must hold afterwards.
//!
//! One `run` makes a repository and backs up versions of a tree until the disk crashes (power lost,
//! or only the process killed). Then it opens the surviving repository, checks it, restores from it
//! and backs up into it; then the power is lost once more.

use std::collections::BTreeMap;
use std::path::Path;

use ibid_repo::{BackupSummary, Error, InitOptions, ReadData, Repository, RestoreOptions};
use ibid_storage::Local;
use ibid_storage::fault::FaultDisk;

use super::place::reached;
use super::{Contents, Folder, Random, contents, difference, options, quick, scratch};

pub const PLACE: &str = "/srv/place";

/// The trees to back up before and after the crash: one tree, reused for every run.
pub struct Plan {
    folder: Folder,
    seed: u64,
    versions: u64,
    bytes: u64,
}

/// Observations of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// The crash came before all work was done.
    pub crashed: bool,
    /// Number of snapshots acknowledged before the crash.
    pub acknowledged: u64,
    /// Number of packs without an index file after the crash.
    pub unlisted: u64,
    /// A complete snapshot existed that had not been acknowledged.
    pub unacknowledged: bool,
    /// The next backup had less to store than a first one.
    pub reused: bool,
}

/// Kind of crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Data that was not synced may be lost.
    Power,
    /// The process ends, the machine runs on.
    Kill,
}

impl Plan {
    /// Plans `versions` of a tree, each with about `bytes` of new data.
    pub fn new(seed: u64, versions: u64, bytes: u64) -> Plan {
        Plan {
            folder: Folder::scratch(),
            seed,
            versions,
            bytes,
        }
    }

    fn init(&self) -> InitOptions {
        quick()
            .chunker(ibid_chunk::Settings::for_average("argmin", 16 << 10).unwrap())
            .frame_size(64 << 10)
            .pack_size(1 << 20)
    }

    /// Changes the tree to version `n`.
    fn tree(&self, n: u64) -> Contents {
        if n == 0 {
            std::fs::remove_dir_all(self.folder.path()).unwrap();
            std::fs::create_dir(self.folder.path()).unwrap();
        }
        let mut random = Random(self.seed.wrapping_mul(1000).wrapping_add(n));
        self.folder.evolve(&mut random, self.bytes);
        contents(self.folder.path())
    }

    fn backup(&self, repository: &Repository) -> Result<BackupSummary, Error> {
        repository.backup(&options(self.folder.path()))
    }

    /// Makes the repository and the backups; stops at the first error. Returns the acknowledged
    /// snapshots, and the tree of the one that was not.
    fn work(&self, disk: &FaultDisk, cache: Option<&Path>, made: &mut bool) -> (Vec<(String, Contents)>, Contents) {
        let mut acknowledged = Vec::new();
        let mut last = self.tree(0);
        let Ok(place) = Local::create_on(disk.clone(), PLACE) else {
            return (acknowledged, last);
        };
        let Ok(repository) = Repository::init(reached(place), Some(b"secret"), &self.init()) else {
            return (acknowledged, last);
        };
        let repository = with_cache(repository, cache);
        *made = true;
        for n in 0..self.versions {
            if n > 0 {
                last = self.tree(n);
            }
            let Ok(summary) = self.backup(&repository) else { break };
            acknowledged.push((summary.id.unwrap().to_string(), last.clone()));
        }
        (acknowledged, last)
    }

    /// Does one run; the disk crashes before operation `at` (never, if there are fewer).
    pub fn run(&self, at: u64, seed: u64, end: End) -> Seen {
        let context = format!("plan {}, crash at {at}, seed {seed}, {end:?}", self.seed);
        let disk = FaultDisk::new(seed);
        disk.short_writes(seed.is_multiple_of(2));
        disk.crash_at(at);
        let mut made = false;
        // The cache is on another disk, which does not crash: it may know of packs that are lost.
        let cache = (seed % 2 == 1).then(scratch);
        let cache = cache.as_ref().map(|folder| folder.path());
        let (mut acknowledged, last) = self.work(&disk, cache, &mut made);
        let mut seen = Seen {
            crashed: acknowledged.len() as u64 != self.versions,
            acknowledged: acknowledged.len() as u64,
            ..Seen::default()
        };
        let disk = match end {
            End::Power => disk.crash(seed),
            End::Kill => disk.restart(),
        };
        disk.short_reads(seed.is_multiple_of(3));
        let repository = with_cache(self.reopen(&disk, made, &context), cache);
        self.intact(&repository, &mut acknowledged, Some(&last), &mut seen, &context);
        // The next backup works without any repair, and is as durable as any other.
        let tree = contents(self.folder.path());
        let stored = data_packs(&disk);
        let summary = self
            .backup(&repository)
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        // Packs of an earlier version may share nothing with this one; those of this version do.
        let fresh: u64 = unique_bytes(&tree);
        seen.reused = summary.counters.new_bytes < fresh;
        assert!(
            seen.reused || stored == 0 || seen.acknowledged > 0,
            "{context}, {} acknowledged: {stored} packs of data were there, and {} of {fresh} bytes were stored again",
            seen.acknowledged,
            summary.counters.new_bytes
        );
        acknowledged.push((summary.id.unwrap().to_string(), tree));
        let disk = disk.crash(seed ^ 0x5EED);
        let repository = with_cache(self.reopen(&disk, true, &context), cache);
        let context = format!("{context}, after the second loss of power");
        let after = self.intact(&repository, &mut acknowledged, None, &mut Seen::default(), &context);
        // An index file seen before it was durable may be lost; its packs stay, and are found
        // without it.
        assert!(
            after == 0 || end == End::Kill,
            "{context}: {after} packs without an index file"
        );
        seen
    }

    fn reopen(&self, disk: &FaultDisk, made: bool, context: &str) -> Repository {
        let open = Local::open_on(disk.clone(), PLACE)
            .map_err(Error::from)
            .and_then(|place| Repository::open(reached(place), Some(b"secret")));
        match open {
            Ok(repository) => repository,
            Err(error) => {
                assert!(!made, "{context}: {error}");
                // A crash in `init` leaves no repository, or a complete one. If there is none, the
                // next `init` succeeds.
                let place = Local::create_on(disk.clone(), PLACE).unwrap();
                Repository::init(reached(place), Some(b"secret"), &self.init())
                    .unwrap_or_else(|error| panic!("{context}: {error}"))
            }
        }
    }

    /// Checks and restores everything; returns the number of packs that no index file lists.
    fn intact(
        &self,
        repository: &Repository,
        acknowledged: &mut Vec<(String, Contents)>,
        unacknowledged: Option<&Contents>,
        seen: &mut Seen,
        context: &str,
    ) -> u64 {
        let report = repository
            .check(ReadData::All)
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        assert!(report.is_clean(), "{context}: {report:?}");
        seen.unlisted = report.unlisted_packs;
        let mut expected: BTreeMap<_, _> = acknowledged.iter().cloned().collect();
        for info in repository.snapshots().unwrap() {
            let id = info.id.to_string();
            let tree = expected.remove(&id).or_else(|| {
                // If the unacknowledged snapshot is visible at all, it is complete.
                let tree = unacknowledged.cloned()?;
                seen.unacknowledged = true;
                acknowledged.push((id.clone(), tree.clone()));
                Some(tree)
            });
            let tree = tree.unwrap_or_else(|| panic!("{context}: nobody stored snapshot {id}"));
            restores(repository, &id, self.folder.path(), &tree, context);
        }
        assert!(expected.is_empty(), "{context}: lost {:?}", expected.keys());
        report.unlisted_packs
    }
}

/// Restores the snapshot's `path` and compares.
pub fn restores(repository: &Repository, id: &str, path: &Path, expected: &Contents, context: &str) {
    let out = scratch();
    let snapshot = repository.snapshot(id).unwrap();
    let summary = repository
        .restore(snapshot.at(path), out.path(), &RestoreOptions::default())
        .unwrap_or_else(|error| panic!("{context}: snapshot {id}: {error}"));
    assert_eq!(summary.failed, 0, "{context}: snapshot {id}");
    if let Some(difference) = difference(expected, &contents(out.path())) {
        panic!("{context}: snapshot {id}: {difference}");
    }
}

/// Counts packs that are too large to hold only metadata.
fn data_packs(disk: &FaultDisk) -> u64 {
    let mut count = 0;
    if let Ok(place) = Local::open_on(disk.clone(), PLACE) {
        ibid_storage::Storage::list(&place, "packs", &mut |_, size| count += u64::from(size > 64 << 10)).unwrap();
    }
    count
}

/// Returns the bytes of distinct files: a first backup stores at least that much, less chunks that
/// files share.
fn unique_bytes(tree: &Contents) -> u64 {
    let files: std::collections::BTreeSet<_> = tree
        .values()
        .filter_map(|node| match node {
            super::Node::File(bytes) => Some(bytes),
            _ => None,
        })
        .collect();
    files.iter().map(|bytes| bytes.len() as u64).sum()
}

/// Gives a repository a cache in this folder, and an index that uses it for a few chunks.
fn with_cache(repository: Repository, folder: Option<&Path>) -> Repository {
    match folder {
        Some(folder) => repository.with_tiny_index().with_cache(folder),
        None => repository,
    }
}
