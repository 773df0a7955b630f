//! Algorithms by name.

use crate::{Method, RollingHash};

macro_rules! with_every_hash {
    ($($method:literal)*) => {
        [$([
            concat!($method, "/rabin-karp"),
            concat!($method, "/cyclic"),
            concat!($method, "/rsync"),
            concat!($method, "/rabin"),
            concat!($method, "/crc32"),
            concat!($method, "/gear"),
        ]),*]
    };
}

/// Method and hash, in the orders of [`Method::ALL`] and [`RollingHash::ALL`].
const LONG: [[&str; 6]; 8] = with_every_hash!("bsw" "tt" "td" "tttd" "obsw" "ott" "otd" "otttd");

/// The usual pairs have short names.
const SHORT: [(&str, Method, RollingHash); 4] = [
    ("rabin", Method::Ott, RollingHash::Rabin),
    ("crc32", Method::Ott, RollingHash::Crc32),
    ("gear", Method::Ott, RollingHash::Gear),
    ("tttd", Method::Tttd, RollingHash::Rabin),
];

const OTHERS: [&str; 9] = [
    "fixed", "fastcdc", "seqcdc", "ae", "ae-min", "ram", "maxp", "argmin", "argmin8",
];

/// The names of all algorithms, as [`Settings::for_average`](crate::Settings::for_average) takes
/// them and [`Settings::name`](crate::Settings::name) gives them.
///
/// Windowed hashes are named by method and hash, such as `tttd/rabin-karp` or `obsw/cyclic`.
/// `rabin`, `crc32`, `gear` and `tttd` are short for `ott/rabin`, `ott/crc32`, `ott/gear` and
/// `tttd/rabin`, which are also accepted.
pub const NAMES: [&str; 57] = names();

const fn names() -> [&'static str; 57] {
    let mut names = [""; 57];
    let mut at = 0;
    while at < names.len() {
        names[at] = if at < OTHERS.len() {
            OTHERS[at]
        } else {
            let number = at - OTHERS.len();
            windowed(Method::ALL[number / 6], RollingHash::ALL[number % 6])
        };
        at += 1;
    }
    names
}

/// Returns the name of a method with a hash.
pub(crate) const fn windowed(method: Method, hash: RollingHash) -> &'static str {
    let mut at = 0;
    while at < SHORT.len() {
        let (name, short_method, short_hash) = SHORT[at];
        if short_method as usize == method as usize && short_hash as usize == hash as usize {
            return name;
        }
        at += 1;
    }
    LONG[method as usize][hash as usize]
}

/// Returns the method and hash of a name, long or short.
pub(crate) fn find_windowed(name: &str) -> Option<(Method, RollingHash)> {
    let short = SHORT.iter().find(|(short, ..)| *short == name);
    short.map(|(_, method, hash)| (*method, *hash)).or_else(|| {
        let pairs = Method::ALL
            .into_iter()
            .flat_map(|method| RollingHash::ALL.map(|hash| (method, hash)));
        pairs
            .into_iter()
            .find(|(method, hash)| LONG[*method as usize][*hash as usize] == name)
    })
}
