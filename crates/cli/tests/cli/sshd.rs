//! Repositories on another machine, through a real `ssh` and `sshd`, which run on this one.
//!
//! Needs `openssh-server`: `cargo test -p ibid --test cli sshd -- --ignored`. Without `--ignored`, cargo lists these
//! tests as ignored; with it, a missing server is a failure.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::ports::free_port;
use crate::support::{CHEAP, Home, Ran, noise, run, tree, wait_until};

const SSHD: &str = "/usr/sbin/sshd";

/// A server of SSH on this machine, with keys of its own, and a home.
struct World {
    home: Home,
    port: u16,
    server: Child,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl World {
    fn start() -> World {
        let home = Home::bare();
        for key in ["host", "laptop", "stranger"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(home.path(key))
                .status();
            assert!(made.unwrap().success());
        }
        let port = free_port();
        let path = |name: &str| home.path(name).display().to_string();
        let settings = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n",
            path("host"),
            path("authorized_keys")
        );
        home.write("sshd_config", settings);
        // A server that root starts wants this folder.
        let _ = std::fs::create_dir_all("/run/sshd");
        let server = Command::new(SSHD)
            .args(["-D", "-e", "-f"])
            .arg(home.path("sshd_config"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{SSHD}: {error}; install openssh-server"));
        wait_until("the server", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        let world = World { home, port, server };
        world.authorize("");
        world
    }

    /// Lets the key in, with these options.
    fn authorize(&self, options: &str) {
        let key = std::fs::read_to_string(self.home.path("laptop.pub")).unwrap();
        let line = match options {
            "" => key,
            options => format!("{options} {key}"),
        };
        self.home.write("authorized_keys", line);
    }

    /// Returns how `ssh` is called with a key, with nothing of this user's own settings.
    fn ssh(&self, key: &str, checking: &str) -> String {
        let path = |name: &str| self.home.path(name).display().to_string();
        format!(
            "ssh -F /dev/null -i '{}' -o IdentitiesOnly=yes -o IdentityAgent=none -o BatchMode=yes \
             -o UserKnownHostsFile='{}' -o StrictHostKeyChecking={checking}",
            path(key),
            path("known_hosts")
        )
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let repository = self.home.path("there/repo").display().to_string();
        let mut command = self.home.ibid(arguments);
        command
            .env(
                "IBID_REPO",
                format!("ssh://127.0.0.1:{}{repository}?ibid={}", self.port, crate::PROGRAM),
            )
            .env("IBID_SSH", self.ssh("laptop", "accept-new"));
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
    fn restores(&self) {
        let back: PathBuf = self.home.path("back");
        let _ = std::fs::remove_dir_all(&back);
        self.ok(&["restore", &self.home.at("files"), "back", "--verify"]);
        assert_eq!(tree(&self.home.path("files")), tree(&back));
    }
}

#[test]
#[ignore = "needs a server: cargo test -p ibid --test cli sshd -- --ignored"]
fn a_repository_behind_a_real_server_works() {
    let world = World::start();
    world.ok(&["init", CHEAP[0], CHEAP[1]]);
    for number in 0..10 {
        world.home.write(format!("files/{number}"), noise(3 << 20, number + 1));
    }
    world.ok(&["backup", "files"]);
    world.restores();
    world.ok(&["forget", "latest", "--yes"]);
    world.ok(&["prune"]);
    world.ok(&["backup", "files"]);
    world.ok(&["check", "--read-data"]);
    assert_eq!(world.ok(&["storage", "test"]).matches(" ok").count(), 6);
}

#[test]
#[ignore = "needs a server: cargo test -p ibid --test cli sshd -- --ignored"]
fn what_a_real_ssh_says_is_told_with_what_to_do() {
    let world = World::start();
    let said = |command: &mut Command, words: &str| {
        let ran = run(command);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert_eq!(ran.err.trim_end().lines().count(), 1, "{ran:?}");
        assert!(ran.err.contains(words), "{ran:?}");
    };
    let mut command = world.command(&["snapshots"]);
    said(
        command.env("IBID_SSH", world.ssh("laptop", "yes")),
        "Host key verification failed. Check that `ssh` reaches",
    );
    let mut command = world.command(&["snapshots"]);
    said(
        command.env("IBID_SSH", world.ssh("stranger", "accept-new")),
        "Permission denied (publickey). Check that `ssh` reaches",
    );
    let mut command = world.command(&["snapshots"]);
    let absent = format!("ssh://127.0.0.1:{}/srv?ibid=no-such-ibid", world.port);
    said(command.env("IBID_REPO", absent), "Where it is not found, add ?ibid=");
    let mut command = world.command(&["snapshots"]);
    said(
        command.env("IBID_REPO", format!("ssh://127.0.0.1:{}/srv", free_port())),
        "Connection refused; tried 3 times",
    );
}

/// The line of the guide, with the program, the folder and the key of this test.
#[test]
#[ignore = "needs a server: cargo test -p ibid --test cli sshd -- --ignored"]
fn the_line_of_the_guide_lets_a_key_add_and_delete_nothing() {
    let guide = include_str!("../../../../docs/remote.md");
    let line = guide
        .lines()
        .find(|line| line.starts_with("command=\"ibid serve"))
        .unwrap();
    let (options, key) = line.rsplit_once(" ssh-ed25519 ").unwrap();
    assert_eq!(key, "AAAA… laptop");
    let there = crate::support::Home::bare();
    let options = options
        .replace("\"ibid ", &format!("\"{} ", crate::PROGRAM))
        .replace("/srv/backup", &there.path("served").display().to_string());
    assert!(
        options.contains("--append-only") && options.contains(",restrict"),
        "{options}"
    );
    let world = World::start();
    world.authorize(&options);
    // Whatever the client asks for, it gets the folder of the line.
    world.ok(&["init", CHEAP[0], CHEAP[1]]);
    assert!(there.path("served/config").exists() && !world.home.path("there/repo").exists());
    for number in 0..3 {
        world.home.write("files/changing", noise(100_000, number + 1));
        world.ok(&["backup", "files"]);
    }
    world.restores();
    world.ok(&["check", "--read-data"]);
    let before = tree(&there.path("served"));
    for command in [&["forget", "latest", "--yes"][..], &["prune"]] {
        let ran = world.run(command);
        assert!(ran.code == 1 && ran.err.contains("served as append-only"), "{ran:?}");
    }
    // A client that is not ibid gets no shell.
    let ssh = world.ssh("laptop", "accept-new");
    let shell = format!("{ssh} -p {} 127.0.0.1 'rm -r \"$HOME\"' < /dev/null", world.port);
    let tried = Command::new("sh").args(["-c", &shell]).output().unwrap();
    assert!(tried.stdout.starts_with(b"ibidcon"), "{tried:?}");
    assert!(tree(&there.path("served")) == before);
}
