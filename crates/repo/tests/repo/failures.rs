//! When storing fails halfway through a large backup, the error names the cause, and the next
//! backup uses what was stored.

use std::io::{ErrorKind as IoErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ibid_repo::{BackupOptions, BackupSummary, Error, Monitor, ReadData, Repository, Stream};
use ibid_storage::fault::{Flaky, ObjectFault};
use ibid_storage::{ErrorKind, Memory, Operation};

use crate::support;
use crate::support::{Folder, backup, contents, noise, options, quick, repository};

#[test]
fn the_error_of_the_pack_that_could_not_be_stored_is_the_error_of_the_backup() {
    let folder = Folder::new();
    folder.write("large", &noise(1, 40 << 20));
    for skip in [0, 1, 2, 5, 9, 20] {
        let storage = Arc::new(Flaky::new(Memory::new()));
        let init = quick().pack_size(1 << 20);
        let repository = Repository::init(storage.clone(), Some(b"secret"), &init).unwrap();
        // The session comes first.
        storage.fail(Operation::Put, 1 + skip, ObjectFault::Before(ErrorKind::NoSpace));
        match repository.backup(&options(folder.path())) {
            Err(Error::Storage(error)) => {
                assert_eq!((error.kind(), error.operation()), (ErrorKind::NoSpace, Operation::Put));
                assert!(error.name().unwrap().as_str().starts_with("packs/"), "{error}");
            }
            other => panic!("after {skip} objects: {other:?}"),
        }
        assert!(repository.snapshots().unwrap().is_empty());
        storage.heal();
        let again = repository.backup(&options(folder.path())).unwrap();
        // Two uploads may have been running when the third failed.
        let stored = skip.saturating_sub(2) << 20;
        assert!(
            again.counters.new_bytes <= (40 << 20) - stored + (1 << 20),
            "after {skip} objects: {again:?}"
        );
    }
}

/// Index files and the snapshot are written last, after all packs.
#[test]
fn a_disk_that_is_full_when_the_index_is_written_makes_no_snapshot_and_the_next_backup_adopts_the_packs() {
    let folder = Folder::new();
    folder.write("first", &noise(1, 100_000));
    let storage = Arc::new(Flaky::new(Memory::new()));
    let repository = Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
    let first = backup(&repository, folder.path()).id.unwrap().to_string();
    let before = contents(folder.path());
    folder.write("second", &noise(2, 3_000_000));
    // The session, a pack of data and one of metadata, then the index, the sketches and the snapshot at once.
    for skip in [3, 4, 5] {
        storage.fail(Operation::Put, skip, ObjectFault::Before(ErrorKind::NoSpace));
    }
    match repository.backup(&options(folder.path())) {
        Err(Error::Storage(error)) => {
            assert_eq!((error.kind(), error.operation()), (ErrorKind::NoSpace, Operation::Put));
            assert!(error.name().unwrap().as_str().starts_with("snapshots/"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    storage.heal();
    let ids: Vec<_> = repository
        .snapshots()
        .unwrap()
        .iter()
        .map(|info| info.id.to_string())
        .collect();
    assert_eq!(ids, [first.as_str()]);
    support::crash::restores(&repository, &first, folder.path(), &before, "after the failure");

    let second = backup(&repository, folder.path());
    assert!(second.counters.new_bytes < 10_000, "{second:?}");
    let report = repository.check(ReadData::All).unwrap();
    assert!(report.is_clean() && report.unlisted_packs == 0, "{report:?}");
    let (id, now) = (second.id.unwrap().to_string(), contents(folder.path()));
    support::crash::restores(&repository, &id, folder.path(), &now, "after the next backup");
}

/// Stops a backup after it has read 10 MiB.
fn stopped_while_reading(backup: impl FnOnce(&Repository) -> Result<BackupSummary, Error> + Send) {
    let repository = repository();
    let monitor = Arc::new(Monitor::default());
    let result = std::thread::scope(|scope| {
        let backup = scope.spawn(|| backup(&repository.watched_by(&monitor)));
        while monitor.counters.bytes.load(Ordering::Relaxed) < 10 << 20 && !backup.is_finished() {
            std::hint::spin_loop();
        }
        monitor.cancel();
        backup.join().unwrap()
    });
    assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
    assert!(repository.snapshots().unwrap().is_empty());
}

#[test]
fn a_backup_that_is_stopped_while_it_reads_large_files_makes_no_snapshot() {
    let folder = Folder::scratch();
    folder.write("1", &noise(1, 100 << 20));
    let options = || options(folder.path()).threads(Some(1));
    stopped_while_reading(|repository| repository.backup(&options()));
    stopped_while_reading(|repository| repository.backup(&options().dry_run(true)));
    folder.write("2", &noise(2, 100 << 20));
    folder.write("3", b"a small one");
    stopped_while_reading(|repository| repository.backup(&options()));
}

fn backup_stream(repository: &Repository, reader: impl Read + Send + Sync + 'static) -> Result<BackupSummary, Error> {
    repository.backup_stream(Stream::new("stream", reader), &BackupOptions::default())
}

#[test]
fn a_backup_that_is_stopped_while_it_reads_a_stream_makes_no_snapshot() {
    stopped_while_reading(|repository| backup_stream(repository, std::io::repeat(7)));
}

/// Returns some bytes, then only errors.
struct Breaks(usize, IoErrorKind);

impl Read for Breaks {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.0);
        self.0 -= length;
        if length > 0 { Ok(length) } else { Err(self.1.into()) }
    }
}

#[test]
fn a_stream_that_brings_nothing_more_can_be_stopped() {
    stopped_while_reading(|repository| backup_stream(repository, Breaks(11 << 20, IoErrorKind::Interrupted)));
}

#[test]
fn a_stream_that_fails_makes_no_snapshot() {
    for length in [0, 5_000_000] {
        let repository = repository();
        let result = backup_stream(&repository, Breaks(length, IoErrorKind::NotConnected));
        match result {
            Err(Error::Pipe { source, .. }) => assert_eq!(source.kind(), IoErrorKind::NotConnected),
            other => panic!("{other:?}"),
        }
        assert!(repository.snapshots().unwrap().is_empty());
    }
}

#[test]
fn a_stream_that_no_file_can_be_called_like_is_refused() {
    for name in ["", ".", "..", "a/b", "/a", "a\0b"] {
        let stream = Stream::new(name, std::io::empty());
        let result = repository().backup_stream(stream, &BackupOptions::default());
        assert!(
            matches!(result, Err(Error::BadStreamName { .. })),
            "{name:?}: {result:?}"
        );
    }
}
