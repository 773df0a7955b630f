//! A repository to damage, and the conditions that must hold afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ibid_repo::{CheckReport, Error, Monitor, ReadData, Repository, RestoreOptions, SnapshotInfo, Warning};
use ibid_storage::{Memory, Name, Storage};

use super::place::{Place, reached};
use super::{Contents, Folder, contents, noise, quick, scratch};

/// All objects of a repository.
pub type Image = BTreeMap<Name, Vec<u8>>;

pub fn image(storage: &dyn Storage) -> Image {
    let mut names = Vec::new();
    storage.list("", &mut |name, _| names.push(name)).unwrap();
    let read = |name: Name| {
        let bytes = storage.get(&name, u64::MAX).unwrap();
        (name, bytes)
    };
    names.into_iter().map(read).collect()
}

pub fn storage(image: &Image) -> Arc<Memory> {
    let memory = Memory::new();
    for (name, bytes) in image {
        memory.put(name, &[bytes]).unwrap();
    }
    Arc::new(memory)
}

/// Returns a storage with these objects, as repositories are to reach it.
pub fn place(image: &Image) -> Place {
    reached(storage(image).as_ref().clone())
}

pub fn open(storage: Place) -> Result<Repository, Error> {
    Repository::open(storage, Some(b"secret"))
}

/// Returns the kind of an object from its name: `packs`, `index`, …
pub fn kind(name: &Name) -> &str {
    name.as_str().split('/').next().unwrap()
}

/// A repository of three snapshots, and the contents of each.
pub struct Scene {
    pub folder: Folder,
    pub image: Image,
    pub snapshots: Vec<(String, Contents)>,
    /// The cache of a machine that read all snapshots before anything was damaged.
    cache: tempfile::TempDir,
    /// Judgements so far.
    judged: AtomicU64,
}

/// One in so many repositories is also read with a cache, which takes as long again.
const CACHED_EVERY: u64 = 5;

impl Scene {
    pub fn new() -> Scene {
        let options = quick()
            .chunker(ibid_chunk::Settings::for_average("fastcdc", 4 << 10).unwrap())
            .frame_size(16 << 10)
            .pack_size(1 << 20);
        let memory = Arc::new(Memory::new());
        let repository = Repository::init(memory.clone(), Some(b"secret"), &options).unwrap();
        let folder = Folder::scratch();
        folder.write("long", &noise(1, 150_000));
        folder.write("text", "the same line\n".repeat(1000).as_bytes());
        folder.write("empty", b"");
        folder.write("twice/one", &noise(2, 20_000));
        std::fs::hard_link(folder.path().join("twice/one"), folder.path().join("twice/two")).unwrap();
        std::os::unix::fs::symlink("long", folder.path().join("link")).unwrap();
        // Makes listings of several chunks.
        for n in 0..30 {
            folder.write(format!("many/{}{n:03}", "n".repeat(250)), format!("{n}").as_bytes());
        }
        let mut snapshots = Vec::new();
        for version in 0..3 {
            // The same amount of new data each time, so that packs of different backups have the
            // same size.
            folder.write("new", &noise(10 + version, 60_000));
            folder.write(format!("deep/er/{version}"), format!("version {version}").as_bytes());
            // The next backup reads a recently written file again; damage must also hit files that
            // it does not read.
            std::thread::sleep(std::time::Duration::from_millis(30));
            let summary = super::backup(&repository, folder.path());
            snapshots.push((summary.id.unwrap().to_string(), contents(folder.path())));
        }
        let cache = scratch();
        let repository = cached(memory.clone(), cache.path()).unwrap();
        for snapshot in repository.snapshots().unwrap() {
            let restored = repository.restore(&snapshot, scratch().path(), &RestoreOptions::default());
            assert_eq!(restored.unwrap().failed, 0);
        }
        let kept = repository.cache_stats().unwrap().unwrap();
        assert!(kept.runs > 0 && kept.copy_bytes > 0, "{kept:?}");
        Scene {
            folder,
            image: image(memory.as_ref()),
            snapshots,
            cache,
            judged: AtomicU64::new(0),
        }
    }

    pub fn names(&self, of: &str) -> Vec<Name> {
        self.image.keys().filter(|name| kind(name) == of).cloned().collect()
    }

    pub fn with(&self, change: impl FnOnce(&mut Image)) -> Image {
        let mut image = self.image.clone();
        change(&mut image);
        image
    }

    /// Opens, checks and restores everything; returns the report, or the error if the repository
    /// can't be opened.
    pub fn judge(&self, image: &Image, context: &str) -> Result<CheckReport, Error> {
        let repository = open(place(image))?;
        let report = check_all(&repository, context);
        for (id, tree) in &self.snapshots {
            match repository.snapshot(id) {
                Ok(_) => self.restore(&repository, &report, id, tree, context),
                Err(error) => {
                    let known = report
                        .faults
                        .iter()
                        .any(|fault| fault.object == format!("snapshots/{id}"));
                    assert!(
                        known || matches!(error, Error::UnknownSnapshot { .. }),
                        "{context}: {error}, and {report:?}"
                    );
                }
            }
        }
        if self.judged.fetch_add(1, Ordering::Relaxed).is_multiple_of(CACHED_EVERY) {
            self.judge_cached(image, &report, context);
        }
        Ok(report)
    }

    /// Does the same on a machine with a cache. A check finds as much, and a restore may lose less: trees
    /// and snapshots have copies.
    fn judge_cached(&self, image: &Image, report: &CheckReport, context: &str) {
        let cache = scratch();
        copy(self.cache.path(), cache.path());
        let repository = cached(place(image), cache.path()).unwrap();
        let found = repository.check(ReadData::All).unwrap();
        let faults = |report: &CheckReport| -> BTreeSet<String> {
            report.faults.iter().map(|fault| format!("{fault:?}")).collect()
        };
        assert_eq!(faults(&found), faults(report), "{context}: with a cache");
        for (id, tree) in &self.snapshots {
            if let Ok(snapshot) = repository.snapshot(id) {
                let (lost, affected) = self.restored(&repository, report, &snapshot, tree, context);
                let is_known = report
                    .faults
                    .iter()
                    .any(|fault| fault.object == format!("snapshots/{id}"));
                // If a listing is lost, the check cannot name what is in it.
                let is_told = |path: &PathBuf| affected.iter().any(|affected| path.starts_with(affected));
                assert!(
                    is_known || lost.iter().all(is_told),
                    "{context}: with a cache: {lost:?}, not {affected:?}"
                );
            }
        }
    }

    /// Restores a snapshot. Restored files must be right, and missing ones must be exactly those
    /// that the check reported.
    pub fn restore(&self, repository: &Repository, report: &CheckReport, id: &str, tree: &Contents, context: &str) {
        let snapshot = repository.snapshot(id).unwrap();
        let (lost, affected) = self.restored(repository, report, &snapshot, tree, context);
        assert_eq!(
            lost, affected,
            "{context}: what a restore could not do, and what the check said"
        );
    }

    /// Restores a snapshot. Restored files must be right, and missing ones told of. Returns these, and those
    /// that the check reported.
    fn restored(
        &self,
        repository: &Repository,
        report: &CheckReport,
        snapshot: &SnapshotInfo,
        tree: &Contents,
        context: &str,
    ) -> (BTreeSet<PathBuf>, BTreeSet<PathBuf>) {
        let id = snapshot.id;
        let out = scratch();
        let lost = Arc::new(Mutex::new(BTreeSet::new()));
        let monitor = Arc::new(Monitor::new({
            let (lost, out) = (lost.clone(), out.path().to_owned());
            move |warning| {
                if let Warning::Skipped { path, .. } = warning {
                    lost.lock().unwrap().insert(path.strip_prefix(&out).unwrap().to_owned());
                }
            }
        }));
        let summary = repository
            .watched_by(&monitor)
            .restore(snapshot, out.path(), &RestoreOptions::default())
            .unwrap_or_else(|error| panic!("{context}: snapshot {id}: {error}"));
        let lost = std::mem::take(&mut *lost.lock().unwrap());
        assert_eq!(summary.failed, lost.len() as u64, "{context}: {lost:?}");
        let affected: BTreeSet<PathBuf> = report
            .affected
            .iter()
            .filter(|affected| affected.snapshot == snapshot.id)
            .map(|affected| affected.path.clone())
            .collect();
        let base = self.folder.path().strip_prefix("/").unwrap();
        let at = out.path().join(base);
        let found = if at.exists() { contents(&at) } else { Contents::new() };
        for (path, node) in &found {
            assert_eq!(
                tree.get(path),
                Some(node),
                "{context}: {path:?} of snapshot {id} is wrong"
            );
        }
        for path in tree.keys().filter(|path| !found.contains_key(*path)) {
            let whole = base.join(path);
            let told = lost.iter().any(|lost: &PathBuf| whole.starts_with(lost));
            assert!(
                told,
                "{context}: {path:?} of snapshot {id} is missing and nobody said so: {lost:?}"
            );
        }
        (lost, affected)
    }
}

/// Opens the repository with a cache in this folder, and an index that uses it for a few chunks.
fn cached(storage: Place, folder: &Path) -> Result<Repository, Error> {
    Ok(open(storage)?.with_tiny_index().with_cache(folder))
}

/// Copies the files of a folder into another one.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Checks a repository and reads all data: with everything in memory, and in temporary files.
/// Returns the report, which must be the same.
pub fn check_all(repository: &Repository, context: &str) -> CheckReport {
    let [report, from_files] = [repository.clone(), repository.clone().with_tiny_index()].map(|repository| {
        let mut report = repository
            .check(ReadData::All)
            .unwrap_or_else(|error| panic!("{context}: the check itself failed: {error}"));
        for list in [&mut report.faults, &mut report.notes] {
            list.sort_by(|a, b| (&a.object, &a.problem).cmp(&(&b.object, &b.problem)));
        }
        report
    });
    assert_eq!(format!("{report:?}"), format!("{from_files:?}"), "{context}");
    report
}

pub fn names_fault(report: &CheckReport, name: &Name, context: &str) {
    assert!(
        report.faults.iter().any(|fault| fault.object == name.as_str()),
        "{context}: {name} is not among {:?}",
        report.faults
    );
}

/// Checks that a message names the object, or the problem with the password or the storage.
pub fn names_object(error: &Error, name: &Name, context: &str) {
    let text = error.to_string();
    let helps = match kind(name) {
        "config" => text.contains("config") || matches!(error, Error::NoRepository { .. } | Error::NotEncrypted { .. }),
        "keys" => {
            matches!(error, Error::WrongPassword { .. } | Error::NoKeys { .. }) || text.contains(name.last_segment())
        }
        _ => false,
    };
    assert!(helps, "{context}: {text}");
}

pub fn is_needed_to_open(name: &Name) -> bool {
    matches!(kind(name), "config" | "keys")
}

impl Scene {
    /// Judges damage that a check must notice, or that prevents opening the repository.
    pub fn must_notice(&self, image: &Image, name: &Name, context: &str) {
        match self.judge(image, context) {
            Ok(report) => names_fault(&report, name, context),
            Err(error) => {
                assert!(is_needed_to_open(name), "{context}: {error}");
                names_object(&error, name, context);
            }
        }
    }
}
