//! A seal opens unchanged in the place where it was sealed, and nowhere else, encrypted or not.

use ibid_format::config::{self, Config};
use ibid_format::pack::{self, TRAILER};
use ibid_format::slot::{self, Argon2Cost, Note, Slot};
use ibid_format::{ChunkKey, Error, FileId, Keys, MasterKey, SEAL_OVERHEAD, SealKind};

use crate::common::{FILE, OTHER_FILE, both_keys, small_pack};

const KINDS: [SealKind; 10] = [
    SealKind::Config,
    SealKind::Key,
    SealKind::Frame,
    SealKind::Directory,
    SealKind::Trailer,
    SealKind::Index,
    SealKind::Snapshot,
    SealKind::Session,
    SealKind::PruneLog,
    SealKind::Checkpoint,
];
const CHEAP: Argon2Cost = Argon2Cost {
    memory_kib: 8,
    passes: 1,
    lanes: 1,
};

fn sealed(keys: &Keys, kind: SealKind) -> Vec<u8> {
    let mut out = Vec::new();
    keys.seal(kind, FILE, 8, b"nobody may change this", &mut out);
    out
}

#[test]
fn sealed_bytes_open_and_take_forty_more() {
    for keys in both_keys() {
        for kind in KINDS {
            for plaintext in [&b""[..], b"x", &[0x5a; 5000]] {
                let mut bytes = b"before".to_vec();
                keys.seal(kind, FILE, 6, plaintext, &mut bytes);
                assert_eq!(bytes.len(), 6 + plaintext.len() + SEAL_OVERHEAD);
                assert_eq!(&bytes[..6], b"before", "sealing appends");
                assert_eq!(
                    keys.open(kind, FILE, 6, &mut bytes[6..]),
                    Ok(&mut plaintext.to_vec()[..])
                );
            }
        }
    }
}

#[test]
fn encryption_hides_and_never_repeats() {
    let [encrypted, unencrypted] = both_keys();
    let secret = b"nobody may change this";
    let seen = |bytes: &[u8]| bytes.windows(secret.len()).any(|window| window == secret);
    assert!(!seen(&sealed(&encrypted, SealKind::Frame)));
    assert!(seen(&sealed(&unencrypted, SealKind::Frame)));
    assert_ne!(sealed(&encrypted, SealKind::Frame), sealed(&encrypted, SealKind::Frame));
}

#[test]
fn every_flipped_bit_is_found() {
    for keys in both_keys() {
        let good = sealed(&keys, SealKind::Snapshot);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let expected = Error::Seal {
                kind: SealKind::Snapshot,
                file: FILE,
                position: 8,
            };
            assert_eq!(
                keys.open(SealKind::Snapshot, FILE, 8, &mut bad),
                Err(expected),
                "bit {bit}"
            );
        }
    }
}

#[test]
fn every_truncation_and_extension_is_found() {
    for keys in both_keys() {
        let mut good = sealed(&keys, SealKind::Index);
        good.push(0);
        for length in (0..=good.len()).filter(|&length| length != good.len() - 1) {
            assert!(
                keys.open(SealKind::Index, FILE, 8, &mut good.clone()[..length])
                    .is_err(),
                "{length} bytes"
            );
        }
    }
}

#[test]
fn a_seal_does_not_open_elsewhere() {
    for keys in both_keys() {
        for kind in KINDS {
            let good = sealed(&keys, kind);
            for other in KINDS.into_iter().filter(|&other| other != kind) {
                assert!(
                    keys.open(other, FILE, 8, &mut good.clone()).is_err(),
                    "{kind} as {other}"
                );
            }
            assert!(
                keys.open(kind, OTHER_FILE, 8, &mut good.clone()).is_err(),
                "another file"
            );
            assert!(keys.open(kind, FILE, 9, &mut good.clone()).is_err(), "another position");
            assert!(keys.open(kind, FILE, 8, &mut good.clone()).is_ok(), "the place itself");
        }
    }
}

#[test]
fn a_seal_does_not_open_under_other_keys() {
    let [encrypted, unencrypted] = both_keys();
    let same_key_other_repository = FileId([0xa1; 16]);
    for (keys, other) in [
        (
            &encrypted,
            Keys::encrypted(same_key_other_repository, encrypted.master()),
        ),
        (
            &unencrypted,
            Keys::unencrypted(same_key_other_repository, unencrypted.master()),
        ),
        (
            &encrypted,
            Keys::encrypted(encrypted.repository(), &MasterKey::from_bytes([8; 32])),
        ),
        (
            &unencrypted,
            Keys::unencrypted(unencrypted.repository(), &MasterKey::from_bytes([8; 32])),
        ),
        (&encrypted, unencrypted.clone()),
        (&unencrypted, encrypted.clone()),
    ] {
        assert!(
            other
                .open(SealKind::Frame, FILE, 8, &mut sealed(keys, SealKind::Frame))
                .is_err()
        );
    }
}

#[test]
fn frames_that_changed_places_are_found() {
    for keys in both_keys() {
        let (bytes, summary) = small_pack(&keys);
        let [first, second, _] = &summary.frames[..] else {
            panic!("three frames")
        };
        assert_eq!(first.sealed, second.sealed, "so that they can be swapped");
        let seal = |frame: &pack::FrameSummary| bytes[frame.offset as usize..][..frame.sealed as usize].to_vec();
        assert!(pack::open_frame(&keys, FILE, first.offset, &mut seal(first)).is_ok());
        assert!(pack::open_frame(&keys, FILE, first.offset, &mut seal(second)).is_err());
        assert!(pack::open_frame(&keys, FILE, second.offset, &mut seal(first)).is_err());
        assert!(pack::open_frame(&keys, OTHER_FILE, first.offset, &mut seal(first)).is_err());
    }
}

/// Reads a pack without an index, from its end. It reads all bytes except the magic, as a full
/// check does.
fn read_pack(keys: &Keys, bytes: &[u8]) -> Result<(), Error> {
    let mut bytes = bytes.to_vec();
    let size = bytes.len() as u64;
    ibid_format::FileKind::Pack.check(&bytes)?;
    let trailer_at = bytes.len().saturating_sub(TRAILER as usize);
    let offset = pack::open_trailer(keys, FILE, size, &mut bytes[trailer_at..])?;
    let summary = pack::open_directory(keys, FILE, size, offset, &mut bytes[offset as usize..trailer_at])?;
    for frame in &summary.frames {
        let (start, end) = (frame.offset as usize, (frame.offset + frame.sealed) as usize);
        pack::open_frame(keys, FILE, frame.offset, &mut bytes[start..end])?;
    }
    Ok(())
}

#[test]
fn any_damage_to_a_pack_is_found() {
    for keys in both_keys() {
        let (good, _) = small_pack(&keys);
        assert_eq!(read_pack(&keys, &good), Ok(()));
        for position in 0..good.len() {
            let mut bad = good.clone();
            bad[position] ^= 1 << (position % 8);
            assert!(read_pack(&keys, &bad).is_err(), "byte {position} flipped");
            assert!(read_pack(&keys, &good[..position]).is_err(), "{position} bytes left");
        }
    }
}

#[test]
fn any_damage_to_a_config_is_found() {
    let shared = ChunkKey::from_bytes([7; 32]);
    let lock = config::Lock {
        is_compliance: true,
        days: 30,
    };
    let cases = both_keys().into_iter().flat_map(|keys| {
        [
            (keys.clone(), None, None),
            (keys.clone(), Some(&shared), None),
            (keys.clone(), None, Some(lock)),
            (keys, Some(&shared), Some(lock)),
        ]
    });
    for (keys, chunk_key, lock) in cases {
        let settings = Config {
            created: 1_800_000_000,
            chunker_number: 2,
            chunker_words: vec![4096, 65_536],
            frame_size: 1 << 20,
            pack_size: 16 << 20,
            chunk_key: chunk_key.cloned(),
            lock,
        };
        let good = config::encode(&settings, &keys).expect("within limits");
        assert_eq!(config::open(&good, &keys), Ok(settings));
        let open = |bytes: &[u8]| {
            let header = config::header(bytes)?;
            // In an unencrypted repository the keys come from the file, as they would for a reader.
            match &header.master {
                Some(master) => config::open(bytes, &Keys::unencrypted(header.repository, master)),
                None => config::open(bytes, &keys),
            }
        };
        for position in 0..good.len() {
            let mut bad = good.clone();
            bad[position] ^= 1 << (position % 8);
            assert!(open(&bad).is_err(), "byte {position} flipped");
            assert!(open(&good[..position]).is_err(), "{position} bytes left");
        }
    }
}

#[test]
fn keys_with_the_chunk_ids_of_others_name_alike_and_seal_for_themselves() {
    for keys in both_keys() {
        let other = Keys::encrypted(FileId::random(), &MasterKey::random());
        let alike = keys.with_chunk_key(&other.shared_chunk_key());
        assert!(alike.names_alike(&other) && !alike.names_alike(&keys) && !keys.names_alike(&other));
        assert_eq!(alike.chunk_id(b"bytes"), other.chunk_id(b"bytes"));
        assert_eq!(
            (alike.repository(), alike.is_encrypted()),
            (keys.repository(), keys.is_encrypted())
        );
        let mut sealed = Vec::new();
        alike.seal(SealKind::Snapshot, FILE, 8, b"bytes", &mut sealed);
        assert!(other.open(SealKind::Snapshot, FILE, 8, &mut sealed.clone()).is_err());
        assert_eq!(keys.open(SealKind::Snapshot, FILE, 8, &mut sealed).unwrap(), b"bytes");
        assert_eq!(format!("{:?}", other.shared_chunk_key()), "ChunkKey(..)");
    }
}

fn note() -> Note {
    Note {
        created: -1,
        label: "laptop".into(),
        host: "amber".into(),
        user: "ada".into(),
    }
}

#[test]
fn only_the_password_opens_a_key() {
    let [keys, unencrypted] = both_keys();
    let bytes = slot::create(FILE, &keys, b"correct horse", CHEAP, &note()).expect("a valid note");
    assert_eq!(bytes.len() as u64, slot::LIMIT);
    let slot = Slot::parse(FILE, &bytes).expect("a valid slot");
    assert_eq!((slot.repository(), slot.cost()), (keys.repository(), CHEAP));

    let master = slot
        .unlock(b"correct horse", slot::MEMORY_KIB_ALLOWED)
        .expect("the right password");
    let unlocked = Keys::encrypted(slot.repository(), &master);
    assert_eq!(unlocked.chunk_id(b"x"), keys.chunk_id(b"x"), "the same master key");
    assert_eq!(slot.note(&unlocked), Ok(note()));

    for wrong in [&b""[..], b"correct hors", b"correct horsf", b"correct horse "] {
        assert_eq!(
            slot.unlock(wrong, slot::MEMORY_KIB_ALLOWED).err(),
            Some(Error::WrongPassword)
        );
    }
    assert_eq!(
        slot.unlock(b"correct horse", 7).err(),
        Some(Error::TooExpensive { limit: 7, found: 8 })
    );
    let moved = Slot::parse(OTHER_FILE, &bytes).expect("names are not in the file");
    assert_eq!(moved.unlock(b"correct horse", 8).err(), Some(Error::WrongPassword));
    let refused = slot::create(FILE, &unencrypted, b"", CHEAP, &note());
    assert_eq!(
        refused,
        Err(Error::Encryption {
            expected: true,
            found: false
        })
    );
}

#[test]
fn any_damage_to_a_key_is_found() {
    let [keys, _] = both_keys();
    let good = slot::create(FILE, &keys, b"pw", CHEAP, &note()).expect("a valid note");
    let open = |bytes: &[u8]| {
        let slot = Slot::parse(FILE, bytes)?;
        // `memory_limit_kib` keeps a flipped bit from making this test take gigabytes.
        let master = if slot.cost().passes > 2 {
            Err(Error::WrongPassword)
        } else {
            slot.unlock(b"pw", 64)
        }?;
        slot.note(&Keys::encrypted(slot.repository(), &master))
    };
    assert_eq!(open(&good), Ok(note()));
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let found = Slot::parse(FILE, &bad);
        assert!(found.is_err(), "bit {bit} flipped: no password is needed to see that");
        assert!(open(&bad).is_err(), "bit {bit} flipped");
    }
    // Someone who changes a file on purpose makes the checksum fit, too.
    let mut other = good.clone();
    slot::set_repository(&mut other, OTHER_FILE);
    assert_eq!(open(&other), Err(Error::WrongPassword));
    slot::set_repository(&mut other, keys.repository());
    assert_eq!(other, good);
    for length in 0..good.len() {
        assert!(Slot::parse(FILE, &good[..length]).is_err(), "{length} bytes left");
    }
}

#[test]
fn debug_output_tells_no_secrets() {
    let master = MasterKey::from_bytes([0xc5; 32]);
    let keys = Keys::encrypted(FILE, &master);
    for text in [format!("{master:?}"), format!("{keys:?}")] {
        assert!(!text.contains("197") && !text.contains("c5c5"), "{text}");
    }
}
