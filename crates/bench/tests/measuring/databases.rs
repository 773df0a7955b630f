//! `ibid-bench databases` on small data: every subject brings back every version of every record, or
//! the program fails.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// All subjects, in the order of the tables.
const SUBJECTS: [&str; 19] = [
    "nothing",
    "ddedup",
    "ddedup-living",
    "plain",
    "plain-living",
    "redb-zstd",
    "sqlite-zstd",
    "sqlite-dictionary",
    "sqlite-blocks",
    "lmdb",
    "rocksdb",
    "rocksdb-blocks",
    "postgres-lz4",
    "blocks",
    "trad-4k",
    "trad-4k-blocks",
    "trad-64",
    "trad-64-blocks",
    "stream",
];

/// Runs the program, which must succeed. Returns standard output and standard error.
fn bench(args: &[&str]) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ibid-bench")).args(args).output();
    let output = output.expect("ibid-bench runs");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success(), "{args:?}: {said}");
    (String::from_utf8(output.stdout).expect("text"), said)
}

/// Writes twelve pages of 40 versions in the order of time; each version adds a line to the one
/// before. Adds rare bodies: empty, not valid in a text column, all zeros, longer than a block.
fn write_records(path: &Path) {
    let mut text = String::new();
    let mut line = |key: &str, rev: u32, body: &str| {
        let _ = writeln!(
            text,
            "{}",
            json!({"key": key, "rev": rev, "timestamp": 7, "body": body})
        );
    };
    let mut pages = vec![String::new(); 12];
    for rev in 1..=40u32 {
        for (number, page) in pages.iter_mut().enumerate() {
            let word = (number as u32 * 40 + rev).wrapping_mul(2_654_435_761);
            let _ = writeln!(page, "line {word:x} of page {number}, added in {}", word.rotate_left(9));
            line(&format!("page/{number}"), rev, page);
        }
    }
    line("empty", 1, "");
    line("page", 1, "a key that others begin with");
    line("odd \"key\"", 1, "\0 and \u{10ffff}");
    line("zeros", 1, &"\0".repeat(200_000));
    std::fs::write(path, text).expect("written");
}

#[test]
fn every_subject_brings_back_every_record() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    write_records(Path::new(&at("tiny.jsonl")));
    std::fs::create_dir(at("work")).expect("a folder");
    for mode in [&["--distinct"][..], &[]] {
        let (file, work, json) = (at("tiny.jsonl"), at("work"), at("run.json"));
        let common = ["databases", &file, "--reads", "50", "--work", &work, "--json", &json];
        let (shown, said) = bench(&[&common[..], mode].concat());
        let text = std::fs::read_to_string(&json).expect("results");
        let found: Value = serde_json::from_str(&text).expect("JSON");
        let found = &found["outcome"]["records"];
        let keys = if mode.is_empty() { 16 } else { 484 };
        assert_eq!(found["files"][0]["keys"], keys);
        assert_eq!(found["files"][0]["records"], 484);

        let rows = found["rows"].as_array().expect("rows");
        let row = |subject: &str| rows.iter().find(|row| row["subject"] == subject);
        let may_be_missing = |subject: &str| match subject {
            "postgres-lz4" => Some("PostgreSQL "),
            "rocksdb" | "rocksdb-blocks" if !cfg!(feature = "rocksdb") => {
                Some("this program was built without RocksDB; build it with `--features rocksdb`")
            }
            _ => None,
        };
        for subject in SUBJECTS {
            if let Some(why) = may_be_missing(subject).filter(|_| row(subject).is_none()) {
                let why = format!("SKIPPED {subject}: {why}");
                assert!(shown.contains(&why) && said.contains(&why), "{shown}{said}");
                continue;
            }
            let row = row(subject).expect(subject);
            assert!(shown.contains(&format!("| {subject} ")), "{shown}");
            let reads = !["nothing", "stream"].contains(&subject);
            assert_eq!(row.get("latency").is_some(), reads, "{row}");
        }
        let bytes = |subject: &str| row(subject).expect(subject)["value_bytes"].as_u64().expect("bytes");
        assert!(bytes("trad-64") < bytes("trad-4k"), "small chunks find more: {shown}");
        assert!(bytes("trad-64-blocks") < bytes("trad-64") && bytes("blocks") < bytes("redb-zstd"));
        assert!(bytes("sqlite-dictionary") < bytes("sqlite-zstd"), "{shown}");
        if mode.is_empty() {
            assert!(bytes("sqlite-blocks") < bytes("sqlite-dictionary"), "{shown}");
        } else {
            assert_eq!(
                bytes("sqlite-blocks"),
                bytes("sqlite-zstd"),
                "no key has older versions"
            );
        }
        for alike in ["sqlite-zstd", "lmdb"] {
            assert_eq!(bytes(alike), bytes("redb-zstd"), "each body is compressed on its own");
        }
        if cfg!(feature = "rocksdb") {
            let versions = found["versions"].as_array().expect("versions");
            let named = |version: &Value| version.as_str().is_some_and(|version| version.starts_with("RocksDB "));
            assert!(versions.iter().any(named), "{versions:?}");
            assert!(bytes("rocksdb-blocks") < bytes("rocksdb"), "{shown}");
            assert!(bytes("rocksdb") < bytes("redb-zstd"), "{shown}");
        }
        // So few records are not worth a block.
        assert!(bytes("ddedup") < bytes("ddedup-living") && bytes("plain") <= bytes("plain-living"));
        assert!(bytes("ddedup") < bytes("plain"), "{shown}");
        assert!(bytes("stream") < bytes("trad-64-blocks"), "{shown}");
        let index = &row("trad-64").expect("a row")["index"];
        assert_eq!(
            index["bytes"].as_u64(),
            index["entries"].as_u64().map(|entries| entries * 28)
        );

        assert_eq!(bench(&["table", &json]).0, shown);
        assert!(!text.contains(&at("")), "no paths of this machine:\n{text}");
        assert_eq!(std::fs::read_dir(&work).expect("a folder").count(), 0, "all is removed");
    }
}

#[test]
fn a_line_that_is_no_record_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bad.jsonl");
    std::fs::write(&path, "{\"key\": \"a\", \"rev\": 1, \"body\": \"b\"}\nnonsense\n").expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_ibid-bench"))
        .args(["databases", "--subjects", "plain"])
        .arg(&path)
        .output()
        .expect("ibid-bench runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("bad.jsonl, line 2"), "{said}");
}
