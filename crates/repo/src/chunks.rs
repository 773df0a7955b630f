//! Reading chunks back: frame from storage, seal, decompress, and the id compared before a byte goes anywhere.

use crate::index::Frame;
use crate::load::Loaded;
use crate::repository::{folder, name_in};
use crate::{Error, Repository, Result};
use ibid_format::ChunkId;
use ibid_format::frame::Decoder;
use ibid_format::pack;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// A frame's chunks, decompressed.
pub(crate) struct Opened {
    body: Vec<u8>,
    /// Where slot n ends; it begins where the one before ends.
    ends: Vec<u32>,
}

impl Opened {
    fn chunk(&self, slot: u16) -> Option<&[u8]> {
        let end = *self.ends.get(usize::from(slot))? as usize;
        let start = usize::from(slot)
            .checked_sub(1)
            .map_or(0, |before| self.ends[before] as usize);
        self.body.get(start..end)
    }
}

/// What reading a frame needs, reused from frame to frame.
#[derive(Default)]
pub(crate) struct FrameReader {
    sealed: Vec<u8>,
    decoder: Decoder,
}

impl FrameReader {
    /// Reads and opens one frame; its chunks are *not* compared with their ids yet.
    /// With `upto`, slots after it need not be decompressed.
    pub(crate) fn read(
        &mut self,
        repository: &Repository,
        loaded: &Loaded,
        frame: &Frame,
        upto: Option<u16>,
    ) -> Result<ibid_format::frame::Frame<'_>> {
        let pack = loaded.index.pack(frame.pack);
        self.sealed.resize(frame.sealed as usize, 0);
        repository.storage.read_at(
            &name_in(folder::PACKS, pack.id),
            u64::from(frame.offset),
            &mut self.sealed,
        )?;
        let damaged = |source| Error::Damaged {
            object: format!("pack {} at offset {}", pack.id, frame.offset),
            source,
        };
        let plain = pack::open_frame(&repository.keys, pack.id, frame.offset, &mut self.sealed).map_err(damaged)?;
        self.decoder.decode(plain, upto).map_err(damaged)
    }
}

/// Reads single chunks, keeping the frames they came in: for trees and recipes, `dump`, and small reads.
pub(crate) struct ChunkReader<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) loaded: Arc<Loaded>,
    cache: Mutex<Cache>,
}

struct Cache {
    frames: HashMap<u32, (Arc<Opened>, u64)>,
    bytes: u64,
    clock: u64,
    budget: u64,
    reader: FrameReader,
}

impl Cache {
    fn get(&mut self, frame: u32) -> Option<Arc<Opened>> {
        self.clock += 1;
        let (opened, used) = self.frames.get_mut(&frame)?;
        *used = self.clock;
        Some(opened.clone())
    }

    fn put(&mut self, frame: u32, opened: Arc<Opened>) {
        self.bytes += opened.body.len() as u64;
        self.frames.insert(frame, (opened, self.clock));
        while self.bytes > self.budget && self.frames.len() > 1 {
            let oldest = *self
                .frames
                .iter()
                .min_by_key(|(_, (_, used))| *used)
                .expect("not empty")
                .0;
            let (gone, _) = self.frames.remove(&oldest).expect("just found");
            self.bytes -= gone.body.len() as u64;
        }
    }
}

impl<'a> ChunkReader<'a> {
    /// A reader whose cache holds about `budget` bytes of frames.
    pub(crate) fn new(repository: &'a Repository, loaded: Arc<Loaded>, budget: u64) -> ChunkReader<'a> {
        let cache = Cache {
            frames: HashMap::new(),
            bytes: 0,
            clock: 0,
            budget,
            reader: FrameReader::default(),
        };
        ChunkReader {
            repository,
            loaded,
            cache: Mutex::new(cache),
        }
    }

    /// Appends the bytes of chunk `id`, which must be `length` long, to `out`.
    pub(crate) fn read(&self, id: &ChunkId, length: u32, out: &mut Vec<u8>) -> Result<()> {
        let place = self.loaded.index.get(id).ok_or(Error::ChunkMissing { id: *id })?;
        let frame = self.loaded.index.frame(place.frame);
        if !frame.is_stored() {
            return Err(Error::ChunkMissing { id: *id });
        }
        let opened = self.open(place.frame, &frame)?;
        let pack = self.loaded.index.pack(frame.pack).id;
        let chunk = opened.chunk(place.slot).ok_or(Error::ChunkDamaged { id: *id, pack })?;
        if self.repository.keys.chunk_id(chunk) != *id {
            return Err(Error::ChunkDamaged { id: *id, pack });
        }
        if chunk.len() != length as usize {
            return Err(Error::BadRecipe {
                expected: u64::from(length),
                found: chunk.len() as u64,
            });
        }
        out.extend_from_slice(chunk);
        Ok(())
    }

    fn open(&self, number: u32, frame: &Frame) -> Result<Arc<Opened>> {
        let mut cache = self.cache.lock().expect("no holder of this lock panics");
        if let Some(opened) = cache.get(number) {
            return Ok(opened);
        }
        let read = cache.reader.read(self.repository, &self.loaded, frame, None)?;
        let mut opened = Opened {
            body: Vec::with_capacity(frame.length as usize),
            ends: Vec::with_capacity(read.len()),
        };
        for slot in 0..read.len() as u16 {
            let chunk = read
                .chunk(slot)
                .map_err(Error::damaged(format_args!("frame {number}")))?;
            opened.body.extend_from_slice(chunk);
            opened.ends.push(opened.body.len() as u32);
        }
        let opened = Arc::new(opened);
        cache.put(number, opened.clone());
        Ok(opened)
    }
}
