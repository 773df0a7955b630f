//! The real program on a real disk, killed at random moments.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ibid_repo::Repository;
use ibid_storage::Local;

use crate::Flags;
use crate::report::Report;
use crate::support::crash::restores;
use crate::support::{Contents, Folder, Random, contents, difference};

/// The password of all repositories.
pub(crate) const PASSWORD: &str = "a password for tests";
/// A repository that opens quickly, stores many small files, and has so many chunks that they become runs of the
/// cache.
pub(crate) const INIT: [&str; 9] = [
    "init",
    "--argon2",
    "64KiB:1:1",
    "--average",
    "1KiB",
    "--frame",
    "64KiB",
    "--pack",
    "1MiB",
];

struct Run<'a> {
    ibid: &'a str,
    repository: PathBuf,
    cache: PathBuf,
    folder: Folder,
    random: Random,
    /// Duration of a backup and of a restore that run to the end.
    whole: [Duration; 2],
}

/// How a run of the program ended.
enum Ended {
    Done,
    Killed,
}

#[derive(Default)]
struct Counts {
    backups_killed: u64,
    restores_killed: u64,
    whole_unacknowledged: u64,
    caches_damaged: u64,
}

pub(crate) fn run(flags: &Flags) {
    let (rounds, seed) = (flags.number("rounds", 100), flags.number("seed", 0));
    let place = tempfile::tempdir().expect("a temporary folder");
    let mut run = Run {
        ibid: flags.text("ibid").expect("--ibid PATH"),
        repository: place.path().join("repository"),
        cache: match flags.text("cache") {
            Some(folder) => folder.into(),
            None => place.path().join("cache"),
        },
        folder: Folder::new(),
        random: Random(seed),
        whole: [Duration::from_millis(200); 2],
    };
    run.init();
    let mut snapshots: BTreeMap<String, Contents> = BTreeMap::new();
    let mut counts = Counts::default();
    let mut report = Report::new();
    for round in 0..rounds {
        let context = format!("seed {seed}, round {round}");
        run.folder.evolve(&mut run.random, 3_000_000);
        let tree = contents(run.folder.path());
        counts.caches_damaged += u64::from(run.damage_cache());
        let ended = run.backup(&context);
        run.check(&context);
        let found = run.snapshots();
        let new: Vec<_> = found
            .iter()
            .filter(|id| !snapshots.contains_key(*id))
            .cloned()
            .collect();
        for id in snapshots.keys() {
            assert!(found.contains(id), "{context}: snapshot {id} is lost");
        }
        match ended {
            Ended::Done => assert_eq!(new.len(), 1, "{context}: acknowledged and not there"),
            Ended::Killed => {
                counts.backups_killed += 1;
                counts.whole_unacknowledged += new.len() as u64;
            }
        }
        snapshots.extend(new.into_iter().map(|id| (id, tree.clone())));
        run.compare_all(&snapshots, &context);
        if let Some((id, tree)) = run.any(&snapshots) {
            counts.restores_killed += run.restore(&id, &tree, &context);
        }
        report.line(|| {
            format!(
                "round {round}: {} snapshots, {} kills during backup, {} during restore",
                snapshots.len(),
                counts.backups_killed,
                counts.restores_killed
            )
        });
    }
    println!(
        "{rounds} rounds, {} kills during backup ({} after the snapshot was stored), \
         {} kills during restore, {} times a damaged cache, {} snapshots: all snapshots intact",
        counts.backups_killed,
        counts.whole_unacknowledged,
        counts.restores_killed,
        counts.caches_damaged,
        snapshots.len()
    );
}

impl Run<'_> {
    fn command(&self) -> Command {
        let mut command = command(self.ibid, &self.repository, &self.cache);
        command.stdout(Stdio::null());
        command
    }

    /// Runs a command to the end; exit codes 0 and 3 (done, with warnings) are accepted.
    fn whole(&self, command: &mut Command, context: &str) {
        let output = command.output().expect("the program starts");
        let fine = matches!(output.status.code(), Some(0 | 3));
        assert!(
            fine,
            "{context}: {:?}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Runs a command and kills it after a random part of its usual duration. Now and then it lets
    /// the command finish.
    fn killed(&mut self, command: &mut Command, which: usize, context: &str) -> Ended {
        let patience = if self.random.below(4) == 0 {
            Duration::from_secs(120)
        } else {
            let most = self.whole[which].as_micros() as u64 * 5 / 4 + 1;
            Duration::from_micros(self.random.below(most))
        };
        let started = Instant::now();
        let mut child = command.stderr(Stdio::null()).spawn().expect("the program starts");
        loop {
            if let Some(status) = child.try_wait().expect("a child of ours") {
                assert!(matches!(status.code(), Some(0 | 3)), "{context}: {status:?}");
                self.whole[which] = started.elapsed();
                return Ended::Done;
            }
            if started.elapsed() >= patience {
                child.kill().expect("a child of ours");
                let status = child.wait().expect("a child of ours");
                // The command may have ended just before the kill.
                return if status.success() { Ended::Done } else { Ended::Killed };
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn init(&self) {
        let mut command = self.command();
        command.args(INIT);
        self.whole(&mut command, "init");
    }

    /// Every fourth time, changes a byte of each file of the cache, or cuts the file short, or deletes
    /// it. Returns whether there were any.
    fn damage_cache(&mut self) -> bool {
        if self.random.below(4) > 0 {
            return false;
        }
        let mut files = Vec::new();
        let mut folders = vec![self.cache.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let path = entry.expect("an entry of the cache").path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => files.push(path),
                }
            }
        }
        files.sort();
        for path in &files {
            let mut bytes = std::fs::read(path).expect("a file of the cache");
            let at = self.random.below(bytes.len().max(1) as u64) as usize;
            match (self.random.below(3), bytes.get_mut(at)) {
                (0, Some(byte)) => *byte ^= 0x20,
                (1, Some(_)) => bytes.truncate(at),
                _ => {
                    std::fs::remove_file(path).expect("a file of the cache");
                    continue;
                }
            }
            // On a full disk, this cuts it short.
            let _ = std::fs::write(path, bytes);
        }
        !files.is_empty()
    }

    fn backup(&mut self, context: &str) -> Ended {
        let mut command = self.command();
        command
            .args(["backup", "--checkpoint-every", "200KiB"])
            .arg(self.folder.path());
        self.killed(&mut command, 0, context)
    }

    fn check(&self, context: &str) {
        let output = self
            .command()
            .args(["check", "--read-data"])
            .output()
            .expect("the program starts");
        assert_eq!(
            output.status.code(),
            Some(0),
            "{context}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn open(&self) -> Repository {
        open(&self.repository)
    }

    fn snapshots(&self) -> Vec<String> {
        let found = self.open().snapshots().expect("the snapshots");
        found.iter().map(|info| info.id.to_string()).collect()
    }

    fn compare_all(&self, snapshots: &BTreeMap<String, Contents>, context: &str) {
        let repository = self.open();
        for (id, tree) in snapshots {
            restores(&repository, id, self.folder.path(), tree, context);
        }
    }

    fn any(&mut self, snapshots: &BTreeMap<String, Contents>) -> Option<(String, Contents)> {
        let count = snapshots.len() as u64;
        let at = (count > 0).then(|| self.random.below(count) as usize)?;
        snapshots.iter().nth(at).map(|(id, tree)| (id.clone(), tree.clone()))
    }

    /// Restores with the program, killing it until a run completes; files left by killed runs must
    /// not get in the way. Returns the number of kills.
    fn restore(&mut self, id: &str, tree: &Contents, context: &str) -> u64 {
        let out = tempfile::tempdir().expect("a temporary folder");
        let address = format!("{id}:{}", path_text(self.folder.path()));
        for kills in 0.. {
            let mut command = self.command();
            command
                .args(["restore", "--overwrite", "if-changed", "--verify", &address])
                .arg(out.path());
            if let Ended::Done = self.killed(&mut command, 1, context) {
                let found = contents(out.path());
                assert_eq!(
                    difference(tree, &found),
                    None,
                    "{context}: snapshot {id} after {kills} kills"
                );
                return kills;
            }
        }
        unreachable!("now and then it is left alone")
    }
}

/// Returns a command of the program for this repository; its standard error is a pipe.
pub(crate) fn command(ibid: &str, repository: &Path, cache: &Path) -> Command {
    let mut command = Command::new(ibid);
    command
        .env("IBID_PASSWORD", PASSWORD)
        .arg("--repo")
        .arg(repository)
        .arg("--cache-dir")
        .arg(cache)
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// Opens the repository in this folder.
pub(crate) fn open(repository: &Path) -> Repository {
    let place = Local::open(repository).expect("the repository's folder");
    Repository::open(Arc::new(place), Some(PASSWORD.as_bytes())).expect("the repository")
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}
