//! Any bytes as a delta of any base: an error, or a target of the stated length, within the limit; the same if the base is in pieces.

#![no_main]

use ibid_delta::{Decoder, describe};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8], &[u8])| {
    let (target_max, base, delta) = input;
    let (first, second) = base.split_at(usize::from(target_max) % (base.len() + 1));
    let target_max = usize::from(target_max);
    let (mut target, mut of_pieces) = (Vec::new(), Vec::new());
    let decoded = Decoder::new().decode(base, delta, target_max, &mut target);
    let pieces = [first, second];
    assert_eq!(Decoder::new().decode_pieces(&pieces, delta, target_max, &mut of_pieces), decoded);
    assert!(of_pieces == target);
    match decoded {
        Ok(()) => assert_eq!(describe(delta).map(|(_, length)| length), Ok(target.len())),
        Err(_) => assert!(target.is_empty()),
    }
    assert!(target.capacity() <= 64 + 2 * target_max);
});
