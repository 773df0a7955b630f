//! Repairs of damaged repositories, on a disk that crashes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ibid_repo::{CheckReport, ReadData, RepairOptions, Repository};
use ibid_storage::fault::FaultDisk;
use ibid_storage::{Local, Name, Storage};

use super::Random;
use super::crash::PLACE;
use super::damage::{Image, Scene, open, place, storage};
use super::deltas::Writer;
use super::place::reached;

/// Returns the files that a check has called affected.
pub fn affected(report: &CheckReport) -> BTreeSet<(String, PathBuf)> {
    let of = |affected: &ibid_repo::Affected| (affected.snapshot.to_string(), affected.path.clone());
    report.affected.iter().map(of).collect()
}

/// Damage to a pack: in its first bytes, a frame, its directory or its trailer, or of its length.
pub const KINDS_OF_DAMAGE: u64 = 8;

pub fn damage_pack(image: &mut Image, name: &Name, kind: u64, random: &mut Random) -> String {
    let frames = Writer::of(storage(image)).directory(name).frames;
    let bytes = image.get_mut(name).unwrap();
    let frame = &frames[random.below(frames.len() as u64) as usize];
    let end = frames.last().map_or(8, |frame| frame.offset + frame.sealed) as usize;
    let length = bytes.len();
    let mut flip = |at: usize| {
        bytes[at] ^= 1;
        format!("byte {at} of {length} of {name} is flipped")
    };
    match kind {
        0 => flip(3),
        1 => flip(frame.offset as usize + random.below(frame.sealed.into()) as usize),
        2 => flip(end + random.below((length - end - 56) as u64) as usize),
        3 => flip(length - 1 - random.below(56) as usize),
        4 => {
            bytes.resize(length + 5, 1);
            format!("{name} is longer")
        }
        5 => {
            bytes.truncate(end + 1);
            format!("{name} has lost its directory")
        }
        6 => {
            let cut = frame.offset as usize + 1;
            bytes.truncate(cut);
            format!("{name} is cut to {cut} of {length}")
        }
        _ => {
            image.remove(name);
            format!("{name} is missing")
        }
    }
}

/// Puts an image on a disk.
fn disk_with(image: &Image, seed: u64) -> FaultDisk {
    let disk = FaultDisk::new(seed);
    let place = Local::create_on(disk.clone(), PLACE).unwrap();
    for (name, bytes) in image {
        place.put(name, &[bytes]).unwrap();
    }
    disk
}

fn open_on(disk: &FaultDisk) -> Repository {
    let place = reached(Local::open_on(disk.clone(), PLACE).unwrap());
    Repository::open(place, Some(b"secret")).unwrap()
}

/// A repository with several damaged packs and perhaps a damaged index file.
pub struct Case {
    image: Image,
    what: String,
    before: BTreeSet<(String, PathBuf)>,
    /// Result of a repair that nothing cuts short.
    expected: CheckReport,
}

impl Case {
    pub fn new(scene: &Scene, seed: u64) -> Case {
        let mut random = Random(seed);
        let mut image = scene.image.clone();
        let mut packs = scene.names("packs");
        let mut what = format!("seed {seed}");
        for _ in 0..1 + random.below(4) {
            let pack = packs.swap_remove(random.below(packs.len() as u64) as usize);
            let kind = random.below(KINDS_OF_DAMAGE);
            what += &format!(", {}", damage_pack(&mut image, &pack, kind, &mut random));
        }
        let indexes = scene.names("index");
        if let Some(index) = indexes.get(random.below(1 + indexes.len() as u64) as usize) {
            image.get_mut(index).unwrap()[200] ^= 1;
            what += &format!(", {index} is damaged");
        }
        let before = affected(&open(place(&image)).unwrap().check(ReadData::All).unwrap());
        let repaired = open(place(&image)).unwrap().repair(&RepairOptions::default());
        Case {
            image,
            what,
            before,
            expected: repaired.unwrap().check,
        }
    }

    /// Repairs it, and crashes before operation `at` of the repair. Then nothing more may be lost, and another
    /// repair completes the first one. Returns whether the first one was done by then.
    pub fn cut_short(&self, at: u64, seed: u64) -> bool {
        let context = format!("{}, cut short at {at}", self.what);
        let disk = disk_with(&self.image, seed);
        let repository = open_on(&disk);
        disk.crash_at(disk.operations() + at);
        let is_done = repository.repair(&RepairOptions::default()).is_ok();
        drop(repository);
        let disk = match seed % 3 {
            0 => disk.restart(),
            _ => disk.crash(seed),
        };
        let repository = open_on(&disk);
        let report = repository.check(ReadData::All).unwrap();
        let more: Vec<_> = affected(&report).difference(&self.before).cloned().collect();
        assert!(more.is_empty(), "{context}: {more:?} could be read before");
        let report = repository.repair(&RepairOptions::default()).unwrap().check;
        assert_eq!(affected(&report), affected(&self.expected), "{context}");
        assert_eq!(report.faults_total, self.expected.faults_total, "{context}: {report:?}");
        is_done
    }
}
