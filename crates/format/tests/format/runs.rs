//! Runs of the local cache: what was put in is found, nothing else is, and no changed byte goes
//! unnoticed.

use ibid_format::index::IndexedFrame;
use ibid_format::pack::PackKind;
use ibid_format::run::{
    EntryPage, EntryPageBuilder, FRAMES_A_PAGE, Filter, FilterBuilder, FramePage, FramePageBuilder, PACKS_A_PAGE, PAGE,
    PackPage, PackPageBuilder, RunPack, ShortId, SketchPack, SketchPackPageBuilder, SketchTables, SketchTrailer,
    Tables, Trailer, VALUE_BITS_MAX, open, seal, sketch_packs,
};
use ibid_format::{Error, FileId, Keys, MasterKey, SealKind};
use proptest::prelude::*;

/// Pages of these entries, which must be sorted.
fn pages(entries: &[(ShortId, u64)], value_bits: u32) -> Vec<EntryPage> {
    let (mut builder, mut plain) = (EntryPageBuilder::new(value_bits), Vec::new());
    let mut firsts = Vec::new();
    for &(id, value) in entries {
        firsts.extend(builder.push(id, value, &mut plain));
    }
    firsts.extend(builder.finish(&mut plain));
    let pages: Vec<EntryPage> = plain
        .chunks(PAGE - 40)
        .map(|page| EntryPage::read(page).unwrap())
        .collect();
    let found: Vec<ShortId> = pages.iter().map(|page| page.entry(0).0).collect();
    assert_eq!(found, firsts);
    pages
}

/// SplitMix64 stands in for the hash.
fn random(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

fn id(n: u64) -> ShortId {
    ShortId(u128::from(random(2 * n)) << 64 | u128::from(random(2 * n + 1)))
}

proptest! {
    /// Uniform ids, clusters that share many leading bits, equal ids, the smallest and the largest.
    #[test]
    fn entries_read_back_and_are_found(
        spread in prop_oneof![Just(0u32), Just(60), Just(100), Just(120), Just(127)],
        numbers in prop::collection::vec(any::<u128>(), 0..1500),
        zeros in prop_oneof![Just(0u32), Just(8), Just(96)],
        value_bits in 0u32..=VALUE_BITS_MAX,
        copies in any::<bool>(),
    ) {
        let numbers: Vec<u128> = numbers.iter().map(|n| n >> zeros << zeros).collect();
        let mut ids: Vec<ShortId> = numbers.iter().map(|n| ShortId(n >> spread)).collect();
        if copies {
            let again = ids.clone();
            ids.extend(again);
            ids.extend([ShortId(0), ShortId(u128::MAX)]);
        }
        ids.sort_unstable();
        let value = |n: usize| random(n as u64) & ((1u64 << value_bits) - 1);
        let entries: Vec<(ShortId, u64)> = ids.iter().enumerate().map(|(n, id)| (*id, value(n))).collect();
        let pages = pages(&entries, value_bits);
        let read: Vec<(ShortId, u64)> = pages.iter().flat_map(|page| page.entries().collect::<Vec<_>>()).collect();
        prop_assert_eq!(&read, &entries);
        for bounds in numbers.windows(2).take(50) {
            let (first, last) = (ShortId(bounds[0] >> spread), ShortId(bounds[1] >> spread));
            let expected: Vec<_> = entries.iter().filter(|(id, _)| (first..=last).contains(id)).copied().collect();
            let found: Vec<_> = pages.iter().flat_map(|page| page.find(first, last).collect::<Vec<_>>()).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn frames_read_back_and_are_found_by_number_and_ordinal(
        packs in prop::collection::vec(
            prop::collection::vec((1u32..1 << 20, 0u32..1 << 27, 0u16..500, 0u8..=16), 1..300),
            0..8,
        ),
    ) {
        let (mut builder, mut plain) = (FramePageBuilder::new(), Vec::new());
        let mut expected = Vec::new();
        let mut fences = Vec::new();
        for (pack, frames) in packs.iter().enumerate() {
            let mut offset = 8;
            for &(sealed, length, blobs, depth) in frames {
                let frame = IndexedFrame { offset, sealed, blobs, depth, length };
                expected.push((pack as u32, builder.ordinal(), frame));
                fences.extend(builder.push(pack as u32, &frame, &mut plain).unwrap());
                offset += sealed;
            }
        }
        fences.extend(builder.finish(&mut plain));
        let pages: Vec<FramePage> = plain.chunks(PAGE - 40).map(|page| FramePage::read(page).unwrap()).collect();
        prop_assert_eq!(fences.len(), pages.len());
        for (number, (pack, ordinal, frame)) in expected.iter().enumerate() {
            let (page, position) = (&pages[number / FRAMES_A_PAGE], number % FRAMES_A_PAGE);
            let found = page.get(position).unwrap();
            prop_assert_eq!((found.pack, found.ordinal, found.frame), (*pack, *ordinal, *frame));
            for slot in [0, frame.blobs.saturating_sub(1)].into_iter().filter(|_| frame.blobs > 0) {
                let (at, same) = page.find(ordinal + u64::from(slot)).unwrap();
                prop_assert_eq!((at, same), (position, found));
            }
        }
    }

    #[test]
    fn packs_read_back(packs in prop::collection::vec((any::<[u8; 16]>(), 0u64..=256 << 20, 0u32..9), 0..400)) {
        let (mut builder, mut plain) = (PackPageBuilder::new(), Vec::new());
        let (mut expected, mut frames, mut full) = (Vec::new(), 0, 0);
        for (id, size, count) in packs {
            let kind = if count % 2 == 0 { PackKind::Data } else { PackKind::Metadata };
            let pack = RunPack { id: FileId(id), kind, size, first_frame: frames };
            full += usize::from(builder.push(&pack, &mut plain).unwrap());
            prop_assert_eq!(RunPack::of_value(pack.value(7)), (7, size));
            prop_assert!(pack.value(u32::MAX) >> VALUE_BITS_MAX == 0);
            frames += count;
            expected.push(pack);
        }
        full += usize::from(builder.finish(&mut plain));
        prop_assert_eq!(full, expected.len().div_ceil(PACKS_A_PAGE));
        for (plain, packs) in plain.chunks(PAGE - 40).zip(expected.chunks(PACKS_A_PAGE)) {
            let page = PackPage::read(plain, packs.len(), frames).unwrap();
            prop_assert_eq!(page.packs(), packs);
            let last = packs[packs.len() - 1].first_frame;
            prop_assert!(last == 0 || PackPage::read(plain, packs.len(), last - 1).is_err());
        }
    }

    #[test]
    fn bytes_that_are_no_page_are_refused_or_read_without_a_panic(
        mut bytes in prop::collection::vec(any::<u8>(), PAGE - 40),
        small in any::<bool>(),
    ) {
        if small {
            // A count and widths that could be right.
            bytes[..5].copy_from_slice(&[100, 0, 100, 28, 48]);
            bytes[16..18].copy_from_slice(&[200, 0]);
        }
        if let Ok(page) = EntryPage::read(&bytes) {
            prop_assert_eq!(page.entries().count(), page.len());
            page.find(ShortId(0), ShortId(u128::MAX)).for_each(drop);
        }
        if let Ok(page) = FramePage::read(&bytes) {
            page.frames().for_each(drop);
            page.find(u64::MAX);
        }
        if let Ok(page) = PackPage::read(&bytes, PACKS_A_PAGE, u32::MAX) {
            prop_assert_eq!(page.packs().len(), PACKS_A_PAGE);
        }
        prop_assert!(PackPage::read(&bytes, PACKS_A_PAGE + 1, u32::MAX).is_err());
    }
}

#[test]
fn a_million_entries_take_less_than_18_bytes_each_and_their_filter_a_byte_and_a_quarter() {
    let mut entries: Vec<(ShortId, u64)> = (0..1_000_000).map(|n| (id(n), n)).collect();
    entries.sort_unstable();
    let pages = pages(&entries, 20);
    let each = (pages.len() * PAGE) as f64 / entries.len() as f64;
    assert!(each < 17.5, "{each} bytes");
    assert!(Filter::len_of(1_000_000) <= 1_250_064);
}

/// Entries that are alike take no room in a page, but it counts them in 16 bits.
#[test]
fn more_equal_entries_than_a_page_can_count_take_another_page() {
    let entries = vec![(id(1), 0); 70_000];
    let lengths: Vec<usize> = pages(&entries, 0).iter().map(EntryPage::len).collect();
    assert_eq!(lengths, [65_535, 4465]);
}

#[test]
fn the_filter_knows_every_id_and_one_in_fifty_others_at_most() {
    for count in [0, 1, 50, 51, 52, 10_000, 200_000] {
        let mut ids: Vec<ShortId> = (0..count).map(id).collect();
        ids.sort_unstable();
        let (mut builder, mut bytes) = (FilterBuilder::new(count), Vec::new());
        ids.iter().for_each(|&id| builder.push(id, &mut bytes));
        builder.finish(&mut bytes);
        let filter = Filter::read(count, &bytes).unwrap();
        assert!(ids.iter().all(|&id| filter.may_have(id)));
        let others = 20_000;
        let told = (count..count + others).filter(|&n| !filter.may_have(id(n))).count() as u64;
        assert!(
            told >= others - others / 50,
            "{count} ids: {told} of {others} others are told"
        );
        assert!(Filter::read(count, &bytes[1..]).is_err());
    }
}

fn tables() -> (Trailer, Tables) {
    let tables = Tables {
        covers: vec![FileId([1; 16]), FileId([2; 16])],
        entry_fences: (0..20_000).map(|n| n * 100_000).collect(),
        frame_fences: vec![0, 7000, 14_000],
        pack_fences: vec![0, 1 << 31],
    };
    let trailer = Trailer {
        entries: 4_000_000,
        chunks: 4_000_001,
        entry_pages: 20_000,
        frames: 1000,
        packs: 300,
        pack_id_pages: 2,
        covers: 2,
        epoch: 7,
        length_max: 1 << 20,
        value_bits: 22,
        depth_max: 3,
    };
    (trailer, tables)
}

#[test]
fn tables_and_trailer_read_back_and_sections_follow_one_another() {
    let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
    let (trailer, tables) = tables();
    let encoded = tables.encode();
    assert_eq!(Tables::len_of(&trailer), encoded.len() as u64);
    assert_eq!(Tables::read(&trailer, &encoded).unwrap(), tables);
    assert!(Tables::read(&trailer, &encoded[1..]).is_err());
    let mut unordered = tables.clone();
    unordered.entry_fences.swap(7, 8);
    assert!(Tables::read(&trailer, &unordered.encode()).is_err());

    assert_eq!(trailer.entry_page(0), trailer.frame_page(trailer.frame_pages()));
    assert_eq!(trailer.pack_page(0), trailer.entry_page(trailer.entry_pages));
    assert_eq!(trailer.pack_id_page(0), trailer.pack_page(3));
    assert_eq!(trailer.filter().offset, trailer.pack_id_page(2));
    assert_eq!(trailer.tables().offset, trailer.filter().end());
    assert_eq!(trailer.filter().blocks().last().unwrap().end, trailer.filter().end());
    assert_eq!(trailer.size(), trailer.tables().end() + Trailer::LEN as u64);

    let (id, mut sealed) = (FileId::random(), Vec::new());
    trailer.seal(&keys, id, &mut sealed);
    let open = |id, size, bytes: &[u8]| Trailer::open(&keys, id, size, &mut bytes.to_vec());
    assert_eq!(open(id, trailer.size(), &sealed).unwrap(), trailer);
    assert!(open(FileId::random(), trailer.size(), &sealed).is_err(), "another file");
    assert!(open(id, trailer.size() + 1, &sealed).is_err(), "another size");
    assert!(open(id, 0, &sealed).is_err());
}

/// Bytes that the format says are zeros.
#[test]
fn reserved_bytes_of_a_trailer_and_of_a_pack_must_be_zeros() {
    let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
    let (trailer, _) = tables();
    let (id, position) = (FileId::random(), trailer.size() - Trailer::LEN as u64);
    let mut sealed = Vec::new();
    trailer.seal(&keys, id, &mut sealed);
    let plain = open(&keys, id, position, &mut sealed).unwrap();
    for at in [38, 39, 52, 63] {
        let mut plain = plain.to_vec();
        plain[at] = 1;
        let mut sealed = Vec::new();
        keys.seal(SealKind::Run, id, position, &plain, &mut sealed);
        let error = Trailer::open(&keys, id, trailer.size(), &mut sealed).unwrap_err();
        assert!(matches!(error, Error::NotZero { .. }), "byte {at}: {error}");
    }
    let pack = RunPack {
        id,
        kind: PackKind::Data,
        size: 100,
        first_frame: 0,
    };
    let (mut builder, mut plain) = (PackPageBuilder::new(), Vec::new());
    builder.push(&pack, &mut plain).unwrap();
    builder.finish(&mut plain);
    assert_eq!(PackPage::read(&plain, 1, 1).unwrap().packs(), [pack]);
    plain[31] = 1;
    assert!(PackPage::read(&plain, 1, 1).is_err());
}

fn sketch_pack(offset: u64, sealed: u32) -> SketchPack {
    SketchPack {
        id: FileId([3; 16]),
        time: -7,
        offset,
        sealed,
    }
}

#[test]
fn sketches_of_packs_follow_one_another() {
    let read = |packs: &[SketchPack]| {
        let (mut builder, mut plain) = (SketchPackPageBuilder::new(), Vec::new());
        packs.iter().for_each(|pack| assert!(!builder.push(pack, &mut plain)));
        assert!(builder.finish(&mut plain));
        let trailer = SketchTrailer {
            sketches_end: 200,
            packs: packs.len() as u32,
            ..SketchTrailer::default()
        };
        let read = sketch_packs(&trailer, 0, &plain)?;
        assert_eq!(read, packs);
        assert_eq!(
            sketch_packs(&trailer, 1, &vec![0; plain.len()]).unwrap(),
            [],
            "there is no second page"
        );
        plain[40 * packs.len()] = 1;
        assert!(sketch_packs(&trailer, 0, &plain).is_err(), "zeros follow");
        Ok::<(), Error>(())
    };
    read(&[sketch_pack(8, 60), sketch_pack(68, 132)]).unwrap();
    for (what, packs) in [
        ("in the magic", [sketch_pack(7, 60), sketch_pack(68, 132)]),
        ("over one another", [sketch_pack(8, 61), sketch_pack(68, 132)]),
        ("in another order", [sketch_pack(68, 132), sketch_pack(8, 60)]),
        ("beyond the end", [sketch_pack(8, 60), sketch_pack(68, 133)]),
        ("shorter than a seal", [sketch_pack(8, 39), sketch_pack(68, 132)]),
    ] {
        assert!(read(&packs).is_err(), "{what}");
    }
}

#[test]
fn a_page_of_a_run_of_sketches_is_full_before_the_next_begins() {
    let (mut builder, mut plain) = (SketchPackPageBuilder::new(), Vec::new());
    let packs: Vec<_> = (0..250).map(|n| sketch_pack(8 + 60 * n, 60)).collect();
    let full = packs.iter().filter(|pack| builder.push(pack, &mut plain)).count();
    assert!(full == 2 && builder.finish(&mut plain) && !builder.finish(&mut plain));
    let trailer = SketchTrailer {
        sketches_end: 1 << 20,
        packs: 250,
        ..SketchTrailer::default()
    };
    assert_eq!(trailer.pack_pages(), 3);
    let pages = (0..).zip(plain.chunks(PAGE - 40));
    let read = pages.flat_map(|(number, page)| sketch_packs(&trailer, number, page).unwrap());
    assert_eq!(read.collect::<Vec<_>>(), packs);
}

#[test]
fn pages_of_a_run_of_sketches_are_in_order_and_entries_need_a_pack() {
    let read = |packs, pack_pages: &[u64], entry_fences: &[u32], pack_fences: &[u32]| {
        let tables = SketchTables {
            covers: vec![FileId([1; 16])],
            pack_pages: pack_pages.to_vec(),
            entry_fences: entry_fences.to_vec(),
            pack_fences: pack_fences.to_vec(),
        };
        let trailer = SketchTrailer {
            sketches_end: 8500,
            chunks: 5,
            entries: 0,
            entry_pages: entry_fences.len() as u32,
            packs,
            covers: 1,
            pack_id_pages: pack_fences.len() as u32,
        };
        let read = SketchTables::read(&trailer, &tables.encode())?;
        assert_eq!(read, tables);
        Ok::<(), Error>(())
    };
    read(0, &[], &[], &[]).unwrap();
    read(113, &[100, 4404], &[0, 7], &[3, 3]).unwrap();
    for (what, pages) in [
        ("in the magic", [7, 4404]),
        ("over one another", [309, 4404]),
        ("in another order", [4404, 100]),
        ("beyond the end", [100, 4405]),
        ("far beyond the end", [100, u64::MAX]),
    ] {
        assert!(read(113, &pages, &[0, 7], &[3, 3]).is_err(), "{what}");
    }
    assert!(read(113, &[100, 4404], &[7, 0], &[3, 3]).is_err());
    assert!(read(113, &[100, 4404], &[0, 7], &[3, 2]).is_err());
    assert!(read(0, &[], &[0], &[]).is_err(), "no pack has the chunks of a page");
}

#[test]
fn a_page_with_any_byte_changed_does_not_open_and_neither_does_one_in_another_place() {
    for is_encrypted in [true, false] {
        let (repository, master) = (FileId::random(), MasterKey::random());
        let keys = match is_encrypted {
            true => Keys::encrypted(repository, &master),
            false => Keys::unencrypted(repository, &master),
        };
        let (file, mut sealed) = (FileId::random(), Vec::new());
        seal(&keys, file, 4096, &[7; PAGE - 40], &mut sealed);
        assert_eq!(sealed.len(), PAGE);
        for at in 0..PAGE {
            let mut bytes = sealed.clone();
            bytes[at] ^= 1;
            assert!(open(&keys, file, 4096, &mut bytes).is_err(), "byte {at}");
        }
        assert!(open(&keys, file, 8192, &mut sealed.clone()).is_err());
        assert!(open(&keys, FileId::random(), 4096, &mut sealed.clone()).is_err());
        assert_eq!(open(&keys, file, 4096, &mut sealed).unwrap(), [7; PAGE - 40]);
    }
}
