//! Profiles of the config file, and `ibid run`.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{CHEAP, Home, Ran, as_somebody, noise, packs, run, signal, wait_until};
use crate::tables::Tables;

/// Writes the config file of a home; `@` in it is the home's path.
fn write(home: &Home, text: &str) {
    let top = home.path("").display().to_string();
    let file = home.path(".config/ibid/config.toml");
    home.write(&file, text.replace('@', top.trim_end_matches('/')));
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
}

/// Returns the program without a repository and a password in its environment.
fn ibid(home: &Home, arguments: &[&str]) -> Command {
    let mut command = home.ibid(arguments);
    command.env_remove("IBID_REPO").env_remove("IBID_PASSWORD");
    command
}

#[track_caller]
fn ends(home: &Home, code: i32, arguments: &[&str]) -> Ran {
    let ran = run(&mut ibid(home, arguments));
    assert_eq!(ran.code, code, "{ran:?}");
    ran
}

/// Returns what `run --json` says about each step: its name and how it ended.
fn steps(ran: &Ran) -> Vec<(String, String)> {
    let lines = ran.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    lines
        .filter(|line| line["type"] == "step")
        .map(|line| (text(&line["step"]), text(&line["outcome"])))
        .collect()
}

fn named(steps: &[(&str, &str)]) -> Vec<(String, String)> {
    steps
        .iter()
        .map(|(step, how)| (step.to_string(), how.to_string()))
        .collect()
}

const HOME: &str = r#"
[profile.home]
repo = "@/repo"
password-file = "~/password"

[profile.home.backup]
paths = ["~/files"]
exclude = ["*.bin"]
tag = ["daily"]
host = "mill"

[profile.home.forget]
keep-last = 2
group-by = ["host", "paths"]

[profile.home.prune]
max-unused = "0"
every = "7d"

[profile.home.check]
read-data = "5%"
every = "7d"
"#;

fn with_profile() -> Home {
    let home = Home::new();
    home.write("password", "secret\n");
    write(&home, HOME);
    home
}

fn newest(home: &Home) -> Value {
    let text = home.ok(["snapshots", "--json"]);
    let lines: Vec<&str> = text.lines().collect();
    serde_json::from_str(lines[lines.len() - 2]).unwrap()
}

#[test]
fn a_profile_gives_what_the_command_line_does_not() {
    let home = with_profile();
    ends(&home, 0, &["--profile", "home", "backup"]);
    let snapshot = newest(&home);
    assert_eq!(
        (&snapshot["host"], &snapshot["tags"][0], &snapshot["files"]),
        (&"mill".into(), &"daily".into(), &2.into())
    );
    // An option behind the command is one of the command line like any other.
    ends(&home, 0, &["backup", "--host", "other", "--profile=home"]);
    assert_eq!(
        (&newest(&home)["host"], &newest(&home)["tags"][0]),
        (&"other".into(), &"daily".into())
    );
    // Who names paths means these only.
    home.write("one.bin", "x");
    home.write("two.txt", "x");
    let list = home.path("list");
    home.write(&list, format!("{}\n", home.path("two.txt").display()));
    ends(
        &home,
        0,
        &["--profile", "home", "backup", "--files-from", list.to_str().unwrap()],
    );
    assert_eq!(
        (&newest(&home)["files"], &newest(&home)["paths"][1]),
        (&1.into(), &Value::Null)
    );
    ends(
        &home,
        0,
        &["--profile", "home", "backup", "--exclude", "*.txt", "one.bin"],
    );
    assert_eq!(
        newest(&home)["files"],
        1,
        "the patterns of the command line replace those of the profile"
    );
    // Commands without a table take what all commands take.
    assert!(ends(&home, 0, &["--profile", "home", "snapshots"]).out.contains("mill"));
    let plan = ends(&home, 0, &["--profile", "home", "forget", "-n"]).out;
    assert!(plan.contains("0 snapshots would be forgotten"), "{plan}");
}

/// Otherwise a variable that was meant for other commands makes `run` forget by the rules of one repository in
/// another one.
#[test]
fn a_profile_comes_before_the_environment_and_the_command_line_before_both() {
    let home = with_profile();
    let other = home.path("other");
    let mut init = ibid(&home, &["init"]);
    let init = init.env("IBID_REPO", &other).env("IBID_PASSWORD", "another");
    assert_eq!(run(init).code, 0);
    let elsewhere = |arguments: &[&str]| {
        let mut command = ibid(&home, arguments);
        let command = command.env("IBID_REPO", &other).env("IBID_PASSWORD", "another");
        run(command)
    };
    let ran = elsewhere(&["run", "home"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(elsewhere(&["snapshots"]).out.contains("0 snapshots"));
    assert!(
        elsewhere(&["--profile", "home", "snapshots"])
            .out
            .contains("1 snapshot\n")
    );
    // What the profile does not say still comes from the environment.
    let mut cache = ibid(&home, &["--profile", "home", "cache", "stats"]);
    let cache = run(cache.env("IBID_CACHE_DIR", home.path("elsewhere")));
    assert!(cache.out.contains("elsewhere"), "{}", cache.out);
    let by_hand = ["--profile", "home", "--password-command", "echo another", "--repo"];
    let mut by_hand: Vec<&str> = by_hand.to_vec();
    by_hand.extend([other.to_str().unwrap(), "snapshots"]);
    assert!(ends(&home, 0, &by_hand).out.contains("0 snapshots"));
}

#[test]
fn a_mistake_in_the_file_names_its_line_and_what_was_meant() {
    let home = Home::new();
    for (text, expected) in [
        (
            "[profile.a]\nrepository = '/x'",
            "line 2 of @: unknown key \"repository\"",
        ),
        (
            "[profile.a]\nmemroy = '1GiB'",
            "line 2 of @: unknown key \"memroy\": did you mean \"memory\"?",
        ),
        (
            "\n[profile.a.forget]\n\nkeep-dayly = 7",
            "line 4 of @: unknown key \"keep-dayly\": did you mean \"keep-daily\"?",
        ),
        (
            "[profile.a.bakup]",
            "line 1 of @: unknown key \"bakup\": did you mean \"backup\"?",
        ),
        (
            "[profil.a]",
            "line 1 of @: unknown key \"profil\": did you mean a table such as [profile.home]?",
        ),
        (
            "[profile.a]\npassword = 'secret'",
            "line 2 of @: a password does not belong into this file",
        ),
        (
            "[profile.a.backup]\ndry-run = true",
            "line 2 of @: \"dry-run\" is for one run only",
        ),
        ("[profile.a.backup]\nevery = '1d'", "line 2 of @: unknown key \"every\""),
        (
            "[profile.a]\nmemory = true",
            "line 2 of @: memory: expected a string or an integer, found a boolean",
        ),
        (
            "[profile.a.backup]\npaths = [\n'/x',\n5]",
            "line 4 of @: paths: expected a string, found an integer",
        ),
        (
            "[profile.a.backup]\none-file-system = 'yes'",
            "line 2 of @: one-file-system: expected true or false, found a string",
        ),
        ("[profile]\na = 'x'", "line 2 of @: a: expected a table, found a string"),
        (
            "[profile.a]\nrepo = 'here'",
            "line 2 of @: repo: expected a path that begins with / or ~/, found \"here\"",
        ),
        ("[profile.a]\nmemory = '1 elephant'", "line 2 of @: memory: expected"),
        ("[profile.a.forget]\nkeep-daily = 'x'", "line 2 of @: keep-daily: "),
        (
            "[profile.a.forget]\ngroup-by = 'hosts'",
            "line 2 of @: group-by: expected one of host, paths, tags, none, found \"hosts\"",
        ),
        (
            "[profile.a.prune]\nevery = '7'",
            "line 2 of @: every: expected a span such as 7d",
        ),
        ("[profile.a]\nrepo = ", "line 2 of @: "),
        ("[profile.a]\nrepo = '/x'\nrepo = '/y'", "line 3 of @: duplicate key"),
        ("[profile.'a/b']", "line 1 of @: \"a/b\" is no name for a profile"),
        (
            "[profile.a]\npassword-file = '/x'\npassword-command = 'y'",
            "profile \"a\" of @: the argument",
        ),
    ] {
        write(&home, text);
        let said = ends(&home, 2, &["--profile", "a", "snapshots"]).err;
        let file = home.path(".config/ibid/config.toml").display().to_string();
        let expected = format!("ibid: {}", expected.replace('@', &file));
        assert!(said.starts_with(&expected), "{text}\n{said}{expected}");
        assert_eq!(ends(&home, 2, &["run", "a"]).err, said);
    }
    write(&home, HOME);
    let said = ends(&home, 2, &["--profile", "hme", "snapshots"]).err;
    assert!(said.contains("did you mean \"home\"?"), "{said}");
    let said = ends(&home, 2, &["--config", "none", "snapshots"]).err;
    assert!(said.contains("name the profile with --profile, too"), "{said}");
    let said = ends(&home, 2, &["--profile", "x", "--config", "none", "snapshots"]).err;
    assert!(said.contains("there is no config file none"), "{said}");
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    let home = with_profile();
    let file = home.path(".config/ibid/config.toml");
    for mode in [0o620, 0o602, 0o666] {
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        let said = ends(&home, 1, &["--profile", "home", "snapshots"]).err;
        assert!(said.contains(&format!("chmod go-w {}", file.display())), "{said}");
    }
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    ends(&home, 0, &["--profile", "home", "snapshots"]);
    if rustix::process::geteuid().is_root() {
        // Root may read and change the files of others, and they may not change root's.
        assert_eq!(run(&mut as_somebody(&home, &["run", "--list"])).code, 0);
        std::os::unix::fs::chown(&file, Some(1234), None).unwrap();
        let said = ends(&home, 1, &["run", "--list"]).err;
        assert!(said.contains("belongs to another user"), "{said}");
    }
}

#[test]
fn a_run_backs_up_forgets_prunes_and_checks() {
    let home = with_profile();
    let ran = ends(&home, 0, &["run", "home"]);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 4, "{ran:?}");
    let begins = [
        "home: backup: snapshot ",
        "home: forget: 0 snapshots forgotten, 1 kept",
        "home: prune: ",
        "home: check: no faults in 1 snapshot and",
    ];
    for (line, begin) in lines.iter().zip(begins) {
        assert!(line.starts_with(begin), "{line}\n{begin}");
    }
    assert!(!lines[2].contains(" 0 B stored"), "{}", lines[2]);
    // The next runs forget by the rules, and prune and check again in a week.
    for _ in 0..3 {
        let ran = ends(&home, 0, &["run", "home", "--json"]);
        let expected = [
            ("backup", "done"),
            ("forget", "done"),
            ("prune", "not_due"),
            ("check", "not_due"),
        ];
        assert_eq!(steps(&ran), named(&expected), "{ran:?}");
    }
    assert_eq!(home.ids().len(), 2);
    let quiet = ends(&home, 0, &["run", "home", "--quiet"]);
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("", ""));
}

#[test]
fn a_step_is_due_again_when_its_time_has_passed_or_it_failed() {
    let home = with_profile();
    ends(&home, 0, &["run", "home"]);
    let folder = home.path(".local/state/ibid");
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let state = files
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "json"))
        .unwrap();
    let text: Value = serde_json::from_slice(&std::fs::read(&state).unwrap()).unwrap();
    let ago = |days: u64| text["prune"].as_u64().unwrap() - days * 86400;
    std::fs::write(
        &state,
        serde_json::json!({"prune": ago(8), "check": ago(5)}).to_string(),
    )
    .unwrap();
    let expected = [
        ("backup", "done"),
        ("forget", "done"),
        ("prune", "done"),
        ("check", "not_due"),
    ];
    assert_eq!(steps(&ends(&home, 0, &["run", "home", "--json"])), named(&expected));
    // A check that finds faults is not a success, so the next run checks again.
    std::fs::write(&state, "damaged").unwrap();
    std::fs::remove_file(&packs(&home)[0]).unwrap();
    let global = HOME.split("[profile.home.backup]").next().unwrap();
    write(&home, &format!("{global}[profile.home.check]\nevery = \"7d\""));
    for _ in 0..2 {
        let ran = ends(&home, 4, &["run", "home", "--quiet"]);
        assert!(
            ran.out.is_empty() && ran.err.contains("fault: ") && ran.err.contains("home: check: FOUND"),
            "{ran:?}"
        );
    }
}

#[test]
fn a_prune_that_finds_packs_damaged_is_code_3_and_is_made_again() {
    let home = with_profile();
    home.write("files/large", noise(300_000, 5));
    ends(&home, 0, &["run", "home"]);
    // Not the one that has the folders.
    let packs = packs(&home).into_iter();
    let largest = packs.max_by_key(|pack| pack.metadata().unwrap().len()).unwrap();
    std::fs::remove_file(largest).unwrap();
    let global = HOME.split("[profile.home.backup]").next().unwrap();
    write(&home, &format!("{global}[profile.home.prune]\nevery = \"7d\""));
    std::fs::remove_dir_all(home.path(".local/state/ibid")).unwrap();
    for _ in 0..2 {
        let ran = ends(&home, 3, &["run", "home", "--quiet"]);
        assert!(
            ran.out.is_empty()
                && ran.err.contains("1 pack of the repository: 1 missing")
                && ran
                    .err
                    .contains("stored; 1 pack of the repository not whole (see above)"),
            "{ran:?}"
        );
    }
}

#[test]
fn files_that_were_left_out_are_code_3_and_the_other_steps_run() {
    let home = with_profile();
    write(&home, &HOME.replace("[\"~/files\"]", "[\"~/files\", \"~/nowhere\"]"));
    let ran = ends(&home, 3, &["run", "home", "--quiet"]);
    assert!(
        ran.out.is_empty() && ran.err.contains("left out: ") && ran.err.contains("1 file or folder could not be read"),
        "{ran:?}"
    );
    let expected = [
        ("backup", "partial"),
        ("forget", "done"),
        ("prune", "not_due"),
        ("check", "not_due"),
    ];
    assert_eq!(steps(&ends(&home, 3, &["run", "home", "--json"])), named(&expected));
}

#[test]
fn after_a_failed_backup_nothing_is_forgotten_or_pruned() {
    let home = with_profile();
    for _ in 0..3 {
        home.ok(["backup", "--quiet", "--host", "mill", "files"]);
    }
    write(
        &home,
        &HOME.replace("exclude = [\"*.bin\"]", "exclude-file = \"~/none\""),
    );
    let ran = ends(&home, 1, &["run", "home", "--json"]);
    let expected = [
        ("backup", "failed"),
        ("forget", "not_run"),
        ("prune", "not_run"),
        ("check", "done"),
    ];
    assert_eq!(steps(&ran), named(&expected), "{ran:?}");
    assert_eq!(home.ids().len(), 3);
    // Without a repository, there is nothing to check either; the other profile has one.
    write(
        &home,
        &(HOME.replace("@/repo", "@/gone") + &HOME.replace("profile.home", "profile.second")),
    );
    let ran = ends(&home, 10, &["run", "home", "second"]);
    assert!(
        ran.err
            .contains("ibid: home: backup failed: there is no repository in "),
        "{ran:?}"
    );
    assert!(
        ran.out.contains("home: check: not run") && ran.out.contains("second: backup: snapshot "),
        "{ran:?}"
    );
}

#[test]
fn rules_that_keep_nothing_of_a_group_need_a_yes() {
    let home = with_profile();
    home.ok(["backup", "--quiet", "--host", "old", "files"]);
    let rules = "keep-tag = \"daily\"\n";
    write(&home, &HOME.replace("keep-last = 2\n", rules));
    let ran = ends(&home, 2, &["run", "home"]);
    assert!(ran.err.contains("keep none of the 1 snapshot of old "), "{ran:?}");
    assert_eq!(home.ids().len(), 2);
    write(&home, &HOME.replace("keep-last = 2\n", &format!("{rules}yes = true\n")));
    ends(&home, 0, &["run", "home"]);
    assert_eq!(home.ids().len(), 2, "the old one is gone, and there is a new one");
    // Most of a group goes without a question.
    for _ in 0..8 {
        home.ok(["backup", "--quiet", "--host", "mill", "files"]);
    }
    write(&home, &HOME.replace("keep-last = 2", "keep-last = 1"));
    ends(&home, 0, &["run", "home"]);
    assert_eq!(home.ids().len(), 1);
}

/// As with a clock that is wrong by years: the snapshots of before were made a moment ago.
#[test]
fn what_was_made_long_before_the_next_snapshot_is_forgotten_only_with_a_yes() {
    let home = with_profile();
    for day in ["2020-03-01", "2020-03-02", "2020-03-03"] {
        home.ok(["backup", "--quiet", "--host", "mill", "files", "--time", day]);
    }
    write(&home, &HOME.replace("keep-last = 2", "keep-within = \"30d\""));
    for count in [4, 5] {
        let ran = ends(&home, 2, &["run", "home"]);
        assert!(
            ran.err
                .contains("nothing was forgotten: between the snapshots of 2020-03-03 00:00:00 and ")
                && ran.err.contains("keep-within would forget 3 snapshots. If the clock"),
            "{ran:?}"
        );
        assert_eq!(home.ids().len(), count);
    }
    let ran = ends(&home, 0, &["--profile", "home", "forget", "--dry-run"]);
    assert!(
        ran.err.contains("does not keep 3 snapshots from before that"),
        "{ran:?}"
    );
    ends(&home, 0, &["--profile", "home", "forget", "--yes"]);
    assert_eq!(home.ids().len(), 2);
    let ran = ends(&home, 0, &["run", "home"]);
    assert_eq!((home.ids().len(), ran.err.as_str()), (3, ""));
}

#[test]
fn two_runs_of_a_profile_do_not_overlap() {
    let home = with_profile();
    let waiting = "password-command = \"touch @/asked; while [ ! -e @/go ]; do sleep 0.05; done; echo secret\"";
    write(&home, &HOME.replace("password-file = \"~/password\"", waiting));
    let first = ibid(&home, &["run", "home", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the first run is at work", || home.path("asked").exists());
    let second = ends(&home, 0, &["run", "home"]);
    assert_eq!(
        second.out,
        "home: nothing done, because another `ibid run` of this profile is at work\n"
    );
    assert_eq!(
        steps(&ends(&home, 0, &["run", "home", "--json"])),
        named(&[("run", "busy")])
    );
    home.write("go", "");
    let first = crate::support::ran(first.wait_with_output().unwrap());
    assert!(first.code == 0 && steps(&first).len() == 4, "{first:?}");
}

#[test]
fn a_run_that_is_asked_to_stop_begins_no_other_step() {
    let home = with_profile();
    let waiting = "password-command = \"touch @/asked; while [ ! -e @/go ]; do sleep 0.05; done; echo secret\"";
    write(&home, &HOME.replace("password-file = \"~/password\"", waiting));
    let mut command = ibid(&home, &["run", "home", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the run is at work", || home.path("asked").exists());
    signal(&child, Signal::TERM);
    // The handler is a thread, which has to be first.
    std::thread::sleep(std::time::Duration::from_millis(300));
    home.write("go", "");
    let ran = crate::support::ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{ran:?}");
    assert_eq!(
        steps(&ran),
        named(&[("backup", "done"), ("forget", "failed")]),
        "{ran:?}"
    );
}

#[test]
fn a_table_that_lacks_something_says_what() {
    let home = with_profile();
    write(&home, &HOME.replace("paths = [\"~/files\"]", ""));
    let ran = ends(&home, 2, &["run", "home"]);
    let expected = "ibid: home: backup failed: the following required arguments were not provided: <PATH>...";
    assert!(ran.err.starts_with(expected), "{ran:?}");
    write(&home, &HOME.replace("keep-last = 2", ""));
    let ran = ends(&home, 2, &["run", "home"]);
    assert!(
        ran.err.contains("home: forget failed: nothing to forget was named"),
        "{ran:?}"
    );
}

#[test]
fn options_of_the_command_line_hold_for_every_step() {
    let home = with_profile();
    home.ok(["--repo", "other", "init", "--quiet", CHEAP[0], CHEAP[1]]);
    let other = home.path("other");
    ends(
        &home,
        0,
        &["run", "home", "--repo", other.to_str().unwrap(), "--no-cache"],
    );
    assert!(home.ids().is_empty());
    assert!(home.ok(["--repo", "other", "snapshots"]).contains("mill"));
    ends(&home, 2, &["--profile", "home", "run", "home"]);
    ends(&home, 2, &["run"]);
}

#[test]
fn profiles_are_listed_with_what_they_run() {
    let home = with_profile();
    write(&home, &format!("{HOME}\n[profile.away]\nmemory = \"1GiB\""));
    let listed = ends(&home, 0, &["run", "--list"]).out;
    let expected = format!(
        "away  (no repository)  \nhome  {}  backup, forget, prune, check\n",
        home.path("repo").display()
    );
    assert_eq!(listed, expected);
    assert!(ends(&home, 2, &["run", "away"]).err.contains("has nothing to run"));
}

#[test]
fn units_of_systemd_are_valid_and_run_the_profile() {
    let home = with_profile();
    let printed = ends(
        &home,
        0,
        &["run", "--print-systemd", "home", "--on-calendar", "Mon *-*-* 03:00"],
    )
    .out;
    let (mut files, mut name) = (Vec::new(), String::new());
    for line in printed.lines() {
        if let Some(path) = line
            .strip_prefix("# ")
            .filter(|path| path.starts_with(['/', '~']) && !path.contains(' '))
        {
            name = path.rsplit('/').next().unwrap().to_owned();
            files.push((name.clone(), String::new()));
        }
        files.last_mut().unwrap().1 += &format!("{line}\n");
    }
    assert_eq!(name, "ibid-home.timer");
    let [(service, unit), (timer, times)] = files.as_slice() else {
        panic!("{printed}")
    };
    assert_eq!(
        (service.as_str(), timer.as_str()),
        ("ibid-home.service", "ibid-home.timer")
    );
    let config = home.path(".config/ibid/config.toml");
    for line in [
        &format!("ExecStart={} --config {} run home", crate::PROGRAM, config.display()),
        "Type=oneshot",
        "Nice=10",
        "IOSchedulingClass=idle",
        "NoNewPrivileges=yes",
    ] {
        assert!(unit.lines().any(|found| found == line), "{line}\n{unit}");
    }
    if rustix::process::geteuid().is_root() {
        for line in [
            "ProtectSystem=strict",
            "PrivateNetwork=yes",
            &format!("ReadWritePaths=-{}", home.path("repo").display()),
        ] {
            assert!(unit.lines().any(|found| found == line), "{line}\n{unit}");
        }
    }
    assert!(
        times.contains("\nOnCalendar=Mon *-*-* 03:00\n") && times.contains("\nPersistent=yes\n"),
        "{times}"
    );
    for (name, text) in &files {
        home.write(name, text);
    }
    let verify = Command::new("systemd-analyze")
        .arg("verify")
        .args([home.path(service), home.path(timer)])
        .output();
    // A machine without systemd can't tell.
    if let Ok(verified) = verify {
        let said = String::from_utf8_lossy(&verified.stderr);
        let ours: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("ibid-home") && !line.contains("Command 'man"))
            .collect();
        assert!(ours.is_empty(), "{said}");
    }
    ends(
        &home,
        2,
        &["run", "--print-systemd", "home", "--on-calendar", "daily\n[Service]"],
    );
}

#[test]
fn json_is_as_documented() {
    let tables = Tables::read(&[include_str!("../../../../docs/json.md")]);
    let home = with_profile();
    let lines = tables.stream("run", &ends(&home, 0, &["run", "home", "--json"]).out);
    tables.hold("backup", &lines[1]["result"]);
    tables.hold("check", &lines[4]["result"]);
    let again = tables.stream("run", &ends(&home, 0, &["run", "home", "--json"]).out);
    assert!(again[3]["not_before"].is_string() && again[3]["result"].is_null());
    let listed = tables.stream("run", &ends(&home, 0, &["run", "--list", "--json"]).out);
    assert_eq!(listed[1]["steps"][3], "check");
    std::fs::remove_dir_all(home.path("repo")).unwrap();
    let failed = tables.stream("run", &ends(&home, 10, &["run", "home", "--json"]).out);
    assert!(
        failed[1]["message"]
            .as_str()
            .unwrap()
            .starts_with("there is no repository")
    );
    // A file that is wrong fails before anything is run.
    write(&home, "[profile.home]\nrepoo = 1");
    let said = ends(&home, 2, &["run", "home", "--json"]).err;
    tables.hold("Error", &serde_json::from_str(said.lines().last().unwrap()).unwrap());
}
