//! Damage to stored files leads to an error or to the right bytes, never to wrong ones, and a check
//! reports what is lost. See `docs/durability.md`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use ibid_repo::{Error, ReadData, Repository, RestoreOptions};
use ibid_storage::fault::{Damage, Flaky, ObjectFault};
use ibid_storage::{ErrorKind, Name, Operation};

use crate::support;
use crate::support::damage::{Scene, kind, names_fault, open, storage};
use crate::support::deltas::Writer;
use crate::support::{Random, contents, options, scratch};

#[test]
fn the_scene_is_whole_and_rich() {
    let scene = Scene::new();
    let report = scene.judge(&scene.image, "nothing done").unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(scene.names("packs").len(), 6);
    assert_eq!(scene.names("index").len(), 3);
    let sizes: BTreeSet<usize> = scene
        .names("packs")
        .iter()
        .map(|name| scene.image[name].len())
        .collect();
    assert!(sizes.len() < 6, "some packs have to be of the same size: {sizes:?}");
    let repository = open(storage(&scene.image)).unwrap();
    let summary = support::backup(&repository, scene.folder.path());
    assert_eq!(summary.unchanged_files, summary.counters.files, "none is read again");
}

#[test]
fn a_flipped_bit_anywhere_is_noticed_and_gives_no_wrong_byte() {
    let scene = Scene::new();
    let mut random = Random(1);
    for (name, bytes) in &scene.image {
        let ends = (0..60).chain(bytes.len().saturating_sub(60)..bytes.len());
        let step = (bytes.len() / 25).max(1);
        let middle = (0..bytes.len()).step_by(step);
        for at in ends.step_by(9).chain(middle) {
            let bit = random.below(8);
            let context = format!("bit {bit} of byte {at} of {} of {name} flipped", bytes.len());
            let image = scene.with(|image| image.get_mut(name).unwrap()[at] ^= 1 << bit);
            scene.must_notice(&image, name, &context);
        }
    }
}

#[test]
fn a_pack_of_zeros_is_named_once_beside_its_frames() {
    let scene = Scene::new();
    for name in scene.names("packs") {
        let image = scene.with(|image| image.get_mut(&name).unwrap().fill(0));
        let report = open(storage(&image)).unwrap().check(ReadData::All).unwrap();
        let faults = report.faults.iter().filter(|fault| fault.object == name.to_string());
        let (frames, others): (Vec<_>, Vec<_>) = faults.partition(|fault| fault.problem.starts_with("at offset"));
        assert_eq!(others.len(), 1, "{name}: {others:?} {frames:?}");
    }
}

#[test]
fn a_file_of_another_length_is_noticed() {
    let scene = Scene::new();
    for (name, bytes) in &scene.image {
        let whole = bytes.len();
        for length in [
            0,
            1,
            7,
            8,
            56,
            whole / 2,
            whole - 57,
            whole - 1,
            whole + 1,
            whole + 4096,
        ] {
            let context = format!("{name} has {length} bytes instead of {whole}");
            let image = scene.with(|image| image.get_mut(name).unwrap().resize(length, 0));
            scene.must_notice(&image, name, &context);
        }
    }
}

#[test]
fn a_pack_that_is_gone_is_noticed_and_so_is_every_file_that_needs_it() {
    let scene = Scene::new();
    for name in scene.names("packs") {
        let image = scene.with(|image| drop(image.remove(&name)));
        let report = scene.judge(&image, name.as_str()).unwrap();
        names_fault(&report, &name, name.as_str());
        assert!(report.affected_total > 0, "every pack is needed by something");
    }
}

#[test]
fn without_index_files_everything_is_found() {
    let scene = Scene::new();
    for name in scene.names("index") {
        let image = scene.with(|image| drop(image.remove(&name)));
        let report = scene.judge(&image, name.as_str()).unwrap();
        assert!(report.is_clean() && report.unlisted_packs == 2, "{report:?}");
    }
    let image = scene.with(|image| image.retain(|name, _| kind(name) != "index"));
    let report = scene.judge(&image, "no index file").unwrap();
    assert!(report.is_clean() && report.unlisted_packs == 6, "{report:?}");
}

#[test]
fn a_damaged_index_file_is_done_without_and_replaced_by_the_next_backup() {
    let scene = Scene::new();
    for name in scene.names("index") {
        let image = scene.with(|image| image.get_mut(&name).unwrap()[100] ^= 4);
        let report = scene.judge(&image, name.as_str()).unwrap();
        names_fault(&report, &name, name.as_str());
        assert_eq!((report.affected_total, report.unlisted_packs), (0, 2), "{report:?}");
        let repository = open(storage(&image)).unwrap();
        let summary = repository.backup(&options(scene.folder.path())).unwrap();
        assert!(summary.counters.new_bytes < 20_000, "all data was found: {summary:?}");
        let report = repository.check(ReadData::All).unwrap();
        assert_eq!(report.unlisted_packs, 0, "they are listed again");
    }
}

/// The loss of a snapshot can't be noticed. (Not promised; the others stay complete.)
#[test]
fn without_a_snapshot_file_the_others_are_whole() {
    let scene = Scene::new();
    for name in scene.names("snapshots") {
        let image = scene.with(|image| drop(image.remove(&name)));
        assert!(scene.judge(&image, name.as_str()).unwrap().is_clean());
    }
}

#[test]
fn without_config_or_key_the_error_says_what_is_missing() {
    let scene = Scene::new();
    let without = |of| {
        scene
            .judge(&scene.with(|image| image.retain(|name, _| kind(name) != of)), of)
            .unwrap_err()
    };
    assert!(matches!(without("config"), Error::ConfigMissing { .. }));
    assert!(matches!(without("keys"), Error::NoKeys { found: 0, .. }));
}

#[test]
fn two_files_in_each_others_place_are_noticed_both() {
    let scene = Scene::new();
    let mut same_size = 0;
    for of in ["packs", "index", "snapshots"] {
        let names = scene.names(of);
        for (n, one) in names.iter().enumerate() {
            for other in &names[n + 1..] {
                let context = format!("{one} and {other} swapped");
                let image = scene.with(|image| {
                    image.insert(one.clone(), scene.image[other].clone());
                    image.insert(other.clone(), scene.image[one].clone());
                });
                same_size += u32::from(scene.image[one].len() == scene.image[other].len());
                let report = scene.judge(&image, &context).unwrap();
                names_fault(&report, one, &context);
                names_fault(&report, other, &context);
                assert_eq!(report.affected_total > 0, of == "packs", "{context}");
            }
        }
    }
    assert!(same_size > 0);
}

/// An attacker gives an older file a newer one's name, or another name.
#[test]
fn a_file_under_another_name_is_noticed_and_never_used() {
    let scene = Scene::new();
    for of in ["packs", "index", "snapshots", "keys"] {
        for name in scene.names(of) {
            let id = name.as_str().rsplit('/').next().unwrap();
            let mut digits: Vec<char> = id.chars().rev().collect();
            digits[3] = if digits[3] == '0' { '1' } else { '0' };
            let id: String = digits.into_iter().collect();
            let fresh = match of {
                "packs" => format!("packs/{}/{id}", &id[..2]),
                _ => format!("{of}/{id}"),
            };
            let fresh = Name::new(&fresh).unwrap();
            let context = format!("{name} copied to {fresh}");
            let image = scene.with(|image| drop(image.insert(fresh.clone(), scene.image[&name].clone())));
            let report = scene.judge(&image, &context).unwrap();
            names_fault(&report, &fresh, &context);
            assert_eq!(report.affected_total, 0, "{context}");
        }
    }
}

/// Files of another repository with the same password.
#[test]
fn files_of_another_repository_are_noticed() {
    let (scene, other) = (Scene::new(), Scene::new());
    for of in ["packs", "index", "snapshots"] {
        let (name, foreign) = (&scene.names(of)[0], &other.names(of)[0]);
        let context = format!("another repository's {foreign} as {name}");
        let image = scene.with(|image| drop(image.insert(name.clone(), other.image[foreign].clone())));
        scene.must_notice(&image, name, &context);
    }
    let config = Name::new("config").unwrap();
    let image = scene.with(|image| drop(image.insert(config.clone(), other.image[&config].clone())));
    scene.judge(&image, "another repository's config").unwrap_err();
}

/// A backup of the same source stores the contents of a lost pack again.
#[test]
fn the_next_backup_heals_what_a_lost_pack_held() {
    let scene = Scene::new();
    let mut healed_older = 0;
    for name in scene.names("packs") {
        let image = scene.with(|image| drop(image.remove(&name)));
        let repository = open(storage(&image)).unwrap();
        let before = repository.check(ReadData::All).unwrap();
        // Nothing has changed since the last backup, and unchanged files are not read, except those
        // that lost chunks.
        let id = support::backup(&repository, scene.folder.path()).id.unwrap();
        let report = repository.check(ReadData::All).unwrap();
        let touched: Vec<_> = report
            .affected
            .iter()
            .filter(|affected| affected.snapshot == id)
            .collect();
        assert!(touched.is_empty(), "{name}: {touched:?}");
        assert!(report.affected_total <= before.affected_total, "{name}");
        healed_older += before.affected_total - report.affected_total;
        support::crash::restores(
            &repository,
            &id.to_string(),
            scene.folder.path(),
            &contents(scene.folder.path()),
            name.as_str(),
        );
    }
    assert!(
        healed_older > 0,
        "what is still in the source comes back in older snapshots, too"
    );
}

/// The contents of the source are stored again, and then the missing pack is no fault.
#[test]
fn a_repository_that_has_healed_is_clean() {
    let scene = Scene::new();
    let mut clean = 0;
    for name in scene.names("packs") {
        let image = scene.with(|image| drop(image.remove(&name)));
        let repository = open(storage(&image)).unwrap();
        support::backup(&repository, scene.folder.path());
        let report = repository.check(ReadData::All).unwrap();
        if report.affected_total > 0 {
            // Older versions had contents that exist nowhere now.
            names_fault(&report, &name, name.as_str());
            continue;
        }
        assert!(report.is_clean(), "{report:?}");
        let noted: Vec<&str> = report.notes.iter().map(|note| note.object.as_str()).collect();
        assert_eq!(noted, [name.as_str()], "and it is told that it is missing");
        clean += 1;
    }
    assert!(clean > 0);
}

/// Two packs are missing, and only one of them is still needed.
#[test]
fn of_two_missing_packs_the_one_that_is_needed_is_the_fault() {
    let scene = Scene::new();
    let of = |image: &support::damage::Image| {
        let report = open(storage(image)).unwrap().check(ReadData::No).unwrap();
        (report.faults, report.notes, report.affected_total)
    };
    for name in scene.names("packs") {
        let repository_image = scene.with(|image| drop(image.remove(&name)));
        let healed = storage(&repository_image);
        support::backup(&open(healed.clone()).unwrap(), scene.folder.path());
        let image = support::damage::image(healed.as_ref());
        if !of(&image).0.is_empty() {
            continue;
        }
        let snapshots = image
            .keys()
            .filter(|name| kind(name) == "packs")
            .cloned()
            .collect::<Vec<_>>();
        for second in snapshots {
            let mut image = image.clone();
            image.remove(&second);
            let (faults, notes, affected) = of(&image);
            assert!(
                affected > 0 && faults.iter().any(|fault| fault.object == second.as_str()),
                "{faults:?} {notes:?}"
            );
        }
        return;
    }
    panic!("no pack could be healed");
}

#[test]
fn a_share_reads_one_pack_at_least_and_all_sooner_or_later() {
    let scene = Scene::new();
    let repository = open(storage(&scene.image)).unwrap();
    let read = |share, seed| repository.check(ReadData::Share { share, seed }).unwrap();
    let sizes: BTreeSet<u64> = (0..200)
        .map(|seed| read(0.001, seed))
        .map(|report| {
            assert_eq!(report.packs_read, 1, "{report:?}");
            report.bytes_read
        })
        .collect();
    let writer = Writer::of(storage(&scene.image));
    let frames = |name: &Name| writer.directory(name).frames;
    let read_of = |name: &Name| frames(name).iter().map(|frame| u64::from(frame.sealed)).sum();
    let all: BTreeSet<u64> = scene.names("packs").iter().map(read_of).collect();
    assert_eq!(sizes, all, "each was read by some seed");
    assert_eq!(read(0.5, 7).bytes_read, read(0.5, 7).bytes_read);
    assert_eq!([0.34, 0.5, 1.0].map(|share| read(share, 1).packs_read), [3, 3, 6]);
    let empty = support::repository();
    let report = empty.check(ReadData::Share { share: 0.5, seed: 1 }).unwrap();
    assert!(report.is_clean() && report.packs_read == 0);
}

/// Advice in an error must not repeat what the user is doing.
#[test]
fn a_check_does_not_advise_to_check() {
    let scene = Scene::new();
    for name in scene
        .image
        .keys()
        .filter(|name| !support::damage::is_needed_to_open(name))
    {
        let image = scene.with(|image| {
            let bytes = image.get_mut(name).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        });
        let report = open(storage(&image)).unwrap().check(ReadData::All).unwrap();
        assert!(!report.is_clean());
        assert!(!format!("{report:?}").contains("ibid check"), "{report:?}");
    }
}

/// Both the pack and the index file that lists it are lost or damaged: the contents of the pack are
/// unknown.
#[test]
fn the_next_backup_heals_even_if_the_index_file_is_damaged_too() {
    let scene = Scene::new();
    for pack in scene.names("packs") {
        let image = scene.with(|image| {
            image.remove(&pack);
            for (name, bytes) in image.iter_mut() {
                if kind(name) == "index" {
                    bytes[100] ^= 1;
                }
            }
        });
        let repository = open(storage(&image)).unwrap();
        let id = support::backup(&repository, scene.folder.path()).id.unwrap();
        let report = repository.check(ReadData::All).unwrap();
        let touched: Vec<_> = report
            .affected
            .iter()
            .filter(|affected| affected.snapshot == id)
            .collect();
        assert!(touched.is_empty(), "{pack}: {touched:?}");
    }
}

/// Both the pack and an index file are gone, without a trace: the rest is intact.
#[test]
fn the_next_backup_heals_even_if_the_index_file_is_gone_too() {
    let scene = Scene::new();
    let mut lost = 0;
    for pack in scene.names("packs") {
        for index in scene.names("index") {
            let context = format!("{pack} and {index} are gone");
            let image = scene.with(|image| {
                image.remove(&pack);
                image.remove(&index);
            });
            let repository = open(storage(&image)).unwrap();
            let before = repository.check(ReadData::No).unwrap();
            lost += u32::from(before.affected_total > 0 && before.faults.is_empty());
            let id = support::backup(&repository, scene.folder.path()).id.unwrap();
            let report = repository.check(ReadData::All).unwrap();
            let touched: Vec<_> = report
                .affected
                .iter()
                .filter(|affected| affected.snapshot == id)
                .collect();
            assert!(touched.is_empty(), "{context}: {touched:?}");
        }
    }
    assert_eq!(lost, 6, "each pack is listed by one index file, and needed");
}

/// The medium can't read one file: it is reported, and every operation that does not need it
/// succeeds.
#[test]
fn an_index_file_or_snapshot_that_the_medium_cannot_read_is_done_without() {
    let scene = Scene::new();
    for name in [scene.names("index"), scene.names("snapshots")].concat() {
        let place = Arc::new(Flaky::new(storage(&scene.image)));
        let repository = Repository::open(place.clone(), Some(b"secret")).unwrap();
        place.damage(&name, Damage::Unreadable);
        let report = repository.check(ReadData::All).unwrap();
        names_fault(&report, &name, name.as_str());
        assert_eq!(report.affected_total, 0, "{name}");
        for (id, tree) in &scene.snapshots {
            if !name.as_str().ends_with(id) {
                support::crash::restores(&repository, id, scene.folder.path(), tree, name.as_str());
            }
        }
        support::backup(&repository, scene.folder.path());
    }
    // A whole unreadable folder is not damage, and no operation can work without it.
    for kind in [ErrorKind::Io, ErrorKind::PermissionDenied] {
        let place = Arc::new(Flaky::new(storage(&scene.image)));
        let repository = Repository::open(place.clone(), Some(b"secret")).unwrap();
        place.fail_always(Operation::List, ObjectFault::Before(kind));
        repository.check(ReadData::All).unwrap_err();
    }
}

/// If a file with several names can't be restored, none of its names stays.
#[test]
fn no_name_of_a_damaged_file_stays() {
    let scene = Scene::new();
    let mut lost_both = 0;
    for name in scene.names("packs") {
        let step = scene.image[&name].len() / 30;
        for at in (0..scene.image[&name].len()).step_by(step) {
            let image = scene.with(|image| image.get_mut(&name).unwrap()[at] ^= 1);
            let repository = open(storage(&image)).unwrap();
            let out = scratch();
            let snapshot = repository.snapshot("latest").unwrap();
            let path = scene.folder.path().join("twice");
            let Ok(_) = repository.restore(snapshot.at(&path), out.path(), &RestoreOptions::default()) else {
                continue; // the way there is damaged
            };
            let names: Vec<bool> = ["one", "two"]
                .iter()
                .map(|name| out.path().join(name).exists())
                .collect();
            assert_eq!(names[0], names[1], "byte {at} of {name}");
            lost_both += u32::from(!names[0]);
            if names[0] {
                same(&scene, out.path());
            }
        }
    }
    assert!(lost_both > 0);
}

fn same(scene: &Scene, out: &Path) {
    let expected = std::fs::read(scene.folder.path().join("twice/one")).unwrap();
    for name in ["one", "two"] {
        assert!(std::fs::read(out.join(name)).unwrap() == expected, "{name}");
    }
}
