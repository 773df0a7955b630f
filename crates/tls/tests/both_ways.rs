//! Both ends of a split connection send as much as they like while the other end is held up.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use ibid_tls::{Client, Encrypted, Fault, Identity, NoTls, Server};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

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

#[test]
fn a_certificate_that_was_made_as_that_of_an_authority_is_said_to_be_one() {
    let mut parameters = CertificateParams::new(["localhost".to_owned()]).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let own = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
    let (certificate, key) = (own.pem(), own.key().serialize_pem());
    let identity = Identity {
        certificates: certificate.as_bytes(),
        key: key.as_bytes(),
    };
    let server = Server::new(identity, None).unwrap();
    let client = Client::new(certificate.as_bytes(), "localhost", None).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = thread::spawn(move || server.accept(listener.accept().unwrap().0, || true).err());
    let refused = client.connect(TcpStream::connect(address).unwrap(), || true).err();
    let Some(NoTls::Fault(Fault::UnusableCertificate { found })) = &refused else {
        panic!("{refused:?}")
    };
    assert!(found.contains("CA:TRUE") && found.contains("CA:FALSE"), "{found}");
    assert!(accepted.join().unwrap().is_some());
}
