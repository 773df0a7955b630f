//! Any bytes as a record, or as an entry that leads to one, give an error or a value that encodes
//! to the same bytes.

#![no_main]

use ibid_format::record::{
    BlockFrameDecoder, Body, ChainEntry, EncoderWatermark, IndexEntry, IndexRow, IndexValues, KeyEntry, LogEntry,
    LogState, NamespaceEntry, NextNumbers, PartRequest, PartResponse, PieceList, Places, PublishedPart, Record,
    References, Request, Response, VersionGroup, decompress_contents, decompress_rows, frames_of_block, key_of,
    open_log_entry, records_of_frame, split_key,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, u32, Vec<u8>, Vec<u8>)| {
    let (number, version, key, bytes) = input;
    let _ = split_key(&bytes);
    if let Ok(record) = Record::decode(number, &bytes) {
        let mut again = Vec::new();
        record
            .encode(number, &mut again)
            .expect("what was decoded can be encoded");
        assert_eq!(again, bytes);
    }
    if let Ok((entry, values)) = KeyEntry::decode_with_values(&key, &bytes) {
        assert_eq!(entry.encode_with_values(&key, &values).expect("it was decoded"), bytes);
        assert_eq!(KeyEntry::decode(&key, &bytes), Ok(entry));
    }
    if let Ok(list) = PieceList::decode(&bytes) {
        assert_eq!(list.encode().expect("it was decoded"), bytes);
    }
    let _ = IndexEntry::decode(&key, &bytes);
    let _ = IndexEntry::split_key(&bytes);
    let _ = IndexRow::split(&bytes);
    if let Ok(row) = IndexRow::decode(&key, &bytes) {
        assert_eq!(row.encode().expect("it was decoded"), (key.clone(), bytes.clone()));
    }
    let _ = VersionGroup::decode(number, version, &bytes);
    let _ = References::decode(number, &bytes);
    let _ = ChainEntry::decode(number, &bytes);
    let _ = EncoderWatermark::decode(&bytes);
    let _ = Places::decode(number, &bytes);
    if let Ok(frames) = frames_of_block(number, &bytes) {
        for frame in &frames {
            let _ = BlockFrameDecoder::default().decode(frame, &mut Vec::new());
        }
    }
    let _ = records_of_frame(&bytes, version as usize);
    let _ = Record::decode_packed(number, &bytes);
    let _ = NamespaceEntry::decode(&key, &bytes);
    let _ = NextNumbers::decode(&bytes);
    let _ = LogState::decode(&bytes);
    let _ = open_log_entry(number, &bytes);
    let _ = Request::decode(&bytes);
    let _ = Response::decode(&bytes);
    let _ = PublishedPart::decode(&bytes);
    let _ = PartRequest::decode(&bytes);
    let _ = PartResponse::decode(&bytes);
    let _ = decompress_contents(&bytes, version.into(), &mut Vec::new());
    let _ = decompress_rows(&bytes, version.into(), &mut Vec::new());
    if let Ok(entry) = LogEntry::decode(&bytes) {
        let mut again = Vec::new();
        entry.encode(&mut again).expect("what was decoded can be encoded");
        assert_eq!(again, bytes);
    }

    // Checksums refuse random bytes, so build values and encode them.
    let record = Record {
        namespace: version,
        version: number as u32,
        key: &key,
        in_pieces: number.is_multiple_of(5),
        body: Body::Whole(&bytes),
    };
    let mut encoded = Vec::new();
    if record.encode(number, &mut encoded).is_ok() {
        assert_eq!(Record::decode(number, &encoded), Ok(record));
        let place = bytes.len() % encoded.len();
        encoded[place] ^= 1 | number as u8;
        assert!(Record::decode(number, &encoded).is_err());
    }
    let stored_key = key_of(version, &key);
    let entry = KeyEntry {
        deleted: number % 2 == 1,
        lineage: number,
        versions: version,
        latest: number.wrapping_add(version.into()),
        time: number,
        oldest: (bytes.len() as u32).max(1),
        expires: number / 2,
        uses: number / 3,
        in_pieces: number.is_multiple_of(5),
    };
    if let Ok(encoded) = entry.encode(&stored_key) {
        assert_eq!(KeyEntry::decode(&stored_key, &encoded), Ok(entry));
    }
    let pieces = bytes.split(|&byte| byte == number as u8).take(8);
    let values: IndexValues = pieces.zip(1..).map(|(value, index)| (index, value.to_vec())).collect();
    if let Ok(encoded) = entry.encode_with_values(&stored_key, &values) {
        assert_eq!(
            KeyEntry::decode_with_values(&stored_key, &encoded),
            Ok((entry, values.clone()))
        );
    }
    for (index, value) in values {
        let row = IndexRow {
            namespace: version,
            index,
            value,
            key: key.clone(),
        };
        if let Ok((stored, check)) = row.encode() {
            assert_eq!(IndexRow::decode(&stored, &check), Ok(row));
        }
    }
});
