//! The trees in the fixtures.

/// Password of the encrypted fixtures.
pub(crate) const PASSWORD: &[u8] = b"a password for the fixture";

/// Returns bytes without repetitions: SplitMix64.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        bytes.extend_from_slice(&(z ^ z >> 31).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Returns version `n` of the tree: names and bytes.
pub(crate) fn tree(n: u64) -> Vec<(&'static str, Vec<u8>)> {
    let mut dump = noise(5, 90_000);
    dump[40_000..40_100].copy_from_slice(&noise(n, 100));
    vec![
        ("dump", dump),
        ("empty", Vec::new()),
        ("letters/anna", format!("letter {n}\n").repeat(3000).into_bytes()),
        ("letters/bob", b"the same in both".to_vec()),
    ]
}
