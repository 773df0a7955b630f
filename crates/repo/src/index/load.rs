//! Loads the index files into memory, and finds what they miss.
//!
//! The packs are authoritative; index files only speed up finding them. A pack that no readable
//! index file lists (the backup was killed, or the index file is damaged) is added from its
//! directory. A listed pack that is missing is ignored: its chunks count as unknown, and so do
//! those of its direct and indirect dependents. The next backup stores them again.

use std::collections::{HashMap, HashSet};

use ibid_format::pack::PackSummary;
use ibid_format::{FileId, index as index_file};
use ibid_storage::Name;

use super::dependencies::Dependencies;
use super::loaded::{LoadedIndex, MissingPack};
use super::memory::{Frame, Pack, Place};
use crate::files::Files;
use crate::layout::{folder, name_in};
use crate::{Error, Monitor, Result, Warning, budget};

/// Frames to ignore, each by its pack and offset.
type Lost = HashSet<(FileId, u32)>;

impl LoadedIndex {
    /// Loads the index within `budget` bytes of memory.
    pub(crate) fn load(files: &Files, budget: u64, monitor: &Monitor) -> Result<LoadedIndex> {
        let mut lost = Lost::new();
        let mut loaded = LoadedIndex::load_without(files, budget, &lost, Vec::new(), monitor)?;
        while loaded.lacks_packs() && loaded.index.has_deltas() {
            let dependencies = Dependencies::read(files, &loaded, &HashSet::new(), monitor)?;
            let dependents = dependencies.dependents(dependencies.missing_bases().iter().map(|&(_, frame)| frame));
            let known = lost.len();
            lost.extend(dependents.into_iter().map(|number| {
                let frame = loaded.index.frame(number);
                (loaded.index.pack(frame.pack).id, frame.offset)
            }));
            if lost.len() == known {
                break;
            }
            // Load again without the lost frames, since another frame may hold a copy of their
            // chunks. All lost frames are found now: the bases of the others stay where they are,
            // unless another process has stored or removed packs meanwhile.
            let packs = loaded.packs();
            loaded = LoadedIndex::load_without(files, budget, &lost, loaded.unlisted, monitor)?;
            if loaded.packs() == packs {
                break;
            }
        }
        Ok(loaded)
    }

    /// Loads the index without the `lost` frames. `unlisted` are directories that were read before.
    fn load_without(
        files: &Files,
        budget: u64,
        lost: &Lost,
        unlisted: Vec<PackSummary>,
        monitor: &Monitor,
    ) -> Result<LoadedIndex> {
        // List index files before packs: a pack is stored before any index file lists it, so a
        // listed pack that is not found is missing.
        let index_files = files.list(folder::INDEX)?;
        let packs: HashMap<FileId, u64> = files.list(folder::PACKS)?.into_iter().collect();
        let mut loading = Loading {
            files,
            budget,
            packs,
            numbers: HashMap::new(),
            lost,
            directories: unlisted.into_iter().map(|pack| (pack.id, pack)).collect(),
            loaded: LoadedIndex::empty(),
        };
        for (id, size) in index_files {
            monitor.check_cancelled()?;
            loading.loaded.index_bytes += size;
            if let Err(error) = loading.index_file(id) {
                loading.note_damage(name_in(folder::INDEX, id), error, monitor)?;
            }
            budget::check(budget, loading.loaded.index.bytes(), 0)?;
        }
        loading.unlisted_packs(monitor)?;
        loading.loaded.index.frames.shrink_to_fit();
        Ok(loading.loaded)
    }
}

struct Loading<'a> {
    files: &'a Files,
    /// Memory for index and buffers, bytes.
    budget: u64,
    /// Stored packs, with their sizes in bytes.
    packs: HashMap<FileId, u64>,
    /// Number of the first frame of each listed pack, `None` if the pack is missing.
    numbers: HashMap<FileId, Option<u32>>,
    lost: &'a Lost,
    /// Directories of unlisted packs that were read before.
    directories: HashMap<FileId, PackSummary>,
    loaded: LoadedIndex,
}

impl Loading<'_> {
    /// Records damage of one file, so that loading goes on without it. Any other error (no
    /// permission, memory) ends the operation.
    fn note_damage(&mut self, what: Name, error: Error, monitor: &Monitor) -> Result<()> {
        if !error.is_fault() {
            return Err(error);
        }
        self.loaded.damaged.push((what, error.problem()));
        // The second pass does not report it again.
        if self.lost.is_empty() {
            monitor.warn(Warning::Repository { error });
        }
        Ok(())
    }

    fn index_file(&mut self, id: FileId) -> Result<()> {
        let file = self.files.read_index(id)?;
        let packs: Vec<_> = file.packs().collect();
        let frames: Vec<_> = file.frames().collect();
        let frames_of = |n: usize| {
            let end = packs.get(n + 1).map_or(frames.len(), |next| next.first_frame as usize);
            &frames[packs[n].first_frame as usize..end]
        };
        // Compare all packs before adding any: a file that contradicts another, or itself, is
        // ignored as a whole.
        let mut listed_here = HashSet::new();
        for (n, listed) in packs.iter().enumerate() {
            if !listed_here.insert(listed.id) || !self.agrees(listed, frames_of(n)) {
                return Err(Error::Contradiction {
                    index: id,
                    pack: listed.id,
                });
            }
        }
        // Number of every frame of the file, or `None` if its pack is missing or it is lost.
        let mut numbers = Vec::with_capacity(frames.len());
        for (n, listed) in packs.iter().enumerate() {
            let frames = frames_of(n);
            let known = self.numbers.get(&listed.id).copied();
            let start = match known {
                Some(start) => start,
                None => {
                    let pack = Pack {
                        id: listed.id,
                        kind: listed.kind,
                        size: listed.size,
                    };
                    let start = self.add_pack(pack, frames);
                    self.numbers.insert(listed.id, start);
                    start
                }
            };
            let believed = |number: &u32| !self.loaded.lost.contains(number);
            let number = |k| start.map(|start| start + k).filter(believed);
            numbers.extend((0..frames.len() as u32).map(number));
        }
        for entry in file.entries() {
            if let Some(frame) = numbers[entry.frame as usize] {
                let slot = entry.slot;
                self.loaded.index.insert_stored(&entry.id, Place { frame, slot })?;
            }
        }
        Ok(())
    }

    /// Returns whether a listed pack matches everything known about it.
    fn agrees(&self, listed: &index_file::IndexedPack, frames: &[index_file::IndexedFrame]) -> bool {
        let Some(Some(start)) = self.numbers.get(&listed.id) else {
            return true;
        };
        let index = &self.loaded.index;
        let of_pack = |frame: &&Frame| index.packs[frame.pack as usize].id == listed.id;
        let known = index.frames[*start as usize..].iter().take_while(of_pack);
        self.packs.get(&listed.id) == Some(&listed.size)
            && known
                .map(|frame| (frame.offset, frame.sealed, frame.length, frame.blobs, frame.depth))
                .eq(frames
                    .iter()
                    .map(|frame| (frame.offset, frame.sealed, frame.length, frame.blobs, frame.depth)))
    }

    /// Adds a pack's frames; returns the number of the first, or `None` if the pack is missing or
    /// has another size.
    fn add_pack(&mut self, pack: Pack, frames: &[index_file::IndexedFrame]) -> Option<u32> {
        let Pack { id, size, .. } = pack;
        let found = self.packs.get(&id).copied();
        if found != Some(size) {
            self.loaded.missing.push(MissingPack {
                id,
                expected: size,
                found,
            });
            return None;
        }
        let start = self.loaded.index.add_pack(pack, frames);
        let is_lost = |frame: &index_file::IndexedFrame| self.lost.contains(&(id, frame.offset));
        let lost = frames.iter().zip(start..).filter(|(frame, _)| is_lost(frame));
        self.loaded.lost.extend(lost.map(|(_, number)| number));
        Some(start)
    }

    /// Adds packs that no index file lists, from their own directories.
    fn unlisted_packs(&mut self, monitor: &Monitor) -> Result<()> {
        let mut unlisted: Vec<_> = self
            .packs
            .iter()
            .filter(|(id, _)| !self.numbers.contains_key(id))
            .map(|(id, size)| (*id, *size))
            .collect();
        unlisted.sort_unstable();
        for (id, size) in unlisted {
            monitor.check_cancelled()?;
            let directory = match self.directories.remove(&id) {
                Some(directory) => Ok(directory),
                None => self.files.read_directory(id, size),
            };
            match directory {
                Ok(summary) => {
                    let frames: Vec<_> = summary.frames.iter().map(index_file::IndexedFrame::from).collect();
                    let kind = summary.kind;
                    if let Some(start) = self.add_pack(Pack { id, kind, size }, &frames) {
                        for (frame, number) in summary.frames.iter().zip(start..) {
                            if self.loaded.lost.contains(&number) {
                                continue;
                            }
                            for (blob, slot) in frame.blobs.iter().zip(0..) {
                                self.loaded
                                    .index
                                    .insert_stored(&blob.id, Place { frame: number, slot })?;
                            }
                        }
                    }
                    self.loaded.unlisted.push(summary);
                }
                Err(error) => self.note_damage(name_in(folder::PACKS, id), error, monitor)?,
            }
            budget::check(self.budget, self.loaded.index.bytes(), 0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use ibid_format::ChunkId;
    use ibid_format::frame::Blob;
    use ibid_format::pack::FrameSummary;

    use super::*;
    use crate::{BackupOptions, InitOptions, Repository};

    /// One index file lists a frame more than the pack has. It is read before the correct one, and
    /// after it.
    #[test]
    fn of_two_index_files_that_contradict_each_other_the_second_is_not_used() {
        let storage = Arc::new(ibid_storage::Memory::new());
        let repository = Repository::init(storage, Some(b"secret"), &InitOptions::quick()).unwrap();
        repository.backup(&BackupOptions::default().path("src/source")).unwrap();
        let (id, size) = repository.files.list(folder::PACKS).unwrap()[0];
        let mut summary = repository.files.read_directory(id, size).unwrap();
        let end = summary.frames.last().map(|frame| frame.offset + frame.sealed).unwrap();
        let nowhere = ChunkId([7; 32]);
        let blob = Blob { id: nowhere, length: 7 };
        summary.frames.push(FrameSummary {
            offset: end,
            sealed: 50,
            depth: 0,
            bases: vec![],
            blobs: vec![blob],
        });
        let honest = repository.files.list(folder::INDEX).unwrap()[0].0;
        for (false_one, second) in [(FileId([0; 16]), honest), (FileId([0xFF; 16]), FileId([0xFF; 16]))] {
            let bytes = index_file::encode(&repository.files.keys, false_one, std::slice::from_ref(&summary)).unwrap();
            let name = name_in(folder::INDEX, false_one);
            repository.files.storage.put(&name, &[&bytes]).unwrap();
            let heard = Arc::new(Mutex::new(Vec::new()));
            let monitor = Monitor::new({
                let heard = heard.clone();
                move |warning| heard.lock().unwrap().push(warning)
            });
            let loaded = LoadedIndex::load(&repository.files, repository.memory, &monitor).unwrap();
            let warnings = std::mem::take(&mut *heard.lock().unwrap());
            assert!(
                matches!(&warnings[..], [Warning::Repository { error: Error::Contradiction { index, pack } }]
                    if (*index, *pack) == (second, id)),
                "{warnings:?}"
            );
            assert_eq!(loaded.index.get(&nowhere).is_some(), second == honest);
            let places = summary.frames.iter().flat_map(|frame| &frame.blobs);
            for place in places.filter_map(|blob| loaded.index.get(&blob.id)) {
                assert!((place.frame as usize) < loaded.index.frames.len());
            }
            repository.files.storage.delete(&name).unwrap();
        }
    }
}
