//! Chunks with bases, gathered into groups that are encoded together.

use std::cell::Cell;

use ibid_delta::Sketch;
use ibid_format::ChunkId;

use super::compress::FrameBuffers;
use super::deltas::DeltaGroup;
use super::earlier;
use super::fingerprint::Span;
use super::job::Job;
use super::open_frame::OpenFrame;
use super::summary::SimilaritySearch;
use crate::index::Place;
use crate::read::{ChunkReader, Recency};
use crate::similar::{Base, DEPTH_MAX, Locality, Similar, Source};
use crate::{Result, Warning};

/// Maximum number of chunks encoded together.
const GROUP_CHUNKS_MAX: usize = 64;
/// Number of new chunks after which a group is sent off, whatever its size. A group is read back
/// together, and chunks far apart in the data have bases far apart. With 16, sources and pages take
/// 2 % more space than with 48; with 8, 4 % more. With 256, reading back took 30 times as long.
const GROUP_AGE_MAX: u64 = 48;
/// Number of adjacent depths that share a group. Sharing fills groups sooner and makes few chunks
/// deeper than necessary.
const GROUP_DEPTHS: u8 = 2;
/// Groups that are open at once, at most.
pub(super) const GROUPS_MAX: u8 = DEPTH_MAX.div_ceil(GROUP_DEPTHS);

/// Groups in which chunks with bases wait to be encoded together.
pub(super) struct DeltaGroups<'j> {
    /// Sketches of stored chunks, once there is a new one.
    pub(super) similar: Option<Similar>,
    /// The last chunk that was known: what follows it in the repository may resemble what follows it in
    /// the data.
    last_known: Option<ChunkId>,
    pub(super) bases: &'j ChunkReader<'j>,
    /// The most recently used frames, at most `recent_max`. The cache's own contents depend on the
    /// timing of other threads; this list makes the choice of bases reproducible, except for bases
    /// that are not stored yet.
    recent: Recency,
    recent_max: usize,
    /// Open groups by the depth of their deepest base, so many depths each.
    pub(super) open: Vec<OpenGroup>,
    /// Sketches of chunks without bases in the frame that is being gathered.
    pub(super) unlike: Vec<(Place, Sketch)>,
    /// Number of chunks stored so far.
    pub(super) clock: u64,
    /// Bases found for the current chunk.
    pub(super) found: Vec<Base>,
}

/// Chunks gathered to be encoded together.
pub(super) struct OpenGroup {
    pub(super) frame: OpenFrame,
    pub(super) group: DeltaGroup,
    /// The clock when its first chunk was added.
    pub(super) since: u64,
}

impl<'j> DeltaGroups<'j> {
    pub(super) fn new(job: &Job<'_>, bases: &'j ChunkReader<'j>) -> Result<DeltaGroups<'j>> {
        let open = |_| {
            Ok(OpenGroup {
                frame: OpenFrame::new(job, FrameBuffers::default())?,
                group: DeltaGroup::default(),
                since: 0,
            })
        };
        let kept = job.limits.bases + job.limits.bases_lent;
        Ok(DeltaGroups {
            similar: None,
            last_known: None,
            bases,
            recent: Recency::default(),
            recent_max: (kept / u64::from(job.repository.config.frame_size)) as usize,
            open: (0..GROUPS_MAX).map(open).collect::<Result<_>>()?,
            unlike: Vec::new(),
            clock: 0,
            found: Vec::new(),
        })
    }

    /// Notes that a chunk was known.
    pub(super) fn known(&mut self, id: &ChunkId) {
        self.last_known = Some(*id);
    }

    /// Loads the sketches of stored chunks, before the first new chunk.
    pub(super) fn prepare(&mut self, job: &Job<'_>, bytes: u64) -> Result<&mut Similar> {
        if self.similar.is_none() {
            self.similar = Some(earlier::load_similar(job, self.bases)?);
        }
        let similar = self.similar.as_mut().expect("just loaded");
        similar.earn(bytes);
        Ok(similar)
    }

    /// Finds the bases of a chunk with this sketch and returns its group; none if there are no bases. Counts how
    /// they were found.
    pub(super) fn find(
        &mut self,
        job: &Job<'_>,
        sketch: &Sketch,
        span: &Span,
        search: &mut SimilaritySearch,
    ) -> Result<Option<usize>> {
        let bytes = u64::from(span.length);
        let is_found = self.look(job, sketch)? || self.fetch(job, sketch) && self.look(job, sketch)?;
        let similar = self.similar.as_ref().expect("prepared before");
        search.chunks += 1;
        if !is_found && similar.is_limited() {
            search.limited_bytes += bytes;
        }
        match self.found.first().map(|base| similar.source(base)) {
            Some(Source::Memory) => search.found_in_memory += 1,
            Some(Source::Neighbour) => search.found_by_neighbours += 1,
            Some(Source::Features) => search.found_by_features += 1,
            None => {}
        }
        for base in &self.found {
            self.recent.touch(base.place.frame);
        }
        self.recent.shrink(self.recent_max);
        let deepest = self.found.iter().map(|base| base.depth).max();
        Ok(deepest.map(|depth| usize::from(depth / GROUP_DEPTHS)))
    }

    /// Looks for bases in memory. Returns whether they share at least half of the features.
    fn look(&mut self, job: &Job<'_>, sketch: &Sketch) -> Result<bool> {
        let failure = Cell::new(None);
        let may_be_base = |place: Place| match job.again().map(|again| again.may_be_base(&job.loaded, place)) {
            None => true,
            Some(Ok(may_be)) => may_be,
            Some(Err(error)) => {
                failure.set(Some(error));
                false
            }
        };
        let locality = |place: Place| {
            let index = &job.loaded.index;
            let is_stored = || index.is_stored(place.frame) && job.may_read(self.bases) && may_be_base(place);
            let is_readable = is_stored() || self.bases.cache.has(place.frame);
            match is_readable {
                true if self.recent.contains(place.frame) => Some(Locality::Recent),
                true => Some(Locality::Distant),
                false => None,
            }
        };
        let similar = self.similar.as_mut().expect("prepared before");
        let is_found = similar.bases(sketch, locality, &mut self.found);
        failure.into_inner().map_or(Ok(is_found), Err)
    }

    /// Brings sketches into memory that this one may resemble. Returns whether there are more now.
    fn fetch(&mut self, job: &Job<'_>, sketch: &Sketch) -> bool {
        let similar = self.similar.as_mut().expect("prepared before");
        if !similar.has_library() {
            return false;
        }
        let index = &job.loaded.index;
        let known = self.last_known.take().and_then(|id| index.get(&id));
        let near = known.filter(|place| place.frame < index.stored_frames());
        let near = near.map(|place| index.pack(index.frame(place.frame).pack).id);
        similar.fetch(&job.loaded, sketch, near).unwrap_or_else(|error| {
            // Without them, less is found.
            job.monitor.warn(Warning::Cache { error });
            similar.close_library();
            false
        })
    }

    /// Records that a frame was made.
    pub(super) fn made(&mut self, frame: u32) {
        self.recent.touch(frame);
        self.recent.shrink(self.recent_max);
    }

    /// Returns a group to send off, because it is full or its first chunk has waited too long.
    pub(super) fn due(&self, frame_size: u32) -> Option<usize> {
        let is_due = |open: &OpenGroup| {
            let is_old = self.clock - open.since >= GROUP_AGE_MAX;
            !open.group.is_empty() && (is_old || open.group.len() >= GROUP_CHUNKS_MAX || open.frame.is_full(frame_size))
        };
        self.open.iter().position(is_due)
    }
}
