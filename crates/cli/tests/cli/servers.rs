//! Repositories with a server.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use ibid_s3_server::{ACCESS_KEY, Fault, Operation, SECRET_KEY, Server, Traits};
use serde_json::Value;

use crate::asking::terminal;
use crate::blocks::{blocks, run_blocks};
use crate::support::{CHEAP, Home, Ran, noise, run};
use crate::tables::Tables;

/// A home whose repository is with a server of its own.
pub(crate) struct Remote {
    pub(crate) server: Server,
    pub(crate) home: Home,
    /// The bucket.
    pub(crate) bucket: &'static str,
}

impl Remote {
    pub(crate) fn new() -> Remote {
        Remote::with(Traits::default())
    }

    fn with(traits: Traits) -> Remote {
        Remote {
            server: Server::start_with(traits, 0),
            home: Home::bare(),
            bucket: "bucket",
        }
    }

    /// Returns one whose repository is in another bucket.
    pub(crate) fn in_bucket(bucket: &'static str) -> Remote {
        Remote {
            bucket,
            ..Remote::new()
        }
    }

    /// Returns a command in the repository `place`, a bucket and a prefix, that does not run yet.
    fn command_in(&self, place: &str, arguments: &[&str]) -> Command {
        let mut command = self.home.ibid(arguments);
        command
            .env("IBID_REPO", format!("s3://{place}"))
            .env("AWS_ENDPOINT_URL", self.server.endpoint())
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
        command
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_in(&format!("{}/home", self.bucket), arguments)
    }

    /// Runs a command in the repository `place`, a bucket and a prefix.
    pub(crate) fn run_in(&self, place: &str, arguments: &[&str]) -> Ran {
        run(&mut self.command_in(place, arguments))
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        run(&mut self.command(arguments))
    }

    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        ran.out
    }

    #[track_caller]
    pub(crate) fn init(&self) {
        self.ok(&["init", CHEAP[0], CHEAP[1]]);
    }

    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// Asserts that a snapshot restores to the tree.
    #[track_caller]
    pub(crate) fn restores(&self, snapshot: &str, tree: &str) {
        let _ = std::fs::remove_dir_all(self.home.path("out"));
        let within = format!("{snapshot}:{}", self.home.path(tree).display());
        self.ok(&["restore", &within, "out", "--verify"]);
        let different = std::process::Command::new("diff")
            .args(["-r", tree, "out"])
            .current_dir(self.home.path("."))
            .output()
            .unwrap();
        assert!(different.status.success(), "{different:?}");
    }
}

#[test]
fn everything_works_with_a_server() {
    let remote = Remote::with(Traits {
        page: 7,
        ..Traits::default()
    });
    let created = remote.ok(&["init", CHEAP[0], CHEAP[1]]);
    assert!(
        created.contains("created an encrypted repository in s3://bucket/home"),
        "{created}"
    );
    for number in 0..40_u64 {
        remote
            .home
            .write(format!("tree/{}/{number}", number % 5), noise(20_000, number));
    }
    let summary = remote.run(&["backup", "tree"]);
    assert!(summary.err.contains(" to store, "), "requests are told: {summary:?}");
    assert!(remote.server.keys("bucket").iter().all(|key| key.starts_with("home/")));
    remote.restores("latest", "tree");
    let tables = Tables::read(&[include_str!("../../../../docs/json.md")]);
    let first = tables.document("backup", &remote.ok(&["backup", "tree", "--json"]));
    assert!(first["requests"]["sent_bytes"].as_u64().unwrap() < 10_000, "{first}");
    remote.home.write("tree/new", noise(100_000, 1));
    remote.ok(&["backup", "tree"]);
    remote.restores("latest", "tree");
    assert_eq!(remote.ok(&["snapshots", "--quiet"]).lines().count(), 3 + 1);
    remote.ok(&["forget", "latest", "--yes"]);
    let before = remote.server.keys("bucket").len();
    remote.ok(&["prune"]);
    assert!(remote.server.keys("bucket").len() < before + 2);
    remote.ok(&["check", "--read-data"]);
    // Another repository in the same bucket, and a copy in it.
    let copied = remote.run_in("other/copy", &["init", CHEAP[0], CHEAP[1]]);
    assert_eq!(copied.code, 0, "{copied:?}");
    let to = [
        "copy",
        "--to",
        "s3://other/copy",
        "--to-password-command",
        "echo secret",
    ];
    let ran = remote.run(&to);
    assert!(ran.code == 0 && ran.err.contains("requests: "), "{ran:?}");
    assert_eq!(remote.run_in("other/copy", &["check", "--read-data"]).code, 0);
    let tested = remote.run(&["storage", "test"]);
    assert_eq!(tested.out.matches(" ok").count(), 6, "{tested:?}");
    assert_eq!(
        tested.err.matches(" requests: ").count(),
        1,
        "of both processes: {tested:?}"
    );
}

#[test]
fn only_packs_with_data_are_in_another_class_of_storage() {
    let remote = Remote::new();
    remote.init();
    remote.home.write("tree/file", noise(300_000, 1));
    remote.ok(&["backup", "tree", "--storage-class", "STANDARD_IA", "--cached-data", "0"]);
    let class = |key: &String| remote.server.storage_class("bucket", key);
    let keys = remote.server.keys("bucket");
    let (data, others): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| class(key).is_some());
    assert_eq!(data.len(), 1, "{data:?}");
    assert!(data[0].starts_with("home/packs/"), "{data:?}");
    assert_eq!(class(&data[0]).as_deref(), Some("STANDARD_IA"));
    assert!(
        others.iter().any(|key| key.starts_with("home/packs/")),
        "trees are as any object: {others:?}"
    );
    remote.restores("latest", "tree");
}

#[test]
fn two_that_create_one_repository_have_the_same_and_another_is_not_touched() {
    let remote = Remote::new();
    remote.init();
    let again = remote.run(&["init", CHEAP[0], CHEAP[1]]);
    assert!(
        again.code == 1 && again.err.contains("there is a repository in s3://bucket/home"),
        "{again:?}"
    );
    remote.server.set("bucket", "photos/2026/Cat.JPG", Some(vec![1]));
    let taken = remote.run_in("bucket/photos", &["init", CHEAP[0], CHEAP[1]]);
    assert!(
        taken.code == 1
            && taken
                .err
                .contains("s3://bucket/photos is not empty: it has 2026/Cat.JPG"),
        "{taken:?}"
    );
    let none = remote.run_in("bucket/none", &["snapshots"]);
    assert_eq!(none.code, 10, "{none:?}");
}

#[test]
fn a_server_that_overwrites_gets_no_repository() {
    let remote = Remote::with(Traits {
        overwrites: true,
        ..Traits::default()
    });
    let refused = remote.run(&["init", CHEAP[0], CHEAP[1]]);
    assert!(
        refused.code == 1 && refused.err.contains("lets one put overwrite another"),
        "{refused:?}"
    );
    assert_eq!(remote.server.keys("bucket"), Vec::<String>::new());
    // `storage test` says the same, and what follows.
    let tested = remote.run(&["storage", "test"]);
    assert!(tested.code == 1 && tested.out.contains("FAILED"), "{tested:?}");
}

#[test]
fn what_is_wrong_with_a_server_is_said_in_one_line_with_what_to_do() {
    let remote = Remote::new();
    remote.init();
    remote.home.write("tree/file", noise(1000, 1));
    let said = |ran: Ran, words: &[&str]| {
        assert_eq!(ran.code, 1, "{ran:?}");
        assert_eq!(ran.err.trim_end().lines().count(), 1, "{ran:?}");
        for word in words {
            assert!(ran.err.contains(word), "{word}: {ran:?}");
        }
        assert!(!ran.err.contains("Generic S3 error"), "{ran:?}");
    };
    said(
        remote.run_in("absent/home", &["snapshots"]),
        &[
            "the server answers 404, NoSuchBucket",
            "If there is no such bucket yet, make it",
        ],
    );
    let mut command = remote.home.ibid(["snapshots"]);
    command
        .env("IBID_REPO", "s3://bucket/home")
        .env("AWS_ENDPOINT_URL", remote.server.endpoint())
        .env("AWS_ACCESS_KEY_ID", "stolen")
        .env("AWS_SECRET_ACCESS_KEY", "guessed");
    said(run(&mut command), &["the server answers 403", "Check the credentials"]);
    let mut command = remote.home.ibid(["snapshots"]);
    command
        .env("IBID_REPO", "s3://bucket/home")
        .env("AWS_ENDPOINT_URL", remote.server.endpoint());
    said(
        run(&mut command),
        &["no credentials were found", "Check the credentials"],
    );
    let mut command = remote.home.ibid(["snapshots"]);
    command.env("IBID_REPO", "az://container/home");
    said(
        run(&mut command),
        &["expected AZURE_STORAGE_ACCOUNT_NAME", "Check the credentials"],
    );
    remote.server.faults().always(Some(Fault::Refuse(400)));
    said(
        remote.run(&["backup", "tree"]),
        &["ExpiredToken", "Check the credentials"],
    );
    remote.server.faults().always(Some(Fault::Refuse(301)));
    said(
        remote.run(&["snapshots"]),
        &["the server answers 301", "Check --region, AWS_REGION and --endpoint"],
    );
    remote.server.faults().always(None);
    said(
        remote.run(&["snapshots", "--endpoint", "http://127.0.0.1:9"]),
        &["no answer from http://127.0.0.1:9: connection refused; tried 3 times. Check the address and the network"],
    );
    for wrong in ["s3://", "s3://bucket/a?secret=1", "s3://bucket/a//b"] {
        let ran = run(remote.home.ibid(["snapshots"]).env("IBID_REPO", wrong));
        assert_eq!(ran.code, 2, "{ran:?}");
    }
}

/// Whatever goes wrong on the way, each backup that succeeds restores, and the repository is whole.
#[test]
fn in_bad_weather_backups_restores_and_prunes_are_right() {
    let remote = Remote::new();
    remote.init();
    remote.server.faults().weather(1, 60);
    for number in 0..6_u64 {
        for file in 0..10 {
            remote
                .home
                .write(format!("tree/{file}"), noise(30_000, number * 4 + file));
        }
        remote.ok(&["backup", "tree"]);
        remote.restores("latest", "tree");
        if number % 3 == 2 {
            remote.ok(&["forget", "--keep-last", "2", "--yes"]);
            remote.ok(&["prune"]);
        }
    }
    let asked = remote.json(&["check", "--read-data"]);
    remote.server.faults().weather(0, 0);
    assert_eq!(asked["faults"].as_array().map(Vec::len), Some(0), "{asked}");
    remote.ok(&["check", "--read-data"]);
}

#[test]
fn an_answer_that_is_lost_at_any_put_costs_nothing() {
    let remote = Remote::new();
    remote.init();
    for number in 0..5_u64 {
        remote.home.write("tree/file", noise(200_000, number));
        for _ in 0..number {
            remote
                .server
                .faults()
                .next(Operation::Put, Fault::Delay(std::time::Duration::ZERO));
        }
        remote.server.faults().next(Operation::Put, Fault::LoseAnswer);
        remote.ok(&["backup", "tree"]);
        remote.restores("latest", "tree");
    }
    assert_eq!(remote.ok(&["snapshots", "--quiet"]).lines().count(), 5 + 1);
    remote.ok(&["check", "--read-data"]);
}

#[test]
fn rclone_is_refused_with_what_to_use_instead() {
    let home = Home::bare();
    let why =
        "rclone: there one put overwrites another, so that two programs could destroy each other's data. Use s3://";
    for command in [
        &["init"][..],
        &["backup", "files"],
        &["snapshots"],
        &["storage", "test"],
    ] {
        let ran = run(home.ibid(command).env("IBID_REPO", "rclone:drive:backup"));
        assert!(ran.code == 2 && ran.err.contains(why), "{command:?}: {ran:?}");
    }
    assert!(!home.path("rclone:drive:backup").exists());
    let home = Home::new();
    let said = home.fails(
        2,
        [
            "copy",
            "--to",
            "rclone:drive:backup",
            "--to-password-command",
            "echo secret",
        ],
    );
    assert!(said.contains(why), "{said}");
    home.write(
        ".config/ibid/config.toml",
        "[profile.drive]\nrepo = \"rclone:drive:backup\"\n",
    );
    let said = home.fails(2, ["snapshots", "--profile", "drive"]);
    assert!(said.contains(why), "{said}");
}

/// The endpoint of Cloudflare R2 in the guide.
const R2: &str = "https://ACCOUNT.r2.cloudflarestorage.com";

/// Stores the keys of the server where the tools of Amazon have theirs.
fn write_keys(home: &Home) {
    let keys = format!("[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n");
    home.write(".aws/credentials", keys);
}

#[test]
fn the_guide_to_r2_runs_as_written_but_for_the_endpoint() {
    let remote = Remote::new();
    write_keys(&remote.home);
    remote.home.write("photos/anna.jpg", noise(300_000, 7));
    let endpoint = remote.server.endpoint();
    let blocks = blocks(include_str!("../../../../docs/remote.md")).into_iter();
    let blocks: Vec<String> = blocks
        .filter(|block| block.contains(R2))
        .map(|block| block.replace(R2, &endpoint))
        .collect();
    assert_eq!(blocks.len(), 1);
    let printed = run_blocks(&remote.home, &blocks);
    assert!(
        printed.contains("created an encrypted repository in s3://my-backups/photos"),
        "{printed}"
    );
    let restored = std::fs::read(remote.home.path("photos-of-r2/anna.jpg")).unwrap();
    assert!(restored == noise(300_000, 7));
}

/// The guide's commands, with a profile that says where the server is and who asks.
#[test]
fn the_guide_to_servers_runs_as_written() {
    let remote = Remote::new();
    let profile = format!(
        "[default]\nregion = us-east-1\nendpoint_url = {}\n",
        remote.server.endpoint()
    );
    remote.home.write(".aws/config", profile);
    write_keys(&remote.home);
    remote.home.write("letters/anna.txt", "dear Anna\n");
    let mut blocks = blocks(include_str!("../../../../docs/remote.md"));
    // Those of other machines, and of R2, have tests of their own.
    blocks.retain(|block| {
        !["ssh://", "tls://", "openssl", R2]
            .iter()
            .any(|other| block.contains(other))
    });
    assert!(blocks.len() >= 2, "{blocks:?}");
    let printed = run_blocks(&remote.home, &blocks);
    assert!(
        printed.contains("created an encrypted repository in s3://my-backups/laptop"),
        "{printed}"
    );
    assert_eq!(
        std::fs::read(remote.home.path("restored/anna.txt")).unwrap(),
        b"dear Anna\n"
    );
    assert_eq!(
        std::fs::read(remote.home.path("from-laptop/anna.txt")).unwrap(),
        b"dear Anna\n"
    );
}

#[test]
fn on_a_terminal_it_is_said_that_a_server_does_not_answer_and_that_it_does_again() {
    let remote = Remote::new();
    remote.init();
    let (master, path) = terminal();
    let stderr = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    remote.server.faults().always(Some(Fault::Refuse(503)));
    let mut command = remote.command(&["snapshots"]);
    let mut child = command.stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
    // It holds the terminal open, too.
    drop(command);
    let mut said = BufReader::new(std::fs::File::from(master)).lines();
    let first = said.next().unwrap().unwrap();
    let named = "note: no answer from s3://bucket/home for ";
    assert!(
        first.starts_with(named) && first.contains("(the server answers 503). It is asked again"),
        "{first}"
    );
    // A command that ends at once has no need to say it.
    remote
        .server
        .faults()
        .always(Some(Fault::Delay(Duration::from_secs(2))));
    let then = said.next().unwrap().unwrap();
    assert!(then.contains("s3://bucket/home answers again, after "), "{then}");
    remote.server.faults().always(None);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_backup_begins_with_the_key_of_the_cache_and_ends_with_those_of_the_repository() {
    let remote = Remote::new();
    remote.init();
    remote.home.write("tree/a", noise(5000, 1));
    let backup = |password: &str| {
        let mut command = remote.command(&["backup", "tree", "--json"]);
        run(command.env("IBID_PASSWORD", password))
    };
    let gets = |ran: &Ran| {
        assert_eq!(ran.code, 0, "{ran:?}");
        serde_json::from_str::<Value>(&ran.out).unwrap()["requests"]["get"].as_u64()
    };
    let snapshots = || remote.ok(&["snapshots", "--json"]).lines().count();
    let password = "secret";
    assert_eq!(gets(&backup(password)), Some(0), "what made the repository can open it");
    while gets(&backup(password)) != Some(0) {
        // Times of folders that were too new are stored again.
        assert!(snapshots() < 5);
    }
    let changed = |old: &str, new: &str| {
        // The other machine has no such cache.
        let passwd = ["key", "passwd", CHEAP[0], CHEAP[1], "--no-cache"];
        let mut command = remote.command(&passwd);
        let ran = run(command.env("IBID_PASSWORD", old).env("IBID_NEW_PASSWORD", new));
        assert_eq!(ran.code, 0, "{ran:?}");
    };
    // Another key with the same password opens it.
    let before = snapshots();
    changed(password, "between");
    changed("between", password);
    assert!(gets(&backup(password)) > Some(0));
    assert_eq!(snapshots(), before + 1);
    assert_eq!(gets(&backup(password)), Some(0));

    // Another password does not, and nothing is left of the backup.
    changed(password, "another");
    let keys = remote.server.keys("bucket");
    let refused = backup(password);
    assert_eq!(refused.code, 5, "{refused:?}");
    assert!(refused.err.contains("wrong password"), "{refused:?}");
    assert_eq!(remote.server.keys("bucket"), keys);

    // Another repository at the same address is found to be another.
    let all = backup("another");
    assert_eq!(all.code, 0, "{all:?}");
    for key in remote.server.keys("bucket") {
        remote.server.set("bucket", &key, None);
    }
    assert_eq!(backup("another").code, 10);
    let created = run(remote
        .command(&["init", CHEAP[0], CHEAP[1]])
        .env("IBID_PASSWORD", "another"));
    assert_eq!(created.code, 0, "{created:?}");
    assert_eq!(backup("another").code, 0);
}
