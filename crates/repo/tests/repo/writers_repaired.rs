//! Keepers repair the files of a writer: damage has an end, and nothing that the writer says decides what goes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use ibid_format::pack::PackSummary;
use ibid_format::writer::signed;
use ibid_format::{FileId, FileKind, Keys};
use ibid_repo::{
    BackupSummary, CheckReport, Error, Excludes, Limit, Monitor, PruneOptions, ReadData, RepairOptions, RepairReport,
    Repository, RestoreOptions, RewriteOptions, SnapshotInfo,
};
use ibid_storage::{Memory, Name, Storage};

use crate::support::damage::{Image, image, storage};
use crate::support::hooked::{Hooked, Hooks};
use crate::support::{backup, noise, scratch};
use crate::writers::{Scene, plant, plant_under, restores};
use crate::writers_pruned::{BeforeSnapshot, laptop, thorough, versions};

/// A storage with the files of a scene, and both parties there.
struct Copy<'s> {
    scene: &'s Scene,
    storage: Arc<Memory>,
}

impl Copy<'_> {
    fn of<'s>(scene: &'s Scene, image: &Image) -> Copy<'s> {
        Copy {
            scene,
            storage: storage(image),
        }
    }

    fn keeper(&self) -> Repository {
        let repository = Repository::open(self.storage.clone(), Some(b"secret")).unwrap();
        repository.writer("laptop").unwrap()
    }

    fn back_up(&self) -> BackupSummary {
        let writer = Repository::open_as_writer(self.storage.clone(), &self.scene.laptop).unwrap();
        backup(&writer, self.scene.folder.path())
    }

    fn repair(&self) -> RepairReport {
        self.keeper().repair(&RepairOptions::default()).unwrap()
    }

    /// Prunes, and asserts that nothing is said to be wrong.
    fn prune(&self) {
        let monitor = Arc::new(Monitor::new(|warning| panic!("{warning:?}")));
        let summary = self.keeper().watched_by(&monitor).prune(&thorough()).unwrap();
        assert_eq!(summary.estimate.lost_packs, 0);
    }

    fn check(&self) -> CheckReport {
        self.keeper().check(ReadData::All).unwrap()
    }

    /// Forgets all snapshots but the latest.
    fn forget_others(&self) {
        let mut all: Vec<FileId> = self.keeper().snapshots().unwrap().iter().map(|info| info.id).collect();
        all.pop();
        self.keeper().forget(&all).unwrap();
    }
}

/// Snapshots of versions, pruned after each, so that there are deltas over several packs.
fn pruned_scene() -> Scene {
    let scene = Scene::new();
    versions(&scene, || {
        scene.back_up();
        laptop(&scene).prune(&thorough()).unwrap();
    });
    scene
}

/// Damages a pack in one of several ways.
fn damage(image: &mut Image, pack: &Name, how: usize) {
    let bytes = image.get_mut(pack).unwrap();
    let length = bytes.len();
    match how {
        0 => drop(image.remove(pack)),
        1 => bytes.truncate(length / 2),
        2 => bytes[signed::HEADER + 60] ^= 1,
        3 => bytes[length - 10] ^= 1,
        4 => bytes[20] ^= 1,
        _ => bytes.clear(),
    }
}

/// The client still has what was lost.
#[test]
fn whatever_a_pack_has_lost_a_repair_and_a_backup_end_the_damage() {
    let scene = pruned_scene();
    let (mut cases, mut lost) = (0, 0);
    for how in 0..6 {
        for pack in scene.names(&scene.laptop, "packs") {
            let mut damaged = scene.image();
            damage(&mut damaged, &pack, how);
            let copy = Copy::of(&scene, &damaged);
            let context = format!("{pack} damaged as {how}");
            let foretold = copy.keeper().repair(&RepairOptions::default().dry_run(true)).unwrap();
            assert!(
                image(copy.storage.as_ref()) == damaged,
                "{context}: a dry run writes nothing"
            );
            let report = copy.repair();
            let affected = |report: &RepairReport| report.check.affected_total;
            assert!(
                !report.is_clean() && affected(&foretold) == affected(&report),
                "{context}"
            );
            lost += report.check.affected_total;
            assert!(copy.repair().set_aside.is_empty(), "{context}: once is enough");
            // What it rewrites is as good as it was.
            let summary = copy.back_up();
            assert_eq!(summary.lost_packs, 0, "{context}");
            restores(&copy.keeper(), &scene.folder);
            assert!(copy.back_up().counters.new_bytes < 1000, "{context}");
            copy.forget_others();
            for _ in 0..2 {
                copy.prune();
                restores(&copy.keeper(), &scene.folder);
                let again = copy.back_up();
                assert!(
                    again.counters.new_bytes < 1000 && again.lost_packs == 0,
                    "{context}: {again:?}"
                );
            }
            let report = copy.check();
            assert!(report.is_clean(), "{context}: {report:?}");
            cases += 1;
        }
    }
    assert!(cases > 30 && lost > 10, "{cases} {lost}");
}

/// The client has lost what the pack had, and so what it has must not be stored again after each prune.
#[test]
fn what_a_client_no_longer_has_costs_nothing_after_a_repair() {
    let scene = pruned_scene();
    std::fs::remove_file(scene.folder.path().join("letter")).unwrap();
    scene.back_up();
    laptop(&scene).prune(&thorough()).unwrap();
    std::fs::remove_file(scene.folder.path().join("version")).unwrap();
    scene.folder.write("version", &{
        // Like the others, and stored as a delta of them.
        let mut bytes = noise(9, 400_000);
        bytes[200_000..200_020].copy_from_slice(&noise(3000, 20));
        bytes
    });
    scene.back_up();
    laptop(&scene).prune(&thorough()).unwrap();
    let mut affected = 0;
    for pack in scene.names(&scene.laptop, "packs") {
        let copy = Copy::of(&scene, &scene.image());
        copy.storage.delete(&pack).unwrap();
        let report = copy.repair();
        affected += report.check.affected_total;
        copy.back_up();
        // Trees of earlier snapshots may be lost.
        let whole = copy.keeper().prune(&thorough());
        if matches!(whole, Err(Error::NeedsUnknown { .. })) {
            copy.forget_others();
        }
        for _ in 0..2 {
            copy.prune();
            let again = copy.back_up();
            assert!(again.counters.new_bytes < 1000, "{pack}: {again:?}");
            restores(&copy.keeper(), &scene.folder);
        }
    }
    assert!(affected > 5, "{affected}");
}

/// A disk that was not mounted, or what a thief has given back.
#[test]
fn a_pack_that_is_there_again_is_used_again() {
    let scene = pruned_scene();
    let mut lost = 0;
    for pack in scene.names(&scene.laptop, "packs") {
        let copy = Copy::of(&scene, &scene.image());
        copy.storage.delete(&pack).unwrap();
        lost += copy.repair().check.affected_total;
        copy.storage.put(&pack, &[&scene.image()[&pack]]).unwrap();
        let report = copy.check();
        assert!(report.is_clean(), "{pack}: {report:?}");
        copy.prune();
        assert!(copy.check().is_clean(), "{pack}");
        assert!(
            copy.back_up().counters.new_bytes < 1000,
            "{pack}: the prune has listed it"
        );
    }
    assert!(lost > 5, "{lost}");
}

/// A keeper leaves out what is lost, so that all that is left is whole.
#[test]
fn what_is_left_of_snapshots_is_whole_once_a_keeper_has_left_out_what_is_lost() {
    let scene = pruned_scene();
    std::fs::remove_file(scene.folder.path().join("version")).unwrap();
    scene.back_up();
    let (mut rewritten, mut emptied) = (0, 0);
    for is_pruned in [false, true] {
        if is_pruned {
            laptop(&scene).prune(&thorough()).unwrap();
        }
        for pack in scene.names(&scene.laptop, "packs") {
            let copy = Copy::of(&scene, &scene.image());
            copy.storage.delete(&pack).unwrap();
            copy.repair();
            let keeper = copy.keeper();
            let before = keeper.snapshots().unwrap();
            let options = RewriteOptions::default().exclude_lost(true).forget(true);
            for info in &before {
                match keeper.rewrite(info, &options) {
                    Ok(summary) => rewritten += u64::from(summary.id.is_some()),
                    Err(Error::NothingLeft { .. }) => {
                        keeper.forget(&[info.id]).unwrap();
                        emptied += 1;
                    }
                    Err(error) => panic!("{pack}: {error}"),
                }
            }
            let places = |all: &[SnapshotInfo]| all.iter().map(|info| info.snapshot.sequence).collect::<BTreeSet<_>>();
            let after = copy.keeper().snapshots().unwrap();
            assert!(
                places(&after).is_subset(&places(&before)),
                "they have the places of the others"
            );
            assert!(copy.check().is_clean(), "{pack}: {:?}", copy.check());
            copy.prune();
            assert!(copy.check().is_clean(), "{pack}");
            assert_eq!(copy.back_up().lost_packs, 0);
            restores(&copy.keeper(), &scene.folder);
        }
    }
    assert!(rewritten > 10 && emptied > 2, "{rewritten} {emptied}");
}

/// A thief of the key foresees the listing that a keeper would make, and claims to have stored it.
#[test]
fn what_a_keeper_rewrites_relies_on_nothing_that_the_writer_claims() {
    let scene = Scene::new();
    scene.back_up();
    let options = || {
        let excludes = Excludes::default().patterns(vec!["letter".to_owned()]);
        RewriteOptions::default().excludes(excludes).forget(true)
    };
    // The listings that a rewrite stores, as the thief can compute them.
    let foreseen = Copy::of(&scene, &scene.image());
    let known = image(foreseen.storage.as_ref());
    let info = foreseen.keeper().snapshot("latest").unwrap();
    foreseen.keeper().rewrite(&info, &options()).unwrap();
    let keys = scene.keys_of_keeper();
    let mut planted = 0;
    for (name, bytes) in image(foreseen.storage.as_ref()) {
        if known.contains_key(&name) || !name.as_str().contains("/packs/") {
            continue;
        }
        for frame in summary_in(&keys, &name, &bytes).frames {
            for blob in frame.blobs {
                plant_under(
                    scene.storage.as_ref(),
                    &scene.laptop,
                    blob.id,
                    &vec![b'x'; blob.length as usize],
                );
                planted += 1;
            }
        }
    }
    assert!(planted > 0);
    let info = laptop(&scene).snapshot("latest").unwrap();
    laptop(&scene).rewrite(&info, &options()).unwrap();
    std::fs::remove_file(scene.folder.path().join("letter")).unwrap();
    // What was planted hides the true listings until a prune.
    laptop(&scene).prune(&thorough()).unwrap();
    restores(&laptop(&scene), &scene.folder);
}

/// What a delta lacks may be stored again years later, by a client that has the file again.
#[test]
fn deltas_are_read_again_once_what_they_lack_is_stored() {
    let scene = pruned_scene();
    let kept = std::fs::read(scene.folder.path().join("version")).unwrap();
    std::fs::remove_file(scene.folder.path().join("version")).unwrap();
    scene.back_up();
    let mut healed = 0;
    for pack in scene.names(&scene.laptop, "packs") {
        let copy = Copy::of(&scene, &scene.image());
        copy.storage.delete(&pack).unwrap();
        let lost = copy.repair().check.affected_total;
        copy.back_up();
        if copy.keeper().prune(&thorough()).is_err() {
            continue;
        }
        scene.folder.write("version", &kept);
        copy.back_up();
        copy.prune();
        healed += u64::from(copy.check().affected_total < lost);
        std::fs::remove_file(scene.folder.path().join("version")).unwrap();
    }
    assert!(healed > 0);
}

#[test]
fn a_backup_beside_a_repair_loses_nothing() {
    let scene = pruned_scene();
    scene.folder.write("new", &noise(70, 200_000));
    for pack in scene.names(&scene.laptop, "packs") {
        let copy = Copy::of(&scene, &scene.image());
        copy.storage.delete(&pack).unwrap();
        let keeper = copy.keeper();
        let action = move || {
            keeper.repair(&RepairOptions::default()).unwrap();
        };
        let hooks = BeforeSnapshot {
            storage: copy.storage.clone(),
            action: Mutex::new(Some(Box::new(action))),
        };
        let writer = Repository::open_as_writer(Arc::new(Hooked(hooks)), &scene.laptop).unwrap();
        assert!(backup(&writer, scene.folder.path()).id.is_some());
        restores(&copy.keeper(), &scene.folder);
        copy.forget_others();
        copy.prune();
        restores(&copy.keeper(), &scene.folder);
        assert!(copy.check().is_clean());
    }
}

/// Returns the summary of a pack of the writer's, which keepers have signed.
fn summary_of(scene: &Scene, pack: &Name) -> PackSummary {
    summary_in(&scene.keys_of_keeper(), pack, &scene.image()[pack])
}

fn summary_in(keys: &Keys, pack: &Name, bytes: &[u8]) -> PackSummary {
    let (header, content) = bytes.split_at(signed::HEADER);
    let id = FileId::parse(pack.last_segment()).unwrap();
    signed::open(keys, FileKind::Pack, id, header).unwrap();
    let size = content.len() as u64;
    let (end, trailer) = content.split_at(content.len() - ibid_format::pack::TRAILER as usize);
    let mut trailer = trailer.to_vec();
    let offset = ibid_format::pack::open_trailer(keys, id, size, &mut trailer).unwrap();
    let mut directory = end[offset as usize..].to_vec();
    ibid_format::pack::open_directory(keys, id, size, offset, &mut directory).unwrap()
}

/// A thief of the key stores index files that say a keeper's pack is larger than it is, or has other frames.
#[test]
fn what_the_writer_says_of_good_packs_makes_no_repair_set_them_aside() {
    let scene = pruned_scene();
    let keys = scene.laptop.keys();
    for pack in scene.names(&scene.laptop, "packs") {
        for (id, how) in [(FileId([0; 16]), 0), (FileId([0xFF; 16]), 1), (FileId([1; 16]), 2)] {
            let mut summary = summary_of(&scene, &pack);
            match how {
                0 => summary.size += 5000,
                1 => drop(summary.frames.pop()),
                _ => summary.frames.iter_mut().for_each(|frame| frame.sealed += 7),
            }
            let copy = Copy::of(&scene, &scene.image());
            let content = ibid_format::index::encode(&keys, id, u64::MAX / 2, &[summary]).unwrap();
            let header = signed::sign(&keys, FileKind::Index, id, &[&content]).unwrap();
            let name = Name::new(&format!("written/{}/index/{id}", scene.laptop.id())).unwrap();
            copy.storage.put(&name, &[&header, &content]).unwrap();
            let report = copy.repair();
            assert!(report.set_aside.is_empty() && report.lost_frames == 0, "{report:?}");
            assert!(copy.storage.size(&pack).is_ok());
            copy.keeper().prune(&thorough()).unwrap();
            assert!(copy.check().is_clean());
            restores(&copy.keeper(), &scene.folder);
        }
    }
}

/// The directory of a keeper's pack is damaged, and a thief of the key says that its frames have other chunks.
#[test]
fn what_the_writer_says_of_a_damaged_pack_gives_no_chunk_another_id() {
    let scene = pruned_scene();
    let keys = scene.laptop.keys();
    let mut salvaged = 0;
    for pack in scene.names(&scene.laptop, "packs") {
        let mut summary = summary_of(&scene, &pack);
        for blob in summary.frames.iter_mut().flat_map(|frame| &mut frame.blobs) {
            blob.id.0[0] ^= 0xFF;
        }
        let mut damaged = scene.image();
        damage(&mut damaged, &pack, 3);
        let copy = Copy::of(&scene, &damaged);
        let id = FileId([0; 16]);
        let content = ibid_format::index::encode(&keys, id, 0, &[summary]).unwrap();
        let header = signed::sign(&keys, FileKind::Index, id, &[&content]).unwrap();
        let name = Name::new(&format!("written/{}/index/{id}", scene.laptop.id())).unwrap();
        copy.storage.put(&name, &[&header, &content]).unwrap();
        let report = copy.repair();
        salvaged += report.salvaged_frames;
        assert_eq!(
            report.lost_frames, 0,
            "{pack}: the index files of keepers say what is in it"
        );
        copy.keeper().prune(&thorough()).unwrap();
        restores(&copy.keeper(), &scene.folder);
        assert!(copy.check().is_clean(), "{pack}: {:?}", copy.check());
    }
    assert!(salvaged > 10, "{salvaged}");
}

/// Of packs that the writer has signed, frames are stored again if they hold what the writer says.
#[test]
fn of_a_writers_pack_without_its_end_all_is_left_that_can_be_verified() {
    for lies in [false, true] {
        let scene = Scene::new();
        scene.folder.write("large", &noise(30, 3_000_000));
        let first = scene.back_up();
        std::fs::remove_file(scene.folder.path().join("large")).unwrap();
        scene.back_up();
        let packs = scene.names(&scene.laptop, "packs");
        let largest = packs.iter().max_by_key(|name| scene.image()[*name].len()).unwrap();
        let mut damaged = scene.image();
        let length = damaged[largest].len();
        damaged.get_mut(largest).unwrap().truncate(length / 2);
        if lies {
            // Index files of a thief say first that each frame has other chunks.
            let (id, keys) = (FileId([0; 16]), scene.laptop.keys());
            let mut summary = summary_of(&scene, largest);
            summary.frames.iter_mut().for_each(|frame| frame.blobs.reverse());
            for blob in summary.frames.iter_mut().flat_map(|frame| &mut frame.blobs) {
                blob.id.0[5] ^= 1;
            }
            let content = ibid_format::index::encode(&keys, id, 0, &[summary]).unwrap();
            let header = signed::sign(&keys, FileKind::Index, id, &[&content]).unwrap();
            let name = Name::new(&format!("written/{}/index/{id}", scene.laptop.id())).unwrap();
            damaged.insert(name, [&header[..], &content].concat());
        }
        let copy = Copy::of(&scene, &damaged);
        let report = copy.repair();
        assert!(report.salvaged_frames > 0 && report.lost_frames > 0, "{report:?}");
        assert_eq!(report.set_aside.len(), 1, "{report:?}");
        copy.back_up();
        // What was stored again is a keeper's, and true.
        let affected = &copy.check().affected;
        assert!(
            affected
                .iter()
                .all(|one| one.snapshot == first && one.path.ends_with("large")),
            "{affected:?}"
        );
        let lost: u64 = affected[0].problem.split(' ').next().unwrap().parse().unwrap();
        assert!((1_000_000..2_500_000).contains(&lost), "{affected:?}");
        copy.prune();
        assert_eq!(copy.check().affected_total, 1);
    }
}

/// The true bytes of a file that is stored in one chunk.
const LETTER: &[u8] = b"in the same place where it was before";

/// A planted pack is damaged as well, so that a repair stores what is left of it again.
#[test]
fn a_false_chunk_of_a_damaged_pack_does_not_become_a_keepers() {
    let scene = Scene::new();
    scene.back_up();
    laptop(&scene).prune(&thorough()).unwrap();
    let known = scene.names(&scene.laptop, "packs");
    plant(scene.storage.as_ref(), &scene.laptop, &scene.laptop.keys(), LETTER);
    let planted = scene
        .names(&scene.laptop, "packs")
        .into_iter()
        .find(|name| !known.contains(name));
    let planted = planted.unwrap();
    let mut longer = scene.image();
    longer.get_mut(&planted).unwrap().extend_from_slice(&[0; 10]);
    let copy = Copy::of(&scene, &longer);
    copy.repair();
    let of_keepers = |image: Image| {
        let packs = image.into_iter().filter(|(name, _)| name.as_str().contains("/packs/"));
        packs.filter(|(_, bytes)| bytes.get(8) == Some(&2)).count()
    };
    assert_eq!(of_keepers(image(copy.storage.as_ref())), known.len());
    restores(&copy.keeper(), &scene.folder);
    copy.keeper().prune(&thorough()).unwrap();
    restores(&copy.keeper(), &scene.folder);
    assert!(copy.check().is_clean());
}

/// Before a prune, all packs and index files are signed by the writer alone.
#[test]
fn what_the_writer_alone_has_signed_is_repaired_and_nothing_is_stored_twice() {
    let scene = Scene::new();
    for number in 0..4 {
        scene.folder.write("large", &noise(30 + number, 300_000));
        scene.back_up();
    }
    for how in 0..6 {
        for pack in scene.names(&scene.laptop, "packs") {
            let mut damaged = scene.image();
            damage(&mut damaged, &pack, how);
            let context = format!("{pack} damaged as {how}");
            let copy = Copy::of(&scene, &damaged);
            let report = copy.repair();
            assert!(report.left.is_empty(), "{context}: {report:?}");
            let summary = copy.back_up();
            assert_eq!(summary.lost_packs, 0, "{context}");
            assert!(
                summary.counters.new_bytes < 400_000,
                "{context}: {:?}",
                summary.counters
            );
            restores(&copy.keeper(), &scene.folder);
            copy.forget_others();
            copy.keeper().prune(&thorough()).unwrap();
            restores(&copy.keeper(), &scene.folder);
            assert!(copy.check().is_clean(), "{context}");
            assert_eq!(copy.back_up().lost_packs, 0, "{context}");
        }
    }
}

/// Files of each other kind, each damaged, cut or deleted.
#[test]
fn every_other_file_of_a_writer_is_repaired_or_named() {
    let scene = pruned_scene();
    scene.back_up();
    let mut snapshots = 0;
    for name in scene.image().into_keys() {
        let below = format!("written/{}", scene.laptop.id());
        let Some(own) = name.is_in(&below).then(|| &name.as_str()[below.len() + 1..]) else {
            continue;
        };
        let folder = own.split('/').next().unwrap().to_owned();
        // A prune goes on with what is left of its log; packs have tests of their own.
        if matches!(&*folder, "packs" | "prune") {
            continue;
        }
        for how in 0..4 {
            let mut damaged = scene.image();
            let bytes = damaged.get_mut(&name).unwrap();
            let length = bytes.len();
            match how {
                0 => bytes[length - 3] ^= 1,
                1 => bytes[90] ^= 1,
                2 => bytes.truncate(length / 2),
                _ => drop(damaged.remove(&name)),
            }
            let context = format!("{name} damaged as {how}");
            let place = storage(&damaged);
            let repository = Repository::open(place.clone(), Some(b"secret")).unwrap();
            let is_config = folder == "config" && how < 3;
            let opened = repository.writer("laptop").map(drop);
            assert_eq!(
                matches!(opened, Err(Error::WriterConfig { .. })),
                is_config,
                "{context}"
            );
            assert_eq!(
                repository.repair_writer_config("laptop", true).unwrap(),
                folder == "config",
                "{context}"
            );
            assert!(image(place.as_ref()) == damaged, "{context}");
            assert_eq!(
                repository.repair_writer_config("laptop", false).unwrap(),
                folder == "config",
                "{context}"
            );
            let copy = Copy {
                scene: &scene,
                storage: place,
            };
            let report = copy.repair();
            assert!(report.left.is_empty(), "{context}: {report:?}");
            let lost = u64::from(folder == "snapshots" && how < 3);
            snapshots += lost;
            assert_eq!(report.lost_snapshots(), lost, "{context}");
            assert!(copy.check().is_clean(), "{context}: {:?}", copy.check());
            assert_eq!(copy.back_up().lost_packs, 0, "{context}");
            restores(&copy.keeper(), &scene.folder);
            copy.prune();
            restores(&copy.keeper(), &scene.folder);
            // What was set aside is there until it is to go.
            let aside = |copy: &Copy<'_>| {
                let below = format!("damaged/{}", scene.laptop.id());
                image(copy.storage.as_ref())
                    .into_keys()
                    .filter(|name| name.is_in(&below))
                    .count()
            };
            let count = aside(&copy);
            assert!(count >= lost as usize, "{context}");
            let options = RepairOptions::default().delete_damaged(true);
            assert_eq!(
                copy.keeper().repair(&options).unwrap().deleted_aside,
                count as u64,
                "{context}"
            );
            assert_eq!(aside(&copy), 0, "{context}");
        }
    }
    assert!(snapshots > 5, "{snapshots}");
}

#[test]
fn a_config_that_is_lost_with_its_copy_is_made_again() {
    let scene = Scene::new();
    scene.back_up();
    for name in ["config", "config.copy"] {
        let name = Name::new(&format!("written/{}/{name}", scene.laptop.id())).unwrap();
        scene.storage.delete(&name).unwrap();
    }
    let lost = scene.repository.writer("laptop").unwrap_err();
    assert!(matches!(lost, Error::WriterConfig { .. }), "{lost}");
    assert!(scene.repository.repair_writer_config("laptop", false).unwrap());
    scene.back_up();
    restores(&laptop(&scene), &scene.folder);
    assert!(laptop(&scene).check(ReadData::All).unwrap().is_clean());
    assert_eq!(
        scene.names(&scene.laptop, "packs").len(),
        scene.names(&scene.laptop, "packs").len()
    );
}

/// A repair that is cut short anywhere costs nothing, and the next one completes it.
#[test]
fn a_repair_of_a_writers_files_that_is_cut_short_is_completed() {
    let scene = pruned_scene();
    let mut cut_short = 0;
    for pack in scene.names(&scene.laptop, "packs") {
        let mut damaged = scene.image();
        damage(&mut damaged, &pack, 1);
        let whole = Copy::of(&scene, &damaged);
        let expected = whole.repair().check;
        for calls in 0.. {
            let copy = Copy::of(&scene, &damaged);
            let hooks = AfterCalls {
                storage: copy.storage.clone(),
                left: Mutex::new(calls),
            };
            let repository = Repository::open(Arc::new(Hooked(hooks)), Some(b"secret")).unwrap();
            let is_done = repository
                .writer("laptop")
                .unwrap()
                .repair(&RepairOptions::default())
                .is_ok();
            let report = copy.check();
            assert!(
                report.affected_total <= expected.affected_total,
                "{pack}, {calls} calls: {report:?}"
            );
            restores_or_is_lost(&copy, &expected);
            let again = copy.repair().check;
            assert_eq!(again.affected_total, expected.affected_total, "{pack}, {calls} calls");
            assert_eq!(copy.back_up().lost_packs, 0, "{pack}, {calls} calls");
            restores(&copy.keeper(), &scene.folder);
            if is_done {
                break;
            }
            cut_short += 1;
        }
    }
    assert!(cut_short > 30, "{cut_short}");
}

/// Asserts that the last snapshot is whole, unless a repair that is not cut short says otherwise.
fn restores_or_is_lost(copy: &Copy<'_>, expected: &CheckReport) {
    let latest = copy.keeper().snapshot("latest").unwrap();
    let target = scratch();
    let path = latest.at(copy.scene.folder.path());
    let restored = copy.keeper().restore(path, target.path(), &RestoreOptions::default());
    if expected.affected.iter().all(|affected| affected.snapshot != latest.id) {
        assert_eq!(restored.unwrap().failed, 0);
    }
}

/// Refuses to change anything after so many changes.
struct AfterCalls {
    storage: Arc<Memory>,
    left: Mutex<u32>,
}

impl AfterCalls {
    fn count(&self, name: &Name) -> Result<(), ibid_storage::Error> {
        let mut left = self.left.lock().unwrap();
        match left.checked_sub(1) {
            Some(less) => *left = less,
            None => {
                let (kind, operation) = (ibid_storage::ErrorKind::NoSpace, ibid_storage::Operation::Put);
                return Err(ibid_storage::Error::new(kind, operation, Some(name), String::new()));
            }
        }
        Ok(())
    }
}

impl Hooks for AfterCalls {
    fn inner(&self) -> &dyn Storage {
        &*self.storage
    }

    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), ibid_storage::Error> {
        self.count(name)?;
        self.storage.put(name, parts)
    }

    fn delete(&self, name: &Name) -> Result<(), ibid_storage::Error> {
        self.count(name)?;
        self.storage.delete(name)
    }
}

#[test]
fn a_removed_writers_files_are_repaired_as_well() {
    let scene = pruned_scene();
    scene.back_up();
    scene.repository.remove_writer("laptop").unwrap();
    let limit = PruneOptions::default().max_repack(Limit::Bytes(u64::MAX));
    for pack in scene.names(&scene.laptop, "packs") {
        let copy = Copy::of(&scene, &scene.image());
        copy.storage.delete(&pack).unwrap();
        let report = copy.repair();
        assert!(report.left.is_empty(), "{report:?}");
        // Snapshots that have lost listings hold up prunes until they are forgotten.
        let damaged: Vec<FileId> = report.check.affected.iter().map(|affected| affected.snapshot).collect();
        copy.keeper().forget(&damaged).unwrap();
        copy.keeper().prune(&limit).unwrap();
        assert!(copy.check().is_clean());
    }
}
