//! Any bytes as the plaintext of a snapshot: an accepted snapshot encodes to the same bytes.

#![no_main]

use ibid_format::snapshot::{self, Snapshot};
use ibid_format::{FileId, Keys, MasterKey, padme};
use libfuzzer_sys::fuzz_target;

const FILE: FileId = FileId([1; 16]);

fuzz_target!(|values: &[u8]| {
    // Length and padding are supplied, or no input would get past them.
    let mut plaintext = (values.len() as u32).to_le_bytes().to_vec();
    plaintext.extend_from_slice(values);
    let size = padme::padded(plaintext.len() as u64 + 48) as usize;
    plaintext.resize(size - 48, 0);
    let Ok(snapshot) = Snapshot::decode(&plaintext) else {
        return;
    };
    let keys = Keys::unencrypted(FILE, &MasterKey::from_bytes([0; 32]));
    let file = snapshot
        .map_or_else(
            || snapshot::encode_void(&keys, FILE),
            |snapshot| snapshot.encode(&keys, FILE),
        )
        .expect("an encoder refuses only what a decoder refuses");
    assert_eq!(
        file[8..file.len() - 40],
        plaintext,
        "there is one way to write a snapshot"
    );
});
