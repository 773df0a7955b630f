//! Why two ends cannot use TLS together.

use std::io;

use rustls::{AlertDescription, CertificateError};

use crate::named::OF_AUTHORITY;

/// Why there is no connection with TLS: one end does not trust the other, or they do not agree.
/// Trying again does not help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The certificate of the other end is not of a trusted authority.
    #[error("a certificate of a trusted authority was expected, and its certificate is of another one")]
    UnknownAuthority,
    /// The certificate of the other end is for other names.
    #[error("a certificate for {expected} was expected, and its certificate is for {}", listed(.found))]
    OtherName {
        /// The name or address that was expected.
        expected: String,
        /// The names and addresses in the certificate.
        found: Vec<String>,
    },
    /// The certificate of the other end has expired, or can't be used for another reason.
    #[error("a certificate that can be used was expected, and its certificate is not: {found}")]
    UnusableCertificate {
        /// Why it can't be used.
        found: String,
    },
    /// The other end wants a certificate, and this one has none to show.
    #[error("it expects a certificate, and none was shown")]
    CertificateRequired,
    /// The other end does not accept the certificate that this one has shown.
    #[error("it expects a certificate that it trusts, and refuses the one that was shown: {found}")]
    CertificateRefused {
        /// What it said.
        found: String,
    },
    /// The other end does not use TLS.
    #[error("TLS was expected, and it does not use TLS")]
    NoTls,
    /// The other end uses TLS, and this one does not.
    #[error("it expects TLS, and this end does not use TLS")]
    OnlyTls,
    /// The ends have no version of TLS, or no method to encrypt, in common.
    #[error("TLS 1.3 was expected, and the two ends do not agree: {found}")]
    NotAgreed {
        /// The message of the TLS library, or of the other end.
        found: String,
    },
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "no name".to_owned(),
        names => names.join(", "),
    }
}

impl Fault {
    /// Returns why the certificate of a server was not accepted, if that is behind an error of a client that uses
    /// rustls by itself, such as one of HTTP.
    #[must_use]
    pub fn of_certificate(error: &(dyn std::error::Error + 'static)) -> Option<Fault> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(rustls::Error::InvalidCertificate(why)) = error.downcast_ref() {
                return Some(not_accepted(why));
            }
            // Of an error within another one, that names the cause of the one within.
            let within = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            cause = match within {
                Some(within) => Some(within),
                None => error.source(),
            };
        }
        None
    }

    /// Returns the fault behind an error of a connection with TLS; [`None`] for an error that may
    /// pass. `shows` tells whether this end has a certificate to show, `begins` whether the ends
    /// have yet to agree on how to encrypt.
    pub(crate) fn of(error: &io::Error, shows: bool, begins: bool) -> Option<Fault> {
        use rustls::Error as E;
        let error = error.get_ref()?.downcast_ref::<E>()?;
        let found = error.to_string();
        Some(match error {
            E::InvalidCertificate(why) => not_accepted(why),
            E::AlertReceived(alert) => return of_alert(*alert, shows, begins),
            E::NoCertificatesPresented => Fault::CertificateRequired,
            E::PeerIncompatible(_) => Fault::NotAgreed { found },
            E::InvalidMessage(_) if begins => Fault::NoTls,
            E::InappropriateMessage { .. } | E::InappropriateHandshakeMessage { .. } | E::PeerMisbehaved(_)
                if begins =>
            {
                Fault::NotAgreed { found }
            }
            // What was damaged on the way, and faults of this end.
            _ => return None,
        })
    }
}

fn not_accepted(error: &CertificateError) -> Fault {
    match error {
        // The other authority may have the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => Fault::UnknownAuthority,
        CertificateError::NotValidForNameContext { expected, presented } => Fault::OtherName {
            expected: expected.to_str().into_owned(),
            found: presented.iter().map(|name| plain(name).to_owned()).collect(),
        },
        CertificateError::Other(error) => Fault::UnusableCertificate {
            found: said(&error.to_string()),
        },
        error => {
            let found = error.to_string();
            Fault::UnusableCertificate { found }
        }
    }
}

/// Returns in words what rustls hands on as a name.
fn said(name: &str) -> String {
    match name {
        OF_AUTHORITY => {
            "it is that of an authority (CA:TRUE), where one signed by an authority is needed (CA:FALSE), or \
             one that is itself among those to trust"
                .to_owned()
        }
        "EndEntityUsedAsCa" => {
            "it was signed with a certificate that is not that of an authority (CA:FALSE)".to_owned()
        }
        name => name.to_owned(),
    }
}

/// Returns a name of a certificate, which rustls shows as `DnsName("example.org")` or
/// `IpAddress(127.0.0.1)`.
fn plain(shown: &str) -> &str {
    let inner = shown.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(shown).trim_matches('"')
}

fn of_alert(alert: AlertDescription, shows: bool, begins: bool) -> Option<Fault> {
    use AlertDescription as A;
    let found = format!("{alert:?}");
    match alert {
        A::CertificateRequired => Some(Fault::CertificateRequired),
        A::NoCertificate
        | A::BadCertificate
        | A::UnsupportedCertificate
        | A::CertificateRevoked
        | A::CertificateExpired
        | A::CertificateUnknown
        | A::UnknownCA
        | A::DecryptError
        | A::AccessDenied => Some(match shows {
            true => Fault::CertificateRefused { found },
            false => Fault::CertificateRequired,
        }),
        A::HandshakeFailure
        | A::ProtocolVersion
        | A::InsufficientSecurity
        | A::UnrecognisedName
        | A::MissingExtension
        | A::NoApplicationProtocol => Some(Fault::NotAgreed { found }),
        // It sent an alert where a greeting was expected.
        _ if begins => Some(Fault::NotAgreed { found }),
        _ => None,
    }
}
