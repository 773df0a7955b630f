//! Finds short matches between two long ones.

use crate::codec::matches::{Match, common_prefix, common_suffix};

/// Length of the shortest match that it finds, bytes.
const SEED: usize = 6;

/// Longest stretch of base and of target that is searched, bytes. Longer ones have anchors.
const SEARCHED_MAX: usize = 4096;

/// Positions of the base by the bytes there, for stretches up to [`SEARCHED_MAX`].
#[derive(Debug, Default)]
pub(super) struct Dense {
    places: Vec<u16>,
}

impl Dense {
    /// Appends the matches of at least `least` bytes between two stretches, in the target's order.
    /// Their positions are relative to `from`, where the stretches begin in base and target.
    pub(super) fn search(
        &mut self,
        base: &[u8],
        target: &[u8],
        from: (u32, u32),
        least: usize,
        found: &mut Vec<Match>,
    ) {
        let base = &base[..base.len().min(SEARCHED_MAX)];
        let target = &target[..target.len().min(SEARCHED_MAX)];
        if base.len() < least || target.len() < least {
            return;
        }
        let size = (2 * base.len()).next_power_of_two();
        let shift = 64 - size.ilog2();
        self.places.clear();
        self.places.resize(size, 0);
        let list = |bytes: &[u8; 8]| {
            let seed = u64::from_le_bytes(*bytes) << (64 - 8 * SEED);
            (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize
        };
        for (at, bytes) in base.windows(8).enumerate() {
            let bytes = bytes.first_chunk().expect("windows of eight");
            self.places[list(bytes)] = at as u16 + 1;
        }
        let (mut at, mut taken) = (0, 0);
        while let Some(bytes) = target[at..].first_chunk() {
            if let Some(place) = self.places[list(bytes)].checked_sub(1) {
                let place = usize::from(place);
                let forwards = common_prefix(&base[place..], &target[at..]);
                if forwards >= SEED {
                    let backwards = common_suffix(&base[..place], &target[taken..at]);
                    if forwards + backwards >= least {
                        found.push(Match {
                            base: from.0 + (place - backwards) as u32,
                            target: from.1 + (at - backwards) as u32,
                            length: (forwards + backwards) as u32,
                        });
                        at += forwards;
                        taken = at;
                        continue;
                    }
                }
            }
            at += 1;
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.places.capacity() * size_of::<u16>()
    }
}
