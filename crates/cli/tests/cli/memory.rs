//! The budget of memory: a process takes no more than `--memory`, and 20 MiB for the program itself.

use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::{CHEAP, Home, noise};

/// Code, stacks, and what the allocator needs for itself, bytes.
const PROGRAM_OWN: u64 = 20 << 20;

/// Returns the most memory that a process has had, bytes, as long as it runs.
fn peak(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib << 10)
}

#[track_caller]
fn stays_within(home: &Home, mib: u64, arguments: &[&str]) {
    let budget = format!("--memory={mib}MiB");
    let mut command = home.ibid(arguments.iter().copied().chain(["--quiet", &budget]));
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let mut most = 0;
    let ended = loop {
        // The highest value so far is read again and again, so only what comes in the last moments
        // can be missed.
        most = peak(&child).unwrap_or(0).max(most);
        match child.try_wait().unwrap() {
            Some(ended) => break ended,
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    assert!(ended.success(), "{arguments:?}: {ended}");
    assert!(
        most > 0 && most <= (mib << 20) + PROGRAM_OWN,
        "{arguments:?}: {} of {mib} MiB",
        most >> 20
    );
}

/// Returns text of about this length that compresses like program text.
fn text(length: usize, seed: u64) -> Vec<u8> {
    let mut text = Vec::with_capacity(length + 32);
    for pair in noise(length / 2, seed).chunks_exact(2) {
        let word = (usize::from(pair[0]) << 5) | usize::from(pair[1] >> 3);
        // Short words are frequent.
        text.extend_from_slice(format!("{:x}", (word * word) >> (pair[1] & 7)).as_bytes());
        text.push(if pair[1] & 31 == 0 { b'\n' } else { b' ' });
        if text.len() >= length {
            break;
        }
    }
    text
}

/// Writes files of all sizes, each in several versions that become deltas: more than three times the
/// budget.
fn write_tree(home: &Home) {
    for family in 0..200u64 {
        let mut bytes = text(40 << (family % 17), family);
        for version in 0..6 {
            for change in 0..1 + bytes.len() / 20_000 {
                let at = (change * 20_011 + version * 7919) % bytes.len();
                bytes.splice(at..at, format!("change {version} of {change}\n").into_bytes());
            }
            home.write(format!("tree/{}/{family}-{version}", family % 10), &bytes);
        }
    }
    for number in 0..2 {
        home.write(format!("tree/large/{number}"), noise(32 << 20, number));
    }
    for number in 0..3000 {
        home.write(
            format!("tree/small/{}/{number}", number % 50),
            text(number * 3, number as u64),
        );
    }
}

#[test]
fn backup_restore_and_check_stay_within_the_budget() {
    let home = Home::new();
    write_tree(&home);
    for (mib, threads) in [(128, 1), (128, 16), (256, 16)] {
        let _ = std::fs::remove_dir_all(home.path("repo"));
        home.ok(["init", "--quiet", CHEAP[0], CHEAP[1]]);
        stays_within(&home, mib, &["backup", "tree", &format!("--threads={threads}")]);
        stays_within(&home, mib, &["backup", "tree"]);
    }
    // What was stored with more memory has deltas, and is read with less.
    for mib in [256, 128] {
        stays_within(&home, mib, &["check", "--read-data"]);
        for threads in [1, 16] {
            stays_within(
                &home,
                mib,
                &["restore", "latest", "out", &format!("--threads={threads}")],
            );
            std::fs::remove_dir_all(home.path("out")).unwrap();
        }
    }
}

#[test]
fn long_lists_of_patterns_stay_within_the_budget() {
    let home = Home::new();
    home.write("tree/file", text(1000, 1));
    let lines = |line: fn(u32) -> String| (0..100_000).map(line).collect::<String>();
    home.write("names", lines(|number| format!("build-{number}\n")));
    home.write("paths", lines(|number| format!("/srv/*/cache/{number}/**/*.tmp\n")));
    for list in ["names", "paths"] {
        stays_within(&home, 128, &["backup", "tree", &format!("--exclude-file={list}")]);
    }
}
