//! What each end shows, and whom it trusts.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use crate::{Encrypted, NamedAuthorities, NoTls};

/// Both ends are ibid, so no older version is needed.
const VERSIONS: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// A certificate with its chain and its private key, as PEM.
#[derive(Clone, Copy)]
pub struct Identity<'p> {
    /// The certificate, then the certificates between it and the authority.
    pub certificates: &'p [u8],
    /// The private key of the certificate.
    pub key: &'p [u8],
}

/// A certificate, a key or a name that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be used: {found}")]
pub struct CertificateError {
    /// What can't be used.
    pub what: &'static str,
    /// Why.
    pub found: String,
}

/// What a server shows, and which clients it answers.
#[derive(Clone, Debug)]
pub struct Server(Arc<ServerConfig>);

/// Which servers a client trusts, and what it shows.
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// Whether it has a certificate to show.
    shows: bool,
}

impl Server {
    /// Returns settings with which a server shows `identity`. With `authorities`, PEM, it answers only clients with a
    /// certificate of one of them; without, it answers any client.
    ///
    /// # Errors
    /// If any of them can't be used.
    pub fn new(identity: Identity<'_>, authorities: Option<&[u8]>) -> Result<Self, CertificateError> {
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
        let mut config = config.map_err(|error| refused("the certificate and its key", &error))?;
        // Connections live long, so none takes up another one.
        config.send_tls13_tickets = 0;
        Ok(Server(Arc::new(config)))
    }

    /// Agrees with a client on how to encrypt. Whenever the stream has nothing for as long as its timeouts say,
    /// `waits` decides whether to go on.
    ///
    /// # Errors
    /// If the ends can't use TLS together, or the connection fails.
    pub fn accept(&self, stream: TcpStream, waits: impl FnMut() -> bool) -> Result<Encrypted, NoTls> {
        let connection = ServerConnection::new(self.0.clone()).map_err(io::Error::other)?;
        Encrypted::begin(connection.into(), stream, true, waits)
    }
}

impl Client {
    /// Returns settings with which a client trusts a server that has a certificate of one of `authorities`, PEM, or one
    /// of these itself, for `name`: a host name or an address, with or without brackets around an IPv6 address. The
    /// client shows `identity` if the server asks for a certificate.
    ///
    /// # Errors
    /// If any of them can't be used.
    pub fn new(authorities: &[u8], name: &str, identity: Option<Identity<'_>>) -> Result<Self, CertificateError> {
        // Brackets separate an address from its port. Certificates have none.
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(name.to_owned()).map_err(|error| refused("the name of the server", &error))?;
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(VERSIONS);
        let builder = builder.map_err(|error| refused("the authorities", &error))?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots(authorities)?), provider()).build();
        let verifier = verifier.map_err(|error| refused("the authorities", &error))?;
        let verifier = NamedAuthorities::new(verifier, certificates(authorities, "the authorities")?);
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (certificates, key) = identity.read()?;
                let config = builder.with_client_auth_cert(certificates, key);
                config.map_err(|error| refused("the certificate and its key", &error))?
            }
        };
        let (config, shows) = (Arc::new(config), identity.is_some());
        Ok(Client { config, name, shows })
    }

    /// Returns whether the client has a certificate to show.
    #[must_use]
    pub fn shows(&self) -> bool {
        self.shows
    }

    /// Agrees with a server on how to encrypt. Whenever the stream has nothing for as long as its timeouts say, `waits`
    /// decides whether to go on. That the server refuses the certificate of this client shows later, when it is read
    /// from.
    ///
    /// # Errors
    /// If the ends can't use TLS together, or the connection fails.
    pub fn connect(&self, stream: TcpStream, waits: impl FnMut() -> bool) -> Result<Encrypted, NoTls> {
        let connection = ClientConnection::new(self.config.clone(), self.name.clone()).map_err(io::Error::other)?;
        Encrypted::begin(connection.into(), stream, self.shows, waits)
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl Identity<'_> {
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), CertificateError> {
        let key = PrivateKeyDer::from_pem_slice(self.key).map_err(|error| match error {
            pem::Error::NoItemsFound => refused("the key", &"there is no private key in it"),
            error => refused("the key", &error),
        })?;
        Ok((certificates(self.certificates, "the certificate")?, key))
    }
}

fn certificates(pem: &[u8], what: &'static str) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| refused(what, &error))?;
    if read.is_empty() {
        return Err(refused(what, &"there is no certificate in it"));
    }
    Ok(read)
}

fn roots(pem: &[u8]) -> Result<RootCertStore, CertificateError> {
    const WHAT: &str = "the authorities";
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, WHAT)? {
        roots.add(certificate).map_err(|error| refused(WHAT, &error))?;
    }
    Ok(roots)
}

fn refused(what: &'static str, why: &impl std::fmt::Display) -> CertificateError {
    let found = why.to_string();
    CertificateError { what, found }
}
