//! Compression of frames, with or without bases.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ibid_delta::advanced::RangeSelector;
use ibid_format::frame::{self, Blob};
use ibid_format::pack::PackKind;
use ibid_format::{ChunkId, ChunkPrefix};

use super::deltas::{self, BaseCandidates};
use super::effort::{DeltaEffort, EffortChoice};
use super::job::Job;
use super::options::Compression;
use crate::Error;
use crate::index::Place;
use crate::read::{Body, DeltaBody, Sources};

/// Minimum growth of a frame being gathered, bytes.
const GROWTH: usize = 256 << 10;

/// Chunks gathered for a frame. The buffers are reused, because fresh memory costs page faults.
#[derive(Default)]
pub(crate) struct FrameBuffers {
    pub(crate) blobs: Vec<Blob>,
    /// Bytes of the chunks, in order.
    pub(crate) body: Vec<u8>,
    /// Output of [`frame::FrameEncoder::encode`].
    pub(crate) plaintext: Vec<u8>,
}

/// A frame to which no more chunks are added.
pub(crate) struct CompleteFrame {
    pub(crate) number: u32,
    pub(crate) blobs: Vec<Blob>,
    pub(crate) body: Arc<Body>,
    pub(crate) plaintext: Vec<u8>,
    pub(crate) kind: PackKind,
    /// Candidate bases, if similar chunks were found.
    pub(crate) against: Option<BaseCandidates>,
}

/// A compressed frame.
pub(crate) struct EncodedFrame {
    pub(crate) blobs: Vec<Blob>,
    /// The chunks; empty if it was not made here.
    pub(crate) body: Arc<Body>,
    pub(crate) plaintext: Vec<u8>,
    /// Depth of the frame, and the bases that it names.
    pub(crate) depth: u8,
    pub(crate) bases: Vec<ChunkPrefix>,
    pub(crate) error: Option<Error>,
}

impl FrameBuffers {
    pub(crate) fn push(&mut self, id: ChunkId, chunk: &[u8]) {
        let length = chunk.len() as u32;
        self.blobs.push(Blob { id, length });
        // Bodies are kept, and unused capacity counts as used: doubling would take up to twice the
        // memory.
        if self.body.capacity() - self.body.len() < chunk.len() {
            self.body.reserve_exact(chunk.len().max(GROWTH));
        }
        self.body.extend_from_slice(chunk);
    }
}

impl From<EncodedFrame> for FrameBuffers {
    /// Reuses the buffers of a finished frame; that of its body only if no cache keeps it.
    fn from(frame: EncodedFrame) -> FrameBuffers {
        let mut blobs = frame.blobs;
        blobs.clear();
        let (mut body, _) = Body::memory(frame.body).unwrap_or_default();
        body.clear();
        FrameBuffers {
            blobs,
            body,
            plaintext: frame.plaintext,
        }
    }
}

/// Compression levels that suit the data, as learned by the workers.
pub(crate) struct Efforts {
    whole: EffortChoice,
    delta: DeltaEffort,
    /// Compressed bytes per MiB of data without bases, averaged over recent frames; 0 before the
    /// first.
    usual: AtomicU64,
}

impl Efforts {
    pub(crate) fn new() -> Efforts {
        Efforts {
            whole: EffortChoice::new(),
            delta: DeltaEffort::new(),
            usual: AtomicU64::new(0),
        }
    }

    /// Records the compressed size of a frame without bases, bytes.
    fn note(&self, length: usize, taken: usize) {
        let taken = ((taken as u64) << 20) / length.max(1) as u64;
        let usual = match self.usual.load(Ordering::Relaxed) {
            0 => taken,
            usual => (7 * usual + taken) / 8,
        };
        self.usual.store(usual, Ordering::Relaxed);
    }

    /// Estimates the compressed size of data of this length without bases, bytes.
    fn expected(&self, length: usize) -> usize {
        ((length as u64 * self.usual.load(Ordering::Relaxed)) >> 20) as usize
    }
}

/// Compresses frames.
pub(crate) struct Compressor<'a> {
    job: &'a Job<'a>,
    efforts: &'a Efforts,
    encoder: frame::FrameEncoder,
    cover: RangeSelector,
    prefix: Vec<u8>,
    /// Scratch memory for trials.
    space: Vec<u8>,
    delta: Vec<u8>,
}

impl<'a> Compressor<'a> {
    pub(crate) fn new(job: &'a Job<'a>, efforts: &'a Efforts) -> Compressor<'a> {
        Compressor {
            job,
            efforts,
            encoder: frame::FrameEncoder::default(),
            cover: deltas::cover(),
            prefix: Vec::new(),
            space: Vec::new(),
            delta: Vec::new(),
        }
    }

    pub(crate) fn encode(&mut self, frame: CompleteFrame) -> EncodedFrame {
        let compression = match (frame.kind, self.job.options.compression) {
            // Metadata never gains from another level than the default's.
            (PackKind::Metadata, Compression::Auto) => Compression::Level(3),
            (_, compression) => compression,
        };
        let mut encoded = EncodedFrame {
            blobs: frame.blobs,
            body: frame.body,
            plaintext: frame.plaintext,
            depth: 0,
            bases: Vec::new(),
            error: None,
        };
        encoded.plaintext.clear();
        let result = match frame.against {
            None if frame.kind == PackKind::Metadata => self.whole(&mut encoded, compression),
            None => self.data(&mut encoded, compression),
            Some(against) => self.delta(&mut encoded, frame.number, &against, compression),
        };
        encoded.error = result.err();
        encoded
    }

    /// Compresses data without bases, and records its size.
    fn data(&mut self, frame: &mut EncodedFrame, compression: Compression) -> crate::Result<()> {
        self.whole(frame, compression)?;
        let (length, taken) = (frame.body.whole().len(), frame.plaintext.len());
        self.efforts.note(length, taken);
        let run = &self.job.learned.incompressible;
        if taken < length {
            run.store(0, Ordering::Relaxed);
        } else {
            run.fetch_add(length as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Compresses a frame without bases.
    fn whole(&mut self, frame: &mut EncodedFrame, compression: Compression) -> crate::Result<()> {
        let EncodedFrame {
            blobs, body, plaintext, ..
        } = frame;
        let mut fixed = |compression| self.encoder.encode(blobs, body.whole(), compression, plaintext);
        let result = match compression {
            Compression::Off => fixed(frame::Compression::Stored),
            Compression::Level(level) => fixed(frame::Compression::Zstd(level)),
            Compression::Auto => {
                let effort = &self.efforts.whole;
                effort.encode(&mut self.encoder, blobs, body.whole(), plaintext, &mut self.space)
            }
        };
        result.map_err(Error::damaged("a frame being compressed"))
    }

    /// Compresses a frame against its bases, or without them if that is about as small.
    fn delta(
        &mut self,
        frame: &mut EncodedFrame,
        number: u32,
        against: &BaseCandidates,
        compression: Compression,
    ) -> crate::Result<()> {
        let reader = self.job.bases.as_ref().expect("bases were found by a reader");
        let target = frame.body.whole();
        let bases = against.read(reader, &mut self.cover, target, &mut self.prefix)?;
        for (frame, error) in bases.faults {
            self.job.damaged(frame, error);
        }
        if bases.pieces.is_empty() {
            return self.data(frame, compression);
        }
        let level = match compression {
            Compression::Level(level) => Some(level),
            Compression::Off | Compression::Auto => None,
        };
        let bytes = frame.body.whole().len();
        self.efforts
            .delta
            .encode(
                &mut self.encoder,
                (&frame.blobs, frame.body.whole()),
                (&bases.pieces, &self.prefix),
                level,
                &mut frame.plaintext,
                &mut self.space,
            )
            .map_err(Error::damaged("a frame being compressed"))?;
        if frame.plaintext.len() > self.efforts.expected(bytes) {
            std::mem::swap(&mut frame.plaintext, &mut self.delta);
            frame.plaintext.clear();
            self.data(frame, compression)?;
            // A base makes reads slower, so the delta must be clearly smaller.
            if frame.plaintext.len() <= self.delta.len() + self.delta.len() / 16 {
                return Ok(());
            }
            std::mem::swap(&mut frame.plaintext, &mut self.delta);
        }
        // The delta pays, however little this data compresses without bases.
        self.job.learned.incompressible.store(0, Ordering::Relaxed);
        frame.depth = bases.depth;
        frame.bases = names(&bases.pieces);
        // Keep only the difference in the cache once all bases can be read back.
        let is_stored = |place: &Place| self.job.loaded.index.is_stored(place.frame);
        if let Some(outline) = self.encoder.outline()
            && bases.places.iter().all(is_stored)
        {
            let sources = Sources::new(number, &bases.pieces, &bases.places);
            let body = Body::encoded(DeltaBody { outline, sources }, &frame.blobs);
            reader.cache.put(number, Arc::new(body));
        }
        Ok(())
    }
}

/// Returns the bases of these pieces without duplicates, in order of first use.
fn names(pieces: &[frame::Piece]) -> Vec<ChunkPrefix> {
    let mut names: Vec<ChunkPrefix> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        if !names.contains(&piece.base) {
            names.push(piece.base);
        }
    }
    names
}
