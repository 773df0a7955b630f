//! Repositories whose files are locked, and those that are read as they were.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ibid_s3_server::{LOCKABLE, VERSIONED};

use crate::servers::Remote;
use crate::support::{CHEAP, noise};
use crate::tables::Tables;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns a time so many hours ago, as `--as-of` takes it.
fn hours_ago(hours: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    format!("@{}", now.as_secs() - hours * 3600)
}

impl Remote {
    /// Makes a repository whose files are locked, and backs up a file.
    fn locked(mode: &str) -> Remote {
        let remote = Remote::in_bucket(LOCKABLE);
        let lock = ["--lock", "30d", "--lock-mode", mode];
        let created = remote.ok(&[&["init", CHEAP[0], CHEAP[1]][..], &lock].concat());
        assert!(created.contains(&format!("are kept for 30 days ({mode})")), "{created}");
        remote.home.write("tree/first", noise(300_000, 1));
        remote.ok(&["backup", "tree"]);
        remote
    }

    /// Deletes all that is there, and then all versions that no lock keeps.
    fn steal_all(&self) {
        for key in self.server.keys(self.bucket) {
            self.server.set(self.bucket, &key, None);
        }
        self.server.destroy(self.bucket);
    }

    /// Returns for how many days an object is locked.
    fn days(&self, key: &str) -> Option<u64> {
        let (_, until) = self.server.locked_until(self.bucket, key)?;
        let left = until.duration_since(SystemTime::now()).unwrap_or_default();
        Some(left.as_secs() / DAY.as_secs())
    }
}

#[test]
fn after_a_thief_has_deleted_everything_all_comes_back_as_it_was() {
    let remote = Remote::locked("compliance");
    remote.home.write("tree/second", noise(50_000, 2));
    remote.ok(&["backup", "tree"]);
    remote.server.pass(DAY);
    // What the thief stores counts no more than what it deletes.
    std::fs::write(remote.home.path("tree/first"), "encrypted").unwrap();
    remote.ok(&["backup", "tree"]);
    std::fs::write(remote.home.path("tree/first"), noise(300_000, 1)).unwrap();
    remote.steal_all();
    assert_eq!(remote.server.keys(LOCKABLE), Vec::<String>::new());
    let gone = remote.run(&["snapshots"]);
    assert_eq!(gone.code, 10, "{gone:?}");

    let before = hours_ago(12);
    let past = |arguments: &[&str]| remote.ok(&[arguments, &["--as-of", &before]].concat());
    assert_eq!(past(&["snapshots", "--quiet"]).lines().count(), 2 + 1);
    let within = format!("latest:{}", remote.home.path("tree").display());
    past(&["restore", &within, "back", "--verify"]);
    for file in ["first", "second"] {
        let (back, was) = (format!("back/{file}"), format!("tree/{file}"));
        let read = |path| std::fs::read(remote.home.path(path)).unwrap();
        assert!(read(back) == read(was), "{file}");
    }
    assert!(past(&["ls", &within]).contains("second"));
    assert!(past(&["find", "second"]).contains("second"));
    assert_eq!(past(&["diff", "latest~1", "latest"]).matches("second").count(), 1);
    let stats: serde_json::Value = serde_json::from_str(&past(&["stats", "--json"])).unwrap();
    assert_eq!(stats["snapshots"], 2, "{stats}");
    past(&["check", "--read-data"]);
    let file = format!("{within}/second");
    let dumped = past(&["dump", &file, "--length", "0"]);
    assert_eq!(dumped, "");

    // And into a new repository, from which one goes on.
    let made = remote.run_in("locks/again", &["init", CHEAP[0], CHEAP[1], "--lock", "30d"]);
    assert_eq!(made.code, 0, "{made:?}");
    let to = "s3://locks/again";
    past(&["copy", "--to", to, "--to-password-command", "echo secret"]);
    let listed = remote.run_in("locks/again", &["snapshots", "--quiet"]);
    assert_eq!(listed.out.lines().count(), 2 + 1, "{listed:?}");
    assert_eq!(remote.run_in("locks/again", &["check", "--read-data"]).code, 0);
}

#[test]
fn a_repository_as_it_was_shares_no_cache_with_the_present() {
    let remote = Remote::in_bucket(VERSIONED);
    remote.init();
    remote.home.write("tree/first", noise(300_000, 1));
    remote.ok(&["backup", "tree"]);
    remote.server.pass(DAY);
    remote.home.write("tree/second", noise(50_000, 2));
    remote.ok(&["backup", "tree"]);
    let before = hours_ago(12);
    for _ in 0..2 {
        let was = remote.ok(&["snapshots", "--quiet", "--as-of", &before]);
        assert_eq!(was.lines().count(), 1 + 1, "{was}");
        assert_eq!(remote.ok(&["snapshots", "--quiet"]).lines().count(), 2 + 1);
        remote.restores("latest", "tree");
    }
    remote.ok(&["forget", "latest~1", "--yes", "--prune"]);
    let was = remote.ok(&["check", "--read-data", "--as-of", &before]);
    assert!(!was.contains("damaged"), "{was}");
    remote.ok(&["check", "--read-data"]);
}

#[test]
fn all_is_locked_but_what_lives_for_hours() {
    for mode in ["governance", "compliance"] {
        let remote = Remote::locked(mode);
        remote.ok(&["forget", "latest", "--yes"]);
        let mut locked = std::collections::BTreeSet::new();
        for key in remote.server.keys(LOCKABLE) {
            let folder = key.split('/').nth(1).unwrap().to_owned();
            let found = remote.server.locked_until(LOCKABLE, &key).map(|(mode, _)| mode);
            let passes = ["sessions", "checkpoints", "sketches", "forgotten"].contains(&folder.as_str());
            assert_eq!(found, (!passes).then(|| mode.to_uppercase()), "{key}");
            locked.extend(found.map(|_| folder));
        }
        let locked: Vec<&str> = locked.iter().map(String::as_str).collect();
        assert!(
            ["config", "config.copy", "index", "keys", "packs"]
                .iter()
                .all(|name| locked.contains(name)),
            "{locked:?}"
        );
        // The snapshot that was forgotten is kept, too.
        assert!(remote.server.destroy(LOCKABLE) > locked.len());
    }
}

#[test]
fn what_a_writer_stores_is_locked_too() {
    let remote = Remote::locked("governance");
    remote.ok(&["key", "add-writer", "--label", "laptop", "--out", "laptop.key"]);
    remote.ok(&["backup", "tree", "--key-file", "laptop.key"]);
    let written = remote.server.keys(LOCKABLE);
    let mut packs = 0;
    for key in written.iter().filter(|key| key.starts_with("home/written/")) {
        let passes = ["/sessions/", "/checkpoints/", "/sketches/"];
        let passes = passes.iter().any(|folder| key.contains(folder));
        assert_eq!(remote.days(key), (!passes).then_some(30), "{key}");
        packs += u32::from(key.contains("/packs/"));
    }
    assert!(packs > 0, "{written:?}");
}

#[test]
fn a_prune_renews_the_locks_of_what_is_needed_and_says_when_space_comes_free() {
    let remote = Remote::locked("governance");
    remote.home.write("tree/first", noise(2_000_000, 3));
    remote.ok(&["backup", "tree", "--similarity", "off", "--cache-dir", "cache"]);
    remote.server.pass(16 * DAY);
    remote.ok(&["forget", "latest~1", "--yes", "--cache-dir", "cache"]);
    let keys = remote.server.keys(LOCKABLE);
    let prune = ["prune", "--max-unused", "0"];
    remote.exact(&prune);
    let _ = std::fs::remove_dir_all(remote.home.path("cache"));
    let left: Vec<String> = remote.server.keys(LOCKABLE);
    let gone = keys.iter().filter(|key| !left.contains(key));
    assert!(gone.clone().any(|key| key.starts_with("home/packs/")));
    for key in left
        .iter()
        .filter(|key| !key.contains("/sketches/") && !key.contains("/forgotten/"))
    {
        assert_eq!(remote.days(key), Some(30), "{key}");
    }

    // No second time, and without a word.
    let tables = Tables::read(&[include_str!("../../../../docs/json.md")]);
    let again = tables.document("prune", &remote.ok(&["prune", "--json"]));
    assert_eq!(again["done"]["locks_renewed"], 0, "{again}");
    assert_eq!(again["done"]["locked_until"], serde_json::Value::Null, "{again}");

    remote.server.pass(20 * DAY);
    remote.home.write("tree/first", noise(2_000_000, 4));
    remote.ok(&["backup", "tree", "--similarity", "off"]);
    remote.ok(&["forget", "latest~1", "--yes"]);
    let done = remote.json(&prune);
    let until = done["done"]["locked_until"].as_str().unwrap();
    assert!(until.ends_with("T00:00:00Z"), "at the end of a day: {done}");
    assert!(done["done"]["locks_renewed"].as_u64() > Some(3), "{done}");
    remote.ok(&["check", "--read-data"]);
    remote.restores("latest", "tree");
}

#[test]
fn a_prune_that_fails_renews_locks_all_the_same() {
    let remote = Remote::locked("governance");
    let keys = remote.server.keys(LOCKABLE);
    let snapshot = keys.iter().find(|key| key.starts_with("home/snapshots/")).unwrap();
    remote.server.set(LOCKABLE, snapshot, Some(b"damaged".to_vec()));
    remote.server.pass(16 * DAY);
    assert_ne!(remote.run(&["prune", "--no-cache"]).code, 0);
    for key in keys.iter().filter(|key| !key.contains("/sketches/")) {
        assert_eq!(remote.days(key), Some(30), "{key}");
    }
}

#[test]
fn a_lock_that_is_given_later_locks_what_is_stored_and_a_prune_locks_the_rest() {
    let remote = Remote::in_bucket(LOCKABLE);
    remote.init();
    remote.home.write("tree/first", noise(300_000, 1));
    remote.ok(&["backup", "tree"]);
    assert_eq!(remote.days("home/config"), None);
    remote.home.write("tree/second", noise(300_000, 2));
    remote.ok(&["backup", "tree", "--lock", "10d"]);
    let packs = |days| {
        let keys = remote.server.keys(LOCKABLE);
        let packs = keys.iter().filter(|key| key.starts_with("home/packs/"));
        packs.filter(|key| remote.days(key) == days).count()
    };
    assert_eq!((packs(None), packs(Some(10))), (2, 2));
    let pruned = remote.ok(&["prune", "--lock", "10d"]);
    assert!(pruned.contains("renewed "), "{pruned}");
    assert_eq!((packs(None), packs(Some(10))), (0, 4));
    assert_eq!(remote.days("home/config"), Some(10));
}

#[test]
fn what_can_not_be_locked_is_refused_before_anything_is_stored() {
    let remote = Remote::new();
    let init = ["init", CHEAP[0], CHEAP[1], "--lock", "30d"];
    let refused = remote.run(&init);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("Make one with object lock"), "{refused:?}");
    assert_eq!(remote.server.keys("bucket"), Vec::<String>::new());
    let mut folder = remote.home.ibid(init);
    let refused = crate::support::run(folder.env("IBID_REPO", remote.home.path("folder")));
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("only servers with S3"), "{refused:?}");
    assert!(!remote.home.path("folder").exists());

    // A repository that is there.
    remote.init();
    let before = remote.server.keys("bucket");
    remote.home.write("tree/file", noise(1000, 1));
    let refused = remote.run(&["backup", "tree", "--lock", "30d"]);
    assert!(
        refused.code == 1 && refused.err.contains("Make one with object lock"),
        "{refused:?}"
    );
    assert_eq!(remote.server.keys("bucket"), before);

    let locked = Remote::locked("compliance");
    for weaker in [&["--lock", "29d", "--lock-mode", "compliance"][..], &["--lock", "30d"]] {
        let refused = locked.run(&[&["backup", "tree"], weaker].concat());
        assert!(refused.code == 1 && refused.err.contains("is less"), "{refused:?}");
    }
    for wrong in ["30", "0d", "36501d", "1w"] {
        assert_eq!(locked.run(&["backup", "tree", "--lock", wrong]).code, 2);
    }
}

/// The repository says that its files are to be locked, so no program stores them where they would not be.
#[test]
fn a_copy_in_a_place_without_locks_can_be_read_and_not_written() {
    let remote = Remote::locked("governance");
    for key in remote.server.keys(LOCKABLE) {
        let bytes = remote.server.object(LOCKABLE, &key);
        remote.server.set("bucket", &key, bytes);
    }
    let tree = remote.home.path("tree").display().to_string();
    let within = format!("latest:{tree}");
    let restored = remote.run_in("bucket/home", &["restore", &within, "back", "--verify"]);
    assert_eq!(restored.code, 0, "{restored:?}");
    remote.home.write("tree/new", noise(1000, 9));
    let refused = remote.run_in("bucket/home", &["backup", "tree"]);
    assert!(
        refused.code == 1 && refused.err.contains("no object lock"),
        "{refused:?}"
    );

    for key in remote.server.keys(LOCKABLE) {
        let bytes = remote.server.object(LOCKABLE, &key).unwrap();
        remote.home.write(format!("local/{key}"), bytes);
    }
    let local = |arguments: &[&str]| {
        let mut command = remote.home.ibid(arguments);
        crate::support::run(command.env("IBID_REPO", remote.home.path("local/home")))
    };
    let restored = local(&["restore", &within, "again", "--verify"]);
    assert_eq!(restored.code, 0, "{restored:?}");
    let refused = local(&["backup", "tree"]);
    assert!(
        refused.code == 1 && refused.err.contains("are to be locked for 30 days"),
        "{refused:?}"
    );
}

#[test]
fn what_keeps_no_versions_is_not_read_as_it_was() {
    let remote = Remote::new();
    remote.init();
    let refused = remote.run(&["snapshots", "--as-of", "@1795262400"]);
    assert!(
        refused.code == 1 && refused.err.contains("keeps no versions"),
        "{refused:?}"
    );
    let mut folder = remote.home.ibid(["init", CHEAP[0], CHEAP[1]]);
    assert_eq!(
        crate::support::run(folder.env("IBID_REPO", remote.home.path("folder"))).code,
        0
    );
    let mut folder = remote.home.ibid(["snapshots", "--as-of", "@1795262400"]);
    let refused = crate::support::run(folder.env("IBID_REPO", remote.home.path("folder")));
    assert!(refused.code == 2 && refused.err.contains("is no bucket"), "{refused:?}");
    let refused = remote.run(&["backup", "tree", "--as-of", "@1795262400"]);
    assert_eq!(refused.code, 2, "a command that stores: {refused:?}");
}

#[test]
fn a_prune_of_a_writers_files_says_when_their_space_comes_free_and_renews_no_others() {
    let remote = Remote::locked("governance");
    remote.ok(&["key", "add-writer", "--label", "laptop", "--out", "laptop.key"]);
    for version in 1..=2 {
        remote.home.write("tree/first", noise(300_000, version));
        remote.ok(&["backup", "tree", "--key-file", "laptop.key"]);
    }
    remote.server.pass(20 * DAY);
    remote.ok(&["forget", "latest~1", "--writer", "laptop", "--yes"]);
    let pruned = remote.ok(&["prune", "--writer", "laptop", "--json"]);
    let pruned: serde_json::Value = serde_json::from_str(&pruned).unwrap();
    assert!(pruned["done"]["locked_until"].is_string(), "{pruned}");
    assert!(pruned["done"]["locks_renewed"].as_u64() > Some(0), "{pruned}");
    let days = |key: &String| remote.days(key);
    for key in remote.server.keys(LOCKABLE).iter().filter(|key| days(key).is_some()) {
        let is_of_writer = key.contains("/written/");
        assert_eq!(days(key) > Some(15), is_of_writer, "{key}: {:?}", days(key));
    }
}

#[test]
fn a_folder_is_refused_a_lock_in_the_same_words_by_every_command() {
    let home = crate::support::Home::new();
    home.write("tree/first", b"in the same place");
    let init = home.fails(2, ["init", "--repo", "other", "--lock", "30d"]);
    let backup = home.fails(2, ["backup", "tree", "--lock", "30d"]);
    for said in [init, backup] {
        assert!(said.contains("is none. Leave out --lock"), "{said}");
    }
    assert!(!home.path("other").exists());
    home.ok(["backup", "tree"]);
}
