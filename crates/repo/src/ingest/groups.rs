//! Chunks with bases, gathered into groups that are encoded together.

use ibid_delta::Sketch;

use super::compress::FrameBuffers;
use super::deltas::DeltaGroup;
use super::job::Job;
use super::open_frame::OpenFrame;
use crate::index::Place;
use crate::read::{ChunkReader, Recency};
use crate::similar::{Base, DEPTH_MAX, Locality, Similar};

/// Most chunks that are encoded together.
const GROUP_CHUNKS_MAX: usize = 64;
/// Number of new chunks after which a group is sent off, however small it is. A group is read back
/// together, and chunks that are far apart in the data have bases that are far apart, too. With 16,
/// sources and pages take 2 % more space than with 48, with 8 they take 4 % more; with 256, reading
/// back took 30 times as long.
const GROUP_AGE_MAX: u64 = 48;
/// Number of depths whose chunks share a group: it is full sooner, and makes few chunks deeper than
/// they must be.
const GROUP_DEPTHS: u8 = 2;

/// The groups in which chunks with bases wait until there are enough to encode.
pub(super) struct DeltaGroups<'j> {
    pub(super) similar: Similar,
    pub(super) bases: &'j ChunkReader<'j>,
    /// The frames that were used last, at most `recent_max`. The cache's own content would depend on
    /// the speed of other threads; with this, the same data gets the same bases, but for those that
    /// are not stored yet.
    recent: Recency,
    recent_max: usize,
    /// Chunks with bases, by the depth of the deepest of these, [`GROUP_DEPTHS`] together.
    pub(super) open: Vec<OpenGroup>,
    /// The sketches of chunks without bases in the frame that is being gathered.
    pub(super) unlike: Vec<(Place, Sketch)>,
    /// Chunks that were stored since the beginning.
    pub(super) clock: u64,
    /// The bases of the chunk at hand.
    pub(super) found: Vec<Base>,
}

/// Chunks that are gathered to be encoded together.
pub(super) struct OpenGroup {
    pub(super) frame: OpenFrame,
    pub(super) group: DeltaGroup,
    /// The clock when the first of them came.
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

    /// Finds the bases of a chunk with this sketch, and gives its group; none if there are none.
    pub(super) fn find(&mut self, job: &Job<'_>, sketch: &Sketch) -> Option<usize> {
        let locality = |place: Place| {
            let is_stored = || job.loaded.index.frame(place.frame).is_stored() && job.may_read(self.bases);
            let is_readable = is_stored() || self.bases.cache.has(place.frame);
            match is_readable {
                true if self.recent.contains(place.frame) => Some(Locality::Recent),
                true => Some(Locality::Distant),
                false => None,
            }
        };
        self.similar.bases(sketch, locality, &mut self.found);
        for base in &self.found {
            self.recent.touch(self.similar.known(base.number).place.frame);
        }
        self.recent.shrink(self.recent_max);
        let deepest = self.found.iter().map(|base| base.depth).max()?;
        Some(usize::from(deepest / GROUP_DEPTHS))
    }

    /// A frame was made.
    pub(super) fn made(&mut self, frame: u32) {
        self.recent.touch(frame);
        self.recent.shrink(self.recent_max);
    }

    /// A group that is to be sent off, since it is full, or its first chunk has waited for long.
    pub(super) fn due(&self, frame_size: u32) -> Option<usize> {
        let is_due = |open: &OpenGroup| {
            let is_old = self.clock - open.since >= GROUP_AGE_MAX;
            !open.group.is_empty() && (is_old || open.group.len() >= GROUP_CHUNKS_MAX || open.frame.is_full(frame_size))
        };
        self.open.iter().position(is_due)
    }
}
