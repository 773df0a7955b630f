//! The charts in the documents are those that the run files give.

use std::path::Path;
use std::process::Command;

#[test]
fn the_picture_of_readme_is_drawn_from_run_files() {
    let runs = ["all", "rivals"].map(|name| format!("2026-11-23-repositories-{name}-epyc.json"));
    check(&runs, "size.svg");
}

#[test]
fn the_picture_of_aging_is_drawn_from_run_files() {
    let runs = ["tree", "lnx", "rds", "pg"].map(|name| format!("2026-11-25-aging-{name}.json"));
    check(&runs, "aging.svg");
}

#[test]
fn the_picture_of_hours_is_drawn_from_its_run_file() {
    check(&["2026-11-26-hours.json".to_owned()], "hours.svg");
}

/// Fails unless the picture in `docs/images` is what these runs give.
fn check(runs: &[String], picture: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let runs: Vec<_> = runs
        .iter()
        .map(|name| root.join("runs").join(name).display().to_string())
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let drawn = folder.path().join(picture);
    let status = Command::new(env!("CARGO_BIN_EXE_ibid-bench"))
        .arg("charts")
        .args(&runs)
        .arg("--out")
        .arg(&drawn)
        .status();
    assert!(status.unwrap().success());
    let committed = root.join("../../docs/images").join(picture);
    assert!(
        std::fs::read(&drawn).unwrap() == std::fs::read(committed).unwrap(),
        "draw it anew: ibid-bench charts {} --out docs/images/{picture}",
        runs.join(" ")
    );
}
