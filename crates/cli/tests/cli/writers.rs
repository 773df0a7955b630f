//! The key of a writer, from the command that makes it to the one that ends it.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use crate::support::{CHEAP, Home, Ran, noise, run, tree};

/// A home with a repository, a writer `laptop`, and its key in `laptop.key`.
fn with_writer() -> Home {
    let home = Home::new();
    home.ok(["key", "add-writer", "--label", "laptop", "--out", "laptop.key"]);
    home
}

/// Returns a command on the laptop: it has the key, and no password.
fn on_laptop(home: &Home, arguments: &[&str]) -> Command {
    let mut command = home.ibid(arguments);
    command
        .env_remove("IBID_PASSWORD")
        .env("IBID_KEY_FILE", home.path("laptop.key"));
    command
}

fn laptop(home: &Home, arguments: &[&str]) -> Ran {
    run(&mut on_laptop(home, arguments))
}

#[test]
fn a_laptop_backs_up_with_its_key_and_its_owner_restores() {
    let home = with_writer();
    let mode = std::fs::metadata(home.path("laptop.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only its owner may read it");
    for _ in 0..2 {
        let ran = laptop(&home, &["backup", "files"]);
        assert!(ran.code == 0 && !ran.err.contains("warning"), "{ran:?}");
    }
    home.ok(["backup", "files", "--quiet"]);
    let listed = home.ok(["snapshots"]);
    assert!(
        listed.contains("writer") && listed.matches("laptop").count() == 2,
        "{listed}"
    );
    assert!(listed.contains("3 snapshots"), "{listed}");
    let own = home.ok(["snapshots", "--writer", "laptop", "--quiet"]);
    assert_eq!(own.lines().count(), 2 + 1, "{own}");
    home.ok(["restore", &home.at("files"), "out", "--writer", "laptop", "--verify"]);
    assert!(tree(&home.path("files")) == tree(&home.path("out")));
    for command in [
        &["ls", "latest", "-R"][..],
        &["find", "anna.txt"],
        &["dump", &home.at("files/anna.txt")],
        &["diff", "latest~1", "latest"],
        &["stats"],
        &["check", "--read-data"],
        &["sessions"],
    ] {
        home.ok([command, &["--writer", "laptop"]].concat());
    }
    // By the beginning of its id, too.
    let keys: Value = serde_json::from_str(&home.ok(["key", "list", "--json"])).unwrap();
    let id = keys["writers"][0]["id"].as_str().unwrap();
    home.ok(["ls", "latest", "--writer", &id[..8]]);
    assert!(
        home.fails(1, ["ls", "latest", "--writer", "desk"])
            .contains("there is no writer \"desk\"")
    );
}

#[test]
fn every_other_command_refuses_the_key() {
    let home = with_writer();
    laptop(&home, &["backup", "files", "--quiet"]);
    let before = tree(&home.path("repo"));
    for command in [
        &["snapshots"][..],
        &["ls", "latest"],
        &["find", "anna.txt"],
        &["restore", "latest", "out"],
        &["dump", "latest:files/anna.txt"],
        &["diff", "latest", "latest"],
        &["stats"],
        &["tag", "add", "x", "latest"],
        &["copy", "--to", "elsewhere"],
        &["rewrite", "latest", "--exclude", "x"],
        &["forget", "latest"],
        &["forget", "--keep-last", "1"],
        &["forget", "--undo"],
        &["prune"],
        &["prune", "--dry-run"],
        &["sessions"],
        &["check"],
        &["repair"],
        &["cache", "clear"],
        &["key", "list"],
        &["key", "add"],
        &["key", "passwd"],
        &["key", "remove", "laptop"],
        &["key", "add-writer", "--label", "x"],
        &["backup", "files", "--parent", "latest"],
        &["backup", "files", "--skip-if-unchanged"],
    ] {
        let ran = laptop(&home, command);
        let said = "stores snapshots and nothing else";
        assert!(
            ran.code == 1 && ran.err.contains(said) && ran.out.is_empty(),
            "{command:?}: {ran:?}"
        );
    }
    for command in [
        &["backup", "files", "--init"][..],
        &["backup", "files", "--writer", "laptop"],
    ] {
        assert_eq!(laptop(&home, command).code, 2, "{command:?}");
    }
    assert!(tree(&home.path("repo")) == before);
    assert!(!home.path("out").exists());
}

#[test]
fn what_is_not_there_yet_is_refused_in_words() {
    let home = with_writer();
    laptop(&home, &["backup", "files", "--quiet"]);
    let before = tree(&home.path("repo"));
    let said = home.fails(1, ["backup", "files", "--writer", "laptop"]);
    assert!(
        said.contains("not possible yet with the snapshots of a writer"),
        "{said}"
    );
    assert!(tree(&home.path("repo")) == before);
    let mut copy = home.ibid([
        "copy",
        "--writer",
        "laptop",
        "--to",
        "elsewhere",
        "--to-password-command",
        "echo other",
    ]);
    let mut init = home.ibid(["init", "--repo", "elsewhere", CHEAP[0], CHEAP[1]]);
    assert_eq!(run(init.env("IBID_PASSWORD", "other")).code, 0);
    assert_eq!(run(&mut copy).code, 0);
    let mut restore = home.ibid(["restore", &home.at("files"), "out", "--repo", "elsewhere"]);
    assert_eq!(run(restore.env("IBID_PASSWORD", "other")).code, 0);
    assert!(tree(&home.path("files")) == tree(&home.path("out")));
}

#[test]
fn a_removed_writer_stores_nothing_any_more() {
    let home = with_writer();
    laptop(&home, &["backup", "files", "--quiet"]);
    assert!(home.ok(["key", "remove", "laptop"]).contains("does not count"));
    let ran = laptop(&home, &["backup", "files"]);
    assert!(ran.code == 1 && ran.err.contains("was removed"), "{ran:?}");
    assert!(home.ok(["key", "list"]).contains("removed"));
    assert!(home.ok(["snapshots"]).contains("laptop"), "what it had stored is there");
    home.ok(["restore", &home.at("files"), "out", "--writer", "laptop"]);
    assert!(home.fails(1, ["key", "remove", "laptop"]).contains("was removed"));
    assert!(home.fails(1, ["key", "remove", "nobody"]).contains("key list"));
}

#[test]
fn a_key_that_is_none_is_refused_in_words() {
    let home = with_writer();
    let with = |key: &str| run(on_laptop(&home, &["backup", "files"]).env("IBID_KEY_FILE", key));
    let text = std::fs::read_to_string(home.path("laptop.key")).unwrap();
    home.write(
        "changed.key",
        text.trim_end().strip_suffix(|_| true).unwrap().to_owned() + "g",
    );
    home.write("binary.key", [0xff, 0xfe]);
    home.write("long.key", "#".repeat(5000));
    for (key, said) in [
        ("changed.key", "hexadecimal digits"),
        ("binary.key", "it is no text"),
        ("long.key", "it is too long"),
        ("files/anna.txt", "begins with ibid-writer-1"),
        ("nowhere", "no such file"),
    ] {
        let ran = with(key);
        assert!(ran.code == 1 && ran.err.contains(said), "{key}: {ran:?}");
    }
    assert_eq!(with("").code, 5, "an empty variable is none, and there is no password");
    // That of another repository.
    let other = Home::new();
    let mut command = on_laptop(&home, &["backup", "files"]);
    let ran = run(command.env("IBID_REPO", other.path("repo")));
    assert!(
        ran.code == 1 && ran.err.contains("the key is for repository"),
        "{ran:?}"
    );
}

#[test]
fn a_key_is_never_written_over_a_file_nor_made_for_nothing() {
    let home = with_writer();
    let before = std::fs::read(home.path("laptop.key")).unwrap();
    home.fails(1, ["key", "add-writer", "--label", "other", "--out", "laptop.key"]);
    assert_eq!(std::fs::read(home.path("laptop.key")).unwrap(), before);
    assert!(
        home.fails(1, ["key", "add-writer", "--label", "laptop", "--out", "new.key"])
            .contains("already")
    );
    assert!(!home.path("new.key").exists());
    home.fails(2, ["key", "add-writer", "--label", ""]);
    let keys: Value = serde_json::from_str(&home.ok(["key", "list", "--json"])).unwrap();
    assert_eq!(keys["writers"].as_array().unwrap().len(), 1);
    let printed = home.ok(["key", "add-writer", "--label", "printed"]);
    home.write("printed.key", &printed);
    let mut command = on_laptop(&home, &["backup", "files", "--quiet"]);
    assert_eq!(run(command.env("IBID_KEY_FILE", home.path("printed.key"))).code, 0);
    // An unencrypted repository has no writers.
    let open = Home::bare();
    let mut init = open.ibid(["init", "--unencrypted", "--quiet"]);
    assert_eq!(run(init.env_remove("IBID_PASSWORD")).code, 0);
    let mut command = open.ibid(["key", "add-writer", "--label", "x", "--unencrypted"]);
    assert_eq!(run(command.env_remove("IBID_PASSWORD")).code, 1);
}

#[test]
fn a_profile_names_the_key() {
    let home = with_writer();
    let config = format!(
        "[profile.laptop]\nrepo = \"{}\"\nkey-file = \"~/laptop.key\"\n\
         [profile.laptop.backup]\npaths = [\"~/files\"]\n",
        home.path("repo").display()
    );
    home.write(".config/ibid/config.toml", config);
    let mut command = home.ibid(["backup", "--profile", "laptop", "--quiet"]);
    let ran = run(command.env_remove("IBID_PASSWORD").env_remove("IBID_REPO"));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(home.ok(["snapshots"]).contains("laptop"));
}

#[test]
fn keepers_forget_and_tag_and_are_asked_before_planted_snapshots_drop_good_ones() {
    let home = with_writer();
    let stores =
        |count: usize| (0..count).for_each(|_| assert_eq!(laptop(&home, &["backup", "files", "--quiet"]).code, 0));
    let count = || home.ok(["snapshots", "--writer", "laptop", "--quiet"]).lines().count() - 1;
    let keep = ["forget", "--keep-last", "3", "--writer", "laptop"];
    stores(3);
    home.ok(keep);
    home.ok(["tag", "add", "release", "latest", "--writer", "laptop"]);
    assert!(home.ok(["snapshots", "--writer", "laptop"]).contains("release"));
    stores(1);
    home.ok(keep);
    assert_eq!(count(), 3);
    // A thief plants three: too few for the rule that counts half of a group.
    stores(2);
    let said = home.fails(2, keep);
    assert!(
        said.contains("when the rules were applied last") && said.contains("--yes"),
        "{said}"
    );
    assert_eq!(count(), 5);
    // A profile is held to that, too.
    let config = format!(
        "[profile.keep]\nrepo = \"{}\"\n[profile.keep.forget]\nkeep-last = 3\n",
        home.path("repo").display()
    );
    home.write(".config/ibid/config.toml", config);
    home.fails(2, ["--profile", "keep", "forget", "--writer", "laptop"]);
    assert_eq!(count(), 5);
    home.ok(["forget", "latest", "--writer", "laptop"]);
    assert_eq!(count(), 4);
    home.ok(["forget", "--undo", "--writer", "laptop"]);
    assert_eq!(count(), 6, "also the one that the rule forgot");
    home.ok([&keep[..], &["--yes"]].concat());
    assert_eq!(count(), 3);
    assert_eq!(laptop(&home, &["forget", "latest"]).code, 1, "the laptop itself can't");
    home.ok(["check", "--read-data", "--writer", "laptop"]);
}

#[test]
fn keepers_prune_what_a_writer_has_stored() {
    let home = with_writer();
    home.write("files/large", noise(3_000_000, 7));
    assert_eq!(laptop(&home, &["backup", "files", "--quiet"]).code, 0);
    std::fs::remove_file(home.path("files/large")).unwrap();
    assert_eq!(laptop(&home, &["backup", "files", "--quiet"]).code, 0);
    home.ok(["forget", "latest~1", "--writer", "laptop"]);
    let said = run(&mut home.ibid(["prune"]));
    assert!(
        said.code == 0 && said.err.contains("ibid prune --writer NAME"),
        "{said:?}"
    );
    assert!(home.ok(["prune", "--dry-run", "--writer", "laptop"]).contains("MiB"));
    let freed = home.ok(["prune", "--writer", "laptop"]);
    assert!(freed.contains("freed"), "{freed}");
    let pruned: Value = serde_json::from_str(&home.ok(["prune", "--writer", "laptop", "--json"])).unwrap();
    assert_eq!(pruned["done"]["packs_deleted"], 0, "{pruned}");
    home.ok(["check", "--read-data", "--writer", "laptop"]);
    let again: Value = serde_json::from_str(&laptop(&home, &["backup", "files", "--json"]).out).unwrap();
    assert!(again["new_bytes"].as_u64().unwrap() < 10_000, "{again}");
    home.ok(["restore", &home.at("files"), "out", "--writer", "laptop", "--verify"]);
    assert!(tree(&home.path("files")) == tree(&home.path("out")));
    home.ok(["forget", "latest", "--prune", "--writer", "laptop"]);
}

/// Returns the largest pack of the writer.
fn largest_pack(home: &Home) -> std::path::PathBuf {
    let mut packs: Vec<_> = tree(&home.path("repo"))
        .into_iter()
        .map(|(path, _, _)| path)
        .filter(|path| path.starts_with("written") && path.iter().any(|part| part == "packs"))
        .map(|path| home.path("repo").join(path))
        .filter(|path| path.is_file())
        .collect();
    packs.sort_by_key(|path| std::fs::metadata(path).unwrap().len());
    packs.pop().unwrap()
}

/// Backs versions of a file up, pruned after each, so that packs have deltas and are signed by keepers.
fn store_versions(home: &Home) {
    let mut bytes = noise(1_500_000, 7);
    for version in 0..3 {
        bytes[version * 400_000..][..30].copy_from_slice(&noise(30, 100 + version as u64));
        home.write("files/large", &bytes);
        home.write("files/gone", noise(300_000, 9));
        assert_eq!(laptop(home, &["backup", "files", "--quiet"]).code, 0);
        home.ok(["prune", "--writer", "laptop"]);
    }
}

#[test]
fn a_keeper_ends_the_damage_of_a_writers_files() {
    let home = with_writer();
    store_versions(&home);
    std::fs::remove_file(largest_pack(&home)).unwrap();
    // The writer says what it does, and whom to tell.
    for _ in 0..2 {
        let ran = laptop(&home, &["backup", "files"]);
        assert_eq!(ran.code, 3, "{ran:?}");
        assert!(
            ran.err.contains("`ibid repair --writer NAME`") && ran.err.contains("stored again"),
            "{ran:?}"
        );
        assert!(
            ran.out.contains("Tell the keeper of the repository") && !ran.out.contains("ibid repair"),
            "{ran:?}"
        );
    }
    // So does the keeper's prune.
    let pruned = home.fails(3, ["prune", "--writer", "laptop"]);
    assert!(pruned.contains("with the same --writer"), "{pruned}");
    // Versions that the laptop has overwritten are lost for good.
    let lost = run(&mut home.ibid(["repair", "--writer", "laptop"]));
    assert_eq!(lost.code, 4, "{lost:?}");
    assert!(
        lost.out.contains("files/large") && lost.out.contains("1 missing pack forgotten"),
        "{lost:?}"
    );
    assert!(lost.out.contains("--forget --writer NAME"), "{lost:?}");
    for _ in 0..2 {
        let ran = laptop(&home, &["backup", "files"]);
        assert!(ran.code == 0 && !ran.err.contains("warning"), "{ran:?}");
        let ran = run(&mut home.ibid(["prune", "--writer", "laptop"]));
        assert!(ran.code == 0 && !ran.err.contains("warning"), "{ran:?}");
    }
    home.ok(["restore", &home.at("files"), "out", "--writer", "laptop", "--verify"]);
    assert!(tree(&home.path("files")) == tree(&home.path("out")));
    let check = run(&mut home.ibid(["check", "--read-data", "--writer", "laptop"]));
    assert!(check.code == 4 && check.out.contains("LOST: "), "{check:?}");
    assert!(check.out.contains("--exclude-lost --forget --writer NAME"), "{check:?}");
    let left = home.ok(["rewrite", "--all", "--exclude-lost", "--forget", "--writer", "laptop"]);
    assert!(left.contains("is now"), "{left}");
    home.ok(["check", "--read-data", "--writer", "laptop"]);
    home.ok(["prune", "--writer", "laptop"]);
    home.ok(["check", "--read-data", "--writer", "laptop"]);
    let again: Value = serde_json::from_str(&laptop(&home, &["backup", "files", "--json"]).out).unwrap();
    assert!(again["new_bytes"].as_u64().unwrap() < 10_000, "{again}");
    assert!(home.ok(["repair", "--writer", "laptop"]).contains("nothing to repair"));
}

#[test]
fn what_a_laptop_has_lost_too_is_left_out_or_forgotten() {
    for forgets in [false, true] {
        let home = with_writer();
        store_versions(&home);
        std::fs::remove_file(largest_pack(&home)).unwrap();
        for name in ["gone", "large"] {
            std::fs::remove_file(home.path("files").join(name)).unwrap();
        }
        assert_eq!(laptop(&home, &["backup", "files", "--quiet"]).code, 3);
        let lost: Value =
            serde_json::from_str(&run(&mut home.ibid(["repair", "--writer", "laptop", "--json"])).out).unwrap();
        assert!(
            lost["forgotten_packs"] == 1 && lost["affected_total"].as_u64() > Some(2),
            "{lost}"
        );
        match forgets {
            true => {
                let affected = lost["affected"].as_array().unwrap();
                let mut ids: Vec<&str> = affected.iter().map(|one| one["snapshot"].as_str().unwrap()).collect();
                ids.dedup();
                home.ok([&["forget", "--writer", "laptop"][..], &ids].concat());
            }
            false => {
                let left =
                    run(&mut home.ibid(["rewrite", "--all", "--exclude-lost", "--forget", "--writer", "laptop"]));
                assert!(left.code == 0 && left.err.contains("files/gone"), "{left:?}");
            }
        }
        for _ in 0..2 {
            home.ok(["prune", "--writer", "laptop"]);
            home.ok(["check", "--read-data", "--writer", "laptop"]);
            let ran = laptop(&home, &["backup", "files"]);
            assert!(ran.code == 0 && ran.err.is_empty(), "{ran:?}");
        }
        assert!(home.ok(["repair", "--writer", "laptop"]).contains("nothing to repair"));
    }
}

#[test]
fn a_damaged_config_of_a_writer_is_made_again() {
    let home = with_writer();
    assert_eq!(laptop(&home, &["backup", "files", "--quiet"]).code, 0);
    let written = std::fs::read_dir(home.path("repo/written"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let before = std::fs::read(written.join("config")).unwrap();
    for names in [&["config"][..], &["config", "config.copy"]] {
        for name in names {
            std::fs::write(written.join(name), b"no config").unwrap();
        }
        let said = laptop(&home, &["backup", "files"]);
        assert!(
            said.code == 1 && said.err.contains("`ibid repair --writer "),
            "{said:?}"
        );
        assert!(
            home.fails(1, ["check", "--writer", "laptop"])
                .contains("`ibid repair --writer ")
        );
        let repaired = home.ok(["repair", "--writer", "laptop"]);
        assert!(repaired.contains("made the config of the writer again"), "{repaired}");
        assert_eq!(laptop(&home, &["backup", "files", "--quiet"]).code, 0);
        home.ok(["check", "--read-data", "--writer", "laptop"]);
        assert!(home.ok(["repair", "--writer", "laptop"]).contains("nothing to repair"));
        if names.len() == 1 {
            assert_eq!(std::fs::read(written.join("config")).unwrap(), before);
        }
    }
}
