//! Commands about chunks, which need no repository.

use crate::support::{Home, as_somebody, noise, run, run_with};

/// Returns offset, length and fingerprint of every line.
fn chunks(text: &str) -> Vec<(usize, usize, String)> {
    let parsed = text.lines().map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [offset, length, fingerprint] = fields[..] else {
            panic!("{line}")
        };
        (offset.parse().unwrap(), length.parse().unwrap(), fingerprint.to_owned())
    });
    parsed.collect()
}

#[test]
fn chunks_are_the_file_cut_in_pieces_each_with_its_fingerprint() {
    let home = Home::bare();
    let data = noise(3_000_000, 7);
    home.write("data", &data);
    for (algorithm, most) in [("fastcdc", 64 << 10), ("seqcdc", 16 << 10), ("fixed", 8 << 10)] {
        let options = ["--algorithm", algorithm, "--average", "8KiB"];
        let ran = home.run([&["chunk", "data"][..], &options].concat());
        let found = chunks(&ran.out);
        let mut end = 0;
        for (offset, length, fingerprint) in &found {
            assert_eq!(*offset, end);
            end += length;
            assert!((1..=most).contains(length), "{algorithm}: {length}");
            assert_eq!(*fingerprint, blake3::hash(&data[*offset..end]).to_hex().to_string());
        }
        assert_eq!(end, data.len());
        assert!(
            ran.err.contains(&format!("{} chunks of 2.9 MiB", found.len())),
            "{ran:?}"
        );
        let piped = run_with(&mut home.ibid([&["chunk", "-", "-q"][..], &options].concat()), &data);
        assert_eq!((piped.out, piped.err.as_str()), (ran.out, ""), "{algorithm}");
    }
}

#[test]
fn parameters_change_cuts_and_are_named_when_they_are_wrong() {
    let home = Home::bare();
    home.write("data", noise(500_000, 7));
    let lengths = |options: &[&str]| {
        let all = chunks(
            &home.ok([
                &["chunk", "data", "--algorithm", "seqcdc", "--average", "8KiB"],
                options,
            ]
            .concat()),
        );
        all.into_iter().map(|(_, length, _)| length).collect::<Vec<_>>()
    };
    let usual = lengths(&[]);
    let limited = lengths(&["--min", "6KiB", "--max", "9000"]);
    let inner = &limited[..limited.len() - 1];
    assert!(inner.iter().all(|length| (6144..=9000).contains(length)), "{limited:?}");
    assert_eq!(
        lengths(&["--param", "size_min=6KiB", "--param", "size_max=9000"]),
        limited
    );
    assert_ne!(lengths(&["--param", "mode=decreasing"]), usual);

    let refused = |options: &[&str]| home.fails(2, [&["chunk", "data", "--algorithm", "seqcdc"], options].concat());
    assert!(refused(&["--param", "colour=red"]).contains("expected one of size_min size_average"));
    assert!(refused(&["--param", "equal=maybe"]).contains("expected absorb or strict"));
    assert!(refused(&["--param", "skip_size=0"]).contains("both zero or none"));
    assert!(refused(&["--param", "skip_size"]).contains("NAME=VALUE"));
    assert!(refused(&["--average", "1"]).contains("average chunk size"));
    assert!(
        home.fails(2, ["chunk", "data", "--algorithm", "magic"])
            .contains("fastcdc")
    );
    assert!(
        home.fails(2, ["chunk", "data", "--algorithm", "fixed", "--min", "1KiB"])
            .contains("expected one of size,")
    );
}

#[test]
fn files_that_can_not_be_read_are_named() {
    let home = Home::bare();
    assert!(home.fails(1, ["chunk", "nowhere"]).contains("cannot open nowhere"));
    assert!(home.fails(1, ["chunk", "files"]).contains("cannot read files"));
    home.write("empty", "");
    let ran = home.run(["chunk", "empty"]);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (0, "", "0 chunks of 0 B\n")
    );
}

#[test]
fn series_are_the_same_for_the_same_options_and_overwrite_nothing() {
    let home = Home::bare();
    let make = |folder: &str, seed: &str| {
        home.run([
            "generate",
            "versions",
            folder,
            "--size",
            "200kB",
            "--edits",
            "20",
            "--versions",
            "3",
            "--seed",
            seed,
        ])
    };
    let ran = make("one", "1");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(make("again", "1").code, 0);
    assert_eq!(make("other", "2").code, 0);
    let read = |path: &str| std::fs::read(home.path(path)).unwrap();
    for name in ["v01.bin", "v02.bin", "v03.bin"] {
        let bytes = read(&format!("one/{name}"));
        assert!(
            bytes == read(&format!("again/{name}")) && bytes != read(&format!("other/{name}")),
            "{name}"
        );
        let hash = &blake3::hash(&bytes).to_hex()[..16];
        let line = ran.out.lines().find(|line| line.contains(name)).unwrap();
        assert!(line.ends_with(hash), "{line}");
    }
    let said = make("one", "1");
    assert_eq!(said.code, 1);
    assert!(
        said.err.contains("cannot write one/v01.bin: ") && said.err.contains("exists"),
        "{said:?}"
    );
    let size = |path: &str| read(path).len();
    home.ok("generate versions cut --size 200kB --edits 20 --versions 2 --kind delete".split(' '));
    assert!(
        (198_000..199_000).contains(&size("cut/v02.bin")),
        "{}",
        size("cut/v02.bin")
    );
    assert!(
        home.fails(2, ["generate", "versions", "x", "--versions", "0"])
            .contains("versions: expected 1 to")
    );
    assert!(!home.path("x").exists());
}

#[test]
fn a_comparison_has_a_row_for_every_chunker_and_average() {
    let home = Home::bare();
    home.ok("generate versions new --size 300kB --edits 5 --versions 3".split(' '));
    let compare = "chunkers new files --averages 4KiB,16KiB --backends scalar --rounds 1 --sample 100kB";
    let ran = home.run(compare.split(' '));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert!(ran.out.starts_with("6 files, 1.1 MiB\n"), "{}", ran.out);
    for row in ["4.0 KiB  fastcdc", "4.0 KiB  seqcdc", "16.0 KiB  fixed"] {
        assert_eq!(ran.out.matches(row).count(), 2, "{row} in {}", ran.out);
    }
    // Two of the three versions are nearly the same.
    let line = ran.out.lines().find(|line| line.contains("4.0 KiB  fastcdc")).unwrap();
    let savings: f64 = line.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert!((40.0..55.0).contains(&savings), "{line}");
    let one = home.ok("chunkers new --algorithms fixed --averages 4KiB --rounds 1 --sample 100kB -q".split(' '));
    assert!(one.contains("fixed") && !one.contains("seqcdc"), "{one}");
    let every = home.ok("chunkers files --algorithms all --averages 4KiB --rounds 1 --sample 10kB -q".split(' '));
    for name in ibid_chunk::NAMES {
        assert_eq!(
            every.matches(&format!("4.0 KiB  {name} ")).count(),
            2,
            "{name} in {every}"
        );
    }
}

#[test]
fn impossible_comparisons_are_refused_before_anything_is_done() {
    let home = Home::bare();
    let refused = |code, more: &str| home.fails(code, format!("chunkers files {more}").split(' '));
    assert!(refused(1, "nowhere").contains("cannot read nowhere"));
    assert!(refused(2, "--backends mmx").contains("mmx"));
    assert!(refused(2, "--averages 1").contains("--averages: average chunk size"));
    assert!(refused(2, "--sample 0").contains("sample: expected at least 1"));
    // An input file is never taken for an output file.
    assert!(refused(2, "--json files").contains("ends in .json"));
    assert!(refused(1, "--json nowhere/x.json").contains("cannot write nowhere/x.json"));
    home.write("empty", "");
    assert!(
        home.fails(2, ["chunkers", "empty"])
            .contains("expected files that are not empty")
    );
}

#[test]
fn a_file_that_can_not_be_read_is_named_and_left_out() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::bare();
    home.write("files/closed", "secret");
    std::fs::set_permissions(home.path("files/closed"), PermissionsExt::from_mode(0o000)).unwrap();
    let arguments = "chunkers files --averages 4KiB --rounds 1 --sample 100kB";
    let ran = run(&mut as_somebody(&home, &arguments.split(' ').collect::<Vec<_>>()));
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(
        ran.err.contains("passed over: files/closed: ") && ran.out.contains("3 files"),
        "{ran:?}"
    );
}

#[test]
fn the_printed_options_of_tuning_give_the_average() {
    let home = Home::bare();
    home.write("FILE", noise(4_000_000, 9));
    let text = home.ok("tune seqcdc --average 8KiB --rounds 1 --sample 1MiB -q".split(' '));
    let line = text
        .lines()
        .find(|line| line.contains("ibid-bench chunk FILE"))
        .unwrap();
    let options: Vec<&str> = line.split_whitespace().skip(1).collect();
    assert_eq!(options[..3], ["chunk", "FILE", "--algorithm"]);
    let found = chunks(&home.ok(&options));
    let average = 4_000_000 / found.len();
    assert!((7400..9000).contains(&average), "{average} by {line}");
    let refused = |options: &str| home.fails(2, format!("tune seqcdc {options}").split(' '));
    assert!(refused("--average 8KiB --param skip_size=5").contains("what is looked for"));
    assert!(refused("--average 8KiB --param colour=5").contains("expected one of size_min"));
    assert!(refused("--average 8KiB --param size_max=8KiB").contains("found none"));
    assert!(refused("--average 1").contains("average chunk size"));
}

#[test]
fn the_backend_of_the_environment_is_named_beside_the_best() {
    let home = Home::bare();
    let best = ibid_chunk::Backend::best();
    let text = home.ok("cpu --rounds 1".split(' '));
    let line = text.lines().find(|line| line.ends_with("  auto")).unwrap();
    assert!(line.starts_with(best.name()), "{text}");
    let ran = run(home.ibid(["cpu", "--rounds", "1"]).env("IBID_SIMD", "scalar"));
    let is_other = best != ibid_chunk::Backend::scalar();
    assert_eq!(ran.out.contains("asked for by IBID_SIMD"), is_other, "{ran:?}");
    let ran = run(home.ibid(["cpu"]).env("IBID_SIMD", "abacus"));
    assert!(ran.code == 2 && ran.err.contains("abacus"), "{ran:?}");
}

#[test]
fn a_breakdown_names_its_parts_as_the_paper_does() {
    let home = Home::bare();
    let text = home.ok("breakdown files --backends scalar --rounds 1 --sample 100kB".split(' '));
    for name in ["BARE ", "BASE ", "SEQ "] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name} in {text}");
    }
    let text = home.ok("hashes --rounds 1 --sample 100kB --windows 20000 --backends scalar".split(' '));
    assert!(
        text.contains("rsync") && text.contains('█') && text.contains('▂'),
        "{text}"
    );
}
