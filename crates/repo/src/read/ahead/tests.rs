use ibid_format::pack;
use ibid_storage::fault::{Flaky, ObjectFault};
use ibid_storage::{ErrorKind, Memory, Operation, Storage};

use super::super::reader::{ChunkReader, FrameReader};
use super::*;
use crate::testing::put_pack;
use crate::{InitOptions, Repository};

/// A cache that holds all frames of a test.
const CACHE: u64 = 1 << 20;

fn repository() -> (Arc<Flaky<Memory>>, Repository) {
    let storage = Arc::new(Flaky::new(Memory::new()));
    let repository = Repository::init(storage.clone(), Some(b"secret"), &InitOptions::quick()).unwrap();
    (storage, repository)
}

/// Returns 1000 bytes, different ones for each pair of numbers.
fn chunk(pack: u32, number: u32) -> Vec<u8> {
    [&pack.to_le_bytes()[..], &number.to_le_bytes(), &[7; 992]].concat()
}

/// Returns a repository with packs of so many frames, each with one chunk.
fn packs(count: u32, frames: u32) -> (Arc<Flaky<Memory>>, Repository) {
    let (storage, repository) = repository();
    for pack in 0..count {
        let chunks: Vec<_> = (0..frames).map(|number| (chunk(pack, number), vec![])).collect();
        put_pack(&*storage, &repository, &chunks, 0);
    }
    (storage, repository)
}

fn reader(repository: &Repository, room: u64) -> ChunkReader<'_> {
    ChunkReader::new(&repository.files, repository.loaded().unwrap(), CACHE).fetching_ahead(room)
}

/// Returns the plaintext of a frame, as the storage has it.
fn direct(reader: &ChunkReader<'_>, number: u32) -> Vec<u8> {
    let frame = reader.loaded.index.frame(number);
    let pack = reader.loaded.index.pack(frame.pack);
    let mut bytes = vec![0; frame.sealed as usize];
    let name = name_in(folder::PACKS, pack.id);
    reader
        .files
        .storage
        .read_at(&name, frame.offset.into(), &mut bytes)
        .unwrap();
    pack::open_frame(&reader.files.keys, pack.id, frame.offset, &mut bytes)
        .unwrap()
        .to_vec()
}

fn taken(reader: &ChunkReader<'_>, number: u32) -> Option<Vec<u8>> {
    let mut bytes = vec![0xee; 5];
    let taken = ahead(reader).take(source(reader), number, &mut bytes)?;
    bytes.truncate(taken.length);
    Some(bytes)
}

fn source<'r>(reader: &'r ChunkReader<'_>) -> FrameSource<'r> {
    FrameSource {
        files: reader.files,
        loaded: &reader.loaded,
        cache: Some(&reader.cache),
        keeps: false,
    }
}

fn ahead<'r>(reader: &'r ChunkReader<'_>) -> &'r Ahead {
    reader.ahead.as_ref().unwrap()
}

/// Calls `work` while threads fetch.
fn fetching(reader: &ChunkReader<'_>, work: impl FnOnce(&Ahead)) {
    let ahead = ahead(reader);
    let work = || {
        work(ahead);
        Ok(())
    };
    ahead.while_fetching(source(reader), work).unwrap();
}

fn assert_empty(ahead: &Ahead) {
    let state = ahead.lock();
    assert_eq!((state.parts.len(), state.frames.len(), state.owned.len()), (0, 0, 0));
    assert_eq!((state.bytes(), state.found_bytes, state.coming), (0, 0, 0));
}

#[test]
fn neighbours_come_with_one_request_and_every_frame_is_right() {
    let (storage, repository) = packs(3, 20);
    let reader = reader(&repository, 1 << 20);
    // Of each pack every second one, so that there are gaps; the packs in turn.
    let frames: Vec<u32> = (0..10).flat_map(|at| [0, 20, 40].map(|first| first + 2 * at)).collect();
    let before = storage.counts().read_at;
    fetching(&reader, |ahead| {
        ahead.plan(source(&reader), &frames);
        let all: Vec<Option<Vec<u8>>> = frames.iter().map(|number| taken(&reader, *number)).collect();
        assert_eq!(storage.counts().read_at - before, 3);
        for (number, bytes) in frames.iter().zip(all) {
            assert!(bytes == Some(direct(&reader, *number)), "{number}");
            ahead.release(*number);
        }
    });
    assert_empty(ahead(&reader));
}

#[test]
fn what_came_between_frames_is_not_fetched_again() {
    let (storage, repository) = packs(2, 20);
    let reader = reader(&repository, 1 << 20);
    let (even, odd): (Vec<u32>, Vec<u32>) = (0..39).partition(|number| number % 2 == 0);
    fetching(&reader, |ahead| {
        for frames in [even, odd] {
            let before = storage.counts().read_at;
            let is_first = frames[0] == 0;
            ahead.plan(source(&reader), &frames);
            let all: Vec<Option<Vec<u8>>> = frames.iter().map(|number| taken(&reader, *number)).collect();
            // The last frame of the first pack was between none.
            assert_eq!(storage.counts().read_at - before, if is_first { 2 } else { 1 });
            for (number, bytes) in frames.iter().zip(all) {
                assert!(bytes == Some(direct(&reader, *number)), "{number}");
                ahead.release(*number);
            }
        }
    });
    assert_empty(ahead(&reader));
}

/// As by a restore, in which files that come later need a frame of one that was made before.
#[test]
fn a_frame_that_is_needed_again_is_not_fetched_again() {
    let (storage, repository) = packs(3, 20);
    let reader = reader(&repository, 1 << 20);
    let chunks: Vec<_> = (0..60).map(|number| chunk(number / 20, number % 20)).collect();
    let frames = frames_of(&reader.loaded, &repository, &chunks);
    let mut frame_reader = FrameReader::default();
    let before = storage.counts().read_at;
    fetching(&reader, |ahead| {
        for _ in 0..3 {
            ahead.plan(source(&reader), &frames);
            for (number, chunk) in frames.iter().zip(&chunks) {
                let opened = frame_reader.open(&reader, *number, None).unwrap();
                assert!(opened.chunk(0) == Some(chunk));
                ahead.release(*number);
            }
        }
    });
    assert_empty(ahead(&reader));
    assert_eq!(storage.counts().read_at - before, 3, "each pack once");
}

#[test]
fn what_is_fetched_has_its_room_and_nobody_waits_for_what_does_not_fit() {
    const ROOM: u64 = 80_000;
    // In order, and from the end, of which nothing has been fetched when there is no more room.
    let orders: [&dyn Fn(u32) -> u32; 2] = [&|at| at, &|at| 399 - at];
    for order in orders {
        let (storage, repository) = packs(1, 400);
        let reader = reader(&repository, ROOM);
        let before = storage.counts().read_at;
        let mut bytes = Vec::new();
        fetching(&reader, |ahead| {
            ahead.plan(source(&reader), &(0..400).collect::<Vec<_>>());
            for number in (0..400).map(order) {
                assert!(ahead.lock().bytes() <= ROOM + ROOM / REQUESTS as u64);
                if number % 3 > 0 {
                    bytes.push((number, taken(&reader, number)));
                }
                ahead.release(number);
            }
        });
        assert_empty(ahead(&reader));
        let requests = storage.counts().read_at - before;
        assert!(requests < 150, "{requests}");
        for (number, bytes) in bytes {
            assert!(bytes == Some(direct(&reader, number)), "{number}");
        }
    }
}

#[test]
fn what_is_taken_in_another_order_than_it_was_planned_takes_no_more_room() {
    const ROOM: u64 = 80_000;
    let (_, repository) = packs(1, 400);
    let reader = reader(&repository, ROOM);
    fetching(&reader, |ahead| {
        ahead.plan(source(&reader), &(0..400).collect::<Vec<_>>());
        // Many segments are begun with before the first is done with: some frames are left to the reader.
        for number in (0..400).map(|at| at * 37 % 400) {
            assert!(ahead.lock().bytes() <= ROOM + ROOM / REQUESTS as u64);
            let bytes = taken(&reader, number);
            assert!(bytes.is_none_or(|bytes| bytes == direct(&reader, number)), "{number}");
            ahead.release(number);
        }
    });
    assert_empty(ahead(&reader));
}

#[test]
fn what_can_not_be_fetched_is_left_to_the_reader_and_so_is_what_was_not_planned() {
    let (storage, repository) = packs(1, 10);
    let reader = reader(&repository, 1 << 20);
    let ahead = ahead(&reader);
    assert_eq!(taken(&reader, 0), None);
    ahead.plan(source(&reader), &[0, 1, 2]);
    storage.fail(Operation::ReadAt, 0, ObjectFault::Before(ErrorKind::Io));
    // No thread fetches: who needs it does.
    for number in 0..3 {
        assert_eq!(taken(&reader, number), None);
        ahead.release(number);
    }
    ahead.plan(source(&reader), &[0, 1, 2]);
    ahead.plan(source(&reader), &[2, 3]);
    for number in 0..4 {
        assert!(taken(&reader, number).is_some(), "{number}");
        assert_eq!(taken(&reader, number), None, "each is taken once");
        ahead.release(number);
    }
    assert_empty(ahead);
}

#[test]
fn a_frame_that_does_not_open_is_left_to_the_reader() {
    let (storage, repository) = packs(1, 3);
    let reader = reader(&repository, 1 << 20);
    let frame = reader.loaded.index.frame(1);
    let name = name_in(folder::PACKS, reader.loaded.index.pack(frame.pack).id);
    let mut bytes = storage.get(&name, 1 << 20).unwrap();
    bytes[frame.offset as usize + 20] ^= 1;
    storage.delete(&name).unwrap();
    storage.put(&name, &[&bytes]).unwrap();
    let ahead = ahead(&reader);
    ahead.plan(source(&reader), &[0, 1, 2]);
    assert_eq!(
        [0, 1, 2].map(|number| taken(&reader, number).is_some()),
        [true, false, true]
    );
    (0..3).for_each(|number| ahead.release(number));
    assert_empty(ahead);
}

/// Chunks, each in a frame of its own.
type Layer = Vec<Vec<u8>>;

/// Makes layers of frames, a pack for each, and returns the chunks of each layer. Every frame of a layer is encoded
/// against two of the layer below.
fn layers(count: u8, frames: u32) -> (Arc<Flaky<Memory>>, Repository, Vec<Layer>) {
    let (storage, repository) = repository();
    let mut layers: Vec<Layer> = Vec::new();
    for depth in 0..count {
        let frames: Vec<_> = (0..frames)
            .map(|number| match layers.last() {
                None => (chunk(0, number), vec![]),
                Some(below) => {
                    let bases = [number, (number + 1) % frames].map(|at| below[at as usize].clone());
                    let chunk = [&bases[0][..500], &[depth; 4], &number.to_le_bytes(), &bases[1][500..]].concat();
                    (chunk, bases.to_vec())
                }
            })
            .collect();
        put_pack(&*storage, &repository, &frames, depth);
        layers.push(frames.into_iter().map(|(chunk, _)| chunk).collect());
    }
    (storage, repository, layers)
}

/// Returns the frames of chunks.
fn frames_of(loaded: &LoadedIndex, repository: &Repository, chunks: &[Vec<u8>]) -> Vec<u32> {
    let frame = |chunk: &Vec<u8>| loaded.index.get(&repository.files.keys.chunk_id(chunk)).unwrap().frame;
    chunks.iter().map(frame).collect()
}

#[test]
fn bases_and_their_bases_come_with_one_request_for_each_depth() {
    let (storage, repository, layers) = layers(5, 20);
    let reader = reader(&repository, 1 << 20);
    let top = layers.last().unwrap();
    let frames = frames_of(&reader.loaded, &repository, top);
    let before = storage.counts().read_at;
    fetching(&reader, |ahead| {
        ahead.plan(source(&reader), &frames);
        let mut frame_reader = FrameReader::default();
        for (number, chunk) in frames.iter().zip(top) {
            let opened = frame_reader.open(&reader, *number, None).unwrap();
            assert!(opened.chunk(0) == Some(chunk));
            ahead.release(*number);
        }
    });
    assert_eq!(storage.counts().read_at - before, 5);
    assert_empty(ahead(&reader));
}

#[test]
fn bases_come_with_the_frames_beside_them_and_no_byte_comes_twice() {
    let (storage, repository) = repository();
    let whole: Vec<_> = (0..400).map(|number| (chunk(0, number), vec![])).collect();
    let delta = |number: u32| {
        let (base, mut state) = (chunk(0, 2 * number + 1), number);
        let random = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        let new: Vec<u8> = random.take(500).collect();
        ([&base[..500], &new].concat(), vec![base])
    };
    let deltas: Vec<_> = (0..200).map(delta).collect();
    put_pack(&*storage, &repository, &whole, 0);
    put_pack(&*storage, &repository, &deltas, 1);
    // Every second frame of one pack, and all of another, which need those between.
    let wanted: Vec<Vec<u8>> = whole
        .into_iter()
        .step_by(2)
        .chain(deltas)
        .map(|(chunk, _)| chunk)
        .collect();
    let reader = reader(&repository, 16 << 20);
    let frames = frames_of(&reader.loaded, &repository, &wanted);
    let before = storage.counts();
    fetching(&reader, |ahead| {
        ahead.plan(source(&reader), &frames);
        let mut frame_reader = FrameReader::default();
        for (number, chunk) in frames.iter().zip(&wanted) {
            let opened = frame_reader.open(&reader, *number, None).unwrap();
            assert!(opened.chunk(0) == Some(chunk));
            ahead.release(*number);
        }
    });
    assert_empty(ahead(&reader));
    let after = storage.counts();
    assert_eq!(after.read_at - before.read_at, 3, "a directory and two packs");
    let packs = reader.loaded.index.packs().map(|(_, pack)| pack.size).sum::<u64>();
    let bytes = after.bytes_read - before.bytes_read;
    assert!(bytes <= packs, "{bytes} of {packs}");
}

#[test]
fn with_little_room_bases_are_fetched_for_the_frames_that_come_next_and_none_twice() {
    const ROOM: u64 = 16_000;
    let (storage, repository, layers) = layers(4, 200);
    let reader = reader(&repository, ROOM);
    let top = layers.last().unwrap();
    let frames = frames_of(&reader.loaded, &repository, top);
    let before = storage.counts();
    fetching(&reader, |ahead| {
        ahead.plan(source(&reader), &frames);
        let mut frame_reader = FrameReader::default();
        for (number, chunk) in frames.iter().zip(top) {
            let opened = frame_reader.open(&reader, *number, None).unwrap();
            assert!(opened.chunk(0) == Some(chunk));
            assert!(ahead.lock().bytes() <= ROOM + ROOM / REQUESTS as u64);
            ahead.release(*number);
        }
    });
    assert_empty(ahead(&reader));
    let all = layers
        .iter()
        .flat_map(|chunks| frames_of(&reader.loaded, &repository, chunks));
    let stored: u64 = all
        .map(|number| u64::from(reader.loaded.index.frame(number).sealed))
        .sum();
    let after = storage.counts();
    // One that came between others, which threads decide, is taken from there.
    let (frames, bytes) = (reader.bytes_read(), after.bytes_read - before.bytes_read);
    assert!(
        frames <= stored && stored <= bytes,
        "no frame twice: {frames} of {stored}"
    );
    assert!(
        bytes <= stored + stored / 20,
        "what comes between frames is little: {bytes} of {stored}"
    );
    let requests = after.read_at - before.read_at;
    // Usually 290: the later a thread runs, the fewer bases come together.
    assert!(requests < 500, "{requests} for 800 frames");
}

#[test]
fn bases_that_no_frame_takes_are_released_with_the_one_they_were_fetched_for() {
    let (_, repository, layers) = layers(3, 20);
    let reader = reader(&repository, 1 << 20);
    let frames = frames_of(&reader.loaded, &repository, layers.last().unwrap());
    fetching(&reader, |ahead| {
        ahead.plan(source(&reader), &frames);
        // Taken, and not decoded.
        for number in &frames[..10] {
            assert!(taken(&reader, *number).is_some());
            ahead.release(*number);
        }
        for number in &frames[10..] {
            ahead.release(*number);
        }
    });
    assert_empty(ahead(&reader));
}

#[test]
fn a_base_that_was_given_up_and_is_found_again_is_fetched_once() {
    let (storage, repository, layers) = layers(2, 20);
    let reader = reader(&repository, 1 << 20);
    let ahead = ahead(&reader);
    let [bases, above] = [0, 1].map(|depth| frames_of(&reader.loaded, &repository, &layers[depth]));
    let base = Span::of(source(&reader), bases[0]).unwrap();
    ahead.plan(source(&reader), &above[..2]);
    let mut state = ahead.lock();
    state.find(above[0], base);
    assert!(state.forget(base.frame));
    state.find(above[1], base);
    assert_eq!(state.found.len(), 2);
    ahead.plan_found(source(&reader), &mut state);
    assert_eq!((state.found.len(), state.found_bytes), (0, 0));
    drop(state);
    let before = storage.counts().read_at;
    assert!(taken(&reader, base.frame).is_some() && taken(&reader, base.frame).is_none());
    assert_eq!(storage.counts().read_at - before, 1);
    above[..2].iter().for_each(|frame| ahead.release(*frame));
    assert_empty(ahead);
}
