//! Real servers, which the tests do not start. `crates/remote/servers/servers.py` starts them: see docs/remote.md.
//!
//! `IBID_SERVER` is the address of an empty bucket. Beside it is one whose name ends in `-versions`, which keeps old
//! versions where the service knows them.

use std::cell::Cell;
use std::collections::BTreeSet;

use ibid_remote::{Address, ObjectStorage, Options, open};
use ibid_storage::probe::{self, Race};
use ibid_storage::{ErrorKind, Storage, conformance};

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
