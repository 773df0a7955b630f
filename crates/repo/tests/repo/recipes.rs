//! Lists of chunks and listings of directories are deduplicated like everything else.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ibid_chunk::Settings;
use ibid_repo::Repository;

use crate::support;
use crate::support::{Folder, backup, noise, quick};

/// Small chunks give a file of a few megabytes a long list.
fn repository_of_small_chunks() -> Repository {
    let chunker = Settings::for_average("fastcdc", 1024).unwrap();
    let init = quick().chunker(chunker);
    Repository::init(Arc::new(ibid_storage::Memory::new()), Some(b"secret"), &init).unwrap()
}

#[test]
fn ten_snapshots_of_a_large_file_do_not_cost_ten_lists_of_its_chunks() {
    let folder = Folder::new();
    folder.write("image", &noise(1, 32 << 20));
    let repository = repository_of_small_chunks();
    let first = backup(&repository, folder.path());
    let snapshot = repository.snapshot("latest").unwrap();
    let stats = repository.stats(&[snapshot]).unwrap();
    let list = stats.metadata_unique;
    assert!(
        list > 30 * first.counters.new_chunks,
        "the list has an id for every chunk: {list} bytes"
    );
    let image = std::fs::File::options()
        .write(true)
        .open(folder.path().join("image"))
        .unwrap();
    for n in 0..9u64 {
        image
            .write_all_at(&noise(100 + n, 100), n * (3 << 20) + 12_345)
            .unwrap();
        let again = backup(&repository, folder.path());
        // One or two chunks of data, the part of the list that names them, and the chunk that names
        // that part.
        assert!(
            again.counters.new_bytes < 64 << 10,
            "snapshot {n} cost {} bytes",
            again.counters.new_bytes
        );
    }
    let all = repository.stats(&repository.snapshots().unwrap()).unwrap();
    assert!(
        all.metadata_unique < list + list / 4,
        "{} bytes of lists, from {list} for the first",
        all.metadata_unique
    );
}

#[test]
fn one_new_file_in_a_large_directory_does_not_cost_a_new_listing() {
    let folder = Folder::new();
    for n in 0..5000 {
        folder.write(format!("file {n:05}"), b"");
    }
    let repository = support::repository();
    backup(&repository, folder.path());
    // Back up twice: files made in the same clock tick as the first backup get their ctime in the
    // second.
    std::thread::sleep(std::time::Duration::from_millis(50));
    backup(&repository, folder.path());
    let snapshot = repository.snapshot("latest").unwrap();
    let listing = repository.stats(&[snapshot]).unwrap().metadata_unique;
    folder.write("file 02500b", b"");
    let third = backup(&repository, folder.path());
    assert!(
        third.counters.new_bytes < listing / 2,
        "{} bytes new, {listing} in all",
        third.counters.new_bytes
    );
}
