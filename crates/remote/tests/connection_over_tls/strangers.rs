//! Who is not answered: without TLS, without the right certificate, or without an end.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use ibid_remote::connection::{HostStorage, Identity, ListenOptions, MutualTls, Tls, TlsClient};
use ibid_storage::{ErrorKind, Memory, Storage};

use crate::certificates::{Authority, Pair, authority, ours};
use crate::{Listening, Place, name, options};

fn listening() -> (Listening, Memory) {
    let memory = Memory::new();
    let place = Place::Ready(std::sync::Arc::new(memory.clone()));
    (Listening::start(place, ListenOptions::default()), memory)
}

/// Opens the storage at an address; returns the error. It must come at once: these errors do not pass.
#[track_caller]
fn refused(address: &str, client: TlsClient) -> String {
    let location = format!("tls://{address}");
    let storage = HostStorage::new(Tls::new(location.parse().unwrap(), client), &location, &options());
    let error = storage.open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    let text = error.to_string();
    let (_, why) = text.split_once(&format!("cannot open {location}: ")).unwrap();
    assert!(!why.contains("tried"), "tried again: {why}");
    why.to_owned()
}

fn client(authorities: &Authority, name: &str, shown: Option<&Pair>) -> TlsClient {
    TlsClient::new(authorities.pem().as_bytes(), name, shown.map(Pair::identity)).unwrap()
}

#[test]
fn a_client_is_answered_only_with_a_certificate_that_holds() {
    let (mut server, memory) = listening();
    let at = server.address.to_string();
    let other = Authority::new();
    let (known, stranger) = (authority().pair("laptop"), other.pair("laptop"));
    let ended = authority().pair_until("laptop", 2002);
    for _ in 0..5 {
        // Each time, though the server breaks off right after.
        let of = |shown| refused(&at, client(authority(), "127.0.0.1", shown));
        assert_eq!(of(None), "it expects a certificate, and none was shown");
        let refuses = "it expects a certificate that it trusts, and refuses the one that was shown: ";
        assert_eq!(of(Some(&stranger)), format!("{refuses}DecryptError"));
        assert_eq!(of(Some(&ended)), format!("{refuses}CertificateExpired"));
    }
    assert_eq!(
        refused(&at, client(&other, "127.0.0.1", Some(&known))),
        "a certificate of a trusted authority was expected, and its certificate is of another one"
    );
    assert_eq!(
        refused(&at, client(authority(), "nas.example.org", Some(&known))),
        "a certificate for nas.example.org was expected, and its certificate is for 127.0.0.1"
    );
    let storage = HostStorage::new(server.tls(), "tls://here", &options());
    storage.create().unwrap();
    storage.put(&name("a"), &[b"bytes"]).unwrap();
    assert_eq!(memory.get(&name("a"), 5).unwrap(), b"bytes");
    drop(storage);
    server.stop();
    let said = server.said();
    assert!(
        said.len() == 17 && said.iter().any(|why| why.contains("expired")),
        "{said:?}"
    );
}

#[test]
fn a_server_whose_certificate_has_ended_is_not_trusted() {
    let ended = authority().pair_until("127.0.0.1", 2002);
    let tls = MutualTls::new(ended.identity(), authority().pem().as_bytes()).unwrap();
    let place = Place::Ready(std::sync::Arc::new(Memory::new()));
    let server = Listening::start_with(tls, place, ListenOptions::default());
    let why = refused(&server.address.to_string(), ours("127.0.0.1"));
    assert!(why.contains("expired"), "{why}");
}

#[test]
fn a_server_without_tls_is_none() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let why = refused(&address, ours("127.0.0.1"));
    assert_eq!(why, "TLS was expected, and it does not use TLS");
}

#[test]
fn a_server_that_is_not_there_is_given_up_after_three_tries() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let location = format!("tls://{address}");
    let storage = HostStorage::new(
        Tls::new(location.parse().unwrap(), ours("127.0.0.1")),
        &location,
        &options(),
    );
    let error = storage.open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(
        error.to_string(),
        format!("cannot open {location}: Connection refused; tried 3 times")
    );
}

#[test]
fn there_is_no_server_without_a_certificate_and_authorities_of_clients() {
    let pair = authority().pair("127.0.0.1");
    let error = MutualTls::new(pair.identity(), b"").unwrap_err().to_string();
    assert_eq!(error, "the authorities cannot be used: there is no certificate in it");
    let nothing = Identity {
        certificates: b"",
        ..pair.identity()
    };
    assert!(MutualTls::new(nothing, authority().pem().as_bytes()).is_err());
}

/// Reads until the server ends the connection, but no longer than so; returns how long it took.
fn ends(mut stream: TcpStream, most: Duration) -> Duration {
    let begun = Instant::now();
    stream.set_read_timeout(Some(most)).unwrap();
    let read = stream.read_to_end(&mut Vec::new());
    assert!(
        !read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock),
        "the server waits for more than {most:?}"
    );
    begun.elapsed()
}

#[test]
fn strangers_that_say_nothing_or_a_byte_at_a_time_keep_no_place() {
    let (server, _) = listening();
    // More than may be at once: the oldest ones give way, and clients get in.
    let mut silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    let storage = HostStorage::new(server.tls(), "tls://here", &options());
    storage.create().unwrap();
    storage.put(&name("a"), &[b"bytes"]).unwrap();
    ends(silent.remove(0), Duration::from_secs(5));
    // One that begins as TLS does, and sends a byte now and then, is ended as soon as one that says nothing.
    let mut slow = TcpStream::connect(server.address).unwrap();
    let mut reads = slow.try_clone().unwrap();
    let writer = thread::spawn(move || {
        let hello = [&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[7; 600]].concat();
        for byte in hello {
            if slow.write_all(&[byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("it took a byte at a time for a minute");
    });
    reads.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let _ = reads.read_to_end(&mut Vec::new());
    writer.join().unwrap();
    ends(silent.pop().unwrap(), Duration::from_secs(20));
    storage.put(&name("b"), &[b"bytes"]).unwrap();
}

#[test]
fn strangers_that_send_anything_end_nothing_but_their_connection() {
    let (server, _) = listening();
    let storage = HostStorage::new(server.tls(), "tls://here", &options());
    storage.create().unwrap();
    for seed in 0..40 {
        let mut bytes = crate::noise(1 << (seed % 17), seed);
        if seed % 2 == 0 {
            // As a message of TLS begins.
            bytes.splice(0..0, [22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc, 3, 3]);
        }
        let mut stream = TcpStream::connect(server.address).unwrap();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        ends(stream, Duration::from_secs(30));
        storage.put(&name(&format!("{seed}")), &[b"bytes"]).unwrap();
    }
}
