//! Keepers prune the files of a writer: what is not needed goes, and what is needed becomes as small as what they
//! store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibid_format::frame::{Compression, FrameBuilder, FrameEncoder};
use ibid_format::pack::{PackBuilder, PackKind};
use ibid_format::writer::signed;
use ibid_format::{FileId, FileKind};
use ibid_repo::{Error, Limit, Monitor, PruneOptions, PruneSummary, ReadData, Repository, RestoreOptions, Warning};
use ibid_storage::{Memory, Name, Storage};

use crate::support::damage::storage;
use crate::support::hooked::{Hooked, Hooks};
use crate::support::{backup, noise, quick, scratch};
use crate::writers::{Scene, plant, restores};

pub(crate) fn laptop(scene: &Scene) -> Repository {
    scene.repository.writer("laptop").unwrap()
}

pub(crate) fn thorough() -> PruneOptions {
    PruneOptions::default().max_unused(Limit::Bytes(0))
}

/// Prunes, and asserts that nothing is wrong.
fn prune(scene: &Scene) -> PruneSummary {
    let monitor = Arc::new(Monitor::new(|warning| panic!("{warning:?}")));
    let summary = laptop(scene).watched_by(&monitor).prune(&thorough()).unwrap();
    let report = laptop(scene).check(ReadData::All).unwrap();
    assert!(report.faults.is_empty(), "{report:?}");
    summary
}

/// Returns who has signed each of the writer's files in a folder: 1 the writer, 2 a keeper.
fn signers(scene: &Scene, folder: &str) -> Vec<u8> {
    let names = scene.names(&scene.laptop, folder);
    names.iter().map(|name| scene.image()[name][8]).collect()
}

/// Returns the bytes of the writer's packs.
fn bytes_of_packs(scene: &Scene) -> usize {
    let names = scene.names(&scene.laptop, "packs");
    names.iter().map(|name| scene.image()[name].len()).sum()
}

/// Makes versions of a file that resemble one another, and stores each with `store`.
pub(crate) fn versions(scene: &Scene, mut store: impl FnMut()) {
    let mut bytes = noise(9, 400_000);
    for n in 0..6u64 {
        for at in 0..8 {
            let at = (n as usize * 13 + at * 47) * 1000;
            bytes[at..at + 20].copy_from_slice(&noise(100 + n * 10 + at as u64, 20));
        }
        scene.folder.write("version", &bytes);
        store();
    }
}

#[test]
fn what_keepers_forget_of_a_writer_is_freed() {
    let scene = Scene::new();
    scene.folder.write("large", &noise(5, 2_000_000));
    let first = scene.back_up();
    std::fs::remove_file(scene.folder.path().join("large")).unwrap();
    scene.back_up();
    assert!(bytes_of_packs(&scene) > 2_000_000);
    laptop(&scene).forget(&[first]).unwrap();
    let summary = prune(&scene);
    assert!(summary.freed() > 1_900_000 && summary.waiting.is_empty(), "{summary:?}");
    assert!(bytes_of_packs(&scene) < 400_000, "{}", bytes_of_packs(&scene));
    restores(&laptop(&scene), &scene.folder);
    assert!(
        laptop(&scene)
            .forgotten(|_, error| panic!("{error}"))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_writers_packs_become_a_keepers_with_deltas_and_as_small() {
    let scene = Scene::new();
    versions(&scene, || {
        scene.back_up();
    });
    let before = bytes_of_packs(&scene);
    assert!(signers(&scene, "packs").iter().all(|signer| *signer == 1));
    prune(&scene);
    restores(&laptop(&scene), &scene.folder);
    // The same backups by a keeper.
    let alone = Repository::init(Arc::new(Memory::new()), Some(b"secret"), &quick()).unwrap();
    versions(&scene, || {
        backup(&alone, scene.folder.path());
    });
    let alone = alone.prune(&thorough()).unwrap().stored as usize;
    let after = bytes_of_packs(&scene);
    assert!(after * 2 < before, "{after} of {before}");
    assert!(after < alone + alone / 5 + 20_000, "{after}, and a keeper's {alone}");
    assert!(signers(&scene, "packs").iter().all(|signer| *signer == 2));
    assert!(signers(&scene, "index").iter().all(|signer| *signer == 2));
    // What is done once is not done again.
    let again = prune(&scene);
    assert_eq!(
        (again.packs_written, again.packs_deleted, again.encoded_anew),
        (0, 0, 0),
        "{again:?}"
    );
}

#[test]
fn a_writer_deduplicates_against_what_keepers_made_of_its_packs() {
    let scene = Scene::new();
    versions(&scene, || {
        scene.back_up();
    });
    prune(&scene);
    for _ in 0..2 {
        let summary = backup(&scene.as_writer(&scene.laptop), scene.folder.path());
        assert!(summary.counters.new_bytes < 10_000, "{:?}", summary.counters);
        prune(&scene);
        restores(&laptop(&scene), &scene.folder);
    }
    scene.folder.write("new", &noise(77, 50_000));
    let summary = backup(&scene.as_writer(&scene.laptop), scene.folder.path());
    assert!(summary.counters.new_bytes < 70_000, "{:?}", summary.counters);
    restores(&laptop(&scene), &scene.folder);
}

/// Does something before the first snapshot is stored.
pub(crate) struct BeforeSnapshot {
    pub(crate) storage: Arc<Memory>,
    pub(crate) action: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Hooks for BeforeSnapshot {
    fn inner(&self) -> &dyn Storage {
        &*self.storage
    }

    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), ibid_storage::Error> {
        if name.as_str().contains("/snapshots/") {
            let action = self.action.lock().unwrap().take();
            action.into_iter().for_each(|action| action());
        }
        self.storage.put(name, parts)
    }
}

#[test]
fn a_prune_waits_for_a_writer_that_is_backing_up_and_a_void_makes_it_begin_again() {
    let scene = Scene::new();
    let old = scene.back_up();
    // When the writer is about to store its snapshot, a keeper forgets the first snapshot and prunes. The writer's
    // session is open.
    let keeper = laptop(&scene);
    let action = move || {
        keeper.forget(&[old]).unwrap();
        // A session of this machine whose process runs is waited for, unless patience ends.
        assert_eq!(keeper.prune(&thorough()).unwrap().waiting.len(), 1);
        assert!(
            keeper
                .prune(&thorough().patience(Duration::ZERO))
                .unwrap()
                .waiting
                .is_empty()
        );
    };
    let storage = BeforeSnapshot {
        storage: scene.storage.clone(),
        action: Mutex::new(Some(Box::new(action))),
    };
    let writer = Repository::open_as_writer(Arc::new(Hooked(storage)), &scene.laptop).unwrap();
    let summary = backup(&writer, scene.folder.path());
    assert!(summary.id.is_some());
    restores(&laptop(&scene), &scene.folder);
    prune(&scene);
    restores(&laptop(&scene), &scene.folder);
}

/// The true bytes of a file that is stored in one chunk.
const LETTER: &[u8] = b"in the same place where it was before";

#[test]
fn a_false_copy_loses_to_a_true_one_and_its_pack_goes() {
    let scene = Scene::new();
    scene.back_up();
    plant(scene.storage.as_ref(), &scene.laptop, &scene.laptop.keys(), LETTER);
    for _ in 0..2 {
        let warned = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = warned.clone();
        let monitor = Arc::new(Monitor::new(move |warning| {
            let is_false = matches!(
                &warning,
                Warning::Repository {
                    error: Error::FalsePack { .. }
                }
            );
            assert!(is_false, "{warning:?}");
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }));
        laptop(&scene).watched_by(&monitor).prune(&thorough()).unwrap();
        assert!(signers(&scene, "packs").iter().all(|signer| *signer == 2));
        restores(&laptop(&scene), &scene.folder);
        // Planted again, when keepers have the true one.
        plant(scene.storage.as_ref(), &scene.laptop, &scene.laptop.keys(), LETTER);
        assert!(warned.load(std::sync::atomic::Ordering::Relaxed) > 0);
    }
    laptop(&scene).prune(&thorough()).unwrap();
    assert!(laptop(&scene).check(ReadData::All).unwrap().faults.is_empty());
    // The writer does not take what was planted for stored.
    scene.back_up();
    restores(&laptop(&scene), &scene.folder);
}

#[test]
fn a_chunk_whose_only_copy_is_false_keeps_its_pack_which_is_named() {
    let scene = Scene::new();
    plant(scene.storage.as_ref(), &scene.laptop, &scene.laptop.keys(), LETTER);
    // The writer relies on what was planted.
    scene.back_up();
    let named = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = named.clone();
    let monitor = Arc::new(Monitor::new(move |warning| {
        seen.lock().unwrap().push(format!("{warning:?}"))
    }));
    let summary = laptop(&scene).watched_by(&monitor).prune(&thorough()).unwrap();
    assert_eq!(summary.estimate.lost_packs, 1, "{summary:?}");
    assert!(
        named
            .lock()
            .unwrap()
            .iter()
            .any(|warning| warning.contains("FalsePack"))
    );
    let signers = signers(&scene, "packs");
    assert_eq!(signers.iter().filter(|signer| **signer == 1).count(), 1, "{signers:?}");
    // Everything else is right, and the next backup of the writer stores the true bytes.
    let target = scratch();
    let snapshot = laptop(&scene).snapshot("latest").unwrap();
    let restored = laptop(&scene).restore(
        snapshot.at(scene.folder.path()),
        target.path(),
        &RestoreOptions::default(),
    );
    assert_eq!(restored.unwrap().failed, 1);
    scene.back_up();
    laptop(&scene).prune(&thorough()).unwrap();
    restores(&laptop(&scene), &scene.folder);
    prune(&scene);
    assert!(self::signers(&scene, "packs").iter().all(|signer| *signer == 2));
}

/// The writer still has all bytes of its last snapshot. It can't read which deltas need what was lost.
#[test]
fn whichever_pack_of_a_keeper_is_lost_the_next_backup_of_a_writer_is_whole_and_stays_so() {
    let scene = Scene::new();
    versions(&scene, || {
        scene.back_up();
        prune(&scene);
    });
    let (mut packs, mut healed) = (0, 0);
    for lost in scene.names(&scene.laptop, "packs") {
        let storage = storage(&scene.image());
        storage.delete(&lost).unwrap();
        let laptop = || {
            let repository = Repository::open(storage.clone(), Some(b"secret")).unwrap();
            repository.writer("laptop").unwrap()
        };
        let back_up = || {
            let writer = Repository::open_as_writer(storage.clone(), &scene.laptop).unwrap();
            let summary = backup(&writer, scene.folder.path());
            restores(&laptop(), &scene.folder);
            summary
        };
        packs += 1;
        healed += u64::from(back_up().healed_chunks > 0);
        // But for the times of folders on the way there.
        assert!(back_up().counters.new_bytes < 1000, "{lost}: all is stored by now");
        // Trees of the others may be lost.
        let mut old = Vec::new();
        laptop()
            .snapshots_with(|id, _| old.push(id))
            .unwrap()
            .iter()
            .for_each(|info| old.push(info.id));
        let latest = laptop().snapshot("latest").unwrap().id;
        old.retain(|id| *id != latest);
        laptop().forget(&old).unwrap();
        for _ in 0..3 {
            laptop().prune(&thorough()).unwrap();
            restores(&laptop(), &scene.folder);
            back_up();
        }
        let report = laptop().check(ReadData::All).unwrap();
        assert!(report.affected.is_empty(), "{lost}: {report:?}");
    }
    assert!(packs > 5 && healed > 1, "{packs} {healed}");
}

#[test]
fn an_index_file_that_says_what_is_in_no_pack_goes() {
    let scene = Scene::new();
    scene.back_up();
    prune(&scene);
    // An index file of a keeper's pack that says it has a chunk which the writer will have, in an epoch to come.
    let keys = scene.laptop.keys();
    let new = noise(55, 3000);
    let packs = scene.names(&scene.laptop, "packs");
    let length = |name: &&Name| scene.image()[*name].len();
    let largest = packs.iter().max_by_key(length).unwrap();
    let pack = FileId::parse(largest.last_segment()).unwrap();
    let size = (length(&largest) - signed::HEADER) as u64;
    let (mut gathered, mut plaintext) = (FrameBuilder::new(), Vec::new());
    gathered.push(keys.chunk_id(&new), &new);
    FrameEncoder::new()
        .encode(gathered.blobs(), gathered.body(), Compression::Stored, &mut plaintext)
        .unwrap();
    let mut builder = PackBuilder::new(&keys, pack, PackKind::Data);
    builder.add(&plaintext, gathered.blobs(), 0, &[]);
    let (_, mut summary) = builder.finish();
    summary.size = size;
    let file = FileId::random();
    let content = ibid_format::index::encode(&keys, file, u64::MAX / 2, &[summary]).unwrap();
    let header = signed::sign(&keys, FileKind::Index, file, &[&content]).unwrap();
    let name = Name::new(&format!("written/{}/index/{file}", scene.laptop.id())).unwrap();
    scene.storage.put(&name, &[&header, &content]).unwrap();
    laptop(&scene).prune(&thorough()).unwrap();
    assert!(signers(&scene, "index").iter().all(|signer| *signer == 2));
    scene.folder.write("new", &new);
    scene.back_up();
    restores(&laptop(&scene), &scene.folder);
}

#[test]
fn what_never_was_a_snapshot_holds_up_no_prune() {
    let scene = Scene::new();
    scene.back_up();
    let (keys, id) = (scene.laptop.keys(), FileId::random());
    let header = signed::sign(&keys, FileKind::Snapshot, id, &[b"no snapshot"]).unwrap();
    let name = Name::new(&format!("written/{}/snapshots/{id}", scene.laptop.id())).unwrap();
    scene.storage.put(&name, &[&header, b"no snapshot"]).unwrap();
    laptop(&scene).prune(&thorough()).unwrap();
    assert_eq!(laptop(&scene).snapshots().unwrap().len(), 1);
    // One that was damaged by another is not given up.
    let mut image = scene.image();
    let good = image
        .keys()
        .find(|name| name.as_str().contains("/snapshots/"))
        .unwrap()
        .clone();
    image.get_mut(&good).unwrap()[200] ^= 1;
    let keeper = crate::writers::keeper(&image).writer("laptop").unwrap();
    assert!(keeper.prune(&thorough()).unwrap_err().is_damage());
}

#[test]
fn a_removed_writers_files_are_pruned_as_well() {
    let scene = Scene::new();
    scene.folder.write("large", &noise(5, 1_000_000));
    let first = scene.back_up();
    std::fs::remove_file(scene.folder.path().join("large")).unwrap();
    scene.back_up();
    scene.repository.remove_writer("laptop").unwrap();
    laptop(&scene).forget(&[first]).unwrap();
    prune(&scene);
    assert!(bytes_of_packs(&scene) < 400_000);
    restores(&laptop(&scene), &scene.folder);
}

#[test]
fn a_limit_of_what_is_moved_holds_for_a_writers_packs() {
    let scene = Scene::new();
    versions(&scene, || {
        scene.back_up();
    });
    let packs = scene.names(&scene.laptop, "packs");
    let nothing = PruneOptions::default().max_repack(Limit::Bytes(0));
    let summary = laptop(&scene).prune(&nothing).unwrap();
    assert_eq!((summary.encoded_anew, summary.written), (0, 0), "{summary:?}");
    assert_eq!(scene.names(&scene.laptop, "packs"), packs);
    restores(&laptop(&scene), &scene.folder);
    // An estimate changes nothing.
    let before = scene.image();
    let estimate = laptop(&scene).prune_estimate(&thorough()).unwrap();
    assert!(
        estimate.encoded_anew > 500_000 && scene.image() == before,
        "{estimate:?}"
    );
    let some = PruneOptions::default().max_repack(Limit::Bytes(600_000));
    let summary = laptop(&scene).prune(&some).unwrap();
    assert!(
        summary.encoded_anew > 0 && summary.encoded_anew < 1_500_000,
        "{summary:?}"
    );
    prune(&scene);
    assert!(signers(&scene, "packs").iter().all(|signer| *signer == 2));
}
