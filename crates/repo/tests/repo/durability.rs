//! An acknowledged backup stays, whatever happens later; an interrupted one does no harm. See
//! `docs/durability.md`.

use std::sync::Arc;

use ibid_repo::{Error, ReadData, Repository, RestoreOptions};
use ibid_storage::fault::{Call, DiskFault, FaultDisk};
use ibid_storage::{Local, Name, Storage};

use crate::support;
use crate::support::crash::{End, PLACE, Plan, Seen, restores};
use crate::support::{Contents, Folder, Random, contents, noise, options, quick, scratch};

/// Runs every crash point with several seeds, with the power lost or only the process killed.
fn every_crash_point(plan: &Plan, step: u64, seeds: std::ops::Range<u64>) -> (u64, Vec<Seen>) {
    let mut all = Vec::new();
    for at in (0..).step_by(step as usize) {
        let mut crashed = false;
        for seed in seeds.clone() {
            let end = if seed.is_multiple_of(3) { End::Kill } else { End::Power };
            let seen = plan.run(at, seed, end);
            crashed |= seen.crashed;
            all.push(seen);
        }
        if !crashed {
            return (at, all);
        }
    }
    unreachable!("a backup ends some time")
}

fn count(seen: &[Seen], what: impl Fn(&Seen) -> bool) -> usize {
    seen.iter().filter(|seen| what(seen)).count()
}

#[test]
fn a_crash_at_any_operation_of_a_first_backup_loses_nothing_that_was_acknowledged() {
    let plan = Plan::new(1, 1, 300_000);
    let (points, seen) = every_crash_point(&plan, 1, 0..4);
    // The crash points are spread as expected: before, during and after each step.
    assert!(points > 50, "{points}");
    assert!(count(&seen, |seen| seen.acknowledged == 1) > 0);
    assert!(
        count(&seen, |seen| seen.unlisted > 0) > 0,
        "packs without an index file"
    );
    assert!(count(&seen, |seen| seen.reused) > 0, "packs that were used again");
    assert!(
        count(&seen, |seen| seen.unacknowledged) > 0,
        "a snapshot durable before it was acknowledged"
    );
}

#[test]
fn a_crash_somewhere_in_a_row_of_backups_of_many_packs_loses_nothing_that_was_acknowledged() {
    let plan = Plan::new(2, 3, 3_000_000);
    let (points, seen) = every_crash_point(&plan, 7, 0..2);
    assert!(points > 100, "{points}");
    assert!(count(&seen, |seen| seen.acknowledged == 1) > 0);
    assert!(count(&seen, |seen| seen.acknowledged == 2) > 0);
    assert!(
        count(&seen, |seen| seen.unlisted > 1) > 0,
        "several packs without an index file"
    );
}

/// A repository with one snapshot on a disk, and a tree that has changed since.
struct Scene {
    folder: Folder,
    disk: FaultDisk,
    first: (String, Contents),
}

impl Scene {
    fn new(seed: u64) -> Scene {
        let folder = Folder::scratch();
        folder.write("a", &noise(seed, 200_000));
        folder.write("deep/b", b"some text");
        let disk = FaultDisk::new(seed);
        let place = Local::create_on(disk.clone(), PLACE).unwrap();
        let repository = Repository::init(Arc::new(place), Some(b"secret"), &quick()).unwrap();
        let summary = support::backup(&repository, folder.path());
        let first = (summary.id.unwrap().to_string(), contents(folder.path()));
        folder.write("c", &noise(seed + 1, 150_000));
        folder.write("deep/b", b"some other text");
        Scene { folder, disk, first }
    }

    fn open(&self) -> Result<Repository, Error> {
        Repository::open(Arc::new(Local::open_on(self.disk.clone(), PLACE)?), Some(b"secret"))
    }

    fn backup(&self) -> Result<String, Error> {
        let summary = self.open()?.backup(&options(self.folder.path()))?;
        Ok(summary.id.unwrap().to_string())
    }

    /// Checks, with all faults removed, that the repository is clean, has the first snapshot and
    /// the second if there was one, and that a backup succeeds.
    fn is_intact(&self, second: Option<&str>, context: &str) {
        self.disk.heal();
        let repository = self.open().unwrap_or_else(|error| panic!("{context}: {error}"));
        let report = repository.check(ReadData::All).unwrap();
        assert!(report.is_clean(), "{context}: {report:?}");
        restores(&repository, &self.first.0, self.folder.path(), &self.first.1, context);
        let now = contents(self.folder.path());
        if let Some(second) = second {
            restores(&repository, second, self.folder.path(), &now, context);
        }
        let third = self.backup().unwrap_or_else(|error| panic!("{context}: {error}"));
        repository.refresh();
        restores(&repository, &third, self.folder.path(), &now, context);
    }
}

/// Checks that a storage error names the object and its location, or at least the location.
fn names_object_and_place(error: &Error, context: &str) {
    let text = error.to_string();
    assert!(text.contains(PLACE), "{context}: {text}");
    if let Error::Storage(error) = error {
        let listing = matches!(
            error.operation(),
            ibid_storage::Operation::List | ibid_storage::Operation::Open
        );
        assert!(error.name().is_some() || listing, "{context}: {text}");
    }
}

#[test]
fn any_disk_operation_may_fail_once_and_the_error_says_where() {
    for fault in [
        DiskFault::Io,
        DiskFault::NoSpace,
        DiskFault::PermissionDenied,
        DiskFault::ReadOnly,
    ] {
        let mut failed = 0;
        for at in 0.. {
            let scene = Scene::new(at);
            scene.disk.fail_at(scene.disk.operations() + at, fault);
            let context = format!("{fault:?} at operation {at}");
            let before = scene.disk.operations();
            let second = scene.backup();
            let operations = scene.disk.operations() - before;
            if let Err(error) = &second {
                names_object_and_place(error, &context);
                failed += 1;
            }
            scene.is_intact(second.as_deref().ok(), &context);
            if operations <= at {
                assert!(at > 40, "a backup of only {at} operations");
                break;
            }
        }
        assert!(failed > 30, "{fault:?}: only {failed} failures");
    }
}

#[test]
fn a_disk_may_be_full_at_any_byte() {
    let mut failed = 0;
    for space in (0usize..).step_by(9_000) {
        let scene = Scene::new(space as u64);
        scene.disk.short_writes(space.is_multiple_of(2));
        scene.disk.space(Some(space));
        let context = format!("{space} bytes left");
        let second = scene.backup();
        match &second {
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("no space is left"), "{context}: {text}");
                names_object_and_place(error, &context);
                failed += 1;
            }
            Ok(_) => assert!(failed > 10),
        }
        scene.is_intact(second.as_deref().ok(), &context);
        if second.is_ok() {
            break;
        }
    }
}

#[test]
fn a_read_that_fails_gives_an_error_and_never_a_wrong_byte() {
    let scene = Scene::new(1);
    let mut failed = 0;
    for at in 0.. {
        scene.disk.heal();
        let before = scene.disk.operations();
        scene.disk.fail_at(before + at, DiskFault::Io);
        scene.disk.short_reads(at % 2 == 1);
        let out = scratch();
        let restore = || {
            let repository = scene.open()?;
            let snapshot = repository.snapshot(&scene.first.0)?;
            repository.restore(snapshot.at(scene.folder.path()), out.path(), &RestoreOptions::default())
        };
        let result = restore();
        let found = contents(out.path());
        for (path, node) in &found {
            assert_eq!(
                scene.first.1.get(path),
                Some(node),
                "{path:?} is wrong after a failure of read {at}"
            );
        }
        match result {
            Ok(summary) if summary.failed == 0 => assert_eq!(found, scene.first.1),
            Ok(_) => failed += 1,
            Err(error) => {
                names_object_and_place(&error, &format!("operation {at}"));
                failed += 1;
            }
        }
        if scene.disk.operations() - before <= at {
            break;
        }
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn a_disk_that_lies_about_syncs_leads_to_errors_and_never_to_wrong_bytes() {
    let mut outcomes = [0; 3];
    for seed in 0..60 {
        let scene = Scene::new(seed);
        scene.disk.drop_syncs(true);
        let second = scene.backup().unwrap();
        let after = Scene {
            disk: scene.disk.crash(seed),
            ..scene
        };
        let now = contents(after.folder.path());
        let repository = after.open().unwrap();
        let report = repository.check(ReadData::All).unwrap();
        // Everything stored while the disk was honest is there in any case.
        restores(
            &repository,
            &after.first.0,
            after.folder.path(),
            &after.first.1,
            "an honest time",
        );
        let Ok(snapshot) = repository.snapshot(&second) else {
            outcomes[0] += 1;
            continue;
        };
        let out = scratch();
        let result = repository.restore(snapshot.at(after.folder.path()), out.path(), &RestoreOptions::default());
        let found = contents(out.path());
        for (path, node) in &found {
            assert_eq!(now.get(path), Some(node), "{path:?}, seed {seed}");
        }
        if result.is_ok_and(|summary| summary.failed == 0) {
            assert_eq!(found, now);
            outcomes[1] += 1;
        } else {
            assert!(
                !report.is_clean(),
                "seed {seed}: a check has to notice what a restore notices"
            );
            outcomes[2] += 1;
        }
    }
    assert!(
        outcomes.iter().all(|&count| count > 0),
        "lost, whole, damaged: {outcomes:?}"
    );
}

#[test]
fn an_init_that_is_cut_short_leaves_no_repository_and_does_not_hinder_the_next() {
    let mut cut = 0;
    for at in 0.. {
        let disk = FaultDisk::new(at);
        disk.crash_at(at);
        let init = |disk: &FaultDisk| {
            let place = Local::create_on(disk.clone(), PLACE)?;
            Repository::init(Arc::new(place), Some(b"secret"), &quick())
        };
        let done = init(&disk).is_ok();
        for seed in 0..10 {
            let after = disk.crash(seed);
            let open = Local::open_on(after.clone(), PLACE)
                .map_err(Error::from)
                .and_then(|place| Repository::open(Arc::new(place), Some(b"secret")));
            match open {
                Ok(_) => {}
                Err(error) => {
                    assert!(!done, "crash at {at}: {error}");
                    init(&after).unwrap_or_else(|error| panic!("crash at {at}: {error}"));
                    cut += 1;
                }
            }
        }
        if done {
            break;
        }
    }
    assert!(cut > 50);
}

/// A process is killed between publishing a pack and syncing its directory; the next backup adopts
/// that pack and is acknowledged.
#[test]
fn an_adopted_pack_survives_a_loss_of_power_right_after_the_backup_that_adopted_it() {
    let mut adopted = 0;
    for seed in 0..40 {
        let scene = Scene::new(seed);
        let start = scene.disk.operations();
        scene.backup().unwrap();
        let calls = scene.disk.calls().split_off(start as usize);
        let renames: Vec<_> = (0..)
            .zip(&calls)
            .filter(|(_, call)| **call == Call::RenameNoreplace)
            .collect();
        // After the session, two renames publish packs (data and metadata).
        for (rename, _) in &renames[1..3] {
            let scene = Scene::new(seed);
            scene.disk.crash_at(scene.disk.operations() + rename + 1);
            scene.backup().unwrap_err();
            let scene = Scene {
                disk: scene.disk.restart(),
                ..scene
            };
            let report = scene.open().unwrap().check(ReadData::No).unwrap();
            adopted += report.unlisted_packs;
            let second = scene.backup().unwrap();
            let scene = Scene {
                disk: scene.disk.crash(seed),
                ..scene
            };
            scene.is_intact(Some(&second), &format!("seed {seed}, killed after operation {rename}"));
        }
    }
    assert!(adopted > 40, "{adopted}");
}

/// Packs before the index file and the snapshot, seen from outside: every visible snapshot is complete at every
/// moment.
#[test]
fn at_every_moment_all_that_a_visible_snapshot_needs_is_visible() {
    let scene = Scene::new(5);
    let before = scene.disk.operations();
    scene.backup().unwrap();
    let total = scene.disk.operations() - before;
    for at in 0..=total {
        let scene = Scene::new(5);
        scene.disk.crash_at(scene.disk.operations() + at);
        let _ = scene.backup();
        let scene = Scene {
            disk: scene.disk.restart(),
            ..scene
        };
        let (mut packs, mut index, mut snapshots) = (0, 0, 0);
        let place = Local::open_on(scene.disk.clone(), PLACE).unwrap();
        place
            .list("", &mut |name: Name, _| match name.as_str().split('/').next() {
                Some("packs") => packs += 1,
                Some("index") => index += 1,
                Some("snapshots") => snapshots += 1,
                _ => {}
            })
            .unwrap();
        assert!(index < 2 || packs == 4, "{at}: an index file before its packs");
        assert!(snapshots < 2 || packs == 4, "{at}: a snapshot before its packs");
        scene.is_intact(None, &format!("operation {at}"));
    }
}

/// With many packs and index files the promise is the same: a backup killed at random moments
/// resumes where the last one stopped.
#[test]
fn a_backup_that_is_killed_again_and_again_gets_done() {
    let folder = Folder::scratch();
    for n in 0..12 {
        folder.write(format!("f{n}"), &noise(n, 500_000));
    }
    let options_of = quick().pack_size(1 << 20).frame_size(128 << 10);
    let mut random = Random(9);
    let mut disk = FaultDisk::new(1);
    let place = Local::create_on(disk.clone(), PLACE).unwrap();
    Repository::init(Arc::new(place), Some(b"secret"), &options_of).unwrap();
    let mut left = Vec::new();
    for round in 0.. {
        assert!(round < 60, "it never ends: {left:?}");
        let place = Local::open_on(disk.clone(), PLACE).unwrap();
        let repository = Repository::open(Arc::new(place), Some(b"secret")).unwrap();
        let dry = options(folder.path()).dry_run(true);
        left.push(repository.backup(&dry).unwrap().counters.new_bytes);
        disk.crash_at(disk.operations() + 30 + 5 * round + random.below(40));
        let done = repository.backup(&options(folder.path())).is_ok();
        disk = if done { disk.restart() } else { disk.crash(round) };
        if done {
            break;
        }
    }
    assert!(left.len() > 2, "{left:?}");
    // Lost metadata may be stored again, and differ a little.
    assert!(left.windows(2).all(|pair| pair[1] <= pair[0] + (64 << 10)), "{left:?}");
    assert!(left.last().unwrap() < &(left[0] / 2), "{left:?}");
    let place = Local::open_on(disk, PLACE).unwrap();
    let repository = Repository::open(Arc::new(place), Some(b"secret")).unwrap();
    assert!(repository.check(ReadData::All).unwrap().is_clean());
    restores(
        &repository,
        "latest",
        folder.path(),
        &contents(folder.path()),
        "at last",
    );
}
