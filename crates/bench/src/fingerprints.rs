//! A set of chunk fingerprints.

/// The largest share of a table's slots that is used, as a fraction.
const FULL: (usize, usize) = (7, 8);
const SLOTS_FIRST: usize = 1 << 10;

/// A set of fingerprints of 64 bits: the first eight bytes of a chunk's BLAKE3.
///
/// It takes at most 14 bytes for each fingerprint in it (beyond the first few), and 23 for the
/// moment in which it grows. Two different chunks among `n` pass for equal with a probability of
/// about `n`²/2⁶⁵: one in 10 000 for 60 million.
#[derive(Clone, Debug)]
pub(crate) struct Fingerprints {
    /// Fingerprints in ascending order, except for collisions; 0 is a free slot.
    slots: Vec<u64>,
    used: usize,
}

impl Fingerprints {
    pub(crate) fn new() -> Fingerprints {
        Fingerprints {
            slots: vec![0; SLOTS_FIRST],
            used: 0,
        }
    }

    /// Inserts a chunk's fingerprint, and returns whether it was new.
    pub(crate) fn insert(&mut self, fingerprint: &blake3::Hash) -> bool {
        let (first, _) = fingerprint.as_bytes().split_first_chunk().expect("a hash has 32 bytes");
        // 0 marks a free slot, so this fingerprint becomes 1.
        let value = u64::from_le_bytes(*first).max(1);
        if (self.used + 1) * FULL.1 > self.slots.len() * FULL.0 {
            self.grow();
        }
        let is_new = insert(&mut self.slots, value);
        self.used += usize::from(is_new);
        is_new
    }

    pub(crate) fn len(&self) -> u64 {
        self.used as u64
    }

    fn grow(&mut self) {
        let mut slots = vec![0; self.slots.len() / 2 * 3];
        for value in self.slots.iter().filter(|value| **value != 0) {
            insert(&mut slots, *value);
        }
        self.slots = slots;
    }
}

fn insert(slots: &mut [u64], value: u64) -> bool {
    // Fingerprints are uniform, so a fingerprint's slot is proportional to it.
    let mut at = ((u128::from(value) * slots.len() as u128) >> 64) as usize;
    loop {
        match slots[at] {
            0 => {
                slots[at] = value;
                return true;
            }
            found if found == value => return false,
            _ => at = if at + 1 == slots.len() { 0 } else { at + 1 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_inserted_entries_are_in_it_and_memory_is_as_stated() {
        let mut set = Fingerprints::new();
        for n in 0..100_000u32 {
            assert!(set.insert(&blake3::hash(&n.to_le_bytes())), "{n}");
            let bytes = set.slots.len() * 8;
            assert!(n < 1000 || bytes <= 14 * (n as usize + 1), "{bytes} for {n}");
        }
        for n in 0..100_000u32 {
            assert!(!set.insert(&blake3::hash(&n.to_le_bytes())), "{n}");
        }
        assert_eq!(set.len(), 100_000);
    }

    #[test]
    fn the_ends_of_the_table_hold_what_belongs_there() {
        let mut set = Fingerprints::new();
        let hash = |first: u64| {
            let mut bytes = [7; 32];
            bytes[..8].copy_from_slice(&first.to_le_bytes());
            blake3::Hash::from_bytes(bytes)
        };
        let last = [u64::MAX, u64::MAX - 1, u64::MAX - 2, 0];
        assert!(last.iter().all(|value| set.insert(&hash(*value))));
        assert!(last.iter().all(|value| !set.insert(&hash(*value))));
        assert_eq!(set.len(), 4);
    }
}
