//! Reading the index files into memory, and finding what they miss.
//!
//! The truth is in the packs; index files only make it quick to find. So a pack that no readable
//! index file lists (the backup that wrote it was killed, or the index file is damaged) is read for
//! its directory and known all the same, and a pack that is listed but not there is not believed
//! in: its chunks count as unknown, and a backup stores them again. So do those of all frames that
//! hang on it.

use std::collections::{HashMap, HashSet};

use ibid_format::pack::{self, Summary};
use ibid_format::{FileId, index as index_file};
use ibid_storage::Name;

use super::dependencies::Edges;
use super::memory::{Frame, Index, Pack, Place};
use crate::error::is_fault;
use crate::layout::{config_name, folder, list_ids, name_in};
use crate::{Error, Monitor, Repository, Result, Warning};

/// An index file is at most this long.
const INDEX_FILE_MAX: u64 = index_file::LIMIT;

/// The index in memory and how it came about.
pub(crate) struct Loaded {
    pub(crate) index: Index,
    /// Packs that no index file lists.
    pub(crate) unlisted: Vec<Summary>,
    /// Packs that an index file lists but that are not there, or not of the size they had.
    pub(crate) missing: Vec<MissingPack>,
    /// Index files that can't be read, and packs whose directory can't be.
    pub(crate) damaged: Vec<(Name, String)>,
    /// Frames that hang on something which is lost with a pack: by their numbers. Their chunks are
    /// unknown to the index.
    pub(crate) lost: HashSet<u32>,
    /// Bytes of index files.
    pub(crate) index_bytes: u64,
}

/// A pack that should be there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingPack {
    pub(crate) id: FileId,
    pub(crate) expected: u64,
    /// Its size, if there is one of another size.
    pub(crate) found: Option<u64>,
}

/// Frames that are not to be believed in: each by its pack and its offset there.
type Lost = HashSet<(FileId, u32)>;

impl Loaded {
    pub(crate) fn load(repository: &Repository, monitor: &Monitor) -> Result<Loaded> {
        let mut lost = Lost::new();
        let mut loaded = Loaded::load_without(repository, &lost, Vec::new(), monitor)?;
        while loaded.lacks_packs() && loaded.index.has_deltas() {
            let edges = Edges::read(repository, &loaded, &HashSet::new(), monitor)?;
            let hanging = edges.hanging(edges.unknown().iter().map(|&(_, frame)| frame));
            let known = lost.len();
            lost.extend(hanging.into_iter().map(|number| {
                let frame = loaded.index.frame(number);
                (loaded.index.pack(frame.pack).id, frame.offset)
            }));
            if lost.len() == known {
                break;
            }
            // Once more, since a chunk of such a frame may have another copy. The directories have said all:
            // what hangs on a lost frame is lost, and the bases of all others stay where they are.
            // Unless somebody has stored or removed packs meanwhile.
            let packs = loaded.packs();
            loaded = Loaded::load_without(repository, &lost, loaded.unlisted, monitor)?;
            if loaded.packs() == packs {
                break;
            }
        }
        Ok(loaded)
    }

    /// Packs that are there.
    fn packs(&self) -> HashSet<FileId> {
        self.index.packs.iter().map(|pack| pack.id).collect()
    }

    /// Whether packs are lost, so that frames may lack what they are encoded against.
    fn lacks_packs(&self) -> bool {
        let is_pack = |(name, _): &(Name, String)| name.as_str().starts_with(folder::PACKS);
        !self.missing.is_empty() || self.damaged.iter().any(is_pack)
    }

    /// Loads the index; what is in `lost` frames counts as unknown. `unlisted` are directories that
    /// were read before.
    fn load_without(repository: &Repository, lost: &Lost, unlisted: Vec<Summary>, monitor: &Monitor) -> Result<Loaded> {
        // Index files before packs: a pack is stored before any index file lists it, so one that is missing
        // now is missing.
        let index_files = list_ids(repository.storage.as_ref(), folder::INDEX)?;
        let packs: HashMap<FileId, u64> = list_ids(repository.storage.as_ref(), folder::PACKS)?
            .into_iter()
            .collect();
        let mut loading = Loading {
            repository,
            packs,
            numbers: HashMap::new(),
            lost,
            directories: unlisted.into_iter().map(|pack| (pack.id, pack)).collect(),
            loaded: Loaded::empty(),
        };
        for (id, size) in index_files {
            monitor.check_cancelled()?;
            loading.loaded.index_bytes += size;
            if let Err(error) = loading.index_file(id) {
                loading.note_damage(name_in(folder::INDEX, id), error, monitor)?;
            }
            repository.check_memory(loading.loaded.index.bytes(), 0)?;
        }
        loading.unlisted_packs(monitor)?;
        loading.loaded.index.frames.shrink_to_fit();
        Ok(loading.loaded)
    }

    /// Makes durable what the next snapshot will rely on and nobody may have made durable yet: the
    /// config, and packs that are adopted.
    ///
    /// Whoever stored an object and returned has made it durable; but of what is only *seen*, its
    /// writer may have been killed a moment before that. Packs that an index file lists were
    /// durable before it was written (here too: an adopted pack is settled before an index file
    /// lists it), and so was everything that a snapshot needs. An index file that vanishes takes
    /// nothing with it.
    pub(crate) fn settle(&self, repository: &Repository) -> Result<()> {
        let storage = &repository.storage;
        storage.settle(&config_name())?;
        for pack in &self.unlisted {
            storage.settle(&name_in(folder::PACKS, pack.id))?;
        }
        Ok(())
    }

    fn empty() -> Loaded {
        Loaded {
            index: Index::new(),
            unlisted: Vec::new(),
            missing: Vec::new(),
            damaged: Vec::new(),
            lost: HashSet::new(),
            index_bytes: 0,
        }
    }
}

/// Bytes of buffers that every operation has.
pub(crate) const BUFFERS_MIN: u64 = 96 << 20;

struct Loading<'a> {
    repository: &'a Repository,
    /// Packs that are there, with their sizes.
    packs: HashMap<FileId, u64>,
    /// For packs known so far: the number of their first frame, none if the pack is missing.
    numbers: HashMap<FileId, Option<u32>>,
    lost: &'a Lost,
    /// Directories of packs that were not listed, as read before.
    directories: HashMap<FileId, Summary>,
    loaded: Loaded,
}

impl Repository {
    /// Whether an index of so many bytes leaves room for so many bytes of buffers, and at least for
    /// those that every operation has.
    pub(crate) fn check_memory(&self, index: u64, buffers: u64) -> Result<()> {
        let (budget, needed) = (self.memory, index + buffers.max(BUFFERS_MIN));
        if needed > budget {
            return Err(Error::MemoryBudget { budget, needed });
        }
        Ok(())
    }
}

impl Loading<'_> {
    /// What is wrong with one file is noted, and the file done without; anything else (no
    /// permission, memory) ends the operation.
    fn note_damage(&mut self, what: Name, error: Error, monitor: &Monitor) -> Result<()> {
        if !is_fault(&error) {
            return Err(error);
        }
        self.loaded.damaged.push((what, error.problem()));
        // Who loads again has heard it.
        if self.lost.is_empty() {
            monitor.warn(Warning::Repository { error });
        }
        Ok(())
    }

    fn index_file(&mut self, id: FileId) -> Result<()> {
        let file = read_index(self.repository, id)?;
        let packs: Vec<_> = file.packs().collect();
        let frames: Vec<_> = file.frames().collect();
        let frames_of = |n: usize| {
            let end = packs.get(n + 1).map_or(frames.len(), |next| next.first_frame as usize);
            &frames[packs[n].first_frame as usize..end]
        };
        // All are compared before any is added: a file that contradicts another, or itself, is believed in
        // nothing.
        let mut listed_here = HashSet::new();
        for (n, listed) in packs.iter().enumerate() {
            if !listed_here.insert(listed.id) || !self.agrees(listed, frames_of(n)) {
                return Err(Error::Contradiction {
                    index: id,
                    pack: listed.id,
                });
            }
        }
        // For every frame of the file: its number in memory, or none if its pack is missing or it is lost.
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

    /// Whether nothing else is known of a pack than this.
    fn agrees(&self, listed: &index_file::Pack, frames: &[index_file::Frame]) -> bool {
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

    /// Adds a pack's frames; returns the number of the first, or none if the pack is not there as
    /// it should be.
    fn add_pack(&mut self, pack: Pack, frames: &[index_file::Frame]) -> Option<u32> {
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
        let is_lost = |frame: &index_file::Frame| self.lost.contains(&(id, frame.offset));
        let lost = frames.iter().zip(start..).filter(|(frame, _)| is_lost(frame));
        self.loaded.lost.extend(lost.map(|(_, number)| number));
        Some(start)
    }

    /// Packs that no index file lists: their own directories say what is in them.
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
                None => read_directory(self.repository, id, size),
            };
            match directory {
                Ok(summary) => {
                    let frames: Vec<_> = summary.frames.iter().map(index_file::Frame::from).collect();
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
            self.repository.check_memory(self.loaded.index.bytes(), 0)?;
        }
        Ok(())
    }
}

/// Reads an index file.
pub(crate) fn read_index(repository: &Repository, id: FileId) -> Result<index_file::Index> {
    let name = name_in(folder::INDEX, id);
    let bytes = repository.storage.get(&name, INDEX_FILE_MAX)?;
    index_file::Index::open(&repository.keys, id, bytes).map_err(Error::damaged(name))
}

/// Reads what a pack says of itself.
pub(crate) fn read_directory(repository: &Repository, id: FileId, size: u64) -> Result<Summary> {
    let name = name_in(folder::PACKS, id);
    let damaged = || Error::damaged(&name);
    let position = size
        .checked_sub(pack::TRAILER)
        .filter(|_| size <= pack::LIMIT)
        .ok_or_else(|| {
            damaged()(ibid_format::Error::OutOfRange {
                field: "pack size",
                min: pack::TRAILER,
                max: pack::LIMIT,
                found: size,
            })
        })?;
    let mut trailer = [0; pack::TRAILER as usize];
    repository.storage.read_at(&name, position, &mut trailer)?;
    let offset = pack::open_trailer(&repository.keys, id, size, &mut trailer).map_err(damaged())?;
    let mut directory = vec![0; (position - offset) as usize];
    repository.storage.read_at(&name, offset, &mut directory)?;
    pack::open_directory(&repository.keys, id, size, offset, &mut directory).map_err(damaged())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use ibid_format::ChunkId;
    use ibid_format::frame::Blob;
    use ibid_format::pack::FrameSummary;
    use ibid_format::slot::Argon2Cost;

    use super::*;
    use crate::{BackupOptions, InitOptions};

    /// An index file that lists a frame more than the pack has, read before the true one and after
    /// it.
    #[test]
    fn of_two_index_files_that_contradict_each_other_the_second_is_not_used() {
        let cost = Argon2Cost {
            memory_kib: 64,
            passes: 1,
            lanes: 1,
        };
        let init = InitOptions {
            cost,
            ..InitOptions::default()
        };
        let storage = Arc::new(ibid_storage::Memory::new());
        let repository = Repository::init(storage, Some(b"secret"), &init, 0).unwrap();
        let paths = vec!["src/source".into()];
        let backup = BackupOptions {
            paths,
            ..BackupOptions::default()
        };
        repository.backup(backup, &Monitor::silent()).unwrap();
        let (id, size) = list_ids(repository.storage.as_ref(), folder::PACKS).unwrap()[0];
        let mut summary = read_directory(&repository, id, size).unwrap();
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
        let honest = list_ids(repository.storage.as_ref(), folder::INDEX).unwrap()[0].0;
        for (false_one, second) in [(FileId([0; 16]), honest), (FileId([0xFF; 16]), FileId([0xFF; 16]))] {
            let bytes = index_file::encode(&repository.keys, false_one, std::slice::from_ref(&summary)).unwrap();
            let name = name_in(folder::INDEX, false_one);
            repository.storage.put(&name, &[&bytes]).unwrap();
            let heard = Arc::new(Mutex::new(Vec::new()));
            let monitor = Monitor::new({
                let heard = heard.clone();
                move |warning| heard.lock().unwrap().push(warning)
            });
            let loaded = Loaded::load(&repository, &monitor).unwrap();
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
            repository.storage.delete(&name).unwrap();
        }
    }
}
