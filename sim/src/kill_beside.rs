//! Backups, prunes, a copy and a user who forgets: all at once, each of them the real program on a real disk, killed at
//! random moments.
//!
//! Two repositories are at stake, the one that is backed up into and the one that snapshots are copied to. Whatever
//! snapshot either has at the end of a round must be whole, and those that were acknowledged and not forgotten must be
//! there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ibid_repo::PruneOptions;
use serde_json::Value;

use crate::Flags;
use crate::kill::{INIT, PASSWORD, command, open};
use crate::report::Report;
use crate::support::crash::restores;
use crate::support::{Contents, Folder, Random, contents, noise};

/// Folders that are backed up, each by a process of its own.
const FOLDERS: usize = 4;
/// New data of a folder in a round, bytes.
const NEW_BYTES: u64 = 1_500_000;
/// A process begins so much later than the first at most.
const DELAY: Duration = Duration::from_millis(150);
/// No process takes as long as this.
const HANGS: Duration = Duration::from_secs(300);
/// Snapshots of a repository, about: as many as come in a round are forgotten above that.
const SNAPSHOTS: usize = 12;

/// The contents of a snapshot, and the folder that it is of.
#[derive(Clone)]
struct Version {
    folder: usize,
    tree: Arc<Contents>,
}

/// A repository, and what must be in it.
struct Place {
    path: PathBuf,
    known: BTreeMap<String, Version>,
    /// Snapshots that were to be forgotten in this round: they may be there or not.
    forgotten: BTreeSet<String>,
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    /// Backs this folder up.
    Backup(usize),
    /// Prunes this repository: 0 is the first, 1 that of the copies.
    Prune(usize),
    Forget(usize),
    Copy,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Work::Backup(_) => "backup",
            Work::Prune(_) => "prune",
            Work::Forget(_) => "forget",
            Work::Copy => "copy",
        }
    }
}

/// A process of the program.
struct Process {
    work: Work,
    command: Command,
    /// Files of standard output and standard error.
    out: [PathBuf; 2],
    begins: Duration,
    /// How long after its beginning it is killed, if it is.
    lives: Option<Duration>,
    child: Option<(Child, Instant)>,
    ended: Option<Ended>,
}

/// How a process ended.
struct Ended {
    /// The exit code; `None` if it was killed.
    code: Option<i32>,
    lasted: Duration,
    /// What it printed; null if that is no JSON.
    printed: Value,
    errors: String,
}

#[derive(Default)]
struct Counts {
    /// Processes of each kind that ended by themselves, and that were killed.
    done: BTreeMap<&'static str, u64>,
    killed: BTreeMap<&'static str, u64>,
    /// Snapshots of backups, and copies.
    acknowledged: [u64; 2],
    /// The same, stored by a process that was killed before it said so.
    unacknowledged: [u64; 2],
    forgotten: [u64; 2],
    /// Prunes that had to wait for a session.
    waited: u64,
    packs_deleted: u64,
    restored: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in ["backup", "prune", "forget", "copy"] {
            let of = |counts: &BTreeMap<_, u64>| counts.get(name).copied().unwrap_or(0);
            write!(f, "{name}: {} done and {} killed; ", of(&self.done), of(&self.killed))?;
        }
        let Counts {
            acknowledged: [snapshots, copies],
            unacknowledged: [late_snapshots, late_copies],
            forgotten: [old, old_copies],
            ..
        } = self;
        write!(
            f,
            "{snapshots} snapshots and {copies} copies acknowledged, {late_snapshots} and {late_copies} stored before \
             a kill, {old} and {old_copies} forgotten; {} packs deleted, {} prunes waited; {} restores",
            self.packs_deleted, self.waited, self.restored
        )
    }
}

struct Run<'a> {
    ibid: &'a str,
    cache: PathBuf,
    /// A folder for what processes print.
    printed: PathBuf,
    places: [Place; 2],
    folders: Vec<Folder>,
    random: Random,
    /// How long each kind of process takes if it isn't killed.
    usual: BTreeMap<&'static str, Duration>,
    counts: Counts,
}

pub(crate) fn run(flags: &Flags) {
    let (rounds, seed) = (flags.number("rounds", 100), flags.number("seed", 0));
    let every = flags.number("every", 5).max(1);
    let scene = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| scene.path().join(name);
    let place = |name: &str| Place {
        path: at(name),
        known: BTreeMap::new(),
        forgotten: BTreeSet::new(),
    };
    let mut run = Run {
        ibid: flags.text("ibid").expect("--ibid PATH"),
        cache: at("cache"),
        printed: at("printed"),
        places: [place("repository"), place("copies")],
        folders: (0..FOLDERS).map(|_| Folder::new()).collect(),
        random: Random(seed),
        usual: BTreeMap::new(),
        counts: Counts::default(),
    };
    std::fs::create_dir(&run.printed).expect("a new folder");
    run.init(seed);
    let mut report = Report::new();
    for round in 0..rounds {
        let context = format!("seed {seed}, round {round}");
        run.round(round, &context);
        if round % every == every - 1 || round == rounds - 1 {
            run.check_all(&context);
        }
        report.line(|| format!("round {round}: {}", run.counts));
    }
    run.leaves_nothing(&format!("seed {seed}, after {rounds} rounds"));
    println!("{rounds} rounds from seed {seed}: {}: nothing is lost", run.counts);
}

impl Run<'_> {
    fn command(&self, place: usize) -> Command {
        command(self.ibid, &self.places[place].path, &self.cache)
    }

    /// Runs a command to the end, which must succeed; returns what it printed.
    fn whole(command: &mut Command, context: &str) -> Value {
        let output = command.output().expect("the program starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{context}: {command:?}: {errors}");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    fn init(&self, seed: u64) {
        Run::whole(self.command(0).args(INIT), "init");
        let mut command = self.command(1);
        // Copies between repositories that are alike take another way than others.
        match seed % 2 {
            0 => command
                .args(["init", "--argon2", "64KiB:1:1", "--like"])
                .arg(&self.places[0].path)
                .env("IBID_LIKE_PASSWORD", PASSWORD),
            _ => command.args(INIT),
        };
        Run::whole(&mut command, "init");
    }

    /// Changes all folders, then lets all processes run.
    fn round(&mut self, round: u64, context: &str) {
        let versions: Vec<Version> = (0..FOLDERS).map(|folder| self.change(folder)).collect();
        let mut processes = self.processes(round);
        let begin = Instant::now();
        while processes.iter().any(|process| process.ended.is_none()) {
            for process in processes.iter_mut().filter(|process| process.ended.is_none()) {
                process.step(begin, context);
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        let acknowledged = self.judge(&processes, context);
        // The copies first, since they are told by snapshots that may be forgotten.
        self.reconcile(1, &versions, &acknowledged[1], context);
        self.reconcile(0, &versions, &acknowledged[0], context);
    }

    /// Changes a folder, so that it has parts of other folders, and versions of what it had.
    fn change(&mut self, folder: usize) -> Version {
        let random = &mut self.random;
        self.folders[folder].evolve(random, NEW_BYTES);
        for _ in 0..random.below(3) {
            let other = random.below(FOLDERS as u64) as usize;
            let name = format!("d{}/f{}", random.below(3), random.below(6));
            let Ok(mut bytes) = std::fs::read(self.folders[other].path().join(&name)) else {
                continue;
            };
            for _ in 0..random.below(20) {
                let at = random.below(bytes.len().max(1) as u64) as usize;
                let end = (at + 16).min(bytes.len());
                let new = noise(random.next(), end - at);
                bytes[at..end].copy_from_slice(&new);
            }
            self.folders[folder].write(&name, &bytes);
        }
        let tree = Arc::new(contents(self.folders[folder].path()));
        Version { folder, tree }
    }

    fn processes(&mut self, round: u64) -> Vec<Process> {
        let mut works: Vec<Work> = (0..FOLDERS).map(Work::Backup).collect();
        // Now and then the other repository is pruned, too.
        let second = usize::from(round % 4 == 3);
        works.extend([Work::Prune(0), Work::Prune(second), Work::Copy]);
        works.extend((0..2).filter(|place| self.choose_forgotten(*place)).map(Work::Forget));
        works.into_iter().map(|work| self.process(work)).collect()
    }

    /// Chooses which snapshots are forgotten in this round; returns whether any are.
    fn choose_forgotten(&mut self, place: usize) -> bool {
        let Place { known, forgotten, .. } = &mut self.places[place];
        forgotten.clear();
        let mut rest: Vec<&String> = known.keys().collect();
        let count = match rest.len() > SNAPSHOTS {
            true => rest.len() - SNAPSHOTS,
            false => self.random.below(2) as usize,
        };
        for _ in 0..count.min(rest.len()) {
            let at = self.random.below(rest.len() as u64) as usize;
            forgotten.insert(rest.swap_remove(at).clone());
        }
        !forgotten.is_empty()
    }

    fn process(&mut self, work: Work) -> Process {
        let mut command = self.command(match work {
            Work::Prune(place) | Work::Forget(place) => place,
            Work::Backup(_) | Work::Copy => 0,
        });
        match work {
            Work::Backup(folder) => {
                command.args(["backup", "--json"]).arg(self.folders[folder].path());
                if self.random.below(2) == 0 {
                    command.args(["--checkpoint-every", "50KiB"]);
                }
            }
            Work::Prune(_) => {
                command.args(["prune", "--json"]);
                command.args(["--max-unused", ["0", "5%"][self.random.below(2) as usize]]);
                // Without patience, it ends backups that live, and they begin again.
                command.args(["--patience", ["0h", "7d"][self.random.below(2) as usize]]);
            }
            Work::Forget(place) => {
                let forgotten = &self.places[place].forgotten;
                command.args(["forget", "--yes", "--json"]).args(forgotten);
            }
            Work::Copy => {
                command.args(["copy", "--json", "--to"]).arg(&self.places[1].path);
                command.env("IBID_TO_PASSWORD", PASSWORD);
            }
        }
        let begins = match work {
            // Early, so that prunes find something.
            Work::Forget(_) => Duration::ZERO,
            _ => Duration::from_micros(self.random.below(DELAY.as_micros() as u64)),
        };
        let usual = self.usual.get(work.name()).copied().unwrap_or(DELAY);
        let lives = (self.random.below(3) > 0)
            .then(|| Duration::from_micros(self.random.below(usual.as_micros() as u64 * 5 / 4 + 1)));
        let name = format!("{work:?}-{}", self.random.next());
        let out = ["out", "err"].map(|kind| self.printed.join(format!("{name}.{kind}")));
        Process {
            work,
            command,
            out,
            begins,
            lives,
            child: None,
            ended: None,
        }
    }

    /// Counts what processes did, and checks how they ended. Returns what each repository has acknowledged: the
    /// snapshots' ids.
    fn judge(&mut self, processes: &[Process], context: &str) -> [BTreeSet<String>; 2] {
        let mut acknowledged = [BTreeSet::new(), BTreeSet::new()];
        for process in processes {
            let ended = process.ended.as_ref().expect("all have ended");
            let name = process.work.name();
            let Some(code) = ended.code else {
                *self.counts.killed.entry(name).or_default() += 1;
                continue;
            };
            *self.counts.done.entry(name).or_default() += 1;
            self.usual.insert(name, ended.lasted);
            let printed = &ended.printed;
            let failed = || format!("{context}: {:?} ended with {code}: {}", process.work, ended.errors);
            match process.work {
                Work::Copy => {
                    for copied in printed["snapshots"].as_array().into_iter().flatten() {
                        match (copied["state"].as_str(), copied["snapshot"].as_str()) {
                            (Some("copied" | "present"), Some(id)) => drop(acknowledged[1].insert(id.to_owned())),
                            _ => {
                                let source = copied["source"].as_str().unwrap_or_default();
                                assert!(self.places[0].forgotten.contains(source), "{}", failed());
                            }
                        }
                    }
                    assert!(matches!(code, 0 | 3), "{}", failed());
                }
                _ => assert_eq!(code, 0, "{}", failed()),
            }
            if let Work::Backup(_) = process.work {
                let id = printed["snapshot"].as_str().unwrap_or_else(|| panic!("{}", failed()));
                acknowledged[0].insert(id.to_owned());
            }
            self.counts.packs_deleted += printed["done"]["packs_deleted"].as_u64().unwrap_or(0);
            let waiting = printed["done"]["waiting"].as_array();
            self.counts.waited += u64::from(waiting.is_some_and(|waiting| !waiting.is_empty()));
        }
        acknowledged
    }

    /// Looks at which snapshots there are. All that must be there are, and each new one is of this round's
    /// versions, or of a snapshot of the first repository.
    fn reconcile(&mut self, place: usize, versions: &[Version], acknowledged: &BTreeSet<String>, context: &str) {
        let found = open(&self.places[place].path).snapshots().expect("the snapshots");
        let mut before = std::mem::take(&mut self.places[place].known);
        let mut now = BTreeMap::new();
        for info in found {
            let id = info.id.to_string();
            let version = before.remove(&id).unwrap_or_else(|| {
                match acknowledged.contains(&id) {
                    true => self.counts.acknowledged[place] += 1,
                    false => self.counts.unacknowledged[place] += 1,
                }
                let original = info.snapshot.original.map(|original| original.to_string());
                original
                    .and_then(|original| self.places[0].known.get(&original).cloned())
                    .unwrap_or_else(|| self.version_of(&info.snapshot.paths[0], versions, context))
            });
            now.insert(id, version);
        }
        let forgotten = &self.places[place].forgotten;
        self.counts.forgotten[place] += before.len() as u64;
        for id in before.keys().chain(acknowledged).filter(|id| !now.contains_key(*id)) {
            assert!(
                forgotten.contains(id),
                "{context}: snapshot {id} of repository {place} is lost"
            );
        }
        self.places[place].known = now;
    }

    /// Returns this round's version of the folder with this path.
    fn version_of(&self, path: &[u8], versions: &[Version], context: &str) -> Version {
        let folder = self
            .folders
            .iter()
            .position(|folder| folder.path().as_os_str().as_encoded_bytes() == path);
        versions[folder.unwrap_or_else(|| panic!("{context}: there was no backup of {path:?}"))].clone()
    }

    /// Checks both repositories and restores everything.
    fn check_all(&mut self, context: &str) {
        for place in 0..2 {
            let context = format!("{context}, repository {place}");
            Run::whole(self.command(place).args(["check", "--read-data", "--json"]), &context);
            let repository = open(&self.places[place].path);
            for (id, version) in &self.places[place].known {
                let folder = self.folders[version.folder].path();
                restores(&repository, id, folder, &version.tree, &context);
                self.counts.restored += 1;
            }
        }
    }

    /// Prunes without kills: no session is waited for, nothing is left to free, and nothing is lost.
    fn leaves_nothing(&mut self, context: &str) {
        for place in 0..2 {
            let context = format!("{context}, repository {place}");
            let mut prune = self.command(place);
            prune.args(["prune", "--max-unused", "0", "--json"]);
            let first = Run::whole(&mut prune, &context);
            let waiting = first["done"]["waiting"].as_array();
            assert!(waiting.is_some_and(Vec::is_empty), "{context}: {first}");
            let options = PruneOptions::default().max_unused(ibid_repo::Limit::Bytes(0));
            let left = open(&self.places[place].path)
                .prune_estimate(&options)
                .expect("an estimate");
            println!(
                "{context}: of {} packs with {} bytes, {} bytes are unused",
                left.packs, left.pack_bytes, left.unused
            );
            assert_eq!(left.packs_deleted, 0, "{context}: {left:?} after {first}");
        }
        self.check_all(context);
    }
}

impl Process {
    /// Begins, if it is time, ends it by force, or notices that it has ended.
    fn step(&mut self, begin: Instant, context: &str) {
        let Some((child, begun)) = &mut self.child else {
            if begin.elapsed() >= self.begins {
                let file = |path: &Path| File::create(path).expect("a new file");
                self.command.stdout(file(&self.out[0])).stderr(file(&self.out[1]));
                self.child = Some((self.command.spawn().expect("the program starts"), Instant::now()));
            }
            return;
        };
        let mut status = child.try_wait().expect("a child of ours");
        if status.is_none() && self.lives.is_some_and(|lives| begun.elapsed() >= lives) {
            child.kill().expect("a child of ours");
            status = Some(child.wait().expect("a child of ours"));
        }
        assert!(
            begun.elapsed() < HANGS,
            "{context}: {:?} does not end: {:?}",
            self.work,
            self.command
        );
        let Some(status) = status else { return };
        let [printed, errors] = self.out.each_ref().map(|path| {
            let bytes = std::fs::read(path).expect("what it printed");
            std::fs::remove_file(path).expect("a file of ours");
            String::from_utf8_lossy(&bytes).into_owned()
        });
        self.ended = Some(Ended {
            code: status.code(),
            lasted: begun.elapsed(),
            printed: serde_json::from_str(&printed).unwrap_or_default(),
            errors,
        });
    }
}
