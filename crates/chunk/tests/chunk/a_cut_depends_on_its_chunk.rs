//! A cut depends on the bytes of its chunk (and the look-ahead stated for the algorithm) and on
//! nothing after them; sizes stay within their bounds; together the chunks are the data.

use ibid_chunk::{Chunker, NAMES, Settings, chunks};
use proptest::prelude::*;

use crate::data::{KINDS, Random, random, structured};

/// The algorithms that cut by content.
fn content_defined() -> Vec<&'static str> {
    NAMES.into_iter().filter(|name| *name != "fixed").collect()
}

fn chunker(name: &str, average: usize) -> Chunker {
    Chunker::new(&Settings::for_average(name, crate::data::at_least(name, average)).unwrap()).unwrap()
}

proptest! {
    #[test]
    fn bytes_after_the_cut_change_nothing(
        name in prop::sample::select(&NAMES[..]), average in 256usize..3000,
        kind in 0..KINDS, seed: u64, other_kind in 0..KINDS, more in 0usize..5000,
    ) {
        let chunker = chunker(name, average);
        let mut data = structured(kind, seed, chunker.size_max() + more);
        let len = chunker.cut(&data);
        let decided = (len + chunker.settings().lookahead()).min(chunker.size_max());

        let other = structured(other_kind, !seed, data.len() - decided);
        data[decided..].copy_from_slice(&other);
        prop_assert_eq!(chunker.cut(&data), len, "other bytes after it");
        data.truncate(chunker.size_max());
        prop_assert_eq!(chunker.cut(&data), len, "no bytes past the maximum");
    }

    #[test]
    fn sizes_stay_within_their_bounds(
        name in prop::sample::select(&NAMES[..]), average in 256usize..3000,
        kind in 0..KINDS, seed: u64, len in 0usize..30_000,
    ) {
        let chunker = chunker(name, average);
        let settings = chunker.settings();
        let data = structured(kind, seed, len);
        let found: Vec<&[u8]> = chunks(&chunker, &data).collect();
        prop_assert_eq!(&found.concat(), &data);
        for (at, chunk) in found.iter().enumerate() {
            prop_assert!(!chunk.is_empty() && chunk.len() <= settings.size_max());
            prop_assert!(chunk.len() >= settings.size_min() || at + 1 == found.len());
        }
        let (least, most) = chunks(&chunker, &data).size_hint();
        prop_assert!((least..=most.unwrap()).contains(&found.len()));
    }

    /// Two inputs with a common rest are soon cut in the same places, which deduplication relies
    /// on.
    #[test]
    fn cuts_find_each_other_again_after_an_insertion(
        name in prop::sample::select(content_defined()), seed: u64, inserted in 1usize..100,
    ) {
        let chunker = chunker(name, 512);
        let data = random(seed, 200_000);
        let mut edited = random(!seed, inserted);
        edited.extend_from_slice(&data);
        let ends = |data: &[u8]| -> Vec<usize> {
            let mut left = data.len();
            chunks(&chunker, data).map(|chunk| { left -= chunk.len(); left }).collect()
        };
        let (before, after) = (ends(&data), ends(&edited));
        let shared = before.iter().rev().zip(after.iter().rev()).take_while(|(a, b)| a == b).count();
        prop_assert!(shared > before.len() / 2, "{shared} of {}", before.len());
    }
}

/// Argmin compares all places up to the maximum: the bytes there can move the cut, and without them
/// there is no cut.
#[test]
fn the_lookahead_of_argmin_is_needed() {
    for name in ["argmin", "argmin8"] {
        let chunker = chunker(name, 300);
        let mut data = random(4, chunker.size_max());
        let len = chunker.cut(&data);
        let last = data.len() - 4;
        let moved = (0..10_000).any(|seed| {
            data[last..].copy_from_slice(&random(seed, 4));
            chunker.cut(&data) != len
        });
        assert!(len < last && moved, "{name}");
        data.pop();
        assert_eq!(chunker.cut(&data), data.len(), "undecided without the last");
    }
}

/// FastCDC's deciding byte is the first of the next chunk: without the look-ahead the promise
/// would not hold.
#[test]
fn the_lookahead_of_fastcdc_is_needed() {
    let chunker = chunker("fastcdc", 1024);
    let mut source = Random(3);
    let mut moved = 0;
    for _ in 0..100 {
        let mut data = random(source.next(), chunker.size_max());
        let len = chunker.cut(&data);
        if len < data.len() {
            data[len] ^= 0x55;
            moved += usize::from(chunker.cut(&data) != len);
        }
    }
    assert!(moved > 50, "{moved}");
}
