//! TLS 1.3 for replication, by the crate `ibid-tls`.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ibid_tls::{CertificateError, Encrypted, NoTls};
pub use ibid_tls::{Fault, Identity};

use super::message::network;
use super::{SILENCE_MAX, Stream, reason};
use crate::error::Error;

/// The TLS settings of a store that is served.
#[derive(Clone, Debug)]
pub struct Server(ibid_tls::Server);

/// The TLS settings of a replica, or of a client of NATS.
#[derive(Clone, Debug)]
pub struct Client(ibid_tls::Client);

impl From<CertificateError> for Error {
    fn from(CertificateError { what, found }: CertificateError) -> Error {
        Error::Certificate { what, found }
    }
}

impl Server {
    /// Returns settings with which a server shows `identity`. With `authorities`, PEM, it answers
    /// only clients with a certificate of one of them; without, it answers any client.
    ///
    /// # Errors
    /// [`Error::Certificate`].
    pub fn new(identity: Identity<'_>, authorities: Option<&[u8]>) -> Result<Self, Error> {
        Ok(Server(ibid_tls::Server::new(identity, authorities)?))
    }

    pub(super) fn accept(
        &self,
        stream: TcpStream,
        address: &str,
        stop: &AtomicBool,
    ) -> Result<impl Stream + use<>, Error> {
        self.0.accept(stream, waits(stop)).map_err(|why| no_tls(address, why))
    }
}

impl Client {
    /// Returns settings with which a client trusts a server that has a certificate of one of
    /// `authorities`, PEM, for `name`: a host name or an address, with or without brackets around
    /// an IPv6 address. The client shows `identity` if the server asks for a certificate.
    ///
    /// # Errors
    /// [`Error::Certificate`].
    pub fn new(authorities: &[u8], name: &str, identity: Option<Identity<'_>>) -> Result<Self, Error> {
        Ok(Client(ibid_tls::Client::new(authorities, name, identity)?))
    }

    /// Returns whether the client has a certificate to show.
    pub(in crate::replicate) fn shows(&self) -> bool {
        self.0.shows()
    }

    /// Makes an encrypted connection of one to `address`, which is for messages.
    pub(in crate::replicate) fn connect(
        &self,
        stream: TcpStream,
        address: &str,
        stop: &AtomicBool,
    ) -> Result<impl Stream + use<>, Error> {
        self.0.connect(stream, waits(stop)).map_err(|why| no_tls(address, why))
    }
}

/// Returns whether to wait for the other end any longer.
fn waits(stop: &AtomicBool) -> impl FnMut() -> bool {
    let begun = Instant::now();
    move || begun.elapsed() < SILENCE_MAX && !stop.load(Ordering::Relaxed)
}

fn no_tls(address: &str, why: NoTls) -> Error {
    let error = match why {
        NoTls::Fault(fault) => {
            let address = address.to_owned();
            return Error::Tls { address, fault };
        }
        NoTls::Io(error) => error,
    };
    let found = match error.kind() {
        io::ErrorKind::UnexpectedEof => "the other end closed the connection; it may not use TLS".to_owned(),
        _ => reason(&error),
    };
    network(address, "agree on TLS with", found)
}

impl Stream for Encrypted {
    fn fault(&mut self) -> Option<Fault> {
        Encrypted::fault(self)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

    use super::*;

    #[test]
    fn why_a_connection_was_ended_is_known_though_it_can_not_be_written_to() {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let (certificate, key) = (
            parameters.signed_by(&key, &authority).unwrap().pem(),
            key.serialize_pem(),
        );
        let identity = Identity {
            certificates: certificate.as_bytes(),
            key: key.as_bytes(),
        };
        let authorities = authority.pem();
        let server = Server::new(identity, Some(authorities.as_bytes())).unwrap();
        let client = Client::new(authorities.as_bytes(), "127.0.0.1", None).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, never) = (listener.local_addr().unwrap(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let refusing = scope.spawn(|| {
                let (stream, _) = listener.accept().unwrap();
                server.accept(stream, "a replica", &never).map(drop)
            });
            let stream = TcpStream::connect(address).unwrap();
            let mut stream = client.connect(stream, "the primary", &never).unwrap();
            assert!(refusing.join().unwrap().is_err());
            // The first bytes reach nothing, which the next ones learn.
            let mut failed = false;
            for _ in 0..20 {
                failed |= stream.write(b"a request").and_then(|_| stream.flush()).is_err();
                std::thread::sleep(Duration::from_millis(20));
            }
            assert!(failed, "the connection can be written to");
            assert_eq!(stream.fault(), Some(Fault::CertificateRequired));
        });
    }
}
