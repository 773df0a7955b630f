//! The output of `--json` agrees with the tables of `docs/measuring-json.md`.

use serde_json::Value;

use crate::support::Home;
use crate::tables::Tables;

fn tables() -> Tables {
    Tables::read(&[
        include_str!("../../../../docs/json.md"),
        include_str!("../../../../docs/measuring-json.md"),
    ])
}

#[test]
fn every_command_prints_what_is_documented() {
    let tables = tables();
    let home = Home::bare();
    let arguments = "generate versions new --size 100kB --versions 3 --edits 4 --json".split(' ');
    let made = tables.document("generate versions", &home.ok(arguments));
    assert_eq!(made["versions"][0]["bytes"], 100_000);
    let arguments =
        "chunkers new files --algorithms fastcdc,argmin,fixed --averages 8KiB,64KiB --rounds 1 --sample 100kB --json";
    let compared = tables.document("chunkers", &home.ok(arguments.split(' ')));
    assert_eq!(
        (&compared["files"], compared["results"].as_array().unwrap().len()),
        (&6.into(), 6)
    );
    // The same with a file: tables on standard output.
    let printed = home.ok(format!("{arguments} out.json").split(' '));
    assert!(printed.contains("savings") && serde_json::from_str::<Value>(&printed).is_err());
    let written = std::fs::read_to_string(home.path("out.json")).unwrap();
    let written = tables.document("chunkers", &written);
    assert_eq!(
        written["results"][0]["unique_bytes"],
        compared["results"][0]["unique_bytes"]
    );
    let measured = [
        ("duplicate-locality", "new --sizes 1KiB,2KiB,3KiB"),
        (
            "locality",
            "new --chunkers rabin,argmin --sizes 1KiB,2KiB,3KiB --worst --threads 2 --store .",
        ),
        (
            "locality",
            "--synthetic --size 100kB --versions 2 --edits 2 --list-length 1,3",
        ),
        ("breakdown", "--rounds 1 --sample 100kB"),
        ("hashes", "--rounds 1 --sample 100kB --windows 1000"),
        ("cpu", "--rounds 1"),
        ("tune seqcdc", "--average 4KiB --data files --rounds 1 --sample 100kB"),
    ];
    for (command, options) in measured {
        let printed = home.ok(format!("{command} {options} --json").split(' '));
        tables.document(command, &printed);
        // With a file, tables go to standard output and JSON to the file.
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
        (&"argmin".into(), &(128 << 10).into())
    );
    assert_eq!(chunks.last().unwrap()["bytes"], 300_000);
}

#[test]
fn the_output_of_records_is_documented() {
    let tables = tables();
    let home = Home::bare();
    let measure = [
        "records", "pages", "--key", "key", "--trace", "1:1", "--bursts", "1", "--busy", "20ms", "--idle", "10ms",
        "--json", "--work", ".",
    ];
    let pages = |n: u32| {
        format!(
            "{{\"key\": \"a\", \"n\": {n}, \"text\": {:?}}}\n",
            "in the same place ".repeat(30)
        )
    };
    home.write("pages", (0..40).map(pages).collect::<String>());
    let measured = tables.document("records", &home.ok(measure));
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
}

#[test]
fn failures_are_reported_as_documented() {
    let tables = tables();
    let home = Home::bare();
    for (code, arguments) in [
        (1, "chunkers nowhere --json"),
        (2, "chunkers files --averages 1 --json"),
    ] {
        let said = home.fails(code, arguments.split(' '));
        let error: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        tables.hold("Error", &error);
        assert_eq!(error["code"], code);
    }
}
