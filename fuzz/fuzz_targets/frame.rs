//! Any bytes as the plaintext of a frame: a frame that decodes as a whole decodes to the same
//! chunks up to any slot, and its own bytes are part of them.

#![no_main]

use std::ops::Range;

use ibid_format::Error;
use ibid_format::frame::{self, FrameDecoder, PREFIX_BYTES_MAX};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8], &[u8])| {
    let (upto, prefix, plaintext) = input;
    // The prefix is cut or padded to the frame's length, so that delta frames get as far as their
    // deltas.
    let mut prefix = prefix.to_vec();
    if let Ok(pieces) = frame::pieces(plaintext) {
        let length = pieces.iter().map(|piece| piece.length as usize).sum();
        assert!(length <= PREFIX_BYTES_MAX as usize);
        prefix.resize(length, b'p');
    }
    let (mut whole, mut part) = (FrameDecoder::new(), FrameDecoder::new());
    let (mut body, mut ends) = (Vec::new(), Vec::new());
    let read = |stretches: &[Range<u32>], out: &mut Vec<u8>| {
        for stretch in stretches {
            out.extend_from_slice(&prefix[stretch.start as usize..stretch.end as usize]);
        }
        Ok::<(), Error>(())
    };
    let own = part.decode_own(plaintext, read, &mut body, &mut ends);
    let Ok(whole) = whole.decode(plaintext, &prefix, None) else {
        assert!(own.is_err() && body.is_empty() && ends.is_empty());
        return;
    };
    if let Some(outline) = own.expect("what decodes has something itself") {
        outline.assemble(&prefix, &mut body);
    }
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
