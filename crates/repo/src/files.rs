//! Access to the files of a repository.

use std::cell::Cell;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use ibid_format::frame;
use ibid_format::pack::{self, PackKind, PackSummary};
use ibid_format::snapshot::{self, Snapshot};
use ibid_format::{ChunkPrefix, FileId, Keys, index as index_file};
use ibid_storage::{ErrorKind, Storage};

use crate::cache::{Copies, Parts};
use crate::index::Pack;
use crate::layout::{each_id, folder, list_ids, name_in};
use crate::rehearsal::Rehearsal;
use crate::writers::Doubts;
use crate::{Error, Result};

/// Most bytes after the end of a pack among which its trailer is looked for. Each costs an attempt to open a
/// seal, so all take less than a tenth of a second.
const EXCESS_MAX: u64 = 64 << 10;

/// Part of a pack that is read with its trailer, where the storage is far: one in so many bytes, and at least these.
/// Most directories are smaller.
const DIRECTORY_SHARE: u64 = 256;
const DIRECTORY_MIN: u64 = 4 << 10;
/// A directory that is known to be larger than this is read after its trailer says so.
const DIRECTORY_KNOWN_MAX: u64 = 4 << 20;
/// Bytes before a directory that are fetched with it, if these are all of its pack.
const WHOLE_MAX: u64 = 128 << 10;

/// The storage of a repository, and the keys that seal its files.
pub(crate) struct Files {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) keys: Keys,
    /// Copies on this machine, if the storage is not.
    pub(crate) copies: Option<Copies>,
    /// Parts of packs of data, on the same condition.
    pub(crate) parts: Option<Parts>,
    /// Whether loading the index goes on without files that this user may not read: a check names all.
    pub(crate) names_denied: bool,
    /// What counts instead of doing, if this is a rehearsal: it is the storage, too.
    pub(crate) rehearsal: Option<Arc<Rehearsal>>,
    /// What a writer has signed is not believed, if these are its files and a keeper prunes them.
    pub(crate) doubts: Option<Arc<Doubts>>,
}

/// The plaintext's place in a seal that was opened, or why it does not open.
type Opened = std::result::Result<Range<usize>, ibid_format::Error>;

impl Files {
    /// Returns the files of a storage, without copies.
    pub(crate) fn new(storage: Arc<dyn Storage>, keys: Keys) -> Files {
        Files {
            storage,
            keys,
            copies: None,
            parts: None,
            names_denied: false,
            rehearsal: None,
            doubts: None,
        }
    }

    /// Returns the ids of all files in a folder, with their sizes in bytes.
    pub(crate) fn list(&self, folder: &str) -> Result<Vec<(FileId, u64)>> {
        list_ids(self.storage.as_ref(), folder)
    }

    /// Calls `each` with the ids of all files in a folder, in any order, and their sizes in bytes.
    pub(crate) fn each(&self, folder: &str, each: impl FnMut(FileId, u64) -> Result<()>) -> Result<()> {
        each_id(self.storage.as_ref(), folder, each)
    }

    /// Reads a frame of a pack into `sealed`, which is as long, and opens its seal. Returns where its
    /// plaintext is, and whether it was read from the storage. If so, and `keeps`, this machine keeps it.
    pub(crate) fn read_frame(
        &self,
        pack: &Pack,
        offset: u32,
        sealed: &mut [u8],
        keeps: bool,
    ) -> Result<(Opened, bool)> {
        let from = u64::from(offset);
        if self.read_kept(pack, from, sealed)? {
            match self.open_frame(pack, offset, sealed) {
                Ok(plain) => return Ok((Ok(plain), false)),
                Err(_) => self.drop_kept(pack),
            }
        }
        self.storage.read_at(&name_in(folder::PACKS, pack.id), from, sealed)?;
        if let Some(parts) = self.parts.as_ref().filter(|_| keeps) {
            parts.put(pack.id, from, sealed);
        }
        Ok((self.open_frame(pack, offset, sealed), true))
    }

    /// Fills `buffer` with bytes of a pack from what this machine has of it, and returns whether it has them. A pack of
    /// metadata is fetched.
    fn read_kept(&self, pack: &Pack, from: u64, buffer: &mut [u8]) -> Result<bool> {
        let storage = self.storage.as_ref();
        match (pack.kind, &self.copies, &self.parts) {
            (PackKind::Metadata, Some(copies), _) => {
                copies.read_at(storage, (folder::PACKS, pack.id, pack.size), from, buffer)
            }
            (PackKind::Data, _, Some(parts)) => Ok(parts.read_at(pack.id, from, buffer)),
            _ => Ok(false),
        }
    }

    /// Deletes what this machine has of a pack: it is damaged.
    fn drop_kept(&self, pack: &Pack) {
        match (pack.kind, &self.copies, &self.parts) {
            (PackKind::Metadata, Some(copies), _) => copies.remove(folder::PACKS, pack.id),
            (PackKind::Data, _, Some(parts)) => parts.remove(pack.id),
            _ => {}
        }
    }

    /// Stores a pack. One with data may be kept where that costs less.
    pub(crate) fn put_pack(&self, pack: &PackSummary, bytes: &[u8]) -> Result<()> {
        let name = name_in(folder::PACKS, pack.id);
        // What deltas are encoded against is in the directory of their pack, which must be read to free anything.
        let has_deltas = || pack.frames.iter().any(|frame| frame.depth > 0);
        match pack.kind {
            PackKind::Data if !(self.archives_data() && has_deltas()) => self.storage.put_data(&name, &[bytes])?,
            PackKind::Data | PackKind::Metadata => self.storage.put(&name, &[bytes])?,
        }
        Ok(())
    }

    /// Returns whether packs of data go where they can't be read at once.
    pub(crate) fn archives_data(&self) -> bool {
        let archives = self.storage.archives();
        archives.is_some_and(|archives| archives.class_of_data().is_some())
    }

    /// Keeps a pack that was just stored.
    pub(crate) fn keep_pack(&self, kind: PackKind, id: FileId, bytes: &[u8]) {
        match (kind, &self.copies, &self.parts) {
            (PackKind::Metadata, Some(copies), _) => copies.put(folder::PACKS, id, bytes),
            (PackKind::Data, _, Some(parts)) => parts.put(id, 0, bytes),
            _ => {}
        }
    }

    /// Deletes what this machine has of a pack that is gone.
    pub(crate) fn forget_pack(&self, id: FileId) {
        if let Some(copies) = &self.copies {
            copies.remove(folder::PACKS, id);
        }
        if let Some(parts) = &self.parts {
            parts.remove(id);
        }
    }

    /// Returns the plaintext of a frame that takes `sealed` bytes in its pack.
    pub(crate) fn read_plain_frame(&self, pack: &Pack, offset: u32, sealed: u32) -> Result<Vec<u8>> {
        let mut bytes = vec![0; sealed as usize];
        let (plain, _) = self.read_frame(pack, offset, &mut bytes, false)?;
        let plain = plain.map_err(Error::damaged(format!("pack {} at offset {offset}", pack.id)))?;
        bytes.truncate(plain.end);
        bytes.drain(..plain.start);
        Ok(bytes)
    }

    /// Opens the seal of a frame. Returns where its plaintext is.
    pub(crate) fn open_frame(&self, pack: &Pack, offset: u32, sealed: &mut [u8]) -> Opened {
        let begin = sealed.as_ptr().addr();
        let plain = pack::open_frame(&self.keys, pack.id, offset, sealed)?;
        let start = plain.as_ptr().addr() - begin;
        Ok(start..start + plain.len())
    }

    /// Makes a file durable that another process has stored, perhaps a moment ago. Returns whether it is there.
    pub(crate) fn settle(&self, folder: &str, id: FileId) -> Result<bool> {
        match self.storage.settle(&name_in(folder, id)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            settled => Ok(settled.map(|()| true)?),
        }
    }

    /// Reads a snapshot; `None` if it is void.
    pub(crate) fn read_snapshot(&self, id: FileId, size: u64) -> Result<Option<Snapshot>> {
        if let Some(copies) = self.copies.as_ref().filter(|_| size <= snapshot::LIMIT) {
            let mut bytes = vec![0; size as usize];
            if copies.read_at(self.storage.as_ref(), (folder::SNAPSHOTS, id, size), 0, &mut bytes)? {
                match Snapshot::open(&self.keys, id, &mut bytes) {
                    Ok(snapshot) => return Ok(snapshot),
                    Err(_) => copies.remove(folder::SNAPSHOTS, id),
                }
            }
        }
        let name = name_in(folder::SNAPSHOTS, id);
        let mut bytes = self.storage.get(&name, snapshot::LIMIT)?;
        Snapshot::open(&self.keys, id, &mut bytes).map_err(Error::damaged(name))
    }

    /// Reads the bytes of a snapshot.
    pub(crate) fn snapshot_bytes(&self, id: FileId) -> Result<Vec<u8>> {
        let is_whole = |bytes: &Vec<u8>| Snapshot::open(&self.keys, id, &mut bytes.clone()).is_ok();
        let copy = self.copies.as_ref();
        let copy = copy.and_then(|copies| copies.get(folder::SNAPSHOTS, id, snapshot::LIMIT));
        match copy.filter(is_whole) {
            Some(bytes) => Ok(bytes),
            None => Ok(self.storage.get(&name_in(folder::SNAPSHOTS, id), snapshot::LIMIT)?),
        }
    }

    /// Reads an index file, and keeps a copy.
    pub(crate) fn read_index(&self, id: FileId) -> Result<index_file::Index> {
        let open = |bytes| index_file::Index::open(&self.keys, id, bytes);
        self.read_copied(folder::INDEX, id, index_file::LIMIT, true, open)
    }

    /// Reads an index file that will not be needed again.
    pub(crate) fn read_index_once(&self, id: FileId) -> Result<index_file::Index> {
        let open = |bytes| index_file::Index::open(&self.keys, id, bytes);
        self.read_copied(folder::INDEX, id, index_file::LIMIT, false, open)
    }

    /// Reads a whole file, from its copy if there is one. `keeps` a copy, unless there is no cache for them.
    pub(crate) fn read_copied<T>(
        &self,
        folder: &str,
        id: FileId,
        limit: u64,
        keeps: bool,
        open: impl Fn(Vec<u8>) -> std::result::Result<T, ibid_format::Error>,
    ) -> Result<T> {
        let name = name_in(folder, id);
        let Some(copies) = &self.copies else {
            return open(self.storage.get(&name, limit)?).map_err(Error::damaged(name));
        };
        if let Some(bytes) = copies.get(folder, id, limit) {
            match open(bytes) {
                Ok(opened) => return Ok(opened),
                Err(_) => copies.remove(folder, id),
            }
        }
        let bytes = self.storage.get(&name, limit)?;
        if keeps {
            copies.put(folder, id, &bytes);
        }
        let opened = open(bytes);
        if opened.is_err() {
            copies.remove(folder, id);
        }
        opened.map_err(Error::damaged(name))
    }

    /// Stores a file of which there will be a copy.
    pub(crate) fn put_copied(&self, folder: &str, id: FileId, bytes: &[u8]) -> Result<()> {
        self.storage.put(&name_in(folder, id), &[bytes])?;
        if let Some(copies) = &self.copies {
            copies.put(folder, id, bytes);
        }
        Ok(())
    }

    /// Reads the directory of a pack of which only the size of its file is known. If that does not end with
    /// a trailer, the pack may have become longer: then this looks for the trailer before the end, in the
    /// last [`EXCESS_MAX`] bytes. The size in the summary is where the pack ends.
    pub(crate) fn find_directory(&self, id: FileId, size: u64) -> Result<PackSummary> {
        let error = match self.read_directory(id, size) {
            Err(error @ Error::Damaged { .. }) => error,
            read => return read,
        };
        let (trailer, kept) = (pack::TRAILER as usize, size.min(EXCESS_MAX + pack::TRAILER));
        let mut end = vec![0; kept as usize];
        self.storage
            .read_at(&name_in(folder::PACKS, id), size - kept, &mut end)?;
        for (windows, excess) in end.windows(trailer).rev().zip(0..).skip(1) {
            let mut bytes = [0; pack::TRAILER as usize];
            bytes.copy_from_slice(windows);
            if pack::open_trailer(&self.keys, id, size - excess, &mut bytes).is_ok() {
                return self.read_directory(id, size - excess);
            }
        }
        Err(error)
    }

    /// Reads what a frame is encoded against from the frame itself: the chunks, each once.
    pub(crate) fn read_bases(&self, pack: &Pack, offset: u32, length: u32) -> Result<Vec<ChunkPrefix>> {
        let name = name_in(folder::PACKS, pack.id);
        let mut sealed = vec![0; length as usize];
        let (opened, _) = self.read_frame(pack, offset, &mut sealed, false)?;
        let pieces = opened.and_then(|plain| frame::pieces(&sealed[plain]));
        let pieces = pieces.map_err(Error::damaged(name))?;
        let mut met = HashSet::new();
        let bases = pieces.iter().map(|piece| piece.base);
        Ok(bases.filter(|base| met.insert(*base)).collect())
    }

    /// Returns how many bytes are read at first of a pack of so many bytes to find its directory, which may be known to
    /// begin at an offset. If it is larger, there is a second read.
    pub(crate) fn directory_length(&self, size: u64, begins: Option<u64>) -> u64 {
        if !self.storage.is_remote() {
            return pack::TRAILER;
        }
        let rest = size.saturating_sub(pack::TRAILER);
        let known = begins.and_then(|begins| rest.checked_sub(begins));
        let known = known.filter(|length| *length <= DIRECTORY_KNOWN_MAX);
        known.unwrap_or((size / DIRECTORY_SHARE).max(DIRECTORY_MIN).min(rest)) + pack::TRAILER
    }

    /// Reads the directory of a pack: its frames and their chunks.
    pub(crate) fn read_directory(&self, id: FileId, size: u64) -> Result<PackSummary> {
        self.read_directory_at(id, size, None)
    }

    /// Does the same for a pack whose directory should begin at an offset: then one read is enough. This machine keeps
    /// what it has read, where there is room, because who needs to know a pack mostly needs it again.
    pub(crate) fn read_directory_at(&self, id: FileId, size: u64, begins: Option<u64>) -> Result<PackSummary> {
        let name = name_in(folder::PACKS, id);
        let is_kept = Cell::new(false);
        let read = self.directory_of(id, size, begins, |from, buffer| {
            if self.read_kept_end(id, from, buffer) {
                is_kept.set(true);
                return Ok(());
            }
            let Some(parts) = &self.parts else {
                return self.storage.read_at(&name, from, buffer);
            };
            if from > WHOLE_MAX {
                self.storage.read_at(&name, from, buffer)?;
                parts.put_where_room(id, from, buffer);
                return Ok(());
            }
            // Its frames are mostly needed next, and cost less than another request.
            let mut pack = vec![0; from as usize + buffer.len()];
            self.storage.read_at(&name, 0, &mut pack)?;
            buffer.copy_from_slice(&pack[from as usize..]);
            parts.put_where_room(id, 0, &pack);
            Ok(())
        });
        match read {
            Err(error) if error.is_damage() && is_kept.get() => self.forget_pack(id),
            read => return read,
        }
        self.directory_of(id, size, begins, |from, buffer| {
            self.storage.read_at(&name, from, buffer)
        })
    }

    /// Fills `buffer` with the end of a pack, of either kind, from what this machine has of it. Returns whether it has
    /// that.
    fn read_kept_end(&self, id: FileId, from: u64, buffer: &mut [u8]) -> bool {
        let part = |copies: &Copies| copies.part(folder::PACKS, id, from, buffer.len());
        if let Some(end) = self.copies.as_ref().and_then(part) {
            buffer.copy_from_slice(&end);
            return true;
        }
        self.parts.as_ref().is_some_and(|parts| parts.read_at(id, from, buffer))
    }

    /// Reads the directory of a pack by a function that fills a buffer with its bytes from an offset on.
    fn directory_of(
        &self,
        id: FileId,
        size: u64,
        begins: Option<u64>,
        read_at: impl Fn(u64, &mut [u8]) -> std::result::Result<(), ibid_storage::Error>,
    ) -> Result<PackSummary> {
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
        // Where each request takes a round trip, the directory comes with its trailer, unless it is unusually large.
        let with_trailer = self.directory_length(size, begins) - pack::TRAILER;
        let mut end = vec![0; (with_trailer + pack::TRAILER) as usize];
        read_at(position - with_trailer, &mut end)?;
        let mut trailer = end.split_off(with_trailer as usize);
        let offset = pack::open_trailer(&self.keys, id, size, &mut trailer).map_err(damaged())?;
        let length = (position - offset) as usize;
        let mut directory = match end.len().checked_sub(length) {
            Some(before) => end.split_off(before),
            None => {
                end.resize(length, 0);
                read_at(offset, &mut end)?;
                end
            }
        };
        pack::open_directory(&self.keys, id, size, offset, &mut directory).map_err(damaged())
    }
}
