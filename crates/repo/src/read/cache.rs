//! Cache of decoded frames.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};

use ibid_delta::advanced::BaseAnchors;
use ibid_format::frame::Blob;
use ibid_format::{ChunkId, Keys};

use super::delta_body::DeltaBody;
use super::recency::Recency;
use crate::threads::wait;

/// Maximum size and number of freed bodies whose memory is kept for reuse.
const SPARE_BYTES_MAX: usize = 4 << 20;
const SPARES: usize = 4;

/// A frame's chunks.
pub(crate) struct Body {
    form: Form,
    /// End of each slot; a slot begins where the one before ends.
    ends: Vec<u32>,
    /// Id of each slot's chunk, once computed.
    ids: Vec<OnceLock<ChunkId>>,
    /// Anchors of each slot's chunk, once found: the same base is searched many times.
    anchors: Vec<OnceLock<BaseAnchors>>,
}

/// Location of the chunks' bytes.
pub(crate) enum Form {
    /// In memory, chunk after chunk.
    Whole(Vec<u8>),
    /// A few in memory, most in other frames.
    Delta(DeltaBody),
}

impl Body {
    /// Makes the body of chunks that were read, with the end of each. Their ids are computed when
    /// needed.
    pub(crate) fn read(form: Form, ends: Vec<u32>) -> Body {
        let ids = ends.iter().map(|_| OnceLock::new()).collect();
        Body::new(form, ends, ids)
    }

    fn new(form: Form, ends: Vec<u32>, ids: Vec<OnceLock<ChunkId>>) -> Body {
        let anchors = ends.iter().map(|_| OnceLock::new()).collect();
        Body {
            form,
            ends,
            ids,
            anchors,
        }
    }

    /// Makes the body of chunks about to be stored.
    pub(crate) fn gathered(bytes: Vec<u8>, blobs: &[Blob]) -> Body {
        Body::named(Form::Whole(bytes), blobs)
    }

    /// Makes the body of such chunks after they were encoded as a delta.
    pub(crate) fn encoded(delta: DeltaBody, blobs: &[Blob]) -> Body {
        Body::named(Form::Delta(delta), blobs)
    }

    fn named(form: Form, blobs: &[Blob]) -> Body {
        let mut end = 0;
        let ends = blobs
            .iter()
            .map(|blob| {
                end += blob.length;
                end
            })
            .collect();
        let ids = blobs.iter().map(|blob| OnceLock::from(blob.id)).collect();
        Body::new(form, ends, ids)
    }

    pub(crate) fn form(&self) -> &Form {
        &self.form
    }

    /// Returns the bytes of a body that is held whole: one that was gathered, or that has no bases.
    pub(crate) fn whole(&self) -> &[u8] {
        match &self.form {
            Form::Whole(bytes) => bytes,
            Form::Delta(_) => unreachable!("only bodies that are whole are asked for all bytes"),
        }
    }

    /// Returns a body's memory for reuse, if it has no other owner.
    pub(crate) fn memory(body: Arc<Body>) -> Option<(Vec<u8>, Vec<u32>)> {
        let body = Arc::into_inner(body)?;
        match body.form {
            Form::Whole(bytes) => Some((bytes, body.ends)),
            Form::Delta(_) => None,
        }
    }

    /// Returns the length of all chunks together, bytes.
    pub(crate) fn len(&self) -> usize {
        self.ends.last().map_or(0, |&end| end as usize)
    }

    /// Returns the range of a slot's chunk among all bytes.
    pub(crate) fn range(&self, slot: u16) -> Option<Range<usize>> {
        let end = *self.ends.get(usize::from(slot))? as usize;
        let start = usize::from(slot)
            .checked_sub(1)
            .map_or(0, |before| self.ends[before] as usize);
        Some(start..end)
    }

    /// Returns the id of the chunk in a slot, if it was computed.
    pub(crate) fn known_id(&self, slot: u16) -> Option<ChunkId> {
        self.ids.get(usize::from(slot))?.get().copied()
    }

    /// Returns the id of the chunk in a slot, computed once from `chunk`, its bytes. The chunk is
    /// intact if this is the expected id.
    pub(crate) fn name(&self, keys: &Keys, slot: u16, chunk: &[u8]) -> ChunkId {
        *self.ids[usize::from(slot)].get_or_init(|| keys.chunk_id(chunk))
    }

    /// Returns the anchors of the chunk in a slot, if they were noted.
    pub(crate) fn anchors(&self, slot: u16) -> Option<&BaseAnchors> {
        self.anchors.get(usize::from(slot))?.get()
    }

    /// Stores the anchors of the chunk in a slot. Tell the cache afterwards that the body
    /// [grew](FrameCache::grew).
    pub(crate) fn note_anchors(&self, slot: u16, anchors: BaseAnchors) {
        if let Some(place) = self.anchors.get(usize::from(slot)) {
            // If another thread was first, its anchors are the same.
            let _ = place.set(anchors);
        }
    }

    /// Returns the memory in use, bytes.
    fn weight(&self) -> u64 {
        let slot = size_of::<u32>() + size_of::<OnceLock<ChunkId>>() + size_of::<OnceLock<BaseAnchors>>();
        let noted = self.anchors.iter().filter_map(OnceLock::get);
        let slots = self.ends.len() * slot + noted.map(BaseAnchors::memory).sum::<usize>();
        let content = match &self.form {
            Form::Whole(bytes) => bytes.capacity(),
            Form::Delta(delta) => delta.memory(),
        };
        (size_of::<Body>() + content + slots) as u64
    }
}

/// Cache of bodies by frame number, evicting the least recently used.
pub(crate) struct FrameCache {
    kept: Mutex<Cached>,
    /// Notified when a thread has finished reading a frame.
    read: Condvar,
}

#[derive(Default)]
struct Cached {
    /// Memory limit, bytes; one body is kept in any case.
    budget: u64,
    /// Share of it that is reserved for delta bodies, however many whole ones are added: they are
    /// small, and reading one again may need many other frames. One part in so many.
    delta_part: u64,
    /// Bodies, each with its weight when last measured.
    frames: HashMap<u32, (Arc<Body>, u64)>,
    whole: Share,
    delta: Share,
    /// Frames being read by a thread.
    claimed: HashSet<u32>,
    /// Memory of evicted bodies, for reuse.
    spare: Vec<(Vec<u8>, Vec<u32>)>,
}

/// Bodies of one form.
#[derive(Default)]
struct Share {
    recency: Recency,
    bytes: u64,
}

/// One part in two is for delta bodies. With less, a cache that is too small for all bases of a
/// frame reads the same deltas again and again.
const DELTA_PART: u64 = 2;
/// In a backup, which encodes against whole bodies.
const DELTA_PART_IN_BACKUP: u64 = 8;

impl Cached {
    fn share(&mut self, body: &Body) -> &mut Share {
        match body.form {
            Form::Whole(_) => &mut self.whole,
            Form::Delta(_) => &mut self.delta,
        }
    }

    fn bytes(&self) -> u64 {
        self.whole.bytes + self.delta.bytes
    }

    fn get(&mut self, frame: u32) -> Option<Arc<Body>> {
        let body = self.frames.get(&frame)?.0.clone();
        self.share(&body).recency.touch(frame);
        Some(body)
    }

    fn insert(&mut self, frame: u32, body: Arc<Body>) {
        // The frame may have been added meanwhile.
        self.remove(frame);
        let weight = body.weight();
        let share = self.share(&body);
        share.bytes += weight;
        share.recency.touch(frame);
        self.frames.insert(frame, (body, weight));
    }

    fn remove(&mut self, frame: u32) -> Option<Arc<Body>> {
        let (body, weight) = self.frames.remove(&frame)?;
        let share = self.share(&body);
        share.recency.remove(frame);
        share.bytes -= weight;
        Some(body)
    }

    fn weigh(&mut self, frame: u32) {
        if let Some((body, weight)) = self.frames.get_mut(&frame) {
            let (body, before) = (body.clone(), *weight);
            *weight = body.weight();
            let after = *weight;
            let share = self.share(&body);
            share.bytes = share.bytes - before + after;
        }
    }

    /// Keeps a body's memory for reuse, if it has no other owner.
    fn recycle(&mut self, body: Arc<Body>) {
        if self.spare.len() < SPARES
            && let Some((bytes, ends)) = Body::memory(body)
            && bytes.capacity() <= SPARE_BYTES_MAX
        {
            self.spare.push((bytes, ends));
        }
    }

    /// Evicts bodies until the rest fits.
    fn shrink(&mut self) {
        while self.bytes() > self.budget && self.frames.len() > 1 {
            let pieced_first = self.whole.bytes == 0 || self.delta.bytes > self.budget / self.delta_part;
            let share = if pieced_first { &mut self.delta } else { &mut self.whole };
            let oldest = share.recency.pop_oldest().expect("it has bytes");
            let gone = self.remove(oldest).expect("it was used");
            self.recycle(gone);
        }
    }
}

/// Result of [`FrameCache::get_or_claim`].
pub(crate) enum Claim<'b> {
    /// The body is cached.
    Here(Arc<Body>),
    /// The caller must read it; other threads wait until then.
    Ours(Claimed<'b>),
}

/// A frame being read. Dropping it lets the next waiting thread try.
pub(crate) struct Claimed<'b> {
    cache: &'b FrameCache,
    frame: u32,
}

impl Claimed<'_> {
    /// Returns memory to read into.
    pub(crate) fn spare(&self) -> (Vec<u8>, Vec<u32>) {
        self.cache.kept().spare.pop().unwrap_or_default()
    }

    /// Adds the body to the cache.
    pub(crate) fn done(self, body: Arc<Body>) {
        self.cache.put(self.frame, body);
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        self.cache.kept().claimed.remove(&self.frame);
        self.cache.read.notify_all();
    }
}

impl FrameCache {
    /// Creates a cache of about `budget` bytes; one body is kept in any case.
    pub(crate) fn new(budget: u64) -> FrameCache {
        FrameCache {
            kept: Mutex::new(Cached {
                budget,
                delta_part: DELTA_PART,
                ..Cached::default()
            }),
            read: Condvar::new(),
        }
    }

    /// Returns the budget, bytes.
    pub(crate) fn budget(&self) -> u64 {
        self.kept().budget
    }

    /// Sets the budget to about this many bytes.
    pub(crate) fn limit(&self, budget: u64) {
        let mut kept = self.kept();
        kept.budget = budget;
        kept.shrink();
    }

    /// Reserves less for delta bodies, because a backup needs whole ones more.
    pub(crate) fn for_backup(&self) {
        self.kept().delta_part = DELTA_PART_IN_BACKUP;
    }

    fn kept(&self) -> MutexGuard<'_, Cached> {
        self.kept.lock().expect("no holder of this lock panics")
    }

    /// Returns the body of a frame, waiting if another thread is reading it; otherwise the caller
    /// claims it.
    ///
    /// A thread that has claimed a frame waits only for frames of smaller depth, since frames need
    /// only those. So there is no deadlock.
    pub(crate) fn get_or_claim(&self, frame: u32) -> Claim<'_> {
        let mut kept = self.kept();
        loop {
            if let Some(body) = kept.get(frame) {
                return Claim::Here(body);
            }
            if kept.claimed.insert(frame) {
                return Claim::Ours(Claimed { cache: self, frame });
            }
            kept = wait(&self.read, &self.kept, kept);
        }
    }

    /// Returns the body of a frame, if it is cached.
    pub(crate) fn get(&self, frame: u32) -> Option<Arc<Body>> {
        self.kept().get(frame)
    }

    /// Returns whether the body of a frame is cached, without counting that as use.
    pub(crate) fn has(&self, frame: u32) -> bool {
        self.kept().frames.contains_key(&frame)
    }

    /// Returns whether the body of a frame is cached, or a thread is reading it.
    pub(crate) fn has_or_reads(&self, frame: u32) -> bool {
        let kept = self.kept();
        kept.frames.contains_key(&frame) || kept.claimed.contains(&frame)
    }

    /// Measures the body of a frame again after it grew, if it is cached.
    pub(crate) fn grew(&self, frame: u32) {
        let mut kept = self.kept();
        kept.weigh(frame);
        kept.shrink();
    }

    /// Returns memory of an evicted body.
    pub(crate) fn spare(&self) -> Vec<u8> {
        let (mut bytes, _) = self.kept().spare.pop().unwrap_or_default();
        bytes.clear();
        bytes
    }

    /// Adds the body of a frame.
    pub(crate) fn put(&self, frame: u32, body: Arc<Body>) {
        let mut kept = self.kept();
        kept.insert(frame, body);
        kept.shrink();
    }
}

#[cfg(test)]
mod tests {
    use ibid_format::frame::FrameBuilder;
    use ibid_format::{FileId, MasterKey};

    use super::super::delta_body::Sources;
    use super::*;

    fn keys() -> Keys {
        Keys::encrypted(FileId([0; 16]), &MasterKey::random())
    }

    fn body(keys: &Keys, chunks: &[&[u8]]) -> Arc<Body> {
        let mut builder = FrameBuilder::new();
        for chunk in chunks {
            builder.push(keys.chunk_id(chunk), chunk);
        }
        Arc::new(Body::gathered(builder.body().to_vec(), builder.blobs()))
    }

    fn chunk(body: &Body, slot: u16) -> Option<&[u8]> {
        body.range(slot).map(|range| &body.whole()[range])
    }

    #[test]
    fn a_body_has_its_chunks_and_their_ids() {
        let keys = keys();
        let body = body(&keys, &[b"first", b"second"]);
        assert_eq!(chunk(&body, 0), Some(&b"first"[..]));
        assert_eq!(chunk(&body, 1), Some(&b"second"[..]));
        assert_eq!(chunk(&body, 2), None);
        assert_eq!(body.len(), 11);
        assert_eq!(body.known_id(1), Some(keys.chunk_id(b"second")));
        assert_eq!(body.known_id(2), None);

        let read = Body::read(Form::Whole(b"third".to_vec()), vec![5]);
        assert_eq!(read.known_id(0), None);
        assert_eq!(read.name(&keys, 0, b"third"), keys.chunk_id(b"third"));
        assert_eq!(read.known_id(0), Some(keys.chunk_id(b"third")));
    }

    /// Returns whether a body is cached; if so, this counts as use.
    fn has(bodies: &FrameCache, frame: u32) -> bool {
        matches!(bodies.get_or_claim(frame), Claim::Here(_))
    }

    #[test]
    fn the_least_recently_used_entry_goes_first() {
        let keys = keys();
        let some = vec![7; 1000];
        let body = || body(&keys, &[&some]);
        let bodies = FrameCache::new(3 * body().weight());
        for frame in [1, 2, 3] {
            bodies.put(frame, body());
        }
        assert!(has(&bodies, 1));
        bodies.put(3, body());
        assert!(has(&bodies, 2), "the same frame again takes no more room");
        bodies.put(4, body());
        assert!(!has(&bodies, 1));
        assert!([2, 3, 4].iter().all(|&frame| has(&bodies, frame)));
        let tiny = FrameCache::new(0);
        tiny.put(1, body());
        assert!(has(&tiny, 1), "the only one stays");
    }

    #[test]
    fn delta_bodies_stay_while_whole_ones_come_and_go() {
        let keys = keys();
        let some = vec![7; 1000];
        let whole = || body(&keys, &[&some]);
        let mut builder = FrameBuilder::new();
        builder.push(keys.chunk_id(&some), &some);
        let method = ibid_delta::Method::AnchorZstd {
            level: 1,
            interval: ibid_delta::Interval::I32,
        };
        let mut encoder = ibid_delta::DeltaEncoder::new();
        encoder.encode(method, &some, &some, &mut Vec::new()).unwrap();
        let delta = || {
            let outline = encoder.outline().expect("it was by anchors");
            let sources = Sources::new(0, &[], &[]);
            Arc::new(Body::encoded(DeltaBody { outline, sources }, builder.blobs()))
        };
        let part = delta().weight() * DELTA_PART;
        let bodies = FrameCache::new(part.max(2 * whole().weight()));
        bodies.put(1, delta());
        for frame in 10..30 {
            bodies.put(frame, whole());
        }
        assert!(has(&bodies, 1));
        for frame in 2..9 {
            bodies.put(frame, delta());
        }
        bodies.put(30, whole());
        let delta = (1..9).filter(|&frame| has(&bodies, frame)).count() as u64;
        assert!(
            has(&bodies, 30) && (1..8).contains(&delta),
            "their part and no more: {delta}"
        );
    }

    #[test]
    fn memory_of_an_evicted_body_is_reused_unless_it_has_another_owner() {
        let keys = keys();
        let some = vec![7; 1000];
        let bodies = FrameCache::new(0);
        let spare = || match bodies.get_or_claim(100) {
            Claim::Ours(reading) => reading.spare().0.capacity(),
            Claim::Here(_) => panic!("nobody has read it"),
        };
        bodies.put(1, body(&keys, &[&some]));
        bodies.put(2, body(&keys, &[&some]));
        assert!(spare() >= 1000);
        assert_eq!(spare(), 0, "it is used by one only");
        let Claim::Here(held) = bodies.get_or_claim(2) else {
            panic!("the last one stays")
        };
        bodies.put(3, body(&keys, &[&some]));
        assert_eq!(spare(), 0);
        assert_eq!(chunk(&held, 0), Some(&some[..]));
    }

    #[test]
    fn a_frame_is_read_once_by_however_many_threads_and_again_if_that_failed() {
        let keys = keys();
        let bodies = FrameCache::new(1 << 20);
        let read = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| match bodies.get_or_claim(5) {
                    Claim::Here(body) => assert_eq!(chunk(&body, 0), Some(&b"bytes"[..])),
                    Claim::Ours(reading) => {
                        // The first read fails.
                        if read.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0 {
                            reading.done(body(&keys, &[b"bytes"]));
                        }
                    }
                });
            }
        });
        assert_eq!(read.into_inner(), 2);
    }
}
