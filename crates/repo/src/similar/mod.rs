//! What was stored that is like this?
//!
//! Every chunk that has a sketch is known here by a number, in the order in which chunks came; so the neighbours of a chunk in the data are its neighbours here.
//! A chunk's features are entered once its frame is complete: until then nobody can read it.

mod saved;

pub(crate) use saved::{UNSAVED_MAX, read};

use crate::index::Place;
use ibid_delta::{Candidate, FeatureIndex, Scored, Scoring, Sketch, Standing};
use ibid_format::sketches::FEATURES_MAX;
use std::collections::VecDeque;

/// Deepest that a chunk may come to lie: the deltas to apply until its bytes are there.
pub(crate) const DEPTH_MAX: u8 = 8;
/// Bits of a feature that are kept: as many as in files of sketches.
const FEATURE_BITS: u32 = 32;
/// The one partition of the index of features.
const PARTITION: u64 = 0;
/// What is far must have so many features in common with a chunk to be its base.
const SHARED_FAR_MIN: u32 = 2;
/// What is near may have so many fewer in common than what is far.
const NEAR_REWARD: f32 = 1.0;
/// Entries that there is room for beyond those of the chunks that are stored already.
const ENTRIES_NEW: u64 = 2 << 20;

/// A chunk that may be of use to others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) place: Place,
    /// None while its frame is being gathered.
    pub(crate) depth: Option<u8>,
    /// Whether it came right after the one before.
    follows: bool,
}

/// What it takes to read a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distance {
    /// Its frame is in use anyway.
    Near,
    /// Its frame, and perhaps those below it, must be read.
    Far,
}

/// A base that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) number: u32,
    pub(crate) depth: u8,
}

/// What is known of the chunks of this backup and those before it.
pub(crate) struct Similar {
    index: FeatureIndex,
    scoring: Scoring,
    known: Vec<Known>,
    /// Sketches of the last of these, which no file of sketches has yet.
    unsaved: VecDeque<Sketch>,
    candidates: Vec<Candidate>,
    ranked: Vec<Scored>,
}

impl Similar {
    /// Nothing yet; with room for the features of so many chunks that are stored and some more, within `memory` bytes.
    pub(crate) fn new(stored: u64, memory: u64) -> Similar {
        let room = stored.saturating_mul(FEATURES_MAX as u64).saturating_add(ENTRIES_NEW);
        // The table takes up to 2/0.9 of what it is asked for.
        let most = memory / ibid_delta::BYTES_PER_ENTRY as u64 * 9 / 20;
        let mut index = FeatureIndex::new();
        index
            .add_partition(PARTITION, room.min(most) as usize)
            .expect("far from a billion entries");
        Similar {
            index,
            scoring: Scoring {
                cached_reward: NEAR_REWARD,
                // Of what has many versions, every feature is hot.
                hot_weight: 1.0,
                depth_max: DEPTH_MAX.into(),
                ..Scoring::default()
            },
            known: Vec::new(),
            unsaved: VecDeque::new(),
            candidates: Vec::new(),
            ranked: Vec::new(),
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> u64 {
        let unsaved = self.unsaved.capacity() * size_of::<Sketch>();
        (self.index.memory() + self.known.capacity() * size_of::<Known>() + unsaved) as u64
    }

    /// A chunk of this backup that is being stored; gives its number.
    pub(crate) fn add(&mut self, place: Place, follows: bool, sketch: &Sketch) -> u32 {
        self.unsaved.push_back(shortened(sketch));
        self.enter(place, follows, None)
    }

    fn enter(&mut self, place: Place, follows: bool, depth: Option<u8>) -> u32 {
        self.known.push(Known { place, depth, follows });
        self.known.len() as u32 - 1
    }

    /// The frame of a chunk that was added is complete, and lies so deep: from now on, others find it.
    pub(crate) fn complete(&mut self, number: u32, depth: u8) {
        self.known[number as usize].depth = Some(depth);
        let saved = self.known.len() - self.unsaved.len();
        if depth < DEPTH_MAX
            && let Some(sketch) = (number as usize).checked_sub(saved).and_then(|at| self.unsaved.get(at))
        {
            self.index.insert(PARTITION, sketch, number);
        }
    }

    /// The chunk that is most like one with this sketch. `standing` says of a place how far it is, or that it can't be read.
    ///
    /// What is near is preferred, and one feature in common is enough; for what is far, a whole frame may have to be read, which takes more in common.
    pub(crate) fn base(&mut self, sketch: &Sketch, distance: impl Fn(Place) -> Option<Distance>) -> Option<Base> {
        self.index
            .candidates(PARTITION, &shortened(sketch), &mut self.candidates);
        let known = &self.known;
        let far = |number: u32| distance(known[number as usize].place) == Some(Distance::Far);
        self.candidates
            .retain(|candidate| candidate.shared + candidate.hot >= SHARED_FAR_MIN || !far(candidate.place));
        let standing = |number: u32| {
            let known = known.get(number as usize)?;
            Some(Standing {
                cached: distance(known.place)? == Distance::Near,
                depth: known.depth?.into(),
            })
        };
        self.scoring.rank(&self.candidates, standing, &mut self.ranked);
        let number = self.ranked.first()?.place;
        let depth = self.known[number as usize].depth?;
        Some(Base { number, depth })
    }

    /// Gives up saving the older half of what waits for it.
    pub(crate) fn forget_unsaved(&mut self) {
        self.unsaved.drain(..self.unsaved.len() / 2);
    }

    /// The chunk with this number.
    pub(crate) fn known(&self, number: u32) -> Known {
        self.known[number as usize]
    }

    /// The number of the chunk that came right before this one.
    pub(crate) fn before(&self, number: u32) -> Option<u32> {
        self.known[number as usize].follows.then(|| number - 1)
    }

    /// The number of the chunk that came right after this one.
    pub(crate) fn after(&self, number: u32) -> Option<u32> {
        let next = self.known.get(number as usize + 1)?;
        next.follows.then_some(number + 1)
    }
}

/// A sketch as it is kept: its features' upper halves. Shared features stay shared.
fn shortened(sketch: &Sketch) -> Sketch {
    Sketch::of(sketch.features().iter().map(|feature| feature >> FEATURE_BITS))
}
