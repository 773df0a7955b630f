//! Any bytes as a delta of any base: an error, or a target of the stated length, within the limit.

#![no_main]

use ibid_delta::{Decoder, describe};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8], &[u8])| {
    let (target_max, base, delta) = input;
    let target_max = usize::from(target_max);
    let mut target = Vec::new();
    match Decoder::new().decode(base, delta, target_max, &mut target) {
        Ok(()) => assert_eq!(describe(delta).map(|(_, length)| length), Ok(target.len())),
        Err(_) => assert!(target.is_empty()),
    }
    assert!(target.capacity() <= 64 + 2 * target_max);
});
