//! Any bytes as the plaintext of an entry of the prune log: an accepted one encodes to the same
//! bytes, and decoding takes memory in proportion to the bytes.

#![no_main]

use ibid_format::prune_log::Entry;
use libfuzzer_sys::fuzz_target;

#[path = "sealed.rs"]
mod sealed;

const NUMBER: u64 = 7;

fuzz_target!(|values: &[u8]| {
    let kind = sealed::Kind {
        decode: Entry::decode,
        encode: |value, keys| value.encode(keys, NUMBER),
        open: |keys, bytes| Entry::open(keys, NUMBER, bytes),
        // A batch of 5 bytes takes 64, and three times that while their array grows.
        memory_per_byte: 64,
    };
    sealed::check(values, &kind);
});
