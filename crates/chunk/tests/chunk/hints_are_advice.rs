//! Hints change the speed of cutting, never the data: under any hints the chunks together are the
//! data, and under `ff+rwt+fpt` they are those of the chunker alone.

use std::collections::HashMap;

use ibid_chunk::locality::{Criterion, Entered, Hint, HintedChunker, Known, LIST_MOST, Table, Tally};
use ibid_chunk::{Chunker, NAMES, Settings, chunks};
use md5::{Digest, Md5};
use proptest::prelude::*;

use crate::data::{KINDS, Random, random, structured};

fn name(chunk: &[u8]) -> [u8; 16] {
    Md5::digest(chunk).into()
}

fn chunker(name: &str, average: usize) -> Chunker {
    Chunker::new(&Settings::for_average(name, crate::data::at_least(name, average)).unwrap()).unwrap()
}

fn testing_places() -> Vec<&'static str> {
    let tests = |name: &&str| chunker(name, 300).settings().tests_places();
    NAMES.into_iter().filter(tests).collect()
}

/// Versions of some data, each with a few edits of the one before.
fn versions(kind: usize, seed: u64, len: usize, edits: usize) -> Vec<Vec<u8>> {
    let mut random = Random(seed);
    let mut all = vec![structured(kind, seed, len)];
    for version in 1..5u64 {
        let mut next = all.last().unwrap().clone();
        for edit in 0..edits as u64 {
            let at = random.below(next.len());
            let upto = (at + random.below(100)).min(next.len());
            let noise = structured(kind, seed ^ version ^ edit << 8, random.below(100));
            next.splice(at..if random.below(2) == 0 { at } else { upto }, noise);
        }
        // Ends the version in the middle of another's chunk.
        if version == 2 {
            next.truncate(next.len() * 3 / 4);
        }
        all.push(next);
    }
    all
}

fn ends(chunker: &Chunker, data: &[u8]) -> Vec<usize> {
    chunks(chunker, data).map(<[u8]>::len).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn with_the_fingerprint_test_cuts_are_those_of_the_chunker(
        name_of in prop::sample::select(testing_places()), average in 256usize..1000, kind in 0..KINDS, seed: u64,
        edits in 0usize..20, list in 1usize..=LIST_MOST, refuses: bool,
    ) {
        let chunker = chunker(name_of, average);
        let mut hinted = HintedChunker::new(&chunker, Criterion::WindowAndFingerprint).unwrap();
        if refuses {
            hinted = hinted.refusing_all();
        }
        let table = Table::new(chunker.settings(), list, 1 << 20);
        let mut known = table.with(name);
        for data in versions(kind, seed, 40_000, edits) {
            let mut found = Vec::new();
            hinted.for_each_chunk(&mut known, &data, |chunk| found.push(chunk.bytes.len()));
            prop_assert_eq!(&found, &ends(&chunker, &data));
            let mut streamed = Vec::new();
            hinted.for_each_chunk_of(&mut known, &data[..], |chunk| streamed.push(chunk.bytes.len())).unwrap();
            prop_assert_eq!(&streamed, &found);
        }
    }

    #[test]
    fn chunks_are_together_the_data_and_within_bounds_whatever_the_criterion(
        name_of in prop::sample::select(&NAMES[..]), criterion in prop::sample::select(&Criterion::ALL[..]),
        average in 256usize..1000, kind in 0..KINDS, seed: u64, edits in 0usize..20,
    ) {
        let chunker = chunker(name_of, average);
        let Ok(hinted) = HintedChunker::new(&chunker, criterion) else {
            prop_assert!(criterion.tests_places() && !chunker.settings().tests_places());
            return Ok(());
        };
        let table = Table::new(chunker.settings(), 2, 1 << 20);
        let mut known = table.with(name);
        let mut seen = HashMap::new();
        for data in versions(kind, seed, 40_000, edits) {
            let mut rest = &data[..];
            let mut duplicates = 0;
            let tally = hinted.for_each_chunk(&mut known, &data, |chunk| {
                assert!(rest.starts_with(chunk.bytes));
                rest = &rest[chunk.bytes.len()..];
                let least = if rest.is_empty() { 1 } else { chunker.settings().size_min() };
                assert!((least..=chunker.size_max()).contains(&chunk.bytes.len()));
                assert_eq!(chunk.is_duplicate, seen.insert(chunk.bytes.to_vec(), ()).is_some());
                duplicates += u64::from(chunk.is_duplicate);
            });
            prop_assert!(rest.is_empty());
            prop_assert_eq!(tally.duplicates, duplicates);
            prop_assert_eq!(tally.scanned + tally.hinted(), tally.chunks);
        }
    }

    /// All hints come from outside, and all are wrong.
    #[test]
    fn hints_that_lie_move_no_cut_under_the_fingerprint_test_and_lose_nothing_under_any(
        name_of in prop::sample::select(testing_places()), criterion in prop::sample::select(&Criterion::ALL[..]),
        kind in 0..KINDS, seed: u64,
    ) {
        let chunker = chunker(name_of, 512);
        let hinted = HintedChunker::new(&chunker, criterion).unwrap();
        let mut liar = Liar { random: Random(seed), seen: HashMap::new() };
        for data in versions(kind, seed, 40_000, 5) {
            let mut found = Vec::new();
            hinted.for_each_chunk(&mut liar, &data, |chunk| found.push(chunk.bytes.len()));
            prop_assert_eq!(found.iter().sum::<usize>(), data.len());
            prop_assert!(found.iter().all(|len| (1..=chunker.size_max()).contains(len)));
            if criterion == Criterion::WindowAndFingerprint {
                prop_assert_eq!(&found, &ends(&chunker, &data));
            }
        }
    }
}

/// Knows chunks correctly, and gives random hints.
struct Liar {
    random: Random,
    /// Whether a chunk was cut off by its bytes.
    seen: HashMap<[u8; 16], bool>,
}

impl Known for Liar {
    type Fingerprint = [u8; 16];
    type Entry = ();

    fn fingerprint(&mut self, chunk: &[u8]) -> [u8; 16] {
        name(chunk)
    }

    fn find_cut(&mut self, fingerprint: &[u8; 16], (): ()) -> Option<()> {
        self.seen.get(fingerprint)?.then_some(())
    }

    fn enter(&mut self, fingerprint: [u8; 16], _: Option<()>, at_end: bool) -> Entered<()> {
        let before = self.seen.get(&fingerprint).copied();
        self.seen.insert(fingerprint, before == Some(true) || !at_end);
        Entered {
            entry: Some(()),
            is_duplicate: before.is_some(),
        }
    }

    fn hint(&mut self, (): (), place: usize) -> Option<Hint> {
        let size = match self.random.below(4) {
            0 => self.random.below(1 << 40),
            _ => self.random.below(1500),
        };
        let hint = Hint {
            size,
            marker: self.random.below(256) as u8,
            at_end: self.random.below(8) == 0,
        };
        (place < 5).then_some(hint)
    }

    fn note(&mut self, (): (), _: Hint) {}
}

/// The paper's main figures: hints cut nearly all of a series of versions, and the savings stay the
/// same.
#[test]
fn nearly_all_chunks_of_versions_are_cut_by_hints() {
    // Fixed sizes never resynchronise after an insertion, RAM hardly.
    let find_back = |name: &&str| !["fixed", "ram"].contains(name);
    for name_of in testing_places().into_iter().filter(find_back) {
        let chunker = chunker(name_of, 512);
        let all = versions(0, 7, 400_000, 10);
        let plain = unique_bytes(&all, |data, seen| {
            chunks(&chunker, data).for_each(&mut *seen);
            Tally::default()
        });
        for criterion in Criterion::ALL {
            let hinted = HintedChunker::new(&chunker, criterion).unwrap();
            let table = Table::new(chunker.settings(), 2, 1 << 20);
            let mut known = table.with(name);
            let (unique, tally) = unique_bytes(&all, |data, seen| {
                hinted.for_each_chunk(&mut known, data, |chunk| seen(chunk.bytes))
            });
            // Four of five versions are there already.
            let share = tally.hinted() as f64 / tally.chunks as f64;
            assert!(share > 0.6, "{name_of} {}: {share}", criterion.name());
            let worse = unique as f64 / plain.0 as f64;
            let bound = if criterion == Criterion::FastForward { 1.2 } else { 1.01 };
            assert!(worse <= bound, "{name_of} {}: {worse}", criterion.name());
        }
    }
}

fn unique_bytes(all: &[Vec<u8>], mut cut: impl FnMut(&[u8], &mut dyn FnMut(&[u8])) -> Tally) -> (usize, Tally) {
    let mut seen = HashMap::new();
    let mut tally = Tally::default();
    for data in all {
        let found = cut(data, &mut |chunk| {
            seen.insert(name(chunk), chunk.len());
        });
        tally.add(&found);
    }
    (seen.values().sum(), tally)
}

#[test]
fn a_criterion_that_an_algorithm_can_not_meet_is_refused_with_the_reason() {
    let chunker = chunker("argmin", 1024);
    let error = HintedChunker::new(&chunker, Criterion::Window).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ff+rwt can't be used with argmin, which compares all bytes of a chunk and can't tell for one place if it \
         is a boundary; ff and ff+mt can"
    );
    assert!(HintedChunker::new(&chunker, Criterion::Marker).is_ok());
    assert_eq!(
        Criterion::from_name("fff").unwrap_err().to_string(),
        "criterion: expected one of ff, ff+mt, ff+rwt, ff+rwt+fpt, found \"fff\""
    );
}

#[test]
fn the_last_that_followed_comes_first_and_the_one_longest_ago_goes() {
    let settings = Settings::for_average("gear", 1024).unwrap();
    let table = Table::new(&settings, 3, 100);
    let mut known = table.with(name);
    let fingerprint = known.fingerprint(b"chunk");
    let chunk = known.enter(fingerprint, None, false).entry.unwrap();
    let hint = |size| Hint {
        size,
        marker: size as u8,
        at_end: false,
    };
    let list = || {
        (0..LIST_MOST)
            .map_while(|place| table.hint(chunk, place))
            .map(|hint| hint.size)
            .collect::<Vec<_>>()
    };
    assert!(list().is_empty());
    for (size, expected) in [
        (600, &[600][..]),
        (600, &[600]),
        (700, &[700, 600]),
        (800, &[800, 700, 600]),
        (600, &[600, 800, 700]),
        (800, &[800, 600, 700]),
        (900, &[900, 800, 600]),
        (5, &[900, 800, 600]),
    ] {
        table.note(chunk, hint(size));
        assert_eq!(list(), expected, "after {size}");
    }
}

#[test]
fn a_table_takes_the_memory_that_it_states_and_forgets_nothing() {
    let settings = Settings::for_average("gear", 1024).unwrap();
    let table = Table::new(&settings, 2, 200_000);
    let room = 200_000usize.next_multiple_of(1 << 14);
    let mut known = table.with(|bytes: &[u8]| bytes.try_into().unwrap());
    let mut names = Random(3);
    let names: Vec<u128> = (0..250_000)
        .map(|_| u128::from(names.next()) << 64 | u128::from(names.next()))
        .collect();
    for (n, bytes) in names.iter().enumerate() {
        let fingerprint = known.fingerprint(&bytes.to_le_bytes());
        let found = known.enter(fingerprint, None, false);
        assert!(!found.is_duplicate);
        assert_eq!(found.entry.is_some(), n < room, "{n}");
        if let Some(entry) = found.entry {
            known.note(
                entry,
                Hint {
                    size: 1000,
                    marker: 1,
                    at_end: false,
                },
            );
        }
    }
    assert_eq!(table.len(), room);
    let each = table.memory() as f64 / room as f64;
    assert!(each < 16.0 + 6.7 + 2.0 * 3.0 + 0.1, "{each} bytes a chunk");
    for bytes in &names[..room] {
        let fingerprint = known.fingerprint(&bytes.to_le_bytes());
        assert!(known.enter(fingerprint, None, false).is_duplicate);
    }
}

#[test]
fn threads_that_share_a_table_find_what_one_finds() {
    let chunker = chunker("gear", 512);
    let hinted = HintedChunker::new(&chunker, Criterion::WindowAndFingerprint).unwrap();
    let all = versions(0, 11, 300_000, 10);
    let plain: Vec<_> = all.iter().map(|data| ends(&chunker, data)).collect();
    let total: usize = all.iter().map(|data| ends(&chunker, data).len()).sum();
    for _ in 0..5 {
        let table = Table::new(chunker.settings(), 2, 1 << 20);
        let tallies: Vec<Tally> = std::thread::scope(|scope| {
            let threads: Vec<_> = all
                .iter()
                .zip(&plain)
                .map(|(data, expected)| {
                    let (hinted, table) = (&hinted, &table);
                    scope.spawn(move || {
                        let mut found = Vec::new();
                        let tally =
                            hinted.for_each_chunk(&mut table.with(name), data, |chunk| found.push(chunk.bytes.len()));
                        assert_eq!(&found, expected);
                        tally
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut sum = Tally::default();
        tallies.iter().for_each(|tally| sum.add(tally));
        assert_eq!(
            (sum.chunks as usize, table.len()),
            (total, total - sum.duplicates as usize)
        );
    }
}

/// In random data no hint fits.
#[test]
fn random_data_has_nothing_to_follow() {
    let chunker = chunker("gear", 512);
    let hinted = HintedChunker::new(&chunker, Criterion::FastForward).unwrap();
    let table = Table::new(chunker.settings(), 2, 1 << 20);
    let tally = hinted.for_each_chunk(&mut table.with(name), &random(1, 300_000), |_| {});
    assert_eq!((tally.hinted(), tally.refused, tally.duplicates), (0, 0, 0));
}
