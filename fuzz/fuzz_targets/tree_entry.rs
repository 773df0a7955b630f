//! Any bytes as entries of a listing: accepted entries encode to the same bytes.

#![no_main]

use ibid_format::tree::TreeEntry;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|listing: &[u8]| {
    let mut rest = listing;
    while let Ok(Some((entry, length))) = TreeEntry::decode_prefix(rest) {
        let (bytes, behind) = rest.split_at(length);
        let mut again = Vec::new();
        entry
            .encode(&mut again)
            .expect("an encoder refuses only what a decoder refuses");
        assert_eq!(again, bytes, "there is one way to write an entry");
        rest = behind;
    }
});
