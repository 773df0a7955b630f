//! Ranges that two pieces of data share.

/// A range that base and target share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Match {
    /// Its start in the base.
    pub(super) base: u32,
    /// Its start in the target.
    pub(super) target: u32,
    /// Its length, at least 1 byte.
    pub(super) length: u32,
}

impl Match {
    pub(super) fn base_end(self) -> u32 {
        self.base + self.length
    }

    pub(super) fn target_end(self) -> u32 {
        self.target + self.length
    }
}

/// Bytes compared at a time.
const STEP: usize = 32;

/// Returns the length of the common prefix, bytes.
#[inline]
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let most = a.len().min(b.len());
    let (a, b) = (&a[..most], &b[..most]);
    let mut length = 0;
    while let (Some(left), Some(right)) = (a[length..].first_chunk::<STEP>(), b[length..].first_chunk::<STEP>()) {
        if left != right {
            break;
        }
        length += STEP;
    }
    while let (Some(left), Some(right)) = (a[length..].first_chunk::<8>(), b[length..].first_chunk::<8>()) {
        let differing = u64::from_le_bytes(*left) ^ u64::from_le_bytes(*right);
        if differing != 0 {
            return length + differing.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    length
        + a[length..]
            .iter()
            .zip(&b[length..])
            .take_while(|(left, right)| left == right)
            .count()
}

/// Returns the length of the common suffix, bytes.
#[inline]
pub(super) fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    let most = a.len().min(b.len());
    let (a, b) = (&a[a.len() - most..], &b[b.len() - most..]);
    let mut rest = most;
    while let (Some(left), Some(right)) = (a[..rest].last_chunk::<STEP>(), b[..rest].last_chunk::<STEP>()) {
        if left != right {
            break;
        }
        rest -= STEP;
    }
    while let (Some(left), Some(right)) = (a[..rest].last_chunk::<8>(), b[..rest].last_chunk::<8>()) {
        let differing = u64::from_le_bytes(*left) ^ u64::from_le_bytes(*right);
        if differing != 0 {
            return most - rest + differing.leading_zeros() as usize / 8;
        }
        rest -= 8;
    }
    let equal = a[..rest]
        .iter()
        .rev()
        .zip(b[..rest].iter().rev())
        .take_while(|(left, right)| left == right)
        .count();
    most - rest + equal
}

/// Returns the common prefix and the common suffix of base and target as matches. One that is shorter
/// than `least` is left out, because it may be part of a match with another place.
pub(super) fn common_ends(base: &[u8], target: &[u8], least: usize) -> (Option<Match>, Option<Match>) {
    let long_enough = |length| if length < least { 0 } else { length };
    let prefix = long_enough(common_prefix(base, target));
    let suffix = long_enough(common_suffix(&base[prefix..], &target[prefix..]));
    let ends = |base: usize, target: usize, length: usize| {
        (length > 0).then_some(Match {
            base: base as u32,
            target: target as u32,
            length: length as u32,
        })
    };
    let last = ends(base.len() - suffix, target.len() - suffix, suffix);
    (ends(0, 0, prefix), last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_suffixes_of_every_length() {
        for length in 0..150 {
            let mut a = vec![7; length];
            assert_eq!((common_prefix(&a, &a), common_suffix(&a, &a)), (length, length));
            for at in 0..length {
                let b = a.clone();
                a[at] = 8;
                assert_eq!(common_prefix(&a, &b), at);
                assert_eq!(common_suffix(&a, &b), length - at - 1);
                assert_eq!(common_prefix(&a, &b[..at]), at);
                a[at] = 7;
            }
        }
    }
}
