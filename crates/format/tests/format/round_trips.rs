//! Values are read back as they were written, and derived values are as defined.

use std::collections::BTreeMap;
use std::ops::Range;

use ibid_delta::Method;
use ibid_format::checkpoint::Checkpoint;
use ibid_format::content::{Content, Item};
use ibid_format::frame::{self, Blob, Compression, DEPTH_MAX, FrameDecoder, PIECES_MAX, PREFIX_BYTES_MAX, Piece};
use ibid_format::index::{self, Header, Index, Lookup};
use ibid_format::pack::{self, FrameSummary, PackKind, PackSummary, TRAILER};
use ibid_format::prune_log::Entry;
use ibid_format::session::Session;
use ibid_format::slot::{self, Argon2Cost, Note, Slot};
use ibid_format::snapshot::Snapshot;
use ibid_format::tree::TreeEntry;
use ibid_format::wire::{self, Reader};
use ibid_format::{ChunkId, ChunkPrefix, Error, FileId, SEAL_OVERHEAD, padme};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use crate::common::*;

/// Reads ranges of a prefix.
fn read(prefix: &[u8]) -> impl FnOnce(&[Range<u32>], &mut Vec<u8>) -> Result<(), Error> {
    |stretches, out| {
        for stretch in stretches {
            out.extend_from_slice(&prefix[stretch.start as usize..stretch.end as usize]);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn varints(
        value in prop_oneof![
            any::<u64>(),
            (0..64u32).prop_map(|bits| 1 << bits),
            (0..64u32).prop_map(|bits| (1 << bits) - 1),
        ]
    ) {
        let mut out = Vec::new();
        wire::put_varint(&mut out, value);
        prop_assert_eq!(out.len(), wire::varint_len(value));
        let mut reader = Reader::new(&out);
        prop_assert_eq!(reader.varint("v"), Ok(value));
        prop_assert!(reader.finish("v").is_ok());
        for length in 0..out.len() {
            let truncated = matches!(Reader::new(&out[..length]).varint("v"), Err(Error::Truncated { .. }));
            prop_assert!(truncated);
        }
        // The same value in a longer form.
        *out.last_mut().unwrap() |= 0x80;
        out.push(0);
        prop_assert_eq!(Reader::new(&out).varint("v"), Err(Error::NotMinimal { field: "v" }));
    }

    #[test]
    fn signed_integers(value in any::<i64>()) {
        let mut out = Vec::new();
        wire::put_zigzag(&mut out, value);
        prop_assert_eq!(Reader::new(&out).zigzag("v"), Ok(value));
    }

    #[test]
    fn file_ids(bytes in any::<[u8; 16]>()) {
        let id = FileId(bytes);
        prop_assert_eq!(FileId::parse(&id.to_string()), Some(id));
        let has_letters = id.to_string().contains(|c: char| c.is_alphabetic());
        prop_assert_eq!(FileId::parse(&id.to_string().to_uppercase()).is_some(), !has_letters);
    }

    #[test]
    fn frames(
        chunks in chunks(),
        level in prop_oneof![Just(None), (-3..=5i32).prop_map(Some)],
        upto in any::<prop::sample::Index>(),
    ) {
        let [keys, _] = both_keys();
        let compression = level.map_or(Compression::Stored, Compression::Zstd);
        let (plaintext, blobs) = frame(&keys, &chunks, compression);
        let mut decoder = FrameDecoder::new();
        let whole = decoder.decode(&plaintext, &[], None)?;
        prop_assert_eq!(whole.len(), blobs.len());
        prop_assert!(whole.chunks().eq(chunks.iter().map(Vec::as_slice)));

        let upto = upto.index(chunks.len()) as u16;
        let part = decoder.decode(&plaintext, &[], Some(upto))?;
        for slot in 0..chunks.len() as u16 {
            let chunk = part.chunk(slot);
            if slot <= upto {
                prop_assert_eq!(chunk, Ok(chunks[usize::from(slot)].as_slice()));
            } else {
                prop_assert_eq!(chunk, Err(Error::NotDecoded { decoded: u32::from(upto) + 1, found: slot }));
            }
        }
        let slots = chunks.len() as u32;
        prop_assert_eq!(part.chunk(slots as u16), Err(Error::NoSuchSlot { slots, found: slots as u16 }));
    }

    #[test]
    fn delta_frames(chunks in chunks(), method in method(), upto in any::<prop::sample::Index>()) {
        let [keys, _] = both_keys();
        let (plaintext, pieces, prefix) = delta_frame(&keys, &chunks, method);
        prop_assert_eq!(frame::pieces(&plaintext)?, pieces);
        let mut decoder = FrameDecoder::new();
        let whole = decoder.decode(&plaintext, &prefix, None)?;
        prop_assert!(whole.chunks().eq(chunks.iter().map(Vec::as_slice)));
        let upto = upto.index(chunks.len()) as u16;
        let part = decoder.decode(&plaintext, &prefix, Some(upto))?;
        prop_assert!(part.chunks().eq(chunks[..=usize::from(upto)].iter().map(Vec::as_slice)));
        prop_assert!(part.chunk(upto + 1).is_err());
        let expected = prefix.len() as u64;
        prop_assert_eq!(
            decoder.decode(&plaintext, &prefix[1..], None).err(),
            Some(Error::Mismatch { field: "prefix of a frame", expected, found: expected - 1 })
        );
    }

    #[test]
    fn frames_into_memory_of_the_caller(several in vec((chunks(), any::<bool>()), 1..4), method in method()) {
        let [keys, _] = both_keys();
        let (mut decoder, mut body, mut ends) = (FrameDecoder::new(), Vec::new(), Vec::new());
        for (chunks, delta) in several {
            let (plaintext, _, prefix) = if delta {
                delta_frame(&keys, &chunks, method)
            } else {
                (frame(&keys, &chunks, Compression::Zstd(1)).0, vec![], vec![])
            };
            let outline = decoder.decode_own(&plaintext, read(&prefix), &mut body, &mut ends)?;
            prop_assert_eq!(outline.is_some(), delta);
            let mut all = body.clone();
            if let Some(outline) = outline {
                outline.assemble(&prefix, &mut all);
            }
            prop_assert_eq!(&all, &chunks.concat());
            let lengths = ends.iter().scan(0, |start, &end| Some(end - std::mem::replace(start, end)));
            prop_assert!(lengths.eq(chunks.iter().map(|chunk| chunk.len() as u32)));
            let cut = &plaintext[..plaintext.len() - 1];
            prop_assert!(decoder.decode_own(cut, read(&prefix), &mut body, &mut ends).is_err());
            prop_assert_eq!((body.len(), ends.len()), (0, 0));
            if delta && matches!(method, Method::ZstdPrefix { .. }) {
                let error = Error::NoSuchSlot { slots: 0, found: 7 };
                let refuses = |_: &[Range<u32>], _: &mut Vec<u8>| Err(error.clone());
                let refused = decoder.decode_own(&plaintext, refuses, &mut body, &mut ends);
                prop_assert_eq!(refused, Err(error), "the reader's error is the frame's");
            }
        }
    }

    #[test]
    fn packs(frames in vec((chunks(), bases()), 0..4), metadata in any::<bool>()) {
        for keys in both_keys() {
            let kind = if metadata { PackKind::Metadata } else { PackKind::Data };
            let mut builder = pack::PackBuilder::new(&keys, FILE, kind);
            for (chunks, (depth, bases)) in &frames {
                let (plaintext, blobs) = frame(&keys, chunks, Compression::Zstd(1));
                builder.add(&plaintext, &blobs, *depth, bases);
            }
            let padded = builder.padded_len();
            let (mut bytes, summary) = builder.finish();
            prop_assert_eq!(bytes.len() as u64, padded);
            prop_assert_eq!(summary.check(), Ok(()));
            let trailer_at = bytes.len() - TRAILER as usize;
            let offset = pack::open_trailer(&keys, FILE, padded, &mut bytes[trailer_at..])?;
            let read = pack::open_directory(&keys, FILE, padded, offset, &mut bytes[offset as usize..trailer_at])?;
            prop_assert_eq!(&read, &summary);
            for (place, (chunks, (depth, bases))) in read.frames.iter().zip(&frames) {
                prop_assert_eq!((place.depth, &place.bases), (*depth, bases));
                let sealed = &mut bytes[place.offset as usize..][..place.sealed as usize];
                let plaintext = pack::open_frame(&keys, FILE, place.offset, sealed)?;
                let mut decoder = FrameDecoder::new();
                prop_assert!(decoder.decode(plaintext, &[], None)?.chunks().eq(chunks.iter().map(Vec::as_slice)));
            }
        }
    }

    #[test]
    fn contents(content in content()) {
        let mut out = Vec::new();
        content.encode(&mut out);
        let mut reader = Reader::new(&out);
        prop_assert_eq!(Content::decode(&mut reader)?, content);
        prop_assert!(reader.finish("content").is_ok());
    }

    #[test]
    fn items_of_a_stream_in_pieces(items in vec(item(), 0..20)) {
        let mut out = Vec::new();
        items.iter().for_each(|item| item.encode(&mut out));
        let (mut read, mut at) = (Vec::new(), 0);
        // Byte by byte: an item decodes once all of its bytes are there, and not before.
        for end in 0..=out.len() {
            while let Some((item, length)) = Item::decode_prefix(&out[at..end])? {
                at += length;
                read.push(item);
            }
        }
        prop_assert_eq!((read, at), (items, out.len()));
    }

    #[test]
    fn entries_of_a_stream_in_pieces(entries in vec(entry(), 0..4)) {
        let mut out = Vec::new();
        for entry in &entries {
            entry.encode(&mut out)?;
        }
        let (mut read, mut at) = (Vec::new(), 0);
        for end in 0..=out.len() {
            while let Some((entry, length)) = TreeEntry::decode_prefix(&out[at..end])? {
                at += length;
                read.push(entry);
            }
        }
        prop_assert_eq!((read, at), (entries, out.len()));
    }

    #[test]
    fn log_entries(entry in log_entry(), number in any::<u64>()) {
        for keys in both_keys() {
            let mut bytes = entry.encode(&keys, number)?;
            prop_assert_eq!(&Entry::open(&keys, number, &mut bytes)?, &entry);
        }
    }

    #[test]
    fn sessions(session in session()) {
        for keys in both_keys() {
            let mut bytes = session.encode(&keys, FILE)?;
            prop_assert_eq!(&Session::open(&keys, FILE, &mut bytes)?, &session);
        }
    }

    #[test]
    fn checkpoints(checkpoint in checkpoint()) {
        for keys in both_keys() {
            let mut bytes = checkpoint.encode(&keys, FILE)?;
            prop_assert_eq!(&Checkpoint::open(&keys, FILE, &mut bytes)?, &checkpoint);
        }
    }

    #[test]
    fn snapshots(snapshot in snapshot()) {
        for keys in both_keys() {
            let mut bytes = snapshot.encode(&keys, FILE)?;
            prop_assert_eq!(padme::padded(bytes.len() as u64), bytes.len() as u64);
            prop_assert_eq!(&Snapshot::open(&keys, FILE, &mut bytes)?, &Some(snapshot.clone()));
        }
    }

    #[test]
    fn notes(created in any::<i64>(), label in ".{0,40}", host in ".{0,40}", user in ".{0,40}") {
        let [keys, _] = both_keys();
        let note = Note { created, label, host, user };
        let cost = Argon2Cost { memory_kib: 8, passes: 1, lanes: 1 };
        let bytes = slot::create(FILE, &keys, b"pw", cost, &note)?;
        prop_assert_eq!(Slot::parse(FILE, &bytes)?.note(&keys)?, note);
    }

    #[test]
    fn indexes(packs in vec(summary(), 0..5)) {
        for keys in both_keys() {
            let bytes = index::encode(&keys, FILE, 0, &packs)?;
            prop_assert_eq!(padme::padded(bytes.len() as u64), bytes.len() as u64);
            let index = Index::open(&keys, FILE, bytes)?;
            prop_assert_eq!(index.packs().len(), packs.len());
            for ((pack, frames), summary) in index.packs_with_frames().zip(&packs) {
                prop_assert_eq!((pack.id, pack.kind, pack.size), (summary.id, summary.kind, summary.size));
                prop_assert_eq!(frames.len(), summary.frames.len());
                for (number, frame) in frames.zip(&summary.frames) {
                    prop_assert_eq!(index.frame(number), Some(index::IndexedFrame::from(frame)));
                    prop_assert_eq!(index.pack_of(number).map(|pack| pack.id), Some(summary.id));
                    for (slot, blob) in (0..).zip(&frame.blobs) {
                        prop_assert!(index.find_all(&blob.id).any(|e| (e.frame, e.slot) == (number, slot)));
                    }
                }
            }
            prop_assert_eq!(index.pack_of(index.frames().len() as u32), None);
        }
    }

    #[test]
    fn finding_in_an_index_is_finding_in_a_map(
        // The last byte of the prefix varies little, so that ids crowd and repeat: the guess is as bad as can be.
        ids in vec((btree_set(any::<[u8; 2]>(), 1..50), 0..4u8), 1..25),
        absent in vec(any::<[u8; 2]>(), 8),
    ) {
        let [keys, _] = both_keys();
        let id = |[a, b]: [u8; 2], crowd: u8| {
            let mut bytes = [if crowd > 0 { 0x80 } else { a }; 32];
            (bytes[8], bytes[31]) = (a, b);
            ChunkId(bytes)
        };
        let frames = ids.iter().enumerate().map(|(number, (ids, crowd))| FrameSummary {
            offset: 8 + 50 * number as u32,
            sealed: 50,
            depth: 0,
            bases: vec![],
            blobs: ids.iter().map(|&i| Blob { id: id(i, *crowd), length: 1 }).collect(),
        }).collect::<Vec<_>>();
        let mut expected = BTreeMap::<ChunkId, Vec<(u32, u16)>>::new();
        for (number, frame) in (0..).zip(&frames) {
            for (slot, blob) in (0..).zip(&frame.blobs) {
                expected.entry(blob.id).or_default().push((number, slot));
            }
        }
        let summary = PackSummary { id: FILE, kind: PackKind::Data, size: 1 << 20, frames };
        let bytes = index::encode(&keys, FILE, 0, &[summary])?;
        let index = Index::open(&keys, FILE, bytes.clone())?;
        let absent = absent.into_iter().flat_map(|i| [id(i, 0), id(i, 1)]);
        for id in expected.keys().copied().chain(absent) {
            let places = expected.get(&id).cloned().unwrap_or_default();
            let found: Vec<_> = index.find_all(&id).map(|entry| (entry.frame, entry.slot)).collect();
            prop_assert_eq!(&found, &places);
            prop_assert_eq!(find_on_disk(&keys, &bytes, &id)?, places.first().copied());
        }
    }

    #[test]
    fn padme_is_as_defined(len in prop_oneof![2..1u64 << 40, 2..5000u64]) {
        // From the document, word for word.
        let e = (len as f64).log2().floor() as u32;
        let s = f64::from(e).log2().floor() as u32 + 1;
        let multiple = if e <= s { 1 } else { 1u64 << (e - s) };
        let padded = padme::padded(len);
        prop_assert_eq!(padded, len.div_ceil(multiple) * multiple);
        prop_assert_eq!(padme::padded(padded), padded);
        prop_assert!((padded - len) as f64 <= 0.12 * len as f64);
        prop_assert!(len < 16 << 20 || (padded - len) as f64 <= 0.032 * len as f64);
    }

    #[test]
    fn packs_end_near_their_target_with_little_padding(
        sizes in vec(1..40_000usize, 50..400),
        target in 1..4u32,
    ) {
        let [_, keys] = both_keys();
        let target = target << 20;
        let mut builder = pack::PackBuilder::new(&keys, FILE, PackKind::Data);
        let mut sizes = sizes.into_iter().cycle();
        let plaintext = vec![0; 40_000];
        while !builder.is_full(target) {
            let blob = Blob { id: ChunkId([0; 32]), length: 1 };
            builder.add(&plaintext[..sizes.next().unwrap()], &[blob], 0, &[]);
        }
        let (bytes, summary) = builder.finish();
        // Unencrypted, so padding can be seen: the zeros behind the last length, which is 1.
        let directory_end = bytes.len() - TRAILER as usize - SEAL_OVERHEAD;
        let zeros = bytes[..directory_end].iter().rev().take_while(|&&byte| byte == 0).count() as u64;
        let plain = summary.size - zeros;
        let late = u64::from(target) + 2 * padme::granule(u64::from(target));
        prop_assert!(plain >= u64::from(target));
        prop_assert!(zeros * 200 < summary.size || plain >= late, "{zeros} of {} bytes are padding", summary.size);
        let last = summary.frames.last().map_or(0, |frame| u64::from(frame.sealed) + 40);
        prop_assert!(plain - last < late, "it was full before the last frame");
    }
}

/// Finds an id the way a reader does that leaves the file where it is: a header, then a block or
/// two.
fn find_on_disk(keys: &ibid_format::Keys, file: &[u8], id: &ChunkId) -> Result<Option<(u32, u16)>, Error> {
    let header = index::header(keys, FILE, &mut file[..Header::LEN].to_vec())?;
    let mut block = header.block_of(id);
    let mut seen = Vec::new();
    let mut found = None;
    while let Some(current) = block.filter(|block| !seen.contains(&block.number)) {
        seen.push(current.number);
        let mut sealed = file[current.offset as usize..][..current.sealed as usize].to_vec();
        let entries = index::open_block(keys, FILE, &current, &mut sealed)?;
        block = match entries.find(id) {
            Lookup::Absent => return Ok(None),
            Lookup::Found(entry) => {
                found = Some((entry.frame, entry.slot));
                // The first of several may be at the end of the block before.
                let first = entries.entries().next() == Some(entry);
                if first {
                    current.number.checked_sub(1).and_then(|n| header.block(n))
                } else {
                    None
                }
            }
            Lookup::Before => current.number.checked_sub(1).and_then(|n| header.block(n)),
            Lookup::After => header.block(current.number + 1),
        };
    }
    Ok(found)
}

#[test]
fn compression_that_saves_too_little_is_not_kept() {
    let [keys, _] = both_keys();
    let (noise, _) = frame(&keys, &[blake3_noise(100_000)], Compression::Zstd(3));
    assert_eq!(noise[0], 0, "stored");
    let (zeros, _) = frame(&keys, &[vec![0; 100_000]], Compression::Zstd(3));
    assert_eq!(zeros[0], 1, "compressed");
    assert!(zeros.len() < 100);
}

#[test]
fn an_encoder_gives_the_same_bytes_whatever_it_did_before() {
    let [keys, _] = both_keys();
    let body: Vec<u8> = blake3_noise(50_000)
        .into_iter()
        .flat_map(|byte| [byte & 3, byte])
        .collect();
    let blobs = [Blob {
        id: keys.chunk_id(&body),
        length: body.len() as u32,
    }];
    let mut encoder = ibid_format::frame::FrameEncoder::new();
    let mut encode = |level| {
        let mut out = Vec::new();
        encoder
            .encode(&blobs, &body, Compression::Zstd(level), &mut out)
            .expect("a valid frame");
        out
    };
    let first = encode(3);
    assert_ne!(encode(9), first);
    assert_eq!(encode(3), first);
}

#[test]
fn frames_beyond_the_limits_are_not_written() {
    let mut encoder = frame::FrameEncoder::new();
    let mut out = b"before".to_vec();
    let blob = |length| Blob {
        id: ChunkId([0; 32]),
        length,
    };
    let mut refuse = |blobs: &[Blob], body: &[u8]| {
        assert!(encoder.encode(blobs, body, Compression::Stored, &mut out).is_err());
        assert_eq!(out, b"before");
    };
    refuse(&[], b"");
    refuse(&[blob(0)], b"");
    refuse(&[blob(2)], b"x");
    refuse(&[blob((16 << 20) + 1)], &vec![0; (16 << 20) + 1]);
    refuse(&vec![blob(1); 65_536], &[0; 65_536]);
}

#[test]
fn delta_frames_beyond_the_limits_are_not_written() {
    let mut encoder = frame::FrameEncoder::new();
    let mut out = b"before".to_vec();
    let blobs = [Blob {
        id: ChunkId([0; 32]),
        length: 4,
    }];
    let piece = |start, length| Piece {
        base: ChunkPrefix([0; 12]),
        start,
        length,
    };
    let mut encode = |pieces: &[Piece], prefix: &[u8], body: &[u8]| {
        let method = Method::ZstdPrefix { level: 1 };
        let result = encoder.encode_delta(&blobs, body, pieces, prefix, method, &mut out);
        let added = out.split_off(6);
        assert_eq!((added.is_empty(), &out[..]), (result.is_err(), &b"before"[..]));
        result.is_ok()
    };
    let long = vec![0; PREFIX_BYTES_MAX as usize + 1];
    assert!(!encode(&[], b"", b"body"), "no pieces");
    assert!(!encode(&[piece(0, 0)], b"", b"body"), "an empty piece");
    assert!(
        !encode(&[piece(0, 5)], b"base", b"body"),
        "a shorter prefix than the pieces"
    );
    assert!(
        !encode(&[piece(0, 4)], b"base", b"bod"),
        "a shorter body than the blobs"
    );
    assert!(
        !encode(&[piece(PREFIX_BYTES_MAX - 3, 4)], b"base", b"body"),
        "beyond any chunk"
    );
    assert!(!encode(&[piece(u32::MAX, 4)], b"base", b"body"), "beyond any chunk");
    assert!(
        !encode(&[piece(0, PREFIX_BYTES_MAX), piece(0, 1)], &long, b"body"),
        "too long a prefix"
    );
    let many = vec![piece(0, 1); PIECES_MAX + 1];
    assert!(!encode(&many, &long[..many.len()], b"body"), "too many pieces");
    assert!(encode(&many[1..], &long[1..many.len()], b"body"));
    assert!(encode(&[piece(PREFIX_BYTES_MAX - 4, 4)], b"base", b"body"));
    assert!(encode(&[piece(0, PREFIX_BYTES_MAX)], &long[1..], b"body"));
}

#[test]
fn a_summary_of_frames_with_impossible_bases_is_not_one_of_a_pack() {
    let [_, keys] = both_keys();
    let (_, good) = small_pack(&keys);
    let with = |depth: u8, bases: &[u8]| {
        let mut summary = good.clone();
        summary.frames[1].depth = depth;
        summary.frames[1].bases = bases.iter().map(|&byte| ChunkPrefix([byte; 12])).collect();
        let refused = summary.check().is_err();
        assert_eq!(index::encode(&keys, FILE, 0, &[summary]).is_err(), refused);
        refused
    };
    assert!(!with(0, &[]) && !with(1, &[1]) && !with(DEPTH_MAX, &[2, 1]));
    assert!(with(0, &[1]), "bases without depth");
    assert!(with(1, &[]), "depth without bases");
    assert!(with(DEPTH_MAX + 1, &[1]), "too deep");
    assert!(with(1, &[1, 2, 1]), "a base twice");
}

#[test]
fn an_index_of_many_blocks_finds_every_chunk() {
    let [keys, _] = both_keys();
    let id = |number: u32| keys.chunk_id(&number.to_le_bytes());
    let blobs = |frame: u32| {
        (0..1000).map(move |n| Blob {
            id: id(frame * 1000 + n),
            length: 1,
        })
    };
    let frames = (0..20).map(|f| FrameSummary {
        offset: 8 + f * 100,
        sealed: 100,
        depth: 0,
        bases: vec![],
        blobs: blobs(f).collect(),
    });
    let pack = PackSummary {
        id: FILE,
        kind: PackKind::Data,
        size: 1 << 20,
        frames: frames.collect(),
    };
    let file = index::encode(&keys, FILE, 0, &[pack]).expect("fits");
    let index = Index::open(&keys, FILE, file.clone()).expect("valid");
    let mut blocks_read = 0;
    for number in (0..20_000).step_by(7) {
        let expected = (number / 1000, (number % 1000) as u16);
        assert_eq!(
            index.find(&id(number)).map(|entry| (entry.frame, entry.slot)),
            Some(expected)
        );
        if number % 70 == 0 {
            assert_eq!(find_on_disk(&keys, &file, &id(number)), Ok(Some(expected)));
            blocks_read += 1;
        }
    }
    assert!(blocks_read > 0);
    assert_eq!(index.find(&keys.chunk_id(b"absent")), None);
    assert_eq!(find_on_disk(&keys, &file, &keys.chunk_id(b"absent")), Ok(None));
}

#[test]
fn an_index_beyond_the_limit_is_not_written() {
    let blobs = vec![
        Blob {
            id: ChunkId([0; 32]),
            length: 1
        };
        60_000
    ];
    let frames = |count| {
        (0..count).map(|f| FrameSummary {
            offset: 8 + f * 50,
            sealed: 50,
            depth: 0,
            bases: vec![],
            blobs: blobs.clone(),
        })
    };
    let [_, keys] = both_keys();
    let pack = PackSummary {
        id: FILE,
        kind: PackKind::Data,
        size: 1 << 20,
        frames: frames(30).collect(),
    };
    assert!(!index::would_fit(1, 30, 1_800_000));
    let expected_size = |error| {
        matches!(
            error,
            Err(Error::OutOfRange {
                field: "index file",
                ..
            })
        )
    };
    assert!(expected_size(index::encode(&keys, FILE, 0, &[pack])));
    assert!(index::would_fit(
        index::ENTRIES_MAX / 100,
        index::ENTRIES_MAX / 5,
        index::ENTRIES_MAX
    ));
}

#[test]
fn a_chunk_has_the_same_id_in_every_keys_of_a_repository() {
    let [encrypted, unencrypted] = both_keys();
    assert_eq!(encrypted.chunk_id(b"data"), unencrypted.chunk_id(b"data"));
    assert_ne!(
        encrypted.chunk_id(b"data").0,
        *blake3::hash(b"data").as_bytes(),
        "keyed"
    );
}

#[test]
fn an_empty_pack_is_a_pack() {
    let [keys, _] = both_keys();
    let (bytes, summary) = pack::PackBuilder::new(&keys, FILE, PackKind::Data).finish();
    assert_eq!(
        bytes.len() as u64,
        padme::padded(8 + 2 + SEAL_OVERHEAD as u64 + TRAILER)
    );
    assert_eq!(summary.check(), Ok(()));
}

/// Bytes without any pattern.
fn blake3_noise(length: usize) -> Vec<u8> {
    let mut noise = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut noise);
    noise
}
