//! Fetches frames before they are asked for, where the storage is reached over a network: neighbours with one request,
//! and several requests at once. Each takes a round trip, and may be paid for.
//!
//! Who reads says in which order frames will be needed, takes each once, and releases those that are not needed after
//! all. What was fetched stays in memory until then, and never is more than there is room for, but for one request of
//! each thread that would wait otherwise.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use ibid_format::FileId;

use crate::files::Files;
use crate::index::LoadedIndex;
use crate::layout::{folder, name_in};
use crate::threads::wait;

/// Requests at once.
pub(crate) const REQUESTS: usize = 8;
/// Bytes of one request, unless a frame is larger.
const SEGMENT_MAX: u64 = 8 << 20;
/// Bytes that are fetched though no one needs them, because another request would take longer.
const GAP_MAX: u64 = 32 << 10;

/// Frames that are fetched ahead.
pub(crate) struct Ahead {
    state: Mutex<State>,
    changed: Condvar,
    /// Bytes in memory.
    room: u64,
}

#[derive(Default)]
struct State {
    segments: HashMap<u64, Segment>,
    /// Segments in the order in which they are fetched; those that another has begun with are passed over.
    waiting: VecDeque<u64>,
    /// The segments of frames that were neither taken nor released.
    of_frame: HashMap<u32, u64>,
    next: u64,
    /// Bytes that were fetched or are being fetched.
    bytes: u64,
    is_closed: bool,
}

/// A part of a pack that is fetched with one request.
struct Segment {
    pack: FileId,
    range: Range<u64>,
    /// Frames in it that were neither taken nor released.
    frames: u32,
    content: Content,
}

impl Segment {
    fn length(&self) -> u64 {
        self.range.end - self.range.start
    }
}

#[derive(Clone)]
enum Content {
    Waiting,
    Coming,
    Here(Arc<Vec<u8>>),
    /// It could not be read: its frames are read one by one, which says why.
    Lost,
}

/// Lets those who fetch end when it is dropped.
pub(crate) struct Closing<'a>(pub(crate) &'a Ahead);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

impl Ahead {
    /// Makes room for so many bytes.
    pub(crate) fn new(room: u64) -> Ahead {
        Ahead {
            state: Mutex::default(),
            changed: Condvar::new(),
            room,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// Plans to fetch these frames, which will be taken in about this order. Each is planned once at a time.
    pub(crate) fn plan(&self, loaded: &LoadedIndex, frames: &[u32]) {
        let mut found: Vec<_> = (0_usize..)
            .zip(frames)
            .map(|(rank, &number)| {
                let frame = loaded.index.frame(number);
                let start = u64::from(frame.offset);
                (frame.pack, start..start + u64::from(frame.sealed), rank, number)
            })
            .collect();
        found.sort_unstable_by_key(|(pack, range, ..)| (*pack, range.start));
        let longest = SEGMENT_MAX.min(self.room / REQUESTS as u64);
        let mut segments: Vec<(usize, Segment, Vec<u32>)> = Vec::new();
        let mut last_pack = None;
        for (pack, range, rank, number) in found {
            if let Some((first, segment, frames)) = segments.last_mut()
                && last_pack == Some(pack)
                && range.start <= segment.range.end + GAP_MAX
                && range.end - segment.range.start <= longest
            {
                segment.range.end = range.end.max(segment.range.end);
                segment.frames += 1;
                *first = rank.min(*first);
                frames.push(number);
                continue;
            }
            last_pack = Some(pack);
            let segment = Segment {
                pack: loaded.index.pack(pack).id,
                range,
                frames: 1,
                content: Content::Waiting,
            };
            segments.push((rank, segment, vec![number]));
        }
        segments.sort_by_key(|(first, ..)| *first);
        let mut state = self.lock();
        for (_, mut segment, frames) in segments {
            let number = state.next;
            for frame in frames {
                match state.of_frame.contains_key(&frame) {
                    true => segment.frames -= 1,
                    false => drop(state.of_frame.insert(frame, number)),
                }
            }
            if segment.frames > 0 {
                state.next += 1;
                state.segments.insert(number, segment);
                state.waiting.push_back(number);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Fetches nothing more but what is asked for.
    pub(crate) fn give_up(&self) {
        self.lock().waiting.clear();
    }

    /// Fetches what is planned, until it is closed and nothing is left.
    pub(crate) fn fetch(&self, files: &Files) {
        let mut state = self.lock();
        loop {
            match state.first_waiting() {
                Some((number, length)) if state.bytes == 0 || state.bytes + length <= self.room => {
                    state.waiting.pop_front();
                    drop(state);
                    self.fetch_segment(files, number);
                    state = self.lock();
                }
                None if state.is_closed => return,
                _ => state = wait(&self.changed, &self.state, state),
            }
        }
    }

    /// Fetches a segment that waits.
    fn fetch_segment(&self, files: &Files, number: u64) {
        let mut state = self.lock();
        let Some(segment) = state.segments.get_mut(&number) else {
            return;
        };
        if !matches!(segment.content, Content::Waiting) {
            return;
        }
        segment.content = Content::Coming;
        let (name, start, length) = (
            name_in(folder::PACKS, segment.pack),
            segment.range.start,
            segment.length(),
        );
        state.bytes += length;
        drop(state);
        let mut bytes = vec![0; length as usize];
        let read = files.storage.read_at(&name, start, &mut bytes);
        let mut state = self.lock();
        match state.segments.get_mut(&number) {
            Some(segment) if segment.frames > 0 && read.is_ok() => segment.content = Content::Here(Arc::new(bytes)),
            Some(segment) if segment.frames > 0 => {
                segment.content = Content::Lost;
                state.bytes -= length;
            }
            _ => {
                state.segments.remove(&number);
                state.bytes -= length;
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Fills `sealed` with a frame, if it is planned and can be read. Waits until it is here.
    pub(crate) fn take(&self, files: &Files, loaded: &LoadedIndex, frame: u32, sealed: &mut [u8]) -> bool {
        let mut state = self.lock();
        let Some(number) = state.of_frame.remove(&frame) else {
            return false;
        };
        loop {
            let Some(segment) = state.segments.get(&number) else {
                return false;
            };
            match segment.content.clone() {
                Content::Waiting => {
                    drop(state);
                    self.fetch_segment(files, number);
                    state = self.lock();
                }
                Content::Coming => state = wait(&self.changed, &self.state, state),
                Content::Here(bytes) => {
                    let at = (u64::from(loaded.index.frame(frame).offset) - segment.range.start) as usize;
                    drop(state);
                    sealed.copy_from_slice(&bytes[at..at + sealed.len()]);
                    drop(bytes);
                    self.done(number);
                    return true;
                }
                Content::Lost => {
                    drop(state);
                    self.done(number);
                    return false;
                }
            }
        }
    }

    /// Gives up a frame, if it is planned and was not taken.
    pub(crate) fn release(&self, frame: u32) {
        let number = self.lock().of_frame.remove(&frame);
        if let Some(number) = number {
            self.done(number);
        }
    }

    /// Notes that a frame of a segment is needed no more.
    fn done(&self, number: u64) {
        let mut state = self.lock();
        let Some(segment) = state.segments.get_mut(&number) else {
            return;
        };
        segment.frames -= 1;
        if segment.frames == 0 && !matches!(segment.content, Content::Coming) {
            let was_here = matches!(segment.content, Content::Here(_));
            let length = segment.length();
            state.segments.remove(&number);
            state.bytes -= if was_here { length } else { 0 };
            drop(state);
            self.changed.notify_all();
        }
    }
}

impl State {
    /// Returns the first segment that no one has begun with, and its length.
    fn first_waiting(&mut self) -> Option<(u64, u64)> {
        while let Some(&number) = self.waiting.front() {
            match self.segments.get(&number) {
                Some(segment) if matches!(segment.content, Content::Waiting) => {
                    return Some((number, segment.length()));
                }
                _ => self.waiting.pop_front(),
            };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use ibid_format::frame::{Compression, FrameBuilder, FrameEncoder};
    use ibid_format::pack::{self, PackKind};
    use ibid_storage::fault::{Flaky, ObjectFault};
    use ibid_storage::{ErrorKind, Memory, Operation, Storage};

    use super::*;
    use crate::layout::new_id;
    use crate::{InitOptions, Repository};

    /// Returns a repository with packs of so many frames, each with one chunk of 1000 bytes.
    fn packs(count: u32, frames: u32) -> (Arc<Flaky<Memory>>, Repository) {
        let storage = Arc::new(Flaky::new(Memory::new()));
        let repository = Repository::init(storage.clone(), Some(b"secret"), &InitOptions::quick()).unwrap();
        let keys = &repository.files.keys;
        let mut encoder = FrameEncoder::new();
        for number in 0..count {
            let id = new_id();
            let mut pack = pack::PackBuilder::new(keys, id, PackKind::Data);
            for frame in 0..frames {
                let chunk = [&number.to_le_bytes()[..], &frame.to_le_bytes(), &[7; 992]].concat();
                let (mut gathered, mut plain) = (FrameBuilder::new(), Vec::new());
                gathered.push(keys.chunk_id(&chunk), &chunk);
                let blobs = gathered.blobs();
                encoder.encode(blobs, &chunk, Compression::Stored, &mut plain).unwrap();
                pack.add(&plain, blobs, 0, &[]);
            }
            storage.put(&name_in(folder::PACKS, id), &[&pack.finish().0]).unwrap();
        }
        (storage, repository)
    }

    /// Returns what the storage has of a frame.
    fn direct(repository: &Repository, loaded: &LoadedIndex, number: u32) -> Vec<u8> {
        let frame = loaded.index.frame(number);
        let mut bytes = vec![0; frame.sealed as usize];
        let name = name_in(folder::PACKS, loaded.index.pack(frame.pack).id);
        repository
            .files
            .storage
            .read_at(&name, frame.offset.into(), &mut bytes)
            .unwrap();
        bytes
    }

    fn taken(ahead: &Ahead, repository: &Repository, loaded: &LoadedIndex, number: u32) -> Option<Vec<u8>> {
        let mut bytes = vec![0; loaded.index.frame(number).sealed as usize];
        ahead
            .take(&repository.files, loaded, number, &mut bytes)
            .then_some(bytes)
    }

    #[test]
    fn neighbours_come_with_one_request_and_every_frame_is_right() {
        let (storage, repository) = packs(3, 20);
        let loaded = repository.loaded().unwrap();
        let ahead = Ahead::new(1 << 20);
        // Of each pack every second one, so that there are gaps; the packs in turn.
        let frames: Vec<u32> = (0..10).flat_map(|at| [0, 20, 40].map(|first| first + 2 * at)).collect();
        let before = storage.counts().read_at;
        std::thread::scope(|scope| {
            let closing = Closing(&ahead);
            for _ in 0..REQUESTS {
                scope.spawn(|| ahead.fetch(&repository.files));
            }
            ahead.plan(&loaded, &frames);
            let all: Vec<Option<Vec<u8>>> = frames
                .iter()
                .map(|number| taken(&ahead, &repository, &loaded, *number))
                .collect();
            assert_eq!(storage.counts().read_at - before, 3);
            for (number, bytes) in frames.iter().zip(all) {
                assert!(
                    bytes.as_ref() == Some(&direct(&repository, &loaded, *number)),
                    "{number}"
                );
            }
            drop(closing);
        });
        let state = ahead.lock();
        assert_eq!((state.segments.len(), state.of_frame.len(), state.bytes), (0, 0, 0));
    }

    #[test]
    fn what_is_fetched_has_its_room_and_nobody_waits_for_what_does_not_fit() {
        let (storage, repository) = packs(1, 400);
        let loaded = repository.loaded().unwrap();
        const ROOM: u64 = 40_000;
        let ahead = Ahead::new(ROOM);
        let frames: Vec<u32> = (0..400).collect();
        std::thread::scope(|scope| {
            let closing = Closing(&ahead);
            for _ in 0..REQUESTS {
                scope.spawn(|| ahead.fetch(&repository.files));
            }
            ahead.plan(&loaded, &frames);
            // From the end, of which nothing has been fetched when there is no more room.
            for number in frames.iter().rev() {
                assert!(ahead.lock().bytes <= ROOM + ROOM / REQUESTS as u64);
                match number % 3 {
                    0 => ahead.release(*number),
                    _ => assert!(taken(&ahead, &repository, &loaded, *number).is_some(), "{number}"),
                }
            }
            drop(closing);
        });
        assert_eq!(ahead.lock().bytes, 0);
        assert!(storage.counts().read_at < 150, "{:?}", storage.counts());
    }

    #[test]
    fn what_can_not_be_fetched_is_left_to_the_reader_and_so_is_what_was_not_planned() {
        let (storage, repository) = packs(1, 10);
        let loaded = repository.loaded().unwrap();
        let ahead = Ahead::new(1 << 20);
        assert_eq!(taken(&ahead, &repository, &loaded, 0), None);
        ahead.plan(&loaded, &[0, 1, 2]);
        storage.fail(Operation::ReadAt, 0, ObjectFault::Before(ErrorKind::Io));
        // No thread fetches: who needs it does.
        for number in 0..3 {
            assert_eq!(taken(&ahead, &repository, &loaded, number), None);
        }
        ahead.plan(&loaded, &[0, 1, 2]);
        ahead.plan(&loaded, &[2, 3]);
        for number in 0..4 {
            assert!(taken(&ahead, &repository, &loaded, number).is_some(), "{number}");
            assert_eq!(taken(&ahead, &repository, &loaded, number), None, "each is taken once");
        }
        assert_eq!(ahead.lock().bytes, 0);
    }
}
