//! Any bytes as the plaintext of a session: an accepted one encodes to the same bytes, and decoding
//! takes memory in proportion to the bytes.

#![no_main]

use ibid_format::FileId;
use ibid_format::session::Session;
use libfuzzer_sys::fuzz_target;

#[path = "sealed.rs"]
mod sealed;

const FILE: FileId = FileId([1; 16]);

fuzz_target!(|values: &[u8]| {
    let kind = sealed::Kind {
        decode: Session::decode,
        encode: |value, keys| value.encode(keys, FILE),
        open: |keys, bytes| Session::open(keys, FILE, bytes),
        // An empty path of 1 byte takes 24, and three times that while their array grows.
        memory_per_byte: 96,
    };
    sealed::check(values, &kind);
});
