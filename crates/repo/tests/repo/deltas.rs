//! Delta frames: they read back, and every kind of damage in one of them is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ibid_format::pack::{PackKind, PackSummary};
use ibid_repo::{BaseFault, Error, FAULTS_MAX, MEMORY_DEFAULT, MEMORY_MIN, ReadData, Repository, RestoreOptions};
use ibid_storage::{Memory, Name, Storage};

use crate::support;
use crate::support::damage::{Image, Scene, check_all, image, kind, names_fault, open, storage};
use crate::support::deltas::{Frame, Writer, chains, rewrite};
use crate::support::reads::Reads;
use crate::support::{Folder, Random, backup, contents, difference, noise, quick, scratch};

const DEPTH: u8 = 8;

impl Scene {
    /// Returns the scene with chains of frames of depth 8, whose bases are in other packs.
    fn with_chains() -> Scene {
        let mut scene = Scene::new();
        scene.image = rewrite(&scene.image, |chunks| chains(&chunks, 2, DEPTH, 4));
        scene
    }
}

#[test]
fn chains_of_depth_eight_across_packs_read_back() {
    let scene = Scene::with_chains();
    let report = scene.judge(&scene.image, "chains").unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn every_byte_of_a_chain_matters_and_none_gives_a_wrong_one() {
    let scene = Scene::with_chains();
    let mut random = Random(1);
    for name in scene.names("packs") {
        let length = scene.image[&name].len();
        for _ in 0..12 {
            let (at, bit) = (random.below(length as u64) as usize, random.below(8));
            let context = format!("bit {bit} of byte {at} of {length} of {name} flipped");
            let image = scene.with(|image| image.get_mut(&name).unwrap()[at] ^= 1 << bit);
            let report = scene.judge(&image, &context).unwrap();
            names_fault(&report, &name, &context);
            assert_eq!(report.faults.len(), 1, "{context}: {:?}", report.faults);
        }
    }
}

/// The directory is gone with the end of a pack, so the frames themselves have to say what they are encoded
/// against.
#[test]
fn what_depends_on_the_lost_end_of_a_pack_is_lost_with_it_and_nothing_else() {
    let scene = Scene::with_chains();
    let mut random = Random(2);
    for name in scene.names("packs") {
        let length = scene.image[&name].len();
        let frames = Writer::of(storage(&scene.image)).directory(&name).frames;
        let end = frames.last().map_or(8, |frame| (frame.offset + frame.sealed) as usize);
        for cut in [length - 1, length - 1 - random.below(length as u64 - 1) as usize] {
            let context = format!("{name} is cut to {cut} of {length} bytes");
            let image = scene.with(|image| image.get_mut(&name).unwrap().truncate(cut));
            let report = scene.judge(&image, &context).unwrap();
            names_fault(&report, &name, &context);
            assert!(cut < end || report.affected_total == 0, "{context}: {report:?}");
        }
    }
}

/// Versions of a file that is larger than the cache, each in its own pack and encoded against the
/// version before.
#[test]
fn a_check_reads_each_frame_once_though_the_bases_of_a_pack_are_all_over_the_one_before() {
    const FRAMES: u64 = 64;
    let memory = Arc::new(Memory::new());
    Repository::init(memory.clone(), Some(b"secret"), &quick()).unwrap();
    let writer = Writer::of(memory.clone());
    let mut chunks: Vec<Vec<u8>> = (0..FRAMES).map(|n| noise(n, 512 << 10)).collect();
    let first = chunks.iter().map(|chunk| Frame::whole(std::slice::from_ref(chunk)));
    let mut packs = vec![writer.pack(&first.collect::<Vec<_>>())];
    for depth in 1..=3 {
        let next = chunks.iter_mut().map(|chunk| {
            let base = chunk.clone();
            chunk[usize::from(depth)] ^= 1;
            Frame::delta(std::slice::from_ref(chunk), depth, &[&base])
        });
        packs.push(writer.pack(&next.collect::<Vec<_>>()));
    }
    writer.index(&packs);
    let all_reads = |is_remote| {
        let reads = Arc::new(Reads::of(memory.clone(), is_remote));
        let repository = Repository::open(reads.clone(), Some(b"secret"))
            .and_then(|repository| repository.with_memory(MEMORY_MIN))
            .unwrap();
        let report = repository.check(ReadData::All).unwrap();
        assert!(report.is_clean(), "{report:?}");
        reads.take()
    };
    // The first bytes, the trailer and the directory of each pack are read too.
    let near = all_reads(false);
    assert_eq!(near.len() as u64, (FRAMES + 3) * packs.len() as u64);
    let starts: BTreeSet<_> = near.iter().map(|(name, range)| (name, range.start)).collect();
    assert_eq!(starts.len(), near.len(), "each once");
    // Over a network frames come together, and the directory of a pack comes with what lies before it.
    let far = all_reads(true);
    assert!(far.len() < near.len() / 2, "{} and {}", far.len(), near.len());
    for pack in &packs {
        let hex = pack.id.to_string();
        let name = Name::new(&format!("packs/{}/{hex}", &hex[..2])).unwrap();
        let of_frames = far
            .iter()
            .filter(|(read, range)| *read == name && range.end < pack.size);
        for frame in &pack.frames {
            let start = u64::from(frame.offset);
            let reads = of_frames.clone().filter(|(_, range)| range.contains(&start));
            assert_eq!(reads.count(), 1, "{name} at {start}");
        }
    }
}

/// Versions of a file whose frames take more than the least memory once they are decoded, as far as their sizes tell.
#[test]
fn what_a_restore_fetches_is_kept_on_the_disk_where_memory_may_be_too_small_for_it() {
    const LENGTH: usize = 24 << 20;
    let memory = Arc::new(Memory::new());
    let here = Repository::init(memory.clone(), Some(b"secret"), &quick()).unwrap();
    let folder = Folder::scratch();
    let mut bytes = noise(1, LENGTH);
    let mut summary = None;
    for version in 0..2 {
        bytes.iter_mut().step_by(100_000).for_each(|byte| *byte ^= version);
        folder.write("file", &bytes);
        summary = Some(backup(&here, folder.path()));
    }
    assert!(summary.is_some_and(|summary| summary.deltas.chunks > 100));
    let received_again = |budget| {
        let storage = Arc::new(Reads::of(memory.clone(), true));
        let cache = scratch();
        let received = [0, 1].map(|_| {
            let far = Repository::open(storage.clone(), Some(b"secret"))
                .and_then(|far| far.with_cache(cache.path()).with_memory(budget))
                .unwrap();
            let out = scratch();
            let snapshot = far.snapshot("latest").unwrap();
            let options = RestoreOptions::default();
            far.restore(snapshot.at(folder.path()), out.path(), &options).unwrap();
            assert_eq!(difference(&contents(folder.path()), &contents(out.path())), None);
            let read = storage.take();
            let bytes: u64 = read.iter().map(|(_, range)| range.end - range.start).sum();
            bytes
        });
        assert!(received[0] > LENGTH as u64);
        received[1]
    };
    assert!(received_again(MEMORY_MIN) < 1 << 20);
    assert!(received_again(MEMORY_DEFAULT) > LENGTH as u64);
}

/// While a pack is missing, a repository that has stored its contents again keeps loading this way.
#[test]
fn as_long_as_a_pack_is_missing_each_load_reads_every_listed_directory_once() {
    let scene = Scene::with_chains();
    for lost in packs_of(&scene.image, |summary| summary.kind == PackKind::Data) {
        let memory = storage(&scene.with(|image| drop(image.remove(&lost))));
        // A pack that no index file lists, and that also lacks a base.
        let writer = Writer::of(memory.clone());
        writer.pack(&[Frame::delta(&[noise(7, 5000)], 1, &[&noise(8, 5000)])]);
        let sizes: BTreeMap<Name, u64> = image(memory.as_ref())
            .into_iter()
            .map(|(name, bytes)| (name, bytes.len() as u64))
            .collect();
        for is_remote in [false, true] {
            let reads = Arc::new(Reads::of(memory.clone(), is_remote));
            let repository = Repository::open(reads.clone(), Some(b"secret")).unwrap();
            let snapshot = repository.snapshot("latest").unwrap();
            repository.dump(snapshot.at("nowhere"), &mut Vec::new()).unwrap_err();
            let mut trailers: BTreeMap<Name, u32> = BTreeMap::new();
            for (name, range) in reads.take() {
                if kind(&name) == "packs" && range.end == sizes[&name] {
                    *trailers.entry(name).or_default() += 1;
                }
            }
            let mut trailers: Vec<u32> = trailers.into_values().collect();
            trailers.sort_unstable();
            assert_eq!(
                trailers,
                [1, 1, 1, 2],
                "three packs that are listed and have deltas, and the other, for its chunks and for their bases"
            );
        }
    }
}

/// Returns the packs that hold the frames of a depth.
fn packs_of(image: &Image, is_wanted: impl Fn(&PackSummary) -> bool) -> Vec<Name> {
    let writer = Writer::of(storage(image));
    let packs = image.keys().filter(|name| kind(name) == "packs");
    packs
        .filter(|name| is_wanted(&writer.directory(name)))
        .cloned()
        .collect()
}

#[test]
fn a_damaged_frame_is_one_fault_that_says_how_many_depend_on_it() {
    let scene = Scene::with_chains();
    let mut most = 0;
    for name in packs_of(&scene.image, |summary| summary.frames[0].depth == 0) {
        let image = scene.with(|image| image.get_mut(&name).unwrap()[40] ^= 1);
        let repository = open(storage(&image)).unwrap();
        let report = check_all(&repository, name.as_str());
        assert_eq!(report.faults.len(), 1, "{:?}", report.faults);
        let fault = &report.faults[0];
        assert_eq!(fault.object, name.as_str());
        let count = fault.problem.split("; ").nth(1).and_then(|text| text.split(' ').next());
        most = most.max(count.map_or(0, |count| count.parse().unwrap_or(1)));
        // With half of the packs or none read, the faulty frame is named although it was not read.
        for seed in 0..4 {
            let share = ReadData::Share { share: 0.4, seed };
            let report = repository.check(share).unwrap();
            assert!(report.faults.iter().all(|fault| fault.object == name.as_str()));
            assert!(report.faults.len() <= 1, "{:?}", report.faults);
        }
    }
    assert_eq!(most, usize::from(DEPTH));
}

#[test]
fn a_lost_pack_is_one_fault_that_says_how_many_frames_depend_on_it() {
    let scene = Scene::with_chains();
    for name in packs_of(&scene.image, |summary| summary.kind == PackKind::Data) {
        let image = scene.with(|image| drop(image.remove(&name)));
        for read in [ReadData::No, ReadData::All] {
            let repository = open(storage(&image)).unwrap();
            let report = repository.check(read).unwrap();
            assert_eq!(report.faults.len(), 1, "{:?}", report.faults);
            assert_eq!(report.faults[0].object, name.as_str());
            assert!(
                report.faults[0]
                    .problem
                    .contains(" frames are stored as deltas against it"),
                "{report:?}"
            );
        }
        let report = scene.judge(&image, &format!("{name} is gone")).unwrap();
        // Without an index file that lists the pack, the packs that lack bases are named.
        let image = scene.with(|image| image.retain(|other, _| *other != name && kind(other) != "index"));
        let unlisted = scene.judge(&image, &format!("{name} and the index are gone")).unwrap();
        assert_eq!(unlisted.affected_total, report.affected_total);
        assert!(
            unlisted
                .faults
                .iter()
                .any(|fault| fault.problem.contains("encoded against chunks")),
            "{unlisted:?}"
        );
    }
}

#[test]
fn deltas_against_a_lost_pack_are_stored_again() {
    let scene = Scene::with_chains();
    for name in packs_of(&scene.image, |summary| summary.kind == PackKind::Data) {
        let memory = storage(&scene.with(|image| drop(image.remove(&name))));
        let repository = open(memory.clone()).unwrap();
        let summary = support::backup(&repository, scene.folder.path());
        assert!(summary.counters.new_chunks > 0);
        let now = image(memory.as_ref());
        let (repository, out) = (open(storage(&now)).unwrap(), scratch());
        let snapshot = repository.snapshot(&summary.id.unwrap().to_string()).unwrap();
        let options = RestoreOptions::default();
        let restored = repository.restore(snapshot.at(scene.folder.path()), out.path(), &options);
        assert_eq!(restored.unwrap().failed, 0);
        assert_eq!(difference(&contents(scene.folder.path()), &contents(out.path())), None);
        // The old snapshots lack only contents that the source no longer has, and the check reports
        // that.
        let report = scene.judge(&now, "after another backup").unwrap();
        let lost = report.affected.iter().map(|affected| affected.path.clone());
        assert!(lost.into_iter().all(|path| path.ends_with("new")), "{report:?}");
    }
}

/// Builds the same scene with a first frame of three chunks, a second one that needs its first
/// chunk, and all others without bases.
fn three(draw: impl Fn(&[Vec<u8>], &mut Frame, &mut Frame)) -> (Scene, Vec<Vec<u8>>, Image) {
    let scene = Scene::new();
    let mut taken = Vec::new();
    let image = rewrite(&scene.image, |chunks| {
        let mut first = Frame::whole(&chunks[..3]);
        let mut second = Frame::delta(&chunks[3..5], 1, &[&chunks[0]]);
        draw(&chunks, &mut first, &mut second);
        taken = chunks.clone();
        vec![vec![second], vec![first, Frame::whole(&chunks[5..])]]
    });
    (scene, taken, image)
}

/// Reads a chunk through a file that consists of this chunk.
fn read(image: &Image, chunk: &[u8]) -> Result<Vec<u8>, Error> {
    let writer = Writer::of(storage(image));
    let snapshot = writer.snapshot_of(chunk);
    let repository = open(writer.storage.clone()).unwrap();
    let info = repository.snapshot(&snapshot.to_string()).unwrap();
    let mut out = Vec::new();
    repository.dump(info.at("file"), &mut out)?;
    Ok(out)
}

#[track_caller]
fn base_fault(result: Result<Vec<u8>, Error>) -> (u8, BaseFault) {
    match result {
        Err(Error::BaseUnreadable { steps, fault, .. }) => (steps, fault),
        Ok(bytes) => panic!("{} bytes", bytes.len()),
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn a_base_is_read_back_and_the_deltas_against_it() {
    let (scene, chunks, image) = three(|_, _, _| {});
    assert!(scene.judge(&image, "good").unwrap().is_clean());
    for chunk in &chunks[..5] {
        assert!(read(&image, chunk).unwrap() == *chunk);
    }
}

#[test]
fn a_base_that_is_in_no_pack() {
    let (scene, chunks, image) = three(|_, _, second| second.bases = vec![(noise(99, 5000), 0..5000)]);
    let (steps, fault) = base_fault(read(&image, &chunks[3]));
    assert!(matches!((steps, &fault), (0, BaseFault::Missing)), "{fault}");
    assert!(read(&image, &chunks[0]).is_ok());
    assert!(!scene.judge(&image, "missing").unwrap().is_clean());
}

#[test]
fn a_base_that_ends_before_the_piece() {
    let (scene, chunks, image) = three(|chunks, _, second| {
        let length = chunks[0].len();
        second.bases = vec![(chunks[0].clone(), 0..length), (chunks[0].clone(), 1..length + 1)];
    });
    let (end, length) = (chunks[0].len() as u64 + 1, chunks[0].len() as u32);
    match base_fault(read(&image, &chunks[4])) {
        (0, BaseFault::TooShort { end: e, length: l }) => assert_eq!((e, l), (end, length)),
        other => panic!("{other:?}"),
    }
    assert!(!scene.judge(&image, "too short").unwrap().is_clean());
}

#[test]
fn a_base_with_other_bytes_than_its_id_says() {
    let (scene, chunks, image) = three(|chunks, first, _| {
        let mut lie = chunks[..3].to_vec();
        lie[0][17] ^= 1;
        first.lie = Some(lie);
    });
    let (steps, fault) = base_fault(read(&image, &chunks[3]));
    assert!(matches!((steps, &fault), (0, BaseFault::Damaged { .. })), "{fault}");
    let direct = read(&image, &chunks[0]);
    assert!(matches!(direct, Err(Error::ChunkDamaged { .. })), "{direct:?}");
    // Its neighbours are intact.
    assert!(read(&image, &chunks[1]).unwrap() == chunks[1]);
    assert!(!scene.judge(&image, "another chunk").unwrap().is_clean());
}

#[test]
fn a_base_whose_frame_is_damaged_and_one_behind_that() {
    let scene = Scene::new();
    let mut taken = Vec::new();
    let image = rewrite(&scene.image, |chunks| {
        taken = chunks.clone();
        let second = Frame::delta(&chunks[1..2], 1, &[&chunks[0]]);
        let third = Frame::delta(&chunks[2..3], 2, &[&chunks[1]]);
        let fourth = Frame::delta(&chunks[3..4], 3, &[&chunks[2]]);
        let first = Frame::whole(&chunks[..1]);
        vec![
            vec![fourth, third, second],
            vec![first],
            vec![Frame::whole(&chunks[4..])],
        ]
    });
    let writer = Writer::of(storage(&image));
    let id = writer.keys.chunk_id(&taken[0]);
    let held = |name: &ibid_storage::Name| {
        let summary = writer.directory(name);
        summary.frames[0].blobs[0].id == id
    };
    let mut names = image.keys().filter(|name| kind(name) == "packs");
    let name = names.find(|name| held(name)).unwrap().clone();
    let mut bad = image.clone();
    bad.get_mut(&name).unwrap()[40] ^= 1;
    for (chunk, expected) in [(1, 0), (2, 1), (3, 2)] {
        let result = read(&bad, &taken[chunk]);
        let text = result.as_ref().map(Vec::len).unwrap_err().to_string();
        assert!(
            text.contains(name.last_segment()) && text.contains("at offset 8"),
            "{text}"
        );
        match base_fault(result) {
            (steps, BaseFault::Unreadable { offset: 8, .. }) => assert_eq!(steps, expected),
            other => panic!("{other:?}"),
        }
    }
    assert!(read(&bad, &taken[4]).is_ok());
    scene.must_notice(&bad, &name, "the first of a chain is damaged");
}

#[test]
fn frames_that_need_each_other_are_refused_at_once() {
    for depths in [(1, 1), (1, 2), (16, 16), (2, 1), (15, 16)] {
        let (scene, chunks, image) = three(|chunks, first, second| {
            *first = Frame::delta(&chunks[..3], depths.0, &[&chunks[3]]);
            *second = Frame::delta(&chunks[3..5], depths.1, &[&chunks[1]]);
        });
        for chunk in [&chunks[0], &chunks[3]] {
            let (_, fault) = base_fault(read(&image, chunk));
            assert!(matches!(fault, BaseFault::TooDeep { .. }), "{depths:?}: {fault}");
        }
        assert!(!scene.judge(&image, "a circle").unwrap().is_clean());
    }
}

/// Two concurrent backups may store the same chunk, once whole and once at the end of a chain:
/// other frames use the first.
#[test]
fn of_two_copies_the_less_deep_one_is_read() {
    let scene = Scene::new();
    let mut taken = Vec::new();
    let image = rewrite(&scene.image, |chunks| {
        taken = chunks.clone();
        // This would be a cycle if the deeper copy of the first chunk were used.
        let deep = Frame::delta(&chunks[..1], 2, &[&chunks[1]]);
        let next = Frame::delta(&chunks[1..2], 1, &[&chunks[0]]);
        vec![
            vec![deep],
            vec![next],
            vec![Frame::whole(&chunks[..1]), Frame::whole(&chunks[2..])],
        ]
    });
    assert!(scene.judge(&image, "two copies").unwrap().is_clean());
    for chunk in &taken[..3] {
        assert!(read(&image, chunk).unwrap() == *chunk);
    }
    // The order in which the packs are found does not matter.
    let mut image = image;
    image.retain(|name, _| kind(name) != "index");
    assert!(scene.judge(&image, "two copies, found in packs").unwrap().is_clean());
}

/// A backup after a loss may find that a lost chunk resembles another one. `docs/durability.md`
/// says to make the first backup without deltas.
#[test]
fn a_base_that_is_stored_again_serves_unless_it_lies_deeper_than_who_needs_it() {
    let (scene, chunks, image_before) = three(|_, _, _| {});
    let base = &chunks[0];
    let held = |summary: &PackSummary| {
        summary
            .frames
            .iter()
            .any(|frame| frame.blobs.len() == 3 && frame.depth == 0)
    };
    let lost = packs_of(&image_before, held).remove(0);
    let memory = storage(&image_before);
    memory.delete(&lost).unwrap();
    let writer = Writer::of(memory.clone());
    let again = |frames: &[Frame]| {
        writer.index(&[writer.pack(frames)]);
        image(memory.as_ref())
    };
    let base_whole = Frame::whole(std::slice::from_ref(base));
    let like_it = Frame::whole(&[noise(99, 5000)]);
    let base_delta = Frame::delta(&base_whole.chunks, 1, &[&like_it.chunks[0]]);
    let deeper = again(&[like_it, base_delta]);
    assert!(read(&deeper, base).unwrap() == *base);
    let faults = scene.judge(&deeper, "stored again, deeper").unwrap().faults;
    assert!(faults.iter().any(|fault| fault.object == lost.as_str()), "{faults:?}");
    assert!(matches!(read(&deeper, &chunks[3]), Err(Error::ChunkMissing { .. })));
    let whole = again(&[base_whole]);
    assert!(read(&whole, &chunks[3]).unwrap() == chunks[3]);
}

#[test]
fn statistics_say_how_deep_frames_are_and_what_reading_a_chunk_costs() {
    let scene = Scene::new();
    let mut lengths = [0; 3];
    let image = rewrite(&scene.image, |chunks| {
        let (whole, rest) = (&chunks[..3], &chunks[5..]);
        let first = Frame::delta(&chunks[3..4], 1, &[&chunks[0], &chunks[1]]);
        // It needs the frame without bases in two ways, and counts it once.
        let second = Frame::delta(&chunks[4..5], 2, &[&chunks[3], &chunks[2]]);
        lengths = [whole, &chunks[3..4], &chunks[4..5]].map(|chunks| chunks.concat().len() as u64);
        vec![vec![second], vec![first], vec![Frame::whole(whole), Frame::whole(rest)]]
    });
    let repository = open(storage(&image)).unwrap();
    let stats = repository.stats(&[]).unwrap();
    let from_files = open(storage(&image)).unwrap().with_tiny_index().stats(&[]).unwrap();
    assert_eq!(stats.read_cost, from_files.read_cost, "the same from temporary files");
    let classes = &stats.frame_depths;
    assert_eq!(classes.len(), 3);
    assert_eq!(
        (classes[1].frames, classes[1].chunks, classes[1].bytes),
        (1, 1, lengths[1])
    );
    assert_eq!(
        (classes[2].frames, classes[2].chunks, classes[2].bytes),
        (1, 1, lengths[2])
    );
    let all: u64 = classes.iter().map(|class| class.chunks).sum();
    assert_eq!(all, stats.index_chunks);
    assert!(classes.iter().map(|class| class.packed).sum::<u64>() < stats.pack_bytes);
    let cost = stats.read_cost;
    assert_eq!(cost.frames_worst, 3);
    let frames = all + 1 + 2;
    assert!((cost.frames_mean - frames as f64 / all as f64).abs() < 1e-9, "{cost:?}");
    assert!(cost.bytes_worst >= lengths.iter().sum() && cost.bytes_mean < cost.bytes_worst);

    let empty = support::repository().stats(&[]).unwrap();
    assert_eq!((empty.frame_depths.len(), empty.read_cost.bytes_worst), (0, 0));
}

/// Beyond 10 000 faults, only their number is kept.
#[test]
fn of_very_many_damaged_frames_the_first_are_named_and_all_count() {
    let memory = Arc::new(Memory::new());
    Repository::init(memory.clone(), Some(b"secret"), &quick()).unwrap();
    let writer = Writer::of(memory.clone());
    let chunk = |n: usize| noise(n as u64, 40);
    const FRAMES: usize = FAULTS_MAX + 500;
    let lying = |n| Frame {
        lie: Some(vec![vec![0; 40]]),
        ..Frame::whole(&[chunk(n)])
    };
    let wrong = writer.pack(&(0..FRAMES).map(lying).collect::<Vec<_>>());
    // One frame for each of the first 100 and of the last 100.
    let dependents = (0..100).chain(FRAMES - 100..FRAMES);
    let delta = |n| Frame::delta(&[noise(1 << 40 | n as u64, 40)], 1, &[&chunk(n)]);
    let deltas = writer.pack(&dependents.map(delta).collect::<Vec<_>>());
    writer.index(&[wrong, deltas]);
    let repository = Repository::open(memory, Some(b"secret")).unwrap();
    let report = repository.check(ReadData::All).unwrap();
    assert_eq!(report.faults.len(), FAULTS_MAX);
    assert_eq!(report.faults_total, FRAMES as u64);
    assert!(!report.is_clean());
}
