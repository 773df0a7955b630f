//! Copies of snapshots in another repository are as good as the originals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ibid_format::ChunkPrefix;
use ibid_format::frame::Blob;
use ibid_format::pack::PackKind;
use ibid_format::tree::Time;
use ibid_repo::{
    BackupOptions, BackupSummary, ChunkerSettings, Compression, CopyOptions, CopyOutcome, CopySummary, EntryKind,
    Error, FileId, InitOptions, Limit, Monitor, PruneOptions, ReadData, Repository, RestoreOptions, Similarity,
    SnapshotInfo, Warning,
};
use ibid_storage::fault::{Flaky, ObjectFault};
use ibid_storage::{ErrorKind, Memory, Name, Operation, Storage};

use crate::support;
use crate::support::damage::{self, image};
use crate::support::deltas::{Frame, Writer, rewrite};
use crate::support::{Folder, Random, backup, contents, noise, options, quick, same_tree, scratch};

fn new(options: &InitOptions) -> (Arc<Memory>, Repository) {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), options).unwrap();
    (storage, repository)
}

/// Returns options of another chunker, and of smaller frames and packs.
fn other() -> InitOptions {
    quick()
        .chunker(ChunkerSettings::for_average("fastcdc", 16 << 10).unwrap())
        .frame_size(64 << 10)
        .pack_size(1 << 20)
}

/// Returns options of a destination: like the source, or with other chunk ids.
fn made(is_alike: bool, source: &Repository) -> InitOptions {
    if is_alike { quick().like(source) } else { other() }
}

fn copy(from: &Repository, to: &Repository) -> CopySummary {
    from.copy_to(to, &from.snapshots().unwrap(), &CopyOptions::default())
        .unwrap()
}

/// Returns how many snapshots were copied.
fn copied(summary: &CopySummary) -> usize {
    let is_new = |one: &&ibid_repo::CopiedSnapshot| matches!(one.outcome, CopyOutcome::Copied(_));
    summary.snapshots.iter().filter(is_new).count()
}

fn size(storage: &Memory, folder: &str) -> u64 {
    let mut bytes = 0;
    storage.list(folder, &mut |_: Name, size| bytes += size).unwrap();
    bytes
}

fn restore(repository: &Repository, snapshot: &SnapshotInfo) -> tempfile::TempDir {
    let target = scratch();
    let to = target.path().join("restored");
    let summary = repository.restore(snapshot, &to, &RestoreOptions::default()).unwrap();
    assert_eq!(summary.failed, 0);
    target
}

/// Checks that every snapshot of the source has a copy that restores to the same, in the same order.
#[track_caller]
fn same(source: &Repository, destination: &Repository) {
    assert!(destination.check(ReadData::All).unwrap().is_clean());
    let (there, here) = (source.snapshots().unwrap(), destination.snapshots().unwrap());
    assert_eq!(there.len(), here.len());
    for (there, here) in there.iter().zip(&here) {
        assert_eq!(
            here.snapshot.original,
            Some(there.snapshot.original.unwrap_or(there.id))
        );
        let (a, b) = (restore(source, there), restore(destination, here));
        same_tree(&a.path().join("restored"), &b.path().join("restored"));
    }
}

#[test]
fn a_copy_restores_every_file_and_attribute_whatever_the_settings() {
    let folder = Folder::with_everything();
    // So that a later change would be seen in the times of files, and the next backup trusts them.
    std::thread::sleep(Duration::from_millis(100));
    for (from, to) in [(quick(), other()), (other(), quick())] {
        let (_, source) = new(&from);
        let (_, destination) = new(&to);
        backup(&source, folder.path());
        assert_eq!(copied(&copy(&source, &destination)), 1);
        same(&source, &destination);
        let there = source.snapshot("latest").unwrap().snapshot;
        let here = destination.snapshot("latest").unwrap().snapshot;
        assert_eq!(
            (
                there.time,
                &there.host,
                &there.user,
                &there.paths,
                &there.tags,
                &there.users,
                &there.groups
            ),
            (
                here.time,
                &here.host,
                &here.user,
                &here.paths,
                &here.tags,
                &here.users,
                &here.groups
            )
        );
        assert_eq!(
            (there.counters.files, there.counters.bytes),
            (here.counters.files, here.counters.bytes)
        );
        // The next backup there reads no file again.
        let next = backup(&destination, folder.path());
        let unchanged = next.unchanged_files;
        assert!(
            next.parent.is_some() && unchanged + 3 >= next.counters.files,
            "{next:?}"
        );
    }
}

#[test]
fn every_version_is_copied_and_what_versions_share_is_stored_once() {
    for seed in 0..3 {
        let (source_storage, source) = new(&other());
        let (storage, destination) = new(&other());
        let folder = Folder::scratch();
        for n in 0..6 {
            folder.evolve(&mut Random(seed * 100 + n), 1_000_000);
            backup(&source, folder.path());
        }
        let summary = copy(&source, &destination);
        assert_eq!(copied(&summary), 6);
        same(&source, &destination);
        let (there, here) = (size(&source_storage, "packs"), size(&storage, "packs"));
        assert!(here * 100 <= there * 115, "seed {seed}: {there} bytes became {here}");
        let before = size(&storage, "");
        assert_eq!(copied(&copy(&source, &destination)), 0);
        assert_eq!(size(&storage, ""), before, "nothing is written when all is there");
    }
}

#[test]
fn only_what_changed_since_the_last_copy_is_read() {
    let (_, source) = new(&quick());
    let (_, destination) = new(&quick());
    let folder = Folder::scratch();
    for n in 0..20 {
        folder.write(format!("file {n}"), &noise(n, 200_000));
    }
    backup(&source, folder.path());
    copy(&source, &destination);
    folder.write("file 7", &noise(100, 200_000));
    backup(&source, folder.path());
    let summary = copy(&source, &destination);
    assert!(matches!(summary.snapshots[0].outcome, CopyOutcome::IsThere(_)));
    let CopyOutcome::Copied(second) = &summary.snapshots[1].outcome else {
        panic!("{summary:?}")
    };
    assert_eq!((second.unchanged_files, second.read_bytes), (19, 200_000));
    same(&source, &destination);
}

#[test]
fn copies_keep_their_order_and_take_the_place_of_their_time() {
    let at = |seconds| Some(Time { seconds, nanos: 0 });
    let (_, source) = new(&quick());
    let (_, destination) = new(&quick());
    let folder = Folder::scratch();
    folder.write("a", b"a");
    let tagged = |repository: &Repository, time, tag: &str| {
        let options = options(folder.path()).time(at(time)).tags(vec![tag.to_owned()]);
        repository.backup(&options).unwrap();
    };
    for (time, tag) in [(1000, "one"), (3000, "three"), (5000, "five")] {
        tagged(&source, time, tag);
    }
    for (time, tag) in [(2000, "two"), (4000, "four")] {
        tagged(&destination, time, tag);
    }
    let tags = |repository: &Repository| {
        let all = repository.snapshots().unwrap();
        all.iter().map(|info| info.snapshot.tags[0].clone()).collect::<Vec<_>>()
    };
    // The last one first: the order does not depend on what was copied when.
    let all = source.snapshots().unwrap();
    for one in [&all[2], &all[0], &all[1]] {
        source
            .copy_to(&destination, std::slice::from_ref(one), &CopyOptions::default())
            .unwrap();
    }
    assert_eq!(tags(&destination), ["one", "two", "three", "four", "five"]);
    // A clock that was wrong: what was made later stays later.
    let (_, wrong) = new(&quick());
    tagged(&wrong, 4_000_000_000, "before");
    let after = options(folder.path()).tags(vec!["after".to_owned()]);
    wrong.backup(&after).unwrap();
    assert_eq!(tags(&wrong), ["before", "after"]);
    let (_, third) = new(&quick());
    copy(&wrong, &third);
    assert_eq!(tags(&third), ["before", "after"]);
}

#[test]
fn a_copy_of_a_copy_is_a_copy_of_the_first() {
    let (_, a) = new(&quick());
    let (_, b) = new(&other());
    let (_, c) = new(&quick());
    let folder = Folder::scratch();
    folder.write("a", &noise(1, 300_000));
    let first = backup(&a, folder.path()).id.unwrap();
    copy(&a, &b);
    copy(&b, &c);
    assert_eq!(c.snapshot("latest").unwrap().snapshot.original, Some(first));
    assert_eq!(copied(&copy(&a, &c)) + copied(&copy(&b, &a)) + copied(&copy(&c, &a)), 0);
    // Other tags make it no other snapshot.
    let info = a.snapshot("latest").unwrap();
    a.set_tags(&info, &["x".to_owned()], "a test").unwrap();
    assert_eq!(copied(&copy(&a, &b)), 0);
}

#[test]
fn a_dry_run_writes_nothing() {
    let (_, source) = new(&quick());
    let (storage, destination) = new(&quick());
    let folder = Folder::scratch();
    folder.write("a", b"a");
    backup(&source, folder.path());
    let before = size(&storage, "");
    let all = source.snapshots().unwrap();
    let summary = source
        .copy_to(&destination, &all, &CopyOptions::default().dry_run(true))
        .unwrap();
    assert!(matches!(summary.snapshots[0].outcome, CopyOutcome::WouldBeCopied));
    assert_eq!(size(&storage, ""), before);
}

#[test]
fn a_snapshot_with_damage_is_named_and_the_others_are_copied() {
    for is_alike in [false, true] {
        one_with_damage(is_alike);
    }
}

fn one_with_damage(is_alike: bool) {
    let (storage, source) = new(&other());
    let destination = Repository::init(Arc::new(Memory::new()), Some(b"secret"), &made(is_alike, &source)).unwrap();
    let folder = Folder::scratch();
    folder.write("a", &noise(1, 100_000));
    backup(&source, folder.path());
    let mut packs = Vec::new();
    storage.list("packs", &mut |name: Name, _| packs.push(name)).unwrap();
    std::fs::remove_file(folder.path().join("a")).unwrap();
    folder.write("b", &noise(2, 100_000));
    backup(&source, folder.path());
    for name in packs {
        storage.delete(&name).unwrap();
    }
    source.refresh();
    let summary = copy(&source, &destination);
    assert!(
        matches!(summary.snapshots[0].outcome, CopyOutcome::Failed(_)),
        "{summary:?}"
    );
    assert_eq!(copied(&summary), 1);
    let copies = destination.snapshots().unwrap();
    assert_eq!(copies.len(), 1, "there is no part of a snapshot");
    assert!(destination.check(ReadData::All).unwrap().is_clean());
    assert_eq!(destination.sessions(|_, _| {}).unwrap().len(), 0);
}

#[test]
fn an_interrupted_copy_goes_on_with_what_it_has_stored() {
    for is_alike in [false, true] {
        interrupted(is_alike);
    }
}

fn interrupted(is_alike: bool) {
    let (_, source) = new(&other());
    let storage = Arc::new(Flaky::new(Memory::new()));
    let destination = Repository::init(storage.clone(), Some(b"secret"), &made(is_alike, &source)).unwrap();
    let folder = Folder::scratch();
    for n in 0..40 {
        folder.write(format!("file {n}"), &noise(n, 300_000));
    }
    backup(&source, folder.path());
    storage.delay(Operation::Put, Duration::from_millis(50));
    let monitor = Arc::new(Monitor::default());
    let all = source.snapshots().unwrap();
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while size(storage.inner(), "packs") < 3_000_000 {
                std::thread::sleep(Duration::from_millis(1));
            }
            monitor.cancel();
        });
        source.copy_to(&destination.watched_by(&monitor), &all, &CopyOptions::default())
    });
    storage.heal();
    assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
    assert!(destination.snapshots().unwrap().is_empty());
    let summary = copy(&source, &destination);
    let CopyOutcome::Copied(copy) = &summary.snapshots[0].outcome else {
        panic!("{summary:?}")
    };
    assert!(copy.counters.new_bytes < 9_500_000, "{copy:?}");
    same(&source, &destination);
}

#[test]
fn a_copy_that_can_not_write_leaves_no_part_of_a_snapshot() {
    let (_, source) = new(&other());
    let folder = Folder::scratch();
    for n in 0..3 {
        folder.evolve(&mut Random(n), 1_000_000);
        backup(&source, folder.path());
    }
    let all = source.snapshots().unwrap();
    let mut failed = 0;
    for skip in 0..80 {
        let storage = Arc::new(Flaky::new(Memory::new()));
        let options = made(skip % 2 == 0, &source);
        let destination = Repository::init(storage.clone(), Some(b"secret"), &options).unwrap();
        storage.fail(
            Operation::Put,
            skip / 2,
            ObjectFault::Before(ErrorKind::PermissionDenied),
        );
        failed += u64::from(source.copy_to(&destination, &all, &CopyOptions::default()).is_err());
        storage.heal();
        let destination = Repository::open(storage, Some(b"secret")).unwrap();
        assert!(destination.check(ReadData::All).unwrap().is_clean());
        copy(&source, &destination);
        same(&source, &destination);
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn a_copy_whose_session_a_prune_has_ended_begins_again() {
    for is_alike in [false, true] {
        ended_by_a_prune(is_alike);
    }
}

fn ended_by_a_prune(is_alike: bool) {
    let (_, source) = new(&other());
    let (_, destination) = new(&made(is_alike, &source));
    let folder = Folder::scratch();
    for n in 0..10 {
        folder.write(format!("file {n}"), &noise(n, 300_000));
    }
    // What the copy meets in the destination is about to go.
    let gone = backup(&destination, folder.path()).id.unwrap();
    backup(&source, folder.path());
    destination.forget(&[gone]).unwrap();
    let begun_again = Arc::new(AtomicBool::new(false));
    let noted = begun_again.clone();
    let monitor = Arc::new(Monitor::new(move |warning| {
        noted.fetch_or(matches!(warning, Warning::BackupBeginsAgain), Ordering::Relaxed);
    }));
    let all = source.snapshots().unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut pruned: Vec<FileId> = Vec::new();
            while pruned.is_empty() && !ended.load(Ordering::Relaxed) {
                pruned = destination
                    .sessions(|_, _| {})
                    .unwrap()
                    .iter()
                    .map(|info| info.id)
                    .collect();
            }
            let options = PruneOptions::default().max_unused(Limit::Bytes(0)).give_up_on(pruned);
            destination.prune(&options).unwrap();
        });
        let summary = source
            .copy_to(&destination.watched_by(&monitor), &all, &CopyOptions::default())
            .unwrap();
        ended.store(true, Ordering::Relaxed);
        assert_eq!(copied(&summary), 1);
    });
    same(&source, &destination);
}

#[test]
fn chunks_longer_than_those_of_the_destination_are_copied_whole() {
    let large = quick().chunker(ChunkerSettings::for_average("argmin", 1 << 20).unwrap());
    let (_, source) = new(&large);
    let (_, destination) = new(&other());
    let (_, third) = new(&quick());
    let folder = Folder::scratch();
    folder.write("large", &noise(5, 12_000_000));
    folder.write("zeros", &vec![0; 9_000_000]);
    backup(&source, folder.path());
    copy(&source, &destination);
    same(&source, &destination);
    copy(&destination, &third);
    same(&destination, &third);
    let length = |repository: &Repository| {
        let info = repository.snapshot("latest").unwrap();
        let path = folder.path().join("large");
        let mut length = 0;
        repository
            .visit(info.at(&path), |_, entry| {
                if let EntryKind::File(content) = &entry.kind {
                    length = content.items.len();
                }
                Ok(ibid_repo::Visit::Skip)
            })
            .unwrap();
        length
    };
    assert_eq!(length(&source), length(&third), "boundaries stay");
    let next = BackupOptions::default().path(folder.path()).force(true);
    third.backup(&next).unwrap();
    assert!(contents(folder.path()).len() == 2 && third.check(ReadData::All).unwrap().is_clean());
}

/// Returns a repository like another one, on a storage that counts.
fn like(other: &Repository) -> (Arc<Flaky<Memory>>, Repository) {
    let storage = Arc::new(Flaky::new(Memory::new()));
    let options = quick().like(other);
    let repository = Repository::init(storage.clone(), Some(b"another"), &options).unwrap();
    (storage, repository)
}

/// Returns what a snapshot of a folder restores to.
fn restored(repository: &Repository, snapshot: &SnapshotInfo, folder: &Folder) -> support::Contents {
    let target = restore(repository, snapshot);
    let path = folder.path().strip_prefix("/").unwrap();
    contents(&target.path().join("restored").join(path))
}

#[test]
fn a_copy_to_a_repository_that_is_alike_reads_only_what_is_missing() {
    let storage = Arc::new(Flaky::new(Memory::new()));
    let source = Repository::init(storage.clone(), Some(b"secret"), &other()).unwrap();
    let (of_alike, alike) = like(&source);
    assert_eq!(alike.chunker(), source.chunker());
    assert_eq!(
        (alike.frame_size(), alike.pack_size()),
        (source.frame_size(), source.pack_size())
    );
    // The other repository has most of it, from backups of its own: of a large file, of small ones, and of one of
    // which a part differs.
    let folder = Folder::scratch();
    let mut large = noise(1, 12 << 20);
    folder.write("large", &large);
    folder.write("changed", &noise(2, 600_000));
    for number in 0..30 {
        folder.write(format!("small {number}"), &noise(100 + number, 20_000));
    }
    backup(&alike, folder.path());
    large[6 << 20] ^= 1;
    folder.write("large", &large);
    folder.write("changed", &[noise(2, 300_000), noise(3, 300_000)].concat());
    folder.write("new", &noise(4, 50_000));
    backup(&source, folder.path());

    let dry = CopyOptions::default().dry_run(true);
    let missing = source
        .copy_to(&alike, &source.snapshots().unwrap(), &dry)
        .unwrap()
        .missing
        .unwrap();
    assert!((350_000..600_000).contains(&missing.packed), "{missing:?}");
    let before = storage.counts().bytes_read;
    let summary = copy(&source, &alike);
    let read = storage.counts().bytes_read - before;
    assert!(read < 1_500_000, "{read} bytes were read, of 13 MB");
    let CopyOutcome::Copied(done) = &summary.snapshots[0].outcome else {
        panic!("{summary:?}")
    };
    assert_eq!(done.whole.chunks + done.deltas.chunks, missing.chunks, "{done:?}");
    assert!(done.counters.new_bytes < 600_000, "{done:?}");
    let copy = alike.snapshot(&done.id.unwrap().to_string()).unwrap();
    assert!(restored(&alike, &copy, &folder) == contents(folder.path()));
    assert!(alike.check(ReadData::All).unwrap().is_clean());
    // All of it is there, and nothing of a third one is that is not alike.
    let again = source
        .copy_to(&alike, &source.snapshots().unwrap(), &dry)
        .unwrap()
        .missing
        .unwrap();
    assert_eq!(again.chunks, 0);
    let (_, third) = new(&other());
    assert_eq!(
        source
            .copy_to(&third, &source.snapshots().unwrap(), &dry)
            .unwrap()
            .missing,
        None
    );
    // It opens again, and from its copy of the config.
    let name = |text| Name::new(text).unwrap();
    of_alike.delete(&name("config")).unwrap();
    assert!(Repository::repair_config(of_alike.clone(), Some(b"another")).unwrap());
    let opened = Repository::open(of_alike, Some(b"another")).unwrap();
    let missing = source
        .copy_to(&opened, &source.snapshots().unwrap(), &dry)
        .unwrap()
        .missing;
    assert_eq!(missing.map(|missing| missing.chunks), Some(0));
}

#[test]
fn what_is_missing_of_one_that_is_alike_is_stored_again_if_it_is_lost_there() {
    let (_, source) = new(&quick());
    let (storage, alike) = like(&source);
    let folder = Folder::scratch();
    folder.write("data", &noise(1, 3_000_000));
    backup(&source, folder.path());
    backup(&alike, folder.path());
    let mut packs = Vec::new();
    storage
        .list("packs", &mut |name, size| packs.push((size, name)))
        .unwrap();
    storage.delete(&packs.into_iter().max().unwrap().1).unwrap();
    let alike = Repository::open(storage, Some(b"another")).unwrap();
    let summary = copy(&source, &alike);
    assert_eq!(copied(&summary), 1);
    let copy = alike.snapshot("latest").unwrap();
    assert!(restored(&alike, &copy, &folder) == contents(folder.path()));
}

#[test]
fn repositories_that_are_alike_share_no_password_and_no_seal() {
    let (storage, source) = new(&quick());
    let (of_alike, alike) = like(&source);
    let folder = Folder::scratch();
    folder.write("data", &noise(1, 100_000));
    backup(&source, folder.path());
    backup(&alike, folder.path());
    assert_ne!(source.id(), alike.id());
    assert!(matches!(
        Repository::open(of_alike.clone(), Some(b"secret")),
        Err(Error::WrongPassword { .. })
    ));
    // Nothing of one opens in the other.
    for folder in ["packs", "index", "snapshots"] {
        let mut names = Vec::new();
        storage.list(folder, &mut |name, _| names.push(name)).unwrap();
        for name in names {
            of_alike.put(&name, &[&storage.get(&name, u64::MAX).unwrap()]).unwrap();
        }
    }
    let report = Repository::open(of_alike, Some(b"another"))
        .unwrap()
        .check(ReadData::All)
        .unwrap();
    let mut strange = 0;
    storage
        .list("", &mut |name, _| {
            strange += u64::from(report.faults.iter().any(|fault| fault.object == name.as_str()));
        })
        .unwrap();
    assert!(strange >= 4 && report.affected_total == 0, "{report:#?}");
    let open = Repository::init(Arc::new(Memory::new()), None, &quick().like(&source));
    assert!(matches!(open, Err(Error::KeyWouldBeOpen)));
    let (_, other) = new(&quick());
    let dry = CopyOptions::default().dry_run(true);
    assert_eq!(other.copy_to(&alike, &[], &dry).unwrap().missing, None);
}

/// Changes a few bytes in each 10 KB.
fn touch(bytes: &mut [u8], seed: u64) {
    let changes = noise(seed, bytes.len() / 10_000 * 8);
    for (part, change) in bytes.chunks_exact_mut(10_000).zip(changes.chunks(8)) {
        let at = usize::from(change[0]) * 30;
        part[at..at + 8].copy_from_slice(change);
    }
}

/// Backs up six versions of a file and a new file with each, which make deltas.
fn with_deltas(source: &Repository) -> Folder {
    let folder = Folder::scratch();
    let mut pages = noise(1, 1_500_000);
    for version in 0..6 {
        folder.write("pages", &pages);
        folder.write(format!("new {version}"), &noise(100 + version, 150_000));
        backup(source, folder.path());
        touch(&mut pages, 200 + version);
    }
    folder.write("pages", &pages);
    let stats = source.stats(&source.snapshots().unwrap()).unwrap();
    assert!(stats.frame_depths.len() > 2, "{stats:?}");
    folder
}

/// Returns all data frames of a repository: their chunks, depths and bases, and what each takes.
fn frames(storage: &Arc<Memory>) -> Vec<(Vec<Blob>, u8, Vec<ChunkPrefix>, u32)> {
    let writer = Writer::of(storage.clone());
    let mut packs = Vec::new();
    storage.list("packs", &mut |name, _| packs.push(name)).unwrap();
    let directories = packs.iter().map(|pack| writer.directory(pack));
    let data = directories.filter(|pack| pack.kind == PackKind::Data);
    let mut frames: Vec<_> = data
        .flat_map(|pack| pack.frames)
        .map(|frame| (frame.blobs, frame.depth, frame.bases, frame.sealed))
        .collect();
    frames.sort_by_key(|(blobs, ..)| blobs[0].id);
    frames
}

/// Returns the summaries of what was copied.
fn summaries(summary: &CopySummary) -> Vec<&BackupSummary> {
    let outcomes = summary.snapshots.iter().map(|one| match &one.outcome {
        CopyOutcome::Copied(summary) => summary.as_ref(),
        other => panic!("{other:?}"),
    });
    outcomes.collect()
}

/// Checks that a repository has no chunk that its snapshots do not need.
#[track_caller]
fn has_nothing_else(repository: &Repository) {
    let stats = repository.stats(&repository.snapshots().unwrap()).unwrap();
    assert_eq!(stats.index_chunks, stats.chunks + stats.metadata_chunks, "{stats:?}");
}

#[test]
fn frames_move_as_they_are_to_a_repository_that_is_alike() {
    let (there, source) = new(&other());
    let (here, alike) = new(&quick().like(&source));
    let folder = with_deltas(&source);
    let all = source.snapshots().unwrap();
    let dry = source
        .copy_to(&alike, &all, &CopyOptions::default().dry_run(true))
        .unwrap();
    let missing = dry.missing.unwrap();
    let monitor = Arc::new(Monitor::default());
    let options = CopyOptions::default();
    let summary = source.copy_to(&alike.watched_by(&monitor), &all, &options).unwrap();
    same(&source, &alike);
    assert!(frames(&here) == frames(&there), "the same chunks, bases and lengths");
    let mut moved = (0, 0, 0);
    for one in summaries(&summary) {
        assert_eq!(one.moved.chunks, one.whole.chunks + one.deltas.chunks, "{one:?}");
        assert_eq!(one.moved.bytes, one.whole.bytes + one.deltas.bytes, "{one:?}");
        assert_eq!(one.moved.stored, one.whole.stored + one.deltas.stored, "{one:?}");
        moved.0 += one.moved_frames;
        moved.1 += one.moved.stored;
        moved.2 += one.moved.chunks;
    }
    let told = (missing.moved_frames, missing.moved, missing.chunks);
    assert_eq!((told, missing.moved), (moved, missing.packed), "a dry run says so");
    let counters = &monitor.counters;
    let counted = [&counters.bytes, &counters.bytes_total].map(|counter| counter.load(Ordering::Relaxed));
    assert_eq!(counted[0], counted[1]);
    // What resembles them is found as in the source, by sketches that came along.
    let stats = |repository: &Repository| repository.stats(&repository.snapshots().unwrap()).unwrap();
    assert!(stats(&alike).sketch_bytes * 10 >= stats(&source).sketch_bytes * 9);
    let next = [&source, &alike].map(|repository| backup(repository, folder.path()));
    assert!(next[0].deltas.chunks > 10, "{:?}", next[0]);
    assert_eq!(next[0].deltas, next[1].deltas);
    // They move back as well.
    assert_eq!(copied(&copy(&alike, &source)), 1);
    assert!(source.check(ReadData::All).unwrap().is_clean());
}

#[test]
fn what_is_needed_or_missing_in_part_moves_without_the_rest() {
    let (_, source) = new(&other());
    let folder = Folder::scratch();
    for number in 0..60 {
        folder.write(format!("small {number}"), &noise(number, 20_000));
    }
    let first = backup(&source, folder.path()).id.unwrap();
    // Of each frame, a part is not needed any more.
    for number in (0..40).step_by(2) {
        std::fs::remove_file(folder.path().join(format!("small {number}"))).unwrap();
    }
    backup(&source, folder.path());
    source.forget(&[first]).unwrap();
    let (_, alike) = new(&quick().like(&source));
    let summary = copy(&source, &alike);
    let one = summaries(&summary)[0];
    assert!(one.moved_frames > 0 && one.moved.chunks < one.whole.chunks, "{one:?}");
    same(&source, &alike);
    has_nothing_else(&alike);
    // And of each frame a part is there.
    let (_, alike) = new(&quick().like(&source));
    let part = Folder::scratch();
    for number in (41..60).step_by(2) {
        part.write(format!("small {number}"), &noise(number, 20_000));
    }
    backup(&alike, part.path());
    let missing = source.snapshots().unwrap();
    let summary = source.copy_to(&alike, &missing, &CopyOptions::default()).unwrap();
    let one = summaries(&summary)[0];
    assert!(one.moved_frames <= 1 && one.counters.new_bytes > 500_000, "{one:?}");
    has_nothing_else(&alike);
}

#[test]
fn deltas_whose_bases_stay_behind_are_encoded_anew() {
    let (_, source) = new(&other());
    let (_, alike) = new(&quick().like(&source));
    with_deltas(&source);
    let all = source.snapshots().unwrap();
    for number in [5, 2, 3] {
        let one = source
            .copy_to(&alike, &all[number..=number], &CopyOptions::default())
            .unwrap();
        let one = summaries(&one)[0];
        assert!(one.moved.chunks < one.whole.chunks + one.deltas.chunks, "{one:?}");
        assert!(alike.check(ReadData::All).unwrap().is_clean());
        has_nothing_else(&alike);
    }
    copy(&source, &alike);
    same(&source, &alike);
}

#[test]
fn frames_beyond_the_limits_of_the_destination_do_not_move() {
    let (_, source) = new(&quick());
    let folder = Folder::scratch();
    for number in 0..30 {
        folder.write(format!("small {number}"), &noise(number, 100_000));
    }
    backup(&source, folder.path());
    let (here, smaller) = new(&quick().like(&source).frame_size(64 << 10).pack_size(1 << 20));
    let summary = copy(&source, &smaller);
    let one = summaries(&summary)[0];
    assert_eq!(one.moved_frames, 0, "{one:?}");
    same(&source, &smaller);
    let length = |blobs: &[Blob]| blobs.iter().map(|blob| blob.length).sum::<u32>();
    assert!(frames(&here).iter().all(|(blobs, ..)| length(blobs) < 200_000));
    // Those of the smaller one fit everywhere.
    let (_, third) = new(&quick().like(&source));
    let summary = copy(&smaller, &third);
    let one = summaries(&summary)[0];
    assert_eq!(one.moved.chunks, one.whole.chunks, "{one:?}");
    same(&smaller, &third);
}

#[test]
fn what_another_compression_is_asked_for_is_encoded_anew() {
    let (_, source) = new(&other());
    with_deltas(&source);
    let all = source.snapshots().unwrap();
    let ways = [
        CopyOptions::default().compression(Compression::Level(1)),
        CopyOptions::default().similarity(Similarity::Off),
    ];
    for options in ways {
        let (_, alike) = new(&quick().like(&source));
        let dry = source.copy_to(&alike, &all, &options.clone().dry_run(true)).unwrap();
        assert_eq!(dry.missing.unwrap().moved_frames, 0);
        let summary = source.copy_to(&alike, &all, &options).unwrap();
        let all_anew = |one: &&BackupSummary| one.moved_frames == 0;
        assert!(summaries(&summary).iter().all(all_anew));
        same(&source, &alike);
    }
}

#[test]
fn bytes_that_are_not_what_their_ids_say_do_not_come_along() {
    let folder = Folder::scratch();
    folder.write("data", &noise(1, 600_000));
    let (storage, source) = new(&other());
    backup(&source, folder.path());
    let intact = image(storage.as_ref());
    // A chunk that lies, in a frame of its own kind or as a base of another.
    for as_base in [false, true] {
        let lying = rewrite(&intact, |chunks| {
            let mut bytes = chunks.clone();
            bytes[0][77] ^= 1;
            let mut first = Frame::whole(&chunks[..2]);
            first.lie = Some(bytes[..2].to_vec());
            let rest = match as_base {
                false => Frame::whole(&chunks[2..]),
                true => Frame::delta(&chunks[2..], 1, &[&chunks[0], &chunks[1]]),
            };
            vec![vec![first, rest]]
        });
        let source = Repository::open(damage::storage(&lying), Some(b"secret")).unwrap();
        let (_, alike) = new(&quick().like(&source));
        let summary = copy(&source, &alike);
        let outcome = &summary.snapshots[0].outcome;
        assert!(
            matches!(outcome, CopyOutcome::Failed(error) if error.is_damage()),
            "{outcome:?}"
        );
        assert!(alike.check(ReadData::All).unwrap().is_clean());
        // A later backup does not take what lies for its own data.
        backup(&alike, folder.path());
        let latest = alike.snapshot("latest").unwrap();
        assert!(restored(&alike, &latest, &folder) == contents(folder.path()));
        assert!(alike.check(ReadData::All).unwrap().is_clean());
    }
}

#[test]
fn a_prune_of_the_source_beside_a_copy_takes_nothing_away_from_it() {
    for seed in 0..4 {
        let (_, source) = new(&other());
        let storage = Arc::new(Flaky::new(Memory::new()));
        let alike = Repository::init(storage.clone(), Some(b"secret"), &quick().like(&source)).unwrap();
        let folder = Folder::scratch();
        for n in 0..6 {
            folder.evolve(&mut Random(seed * 100 + n), 1_000_000);
            backup(&source, folder.path());
        }
        let all = source.snapshots().unwrap();
        source.forget(&[all[0].id, all[2].id]).unwrap();
        let left = source.snapshots().unwrap();
        storage.delay(Operation::Put, Duration::from_millis(5));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while size(storage.inner(), "packs") == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let options = PruneOptions::default().max_unused(Limit::Bytes(0));
                source.watched_by(&Arc::default()).prune(&options).unwrap();
            });
            let summary = source.copy_to(&alike, &left, &CopyOptions::default()).unwrap();
            assert_eq!(copied(&summary), 4, "{summary:?}");
        });
        same(&source, &alike);
    }
}

#[test]
fn what_a_repository_has_lost_comes_back_from_one_that_is_alike() {
    let (_, source) = new(&other());
    let (here, alike) = new(&quick().like(&source));
    with_deltas(&source);
    copy(&source, &alike);
    let copies: Vec<FileId> = alike.snapshots().unwrap().iter().map(|info| info.id).collect();
    alike.forget(&copies).unwrap();
    let whole = image(here.as_ref());
    let packs: Vec<&Name> = whole.keys().filter(|name| damage::kind(name) == "packs").collect();
    assert!(packs.len() > 6);
    for lost in packs {
        let mut less = whole.clone();
        less.remove(lost);
        let alike = Repository::open(damage::storage(&less), Some(b"secret")).unwrap();
        assert_eq!(copied(&copy(&source, &alike)), 6);
        let report = alike.check(ReadData::All).unwrap();
        assert_eq!(report.affected_total, 0, "without {lost}: {report:#?}");
        let (there, here) = (source.snapshots().unwrap(), alike.snapshots().unwrap());
        for (there, here) in there.iter().zip(&here) {
            let (a, b) = (restore(&source, there), restore(&alike, here));
            same_tree(&a.path().join("restored"), &b.path().join("restored"));
        }
    }
}

#[test]
fn a_snapshot_that_is_forgotten_meanwhile_is_no_damaged_one() {
    let (storage, source) = new(&other());
    let folder = Folder::scratch();
    folder.write("file", &noise(1, 300_000));
    let first = backup(&source, folder.path()).id.unwrap();
    folder.write("file", &noise(2, 300_000));
    backup(&source, folder.path());
    let warnings = Arc::new(AtomicBool::new(false));
    let warned = warnings.clone();
    let monitor = Arc::new(Monitor::new(move |_| warned.store(true, Ordering::Relaxed)));
    let reader = Repository::open(storage, Some(b"secret")).unwrap().watched_by(&monitor);
    let chosen = reader.snapshots().unwrap();
    // Now it knows where everything is.
    restore(&reader, &chosen[1]);
    source.forget(&[first]).unwrap();
    let everything = PruneOptions::default().max_unused(Limit::Bytes(0));
    assert!(source.prune(&everything).unwrap().packs_deleted > 0);

    let (_, destination) = new(&other());
    let destination = destination.watched_by(&monitor);
    let summary = reader.copy_to(&destination, &chosen, &CopyOptions::default()).unwrap();
    assert!(
        matches!(summary.snapshots[0].outcome, CopyOutcome::Forgotten),
        "{summary:?}"
    );
    assert_eq!(copied(&summary), 1);
    assert!(!warnings.load(Ordering::Relaxed));
    assert!(destination.check(ReadData::All).unwrap().is_clean());
}
