//! Several backups at once into one repository need no locks. See `docs/durability.md`.

mod support;

use ibid_repo::{Monitor, ReadData, Repository};
use ibid_storage::fault::FaultDisk;
use ibid_storage::{Local, Storage};
use std::sync::Arc;
use support::crash::{PLACE, restores};
use support::{Contents, Folder, Random, contents, noise, options, quick};

/// Four trees that share half of what is in them.
fn trees(bytes: usize) -> Vec<(Folder, Contents)> {
    let tree = |n: u64| {
        let folder = Folder::scratch();
        for file in 0..4 {
            folder.write(format!("shared/{file}"), &noise(file, bytes / 8));
            folder.write(format!("own/{file}"), &noise(100 * (n + 1) + file, bytes / 8));
        }
        let contents = contents(folder.path());
        (folder, contents)
    };
    (0..4).map(tree).collect()
}

fn init(storage: Arc<dyn Storage>) {
    let options = ibid_repo::InitOptions {
        frame_size: 64 << 10,
        pack_size: 1 << 20,
        ..quick()
    };
    Repository::init(storage, Some(b"secret"), &options, 0).unwrap();
}

/// Backs all trees up at once, each through a handle of its own; which snapshots were acknowledged, and of which tree.
fn back_up_all(trees: &[(Folder, Contents)], open: impl Fn() -> Option<Repository> + Sync) -> Vec<(String, usize)> {
    let start = std::sync::Barrier::new(trees.len());
    std::thread::scope(|scope| {
        let backups: Vec<_> = (0..trees.len())
            .map(|n| {
                let (open, start) = (&open, &start);
                scope.spawn(move || {
                    let repository = open();
                    start.wait();
                    let summary = repository?
                        .backup(options(trees[n].0.path()), &Monitor::silent())
                        .ok()?;
                    Some((summary.id.unwrap().to_string(), n))
                })
            })
            .collect();
        backups
            .into_iter()
            .filter_map(|backup| backup.join().unwrap())
            .collect()
    })
}

fn all_are_intact(repository: &Repository, done: &[(String, usize)], trees: &[(Folder, Contents)], context: &str) {
    let report = repository.check(ReadData::All, &Monitor::silent()).unwrap();
    assert!(report.is_clean(), "{context}: {report:?}");
    for (id, n) in done {
        restores(repository, id, trees[*n].0.path(), &trees[*n].1, context);
    }
    // Those that were not acknowledged are there whole or not at all: the check has read them too.
    assert!(report.snapshots >= done.len() as u64);
}

#[test]
fn four_backups_at_once_into_a_folder_all_succeed() {
    let trees = trees(4_000_000);
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("repository");
    init(Arc::new(Local::create(&path).unwrap()));
    let open = || Repository::open(Arc::new(Local::open(&path).unwrap()), Some(b"secret")).ok();
    for round in 0..3 {
        let done = back_up_all(&trees, open);
        assert_eq!(done.len(), 4, "round {round}");
        all_are_intact(&open().unwrap(), &done, &trees, &format!("round {round}"));
    }
}

#[test]
fn a_check_beside_backups_raises_no_alarm() {
    let trees = trees(1_000_000);
    let memory = Arc::new(ibid_storage::Memory::new());
    init(memory.clone());
    let open = || Repository::open(memory.clone(), Some(b"secret")).ok();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let checks = scope.spawn(|| {
            let repository = open().unwrap();
            let mut checks = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let report = repository.check(ReadData::No, &Monitor::silent()).unwrap();
                assert!(report.is_clean(), "{report:?}");
                checks += 1;
            }
            checks
        });
        for _ in 0..6 {
            assert_eq!(back_up_all(&trees, open).len(), 4);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(checks.join().unwrap() > 2);
    });
}

#[test]
fn four_backups_at_once_that_lose_power_together_lose_nothing_that_was_acknowledged() {
    let trees = trees(300_000);
    let mut random = Random(4);
    let mut outcomes = [0; 5];
    for seed in 0..60 {
        let disk = FaultDisk::new(seed);
        init(Arc::new(Local::create_on(disk.clone(), PLACE).unwrap()));
        disk.crash_at(disk.operations() + random.below(260));
        let handle = |disk: &FaultDisk| {
            let place = Local::open_on(disk.clone(), PLACE).ok()?;
            Repository::open(Arc::new(place), Some(b"secret")).ok()
        };
        let mut done = back_up_all(&trees, || handle(&disk));
        outcomes[done.len()] += 1;
        let context = format!("seed {seed}");
        let disk = if seed % 3 == 0 {
            disk.restart()
        } else {
            disk.crash(seed)
        };
        all_are_intact(&handle(&disk).unwrap(), &done, &trees, &context);
        // All four go on where they were stopped, adopt each other's packs, and lose power once more when they are done.
        let again = back_up_all(&trees, || handle(&disk));
        assert_eq!(again.len(), 4, "{context}");
        done.extend(again);
        let disk = disk.crash(seed + 1000);
        all_are_intact(&handle(&disk).unwrap(), &done, &trees, &context);
    }
    assert!(outcomes[0] > 0 && outcomes[4] > 0, "{outcomes:?}");
    assert!(
        outcomes[1..4].iter().sum::<u32>() > 3,
        "some done, some not: {outcomes:?}"
    );
}
