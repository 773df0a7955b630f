//! Backups, prunes, restores and users who forget, all at once, on a storage that makes trouble.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibid_repo::{
    Checkpoints, ChunkerSettings, FileId, InitOptions, Limit, PruneOptions, ReadData, Repository, RestoreOptions,
    SnapshotInfo,
};
use ibid_storage::Memory;

use super::turns::{Remains, Seat, SetClock, Turns};
use super::{Contents, Folder, Random, backup, contents, noise, options, quick, scratch};

/// Versions of a tree, which all histories use.
pub struct Trees(Vec<(Folder, Contents)>);

impl Trees {
    /// Returns versions that share most of what they have, and resemble one another in much of the rest.
    pub fn new() -> Trees {
        let version = |n: u64| {
            let folder = Folder::scratch();
            let mut random = Random(n);
            for file in 0..5 {
                // Three kinds of each file, with changes of their own.
                let mut bytes = noise(file * 100 + random.below(3), 24_000);
                for _ in 0..random.below(4) {
                    let at = random.below(24_000 - 64) as usize;
                    bytes[at..at + 32].copy_from_slice(&noise(random.next(), 32));
                }
                if random.below(5) > 0 {
                    folder.write(format!("file {file}"), &bytes);
                }
            }
            folder.write("number", &n.to_le_bytes());
            let found = contents(folder.path());
            (folder, found)
        };
        Trees((0..12).map(version).collect())
    }
}

fn init() -> InitOptions {
    quick()
        .chunker(ChunkerSettings::for_average("argmin", 4 << 10).unwrap())
        .frame_size(8 << 10)
        .pack_size(1 << 20)
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
        self.restless += other.restless;
    }
}

/// What all actors know.
#[derive(Default)]
struct Known {
    acknowledged: Vec<(FileId, usize)>,
    forgotten: Vec<FileId>,
    seen: Seen,
    broken: Option<String>,
}

fn open(seat: &Arc<Seat>) -> Option<Repository> {
    Repository::open(seat.clone(), Some(b"secret")).ok()
}

/// Restores a snapshot; returns what is wrong with it.
fn compare(repository: &Repository, info: &SnapshotInfo, expected: &Contents) -> Option<String> {
    let target = scratch();
    let to = target.path().join("restored");
    match repository.restore(info, &to, &RestoreOptions::default()) {
        Err(error) => return Some(format!("snapshot {} does not restore: {error}", info.id)),
        Ok(summary) if summary.failed > 0 => {
            return Some(format!("snapshot {}: {} files are lost", info.id, summary.failed));
        }
        Ok(_) => {}
    }
    let path = std::str::from_utf8(&info.snapshot.paths[0]).unwrap();
    let found = contents(&to.join(path.trim_start_matches('/')));
    let files = |contents: &Contents| {
        contents
            .iter()
            .filter(|(path, _)| !path.as_os_str().is_empty())
            .map(|(path, entry)| (path.clone(), entry.clone()))
            .collect::<Vec<_>>()
    };
    (files(&found) != files(expected)).then(|| format!("snapshot {} has other files", info.id))
}

/// Lets them all run, in the order that the seed says, with clocks that are wrong and losses of power. Returns what is
/// broken, if anything.
pub fn history(trees: &Trees, seed: u64, set_clock: SetClock) -> (Seen, Option<String>) {
    let mut random = Random(seed ^ 0xACCE_55ED);
    let store = Memory::new();
    let known = Mutex::new(Known::default());
    // Some run one after the other first, so that there is something to prune.
    {
        let shared = Arc::new(store.clone());
        let repository = Repository::init(shared, Some(b"secret"), &init()).unwrap();
        for _ in 0..1 + random.below(3) {
            let tree = random.below(trees.0.len() as u64) as usize;
            let id = backup(&repository, trees.0[tree].0.path()).id.unwrap();
            known.lock().unwrap().acknowledged.push((id, tree));
        }
    }
    let mut remains = Remains::of(store);
    // Others go on with what those left who were killed or lost power.
    for generation in 0..1 + random.below(2) {
        let seed = seed * 2 + generation;
        remains = together(trees, remains, &known, seed, set_clock);
        if known.lock().unwrap().broken.is_some() {
            break;
        }
    }
    if random.below(2) == 0 {
        remains.lose_power(&mut random);
    }
    let mut known = known.into_inner().unwrap();
    let broken = known.broken.take();
    let broken = broken.or_else(|| at_rest(trees, Arc::new(remains.calm()), &mut known));
    (known.seen, broken)
}

/// Lets all actors run until they are done or killed. Returns what they leave.
fn together(trees: &Trees, remains: Remains, known: &Mutex<Known>, seed: u64, set_clock: SetClock) -> Remains {
    let mut random = Random(seed ^ 0x0FF1_CE55);
    let (writers, pruners, readers) = (2 + random.below(2), 1 + random.below(2), 1 + random.below(2));
    let actors = (writers + pruners + readers + 1) as usize;
    let (turns, seats) = Turns::seats(remains, actors, seed, set_clock);
    std::thread::scope(|scope| {
        for (at, seat) in seats.into_iter().enumerate() {
            let at = at as u64;
            let mut random = Random(seed * 31 + at);
            scope.spawn(move || {
                if at < writers {
                    write(trees, &seat, known, &mut random);
                } else if at < writers + pruners {
                    prune(&seat, known, &mut random);
                } else if at < writers + pruners + readers {
                    read(trees, &seat, known, &mut random);
                } else {
                    forget(&seat, known, &mut random);
                }
                seat.leave();
            });
        }
    });
    turns.remains()
}

fn write(trees: &Trees, seat: &Arc<Seat>, known: &Mutex<Known>, random: &mut Random) {
    for _ in 0..1 + random.below(2) {
        let Some(repository) = open(seat) else { return };
        let tree = random.below(trees.0.len() as u64) as usize;
        let checkpoints = match random.below(2) {
            0 => Checkpoints::Every(1 + random.below(60_000)),
            _ => Checkpoints::Auto,
        };
        let done = repository.backup(&options(trees.0[tree].0.path()).checkpoints(checkpoints));
        let mut known = known.lock().unwrap();
        match done {
            Ok(summary) => {
                known.acknowledged.push((summary.id.unwrap(), tree));
                known.seen.acknowledged += 1;
            }
            Err(_) => known.seen.failed += 1,
        }
    }
}

fn prune(seat: &Arc<Seat>, known: &Mutex<Known>, random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        let Some(repository) = open(seat) else { return };
        let patience = [0, 1_000_000][random.below(2) as usize];
        let options = PruneOptions::default()
            .max_unused(Limit::Bytes(0))
            .patience(Duration::from_secs(patience));
        if let Ok(summary) = repository.prune(&options) {
            let mut known = known.lock().unwrap();
            known.seen.prunes += 1;
            known.seen.freed += summary.packs_deleted;
            known.seen.waited += u64::from(!summary.waiting.is_empty());
            known.seen.anew += u64::from(summary.encoded_anew > 0);
        }
    }
}

fn read(trees: &Trees, seat: &Arc<Seat>, known: &Mutex<Known>, random: &mut Random) {
    let chosen = {
        let known = known.lock().unwrap();
        known.acknowledged[random.below(known.acknowledged.len() as u64) as usize]
    };
    let (id, tree) = chosen;
    let Some(repository) = open(seat) else { return };
    let Ok(info) = repository.snapshot(&id.to_string()) else {
        return;
    };
    let broken = compare(&repository, &info, &trees.0[tree].1);
    let mut known = known.lock().unwrap();
    known.seen.restored += 1;
    if !seat.is_killed() && !known.forgotten.contains(&id) {
        known.broken = known
            .broken
            .take()
            .or(broken.map(|what| format!("{what}, while others are at work")));
    }
}

fn forget(seat: &Arc<Seat>, known: &Mutex<Known>, random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        let Some(repository) = open(seat) else { return };
        let id = {
            let mut known = known.lock().unwrap();
            let at = random.below(known.acknowledged.len() as u64) as usize;
            let (id, _) = known.acknowledged[at];
            known.forgotten.push(id);
            id
        };
        let _ = repository.forget(&[id]);
    }
}

/// Prunes after which there must be nothing more to do.
const PRUNES_MAX: usize = 8;

/// Checks that nothing is lost when all have ended and after further prunes, and that these free the rest.
fn at_rest(trees: &Trees, store: Arc<Memory>, known: &mut Known) -> Option<String> {
    let repository = Repository::open(store.clone(), Some(b"secret")).unwrap();
    let options = PruneOptions::default()
        .max_unused(Limit::Bytes(0))
        .patience(Duration::ZERO);
    for round in 0..PRUNES_MAX {
        for (id, tree) in &known.acknowledged {
            let info = match repository.snapshot(&id.to_string()) {
                Ok(info) => info,
                Err(_) if known.forgotten.contains(id) => continue,
                Err(error) => return Some(format!("after {round} prunes: snapshot {id}: {error}")),
            };
            if let Some(what) = compare(&repository, &info, &trees.0[*tree].1) {
                let report = repository.check(ReadData::All).unwrap();
                let was_forgotten = known.forgotten.contains(id);
                return Some(format!(
                    "after {round} prunes: {what} (was to be forgotten: {was_forgotten}): {:?} {:?}",
                    report.faults, report.affected
                ));
            }
        }
        let report = repository.check(ReadData::All).unwrap();
        if !report.is_clean() {
            return Some(format!(
                "after {round} prunes: {:?} {:?}",
                report.faults, report.affected
            ));
        }
        match repository.prune(&options) {
            Err(error) => return Some(format!("prune {round}: {error}")),
            // Small packs may still be merged, and a little that is not needed stays.
            Ok(summary) if summary.estimate.packs_deleted == 0 && summary.waiting.is_empty() => {
                if round >= 2 {
                    return None;
                }
            }
            // That costs work, and nothing is lost.
            Ok(summary) if round == PRUNES_MAX - 1 && summary.estimate.encoded_anew > 0 => known.seen.restless += 1,
            Ok(summary) if round == PRUNES_MAX - 1 => {
                return Some(format!("there is always more to do: {summary:?}"));
            }
            Ok(_) => {}
        }
    }
    None
}
