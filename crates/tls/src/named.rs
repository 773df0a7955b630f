//! Certificates of authorities that a client was told to trust, and that a server shows as its own.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// What rustls says of a certificate with `CA:TRUE` that a server shows as its own. By then it has looked at the
/// certificate's dates.
pub(crate) const OF_AUTHORITY: &str = "CaUsedAsEndEntity";

/// Accepts what another verifier accepts, and, for the names in it, a certificate that is itself among the trusted ones
/// though it is that of an authority (`CA:TRUE`). `openssl req -x509` makes such ones by itself.
///
/// Nothing more is trusted than before: with the key of such a certificate one can sign others, for any name.
#[derive(Debug)]
pub struct NamedAuthorities {
    verifier: Arc<dyn ServerCertVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl NamedAuthorities {
    /// Returns a verifier beside one that trusts these certificates as authorities.
    pub fn new(verifier: Arc<dyn ServerCertVerifier>, trusted: Vec<CertificateDer<'static>>) -> Self {
        NamedAuthorities { verifier, trusted }
    }
}

impl ServerCertVerifier for NamedAuthorities {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self
            .verifier
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(Error::InvalidCertificate(CertificateError::Other(why)))
                if why.to_string() == OF_AUTHORITY && self.trusted.contains(end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.verifier.requires_raw_public_keys()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        self.verifier.root_hint_subjects()
    }
}
