//! Any bytes as the plaintext of a checkpoint: an accepted one encodes to the same bytes, and
//! decoding takes memory in proportion to the bytes.

#![no_main]

use ibid_format::checkpoint::Checkpoint;
use ibid_format::{FileId, Keys, MasterKey, padme};
use libfuzzer_sys::fuzz_target;

#[path = "memory.rs"]
mod memory;

const FILE: FileId = FileId([1; 16]);
/// A hole of 1 byte takes 40, and three times that while their array grows.
const MEMORY_PER_BYTE: usize = 160;

fuzz_target!(|values: &[u8]| {
    // Length and padding are supplied, or no input would get past them.
    let mut plaintext = (values.len() as u32).to_le_bytes().to_vec();
    plaintext.extend_from_slice(values);
    let size = padme::padded(plaintext.len() as u64 + 48) as usize;
    plaintext.resize(size - 48, 0);
    let most = 4096 + MEMORY_PER_BYTE * values.len();
    let Ok(checkpoint) = memory::within(most, || Checkpoint::decode(&plaintext)) else {
        return;
    };
    let keys = Keys::unencrypted(FileId([1; 16]), &MasterKey::from_bytes([0; 32]));
    let mut file = checkpoint
        .encode(&keys, FILE)
        .expect("an encoder refuses only what a decoder refuses");
    assert_eq!(
        file[8..file.len() - 40],
        plaintext,
        "there is one way to write a checkpoint"
    );
    assert_eq!(Checkpoint::open(&keys, FILE, &mut file), Ok(checkpoint));
});
