//! What is a chunk called, and what is it like?

use super::{Job, Similarity};
use crate::similar::FEATURES;
use ibid_delta::{Sketch, Sketcher};
use ibid_format::{ChunkId, Fingerprinter};
use std::sync::atomic::Ordering;

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
    /// Whether a pack lists it, so that nothing similar need be looked for. (Whether it can be read, the index says.)
    pub(crate) is_listed: bool,
}

impl Span {
    /// A chunk that was cut, and neither fingerprinted nor sketched.
    pub(crate) fn new(start: usize, length: usize) -> Span {
        Span {
            start: start as u32,
            length: length as u32,
            id: ChunkId([0; 32]),
            sketch: u32::MAX,
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
}

/// After so many bytes that did not compress, what is similar is looked for in one chunk of so many only: media and archives that were compressed have nothing in common but
/// whole chunks.
const INCOMPRESSIBLE_MAX: u64 = 16 << 20;
const LOOK_EVERY: u64 = 16;

impl<'a> Eye<'a> {
    pub(crate) fn new(job: &'a Job<'a>) -> Eye<'a> {
        Eye {
            job,
            fingerprinter: Fingerprinter::new(&job.repository.keys),
            sketcher: job.bases.is_some().then(|| Sketcher::new().with_features(FEATURES)),
            unknown: 0,
        }
    }

    /// Fingerprints chunks of a buffer that are not yet, and sketches those that are unknown so far.
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
        for span in spans {
            self.sketch(span, data, sketches);
        }
    }

    fn sketch(&mut self, span: &mut Span, data: &[u8], sketches: &mut Sketches) {
        let chunk = span.of(data);
        if let Some(sketcher) = &mut self.sketcher
            && !span.is_listed
            && self.job.loaded.index.get(&span.id).is_none()
        {
            let job = self.job;
            self.unknown += 1;
            if job.options.similarity == Similarity::Auto
                && job.incompressible.load(Ordering::Relaxed) >= INCOMPRESSIBLE_MAX
                && !self.unknown.is_multiple_of(LOOK_EVERY)
            {
                job.passed_over.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                return;
            }
            let sketch = sketcher.sketch(chunk);
            if !sketch.features().is_empty() {
                span.sketch = sketches.0.len() as u32;
                sketches.0.push(sketch);
            }
        }
    }
}
