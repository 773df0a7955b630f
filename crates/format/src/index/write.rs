//! Writing index files.

use std::collections::HashSet;

use super::layout::{ENTRY, FRAME, Layout, PACK, Table};
use super::{Index, IndexedChunk, IndexedFrame, IndexedPack, LIMIT};
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
    Ok(put(keys, id, layout, &pack_records, &frame_records, entries))
}

/// Returns the index file named `id` of all packs that these list. A pack that several list is listed
/// once, as by the first of them.
///
/// # Errors
///
/// [`Error::OutOfRange`] if it would be larger than [`LIMIT`].
///
/// ```
/// # use ibid_format::frame::Blob;
/// # use ibid_format::index::{self, Index};
/// # use ibid_format::pack::{FrameSummary, PackKind, PackSummary};
/// # use ibid_format::{FileId, Keys, MasterKey};
/// # let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
/// let pack = |text: &[u8]| {
///     let blobs = vec![Blob { id: keys.chunk_id(text), length: 7 }];
///     let frames = vec![FrameSummary { offset: 8, sealed: 50, depth: 0, bases: vec![], blobs }];
///     PackSummary { id: FileId::random(), kind: PackKind::Data, size: 256, frames }
/// };
/// let (one, other) = (pack(b"a chunk"), pack(b"another"));
/// let id = FileId::random();
/// let open = |bytes| Index::open(&keys, id, bytes);
/// let first = open(index::encode(&keys, id, std::slice::from_ref(&one))?)?;
/// let both = open(index::encode(&keys, id, &[one, other])?)?;
/// let merged = open(index::merge(&keys, id, &[first, both])?)?;
/// assert_eq!((merged.packs().len(), merged.entries().len()), (2, 2));
/// # Ok::<(), ibid_format::Error>(())
/// ```
pub fn merge(keys: &Keys, id: FileId, indexes: &[Index]) -> Result<Vec<u8>, Error> {
    merge_without(keys, id, indexes, &HashSet::new())
}

/// Does the same as [`merge`], but leaves out these packs.
///
/// # Errors
///
/// As [`merge`].
pub fn merge_without(keys: &Keys, id: FileId, indexes: &[Index], left_out: &HashSet<FileId>) -> Result<Vec<u8>, Error> {
    let mut known = left_out.clone();
    let (mut packs, mut frames, mut entries) = (Vec::new(), Vec::new(), Vec::new());
    for index in indexes {
        // New number of each frame, unless its pack is listed already.
        let mut numbers = vec![None; index.frames().len()];
        for (pack, range) in index.packs_with_frames() {
            if !known.insert(pack.id) {
                continue;
            }
            let first_frame = frames.len() as u32;
            packs.push(IndexedPack { first_frame, ..pack });
            for number in range {
                numbers[number as usize] = Some(frames.len() as u32);
                frames.extend(index.frame(number));
            }
        }
        entries.extend(index.entries().filter_map(|entry| {
            let frame = numbers[entry.frame as usize]?;
            Some(IndexedChunk { frame, ..entry })
        }));
    }
    let layout = layout_of(packs.len() as u64, frames.len() as u64, entries.len() as u64)?;
    let (mut pack_records, mut frame_records) = (Vec::new(), Vec::new());
    packs.iter().for_each(|pack| pack.put(&mut pack_records));
    frames.iter().for_each(|frame| frame.put(&mut frame_records));
    Ok(put(keys, id, layout, &pack_records, &frame_records, entries))
}

/// Returns the file with these records.
fn put(
    keys: &Keys,
    id: FileId,
    layout: Layout,
    pack_records: &[u8],
    frame_records: &[u8],
    mut entries: Vec<IndexedChunk>,
) -> Vec<u8> {
    entries.sort_unstable();
    let mut entry_records = Vec::with_capacity(entries.len() * ENTRY);
    entries.iter().for_each(|entry| entry.put(&mut entry_records));
    drop(entries);

    let mut out = Vec::with_capacity(layout.size() as usize);
    out.extend_from_slice(&FileKind::Index.magic());
    put_header(keys, id, &layout, &mut out);
    put_table(keys, id, layout.packs(), pack_records, &mut out);
    put_table(keys, id, layout.frames(), frame_records, &mut out);
    put_table(keys, id, layout.entries(), &entry_records, &mut out);
    let padding = vec![0; (layout.size() - layout.padding()) as usize - crate::SEAL_OVERHEAD];
    keys.seal(SealKind::Index, id, layout.padding(), &padding, &mut out);
    out
}

/// The layout of an index of these packs, if it is within the limit.
fn count(packs: &[PackSummary]) -> Result<Layout, Error> {
    let frames: u64 = packs.iter().map(|pack| pack.frames.len() as u64).sum();
    let entries: u64 = packs
        .iter()
        .flat_map(|pack| &pack.frames)
        .map(|frame| frame.blobs.len() as u64)
        .sum();
    layout_of(packs.len() as u64, frames, entries)
}

/// The layout of an index of so many records, if it is within the limit.
fn layout_of(packs: u64, frames: u64, entries: u64) -> Result<Layout, Error> {
    // Refuse tables longer than the limit, so that 32 bits hold all counts below.
    for (field, count) in [
        ("index: packs", packs),
        ("index: frames", frames),
        ("index: entries", entries),
    ] {
        in_range(field, count, 0, LIMIT / FRAME as u64)?;
    }
    let layout = Layout {
        packs: packs as u32,
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
