//! A backup says what is lost, stores it again if it can, and makes again what follows from other files.

use std::sync::{Arc, Mutex};

use ibid_repo::{BackupSummary, Monitor, ReadData, Repository, Warning};
use ibid_storage::fault::{Damage, Flaky};
use ibid_storage::{Memory, Name};

use crate::support::damage::{Image, Scene, image, kind, names_fault, open, storage};
use crate::support::deltas::Writer;
use crate::support::{options, scratch};

/// Backs up the folder of the scene. Returns the summary, and what was told meanwhile.
fn backup(repository: &Repository, scene: &Scene) -> (BackupSummary, Vec<Warning>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let monitor = Arc::new(Monitor::new({
        let heard = heard.clone();
        move |warning| heard.lock().unwrap().push(warning)
    }));
    let summary = repository
        .watched_by(&monitor)
        .backup(&options(scene.folder.path()))
        .unwrap();
    let heard = std::mem::take(&mut *heard.lock().unwrap());
    (summary, heard)
}

fn damage(image: &mut Image, name: &Name) {
    image.get_mut(name).unwrap()[100] ^= 4;
}

#[test]
fn a_backup_says_that_packs_are_missing_and_what_it_stored_again() {
    let scene = Scene::new();
    let (mut healed_chunks, mut lost_chunks) = (0, 0);
    for pack in scene.names("packs") {
        let place = storage(&scene.with(|image| drop(image.remove(&pack))));
        let (summary, heard) = backup(&open(place.clone()).unwrap(), &scene);
        assert_eq!(summary.lost_packs, 1);
        let told = |warning: &Warning| {
            matches!(
                warning,
                Warning::LostPacks {
                    missing: 1,
                    cut: 0,
                    unreadable: 0,
                    named,
                    party: ibid_repo::Party::Owner,
                } if *named == [pack.to_string()]
            )
        };
        assert_eq!(heard.iter().filter(|warning| told(warning)).count(), 1, "{heard:?}");
        let frames = Writer::of(storage(&scene.image)).directory(&pack).frames;
        let chunks: usize = frames.iter().map(|frame| frame.blobs.len()).sum();
        assert!(summary.healed_chunks <= summary.counters.new_chunks);
        assert!(summary.healed_chunks <= chunks as u64, "only lost chunks count");
        assert_eq!(summary.healed_chunks == 0, summary.healed_bytes == 0);
        healed_chunks += summary.healed_chunks;
        lost_chunks += chunks as u64;
    }
    assert!(
        healed_chunks > 0 && healed_chunks < lost_chunks,
        "{healed_chunks} of {lost_chunks}"
    );
}

#[test]
fn a_backup_says_that_packs_are_cut_short_or_unreadable() {
    let scene = Scene::new();
    let pack = &scene.names("packs")[0];
    let cut = scene.with(|image| {
        let bytes = image.get_mut(pack).unwrap();
        bytes.truncate(bytes.len() - 1);
    });
    let (summary, heard) = backup(&open(storage(&cut)).unwrap(), &scene);
    assert!(
        matches!(
            heard[..],
            [Warning::LostPacks {
                missing: 0,
                cut: 1,
                unreadable: 0,
                ..
            }]
        ),
        "{heard:?}"
    );
    assert_eq!((summary.lost_packs, summary.healed_chunks), (1, 0));
    // No index file says what was in it.
    let unreadable = scene.with(|image| {
        image.retain(|name, _| kind(name) != "index");
        *image.get_mut(pack).unwrap().last_mut().unwrap() ^= 1;
    });
    let (summary, heard) = backup(&open(storage(&unreadable)).unwrap(), &scene);
    let told = |warning: &Warning| {
        matches!(
            warning,
            Warning::LostPacks {
                missing: 0,
                cut: 0,
                unreadable: 1,
                ..
            }
        )
    };
    assert!(heard.iter().any(told), "{heard:?}");
    assert_eq!(summary.lost_packs, 1);
}

#[test]
fn a_backup_of_a_whole_repository_says_nothing() {
    let scene = Scene::new();
    let (summary, heard) = backup(&open(storage(&scene.image)).unwrap(), &scene);
    assert!(heard.is_empty(), "{heard:?}");
    assert_eq!(
        (summary.lost_packs, summary.healed_chunks, summary.healed_bytes),
        (0, 0, 0)
    );
}

#[test]
fn a_damaged_index_file_is_made_again_and_deleted_by_the_next_backup() {
    let scene = Scene::new();
    for name in scene.names("index") {
        let place = storage(&scene.with(|image| damage(image, &name)));
        let repository = open(place.clone()).unwrap();
        let (_, heard) = backup(&repository, &scene);
        assert!(
            matches!(&heard[..], [Warning::Repository { .. }, Warning::Replaced { object }] if object == name.as_str()),
            "{heard:?}"
        );
        assert!(!image(place.as_ref()).contains_key(&name));
        let report = scene.judge(&image(place.as_ref()), name.as_str()).unwrap();
        assert!(report.is_clean() && report.unlisted_packs == 0, "{report:?}");
        let (_, heard) = backup(&repository, &scene);
        assert!(heard.is_empty(), "it is told once: {heard:?}");
    }
}

/// The cache of a machine stands for the index file, so its backups do not read that. A check does.
#[test]
fn with_a_cache_a_damaged_index_file_is_made_again_once_a_check_has_found_it() {
    let scene = Scene::new();
    let cache = scratch();
    let cached = |place: &Arc<Memory>| open(place.clone()).unwrap().with_tiny_index().with_cache(cache.path());
    let place = storage(&scene.image);
    backup(&cached(&place), &scene);
    assert!(cached(&place).cache_stats().unwrap().unwrap().runs > 0);
    for name in image(place.as_ref()).keys().filter(|name| kind(name) == "index") {
        let mut damaged = image(place.as_ref());
        damage(&mut damaged, name);
        let place = storage(&damaged);
        names_fault(&cached(&place).check(ReadData::No).unwrap(), name, "found");
        backup(&cached(&place), &scene);
        let report = cached(&place).check(ReadData::All).unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
}

/// The disk may read it tomorrow, or a newer version of the program.
#[test]
fn an_index_file_that_cannot_be_read_now_is_not_deleted() {
    let scene = Scene::new();
    for name in scene.names("index") {
        let place = Arc::new(Flaky::new(storage(&scene.image)));
        let repository = Repository::open(place.clone(), Some(b"secret")).unwrap();
        place.damage(&name, Damage::Unreadable);
        backup(&repository, &scene);
        place.heal();
        assert!(image(place.as_ref()).contains_key(&name));
        // The number of the version.
        let newer = storage(&scene.with(|image| image.get_mut(&name).unwrap()[7] += 1));
        backup(&open(newer.clone()).unwrap(), &scene);
        assert!(image(newer.as_ref()).contains_key(&name));
    }
}

/// Only the damaged index file could say, one day, what is in the damaged pack.
#[test]
fn a_damaged_index_file_stays_as_long_as_some_pack_needs_it() {
    let scene = Scene::new();
    let image_of = scene.with(|image| {
        for name in scene.names("index") {
            damage(image, &name);
        }
        let pack = &scene.names("packs")[0];
        *image.get_mut(pack).unwrap().last_mut().unwrap() ^= 1;
    });
    let place = storage(&image_of);
    backup(&open(place.clone()).unwrap(), &scene);
    for name in scene.names("index") {
        assert!(image(place.as_ref()).contains_key(&name));
    }
}
