//! What tests within the crate store.

use ibid_delta::{Interval, Method};
use ibid_format::frame::{Compression, FrameBuilder, FrameEncoder, Piece};
use ibid_format::pack::{PackBuilder, PackKind, PackSummary};
use ibid_storage::Storage;

use crate::Repository;
use crate::layout::{folder, name_in, new_id};

/// Stores a pack of frames of one chunk each, each encoded against those that are named, and returns its directory.
pub(crate) fn put_pack(
    storage: &dyn Storage,
    repository: &Repository,
    frames: &[(Vec<u8>, Vec<Vec<u8>>)],
    depth: u8,
) -> PackSummary {
    let keys = &repository.files.keys;
    let (id, mut encoder) = (new_id(), FrameEncoder::new());
    let mut pack = PackBuilder::new(keys, id, PackKind::Data);
    for (chunk, against) in frames {
        let (mut gathered, mut plain) = (FrameBuilder::new(), Vec::new());
        gathered.push(keys.chunk_id(chunk), chunk);
        let pieces: Vec<Piece> = against
            .iter()
            .map(|base| Piece {
                base: keys.chunk_id(base).prefix(),
                start: 0,
                length: base.len() as u32,
            })
            .collect();
        let blobs = gathered.blobs();
        if pieces.is_empty() {
            encoder.encode(blobs, chunk, Compression::Stored, &mut plain).unwrap();
        } else {
            let (level, interval) = (1, Interval::I32);
            let method = Method::AnchorZstd { level, interval };
            encoder
                .encode_delta(blobs, chunk, &pieces, &against.concat(), method, &mut plain)
                .unwrap();
        }
        let bases: Vec<_> = pieces.iter().map(|piece| piece.base).collect();
        pack.add(&plain, blobs, depth, &bases);
    }
    let (bytes, summary) = pack.finish();
    storage.put(&name_in(folder::PACKS, id), &[&bytes]).unwrap();
    summary
}
