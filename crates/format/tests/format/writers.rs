//! A writer stores what it can't read, and nothing counts as its own that it did not sign.

use ibid_format::pack::{self, TRAILER};
use ibid_format::slot::Note;
use ibid_format::snapshot;
use ibid_format::tree::Time;
use ibid_format::writer::signed::{self, HEADER};
use ibid_format::writer::{
    FirstSeen, NOTE_LIMIT, Revocation, Seen, Signer, StoredKind, WriterKey, encode_note, open_note,
};
use ibid_format::{Error, FileId, FileKind, Keys, MasterKey, SealKind};

use crate::common::{FILE, OTHER_FILE, small_pack};
use crate::worked_examples::{self, REPOSITORY, assert_example, example, master};

const WRITER: FileId = FileId(*b"\xb0\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xba\xbb\xbc\xbd\xbe\xbf");
const OTHER_WRITER: FileId = FileId([7; 16]);

/// Kinds of files that have contents or names in them.
const FOR_KEEPERS: [SealKind; 6] = [
    SealKind::Frame,
    SealKind::Directory,
    SealKind::Trailer,
    SealKind::Snapshot,
    SealKind::Sketches,
    SealKind::Checkpoint,
];
/// Kinds that a backup reads.
const SHARED: [SealKind; 4] = [SealKind::Config, SealKind::Index, SealKind::Session, SealKind::PruneLog];
/// Kinds of files that a backup stores.
const STORED: [FileKind; 4] = [FileKind::Pack, FileKind::Index, FileKind::Snapshot, FileKind::Session];

fn repository() -> Keys {
    Keys::encrypted(REPOSITORY, &master())
}

fn writer_key() -> WriterKey {
    WriterKey::derive(&repository(), WRITER).unwrap()
}

fn keeper() -> Keys {
    repository().of_writer(WRITER).unwrap()
}

/// Returns a sealed text, and the header that these keys give it.
fn stored(keys: &Keys, kind: SealKind, file: FileId) -> (Vec<u8>, [u8; HEADER]) {
    let mut sealed = Vec::new();
    keys.seal(kind, file, 8, b"what I wrote", &mut sealed);
    let header = signed::sign(keys, kind.file_kind(), file, &[&sealed]).unwrap();
    (sealed, header)
}

#[test]
fn a_writer_does_not_open_what_it_stored() {
    let keys = writer_key().keys();
    for kind in FOR_KEEPERS {
        let mut sealed = Vec::new();
        keys.seal(kind, FILE, 8, b"what I wrote", &mut sealed);
        assert_eq!(keys.open(kind, FILE, 8, &mut sealed), Err(Error::WriteOnly { kind }));
    }
    // What a later backup has to read opens, also for whoever else has the key.
    for kind in SHARED {
        let mut sealed = Vec::new();
        keys.seal(kind, FILE, 8, b"what I wrote", &mut sealed);
        let again = WriterKey::parse(&writer_key().to_text()).unwrap().keys();
        assert_eq!(
            again.open(kind, FILE, 8, &mut sealed).unwrap(),
            b"what I wrote",
            "{kind}"
        );
    }
}

#[test]
fn keepers_open_it_once_they_have_verified_who_stored_it() {
    let keys = writer_key().keys();
    for kind in [SealKind::Frame, SealKind::Snapshot] {
        let (mut sealed, header) = stored(&keys, kind, FILE);
        let keeper = keeper();
        assert!(
            keeper.open(kind, FILE, 8, &mut sealed.clone()).is_err(),
            "its header was not read yet"
        );
        let header = signed::open(&keeper, kind.file_kind(), FILE, &header).unwrap();
        assert_eq!(header.signer(), Signer::Writer);
        header.check(&sealed).unwrap();
        assert_eq!(keeper.open(kind, FILE, 8, &mut sealed).unwrap(), b"what I wrote");
    }
}

#[test]
fn a_thief_of_the_writers_key_and_of_the_storage_opens_nothing() {
    let (sealed, header) = stored(&writer_key().keys(), SealKind::Snapshot, FILE);
    // The thief has the header, the file, and all that follows from the text of the key.
    let thief = WriterKey::parse(&writer_key().to_text()).unwrap().keys();
    signed::open(&thief, FileKind::Snapshot, FILE, &header).unwrap();
    let refused = thief.open(SealKind::Snapshot, FILE, 8, &mut sealed.clone()).err();
    assert!(matches!(refused, Some(Error::WriteOnly { .. })));
    // A reader without scruples would try the keys that a repository has for snapshots, with the writer's secrets.
    for master in secrets_in(&writer_key().to_text()) {
        for id in [WRITER, REPOSITORY] {
            let keys = Keys::encrypted(id, &MasterKey::from_bytes(master));
            assert!(keys.open(SealKind::Snapshot, FILE, 8, &mut sealed.clone()).is_err());
        }
    }
}

/// Returns every 32 bytes in a row of a key's text.
fn secrets_in(text: &str) -> Vec<[u8; 32]> {
    let digits = text.rsplit(' ').next().unwrap().trim();
    let bytes: Vec<u8> = (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(&digits[2 * at..][..2], 16).unwrap())
        .collect();
    bytes.windows(32).map(|window| window.try_into().unwrap()).collect()
}

#[test]
fn no_two_files_and_no_two_runs_have_one_key() {
    let share = |keys: &Keys, kind, file| stored(keys, kind, file).1[16..48].to_vec();
    let (one, two) = (writer_key().keys(), writer_key().keys());
    let shares = [
        share(&one, SealKind::Snapshot, FILE),
        share(&one, SealKind::Snapshot, OTHER_FILE),
        share(&one, SealKind::Frame, FILE),
        share(&two, SealKind::Snapshot, FILE),
        share(&keeper(), SealKind::Snapshot, FILE),
    ];
    for (number, share) in shares.iter().enumerate() {
        assert!(!shares[..number].contains(share), "share {number}");
    }
    assert_eq!(
        shares[0],
        share(&one, SealKind::Snapshot, FILE),
        "all seals of a file have one key"
    );
}

#[test]
fn every_flipped_bit_of_a_header_is_found() {
    let (_, good) = stored(&writer_key().keys(), SealKind::Snapshot, FILE);
    let keeper = keeper();
    for bit in 0..HEADER * 8 {
        let mut bad = good;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(
            signed::open(&keeper, FileKind::Snapshot, FILE, &bad).is_err(),
            "bit {bit}"
        );
    }
    for length in 0..HEADER {
        assert!(
            signed::open(&keeper, FileKind::Snapshot, FILE, &good[..length]).is_err(),
            "{length} bytes"
        );
    }
    let longer = [&good[..], &[0]].concat();
    assert!(signed::open(&keeper, FileKind::Snapshot, FILE, &longer).is_err());
    signed::open(&keeper, FileKind::Snapshot, FILE, &good).unwrap();
}

#[test]
fn every_changed_byte_of_the_content_is_found() {
    let (sealed, header) = stored(&writer_key().keys(), SealKind::Index, FILE);
    let header = signed::open(&keeper(), FileKind::Index, FILE, &header).unwrap();
    let expected = Error::Signature {
        kind: FileKind::Index,
        file: FILE,
    };
    for at in 0..sealed.len() {
        let mut bad = sealed.clone();
        bad[at] ^= 1;
        assert_eq!(header.check(&bad), Err(expected.clone()), "byte {at}");
        assert_eq!(header.check(&sealed[..at]), Err(expected.clone()), "{at} bytes");
    }
}

#[test]
fn a_header_counts_for_its_writer_kind_and_file_alone() {
    let keys = writer_key().keys();
    for kind in STORED {
        let header = signed::sign(&keys, kind, FILE, &[b"content"]).unwrap();
        let refused = |keeper: &Keys, as_kind, file| {
            let found = signed::open(keeper, as_kind, file, &header);
            assert_eq!(found, Err(Error::Signature { kind: as_kind, file }), "{kind}");
        };
        let keeper = keeper();
        refused(&keeper, kind, OTHER_FILE);
        for other in STORED.into_iter().filter(|other| *other != kind) {
            refused(&keeper, other, FILE);
        }
        refused(&repository().of_writer(OTHER_WRITER).unwrap(), kind, FILE);
        let other = Keys::encrypted(FileId([9; 16]), &MasterKey::random());
        refused(&other.of_writer(WRITER).unwrap(), kind, FILE);
        signed::open(&keeper, kind, FILE, &header).unwrap();
    }
}

#[test]
fn a_writer_cannot_sign_as_another_one() {
    let other = WriterKey::derive(&repository(), OTHER_WRITER).unwrap().keys();
    for kind in STORED {
        let forged = signed::sign(&other, kind, FILE, &[b"content"]).unwrap();
        let found = signed::open(&keeper(), kind, FILE, &forged);
        assert_eq!(found, Err(Error::Signature { kind, file: FILE }));
    }
}

#[test]
fn a_writer_cannot_sign_what_only_keepers_store() {
    let keys = writer_key().keys();
    for kind in [
        FileKind::Config,
        FileKind::PruneLog,
        FileKind::Sketches,
        FileKind::Checkpoint,
        FileKind::Key,
    ] {
        let refused = signed::sign(&keys, kind, FILE, &[b"content"]);
        assert_eq!(refused, Err(Error::Signer { kind, file: FILE }), "{kind}");
        // It may say that it is a keeper, but it has not their key.
        let mut header = signed::sign(&keeper(), kind, FILE, &[b"content"]).unwrap();
        let as_writer = signed::sign(&keys, FileKind::Session, FILE, &[b"content"]).unwrap();
        header[80..].copy_from_slice(&as_writer[80..]);
        let found = signed::open(&keys, kind, FILE, &header);
        assert_eq!(found, Err(Error::Signature { kind, file: FILE }), "{kind}");
    }
}

#[test]
fn a_writer_verifies_what_keepers_have_stored() {
    let header = signed::sign(&keeper(), FileKind::PruneLog, FILE, &[b"content"]).unwrap();
    let found = signed::open(&writer_key().keys(), FileKind::PruneLog, FILE, &header).unwrap();
    assert_eq!(found.signer(), Signer::Keeper);
    found.check(b"content").unwrap();
}

#[test]
fn packs_and_snapshots_of_a_writer_are_those_of_a_repository_behind_a_header() {
    let keys = writer_key().keys();
    let (bytes, summary) = small_pack(&keys);
    let header = signed::sign(&keys, FileKind::Pack, FILE, &[&bytes]).unwrap();
    let keeper = keeper();
    signed::open(&keeper, FileKind::Pack, FILE, &header)
        .unwrap()
        .check(&bytes)
        .unwrap();
    let size = bytes.len() as u64;
    let (start, end) = bytes.split_at((size - TRAILER) as usize);
    let mut trailer = end.to_vec();
    let offset = pack::open_trailer(&keeper, FILE, size, &mut trailer).unwrap();
    let mut directory = start[offset as usize..].to_vec();
    assert_eq!(
        pack::open_directory(&keeper, FILE, size, offset, &mut directory),
        Ok(summary)
    );

    // A keeper ends a session without a snapshot.
    let mut void = snapshot::encode_void(&keeper, OTHER_FILE).unwrap();
    assert_eq!(
        snapshot::Snapshot::open(&keeper, OTHER_FILE, &mut void.clone()),
        Ok(None)
    );
    let refused = snapshot::Snapshot::open(&keys, OTHER_FILE, &mut void);
    assert!(matches!(refused, Err(Error::WriteOnly { .. })));
}

#[test]
fn ids_of_chunks_differ_from_writer_to_writer() {
    let other = WriterKey::derive(&repository(), OTHER_WRITER).unwrap().keys();
    let ids = [repository(), keeper(), other].map(|keys| keys.chunk_id(b"the same bytes"));
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    assert_eq!(writer_key().keys().chunk_id(b"the same bytes"), ids[1]);
}

#[test]
fn the_text_of_a_key_says_it_all() {
    let text = writer_key().to_text();
    assert!(text.len() as u64 <= ibid_format::writer::TEXT_MAX);
    let read = WriterKey::parse(&text).unwrap();
    assert_eq!((read.repository(), read.id()), (REPOSITORY, WRITER));
    assert_eq!(*read.to_text(), *text);
    let with_noise = format!("\r\n# my laptop\n\n  {}  \r\n\n", text.lines().last().unwrap());
    assert_eq!(
        *WriterKey::parse(&with_noise).unwrap().to_text(),
        *text,
        "comments and spaces do not matter"
    );
}

#[test]
fn a_text_that_has_changed_is_no_key() {
    let text = writer_key().to_text();
    let line = text.lines().last().unwrap();
    let start = "ibid-writer-1 ".len();
    for at in start..line.len() {
        let mut bad = line.to_owned().into_bytes();
        bad[at] = if bad[at] == b'0' { b'1' } else { b'0' };
        assert!(
            WriterKey::parse(std::str::from_utf8(&bad).unwrap()).is_err(),
            "digit {at}"
        );
    }
    for bad in [
        String::new(),
        "# only a comment\n".into(),
        line[..line.len() - 1].into(),
        format!("{line}0"),
        line.replace("ibid-writer-1", "ibid-writer-2"),
        line.replace("ibid-writer-1", "ssh-ed25519"),
        format!("{line}\n{line}"),
        line.replace(' ', ""),
        format!("ibid-writer-1 {}", "é".repeat(136)),
    ] {
        let found = WriterKey::parse(&bad);
        assert!(matches!(found, Err(Error::WriterKey { .. })), "{bad:?}");
    }
}

#[test]
fn a_repository_without_encryption_has_no_writers() {
    let open = Keys::unencrypted(REPOSITORY, &master());
    let expected = Error::Encryption {
        expected: true,
        found: false,
    };
    assert_eq!(WriterKey::derive(&open, WRITER).map(|_| ()), Err(expected.clone()));
    assert_eq!(open.of_writer(WRITER).map(|_| ()), Err(expected));
    let header = signed::sign(&repository(), FileKind::Pack, FILE, &[]);
    assert_eq!(
        header,
        Err(Error::NotAWriters),
        "a repository's own files are not signed"
    );
}

#[test]
fn worked_example() {
    let key = writer_key();
    assert_example("writer-key", &bytes_of(&key.to_text()));
    let keys = key.keys().with_example_nonces();
    let mut sealed = Vec::new();
    keys.seal(SealKind::Snapshot, worked_examples::FILE, 8, b"ibid", &mut sealed);
    assert_example("writer-seal", &sealed);
    let header = signed::sign(&keys, FileKind::Snapshot, worked_examples::FILE, &[&sealed]).unwrap();
    assert_example("writer-header", &header);
    let keeper = keeper();
    signed::open(
        &keeper,
        FileKind::Snapshot,
        worked_examples::FILE,
        &example("writer-header"),
    )
    .unwrap()
    .check(&sealed)
    .unwrap();
    assert_eq!(
        keeper
            .open(SealKind::Snapshot, worked_examples::FILE, 8, &mut sealed)
            .unwrap(),
        b"ibid"
    );
}

/// Returns the bytes that the line of a key spells.
fn bytes_of(text: &str) -> Vec<u8> {
    let digits = text.rsplit(' ').next().unwrap().trim().as_bytes();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

fn note() -> Note {
    Note {
        created: 1_800_000_000,
        label: "laptop".into(),
        host: "amber".into(),
        user: "ada".into(),
    }
}

fn revocation() -> Revocation {
    let snapshots = [0x32, 0x31].map(|byte| (StoredKind::Snapshot, FileId([byte; 16])));
    Revocation {
        time: Time {
            seconds: 1_800_000_000,
            nanos: 1,
        },
        files: snapshots
            .into_iter()
            .chain([(StoredKind::Pack, FileId([0x30; 16]))])
            .collect(),
    }
}

#[test]
fn worked_examples_of_the_list_of_writers() {
    let keys = repository().with_example_nonces();
    let bytes = encode_note(&keys, WRITER, &note()).unwrap();
    assert_example("writer-note", &bytes);
    assert_eq!(
        open_note(&repository(), WRITER, &mut example("writer-note")),
        Ok(note())
    );
    let file = worked_examples::FILE;
    let bytes = revocation().encode(&keys, WRITER, file).unwrap();
    let mut sealed = bytes[8..].to_vec();
    assert_example(
        "revocation-plaintext",
        keys.open(SealKind::Revocation, file, 8, &mut sealed).unwrap(),
    );
    assert_example("revocation", &bytes);
    assert_eq!(
        Revocation::open(&repository(), WRITER, file, &mut example("revocation")),
        Ok(revocation())
    );
}

#[test]
fn the_list_of_writers_is_the_repositorys_own() {
    let (note_file, revoked) = (
        encode_note(&repository(), WRITER, &note()).unwrap(),
        revocation().encode(&repository(), WRITER, FILE).unwrap(),
    );
    assert_eq!(note_file.len() as u64, NOTE_LIMIT);
    for keys in [
        writer_key().keys(),
        keeper(),
        Keys::encrypted(REPOSITORY, &MasterKey::random()),
    ] {
        assert!(open_note(&keys, WRITER, &mut note_file.clone()).is_err());
        assert!(Revocation::open(&keys, WRITER, FILE, &mut revoked.clone()).is_err());
    }
    assert!(open_note(&repository(), OTHER_WRITER, &mut note_file.clone()).is_err());
    let of_another = Revocation::open(&repository(), OTHER_WRITER, FILE, &mut revoked.clone());
    assert!(
        matches!(of_another, Err(Error::Repository { .. })),
        "it revokes its writer and no other"
    );
    assert!(Revocation::open(&repository(), WRITER, OTHER_FILE, &mut revoked.clone()).is_err());
    for length in 0..note_file.len() {
        assert!(open_note(&repository(), WRITER, &mut note_file.clone()[..length]).is_err());
    }
    let too_long = Note {
        label: "x".repeat(600),
        ..note()
    };
    assert!(matches!(
        encode_note(&repository(), WRITER, &too_long),
        Err(Error::OutOfRange { .. })
    ));
}

/// Returns values behind their length, padded as what is sealed.
fn plaintext(values: &[u8]) -> Vec<u8> {
    let mut plaintext = (values.len() as u32).to_le_bytes().to_vec();
    plaintext.extend_from_slice(values);
    let size = ibid_format::padme::padded(plaintext.len() as u64 + 48) as usize;
    plaintext.resize(size - 48, 0);
    plaintext
}

#[test]
fn a_revocation_lists_files_in_order_and_once() {
    let head = [&WRITER.0[..], &[2, 0]].concat();
    let files = |ids: &[u8]| {
        let ids: Vec<u8> = ids.iter().flat_map(|byte| [*byte; 16]).collect();
        [&head[..], &[0, 0, (ids.len() / 16) as u8], &ids, &[0]].concat()
    };
    let decode = |values: &[u8]| Revocation::decode(&plaintext(values));
    assert_eq!(decode(&files(&[1, 2])).unwrap().1.files.len(), 2);
    for unordered in [[2, 1], [1, 1]] {
        assert!(matches!(
            decode(&files(&unordered)),
            Err(Error::Unordered { position: 1, .. })
        ));
    }
    // A count beyond the bytes takes no memory.
    assert!(decode(&[&head[..], &[0xff, 0xff, 0xff, 7]].concat()).is_err());
    let good = files(&[1, 2]);
    for length in 0..good.len() {
        assert!(decode(&good[..length]).is_err(), "{length}");
    }
    assert!(decode(&[&good[..], &[0]].concat()).is_err());
}

fn seen() -> Seen {
    let at = |seconds| Time { seconds, nanos: 0 };
    let first_seen = |after, seen| FirstSeen {
        after: at(after),
        at: at(seen),
    };
    Seen {
        looked: at(1_800_000_200),
        snapshots: [
            (FileId([0x31; 16]), first_seen(1_800_000_000, 1_800_000_100)),
            (FileId([0x32; 16]), first_seen(1_800_000_100, 1_800_000_200)),
        ]
        .into(),
    }
}

#[test]
fn worked_example_of_the_snapshots_that_were_seen() {
    let (keys, file) = (keeper().with_example_nonces(), worked_examples::FILE);
    let bytes = seen().encode(&keys, file).unwrap();
    let mut sealed = bytes[8..].to_vec();
    assert_example(
        "seen-plaintext",
        keys.open(SealKind::Seen, file, 8, &mut sealed).unwrap(),
    );
    assert_example("seen", &bytes);
    assert_eq!(Seen::open(&keeper(), file, &mut example("seen")), Ok(seen()));
}

#[test]
fn snapshots_that_were_seen_are_a_keepers_word_for_one_writer() {
    let bytes = seen().encode(&keeper(), FILE).unwrap();
    assert!(Seen::open(&repository(), FILE, &mut bytes.clone()).is_err());
    assert!(Seen::open(&keeper(), OTHER_FILE, &mut bytes.clone()).is_err());
    for length in 0..bytes.len() {
        assert!(Seen::open(&keeper(), FILE, &mut bytes.clone()[..length]).is_err());
    }
    assert!(signed::sign(&keeper(), FileKind::Seen, FILE, &[&bytes]).is_ok());
    let by_writer = signed::sign(&writer_key().keys(), FileKind::Seen, FILE, &[&bytes]);
    assert!(matches!(by_writer, Err(Error::Signer { .. })), "{by_writer:?}");
}

#[test]
fn snapshots_that_were_seen_are_listed_in_order_and_once() {
    let list = |ids: &[u8]| {
        let entries = ids.iter().flat_map(|byte| [&[*byte; 16][..], &[2, 0, 4, 0]].concat());
        [&[6, 0, ids.len() as u8][..], &entries.collect::<Vec<u8>>()].concat()
    };
    let decode = |values: &[u8]| Seen::decode(&plaintext(values));
    assert_eq!(decode(&list(&[1, 2])).unwrap().snapshots.len(), 2);
    for unordered in [[2, 1], [1, 1]] {
        let found = decode(&list(&unordered));
        assert!(matches!(found, Err(Error::Unordered { position: 1, .. })), "{found:?}");
    }
    // A count beyond the bytes takes no memory.
    assert!(decode(&[6, 0, 0xff, 0xff, 0xff, 7]).is_err());
    let good = list(&[1, 2]);
    for length in 0..good.len() {
        assert!(decode(&good[..length]).is_err(), "{length}");
    }
    assert!(decode(&[&good[..], &[0]].concat()).is_err());
}
