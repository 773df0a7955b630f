//! Statistics: stored bytes, and bytes saved by deduplication and compression.

mod frames;

use std::sync::atomic::Ordering;

pub use frames::{FrameClass, ReadCost};
use ibid_format::Keys;
use ibid_format::content::{Content, Item};
use ibid_format::pack::PackKind;
use ibid_format::run::ShortId;
use ibid_format::tree::EntryKind;

use crate::index::{IdMap, LoadedIndex};
use crate::layout::folder;
use crate::read::ChunkReader;
use crate::scratch::{Array, Bits, Scratch};
use crate::tree::{Items, TreeStep, TreeWalk, content_key};
use crate::{Monitor, ProgressCounters, PruneEstimate, PruneOptions, Repository, Result, SnapshotInfo};

/// Chunks of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SizeClass {
    /// Upper bound of the sizes, bytes: a power of two. The lower bound, exclusive, is half of it.
    pub up_to: u64,
    /// Chunks.
    pub chunks: u64,
    /// Bytes of these chunks.
    pub bytes: u64,
}

/// Files at one depth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DepthClass {
    /// Files.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
}

/// Statistics of a set of snapshots and of the whole repository.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Number of snapshots.
    pub snapshots: u64,
    /// Files in them, counted once per occurrence.
    pub files: u64,
    /// Bytes of these files, holes included: the size of restoring every snapshot.
    pub logical: u64,
    /// Bytes of holes in these files, counted once per occurrence.
    pub holes: u64,
    /// Distinct data chunks that the files refer to.
    pub chunks: u64,
    /// Bytes of these chunks: the size after deduplication.
    pub unique: u64,
    /// Bytes of these chunks in packs, compressed and sealed. A frame's bytes are divided among its
    /// chunks by their length.
    pub packed: u64,
    /// Distinct metadata chunks (trees, recipes).
    pub metadata_chunks: u64,
    /// Bytes of these metadata chunks.
    pub metadata_unique: u64,
    /// Bytes of these metadata chunks in packs.
    pub metadata_packed: u64,
    /// Data chunks by size.
    pub sizes: Vec<SizeClass>,
    /// Files by depth: `depths[0]` counts those in the root of a snapshot.
    pub depths: Vec<DepthClass>,
    /// Packs in the whole repository.
    pub packs: u64,
    /// Bytes of these packs.
    pub pack_bytes: u64,
    /// Bytes of index files.
    pub index_bytes: u64,
    /// Bytes of snapshot files.
    pub snapshot_bytes: u64,
    /// Bytes of sketch files, with which backups find similar chunks.
    pub sketch_bytes: u64,
    /// Frames in the whole repository by depth: `frame_depths[0]` counts those without bases.
    pub frame_depths: Vec<FrameClass>,
    /// Cost of reading one chunk of the repository.
    pub read_cost: ReadCost,
    /// Memory of the index, bytes.
    pub index_memory: u64,
    /// Chunks in the index, whether a snapshot refers to them or not.
    pub index_chunks: u64,
    /// What all snapshots of the repository need of the packs, and what a [prune](Repository::prune) with default
    /// settings would free; `None` if some snapshot or tree can't be read.
    pub prune: Option<PruneEstimate>,
}

impl Stats {
    /// Returns the bytes of all files of the repository.
    pub fn stored(&self) -> u64 {
        self.pack_bytes + self.index_bytes + self.snapshot_bytes + self.sketch_bytes
    }
}

/// Totals of a directory with everything below it.
#[derive(Clone, Default)]
struct Subtree {
    depths: Vec<DepthClass>,
    /// Bytes of holes in the files.
    holes: u64,
}

impl Subtree {
    fn merge(&mut self, subtree: &Subtree, deeper: usize) {
        self.holes += subtree.holes;
        if self.depths.len() < subtree.depths.len() + deeper {
            self.depths.resize(subtree.depths.len() + deeper, DepthClass::default());
        }
        for (a, b) in self.depths[deeper..].iter_mut().zip(&subtree.depths) {
            a.files += b.files;
            a.bytes += b.bytes;
        }
    }

    fn files(&self) -> u64 {
        self.depths.iter().map(|depth| depth.files).sum()
    }

    fn bytes(&self) -> u64 {
        self.depths.iter().map(|depth| depth.bytes).sum()
    }
}

/// Totals of directories by their listings, so that equal subtrees are read once.
struct KnownTrees {
    /// Where in `totals` those of a directory begin.
    starts: IdMap,
    /// For each directory the number of its depths, the bytes of holes, and for each depth the number
    /// of files and their bytes.
    totals: Array<u64>,
}

impl KnownTrees {
    fn new(scratch: &Scratch) -> Result<KnownTrees> {
        Ok(KnownTrees {
            starts: IdMap::new(scratch),
            totals: Array::zeros(scratch, 0)?,
        })
    }

    fn get(&mut self, listing: ShortId) -> Result<Option<Subtree>> {
        let Some(start) = self.starts.get(listing)? else {
            return Ok(None);
        };
        let mut words = start..;
        let mut next = || self.totals.get(words.next().expect("it has no end"));
        let (depths, holes) = (next()?, next()?);
        let depth = |_| {
            Ok(DepthClass {
                files: next()?,
                bytes: next()?,
            })
        };
        Ok(Some(Subtree {
            depths: (0..depths).map(depth).collect::<Result<_>>()?,
            holes,
        }))
    }

    fn insert(&mut self, listing: ShortId, subtree: &Subtree) -> Result<()> {
        let start = self.totals.push(subtree.depths.len() as u64)?;
        self.totals.push(subtree.holes)?;
        for depth in &subtree.depths {
            self.totals.push(depth.files)?;
            self.totals.push(depth.bytes)?;
        }
        self.starts.insert(listing, start)
    }
}

struct Counting<'a> {
    loaded: &'a LoadedIndex,
    keys: &'a Keys,
    /// Chunks already counted, by their ordinals.
    met: Bits,
    stats: Stats,
    known: KnownTrees,
    /// Bytes in packs, in units of 1/2^16 byte.
    packed: [u128; 2],
}

impl Counting<'_> {
    fn chunk(&mut self, item: &Item, kind: PackKind) -> Result<()> {
        let Item::Chunk { id, length } = item else {
            return Ok(());
        };
        // Missing chunks are reported by `check`.
        let Some(place) = self.loaded.index.get(id) else {
            return Ok(());
        };
        if !self.met.insert(self.loaded.index.ordinal(place))? {
            return Ok(());
        }
        let frame = self.loaded.index.frame(place.frame);
        let share = ((u128::from(*length) * u128::from(frame.sealed)) << 16) / u128::from(frame.length.max(1));
        let length = u64::from(*length);
        self.packed[usize::from(kind == PackKind::Metadata)] += share;
        if kind == PackKind::Metadata {
            self.stats.metadata_chunks += 1;
            self.stats.metadata_unique += length;
            return Ok(());
        }
        self.stats.chunks += 1;
        self.stats.unique += length;
        let class = length.next_power_of_two();
        let at = class.trailing_zeros() as usize;
        if self.stats.sizes.len() <= at {
            let from = self.stats.sizes.len();
            self.stats.sizes.extend((from..=at).map(|bits| SizeClass {
                up_to: 1 << bits,
                ..SizeClass::default()
            }));
        }
        self.stats.sizes[at].chunks += 1;
        self.stats.sizes[at].bytes += length;
        Ok(())
    }

    /// Counts the chunks of a content; returns the bytes of its holes.
    fn content(&mut self, reader: &ChunkReader<'_>, content: &Content, kind: PackKind) -> Result<u64> {
        let mut holes = 0;
        let mut items = Items::noting(reader, content);
        while let Some(item) = items.next() {
            let item = item?;
            if let Item::Hole { length } = item {
                holes += length;
            }
            self.chunk(&item, kind)?;
            items
                .noted()
                .try_for_each(|list| self.chunk(&list, PackKind::Metadata))?;
        }
        items
            .noted()
            .try_for_each(|list| self.chunk(&list, PackKind::Metadata))?;
        Ok(holes)
    }

    /// Returns the key of a listing: equal listings have equal keys.
    fn key(&self, listing: &Content) -> ShortId {
        content_key(self.keys, listing)
    }
}

impl Repository {
    /// Returns statistics of these snapshots and of the whole repository.
    ///
    /// # Errors
    /// Trees that can't be read; errors of the storage.
    pub fn stats(&self, snapshots: &[SnapshotInfo]) -> Result<Stats> {
        let monitor = &*self.monitor;
        let reader = self.tree_reader()?;
        let loaded = self.loaded()?;
        let scratch = self.scratch();
        let mut counting = Counting {
            loaded: &loaded,
            keys: &self.files.keys,
            met: Bits::new(&scratch, loaded.index.ordinals())?,
            stats: Stats::default(),
            known: KnownTrees::new(&scratch)?,
            packed: [0; 2],
        };
        let total = snapshots.iter().map(|info| info.snapshot.counters.bytes).sum();
        monitor.counters.bytes_total.store(total, Ordering::Relaxed);
        monitor.counters.totals_final.store(true, Ordering::Relaxed);
        let mut all = Subtree::default();
        self.fetch_roots(&reader, snapshots)?;
        for info in snapshots {
            counting.stats.snapshots += 1;
            all.merge(
                &self.count_tree(&reader, &mut counting, &info.snapshot.root, monitor)?,
                0,
            );
        }
        let Counting { mut stats, packed, .. } = counting;
        stats.holes = all.holes;
        stats.depths = all.depths;
        stats.packed = (packed[0] >> 16) as u64;
        stats.metadata_packed = (packed[1] >> 16) as u64;
        stats.files = stats.depths.iter().map(|depth| depth.files).sum();
        stats.logical = stats.depths.iter().map(|depth| depth.bytes).sum();
        stats.packs = loaded.index.packs().count() as u64;
        stats.pack_bytes = loaded.index.packs().map(|(_, pack)| pack.size).sum();
        stats.index_bytes = loaded.index_files.iter().map(|(_, size)| size).sum();
        let size = |folder| -> Result<u64> {
            let files = self.files.list(folder)?;
            Ok(files.iter().map(|(_, size)| size).sum())
        };
        stats.snapshot_bytes = size(folder::SNAPSHOTS)?;
        stats.sketch_bytes = size(folder::SKETCHES)?;
        stats.frame_depths = frames::classes(&loaded)?;
        stats.read_cost = frames::read_cost(&scratch, &loaded, monitor)?;
        stats.index_memory = loaded.index.bytes();
        stats.index_chunks = loaded.index.len();
        stats.prune = match self.estimate_of(&loaded, &[], &PruneOptions::default()) {
            Ok(estimate) => Some(estimate),
            Err(error) if error.is_fault() => None,
            Err(error) => return Err(error),
        };
        Ok(stats)
    }

    /// Adds up the totals of a directory.
    fn count_tree(
        &self,
        reader: &ChunkReader<'_>,
        counting: &mut Counting<'_>,
        root: &Content,
        monitor: &Monitor,
    ) -> Result<Subtree> {
        let progress = |files, bytes| {
            ProgressCounters::add(&monitor.counters.files, files);
            ProgressCounters::add(&monitor.counters.bytes, bytes);
        };
        let mut walk = TreeWalk::new(reader, root);
        // One per directory on the path to the current one: its totals so far.
        let mut levels = vec![(counting.key(root), Subtree::default())];
        if let Some(known) = counting.known.get(levels[0].0)? {
            progress(known.files(), known.bytes());
            return Ok(known);
        }
        counting.content(reader, root, PackKind::Metadata)?;
        while let Some(step) = walk.next() {
            monitor.check_cancelled()?;
            match step? {
                TreeStep::Leave => {
                    let (key, subtree) = levels.pop().expect("descended before");
                    levels.last_mut().expect("the root").1.merge(&subtree, 1);
                    counting.known.insert(key, &subtree)?;
                }
                TreeStep::Entry(entry) => match &entry.kind {
                    EntryKind::Directory(listing) => {
                        let key = counting.key(listing);
                        if let Some(subtree) = counting.known.get(key)? {
                            progress(subtree.files(), subtree.bytes());
                            levels.last_mut().expect("the root").1.merge(&subtree, 1);
                        } else {
                            counting.content(reader, listing, PackKind::Metadata)?;
                            levels.push((key, Subtree::default()));
                            walk.descend(listing);
                        }
                    }
                    EntryKind::File(content) => {
                        let here = Subtree {
                            holes: counting.content(reader, content, PackKind::Data)?,
                            depths: vec![DepthClass {
                                files: 1,
                                bytes: content.length,
                            }],
                        };
                        progress(1, content.length);
                        levels.last_mut().expect("the root").1.merge(&here, 0);
                    }
                    _ => {}
                },
            }
        }
        let (key, subtree) = levels.pop().expect("the root");
        counting.known.insert(key, &subtree)?;
        Ok(subtree)
    }
}
