//! Publishing records through NATS JetStream, with a real server.
//!
//! Needs `nats-server`: `cargo test -p ibid --test cli publishing -- --ignored` uses the one named
//! by `IBID_NATS_SERVER`. Without `--ignored`, cargo lists these tests as ignored; with it, a
//! missing server is a failure.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::process::Signal;

use crate::ports::free_port;
use crate::records::write_identity;
use crate::support::{Home, Ran, noise, run, signal};

/// A program that is killed when the test ends.
struct Running(Child);

impl Running {
    /// Waits until the program prints `what`. Returns everything printed so far.
    fn says(&mut self, what: &str) -> String {
        let mut lines = BufReader::new(self.0.stderr.as_mut().unwrap());
        let mut said = String::new();
        while !said.contains(what) {
            let read = lines.read_line(&mut said).unwrap();
            assert!(read > 0, "it says only: {said}");
        }
        said
    }

    /// Stops the program and returns its exit code.
    fn end(mut self) -> Option<i32> {
        signal(&self.0, Signal::TERM);
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct World {
    home: Home,
    port: u16,
}

impl World {
    fn new() -> World {
        let home = Home::bare();
        let port = free_port();
        World { home, port }
    }

    fn server(&self) -> Running {
        self.server_told(&[])
    }

    fn server_told(&self, told: &[String]) -> Running {
        let program = std::env::var_os("IBID_NATS_SERVER").unwrap_or_else(|| "nats-server".into());
        let mut command = std::process::Command::new(&program);
        command.args([
            "--addr",
            "127.0.0.1",
            "--port",
            &self.port.to_string(),
            "--jetstream",
            "--store_dir",
        ]);
        let started = command
            .arg(self.home.path("nats"))
            .args(told)
            .stderr(Stdio::null())
            .spawn();
        let server = Running(started.unwrap_or_else(|error| {
            panic!("cannot start {program:?}: {error}; install nats-server, or name it by IBID_NATS_SERVER")
        }));
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{program:?} does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    fn address(&self) -> String {
        format!("nats://127.0.0.1:{}/wiki", self.port)
    }

    fn start(&self, store: &str, arguments: &[&str]) -> Running {
        let mut command = self.home.ibid(["records"]);
        command.args(arguments).env("IBID_STORE", self.home.path(store));
        Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn run(&self, store: &str, arguments: &[&str]) -> Ran {
        let mut command = self.home.ibid(["records"]);
        command.args(arguments).env("IBID_STORE", self.home.path(store));
        run(command.stdin(Stdio::null()))
    }

    #[track_caller]
    fn ok(&self, store: &str, arguments: &[&str]) -> String {
        let ran = self.run(store, arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    }

    #[track_caller]
    fn publish(&self, store: &str) -> Running {
        let mut publishing = self.start(store, &["serve", "--publish", &self.address()]);
        publishing.says("published at");
        publishing
    }
}

#[test]
#[ignore = "needs a server: cargo test -p ibid --test cli publishing -- --ignored"]
fn a_replica_reads_what_was_published_and_takes_over() {
    let world = World::new();
    let address = world.address();
    let lines: String = (0..500_u64)
        .map(|line| {
            let words: String = noise(300, line % 7)
                .iter()
                .map(|byte| char::from(b'a' + byte % 26))
                .collect();
            format!("{{\"page\": \"p{}\", \"text\": \"{words}{line}\"}}\n", line % 50)
        })
        .collect();
    world.home.write("pages.jsonl", lines);
    world.ok("store", &["load", "pages.jsonl", "--key", "page", "--body", "text"]);

    // It waits for the server, and prints that.
    let mut publishing = world.start("store", &["serve", "--publish", &address]);
    let said = publishing.says("trying again");
    assert!(said.contains("cannot connect to the NATS server"), "{said}");
    let server = world.server();
    publishing.says("published at");
    // Its log began after its records, so a replica copies all of these from the publishing store.
    world.ok("replica", &["replicate", "--from", &address, "--once"]);
    assert_eq!(publishing.end(), Some(0));
    world.ok("store", &["load", "pages.jsonl", "--key", "page", "--body", "text"]);
    assert_eq!(world.publish("store").end(), Some(0));

    // The stream has all later entries, though no store publishes and the server was killed.
    drop(server);
    let _server = world.server();
    let followed = world.run("replica", &["replicate", "--from", &address, "--once", "--json"]);
    assert!(
        followed.code == 0 && followed.out.contains("\"complete\":true"),
        "{followed:?}"
    );
    world.ok("replica", &["verify"]);
    assert_eq!(world.ok("replica", &["scan"]), world.ok("store", &["scan"]));
    // A new replica lacks entries that the stream does not have, and waits for them.
    let mut waiting = world.start("late", &["replicate", "--from", &address, "--once"]);
    let said = waiting.says("trying again");
    assert!(said.contains("no store publishes"), "{said}");
    assert_eq!(waiting.end(), Some(130));

    // The replica takes over; the old primary learns of it from the stream, and becomes a replica.
    world.ok("replica", &["promote"]);
    world.ok("replica", &["put", "later"]);
    let publishing = world.publish("replica");
    world.ok("store", &["put", "lost"]);
    let refused = world.run("store", &["serve", "--publish", &address]);
    assert!(
        refused.code == 1 && refused.err.contains("promoted, to epoch 2"),
        "{refused:?}"
    );
    let refused = world.run("store", &["replicate", "--from", &address, "--once"]);
    assert!(refused.code == 1 && refused.err.contains("--discard"), "{refused:?}");
    world.ok("store", &["replicate", "--from", &address, "--once", "--discard"]);
    world.ok("late", &["replicate", "--from", &address, "--once"]);
    assert_eq!(publishing.end(), Some(0));
    let scanned = world.ok("replica", &["scan"]);
    assert!(scanned.contains("\"later\"") && !scanned.contains("\"lost\""));
    for store in ["store", "late"] {
        assert_eq!(world.ok(store, &["scan"]), scanned, "{store}");
    }
    // Another store has another id.
    world.ok("other", &["put", "a"]);
    let refused = world.run("other", &["serve", "--publish", &address]);
    assert!(refused.code == 1 && refused.err.contains("another name"), "{refused:?}");
}

#[test]
#[ignore = "needs a server: cargo test -p ibid --test cli publishing -- --ignored"]
fn over_tls_both_ends_show_a_certificate() {
    let world = World::new();
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
    world.home.write("ca.pem", authority.pem());
    for name in ["server", "store"] {
        write_identity(&world.home, name, &authority);
    }
    let told = [
        ("--tlscert", "server.pem"),
        ("--tlskey", "server.key"),
        ("--tlscacert", "ca.pem"),
    ];
    let mut told: Vec<String> = told
        .iter()
        .map(|(option, file)| format!("{option}={}", world.home.path(file).display()))
        .collect();
    told.extend(["--tls".to_owned(), "--tlsverify".to_owned()]);
    let _server = world.server_told(&told);
    let address = world.address();
    world.ok("store", &["put", "a"]);

    // Without TLS it keeps trying, and prints what it needs.
    let mut plain = world.start("store", &["serve", "--publish", &address]);
    let said = plain.says("trying again");
    assert!(said.contains("requires TLS"), "{said}");
    assert_eq!(plain.end(), Some(0));
    let refused = world.run("store", &["serve", "--publish", &address, "--authority", "ca.pem"]);
    assert!(refused.code == 1 && refused.err.contains("not trusted"), "{refused:?}");
    let tls = [
        "--authority",
        "ca.pem",
        "--certificate",
        "store.pem",
        "--private-key",
        "store.key",
    ];
    let unused = world.run("store", &[&["serve", "--publish", &address], &tls[2..]].concat());
    assert!(unused.code == 2 && unused.err.contains("--authority"), "{unused:?}");
    let mut publishing = world.start("store", &[&["serve", "--publish", &address], &tls[..]].concat());
    publishing.says("published at");
    let replicate = ["replicate", "--once", "--from", &address];
    let named = world.run("replica", &[&replicate[..], &tls, &["--server-name", "b"]].concat());
    assert!(named.code == 2 && named.err.contains("--server-name"), "{named:?}");
    world.ok("replica", &[&replicate[..], &tls].concat());
    assert_eq!(publishing.end(), Some(0));
    assert_eq!(world.ok("replica", &["scan"]), world.ok("store", &["scan"]));
}

#[test]
fn where_to_publish_is_checked() {
    let world = World::new();
    world.ok("store", &["put", "a"]);
    for (arguments, said) in [
        (&["serve"][..], "--listen"),
        (&["serve", "--publish", "nats://a"], "no name after the servers"),
        (
            &["serve", "--publish", "127.0.0.1:4222/a"],
            "does not begin with nats://",
        ),
        (&["serve", "--publish", "nats://a/b.c"], "letters, digits"),
        (
            &["serve", "--listen", "127.0.0.1:0", "--stream-replicas", "3"],
            "--publish",
        ),
        (&["serve", "--publish", "nats://a/b", "--stream-replicas", "6"], "1..=5"),
        (&["replicate", "--from", "nats://a"], "no name after the servers"),
        (&["replicate", "--from", "somewhere"], "expected HOST:PORT or nats://"),
    ] {
        let refused = world.run("store", arguments);
        assert!(
            refused.code == 2 && refused.err.contains(said),
            "{arguments:?}: {refused:?}"
        );
    }
}
