//! Over TLS an eavesdropper reads no record, and only replicas with a trusted certificate follow. Two
//! ends that can't use TLS together learn why, and do not try again.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ibid_record::replicate::{self, net, net::tls};
use ibid_record::{Error, Options, Store, Versions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

use crate::common::folder;

/// Longer than any message, and not compressible.
const BODY: usize = 3 << 20;

/// A certificate and its key, PEM.
struct Identity {
    certificate: String,
    key: String,
}

impl Identity {
    fn shown(&self) -> tls::Identity<'_> {
        tls::Identity {
            certificates: self.certificate.as_bytes(),
            key: self.key.as_bytes(),
        }
    }
}

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn identity(&self, name: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new([name.to_owned()]).unwrap();
        Identity {
            certificate: parameters.signed_by(&key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

/// Forwards a connection, and records everything that the other end sends.
fn eavesdrop(listener: &TcpListener, to: SocketAddr, heard: &Mutex<Vec<u8>>) {
    let (mut here, _) = listener.accept().unwrap();
    let mut there = TcpStream::connect(to).unwrap();
    std::thread::scope(|scope| {
        let (mut from, mut onto) = (here.try_clone().unwrap(), there.try_clone().unwrap());
        scope.spawn(move || {
            let _ = std::io::copy(&mut from, &mut onto);
            let _ = onto.shutdown(std::net::Shutdown::Both);
        });
        let mut bytes = [0; 1 << 16];
        while let Ok(read @ 1..) = there.read(&mut bytes) {
            heard.lock().unwrap().extend_from_slice(&bytes[..read]);
            if here.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = here.shutdown(std::net::Shutdown::Both);
    });
}

/// Follows the store at an address until it has everything, or returns the error that prevents it.
fn follow(connection: net::Connection, store: &Store) -> Result<(), Error> {
    store.follow().unwrap();
    let (stop, begun, mut current) = (AtomicBool::new(false), Instant::now(), false);
    let mut connection = connection;
    let mut told = |progress: Result<replicate::Progress, &Error>| {
        current = progress.is_ok_and(|progress| progress.is_current());
        stop.store(current, Ordering::Relaxed);
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "it goes on and on: {:?}",
            progress.err()
        );
    };
    replicate::follow(store, &mut connection, &stop, &mut told)?;
    assert!(current);
    Ok(())
}

/// Serves a store with one record of noise while `work` is given its address, the record and a
/// folder.
fn served(tls: Option<&tls::Server>, work: impl FnOnce(SocketAddr, &[u8], &Path)) {
    let folder = folder();
    let options = Options::default().with_oplog(true);
    let store = Store::open(folder.path().join("primary"), options).unwrap();
    let mut body = vec![0; BODY];
    getrandom::fill(&mut body).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    pages.put(b"ibid", &body).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Ends the server even if the test fails.
        struct Stops<'s>(&'s AtomicBool);
        impl Drop for Stops<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let stops = Stops(&stop);
        let serving = scope.spawn(|| net::serve(&store, &listener, tls, &stop));
        work(address, &body, folder.path());
        drop(stops);
        serving.join().unwrap().unwrap();
    });
}

fn has(heard: &[u8], body: &[u8]) -> bool {
    let part = &body[BODY / 2..BODY / 2 + 32];
    heard.windows(part.len()).any(|window| window == part)
}

#[test]
fn an_eavesdropper_reads_a_record_only_without_tls() {
    let authority = Authority::new();
    let identity = authority.identity("primary.example.org");
    let server = tls::Server::new(identity.shown(), None).unwrap();
    let client = tls::Client::new(authority.pem().as_bytes(), "primary.example.org", None).unwrap();
    for encrypted in [false, true] {
        served(encrypted.then_some(&server), |address, body, folder| {
            let between = TcpListener::bind("127.0.0.1:0").unwrap();
            let heard = Mutex::default();
            std::thread::scope(|scope| {
                let listening = scope.spawn(|| eavesdrop(&between, address, &heard));
                let connection = net::Connection::to(between.local_addr().unwrap());
                let connection = if encrypted {
                    connection.with_tls(client.clone())
                } else {
                    connection
                };
                let replica = Store::open(folder.join("replica"), Options::default()).unwrap();
                follow(connection, &replica).unwrap();
                let pages = replica.find_namespace("pages").unwrap().unwrap();
                assert!(pages.get(b"ibid").unwrap().as_deref() == Some(body));
                listening.join().unwrap();
            });
            assert_eq!(has(&heard.into_inner().unwrap(), body), !encrypted);
        });
    }
}

/// How often each refusal is tried: its reason must come even if a connection breaks right after.
const TIMES: usize = 5;

/// Tries to follow without TLS, or with each of these, again and again. Each must be refused for
/// its reason, and get nothing.
fn assert_refused(address: SocketAddr, folder: &Path, clients: &[(Option<tls::Client>, tls::Fault)]) {
    for (number, (client, expected)) in clients.iter().enumerate() {
        let replica = Store::open(folder.join(number.to_string()), Options::default()).unwrap();
        for _ in 0..TIMES {
            let connection = match client {
                Some(client) => net::Connection::to(address).with_tls(client.clone()),
                None => net::Connection::to(address),
            };
            match follow(connection, &replica) {
                Err(Error::Tls { fault, address: at }) => assert_eq!((&fault, at), (expected, address.to_string())),
                other => panic!("{expected:?} expected, found {other:?}"),
            }
        }
        assert!(replica.find_namespace("pages").unwrap().is_none(), "{expected:?}");
    }
}

#[test]
fn only_replicas_with_a_trusted_certificate_follow() {
    let [ours, other] = [Authority::new(), Authority::new()];
    let [ours_pem, other_pem] = [ours.pem(), other.pem()];
    let primary = ours.identity("127.0.0.1");
    let (known, stranger) = (ours.identity("replica"), other.identity("replica"));
    let server = tls::Server::new(primary.shown(), Some(ours_pem.as_bytes())).unwrap();
    let client = |authority: &str, name: &str, identity: Option<&Identity>| {
        tls::Client::new(authority.as_bytes(), name, identity.map(Identity::shown)).unwrap()
    };
    served(Some(&server), |address, body, folder| {
        let expected = |name: &str| tls::Fault::OtherName {
            expected: name.to_owned(),
            found: vec!["127.0.0.1".to_owned()],
        };
        let refused = [
            (
                Some(client(&ours_pem, "127.0.0.1", None)),
                tls::Fault::CertificateRequired,
            ),
            (
                Some(client(&ours_pem, "127.0.0.1", Some(&stranger))),
                tls::Fault::CertificateRefused {
                    found: "DecryptError".to_owned(),
                },
            ),
            (
                Some(client(&other_pem, "127.0.0.1", Some(&known))),
                tls::Fault::UnknownAuthority,
            ),
            (
                Some(client(&ours_pem, "127.0.0.2", Some(&known))),
                expected("127.0.0.2"),
            ),
            (
                Some(client(&ours_pem, "db.example.org", Some(&known))),
                expected("db.example.org"),
            ),
            (None, tls::Fault::OnlyTls),
        ];
        assert_refused(address, folder, &refused);
        // A client without TLS is told so, and nothing else, even if it sends more after that: a
        // connection that is closed then would be reset.
        let mut plain = TcpStream::connect(address).unwrap();
        for _ in 0..3 {
            plain.write_all(&[0; 40]).unwrap();
            std::thread::sleep(Duration::from_millis(300));
        }
        plain.shutdown(std::net::Shutdown::Write).unwrap();
        plain.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut answer = Vec::new();
        plain.read_to_end(&mut answer).unwrap();
        assert!(answer.len() == 7 && answer.starts_with(&[21, 3]), "{answer:?}");

        let replica = Store::open(folder.join("replica"), Options::default()).unwrap();
        let tls = client(&ours_pem, "127.0.0.1", Some(&known));
        follow(net::Connection::to(address).with_tls(tls), &replica).unwrap();
        let pages = replica.find_namespace("pages").unwrap().unwrap();
        assert!(pages.get(b"ibid").unwrap().as_deref() == Some(body));
    });
}

#[test]
fn a_store_that_is_served_without_tls_is_not_followed_over_tls() {
    let authority = Authority::new();
    let client = tls::Client::new(authority.pem().as_bytes(), "127.0.0.1", None).unwrap();
    served(None, |address, _, folder| {
        assert_refused(address, folder, &[(Some(client), tls::Fault::NoTls)]);
    });
}

#[test]
fn a_certificate_that_has_expired_is_refused() {
    let authority = Authority::new();
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    parameters.not_before = date_time_ymd(2001, 1, 1);
    parameters.not_after = date_time_ymd(2002, 1, 1);
    let old = Identity {
        certificate: parameters.signed_by(&key, &authority.0).unwrap().pem(),
        key: key.serialize_pem(),
    };
    let server = tls::Server::new(old.shown(), None).unwrap();
    let client = tls::Client::new(authority.pem().as_bytes(), "127.0.0.1", None).unwrap();
    served(Some(&server), |address, _, folder| {
        let replica = Store::open(folder.join("replica"), Options::default()).unwrap();
        let refused = follow(net::Connection::to(address).with_tls(client), &replica).unwrap_err();
        assert!(refused.to_string().contains("expired"), "{refused}");
        assert!(
            matches!(
                &refused,
                Error::Tls {
                    fault: tls::Fault::UnusableCertificate { .. },
                    ..
                }
            ),
            "{refused:?}"
        );
    });
}

#[test]
fn a_file_that_is_no_certificate_is_refused() {
    let (ours, other) = (Authority::new(), Authority::new());
    let (one, two) = (ours.identity("one"), other.identity("two"));
    let crossed = tls::Identity {
        key: two.key.as_bytes(),
        ..one.shown()
    };
    let nothing = tls::Identity {
        certificates: b"",
        ..one.shown()
    };
    let keyless = tls::Identity {
        key: one.certificate.as_bytes(),
        ..one.shown()
    };
    for identity in [crossed, nothing, keyless] {
        let refused = tls::Server::new(identity, None).err();
        assert!(matches!(refused, Some(Error::Certificate { .. })), "{refused:?}");
    }
    for (authorities, name) in [("", "one"), (one.key.as_str(), "one"), (ours.pem().as_str(), "no name")] {
        let refused = tls::Client::new(authorities.as_bytes(), name, None).err();
        assert!(matches!(refused, Some(Error::Certificate { .. })), "{refused:?}");
    }
}
