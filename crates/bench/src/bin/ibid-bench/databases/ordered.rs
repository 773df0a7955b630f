//! Keys of an engine that orders bytes and knows no columns: the versions of a key are neighbours, the
//! latest first, so that one seek forward finds it.

/// Returns the bytes that the places of all versions of a key begin with, and no others.
pub(crate) fn prefix(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 6);
    for &byte in key {
        out.push(byte);
        // A zero within the key is told from its end.
        if byte == 0 {
            out.push(u8::MAX);
        }
    }
    out.extend([0, 0]);
    out
}

/// Returns the place of a version.
pub(crate) fn place(key: &[u8], version: u32) -> Vec<u8> {
    let mut out = prefix(key);
    out.extend((u32::MAX - version).to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_of_a_key_are_neighbours_and_the_latest_is_first() {
        let keys: [&[u8]; 7] = [b"", b"\0", b"\0\0", b"\0\xff", b"a", b"a\0", b"a/1"];
        let versions = [u32::MAX, 256, 255, 1];
        let places: Vec<_> = keys
            .iter()
            .flat_map(|key| versions.map(|version| place(key, version)))
            .collect();
        assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
        for (at, place) in places.iter().enumerate() {
            let begin: Vec<_> = keys.iter().map(|key| place.starts_with(&prefix(key))).collect();
            let mut expected = [false; 7];
            expected[at / versions.len()] = true;
            assert_eq!(begin, expected, "{place:?}");
        }
    }
}
