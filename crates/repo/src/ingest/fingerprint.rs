//! What is a chunk called, and what is it like?

use std::sync::atomic::{AtomicU64, Ordering};

use ibid_delta::{Sketch, Sketcher};
use ibid_format::{ChunkId, Fingerprinter};

use super::job::Job;
use super::options::Similarity;
use super::sampling::{Kind, LOOK_EVERY};
use crate::similar;

/// The sketches of the chunks in a buffer that were unknown when they were looked at.
#[derive(Default)]
pub(crate) struct Sketches(Vec<Sketch>);

impl Sketches {
    /// The sketch of a chunk, if it has one.
    pub(crate) fn of(&self, span: &Span) -> Option<&Sketch> {
        self.0.get(span.sketch as usize)
    }
}

/// A chunk in a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) length: u32,
    pub(crate) id: ChunkId,
    /// Its number among the buffer's sketches.
    pub(crate) sketch: u32,
    /// That of its file.
    pub(crate) kind: Kind,
    /// Whether a pack lists it, so that nothing similar need be looked for. (Whether it can be
    /// read, the index says.)
    pub(crate) is_listed: bool,
}

impl Span {
    /// A chunk that was cut, and neither fingerprinted nor sketched.
    pub(crate) fn new(start: usize, length: usize, kind: Kind) -> Span {
        Span {
            start: start as u32,
            length: length as u32,
            id: ChunkId([0; 32]),
            sketch: u32::MAX,
            kind,
            is_listed: false,
        }
    }

    /// Whether it was fingerprinted. (No chunk that anybody could find has zeros for an id.)
    pub(crate) fn is_named(&self) -> bool {
        self.id.0 != [0; 32]
    }

    pub(crate) fn of<'d>(&self, data: &'d [u8]) -> &'d [u8] {
        &data[self.start as usize..(self.start + self.length) as usize]
    }
}

/// Looks at chunks: what are they called, and what are they like?
pub(crate) struct Eye<'a> {
    job: &'a Job<'a>,
    fingerprinter: Fingerprinter,
    sketcher: Option<Sketcher>,
    /// Chunks that were unknown.
    unknown: u64,
    lengths: Vec<u32>,
}

/// After so many bytes that did not compress, what is similar is looked for in one chunk of so many
/// only: media and archives that were compressed have nothing in common but whole chunks.
pub(crate) const INCOMPRESSIBLE_MAX: u64 = 16 << 20;

impl<'a> Eye<'a> {
    pub(crate) fn new(job: &'a Job<'a>) -> Eye<'a> {
        Eye {
            job,
            fingerprinter: Fingerprinter::new(&job.repository.files.keys),
            sketcher: job.bases.is_some().then(similar::sketcher),
            unknown: 0,
            lengths: Vec::new(),
        }
    }

    /// Fingerprints chunks of a buffer that are not yet, and sketches those that are unknown so
    /// far.
    pub(crate) fn see<'s>(&mut self, spans: impl Iterator<Item = &'s mut Span>, data: &[u8], sketches: &mut Sketches) {
        let mut spans: Vec<&mut Span> = spans.collect();
        let mut nameless: Vec<&mut Span> = spans
            .iter_mut()
            .map(|span| &mut **span)
            .filter(|span| !span.is_named())
            .collect();
        let chunks: Vec<&[u8]> = nameless.iter().map(|span| span.of(data)).collect();
        self.fingerprinter
            .name_all(&chunks, |number, id| nameless[number].id = id);
        let Some(sketcher) = &mut self.sketcher else { return };
        let job = self.job;
        let least = worth_a_sketch(job, spans.iter().map(|span| span.length), &mut self.lengths);
        for span in spans.into_iter().filter(|span| span.length >= least) {
            if span.is_listed || job.loaded.index.get(&span.id).is_some() {
                continue;
            }
            self.unknown += 1;
            if let Some(bytes) = job.passed_over(span.kind)
                && !self.unknown.is_multiple_of(LOOK_EVERY)
            {
                bytes.fetch_add(span.length.into(), Ordering::Relaxed);
                continue;
            }
            let sketch = sketcher.sketch(span.of(data));
            if !sketch.features().is_empty() {
                span.sketch = sketches.0.len() as u32;
                sketches.0.push(sketch);
            }
        }
    }
}

impl Job<'_> {
    /// If chunks of files of this kind are hardly looked at: where their bytes are counted.
    fn passed_over(&self, kind: Kind) -> Option<&AtomicU64> {
        if self.options.similarity == Similarity::Max {
            None
        } else if self.incompressible.load(Ordering::Relaxed) >= INCOMPRESSIBLE_MAX {
            Some(&self.passed_over)
        } else if self.gains.is_little(kind) {
            Some(&self.without_gain)
        } else {
            None
        }
    }
}

/// Of the chunks in a buffer those are not worth a sketch that are short, and have no more than one
/// byte in so many of it together.
const SHORT_PART: u64 = 16;
const SHORT_MAX: u32 = 4 << 10;

/// The least length of chunks that are worth a sketch, of those with these lengths. (Paper 004,
/// section 3.4.2, where the shortest two fifths are not. Of a source tree's files, to pass over all
/// that are shorter than 4 KiB makes no difference in what is stored.)
pub(crate) fn worth_a_sketch(job: &Job<'_>, lengths: impl Iterator<Item = u32>, sorted: &mut Vec<u32>) -> u32 {
    if job.options.similarity == Similarity::Max {
        return 0;
    }
    sorted.clear();
    sorted.extend(lengths);
    sorted.sort_unstable();
    least_length(sorted)
}

fn least_length(ascending: &[u32]) -> u32 {
    let bytes: u64 = ascending.iter().map(|&length| u64::from(length)).sum();
    let mut left = bytes / SHORT_PART;
    let is_short = |length: &&u32| {
        let fits = left.checked_sub(u64::from(**length));
        left = fits.unwrap_or(0);
        fits.is_some()
    };
    let short = ascending.iter().take_while(is_short).count();
    ascending.get(short).map_or(0, |&length| length.min(SHORT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_chunks_are_passed_over_where_they_have_little_of_the_data() {
        assert_eq!(least_length(&[]), 0);
        assert_eq!(least_length(&[700]), 700, "it is not shorter than itself");
        assert_eq!(least_length(&[10, 20, 30, 2000]), 2000);
        assert_eq!(
            least_length(&[150, 150, 1000, 1000, 1000]),
            150,
            "two of them have too much"
        );
        assert_eq!(least_length(&[10, 20, 100_000]), SHORT_MAX);
        let alike = [1000; 1000];
        assert_eq!(least_length(&alike), 1000);
    }
}
