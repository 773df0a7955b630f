//! The pages that `ibid-bench chunkers`, `duplicate-locality`, `locality` and `records` write with
//! `--report`, in a real browser.
//!
//! Needs Chromium, or another browser that takes its options: `IBID_BROWSER=chromium cargo test -p
//! ibid-bench --test browser -- --ignored`. Without `--ignored`, cargo lists these tests as ignored; with
//! it, a browser that is missing is a failure.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const ALGORITHMS: [&str; 4] = ["fastcdc", "seqcdc", "ram", "fixed"];
const AVERAGES: [&str; 2] = ["4KiB", "16KiB"];
const VERSIONS: usize = 3;

/// A script that reads the page as a user does, and writes down what it finds.
const PROBE: &str = include_str!("probe.js");

struct Report {
    folder: tempfile::TempDir,
}

impl Report {
    /// Returns a comparison of chunkers.
    fn new() -> Report {
        let (algorithms, averages) = (ALGORITHMS.join(","), AVERAGES.join(","));
        Report::of(&format!(
            "chunkers series --algorithms {algorithms} --averages {averages} --rounds 1 --sample 100kB"
        ))
    }

    /// Returns the page on duplicate locality.
    fn of_locality() -> Report {
        Report::of("duplicate-locality series --sizes 1KiB,2KiB,3KiB")
    }

    /// Returns the page on boundary hints: two chunkers, one with two criteria, on two series of
    /// versions.
    fn of_hints() -> Report {
        Report::of(
            "locality --synthetic --size 400kB --versions 3 --edits 4,8 --chunkers rabin,argmin --sizes 1KiB,2KiB,3KiB \
             --list-length 2,4 --worst --threads 2 --store .",
        )
    }

    /// Returns the page on deltas between records: five versions of each of twenty pages, or as
    /// many records with keys of their own.
    fn of_records(key: &str) -> Report {
        let report = Report {
            folder: tempfile::tempdir().unwrap(),
        };
        let line = |n: u32| {
            let words: Vec<String> = (0..200 + n)
                .map(|word| format!("word{}", word * (n % 20 + 1)))
                .collect();
            format!(
                "{}\n",
                serde_json::json!({"key": (n % 20).to_string(), "n": n, "body": words.join(" ")})
            )
        };
        std::fs::write(
            report.folder.path().join("pages"),
            (0..100).map(line).collect::<String>(),
        )
        .unwrap();
        report.ibid(&format!(
            "records pages --key {key} --body body --trace 3:1,1:0 --bursts 2 --busy 50ms --idle 30ms --work . \
             --report report.html"
        ));
        report
    }

    /// Runs a command on a series of versions.
    fn of(command: &str) -> Report {
        let report = Report {
            folder: tempfile::tempdir().unwrap(),
        };
        report.ibid(&format!(
            "generate versions series --size 400kB --versions {VERSIONS} --edits 8"
        ));
        report.ibid(&format!("{command} --report report.html"));
        report
    }

    fn ibid(&self, arguments: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ibid-bench"));
        command.args(arguments.split(' ')).current_dir(self.folder.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments}: {output:?}");
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("report.html")
    }

    /// Returns the findings of the probe in a window of this width.
    fn look(&self, is_dark: bool, width: u32) -> Value {
        let text = std::fs::read_to_string(self.path()).unwrap();
        let probed = self.folder.path().join("probed.html");
        std::fs::write(
            &probed,
            text.replace("</body>", &format!("<script>{PROBE}</script></body>")),
        )
        .unwrap();
        let page = browse(self.folder.path(), &probed, is_dark, width);
        let (_, rest) = page
            .split_once("<pre id=\"found\">")
            .unwrap_or_else(|| panic!("no probe in {page}"));
        let (json, _) = rest.split_once("</pre>").unwrap();
        let entities = [("&nbsp;", "\u{a0}"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
        let json = entities
            .into_iter()
            .fold(json.to_owned(), |json, (entity, text)| json.replace(entity, text));
        serde_json::from_str(&json).unwrap()
    }
}

/// Returns the page as it is in the browser after all scripts ran.
fn browse(folder: &Path, page: &Path, is_dark: bool, width: u32) -> String {
    let browser = std::env::var_os("IBID_BROWSER").unwrap_or_else(|| "chromium".into());
    let profile = tempfile::tempdir_in(folder).unwrap();
    let mut command = Command::new(&browser);
    command
        // There is no sandbox for root, as which CI runs; the page is trusted.
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-quic",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={width},900"))
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark)))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()));
    let output = command.output().unwrap_or_else(|error| {
        panic!("cannot start {browser:?}: {error}; install Chromium, or name a browser like it by IBID_BROWSER")
    });
    assert!(output.status.success(), "{browser:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the number of backends that are measured here.
fn backends() -> usize {
    ibid_chunk::Backend::available().count()
}

/// Checks that every chart has its marks and is complete and readable, in light and dark, on wide
/// and narrow screens, and that the tables have this number of rows.
fn is_readable(report: &Report, expected: &[(&str, usize)], rows: usize) {
    for (is_dark, width) in [(false, 1300), (true, 1300), (false, 500), (true, 500)] {
        let found = report.look(is_dark, width);
        assert_eq!(found["dark"], is_dark);
        let page = found["page"].as_f64().unwrap();
        assert!(if is_dark { page < 0.05 } else { page > 0.8 }, "{page}");
        let charts = found["charts"].as_array().unwrap();
        let marks: Vec<(&str, u64)> = charts
            .iter()
            .map(|chart| (chart["id"].as_str().unwrap(), chart["marks"].as_u64().unwrap()))
            .collect();
        assert_eq!(
            marks,
            expected
                .iter()
                .map(|(id, marks)| (*id, *marks as u64))
                .collect::<Vec<_>>()
        );
        for chart in charts {
            let number = |field: &str| chart[field].as_f64().unwrap();
            assert!(number("width") > 300.0 && number("height") > 100.0, "{chart}");
            assert!(
                number("ink") >= 3.0 && number("text") >= 4.5,
                "too faint, dark: {is_dark}: {chart}"
            );
            assert!(
                chart["inside"] == true && !chart["label"].as_str().unwrap().is_empty(),
                "{chart}"
            );
        }
        assert!(
            found["text"].as_f64().unwrap() >= 4.5,
            "too faint, dark: {is_dark}: {}",
            found["text"]
        );
        assert_eq!(found["rows"], rows);
        assert!(
            found["overflow"].as_f64().unwrap() <= 0.0,
            "{width}: {}",
            found["overflow"]
        );
    }
}

#[test]
#[ignore = "needs a browser: IBID_BROWSER=chromium cargo test -p ibid-bench --test browser -- --ignored"]
fn every_chart_is_there_whole_and_readable_in_light_and_dark() {
    let report = Report::new();
    let (chunkers, all) = (ALGORITHMS.len(), ALGORITHMS.len() * AVERAGES.len());
    let expected = [
        // A point for each entry, and the frontier.
        ("scatter", all + 1),
        // A point for each entry, and a line for each chunker.
        ("savings", all + chunkers),
        ("sizes-4096", chunkers),
        ("sizes-16384", chunkers),
        ("speeds-4096", chunkers * backends()),
        ("speeds-16384", chunkers * backends()),
    ];
    is_readable(&report, &expected, 2 * all);
}

#[test]
#[ignore = "needs a browser: IBID_BROWSER=chromium cargo test -p ibid-bench --test browser -- --ignored"]
fn a_chunker_can_be_hidden_and_figures_are_shown_where_the_pointer_is() {
    let found = Report::new().look(false, 1300);
    // The marks of the first chunker in each chart: points, a line, distributions, bars.
    let hidden = AVERAGES.len() * (1 + 1 + 1 + backends()) + 1;
    assert_eq!(
        (&found["hidden"], &found["pressed"], &found["restored"]),
        (&hidden.into(), &"false".into(), &true.into())
    );
    let tip = found["tip"].as_str().unwrap();
    assert!(
        tip.starts_with("fastcdc, 4\u{a0}KiB asked") && tip.contains("saves "),
        "{tip}"
    );
    assert_eq!(
        found["requests"],
        Value::Array(Vec::new()),
        "nothing comes from elsewhere"
    );
}

#[test]
#[ignore = "needs a browser: IBID_BROWSER=chromium cargo test -p ibid-bench --test browser -- --ignored"]
fn the_charts_of_locality_are_whole_and_readable_and_a_checkpoint_can_be_hidden() {
    let report = Report::of_locality();
    // Two lines with a point for each checkpoint, and a line for each checkpoint that has
    // sequences: all but the first.
    let expected = [("shares", 2 + 2 * VERSIONS), ("lengths", VERSIONS - 1)];
    is_readable(&report, &expected, 2 * VERSIONS);
    let found = report.look(false, 1300);
    assert_eq!(
        (&found["hidden"], &found["pressed"], &found["restored"]),
        (&1.into(), &"false".into(), &true.into())
    );
    let tip = found["tip"].as_str().unwrap();
    assert!(
        tip.starts_with("1\u{a0}file, ") && tip.contains("0\u{a0}% duplicates"),
        "{tip}"
    );
    assert_eq!(found["requests"], Value::Array(Vec::new()));
}

#[test]
#[ignore = "needs a browser: IBID_BROWSER=chromium cargo test -p ibid-bench --test browser -- --ignored"]
fn the_charts_of_hints_are_whole_and_readable_and_a_criterion_can_be_hidden() {
    let report = Report::of_hints();
    // Rabin has four criteria, argmin two, each in two series.
    let expected = [
        ("speedup-of-0", 2 * 4),
        ("ratio-of-0", 2 * 5),
        ("speedup-of-1", 2 * 2),
        ("ratio-of-1", 2 * 3),
        ("speedup-in-0", 6),
        ("ratio-in-0", 8),
        ("speedup-in-1", 6),
        ("ratio-in-1", 8),
        // Only the longest lists are shown.
        ("places-0", 2 * 4),
        ("places-1", 2 * 4),
        ("lists-0-0", 2 * 4),
        ("lists-0-1", 2 * 2),
        ("lists-1-0", 2 * 4),
        ("lists-1-1", 2 * 2),
        // `ff` has no worst case.
        ("worst-0", 2 * 3),
        ("worst-1", 2),
        ("naming-0", 2 * 4),
        ("naming-1", 2 * 2),
        ("throughput-0-0", 7),
        ("stored-0-0", 7),
        ("throughput-0-1", 5),
        ("stored-0-1", 5),
        ("throughput-1-0", 7),
        ("stored-1-0", 7),
        ("throughput-1-1", 5),
        ("stored-1-1", 5),
        ("threads-0-0", 2 * 5),
        ("threads-0-1", 2 * 3),
        ("threads-1-0", 2 * 5),
        ("threads-1-1", 2 * 3),
    ];
    // Rabin has plain and four criteria for each list length and series, argmin plain and two; then
    // threads and stores.
    let rows = 4 * (2 * 5) + 2 * (2 * 5 + 2 * 3) + 2 * (7 + 5);
    is_readable(&report, &expected, rows);
    let found = report.look(false, 1300);
    // The marks of plain: two in each of four charts of ratios and of four of threads, one in each
    // of eight of stores.
    let hidden = 4 * 2 + 4 * 2 + 8;
    assert_eq!(
        (&found["hidden"], &found["pressed"], &found["restored"]),
        (&hidden.into(), &"false".into(), &true.into())
    );
    let tip = found["tip"].as_str().unwrap();
    assert!(
        tip.starts_with("ff, rabin 1\u{a0}KiB–2\u{a0}KiB–3\u{a0}KiB, lists of 2") && tip.contains("times plain"),
        "{tip}"
    );
    assert_eq!(found["requests"], Value::Array(Vec::new()));
}

#[test]
#[ignore = "needs a browser: IBID_BROWSER=chromium cargo test -p ibid-bench --test browser -- --ignored"]
fn the_charts_of_records_are_whole_and_readable_and_a_figure_can_be_hidden() {
    let report = Report::of_records("key");
    let expected = [
        // Whole, deltas with two sizes of features, three rivals; each alone and in blocks.
        ("ratio", 2 * 6),
        ("index", 6),
        ("sizes", 2),
        ("operations", 2 * 2),
        ("reads-0", 2),
        ("writes-0", 2),
        // The other mixture has no writes.
        ("reads-1", 2),
        // Without a cache there is no reward.
        ("cache-ratio", 1 + 4 * 4),
        ("cache-misses", 1 + 4 * 4),
        ("bursts", 2),
        // Two lines with five distances, and a level across the chart.
        ("distance-ratio", 2 * (1 + 5) + 1 + 2),
        ("distance-most", 2 * (1 + 5) + 1 + 2),
        ("interval-ratio", 4),
        ("interval-speed", 4),
    ];
    // Ways to store, classes of sizes, reads and writes of each mixture, memory and rewards,
    // bursts, distances, intervals.
    let rows = 6 + 6 + 8 + 17 + 2 + 11 + 4;
    is_readable(&report, &expected, rows);
    let found = report.look(false, 1300);
    assert_eq!(
        (&found["hidden"], &found["pressed"], &found["restored"]),
        (&6.into(), &"false".into(), &true.into())
    );
    let tip = found["tip"].as_str().unwrap();
    assert!(
        tip.starts_with("whole\nby itself 1.00 times less") && tip.contains("in blocks"),
        "{tip}"
    );
    assert_eq!(found["requests"], Value::Array(Vec::new()));
}

/// The pages load nothing from elsewhere. This test needs no browser.
#[test]
fn the_pages_refer_to_nothing_outside_themselves() {
    for (report, charts) in [
        (Report::new(), 6),
        (Report::of_locality(), 2),
        (Report::of_hints(), 30),
        (Report::of_records("key,n"), 14),
    ] {
        refers_to_nothing(&std::fs::read_to_string(report.path()).unwrap(), charts);
    }
}

fn refers_to_nothing(text: &str, charts: usize) {
    let without_names = text.replace("http://www.w3.org/2000/svg", "");
    for outside in [
        "http:", "https:", "//cdn", "@import", "url(", "<link", "<img", "src=", "href=",
    ] {
        assert!(!without_names.contains(outside), "{outside}");
    }
    assert!(text.starts_with("<!doctype html>") && text.matches("<svg class=plot").count() == charts);
}
