//! Addresses and options.

use ibid_remote::{Address, AddressError, Addressing, Options, Service, open};
use ibid_storage::ErrorKind;

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
