//! The index against a model, through every way of keeping chunks.

use std::collections::HashMap;
use std::sync::Arc;

use ibid_format::index::IndexedFrame;
use ibid_format::pack::PackKind;
use ibid_format::run::{RunPack, ShortId};
use ibid_format::{ChunkId, FileId};

use super::build::Building;
use super::frames::{Pack, Place};
use super::lookup::Index;
use super::memory::MemoryIndex;
use super::run::Run;
use crate::scratch::Scratch;

pub(super) fn id(n: u64) -> ChunkId {
    // SplitMix64 stands in for the hash: ids are uniform.
    let mut bytes = [0; 32];
    for (part, chunk) in bytes.chunks_mut(8).enumerate() {
        let mut z = (n * 4 + part as u64)
            .wrapping_add(1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        chunk.copy_from_slice(&(z ^ z >> 31).to_le_bytes());
    }
    ChunkId(bytes)
}

fn place(n: u64) -> Place {
    Place {
        frame: n as u32,
        slot: (n % 60_000) as u16,
    }
}

fn scratch(folder: &tempfile::TempDir) -> Scratch {
    Scratch::tiny(folder.path())
}

#[test]
fn exactly_the_inserted_entries_are_found() {
    let memory = MemoryIndex::new();
    for n in 0..50_000 {
        assert!(memory.get(&id(n)).is_none());
        memory.insert(&id(n), place(n), |_| false).unwrap();
        memory.insert(&id(n), place(0), |_| false).unwrap();
    }
    assert!((0..50_000).all(|n| memory.get(&id(n)) == Some(place(n))));
    assert!((50_000..60_000).all(|n| memory.get(&id(n)).is_none()));
    assert_eq!(memory.len(), 50_000);
    memory.clear();
    assert!((0..50_000).all(|n| memory.get(&id(n)).is_none()));
}

/// The design limit: at most 48 bytes of memory a chunk, at every size from a million chunks on.
#[test]
fn a_chunk_costs_at_most_48_bytes() {
    let memory = MemoryIndex::new();
    let mut worst: f64 = 0.0;
    for n in 0..3_000_000u64 {
        memory.insert(&id(n), place(n), |_| false).unwrap();
        if n >= 1_000_000 && n % 50_000 == 0 {
            worst = worst.max(memory.bytes() as f64 / (n + 1) as f64);
        }
    }
    assert!(worst <= 48.0, "{worst} bytes a chunk");
}

/// A few chunks take little memory in spite of 256 shards.
#[test]
fn a_small_index_is_small() {
    let memory = MemoryIndex::new();
    for n in 0..2000 {
        memory.insert(&id(n), place(0), |_| false).unwrap();
        assert!(
            memory.bytes() <= 200 * (n + 1),
            "{} bytes for {} chunks",
            memory.bytes(),
            n + 1
        );
    }
    assert!(memory.bytes() <= 90 * 2000, "{}", memory.bytes());
}

#[test]
fn chunks_are_found_by_the_first_bytes_of_their_ids() {
    let memory = MemoryIndex::new();
    assert_eq!(memory.find(id(0).prefix()), None);
    for n in 0..5000 {
        memory.insert(&id(n), place(n), |_| false).unwrap();
    }
    for n in 0..5000 {
        assert_eq!(memory.find(id(n).prefix()), Some((id(n), place(n))));
        let mut other = id(n).prefix();
        other.0[11] ^= 1;
        assert_eq!(memory.find(other), None);
    }
    // Two ids share the prefix: one is found, both are stored.
    let mut twin = id(7);
    twin.0[31] ^= 1;
    memory.insert(&twin, place(9), |_| false).unwrap();
    assert_eq!(memory.get(&twin), Some(place(9)));
    assert_eq!(memory.get(&id(7)), Some(place(7)));
    assert!(memory.find(twin.prefix()).is_some());
}

#[test]
fn ids_that_share_all_that_places_them_are_told_apart() {
    let memory = MemoryIndex::new();
    let alike = |n: u16| {
        let mut bytes = [0xFF; 32];
        bytes[30..].copy_from_slice(&n.to_le_bytes());
        ChunkId(bytes)
    };
    for n in 0..1000u16 {
        memory.insert(&alike(n), place(n.into()), |_| false).unwrap();
    }
    assert_eq!(memory.get(&alike(999)), Some(place(999)));
}

/// A frame of so many chunks, at a depth.
fn frame(offset: u32, blobs: u16, depth: u8) -> IndexedFrame {
    IndexedFrame {
        offset,
        sealed: 50,
        blobs,
        depth,
        length: 1,
    }
}

fn pack(n: u64) -> Pack {
    Pack {
        id: FileId(id(n).0[..16].try_into().unwrap()),
        kind: PackKind::Data,
        size: 1000,
        first_frame: 0,
    }
}

#[test]
fn of_two_copies_of_a_chunk_that_is_used_whose_frame_is_less_deep() {
    let folder = tempfile::tempdir().unwrap();
    let mut index = Index::new(scratch(&folder), Vec::new());
    let depths = |depths: &[u8]| -> Vec<IndexedFrame> { depths.iter().map(|&depth| frame(8, 1, depth)).collect() };
    assert!(!index.has_deltas());
    index.add_pack(pack(1), &depths(&[0, 0]));
    assert!(!index.has_deltas());
    assert_eq!(index.add_pack(pack(2), &depths(&[3, 1])), 2);
    assert!(index.has_deltas());
    let place = |frame| Place { frame, slot: 7 };
    for (frame, kept) in [(2, 2), (3, 3), (2, 3), (1, 1), (0, 1), (3, 1)] {
        index.insert_stored(&id(1), place(frame)).unwrap();
        assert_eq!(index.get(&id(1)), Some(place(kept)));
    }
    // Once it is lost, the others count.
    index.lose([1]);
    assert_eq!(index.get(&id(1)), Some(place(0)));
    index.lose([0, 3]);
    assert_eq!(index.get(&id(1)), Some(place(2)));
    assert_eq!(index.find(id(1).prefix()).unwrap().1, place(2));
    index.miss(1);
    assert_eq!(index.get(&id(1)), None);
    assert!(!index.contains(&id(1)));
    // It is stored again.
    index.insert(&id(1), place(9)).unwrap();
    assert_eq!(index.get(&id(1)), Some(place(9)));
}

/// Makes a run of packs of `frames` frames of 10 chunks each; chunks have the numbers in order, and
/// frames the depths 0 to 2.
fn run(scratch: &Scratch, numbers: std::ops::Range<u64>, absorbed: Option<Run>) -> Run {
    let mut building = Building::new(scratch, &scratch.folder, false, 0).unwrap();
    if let Some(run) = absorbed {
        building.absorb(Arc::new(run)).unwrap();
    }
    let chunks: Vec<u64> = numbers.collect();
    for chunks in chunks.chunks(300) {
        let frames: Vec<IndexedFrame> = chunks
            .chunks(10)
            .enumerate()
            .map(|(n, chunks)| frame(8 + 50 * n as u32, chunks.len() as u16, n as u8 % 3))
            .collect();
        let pack = pack(1_000_000 + chunks[0]);
        let pack = RunPack {
            id: pack.id,
            kind: pack.kind,
            size: pack.size,
            first_frame: 0,
        };
        let first = building.pack(&pack, &frames).unwrap();
        for (ordinal, n) in (first..).zip(chunks) {
            building.entry(&id(*n), ordinal).unwrap();
        }
    }
    building.finish(|_| true).unwrap()
}

#[test]
fn chunks_in_runs_in_memory_and_moved_from_memory_are_found_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let scratch = scratch(&folder);
    let first = run(&scratch, 0..5000, None);
    let second = run(&scratch, 5000..20_000, Some(first));
    let third = run(&scratch, 20_000..21_000, None);
    let mut index = Index::new(scratch, vec![Arc::new(second), Arc::new(third)]);
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "temporary files have no names"
    );

    let mut model = HashMap::new();
    // Every pack has 300 chunks, or fewer at the end of a range.
    let mut frames = 0;
    for range in [0..5000u64, 5000..20_000, 20_000..21_000] {
        for n in range.clone() {
            let (at, base) = ((n - range.start), frames);
            let (packs, rest) = (at / 300, at % 300);
            model.insert(
                n,
                Place {
                    frame: base + (packs * 30 + rest / 10) as u32,
                    slot: (rest % 10) as u16,
                },
            );
        }
        frames += (range.end - range.start).div_ceil(10) as u32;
    }
    assert_eq!(index.stored_frames(), frames);
    let start = index.add_pack(pack(7), &[frame(8, 500, 0)]);
    assert_eq!(start, frames);
    for n in 21_000..21_500u64 {
        let place = Place {
            frame: start,
            slot: (n - 21_000) as u16,
        };
        index.insert_stored(&id(n), place).unwrap();
        model.insert(n, place);
    }
    for n in 21_500..60_000u64 {
        if n % 10 == 0 {
            index.add_frame().unwrap();
        }
        assert!(!index.contains(&id(n)));
        let place = Place {
            frame: start + 1 + ((n - 21_500) / 10) as u32,
            slot: (n % 10) as u16,
        };
        index.insert(&id(n), place).unwrap();
        model.insert(n, place);
        if n % 100 == 0 {
            index.make_room().unwrap();
        }
    }
    assert!(index.bytes() < 3 << 20, "{} bytes", index.bytes());
    assert_eq!(index.len(), 60_000);
    for n in 0..70_000 {
        let expected = model.get(&n).copied();
        assert_eq!(index.get(&id(n)), expected, "chunk {n}");
        assert_eq!(index.contains(&id(n)), expected.is_some());
        let by_prefix = index.find(id(n).prefix());
        assert_eq!(by_prefix, expected.map(|place| (ShortId::of(&id(n)), place)));
        let mut twin = id(n).prefix();
        twin.0[11] ^= 1;
        assert_eq!(index.find(twin), None);
        if let Some(place) = expected
            && place.frame < start
        {
            assert_eq!(index.frame(place.frame).depth, (place.frame_in_pack() % 3) as u8);
            assert_eq!(index.ordinal(place), n, "chunks are numbered in their order");
        }
    }
    // A pack that is missing takes its chunks with it, and no others.
    index.miss(3);
    for n in 0..21_000 {
        let frame = model[&n].frame;
        assert_eq!(index.contains(&id(n)), !index.frames_of(3).contains(&frame));
        assert_eq!(index.frame(frame).pack == 3, index.frames_of(3).contains(&frame));
    }
}

impl Place {
    /// Returns the number of its frame in the pack, in the runs above.
    fn frame_in_pack(self) -> u32 {
        match self.frame {
            0..500 => self.frame % 30,
            500..2000 => (self.frame - 500) % 30,
            _ => (self.frame - 2000) % 30,
        }
    }
}

#[test]
fn an_index_on_disk_takes_less_than_20_bytes_a_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let scratch = scratch(&folder);
    let run = run(&scratch, 0..300_000, None);
    let each = run.trailer.size() as f64 / 300_000.0;
    assert!(each < 20.0, "{each} bytes");
}
