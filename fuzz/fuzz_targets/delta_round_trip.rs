//! Any base and target: each codec's delta makes the target, and the reversed delta makes the base.

#![no_main]

use ibid_delta::{DeltaDecoder, DeltaEncoder, Interval, Method};
use libfuzzer_sys::fuzz_target;

fn decoded(base: &[u8], delta: &[u8], length: usize) -> Vec<u8> {
    let mut target = Vec::new();
    DeltaDecoder::new()
        .decode(base, delta, length, &mut target)
        .expect("what was encoded decodes");
    target
}

fuzz_target!(|input: (u8, &[u8], &[u8], u16)| {
    let (choice, base, target, uncovered_max) = input;
    let interval = Interval::ALL[usize::from(choice) % Interval::ALL.len()];
    // No higher levels: gcc's address sanitizer takes a constant table in their match finder for a
    // variable out of scope.
    let level = i32::from(choice % 13) - 6;
    let method = match choice % 3 {
        0 => Method::Anchor { interval },
        1 => Method::AnchorZstd { level, interval },
        _ => Method::ZstdPrefix { level },
    };
    let mut encoder = DeltaEncoder::new().with_uncovered_max(uncovered_max.into());
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    encoder
        .encode(method, base, target, &mut forward)
        .expect("lengths within the limits");
    assert!(decoded(base, &forward, target.len()) == target);
    encoder
        .reverse(method, base, target, &forward, &mut backward)
        .expect("a delta of these ends");
    assert!(decoded(target, &backward, base.len()) == base);
});
