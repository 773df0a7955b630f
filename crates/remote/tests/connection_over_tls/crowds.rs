//! Many clients at once, clients that are hostile though they have a certificate, and the end of a server.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ibid_remote::connection::{Dial, HostStorage, ListenOptions, ServeOptions, Streams, Tls};
use ibid_storage::fault::Flaky;
use ibid_storage::{ErrorKind, Memory, Operation, Storage};

use crate::certificates::ours;
use crate::{Listening, Place, name, noise, options};

fn listening(memory: &Memory, options: ListenOptions) -> Listening {
    Listening::start(Place::Ready(Arc::new(memory.clone())), options)
}

/// Returns options of a server that says often that it is alive.
fn lively() -> ListenOptions {
    ListenOptions::default().serve(ServeOptions::default().alive(Duration::from_millis(50)))
}

fn client(server: &Listening) -> HostStorage {
    HostStorage::new(server.tls(), "tls://here", &options())
}

#[test]
fn many_clients_store_and_read_at_once() {
    let memory = Memory::new();
    // With so little memory, most objects are longer than the window of their client.
    let server = listening(&memory, lively().memory(4 << 20));
    thread::scope(|scope| {
        for own in 0..12 {
            let server = &server;
            scope.spawn(move || {
                let client = client(server);
                client.create().unwrap();
                for number in 0..6 {
                    let bytes = noise([10, 70_000, 900_000][number % 3], own * 100 + number as u64);
                    let name = name(&format!("{own}/{number}"));
                    client.put(&name, &[&bytes]).unwrap();
                    assert!(client.get(&name, 1 << 20).unwrap() == bytes);
                    let mut part = vec![0; bytes.len() / 2];
                    client.read_at(&name, 3, &mut part).unwrap();
                    assert!(part == bytes[3..3 + part.len()]);
                }
                assert_eq!(client.requests().again, 0);
            });
        }
    });
    assert_eq!(crate::objects(&memory).len(), 72);
    assert!(server.said().is_empty(), "{:?}", server.said());
}

#[test]
fn one_client_too_many_is_told_so_and_gets_in_once_another_has_left() {
    let memory = Memory::new();
    let server = listening(&memory, lively().clients_max(2));
    let (first, second) = (client(&server), client(&server));
    let impatient = options().patience(Duration::from_secs(1));
    let third = HostStorage::new(server.tls(), "tls://here", &impatient);
    first.create().unwrap();
    second.create().unwrap();
    let error = third.open().unwrap_err().to_string();
    let why = "cannot open tls://here: the server has 2 clients, as many as it takes at once; tried ";
    assert!(error.starts_with(why), "{error}");
    drop(first);
    let begun = Instant::now();
    while third.open().is_err() {
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    second.put(&name("a"), &[b"bytes"]).unwrap();
    assert_eq!(third.get(&name("a"), 5).unwrap(), b"bytes");
}

#[test]
fn one_certificate_does_not_take_all_places() {
    let memory = Memory::new();
    let server = listening(&memory, lively());
    let clients: Vec<HostStorage> = (0..17).map(|_| client(&server)).collect();
    for client in &clients[..16] {
        client.create().unwrap();
    }
    let error = clients[16].open().unwrap_err().to_string();
    assert!(error.contains("16 connections with this certificate"), "{error}");
}

fn put(name: &str, size: u64, bytes: &[u8]) -> Vec<u8> {
    let fields = [&[name.len() as u8][..], name.as_bytes(), &size.to_le_bytes(), bytes].concat();
    message(2, 2, &fields)
}

fn message(number: u32, kind: u8, fields: &[u8]) -> Vec<u8> {
    let mut bytes = (5 + fields.len() as u32).to_le_bytes().to_vec();
    bytes.extend(number.to_le_bytes());
    bytes.push(kind);
    bytes.extend_from_slice(fields);
    bytes
}

const GREETING: &[u8] = b"ibidcon\x01\x00";

#[test]
fn a_client_that_begins_a_long_object_and_sends_no_more_does_not_hold_up_others_for_ever() {
    let memory = Memory::new();
    let server = listening(&memory, lively().memory(4 << 20));
    // It takes all the room that there is for long objects.
    let mut hostile = server.tls().dial().unwrap();
    let begun = [
        GREETING,
        &message(1, 1, &[1]),
        &put("long", 500 << 20, b"its beginning"),
    ]
    .concat();
    hostile.requests.write_all(&begun).unwrap();
    let mut answers = [0; 30];
    hostile.answers.read_exact(&mut answers).unwrap();
    let client = client(&server);
    client.create().unwrap();
    client.put(&name("short"), &[b"short"]).unwrap();
    client.put(&name("long"), &[&vec![1; 2 << 20]]).unwrap();
    assert_eq!(memory.size(&name("long")).unwrap(), 2 << 20);
}

#[test]
fn a_client_that_asks_for_much_and_reads_nothing_does_not_hold_up_small_requests() {
    let memory = Memory::new();
    memory.put(&name("large"), &[&vec![7; 8 << 20]]).unwrap();
    let server = listening(&memory, lively().memory(4 << 20));
    let mut hostile = server.tls().dial().unwrap();
    let mut asks = [GREETING, &message(1, 1, &[1])].concat();
    for number in 0..200 {
        let fields = [&[5][..], b"large", &u64::MAX.to_le_bytes()].concat();
        asks.extend(message(2 + number, 3, &fields));
    }
    hostile.requests.write_all(&asks).unwrap();
    let client = client(&server);
    client.create().unwrap();
    for number in 0..20 {
        let name = name(&format!("{number}"));
        client.put(&name, &[b"bytes"]).unwrap();
        assert_eq!(client.get(&name, 5).unwrap(), b"bytes");
    }
}

#[test]
fn what_has_come_is_stored_when_a_server_is_stopped() {
    let flaky = Flaky::new(Memory::new());
    let memory = flaky.inner().clone();
    flaky.delay(Operation::Put, Duration::from_millis(500));
    let mut server = Listening::start(Place::Ready(Arc::new(flaky)), ListenOptions::default());
    let Streams {
        mut answers,
        mut requests,
        ending: _ending,
    } = server.tls().dial().unwrap();
    let sent = [GREETING, &message(1, 1, &[1]), &put("a", 5, b"bytes")].concat();
    requests.write_all(&sent).unwrap();
    let mut opened = [0; 30];
    answers.read_exact(&mut opened).unwrap();
    thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!(memory.get(&name("a"), 5).unwrap(), b"bytes");
    // The client has its answer, and then the end of the stream.
    let mut rest = Vec::new();
    answers.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(&[5, 0, 0, 0, 2, 0, 0, 0, 66]), "{rest:?}");
    assert!(TcpStream::connect(server.address).is_err(), "it listens no more");
}

/// Forwards connections, of which each is lost after so many bytes in one direction.
struct Lossy {
    address: std::net::SocketAddr,
}

impl Lossy {
    fn before(server: &Listening, cuts: Vec<(bool, usize)>) -> Lossy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, to) = (listener.local_addr().unwrap(), server.address);
        thread::spawn(move || {
            for (is_up, at) in cuts.into_iter().chain(std::iter::repeat((true, usize::MAX))) {
                let Ok((here, _)) = listener.accept() else { return };
                let there = TcpStream::connect(to).unwrap();
                let pairs = [(true, &here, &there), (false, &there, &here)];
                for (direction, from, onto) in pairs {
                    let (mut from, mut onto) = (from.try_clone().unwrap(), onto.try_clone().unwrap());
                    let mut left = if direction == is_up { at } else { usize::MAX };
                    thread::spawn(move || {
                        let mut bytes = [0; 4096];
                        while left > 0 {
                            let most = left.min(bytes.len());
                            let Ok(read @ 1..) = from.read(&mut bytes[..most]) else {
                                break;
                            };
                            left -= read;
                            if onto.write_all(&bytes[..read]).is_err() {
                                break;
                            }
                        }
                        let _ = (from.shutdown(Shutdown::Both), onto.shutdown(Shutdown::Both));
                    });
                }
            }
        });
        Lossy { address }
    }

    fn client(&self) -> HostStorage {
        let address = format!("tls://{}", self.address).parse().unwrap();
        HostStorage::new(Tls::new(address, ours("127.0.0.1")), "tls://here", &options())
    }
}

#[test]
fn nothing_is_lost_wherever_an_encrypted_connection_is() {
    // Of a whole connection: about 2 KB to agree on how to encrypt, and the object.
    let places: Vec<usize> = (0..26_000).step_by(97).chain(0..60).collect();
    let bytes = noise(20_000, 1);
    let lost_at = |at, is_up| {
        let memory = Memory::new();
        let server = listening(&memory, lively());
        let lossy = Lossy::before(&server, vec![(is_up, at)]);
        let client = lossy.client();
        client.create().unwrap_or_else(|error| panic!("{is_up} {at}: {error}"));
        client.put(&name("a"), &[&bytes]).unwrap();
        assert!(client.get(&name("a"), 20_000).unwrap() == bytes, "{is_up} {at}");
        assert!(memory.get(&name("a"), 20_000).unwrap() == bytes, "{is_up} {at}");
        let error = client.put(&name("a"), &[b"others"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{is_up} {at}");
        client.requests().again
    };
    // Most of the time goes by in pauses.
    let again: u64 = thread::scope(|scope| {
        let part = |places: &[usize]| -> u64 {
            let each = places.iter();
            each.map(|at| lost_at(*at, true) + lost_at(*at, false)).sum()
        };
        let parts = places.chunks(places.len().div_ceil(16));
        let threads: Vec<_> = parts.map(|places| scope.spawn(move || part(places))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(again > 100, "{again} requests were made again");
}
