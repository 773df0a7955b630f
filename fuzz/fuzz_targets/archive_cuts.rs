//! Any data, cut as an archive: no byte is lost, no chunk is too long, and the cuts do not depend
//! on how the data arrives.

#![no_main]

use ibid_chunk::{ArchiveCutter, Chunker, Settings};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, Vec<u8>, Vec<u8>, Vec<u8>)| {
    let (large, pieces, headers, mut data) = input;
    // A fuzzer does not find checksums, so the blocks that it names get valid ones.
    for block in headers {
        if let Some(block) = data
            .get_mut(usize::from(block) * 512..)
            .and_then(|rest| rest.get_mut(..512))
        {
            block[148..156].fill(b' ');
            let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
    let settings = Settings::for_average("argmin", 256).expect("a valid average");
    let chunker = Chunker::new(&settings).expect("valid settings");
    let lengths = |pieces: &[usize]| {
        let mut cutter = ArchiveCutter::with_large(&chunker, large.into());
        let (mut at, mut there) = (0, 0);
        let mut lengths = Vec::new();
        for piece in pieces.iter().cycle() {
            there = data.len().min(there + piece);
            while let Some(length) = cutter.cut(&data[at..there], there == data.len()) {
                assert!(length >= 1 && length <= chunker.size_max());
                at += length;
                lengths.push(length);
            }
            assert!(there - at < chunker.size_max(), "a whole chunk was there");
            if there == data.len() {
                break;
            }
        }
        assert_eq!(at, data.len());
        lengths
    };
    let pieces: Vec<usize> = pieces.iter().map(|&piece| 1 + usize::from(piece) * 4).collect();
    if !pieces.is_empty() {
        assert_eq!(lengths(&pieces), lengths(&[data.len().max(1)]));
    }
});
