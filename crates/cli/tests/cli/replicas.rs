//! Replicas of stores of records, over TCP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::process::Signal;
use serde_json::Value;

use crate::ports::free_port;
use crate::support::{Home, Ran, noise, ran, run, signal};

/// The longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that is killed when the test ends, even if it fails.
pub(crate) struct Running {
    child: Child,
    lines: Option<mpsc::Receiver<String>>,
}

impl Running {
    pub(crate) fn new(mut child: Child) -> Running {
        let lines = child.stderr.take().map(|stderr| {
            let (send, lines) = mpsc::channel();
            std::thread::spawn(move || {
                let mut read = BufReader::new(stderr).lines().map_while(Result::ok);
                read.all(|line| send.send(line).is_ok());
            });
            lines
        });
        Running { child, lines }
    }

    /// Waits until the program prints `what`. Returns everything printed since the last call.
    #[track_caller]
    pub(crate) fn says(&mut self, what: &str) -> String {
        let lines = self.lines.as_ref().expect("a pipe");
        let mut said = String::new();
        while !said.contains(what) {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => said = said + &line + "\n",
                Err(error) => panic!("it says only: {said}({error})"),
            }
        }
        said
    }

    /// Returns the number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops the program and returns its exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        signal(&self.child, Signal::TERM);
        self.child.wait().unwrap().code()
    }

    /// Kills the program, as `kill -9` does.
    pub(crate) fn kill(self) {}
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stores in one home.
pub(crate) struct Stores {
    pub(crate) home: Home,
}

impl Stores {
    pub(crate) fn new() -> Stores {
        Stores { home: Home::bare() }
    }

    pub(crate) fn command(&self, store: &str, arguments: &[&str]) -> Command {
        let mut command = self.home.ibid(["records"]);
        command
            .args(arguments)
            .env("IBID_STORE", self.home.path(store))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, store: &str, arguments: &[&str]) -> Ran {
        run(&mut self.command(store, arguments))
    }

    #[track_caller]
    pub(crate) fn ok(&self, store: &str, arguments: &[&str]) -> String {
        let ran = self.run(store, arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        ran.out
    }

    /// Runs a command that must fail with exit code 1, and say this in one line.
    #[track_caller]
    pub(crate) fn fails(&self, store: &str, arguments: &[&str], what: &str) -> String {
        let ran = self.run(store, arguments);
        assert_eq!(ran.code, 1, "{arguments:?}: {ran:?}");
        let last = ran.err.lines().last().unwrap_or_default();
        assert!(last.contains(what), "{arguments:?}: {ran:?}");
        ran.err
    }

    pub(crate) fn start(&self, store: &str, arguments: &[&str]) -> Running {
        let mut command = self.command(store, arguments);
        Running::new(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Serves a store at a free port. Returns its address, too.
    pub(crate) fn serve(&self, store: &str, more: &[&str]) -> (Running, String) {
        let address = format!("127.0.0.1:{}", free_port());
        (self.serve_at(&address, store, more), address)
    }

    pub(crate) fn serve_at(&self, address: &str, store: &str, more: &[&str]) -> Running {
        let mut serving = self.start(store, &[&["serve", "--listen", address], more].concat());
        serving.says("listening at");
        serving
    }

    /// Loads pages that take this many bytes and can't be compressed.
    pub(crate) fn load(&self, store: &str, bytes: usize, seed: u64) {
        let page = |number: u64| {
            let text: String = noise(1000, seed << 32 | number)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            format!("{{\"key\": \"p{}\", \"text\": \"{text}\"}}\n", number % 500)
        };
        let pages: String = (0..(bytes / 1000) as u64).map(page).collect();
        self.home.write("more.jsonl", pages);
        self.ok(store, &["load", "more.jsonl", "--body", "text"]);
    }

    /// Checks that a replica has what its primary has.
    #[track_caller]
    pub(crate) fn assert_same(&self, primary: &str, replica: &str) {
        self.ok(replica, &["verify"]);
        let expected = self.ok(primary, &["scan"]);
        assert!(
            !expected.is_empty() && self.ok(replica, &["scan"]) == expected,
            "{replica} differs"
        );
        let versions = |store: &str| {
            let stats: Value = serde_json::from_str(&self.ok(store, &["stats", "--json"])).unwrap();
            stats["namespaces"].clone().as_array().map(|all| {
                all.iter()
                    .map(|space| (space["name"].clone(), space["records"].clone()))
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(versions(replica), versions(primary));
    }

    /// Makes a replica that was interrupted while it copied the whole store.
    pub(crate) fn interrupt_a_copy(&self, replica: &str, address: &str, how: Signal) {
        for _ in 0..50 {
            let mut following = self.start(replica, &["replicate", "--from", address]);
            following.says("copying the whole store");
            signal(&following.child, how);
            following.child.wait().unwrap();
            if self.is_partial(replica) {
                return;
            }
            std::fs::remove_dir_all(self.home.path(replica)).unwrap();
        }
        panic!("it is never interrupted");
    }

    pub(crate) fn is_partial(&self, replica: &str) -> bool {
        self.run(replica, &["scan"]).err.contains("has not received all")
    }
}

/// Makes an authority, and writes its certificate into a file.
fn authority(home: &Home, file: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
    home.write(file, authority.pem());
    authority
}

/// Writes a certificate for 127.0.0.1, signed by an authority of this test, into a file, and its
/// key into another.
fn write_identity(home: &Home, name: &str, authority: &CertifiedIssuer<'_, KeyPair>) {
    let key = KeyPair::generate().unwrap();
    let parameters = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = parameters.signed_by(&key, authority).unwrap();
    home.write(format!("{name}.pem"), certificate.pem());
    home.write(format!("{name}.key"), key.serialize_pem());
}

/// The options of a store that is served over TLS, to known replicas.
pub(crate) const SERVED_OVER_TLS: [&str; 6] = [
    "--certificate",
    "primary.pem",
    "--private-key",
    "primary.key",
    "--clients",
    "ca.pem",
];
/// Those of a replica that it knows.
pub(crate) const KNOWN: [&str; 6] = [
    "--authority",
    "ca.pem",
    "--certificate",
    "replica.pem",
    "--private-key",
    "replica.key",
];

/// Writes the files that these options name, and those of a stranger.
pub(crate) fn write_identities(home: &Home) {
    let ours = authority(home, "ca.pem");
    write_identity(home, "primary", &ours);
    write_identity(home, "replica", &ours);
    write_identity(home, "stranger", &authority(home, "other.pem"));
}

#[test]
fn a_replica_has_the_same_and_takes_over() {
    let stores = Stores::new();
    stores.load("store", 2_000_000, 1);
    let (primary, address) = stores.serve("store", &[]);
    let replicate = ["replicate", "--from", &address, "--once"];
    let said = stores.ok("replica", &replicate);
    assert!(said.contains("has all that the primary had"), "{said}");
    stores.fails("replica", &["put", "Ibid"], "promote");
    // A store with records of its own does not become a replica by mistake.
    stores.ok("own", &["put", "mine"]);
    stores.fails("own", &[&replicate[..], &["--discard"]].concat(), "empty folder");
    stores.ok("own", &["get", "mine"]);
    assert_eq!(primary.end(), Some(0));
    stores.assert_same("store", "replica");

    // The replica takes over; the old primary learns of it, and becomes a replica.
    let said = stores.ok("replica", &["promote"]);
    assert!(said.contains("now the primary") && said.contains("epoch 2"), "{said}");
    stores.ok("replica", &["put", "later"]);
    let (primary, address) = stores.serve("replica", &[]);
    let replicate = ["replicate", "--from", &address, "--once"];
    stores.fails("store", &replicate, "--discard");
    stores.ok("store", &[&replicate[..], &["--discard"]].concat());
    assert_eq!(primary.end(), Some(0));
    stores.assert_same("replica", "store");
    assert!(stores.ok("store", &["scan"]).contains("\"later\""));
}

#[test]
fn an_interrupted_copy_continues_and_meanwhile_each_command_says_what_to_do() {
    let stores = Stores::new();
    stores.load("store", 4_000_000, 1);
    let (primary, address) = stores.serve("store", &[]);
    let replicate = ["replicate", "--from", &address, "--once"];
    stores.interrupt_a_copy("replica", &address, Signal::KILL);
    for command in [
        &["get", "p1"][..],
        &["scan"],
        &["versions", "p1"],
        &["stats"],
        &["verify"],
        &["put", "p1"],
        &["delete", "p1"],
        &["load", "more.jsonl", "--body", "text"],
        &["compact"],
        &["promote"],
        &["serve", "--listen", "127.0.0.1:0"],
        &["serve", "--publish", "nats://127.0.0.1:1/wiki"],
    ] {
        let said = stores.fails("replica", command, "has not received all of its primary's contents yet");
        assert!(said.contains("`ibid records replicate --once`"), "{command:?}: {said}");
    }
    // It continues, even though the primary was killed in between.
    primary.kill();
    let primary = stores.serve_at(&address, "store", &[]);
    let went_on = stores.run("replica", &replicate);
    assert!(
        went_on.code == 0 && went_on.err.contains("continuing the copy"),
        "{went_on:?}"
    );
    assert!(!went_on.err.contains("again"), "{went_on:?}");

    // If the primary has changed, it begins again, and says so.
    stores.interrupt_a_copy("late", &address, Signal::KILL);
    assert_eq!(primary.end(), Some(0));
    stores.ok("store", &["put", "new"]);
    let primary = stores.serve_at(&address, "store", &[]);
    let again = stores.run("late", &replicate);
    assert!(
        again.code == 0 && again.err.contains("again from its beginning"),
        "{again:?}"
    );
    assert_eq!(primary.end(), Some(0));
    stores.assert_same("store", "late");
    // The other one follows from where it is.
    let primary = stores.serve_at(&address, "store", &[]);
    let followed = stores.run("replica", &replicate);
    assert!(followed.code == 0 && followed.err.is_empty(), "{followed:?}");
    assert_eq!(primary.end(), Some(0));
    stores.assert_same("store", "replica");
}

#[test]
fn ctrl_c_during_a_copy_says_that_the_next_one_continues_it() {
    let stores = Stores::new();
    stores.load("store", 4_000_000, 1);
    let (_primary, address) = stores.serve("store", &[]);
    for wait in 0..50 {
        let mut following = stores.command("replica", &["replicate", "--from", &address, "--once"]);
        let following = following.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        // It ends by itself if the signal is too late.
        while !stores.home.path("replica/redb").exists() {
            assert!(begun.elapsed() < PATIENCE, "it does not begin");
            std::thread::sleep(Duration::from_millis(1));
        }
        // How fast the machine is decides which of these is within the copy.
        std::thread::sleep(Duration::from_millis(2 * wait));
        signal(&following, Signal::INT);
        let ended = ran(following.wait_with_output().unwrap());
        if ended.code == 130 && stores.is_partial("replica") {
            assert!(ended.out.contains("cannot be read yet"), "{ended:?}");
            assert!(
                ended.err.contains("continues the copy, or begins it again"),
                "{ended:?}"
            );
            return;
        }
        std::fs::remove_dir_all(stores.home.path("replica")).unwrap();
    }
    panic!("it is never interrupted in a copy");
}

#[test]
fn wrong_tls_ends_the_following_with_an_error() {
    let stores = Stores::new();
    write_identities(&stores.home);
    stores.ok("store", &["put", "a"]);
    stores.ok("plain", &["put", "a"]);
    let (private, over_tls) = stores.serve("store", &SERVED_OVER_TLS);
    let (plain, without) = stores.serve("plain", &[]);
    stores.ok(
        "complete",
        &[&["replicate", "--once", "--from", &over_tls], &KNOWN[..]].concat(),
    );
    let stranger = ["--certificate", "stranger.pem", "--private-key", "stranger.key"];
    let ours = ["--authority", "ca.pem"];
    let cases: [(&str, Vec<&str>, &str, &str); 7] = [
        (
            &over_tls,
            [&["--authority", "other.pem"], &KNOWN[2..]].concat(),
            "a certificate of a trusted authority was expected, and its certificate is of another one",
            "with --authority",
        ),
        (
            &over_tls,
            [&KNOWN[..], &["--server-name", "db.example.org"]].concat(),
            "a certificate for db.example.org was expected, and its certificate is for 127.0.0.1",
            "--server-name",
        ),
        (
            &over_tls,
            ours.to_vec(),
            "it expects a certificate, and none was shown",
            "--certificate",
        ),
        (
            &over_tls,
            [&ours[..], &stranger].concat(),
            "it expects a certificate that it trusts, and refuses the one that was shown",
            "add the authority at the other end",
        ),
        (
            &over_tls,
            vec![],
            "it expects TLS, and this end does not use TLS",
            "--authority",
        ),
        (
            &without,
            ours.to_vec(),
            "TLS was expected, and it does not use TLS",
            "Leave out --authority",
        ),
        (
            &without,
            KNOWN.to_vec(),
            "TLS was expected, and it does not use TLS",
            "Leave out --authority",
        ),
    ];
    for (address, tls, what, advice) in &cases {
        // It would go on for ever, and so would the test.
        for once in [&[][..], &["--once"]] {
            let arguments = [&["replicate", "--from", address], &tls[..], once].concat();
            let said = stores.fails("replica", &arguments, what);
            assert!(said.contains(&format!("no connection to {address}: ")), "{said}");
            assert!(said.contains(advice) && said.lines().count() == 1, "{said}");
        }
        let arguments = [&["promote", "--fence", address], &tls[..]].concat();
        let said = stores.fails("complete", &arguments, what);
        assert!(said.contains("nothing was promoted") && said.contains(advice), "{said}");
    }
    let half = stores.run(
        "replica",
        &["replicate", "--from", &over_tls, "--certificate", "replica.pem"],
    );
    assert!(half.code == 2 && half.err.contains("--private-key"), "{half:?}");
    let no_key = [&["replicate", "--from", &over_tls], &KNOWN[..5], &["ca.pem"]].concat();
    stores.fails("replica", &no_key, "there is no private key in it");
    let followed = stores.ok(
        "replica",
        &[&["replicate", "--once", "--from", &over_tls], &KNOWN[..]].concat(),
    );
    assert!(followed.contains("has all"), "{followed}");
    assert_eq!((private.end(), plain.end()), (Some(0), Some(0)));
    stores.assert_same("store", "replica");
}

#[test]
fn without_an_answer_it_tries_a_number_of_times_and_then_fails() {
    let stores = Stores::new();
    let nothing = format!("127.0.0.1:{}", free_port());
    // Something else listens there.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let web = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1000]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let cases: [(&str, &[&str], &str); 5] = [
        (
            &nothing,
            &["--once"],
            "connection refused; gave up after 10 tries. Check",
        ),
        (
            &nothing,
            &["--once", "--tries", "2"],
            "connection refused; gave up after 2 tries. Check",
        ),
        (
            &nothing,
            &["--tries", "2"],
            "connection refused; gave up after 2 tries. Check",
        ),
        (
            &web,
            &["--once", "--tries", "2"],
            "gave up after 2 tries. Check that the other end runs the same version",
        ),
        (
            "nowhere.invalid:7117",
            &["--once", "--tries", "1"],
            "gave up after 1 try. Check",
        ),
    ];
    std::thread::scope(|scope| {
        for (number, (address, more, what)) in cases.iter().enumerate() {
            let (stores, replica) = (&stores, format!("replica-{number}"));
            scope.spawn(move || {
                let said = stores.fails(&replica, &[&["replicate", "--from", address], *more].concat(), what);
                let retries = said.matches("trying again").count();
                let expected = usize::from(!more.contains(&"1"));
                assert_eq!(retries, expected, "each reason is said once: {said}");
            });
        }
    });
    // What has received nothing has nothing to give, either.
    for command in [&["promote"][..], &["serve", "--listen", "127.0.0.1:0"]] {
        stores.fails(
            "replica-1",
            command,
            "has not received all of its primary's contents yet",
        );
    }
    // Without a number of tries it goes on, and follows once it can.
    let mut waiting = stores.start("waiting", &["replicate", "--from", &nothing]);
    waiting.says("cannot connect to 127.0.0.1:");
    stores.ok("store", &["put", "a"]);
    let primary = stores.serve_at(&nothing, "store", &[]);
    let begun = Instant::now();
    loop {
        assert_eq!(waiting.end(), Some(0));
        if stores.run("waiting", &["get", "a"]).code == 0 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "it never follows");
        waiting = stores.start("waiting", &["replicate", "--from", &nothing]);
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(primary.end(), Some(0));
}

#[test]
fn a_fenced_primary_takes_no_write_and_loses_none() {
    for tls in [false, true] {
        let stores = Stores::new();
        write_identities(&stores.home);
        let (served, known): (&[&str], &[&str]) = if tls { (&SERVED_OVER_TLS, &KNOWN) } else { (&[], &[]) };
        stores.load("store", 200_000, 1);
        let (primary, address) = stores.serve("store", served);
        for replica in ["replica", "other"] {
            stores.ok(replica, &[&["replicate", "--once", "--from", &address], known].concat());
        }
        let fence = [&["promote", "--fence", &address], known].concat();
        assert_eq!(primary.end(), Some(0));

        // It can't be reached: nothing is promoted.
        let said = stores.fails(
            "replica",
            &[&fence[..], &["--tries", "2"]].concat(),
            "nothing was promoted",
        );
        assert!(said.contains("gave up after 2 tries"), "{said}");
        stores.fails("replica", &["put", "a"], "the store is a replica");
        stores.ok("own", &["put", "a"]);
        stores.fails("own", &["promote"], "is no replica");

        // The replica takes what it lacks, and the old primary is ended for good.
        stores.ok("store", &["put", "late"]);
        let mut primary = stores.serve_at(&address, "store", served);
        let said = stores.ok("replica", &fence);
        assert!(
            said.contains(&format!("the store at {address} takes no more changes")),
            "{said}"
        );
        assert!(said.contains("now the primary") && said.contains("epoch 2"), "{said}");
        primary.says("another store takes the place of this one, in epoch 2");
        primary.kill();
        for _ in 0..2 {
            let said = stores.fails("store", &["put", "lost"], "was fenced");
            assert!(said.contains("--discard") && said.contains("--force"), "{said}");
            stores.fails("store", &["delete", "late"], "was fenced");
            stores.fails("store", &["promote"], "was fenced");
        }
        stores.ok("store", &["get", "late"]);
        stores.ok("replica", &["get", "late"]);
        stores.ok("replica", &["put", "new"]);

        // It may be said again, and no other replica takes the place, too.
        let primary = stores.serve_at(&address, "store", served);
        let again: Value = serde_json::from_str(&stores.ok("replica", &[&fence[..], &["--json"]].concat())).unwrap();
        assert_eq!(
            (&again["epoch"], &again["fenced"]["epoch"]),
            (&2.into(), &1.into()),
            "{again}"
        );
        let said = stores.fails("other", &fence, "was fenced before, for epoch 2");
        assert!(
            said.contains("nothing was promoted") && said.contains("--force"),
            "{said}"
        );
        assert_eq!(primary.end(), Some(0));

        // The old primary and the other replica follow the new one.
        let primary = stores.serve_at(&address, "replica", served);
        for (replica, more) in [("store", &["--discard"][..]), ("other", &[])] {
            stores.ok(
                replica,
                &[&["replicate", "--once", "--from", &address], known, more].concat(),
            );
        }
        stores.fails("replica", &fence, "open already");
        assert_eq!(primary.end(), Some(0));
        for replica in ["store", "other"] {
            stores.assert_same("replica", replica);
        }
        // Only a primary can be fenced, and only by a later one.
        let replica = stores.serve_at(&address, "other", served);
        let said = stores.fails("replica", &fence, "it is a replica, which writes nothing by itself");
        assert!(!said.contains("may still take changes"), "{said}");
        assert_eq!(replica.end(), Some(0));
    }
}

#[test]
fn a_fenced_primary_takes_back_its_place_by_force() {
    let stores = Stores::new();
    stores.ok("store", &["put", "a"]);
    let (primary, address) = stores.serve("store", &[]);
    stores.ok("replica", &["replicate", "--once", "--from", &address]);
    stores.ok("replica", &["promote", "--fence", &address]);
    assert_eq!(primary.end(), Some(0));
    // The new primary is lost.
    std::fs::remove_dir_all(stores.home.path("replica")).unwrap();
    stores.fails("store", &["promote"], "--force");
    let said = stores.ok("store", &["promote", "--force"]);
    assert!(said.contains("epoch 3"), "{said}");
    stores.ok("store", &["put", "b"]);
}

#[test]
fn credentials_are_for_nats_and_have_to_be_some() {
    let stores = Stores::new();
    stores.home.write("no.creds", "nothing");
    let replicate = |from, file| ["replicate", "--once", "--from", from, "--nats-credentials", file];
    let ran = stores.run("replica", &replicate("127.0.0.1:1", "no.creds"));
    let words = "--nats-credentials does not go with HOST:PORT";
    assert!(ran.code == 2 && ran.err.contains(words), "{ran:?}");
    let published = "nats://127.0.0.1:1/wiki";
    for (arguments, words) in [
        (
            replicate(published, "no.creds"),
            "the credentials for NATS cannot be used: there is no JWT of a user in them",
        ),
        (
            replicate(published, "absent.creds"),
            "cannot read absent.creds: no such file or directory",
        ),
    ] {
        stores.fails("replica", &arguments, words);
    }
}

#[test]
fn options_of_a_fence_need_one() {
    let stores = Stores::new();
    stores.ok("store", &["put", "a"]);
    for (arguments, what) in [
        (&["promote", "--authority", "ca.pem"][..], "Add --fence"),
        (&["promote", "--tries", "2"], "Add --fence"),
        (
            &["promote", "--fence", "nats://127.0.0.1/wiki"],
            "its successor publishes",
        ),
        (&["promote", "--fence", "somewhere"], "expected HOST:PORT"),
        (&["promote", "--fence", "127.0.0.1:1", "--tries", "0"], "0 is not in"),
    ] {
        let refused = stores.run("store", arguments);
        assert!(
            refused.code == 2 && refused.err.contains(what),
            "{arguments:?}: {refused:?}"
        );
    }
}

#[test]
fn a_purge_of_a_store_with_a_log_says_what_keeps_the_bytes_and_reaches_replicas() {
    let stores = Stores::new();
    stores.home.write("pages.jsonl", "{\"key\": \"a\"}\n".repeat(4));
    stores.ok("primary", &["load", "pages.jsonl"]);
    let (serving, address) = stores.serve("primary", &[]);
    stores.ok("replica", &["replicate", "--from", &address, "--once"]);
    assert_eq!(serving.end(), Some(0));
    // From now on its log names what is written.
    stores.ok("primary", &["load", "pages.jsonl"]);
    let said = stores.ok("primary", &["purge", "a", "5-6"]);
    assert!(
        said.contains("the log for replicas keeps their bytes: add --truncate-log"),
        "{said}"
    );
    assert!(
        stores
            .ok("primary", &["compact"])
            .contains("except 2 records, which the log for replicas keeps")
    );
    let (serving, address) = stores.serve("primary", &[]);
    stores.ok("replica", &["replicate", "--from", &address, "--once"]);
    assert_eq!(serving.end(), Some(0));
    let versions = |store| {
        let said = stores.ok(store, &["versions", "a", "--json"]);
        let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["type"] == "version").collect::<Vec<_>>()
    };
    assert_eq!(
        (versions("replica"), versions("replica").len()),
        (versions("primary"), 6),
        "with the same times"
    );
    let said = stores.ok("primary", &["purge", "a", "7", "--truncate-log"]);
    assert!(said.contains("run `ibid records compact`"), "{said}");
    let said = stores.ok("primary", &["compact"]);
    assert!(
        said.contains("no file has bytes of what was purged") && !said.contains("except"),
        "{said}"
    );
    stores.fails("replica", &["purge", "a", "1"], "replica of another");
    stores.fails("replica", &["retention", "--keep-last", "1"], "replica of another");
    stores.fails("replica", &["expire"], "replica of another");
}
