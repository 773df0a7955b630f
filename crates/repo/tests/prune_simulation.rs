//! Backups, prunes, restores and users who forget at once, killed and asleep at any call of the storage, and without
//! power: what was acknowledged, and not forgotten, restores. `ibid-sim prune` does this for as long as you like.

mod support;

use support::pruning::{Seen, Trees, history};

#[test]
fn nothing_is_lost_whoever_runs_beside_whom() {
    let trees = Trees::new();
    let mut sum = Seen::default();
    for seed in 0..40 {
        let (seen, broken) = history(&trees, seed, |_| {});
        assert_eq!(broken, None, "seed {seed}");
        sum += seen;
    }
    assert!(sum.freed > 10 && sum.waited > 0 && sum.anew > 0, "{sum:?}");
}
