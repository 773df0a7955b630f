//! A storage that several actors share, of whom one at a time is at work: the seed decides at each call of the
//! storage who goes on, who sleeps, who is killed, whose clock jumps, whose answer is lost, whose call arrives late,
//! and when the power is lost.
//!
//! What is stored or deleted can be seen one call before it is durable. A loss of power undoes any part of what is not
//! durable, as the storage of a folder may, and kills all actors; or it is that of a server, and they go on. An object
//! store shows only what is durable, and does not tell whether what is deleted was there.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use ibid_storage::{Archives, Error, ErrorKind, Name, Operation, Storage};

use super::Random;
use super::place::Place;
use super::seam::{Seam, Trace};

/// What can happen at a call, once in so many.
const KILLED: u64 = 400;
const WOKEN: [u64; 3] = [60, 60, 600];
const LOST: u64 = 150;
const LANDS: u64 = 20;
const JUMPS: u64 = 100;
/// Calls after which the power is lost at the latest, if it is.
const CALLS: u64 = 1500;
/// The most that a clock is wrong by, seconds: ten years.
const WRONG: u64 = 10 * 365 * 24 * 3600;

/// What actors leave, and others find.
#[derive(Clone)]
pub struct Remains {
    pub store: Place,
    is_object_store: bool,
    /// Puts whose senders have given up, and that may arrive yet.
    late: Vec<(Name, Vec<u8>)>,
    /// Objects whose last change is not durable yet, and what a loss of power may bring back.
    unsettled: BTreeMap<Name, Option<Vec<u8>>>,
    /// What was called so far.
    pub trace: Trace,
}

impl Remains {
    /// Returns what is left of a storage without faults.
    pub fn of(store: Place, is_object_store: bool) -> Remains {
        Remains {
            store,
            is_object_store,
            late: Vec::new(),
            unsettled: BTreeMap::new(),
            trace: Trace::default(),
        }
    }

    /// Remembers an object as it is, before it is changed.
    fn unsettle(&mut self, name: &Name) {
        if self.is_object_store {
            return;
        }
        let before = self.store.get(name, u64::MAX).ok();
        self.unsettled.entry(name.clone()).or_insert(before);
    }

    /// Undoes some of the changes that are not durable. The others are durable now.
    pub fn lose_power(&mut self, random: &mut Random) {
        for (name, before) in std::mem::take(&mut self.unsettled) {
            if random.below(2) == 0 {
                let _ = self.store.delete(&name);
                if let Some(bytes) = before {
                    self.store.put(&name, &[&bytes]).unwrap();
                }
            }
        }
    }

    /// Lets what was late arrive, and returns the storage.
    pub fn calm(self) -> Place {
        for (name, bytes) in self.late {
            let _ = self.store.put(&name, &[&bytes]);
        }
        self.store
    }
}

/// The turns of all actors.
pub struct Turns {
    store: Place,
    is_object_store: bool,
    seam: Seam,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Actor {
    Awake,
    Asleep,
    Done,
}

struct State {
    random: Random,
    actors: Vec<Actor>,
    /// Whether each was killed. Then its calls fail, in its turns.
    killed: Vec<bool>,
    /// Each falls asleep once in so many times that it gives way.
    asleep: Vec<u64>,
    /// One that sleeps wakes once in so many turns.
    woken: u64,
    /// Whose turn it is.
    now: usize,
    /// By how many seconds each actor's clock is wrong.
    clocks: Vec<i64>,
    remains: Remains,
    /// Calls until the power is lost, if it is.
    power: Option<u64>,
    /// How often a server lost its power, and those who use it went on.
    restarts: u32,
}

/// Returns by how many seconds a clock is wrong.
fn wrong_clock(random: &mut Random) -> i64 {
    match random.below(2) {
        0 => 0,
        _ => random.below(2 * WRONG) as i64 - WRONG as i64,
    }
}

impl State {
    fn once_in(&mut self, times: u64) -> bool {
        self.random.below(times) == 0
    }

    /// Counts a call. If the power is lost now, all actors are killed; or that of a server, and they go on.
    fn use_power(&mut self) {
        let Some(left) = &mut self.power else { return };
        *left -= 1;
        if *left == 0 {
            self.power = None;
            self.remains.lose_power(&mut self.random);
            if self.once_in(2) {
                self.restarts += 1;
                self.power = Some(1 + self.random.below(CALLS));
                return;
            }
            self.killed.fill(true);
            let asleep = self.actors.iter_mut().filter(|actor| **actor == Actor::Asleep);
            asleep.for_each(|actor| *actor = Actor::Awake);
        }
    }

    /// Returns any actor that is in this state.
    fn any(&mut self, wanted: Actor) -> Option<usize> {
        let found: Vec<usize> = (0..self.actors.len()).filter(|at| self.actors[*at] == wanted).collect();
        (!found.is_empty()).then(|| found[self.random.below(found.len() as u64) as usize])
    }

    /// Gives the turn to an actor that can use it.
    fn pass_on(&mut self) {
        let is_any_awake = self.actors.contains(&Actor::Awake);
        if (!is_any_awake || self.once_in(self.woken))
            && let Some(woken) = self.any(Actor::Asleep)
        {
            self.actors[woken] = Actor::Awake;
        }
        if let Some(next) = self.any(Actor::Awake) {
            self.now = next;
        }
    }
}

impl Turns {
    /// Returns a seat for each actor, who falls asleep once in so many times that it gives way. The power is lost in
    /// half of the cases.
    pub fn seats(remains: Remains, asleep: Vec<u64>, seed: u64, seam: Seam) -> (Arc<Turns>, Vec<Arc<Seat>>) {
        let mut random = Random(seed);
        let actors = asleep.len();
        let (store, is_object_store) = (remains.store.clone(), remains.is_object_store);
        let mut state = State {
            clocks: (0..actors).map(|_| wrong_clock(&mut random)).collect(),
            power: (random.below(2) == 0).then(|| 1 + random.below(CALLS)),
            asleep,
            woken: WOKEN[random.below(3) as usize],
            random,
            actors: vec![Actor::Awake; actors],
            killed: vec![false; actors],
            now: 0,
            remains,
            restarts: 0,
        };
        state.pass_on();
        let turns = Arc::new(Turns {
            store,
            is_object_store,
            seam,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let seat = |actor| {
            let turns = turns.clone();
            Arc::new(Seat { turns, actor })
        };
        let seats = (0..actors).map(seat).collect();
        (turns, seats)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Returns what all actors have left.
    pub fn remains(&self) -> Remains {
        self.state().remains.clone()
    }
}

/// A storage as one actor sees it.
pub struct Seat {
    turns: Arc<Turns>,
    actor: usize,
}

impl Seat {
    /// Waits for the actor's first turn.
    pub fn begin(&self) {
        drop(self.its_turn());
    }

    /// Says that the actor calls no more.
    pub fn leave(&self) {
        let mut state = self.its_turn();
        state.actors[self.actor] = Actor::Done;
        state.pass_on();
        self.turns.changed.notify_all();
    }

    /// Returns whether the actor was killed.
    pub fn is_killed(&self) -> bool {
        self.turns.state().killed[self.actor]
    }

    fn its_turn(&self) -> MutexGuard<'_, State> {
        let mut state = self.turns.state();
        while state.now != self.actor || state.actors[self.actor] != Actor::Awake {
            state = self.turns.changed.wait(state).unwrap();
        }
        state
    }

    /// Waits for the actor's turn, and takes it. Others may have theirs first.
    fn turn(&self, operation: Operation, name: Option<&Name>) -> Result<MutexGuard<'_, State>, Error> {
        let failed = |what: &str| Err(Error::new(ErrorKind::Io, operation, name, what));
        let mut state = self.its_turn();
        if !state.killed[self.actor] && state.once_in(3) {
            let asleep = state.asleep[self.actor];
            if state.once_in(asleep) {
                state.actors[self.actor] = Actor::Asleep;
            } else if state.once_in(KILLED) {
                state.killed[self.actor] = true;
                return failed("a killed process");
            }
            state.pass_on();
            self.turns.changed.notify_all();
            drop(state);
            state = self.its_turn();
        }
        if state.killed[self.actor] {
            return failed("a killed process");
        }
        state.use_power();
        if state.killed[self.actor] {
            return failed("a loss of power");
        }
        if state.once_in(LANDS) && !state.remains.late.is_empty() {
            let count = state.remains.late.len() as u64;
            let at = state.random.below(count) as usize;
            let (name, bytes) = state.remains.late.swap_remove(at);
            let _ = self.turns.store.put(&name, &[&bytes]);
        }
        if state.once_in(JUMPS) {
            state.clocks[self.actor] = wrong_clock(&mut state.random);
        }
        state
            .remains
            .trace
            .note(self.actor, operation, name, self.turns.seam.show);
        (self.turns.seam.set_clock)(state.clocks[self.actor] + state.remains.trace.calls as i64);
        Ok(state)
    }

    /// Changes an object, which others can see at once, and makes that durable at the actor's next turn.
    fn change(
        &self,
        mut state: MutexGuard<'_, State>,
        operation: Operation,
        name: &Name,
        change: impl FnOnce(&Place) -> Result<(), Error>,
    ) -> Result<(), Error> {
        state.remains.unsettle(name);
        let changed = change(&self.turns.store);
        let restarts = state.restarts;
        drop(state);
        if operation == Operation::Put && name.is_in("packs") {
            // Another thread may store another pack meanwhile.
            (self.turns.seam.give_way)();
        }
        let mut state = self.turn(operation, Some(name))?;
        if state.restarts != restarts {
            return Err(Error::new(
                ErrorKind::Io,
                operation,
                Some(name),
                "a server without power",
            ));
        }
        // If it is as another actor has left it, that is made durable, too.
        state.remains.unsettled.remove(name);
        changed
    }
}

impl Storage for Seat {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        let mut state = self.turn(Operation::Put, Some(name))?;
        if name.is_in("packs") || name.is_in("index") {
            let size: usize = parts.iter().map(|part| part.len()).sum();
            state.remains.trace.add(&size.to_le_bytes());
        }
        if state.once_in(LOST) {
            // The answer is lost, or the call is late.
            match state.random.below(2) {
                0 => {
                    state.remains.unsettle(name);
                    let _ = self.turns.store.put(name, parts);
                }
                _ => state.remains.late.push((name.clone(), parts.concat())),
            }
            return Err(Error::new(ErrorKind::Io, Operation::Put, Some(name), "a lost answer"));
        }
        self.change(state, Operation::Put, name, |store| store.put(name, parts))
    }

    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        let _turn = self.turn(Operation::Get, Some(name))?;
        self.turns.store.get(name, limit)
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let _turn = self.turn(Operation::ReadAt, Some(name))?;
        self.turns.store.read_at(name, offset, buffer)
    }

    fn size(&self, name: &Name) -> Result<u64, Error> {
        let _turn = self.turn(Operation::Size, Some(name))?;
        self.turns.store.size(name)
    }

    /// What is stored or deleted during the call is listed or not.
    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        let names = |found: &mut Vec<(Name, u64)>| {
            self.turns
                .store
                .list(folder, &mut |name, size| found.push((name, size)))
        };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        drop({
            let turn = self.turn(Operation::List, None)?;
            names(&mut before)?;
            turn
        });
        let mut state = self.turn(Operation::List, None)?;
        names(&mut after)?;
        let mut listed: Vec<(Name, u64)> = Vec::new();
        for (some, others) in [(&before, &after), (&after, &before)] {
            for entry in some {
                let is_in_both = others.contains(entry);
                if !listed.contains(entry) && (is_in_both || state.random.below(2) == 0) {
                    listed.push(entry.clone());
                }
            }
        }
        drop(state);
        listed.into_iter().for_each(|(name, size)| each(name, size));
        Ok(())
    }

    /// Every second time: each folder by itself, in any order.
    fn list_together(&self, folders: &[&str], each: &mut dyn FnMut(Name, u64)) -> Result<Vec<bool>, Error> {
        let mut state = self.turn(Operation::List, None)?;
        if state.once_in(2) {
            return Ok(vec![false; folders.len()]);
        }
        let mut order: Vec<usize> = (0..folders.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, state.random.below(at as u64 + 1) as usize);
        }
        drop(state);
        for at in order {
            let name = Name::new(folders[at]).expect("a valid name");
            if let Ok(size) = self.size(&name) {
                each(name, size);
            }
            self.list(folders[at], each)?;
        }
        Ok(vec![true; folders.len()])
    }

    fn settle(&self, name: &Name) -> Result<(), Error> {
        if self.turns.is_object_store {
            return Ok(());
        }
        let mut state = self.turn(Operation::Settle, Some(name))?;
        state.remains.unsettled.remove(name);
        self.turns.store.settle(name)
    }

    fn delete(&self, name: &Name) -> Result<(), Error> {
        let state = self.turn(Operation::Delete, Some(name))?;
        self.change(state, Operation::Delete, name, |store| match store.delete(name) {
            Err(error) if error.kind() == ErrorKind::NotFound && self.turns.is_object_store => Ok(()),
            deleted => deleted,
        })
    }

    fn tells_absence(&self) -> bool {
        !self.turns.is_object_store
    }

    /// What is archived is told at once, and is no call: a history is the same where there can be archives.
    fn archives(&self) -> Option<&dyn Archives> {
        self.turns.store.archives()
    }

    fn location(&self) -> String {
        "shared memory".to_owned()
    }
}
