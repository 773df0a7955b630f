//! Cutting with hints.

use super::{Criterion, CriterionError, Hint, LIST_MOST};
use crate::Chunker;

/// A store of chunks seen before: their fingerprints, and which chunks followed them.
///
/// [`HintedChunker`] queries and updates it in the order of the data. [`Table`](super::Table)
/// implements it in memory.
pub trait Known {
    /// A collision-resistant hash of a chunk's bytes.
    type Fingerprint;
    /// A handle of a known chunk: small, and valid without another search.
    type Entry: Copy;

    /// Returns the fingerprint of a chunk.
    fn fingerprint(&mut self, chunk: &[u8]) -> Self::Fingerprint;

    /// Returns the chunk with this fingerprint if it is known and was cut off by its bytes or at the
    /// maximum size, not by the end of its data. `after` is the chunk before it, which may speed up
    /// the search.
    fn find_cut(&mut self, fingerprint: &Self::Fingerprint, after: Self::Entry) -> Option<Self::Entry>;

    /// Adds a chunk unless it is known, and returns whether it was. `at_end` says that its data ended
    /// with it.
    fn enter(
        &mut self,
        fingerprint: Self::Fingerprint,
        after: Option<Self::Entry>,
        at_end: bool,
    ) -> Entered<Self::Entry>;

    /// Returns the hint at this index of a chunk's list, the latest at 0, or `None` past the end.
    fn hint(&mut self, entry: Self::Entry, place: usize) -> Option<Hint>;

    /// Makes `hint` the first of a chunk's hints.
    fn note(&mut self, entry: Self::Entry, hint: Hint);
}

/// The result of [`Known::enter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entered<E> {
    /// The chunk's entry; `None` if it is new and there was no room for it.
    pub entry: Option<E>,
    /// Whether the chunk was known before.
    pub is_duplicate: bool,
}

/// How a chunk's end was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cut {
    /// By the chunker.
    Scanned,
    /// By the hint in this place of the list, from 0.
    Hinted(usize),
}

/// A chunk, and how its end was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HintedChunk<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// How its end was found.
    pub cut: Cut,
    /// Whether the chunk was known before.
    pub is_duplicate: bool,
}

/// Counts of the chunks of some data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Chunks in all.
    pub chunks: u64,
    /// Chunks that were known before.
    pub duplicates: u64,
    /// Bytes of the known chunks.
    pub duplicate_bytes: u64,
    /// Chunks whose end the chunker looked for.
    pub scanned: u64,
    /// Chunks whose end was a hint's, by its place in the list.
    pub hits: [u64; LIST_MOST],
    /// Hints that were tried and not accepted.
    pub refused: u64,
    /// Refused hints that passed the test of the place, but whose chunk was not known.
    pub unknown: u64,
}

impl Tally {
    /// Chunks whose end was a hint's.
    #[must_use]
    pub fn hinted(&self) -> u64 {
        self.hits.iter().sum()
    }

    /// Adds the counts of another part of the data.
    pub fn add(&mut self, other: &Tally) {
        self.chunks += other.chunks;
        self.duplicates += other.duplicates;
        self.duplicate_bytes += other.duplicate_bytes;
        self.scanned += other.scanned;
        self.refused += other.refused;
        self.unknown += other.unknown;
        for (sum, hits) in self.hits.iter_mut().zip(other.hits) {
            *sum += hits;
        }
    }

    fn note(&mut self, chunk: &HintedChunk<'_>) {
        self.chunks += 1;
        if chunk.is_duplicate {
            self.duplicates += 1;
            self.duplicate_bytes += chunk.bytes.len() as u64;
        }
        match chunk.cut {
            Cut::Scanned => self.scanned += 1,
            Cut::Hinted(place) => self.hits[place.min(LIST_MOST - 1)] += 1,
        }
    }
}

/// Cuts data by hints where it has any, and by a chunker elsewhere.
#[derive(Clone, Debug)]
pub struct HintedChunker<'c> {
    chunker: &'c Chunker,
    criterion: Criterion,
    size_min: usize,
    size_max: usize,
    refuses_all: bool,
}

/// The end of the next chunk, and the results of the search for it.
struct Next<K: Known> {
    len: usize,
    cut: Cut,
    /// The chunk's fingerprint, if it was computed.
    fingerprint: Option<K::Fingerprint>,
    /// Its entry, if it was looked up and found.
    entry: Option<K::Entry>,
}

impl<'c> HintedChunker<'c> {
    /// Returns a chunker that follows the hints that this criterion accepts.
    ///
    /// # Errors
    /// If the criterion tests places and the algorithm cannot
    /// ([`Settings::tests_places`](crate::Settings::tests_places)).
    pub fn new(chunker: &'c Chunker, criterion: Criterion) -> Result<HintedChunker<'c>, CriterionError> {
        let settings = chunker.settings();
        if criterion.tests_places() && !settings.tests_places() {
            return Err(CriterionError::NoTest {
                algorithm: settings.name(),
                criterion,
            });
        }
        Ok(HintedChunker {
            chunker,
            criterion,
            size_min: settings.size_min(),
            size_max: settings.size_max(),
            refuses_all: false,
        })
    }

    /// Refuses every hint after testing it: the worst case (RapidCDC, figure 12).
    #[must_use]
    pub fn refusing_all(mut self) -> HintedChunker<'c> {
        self.refuses_all = true;
        self
    }

    /// Returns the criterion.
    #[must_use]
    pub fn criterion(&self) -> Criterion {
        self.criterion
    }

    /// Cuts the whole of `data`, looks up and enters every chunk, and calls `take` with each in
    /// order.
    pub fn for_each_chunk<'a, K: Known>(
        &self,
        known: &mut K,
        data: &'a [u8],
        mut take: impl FnMut(HintedChunk<'a>),
    ) -> Tally {
        let (mut tally, mut trail, mut data) = (Tally::default(), Trail::start(), data);
        while !data.is_empty() {
            let chunk = self.next_chunk(known, &mut trail, data, true, &mut tally);
            data = &data[chunk.bytes.len()..];
            take(chunk);
        }
        tally
    }

    /// Does [`for_each_chunk`](HintedChunker::for_each_chunk) with the data of a reader, through a
    /// buffer of four times the maximum chunk size, at least 1 MiB.
    ///
    /// # Errors
    /// Those of the reader; reads that were interrupted are repeated.
    #[cfg(feature = "std")]
    pub fn for_each_chunk_of<K: Known>(
        &self,
        known: &mut K,
        mut reader: impl std::io::Read,
        mut take: impl FnMut(HintedChunk<'_>),
    ) -> std::io::Result<Tally> {
        let most = self.size_max;
        let mut buffer = vec![0; (4 * most).max(1 << 20)];
        let (mut tally, mut trail) = (Tally::default(), Trail::start());
        let (mut start, mut end, mut last) = (0, 0, false);
        loop {
            if !last && end - start <= most {
                buffer.copy_within(start..end, 0);
                (start, end) = (0, end - start);
                while end < buffer.len() && !last {
                    match reader.read(&mut buffer[end..]) {
                        Ok(0) => last = true,
                        Ok(read) => end += read,
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            if start == end {
                return Ok(tally);
            }
            let chunk = self.next_chunk(known, &mut trail, &buffer[start..end], last, &mut tally);
            start += chunk.bytes.len();
            take(chunk);
        }
    }

    /// Returns the next chunk. `data` starts where the last one ended, and `trail` remembers that
    /// one.
    ///
    /// `data` is not empty. With `last` it is all the remaining data; otherwise it holds more bytes
    /// than the longest chunk ([`Chunker::size_max`]). Bytes beyond those do not matter.
    ///
    /// # Panics
    /// If `data` holds less.
    pub fn next_chunk<'a, K: Known>(
        &self,
        known: &mut K,
        trail: &mut Trail<K::Entry>,
        data: &'a [u8],
        last: bool,
        tally: &mut Tally,
    ) -> HintedChunk<'a> {
        assert!(
            !data.is_empty() && (last || data.len() > self.size_max),
            "too little data"
        );
        let next = match trail.before {
            Some(before) if trail.is_duplicate => self.hinted(known, before, data, last, tally),
            _ => self.scanned(data),
        };
        let bytes = &data[..next.len];
        let at_end = last && bytes.len() == data.len() && bytes.len() < self.size_max;
        let found = match next.entry {
            Some(entry) => Entered {
                entry: Some(entry),
                is_duplicate: true,
            },
            None => {
                let fingerprint = next.fingerprint.unwrap_or_else(|| known.fingerprint(bytes));
                known.enter(fingerprint, trail.before, at_end)
            }
        };
        if let Some(before) = trail.before
            && next.cut != Cut::Hinted(0)
        {
            known.note(before, Hint::of(bytes, at_end));
        }
        *trail = Trail {
            before: found.entry,
            is_duplicate: found.is_duplicate,
        };
        let chunk = HintedChunk {
            bytes,
            cut: next.cut,
            is_duplicate: found.is_duplicate,
        };
        tally.note(&chunk);
        chunk
    }

    fn scanned<K: Known>(&self, data: &[u8]) -> Next<K> {
        Next {
            len: self.chunker.cut(data),
            cut: Cut::Scanned,
            fingerprint: None,
            entry: None,
        }
    }

    /// Returns the next chunk after a duplicate.
    fn hinted<K: Known>(&self, known: &mut K, after: K::Entry, data: &[u8], last: bool, tally: &mut Tally) -> Next<K> {
        // A fingerprint that turned out unknown, and the length of its chunk: the chunker often
        // cuts in the same place.
        let mut unknown = None;
        let mut place = 0;
        while let Some(hint) = known.hint(after, place) {
            let cut = Cut::Hinted(place);
            place += 1;
            if !self.is_possible(&hint, data, last) {
                continue;
            }
            if !self.fits(&hint, data) {
                tally.refused += 1;
                continue;
            }
            if self.criterion == Criterion::WindowAndFingerprint {
                let fingerprint = known.fingerprint(&data[..hint.size]);
                let entry = known.find_cut(&fingerprint, after);
                if entry.is_some() && !self.refuses_all {
                    return Next {
                        len: hint.size,
                        cut,
                        fingerprint: None,
                        entry,
                    };
                }
                tally.unknown += u64::from(entry.is_none());
                unknown = Some((hint.size, fingerprint));
            } else if !self.refuses_all {
                return Next {
                    len: hint.size,
                    cut,
                    fingerprint: None,
                    entry: None,
                };
            }
            tally.refused += 1;
        }
        let mut next = self.scanned(data);
        next.fingerprint = unknown.and_then(|(len, fingerprint)| (len == next.len).then_some(fingerprint));
        next
    }

    /// Whether a chunk of this length is possible here.
    #[inline]
    fn is_possible(&self, hint: &Hint, data: &[u8], last: bool) -> bool {
        (self.size_min..=self.size_max).contains(&hint.size)
            && hint.size <= data.len()
            && (!hint.at_end || last && hint.size == data.len())
    }

    #[inline]
    fn fits(&self, hint: &Hint, data: &[u8]) -> bool {
        match self.criterion {
            Criterion::FastForward => true,
            Criterion::Marker => data[hint.size - 1] == hint.marker,
            // Every chunk ends where the data ends.
            Criterion::Window => hint.at_end || self.chunker.fits_at(data, hint.size),
            // With another last byte it cannot be the hint's chunk. The maximum length fits
            // everywhere, so without this test every change makes long chunks fingerprinted in
            // vain.
            Criterion::WindowAndFingerprint => {
                data[hint.size - 1] == hint.marker && (hint.at_end || self.chunker.fits_at(data, hint.size))
            }
        }
    }
}

/// The chunk before the next one.
#[derive(Clone, Copy, Debug)]
pub struct Trail<E> {
    before: Option<E>,
    is_duplicate: bool,
}

impl<E> Trail<E> {
    /// Returns an empty trail, for the start of some data.
    #[must_use]
    pub fn start() -> Trail<E> {
        Trail {
            before: None,
            is_duplicate: false,
        }
    }
}
