//! Power may be lost at any moment: an object is then there whole or not at all, and acknowledged
//! objects stay.

use std::collections::BTreeMap;

use ibid_storage::disk::Disk;
use ibid_storage::fault::{Call, DiskFault, FaultDisk};
use ibid_storage::{ErrorKind, Local, Name, Storage};

use crate::careless::{Careless, Flaw};

const ROOT: &str = "/srv/place";
const PARTS: [&[u8]; 4] = [b"a head, ", b"", b"some bytes in the middle, ", b"a tail"];

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Returns the object under `name` after a crash: none, or the whole one.
fn whole_or_nothing(disk: FaultDisk, object: &Name, context: &str) -> bool {
    // If even the root is gone, nothing is there.
    let Ok(place) = Local::open_on(disk, ROOT) else {
        return false;
    };
    match place.get(object, u64::MAX) {
        Ok(bytes) => {
            assert_eq!(bytes, PARTS.concat(), "a part of an object is visible: {context}");
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{context}: {error}");
            false
        }
    }
}

/// A new place and one object in it, stored on `disk`; whether the object was acknowledged.
fn store_one<D: Disk>(disk: D, object: &Name) -> bool {
    Local::create_on(disk, ROOT).is_ok_and(|place| place.put(object, &PARTS).is_ok())
}

/// Returns how many operations `store_one` takes.
fn operations(object: &Name) -> u64 {
    let disk = FaultDisk::new(0);
    assert!(store_one(disk.clone(), object));
    disk.operations()
}

#[test]
fn a_put_crashed_at_any_operation_leaves_nothing_or_all() {
    for object in [name("object"), name("packs/3f/object"), name("a/b/c/object")] {
        let last = operations(&object);
        let mut seen = [0, 0];
        for at in 0..=last {
            for seed in 0..200 {
                let disk = FaultDisk::new(seed);
                disk.short_writes(seed % 2 == 0);
                disk.crash_at(at);
                let acknowledged = store_one(disk.clone(), &object);
                let context = format!("{object}, crash before operation {at}, seed {seed}: {:?}", disk.calls());
                let there = whole_or_nothing(disk.crash(seed), &object, &context);
                assert!(there || !acknowledged, "an acknowledged object is lost: {context}");
                seen[usize::from(there)] += 1;
            }
        }
        assert!(seen[0] > 0 && seen[1] > 0, "both outcomes have to occur: {seen:?}");
    }
}

#[test]
fn acknowledged_objects_survive_any_crash() {
    for seed in 0..3000 {
        let disk = FaultDisk::new(seed);
        let place = Local::create_on(disk.clone(), ROOT).unwrap();
        let operations = 20 + seed % 90;
        disk.crash_at(disk.operations() + operations);
        // `Some(bytes)`: must be there; `None`: must not be; no entry: unknown, because the call failed.
        let mut expected: BTreeMap<Name, Option<Vec<u8>>> = BTreeMap::new();
        for step in 0_u64.. {
            let object = name(&format!("folder-{}/{}", (seed + step) % 3, (seed / 3 + step) % 4));
            let content = format!("{seed} {step}").into_bytes();
            let there = expected.get(&object).is_some_and(Option::is_some);
            let (result, after) = if there {
                (place.delete(&object), None)
            } else {
                (place.put(&object, &[&content[..1], &content[1..]]), Some(content))
            };
            if result.is_err() {
                expected.remove(&object);
                break;
            }
            expected.insert(object, after);
        }
        let place = Local::open_on(disk.crash(seed), ROOT).unwrap();
        for (object, content) in &expected {
            let found = place.get(object, u64::MAX).ok();
            assert_eq!(found.as_ref(), content.as_ref(), "{object} after seed {seed}");
        }
        let mut sizes = 0;
        place
            .list("", &mut |object, size| {
                sizes += u64::from(place.size(&object).unwrap() == size)
            })
            .unwrap();
        assert!(sizes as usize >= expected.values().flatten().count());
    }
}

/// Whether some crash shows that a protocol with this flaw loses or tears objects.
fn is_caught(flaw: Flaw, object: &Name) -> bool {
    let last = operations(object);
    (0..=last).any(|at| {
        (0..60).any(|seed| {
            let disk = FaultDisk::new(seed);
            disk.crash_at(at);
            let acknowledged = store_one(Careless::new(disk.clone(), flaw), object);
            let after = disk.crash(seed);
            let found = Local::open_on(after, ROOT)
                .ok()
                .and_then(|place| place.get(object, u64::MAX).ok());
            match found {
                Some(bytes) => bytes != PARTS.concat(),
                None => acknowledged,
            }
        })
    })
}

#[test]
fn the_simulator_catches_every_missing_step() {
    let object = name("packs/object");
    assert!(!is_caught(Flaw::None, &object), "the whole protocol is sound");
    let flaws = [
        Flaw::NoSync,
        Flaw::NoSyncDir,
        Flaw::NoSyncOf("/"),
        Flaw::NoSyncOf("/srv"),
        Flaw::NoSyncOf(ROOT),
        Flaw::NoSyncOf("/srv/place/packs"),
    ];
    for flaw in flaws {
        assert!(is_caught(flaw, &object), "{flaw:?} was not noticed");
    }
}

#[test]
fn a_disk_that_lies_about_syncs_loses_acknowledged_objects() {
    let object = name("object");
    let lost = (0..100).filter(|&seed| {
        let disk = FaultDisk::new(seed);
        let place = Local::create_on(disk.clone(), ROOT).unwrap();
        disk.drop_syncs(true);
        place.put(&object, &PARTS).unwrap();
        let place = Local::open_on(disk.crash(seed), ROOT).unwrap();
        place
            .get(&object, u64::MAX)
            .map_or(true, |bytes| bytes != PARTS.concat())
    });
    assert!(lost.count() > 20);
}

#[test]
fn a_failed_operation_is_never_acknowledged_wrongly_and_can_be_repeated() {
    let object = name("packs/object");
    let last = operations(&object);
    for fault in [
        DiskFault::Io,
        DiskFault::NoSpace,
        DiskFault::PermissionDenied,
        DiskFault::ReadOnly,
    ] {
        for at in 0..last {
            for seed in 0..20 {
                let context = format!("{fault:?} at operation {at}, seed {seed}");
                let disk = FaultDisk::new(seed);
                disk.fail_at(at, fault);
                let acknowledged = store_one(disk.clone(), &object);
                if seed % 2 == 0 {
                    let there = whole_or_nothing(disk.crash(seed), &object, &context);
                    assert!(there || !acknowledged, "an acknowledged object is lost: {context}");
                    continue;
                }
                let place = Local::create_on(disk.clone(), ROOT).unwrap();
                match place.put(&object, &PARTS) {
                    Ok(()) => assert!(!acknowledged, "{context}"),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{context}: {error}")
                    }
                }
                assert!(
                    whole_or_nothing(disk.crash(seed), &object, &context),
                    "lost after a repetition: {context}"
                );
            }
        }
    }
}

#[test]
fn content_whose_sync_failed_is_not_published_by_a_second_try() {
    let object = name("object");
    let disk = FaultDisk::new(1);
    let place = Local::create_on(disk.clone(), ROOT).unwrap();
    place.put(&name("first"), &PARTS).unwrap(); // makes `tmp`, so that the next two are alike
    let before = disk.operations();
    place.put(&name("second"), &PARTS).unwrap();
    let calls = disk.calls().split_off(before as usize);
    let sync = calls.iter().position(|call| *call == Call::Sync).unwrap();
    disk.fail_at(disk.operations() + sync as u64, DiskFault::Io);
    assert_eq!(place.put(&object, &PARTS).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(place.get(&object, 100).unwrap_err().kind(), ErrorKind::NotFound);
    place.put(&object, &PARTS).unwrap();
    for seed in 0..100 {
        assert!(whole_or_nothing(disk.crash(seed), &object, "after a failed sync"));
    }
}

#[test]
fn objects_of_a_killed_process_are_durable_once_another_reports_that_they_exist() {
    let object = name("packs/object");
    let last = operations(&object);
    let mut existed = 0;
    for at in 0..last {
        for seed in 0..50 {
            let disk = FaultDisk::new(seed);
            disk.crash_at(at);
            store_one(disk.clone(), &object);
            let disk = disk.restart(); // the machine runs on, nothing is synced that was not
            let place = Local::create_on(disk.clone(), ROOT).unwrap();
            match place.put(&object, &PARTS) {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
                    existed += 1;
                }
            }
            let context = format!("killed before operation {at}, seed {seed}");
            assert!(whole_or_nothing(disk.crash(seed), &object, &context), "lost: {context}");
        }
    }
    assert!(existed > 0);
}

#[test]
fn objects_deleted_by_a_killed_process_stay_away_once_another_reports_them_absent() {
    let object = name("packs/object");
    let (mut absent, mut deleted) = (0, 0);
    for at in 0..3 {
        for seed in 0..100 {
            let disk = FaultDisk::new(seed);
            assert!(store_one(disk.clone(), &object));
            disk.crash_at(disk.operations() + at);
            let _ = Local::open_on(disk.clone(), ROOT).and_then(|place| place.delete(&object));
            let disk = disk.restart();
            let place = Local::open_on(disk.clone(), ROOT).unwrap();
            match place.delete(&object) {
                Ok(()) => deleted += 1,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                    absent += 1;
                }
            }
            let there = whole_or_nothing(disk.crash(seed), &object, "after a deletion");
            assert!(
                !there,
                "a deleted object is back: killed before operation {at}, seed {seed}"
            );
        }
    }
    assert!(
        absent > 0 && deleted > 0,
        "both outcomes have to occur: {absent}, {deleted}"
    );
}

/// Counts the objects lost that a killed process published and another process saw, if power is
/// lost after that: first without settling them, then with.
#[test]
fn objects_of_a_killed_process_are_durable_once_another_has_settled_them() {
    for object in [name("object"), name("packs/3f/object")] {
        let last = operations(&object);
        let mut lost = [0, 0];
        let mut settled = 0;
        for at in 0..last {
            for seed in 0..50 {
                for settle in [false, true] {
                    let disk = FaultDisk::new(seed);
                    disk.crash_at(at);
                    store_one(disk.clone(), &object);
                    let disk = disk.restart(); // the machine runs on, nothing is synced that was not
                    let Ok(place) = Local::open_on(disk.clone(), ROOT) else {
                        continue;
                    };
                    if place.size(&object).is_err() {
                        continue;
                    }
                    if settle {
                        place.settle(&object).unwrap();
                        settled += 1;
                    }
                    // The folders above the storage became durable when it was created.
                    let context = format!("killed before operation {at}, seed {seed}");
                    let there = whole_or_nothing(disk.crash(seed), &object, &context);
                    lost[usize::from(settle)] += u32::from(!there);
                }
            }
        }
        assert!(lost[0] > 0, "without settling, something has to be lost");
        assert!(settled > 0 && lost[1] == 0, "{lost:?} of {settled}");
    }
}
