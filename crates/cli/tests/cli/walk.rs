//! Every command, from files to a repository and back.

use std::process::Stdio;

use crate::support::{CHEAP, Home, noise, run, run_with, tree};

#[test]
fn files_come_back_as_they_went() {
    let home = Home::with_snapshot();
    assert!(
        home.ok(["restore", &home.at("files"), "back", "--verify"])
            .contains("verified  3 files")
    );
    assert_eq!(tree(&home.path("files")), tree(&home.path("back")));
}

#[test]
fn a_snapshot_can_be_listed_searched_compared_and_counted() {
    let home = Home::with_snapshot();
    home.write("files/anna.txt", "dear Anna, and more\n");
    home.write("files/new", noise(1000, 2));
    std::fs::remove_file(home.path("files/link")).unwrap();
    std::fs::create_dir(home.path("files/link")).unwrap();
    let summary = home.ok(["backup", "files", "--tag", "second"]);
    assert!(
        summary.contains("of 4 files") && summary.contains("unchanged"),
        "{summary}"
    );

    let snapshots = home.ok(["snapshots"]);
    assert!(
        snapshots.contains("second") && snapshots.contains("2 snapshots"),
        "{snapshots}"
    );
    let prefix = home.path("files").display().to_string();
    let listed = home.ok(["ls", &home.at("files")]);
    let expected = ["anna.txt", "deep/", "link/", "new"]
        .map(|name| format!("{prefix}/{name}\n"))
        .concat();
    assert_eq!(listed, expected);
    assert!(
        home.ok(["ls", "latest", "-R"])
            .contains(&format!("{prefix}/deep/down/ben.txt\n"))
    );
    let long = home.ok(["ls", "-lR", &format!("latest~1:{prefix}")]);
    assert!(
        long.contains("lrwxrwxrwx") && long.contains("link -> anna.txt") && long.contains("293 KiB"),
        "{long}"
    );

    let found = home.ok(["find", "anna.*", "down/*"]);
    let ids = home.ids();
    assert!(
        found.contains(&ids[0][..8]) && found.contains(&ids[1][..8]) && found.contains("4 matches in 2 snapshots"),
        "{found}"
    );
    assert!(home.ok(["find", "new", "--snapshot", "latest~1"]).contains("0 matches"));

    let changed = home.ok(["diff", &format!("latest~1:{prefix}"), &format!("latest:{prefix}")]);
    for line in [
        "M anna.txt  10 B → 20 B",
        "+ new  1000 B",
        "T link  a symlink → a directory",
    ] {
        assert!(changed.lines().any(|found| found == line), "{line} in {changed}");
    }
    assert!(
        changed.contains("1 added (1000 B), 0 removed (0 B), 1 modified"),
        "{changed}"
    );
    assert_eq!(home.ok(["diff", "latest", "latest"]).lines().count(), 1);

    let stats = home.ok(["stats"]);
    // The width of a column depends on the others' contents.
    let words = stats.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("logical 587 KiB") && stats.contains("saved by deduplication") && stats.contains('█'),
        "{stats}"
    );
    for check in [&["check"][..], &["check", "--read-data"], &["check", "--read-data=50%"]] {
        assert!(home.ok(check).contains("no faults"));
    }
    assert_eq!(home.ok(["check", "--quiet"]), "");
}

#[test]
fn paths_are_printed_as_they_are_for_other_programs() {
    use std::os::unix::ffi::OsStrExt;
    let home = Home::new();
    let name = |bytes: &'static [u8]| std::path::Path::new(std::ffi::OsStr::from_bytes(bytes));
    for odd in [
        &b"files/odd/new\nline"[..],
        b"files/odd/\xFF\x1b[1m",
        b"files/odd/back\\slash",
        b"files/odd/f/x",
    ] {
        home.write(name(odd), "x");
    }
    home.ok(["backup", "-q", "files"]);
    let paths = |raw: &[u8]| -> Vec<Vec<u8>> {
        assert_eq!(raw.last(), Some(&0));
        raw[..raw.len() - 1]
            .split(|&byte| byte == 0)
            .map(<[u8]>::to_vec)
            .collect()
    };
    let expected = |inside: &[&[u8]]| -> Vec<Vec<u8>> {
        let top = home.path("files/odd");
        inside
            .iter()
            .map(|name| [top.as_os_str().as_bytes(), b"/", name].concat())
            .collect()
    };
    let listed = home.run(["ls", "-0", &home.at("files/odd")]).raw;
    assert_eq!(
        paths(&listed),
        expected(&[b"back\\slash", b"f", b"new\nline", b"\xFF\x1b[1m"])
    );
    let all = home.run(["ls", "-R0", &home.at("files/odd")]).raw;
    assert!(paths(&all).contains(&expected(&[b"f/x"])[0]));
    let found = home.run(["find", "odd/*", "-0"]).raw;
    assert_eq!(paths(&found), paths(&listed));
    assert!(home.run(["find", "nothing", "--null"]).raw.is_empty());
    // What is printed can be asked for.
    for path in paths(&listed) {
        let address = [b"latest:", path.as_slice()].concat();
        home.ok([std::ffi::OsStr::new("ls"), std::ffi::OsStr::from_bytes(&address)]);
    }
    home.fails(2, ["ls", "latest", "-0l"]);
    home.fails(2, ["find", "x", "-0", "--json"]);
}

#[test]
fn a_file_can_be_written_to_a_pipe() {
    let home = Home::with_snapshot();
    let dumped = home.run(["dump", &home.at("files/deep/data.bin")]);
    assert_eq!((dumped.code, dumped.err.as_str()), (0, ""));
    assert!(dumped.raw == noise(300_000, 1));
    assert!(
        home.fails(1, ["dump", &home.at("files/deep")])
            .contains("is a directory, not a file")
    );
    assert!(home.fails(1, ["dump", &home.at("files/none")]).contains("has no"));
}

#[test]
fn a_folder_can_be_written_as_an_archive() {
    let home = Home::with_snapshot();
    let tar = home.run(["dump", &home.at("files"), "--archive", "tar"]);
    assert_eq!((tar.code, tar.err.as_str()), (0, ""));
    home.write("out.tar", &tar.raw);
    std::fs::create_dir(home.path("out")).unwrap();
    let extracted = std::process::Command::new("tar")
        .args(["-xpf", "../out.tar"])
        .current_dir(home.path("out"))
        .status();
    assert!(extracted.unwrap().success());
    assert_eq!(tree(&home.path("files"))[1..], tree(&home.path("out"))[1..]);
    let zip = home.run(["dump", &home.at("files/deep"), "--archive", "zip"]);
    assert!(zip.code == 0 && zip.raw.starts_with(b"PK\x03\x04"), "{}", zip.err);

    std::os::unix::net::UnixListener::bind(home.path("files/socket")).unwrap();
    home.ok(["backup", "-q", "files"]);
    let said = home.fails(3, ["dump", &home.at("files"), "--archive", "tar"]);
    assert!(
        said.contains("files/socket: cannot archive: tar has no sockets"),
        "{said}"
    );
    assert!(home.fails(1, ["dump", &home.at("files")]).contains("--archive tar"));
    home.fails(2, ["dump", &home.at("files"), "--archive", "tar", "--offset", "1"]);
    home.fails(2, ["dump", &home.at("files"), "--archive", "rar"]);
}

#[test]
fn a_pipe_that_is_closed_early_is_no_failure() {
    let home = Home::new();
    home.write("files/large", noise(4 << 20, 3));
    home.ok(["backup", "files"]);
    let mut child = home
        .ibid(["dump", &home.at("files/large")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn a_stream_becomes_a_file() {
    let home = Home::new();
    let bytes = noise(3 << 20, 4);
    let stored = run_with(&mut home.ibid(["backup", "--stdin", "dump.sql", "--tag", "db"]), &bytes);
    assert_eq!(stored.code, 0, "{stored:?}");
    assert_eq!(home.ok(["ls", "latest"]), "/dump.sql\n");
    assert!(home.run(["dump", "latest:dump.sql"]).raw == bytes);
    home.fails(2, ["backup", "--stdin", "name", "files"]);
    home.fails(2, ["backup"]);
}

#[test]
fn a_summary_counts_one_thing_as_one() {
    let home = Home::bare();
    home.write("one/file", "x");
    std::os::unix::fs::symlink("file", home.path("one/link")).unwrap();
    home.ok(["init", "-q", CHEAP[0], CHEAP[1]]);
    let said = home.ok(["backup", "one"]);
    let folders = home.path("one").components().count() - 1;
    assert!(
        said.contains(&format!(" of 1 file, {folders} folders, 1 symlink or device, 1 B\n")),
        "{said}"
    );
    let said = home.ok(["restore", &home.at("one"), "out"]);
    assert!(
        said.contains("restored 1 file, 0 folders, 1 symlink or device, 1 B of"),
        "{said}"
    );
    let said = home.ok(["stats"]) + &home.ok(["cache", "stats"]) + &home.ok(["snapshots"]) + &home.ok(["check"]);
    for wrong in [
        " 1 files",
        " 1 chunks",
        " 1 snapshots",
        " 1 packs",
        " 1 folders",
        " 1 runs",
    ] {
        assert!(!said.contains(wrong), "{wrong} in {said}");
    }
}

#[test]
fn excluded_files_stay_out() {
    let home = Home::new();
    home.write(
        "files/cache/CACHEDIR.TAG",
        "Signature: 8a477f597d28d172789f06886806bc55\n",
    );
    home.write("files/cache/thing", "cached");
    home.write("files/keep.o", "keep");
    home.write("files/drop.o", "drop");
    home.write("patterns", "*.o\n# a comment\n");
    home.ok([
        "backup",
        "files",
        "--exclude-file",
        "patterns",
        "--exclude",
        "!keep.o",
        "--exclude-caches",
        "--exclude-larger-than",
        "100KB",
        "--exclude",
        "down/",
        "--one-file-system",
    ]);
    let listed = home.ok(["ls", "latest", "-R"]);
    for (name, is_there) in [
        ("keep.o", true),
        ("drop.o", false),
        ("thing", false),
        ("data.bin", false),
        ("ben.txt", false),
        ("anna.txt", true),
    ] {
        assert_eq!(listed.contains(name), is_there, "{name} in {listed}");
    }
    assert!(
        home.fails(2, ["backup", "files", "--exclude", "a{b"])
            .contains("pattern")
    );
}

/// A pattern means the same in all commands and working folders.
#[test]
fn a_pattern_means_the_end_of_a_path_unless_it_begins_with_a_slash() {
    let home = Home::new();
    let whole = home.path("files/deep/data.bin").display().to_string();
    let address = home.at("files/deep");
    for (pattern, matches) in [
        ("deep/data.bin", true),
        ("files/deep/data.bin", true),
        ("data.bin", true),
        (&whole, true),
        ("/data.bin", false),
        ("/deep/data.bin", false),
        ("deep/data.bin/", false),
    ] {
        for (folder, path) in [("", "files"), ("files", "."), ("files/deep", ".")] {
            let mut backup = home.ibid(["backup", "-q", path, "--exclude", pattern]);
            let ran = run(backup.current_dir(home.path(folder)));
            assert_eq!(ran.code, 0, "{ran:?}");
            let left_out = !home.ok(["ls", "latest", "-R"]).contains("data.bin");
            assert_eq!(left_out, matches, "{pattern} of {path} in {folder}");
        }
        home.ok(["backup", "-q", "files"]);
        let found = home.ok(["find", pattern, "--snapshot", "latest"]);
        assert_eq!(found.contains("data.bin"), matches, "{pattern}: {found}");
        for (option, is_restored) in [("--exclude", !matches), ("--include", matches)] {
            // An include pattern that matches nothing is reported.
            let code = if option == "--include" && !matches { 3 } else { 0 };
            assert_eq!(home.run(["restore", "-q", &address, "out", option, pattern]).code, code);
            assert_eq!(home.path("out/data.bin").exists(), is_restored, "{option} {pattern}");
            std::fs::remove_dir_all(home.path("out")).unwrap();
        }
    }
    home.ok(["restore", "-q", &address, "out", "--include", "deep/"]);
    assert!(
        home.path("out/down/ben.txt").exists(),
        "what is in a folder that is asked for is asked for"
    );
}

#[test]
fn a_pattern_that_means_nothing_is_told() {
    let home = Home::with_snapshot();
    for pattern in ["[", "./anna.txt", "", "a/../b"] {
        for arguments in [
            &["backup", "files", "--exclude", pattern][..],
            &["restore", "latest", "out", "--include", pattern],
            &["find", pattern],
        ] {
            let said = home.fails(2, arguments);
            assert!(said.contains(&format!("pattern {pattern:?}")), "{said}");
        }
    }
    home.write("patterns", b"*.o\n\xFF\n");
    let said = home.fails(2, ["backup", "files", "--exclude-file", "patterns"]);
    assert!(
        said.contains("in line 2 of \"patterns\"") && said.contains("UTF-8"),
        "{said}"
    );
}

#[test]
fn a_repository_does_not_store_itself() {
    let home = Home::bare();
    home.write("files/a/keep", "keep");
    for repository in ["repo", "files/[a] {b}*! #"] {
        home.ok(["-r", repository, "init", "-q", CHEAP[0], CHEAP[1]]);
        let ran = home.run(["-r", repository, "backup", ".", "--exclude", "!*"]);
        assert!(
            ran.code == 0 && ran.err.contains("the repository itself is left out"),
            "{ran:?}"
        );
        let listed = home.ok(["-r", repository, "ls", "latest", "-R"]);
        assert!(
            !listed.contains(&format!("{repository}/config")) && listed.contains("a/keep"),
            "{listed}"
        );
    }
}

#[test]
fn a_dry_run_stores_nothing() {
    let home = Home::new();
    let packs = || tree(&home.path("repo"));
    let before = packs();
    assert!(home.ok(["backup", "files", "--dry-run"]).contains("nothing was stored"));
    assert!(before == packs());
}

#[test]
fn a_repository_can_be_made_on_the_way() {
    let home = Home::bare();
    assert!(home.fails(10, ["backup", "files"]).contains("ibid init"));
    home.ok([
        "backup",
        "--init",
        "files",
        "--argon2",
        "8KiB:1:1",
        "--chunker",
        "seqcdc",
        "--average",
        "16KiB",
    ]);
    home.ok(["backup", "--init", "files"]);
    assert_eq!(home.ids().len(), 2);
    assert!(
        home.fails(2, ["backup", "files", "--average", "16KiB"])
            .contains("--init")
    );
}

#[test]
fn every_chunker_and_level_makes_a_repository_that_checks_clean() {
    for (chunker, level) in [("fastcdc", "1"), ("seqcdc", "off"), ("fixed", "auto")] {
        let home = Home::bare();
        home.ok([
            "init",
            "--chunker",
            chunker,
            "--average",
            "8KiB",
            "--frame",
            "64KiB",
            "--pack",
            "1MiB",
            "--argon2",
            "8KiB:1:1",
        ]);
        home.ok([
            "backup",
            "files",
            "--compression",
            level,
            "--threads",
            "1",
            "--host",
            "mill",
            "--time",
            "2001-02-03 04:05:06",
        ]);
        let listed = home.ok(["snapshots"]);
        assert!(listed.contains("2001-02-03 04:05:06  mill"), "{listed}");
        home.ok(["check", "--read-data"]);
    }
}

#[test]
fn init_refuses_places_that_are_taken() {
    let home = Home::new();
    assert!(home.fails(1, ["init"]).contains("there is a repository"));
    assert!(home.fails(1, ["-r", "files", "init"]).contains("is not empty"));
    assert!(home.fails(1, ["-r", "files/anna.txt", "init"]).contains("anna.txt"));
    assert!(
        home.fails(2, ["-r", "other", "init", "--average", "1"])
            .contains("average")
    );
    assert!(
        run(home.ibid(["snapshots"]).env_remove("IBID_REPO"))
            .err
            .contains("IBID_REPO")
    );
}
