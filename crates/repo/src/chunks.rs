//! Reading chunks back: frame from storage, seal, decompress, and the id compared before a byte goes anywhere.

use crate::bodies::{Bodies, Body};
use crate::index::Frame;
use crate::load::Loaded;
use crate::repository::{folder, name_in};
use crate::{Error, Repository, Result};
use ibid_format::ChunkId;
use ibid_format::frame::Decoder;
use ibid_format::pack;
use std::sync::{Arc, Mutex};

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
        self.decoder.decode(plain, &[], upto).map_err(damaged)
    }
}

/// Reads single chunks, keeping the frames they came in: for trees and recipes, `dump`, and small reads.
pub(crate) struct ChunkReader<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) loaded: Arc<Loaded>,
    bodies: Bodies,
    reader: Mutex<FrameReader>,
}

impl<'a> ChunkReader<'a> {
    /// A reader that keeps about `budget` bytes of frames.
    pub(crate) fn new(repository: &'a Repository, loaded: Arc<Loaded>, budget: u64) -> ChunkReader<'a> {
        ChunkReader {
            repository,
            loaded,
            bodies: Bodies::new(budget),
            reader: Mutex::default(),
        }
    }

    /// Appends the bytes of chunk `id`, which must be `length` long, to `out`.
    pub(crate) fn read(&self, id: &ChunkId, length: u32, out: &mut Vec<u8>) -> Result<()> {
        let place = self.loaded.index.get(id).ok_or(Error::ChunkMissing { id: *id })?;
        let frame = self.loaded.index.frame(place.frame);
        if !frame.is_stored() {
            return Err(Error::ChunkMissing { id: *id });
        }
        let body = self.open(place.frame, &frame)?;
        let pack = self.loaded.index.pack(frame.pack).id;
        let damaged = || Error::ChunkDamaged { id: *id, pack };
        if body.id(&self.repository.keys, place.slot) != Some(*id) {
            return Err(damaged());
        }
        let chunk = body.chunk(place.slot).ok_or_else(damaged)?;
        if chunk.len() != length as usize {
            return Err(Error::BadRecipe {
                expected: u64::from(length),
                found: chunk.len() as u64,
            });
        }
        out.extend_from_slice(chunk);
        Ok(())
    }

    fn open(&self, number: u32, frame: &Frame) -> Result<Arc<Body>> {
        if let Some(body) = self.bodies.get(number) {
            return Ok(body);
        }
        let mut reader = self.reader.lock().expect("no holder of this lock panics");
        let body = Arc::new(Body::of(&reader.read(self.repository, &self.loaded, frame, None)?));
        self.bodies.put(number, body.clone(), drop);
        Ok(body)
    }
}
