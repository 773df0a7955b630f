//! What frames are encoded against, as the directories of packs say it: so bases are known before the frames that need
//! them are here, and come with the same requests.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::FrameSource;
use super::segments::{GAP_MAX, Span};
use crate::index::{bases_of, find_base};
use crate::threads::{REQUESTS, each};

/// Bytes of a pair in memory.
const EACH: u64 = size_of::<(u32, u32)>() as u64;
/// Bytes of directories that are read at once.
const TOGETHER: u64 = 1 << 20;

/// The frames of some packs with what each is encoded against.
#[derive(Default)]
pub(super) struct Edges {
    /// By pack, pairs of a frame and a base in the order of frames. Empty if the directory can't be read: what is wrong
    /// with it is not for this to say.
    packs: HashMap<u32, Vec<(u32, u32)>>,
    pairs: u64,
}

/// Bases that are neither cached nor among the frames that need them.
#[derive(Default)]
pub(super) struct Bases {
    /// Each once, with the number of the first frame that needs it, directly or not.
    pub(super) found: Vec<(usize, Span)>,
    /// Deltas among them and among the frames whose bases are not known.
    pub(super) unknown: Vec<u32>,
    /// Whether there are more for which there is no room.
    pub(super) is_cut: bool,
}

impl Edges {
    /// Returns bases of frames, and of bases, of at most so many bytes. Those that are missing are found when the
    /// frames are here, as are those of packs of which little is needed: their directories are not worth a request.
    /// Reads directories, and keeps about so many bytes of them.
    pub(super) fn bases(&mut self, from: FrameSource<'_>, spans: &[Span], most: u64, room: u64) -> Bases {
        let mut met: HashSet<u32> = spans.iter().map(|span| span.frame).collect();
        let deltas = spans.iter().copied().enumerate();
        let mut deltas: Vec<(usize, Span)> = deltas.filter(|(_, span)| span.depth > 0).collect();
        let (mut bases, mut bytes) = (Bases::default(), 0);
        while !deltas.is_empty() {
            self.read(from, &deltas, room);
            let mut deeper = Vec::new();
            for (rank, delta) in &deltas {
                if !self.packs.contains_key(&delta.pack) {
                    bases.unknown.push(delta.frame);
                }
                for base in self.bases_of(delta) {
                    if from.has(base) || !met.insert(base) {
                        continue;
                    }
                    let Some(span) = Span::of(from, base).filter(|span| span.depth < delta.depth) else {
                        continue;
                    };
                    bytes += u64::from(span.length);
                    if bytes > most {
                        bases.is_cut = true;
                        return bases;
                    }
                    bases.found.push((*rank, span));
                    if span.depth > 0 {
                        deeper.push((*rank, span));
                    }
                }
            }
            deltas = deeper;
        }
        bases
    }

    fn bases_of(&self, delta: &Span) -> impl Iterator<Item = u32> + '_ {
        let frame = delta.frame;
        let pairs = self.packs.get(&delta.pack).map_or(&[][..], Vec::as_slice);
        let first = pairs.partition_point(|(of, _)| *of < frame);
        let of_frame = pairs[first..].iter().take_while(move |(of, _)| *of == frame);
        of_frame.map(|(_, base)| *base)
    }

    /// Reads the directories of the packs that have most of these frames.
    fn read(&mut self, from: FrameSource<'_>, deltas: &[(usize, Span)], room: u64) {
        let mut wanted: BTreeMap<u32, u64> = BTreeMap::new();
        for (_, delta) in deltas {
            if !delta.is_kept && !self.packs.contains_key(&delta.pack) {
                *wanted.entry(delta.pack).or_default() += u64::from(delta.length);
            }
        }
        let is_worth_it =
            |&(pack, bytes): &(u32, u64)| bytes >= GAP_MAX + from.loaded.index.directory_length(from.files, pack);
        let wanted: Vec<u32> = wanted.into_iter().filter(is_worth_it).map(|(pack, _)| pack).collect();
        let mut rest = &wanted[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |&&pack: &&u32| {
                bytes += from.loaded.index.directory_length(from.files, pack);
                bytes <= TOGETHER
            };
            let count = rest.iter().take(REQUESTS).take_while(fits).count().max(1);
            let (group, others) = rest.split_at(count);
            rest = others;
            for (&pack, pairs) in group.iter().zip(each(true, group, |&pack| pairs(from, pack))) {
                self.pairs += pairs.len() as u64;
                self.packs.insert(pack, pairs);
            }
            if self.pairs * EACH > room {
                // Those that these frames need come again if others need them.
                let needed: HashSet<u32> = deltas.iter().map(|(_, delta)| delta.pack).collect();
                self.packs.retain(|pack, _| needed.contains(pack));
                self.pairs = self.packs.values().map(|pairs| pairs.len() as u64).sum();
            }
        }
    }
}

/// Returns the frames of a pack, each with each frame that it needs.
fn pairs(from: FrameSource<'_>, pack: u32) -> Vec<(u32, u32)> {
    let Ok(directory) = from.loaded.index.read_directory(from.files, pack) else {
        return Vec::new();
    };
    let mut pairs = Vec::new();
    for number in from.loaded.index.frames_of(pack) {
        let frame = from.loaded.index.frame(number);
        let bases = bases_of(&directory, frame.offset)
            .iter()
            .filter_map(|&base| find_base(from.loaded, base, frame.depth));
        pairs.extend(bases.map(|place| (number, place.frame)));
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}
