//! Real servers, which the tests do not start. `crates/remote/servers/servers.py` starts them: see docs/remote.md.
//!
//! `IBID_SERVER` is the address of an empty bucket. Beside it is one whose name ends in `-versions`, which keeps old
//! versions where the service knows them.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use ibid_remote::{Address, ObjectStorage, Options, open};
use ibid_storage::probe::{self, Race};
use ibid_storage::{ErrorKind, Lock, LockMode, Storage, conformance};

use crate::name;

/// Opens a folder that no other test uses, in the bucket or in the one beside it.
fn place(beside: &str, folder: &str) -> ObjectStorage {
    let server = std::env::var("IBID_SERVER").expect("IBID_SERVER is the address of a bucket");
    let (bucket, options) = server.split_once('?').unwrap_or((&server, ""));
    let address: Address = format!("{bucket}{beside}/{folder}?{options}").parse().unwrap();
    open(&address, &Options::default()).unwrap()
}

/// Deletes what a test has left.
fn clear(place: &ObjectStorage) {
    let mut left = Vec::new();
    place.list("", &mut |name, _| left.push(name)).unwrap();
    for name in left {
        place.delete(&name).unwrap();
    }
}

fn conforms(beside: &str) {
    let folder = probe::random_tag();
    let number = Cell::new(0);
    conformance::run(|| {
        number.set(number.get() + 1);
        Box::new(place(beside, &format!("{folder}/{}", number.get())))
    });
    clear(&place(beside, &folder));
}

#[test]
#[ignore = "needs a server: see docs/remote.md"]
fn a_real_server_conforms() {
    conforms("");
}

/// A deleted name is free again, though the server keeps what it had.
#[test]
#[ignore = "needs a server: see docs/remote.md"]
fn a_real_server_that_keeps_versions_conforms() {
    conforms("-versions");
}

#[test]
#[ignore = "needs a server: see docs/remote.md"]
fn a_real_server_is_found_to_keep_its_promises() {
    let place = place("", &probe::random_tag());
    let report = probe::run(&place, "keys");
    assert!(report.is_ok() && report.left.is_empty(), "{report:?}");
}

/// Eight clients, which share neither connections nor anything else, race for names three times.
#[test]
#[ignore = "needs a server: see docs/remote.md"]
fn of_many_clients_one_wins() {
    let folder = probe::random_tag();
    for round in 0..3 {
        let race = Race::new("keys", &format!("{round}")).unwrap();
        let won: Vec<Vec<bool>> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..8)
                .map(|client| {
                    let (race, folder) = (&race, &folder);
                    scope.spawn(move || race.run(&place("", folder), client).unwrap())
                })
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        assert_eq!(race.judge(&place("", &folder), &won).unwrap(), None, "round {round}");
    }
}

/// Pages have at most 1000 names; meanwhile others come and go.
#[test]
#[ignore = "needs a server: see docs/remote.md"]
fn a_long_list_is_whole() {
    let place = place("", &probe::random_tag());
    let names: BTreeSet<String> = (0..2100)
        .map(|number| format!("packs/{:02x}/{number}", number % 256))
        .collect();
    let all: Vec<_> = names.iter().collect();
    std::thread::scope(|scope| {
        for part in all.chunks(all.len() / 8 + 1) {
            let place = &place;
            scope.spawn(move || part.iter().for_each(|text| place.put(&name(text), &[b"x"]).unwrap()));
        }
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..100 {
                let passing = name(&format!("packs/80/passing-{number}"));
                place.put(&passing, &[b"passing"]).unwrap();
                place.delete(&passing).unwrap();
            }
        });
        for _ in 0..5 {
            let mut listed = Vec::new();
            place
                .list("packs", &mut |name, size| listed.push((name.to_string(), size)))
                .unwrap();
            let listed = listed.into_iter().filter(|(name, _)| !name.contains("passing"));
            let (listed, sizes): (Vec<String>, BTreeSet<u64>) = listed.unzip();
            assert_eq!(listed.len(), names.len());
            assert!(listed.into_iter().collect::<BTreeSet<_>>() == names && sizes == BTreeSet::from([1]));
        }
    });
    clear(&place);
}

/// As large as the largest packs.
#[test]
#[ignore = "needs a server: see docs/remote.md"]
fn a_large_object_is_read_whole_and_in_parts() {
    let place = place("", &probe::random_tag());
    let bytes: Vec<u8> = (0..64_u32 << 20)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let pack = name("packs/0a/large");
    place.put(&pack, &[&bytes[..1000], &bytes[1000..]]).unwrap();
    assert_eq!(place.size(&pack).unwrap(), bytes.len() as u64);
    assert!(place.get(&pack, u64::MAX).unwrap() == bytes);
    for (offset, length) in [(0, 1), (1, 8 << 20), ((64 << 20) - 1, 1), (5 << 20, (1 << 20) + 1)] {
        let mut part = vec![0; length];
        place.read_at(&pack, offset as u64, &mut part).unwrap();
        assert!(
            part == bytes[offset..offset + length],
            "{length} bytes from {offset} on"
        );
    }
    let again = place.put(&pack, &[&bytes]).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{again}");
    let requests = place.requests();
    assert_eq!(
        (requests.put, requests.other, requests.again),
        (2, 0, 0),
        "{requests:?}"
    );
    clear(&place);
}

/// Only of S3: a lock holds as long as it was asked for, it is renewed, and what was deleted or replaced is read.
#[test]
#[ignore = "needs a server: see docs/remote.md"]
fn a_real_server_locks_and_shows_what_was() {
    let folder = probe::random_tag();
    let open = || std::sync::Arc::new(place("-locks", &folder));
    let day = 24 * 60 * 60;
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let first = open();
    let Some(locks) = first.locks() else {
        assert!(!first.location().starts_with("s3:"));
        return;
    };
    locks.check().unwrap();
    let without = place("", &folder);
    let refused = without.locks().unwrap().check().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");

    locks.keep(Lock::new(1, LockMode::Governance).unwrap(), |name| name.is_in("packs"));
    let (kept, passing) = (name("packs/0a/kept"), name("sessions/passing"));
    first.put(&kept, &[b"what was"]).unwrap();
    first.put(&passing, &[b"passing"]).unwrap();
    let until = locks.until(std::slice::from_ref(&kept)).unwrap().unwrap();
    assert!(until % day == 0 && (now() + day..now() + 2 * day + 60).contains(&until));
    assert_eq!(locks.until(std::slice::from_ref(&passing)).unwrap(), None);
    assert_eq!(locks.due(true, &|name| name.is_in("packs")).unwrap(), []);

    let second = open();
    let longer = second.locks().unwrap();
    longer.keep(Lock::new(9, LockMode::Governance).unwrap(), |name| name.is_in("packs"));
    let due = longer.due(true, &|name| name.is_in("packs")).unwrap();
    assert_eq!(due.len(), 1);
    assert_eq!(due[0].name, kept);
    longer.renew(&due, &|| true).unwrap();
    assert!(longer.until(std::slice::from_ref(&kept)).unwrap().unwrap() > now() + 9 * day);

    // Times of versions are in seconds.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let before = now() - 1;
    std::thread::sleep(std::time::Duration::from_millis(1100));
    second.delete(&kept).unwrap();
    second.delete(&passing).unwrap();
    second.put(&kept, &[b"what a thief stores"]).unwrap();
    let past = second.as_of(before).unwrap();
    let mut listed = Vec::new();
    past.list("", &mut |name, size| listed.push((name.to_string(), size)))
        .unwrap();
    listed.sort_unstable();
    assert_eq!(listed, [(kept.to_string(), 8), (passing.to_string(), 7)]);
    assert_eq!(past.get(&kept, 100).unwrap(), b"what was");
    let mut part = [0; 3];
    past.read_at(&kept, 5, &mut part).unwrap();
    assert_eq!(&part, b"was");
    assert_eq!(second.get(&kept, 100).unwrap(), b"what a thief stores");
    let error = std::sync::Arc::new(without).as_of(now());
    assert!(error.is_ok_and(|past| past.size(&kept).is_err()), "nothing is there");
}
