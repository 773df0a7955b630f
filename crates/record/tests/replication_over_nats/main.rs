//! Replicas follow through NATS JetStream, whichever server or process is killed. The tests run the
//! real server on the loopback interface.
//!
//! Needs `nats-server`, or another program that is it: `cargo test -p ibid-record --test
//! replication_over_nats -- --ignored` takes the one that `IBID_NATS_SERVER` names. Without
//! `--ignored`, cargo lists these tests as ignored; with it, a server that is missing is a failure.
//! `IBID_NATS_ROUNDS=50` kills more often.

mod accounts;
#[path = "../record/common/mod.rs"]
mod common;
mod ports;
mod servers;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use accounts::Operator;
use common::{assert_same_tables, folder};
use ibid_format::record::{self, EntrySpan, Epoch, Query, Request, split_message};
use ibid_record::replicate::nats::{self, Address, Published, Publishing};
use ibid_record::replicate::net::tls;
use ibid_record::replicate::{self, Oplog, Progress, Receiver, Sender};
use ibid_record::{Compacting, Durability, Error, Namespace, Options, Refusal, Role, Store, Versions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use servers::{PATIENCE, Process, Servers, http};

/// The address and the folder for the process that publishes.
const PUBLISH: &str = "IBID_TEST_PUBLISH";

/// Nothing is compressed in the background, so that the tables of all stores can be compared.
fn options() -> Options {
    Options::default()
        .with_durability(Durability::Batched(Duration::from_millis(50)))
        .with_compacting(Compacting::default().with_enabled(false))
}

fn primary(folder: &Path) -> Store {
    let oplog = true;
    Store::open(folder, options().with_oplog(oplog)).unwrap()
}

fn replica(folder: &Path) -> Store {
    let store = Store::open(folder, options()).unwrap();
    store.follow().unwrap();
    store
}

fn position(store: &Store) -> u64 {
    store.log().unwrap().unwrap().next
}

/// Writes records with these numbers; some are similar to others, some replace others.
fn write(pages: &Namespace, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let mut body = common::noise(2000, number % 5);
        body.extend_from_slice(&number.to_le_bytes());
        pages.put(format!("page {}", number % 50).as_bytes(), &body).unwrap();
    }
}

/// Returns bytes that cannot be compressed.
fn random(length: usize, mut seed: u64) -> Vec<u8> {
    let bytes = std::iter::repeat_with(|| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
    });
    bytes.take(length).collect()
}

/// Sets a flag when it is dropped, so that threads that wait for it end even if the test fails.
struct Stops<'s>(Vec<&'s AtomicBool>);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|stop| stop.store(true, Relaxed));
    }
}

/// Waits until a condition holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: waited in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Follows the published log until the store has reached a position.
fn catch_up(store: &Store, address: &Address, head: u64) -> Result<(), Error> {
    let (stop, begun) = (AtomicBool::new(false), Instant::now());
    let mut log = Published::at(address.clone())?;
    replicate::follow(store, &mut log, &stop, &mut |_| {
        let is_late = begun.elapsed() > PATIENCE;
        if is_late || (position(store) >= head && store.snapshot().is_ok()) {
            stop.store(true, Relaxed);
        }
    })?;
    assert!(position(store) >= head, "it never catches up");
    Ok(())
}

/// Publishes until everything is acknowledged.
fn publish_all(store: &Store, address: &Address, publishing: Publishing) -> Result<(), Error> {
    // Nothing else may be appended to the log at the same time. A replica has nothing to encode.
    let encoded = store.finish_encoding();
    assert!(matches!(encoded, Ok(()) | Err(Error::IsReplica)), "{encoded:?}");
    let (stop, begun) = (AtomicBool::new(false), Instant::now());
    let mut failed = None;
    nats::publish(store, address, publishing, &stop, &mut |told| match told {
        Ok(progress) if progress.is_current() => stop.store(true, Relaxed),
        Ok(_) => {}
        Err(error) => {
            failed = Some(error.clone());
            stop.store(begun.elapsed() > PATIENCE, Relaxed);
        }
    })?;
    assert!(begun.elapsed() < PATIENCE, "it never publishes: {failed:?}");
    Ok(())
}

/// Makes one request and takes its answer. Returns the progress.
fn step(receiver: &mut Receiver, log: &mut dyn Oplog) -> Result<Progress, Error> {
    let never = AtomicBool::new(false);
    let answer = log.answer(&receiver.ask()?, &never)?;
    receiver.take(&answer.expect("nobody stops it"))
}

#[test]
#[ignore = "needs a server: cargo test -p ibid-record --test replication_over_nats -- --ignored"]
fn replicas_have_the_same_though_servers_are_killed() {
    let mut servers = Servers::start(3);
    let address = servers.address("pages");
    let places = folder();
    let place = |name: &str| places.path().join(name);
    let store = primary(&place("primary"));
    let copies = ["one", "two"].map(|name| replica(&place(name)));
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    let (stop, done, acknowledged) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let stops = Stops(vec![&stop]);
        let publishing = scope.spawn(|| {
            nats::publish(&store, &address, Publishing::default(), &stop, &mut |told| {
                if let Ok(Progress::Entries { position, .. }) = told {
                    acknowledged.store(position, Relaxed);
                }
            })
        });
        let following: [ScopedJoinHandle<'_, _>; 2] = [&copies[0], &copies[1]].map(|copy| {
            let (address, stop) = (&address, &stop);
            scope.spawn(move || {
                let mut log = Published::at(address.clone()).unwrap();
                replicate::follow(copy, &mut log, stop, &mut |_| {})
            })
        });
        // Writes are always under way.
        let ends = Stops(vec![&done]);
        let writing = scope.spawn(|| {
            for number in 0.. {
                if done.load(Relaxed) {
                    break;
                }
                write(&pages, number..number + 1);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let goes_on = |what: &str| {
            let head = position(&store) + 20;
            until(what, || acknowledged.load(Relaxed) >= head);
        };
        goes_on("nothing is published");
        assert_eq!(replicas_of_the_stream(&servers), 3);
        for round in 0..rounds(2) {
            // In turn the leader of the stream, so that the others elect another, and a server that
            // is not the leader. No acknowledged record is lost.
            let leader = servers.leader();
            let victim = (leader + round % 2 * (1 + round / 2 % 2)) % 3;
            servers.kill(victim);
            goes_on("nothing is published without a server");
            if round + 1 == rounds(2) {
                break;
            }
            servers.run(victim);
            until("the server does not come back", || is_current(&servers));
        }
        drop(ends);
        writing.join().unwrap();
        store.finish_encoding().unwrap();
        let head = position(&store);
        until("not everything is published", || acknowledged.load(Relaxed) >= head);
        for copy in &copies {
            until("a replica never catches up", || position(copy) >= head);
        }
        drop(stops);
        publishing.join().unwrap().unwrap();
        for following in following {
            following.join().unwrap().unwrap();
        }
    });
    drop((pages, store, copies));
    for copy in ["one", "two"] {
        assert_same_tables(&[&place("primary"), &place(copy)], false);
    }
}

/// Returns the number of servers that are to keep the stream.
fn replicas_of_the_stream(servers: &Servers) -> usize {
    let said = http(servers.ports[servers.leader()][1], "/jsz?streams=true&config=true");
    let config = &said["account_details"][0]["stream_detail"][0]["config"];
    config["num_replicas"].as_u64().unwrap() as usize
}

/// Returns whether all servers have the whole stream, as its leader reports.
fn is_current(servers: &Servers) -> bool {
    let leader = servers.leader();
    let said = http(servers.ports[leader][1], "/jsz?streams=true");
    let cluster = &said["account_details"][0]["stream_detail"][0]["cluster"];
    let others = cluster["replicas"].as_array();
    cluster["leader"] == format!("n{leader}")
        && others.is_some_and(|others| others.len() == 2 && others.iter().all(|other| other["current"] == true))
}

/// Returns the number of kills: that of `IBID_NATS_ROUNDS`, or else this one.
fn rounds(usually: usize) -> usize {
    let said = std::env::var("IBID_NATS_ROUNDS");
    said.map_or(usually, |said| said.parse().expect("a number"))
}

/// The process that writes, publishes and is killed, which is this test itself.
struct Publisher(#[allow(dead_code, reason = "it is killed when it is dropped")] Process);

impl Publisher {
    fn start(address: &Address, folder: &Path, records: u32) -> Self {
        let program = std::env::current_exe().unwrap();
        let child = Command::new(program)
            .args(["publishes_in_another_process", "--exact", "--ignored"])
            .env(PUBLISH, format!("{address} {records} {}", folder.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Publisher(Process(child.unwrap()))
    }
}

#[test]
#[ignore = "it is a part of another test"]
fn publishes_in_another_process() {
    let Ok(told) = std::env::var(PUBLISH) else { return };
    let words: Vec<&str> = told.splitn(3, ' ').collect();
    let (address, records) = (words[0].parse().unwrap(), words[1].parse().unwrap());
    let store = primary(Path::new(words[2]));
    let never = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| nats::publish(&store, &address, Publishing::default(), &never, &mut |_| {}).unwrap());
        let pages = store.namespace("pages", Versions::Kept).unwrap();
        write(&pages, 0..records);
    });
}

#[test]
#[ignore = "needs a server: cargo test -p ibid-record --test replication_over_nats -- --ignored"]
fn a_publisher_that_is_killed_goes_on_and_so_does_a_server_that_is_alone() {
    let mut servers = Servers::start(1);
    let address = servers.address("pages");
    let places = folder();
    let (place, other): (PathBuf, PathBuf) = (places.path().join("primary"), places.path().join("replica"));
    let copy = replica(&other);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stops = Stops(vec![&stop]);
        let following = scope.spawn(|| {
            let mut log = Published::at(address.clone()).unwrap();
            replicate::follow(&copy, &mut log, &stop, &mut |_| {})
        });
        for round in 0..rounds(4) as u64 {
            let before = position(&copy);
            let publisher = Publisher::start(&address, &place, 100_000);
            until("nothing comes after a start", || {
                position(&copy) > before + 20 * (round % 4 + 1)
            });
            if round % 4 == 2 {
                servers.kill(0);
                servers.run(0);
                let before = position(&copy);
                until("nothing comes after the server's restart", || {
                    position(&copy) > before + 20
                });
            }
            drop(publisher);
        }
        let store = primary(&place);
        publish_all(&store, &address, Publishing::default()).unwrap();
        let head = position(&store);
        until("the replica never catches up", || position(&copy) >= head);
        drop(stops);
        following.join().unwrap().unwrap();
    });
    drop(copy);
    assert_same_tables(&[&place, &other], false);
}

#[test]
#[ignore = "needs a server: cargo test -p ibid-record --test replication_over_nats -- --ignored"]
fn one_of_two_primaries_publishes_and_the_other_is_fenced() {
    let servers = Servers::start(1);
    let address = servers.address("pages");
    let places = folder();
    let place = |name: &str| places.path().join(name);
    let old = primary(&place("old"));
    let pages = old.namespace("pages", Versions::Kept).unwrap();
    write(&pages, 0..20);
    publish_all(&old, &address, Publishing::default()).unwrap();
    let [new, late, same] = ["new", "late", "same"].map(|name| replica(&place(name)));
    catch_up(&late, &address, position(&old)).unwrap();
    write(&pages, 20..40);
    publish_all(&old, &address, Publishing::default()).unwrap();
    for copy in [&new, &same] {
        catch_up(copy, &address, position(&old)).unwrap();
        assert_eq!(position(copy), position(&old));
    }
    // A replica does not publish, and another store needs another name.
    let refused = publish_all(&new, &address, Publishing::default());
    assert!(matches!(refused, Err(Error::IsReplica)), "{refused:?}");
    let other = primary(&place("other"));
    let refused = publish_all(&other, &address, Publishing::default());
    assert!(matches!(refused, Err(Error::OtherStream)), "{refused:?}");

    // A store that was promoted too early must not publish over entries that it lacks.
    late.promote().unwrap();
    let refused = publish_all(&late, &address, Publishing::default());
    assert!(
        matches!(refused, Err(Error::StreamDiffers { position: at }) if at == position(&old)),
        "{refused:?}"
    );

    // The old primary writes on, and does not know yet.
    new.promote().unwrap();
    new.namespace("pages", Versions::Kept)
        .unwrap()
        .put(b"page 1", b"by the new one")
        .unwrap();
    publish_all(&new, &address, Publishing::default()).unwrap();
    pages.put(b"page 1", b"by the old one, which nobody else has").unwrap();
    let refused = publish_all(&old, &address, Publishing::default());
    assert!(matches!(refused, Err(Error::Fenced { by: 2 })), "{refused:?}");
    assert!(matches!(pages.put(b"page 1", b""), Err(Error::Fenced { by: 2 })));
    // A store of the same epoch neither publishes nor is followed.
    same.promote().unwrap();
    let refused = publish_all(&same, &address, Publishing::default());
    assert!(matches!(refused, Err(Error::StreamDiffers { .. })), "{refused:?}");
    same.follow().unwrap();
    let refused = catch_up(&same, &address, u64::MAX);
    assert!(
        matches!(refused, Err(Error::Refused(Refusal::OtherEpoch))),
        "{refused:?}"
    );

    // The old primary becomes a replica, and takes all contents of the new one, which must answer
    // for that.
    drop(pages);
    old.follow().unwrap();
    let mut log = Published::at(address.clone()).unwrap();
    let mut receiver = Receiver::new(&old).unwrap();
    assert_eq!(step(&mut receiver, &mut log).unwrap(), Progress::Nothing);
    let alone = step(&mut receiver, &mut log).unwrap_err();
    assert!(
        matches!(&alone, Error::Nats { found, .. } if found.contains("no store publishes")),
        "{alone:?}"
    );
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stops = Stops(vec![&stop]);
        let publishing = scope.spawn(|| nats::publish(&new, &address, Publishing::default(), &stop, &mut |_| {}));
        catch_up(&old, &address, position(&new)).unwrap();
        drop(stops);
        publishing.join().unwrap().unwrap();
    });
    assert_eq!(old.log().unwrap().unwrap().role, Role::Replica);
    assert_eq!(old.log().unwrap().unwrap().epoch, 2);
    drop((log, receiver, old, new));
    assert_same_tables(&[&place("old"), &place("new")], false);
}

#[test]
#[ignore = "needs a server: cargo test -p ibid-record --test replication_over_nats -- --ignored"]
fn one_of_two_stores_that_publish_at_once_succeeds() {
    let servers = Servers::start(1);
    for round in 0..4 {
        let address = servers.address(&format!("round-{round}"));
        let places = folder();
        let place = |name: &str| places.path().join(name);
        let old = primary(&place("old"));
        let pages = old.namespace("pages", Versions::Kept).unwrap();
        write(&pages, 0..5);
        publish_all(&old, &address, Publishing::default()).unwrap();
        let new = replica(&place("new"));
        catch_up(&new, &address, position(&old)).unwrap();
        // Each has an entry that the other lacks, at the same position.
        new.promote().unwrap();
        pages.put(b"page 0", b"by the old one").unwrap();
        let stop = AtomicBool::new(false);
        let ended = std::thread::scope(|scope| {
            let stops = Stops(vec![&stop]);
            let publishing = [&old, &new].map(|store| {
                let (address, stop) = (&address, &stop);
                scope.spawn(move || nats::publish(store, address, Publishing::default(), stop, &mut |_| {}))
            });
            until("neither learns of the other", || {
                publishing.iter().any(ScopedJoinHandle::is_finished)
            });
            drop(stops);
            publishing.map(|publishing| publishing.join().unwrap())
        });
        let wins = match ended {
            [Err(Error::Fenced { by: 2 }), Ok(())] => &new,
            [Ok(()), Err(Error::StreamDiffers { .. })] => &old,
            other => panic!("{other:?}"),
        };
        publish_all(wins, &address, Publishing::default()).unwrap();
        let copy = replica(&place("copy"));
        catch_up(&copy, &address, position(wins)).unwrap();
        assert_eq!(position(&copy), position(wins));
        assert_eq!(copy.log().unwrap().unwrap().epoch, wins.log().unwrap().unwrap().epoch);
    }
}

#[test]
#[ignore = "needs a server: cargo test -p ibid-record --test replication_over_nats -- --ignored"]
fn a_replica_behind_the_stream_takes_removed_entries_from_the_primary() {
    let servers = Servers::start(1);
    let places = folder();
    let place = |name: &str| places.path().join(name);
    let store = primary(&place("primary"));
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    // Longer than a message of NATS, and not compressible.
    pages.put(b"long", &random(3_000_000, 7)).unwrap();
    write(&pages, 0..50);
    // One stream keeps everything, and one keeps hardly anything.
    let (all, few) = (servers.address("all"), servers.address("few"));
    let bytes_max = Publishing::default().with_bytes_max(2 << 20);
    publish_all(&store, &all, Publishing::default()).unwrap();
    publish_all(&store, &few, bytes_max).unwrap();
    // Long enough to push the long record out of the stream.
    pages.put(b"other", &random(1_500_000, 8)).unwrap();
    write(&pages, 50..60);
    publish_all(&store, &all, Publishing::default()).unwrap();
    publish_all(&store, &few, bytes_max).unwrap();

    // Without the primary, one stream has all of it, and the other does not.
    let [alone, asks, takes] = ["alone", "asks", "takes"].map(|name| replica(&place(name)));
    catch_up(&alone, &all, position(&store)).unwrap();
    let mut log = Published::at(few.clone()).unwrap();
    let missing = step(&mut Receiver::new(&asks).unwrap(), &mut log).unwrap_err();
    assert!(
        matches!(&missing, Error::Nats { found, .. } if found.contains("no store publishes")),
        "{missing:?}"
    );

    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stops = Stops(vec![&stop]);
        let publishing = scope.spawn(|| nats::publish(&store, &few, bytes_max, &stop, &mut |_| {}));
        // The primary's log still has these entries. After its truncation, all contents are sent,
        // in several parts.
        catch_up(&asks, &few, position(&store)).unwrap();
        store.truncate_log(u64::MAX).unwrap();
        write(&pages, 60..70);
        store.finish_encoding().unwrap();
        catch_up(&takes, &few, position(&store)).unwrap();
        catch_up(&asks, &few, position(&store)).unwrap();
        drop(stops);
        publishing.join().unwrap().unwrap();
    });
    publish_all(&store, &all, Publishing::default()).unwrap();
    catch_up(&alone, &all, position(&store)).unwrap();
    drop((pages, store, alone, asks, takes, log));
    for copy in ["alone", "asks", "takes"] {
        assert_same_tables(&[&place("primary"), &place(copy)], false);
    }
}

/// Appends any message to the stream of a single server.
fn append(servers: &Servers, name: &str, message: &[u8]) {
    let mut stream = TcpStream::connect(("127.0.0.1", servers.ports[0][0])).unwrap();
    write!(
        stream,
        "CONNECT {{\"verbose\":false}}\r\nPUB ibid.{name}.log {}\r\n",
        message.len()
    )
    .unwrap();
    stream.write_all(message).unwrap();
    stream.write_all(b"\r\nPING\r\n").unwrap();
    let mut said = Vec::new();
    while !said.windows(4).any(|said| said == b"PONG") {
        let mut more = [0; 1000];
        let read = stream.read(&mut more).unwrap();
        said.extend_from_slice(&more[..read]);
    }
}

#[test]
#[ignore = "needs a server: cargo test -p ibid-record --test replication_over_nats -- --ignored"]
fn an_incomplete_answer_is_passed_over_and_still_fences() {
    let servers = Servers::start(1);
    let address = servers.address("pages");
    let places = folder();
    let place = |name: &str| places.path().join(name);
    let store = primary(&place("primary"));
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    let copy = replica(&place("replica"));
    write(&pages, 0..20);
    publish_all(&store, &address, Publishing::default()).unwrap();
    catch_up(&copy, &address, position(&store)).unwrap();
    let mut receiver = Receiver::new(&copy).unwrap();
    // The first of three parts of the next answer, as a store of an epoch begins to publish it.
    let begun = |request: &[u8], number: u64| {
        let Request { store, epoch, query } = Request::decode(request).unwrap();
        let Query::Entries { next, digest, .. } = query else {
            panic!("{query:?}")
        };
        let span = EntrySpan {
            store,
            epoch: Epoch { number, ..epoch },
            from: next,
            next: next + 3,
            before: digest,
            digest: [9; 8],
        };
        let part = split_message(&[7; 100], 40).next().unwrap();
        record::PublishedPart { span, part }.encode()
    };
    append(&servers, "pages", &begun(&receiver.ask().unwrap(), 1));
    let mut log = Published::at(address.clone()).unwrap();
    assert!(step(&mut receiver, &mut log).unwrap().is_current());
    write(&pages, 20..40);
    publish_all(&store, &address, Publishing::default()).unwrap();
    while position(&copy) < position(&store) {
        step(&mut receiver, &mut log).unwrap();
    }
    // A store that begins to publish in a later epoch was promoted, even if it does not finish.
    append(&servers, "pages", &begun(&receiver.ask().unwrap(), 2));
    pages.put(b"page 1", b"by the old one").unwrap();
    let refused = publish_all(&store, &address, Publishing::default());
    assert!(matches!(refused, Err(Error::Fenced { by: 2 })), "{refused:?}");
    assert!(step(&mut receiver, &mut log).unwrap().is_current());
}

#[test]
#[ignore = "needs a server: cargo test -p ibid-record --test replication_over_nats -- --ignored"]
fn a_replica_continues_within_a_message_and_nonsense_is_an_error() {
    let servers = Servers::start(1);
    let address = servers.address("pages");
    let places = folder();
    let place = |name: &str| places.path().join(name);
    let store = primary(&place("primary"));
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    write(&pages, 0..30);
    store.finish_encoding().unwrap();
    let copy = replica(&place("replica"));
    let mut receiver = Receiver::new(&copy).unwrap();
    let mut sender = Sender::new(&store).unwrap().with_message_bytes(1);
    for _ in 0..10 {
        step(&mut receiver, &mut sender).unwrap();
    }
    let middle = position(&copy);
    assert!(middle > 5 && middle < position(&store));
    // Neither the stream nor a message in it exists.
    let mut log = Published::at(address.clone()).unwrap();
    let nothing = step(&mut receiver, &mut log).unwrap_err();
    assert!(matches!(&nothing, Error::NothingPublished { .. }), "{nothing:?}");
    // Everything is in one message, and the replica's position is inside it.
    publish_all(&store, &address, Publishing::default()).unwrap();
    let went_on = step(&mut receiver, &mut log).unwrap();
    assert!(
        matches!(went_on, Progress::Entries { position, .. } if position > middle),
        "{went_on:?}"
    );
    catch_up(&copy, &address, position(&store)).unwrap();

    // Another client that may publish there sends a message of another kind.
    append(&servers, "pages", b"hello");
    until("it is not told of nonsense", || {
        matches!(step(&mut receiver, &mut log), Err(Error::Message(_)))
    });
    let (stop, mut told_of_it) = (AtomicBool::new(false), false);
    nats::publish(&store, &address, Publishing::default(), &stop, &mut |told| {
        told_of_it = matches!(told, Err(Error::Message(_)));
        stop.store(true, Relaxed);
    })
    .unwrap();
    assert!(told_of_it);
    drop((pages, store, copy, receiver, sender, log));
    assert_same_tables(&[&place("primary"), &place("replica")], false);
}

#[test]
#[ignore = "needs a server: cargo test -p ibid-record --test replication_over_nats -- --ignored"]
fn only_trusted_clients_publish_and_read_over_tls() {
    let authority = || {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
    };
    let (ours, other) = (authority(), authority());
    let identity = |authority: &CertifiedIssuer<'_, KeyPair>, name: &str| {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new([name.to_owned()]).unwrap();
        [
            parameters.signed_by(&key, authority).unwrap().pem(),
            key.serialize_pem(),
        ]
    };
    let (certificates, shown, foreign) = (folder(), identity(&ours, "replica"), identity(&other, "replica"));
    let mut told: Vec<OsString> = vec!["--tls".into(), "--tlsverify".into()];
    let [certificate, key] = identity(&ours, "127.0.0.1");
    for (option, pem) in [
        ("--tlscert", certificate),
        ("--tlskey", key),
        ("--tlscacert", ours.pem()),
    ] {
        let path = certificates.path().join(&option[2..]);
        std::fs::write(&path, pem).unwrap();
        told.extend([option.into(), path.into()]);
    }
    let servers = Servers::told(1, told);
    let plain = servers.address("pages");
    let over = |authority: &CertifiedIssuer<'_, KeyPair>, shown: Option<&[String; 2]>| {
        let shown = shown.map(|[certificates, key]| tls::Identity {
            certificates: certificates.as_bytes(),
            key: key.as_bytes(),
        });
        plain.clone().with_tls(authority.pem().as_bytes(), shown).unwrap()
    };
    let known = over(&ours, Some(&shown));
    let known_identity = tls::Identity {
        certificates: shown[0].as_bytes(),
        key: shown[1].as_bytes(),
    };
    let places = folder();
    let store = primary(&places.path().join("primary"));
    // Longer than a message of NATS, and than a record of TLS.
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    pages.put(b"long", &random(3_000_000, 7)).unwrap();
    write(&pages, 0..20);
    publish_all(&store, &known, Publishing::default()).unwrap();
    let copy = replica(&places.path().join("replica"));
    // A client that does not trust the server, or is not trusted by it, gets nothing, and need not
    // try again. So does one without TLS.
    for (stranger, expected) in [
        (over(&other, Some(&shown)), "UnknownAuthority"),
        (over(&ours, None), "CertificateRequired"),
        (over(&ours, Some(&foreign)), "CertificateRefused"),
        (plain, "OnlyTls"),
    ] {
        for _ in 0..5 {
            let refused = catch_up(&copy, &stranger, position(&store));
            let Err(Error::Tls { fault, .. }) = refused else {
                panic!("{expected} expected, found {refused:?}")
            };
            assert!(format!("{fault:?}").starts_with(expected), "{fault:?}");
        }
        let refused = publish_all(&store, &stranger, Publishing::default());
        assert!(matches!(refused, Err(Error::Tls { .. })), "{refused:?}");
    }
    // A server without TLS does not matter as long as there is another one.
    let plain = Servers::start(1);
    let with_tls = |address: Address| address.with_tls(ours.pem().as_bytes(), Some(known_identity)).unwrap();
    let refused = catch_up(&copy, &with_tls(plain.address("pages")), position(&store));
    assert!(
        matches!(
            &refused,
            Err(Error::Tls {
                fault: tls::Fault::NoTls,
                ..
            })
        ),
        "{refused:?}"
    );
    let [one, other] = [&plain, &servers].map(|servers| servers.ports[0][0]);
    let both: Address = format!("nats://127.0.0.1:{one},127.0.0.1:{other}/pages")
        .parse()
        .unwrap();
    catch_up(&copy, &with_tls(both), position(&store)).unwrap();
    drop((pages, store, copy));
    let place = |name: &str| places.path().join(name);
    assert_same_tables(&[&place("primary"), &place("replica")], false);
}

#[test]
#[ignore = "needs a server: cargo test -p ibid-record --test replication_over_nats -- --ignored"]
fn a_file_of_credentials_logs_in_and_one_of_another_account_does_not() {
    let (operator, other) = (Operator::new(), Operator::new());
    let places = folder();
    let configuration = places.path().join("nats.conf");
    std::fs::write(&configuration, &operator.configuration).unwrap();
    let servers = Servers::told(1, vec!["--config".into(), configuration.into()]);
    let plain = servers.address("pages");
    let known = |file: &str| plain.clone().with_credentials(file.as_bytes()).unwrap();
    let store = primary(&places.path().join("primary"));
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    write(&pages, 0..20);
    publish_all(&store, &known(&operator.credentials()), Publishing::default()).unwrap();
    let copy = replica(&places.path().join("replica"));
    catch_up(&copy, &known(&operator.credentials()), position(&store)).unwrap();
    // The key of another user does not fit the token.
    let (one, two) = (operator.credentials(), operator.credentials());
    let crossed = [
        one.split_once("-----BEGIN USER").unwrap().0,
        "-----BEGIN USER",
        two.split_once("-----BEGIN USER").unwrap().1,
    ]
    .concat();
    for (address, words) in [
        (known(&other.credentials()), "credentials may have ended"),
        (known(&crossed), "credentials may have ended"),
        (plain.clone(), "wrong user, password or token"),
    ] {
        let mut log = Published::at(address).unwrap();
        let mut receiver = Receiver::new(&copy).unwrap();
        let refused = step(&mut receiver, &mut log).unwrap_err().to_string();
        assert!(
            refused.contains("Authorization Violation") && refused.contains(words),
            "{refused}"
        );
    }
    // A server that knows no operator asks for no signature.
    let open = Servers::start(1);
    let address = open
        .address("pages")
        .with_credentials(operator.credentials().as_bytes())
        .unwrap();
    let mut receiver = Receiver::new(&copy).unwrap();
    let refused = step(&mut receiver, &mut Published::at(address).unwrap())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("asks for no signature"), "{refused}");
    drop((pages, store, copy, receiver));
    let place = |name: &str| places.path().join(name);
    assert_same_tables(&[&place("primary"), &place("replica")], false);
}
