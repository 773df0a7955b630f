//! Restoring into a place where files exist.

use std::os::unix::fs::PermissionsExt;

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

use crate::support::{CHEAP, Home, as_somebody, noise, packs, run, tree};

#[test]
fn nothing_is_overwritten_unless_told_how() {
    let home = Home::with_snapshot();
    let from = home.at("files");
    home.write("back/anna.txt", "my own\n");
    home.write("back/stays", "not in the snapshot");
    assert!(home.fails(1, ["restore", &from, "back"]).contains("--overwrite"));
    assert_eq!(tree(&home.path("back")).len(), 3, "nothing was written");

    assert!(
        home.ok(["restore", &from, "back", "--overwrite", "never"])
            .contains("kept      1")
    );
    assert_eq!(std::fs::read(home.path("back/anna.txt")).unwrap(), b"my own\n");
    assert!(home.path("back/deep/data.bin").exists());

    home.ok(["restore", &from, "back", "--overwrite", "if-changed"]);
    assert_eq!(std::fs::read(home.path("back/anna.txt")).unwrap(), b"dear Anna\n");

    // With the same size and time, only `always` reads the contents.
    let file = home.path("back/anna.txt");
    let time = file.metadata().unwrap().modified().unwrap();
    home.write("back/anna.txt", "DEAR ANNA\n");
    std::fs::File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_modified(time)
        .unwrap();
    home.ok(["restore", &from, "back", "--overwrite", "if-changed"]);
    assert_eq!(std::fs::read(&file).unwrap(), b"DEAR ANNA\n");
    home.ok(["restore", &from, "back", "--overwrite", "always"]);
    assert_eq!(std::fs::read(&file).unwrap(), b"dear Anna\n");
    assert!(home.path("back/stays").exists());
}

#[test]
fn parts_can_be_chosen() {
    let home = Home::with_snapshot();
    let from = home.at("files");
    assert!(
        home.ok(["restore", &from, "dry", "--dry-run"])
            .contains("would restore 3 files")
    );
    assert!(!home.path("dry").exists());

    home.ok(["restore", &from, "texts", "--include", "*.txt", "--exclude", "ben.*"]);
    assert!(home.path("texts/anna.txt").exists() && !home.path("texts/deep/down/ben.txt").exists());
    assert!(!home.path("texts/deep/data.bin").exists());

    home.ok([
        "restore",
        &home.at("files/deep/down/ben.txt"),
        "one",
        "--numeric-ids",
        "--threads",
        "1",
    ]);
    assert_eq!(tree(&home.path("one")).len(), 2);
    assert_eq!(std::fs::read(home.path("one/ben.txt")).unwrap(), b"dear Ben\n");
    home.ok(["restore", "latest", "all"]);
    assert!(
        home.path("all")
            .join(home.path("files/anna.txt").strip_prefix("/").unwrap())
            .exists()
    );
}

fn set_mode(home: &Home, path: &str, mode: u32) {
    std::fs::set_permissions(home.path(path), PermissionsExt::from_mode(mode)).unwrap();
}

fn mode(home: &Home, path: &str) -> u32 {
    home.path(path).metadata().unwrap().permissions().mode() & 0o7777
}

/// Returns a home whose files were backed up by a user who is not root.
fn with_files_of_another_user(prepare: impl Fn(&Home)) -> Home {
    let home = Home::bare();
    prepare(&home);
    let ran = run(&mut as_somebody(
        &home,
        &["backup", "--init", "files", CHEAP[0], CHEAP[1]],
    ));
    assert_eq!(ran.code, 0, "{ran:?}");
    home
}

#[test]
fn folders_that_are_not_to_be_written_to_come_back_and_are_brought_up_to_date() {
    let home = with_files_of_another_user(|home| {
        home.write("files/deep/read-only.txt", "read me");
        let path = home.path("files/deep/read-only.txt");
        rustix::fs::setxattr(path, "user.comment", b"yes", rustix::fs::XattrFlags::empty()).unwrap();
        set_mode(home, "files/deep/read-only.txt", 0o444);
        set_mode(home, "files/deep", 0o555);
    });
    let from = home.at("files");
    let restore = |rule| {
        let ran = run(&mut as_somebody(
            &home,
            &["restore", &from, "back", "--overwrite", rule, "--verify"],
        ));
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
        assert_eq!(tree(&home.path("files")), tree(&home.path("back")));
        let mut value = [0; 3];
        rustix::fs::getxattr(home.path("back/deep/read-only.txt"), "user.comment", &mut value[..]).unwrap();
        assert_eq!(&value, b"yes");
    };
    restore("never");
    for rule in ["always", "if-changed"] {
        home.write("back/deep/read-only.txt", "something else");
        std::fs::remove_file(home.path("back/deep/data.bin")).unwrap();
        restore(rule);
    }
    // With `never`, the folder stays as it was.
    std::fs::remove_file(home.path("back/deep/data.bin")).unwrap();
    restore("never");
}

#[test]
fn a_file_that_cannot_be_restored_goes_even_from_a_folder_that_is_not_to_be_written_to() {
    let home = with_files_of_another_user(|home| set_mode(home, "files/deep", 0o555));
    for pack in packs(&home) {
        let mut bytes = std::fs::read(&pack).unwrap();
        if bytes.len() > 200_000 {
            bytes[100_000] ^= 1;
            std::fs::remove_file(&pack).unwrap();
            std::fs::write(&pack, bytes).unwrap();
            set_mode(
                &home,
                pack.strip_prefix(home.path("")).unwrap().to_str().unwrap(),
                0o644,
            );
        }
    }
    let ran = run(&mut as_somebody(&home, &["restore", &home.at("files"), "back"]));
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(!home.path("back/deep/data.bin").exists());
    assert_eq!(mode(&home, "back/deep"), 0o555);
}

#[test]
fn a_folder_that_cannot_be_made_is_counted_with_all_that_is_in_it() {
    let home = with_files_of_another_user(|_| ());
    home.write("back/mine", "");
    set_mode(&home, "back", 0o755);
    if !rustix::process::geteuid().is_root() {
        return; // then it is ours
    }
    let ran = run(&mut as_somebody(&home, &["restore", &home.at("files"), "back"]));
    assert_eq!(ran.code, 3, "{ran:?}");
    // deep, deep/data.bin, deep/down, deep/down/ben.txt; anna.txt; link.
    assert!(ran.out.contains("6 could NOT be restored"), "{ran:?}");
    assert!(
        ran.err.contains("back/deep: ") && ran.err.contains("what is in it (3)"),
        "{ran:?}"
    );
}

#[test]
fn a_restore_does_with_few_open_files() {
    let home = Home::new();
    for n in 0..3000 {
        home.write(format!("many/{}/{n}", n % 30), noise(500, n));
    }
    home.ok(["backup", "many", "--quiet"]);
    let ibid = home.ibid(["restore", &home.at("many"), "back"]);
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", "ulimit -n 48; exec \"$0\" \"$@\""])
        .arg(ibid.get_program())
        .args(ibid.get_args());
    command.env_clear().current_dir(home.path(""));
    command.envs(ibid.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = run(&mut command);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(tree(&home.path("many")) == tree(&home.path("back")));
}

#[test]
fn a_dry_run_names_what_would_be_done_and_counts_what_a_restore_then_does() {
    let home = Home::with_snapshot();
    let from = home.at("files");
    home.ok(["restore", &from, "back"]);
    std::fs::hard_link(home.path("files/anna.txt"), home.path("files/deep/also anna")).unwrap();
    home.ok(["backup", "files", "--quiet"]);
    std::fs::remove_file(home.path("back/deep/down/ben.txt")).unwrap();
    let mut bytes = std::fs::read(home.path("back/deep/data.bin")).unwrap();
    bytes[200_000] ^= 1;
    home.write("back/deep/data.bin", bytes);
    for rule in ["always", "if-changed", "never"] {
        let before = tree(&home.path("back"));
        let dry = ["restore", &from, "back", "--overwrite", rule, "--dry-run"];
        let lines = home.ok(dry);
        assert!(tree(&home.path("back")) == before, "nothing is done");
        let named = |what: &str, path: &str| lines.contains(&format!("{what:7} back/{path}\n"));
        let changed = if rule == "never" { "keep" } else { "replace" };
        assert!(
            named(changed, "deep/data.bin") && named("write", "deep/down/ben.txt"),
            "{lines}"
        );
        assert!(
            named("keep", "anna.txt") && named("write", "deep/also anna") && named("keep", "link"),
            "{lines}"
        );
        assert!(!lines.contains("verified"), "{lines}");
        let out = format!("back {rule}");
        let copied = std::process::Command::new("cp")
            .args(["-a", "back", &out])
            .current_dir(home.path(""))
            .status();
        assert!(copied.unwrap().success());
        let document = |more: &[&str]| -> serde_json::Value {
            let arguments = [&["restore", &from, &out, "--overwrite", rule, "--json"][..], more].concat();
            let mut value: serde_json::Value = serde_json::from_str(&home.ok(arguments)).unwrap();
            for field in ["dry_run", "duration_ms"] {
                value[field] = serde_json::Value::Null;
            }
            value
        };
        let planned = document(&["--dry-run"]);
        let done = document(&[]);
        assert_eq!(planned, done);
        assert!(rule == "never" || planned["written_bytes"].as_u64().unwrap() > 0);
    }
    let dry = home.run(["restore", &from, "new", "--dry-run", "--verify"]);
    assert!(
        dry.out.contains("write   new/deep\n") && !dry.out.contains("verified"),
        "{dry:?}"
    );
}

#[test]
fn files_that_could_not_be_restored_are_counted_once_even_with_verify() {
    let home = Home::with_snapshot();
    let largest = packs(&home)
        .into_iter()
        .max_by_key(|pack| pack.metadata().unwrap().len())
        .unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    bytes[100_000] ^= 1;
    std::fs::remove_file(&largest).unwrap();
    std::fs::write(&largest, &bytes).unwrap();
    let ran = home.run(["restore", &home.at("files"), "back", "--verify"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    // All three files are in one frame.
    assert!(
        ran.out.contains("  3 could NOT be restored") && ran.err.lines().count() == 3,
        "{ran:?}"
    );
}

#[test]
fn a_pattern_that_matches_nothing_is_named_and_code_3() {
    let home = Home::with_snapshot();
    let restore = |out: &str, patterns: &[&str]| {
        let mut arguments = vec!["restore".to_owned(), home.at("files"), out.to_owned()];
        arguments.extend(
            patterns
                .iter()
                .flat_map(|pattern| ["--include".to_owned(), (*pattern).to_owned()]),
        );
        home.run(arguments)
    };
    let ran = restore("a", &["*.txt", "*.nothing", "anna.txt", "down/"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(
        ran.err.lines().count() == 1 && ran.err.contains("\"*.nothing\""),
        "{ran:?}"
    );
    assert!(ran.out.contains("restored 2 files"), "{ran:?}");
    assert_eq!(restore("b", &["*.txt", "anna.txt", "down/"]).code, 0);
    assert_eq!(restore("c", &["files/"]).code, 0);
}

/// Set-user-ID bits without the owner would lend the rights of whoever restores.
#[test]
fn a_restore_without_rights_says_whose_files_are_whose_now() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: std::path::PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let home = Home::bare();
    std::fs::set_permissions(home.path("files/anna.txt"), PermissionsExt::from_mode(0o6755)).unwrap();
    home.ok(["init", "-q", CHEAP[0], CHEAP[1]]);
    home.ok(["backup", "-q", "files"]);
    home.ok(["restore", "-q", &home.at("files"), "root"]);
    assert_eq!(mode(home.path("root/anna.txt")), 0o6755);
    if !rustix::process::geteuid().is_root() {
        // The files of this user are not lost to another one; only root can make others.
        return;
    }
    let readable = std::process::Command::new("chmod")
        .args(["-R", "a+rX"])
        .arg(home.path("repo"))
        .status();
    assert!(readable.unwrap().success());
    let arguments = ["restore", &home.at("files"), "out", "--no-cache"];
    let ran = run(&mut as_somebody(&home, &arguments));
    assert_eq!(ran.code, 0, "{ran:?}");
    // Three files, two folders, one link.
    let said = "  owners    6 files and folders belong to you instead of their owners";
    assert!(ran.out.contains(said) && ran.out.contains("as root"), "{ran:?}");
    assert_eq!(mode(home.path("out/anna.txt")), 0o755);
    let json = run(&mut as_somebody(
        &home,
        &[&arguments[..2], &["again", "--no-cache", "--json"]].concat(),
    ));
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["owners_lost"], 6);
}

/// Gives a file or folder these inode flags of those that are tried here. Returns whether it has them.
fn set_inode_flags(path: &std::path::Path, flags: IFlags) -> bool {
    let file = std::fs::File::open(path).unwrap();
    let Ok(there) = ioctl_getflags(&file) else { return false };
    let _ = ioctl_setflags(&file, (there - (IFlags::IMMUTABLE | IFlags::NODUMP)) | flags);
    ioctl_getflags(&file).is_ok_and(|there| there.contains(flags))
}

#[test]
#[allow(clippy::print_stderr, reason = "says what could not be tried here")]
fn inode_flags_are_shown_restored_and_counted_if_they_can_not_be_set() {
    let home = Home::bare();
    let (anna, ben) = (home.path("files/anna.txt"), home.path("files/deep/down/ben.txt"));
    let both = IFlags::IMMUTABLE | IFlags::NODUMP;
    if !set_inode_flags(&anna, both) || !set_inode_flags(&ben, IFlags::NODUMP) {
        eprintln!("not tried: files can't be made immutable here");
        return;
    }
    home.ok(["init", "-q", CHEAP[0], CHEAP[1]]);
    home.ok(["backup", "-q", "files"]);
    set_inode_flags(&anna, IFlags::empty());
    home.ok(["backup", "-q", "files"]);
    let old = format!("latest~1:{}", home.path("files").display());
    let listed = home.ok(["ls", "-R", "--long", &old]);
    assert!(listed.contains("anna.txt  (chattr +id)"), "{listed}");
    assert!(listed.contains("ben.txt  (chattr +d)"), "{listed}");
    let json = home.ok(["ls", "-R", "--json", &old]);
    assert!(json.contains("\"inode_flags\":\"id\""), "{json}");
    let changes = home.ok(["diff", &old, &home.at("files")]);
    assert!(changes.contains("flags +id → +"), "{changes}");

    home.ok(["restore", "-q", &old, "root"]);
    assert!(
        std::fs::remove_file(home.path("root/anna.txt")).is_err(),
        "it is immutable"
    );
    let again = home.ok(["restore", &old, "root", "--overwrite", "if-changed", "--verify"]);
    assert!(again.contains("kept      "), "{again}");
    set_inode_flags(&home.path("root/anna.txt"), IFlags::empty());

    let readable = std::process::Command::new("chmod")
        .args(["-R", "a+rX"])
        .arg(home.path("repo"))
        .status();
    assert!(readable.unwrap().success());
    let restore = |to: &str, more: &[&str]| {
        let arguments = [&["restore", &old, to, "--no-cache"], more].concat();
        run(&mut as_somebody(&home, &arguments))
    };
    let ran = restore("out", &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let said = "  flags     1 file or folder lacks inode flags (chattr): only root can set some of them";
    assert!(ran.out.contains(said) && ran.err.is_empty(), "{ran:?}");
    let json: serde_json::Value = serde_json::from_str(&restore("again", &["--json"]).out).unwrap();
    assert_eq!(json["inode_flags_lost"], 1);
    let restored = std::fs::File::open(home.path("out/anna.txt")).unwrap();
    assert!(
        ioctl_getflags(restored).unwrap().contains(IFlags::NODUMP),
        "what can be set is"
    );
}
