//! Repositories whose data frames are written by hand, with any bases.

use std::ops::Range;
use std::sync::Arc;

use ibid_delta::Method;
use ibid_format::content::{Content, Item};
use ibid_format::frame::{self, Compression, FrameDecoder, FrameEncoder, Piece};
use ibid_format::pack::{self, PackKind, PackSummary, TRAILER};
use ibid_format::slot::Slot;
use ibid_format::snapshot::{Snapshot, SnapshotTotals};
use ibid_format::tree::{EntryKind, Time, TreeEntry};
use ibid_format::{FileId, Keys, index};
use ibid_storage::{Memory, Name, Storage};

use super::damage::{Image, image, storage};

/// A frame to write.
#[derive(Clone, Default)]
pub struct Frame {
    pub chunks: Vec<Vec<u8>>,
    /// Chunks that it is encoded against, with the range of each.
    pub bases: Vec<(Vec<u8>, Range<usize>)>,
    pub depth: u8,
    /// Bytes to store in place of the chunks' own.
    pub lie: Option<Vec<Vec<u8>>>,
}

impl Frame {
    pub fn whole(chunks: &[Vec<u8>]) -> Frame {
        Frame {
            chunks: chunks.to_vec(),
            ..Frame::default()
        }
    }

    /// Returns a frame encoded against the whole of these chunks.
    pub fn delta(chunks: &[Vec<u8>], depth: u8, bases: &[&Vec<u8>]) -> Frame {
        let whole = |base: &&Vec<u8>| ((*base).clone(), 0..base.len());
        Frame {
            chunks: chunks.to_vec(),
            bases: bases.iter().map(whole).collect(),
            depth,
            lie: None,
        }
    }
}

/// An attacker who has the password and stores packs by hand.
pub struct Writer {
    pub storage: Arc<Memory>,
    pub keys: Keys,
}

impl Writer {
    pub fn of(storage: Arc<Memory>) -> Writer {
        let mut slot = None;
        storage.list("keys", &mut |name, _| slot = Some(name)).unwrap();
        let slot = slot.unwrap();
        let id = FileId::parse(slot.last_segment()).unwrap();
        let slot = Slot::parse(id, &storage.get(&slot, 1 << 20).unwrap()).unwrap();
        let master = slot.unlock(b"secret", 1 << 20).unwrap();
        let keys = Keys::encrypted(slot.repository(), &master);
        Writer { storage, keys }
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        self.storage.put(&Name::new(name).unwrap(), &[bytes]).unwrap();
    }

    /// Returns the plaintext of a frame, its blobs, and the chunks it is encoded against.
    pub fn encode(&self, frame: &Frame) -> (Vec<u8>, frame::FrameBuilder, Vec<Piece>) {
        let mut gathered = frame::FrameBuilder::new();
        for chunk in &frame.chunks {
            gathered.push(self.keys.chunk_id(chunk), chunk);
        }
        let body = frame
            .lie
            .as_ref()
            .map_or_else(|| gathered.body().to_vec(), |lie| lie.concat());
        let (mut encoder, mut plaintext) = (FrameEncoder::new(), Vec::new());
        let piece = |(chunk, range): &(Vec<u8>, Range<usize>)| Piece {
            base: self.keys.chunk_id(chunk).prefix(),
            start: range.start as u32,
            length: range.len() as u32,
        };
        let pieces: Vec<Piece> = frame.bases.iter().map(piece).collect();
        if pieces.is_empty() {
            let compression = Compression::Zstd(1);
            encoder
                .encode(gathered.blobs(), &body, compression, &mut plaintext)
                .unwrap();
        } else {
            // Bytes beyond the end of a chunk, which do not exist, are zeros here.
            let bytes = |(chunk, range): &(Vec<u8>, Range<usize>)| {
                let mut chunk = chunk.clone();
                chunk.resize(chunk.len().max(range.end), 0);
                chunk[range.clone()].to_vec()
            };
            let prefix: Vec<u8> = frame.bases.iter().flat_map(bytes).collect();
            let method = Method::ZstdPrefix { level: 1 };
            encoder
                .encode_delta(gathered.blobs(), &body, &pieces, &prefix, method, &mut plaintext)
                .unwrap();
        }
        (plaintext, gathered, pieces)
    }

    /// Stores a pack of data.
    pub fn pack(&self, frames: &[Frame]) -> PackSummary {
        let id = FileId::random();
        let mut pack = pack::PackBuilder::new(&self.keys, id, PackKind::Data);
        for frame in frames {
            let (plaintext, gathered, pieces) = self.encode(frame);
            let mut bases = Vec::new();
            for piece in pieces {
                if !bases.contains(&piece.base) {
                    bases.push(piece.base);
                }
            }
            pack.add(&plaintext, gathered.blobs(), frame.depth, &bases);
        }
        let (bytes, summary) = pack.finish();
        let hex = id.to_string();
        self.put(&format!("packs/{}/{hex}", &hex[..2]), &bytes);
        summary
    }

    /// Stores a snapshot of one file, `file`, that consists of one chunk stored in another pack.
    pub fn snapshot_of(&self, chunk: &[u8]) -> FileId {
        let content = |bytes: &[u8]| Content {
            depth: 0,
            length: bytes.len() as u64,
            items: vec![Item::Chunk {
                id: self.keys.chunk_id(bytes),
                length: bytes.len() as u32,
            }],
        };
        let mut listing = Vec::new();
        let file = TreeEntry {
            name: b"file".to_vec(),
            kind: EntryKind::File(content(chunk)),
            mode: 0o644,
            uid: 0,
            gid: 0,
            mtime: Time::default(),
            ctime: Time::default(),
            inode: 1,
            changed_while_read: false,
            hard_link_device: None,
            inode_flags: Default::default(),
            xattrs: vec![],
        };
        file.encode(&mut listing).unwrap();
        self.pack(&[Frame::whole(&[listing.clone()])]);
        let snapshot = Snapshot {
            time: Time::default(),
            sequence: 1,
            duration_ms: 0,
            host: "host".into(),
            user: "user".into(),
            program: "by hand".into(),
            paths: vec![b"/".to_vec()],
            tags: vec![],
            parent: None,
            original: None,
            root: content(&listing),
            users: vec![],
            groups: vec![],
            counters: SnapshotTotals::default(),
        };
        let id = FileId::random();
        self.put(&format!("snapshots/{id}"), &snapshot.encode(&self.keys, id).unwrap());
        id
    }

    /// Stores an index file that lists these packs.
    pub fn index(&self, packs: &[PackSummary]) {
        let id = FileId::random();
        self.put(
            &format!("index/{id}"),
            &index::encode(&self.keys, id, 0, packs).unwrap(),
        );
    }

    /// Returns the directory of a pack.
    pub fn directory(&self, name: &Name) -> PackSummary {
        let id = FileId::parse(name.last_segment()).unwrap();
        let mut bytes = self.storage.get(name, u64::MAX).unwrap();
        let (size, trailer_at) = (bytes.len() as u64, bytes.len() - TRAILER as usize);
        let offset = pack::open_trailer(&self.keys, id, size, &mut bytes[trailer_at..]).unwrap();
        let directory = &mut bytes[offset as usize..trailer_at];
        pack::open_directory(&self.keys, id, size, offset, directory).unwrap()
    }

    /// Returns the directory of a pack and its chunks by frame and slot. The pack must need no
    /// other.
    pub fn read(&self, name: &Name) -> (PackSummary, Vec<Vec<Vec<u8>>>) {
        let summary = self.directory(name);
        let (id, mut bytes) = (summary.id, self.storage.get(name, u64::MAX).unwrap());
        let mut decoder = FrameDecoder::new();
        let mut open = |frame: &pack::FrameSummary| {
            let sealed = &mut bytes[frame.offset as usize..][..frame.sealed as usize];
            let plain = pack::open_frame(&self.keys, id, frame.offset, sealed).unwrap();
            let decoded = decoder.decode(plain, &[], None).unwrap();
            decoded.chunks().map(<[u8]>::to_vec).collect()
        };
        let chunks = summary.frames.iter().map(&mut open).collect();
        (summary, chunks)
    }
}

/// Returns the same repository with other data packs. `draw` makes them from the chunks: a list of
/// frames per pack.
pub fn rewrite(of: &Image, draw: impl FnOnce(Vec<Vec<u8>>) -> Vec<Vec<Frame>>) -> Image {
    let writer = Writer::of(storage(of));
    let (mut chunks, mut packs) = (Vec::new(), Vec::new());
    for name in of.keys() {
        match super::damage::kind(name) {
            "packs" => {
                let (summary, frames) = writer.read(name);
                if summary.kind == PackKind::Metadata {
                    packs.push(summary);
                    continue;
                }
                chunks.extend(frames.into_iter().flatten());
                writer.storage.delete(name).unwrap();
            }
            "index" => writer.storage.delete(name).unwrap(),
            _ => {}
        }
    }
    // Packs have random names. Sort the chunks, the longest first, so that the order is always the
    // same.
    chunks.sort_by_key(|chunk: &Vec<u8>| (std::cmp::Reverse(chunk.len()), chunk.clone()));
    packs.extend(draw(chunks).iter().map(|frames| writer.pack(frames)));
    writer.index(&packs);
    image(writer.storage.as_ref())
}

/// Returns frames of `each` chunks, every one encoded against the one before, up to this depth;
/// then a new chain begins. Neighbours are in different packs.
pub fn chains(chunks: &[Vec<u8>], each: usize, depth_max: u8, packs: usize) -> Vec<Vec<Frame>> {
    let mut drawn: Vec<Vec<Frame>> = vec![Vec::new(); packs];
    let groups: Vec<_> = chunks.chunks(each).collect();
    for (number, group) in groups.iter().enumerate() {
        let depth = number % (usize::from(depth_max) + 1);
        let mut frame = Frame::whole(group);
        if depth > 0 {
            frame.depth = depth as u8;
            let before = groups[number - 1];
            let (first, last) = (&before[0], &before[before.len() - 1]);
            let half = last.len() / 2;
            frame.bases = vec![(first.clone(), 0..first.len()), (last.clone(), half..last.len())];
        }
        drawn[number % packs].push(frame);
    }
    drawn
}
