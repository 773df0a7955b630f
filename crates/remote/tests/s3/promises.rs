//! What every storage promises.

use std::cell::Cell;

use ibid_s3_server::{ACCESS_KEY, SECRET_KEY, Server, Traits};
use ibid_storage::probe::{self, Promise};
use ibid_storage::{ErrorKind, Name, Storage, conformance};
use object_store::aws::AmazonS3Builder;
use object_store::{ObjectStore, PutMode, PutOptions};

use crate::{name, storage};

#[test]
fn a_bucket_conforms() {
    let server = Server::start();
    let number = Cell::new(0);
    conformance::run(|| {
        number.set(number.get() + 1);
        Box::new(storage(&server, &format!("bucket/some/place/{}", number.get())))
    });
}

#[test]
fn a_bucket_without_a_prefix_and_with_short_pages_conforms() {
    let servers = Cell::new(Vec::new());
    conformance::run(|| {
        let traits = Traits {
            page: 3,
            ..Traits::default()
        };
        let server = Server::start_with(traits, 0);
        let place = storage(&server, "bucket");
        let mut all = servers.take();
        all.push(server);
        servers.set(all);
        Box::new(place)
    });
}

#[test]
fn places_in_one_bucket_do_not_see_each_other() {
    let server = Server::start();
    let (a, b) = (storage(&server, "bucket/a"), storage(&server, "bucket/a/b"));
    let other = storage(&server, "other/a");
    a.put(&name("x"), &[b"of a"]).unwrap();
    b.put(&name("x"), &[b"of b"]).unwrap();
    assert_eq!(server.keys("bucket"), ["a/b/x", "a/x"]);
    assert_eq!(b.get(&name("x"), 10).unwrap(), b"of b");
    assert_eq!(other.get(&name("x"), 10).unwrap_err().kind(), ErrorKind::NotFound);
    // Keys that no name is, and a name like the prefix.
    server.set("bucket", "a/b/UPPER", Some(vec![1]));
    server.set("bucket", "a/bx", Some(vec![1]));
    let mut listed = Vec::new();
    b.list("", &mut |name, size| listed.push((name.to_string(), size)))
        .unwrap();
    assert_eq!(listed, [("x".to_owned(), 4)]);
}

#[test]
fn a_server_is_found_to_keep_its_promises_or_to_overwrite() {
    let server = Server::start();
    let report = probe::run(&storage(&server, "bucket/place"), "keys");
    assert!(report.is_ok() && report.left.is_empty(), "{report:?}");
    assert_eq!(server.keys("bucket"), Vec::<String>::new());

    let traits = Traits {
        overwrites: true,
        ..Traits::default()
    };
    let server = Server::start_with(traits, 0);
    let report = probe::run(&storage(&server, "bucket/place"), "keys");
    assert!(
        !report.keeps(Promise::NoOverwrite) && !report.keeps(Promise::OneWins),
        "{report:?}"
    );
    assert!(
        report.keeps(Promise::ReadAfterWrite) && report.keeps(Promise::List),
        "{report:?}"
    );
}

/// A bucket of Amazon can deny puts without `If-None-Match: *`. The server of the tests denies them always, so that
/// every test with it shows that ibid sends no others. Here the server itself is tested.
#[test]
fn every_put_has_the_condition_that_a_bucket_can_demand() {
    let server = Server::start();
    // An error says that another test was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let bucket = AmazonS3Builder::new()
        .with_bucket_name("bucket")
        .with_region("us-east-1")
        .with_endpoint(server.endpoint())
        .with_allow_http(true)
        .with_access_key_id(ACCESS_KEY)
        .with_secret_access_key(SECRET_KEY)
        .build()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let path = "place/name".into();
    let put = |mode| runtime.block_on(bucket.put_opts(&path, "bytes".into(), PutOptions::from(mode)));
    let refused = put(PutMode::Overwrite).unwrap_err();
    assert!(refused.to_string().contains("If-None-Match"), "{refused}");
    assert_eq!(server.keys("bucket"), Vec::<String>::new());
    put(PutMode::Create).unwrap();
    assert_eq!(server.object("bucket", "place/name").unwrap(), b"bytes");

    storage(&server, "bucket/place").put(&name("usual"), &[b"a"]).unwrap();
    assert_eq!(server.keys("bucket"), ["place/name", "place/usual"]);
}

#[test]
fn many_objects_are_deleted_with_one_request_if_the_server_can_do_that() {
    for deletes_one in [false, true] {
        let traits = Traits {
            deletes_one,
            ..Traits::default()
        };
        let server = Server::start_with(traits, 0);
        let place = storage(&server, "bucket/place");
        let names: Vec<Name> = (0..30).map(|number| name(&format!("folder/{number}"))).collect();
        for round in 0..2 {
            for name in &names {
                place.put(name, &[b"bytes"]).unwrap();
            }
            let before = place.requests().delete;
            place.delete_all(&names).unwrap();
            assert_eq!(server.keys("bucket"), Vec::<String>::new());
            let took = place.requests().delete - before;
            // One that it refuses, and then each by itself.
            let expected = match (deletes_one, round) {
                (false, _) => 1,
                (true, 0) => 31,
                (true, _) => 30,
            };
            assert_eq!(took, expected, "{deletes_one} {round}");
        }
    }
}

#[test]
fn folders_with_few_objects_are_listed_with_one_request_and_others_cost_one_more_each() {
    let server = Server::start();
    let place = storage(&server, "bucket/place");
    let fill = |folder: &str, count: usize| {
        for number in 0..count {
            place.put(&name(&format!("{folder}/{number:04}")), &[]).unwrap();
        }
    };
    let listed = |folders: &[&str]| {
        let before = place.requests().list;
        let mut found = Vec::new();
        let each = &mut |name: Name, _| found.push(name.to_string());
        let whole = place.list_together(folders, each).unwrap();
        (whole, found, place.requests().list - before)
    };
    let count = |found: &[String], folder: &str| found.iter().filter(|text| text.starts_with(folder)).count();
    let folders = ["config.copy", "index", "packs", "prune", "snapshots"];
    place.put(&name("config.copy"), &[]).unwrap();
    fill("index", 400);
    fill("snapshots", 500);
    // All but one of a page.
    fill("packs", 98);
    let (whole, found, requests) = listed(&folders);
    assert_eq!((whole, found.len(), requests), (vec![true; 5], 999, 1));

    // A full page may be the last one, as the server says.
    fill("packs/more", 1);
    let (whole, found, requests) = listed(&folders);
    assert_eq!((whole, requests), (vec![true; 5], 1));
    assert_eq!(found.len(), 1000);
    assert_eq!(
        listed(&["snapshots"]),
        (vec![false], Vec::new(), 0),
        "one is not several"
    );

    // What does not fit is passed over.
    fill("packs/rest", 1700);
    fill("checkpoints", 10);
    fill("written/a", 1200);
    let (whole, found, requests) = listed(&folders);
    assert_eq!((whole, requests), (vec![true, true, false, true, true], 2));
    assert_eq!((count(&found, "index/"), count(&found, "snapshots/")), (400, 500));
    assert!(count(&found, "packs/") < 1000 && count(&found, "written/") == 0);
    // A folder in which others are.
    let (whole, found, requests) = listed(&["written/a", "written/b"]);
    assert_eq!((whole, found.len(), requests), (vec![false, true], 1000, 2));
}

#[test]
fn requests_and_bytes_are_counted_by_kind() {
    let traits = Traits {
        page: 2,
        ..Traits::default()
    };
    let server = Server::start_with(traits, 0);
    let place = storage(&server, "bucket/place");
    for number in 0..5 {
        place.put(&name(&format!("{number}")), &[&[1; 1000]]).unwrap();
    }
    place.get(&name("0"), 1000).unwrap();
    place.read_at(&name("0"), 500, &mut [0; 100]).unwrap();
    place.size(&name("0")).unwrap();
    place.list("", &mut |_, _| ()).unwrap();
    place.delete(&name("0")).unwrap();
    let requests = place.requests();
    let counted = [
        requests.put,
        requests.get,
        requests.head,
        requests.list,
        requests.delete,
        requests.other,
    ];
    assert_eq!(counted, [5, 2, 1, 3, 1, 0], "{requests:?}");
    assert_eq!((requests.count(), requests.again, requests.sent_bytes), (12, 0, 5000));
    assert!((1100..10_000).contains(&requests.received_bytes), "{requests:?}");
}
