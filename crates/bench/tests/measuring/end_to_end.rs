//! The whole program on tiny files, with the tools that are installed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Builds the program ibid, which Cargo does not build for this test because it is not a library.
fn ibid() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    // Cargo's variables for this test's package would make the build scripts of other packages run
    // again, and everything that depends on them be rebuilt.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    // Builds what `cargo test --workspace` does, whose results can then be reused: another selection of packages or
    // tests has other features, for which most libraries are built once more.
    let built = cargo
        .args(["test", "--no-run", "--workspace"])
        .args(["--quiet", "--locked", "--message-format", "json"])
        .output()
        .expect("cargo runs");
    let text = String::from_utf8_lossy(&built.stdout);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let ours = message["target"]["name"] == "ibid" && message["profile"]["test"] == false;
        Some(PathBuf::from(message["executable"].as_str().filter(|_| ours)?))
    };
    text.lines()
        .filter_map(executable)
        .next_back()
        .expect("cargo says where ibid is")
}

fn installed(tool: &str) -> bool {
    Command::new(tool).arg("--help").output().is_ok()
}

/// Returns a folder whose file system has little to write, and so is soon flushed: that is done before each command
/// that is measured.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(SHARED_MEMORY)
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// Where a file system in memory is, if there is one.
const SHARED_MEMORY: &str = "/dev/shm";

fn bench<S: AsRef<OsStr>>(args: &[S]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ibid-bench"));
    if Path::new(SHARED_MEMORY).is_dir() {
        command.env("TMPDIR", SHARED_MEMORY);
    }
    command.args(args).output().expect("ibid-bench runs")
}

fn bench_ok(args: &[&str]) -> String {
    let output = bench(args);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// Writes three versions, each of which repeats most of the one before.
fn versions(folder: &Path) {
    let mut state = 7u64;
    let mut data: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 60) as u8
    })
    .take(400_000)
    .collect();
    std::fs::create_dir(folder).unwrap();
    for name in ["v1", "v2", "v3"] {
        std::fs::write(folder.join(name), &data).unwrap();
        data.splice(200_000..200_100, *b"another version");
    }
}

/// Writes the same as folders, each with a small file and an empty folder in addition.
fn trees(folder: &Path) {
    let files = folder.with_file_name("files");
    versions(&files);
    for name in ["v1", "v2", "v3"] {
        let top = folder.join(name).join("top");
        std::fs::create_dir_all(top.join("empty")).unwrap();
        std::fs::copy(files.join(name), top.join("data")).unwrap();
        std::fs::write(folder.join(name).join("name"), name).unwrap();
    }
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn every_tool_backs_up_and_restores() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    versions(&folder.path().join("tiny"));
    std::fs::create_dir(folder.path().join("work")).unwrap();
    let ibid = ibid();
    let ibid = ibid.to_str().expect("text");
    let tools: Vec<_> = ["ibid", "restic", "borg", "borg-8k", "kopia", "zpaq"]
        .into_iter()
        .filter(|tool| *tool == "ibid" || installed(tool.trim_end_matches("-8k")))
        .collect();
    trees(&folder.path().join("trees"));
    let corpora = ["tiny", "trees"].map(|name| format!("{name}={}", at(name)));
    let common = [
        "--corpus",
        &corpora[0],
        "--corpus",
        &corpora[1],
        "--ibid",
        ibid,
        "--rounds",
        "1",
        "--work",
        &at("work"),
    ];

    let list = tools.join(",");
    let (json, markdown) = (at("run.json"), at("run.md"));
    let more = ["--tools", &list, "--json", &json, "--markdown", &markdown];
    let shown = bench_ok(&[&["repositories"], &common[..], &more].concat());
    assert_eq!(std::fs::read_to_string(&markdown).unwrap().trim_end(), shown.trim_end());
    assert_eq!(bench_ok(&["table", &json]), shown);
    let record = read(Path::new(&json));
    let found = &record["outcome"]["repositories"];
    let samples = found["samples"].as_array().unwrap();
    for (tool, corpus) in tools.iter().flat_map(|tool| [(tool, "tiny"), (tool, "trees")]) {
        let of = |step: &str| {
            samples
                .iter()
                .filter(|sample| sample["tool"] == **tool && sample["step"] == step)
                .filter(|sample| sample["corpus"] == corpus)
                .count()
        };
        let over = if *tool == "ibid" { 3 } else { 0 };
        assert_eq!(
            (
                of("backup"),
                of("open"),
                of("rebackup"),
                of("restore"),
                of("restore-over")
            ),
            (3, 3, 3, 3, over)
        );
        assert!(shown.contains(&format!(" {tool} ")), "{shown}");
        let ours = |sample: &&Value| sample["tool"] == **tool && sample["corpus"] == corpus;
        let first = samples.iter().find(ours).unwrap();
        // Each version has 400 kB with 4 random bits in each byte.
        assert!(
            (200_000..600_000).contains(&first["repository_bytes"].as_u64().unwrap()),
            "{first}"
        );
    }
    let text = std::fs::read_to_string(&json).unwrap();
    assert!(
        !text.contains(folder.path().to_str().unwrap()),
        "no paths of this machine:\n{text}"
    );
    assert_eq!(std::fs::read_dir(at("work")).unwrap().count(), 0, "all is removed");

    let sizes = bench_ok(&[&["chunk-sizes"], &common[..], &["--averages", "4KiB,16KiB"]].concat());
    assert!(sizes.contains("ibid-4KiB") && sizes.contains("ibid-16KiB"), "{sizes}");
}

#[test]
fn chunks_are_read_at_random() {
    let folder = folder();
    versions(&folder.path().join("tiny"));
    let (file, json) = (folder.path().join("tiny/v1"), folder.path().join("run.json"));
    let (file, json) = (file.to_str().unwrap(), json.to_str().unwrap());
    let args = [
        "random-read",
        "--file",
        file,
        "--frames-kib",
        "4,128",
        "--average-kib",
        "8",
        "--reads",
        "20",
    ];
    let shown = bench_ok(&[&args[..], &["--json", json]].concat());
    assert!(shown.contains("| 4 KiB ") && shown.contains("| 128 KiB "), "{shown}");
    assert_eq!(bench_ok(&["table", json]), shown);
    let frames = &read(Path::new(json))["outcome"]["random-read"]["frames"];
    assert_eq!(frames[1]["samples_us"].as_array().unwrap().len(), 20);
}

#[test]
fn chunks_are_looked_up_in_an_index_of_nothing_else() {
    let folder = folder();
    let json = folder.path().join("run.json");
    let json = json.to_str().unwrap();
    let shown = bench_ok(&[
        "index",
        "--chunks",
        "50k",
        "--lookups",
        "1k",
        "--threads",
        "2",
        "--json",
        json,
    ]);
    assert!(shown.contains("50000 chunks in 391 packs"), "{shown}");
    assert_eq!(bench_ok(&["table", json]), shown);
}

#[test]
fn what_is_similar_is_found_among_other_data() {
    let folder = folder();
    versions(&folder.path().join("tiny"));
    let json = folder.path().join("run.json");
    let json = json.to_str().unwrap();
    let corpus = format!("tiny={}", folder.path().join("tiny").display());
    let shown = bench_ok(&["similarity", "--corpus", &corpus, "--times", "1", "--json", json]);
    assert!(shown.contains(" 0 times |") && shown.contains(" 1 times |"), "{shown}");
    assert_eq!(bench_ok(&["table", json]), shown);
}

#[test]
fn commands_on_much_of_everything_are_shown_with_their_memory() {
    let folder = folder();
    let json = folder.path().join("run.json");
    let json = json.to_str().unwrap();
    let ibid = ibid();
    let shown = bench_ok(&[
        "soak",
        "--chunks",
        "1k",
        "--files",
        "1100",
        "--names",
        "100",
        "--snapshots",
        "2",
        "--ibid",
        ibid.to_str().expect("text"),
        "--json",
        json,
    ]);
    assert!(shown.contains("0 commands of ibid took more"), "{shown}");
    for case in [
        "1000 new chunks",
        "1100 files",
        "100 files in one folder",
        "2 snapshots",
    ] {
        assert!(shown.contains(case), "{shown}");
    }
    assert_eq!(bench_ok(&["table", json]), shown);
    let none = ["--chunks", "0", "--files", "0", "--names", "0", "--snapshots", "0"];
    let shown = bench_ok(&[&["soak", "--ibid", ibid.to_str().expect("text")], &none[..]].concat());
    assert!(!shown.contains("ibid backup"), "{shown}");
}

#[test]
fn repositories_age_beside_fresh_ones() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    versions(&folder.path().join("tiny"));
    std::fs::create_dir(folder.path().join("texts")).unwrap();
    for number in 0..20 {
        let text = format!("line of text {number}\n").repeat(40);
        std::fs::write(folder.path().join(format!("texts/{number}.txt")), text).unwrap();
    }
    let ibid = ibid();
    // Two days are enough to see that the others do what they should: each takes a minute for ten.
    for other in ["borg", "restic"].into_iter().filter(|tool| installed(tool)) {
        let shown = bench_ok(&[
            "aging",
            "--ibid",
            ibid.to_str().expect("text"),
            "--corpus",
            &format!("tiny={}", at("tiny")),
            "--tools",
            other,
            "--rounds",
            "2",
            "--every",
            "2",
        ]);
        assert!(shown.contains("tiny: 2 days") && shown.contains(other), "{shown}");
    }
    let tools = ["ibid"];
    // Ten days, of which the rules keep eight: seven days, and the end of the first week.
    let shown = bench_ok(&[
        "aging",
        "--ibid",
        ibid.to_str().expect("text"),
        "--tree",
        &at("texts"),
        "--dump-size",
        "20KiB",
        "--corpus",
        &format!("tiny={}", at("tiny")),
        "--tools",
        &tools.join(","),
        "--rounds",
        "10",
        "--every",
        "6",
        "--json",
        &at("run.json"),
    ]);
    assert!(
        shown.contains("tree: 10 days") && shown.contains("tiny: 10 days"),
        "{shown}"
    );
    assert!(shown.contains("size within 1.1 of a fresh repository"), "{shown}");
    assert_eq!(bench_ok(&["table", &at("run.json")]), shown);

    let record = read(&folder.path().join("run.json"));
    for series in record["outcome"]["aging"]["series"].as_array().expect("series") {
        assert_eq!(series["days"].as_array().unwrap().len(), 10 * tools.len());
        let prune = &series["days"][0]["said"];
        assert!(prune["done"]["freed_bytes"].is_u64(), "what ibid's prune said: {prune}");
        let fresh = series["fresh"].as_array().unwrap();
        assert_eq!(fresh.len(), 1 + tools.len(), "ibid on day 6, all tools on day 10");
        let days: Vec<_> = fresh[1]["snapshots"].as_array().unwrap().iter().collect();
        assert!((8..10).contains(&days.len()) && *days[days.len() - 1] == 10, "{days:?}");
    }
    bench_ok(&["charts", &at("run.json"), "--out", &at("aging.svg")]);
    let picture = std::fs::read_to_string(at("aging.svg")).unwrap();
    assert_eq!(picture.matches("<polyline").count(), 2 * tools.len());
    assert_eq!(
        picture.matches("class=\"fresh\"").count(),
        2 * (1 + 2),
        "in the legend, and on two days"
    );
}

#[test]
fn a_run_that_can_not_be_fair_is_refused() {
    let folder = folder();
    let tiny = folder.path().join("tiny");
    versions(&tiny);
    let corpus = format!("tiny={}", tiny.display());
    let fails = |args: &[&str], why: &str| {
        let output = bench(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{args:?}: {said}");
    };
    let twice = ["repositories", "--corpus", &corpus, "--tools", "ibid,ibid"];
    fails(&twice, "given twice");
    fails(&["aging", "--corpus", &corpus, "--tools", "ibid,ibid"], "given twice");
    fails(
        &["aging", "--corpus", &corpus, "--tools", "zpaq"],
        "zpaq is not compared here",
    );
    fails(&["repositories", "--corpus", "tiny"], "NAME=DIR");
    fails(
        &["repositories", "--corpus", &corpus, "--ibid", "no/such/program"],
        "--ibid",
    );
    // A program that stores nothing cannot restore.
    fails(
        &[
            "repositories",
            "--corpus",
            &corpus,
            "--tools",
            "ibid",
            "--ibid",
            "/bin/true",
        ],
        "reading the folder",
    );
}
