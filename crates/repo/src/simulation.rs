//! What simulations replace: ids, time, the order in which threads run, and the rules of `prune`.
//!
//! All of it is compiled in with the feature `simulation` alone, which only `ibid-sim` asks for. The program does not
//! compile in a release build that has the feature. Even with it, ids, time and threads are those of the machine,
//! except in threads that [`run`] has begun. Keys, salts and the nonces of seals are never replaced: they are made in
//! `ibid-format`, which knows nothing of this.
//!
//! Of the threads of a simulated process one runs at a time. It goes on until it has to wait for another; then the
//! seed says which is next. So what a process does follows from its seed and from what it reads. What threads wait
//! for is in `threads`.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use ibid_format::FileId;
use ibid_format::tree::Time;

pub use crate::prune::rules::{Rule, leave_out};

/// Time of day at which all simulated processes begin, if their clocks are right.
const BEGIN: i64 = 1_900_000_000;
/// Cores that a simulated process finds.
pub(crate) const CORES: usize = 2;
/// A thread that runs for so long is taken to wait, in a way that `threads` knows nothing of, for one that can't run.
const HANGS_AFTER: Duration = Duration::from_secs(120);

thread_local! {
    static THREAD: RefCell<Option<Thread>> = const { RefCell::new(None) };
}

/// A thread of a simulated process.
#[derive(Clone)]
struct Thread {
    process: Arc<Process>,
    number: usize,
}

struct Process(Mutex<State>);

struct State {
    random: u64,
    /// By how many seconds the clock is wrong.
    wrong_by: i64,
    /// Times that the clock was asked.
    ticks: u64,
    threads: Vec<Place>,
    /// Number of the thread that runs.
    now: usize,
    /// Times that a thread gave way to another.
    passes: u64,
}

/// What is known of a thread.
struct Place {
    /// The scope that waits for its end.
    scope: usize,
    has_ended: bool,
    wakes: Arc<Condvar>,
}

impl State {
    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    fn add(&mut self, scope: usize) -> usize {
        self.threads.push(Place {
            scope,
            has_ended: false,
            wakes: Arc::default(),
        });
        self.threads.len() - 1
    }

    /// Has any thread run that has not ended.
    fn pass(&mut self) {
        let living = |place: &&Place| !place.has_ended;
        let count = self.threads.iter().filter(living).count();
        if count > 0 {
            let at = (self.random() % count as u64) as usize;
            let mut threads = (0..).zip(&self.threads).filter(|(_, place)| !place.has_ended);
            self.now = threads.nth(at).map_or(0, |(number, _)| number);
            self.passes += 1;
            self.threads[self.now].wakes.notify_one();
        }
    }

    fn end(&mut self, number: usize) {
        self.threads[number].has_ended = true;
        while self.threads.last().is_some_and(|place| place.has_ended) {
            self.threads.pop();
        }
    }
}

impl Process {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

impl Thread {
    fn of_this() -> Option<Thread> {
        THREAD.with_borrow(Clone::clone)
    }

    /// Waits until this thread is to run.
    fn wait(&self, mut state: MutexGuard<'_, State>) {
        let wakes = state.threads[self.number].wakes.clone();
        while state.now != self.number {
            let passes = state.passes;
            let waited = wakes.wait_timeout(state, HANGS_AFTER);
            let (later, waited) = waited.expect("no holder of this lock panics");
            if waited.timed_out() && later.passes == passes {
                abort_hanging();
            }
            state = later;
        }
    }

    /// Does the work of a thread that was begun, and says that it has ended.
    fn work(self, work: impl FnOnce()) {
        struct End(Thread);
        impl Drop for End {
            fn drop(&mut self) {
                THREAD.set(None);
                let mut state = self.0.process.state();
                state.end(self.0.number);
                state.pass();
            }
        }
        self.wait(self.process.state());
        THREAD.set(Some(self.clone()));
        let _end = End(self);
        work();
    }
}

/// Ends the whole simulation: threads that wait for one another can't be ended one by one.
#[allow(clippy::print_stderr, reason = "the process ends here")]
fn abort_hanging() -> ! {
    let seconds = HANGS_AFTER.as_secs();
    eprintln!("a thread of a simulated process gave way to no other for {seconds} s: it waits for what another holds");
    std::process::abort();
}

/// Returns what `work` does as a process of its own whose ids, time and order of threads follow from the seed.
pub fn run<T>(seed: u64, work: impl FnOnce() -> T) -> T {
    struct End(Option<Thread>);
    impl Drop for End {
        fn drop(&mut self) {
            THREAD.set(self.0.take());
        }
    }
    let mut state = State {
        random: seed,
        wrong_by: 0,
        ticks: 0,
        threads: Vec::new(),
        now: 0,
        passes: 0,
    };
    let number = state.add(0);
    let process = Arc::new(Process(Mutex::new(state)));
    let _end = End(THREAD.replace(Some(Thread { process, number })));
    work()
}

/// Makes the clock of this simulated process wrong by so many seconds.
pub fn set_clock_wrong_by(seconds: i64) {
    if let Some(thread) = Thread::of_this() {
        thread.process.state().wrong_by = seconds;
    }
}

/// Lets another thread of this simulated process run, if there is one.
pub fn give_way() {
    if let Some(thread) = Thread::of_this() {
        let mut state = thread.process.state();
        state.pass();
        thread.wait(state);
    }
}

/// Returns whether this is a thread of a simulated process.
pub(crate) fn is_on() -> bool {
    THREAD.with_borrow(Option::is_some)
}

/// Returns the next id of this simulated process.
pub(crate) fn id() -> Option<FileId> {
    let thread = Thread::of_this()?;
    let mut state = thread.process.state();
    let mut id = [0; 16];
    id[..8].copy_from_slice(&state.random().to_le_bytes());
    id[8..].copy_from_slice(&state.random().to_le_bytes());
    Some(FileId(id))
}

/// Returns the time that this simulated process takes it to be. It goes on by a millisecond each time.
pub(crate) fn now() -> Option<Time> {
    let thread = Thread::of_this()?;
    let mut state = thread.process.state();
    state.ticks += 1;
    Some(Time {
        seconds: (BEGIN + state.wrong_by).saturating_add(state.ticks as i64 / 1000),
        nanos: (state.ticks % 1000) as u32 * 1_000_000,
    })
}

/// Returns a time from which durations are counted, which goes on as [`now`] does.
pub(crate) fn instant() -> Option<Instant> {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    let thread = Thread::of_this()?;
    let mut state = thread.process.state();
    state.ticks += 1;
    Some(*BEGUN.get_or_init(Instant::now) + Duration::from_millis(state.ticks))
}

/// A thread that a thread of a simulated process has begun.
pub(crate) struct Begun(Option<Thread>);

impl Begun {
    /// Makes room for a thread of this process, if it is simulated, that the scope waits for.
    pub(crate) fn new(scope: usize) -> Begun {
        Begun(Thread::of_this().map(|thread| {
            let number = thread.process.state().add(scope);
            Thread { number, ..thread }
        }))
    }

    /// Does the work of the thread, within it.
    pub(crate) fn work(mut self, work: impl FnOnce()) {
        match self.0.take() {
            Some(thread) => thread.work(work),
            None => work(),
        }
    }
}

impl Drop for Begun {
    /// The system has refused the thread.
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            thread.process.state().end(thread.number);
        }
    }
}

/// Waits until all threads of a scope have ended, as the scope itself will.
pub(crate) struct Waits(pub(crate) usize);

impl Drop for Waits {
    fn drop(&mut self) {
        let Some(thread) = Thread::of_this() else { return };
        let is_of_scope = |place: &Place| place.scope == self.0 && !place.has_ended;
        while thread.process.state().threads.iter().any(is_of_scope) {
            give_way();
        }
    }
}
