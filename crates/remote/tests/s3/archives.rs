//! Objects in archives: which are, whether they can be read, and having them thawed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ibid_remote::{Address, ObjectStorage, open};
use ibid_s3_server::{Fault, Operation, Server, Traits};
use ibid_storage::{ArchiveState, Archives, ErrorKind, Name, Storage, Thaw, ThawTier};

use crate::{name, options};

const DAY: i64 = 24 * 60 * 60;

fn storing_in(server: &Server, class: &str) -> ObjectStorage {
    let text = format!("s3://bucket/a?endpoint={}&storage-class={class}", server.endpoint());
    let address: Address = text.parse().unwrap();
    open(&address, &options()).unwrap()
}

fn archives(storage: &ObjectStorage) -> &dyn Archives {
    storage.archives().expect("S3 has archives")
}

fn thaw(days: u32, tier: ThawTier) -> Thaw {
    Thaw::new(days, tier).unwrap()
}

fn state(storage: &ObjectStorage, of: &str) -> ArchiveState {
    archives(storage).states(&[name(of)]).unwrap()[0]
}

fn listed(storage: &ObjectStorage, folder: &str) -> Vec<(String, u64, String)> {
    let mut listed = Vec::new();
    archives(storage)
        .list_archived(folder, &mut |name, size, class| {
            listed.push((name.to_string(), size, class.to_owned()))
        })
        .unwrap();
    listed
}

#[test]
fn what_is_stored_in_an_archive_is_listed_and_read_once_it_is_thawed() {
    let server = Server::start_with(
        Traits {
            page: 2,
            ..Traits::default()
        },
        0,
    );
    let storage = storing_in(&server, "DEEP_ARCHIVE");
    assert_eq!(archives(&storage).class_of_data(), Some("DEEP_ARCHIVE"));
    let packs: Vec<Name> = (0..5).map(|number| name(&format!("packs/{number}"))).collect();
    for pack in &packs {
        storage.put_data(pack, &[b"data"]).unwrap();
    }
    storage.put(&name("packs/tree"), &[b"at once"]).unwrap();
    storage.put_data(&name("other/1"), &[b"elsewhere"]).unwrap();
    let all = listed(&storage, "packs");
    assert_eq!(all.len(), 5, "of three pages: {all:?}");
    assert_eq!(all[0], ("packs/0".to_owned(), 4, "DEEP_ARCHIVE".to_owned()));
    assert_eq!(listed(&storage, "").len(), 6);
    assert_eq!(listed(&storage, "nothing"), []);

    assert_eq!(storage.get(&name("packs/tree"), 10).unwrap(), b"at once");
    assert_eq!(state(&storage, "packs/tree"), ArchiveState::Readable(None));
    assert_eq!(state(&storage, "packs/9"), ArchiveState::Gone);
    assert_eq!(state(&storage, "packs/0"), ArchiveState::Frozen);
    let refused = storage.get(&packs[0], 10).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Archived, "{refused}");
    let part = storage.read_at(&packs[0], 1, &mut [0; 2]).unwrap_err();
    assert_eq!(part.kind(), ErrorKind::Archived, "{part}");
    assert_eq!(storage.size(&packs[0]).unwrap(), 4, "what is said of it can be read");

    let asked = AtomicU64::new(0);
    let count = |objects| {
        asked.fetch_add(objects, Ordering::Relaxed);
        true
    };
    // What is gone, is in no archive, or is being thawed is passed over.
    let mut wanted = vec![name("packs/9"), name("packs/tree")];
    wanted.extend_from_slice(&packs[..3]);
    for _ in 0..2 {
        archives(&storage)
            .thaw(&wanted, thaw(3, ThawTier::Bulk), &count)
            .unwrap();
    }
    assert_eq!(asked.into_inner(), 10);
    assert_eq!(server.thaw("bucket", "a/packs/0"), Some(("Bulk".to_owned(), 3)));
    assert_eq!(state(&storage, "packs/0"), ArchiveState::Thawing);
    assert!(storage.get(&packs[0], 10).is_err());
    server.finish_thaws();
    assert_eq!(storage.get(&packs[0], 10).unwrap(), b"data");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    match state(&storage, "packs/0") {
        ArchiveState::Readable(Some(until)) => assert!((until - now - 3 * DAY).abs() < 60, "{until}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(state(&storage, "packs/3"), ArchiveState::Frozen);
    // Asked for again, it lives for longer.
    archives(&storage)
        .thaw(&packs[..1], thaw(10, ThawTier::Bulk), &|_| true)
        .unwrap();
    server.pass(Duration::from_secs(4 * 24 * 60 * 60));
    assert!(matches!(state(&storage, "packs/0"), ArchiveState::Readable(Some(_))));
    assert_eq!(state(&storage, "packs/1"), ArchiveState::Frozen);
    assert_eq!(
        listed(&storage, "packs").len(),
        5,
        "thawed or not, it is in the archive"
    );
    storage.delete_all(&packs).unwrap();
    assert_eq!(listed(&storage, "packs"), []);
}

#[test]
fn what_a_service_does_not_thaw_is_said_at_once_and_what_passes_is_asked_again() {
    let server = Server::start();
    let storage = storing_in(&server, "GLACIER");
    storage.put_data(&name("packs/1"), &[b"data"]).unwrap();
    let packs = [name("packs/1")];
    let fast = archives(&storage)
        .thaw(&packs, thaw(1, ThawTier::Expedited), &|_| true)
        .unwrap_err();
    assert_eq!(fast.kind(), ErrorKind::Unsupported);
    assert!(fast.to_string().contains("no capacity to thaw in minutes"), "{fast}");
    let _ = server.faults().asked();
    // An answer that is lost is no reason to ask for more than that once.
    for fault in [Fault::Refuse(503), Fault::LoseAnswer] {
        server.faults().next(Operation::Thaw, fault);
    }
    archives(&storage)
        .thaw(&packs, thaw(2, ThawTier::Standard), &|_| true)
        .unwrap();
    assert_eq!(server.thaw("bucket", "a/packs/1"), Some(("Standard".to_owned(), 2)));
    assert_eq!(server.faults().asked(), [Operation::Thaw; 3]);
    assert_eq!(storage.requests().thaw, 4);
}
