//! Any bytes as parts of a run of sketches: accepted are trailers and tables that the specification
//! allows, sketches of packs lie one after another, and a whole run that is made of accepted sketches
//! leads from features to their chunks.

#![no_main]

mod memory;

use ibid_format::run::{
    EntryPage, EntryPageBuilder, PAGE, PAGE_PLAIN, Section, ShortId, SketchPack, SketchTables, SketchTrailer,
    feature_id, open, seal,
};
use ibid_format::sketches::{LIMIT, Sketches};
use ibid_format::{FileId, Keys, MasterKey, SEAL_OVERHEAD, SealKind};
use libfuzzer_sys::fuzz_target;

const FILE: FileId = FileId([1; 16]);
/// Plaintext of a trailer, bytes.
const PLAIN: usize = 64;
/// Features of a chunk by which it is found.
const FEATURES_FOUND: usize = 4;
/// Most tables of which the bytes are made, bytes.
const TABLES_MAX: u64 = 64 << 10;

/// Opens any trailer, and any tables with it.
fn check_trailer(keys: &Keys, plain: &[u8; PLAIN], tables: &[u8]) {
    // The size must fit what the trailer states: most inputs would get no further than that.
    let number = |at: usize| u128::from(u32::from_le_bytes(plain[at..at + 4].try_into().expect("four bytes")));
    let [entry_pages, packs, covers] = [24, 28, 32].map(number);
    let plain_tables = covers * 16 + packs * 40 + entry_pages * 4;
    let end = u64::from_le_bytes(plain[..8].try_into().expect("eight bytes"));
    let blocks = plain_tables.div_ceil(64 << 10);
    let size = u128::from(end) + entry_pages * PAGE as u128 + plain_tables + blocks * SEAL_OVERHEAD as u128;
    let size = u64::try_from(size + SketchTrailer::LEN as u128).unwrap_or(u64::MAX);
    let position = size - SketchTrailer::LEN as u64;
    let mut sealed = Vec::new();
    keys.seal(SealKind::Run, FILE, position, plain, &mut sealed);
    let Ok(trailer) = SketchTrailer::open(keys, FILE, size, &mut sealed) else {
        return;
    };
    assert_eq!(trailer.size(), size);
    assert_eq!(trailer.tables().end() + SketchTrailer::LEN as u64, size);
    assert_eq!(
        (trailer.entry_page(0), trailer.entry_page(trailer.entry_pages)),
        (end, trailer.tables().offset)
    );
    let mut again = Vec::new();
    trailer.seal(keys, FILE, &mut again);
    assert_eq!(
        open(keys, FILE, position, &mut again).expect("it was just sealed"),
        plain
    );
    check_tables(trailer, tables);
}

fn check_tables(mut trailer: SketchTrailer, bytes: &[u8]) {
    if SketchTables::len_of(&trailer) > TABLES_MAX {
        trailer.covers %= 64;
        trailer.packs %= 256;
        trailer.entry_pages %= 1024;
    }
    let mut bytes = bytes.to_vec();
    bytes.resize(SketchTables::len_of(&trailer) as usize, 0xff);
    // A vector that grows is held twice for a moment.
    let read = memory::within(4 * bytes.len() + 1000, || SketchTables::read(&trailer, &bytes));
    let Ok(tables) = read else {
        return;
    };
    assert_eq!(tables.encode(), bytes);
    assert_eq!(tables.covers.len(), trailer.covers as usize);
    assert!(tables.entry_fences.is_sorted());
    let (mut end, mut first) = (SketchTrailer::SKETCHES_AT, 0);
    for pack in &tables.packs {
        assert!(pack.offset >= end && pack.first >= first);
        assert!((SEAL_OVERHEAD as u64..=LIMIT).contains(&pack.sealed.into()));
        (end, first) = (pack.offset + u64::from(pack.sealed), pack.first);
    }
    assert!(end <= trailer.sketches_end && u64::from(first) <= trailer.chunks);
    // A chunk is in one of the packs.
    assert!(!tables.packs.is_empty() || trailer.entry_pages == 0);
}

/// A run in memory.
struct Written {
    bytes: Vec<u8>,
    trailer: SketchTrailer,
    tables: SketchTables,
}

/// Makes a run in which each run of the sketches counts as those of a pack, as ibid makes it of files.
fn write(keys: &Keys, sketches: &Sketches) -> Written {
    let mut bytes = SketchTrailer::head().to_vec();
    let mut tables = SketchTables {
        covers: vec![FileId([2; 16])],
        ..SketchTables::default()
    };
    let mut entries: Vec<(ShortId, u64)> = Vec::new();
    let mut chunks = 0u32;
    for run in &sketches.runs {
        let of_pack = Sketches {
            time: sketches.time,
            runs: vec![run.clone()],
        };
        let offset = bytes.len() as u64;
        let values = of_pack.to_values().expect("it was read");
        seal(keys, FILE, offset, &values, &mut bytes);
        tables.packs.push(SketchPack {
            id: run.pack,
            time: sketches.time.seconds,
            offset,
            sealed: (bytes.len() as u64 - offset) as u32,
            first: chunks,
        });
        for (chunk, features) in (chunks..).zip(run.chunks.iter()) {
            let found_by = features.iter().take(FEATURES_FOUND);
            entries.extend(found_by.map(|feature| (feature_id(*feature), chunk.into())));
        }
        chunks += run.chunks.len() as u32;
    }
    entries.sort_unstable();
    let sketches_end = bytes.len() as u64;
    let mut builder = EntryPageBuilder::new(u32::BITS - chunks.saturating_sub(1).leading_zeros());
    let mut plain = Vec::new();
    let fences = &mut tables.entry_fences;
    for &(id, chunk) in &entries {
        fences.extend(builder.push(id, chunk, &mut plain).map(ShortId::fence));
    }
    fences.extend(builder.finish(&mut plain).map(ShortId::fence));
    for page in plain.chunks(PAGE_PLAIN) {
        let position = bytes.len() as u64;
        seal(keys, FILE, position, page, &mut bytes);
    }
    let trailer = SketchTrailer {
        sketches_end,
        chunks: chunks.into(),
        entries: entries.len() as u64,
        entry_pages: tables.entry_fences.len() as u32,
        packs: tables.packs.len() as u32,
        covers: tables.covers.len() as u32,
    };
    for block in tables.encode().chunks(64 << 10) {
        let position = bytes.len() as u64;
        seal(keys, FILE, position, block, &mut bytes);
    }
    trailer.seal(keys, FILE, &mut bytes);
    Written { bytes, trailer, tables }
}

/// Opens a block of a file.
fn block(keys: &Keys, file: &[u8], position: u64, length: usize) -> Vec<u8> {
    let mut sealed = file[position as usize..][..length].to_vec();
    open(keys, FILE, position, &mut sealed)
        .expect("it was just sealed")
        .to_vec()
}

fn check_run(keys: &Keys, sketches: &Sketches) {
    let Written { bytes, trailer, tables } = write(keys, sketches);
    let size = bytes.len() as u64;
    let mut end = bytes[bytes.len() - SketchTrailer::LEN..].to_vec();
    assert_eq!(SketchTrailer::open(keys, FILE, size, &mut end), Ok(trailer));
    let section: Section = trailer.tables();
    let blocks = section
        .blocks()
        .map(|range| block(keys, &bytes, range.start, (range.end - range.start) as usize));
    assert_eq!(
        SketchTables::read(&trailer, &blocks.collect::<Vec<_>>().concat()).as_ref(),
        Ok(&tables)
    );
    let pages: Vec<EntryPage> = (0..trailer.entry_pages)
        .map(|number| block(keys, &bytes, trailer.entry_page(number), PAGE))
        .map(|plain| EntryPage::read(&plain).expect("it was just built"))
        .collect();
    assert_eq!(pages.iter().map(EntryPage::len).sum::<usize>() as u64, trailer.entries);
    for (number, (pack, run)) in tables.packs.iter().zip(&sketches.runs).enumerate() {
        let values = block(keys, &bytes, pack.offset, pack.sealed as usize);
        assert_eq!(
            Sketches::from_values(&values).map(|read| read.runs).as_ref(),
            Ok(&vec![run.clone()])
        );
        // Two chunks of each pack, because looking up takes long: there may be thousands.
        let last = run.chunks.len() - 1;
        for (chunk, features) in run
            .chunks
            .iter()
            .enumerate()
            .filter(|(chunk, _)| [0, last].contains(chunk))
        {
            let chunk = u64::from(pack.first) + chunk as u64;
            for &feature in features.iter().take(FEATURES_FOUND) {
                let id = feature_id(feature);
                let fences = &tables.entry_fences;
                let start = fences.partition_point(|&fence| fence < feature).saturating_sub(1);
                let end = fences.partition_point(|&fence| fence <= feature);
                let mut found = pages[start..end].iter().flat_map(|page| page.find(id, id));
                assert!(found.any(|(_, found)| found == chunk));
                let after = tables.packs.partition_point(|pack| u64::from(pack.first) <= chunk);
                assert_eq!(after, number + 1);
            }
        }
    }
}

fuzz_target!(|input: (bool, &[u8])| {
    let (is_values, bytes) = input;
    let keys = Keys::unencrypted(FILE, &MasterKey::from_bytes([0; 32]));
    if !is_values {
        if let Some((plain, tables)) = bytes.split_first_chunk::<PLAIN>() {
            check_trailer(&keys, plain, tables);
        }
        return;
    }
    // As much as the format's own tests allow: a chunk without features takes one byte, and here some.
    let Ok(sketches) = memory::within(80 * bytes.len() + 2000, || Sketches::from_values(bytes)) else {
        return;
    };
    let values = sketches
        .to_values()
        .expect("an encoder refuses only what a decoder refuses");
    assert_eq!(Sketches::from_values(&values).as_ref(), Ok(&sketches));
    check_run(&keys, &sketches);
});
