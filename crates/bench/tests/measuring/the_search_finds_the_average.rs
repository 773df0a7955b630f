//! The search finds parameters that give the requested average, and prefers those that store least.

use ibid_bench::{Error, Random, TunePlan, Unobserved, tune};
use ibid_chunk::{Chunker, Settings, chunks};

fn plan(average: usize) -> TunePlan {
    TunePlan {
        random_bytes: average * 512,
        sample: 1 << 20,
        rounds: 1,
        threads: 2,
        ..TunePlan::for_average(average).unwrap()
    }
}

#[test]
fn averages_of_4_8_and_16_kib_come_out_within_a_tenth_on_random_bytes_it_has_not_seen() {
    let unseen = Random::new(0xfeed).bytes(24 << 20);
    for average in [4 << 10, 8 << 10, 16 << 10] {
        let tuning = tune(&plan(average), &mut Unobserved).unwrap();
        assert_eq!(tuning.candidates.len(), tuning.comparison.entries.len());
        for candidate in &tuning.candidates {
            let chunker = Chunker::new(&Settings::SeqCdc(candidate.settings)).unwrap();
            let mean = unseen.len() as f64 / chunks(&chunker, &unseen).count() as f64;
            let share = mean / average as f64;
            assert!((0.9..=1.1).contains(&share), "{share} of {average}: {candidate:?}");
        }
        // The parameters of the papers are tried, and more than one length.
        let lengths: Vec<u32> = tuning
            .candidates
            .iter()
            .map(|candidate| candidate.settings.seq_length)
            .collect();
        assert!(
            lengths.contains(&5) && lengths.iter().any(|length| *length != 5),
            "{lengths:?}"
        );
    }
}

#[test]
fn the_best_stores_nearly_as_little_as_any_that_realises_the_average() {
    let average = 8 << 10;
    let tuning = tune(&plan(average), &mut Unobserved).unwrap();
    let entries = &tuning.comparison.entries;
    let least = entries
        .iter()
        .map(|entry| entry.ratio_with_metadata())
        .fold(0.0, f64::max);
    let best = &entries[tuning.best];
    assert!(best.ratio_with_metadata() >= 0.99 * least);
    assert!((0.667..=1.5).contains(&(best.sizes.mean() / average as f64)));
    assert_eq!(best.settings, Settings::SeqCdc(tuning.candidates[tuning.best].settings));
}

#[test]
fn it_tries_candidates_on_files_if_there_are_some() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), Random::new(4).bytes(300_000)).unwrap();
    let with_files = TunePlan {
        paths: vec![folder.path().to_owned()],
        ..plan(4 << 10)
    };
    let tuning = tune(&with_files, &mut Unobserved).unwrap();
    assert_eq!((tuning.comparison.files, tuning.comparison.bytes), (1, 300_000));
}

#[test]
fn an_average_that_no_parameters_give_is_refused() {
    let mut plan = plan(8 << 10);
    plan.base.size_max = plan.base.size_average;
    assert!(matches!(tune(&plan, &mut Unobserved), Err(Error::OutOfRange { .. })));
    assert!(TunePlan::for_average(1).is_err());
}
