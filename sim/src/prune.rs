//! Backups, prunes, restores, copies and users who change and forget snapshots, on one storage, with clocks that are
//! wrong by up to ten years: more seeds than in `crates/repo/tests/repo/prune_simulation.rs`, and with each rule of the
//! protocol left out. The same seed is the same history.

use ibid_repo::simulation::{self, Rule, leave_out};

use crate::Flags;
use crate::report::Report;
use crate::support::pruning::{Broken, Outcome, Seen, Trees, history, history_of_writer};
use crate::support::seam::{Seam, Trace};

/// Rules, with their names.
const RULES: [(Rule, &str); 13] = [
    (Rule::Doubt, "doubt"),
    (Rule::Verify, "verify"),
    (Rule::SessionFirst, "session-first"),
    (Rule::Fence, "fence"),
    (Rule::WalkAgain, "walk-again"),
    (Rule::MarkAgain, "mark-again"),
    (Rule::Seen, "seen"),
    (Rule::CondemnedIsMissing, "condemned-is-missing"),
    (Rule::BasesStay, "bases-stay"),
    (Rule::Trust, "trust"),
    (Rule::Closure, "closure"),
    (Rule::Reload, "reload"),
    (Rule::DurablePacks, "durable-packs"),
];
/// Those that can be left out in a history of files of a writer.
const OF_WRITERS: std::ops::Range<usize> = 0..8;
const OF_OTHERS: std::ops::Range<usize> = 2..13;

/// Lets one history happen.
type History = fn(&Trees, u64, Seam) -> Outcome;

/// What a history replaces in the program, so that it follows from its seed.
pub(crate) fn seam(shows: bool) -> Seam {
    Seam {
        run: |seed, work| simulation::run(seed, work),
        set_clock: simulation::set_clock_wrong_by,
        give_way: simulation::give_way,
        init: |options| options.chunk_key([7; 32]),
        show: shows.then_some(|call| println!("{call}")),
    }
}

pub(crate) fn run(flags: &Flags) -> Result<(), String> {
    let (seeds, first) = (flags.number("seeds", 2000), flags.number("seed", 0));
    let seam = seam(flags.text("print") == Some("calls"));
    let trees = Trees::new(&seam);
    let of = match flags.text("of") {
        Some("writer") => history_of_writer,
        None => history,
        Some(other) => return Err(format!("--of {other}: there is writer")),
    };
    let Some(wanted) = flags.text("without") else {
        return all(of, &trees, first, seeds, seam);
    };
    let is_wanted = |(_, name): &&(Rule, &str)| wanted == "each" || wanted == *name;
    let rules = match flags.text("of") {
        Some(_) => &RULES[OF_WRITERS],
        None => &RULES[OF_OTHERS],
    };
    let rules: Vec<_> = rules.iter().filter(is_wanted).collect();
    if rules.is_empty() {
        return Err(format!("--without {wanted}: no such rule"));
    }
    let mut missed = Vec::new();
    for (rule, name) in rules {
        if !without(of, &trees, first..first + seeds, *rule, name, seam) {
            missed.push(*name);
        }
    }
    match missed.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "nothing was lost in {seeds} seeds without {}",
            missed.join(", ")
        )),
    }
}

fn all(history: History, trees: &Trees, first: u64, seeds: u64, seam: Seam) -> Result<(), String> {
    let (mut report, mut sum, mut trace) = (Report::new(), Seen::default(), Trace::default());
    for seed in first..first + seeds {
        let outcome = history(trees, seed, seam);
        if let Some(broken) = outcome.broken {
            return Err(format!("seed {seed}: {broken:?}"));
        }
        sum += outcome.seen;
        trace.append(outcome.trace);
        report.line(|| format!("seed {seed}: {sum:?}"));
    }
    println!("{seeds} seeds from {first}, {trace}: {sum:?}: nothing lost");
    Ok(())
}

/// Leaves out a rule: a snapshot must be lost that is not in the same history with the rule. Returns whether one is.
fn without(history: History, trees: &Trees, seeds: std::ops::Range<u64>, rule: Rule, name: &str, seam: Seam) -> bool {
    let (mut others, first) = (0, seeds.start);
    for seed in seeds {
        leave_out(Some(rule));
        let broken = history(trees, seed, seam).broken;
        leave_out(None);
        match broken {
            Some(Broken::Lost(lost)) if history(trees, seed, seam).broken.is_none() => {
                println!("without {name}: seed {seed}, and not with it: {lost}");
                return true;
            }
            Some(_) => others += 1,
            None => {}
        }
        if (seed + 1 - first) % 1000 == 0 {
            println!("without {name}: seed {seed}: no snapshot lost yet, {others} times something else was wrong");
        }
    }
    println!("without {name}: NO snapshot lost, {others} times something else was wrong");
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_history() {
        let seam = seam(false);
        let trees = Trees::new(&seam);
        let mut traces = Vec::new();
        for seed in 0..30 {
            let trace = history(&trees, seed, seam).trace;
            assert_eq!(history(&Trees::new(&seam), seed, seam).trace, trace, "seed {seed}");
            assert!(!traces.contains(&trace), "seed {seed} is another history");
            traces.push(trace);
        }
    }
}
