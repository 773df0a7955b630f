//! Order in which a check reads frames: each soon after its bases, while these are still cached.
//!
//! A frame follows its deepest base, and all its direct and indirect dependents come before any
//! other frame. The plan keeps a few numbers per frame and none of its bytes.

use std::sync::{Condvar, Mutex, MutexGuard};

use ibid_format::Keys;
use ibid_format::pack::PackSummary;

use crate::index::{LoadedIndex, find_base};

/// Hash of the ids of a frame's chunks. Keeping the ids themselves would take as much memory as the
/// index.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// Returns the fingerprint of concatenated ids.
    pub(super) fn of(keys: &Keys, ids: &[u8]) -> Fingerprint {
        let whole = keys.chunk_id(ids).0;
        Fingerprint(whole[..16].try_into().expect("16 bytes"))
    }
}

/// Facts from the packs' directories that determine the reading order, by frame number.
pub(super) struct Plan {
    /// The deepest base of each frame, or [`NONE`].
    after: Vec<u32>,
    /// Whether other frames are encoded against each.
    is_base: Vec<bool>,
    /// Fingerprint of each frame's ids, if the directory of its pack can be read.
    named: Vec<Option<Fingerprint>>,
}

/// Stands for no frame.
const NONE: u32 = u32::MAX;

impl Plan {
    /// Returns an empty plan for this many frames.
    pub(super) fn new(frames: usize) -> Plan {
        Plan {
            after: vec![NONE; frames],
            is_base: vec![false; frames],
            named: vec![None; frames],
        }
    }

    /// Adds the `count` frames of a pack from its directory; `first` is the number of the first.
    pub(super) fn add(&mut self, loaded: &LoadedIndex, keys: &Keys, first: u32, count: usize, summary: &PackSummary) {
        let mut ids = Vec::new();
        for (frame, number) in summary.frames.iter().take(count).zip(first as usize..) {
            ids.clear();
            frame.blobs.iter().for_each(|blob| ids.extend_from_slice(&blob.id.0));
            self.named[number] = Some(Fingerprint::of(keys, &ids));
            // Use the depth from the index, so that no frame can follow itself.
            let depth = loaded.index.frame(number as u32).depth;
            let mut deepest = None;
            for place in frame.bases.iter().filter_map(|&base| find_base(loaded, base, depth)) {
                self.is_base[place.frame as usize] = true;
                deepest = deepest.max(Some((loaded.index.frame(place.frame).depth, place.frame)));
            }
            self.after[number] = deepest.map_or(NONE, |(_, frame)| frame);
        }
    }

    /// Returns whether other frames are encoded against this one.
    pub(super) fn is_base(&self, frame: u32) -> bool {
        self.is_base[frame as usize]
    }

    /// Returns the fingerprint of this frame's ids, if the directory of its pack can be read.
    pub(super) fn named(&self, frame: u32) -> Option<Fingerprint> {
        self.named[frame as usize]
    }
}

/// Hands out frames to several threads, in the order of the plan.
pub(super) struct Turns<'p> {
    plan: &'p Plan,
    /// All frames, sorted by the frame that each follows.
    sorted: Vec<u32>,
    state: Mutex<State>,
    /// Notified when a frame becomes ready, or when there are no more.
    changed: Condvar,
}

struct State {
    /// Frames ready to be read, the next one last.
    todo: Vec<u32>,
    /// Number of frames being read, whose dependents may become ready.
    reading: usize,
    stopped: bool,
}

/// A frame being read. Dropping it makes its dependents ready.
pub(super) struct Turn<'t> {
    turns: &'t Turns<'t>,
    pub(super) frame: u32,
}

impl<'p> Turns<'p> {
    pub(super) fn new(plan: &'p Plan) -> Turns<'p> {
        let mut sorted: Vec<u32> = (0..plan.after.len() as u32).collect();
        sorted.sort_unstable_by_key(|&frame| (plan.after[frame as usize], frame));
        let mut turns = Turns {
            plan,
            sorted,
            state: Mutex::new(State {
                todo: Vec::new(),
                reading: 0,
                stopped: false,
            }),
            changed: Condvar::new(),
        };
        let first = turns.after(NONE).iter().rev().copied().collect();
        turns.state.get_mut().expect("nobody has it yet").todo = first;
        turns
    }

    /// Returns the frames that follow this one.
    fn after(&self, frame: u32) -> &[u32] {
        let after = |other: &u32| self.plan.after[*other as usize];
        let start = self.sorted.partition_point(|other| after(other) < frame);
        let rest = &self.sorted[start..];
        &rest[..rest.partition_point(|other| after(other) == frame)]
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// Returns the next frame, or none if there are no more. Waits while frames being read may make
    /// others ready.
    pub(super) fn next(&self) -> Option<Turn<'_>> {
        let mut state = self.state();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(frame) = state.todo.pop() {
                state.reading += 1;
                return Some(Turn { turns: self, frame });
            }
            if state.reading == 0 {
                return None;
            }
            state = self.changed.wait(state).expect("no holder of this lock panics");
        }
    }

    /// Stops handing out frames.
    pub(super) fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        state.todo.extend(self.turns.after(self.frame).iter().rev());
        state.reading -= 1;
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a plan in which each of these frames follows the one named, if any.
    fn plan(after: &[Option<u32>]) -> Plan {
        Plan {
            after: after.iter().map(|after| after.unwrap_or(NONE)).collect(),
            ..Plan::new(after.len())
        }
    }

    #[test]
    fn the_frame_that_follows_is_read_before_any_other() {
        let plan = plan(&[None, Some(4), None, Some(0), Some(0), Some(3)]);
        let turns = Turns::new(&plan);
        let order: Vec<u32> = std::iter::from_fn(|| turns.next().map(|turn| turn.frame)).collect();
        assert_eq!(order, [0, 3, 5, 4, 1, 2]);
    }

    #[test]
    fn every_frame_has_one_turn_with_several_threads_and_none_before_the_one_it_comes_after_is_read() {
        let after: Vec<Option<u32>> = (0u32..1000).map(|n| (n % 10 != 9).then_some(n + 1)).collect();
        let plan = plan(&after);
        let turns = Turns::new(&plan);
        let read = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(turn) = turns.next() {
                        let mut read = read.lock().unwrap();
                        assert!(after[turn.frame as usize].is_none_or(|before| read.contains(&before)));
                        read.push(turn.frame);
                    }
                });
            }
        });
        let mut read = read.into_inner().unwrap();
        read.sort_unstable();
        assert!(read.into_iter().eq(0..1000));
    }

    #[test]
    fn no_thread_waits_once_it_is_stopped() {
        let plan = plan(&[None, Some(0)]);
        let turns = Turns::new(&plan);
        let first = turns.next().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.next().is_none());
            turns.stop();
            assert!(waiting.join().unwrap());
        });
        drop(first);
        assert!(turns.next().is_none());
    }
}
