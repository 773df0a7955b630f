//! What `backup` reads: lists of paths, and the output of commands.

use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Home, noise, run_with, signal, wait_until};

/// Returns the names of the latest snapshot's files below the home, without folders.
fn files(home: &Home) -> Vec<String> {
    let top = home.path("");
    let top = top.display().to_string();
    let listed = home.ok(["ls", "latest", "-R"]);
    let paths = listed.lines().filter(|line| !line.ends_with('/'));
    let paths = paths.map(|line| line.trim_start_matches(&top));
    paths.map(|path| path.trim_start_matches('/').to_owned()).collect()
}

#[test]
fn a_list_of_paths_is_backed_up_like_paths_on_the_command_line() {
    let home = Home::new();
    home.write("files/new\nline", "x");
    let lines = "files/anna.txt\n\n  \nfiles/deep\nfiles/anna.txt";
    // A line of blanks is a path like any other.
    let ran = run_with(
        &mut home.ibid(["backup", "--files-from", "-", "files/link"]),
        lines.as_bytes(),
    );
    assert!(
        ran.code == 3 && ran.err.contains("left out:   : cannot find: no such file"),
        "{ran:?}"
    );
    let expected = [
        "files/anna.txt",
        "files/deep/data.bin",
        "files/deep/down/ben.txt",
        "files/link",
    ];
    assert_eq!(files(&home), expected);
    home.write("list", lines.replace("  \n", ""));
    home.write("more", "files/link");
    let second = home.ok(["backup", "--files-from", "list", "--files-from", "more", "--json"]);
    let second: serde_json::Value = serde_json::from_str(&second).unwrap();
    assert_eq!(second["parent"], home.ids()[0], "the same paths make the same backup");

    home.write("list0", "files/new\nline\0./files/anna.txt\0");
    home.ok(["backup", "--files-from0", "list0"]);
    assert_eq!(files(&home), ["files/anna.txt", "files/new\\nline"]);
}

#[test]
fn a_list_that_names_nothing_is_refused() {
    let home = Home::new();
    home.write("empty", "\n\n");
    home.write("zeros", "files\0");
    home.write("long", "x".repeat(5000));
    let said = home.fails(1, ["backup", "--files-from", "empty"]);
    assert!(said.contains("there is no path in empty"), "{said}");
    assert!(
        home.fails(2, ["backup", "--files-from", "zeros"])
            .contains("--files-from0")
    );
    assert!(
        home.fails(2, ["backup", "--files-from", "long"])
            .contains("line 1 of long")
    );
    assert!(
        home.fails(1, ["backup", "--files-from", "none"])
            .contains("cannot open none")
    );
    assert!(
        home.fails(1, ["backup", "--files-from", "files"])
            .contains("cannot read files")
    );
    assert!(
        home.fails(2, ["backup", "--files-from", "-", "--files-from0", "-"])
            .contains("only one option")
    );
    home.fails(2, ["backup", "--files-from", "list", "--stdin", "x"]);
    assert!(home.ids().is_empty());
}

#[test]
fn a_backup_without_changes_can_be_skipped() {
    let home = Home::with_snapshot();
    let skipping = ["backup", "files", "--skip-if-unchanged"];
    // The folder around what was named is another.
    home.write("beside", "x");
    let said = home.ok(skipping);
    let short = home.ids()[0][..8].to_owned();
    assert!(
        said.contains(&format!(
            "nothing has changed since snapshot {short}, so there is no new one"
        )),
        "{said}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&home.ok([skipping.as_slice(), &["--json", "--force"]].concat())).unwrap();
    assert_eq!((&json["skipped"], &json["dry_run"]), (&true.into(), &false.into()));
    assert_eq!(
        (json["snapshot"].as_str(), json["parent"].as_str()),
        (None, Some(home.ids()[0].as_str()))
    );
    assert_eq!(home.ids().len(), 1);
    for (number, change) in [
        &["chmod", "600", "files/anna.txt"][..],
        &["touch", "files/new"],
        &["rm", "files/link"],
    ]
    .into_iter()
    .enumerate()
    {
        let changed = std::process::Command::new(change[0])
            .args(&change[1..])
            .current_dir(home.path(""))
            .status();
        assert!(changed.unwrap().success());
        home.ok(skipping);
        assert_eq!(home.ids().len(), number + 2, "after {change:?}");
        home.ok(skipping);
        assert_eq!(home.ids().len(), number + 2, "after {change:?} again");
    }
    home.fails(2, ["backup", "--skip-if-unchanged", "--stdin", "x"]);
}

#[test]
fn the_output_of_a_command_becomes_a_file() {
    let home = Home::new();
    home.write("noise", noise(3 << 20, 4));
    home.ok([
        "backup",
        "--stdin-from-command",
        "--stdin-name",
        "copy",
        "--",
        "cat",
        "noise",
    ]);
    assert!(home.run(["dump", "latest:copy"]).raw == noise(3 << 20, 4));
    let ran = home.run([
        "backup",
        "--stdin-from-command",
        "--",
        "sh",
        "-c",
        "echo said >&2; echo printed",
    ]);
    assert!(ran.code == 0 && ran.err.contains("said\n"), "{ran:?}");
    assert_eq!(home.ok(["dump", "latest:stdin"]), "printed\n");
    home.ok(["backup", "--stdin-from-command", "--stdin-name", "env", "--", "env"]);
    assert!(
        !home.ok(["dump", "latest:env"]).contains("secret"),
        "the command does not get the password"
    );
}

#[test]
fn a_command_that_fails_makes_no_snapshot() {
    let home = Home::new();
    for (script, how) in [
        ("echo half; exit 7", "sh failed with exit status 7"),
        ("echo half; kill -9 $$", "sh was killed by signal 9"),
        // It fails after its output was closed.
        ("echo half; exec >&-; sleep 0.3; exit 1", "sh failed with exit status 1"),
    ] {
        let said = home.fails(1, ["backup", "--stdin-from-command", "--", "sh", "-c", script]);
        assert!(said.contains(how) && said.contains("there is no snapshot"), "{said}");
    }
    let said = home.fails(1, ["backup", "--stdin-from-command", "--", "no-such-program"]);
    assert!(said.contains("cannot start no-such-program: no such file"), "{said}");
    let said = home.fails(2, ["backup", "--stdin-from-command"]);
    assert!(
        said.contains("needs a command after `--`") && !said.contains("PATH"),
        "{said}"
    );
    home.fails(2, ["backup", "--stdin-from-command", "--stdin", "x", "--", "true"]);
    home.fails(2, ["backup", "--stdin-name", "x", "files"]);
    assert!(home.ids().is_empty());
}

/// A shell that is asked to end does not ask what it has started.
#[test]
fn what_a_command_has_started_ends_with_it() {
    let home = Home::new();
    let write_pid = "echo $$ > $0.new; mv $0.new $0";
    let deaf = format!("trap '' TERM; {write_pid}; sleep 60; true");
    let calm = format!("{write_pid}; sleep 60; true");
    let script = format!("sh -c \"{calm}\" calm & sh -c \"{deaf}\" deaf | cat").replace("$", "\\$");
    let mut command = home.ibid(["backup", "--stdin-from-command", "--", "sh", "-c", &script]);
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    wait_until("the programs run", || {
        home.path("calm").exists() && home.path("deaf").exists()
    });
    signal(&child, Signal::TERM);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    for name in ["calm", "deaf"] {
        let pid = std::fs::read_to_string(home.path(name)).unwrap();
        // A process that was killed may take a moment to end.
        wait_until(&format!("{name} has ended"), || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
        });
    }
}

#[test]
fn a_command_ends_when_the_backup_is_stopped() {
    let home = Home::new();
    let script = "echo $$ > pid.new; mv pid.new pid; trap 'echo > cleaned; exit 1' TERM; while :; do sleep 0.05; done";
    let mut command = home.ibid(["backup", "--stdin-from-command", "--", "sh", "-c", script]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    wait_until("the command runs", || home.path("pid").exists());
    let asked = Instant::now();
    signal(&child, Signal::INT);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(
        ended.status.code(),
        Some(130),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    assert!(asked.elapsed() < Duration::from_secs(10));
    assert!(
        home.path("cleaned").exists(),
        "the command was asked, and could clean up"
    );
    let pid = std::fs::read_to_string(home.path("pid")).unwrap();
    assert!(!std::path::Path::new("/proc").join(pid.trim()).exists());
    assert!(home.ids().is_empty());
}
