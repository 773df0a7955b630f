//! Hints change the cost of chunking, and hardly change the chunks.

use std::path::Path;

use ibid_bench::{
    EditKind, Error, LocalityData, LocalityDataset, LocalityPlan, Observer, Series, StoreMethod, Unobserved, locality,
};
use ibid_chunk::Settings;
use ibid_chunk::locality::Criterion;

fn series() -> Series {
    Series {
        size: 2_000_000,
        versions: 6,
        edits: 10,
        kinds: vec![EditKind::Insert, EditKind::Delete, EditKind::Overwrite],
        ..Series::default()
    }
}

fn settings(name: &str) -> Settings {
    Settings::for_average(name, 8192).unwrap()
}

fn plan(data: LocalityData, chunkers: &[&str]) -> LocalityPlan {
    LocalityPlan {
        data: vec![data],
        chunkers: chunkers.iter().map(|name| settings(name)).collect(),
        criteria: Criterion::ALL.to_vec(),
        lists: vec![2],
        worst: false,
        threads: Vec::new(),
        store: None,
    }
}

/// Returns the series in a folder, as files and as a series in memory.
fn both() -> (tempfile::TempDir, [LocalityData; 2]) {
    let folder = tempfile::tempdir().unwrap();
    series().write_into(folder.path(), &mut Unobserved).unwrap();
    let files = LocalityData::Files(vec![folder.path().to_owned()]);
    (folder, [files, LocalityData::Series(series())])
}

/// An observer that counts announced and finished bytes, and may stop at some point.
#[derive(Default)]
struct Count {
    expected: Vec<u64>,
    advanced: u64,
    largest: u64,
    most: Option<u64>,
    problems: usize,
}

impl Observer for Count {
    fn expect(&mut self, bytes: u64) {
        self.expected.push(bytes);
    }

    fn advance(&mut self, bytes: u64) -> bool {
        self.advanced += bytes;
        self.largest = self.largest.max(bytes);
        self.most.is_none_or(|most| self.advanced < most)
    }

    fn problem(&mut self, _: &Path, _: &std::io::Error) {
        self.problems += 1;
    }
}

#[test]
fn strict_criteria_find_what_the_chunker_finds_and_scan_little() {
    let mut plan = plan(LocalityData::Series(series()), &["rabin", "fastcdc", "argmin"]);
    (plan.lists, plan.worst) = (vec![1, 4], true);
    let found = locality(&plan, &mut Unobserved).unwrap();
    let [found] = &found.datasets[..] else {
        panic!("{found:?}")
    };
    assert_eq!(found.files, 6);
    for chunker in &found.chunkers {
        let plain = &chunker.plain;
        let name = chunker.settings.name();
        assert_eq!(plain.bytes(), found.bytes, "{name}");
        assert!(plain.ratio() > 4.0, "{name}: {}", plain.ratio());
        // Argmin tests no places.
        let left_out = if name == "argmin" { 2 } else { 0 };
        assert_eq!((chunker.left_out.len(), chunker.lists()), (left_out, vec![1, 4]));
        assert_eq!(chunker.hinted.len(), 2 * (4 - left_out));
        for entry in &chunker.hinted {
            let run = &entry.run;
            assert_eq!(run.bytes(), found.bytes);
            assert!(
                run.tally.hinted() > 2 * run.tally.scanned,
                "{name} {}",
                entry.criterion.name()
            );
            // Every hint follows a duplicate, and nearly every duplicate has a follower.
            let followers = run.tally.duplicates - run.followers;
            assert!(
                followers <= found.files && run.tally.hinted() <= run.followers,
                "{run:?}"
            );
            let shares: f64 = (0..entry.list).map(|place| run.hit_share(place)).sum();
            assert!(shares > 0.8 && shares <= 1.0, "{shares}");
            assert_eq!(entry.worst_seconds.is_some(), entry.criterion != Criterion::FastForward);
            assert!(run.tally.hits[entry.list..].iter().all(|hits| *hits == 0));
            match entry.criterion {
                Criterion::WindowAndFingerprint => assert_eq!(run.unique_bytes, plain.unique_bytes, "{name}"),
                Criterion::FastForward => assert!(run.ratio() > 0.7 * plain.ratio(), "{name}"),
                Criterion::Marker | Criterion::Window => assert!(run.ratio() > 0.99 * plain.ratio(), "{name}"),
            }
        }
    }
}

#[test]
fn files_are_cut_like_versions_in_memory_and_threads_change_nothing_that_is_found() {
    let (_folder, both) = both();
    let mut counted = Vec::new();
    for data in both {
        let mut plan = plan(data, &["gear"]);
        plan.criteria = vec![Criterion::WindowAndFingerprint];
        plan.threads = vec![1, 2, 5];
        let LocalityDataset {
            files, bytes, chunkers, ..
        } = locality(&plan, &mut Unobserved).unwrap().datasets.remove(0);
        let run = &chunkers[0].hinted[0].run;
        counted.push((files, bytes, run.tally, run.unique_bytes));
        let threads = &chunkers[0].threads;
        let ways: Vec<_> = threads.iter().map(|entry| (entry.name(), entry.threads)).collect();
        let numbers = ["plain", "ff+rwt+fpt"].map(|name| [1, 2, 5].map(|threads| (name, threads)));
        assert_eq!(ways, numbers.concat());
        for entry in threads {
            assert_eq!((entry.bytes, entry.unique_bytes), (bytes, run.unique_bytes), "{ways:?}");
        }
    }
    assert_eq!(counted[0], counted[1]);
}

#[test]
fn a_store_takes_new_chunks_and_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let (_versions, both) = both();
    for data in both {
        let mut plan = plan(data, &["rabin", "ae"]);
        plan.criteria = vec![Criterion::WindowAndFingerprint];
        plan.store = Some(folder.path().to_owned());
        let found = locality(&plan, &mut Unobserved).unwrap().datasets.remove(0);
        let [rabin, ae] = &found.chunkers[..] else {
            panic!("{found:?}")
        };
        let names: Vec<&str> = rabin.stores.iter().map(|entry| entry.method.name()).collect();
        assert_eq!(names, ["fixed", "plain", "ff+rwt+fpt", "ideal"]);
        let stored: Vec<u64> = rabin.stores.iter().map(|entry| entry.stored).collect();
        assert!(stored[0] > 2 * stored[1], "insertions move all that follows");
        assert_eq!(
            (stored[1], stored[2], stored[3]),
            (rabin.plain.unique_bytes, stored[1], stored[1])
        );
        // This chunker tests no places.
        let methods: Vec<StoreMethod> = ae.stores.iter().map(|entry| entry.method).collect();
        assert_eq!(methods, [StoreMethod::Fixed, StoreMethod::Plain, StoreMethod::Ideal]);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        plan.store = Some(folder.path().join("nowhere"));
        let error = locality(&plan, &mut Unobserved).unwrap_err();
        assert!(
            matches!(
                error,
                Error::File {
                    action: "write into",
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn the_observer_hears_once_how_much_is_ahead_and_then_of_exactly_that() {
    let folder = tempfile::tempdir().unwrap();
    let small = Series {
        size: 300_000,
        versions: 3,
        ..series()
    };
    let versions = tempfile::tempdir().unwrap();
    small.write_into(versions.path(), &mut Unobserved).unwrap();
    let files = LocalityData::Files(vec![versions.path().to_owned()]);
    for data in [files, LocalityData::Series(small)] {
        let is_exact = matches!(data, LocalityData::Files(_));
        let mut plan = plan(data, &["gear", "argmin"]);
        (plan.lists, plan.worst, plan.threads) = (vec![1, 2], true, vec![1, 2]);
        plan.store = Some(folder.path().to_owned());
        let mut count = Count::default();
        let found = locality(&plan, &mut count).unwrap();
        let bytes = found.datasets[0].bytes;
        // Gear has runs without hints and, for both list lengths, four criteria and three worst
        // cases, each with naming and without; threads: plain and four criteria, twice; stores:
        // fixed, plain, four criteria, ideal and the pass for its boundaries. Argmin has two
        // criteria.
        let passes = (2 * 15 + 10 + 8) + (2 * 7 + 6 + 6);
        assert_eq!(count.advanced, passes * bytes);
        let [expected] = count.expected[..] else {
            panic!("{:?}", count.expected)
        };
        let off = expected.abs_diff(count.advanced) as f64 / count.advanced as f64;
        assert!(if is_exact { off == 0.0 } else { off < 0.01 }, "{off}");

        // The experiment ends wherever it is, and leaves no files.
        for share in [0.0, 0.3, 0.6, 0.7, 0.9, 0.99] {
            let mut count = Count {
                most: Some((expected as f64 * share) as u64),
                ..Count::default()
            };
            let error = locality(&plan, &mut count).unwrap_err();
            assert!(matches!(error, Error::Stopped), "{share}: {error}");
            assert!(count.advanced < expected, "{share}");
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}

#[test]
fn the_observer_hears_of_few_bytes_at_a_time() {
    let large = Series {
        size: 20_000_000,
        versions: 2,
        ..series()
    };
    let mut plan = plan(LocalityData::Series(large), &["fastcdc"]);
    (plan.criteria, plan.threads) = (vec![Criterion::FastForward], vec![2]);
    let mut count = Count::default();
    locality(&plan, &mut count).unwrap();
    assert!(count.largest < 5 << 20, "{}", count.largest);
}
