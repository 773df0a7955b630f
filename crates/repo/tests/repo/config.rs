//! A lost or damaged config comes back from its copy, and nothing else takes its place.

use std::sync::Arc;

use ibid_repo::{Error, InitOptions, ReadData, Repository};
use ibid_storage::{Memory, Name, Storage};

use crate::support;
use crate::support::damage::{Image, Scene, image, kind, names_fault, open, storage};
use crate::support::quick;

const SECRET: Option<&[u8]> = Some(b"secret");

fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

fn repair_config(place: &Arc<Memory>, password: Option<&[u8]>) -> Result<bool, Error> {
    Repository::repair_config(place.clone(), password)
}

#[test]
fn a_lost_or_damaged_config_comes_back_from_its_copy() {
    let scene = Scene::new();
    let config = name("config");
    let length = scene.image[&config].len();
    let mut damaged = vec![scene.with(|image| drop(image.remove(&config)))];
    for at in 0..length {
        damaged.push(scene.with(|image| image.get_mut(&config).unwrap()[at] ^= 1));
    }
    for length in [0, 7, length - 1, length + 1, 10_000] {
        damaged.push(scene.with(|image| image.get_mut(&config).unwrap().resize(length, 0)));
    }
    for (damaged, number) in damaged.iter().zip(0..) {
        let place = storage(damaged);
        open(place.clone()).unwrap_err();
        assert!(matches!(Repository::probe_copy(place.as_ref()), Ok(Some(probe)) if probe.encrypted));
        let opened = Repository::open_with_copy(place.clone(), SECRET).unwrap().unwrap();
        assert!(opened.check(ReadData::All).unwrap().is_clean(), "damage {number}");
        assert!(image(place.as_ref()) == *damaged, "nothing was written");
        assert!(repair_config(&place, SECRET).unwrap(), "damage {number}");
        let now = image(place.as_ref());
        assert!(now[&config] == scene.image[&config]);
        let aside = now.iter().find(|(name, _)| kind(name) == "damaged");
        assert_eq!(
            aside.is_some(),
            damaged.contains_key(&config),
            "a damaged one is kept aside"
        );
        assert!(!repair_config(&place, SECRET).unwrap(), "there is nothing more to do");
        assert!(Repository::open_with_copy(place.clone(), SECRET).unwrap().is_none());
        assert!(open(place).unwrap().check(ReadData::All).unwrap().is_clean());
    }
}

#[test]
fn what_a_newer_version_wrote_stays() {
    let scene = Scene::new();
    let (config, copy) = (name("config"), name("config.copy"));
    let newer = |image: &mut Image, name: &Name| image.get_mut(name).unwrap()[7] += 1;
    let both = scene.with(|image| {
        newer(image, &config);
        newer(image, &copy);
    });
    let alone = scene.with(|image| {
        newer(image, &config);
        image.remove(&copy);
    });
    let another = scene.with(|image| {
        newer(image, &config);
        image.get_mut(&config).unwrap()[60] ^= 1;
    });
    for written in [both, alone, another] {
        let place = storage(&written);
        for error in [
            open(place.clone()).unwrap_err(),
            repair_config(&place, SECRET).unwrap_err(),
        ] {
            assert!(error.to_string().contains("use a newer ibid"), "{error}");
        }
        assert!(image(place.as_ref()) == written, "nothing was written");
    }
}

#[test]
fn only_a_copy_that_opens_the_repository_becomes_its_config() {
    let (scene, other) = (Scene::new(), Scene::new());
    let (config, copy) = (name("config"), name("config.copy"));
    // Of another repository, damaged too, and with a wrong password.
    let foreign = scene.with(|image| {
        image.remove(&config);
        image.insert(copy.clone(), other.image[&copy].clone());
    });
    let both = scene.with(|image| {
        image.remove(&config);
        image.get_mut(&copy).unwrap()[60] ^= 1;
    });
    let lost = scene.with(|image| drop(image.remove(&config)));
    let none = scene.with(|image| image.retain(|name, _| *name != config && *name != copy));
    for (damaged, password) in [
        (foreign, SECRET),
        (both, SECRET),
        (lost, Some(&b"guess"[..])),
        (none, SECRET),
    ] {
        let place = storage(&damaged);
        repair_config(&place, password).unwrap_err();
        assert!(image(place.as_ref()) == damaged, "nothing was written");
    }
}

#[test]
fn a_repository_without_encryption_comes_back_too() {
    let place = Arc::new(Memory::new());
    Repository::init(place.clone(), None, &InitOptions::default()).unwrap();
    place.delete(&name("config")).unwrap();
    assert!(repair_config(&place, None).unwrap());
    Repository::open(place, None).unwrap();
}

/// Whatever is left of the repository, another must not be made in its place.
#[test]
fn no_repository_is_made_where_one_has_lost_its_config() {
    let scene = Scene::new();
    for left in ["packs", "index", "snapshots", "config.copy"] {
        let place = storage(&scene.with(|image| image.retain(|name, _| kind(name) == left)));
        let is_copy = left == "config.copy";
        let missing = |error: &Error| matches!(error, Error::ConfigMissing { has_copy, .. } if *has_copy == is_copy);
        let error = Repository::init(place.clone(), SECRET, &quick()).unwrap_err();
        assert!(missing(&error), "{left}: {error}");
        let error = open(place).unwrap_err();
        assert!(missing(&error), "{left}: {error}");
    }
    // An initialisation that was cut short leaves a key, and can be repeated.
    let place = storage(&scene.with(|image| image.retain(|name, _| kind(name) == "keys")));
    assert!(matches!(open(place.clone()), Err(Error::NoRepository { .. })));
    Repository::init(place, SECRET, &quick()).unwrap();
}

#[test]
fn a_copy_that_is_missing_is_made_by_the_next_backup_and_one_that_differs_is_a_fault() {
    let scene = Scene::new();
    let copy = name("config.copy");
    let place = storage(&scene.with(|image| drop(image.remove(&copy))));
    let repository = open(place.clone()).unwrap();
    assert!(
        repository.check(ReadData::No).unwrap().is_clean(),
        "no fault: older versions made none"
    );
    support::backup(&repository, scene.folder.path());
    assert!(image(place.as_ref())[&copy] == scene.image[&copy]);
    let place = storage(&scene.with(|image| image.get_mut(&copy).unwrap()[60] ^= 1));
    names_fault(&open(place).unwrap().check(ReadData::No).unwrap(), &copy, "damaged");
}

#[test]
fn a_damaged_key_is_no_wrong_password() {
    let scene = Scene::new();
    let key = scene.names("keys")[0].clone();
    let length = scene.image[&key].len();
    for at in 0..length {
        let place = storage(&scene.with(|image| image.get_mut(&key).unwrap()[at] ^= 1));
        let error = open(place).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "byte {at}: {error}");
        assert!(error.to_string().contains(key.last_segment()), "{error}");
    }
    let error = Repository::open(storage(&scene.image), Some(b"guess")).unwrap_err();
    assert!(
        matches!(
            error,
            Error::WrongPassword {
                slots: 1,
                untried: None,
                ..
            }
        ),
        "{error}"
    );
    // With another key, both are told.
    let repository = open(storage(&scene.image)).unwrap();
    drop(repository);
    let place = storage(&scene.image);
    let repository = open(place.clone()).unwrap();
    let id = repository
        .add_key(b"other", &ibid_repo::KeyOptions::default().cost(quick().cost))
        .unwrap();
    let mut two = image(place.as_ref());
    two.get_mut(&name(&format!("keys/{id}"))).unwrap()[200] ^= 1;
    let error = Repository::open(storage(&two), Some(b"other")).unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(
            error,
            Error::WrongPassword {
                slots: 1,
                untried: Some(_),
                ..
            }
        ),
        "{text}"
    );
    assert!(text.contains(&id.to_string()), "{text}");
}
