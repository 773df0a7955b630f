//! Frames that were decompressed, kept for whoever needs their chunks again.

use ibid_format::frame::{Blob, Frame};
use ibid_format::{ChunkId, Keys};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock};

/// A frame's chunks.
pub(crate) struct Body {
    bytes: Vec<u8>,
    /// Where slot n ends; it begins where the one before ends.
    ends: Vec<u32>,
    /// What the bytes of each slot are called, once somebody has asked.
    ids: Vec<OnceLock<ChunkId>>,
}

impl Body {
    /// Chunks that were read, in order of their slots. What they are called is found out from their bytes.
    pub(crate) fn of(frame: &Frame<'_>) -> Body {
        let mut bytes = Vec::with_capacity(frame.chunks().map(<[u8]>::len).sum());
        let ends: Vec<u32> = frame
            .chunks()
            .map(|chunk| {
                bytes.extend_from_slice(chunk);
                bytes.len() as u32
            })
            .collect();
        let ids = ends.iter().map(|_| OnceLock::new()).collect();
        Body { bytes, ends, ids }
    }

    /// Chunks that are about to be stored.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "backups will keep what they store, to find bases in it")
    )]
    pub(crate) fn gathered(bytes: Vec<u8>, blobs: &[Blob]) -> Body {
        let mut end = 0;
        let ends = blobs
            .iter()
            .map(|blob| {
                end += blob.length;
                end
            })
            .collect();
        let ids = blobs.iter().map(|blob| OnceLock::from(blob.id)).collect();
        Body { bytes, ends, ids }
    }

    /// The chunk in a slot, if there is that slot.
    pub(crate) fn chunk(&self, slot: u16) -> Option<&[u8]> {
        let end = *self.ends.get(usize::from(slot))? as usize;
        let start = usize::from(slot)
            .checked_sub(1)
            .map_or(0, |before| self.ends[before] as usize);
        self.bytes.get(start..end)
    }

    /// What the bytes in a slot are called: a chunk is right if that is its id. It is computed once.
    pub(crate) fn id(&self, keys: &Keys, slot: u16) -> Option<ChunkId> {
        let chunk = self.chunk(slot)?;
        Some(*self.ids[usize::from(slot)].get_or_init(|| keys.chunk_id(chunk)))
    }

    /// Bytes of memory.
    fn weight(&self) -> u64 {
        let slots = self.ends.len() * (size_of::<u32>() + size_of::<OnceLock<ChunkId>>());
        (size_of::<Body>() + self.bytes.capacity() + slots) as u64
    }
}

/// Bodies by number of their frame; those that nobody wanted for longest go first.
pub(crate) struct Bodies {
    kept: Mutex<Kept>,
    budget: u64,
}

#[derive(Default)]
struct Kept {
    /// Each with the time of its last use.
    frames: HashMap<u32, (Arc<Body>, u64)>,
    /// By time of last use.
    uses: BTreeMap<u64, u32>,
    clock: u64,
    bytes: u64,
}

impl Kept {
    fn now(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn remove(&mut self, frame: u32) -> Option<Arc<Body>> {
        let (body, used) = self.frames.remove(&frame)?;
        self.uses.remove(&used);
        self.bytes -= body.weight();
        Some(body)
    }
}

impl Bodies {
    /// Room for about `budget` bytes; one body is kept in any case.
    pub(crate) fn new(budget: u64) -> Bodies {
        Bodies {
            kept: Mutex::default(),
            budget,
        }
    }

    /// The body of a frame, if it is here.
    pub(crate) fn get(&self, frame: u32) -> Option<Arc<Body>> {
        let mut kept = self.kept.lock().expect("no holder of this lock panics");
        let now = kept.now();
        let (body, used) = kept.frames.get_mut(&frame)?;
        let before = std::mem::replace(used, now);
        let body = body.clone();
        kept.uses.remove(&before);
        kept.uses.insert(now, frame);
        Some(body)
    }

    /// Keeps the body of a frame. Bodies that had to go are handed to `gone`.
    pub(crate) fn put(&self, frame: u32, body: Arc<Body>, mut gone: impl FnMut(Arc<Body>)) {
        let mut kept = self.kept.lock().expect("no holder of this lock panics");
        // Another thread may have read it meanwhile.
        kept.remove(frame);
        let now = kept.now();
        kept.bytes += body.weight();
        kept.frames.insert(frame, (body, now));
        kept.uses.insert(now, frame);
        while kept.bytes > self.budget && kept.frames.len() > 1 {
            let (_, &oldest) = kept.uses.first_key_value().expect("as many as frames");
            gone(kept.remove(oldest).expect("it has a use"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ibid_format::frame::Builder;
    use ibid_format::{FileId, MasterKey};

    fn keys() -> Keys {
        Keys::encrypted(FileId([0; 16]), &MasterKey::random())
    }

    fn body(keys: &Keys, chunks: &[&[u8]]) -> Arc<Body> {
        let mut builder = Builder::new();
        for chunk in chunks {
            builder.push(keys.chunk_id(chunk), chunk);
        }
        Arc::new(Body::gathered(builder.body().to_vec(), builder.blobs()))
    }

    #[test]
    fn a_body_has_its_chunks_and_their_ids() {
        let keys = keys();
        let body = body(&keys, &[b"first", b"second"]);
        assert_eq!(body.chunk(0), Some(&b"first"[..]));
        assert_eq!(body.chunk(1), Some(&b"second"[..]));
        assert_eq!(body.chunk(2), None);
        assert_eq!(body.id(&keys, 1), Some(keys.chunk_id(b"second")));
        assert_eq!(body.id(&keys, 2), None);
    }

    #[test]
    fn what_was_not_used_for_longest_goes_when_there_is_no_more_room() {
        let keys = keys();
        let some = vec![7; 1000];
        let body = || body(&keys, &[&some]);
        let bodies = Bodies::new(3 * body().weight());
        let mut gone = 0;
        for frame in [1, 2, 3] {
            bodies.put(frame, body(), |_| gone += 1);
        }
        assert_eq!(gone, 0);
        assert!(bodies.get(1).is_some());
        bodies.put(3, body(), |_| gone += 1);
        assert_eq!(gone, 0, "the same frame again takes no more room");
        bodies.put(4, body(), |_| gone += 1);
        assert_eq!(gone, 1);
        assert!(bodies.get(2).is_none());
        assert!([1, 3, 4].iter().all(|&frame| bodies.get(frame).is_some()));
        Bodies::new(0).put(1, body(), |_| panic!("the only one stays"));
    }
}
