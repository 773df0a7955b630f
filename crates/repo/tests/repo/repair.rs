//! A repair leaves the best repository that can be had, and says what was lost.

use std::sync::{Arc, Mutex};

use ibid_repo::{CheckReport, Monitor, ReadData, RepairOptions, RepairReport, Repository, Warning};
use ibid_storage::fault::{Damage, Flaky};
use ibid_storage::{Memory, Name};

use crate::support;
use crate::support::damage::{Image, Scene, image, kind, names_fault, open, storage};
use crate::support::deltas::{chains, rewrite};
use crate::support::losses::{Seen, history};
use crate::support::pruning::Trees;
use crate::support::repair::{Case, KINDS_OF_DAMAGE, affected, damage_pack};
use crate::support::seam::Seam;
use crate::support::{Random, contents, options, scratch};

fn repair(place: &Arc<Memory>) -> RepairReport {
    open(place.clone()).unwrap().repair(&RepairOptions::default()).unwrap()
}

/// Repairs an image and compares with what a check has said before. Returns the storage, and the reports
/// before and after.
fn repaired(scene: &Scene, damaged: &Image, context: &str) -> (Arc<Memory>, CheckReport, RepairReport) {
    let before = scene.judge(damaged, context).unwrap();
    let place = storage(damaged);
    let dry = RepairOptions::default().dry_run(true);
    let foretold = open(place.clone()).unwrap().repair(&dry).unwrap();
    assert!(image(place.as_ref()) == *damaged, "{context}: a dry run writes nothing");
    assert_eq!(affected(&foretold.check), affected(&before), "{context}");
    let report = repair(&place);
    let sums = |report: &RepairReport| {
        let faults = [&report.set_aside, &report.deleted, &report.left].map(|faults| format!("{faults:?}"));
        (
            faults,
            report.salvaged_frames,
            report.salvaged_bytes,
            report.lost_frames,
            report.listed_packs,
        )
    };
    assert_eq!(
        sums(&foretold),
        sums(&report),
        "{context}: a dry run says what will be done"
    );
    let after = scene
        .judge(&image(place.as_ref()), &format!("{context}, repaired"))
        .unwrap();
    assert_eq!(
        affected(&after),
        affected(&before),
        "{context}: neither more nor less is lost"
    );
    assert_eq!(affected(&report.check), affected(&after), "{context}");
    // Only lost packs are left to tell of.
    for fault in &after.faults {
        assert!(
            fault.object.starts_with("packs/") && fault.problem.contains("found nothing"),
            "{context}: {fault:?}"
        );
    }
    assert_eq!(
        after.faults.is_empty(),
        after.affected_total == 0,
        "{context}: {after:?}"
    );
    // Another repair finds nothing more to do.
    let again = image(place.as_ref());
    let report_again = repair(&place);
    assert!(image(place.as_ref()) == again, "{context}: {report_again:?}");
    (place, before, report)
}

/// Backs up what the scene has, and checks that this snapshot is whole. Returns what was told.
fn heals(scene: &Scene, place: &Arc<Memory>, context: &str) -> Vec<Warning> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let monitor = Arc::new(Monitor::new({
        let heard = heard.clone();
        move |warning| heard.lock().unwrap().push(warning)
    }));
    let repository = open(place.clone()).unwrap().watched_by(&monitor);
    let summary = repository.backup(&options(scene.folder.path())).unwrap();
    let id = summary.id.unwrap().to_string();
    support::crash::restores(
        &repository,
        &id,
        scene.folder.path(),
        &contents(scene.folder.path()),
        context,
    );
    // The snapshot that it compares with may be damaged.
    let heard = std::mem::take(&mut *heard.lock().unwrap());
    heard
        .into_iter()
        .filter(|warning| !matches!(warning, Warning::Repository { .. }))
        .collect()
}

#[test]
fn a_whole_repository_stays_as_it_is() {
    let scene = Scene::new();
    let place = storage(&scene.image);
    let report = repair(&place);
    assert!(report.is_clean() && report.packs == 6, "{report:?}");
    assert!(image(place.as_ref()) == scene.image);
}

#[test]
fn what_is_left_of_a_damaged_pack_is_salvaged_and_the_next_backup_heals_the_rest() {
    let scene = Scene::new();
    let mut random = Random(1);
    let mut lossless = 0;
    for pack in scene.names("packs") {
        for kind_of_damage in 0..KINDS_OF_DAMAGE {
            let mut damaged = scene.image.clone();
            let context = damage_pack(&mut damaged, &pack, kind_of_damage, &mut random);
            let (place, before, report) = repaired(&scene, &damaged, &context);
            let now = image(place.as_ref());
            assert!(!now.contains_key(&pack), "{context}: it went");
            let aside = Name::new(&format!("damaged/{pack}")).unwrap();
            if before.affected_total == 0 {
                lossless += 1;
                assert_eq!((report.lost_frames, report.set_aside.len()), (0, 0), "{context}");
                assert!(!now.contains_key(&aside), "{context}: all of it is elsewhere");
                assert!(report.check.is_clean(), "{context}: {report:?}");
            } else {
                let kept = damaged.get(&pack).cloned().unwrap_or_default();
                assert_eq!(now.get(&aside), Some(&kept), "{context}: what is lost is kept aside");
            }
            assert!(
                heals(&scene, &place, &context).is_empty(),
                "{context}: a repair has told it"
            );
            // Once nothing needs it, it is forgotten.
            let healed = open(place.clone()).unwrap().check(ReadData::All).unwrap();
            let report = repair(&place);
            let forgets = before.affected_total > 0 && healed.affected_total == 0;
            assert_eq!(report.forgotten_packs, u64::from(forgets), "{context}: {report:?}");
            if forgets {
                assert!(
                    report.check.is_clean() && report.check.notes.is_empty(),
                    "{context}: {report:?}"
                );
            }
        }
    }
    assert!(lossless >= 6 * 5, "{lossless} times nothing was lost");
}

#[test]
fn a_pack_that_no_index_file_lists_is_repaired_too() {
    let scene = Scene::new();
    let mut random = Random(2);
    for pack in scene.names("packs") {
        for kind_of_damage in [0, 1, 4] {
            let mut damaged = scene.with(|image| image.retain(|name, _| kind(name) != "index"));
            let context = damage_pack(&mut damaged, &pack, kind_of_damage, &mut random);
            let (place, ..) = repaired(&scene, &damaged, &context);
            heals(&scene, &place, &context);
        }
        // Nothing says what is in it.
        let mut damaged = scene.with(|image| image.retain(|name, _| kind(name) != "index"));
        let context = damage_pack(&mut damaged, &pack, 3, &mut random);
        let place = storage(&damaged);
        let report = repair(&place);
        assert_eq!(report.set_aside.len(), 1, "{context}: {report:?}");
        assert_eq!(report.listed_packs, 5);
        heals(&scene, &place, &context);
    }
}

#[test]
fn deltas_against_what_is_lost_stay_and_are_read_again_once_that_is_healed() {
    let mut scene = Scene::new();
    scene.image = rewrite(&scene.image, |chunks| chains(&chunks, 2, 4, 4));
    let mut random = Random(3);
    let (mut lost, mut left) = (0, 0);
    for pack in scene.names("packs") {
        for kind_of_damage in [1, 4, 6, 7] {
            let mut damaged = scene.image.clone();
            let context = damage_pack(&mut damaged, &pack, kind_of_damage, &mut random);
            let (place, before, _) = repaired(&scene, &damaged, &context);
            heals(&scene, &place, &context);
            let after = open(place.clone()).unwrap().check(ReadData::All).unwrap();
            lost += before.affected_total;
            left += after.affected_total;
            scene.judge(&image(place.as_ref()), &context).unwrap();
        }
    }
    assert!(left < lost / 2, "{left} of {lost} files were not healed");
}

#[test]
fn damaged_files_of_all_kinds_go_and_what_follows_from_others_is_made_again() {
    let scene = Scene::new();
    for name in scene
        .image
        .keys()
        .filter(|name| !support::damage::is_needed_to_open(name))
    {
        let damaged = scene.with(|image| {
            let bytes = image.get_mut(name).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        });
        let place = storage(&damaged);
        let report = repair(&place);
        let now = image(place.as_ref());
        let of = kind(name);
        match of {
            "config.copy" => assert!(now[name] == scene.image[name], "it is made again"),
            _ => assert!(!now.contains_key(name), "{name}: {report:?}"),
        }
        let gone: Vec<&str> = report
            .deleted
            .iter()
            .chain(&report.set_aside)
            .map(|fault| fault.object.as_str())
            .collect();
        assert_eq!(gone, [name.as_str()]);
        let aside = Name::new(&format!("damaged/{name}")).unwrap();
        match of {
            "index" | "sketches" => assert!(!now.contains_key(&aside) && report.check.is_clean(), "{report:?}"),
            "snapshots" => assert!(now[&aside] == damaged[name] && report.check.is_clean(), "{report:?}"),
            _ => {}
        }
        assert_eq!(report.check.unlisted_packs, 0);
        assert_eq!(report.lost_snapshots(), u64::from(of == "snapshots"));
    }
}

#[test]
fn keys_that_open_nothing_go_and_the_one_in_use_stays() {
    let scene = Scene::new();
    let other = Scene::new();
    let foreign = other.names("keys")[0].clone();
    let image_of = scene.with(|image| drop(image.insert(foreign.clone(), other.image[&foreign].clone())));
    let place = storage(&image_of);
    let report = repair(&place);
    assert_eq!(report.set_aside[0].object, foreign.as_str());
    let now = image(place.as_ref());
    assert!(!now.contains_key(&foreign) && now.contains_key(&scene.names("keys")[0]));
    assert!(report.check.is_clean() && report.check.notes.is_empty(), "{report:?}");
}

/// The disk may read them tomorrow, or a newer version of the program.
#[test]
fn what_cannot_be_read_now_is_left_and_named() {
    let scene = Scene::new();
    for name in scene
        .image
        .keys()
        .filter(|name| !support::damage::is_needed_to_open(name))
    {
        for damage in [Damage::Unreadable, Damage::Denied] {
            let memory = storage(&scene.image);
            let place = Arc::new(Flaky::new(memory.clone()));
            let repository = Repository::open(place.clone(), Some(b"secret")).unwrap();
            place.damage(name, damage.clone());
            let report = repository.repair(&RepairOptions::default()).unwrap();
            let named: Vec<&str> = report.left.iter().map(|fault| fault.object.as_str()).collect();
            assert_eq!(named, [name.as_str()], "{report:?}");
            assert!(report.set_aside.is_empty() && report.deleted.is_empty(), "{report:?}");
            assert!(
                scene
                    .image
                    .iter()
                    .all(|(name, bytes)| image(memory.as_ref()).get(name) == Some(bytes))
            );
            place.heal();
            scene.judge(&image(memory.as_ref()), "it can be read again").unwrap();
        }
    }
}

#[test]
fn what_was_set_aside_can_be_deleted_later() {
    let scene = Scene::new();
    let mut damaged = scene.image.clone();
    let pack = scene.names("packs")[0].clone();
    damage_pack(&mut damaged, &pack, 1, &mut Random(4));
    let place = storage(&damaged);
    repair(&place);
    let options = RepairOptions::default().delete_damaged(true);
    let report = open(place.clone()).unwrap().repair(&options).unwrap();
    assert_eq!(report.deleted_aside, 1);
    let now = image(place.as_ref());
    let bytes: usize = now
        .iter()
        .filter(|(name, _)| kind(name) == "damaged")
        .map(|(_, bytes)| bytes.len())
        .sum();
    assert_eq!(bytes, 0);
    assert!(heals(&scene, &place, "deleted").is_empty(), "the loss is known");
}

#[test]
fn a_fast_repair_mends_the_structure_only() {
    let scene = Scene::new();
    let fast = RepairOptions::default().fast(true);
    for (kind_of_damage, is_found) in [(1, false), (3, true), (4, true), (6, true)] {
        let pack = scene.names("packs")[1].clone();
        let mut damaged = scene.image.clone();
        damage_pack(&mut damaged, &pack, kind_of_damage, &mut Random(5));
        let place = storage(&damaged);
        open(place.clone()).unwrap().repair(&fast).unwrap();
        assert_eq!(!image(place.as_ref()).contains_key(&pack), is_found);
    }
}

/// A machine whose cache knows the packs as they were.
#[test]
fn caches_of_other_machines_learn_of_a_repair() {
    let scene = Scene::new();
    let mut random = Random(6);
    for pack in scene.names("packs") {
        for kind_of_damage in [1, 4, 5] {
            let cache = scratch();
            let cached = |place: &Arc<Memory>| open(place.clone()).unwrap().with_tiny_index().with_cache(cache.path());
            cached(&storage(&scene.image))
                .backup(&options(scene.folder.path()).dry_run(true))
                .unwrap();
            let mut damaged = scene.image.clone();
            let context = damage_pack(&mut damaged, &pack, kind_of_damage, &mut random);
            let place = storage(&damaged);
            let report = repair(&place);
            let summary = cached(&place).backup(&options(scene.folder.path())).unwrap();
            assert_eq!(summary.lost_packs, 0, "{context}: {report:?}");
            let id = summary.id.unwrap().to_string();
            let tree = contents(scene.folder.path());
            support::crash::restores(&cached(&place), &id, scene.folder.path(), &tree, &context);
            if report.check.is_clean() {
                let report = cached(&place).check(ReadData::All).unwrap();
                assert!(report.is_clean() && report.unlisted_packs == 0, "{context}: {report:?}");
            }
        }
    }
}

/// The power fails, or the process is killed, before every operation of the disk.
#[test]
fn a_repair_that_is_cut_short_anywhere_costs_nothing_and_the_next_one_completes_it() {
    let scene = Scene::new();
    for (seed, every) in [(0, 1), (1, 4), (2, 5), (3, 7)] {
        let case = Case::new(&scene, seed);
        let last = (0..).step_by(every).find(|&at| case.cut_short(at, seed ^ at));
        assert!(last > Some(20), "{last:?} operations");
    }
}

/// Any operation of the storage fails once.
#[test]
fn a_repair_that_fails_anywhere_costs_nothing() {
    use ibid_storage::fault::ObjectFault;
    use ibid_storage::{ErrorKind, Operation};
    let scene = Scene::new();
    let mut damaged = scene.image.clone();
    let mut random = Random(8);
    for (pack, kind_of_damage) in scene.names("packs").iter().zip([1, 4, 5, 6, 7]) {
        damage_pack(&mut damaged, pack, kind_of_damage, &mut random);
    }
    let before = affected(&open(storage(&damaged)).unwrap().check(ReadData::All).unwrap());
    for operation in [
        Operation::Put,
        Operation::Delete,
        Operation::Get,
        Operation::ReadAt,
        Operation::List,
    ] {
        for number in 0..60 {
            let memory = storage(&damaged);
            let place = Arc::new(Flaky::new(memory.clone()));
            let repository = Repository::open(place.clone(), Some(b"secret")).unwrap();
            let kind = [ErrorKind::Io, ErrorKind::NoSpace, ErrorKind::PermissionDenied][number as usize % 3];
            place.fail(operation, number, ObjectFault::Before(kind));
            let _ = repository.repair(&RepairOptions::default());
            let after = affected(&open(memory).unwrap().check(ReadData::All).unwrap());
            assert!(after.is_subset(&before), "{operation:?} {number} fails");
        }
    }
}

/// Backups and repairs at once: every snapshot that a backup has acknowledged is as whole as its data.
#[test]
fn backups_beside_a_repair_lose_nothing() {
    let scene = Scene::new();
    let mut random = Random(9);
    for round in 0..12 {
        let mut damaged = scene.image.clone();
        let mut context = format!("round {round}");
        for pack in scene.names("packs") {
            let kind_of_damage = [1, 4, 5, 6][random.below(4) as usize];
            context += &format!(", {}", damage_pack(&mut damaged, &pack, kind_of_damage, &mut random));
        }
        let place = storage(&damaged);
        let ids = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                // Of two repairs, one may find that the other has removed what it reads.
                scope.spawn(|| open(place.clone()).unwrap().repair(&RepairOptions::default()));
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..3 {
                        // A pack may go while it is read.
                        if let Ok(summary) = open(place.clone()).unwrap().backup(&options(scene.folder.path())) {
                            ids.lock().unwrap().push(summary.id.unwrap());
                        }
                    }
                });
            }
        });
        repair(&place);
        let repository = open(place.clone()).unwrap();
        // A backup trusts frames whose bytes have rotted until a repair has found them. The next one heals.
        repository.backup(&options(scene.folder.path())).unwrap();
        let report = repository.check(ReadData::All).unwrap();
        let lost: Vec<_> = report
            .affected
            .iter()
            .filter(|one| ids.lock().unwrap().contains(&one.snapshot))
            .collect();
        assert!(lost.is_empty(), "{context}: {lost:?}");
        for fault in &report.faults {
            assert!(fault.problem.contains("found nothing"), "{context}: {fault:?}");
        }
    }
}

#[test]
fn a_dry_run_names_the_damage() {
    let scene = Scene::new();
    let pack = &scene.names("packs")[2];
    let mut damaged = scene.image.clone();
    damage_pack(&mut damaged, pack, 1, &mut Random(10));
    let report = open(storage(&damaged))
        .unwrap()
        .repair(&RepairOptions::default().dry_run(true))
        .unwrap();
    names_fault(&report.check, pack, "dry run");
    assert_eq!(report.set_aside[0].object, pack.as_str());
    assert!(report.dry_run && report.written == 0);
}

/// `ibid-sim losses` does this for as long as you like.
#[test]
fn packs_that_are_lost_and_found_between_prunes_and_repairs_cost_only_what_they_had() {
    let seam = Seam::none();
    let trees = Trees::new(&seam);
    let mut sum = Seen::default();
    for seed in 0..15 {
        sum += history(&trees, seed, &seam).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
    }
    let did_all = sum.freed > 0 && sum.repairs > 0 && sum.lost > 0 && sum.found > 0 && sum.unreadable > 0;
    assert!(did_all, "{sum:?}");
}
