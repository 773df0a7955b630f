//! A comparison agrees with a simple model that keeps everything in memory.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use ibid_bench::{Error, INDEX_BYTES, Observer, Plan, RECIPE_BYTES, Random, Series, Unobserved, compare};
use ibid_chunk::{Backend, Chunker, Settings, chunks};

fn plan(paths: &[&Path], contenders: &[(&str, usize)]) -> Plan {
    let settings = |(name, average): &(&str, usize)| Settings::for_average(name, *average).unwrap();
    Plan {
        paths: paths.iter().map(|path| path.to_path_buf()).collect(),
        contenders: contenders.iter().map(settings).collect(),
        backends: vec![Backend::scalar(), Backend::best()],
        rounds: 2,
        sample: 1 << 20,
        threads: 2,
    }
}

/// Makes a series, a file longer than a piece, and files of 0 and 1 bytes.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let series = Series {
        size: 1_000_000,
        versions: 3,
        edits: 5,
        ..Series::default()
    };
    series
        .write_into(&folder.path().join("series"), &mut Unobserved)
        .unwrap();
    std::fs::write(folder.path().join("large"), Random::new(3).bytes(9_000_001)).unwrap();
    std::fs::write(folder.path().join("empty"), "").unwrap();
    std::fs::write(folder.path().join("series/one"), "1").unwrap();
    std::os::unix::fs::symlink("large", folder.path().join("link")).unwrap();
    folder
}

#[test]
fn savings_and_sizes_are_those_of_all_chunks_of_every_file() {
    let folder = folder();
    let contenders = [
        ("fastcdc", 8192),
        ("seqcdc", 8192),
        ("fixed", 4096),
        ("fastcdc", 65_536),
    ];
    let plan = plan(&[folder.path()], &contenders);
    let found = compare(&plan, &mut Unobserved).unwrap();
    let names = [
        "large",
        "series/one",
        "series/v01.bin",
        "series/v02.bin",
        "series/v03.bin",
    ];
    let files: Vec<Vec<u8>> = names
        .iter()
        .map(|name| std::fs::read(folder.path().join(name)).unwrap())
        .collect();
    assert_eq!(
        (found.files, found.bytes),
        (6, files.iter().map(|file| file.len() as u64).sum())
    );
    for (entry, settings) in found.entries.iter().zip(&plan.contenders) {
        let chunker = Chunker::new(settings).unwrap();
        let all: Vec<&[u8]> = files.iter().flat_map(|file| chunks(&chunker, file)).collect();
        let different: HashSet<&[u8]> = all.iter().copied().collect();
        let bytes: usize = different.iter().map(|chunk| chunk.len()).sum();
        assert_eq!(&entry.settings, settings);
        assert_eq!(
            (entry.sizes.chunks(), entry.sizes.bytes()),
            (all.len() as u64, found.bytes)
        );
        assert_eq!(
            (entry.unique_chunks, entry.unique_bytes),
            (different.len() as u64, bytes as u64)
        );
        let at_max = all.iter().filter(|chunk| chunk.len() == chunker.size_max()).count();
        assert_eq!(entry.sizes.at_max(), at_max as u64);
        let metadata = all.len() as u64 * RECIPE_BYTES + different.len() as u64 * INDEX_BYTES;
        let ratio = found.bytes as f64 / (bytes as u64 + metadata) as f64;
        assert!((entry.ratio_with_metadata() - ratio).abs() < 1e-9 && entry.ratio() > ratio);
        assert!((entry.savings() - (1.0 - 1.0 / entry.ratio())).abs() < 1e-9);
    }
    // The number of threads changes no result.
    let alone = compare(&Plan { threads: 1, ..plan }, &mut Unobserved).unwrap();
    for (a, b) in alone.entries.iter().zip(&found.entries) {
        assert_eq!(
            (&a.sizes, a.unique_chunks, a.unique_bytes),
            (&b.sizes, b.unique_chunks, b.unique_bytes)
        );
    }
}

#[test]
fn speeds_are_measured_on_a_sample_of_the_size_asked_for() {
    let folder = folder();
    let all = compare(&plan(&[folder.path()], &[("fixed", 4096)]), &mut Unobserved).unwrap();
    assert_eq!((all.sample, all.rounds), (1 << 20, 2));
    let small = compare(
        &plan(&[&folder.path().join("series/v01.bin")], &[("fixed", 4096)]),
        &mut Unobserved,
    )
    .unwrap();
    assert_eq!(small.sample, 1_000_000);
    for found in [all, small] {
        let entry = &found.entries[0];
        let backends: Vec<Backend> = entry.speeds.iter().map(|(backend, _)| *backend).collect();
        assert_eq!(backends, [Backend::scalar(), Backend::best()]);
        let speeds = entry.speeds.iter().map(|(_, speed)| speed);
        for speed in speeds.chain([&entry.with_fingerprints, &found.read]) {
            assert!(0.0 < speed.least && speed.least <= speed.median && speed.median <= speed.most);
        }
        // Hashing every chunk is slower than fixed cuts, which read no data.
        assert!(entry.with_fingerprints.median < entry.fastest().unwrap().1.median);
    }
}

#[test]
fn no_entry_on_the_frontier_is_beaten_and_all_others_are() {
    let folder = folder();
    let contenders = [
        ("fastcdc", 4096),
        ("fixed", 4096),
        ("seqcdc", 16_384),
        ("fixed", 65_536),
    ];
    let found = compare(&plan(&[folder.path()], &contenders), &mut Unobserved).unwrap();
    let points: Vec<_> = found
        .entries
        .iter()
        .map(|entry| (entry.savings(), entry.fastest().unwrap().1.median))
        .collect();
    let frontier = found.frontier();
    assert!(frontier.contains(&true));
    for (point, on) in points.iter().zip(&frontier) {
        let beaten = points
            .iter()
            .any(|other| other.0 >= point.0 && other.1 >= point.1 && other != point);
        assert_eq!(*on, !beaten, "{points:?}");
    }
}

#[derive(Default)]
struct Notes {
    expected: u64,
    done: u64,
    stop_after: Option<u64>,
    problems: Vec<PathBuf>,
}

impl Observer for Notes {
    fn expect(&mut self, bytes: u64) {
        self.expected = bytes;
    }
    fn advance(&mut self, bytes: u64) -> bool {
        self.done += bytes;
        self.stop_after.is_none_or(|most| self.done < most)
    }
    fn problem(&mut self, path: &Path, _: &std::io::Error) {
        self.problems.push(path.to_owned());
    }
}

#[test]
fn the_observer_knows_how_much_there_is_to_do_and_can_stop_it() {
    let folder = folder();
    let plan = plan(&[folder.path()], &[("fastcdc", 8192), ("fixed", 4096)]);
    let mut notes = Notes::default();
    compare(&plan, &mut notes).unwrap();
    assert_eq!(notes.done, notes.expected);
    for share in [10, 90] {
        let mut stopping = Notes {
            stop_after: Some(notes.expected * share / 100),
            ..Notes::default()
        };
        assert!(matches!(compare(&plan, &mut stopping), Err(Error::Stopped)), "{share}");
    }
}

#[test]
fn impossible_plans_are_refused() {
    let folder = folder();
    let good = plan(&[folder.path()], &[("fixed", 4096)]);
    let empty = plan(&[&folder.path().join("empty")], &[("fixed", 4096)]);
    let nowhere = plan(&[&folder.path().join("nowhere")], &[("fixed", 4096)]);
    assert!(matches!(
        compare(&empty, &mut Unobserved),
        Err(Error::OutOfRange { .. })
    ));
    assert!(matches!(compare(&nowhere, &mut Unobserved), Err(Error::File { .. })));
    for bad in [
        Plan {
            contenders: Vec::new(),
            ..good.clone()
        },
        Plan {
            backends: Vec::new(),
            ..good.clone()
        },
        Plan {
            rounds: 0,
            ..good.clone()
        },
        Plan {
            sample: 0,
            ..good.clone()
        },
        Plan {
            threads: 0,
            ..good.clone()
        },
    ] {
        let refused = compare(&bad, &mut Unobserved).unwrap_err();
        assert!(refused.to_string().contains("expected at least 1"), "{refused}");
    }
}
