//! Crashes of a simulated disk: more seeds, more data and more backups than in
//! `crates/repo/tests/repo/durability.rs` and `checkpoints.rs`.
//!
//! Of every two seeds, one decides the ids and the order of threads, too; the other has those of the machine, where
//! several threads use the disk at once.

use ibid_repo::simulation;

use crate::Flags;
use crate::report::Report;
use crate::support::Random;
use crate::support::checkpoints::Interruptions;
use crate::support::crash::{End, Plan};

pub(crate) fn run(flags: &Flags) {
    let (seeds, first) = (flags.number("seeds", 2000), flags.number("seed", 0));
    let mut report = Report::new();
    let tree = Interruptions::new();
    let (mut interrupted, mut resumed) = (0, 0);
    let (mut power, mut killed, mut adopted, mut acknowledged, mut crashed) = (0, 0, 0, 0, 0);
    for seed in first..first + seeds {
        let mut random = Random(seed);
        let versions = 1 + random.below(3);
        let bytes = [100_000, 500_000, 3_000_000][random.below(3) as usize];
        let plan = Plan::new(seed, versions, bytes);
        let end = if random.below(3) == 0 { End::Kill } else { End::Power };
        let at = random.below(60 + 70 * versions);
        let crashes: Vec<u64> = (0..1 + random.below(4)).map(|_| random.below(200)).collect();
        let both = || (plan.run(at, seed, end), tree.run(&crashes, seed, end));
        let (seen, again) = match seed % 2 {
            0 => simulation::run(seed, both),
            _ => both(),
        };
        match end {
            End::Power => power += 1,
            End::Kill => killed += 1,
        }
        interrupted += again.crashes;
        resumed += again.bytes;
        crashed += u64::from(seen.crashed);
        adopted += seen.unlisted;
        acknowledged += seen.acknowledged;
        report.line(|| format!("seed {seed}: {power} losses of power, {killed} kills, {adopted} packs adopted"));
    }
    println!(
        "{seeds} seeds from {first}: {power} losses of power and {killed} kills, \
         {crashed} of them before the last backup was done; \
         {acknowledged} snapshots acknowledged before and {seeds} after, {adopted} packs adopted: all snapshots intact"
    );
    println!(
        "{interrupted} backups with checkpoints interrupted: those after them took {} of {} MB over, and read no \
         finished file again",
        resumed / 1_000_000,
        seeds * tree.bytes / 1_000_000
    );
}
