//! Backups, prunes, restores and users who forget at once, killed and asleep at any call of the storage:
//! what was acknowledged, and not forgotten, restores. `ibid-sim prune` does this for as long as you like.

mod support;

use support::pruning::{Trees, history};

#[test]
fn nothing_is_lost_whoever_runs_beside_whom() {
    let trees = Trees::new();
    let (mut freed, mut waited) = (0, 0);
    for seed in 0..40 {
        let (seen, broken) = history(&trees, seed);
        assert_eq!(broken, None, "seed {seed}");
        freed += seen.freed;
        waited += seen.waited;
    }
    assert!(freed > 10 && waited > 0, "{freed} packs freed, {waited} prunes waited");
}
