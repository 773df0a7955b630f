//! Windows of 32 bytes, found in other data by a hash.

/// Length of a window, bytes.
pub(crate) const FOUND_BY: usize = 32;

/// Returns a hash of a window. All of its bits are good to use.
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
