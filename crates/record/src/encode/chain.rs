//! The position of a record in its chain, and the hops between records (dDedup §3.2.2).
//!
//! In a chain each record is a delta of the next, and the newest is whole. To shorten the way to
//! the oldest, some records are deltas of one further on: a record whose position is a multiple of
//! a *stride* is a delta of the record at the next multiple. The strides are half of the hop
//! distance H, H itself, and its powers. With half of H, the way to the first hop and the way from
//! the last are no longer than H together, so at most N/H + H records are read for one of a chain
//! of N. The powers cost next to nothing, and make the way proportional to the logarithm of N.

use ibid_format::record::{ChainEntry, HOPS_MAX};

/// How many records must be read for an old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retrieval {
    /// As many as the chain has: each record is a delta of the next.
    Chain,
    /// Some records are deltas of one further on, so that at most N/H + H others are read for a
    /// record of a chain of N (dDedup §3.2.2).
    Hop {
        /// H, from 2 to 65 536 and even; another number is rounded to such a one.
        distance: u32,
    },
    /// Some records are stored whole, so that at most H − 1 others are read. dDedup compares hops
    /// with this.
    VersionJumping {
        /// H, from 1.
        distance: u32,
    },
}

impl Retrieval {
    /// Returns the hop distance as it is stored with chains; 0 if there are no hops.
    pub(crate) fn hop_distance(self) -> u32 {
        match self {
            Retrieval::Hop { distance } => distance.clamp(2, 1 << 16) & !1,
            Retrieval::Chain | Retrieval::VersionJumping { .. } => 0,
        }
    }

    /// Returns whether the record at a position is never made a delta.
    pub(crate) fn stays_whole(self, position: u64) -> bool {
        match self {
            Retrieval::VersionJumping { distance } => position.is_multiple_of(distance.max(1).into()),
            Retrieval::Chain | Retrieval::Hop { .. } => false,
        }
    }
}

/// Returns the strides of a hop distance, ascending; none for distance 0.
fn strides(distance: u32) -> impl Iterator<Item = u64> {
    let distance = u64::from(distance);
    let half = Some(distance / 2).filter(|&half| half > 1);
    let first = Some(distance).filter(|&distance| distance > 1);
    let powers = std::iter::successors(first, move |power| {
        power.checked_mul(distance).filter(|&next| next <= 1 << 40)
    });
    half.into_iter().chain(powers).take(HOPS_MAX)
}

/// Returns the entry of a record that follows `newest`, which was the newest of a chain until now;
/// and the records of the chain that become deltas of it beside `newest`.
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

    /// Returns the bases in a chain of so many records after the last was added.
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
    fn the_way_is_no_longer_than_the_bound_of_ddedup() {
        for distance in [2, 4, 8, 16, 32, 64] {
            for length in (1..2000).chain([10_000]) {
                let bound = length / u64::from(distance) + u64::from(distance);
                let way = farthest(length, Retrieval::Hop { distance });
                assert!(way <= bound, "{way} for {length} records at distance {distance}");
            }
        }
    }

    #[test]
    fn powers_make_the_way_proportional_to_the_logarithm() {
        assert_eq!(farthest(958, Retrieval::Hop { distance: 16 }), 42);
        assert!(farthest(60_000, Retrieval::Hop { distance: 16 }) < 100);
    }

    #[test]
    fn chains_and_version_jumping_have_their_known_ways() {
        assert_eq!(farthest(200, Retrieval::Chain), 199);
        for distance in [1, 2, 4, 16, 64] {
            let way = farthest(200, Retrieval::VersionJumping { distance });
            assert_eq!(way, u64::from(distance) - 1);
        }
    }

    #[test]
    fn another_distance_begins_new_hops() {
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
