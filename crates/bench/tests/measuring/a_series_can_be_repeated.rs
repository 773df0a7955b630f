//! A series of versions follows its documentation byte for byte, in every release.

use ibid_bench::{EditKind, Error, Observer, Random, Series, Unobserved};

fn versions(series: &Series) -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new()];
    series.first(&mut all[0]).unwrap();
    for n in 2..=series.versions {
        let previous = &all[all.len() - 1];
        let mut next = Vec::new();
        series.next(n, &previous[..], previous.len() as u64, &mut next).unwrap();
        all.push(next);
    }
    all
}

fn small() -> Series {
    Series {
        size: 100_000,
        versions: 4,
        edits: 50,
        ..Series::default()
    }
}

/// Applies the rule in another way: on whole versions in memory.
fn by_the_rule(series: &Series) -> Vec<Vec<u8>> {
    let mut all = vec![Random::stream(series.seed, 0).bytes(series.size as usize)];
    for n in 2..=u64::from(series.versions) {
        let previous = &all[all.len() - 1];
        let mut source = Random::stream(series.seed, 2 * n);
        let mut noise = Random::stream(series.seed, 2 * n + 1);
        let reach = (previous.len() as f64 * series.spread) as u64;
        let mut edits = Vec::new();
        for _ in 0..series.edits {
            let place = source.below(reach) as usize;
            edits.push((place, series.kinds[source.below(series.kinds.len() as u64) as usize]));
        }
        edits.sort_by_key(|edit| edit.0);
        let (mut next, mut at) = (Vec::new(), 0);
        for (place, kind) in edits {
            if place > at {
                next.extend_from_slice(&previous[at..place]);
                at = place;
            }
            let gone = (series.edit_bytes as usize).min(previous.len() - at);
            if kind != EditKind::Insert {
                at += gone;
            }
            match kind {
                EditKind::Insert => next.extend(noise.bytes(series.edit_bytes as usize)),
                EditKind::Overwrite => next.extend(noise.bytes(gone)),
                EditKind::Delete => {}
            }
        }
        next.extend_from_slice(&previous[at..]);
        all.push(next);
    }
    all
}

#[test]
fn the_bytes_of_a_seed_never_change() {
    let hash = |series: &Series| blake3::hash(&versions(series).concat()).to_hex().to_string();
    assert_eq!(
        hash(&small()),
        "7a57cdf513ab367bc10e6b0a3c2f6295fabed5f234fb0a2143080bd788b05e3f"
    );
    let other = Series { seed: 2, ..small() };
    assert_eq!(
        hash(&other),
        "2ccb18bc85149fc1171b64993b79cf8b9bd9a248adba5a4f6b45ca38161aea55"
    );
}

#[test]
fn versions_are_made_by_the_rule_also_where_edits_meet() {
    use EditKind::{Delete, Insert, Overwrite};
    for kinds in [vec![Insert, Delete, Overwrite], vec![Delete], vec![Overwrite, Delete]] {
        // Dense edits, edits larger than the file, edits within its beginning, and none.
        for (edits, edit_bytes, spread) in [
            (50, 100, 1.0),
            (2000, 100, 1.0),
            (3, 200_000, 1.0),
            (400, 333, 0.1),
            (0, 1, 1.0),
        ] {
            let series = Series {
                edits,
                edit_bytes,
                spread,
                kinds: kinds.clone(),
                ..small()
            };
            assert!(versions(&series) == by_the_rule(&series), "{series:?}");
        }
    }
}

#[test]
fn overwrites_keep_lengths_and_nothing_changes_beyond_the_spread() {
    let series = Series {
        kinds: vec![EditKind::Overwrite],
        spread: 0.25,
        ..small()
    };
    let all = versions(&series);
    for pair in all.windows(2) {
        assert_eq!(pair[0].len(), pair[1].len());
        let last = (0..pair[0].len()).rfind(|at| pair[0][*at] != pair[1][*at]).unwrap();
        assert!((20_000..25_100).contains(&last), "{last}");
    }
    let changed = (0..100_000).filter(|at| all[0][*at] != all[1][*at]).count();
    // These are 50 edits of 100 bytes. Few overlap, and one byte in 256 is unchanged by chance.
    assert!((4_000..5_000).contains(&changed), "{changed}");
}

#[test]
fn files_have_the_bytes_of_the_versions_and_never_overwrite_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/deep");
    let series = small();
    let written = series.write_into(&path, &mut Unobserved).unwrap();
    for ((version, bytes), n) in written.iter().zip(versions(&series)).zip(1..) {
        assert_eq!(version.path, path.join(format!("v0{n}.bin")));
        assert!(std::fs::read(&version.path).unwrap() == bytes);
        assert_eq!(
            (version.bytes, version.blake3),
            (bytes.len() as u64, *blake3::hash(&bytes).as_bytes())
        );
        let edits = version.edits.inserts + version.edits.deletes + version.edits.overwrites;
        assert_eq!(edits, if n == 1 { 0 } else { 50 });
    }
    std::fs::remove_file(&written[0].path).unwrap();
    let again = series.write_into(&path, &mut Unobserved).unwrap_err();
    assert!(
        matches!(&again, Error::File { path, .. } if *path == written[1].path),
        "{again}"
    );
    assert!(!written[0].path.exists(), "nothing is begun where it can't be finished");
}

#[test]
fn a_stop_leaves_complete_versions_only() {
    struct Stops(u64);
    impl Observer for Stops {
        fn expect(&mut self, bytes: u64) {
            assert_eq!(bytes, 400_000);
        }
        fn advance(&mut self, bytes: u64) -> bool {
            self.0 = self.0.saturating_sub(bytes);
            self.0 > 0
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let stopped = small().write_into(folder.path(), &mut Stops(150_000));
    assert!(matches!(stopped, Err(Error::Stopped)));
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["v01.bin"]);
}

#[test]
fn impossible_series_are_refused() {
    let bad = [
        Series { versions: 0, ..small() },
        Series {
            edits: u64::MAX,
            ..small()
        },
        Series {
            kinds: Vec::new(),
            ..small()
        },
        Series { spread: 0.0, ..small() },
        Series {
            spread: f64::NAN,
            ..small()
        },
        Series {
            size: u64::MAX,
            ..small()
        },
        Series {
            edit_bytes: u64::MAX,
            ..small()
        },
    ];
    for series in bad {
        let refused = series.validate().unwrap_err();
        assert!(refused.to_string().contains("expected"), "{refused}");
    }
    let empty = Series { size: 0, ..small() };
    assert!(versions(&empty) == by_the_rule(&empty));
}
