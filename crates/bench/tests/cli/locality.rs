//! Duplicate locality and boundary hints.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Home, ran, signal};

/// Returns the row after this number of files, below the first line: its cells, without percent
/// signs.
fn row(text: &str, files: &str) -> Vec<String> {
    let line = text
        .lines()
        .skip(1)
        .find(|line| line.trim_start().starts_with(&format!("{files} ")));
    let line = line.unwrap_or_else(|| panic!("no row of {files} in {text}"));
    line.split_whitespace()
        .filter(|cell| *cell != "%")
        .map(str::to_owned)
        .collect()
}

fn letters(text: &str) -> Vec<u8> {
    text.bytes().flat_map(|letter| [letter; 64]).collect()
}

#[test]
fn runs_of_duplicates_are_counted_as_files_are_added() {
    let home = Home::bare();
    // Files are sorted by name, with numbers by value: v2, v9, v10.
    home.write("series/v2", letters("abcdefgh"));
    home.write("series/v9", letters("abc1def2h"));
    home.write("series/v10", letters("3fgh"));
    let arguments = "duplicate-locality series --chunker fixed --sizes 64,64,64 --report locality.html";
    let ran = home.run(arguments.split(' '));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert!(
        ran.out
            .starts_with("3 files, 1.3 KiB, fixed with chunks of 64 B to 64 B, 64 B on average\n"),
        "{}",
        ran.out
    );
    // Files, chunks, duplicates, in sequences, isolated, the same in bytes, ratio, sequences,
    // median, longest.
    assert_eq!(
        row(&ran.out, "1"),
        ["1", "8", "0.0", "0.0", "0.0", "0.0", "0.0", "1.00", "0", "0", "0"]
    );
    assert_eq!(
        row(&ran.out, "2"),
        ["2", "17", "41.2", "23.5", "5.9", "41.2", "23.5", "1.70", "2", "2", "2"]
    );
    assert_eq!(
        row(&ran.out, "3"),
        ["3", "21", "47.6", "28.6", "4.8", "47.6", "28.6", "1.91", "3", "2", "2"]
    );
    let distribution = ran.out.split("  < 2").nth(1).unwrap();
    assert_eq!(row(distribution, "3"), ["3", "0.0", "100.0"]);
    let page = std::fs::read_to_string(home.path("locality.html")).unwrap();
    assert!(
        page.contains("id=\"shares\"") && page.contains("id=\"lengths\""),
        "{page}"
    );
    // Named files are read in the given order: v10 is new, v2 is not.
    let text = home.ok("duplicate-locality series/v10 series/v2 --chunker fixed --sizes 64,64,64 -q".split(' '));
    assert_eq!(row(&text, "2")[..3], ["2", "12", "25.0"]);
    let once = home.ok("duplicate-locality series --checkpoints 1 -q".split(' '));
    assert!(
        once.starts_with("3 files, 1.3 KiB, rabin with chunks of 4.0 KiB to 12.0 KiB") && once.lines().count() == 9,
        "{once}"
    );
}

#[test]
fn impossible_counts_are_refused_before_anything_is_done() {
    let home = Home::bare();
    let refused = |code, more: &str| home.fails(code, format!("duplicate-locality files {more}").split(' '));
    assert!(refused(1, "nowhere").contains("cannot read nowhere"));
    assert!(refused(2, "--chunker scissors").contains("scissors"));
    assert!(refused(2, "--sizes 8KiB").contains("expected MIN,AVERAGE,MAX"));
    assert!(refused(2, "--sizes 8KiB,4KiB,12KiB").contains("--sizes: "));
    assert!(refused(2, "--sizes 1,8KiB,12KiB").contains("--sizes: minimum chunk size"));
    assert!(refused(2, "--checkpoints 0").contains("--checkpoints"));
    assert!(refused(2, "--report page").contains("ends in .html"));
    assert!(refused(1, "--json nowhere/x.json").contains("cannot write nowhere/x.json"));
}

/// Returns the cells of the first row of this name after a line that starts with `after`.
fn cells(text: &str, after: &str, name: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| !line.starts_with(after)).skip(1);
    let mut rows = lines.map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let row = rows.find(|cells| cells.first().is_some_and(|cell| cell == name));
    row.unwrap_or_else(|| panic!("no row of {name} after {after:?} in {text}"))
}

const SERIES: &str = "--synthetic --size 400kB --versions 4 --edits 4";

#[test]
fn hints_give_a_table_for_each_dataset_chunker_and_length() {
    let home = Home::bare();
    let arguments = format!(
        "locality {SERIES},9 --chunkers rabin,argmin --list-length 2,3 --worst --threads 3 --store . --report \
         hints.html"
    );
    let ran = home.run(arguments.split(' '));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let starts = |start: &str| ran.out.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(
        starts("4 versions, 1.5 MiB; 4 edits of 100 B (insert, delete)"),
        1,
        "{}",
        ran.out
    );
    assert_eq!(starts("4 versions, 1.5 MiB; 9 edits of 100 B"), 1);
    assert_eq!(starts("rabin with chunks of 4.0 KiB to 12.0 KiB"), 4);
    assert_eq!(starts("argmin with chunks of 4.0 KiB to 12.0 KiB"), 4);
    let header = ran.out.lines().find(|line| line.contains("chunking")).unwrap();
    let titles = [
        "× plain",
        "if all refused",
        "1st",
        "2nd",
        "with BLAKE3",
        "beside",
        "memory",
    ];
    assert!(titles.iter().all(|title| header.contains(title)), "{header}");
    // The cuts are exactly those of the chunker: the same ratio and chunks.
    let plain = cells(&ran.out, "rabin with", "plain");
    let exact = cells(&ran.out, "rabin with", "ff+rwt+fpt");
    assert_eq!(
        (&plain[4], &plain[2]),
        (&exact[5], &"–".to_owned()),
        "{plain:?} {exact:?}"
    );
    let left_out = cells(&ran.out, "argmin with", "ff+rwt");
    assert!(
        left_out.len() > 12 && left_out[1..].iter().all(|cell| cell == "–"),
        "{left_out:?}"
    );
    for threads in ["1", "2", "3"] {
        let row = ran
            .out
            .lines()
            .find(|line| line.starts_with("ff+rwt+fpt") && line[10..].trim_start().starts_with(threads));
        assert!(row.is_some(), "{threads}");
    }
    let ideal = cells(&ran.out, "rabin, into a store", "ideal");
    assert_eq!(ideal[4..], cells(&ran.out, "rabin, into a store", "plain")[4..]);
    assert_eq!(starts("argmin, each thread with a file of its own"), 2);
    // The file of the store is gone, and no other file was made.
    let mut names: Vec<_> = std::fs::read_dir(home.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["files", "hints.html"]);
}

#[test]
fn files_give_the_same_as_the_series_they_are_from() {
    let home = Home::bare();
    home.ok("generate versions series --size 400kB --versions 4 --edits 4 --kind insert,delete -q".split(' '));
    let counts = |arguments: &str| {
        let text = home.ok(format!("locality {arguments} --json").split(' '));
        let found: Value = serde_json::from_str(&text).unwrap();
        let dataset = &found["datasets"][0];
        let hinted = dataset["results"][0]["hinted"].as_array().unwrap().clone();
        let all: Vec<Value> = hinted
            .iter()
            .map(|entry| {
                [
                    "criterion",
                    "unique_bytes",
                    "hits",
                    "refused",
                    "scanned_chunks",
                    "searches",
                ]
                .iter()
                .map(|field| entry[*field].clone())
                .collect()
            })
            .collect();
        (dataset["files"].clone(), dataset["bytes"].clone(), all)
    };
    let files = counts("series --chunkers gear");
    assert_eq!((&files.0, files.2.len()), (&4.into(), 4));
    assert_eq!(files, counts(&format!("{SERIES} --chunkers gear")));
    let first = &counts("series --chunkers gear --criteria ff+rwt,ff").2;
    assert_eq!((&first[0][0], &first[1]), (&"ff+rwt".into(), &files.2[0]));
}

#[test]
fn impossible_hints_are_refused_before_anything_is_done() {
    let home = Home::bare();
    let refused = |code, more: &str| home.fails(code, format!("locality {more}").split(' '));
    assert!(refused(2, "-q").contains("PATH"));
    assert!(refused(2, "files --synthetic").contains("--synthetic"));
    assert!(refused(2, "files --edits 5").contains("--edits"));
    let told = refused(2, "files --chunkers rabin,argmin --criteria ff,ff+rwt");
    assert!(
        told.contains("--criteria: ff+rwt can't be used with argmin") && told.contains("ff and ff+mt can"),
        "{told}"
    );
    assert!(refused(2, "files --criteria rwt").contains("ff+rwt+fpt"));
    assert!(refused(2, "files --list-length 9").contains("1 to 8"));
    assert!(refused(2, "files --list-length 0").contains("1 to 8"));
    assert!(refused(2, "files --sizes 8KiB,4KiB,12KiB").contains("--sizes: "));
    assert!(refused(2, "files --threads 0").contains("--threads"));
    assert!(refused(2, "--synthetic --versions 0").contains("versions: expected 1 to"));
    assert!(refused(2, "files --report page").contains("ends in .html"));
    assert!(refused(1, "nowhere").contains("cannot read nowhere"));
    assert!(refused(1, "files --json nowhere/x.json").contains("cannot write nowhere/x.json"));
    assert!(refused(1, "files --store nowhere").contains("cannot write into nowhere"));
}

/// The signal comes in every phase: making versions, cutting, cutting with threads, storing.
#[test]
fn it_stops_when_asked_and_leaves_nothing() {
    let home = Home::bare();
    for (n, more) in ["", "--threads 2", "--store ."].iter().enumerate() {
        let arguments =
            format!("locality --synthetic --size 3MB --edits 5 --versions 20000 --criteria ff {more} --json x.json");
        let mut command = home.ibid(arguments.split_whitespace());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(200 + 300 * n as u64));
        signal(&child, Signal::INT);
        let start = Instant::now();
        let ended = ran(child.wait_with_output().unwrap());
        assert_eq!(ended.code, 130, "{ended:?}");
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        assert!(
            ended.out.is_empty()
                && ended.err.contains("stopping")
                && ended.err.contains("interrupted; nothing was written"),
            "{ended:?}"
        );
        let names: Vec<_> = std::fs::read_dir(home.path(""))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["files"]);
    }
}
