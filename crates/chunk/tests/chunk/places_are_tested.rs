//! The test of a single place is the algorithm's own condition: the end of a chunk passes it, and
//! no place before it does.

use ibid_chunk::{Backend, Chunker, NAMES, Settings, spec};
use proptest::prelude::*;

use crate::data::{KINDS, structured};

fn chunker(name: &str, average: usize) -> Chunker {
    Chunker::new(&Settings::for_average(name, crate::data::at_least(name, average)).unwrap()).unwrap()
}

proptest! {
    #[test]
    fn a_cut_passes_and_no_place_before_it_does(
        name in prop::sample::select(&NAMES[..]), average in 256usize..3000, kind in 0..KINDS, seed: u64,
    ) {
        let chunker = chunker(name, average);
        let (settings, most) = (chunker.settings(), chunker.size_max());
        let data = structured(kind, seed, most + 100);
        let cut = chunker.cut(&data);
        if !settings.tests_places() {
            prop_assert!((0..=data.len()).all(|len| !chunker.fits_at(&data, len)));
            prop_assert_eq!(spec::fits_at(settings, &data, cut), None);
            return Ok(());
        }
        prop_assert!(chunker.fits_at(&data, cut), "{cut}");
        // SeqCDC may skip places that fit.
        let has_skips = matches!(settings, Settings::SeqCdc(s) if s.skip_size > 0);
        let first = (0..cut).find(|len| chunker.fits_at(&data, *len));
        prop_assert!(has_skips || first.is_none(), "{first:?} fits, cut at {cut}");
        prop_assert!(!chunker.fits_at(&data, most + 1), "past the maximum");
        prop_assert!(!chunker.fits_at(&data[..cut - 1], cut), "past the data");
    }

    #[test]
    fn the_fast_test_is_the_one_specified(
        name in prop::sample::select(&NAMES[..]), average in 256usize..2000, kind in 0..KINDS, seed: u64,
    ) {
        let settings = Settings::for_average(name, crate::data::at_least(name, average)).unwrap();
        let data = structured(kind, seed, settings.size_max() + 10);
        for backend in Backend::available() {
            let chunker = Chunker::with_backend(&settings, backend).unwrap();
            for len in 0..=data.len() {
                let expected = spec::fits_at(&settings, &data, len).unwrap_or(false);
                prop_assert_eq!(chunker.fits_at(&data, len), expected, "{} at {}", name, len);
            }
        }
    }
}

/// Compares the windows of rolling hashes wherever places fit: a test that hardly any place passes
/// proves little.
#[test]
fn places_that_fit_are_common_enough_to_be_compared() {
    for name in NAMES {
        let chunker = chunker(name, 300);
        let data = crate::data::random(1, 200_000);
        let most = chunker.size_max();
        let fits = |start: usize| (0..most).filter(|len| chunker.fits_at(&data[start..], *len)).count();
        let found: usize = (0..100).map(|n| fits(n * 300)).sum();
        let expected = chunker.settings().tests_places() && name != "fixed";
        assert!(!expected || found > 20, "{name}: {found}");
    }
}
