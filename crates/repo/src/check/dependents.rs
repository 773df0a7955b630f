//! What is lost or damaged, once for each cause, and what hangs on it.

use std::collections::{BTreeMap, HashMap, HashSet};

use ibid_format::index::IndexedChunk;
use ibid_format::{ChunkPrefix, FileId};

use super::checking::{Bad, Cause, Checking};
use super::trees::Lost;
use crate::Result;
use crate::index::Edges;
use crate::layout::{folder, name_in};

/// What frames lack that are encoded against something.
#[derive(Default)]
pub(super) struct Lacking {
    edges: Edges,
    /// Bases that were in packs which are not there, and in which.
    gone: HashMap<ChunkPrefix, FileId>,
}

impl Lacking {
    /// How many frames hang on a pack that is not there.
    fn on_pack(&self, pack: FileId) -> usize {
        let was_there = |base| self.gone.get(base) == Some(&pack);
        let unknown = self.edges.unknown().iter().filter(|(base, _)| was_there(base));
        self.edges.hanging(unknown.map(|&(_, frame)| frame)).len()
    }
}

/// How many frames hang on what was named before.
fn hang_text(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "; one frame hangs on it".to_owned(),
        count => format!("; {count} frames hang on it"),
    }
}

impl Checking<'_> {
    /// Says which frames can't be read and why, each cause once, and finds all that hang on them.
    pub(super) fn causes(&self) -> Result<Lacking> {
        let mut bad = self.bad();
        let lacks = bad.lacks_bases || !bad.causes.is_empty() || !self.loaded.lost.is_empty();
        let edges = if lacks && self.loaded.index.has_deltas() {
            Edges::read(&self.repository.files, self.loaded, &bad.places, self.monitor)?
        } else {
            Edges::default()
        };
        let gone = self.gone(&edges)?;
        let causes = std::mem::take(&mut bad.causes);
        let numbers = self.numbers(&causes);
        for ((pack, offset), cause) in causes {
            // None for one that a backup at work has just stored.
            let number = numbers.get(&(pack, offset)).copied();
            let (problem, on): (_, Vec<u32>) = match cause {
                Cause::Frame(problem) => {
                    bad.frames.extend(number);
                    (
                        problem,
                        number.into_iter().flat_map(|frame| edges.on_frame(frame)).collect(),
                    )
                }
                Cause::Chunks(problem) => {
                    let places = bad.places.iter().filter(|place| Some(place.frame) == number);
                    (problem, places.flat_map(|&place| edges.on_place(place)).collect())
                }
            };
            let hanging = edges.hanging(on);
            self.fault(name_in(folder::PACKS, pack), problem + &hang_text(hanging.len()));
            bad.explain(hanging);
        }
        self.lacking(&edges, &gone, &mut bad);
        for (number, problem) in std::mem::take(&mut bad.unexplained) {
            let frame = self.loaded.index.frame(number);
            let object = name_in(folder::PACKS, self.loaded.index.pack(frame.pack).id);
            self.fault(object, format!("at offset {}: {problem}", frame.offset));
        }
        Ok(Lacking { edges, gone })
    }

    /// Frames that are encoded against chunks which were in no pack that anybody knows of.
    fn lacking(&self, edges: &Edges, gone: &HashMap<ChunkPrefix, FileId>, bad: &mut Bad) {
        let index = &self.loaded.index;
        let mut by_pack = BTreeMap::<u32, (ChunkPrefix, HashSet<u32>)>::new();
        for &(base, frame) in edges.unknown() {
            if gone.contains_key(&base) {
                continue;
            }
            let pack = index.frame(frame).pack;
            let lacking = by_pack.entry(pack).or_insert_with(|| (base, HashSet::new()));
            lacking.1.insert(frame);
        }
        for (pack, (base, frames)) in by_pack {
            let pack = index.pack(pack).id;
            let hanging = edges.hanging(frames.iter().copied());
            let problem = format!(
                "{} of its frames are encoded against chunks that are in no pack, or in deeper frames only, such as {base}…{}",
                frames.len(),
                hang_text(hanging.len() - frames.len()),
            );
            bad.explain(hanging);
            let object = name_in(folder::PACKS, pack);
            // A backup may be at work, whose packs were listed while it stored them.
            if self.loaded.unlisted.iter().any(|unlisted| unlisted.id == pack) {
                self.note(object, problem);
            } else {
                self.fault(object, problem);
            }
        }
        let rest = edges.unknown().iter().map(|&(_, frame)| frame);
        bad.explain(edges.hanging(rest));
    }

    /// The numbers of frames, by pack and offset.
    fn numbers(&self, causes: &BTreeMap<(FileId, u32), Cause>) -> HashMap<(FileId, u32), u32> {
        if causes.is_empty() {
            return HashMap::new();
        }
        let index = &self.loaded.index;
        let frames = index.frames.iter().zip(0..);
        let at = frames.map(|(frame, number)| ((index.pack(frame.pack).id, frame.offset), number));
        at.filter(|(at, _)| causes.contains_key(at)).collect()
    }

    /// Which missing packs had the bases that are unknown.
    fn gone(&self, edges: &Edges) -> Result<HashMap<ChunkPrefix, FileId>> {
        let unknown: HashSet<ChunkPrefix> = edges.unknown().iter().map(|(base, _)| *base).collect();
        let mut gone = HashMap::new();
        if !unknown.is_empty() {
            self.each_missing(|pack, entry| {
                let base = entry.id.prefix();
                if unknown.contains(&base) {
                    gone.insert(base, pack);
                }
            })?;
        }
        Ok(gone)
    }

    /// Every chunk that an index file says is in a pack that is not there.
    fn each_missing(&self, mut each: impl FnMut(FileId, &IndexedChunk)) -> Result<()> {
        let missing: HashSet<FileId> = self.loaded.missing.iter().map(|pack| pack.id).collect();
        if missing.is_empty() {
            return Ok(());
        }
        for (id, _) in self.repository.files.list(folder::INDEX)? {
            self.monitor.check_cancelled()?;
            let file = match self.repository.files.read_index(id) {
                Ok(file) => file,
                // Damage was named when the index was loaded, and another backup may have taken a file away.
                Err(error) if error.is_fault() => continue,
                Err(error) => return Err(error),
            };
            let packs: Vec<_> = file.packs().collect();
            if packs.iter().all(|pack| !missing.contains(&pack.id)) {
                continue;
            }
            for entry in file.entries() {
                let at = packs.partition_point(|pack| pack.first_frame <= entry.frame);
                if let Some(pack) = at.checked_sub(1).map(|at| packs[at].id)
                    && missing.contains(&pack)
                {
                    each(pack, &entry);
                }
            }
        }
        Ok(())
    }

    /// Packs that an index file lists and that are not there as they should be. What was in them
    /// may have been stored again since, or nobody may need it any more: then they are no
    /// fault.
    pub(super) fn missing(&self, lost: &Lost, lacking: &Lacking) -> Result<()> {
        let needed = self.needed(lost)?;
        let loses = lost.perhaps_more || !lost.chunks.is_empty();
        for pack in &self.loaded.missing {
            let name = name_in(folder::PACKS, pack.id);
            let found = pack
                .found
                .map_or_else(|| "nothing".to_owned(), |size| format!("{size} bytes"));
            let mut problem = format!("expected {} bytes, found {found}", pack.expected);
            let hanging = lacking.on_pack(pack.id);
            problem += &hang_text(hanging);
            if needed.contains(&pack.id) || (hanging > 0 && loses) {
                self.fault(name, problem);
            } else {
                self.note(name, format!("{problem}; no snapshot needs what was only there"));
            }
        }
        Ok(())
    }

    /// Missing packs that held something which is lost, by the index files that list them.
    fn needed(&self, lost: &Lost) -> Result<HashSet<FileId>> {
        let mut needed = HashSet::new();
        self.each_missing(|pack, entry| {
            let is_lost = || match lost.perhaps_more {
                true => self.loaded.index.get(&entry.id).is_none(),
                false => lost.chunks.contains(&entry.id),
            };
            if !needed.contains(&pack) && is_lost() {
                needed.insert(pack);
            }
        })?;
        Ok(needed)
    }
}
