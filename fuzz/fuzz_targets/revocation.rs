//! Any bytes as the plaintext of a writer's revocation: an accepted one encodes to the same bytes, and decoding takes
//! memory in proportion to the bytes.

#![no_main]

use ibid_format::FileId;
use ibid_format::writer::Revocation;
use libfuzzer_sys::fuzz_target;

#[path = "sealed.rs"]
mod sealed;

const FILE: FileId = FileId([1; 16]);

fuzz_target!(|values: &[u8]| {
    let kind = sealed::Kind {
        decode: Revocation::decode,
        encode: |(writer, value), keys| value.encode(keys, *writer, FILE),
        open: |keys, bytes| {
            // The writer is in the file; which one it is, is tested elsewhere.
            let mut copy = bytes.to_vec();
            let plaintext = keys.open(ibid_format::SealKind::Revocation, FILE, 8, &mut copy[8..])?;
            Revocation::decode(plaintext)
        },
        // An id of 16 bytes takes 17 in a node of a tree, of which half may be empty.
        memory_per_byte: 8,
    };
    sealed::check(values, &kind);
});
