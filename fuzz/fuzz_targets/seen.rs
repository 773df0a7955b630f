//! Any bytes as the plaintext of the snapshots of a writer that were seen: an accepted one encodes to the same bytes,
//! and decoding takes memory in proportion to the bytes.

#![no_main]

use ibid_format::FileId;
use ibid_format::writer::Seen;
use libfuzzer_sys::fuzz_target;

#[path = "sealed.rs"]
mod sealed;

const FILE: FileId = FileId([1; 16]);

fuzz_target!(|values: &[u8]| {
    let kind = sealed::Kind {
        decode: Seen::decode,
        encode: |value, keys| value.encode(keys, FILE),
        open: |keys, bytes| Seen::open(keys, FILE, &mut bytes.to_vec()),
        // An entry of 20 bytes takes 48 in a node of a tree, of which half may be empty.
        memory_per_byte: 8,
    };
    sealed::check(values, &kind);
});
