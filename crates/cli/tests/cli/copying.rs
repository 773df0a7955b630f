//! `copy` between two repositories, as people do.

use crate::support::{CHEAP, Home, Ran, run, tree};

/// Returns a home with a snapshot, and an empty repository `other` with another password.
fn home() -> Home {
    let home = Home::with_snapshot();
    let made = run(home
        .ibid([
            "--repo",
            "other",
            "init",
            "--quiet",
            "--chunker",
            "fastcdc",
            CHEAP[0],
            CHEAP[1],
        ])
        .env("IBID_PASSWORD", "another"));
    assert_eq!(made.code, 0, "{made:?}");
    home
}

fn copy(home: &Home, arguments: &[&str], password: Option<&str>) -> Ran {
    let mut command = home.ibid([&["copy", "--to", "other"], arguments].concat());
    command.envs(password.map(|password| ("IBID_TO_PASSWORD", password)));
    run(&mut command)
}

#[test]
fn a_copy_is_restored_with_the_password_of_the_destination() {
    let home = home();
    let ran = copy(&home, &[], Some("another"));
    assert!(ran.code == 0 && ran.out.contains("1 snapshot copied"), "{ran:?}");
    let again = copy(&home, &[], Some("another"));
    assert!(
        again.code == 0 && again.out.contains("0 snapshots copied") && again.out.contains("1 there already"),
        "{again:?}"
    );
    let at = home.at("files");
    let restored = run(home
        .ibid(["--repo", "other", "restore", &at, "back"])
        .env("IBID_PASSWORD", "another"));
    assert_eq!(restored.code, 0, "{restored:?}");
    assert_eq!(tree(&home.path("files")), tree(&home.path("back")));
}

#[test]
fn the_password_of_the_source_does_not_open_the_destination() {
    let home = home();
    let none = copy(&home, &[], None);
    assert!(none.code == 5 && none.err.contains("IBID_TO_PASSWORD"), "{none:?}");
    let wrong = copy(&home, &[], Some("secret"));
    assert_eq!(wrong.code, 5, "{wrong:?}");
    home.write("password", "another\n");
    let ran = copy(&home, &["--to-password-file", "password"], None);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn a_destination_without_encryption_must_be_accepted() {
    let home = Home::with_snapshot();
    let made = run(home
        .ibid(["--repo", "other", "init", "--quiet", "--unencrypted"])
        .env_remove("IBID_PASSWORD"));
    assert_eq!(made.code, 0, "{made:?}");
    let refused = copy(&home, &[], None);
    assert!(
        refused.code == 1 && refused.err.contains("--to-unencrypted"),
        "{refused:?}"
    );
    let ran = copy(&home, &["--to-unencrypted"], None);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn a_copy_needs_memory_for_two_repositories() {
    let home = home();
    let refused = copy(&home, &["--memory", "200MiB"], Some("another"));
    assert!(refused.code == 2 && refused.err.contains("256 MiB"), "{refused:?}");
    assert_eq!(copy(&home, &["--memory", "256MiB"], Some("another")).code, 0);
}

#[test]
fn files_are_left_out_of_a_snapshot_that_exists() {
    let home = Home::with_snapshot();
    let old = home.ids().remove(0);
    let said = home.ok(["rewrite", "latest", "--exclude", "deep/", "--forget"]);
    let new = home.ids().remove(0);
    assert!(
        said.starts_with(&format!("{} is now {}  without 2 files", &old[..8], &new[..8])),
        "{said}"
    );
    let listed = home.ok(["ls", "latest", "-R"]);
    assert!(listed.contains("anna.txt") && !listed.contains("ben.txt"), "{listed}");
    assert!(
        home.ok(["rewrite", &new, "--exclude", "*.iso"])
            .contains("has nothing that matches")
    );
    assert_eq!(home.ids(), [new]);
    // What would have nothing left stays, and is named.
    let count = home.ids().len();
    let said = home.fails(3, ["rewrite", "--all", "--exclude", "/**", "--forget"]);
    assert!(
        said.contains("nothing would be left of") && said.contains("ibid forget"),
        "{said}"
    );
    assert_eq!(home.ids().len(), count);
    home.fails(2, ["rewrite", "latest"]);
    home.fails(2, ["rewrite", "--exclude", "x"]);
}

#[test]
fn tags_change_and_the_new_ids_are_said() {
    let home = Home::with_snapshot();
    let old = home.ids().remove(0);
    let said = home.ok(["tag", "add", "b,a", "latest"]);
    let new = home.ids().remove(0);
    assert_eq!(said, format!("{} is now {}  a,b\n", &old[..8], &new[..8]));
    assert!(home.ok(["tag", "add", "a", "--all"]).contains("had these tags already"));
    assert_eq!(home.ids(), [new]);
    home.ok(["tag", "remove", "a,b", "--all", "--tag", "a"]);
    home.fails(1, ["tag", "add", "x", "latest", "--tag", "a"]);
    let none = "no snapshot matches, so none was changed\n";
    assert_eq!(home.ok(["tag", "add", "x", "--all", "--host", "nosuch"]), none);
    assert_eq!(
        home.ok(["rewrite", "--all", "--host", "nosuch", "--exclude", "x"]),
        none
    );
    home.fails(2, ["tag", "add", "x"]);
}

#[test]
fn a_repository_is_made_like_another_one_with_a_password_of_its_own() {
    let home = Home::with_snapshot();
    let init = |arguments: &[&str], password: Option<&str>| {
        let all = [
            &["--repo", "alike", "init", "--like", "repo", CHEAP[0], CHEAP[1]],
            arguments,
        ]
        .concat();
        let mut command = home.ibid(all);
        command.env("IBID_PASSWORD", "another");
        command.envs(password.map(|password| ("IBID_LIKE_PASSWORD", password)));
        run(&mut command)
    };
    let refused = init(&[], None);
    assert!(
        refused.code == 5 && refused.err.contains("IBID_LIKE_PASSWORD"),
        "{refused:?}"
    );
    assert_eq!(
        init(&[], Some("another")).code,
        5,
        "the password of the new one does not open the model"
    );
    assert_eq!(init(&["--average", "64KiB"], Some("secret")).code, 2);
    assert!(!home.path("alike/config").exists());
    let made = init(&[], Some("secret"));
    assert_eq!(made.code, 0, "{made:?}");
    let copy = |arguments: &[&str]| {
        let all = [&["copy", "--to", "alike"], arguments].concat();
        let ran = run(home.ibid(all).env("IBID_TO_PASSWORD", "another"));
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    };
    let dry = copy(&["--dry-run"]);
    let would = "5 chunks would be copied, 293 KiB of the source (293 KiB as they are)";
    assert!(dry.contains(would), "{dry}");
    let done = copy(&[]);
    assert!(done.contains("written (293 KiB as they were)"), "{done}");
    let check = run(home
        .ibid(["--repo", "alike", "check", "--read-data"])
        .env("IBID_PASSWORD", "another"));
    assert_eq!(check.code, 0, "{check:?}");
}
