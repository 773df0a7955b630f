//! What a simulation replaces in the program, and what it remembers of a history.

use ibid_repo::InitOptions;
use ibid_storage::{Name, Operation};

use super::Random;

/// What a simulation replaces in the program. Without it, ids, time and the order of threads are those of this machine.
#[derive(Clone, Copy)]
pub struct Seam {
    /// Does some work as a process of its own whose ids and order of threads follow from a seed.
    pub run: fn(u64, &mut dyn FnMut()),
    /// Sets by how many seconds the clock of the process is wrong.
    pub set_clock: fn(i64),
    /// Lets another thread of the process run.
    pub give_way: fn(),
    /// Makes the ids of chunks follow from their bytes.
    pub init: fn(InitOptions) -> InitOptions,
    /// Shows each call of the storage.
    pub show: Option<fn(&str)>,
}

impl Seam {
    /// Replaces nothing.
    pub fn none() -> Seam {
        Seam {
            run: |_, work| work(),
            set_clock: |_| {},
            give_way: || {},
            init: |options| options,
            show: None,
        }
    }

    /// Returns what `work` does as a process of its own.
    pub fn process<T>(&self, seed: u64, work: impl FnOnce() -> T) -> T {
        let (mut work, mut done) = (Some(work), None);
        (self.run)(seed, &mut || done = work.take().map(|work| work()));
        done.expect("it was run")
    }
}

/// All calls of the storage, as one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    pub calls: u64,
    pub digest: u64,
}

impl Trace {
    /// Notes a call of an actor.
    pub fn note(&mut self, actor: usize, operation: Operation, name: Option<&Name>, show: Option<fn(&str)>) {
        self.calls += 1;
        let name = name.map_or("", Name::as_str);
        if let Some(show) = show {
            show(&format!("{:6} actor {actor}: {operation:?} {name}", self.calls));
        }
        self.add(&[actor as u8, operation as u8]);
        self.add(name.as_bytes());
    }

    /// Adds the calls of another history.
    pub fn append(&mut self, other: Trace) {
        self.calls += other.calls;
        self.add(&other.digest.to_le_bytes());
    }

    /// Adds bytes of any meaning.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.digest = Random(self.digest ^ u64::from(*byte)).next();
        }
    }
}

impl std::fmt::Display for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} calls of the storage with the digest {:016x}",
            self.calls, self.digest
        )
    }
}
