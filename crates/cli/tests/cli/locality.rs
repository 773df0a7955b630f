//! Duplicates that lie together.

use crate::support::Home;

/// The row after so many files, below the first line: its cells, without the signs for percent.
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
    // By name, numbers by their value: v2, v9, v10.
    home.write("series/v2", letters("abcdefgh"));
    home.write("series/v9", letters("abc1def2h"));
    home.write("series/v10", letters("3fgh"));
    let arguments = "bench duplicate-locality series --chunker fixed --sizes 64,64,64 --report locality.html";
    let ran = home.run(arguments.split(' '));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert!(
        ran.out
            .starts_with("3 files, 1.3 KiB, fixed with chunks of 64 B to 64 B, 64 B on average\n"),
        "{}",
        ran.out
    );
    // Files, chunks, duplicates, in sequences, isolated, the same of bytes, ratio, sequences, median, longest.
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
    // Those that are named come in the order in which they are: v10 is new, v2 is not.
    let text = home.ok("bench duplicate-locality series/v10 series/v2 --chunker fixed --sizes 64,64,64 -q".split(' '));
    assert_eq!(row(&text, "2")[..3], ["2", "12", "25.0"]);
    let once = home.ok("bench duplicate-locality series --checkpoints 1 -q".split(' '));
    assert!(
        once.starts_with("3 files, 1.3 KiB, rabin with chunks of 4.0 KiB to 12.0 KiB") && once.lines().count() == 9,
        "{once}"
    );
}

#[test]
fn what_can_not_be_counted_is_refused_before_anything_is_done() {
    let home = Home::bare();
    let refused = |code, more: &str| home.fails(code, format!("bench duplicate-locality files {more}").split(' '));
    assert!(refused(1, "nowhere").contains("cannot read \"nowhere\""));
    assert!(refused(2, "--chunker scissors").contains("scissors"));
    assert!(refused(2, "--sizes 8KiB").contains("expected MIN,AVERAGE,MAX"));
    assert!(refused(2, "--sizes 8KiB,4KiB,12KiB").contains("--sizes: "));
    assert!(refused(2, "--sizes 1,8KiB,12KiB").contains("--sizes: minimum chunk size"));
    assert!(refused(2, "--checkpoints 0").contains("--checkpoints"));
    assert!(refused(2, "--report page").contains("ends in .html"));
    assert!(refused(1, "--json nowhere/x.json").contains("cannot write \"nowhere/x.json\""));
}
