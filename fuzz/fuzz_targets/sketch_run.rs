//! Any bytes as parts of a run of sketches: accepted are trailers and tables that the specification
//! allows, sketches of packs lie one after another, and a whole run that is made of accepted sketches
//! leads from features, and from the ids of packs, to their packs.

#![no_main]

mod memory;

use ibid_format::run::{
    EntryPage, EntryPageBuilder, PAGE, PAGE_PLAIN, SKETCH_PACKS_A_PAGE, Section, ShortId, SketchPack,
    SketchPackPageBuilder, SketchTables, SketchTrailer, feature_id, open, seal, sketch_packs,
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
    let [entry_pages, packs, covers, pack_id_pages] = [24, 28, 32, 36].map(number);
    let pages = entry_pages + pack_id_pages;
    let plain_tables = covers * 16 + packs.div_ceil(112) * 8 + pages * 4;
    let end = u64::from_le_bytes(plain[..8].try_into().expect("eight bytes"));
    let blocks = plain_tables.div_ceil(64 << 10);
    let size = u128::from(end) + pages * PAGE as u128 + plain_tables + blocks * SEAL_OVERHEAD as u128;
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
        (trailer.entry_page(0), trailer.pack_id_page(trailer.pack_id_pages)),
        (end, trailer.tables().offset)
    );
    let mut again = Vec::new();
    trailer.seal(keys, FILE, &mut again);
    assert_eq!(
        open(keys, FILE, position, &mut again).expect("it was just sealed"),
        plain
    );
    check_packs(trailer, tables);
    check_tables(trailer, tables);
}

/// Reads any bytes as a page of packs.
fn check_packs(trailer: SketchTrailer, bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    bytes.resize(PAGE_PLAIN, 0);
    for number in [0, trailer.pack_pages().saturating_sub(1), u32::MAX] {
        let Ok(packs) = sketch_packs(&trailer, number, &bytes) else {
            continue;
        };
        let first = u64::from(number) * SKETCH_PACKS_A_PAGE as u64;
        let left = u64::from(trailer.packs).saturating_sub(first);
        assert_eq!(packs.len() as u64, left.min(SKETCH_PACKS_A_PAGE as u64));
        let mut end = SketchTrailer::SKETCHES_AT;
        for pack in &packs {
            assert!(pack.offset >= end);
            assert!((SEAL_OVERHEAD as u64..=LIMIT).contains(&pack.sealed.into()));
            end = pack.offset + u64::from(pack.sealed);
        }
        assert!(end <= trailer.sketches_end || packs.is_empty());
        let (mut builder, mut again) = (SketchPackPageBuilder::new(), Vec::new());
        for pack in &packs {
            builder.push(pack, &mut again);
        }
        builder.finish(&mut again);
        assert!(packs.is_empty() || again == bytes);
    }
}

fn check_tables(mut trailer: SketchTrailer, bytes: &[u8]) {
    if SketchTables::len_of(&trailer) > TABLES_MAX {
        trailer.covers %= 64;
        trailer.packs %= 4096;
        trailer.entry_pages %= 1024;
        trailer.pack_id_pages %= 1024;
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
    assert!(tables.entry_fences.is_sorted() && tables.pack_fences.is_sorted());
    let mut end = SketchTrailer::SKETCHES_AT;
    for &page in &tables.pack_pages {
        assert!(page >= end && page + PAGE as u64 <= trailer.sketches_end);
        end = page + PAGE as u64;
    }
    // A chunk is in one of the packs.
    assert!(trailer.packs > 0 || trailer.entry_pages == 0);
}

/// A run in memory.
struct Written {
    bytes: Vec<u8>,
    trailer: SketchTrailer,
    tables: SketchTables,
}

/// Appends pages of these entries, and returns with what they begin.
fn write_entries(keys: &Keys, mut entries: Vec<(ShortId, u64)>, packs: usize, bytes: &mut Vec<u8>) -> Vec<u32> {
    entries.sort_unstable();
    let mut builder = EntryPageBuilder::new(usize::BITS - packs.saturating_sub(1).leading_zeros());
    let (mut plain, mut fences) = (Vec::new(), Vec::new());
    for (id, number) in entries {
        fences.extend(builder.push(id, number, &mut plain).map(ShortId::fence));
    }
    fences.extend(builder.finish(&mut plain).map(ShortId::fence));
    for page in plain.chunks(PAGE_PLAIN) {
        let position = bytes.len() as u64;
        seal(keys, FILE, position, page, bytes);
    }
    fences
}

/// Makes a run in which each run of the sketches counts as those of a pack, as ibid makes it of files.
fn write(keys: &Keys, sketches: &Sketches) -> Written {
    let mut bytes = SketchTrailer::head().to_vec();
    let mut tables = SketchTables {
        covers: vec![FileId([2; 16])],
        ..SketchTables::default()
    };
    let (mut features, mut ids) = (Vec::new(), Vec::new());
    let (mut packs, mut page) = (SketchPackPageBuilder::new(), Vec::new());
    let mut chunks = 0;
    for (number, run) in (0..).zip(&sketches.runs) {
        let of_pack = Sketches {
            time: sketches.time,
            runs: vec![run.clone()],
        };
        let offset = bytes.len() as u64;
        let values = of_pack.to_values().expect("it was read");
        seal(keys, FILE, offset, &values, &mut bytes);
        let pack = SketchPack {
            id: run.pack,
            time: sketches.time.seconds,
            offset,
            sealed: (bytes.len() as u64 - offset) as u32,
        };
        if packs.push(&pack, &mut page) || (number + 1 == sketches.runs.len() as u64 && packs.finish(&mut page)) {
            let position = bytes.len() as u64;
            tables.pack_pages.push(position);
            seal(keys, FILE, position, &page, &mut bytes);
            page.clear();
        }
        ids.push((ShortId(u128::from_be_bytes(run.pack.0)), number));
        for of_chunk in run.chunks.iter() {
            let found_by = of_chunk.iter().take(FEATURES_FOUND);
            features.extend(found_by.map(|feature| (feature_id(*feature), number)));
        }
        chunks += run.chunks.len() as u64;
    }
    let sketches_end = bytes.len() as u64;
    let entries = features.len() as u64;
    tables.entry_fences = write_entries(keys, features, sketches.runs.len(), &mut bytes);
    tables.pack_fences = write_entries(keys, ids, sketches.runs.len(), &mut bytes);
    let trailer = SketchTrailer {
        sketches_end,
        chunks,
        entries,
        entry_pages: tables.entry_fences.len() as u32,
        packs: sketches.runs.len() as u32,
        covers: tables.covers.len() as u32,
        pack_id_pages: tables.pack_fences.len() as u32,
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
    let read = |position| EntryPage::read(&block(keys, &bytes, position, PAGE)).expect("it was just built");
    let pages: Vec<EntryPage> = (0..trailer.entry_pages)
        .map(|number| read(trailer.entry_page(number)))
        .collect();
    let id_pages = (0..trailer.pack_id_pages).map(|number| read(trailer.pack_id_page(number)));
    let id_pages: Vec<EntryPage> = id_pages.collect();
    assert_eq!(pages.iter().map(EntryPage::len).sum::<usize>() as u64, trailer.entries);
    assert_eq!(id_pages.iter().map(EntryPage::len).sum::<usize>(), sketches.runs.len());
    let leads = |pages: &[EntryPage], fences: &[u32], id: ShortId, number: u64| {
        let start = fences.partition_point(|&fence| fence < id.fence()).saturating_sub(1);
        let end = fences.partition_point(|&fence| fence <= id.fence());
        let mut found = pages[start..end].iter().flat_map(|page| page.find(id, id));
        found.any(|(_, found)| found == number)
    };
    let packs = (0..).zip(&tables.pack_pages).flat_map(|(number, &page)| {
        let plain = block(keys, &bytes, page, PAGE);
        sketch_packs(&trailer, number, &plain).expect("it was just built")
    });
    let packs: Vec<SketchPack> = packs.collect();
    assert_eq!(packs.len(), sketches.runs.len());
    for (number, (pack, run)) in (0..).zip(packs.iter().zip(&sketches.runs)) {
        let values = block(keys, &bytes, pack.offset, pack.sealed as usize);
        assert_eq!(
            Sketches::from_values(&values).map(|read| read.runs).as_ref(),
            Ok(&vec![run.clone()])
        );
        let id = ShortId(u128::from_be_bytes(run.pack.0));
        assert!(leads(&id_pages, &tables.pack_fences, id, number));
        // Two chunks of each pack, because looking up takes long: there may be thousands.
        let last = run.chunks.len() - 1;
        let chunks = run.chunks.iter().enumerate();
        for (_, features) in chunks.filter(|(chunk, _)| [0, last].contains(chunk)) {
            for &feature in features.iter().take(FEATURES_FOUND) {
                assert!(leads(&pages, &tables.entry_fences, feature_id(feature), number));
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
