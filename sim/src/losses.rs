//! Packs lost and found between backups, prunes and repairs: more seeds than in `crates/repo/tests/repo/repair.rs`.

use crate::Flags;
use crate::prune::seam;
use crate::report::Report;
use crate::support::losses::{Seen, history};
use crate::support::pruning::Trees;

pub(crate) fn run(flags: &Flags) -> Result<(), String> {
    let (seeds, first) = (flags.number("seeds", 2000), flags.number("seed", 0));
    let seam = seam(false);
    let trees = Trees::new(&seam);
    let (mut report, mut sum) = (Report::new(), Seen::default());
    for seed in first..first + seeds {
        sum += history(&trees, seed, &seam).map_err(|broken| format!("seed {seed}: {broken}"))?;
        report.line(|| format!("seed {seed}: {sum:?}"));
    }
    println!("{seeds} seeds from {first}: {sum:?}: nothing more was lost than the lost packs had");
    Ok(())
}
