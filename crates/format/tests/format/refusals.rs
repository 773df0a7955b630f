//! Decoders refuse each broken rule of the format in otherwise valid bytes, by the error for that
//! rule. No encoder breaks it.

use ibid_delta::Method;
use ibid_format::config::{self, Config};
use ibid_format::content::{Content, Item};
use ibid_format::frame::{self, Compression, FrameDecoder};
use ibid_format::slot::{self, Argon2Cost, Note, Slot};
use ibid_format::snapshot::{Snapshot, SnapshotTotals};
use ibid_format::tree::{self, EntryKind, InodeFlags, Time, TreeEntry};
use ibid_format::wire::Reader;
use ibid_format::{ChunkId, Error, FileKind, Keys, NameFault, SealKind, pack};

use crate::common::*;

fn entry(name: &[u8]) -> TreeEntry {
    TreeEntry {
        name: name.to_vec(),
        kind: EntryKind::Fifo,
        mode: 0o644,
        uid: 0,
        gid: 0,
        mtime: Time::default(),
        ctime: Time::default(),
        inode: 1,
        changed_while_read: false,
        hard_link_device: None,
        inode_flags: InodeFlags::default(),
        xattrs: Vec::new(),
    }
}

fn encoded(entry: &TreeEntry) -> Vec<u8> {
    let mut bytes = Vec::new();
    entry.encode(&mut bytes).expect("a valid entry");
    bytes
}

fn decode_entry(bytes: &[u8]) -> Error {
    TreeEntry::decode_prefix(bytes).expect_err("a rule is broken")
}

#[test]
fn names_that_would_leave_their_directory() {
    let faults = [
        (&b""[..], NameFault::Empty),
        (b".", NameFault::Dots),
        (b"..", NameFault::Dots),
        (b"/", NameFault::Slash { position: 0 }),
        (b"../x", NameFault::Slash { position: 2 }),
        (b"a\0b", NameFault::Nul { position: 1 }),
        (&[b'n'; 256], NameFault::TooLong { found: 256 }),
    ];
    for (name, fault) in faults {
        assert_eq!(tree::check_name(name), Err(Error::Name { fault }));
        assert_eq!(entry(name).encode(&mut Vec::new()), Err(Error::Name { fault }));
        if (1..=255).contains(&name.len()) {
            // The same bytes in an entry that was valid: type and length of the name are in front of it.
            let mut bytes = encoded(&entry(&vec![b'n'; name.len()]));
            bytes[3..3 + name.len()].copy_from_slice(name);
            assert_eq!(decode_entry(&bytes), Error::Name { fault });
        }
    }
    for name in [&b"..."[..], b".hidden", b"a b", b"\xff\xfe", &[b'n'; 255]] {
        assert_eq!(tree::check_name(name), Ok(()));
    }
}

#[test]
fn entries_beyond_the_rules() {
    let good = encoded(&entry(b"n"));
    // length, type, name (2), mode (2), uid, gid, mtime (2), ctime (2), inode, flags, attributes
    assert_eq!(good.len(), 15);
    let with = |at: usize, byte: u8| decode_entry(&[&good[..at], &[byte], &good[at + 1..]].concat());
    assert_eq!(
        with(1, 7),
        Error::Unknown {
            field: "entry type",
            found: 7
        }
    );
    assert!(matches!(with(5, 0x7f), Error::OutOfRange { field: "mode", .. }));
    assert!(matches!(
        with(13, 8),
        Error::OutOfRange {
            field: "entry flags",
            ..
        }
    ));
    assert!(
        matches!(with(14, 1), Error::Truncated { .. }),
        "an attribute that is not there"
    );
    let longer = [&[15], &good[1..], &[0]].concat();
    assert_eq!(
        decode_entry(&longer),
        Error::Trailing {
            field: "entry",
            found: 1
        }
    );
    let huge = [0x81, 0x80, 0x40];
    assert!(
        matches!(decode_entry(&huge), Error::OutOfRange { field: "entry", .. }),
        "without waiting for a megabyte"
    );

    let unordered = vec![(b"b".to_vec(), Vec::new()), (b"a".to_vec(), Vec::new())];
    for xattrs in [unordered, vec![(b"a".to_vec(), Vec::new()); 2]] {
        let broken = TreeEntry { xattrs, ..entry(b"n") };
        assert_eq!(
            broken.encode(&mut Vec::new()),
            Err(Error::Unordered {
                field: "extended attributes",
                position: 1
            })
        );
    }
    let mut out = b"before".to_vec();
    let too_long = TreeEntry {
        xattrs: vec![(b"a".to_vec(), vec![0; tree::ENTRY_BYTES_MAX])],
        ..entry(b"n")
    };
    assert!(matches!(
        too_long.encode(&mut out),
        Err(Error::OutOfRange { field: "entry", .. })
    ));
    assert_eq!(out, b"before");
    let nanos = TreeEntry {
        mtime: Time {
            seconds: 0,
            nanos: 1_000_000_000,
        },
        ..entry(b"n")
    };
    assert!(matches!(
        nanos.encode(&mut out),
        Err(Error::OutOfRange {
            field: "nanoseconds",
            ..
        })
    ));
    let target = TreeEntry {
        kind: EntryKind::Symlink(vec![b't'; tree::TARGET_BYTES_MAX + 1]),
        ..entry(b"n")
    };
    assert!(target.encode(&mut out).is_err());
}

#[test]
fn inode_flags_that_are_not_kept_or_belong_to_nothing() {
    let unknown = |found| Error::Unknown {
        field: "inode flags",
        found,
    };
    let folder = TreeEntry {
        kind: EntryKind::Directory(Content::empty()),
        inode_flags: InodeFlags::IMMUTABLE,
        ..entry(b"n")
    };
    let mut bytes = encoded(&folder);
    // Before it: length, type, name (2), mode (2), uid, gid, mtime (2), ctime (2), inode, flags
    assert_eq!((bytes[13], bytes[14]), (4, 0x10));
    for bits in 0..=0x7fu8 {
        bytes[14] = bits;
        match InodeFlags::of(bits.into()) {
            flags if flags.bits() == u32::from(bits) && bits > 0 => {
                let (read, _) = TreeEntry::decode_prefix(&bytes).unwrap().unwrap();
                assert_eq!(read.inode_flags, flags);
            }
            _ => assert_eq!(decode_entry(&bytes), unknown(bits.into())),
        }
    }
    // Extents, data in the inode, names without case, and beyond 32 bits.
    for bits in [1u64 << 19, 1 << 28, 1 << 30, 1 << 32] {
        let mut varint = Vec::new();
        ibid_format::wire::put_varint(&mut varint, bits);
        let mut longer = [&bytes[..14], &varint, &bytes[15..]].concat();
        longer[0] += varint.len() as u8 - 1;
        let error = decode_entry(&longer);
        let is_too_much = matches!(
            error,
            Error::OutOfRange {
                field: "inode flags",
                ..
            }
        );
        assert!(
            error == unknown(bits) || bits > u32::MAX.into() && is_too_much,
            "{error}"
        );
    }
    // A FIFO has none, written or read.
    let pipe = TreeEntry {
        kind: EntryKind::Fifo,
        ..folder.clone()
    };
    let mut out = Vec::new();
    assert_eq!(pipe.encode(&mut out), Err(unknown(0x10)));
    assert!(out.is_empty());
    let mut bytes = encoded(&folder);
    let content = bytes.len() - 3;
    bytes.truncate(content);
    (bytes[0], bytes[1]) = (bytes[0] - 3, 3);
    assert_eq!(decode_entry(&bytes), unknown(0x10));
    // Without flags, nothing is added.
    let plain = TreeEntry {
        inode_flags: InodeFlags::default(),
        ..folder
    };
    assert_eq!(
        encoded(&plain).len() + 1,
        encoded(&TreeEntry {
            inode_flags: InodeFlags::IMMUTABLE,
            ..plain
        })
        .len()
    );
}

#[test]
fn attributes_out_of_order_in_bytes() {
    let xattrs = vec![(b"a".to_vec(), Vec::new()), (b"b".to_vec(), Vec::new())];
    let mut bytes = encoded(&TreeEntry { xattrs, ..entry(b"n") });
    let last = bytes.len() - 2;
    assert_eq!(bytes[last], b'b');
    for byte in [b'a', b'A'] {
        bytes[last] = byte;
        assert_eq!(
            decode_entry(&bytes),
            Error::Unordered {
                field: "extended attributes",
                position: 1
            }
        );
    }
}

#[test]
fn contents_beyond_the_rules() {
    let chunk = |length| Item::Chunk {
        id: ChunkId([1; 32]),
        length,
    };
    let hole = |length| Item::Hole { length };
    let content = |depth, length, items| Content { depth, length, items };
    let broken = [
        (content(9, 0, vec![]), "depth"),
        (content(0, 1, vec![]), "length of nothing"),
        (content(0, 4, vec![chunk(5)]), "length below the items"),
        (content(0, 33, vec![chunk(1); 33]), "too many items"),
        (content(0, 0, vec![chunk(0)]), "empty chunk"),
        (content(0, 0, vec![hole(0)]), "empty hole"),
        (content(0, (16 << 20) + 1, vec![chunk((16 << 20) + 1)]), "long chunk"),
        (content(1, 7, vec![hole(7)]), "hole in a list of lists"),
        (
            content(0, 2, vec![hole(u64::MAX >> 1), hole(u64::MAX >> 1), hole(4)]),
            "more than 64 bits of holes",
        ),
    ];
    for (content, rule) in broken {
        assert!(content.check().is_err(), "{rule}");
        let mut bytes = Vec::new();
        content.encode(&mut bytes);
        assert!(Content::decode(&mut Reader::new(&bytes)).is_err(), "{rule}");
        let file = TreeEntry {
            kind: EntryKind::File(content),
            ..entry(b"n")
        };
        assert!(file.encode(&mut Vec::new()).is_err(), "{rule}");
    }
    assert_eq!(
        content(1, 7, vec![hole(7)]).check(),
        Err(Error::HoleInList { depth: 1 })
    );
}

#[test]
fn frames_beyond_the_rules() {
    let [keys, _] = both_keys();
    let (good, _) = frame(&keys, &[b"chunk".to_vec()], Compression::Stored);
    assert_eq!(good[..3], [0, 1, 5], "codec, count, length");
    let mut decoder = FrameDecoder::new();
    let mut with = |at: usize, byte: u8| {
        let bytes = [&good[..at], &[byte], &good[at + 1..]].concat();
        decoder
            .decode(&bytes, &[], None)
            .map(|_| ())
            .expect_err("a rule is broken")
    };
    assert_eq!(
        with(0, 3),
        Error::Unknown {
            field: "frame codec",
            found: 3
        }
    );
    assert_eq!(
        with(1, 0),
        Error::OutOfRange {
            field: "blobs of a frame",
            min: 1,
            max: 65_535,
            found: 0
        }
    );
    assert!(matches!(
        with(2, 0),
        Error::OutOfRange {
            field: "chunk length",
            ..
        }
    ));
    assert_eq!(
        with(2, 4),
        Error::Mismatch {
            field: "stored frame body",
            expected: 4,
            found: 5
        }
    );
    assert_eq!(
        decoder.decode(&good, &[], Some(1)).err(),
        Some(Error::NoSuchSlot { slots: 1, found: 1 })
    );

    let (zstd, _) = frame(&keys, &[vec![7; 1000]], Compression::Zstd(3));
    let two = [&zstd[..], &zstd[4..]].concat();
    assert!(
        matches!(
            decoder.decode(&two, &[], None),
            Err(Error::Mismatch {
                field: "zstd frame",
                ..
            })
        ),
        "two zstd frames"
    );
    let mut longer = zstd.clone();
    longer[2] += 1;
    assert_eq!(
        decoder.decode(&longer, &[], None).err(),
        Some(Error::Mismatch {
            field: "frame body",
            expected: 1001,
            found: 1000
        })
    );
}

#[test]
fn delta_frames_beyond_the_rules() {
    let [keys, _] = both_keys();
    let chunk = b"a chunk".to_vec();
    let (good, _, prefix) = delta_frame(&keys, &[chunk], Method::ZstdPrefix { level: 1 });
    // Codec, two pieces (base, start, length), one blob, its length; the delta: its codec, its target's
    // length.
    assert_eq!((&good[..2], &good[14..16]), (&[2, 2][..], &[0, 7][..]));
    assert_eq!((&good[28..30], &good[30..34]), (&[2, 3][..], &[1, 7, 1, 7][..]));
    assert_eq!(prefix.len(), 10);
    let with = |at: usize, bytes: &[u8], prefix: usize| {
        let bytes = [&good[..at], bytes, &good[at + 1..]].concat();
        let prefix = vec![b'p'; prefix];
        let mut decoder = FrameDecoder::new();
        decoder
            .decode(&bytes, &prefix, None)
            .map(|_| ())
            .expect_err("a rule is broken")
    };
    let range = |field, min, max, found| Error::OutOfRange { field, min, max, found };
    let none = [&[2, 0][..], &good[30..]].concat();
    for refused in [
        frame::pieces(&none).map(drop),
        FrameDecoder::new().decode(&none, &[], None).map(drop),
    ] {
        assert_eq!(refused, Err(range("pieces of a prefix", 1, 1024, 0)));
    }
    // 1025, and 1024 that the bytes can't account for.
    assert_eq!(with(1, &[0x81, 8], 10), range("pieces of a prefix", 0, 1024, 1025));
    assert!(matches!(with(1, &[0x80, 8], 10), Error::Truncated { .. }));
    assert_eq!(with(15, &[0], 10), range("length of a piece", 1, 16 << 20, 0));
    assert_eq!(
        with(14, &[0xff, 0xff, 0xff, 7], 10),
        range("length of a piece", 1, 1, 7)
    );
    assert_eq!(
        with(14, &[0x80, 0x80, 0x80, 8], 10),
        range("start of a piece", 0, (16 << 20) - 1, 16 << 20)
    );
    assert_eq!(
        with(15, &[0x80, 0x80, 0x80, 8], 10),
        range("prefix of a frame", 1, 16 << 20, (16 << 20) + 3)
    );
    let (expected, field) = (10, "prefix of a frame");
    for found in [0, 9, 11] {
        let wrong = with(0, &[2], found);
        let found = found as u64;
        assert_eq!(wrong, Error::Mismatch { field, expected, found });
    }
    let unknown = ibid_delta::Error::Unknown {
        field: "delta codec",
        found: 9,
    };
    assert_eq!(with(32, &[9], 10), Error::Delta(unknown));
    for found in [6, 8] {
        let (field, expected) = ("frame body", 7);
        let wrong = with(33, &[found], 10);
        let found = found.into();
        assert_eq!(wrong, Error::Mismatch { field, expected, found });
    }
    // A frame that is no delta has no prefix.
    let (stored, _) = frame(&keys, &[b"chunk".to_vec()], Compression::Stored);
    assert_eq!(frame::pieces(&stored), Ok(vec![]));
    assert_eq!(
        FrameDecoder::new().decode(&stored, b"p", None).err(),
        Some(Error::Mismatch {
            field,
            expected: 0,
            found: 1
        })
    );
}

#[test]
fn directories_with_impossible_bases() {
    let range = |field, min, max, found| Err(Error::OutOfRange { field, min, max, found });
    let bases = |count: usize| (0..count).map(|n| [(n % 256) as u8, (n / 256) as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let directory = |depth: u8, bases: Vec<[u8; 12]>| {
        let mut bytes = vec![0, 1, 50, depth];
        if depth > 0 {
            ibid_format::wire::put_varint(&mut bytes, bases.len() as u64);
        }
        bytes.extend(bases.concat());
        bytes.push(1);
        bytes.extend([7; 32]);
        bytes.push(5);
        pack::decode_directory(&bytes).map(|(_, frames, _)| (frames[0].depth, frames[0].bases.len()))
    };
    assert_eq!(directory(0, vec![]), Ok((0, 0)));
    assert_eq!(directory(1, bases(1).collect()), Ok((1, 1)));
    assert_eq!(directory(16, bases(1024).collect()), Ok((16, 1024)));
    assert_eq!(directory(17, bases(1).collect()), range("depth of a frame", 1, 16, 17));
    assert_eq!(directory(1, vec![]), range("depth of a frame", 0, 0, 1));
    assert_eq!(
        directory(1, bases(1025).collect()),
        range("bases of a frame", 0, 1024, 1025)
    );
    assert_eq!(
        directory(1, vec![[1; 12], [2; 12], [1; 12]]),
        Err(Error::Repeated {
            field: "bases of a frame",
            position: 2
        })
    );
}

#[test]
fn magic_of_other_kinds_and_versions() {
    let kinds = [
        FileKind::Config,
        FileKind::Key,
        FileKind::Pack,
        FileKind::Index,
        FileKind::Snapshot,
        FileKind::Session,
        FileKind::PruneLog,
        FileKind::Checkpoint,
    ];
    for kind in kinds {
        for other in kinds {
            let found = other.magic();
            let expected = if kind == other {
                Ok(())
            } else {
                Err(Error::Magic { expected: kind, found })
            };
            assert_eq!(kind.check(&found), expected);
        }
        let mut next = kind.magic();
        next[7] = 2;
        assert_eq!(
            kind.check(&next),
            Err(Error::Version {
                kind,
                expected: 1,
                found: 2
            })
        );
        assert!(kind.check(&next[..7]).is_err());
    }
}

#[test]
fn configs_beyond_the_rules() {
    let [keys, unencrypted] = both_keys();
    let good = Config {
        created: 0,
        chunker_number: 0,
        chunker_words: vec![],
        frame_size: 1 << 20,
        pack_size: 16 << 20,
        chunk_key: None,
        lock: None,
    };
    let bytes = config::encode(&good, &keys).expect("valid");
    assert_eq!(
        config::open(&bytes, &unencrypted),
        Err(Error::Encryption {
            expected: false,
            found: true
        })
    );
    let other = Keys::encrypted(FILE, keys.master());
    assert_eq!(
        config::open(&bytes, &other),
        Err(Error::Repository {
            expected: FILE,
            found: keys.repository()
        })
    );
    assert!(config::header(&vec![0; config::LIMIT as usize + 1]).is_err());
    for broken in [
        Config {
            chunker_words: vec![0; 17],
            ..good.clone()
        },
        Config {
            frame_size: 4095,
            ..good.clone()
        },
        Config {
            frame_size: (8 << 20) + 1,
            ..good.clone()
        },
        Config {
            pack_size: 0,
            ..good.clone()
        },
        Config {
            pack_size: (64 << 20) + 1,
            ..good.clone()
        },
        Config {
            lock: Some(config::Lock {
                is_compliance: true,
                days: 0,
            }),
            ..good.clone()
        },
        Config {
            lock: Some(config::Lock {
                is_compliance: true,
                days: 36_501,
            }),
            ..good.clone()
        },
    ] {
        assert!(
            matches!(config::encode(&broken, &keys), Err(Error::OutOfRange { .. })),
            "{broken:?}"
        );
    }
}

#[test]
fn costs_and_notes_beyond_the_rules() {
    let [keys, _] = both_keys();
    let note = Note {
        created: 0,
        label: String::new(),
        host: String::new(),
        user: String::new(),
    };
    let cost = |memory_kib, passes, lanes| Argon2Cost {
        memory_kib,
        passes,
        lanes,
    };
    let good = slot::create(FILE, &keys, b"", cost(8, 1, 1), &note).expect("valid");
    for broken in [
        cost(7, 1, 1),
        cost(15, 1, 2),
        cost((4 << 20) + 1, 1, 1),
        cost(8, 0, 1),
        cost(8, 65, 1),
        cost(8, 1, 0),
    ] {
        assert!(
            matches!(
                slot::create(FILE, &keys, b"", broken, &note),
                Err(Error::OutOfRange { .. })
            ),
            "{broken:?}"
        );
        let numbers = [broken.memory_kib, broken.passes, broken.lanes]
            .map(u32::to_le_bytes)
            .concat();
        let bytes = [&good[..24], &numbers, &good[36..]].concat();
        assert!(
            matches!(Slot::parse(FILE, &bytes), Err(Error::OutOfRange { .. })),
            "{broken:?}"
        );
    }
    let long = Note {
        label: "l".repeat(510),
        ..note
    };
    assert!(matches!(
        slot::create(FILE, &keys, b"", cost(8, 1, 1), &long),
        Err(Error::OutOfRange { field: "note", .. })
    ));
}

fn plain_snapshot() -> Snapshot {
    Snapshot {
        time: Time::default(),
        sequence: 0,
        duration_ms: 0,
        host: String::new(),
        user: String::new(),
        program: String::new(),
        paths: Vec::new(),
        tags: Vec::new(),
        parent: None,
        original: None,
        root: Content::empty(),
        users: Vec::new(),
        groups: Vec::new(),
        counters: SnapshotTotals::default(),
    }
}

#[test]
fn snapshots_beyond_the_rules() {
    let [_, keys] = both_keys();
    let good = plain_snapshot();
    for broken in [
        Snapshot {
            tags: vec!["b".into(), "a".into()],
            ..good.clone()
        },
        Snapshot {
            tags: vec!["a".into(), "a".into()],
            ..good.clone()
        },
        Snapshot {
            users: vec![(1, vec![]), (1, vec![])],
            ..good.clone()
        },
        Snapshot {
            groups: vec![(2, vec![]), (1, vec![])],
            ..good.clone()
        },
        Snapshot {
            host: "h".repeat((64 << 10) + 1),
            ..good.clone()
        },
        Snapshot {
            root: Content {
                depth: 0,
                length: 1,
                items: vec![],
            },
            ..good.clone()
        },
        Snapshot {
            time: Time {
                seconds: 0,
                nanos: u32::MAX,
            },
            ..good.clone()
        },
    ] {
        assert!(broken.encode(&keys, FILE).is_err(), "{broken:?}");
    }
    // The text of an unencrypted snapshot can be changed in place; tags that descend, text that is no
    // UTF-8.
    let tagged = Snapshot {
        host: "h".into(),
        tags: vec!["1".into(), "2".into()],
        ..good
    };
    let bytes = tagged.encode(&keys, FILE).expect("valid");
    let plaintext = &bytes[8..bytes.len() - 40];
    let with = |from: u8, to: u8| {
        let mut plaintext = plaintext.to_vec();
        let at = plaintext.iter().rposition(|&byte| byte == from).expect("in it");
        plaintext[at] = to;
        Snapshot::decode(&plaintext)
    };
    assert_eq!(
        with(b'2', b'0'),
        Err(Error::Unordered {
            field: "tags",
            position: 1
        })
    );
    assert_eq!(
        with(b'h', 0xff),
        Err(Error::NotUtf8 {
            field: "host",
            valid: 0
        })
    );
    assert!(with(b'2', b'3').is_ok());
}

#[test]
fn padding_that_is_not_zero_or_not_padme() {
    let [_, keys] = both_keys();
    // A length at which padding is needed.
    let snapshot = (0..64)
        .map(|length| Snapshot {
            host: "h".repeat(length),
            ..plain_snapshot()
        })
        .map(|snapshot| snapshot.encode(&keys, FILE).expect("valid"))
        .map(|file| file[8..file.len() - 40].to_vec())
        .find(|plaintext| plaintext.len() > 4 + usize::from(plaintext[0]) + 1)
        .expect("one in four lengths at least");
    assert!(Snapshot::decode(&snapshot).is_ok());
    let mut dirty = snapshot.clone();
    *dirty.last_mut().expect("not empty") = 1;
    assert!(matches!(
        Snapshot::decode(&dirty),
        Err(Error::NotZero {
            field: "snapshot padding",
            found: 1,
            ..
        })
    ));
    let short = &snapshot[..snapshot.len() - 1];
    assert!(matches!(
        Snapshot::decode(short),
        Err(Error::Mismatch {
            field: "snapshot file",
            ..
        })
    ));

    let (bytes, summary) = small_pack(&keys);
    let last = &summary.frames[2];
    let directory = &bytes[(last.offset + last.sealed) as usize..bytes.len() - pack::TRAILER as usize - 40];
    assert!(pack::decode_directory(directory).is_ok());
    let dirty = [directory, &[1]].concat();
    assert!(matches!(
        pack::decode_directory(&dirty),
        Err(Error::NotZero {
            field: "pack padding",
            ..
        })
    ));
}

#[test]
fn packs_that_do_not_fit_their_file() {
    let [keys, _] = both_keys();
    let (bytes, _) = small_pack(&keys);
    let size = bytes.len() as u64;
    let trailer = bytes[bytes.len() - pack::TRAILER as usize..].to_vec();
    let offset = pack::open_trailer(&keys, FILE, size, &mut trailer.clone()).expect("valid");
    assert!(pack::open_trailer(&keys, FILE, size + 1, &mut trailer.clone()).is_err());
    assert!(pack::open_trailer(&keys, FILE, pack::LIMIT + 1, &mut trailer.clone()).is_err());
    assert!(pack::open_trailer(&keys, FILE, 0, &mut trailer.clone()).is_err());
    for (stated_offset, stated_size) in [(offset, size + 1), (7, size), (size, size), (u64::MAX, size)] {
        let plaintext = [stated_offset.to_le_bytes(), stated_size.to_le_bytes()].concat();
        let mut sealed = Vec::new();
        keys.seal(SealKind::Trailer, FILE, size - pack::TRAILER, &plaintext, &mut sealed);
        assert!(pack::open_trailer(&keys, FILE, size, &mut sealed).is_err());
    }
}
