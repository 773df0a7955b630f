//! Hints change what chunking costs, and hardly what is found.

use ibid_chunk::Settings;
use ibid_chunk::locality::Criterion;
use ibid_measure::{
    EditKind, LocalityData, LocalityPlan, Nobody, Series, StoreMethod, StorePlan, locality, locality_store,
    locality_threads,
};

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

#[test]
fn strict_criteria_find_what_the_chunker_finds_and_scan_little() {
    let plan = LocalityPlan {
        data: LocalityData::Series(series()),
        chunkers: vec![settings("rabin"), settings("fastcdc"), settings("argmin")],
        criteria: Criterion::ALL.to_vec(),
        lists: vec![1, 4],
        worst: true,
        chunks_most: 1 << 20,
    };
    let found = locality(&plan, &mut Nobody).unwrap();
    assert_eq!(found.files, 6);
    for chunker in &found.chunkers {
        let plain = &chunker.plain;
        let name = chunker.settings.name();
        assert_eq!(plain.unique_bytes + plain.tally.duplicate_bytes, found.bytes, "{name}");
        assert!(plain.ratio() > 4.0, "{name}: {}", plain.ratio());
        // Argmin tests no places.
        assert_eq!(chunker.hinted.len(), if name == "argmin" { 4 } else { 8 });
        for entry in &chunker.hinted {
            let run = &entry.run;
            assert_eq!(run.unique_bytes + run.tally.duplicate_bytes, found.bytes);
            assert!(
                run.tally.hinted() > 2 * run.tally.scanned,
                "{name} {}",
                entry.criterion.name()
            );
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
    let folder = tempfile::tempdir().unwrap();
    series().write_into(folder.path(), &mut Nobody).unwrap();
    let files = LocalityData::Files(vec![folder.path().to_owned()]);
    let run = |data: &LocalityData| {
        let plan = LocalityPlan {
            data: data.clone(),
            chunkers: vec![settings("gear")],
            criteria: vec![Criterion::WindowAndFingerprint],
            lists: vec![2],
            worst: false,
            chunks_most: 1 << 20,
        };
        let found = locality(&plan, &mut Nobody).unwrap();
        let run = found.chunkers[0].hinted[0].run.clone();
        (found.files, found.bytes, run.tally, run.unique_bytes)
    };
    let expected = run(&files);
    let in_memory = LocalityData::Series(series());
    assert_eq!(run(&in_memory), expected);
    for data in [files, in_memory] {
        let criteria = [Criterion::WindowAndFingerprint];
        let entries = locality_threads(
            &data,
            &settings("gear"),
            (&criteria, 2, 1 << 20),
            &[1, 2, 5],
            &mut Nobody,
        )
        .unwrap();
        assert_eq!(entries.len(), 3);
        for entry in entries {
            assert_eq!(
                (entry.bytes, entry.unique_bytes),
                (expected.1, expected.3),
                "{} threads",
                entry.threads
            );
        }
    }
}

#[test]
fn a_store_takes_what_is_new_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let exact = StoreMethod::Hinted(Criterion::WindowAndFingerprint);
    let mut plan = StorePlan {
        data: LocalityData::Series(series()),
        chunker: settings("rabin"),
        methods: vec![StoreMethod::Fixed, StoreMethod::Plain, exact, StoreMethod::Ideal],
        list: 2,
        folder: folder.path().to_owned(),
        chunks_most: 1 << 20,
    };
    let entries = locality_store(&plan, &mut Nobody).unwrap();
    let stored: Vec<u64> = entries.iter().map(|entry| entry.stored).collect();
    assert!(stored[0] > 2 * stored[1], "insertions move all that follows");
    assert_eq!((stored[2], stored[3]), (stored[1], stored[1]));
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);

    (plan.chunker, plan.methods) = (settings("ae"), vec![exact]);
    let error = locality_store(&plan, &mut Nobody).unwrap_err().to_string();
    assert!(error.contains("ff+rwt+fpt can't be used with ae"), "{error}");
}
