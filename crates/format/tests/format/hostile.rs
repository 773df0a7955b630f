//! For any bytes, a decoder returns a value or an error. It does not panic, and takes no more
//! memory than the bytes can account for.

use ibid_format::checkpoint::Checkpoint;
use ibid_format::content::{Content, Item};
use ibid_format::frame::{self, Compression, FrameDecoder};
use ibid_format::index::{self, Index};
use ibid_format::prune_log::Entry;
use ibid_format::session::Session;
use ibid_format::slot::Slot;
use ibid_format::snapshot::Snapshot;
use ibid_format::tree::TreeEntry;
use ibid_format::wire::Reader;
use ibid_format::{FileId, Keys, SealKind, config, pack};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::*;

/// Runs every decoder on these bytes.
fn decode_all(keys: &Keys, bytes: &[u8]) {
    let _ = config::header(bytes);
    let _ = config::open(bytes, keys);
    if let Ok(slot) = Slot::parse(FILE, bytes) {
        let _ = slot.note(keys);
        let _ = slot.unlock(b"", 0);
    }
    let _ = Item::decode_prefix(bytes);
    let _ = Content::decode(&mut Reader::new(bytes));
    let _ = TreeEntry::decode_prefix(bytes);
    let _ = Snapshot::decode(bytes);
    let _ = Session::decode(bytes);
    let _ = Session::open(keys, FILE, &mut bytes.to_vec());
    let _ = Entry::decode(bytes);
    let _ = Entry::open(keys, 1, &mut bytes.to_vec());
    let _ = Snapshot::open(keys, FILE, &mut bytes.to_vec());
    let _ = pack::decode_directory(bytes);
    let _ = pack::open_trailer(keys, FILE, bytes.len() as u64, &mut bytes.to_vec());
    let _ = pack::open_directory(keys, FILE, bytes.len() as u64, 8, &mut bytes.to_vec());
    let _ = index::header(keys, FILE, &mut bytes.to_vec());
    let _ = Index::open(keys, FILE, bytes.to_vec());
    decode_frame(bytes);
}

fn decode_frame(bytes: &[u8]) {
    let mut decoder = FrameDecoder::new();
    // The prefix has the right length, so that decoding gets as far as possible.
    let pieces = frame::pieces(bytes).unwrap_or_default();
    let prefix = vec![b'p'; pieces.iter().map(|piece| piece.length as usize).sum()];
    for upto in [None, Some(0), Some(1), Some(u16::MAX)] {
        if let Ok(frame) = decoder.decode(bytes, &prefix, upto) {
            let _ = frame.chunks().count();
            for slot in 0..frame.len().min(100) as u16 {
                let _ = (frame.chunk(slot), frame.chunk_len(slot));
            }
        }
    }
}

/// Changes to valid bytes, many of which pass the first checks.
#[derive(Debug, Clone)]
enum Change {
    Set(prop::sample::Index, u8),
    Flip(prop::sample::Index, u32),
    Truncate(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let at = any::<prop::sample::Index>;
    // Bytes that are likely to mean something: ends of varints, the largest ones, zero.
    let byte = prop_oneof![any::<u8>(), Just(0), Just(1), Just(0x7f), Just(0x80), Just(0xff)];
    let change = prop_oneof![
        (at(), byte).prop_map(|(at, byte)| Change::Set(at, byte)),
        (at(), 0..8u32).prop_map(|(at, bit)| Change::Flip(at, bit)),
        at().prop_map(Change::Truncate),
        (at(), vec(any::<u8>(), 1..12)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (at(), 1..12usize).prop_map(|(at, count)| Change::Remove(at, count)),
    ];
    vec(change, 1..4)
}

fn apply(changes: Vec<Change>, mut bytes: Vec<u8>) -> Vec<u8> {
    for change in changes {
        if bytes.is_empty() {
            return bytes;
        }
        let length = bytes.len();
        match change {
            Change::Set(at, byte) => bytes[at.index(length)] = byte,
            Change::Flip(at, bit) => bytes[at.index(length)] ^= 1 << bit,
            Change::Truncate(at) => bytes.truncate(at.index(length)),
            Change::Insert(at, inserted) => {
                let at = at.index(length);
                bytes.splice(at..at, inserted);
            }
            Change::Remove(at, count) => {
                let at = at.index(length);
                bytes.drain(at..(at + count).min(length));
            }
        }
    }
    bytes
}

/// The plaintexts that are in the seals of an unencrypted file could be changed and sealed again by
/// anyone who has the keys; this does that to an index, whose plaintexts can't be decoded by
/// themselves.
fn reseal_index(keys: &Keys, mut file: Vec<u8>, position: usize, value: u8) -> Vec<u8> {
    let header = index::header(keys, FILE, &mut file[..index::Header::LEN].to_vec()).expect("valid before");
    let tables = [(header.packs(), 32), (header.frames(), 16), (header.entries(), 38)];
    let mut spans = vec![(8, 32)];
    let mut offset = 80;
    for (mut records, size) in tables {
        while records > 0 {
            let now = records.min(1024);
            spans.push((offset, now as usize * size));
            offset += now as usize * size + 40;
            records -= now;
        }
    }
    let total: usize = spans.iter().map(|(_, length)| length).sum();
    let mut position = position % total;
    for (start, length) in spans {
        if position < length {
            let mut plaintext = file[start..start + length].to_vec();
            plaintext[position] = value;
            let mut sealed = Vec::new();
            keys.seal(SealKind::Index, FILE, start as u64, &plaintext, &mut sealed);
            file[start..start + length + 40].copy_from_slice(&sealed);
            break;
        }
        position -= length;
    }
    file
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_bytes(bytes in vec(any::<u8>(), 0..600)) {
        for keys in both_keys() {
            decode_all(&keys, &bytes);
        }
    }

    #[test]
    fn arbitrary_bytes_behind_each_magic(bytes in vec(any::<u8>(), 0..800), kind in 0..5usize) {
        let magic = [*b"ibidcfg\x01", *b"ibidkey\x01", *b"ibidpck\x01", *b"ibididx\x01", *b"ibidsnp\x01"][kind];
        let bytes = [&magic[..], &bytes].concat();
        for keys in both_keys() {
            decode_all(&keys, &bytes);
        }
    }

    #[test]
    fn arbitrary_plaintexts_in_good_seals(bytes in vec(any::<u8>(), 0..200)) {
        for keys in both_keys() {
            let seal = |kind, position: usize| {
                let mut out = vec![0; position];
                keys.seal(kind, FILE, position as u64, &bytes, &mut out);
                out
            };
            let mut snapshot = seal(SealKind::Snapshot, 8);
            snapshot[..8].copy_from_slice(b"ibidsnp\x01");
            let _ = Snapshot::open(&keys, FILE, &mut snapshot);

            let directory = seal(SealKind::Directory, 8);
            let size = directory.len() as u64 + pack::TRAILER;
            let _ = pack::open_directory(&keys, FILE, size, 8, &mut directory[8..].to_vec());

            let header = bytes.iter().copied().chain([0; 32]).take(32).collect::<Vec<_>>();
            let mut index = b"ibididx\x01".to_vec();
            keys.seal(SealKind::Index, FILE, 8, &header, &mut index);
            let _ = index::header(&keys, FILE, &mut index.clone());
            let _ = Index::open(&keys, FILE, index);

            let mut config = b"ibidcfg\x01".to_vec();
            config.push(keys.is_encrypted().into());
            config.extend(keys.repository().0);
            if !keys.is_encrypted() {
                config.extend([7; 32]);
            }
            let position = config.len() as u64;
            keys.seal(SealKind::Config, FileId::ZERO, position, &bytes, &mut config);
            let _ = config::open(&config, &keys);
        }
    }

    #[test]
    fn mutated_frames(chunks in chunks(), zstd in any::<bool>(), changes in changes()) {
        let [keys, _] = both_keys();
        let compression = if zstd { Compression::Zstd(1) } else { Compression::Stored };
        decode_frame(&apply(changes, frame(&keys, &chunks, compression).0));
    }

    #[test]
    fn mutated_delta_frames(chunks in chunks(), method in method(), changes in changes()) {
        let [keys, _] = both_keys();
        decode_frame(&apply(changes, delta_frame(&keys, &chunks, method).0));
    }

    #[test]
    fn mutated_entries(entry in entry(), changes in changes()) {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes)?;
        if let Ok(Some((entry, _))) = TreeEntry::decode_prefix(&apply(changes, bytes)) {
            // An accepted value encodes to the same bytes.
            prop_assert!(entry.encode(&mut Vec::new()).is_ok());
        }
    }

    #[test]
    fn mutated_snapshots(snapshot in snapshot(), changes in changes()) {
        let [_, keys] = both_keys();
        let bytes = snapshot.encode(&keys, FILE)?;
        let plaintext = bytes[8..bytes.len() - 40].to_vec();
        if let Ok(Some(snapshot)) = Snapshot::decode(&apply(changes, plaintext)) {
            prop_assert!(snapshot.encode(&keys, FILE).is_ok());
        }
    }

    #[test]
    fn mutated_log_entries_and_sessions(entry in log_entry(), session in session(), changes in changes()) {
        let [_, keys] = both_keys();
        let bytes = entry.encode(&keys, 1)?;
        if let Ok(entry) = Entry::decode(&apply(changes.clone(), bytes[8..bytes.len() - 40].to_vec())) {
            prop_assert!(entry.encode(&keys, 1).is_ok());
        }
        let bytes = session.encode(&keys, FILE)?;
        if let Ok(session) = Session::decode(&apply(changes, bytes[8..bytes.len() - 40].to_vec())) {
            prop_assert!(session.encode(&keys, FILE).is_ok());
        }
    }

    #[test]
    fn mutated_checkpoints(checkpoint in checkpoint(), changes in changes()) {
        let [_, keys] = both_keys();
        let bytes = checkpoint.encode(&keys, FILE)?;
        if let Ok(checkpoint) = Checkpoint::decode(&apply(changes, bytes[8..bytes.len() - 40].to_vec())) {
            prop_assert!(checkpoint.encode(&keys, FILE).is_ok());
        }
    }

    #[test]
    fn mutated_directories(frames in vec((chunks(), bases()), 0..3), changes in changes()) {
        let [_, keys] = both_keys();
        let mut builder = pack::PackBuilder::new(&keys, FILE, pack::PackKind::Data);
        for (chunks, (depth, bases)) in &frames {
            let (plaintext, blobs) = frame(&keys, chunks, Compression::Stored);
            builder.add(&plaintext, &blobs, *depth, bases);
        }
        let directory_at = builder.len() as usize;
        let (bytes, _) = builder.finish();
        let plaintext = bytes[directory_at..bytes.len() - pack::TRAILER as usize - 40].to_vec();
        if let Ok((kind, frames, end)) = pack::decode_directory(&apply(changes, plaintext)) {
            // An accepted value is one that a writer could write.
            let summary = pack::PackSummary { id: FILE, kind, size: end + 1000, frames };
            prop_assert_eq!(summary.check(), Ok(()));
        }
    }

    #[test]
    fn mutated_indexes(
        packs in vec(summary(), 1..4),
        position in any::<usize>(),
        value in prop_oneof![any::<u8>(), 0..4u8],
    ) {
        let [_, keys] = both_keys();
        let good = index::encode(&keys, FILE, 0, &packs)?;
        let bad = reseal_index(&keys, good, position, value);
        if let Ok(index) = Index::open(&keys, FILE, bad) {
            // A validated index can be used everywhere without a panic.
            for entry in index.entries() {
                let frame = index.frame(entry.frame).expect("validated");
                prop_assert!(entry.slot < frame.blobs);
                prop_assert!(index.pack_of(entry.frame).is_some());
                prop_assert!(index.find(&entry.id).is_some());
            }
            let frames = index.packs_with_frames().map(|(_, frames)| frames.len());
            prop_assert_eq!(frames.sum::<usize>(), index.frames().len());
        }
    }
}
