//! The golden vectors: unusual settings, inputs by the rules of `data`, and the lengths of the
//! chunks, one line each:
//!
//! `<number> <words,...> <kind> <seed> <bytes>: <length> <length> ...`
//!
//! The input is `data::structured(kind, seed, bytes)`.

use std::fmt::Write as _;

use ibid_chunk::Settings;

use super::data;

/// Number and words of unusual settings: odd, equal or extreme sizes.
const SETTINGS: [(u16, &[u32]); 47] = [
    (1, &[64]),
    (1, &[4097]),
    // Normalisations; an average between powers of two, on either side of the rounding.
    (2, &[64, 256, 1024, 0]),
    (2, &[64, 362, 1024, 3]),
    (2, &[64, 364, 1024, 3]),
    (2, &[1000, 1000, 1024, 1]),
    (2, &[1022, 3000, 3000, 2]),
    (2, &[2048, 8192, 65_536, 2]),
    // As published for 4 KiB; both modes, both readings of equals; every size the same.
    (3, &[1024, 4096, 8192, 0, 0, 5, 55, 256]),
    (3, &[1024, 4096, 8192, 0, 1, 5, 55, 256]),
    (3, &[1024, 4096, 8192, 1, 0, 5, 55, 256]),
    (3, &[777, 777, 777, 0, 0, 5, 50, 256]),
    // Without skips; a skip after every opposing pair; a sequence across many blocks.
    (3, &[65, 500, 3001, 1, 1, 4, 0, 0]),
    (3, &[64, 129, 1021, 0, 0, 1, 1, 1]),
    (3, &[64, 1000, 5003, 0, 0, 20, 64, 63]),
    // The least windows and radii; odd ones; minimum, average and maximum the same; both extrema.
    (4, &[63, 300, 1200, 0]),
    (4, &[63, 64, 64, 1]),
    (4, &[777, 1001, 3003, 1]),
    (4, &[1000, 1001, 1001, 0]),
    (5, &[63, 64, 65]),
    (5, &[501, 777, 5001]),
    (5, &[4095, 4096, 4096]),
    (6, &[32, 65, 129]),
    (6, &[101, 701, 2803]),
    (6, &[500, 1001, 1001]),
    (7, &[64, 64, 65, 4]),
    (7, &[333, 1001, 1669, 4]),
    (7, &[333, 1001, 1669, 8]),
    (7, &[777, 777, 777, 8]),
    // Every hash; divisors, odd ones and the least; masks of neither the highest nor neighbouring bits.
    (8, &[64, 700, 5003, 0, 0, 701, 0]),
    (8, &[64, 64, 64, 1, 0, 2, 0]),
    (8, &[460, 1000, 2800, 3, 0, 540, 270]),
    (8, &[77, 999, 3001, 7, 0, 0x8010_0401, 0x8000_0001]),
    (8, &[64, 1000, 9001, 2, 1, 1001, 77]),
    (8, &[99, 555, 1234, 5, 1, 0x0a50_0000, 0]),
    (8, &[64, 1000, 2801, 6, 1, 0xffc0_0000, 0xff80_0000]),
    (8, &[333, 1001, 3003, 1, 2, 640, 0]),
    (8, &[64, 700, 1500, 6, 2, 0x0000_00ff, 0x0000_007e]),
    (8, &[64, 700, 5003, 4, 2, 0x1248_0000, 0]),
    (8, &[65, 700, 1501, 3, 2, 911, 301]),
    (8, &[512, 1024, 4096, 5, 3, 0x0000_01ff, 0]),
    (8, &[501, 1001, 2001, 3, 3, 1009, 1008]),
    (8, &[64, 1000, 16_000, 0, 3, 1000, 0]),
    (8, &[256, 1000, 2003, 7, 4, 0xfffc_0000, 0x0003_0000]),
    (8, &[300, 1001, 2999, 1, 4, 1021, 0]),
    (8, &[500, 1000, 4001, 5, 5, 0xff80_0000, 0]),
    (8, &[64, 1000, 2801, 2, 5, 1000, 500]),
];

const BYTES: usize = 20_011;

/// The golden vectors, with every chunk cut by `cut`.
pub(crate) fn vectors(cut: impl Fn(&Settings, &[u8]) -> usize) -> String {
    let mut text = String::new();
    for (number, words) in SETTINGS {
        let settings = Settings::from_words(number, words).expect("golden settings are valid");
        let listed: Vec<String> = words.iter().map(u32::to_string).collect();
        for kind in 0..data::KINDS {
            let seed = u64::from(number) * 100 + kind as u64;
            let input = data::structured(kind, seed, BYTES);
            write!(text, "{number} {} {kind} {seed} {BYTES}:", listed.join(",")).expect("a string takes all");
            let mut rest = &input[..];
            while !rest.is_empty() {
                let len = cut(&settings, rest);
                write!(text, " {len}").expect("a string takes all");
                rest = &rest[len..];
            }
            text.push('\n');
        }
    }
    text
}
