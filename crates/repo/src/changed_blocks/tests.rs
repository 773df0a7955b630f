use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<ChangedBlocks, String> {
    ChangedBlocks::read(text.as_bytes()).map_err(|error| error.to_string())
}

fn refused(text: &str) -> String {
    match read(text) {
        Err(error) => error,
        Ok(map) => panic!("{text:?} was taken for {map:?}"),
    }
}

const KIB: u64 = 1 << 10;

/// What `nbdinfo --map=qemu:dirty-bitmap:b0 --json` of libnbd 1.14 printed.
const NBDINFO: &str = r#"[
{ "offset": 0, "length": 1048576, "type": 0, "description": "clean"},
{ "offset": 1048576, "length": 65536, "type": 1, "description": "dirty"},
{ "offset": 1114112, "length": 3866624, "type": 0, "description": "clean"},
{ "offset": 4980736, "length": 65536, "type": 1, "description": "dirty"},
{ "offset": 5046272, "length": 3342336, "type": 0, "description": "clean"}
]
"#;

/// What `qemu-img map --output=json` of QEMU 7.2 printed for the same bitmap, with more line breaks.
const QEMU_IMG: &str = r#"[{ "start": 0, "length": 1048576, "depth": 0,
 "present": true, "zero": false, "data": true, "offset": 0},
{ "start": 1048576, "length": 65536, "depth": 0, "present": false, "zero": false, "data": false},
{ "start": 1114112, "length": 3866624, "depth": 0,
 "present": true, "zero": false, "data": true, "offset": 1114112},
{ "start": 4980736, "length": 65536, "depth": 0, "present": false, "zero": false, "data": false},
{ "start": 5046272, "length": 3342336, "depth": 0,
 "present": true, "zero": false, "data": true, "offset": 5046272}]
"#;

#[test]
fn lines_may_overlap_and_come_in_any_order() {
    let map = read("# a map\n\n 8192 1\n0 4096\r\n\t0 5000 \n65536 0\n1048576 65536\n").unwrap();
    assert_eq!(map.ranges, [0..12 * KIB, 1024 * KIB..1088 * KIB]);
    assert_eq!((map.parent, map.size), (None, None));
}

#[test]
fn lines_may_say_what_the_map_belongs_to_and_that_it_is_whole() {
    let map = read("parent D55CE32C\nsize 1000\nsize 1000\nend\n# more\n").unwrap();
    assert_eq!(
        (map.ranges, map.parent.as_deref(), map.size),
        (vec![], Some("d55ce32c"), Some(1000))
    );
    assert!(
        read("0 1\nend").is_ok(),
        "a map that says it is whole needs no line feed"
    );
}

#[test]
fn dirty_bitmaps_are_read_as_both_programs_print_them() {
    let expected = ChangedBlocks {
        ranges: vec![1024 * KIB..1088 * KIB, 4864 * KIB..4928 * KIB],
        parent: None,
        size: Some(8 << 20),
    };
    assert_eq!(read(NBDINFO).as_ref(), Ok(&expected));
    assert_eq!(read(QEMU_IMG).as_ref(), Ok(&expected));
    let clean = read(r#"[{"offset":0,"length":512,"type":0,"description":"clean"}]"#).unwrap();
    assert_eq!((clean.ranges, clean.size), (vec![], Some(512)));
}

/// Taken for a dirty bitmap, a map of allocated blocks would call all data unchanged.
#[test]
fn maps_of_allocated_blocks_are_refused() {
    let of_nbdinfo = r#"[{ "offset": 0, "length": 4096, "type": 0, "description": "data"}]"#;
    let said = refused(of_nbdinfo);
    assert!(
        said.contains("extent 1: expected an extent of a dirty bitmap"),
        "{said}"
    );
    assert!(said.contains(r#""description": "data""#), "{said}");
    let data =
        r#"{ "start": 0, "length": 4096, "depth": 0, "present": true, "zero": false, "data": true, "offset": 0}"#;
    let hole = r#"{ "start": 4096, "length": 4096, "depth": 0, "present": false, "zero": true, "data": false}"#;
    let said = refused(&format!("[{data},\n{hole}]"));
    assert!(
        said.contains("extent 2: expected an extent of a dirty bitmap"),
        "{said}"
    );
    // Without a hole, nothing tells it from a bitmap in which all is clean.
    let said = refused(&format!("[{data}]"));
    assert!(said.contains("no dirty extent, and qemu-img prints the same"), "{said}");
    let depth = r#"[{ "offset": 0, "length": 4096, "type": 1, "description": "local"}]"#;
    assert!(refused(depth).contains("dirty bitmap"));
}

#[test]
fn a_map_that_was_cut_short_is_refused_wherever_that_shows() {
    for map in [NBDINFO, QEMU_IMG] {
        let whole = map.trim_end();
        for length in 1..whole.len() {
            refused(&whole[..length]);
        }
    }
    assert!(refused("").contains("no line `end` that shows that it is whole"));
    assert!(refused("# nothing\n").contains("no line `end`"));
    assert!(refused("0 4096\n65536 655").contains("cut short"));
    assert!(refused("0 4096\nsize 100").contains("cut short"));
}

#[test]
fn what_is_no_map_is_refused_with_the_place_and_what_was_expected() {
    for (text, expected) in [
        ("0 4096\n1 2 3\n", r#"line 2: expected OFFSET LENGTH in bytes"#),
        ("0x10 4096\n", r#"found "0x10 4096""#),
        ("-1 4096\n", r#"found "-1 4096""#),
        ("0 4k\n", r#"found "0 4k""#),
        ("0 99999999999999999999\n", "line 1: expected OFFSET LENGTH"),
        (
            "9223372036854775807 1\n",
            "line 1: 1 bytes from 9223372036854775807 end beyond",
        ),
        (
            "1 18446744073709551615\n",
            "line 1: 18446744073709551615 bytes from 1 end beyond",
        ),
        ("parent latest\n", "line 1: expected `parent` and 8 to 32 digits"),
        ("parent d55ce32c\nparent d55ce32d\n", "line 2: expected one parent only"),
        ("size 1\nsize 2\n", "line 2: expected one size only"),
        ("end\n0 1\n", "line 2: expected nothing after the line `end`"),
        (r#"{"map": []}"#, "line 1: expected OFFSET LENGTH"),
        (
            "[0, 4096]",
            r#"extent 1: expected an extent, which begins with {, found "0""#,
        ),
        ("[] []", r#"expected nothing after the array, found "[""#),
        (
            r#"[{"length": 1}]"#,
            r#"expected the number "offset" or "start", found {"length": 1}"#,
        ),
        (
            r#"[{"start": 0, "zero": false, "data": false}]"#,
            r#"expected the number "length""#,
        ),
        (r#"[{"offset": 0, "offset": 0}]"#, "each once"),
        (
            r#"[{"offset": 1.5}]"#,
            r#"expected a whole number, a text, true, false or null, found "1.5""#,
        ),
        (r#"[{"offset": [0]}]"#, r#"found "[""#),
        (
            r#"[{"offset": 18446744073709551616}]"#,
            r#"found "18446744073709551616""#,
        ),
    ] {
        let said = refused(text);
        assert!(said.contains(expected), "{text}: {said}");
        assert!(said.starts_with("cannot use the map of changed blocks: "), "{said}");
    }
    let gap = NBDINFO.replace("1114112", "1114113");
    let expected = "extent 3: expected an extent that begins at 1114112, where the one before ends, found 1114113";
    assert!(refused(&gap).contains(expected), "{}", refused(&gap));
    let mixed = r#"[{"offset":0,"length":1,"type":1,"description":"dirty"},
        {"start":1,"length":1,"zero":false,"data":false}]"#;
    assert!(refused(mixed).contains("extent 2"), "{}", refused(mixed));
}

/// A line, a text and a number without end take no memory.
#[test]
fn input_without_end_is_refused_soon() {
    for start in [
        "",
        "# ",
        "0 ",
        r#"[{""#,
        r#"[{"offset": "#,
        r#"[{"description": ""#,
        "[{\"a\":1,\"b",
    ] {
        let endless = start.as_bytes().chain(std::io::repeat(b'7'));
        let error = ChangedBlocks::read(endless).unwrap_err().to_string();
        assert!(error.contains("at most"), "{start}: {error}");
        assert!(error.len() < 500, "{start}: {error}");
    }
}

#[test]
fn a_map_of_too_many_ranges_gets_coarser_and_misses_nothing() {
    let many = 3 * RANGES_MAX as u64;
    let starts = (0..many).map(|number| (number * 7_919 % many) * 64 * KIB);
    let map = ChangedBlocks::new(starts.map(|start| start..start + 100)).unwrap();
    assert!(map.ranges.len() <= RANGES_MAX, "{}", map.ranges.len());
    assert!(map.bytes() <= many * 64 * KIB);
    let covers = |offset: u64| {
        let at = map.ranges.partition_point(|range| range.end <= offset);
        map.ranges.get(at).is_some_and(|range| range.start <= offset)
    };
    assert!((0..many).all(|number| covers(number * 64 * KIB) && covers(number * 64 * KIB + 99)));
}

#[test]
fn a_map_is_compared_with_the_size_of_the_image() {
    let map = read("size 1024\nend\n").unwrap();
    for size in [513, 1000, 1024] {
        assert!(map.check(size, size).is_ok(), "{size} bytes fill two sectors");
    }
    for size in [0, 512, 1025, 4096] {
        let said = map.check(size, size).unwrap_err().to_string();
        assert!(
            said.contains(&format!("it describes 1024 bytes, and the image has {size}")),
            "{said}"
        );
    }
    let map = read("0 1\n65536 65536\n").unwrap();
    assert!(map.check(65_537, 65_537).is_ok(), "a block may reach beyond the end");
    assert!(map.check(100, 65_537).is_ok(), "the image was longer");
    assert!(
        map.check(65_536, 65_536)
            .unwrap_err()
            .to_string()
            .contains("a range at 65536")
    );
}

proptest! {
    #[test]
    fn ranges_are_ascending_and_apart_and_cover_what_was_given(
        given in prop::collection::vec((0u64..1 << 24, 0u64..1 << 20), 0..50),
    ) {
        let lines: String = given.iter().map(|(offset, length)| format!("{offset} {length}\n")).collect();
        let map = read(&(lines + "end\n")).unwrap();
        let of_ranges = ChangedBlocks::new(given.iter().map(|(offset, length)| *offset..offset + length)).unwrap();
        prop_assert_eq!(&map.ranges, &of_ranges.ranges);
        prop_assert!(map.ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
        let is_covered = |offset: u64| map.ranges.iter().any(|range| range.contains(&offset));
        for (offset, length) in given.iter().filter(|(_, length)| *length > 0) {
            prop_assert!(is_covered(*offset) && is_covered(offset + length - 1) && is_covered(offset + length / 2));
        }
        let needed = |range: &Range<u64>| given.iter().any(|(offset, length)| {
            *length > 0 && range.start <= *offset && offset + length <= range.end
        });
        prop_assert!(map.ranges.iter().all(needed));
    }

    #[test]
    fn any_bytes_are_a_map_or_an_error(bytes: Vec<u8>, json: bool) {
        let start: &[u8] = if json { b"[{\"" } else { b"" };
        let _ = ChangedBlocks::read(start.chain(&bytes[..]));
    }

    /// Bytes changed, cut or exchanged in a real map.
    #[test]
    fn a_damaged_map_is_a_map_or_an_error(
        which in 0usize..2, changes in prop::collection::vec((0usize..700, any::<u8>()), 1..4), length in 0usize..700,
    ) {
        let mut bytes = [NBDINFO, QEMU_IMG][which].as_bytes().to_vec();
        let all = bytes.len();
        for (at, byte) in changes {
            bytes[at % all] = byte;
        }
        let _ = ChangedBlocks::read(&bytes[..length.min(all)]);
    }
}
