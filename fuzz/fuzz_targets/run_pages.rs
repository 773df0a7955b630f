//! Any bytes as a page or filter of a run: lookups find what a page lists and nothing else, a page
//! that is built of it is the same, and a filter has the bits that its specification states.

#![no_main]

use ibid_format::pack::{self, FRAMES_AT};
use ibid_format::run::{
    EntryPage, EntryPageBuilder, FRAMES_A_PAGE, Filter, FilterBuilder, FramePage, FramePageBuilder, PACK_VALUE_BITS,
    PACKS_A_PAGE, PAGE_PLAIN, PackPage, PackPageBuilder, RunFrame, RunPack, ShortId, VALUE_BITS_MAX,
};
use libfuzzer_sys::fuzz_target;

/// Most entries or frames of a page that are looked up: all of them would take long.
const LOOKED_UP: usize = 6;

/// Bytes in front of a page's frames, of a frame, and of a pack.
const FRAMES_HEAD: usize = 18;
const FRAME: usize = 10;
const PACK: usize = 32;
/// Most entries that a page can count.
const COUNT_MAX: usize = u16::MAX as usize;
/// Bytes in front of a page's entries.
const ENTRIES_HEAD: usize = 21;

fn entry_page(plain: &[u8]) {
    let Ok(page) = EntryPage::read(plain) else {
        return;
    };
    if page.len() > PAGE_PLAIN {
        // Tens of thousands, of hardly a bit each: a look at all of them takes long.
        let (first, last) = (page.entry(0).0, page.entry(page.len() - 1).0);
        page.find(first, last).next();
        return;
    }
    let entries: Vec<(ShortId, u64)> = page.entries().collect();
    assert_eq!((entries.len(), entries.is_empty()), (page.len(), page.is_empty()));
    // Only a writer of runs can seal a page, so a reader does not check that its entries ascend.
    let ascends = entries.is_sorted_by_key(|(id, _)| *id);
    for position in (0..entries.len()).step_by(entries.len().div_ceil(LOOKED_UP).max(1)) {
        let (id, value) = entries[position];
        assert_eq!(page.entry(position), (id, value));
        assert_eq!(value >> VALUE_BITS_MAX, 0);
        let ranges = [
            (id, id),
            (id, entries[entries.len() / 2].0),
            (ShortId(id.0.wrapping_add(1)), id),
        ];
        for (first, last) in ranges {
            let found = page.find(first, last);
            match ascends {
                true => assert!(found.eq(listed(&entries, first, last))),
                false => assert!(found.count() <= entries.len()),
            }
        }
    }
    // Distances beyond the largest id lead to the smallest ones.
    let base = u128::from_be_bytes(plain[5..ENTRIES_HEAD].try_into().expect("16 bytes"));
    if !ascends || entries.first().is_none_or(|(first, _)| first.0 < base) {
        return;
    }
    let (mut builder, mut again) = (EntryPageBuilder::new(plain[4].into()), Vec::new());
    for &(id, value) in &entries {
        assert_eq!(
            builder.push(id, value, &mut again),
            None,
            "what was in one page fits into one"
        );
    }
    assert_eq!(builder.finish(&mut again), Some(entries[0].0));
    let same = EntryPage::read(&again).expect("it was just built");
    assert!(same.entries().eq(entries.iter().copied()));
    // A page that begins at another id, or has wider distances than it needs, is built better.
    if again[..ENTRIES_HEAD] == plain[..ENTRIES_HEAD] {
        let bits = entries.len() * usize::from(plain[2] + plain[4]);
        let end = ENTRIES_HEAD + bits / 8;
        assert_eq!(again[..end], plain[..end]);
    }
}

/// Returns the entries from `first` to `last`.
fn listed(entries: &[(ShortId, u64)], first: ShortId, last: ShortId) -> impl Iterator<Item = (ShortId, u64)> {
    entries
        .iter()
        .copied()
        .filter(move |(id, _)| (first..=last).contains(id))
}

/// Entries of any ids and numbers, some of them many times, come back from the pages built of them.
fn built_entries(seed: &[u8]) {
    let [first, seed @ ..] = seed else {
        return;
    };
    let value_bits = u32::from(*first) % (VALUE_BITS_MAX + 1);
    let (seeds, _) = seed.as_chunks::<8>();
    let mut entries: Vec<(ShortId, u64)> = seeds
        .iter()
        .map(|seed| {
            let [shift, .., value] = *seed;
            let id = u128::from(u64::from_le_bytes(*seed) >> 8) << (shift % 128);
            (ShortId(id), u64::from(value) & ((1 << value_bits) - 1))
        })
        .collect();
    // More equal entries than a page can count take long, so few inputs have them.
    if *first == 4 * (VALUE_BITS_MAX + 1) as u8
        && let Some(last) = entries.last().copied()
    {
        entries.extend(std::iter::repeat_n(last, COUNT_MAX));
    }
    entries.sort_by_key(|(id, _)| *id);
    let (mut builder, mut plain) = (EntryPageBuilder::new(value_bits), Vec::new());
    let mut firsts = Vec::new();
    for &(id, value) in &entries {
        firsts.extend(builder.push(id, value, &mut plain));
    }
    firsts.extend(builder.finish(&mut plain));
    let (pages, rest) = plain.as_chunks::<PAGE_PLAIN>();
    assert_eq!((pages.len(), rest), (firsts.len(), &[][..]));
    let pages: Vec<EntryPage> = pages
        .iter()
        .map(|plain| EntryPage::read(plain).expect("it was just built"))
        .collect();
    assert!(pages.iter().flat_map(EntryPage::entries).eq(entries.iter().copied()));
    assert!(pages.iter().zip(&firsts).all(|(page, first)| page.entry(0).0 == *first));
}

fn frame_page(plain: &mut [u8], begins_run: bool) {
    if begins_run {
        // First ordinal, pack and offset, as the first page has them.
        plain[..FRAMES_HEAD - 2].fill(0);
        plain[12] = FRAMES_AT as u8;
    }
    let Ok(page) = FramePage::read(plain) else {
        return;
    };
    let frames: Vec<RunFrame> = page.frames().collect();
    assert!(frames.len() <= FRAMES_A_PAGE);
    assert_eq!(page.get(frames.len()), None);
    for pair in frames.windows(2) {
        let (before, next) = (pair[0], pair[1]);
        assert_eq!(next.ordinal, before.ordinal.saturating_add(before.frame.blobs.into()));
        let (pack, offset) = match next.pack == before.pack {
            true => (before.pack, before.frame.offset.saturating_add(before.frame.sealed)),
            false => (before.pack.wrapping_add(1), FRAMES_AT as u32),
        };
        assert_eq!((next.pack, next.frame.offset), (pack, offset));
    }
    // Beyond the largest number, ordinals are the largest.
    let end_of = |found: &RunFrame| found.ordinal.checked_add(found.frame.blobs.into());
    let ends: Option<Vec<u64>> = frames.iter().map(end_of).collect();
    if let Some(ends) = ends
        && let (Some(first), Some(end)) = (frames.first(), ends.last())
    {
        assert_eq!(page.find(*end), None);
        assert_eq!(first.ordinal.checked_sub(1).and_then(|before| page.find(before)), None);
        for position in (0..frames.len()).step_by(frames.len().div_ceil(LOOKED_UP)) {
            let found = frames[position];
            assert_eq!(page.get(position), Some(found));
            let blobs = u64::from(found.frame.blobs);
            for ordinal in [
                found.ordinal,
                found.ordinal + blobs / 2,
                found.ordinal + blobs.saturating_sub(1),
            ] {
                assert!(blobs == 0 || page.find(ordinal) == Some((position, found)));
            }
        }
    }
    build_frames(plain, &frames);
}

/// Builds the page of these frames, if they can be the first of a run.
fn build_frames(plain: &[u8], frames: &[RunFrame]) {
    let (mut builder, mut again) = (FramePageBuilder::new(), Vec::new());
    for (number, found) in frames.iter().enumerate() {
        if found.ordinal != builder.ordinal() {
            return;
        }
        match builder.push(found.pack, &found.frame, &mut again) {
            Ok(full) => assert_eq!(full, (number + 1 == FRAMES_A_PAGE).then_some(0)),
            Err(_) => return,
        }
    }
    builder.finish(&mut again);
    let mut expected = plain.to_vec();
    expected[FRAMES_HEAD + frames.len() * FRAME..].fill(0);
    match frames.is_empty() {
        true => expected.clear(),
        // The first frame of a run begins a pack, and readers know that without the mark.
        false => expected[FRAMES_HEAD + 3] |= 1 << 7,
    }
    assert_eq!(again, expected);
}

fn pack_page(plain: &[u8], count: u8, frames: u32) {
    let count = usize::from(count);
    let Ok(page) = PackPage::read(plain, count, frames) else {
        return;
    };
    assert!(count == page.packs().len() && count <= PACKS_A_PAGE);
    assert!(page.packs().is_sorted_by_key(|pack| pack.first_frame));
    let (mut builder, mut again) = (PackPageBuilder::new(), Vec::new());
    for (pack, number) in page.packs().iter().zip(1..) {
        assert!(pack.first_frame <= frames && pack.size <= pack::LIMIT);
        let value = pack.value(frames);
        assert_eq!(
            (value >> PACK_VALUE_BITS, RunPack::of_value(value)),
            (0, (frames, pack.size))
        );
        let is_full = builder.push(pack, &mut again).expect("it was read");
        assert_eq!(is_full, number == PACKS_A_PAGE);
    }
    builder.finish(&mut again);
    let end = count * PACK;
    assert_eq!(again[..end], plain[..end]);
    assert!(again[end..].iter().all(|byte| *byte == 0));
}

/// Returns the numbers of an id's bits in a filter of so many blocks, by the specification.
fn bits_of(id: ShortId, blocks: u64) -> [usize; 6] {
    let block = ((id.0 >> 64) * u128::from(blocks)) >> 64;
    std::array::from_fn(|n| block as usize * 512 + (id.0 >> (9 * n)) as usize % 512)
}

fn filter(seed: &[u8]) {
    let (ids, _) = seed.as_chunks::<16>();
    let mut ids: Vec<ShortId> = ids.iter().map(|id| ShortId(u128::from_be_bytes(*id))).collect();
    ids.sort_unstable();
    let count = ids.len() as u64;
    let blocks = (10 * count).div_ceil(512).max(1);
    assert_eq!(Filter::len_of(count), blocks * 64);

    let (mut builder, mut built) = (FilterBuilder::new(count), Vec::new());
    ids.iter().for_each(|id| builder.push(*id, &mut built));
    builder.finish(&mut built);
    let mut expected = vec![0; blocks as usize * 64];
    for bit in ids.iter().flat_map(|id| bits_of(*id, blocks)) {
        expected[bit / 8] |= 1 << (bit % 8);
    }
    assert_eq!(built, expected);

    // The same bytes as a filter that no builder made.
    let any: Vec<u8> = seed.iter().copied().cycle().take(built.len()).collect();
    if any.len() < built.len() {
        return;
    }
    for bytes in [built, any] {
        let filter = Filter::read(count, &bytes).expect("its length is right");
        assert_eq!(filter.memory(), bytes.len() as u64);
        for id in &ids {
            let is_set = |bit: usize| bytes[bit / 8] >> (bit % 8) & 1 == 1;
            assert_eq!(filter.may_have(*id), bits_of(*id, blocks).into_iter().all(is_set));
        }
        assert!(Filter::read(count, &bytes[1..]).is_err());
    }
}

fuzz_target!(|input: (u8, u8, u32, &[u8])| {
    let (choice, count, frames, bytes) = input;
    // Pages have one length, so zeros follow what the input has.
    let mut plain = bytes.to_vec();
    plain.resize(PAGE_PLAIN, 0);
    match choice % 6 {
        0 => entry_page(&plain),
        1 => built_entries(bytes),
        2 => frame_page(&mut plain, false),
        3 => frame_page(&mut plain, true),
        4 => pack_page(&plain, count, frames),
        _ => filter(bytes),
    }
    let other = &plain[..PAGE_PLAIN - 1];
    assert!(EntryPage::read(other).is_err() && FramePage::read(other).is_err());
    assert!(PackPage::read(other, 0, frames).is_err());
});
