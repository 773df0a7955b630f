//! Writing index files.

use super::layout::{ENTRY, FRAME, Layout, PACK, Table};
use super::{IndexedChunk, IndexedFrame, IndexedPack, LIMIT};
use crate::error::in_range;
use crate::pack::PackSummary;
use crate::{Error, FileId, FileKind, Keys, SealKind, wire};

/// Returns the index file named `id` of all chunks of these packs.
///
/// # Errors
///
/// [`Error::OutOfRange`] if it would be larger than [`LIMIT`]: the caller splits the packs by
/// [`would_fit`](super::would_fit).
/// As [`PackSummary::check`] if a summary is not one of a pack.
pub fn encode(keys: &Keys, id: FileId, packs: &[PackSummary]) -> Result<Vec<u8>, Error> {
    let layout = count(packs)?;
    let mut pack_records = Vec::with_capacity(packs.len() * PACK);
    let mut frame_records = Vec::with_capacity(layout.frames as usize * FRAME);
    let mut entries = Vec::with_capacity(layout.entries as usize);
    let mut frame = 0;
    for pack in packs {
        pack.check()?;
        IndexedPack {
            id: pack.id,
            kind: pack.kind,
            size: pack.size,
            first_frame: frame,
        }
        .put(&mut pack_records);
        for summary in &pack.frames {
            IndexedFrame::from(summary).put(&mut frame_records);
            entries.extend((0..).zip(&summary.blobs).map(|(slot, blob)| IndexedChunk {
                id: blob.id,
                frame,
                slot,
            }));
            frame += 1;
        }
    }
    entries.sort_unstable();
    let mut entry_records = Vec::with_capacity(entries.len() * ENTRY);
    entries.iter().for_each(|entry| entry.put(&mut entry_records));
    drop(entries);

    let mut out = Vec::with_capacity(layout.size() as usize);
    out.extend_from_slice(&FileKind::Index.magic());
    put_header(keys, id, &layout, &mut out);
    put_table(keys, id, layout.packs(), &pack_records, &mut out);
    put_table(keys, id, layout.frames(), &frame_records, &mut out);
    put_table(keys, id, layout.entries(), &entry_records, &mut out);
    let padding = vec![0; (layout.size() - layout.padding()) as usize - crate::SEAL_OVERHEAD];
    keys.seal(SealKind::Index, id, layout.padding(), &padding, &mut out);
    Ok(out)
}

/// The layout of an index of these packs, if it is within the limit.
fn count(packs: &[PackSummary]) -> Result<Layout, Error> {
    let frames: u64 = packs.iter().map(|pack| pack.frames.len() as u64).sum();
    let entries: u64 = packs
        .iter()
        .flat_map(|pack| &pack.frames)
        .map(|frame| frame.blobs.len() as u64)
        .sum();
    // Refuse tables longer than the limit, so that 32 bits hold all counts below.
    for (field, count) in [
        ("index: packs", packs.len() as u64),
        ("index: frames", frames),
        ("index: entries", entries),
    ] {
        in_range(field, count, 0, LIMIT / FRAME as u64)?;
    }
    let layout = Layout {
        packs: packs.len() as u32,
        frames: frames as u32,
        entries: entries as u32,
    };
    in_range("index file", layout.size(), 0, LIMIT)?;
    Ok(layout)
}

fn put_header(keys: &Keys, id: FileId, layout: &Layout, out: &mut Vec<u8>) {
    let mut header = Vec::with_capacity(super::layout::HEADER);
    for number in [layout.packs, layout.frames, layout.entries, 0] {
        wire::put_u32(&mut header, number);
    }
    wire::put_u64(&mut header, layout.size());
    wire::put_u64(&mut header, 0);
    keys.seal(SealKind::Index, id, out.len() as u64, &header, out);
}

fn put_table(keys: &Keys, id: FileId, table: Table, records: &[u8], out: &mut Vec<u8>) {
    for span in table.spans() {
        let start = span.first as usize * table.record;
        let block = &records[start..start + span.records as usize * table.record];
        keys.seal(SealKind::Index, id, span.offset, block, out);
    }
}
