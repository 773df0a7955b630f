//! Any data by any algorithm with any settings: every backend cuts where the specification says,
//! threads cut in the same places, and a cut before the end of the data is final.

#![no_main]

use std::convert::Infallible;
use std::num::NonZeroUsize;

use ibid_chunk::{Backend, Chunker, Method, RollingHash, Settings, chunks, spec, unlimited};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, [u16; 8], u16, &[u8])| {
    let (number, numbers, known, data) = input;
    let Ok(settings) = settings(1 + number % 8, numbers) else {
        return;
    };
    let mut expected = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(spec::cut(&settings, rest));
        expected.push(chunk);
        rest = after;
    }

    for backend in Backend::available().chain(Backend::from_name("avx512-gather")) {
        let chunker = Chunker::with_backend(&settings, backend).expect("valid settings");
        assert!(
            chunks(&chunker, data).eq(expected.iter().copied()),
            "{settings:?} {backend:?}"
        );

        let known = &data[..usize::from(known).min(data.len())];
        let early = chunker.cut(known);
        assert!(
            early == known.len() || early == expected[0].len(),
            "{settings:?} {backend:?}"
        );
    }

    let chunker = Chunker::new(&settings).expect("valid settings");
    let mut found = Vec::new();
    let note = |chunk| {
        found.push(chunk);
        Ok::<(), Infallible>(())
    };
    let segment = 1 + usize::from(known);
    if data.len() / segment < 20 {
        let Ok(()) = unlimited::for_each_chunk(&chunker, data, NonZeroUsize::MIN, segment, note);
        assert_eq!(found, expected, "{settings:?} {segment}");
    }
});

/// Settings of every algorithm with sizes so small that a fuzzer's inputs have many chunks.
fn settings(number: u8, numbers: [u16; 8]) -> Result<Settings, ibid_chunk::SettingsError> {
    let [first, second, third, kind, more, a, b, c] = numbers.map(u32::from);
    let size_min = 64 + first % 300;
    let size_average = size_min + second % 500;
    let size_max = size_average + third % 1500;
    let sizes = [size_min, size_average, size_max];
    let words = match number {
        1 => vec![size_min],
        2 => {
            let [min, average, max] = sizes.map(|size| size & !1);
            let average = average.max(256);
            vec![min, average, max.max(average).max(1024), kind % 4]
        }
        3 => {
            let skip = if c % 3 == 0 { [0, 0] } else { [1 + a % 60, 1 + b % 400] };
            let length = if c % 5 == 0 { 1 + more % 63 } else { 1 + more % 6 };
            [&sizes[..], &[kind % 2, kind / 2 % 2, length], &skip].concat()
        }
        4 => vec![size_min - 1, size_average, size_max, kind % 2],
        5 => vec![size_min - 1, size_average, size_max],
        6 => vec![size_min / 2, size_average + 1, size_max + 1],
        7 => [&sizes[..], &[4 + 4 * (kind % 2)]].concat(),
        _ => {
            let method = Method::ALL[kind as usize % 8];
            let hash = RollingHash::ALL[more as usize % 6];
            let least = hash.window().max(64) as u32;
            let size_min = if method.has_minimum() {
                size_min.max(least)
            } else {
                least
            };
            let size_average = size_average.max(size_min);
            let (main, backup) = if method.has_mask() {
                (a << 16 | b, b & c)
            } else {
                (a, b)
            };
            let backup = if method.has_backup() { backup } else { 0 };
            let size_max = size_max.max(size_average);
            vec![size_min, size_average, size_max, kind % 8, more % 6, main, backup]
        }
    };
    Settings::from_words(number.into(), &words)
}
