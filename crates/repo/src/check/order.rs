//! Order in which a check reads frames: each soon after its bases, while these are still cached.
//!
//! A frame follows its deepest base, and all its direct and indirect dependents come before any
//! other frame. The plan keeps a few numbers per frame and none of its bytes; if there are many frames,
//! in temporary files.

use std::sync::{Condvar, Mutex, MutexGuard};

use ibid_format::Keys;
use ibid_format::pack::PackSummary;

use crate::Result;
use crate::index::{LoadedIndex, NumberSet, find_base};
use crate::scratch::{Array, Scratch};
use crate::threads::wait;

/// Frames that may have their turn while one that began before them has not ended. What was read for that one is needed
/// next, so it must not leave the cache only because a thread was held up. More than there are threads.
const AHEAD_MAX: u64 = 32;

/// Hash of the ids of a frame's chunks. Keeping the ids themselves would take as much memory as the
/// index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint(u128);

impl Fingerprint {
    /// Returns the fingerprint of concatenated ids.
    pub(super) fn of(keys: &Keys, ids: &[u8]) -> Fingerprint {
        let whole = keys.chunk_id(ids).0;
        Fingerprint(u128::from_le_bytes(whole[..16].try_into().expect("16 bytes")))
    }
}

/// A frame or none, in four bytes: one more than its number, or zero.
fn packed(frame: Option<u32>) -> u32 {
    frame.map_or(0, |frame| frame + 1)
}

fn unpacked(packed: u32) -> Option<u32> {
    packed.checked_sub(1)
}

/// Facts from the packs' directories that determine the reading order, by frame number.
pub(super) struct Plan {
    scratch: Scratch,
    frames: u32,
    /// The deepest base of each frame, if it has bases.
    after: Array<u32>,
    /// Frames against which others are encoded.
    bases: NumberSet,
    /// Frames with a fingerprint.
    named: NumberSet,
    /// Fingerprint of each frame's ids, if the directory of its pack can be read.
    names: Array<u128>,
}

impl Plan {
    /// Returns an empty plan for this many frames.
    pub(super) fn new(scratch: &Scratch, frames: u32) -> Result<Plan> {
        Ok(Plan {
            scratch: scratch.clone(),
            frames,
            after: Array::zeros(scratch, frames.into())?,
            bases: NumberSet::default(),
            named: NumberSet::default(),
            names: Array::zeros(scratch, frames.into())?,
        })
    }

    /// Adds the `count` frames of a pack from its directory; `first` is the number of the first.
    pub(super) fn add(
        &mut self,
        loaded: &LoadedIndex,
        keys: &Keys,
        first: u32,
        count: usize,
        summary: &PackSummary,
    ) -> Result<()> {
        let mut ids = Vec::new();
        for (frame, number) in summary.frames.iter().take(count).zip(first..) {
            ids.clear();
            frame.blobs.iter().for_each(|blob| ids.extend_from_slice(&blob.id.0));
            self.named.insert(number);
            self.names.set(number.into(), Fingerprint::of(keys, &ids).0)?;
            // Use the depth from the index, so that no frame can follow itself.
            let depth = loaded.index.frame(number).depth;
            let mut deepest = None;
            for place in frame.bases.iter().filter_map(|&base| find_base(loaded, base, depth)) {
                self.bases.insert(place.frame);
                deepest = deepest.max(Some((loaded.index.frame(place.frame).depth, place.frame)));
            }
            self.after.set(number.into(), packed(deepest.map(|(_, frame)| frame)))?;
        }
        Ok(())
    }
}

/// Hands out frames to several threads, in the order of the plan.
pub(super) struct Turns {
    state: Mutex<State>,
    /// Notified when a frame becomes ready, or when there are no more.
    changed: Condvar,
}

struct State {
    plan: Plan,
    /// The first frame that follows each, if any.
    first: Array<u32>,
    /// The frame that follows the same one as this does, if any: with `first`, a list.
    next: Array<u32>,
    taken: Cursor,
    /// Where the one thread is that goes before the others and reads nothing.
    foreseen: Cursor,
    /// Number of turns that began.
    begun: u64,
    /// Which of them have not ended: frames being read, whose dependents may become ready.
    reading: Vec<u64>,
    stopped: bool,
}

/// A place in the order.
#[derive(Default)]
struct Cursor {
    /// Frames before this number that follow none have had their turn.
    root: u32,
    /// Frames ready to be read, each with those that come after it in its list; the next one last.
    todo: Vec<u32>,
}

/// A frame being read. Dropping it makes its dependents ready.
pub(super) struct Turn<'t> {
    turns: &'t Turns,
    /// Number of turns that began before.
    number: u64,
    pub(super) frame: u32,
    /// Whether other frames are encoded against it.
    pub(super) is_base: bool,
    /// Fingerprint of its ids, if the directory of its pack can be read.
    pub(super) named: Option<Fingerprint>,
    /// The first frame that follows it.
    first: Option<u32>,
}

impl Turns {
    pub(super) fn new(mut plan: Plan) -> Result<Turns> {
        let mut first = Array::zeros(&plan.scratch, plan.frames.into())?;
        let mut next = Array::zeros(&plan.scratch, plan.frames.into())?;
        // Backwards, so that the lists ascend.
        for frame in (0..plan.frames).rev() {
            if let Some(before) = unpacked(plan.after.get(frame.into())?) {
                next.set(frame.into(), first.get(before.into())?)?;
                first.set(before.into(), packed(Some(frame)))?;
            }
        }
        Ok(Turns {
            state: Mutex::new(State {
                plan,
                first,
                next,
                taken: Cursor::default(),
                foreseen: Cursor::default(),
                begun: 0,
                reading: Vec::new(),
                stopped: false,
            }),
            changed: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// Returns the next frame, or none if there are no more. Waits while frames being read may make
    /// others ready, and while one of them has been read for too long.
    pub(super) fn next(&self) -> Result<Option<Turn<'_>>> {
        let mut state = self.state();
        loop {
            if state.stopped {
                return Ok(None);
            }
            if !state.is_held_up()
                && let Some(frame) = state.take(|state| &mut state.taken)?
            {
                let named = match state.plan.named.contains(frame) {
                    true => Some(Fingerprint(state.plan.names.get(frame.into())?)),
                    false => None,
                };
                let first = unpacked(state.first.get(frame.into())?);
                let number = state.begun;
                state.begun += 1;
                state.reading.push(number);
                return Ok(Some(Turn {
                    turns: self,
                    number,
                    frame,
                    is_base: state.plan.bases.contains(frame),
                    named,
                    first,
                }));
            }
            if state.reading.is_empty() {
                return Ok(None);
            }
            state = wait(&self.changed, &self.state, state);
        }
    }

    /// Returns the frames that one thread would get next after those of the last call, at most so many. Several threads
    /// get them in about this order.
    pub(super) fn foresee(&self, count: usize) -> Result<Vec<u32>> {
        let mut state = self.state();
        let mut frames = Vec::with_capacity(count);
        while frames.len() < count
            && let Some(frame) = state.take(|state| &mut state.foreseen)?
        {
            let first = unpacked(state.first.get(frame.into())?);
            state.foreseen.todo.extend(first);
            frames.push(frame);
        }
        Ok(frames)
    }

    /// Stops handing out frames.
    pub(super) fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }
}

impl State {
    /// Returns whether as many turns began after one that has not ended as may.
    fn is_held_up(&self) -> bool {
        let oldest = self.reading.iter().min();
        oldest.is_some_and(|oldest| self.begun - oldest > AHEAD_MAX)
    }

    /// Takes the next frame that is ready at a cursor.
    fn take(&mut self, cursor: impl Fn(&mut State) -> &mut Cursor) -> Result<Option<u32>> {
        if let Some(frame) = cursor(self).todo.pop() {
            let next = unpacked(self.next.get(frame.into())?);
            cursor(self).todo.extend(next);
            return Ok(Some(frame));
        }
        while cursor(self).root < self.plan.frames {
            let frame = cursor(self).root;
            cursor(self).root += 1;
            if self.plan.after.get(frame.into())? == packed(None) {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        state.taken.todo.extend(self.first);
        state.reading.retain(|&number| number != self.number);
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;

    /// Returns a plan in which each of these frames follows the one named, if any.
    fn plan(scratch: &Scratch, after: &[Option<u32>]) -> Plan {
        let mut plan = Plan::new(scratch, after.len() as u32).unwrap();
        for (frame, after) in (0..).zip(after) {
            plan.after.set(frame, packed(*after)).unwrap();
        }
        plan
    }

    fn order(turns: &Turns) -> Vec<u32> {
        std::iter::from_fn(|| turns.next().unwrap().map(|turn| turn.frame)).collect()
    }

    #[test]
    fn the_frame_that_follows_is_read_before_any_other() {
        let folder = tempfile::tempdir().unwrap();
        let after = [None, Some(4), None, Some(0), Some(0), Some(3)];
        let turns = Turns::new(plan(&Scratch::tiny(folder.path()), &after)).unwrap();
        assert_eq!(turns.foresee(4).unwrap(), [0, 3, 5, 4]);
        assert_eq!(order(&turns), [0, 3, 5, 4, 1, 2]);
        assert_eq!(turns.foresee(4).unwrap(), [1, 2]);
        assert!(turns.foresee(4).unwrap().is_empty());
    }

    #[test]
    fn the_order_is_the_same_with_a_plan_in_files() {
        let folder = tempfile::tempdir().unwrap();
        let tiny = Scratch::tiny(folder.path());
        let mut large = tiny.clone();
        large.limits.arrays = u64::MAX;
        // Each frame follows one far from it, and every tenth none.
        let after: Vec<Option<u32>> = (0u32..20_000)
            .map(|n| (n % 10 != 0).then(|| (n - 1 + 10_000) % 20_000))
            .collect();
        let of = |scratch| order(&Turns::new(plan(scratch, &after)).unwrap());
        let in_files = of(&tiny);
        assert_eq!(in_files, of(&large));
        let all: std::collections::BTreeSet<u32> = in_files.iter().copied().collect();
        assert!(
            all.len() == in_files.len() && in_files.len() == after.len(),
            "each once"
        );
    }

    #[test]
    fn every_frame_has_one_turn_with_several_threads_and_none_before_the_one_it_comes_after_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let after: Vec<Option<u32>> = (0u32..1000).map(|n| (n % 10 != 9).then_some(n + 1)).collect();
        let turns = Turns::new(plan(&Scratch::tiny(folder.path()), &after)).unwrap();
        let read = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(turn) = turns.next().unwrap() {
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
    fn no_thread_goes_far_ahead_of_one_that_is_held_up() {
        let folder = tempfile::tempdir().unwrap();
        let turns = Turns::new(plan(&Scratch::tiny(folder.path()), &[None; 100])).unwrap();
        let held_up = turns.next().unwrap().unwrap();
        let had = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let others = scope.spawn(|| {
                while let Some(turn) = turns.next().unwrap() {
                    had.store(turn.frame.into(), Ordering::Relaxed);
                }
            });
            while had.load(Ordering::Relaxed) < AHEAD_MAX {
                std::thread::yield_now();
            }
            // One that is handed out too early comes at once.
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(had.load(Ordering::Relaxed), AHEAD_MAX);
            drop(held_up);
            others.join().unwrap();
        });
        assert_eq!(had.load(Ordering::Relaxed), 99);
    }

    #[test]
    fn no_thread_waits_once_it_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let turns = Turns::new(plan(&Scratch::tiny(folder.path()), &[None, Some(0)])).unwrap();
        let first = turns.next().unwrap().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.next().unwrap().is_none());
            turns.stop();
            assert!(waiting.join().unwrap());
        });
        drop(first);
        assert!(turns.next().unwrap().is_none());
    }
}
