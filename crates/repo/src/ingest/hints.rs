//! Hints: after a known chunk, the data probably continues as it does in the repository.
//!
//! RapidCDC (§3) stores with every chunk the size of the next one, and tests for a boundary there
//! first. A repository has these hints already: a pack's directory lists its chunks in the order in
//! which they were stored, with their sizes and ids. So after a known chunk of a large file, the
//! follower reads the directory of its pack, cuts the next chunks at the sizes listed there, many
//! at a time, and fingerprints them at once. While the ids match, the chunker does not run. The
//! first mismatch ends the run, and the chunker continues from there.
//!
//! A chunk accepted this way has the id of a stored one and passes the chunker's own boundary test
//! if it has one, so the chunker would have cut it too. (One exception: the last chunk of a file,
//! cut by SeqCDC or FastCDC, that occurs in the middle of another file and seems to end there.) A
//! chunker without a boundary test (argmin compares all bytes up to the maximum) might have cut
//! differently after a chunk whose surroundings changed; the accepted chunk is a stored one in any
//! case.
//!
//! Hints can't cause errors: a directory that can't be read, or that does not match the file, only
//! costs time. Only packs of earlier backups are followed, so the order in which this backup stores
//! its own packs has no effect.
//!
//! Hints pay where finding boundaries costs more than fingerprinting, which runs on many threads at
//! once.

use std::sync::Arc;
use std::time::Duration;

use ibid_chunk::ArchiveCutter;
use ibid_format::pack::PackSummary;
use ibid_format::{ChunkId, Fingerprinter};

use super::fingerprint::Span;
use super::job::Job;
use super::options::Hints;
use super::sampling::FileClass;
use crate::clock;
use crate::index::Place;

/// Maximum number of chunks fingerprinted at once, and of their bytes (a single chunk may have
/// more).
const RUN_MOST: usize = 64;
const RUN_BYTES: usize = 1 << 20;
/// Number of chunks that are looked up one by one after a run has ended.
const TRIES: u32 = 4;
/// Number of cached directories: of the current pack, and of the previous one.
const DIRECTORIES: usize = 2;

/// Follows stored chunks for one large file.
pub(super) struct Follower<'a> {
    job: &'a Job<'a>,
    fingerprinter: Fingerprinter,
    /// Directories by pack number; `None` if one can't be read.
    directories: Vec<(u32, Option<Arc<PackSummary>>)>,
    /// Place of the last chunk, if it is stored.
    place: Option<Place>,
    /// Number of chunks to take next; it grows from run to run.
    run: usize,
    tries: u32,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Followed {
    /// Bytes of the accepted chunks.
    Some(usize),
    /// No chunk was accepted: the chunker has to find the boundary.
    Nothing,
    /// Undecided: the next chunk is longer than the data at hand.
    More,
}

impl<'a> Follower<'a> {
    /// Returns `None` if hints do not pay with this chunker on this machine.
    pub(super) fn new(job: &'a Job<'a>) -> Option<Follower<'a>> {
        let wanted = match job.options.hints {
            Hints::Off => false,
            Hints::Always => true,
            Hints::Auto => *job.learned.follows_hints.get_or_init(|| pays(job)),
        };
        wanted.then(|| Follower {
            job,
            fingerprinter: Fingerprinter::new(&job.repository.files.keys),
            directories: Vec::new(),
            place: None,
            run: 1,
            tries: TRIES,
        })
    }

    /// Starts another piece of the file: its first chunk is looked up even if none was known for a
    /// while.
    pub(super) fn next_piece(&mut self) {
        self.tries = self.tries.max(1);
    }

    /// Ends the run: the data differs from the repository's.
    pub(super) fn lose(&mut self) {
        self.place = None;
    }

    /// Accepts chunks from the start of `data`, which begins where the last chunk ended, and is the
    /// rest of the file if `last`. Spans are relative to `base`.
    pub(super) fn follow(
        &mut self,
        cutter: &mut ArchiveCutter<'_>,
        data: &[u8],
        last: bool,
        base: usize,
        spans: &mut Vec<Span>,
    ) -> Followed {
        let Some(mut place) = self.place else {
            return Followed::Nothing;
        };
        let (mut expected, mut end) = (Vec::with_capacity(self.run), 0);
        while expected.len() < self.run && (end < RUN_BYTES || expected.is_empty()) {
            let Some((next, id, length)) = self.after(place) else {
                break;
            };
            let length = length as usize;
            if length > self.job.repository.chunker.size_max() {
                break;
            }
            if length > data.len() && !last && expected.is_empty() {
                return Followed::More;
            }
            if !cutter.could_end(data, end, length) {
                break;
            }
            expected.push((next, id, end, length));
            end += length;
            place = next;
        }
        let chunks: Vec<&[u8]> = expected
            .iter()
            .map(|(.., start, length)| &data[*start..start + length])
            .collect();
        let mut found = vec![ChunkId([0; 32]); chunks.len()];
        self.fingerprinter.name_all(&chunks, |number, id| found[number] = id);
        let mut taken = 0;
        let mut matching = 0;
        for ((next, id, start, length), found) in expected.iter().zip(found) {
            if *id != found {
                break;
            }
            spans.push(Span {
                id: found,
                is_listed: true,
                ..Span::new(base + start, *length, FileClass::NEW)
            });
            cutter.advance(*length);
            self.place = Some(*next);
            taken += length;
            matching += 1;
        }
        if matching == expected.len() && matching > 0 {
            self.run = (2 * self.run).min(RUN_MOST);
            return Followed::Some(taken);
        }
        (self.place, self.run, self.tries) = (None, 1, TRIES);
        match taken {
            0 => Followed::Nothing,
            taken => Followed::Some(taken),
        }
    }

    /// Notes a chunk cut by the chunker, and now and then looks up whether it is known.
    pub(super) fn cut(&mut self, span: &mut Span, chunk: &[u8]) {
        self.place = None;
        if self.tries == 0 {
            return;
        }
        self.tries -= 1;
        span.id = self.job.repository.files.keys.chunk_id(chunk);
        let index = &self.job.loaded.index;
        let is_of_before = |place: &Place| place.frame < index.stored_frames();
        self.place = index.get(&span.id).filter(is_of_before);
    }

    /// Returns the chunk stored after a place: its place, id and length.
    fn after(&mut self, place: Place) -> Option<(Place, ChunkId, u32)> {
        let index = &self.job.loaded.index;
        if place.frame >= index.stored_frames() {
            return None;
        }
        let frame = index.frame(place.frame);
        let summary = self.directory(frame.pack)?;
        let at = summary
            .frames
            .binary_search_by_key(&frame.offset, |frame| frame.offset)
            .ok()?;
        let within = summary.frames[at]
            .blobs
            .get(usize::from(place.slot) + 1)
            .map(|blob| (0, place.slot + 1, blob));
        // Frames of a pack have consecutive numbers.
        let (frames, slot, blob) = within.or_else(|| Some((1, 0, summary.frames.get(at + 1)?.blobs.first()?)))?;
        let next = Place {
            frame: place.frame + frames,
            slot,
        };
        index
            .frames_of(frame.pack)
            .contains(&next.frame)
            .then_some((next, blob.id, blob.length))
    }

    fn directory(&mut self, pack: u32) -> Option<Arc<PackSummary>> {
        if let Some((_, directory)) = self.directories.iter().find(|(number, _)| *number == pack) {
            return directory.clone();
        }
        let read = self.job.loaded.index.read_directory(&self.job.repository.files, pack);
        let read = read.ok().map(Arc::new);
        if self.directories.len() == DIRECTORIES {
            self.directories.remove(0);
        }
        self.directories.push((pack, read.clone()));
        read
    }
}

/// Measures whether finding boundaries takes longer than fingerprinting.
fn pays(job: &Job<'_>) -> bool {
    let chunker = &job.repository.chunker;
    let size = (4 * chunker.size_max()).clamp(1 << 20, 8 << 20);
    // Pseudorandom bytes.
    let mut state = 1u64;
    let mut data = vec![0; size];
    for bytes in data.as_chunks_mut::<8>().0 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        *bytes = (state ^ state >> 29).to_le_bytes();
    }
    let mut names = Fingerprinter::new(&job.repository.files.keys);
    let (mut cutting, mut naming) = (Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        let start = clock::instant();
        let chunks: Vec<&[u8]> = ibid_chunk::chunks(chunker, &data).collect();
        cutting = cutting.min(clock::since(start));
        let start = clock::instant();
        names.name_all(&chunks, |_, id| {
            std::hint::black_box(id);
        });
        naming = naming.min(clock::since(start));
    }
    cutting > naming
}
