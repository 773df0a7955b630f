//! Backups that are killed or stopped in the middle, as real processes, and the next one.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Home, noise, signal, tree};
use crate::tables::Tables;

const DOCUMENT: &str = include_str!("../../../../docs/json.md");
const FILES: u64 = 200;
const FILE_BYTES: u64 = 256 << 10;
const OFTEN: [&str; 5] = ["backup", "--checkpoint-every", "4MiB", "--threads", "1"];

/// A home with many files that are old enough to be told from changed ones.
fn home() -> Home {
    let home = Home::new();
    std::fs::remove_dir_all(home.path("files")).unwrap();
    for n in 0..FILES {
        home.write(format!("files/d{}/f{n:03}", n / 40), noise(FILE_BYTES as usize, n + 1));
    }
    std::thread::sleep(Duration::from_millis(50));
    home
}

/// Starts a backup, and ends it by a signal after the first checkpoints. Returns its exit code, if it had one.
fn interrupted(home: &Home, by: Signal) -> Option<i32> {
    let mut command = home.ibid(OFTEN.into_iter().chain(["files"]));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while checkpoints(home) == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "no checkpoint");
        assert_eq!(
            child.try_wait().unwrap(),
            None,
            "it was faster than anybody who stops it"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(&child, by);
    child.wait().unwrap().code()
}

fn checkpoints(home: &Home) -> usize {
    std::fs::read_dir(home.path("repo/checkpoints")).map_or(0, Iterator::count)
}

/// Backs up once more, and checks everything.
fn resumed(home: &Home) -> Value {
    let summary = home.ok(["backup", "files", "--json"]);
    let summary = Tables::read(&[DOCUMENT]).document("backup", &summary);
    let number = |name: &str| summary[name].as_u64().unwrap();
    assert_eq!(number("files"), FILES);
    assert_eq!(
        number("resumed_bytes") + number("read_bytes"),
        FILES * FILE_BYTES,
        "{summary}"
    );
    home.ok(["check", "--read-data"]);
    home.ok(["restore", "latest", "back", "--verify"]);
    assert_eq!(
        tree(&home.path("files")),
        tree(&home.path("back").join(home.path("files").strip_prefix("/").unwrap()))
    );
    home.ok(["prune"]);
    assert_eq!(checkpoints(home), 0);
    summary
}

#[test]
fn a_backup_that_is_killed_keeps_what_it_had_finished_at_its_last_checkpoint() {
    let home = home();
    assert_eq!(interrupted(&home, Signal::KILL), None);
    assert!(home.ids().is_empty());
    let sessions = home.ok(["sessions", "--json"]);
    let sessions = Tables::read(&[DOCUMENT]).stream("sessions", &sessions);
    let kept = sessions[1]["checkpoint"]["bytes"].as_u64().unwrap();
    assert!(kept >= 4 << 20, "{sessions:?}");
    let listed = home.ok(["sessions"]);
    assert!(listed.contains("killed") && listed.contains("MiB"), "{listed}");
    // It ends the session; what the checkpoint needs stays.
    home.ok(["prune"]);
    let summary = resumed(&home);
    assert!(summary["resumed_bytes"].as_u64().unwrap() >= kept, "{summary}");
    assert!(summary["resumed_from"].is_string());
}

#[test]
fn a_backup_that_is_stopped_keeps_all_that_it_had_finished_and_says_so_afterwards() {
    for by in [Signal::INT, Signal::TERM] {
        let home = home();
        assert_eq!(interrupted(&home, by), Some(130));
        let again = home.ok(["backup", "files", "--dry-run"]);
        let told = again.lines().find(|line| line.contains("  resumed ")).unwrap();
        assert!(
            told.contains("taken over from a backup that was interrupted after 20"),
            "{told}"
        );
        let summary = resumed(&home);
        assert!(summary["resumed_bytes"].as_u64().unwrap() >= 4 << 20, "{summary}");
        assert_eq!(
            home.ok(["backup", "files", "--json"])
                .matches("\"resumed_from\":null")
                .count(),
            1,
            "there is a snapshot now"
        );
    }
}
