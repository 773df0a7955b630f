//! `ibid records`.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Home, Ran, growing_pages, json_lines, noise, ran, run, run_with, signal, wait_until};

/// Returns `ibid records` with these arguments and a store in this home.
fn records<S: AsRef<OsStr>>(home: &Home, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = home.ibid(["records"]);
    command.args(arguments).env("IBID_STORE", home.path("store"));
    command
}

#[track_caller]
fn ok<S: AsRef<OsStr>>(home: &Home, arguments: impl IntoIterator<Item = S>) -> String {
    let ran = run(&mut records(home, arguments));
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.out
}

/// Runs a command that must fail with this code. Returns its standard error.
#[track_caller]
fn fails<S: AsRef<OsStr>>(home: &Home, code: i32, arguments: impl IntoIterator<Item = S>) -> String {
    let ran = run(&mut records(home, arguments));
    assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{ran:?}");
    assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    ran.err
}

/// Runs a command whose arguments are wrong.
#[track_caller]
fn misused<S: AsRef<OsStr>>(home: &Home, arguments: impl IntoIterator<Item = S>) {
    let ran = run(&mut records(home, arguments));
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
}

/// Runs a command that does only a part. Returns its standard error and its standard output.
#[track_caller]
fn partly<S: AsRef<OsStr>>(home: &Home, arguments: impl IntoIterator<Item = S>) -> (String, String) {
    let ran = run(&mut records(home, arguments));
    assert_eq!(ran.code, 3, "{ran:?}");
    (ran.err, ran.out)
}

/// Returns what `scan` writes into a pipe.
fn scanned(home: &Home, arguments: &[&str]) -> Vec<Value> {
    values(&ok(home, [&["scan"], arguments].concat()))
}

/// Returns objects without their times, each of which is there.
#[track_caller]
fn untimed(mut objects: Vec<Value>) -> Vec<Value> {
    for object in &mut objects {
        let time = object.as_object_mut().unwrap().remove("time");
        assert!(time.is_some() || object["type"].is_string(), "{object}");
    }
    objects
}

/// Returns the JSON of each line.
fn values(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn keys(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["key"].as_str().unwrap()).collect()
}

const PAGES: &str = r#"{"page": "b", "n": 1, "text": "one\n"}
{"page": "a", "n": 2, "text": "two"}

{"page": "b", "n": 3, "text": {"three": [3.0,  null]}}
"#;

fn with_pages() -> Home {
    let home = Home::bare();
    home.write("pages.jsonl", PAGES);
    let said = ok(&home, ["load", "pages.jsonl", "--key", "page", "--body", "text"]);
    assert!(said.starts_with("loaded 3 records, 27 B, into records\n"), "{said}");
    home
}

#[test]
fn loaded_records_can_be_read_version_by_version() {
    let home = with_pages();
    let body = r#"{"three":[3.0,null]}"#;
    for (address, body) in [("a", "two"), ("b", body), ("b@2", body), ("b@1", "one\n")] {
        assert_eq!(ok(&home, ["get", address]), body, "{address}");
    }
    let versions = ok(&home, ["versions", "b"]);
    let columns: Vec<Vec<&str>> = versions.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(columns[0], ["version", "record", "stored"]);
    assert_eq!((&columns[1][..2], &columns[2][..2]), (&["1", "1"][..], &["2", "3"][..]));

    assert_eq!(ok(&home, ["delete", "b"]), "deleted b; its versions are kept\n");
    let said = fails(&home, 6, ["get", "b"]);
    assert!(said.contains("was deleted with version 3"), "{said}");
    assert_eq!(ok(&home, ["get", "b@1"]), "one\n");
    let versions = ok(&home, ["versions", "b"]);
    assert!(
        versions.contains("\n      3       4  20") && versions.ends_with("  deleted\n"),
        "{versions}"
    );
    fails(&home, 6, ["delete", "b"]);
    let stored = run_with(&mut records(&home, ["put", "b"]), b"four");
    assert_eq!(stored.out, "stored 4 B as version 4 of b\n");
    assert_eq!(ok(&home, ["delete", "b", "--purge"]), "deleted b; removed 4 versions\n");
    fails(&home, 6, ["versions", "b"]);
    assert!(fails(&home, 6, ["get", "b"]).contains("has no record"));
    assert!(fails(&home, 6, ["get", "a@2"]).contains("the latest is 1"));
    assert!(ok(&home, ["verify"]).contains("no faults"));
}

#[test]
fn a_key_is_changed_only_if_it_is_in_the_state_that_was_stated() {
    let home = Home::bare();
    let put = |body: &str, arguments: &[&str]| {
        let mut put = records(&home, ["put", "page"]);
        run_with(put.args(arguments), body.as_bytes())
    };
    let refused = |arguments: &[&str], said: &str| {
        let ran = put("never", arguments);
        assert_eq!((ran.code, ran.out.as_str()), (7, ""), "{ran:?}");
        assert!(
            ran.err.contains(said) && ran.err.contains("Nothing was changed"),
            "{ran:?}"
        );
    };
    // What can only hold in a store that exists makes none.
    assert_eq!(put("one", &["--if-version", "1"]).code, 10);
    assert!(!home.path("store").exists());
    assert_eq!(
        put("one", &["--if-version", "0"]).out,
        "stored 3 B as version 1 of page\n"
    );
    refused(
        &["--if-version", "0"],
        "expected no version, found version 1 (record 1)",
    );
    assert_eq!(put("two", &["--if-version", "1"]).code, 0);
    refused(
        &["--if-version", "1"],
        "\"page\" in namespace records: expected version 1, found version 2 (record 2)",
    );
    refused(&["--if-number", "1"], "expected record 1, found version 2 (record 2)");
    refused(&["--if-version", "deleted"], "expected a deletion, found version 2");
    fails(&home, 7, ["delete", "page", "--if-version", "1"]);
    fails(&home, 7, ["delete", "page", "--purge", "--if-version", "deleted"]);
    assert_eq!(ok(&home, ["get", "page"]), "two");

    ok(&home, ["delete", "page", "--if-number", "2"]);
    refused(
        &["--if-version", "0"],
        "expected no version, found version 3 (record 3), a deletion",
    );
    assert_eq!(put("three", &["--if-version", "deleted"]).code, 0);
    ok(&home, ["delete", "page", "--if-version", "4"]);
    ok(&home, ["delete", "page", "--purge", "--if-version", "5"]);
    assert_eq!(put("new", &["--if-version", "0"]).code, 0);

    // Where only the latest version is kept, each is the first, and only the number tells them apart.
    let other = ["--namespace", "numbers", "--versions", "latest"];
    let put_other = |arguments: &[&str]| put("x", &[&other[..], arguments].concat());
    assert_eq!(put_other(&["--if-number", "7"]).code, 6, "no such namespace");
    assert!(!ok(&home, ["stats"]).contains("numbers"));
    assert_eq!(put_other(&["--if-version", "0"]).code, 0);
    let asked = put_other(&["--if-version", "1"]);
    assert!(asked.code == 1 && asked.err.contains("--if-number"), "{asked:?}");
    assert_eq!(put_other(&["--if-number", "7"]).code, 0);
    let asked = put_other(&["--if-number", "7"]);
    assert!(
        asked.code == 7 && asked.err.contains("found version 1 (record 8)"),
        "{asked:?}"
    );

    for wrong in [
        &["--if-version", "-1"][..],
        &["--if-version", "latest"],
        &["--if-version", "4294967296"],
        &["--if-number", "0"],
        &["--if-version", "1", "--if-number", "1"],
    ] {
        assert_eq!(put("", wrong).code, 2, "{wrong:?}");
    }
}

fn batch(home: &Home, lines: &str) -> Ran {
    run_with(&mut records(home, ["batch", "-"]), lines.as_bytes())
}

#[test]
fn a_batch_is_done_completely_or_not_at_all() {
    let home = Home::bare();
    // What needs something that exists makes no store.
    let needy = r#"{"do": "put", "key": "a", "body": "1"}
{"do": "require", "key": "b", "if_version": 1}"#;
    assert_eq!(batch(&home, needy).code, 10);
    assert_eq!(batch(&home, "\n").code, 10);
    assert!(!home.path("store").exists());

    let done = batch(
        &home,
        r#"{"do": "put", "key": "a", "body": "1", "if_version": 0}
{"do": "put", "key": "a", "body": "2"}

{"do": "put", "key": "gone", "body": "x"}
{"do": "put", "namespace": "titles", "key": "?", "key_bytes": "ff00", "body_bytes": "00ff"}
"#,
    );
    assert_eq!(
        (done.code, done.out.as_str()),
        (0, "made 4 changes; 1 condition held\n"),
        "{done:?}"
    );
    assert_eq!(
        batch(&home, r#"{"do": "delete", "key": "gone", "if_number": 3}"#).code,
        0
    );
    assert_eq!(ok(&home, ["get", "a"]), "2");
    let before = [scanned(&home, &[]), scanned(&home, &["--namespace", "titles"])];
    assert_eq!(before[1][0]["body_bytes"], "00ff");
    assert!(ok(&home, ["versions", "gone"]).contains("deleted"));

    let begin = r#"{"do": "put", "key": "new", "body": "never"}
{"do": "put", "namespace": "titles", "key": "new", "body": "never"}
"#;
    let end = "\n{\"do\": \"purge\", \"key\": \"a\"}\n";
    for (line, code, said) in [
        (
            r#"{"do": "require", "key": "a", "if_version": 1}"#,
            7,
            "expected version 1, found version 2",
        ),
        (
            r#"{"do": "require", "key": "gone", "if_version": 0}"#,
            7,
            "found version 2 (record 5), a deletion",
        ),
        (
            r#"{"do": "require", "key": "new", "if_version": 0}"#,
            7,
            "found version 1 (record 6)",
        ),
        (
            r#"{"do": "delete", "namespace": "titles", "key": "a", "if_number": 2}"#,
            7,
            "found no version",
        ),
        (
            r#"{"do": "delete", "key": "gone"}"#,
            6,
            "no record under \"gone\"; nothing was changed",
        ),
        (
            r#"{"do": "purge", "namespace": "typo", "key": "a"}"#,
            6,
            "no namespace \"typo\"",
        ),
        (
            r#"{"do": "purge", "key": "a"#,
            1,
            "line 3: EOF while parsing a string, at column",
        ),
        (
            r#"{"do": "purge", "key": "a", "if_versoin": 2}"#,
            1,
            "line 3: unknown field `if_versoin`",
        ),
    ] {
        let refused = batch(&home, &[begin, line, end].concat());
        assert_eq!((refused.code, refused.out.as_str()), (code, ""), "{refused:?}");
        assert!(refused.err.contains(said), "{refused:?}");
        let after = [scanned(&home, &[]), scanned(&home, &["--namespace", "titles"])];
        assert_eq!(after, before, "{line}");
    }
    assert!(!ok(&home, ["stats"]).contains("typo"));

    let checked = batch(&home, r#"{"do": "require", "key": "gone", "if_version": "deleted"}"#);
    assert_eq!(checked.out, "made 0 changes; 1 condition held\n");
    let sees_itself = r#"{"do": "require", "key": "new", "if_version": 1}"#;
    assert_eq!(batch(&home, &[begin, sees_itself].concat()).code, 0);
    assert_eq!(ok(&home, ["get", "new"]), "never");
    assert!(ok(&home, ["verify"]).contains("no faults"));
}

#[test]
fn a_batch_is_bounded_before_it_is_kept() {
    let home = Home::bare();
    let body = "x".repeat(1000);
    let line = |key: u32| format!("{{\"do\": \"put\", \"key\": \"{key}\", \"body\": \"{body}\"}}\n");
    home.write("lines", (0..9).map(line).collect::<String>());
    let said = fails(&home, 1, ["batch", "lines", "--memory", "64KiB"]);
    assert!(said.contains("line 9: expected at most 8.0 KiB in a batch"), "{said}");
    assert!(!home.path("store").exists());
    ok(&home, ["batch", "lines"]);
    assert_eq!(scanned(&home, &[]).len(), 9);
}

#[test]
fn an_interrupted_batch_changes_nothing() {
    let home = with_pages();
    let mut command = records(&home, ["batch", "-"]);
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"do\": \"purge\", \"key\": \"a\"}\n").unwrap();
    wait_until("it listens to signals", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 2 != 0
    });
    signal(&child, Signal::INT);
    let ended = ran(child.wait_with_output().unwrap());
    assert!(
        ended.code == 130 && ended.err.contains("nothing was changed"),
        "{ended:?}"
    );
    drop(stdin);
    assert_eq!(ok(&home, ["get", "a"]), "two");
}

#[test]
fn a_whole_line_is_a_record_and_several_fields_a_key() {
    let home = Home::bare();
    home.write("pages.jsonl", PAGES.replace('\n', "\r\n"));
    ok(&home, ["load", "pages.jsonl", "--key", "page,n"]);
    assert_eq!(keys(&scanned(&home, &[])), ["a/2", "b/1", "b/3"]);
    assert_eq!(ok(&home, ["get", "a/2"]), r#"{"page": "a", "n": 2, "text": "two"}"#);
}

/// If keys do not repeat, every record is the latest version of a key. Where these are stored whole, nothing is saved.
#[test]
fn keys_that_do_not_repeat_become_deltas_unless_they_are_to_stay_whole_and_that_is_warned_of() {
    let home = Home::bare();
    // Each resembles those before it with the same last two digits.
    let body = |namespace: &str, key: usize| format!("{namespace} {key} {:x?}", noise(300, key as u64 % 100));
    let line = |namespace: &str, key: usize| {
        let body = body(namespace, key);
        format!("{}\n", serde_json::json!({"key": key, "body": body}))
    };
    let load = |namespace: &str, keys: &[usize], more: &[&str]| {
        let lines: String = keys.iter().map(|&key| line(namespace, key)).collect();
        let mut load = records(
            &home,
            ["load", "-", "--body", "body", "--json", "--namespace", namespace],
        );
        let ran = run_with(load.args(more), lines.as_bytes());
        let loaded: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(ran.code, 0, "{ran:?}");
        let said = ran.err.contains("records latest automatic");
        (loaded["unique_keys"].as_bool().unwrap(), said)
    };
    let once: Vec<usize> = (0..1000).collect();
    let again = |times: usize| [&once[..], &once[..times]].concat();
    assert_eq!(load("unique", &once, &["--latest", "shared", "--quiet"]), (true, true));
    assert_eq!(load("nine", &again(9), &["--latest", "whole"]), (true, true));
    assert_eq!(load("ten", &again(10), &["--latest", "whole"]), (false, false));
    assert_eq!(load("few", &once[..999], &[]), (false, false));
    assert_eq!(load("latest", &once, &["--versions", "latest"]), (false, false));
    // Here it is not set.
    assert_eq!(load("automatic", &once, &[]), (true, false));
    let more: Vec<usize> = (1000..1200).collect();
    assert_eq!(load("automatic", &more, &[]), (false, false));

    let stats = run(&mut records(&home, ["stats", "--json"]));
    let spaces: Value = serde_json::from_str(&stats.out).unwrap();
    let spaces = spaces["namespaces"].as_array().unwrap();
    let is = |field: &str| -> Vec<&Value> { spaces.iter().map(|space| &space[field]).collect() };
    assert_eq!(is("namespace"), ["unique", "nine", "ten", "few", "latest", "automatic"]);
    assert_eq!(is("unique_keys"), [true, true, false, false, false, true]);
    assert_eq!(is("latest_as")[..3], ["shared", "whole", "whole"]);
    assert_eq!(stats.err.matches("records latest automatic").count(), 2, "{stats:?}");
    // It is as the warning says.
    let deltas = |space: usize| spaces[space]["deltas"]["count"].as_u64().unwrap();
    assert!(deltas(0) == 0 && deltas(4) == 900, "{} and {}", deltas(0), deltas(4));
    assert!(deltas(5) >= 200, "{}", deltas(5));

    // What the warning says is enough.
    let said = ok(&home, ["latest", "automatic", "--namespace", "unique"]);
    assert!(
        said.starts_with("unique stores latest versions as suits them"),
        "{said}"
    );
    load("unique", &more, &[]);
    let stats: Value = serde_json::from_str(&ok(&home, ["stats", "--json"])).unwrap();
    assert!(
        stats["namespaces"][0]["deltas"]["count"].as_u64() >= Some(200),
        "{stats}"
    );
    // Once the same keys come again, all is well.
    assert_eq!(load("unique", &once, &[]), (false, false));
}

/// Several keys with the same bytes take about as much as one, also in several namespaces.
#[test]
fn the_same_bytes_under_many_keys_are_stored_once() {
    let home = Home::bare();
    let body = format!("{:x?}", noise(20_000, 7));
    let load = |namespace: &str, more: &[&str]| {
        let line = |key: usize| format!("{}\n", serde_json::json!({"key": key, "body": body}));
        let lines: String = (0..20).map(line).collect();
        let mut load = records(&home, ["load", "-", "--body", "body", "--namespace", namespace]);
        assert_eq!(run_with(load.args(more), lines.as_bytes()).code, 0);
    };
    load("apart", &["--latest", "whole"]);
    load("pages", &[]);
    load("others", &["--latest", "shared"]);
    let stats: Value = serde_json::from_str(&ok(&home, ["stats", "--json"])).unwrap();
    let whole = |space: usize| stats["namespaces"][space]["whole"]["count"].as_u64().unwrap();
    assert_eq!((whole(0), whole(1) + whole(2)), (20, 1), "{stats}");
    for space in 1..3 {
        let most = stats["namespaces"][space]["latest_retrievals"]["max"].as_u64().unwrap();
        assert!(most <= 8, "{most}");
    }
    // It stays so for the others when one of them changes, and the other way round.
    home.write(
        "new",
        "something else entirely, and longer than what is not worth looking for",
    );
    ok(&home, ["put", "19", "new", "--namespace", "others"]);
    for (key, space) in [("0", "pages"), ("19", "pages"), ("0", "others"), ("18", "others")] {
        assert_eq!(ok(&home, ["get", key, "--namespace", space]), body);
    }
    assert_eq!(ok(&home, ["get", "19@1", "--namespace", "others"]), body);
    assert!(ok(&home, ["verify"]).contains("no faults"));
    let set: Value = serde_json::from_str(&ok(&home, ["latest", "--namespace", "apart", "--json"])).unwrap();
    assert_eq!(set["latest"], "whole");
    misused(&home, ["latest", "sometimes"]);
}

#[test]
fn lines_that_cannot_be_loaded_are_named_and_the_others_loaded() {
    let home = Home::bare();
    let long = format!("{{\"key\": \"{}\"}}", "k".repeat(4097));
    let lines = [
        r#"{"key": "first"}"#,
        "no JSON",
        r#"{"other": "x"}"#,
        &long,
        "17",
        r#"{"key": "last"}"#,
        r#"{"key": "cut"#,
    ];
    home.write("lines", lines.join("\n"));
    let loaded = run(&mut records(&home, ["load", "lines"]));
    assert_eq!(loaded.code, 3, "{loaded:?}");
    for said in [
        "line 2: expected a JSON object, which begins with {, found \"no JSON\"\n",
        "line 3: there is no field \"key\"\n",
        "line 4: the key: expected at most 4096 bytes, found 4097\n",
        "line 5: ",
        "line 7: EOF",
    ] {
        assert!(loaded.err.contains(said), "{said} in {loaded:?}");
    }
    assert!(
        loaded
            .out
            .ends_with("  5 of 7 lines could NOT be loaded (named above)\n"),
        "{loaded:?}"
    );
    assert_eq!(keys(&scanned(&home, &["--in-order"])), ["first", "last"]);

    let strict = ["load", "lines", "--strict", "--namespace", "strict"];
    let said = fails(&home, 1, strict.iter().chain(&["--quiet"]));
    assert!(
        said.contains("line 2: ") && said.contains("1 record is stored, up to line 1"),
        "{said}"
    );
    assert_eq!(keys(&scanned(&home, &["--namespace", "strict"])), ["first"]);
}

#[test]
fn a_line_is_bounded_before_it_is_kept() {
    let home = Home::bare();
    let long = format!("{{\"key\": \"long\", \"x\": \"{}\"}}", "x".repeat(10_000));
    home.write("lines", format!("{long}\n{{\"key\": \"short\"}}\n"));
    let loaded = run(&mut records(&home, ["load", "lines", "--memory", "64KiB"]));
    assert_eq!(loaded.code, 3, "{loaded:?}");
    assert!(
        loaded.err.contains("line 1: expected at most 8.0 KiB in a line"),
        "{loaded:?}"
    );
    assert_eq!(keys(&scanned(&home, &[])), ["short"]);
}

#[test]
fn standard_input_and_what_zstd_wrote_are_loaded_alike() {
    let home = Home::bare();
    let packed = zstd::stream::encode_all(PAGES.as_bytes(), 3).unwrap();
    home.write("packed", &packed);
    let load = |namespace: &str, file: &str| records(&home, ["load", file, "--key", "page", "--namespace", namespace]);
    assert_eq!(run_with(&mut load("plain", "-"), PAGES.as_bytes()).code, 0);
    assert_eq!(run_with(&mut load("stream", "-"), &packed).code, 0);
    assert_eq!(run(&mut load("file", "packed")).code, 0);
    let bodies = |namespace| -> Vec<Value> {
        let records = scanned(&home, &["--namespace", namespace]);
        records.into_iter().map(|record| record["body"].clone()).collect()
    };
    assert_eq!(bodies("stream"), bodies("plain"));
    assert_eq!(bodies("file"), bodies("plain"));

    home.write("cut", &packed[..packed.len() - 5]);
    let cut = run(&mut load("cut", "cut"));
    assert_eq!(cut.code, 1, "{cut:?}");
    assert!(
        cut.err.contains("cannot read cut: incomplete frame; ") && cut.err.contains("stored"),
        "{cut:?}"
    );
}

#[test]
fn any_bytes_are_a_key_and_are_shown_so_that_they_do_no_harm() {
    let home = Home::bare();
    let odd: [OsString; 7] = [
        "".into(),
        "a/b c@".into(),
        "user@1".into(),
        "@7".into(),
        "two\nlines".into(),
        "\x1b[31mred".into(),
        OsString::from_vec(b"not \xff\xfe utf8".to_vec()),
    ];
    for key in &odd {
        let stored = run_with(records(&home, ["put"]).arg(key), key.as_encoded_bytes());
        assert_eq!(stored.code, 0, "{stored:?}");
        assert!(
            stored.out.lines().count() == 1 && !stored.out.contains('\x1b'),
            "{stored:?}"
        );
    }
    for key in &odd {
        let got = run(records(&home, ["get", "--version", "latest"]).arg(key));
        assert_eq!(got.raw, key.as_encoded_bytes(), "{got:?}");
        let got = run(records(&home, ["get", "--version=1"]).arg(key));
        assert_eq!(got.raw, key.as_encoded_bytes(), "{got:?}");
    }
    fails(&home, 6, ["get", "user@1"]);
    assert!(fails(&home, 2, ["get", "user@0"]).contains("--version latest"));
    assert!(fails(&home, 2, ["get", "user@4294967296"]).contains("expected a version from 1 to 4294967295"));
    let listed = ok(&home, ["scan", "--keys-only"]);
    assert_eq!(
        listed.lines().collect::<Vec<_>>(),
        [
            "",
            "\\x1b[31mred",
            "@7",
            "a/b c@",
            "not \\xff\\xfe utf8",
            "two\\nlines",
            "user@1"
        ]
    );
    for arguments in [&["get", "no\nkey\x1b"][..], &["versions", "no\nkey\x1b"]] {
        assert!(!fails(&home, 6, arguments).contains('\x1b'));
    }
}

#[test]
fn load_reads_the_output_of_scan() {
    let home = with_pages();
    let (body, key) = (
        noise(70_000, 1),
        OsString::from_vec(b"\xff\0".map(|byte| byte | 1).to_vec()),
    );
    run_with(records(&home, ["put"]).arg(&key), &body);
    for order in ["--from=", "--in-order"] {
        let copy = home.path(order);
        let written = run(&mut records(&home, ["scan", order])).raw;
        let mut load = records(&home, ["load", "-", "--scanned", "--store"]);
        let loaded = run_with(load.arg(&copy), &written);
        assert_eq!(
            (loaded.code, loaded.out.starts_with("loaded 3 records")),
            (0, true),
            "{loaded:?}"
        );
        let bare = |store: &OsStr| -> Vec<Value> {
            let text = ok(&home, [OsStr::new("scan"), OsStr::new("--store"), store]);
            let record = |line| {
                let mut record: Value = serde_json::from_str(line).unwrap();
                // The store assigns these fields.
                record["number"] = Value::Null;
                record["version"] = Value::Null;
                record
            };
            text.lines().map(record).collect()
        };
        assert_eq!(bare(copy.as_os_str()), bare(home.path("store").as_os_str()));
        let got = run(records(&home, ["get", "--store"]).arg(&copy).arg(&key));
        assert_eq!(got.raw, body);
    }
}

#[test]
fn a_scan_can_be_a_part() {
    let home = Home::bare();
    let names = ["b/1", "a/1", "c", "a/2", "a", "ab"];
    let lines = names.map(|name| format!("{{\"key\": \"{name}\"}}\n")).concat();
    run_with(&mut records(&home, ["load", "-"]), lines.as_bytes());
    for (arguments, expected) in [
        (&[][..], &["a", "a/1", "a/2", "ab", "b/1", "c"][..]),
        (&["--prefix", "a/"], &["a/1", "a/2"]),
        (&["--from", "a/2", "--to", "b/1"], &["a/2", "ab"]),
        (&["--from", "b"], &["b/1", "c"]),
        (&["--to", "a/1"], &["a"]),
        (&["--from", "b", "--to", "a"], &[]),
        (&["--limit", "2"], &["a", "a/1"]),
        (&["--limit", "0"], &[]),
        (&["--in-order", "--limit", "3"], &["b/1", "a/1", "c"]),
        (&["--in-order", "--after", "4"], &["a", "ab"]),
    ] {
        assert_eq!(keys(&scanned(&home, arguments)), expected, "{arguments:?}");
        let listed = ok(&home, [&["scan", "--keys-only"], arguments].concat());
        assert_eq!(listed.lines().collect::<Vec<_>>(), expected, "{arguments:?}");
    }
    for arguments in [
        &["--after", "3"][..],
        &["--prefix", "a", "--from", "a"],
        &["--in-order", "--to", "a"],
    ] {
        assert_eq!(
            run(&mut records(&home, [&["scan"], arguments].concat())).code,
            2,
            "{arguments:?}"
        );
    }
}

#[test]
fn several_records_are_printed_in_the_order_of_their_names() {
    let home = with_pages();
    let get = |arguments: &[&str]| {
        let ran = run(&mut records(&home, [&["get"], arguments].concat()));
        (ran.code, ran.err, untimed(values(&ran.out)))
    };
    let (code, err, found) = get(&["b", "a", "b@1", "b"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(
        found[0],
        serde_json::json!({"key": "b", "version": 2, "number": 3, "body": "{\"three\":[3.0,null]}"})
    );
    assert_eq!(
        found[2],
        serde_json::json!({"key": "b", "version": 1, "number": 1, "body": "one\n"})
    );
    assert_eq!(keys(&found), ["b", "a", "b", "b"]);
    // The version that `--if-version` needs comes with the body.
    let (code, _, found) = get(&["a", "--json"]);
    assert_eq!(
        (code, &found[1]["body"], &found[1]["version"]),
        (0, &"two".into(), &1.into())
    );

    let (code, err, found) = get(&["x", "a", "b@3", "b"]);
    assert_eq!((code, keys(&found)), (6, vec!["a", "b"]));
    assert!(
        err.lines().count() == 2 && err.contains("under \"x\"") && err.contains("\"b\" has no version 3"),
        "{err}"
    );
    let (code, err, found) = get(&["x", "a", "y", "--json"]);
    assert_eq!(
        (code, &found[1]["key"], &found[2]["type"]),
        (6, &"a".into(), &"end".into())
    );
    let last: Value = serde_json::from_str(err.lines().last().unwrap()).unwrap();
    assert!(
        last["code"] == 6 && last["message"].as_str().unwrap().contains("\"y\""),
        "{err}"
    );

    let many: Vec<String> = (0..100).map(|key| key.to_string()).collect();
    let lines: String = many.iter().map(|key| format!("{{\"key\": \"{key}\"}}\n")).collect();
    run_with(&mut records(&home, ["load", "-"]), lines.as_bytes());
    let asked: Vec<&str> = many.iter().rev().map(String::as_str).collect();
    for compacted in [false, true] {
        let (code, _, found) = get(&asked);
        assert!(code == 0 && keys(&found) == asked, "compacted: {compacted}");
        ok(&home, ["compact"]);
    }
}

#[test]
fn deleted_keys_are_listed_with_their_versions() {
    let home = with_pages();
    let deleted = |arguments: &[&str]| untimed(scanned(&home, &[&["--deleted"], arguments].concat()));
    assert!(deleted(&[]).is_empty());
    ok(&home, ["delete", "b"]);
    ok(&home, ["delete", "a"]);
    run_with(&mut records(&home, ["put", "c"]), b"three");
    let found = deleted(&[]);
    assert_eq!(
        found[0],
        serde_json::json!({"key": "a", "version": 2, "number": 5, "deleted": true})
    );
    assert_eq!(
        found[1],
        serde_json::json!({"key": "b", "version": 3, "number": 4, "deleted": true})
    );
    assert_eq!(keys(&found), ["a", "b"]);
    for (arguments, expected) in [
        (&["--in-order"][..], &["b", "a"][..]),
        (&["--in-order", "--after", "4"], &["a"]),
        (&["--prefix", "b"], &["b"]),
        (&["--from", "b", "--limit", "1"], &["b"]),
        (&["--to", "a"], &[]),
    ] {
        assert_eq!(keys(&deleted(arguments)), expected, "{arguments:?}");
        let listed = ok(&home, [&["scan", "--deleted", "--keys-only"], arguments].concat());
        assert_eq!(listed.lines().collect::<Vec<_>>(), expected, "{arguments:?}");
    }
    assert_eq!(keys(&scanned(&home, &[])), ["c"]);
    // It exists again.
    run_with(&mut records(&home, ["put", "b"]), b"four");
    assert_eq!(keys(&deleted(&[])), ["a"]);
    // It is forgotten.
    ok(&home, ["delete", "a", "--purge"]);
    assert!(deleted(&[]).is_empty());

    let latest = ["--namespace", "log", "--versions", "latest"];
    run_with(records(&home, ["put", "x"]).args(latest), b"");
    let said = fails(&home, 1, ["scan", "--deleted", "--namespace", "log"]);
    assert!(said.contains("nothing is left of a deleted key"), "{said}");
}

/// Returns the files of a store, without its key.
pub(crate) fn files_of_store(home: &Home) -> Vec<PathBuf> {
    let segments = std::fs::read_dir(home.path("store/redb.segments")).unwrap();
    let segments = segments.map(|entry| entry.unwrap().path());
    segments.chain([home.path("store/redb")]).collect()
}

fn bytes_of_store(home: &Home) -> u64 {
    let files = files_of_store(home).into_iter();
    files.map(|file| file.metadata().unwrap().len()).sum()
}

/// Changes a bit wherever a store has these bytes, at this distance from where they begin.
#[track_caller]
pub(crate) fn change_in_store(home: &Home, begin: &[u8], distance: usize) {
    let mut changed = 0;
    for file in files_of_store(home) {
        let mut bytes = std::fs::read(&file).unwrap();
        for at in 0..bytes.len() {
            if bytes[at..].starts_with(begin) {
                bytes[at + distance] ^= 1;
                changed += 1;
            }
        }
        std::fs::write(&file, bytes).unwrap();
    }
    assert!(changed > 0);
}

#[test]
fn keys_are_listed_without_a_look_at_their_records() {
    let home = Home::bare();
    let body = noise(3000, 1);
    run_with(&mut records(&home, ["put", "a"]), &body);
    run_with(&mut records(&home, ["put", "gone"]), b"away");
    ok(&home, ["delete", "gone"]);
    change_in_store(&home, &body[..100], 0);
    fails(&home, 3, ["scan"]);
    fails(&home, 1, ["get", "a"]);
    assert_eq!(ok(&home, ["scan", "--keys-only"]), "a\n");
    assert_eq!(ok(&home, ["scan", "--keys-only", "--prefix", "a"]), "a\n");
    assert_eq!(ok(&home, ["scan", "--keys-only", "--deleted"]), "gone\n");
}

#[test]
fn commands_that_only_read_create_nothing() {
    let home = Home::bare();
    let looks: [&[&str]; 6] = [
        &["get", "a"],
        &["delete", "a"],
        &["scan"],
        &["versions", "a"],
        &["stats"],
        &["verify"],
    ];
    let none = |code, said: &str| {
        for look in looks {
            let error = fails(&home, code, look);
            assert!(error.contains(said), "{error}");
        }
    };
    none(10, "there is no store of records in ");
    std::fs::create_dir(home.path("store")).unwrap();
    none(10, "there is no store of records in ");
    assert_eq!(std::fs::read_dir(home.path("store")).unwrap().count(), 0);
    home.write("store/letter.txt", "dear");
    none(10, "letter.txt is in it");
    std::fs::remove_dir_all(home.path("store")).unwrap();
    home.write("store", "a file");
    none(1, "store: not a directory");

    let home = with_pages();
    for look in &looks[..4] {
        let error = fails(&home, 6, [look, &["--namespace", "typo"][..]].concat());
        assert!(error.contains("no namespace \"typo\""), "{error}");
    }
    assert!(!ok(&home, ["stats"]).contains("typo"));
    for arguments in [&["load", "absent"][..], &["put", "key", "absent"], &["load", "files"]] {
        fails(&home, 1, arguments.iter().chain(&["--store", "new"]));
        assert!(!home.path("new").exists(), "made for nothing");
    }
    assert!(
        home.fails(2, ["records", "stats"])
            .contains("--store DIR, or set IBID_STORE")
    );
    let said = home.fails(2, ["records", "stats", "--store", "host:/store"]);
    assert!(
        said.contains("./host:/store") && said.contains("a store of records is a folder"),
        "{said}"
    );
}

#[test]
fn a_namespace_keeps_what_it_was_made_to_keep() {
    let home = Home::bare();
    home.write("pages.jsonl", PAGES);
    let load = ["load", "pages.jsonl", "--key", "page"];
    ok(&home, load.iter().chain(&["--versions", "latest"]));
    ok(&home, load);
    assert_eq!(ok(&home, ["versions", "b"]).lines().count(), 2, "one version");
    let said = fails(&home, 1, load.iter().chain(&["--versions", "kept"]));
    assert!(
        said.contains("versions are not kept in namespace") && said.contains("expected to be kept"),
        "{said}"
    );
    assert_eq!(ok(&home, ["delete", "b"]), "deleted b; removed 1 version\n");
    let stats = ok(&home, ["stats"]);
    assert!(stats.contains("latest") && stats.contains("on disk: "), "{stats}");
}

#[test]
fn damage_is_found_and_code_4() {
    let home = Home::bare();
    let body = "in the very same place as it was before";
    for name in ["a", "b", "c"] {
        run_with(&mut records(&home, ["put", name]), format!("{name}: {body}").as_bytes());
    }
    change_in_store(&home, b"b: in the", 20);
    let found = run(&mut records(&home, ["verify"]));
    assert_eq!(found.code, 4, "{found:?}");
    assert!(
        found.out.starts_with("fault: record 2: ") && found.out.contains("\nFOUND 1 fault\n`ibid records salvage`"),
        "{found:?}"
    );
    assert_eq!(run(&mut records(&home, ["stats"])).code, 3);
    assert!(fails(&home, 1, ["get", "b"]).contains("the store is damaged"));
    assert_eq!(ok(&home, ["get", "a"]), format!("a: {body}"));
    // The others are listed, and can be copied.
    let scanned = run(&mut records(&home, ["scan"]));
    assert_eq!((scanned.code, scanned.out.lines().count()), (3, 2), "{scanned:?}");
    assert!(
        scanned.err.contains("the body under \"b\" cannot be read"),
        "{scanned:?}"
    );
    let mut copy = records(&home, ["load", "-", "--scanned", "--store", "copy"]);
    run_with(&mut copy, scanned.out.as_bytes());
    assert_eq!(ok(&home, ["get", "c", "--store", "copy"]), format!("c: {body}"));
    let several = run(&mut records(&home, ["get", "a", "b", "c"]));
    assert_eq!((several.code, several.out.lines().count()), (1, 2), "{several:?}");
    // So can the store, with everything that belongs to them.
    let salvaged = run(&mut records(&home, ["salvage", "--into", "salvaged"]));
    assert_eq!(salvaged.code, 3, "{salvaged:?}");
    assert!(
        salvaged
            .out
            .starts_with("lost: version 1 of \"b\" in namespace \"records\", the latest: ")
            && salvaged.out.ends_with("into salvaged\nLOST 1 thing\n"),
        "{salvaged:?}"
    );
    assert_eq!(ok(&home, ["get", "c", "--store", "salvaged"]), format!("c: {body}"));
    assert!(ok(&home, ["verify", "--store", "salvaged"]).contains("no faults"));
    assert!(fails(&home, 1, ["salvage", "--into", "salvaged"]).contains("salvaged is not empty. Give --into another"));
    // Truncated so much that the store can't be opened for writing.
    let file = home.path("store/redb");
    let sound = std::fs::read(&file).unwrap();
    std::fs::write(&file, &sound[..sound.len() / 2]).unwrap();
    let found = run(&mut records(&home, ["verify", "--quiet"]));
    assert_eq!(found.code, 4, "{found:?}");
    let said = found.out + &found.err;
    assert!(
        said.contains("damaged") || said.contains("the file ends before a page that it needs"),
        "{said}"
    );
    assert!(fails(&home, 1, ["delete", "a"]).contains("is damaged"));
    // Without its first page it can't be opened at all.
    let without = [&[0; 4096][..], &sound[4096..]].concat();
    std::fs::write(&file, without).unwrap();
    let said = fails(&home, 4, ["verify", "--quiet"]);
    assert!(
        said.contains("damaged") && said.contains("`ibid records salvage`"),
        "{said}"
    );
}

#[test]
fn a_pipe_that_is_closed_early_is_no_failure() {
    let home = Home::bare();
    run_with(&mut records(&home, ["put", "large"]), &noise(4 << 20, 3));
    for arguments in [&["scan"][..], &["scan", "--json"], &["get", "large"]] {
        let mut command = records(&home, arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(
            (ended.status.code(), ended.stderr.as_slice()),
            (Some(0), &b""[..]),
            "{arguments:?}"
        );
    }
}

#[test]
fn one_at_a_time_writes_a_store_and_others_read_it() {
    let home = with_pages();
    let (mut child, mut stdin) = loading(&home, &["--body", "body", "--durability", "sync"]);
    for change in [
        &["delete", "a"][..],
        &["compact"],
        &["expire"],
        &["retention", "--keep-last", "1"],
    ] {
        let said = fails(&home, 1, change);
        assert!(said.contains("is open already"), "{change:?}: {said}");
    }
    assert_eq!(ok(&home, ["get", "a"]), "two");
    assert_eq!(ok(&home, ["get", "b@1"]), "one\n");
    assert_eq!(keys(&scanned(&home, &[])), ["a", "b"]);
    assert_eq!(ok(&home, ["versions", "b"]).lines().count(), 3);
    assert_eq!(ok(&home, ["verify", "--quiet"]), "");
    for reading in [&["stats"][..], &["retention"], &["expire", "--dry-run"]] {
        ok(&home, reading);
    }
    // What is stored meanwhile is seen as soon as it is on disk.
    let lines = json_lines(&growing_pages(20, 40));
    stdin.write_all(lines.as_bytes()).unwrap();
    let seen = || {
        ok(&home, ["scan", "--namespace", "piped", "--keys-only"])
            .lines()
            .count()
    };
    wait_until("records are seen while they are loaded", || seen() > 0);
    assert!(child.try_wait().unwrap().is_none(), "it goes on");
    drop(stdin);
    assert!(child.wait().unwrap().success());
    assert_eq!(ok(&home, ["get", "a"]), "two");
}

#[test]
fn a_command_that_only_reads_changes_nothing_on_disk() {
    let home = with_pages();
    let files = || {
        let list = Command::new("find")
            .args(["store", "-type", "f", "-printf", "%p %s %T@ %C@\n"])
            .current_dir(home.path("."))
            .output();
        let list = String::from_utf8(list.unwrap().stdout).unwrap();
        let mut list: Vec<String> = list.lines().map(str::to_owned).collect();
        list.sort();
        list
    };
    let before = files();
    assert!(before.len() > 1, "{before:?}");
    for reading in [
        &["get", "a"][..],
        &["scan"],
        &["versions", "b"],
        &["stats"],
        &["verify", "--quiet"],
        &["retention"],
        &["expire", "--dry-run"],
    ] {
        ok(&home, reading);
        assert_eq!(files(), before, "{reading:?}");
    }
}

/// Starts a load from a pipe. Returns when it has created the store and waits for input.
fn loading(home: &Home, arguments: &[&str]) -> (Child, std::process::ChildStdin) {
    let mut command = records(home, [&["load", "-", "--namespace", "piped"], arguments].concat());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The program reads the beginning of its input before it opens the store.
    stdin.write_all(b"    \n").unwrap();
    // Look at its open files: opening the store here would keep the program from opening it.
    let open_files = format!("/proc/{}/fd", child.id());
    wait_until("the store is open", || {
        let files = std::fs::read_dir(&open_files).unwrap();
        files
            .flatten()
            .any(|file| std::fs::read_link(file.path()).is_ok_and(|target| target.ends_with("store/redb")))
    });
    std::thread::sleep(Duration::from_millis(200));
    (child, stdin)
}

fn numbered_line(number: usize) -> String {
    format!("{{\"key\": \"{number:06}\", \"body\": \"{}\"}}\n", "x".repeat(2000))
}

#[test]
fn a_killed_load_leaves_the_lines_up_to_some_line() {
    for durability in ["sync", "batched", "none"] {
        let home = Home::bare();
        let (mut child, mut stdin) = loading(&home, &["--body", "body", "--durability", durability]);
        let taken = Arc::new(AtomicUsize::new(0));
        let counted = taken.clone();
        let writer = std::thread::spawn(move || {
            // Write until the program is gone.
            for number in 0.. {
                let line = numbered_line(number);
                if stdin.write_all(line.as_bytes()).is_err() {
                    return number;
                }
                counted.fetch_add(line.len(), Ordering::Relaxed);
            }
            unreachable!()
        });
        // It reads on only when it has stored what it read.
        wait_until("something is stored", || taken.load(Ordering::Relaxed) > 60 << 20);
        signal(&child, Signal::KILL);
        child.wait().unwrap();
        let written = writer.join().unwrap();

        assert!(ok(&home, ["verify"]).contains("no faults"));
        let kept = scanned(&home, &["--namespace", "piped", "--in-order"]);
        assert!(kept.len() < written, "{} of {written}", kept.len());
        // With `sync`, the data synced every few megabytes must be there.
        assert!(durability != "sync" || kept.len() > 10_000, "{}", kept.len());
        for (number, record) in kept.iter().enumerate() {
            assert_eq!(record["key"], format!("{number:06}"), "{durability}");
        }
        // Loading continues from there.
        let rest: String = (kept.len()..kept.len() + 10).map(numbered_line).collect();
        let more = run_with(
            &mut records(&home, ["load", "-", "--namespace", "piped", "--body", "body"]),
            rest.as_bytes(),
        );
        assert_eq!(more.code, 0, "{more:?}");
        assert_eq!(scanned(&home, &["--namespace", "piped"]).len(), kept.len() + 10);
    }
}

#[test]
fn lines_read_are_stored_while_a_load_waits_for_more() {
    let home = Home::bare();
    let (mut child, mut stdin) = loading(&home, &["--body", "body"]);
    let half = numbered_line(2);
    let lines = [numbered_line(0), numbered_line(1), half[..100].to_owned()].concat();
    stdin.write_all(lines.as_bytes()).unwrap();
    // It takes a second to commit, and another to sync.
    std::thread::sleep(Duration::from_millis(4000));
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    drop(stdin);
    assert_eq!(keys(&scanned(&home, &["--namespace", "piped"])), ["000000", "000001"]);
}

/// Returns the command in a shell that lets no file grow beyond so many blocks: a write beyond that
/// fails as on a full disk.
fn with_files_up_to(blocks: u32, command: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited
        .args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"")])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(command.get_current_dir().unwrap())
        .env_clear()
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited
}

/// Returns the number after the last occurrence of a text.
fn number_after(text: &str, words: &str) -> Option<usize> {
    let rest = text.rsplit_once(words)?.1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[test]
fn a_load_that_finds_no_space_says_up_to_which_line_records_are_stored() {
    let home = Home::bare();
    let lines = 1000;
    home.write("lines", (1..=lines).map(numbered_line).collect::<String>());
    let (mut done, mut in_part, mut in_doubt) = (0, 0, 0);
    // Of 512 bytes, each a sixth more than the one before.
    let limits: Vec<u32> = (0..12).map(|step| (3000.0 * 1.17_f64.powi(step)) as u32).collect();
    for (durability, step) in [("sync", 1), ("batched", 4), ("none", 4)] {
        for &blocks in limits.iter().step_by(step) {
            let _ = std::fs::remove_dir_all(home.path("store"));
            // Small batches, so that there are many.
            let load = ["load", "lines", "--body", "body", "--memory", "4MiB", "--quiet"];
            let load = records(&home, load.iter().chain(&["--durability", durability]));
            let ran = run(&mut with_files_up_to(blocks, &load));
            let case = format!("{durability}, {blocks} blocks: {ran:?}");
            let found = scanned(&home, &["--in-order"]).len();
            if ran.code == 0 {
                assert_eq!(found, lines, "{case}");
                done += 1;
                continue;
            }
            assert!(ran.code == 1 && !ran.err.contains("panicked"), "{case}");
            let least = number_after(&ran.err, " stored, up to line ").unwrap_or(0);
            let most = number_after(&ran.err, "up to line ").unwrap_or(0);
            assert!(least > 0 || ran.err.contains("nothing was stored"), "{case}");
            assert!(least <= found && found <= most, "{found} were stored: {case}");
            if most > least {
                assert!(ran.err.contains("`ibid records scan --in-order --keys-only`"), "{case}");
            }
            in_part += u32::from(0 < least && least < lines);
            in_doubt += u32::from(most > least);
            let keys = ok(&home, ["scan", "--in-order", "--keys-only"]);
            assert_eq!(
                keys.lines().last(),
                (found > 0).then(|| format!("{found:06}")).as_deref(),
                "{case}"
            );
        }
    }
    assert!(
        done > 0 && in_part > 0 && in_doubt > 0,
        "{done} done, {in_part} in part, {in_doubt} in doubt"
    );
}

#[test]
fn a_load_whose_compaction_fails_says_that_its_lines_are_stored() {
    let home = Home::bare();
    let body = noise(3000, 1);
    run_with(&mut records(&home, ["put", "damaged"]), &body);
    change_in_store(&home, &body, 0);
    home.write("lines", (1..=3).map(numbered_line).collect::<String>());
    let said = fails(&home, 1, ["load", "lines", "--compact", "--quiet"]);
    assert!(
        said.contains("the store is damaged") && said.contains("3 records are stored, up to line 3"),
        "{said}"
    );
    assert_eq!(ok(&home, ["scan", "--keys-only"]).lines().count(), 4);
}

#[test]
fn an_interrupted_load_says_how_far_it_came() {
    let home = Home::bare();
    let (child, mut stdin) = loading(&home, &[]);
    let lines: String = (0..10).map(numbered_line).collect();
    stdin.write_all(lines.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    signal(&child, Signal::INT);
    let start = Instant::now();
    let ended = ran(child.wait_with_output().unwrap());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(
        ended.err.contains("interrupted; 10 records are stored, up to line 11"),
        "{ended:?}"
    );
    drop(stdin);
    assert_eq!(scanned(&home, &["--namespace", "piped"]).len(), 10);
}

#[track_caller]
fn all_are_there(home: &Home, pages: &[(String, Vec<String>)]) {
    for (key, bodies) in pages {
        for (version, body) in (1..).zip(bodies) {
            assert_eq!(ok(home, ["get", &format!("{key}@{version}")]), *body, "{key}@{version}");
        }
    }
    assert!(ok(home, ["verify"]).contains("no faults"));
}

#[test]
fn a_compacted_store_is_smaller_and_equal() {
    let home = Home::bare();
    let pages = growing_pages(4, 25);
    home.write("lines", json_lines(&pages));
    let said = ok(&home, ["load", "lines", "--body", "body"]);
    assert!(said.contains("`ibid records compact`"), "{said}");
    let before = bytes_of_store(&home);
    let said = ok(&home, ["compact"]);
    assert!(said.starts_with("compressed 100 records\n"), "{said}");
    assert!(bytes_of_store(&home) < before, "{said}");
    all_are_there(&home, &pages);
    // Compaction fills a half-empty block with records of others.
    let all = ["load", "lines", "--body", "body", "--namespace", "again", "--compact"];
    let said = ok(&home, all);
    assert!(said.contains("\nand compressed 200 records\n"), "{said}");
    assert_eq!(scanned(&home, &["--namespace", "again"]).len(), 4);
    all_are_there(&home, &pages);

    let stats: Value = serde_json::from_str(&ok(&home, ["stats", "--json"])).unwrap();
    // The other namespace has the same bytes, which are stored once.
    let most = &stats["namespaces"][0]["latest_retrievals"]["max"];
    assert_eq!(
        (&stats["namespaces"][0]["whole"]["count"], most),
        (&0.into(), &1.into())
    );
    let space = &stats["namespaces"][1];
    assert_eq!(
        (&space["whole"]["count"], &space["deltas"]["count"]),
        (&4.into(), &96.into())
    );
    assert_eq!((&space["chains"], &space["chain_longest"]), (&4.into(), &25.into()));
    assert_eq!(
        (&space["in_blocks"]["count"], &space["latest_retrievals"]["max"]),
        (&100.into(), &0.into())
    );
    let shown = ok(&home, ["stats"]);
    assert!(shown.contains("others that are read for one record\n"), "{shown}");

    let nowhere = home.path("nowhere");
    let said = fails(&home, 10, ["compact", "--store", nowhere.to_str().unwrap()]);
    assert!(said.contains("there is no store") && !nowhere.exists(), "{said}");
}

/// Returns a store with data that takes long to compress, and a function that compacts it.
fn with_much_to_compress() -> (Home, impl Fn() -> Child) {
    let home = Home::bare();
    let hex = |number: usize| format!("{:x?}", noise(3000, number as u64));
    let line = |number: usize| {
        format!(
            "{}\n",
            serde_json::json!({"key": number.to_string(), "body": hex(number)})
        )
    };
    home.write("lines", (0..4000).map(line).collect::<String>());
    ok(&home, ["load", "lines", "--body", "body"]);
    let mut command = records(&home, ["compact", "--quiet"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let command = std::cell::RefCell::new(command);
    (home, move || command.borrow_mut().spawn().unwrap())
}

/// Returns what files take of the disk, bytes.
fn size_of_files(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let size = |path: PathBuf| match path.metadata() {
        Ok(found) if found.is_dir() => size_of_files(&path),
        Ok(found) => 512 * found.blocks(),
        Err(_) => 0, // it was just removed
    };
    entries.flatten().map(|entry| size(entry.path())).sum()
}

/// The body comes piece by piece, so what is killed has stored a part of it.
#[test]
fn a_killed_put_of_a_long_body_leaves_the_version_before() {
    let home = Home::bare();
    let first = noise(6 << 20, 1);
    run_with(&mut records(&home, ["put", "long"]), &first);
    let before = size_of_files(&home.path("store"));
    for (seed, part) in [(2, 5 << 20), (3, 20 << 20)] {
        let mut child = records(&home, ["put", "long"]).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(&noise(part, seed)).unwrap();
        wait_until("a part is stored", || {
            size_of_files(&home.path("store")) > before + (2 << 20)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(run(&mut records(&home, ["get", "long"])).raw == first);
        assert_eq!(ok(&home, ["versions", "long"]).lines().count(), 2, "one version");
        ok(&home, ["verify"]);
        ok(&home, ["compact"]);
        let after = size_of_files(&home.path("store"));
        assert!(after < before + (1 << 20), "{before} bytes before, {after} after");
    }
    let second = noise(6 << 20, 4);
    run_with(&mut records(&home, ["put", "long"]), &second);
    assert!(run(&mut records(&home, ["get", "long"])).raw == second);
    assert!(run(&mut records(&home, ["get", "long@1"])).raw == first);
    ok(&home, ["verify"]);
}

#[test]
fn a_killed_compaction_loses_nothing() {
    let (home, compact) = with_much_to_compress();
    let before = ok(&home, ["scan"]);
    let mut killed = 0;
    for after_ms in [30, 100, 200, 300, 500, 800] {
        let mut child = compact();
        std::thread::sleep(Duration::from_millis(after_ms));
        signal(&child, Signal::KILL);
        killed += u32::from(!child.wait().unwrap().success());
        assert!(ok(&home, ["verify"]).contains("no faults"), "{after_ms} ms");
    }
    assert!(killed > 0, "it was faster than anybody who kills it");
    assert!(compact().wait().unwrap().success());
    assert!(before == ok(&home, ["scan"]));
    assert!(ok(&home, ["verify"]).contains("no faults"));
}

#[test]
fn an_interrupted_compaction_says_what_it_did() {
    let (home, compact) = with_much_to_compress();
    let child = compact();
    std::thread::sleep(Duration::from_millis(150));
    signal(&child, Signal::INT);
    let ended = ran(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.out.as_str()), (130, ""), "{ended:?}");
    assert!(ended.err.contains("compressed until then"), "{ended:?}");
    assert!(ok(&home, ["verify"]).contains("no faults"));
}

#[test]
fn an_encrypted_store_wants_its_password_and_shows_nothing() {
    let home = Home::bare();
    home.write("password", "correct horse battery staple\n");
    home.write("letter", "what nobody else may read");
    let with = |password: &str, arguments: &[&str]| {
        let mut command = records(&home, arguments);
        run(command.env("IBID_PASSWORD", password))
    };
    let password = "correct horse battery staple";
    let put = with(password, &["put", "a", "letter", "--encrypted"]);
    assert_eq!(put.code, 0, "{put:?}");
    ok(&home, ["put", "a", "letter", "--password-file", "password"]);
    let got = with(password, &["get", "a@1"]);
    assert_eq!(got.out, "what nobody else may read");
    assert_eq!(with(password, &["compact"]).code, 0);
    assert_eq!(with(password, &["verify"]).code, 0);
    for file in files_of_store(&home) {
        let stored = std::fs::read(file).unwrap();
        assert!(!stored.windows(6).any(|bytes| bytes == b"nobody"));
    }

    assert_eq!(with("another", &["get", "a"]).code, 5);
    let unasked = run(records(&home, ["get", "a"]).env_remove("IBID_PASSWORD"));
    assert!(
        unasked.code == 5 && unasked.err.contains("IBID_PASSWORD"),
        "{unasked:?}"
    );

    // A user who gives a password expects encryption.
    let plain = |arguments: &[&str]| {
        let mut command = records(&home, arguments);
        run(command.env("IBID_STORE", home.path("plain")))
    };
    assert_eq!(plain(&["put", "a", "letter"]).code, 0);
    for arguments in [
        &["get", "a", "--password-file", "password"][..],
        &["put", "a", "letter", "--encrypted"],
    ] {
        let refused = plain(arguments);
        assert!(
            refused.code == 1 && refused.err.contains("not encrypted"),
            "{refused:?}"
        );
    }
}

const DATED: &str = r#"{"page": "a", "at": "2024-03-01T09:00:00Z", "text": "one"}
{"page": "a", "at": 1740819600.5, "text": "two"}
{"page": "b", "at": "2025-06-01T11:00:00+02:00", "text": "other"}
{"page": "a", "at": "2026-01-01T09:00:00Z", "text": "three"}
"#;

fn with_dated_pages() -> Home {
    let home = Home::bare();
    home.write("dated.jsonl", DATED);
    ok(
        &home,
        ["load", "dated.jsonl", "--key", "page", "--body", "text", "--time", "at"],
    );
    home
}

#[test]
fn any_state_of_the_past_is_read() {
    let home = with_dated_pages();
    let times: Vec<Value> = values(&ok(&home, ["versions", "a", "--json"]));
    let times: Vec<&str> = times.iter().filter_map(|line| line["time"].as_str()).collect();
    let expected = [
        "2024-03-01T09:00:00.000Z",
        "2025-03-01T09:00:00.500Z",
        "2026-01-01T09:00:00.000Z",
    ];
    assert_eq!(times, expected);
    for (time, body) in [
        ("2024-03-01T09:00:00Z", "one"),
        ("2025-03-01T09:00:00.499Z", "one"),
        ("@1740819601", "two"),
        ("9999-01-01T00:00:00Z", "three"),
    ] {
        assert_eq!(ok(&home, ["get", "a", "--as-of", time]), body, "{time}");
    }
    let said = fails(&home, 6, ["get", "a", "--as-of", "2024-03-01T08:59:59.999Z"]);
    assert!(
        said.contains("had no record under \"a\" at 2024-03-01T08:59:59.999Z"),
        "{said}"
    );
    misused(&home, ["get", "a", "--as-of", "1969-12-31T23:59:59Z"]);

    let scanned = |time: &str| {
        let lines = values(&ok(&home, ["scan", "--as-of", time]));
        let of_line = |line: &Value| {
            (
                line["key"].as_str().unwrap().to_owned(),
                line["version"].as_u64().unwrap(),
            )
        };
        lines.iter().map(of_line).collect::<Vec<_>>()
    };
    assert_eq!(scanned("2025-05-01T00:00:00Z"), [("a".to_owned(), 2)]);
    assert_eq!(
        scanned("2025-06-01T09:00:00Z"),
        [("a".to_owned(), 2), ("b".to_owned(), 1)]
    );
    assert_eq!(
        ok(&home, ["scan", "--as-of", "2025-05-01T00:00:00Z", "--keys-only"]),
        "a\n"
    );

    // A copy has the same times, and the time of no key runs backward.
    home.write("scanned.jsonl", ok(&home, ["scan"]));
    ok(&home, ["load", "scanned.jsonl", "--scanned", "--namespace", "copy"]);
    let copied = values(&ok(&home, ["versions", "b", "--namespace", "copy", "--json"]));
    assert_eq!(copied[1]["time"], "2025-06-01T09:00:00.000Z");
    let said = fails(
        &home,
        1,
        ["load", "dated.jsonl", "--key", "page", "--body", "text", "--time", "at"],
    );
    assert!(
        said.contains("was given one of 2024-03-01T09:00:00.000Z") && said.contains("Sort"),
        "{said}"
    );
    home.write(
        "bad.jsonl",
        "{\"key\": \"c\", \"at\": \"yesterday\"}\n{\"key\": \"c\", \"at\": null}\n",
    );
    let (said, _) = partly(&home, ["load", "bad.jsonl", "--time", "at"]);
    assert!(
        said.contains("line 1: expected a time") && said.contains("line 2: field \"at\""),
        "{said}"
    );
}

#[test]
fn purged_versions_are_gone_and_the_others_keep_their_numbers() {
    let home = with_dated_pages();
    let said = fails(&home, 1, ["purge", "a", "2-3"]);
    assert!(said.contains("only those before the latest, 3, can"), "{said}");
    fails(&home, 6, ["purge", "nothing", "1"]);
    misused(&home, ["purge", "a", "0"]);
    fails(&home, 7, ["purge", "a", "1", "--if-version", "2"]);
    let said = ok(&home, ["purge", "a", "2", "--if-version", "3"]);
    assert!(
        said.starts_with("purged 1 version of a\n") && said.contains("records compact"),
        "{said}"
    );
    assert_eq!(
        (ok(&home, ["get", "a@1"]), ok(&home, ["get", "a@3"])),
        ("one".into(), "three".into())
    );
    let said = fails(&home, 6, ["get", "a@2"]);
    assert!(said.contains("version 2 of \"a\" was purged"), "{said}");
    fails(&home, 6, ["get", "a", "--as-of", "2025-06-01T00:00:00Z"]);
    let (said, listed) = partly(&home, ["scan", "--as-of", "2025-07-01T00:00:00Z", "--json"]);
    assert!(
        said.contains("of 1 key, what they had at that time was purged"),
        "{said}"
    );
    assert_eq!(values(&listed).last().unwrap()["unknown"], 1);
    let versions = values(&ok(&home, ["versions", "a", "--json"]));
    assert_eq!(
        (versions[1]["version"].clone(), versions[2]["version"].clone()),
        (1.into(), 3.into())
    );
    assert!(ok(&home, ["compact"]).contains("no file has bytes of what was purged"));
    let counted: Value = serde_json::from_str(&ok(&home, ["stats", "--json"])).unwrap();
    assert_eq!(counted["namespaces"][0]["purged_versions"], 1);
    assert!(ok(&home, ["verify"]).contains("no faults"));
    assert!(ok(&home, ["purge", "a", "1-2"]).starts_with("purged 1 version of a\n"));
}

#[test]
fn a_namespace_lets_go_of_what_it_does_not_keep() {
    let home = with_dated_pages();
    assert_eq!(ok(&home, ["retention"]), "records keeps all versions\n");
    assert_eq!(
        ok(&home, ["expire", "--at", "9999-01-01T00:00:00Z"]),
        "removed 0 keys and 0 versions of others\n"
    );
    let said = ok(&home, ["retention", "--keep-within", "30d"]);
    assert_eq!(said, "records keeps versions of the last 30d\n");
    // 30 days after the third version was stored.
    let expire = |time: &str, more: &[&str]| ok(&home, [&["expire", "--at", time], more].concat());
    assert_eq!(
        expire("2026-01-31T09:00:00Z", &["--dry-run"]),
        "records  a  versions 1 to 2\nwould remove 0 keys and 2 versions of others\n"
    );
    assert_eq!(
        expire("2026-01-31T08:59:59Z", &[]),
        "removed 0 keys and 1 version of others\n",
        "only the first was replaced so long ago"
    );
    ok(&home, ["retention", "--expire-after", "365d"]);
    let found = values(&expire("2026-07-01T00:00:00Z", &["--json"]));
    assert_eq!(
        (found[1]["key"].clone(), found[1]["versions"].is_null()),
        ("b".into(), true)
    );
    fails(&home, 6, ["get", "b"]);
    assert_eq!(ok(&home, ["get", "a"]), "three");
    let set: Value = serde_json::from_str(&ok(&home, ["retention", "--json"])).unwrap();
    assert_eq!(
        (set["keep_last"].is_null(), set["expire_after_seconds"].clone()),
        (true, 31_536_000.into())
    );
    assert_eq!(ok(&home, ["retention", "--keep-all"]), "records keeps all versions\n");
    misused(&home, ["retention", "--keep-all", "--keep-last", "3"]);
    misused(&home, ["retention", "--keep-last", "0"]);

    home.write("body", "for a while");
    ok(
        &home,
        [
            "put",
            "s",
            "body",
            "--namespace",
            "latest",
            "--versions",
            "latest",
            "--expire-after",
            "12h",
        ],
    );
    fails(&home, 1, ["retention", "--namespace", "latest", "--keep-last", "3"]);
    fails(
        &home,
        1,
        ["scan", "--namespace", "latest", "--as-of", "2026-01-01T00:00:00Z"],
    );
    let said = expire("9999-01-01T00:00:00Z", &["--dry-run"]);
    assert!(said.contains("latest  s  the key with all versions\n"), "{said}");
    assert_eq!(
        expire("9999-01-01T00:00:00Z", &[]),
        "removed 1 key and 0 versions of others\n"
    );
}

#[test]
fn a_clock_that_is_far_ahead_removes_nothing() {
    let home = Home::bare();
    home.write(
        "old.jsonl",
        "{\"key\": \"a\", \"at\": \"2001-01-01T00:00:00Z\"}\n{\"key\": \"a\", \"at\": \"2001-01-02T00:00:00Z\"}\n",
    );
    ok(&home, ["load", "old.jsonl", "--time", "at"]);
    ok(&home, ["retention", "--keep-last", "1"]);
    let said = fails(&home, 1, ["expire"]);
    assert!(
        said.contains("more than a year after") && said.contains("2001-01-02T00:00:00.000Z"),
        "{said}"
    );
    assert_eq!(ok(&home, ["get", "a@1"]).len(), 42);
    ok(&home, ["expire", "--at", "2001-01-03T00:00:00Z"]);
    fails(&home, 6, ["get", "a@1"]);
}

#[test]
fn a_batch_gives_times_and_purges_versions() {
    let home = with_dated_pages();
    let mut batch = String::new();
    for (do_, more) in [
        ("put", r#""body": "x", "time": "2027-01-01T00:00:00Z""#),
        ("purge", r#""versions": [1, 2]"#),
    ] {
        batch += &format!("{{\"do\": \"{do_}\", \"key\": \"a\", {more}}}\n");
    }
    home.write("batch.jsonl", &batch);
    assert_eq!(ok(&home, ["batch", "batch.jsonl"]), "made 2 changes\n");
    fails(&home, 6, ["get", "a@2"]);
    let versions = values(&ok(&home, ["versions", "a", "--json"]));
    assert_eq!(versions[2]["time"], "2027-01-01T00:00:00.000Z");
}

const USERS: &str = r#"{"id": "1", "email": "anna@x", "city": "Bern", "tags": ["a", "b"]}
{"id": "2", "email": "ben@x", "city": "Zug", "tags": null}
{"id": "3", "email": "carl@x", "city": "Bern"}
"#;

/// Returns a home with users that are found by e-mail address, city and tags.
fn with_users() -> Home {
    let home = Home::bare();
    home.write("users", USERS);
    let load = [
        "load",
        "users",
        "--key",
        "id",
        "--unique-index",
        "email",
        "--index",
        "city,tags",
    ];
    ok(&home, load);
    home
}

/// Returns the keys that `find` lists.
#[track_caller]
fn found(home: &Home, arguments: &[&str]) -> Vec<String> {
    let printed = ok(home, [&["find", "--keys-only"], arguments].concat());
    printed.lines().map(str::to_owned).collect()
}

#[test]
fn records_are_found_by_the_fields_that_were_loaded() {
    let home = with_users();
    assert_eq!(found(&home, &["email", "ben@x"]), ["2"]);
    assert_eq!(found(&home, &["email", "nobody@x"]), [""; 0]);
    assert_eq!(found(&home, &["city"]), ["1", "3", "2"]);
    assert_eq!(found(&home, &["city", "--reverse", "--limit", "2"]), ["2", "3"]);
    assert_eq!(found(&home, &["city", "--prefix", "Be"]), ["1", "3"]);
    assert_eq!(found(&home, &["city", "--from", "C"]), ["2"]);
    assert_eq!(found(&home, &["city", "--to", "Zug"]), ["1", "3"]);
    assert_eq!(found(&home, &["tags", "b"]), ["1"]);
    let records = values(&ok(&home, ["find", "city", "Bern"]));
    assert_eq!(keys(&records), ["1", "3"]);
    assert!(records.iter().all(|record| record["value"] == "Bern"));
    let first: Value = serde_json::from_str(records[0]["body"].as_str().unwrap()).unwrap();
    assert_eq!(first["email"], "anna@x");
    let told = fails(&home, 6, ["find", "colour", "red"]);
    assert!(told.contains("no index \"colour\""), "{told}");
    misused(&home, ["find", "city", "Bern", "--prefix", "B"]);
    misused(&home, ["load", "users", "--scanned", "--index", "city"]);
}

#[test]
fn a_put_states_all_values_of_its_key() {
    let home = with_users();
    home.write("body", "new");
    ok(
        &home,
        [
            "put",
            "1",
            "body",
            "--index-value",
            "city=Basel",
            "--index-value",
            "city=a=b",
        ],
    );
    assert_eq!(found(&home, &["city"]), ["1", "3", "2", "1"]);
    assert_eq!(found(&home, &["city", "a=b"]), ["1"]);
    assert_eq!(found(&home, &["email"]), ["2", "3"]);
    ok(&home, ["put", "1", "body"]);
    ok(&home, ["delete", "3"]);
    assert_eq!(found(&home, &["city"]), ["2"]);
    let told = fails(&home, 7, ["put", "4", "body", "--index-value", "email=ben@x"]);
    assert!(
        told.contains("\"2\" has the value \"ben@x\" of the unique index email"),
        "{told}"
    );
    fails(&home, 6, ["get", "4"]);
    fails(&home, 6, ["put", "4", "body", "--index-value", "mail=x"]);
    misused(&home, ["put", "4", "body", "--index-value", "email"]);
    assert!(ok(&home, ["verify"]).contains("no faults"));
}

#[test]
fn a_batch_exchanges_unique_values() {
    let home = with_users();
    let exchanged = batch(
        &home,
        r#"{"do": "put", "key": "1", "body": "", "index": {"email": "ben@x"}}
{"do": "put", "key": "2", "body": "", "index": {"email": "anna@x", "tags": ["c", "d"]}}
"#,
    );
    assert_eq!(exchanged.code, 0, "{exchanged:?}");
    assert_eq!(found(&home, &["email"]), ["2", "1", "3"]);
    assert_eq!(found(&home, &["tags"]), ["2", "2"]);
    let taken = batch(
        &home,
        r#"{"do": "put", "key": "4", "body": "", "index": {"email": "carl@x"}}"#,
    );
    assert_eq!(taken.code, 7, "{taken:?}");
    let unknown = batch(
        &home,
        r#"{"do": "put", "key": "4", "body": "", "index": {"mail": "x"}}"#,
    );
    assert_eq!(unknown.code, 6, "{unknown:?}");
    fails(&home, 6, ["get", "4"]);
}

#[test]
fn a_load_ends_where_a_unique_value_is_of_another_key() {
    let home = with_users();
    home.write("more", r#"{"id": "9", "email": "anna@x"}"#);
    let told = fails(&home, 1, ["load", "more", "--key", "id", "--unique-index", "email"]);
    assert!(
        told.contains("\"anna@x\"") && told.contains("nothing was stored"),
        "{told}"
    );
    let differs = fails(&home, 1, ["load", "more", "--key", "id", "--index", "email"]);
    assert!(differs.contains("email of namespace records is unique"), "{differs}");
    home.write(
        "more",
        "{\"id\": \"9\", \"city\": {}}\n{\"id\": \"10\", \"city\": \"Chur\"}",
    );
    let (told, _) = partly(&home, ["load", "more", "--key", "id", "--index", "city"]);
    assert!(told.contains("line 1: field \"city\""), "{told}");
    assert_eq!(found(&home, &["city"]), ["1", "3", "10", "2"]);
    let warned = run(&mut records(&home, ["load", "users", "--key", "id"]));
    assert!(warned.code == 0 && warned.err.contains("has indexes"), "{warned:?}");
    assert_eq!(found(&home, &["city"]), ["10"]);
}

#[test]
fn an_index_is_filled_from_what_is_there() {
    let home = with_users();
    home.write("body", "no JSON");
    ok(&home, ["put", "4", "body"]);
    let (_, told) = partly(&home, ["index", "mail", "--unique", "--field", "email"]);
    assert!(
        told.contains("filled with 3 records") && told.contains("left out 1 record"),
        "{told}"
    );
    assert_eq!(found(&home, &["mail"]), ["1", "2", "3"]);
    assert_eq!(
        found(&home, &["city"]),
        ["1", "3", "2"],
        "other indexes stay as they are"
    );
    assert_eq!(
        values(&ok(&home, ["versions", "1", "--json"])).len(),
        3,
        "no version was added"
    );
    // Filled again after a change.
    ok(&home, ["delete", "4"]);
    ok(&home, ["delete", "2"]);
    ok(&home, ["index", "mail", "--unique", "--field", "email"]);
    assert_eq!(found(&home, &["mail"]), ["1", "3"]);
    let taken = run(&mut records(&home, ["index", "town", "--unique", "--field", "city"]));
    assert_eq!(taken.code, 7, "{taken:?}");
    fails(&home, 1, ["index", "mail"]);
    let printed = ok(&home, ["stats"]);
    assert!(printed.contains("indexes by which keys are found"), "{printed}");
}
