//! Backups of images with maps of changed blocks.

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ibid_chunk::{FixedSettings, Settings};
use ibid_format::content::{Content, Item};
use ibid_format::tree::EntryKind;
use ibid_repo::{
    BackupOptions, BackupSummary, ChangedBlocks, ChangedBlocksError, Error, Hints, Monitor, ReadData, Repository,
    Warning,
};
use rustix::fs::{FallocateFlags, fallocate};

use crate::support;
use crate::support::{Folder, Random, backup, entry, noise, options, quick, repository};

fn repository_with(settings: Settings) -> Repository {
    let storage = Arc::new(ibid_storage::Memory::new());
    Repository::init(storage, Some(b"secret"), &quick().chunker(settings)).unwrap()
}

/// Contents of an image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Full,
    WithHoles,
    /// Also with zeros that are no holes.
    WithZeros,
}

const KINDS: [Kind; 3] = [Kind::Full, Kind::WithHoles, Kind::WithZeros];

/// A file to back up, and what was written to it since it was asked for.
struct Image {
    folder: Folder,
    file: File,
    touched: Vec<Range<u64>>,
}

impl Image {
    fn new(bytes: &[u8]) -> Image {
        let folder = Folder::scratch();
        folder.write("image", bytes);
        let file = OpenOptions::new()
            .write(true)
            .open(folder.path().join("image"))
            .unwrap();
        Image {
            folder,
            file,
            touched: Vec::new(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    fn size(&self) -> u64 {
        self.file.metadata().unwrap().size()
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, offset).unwrap();
        self.touched.push(offset..offset + bytes.len() as u64);
    }

    fn punch(&mut self, offset: u64, length: u64) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, flags, offset, length).unwrap();
        self.touched.push(offset..offset + length);
    }

    fn resize(&mut self, size: u64) {
        let before = self.size();
        self.file.set_len(size).unwrap();
        if size < before {
            self.touched.push(size..before);
        }
    }

    /// Returns the blocks that were touched since the last call.
    fn take_map(&mut self, block: u64) -> ChangedBlocks {
        let touched = std::mem::take(&mut self.touched);
        let blocks = |range: Range<u64>| range.start / block * block..range.end.div_ceil(block) * block;
        ChangedBlocks::new(touched.into_iter().map(blocks)).unwrap()
    }

    /// Makes a random change.
    fn edit(&mut self, random: &mut Random, kind: Kind) {
        let makes_holes = kind != Kind::Full;
        let size = self.size();
        let at = random.below(size.max(1));
        let length = (1 + random.below(30_000)).min(size - at);
        match random.below(10) {
            0 | 1 if makes_holes => self.punch(at / 4096 * 4096, (1 + random.below(30)) * 4096),
            2 if makes_holes => self.resize(size + random.below(200_000)),
            3 if kind == Kind::WithZeros => self.write(at, &vec![0; length as usize]),
            4 => self.write(size, &noise(random.next(), random.below(100_000) as usize)),
            5 => self.resize(size - random.below(size / 3 + 1)),
            _ => self.write(at, &noise(random.next(), length as usize)),
        }
    }
}

/// Backs up with a map relative to the last snapshot.
fn with_map(repository: &Repository, path: &Path, map: ChangedBlocks) -> Result<BackupSummary, Error> {
    let parent = repository.snapshot("latest").unwrap().id;
    repository.backup(&options(path).parent(parent.to_string()).changed_blocks(map))
}

fn content(repository: &Repository, path: &Path) -> Content {
    match entry(repository, path).kind {
        EntryKind::File(content) => content,
        other => panic!("{other:?}"),
    }
}

fn dump(repository: &Repository, path: &Path) -> Vec<u8> {
    let snapshot = repository.snapshot("latest").unwrap();
    let mut bytes = Vec::new();
    repository.dump(snapshot.at(path), &mut bytes).unwrap();
    bytes
}

/// Backs up versions of an image with maps. Each restores to what the image is, is read in part only,
/// and is the list of chunks that reading everything makes.
fn check_versions(settings: &Settings, kind: Kind, seed: u64) {
    let what = format!("{} with seed {seed}", settings.name());
    let repository = repository_with(settings.clone());
    let mut random = Random(seed);
    // The list is another one if no boundary is found for long. Some chunkers take long for it;
    // nothing finds one in zeros; and chunks of one size never fit again if the hole moves from which
    // they are counted.
    let is_same = match settings.name() {
        "ae" | "ae-min" | "ram" | "seqcdc" => false,
        "fixed" => kind == Kind::Full,
        _ => kind != Kind::WithZeros,
    };
    let mut image = Image::new(&noise(seed, 1_500_000));
    if kind != Kind::Full {
        image.punch(300 << 10, 200 << 10);
        image.punch(900 << 10, 4 << 10);
    }
    image.take_map(1);
    let path = image.path();
    repository.backup(&options(&path).hints(Hints::Off)).unwrap();
    for generation in 0..4 {
        let what = format!("{what}, generation {generation}");
        let before = image.size();
        for _ in 0..random.below(8) {
            image.edit(&mut random, kind);
        }
        // Blocks that did not change may be in a map, too.
        for _ in 0..random.below(3) {
            let at = random.below(image.size().max(1));
            image.touched.push(at..at + 1);
        }
        let map = image.take_map([4096, 65_536][random.below(2) as usize]);
        let summary = with_map(&repository, &path, map.clone()).unwrap();
        assert!(dump(&repository, &path) == std::fs::read(&path).unwrap(), "{what}");

        // Before a range, a chunk and the lookahead; after it, as far as a boundary is looked for.
        let each = (settings.size_max() * 10 + 2 * settings.lookahead() + 8192) as u64;
        let parts = map.ranges().count() as u64 + u64::from(before != image.size());
        let grown = image.size().saturating_sub(before);
        let most = map.bytes() + grown + parts * each;
        assert!(
            summary.read_bytes <= most,
            "{what}: {} bytes of {most}",
            summary.read_bytes
        );
        let of_parent = summary.counters.bytes - summary.taken_over_bytes - summary.holes;
        assert!(of_parent <= summary.read_bytes, "{what}");

        let cut = content(&repository, &path);
        repository
            .backup(&options(&path).hints(Hints::Off).force(true))
            .unwrap();
        assert!(!is_same || cut == content(&repository, &path), "{what}");
    }
}

#[test]
fn a_backup_with_a_map_makes_what_reading_everything_makes_with_every_chunker() {
    for (name, number) in ibid_chunk::NAMES.into_iter().zip(0..) {
        let settings = Settings::for_average(name, 8 << 10).unwrap();
        for (kind, seed) in KINDS.into_iter().zip(3 * number..) {
            check_versions(&settings, kind, seed);
        }
    }
}

#[test]
fn so_does_one_with_the_default_chunks() {
    let settings = Settings::for_average("argmin", 128 << 10).unwrap();
    for (kind, seed) in KINDS.into_iter().cycle().zip(1000..1020) {
        check_versions(&settings, kind, seed);
    }
}

/// Returns the parts of a content that are holes.
fn holes(content: &Content) -> Vec<Range<u64>> {
    let mut at = 0;
    let mut holes = Vec::new();
    for item in &content.items {
        if let Item::Hole { length } = item {
            holes.push(at..at + length);
        }
        at += item.length();
    }
    holes
}

#[test]
fn a_file_with_the_same_times_is_read_where_the_map_says_so() {
    let mut image = Image::new(&noise(1, 3_000_000));
    let (path, repository) = (image.path(), repository());
    let times = std::fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
    image.file.set_times(times).unwrap();
    // Its ctime must be old enough to be trusted.
    std::thread::sleep(std::time::Duration::from_millis(50));
    backup(&repository, &path);
    assert_eq!(backup(&repository, &path).unchanged_files, 1);
    image.write(2_000_000, b"changed");
    image.file.set_times(times).unwrap();
    let map = image.take_map(512);
    let summary = with_map(&repository, &path, map).unwrap();
    assert!(dump(&repository, &path) == std::fs::read(&path).unwrap());
    assert_eq!((summary.counters.files, summary.unchanged_files), (1, 0));
    assert!(summary.read_bytes < 1_000_000, "{summary:?}");
    assert_eq!(
        summary.read_bytes + summary.taken_over_bytes,
        3_000_000 + extra(&summary)
    );
}

/// Returns the bytes that were read and cut again in search of a boundary.
fn extra(summary: &BackupSummary) -> u64 {
    (summary.read_bytes + summary.taken_over_bytes + summary.holes) - summary.counters.bytes
}

#[test]
fn nothing_is_read_if_nothing_has_changed_and_holes_stay_holes() {
    let mut image = Image::new(&noise(1, 2_000_000));
    image.punch(512 << 10, 512 << 10);
    image.resize(1 << 40);
    image.take_map(1);
    let path = image.path();
    let repository = repository();
    backup(&repository, &path);
    let expected = content(&repository, &path);
    let in_holes: u64 = holes(&expected).iter().map(|hole| hole.end - hole.start).sum();
    let data = (1 << 40) - in_holes;
    for _ in 0..2 {
        let summary = with_map(&repository, &path, ChangedBlocks::default()).unwrap();
        assert_eq!((summary.read_bytes, summary.taken_over_bytes), (0, data), "{summary:?}");
        assert_eq!(summary.counters.bytes, 1 << 40);
        assert_eq!(content(&repository, &path), expected);
    }
    image.write(1 << 39, &noise(2, 4096));
    let summary = with_map(&repository, &path, image.take_map(64 << 10)).unwrap();
    assert_eq!(summary.read_bytes, 4096, "the rest of the block is a hole");
    assert_eq!(holes(&content(&repository, &path)).len(), 3);
}

#[test]
fn small_and_empty_images_and_dry_runs_work_as_well() {
    let mut image = Image::new(b"");
    let (path, repository) = (image.path(), repository());
    backup(&repository, &path);
    for text in ["grown", "", "again"] {
        image.resize(0);
        image.write(0, text.as_bytes());
        let map = image.take_map(512);
        let parent = repository.snapshot("latest").unwrap().id.to_string();
        let options = options(&path).parent(parent).changed_blocks(map);
        let dry = repository.backup(&options.clone().dry_run(true)).unwrap();
        assert_eq!((dry.id, dry.read_bytes), (None, text.len() as u64));
        repository.backup(&options).unwrap();
        assert_eq!(dump(&repository, &path), text.as_bytes());
    }
}

/// What has no content to cut by gives no boundary. Reading to the end of it could take hours.
#[test]
fn a_boundary_is_not_looked_for_without_end() {
    for name in ["argmin", "fastcdc", "seqcdc"] {
        let settings = Settings::for_average(name, 16 << 10).unwrap();
        let repository = repository_with(settings.clone());
        let mut image = Image::new(&[7; 8_000_000]);
        let path = image.path();
        backup(&repository, &path);
        image.write(1_000_001, &noise(1, 12_345));
        let summary = with_map(&repository, &path, image.take_map(4096)).unwrap();
        assert!(dump(&repository, &path) == std::fs::read(&path).unwrap(), "{name}");
        assert!(
            summary.read_bytes < 12 * settings.size_max() as u64,
            "{name}: {summary:?}"
        );
        // From there on, the parent's chunks fit.
        assert!(summary.taken_over_bytes > 6_500_000, "{name}: {summary:?}");
    }
}

#[test]
fn members_of_a_changed_archive_come_back() {
    let mut archive = Vec::new();
    for number in 0..20u64 {
        let mut header = [0; 512];
        header[..7].copy_from_slice(format!("file{number:03}").as_bytes());
        header[124..136].copy_from_slice(format!("{:011o}\0", 100_000 + number).as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend_from_slice(&header);
        archive.extend(noise(number, (100_000 + number as usize).next_multiple_of(512)));
    }
    let mut image = Image::new(&archive);
    let (path, repository) = (image.path(), repository());
    backup(&repository, &path);
    let mut random = Random(1);
    for _ in 0..20 {
        let at = random.below(archive.len() as u64 - 100);
        image.write(at, &noise(at, 100));
        with_map(&repository, &path, image.take_map(4096)).unwrap();
        assert!(dump(&repository, &path) == std::fs::read(&path).unwrap());
    }
}

/// The parent can't help where its chunks are lost.
#[test]
fn chunks_that_are_no_longer_stored_are_read_and_stored_again() {
    let storage = Arc::new(ibid_storage::Memory::new());
    let settings = quick()
        .chunker(Settings::for_average("argmin", 16 << 10).unwrap())
        .pack_size(1 << 20);
    let repository = Repository::init(storage.clone(), Some(b"secret"), &settings).unwrap();
    let image = Image::new(&noise(1, 5_000_000));
    let path = image.path();
    backup(&repository, &path);
    let mut objects = support::damage::image(storage.as_ref());
    let largest = |(_, bytes): &(&ibid_storage::Name, &Vec<u8>)| bytes.len();
    let pack = objects.iter().max_by_key(largest).unwrap().0.clone();
    let lost = objects.remove(&pack).unwrap().len() as u64;
    assert_eq!(support::damage::kind(&pack), "packs");

    let repository = support::damage::open(support::damage::storage(&objects)).unwrap();
    let summary = with_map(&repository, &path, ChangedBlocks::default()).unwrap();
    assert!(
        (lost / 2..2 * lost).contains(&summary.read_bytes),
        "{lost}: {summary:?}"
    );
    assert!(summary.taken_over_bytes > 2_000_000, "{summary:?}");
    assert!(dump(&repository, &path) == std::fs::read(&path).unwrap());
    assert!(repository.check(ReadData::All).unwrap().affected.is_empty());
}

/// The list of chunks is damaged in its middle.
#[test]
fn what_the_parent_can_no_longer_list_is_read() {
    let storage = Arc::new(ibid_storage::Memory::new());
    let settings = quick().chunker(Settings::Fixed(FixedSettings { size: 256 }));
    let repository = Repository::init(storage.clone(), Some(b"secret"), &settings).unwrap();
    let image = Image::new(&noise(1, 4_000_000));
    let path = image.path();
    backup(&repository, &path);
    let mut objects = support::damage::image(storage.as_ref());
    let is_list = |(name, bytes): &(&ibid_storage::Name, &mut Vec<u8>)| {
        support::damage::kind(name) == "packs" && (200_000..2_000_000).contains(&bytes.len())
    };
    let (_, list) = objects.iter_mut().find(is_list).unwrap();
    let middle = list.len() / 2;
    list[middle] ^= 1;

    let repository = support::damage::open(support::damage::storage(&objects)).unwrap();
    let warnings = Arc::new(AtomicU64::new(0));
    let monitor = Monitor::new({
        let warnings = warnings.clone();
        move |warning| {
            assert!(matches!(warning, Warning::Repository { .. }), "{warning:?}");
            warnings.fetch_add(1, Ordering::Relaxed);
        }
    });
    let repository = repository.watched_by(&Arc::new(monitor));
    let summary = with_map(&repository, &path, ChangedBlocks::default()).unwrap();
    assert_eq!(warnings.load(Ordering::Relaxed), 1);
    assert_eq!(summary.read_bytes + summary.taken_over_bytes, 4_000_000);
    assert!(
        summary.taken_over_bytes > 500_000 && summary.read_bytes > 500_000,
        "{summary:?}"
    );
    // The list is written anew where it was damaged; its other pieces are those of the parent.
    assert_eq!(summary.counters.new_bytes, summary.new_metadata_bytes, "{summary:?}");
}

/// A map that misses a change can't be noticed without reading. If it is, there is no snapshot.
#[test]
fn a_wrong_map_is_noticed_by_comparing_and_put_right_without_a_map() {
    let mut image = Image::new(&noise(1, 3_000_000));
    let (path, repository) = (image.path(), repository());
    std::thread::sleep(std::time::Duration::from_millis(50));
    backup(&repository, &path);
    let parent = repository.snapshot("latest").unwrap().id.to_string();
    image.write(1_500_000, b"missed");
    std::thread::sleep(std::time::Duration::from_millis(50));
    let options = options(&path)
        .parent(parent.clone())
        .changed_blocks(ChangedBlocks::default());
    match repository.backup(&options.clone().verify_unchanged(1.0)) {
        Err(Error::ChangedBlocks(ChangedBlocksError::Wrong {
            offset,
            length,
            parent: named,
        })) => {
            assert!((offset..offset + u64::from(length)).contains(&1_500_000));
            assert!(parent.starts_with(&named));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(repository.snapshots().unwrap().len(), 1);

    repository.backup(&options).unwrap();
    assert!(
        dump(&repository, &path) != std::fs::read(&path).unwrap(),
        "as documented"
    );
    // Its times are those of the file, and yet it is not taken for unchanged.
    let summary = backup(&repository, &path);
    assert_eq!((summary.unchanged_files, summary.read_bytes), (0, 3_000_000));
    assert!(dump(&repository, &path) == std::fs::read(&path).unwrap());
    // With force, the map is not used.
    image.write(2_500_000, b"missed");
    repository.backup(&options.force(true)).unwrap();
    assert!(dump(&repository, &path) == std::fs::read(&path).unwrap());
}

#[test]
fn a_share_of_what_is_unchanged_is_compared() {
    let image = Image::new(&noise(1, 8_000_000));
    let path = image.path();
    let repository = repository_with(Settings::for_average("argmin", 8 << 10).unwrap());
    backup(&repository, &path);
    let parent = repository.snapshot("latest").unwrap().id.to_string();
    let options = options(&path).parent(parent).changed_blocks(ChangedBlocks::default());
    for (share, expected) in [(0.0, 0..=0), (0.1, 400_000..=1_300_000), (1.0, 8_000_000..=8_000_000)] {
        let summary = repository.backup(&options.clone().verify_unchanged(share)).unwrap();
        assert!(expected.contains(&summary.read_bytes), "{share}: {summary:?}");
        assert_eq!(summary.taken_over_bytes, 8_000_000);
    }
}

/// New data in a hole shows without reading, so it is stored even if the map misses it.
#[test]
fn data_in_a_hole_of_the_parent_is_read_whatever_the_map_says() {
    let mut image = Image::new(&noise(1, 1_000_000));
    image.resize(50_000_000);
    let (path, repository) = (image.path(), repository());
    backup(&repository, &path);
    image.write(30_000_000, b"missed");
    with_map(&repository, &path, ChangedBlocks::default()).unwrap();
    assert!(dump(&repository, &path) == std::fs::read(&path).unwrap());
}

fn refusal(result: Result<BackupSummary, Error>) -> String {
    match result {
        Err(error) => error.to_string(),
        Ok(summary) => panic!("{summary:?}"),
    }
}

#[test]
fn a_map_is_used_only_with_the_parent_and_the_image_that_it_belongs_to() {
    let image = Image::new(&noise(1, 100_000));
    image.folder.write("new", b"not in the parent");
    std::os::unix::fs::symlink("image", image.folder.path().join("link")).unwrap();
    let (path, repository) = (image.path(), repository());
    let paths = ["image", "link"].map(|name| image.folder.path().join(name)).to_vec();
    let parent = repository
        .backup(&BackupOptions::default().paths(paths))
        .unwrap()
        .id
        .unwrap()
        .to_string();
    let with = |path: &Path, map: &str| {
        let map = ChangedBlocks::read(map.as_bytes()).unwrap();
        options(path).parent(parent.clone()).changed_blocks(map)
    };
    let refused = |options: BackupOptions| refusal(repository.backup(&options));
    let mentions = |said: String, part: &str| assert!(said.contains(part), "{said:?} lacks {part:?}");

    let two = with(&path, "end\n").path(image.folder.path());
    mentions(refused(two), "a backup of one file or device, and 2 paths were given");
    mentions(refused(with(&path, "end\n").paths(Vec::new())), "0 paths were given");
    mentions(
        refused(with(&path, "end\n").parent(None)),
        "needs the id of the snapshot",
    );
    for name in ["latest", "latest~1", &parent[..7]] {
        let said = refused(with(&path, "end\n").parent(name.to_owned()));
        mentions(
            said,
            &format!("the id of the snapshot that it is relative to, found {name:?}"),
        );
    }
    mentions(
        refused(with(&path, "end\n").parent("00000000".to_owned())),
        "no snapshot matches",
    );
    let said = refused(with(&path, "parent 00000000\nend\n"));
    mentions(
        said,
        &format!("relative to snapshot 00000000, and the parent given is {parent}"),
    );
    mentions(refused(with(&image.folder.path().join("new"), "end\n")), "has no ");
    mentions(refused(with(image.folder.path(), "end\n")), "the path is a directory");
    mentions(
        refused(with(&image.folder.path().join("link"), "end\n")),
        "the path is a symlink",
    );
    mentions(
        refused(with(&path, "size 1000000\nend\n")),
        "describes 1000000 bytes, and the image has 100000",
    );
    let said = refused(with(&path, "0 1\n131072 65536\n"));
    mentions(
        said,
        "a range at 131072, and the image never had more than 100000 bytes",
    );
    assert_eq!(repository.snapshots().unwrap().len(), 1);

    let whole = format!("parent {}\nsize 100000\nend\n", &parent[..8]);
    repository.backup(&with(&path, &whole)).unwrap();
    repository.backup(&with(&path, "65536 65536\n")).unwrap();
}

/// The parent's contents are of no one moment, so no map is relative to them.
#[test]
fn a_parent_in_which_the_file_changed_while_it_was_read_is_refused() {
    let image = Image::new(&noise(1, 40_000_000));
    let (path, repository) = (image.path(), repository());
    let done = AtomicBool::new(false);
    let parent = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                image.file.write_all_at(b"x", 0).unwrap();
            }
        });
        let marked = (0..20)
            .map(|_| repository.backup(&options(&path).force(true)).unwrap())
            .find(|summary| summary.counters.changed_while_read == 1);
        done.store(true, Ordering::Relaxed);
        marked.expect("no backup has noticed").id.unwrap()
    });
    let options = options(&path)
        .parent(parent.to_string())
        .changed_blocks(ChangedBlocks::default());
    let said = refusal(repository.backup(&options));
    assert!(said.contains("the file changed while snapshot"), "{said}");
}
