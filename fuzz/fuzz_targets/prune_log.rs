//! Any bytes as the plaintext of an entry of the prune log: an accepted one encodes to the same
//! bytes, and decoding takes memory in proportion to the bytes.

#![no_main]

use ibid_format::prune_log::Entry;
use ibid_format::{FileId, Keys, MasterKey, padme};
use libfuzzer_sys::fuzz_target;

#[path = "memory.rs"]
mod memory;

const NUMBER: u64 = 7;
/// A batch of 5 bytes takes 64, and three times that while their array grows.
const MEMORY_PER_BYTE: usize = 64;

fuzz_target!(|values: &[u8]| {
    // Length and padding are supplied, or no input would get past them.
    let mut plaintext = (values.len() as u32).to_le_bytes().to_vec();
    plaintext.extend_from_slice(values);
    let size = padme::padded(plaintext.len() as u64 + 48) as usize;
    plaintext.resize(size - 48, 0);
    let most = 4096 + MEMORY_PER_BYTE * values.len();
    let Ok(entry) = memory::within(most, || Entry::decode(&plaintext)) else {
        return;
    };
    let keys = Keys::unencrypted(FileId([1; 16]), &MasterKey::from_bytes([0; 32]));
    let mut file = entry
        .encode(&keys, NUMBER)
        .expect("an encoder refuses only what a decoder refuses");
    assert_eq!(
        file[8..file.len() - 40],
        plaintext,
        "there is one way to write an entry of the prune log"
    );
    assert_eq!(Entry::open(&keys, NUMBER, &mut file), Ok(entry));
});
