//! Output can't control a terminal, and help gives examples.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Stdio;

use rustix::process::Signal;

use crate::support::{CHEAP, Home, run, signal, wait_until};

const COMMANDS: [&[&str]; 27] = [
    &["init"],
    &["backup"],
    &["snapshots"],
    &["ls"],
    &["find"],
    &["restore"],
    &["dump"],
    &["diff"],
    &["stats"],
    &["check"],
    &["repair"],
    &["key"],
    &["key", "list"],
    &["key", "add"],
    &["key", "remove"],
    &["key", "passwd"],
    &["records"],
    &["records", "load"],
    &["records", "put"],
    &["records", "get"],
    &["records", "delete"],
    &["records", "scan"],
    &["records", "versions"],
    &["records", "stats"],
    &["records", "verify"],
    &["completions"],
    &["man"],
];

#[test]
fn every_help_has_an_example() {
    let home = Home::bare();
    for command in COMMANDS.iter().chain([&[][..]].iter()) {
        let help = home.ok([*command, &["--help"]].concat());
        let example = format!("  ibid {}", command.join(" "));
        assert!(
            help.contains("Examples:") && (help.contains(&example) || help.contains(&command.join(" "))),
            "{help}"
        );
    }
    assert!(home.ok(["--version"]).starts_with("ibid "));
    for variable in [
        "IBID_REPO",
        "IBID_PASSWORD",
        "IBID_PASSWORD_FILE",
        "IBID_NEW_PASSWORD",
        "IBID_MEMORY",
        "IBID_STORE",
    ] {
        assert!(home.ok(["--help"]).contains(variable), "{variable}");
    }
}

#[test]
fn completions_and_manual_come_from_the_definition() {
    let home = Home::bare();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(home.ok(["completions", shell]).contains("IBID_COMPLETE"), "{shell}");
    }
    for command in COMMANDS.iter().chain([&[][..]].iter()) {
        let page = home.ok([&["man"], *command].concat());
        assert!(page.contains(".TH") && page.contains("Examples:"), "{page}");
    }
    assert!(home.fails(2, ["man", "nothing"]).contains("no command"));
}

#[test]
fn names_that_are_no_text_survive_and_do_no_harm() {
    let home = Home::new();
    let names: [OsString; 5] = [
        "two\nlines".into(),
        "\x1b[31mred\x1b]0;title\x07".into(),
        OsString::from_vec(b"not \xff\xfe utf8".to_vec()),
        "x".repeat(255).into(),
        "back\\slash \u{202e}txt.exe".into(),
    ];
    for name in &names {
        home.write(std::path::Path::new("files/odd").join(name), name.as_bytes());
    }
    home.ok(["backup", "files"]);
    let folder = home.path("files/odd");
    for arguments in [
        &["ls", "-lR", "latest"][..],
        &["find", "*"],
        &["diff", "latest", &home.at("files")],
    ] {
        let ran = home.run(arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        let harmless = ran
            .out
            .chars()
            .all(|c| c == '\n' || !(c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c)));
        assert!(harmless && std::str::from_utf8(&ran.raw).is_ok(), "{ran:?}");
    }
    let listed = home.ok(["ls", &home.at("files/odd")]);
    for shown in [
        "two\\nlines\n",
        "\\x1b[31mred",
        "not \\xff\\xfe utf8\n",
        "back\\\\slash \\u{202e}txt",
    ] {
        assert!(listed.contains(shown), "{shown} in {listed}");
    }
    for name in &names {
        let mut address = OsString::from("latest:");
        address.push(folder.join(name));
        let dumped = home.run([OsStr::new("dump"), &address]);
        assert_eq!(dumped.raw, name.as_bytes());
    }
    home.ok(["restore", &home.at("files/odd"), "back"]);
    assert_eq!(crate::support::tree(&folder), crate::support::tree(&home.path("back")));
    // A name in an error is escaped as in a list.
    let mut address = OsString::from("latest:");
    address.push(OsStr::from_bytes(b"no\nsuch\x1b[2J"));
    let said = home.run([OsStr::new("dump"), &address]).err;
    assert!(said.lines().count() == 1 && !said.contains('\x1b'), "{said:?}");
}

#[test]
fn quiet_leaves_out_all_but_what_was_asked_for() {
    let home = Home::new();
    let ran = home.run(["backup", "files", "--quiet"]);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
    let ran = home.run(["restore", "latest", "back", "-q"]);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
    assert_eq!(home.ok(["snapshots", "-q"]).lines().count(), 2);
}

#[test]
fn shells_complete_options_values_and_snapshots() {
    let home = Home::with_snapshot();
    home.ok(["backup", "-q", "files", "--tag", "weekly", "--host", "mill"]);
    let complete = |words: &[&str], variables: &[(&str, Option<&str>)]| {
        let mut command = home.ibid(["--", "ibid"].iter().chain(words));
        command
            .env("IBID_COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", words.len().to_string());
        command
            .env("_CLAP_IFS", "\n")
            .env("_CLAP_COMPLETE_COMP_TYPE", "9")
            .env("_CLAP_COMPLETE_SPACE", "true");
        for (name, value) in variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let ran = run(&mut command);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{words:?}");
        let is_option = |word: &str| word.starts_with("--");
        let wants_options = words.last().is_some_and(|word| is_option(word));
        let found = ran.out.lines().map(|line| line.trim_end().to_owned());
        // Where an argument may stand, an option may, too.
        let found = found.filter(|word| wants_options || !is_option(word));
        found.collect::<Vec<_>>()
    };
    let ids = home.ids();
    let newest_first = ["latest", &ids[1][..8], &ids[0][..8]];
    assert_eq!(complete(&["restore", ""], &[]), newest_first);
    assert_eq!(complete(&["ls", &ids[0][..3]], &[]).last().unwrap(), &ids[0][..8]);
    assert!(complete(&["backup", "--one"], &[]).contains(&"--one-file-system".to_owned()));
    assert_eq!(complete(&["backup", "--similarity", ""], &[]), ["auto", "off", "max"]);
    assert_eq!(complete(&["dump", "--archive", ""], &[]), ["tar", "zip"]);
    assert_eq!(complete(&["snapshots", "--tag", ""], &[]), ["weekly"]);
    assert!(complete(&["snapshots", "--host", "mi"], &[]).contains(&"mill".to_owned()));
    // What was forgotten can come back, and the rest can be forgotten.
    home.ok(["forget", "-q", &ids[0]]);
    assert_eq!(complete(&["forget", ""], &[]), ["latest", &ids[1][..8]]);
    assert_eq!(complete(&["forget", "--undo", ""], &[]), [&ids[0][..8]]);
    home.ok(["forget", "-q", "--undo"]);
    let ids = home.ids();
    let newest_first = ["latest", &ids[1][..8], &ids[0][..8]];
    // Keys but the one that opens the repository, and sessions that have not ended.
    let new = ["key", "add", "--label", "other", "--new-password-command", "echo x"];
    home.ok([&new, &CHEAP[..]].concat());
    let listed = home.ok(["key", "list"]);
    let other = listed.lines().find(|line| line.contains("other"));
    assert_eq!(complete(&["key", "remove", ""], &[]), [&other.unwrap()[..8]]);
    assert!(complete(&["prune", "--give-up-on", ""], &[]).is_empty());
    let command = ["backup", "--stdin-from-command", "--", "sleep", "60"];
    let mut running = home.ibid(command);
    running.stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = running.spawn().unwrap();
    let session = || home.ok(["sessions"]).lines().nth(1).map(|line| line[..8].to_owned());
    wait_until("the session is listed", || session().is_some());
    assert_eq!(complete(&["prune", "--give-up-on", ""], &[]), [session().unwrap()]);
    signal(&running, Signal::TERM);
    running.wait().unwrap();
    // The names of commands.
    assert_eq!(
        complete(&["man", "key", ""], &[]),
        ["list", "add", "add-writer", "remove", "passwd"]
    );
    assert_eq!(complete(&["man", "snap"], &[]), ["snapshots"]);
    assert!(complete(&["man", "snapshots", ""], &[]).is_empty());
    // The repository and the password may be in the command line.
    home.write("password", "secret\n");
    let none = [("IBID_REPO", None), ("IBID_PASSWORD", None)];
    let given = ["-r", "repo", "--password-file", "password", "ls", ""];
    assert_eq!(complete(&given, &none), newest_first);
    // Whatever is missing, nothing is said.
    for variables in [
        [("IBID_REPO", None), ("IBID_PASSWORD", Some("secret"))],
        [("IBID_REPO", Some("nowhere")), ("IBID_PASSWORD", Some("secret"))],
        [("IBID_REPO", Some("repo")), ("IBID_PASSWORD", Some("wrong"))],
        [("IBID_REPO", Some("repo")), ("IBID_PASSWORD", None)],
    ] {
        assert!(complete(&["ls", ""], &variables).is_empty(), "{variables:?}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let home = Home::bare();
    home.ok(["man", "--all", "man/man1"]);
    let mut pages: Vec<_> = std::fs::read_dir(home.path("man/man1"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    for name in ["ibid.1", "ibid-backup.1", "ibid-key-add.1", "ibid-records-load.1"] {
        assert!(pages.iter().any(|page| page == name), "{name} in {pages:?}");
    }
    assert!(!pages.iter().any(|page| page.contains("help")), "{pages:?}");
    let page = std::fs::read_to_string(home.path("man/man1/ibid-key-add.1")).unwrap();
    assert_eq!(page, home.ok(["man", "key", "add"]));
    home.fails(2, ["man", "backup", "--all", "man"]);
}
