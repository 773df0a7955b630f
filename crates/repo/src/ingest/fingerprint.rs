//! Ids and sketches of chunks.

use std::sync::atomic::Ordering;

use ibid_delta::{Sketch, Sketcher};
use ibid_format::{ChunkId, Fingerprinter};

use super::job::Job;
use super::options::Similarity;
use super::sampling::{FileClass, SAMPLE_EVERY};
use crate::similar;

/// Sketches of the chunks in a buffer that the index did not know when they were analyzed.
#[derive(Default)]
pub(crate) struct Sketches(Vec<Sketch>);

impl Sketches {
    /// Returns the sketch of a chunk, if it has one.
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
    /// Index of its sketch among the buffer's.
    pub(crate) sketch: u32,
    /// Class of its file.
    pub(crate) kind: FileClass,
    /// Whether a pack lists the chunk, so that no base need be searched. The index tells whether it
    /// can be read.
    pub(crate) is_listed: bool,
}

impl Span {
    /// Returns a chunk that is neither fingerprinted nor sketched yet.
    pub(crate) fn new(start: usize, length: usize, kind: FileClass) -> Span {
        Span {
            start: start as u32,
            length: length as u32,
            id: ChunkId([0; 32]),
            sketch: u32::MAX,
            kind,
            is_listed: false,
        }
    }

    /// Returns whether the chunk was fingerprinted. (An id of all zeros stands for none; finding a
    /// chunk with that id is infeasible.)
    pub(crate) fn is_named(&self) -> bool {
        self.id.0 != [0; 32]
    }

    pub(crate) fn of<'d>(&self, data: &'d [u8]) -> &'d [u8] {
        &data[self.start as usize..(self.start + self.length) as usize]
    }
}

/// Fingerprints chunks, and sketches new ones.
pub(crate) struct Analyzer<'a> {
    job: &'a Job<'a>,
    fingerprinter: Fingerprinter,
    sketcher: Option<Sketcher>,
    /// Number of unknown chunks so far.
    unknown: u64,
    lengths: Vec<u32>,
}

/// After this many bytes that did not compress, only one chunk in [`SAMPLE_EVERY`] is sketched:
/// media and compressed archives share only whole chunks.
pub(crate) const INCOMPRESSIBLE_MAX: u64 = 16 << 20;

impl<'a> Analyzer<'a> {
    pub(crate) fn new(job: &'a Job<'a>) -> Analyzer<'a> {
        Analyzer {
            job,
            fingerprinter: Fingerprinter::new(&job.repository.files.keys),
            sketcher: job.bases.is_some().then(similar::sketcher),
            unknown: 0,
            lengths: Vec::new(),
        }
    }

    /// Fingerprints the chunks of a buffer that have no id yet, and sketches those that the index
    /// does not know.
    pub(crate) fn analyze<'s>(
        &mut self,
        spans: impl Iterator<Item = &'s mut Span>,
        data: &[u8],
        sketches: &mut Sketches,
    ) {
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
        let least = sketch_length_min(job, spans.iter().map(|span| span.length), &mut self.lengths);
        let (mut incompressible, mut dissimilar) = (0, 0);
        for span in spans.into_iter().filter(|span| span.length >= least) {
            if span.is_listed || job.loaded.index.contains(&span.id) {
                continue;
            }
            self.unknown += 1;
            if let Some(reason) = job.sampled(span.kind)
                && !self.unknown.is_multiple_of(SAMPLE_EVERY)
            {
                match reason {
                    Sampled::Incompressible => incompressible += u64::from(span.length),
                    Sampled::Dissimilar => dissimilar += u64::from(span.length),
                }
                continue;
            }
            let sketch = sketcher.sketch(span.of(data));
            if !sketch.features().is_empty() {
                span.sketch = sketches.0.len() as u32;
                sketches.0.push(sketch);
            }
        }
        if incompressible + dissimilar > 0 {
            job.count(|tally| {
                tally.incompressible_bytes += incompressible;
                tally.dissimilar_bytes += dissimilar;
            });
        }
    }
}

/// Reason why only a sample of a file's chunks is sketched.
enum Sampled {
    /// The data before them did not compress.
    Incompressible,
    /// Changed files of this class resembled nothing stored.
    Dissimilar,
}

impl Job<'_> {
    /// Returns the reason why only one chunk in [`SAMPLE_EVERY`] of this class is sketched; `None`
    /// if all are.
    fn sampled(&self, class: FileClass) -> Option<Sampled> {
        let learned = &self.learned;
        if self.options.similarity == Similarity::Max {
            None
        } else if learned.incompressible.load(Ordering::Relaxed) >= INCOMPRESSIBLE_MAX {
            Some(Sampled::Incompressible)
        } else if learned.sampling.is_sampled(class) {
            Some(Sampled::Dissimilar)
        } else {
            None
        }
    }
}

/// The shortest chunks of a buffer are not sketched while they make up at most one byte in this
/// many of it.
const SHORT_PART: u64 = 16;
const SHORT_MAX: u32 = 4 << 10;

/// Returns the smallest length of a chunk that is sketched, given the lengths of all chunks.
/// (dDedup §3.4.2 leaves out the shortest two fifths. In a source tree, leaving out all chunks
/// shorter than 4 KiB does not change the stored size.)
pub(crate) fn sketch_length_min(job: &Job<'_>, lengths: impl Iterator<Item = u32>, sorted: &mut Vec<u32>) -> u32 {
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
