//! `--json` prints the fields that the tables of `docs/json.md` list.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use serde_json::Value;

use crate::records::change_in_store;
use crate::replicas::Stores;
use crate::support::{CHEAP, Home, noise, run};
use crate::tables::Tables;

const DOCUMENT: &str = include_str!("../../../../docs/json.md");

#[test]
fn every_command_prints_what_is_documented() {
    let tables = Tables::read(&[DOCUMENT]);
    let home = Home::bare();
    let json = |arguments: &[&str]| home.ok([arguments, &["--json"]].concat());
    assert_eq!(
        tables.document("init", &json(&["init", CHEAP[0], CHEAP[1]]))["encrypted"],
        true
    );
    let ran = home.run(["backup", "files", "nowhere", "--json"]);
    assert_eq!(ran.code, 3);
    let backup = tables.document("backup", &ran.out);
    assert_eq!(
        (&backup["files"], &backup["unreadable"], &backup["parent"]),
        (&3.into(), &1.into(), &Value::Null)
    );
    assert_eq!(backup["problems"][0]["path"], "nowhere");
    home.write("files/anna.txt", "changed");
    std::fs::remove_file(home.path("files/deep/down/ben.txt")).unwrap();
    tables.document("backup", &json(&["backup", "files", "--tag", "x,y"]));
    assert_eq!(
        tables.document("backup", &json(&["backup", "files", "--dry-run"]))["snapshot"],
        Value::Null
    );

    let listed = tables.stream("snapshots", &json(&["snapshots"]));
    assert_eq!(
        (&listed[1]["id"], &listed[2]["tags"][1], &listed[3]["snapshots"]),
        (&backup["snapshot"], &"y".into(), &2.into())
    );
    let tagged = tables.document("tag", &json(&["tag", "add", "x,z", "latest"]));
    let (old, new) = (&tagged["snapshots"][0]["old"], &tagged["snapshots"][0]["new"]);
    assert_eq!(
        (old, &tagged["snapshots"][0]["tags"][2]),
        (&listed[2]["id"], &"z".into())
    );
    let again = tables.document("tag", &json(&["tag", "add", "z", "--all", "--tag", "x"]));
    assert_eq!((&again["changed"], &again["snapshots"][0]["new"]), (&0.into(), new));
    let listed = tables.stream("snapshots", &json(&["snapshots"]));
    assert_eq!((&listed[2]["id"], &listed[2]["original"]), (new, old));
    let rewrite = |arguments: &[&str]| {
        let arguments = [&["rewrite", "latest", "--exclude"], arguments].concat();
        tables.document("rewrite", &json(&arguments))
    };
    assert_eq!(
        rewrite(&["data.bin", "--dry-run"])["snapshots"][0]["bytes_left_out"],
        300_000
    );
    assert_eq!(rewrite(&["nothing"])["snapshots"][0]["new"], Value::Null);
    let copy = |arguments: &[&str]| {
        let arguments = [&["copy", "--to", "other", "--json"], arguments].concat();
        let ran = run(home.ibid(arguments).env("IBID_TO_PASSWORD", "another"));
        assert_eq!(ran.code, 0, "{ran:?}");
        tables.document("copy", &ran.out)
    };
    let made = run(home
        .ibid(["--repo", "other", "init", "--quiet", CHEAP[0], CHEAP[1]])
        .env("IBID_PASSWORD", "another"));
    assert_eq!(made.code, 0, "{made:?}");
    assert_eq!(copy(&["--dry-run"])["snapshots"][1]["state"], "would_be_copied");
    assert_eq!(copy(&["latest"])["copied"], 1);
    let copied = copy(&[]);
    assert_eq!((&copied["copied"], &copied["present"]), (&1.into(), &1.into()));
    assert_eq!(
        (&copied["snapshots"][1]["source"], &copied["snapshots"][1]["state"]),
        (new, &"present".into())
    );
    let entries = tables.stream("ls", &json(&["ls", "latest~1", "-R"]));
    let link = entries.iter().find(|entry| entry["kind"] == "symlink").unwrap();
    assert_eq!(link["target"], "anna.txt");
    let matches = tables.stream("find", &json(&["find", "*.txt"]));
    assert_eq!(matches.last().unwrap()["matches"], 3);
    let changes = tables.stream("diff", &json(&["diff", "latest~1", "latest"]));
    let end = changes.last().unwrap();
    assert_eq!(
        (&end["modified"], &end["removed"], &end["removed_bytes"]),
        (&1.into(), &1.into(), &9.into())
    );

    let stats = tables.document("stats", &json(&["stats"]));
    assert_eq!((&stats["snapshots"], &stats["files"]), (&2.into(), &5.into()));
    assert_eq!(tables.document("cache stats", &json(&["cache", "stats"]))["runs"], 0);
    assert_eq!(tables.document("cache clear", &json(&["cache", "clear"]))["files"], 1);
    let restored = tables.document("restore", &json(&["restore", &home.at("files"), "back", "--verify"]));
    assert_eq!(restored["verified"], 2);
    assert_eq!(
        tables.document("restore", &json(&["restore", "latest", "dry", "--dry-run"]))["verified"],
        Value::Null
    );
}

#[test]
fn keys_and_checks_print_what_is_documented() {
    let tables = Tables::read(&[DOCUMENT]);
    let home = Home::with_snapshot();
    let json = |arguments: &[&str]| {
        run(home
            .ibid([arguments, &["--json"]].concat())
            .env("IBID_NEW_PASSWORD", "neu"))
    };
    let added = tables.document(
        "key add",
        &json(&["key", "add", "--label", "second", CHEAP[0], CHEAP[1]]).out,
    );
    let keys = tables.document("key list", &json(&["key", "list"]).out);
    assert!(
        keys["keys"]
            .as_array()
            .unwrap()
            .iter()
            .any(|key| key["id"] == added["key"] && key["label"] == "second")
    );
    let writer = tables.document("key add-writer", &json(&["key", "add-writer", "--label", "desk"]).out);
    assert!(writer["key"].as_str().unwrap().contains("ibid-writer-1 "), "{writer}");
    let in_file = ["key", "add-writer", "--label", "laptop", "--out", "laptop.key"];
    assert_eq!(
        tables.document("key add-writer", &json(&in_file).out)["key"],
        Value::Null
    );
    let mut backup = home.ibid(["backup", "files", "--quiet"]);
    assert_eq!(run(backup.env("IBID_KEY_FILE", home.path("laptop.key"))).code, 0);
    let listed = tables.stream("snapshots", &json(&["snapshots"]).out);
    assert_eq!(
        (&listed[1]["writer"], &listed[2]["writer"]),
        (&Value::Null, &"laptop".into())
    );
    tables.document("key add", &json(&["key", "remove", "desk"]).out);
    let keys = tables.document("key list", &json(&["key", "list"]).out);
    let removed = |writer: &&Value| writer["removed"] == true;
    let desk = keys["writers"].as_array().unwrap().iter().find(removed).unwrap();
    assert_eq!(desk["label"], "desk");
    tables.document("key add", &json(&["key", "remove", added["key"].as_str().unwrap()]).out);
    tables.document("key add", &json(&["key", "passwd", CHEAP[0], CHEAP[1]]).out);

    let json = |arguments: &[&str]| run(home.ibid([arguments, &["--json"]].concat()).env("IBID_PASSWORD", "neu"));
    assert_eq!(
        tables.document("check", &json(&["check", "--read-data"]).out)["clean"],
        true
    );
    for entry in crate::support::tree(&home.path("repo/packs")) {
        if !entry.2.is_empty() {
            std::fs::remove_file(home.path("repo/packs").join(entry.0)).unwrap();
        }
    }
    let ran = json(&["check"]);
    assert_eq!(ran.code, 4);
    let report = tables.document("check", &ran.out);
    assert!(
        report["clean"] == false && !report["faults"].as_array().unwrap().is_empty(),
        "{report}"
    );
    let report = tables.document("repair", &json(&["repair", "--dry-run"]).out);
    assert!(report["dry_run"] == true && report["affected_total"] == 1, "{report}");
    assert_eq!(tables.document("repair", &json(&["repair"]).out)["clean"], false);
}

#[test]
fn records_print_what_is_documented() {
    let tables = Tables::read(&[DOCUMENT]);
    let home = Home::bare();
    home.write(
        "lines",
        "{\"key\": \"a\", \"n\": 1}\nno JSON\n{\"key\": \"a\", \"n\": 2}\n",
    );
    let json = |arguments: &[&str]| {
        let ran = run(home
            .ibid([&["records"], arguments, &["--json"]].concat())
            .env("IBID_STORE", home.path("store")));
        assert!([0, 3, 4].contains(&ran.code), "{ran:?}");
        ran.out
    };
    let loaded = tables.document("records load", &json(&["load", "lines"]));
    assert_eq!(
        (&loaded["records"], &loaded["bad_lines"], &loaded["problems"][0]["line"]),
        (&2.into(), &1.into(), &2.into())
    );
    home.write("binary", b"\xff\0");
    let stored = tables.document("records put", &json(&["put", "b", "binary"]));
    assert_eq!((&stored["version"], &stored["bytes"]), (&1.into(), &2.into()));
    home.write(
        "batch",
        r#"{"do": "require", "key": "b", "if_version": 1}
{"do": "put", "namespace": "records", "key": "c", "body": ""}
{"do": "purge", "key": "c"}
"#,
    );
    let done = tables.document("records batch", &json(&["batch", "batch"]));
    assert_eq!(
        (&done["conditions"], &done["changes"]),
        (&1.into(), &serde_json::json!([{"number": 4}, {"number": null}]))
    );
    let got = tables.stream("records get", &json(&["get", "a@1", "b"]));
    assert_eq!(
        (&got[1]["version"], &got[2]["body_bytes"], &got[3]["records"]),
        (&1.into(), &"ff00".into(), &2.into())
    );
    let scanned = tables.stream("records scan", &json(&["scan"]));
    assert_eq!(
        (&scanned[1]["body"], &scanned[2]["body_bytes"], &scanned[3]["records"]),
        (&"{\"key\": \"a\", \"n\": 2}".into(), &"ff00".into(), &2.into())
    );
    let keys = tables.stream("records scan", &json(&["scan", "--keys-only"]));
    assert_eq!((&keys[1]["key"], &keys[1]["body"]), (&"a".into(), &Value::Null));
    tables.document("records delete", &json(&["delete", "a"]));
    let deleted = tables.stream("records scan", &json(&["scan", "--deleted"]));
    assert_eq!(
        (&deleted[1]["key"], &deleted[1]["deleted"], &deleted[2]["records"]),
        (&"a".into(), &true.into(), &1.into())
    );
    let versions = tables.stream("records versions", &json(&["versions", "a"]));
    assert_eq!(
        (&versions[2]["deleted"], &versions[3]["deleted"]),
        (&false.into(), &true.into())
    );
    let compacted = tables.document("records compact", &json(&["compact"]));
    assert_eq!(compacted["records"], 4);
    let loaded = tables.document(
        "records load",
        &json(&["load", "lines", "--namespace", "other", "--compact"]),
    );
    assert_eq!(loaded["compacted"]["records"], 6);
    let stats = tables.document("records stats", &json(&["stats"]));
    assert_eq!(
        (&stats["total"]["records"], &stats["namespaces"][0]["deleted_keys"]),
        (&6.into(), &1.into())
    );
    assert_eq!(stats["pieces"], Value::Null);
    home.write("long", vec![7; 5 << 20]);
    json(&["put", "long", "long", "--namespace", "other"]);
    let stats = tables.document("records stats", &json(&["stats"]));
    assert_eq!(
        (&stats["total"]["records"], &stats["total"]["keys"]),
        (&7.into(), &3.into())
    );
    assert!(stats["pieces"]["count"].as_u64().unwrap() > 1, "{stats}");
    home.write("users", "{\"id\": 1, \"by\": [\"anna\", \"ben\"]}\n");
    json(&["load", "users", "--namespace", "users", "--key", "id", "--index", "by"]);
    let found = tables.stream("records find", &json(&["find", "by", "--namespace", "users"]));
    assert_eq!(
        (&found[1]["value"], &found[1]["key"], &found[2]["value"]),
        (&"anna".into(), &"1".into(), &"ben".into())
    );
    let keys = json(&["find", "by", "ben", "--keys-only", "--namespace", "users"]);
    assert_eq!(tables.stream("records find", &keys)[1]["version"], Value::Null);
    json(&["index", "raw", "--namespace", "users"]);
    let put = home.ibid(["records", "put", "2", "binary", "--namespace", "users", "--index-value"]);
    let value = OsString::from_vec(b"raw=\xff".to_vec());
    let ran = run({ put }.arg(value).env("IBID_STORE", home.path("store")));
    assert_eq!(ran.code, 0, "{ran:?}");
    let found = tables.stream("records find", &json(&["find", "raw", "--namespace", "users"]));
    assert_eq!(
        (&found[1]["value_bytes"], &found[1]["body_bytes"]),
        (&"ff".into(), &"ff00".into())
    );
    let indexed = tables.document(
        "records index",
        &json(&["index", "n", "--field", "n", "--namespace", "other"]),
    );
    assert_eq!((&indexed["records"], &indexed["left_out"]), (&1.into(), &1.into()));
    let stats = tables.document("records stats", &json(&["stats"]));
    assert_eq!(stats["namespaces"][2]["indexes"][0]["values"]["count"], 2);
    assert_eq!(tables.document("records verify", &json(&["verify"]))["clean"], true);
    let repaired = tables.document("records repair", &json(&["repair"]));
    assert_eq!(
        (&repaired["repaired"], &repaired["commits_lost"]),
        (&false.into(), &0.into())
    );
    // This body resembles nothing, so it is stored without a base.
    let body = noise(300, 1);
    home.write("binary", &body);
    json(&["put", "c", "binary"]);
    change_in_store(&home, &body, 0);
    let found = tables.document("records verify", &json(&["verify"]));
    assert_eq!(
        (&found["faults_total"], &found["faults"][0]["table"]),
        (&1.into(), &"records".into())
    );
    let salvaged = tables.document("records salvage", &json(&["salvage", "--into", "new"]));
    let losses = &salvaged["losses"];
    assert_eq!(
        (&losses[0]["kind"], &losses[0]["key"], &losses[0]["latest"], &losses[1]),
        (&"version".into(), &"c".into(), &true.into(), &Value::Null)
    );
}

#[test]
fn replicas_print_what_is_documented() {
    let tables = Tables::read(&[DOCUMENT]);
    let stores = Stores::new();
    stores.ok("store", &["put", "a"]);
    let (primary, address) = stores.serve("store", &[]);
    let replicate = ["replicate", "--once", "--json", "--from", &address];
    let followed = tables.document("records replicate", &stores.ok("replica", &replicate));
    assert_eq!((&followed["complete"], &followed["epoch"]), (&true.into(), &1.into()));
    let promote = ["promote", "--json", "--fence", &address];
    let promoted = tables.document("records promote", &stores.ok("replica", &promote));
    assert_eq!(
        (&promoted["epoch"], &promoted["fenced"]["position"]),
        (&2.into(), &followed["position"])
    );
    assert_eq!(primary.end(), Some(0));
    let promoted = tables.document("records promote", &stores.ok("replica", &["promote", "--json"]));
    assert_eq!((&promoted["epoch"], &promoted["fenced"]), (&2.into(), &Value::Null));
}

#[test]
fn failures_are_reported_as_documented() {
    let tables = Tables::read(&[DOCUMENT]);
    let home = Home::new();
    for (code, arguments) in [(1, ["ls", "nothing", "--json"]), (2, ["dump", "latest:x", "--json"])] {
        let said = home.fails(code, arguments);
        let error: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        tables.hold("Error", &error);
        assert_eq!(error["code"], code);
    }
}

#[test]
fn names_that_are_no_text_are_told_byte_by_byte() {
    use std::os::unix::ffi::OsStrExt;
    let tables = Tables::read(&[DOCUMENT]);
    let home = Home::new();
    home.write(
        std::path::Path::new("files/odd").join(std::ffi::OsStr::from_bytes(b"\xffx\n")),
        "x",
    );
    home.ok(["backup", "files"]);
    let lines = tables.stream("ls", &home.ok(["ls", &home.at("files/odd"), "--json"]));
    assert!(lines[2]["path"].as_str().unwrap().ends_with("/\u{fffd}x\n"));
    assert!(lines[2]["path_bytes"].as_str().unwrap().ends_with("2fff780a"));
}
