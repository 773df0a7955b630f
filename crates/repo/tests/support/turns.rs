//! A storage that several actors share, of whom one at a time is at work: the seed decides at each call of the
//! storage who goes on, who sleeps, who is killed, whose answer is lost, and whose call arrives late.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use ibid_storage::{Error, ErrorKind, Memory, Name, Operation, Storage};

use super::Random;

/// What can happen at a call, once in so many.
const KILLED: u64 = 400;
const ASLEEP: u64 = 150;
const WOKEN: u64 = 60;
const LOST: u64 = 150;
const LANDS: u64 = 20;

/// The turns of all actors.
pub struct Turns {
    store: Memory,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Actor {
    Awake,
    Asleep,
    Killed,
    Done,
}

struct State {
    random: Random,
    actors: Vec<Actor>,
    /// Whose turn it is.
    now: usize,
    /// Puts whose senders have given up, and that may arrive yet.
    late: Vec<(Name, Vec<u8>)>,
    has_faults: bool,
}

impl State {
    fn once_in(&mut self, times: u64) -> bool {
        self.has_faults && self.random.below(times) == 0
    }

    /// Gives the turn to somebody who can use it.
    fn pass_on(&mut self) {
        let of = |state: &State, wanted| {
            (0..state.actors.len())
                .filter(|at| state.actors[*at] == wanted)
                .collect()
        };
        let mut able: Vec<usize> = of(self, Actor::Awake);
        if able.is_empty() || self.once_in(WOKEN) {
            let asleep: Vec<usize> = of(self, Actor::Asleep);
            if !asleep.is_empty() {
                let woken = asleep[self.random.below(asleep.len() as u64) as usize];
                self.actors[woken] = Actor::Awake;
                able.push(woken);
            }
        }
        if !able.is_empty() {
            self.now = able[self.random.below(able.len() as u64) as usize];
        }
    }
}

impl Turns {
    /// Returns the seats of so many actors.
    pub fn seats(store: Memory, actors: usize, seed: u64) -> (Arc<Turns>, Vec<Arc<Seat>>) {
        let mut state = State {
            random: Random(seed),
            actors: vec![Actor::Awake; actors],
            now: 0,
            late: Vec::new(),
            has_faults: true,
        };
        state.pass_on();
        let turns = Arc::new(Turns {
            store,
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

    /// Ends all faults; what was late arrives. Returns the storage.
    pub fn calm(&self) -> &Memory {
        let mut state = self.state();
        state.has_faults = false;
        for (name, bytes) in std::mem::take(&mut state.late) {
            let _ = self.store.put(&name, &[&bytes]);
        }
        &self.store
    }
}

/// A storage as one actor sees it.
pub struct Seat {
    turns: Arc<Turns>,
    actor: usize,
}

impl Seat {
    /// Says that the actor calls no more.
    pub fn leave(&self) {
        let mut state = self.turns.state();
        if state.actors[self.actor] != Actor::Killed {
            state.actors[self.actor] = Actor::Done;
        }
        state.pass_on();
        self.turns.changed.notify_all();
    }

    /// Returns whether the actor was killed.
    pub fn is_killed(&self) -> bool {
        self.turns.state().actors[self.actor] == Actor::Killed
    }

    /// Waits for the actor's turn, and takes it. Others may have theirs first.
    fn turn(&self, operation: Operation, name: Option<&Name>) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.turns.state();
        let mut gave_way = false;
        loop {
            if state.actors[self.actor] == Actor::Killed {
                return Err(Error::new(ErrorKind::Io, operation, name, "a killed process"));
            }
            if state.now == self.actor && state.actors[self.actor] == Actor::Awake {
                if gave_way || state.random.below(3) > 0 {
                    break;
                }
                gave_way = true;
                if state.once_in(ASLEEP) {
                    state.actors[self.actor] = Actor::Asleep;
                } else if state.once_in(KILLED) {
                    state.actors[self.actor] = Actor::Killed;
                }
                state.pass_on();
                self.turns.changed.notify_all();
                continue;
            }
            state = self.turns.changed.wait(state).unwrap();
        }
        if state.once_in(LANDS) && !state.late.is_empty() {
            let count = state.late.len() as u64;
            let at = state.random.below(count) as usize;
            let (name, bytes) = state.late.swap_remove(at);
            let _ = self.turns.store.put(&name, &[&bytes]);
        }
        Ok(state)
    }
}

impl Storage for Seat {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        let mut state = self.turn(Operation::Put, Some(name))?;
        if state.once_in(LOST) {
            // The answer is lost, or the call is late.
            match state.random.below(2) {
                0 => drop(self.turns.store.put(name, parts)),
                _ => state.late.push((name.clone(), parts.concat())),
            }
            return Err(Error::new(ErrorKind::Io, Operation::Put, Some(name), "a lost answer"));
        }
        self.turns.store.put(name, parts)
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

    fn settle(&self, name: &Name) -> Result<(), Error> {
        let _turn = self.turn(Operation::Settle, Some(name))?;
        self.turns.store.settle(name)
    }

    fn delete(&self, name: &Name) -> Result<(), Error> {
        let _turn = self.turn(Operation::Delete, Some(name))?;
        self.turns.store.delete(name)
    }

    fn location(&self) -> String {
        "shared memory".to_owned()
    }
}
