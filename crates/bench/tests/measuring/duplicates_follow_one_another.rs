//! Runs of duplicates are counted as RapidCDC §2 defines them, whatever the files.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use ibid_bench::{
    Amount, Checkpoint, ChunkSizes, DuplicateLocality, DuplicateLocalityPlan, Error, Observer, Unobserved,
};
use ibid_bench::{Random, Sequences, Series, duplicate_locality};
use ibid_chunk::{Chunker, FixedSettings, Method, NAMES, RollingHash, Settings, WindowedSettings, chunks};

fn fixed(size: usize) -> Settings {
    Settings::Fixed(FixedSettings { size })
}

/// Returns a file in which every letter is a chunk of 64 bytes.
fn letters(text: &str) -> Vec<u8> {
    text.bytes().flat_map(|letter| [letter; 64]).collect()
}

/// Writes files into a folder, so that they are read in this order.
fn folder(files: &[Vec<u8>]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (n, file) in files.iter().enumerate() {
        std::fs::write(folder.path().join(format!("v{n}")), file).unwrap();
    }
    folder
}

fn look(folder: &Path, settings: Settings, checkpoints: usize) -> DuplicateLocality {
    let plan = DuplicateLocalityPlan {
        paths: vec![folder.to_owned()],
        settings,
        checkpoints,
    };
    duplicate_locality(&plan, &mut Unobserved).unwrap()
}

fn chunks_of_64(chunks: u64) -> Amount {
    Amount {
        chunks,
        bytes: 64 * chunks,
    }
}

fn sequences(length: u64, count: u64) -> Sequences {
    Sequences {
        length,
        count,
        bytes: 64 * length * count,
    }
}

#[test]
fn a_sequence_follows_the_first_duplicate_of_a_run() {
    // No chunk of the first file is a duplicate. The second has runs of three (abc, def) and an
    // isolated duplicate (h); the third has a run that ends with its file (fgh).
    let files = ["abcdefgh", "abc1def2h", "3fgh"].map(letters);
    let found = look(folder(&files).path(), fixed(64), 3);
    let expected = [
        Checkpoint {
            files: 1,
            all: chunks_of_64(8),
            ..Checkpoint::default()
        },
        Checkpoint {
            files: 2,
            all: chunks_of_64(17),
            duplicates: chunks_of_64(7),
            isolated: chunks_of_64(1),
            sequences: vec![sequences(2, 2)],
        },
        Checkpoint {
            files: 3,
            all: chunks_of_64(21),
            duplicates: chunks_of_64(10),
            isolated: chunks_of_64(1),
            sequences: vec![sequences(2, 3)],
        },
    ];
    assert_eq!(found.checkpoints, expected);
    let last = found.last();
    assert_eq!((last.in_sequences(), last.sequence_count()), (chunks_of_64(6), 3));
    assert!((last.ratio() - 21.0 / 11.0).abs() < 1e-12);
    // All duplicates are the isolated ones, the first of each run, and the sequences.
    assert_eq!(last.duplicates.chunks, 1 + 3 + 6);
}

#[test]
fn no_run_reaches_from_one_file_into_the_next() {
    let found = look(folder(&["ab", "a", "b", "ab"].map(letters)).path(), fixed(64), 1);
    let last = found.last();
    assert_eq!(
        (last.isolated, &last.sequences),
        (chunks_of_64(2), &vec![sequences(1, 1)])
    );
}

#[test]
fn a_file_can_repeat_itself() {
    let found = look(
        folder(&["abab".into(), "zzzz".into()].map(|text: String| letters(&text))).path(),
        fixed(64),
        2,
    );
    assert_eq!(found.checkpoints[0].sequences, [sequences(1, 1)]);
    assert_eq!(found.checkpoints[1].sequences, [sequences(1, 1), sequences(2, 1)]);
}

#[test]
fn bytes_are_those_of_each_chunk_and_runs_go_on_from_piece_to_piece() {
    let file = Random::new(7).bytes(9_000_001);
    let found = look(folder(&[file.clone(), file]).path(), fixed(1000), 1);
    let last = found.last();
    assert_eq!(
        last.duplicates,
        Amount {
            chunks: 9001,
            bytes: 9_000_001
        }
    );
    let one = Sequences {
        length: 9000,
        count: 1,
        bytes: 8_999_001,
    };
    assert_eq!(last.sequences, [one]);
    assert!((last.ratio() - 2.0).abs() < 1e-12);
}

#[test]
fn half_of_the_chunks_in_sequences_are_in_sequences_no_shorter_than_the_median() {
    // The sequences have 1, 1, 2 and 4 chunks.
    let files = ["abcdefgh", "ab1bc2abc3abcde"].map(letters);
    let found = look(folder(&files).path(), fixed(64), 1);
    let last = found.last();
    assert_eq!(last.sequences, [sequences(1, 2), sequences(2, 1), sequences(4, 1)]);
    assert_eq!((last.median_length(), last.longest()), (4, 4));
    let shorter = [1, 2, 3, 4, 5, u64::MAX].map(|length| last.shorter_than(length).chunks);
    assert_eq!(shorter, [0, 2, 4, 4, 8, 8]);
    assert_eq!(found.thresholds(), [2, 4, 8]);
    let nothing = look(folder(&[letters("abc")]).path(), fixed(64), 1);
    assert_eq!((nothing.last().median_length(), nothing.last().longest()), (0, 0));
    assert_eq!((nothing.last().ratio(), nothing.thresholds()), (1.0, vec![2]));
}

#[test]
fn checkpoints_are_evenly_spaced_and_the_last_is_of_all_files() {
    let files: Vec<Vec<u8>> = (0..12).map(|_| letters("a")).collect();
    let folder = folder(&files);
    let counts = |checkpoints| {
        let found = look(folder.path(), fixed(64), checkpoints);
        found
            .checkpoints
            .iter()
            .map(|checkpoint| checkpoint.files)
            .collect::<Vec<_>>()
    };
    assert_eq!(counts(1), [12]);
    assert_eq!(counts(4), [3, 6, 9, 12]);
    assert_eq!(counts(5), [3, 5, 8, 10, 12]);
    assert_eq!(counts(100), (1..=12).collect::<Vec<_>>());
}

/// Counts with a simple model that keeps every chunk, and starts again at every checkpoint.
fn naive(files: &[Vec<u8>], settings: &Settings) -> Checkpoint {
    let chunker = Chunker::new(settings).unwrap();
    let mut seen: HashSet<Vec<u8>> = HashSet::new();
    let mut found = Checkpoint {
        files: files.len() as u64,
        ..Checkpoint::default()
    };
    let mut by_length: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let amount = |chunks: &[&[u8]]| Amount {
        chunks: chunks.len() as u64,
        bytes: chunks.iter().map(|chunk| chunk.len() as u64).sum(),
    };
    let grow = |sum: &mut Amount, by: Amount| {
        sum.chunks += by.chunks;
        sum.bytes += by.bytes;
    };
    for file in files {
        let all: Vec<&[u8]> = chunks(&chunker, file).collect();
        let is_new: Vec<bool> = all.iter().map(|chunk| seen.insert(chunk.to_vec())).collect();
        let numbered: Vec<(&[u8], bool)> = all.iter().copied().zip(is_new).collect();
        grow(&mut found.all, amount(&all));
        for run in numbered.split(|(_, is_new)| *is_new).filter(|run| !run.is_empty()) {
            let run: Vec<&[u8]> = run.iter().map(|(chunk, _)| *chunk).collect();
            grow(&mut found.duplicates, amount(&run));
            let sequence = amount(&run[1..]);
            if run.len() == 1 {
                grow(&mut found.isolated, amount(&run));
            } else {
                let entry = by_length.entry(sequence.chunks).or_default();
                *entry = (entry.0 + 1, entry.1 + sequence.bytes);
            }
        }
    }
    let sequences = by_length
        .into_iter()
        .map(|(length, (count, bytes))| Sequences { length, count, bytes });
    found.sequences = sequences.collect();
    found
}

#[test]
fn every_checkpoint_agrees_with_a_naive_model() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        // Few letters make long runs, many make few duplicates. The last chunk of a file can be
        // short.
        let kinds = 2 + random.below(60);
        let files: Vec<Vec<u8>> = (0..1 + random.below(8))
            .map(|_| {
                let text: Vec<u8> = (0..random.below(80)).map(|_| random.below(kinds) as u8).collect();
                let mut file: Vec<u8> = text.iter().flat_map(|letter| [*letter; 64]).collect();
                file.truncate(file.len().saturating_sub(random.below(64) as usize));
                file
            })
            .collect();
        if files.iter().all(Vec::is_empty) {
            continue;
        }
        let found = look(folder(&files).path(), fixed(64), files.len());
        for (n, checkpoint) in found.checkpoints.iter().enumerate() {
            assert_eq!(
                checkpoint,
                &naive(&files[..=n], &fixed(64)),
                "seed {seed}, {} files",
                n + 1
            );
        }
    }
}

#[test]
fn edited_versions_cut_by_content_agree_with_the_model_too() {
    let series = Series {
        size: 400_000,
        versions: 4,
        edits: 6,
        ..Series::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let versions = series.write_into(folder.path(), &mut Unobserved).unwrap();
    let files: Vec<Vec<u8>> = versions
        .iter()
        .map(|version| std::fs::read(&version.path).unwrap())
        .collect();
    for name in ["rabin", "fastcdc", "seqcdc", "argmin"] {
        let settings = ChunkSizes::DATA_DOMAIN.settings(name).unwrap();
        let found = look(folder.path(), settings.clone(), 2);
        assert_eq!(found.checkpoints[0], naive(&files[..2], &settings), "{name}");
        assert_eq!(found.checkpoints[1], naive(&files, &settings), "{name}");
        let last = found.last();
        assert!(3 * last.in_sequences().chunks > last.all.chunks, "{name}: {last:?}");
    }
}

#[test]
fn impossible_plans_are_refused_and_the_observer_can_stop() {
    let folder = folder(&[letters("ab")]);
    let plan = DuplicateLocalityPlan {
        paths: vec![folder.path().to_owned()],
        settings: fixed(64),
        checkpoints: 1,
    };
    let refused = |plan: DuplicateLocalityPlan| duplicate_locality(&plan, &mut Unobserved).unwrap_err();
    let none = DuplicateLocalityPlan {
        checkpoints: 0,
        ..plan.clone()
    };
    assert!(matches!(
        refused(none),
        Error::OutOfRange {
            what: "checkpoints",
            ..
        }
    ));
    let nowhere = DuplicateLocalityPlan {
        paths: vec![folder.path().join("nowhere")],
        ..plan.clone()
    };
    assert!(matches!(refused(nowhere), Error::File { .. }));
    let invalid = DuplicateLocalityPlan {
        settings: fixed(1),
        ..plan.clone()
    };
    assert!(matches!(refused(invalid), Error::Settings(_)));

    struct Impatient;
    impl Observer for Impatient {
        fn expect(&mut self, bytes: u64) {
            assert_eq!(bytes, 128);
        }
        fn advance(&mut self, _: u64) -> bool {
            false
        }
    }
    assert!(matches!(duplicate_locality(&plan, &mut Impatient), Err(Error::Stopped)));
}

#[test]
fn the_papers_sizes_are_a_mask_of_twelve_bits_past_the_minimum() {
    let rabin = ChunkSizes::DATA_DOMAIN.settings("rabin").unwrap();
    let expected = WindowedSettings {
        size_min: 4096,
        size_average: 8192,
        size_max: 12_288,
        method: Method::Ott,
        hash: RollingHash::Rabin,
        main: 0xfff0_0000,
        backup: 0,
    };
    assert_eq!(rabin, Settings::Windowed(expected));
    // 4096, and of another 4096 the part that the maximum leaves 8192 further on: 1 - 1/e².
    let expected = 4096.0 + 4096.0 * (1.0 - (-2f64).exp());
    let found = mean(&rabin);
    assert!((found / expected - 1.0).abs() < 0.02, "{found} for {expected}");
    let divisor = ChunkSizes::LBFS.settings("tttd").unwrap();
    let Settings::Windowed(divisor) = divisor else {
        panic!("{divisor:?}")
    };
    assert_eq!((divisor.main, divisor.backup), (14 << 10, 7 << 10));
}

fn mean(settings: &Settings) -> f64 {
    let data = Random::new(5).bytes(16 << 20);
    data.len() as f64 / chunks(&Chunker::new(settings).unwrap(), &data).count() as f64
}

#[test]
fn every_chunker_takes_the_sizes_that_it_has() {
    for sizes in [ChunkSizes::DATA_DOMAIN, ChunkSizes::LBFS] {
        for name in NAMES {
            let settings = sizes.settings(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!((settings.name(), settings.size_average()), (name, sizes.average));
            let by_average = ["fixed", "ae", "ae-min", "ram", "maxp"].contains(&name);
            if by_average {
                assert_eq!(settings, Settings::for_average(name, sizes.average).unwrap());
                continue;
            }
            assert_eq!(settings.size_max(), sizes.max, "{name}");
            let has_minimum = !["bsw/", "td/", "obsw/", "otd/"]
                .iter()
                .any(|method| name.starts_with(method));
            assert_eq!(settings.size_min() == sizes.min, has_minimum, "{name}");
        }
    }
    // The other chunkers come near to the average at the paper's sizes. FastCDC, whose
    // normalisation is around that average, is above it.
    for name in [
        "rabin", "gear", "crc32", "tttd", "fastcdc", "seqcdc", "argmin", "argmin8", "ae", "ram",
    ] {
        let found = mean(&ChunkSizes::DATA_DOMAIN.settings(name).unwrap());
        assert!((6700.0..9700.0).contains(&found), "{name}: {found}");
    }
}

#[test]
fn sizes_that_are_out_of_order_or_of_range_are_refused() {
    let refused =
        |min, average, max, name: &str| ChunkSizes { min, average, max }.settings(name).unwrap_err().to_string();
    assert!(refused(8192, 4096, 12_288, "fixed").contains("8192"));
    assert!(refused(4096, 8192, 8191, "rabin").contains("8191"));
    assert!(refused(63, 8192, 12_288, "argmin").contains("minimum chunk size"));
    assert!(refused(64, 8192, 12_288, "nobody").contains("nobody"));
    // The smallest possible distance between minimum and average.
    for name in NAMES {
        let sizes = ChunkSizes {
            min: 8192,
            average: 8192,
            max: 12_288,
        };
        assert!(sizes.settings(name).is_ok(), "{name}");
    }
}
