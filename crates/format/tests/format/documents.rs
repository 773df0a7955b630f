//! Limits that the documents of the format name are those of the code.

use ibid_format::{
    SEAL_OVERHEAD, checkpoint, config, content, frame, index, pack, prune_log, record, session, sketches, slot,
    snapshot, tree,
};

/// Whether a document says `sentence`, whatever its line breaks.
#[track_caller]
fn says(document: &str, sentence: &str) {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words(document).contains(&words(sentence)),
        "no document says {sentence:?}"
    );
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

#[test]
fn limits_of_a_repository() {
    let says = |sentence: String| says(include_str!("../../../../docs/format/README.md"), &sentence);
    says(format!("Both forms take {SEAL_OVERHEAD} bytes"));
    let (frames, packs) = (config::FRAME_SIZE, config::PACK_SIZE);
    says(format!(
        "file ≤ {} KiB; words ≤ {}; frame size {} KiB to {} MiB; pack size {} to {} MiB; \
         days of a lock {} to {}",
        config::LIMIT / KIB,
        config::CHUNKER_WORDS_MAX,
        u64::from(*frames.start()) / KIB,
        u64::from(*frames.end()) / MIB,
        u64::from(*packs.start()) / MIB,
        u64::from(*packs.end()) / MIB,
        config::LOCK_DAYS.start(),
        config::LOCK_DAYS.end()
    ));
    says(format!("8 KiB·lanes to {} GiB", slot::MEMORY_KIB_MAX >> 20));
    says(format!("passes 1–{}; lanes 1–{}", slot::PASSES_MAX, slot::LANES_MAX));
    says(format!("ibid allows {} GiB", slot::MEMORY_KIB_ALLOWED >> 20));
    says(format!("pieces varint 1–{}", frame::PIECES_MAX));
    says(format!(
        "start + length ≤ {} MiB",
        u64::from(frame::PREFIX_BYTES_MAX) / MIB
    ));
    says(format!("blobs, 1–{}", frame::BLOBS_MAX));
    says(format!("0 < length ≤ {} MiB", u64::from(frame::CHUNK_BYTES_MAX) / MIB));
    says(format!(
        "at most {} MiB; with codec 1",
        u64::from(frame::BODY_BYTES_MAX) / MIB
    ));
    says(format!("0 for a frame without bases; at most {}", frame::DEPTH_MAX));
    says(format!("frames varint ≤ {}", pack::FRAMES_MAX));
    says(format!("A file has at most {} MiB", pack::LIMIT / MIB));
    says(format!("blocks of at most {} records", index::BLOCK_RECORDS));
    let entries = f64::from(index::ENTRIES_MAX) / 1e6;
    says(format!(
        "file ≤ {} MiB (about {entries} million entries)",
        index::LIMIT / MIB
    ));
    says(format!("items, ≤ {}", content::ITEMS_MAX));
    says(format!(
        "A writer serialises a list of more than {} items",
        content::ITEMS_INLINE
    ));
    says(format!("Depth ≤ {}", content::DEPTH_MAX));
    says(format!("name bytes 1–{} bytes", tree::NAME_BYTES_MAX));
    says(format!("sticky (≤ {:#o})", tree::MODE_MAX));
    says(format!("target (bytes ≤ {} KiB)", tree::TARGET_BYTES_MAX as u64 / KIB));
    says(format!("an entry ≤ {} MiB", tree::ENTRY_BYTES_MAX as u64 / MIB));
    says(format!(
        "file ≤ {} MiB; strings ≤ {} KiB",
        snapshot::LIMIT / MIB,
        snapshot::STRING_BYTES_MAX as u64 / KIB
    ));
    says(format!("features (u8, ≤ {})", sketches::FEATURES_MAX));
    says(format!("Limits: file ≤ {} MiB.", sketches::LIMIT / MIB));
    says(format!("Limits: file ≤ {} MiB.", prune_log::LIMIT / MIB));
    says(format!(
        "Limits: file ≤ {} MiB; strings ≤ {} KiB; paths ≤ 2²⁰",
        session::LIMIT / MIB,
        session::STRING_BYTES_MAX as u64 / KIB
    ));
    says(format!(
        "Limits: file ≤ {} MiB; strings ≤ {} KiB; last ≤ {} MiB; paths ≤ 2²⁰",
        checkpoint::LIMIT / MIB,
        checkpoint::STRING_BYTES_MAX as u64 / KIB,
        checkpoint::LAST_BYTES_MAX as u64 / MIB
    ));
}

#[test]
fn limits_of_a_store_of_records() {
    let says = |sentence: String| says(include_str!("../../../../docs/format/records.md"), &sentence);
    let power = |bytes: usize| bytes.ilog2();
    says(format!("then the key, 0 to {} bytes", record::KEY_BYTES_MAX));
    says(format!("name, 1 to {} bytes", record::NAME_BYTES_MAX));
    says(format!(
        "up to the check, at most 2^{} bytes",
        power(record::BODY_BYTES_MAX)
    ));
    says(format!("frames varint 1 to {}", record::FRAMES_MAX));
    says(format!("hops u8 at most {}", record::HOPS_MAX));
    says(format!("takes at most 2^{} bytes", power(record::LOG_ENTRY_BYTES_MAX)));
}

#[test]
fn limits_of_messages() {
    let says = |sentence: String| says(include_str!("../../../../docs/replication.md"), &sentence);
    says(format!(
        "A message has at most 2^{} bytes",
        record::MESSAGE_BYTES_MAX.ilog2()
    ));
    says(format!("from 0, at most 2^{}", record::MESSAGE_PARTS_MAX.ilog2()));
}
