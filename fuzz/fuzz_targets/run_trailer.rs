//! Any bytes as a run's trailer and tables: accepted are those that the specification allows, they
//! are written again as the same bytes, and the sections that follow from them lie one after another
//! up to the end of the file.

#![no_main]

mod memory;

use ibid_format::run::{BLOCK, PAGE, Section, Tables, Trailer, open};
use ibid_format::{FileId, Keys, MasterKey, SEAL_OVERHEAD, SealKind};
use libfuzzer_sys::fuzz_target;

const FILE: FileId = FileId([1; 16]);
/// Plaintext of a trailer, bytes.
const PLAIN: usize = 64;
/// Most entries and chunks of a run.
const COUNT_MAX: u64 = 1 << 40;
/// Most tables of which the bytes are made, bytes.
const TABLES_MAX: u64 = 64 << 10;

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Returns the size of the file that a trailer describes, by the specification, and whether a reader
/// accepts the trailer.
fn described(plain: &[u8; PLAIN]) -> (u128, bool) {
    let number = |at| u128::from(u32_at(plain, at));
    let [entry_pages, frames, packs, covers, pack_id_pages] = [16, 20, 24, 28, 40].map(number);
    let (entries, chunks) = (u64_at(plain, 0), u64_at(plain, 8));
    let section = |plain: u128| plain + plain.div_ceil(BLOCK as u128) * SEAL_OVERHEAD as u128;
    let frame_pages = frames.div_ceil(403);
    let pages = 1 + frame_pages + entry_pages + packs.div_ceil(126) + pack_id_pages;
    let filter = (u128::from(entries) * 10).div_ceil(512).max(1) * 64;
    let tables = covers * 16 + (entry_pages + pack_id_pages) * 4 + frame_pages * 8;
    let size = pages * PAGE as u128 + section(filter) + section(tables) + Trailer::LEN as u128;
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let is_valid = entries.max(chunks) <= COUNT_MAX && plain[36] <= 61 && is_zero(&plain[38..40]);
    (size, is_valid && is_zero(&plain[52..]))
}

/// Checks that a section's blocks follow one another.
fn check_blocks(section: Section) {
    let mut at = section.offset;
    // A filter may have very many.
    for block in section.blocks().take(4) {
        assert_eq!(block.start, at);
        assert!(block.end <= section.end() && block.end - block.start > SEAL_OVERHEAD as u64);
        at = block.end;
    }
    assert!(at == section.end() || section.plain > 4 * BLOCK as u64);
}

fn check_sections(trailer: &Trailer, size: u64) {
    assert_eq!(Trailer::head().len() as u64, trailer.frame_page(0));
    assert_eq!(trailer.frame_page(trailer.frame_pages()), trailer.entry_page(0));
    assert_eq!(trailer.entry_page(trailer.entry_pages), trailer.pack_page(0));
    assert_eq!(trailer.pack_page(trailer.pack_pages()), trailer.pack_id_page(0));
    assert_eq!(trailer.pack_id_page(trailer.pack_id_pages), trailer.filter().offset);
    assert_eq!(trailer.filter().end(), trailer.tables().offset);
    assert_eq!(trailer.tables().end() + Trailer::LEN as u64, size);
    check_blocks(trailer.filter());
    check_blocks(trailer.tables());
}

/// Reads any bytes as the tables of a trailer.
fn check_tables(trailer: &Trailer, bytes: &[u8]) {
    let mut trailer = *trailer;
    if Tables::len_of(&trailer) > TABLES_MAX {
        trailer.covers %= 64;
        trailer.entry_pages %= 1024;
        trailer.frames %= 403 * 64;
        trailer.pack_id_pages %= 64;
    }
    let mut bytes = bytes.to_vec();
    bytes.resize(Tables::len_of(&trailer) as usize, 0xff);
    // A vector that grows is held twice for a moment.
    let read = memory::within(4 * bytes.len() + 1000, || Tables::read(&trailer, &bytes));
    assert!(Tables::read(&trailer, &[&bytes[..], &[0]].concat()).is_err());
    let (ids, fences) = bytes.split_at(trailer.covers as usize * 16);
    let (entries, fences) = fences.split_at(trailer.entry_pages as usize * 4);
    let (frames, packs) = fences.split_at(trailer.frame_pages() as usize * 8);
    let ascend = |fences: &[u8], size| {
        let fences = fences.chunks(size).map(|fence| match size {
            4 => u32_at(fence, 0).into(),
            _ => u64_at(fence, 0),
        });
        fences.is_sorted()
    };
    let Ok(tables) = read else {
        assert!(!(ascend(entries, 4) && ascend(frames, 8) && ascend(packs, 4)));
        return;
    };
    assert!(ascend(entries, 4) && ascend(frames, 8) && ascend(packs, 4));
    assert_eq!(tables.covers.len(), ids.len() / 16);
    assert_eq!(tables.encode(), bytes);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((plain, rest)) = bytes.split_first_chunk::<PLAIN>() else {
        return;
    };
    let keys = Keys::unencrypted(FILE, &MasterKey::from_bytes([0; 32]));
    let (size, is_valid) = described(plain);
    let size = u64::try_from(size).unwrap_or(u64::MAX);
    let position = size - Trailer::LEN as u64;
    let mut sealed = Vec::new();
    keys.seal(SealKind::Run, FILE, position, plain, &mut sealed);
    let read = Trailer::open(&keys, FILE, size, &mut sealed.clone());
    assert_eq!(read.is_ok(), is_valid, "{read:?}");
    let Ok(trailer) = read else {
        return;
    };
    assert_eq!(trailer.size(), size);
    // Sealed for another place, it can't be that of a file of another size.
    for other in [size - 1, size + 1, 0] {
        assert!(Trailer::open(&keys, FILE, other, &mut sealed.clone()).is_err());
    }
    let mut again = Vec::new();
    trailer.seal(&keys, FILE, &mut again);
    assert_eq!(
        open(&keys, FILE, position, &mut again).expect("it was just sealed"),
        plain
    );
    check_sections(&trailer, size);
    check_tables(&trailer, rest);
});
