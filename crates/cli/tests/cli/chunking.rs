//! Commands about chunks, which need no repository.

use crate::support::{Home, noise, run_with};

/// Offset, length and fingerprint of every line.
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
fn what_can_not_be_read_is_named() {
    let home = Home::bare();
    assert!(home.fails(1, ["chunk", "nowhere"]).contains("cannot open \"nowhere\""));
    assert!(home.fails(1, ["chunk", "files"]).contains("cannot read \"files\""));
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
        said.err.contains("cannot write \"one/v01.bin\": ") && said.err.contains("exists"),
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
