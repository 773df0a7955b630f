//! Addresses and options.

use std::net::TcpListener;

use ibid_remote::{Address, AddressError, Addressing, NOT_TRUSTED, Options, Service, open};
use ibid_storage::{ErrorKind, Storage as _};
use ibid_tls::Identity;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::{name, options};

#[test]
fn addresses_are_read_and_written() {
    let texts = [
        "s3://bucket",
        "s3://my.bucket/some/folder",
        "gs://bucket/a",
        "az://container/a?endpoint=http://127.0.0.1:10000/devstoreaccount1",
        "s3://b/p?endpoint=https://s3.example.org&region=eu&addressing=virtual",
        "s3://b/p?storage-class=STANDARD_IA",
        "s3://b/p?storage-class=DEEP_ARCHIVE",
        "gs://b/p?storage-class=ARCHIVE",
        "az://b/p?storage-class=Cool",
    ];
    for text in texts {
        let address: Address = text.parse().unwrap();
        assert_eq!(address.to_string(), text);
    }
    let address: Address = "s3://b/p//?addressing=path".parse().unwrap();
    assert_eq!((address.prefix(), address.addressing()), ("p", Some(Addressing::Path)));
    let given = address
        .or_endpoint(Some("http://nas:9000/"))
        .unwrap()
        .or_region(Some("home"));
    assert_eq!(
        (given.service(), given.endpoint(), given.region()),
        (Service::S3, Some("http://nas:9000"), Some("home"))
    );
    let again = given.or_endpoint(Some("http://other")).unwrap().or_region(None);
    assert_eq!(
        (again.endpoint(), again.region()),
        (Some("http://nas:9000"), Some("home"))
    );
}

#[test]
fn what_is_no_address_is_refused() {
    let refused = |text: &str| text.parse::<Address>().unwrap_err();
    assert!(matches!(refused("/srv/backup"), AddressError::Scheme { .. }));
    assert!(matches!(refused("s3:bucket"), AddressError::Scheme { .. }));
    assert!(matches!(refused("s3://"), AddressError::Bucket { .. }));
    assert!(matches!(refused("s3:///folder"), AddressError::Bucket { .. }));
    assert!(matches!(refused("s3://user@bucket/x"), AddressError::Bucket { .. }));
    assert!(matches!(refused("s3://b/a//c"), AddressError::Prefix { .. }));
    assert!(matches!(refused("s3://b/a/../c"), AddressError::Prefix { .. }));
    assert!(matches!(refused("s3://b/a?secret=x"), AddressError::Option { .. }));
    assert!(matches!(refused("s3://b/a?endpoint=nas"), AddressError::Value { .. }));
    assert!(matches!(refused("s3://b/a?addressing=no"), AddressError::Value { .. }));
    // S3 has its archives in capitals, and what goes there must be known.
    for class in ["", "IA;x", "deep_archive", "Glacier"] {
        let refused = refused(&format!("s3://b/a?storage-class={class}"));
        assert!(refused.to_string().contains("in capitals"), "{refused}");
    }
    assert!(matches!(
        refused("az://b/a?storage-class=Archive"),
        AddressError::Value { .. }
    ));
}

#[test]
fn certificates_that_are_none_are_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("certificates.pem");
    let address = "s3://bucket?endpoint=https://127.0.0.1:1".parse().unwrap();
    let tried = || open(&address, &Options::default().certificates(Some(file.clone()))).unwrap_err();
    let error = tried();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(
        error
            .to_string()
            .contains("certificates.pem can't be read: no such file or directory"),
        "{error}"
    );
    std::fs::write(&file, "no certificate").unwrap();
    assert!(tried().to_string().contains("there are none (expected PEM)"));
}

#[test]
fn a_profile_without_credentials_is_said_to_have_none() {
    let address = "s3://bucket?endpoint=http://127.0.0.1:1".parse().unwrap();
    let options = Options::default().profile(Some("there-is-no-such-profile".into()));
    let error = open(&address, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(
        error
            .to_string()
            .contains("no credentials for the profile there-is-no-such-profile"),
        "{error}"
    );
}

/// With a server of our own, most certificates are made by hand.
#[test]
fn a_certificate_that_is_not_accepted_is_said_to_be_at_once_and_why() {
    let authority = issuer(CertificateParams::default());
    let other = issuer(CertificateParams::default());
    let own = issuer(CertificateParams::new(["localhost".to_owned()]).unwrap());
    let of_own = || (own.pem(), own.key().serialize_pem());
    let key = KeyPair::generate().unwrap();
    let alone = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let alone = (alone.self_signed(&key).unwrap().pem(), key.serialize_pem());
    let signed = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new([name.to_owned()]).unwrap();
        (
            parameters.signed_by(&key, &authority).unwrap().pem(),
            key.serialize_pem(),
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trusted.pem");
    for (shown, trusted, expected) in [
        (signed("localhost"), other.pem(), Some("is of another one")),
        (
            signed("example.org"),
            authority.pem(),
            Some("a certificate for localhost was expected"),
        ),
        (of_own(), other.pem(), Some("CA:TRUE")),
        (of_own(), own.pem(), None),
        (alone.clone(), alone.0, None),
        (signed("localhost"), authority.pem(), None),
    ] {
        std::fs::write(&file, trusted).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let identity = Identity {
            certificates: shown.0.as_bytes(),
            key: shown.1.as_bytes(),
        };
        let server = ibid_tls::Server::new(identity, None).unwrap();
        // It answers nothing to those that accept its certificate.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = server.accept(stream, || true);
            }
        });
        let address = format!("s3://bucket/place?endpoint=https://localhost:{port}");
        let trusting = options().certificates(Some(file.clone()));
        let place = open(&address.parse().unwrap(), &trusting).unwrap();
        let found = place.get(&name("object"), 100).unwrap_err();
        match expected {
            Some(expected) => {
                let text = found.to_string();
                assert!(text.contains(NOT_TRUSTED) && text.contains(expected), "{text}");
                assert_eq!(place.requests().get, 1, "it was tried again");
            }
            None => assert!(found.to_string().contains("no answer"), "{found}"),
        }
        let put = place.put(&name("object"), &[b"bytes"]).unwrap_err();
        assert_eq!(put.to_string().contains(NOT_TRUSTED), expected.is_some(), "{put}");
    }
}

fn issuer(mut parameters: CertificateParams) -> CertifiedIssuer<'static, KeyPair> {
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}
