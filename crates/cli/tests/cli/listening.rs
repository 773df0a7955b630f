//! Repositories with `ibid serve --listen`, over TLS.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::Value;

use crate::blocks::{blocks, run_blocks};
use crate::ports::free_port;
use crate::replicas::write_identities;
use crate::support::{CHEAP, Home, Ran, noise, run, signal, tree, wait_until};

/// A server that runs while this value lives.
struct Server {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(mut command: Command) -> Server {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let (errors, noted) = (child.stderr.take().unwrap(), said.clone());
        std::thread::spawn(move || {
            let lines = BufReader::new(errors).lines();
            lines
                .map_while(Result::ok)
                .for_each(|line| noted.lock().unwrap().push(line));
        });
        let server = Server { child, said };
        wait_until("the server", || server.said().contains("listening at"));
        server
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().join("\n")
    }

    /// Sends a signal; returns the exit code.
    fn end(mut self, how: Signal) -> Option<i32> {
        signal(&self.child, how);
        self.child.wait().unwrap().code()
    }
}

/// A home with certificates, and a place where a server listens.
struct Served {
    home: Home,
    port: u16,
}

const SERVER: [&str; 6] = [
    "--certificate",
    "primary.pem",
    "--private-key",
    "primary.key",
    "--clients",
    "ca.pem",
];

impl Served {
    fn new() -> Served {
        let home = Home::bare();
        write_identities(&home);
        let port = free_port();
        Served { home, port }
    }

    fn serve(&self, more: &[&str]) -> Server {
        let address = format!("127.0.0.1:{}", self.port);
        let arguments = [&["serve", "--listen", &address, "there/repo"], &SERVER[..], more].concat();
        Server::start(self.home.ibid(arguments))
    }

    fn repository(&self) -> String {
        format!("tls://127.0.0.1:{}", self.port)
    }

    fn command_as(&self, authority: &str, who: &str, arguments: &[&str]) -> Command {
        let (certificate, key) = (format!("{who}.pem"), format!("{who}.key"));
        let shown = [
            "--authority",
            authority,
            "--certificate",
            &certificate,
            "--private-key",
            &key,
        ];
        let mut command = self.home.ibid([&shown[..], arguments].concat());
        command.env("IBID_REPO", self.repository());
        command
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.command_as("ca.pem", "replica", arguments)
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

    /// Asserts that a snapshot restores to the files.
    #[track_caller]
    fn restores(&self) {
        let _ = std::fs::remove_dir_all(self.home.path("back"));
        self.ok(&["restore", &self.home.at("files"), "back", "--verify"]);
        assert_eq!(tree(&self.home.path("files")), tree(&self.home.path("back")));
    }
}

/// As a bucket on a server of one's own.
#[test]
fn a_server_whose_certificate_no_system_trusts_is_told_from_one_that_is_away() {
    let served = Served::new();
    let server = served.serve(&[]);
    let endpoint = format!("https://127.0.0.1:{}", served.port);
    let asked = |command: &[&str], endpoint: &str| {
        let mut command = served.home.ibid(command);
        command.args(["--endpoint", endpoint]).env("IBID_REPO", "s3://bucket");
        command.envs([("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")]);
        let ran = run(&mut command);
        assert!(ran.code == 1 && ran.out.is_empty(), "{ran:?}");
        ran.err
    };
    for command in [&["snapshots"][..], &["backup", "files"], &["storage", "test"]] {
        let said = asked(command, &endpoint);
        assert!(
            said.contains("certificate is not accepted: a certificate of a trusted authority was expected")
                && said.contains("--ca-file"),
            "{command:?}: {said}"
        );
    }
    assert_eq!(server.end(Signal::TERM), Some(0));
    // A server that can't be reached says nothing about what it promises.
    let said = asked(&["storage", "test"], &endpoint);
    assert!(
        said.contains("connection refused") && said.contains("Check the address"),
        "{said}"
    );
}

#[test]
fn everything_works_over_tls() {
    let served = Served::new();
    let server = served.serve(&[]);
    let said = served.run(&["snapshots"]);
    assert!(
        said.code == 10 && said.err.contains("there is no repository in tls://"),
        "{said:?}"
    );
    let created = served.ok(&["init", CHEAP[0], CHEAP[1]]);
    let place = format!("created an encrypted repository in {}", served.repository());
    assert!(created.contains(&place), "{created}");
    assert!(served.home.path("there/repo/config").exists());
    let summary = served.run(&["backup", "files"]);
    assert!(summary.err.contains(" to store, "), "requests are told: {summary:?}");
    served.restores();
    served.home.write("files/new", noise(100_000, 9));
    served.ok(&["backup", "files"]);
    served.restores();
    served.ok(&["forget", "latest", "--yes"]);
    served.ok(&["prune"]);
    served.ok(&["check", "--read-data"]);
    assert_eq!(served.ok(&["storage", "test"]).matches(" ok").count(), 6);
    // A copy from a folder of this machine, with the certificates for the other repository.
    served.home.ok(["init", "--quiet", CHEAP[0], CHEAP[1]]);
    served.home.ok(["backup", "--quiet", "files"]);
    let mut copy = served.command(&[
        "copy",
        "--to",
        &served.repository(),
        "--to-password-command",
        "echo secret",
    ]);
    let ran = run(copy.env("IBID_REPO", served.home.path("repo")));
    assert_eq!(ran.code, 0, "{ran:?}");
    served.restores();
    assert_eq!(server.said().lines().count(), 1, "{}", server.said());
    assert_eq!(server.end(Signal::TERM), Some(0));
}

#[test]
fn who_may_not_use_a_server_learns_why_in_one_line_and_at_once() {
    let served = Served::new();
    let server = served.serve(&[]);
    served.ok(&["init", "--quiet", CHEAP[0], CHEAP[1]]);
    let refused = |mut command: Command, words: &str| {
        let ran = run(&mut command);
        assert!(ran.code == 1 && ran.err.contains(words), "{words}: {ran:?}");
        assert!(
            ran.err.trim_end().lines().count() == 1 && !ran.err.contains("tried"),
            "{ran:?}"
        );
        let advice = "Check the certificates and clocks of both machines, and that the server there may use its folder";
        assert!(ran.err.contains(advice), "{ran:?}");
    };
    let of_stranger = served.command_as("ca.pem", "stranger", &["snapshots"]);
    refused(of_stranger, "refuses the one that was shown: DecryptError. ");
    let of_other = served.command_as("other.pem", "replica", &["snapshots"]);
    refused(of_other, "its certificate is of another one. ");
    let other_name = served.command(&["snapshots", "--server-name", "nas.example.org"]);
    refused(
        other_name,
        "a certificate for nas.example.org was expected, and its certificate is for 127.0.0.1. ",
    );
    wait_until("what the server says", || {
        server.said().matches("was not answered: ").count() >= 1
    });

    for arguments in [&["snapshots"][..], &["snapshots", "--authority", "ca.pem"]] {
        let ran = run(served.home.ibid(arguments).env("IBID_REPO", served.repository()));
        let words = "needs --authority FILE, --certificate FILE and --private-key FILE";
        assert!(ran.code == 2 && ran.err.contains(words), "{ran:?}");
    }
    for (address, words) in [
        ("tls://nas", "names no port"),
        ("tls://:1", "names no host"),
        ("tls://nas:1/srv", "the server knows"),
    ] {
        let ran = run(served.command(&["snapshots"]).env("IBID_REPO", address));
        assert!(ran.code == 2 && ran.err.contains(words), "{ran:?}");
    }
    let ran = run(&mut served.command_as("no.pem", "replica", &["snapshots"]));
    assert!(ran.code == 1 && ran.err.contains("cannot read no.pem"), "{ran:?}");
    let ran = run(&mut served.command_as("files/anna.txt", "replica", &["snapshots"]));
    assert!(
        ran.code == 1
            && ran
                .err
                .contains("the authorities cannot be used: there is no certificate in it"),
        "{ran:?}"
    );
}

#[test]
fn there_is_no_server_that_answers_just_anyone() {
    let served = Served::new();
    for left_out in 0..3 {
        let mut arguments = vec!["serve", "--listen", "127.0.0.1:0", "there/repo"];
        let kept = SERVER.chunks(2).enumerate().filter(|(at, _)| *at != left_out);
        arguments.extend(kept.flat_map(|(_, pair)| pair));
        let said = served.home.fails(2, &arguments);
        assert!(said.contains(SERVER[2 * left_out]), "{said}");
    }
    let said = served.home.fails(2, ["serve", "there/repo"]);
    assert!(said.contains("--stdio") && said.contains("--listen"), "{said}");
    served
        .home
        .fails(2, ["serve", "--stdio", "--listen", "127.0.0.1:0", "there/repo"]);
    served
        .home
        .fails(2, ["serve", "--stdio", "--clients", "ca.pem", "there/repo"]);
    let server = served.serve(&[]);
    let address = format!("127.0.0.1:{}", served.port);
    let taken = [&["serve", "--listen", &address, "there/repo"], &SERVER[..]].concat();
    let said = served.home.fails(1, taken);
    assert!(
        said.contains(&format!("cannot listen at {address}: address already in use")),
        "{said}"
    );
    assert_eq!(server.end(Signal::INT), Some(0));
}

#[test]
fn servers_that_are_killed_in_the_middle_cost_nothing() {
    let served = Served::new();
    let server = served.serve(&[]);
    served.ok(&["init", "--quiet", CHEAP[0], CHEAP[1]]);
    for number in 0..30 {
        served.home.write(format!("files/{number}"), noise(1 << 20, number + 1));
    }
    let slow = ["backup", "files", "--json", "--limit-upload", "20MiB"];
    let child = served
        .command(&slow)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let packs = served.home.path("there/repo/packs");
    let stored = || tree(&packs).iter().map(|(.., bytes)| bytes.len()).sum::<usize>();
    let mut server = Some(server);
    for (round, how) in [Signal::KILL, Signal::TERM, Signal::KILL].into_iter().enumerate() {
        if round > 0 {
            // Until then the client finds nothing at this port.
            server = Some(served.serve(&[]));
        }
        let until = ((round + 1) * 3) << 20;
        wait_until("a pack", || packs.exists() && stored() >= until);
        server.take().unwrap().end(how);
    }
    let _server = served.serve(&[]);
    let ran = crate::support::ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    let summary: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(summary["requests"]["again"].as_u64().unwrap() >= 1, "{summary}");
    served.restores();
    served.ok(&["check", "--read-data"]);
    assert_eq!(
        served
            .ok(&["sessions", "--json"])
            .matches("\"type\":\"session\"")
            .count(),
        0
    );
}

#[test]
fn an_append_only_server_takes_backups_of_many_and_lets_nothing_be_deleted() {
    let served = Served::new();
    let _server = served.serve(&["--append-only"]);
    served.ok(&["init", "--quiet", CHEAP[0], CHEAP[1]]);
    std::thread::scope(|scope| {
        for machine in 0..4 {
            let served = &served;
            scope.spawn(move || {
                let folder = format!("machine{machine}");
                for number in 0..3 {
                    served
                        .home
                        .write(format!("{folder}/changing"), noise(300_000, machine * 10 + number));
                    served.ok(&["backup", "--quiet", &folder]);
                }
            });
        }
    });
    assert_eq!(served.ok(&["snapshots", "--quiet"]).lines().count(), 12 + 1);
    served.ok(&["backup", "--quiet", "files"]);
    served.restores();
    served.ok(&["check", "--read-data"]);
    let there = tree(&served.home.path("there/repo"));
    for command in [
        &["forget", "latest", "--yes"][..],
        &["prune"],
        &["tag", "add", "good", "latest"],
    ] {
        let ran = served.run(command);
        let words = "served as append-only. Run the command on that machine, or through a server without --append-only";
        assert!(ran.code == 1 && ran.err.contains(words), "{ran:?}");
    }
    assert!(tree(&served.home.path("there/repo")) == there, "nothing was changed");
}

#[test]
fn a_profile_names_a_server_and_its_certificates() {
    let served = Served::new();
    let _server = served.serve(&[]);
    served.ok(&["init", "--quiet", CHEAP[0], CHEAP[1]]);
    let profile = format!(
        "[profile.nas]\nrepo = \"{}\"\nauthority = \"~/ca.pem\"\ncertificate = \"~/replica.pem\"\n\
         private-key = \"~/replica.key\"\n[profile.nas.backup]\npaths = [\"~/files\"]\n",
        served.repository()
    );
    served.home.write(".config/ibid/config.toml", profile);
    let mut command = served.home.ibid(["run", "nas", "--quiet"]);
    let ran = run(command.env_remove("IBID_REPO"));
    assert_eq!(ran.code, 0, "{ran:?}");
    served.restores();
}

/// The guide's commands, at another port and with a folder of this home.
#[test]
fn the_guide_to_servers_over_tls_runs_as_written() {
    let home = Home::bare();
    home.write("letters/anna.txt", "dear Anna\n");
    let guide = include_str!("../../../../docs/remote.md");
    let blocks = blocks(guide);
    let certificates: Vec<String> = blocks
        .iter()
        .filter(|block| block.contains("openssl"))
        .cloned()
        .collect();
    let client: Vec<&String> = blocks.iter().filter(|block| block.contains("tls://")).collect();
    assert_eq!((certificates.len(), client.len()), (1, 1));
    run_blocks(&home, &certificates);
    let line = guide
        .lines()
        .find(|line| line.starts_with("ibid serve --listen"))
        .unwrap();
    let port = free_port();
    let there = home.path("srv").display().to_string();
    let words = line.replace("7118", &port.to_string()).replace("/srv/backup", &there);
    let _server = Server::start(home.ibid(words.split(' ').skip(1)));
    let printed = run_blocks(&home, &[client[0].replace("7118", &port.to_string())]);
    assert!(
        printed.contains("created an encrypted repository in tls://localhost:"),
        "{printed}"
    );
    assert_eq!(std::fs::read(home.path("restored/anna.txt")).unwrap(), b"dear Anna\n");
    assert!(home.path("srv/config").exists());
}
