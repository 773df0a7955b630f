//! Backups, prunes, restores, copies and users who change and forget snapshots, all at once, on a storage that makes
//! trouble.

use std::fs::{File, FileTimes};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use ibid_repo::WriterKey;
use ibid_repo::{
    ChunkerSettings, Error, FileId, InitOptions, Limit, Monitor, PruneEstimate, PruneOptions, ReadData, Repository,
    RestoreOptions, SnapshotInfo,
};
use ibid_storage::Storage;
use tempfile::TempDir;

use super::actors::{Actor, ROLES, ROLES_OF_WRITER, Role};
use super::place::{Place, empty};
use super::seam::{Seam, Trace};
use super::turns::{Remains, Turns};
use super::{Contents, Random, backup, contents, noise, quick, scratch};

/// Versions of a tree.
const VERSIONS: u64 = 12;

/// Versions of a tree, which all histories use.
pub struct Trees {
    pub versions: Vec<(PathBuf, Contents)>,
    /// A repository that has the first of them, to copy from.
    pub others: Place,
}

impl Trees {
    /// Returns versions that share most of what they have, and resemble one another in much of the rest. The same ones
    /// are always in the same place, where they stay: paths are a part of what is backed up.
    pub fn new(seam: &Seam) -> Trees {
        let place = scratch();
        let mut name = Trace::default();
        for n in 0..VERSIONS {
            write_version(&place.path().join(n.to_string()), n, &mut name);
        }
        let fixed = place
            .path()
            .with_file_name(format!("ibid-simulated-{:016x}", name.digest));
        // If another process is faster, it has made the same.
        let _ = std::fs::rename(place.path(), &fixed);
        let version = |n: u64| {
            let path = fixed.join(n.to_string()).canonicalize().unwrap();
            let found = contents(&path);
            (path, found)
        };
        let versions: Vec<_> = (0..VERSIONS).map(version).collect();
        let others = empty();
        seam.process(1, || {
            let repository = init(&others, seam);
            for (path, _) in &versions[..4] {
                backup(&repository, path);
            }
        });
        Trees { versions, others }
    }
}

/// Writes a version, and adds what it has to a digest of all.
fn write_version(path: &Path, n: u64, digest: &mut Trace) {
    std::fs::create_dir(path).unwrap();
    let mut write = |name: &str, bytes: &[u8]| {
        let path = path.join(name);
        std::fs::write(&path, bytes).unwrap();
        let times = FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(1));
        File::open(&path).unwrap().set_times(times).unwrap();
        digest.add(name.as_bytes());
        digest.add(bytes);
    };
    let mut random = Random(n);
    for file in 0..5 {
        // Three kinds of each file, with changes of their own.
        let mut bytes = noise(file * 100 + random.below(3), 24_000);
        for _ in 0..random.below(4) {
            let at = random.below(24_000 - 64) as usize;
            bytes[at..at + 32].copy_from_slice(&noise(random.next(), 32));
        }
        if random.below(5) > 0 {
            write(&format!("file {file}"), &bytes);
        }
    }
    write("number", &n.to_le_bytes());
}

/// Makes a repository of small chunks, frames and packs.
pub fn init(store: &Place, seam: &Seam) -> Repository {
    let small = quick()
        .chunker(ChunkerSettings::for_average("argmin", 4 << 10).unwrap())
        .frame_size(8 << 10)
        .pack_size(1 << 20);
    let options: InitOptions = (seam.init)(small);
    Repository::init(store.clone(), Some(b"secret"), &options).unwrap()
}

/// What was seen in a history.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub acknowledged: u64,
    pub failed: u64,
    pub prunes: u64,
    pub freed: u64,
    pub waited: u64,
    pub restored: u64,
    /// Prunes that encoded chunks anew.
    pub anew: u64,
    /// Snapshots that were copied into the repository, and out of it.
    pub copied: u64,
    /// Snapshots that got other tags, lost files, or were brought back.
    pub changed: u64,
    /// Packs that a thief of a writer's key has planted.
    pub planted: u64,
    /// Histories after which every prune sets out to encode chunks anew, and frees nothing by it.
    pub restless: u64,
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, other: Seen) {
        self.acknowledged += other.acknowledged;
        self.failed += other.failed;
        self.prunes += other.prunes;
        self.freed += other.freed;
        self.waited += other.waited;
        self.restored += other.restored;
        self.anew += other.anew;
        self.copied += other.copied;
        self.changed += other.changed;
        self.planted += other.planted;
        self.restless += other.restless;
    }
}

/// What is broken after a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A snapshot that was acknowledged, and not forgotten, does not restore.
    Lost(String),
    /// Something else that must not be.
    Other(String),
}

/// A snapshot that was acknowledged.
#[derive(Clone, Copy)]
pub struct Kept {
    pub id: FileId,
    pub tree: usize,
    /// Whether the first file was left out of it.
    pub is_rewritten: bool,
}

impl Kept {
    fn contents(&self, trees: &Trees) -> Contents {
        let mut contents = trees.versions[self.tree].1.clone();
        contents.retain(|path, _| !self.is_rewritten || path != Path::new(REWRITTEN));
        contents
    }
}

/// The file that a rewrite leaves out.
pub const REWRITTEN: &str = "file 0";

/// What all actors know.
#[derive(Default)]
pub struct Known {
    pub acknowledged: Vec<Kept>,
    pub forgotten: Vec<FileId>,
    pub seen: Seen,
    pub broken: Option<Broken>,
    /// Whether a thief of a writer's key has stored index files that lie: backups of the writer may rely on them.
    pub is_poisoned: bool,
}

/// Restores a snapshot; returns what is wrong with it.
pub fn compare(repository: &Repository, info: &SnapshotInfo, kept: &Kept, trees: &Trees) -> Option<String> {
    let target = scratch();
    let to = target.path().join("restored");
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let warned = warnings.clone();
    let monitor = Arc::new(Monitor::new(move |warning| warned.lock().unwrap().push(warning)));
    let watched = repository.watched_by(&monitor);
    match watched.restore(info, &to, &RestoreOptions::default()) {
        Err(error) => return Some(format!("snapshot {} does not restore: {error}", info.id)),
        Ok(summary) if summary.failed > 0 => {
            let (lost, why) = (summary.failed, warnings.lock().unwrap());
            return Some(format!("snapshot {}: {lost} files are lost: {why:?}", info.id));
        }
        Ok(_) => {}
    }
    let path = std::str::from_utf8(&info.snapshot.paths[0]).unwrap();
    let found = contents(&to.join(path.trim_start_matches('/')));
    (found != kept.contents(trees)).then(|| format!("snapshot {} has other files", info.id))
}

/// How a history went.
#[derive(Debug)]
pub struct Outcome {
    pub seen: Seen,
    pub broken: Option<Broken>,
    pub trace: Trace,
}

/// Lets them all run, in the order that the seed says, with clocks that are wrong and losses of power.
pub fn history(trees: &Trees, seed: u64, seam: Seam) -> Outcome {
    history_of(trees, seed, seam, None)
}

/// Does the same with the files of a writer: backups have its key, all others the password. A thief of the key is
/// there, too.
pub fn history_of_writer(trees: &Trees, seed: u64, seam: Seam) -> Outcome {
    let store = empty();
    let key = seam.process(seed, || init(&store, &seam).add_writer("laptop").unwrap());
    history_of(trees, seed, seam, Some((store, key)))
}

/// Opens a repository, or the files of a writer in it, with the password.
pub fn open(store: Arc<dyn Storage>, key: Option<&WriterKey>) -> Result<Repository, Error> {
    let repository = Repository::open(store, Some(b"secret"))?;
    match key {
        Some(key) => repository.writer(&key.id().to_string()),
        None => Ok(repository),
    }
}

/// Opens them to back up.
pub fn open_to_store(store: Arc<dyn Storage>, key: Option<&WriterKey>) -> Result<Repository, Error> {
    match key {
        Some(key) => Repository::open_as_writer(store, key),
        None => open(store, None),
    }
}

fn history_of(trees: &Trees, seed: u64, seam: Seam, of_writer: Option<(Place, WriterKey)>) -> Outcome {
    let mut random = Random(seed ^ 0xACCE_55ED);
    let (store, key) = match of_writer {
        Some((store, key)) => (store, Some(key)),
        None => (empty(), None),
    };
    let key = key.as_ref();
    let known = Mutex::new(Known::default());
    // Some run one after the other first, so that there is something to prune.
    seam.process(random.next(), || {
        let repository = match key {
            Some(key) => Repository::open_as_writer(store.clone(), key).unwrap(),
            None => init(&store, &seam),
        };
        for _ in 0..1 + random.below(3) {
            let tree = random.below(VERSIONS) as usize;
            let id = backup(&repository, &trees.versions[tree].0).id.unwrap();
            known.lock().unwrap().acknowledged.push(Kept {
                id,
                tree,
                is_rewritten: false,
            });
        }
    });
    let caches = [scratch(), scratch()];
    let mut remains = Remains::of(store, seed % 3 == 2);
    // Others go on with what those left who were killed or lost power.
    for generation in 0..1 + random.below(2) {
        let seed = seed * 2 + generation;
        remains = together(trees, remains, &known, &caches, seed, seam, key);
        if known.lock().unwrap().broken.is_some() {
            break;
        }
    }
    if random.below(2) == 0 {
        remains.lose_power(&mut random);
    }
    let mut known = known.into_inner().unwrap();
    let mut broken = known.broken.take();
    let mut trace = remains.trace;
    if broken.is_none() {
        let store = remains.calm();
        broken = seam.process(random.next(), || {
            (seam.set_clock)(trace.calls as i64);
            at_rest(trees, &store, &mut known, &mut random, key)
        });
        store
            .list("", &mut |name, _| trace.add(name.as_str().as_bytes()))
            .unwrap();
    }
    Outcome {
        seen: known.seen,
        broken,
        trace,
    }
}

/// Lets all actors run until they are done or killed. Returns what they leave.
fn together(
    trees: &Trees,
    remains: Remains,
    known: &Mutex<Known>,
    caches: &[TempDir],
    seed: u64,
    seam: Seam,
    key: Option<&WriterKey>,
) -> Remains {
    let mut random = Random(seed ^ 0x0FF1_CE55);
    let mut roles = vec![Role::Writer, Role::Writer, Role::Pruner, Role::Reader, Role::Forgetter];
    for _ in 0..random.below(4) {
        let all = if key.is_some() {
            &ROLES_OF_WRITER[..]
        } else {
            &ROLES[..]
        };
        roles.push(all[random.below(all.len() as u64) as usize]);
    }
    let asleep = roles
        .iter()
        .map(|role| role.sleep()[random.below(3) as usize])
        .collect();
    let (turns, seats) = Turns::seats(remains, asleep, seed, seam);
    std::thread::scope(|scope| {
        for ((at, seat), role) in (0..).zip(seats).zip(roles) {
            let mut random = Random(seed * 31 + at);
            scope.spawn(move || {
                let actor = Actor {
                    trees,
                    seat: &seat,
                    known,
                    seam: &seam,
                    key,
                    cache: caches.get(random.below(4) as usize).map(TempDir::path),
                };
                seam.process(random.next(), || {
                    seat.begin();
                    role.act(&actor, &mut random);
                    seat.leave();
                });
            });
        }
    });
    turns.remains()
}

/// Prunes after which there must be nothing more to do.
const PRUNES_MAX: usize = 8;

/// Checks that nothing is lost when all have ended and after further prunes, and that these free the rest.
fn at_rest(
    trees: &Trees,
    store: &Place,
    known: &mut Known,
    random: &mut Random,
    key: Option<&WriterKey>,
) -> Option<Broken> {
    let repository = open(store.clone(), key).unwrap();
    let options = PruneOptions::default()
        .max_unused(Limit::Bytes(0))
        .patience(Duration::ZERO);
    let mut other = None;
    for round in 0..PRUNES_MAX {
        let is_planted = known.seen.planted > 0 && round == 0;
        let lost = any_lost(trees, &repository, known).filter(|_| !is_planted);
        let report = repository.check(ReadData::All).unwrap();
        if let Some(lost) = lost {
            // Whether it is the storage that lacks something, or the restore that failed.
            let found = format!("{:?} {:?}", report.faults, report.affected);
            return Some(Broken::Lost(format!(
                "after {round} prunes: {lost}; a check finds {found}"
            )));
        }
        // What the thief has planted is named, until it is pruned.
        if !report.is_clean() && known.seen.planted == 0 {
            let problem = format!("after {round} prunes: {:?} {:?}", report.faults, report.affected);
            other = other.or(Some(Broken::Other(problem)));
        }
        let summary = match repository.prune(&options) {
            Err(error) => return other.or(Some(Broken::Other(format!("prune {round}: {error}")))),
            Ok(summary) => summary,
        };
        // Small packs may still be merged, and a little that is not needed stays.
        let is_done = summary.estimate.packs_deleted == 0 && summary.waiting.is_empty();
        if is_done && round >= 2 {
            let PruneEstimate {
                unused,
                needed,
                bases,
                held,
                ..
            } = summary.estimate;
            // While something is lost, nothing is encoded anew.
            if held == 0 && unused * 4 > needed + bases && !known.is_poisoned {
                let problem = format!("{unused} unused bytes beside {} that are needed", needed + bases);
                other = other.or(Some(Broken::Other(problem)));
            }
            break;
        }
        if round == PRUNES_MAX - 1 && !is_done && !known.is_poisoned {
            // Encoding anew costs work, and nothing is lost.
            match summary.estimate.encoded_anew {
                0 => return other.or(Some(Broken::Other(format!("there is always more to do: {summary:?}")))),
                _ => known.seen.restless += 1,
            }
        }
    }
    // What the index takes for stored is.
    let tree = random.below(VERSIONS) as usize;
    let stores = open_to_store(store.clone(), key).unwrap();
    match stores.backup(&super::options(&trees.versions[tree].0)) {
        Err(error) => return other.or(Some(Broken::Other(format!("the last backup: {error}")))),
        Ok(summary) => known.acknowledged.push(Kept {
            id: summary.id.unwrap(),
            tree,
            is_rewritten: false,
        }),
    }
    let lost = any_lost(trees, &repository, known);
    lost.map(|lost| Broken::Lost(format!("after the last backup: {lost}")))
        .or(other)
}

/// Returns what is wrong with a snapshot that was acknowledged and not forgotten.
fn any_lost(trees: &Trees, repository: &Repository, known: &Known) -> Option<String> {
    known
        .acknowledged
        .iter()
        .find_map(|kept| match repository.snapshot(&kept.id.to_string()) {
            Ok(info) => compare(repository, &info, kept, trees).map(|what| {
                let was_forgotten = known.forgotten.contains(&kept.id);
                format!("{what} (was to be forgotten: {was_forgotten})")
            }),
            Err(_) if known.forgotten.contains(&kept.id) => None,
            Err(error) => Some(format!("snapshot {}: {error}", kept.id)),
        })
}
