//! What `--json` prints, held against the tables of `docs/json.md`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::{CHEAP, Home, noise, run};

const DOCUMENT: &str = include_str!("../../../../docs/json.md");

/// Name and type of every field, by heading.
struct Tables(BTreeMap<String, Vec<(String, String)>>);

impl Tables {
    fn read() -> Tables {
        let mut tables: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        let mut heading = String::new();
        for line in DOCUMENT.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                heading = title.to_owned();
            }
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            if let ["", name, kind, _, ""] = cells.as_slice()
                && !["field", "---"].contains(name)
            {
                let field = (name.trim_matches('`').to_owned(), (*kind).to_owned());
                tables.entry(heading.clone()).or_default().push(field);
            }
        }
        Tables(tables)
    }

    fn fields(&self, heading: &str) -> Vec<(String, String)> {
        let table = self.0.get(heading).unwrap_or_else(|| panic!("no table of {heading}"));
        let expand = |(name, kind): &(String, String)| match name.as_str() {
            "…" => self.fields(kind),
            _ => vec![(name.clone(), kind.clone())],
        };
        table.iter().flat_map(expand).collect()
    }

    #[track_caller]
    fn hold(&self, heading: &str, value: &Value) {
        let object = value.as_object().unwrap_or_else(|| panic!("{heading}: {value}"));
        let mut left: BTreeSet<&str> = object.keys().map(String::as_str).collect();
        for (name, kind) in self.fields(heading) {
            let (name, is_optional) = name
                .strip_suffix('?')
                .map_or((name.as_str(), false), |name| (name, true));
            match object.get(name) {
                Some(value) => self.hold_type(&format!("{heading}.{name}"), &kind, value),
                None => assert!(is_optional, "{heading} has no {name}: {value}"),
            }
            left.remove(name);
        }
        assert!(left.is_empty(), "{heading} does not document {left:?}");
    }

    #[track_caller]
    fn hold_type(&self, place: &str, kind: &str, value: &Value) {
        if let Some(kind) = kind.strip_suffix(" or null") {
            return if value.is_null() {
            } else {
                self.hold_type(place, kind, value)
            };
        }
        if let Some(kind) = kind.strip_prefix("array of ") {
            let items = value.as_array().unwrap_or_else(|| panic!("{place}: {value}"));
            return items.iter().for_each(|item| self.hold_type(place, kind, item));
        }
        match kind {
            "string" => assert!(value.is_string(), "{place}: {value}"),
            "number" => assert!(value.is_number(), "{place}: {value}"),
            "bool" => assert!(value.is_boolean(), "{place}: {value}"),
            "object" => assert!(value.is_object(), "{place}: {value}"),
            heading => self.hold(heading, value),
        }
    }

    /// One document.
    #[track_caller]
    fn document(&self, heading: &str, text: &str) -> Value {
        let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{heading}: {error}: {text}"));
        self.hold(heading, &value);
        assert_eq!((&value["version"], text.lines().count()), (&Value::from(1), 1));
        value
    }

    /// One object a line, from `begin` to `end`.
    #[track_caller]
    fn stream(&self, command: &str, text: &str) -> Vec<Value> {
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let types: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
        assert_eq!((types[0], *types.last().unwrap()), ("begin", "end"));
        assert_eq!(lines[0]["command"], command);
        for (line, kind) in lines.iter().zip(types) {
            let own = format!("{command}: {kind}");
            let heading = if kind == "begin" && !self.0.contains_key(&own) {
                kind
            } else {
                &own
            };
            self.hold(heading, line);
        }
        lines
    }
}

#[test]
fn every_command_prints_what_is_documented() {
    let tables = Tables::read();
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
    let restored = tables.document("restore", &json(&["restore", &home.at("files"), "back", "--verify"]));
    assert_eq!(restored["verified"], 2);
    assert_eq!(
        tables.document("restore", &json(&["restore", "latest", "dry", "--dry-run"]))["verified"],
        Value::Null
    );
}

#[test]
fn keys_and_checks_print_what_is_documented() {
    let tables = Tables::read();
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
}

#[test]
fn commands_without_a_repository_print_what_is_documented() {
    let tables = Tables::read();
    let home = Home::bare();
    let arguments = "generate versions new --size 100kB --versions 3 --edits 4 --json".split(' ');
    let made = tables.document("generate versions", &home.ok(arguments));
    assert_eq!(made["versions"][0]["bytes"], 100_000);
    let arguments = "bench chunkers new files --algorithms fastcdc,argmin,fixed --averages 8KiB,64KiB --rounds 1 --sample 100kB --json";
    let compared = tables.document("bench chunkers", &home.ok(arguments.split(' ')));
    assert_eq!(
        (&compared["files"], compared["results"].as_array().unwrap().len()),
        (&6.into(), 6)
    );
    // The same into a file, and tables here.
    let printed = home.ok(format!("{arguments} out.json").split(' '));
    assert!(printed.contains("savings") && serde_json::from_str::<Value>(&printed).is_err());
    let written = std::fs::read_to_string(home.path("out.json")).unwrap();
    let written = tables.document("bench chunkers", &written);
    assert_eq!(
        written["results"][0]["unique_bytes"],
        compared["results"][0]["unique_bytes"]
    );
    let measured = [
        ("bench duplicate-locality", "new --sizes 1KiB,2KiB,3KiB"),
        (
            "bench locality",
            "new --chunkers rabin,argmin --sizes 1KiB,2KiB,3KiB --worst --threads 2 --store .",
        ),
        (
            "bench locality",
            "--synthetic --size 100kB --versions 2 --edits 2 --list-length 1,3",
        ),
        ("bench breakdown", "--rounds 1 --sample 100kB"),
        ("bench hashes", "--rounds 1 --sample 100kB --windows 1000"),
        ("bench cpu", "--rounds 1"),
        ("tune seqcdc", "--average 4KiB --data files --rounds 1 --sample 100kB"),
    ];
    for (command, options) in measured {
        let printed = home.ok(format!("{command} {options} --json").split(' '));
        tables.document(command, &printed);
        // With a file, text here and JSON there.
        let text = home.ok(format!("{command} {options} --json measured.json").split(' '));
        assert!(text.lines().count() > 3, "{text}");
        tables.document(command, &std::fs::read_to_string(home.path("measured.json")).unwrap());
    }
    let chunks = tables.stream("chunk", &home.ok(["chunk", "files/deep/data.bin", "--json"]));
    assert_eq!(
        (
            &chunks[0]["chunker"]["algorithm"],
            &chunks[0]["chunker"]["parameters"]["size_average"]
        ),
        (&"argmin".into(), &(64 << 10).into())
    );
    assert_eq!(chunks.last().unwrap()["bytes"], 300_000);
}

#[test]
fn records_print_what_is_documented() {
    let tables = Tables::read();
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
    let scanned = tables.stream("records scan", &json(&["scan"]));
    assert_eq!(
        (&scanned[1]["body"], &scanned[2]["body_bytes"], &scanned[3]["records"]),
        (&"{\"key\": \"a\", \"n\": 2}".into(), &"ff00".into(), &2.into())
    );
    let keys = tables.stream("records scan", &json(&["scan", "--keys-only"]));
    assert_eq!((&keys[1]["key"], &keys[1]["body"]), (&"a".into(), &Value::Null));
    tables.document("records delete", &json(&["delete", "a"]));
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
    let measure = [
        "bench", "records", "pages", "--key", "key", "--trace", "1:1", "--bursts", "1", "--busy", "20ms", "--idle",
        "10ms", "--json", "--work", ".",
    ];
    let pages = |n: u32| {
        format!(
            "{{\"key\": \"a\", \"n\": {n}, \"text\": {:?}}}\n",
            "in the same place ".repeat(30)
        )
    };
    home.write("pages", (0..40).map(pages).collect::<String>());
    let measured = tables.document("bench records", &home.ok(measure));
    assert_eq!(
        (&measured["records"], &measured["traces"][1]["deltas"]),
        (&40.into(), &true.into())
    );
    assert!(measured["runs"][1]["ratio"].as_f64() > Some(4.0), "{measured}");
    assert_eq!(
        (&measured["versions"], &measured["runs"][2]["feature_bytes"]),
        (&"kept".into(), &1024.into())
    );
    let rivals = |field: &str| [0, 1, 2].map(|place| measured["rivals"][place][field].clone());
    assert_eq!(rivals("chunk_bytes"), [Value::Null, 4096.into(), 64.into()]);
    assert_eq!(rivals("index_bytes")[0], 0);
    assert_eq!(
        measured["sizes"][0]["saved_share"], 1.0,
        "all are of about the same size"
    );
    let curve = measured["traces"][0]["reads"]["curve"].as_array().unwrap();
    assert_eq!((curve.len(), &curve[55]["percent"]), (56, &100.0.into()));
    assert_eq!(curve[55]["us"], measured["traces"][0]["reads"]["max_us"]);
    let slices = |run: usize| measured["bursts"][run]["records_per_slice"].as_array().unwrap();
    assert_eq!((slices(0).len(), slices(1).len()), (15, 15));
    assert!(slices(1).iter().take(10).any(|records| records.as_u64() > Some(0)));
    assert!(
        slices(1).iter().skip(10).all(|records| *records == 0),
        "nothing in the pause"
    );
    assert_eq!(tables.document("records verify", &json(&["verify"]))["clean"], true);
    // Like nothing else, so that it is stored as it is.
    let body = noise(300, 1);
    home.write("binary", &body);
    json(&["put", "c", "binary"]);
    let file = home.path("store/redb");
    let mut bytes = std::fs::read(&file).unwrap();
    for at in 0..bytes.len() {
        if bytes[at..].starts_with(&body) {
            bytes[at] ^= 1;
        }
    }
    std::fs::write(&file, bytes).unwrap();
    let found = tables.document("records verify", &json(&["verify"]));
    assert_eq!(
        (&found["faults_total"], &found["faults"][0]["table"]),
        (&1.into(), &"records".into())
    );
}

#[test]
fn what_fails_says_so_as_documented() {
    let tables = Tables::read();
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
    let tables = Tables::read();
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
