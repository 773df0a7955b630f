//! Authorities, certificates, and those that are none.

use std::sync::OnceLock;

use ibid_remote::connection::{Identity, MutualTls, TlsClient};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, PEM.
pub(crate) struct Pair {
    certificate: String,
    key: String,
}

impl Pair {
    pub(crate) fn identity(&self) -> Identity<'_> {
        Identity {
            certificates: self.certificate.as_bytes(),
            key: self.key.as_bytes(),
        }
    }
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn pair(&self, name: &str) -> Pair {
        self.pair_until(name, 2100)
    }

    /// Returns a certificate that ends with a year.
    pub(crate) fn pair_until(&self, name: &str, year: i32) -> Pair {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new([name.to_owned()]).unwrap();
        parameters.not_before = date_time_ymd(2001, 1, 1);
        parameters.not_after = date_time_ymd(year, 1, 1);
        Pair {
            certificate: parameters.signed_by(&key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

pub(crate) fn authority() -> &'static Authority {
    static OURS: OnceLock<Authority> = OnceLock::new();
    OURS.get_or_init(Authority::new)
}

/// Returns what the server shows.
pub(crate) fn server() -> &'static MutualTls {
    static SERVER: OnceLock<MutualTls> = OnceLock::new();
    SERVER.get_or_init(|| {
        let pair = authority().pair("127.0.0.1");
        MutualTls::new(pair.identity(), authority().pem().as_bytes()).unwrap()
    })
}

/// Returns what a client of a server of this name shows, the same each time.
pub(crate) fn ours(name: &str) -> TlsClient {
    static CLIENT: OnceLock<Pair> = OnceLock::new();
    let pair = CLIENT.get_or_init(|| authority().pair("laptop"));
    TlsClient::new(authority().pem().as_bytes(), name, Some(pair.identity())).unwrap()
}
