//! Any bytes as the plaintext of a frame: what decodes as a whole decodes alike up to any slot.

#![no_main]

use ibid_format::frame::Decoder;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8])| {
    let (upto, plaintext) = input;
    let (mut whole, mut part) = (Decoder::new(), Decoder::new());
    let Ok(whole) = whole.decode(plaintext, None) else {
        return;
    };
    let upto = upto % whole.len() as u16;
    let part = part
        .decode(plaintext, Some(upto))
        .expect("what decodes as a whole decodes in part");
    assert_eq!(part.len(), whole.len());
    assert!(part.chunks().eq(whole.chunks().take(usize::from(upto) + 1)));
    assert_eq!(part.chunk(upto), whole.chunk(upto));
});
