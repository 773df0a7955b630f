//! Randomness that can be repeated.

/// The splitmix64 sequence: adds the golden ratio, then mixes. Fast, and the same on every machine
/// for ever; of no use to keep secrets.
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
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The `n`-th of several sequences of one seed that have nothing to do with one another.
    #[must_use]
    pub fn stream(seed: u64, n: u64) -> Random {
        // Mixed, not added: neighbouring seeds would be the same sequence, a few numbers on.
        Random(Random(Random(seed).number() ^ n).number())
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number, brought below `limit` by multiplication; 0 if that is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(limit)) >> 64) as u64
    }

    /// Fills with numbers, eight bytes each, least significant first. The last is cut short where
    /// eight bytes do not fit.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.number().to_le_bytes()[..piece.len()]);
        }
    }

    /// So many bytes, as [`Random::fill`] makes them.
    #[must_use]
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.fill(&mut bytes);
        bytes
    }
}
