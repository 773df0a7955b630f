//! Chunks that resemble stored ones are stored as deltas, and read back unchanged.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use ibid_chunk::Settings;
use ibid_repo::{
    BackupSummary, Compression, MemoryStorage, Monitor, ReadData, Repository, RestoreOptions, Similarity, Storage,
    StorageError, Warning,
};
use ibid_storage::{ErrorKind, Name, Operation};

use crate::support;
use crate::support::hooked::{Hooked, Hooks};
use crate::support::reads::Reads;
use crate::support::{noise, options, repository};

/// Returns a version of a file: noise in which some bytes of every 32 KiB differ.
fn version(number: u64, length: usize) -> Vec<u8> {
    let mut bytes = noise(1, length);
    for (at, other) in (0..length - 64).step_by(32 << 10).zip(0..) {
        for generation in 1..=number {
            let place = at + (generation as usize * 977) % (20 << 10);
            let edit = noise(generation * 10_000 + other, 16);
            bytes[place..place + edit.len()].copy_from_slice(&edit);
        }
    }
    bytes
}

fn back_up(repository: &Repository, path: &Path, similarity: Similarity) -> BackupSummary {
    let options = options(path).similarity(similarity);
    repository.backup(&options).unwrap()
}

/// Restores a snapshot and compares the only file in it.
fn assert_restores(repository: &Repository, summary: &BackupSummary, source: &Path, expected: &[u8]) {
    let snapshot = repository.snapshot(&summary.id.unwrap().to_string()).unwrap();
    let out = support::scratch();
    let restored = repository
        .restore(snapshot.at("/"), out.path(), &RestoreOptions::default())
        .unwrap();
    assert_eq!(restored.failed, 0);
    let file = out.path().join(source.strip_prefix("/").unwrap());
    assert!(
        std::fs::read(file).unwrap() == expected,
        "other bytes than were backed up"
    );
}

const LENGTH: usize = 3 << 20;

#[test]
fn ten_versions_take_little_more_than_one_and_all_come_back() {
    let repository = repository();
    let folder = support::scratch();
    let file = folder.path().join("dump");
    let mut made = Vec::new();
    for number in 0..10 {
        std::fs::write(&file, version(number, LENGTH)).unwrap();
        let summary = back_up(&repository, &file, Similarity::Auto);
        if number > 0 {
            assert!(
                summary.deltas.bytes > LENGTH as u64 * 9 / 10,
                "version {number}: {summary:?}"
            );
            assert!(
                summary.deltas.stored < summary.deltas.bytes / 20,
                "version {number}: {summary:?}"
            );
        }
        made.push(summary);
    }
    for (summary, number) in made.iter().zip(0..) {
        assert_restores(&repository, summary, &file, &version(number, LENGTH));
    }
    let report = repository.check(ReadData::All).unwrap();
    assert!(report.is_clean(), "{:?}", report.faults);
}

#[test]
fn the_fortieth_version_of_a_dump_is_as_small_as_the_tenth() {
    let repository = repository();
    let folder = support::scratch();
    let file = folder.path().join("dump");
    let record = |number: usize, version: usize| noise((version * 10_000 + number) as u64 + 1, 192);
    let mut records: Vec<Vec<u8>> = (0..8192).map(|number| record(number, 0)).collect();
    let mut stored = Vec::new();
    for day in 0..40 {
        // One record in a hundred is another one.
        for change in 0..records.len() / 100 {
            let number = (day * 5003 + change * 101) % records.len();
            records[number] = record(number, day + 1);
        }
        std::fs::write(&file, records.concat()).unwrap();
        let summary = repository
            .backup(&options(&file).similarity(Similarity::Auto).threads(Some(1)))
            .unwrap();
        stored.push(summary.counters.stored_bytes);
    }
    let of = |days: std::ops::Range<usize>| stored[days].iter().sum::<u64>();
    assert!(of(30..40) < 3 * of(5..15), "{stored:?}");
    assert!(of(30..40) < 10 * stored[0] / 8, "{stored:?}");
}

#[test]
fn versions_that_are_backed_up_at_once_are_found_too() {
    let repository = repository();
    let folder = support::scratch();
    for number in 0..4 {
        std::fs::write(folder.path().join(format!("dump{number}")), version(number, LENGTH)).unwrap();
    }
    let summary = back_up(&repository, folder.path(), Similarity::Auto);
    assert!(summary.deltas.bytes > LENGTH as u64 * 5 / 2, "{summary:?}");
    assert!(summary.counters.stored_bytes < LENGTH as u64 * 3 / 2, "{summary:?}");
    for number in 0..4 {
        let snapshot = repository.snapshot("latest").unwrap();
        let path = folder.path().join(format!("dump{number}"));
        let mut out = Vec::new();
        repository.dump(snapshot.at(&path), &mut out).unwrap();
        assert!(out == version(number, LENGTH), "version {number}");
    }
}

#[test]
fn nothing_is_looked_for_if_it_is_not_wanted() {
    let repository = repository();
    let folder = support::scratch();
    let file = folder.path().join("dump");
    for number in 0..2 {
        std::fs::write(&file, version(number, LENGTH)).unwrap();
        let off = back_up(&repository, &file, Similarity::Off);
        assert_eq!(off.deltas.chunks, 0);
    }
    std::fs::write(&file, version(2, LENGTH)).unwrap();
    let options = options(&file).compression(Compression::Off);
    let stored = repository.backup(&options).unwrap();
    assert_eq!(stored.deltas.chunks, 0, "without compression, nothing is encoded");
}

/// Returns storage whose objects can be changed, with a repository in it.
fn changeable() -> (Arc<ibid_storage::Memory>, Repository) {
    let storage = Arc::new(ibid_storage::Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &support::quick()).unwrap();
    (storage, repository)
}

/// Returns the objects of a folder.
fn names(storage: &ibid_storage::Memory, folder: &str) -> Vec<ibid_storage::Name> {
    let mut names = Vec::new();
    ibid_storage::Storage::list(storage, folder, &mut |name, _| names.push(name)).unwrap();
    names
}

/// Flips a bit in the middle of every object of a folder.
fn damage(storage: &ibid_storage::Memory, folder: &str) {
    use ibid_storage::Storage;
    let names = names(storage, folder);
    assert!(!names.is_empty());
    for name in names {
        let mut bytes = storage.get(&name, 1 << 30).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        storage.delete(&name).unwrap();
        storage.put(&name, &[&bytes]).unwrap();
    }
}

fn hearing() -> (Arc<Mutex<Vec<Warning>>>, Arc<Monitor>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let monitor = Arc::new(Monitor::new({
        let heard = heard.clone();
        move |warning| heard.lock().unwrap().push(warning)
    }));
    (heard, monitor)
}

#[test]
fn damaged_sketches_are_reported_and_made_again() {
    let (storage, repository) = changeable();
    let folder = support::scratch();
    let file = folder.path().join("dump");
    for number in 0..2 {
        std::fs::write(&file, version(number, LENGTH)).unwrap();
        back_up(&repository, &file, Similarity::Auto);
    }
    let files = names(&storage, "sketches").len();
    damage(&storage, "sketches");
    std::fs::write(&file, version(2, LENGTH)).unwrap();
    let (heard, monitor) = hearing();
    let summary = repository.watched_by(&monitor).backup(&options(&file)).unwrap();
    assert!(summary.deltas.bytes > LENGTH as u64 * 9 / 10, "{summary:?}");
    let heard = std::mem::take(&mut *heard.lock().unwrap());
    let damaged = heard.iter().filter(|heard| matches!(heard, Warning::Repository { .. }));
    let replaced = heard.iter().filter(|heard| matches!(heard, Warning::Replaced { .. }));
    assert_eq!(
        (damaged.count(), replaced.count(), heard.len()),
        (files, files, 2 * files),
        "of each it is said once: {heard:?}"
    );
    assert_restores(&repository, &summary, &file, &version(2, LENGTH));
    let report = repository.check(ReadData::All).unwrap();
    assert!(report.is_clean(), "{:?}", report.faults);
}

#[test]
fn a_first_backup_leaves_it_to_the_next_to_write_down_what_its_chunks_are_like_unless_that_would_fetch_them() {
    for is_remote in [false, true] {
        let (storage, _) = changeable();
        let placed = Arc::new(Reads::of(storage.clone(), is_remote));
        let repository = Repository::open(placed, Some(b"secret")).unwrap();
        let folder = support::scratch();
        let file = folder.path().join("dump");
        std::fs::write(&file, version(0, LENGTH)).unwrap();
        back_up(&repository, &file, Similarity::Auto);
        let of_first = names(&storage, "sketches").len();
        assert_eq!(of_first, usize::from(is_remote));
        std::fs::write(&file, version(1, LENGTH)).unwrap();
        let second = back_up(&repository, &file, Similarity::Auto);
        assert!(second.deltas.bytes > LENGTH as u64 * 9 / 10, "{second:?}");
        assert_eq!(names(&storage, "sketches").len(), of_first + 1, "of both");
    }
}

#[test]
fn a_second_backup_that_resembles_nothing_fetches_next_to_nothing() {
    let (storage, _) = changeable();
    let reads = Arc::new(Reads::of(storage, true));
    let repository = Repository::open(reads.clone(), Some(b"secret")).unwrap();
    let folder = support::scratch();
    let file = folder.path().join("dump");
    std::fs::write(&file, version(0, LENGTH)).unwrap();
    back_up(&repository, &file, Similarity::Auto);
    std::fs::write(&file, noise(99, LENGTH)).unwrap();
    reads.take();
    back_up(&repository, &file, Similarity::Auto);
    let fetched: u64 = reads.take().iter().map(|(_, range)| range.end - range.start).sum();
    assert!(fetched < LENGTH as u64 / 20, "{fetched}");
}

#[test]
fn a_large_first_backup_writes_down_itself_what_its_chunks_are_like() {
    let storage = Arc::new(ibid_storage::Memory::new());
    let init = support::quick().chunker(Settings::for_average("gear", 512).unwrap());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &init).unwrap();
    let folder = support::scratch();
    let file = folder.path().join("dump");
    std::fs::write(&file, noise(6, 50 << 20)).unwrap();
    let summary = back_up(&repository, &file, Similarity::Auto);
    assert!(summary.whole.chunks > 64 << 10, "{summary:?}");
    assert_eq!(names(&storage, "sketches").len(), 1);
}

#[test]
fn chunks_stored_without_sketches_are_sketched_once_by_a_later_backup() {
    let (storage, repository) = changeable();
    let folder = support::scratch();
    let file = folder.path().join("dump");
    // Most of the data is noise: a sample of it is searched, and the rest is skipped for good. The
    // versions compress, but only a little.
    let version = |number| {
        let compressible = version(number, LENGTH)
            .chunks(1000)
            .map(|noise| [noise, &[0; 100]].concat())
            .collect::<Vec<_>>()
            .concat();
        [compressible, noise(5, 40 << 20)].concat()
    };
    std::fs::write(&file, version(0)).unwrap();
    back_up(&repository, &file, Similarity::Off);
    std::fs::write(&file, version(1)).unwrap();
    let summary = back_up(&repository, &file, Similarity::Auto);
    assert!(summary.deltas.bytes > LENGTH as u64 * 9 / 10, "{summary:?}");
    assert_restores(&repository, &summary, &file, &version(1));
    assert_eq!(names(&storage, "sketches").len(), 1);
    back_up(&repository, &file, Similarity::Auto);
    assert_eq!(names(&storage, "sketches").len(), 1, "nothing more to look into");
}

#[test]
fn an_unreadable_chunk_is_no_base() {
    let (storage, repository) = changeable();
    let folder = support::scratch();
    let file = folder.path().join("dump");
    std::fs::write(&file, version(0, LENGTH)).unwrap();
    back_up(&repository, &file, Similarity::Auto);
    damage(&storage, "packs");
    std::fs::write(&file, version(1, LENGTH)).unwrap();
    let (heard, monitor) = hearing();
    let options = options(&file).force(true);
    let summary = repository.watched_by(&monitor).backup(&options).unwrap();
    assert_eq!(summary.damaged_frames, 1);
    assert_eq!(
        heard.lock().unwrap().len(),
        2,
        "of the frame, once, and of the listing of the snapshot before"
    );
    // One frame is damaged; the others become bases.
    let stored = summary.counters.stored_bytes;
    assert!((512 << 10..2 << 20).contains(&stored), "{summary:?}");
    assert_restores(&repository, &summary, &file, &version(1, LENGTH));
}

#[test]
fn of_data_that_does_not_compress_little_is_looked_at_unless_all_is_wanted() {
    let folder = support::scratch();
    let file = folder.path().join("noise");
    std::fs::write(&file, noise(3, 96 << 20)).unwrap();
    let [auto, max] = [Similarity::Auto, Similarity::Max].map(|wish| back_up(&repository(), &file, wish));
    assert!(auto.incompressible_bytes > 16 << 20, "{auto:?}");
    assert_eq!(max.incompressible_bytes, 0);
    let text = [b"a line of text\n".repeat(100_000), noise(4, 2 << 20)].concat();
    std::fs::write(&file, text).unwrap();
    assert_eq!(back_up(&repository(), &file, Similarity::Auto).incompressible_bytes, 0);
}

#[test]
fn of_changed_files_that_are_like_nothing_little_is_looked_at_after_a_while() {
    let repository = repository();
    let folder = support::scratch();
    let file = folder.path().join("measured.csv");
    let version = |seed| {
        let mut digits = noise(seed, 96 << 20);
        digits.iter_mut().for_each(|byte| *byte = b'0' + *byte % 10);
        digits
    };
    std::fs::write(&file, version(7)).unwrap();
    let first = back_up(&repository, &file, Similarity::Auto);
    assert_eq!(first.dissimilar_bytes, 0, "its next version may be like it");
    std::fs::write(&file, version(8)).unwrap();
    let max = options(&file).similarity(Similarity::Max).dry_run(true);
    assert_eq!(repository.backup(&max).unwrap().dissimilar_bytes, 0);
    let second = back_up(&repository, &file, Similarity::Auto);
    assert!(second.dissimilar_bytes > 16 << 20, "{second:?}");
    assert_eq!(second.incompressible_bytes, 0, "it compresses");
    assert_restores(&repository, &second, &file, &version(8));
}

#[test]
fn from_remote_storage_no_more_is_read_back_than_is_allowed() {
    let repository = repository();
    let folder = support::scratch();
    let file = folder.path().join("dump");
    std::fs::write(&file, version(0, LENGTH)).unwrap();
    back_up(&repository, &file, Similarity::Auto);
    std::fs::write(&file, version(1, LENGTH)).unwrap();
    let nothing = options(&file).remote_reads(Some(0)).dry_run(true);
    let summary = repository.backup(&nothing).unwrap();
    assert_eq!(summary.deltas.chunks, 0, "{summary:?}");
    let summary = back_up(&repository, &file, Similarity::Auto);
    assert!(summary.deltas.bytes > LENGTH as u64 * 9 / 10, "{summary:?}");
}

/// Returns text that compresses, and in which one block of 4 KiB in `every` is of this version alone.
fn text(seed: u64, version: u64, every: u64, length: usize) -> Vec<u8> {
    let blocks = 0..(length / 4096) as u64;
    let letters = blocks.flat_map(|block| {
        let own = if (block + version).is_multiple_of(every) {
            version
        } else {
            0
        };
        noise((seed << 40) ^ (own << 20) ^ block, 2048)
    });
    letters
        .flat_map(|byte| [b'a' + (byte & 15), b'a' + (byte >> 4)])
        .collect()
}

#[test]
fn a_base_that_is_stored_again_beside_a_lost_pack_is_passed_over() {
    let memory = Arc::new(MemoryStorage::new());
    let init = support::quick().pack_size(1 << 20);
    let repository = Repository::init(memory.clone(), Some(b"secret"), &init).unwrap();
    let folder = support::scratch();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    let packs = || {
        let mut packs = Vec::new();
        memory.list("packs", &mut |name, _| packs.push(name)).unwrap();
        packs
    };
    const BASE: usize = 512 << 10;
    write("a", &text(1, 0, 8, BASE));
    back_up(&repository, folder.path(), Similarity::Auto);
    let lost = packs();
    // Deltas against it, in a pack that stays, with sketches that stay.
    for version in 1..6 {
        write(&format!("b{version}"), &text(1, version, 8, BASE));
        back_up(&repository, folder.path(), Similarity::Auto);
    }
    for name in &lost {
        memory.delete(name).unwrap();
    }
    // The base is stored again and readable before files come that resemble the deltas most.
    write("c", &text(2, 0, 8, 8 << 20));
    for version in 1..6 {
        let mut bytes = text(1, version, 8, BASE);
        bytes[100_000..100_016].copy_from_slice(b"one edit of this");
        write(&format!("d{version}"), &bytes);
    }
    let repository = Repository::open(memory.clone(), Some(b"secret")).unwrap();
    let summary = back_up(&repository, folder.path(), Similarity::Auto);
    assert!(summary.deltas.chunks > 0, "{summary:?}");
    let snapshot = repository.snapshot(&summary.id.unwrap().to_string()).unwrap();
    let out = support::scratch();
    let restored = repository.restore(snapshot.at(folder.path()), out.path(), &RestoreOptions::default());
    assert_eq!(restored.unwrap().failed, 0);
    support::same_tree(folder.path(), out.path());
}

/// Versions of text files among others, with all sketches in memory and with few of them.
#[test]
fn sketches_that_do_not_fit_into_memory_are_found_on_the_disk() {
    let versions = |is_tiny: bool, is_cached: bool| {
        let cache = support::scratch();
        let storage = Arc::new(MemoryStorage::new());
        let open = || {
            let repository = Repository::open(storage.clone(), Some(b"secret")).unwrap();
            let repository = if is_cached {
                repository.with_cache(cache.path())
            } else {
                repository
            };
            if is_tiny {
                repository.with_tiny_index()
            } else {
                repository
            }
        };
        Repository::init(storage.clone(), Some(b"secret"), &support::quick()).unwrap();
        let folder = support::scratch();
        let mut stored = 0;
        for version in 0..5 {
            for file in 0..30 {
                // Half of the files have another name in each version.
                let name = if file % 2 == 0 {
                    format!("{file}")
                } else {
                    format!("{file}-{version}")
                };
                let old = format!("{file}-{}", version as i64 - 1);
                let _ = std::fs::remove_file(folder.path().join(old));
                let bytes = text(file, version, 8, 300 << 10);
                std::fs::write(folder.path().join(name), bytes).unwrap();
            }
            std::fs::write(folder.path().join(format!("noise {version}")), noise(version, 3 << 20)).unwrap();
            let summary = back_up(&open(), folder.path(), Similarity::Auto);
            stored += summary.counters.stored_bytes;
        }
        let repository = open();
        let out = support::scratch();
        let snapshot = repository.snapshot("latest").unwrap();
        let restored = repository.restore(snapshot.at(folder.path()), out.path(), &RestoreOptions::default());
        assert_eq!(restored.unwrap().failed, 0);
        support::same_tree(folder.path(), out.path());
        stored
    };
    let without = versions(false, false);
    for (is_tiny, is_cached) in [(false, true), (true, true), (true, false)] {
        let stored = versions(is_tiny, is_cached);
        assert!(
            stored <= without + without / 50,
            "{stored} bytes instead of {without}: tiny {is_tiny}, cached {is_cached}"
        );
    }
}

/// Whether a backup reads it to find similar chunks, or to make it part of another run.
#[test]
fn a_damaged_run_of_sketches_is_reported_and_its_files_are_read_again() {
    let (cache, folder, storage) = (support::scratch(), support::scratch(), Arc::new(MemoryStorage::new()));
    let init = support::quick().chunker(Settings::for_average("gear", 4096).unwrap());
    Repository::init(storage.clone(), Some(b"secret"), &init).unwrap();
    let mut found = 0;
    for version in 0..6 {
        // Smaller runs become part of larger ones.
        let bytes = noise(version, 256 << 10 << version);
        std::fs::write(folder.path().join("noise"), &bytes).unwrap();
        let repository = Repository::open(storage.clone(), Some(b"secret")).unwrap();
        let (heard, monitor) = hearing();
        let repository = repository
            .with_cache(cache.path())
            .with_tiny_index()
            .watched_by(&monitor);
        let summary = repository.backup(&options(folder.path())).unwrap();
        assert_restores(&repository, &summary, &folder.path().join("noise"), &bytes);
        let heard = heard.lock().unwrap();
        assert!(
            heard.iter().all(|warning| matches!(warning, Warning::Cache { .. })),
            "{heard:?}"
        );
        found += heard.len();
        let runs = cache.path().join(repository.id().to_string()).join("sketches");
        for run in std::fs::read_dir(&runs).into_iter().flatten() {
            // In the sketches of the first pack: the run can be opened.
            let path = run.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[20] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
    }
    assert!(found > 0);
}

#[test]
fn a_summary_says_how_much_was_not_compared_with_all_that_is_stored() {
    let limited = |is_tiny: bool| {
        let (cache, (_, repository)) = (support::scratch(), changeable());
        let repository = repository.with_cache(cache.path());
        let repository = match is_tiny {
            true => repository.with_tiny_index(),
            false => repository,
        };
        let folder = support::scratch();
        for number in 0..2 {
            std::fs::write(folder.path().join("noise"), noise(number, LENGTH)).unwrap();
            let summary = back_up(&repository, folder.path(), Similarity::Auto);
            assert_eq!(summary.search.limited_bytes, 0, "all was compared: {summary:?}");
        }
        // To look so many small files up on the disk would cost more than they have bytes.
        for number in 0..1000 {
            std::fs::write(folder.path().join(format!("{number}")), noise(number + 2, 2 << 10)).unwrap();
        }
        let summary = back_up(&repository, folder.path(), Similarity::Auto);
        assert!(summary.search.chunks >= 900, "{summary:?}");
        summary.search.limited_bytes
    };
    assert_eq!(limited(false), 0);
    let bytes = limited(true);
    assert!((500 << 10..2 << 20).contains(&bytes), "{bytes} of 2 MiB");
}

/// A storage whose files of sketches are gone when they are read, so many times: a prune replaces them.
struct Vanishing {
    inner: MemoryStorage,
    times: AtomicU32,
}

impl Hooks for Vanishing {
    fn inner(&self) -> &dyn Storage {
        &self.inner
    }

    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, StorageError> {
        let again = |left: u32| left.checked_sub(1);
        let order = Ordering::Relaxed;
        if name.is_in("sketches") && self.times.fetch_update(order, order, again).is_ok() {
            let gone = ErrorKind::NotFound;
            return Err(StorageError::new(
                gone,
                Operation::Get,
                Some(name),
                self.inner.location(),
            ));
        }
        self.inner.get(name, limit)
    }
}

#[test]
fn sketches_that_a_prune_replaces_meanwhile_are_listed_again() {
    for (times, are_found) in [(1, true), (100, false)] {
        let storage = MemoryStorage::new();
        let folder = support::scratch();
        let file = folder.path().join("dump");
        let repository = Repository::init(Arc::new(storage.clone()), Some(b"secret"), &support::quick()).unwrap();
        for number in 0..2 {
            std::fs::write(&file, version(number, LENGTH)).unwrap();
            back_up(&repository, &file, Similarity::Auto);
        }
        assert!(!names(&storage, "sketches").is_empty());
        let vanishing = Hooked(Vanishing {
            inner: storage,
            times: AtomicU32::new(times),
        });
        let repository = Repository::open(Arc::new(vanishing), Some(b"secret")).unwrap();
        std::fs::write(&file, version(2, LENGTH)).unwrap();
        let summary = back_up(&repository, &file, Similarity::Auto);
        assert_restores(&repository, &summary, &file, &version(2, LENGTH));
        if are_found {
            assert!(summary.deltas.bytes > LENGTH as u64 * 9 / 10, "{summary:?}");
        }
    }
}
