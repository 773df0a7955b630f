//! Any records in valid seals as an index: an accepted index can be searched without a panic.

#![no_main]

use ibid_format::index::Index;
use ibid_format::{FileId, Keys, MasterKey, SealKind, padme};
use libfuzzer_sys::fuzz_target;

const FILE: FileId = FileId([1; 16]);

/// An index file with so many records of each table, whose bytes are taken from `records` and
/// zeros.
fn file(keys: &Keys, counts: [u8; 3], records: &[u8]) -> Vec<u8> {
    let tables: Vec<usize> = counts
        .iter()
        .zip([32, 16, 38])
        .map(|(&count, size)| usize::from(count) * size)
        .collect();
    let blocks = tables.iter().filter(|&&length| length > 0).count();
    let plain = 80 + tables.iter().sum::<usize>() + blocks * 40 + 40;
    let size = padme::padded(plain as u64);

    let numbers = counts.map(u32::from).map(u32::to_le_bytes).concat();
    let header = [&numbers[..], &[0; 4], &size.to_le_bytes(), &[0; 8]].concat();
    let mut out = b"ibididx\x01".to_vec();
    keys.seal(SealKind::Index, FILE, 8, &header, &mut out);
    let mut rest = records.iter().copied().chain(std::iter::repeat(0));
    for length in tables.into_iter().filter(|&length| length > 0) {
        let plaintext: Vec<u8> = rest.by_ref().take(length).collect();
        let position = out.len() as u64;
        keys.seal(SealKind::Index, FILE, position, &plaintext, &mut out);
    }
    let position = out.len() as u64;
    keys.seal(
        SealKind::Index,
        FILE,
        position,
        &vec![0; size as usize - plain],
        &mut out,
    );
    out
}

fuzz_target!(|input: ([u8; 3], &[u8])| {
    let (counts, records) = input;
    let keys = Keys::unencrypted(FILE, &MasterKey::from_bytes([0; 32]));
    let Ok(index) = Index::open(&keys, FILE, file(&keys, counts, records)) else {
        return;
    };
    assert_eq!(index.entries().len(), usize::from(counts[2]));
    for entry in index.entries() {
        assert!(index.find_all(&entry.id).any(|found| found == entry));
        assert!(index.pack_of(entry.frame).is_some());
    }
});
