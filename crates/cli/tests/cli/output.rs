//! Output can't control a terminal, and help gives examples.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::support::Home;

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
        assert!(home.ok(["completions", shell]).contains("one-file-system"), "{shell}");
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
