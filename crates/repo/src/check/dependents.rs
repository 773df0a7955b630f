//! Lost and damaged frames, reported once per cause, and the frames that depend on them.

use std::collections::{BTreeMap, HashMap, HashSet};

use ibid_format::index::IndexedChunk;
use ibid_format::run::ShortId;
use ibid_format::{ChunkPrefix, FileId};

use super::checking::{Cause, Checking, Damage};
use super::report::Unfinished;
use super::trees::Lost;
use crate::Result;
use crate::index::{Dependencies, NumberSet, PairSorter, Pairs};
use crate::layout::{folder, name_in};
use crate::scratch::Bits;

/// Bases that delta frames lack.
pub(super) struct MissingBases {
    dependencies: Dependencies,
    in_missing_packs: InMissingPacks,
    lacking: Lacking,
}

/// Frames whose bases are in no known pack.
#[derive(Default)]
struct Lacking {
    frames: NumberSet,
    /// One of these bases for each of their packs, by its number.
    bases: BTreeMap<u32, ChunkPrefix>,
}

/// Bases that were in missing packs.
struct InMissingPacks {
    /// Pairs of a missing pack's position among them and a frame encoded against a chunk in it.
    frames: Pairs,
    /// Positions of such bases among [those that can't be read](Dependencies::missing_base).
    bases: Bits,
}

impl MissingBases {
    /// Returns the number of frames that depend on the missing pack at this position.
    fn dependents_of_pack(&mut self, pack: u32) -> Result<u64> {
        let mut search = self.dependencies.search();
        let frames = &mut self.in_missing_packs.frames;
        let mut at = frames.start(pack)?;
        while let Some(frame) = frames.second(at, pack)? {
            search.frame(frame, &mut |_| ())?;
            at += 1;
        }
        Ok(search.found())
    }
}

/// Returns a number with its noun.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Returns a phrase with the number of frames that depend on a fault already named.
fn dependents_text(count: u64) -> String {
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
        let mut dependencies = if lacks && self.loaded.index.has_deltas() {
            Dependencies::read(&self.scratch, self.loaded, damage.wrong.as_mut(), self.monitor)?
        } else {
            Dependencies::none(&self.scratch)?
        };
        let mut in_missing_packs = self.bases_in_missing_packs(&mut dependencies)?;
        let causes = std::mem::take(&mut damage.causes);
        let numbers = self.numbers(&causes);
        for ((pack, offset), cause) in causes {
            // `None` for a frame that a concurrent backup has just stored.
            let number = numbers.get(&(pack, offset)).copied();
            let mut search = dependencies.search();
            let problem = match cause {
                Cause::Frame(problem) => {
                    if let Some(number) = number {
                        damage.frames.insert(number);
                        search.dependents_of_frame(number, &mut |frame| damage.explain(frame))?;
                    }
                    problem
                }
                Cause::Chunks(problem) => {
                    if let Some(number) = number {
                        search.dependents_of_chunks(number, &mut |frame| damage.explain(frame))?;
                    }
                    problem
                }
            };
            let object = name_in(folder::PACKS, pack);
            self.fault(object, problem + &dependents_text(search.found()));
        }
        self.count_more_causes(&mut dependencies, &mut damage)?;
        let lacking = self.lacking_bases(&mut dependencies, &mut in_missing_packs)?;
        dependencies
            .search()
            .lacking_bases(&mut |frame| damage.explain(frame))?;
        for (number, problem) in std::mem::take(&mut damage.unexplained) {
            let frame = self.loaded.index.frame(number);
            let object = name_in(folder::PACKS, self.loaded.index.pack(frame.pack).id);
            self.fault(object, format!("at offset {}: {problem}", frame.offset));
        }
        Ok(MissingBases {
            dependencies,
            in_missing_packs,
            lacking,
        })
    }

    /// Counts the causes beyond those that are listed, and finds all frames that depend on them.
    fn count_more_causes(&self, dependencies: &mut Dependencies, damage: &mut Damage) -> Result<()> {
        let frames = std::mem::take(&mut damage.more_causes);
        let mut search = dependencies.search();
        for number in frames.iter() {
            self.more_faults(1);
            if damage.frames.contains(number) {
                search.dependents_of_frame(number, &mut |frame| damage.explain(frame))?;
            } else {
                search.dependents_of_chunks(number, &mut |frame| damage.explain(frame))?;
            }
        }
        Ok(())
    }

    /// Finds frames whose bases are in no known pack.
    fn lacking_bases(&self, dependencies: &mut Dependencies, in_missing_packs: &mut InMissingPacks) -> Result<Lacking> {
        let index = &self.loaded.index;
        let mut found = Lacking::default();
        for at in 0..dependencies.missing_bases() {
            if !in_missing_packs.bases.contains(at)? {
                let (base, frame) = dependencies.missing_base(at)?;
                found.frames.insert(frame);
                found.bases.entry(index.frame(frame).pack).or_insert(base);
            }
        }
        Ok(found)
    }

    /// Reports frames whose bases are in no known pack, and counts those that do no harm: neither a snapshot nor
    /// a later backup needs them.
    pub(super) fn orphans(&self, lost: &Lost, missing: &mut MissingBases, unfinished: &mut Unfinished) -> Result<()> {
        let index = &self.loaded.index;
        let needed = self.needed_frames(lost, unfinished)?;
        let Lacking { frames, bases } = std::mem::take(&mut missing.lacking);
        for (number, base) in bases {
            let mut search = missing.dependencies.search();
            let (mut is_needed, mut count) = (false, 0);
            for frame in index.frames_of(number).filter(|&frame| frames.contains(frame)) {
                search.frame(frame, &mut |frame| is_needed |= needed.contains(frame))?;
                count += 1;
            }
            let problem = format!(
                "{count} of its frames are encoded against chunks that are in no pack, or only in deeper frames, \
                 such as {base}…{}",
                dependents_text(search.found() - count),
            );
            let pack = index.pack(number).id;
            let object = name_in(folder::PACKS, pack);
            // A prune has ended the backup that stored it, or a backup stored its packs while they were listed.
            // A backup relies on what a trusted index file lists, so there it is a fault.
            if !is_needed && self.loaded.unlisted.iter().any(|(unlisted, _)| *unlisted == pack) {
                let known = if lost.perhaps_more { " that can be read" } else { "" };
                self.note(object, format!("{problem}; no snapshot{known} needs them"));
            } else {
                self.fault(object, problem);
            }
        }
        Ok(())
    }

    /// Returns the frames with chunks that snapshots need and that can't be decoded because of a base. Counts those
    /// that neither they nor a later backup need.
    fn needed_frames(&self, lost: &Lost, unfinished: &mut Unfinished) -> Result<NumberSet> {
        let index = &self.loaded.index;
        let mut needed = NumberSet::default();
        for frame in lost.frames.iter() {
            needed.insert(frame);
        }
        if index.lost().is_empty() {
            return Ok(needed);
        }
        for (number, _) in index.packs() {
            let range = index.frames_of(number);
            let is_orphan = |frame: &u32| index.lost().contains(*frame) && !index.is_cut_off(&index.frame(*frame));
            let orphans: Vec<u32> = range.clone().filter(is_orphan).collect();
            if orphans.is_empty() {
                continue;
            }
            let summary = match index.read_directory(&self.repository.files, number) {
                Ok(summary) => summary,
                // That was reported: what is in it is not known.
                Err(error) if error.is_fault() => continue,
                Err(error) => return Err(error),
            };
            for frame in orphans {
                let Some(listed) = summary.frames.get((frame - range.start) as usize) else {
                    continue;
                };
                let mut is_needed = false;
                for blob in &listed.blobs {
                    is_needed |= lost.chunks.contains(ShortId::of(&blob.id))?;
                }
                if is_needed {
                    needed.insert(frame);
                } else {
                    unfinished.orphaned_frames += 1;
                    unfinished.orphaned_bytes += u64::from(listed.sealed);
                }
            }
        }
        Ok(needed)
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
    fn bases_in_missing_packs(&self, dependencies: &mut Dependencies) -> Result<InMissingPacks> {
        let mut frames = PairSorter::new(&self.scratch);
        let mut bases = Bits::new(&self.scratch, dependencies.missing_bases())?;
        if dependencies.missing_bases() > 0 {
            self.each_missing(|pack, entry| {
                dependencies.each_lacking(entry.id.prefix(), |at, frame| {
                    bases.insert(at)?;
                    frames.push(pack, frame)
                })
            })?;
        }
        Ok(InMissingPacks {
            frames: frames.finish()?,
            bases,
        })
    }

    /// Calls `each` for every chunk that an index file lists in a missing pack or in a missing part of one,
    /// with that pack's position among those that are missing.
    fn each_missing(&self, mut each: impl FnMut(u32, &IndexedChunk) -> Result<()>) -> Result<()> {
        let missing = self.loaded.missing_packs();
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
            missing.each_chunk(&file, |pack, entry, _| each(pack, entry))?;
        }
        Ok(())
    }

    /// Reports packs that an index file lists but that are missing or cut short. Missing ones are no
    /// fault if their contents were stored again, or if no snapshot needs them. Returns the packs that
    /// nothing at all needs.
    pub(super) fn missing(&self, lost: &Lost, lacking_bases: &mut MissingBases) -> Result<Vec<FileId>> {
        let mut unneeded = Vec::new();
        let needed = self.needed(lost)?;
        let loses = lost.perhaps_more || lost.is_any;
        for (pack, at) in self.loaded.missing.iter().zip(0..) {
            let name = name_in(folder::PACKS, pack.id);
            let mut problem = match pack.found {
                None => format!("expected {} bytes, found nothing", pack.expected),
                Some(found) => {
                    let gone = counted(pack.expected - found, "byte is", "bytes are");
                    format!(
                        "{gone} missing at its end: expected {} bytes, found {found}",
                        pack.expected
                    )
                }
            };
            let dependents = lacking_bases.dependents_of_pack(at)?;
            problem += &dependents_text(dependents);
            let number = self.loaded.index.find_pack(pack.id);
            let has_frames = number.is_some_and(|number| self.loaded.index.cut_to(number).is_some());
            if has_frames || needed.contains(&at) || (dependents > 0 && loses) {
                self.fault(name, problem);
            } else {
                unneeded.extend((dependents == 0).then_some(pack.id));
                self.note(name, format!("{problem}; no snapshot needs what was only there"));
            }
        }
        Ok(unneeded)
    }

    /// Returns the positions of the missing packs that held lost chunks, according to the index files.
    fn needed(&self, lost: &Lost) -> Result<HashSet<u32>> {
        let mut needed = HashSet::new();
        self.each_missing(|pack, entry| {
            let is_lost = || match lost.perhaps_more {
                true => Ok(self.loaded.index.get(&entry.id).is_none()),
                false => lost.chunks.contains(ShortId::of(&entry.id)),
            };
            if !needed.contains(&pack) && is_lost()? {
                needed.insert(pack);
            }
            Ok(())
        })?;
        Ok(needed)
    }
}
