//! Sources of passwords, and repositories without encryption.

use crate::support::{CHEAP, Home, Ran, run};

type Variables = &'static [(&'static str, &'static str)];

/// Runs `snapshots` with these variables in place of `IBID_PASSWORD=secret`.
fn with(home: &Home, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = home.ibid(["snapshots"]);
    run(command
        .args(arguments)
        .env_remove("IBID_PASSWORD")
        .envs(variables.iter().copied()))
}

#[test]
fn each_source_opens() {
    let home = Home::new();
    home.write("password", "secret\nnot this\n");
    home.write("windows", "secret\r\n");
    let good: [(&[&str], Variables); 8] = [
        (&["--password-file", "password"], &[]),
        (&["--password-file", "windows"], &[]),
        (&["--password-command", "echo secret; yes | head -n 100000"], &[]),
        (&[], &[("IBID_PASSWORD", "secret")]),
        (&[], &[("IBID_PASSWORD_FILE", "password")]),
        (&[], &[("IBID_PASSWORD_COMMAND", "cat password")]),
        // Options take precedence over variables, and these have an order.
        (&["--password-file", "password"], &[("IBID_PASSWORD", "wrong")]),
        (&[], &[("IBID_PASSWORD", "secret"), ("IBID_PASSWORD_FILE", "nowhere")]),
    ];
    for (arguments, variables) in good {
        let ran = with(&home, arguments, variables);
        assert_eq!(ran.code, 0, "{arguments:?} {variables:?} {ran:?}");
    }
}

#[test]
fn a_password_that_is_wrong_or_missing_is_code_5() {
    let home = Home::new();
    home.write("empty", "");
    let bad: [(&[&str], Variables, i32, &str); 7] = [
        (&[], &[("IBID_PASSWORD", "wrong")], 5, "wrong password"),
        (&[], &[("IBID_PASSWORD", "")], 5, "empty"),
        (&["--password-file", "empty"], &[], 5, "empty"),
        (&["--password-file", "nowhere"], &[], 5, "nowhere"),
        (&["--password-command", "echo secret; false"], &[], 5, "failed"),
        (
            &["--password-command", "x", "--password-file", "x"],
            &[],
            2,
            "cannot be used with",
        ),
        (&["--unencrypted"], &[], 2, "is encrypted"),
    ];
    for (arguments, variables, code, text) in bad {
        let ran = with(&home, arguments, variables);
        assert_eq!(ran.code, code, "{arguments:?} {variables:?} {ran:?}");
        assert!(ran.err.contains(text), "{text} in {ran:?}");
    }
}

/// The child runs in a session of its own, which has no terminal.
#[test]
fn without_a_terminal_the_program_says_how_to_give_a_password() {
    let home = Home::new();
    let mut command = std::process::Command::new("setsid");
    command
        .args(["--wait", env!("CARGO_BIN_EXE_ibid"), "snapshots"])
        .env_clear()
        .env("IBID_REPO", home.path("repo"));
    let ran = run(command.env("PATH", std::env::var_os("PATH").unwrap()));
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(ran.err.contains("IBID_PASSWORD"), "{ran:?}");
}

#[test]
fn keys_come_and_go() {
    let home = Home::new();
    home.write("second", "zwei\n");
    home.ok([
        "key",
        "add",
        "--label",
        "spare",
        "--new-password-file",
        "second",
        CHEAP[0],
        CHEAP[1],
    ]);
    let listed = home.ok(["key", "list"]);
    assert!(
        listed.contains("spare") && listed.lines().count() == 4 && listed.matches('*').count() == 2,
        "{listed}"
    );
    assert_eq!(with(&home, &["--password-file", "second"], &[]).code, 0);

    run(home
        .ibid(["key", "passwd", CHEAP[0], CHEAP[1]])
        .env("IBID_NEW_PASSWORD", "drei"));
    assert_eq!(with(&home, &[], &[("IBID_PASSWORD", "secret")]).code, 5);
    assert_eq!(with(&home, &[], &[("IBID_PASSWORD", "drei")]).code, 0);

    let spare = listed.lines().find(|line| line.contains("spare")).unwrap()[..8].to_owned();
    let key = |arguments: &[&str]| run(home.ibid(arguments).env("IBID_PASSWORD", "drei"));
    assert_eq!(key(&["key", "remove", &spare]).code, 0);
    assert_eq!(with(&home, &["--password-file", "second"], &[]).code, 5);
    let last = key(&["key", "list"]).out.lines().nth(1).unwrap()[..8].to_owned();
    assert!(key(&["key", "remove", &last]).err.contains("is the one that opened"));
    assert!(key(&["key", "remove", "zz"]).err.contains("no key slot"));
    assert_eq!(key(&["key", "add", "--new-password-command", "false"]).code, 5);
}

#[test]
fn without_encryption_storing_must_be_asked_for_each_time() {
    let home = Home::bare();
    let open = |arguments: &[&str]| run(home.ibid(arguments).env_remove("IBID_PASSWORD"));
    assert_eq!(home.run(["init", "--unencrypted"]).code, 2, "a password was given, too");
    let made = open(&["init", "--unencrypted"]);
    assert!(made.code == 0 && made.err.contains("NOT encrypted"), "{made:?}");

    let refused = open(&["backup", "files"]);
    assert!(
        refused.code == 1 && refused.err.contains("--unencrypted"),
        "{refused:?}"
    );
    assert_eq!(open(&["backup", "--unencrypted", "files", "--quiet"]).code, 0);
    // A user who asks for an encrypted repository must not get an open one.
    assert_eq!(open(&["backup", "--init", "files"]).code, 1);

    for arguments in [
        &["snapshots"][..],
        &["ls", "latest"],
        &["find", "x"],
        &["stats"],
        &["check"],
        &["snapshots", "--quiet"],
    ] {
        let ran = open(arguments);
        assert!(
            ran.code == 0 && ran.err.contains("NOT encrypted"),
            "{arguments:?} {ran:?}"
        );
    }
    assert!(open(&["snapshots", "--json"]).out.contains(r#""encrypted":false"#));
    // A user who gives a password expects encryption, unless `--unencrypted` is there.
    assert!(home.fails(1, ["snapshots"]).contains("NOT encrypted"));
    home.ok(["backup", "--unencrypted", "files"]);
    assert!(open(&["key", "list"]).err.contains("has no keys"));
}

/// A damaged key is not called a wrong password, also if there is another one.
#[test]
fn the_password_of_a_damaged_key_is_not_called_wrong() {
    let home = Home::with_snapshot();
    let first = std::fs::read_dir(home.path("repo/keys")).unwrap().next().unwrap();
    let first = first.unwrap().path();
    let mut add = home.ibid(["key", "add", CHEAP[0], CHEAP[1]]);
    assert_eq!(run(add.env("IBID_NEW_PASSWORD", "another")).code, 0);
    let mut bytes = std::fs::read(&first).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::remove_file(&first).unwrap();
    std::fs::write(&first, bytes).unwrap();
    let said = home.fails(5, ["snapshots"]);
    let name = first.file_name().unwrap().to_str().unwrap();
    assert!(!said.contains("wrong password") && said.contains(name), "{said}");
    assert!(said.contains("Use the password of another key"), "{said}");
    let mut repair = home.ibid(["repair"]);
    let repaired = run(repair.env("IBID_PASSWORD", "another"));
    assert!(
        repaired.code == 0 && repaired.out.contains("ibid key add"),
        "{repaired:?}"
    );
    assert!(home.fails(5, ["snapshots"]).contains("wrong password"));
}
