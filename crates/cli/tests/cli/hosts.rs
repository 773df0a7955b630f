//! Repositories on another machine. A script stands in for `ssh`: it runs here what it is told to run there.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::blocks::{blocks, run_blocks};
use crate::support::{CHEAP, Home, Ran, noise, run, signal, tree, wait_until};
use crate::tables::Tables;

/// A home whose repository is on another machine, which is a folder of this one.
pub(crate) struct Away {
    pub(crate) home: Home,
    ssh: PathBuf,
}

impl Away {
    fn new() -> Away {
        // What `ssh` gets: options, `--`, the host, and the command for a shell there.
        Away::with("exec sh -c \"$command\"")
    }

    /// Returns a home with a script that runs `$command` so.
    fn with(body: &str) -> Away {
        let home = Home::bare();
        let there = home.path("there");
        std::fs::create_dir_all(&there).unwrap();
        let programs = std::path::Path::new(crate::PROGRAM).parent().unwrap();
        let script = format!(
            "for command; do :; done\necho \"$@\" >> '{}'\ncd '{}'\nPATH='{}':$PATH\n\
             unset IBID_REPO IBID_PASSWORD\n{body}\n",
            home.path("dialled").display(),
            there.display(),
            programs.display()
        );
        home.write("ssh.sh", script);
        let ssh = home.path("ssh.sh");
        Away { home, ssh }
    }

    fn repository(&self) -> String {
        format!("ssh://me@nas{}", self.home.path("there/repo").display())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.ibid(arguments);
        command
            .env("IBID_REPO", self.repository())
            .env("IBID_SSH", format!("sh '{}'", self.ssh.display()));
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        run(&mut self.command(arguments))
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        ran.out
    }

    #[track_caller]
    fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
        ran.err
    }

    #[track_caller]
    fn init(&self) {
        self.ok(&["init", "--quiet", CHEAP[0], CHEAP[1]]);
    }

    /// Asserts that a snapshot restores to the files.
    #[track_caller]
    fn restores(&self) {
        let _ = std::fs::remove_dir_all(self.home.path("back"));
        self.ok(&["restore", &self.home.at("files"), "back", "--verify"]);
        assert_eq!(tree(&self.home.path("files")), tree(&self.home.path("back")));
    }
}

#[test]
fn everything_works_on_another_machine() {
    let away = Away::new();
    let created = away.ok(&["init", CHEAP[0], CHEAP[1]]);
    let place = format!("created an encrypted repository in {}", away.repository());
    assert!(created.contains(&place), "{created}");
    assert!(away.home.path("there/repo/config").exists());
    let summary = away.run(&["backup", "files"]);
    assert!(summary.err.contains(" to store, "), "requests are told: {summary:?}");
    away.restores();
    let tables = Tables::read(&[include_str!("../../../../docs/json.md")]);
    let again = tables.document("backup", &away.ok(&["backup", "files", "--json"]));
    let requests = &again["requests"];
    let count = |kinds: &[&str]| -> u64 { kinds.iter().map(|kind| requests[*kind].as_u64().unwrap()).sum() };
    let all = count(&["put", "get", "head", "list", "delete", "other"]);
    assert!((5..=25).contains(&all) && count(&["sent_bytes"]) < 10_000, "{requests}");
    away.home.write("files/new", noise(100_000, 9));
    away.ok(&["backup", "files"]);
    away.restores();
    assert_eq!(away.ok(&["snapshots", "--quiet"]).lines().count(), 3 + 1);
    away.ok(&["forget", "latest", "--yes"]);
    away.ok(&["prune"]);
    away.ok(&["check", "--read-data"]);
    assert_eq!(away.ok(&["storage", "test"]).matches(" ok").count(), 6);
    // One connection for each command, and one more for the second process of the test.
    let dialled = std::fs::read_to_string(away.home.path("dialled")).unwrap();
    assert_eq!(dialled.lines().count(), 11 + 1, "{dialled}");
    let there = away.home.path("there/repo");
    let expected = format!("-T -- me@nas ibid serve --stdio -- '{}'", there.display());
    assert!(dialled.lines().all(|line| line == expected), "{dialled}");
}

#[test]
fn snapshots_are_copied_to_and_from_another_machine() {
    let away = Away::new();
    away.init();
    away.ok(&["backup", "--quiet", "files"]);
    away.home.ok(["init", "--quiet", CHEAP[0], CHEAP[1]]);
    let local = away.home.path("repo").display().to_string();
    let password = ["--to-password-command", "echo secret"];
    away.ok(&["copy", "--to", &local, password[0], password[1]]);
    away.home.ok(["check", "--read-data"]);
    away.home.write("files/more", noise(50_000, 3));
    away.home.ok(["backup", "--quiet", "files"]);
    let mut back = away.command(&["copy", "--to", &away.repository(), password[0], password[1]]);
    let ran = run(back.env("IBID_REPO", &local));
    assert!(ran.code == 0 && ran.err.contains("requests: "), "{ran:?}");
    away.ok(&["check", "--read-data"]);
    away.restores();
}

#[test]
fn what_is_not_there_is_said_as_of_a_folder_here() {
    let away = Away::new();
    let said = away.fails(10, &["snapshots"]);
    let place = format!("there is no repository in {}. Check the path", away.repository());
    assert!(said.contains(&place), "{said}");
    std::fs::create_dir(away.home.path("there/repo")).unwrap();
    assert!(away.fails(10, &["snapshots"]).contains(&place));
    away.home.write("there/repo/photo.jpg", "a cat");
    let said = away.fails(1, &["init", CHEAP[0], CHEAP[1]]);
    assert!(
        said.contains("is not empty: it has photo.jpg. Choose another folder"),
        "{said}"
    );
    std::fs::remove_dir_all(away.home.path("there/repo")).unwrap();
    away.home.write("there/repo", "a file");
    assert!(away.fails(10, &["snapshots"]).contains("it is a file"));
    std::fs::remove_file(away.home.path("there/repo")).unwrap();
    away.ok(&["backup", "--init", CHEAP[0], CHEAP[1], "--quiet", "files"]);
    let said = away.fails(1, &["init", CHEAP[0], CHEAP[1]]);
    assert!(said.contains("there is a repository in ssh://me@nas"), "{said}");
    for wrong in [
        "ssh://nas",
        "ssh://-oProxyCommand=true/srv",
        "ssh://nas:0/srv",
        "ssh://nas/srv?sftp=1",
    ] {
        let ran = run(away.command(&["snapshots"]).env("IBID_REPO", wrong));
        assert_eq!(ran.code, 2, "{wrong}: {ran:?}");
    }
}

/// Returns what is said where the script does this.
#[track_caller]
fn said(body: &str) -> String {
    let away = Away::with(body);
    let said = away.fails(1, &["snapshots"]);
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    said
}

#[test]
fn what_ssh_says_is_told_with_what_to_do() {
    let text = said("echo 'bash: line 1: ibid: command not found' >&2; exit 127");
    assert!(
        text.contains(": bash: line 1: ibid: command not found. Install this version of ibid"),
        "{text}"
    );
    let text = said("echo 'me@nas: Permission denied (publickey).' >&2; exit 255");
    assert!(
        text.contains("me@nas: Permission denied (publickey). Check that `ssh` reaches"),
        "{text}"
    );
    let text = said("echo 'ssh: connect to host nas port 22: Connection refused' >&2; exit 255");
    assert!(
        text.contains("Connection refused; tried 3 times. Check the address and that machine"),
        "{text}"
    );
    let text = said("echo 'Welcome to nas!'; exec sh -c \"$command\"");
    assert!(
        text.contains("\"Welcome to nas!\" came in place of the greeting"),
        "{text}"
    );
    let text = said("exec ibid serve --stido");
    assert!(text.contains("Install this version of ibid"), "{text}");
    let away = Away::with("exec no-such-program-as-this");
    assert!(away.fails(1, &["snapshots"]).contains("not found"));
    let ran = run(away.command(&["snapshots"]).env("IBID_SSH", "/no/such/ssh"));
    assert!(
        ran.code == 1 && ran.err.contains("cannot start the program of --ssh: /no/such/ssh: "),
        "{ran:?}"
    );
    assert!(
        ran.err.contains("Install ssh") && !ran.err.contains("Install this version"),
        "{ran:?}"
    );
}

/// A script that ends the server after a moment, the first three times.
const KILLS: &str = "\
n=$(wc -l < ../dialled)
if [ \"$n\" -le 3 ]; then
    sh -c \"$command\" &
    sleep 0.$((n * 13))
    kill -9 $!
    exit 255
fi
exec sh -c \"$command\"";

#[test]
fn servers_that_are_killed_in_the_middle_cost_nothing() {
    let away = Away::new();
    away.init();
    for number in 0..30 {
        away.home.write(format!("files/{number}"), noise(1 << 20, number + 1));
    }
    std::fs::remove_file(away.home.path("dialled")).unwrap();
    let killing = Away::with(KILLS);
    let mut command = away.command(&["backup", "files", "--json"]);
    let script = std::fs::read_to_string(&killing.ssh).unwrap();
    let (from, to) = (killing.home.path(""), away.home.path(""));
    let (from, to) = (from.display().to_string(), to.display().to_string());
    away.home.write(
        "killing.sh",
        script.replace(from.trim_end_matches('/'), to.trim_end_matches('/')),
    );
    command.env("IBID_SSH", format!("sh '{}'", away.home.path("killing.sh").display()));
    // So that it takes longer than the servers live.
    command.args(["--limit-upload", "30MiB"]);
    let ran = run(&mut command);
    assert_eq!(ran.code, 0, "{ran:?}");
    let summary: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(summary["requests"]["again"].as_u64().unwrap() >= 1, "{summary}");
    let dialled = std::fs::read_to_string(away.home.path("dialled")).unwrap();
    assert!(dialled.lines().count() >= 4, "{dialled}");
    away.restores();
    away.ok(&["check", "--read-data"]);
    assert_eq!(
        away.ok(&["sessions", "--json"]).matches("\"type\":\"session\"").count(),
        0
    );
}

#[test]
fn a_backup_that_is_killed_leaves_no_server_and_the_next_one_goes_on() {
    let away = Away::new();
    away.init();
    for number in 0..60 {
        away.home
            .write(format!("files/d/{number}"), noise(512 << 10, number + 1));
    }
    std::thread::sleep(std::time::Duration::from_millis(50));
    let often = [
        "backup",
        "--checkpoint-every",
        "2MiB",
        "--threads",
        "1",
        "--limit-upload",
        "10MiB",
        "files",
    ];
    let mut child = away
        .command(&often)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let checkpoints = away.home.path("there/repo/checkpoints");
    wait_until("a checkpoint", || {
        std::fs::read_dir(&checkpoints).is_ok_and(|entries| entries.count() > 0)
    });
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    let summary: Value = serde_json::from_str(&away.ok(&["backup", "files", "--json"])).unwrap();
    assert!(summary["resumed_bytes"].as_u64().unwrap() >= 2 << 20, "{summary}");
    away.restores();
    away.ok(&["check", "--read-data"]);
}

#[test]
fn a_backup_that_is_interrupted_still_has_its_connection() {
    let away = Away::new();
    away.init();
    for number in 0..60 {
        away.home
            .write(format!("files/d/{number}"), noise(512 << 10, number + 1));
    }
    let slow = [
        "backup",
        "--checkpoint-every",
        "2MiB",
        "--threads",
        "1",
        "--limit-upload",
        "10MiB",
        "files",
    ];
    // In a group of its own, as a shell starts it, so that all of it gets the signal.
    use std::os::unix::process::CommandExt;
    let child = away
        .command(&slow)
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let checkpoints = away.home.path("there/repo/checkpoints");
    wait_until("a checkpoint", || {
        std::fs::read_dir(&checkpoints).is_ok_and(|entries| entries.count() > 0)
    });
    let group = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process_group(group, Signal::INT).unwrap();
    let ran = crate::support::ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{ran:?}");
    // It has deleted its session, over the connection that it had.
    assert_eq!(
        std::fs::read_dir(away.home.path("there/repo/sessions")).map_or(0, Iterator::count),
        0
    );
    let dialled = std::fs::read_to_string(away.home.path("dialled")).unwrap();
    assert_eq!(dialled.lines().count(), 2, "{dialled}");
}

#[test]
fn an_append_only_server_takes_backups_and_lets_nothing_be_deleted() {
    let away = Away::with("exec ibid serve --stdio --append-only repo");
    away.init();
    for number in 0..12 {
        away.home.write("files/changing", noise(30_000, number));
        let ran = away.run(&["backup", "files"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(!ran.err.contains("warning"), "{ran:?}");
    }
    away.restores();
    away.ok(&["check", "--read-data"]);
    assert_eq!(away.ok(&["storage", "test"]).matches(" ok").count(), 6);
    let there = tree(&away.home.path("there/repo"));
    let index = std::fs::read_dir(away.home.path("there/repo/index")).unwrap().count();
    assert_eq!(index, 12, "index files are not merged again and again");
    let refused = [
        &["forget", "latest", "--yes"][..],
        &["forget", "--keep-last", "1", "--yes", "--prune"],
        &["prune"],
        &["tag", "add", "good", "latest"],
        &["rewrite", "latest", "--exclude", "changing", "--forget"],
        &["repair"],
        &[
            "key",
            "passwd",
            "--new-password-command",
            "echo other",
            "--argon2",
            "8KiB:1:1",
        ],
    ];
    for command in refused {
        let said = away.fails(1, command);
        assert!(
            said.contains("served as append-only. Run the command on that machine"),
            "{command:?}: {said}"
        );
    }
    assert!(tree(&away.home.path("there/repo")) == there, "nothing was changed");
    away.ok(&["prune", "--dry-run"]);
    away.ok(&["forget", "latest", "--dry-run"]);
    // Where all may be done, a prune tidies up.
    let mut full = away.home.ibid(["prune"]);
    assert_eq!(run(full.env("IBID_REPO", away.home.path("there/repo"))).code, 0);
    away.ok(&["check", "--read-data"]);
}

#[test]
fn a_profile_names_another_machine() {
    let away = Away::new();
    away.init();
    let ssh = away.ssh.display();
    let profile = format!(
        "[profile.nas]\nrepo = \"{}\"\nssh = \"sh '{ssh}'\"\n[profile.nas.backup]\npaths = [\"~/files\"]\n",
        away.repository()
    );
    let config = away.home.path(".config/ibid/config.toml");
    away.home.write(&config, profile);
    let mut command = away.home.ibid(["run", "nas", "--quiet"]);
    let ran = run(command.env_remove("IBID_REPO"));
    assert_eq!(ran.code, 0, "{ran:?}");
    away.restores();
}

/// The guide's commands for a machine that reads nothing, over a connection that can only add.
#[test]
fn the_guide_to_writers_runs_as_written_with_append_only() {
    let away = Away::with("exec ibid serve --stdio --append-only repo");
    away.init();
    away.home.write("letters/anna.txt", "dear Anna\n");
    let mut blocks = blocks(include_str!("../../../../docs/remote.md"));
    blocks.retain(|block| block.contains("add-writer"));
    assert_eq!(blocks.len(), 1);
    let environment = format!(
        "export IBID_SSH=\"sh '{}'\" IBID_REPO='{}' IBID_PASSWORD=secret\n",
        away.ssh.display(),
        away.repository()
    );
    blocks.insert(0, environment);
    let printed = run_blocks(&away.home, &blocks);
    assert!(printed.contains("laptop"), "{printed}");
    let restored = std::fs::read(away.home.path("from-laptop/anna.txt")).unwrap();
    assert_eq!(restored, b"dear Anna\n");
    // Its sessions are gone, and a keeper can end it.
    let there = tree(&away.home.path("there/repo/written"));
    assert!(
        there
            .iter()
            .any(|(path, ..)| path.to_string_lossy().contains("snapshots/"))
    );
    assert!(
        !there
            .iter()
            .any(|(path, ..)| path.to_string_lossy().contains("sessions/"))
    );
    away.ok(&["key", "remove", "laptop"]);
    let mut command = away.command(&["backup", "letters"]);
    let ran = run(command.env("IBID_KEY_FILE", away.home.path("laptop.key")));
    assert!(ran.code == 1 && ran.err.contains("was removed"), "{ran:?}");
}

/// The guide's commands, with a script in place of `ssh`.
#[test]
fn the_guide_to_other_machines_runs_as_written() {
    let away = Away::with("exec sh -c \"$(echo \"$command\" | sed 's,/srv,srv,')\"");
    away.home.write("letters/anna.txt", "dear Anna\n");
    let mut blocks = blocks(include_str!("../../../../docs/remote.md"));
    blocks.retain(|block| block.contains("ssh://"));
    assert_eq!(blocks.len(), 1);
    blocks.insert(0, format!("export IBID_SSH=\"sh '{}'\"\n", away.ssh.display()));
    let printed = run_blocks(&away.home, &blocks);
    let created = "created an encrypted repository in ssh://nas/srv/backup";
    assert!(printed.contains(created), "{printed}");
    assert_eq!(
        std::fs::read(away.home.path("restored/anna.txt")).unwrap(),
        b"dear Anna\n"
    );
    assert!(away.home.path("there/srv/backup/config").exists());
}

#[test]
fn serve_says_what_it_is_for() {
    let home = Home::bare();
    let said = home.fails(2, ["serve", "repo"]);
    assert!(said.contains("--stdio"), "{said}");
    let said = home.fails(2, ["serve", "--stdio", "repo", "--json"]);
    assert!(said.contains("no JSON"), "{said}");
    // Typed by a person: the other side of a terminal is no client.
    let ran = crate::support::run_with(&mut home.ibid(["serve", "--stdio", "repo"]), b"help\n");
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("no client of ibid: it has sent \"help\""), "{ran:?}");
}
