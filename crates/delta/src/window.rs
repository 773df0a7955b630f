//! Stretches of 32 bytes that are looked for elsewhere, by a hash.

/// Bytes that have to agree with another place for it to be found by them.
pub(crate) const FOUND_BY: usize = 32;

/// A hash of the bytes of a window, all of whose bits may be used.
#[inline(always)]
pub(crate) fn hash(window: &[u8; FOUND_BY]) -> u64 {
    const KEYS: [u64; 4] = [
        0x6a09_e667_f3bc_c909,
        0xbb67_ae85_84ca_a73b,
        0x3c6e_f372_fe94_f82b,
        0xa54f_f53a_5f1d_36f1,
    ];
    let (words, _) = window.as_chunks::<8>();
    let keyed = |number: usize| u64::from_le_bytes(words[number]) ^ KEYS[number];
    let folded = |first: usize| {
        let product = u128::from(keyed(first)) * u128::from(keyed(first + 1));
        (product >> 64) as u64 ^ product as u64
    };
    folded(0) ^ folded(2).rotate_left(23)
}
