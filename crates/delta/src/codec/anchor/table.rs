//! The anchors of a base, by checksum.

use crate::codec::matches::{Match, common_prefix, common_suffix};

/// Bytes that the checksum of an anchor covers: dDedup's window.
pub(super) const CHECKED: usize = 16;

/// Most places with one checksum that are compared, the latest first.
const PLACES_MAX: usize = 8;

/// A match of this length is taken without a search for a longer one, bytes.
const LONG_ENOUGH: usize = 4096;

/// Returns a hash of the 16 bytes from `at` on.
#[inline]
fn checksum(bytes: &[u8; CHECKED]) -> u64 {
    const FIRST: u64 = 0xa076_1d64_78bd_642f;
    const LAST: u64 = 0xe703_7ed1_a0b4_28db;
    let number = u128::from_le_bytes(*bytes);
    let product = u128::from(number as u64 ^ FIRST) * u128::from((number >> 64) as u64 ^ LAST);
    (product >> 64) as u64 ^ product as u64
}

#[derive(Debug, Clone, Copy)]
struct Anchor {
    /// Upper half of the checksum.
    check: u32,
    /// Its position in the base.
    at: u32,
    /// Index of the anchor before it in its list, plus one; 0 for none.
    before: u32,
}

/// Lists of anchors with the same lower bits of the checksum. Memory: 12 bytes an anchor and 4 for
/// one to two list heads each.
#[derive(Debug, Default)]
pub(super) struct Table {
    heads: Vec<u32>,
    anchors: Vec<Anchor>,
}

impl Table {
    /// Replaces the content with the anchors of `base` at `positions`.
    pub(super) fn fill(&mut self, base: &[u8], positions: &[u32]) {
        self.heads.clear();
        self.heads.resize(positions.len().next_power_of_two().max(16), 0);
        self.anchors.clear();
        self.anchors.reserve(positions.len());
        for &at in positions {
            let Some(bytes) = base[at as usize..].first_chunk() else {
                break;
            };
            let sum = checksum(bytes);
            let list = sum as usize & (self.heads.len() - 1);
            self.anchors.push(Anchor {
                check: (sum >> 32) as u32,
                at,
                before: self.heads[list],
            });
            self.heads[list] = self.anchors.len() as u32;
        }
    }

    /// Returns the longest match of the target's bytes at `at` with an anchor of the base, extended
    /// both ways, but in the target not to before `from`.
    pub(super) fn longest(&self, base: &[u8], target: &[u8], from: usize, at: usize) -> Option<Match> {
        let ahead = &target[at..];
        let sum = checksum(ahead.first_chunk()?);
        let mut number = self.heads[sum as usize & (self.heads.len() - 1)];
        let mut best: Option<Match> = None;
        for _ in 0..PLACES_MAX {
            let Some(anchor) = number.checked_sub(1).map(|number| self.anchors[number as usize]) else {
                break;
            };
            number = anchor.before;
            if anchor.check != (sum >> 32) as u32 {
                continue;
            }
            let place = anchor.at as usize;
            let forwards = common_prefix(&base[place..], ahead);
            if forwards < CHECKED {
                continue;
            }
            let backwards = common_suffix(&base[..place], &target[from..at]);
            let length = forwards + backwards;
            if best.is_none_or(|best| length > best.length as usize) {
                best = Some(Match {
                    base: (place - backwards) as u32,
                    target: (at - backwards) as u32,
                    length: length as u32,
                });
            }
            if length >= LONG_ENOUGH {
                break;
            }
        }
        best
    }

    pub(super) fn memory(&self) -> usize {
        self.heads.capacity() * size_of::<u32>() + self.anchors.capacity() * size_of::<Anchor>()
    }
}
