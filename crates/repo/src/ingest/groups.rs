//! Chunks with bases, gathered into groups that are encoded together.

use ibid_delta::Sketch;

use super::compress::FrameBuffers;
use super::deltas::DeltaGroup;
use super::job::Job;
use super::open_frame::OpenFrame;
use crate::index::Place;
use crate::read::{ChunkReader, Recency};
use crate::similar::{Base, DEPTH_MAX, Locality, Similar};

/// Maximum number of chunks encoded together.
const GROUP_CHUNKS_MAX: usize = 64;
/// Number of new chunks after which a group is sent off, whatever its size. A group is read back
/// together, and chunks far apart in the data have bases far apart. With 16, sources and pages take
/// 2 % more space than with 48; with 8, 4 % more. With 256, reading back took 30 times as long.
const GROUP_AGE_MAX: u64 = 48;
/// Number of adjacent depths that share a group. Sharing fills groups sooner and makes few chunks
/// deeper than necessary.
const GROUP_DEPTHS: u8 = 2;

/// Groups in which chunks with bases wait to be encoded together.
pub(super) struct DeltaGroups<'j> {
    pub(super) similar: Similar,
    pub(super) bases: &'j ChunkReader<'j>,
    /// The most recently used frames, at most `recent_max`. The cache's own contents depend on the
    /// timing of other threads; this list makes the choice of bases reproducible, except for bases
    /// that are not stored yet.
    recent: Recency,
    recent_max: usize,
    /// Open groups by the depth of their deepest base, [`GROUP_DEPTHS`] depths each.
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
    pub(super) fn new(job: &Job<'_>, similar: Similar, bases: &'j ChunkReader<'j>) -> DeltaGroups<'j> {
        let open = |_| OpenGroup {
            frame: OpenFrame::new(job, FrameBuffers::default()),
            group: DeltaGroup::default(),
            since: 0,
        };
        let kept = job.limits.bases + job.limits.bases_lent;
        DeltaGroups {
            similar,
            bases,
            recent: Recency::default(),
            recent_max: (kept / u64::from(job.repository.config.frame_size)) as usize,
            open: (0..DEPTH_MAX.div_ceil(GROUP_DEPTHS)).map(open).collect(),
            unlike: Vec::new(),
            clock: 0,
            found: Vec::new(),
        }
    }

    /// Finds the bases of a chunk with this sketch and returns its group; none if there are no
    /// bases.
    pub(super) fn find(&mut self, job: &Job<'_>, sketch: &Sketch) -> Option<usize> {
        let locality = |place: Place| {
            let is_stored = || job.loaded.index.is_stored(place.frame) && job.may_read(self.bases);
            let is_readable = is_stored() || self.bases.cache.has(place.frame);
            match is_readable {
                true if self.recent.contains(place.frame) => Some(Locality::Recent),
                true => Some(Locality::Distant),
                false => None,
            }
        };
        self.similar.bases(sketch, locality, &mut self.found);
        for base in &self.found {
            self.recent.touch(base.place.frame);
        }
        self.recent.shrink(self.recent_max);
        let deepest = self.found.iter().map(|base| base.depth).max()?;
        Some(usize::from(deepest / GROUP_DEPTHS))
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
