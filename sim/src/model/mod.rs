//! A model of the protocol by which `prune` deletes packs beside running backups, without locks:
//! `docs/prune.md` describes it. Writers, pruners, readers and users that forget snapshots take turns by
//! seed, one call of the storage at a time. They crash, sleep, lose answers, and their calls arrive late.
//!
//! Every rule can be left out. Then the model must find a loss.

mod actors;
mod log;
mod view;
mod world;

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use crate::Flags;
use crate::report::Report;
use crate::support::Random;
use world::{Object, Shared, World};

/// What an actor may be made to forget, and what follows if it does.
pub(crate) const RULES: [(&str, &str); 17] = [
    (
        "session-first",
        "a backup puts its session before it reads the log and the index",
    ),
    (
        "fence",
        "a session that is still open is ended by a void snapshot, and its backup notices",
    ),
    (
        "look-back",
        "a backup that has sent its snapshot twice looks whether its session is still there",
    ),
    ("walk-again", "a backup that was ended looks for all its chunks again"),
    (
        "order",
        "an entry of the log is computed from lists read after the entry before it",
    ),
    ("seen-later", "sessions are listed after packs were condemned"),
    (
        "mark-again",
        "what condemned packs have is looked for again before they are doomed",
    ),
    (
        "whole",
        "an index file lists packs that others wrote only if all their frames count",
    ),
    ("condemned-is-missing", "to a backup, condemned packs are missing"),
    ("less-deep", "a base counts only in a frame that is less deep"),
    (
        "bases-stay",
        "frames of packs that stay keep their bases, even if nobody needs the frames",
    ),
    (
        "trust",
        "index files from before the last mark count only if a pruner has read them",
    ),
    (
        "closure",
        "of packs that no trusted index file lists, frames count if their bases are there",
    ),
    (
        "reload",
        "a reader that misses a pack reads the log and the index again",
    ),
    (
        "durable-packs",
        "a backup or a pruner counts a pack of another process once it is durable",
    ),
    (
        "durable-log",
        "an entry of the log is durable before anything is stored that has its number, or another after it",
    ),
    (
        "durable-ends",
        "what has ended a session is durable before the session is deleted",
    ),
];

/// Interleavings after which a model that is still at work is given up.
const STEPS_MAX: u32 = 6000;

type Actor = Pin<Box<dyn Future<Output = ()>>>;

/// Counts over all runs.
#[derive(Default)]
struct Totals {
    acknowledged: u64,
    freed: u64,
    read: u64,
    voided: u64,
    left: u64,
}

pub(crate) fn run(flags: &Flags) {
    let (seeds, first) = (flags.number("seeds", 20_000), flags.number("seed", 0));
    let without = flags.text("without");
    if without == Some("each") {
        for (rule, text) in RULES {
            let found =
                (first..first + seeds).find_map(|seed| Some((seed, one(seed, Some(rule), &mut Totals::default())?)));
            let (seed, loss) = found.unwrap_or_else(|| panic!("without {rule} ({text}), {seeds} seeds lost nothing"));
            println!("without {rule}: seed {seed}: {loss}");
        }
        return;
    }
    let named = |name| {
        let rule = RULES.iter().find(|(rule, _)| *rule == name);
        rule.unwrap_or_else(|| panic!("--without {name}: no such rule")).0
    };
    let without = without.map(named);
    let mut totals = Totals::default();
    let mut report = Report::new();
    for seed in first..first + seeds {
        if let Some(loss) = one(seed, without, &mut totals) {
            panic!("seed {seed}: {loss}");
        }
        report.line(|| {
            format!(
                "seed {seed}: {} snapshots, {} packs freed",
                totals.acknowledged, totals.freed
            )
        });
    }
    let Totals {
        acknowledged,
        freed,
        read,
        voided,
        left,
    } = totals;
    println!(
        "{seeds} seeds from {first}: {acknowledged} snapshots acknowledged, {read} read beside the others, {voided} \
         sessions ended by pruners, {freed} packs freed, {left} left that nobody needs: nothing lost"
    );
}

/// Runs one history; returns what was lost, if anything.
fn one(seed: u64, without: Option<&'static str>, totals: &mut Totals) -> Option<String> {
    let world: Shared = Rc::new(RefCell::new(World::new(seed, without)));
    let mut random = Random(seed ^ 0x5eed);
    // Some run one after the other first, so that there is something to prune.
    for _ in 0..1 + random.below(3) {
        finish(&world, Box::pin(actors::writer(world.clone())));
    }
    let mut actors: Vec<Actor> = Vec::new();
    for _ in 0..3 + random.below(4) {
        actors.push(Box::pin(actors::writer(world.clone())));
    }
    for _ in 0..1 + random.below(3) {
        actors.push(Box::pin(actors::pruner(world.clone())));
    }
    for _ in 0..random.below(3) {
        actors.push(Box::pin(actors::reader(world.clone())));
    }
    actors.push(Box::pin(actors::forgetter(world.clone())));
    let mut asleep: Vec<Actor> = Vec::new();
    for _ in 0..STEPS_MAX {
        if !asleep.is_empty() && (actors.is_empty() || random.below(100) == 0) {
            actors.push(asleep.swap_remove(random.below(asleep.len() as u64) as usize));
        }
        if actors.is_empty() {
            break;
        }
        let at = random.below(actors.len() as u64) as usize;
        match random.below(100) {
            // It crashes, for ever.
            0 => drop(actors.swap_remove(at)),
            // The lid of the laptop is closed.
            1 | 2 => asleep.push(actors.swap_remove(at)),
            3 => world.borrow_mut().land_one(),
            4 if random.below(3) == 0 => {
                world.borrow_mut().lose_power();
                if random.below(2) == 0 {
                    // The machine of all actors has lost it. Otherwise a server has, and its clients go on.
                    actors.clear();
                    asleep.clear();
                }
            }
            _ => {
                let turns = [1, 1, 1, 5, 20][random.below(5) as usize];
                for _ in 0..turns {
                    if poll(&mut actors[at]) {
                        drop(actors.swap_remove(at));
                        break;
                    }
                }
            }
        }
        let loss = world.borrow().loss();
        if loss.is_some() {
            return loss;
        }
    }
    drop((actors, asleep));
    let loss = at_rest(&world, totals);
    let world = world.borrow();
    totals.acknowledged += world.acknowledged.len() as u64;
    totals.freed += world.freed;
    totals.read += world.read;
    totals.voided += world.objects().filter(|object| matches!(object, Object::Void)).count() as u64;
    loss
}

/// Without faults, a few prunes leave nothing that nobody needs.
fn at_rest(world: &Shared, totals: &mut Totals) -> Option<String> {
    if world.borrow().without.is_some() {
        return None;
    }
    world.borrow_mut().calm();
    for _ in 0..4 {
        finish(world, Box::pin(actors::pruner(world.clone())));
    }
    let world = world.borrow();
    totals.left += view::garbage(&world);
    world.loss()
}

fn finish(world: &Shared, mut actor: Actor) {
    for _ in 0..STEPS_MAX {
        if poll(&mut actor) {
            return;
        }
    }
    panic!("an actor that is alone does not end: {:?}", world.borrow().without);
}

fn poll(actor: &mut Actor) -> bool {
    actor.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}
