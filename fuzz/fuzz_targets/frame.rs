//! Any bytes as the plaintext of a frame: what decodes as a whole decodes alike up to any slot, and into the caller's memory.

#![no_main]

use ibid_format::frame::{self, Decoder, PREFIX_BYTES_MAX};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8], &[u8])| {
    let (upto, prefix, plaintext) = input;
    // The prefix is cut or filled up to the length that the frame wants, so that delta frames get as far as their deltas.
    let mut prefix = prefix.to_vec();
    if let Ok(pieces) = frame::pieces(plaintext) {
        let length = pieces.iter().map(|piece| piece.length as usize).sum();
        assert!(length <= PREFIX_BYTES_MAX as usize);
        prefix.resize(length, b'p');
    }
    let (mut whole, mut part) = (Decoder::new(), Decoder::new());
    let Ok(whole) = whole.decode(plaintext, &prefix, None) else {
        assert!(part.decode_into(plaintext, &prefix, &mut vec![], &mut vec![]).is_err());
        return;
    };
    let (mut body, mut ends) = (Vec::new(), Vec::new());
    part.decode_into(plaintext, &prefix, &mut body, &mut ends)
        .expect("what decodes decodes into memory too");
    assert!(whole.chunks().flatten().eq(&body));
    assert_eq!(ends.len(), whole.len());
    let upto = upto % whole.len() as u16;
    let part = part
        .decode(plaintext, &prefix, Some(upto))
        .expect("what decodes as a whole decodes in part");
    assert_eq!(part.len(), whole.len());
    assert!(part.chunks().eq(whole.chunks().take(usize::from(upto) + 1)));
    assert_eq!(part.chunk(upto), whole.chunk(upto));
});
