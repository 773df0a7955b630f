//! Large files that are mostly stored already are cut at the stored boundaries. Hints change how
//! long a backup takes, hardly its size, and nothing in what is restored.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use ibid_chunk::Settings;
use ibid_repo::{BackupSummary, Hints, Repository, RestoreOptions, Similarity};
use ibid_storage::{Memory, Storage};

use crate::support;
use crate::support::{noise, quick};

const LENGTH: usize = 20 << 20;

fn repository(storage: &Arc<Memory>, chunker: &str) -> Repository {
    let init = quick()
        .chunker(Settings::for_average(chunker, 16 << 10).unwrap())
        .pack_size(4 << 20);
    Repository::init(storage.clone(), Some(b"secret"), &init).unwrap()
}

fn back_up(repository: &Repository, path: &Path, hints: Hints, threads: usize) -> BackupSummary {
    let options = support::options(path)
        .hints(hints)
        .threads(Some(threads))
        .similarity(Similarity::Off)
        .force(true);
    let summary = repository.backup(&options).unwrap();
    assert_eq!(summary.counters.unreadable, 0);
    summary
}

/// Returns versions of a file: bytes are inserted, removed and overwritten, and one version ends in
/// the middle.
fn versions() -> Vec<Vec<u8>> {
    let mut all = vec![noise(1, LENGTH)];
    for number in 1..5u64 {
        let mut next = all.last().unwrap().clone();
        for edit in 0..4 {
            let at = (edit * 5 + number as usize) * 900_000 % next.len();
            let other = noise(number * 100 + edit as u64, 200);
            match edit % 3 {
                0 => drop(next.splice(at..at, other)),
                1 => drop(next.drain(at..at + 150)),
                _ => next[at..at + 200].copy_from_slice(&other),
            }
        }
        if number == 3 {
            next.truncate(LENGTH / 2 + 12_345);
        }
        all.push(next);
    }
    all
}

fn assert_comes_back(repository: &Repository, summary: &BackupSummary, file: &Path, expected: &[u8]) {
    let snapshot = repository.snapshot(&summary.id.unwrap().to_string()).unwrap();
    let out = support::scratch();
    let options = RestoreOptions::default();
    let restored = repository.restore(snapshot.at("/"), out.path(), &options).unwrap();
    assert_eq!(restored.failed, 0);
    let found = std::fs::read(out.path().join(file.strip_prefix("/").unwrap())).unwrap();
    assert!(found == expected, "other bytes than were backed up");
}

/// Backs up all versions. Returns for each the new data chunks, their bytes, and the bytes cut by
/// hints.
fn run(chunker: &str, hints: Hints, threads: usize) -> Vec<(u64, u64, u64)> {
    let repository = repository(&Arc::new(Memory::new()), chunker);
    let folder = support::scratch();
    let file = folder.path().join("image");
    let mut found = Vec::new();
    for version in versions() {
        std::fs::write(&file, &version).unwrap();
        let summary = back_up(&repository, &file, hints, threads);
        assert_comes_back(&repository, &summary, &file, &version);
        let new = summary.counters.new_bytes - summary.new_metadata_bytes;
        found.push((summary.whole.chunks, new, summary.cut_by_hints_bytes));
    }
    found
}

#[test]
fn tested_hints_cut_where_the_chunker_would() {
    for chunker in ["rabin", "gear", "fastcdc", "seqcdc", "maxp"] {
        let plain = run(chunker, Hints::Off, 2);
        let hinted = run(chunker, Hints::Always, 2);
        for ((plain, hinted), version) in plain.iter().zip(&hinted).zip(versions()) {
            assert_eq!((plain.0, plain.1), (hinted.0, hinted.1), "{chunker}");
            assert_eq!(plain.2, 0);
            assert!(hinted.2 <= version.len() as u64);
        }
        assert_eq!(hinted[0].2, 0, "{chunker}: nothing was there");
        for (found, version) in hinted[1..].iter().zip(&versions()[1..]) {
            assert!(
                found.2 > version.len() as u64 * 3 / 4,
                "{chunker}: {} of {}",
                found.2,
                version.len()
            );
        }
    }
}

#[test]
fn a_chunker_without_a_test_stores_hardly_more_by_hints() {
    for chunker in ["argmin", "tttd"] {
        let sum = |found: &[(u64, u64, u64)]| found.iter().map(|(_, new, _)| new).sum::<u64>();
        let plain = run(chunker, Hints::Off, 2);
        let hinted = run(chunker, Hints::Always, 2);
        assert!(
            sum(&hinted) <= sum(&plain) + sum(&plain) / 100,
            "{chunker}: {} {}",
            sum(&hinted),
            sum(&plain)
        );
        assert!(hinted[1].2 > LENGTH as u64 * 3 / 4, "{chunker}: {}", hinted[1].2);
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let one = run("argmin", Hints::Always, 1);
    for threads in [2, 5] {
        assert_eq!(run("argmin", Hints::Always, threads), one);
    }
}

#[test]
fn archives_and_holes_are_cut_as_without_hints() {
    let tar = |time: u64| {
        let mut archive = Vec::new();
        for number in 0..60 {
            let mut header = [0; 512];
            let size = 40_000 + number * 7000;
            header[..6].copy_from_slice(format!("f{number:05}").as_bytes());
            header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
            header[136..148].copy_from_slice(format!("{time:011o}\0").as_bytes());
            header[148..156].fill(b' ');
            header[156] = b'0';
            let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
            header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            archive.extend(header);
            archive.extend(noise(number as u64, size));
            archive.resize(archive.len().next_multiple_of(512), 0);
        }
        archive
    };
    let run = |hints| {
        let repository = repository(&Arc::new(Memory::new()), "gear");
        let folder = support::scratch();
        let (archive, sparse) = (folder.path().join("a.tar"), folder.path().join("sparse"));
        let mut found = Vec::new();
        for time in 1..4 {
            std::fs::write(&archive, tar(time)).unwrap();
            let file = std::fs::File::create(&sparse).unwrap();
            file.set_len(30 << 20).unwrap();
            file.write_all_at(&noise(7, 3 << 20), 0).unwrap();
            file.write_all_at(&noise(8, 3 << 20), (10 << 20) + time * 4096).unwrap();
            let summary = back_up(&repository, folder.path(), hints, 2);
            assert_comes_back(&repository, &summary, &archive, &tar(time));
            assert_comes_back(&repository, &summary, &sparse, &std::fs::read(&sparse).unwrap());
            found.push((
                summary.whole.chunks,
                summary.counters.new_bytes - summary.new_metadata_bytes,
            ));
            assert_eq!(
                summary.cut_by_hints_bytes > 8 << 20,
                hints == Hints::Always && time > 1,
                "{}",
                summary.cut_by_hints_bytes
            );
        }
        found
    };
    assert_eq!(run(Hints::Always), run(Hints::Off));
}

/// Flips a bit of every pack's directory.
fn spoil_directories(storage: &Memory) {
    const TRAILER: usize = 56;
    let mut packs = Vec::new();
    // Packs are in folders by the first byte of their names.
    for byte in 0..=255u8 {
        storage
            .list(&format!("packs/{byte:02x}"), &mut |name, _| packs.push(name))
            .unwrap();
    }
    assert!(!packs.is_empty());
    for name in packs {
        let mut bytes = storage.get(&name, u64::MAX).unwrap();
        let at = bytes.len() - TRAILER - 20;
        bytes[at] ^= 1;
        storage.delete(&name).unwrap();
        storage.put(&name, &[&bytes]).unwrap();
    }
}

#[test]
fn where_hints_can_not_be_read_the_chunker_looks_and_nothing_is_lost() {
    let storage = Arc::new(Memory::new());
    let repository = repository(&storage, "rabin");
    let folder = support::scratch();
    let file = folder.path().join("image");
    let all = versions();
    std::fs::write(&file, &all[0]).unwrap();
    back_up(&repository, &file, Hints::Always, 2);
    spoil_directories(&storage);
    std::fs::write(&file, &all[1]).unwrap();
    let summary = back_up(&repository, &file, Hints::Always, 2);
    assert_eq!(summary.cut_by_hints_bytes, 0);
    assert!(summary.counters.new_bytes < 1 << 20, "{}", summary.counters.new_bytes);
    assert_comes_back(&repository, &summary, &file, &all[1]);
}
