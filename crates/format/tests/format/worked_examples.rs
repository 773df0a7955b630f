//! The code and the document agree: the code writes every example of `docs/format/examples.md`, and
//! reads it as the document says.

use std::collections::BTreeMap;

use ibid_delta::{Interval, Method};
use ibid_format::checkpoint::Checkpoint;
use ibid_format::config::{self, Config, Lock};
use ibid_format::content::{Content, Item};
use ibid_format::frame::{self, Compression, FrameDecoder, FrameEncoder, Piece};
use ibid_format::index::{self, Index};
use ibid_format::pack::{self, PackKind, PackSummary};
use ibid_format::prune_log::{Batch, Entry};
use ibid_format::session::{Process, Session};
use ibid_format::slot::{self, Argon2Cost, Note, Slot};
use ibid_format::snapshot::{self, Snapshot, SnapshotTotals};
use ibid_format::tree::{EntryKind, InodeFlags, Time, TreeEntry};
use ibid_format::wire::{self, Reader};
use ibid_format::{ChunkId, FileId, FileKind, Keys, MasterKey, SEAL_OVERHEAD, SealKind, padme};

/// The fenced blocks of the document: by the word after `hex` or `values`, their lines.
fn blocks(language: &str) -> BTreeMap<String, Vec<String>> {
    let document = include_str!("../../../../docs/format/examples.md");
    let (mut blocks, mut open) = (BTreeMap::<_, Vec<String>>::new(), None);
    for line in document.lines() {
        match (line.strip_prefix("```"), &open) {
            (Some(""), _) => open = None,
            (Some(info), _) => {
                open = info.strip_prefix(language).map(|name| name.trim().to_owned());
                if let Some(name) = &open {
                    assert!(
                        blocks.insert(name.clone(), Vec::new()).is_none(),
                        "two examples named {name}"
                    );
                }
            }
            (None, Some(name)) => blocks.get_mut(name).expect("just opened").push(line.to_owned()),
            (None, None) => {}
        }
    }
    blocks
}

/// Returns the bytes of an example. A line is hexadecimal pairs, then two spaces and a comment;
/// `00 * 37` is 37 zeros; a line that begins with two spaces continues the comment.
pub(crate) fn example(name: &str) -> Vec<u8> {
    let blocks = blocks("hex ");
    let lines = blocks.get(name).unwrap_or_else(|| panic!("no example named {name}"));
    let mut bytes = Vec::new();
    for line in lines.iter().filter(|line| !line.starts_with("  ")) {
        let pairs = line.split("  ").next().unwrap_or("");
        match pairs.split_once(" * ") {
            Some((byte, count)) => bytes.resize(bytes.len() + count.parse::<usize>().expect("a count"), pair(byte)),
            None => bytes.extend(pairs.split(' ').map(pair)),
        }
    }
    bytes
}

fn pair(text: &str) -> u8 {
    assert_eq!(text.len(), 2, "not a pair of digits: {text:?}");
    u8::from_str_radix(text, 16).expect("hexadecimal")
}

/// Compares the bytes that the code writes with the document's, and prints them if they differ.
#[track_caller]
pub(crate) fn assert_example(name: &str, written: &[u8]) {
    if example(name) != written {
        let lines = written
            .chunks(24)
            .map(|line| line.iter().map(|byte| format!("{byte:02x} ")).collect::<String>());
        panic!(
            "docs/format/examples.md, {name}: the code writes\n{}",
            lines.collect::<Vec<_>>().join("\n")
        );
    }
}

pub(crate) const REPOSITORY: FileId = FileId(*b"\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf");
pub(crate) const FILE: FileId = FileId(*b"\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f");
const FIRST: &[u8] = b"in the same place";
const SECOND: &[u8] = b"where it was before";
const THIRD: [u8; 1000] = [b'a'; 1000];
const FOURTH: &[u8] = b"it was before, in the same place";

pub(crate) fn master() -> MasterKey {
    MasterKey::from_bytes(std::array::from_fn(|position| position as u8))
}

fn encrypted() -> Keys {
    Keys::encrypted(REPOSITORY, &master()).with_example_nonces()
}

fn unencrypted() -> Keys {
    Keys::unencrypted(REPOSITORY, &master())
}

/// Opens the seal of an example, as a reader of the file would.
fn opened(keys: &Keys, kind: SealKind, file: FileId, bytes: &[u8], span: std::ops::Range<usize>) -> Vec<u8> {
    let mut sealed = bytes[span.clone()].to_vec();
    keys.open(kind, file, span.start as u64, &mut sealed)
        .expect("the example opens")
        .to_vec()
}

#[test]
fn varints_and_zigzags() {
    let blocks = blocks("values ");
    for (name, signed) in [("varint", false), ("zigzag", true)] {
        for line in &blocks[name] {
            let (value, pairs) = line.trim().split_once("  ").expect("a value and its bytes");
            let bytes: Vec<u8> = pairs.trim().split(' ').map(pair).collect();
            let (mut written, mut reader) = (Vec::new(), Reader::new(&bytes));
            if signed {
                let value = value.parse().expect("a number");
                wire::put_zigzag(&mut written, value);
                assert_eq!(reader.zigzag(name), Ok(value));
            } else {
                let value = value.parse().expect("a number");
                wire::put_varint(&mut written, value);
                assert_eq!(reader.varint(name), Ok(value));
            }
            assert_eq!(written, bytes, "{name} {value}");
        }
    }
}

#[test]
fn padded_sizes() {
    for line in &blocks("values ")["padme"] {
        let numbers: Vec<u64> = line
            .split_whitespace()
            .map(|number| number.parse().expect("a number"))
            .collect();
        assert_eq!(padme::padded(numbers[0]), numbers[1], "padded({})", numbers[0]);
    }
}

#[test]
fn the_keys_of_a_repository() {
    for (name, context) in [
        ("chunk-id-key", "ibid v1 chunk id"),
        ("config-key", "ibid v1 seal config"),
        ("key-key", "ibid v1 seal key"),
        ("pack-key", "ibid v1 seal pack"),
        ("index-key", "ibid v1 seal index"),
        ("snapshot-key", "ibid v1 seal snapshot"),
        ("session-key", "ibid v1 seal session"),
        ("prune-log-key", "ibid v1 seal prune log"),
        ("checkpoint-key", "ibid v1 seal checkpoint"),
    ] {
        let key = blake3::derive_key(context, &std::array::from_fn::<u8, 32, _>(|position| position as u8));
        assert_example(name, &key);
    }
    // `Keys` does not reveal its keys. Their output shows that it derives these.
    let chunk_id_key: [u8; 32] = example("chunk-id-key").try_into().expect("32 bytes");
    assert_eq!(
        *blake3::keyed_hash(&chunk_id_key, FIRST).as_bytes(),
        encrypted().chunk_id(FIRST).0
    );
    assert_example("chunk-id", &encrypted().chunk_id(FIRST).0);
}

#[test]
fn seals() {
    for (name, keys) in [("seal-encrypted", encrypted()), ("seal-unencrypted", unencrypted())] {
        let mut sealed = Vec::new();
        keys.seal(SealKind::Snapshot, FILE, 8, b"ibid", &mut sealed);
        assert_example(name, &sealed);
        assert_eq!(
            keys.open(SealKind::Snapshot, FILE, 8, &mut example(name)),
            Ok(&mut b"ibid".to_vec()[..])
        );
    }
    // The unencrypted form once more, from the parts that the document names.
    let key: [u8; 32] = example("snapshot-key").try_into().expect("32 bytes");
    let mut check = [0; 40];
    let signed = [example("associated-data"), b"ibid".to_vec()].concat();
    blake3::Hasher::new_keyed(&key)
        .update(&signed)
        .finalize_xof()
        .fill(&mut check);
    assert_eq!(example("seal-unencrypted")[4..], check);
}

#[test]
fn configs() {
    let settings = Config {
        created: 1_800_000_000,
        chunker_number: 1,
        chunker_words: vec![16_384, 65_536, 262_144],
        frame_size: 1 << 20,
        pack_size: 16 << 20,
        chunk_key: None,
        lock: None,
    };
    for (name, keys) in [("config-encrypted", encrypted()), ("config-unencrypted", unencrypted())] {
        let bytes = example(name);
        assert_example(name, &config::encode(&settings, &keys).expect("within limits"));
        assert_eq!(config::open(&bytes, &keys), Ok(settings.clone()));
        let header = config::header(&bytes).expect("a config");
        assert_eq!((header.encrypted, header.repository), (keys.is_encrypted(), REPOSITORY));
        assert_eq!(header.master.is_some(), !keys.is_encrypted());
        let start = if keys.is_encrypted() { 25 } else { 57 };
        let body = opened(&keys, SealKind::Config, FileId::ZERO, &bytes, start..bytes.len());
        assert_eq!(body, example("config-body"));
        let locked = Config {
            lock: Some(Lock {
                is_compliance: false,
                days: 30,
            }),
            ..settings.clone()
        };
        let bytes = config::encode(&locked, &keys).expect("within limits");
        let body = opened(&keys, SealKind::Config, FileId::ZERO, &bytes, start..bytes.len());
        assert_eq!(body, [example("config-body"), example("config-lock")].concat());
        assert_eq!(config::open(&bytes, &keys), Ok(locked));
    }
}

#[test]
fn a_key() {
    let note = Note {
        created: 1_800_000_000,
        label: "laptop".into(),
        host: "amber".into(),
        user: "ada".into(),
    };
    let cost = Argon2Cost {
        memory_kib: 32,
        passes: 1,
        lanes: 1,
    };
    let salt = std::array::from_fn(|position| 0x50 + position as u8);
    let bytes = example("key");
    let written = slot::create_with_salt(FILE, &encrypted(), b"correct horse", cost, &note, salt);
    assert_example("key", &written.expect("within limits"));
    let slot = Slot::parse(FILE, &bytes).expect("a key");
    assert_eq!((slot.repository(), slot.cost()), (REPOSITORY, cost));
    let unlocked = slot
        .unlock(b"correct horse", slot::MEMORY_KIB_ALLOWED)
        .expect("the password opens it");
    let keys = Keys::encrypted(REPOSITORY, &unlocked);
    assert_eq!(keys.chunk_id(FIRST), encrypted().chunk_id(FIRST));
    assert_eq!(slot.note(&keys), Ok(note));
    assert_eq!(
        opened(&keys, SealKind::Key, FILE, &bytes, 124..bytes.len() - 8),
        example("key-note")
    );
}

/// Returns three frames: two short chunks stored uncompressed, one that compresses, and a delta
/// against the first two.
fn gathered() -> [frame::FrameBuilder; 3] {
    let mut builders: [frame::FrameBuilder; 3] = Default::default();
    for (frame, chunk) in [(0, FIRST), (0, SECOND), (1, &THIRD[..]), (2, FOURTH)] {
        builders[frame].push(encrypted().chunk_id(chunk), chunk);
    }
    builders
}

/// What the third frame is encoded against: "it was before" and "in the same place".
fn pieces() -> [Piece; 2] {
    [(SECOND, 6, 13), (FIRST, 0, 17)].map(|(base, start, length)| Piece {
        base: encrypted().chunk_id(base).prefix(),
        start,
        length,
    })
}

const PREFIX: &[u8] = b"it was beforein the same place";

#[test]
fn frames() {
    let [stored, compressed, delta] = gathered();
    let mut written = Vec::new();
    let wanted = Compression::Zstd(3);
    FrameEncoder::new()
        .encode(stored.blobs(), stored.body(), wanted, &mut written)
        .expect("a valid frame");
    assert_example("frame-stored", &written);
    written.clear();
    let method = Method::Anchor {
        interval: Interval::I64,
    };
    FrameEncoder::new()
        .encode_delta(delta.blobs(), delta.body(), &pieces(), PREFIX, method, &mut written)
        .expect("a valid frame");
    assert_example("frame-delta", &written);
    assert_eq!(frame::pieces(&written), Ok(pieces().to_vec()));
    // zstd's output may change with its version, so only reading is fixed.
    for (name, prefix, body) in [
        ("frame-stored", &b""[..], &stored),
        ("frame-zstd", b"", &compressed),
        ("frame-delta", PREFIX, &delta),
    ] {
        let (bytes, mut decoder) = (example(name), FrameDecoder::new());
        let frame = decoder.decode(&bytes, prefix, None).expect("a valid frame");
        assert_eq!(frame.chunks().collect::<Vec<_>>().concat(), body.body());
        assert_eq!(frame.len(), body.blobs().len());
    }
}

const FRAMES: [&str; 3] = ["frame-stored", "frame-zstd", "frame-delta"];

/// The pack of the document's three frames.
fn pack(keys: &Keys) -> (Vec<u8>, PackSummary) {
    let mut builder = pack::PackBuilder::new(keys, FILE, PackKind::Data);
    let bases = pieces().map(|piece| piece.base);
    for ((name, gathered), bases) in FRAMES.into_iter().zip(gathered()).zip([&[][..], &[], &bases]) {
        builder.add(&example(name), gathered.blobs(), u8::from(!bases.is_empty()), bases);
    }
    builder.finish()
}

#[test]
fn a_pack() {
    let keys = encrypted();
    let bytes = example("pack");
    let (written, summary) = pack(&keys);
    assert_example("pack", &written);
    assert_eq!(FileKind::Pack.check(&bytes), Ok(()));
    let (size, trailer_at) = (bytes.len() as u64, bytes.len() - pack::TRAILER as usize);
    let offset = pack::open_trailer(&keys, FILE, size, &mut bytes[trailer_at..].to_vec()).expect("the trailer");
    let mut directory = bytes[offset as usize..trailer_at].to_vec();
    assert_eq!(
        pack::open_directory(&keys, FILE, size, offset, &mut directory),
        Ok(summary.clone())
    );
    for (frame, name) in summary.frames.iter().zip(FRAMES) {
        let mut sealed = bytes[frame.offset as usize..][..frame.sealed as usize].to_vec();
        let plaintext = pack::open_frame(&keys, FILE, frame.offset, &mut sealed).expect("the frame");
        assert_eq!(plaintext, example(name));
    }
    let directory = opened(&keys, SealKind::Directory, FILE, &bytes, offset as usize..trailer_at);
    assert_eq!(directory, example("pack-directory"));
    let trailer = opened(&keys, SealKind::Trailer, FILE, &bytes, trailer_at..bytes.len());
    assert_eq!(trailer, example("pack-trailer"));
}

#[test]
fn an_index() {
    let keys = encrypted();
    let bytes = example("index");
    let (_, summary) = pack(&keys);
    let name = FileId([0x30; 16]);
    assert_example(
        "index",
        &index::encode(&keys, name, 0, std::slice::from_ref(&summary)).expect("it fits"),
    );
    let index = Index::open(&keys, name, bytes.clone()).expect("a valid index");
    assert_eq!(index.packs().map(|pack| pack.id).collect::<Vec<_>>(), [FILE]);
    let third = index.find(&keys.chunk_id(&THIRD)).expect("it is in the pack");
    assert_eq!((third.frame, third.slot), (1, 0));
    assert_eq!(index.frames().map(|frame| frame.depth).collect::<Vec<_>>(), [0, 0, 1]);
    let mut start = 8;
    for (part, length) in [
        ("index-header", 32),
        ("index-packs", 32),
        ("index-frames", 48),
        ("index-entries", 152),
    ] {
        let end = start + length + SEAL_OVERHEAD;
        assert_eq!(
            opened(&keys, SealKind::Index, name, &bytes, start..end),
            example(part),
            "{part}"
        );
        start = end;
    }
    assert!(
        opened(&keys, SealKind::Index, name, &bytes, start..bytes.len())
            .iter()
            .all(|&byte| byte == 0)
    );
}

fn chunk(data: &[u8]) -> Item {
    Item::Chunk {
        id: encrypted().chunk_id(data),
        length: data.len() as u32,
    }
}

/// A file with a hole between two chunks.
fn sparse() -> Content {
    let items = vec![chunk(FIRST), Item::Hole { length: 1 << 20 }, chunk(SECOND)];
    Content {
        depth: 0,
        length: 17 + (1 << 20) + 19,
        items,
    }
}

#[test]
fn contents() {
    let deep = Content {
        depth: 1,
        length: 5_000_000_000,
        items: vec![chunk(&THIRD)],
    };
    for (name, content) in [
        ("content-sparse", sparse()),
        ("content-deep", deep),
        ("content-empty", Content::empty()),
    ] {
        let mut written = Vec::new();
        content.encode(&mut written);
        assert_example(name, &written);
        let bytes = example(name);
        let mut reader = Reader::new(&bytes);
        assert_eq!(Content::decode(&mut reader), Ok(content));
        assert_eq!(reader.finish(name), Ok(()));
    }
}

fn entries() -> [TreeEntry; 4] {
    let entry = |name: &[u8], mode, kind| TreeEntry {
        name: name.to_vec(),
        kind,
        mode,
        uid: 1000,
        gid: 100,
        mtime: Time {
            seconds: 1_800_000_000,
            nanos: 500_000_000,
        },
        ctime: Time { seconds: -1, nanos: 0 },
        inode: 4711,
        changed_while_read: false,
        hard_link_device: None,
        inode_flags: InodeFlags::default(),
        xattrs: Vec::new(),
    };
    let mut disk = entry(b"disk.img", 0o644, EntryKind::File(sparse()));
    disk.changed_while_read = true;
    disk.hard_link_device = Some(64_768);
    disk.xattrs = vec![(b"user.a".to_vec(), b"1".to_vec()), (b"user.b".to_vec(), Vec::new())];
    let link = entry(b"latest", 0o777, EntryKind::Symlink(b"disk.img".to_vec()));
    let null = entry(b"null", 0o666, EntryKind::CharDevice { major: 1, minor: 3 });
    let mut vault = entry(b"vault", 0o755, EntryKind::Directory(Content::empty()));
    vault.inode_flags = InodeFlags::of(0x50);
    [disk, link, null, vault]
}

#[test]
fn a_listing() {
    let mut written = Vec::new();
    entries()
        .iter()
        .for_each(|entry| entry.encode(&mut written).expect("a valid entry"));
    assert_example("listing", &written);
    let (bytes, mut at) = (example("listing"), 0);
    for expected in entries() {
        let (entry, length) = TreeEntry::decode_prefix(&bytes[at..])
            .expect("valid")
            .expect("complete");
        assert_eq!(entry, expected);
        at += length;
    }
    assert_eq!(at, bytes.len());
}

#[test]
fn a_snapshot() {
    let snapshot = Snapshot {
        time: Time {
            seconds: 1_800_000_000,
            nanos: 0,
        },
        sequence: 7,
        duration_ms: 1500,
        host: "amber".into(),
        user: "ada".into(),
        program: "ibid 0.1.0".into(),
        paths: vec![b"/home/ada".to_vec(), b"/etc".to_vec()],
        tags: vec!["daily".into()],
        parent: Some(FileId([0x40; 16])),
        original: None,
        root: Content {
            depth: 0,
            length: 1000,
            items: vec![chunk(&THIRD)],
        },
        users: vec![(0, b"root".to_vec()), (1000, b"ada".to_vec())],
        groups: vec![(100, b"users".to_vec())],
        counters: SnapshotTotals {
            files: 2,
            directories: 3,
            others: 1,
            bytes: 1_048_612,
            new_chunks: 3,
            new_bytes: 1036,
            stored_bytes: 608,
            unreadable: 0,
            changed_while_read: 1,
        },
    };
    let keys = encrypted();
    let bytes = example("snapshot");
    assert_example("snapshot", &snapshot.encode(&keys, FILE).expect("within limits"));
    assert_eq!(Snapshot::open(&keys, FILE, &mut bytes.clone()), Ok(Some(snapshot)));
    assert_eq!(
        opened(&keys, SealKind::Snapshot, FILE, &bytes, 8..bytes.len()),
        example("snapshot-plaintext")
    );
}

#[test]
fn a_void_file() {
    let keys = encrypted();
    assert_example("void", &snapshot::encode_void(&keys, FILE).expect("within limits"));
    let bytes = example("void");
    assert_eq!(Snapshot::open(&keys, FILE, &mut bytes.clone()), Ok(None));
    let plaintext = opened(&keys, SealKind::Snapshot, FILE, &bytes, 8..bytes.len());
    assert_eq!(plaintext, example("void-plaintext"));
}

const NEW_YEAR: Time = Time {
    seconds: 1_798_761_600,
    nanos: 0,
};

#[test]
fn a_session() {
    let session = Session {
        time: NEW_YEAR,
        host: "amber".into(),
        user: "ada".into(),
        program: "ibid 0.1.0".into(),
        action: "backup".into(),
        paths: vec![b"/home/ada".to_vec()],
        process: Process {
            machine: "b0cd".into(),
            boot: "74ff".into(),
            namespace: 4_026_531_836,
            pid: 4711,
            started: 1200,
        },
    };
    let keys = encrypted();
    assert_example("session", &session.encode(&keys, FILE).expect("within limits"));
    let bytes = example("session");
    assert_eq!(Session::open(&keys, FILE, &mut bytes.clone()), Ok(session));
    let plaintext = opened(&keys, SealKind::Session, FILE, &bytes, 8..bytes.len());
    assert_eq!(plaintext, example("session-plaintext"));
}

#[test]
fn a_checkpoint() {
    let checkpoint = Checkpoint {
        session: FileId([0x60; 16]),
        time: NEW_YEAR,
        sequence: 7,
        host: "amber".into(),
        program: "ibid 0.1.0".into(),
        paths: vec![b"/home/ada".to_vec()],
        root: Content {
            depth: 0,
            length: 101,
            items: vec![Item::Chunk {
                id: ChunkId([0x70; 32]),
                length: 101,
            }],
        },
        last: b"/home/ada/b".to_vec(),
        files: 2,
        bytes: 300,
    };
    let keys = encrypted();
    assert_example("checkpoint", &checkpoint.encode(&keys, FILE).expect("within limits"));
    let bytes = example("checkpoint");
    assert_eq!(Checkpoint::open(&keys, FILE, &mut bytes.clone()), Ok(checkpoint));
    let plaintext = opened(&keys, SealKind::Checkpoint, FILE, &bytes, 8..bytes.len());
    assert_eq!(plaintext, example("checkpoint-plaintext"));
}

#[test]
fn an_entry_of_the_prune_log() {
    let entry = Entry {
        time: NEW_YEAR,
        host: "amber".into(),
        batches: vec![Batch {
            time: NEW_YEAR,
            packs: vec![FileId([0x50; 16]), FileId([0x51; 16])],
            seen: Some(vec![FileId([0x60; 16])]),
        }],
        doomed: vec![FileId([0x52; 16])],
        fence: 5,
        verified: vec![FileId([0x30; 16])],
    };
    let keys = encrypted();
    assert_example("prune", &entry.encode(&keys, 6).expect("within limits"));
    let bytes = example("prune");
    assert_eq!(Entry::open(&keys, 6, &mut bytes.clone()), Ok(entry));
    let plaintext = opened(&keys, SealKind::PruneLog, FileId::numbered(6), &bytes, 8..bytes.len());
    assert_eq!(plaintext, example("prune-plaintext"));
}

#[test]
fn no_example_goes_unread() {
    // Every block is named by a test above; a typo in the document would otherwise hide one.
    let source = [include_str!("worked_examples.rs"), include_str!("writers.rs")].concat();
    for name in blocks("hex ").keys().chain(blocks("values ").keys()) {
        assert!(
            source.contains(&format!("\"{name}\"")),
            "no test reads the example {name}"
        );
    }
}
