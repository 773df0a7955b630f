//! TLS 1.3 for replication, by rustls.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustls::client::ClientConnectionData;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ServerConnectionData, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, RootCertStore, ServerConfig, ServerConnection, SideData,
    StreamOwned,
};

pub use super::fault::Fault;
use super::message::network;
use super::{SILENCE_MAX, Stream, is_late, reason};
use crate::error::Error;

/// A certificate with its chain and its private key, as PEM.
#[derive(Clone, Copy)]
pub struct Identity<'p> {
    /// The certificate, then the certificates between it and the authority.
    pub certificates: &'p [u8],
    /// The private key of the certificate.
    pub key: &'p [u8],
}

/// The TLS settings of a store that is served.
#[derive(Clone, Debug)]
pub struct Server(Arc<ServerConfig>);

/// The TLS settings of a replica, or of a client of NATS.
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// Whether it has a certificate to show.
    shows: bool,
}

/// A connection with TLS.
struct Encrypted<C, S>
where
    C: std::ops::DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    stream: StreamOwned<C, TcpStream>,
    /// Whether this end has a certificate to show.
    shows: bool,
    /// The first fault of TLS that was found.
    fault: Option<Fault>,
}

impl Server {
    /// Returns settings with which a server shows `identity`. With `authorities`, PEM, it answers
    /// only clients with a certificate of one of them; without, it answers any client.
    ///
    /// # Errors
    /// [`Error::Certificate`].
    pub fn new(identity: Identity<'_>, authorities: Option<&[u8]>) -> Result<Self, Error> {
        let (certificates, key) = identity.read()?;
        let provider = provider();
        let verifier = match authorities {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(authorities) => {
                let roots = Arc::new(roots(authorities)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build();
                verifier.map_err(|error| refused("the authorities of clients", &error))?
            }
        };
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(VERSIONS)
            .map(|builder| builder.with_client_cert_verifier(verifier))
            .and_then(|builder| builder.with_single_cert(certificates, key));
        let config = config.map_err(|error| refused("the certificate and its key", &error))?;
        Ok(Server(Arc::new(config)))
    }

    pub(super) fn accept(
        &self,
        stream: TcpStream,
        address: &str,
        stop: &AtomicBool,
    ) -> Result<impl Stream + use<>, Error> {
        let connection = ServerConnection::new(self.0.clone());
        let connection = connection.map_err(|error| refused("the certificate and its key", &error))?;
        let mut stream: Encrypted<_, ServerConnectionData> = Encrypted {
            stream: StreamOwned::new(connection, stream),
            shows: true,
            fault: None,
        };
        stream.shake_hands(address, stop)?;
        Ok(stream)
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
        // Brackets separate an address from its port. Certificates have none.
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(name.to_owned()).map_err(|error| refused("the name of the server", &error))?;
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(VERSIONS);
        let builder = builder.map_err(|error| refused("the authorities", &error))?;
        let builder = builder.with_root_certificates(roots(authorities)?);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (certificates, key) = identity.read()?;
                let config = builder.with_client_auth_cert(certificates, key);
                config.map_err(|error| refused("the certificate and its key", &error))?
            }
        };
        let config = Arc::new(config);
        let shows = identity.is_some();
        Ok(Client { config, name, shows })
    }

    /// Returns whether the client has a certificate to show.
    pub(in crate::replicate) fn shows(&self) -> bool {
        self.shows
    }

    /// Makes an encrypted connection of one to `address`, which is for messages.
    pub(in crate::replicate) fn connect(
        &self,
        stream: TcpStream,
        address: &str,
        stop: &AtomicBool,
    ) -> Result<impl Stream + use<>, Error> {
        let connection = ClientConnection::new(self.config.clone(), self.name.clone());
        let connection = connection.map_err(|error| refused("the name of the server", &error))?;
        let mut stream: Encrypted<_, ClientConnectionData> = Encrypted {
            stream: StreamOwned::new(connection, stream),
            shows: self.shows,
            fault: None,
        };
        stream.shake_hands(address, stop)?;
        Ok(stream)
    }
}

impl<C, S> Encrypted<C, S>
where
    C: std::ops::DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    /// Agrees with the other end on how to encrypt. A client that is refused because of its own
    /// certificate learns of that later.
    fn shake_hands(&mut self, address: &str, stop: &AtomicBool) -> Result<(), Error> {
        let begun = Instant::now();
        let StreamOwned { conn, sock } = &mut self.stream;
        while conn.is_handshaking() {
            let Err(error) = conn.complete_io(sock) else { continue };
            if is_late(&error) && begun.elapsed() < SILENCE_MAX && !stop.load(Ordering::Relaxed) {
                continue;
            }
            let address = address.to_owned();
            if let Some(fault) = Fault::of(&error, self.shows, true) {
                return Err(Error::Tls { address, fault });
            }
            let found = match error.kind() {
                io::ErrorKind::UnexpectedEof => "the other end closed the connection; it may not use TLS".to_owned(),
                _ => reason(&error),
            };
            return Err(network(&address, "agree on TLS with", found));
        }
        Ok(())
    }

    /// Remembers a fault of TLS.
    fn noted<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &done
            && self.fault.is_none()
        {
            self.fault = Fault::of(error, self.shows, false);
        }
        done
    }
}

impl<C, S> Read for Encrypted<C, S>
where
    C: std::ops::DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(bytes);
        self.noted(read)
    }
}

impl<C, S> Write for Encrypted<C, S>
where
    C: std::ops::DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.stream.write(bytes);
        self.noted(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.stream.flush();
        self.noted(flushed)
    }
}

impl<C, S> Stream for Encrypted<C, S>
where
    C: std::ops::DerefMut<Target = ConnectionCommon<S>> + Send,
    S: SideData,
{
    fn fault(&mut self) -> Option<Fault> {
        let StreamOwned { conn, sock } = &mut self.stream;
        // An alert may have come before the connection broke.
        while self.fault.is_none() && matches!(conn.read_tls(sock), Ok(1..)) {
            if let Err(error) = conn.process_new_packets() {
                self.fault = Fault::of(&io::Error::other(error), self.shows, false);
                break;
            }
        }
        self.fault.clone()
    }
}

/// Both ends are ibid, so no older version is needed.
const VERSIONS: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl Identity<'_> {
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
        let key = PrivateKeyDer::from_pem_slice(self.key).map_err(|error| match error {
            pem::Error::NoItemsFound => refused("the key", &"there is no private key in it"),
            error => refused("the key", &error),
        })?;
        Ok((certificates(self.certificates, "the certificate")?, key))
    }
}

fn certificates(pem: &[u8], what: &'static str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| refused(what, &error))?;
    if read.is_empty() {
        return Err(refused(what, &"there is no certificate in it"));
    }
    Ok(read)
}

fn roots(pem: &[u8]) -> Result<RootCertStore, Error> {
    const WHAT: &str = "the authorities";
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, WHAT)? {
        roots.add(certificate).map_err(|error| refused(WHAT, &error))?;
    }
    Ok(roots)
}

fn refused(what: &'static str, why: &impl std::fmt::Display) -> Error {
    let found = why.to_string();
    Error::Certificate { what, found }
}

#[cfg(test)]
mod tests {
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
