//! A seed decides a history of prunes, in any process.

use std::process::Command;

/// Returns the digest of all calls of the storage in the history of a seed.
fn digest(seed: u64) -> String {
    digest_of(seed, &[])
}

fn digest_of(seed: u64, more: &[&str]) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_ibid-sim"))
        .args(["prune", "--seeds", "1", "--seed", &seed.to_string()])
        .args(more)
        .output()
        .unwrap();
    let shown = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let (_, trace) = shown
        .split_once(&format!("1 seeds from {seed}, "))
        .expect("the last line");
    let (trace, _) = trace
        .split_once(": Seen")
        .expect("calls and their digest before what was seen");
    trace.to_owned()
}

#[test]
fn the_same_seed_is_the_same_history() {
    let mut traces = Vec::new();
    for seed in 0..30 {
        let trace = digest(seed);
        assert_eq!(digest(seed), trace, "seed {seed}");
        assert!(!traces.contains(&trace), "seed {seed} is another history");
        traces.push(trace);
    }
}

#[test]
fn a_history_is_the_same_over_a_connection_and_in_a_server() {
    // In the last one, a prune deletes an index file that is not trusted.
    for seed in [0, 1, 2, 3, 24] {
        let expected = digest(seed);
        for over in ["connection", "s3"] {
            assert_eq!(digest_of(seed, &["--over", over]), expected, "seed {seed} over {over}");
        }
    }
}
