//! Histograms of records by size, with the bytes that are stored of them.

/// Classes between a power of two and the next.
const PER_OCTAVE: usize = 8;

/// A histogram of records by the size of their bodies. A class is an eighth of a power of two wide,
/// or a single size below eight bytes (compare dDedup, figure 6).
///
/// ```
/// assert_eq!(ibid_record::BodySizes::default().classes().count(), 0);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BodySizes {
    /// Records, bytes of their bodies, and bytes stored, by class.
    counts: Vec<(u64, u64, u64)>,
}

/// Records of about the same size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeClass {
    /// The smallest size of the class, bytes.
    pub from: u64,
    /// The largest size of the class, bytes.
    pub to: u64,
    /// How many records there are.
    pub records: u64,
    /// The bytes of their bodies.
    pub body_bytes: u64,
    /// The bytes that are stored of them, whole or as deltas, before compression.
    pub stored_bytes: u64,
}

impl BodySizes {
    pub(super) fn add(&mut self, body_bytes: u64, stored_bytes: u64) {
        let class = class_of(body_bytes);
        if self.counts.len() <= class {
            self.counts.resize(class + 1, (0, 0, 0));
        }
        let (records, bodies, stored) = &mut self.counts[class];
        *records += 1;
        *bodies += body_bytes;
        *stored += stored_bytes;
    }

    /// Returns the classes that have records, smallest first.
    pub fn classes(&self) -> impl Iterator<Item = SizeClass> + '_ {
        let class = |(class, &(records, body_bytes, stored_bytes))| SizeClass {
            from: from_of(class),
            to: from_of(class + 1) - 1,
            records,
            body_bytes,
            stored_bytes,
        };
        let classes = self.counts.iter().enumerate().map(class);
        classes.filter(|class| class.records > 0)
    }
}

/// Bits below the highest that select a class.
const BITS: u32 = PER_OCTAVE.ilog2();

fn class_of(bytes: u64) -> usize {
    match bytes.checked_ilog2() {
        Some(octave) if octave >= BITS => {
            let within = (bytes >> (octave - BITS)) as usize % PER_OCTAVE;
            (octave - BITS + 1) as usize * PER_OCTAVE + within
        }
        Some(_) | None => bytes as usize,
    }
}

/// The smallest size of a class. Records are shorter than 2^63, so there is one after each.
fn from_of(class: usize) -> u64 {
    let (octave, within) = (class / PER_OCTAVE, class % PER_OCTAVE);
    match octave.checked_sub(1) {
        Some(shift) => ((PER_OCTAVE + within) as u64) << shift,
        None => within as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_its_class() {
        let around = (0..40).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + 1, 3 << power]);
        for bytes in (0..2000).chain(around) {
            let class = class_of(bytes);
            let (from, to) = (from_of(class), from_of(class + 1) - 1);
            assert!((from..=to).contains(&bytes), "{bytes} in {from} to {to}");
            assert!(to - from <= from / 8, "{from} to {to}");
        }
    }

    #[test]
    fn classes_count_what_is_in_them() {
        let mut sizes = BodySizes::default();
        for (body, stored) in [(0, 0), (1000, 1000), (1001, 20), (900, 40)] {
            sizes.add(body, stored);
        }
        let class = |from, to, records, body_bytes, stored_bytes| SizeClass {
            from,
            to,
            records,
            body_bytes,
            stored_bytes,
        };
        let expected = [
            class(0, 0, 1, 0, 0),
            class(896, 959, 1, 900, 40),
            class(960, 1023, 2, 2001, 1020),
        ];
        assert!(sizes.classes().eq(expected));
    }
}
