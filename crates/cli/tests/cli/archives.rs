//! Data that is kept in an archive of the service, which must thaw it before anyone reads it.

use std::io::Write;
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;

use crate::servers::Remote;
use crate::support::{CHEAP, noise};
use crate::tables::Tables;

pub(crate) const ARCHIVE: [&str; 2] = ["--storage-class", "DEEP_ARCHIVE"];
/// Restores without what this machine keeps.
pub(crate) const ELSEWHERE: [&str; 2] = ["--cached-data", "0"];

/// Returns a repository with a backup of some files in an archive.
pub(crate) fn archived() -> Remote {
    let remote = Remote::new();
    remote.init();
    for number in 0..4_u64 {
        remote.home.write(format!("tree/{number}"), noise(200_000, number));
    }
    back_up(&remote);
    remote
}

pub(crate) fn back_up(remote: &Remote) {
    remote.ok(&[&["backup", "tree"][..], &ARCHIVE, &ELSEWHERE].concat());
}

/// Returns the keys of packs that are in an archive.
pub(crate) fn frozen(remote: &Remote) -> Vec<String> {
    let mut keys = remote.server.keys("bucket");
    keys.retain(|key| {
        remote
            .server
            .storage_class("bucket", key)
            .is_some_and(|class| class.contains("ARCHIVE") || class == "GLACIER")
    });
    keys
}

fn restore<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["restore", "latest", "out", "--verify"][..], &ELSEWHERE, more].concat()
}

fn is_there(remote: &Remote, name: &str) -> bool {
    remote.home.path(name).exists()
}

#[test]
fn a_restore_of_what_is_archived_writes_nothing_and_says_how_much_must_be_thawed() {
    let remote = archived();
    assert_eq!(frozen(&remote).len(), 1);
    let refused = remote.run(&restore(&[]));
    assert_eq!(refused.code, 1, "{refused:?}");
    for part in ["a pack that is needed", "--thaw", "--estimate"] {
        assert!(refused.err.contains(part), "{part}: {refused:?}");
    }
    let previewed = remote.run(&restore(&["--dry-run"]));
    assert!(
        previewed.code == 0 && previewed.err.contains("1 pack (") && previewed.err.contains("must be thawed before"),
        "{previewed:?}"
    );
    assert!(!is_there(&remote, "out"), "nothing was written");
    assert_eq!(remote.server.thaw("bucket", &frozen(&remote)[0]), None);
}

#[test]
fn what_is_archived_is_thawed_once_and_restored_when_it_is_there() {
    let remote = archived();
    let asked = remote.ok(&restore(&[
        "--thaw",
        "--thaw-only",
        "--thaw-tier",
        "standard",
        "--thaw-days",
        "3",
    ]));
    assert!(asked.contains("asked for 1 pack; 0 of 1 pack can be read"), "{asked}");
    let pack = &frozen(&remote)[0];
    assert_eq!(remote.server.thaw("bucket", pack), Some(("Standard".to_owned(), 3)));
    assert!(!is_there(&remote, "out"));
    // Asked for again, it is not asked of the service.
    let _ = remote.server.faults().asked();
    let again = remote.ok(&restore(&["--thaw", "--thaw-only"]));
    assert!(again.contains("asked for 0 packs"), "{again}");
    let thaws = |asked: Vec<ibid_s3_server::Operation>| {
        asked
            .into_iter()
            .filter(|operation| *operation == ibid_s3_server::Operation::Thaw)
            .count()
    };
    assert_eq!(thaws(remote.server.faults().asked()), 0);
    assert_eq!(remote.server.thaw("bucket", pack), Some(("Standard".to_owned(), 3)));
    // Without --thaw it is still too early.
    assert_eq!(remote.run(&restore(&[])).code, 1);
    remote.server.finish_thaws();
    remote.ok(&restore(&["--thaw"]));
    assert_eq!(
        std::fs::read(remote.home.path("out").join(inside(&remote, "2"))).unwrap(),
        noise(200_000, 2)
    );
}

/// Returns where a restore of everything puts a file of the tree.
fn inside(remote: &Remote, name: &str) -> std::path::PathBuf {
    let path = remote.home.path("tree").join(name);
    path.strip_prefix("/").unwrap().to_owned()
}

#[test]
fn a_wait_that_is_killed_goes_on_where_it_was() {
    let remote = archived();
    let start = || start_to_wait(&remote, &restore(&[]));
    let pack = frozen(&remote).pop().unwrap();
    let mut first = start();
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(!is_there(&remote, "out"), "nothing is written before all is there");
    let mut second = start();
    std::thread::sleep(Duration::from_millis(300));
    assert!(second.try_wait().unwrap().is_none(), "it waits");
    remote.server.finish_thaws();
    assert!(second.wait().unwrap().success());
    assert_eq!(
        std::fs::read(remote.home.path("out").join(inside(&remote, "0"))).unwrap(),
        noise(200_000, 0)
    );
    assert_eq!(remote.server.thaw("bucket", &pack), Some(("Bulk".to_owned(), 7)));
}

#[test]
fn copies_that_have_expired_are_asked_for_again_and_no_file_is_half_there() {
    let remote = archived();
    remote.ok(&restore(&["--thaw", "--thaw-only"]));
    remote.server.finish_thaws();
    remote.server.pass(Duration::from_secs(8 * 24 * 60 * 60));
    let refused = remote.run(&restore(&[]));
    assert!(
        refused.code == 1 && refused.err.contains("a pack that is needed"),
        "{refused:?}"
    );
    let asked = remote.ok(&restore(&["--thaw", "--thaw-only"]));
    assert!(asked.contains("asked for 1 pack"), "{asked}");
    // What lives for less than a day from now lives longer afterwards.
    remote.server.finish_thaws();
    remote.server.pass(Duration::from_secs(6 * 24 * 60 * 60 + 60 * 60));
    remote.ok(&restore(&["--thaw"]));
    let _ = std::fs::remove_dir_all(remote.home.path("out"));
    remote.server.pass(Duration::from_secs(2 * 24 * 60 * 60));
    remote.ok(&restore(&[]));
}

#[test]
fn an_expiry_in_the_middle_of_a_restore_leaves_whole_files_and_says_what_to_do() {
    let remote = archived();
    remote.ok(&restore(&["--thaw", "--thaw-only"]));
    remote.server.finish_thaws();
    // The first reads of data come too late.
    let pack = frozen(&remote).pop().unwrap();
    remote.server.expire_after_looks("bucket", &pack, 1);
    let partly = remote.run(&restore(&[]));
    assert!(
        partly.code == 3 && partly.err.contains("is in an archive"),
        "{partly:?}"
    );
    assert!(
        partly.err.contains("1 pack (") && partly.err.contains("--overwrite if-changed"),
        "{partly:?}"
    );
    assert!(
        !remote.home.path("out").join(inside(&remote, "0")).exists(),
        "no file is half there"
    );
    let asked = remote.ok(&restore(&["--thaw", "--thaw-only", "--overwrite", "if-changed"]));
    assert!(asked.contains("asked for 1 pack"), "{asked}");
    remote.server.finish_thaws();
    remote.ok(&restore(&["--thaw", "--overwrite", "if-changed"]));
}

#[test]
fn what_this_machine_keeps_needs_no_thawing() {
    let remote = Remote::new();
    remote.init();
    remote.home.write("tree/file", noise(400_000, 3));
    remote.ok(&[&["backup", "tree"][..], &ARCHIVE].concat());
    remote.restores("latest", "tree");
    let elsewhere = remote.run(&["restore", "latest", "elsewhere", "--no-cache"]);
    assert!(elsewhere.code == 1 && elsewhere.err.contains("--thaw"), "{elsewhere:?}");
}

#[test]
fn only_what_is_needed_is_thawed() {
    let remote = archived();
    remote.home.write("tree/new", noise(300_000, 77));
    back_up(&remote);
    let packs = frozen(&remote);
    assert_eq!(packs.len(), 2);
    let file = format!("latest:{}", remote.home.path("tree/new").display());
    let one = [
        &["restore", file.as_str(), "out"][..],
        &ELSEWHERE,
        &["--thaw", "--thaw-only"],
    ]
    .concat();
    remote.ok(&one);
    let asked = packs.iter().filter(|pack| remote.server.thaw("bucket", pack).is_some());
    assert_eq!(asked.count(), 1);
}

#[test]
fn what_a_thaw_costs_is_said_before_and_no_more_is_spent() {
    let remote = archived();
    remote.home.write(
        "prices.toml",
        "put = 0.005\nstored = 0.023\n\
         thaw = [{ class = \"DEEP_ARCHIVE\", tier = \"bulk\", requests = 25.0, gigabyte = 0.0025 }]\n",
    );
    let priced = |more: &[&'static str]| restore(&[&["--thaw", "--prices", "prices.toml"][..], more].concat());
    let estimate = remote.ok(&priced(&["--estimate"]));
    assert!(
        estimate.contains("would thaw     1 pack (") && estimate.contains("bulk, for 7 days: up to 48 hours, $0.025"),
        "{estimate}"
    );
    assert!(estimate.contains("1 to thaw"), "{estimate}");
    let tables = Tables::read(&[include_str!("../../../../docs/json.md")]);
    let document = tables.document("estimate", &remote.ok(&priced(&["--estimate", "--json"])));
    assert_eq!(document["servers"][0]["thaw"]["frozen_packs"], 1, "{document}");
    let without = remote.ok(&restore(&["--estimate", "--prices", "prices.toml"]));
    assert!(
        without.contains("must thaw      1 pack (") && without.contains("with --thaw"),
        "{without}"
    );
    let refused = remote.run(&priced(&["--max-cost", "0.02"]));
    assert!(
        refused.code == 1 && refused.err.contains("nothing was done"),
        "{refused:?}"
    );
    assert_eq!(remote.server.thaw("bucket", &frozen(&remote)[0]), None);
    // Of this tier no price is known.
    let unknown = remote.run(&priced(&["--max-cost", "5", "--thaw-tier", "standard"]));
    assert!(unknown.code == 2 && unknown.err.contains("not known"), "{unknown:?}");
    let never = remote.run(&priced(&["--thaw-tier", "expedited"]));
    assert!(never.code == 2 && never.err.contains("bulk or standard"), "{never:?}");
    let document = tables.document(
        "thaw",
        &remote.ok(&priced(&["--max-cost", "0.05", "--thaw-only", "--json"])),
    );
    assert_eq!(
        (&document["asked"], &document["hours"]),
        (&1.into(), &48.0.into()),
        "{document}"
    );
}

#[test]
fn backups_forget_prune_and_check_work_over_an_archive() {
    let remote = archived();
    let first = frozen(&remote);
    // A known chunk is referred to, wherever it is.
    remote.home.write("tree/large", noise(3_000_000, 8));
    remote.home.write("tree/last", noise(1_500_000, 9));
    back_up(&remote);
    assert_eq!(frozen(&remote).len(), 2);
    std::fs::remove_file(remote.home.path("tree/large")).unwrap();
    back_up(&remote);
    assert_eq!(frozen(&remote).len(), 2);
    remote.ok(&["forget", "latest~2", "latest~1", "--yes"]);
    // Much of the second pack is not needed, and can't be moved.
    let pruned = remote.run(&[&["prune", "--max-unused", "0"][..], &ELSEWHERE].concat());
    assert_eq!(pruned.code, 0, "{pruned:?}");
    let dry = remote.ok(&[&["prune", "--max-unused", "0", "--dry-run"][..], &ELSEWHERE].concat());
    assert!(
        dry.contains("stays          ") && dry.contains("in packs of an archive"),
        "{dry}"
    );
    assert!(frozen(&remote).contains(&first[0]), "what is needed of it is there");
    let checked = remote.ok(&["check"]);
    assert!(
        checked.contains("2 packs (") && checked.contains("in an archive") && checked.contains("no faults"),
        "{checked}"
    );
    let read = remote.json(&["check", "--read-data"]);
    assert_eq!(
        (&read["clean"], &read["archived_packs"]),
        (&true.into(), &2.into()),
        "{read}"
    );
    let repaired = remote.ok(&["repair"]);
    assert!(
        repaired.contains("nothing to repair") && repaired.contains("left as they are"),
        "{repaired}"
    );
    // Packs of which nothing is needed go as they are.
    remote.ok(&["forget", "latest", "--yes"]);
    std::fs::remove_dir_all(remote.home.path("tree")).unwrap();
    remote.home.write("tree/other", noise(1000, 9));
    remote.ok(&[&["prune"][..], &ELSEWHERE].concat());
    assert_eq!(frozen(&remote), Vec::<String>::new());
}

#[test]
fn what_is_thawed_is_checked_and_copied_and_what_is_not_is_said_to_be_archived() {
    let remote = archived();
    assert_eq!(remote.run_in("other/copy", &["init", CHEAP[0], CHEAP[1]]).code, 0);
    let path = format!("latest:{}", remote.home.path("tree/1").display());
    let dump = [&["dump", path.as_str()][..], &ELSEWHERE].concat();
    let refused = remote.run(&dump);
    assert!(
        refused.code != 0 && refused.err.contains("is in an archive") && refused.err.contains("--thaw"),
        "{refused:?}"
    );
    let copy = [
        &[
            "copy",
            "--to",
            "s3://other/copy",
            "--to-password-command",
            "echo secret",
        ][..],
        &ELSEWHERE,
    ]
    .concat();
    let copied = remote.run(&copy);
    assert!(
        copied.code != 0 && copied.err.contains("is in an archive"),
        "{copied:?}"
    );
    remote.ok(&restore(&["--thaw", "--thaw-only"]));
    remote.server.finish_thaws();
    let read = remote.json(&["check", "--read-data"]);
    assert_eq!(
        (&read["clean"], &read["archived_packs"]),
        (&true.into(), &0.into()),
        "{read}"
    );
    remote.ok(&dump);
    remote.ok(&copy);
    assert_eq!(remote.run_in("other/copy", &["check", "--read-data"]).code, 0);
}

#[test]
fn a_rule_that_moves_packs_with_deltas_breaks_nothing_and_they_are_thawed_in_rounds() {
    let remote = Remote::new();
    remote.init();
    let mut data = noise(3_000_000, 5);
    for version in 0..4_u8 {
        data[1_000_000 + usize::from(version)] = version;
        data[2_000_000 + usize::from(version)] ^= 0x55;
        remote.home.write("tree/file", &data);
        remote.ok(&[&["backup", "tree"][..], &ELSEWHERE].concat());
    }
    let kept = remote.json(&["stats"]);
    assert!(kept["depths"].as_array().unwrap().len() > 1, "there are deltas: {kept}");
    // Where trees are, is told by a backup that is stored in another class; here, by the size.
    let is_data = |key: &String| key.contains("/packs/") && remote.server.object("bucket", key).unwrap().len() > 20_000;
    let packs: Vec<String> = remote.server.keys("bucket").into_iter().filter(is_data).collect();
    packs
        .iter()
        .for_each(|key| remote.server.set_storage_class("bucket", key, "GLACIER"));
    remote.ok(&["forget", "latest~2", "--yes"]);
    let pruned = remote.run(&[&["prune", "--max-unused", "0"][..], &ELSEWHERE].concat());
    assert_eq!(pruned.code, 0, "{pruned:?}");
    assert!(remote.ok(&["check"]).contains("no faults"));
    // A backup reads none of them, and does not fail for it.
    remote.home.write("tree/more", noise(100_000, 6));
    let backup = remote.run(&[&["backup", "tree"][..], &ELSEWHERE].concat());
    assert_eq!(backup.code, 0, "{backup:?}");
    let mut rounds = 0;
    while remote.run(&restore(&[])).code == 1 {
        remote.ok(&restore(&["--thaw", "--thaw-only"]));
        remote.server.finish_thaws();
        rounds += 1;
        assert!(rounds < 6, "each round needs less");
    }
    assert_eq!(
        std::fs::read(remote.home.path("out").join(inside(&remote, "file"))).unwrap(),
        data
    );
}

#[test]
fn writers_store_in_no_archive_and_similarity_is_not_promised_there() {
    let remote = Remote::new();
    remote.init();
    remote.home.write("tree/file", noise(100_000, 1));
    let refused = remote.run(&[&["backup", "tree", "--similarity", "max"][..], &ARCHIVE].concat());
    assert!(
        refused.code == 2 && refused.err.contains("stores no deltas"),
        "{refused:?}"
    );
    remote.ok(&["key", "add-writer", "--label", "laptop", "--out", "laptop.key"]);
    let backup = [&["backup", "tree", "--key-file", "laptop.key"][..], &ARCHIVE].concat();
    let writer = remote.run(&backup);
    assert!(writer.code == 1 && writer.err.contains("read at once"), "{writer:?}");
}

/// Starts a command that reads an archived pack with `--thaw`, and returns it once it has asked for that.
pub(crate) fn start_to_wait(remote: &Remote, command: &[&str]) -> Child {
    let pack = frozen(remote).pop().expect("one is in an archive");
    let mut waiting = spawn(remote, &[command, &["--thaw", "--thaw-poll", "1"]].concat());
    while remote.server.thaw("bucket", &pack).is_none() {
        assert!(waiting.try_wait().unwrap().is_none(), "it asks, and waits");
        std::thread::sleep(Duration::from_millis(20));
    }
    waiting
}

fn spawn(remote: &Remote, arguments: &[&str]) -> Child {
    remote
        .command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Starts a backup of a stream, and returns it with the stream once it has stored a pack in an archive.
fn streaming(remote: &Remote, seed: u64) -> (Child, ChildStdin) {
    let before = frozen(remote).len();
    let stream = [&["backup", "--stdin", "stream"][..], &ARCHIVE, &ELSEWHERE].concat();
    let mut backup = spawn(remote, &stream);
    let mut input = backup.stdin.take().unwrap();
    input.write_all(&noise(40_000_000, seed)).unwrap();
    while frozen(remote).len() == before {
        assert!(backup.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
        input.write_all(&noise(1_000_000, seed + 1)).unwrap();
    }
    (backup, input)
}

#[test]
fn a_prune_that_is_faster_than_a_backup_into_an_archive_loses_nothing_of_it() {
    let remote = archived();
    // Something that nothing needs, so that the prune condemns a pack: index files from before do not count then.
    remote.ok(&["forget", "latest", "--yes"]);
    let (mut backup, input) = streaming(&remote, 100);
    remote.ok(&[&["prune"][..], &ELSEWHERE].concat());
    drop(input);
    assert!(backup.wait().unwrap().success());
    let needed = remote.run(&restore(&[]));
    assert!(
        needed.code == 1 && needed.err.contains("needed ("),
        "its packs are known: {needed:?}"
    );
    // A backup of the same takes none of it for lost, and stores it once.
    let packs = frozen(&remote).len();
    remote.ok(&[&["prune"][..], &ELSEWHERE].concat());
    assert!(remote.ok(&["check"]).contains("no faults"));
    assert!(frozen(&remote).len() <= packs, "only what was condemned is gone");
    remote.ok(&restore(&["--thaw", "--thaw-only"]));
    remote.server.finish_thaws();
    remote.ok(&restore(&[]));
    let restored = std::fs::read(remote.home.path("out/stream")).unwrap();
    assert!(restored.starts_with(&noise(40_000_000, 100)));
}

#[test]
fn a_backup_that_is_killed_leaves_packs_that_are_told_and_harm_nothing() {
    let remote = archived();
    let (mut backup, input) = streaming(&remote, 200);
    backup.kill().unwrap();
    backup.wait().unwrap();
    drop(input);
    back_up(&remote);
    remote.ok(&[&["prune"][..], &ELSEWHERE].concat());
    let checked = remote.ok(&["check"]);
    assert!(
        checked.contains("a backup that was killed may have left it") && checked.contains("no faults"),
        "{checked}"
    );
    let repaired = remote.ok(&["repair"]);
    assert!(repaired.contains("nothing to repair"), "{repaired}");
    // Once they are thawed they can be read, and go as anything else.
    for key in frozen(&remote) {
        remote.server.set_storage_class("bucket", &key, "STANDARD");
    }
    remote.ok(&[&["prune"][..], &ELSEWHERE].concat());
    assert!(!remote.ok(&["check", "--read-data"]).contains("killed"));
    remote.ok(&restore(&[]));
}

#[test]
fn what_a_backup_has_stored_that_a_prune_has_ended_is_used_and_stays_listed() {
    let remote = archived();
    remote.ok(&["forget", "latest", "--yes"]);
    let (mut backup, input) = streaming(&remote, 300);
    let keys = remote.server.keys("bucket");
    let session = keys.iter().find(|key| key.contains("/sessions/")).unwrap();
    let session = session.rsplit('/').next().unwrap();
    remote.ok(&[&["prune", "--give-up-on", session][..], &ELSEWHERE].concat());
    drop(input);
    assert!(!backup.wait().unwrap().success(), "it was ended");
    let stored = frozen(&remote);
    remote.home.write("tree/stream", noise(40_000_000, 300));
    back_up(&remote);
    let new: u64 = frozen(&remote)
        .iter()
        .filter(|pack| !stored.contains(pack))
        .map(|pack| remote.server.object("bucket", pack).unwrap().len() as u64)
        .sum();
    assert!(new < 10_000_000, "most is there: {new}");
    for _ in 0..2 {
        remote.ok(&[&["prune"][..], &ELSEWHERE].concat());
        assert!(remote.ok(&["check"]).contains("no faults"));
        let needed = remote.run(&restore(&[]));
        assert!(needed.code == 1 && needed.err.contains("needed ("), "{needed:?}");
    }
    remote.ok(&restore(&["--thaw", "--thaw-only"]));
    remote.server.finish_thaws();
    remote.ok(&restore(&[]));
}
