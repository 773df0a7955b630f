//! Which records are worth the work (paper 004, section 3.4).

/// Records after which the size below which none is encoded is set anew.
const SIZES: usize = 1000;

/// Gives encoding up where it does not pay, for good: a store that is opened without a governor
/// begins again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Governor {
    /// Records after which a namespace is judged; 0 for never.
    pub records: u64,
    /// The least that it must save: bytes of bodies divided by what they take, times 100.
    pub ratio_percent_min: u32,
}

impl Default for Governor {
    /// The paper's: less than 1.1 over 100 000 records.
    fn default() -> Self {
        Governor {
            records: 100_000,
            ratio_percent_min: 110,
        }
    }
}

/// What is known of a namespace.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    records: u64,
    bytes: u64,
    saved: u64,
    sizes: Vec<u32>,
    size_min: usize,
}

impl Judgement {
    /// Whether a record of this size is to be compared with others. `percent` of the records before
    /// were smaller than those that are.
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

    /// Counts a record and what its coming saved. True if encoding has not paid over as many as the
    /// governor waits for.
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
    fn a_namespace_that_saves_less_than_asked_is_given_up() {
        let governor = Governor {
            records: 10,
            ratio_percent_min: 110,
        };
        let judged = |saved: u64| {
            let mut judgement = Judgement::default();
            let verdicts: Vec<bool> = (0..10).map(|_| judgement.count(governor, 1000, saved)).collect();
            assert!(verdicts[..9].iter().all(|&verdict| !verdict));
            verdicts[9]
        };
        assert!(judged(0) && judged(90));
        assert!(!judged(91) && !judged(1000));
        let never = Governor { records: 0, ..governor };
        let mut judgement = Judgement::default();
        assert!((0..1000).all(|_| !judgement.count(never, 1000, 0)));
    }

    #[test]
    fn sizes_below_the_quantile_are_passed_over_once_it_is_known() {
        let mut judgement = Judgement::default();
        assert!((0..1000).all(|size| judgement.takes(size, 40)), "nothing is known yet");
        assert!(!judgement.takes(398, 40) && judgement.takes(399, 40));
        let mut judgement = Judgement::default();
        assert!((0..5000).all(|size| judgement.takes(size, 0)));
    }
}
