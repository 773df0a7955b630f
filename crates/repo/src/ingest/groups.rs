//! Chunks that are like others, and wait to be encoded together.

use ibid_delta::Sketch;

use super::compress::FrameBuffers;
use super::deltas::Group;
use super::job::Job;
use super::open_frame::Open;
use crate::index::Place;
use crate::read::{ChunkReader, Recency};
use crate::similar::{Base, DEPTH_MAX, Distance, Similar};

/// Most chunks that are encoded together.
const LANE_CHUNKS: usize = 64;
/// Chunks after which what was gathered to be encoded is sent off, however little it is. What is
/// encoded together is read together, and the bases of what lies far apart lie far apart too: 16
/// take 2 % more of sources and pages than 48, 8 took 4 % more, and 256 took 30 times as long to
/// read back.
const LANE_PATIENCE: u64 = 48;
/// Depths whose chunks share a lane: it is full sooner, and draws few of them down.
const LANE_DEPTHS: u8 = 2;

/// Where chunks wait that are like others, until enough of them are there to be encoded together.
pub(super) struct Lanes<'j> {
    pub(super) similar: Similar,
    pub(super) bases: &'j ChunkReader<'j>,
    /// The frames that were used last, at most so many: not what is kept at the moment, which
    /// depends on how fast others are. So the same data has the same bases, but for those that
    /// are not stored yet.
    near: Recency,
    near_max: usize,
    /// Chunks with bases, by the depth of the deepest of these, [`LANE_DEPTHS`] together.
    pub(super) lanes: Vec<Lane>,
    /// What the chunks in the frame of those without bases are like.
    pub(super) unlike: Vec<(Place, Sketch)>,
    /// Chunks that were stored since the beginning.
    pub(super) clock: u64,
    /// The bases of the chunk at hand.
    pub(super) found: Vec<Base>,
}

/// Chunks that are gathered to be encoded together.
pub(super) struct Lane {
    pub(super) open: Open,
    pub(super) group: Group,
    /// The clock when the first of them came.
    pub(super) since: u64,
}

impl<'j> Lanes<'j> {
    pub(super) fn new(job: &Job<'_>, similar: Similar, bases: &'j ChunkReader<'j>) -> Lanes<'j> {
        let lane = |_| Lane {
            open: Open::new(job, FrameBuffers::default()),
            group: Group::default(),
            since: 0,
        };
        let kept = job.limits.bases + job.limits.bases_lent;
        Lanes {
            similar,
            bases,
            near: Recency::default(),
            near_max: (kept / u64::from(job.repository.config.frame_size)) as usize,
            lanes: (0..DEPTH_MAX.div_ceil(LANE_DEPTHS)).map(lane).collect(),
            unlike: Vec::new(),
            clock: 0,
            found: Vec::new(),
        }
    }

    /// Finds the bases of a chunk with this sketch, and gives its lane; none if there are none.
    pub(super) fn find(&mut self, job: &Job<'_>, sketch: &Sketch) -> Option<usize> {
        let distance = |place: Place| {
            let is_stored = || job.loaded.index.frame(place.frame).is_stored() && job.may_read(self.bases);
            let is_readable = is_stored() || self.bases.bodies.has(place.frame);
            match is_readable {
                true if self.near.contains(place.frame) => Some(Distance::Near),
                true => Some(Distance::Far),
                false => None,
            }
        };
        self.similar.bases(sketch, distance, &mut self.found);
        for base in &self.found {
            self.near.touch(self.similar.known(base.number).place.frame);
        }
        self.near.shrink(self.near_max);
        let deepest = self.found.iter().map(|base| base.depth).max()?;
        Some(usize::from(deepest / LANE_DEPTHS))
    }

    /// A frame was made.
    pub(super) fn made(&mut self, frame: u32) {
        self.near.touch(frame);
        self.near.shrink(self.near_max);
    }

    /// A lane that is to be sent off, since it is full, or its first chunk has waited for long.
    pub(super) fn due(&self, frame_size: u32) -> Option<usize> {
        let is_due = |lane: &Lane| {
            let is_old = self.clock - lane.since >= LANE_PATIENCE;
            !lane.group.is_empty() && (is_old || lane.group.len() >= LANE_CHUNKS || lane.open.is_full(frame_size))
        };
        self.lanes.iter().position(is_due)
    }
}
