//! Any bytes as a message between stores, inside a valid checksum and compression, give an error or
//! a value that encodes to the same bytes.

#![no_main]

use ibid_format::record::{
    BatchContents, LogEntry, LogState, PartRequest, PartResponse, PublishedPart, RawContents, Request, Response,
    body_digest, decompress_contents, decompress_rows,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut message = b"ibrp\x01".to_vec();
    message.extend_from_slice(bytes);
    message.extend_from_slice(&body_digest(&message));
    if let Ok(request) = Request::decode(&message) {
        assert_eq!(Request::decode(&request.encode()), Ok(request));
    }
    if let Ok(answer) = Response::decode(&message) {
        assert_eq!(Response::decode(&answer.encode()), Ok(answer));
    }
    if let Ok(published) = PublishedPart::decode(&message) {
        assert_eq!(PublishedPart::decode(&published.encode()), Ok(published));
    }
    if let Ok(pull) = PartRequest::decode(&message) {
        assert_eq!(PartRequest::decode(&pull.encode()), Ok(pull));
    }
    if let Ok(pulled) = PartResponse::decode(&message) {
        assert_eq!(PartResponse::decode(&pulled.encode()), Ok(pulled));
    }
    let _ = LogState::decode(bytes);

    let length = bytes.len() as u64;
    let packed = zstd::bulk::compress(bytes, 1).expect("it is short");
    let mut raw = Vec::new();
    if let Ok(contents) = decompress_contents(&packed, length, &mut raw) {
        contents.entries.iter().for_each(|entry| drop(LogEntry::decode(entry)));
        let parts: Vec<_> = contents
            .bodies
            .iter()
            .map(|body| (body.base, body.bytes.len()))
            .collect();
        let bodies = contents.bodies.iter().map(|body| body.bytes.to_vec()).collect();
        let joined = RawContents::new(&contents.entries, &parts, bodies).expect("it was unpacked");
        let (again, length) = joined.compress(1).expect("it was unpacked");
        let mut raw = Vec::new();
        let same: BatchContents<'_> = decompress_contents(&again, length, &mut raw).expect("it was packed");
        assert_eq!((same.entries, same.bodies), (contents.entries, contents.bodies));
    }
    let _ = decompress_rows(&packed, length, &mut Vec::new());
    // Contents that state a wrong length.
    for length in [length.wrapping_sub(1), length + 1, 1 << 29, u64::MAX] {
        let _ = decompress_contents(&packed, length, &mut Vec::new());
        let _ = decompress_contents(bytes, length, &mut Vec::new());
    }
});
