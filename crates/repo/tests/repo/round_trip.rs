//! Restored files equal the backed-up ones, bit for bit.

use ibid_repo::{BackupOptions, Overwrite, RestoreOptions, Stream};

use crate::support;
use crate::support::{Folder, backup, options, repository, same_tree};

#[test]
fn a_tree_comes_back_as_it_was() {
    let folder = Folder::with_everything();
    let repository = repository();
    let summary = repository.backup(&options(folder.path())).unwrap();
    assert_eq!(summary.counters.unreadable, 0);
    let snapshot = repository.snapshot("latest").unwrap();
    let out = tempfile::tempdir().unwrap();
    let options = RestoreOptions::default().verify(true);
    let summary = repository
        .restore(snapshot.at(folder.path()), out.path(), &options)
        .unwrap();
    assert_eq!(summary.failed, 0);
    assert_eq!(summary.verified, summary.files);
    same_tree(folder.path(), out.path());
    assert!(repository.check(ibid_repo::ReadData::All).unwrap().is_clean());
}

#[test]
fn a_second_backup_of_the_same_reads_and_stores_nothing_new() {
    let folder = Folder::with_everything();
    let repository = repository();
    backup(&repository, folder.path());
    std::thread::sleep(std::time::Duration::from_millis(50));
    // The times of files made in the same clock tick as the first backup prove nothing: they are
    // read once more.
    backup(&repository, folder.path());
    let third = backup(&repository, folder.path());
    assert_eq!(third.unchanged_files, third.counters.files);
    // The listing of the folder for temporary files, a parent of this tree, may have changed.
    assert!(third.counters.new_bytes < 64 << 10, "{}", third.counters.new_bytes);
}

#[test]
fn a_restore_over_a_copy_writes_only_what_differs() {
    let folder = Folder::with_everything();
    let repository = repository();
    backup(&repository, folder.path());
    let snapshot = repository.snapshot("latest").unwrap();
    let out = tempfile::tempdir().unwrap();
    let restore = |overwrite| {
        let options = RestoreOptions::default().overwrite(overwrite);
        repository.restore(snapshot.at(folder.path()), out.path(), &options)
    };
    restore(Overwrite::Refuse).unwrap();
    assert!(matches!(
        restore(Overwrite::Refuse),
        Err(ibid_repo::Error::WouldOverwrite { .. })
    ));
    assert_eq!(restore(Overwrite::Always).unwrap().bytes_written, 0);
    let file = out.path().join("large");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[3_000_000] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let written = restore(Overwrite::Always).unwrap().bytes_written;
    assert!(written > 0 && written <= 512 << 10, "{written}");
    same_tree(folder.path(), out.path());
}

#[test]
fn a_stream_comes_back() {
    let bytes = support::noise(7, 10_000_000);
    let repository = repository();
    let stream = Stream::new("dump.sql", std::io::Cursor::new(bytes.clone()));
    repository.backup_stream(stream, &BackupOptions::default()).unwrap();
    let mut out = Vec::new();
    let snapshot = repository.snapshot("latest").unwrap();
    repository.dump(snapshot.at("dump.sql"), &mut out).unwrap();
    assert!(out == bytes);
}
