//! Keys, and strategies for every value of the format.

#![allow(dead_code, reason = "each test file uses a part of it")]

use ibid_delta::{Interval, Method};
use ibid_format::checkpoint::Checkpoint;
use ibid_format::content::{Content, Item};
use ibid_format::frame::{self, Blob, Compression, Piece};
use ibid_format::pack::{FrameSummary, PackKind, PackSummary};
use ibid_format::prune_log::{Batch, Entry};
use ibid_format::session::{Process, Session};
use ibid_format::snapshot::{Snapshot, SnapshotTotals};
use ibid_format::tree::{EntryKind, InodeFlags, Time, TreeEntry};
use ibid_format::{ChunkId, ChunkPrefix, FileId, Keys, MasterKey, SEAL_OVERHEAD, pack, padme};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

pub(crate) const FILE: FileId = FileId([0x11; 16]);
pub(crate) const OTHER_FILE: FileId = FileId([0x12; 16]);

/// Keys of the same repository, encrypted and not.
pub(crate) fn both_keys() -> [Keys; 2] {
    let (repository, master) = (FileId([0xa0; 16]), MasterKey::from_bytes([7; 32]));
    [
        Keys::encrypted(repository, &master),
        Keys::unencrypted(repository, &master),
    ]
}

/// Returns the plaintext of a frame of these chunks, and its blobs.
pub(crate) fn frame(keys: &Keys, chunks: &[Vec<u8>], compression: Compression) -> (Vec<u8>, Vec<Blob>) {
    let mut gathered = frame::FrameBuilder::new();
    for chunk in chunks {
        gathered.push(keys.chunk_id(chunk), chunk);
    }
    let mut plaintext = Vec::new();
    frame::FrameEncoder::new()
        .encode(gathered.blobs(), gathered.body(), compression, &mut plaintext)
        .expect("a valid frame");
    (plaintext, gathered.blobs().to_vec())
}

/// A pack of one chunk a frame.
pub(crate) fn small_pack(keys: &Keys) -> (Vec<u8>, PackSummary) {
    let mut builder = pack::PackBuilder::new(keys, FILE, PackKind::Metadata);
    for chunk in [vec![1; 10], vec![2; 10], vec![3; 999]] {
        let (plaintext, blobs) = frame(keys, &[chunk], Compression::Stored);
        builder.add(&plaintext, &blobs, 0, &[]);
    }
    builder.finish()
}

/// Chunks that compress a bit: runs of random bytes.
pub(crate) fn chunks() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(vec((any::<u8>(), 1..200usize), 1..12), 1..12).prop_map(|chunks| {
        let runs = |runs: Vec<(u8, usize)>| runs.into_iter().flat_map(|(byte, n)| std::iter::repeat_n(byte, n));
        chunks.into_iter().map(|chunk| runs(chunk).collect()).collect()
    })
}

pub(crate) fn chunk_id() -> impl Strategy<Value = ChunkId> {
    any::<[u8; 32]>().prop_map(ChunkId)
}

pub(crate) fn blob() -> impl Strategy<Value = Blob> {
    (chunk_id(), 1..=1u32 << 20).prop_map(|(id, length)| Blob { id, length })
}

/// Depth and bases of a frame.
pub(crate) fn bases() -> impl Strategy<Value = (u8, Vec<ChunkPrefix>)> {
    let some = btree_set(any::<[u8; 12]>(), 1..10);
    prop_oneof![
        Just((0, Vec::new())),
        (1..=frame::DEPTH_MAX, some).prop_map(|(depth, bases)| (depth, bases.into_iter().map(ChunkPrefix).collect())),
    ]
}

/// Returns the plaintext of a delta frame of these chunks, against the whole first chunk and the
/// middle of all together.
pub(crate) fn delta_frame(keys: &Keys, chunks: &[Vec<u8>], method: Method) -> (Vec<u8>, Vec<Piece>, Vec<u8>) {
    let mut gathered = frame::FrameBuilder::new();
    for chunk in chunks {
        gathered.push(keys.chunk_id(chunk), chunk);
    }
    let (first, all) = (&chunks[0], chunks.concat());
    let middle = all.len() / 3..all.len() - all.len() / 3;
    let pieces = vec![
        Piece {
            base: keys.chunk_id(first).prefix(),
            start: 0,
            length: first.len() as u32,
        },
        Piece {
            base: keys.chunk_id(&all).prefix(),
            start: middle.start as u32,
            length: middle.len() as u32,
        },
    ];
    let prefix = [&first[..], &all[middle]].concat();
    let mut plaintext = Vec::new();
    frame::FrameEncoder::new()
        .encode_delta(
            gathered.blobs(),
            gathered.body(),
            &pieces,
            &prefix,
            method,
            &mut plaintext,
        )
        .expect("a valid frame");
    (plaintext, pieces, prefix)
}

/// Both codecs of deltas.
pub(crate) fn method() -> impl Strategy<Value = Method> {
    prop_oneof![
        Just(Method::ZstdPrefix { level: 1 }),
        Just(Method::Anchor {
            interval: Interval::I16
        }),
    ]
}

/// A directory as a pack could have it, without the pack.
pub(crate) fn summary() -> impl Strategy<Value = PackSummary> {
    let frames = vec((vec(blob(), 1..20), 45..10_000u32, bases()), 0..8);
    (any::<[u8; 16]>(), any::<bool>(), frames).prop_map(|(id, metadata, frames)| {
        let mut offset = 8;
        let frames: Vec<_> = frames
            .into_iter()
            .map(|(blobs, sealed, (depth, bases))| {
                let frame = FrameSummary {
                    offset,
                    sealed,
                    depth,
                    bases,
                    blobs,
                };
                offset += sealed;
                frame
            })
            .collect();
        let directory: usize = frames
            .iter()
            .map(|frame| 8 + frame.blobs.len() * 36 + frame.bases.len() * 12)
            .sum();
        let size = padme::padded(u64::from(offset) + (directory + 3 + SEAL_OVERHEAD) as u64 + pack::TRAILER);
        let kind = if metadata { PackKind::Metadata } else { PackKind::Data };
        PackSummary {
            id: FileId(id),
            kind,
            size,
            frames,
        }
    })
}

pub(crate) fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        (chunk_id(), 1..=16u32 << 20).prop_map(|(id, length)| Item::Chunk { id, length }),
        (1..=u64::MAX >> 6).prop_map(|length| Item::Hole { length }),
    ]
}

pub(crate) fn content() -> impl Strategy<Value = Content> {
    (0..=8u8, any::<u64>(), vec(item(), 0..=32)).prop_map(|(depth, length, mut items)| {
        if depth > 0 {
            items.retain(|item| matches!(item, Item::Chunk { .. }));
            return Content { depth, length, items };
        }
        Content {
            depth,
            length: items.iter().map(Item::length).sum(),
            items,
        }
    })
}

pub(crate) fn time() -> impl Strategy<Value = Time> {
    (any::<i64>(), 0..1_000_000_000u32).prop_map(|(seconds, nanos)| Time { seconds, nanos })
}

pub(crate) fn name() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 1..=255).prop_filter("a name", |name| ibid_format::tree::check_name(name).is_ok())
}

pub(crate) fn entry() -> impl Strategy<Value = TreeEntry> {
    let kind = prop_oneof![
        content().prop_map(EntryKind::File),
        content().prop_map(EntryKind::Directory),
        vec(any::<u8>(), 0..300).prop_map(EntryKind::Symlink),
        Just(EntryKind::Fifo),
        Just(EntryKind::Socket),
        any::<(u32, u32)>().prop_map(|(major, minor)| EntryKind::CharDevice { major, minor }),
        any::<(u32, u32)>().prop_map(|(major, minor)| EntryKind::BlockDevice { major, minor }),
    ];
    let name = vec(1..=255u8, 1..=40).prop_map(|mut name: Vec<u8>| {
        name.iter_mut()
            .filter(|byte| matches!(byte, b'/' | b'.'))
            .for_each(|byte| *byte = b'x');
        name
    });
    let xattrs = btree_map(vec(any::<u8>(), 0..20), vec(any::<u8>(), 0..40), 0..5);
    let numbers = (0..=0o7777u32, any::<u32>(), any::<u32>(), any::<u64>(), any::<u32>());
    (
        name,
        kind,
        numbers,
        time(),
        time(),
        any::<bool>(),
        any::<Option<u64>>(),
        xattrs,
    )
        .prop_map(
            |(
                name,
                kind,
                (mode, uid, gid, inode, flags),
                mtime,
                ctime,
                changed_while_read,
                hard_link_device,
                xattrs,
            )| {
                let inode_flags = match kind {
                    EntryKind::File(_) | EntryKind::Directory(_) => InodeFlags::of(flags),
                    _ => InodeFlags::default(),
                };
                TreeEntry {
                    name,
                    kind,
                    mode,
                    uid,
                    gid,
                    mtime,
                    ctime,
                    inode,
                    changed_while_read,
                    hard_link_device,
                    inode_flags,
                    xattrs: xattrs.into_iter().collect(),
                }
            },
        )
}

pub(crate) fn snapshot() -> impl Strategy<Value = Snapshot> {
    let texts = (".{0,20}", ".{0,20}", ".{0,20}");
    let names = || btree_map(any::<u32>(), vec(any::<u8>(), 0..10), 0..4);
    let lists = (
        vec(vec(any::<u8>(), 0..50), 0..4),
        btree_set(".{0,10}", 0..4),
        names(),
        names(),
    );
    let others = any::<[Option<[u8; 16]>; 2]>();
    let two = any::<(u64, u64)>();
    (time(), two, texts, lists, others, content(), any::<[u64; 9]>()).prop_map(
        |(
            time,
            (sequence, duration_ms),
            (host, user, program),
            (paths, tags, users, groups),
            others,
            root,
            numbers,
        )| {
            let [parent, original] = others.map(|id| id.map(FileId));
            let [
                files,
                directories,
                others,
                bytes,
                new_chunks,
                new_bytes,
                stored_bytes,
                unreadable,
                changed_while_read,
            ] = numbers;
            Snapshot {
                time,
                sequence,
                duration_ms,
                host,
                user,
                program,
                paths,
                tags: tags.into_iter().collect(),
                parent,
                original,
                root,
                users: users.into_iter().collect(),
                groups: groups.into_iter().collect(),
                counters: SnapshotTotals {
                    files,
                    directories,
                    others,
                    bytes,
                    new_chunks,
                    new_bytes,
                    stored_bytes,
                    unreadable,
                    changed_while_read,
                },
            }
        },
    )
}

fn ids() -> impl Strategy<Value = Vec<FileId>> {
    btree_set(any::<[u8; 16]>(), 0..5).prop_map(|ids| ids.into_iter().map(FileId).collect())
}

pub(crate) fn log_entry() -> impl Strategy<Value = Entry> {
    let batch =
        (time(), ids(), proptest::option::of(ids())).prop_map(|(time, packs, seen)| Batch { time, packs, seen });
    (time(), ".{0,20}", vec(batch, 0..3), ids(), any::<u64>(), ids()).prop_map(
        |(time, host, batches, doomed, fence, verified)| Entry {
            time,
            host,
            batches,
            doomed,
            fence,
            verified,
        },
    )
}

pub(crate) fn checkpoint() -> impl Strategy<Value = Checkpoint> {
    let paths = vec(vec(any::<u8>(), 0..50), 0..4);
    let last = vec(any::<u8>(), 0..50);
    let texts = (".{0,20}", ".{0,20}");
    let numbers = any::<[u64; 3]>();
    (any::<[u8; 16]>(), time(), texts, paths, content(), last, numbers).prop_map(
        |(session, time, (host, program), paths, root, last, [sequence, files, bytes])| Checkpoint {
            session: FileId(session),
            time,
            sequence,
            host,
            program,
            paths,
            root,
            last,
            files,
            bytes,
        },
    )
}

pub(crate) fn session() -> impl Strategy<Value = Session> {
    let texts = || (".{0,20}", ".{0,20}", ".{0,20}");
    let paths = vec(vec(any::<u8>(), 0..50), 0..4);
    (time(), texts(), texts(), paths, any::<[u64; 3]>()).prop_map(
        |(time, (host, user, program), (action, machine, boot), paths, [namespace, pid, started])| Session {
            time,
            host,
            user,
            program,
            action,
            paths,
            process: Process {
                machine,
                boot,
                namespace,
                pid,
                started,
            },
        },
    )
}
