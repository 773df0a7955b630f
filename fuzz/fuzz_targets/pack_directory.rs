//! Any bytes as the plaintext of a pack's directory: an accepted directory describes frames that
//! are back to back.

#![no_main]

use ibid_format::pack::{self, FRAMES_AT};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|plaintext: &[u8]| {
    let Ok((_, frames, end)) = pack::decode_directory(plaintext) else {
        return;
    };
    let mut expected = FRAMES_AT;
    for frame in &frames {
        assert_eq!(u64::from(frame.offset), expected);
        assert!(!frame.blobs.is_empty());
        assert_eq!(frame.depth == 0, frame.bases.is_empty());
        expected += u64::from(frame.sealed);
    }
    assert_eq!(end, expected);
});
