//! Where a record stands in its chain, and which others hop to it.
//!
//! A chain is of records that are decoded from one another: each from the one after it, the newest
//! from nothing. So that the oldest is not decoded from all of them, some are decoded from one
//! further on (paper 004, section 3.2.2): those whose position is a multiple of a *stride*, from
//! the next multiple. Strides are half of the hop distance H, H itself, and its powers. Half of it,
//! so that the way to the first hop and from the last one are no longer than H together, which
//! makes N/H + H the bound for a chain of N records; the powers because they cost next to nothing,
//! and make the way a multiple of the logarithm.

use ibid_format::record::{ChainEntry, HOPS_MAX};

/// How chains are kept short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retrieval {
    /// They are not: each record is decoded from the next.
    Chain,
    /// Some are decoded from a record further on. At most N/H + H others are needed to decode one
    /// of a chain of N. The distance is brought into 2 to 65 536, and to an even number.
    Hop {
        /// H.
        distance: u32,
    },
    /// Some are stored whole, so that at most H − 1 others are needed: what the paper compares hops
    /// with.
    VersionJumping {
        /// H, from 1.
        distance: u32,
    },
}

impl Retrieval {
    /// The distance, as chains are marked with it; 0 if there are no hops.
    pub(crate) fn hop_distance(self) -> u32 {
        match self {
            Retrieval::Hop { distance } => distance.clamp(2, 1 << 16) & !1,
            Retrieval::Chain | Retrieval::VersionJumping { .. } => 0,
        }
    }

    /// Whether the record at a position is stored whole for good.
    pub(crate) fn stays_whole(self, position: u64) -> bool {
        match self {
            Retrieval::VersionJumping { distance } => position.is_multiple_of(distance.max(1).into()),
            Retrieval::Chain | Retrieval::Hop { .. } => false,
        }
    }
}

/// Strides of a hop distance, ascending; none of distance 0.
fn strides(distance: u32) -> impl Iterator<Item = u64> {
    let distance = u64::from(distance);
    let half = Some(distance / 2).filter(|&half| half > 1);
    let first = Some(distance).filter(|&distance| distance > 1);
    let powers = std::iter::successors(first, move |power| {
        power.checked_mul(distance).filter(|&next| next <= 1 << 40)
    });
    half.into_iter().chain(powers).take(HOPS_MAX)
}

/// The entry of a record that follows `newest`, the newest of a chain until now; and which records
/// of the chain are to be decoded from it, beside that one.
pub(crate) fn follow(newest: u64, entry: &ChainEntry, retrieval: Retrieval) -> (ChainEntry, Vec<u64>) {
    let distance = retrieval.hop_distance();
    let position = entry.position + 1;
    let (mut hops, mut hopping) = (Vec::new(), Vec::new());
    for (place, stride) in strides(distance).enumerate() {
        let mut last = entry
            .hops
            .get(place)
            .copied()
            .flatten()
            .filter(|_| entry.distance == distance);
        if entry.position.is_multiple_of(stride) {
            last = Some(newest);
        }
        if let Some(last) = last
            && position.is_multiple_of(stride)
            && last != newest
            && !hopping.contains(&last)
        {
            hopping.push(last);
        }
        hops.push(last);
    }
    let next = ChainEntry {
        namespace: entry.namespace,
        position,
        distance,
        hops,
        ..ChainEntry::default()
    };
    (next, hopping)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bases in a chain of so many records, as they are when the last has come.
    fn bases(length: u64, retrieval: Retrieval) -> Vec<Option<u64>> {
        let mut bases = vec![None; length as usize + 1];
        let mut entry = ChainEntry::default();
        for newest in 1..length {
            let (next, hopping) = follow(newest, &entry, retrieval);
            for record in hopping {
                bases[record as usize] = Some(newest + 1);
            }
            if !retrieval.stays_whole(entry.position) {
                bases[newest as usize] = Some(newest + 1);
            }
            entry = next;
        }
        bases
    }

    fn farthest(length: u64, retrieval: Retrieval) -> u64 {
        let bases = bases(length, retrieval);
        let way =
            |record: u64| std::iter::successors(Some(record), |&record| bases[record as usize]).count() as u64 - 1;
        (1..=length).map(way).max().unwrap()
    }

    #[test]
    fn the_way_is_as_short_as_the_paper_says() {
        for distance in [2, 4, 8, 16, 32, 64] {
            for length in (1..2000).chain([10_000]) {
                let bound = length / u64::from(distance) + u64::from(distance);
                let way = farthest(length, Retrieval::Hop { distance });
                assert!(way <= bound, "{way} for {length} records at distance {distance}");
            }
        }
    }

    #[test]
    fn powers_make_it_a_multiple_of_the_logarithm() {
        assert_eq!(farthest(958, Retrieval::Hop { distance: 16 }), 42);
        assert!(farthest(60_000, Retrieval::Hop { distance: 16 }) < 100);
    }

    #[test]
    fn the_rivals_have_the_ways_that_they_are_known_for() {
        assert_eq!(farthest(200, Retrieval::Chain), 199);
        for distance in [1, 2, 4, 16, 64] {
            let way = farthest(200, Retrieval::VersionJumping { distance });
            assert_eq!(way, u64::from(distance) - 1);
        }
    }

    #[test]
    fn another_distance_begins_anew() {
        let entry = ChainEntry {
            position: 15,
            distance: 8,
            hops: vec![Some(1); 4],
            ..ChainEntry::default()
        };
        let (next, hopping) = follow(20, &entry, Retrieval::Hop { distance: 16 });
        assert_eq!((next.position, next.distance, hopping), (16, 16, vec![]));
    }
}
