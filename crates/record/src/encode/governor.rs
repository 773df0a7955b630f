//! Which records are worth encoding? (dDedup §3.4)

/// Records after which the smallest size that is compared is set anew.
const SIZES: usize = 1000;

/// Gives encoding up in namespaces where it does not pay (dDedup §3.4.1). A store that is opened
/// without a governor encodes them again.
///
/// Two things are judged: what comparing records with those of other keys saves, over records that are no delta of the
/// next version of their key, and what versions save as deltas of the next ones. If the first does not pay, a namespace
/// that keeps versions goes on with these. Only if they do not pay either, encoding ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Governor {
    /// Records after which a namespace is judged, of each of the two kinds; with 0 none is.
    pub records: u64,
    /// The smallest ratio that pays: bytes of bodies divided by bytes stored, in percent.
    pub ratio_percent_min: u32,
}

impl Default for Governor {
    /// A ratio of 1.1 over 100 000 records, as in dDedup.
    fn default() -> Self {
        Governor {
            records: 100_000,
            ratio_percent_min: 110,
        }
    }
}

/// What encoding has saved in a namespace, and the sizes of its records.
#[derive(Debug, Default)]
pub(crate) struct Savings {
    records: u64,
    bytes: u64,
    saved: u64,
    sizes: Vec<u32>,
    size_min: usize,
}

impl Savings {
    /// Returns whether a record of this size is compared with others: not if it is smaller than
    /// `percent` of the records before it (dDedup §3.4.2).
    pub(crate) fn takes(&mut self, size: usize, percent: u8) -> bool {
        if percent > 0 {
            self.sizes.push(size.try_into().unwrap_or(u32::MAX));
            if self.sizes.len() == SIZES {
                let place = (SIZES - 1) * usize::from(percent.min(100)) / 100;
                let (_, &mut threshold, _) = self.sizes.select_nth_unstable(place);
                self.size_min = threshold as usize;
                self.sizes.clear();
            }
        }
        size >= self.size_min
    }

    /// Counts a record, and the bytes that it saved. Returns true if encoding has not paid over the
    /// governor's number of records.
    pub(crate) fn count(&mut self, governor: Governor, bytes: usize, saved: u64) -> bool {
        self.records += 1;
        self.bytes += bytes as u64;
        self.saved += saved;
        if governor.records == 0 || self.records < governor.records {
            return false;
        }
        let taken = self.bytes.saturating_sub(self.saved).max(1);
        let pays = u128::from(self.bytes) * 100 >= u128::from(taken) * u128::from(governor.ratio_percent_min);
        (self.records, self.bytes, self.saved) = (0, 0, 0);
        !pays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_saves_too_little_is_given_up() {
        let governor = Governor {
            records: 10,
            ratio_percent_min: 110,
        };
        let judged = |saved: u64| {
            let mut savings = Savings::default();
            let verdicts: Vec<bool> = (0..10).map(|_| savings.count(governor, 1000, saved)).collect();
            assert!(verdicts[..9].iter().all(|&verdict| !verdict));
            verdicts[9]
        };
        assert!(judged(0) && judged(90));
        assert!(!judged(91) && !judged(1000));
        let never = Governor { records: 0, ..governor };
        let mut savings = Savings::default();
        assert!((0..1000).all(|_| !savings.count(never, 1000, 0)));
    }

    #[test]
    fn sizes_below_the_quantile_are_not_compared_once_it_is_known() {
        let mut savings = Savings::default();
        assert!((0..1000).all(|size| savings.takes(size, 40)), "nothing is known yet");
        assert!(!savings.takes(398, 40) && savings.takes(399, 40));
        let mut savings = Savings::default();
        assert!((0..5000).all(|size| savings.takes(size, 0)));
    }
}
