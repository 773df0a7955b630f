//! Replicas follow over the loopback interface, also after they were killed. Other clients that
//! connect do no harm.

#[path = "record/common/mod.rs"]
mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::folder;
use ibid_record::replicate::{self, Oplog, Progress, Receiver, net};
use ibid_record::{Options, Role, Store, Versions};

const RECORDS: u32 = 2000;

/// The address and the folder for the process that follows.
const FOLLOW: &str = "IBID_TEST_FOLLOW";

fn primary(folder: &Path) -> Store {
    let store = Store::open(folder.join("primary"), Options::default().with_oplog(true));
    store.unwrap()
}

/// Starts the process that follows, which is this test itself.
fn child(address: SocketAddr, folder: &Path) -> Child {
    let program = std::env::current_exe().unwrap();
    Command::new(program)
        .args(["follows_in_another_process", "--exact", "--ignored"])
        .env(FOLLOW, format!("{address} {}", folder.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "it is a part of the other test"]
fn follows_in_another_process() {
    let Ok(told) = std::env::var(FOLLOW) else { return };
    let (address, folder) = told.split_once(' ').unwrap();
    let store = Store::open(Path::new(folder), Options::default()).unwrap();
    store.follow().unwrap();
    let never = AtomicBool::new(false);
    let mut log = net::Connection::to(address);
    replicate::follow(&store, &mut log, &never, &mut |_| {}).unwrap();
}

/// Ends a server even if the test fails.
struct Stops<'s>(&'s AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_copy_continues_over_another_connection_while_the_primary_changes() {
    let folder = folder();
    let store = primary(folder.path());
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    let body = |number: u32| common::noise(1 << 20, number); // as much as a message has
    for number in 0..5_u32 {
        pages.put(&number.to_be_bytes(), &body(number)).unwrap();
    }
    store.finish_encoding().unwrap();
    store.truncate_log(u64::MAX).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| net::serve(&store, &listener, None, &stop));
        let stops = Stops(&stop);
        let copy = Store::open(folder.path().join("replica"), Options::default()).unwrap();
        copy.follow().unwrap();
        let mut parts = Vec::new();
        // Each answer comes over a connection of its own.
        for number in 0.. {
            let mut receiver = Receiver::new(&copy).unwrap();
            let mut step = || {
                let answer = net::Connection::to(address).answer(&receiver.ask().unwrap(), &stop);
                receiver.take(&answer.unwrap().expect("it is not stopped")).unwrap()
            };
            let mut progress = step();
            if progress == Progress::Nothing {
                progress = step(); // it was told to copy the whole store
            }
            if progress.is_current() {
                break;
            }
            parts.push(progress);
            pages.put(b"meanwhile", &[number]).unwrap();
            assert!(number < 20, "{parts:?}");
        }
        assert_eq!(
            parts.iter().filter(|&&progress| progress == Progress::Began).count(),
            1,
            "{parts:?}"
        );
        assert!(
            parts.iter().filter(|&&progress| progress == Progress::Part).count() >= 3,
            "{parts:?}"
        );
        let copied = copy.find_namespace("pages").unwrap().unwrap();
        for number in 0..5_u32 {
            assert!(copied.get(&number.to_be_bytes()).unwrap() == Some(body(number)));
        }
        assert_eq!(copied.get(b"meanwhile").unwrap(), pages.get(b"meanwhile").unwrap());
        drop(stops);
        serving.join().unwrap().unwrap();
    });
}

#[test]
fn a_store_that_has_only_a_part_is_not_served() {
    let folder = folder();
    let store = primary(folder.path());
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    for number in 0..3_u32 {
        pages
            .put(&number.to_be_bytes(), &common::noise(1 << 20, number))
            .unwrap();
    }
    store.truncate_log(u64::MAX).unwrap();
    let part = Store::open(folder.path().join("part"), Options::default()).unwrap();
    part.follow().unwrap();
    let mut sender = replicate::Sender::new(&store).unwrap();
    let mut receiver = Receiver::new(&part).unwrap();
    while receiver
        .take(&sender.answer(&receiver.ask().unwrap()).unwrap())
        .unwrap()
        != Progress::Began
    {}
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let never = AtomicBool::new(false);
    let refused = net::serve(&part, &listener, None, &never);
    assert!(matches!(refused, Err(ibid_record::Error::Incomplete)), "{refused:?}");
}

#[test]
fn a_replica_that_is_killed_goes_on_and_can_be_promoted() {
    let folder = folder();
    let store = primary(folder.path());
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    let replica = folder.path().join("replica");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| net::serve(&store, &listener, None, &stop));
        let stops = Stops(&stop);
        for round in 0..4 {
            let mut child = child(address, &replica);
            for number in 0..RECORDS / 4 {
                let body = common::noise(2000, round * 7 + number % 3);
                pages.put(format!("page {}", number % 50).as_bytes(), &body).unwrap();
            }
            std::thread::sleep(Duration::from_millis(100 * u64::from(round)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        // One peer sends nonsense, another announces a long message and sends nothing.
        for nonsense in [
            &b"\x10\0\0\0GET / HTTP/1.1\r\n"[..],
            b"\xff\xff\xff\xff",
            b"\x08\0\0\0abc",
        ] {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(nonsense).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer); // the connection may be reset
            assert!(answer.is_empty());
        }
        let copy = Store::open(&replica, Options::default()).unwrap();
        copy.follow().unwrap();
        let (head, done) = (store.log().unwrap().unwrap().next, AtomicBool::new(false));
        let begun = Instant::now();
        let mut seen = |_: Result<_, &ibid_record::Error>| {
            let position = copy.log().unwrap().unwrap().next;
            assert!(begun.elapsed() < Duration::from_secs(60), "it never catches up");
            done.store(position >= head, Ordering::Relaxed);
        };
        replicate::follow(&copy, &mut net::Connection::to(address), &done, &mut seen).unwrap();
        let copied = copy.find_namespace("pages").unwrap().unwrap();
        for number in 0..50 {
            let key = format!("page {number}");
            let versions = pages.versions(key.as_bytes()).unwrap();
            assert_eq!(copied.versions(key.as_bytes()).unwrap(), versions);
            for version in versions {
                let of = |pages: &ibid_record::Namespace| pages.get_version(key.as_bytes(), version.version).unwrap();
                assert_eq!(of(&copied), of(&pages));
            }
        }
        drop(stops);
        serving.join().unwrap().unwrap();
        copy.promote().unwrap();
        assert_eq!(copy.log().unwrap().unwrap().role, Role::Primary);
        copied.put(b"page 0", b"by the new one").unwrap();
    });
}
