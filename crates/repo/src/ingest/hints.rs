//! After a chunk that is stored already, the data probably goes on as it does in the repository.
//!
//! RapidCDC (§3) keeps with every chunk the size of the next one, and looks there first. In
//! a repository these hints are there already: a pack's directory lists its chunks in the order in
//! which they were stored, with their sizes and their ids. So where a chunk of a large file is
//! known, the directory of its pack is read, and what comes next is cut off at the sizes listed
//! there, many chunks at a time, and fingerprinted at once. As long as ids are those expected,
//! nothing is looked for; the first that is another ends the run, and the chunker goes on from
//! there.
//!
//! A chunk that is taken so has the id of one that is stored, and passes the chunker's own test of
//! its end if it has one: then it ends where it would have ended anyway (but for the last chunk of
//! a file, of SeqCDC or FastCDC, that turns up in the middle of another and seems to end there).
//! A chunker without a test (argmin compares all bytes up to the maximum) might have gone on
//! differently behind a chunk whose surroundings have changed; what is taken is stored already all
//! the same.
//!
//! Hints are advice: a directory that can't be read, or that says anything else than what is in the
//! file, costs time only. Only packs of earlier backups are followed, so how fast this one stores
//! its own changes nothing.
//!
//! It pays where looking for boundaries costs more than fingerprinting, which otherwise many
//! threads do at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ibid_chunk::ArchiveCutter;
use ibid_format::pack::PackSummary;
use ibid_format::{ChunkId, Fingerprinter};

use super::fingerprint::Span;
use super::job::Job;
use super::options::Hints;
use super::sampling::FileClass;
use crate::index::Place;

/// The most chunks fingerprinted at once, and the most bytes of them (unless a single chunk has
/// more).
const RUN_MOST: usize = 64;
const RUN_BYTES: usize = 1 << 20;
/// Chunks that are looked up one by one after a run has ended, until one is known again.
const TRIES: u32 = 4;
/// Directories kept: of the pack that is followed, and of the last.
const DIRECTORIES: usize = 2;

/// Follows what is stored, for one large file.
pub(super) struct Follower<'a> {
    job: &'a Job<'a>,
    fingerprinter: Fingerprinter,
    /// By the number of their pack; none if it can't be read.
    directories: Vec<(u32, Option<Arc<PackSummary>>)>,
    /// Where the last chunk is stored, if that is known.
    place: Option<Place>,
    /// How many chunks to take next: more from run to run.
    run: usize,
    tries: u32,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Followed {
    /// Bytes of chunks that were taken.
    Some(usize),
    /// Nothing: the chunker has to look.
    Nothing,
    /// Nothing yet: the next chunk would be longer than what there is.
    More,
}

impl<'a> Follower<'a> {
    /// None if it does not pay with this chunker on this machine.
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

    /// Another piece of the file begins: its first chunk is looked up even if none was known for
    /// long.
    pub(super) fn next_piece(&mut self) {
        self.tries = self.tries.max(1);
    }

    /// What lies behind is not what lies behind in the repository.
    pub(super) fn lose(&mut self) {
        self.place = None;
    }

    /// Takes chunks from the start of `data`, which starts where the last one ended and is all that
    /// is left if `last`. Spans start at `base`.
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

    /// Takes note of a chunk that was cut off by the chunker, and looks now and then whether it is
    /// known.
    pub(super) fn cut(&mut self, span: &mut Span, chunk: &[u8]) {
        self.place = None;
        if self.tries == 0 {
            return;
        }
        self.tries -= 1;
        span.id = self.job.repository.files.keys.chunk_id(chunk);
        let index = &self.job.loaded.index;
        let is_of_before = |place: &Place| (place.frame as usize) < index.frames.len();
        self.place = index.get(&span.id).filter(is_of_before);
    }

    /// What was stored behind a chunk: where, its id, its length.
    fn after(&mut self, place: Place) -> Option<(Place, ChunkId, u32)> {
        let index = &self.job.loaded.index;
        let frame = *index.frames.get(place.frame as usize)?;
        let summary = self.directory(frame.pack)?;
        let at = summary
            .frames
            .binary_search_by_key(&frame.offset, |frame| frame.offset)
            .ok()?;
        let within = summary.frames[at]
            .blobs
            .get(usize::from(place.slot) + 1)
            .map(|blob| (0, place.slot + 1, blob));
        // Frames of a pack have numbers in a row.
        let (frames, slot, blob) = within.or_else(|| Some((1, 0, summary.frames.get(at + 1)?.blobs.first()?)))?;
        let next = Place {
            frame: place.frame + frames,
            slot,
        };
        (index.frames.get(next.frame as usize)?.pack == frame.pack).then_some((next, blob.id, blob.length))
    }

    fn directory(&mut self, pack: u32) -> Option<Arc<PackSummary>> {
        if let Some((_, directory)) = self.directories.iter().find(|(number, _)| *number == pack) {
            return directory.clone();
        }
        let listed = self.job.loaded.index.pack(pack);
        let read = self
            .job
            .repository
            .files
            .read_directory(listed.id, listed.size)
            .ok()
            .map(Arc::new);
        if self.directories.len() == DIRECTORIES {
            self.directories.remove(0);
        }
        self.directories.push((pack, read.clone()));
        read
    }
}

/// Whether looking for boundaries takes longer than fingerprinting, here and now.
fn pays(job: &Job<'_>) -> bool {
    let chunker = &job.repository.chunker;
    let size = (4 * chunker.size_max()).clamp(1 << 20, 8 << 20);
    // Any bytes without a pattern.
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
        let clock = Instant::now();
        let chunks: Vec<&[u8]> = ibid_chunk::chunks(chunker, &data).collect();
        cutting = cutting.min(clock.elapsed());
        let clock = Instant::now();
        names.name_all(&chunks, |_, id| {
            std::hint::black_box(id);
        });
        naming = naming.min(clock.elapsed());
    }
    cutting > naming
}
