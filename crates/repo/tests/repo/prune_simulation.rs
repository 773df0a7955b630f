//! Backups, prunes, restores, copies and users who change and forget snapshots at once, killed and asleep at any call
//! of the storage, and without power: what was acknowledged, and not forgotten, restores. `ibid-sim prune` does this
//! for as long as you like, and the same for the same seed.

use crate::support::pruning::{Seen, Trees, history, history_of_writer};
use crate::support::seam::Seam;

#[test]
fn nothing_is_lost_whoever_runs_beside_whom() {
    let trees = Trees::new(&Seam::none());
    let mut sum = Seen::default();
    for seed in 0..40 {
        let outcome = history(&trees, seed, Seam::none());
        assert_eq!(outcome.broken, None, "seed {seed}");
        sum += outcome.seen;
    }
    assert!(sum.freed > 10 && sum.waited > 0 && sum.anew > 0, "{sum:?}");
    assert!(sum.copied > 0 && sum.changed > 0, "{sum:?}");
}

#[test]
fn nothing_of_a_writer_is_lost_whoever_runs_beside_whom() {
    let trees = Trees::new(&Seam::none());
    let mut sum = Seen::default();
    for seed in 0..40 {
        let outcome = history_of_writer(&trees, seed, Seam::none());
        assert_eq!(outcome.broken, None, "seed {seed}");
        sum += outcome.seen;
    }
    assert!(sum.freed > 10 && sum.waited > 0 && sum.anew > 0, "{sum:?}");
    assert!(sum.planted > 0 && sum.changed > 0 && sum.acknowledged > 20, "{sum:?}");
}
