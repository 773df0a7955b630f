//! Both ends of a split connection send as much as they like while the other end is held up.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use ibid_tls::{Client, Encrypted, Fault, Identity, NoTls, Server};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

/// More than the buffers of both systems hold.
const BYTES: usize = 24 << 20;

fn settings() -> (Server, Client) {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let parameters = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (
        parameters.signed_by(&key, &authority).unwrap().pem(),
        key.serialize_pem(),
    );
    let identity = Identity {
        certificates: certificate.as_bytes(),
        key: key.as_bytes(),
    };
    let authorities = authority.pem();
    (
        Server::new(identity, Some(authorities.as_bytes())).unwrap(),
        Client::new(authorities.as_bytes(), "localhost", Some(identity)).unwrap(),
    )
}

/// Returns both ends of a connection.
fn pair() -> (Encrypted, Encrypted) {
    let (server, client) = settings();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = thread::spawn(move || server.accept(listener.accept().unwrap().0, || true).unwrap());
    let connected = client.connect(TcpStream::connect(address).unwrap(), || true).unwrap();
    (accepted.join().unwrap(), connected)
}

#[test]
fn two_ends_that_both_send_before_they_read_do_not_wait_for_each_other() {
    let (one, other) = pair();
    assert!(one.certificate().is_some() && other.certificate().is_some());
    let mut endings = Vec::new();
    thread::scope(|scope| {
        for (seed, end) in [(1_u8, one), (2, other)] {
            let (mut reader, mut writer, ending) = end.split().unwrap();
            endings.push(ending);
            scope.spawn(move || {
                for at in 0..BYTES >> 16 {
                    writer.write_all(&[seed ^ at as u8; 1 << 16]).unwrap();
                }
                drop(writer);
            });
            scope.spawn(move || {
                // The other end has been held up for a while by then.
                thread::sleep(Duration::from_millis(300));
                let mut bytes = vec![0; 1 << 16];
                for at in 0..BYTES >> 16 {
                    reader.read_exact(&mut bytes).unwrap();
                    let expected = seed ^ 3 ^ at as u8;
                    assert!(bytes.iter().all(|byte| *byte == expected), "at {at}");
                }
                assert_eq!(reader.read(&mut bytes).unwrap(), 0, "the end, in order");
            });
        }
    });
    // An end that has read all may still be sending: this would cut it off.
    for ending in endings {
        assert_eq!(ending.end(), None);
    }
}

#[test]
fn a_stream_that_is_cut_off_does_not_end_in_order() {
    let (one, other) = pair();
    let (mut reader, _writer, _) = one.split().unwrap();
    let (_, mut writer, ending) = other.split().unwrap();
    writer.write_all(b"begun").unwrap();
    let mut bytes = [0; 5];
    reader.read_exact(&mut bytes).unwrap();
    let _ = ending.end();
    let error = reader.read(&mut bytes).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn an_end_that_sends_a_byte_at_a_time_is_not_waited_for() {
    let (server, _) = settings();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let slow = thread::spawn(move || {
        for byte in [[22, 3, 1, 2, 0, 1].as_slice(), &[0; 500]].concat() {
            if stream.write_all(&[byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    });
    let mut looks = 0;
    let waits = || {
        looks += 1;
        looks < 20
    };
    let refused = server.accept(listener.accept().unwrap().0, waits).err();
    assert!(
        matches!(&refused, Some(NoTls::Io(error)) if error.kind() == std::io::ErrorKind::TimedOut),
        "{refused:?}"
    );
    slow.join().unwrap();
}

#[test]
fn what_is_not_tls_is_a_fault() {
    let (server, _) = settings();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let refused = server.accept(listener.accept().unwrap().0, || true).err();
    assert!(matches!(&refused, Some(NoTls::Fault(Fault::NoTls))), "{refused:?}");
}

/// Returns what a client that trusts this certificate makes of a server that shows another one.
fn met(trusted: &str, name: &str, shown: &CertifiedIssuer<'_, KeyPair>) -> Option<NoTls> {
    let (certificate, key) = (shown.pem(), shown.key().serialize_pem());
    let identity = Identity {
        certificates: certificate.as_bytes(),
        key: key.as_bytes(),
    };
    let server = Server::new(identity, None).unwrap();
    let client = Client::new(trusted.as_bytes(), name, None).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = thread::spawn(move || server.accept(listener.accept().unwrap().0, || true).err());
    let refused = client.connect(TcpStream::connect(address).unwrap(), || true).err();
    assert_eq!(accepted.join().unwrap().is_some(), refused.is_some());
    refused
}

#[test]
fn a_certificate_that_is_also_that_of_an_authority_is_accepted_only_if_it_is_trusted_itself() {
    let own = |years: std::ops::Range<i32>| {
        let mut parameters = CertificateParams::new(["localhost".to_owned()]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.not_before = date_time_ymd(years.start, 1, 1);
        parameters.not_after = date_time_ymd(years.end, 1, 1);
        CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
    };
    let (shown, twin) = (own(2020..4000), own(2020..4000));
    assert!(met(&shown.pem(), "localhost", &shown).is_none());
    assert!(met(&[twin.pem(), shown.pem()].concat(), "localhost", &shown).is_none());
    let other_name = met(&shown.pem(), "example.org", &shown);
    assert!(
        matches!(&other_name, Some(NoTls::Fault(Fault::OtherName { .. }))),
        "{other_name:?}"
    );
    let (expired, early) = (own(2000..2001), own(3900..4000));
    for (trusted, shown, why) in [
        (&twin, &shown, "(CA:TRUE)"),
        (&expired, &expired, "expired"),
        (&early, &early, "not valid yet"),
    ] {
        let refused = met(&trusted.pem(), "localhost", shown);
        let Some(NoTls::Fault(Fault::UnusableCertificate { found })) = &refused else {
            panic!("{why}: {refused:?}")
        };
        assert!(found.contains(why), "{found}");
    }
}
