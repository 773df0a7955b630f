//! Computing the ids of many chunks at once.
//!
//! BLAKE3 hashes leaves of 1 KiB, and vector instructions hash one leaf in each lane: 16 at a time
//! with AVX-512. A chunk of 8 KiB has only 8 leaves and a file of 3 KiB has 3, so hashing them one
//! after another leaves most lanes empty. Here leaves of several chunks share a vector if they have
//! the same number in their chunk, because the number is an input of the hash. The nodes above them
//! share vectors too, level by level.
//!
//! The hashing itself is blake3's; this module only decides which leaves and nodes go together. It
//! calls [`Platform::hash_many`] and [`Platform::compress_in_place`], which blake3 exports without
//! documenting them. So `Cargo.toml` admits the releases 1.8 only, and before the first use in a
//! process a few ids are compared with those of [`Keys::chunk_id`]. If one differs, every chunk is
//! hashed alone from then on, which is slower but correct.

use std::ops::Range;
use std::sync::OnceLock;

use blake3::IncrementCounter;
use blake3::platform::{MAX_SIMD_DEGREE, Platform};

use crate::{ChunkId, FileId, Keys, MasterKey};

/// Bytes of a leaf.
const LEAF: usize = 1024;
/// Bytes of a block.
const BLOCK: usize = 64;

// BLAKE3, section 2.2, table 3.
const LEAF_START: u8 = 1 << 0;
const LEAF_END: u8 = 1 << 1;
const PARENT: u8 = 1 << 2;
const ROOT: u8 = 1 << 3;
const KEYED: u8 = 1 << 4;

/// A chaining value: the hash of a leaf or node.
type Value = [u8; 32];

/// Computes the ids of chunks, several at a time. Reuse it: it keeps its buffers, some 32 bytes for
/// each KiB that was hashed at once.
#[derive(Debug)]
pub struct Fingerprinter {
    keys: Keys,
    platform: Platform,
    key: [u32; 8],
    /// Length from which a chunk is hashed by itself, bytes; 0 if all are.
    alone: usize,
    /// The hashes of all leaves, later of the nodes.
    values: Vec<Value>,
    trees: Vec<Tree>,
    /// Leaves left after full vectors: their number in the chunk, the number of the chunk, and the
    /// index of their value.
    left: Vec<(u32, u32, u32)>,
    pairs: Vec<[u8; BLOCK]>,
    nodes: Vec<Value>,
}

/// A chunk whose id is not computed yet.
#[derive(Clone, Copy, Debug)]
struct Tree {
    /// Its number among the chunks.
    chunk: u32,
    /// Its values: index of the first, and their number.
    start: u32,
    len: u32,
}

impl Tree {
    fn values(self) -> Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

impl Fingerprinter {
    /// Returns a fingerprinter that computes the ids that [`Keys::chunk_id`] does.
    pub fn new(keys: &Keys) -> Fingerprinter {
        let mut made = Fingerprinter::unchecked(keys);
        if !batches_are_right() {
            made.alone = 0;
        }
        made
    }

    fn unchecked(keys: &Keys) -> Fingerprinter {
        let (words, _) = keys.chunk_key().as_chunks::<4>();
        let platform = Platform::detect();
        Fingerprinter {
            keys: keys.clone(),
            platform,
            alone: LEAF * platform.simd_degree() * 3 / 2,
            key: std::array::from_fn(|at| u32::from_le_bytes(words[at])),
            values: Vec::new(),
            trees: Vec::new(),
            left: Vec::new(),
            pairs: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// Calls `name` with the number and the id of each chunk, in any order.
    ///
    /// ```
    /// use ibid_format::{ChunkId, FileId, Fingerprinter, Keys, MasterKey};
    ///
    /// let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
    /// let chunks = [&[1; 3000][..], &[2; 5000], b"", &[3; 100_000]];
    /// let mut ids = vec![None; chunks.len()];
    /// Fingerprinter::new(&keys).name_all(&chunks, |number, id| ids[number] = Some(id));
    /// assert!(chunks.iter().zip(ids).all(|(chunk, id)| id == Some(keys.chunk_id(chunk))));
    /// ```
    ///
    /// # Panics
    /// If the chunks together have 4 TiB or more.
    pub fn name_all(&mut self, chunks: &[&[u8]], mut name: impl FnMut(usize, ChunkId)) {
        self.values.clear();
        self.trees.clear();
        // A single leaf is a root, which is hashed differently. A chunk that fills vectors alone
        // needs no neighbours.
        let is_small = |chunk: &[u8], alone| chunk.len() > LEAF && chunk.len() < alone;
        let small = chunks.iter().filter(|chunk| is_small(chunk, self.alone)).count();
        // So many chunks share vectors; a few left over are faster one by one.
        let lanes = self.platform.simd_degree();
        let mut together = if small % lanes < lanes / 2 {
            small - small % lanes
        } else {
            small
        };
        for (number, chunk) in chunks.iter().enumerate() {
            if together > 0 && is_small(chunk, self.alone) {
                together -= 1;
                self.hash_leaves(number, chunk);
            } else {
                name(number, self.keys.chunk_id(chunk));
            }
        }
        self.hash_leaves_left(chunks);
        while !self.trees.is_empty() {
            self.climb(&mut name);
        }
    }

    /// Hashes the leaves of a chunk that fill whole vectors, and notes the others.
    fn hash_leaves(&mut self, number: usize, chunk: &[u8]) {
        let (leaves, tail) = chunk.as_chunks::<LEAF>();
        let start = self.values.len();
        let len = leaves.len() + usize::from(!tail.is_empty());
        self.values.resize(start + len, [0; 32]);
        let small = |number: usize| u32::try_from(number).expect("less than 4 TiB");
        self.trees.push(Tree {
            chunk: small(number),
            start: small(start),
            len: small(len),
        });
        let lanes = self.platform.simd_degree();
        let mut groups = leaves.chunks_exact(lanes);
        let mut at = 0;
        for group in &mut groups {
            let mut inputs = [&group[0]; MAX_SIMD_DEGREE];
            inputs.iter_mut().zip(group).for_each(|(input, leaf)| *input = leaf);
            let out = self.values[start + at..][..lanes].as_flattened_mut();
            let counting = IncrementCounter::Yes;
            self.platform.hash_many(
                &inputs[..lanes],
                &self.key,
                at as u64,
                counting,
                KEYED,
                LEAF_START,
                LEAF_END,
                out,
            );
            at += lanes;
        }
        self.left
            .extend((at..leaves.len()).map(|leaf| (small(leaf), small(number), small(start + leaf))));
        if !tail.is_empty() {
            self.values[start + len - 1] = self.hash_tail(tail, leaves.len() as u64);
        }
    }

    /// Hashes the last leaf of a chunk, which is shorter than the others.
    fn hash_tail(&self, tail: &[u8], number: u64) -> Value {
        let mut words = self.key;
        let count = tail.len().div_ceil(BLOCK);
        for (at, bytes) in tail.chunks(BLOCK).enumerate() {
            let mut block = [0; BLOCK];
            block[..bytes.len()].copy_from_slice(bytes);
            let first = if at == 0 { LEAF_START } else { 0 };
            let last = if at + 1 == count { LEAF_END } else { 0 };
            self.platform
                .compress_in_place(&mut words, &block, bytes.len() as u8, number, KEYED | first | last);
        }
        let mut value = [0; 32];
        for (bytes, word) in value.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        value
    }

    /// Hashes the leaves that were noted: those with the same number in their chunks together.
    fn hash_leaves_left(&mut self, chunks: &[&[u8]]) {
        self.left.sort_unstable();
        for same in self.left.chunk_by(|one, other| one.0 == other.0) {
            for group in same.chunks(MAX_SIMD_DEGREE) {
                let leaf = |&(leaf, chunk, _): &(u32, u32, u32)| {
                    let (leaves, _) = chunks[chunk as usize].as_chunks::<LEAF>();
                    &leaves[leaf as usize]
                };
                let mut inputs = [leaf(&group[0]); MAX_SIMD_DEGREE];
                inputs
                    .iter_mut()
                    .zip(group)
                    .for_each(|(input, left)| *input = leaf(left));
                let mut out = [[0; 32]; MAX_SIMD_DEGREE];
                self.platform.hash_many(
                    &inputs[..group.len()],
                    &self.key,
                    group[0].0.into(),
                    IncrementCounter::No,
                    KEYED,
                    LEAF_START,
                    LEAF_END,
                    out[..group.len()].as_flattened_mut(),
                );
                for ((_, _, place), value) in group.iter().zip(out) {
                    self.values[*place as usize] = value;
                }
            }
        }
        self.left.clear();
    }

    /// Computes the next level of every tree from pairs of values; a last value without a partner
    /// moves up as it is. A tree of two values is finished.
    fn climb(&mut self, name: &mut impl FnMut(usize, ChunkId)) {
        let (roots, others): (u32, u32) = (2, 3);
        for (least, most, flags) in [(roots, roots, PARENT | ROOT), (others, u32::MAX, PARENT)] {
            self.pairs.clear();
            let is_due = |tree: &&Tree| (least..=most).contains(&tree.len);
            for tree in self.trees.iter().filter(is_due) {
                let (pairs, _) = self.values[tree.values()].as_chunks::<2>();
                self.pairs.extend(pairs.iter().map(|pair| {
                    let mut block = [0; BLOCK];
                    block.copy_from_slice(pair.as_flattened());
                    block
                }));
            }
            self.nodes.resize(self.pairs.len(), [0; 32]);
            for (group, out) in self
                .pairs
                .chunks(MAX_SIMD_DEGREE)
                .zip(self.nodes.chunks_mut(MAX_SIMD_DEGREE))
            {
                let mut inputs = [&group[0]; MAX_SIMD_DEGREE];
                inputs.iter_mut().zip(group).for_each(|(input, pair)| *input = pair);
                let (inputs, out) = (&inputs[..group.len()], out.as_flattened_mut());
                self.platform
                    .hash_many(inputs, &self.key, 0, IncrementCounter::No, KEYED | flags, 0, 0, out);
            }
            let mut nodes = &self.nodes[..];
            for tree in self.trees.iter_mut().filter(|tree| is_due(&&**tree)) {
                let (own, rest) = nodes.split_at(tree.len as usize / 2);
                nodes = rest;
                if flags & ROOT != 0 {
                    name(tree.chunk as usize, ChunkId(own[0]));
                    tree.len = 0;
                    continue;
                }
                let values = &mut self.values[tree.values()];
                let last = values[values.len() - 1];
                let (above, odd) = (own.len(), values.len() % 2);
                values[..above].copy_from_slice(own);
                values[above] = last;
                tree.len = (above + odd) as u32;
            }
            self.trees.retain(|tree| tree.len > 0);
        }
    }
}

/// Whether chunks hashed together get the ids that they get alone. Computed once in a process, from
/// 100 KiB of data.
fn batches_are_right() -> bool {
    static RIGHT: OnceLock<bool> = OnceLock::new();
    *RIGHT.get_or_init(|| {
        let keys = Keys::unencrypted(FileId::ZERO, &MasterKey::from_bytes([0; 32]));
        let data: Vec<u8> = (0..9 * LEAF as u32)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8)
            .collect();
        let lengths = [1025, 2048, 3000, 5000, 8192, 9000];
        let chunks: Vec<&[u8]> = lengths.iter().cycle().take(20).map(|&length| &data[..length]).collect();
        let mut right = 0;
        Fingerprinter::unchecked(&keys).name_all(&chunks, |number, id| {
            right += usize::from(id == keys.chunk_id(chunks[number]));
        });
        right == chunks.len()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn assert_named(lengths: &[usize]) {
        let keys = Keys::encrypted(FileId([1; 16]), &MasterKey::from_bytes([2; 32]));
        let longest = lengths.iter().copied().max().unwrap_or_default();
        let data: Vec<u8> = (0..longest as u32 + 300)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8)
            .collect();
        let chunks: Vec<&[u8]> = lengths
            .iter()
            .enumerate()
            .map(|(at, len)| &data[at % 300..][..*len])
            .collect();
        let mut names = Fingerprinter::new(&keys);
        for _ in 0..2 {
            let mut ids = vec![None; chunks.len()];
            names.name_all(&chunks, |number, id| {
                assert_eq!(ids[number].replace(id), None, "named twice")
            });
            for (chunk, id) in chunks.iter().zip(ids) {
                assert_eq!(id, Some(keys.chunk_id(chunk)), "{} bytes of {lengths:?}", chunk.len());
            }
        }
    }

    #[test]
    fn every_length_around_blocks_leaves_and_vectors_has_the_id_that_it_has_alone() {
        assert_named(&[]);
        let near = |length: usize| length.saturating_sub(1)..=length + 1;
        let lengths: Vec<usize> = [
            0,
            64,
            1024,
            1088,
            2048,
            3072,
            4096,
            8192,
            15 << 10,
            16 << 10,
            17 << 10,
            64 << 10,
            333_333,
        ]
        .into_iter()
        .flat_map(near)
        .collect();
        assert_named(&lengths);
        lengths.iter().for_each(|length| assert_named(&[*length]));
        assert_named(&(0..200).map(|at| at * 97).collect::<Vec<_>>());
        assert_named(&[3000; 100]);
    }

    #[test]
    fn every_length_up_to_twenty_leaves_has_the_id_that_it_has_alone() {
        let lengths: Vec<usize> = (0..20 * LEAF).collect();
        lengths.chunks(100).for_each(assert_named);
    }

    #[test]
    fn this_release_of_blake3_passes_the_check_and_hashes_together() {
        assert!(batches_are_right());
        let keys = Keys::unencrypted(FileId::ZERO, &MasterKey::from_bytes([0; 32]));
        assert!(Fingerprinter::new(&keys).alone > LEAF);
    }

    proptest! {
        #[test]
        fn chunks_named_together_have_the_ids_that_they_have_alone(
            lengths in prop::collection::vec(0usize..40_000, 0..60)
        ) {
            assert_named(&lengths);
        }
    }
}
