//! Images: maps of changed blocks, and parts of large files.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Stdio;

use crate::support::{Home, noise, run, run_with};

const MIB: usize = 1 << 20;

/// Creates a home with a snapshot of an image of 8 MiB, and then changes one byte of it, at 5 MiB.
/// Returns the snapshot's id, too.
fn home_with_a_changed_image() -> (Home, String) {
    let home = Home::new();
    home.write("disk.raw", noise(8 * MIB, 1));
    home.ok(["backup", "disk.raw", "--quiet"]);
    let disk = File::options().write(true).open(home.path("disk.raw")).unwrap();
    disk.write_all_at(b"!", 5 * MIB as u64).unwrap();
    let parent = home.ids().remove(0);
    (home, parent)
}

fn dumped(home: &Home) -> Vec<u8> {
    home.run(["dump", &home.at("disk.raw")]).raw
}

#[test]
fn a_map_of_changed_blocks_saves_reading_the_rest() {
    let (home, parent) = home_with_a_changed_image();
    home.write("map", "# what has changed\n5242880 65536\n");
    let arguments = ["backup", "disk.raw", "--parent", &parent, "--changed-blocks"];
    let printed = home.ok(arguments.iter().chain(&["map"]));
    let expected = format!(" were taken from snapshot {} unread\n", &parent[..8]);
    assert!(
        printed.contains("\n  blocks  ") && printed.contains(&expected),
        "{printed}"
    );
    assert!(dumped(&home) == std::fs::read(home.path("disk.raw")).unwrap());

    let map = r#"[{"offset": 0, "length": 5242880, "type": 0, "description": "clean"},
        {"offset": 5242880, "length": 65536, "type": 1, "description": "dirty"},
        {"offset": 5308416, "length": 3080192, "type": 0, "description": "clean"}]"#;
    let mut command = home.ibid(arguments.iter().chain(&["-", "--verify-unchanged", "50%", "--json"]));
    let ran = run_with(&mut command, map.as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    let summary: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let bytes = |name: &str| summary[name].as_u64().unwrap();
    assert_eq!(bytes("bytes"), 8 * MIB as u64);
    assert!(bytes("taken_over_bytes") > 6 * MIB as u64, "{summary}");
    assert!(bytes("read_bytes") > 2 * MIB as u64, "{summary}");
}

#[test]
fn a_map_that_cannot_be_used_is_refused_with_what_to_do() {
    let (home, parent) = home_with_a_changed_image();
    home.write("files/other", b"x");
    let refused = |map: &str, arguments: &[&str], code: i32, expected: &str| {
        home.write("map", map);
        let ran = home.run([&["backup", "--changed-blocks", "map"], arguments].concat());
        assert_eq!(ran.code, code, "{ran:?}");
        let said = ran.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(expected), "{said:?} lacks {expected:?}");
    };
    let parent = parent.as_str();
    let with_parent = ["disk.raw", "--parent", parent];
    refused("5M 64K\n", &with_parent, 2, "line 1: expected OFFSET LENGTH in bytes");
    refused("", &with_parent, 2, "If nothing has changed, write a line `end`.");
    let allocated = r#"[{"offset": 0, "length": 8388608, "type": 0, "description": "data"}]"#;
    refused(
        allocated,
        &with_parent,
        2,
        "Use `nbdinfo --map=qemu:dirty-bitmap:NAME --json`",
    );
    refused(
        "size 1024\nend\n",
        &with_parent,
        2,
        "the image has 8388608. Check that the map is of this file",
    );
    refused("end\n", &["disk.raw"], 2, "--parent <SNAP>");
    refused(
        "end\n",
        &["disk.raw", "--parent", "latest"],
        2,
        "`ibid snapshots` lists the ids.",
    );
    refused(
        "end\n",
        &["disk.raw", "files", "--parent", parent],
        2,
        "2 paths were given.",
    );
    refused("end\n", &["files/other", "--parent", parent], 1, "`ibid ls -R");
    refused(
        "end\n",
        &["--stdin", "disk", "--parent", parent],
        2,
        "cannot be used with",
    );
    refused(
        "end\n",
        &["disk.raw", "--force", "--parent", parent],
        2,
        "cannot be used with",
    );
    let compare = ["disk.raw", "--parent", parent, "--verify-unchanged", "100%"];
    refused(
        "end\n",
        &compare,
        1,
        "it has no range there. Make the map again, or back up without one",
    );
    let missing = home.fails(
        1,
        ["backup", "disk.raw", "--parent", parent, "--changed-blocks", "nowhere"],
    );
    assert!(missing.contains("cannot open nowhere: no such file"), "{missing}");
    assert_eq!(home.ids(), [parent]);
}

#[test]
fn a_part_of_a_file_can_be_dumped() {
    let home = Home::with_snapshot();
    let dump = |arguments: &[&str]| home.run([&["dump", &home.at("files/deep/data.bin")], arguments].concat());
    let all = noise(300_000, 1);
    assert!(dump(&["--offset", "100000", "--length", "64KiB"]).raw == all[100_000..165_536]);
    assert!(dump(&["--offset", "299999"]).raw == all[299_999..]);
    assert!(dump(&["--length", "0"]).raw.is_empty());
    let ran = dump(&["--offset", "299999", "--length", "2"]);
    assert!(ran.code == 1 && ran.raw == all[299_999..], "{ran:?}");
    assert!(
        ran.err.contains("expected 2 bytes from byte 299999 on, found 1"),
        "{ran:?}"
    );
}

/// Otherwise a dump of a sparse image of some terabytes would fill the disk.
#[test]
fn holes_stay_holes_in_a_file_that_a_dump_is_written_to() {
    let home = Home::new();
    let sparse = File::create(home.path("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    sparse.write_all_at(b"middle", 1 << 39).unwrap();
    home.ok(["backup", "sparse"]);
    let dump_to = |file: File| {
        let ran = run(home.ibid(["dump", &home.at("sparse")]).stdout(Stdio::from(file)));
        assert_eq!(ran.code, 0, "{ran:?}");
    };
    let check = |name: &str, start: u64| {
        let back = File::open(home.path(name)).unwrap();
        let meta = back.metadata().unwrap();
        assert_eq!(meta.len(), start + (1 << 40));
        assert!(meta.blocks() * 512 < 1 << 20, "{} blocks", meta.blocks());
        let mut bytes = [0; 8];
        back.read_exact_at(&mut bytes, start + (1 << 39) - 1).unwrap();
        assert_eq!(&bytes, b"\0middle\0");
    };
    dump_to(File::create(home.path("new")).unwrap());
    check("new", 0);
    home.write("longer", b"before");
    dump_to(File::options().append(true).open(home.path("longer")).unwrap());
    check("longer", 6);

    // Where a file has bytes already, they are overwritten.
    let short = File::create(home.path("short")).unwrap();
    short.set_len(200_000).unwrap();
    home.ok(["backup", "short"]);
    home.write("full", [b'x'; 300_000]);
    let full = File::options().write(true).open(home.path("full")).unwrap();
    let ran = run(home.ibid(["dump", &home.at("short")]).stdout(Stdio::from(full)));
    assert_eq!(ran.code, 0, "{ran:?}");
    let full = std::fs::read(home.path("full")).unwrap();
    assert!(full[..200_000].iter().all(|&byte| byte == 0) && full[200_000..] == [b'x'; 100_000]);
}
