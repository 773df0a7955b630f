//! Publishing records through NATS JetStream, with a real server.
//!
//! Needs `nats-server`: `cargo test -p ibid --test cli publishing -- --ignored` uses the one named
//! by `IBID_NATS_SERVER`. Without `--ignored`, cargo lists these tests as ignored; with it, a
//! missing server is a failure.

use std::net::TcpStream;
use std::ops::Deref;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::ports::free_port;
use crate::replicas::{KNOWN, Running, Stores, write_identities};
use crate::support::noise;

/// Stores, and the port of a server.
struct World {
    stores: Stores,
    port: u16,
}

impl Deref for World {
    type Target = Stores;

    fn deref(&self) -> &Stores {
        &self.stores
    }
}

impl World {
    fn new() -> World {
        World {
            stores: Stores::new(),
            port: free_port(),
        }
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
        command.arg(self.home.path("nats")).args(told).stderr(Stdio::null());
        let started = command.spawn();
        let server = Running::new(started.unwrap_or_else(|error| {
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
        refused.code == 1 && refused.err.contains("takes its place, in epoch 2"),
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
fn over_tls_both_ends_show_a_certificate_and_a_wrong_one_is_an_error() {
    let (world, plain) = (World::new(), World::new());
    write_identities(&world.home);
    let told = [
        ("--tlscert", "primary.pem"),
        ("--tlskey", "primary.key"),
        ("--tlscacert", "ca.pem"),
    ];
    let mut told: Vec<String> = told
        .iter()
        .map(|(option, file)| format!("{option}={}", world.home.path(file).display()))
        .collect();
    told.extend(["--tls".to_owned(), "--tlsverify".to_owned()]);
    let _servers = (world.server_told(&told), plain.server());
    let (address, without) = (world.address(), plain.address());
    world.ok("store", &["put", "a"]);

    let ours = ["--authority", "ca.pem"];
    let stranger = ["--certificate", "stranger.pem", "--private-key", "stranger.key"];
    for (address, tls, what) in [
        (&address, vec![], "it expects TLS, and this end does not use TLS"),
        (&address, ours.to_vec(), "it expects a certificate, and none was shown"),
        (
            &address,
            [&ours[..], &stranger].concat(),
            "it expects a certificate that it trusts, and refuses the one that was shown",
        ),
        (
            &address,
            [&["--authority", "other.pem"], &KNOWN[2..]].concat(),
            "a certificate of a trusted authority was expected",
        ),
        (&without, KNOWN.to_vec(), "TLS was expected, and it does not use TLS"),
    ] {
        // They would go on for ever, and so would the test.
        for arguments in [
            &["serve", "--publish", address][..],
            &["replicate", "--from", address],
            &["replicate", "--once", "--from", address],
        ] {
            let store = if arguments[0] == "serve" { "store" } else { "replica" };
            let said = world.fails(store, &[arguments, &tls[..]].concat(), what);
            assert!(
                said.contains("no connection to 127.0.0.1:") && said.lines().count() == 1,
                "{said}"
            );
        }
    }
    let unused = world.run("store", &[&["serve", "--publish", &address], &KNOWN[2..]].concat());
    assert!(unused.code == 2 && unused.err.contains("--authority"), "{unused:?}");
    let mut publishing = world.start("store", &[&["serve", "--publish", &address], &KNOWN[..]].concat());
    publishing.says("published at");
    let replicate = ["replicate", "--once", "--from", &address];
    let named = world.run("replica", &[&replicate[..], &KNOWN, &["--server-name", "b"]].concat());
    assert!(named.code == 2 && named.err.contains("--server-name"), "{named:?}");
    world.ok("replica", &[&replicate[..], &KNOWN].concat());
    assert_eq!(publishing.end(), Some(0));
    assert_eq!(world.ok("replica", &["scan"]), world.ok("store", &["scan"]));
}

#[test]
#[ignore = "needs a server: cargo test -p ibid --test cli publishing -- --ignored"]
fn where_nothing_is_published_it_tries_a_number_of_times_and_then_fails() {
    let world = World::new();
    let address = world.address();
    let replicate = ["replicate", "--once", "--tries", "2", "--from", &address];
    world.fails("replica", &replicate, "connection refused; gave up after 2 tries");
    let _server = world.server();
    let what = "nothing is published at nats://127.0.0.1:";
    let said = world.fails("replica", &replicate, what);
    assert!(
        said.contains("; gave up after 2 tries. Publish the primary's log"),
        "{said}"
    );
    assert_eq!(said.matches("trying again").count(), 1, "{said}");
    // Of another name there is nothing either.
    world.ok("store", &["put", "a"]);
    let publishing = world.publish("store");
    let other = format!("nats://127.0.0.1:{}/wikis", world.port);
    world.fails(
        "replica",
        &["replicate", "--once", "--tries", "1", "--from", &other],
        what,
    );
    world.ok("replica", &["replicate", "--once", "--from", &address]);
    assert_eq!(publishing.end(), Some(0));
}

#[test]
#[ignore = "needs a server: cargo test -p ibid --test cli publishing -- --ignored"]
fn who_has_no_right_login_is_told_so() {
    let world = World::new();
    let _server = world.server_told(&["--user=me".to_owned(), "--pass=secret".to_owned()]);
    world.ok("store", &["put", "a"]);
    let at = |login: &str| format!("nats://{login}127.0.0.1:{}/wiki", world.port);
    let mut publishing = world.start("store", &["serve", "--publish", &at("me:secret@")]);
    publishing.says("published at nats://127.0.0.1:");
    for login in ["", "me:other@", "you:secret@", "secret@"] {
        let replicate = ["replicate", "--once", "--tries", "1", "--from", &at(login)];
        let said = world.fails(
            "replica",
            &replicate,
            "wrong user, password or token; gave up after 1 try",
        );
        assert!(!said.contains("secret"), "{said}");
    }
    world.ok("replica", &["replicate", "--once", "--from", &at("me:secret@")]);
    assert_eq!(publishing.end(), Some(0));
}

#[test]
#[ignore = "needs a server: cargo test -p ibid --test cli publishing -- --ignored"]
fn a_copy_that_was_interrupted_continues() {
    let world = World::new();
    let address = world.address();
    let _server = world.server();
    world.load("store", 4_000_000, 1);
    let publishing = world.publish("store");
    let replicate = ["replicate", "--once", "--from", &address];
    world.interrupt_a_copy("replica", &address, Signal::KILL);
    publishing.kill();
    let publishing = world.publish("store");
    let went_on = world.run("replica", &replicate);
    assert!(
        went_on.code == 0 && went_on.err.contains("continuing the copy"),
        "{went_on:?}"
    );
    world.interrupt_a_copy("late", &address, Signal::KILL);
    assert_eq!(publishing.end(), Some(0));
    world.ok("store", &["put", "new"]);
    let publishing = world.publish("store");
    let again = world.run("late", &replicate);
    assert!(
        again.code == 0 && again.err.contains("again from its beginning"),
        "{again:?}"
    );
    world.ok("replica", &replicate);
    assert_eq!(publishing.end(), Some(0));
    for replica in ["replica", "late"] {
        world.assert_same("store", replica);
    }
}

#[test]
#[ignore = "needs a server: cargo test -p ibid --test cli publishing -- --ignored"]
fn a_primary_that_publishes_is_fenced_over_tcp_and_hands_over_the_rest() {
    let world = World::new();
    let (at, port) = (world.address(), free_port());
    let _server = world.server();
    world.load("store", 100_000, 1);
    let served = format!("127.0.0.1:{port}");
    let serve = ["serve", "--publish", &at, "--listen", &served];
    let mut primary = world.start("store", &serve);
    primary.says("published at");
    for replica in ["replica", "other"] {
        world.ok(replica, &["replicate", "--once", "--from", &at]);
    }
    world.ok("replica", &["promote", "--fence", &served]);
    primary.says("another store takes the place of this one");
    // It goes on answering, and says why it does not publish when it is stopped.
    assert_eq!(primary.end(), Some(1));
    world.fails("store", &["put", "lost"], "was fenced");
    world.ok("replica", &["put", "new"]);
    let publishing = world.publish("replica");
    world.ok("other", &["replicate", "--once", "--from", &at]);
    assert_eq!(publishing.end(), Some(0));
    world.assert_same("replica", "other");
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
