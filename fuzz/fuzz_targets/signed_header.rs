//! Any bytes as the header of a writer's file: none is accepted that was not signed, and one with other bytes in it
//! neither.

#![no_main]

use std::sync::LazyLock;

use ibid_format::writer::WriterKey;
use ibid_format::writer::signed::{self, HEADER};
use ibid_format::{FileId, FileKind, Keys, MasterKey};
use libfuzzer_sys::fuzz_target;

const FILE: FileId = FileId([1; 16]);
const KINDS: [FileKind; 4] = [FileKind::Pack, FileKind::Snapshot, FileKind::Index, FileKind::Session];

/// The keys of a keeper, and a header that the writer has signed, for each kind.
static SIGNED: LazyLock<(Keys, [[u8; HEADER]; 4])> = LazyLock::new(|| {
    let repository = Keys::encrypted(FileId([2; 16]), &MasterKey::from_bytes([0; 32]));
    let key = WriterKey::derive(&repository, FileId([3; 16])).expect("it is encrypted");
    let writer = key.keys().with_example_nonces();
    let sign = |kind| signed::sign(&writer, kind, FILE, &[b"content"]).expect("a writer stores such files");
    let keeper = repository.of_writer(key.id()).expect("it is encrypted");
    (keeper, KINDS.map(sign))
});

fuzz_target!(|bytes: &[u8]| {
    let (keeper, headers) = &*SIGNED;
    assert!(
        signed::open(keeper, FileKind::Pack, FILE, bytes).is_err() || headers.iter().any(|header| header == bytes),
        "nobody has signed this"
    );
    // Bytes that take the place of others in a header that was signed: the first says of which, the next where.
    let [which, at, put @ ..] = bytes else {
        return;
    };
    let (kind, good) = (KINDS[usize::from(which % 4)], &headers[usize::from(which % 4)]);
    let at = usize::from(*at) % HEADER;
    let mut header = *good;
    let length = put.len().min(HEADER - at);
    header[at..at + length].copy_from_slice(&put[..length]);
    let opened = signed::open(keeper, kind, FILE, &header);
    assert_eq!(opened.is_ok(), header == *good);
});
