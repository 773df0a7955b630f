//! Forgetting snapshots, and freeing what they took.

use serde_json::Value;

use crate::support::{self, Home, noise};
use crate::tables::Tables;

const DOCUMENT: &str = include_str!("../../../../docs/json.md");

/// A home with a backup of new noise on each of so many days.
fn home(days: u32) -> Home {
    let home = Home::new();
    for day in 1..=days {
        home.write("files/noise", noise(300_000, u64::from(day)));
        home.ok(["backup", "files", "--time", &format!("2026-03-{day:02}T12:00:00Z")]);
    }
    home
}

#[test]
fn rules_say_what_is_kept_and_why_and_prune_frees_the_rest() {
    let home = home(9);
    let ids = home.ids();
    let dry = home.ok(["forget", "--keep-daily", "5", "--keep-weekly", "2", "--dry-run"]);
    assert!(dry.contains("4 snapshots would be forgotten, 5 kept"), "{dry}");
    assert!(dry.contains("daily, weekly"), "{dry}");
    assert_eq!(home.ids(), ids);

    let before: Value = serde_json::from_str(&home.ok(["prune", "--dry-run", "--json"])).unwrap();
    assert_eq!(before["estimate"]["unused_bytes"], 0);
    home.ok(["forget", "--keep-daily", "5", "--keep-weekly", "2"]);
    assert_eq!(home.ids().len(), 5);
    let text = home.ok(["prune", "--max-unused", "0"]);
    assert!(text.contains("freed"), "{text}");
    assert!(home.ok(["prune"]).contains("nothing to free"));
    home.ok(["check", "--read-data"]);
    home.ok(["restore", "latest", "back", "--verify"]);
}

#[test]
fn a_dry_run_of_both_says_what_the_prune_would_free() {
    let home = home(4);
    let forget = |options: &[&str]| {
        let text = home.ok([&["forget", "--keep-last", "2", "--prune", "--json"], options].concat());
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let would = forget(&["--dry-run"]);
    let text = home.ok(["forget", "--keep-last", "2", "--prune", "--dry-run"]);
    assert!(
        text.contains("2 snapshots would be forgotten") && text.contains("would free     29"),
        "{text}"
    );
    assert!(home.ids().len() == 4 && would["prune"].is_null(), "{would}");
    let done = forget(&[]);
    assert!(done["prune_estimate"].is_null() && home.ids().len() == 2, "{done}");
    let [would, done] = [&would["prune_estimate"], &done["prune"]].map(|one| one["freed_bytes"].as_u64().unwrap());
    // A prune also writes packs of small frames, of which the estimate knows only about how large they are.
    assert!(would > 290_000 && would.abs_diff(done) < 10_000, "{would} {done}");
}

#[test]
fn a_rule_that_forgets_most_of_a_group_needs_a_yes() {
    let home = home(5);
    let refused = home.fails(2, ["forget", "--keep-last", "1"]);
    assert!(
        refused.contains("4 of 5 snapshots") && refused.contains("--yes"),
        "{refused}"
    );
    assert_eq!(home.ids().len(), 5);
    home.ok(["forget", "--keep-last", "1", "--yes"]);
    assert_eq!(home.ids().len(), 1);
    // Snapshots that were named were meant.
    home.ok(["forget", "latest"]);
    assert!(home.ids().is_empty());
}

#[test]
fn forgotten_snapshots_come_back_until_they_are_pruned() {
    let home = home(4);
    let ids = home.ids();
    home.ok(["forget", &ids[1], &ids[2]]);
    let dry = home.ok(["forget", "--undo", "-n"]);
    assert!(
        dry.matches("would come back").count() == 2 && !dry.contains("is back"),
        "{dry}"
    );
    assert_eq!(home.ids().len(), 2);
    let text = home.ok(["forget", "--undo", &ids[2][..8]]);
    assert!(text.contains(&format!("{} of", &ids[2][..8])), "{text}");
    let after = home.ids();
    assert_eq!(
        (&after[0], &after[2], after.len()),
        (&ids[0], &ids[3], 3),
        "in the place that it had"
    );
    home.ok(["restore", &after[1], "back", "--verify"]);
    home.ok(["prune"]);
    assert!(
        home.fails(1, ["forget", "--undo", &ids[1]])
            .contains("no forgotten snapshot")
    );
    assert!(home.ok(["forget", "--undo"]).contains("no snapshot was forgotten"));
}

/// A script whose variable is empty, or a comma too many, would otherwise forget everything.
#[test]
fn a_list_of_tags_to_keep_without_a_tag_is_refused() {
    let home = home(2);
    home.ok(["backup", "files", "--tag", "release, small"]);
    for list in ["", ",", " "] {
        home.fails(2, ["forget", "--keep-tag", list, "--yes"]);
    }
    assert_eq!(home.ids().len(), 3);
    home.ok(["forget", "--keep-tag", "small,", "--yes"]);
    assert_eq!(home.ids().len(), 1);
    home.fails(2, ["forget", "--keep-last", "0", "--yes"]);
}

#[test]
fn a_forgotten_snapshot_that_is_damaged_is_named_and_the_others_come_back() {
    let home = home(3);
    let ids = home.ids();
    home.ok(["forget", &ids[0], &ids[1]]);
    let file = home.path("repo/forgotten").join(&ids[0]);
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "damaged").unwrap();
    let said = home.fails(3, ["forget", "--undo", &ids[0]]);
    assert!(
        said.contains(&ids[0]) && said.contains("cannot be brought back"),
        "{said}"
    );
    let ran = home.run(["forget", "--undo"]);
    assert!(ran.code == 3 && ran.err.contains(&ids[0]), "{ran:?}");
    assert_eq!(home.ids().len(), 2);
    assert!(home.ok(["check"]).contains("note: forgotten/"));
}

/// That a user may not write says nothing about the storage.
#[test]
fn a_storage_that_cannot_be_written_to_is_not_tried_out() {
    let home = home(1);
    let keys = home.path("repo/keys");
    std::fs::set_permissions(&keys, std::os::unix::fs::PermissionsExt::from_mode(0o555)).unwrap();
    let mut command = support::as_somebody(&home, &["storage", "test"]);
    let ran = support::run(&mut command);
    std::fs::set_permissions(&keys, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert!(ran.code == 1 && ran.out.is_empty(), "{ran:?}");
    assert!(
        ran.err.contains("permission denied") && !ran.err.contains("prune is not safe"),
        "{ran:?}"
    );
}

#[test]
fn nothing_to_forget_is_a_wrong_command_line() {
    let home = home(1);
    assert!(home.fails(2, ["forget"]).contains("--keep-daily 7"));
    home.fails(2, ["forget", "latest", "--keep-last", "1"]);
    home.fails(2, ["forget", "--keep-within", "soon"]);
    home.fails(2, ["prune", "--patience", "soon"]);
    assert!(
        home.fails(1, ["prune", "--give-up-on", "4f1a"])
            .contains("ibid sessions")
    );
}

#[test]
fn a_storage_is_tried_out_without_a_password() {
    let home = home(1);
    let before = home.ids();
    let test = |arguments: &[&str]| {
        let arguments = ["storage", "test"].iter().chain(arguments);
        let ran = support::run(home.ibid(arguments).env_remove("IBID_PASSWORD"));
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    };
    let text = test(&[]);
    assert_eq!(text.lines().count(), 6, "{text}");
    assert!(text.lines().all(|line| line.contains(" ok")), "{text}");
    let json = test(&["--json"]);
    let document = Tables::read(&[DOCUMENT]).document("storage test", &json);
    assert_eq!(
        (&document["ok"], &document["left"]),
        (&true.into(), &Value::Array(vec![]))
    );
    let keys = std::fs::read_dir(home.path("repo/keys")).unwrap().count();
    assert_eq!((keys, home.ids()), (1, before), "nothing is left behind");
    home.fails(10, ["storage", "test", "--repo", "nowhere"]);
}

#[test]
fn a_prune_that_is_alone_frees_the_same() {
    let home = home(3);
    home.ok(["forget", "latest"]);
    home.fails(2, ["prune", "--exclusive", "--dry-run"]);
    let text = home.ok(["prune", "--exclusive"]);
    assert!(text.contains("freed"), "{text}");
}

#[test]
fn forget_prune_and_sessions_print_the_json_that_is_documented() {
    let tables = Tables::read(&[DOCUMENT]);
    let home = home(4);
    let json = |arguments: &[&str]| home.ok([arguments, &["--json"]].concat());
    let dry = tables.document("forget", &json(&["forget", "--keep-last", "3", "--dry-run"]));
    assert_eq!(
        (&dry["kept"], &dry["forgotten"], &dry["prune"]),
        (&3.into(), &1.into(), &Value::Null)
    );
    let done = tables.document("forget", &json(&["forget", "--keep-last", "2", "--prune"]));
    assert!(done["prune"]["freed_bytes"].as_u64().unwrap() > 250_000, "{done}");
    home.ok(["forget", "latest"]);
    let back = tables.document("forget --undo", &json(&["forget", "--undo"]));
    assert_eq!(back["snapshots"].as_array().unwrap().len(), 1);
    let dry = tables.document("prune", &json(&["prune", "--dry-run"]));
    assert_eq!((&dry["dry_run"], &dry["done"]), (&true.into(), &Value::Null));
    let done = tables.document("prune", &json(&["prune"]));
    assert_eq!(done["done"]["packs_deleted"], 0);
    let sessions = tables.stream("sessions", &json(&["sessions"]));
    assert_eq!(sessions[1]["sessions"], 0);
}

/// Without it, the lost data would not be noticed until a restore.
#[test]
fn a_prune_names_damaged_packs_frees_the_others_and_is_code_3_until_a_repair() {
    let home = home(4);
    let before = support::packs(&home);
    home.write("files/noise", noise(300_000, 99));
    home.ok(["backup", "files"]);
    let new = support::packs(&home).into_iter().filter(|pack| !before.contains(pack));
    let cut = new.max_by_key(|pack| pack.metadata().unwrap().len()).unwrap();
    let bytes = std::fs::read(&cut).unwrap();
    std::fs::remove_file(&cut).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let named = cut.strip_prefix(home.path("repo")).unwrap().display();
    let says = |ran: &support::Ran| {
        assert_eq!(ran.code, 3, "{ran:?}");
        let said = format!("1 pack of the repository: 1 cut short ({named}). `ibid check` says");
        assert_eq!(ran.err.matches(&said).count(), 1, "{ran:?}");
        assert!(
            ran.err.contains("`ibid check`") && ran.err.contains("`ibid repair`"),
            "{ran:?}"
        );
    };
    let ids = home.ids();
    home.ok(["forget", &ids[2]]);
    let dry = home.run(["prune", "--dry-run"]);
    says(&dry);
    assert!(dry.out.contains("1 pack is not whole (see above)"), "{dry:?}");
    let ran = home.run(["prune", "--json"]);
    says(&ran);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(
        document["done"]["freed_bytes"].as_u64().unwrap() > 200_000,
        "{document}"
    );
    assert_eq!(document["estimate"]["lost_packs"], 1);
    assert_eq!(document["done"]["lost_packs"], 1);
    let ran = home.run(["prune"]);
    says(&ran);
    assert!(
        ran.out.contains("nothing to free") && ran.out.contains("1 pack is not whole (see above)"),
        "{ran:?}"
    );
    says(&home.run(["forget", "--prune", &ids[1]]));
    assert!(cut.exists(), "it is left to the repair");

    assert_eq!(home.run(["repair"]).code, 4);
    home.ok(["prune"]);
}
