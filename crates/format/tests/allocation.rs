//! A decoder takes memory in proportion to its input: counts and lengths that the input only claims
//! take none.

#![allow(unsafe_code, reason = "an allocator that counts can be written in no other way")]

#[path = "format/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::*;
use ibid_format::checkpoint::Checkpoint;
use ibid_format::content::{Content, Item};
use ibid_format::frame::{self, BODY_BYTES_MAX, Compression, FrameDecoder};
use ibid_format::index::{self, Index};
use ibid_format::prune_log::Entry;
use ibid_format::session::Session;
use ibid_format::sketches::Sketches;
use ibid_format::slot::Slot;
use ibid_format::snapshot::Snapshot;
use ibid_format::tree::TreeEntry;
use ibid_format::wire::{Reader, put_varint};
use ibid_format::{SealKind, config, pack};
use proptest::collection::vec;
use proptest::prelude::*;

/// Counts the bytes that each thread holds and its peak, so that parallel tests do not count each
/// other's.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that is ending has no counters any more.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: all calls go on to the system's allocator unchanged; counting touches only two cells of
// the thread and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the promises of `alloc`, which are the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the promises of `dealloc`, and the pointer is from `System`, where all
        // of ours are from.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the most bytes that `act` held at once, beyond those held before.
fn peak_of(act: impl FnOnce()) -> usize {
    let before = HELD.get();
    PEAK.set(before);
    act();
    (PEAK.get() - before) as usize
}

/// A value in memory may be so many times as large as its bytes: an empty string is one byte there
/// and 24 here, a vector that grows is held twice for a moment.
const FACTOR: usize = 80;
/// For errors, small buffers, and copies that sealing in place needs.
const SLACK: usize = 2000;

#[track_caller]
fn assert_bounded(what: &str, bytes: &[u8], decode: impl FnOnce(&[u8])) {
    let peak = peak_of(|| decode(bytes));
    let limit = FACTOR * bytes.len() + SLACK;
    assert!(
        peak <= limit,
        "{what}: {peak} bytes of memory for {} bytes of input, {limit} allowed",
        bytes.len()
    );
}

fn assert_all_bounded(bytes: &[u8]) {
    let [_, keys] = both_keys();
    let sealed = |kind, start: &[u8]| {
        let mut file = start.to_vec();
        keys.seal(kind, FILE, file.len() as u64, bytes, &mut file);
        file
    };
    assert_bounded("config", bytes, |bytes| drop(config::open(bytes, &keys)));
    assert_bounded("slot", bytes, |bytes| drop(Slot::parse(FILE, bytes)));
    assert_bounded("item", bytes, |bytes| drop(Item::decode_prefix(bytes)));
    assert_bounded("content", bytes, |bytes| drop(Content::decode(&mut Reader::new(bytes))));
    assert_bounded("entry", bytes, |bytes| drop(TreeEntry::decode_prefix(bytes)));
    assert_bounded("snapshot", bytes, |bytes| drop(Snapshot::decode(bytes)));
    assert_bounded("session", bytes, |bytes| drop(Session::decode(bytes)));
    assert_bounded("checkpoint", bytes, |bytes| drop(Checkpoint::decode(bytes)));
    assert_bounded("log entry", bytes, |bytes| drop(Entry::decode(bytes)));
    assert_bounded("sketches", bytes, |bytes| drop(Sketches::decode(bytes)));
    assert_bounded("directory", bytes, |bytes| drop(pack::decode_directory(bytes)));
    let header = sealed(SealKind::Index, b"ibididx\x01");
    assert_bounded("index", &header, |bytes| drop(Index::open(&keys, FILE, bytes.to_vec())));
    assert_frame_bounded(bytes);
}

/// Frames expand, but at most to what their zstd blocks can give, and to the limit.
fn assert_frame_bounded(bytes: &[u8]) {
    let mut decoder = FrameDecoder::new();
    let mut pieces = Vec::new();
    let peak = peak_of(|| pieces = frame::pieces(bytes).unwrap_or_default());
    assert!(
        peak <= 2 * bytes.len() + SLACK,
        "pieces: {peak} bytes for {}",
        bytes.len()
    );
    let prefix = vec![0; pieces.iter().map(|piece| piece.length as usize).sum()];
    let peak = peak_of(|| drop(decoder.decode(bytes, &prefix, None).map(|frame| frame.len())));
    let most = ((bytes.len() / 4 + 1) * (128 << 10)).min(BODY_BYTES_MAX as usize);
    assert!(
        peak <= most + FACTOR * bytes.len() + SLACK,
        "frame: {peak} bytes for {} of input",
        bytes.len()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_bytes(bytes in vec(any::<u8>(), 0..400)) {
        assert_all_bounded(&bytes);
    }

    #[test]
    fn entries_with_another_byte(entry in entry(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes)?;
        let at = at.index(bytes.len());
        bytes[at] = byte;
        assert_all_bounded(&bytes);
    }
}

#[test]
fn counts_and_lengths_that_are_only_claimed() {
    // The largest number that each field can hold, at every place of otherwise plausible bytes,
    // with few bytes after it.
    for number in [255, 65_535, 1 << 20, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX] {
        for start in 0..40 {
            for filler in [0, 1, 2, 0x7f] {
                let mut bytes = vec![filler; start];
                put_varint(&mut bytes, number);
                bytes.extend([filler; 60]);
                assert_all_bounded(&bytes);
            }
        }
    }
}

#[test]
fn an_index_that_claims_millions_of_entries() {
    let [_, keys] = both_keys();
    for (packs, frames, entries) in [
        (0, 0, 1_500_000u32),
        (1_500_000, 0, 0),
        (0, 3_000_000, 0),
        (u32::MAX, u32::MAX, u32::MAX),
    ] {
        let numbers = [packs, frames, entries, 0].map(u32::to_le_bytes).concat();
        for size in [120u64, 60 << 20, u64::MAX] {
            let header = [&numbers[..], &size.to_le_bytes(), &[0; 8]].concat();
            let mut file = b"ibididx\x01".to_vec();
            keys.seal(SealKind::Index, FILE, 8, &header, &mut file);
            assert_bounded("index", &file, |bytes| {
                assert!(index::header(&keys, FILE, &mut bytes.to_vec()).is_err() || size > 120);
                assert!(Index::open(&keys, FILE, bytes.to_vec()).is_err());
            });
        }
    }
}

#[test]
fn a_frame_that_claims_megabytes() {
    // Codec, one blob, 16 MiB; then a tiny zstd frame, or a delta by each codec.
    let claim = |start: &[u8], body: &[u8]| {
        let mut bytes = start.to_vec();
        put_varint(&mut bytes, 16 << 20);
        bytes.extend(body);
        let prefix = [b'p'];
        let prefix = if bytes[0] == 2 { &prefix[..] } else { &[] };
        let peak = peak_of(|| assert!(FrameDecoder::new().decode(&bytes, prefix, None).is_err()));
        assert!(peak < SLACK, "{peak} bytes");
    };
    let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 1, 1, 0, 0];
    claim(&[0, 1], &zstd);
    claim(&[1, 1], &zstd);
    let delta = [&[2, 1][..], &[0; 12], &[0, 1], &[1]].concat();
    for codec in [1, 2] {
        claim(&delta, &[codec, 0x80, 0x80, 0x80, 0x08, 1, 0, 0]);
        claim(&delta, &[codec, 4, 1, 0, 0]);
    }
}

#[test]
fn a_reused_decoder_takes_no_more_memory() {
    let [keys, _] = both_keys();
    let (plaintext, _) = frame(&keys, &[vec![1; 70_000], vec![2; 30_000]], Compression::Zstd(3));
    let mut decoder = FrameDecoder::new();
    decoder.decode(&plaintext, &[], None).expect("valid");
    for upto in [None, Some(0), Some(1)] {
        let peak = peak_of(|| assert_eq!(decoder.decode(&plaintext, &[], upto).expect("valid").len(), 2));
        assert_eq!(peak, 0, "everything is there from the first time");
    }
}
