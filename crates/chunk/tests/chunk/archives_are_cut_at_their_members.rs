//! Archives are cut where their large members begin and end, however their bytes arrive. Other data
//! is cut as by the chunker alone.

use ibid_chunk::{ArchiveCutter, Chunker, Settings, chunks};
use proptest::prelude::*;

const LARGE: u64 = 2000;

fn chunker() -> Chunker {
    Chunker::new(&Settings::for_average("argmin", 4096).unwrap()).unwrap()
}

/// Bytes that repeat nowhere: SplitMix64.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    };
    (0..len).map(|_| next() as u8).collect()
}

fn tar_header(name: &str, kind: u8, size: usize, time: u64) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    header[136..148].copy_from_slice(format!("{time:011o}\0").as_bytes());
    header[148..156].fill(b' ');
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// A tar file of members of these sizes, each with an extended header before it, and where their
/// bodies are.
fn tar(sizes: &[usize], time: u64) -> (Vec<u8>, Vec<std::ops::Range<usize>>) {
    let mut archive = Vec::new();
    let mut bodies = Vec::new();
    for (number, &size) in sizes.iter().enumerate() {
        let record = format!("30 mtime={time:020}\n");
        archive.extend(tar_header("PaxHeaders", b'x', record.len(), time));
        archive.extend(record.as_bytes());
        archive.resize(archive.len().next_multiple_of(512), 0);
        archive.extend(tar_header(&format!("member {number}"), b'0', size, time));
        bodies.push(archive.len()..archive.len() + size);
        archive.extend(noise(number as u64, size));
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    (archive, bodies)
}

/// The same for cpio.
fn cpio(sizes: &[usize], time: u64) -> (Vec<u8>, Vec<std::ops::Range<usize>>) {
    let mut archive = Vec::new();
    let mut bodies = Vec::new();
    let mut add = |name: &str, body: &[u8]| {
        let numbers = [
            1,
            0o100_644,
            0,
            0,
            1,
            time as usize,
            body.len(),
            0,
            0,
            0,
            0,
            name.len() + 1,
            0,
        ];
        archive.extend(b"070701");
        archive.extend(numbers.iter().flat_map(|number| format!("{number:08x}").into_bytes()));
        archive.extend(name.as_bytes());
        archive.push(0);
        archive.resize(archive.len().next_multiple_of(4), 0);
        bodies.push(archive.len()..archive.len() + body.len());
        archive.extend(body);
        archive.resize(archive.len().next_multiple_of(4), 0);
    };
    for (number, &size) in sizes.iter().enumerate() {
        add(&format!("member {number}"), &noise(number as u64, size));
    }
    add("TRAILER!!!", &[]);
    bodies.pop();
    archive.resize(archive.len().next_multiple_of(512), 0);
    (archive, bodies)
}

/// Returns where the chunks of `data` end if it arrives in pieces of these lengths, in a cycle.
fn ends(data: &[u8], pieces: &[usize]) -> Vec<usize> {
    let chunker = chunker();
    let mut cutter = ArchiveCutter::with_large(&chunker, LARGE);
    let (mut at, mut there) = (0, 0);
    let mut ends = Vec::new();
    for piece in pieces.iter().cycle() {
        there = data.len().min(there + piece);
        while let Some(len) = cutter.cut(&data[at..there], there == data.len()) {
            assert!(len >= 1 && len <= chunker.size_max());
            at += len;
            ends.push(at);
        }
        assert!(there - at < chunker.size_max(), "a whole chunk was there");
        if there == data.len() {
            break;
        }
    }
    assert_eq!(at, data.len());
    ends
}

/// Returns where the chunks of a body would end if nothing were around it.
fn ends_alone(data: &[u8], body: &std::ops::Range<usize>) -> Vec<usize> {
    let mut at = body.start;
    chunks(&chunker(), &data[body.clone()])
        .map(|chunk| {
            at += chunk.len();
            at
        })
        .collect()
}

fn archives() -> impl Strategy<Value = (Vec<u8>, Vec<std::ops::Range<usize>>)> {
    let sizes = prop::collection::vec(prop_oneof![0..LARGE as usize, LARGE as usize..20_000], 1..12);
    (sizes, any::<bool>()).prop_map(|(sizes, is_tar)| if is_tar { tar(&sizes, 1) } else { cpio(&sizes, 1) })
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![1..20usize, 1..1000usize, 1..20_000usize], 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn large_members_are_cut_as_if_they_were_alone((archive, bodies) in archives()) {
        let ends = ends(&archive, &[archive.len()]);
        for body in bodies.iter().filter(|body| body.len() as u64 >= LARGE) {
            prop_assert!(ends.contains(&body.start));
            let inside: Vec<usize> = ends.iter().copied().filter(|end| body.start < *end && *end <= body.end).collect();
            prop_assert_eq!(inside, ends_alone(&archive, body));
        }
    }

    #[test]
    fn how_an_archive_arrives_changes_nothing((archive, _) in archives(), pieces in pieces()) {
        prop_assert_eq!(ends(&archive, &pieces), ends(&archive, &[archive.len()]));
    }

    #[test]
    fn damage_anywhere_loses_no_byte_and_how_it_arrives_changes_nothing(
        (mut archive, _) in archives(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        cut in any::<prop::sample::Index>(),
        pieces in pieces(),
    ) {
        for (at, byte) in damage {
            *at.get_mut(&mut archive) = byte;
        }
        archive.truncate(cut.index(archive.len()) + 1);
        prop_assert_eq!(ends(&archive, &pieces), ends(&archive, &[archive.len()]));
    }

    #[test]
    fn other_data_are_cut_by_the_chunker_alone(seed in any::<u64>(), len in 1..60_000usize, pieces in pieces()) {
        let data = noise(seed, len);
        prop_assert_eq!(ends(&data, &pieces), ends_alone(&data, &(0..len)));
    }
}

#[test]
fn members_of_any_claimed_size_are_followed_without_harm() {
    for size in [&b"77777777777\0"[..], b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"] {
        let mut archive = tar_header("large", b'0', 0, 1);
        archive[124..136].copy_from_slice(size);
        archive[148..156].fill(b' ');
        let sum: u64 = archive.iter().map(|&byte| u64::from(byte)).sum();
        archive[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend(noise(1, 30_000));
        let body = 512..archive.len();
        assert_eq!(ends(&archive, &[700])[1..], ends_alone(&archive, &body));
    }
}

#[test]
fn other_times_in_all_headers_change_no_chunk_of_a_large_member() {
    let sizes = [10, 9000, 400, 2500, 30_000, 1999, 5000];
    for make in [tar, cpio] {
        let (old, bodies) = make(&sizes, 1);
        let (new, _) = make(&sizes, 0o1_234_567);
        let large: usize = bodies
            .iter()
            .map(std::ops::Range::len)
            .filter(|&len| len as u64 >= LARGE)
            .sum();
        let [old, new] = [&old, &new].map(|archive| {
            let mut at = 0;
            let mut chunks = Vec::new();
            for end in ends(archive, &[archive.len()]) {
                chunks.push(&archive[at..end]);
                at = end;
            }
            chunks
        });
        let same: usize = new
            .iter()
            .filter(|chunk| old.contains(chunk))
            .map(|chunk| chunk.len())
            .sum();
        assert!(same >= large, "{same} of {large}");
    }
}

#[test]
fn headers_are_found_behind_what_is_none() {
    // Two archives one after the other, as `cat` makes them. Between them are blocks of zeros, and
    // here one of noise.
    let (mut both, mut bodies) = tar(&[100, 5000], 1);
    both.extend(noise(7, 512));
    let start = both.len();
    let (second, more) = tar(&[7000], 2);
    both.extend(second);
    bodies.extend(more.iter().map(|body| body.start + start..body.end + start));
    let ends = ends(&both, &[3000]);
    for body in &bodies[1..] {
        assert!(ends.contains(&body.start) && ends.contains(&body.end));
    }
}

#[test]
fn members_behind_a_hole_are_found() {
    let chunker = chunker();
    let (first, _) = tar(&[100], 1);
    let (second, bodies) = tar(&[100, 6000], 1);
    for hole in [512, 4096, 1 << 40] {
        let mut cutter = ArchiveCutter::with_large(&chunker, LARGE);
        assert_eq!(cutter.cut(&first, true), Some(first.len()));
        cutter.skip(hole);
        assert_eq!(cutter.cut(&second, true), Some(bodies[1].start));
    }
    // Data that begins with a hole is no archive.
    let mut cutter = ArchiveCutter::with_large(&chunker, LARGE);
    cutter.skip(512);
    assert_eq!(cutter.cut(&second, true), Some(chunker.cut(&second)));
}

/// The cutter may have been shown bytes of what is skipped, even a part of a header.
#[test]
fn members_behind_skipped_data_are_found_whatever_was_seen_of_it() {
    let chunker = chunker();
    let (archive, bodies) = tar(&[3000, 100, 6000, 5000], 1);
    let body = &bodies[2];
    for seen in [0, 1, 300, 513, 1536, 4000, archive.len()] {
        let mut cutter = ArchiveCutter::with_large(&chunker, LARGE);
        let first = cutter.cut(&archive[..bodies[0].start.max(seen)], false);
        assert_eq!(first, Some(bodies[0].start));
        let at = bodies[0].start;
        let skipped = bodies[1].end.next_multiple_of(512) - at;
        cutter.skip(skipped as u64);
        let mut at = at + skipped;
        let mut ends = Vec::new();
        while let Some(len) = cutter.cut(&archive[at..], true) {
            at += len;
            ends.push(at);
        }
        assert_eq!(at, archive.len());
        assert!(
            ends.contains(&body.start) && ends.contains(&body.end),
            "{seen} bytes seen: {ends:?}"
        );
    }
}

/// A known chunk may be taken as a whole, but only if the cutter could have ended it there.
#[test]
fn a_chunk_could_end_at_a_border_or_within_the_bounds_of_sizes_and_never_behind_a_border() {
    for name in ["argmin", "gear"] {
        let chunker = Chunker::new(&Settings::for_average(name, 4096).unwrap()).unwrap();
        let (least, most) = (chunker.settings().size_min(), chunker.size_max());
        let data = noise(5, 3 * most);
        let mut cutter = ArchiveCutter::new(&chunker);
        for len in [0, 1, least - 1, most + 1, data.len() + 1] {
            assert!(!cutter.could_end(&data, 0, len), "{name}: {len}");
        }
        assert!(cutter.could_end(&data, 0, chunker.cut(&data)), "{name}");
        assert_eq!(
            cutter.could_end(&data, 0, least),
            name == "argmin" || chunker.cut(&data) == least
        );

        // A header, its extension, and a body that is large and shorter than a chunk.
        let (archive, bodies) = tar(&[least - 100], 1);
        let mut cutter = ArchiveCutter::with_large(&chunker, 1000);
        let body = &bodies[0];
        assert!(cutter.could_end(&archive, 0, body.start), "{name}: before the body");
        assert!(cutter.could_end(&archive, body.start, body.len()), "{name}: the body");
        assert!(
            !cutter.could_end(&archive, body.start, body.len() + 1),
            "{name}: past it"
        );
        assert!(
            !cutter.could_end(&archive, body.start, body.len() - 1),
            "{name}: within it"
        );
    }
}
