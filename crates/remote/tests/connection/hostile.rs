//! Peers that send anything: the other side reports it, and takes no memory for what does not come.

use std::io::{self, Cursor};
use std::sync::{Arc, Mutex};

use ibid_remote::connection::{
    Dial, Ended, Ending, HostStorage, OpenStorage, Opened, ServeError, ServeOptions, Streams, serve,
};
use ibid_storage::{ErrorKind, Memory, Storage};

use crate::{Random, name, options};

const GREETING: &[u8] = b"ibidcon\x01\x00";

/// Returns a message of these fields.
fn message(number: u32, kind: u8, fields: &[u8]) -> Vec<u8> {
    let mut bytes = (5 + fields.len() as u32).to_le_bytes().to_vec();
    bytes.extend(number.to_le_bytes());
    bytes.push(kind);
    bytes.extend_from_slice(fields);
    bytes
}

/// Returns a greeting and these messages.
fn greeted(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = GREETING.to_vec();
    messages.iter().for_each(|message| bytes.extend_from_slice(message));
    bytes
}

fn opened() -> Vec<u8> {
    message(1, 65, &[&[0][..], &(1_u64 << 20).to_le_bytes(), &[0, 0, 0, 0]].concat())
}

/// Runs a server on these requests; returns how it ended, and what it answered.
fn served(requests: &[u8]) -> (Result<(), ServeError>, Vec<u8>) {
    let memory = Arc::new(Memory::new());
    memory.put(&name("config"), &[b"bytes"]).unwrap();
    let open: &OpenStorage<'_> = &|_| Ok(Opened::new(memory.clone()));
    let mut answers = Vec::new();
    let ended = serve(open, requests, &mut answers, &ServeOptions::default());
    let mut whole = Vec::new();
    memory.list("", &mut |name, _| whole.push(name.to_string())).unwrap();
    assert_eq!(
        whole.first().map(String::as_str),
        Some("config"),
        "nothing is stored of what did not come whole"
    );
    (ended, answers)
}

#[track_caller]
fn refused(requests: &[u8], found: &str) {
    let (ended, answers) = served(requests);
    let error = ended.unwrap_err().to_string();
    assert!(error.contains(found), "{error}");
    // The other side learns it, too.
    let answers = String::from_utf8_lossy(&answers);
    assert!(answers.contains(found), "{answers}");
}

#[test]
fn a_server_refuses_what_the_protocol_does_not_have() {
    let open = message(1, 1, &[0]);
    let put = |size: u64| [&[1, b'a'][..], &size.to_le_bytes()].concat();
    refused(b"GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1");
    refused(b"ibidcon\x09\x06ibid 7", "ibid 7 and speaks version 9");
    refused(&greeted(&[vec![0xff; 9]]), "a message of 4294967295 bytes");
    refused(&greeted(&[vec![4, 0, 0, 0, 1, 0, 0, 0]]), "a message of 4 bytes");
    refused(&greeted(&[message(1, 99, &[])]), "a request of the unknown kind 99");
    refused(&greeted(&[message(1, 1, &[7])]), "7 where 0 or 1 is allowed");
    refused(&greeted(&[message(1, 1, &[0, 0])]), "1 bytes too many");
    refused(
        &greeted(&[open.clone(), message(2, 5, &[9, b'a'])]),
        "ends within a field",
    );
    refused(&greeted(&[message(2, 5, &[2, b'.', b'.'])]), "starts with a dot");
    refused(&greeted(&[message(2, 5, &[2, b'a', 0xff])]), "not UTF-8");
    refused(
        &greeted(&[message(2, 2, &put(u64::MAX))]),
        "an object of 18446744073709551615 bytes",
    );
    refused(
        &greeted(&[message(2, 2, &put(100 << 20)), message(3, 2, &put(100 << 20))]),
        "are on their way",
    );
    refused(
        &greeted(&[message(2, 2, &put(9)), message(2, 2, &put(9))]),
        "two requests of one number",
    );
    refused(&greeted(&[message(2, 10, b"bytes")]), "that it has not put");
    refused(
        &greeted(&[message(2, 2, &put(9)), message(2, 10, b"")]),
        "no bytes where more",
    );
    refused(
        &greeted(&[message(2, 2, &put(3)), message(2, 10, b"bytes")]),
        "more bytes of an object",
    );
    let read = [&[1, b'a'][..], &0_u64.to_le_bytes(), &(1_u64 << 40).to_le_bytes()].concat();
    refused(&greeted(&[message(2, 4, &read)]), "a request for 1099511627776 bytes");
    let many: Vec<Vec<u8>> = (1..=257).map(|number| message(number, 2, &put(1))).collect();
    refused(&greeted(&many), "more than 256 requests");
}

#[test]
fn a_server_stores_nothing_of_an_object_that_does_not_come_whole() {
    let put = [&[1, b'a'][..], &(512_u64 << 20).to_le_bytes(), b"the first bytes"].concat();
    let whole = greeted(&[message(1, 1, &[0]), message(2, 2, &put)]);
    for length in 0..=whole.len() {
        let (ended, _) = served(&whole[..length]);
        assert!(ended.is_ok(), "a client that is gone is no error: {ended:?}");
    }
}

#[test]
fn a_server_survives_random_bytes() {
    for seed in 0..300 {
        let mut random = Random::new(seed + 1);
        let mut bytes = GREETING.to_vec();
        for _ in 0..random.below(20) {
            // Most lengths are right, so that fields are looked at.
            let fields = crate::noise(random.below(40) as usize, random.next());
            let kind = [random.next() as u8, 1 + random.below(10) as u8][random.below(2) as usize];
            bytes.extend(message(random.below(3) as u32, kind, &fields));
        }
        bytes.truncate(bytes.len() - random.below(3) as usize);
        drop(served(&bytes));
    }
}

#[test]
fn a_server_survives_megabytes_of_messages() {
    for seed in 0..6 {
        let mut random = Random::new(seed + 1000);
        let mut bytes = greeted(&[message(1, 1, &[0])]);
        while bytes.len() < 3 << 20 {
            let number = 2 + random.below(40) as u32;
            let length = [0, 1, 30, 5000, 65_536][random.below(5) as usize];
            let noise = crate::noise(length, random.next());
            let size = |size: u64| size.to_le_bytes();
            // Mostly what a client would send, in any order.
            let (kind, fields) = match random.below(8) {
                0..3 => (
                    2,
                    [&[1, b'a' + number as u8 % 26][..], &size(random.below(200_000)), &noise].concat(),
                ),
                3 | 4 => (10, noise),
                5 => (3, [&[6][..], b"config", &size(u64::MAX)].concat()),
                6 => (4, [&[6][..], b"config", &size(0), &size(random.below(9))].concat()),
                _ => (6, vec![0]),
            };
            bytes.extend(message(number, kind, &fields[..fields.len().min(65_536)]));
        }
        // What the protocol does not have ends a connection early, so each part of it comes first once.
        let mut rest = &bytes[..];
        while rest.len() > 100_000 {
            drop(served(rest));
            rest = &rest[rest.len() / 3..];
            let begin = [GREETING, &message(1, 1, &[0]), rest].concat();
            drop(served(&begin));
        }
    }
}

#[test]
fn an_object_that_comes_a_byte_at_a_time_is_stored_whole() {
    let size = 300_000_usize;
    let put = [&[1, b'a'][..], &(size as u64).to_le_bytes()].concat();
    let noise = crate::noise(size, 7);
    let mut bytes = greeted(&[message(1, 1, &[0]), message(2, 2, &put)]);
    noise.iter().for_each(|byte| bytes.extend(message(2, 10, &[*byte])));
    let memory = Arc::new(Memory::new());
    let open: &OpenStorage<'_> = &|_| Ok(Opened::new(memory.clone()));
    let (here, mut there) = std::os::unix::net::UnixStream::pair().unwrap();
    let client = std::thread::spawn(move || {
        use std::io::{Read, Write};
        there.write_all(&bytes).unwrap();
        // All is answered before the stream ends.
        let (mut answers, done) = (Vec::new(), [5, 0, 0, 0, 2, 0, 0, 0, 66]);
        while !answers.ends_with(&done) {
            let mut byte = [0];
            there.read_exact(&mut byte).unwrap();
            answers.extend(byte);
        }
    });
    serve(open, &here, &here, &ServeOptions::default()).unwrap();
    client.join().unwrap();
    assert!(memory.get(&name("a"), u64::MAX).unwrap() == noise);
}

/// A server that sends these bytes, whatever it is asked.
struct Says(Vec<u8>);

struct Nothing;

impl Ending for Nothing {
    fn end(&mut self, _by_itself: bool) -> Ended {
        Ended::new("nothing more came")
    }
}

impl Dial for Says {
    fn dial(&self) -> Result<Streams, Ended> {
        Ok(Streams {
            answers: Box::new(Cursor::new(self.0.clone())),
            requests: Box::new(io::sink()),
            ending: Box::new(Nothing),
        })
    }
}

/// Asks for an object of a server that says this; returns the error.
fn asked(says: Vec<u8>) -> ibid_storage::Error {
    let options = options().patience(std::time::Duration::ZERO);
    let client = HostStorage::new(Says(says), "ssh://host/place", &options);
    match client.open() {
        Ok(()) => client.get(&name("a"), u64::MAX).unwrap_err(),
        Err(error) => error,
    }
}

/// A server that answers the requests one after the other, each when it has come.
#[derive(Clone)]
struct Turns(Arc<Mutex<Vec<Vec<u8>>>>);

impl Dial for Turns {
    fn dial(&self) -> Result<Streams, Ended> {
        let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
        let turns = self.0.clone();
        std::thread::spawn(move || {
            use std::io::{Read, Write};
            let (mut input, mut output) = (&there, &there);
            let _ = output.write_all(GREETING);
            let mut buffer = [0; 4096];
            // The greeting, and then a request for each turn.
            let mut seen = 0;
            while let Ok(read @ 1..) = input.read(&mut buffer) {
                seen += read;
                if seen < 20 {
                    continue;
                }
                let mut turns = turns.lock().unwrap();
                if turns.is_empty() {
                    return;
                }
                let _ = output.write_all(&turns.remove(0));
            }
        });
        Ok(Streams {
            answers: Box::new(here.try_clone().unwrap()),
            requests: Box::new(here),
            ending: Box::new(Nothing),
        })
    }
}

#[track_caller]
fn answered(turns: Vec<Vec<u8>>, found: &str) {
    let options = options().patience(std::time::Duration::ZERO);
    let client = HostStorage::new(Turns(Arc::new(Mutex::new(turns))), "ssh://host/place", &options);
    client.open().unwrap();
    let error = client.get(&name("a"), 100).unwrap_err();
    assert!(error.to_string().contains(found), "{error}");
}

#[test]
fn a_client_reports_what_the_protocol_does_not_have() {
    let size = |size: u64| size.to_le_bytes().to_vec();
    answered(vec![opened(), message(2, 68, &size(101))], "too long a one");
    answered(
        vec![opened(), message(2, 69, b"bytes")],
        "more bytes than were asked for",
    );
    let short = [message(2, 68, &size(5)), message(2, 69, b"byt"), message(2, 66, b"")].concat();
    answered(vec![opened(), short], "wrong kind or length");
    let long = [message(2, 68, &size(5)), message(2, 69, b"more bytes")].concat();
    answered(vec![opened(), long], "more bytes than were asked for");
    answered(vec![opened(), message(2, 66, b"")], "wrong kind or length");
    answered(vec![opened(), message(2, 67, &size(5))], "wrong kind or length");
    answered(vec![opened(), message(7, 66, b"")], "that was not made");
    answered(vec![opened(), message(2, 99, b"")], "unknown kind 99");
    answered(vec![opened(), message(2, 71, &[99, 1, 0, 0, 0])], "unknown kind 99");
    // What a terminal would obey is left out.
    let sly = [&[1, 2, 0, 9, 0][..], b"\x1b[2Jgone\n"].concat();
    answered(vec![opened(), message(2, 71, &sly)], ": [2Jgone");
    answered(vec![opened(), vec![0xff; 9]], "a message of 4294967295 bytes");
    answered(
        vec![opened(), message(0, 73, &[5, 0, b'g', b'o', b' ', b'o', b'n'])],
        "refuses to go on: go on",
    );
}

#[test]
fn what_comes_in_place_of_a_greeting_is_shown() {
    let error = asked(b"Welcome to nas!\r\n\x1b[2J5 updates".to_vec());
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(
        error.to_string(),
        "cannot open ssh://host/place: \"Welcome to nas!\" came in place of the greeting of `ibid serve`: a login \
         script there prints it, or another program was started"
    );
    let error = asked(b"ibidcon\x02\x08ibid 9.0".to_vec()).to_string();
    assert!(error.contains("the server is ibid 9.0 and speaks version 2"), "{error}");
    for cut in 0..8 {
        // No noise, but a connection that was lost.
        let error = asked(b"ibidcon\x01"[..cut].to_vec()).to_string();
        assert!(error.contains("nothing more came"), "{error}");
    }
}

#[test]
fn a_client_survives_random_bytes_and_huge_lengths() {
    // An object of 2^60 bytes: none of this memory is there.
    let huge = message(2, 68, &(1_u64 << 60).to_le_bytes());
    let client = HostStorage::new(
        Turns(Arc::new(Mutex::new(vec![opened(), huge]))),
        "ssh://host/place",
        &options()
            .patience(std::time::Duration::ZERO)
            .stall(std::time::Duration::from_millis(100)),
    );
    client.open().unwrap();
    client.get(&name("a"), u64::MAX).unwrap_err();
    for seed in 0..100 {
        let mut random = Random::new(seed + 1);
        let mut bytes = greeted(&[]);
        if seed % 2 == 0 {
            bytes.extend(opened());
        }
        for _ in 0..random.below(10) {
            let fields = crate::noise(random.below(40) as usize, random.next());
            bytes.extend(message(random.below(3) as u32, 64 + random.below(12) as u8, &fields));
        }
        asked(bytes);
    }
}
