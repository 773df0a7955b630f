//! One file of the repository that can't be opened or read stands in the way of nothing else.

use std::sync::{Arc, Mutex};

use ibid_repo::{Error, Monitor, ReadData, Repository, SnapshotFilter, Warning};
use ibid_storage::fault::{Damage, Flaky};
use ibid_storage::{ErrorKind, Memory, Name};

use crate::support;
use crate::support::damage::{Image, Scene, names_fault, open, storage};

type Place = Arc<Flaky<Arc<Memory>>>;

fn flaky(image: &Image) -> (Place, Repository) {
    let place = Arc::new(Flaky::new(storage(image)));
    let repository = Repository::open(place.clone(), Some(b"secret")).unwrap();
    (place, repository)
}

#[test]
fn a_check_names_every_file_that_cannot_be_opened() {
    let scene = Scene::new();
    for damage in [Damage::Unreadable, Damage::Denied] {
        for read in [ReadData::No, ReadData::All] {
            let kinds = ["packs", "index", "snapshots", "sketches"];
            for of in kinds {
                let (place, repository) = flaky(&scene.image);
                let names = scene.names(of);
                for name in &names {
                    place.damage(name, damage.clone());
                }
                let report = repository.check(read).unwrap();
                for name in &names {
                    names_fault(&report, name, &format!("{damage:?}"));
                }
                assert_eq!(report.affected_total > 0, of == "packs", "{report:?}");
            }
        }
    }
}

/// Another user made the repository. What this one may not read is not lost, so nothing of it is stored again.
#[test]
fn a_backup_that_may_not_read_the_index_stores_nothing() {
    let scene = Scene::new();
    for of in ["index", "packs"] {
        let mut image = scene.image.clone();
        if of == "packs" {
            image.retain(|name, _| !name.as_str().starts_with("index/"));
        }
        let (place, repository) = flaky(&image);
        for name in scene.names(of) {
            place.damage(&name, Damage::Denied);
        }
        let error = repository.backup(&support::options(scene.folder.path())).unwrap_err();
        assert!(
            matches!(&error, Error::Storage(error) if error.kind() == ErrorKind::PermissionDenied),
            "{error}"
        );
        // Its session, which is gone again.
        let counts = place.counts();
        assert_eq!((counts.put, counts.delete), (1, 1));
    }
}

#[test]
fn the_latest_snapshot_is_the_newest_that_can_be_read() {
    let scene = Scene::new();
    let name = |at: usize| Name::new(&format!("snapshots/{}", scene.snapshots[at].0)).unwrap();
    // Index of the damaged snapshots, what is asked for, what is found.
    for (damaged, wanted, found) in [
        (vec![0], "latest", Some(2)),
        (vec![0], "latest~1", Some(1)),
        (vec![0], "latest~2", None),
        (vec![2], "latest", Some(1)),
        (vec![1], "latest~1", Some(0)),
        (vec![1, 2], "latest", Some(0)),
        (vec![1, 2], "latest~1", None),
    ] {
        let image = scene.with(|image| {
            for at in &damaged {
                image.get_mut(&name(*at)).unwrap()[30] ^= 1;
            }
        });
        let heard = Arc::new(Mutex::new(Vec::new()));
        let monitor = Arc::new(Monitor::new({
            let heard = heard.clone();
            move |warning| heard.lock().unwrap().push(warning)
        }));
        let repository = open(storage(&image)).unwrap().watched_by(&monitor);
        let result = repository.find_snapshot(wanted, &SnapshotFilter::default());
        match found {
            Some(at) => assert_eq!(result.unwrap().id.to_string(), scene.snapshots[at].0),
            None => assert!(matches!(result, Err(Error::UnknownSnapshot { .. })), "{result:?}"),
        }
        let heard = heard.lock().unwrap();
        for at in &damaged {
            let object = name(*at).to_string();
            let is_named = |warning: &Warning| match warning {
                Warning::Repository {
                    error: Error::Damaged { object: named, .. },
                } => *named == object,
                _ => false,
            };
            assert!(heard.iter().any(is_named), "{object} is not named: {heard:?}");
        }
        assert_eq!(heard.len(), damaged.len());
    }
    // With none left, the error is the damage.
    let image = scene.with(|image| {
        for at in 0..3 {
            image.get_mut(&name(at)).unwrap()[30] ^= 1;
        }
    });
    let error = open(storage(&image)).unwrap().snapshot("latest").unwrap_err();
    assert!(error.is_damage(), "{error}");
}
