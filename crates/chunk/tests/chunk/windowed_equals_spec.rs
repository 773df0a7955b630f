//! Windowed hashes cut where their specification says: every method with every hash, on every
//! length of structured data, with boundaries at every place of lanes and blocks, and with any
//! divisor or mask.

use ibid_chunk::{Backend, Method, RollingHash, WindowedSettings, spec, unlimited};

use crate::data::{KINDS, Random, random, structured};

/// Bytes of a lane of the fast path; four are a block.
fn lane(hash: RollingHash) -> usize {
    match hash {
        RollingHash::Crc32 => 1024,
        _ => 256,
    }
}

fn every_pair() -> impl Iterator<Item = (Method, RollingHash)> {
    Method::ALL
        .into_iter()
        .flat_map(|method| RollingHash::ALL.map(|hash| (method, hash)))
}

/// Returns settings with about one boundary in `distance` bytes, and twice as many with those in
/// reserve.
fn settings(method: Method, hash: RollingHash, size_min: usize, size_max: usize, distance: u32) -> WindowedSettings {
    let mask = |bits: u32| !(u32::MAX >> bits);
    let bits = distance.ilog2();
    let (main, backup) = if method.has_mask() {
        (mask(bits), mask(bits - 1))
    } else {
        (distance, distance / 2)
    };
    WindowedSettings {
        size_min,
        size_average: size_min,
        size_max,
        method,
        hash,
        main,
        backup: if method.has_backup() { backup } else { 0 },
    }
}

/// Returns the cut, which must be the same on all backends that have a form of their own.
#[track_caller]
fn fast(settings: &WindowedSettings, data: &[u8]) -> usize {
    let cut = unlimited::windowed(Backend::scalar(), settings, data);
    let backends: Vec<Backend> = match settings.hash {
        RollingHash::Crc32 => Backend::available().collect(),
        RollingHash::Gear => Backend::from_name("avx512-gather").into_iter().collect(),
        _ => Vec::new(),
    };
    if settings.method.has_mask() {
        for backend in backends {
            assert_eq!(
                unlimited::windowed(backend, settings, data),
                cut,
                "{backend} {settings:?}"
            );
        }
    }
    cut
}

#[track_caller]
fn assert_equal(settings: &WindowedSettings, data: &[u8]) -> usize {
    let fast = fast(settings, data);
    assert_eq!(
        fast,
        spec::windowed(settings, data),
        "{settings:?}, {} bytes",
        data.len()
    );
    fast
}

#[test]
fn every_length_of_structured_data() {
    for (method, hash) in every_pair() {
        let window = hash.window();
        for kind in 0..KINDS {
            let data = structured(kind, 300 + kind as u64, window + 170);
            for (size_min, size_max, distance) in [(window, window + 150, 40), (window + 3, window + 99, 600)] {
                let settings = settings(method, hash, size_min, size_max, distance);
                for len in (0..window - 1).step_by(7).chain(window - 1..=data.len()) {
                    assert_equal(&settings, &data[..len]);
                }
            }
        }
    }
}

/// Divisors so large that boundaries are many lanes apart, and data long enough for blocks.
#[test]
fn every_algorithm_on_long_data() {
    let mut met = 0;
    for (method, hash) in every_pair() {
        let mut source = Random(method as u64 * 10 + hash as u64);
        for round in 0..12 {
            let size_min = hash.window() + source.below(100);
            let size_max = size_min + 2000 + source.below(4000);
            let distance = 1000 + source.below(5000) as u32;
            let settings = settings(method, hash, size_min, size_max, distance);
            let kind = if round < 6 { 0 } else { round % KINDS };
            let data = structured(kind, source.next(), size_max - 300 + source.below(600));
            met += usize::from(assert_equal(&settings, &data) < data.len().min(size_max));
        }
    }
    assert!(met > 100, "{met}");
}

/// Puts a boundary at every place around the borders of steps, lanes and blocks, and a second one
/// after it that another lane meets first.
#[test]
fn a_boundary_anywhere() {
    for hash in RollingHash::ALL {
        let window = hash.window();
        let (lane, block) = (lane(hash), 4 * lane(hash));
        let settings = settings(Method::Tt, hash, window, usize::MAX >> 1, 1_000_003);
        let plenty = random(7, 12 << 20);
        let at = fast(&settings, &plenty);
        let key = &plenty[at - window..at];
        let plain = random(8, window + 2 * block + lane + 100);
        assert_eq!(assert_equal(&settings, &plain), plain.len(), "nothing by chance");
        let borders = (0..=2 * block + lane).step_by(lane);
        let near = borders.flat_map(|border| {
            [
                border.saturating_sub(1),
                border,
                border + 1,
                border + 8,
                border + lane / 2 + 3,
            ]
        });
        for place in near.filter(|place| place + window <= plain.len()) {
            let mut data = plain.clone();
            data[place..place + window].copy_from_slice(key);
            let expected = place + window;
            assert_eq!(fast(&settings, &data), expected, "{hash:?}");
            // The boundary is known as soon as its last byte is there, and not before.
            assert_eq!(fast(&settings, &data[..expected]), expected);
            assert_eq!(fast(&settings, &data[..expected - 1]), expected - 1);
            for later in [lane / 2, lane, 2 * lane - 3, block] {
                let mut data = data.clone();
                let later = place + window.max(later);
                if let Some(into) = data.get_mut(later..later + window) {
                    into.copy_from_slice(key);
                    assert_eq!(fast(&settings, &data), expected, "{hash:?} {later}");
                }
            }
        }
    }
}

/// The same for the vector form of CRC-32: at every place within a head's bytes, and around the
/// borders of the heads' blocks. Another head may meet the second boundary first.
#[test]
fn a_boundary_anywhere_by_crc32() {
    const HEAD: usize = 64;
    let window = RollingHash::Crc32.window();
    let settings = settings(Method::Ott, RollingHash::Crc32, window, usize::MAX >> 1, 1 << 20);
    let plenty = random(7, 12 << 20);
    let at = fast(&settings, &plenty);
    let key = &plenty[at - window..at];
    let plain = random(9, window + 8 * 1024);
    assert_eq!(assert_equal(&settings, &plain), plain.len(), "nothing by chance");
    let borders = (16..=64).map(|heads| heads * HEAD - window);
    let near = borders.flat_map(|border| [border - 1, border, border + 1, 2 * border - 1, 2 * border]);
    for place in (0..HEAD).chain(near).chain((0..7900).step_by(HEAD + 1)) {
        let mut data = plain.clone();
        data[place..place + window].copy_from_slice(key);
        let expected = place + window;
        assert_eq!(fast(&settings, &data), expected, "{place}");
        assert_eq!(fast(&settings, &data[..expected]), expected);
        assert_eq!(fast(&settings, &data[..expected - 1]), expected - 1);
        for later in [window, window + HEAD - 1, 20 * HEAD - 13] {
            let mut data = data.clone();
            if let Some(into) = data.get_mut(place + later..place + later + window) {
                into.copy_from_slice(key);
                assert_eq!(fast(&settings, &data), expected, "{place} {later}");
            }
        }
    }
}

/// The same for the vector form of Gear.
#[test]
fn a_boundary_anywhere_by_gear() {
    const HEAD: usize = 256;
    let window = RollingHash::Gear.window();
    let settings = settings(Method::Ott, RollingHash::Gear, window, usize::MAX >> 1, 1 << 20);
    let plenty = random(7, 12 << 20);
    let at = fast(&settings, &plenty);
    let key = &plenty[at - window..at];
    let plain = random(9, window + 20 * HEAD);
    assert_eq!(assert_equal(&settings, &plain), plain.len(), "nothing by chance");
    let borders = (1..20).map(|heads| heads * HEAD);
    let near = borders.flat_map(|border| (border - 9..=border + 9).chain([border - window]));
    for place in (0..HEAD).chain(near) {
        let mut data = plain.clone();
        data[place..place + window].copy_from_slice(key);
        let expected = place + window;
        assert_eq!(fast(&settings, &data), expected, "{place}");
        assert_eq!(fast(&settings, &data[..expected]), expected);
        assert_eq!(fast(&settings, &data[..expected - 1]), expected - 1);
        for later in [window, HEAD - 13, HEAD, 5 * HEAD - 100] {
            let mut data = data.clone();
            if let Some(into) = data.get_mut(place + later..place + later + window) {
                into.copy_from_slice(key);
                assert_eq!(fast(&settings, &data), expected, "{place} {later}");
            }
        }
    }
}

/// The same for the loop that Gear uses if a mask leaves the highest eight bits out, which has
/// blocks of its own. The masks depend on few bytes or on many.
#[test]
fn gear_with_masks_of_lower_bits() {
    let mut source = Random(31);
    let mut met = 0;
    for round in 0..800 {
        let method = [Method::Obsw, Method::Ott, Method::Otd, Method::Otttd][round % 4];
        let bits = 4 + source.below(9) as u32;
        let mask = |bits: u32, shift: usize| !(u32::MAX >> bits) >> 8 >> shift;
        let shift = source.below(25 - bits as usize);
        let size_min = 64 + source.below(500);
        let settings = WindowedSettings {
            main: mask(bits, shift),
            backup: if method.has_backup() { mask(bits - 1, shift) } else { 0 },
            ..settings(
                method,
                RollingHash::Gear,
                size_min,
                size_min + 1000 + source.below(5000),
                64,
            )
        };
        let data = structured(round % 3 * 3, source.next(), source.below(8000));
        met += usize::from(assert_equal(&settings, &data) > size_min + 1024);
    }
    assert!(met > 100, "boundaries in later blocks: {met}");
}

#[test]
fn any_divisors_and_masks() {
    let mut source = Random(23);
    for round in 0..1500 {
        let method = Method::ALL[source.below(8)];
        let hash = RollingHash::ALL[source.below(6)];
        let size_min = hash.window() + source.below(60);
        let size_max = size_min + source.below(600);
        let number = |source: &mut Random| 2 + (source.next() as u32 >> (8 + source.below(22)));
        let settings = WindowedSettings {
            main: number(&mut source),
            backup: if method.has_backup() { number(&mut source) } else { 0 },
            ..settings(method, hash, size_min, size_max, 64)
        };
        let data = structured(round % KINDS, source.next(), source.below(size_max + 50));
        assert_equal(&settings, &data);
    }
}

/// Only a chunk at the maximum uses a place in reserve: the last one.
#[test]
fn the_last_place_in_reserve_ends_a_chunk_at_the_maximum() {
    for hash in RollingHash::ALL {
        for method in [Method::Td, Method::Tttd, Method::Otd, Method::Otttd] {
            let size_min = hash.window();
            let size_max = size_min + 3000;
            let with = WindowedSettings {
                main: if method.has_mask() { u32::MAX } else { 1 << 24 },
                ..settings(method, hash, size_min, size_max, 400)
            };
            let data = random(hash as u64, size_max);
            let cut = assert_equal(&with, &data);
            assert!((size_max - 2500..size_max).contains(&cut), "{with:?}: {cut}");
            assert_eq!(assert_equal(&with, &data[..size_max - 1]), size_max - 1, "undecided");
        }
    }
}
