//! Random numbers that can be repeated.

/// The splitmix64 sequence: adds the golden ratio, then mixes. It is fast, and the same on every
/// machine and in every release. It is not suitable for secrets.
///
/// ```
/// use ibid_bench::Random;
///
/// assert_eq!(Random::new(1).bytes(100), Random::new(1).bytes(100));
/// assert_ne!(Random::new(1).bytes(100), Random::new(2).bytes(100));
/// ```
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Returns the sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the `n`-th of several independent sequences of one seed.
    #[must_use]
    pub fn stream(seed: u64, n: u64) -> Random {
        // `n` is mixed in, not added: neighbouring seeds would give the same sequence, shifted by a
        // few numbers.
        Random(Random(Random(seed).number() ^ n).number())
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns the next number, scaled to below `limit` by multiplication; 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(limit)) >> 64) as u64
    }

    /// Fills `bytes` with numbers, eight bytes each, least significant first. The last number is
    /// truncated if fewer than eight bytes are left.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.number().to_le_bytes()[..piece.len()]);
        }
    }

    /// Returns `length` bytes, as [`Random::fill`] makes them.
    #[must_use]
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.fill(&mut bytes);
        bytes
    }
}
