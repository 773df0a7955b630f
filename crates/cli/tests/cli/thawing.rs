//! Dumps and copies of what is in an archive.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ibid_s3_server::{Fault, Operation, VERSIONED};

use crate::archives::{ARCHIVE, ELSEWHERE, archived, back_up, frozen, start_to_wait};
use crate::servers::Remote;
use crate::support::{CHEAP, noise};
use crate::tables::Tables;

const PRICES: &str = "put = 0.005\nstored = 0.023\n\
                      thaw = [{ class = \"DEEP_ARCHIVE\", tier = \"bulk\", requests = 25.0, gigabyte = 0.0025 }]\n";

/// Returns what a command writes to standard output.
#[track_caller]
fn written(remote: &Remote, arguments: &[&str]) -> Vec<u8> {
    let done = remote.command(arguments).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {done:?}");
    done.stdout
}

fn days(days: u64) -> Duration {
    Duration::from_secs(days * 24 * 60 * 60)
}

fn with<'a>(command: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [command, &ELSEWHERE, more].concat()
}

/// Runs a command that reads what is archived. It must say how much that is and what it costs, ask for it once, spend
/// no more than it may, and end when that was asked for.
#[track_caller]
fn asks_for_a_thaw(remote: &Remote, of: &str, command: &[&str]) {
    remote.home.write("prices.toml", PRICES);
    let priced = |more: &[&'static str]| with(command, &[&["--prices", "prices.toml", "--thaw"][..], more].concat());
    let pack = frozen(remote).pop().unwrap();
    let tables = Tables::read(&[include_str!("../../../../docs/json.md")]);

    let estimate = remote.ok(&priced(&["--estimate"]));
    assert!(
        estimate.contains("would thaw     1 pack (") && estimate.contains("bulk, for 7 days: up to 48 hours, $0.025"),
        "{estimate}"
    );
    // Every 5 minutes for 48 hours, and three times more.
    assert!(
        estimate.contains("asks whether they are there with 580 requests at most"),
        "{estimate}"
    );
    assert_eq!(estimate.matches("would thaw").count(), 1, "of the source: {estimate}");
    let document = tables.document("estimate", &remote.ok(&priced(&["--estimate", "--json"])));
    assert_eq!(document["of"], of, "{document}");
    assert_eq!(document["servers"][0]["thaw"]["frozen_packs"], 1, "{document}");
    assert_eq!(document["servers"][0]["would_ask"]["thaw"], 1, "{document}");
    assert_eq!(document["servers"][0]["thaw"]["looks"], 580, "{document}");
    // The first look is that of the estimate.
    assert_eq!(document["servers"][0]["would_ask"]["head"], 581, "{document}");
    assert!(
        document["inexact"].as_array().unwrap().contains(&"waits".into()),
        "{document}"
    );
    let often = remote.ok(&priced(&["--estimate", "--thaw-poll", "60", "--thaw-tier", "standard"]));
    assert!(often.contains("with 724 requests at most"), "12 hours: {often}");

    let refused = remote.run(&priced(&["--max-cost", "0.02"]));
    assert!(
        refused.code == 1 && refused.err.contains("nothing was done"),
        "{refused:?}"
    );
    assert_eq!(remote.server.thaw("bucket", &pack), None);

    let only = ["--max-cost", "0.05", "--thaw-only", "--thaw-days", "3", "--json"];
    let document = tables.document("thaw", &remote.ok(&priced(&only)));
    assert_eq!(
        (&document["asked"], &document["readable_packs"]),
        (&1.into(), &0.into()),
        "{document}"
    );
    assert_eq!(remote.server.thaw("bucket", &pack), Some(("Bulk".to_owned(), 3)));
    let again = remote.ok(&with(command, &["--thaw", "--thaw-only"]));
    assert!(
        again.contains("asked for 0 packs; 0 of 1 pack can be read by now") && again.contains(&format!("and to {of}")),
        "{again}"
    );
}

/// Runs a command with `--thaw`, and has what it waits for thawed.
#[track_caller]
fn waits(remote: &Remote, command: &[&str]) {
    let mut waiting = start_to_wait(remote, &with(command, &[]));
    std::thread::sleep(Duration::from_millis(300));
    assert!(waiting.try_wait().unwrap().is_none(), "it waits");
    remote.server.finish_thaws();
    assert!(waiting.wait().unwrap().success());
}

#[test]
fn a_dump_has_thawed_what_it_reads_and_no_more() {
    let remote = archived();
    remote.home.write("tree/new", noise(300_000, 77));
    back_up(&remote);
    let file = format!("latest:{}", remote.home.path("tree/1").display());
    let dump = ["dump", file.as_str()];
    let refused = remote.run(&with(&dump, &[]));
    for part in ["a pack that is needed (", "--thaw", "--estimate"] {
        assert!(refused.code == 1 && refused.err.contains(part), "{part}: {refused:?}");
    }
    assert_eq!(refused.out, "");

    // Of the two packs, it needs one.
    let asked = remote.ok(&with(&dump, &["--thaw", "--thaw-only"]));
    assert!(asked.contains("asked for 1 pack; 0 of 1 pack"), "{asked}");
    remote.server.finish_thaws();
    assert_eq!(written(&remote, &with(&dump, &["--thaw"])), noise(200_000, 1));
    assert_eq!(
        written(&remote, &with(&dump, &["--offset", "1000", "--length", "7"])),
        noise(200_000, 1)[1000..1007]
    );
}

#[test]
fn a_dump_of_a_file_waits_until_it_is_thawed() {
    let remote = archived();
    let file = format!("latest:{}", remote.home.path("tree/2").display());
    let dump = ["dump", file.as_str()];
    asks_for_a_thaw(&remote, "dump", &dump);
    remote.server.finish_thaws();
    remote.server.pass(days(4));
    waits(&remote, &dump);
    assert_eq!(written(&remote, &with(&dump, &[])), noise(200_000, 2));
    let json = remote.run(&with(&dump, &["--json"]));
    assert!(json.code == 2 && json.err.contains("no JSON"), "{json:?}");
}

#[test]
fn a_dump_of_a_folder_waits_until_it_is_thawed() {
    let remote = archived();
    let folder = format!("latest:{}", remote.home.path("tree").display());
    let dump = ["dump", folder.as_str(), "--archive", "tar"];
    asks_for_a_thaw(&remote, "dump", &dump);
    remote.server.finish_thaws();
    remote.server.pass(days(4));
    let refused = remote.run(&with(&dump, &[]));
    assert!(
        refused.code == 1 && refused.err.contains("a pack that is needed ("),
        "its days have ended: {refused:?}"
    );
    waits(&remote, &dump);
    let tar = written(&remote, &with(&dump, &[]));
    for number in 0..4 {
        let file = noise(200_000, number);
        assert!(
            tar.windows(file.len()).step_by(512).any(|window| window == file),
            "{number}"
        );
    }
}

const COPY: [&str; 5] = [
    "copy",
    "--to",
    "s3://other/copy",
    "--to-password-command",
    "echo secret",
];

#[test]
fn a_copy_has_thawed_what_the_destination_lacks_and_no_more() {
    let remote = archived();
    assert_eq!(remote.run_in("other/copy", &["init", CHEAP[0], CHEAP[1]]).code, 0);
    let refused = remote.run(&with(&COPY, &[]));
    for part in ["a pack that is needed (", "is in an archive", "--thaw", "--estimate"] {
        assert!(refused.code == 1 && refused.err.contains(part), "{part}: {refused:?}");
    }

    asks_for_a_thaw(&remote, "copy", &COPY);
    remote.server.finish_thaws();
    remote.server.pass(days(4));
    waits(&remote, &COPY);
    assert_eq!(remote.run_in("other/copy", &["check", "--read-data"]).code, 0);

    // The copies have expired. What was copied is not needed again.
    remote.server.pass(days(30));
    remote.home.write("tree/new", noise(300_000, 77));
    back_up(&remote);
    let before = frozen(&remote);
    assert_eq!(before.len(), 2);
    let asked = remote.ok(&with(&COPY, &["--thaw", "--thaw-only"]));
    assert!(asked.contains("asked for 1 pack; 0 of 1 pack can be read"), "{asked}");
    remote.server.finish_thaws();
    let copied = remote.ok(&with(&COPY, &["--thaw"]));
    assert!(copied.contains("1 snapshot copied"), "{copied}");
    assert_eq!(remote.run_in("other/copy", &["check", "--read-data"]).code, 0);
}

#[test]
fn a_command_that_is_only_to_ask_does_nothing_else_also_if_there_is_nothing_to_ask_for() {
    let remote = archived();
    let file = format!("latest:{}", remote.home.path("tree/1").display());
    let dump = ["dump", file.as_str()];
    remote.ok(&with(&dump, &["--thaw", "--thaw-only"]));
    remote.server.finish_thaws();
    for command in [&dump[..], &["restore", "latest", "out"]] {
        let asked = remote.ok(&with(command, &["--thaw", "--thaw-only"]));
        assert!(
            asked.contains("asked for 0 packs; 1 of 1 pack") && !asked.contains("to wait"),
            "{command:?}: {asked}"
        );
    }
    assert!(!remote.home.path("out").exists());
    // Of a repository that has no archive, too.
    let remote = Remote::new();
    remote.init();
    remote.home.write("tree/1", noise(200_000, 1));
    remote.ok(&["backup", "tree"]);
    let file = format!("latest:{}", remote.home.path("tree/1").display());
    let dump = ["dump", file.as_str(), "--thaw", "--thaw-only"];
    let asked = remote.ok(&dump);
    assert!(
        asked.starts_with("nothing that is needed is in an archive\n"),
        "{asked}"
    );
    let tables = Tables::read(&[include_str!("../../../../docs/json.md")]);
    let document = tables.document("thaw", &remote.ok(&[&dump[..], &["--json"]].concat()));
    assert_eq!(
        (&document["asked"], &document["frozen_packs"]),
        (&0.into(), &0.into()),
        "{document}"
    );
}

#[test]
fn nothing_is_thawed_where_nothing_is_done() {
    let remote = Remote::new();
    for command in [
        &["copy", "--to", "x", "--dry-run", "--thaw"][..],
        &["restore", "latest", "out", "--dry-run", "--thaw"],
        &["dump", "latest:x", "--thaw-only"],
        &["dump", "latest:x", "--thaw", "--thaw-days", "0"],
        &["copy", "--to", "x", "--thaw", "--thaw-tier", "fast"],
        &["copy", "--to", "x", "--thaw", "--thaw-only", "--estimate"],
    ] {
        let refused = remote.run(command);
        assert_eq!(refused.code, 2, "{command:?}: {refused:?}");
    }
}

#[test]
fn a_check_says_that_it_read_nothing_of_what_is_archived_and_what_to_do() {
    let remote = archived();
    let checked = remote.ok(&["check", "--read-data"]);
    for part in [
        "1 pack (",
        "in an archive, not thawed and not read",
        "--thaw-only",
        "no faults",
    ] {
        assert!(checked.contains(part), "{part}: {checked}");
    }
    let without = remote.ok(&["check"]);
    assert!(
        without.contains("not looked into") && !without.contains("--thaw"),
        "{without}"
    );
}

#[test]
fn dumps_ask_what_their_estimates_say() {
    let remote = Remote::new();
    remote.init();
    for number in 0..40_u64 {
        remote.home.write(format!("tree/{number}"), noise(100_000, number));
    }
    remote.home.write("tree/large", noise(20_000_000, 99));
    remote.ok(&[&["backup", "tree"][..], &ELSEWHERE].concat());
    let file = format!("latest:{}", remote.home.path("tree/large").display());
    let folder = format!("latest:{}", remote.home.path("tree").display());
    for dump in [
        &["dump", file.as_str()][..],
        &["dump", file.as_str(), "--offset", "3MiB", "--length", "5000KiB"],
        &["dump", folder.as_str(), "--archive", "tar"],
    ] {
        let dump = [dump, &["--no-cache"]].concat();
        let estimate = remote.json(&[&dump[..], &["--estimate"]].concat());
        let would = &estimate["servers"][0]["would_ask"];
        let _ = remote.server.faults().asked();
        written(&remote, &dump);
        let mut did: BTreeMap<Operation, u64> = BTreeMap::new();
        for operation in remote.server.faults().asked() {
            *did.entry(operation).or_default() += 1;
        }
        for (kind, operation) in [
            ("get", Operation::Get),
            ("list", Operation::List),
            ("head", Operation::Head),
        ] {
            let did = did.get(&operation).copied().unwrap_or_default();
            assert_eq!(would[kind], did, "{dump:?} {kind}: {estimate} {did:?}");
        }
    }
}

#[test]
fn what_is_in_an_archive_in_part_is_looked_at_before_anything_is_written() {
    let remote = Remote::new();
    remote.init();
    // So that a dump of both begins with what can be read.
    remote.home.write("tree/1-warm", noise(20_000_000, 1));
    remote.ok(&[&["backup", "tree"][..], &ELSEWHERE].concat());
    remote.home.write("tree/2-cold", noise(200_000, 2));
    remote.ok(&[&["backup", "tree"][..], &ARCHIVE, &ELSEWHERE].concat());
    let folder = format!("latest:{}", remote.home.path("tree").display());
    let dump = ["dump", folder.as_str(), "--archive", "tar"];
    let refused = remote.run(&with(&dump, &[]));
    assert!(
        refused.code == 1 && refused.out.is_empty() && refused.err.contains("a pack that is needed ("),
        "{} bytes: {}",
        refused.out.len(),
        refused.err
    );

    assert_eq!(remote.run_in("other/copy", &["init", CHEAP[0], CHEAP[1]]).code, 0);
    for (snapshot, must_be_thawed) in [("latest", true), ("latest~1", false)] {
        let previewed = remote.run(&with(&[&COPY[..], &[snapshot, "--dry-run"]].concat(), &[]));
        assert_eq!(
            (previewed.code, previewed.err.contains("1 pack (")),
            (0, must_be_thawed),
            "{snapshot}: {previewed:?}"
        );
    }
    let refused = remote.run(&with(&[&COPY[..], &["latest"]].concat(), &[]));
    assert!(
        refused.code == 1 && refused.err.contains("a pack that is needed ("),
        "{refused:?}"
    );
    let there = remote.run_in("other/copy", &["snapshots", "--quiet"]);
    assert!(there.code == 0 && there.out.is_empty(), "nothing was copied: {there:?}");
    // What can be read is copied, whatever else there is.
    let partly = remote.run(&with(&COPY, &[]));
    for part in ["not copied: ", "a pack that is needed (", "run it again with --thaw"] {
        assert!(partly.code == 3 && partly.err.contains(part), "{part}: {partly:?}");
    }
    assert!(partly.out.contains("1 snapshot copied"), "{partly:?}");
    let restored = remote.run_in("other/copy", &["restore", "latest", "again", "--verify"]);
    assert_eq!(restored.code, 0, "{restored:?}");
}

#[test]
fn days_that_end_in_the_middle_of_a_copy_are_said_and_what_to_do() {
    let remote = archived();
    assert_eq!(remote.run_in("other/copy", &["init", CHEAP[0], CHEAP[1]]).code, 0);
    remote.ok(&with(&COPY, &["--thaw", "--thaw-only"]));
    remote.server.finish_thaws();
    remote.server.expire_after_looks("bucket", &frozen(&remote)[0], 1);
    let partly = remote.run(&with(&COPY, &[]));
    assert_eq!(partly.code, 3, "{partly:?}");
    for part in [
        "not copied: ",
        "is in an archive",
        "1 pack (",
        "run it again with --thaw",
    ] {
        assert!(partly.err.contains(part), "{part}: {partly:?}");
    }
    assert!(
        partly.out.contains("1 in an archive and NOT copied") && !partly.out.contains("damaged"),
        "{partly:?}"
    );
}

#[test]
fn a_copy_has_thawed_what_its_destination_has_lost() {
    for like in [
        &[][..],
        &["--like", "s3://bucket/home", "--like-password-command", "echo secret"],
    ] {
        let remote = archived();
        let init = [&["init", CHEAP[0], CHEAP[1]][..], like].concat();
        let init = remote.run_in("other/copy", &init);
        assert_eq!(init.code, 0, "{init:?}");
        remote.ok(&with(&COPY, &["--thaw", "--thaw-only"]));
        remote.server.finish_thaws();
        remote.ok(&with(&COPY, &[]));
        remote.server.pass(days(30));
        let mut packs = remote.server.keys("other");
        packs.retain(|key| key.contains("/packs/") && remote.server.object("other", key).unwrap().len() > 100_000);
        assert_eq!(packs.len(), 1);
        remote.server.set("other", &packs[0], None);

        remote.home.write("tree/new", noise(300_000, 77));
        back_up(&remote);
        let asked = remote.ok(&with(&COPY, &["--thaw", "--thaw-only"]));
        assert!(asked.contains("asked for 2 packs"), "{like:?}: {asked}");
        remote.server.finish_thaws();
        let copied = remote.run(&with(&COPY, &[]));
        assert!(copied.out.contains("1 snapshot copied"), "{copied:?}");
        let restored = remote.run_in("other/copy", &["restore", "latest", "again", "--verify"]);
        assert_eq!(restored.code, 0, "{restored:?}");
    }
}

#[test]
fn what_was_deleted_from_an_archive_is_thawed_as_it_was() {
    let remote = Remote::in_bucket(VERSIONED);
    remote.init();
    remote.home.write("tree/file", noise(200_000, 1));
    back_up(&remote);
    remote.server.pass(days(1));
    remote
        .server
        .keys(VERSIONED)
        .iter()
        .for_each(|key| remote.server.set(VERSIONED, key, None));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let before = format!("@{}", now - 12 * 60 * 60);
    let file = format!("latest:{}", remote.home.path("tree/file").display());
    let dump = ["dump", file.as_str(), "--as-of", before.as_str()];
    let refused = remote.run(&dump);
    assert!(
        refused.code == 1 && refused.err.contains("a pack that is needed (") && refused.err.contains("--thaw"),
        "{refused:?}"
    );
    let checked = remote.ok(&["check", "--read-data", "--as-of", &before]);
    assert!(
        checked.contains("not thawed") && checked.contains("with the same --as-of"),
        "{checked}"
    );
    let thaw = [&dump[..], &["--thaw", "--thaw-only"]].concat();
    let asked = remote.ok(&thaw);
    assert!(asked.contains("asked for 1 pack; 0 of 1 pack"), "{asked}");
    assert!(remote.ok(&thaw).contains("asked for 0 packs"));
    remote.server.finish_thaws();
    assert_eq!(written(&remote, &[&dump[..], &["--thaw"]].concat()), noise(200_000, 1));
    assert_eq!(written(&remote, &dump), noise(200_000, 1));
}

#[test]
fn what_is_archived_is_known_from_the_list_that_is_made_anyway() {
    let remote = Remote::new();
    remote.init();
    remote.home.write("tree/file", noise(200_000, 1));
    remote.ok(&["backup", "tree"]);
    let file = format!("latest:{}", remote.home.path("tree/file").display());
    for command in [&["restore", "latest", "out"][..], &["dump", &file]] {
        let _ = remote.server.faults().asked();
        written(&remote, command);
        let mut asked = remote.server.faults().asked();
        asked.retain(|operation| *operation == Operation::List);
        // Of the snapshots, and of the rest.
        assert_eq!(asked.len(), 2, "{command:?}");
    }
}

#[test]
fn a_wait_goes_on_after_an_outage_of_the_server() {
    let remote = archived();
    let mut waiting = start_to_wait(&remote, &with(&["restore", "latest", "out"], &[]));
    let faults = remote.server.faults();
    faults.always(Some(Fault::Refuse(503)));
    let _ = faults.asked();
    let mut refused = 0;
    while refused < 3 {
        assert!(waiting.try_wait().unwrap().is_none(), "it waits");
        std::thread::sleep(Duration::from_millis(20));
        refused += faults.asked().len();
    }
    assert!(!remote.home.path("out").exists());
    remote.server.finish_thaws();
    faults.always(None);
    assert!(waiting.wait().unwrap().success());
    assert!(remote.home.path("out").exists());
}

#[test]
fn what_is_wrong_with_the_index_is_said_also_where_it_is_looked_first_what_is_archived() {
    let remote = Remote::new();
    remote.init();
    remote.home.write("tree/file", noise(200_000, 1));
    remote.ok(&["backup", "tree"]);
    let mut keys = remote.server.keys("bucket");
    keys.retain(|key| key.contains("/index/"));
    remote.server.set("bucket", &keys[0], Some(vec![0; 100]));
    remote.home.write("prices.toml", PRICES);
    let restore = [
        "restore",
        "latest",
        "out",
        "--no-cache",
        "--overwrite",
        "always",
        "--prices",
        "prices.toml",
    ];
    for more in [
        &[][..],
        &["--thaw"],
        &["--estimate"],
        &["--thaw", "--estimate"],
        &["--max-cost", "1"],
    ] {
        let restore = [&restore[..], more].concat();
        let restored = remote.run(&restore);
        assert!(
            restored.code == 0 && restored.err.contains("index/"),
            "{more:?}: {restored:?}"
        );
    }
}
