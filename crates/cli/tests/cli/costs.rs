//! Estimates of what commands ask of a server, held against what they ask.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::servers::Remote;
use crate::support::{Ran, noise};
use crate::tables::Tables;

const KINDS: [&str; 5] = ["put", "get", "head", "list", "delete"];
/// Prices by which each kind can be told from a sum of few of them.
const PRICES: &str = "name = 'a test'\ncurrency = 'EUR'\nput = 1000\nget = 0.4\nlist = 5\nreceived = 90\n";

impl Remote {
    /// Runs a command with a copy of the cache, and returns its document.
    #[track_caller]
    fn with_cache_of(&self, cache: &str, of: &str, arguments: &[&str]) -> Value {
        let _ = std::fs::remove_dir_all(self.home.path(cache));
        let copied = std::process::Command::new("cp")
            .args(["-a", of, cache])
            .current_dir(self.home.path("."))
            .status()
            .unwrap();
        assert!(copied.success());
        self.json(&[arguments, &["--cache-dir", cache]].concat())
    }

    fn objects(&self) -> BTreeMap<String, Option<Vec<u8>>> {
        let keys = self.server.keys(self.bucket);
        keys.into_iter()
            .map(|key| (key.clone(), self.server.object(self.bucket, &key)))
            .collect()
    }

    /// Estimates a command and runs it from the same state. Returns the estimate, and what the command asked.
    #[track_caller]
    fn both(&self, arguments: &[&str]) -> (Value, Value) {
        let _ = std::fs::remove_dir_all(self.home.path("out"));
        let before = self.objects();
        let estimate = self.with_cache_of("cache-1", "cache", &[arguments, &["--estimate"]].concat());
        assert_eq!(self.objects(), before, "an estimate changes nothing");
        assert!(!self.home.path("out").exists(), "and restores nothing");
        let tables = Tables::read(&[include_str!("../../../../docs/json.md")]);
        tables.hold("estimate", &estimate);
        let done = self.with_cache_of("cache-2", "cache", arguments);
        (estimate, done)
    }

    /// Asserts that an estimate is exact, and that the command asks exactly that.
    #[track_caller]
    pub(crate) fn exact(&self, arguments: &[&str]) -> Value {
        let (estimate, done) = self.both(arguments);
        assert_eq!(estimate["exact"], true, "{arguments:?}: {estimate}");
        let (would, did) = (&estimate["servers"][0]["would_ask"], &done["requests"]);
        for kind in KINDS {
            assert_eq!(would[kind], did[kind], "{arguments:?} {kind}: {estimate} {did}");
        }
        // Ids are random, and index files compress a little more or less with others. Lists tell what is stored
        // meanwhile.
        let puts = did["put"].as_u64().unwrap();
        for (kind, each) in [("sent_bytes", 64), ("received_bytes", 1000)] {
            let off = would[kind].as_u64().unwrap().abs_diff(did[kind].as_u64().unwrap());
            // Requests and answers of deletes have the names of what goes.
            let names = 2000 * did["delete"].as_u64().unwrap();
            assert!(
                off <= each * puts + names,
                "{arguments:?} {kind}: {off}: {estimate} {did}"
            );
        }
        estimate
    }

    fn backed_up(versions: u64) -> Remote {
        let remote = Remote::new();
        remote.init();
        for version in 0..versions {
            for number in 0..12_u64 {
                // A third of the files changes each time.
                let seed = number + 100 * if number % 3 == 0 { version } else { 0 };
                let file = format!("tree/{}/{number}", number % 4);
                remote.home.write(file, noise(300_000, seed));
            }
            remote.ok(&["backup", "tree", "--cache-dir", "cache", "--cached-data", "0"]);
        }
        remote
    }
}

#[test]
fn restores_and_checks_ask_what_their_estimates_say() {
    let remote = Remote::backed_up(4);
    let whole = remote.exact(&["restore", "latest", "out"]);
    assert!(whole["servers"][0]["would_ask"]["received_bytes"].as_u64() > Some(12 * 300_000));
    let folder = format!("latest:{}", remote.home.path("tree/1").display());
    remote.exact(&["restore", &folder, "out"]);
    remote.exact(&["restore", "latest~2", "out", "--include", "5"]);
    remote.exact(&["check"]);
    let all = remote.exact(&["check", "--read-data"]);
    let part = remote.exact(&["check", "--read-data=30%", "--seed", "3"]);
    let received = |estimate: &Value| estimate["servers"][0]["would_ask"]["received_bytes"].as_u64();
    assert!(received(&part) < received(&all));
    // What estimates read themselves is little.
    let asked = |estimate: &Value| estimate["servers"][0]["asked"]["received_bytes"].as_u64();
    assert!(asked(&all) < Some(100_000), "{all}");
}

#[test]
fn what_the_cache_keeps_is_not_asked_for() {
    let remote = Remote::new();
    remote.init();
    for number in 0..8_u64 {
        remote.home.write(format!("tree/{number}"), noise(400_000, number));
    }
    remote.ok(&["backup", "tree", "--cache-dir", "cache"]);
    let kept = remote.exact(&["restore", "latest", "out"]);
    assert!(
        kept["servers"][0]["would_ask"]["received_bytes"].as_u64() < Some(50_000),
        "{kept}"
    );
}

#[test]
fn prunes_ask_what_their_estimates_say() {
    let remote = Remote::new();
    remote.init();
    // Each backup leaves a small pack. Many of them are moved together, and one goes as a whole.
    for version in 0..11_u64 {
        match version {
            3 => remote.home.write("tree/gone", noise(2_000_000, 100)),
            _ => remote.home.write(format!("tree/{version}"), noise(400_000, version)),
        }
        remote.ok(&["backup", "tree", "--cache-dir", "cache", "--cached-data", "0"]);
        let _ = std::fs::remove_file(remote.home.path("tree/gone"));
    }
    let forget = ["forget", "--keep-last", "1", "--prune", "--yes"];
    let estimate = remote.exact(&forget);
    let would = &estimate["servers"][0]["would_ask"];
    // The snapshots; then all that the prune leaves behind, with their copies.
    assert_eq!(would["delete"], 2, "{estimate}");
    assert!(
        would["received_bytes"].as_u64() > Some(9 * 400_000),
        "what is moved is read: {estimate}"
    );
    assert!(
        would["sent_bytes"].as_u64() > Some(9 * 400_000),
        "and stored: {estimate}"
    );
    remote.ok(&["check", "--read-data", "--no-cache"]);
    remote.restores("latest", "tree");
    let _ = std::fs::remove_dir_all(remote.home.path("cache"));
    std::fs::rename(remote.home.path("cache-2"), remote.home.path("cache")).unwrap();
    // Nothing is left to do.
    remote.exact(&["prune"]);
}

#[test]
fn a_prune_that_encodes_anew_is_estimated_about_right() {
    let remote = Remote::backed_up(5);
    remote.ok(&["forget", "--keep-last", "3", "--yes", "--cache-dir", "cache"]);
    let (estimate, done) = remote.both(&["prune", "--max-unused", "0"]);
    assert_eq!(estimate["inexact"], serde_json::json!(["encodes"]), "{estimate}");
    near(
        &estimate,
        &done,
        &[
            ("sent_bytes", 1.3),
            ("received_bytes", 1.3),
            ("get", 2.0),
            ("delete", 2.0),
        ],
    );
    remote.ok(&["check", "--read-data", "--no-cache"]);
}

/// Asserts that what was asked is not more than so many times off.
#[track_caller]
fn near(estimate: &Value, done: &Value, kinds: &[(&str, f64)]) {
    let (would, did) = (&estimate["servers"][0]["would_ask"], &done["requests"]);
    for (kind, times) in kinds {
        let (would, did) = (would[kind].as_f64().unwrap(), did[kind].as_f64().unwrap());
        assert!(would <= did * times && did <= would * times, "{kind}: {would} {did}");
    }
}

#[test]
fn restores_of_deltas_ask_about_what_their_estimates_say_and_exactly_that_if_deltas_are_many() {
    let remote = Remote::new();
    remote.init();
    let mut file = noise(3_000_000, 1);
    // Few bytes change, and then so many that what the deltas need is looked up before they are fetched.
    for (version, changed) in [(1, 40), (2, 40), (3, 40), (4, 3500), (5, 3500), (6, 3500)] {
        for at in 0..30 {
            let at = at * 100_000 + 5000 * version as usize;
            file[at..at + changed].copy_from_slice(&noise(changed, 1000 + version * 100 + at as u64));
        }
        remote.home.write("tree/file", &file);
        remote.ok(&["backup", "tree", "--cache-dir", "cache", "--cached-data", "0"]);
    }
    let (estimate, done) = remote.both(&["restore", "latest~3", "out", "--cached-data", "0"]);
    assert_eq!(estimate["inexact"], serde_json::json!(["bases"]), "{estimate}");
    near(&estimate, &done, &[("received_bytes", 1.1), ("get", 2.0)]);
    remote.exact(&["restore", "latest", "out", "--cached-data", "0"]);
    // A check reads all frames, and may read those again that others need.
    let (estimate, done) = remote.both(&["check", "--read-data"]);
    near(&estimate, &done, &[("received_bytes", 2.0), ("get", 4.0)]);
}

#[test]
fn a_copy_is_estimated_for_both_servers() {
    let remote = Remote::backed_up(2);
    let to = remote.run_in(
        "other/copy",
        &["init", crate::support::CHEAP[0], crate::support::CHEAP[1]],
    );
    assert_eq!(to.code, 0, "{to:?}");
    let copy = [
        "copy",
        "--to",
        "s3://other/copy",
        "--to-password-command",
        "echo secret",
    ];
    let (estimate, done) = remote.both(&copy);
    let servers = estimate["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 2, "{estimate}");
    let sum = |kind: &str| -> f64 {
        let each = servers.iter().map(|server| server["would_ask"][kind].as_f64().unwrap());
        each.sum()
    };
    for kind in ["sent_bytes", "received_bytes"] {
        let (would, did) = (sum(kind), done["requests"][kind].as_f64().unwrap());
        assert!(would > did / 1.3 && would < did * 1.3, "{kind}: {would} {did}");
    }
}

/// Runs a command with prices.
fn priced(remote: &Remote, arguments: &[&str]) -> Ran {
    remote.home.write("prices.toml", PRICES);
    remote.run(&[arguments, &["--prices", "prices.toml", "--cache-dir", "cache"]].concat())
}

#[test]
fn what_would_cost_too_much_is_not_begun() {
    let remote = Remote::backed_up(3);
    let before = remote.objects();
    let said = priced(&remote, &["restore", "latest", "out", "--estimate"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.out.contains("would cost     0.4") && said.out.contains(" EUR  as of a test"),
        "{said:?}"
    );
    for command in [
        &["restore", "latest", "out", "--max-cost", "0.01"][..],
        &["check", "--read-data", "--max-cost", "0.01"],
        &["forget", "--keep-last", "1", "--prune", "--yes", "--max-cost", "1"],
    ] {
        let refused = priced(&remote, command);
        assert_eq!(refused.code, 1, "{refused:?}");
        for word in ["nothing was done", "it would cost", "--max-cost is", "requests ("] {
            assert!(refused.err.contains(word), "{word}: {refused:?}");
        }
    }
    assert_eq!(remote.objects(), before);
    assert!(!remote.home.path("out").exists());
    let restored = priced(&remote, &["restore", "latest", "out", "--max-cost", "1"]);
    assert_eq!(restored.code, 0, "{restored:?}");
}

#[test]
fn a_backup_stops_in_order_when_it_has_cost_too_much() {
    let remote = Remote::backed_up(1);
    for number in 0..300_u64 {
        remote
            .home
            .write(format!("tree/new/{number}"), noise(500_000, 1000 + number));
    }
    // A megabyte sent costs 1 EUR. What was read by then is still stored: it is limited by the memory.
    remote.home.write("prices.toml", "currency = 'EUR'\nsent = 1000\n");
    let memory = ["--memory", "128MiB", "--threads", "1"];
    let backup = ["backup", "tree", "--prices", "prices.toml", "--max-cost", "20"];
    let backup = [&backup[..], &memory].concat();
    let stopped = remote.run(&backup);
    assert_eq!(stopped.code, 1, "{stopped:?}");
    for word in ["stopped after ", "--max-cost is 20.00 EUR", "the next backup"] {
        assert!(stopped.err.contains(word), "{word}: {stopped:?}");
    }
    let spent = stopped
        .err
        .split("stopped after ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    let spent: f64 = spent.parse().unwrap();
    assert!(spent > 20.0 && spent < 120.0, "{spent} of 150 for all");
    remote.ok(&["check", "--read-data"]);
    // The next one goes on: it sends only the rest.
    let whole = remote.json(&["backup", "tree"]);
    assert!(
        whole["requests"]["sent_bytes"].as_f64().unwrap() < (158.0 - spent) * 1e6,
        "{spent} {whole}"
    );
    remote.restores("latest", "tree");
}

#[test]
fn a_limit_needs_prices_and_a_folder_costs_nothing() {
    let remote = Remote::backed_up(1);
    let unknown = remote.run(&["restore", "latest", "out", "--max-cost", "1"]);
    assert!(
        unknown.code == 2 && unknown.err.contains("--prices FILE"),
        "{unknown:?}"
    );
    remote.home.write("wrong.toml", "puts = 1");
    let wrong = remote.run(&["check", "--estimate", "--prices", "wrong.toml"]);
    assert!(wrong.code == 2 && wrong.err.contains("there is no puts"), "{wrong:?}");
    // What does something and its estimate are told apart.
    for both in [
        &["forget", "--undo", "--estimate"][..],
        &["prune", "--dry-run", "--estimate"],
    ] {
        assert_eq!(remote.run(both).code, 2, "{both:?}");
    }
    let home = crate::support::Home::with_snapshot();
    let free = home.ok(["restore", "latest", "out", "--estimate"]);
    assert!(free.contains("in a folder of this machine"), "{free}");
    home.ok(["restore", "latest", "out", "--max-cost", "0"]);
}
