//! The chart in README is the one that the run files give.

use std::path::Path;
use std::process::Command;

#[test]
fn the_picture_of_readme_is_drawn_from_run_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let runs = ["all", "rivals"].map(|name| root.join(format!("runs/2026-11-23-repositories-{name}-epyc.json")));
    let folder = tempfile::tempdir().unwrap();
    let drawn = folder.path().join("size.svg");
    let status = Command::new(env!("CARGO_BIN_EXE_ibid-bench"))
        .arg("charts")
        .args(&runs)
        .arg("--out")
        .arg(&drawn)
        .status();
    assert!(status.unwrap().success());
    let committed = root.join("../../docs/images/size.svg");
    assert!(
        std::fs::read(&drawn).unwrap() == std::fs::read(committed).unwrap(),
        "draw it anew: ibid-bench charts {} --out docs/images/size.svg",
        runs.map(|run| run.display().to_string()).join(" ")
    );
}
