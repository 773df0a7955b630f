//! Lost and damaged frames, reported once per cause, and the frames that depend on them.

use std::collections::{BTreeMap, HashMap, HashSet};

use ibid_format::index::IndexedChunk;
use ibid_format::{ChunkPrefix, FileId};

use super::checking::{Cause, Checking, Damage};
use super::trees::Lost;
use crate::Result;
use crate::index::Dependencies;
use crate::layout::{folder, name_in};

/// Bases that delta frames lack.
#[derive(Default)]
pub(super) struct MissingBases {
    dependencies: Dependencies,
    /// Bases that were in missing packs, with the pack.
    in_missing_packs: HashMap<ChunkPrefix, FileId>,
}

impl MissingBases {
    /// Returns the number of frames that depend on a missing pack.
    fn dependents_of_pack(&self, pack: FileId) -> usize {
        let was_there = |base| self.in_missing_packs.get(base) == Some(&pack);
        let unknown = self
            .dependencies
            .missing_bases()
            .iter()
            .filter(|(base, _)| was_there(base));
        self.dependencies.dependents(unknown.map(|&(_, frame)| frame)).len()
    }
}

/// Returns a phrase with the number of frames that depend on a fault already named.
fn dependents_text(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "; 1 other frame is stored as a delta against it".to_owned(),
        count => format!("; {count} other frames are stored as deltas against it"),
    }
}

impl Checking<'_> {
    /// Reports unreadable frames, once per cause, and finds all frames that depend on them.
    pub(super) fn causes(&self) -> Result<MissingBases> {
        let mut damage = self.damage();
        let lacks = damage.lacks_bases || !damage.causes.is_empty() || !self.loaded.index.lost().is_empty();
        let dependencies = if lacks && self.loaded.index.has_deltas() {
            Dependencies::read(&self.repository.files, self.loaded, &damage.places, self.monitor)?
        } else {
            Dependencies::default()
        };
        let in_missing_packs = self.bases_in_missing_packs(&dependencies)?;
        let causes = std::mem::take(&mut damage.causes);
        let numbers = self.numbers(&causes);
        for ((pack, offset), cause) in causes {
            // `None` for a frame that a concurrent backup has just stored.
            let number = numbers.get(&(pack, offset)).copied();
            let (problem, on): (_, Vec<u32>) = match cause {
                Cause::Frame(problem) => {
                    damage.frames.extend(number);
                    (
                        problem,
                        number
                            .into_iter()
                            .flat_map(|frame| dependencies.direct_dependents(frame))
                            .collect(),
                    )
                }
                Cause::Chunks(problem) => {
                    let places = damage.places.iter().filter(|place| Some(place.frame) == number);
                    (
                        problem,
                        places
                            .flat_map(|&place| dependencies.dependents_of_chunk(place))
                            .collect(),
                    )
                }
            };
            let dependents = dependencies.dependents(on);
            self.fault(
                name_in(folder::PACKS, pack),
                problem + &dependents_text(dependents.len()),
            );
            damage.explain(dependents);
        }
        self.report_missing_bases(&dependencies, &in_missing_packs, &mut damage);
        for (number, problem) in std::mem::take(&mut damage.unexplained) {
            let frame = self.loaded.index.frame(number);
            let object = name_in(folder::PACKS, self.loaded.index.pack(frame.pack).id);
            self.fault(object, format!("at offset {}: {problem}", frame.offset));
        }
        Ok(MissingBases {
            dependencies,
            in_missing_packs,
        })
    }

    /// Reports frames whose bases are in no known pack.
    fn report_missing_bases(
        &self,
        dependencies: &Dependencies,
        in_missing_packs: &HashMap<ChunkPrefix, FileId>,
        damage: &mut Damage,
    ) {
        let index = &self.loaded.index;
        let mut by_pack = BTreeMap::<u32, (ChunkPrefix, HashSet<u32>)>::new();
        for &(base, frame) in dependencies.missing_bases() {
            if in_missing_packs.contains_key(&base) {
                continue;
            }
            let pack = index.frame(frame).pack;
            let lacking_bases = by_pack.entry(pack).or_insert_with(|| (base, HashSet::new()));
            lacking_bases.1.insert(frame);
        }
        for (pack, (base, frames)) in by_pack {
            let pack = index.pack(pack).id;
            let dependents = dependencies.dependents(frames.iter().copied());
            let problem = format!(
                "{} of its frames are encoded against chunks that are in no pack, or only in deeper frames, \
                 such as {base}…{}",
                frames.len(),
                dependents_text(dependents.len() - frames.len()),
            );
            damage.explain(dependents);
            let object = name_in(folder::PACKS, pack);
            // A concurrent backup may have stored these packs while they were being listed.
            if self.loaded.unlisted.iter().any(|(unlisted, _)| *unlisted == pack) {
                self.note(object, problem);
            } else {
                self.fault(object, problem);
            }
        }
        let rest = dependencies.missing_bases().iter().map(|&(_, frame)| frame);
        damage.explain(dependencies.dependents(rest));
    }

    /// Returns the numbers of frames by pack and offset.
    fn numbers(&self, causes: &BTreeMap<(FileId, u32), Cause>) -> HashMap<(FileId, u32), u32> {
        if causes.is_empty() {
            return HashMap::new();
        }
        let index = &self.loaded.index;
        let mut numbers = HashMap::new();
        for (number, pack) in index.packs() {
            let of_pack = (pack.id, 0)..=(pack.id, u32::MAX);
            if causes.range(of_pack).next().is_none() {
                continue;
            }
            let frames = index
                .frames_of(number)
                .map(|frame| ((pack.id, index.frame(frame).offset), frame));
            numbers.extend(frames.filter(|(at, _)| causes.contains_key(at)));
        }
        numbers
    }

    /// Finds the missing packs that held unknown bases.
    fn bases_in_missing_packs(&self, dependencies: &Dependencies) -> Result<HashMap<ChunkPrefix, FileId>> {
        let unknown: HashSet<ChunkPrefix> = dependencies.missing_bases().iter().map(|(base, _)| *base).collect();
        let mut in_missing_packs = HashMap::new();
        if !unknown.is_empty() {
            self.each_missing(|pack, entry| {
                let base = entry.id.prefix();
                if unknown.contains(&base) {
                    in_missing_packs.insert(base, pack);
                }
            })?;
        }
        Ok(in_missing_packs)
    }

    /// Calls `each` for every chunk that an index file lists in a missing pack.
    fn each_missing(&self, mut each: impl FnMut(FileId, &IndexedChunk)) -> Result<()> {
        let missing: HashSet<FileId> = self.loaded.missing.iter().map(|pack| pack.id).collect();
        if missing.is_empty() {
            return Ok(());
        }
        for (id, _) in self.repository.files.list(folder::INDEX)? {
            self.monitor.check_cancelled()?;
            let file = match self.repository.files.read_index(id) {
                Ok(file) => file,
                // The damage was reported when the index was loaded, or a concurrent backup has
                // removed the file.
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

    /// Reports packs that an index file lists but that are missing or have another size. They are
    /// no fault if their contents were stored again, or if no snapshot needs them.
    pub(super) fn missing(&self, lost: &Lost, lacking_bases: &MissingBases) -> Result<()> {
        let needed = self.needed(lost)?;
        let loses = lost.perhaps_more || !lost.chunks.is_empty();
        for pack in &self.loaded.missing {
            let name = name_in(folder::PACKS, pack.id);
            let found = pack
                .found
                .map_or_else(|| "nothing".to_owned(), |size| format!("{size} bytes"));
            let mut problem = format!("expected {} bytes, found {found}", pack.expected);
            let dependents = lacking_bases.dependents_of_pack(pack.id);
            problem += &dependents_text(dependents);
            if needed.contains(&pack.id) || (dependents > 0 && loses) {
                self.fault(name, problem);
            } else {
                self.note(name, format!("{problem}; no snapshot needs what was only there"));
            }
        }
        Ok(())
    }

    /// Returns the missing packs that held lost chunks, according to the index files.
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
