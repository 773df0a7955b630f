//! Several threads cut where one does, wherever their segments begin.

use std::convert::Infallible;
use std::num::NonZeroUsize;

use ibid_chunk::{Chunker, NAMES, Settings, chunks, for_each_chunk, unlimited};
use proptest::prelude::*;

use crate::data::{KINDS, random, structured};

fn chunker(name: &str, average: usize) -> Chunker {
    Chunker::new(&Settings::for_average(name, crate::data::at_least(name, average)).unwrap()).unwrap()
}

fn whole<'a>(chunker: &'a Chunker, data: &'a [u8]) -> Vec<&'a [u8]> {
    chunks(chunker, data).collect()
}

fn by_threads<'a>(chunker: &Chunker, data: &'a [u8], threads: usize, segment: usize) -> Vec<&'a [u8]> {
    let threads = NonZeroUsize::new(threads).unwrap();
    let mut found = Vec::new();
    let take = |chunk| {
        found.push(chunk);
        Ok::<(), Infallible>(())
    };
    unlimited::for_each_chunk(chunker, data, threads, segment, take).unwrap();
    found
}

/// Compares the slices by address too, not only by their bytes.
#[track_caller]
fn assert_same(found: &[&[u8]], expected: &[&[u8]], what: &dyn std::fmt::Debug) {
    let places = |chunks: &[&[u8]]| chunks.iter().map(|chunk| chunk.as_ptr_range()).collect::<Vec<_>>();
    assert!(places(found) == places(expected), "{what:?}");
}

#[test]
fn segments_that_begin_anywhere() {
    for name in NAMES {
        let chunker = chunker(name, 300);
        let data = random(2, 12_000);
        let expected = whole(&chunker, &data);
        for segment in (60..13_000).step_by(619) {
            assert_same(&by_threads(&chunker, &data, 2, segment), &expected, &(name, segment));
        }
    }
}

/// Segments far shorter than chunks, which then span many of them.
#[test]
fn segments_of_a_few_bytes() {
    for name in ["seqcdc", "fastcdc", "argmin", "gear"] {
        let chunker = chunker(name, 300);
        let data = random(2, 3000);
        let expected = whole(&chunker, &data);
        for segment in 1..100 {
            assert_same(&by_threads(&chunker, &data, 2, segment), &expected, &(name, segment));
        }
    }
}

/// The boundaries never meet, because no segment starts at a true boundary.
#[test]
fn data_whose_boundaries_never_meet() {
    for name in NAMES {
        let chunker = chunker(name, 300);
        for data in [vec![0; 50_000], vec![255; 50_000], random(3, 37).repeat(1300)] {
            for segment in [777, 4096, 30_001] {
                assert_same(
                    &by_threads(&chunker, &data, 3, segment),
                    &whole(&chunker, &data),
                    &(name, segment),
                );
            }
        }
    }
}

#[test]
fn data_long_enough_to_be_shared_out() {
    for name in ["fastcdc", "seqcdc", "fixed", "argmin", "tttd"] {
        let chunker = chunker(name, 1000);
        let data = random(5, (7 << 20) + 333);
        for threads in [1, 2, 5, usize::MAX] {
            let mut found = Vec::new();
            let take = |chunk| {
                found.push(chunk);
                Ok::<(), Infallible>(())
            };
            for_each_chunk(&chunker, &data, NonZeroUsize::new(threads).unwrap(), take).unwrap();
            assert_same(&found, &whole(&chunker, &data), &(name, threads));
        }
    }
}

#[test]
fn an_error_ends_it_at_once() {
    let chunker = chunker("fastcdc", 300);
    let data = random(6, 200_000);
    let count = whole(&chunker, &data).len();
    for most in [0, 1, count / 2, count - 1] {
        let mut taken = 0;
        let take = |_: &[u8]| {
            if taken == most {
                return Err("enough");
            }
            taken += 1;
            Ok(())
        };
        let result = unlimited::for_each_chunk(&chunker, &data, NonZeroUsize::new(2).unwrap(), 10_000, take);
        assert_eq!((result, taken), (Err("enough"), most));
    }
}

#[test]
fn no_data_has_no_chunks() {
    for name in NAMES {
        assert!(by_threads(&chunker(name, 300), &[], 2, 100).is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_data_and_segments(
        settings in prop_oneof![crate::data::any_hashless(), crate::data::any_windowed()],
        kind in 0..KINDS, seed: u64, len in 0usize..60_000,
        threads in 1usize..5, segment in prop_oneof![100usize..3000, 100usize..60_000],
    ) {
        let chunker = Chunker::new(&settings).unwrap();
        let data = structured(kind, seed, len);
        assert_same(&by_threads(&chunker, &data, threads, segment), &whole(&chunker, &data), &settings);
    }
}
