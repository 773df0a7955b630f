//! A home folder to work in, and the program to run there.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Cost of one guess in tests: as little as the format allows.
pub(crate) const CHEAP: [&str; 2] = ["--argon2", "8KiB:1:1"];

/// A home folder with `files` in it, and the path of a repository, `repo`.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

/// Result of a run.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) raw: Vec<u8>,
}

impl std::fmt::Debug for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "exit code {}\n--- printed:\n{}\n--- said:\n{}",
            self.code, self.out, self.err
        )
    }
}

impl Home {
    /// Creates a home with a few files, but no repository.
    pub(crate) fn bare() -> Home {
        let home = Home {
            folder: tempfile::tempdir().unwrap(),
        };
        home.write("files/anna.txt", "dear Anna\n");
        home.write("files/deep/down/ben.txt", "dear Ben\n");
        home.write("files/deep/data.bin", noise(300_000, 1));
        std::os::unix::fs::symlink("anna.txt", home.path("files/link")).unwrap();
        home
    }

    /// Creates a home with a repository that `IBID_PASSWORD=secret` opens.
    pub(crate) fn new() -> Home {
        let home = Home::bare();
        home.ok(["init", "--quiet", CHEAP[0], CHEAP[1]]);
        home
    }

    /// Creates a home with a repository and a snapshot of `files`.
    pub(crate) fn with_snapshot() -> Home {
        let home = Home::new();
        home.ok(["backup", "--quiet", "files"]);
        home
    }

    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    /// Returns `latest:` and the path of one of this home's files in a snapshot.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("latest:{}", self.path(path).display())
    }

    pub(crate) fn write(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// Returns the program with only this home, its repository and its password in the environment.
    pub(crate) fn ibid<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        // A shell's background jobs ignore signals, and children inherit that. `env` restores the
        // default. Its path is given whole: to look for it, this process would be copied, and the
        // memory of other tests with it.
        let mut command = Command::new("/usr/bin/env");
        command
            .args(["--default-signal=HUP,INT,TERM", crate::PROGRAM])
            .args(arguments)
            .current_dir(self.path(""))
            .env_clear()
            .stdin(Stdio::null());
        command
            .env("HOME", self.path(""))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TZ", "UTC");
        command
            .env("IBID_REPO", self.path("repo"))
            .env("IBID_PASSWORD", "secret");
        command
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ran {
        run(&mut self.ibid(arguments))
    }

    /// Runs a command that must succeed; returns its output.
    #[track_caller]
    pub(crate) fn ok<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    }

    /// Runs a command that must end with this code; returns its error output.
    #[track_caller]
    pub(crate) fn fails<S: AsRef<OsStr>>(&self, code: i32, arguments: impl IntoIterator<Item = S>) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, code, "{ran:?}");
        ran.err
    }

    /// Returns the ids of all snapshots, oldest first.
    pub(crate) fn ids(&self) -> Vec<String> {
        let text = self.ok(["snapshots", "--json"]);
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines
            .filter(|line| line["type"] == "snapshot")
            .map(|line| line["id"].as_str().unwrap().to_owned())
            .collect()
    }
}

pub(crate) fn run(command: &mut Command) -> Ran {
    ran(command.output().unwrap())
}

pub(crate) fn ran(output: std::process::Output) -> Ran {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    Ran {
        code: output.status.code().unwrap_or(-1),
        out,
        err,
        raw: output.stdout,
    }
}

/// Runs a command with this standard input.
pub(crate) fn run_with(command: &mut Command, input: &[u8]) -> Ran {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    ran(child.wait_with_output().unwrap())
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
}

/// Returns bytes that don't compress and don't repeat.
pub(crate) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Returns the contents of a folder: paths, modes, and contents or targets.
pub(crate) fn tree(folder: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        let metadata = path.symlink_metadata().unwrap();
        let contents = if metadata.is_dir() {
            waiting.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Vec::new()
        } else if metadata.is_symlink() {
            path.read_link().unwrap().as_os_str().as_bytes().to_vec()
        } else {
            std::fs::read(&path).unwrap()
        };
        found.push((
            path.strip_prefix(folder).unwrap().to_owned(),
            metadata.permissions().mode(),
            contents,
        ));
    }
    found.sort();
    found
}

/// Returns the program run as a user other than root, if the tests run as root: root can read files
/// whatever their mode. The program is copied to a place which that user can reach.
pub(crate) fn as_somebody(home: &Home, arguments: &[&str]) -> Command {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let mut command = home.ibid(arguments);
    if rustix::process::geteuid().is_root() {
        let program = home.path("ibid");
        if !program.exists() {
            // Another process must copy it: a file that this process has open for writing, even
            // briefly, is inherited by programs that other tests start at that moment, and can't be
            // executed until they have closed it.
            let copied = Command::new("cp").arg(crate::PROGRAM).arg(&program).status();
            assert!(copied.unwrap().success());
        }
        std::fs::set_permissions(home.path(""), PermissionsExt::from_mode(0o777)).unwrap();
        let mut other = Command::new(program);
        other.args(arguments).current_dir(home.path("")).env_clear();
        other.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        other.uid(65534).gid(65534);
        command = other;
    }
    command
}

/// Returns the packs of a home's repository.
pub(crate) fn packs(home: &Home) -> Vec<PathBuf> {
    let all = tree(&home.path("repo/packs"))
        .into_iter()
        .filter(|(_, _, contents)| !contents.is_empty());
    all.map(|(path, ..)| home.path("repo/packs").join(path)).collect()
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns versions of pages, each with one line more than the version before: bodies by key, the
/// first version first.
pub(crate) fn growing_pages(pages: usize, versions: usize) -> Vec<(String, Vec<String>)> {
    let line = |page: usize, version: usize| format!("{:x?} of {page}\n", noise(20, (page * 1000 + version) as u64));
    let page = |page: usize| {
        let mut body = String::new();
        let grown = |version| {
            body += &line(page, version);
            body.clone()
        };
        (format!("page {page}"), (0..versions).map(grown).collect())
    };
    (0..pages).map(page).collect()
}

pub(crate) fn json_lines(pages: &[(String, Vec<String>)]) -> String {
    let versions = pages
        .iter()
        .flat_map(|(key, bodies)| bodies.iter().map(move |body| (key, body)));
    let line = |(key, body)| format!("{}\n", serde_json::json!({"key": key, "body": body}));
    versions.map(line).collect()
}
