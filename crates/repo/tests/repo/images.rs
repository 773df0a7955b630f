//! Images: huge, sparse, on block devices; and files that do not stand still while they are read.

use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ibid_repo::{
    BackupSummary, Change, ChangedBlocks, EntryKind, Error, FilePart, Monitor, ReadData, Repository, RestoreOptions,
    Warning,
};

use crate::support::{Folder, backup, entry, noise, options, quick, repository, scratch};

fn restore(repository: &Repository, path: &Path, out: &Path) -> PathBuf {
    let snapshot = repository.snapshot("latest").unwrap();
    let options = RestoreOptions::default().verify(true);
    let summary = repository.restore(snapshot.at(path), out, &options).unwrap();
    assert_eq!((summary.failed, summary.verified), (0, 1));
    out.join(path.file_name().unwrap())
}

#[test]
fn two_tebibytes_of_nothing_take_no_time_and_no_space() {
    const LENGTH: u64 = 2 << 40;
    let folder = Folder::scratch();
    let path = folder.path().join("sparse");
    let file = File::create(&path).unwrap();
    file.set_len(LENGTH).unwrap();
    let places: Vec<u64> = (1..40).map(|number| number * (LENGTH / 40) / 4096 * 4096).collect();
    for &place in &places {
        file.write_all_at(&noise(place, 100_000), place).unwrap();
    }
    file.write_all_at(b"end", LENGTH - 3).unwrap();
    let repository = repository();
    let started = Instant::now();
    let summary = backup(&repository, &path);
    assert_eq!(summary.counters.bytes, LENGTH);
    assert!(summary.read_bytes < 41 * 102_400, "{summary:?}");
    assert!(summary.written < 5_000_000, "{summary:?}");
    std::thread::sleep(Duration::from_millis(50));
    backup(&repository, &path);
    assert_eq!(backup(&repository, &path).unchanged_files, 1);
    file.write_all_at(b"changed", places[7]).unwrap();
    let summary = backup(&repository, &path);
    assert!(summary.counters.new_bytes < 500_000, "{summary:?}");

    let [old, new] = ["latest~1", "latest"].map(|name| repository.snapshot(name).unwrap());
    let mut changes = Vec::new();
    repository
        .diff(&old, &new, |difference| {
            changes.push(difference.change);
            Ok(())
        })
        .unwrap();
    assert_eq!(changes.last(), Some(&Change::Modified));
    assert!(repository.check(ReadData::All).unwrap().is_clean());

    let out = scratch();
    let back = restore(&repository, &path, out.path());
    let back = File::open(back).unwrap();
    let meta = back.metadata().unwrap();
    assert_eq!(meta.len(), LENGTH);
    assert!(meta.blocks() * 512 < 10 << 20, "{} blocks", meta.blocks());
    let mut bytes = vec![0; 100_000];
    back.read_exact_at(&mut bytes, places[9]).unwrap();
    assert!(bytes == noise(places[9], 100_000));
    back.read_exact_at(&mut bytes[..7], places[7]).unwrap();
    assert_eq!(&bytes[..7], b"changed");
    back.read_exact_at(&mut bytes[..5], LENGTH - 5).unwrap();
    assert_eq!(&bytes[..5], b"\0\0end");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

/// Each extent is a chunk of its own, but not a piece of work of its own.
#[test]
fn an_image_of_very_many_extents_comes_back() {
    const EXTENTS: u64 = 20_000;
    let folder = Folder::scratch();
    let path = folder.path().join("sparse");
    let file = File::create(&path).unwrap();
    file.set_len(EXTENTS * 16_384).unwrap();
    for number in 0..EXTENTS {
        file.write_all_at(&number.to_le_bytes(), number * 16_384 + 4096)
            .unwrap();
    }
    let repository = repository();
    let summary = backup(&repository, &path);
    assert_eq!((summary.read_bytes, summary.holes), (EXTENTS * 4096, EXTENTS * 12_288));
    let out = scratch();
    let back = restore(&repository, &path, out.path());
    assert!(std::fs::read(&back).unwrap() == std::fs::read(&path).unwrap());
    assert!(back.metadata().unwrap().blocks() * 512 <= EXTENTS * 4096 + (1 << 20));
}

#[test]
fn any_part_of_an_image_can_be_read_with_its_holes() {
    let folder = Folder::scratch();
    folder.write("image", &noise(1, 2_000_000));
    let path = folder.path().join("image");
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(4_000_000).unwrap();
    file.write_all_at(b"end", 3_999_997).unwrap();
    let all = std::fs::read(&path).unwrap();
    let repository = repository();
    backup(&repository, &path);
    let snapshot = repository.snapshot("latest").unwrap();
    let places = [
        0,
        1,
        100_000,
        1_999_999,
        2_000_000,
        3_000_000,
        3_999_998,
        4_000_000,
        u64::MAX,
    ];
    for (number, &start) in places.iter().enumerate() {
        for &end in &places[number..] {
            let (mut bytes, mut in_holes) = (Vec::new(), 0);
            let length = repository.dump_parts(snapshot.at(&path), start..end, |part| {
                match part {
                    FilePart::Data(data) => bytes.extend_from_slice(data),
                    FilePart::Hole(length) => {
                        in_holes += length;
                        bytes.resize(bytes.len() + length as usize, 0);
                    }
                }
                Ok(())
            });
            let within = |place: u64| place.min(4_000_000) as usize;
            assert!(bytes == all[within(start)..within(end)], "{start}..{end}");
            assert_eq!(length.unwrap(), bytes.len() as u64);
            assert!((start..end) != (0..u64::MAX) || in_holes > 1_900_000, "{in_holes}");
        }
    }
}

/// Backs up a file of 40 MB while another thread calls `change` until it returns false. Does so again
/// until the backup has marked it.
fn backed_up_during(change: impl Fn(&File, &Monitor, u64) -> bool + Sync) -> BackupSummary {
    let folder = Folder::scratch();
    let (path, repository) = (folder.path().join("busy"), repository());
    for _ in 0..50 {
        folder.write("busy", &noise(1, 40_000_000));
        let file = File::options().write(true).open(&path).unwrap();
        let (monitor, done) = (Arc::new(Monitor::default()), AtomicBool::new(false));
        let summary = std::thread::scope(|scope| {
            scope.spawn(|| (0..).find(|round| done.load(Ordering::Relaxed) || !change(&file, &monitor, *round)));
            let summary = repository.watched_by(&monitor).backup(&options(&path));
            done.store(true, Ordering::Relaxed);
            summary.unwrap()
        });
        assert_eq!(summary.counters.unreadable, 0);
        if summary.counters.changed_while_read == 0 {
            continue;
        }
        assert!(entry(&repository, &path).changed_while_read);
        let mut bytes = 0;
        let snapshot = repository.snapshot("latest").unwrap();
        repository.dump(snapshot.at(&path), Count(&mut bytes)).unwrap();
        assert_eq!(bytes, summary.counters.bytes);
        return summary;
    }
    panic!("no backup has noticed");
}

struct Count<'c>(&'c mut u64);

impl std::io::Write for Count<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        *self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// It grows by 100 MB every time, so no reader could ever reach its end.
#[test]
fn a_file_that_grows_without_end_is_read_as_far_as_it_was_when_it_was_opened() {
    const STEP: u64 = 100_000_000;
    let summary = backed_up_during(|file, _, round| {
        // It can't grow for ever here, where it must be dumped.
        file.write_all_at(b"more", (round.min(19) + 1) * STEP).unwrap();
        true
    });
    // One of the sizes that it had.
    let bytes = summary.counters.bytes;
    assert!(bytes == 40_000_000 || bytes % STEP == 4, "{bytes}");
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_kept_as_far_as_it_was_read() {
    let summary = backed_up_during(|file, monitor, _| {
        let has_begun = monitor.counters.bytes.load(Ordering::Relaxed) > 0;
        if has_begun {
            file.set_len(1_000_000).unwrap();
        }
        !has_begun
    });
    let bytes = summary.counters.bytes;
    assert!((1_000_000..40_000_000).contains(&bytes), "{bytes}");
}

/// Between the walk and the reading, something else is put in the place of files.
#[test]
fn what_is_put_in_the_place_of_a_file_is_stored_as_itself_or_named() {
    let folder = Folder::scratch();
    let names = ["file", "fifo", "device", "link", "folder"];
    for name in names {
        folder.write(name, b"as it was");
    }
    folder.write("other", b"as it is now");
    let path = folder.path().to_owned();
    let at = |name: &str| path.join(name);
    // The walk meets the repository after the files and before they are read.
    let storage = Arc::new(ibid_storage::Local::create(at("z")).unwrap());
    let repository = Repository::init(storage, Some(b"secret"), &quick()).unwrap();
    let left_out = Arc::new(std::sync::Mutex::new(Vec::new()));
    let monitor = Monitor::new({
        let (left_out, path) = (left_out.clone(), path.clone());
        move |warning| match warning {
            Warning::OwnFolder { .. } => {
                let at = |name: &str| path.join(name);
                for name in names {
                    std::fs::remove_file(at(name)).unwrap();
                }
                std::fs::rename(at("other"), at("file")).unwrap();
                let made = |name: &str, kind| rustix::fs::mknodat(rustix::fs::CWD, at(name), kind, 0o600.into(), 0);
                made("fifo", rustix::fs::FileType::Fifo).unwrap();
                // Only root can make a device; a socket is as good.
                made("device", rustix::fs::FileType::Socket).unwrap();
                std::os::unix::fs::symlink("/dev/zero", at("link")).unwrap();
                std::fs::create_dir(at("folder")).unwrap();
            }
            Warning::Skipped { path, error } => {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                left_out.lock().unwrap().push((name, error.to_string()));
            }
            _ => {}
        }
    });
    let summary = repository
        .watched_by(&Arc::new(monitor))
        .backup(&options(&path))
        .unwrap();
    let left_out = std::mem::take(&mut *left_out.lock().unwrap());
    let mut left_out_names: Vec<&str> = left_out.iter().map(|(name, _)| name.as_str()).collect();
    left_out_names.sort_unstable();
    assert_eq!(
        left_out_names,
        ["device", "fifo", "folder", "link", "other"],
        "{left_out:?}"
    );
    assert_eq!(summary.counters.files, 1);
    let mut bytes = Vec::new();
    repository
        .dump(repository.snapshot("latest").unwrap().at(&at("file")), &mut bytes)
        .unwrap();
    assert_eq!(bytes, b"as it is now");
}

/// A character device has no end and a FIFO waits for a writer: neither is read, even if it is
/// named.
#[test]
fn endless_files_are_stored_as_what_they_are() {
    let folder = Folder::scratch();
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let repository = repository();
    let summary = repository.backup(&options(Path::new("/dev/zero")).path(&fifo)).unwrap();
    assert_eq!((summary.counters.others, summary.read_bytes), (2, 0));
    let zero = entry(&repository, Path::new("/dev/zero"));
    assert_eq!(zero.kind, EntryKind::CharDevice { major: 1, minor: 5 });
}

/// A loop device over a file.
struct LoopDevice {
    path: PathBuf,
    /// It has a file system for its nodes, so that names can't change.
    _folder: Folder,
}

impl LoopDevice {
    /// Returns `None` where loop devices can't be made: only root can, and not in every container.
    fn new(size: u64) -> Option<LoopDevice> {
        let folder = Folder::new();
        let backing = folder.path().join("backing");
        File::create(&backing).unwrap().set_len(size).unwrap();
        let made = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(backing)
            .output()
            .ok()?;
        let path = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
        let is_device = path.metadata().is_ok_and(|meta| meta.file_type().is_block_device());
        is_device.then_some(LoopDevice { path, _folder: folder })
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        let device = File::options().write(true).open(&self.path).unwrap();
        device.write_all_at(bytes, offset).unwrap();
        device.sync_all().unwrap();
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}

#[test]
fn a_block_device_is_stored_as_a_file_and_then_by_its_changed_blocks() {
    const SIZE: u64 = 48 << 20;
    let Some(device) = LoopDevice::new(SIZE) else {
        return;
    };
    device.write(0, &noise(1, 20 << 20));
    device.write(40 << 20, &noise(2, 1 << 20));
    let repository = repository();
    let first = backup(&repository, &device.path);
    assert_eq!(
        (first.counters.files, first.counters.bytes, first.read_bytes),
        (1, SIZE, SIZE)
    );
    let is_same = || {
        let out = scratch();
        let back = restore(&repository, &device.path, out.path());
        std::fs::read(back).unwrap() == std::fs::read(&device.path).unwrap()
    };
    assert!(is_same());
    // Nothing tells whether a device has changed.
    assert_eq!(backup(&repository, &device.path).read_bytes, SIZE);

    device.write(5_000_000, b"changed");
    device.write(SIZE - 4096, &noise(3, 4096));
    let map = format!("size {SIZE}\n4980736 65536\n{} 4096\n", SIZE - 4096);
    let map = ChangedBlocks::read(map.as_bytes()).unwrap();
    let parent = repository.snapshot("latest").unwrap().id.to_string();
    let with_map = options(&device.path).parent(parent).changed_blocks(map);
    let summary = repository.backup(&with_map).unwrap();
    assert!(summary.read_bytes < 4 << 20, "{summary:?}");
    assert_eq!(summary.counters.bytes, SIZE);
    assert!(is_same());
    let wrong = with_map.changed_blocks(ChangedBlocks::read(&b"size 4096\nend\n"[..]).unwrap());
    assert!(matches!(repository.backup(&wrong), Err(Error::ChangedBlocks(_))));
}
