//! What snapshots need of each frame, and which frames need which.

use ibid_format::ChunkId;

use crate::index::{Dependencies, Frame, Index, LoadedIndex, NumberSet, Pairs, Unread};
use crate::scratch::{Array, Bits};
use crate::tree::Reach;
use crate::{Repository, Result, SnapshotInfo};

/// A frame with a smaller share of what is not needed is left as it is.
const UNUSED_SHARE_MIN: f64 = 0.05;

/// What is known of the frames.
pub(super) struct Facts {
    /// Frames that snapshots need, or that are bases of some that are, or may be.
    pub(super) kept: NumberSet,
    /// Those of them that are only kept because they may be bases of frames that can't be read now.
    pub(super) held: NumberSet,
    /// For each frame, how many bytes of its chunks snapshots need.
    pub(super) bytes: Array<u32>,
    /// The chunks that no snapshot needs, by their ordinals.
    pub(super) unneeded: Bits,
    /// Pairs of a frame and a base frame, and the other way round.
    pub(super) bases: Pairs,
    pub(super) dependents: Pairs,
    /// The frames that are encoded against chunks that no snapshot needs.
    on_unneeded: NumberSet,
    /// Packs with chunks that snapshots need, but that can't be decoded because of damage. They stay as they are: what
    /// they lack may be stored again. If they were moved, index files would list them as if they lacked nothing.
    stays: NumberSet,
    /// The frames of these packs.
    in_staying: NumberSet,
    /// Whether there are frames whose bases can't be read now.
    any_unread: bool,
    /// Which of their packs are there.
    pub(super) unread: Unread,
}

impl Facts {
    /// Finds out what these snapshots need.
    pub(super) fn find(repository: &Repository, loaded: &LoadedIndex, snapshots: &[SnapshotInfo]) -> Result<Facts> {
        let Needed {
            mut bytes,
            chunks,
            lost_in,
        } = Needed::find(repository, loaded, snapshots)?;
        let mut in_staying = NumberSet::default();
        for pack in lost_in.iter() {
            for frame in loaded.index.frames_of(pack) {
                in_staying.insert(frame);
            }
        }
        let mut unneeded = chunks.complement()?;
        let mut dependencies = match loaded.index.has_deltas() {
            true => Dependencies::read(&repository.scratch(), loaded, Some(&mut unneeded), &repository.monitor)?,
            false => Dependencies::none(&repository.scratch())?,
        };
        let (unread_depth, unread) = (dependencies.unread_depth(), dependencies.take_unread());
        let mut bases = dependencies.bases(&repository.scratch())?;
        let (dependents, mut pairs) = dependencies.into_dependents();
        let mut on_unneeded = NumberSet::default();
        for at in 0..pairs.len() {
            on_unneeded.insert(pairs.get(at)?.1);
        }
        let mut needed = NumberSet::default();
        for frame in 0..loaded.index.stored_frames() {
            if bytes.get(frame.into())? > 0 || in_staying.contains(frame) {
                needed.insert(frame);
            }
        }
        let mut kept = with_bases(&needed, &mut bases)?;
        let mut held = NumberSet::default();
        if unread_depth > 0 {
            loaded.index.each_frame(|number, frame| {
                // Their own bases are less deep, and held as well. None is encoded against what a writer has signed.
                if frame.depth < unread_depth && !loaded.index.is_doubted(number) && kept.insert(number) {
                    held.insert(number);
                }
                Ok(())
            })?;
        }
        Ok(Facts {
            kept,
            held,
            bytes,
            unneeded,
            bases,
            dependents,
            on_unneeded,
            stays: lost_in,
            in_staying,
            any_unread: unread_depth > 0,
            unread,
        })
    }

    /// Returns whether a pack stays as it is.
    pub(super) fn stays(&self, pack: u32) -> bool {
        self.stays.contains(pack)
    }

    /// Returns the packs that stay as they are.
    pub(super) fn staying(&self) -> impl Iterator<Item = u32> + '_ {
        self.stays.iter()
    }

    /// Returns whether there are frames that can't be decoded or read now, and whose bases must stay.
    pub(super) fn waits_for_lost(&self) -> bool {
        !self.stays.is_empty() || self.any_unread
    }

    /// Returns whether a frame has chunks that snapshots need, or stays with its pack.
    pub(super) fn is_needed(&mut self, frame: u32) -> Result<bool> {
        Ok(self.bytes.get(frame.into())? > 0 || self.in_staying.contains(frame))
    }

    /// Returns about how many of a frame's stored bytes are for chunks that snapshots need.
    pub(super) fn needed_part(&mut self, number: u32, frame: &Frame) -> Result<u64> {
        if self.in_staying.contains(number) {
            return Ok(frame.sealed.into());
        }
        let bytes = u64::from(self.bytes.get(number.into())?.min(frame.length));
        Ok(u64::from(frame.sealed) * bytes / u64::from(frame.length.max(1)))
    }

    /// Returns whether so little of a frame is needed that the rest is worth freeing.
    pub(super) fn is_partly_needed(&mut self, number: u32, frame: &Frame) -> Result<bool> {
        let unneeded = u64::from(frame.sealed) - self.needed_part(number, frame)?;
        Ok(unneeded as f64 >= f64::from(frame.sealed) * UNUSED_SHARE_MIN)
    }

    /// Returns whether frames that are kept are encoded against chunks of this one.
    pub(super) fn is_base(&mut self, frame: u32) -> Result<bool> {
        let mut at = self.dependents.start(frame)?;
        while let Some(dependent) = self.dependents.second(at, frame)? {
            if self.kept.contains(dependent) {
                return Ok(true);
            }
            at += 1;
        }
        Ok(false)
    }

    /// Returns whether any frames are encoded against chunks of this one. Those that are not kept stay with their
    /// packs, and so do their bases.
    fn has_dependents(&mut self, frame: u32) -> Result<bool> {
        let at = self.dependents.start(frame)?;
        Ok(self.dependents.second(at, frame)?.is_some())
    }

    /// Returns whether the rest of a frame that is needed in part is freed if that part is stored again: it is no base
    /// of others, and none of its own bases is without need.
    pub(super) fn is_free_to_shrink(&mut self, number: u32, frame: &Frame) -> Result<bool> {
        Ok(self.is_needed(number)?
            && self.is_partly_needed(number, frame)?
            && !self.on_unneeded.contains(number)
            && !self.has_dependents(number)?)
    }
}

/// What snapshots need.
struct Needed {
    /// For each frame, how many bytes of its chunks.
    bytes: Array<u32>,
    /// The ordinals of these chunks.
    chunks: Bits,
    /// Packs with needed chunks that can't be decoded.
    lost_in: NumberSet,
}

impl Needed {
    fn find(repository: &Repository, loaded: &LoadedIndex, snapshots: &[SnapshotInfo]) -> Result<Needed> {
        let (index, scratch) = (&loaded.index, repository.scratch());
        let reader = repository.tree_reader()?;
        repository.fetch_roots(&reader, snapshots)?;
        let mut reach = Reach::new(repository, &reader);
        let mut needed = Needed {
            bytes: Array::zeros(&scratch, index.stored_frames().into())?,
            chunks: Bits::new(&scratch, index.ordinals())?,
            lost_in: NumberSet::default(),
        };
        for info in snapshots {
            let visited = reach.visit(&info.snapshot.root, &mut |id, length, _| {
                if !needed.add(index, id, length)? {
                    for frame in index.lost_frames_of(id) {
                        needed.lost_in.insert(index.frame(frame).pack);
                    }
                }
                Ok(())
            });
            visited.map_err(|error| error.of_what_is_needed(info))?;
        }
        // A backup takes nothing from a checkpoint that can't be decoded.
        let of_checkpoint = &mut |id: &ChunkId, length, _| needed.add(index, id, length).map(drop);
        // What is encoded anew visits the same ones.
        repository.visit_checkpoints(&loaded.listed.copy(), &mut reach, snapshots, of_checkpoint)?;
        Ok(needed)
    }

    /// Adds a chunk; returns whether it can be decoded.
    fn add(&mut self, index: &Index, id: &ChunkId, length: u32) -> Result<bool> {
        let Some(place) = index.get_stored(id) else {
            return Ok(false);
        };
        if self.chunks.insert(index.ordinal(place))? {
            let before = self.bytes.get(place.frame.into())?;
            self.bytes.set(place.frame.into(), before.saturating_add(length))?;
        }
        Ok(true)
    }
}

/// Returns these frames with all that they are decoded from.
fn with_bases(frames: &NumberSet, bases: &mut Pairs) -> Result<NumberSet> {
    let mut found = NumberSet::default();
    let mut todo = Vec::new();
    for frame in frames.iter() {
        todo.push(frame);
        while let Some(frame) = todo.pop() {
            if found.insert(frame) {
                let mut at = bases.start(frame)?;
                while let Some(base) = bases.second(at, frame)? {
                    todo.push(base);
                    at += 1;
                }
            }
        }
    }
    Ok(found)
}
