//! Searches for extreme bytes, without vector instructions and with them.

use ibid_simd::{BLOCK, Kernel, Vector, prefetch_far};

/// The searches that AE, RAM and MAXP are made of.
pub(crate) trait Search: Copy {
    /// Returns the largest byte, or 0 if there is none. Stops reading at 255.
    fn largest(self, bytes: &[u8]) -> u8;

    /// Returns the position of the first byte that is `least` or larger.
    fn first_from(self, bytes: &[u8], least: u8) -> Option<usize>;

    /// Returns the position of the first byte that is `most` or smaller.
    fn first_upto(self, bytes: &[u8], most: u8) -> Option<usize>;

    /// Prefetches `data[at..at + bytes]` if `data` is too large to be in the cache already.
    fn fetch(self, data: &[u8], at: usize, bytes: usize);
}

/// The arguments of a cut. The type of the settings says by which algorithm.
pub(crate) struct Cut<'a, Settings> {
    pub(crate) settings: &'a Settings,
    pub(crate) data: &'a [u8],
}

/// An algorithm built from searches. Mark `find` `#[inline(always)]`, as kernels are.
pub(crate) trait BySearch {
    /// Returns the length of the first chunk.
    fn find(self, search: impl Search) -> usize;
}

impl<'a, Settings> Kernel for Cut<'a, Settings>
where
    Cut<'a, Settings>: BySearch,
{
    type Output = usize;

    fn run_scalar(self) -> usize {
        self.find(Scalar)
    }

    #[inline(always)]
    fn run<V: Vector>(self, vector: V) -> usize {
        self.find(Vectors(vector))
    }
}

/// The searches in plain Rust, which a compiler can vectorize with the target's baseline
/// instructions.
#[derive(Clone, Copy)]
struct Scalar;

impl Search for Scalar {
    fn largest(self, bytes: &[u8]) -> u8 {
        let mut largest = 0;
        for group in bytes.chunks(GROUP) {
            largest = group.iter().fold(largest, |largest, byte| largest.max(*byte));
            if largest == u8::MAX {
                break;
            }
        }
        largest
    }

    fn first_from(self, bytes: &[u8], least: u8) -> Option<usize> {
        let any = |block: &[u8; BLOCK]| block.iter().fold(0, |largest, byte| (*byte).max(largest)) >= least;
        first(bytes, any, |byte| byte >= least)
    }

    fn first_upto(self, bytes: &[u8], most: u8) -> Option<usize> {
        let any = |block: &[u8; BLOCK]| block.iter().fold(u8::MAX, |smallest, byte| (*byte).min(smallest)) <= most;
        first(bytes, any, |byte| byte <= most)
    }

    fn fetch(self, _: &[u8], _: usize, _: usize) {}
}

/// Bytes compared for each branch.
const GROUP: usize = 2 * BLOCK;

/// Data of at most so many bytes is probably in the second-level cache: the caller has just written
/// it.
pub(crate) const CACHED: usize = 1 << 20;

/// Returns the position of the first byte that fits; `any` says whether a block has one.
#[inline(always)]
fn first(bytes: &[u8], any: impl Fn(&[u8; BLOCK]) -> bool, fits: impl Fn(u8) -> bool) -> Option<usize> {
    let (blocks, rest) = bytes.as_chunks();
    for (number, block) in blocks.iter().enumerate() {
        if any(block) {
            return Some(number * BLOCK + block.iter().position(|byte| fits(*byte))?);
        }
    }
    Some(blocks.len() * BLOCK + rest.iter().position(|byte| fits(*byte))?)
}

/// The searches with vector instructions.
#[derive(Clone, Copy)]
pub(crate) struct Vectors<V>(pub(crate) V);

impl<V: Vector> Search for Vectors<V> {
    #[inline(always)]
    fn largest(self, bytes: &[u8]) -> u8 {
        let Vectors(vector) = self;
        if bytes.len() < V::LANES {
            return Scalar.largest(bytes);
        }
        let top = vector.splat(u8::MAX);
        let mut largest = vector.splat(0);
        let (groups, rest) = bytes.as_chunks::<GROUP>();
        for group in groups {
            for at in (0..GROUP).step_by(V::LANES) {
                largest = vector.max(largest, vector.load(group, at));
            }
            if vector.equal(largest, top) != 0 {
                return u8::MAX;
            }
        }
        for at in (0..rest.len() / V::LANES * V::LANES).step_by(V::LANES) {
            largest = vector.max(largest, vector.load(rest, at));
        }
        // The remaining bytes, and some bytes again.
        largest = vector.max(largest, vector.load(bytes, bytes.len() - V::LANES));
        vector.largest(largest)
    }

    #[inline(always)]
    fn first_from(self, bytes: &[u8], least: u8) -> Option<usize> {
        self.first::<true>(bytes, least)
    }

    #[inline(always)]
    fn first_upto(self, bytes: &[u8], most: u8) -> Option<usize> {
        self.first::<false>(bytes, most)
    }

    #[inline(always)]
    fn fetch(self, data: &[u8], at: usize, bytes: usize) {
        if data.len() > CACHED {
            for line in (0..bytes).step_by(BLOCK) {
                prefetch_far(data, at.saturating_add(line));
            }
        }
    }
}

impl<V: Vector> Vectors<V> {
    /// Returns the position of the first byte that is `limit` or larger (`FROM`), or `limit` or
    /// smaller.
    #[inline(always)]
    fn first<const FROM: bool>(self, bytes: &[u8], limit: u8) -> Option<usize> {
        let Vectors(vector) = self;
        if bytes.len() < V::LANES {
            return if FROM {
                Scalar.first_from(bytes, limit)
            } else {
                Scalar.first_upto(bytes, limit)
            };
        }
        let limit = vector.splat(limit);
        let fits = |register| {
            if FROM {
                vector.at_least(register, limit)
            } else {
                vector.at_least(limit, register)
            }
        };
        let (groups, rest) = bytes.as_chunks::<GROUP>();
        for (number, group) in groups.iter().enumerate() {
            let mut extreme = vector.load(group, 0);
            for at in (V::LANES..GROUP).step_by(V::LANES) {
                let next = vector.load(group, at);
                extreme = if FROM {
                    vector.max(extreme, next)
                } else {
                    vector.min(extreme, next)
                };
            }
            if fits(extreme) != 0 {
                let mut at = 0;
                loop {
                    let found = fits(vector.load(group, at));
                    if found != 0 {
                        return Some(number * GROUP + at + found.trailing_zeros() as usize);
                    }
                    at += V::LANES;
                }
            }
        }
        let start = bytes.len() - rest.len();
        for at in (0..rest.len() / V::LANES * V::LANES).step_by(V::LANES) {
            let found = fits(vector.load(rest, at));
            if found != 0 {
                return Some(start + at + found.trailing_zeros() as usize);
            }
        }
        // The remaining bytes. Those before them that are loaded again do not fit.
        let last = bytes.len() - V::LANES;
        let found = fits(vector.load(bytes, last));
        (found != 0).then(|| last + found.trailing_zeros() as usize)
    }
}
