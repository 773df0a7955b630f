//! `ibid-bench records`.

use std::ffi::OsString;
use std::process::Stdio;

use rustix::process::Signal;

use crate::support::{Home, growing_pages, json_lines, ran, signal, wait_until};

#[test]
fn a_benchmark_stops_when_asked_and_leaves_nothing() {
    let home = Home::bare();
    home.write("lines", json_lines(&growing_pages(50, 60)));
    let mut command = home.ibid("records lines --body body --work . --json x.json".split(' '));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it has begun", || {
        let names = std::fs::read_dir(home.path("")).unwrap().flatten();
        names
            .into_iter()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("ibid-bench-"))
    });
    signal(&child, Signal::INT);
    let ended = ran(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.out.as_str()), (130, ""), "{ended:?}");
    let names = std::fs::read_dir(home.path("")).unwrap().flatten();
    let names: Vec<OsString> = names.map(|entry| entry.file_name()).collect();
    assert!(names.iter().all(|name| name == "lines" || name == "files"), "{names:?}");

    let refused = |code, arguments: &str| home.fails(code, arguments.split(' '));
    assert!(refused(2, "records lines --trace 1").contains("99.9:0.1"));
    assert!(refused(2, "records lines --trace 0:0").contains("99.9:0.1"));
    assert!(refused(2, "records lines --busy 10").contains("400ms"));
    assert!(refused(2, "records lines --report x.txt").contains(".html"));
    assert!(refused(1, "records lines --key other").contains("line 1: there is no field"));
    assert!(refused(1, "records nowhere").contains("cannot open"));
}
