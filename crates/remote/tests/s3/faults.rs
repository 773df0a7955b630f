//! What goes wrong on the way is tried again, or said; and never is a byte wrong or an acknowledged object lost.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ibid_remote::{Credentials, Options};
use ibid_s3_server::{Fault, Operation, Server};
use ibid_storage::{ErrorKind, Name, Storage};

use crate::{name, options, storage, storage_with};

const SHORT: Duration = Duration::from_millis(100);

#[test]
fn an_answer_that_is_lost_does_not_make_a_put_fail() {
    let server = Server::start();
    let place = storage(&server, "bucket/place");
    let faults = [
        Fault::LoseAnswer,
        Fault::DoneBut(500),
        Fault::DoneBut(503),
        Fault::Refuse(503),
        Fault::Refuse(429),
        Fault::Refuse(409),
        Fault::Stall(Duration::from_secs(3)),
        Fault::Late(SHORT),
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let object = name(&format!("{number}"));
        server.faults().next(Operation::Put, fault);
        place
            .put(&object, &[b"some ", b"bytes"])
            .unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        std::thread::sleep(2 * SHORT);
        assert_eq!(place.get(&object, 100).unwrap(), b"some bytes", "{fault:?}");
        assert!(
            place.requests().again > number as u64,
            "{fault:?}: {:?}",
            place.requests()
        );
    }
}

#[test]
fn a_put_that_may_have_been_done_twice_is_told() {
    let server = Server::start();
    let place = storage(&server, "bucket/place");
    let put = |object: &str, faults: &[Fault]| {
        for fault in faults {
            server.faults().next(Operation::Put, *fault);
        }
        place.put_noting_repeats(&name(object), &[b"bytes"]).unwrap()
    };
    assert!(!put("at-once", &[]));
    assert!(!put("limit", &[Fault::Refuse(409)]), "nothing was done");
    assert!(
        !put("found", &[Fault::LoseAnswer]),
        "the second one has found the first"
    );
    // The server may have stored it all the same, and someone may have deleted it since.
    assert!(put("again", &[Fault::Refuse(503)]));
    assert!(put("found-again", &[Fault::Refuse(503), Fault::LoseAnswer]));
}

#[test]
fn the_object_of_someone_else_is_not_taken_for_ones_own() {
    let server = Server::start();
    let place = storage(&server, "bucket/place");
    for fault in [
        Fault::Refuse(503),
        Fault::Refuse(409),
        Fault::LoseAnswer,
        Fault::Late(SHORT),
    ] {
        for (other, bytes) in [("short", &b"other"[..]), ("alike", b"some bytez"), ("long", &[7; 1000])] {
            let object = name(&format!("{other}-{}", server.keys("bucket").len()));
            server.set("bucket", &format!("place/{object}"), Some(bytes.to_vec()));
            server.faults().next(Operation::Put, fault);
            let error = place.put(&object, &[b"some bytes"]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{fault:?}: {error}");
            assert_eq!(
                server.object("bucket", &format!("place/{object}")).unwrap(),
                bytes,
                "{fault:?}"
            );
        }
    }
    // The same bytes that someone has stored before are theirs, unless an own put may have landed.
    let object = name("same");
    server.set("bucket", "place/same", Some(b"some bytes".to_vec()));
    assert_eq!(
        place.put(&object, &[b"some bytes"]).unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    server.faults().next(Operation::Put, Fault::Refuse(409));
    assert_eq!(
        place.put(&object, &[b"some bytes"]).unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
}

#[test]
fn what_is_read_is_whole_or_an_error() {
    let server = Server::start();
    let place = storage(&server, "bucket/place");
    let bytes: Vec<u8> = (0..400_000_u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
    place.put(&name("object"), &[&bytes]).unwrap();
    let faults = [
        Fault::Refuse(500),
        Fault::Refuse(503),
        Fault::LoseAnswer,
        Fault::CutAnswer,
        Fault::Stall(Duration::from_secs(3)),
    ];
    for fault in faults {
        server.faults().next(Operation::Get, fault);
        assert!(place.get(&name("object"), u64::MAX).unwrap() == bytes, "{fault:?}");
        server.faults().next(Operation::Get, fault);
        let mut part = vec![0; 300_000];
        place.read_at(&name("object"), 50_000, &mut part).unwrap();
        assert!(part == bytes[50_000..350_000], "{fault:?}");
        server.faults().next(Operation::Head, fault);
        assert_eq!(place.size(&name("object")).unwrap(), 400_000, "{fault:?}");
        server.faults().next(Operation::List, fault);
        let mut listed = Vec::new();
        place
            .list("", &mut |name, size| listed.push((name.to_string(), size)))
            .unwrap();
        assert_eq!(listed, [("object".to_owned(), 400_000)], "{fault:?}");
        server.faults().next(Operation::Delete, fault);
        server.set("bucket", "place/gone", Some(vec![1]));
        place.delete(&name("gone")).unwrap();
        assert_eq!(server.keys("bucket"), ["place/object"], "{fault:?}");
    }
}

#[test]
fn what_does_not_pass_is_said_at_once_and_in_words() {
    let server = Server::start();
    let place = storage(&server, "bucket/place");
    place.put(&name("object"), &[b"bytes"]).unwrap();
    let begun = Instant::now();
    let refused = |status: u16| {
        server.faults().always(Some(Fault::Refuse(status)));
        let errors = [
            place.put(&name("new"), &[b"bytes"]).unwrap_err(),
            place.get(&name("object"), 100).unwrap_err(),
            place.read_at(&name("object"), 1, &mut [0; 2]).unwrap_err(),
            place.size(&name("object")).unwrap_err(),
            place.list("", &mut |_, _| ()).unwrap_err(),
            place.delete(&name("object")).unwrap_err(),
        ];
        server.faults().always(None);
        errors
    };
    for error in refused(403) {
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        assert!(error.to_string().contains("the server answers 403"), "{error}");
    }
    let error = &refused(403)[0];
    let expected = format!(
        "cannot store new in s3://bucket/place?endpoint={}: the server answers 403, AccessDenied, It was asked for",
        server.endpoint()
    );
    assert_eq!(error.to_string(), expected);
    for error in refused(400) {
        assert!(error.to_string().contains("the server answers 400"), "{error}");
    }
    assert_eq!(
        refused(400)[0].kind(),
        ErrorKind::PermissionDenied,
        "credentials that have ended"
    );
    assert_eq!(refused(501)[0].kind(), ErrorKind::Unsupported);

    let wrong = options().credentials(Some(Credentials::new("no", "such")));
    let error = storage_with(&server, "bucket/place", &wrong)
        .get(&name("object"), 100)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("403"), "{error}");

    let absent = storage(&server, "absent/place");
    let errors = [
        absent.put(&name("new"), &[b"bytes"]).unwrap_err(),
        absent.get(&name("object"), 100).unwrap_err(),
        absent.list("", &mut |_, _| ()).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("NoSuchBucket"), "{error}");
    }
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[test]
fn a_server_that_never_answered_is_given_up_soon() {
    let endpoint = {
        let server = Server::start();
        server.endpoint()
    };
    let address = format!("s3://bucket/place?endpoint={endpoint}").parse().unwrap();
    let options = options().patience(Duration::from_secs(1000));
    let place = ibid_remote::open(&address, &options).unwrap();
    let error = place.get(&name("object"), 100).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    let text = error.to_string();
    assert!(
        text.contains(&format!("no answer from {endpoint}: ")) && text.contains("tried 3 times"),
        "{text}"
    );
    assert!(place.put(&name("object"), &[b"bytes"]).is_err());
}

#[test]
fn a_server_that_takes_connections_and_never_answers_is_given_up_soon() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("s3://bucket/place?endpoint=http://{}", silent.local_addr().unwrap());
    let options = options()
        .patience(Duration::from_secs(1000))
        .stall(Duration::from_millis(200));
    let place = ibid_remote::open(&address.parse().unwrap(), &options).unwrap();
    let text = place.get(&name("object"), 100).unwrap_err().to_string();
    assert!(text.contains("nothing moved for 0.2 s; tried 3 times"), "{text}");
}

#[test]
fn it_is_known_since_when_and_why_a_server_is_silent() {
    let server = Server::start();
    let place = storage(&server, "bucket/place");
    place.put(&name("object"), &[b"bytes"]).unwrap();
    assert_eq!(place.silence(), None, "nothing is asked");
    for (fault, why) in [
        (Fault::Refuse(503), Some("the server answers 503")),
        (Fault::LoseAnswer, Some("connection closed before message completed")),
        (Fault::Stall(Duration::from_millis(700)), None),
    ] {
        server.faults().always(Some(fault));
        std::thread::scope(|scope| {
            let got = scope.spawn(|| place.get(&name("object"), 100));
            let is_noticed =
                |lasts: Duration, found: Option<String>| !lasts.is_zero() && (why.is_none() || found.as_deref() == why);
            while !place
                .silence()
                .is_some_and(|silence| is_noticed(silence.lasts, silence.why))
            {
                assert!(!got.is_finished(), "{fault:?}");
                std::thread::sleep(Duration::from_millis(1));
            }
            server.faults().always(None);
            assert_eq!(got.join().unwrap().unwrap(), b"bytes", "{fault:?}");
        });
        assert_eq!(place.silence(), None, "{fault:?}");
    }
}

/// As after a machine has slept, or a router was exchanged: what is kept for later is dead, and does not say so.
#[test]
fn of_connections_that_are_all_dead_one_costs_a_stall() {
    let server = Server::start();
    let relay = Relay::to(&server);
    let address = format!("s3://bucket/place?endpoint={}", relay.endpoint);
    let place = ibid_remote::open(&address.parse().unwrap(), &options()).unwrap();
    place.put(&name("object"), &[b"bytes"]).unwrap();
    for operation in ["get", "put"] {
        // At once, for which at most one is there.
        relay.hold_until(relay.connections() + 7);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| place.get(&name("object"), 100).unwrap());
            }
        });
        relay.kill();
        let before = place.requests().again;
        match operation {
            "get" => assert_eq!(place.get(&name("object"), 100).unwrap(), b"bytes"),
            _ => place.put(&name("other"), &[b"bytes"]).unwrap(),
        }
        assert_eq!(place.requests().again - before, 1, "{operation}");
    }
}

/// What passes bytes on to a server, on each connection until it is killed.
struct Relay {
    endpoint: String,
    connections: Arc<Connections>,
}

#[derive(Default)]
struct Connections {
    number: AtomicUsize,
    /// How many of them are dead.
    dead: AtomicUsize,
    /// How many there must be before anything is passed on.
    expected: AtomicUsize,
}

impl Relay {
    fn to(server: &Server) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let connections: Arc<Connections> = Arc::default();
        let (noted, to) = (connections.clone(), server.endpoint().replace("http://", ""));
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(&to) else { return };
                let number = noted.number.fetch_add(1, Ordering::SeqCst);
                let ways = [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)];
                for (mut from, mut to) in ways {
                    let noted = noted.clone();
                    std::thread::spawn(move || {
                        let mut bytes = [0; 4096];
                        while let Ok(read @ 1..) = from.read(&mut bytes) {
                            while noted.number.load(Ordering::SeqCst) < noted.expected.load(Ordering::SeqCst) {
                                std::thread::sleep(Duration::from_millis(1));
                            }
                            // What comes later is read, and goes nowhere.
                            if number >= noted.dead.load(Ordering::SeqCst) && to.write_all(&bytes[..read]).is_err() {
                                break;
                            }
                        }
                    });
                }
            }
        });
        Relay { endpoint, connections }
    }

    fn connections(&self) -> usize {
        self.connections.number.load(Ordering::SeqCst)
    }

    fn hold_until(&self, connections: usize) {
        self.connections.expected.store(connections, Ordering::SeqCst);
    }

    /// Has all connections that there are go nowhere, and stay open.
    fn kill(&self) {
        self.connections.dead.store(self.connections(), Ordering::SeqCst);
    }
}

#[test]
fn patience_ends() {
    let server = Server::start();
    let options = options().patience(Duration::from_millis(700));
    let place = storage_with(&server, "bucket/place", &options);
    place.put(&name("object"), &[b"bytes"]).unwrap();
    server.faults().always(Some(Fault::Refuse(503)));
    let errors = [
        place.put(&name("new"), &[b"bytes"]).unwrap_err(),
        place.get(&name("object"), 100).unwrap_err(),
        place.list("", &mut |_, _| ()).unwrap_err(),
        place.delete(&name("object")).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        let text = error.to_string();
        assert!(
            text.contains("the server answers 503, SlowDown") && text.contains("tried "),
            "{text}"
        );
    }
    server.faults().always(None);
    assert_eq!(place.get(&name("object"), 100).unwrap(), b"bytes");
}

#[test]
fn a_slow_connection_is_not_given_up_as_long_as_it_moves() {
    let server = Server::start();
    // Four times as long as nothing may move.
    let options: Options = options().upload(Some(500_000)).download(Some(500_000));
    let place = storage_with(&server, "bucket/place", &options);
    let bytes = vec![7; 2_000_000];
    let begun = Instant::now();
    place.put(&name("object"), &[&bytes]).unwrap();
    let sent = begun.elapsed();
    assert!(place.get(&name("object"), u64::MAX).unwrap() == bytes);
    let both = begun.elapsed();
    assert!(
        sent > Duration::from_secs(3) && both - sent > Duration::from_secs(3),
        "{sent:?}, {both:?}"
    );
    assert_eq!(place.requests().again, 0);
}

/// Two pieces of 256 KiB at once, which take longer than nothing may move.
#[test]
fn what_waits_for_its_turn_does_not_stall() {
    let server = Server::start();
    let place = storage_with(&server, "bucket/place", &options().upload(Some(200_000)));
    std::thread::scope(|scope| {
        for number in 0..2 {
            let place = &place;
            scope.spawn(move || place.put(&name(&format!("{number}")), &[&vec![7; 256 << 10]]).unwrap());
        }
    });
    assert_eq!(
        (
            server.keys("bucket").len(),
            place.requests().put,
            place.requests().again
        ),
        (2, 2, 0)
    );
}

/// A row of calls, each beside a map; what is listed at the end, and what is read, is what was acknowledged.
#[test]
fn in_bad_weather_nothing_is_lost_and_no_byte_is_wrong() {
    // Most of the time goes by in pauses.
    std::thread::scope(|scope| {
        for seed in 0..2 {
            scope.spawn(move || weather(seed));
        }
    });
}

fn weather(seed: u64) {
    let server = Server::start();
    let place = storage(&server, "bucket/place");
    let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    server.faults().weather(seed, 250);
    for step in 0..150_u64 {
        let random = (seed * 1000 + step).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let text = format!("folder/{}", random % 20);
        let object = name(&text);
        let bytes = vec![step as u8; (random >> 5) as usize % 100_000];
        match random % 7 {
            0..3 => {
                let put = place.put(&object, &[&bytes]);
                match model.contains_key(&text) {
                    true => assert_eq!(put.unwrap_err().kind(), ErrorKind::AlreadyExists),
                    false => {
                        put.unwrap();
                        model.insert(text, bytes);
                    }
                }
            }
            3 => {
                // What was sent twice may be done once more, later. So repositories use no name again.
                std::thread::sleep(Duration::from_millis(150));
                let known = model.remove(&text);
                match place.delete(&object) {
                    Ok(()) => {}
                    Err(error) => assert!(known.is_none() && error.kind() == ErrorKind::NotFound, "{error}"),
                }
                std::thread::sleep(Duration::from_millis(150));
            }
            _ => match (place.get(&object, u64::MAX), model.get(&text)) {
                (Ok(found), Some(expected)) => assert!(found == *expected, "seed {seed}, step {step}"),
                (Err(error), None) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
                (found, expected) => panic!(
                    "seed {seed}, step {step}: {text}, {:?} and not {:?}",
                    found.map(|bytes| bytes.len()),
                    expected.map(Vec::len)
                ),
            },
        }
    }
    assert!(place.requests().again > 10, "{:?}", place.requests());
    server.faults().weather(0, 0);
    let mut listed = BTreeMap::new();
    let each = &mut |name: Name, size| {
        listed.insert(name.to_string(), size as usize);
    };
    place.list("folder", each).unwrap();
    let expected = model.iter().map(|(name, bytes)| (name.clone(), bytes.len()));
    assert_eq!(listed, expected.collect::<BTreeMap<_, _>>(), "seed {seed}");
}
