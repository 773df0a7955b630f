//! `ibid-bench hours` on little: all that was stored is read back, each hour is reported, and drawn.

use std::process::Command;

use serde_json::Value;

fn bench(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ibid-bench")).args(args).output();
    let output = output.expect("ibid-bench runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn each_hour_is_measured_and_every_body_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (work, json, chart) = (at("work"), at("hours.json"), at("hours.svg"));
    std::fs::create_dir(&work).expect("a folder");
    let little = ["--hours", "2", "--hour", "1", "--keys", "40", "--rate", "300"];
    let shown = bench(&[&["hours", "--work", &work, "--json", &json], &little[..]].concat());
    let text = std::fs::read_to_string(&json).expect("results");
    let found: Value = serde_json::from_str(&text).expect("JSON");
    let subjects = found["outcome"]["hours"]["subjects"].as_array().expect("subjects");
    assert_eq!(subjects.len(), 2);
    for lived in subjects {
        let hours = lived["hours"].as_array().expect("hours");
        assert_eq!(hours.len(), 2);
        for hour in hours {
            let number = |field: &str| hour[field].as_u64().expect("a number");
            assert!(number("operations") > 20 && number("body_bytes") > 10_000, "{hour}");
            assert!(number("disk_bytes_max") >= number("disk_bytes"), "{hour}");
            assert!(
                hour["latest"]["operations"].as_u64() > hour["any"]["operations"].as_u64(),
                "{hour}"
            );
        }
        assert!(
            lived["compacted_bytes"].as_u64() <= lived["settled_bytes"].as_u64(),
            "{lived}"
        );
    }
    assert_eq!(bench(&["table", &json]), shown);
    assert!(!text.contains(&at("")), "no paths of this machine:\n{text}");
    assert_eq!(std::fs::read_dir(&work).expect("a folder").count(), 0, "all is removed");
    bench(&["charts", &json, "--out", &chart]);
    let drawn = std::fs::read_to_string(&chart).expect("a chart");
    assert_eq!(drawn.matches("<polyline").count(), 10, "{drawn}");
}
