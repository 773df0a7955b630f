//! Breakdown, hashes and instructions: all of them are measured, and numbers that can be checked
//! are right.

use ibid_bench::{BreakdownPlan, Error, HASH_BINS, Part, Unobserved, breakdown, cpu, hashes, sample};
use ibid_chunk::{Backend, RollingHash, Settings};

fn plan() -> BreakdownPlan {
    let Settings::SeqCdc(settings) = Settings::for_average("seqcdc", 16 << 10).unwrap() else {
        unreachable!("asked for by name")
    };
    BreakdownPlan {
        settings,
        paths: Vec::new(),
        sample: 2 << 20,
        backends: Backend::available().collect(),
        rounds: 1,
    }
}

#[test]
fn a_breakdown_has_three_parts_for_each_backend_and_the_papers_names() {
    let found = breakdown(&plan(), &mut Unobserved).unwrap();
    let backends = Backend::available().count();
    assert_eq!((found.steps.len(), found.sample), (3 * backends, 2 << 20));
    let names: Vec<String> = found.steps.iter().map(|step| step.name()).collect();
    assert_eq!(names[..3], ["BARE", "BASE", "SEQ"]);
    if Backend::available().any(|backend| backend.name() == "avx512") {
        assert_eq!(names[names.len() - 3..], ["VBARE-512", "VBASE-512", "VSEQ-512"]);
    }
    for step in &found.steps {
        assert!(step.speed.median > 0.0);
        // Every backend finds the same cuts, and each part makes chunks larger.
        let same = found.steps.iter().find(|other| other.part == step.part).unwrap();
        assert_eq!(step.mean, same.mean);
    }
    let mean = |part| found.steps.iter().find(|step| step.part == part).unwrap().mean;
    let (bare, base, skips) = (mean(Part::Boundaries), mean(Part::Minimum), mean(Part::Skips));
    // Five pairs give an average of 873 bytes.
    assert!((800.0..1100.0).contains(&bare) && (8600.0..9500.0).contains(&base) && skips > 11_000.0);
}

#[test]
fn a_breakdown_of_files_takes_some_of_each() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(folder.path().join(name), name.repeat(100_000)).unwrap();
    }
    let paths = vec![folder.path().to_owned()];
    let some = sample(&paths, 30_000, &mut Unobserved).unwrap();
    for letter in *b"abc" {
        let count = some.iter().filter(|byte| **byte == letter).count();
        assert_eq!(count, 10_000);
    }
    assert_eq!(sample(&paths, usize::MAX, &mut Unobserved).unwrap().len(), 300_000);
    let found = breakdown(&BreakdownPlan { paths, ..plan() }, &mut Unobserved).unwrap();
    assert_eq!(found.sample, 300_000);
    let nowhere = vec![folder.path().join("nowhere")];
    assert!(matches!(sample(&nowhere, 1, &mut Unobserved), Err(Error::File { .. })));
}

#[test]
fn all_hashes_are_even_but_that_of_rsync() {
    let found = hashes(50_000, 1 << 20, 1, &[Backend::scalar()], &mut Unobserved).unwrap();
    assert_eq!(found.entries.len(), RollingHash::ALL.len());
    for entry in &found.entries {
        assert_eq!((entry.bins.len(), entry.bins.iter().sum::<u64>()), (HASH_BINS, 50_000));
        assert!(entry.speeds[0].1.median > 0.0);
        // With 63 degrees of freedom, a value above 1.8 has a probability below one in ten
        // thousand.
        let is_even = entry.unevenness() < 1.8;
        assert_eq!(is_even, entry.name != "rsync", "{}: {}", entry.name, entry.unevenness());
        assert!(entry.fullest() >= 1.0 && entry.emptiest() <= 1.0);
    }
    let rsync = found.entries.iter().find(|entry| entry.name == "rsync").unwrap();
    assert!(rsync.fullest() > 1.3 && rsync.emptiest() < 0.7, "{:?}", rsync.bins);
    assert!(hashes(0, 1, 1, &[Backend::scalar()], &mut Unobserved).is_err());
    assert!(hashes(1, 1, 1, &[], &mut Unobserved).is_err());
}

#[test]
fn instructions_cost_something_and_the_automatic_backend_is_the_last() {
    let found = cpu(1).unwrap();
    let backends: Vec<Backend> = found.backends.iter().map(|(backend, _)| *backend).collect();
    assert_eq!(backends, Backend::available().collect::<Vec<_>>());
    assert_eq!(Some(&found.best), backends.last());
    assert_eq!(found.instructions.is_empty(), !cfg!(target_arch = "x86_64"));
    for cost in &found.instructions {
        assert!(
            cost.latency_ns > 0.0 && cost.interval_ns > 0.0 && cost.latency_cycles() > 0.0 && cost.per_cycle() > 0.0
        );
    }
}
