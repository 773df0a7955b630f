//! Backups, prunes, restores and users who forget, on one storage, with clocks that are wrong by up to ten years:
//! more seeds than in `crates/repo/tests/prune_simulation.rs`, and with each rule of the protocol left out.

use ibid_repo::{Rule, leave_out, set_clock_wrong_by};

use crate::Flags;
use crate::report::Report;
use crate::support::pruning::{Seen, Trees, history};

const RULES: [(Rule, &str); 10] = [
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
];

pub(crate) fn run(flags: &Flags) {
    let (seeds, first) = (flags.number("seeds", 2000), flags.number("seed", 0));
    let trees = Trees::new();
    match flags.text("without") {
        None => all(&trees, first, seeds),
        Some(wanted) => {
            let rules = RULES.iter().filter(|(_, name)| wanted == "each" || wanted == *name);
            for (rule, name) in rules {
                without(&trees, first, seeds, *rule, name);
            }
        }
    }
}

fn all(trees: &Trees, first: u64, seeds: u64) {
    let (mut report, mut sum) = (Report::new(), Seen::default());
    for seed in first..first + seeds {
        let (seen, broken) = history(trees, seed, set_clock_wrong_by);
        if let Some(broken) = broken {
            panic!("seed {seed}: {broken}");
        }
        sum += seen;
        report.line(|| format!("seed {seed}: {sum:?}"));
    }
    println!("{seeds} seeds from {first}: {sum:?}: nothing lost");
}

/// Leaves out a rule: something must be lost.
fn without(trees: &Trees, first: u64, seeds: u64, rule: Rule, name: &str) {
    leave_out(Some(rule));
    let found = (first..first + seeds).find_map(|seed| Some((seed, history(trees, seed, set_clock_wrong_by).1?)));
    leave_out(None);
    match found {
        Some((seed, broken)) => println!("without {name}: seed {seed}: {broken}"),
        None => panic!("without {name}, {seeds} seeds lost nothing"),
    }
}
