//! Exit codes, damage, and signals.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{CHEAP, Home, as_somebody, noise, packs, ran, run, signal};

#[test]
fn a_path_that_is_not_there_is_named_and_code_3() {
    let home = Home::new();
    let ran = home.run(["backup", "files", "nowhere"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(
        ran.err.contains("left out: nowhere") && ran.out.contains("1 could not be read"),
        "{ran:?}"
    );
    assert_eq!(home.ids().len(), 1, "the rest is stored");
    assert!(home.fails(1, ["backup", "nowhere"]).contains("nothing to back up"));
}

#[test]
fn files_and_folders_that_cannot_be_read_are_named_and_code_3() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::bare();
    home.write("files/closed.txt", "closed");
    home.write("files/shut/x", "x");
    for path in ["files/closed.txt", "files/shut"] {
        std::fs::set_permissions(home.path(path), PermissionsExt::from_mode(0o000)).unwrap();
    }
    let ran = run(&mut as_somebody(
        &home,
        &["backup", "--init", "files", CHEAP[0], CHEAP[1]],
    ));
    std::fs::set_permissions(home.path("files/shut"), PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(ran.code, 3, "{ran:?}");
    for path in ["files/closed.txt", "files/shut"] {
        let named = format!("left out: {}: cannot ", home.path(path).display());
        assert!(
            ran.err.contains(&named) && ran.err.contains(": permission denied\n"),
            "{named} in {ran:?}"
        );
    }
    assert!(ran.out.contains("2 could not be read"), "{ran:?}");
    let listed = home.ok(["ls", &home.at("files"), "-R"]);
    assert!(listed.contains("ben.txt") && !listed.contains("closed.txt"), "{listed}");
}

#[test]
fn usage_errors_are_code_2_and_missing_repositories_code_10() {
    let home = Home::new();
    let usage: [&[&str]; 9] = [
        &["frobnicate"],
        &["snapshots", "--frobnicate"],
        &["backup", "files", "--compression", "23"],
        &["backup", "files", "--time", "tomorrow"],
        &["backup", "--stdin", "a", "files"],
        &["check", "--read-data=0%"],
        &["restore", "latest"],
        &["find", "[a"],
        &["dump", "latest:x", "--json"],
    ];
    for arguments in usage {
        assert!(!home.fails(2, arguments).is_empty(), "{arguments:?}");
    }
    let said = home.fails(2, ["backup", "files", "--exclude-if-present", ""]);
    assert!(said.contains("file or folder, such as .nobackup"), "{said}");
    assert!(home.fails(10, ["-r", "nowhere", "snapshots"]).contains("no repository"));
    assert!(home.fails(10, ["-r", "files", "snapshots"]).contains("no repository"));
    assert!(home.fails(1, ["snapshots", "--memory", "1MiB"]).contains("--memory"));
    assert_eq!(run(home.ibid(["snapshots"]).env("IBID_REPO", "")).code, 2);
}

/// Changes one bit of the largest pack, which holds `data.bin`.
fn damage_largest_pack(home: &Home) -> std::path::PathBuf {
    let packs = packs(home).into_iter();
    let largest = packs.max_by_key(|pack| pack.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    bytes[100_000] ^= 1;
    std::fs::remove_file(&largest).unwrap();
    std::fs::write(&largest, &bytes).unwrap();
    largest
}

#[test]
fn damage_is_found_named_and_code_4() {
    let home = Home::with_snapshot();
    let largest = damage_largest_pack(&home);
    home.ok(["check"]);
    let ran = home.run(["check", "--read-data"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    let affected = format!(
        "affected: {}:{}",
        &home.ids()[0][..8],
        home.path("files/deep/data.bin").strip_prefix("/").unwrap().display()
    );
    assert!(
        ran.out.contains("fault: packs/") && ran.out.contains(&affected),
        "{ran:?}"
    );

    // Files that can't be restored are named; the rest is restored.
    let ran = home.run(["restore", &home.at("files"), "back"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(
        ran.err.contains("not restored: ") && ran.err.contains("data.bin"),
        "{ran:?}"
    );
    // With --keep-damaged, their readable parts are restored.
    let ran = home.run(["restore", &home.at("files/deep/data.bin"), "left", "--keep-damaged"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(
        ran.out.contains("damaged   1 kept") && ran.err.contains("data.bin.damaged"),
        "{ran:?}"
    );
    assert_eq!(home.path("left/data.bin.damaged").metadata().unwrap().len(), 300_000);
    assert!(!home.path("left/data.bin").exists());
    assert_eq!(
        home.fails(1, ["dump", &home.at("files/deep/data.bin")]).lines().count(),
        1
    );

    std::fs::remove_file(&largest).unwrap();
    assert_eq!(home.run(["check"]).code, 4);
}

#[test]
fn a_backup_that_meets_damage_names_it_and_code_3() {
    let home = Home::with_snapshot();
    let damaged = damage_largest_pack(&home);
    let data = home.path("files/deep/data.bin");
    let mut bytes = std::fs::read(&data).unwrap();
    bytes[150_000] ^= 1;
    std::fs::write(&data, &bytes).unwrap();
    let ran = home.run(["backup", "files"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let pack = damaged.file_name().unwrap().to_str().unwrap();
    assert!(ran.err.contains(pack), "{ran:?}");
    assert!(ran.out.contains("1 place in the repository can't be read"), "{ran:?}");
    // This follows the documentation: unchanged data refers to the damaged pack.
    assert_eq!(home.run(["restore", &home.at("files/deep"), "back"]).code, 3);
    let found = home.run(["check", "--read-data"]);
    assert!(found.code == 4 && found.out.contains("data.bin"), "{found:?}");
    // The damage can be repaired as the documentation says.
    let ran = home.run(["repair"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(
        ran.out.contains("set aside: packs/") && ran.out.contains("data.bin") && ran.out.contains("LOST: "),
        "{ran:?}"
    );
    assert!(!damaged.exists() && home.path("repo/damaged/packs").exists());
    let said = home.ok(["backup", "files"]);
    assert!(said.contains("were lost are stored again"), "{said}");
    home.ok(["restore", &home.at("files/deep/data.bin"), "mended"]);
    assert!(std::fs::read(home.path("mended/data.bin")).unwrap() == bytes);
}

/// A lost pack with the listings of a thousand folders would otherwise be a thousand warnings.
#[test]
fn lost_chunks_are_counted_after_the_first() {
    let home = Home::new();
    for number in 0..40 {
        home.write(format!("files/{number}/{number}.txt"), format!("text {number}"));
    }
    // The listing of a folder with a file that has just changed would be stored again by the next backup.
    std::thread::sleep(std::time::Duration::from_millis(50));
    home.ok(["backup", "files"]);
    let first = packs(&home);
    // The listings above those of the folders are in another pack.
    home.write("files/new", "new");
    home.ok(["backup", "files"]);
    for pack in first {
        std::fs::rename(&pack, home.path("aside")).unwrap();
        let ran = home.run(["backup", "files", "--dry-run"]);
        std::fs::rename(home.path("aside"), &pack).unwrap();
        match ran.err.matches("is in no pack").count() {
            // It has the files, which are not read.
            0 => {}
            named => {
                assert!(
                    named <= 3 && ran.err.contains("more chunks are missing or damaged"),
                    "{ran:?}"
                );
                return;
            }
        }
    }
    panic!("no pack has listings");
}

#[test]
fn a_snapshot_that_cannot_be_read_hides_no_other() {
    let home = Home::with_snapshot();
    home.ok(["backup", "files", "-q"]);
    let ids = home.ids();
    let file = home.path("repo/snapshots").join(&ids[0]);
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "damaged").unwrap();
    for arguments in [&["snapshots"][..], &["find", "anna.txt"], &["stats"]] {
        let ran = home.run(arguments);
        assert_eq!(ran.code, 3, "{arguments:?} {ran:?}");
        assert!(ran.err.contains(&ids[0]), "{ran:?}");
        assert!(arguments[0] == "stats" || ran.out.contains(&ids[1][..8]), "{ran:?}");
    }
    home.ok(["ls", &ids[1]]);
    home.fails(4, ["check"]);
    // The damaged snapshot might be the latest.
    let ran = home.run(["ls", "latest"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.err.contains(&ids[0]) && ran.err.contains("might be newer"),
        "{ran:?}"
    );
    let ran = home.run(["repair"]);
    let is_said = ran.out.contains("LOST: 1 snapshot") && !ran.out.contains("nothing is lost");
    assert!(ran.code == 4 && is_said, "{ran:?}");
    assert!(home.ok(["repair"]).contains("nothing to repair"));
    assert!(home.path("repo/damaged/snapshots").join(&ids[0]).exists());
    home.ok(["check"]);
    assert!(
        home.ok(["repair", "--delete-damaged"])
            .contains("1 file that earlier repairs")
    );
    assert!(!home.path("repo/damaged/snapshots").join(&ids[0]).exists());
}

#[test]
fn a_lost_config_is_made_again_and_no_other_repository_is_made_in_its_place() {
    let home = Home::with_snapshot();
    let config = home.path("repo/config");
    let bytes = std::fs::read(&config).unwrap();
    for damaged in [None, Some(b"damaged".to_vec()), Some([&bytes[..], b"!"].concat())] {
        std::fs::remove_file(&config).unwrap();
        if let Some(damaged) = &damaged {
            std::fs::write(&config, damaged).unwrap();
        }
        let said = home.fails(1, ["snapshots"]);
        assert!(said.contains("config") && said.contains("ibid repair"), "{said}");
        let said = home.fails(4, ["check"]);
        assert!(said.contains("config") && said.contains("ibid repair"), "{said}");
        let said = home.fails(1, ["init", CHEAP[0], CHEAP[1]]);
        assert!(
            said.contains("Do not run `ibid init` there") || said.contains("there is a repository"),
            "{said}"
        );
        let ran = home.run(["repair", "--dry-run"]);
        assert!(
            ran.code == 4
                && ran.out.contains("the config would be made again from its copy")
                && ran.out.contains("nothing was written"),
            "{ran:?}"
        );
        let ran = home.run(["repair", "--dry-run", "--json"]);
        let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert!(report["config_made"] == true && report["clean"] == false, "{ran:?}");
        assert_eq!(report["deleted"], serde_json::json!([]), "the copy is right");
        assert_eq!(std::fs::read(&config).ok(), damaged, "nothing was written");
        let said = home.ok(["repair"]);
        assert!(said.contains("made the config again"), "{said}");
        assert!(std::fs::read(&config).unwrap() == bytes);
        home.ok(["check", "--read-data"]);
    }
    // Without a copy of it, too.
    std::fs::remove_file(&config).unwrap();
    std::fs::remove_file(home.path("repo/config.copy")).unwrap();
    for kept in ["snapshots", "keys", "sketches", "index"] {
        for command in [
            &["snapshots"][..],
            &["init", CHEAP[0], CHEAP[1]],
            &["backup", "--init", "files"],
            &["repair"],
        ] {
            let said = home.fails(1, command);
            assert!(said.contains("Do not run `ibid init` there"), "{said}");
        }
        let _ = std::fs::remove_dir_all(home.path("repo").join(kept));
    }
}

/// Such as a file that was moved to another disk, and a link in its place.
#[test]
fn what_is_no_file_is_named_in_the_place_of_one() {
    let home = Home::with_snapshot();
    home.write("files/other", noise(300_000, 5));
    home.ok(["backup", "--quiet", "files"]);
    home.ok(["forget", "--quiet", "latest", "--prune"]);
    let own = std::fs::read_dir(home.path("repo/keys"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let own = own.file_name().into_string().unwrap();
    let new = ["key", "add", "--new-password-command", "echo x"];
    home.ok([&new, &CHEAP[..]].concat());
    let keys = std::fs::read_dir(home.path("repo/keys")).unwrap();
    let mut keys = keys.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let other = keys.find(|name| *name != own).unwrap();
    let place = |name: &str| home.path("repo").join(name);
    let replace = |name: &str, with_link: bool| {
        std::fs::rename(place(name), home.path("moved")).unwrap();
        match with_link {
            true => std::os::unix::fs::symlink(home.path("moved"), place(name)).unwrap(),
            false => std::fs::create_dir(place(name)).unwrap(),
        }
    };
    let put_back = |name: &str| {
        let _ = std::fs::remove_file(place(name)).or_else(|_| std::fs::remove_dir(place(name)));
        std::fs::rename(home.path("moved"), place(name)).unwrap();
    };
    for with_link in [true, false] {
        // The key of this password, and another one.
        let name = format!("keys/{own}");
        replace(&name, with_link);
        let said = home.fails(5, ["snapshots"]);
        assert!(
            said.contains(&name) && said.contains("it may be the password of that one") && !said.contains("wrong"),
            "{said}"
        );
        put_back(&name);
        let name = format!("keys/{other}");
        replace(&name, with_link);
        let ran = home.run(["check"]);
        assert!(ran.code == 4 && ran.out.contains(&format!("fault: {name}")), "{ran:?}");
        let ran = home.run(["repair"]);
        assert!(
            ran.code == 4 && ran.out.contains(&format!("left as it is: {name}")),
            "{ran:?}"
        );
        put_back(&name);
        // A snapshot.
        let name = format!("snapshots/{}", home.ids()[0]);
        replace(&name, with_link);
        let said = home.fails(3, ["snapshots"]);
        assert!(
            said.contains(&name) && said.contains("a folder, a symbolic link or the like has this name"),
            "{said}"
        );
        home.fails(1, ["prune"]);
        put_back(&name);
        // The config and its copy.
        replace("config", with_link);
        for command in [&["check"][..], &["repair", "--dry-run"], &["repair"]] {
            let said = home.fails(1, command);
            assert!(said.contains("move it away and run `ibid repair`"), "{said}");
        }
        put_back("config");
        replace("config.copy", with_link);
        home.ok(["backup", "--quiet", "files"]);
        let ran = home.run(["check"]);
        assert!(ran.code == 4 && ran.out.contains("fault: config.copy"), "{ran:?}");
        put_back("config.copy");
        home.ok(["check"]);
        // The last entry of the log of prunes.
        let entries = std::fs::read_dir(home.path("repo/prune")).unwrap();
        let last = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let name = format!("prune/{}", last.max().unwrap());
        replace(&name, with_link);
        let ran = home.run(["check"]);
        assert!(ran.code == 4 && ran.out.contains(&format!("fault: {name}")), "{ran:?}");
        home.ok(["backup", "--quiet", "files"]);
        home.ok(["check", "--read-data"]);
        home.ok(["prune", "--quiet"]);
        std::fs::remove_file(place(&name))
            .or_else(|_| std::fs::remove_dir(place(&name)))
            .unwrap();
        std::fs::remove_file(home.path("moved")).unwrap();
    }
    home.ok(["check", "--read-data"]);
}

#[test]
fn a_backup_says_that_packs_are_missing_and_code_3_until_a_repair() {
    let home = Home::with_snapshot();
    let gone = packs(&home)
        .into_iter()
        .max_by_key(|pack| pack.metadata().unwrap().len())
        .unwrap();
    std::fs::remove_file(&gone).unwrap();
    let ran = home.run(["backup", "files"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.err.contains("1 pack of the repository: 1 missing"), "{ran:?}");
    assert!(ran.out.contains("that were lost are stored again"), "{ran:?}");
    assert_eq!(home.run(["backup", "files"]).code, 3);
    assert!(home.ok(["repair"]).contains("1 missing pack that nothing needs"));
    home.ok(["backup", "files"]);
    assert!(home.ok(["repair"]).contains("nothing to repair"));
}

/// A program started with an ignored signal keeps ignoring it, as `nohup` needs.
#[test]
fn ignored_signals_stay_ignored() {
    let home = Home::new();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let ibid = home.ibid(["backup", "--stdin", "stream"]);
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "trap '' HUP; exec \"$0\" backup --stdin stream",
            env!("CARGO_BIN_EXE_ibid"),
        ])
        .env_clear();
    command
        .envs(ibid.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdin(reader);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(command);
    writer.write_all(&noise(8 << 20, 9)).unwrap();
    signal(&child, Signal::HUP);
    drop(writer);
    let ended = ran(child.wait_with_output().unwrap());
    assert_eq!(ended.code, 0, "{ended:?}");
}

/// Starts a backup that takes a while.
fn long_backup(home: &Home) -> Child {
    let bytes = noise(32 << 20, 7);
    for n in 0..8u8 {
        let mut bytes = bytes.clone();
        bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(n));
        home.write(format!("much/{n}"), bytes);
    }
    let mut command = home.ibid(["backup", "much", "--threads", "1", "--compression", "22"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    // Send signals only once something is stored.
    while !home.path("repo/packs").exists() || packs(home).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(30), "no pack yet");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn an_interrupted_backup_keeps_what_it_stored() {
    let home = Home::new();
    let child = long_backup(&home);
    signal(&child, Signal::INT);
    let ended = ran(child.wait_with_output().unwrap());
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(
        ended.err.contains("stopping") && ended.err.contains("interrupted"),
        "{ended:?}"
    );
    assert!(home.ids().is_empty());
    home.ok(["check", "--read-data"]);
    home.ok(["backup", "much", "--compression", "1", "--quiet"]);
    home.ok(["check", "--read-data"]);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let home = Home::new();
    let child = long_backup(&home);
    signal(&child, Signal::TERM);
    std::thread::sleep(Duration::from_millis(20));
    signal(&child, Signal::INT);
    let start = Instant::now();
    assert_eq!(ran(child.wait_with_output().unwrap()).code, 130);
    assert!(start.elapsed() < Duration::from_secs(5));
    home.ok(["check", "--read-data"]);
}

#[test]
fn a_restore_that_is_stopped_leaves_only_whole_files_and_says_how_to_go_on() {
    let home = Home::new();
    let bytes = noise(32 << 20, 7);
    for n in 0..8u8 {
        let bytes: Vec<u8> = bytes.iter().map(|byte| byte.wrapping_add(n)).collect();
        home.write(format!("much/{n}"), bytes);
    }
    home.ok(["backup", "much", "--quiet"]);
    let from = home.at("much");
    let mut command = home.ibid(["restore", &from, "back", "--threads", "1"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while !home.path("back/0").exists() {
        assert!(start.elapsed() < Duration::from_secs(30), "nothing restored yet");
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(&child, Signal::INT);
    let ended = ran(child.wait_with_output().unwrap());
    assert_eq!(ended.code, 130, "{}", ended.err);
    assert!(
        ended.err.contains("--overwrite if-changed") && !ended.err.contains("backup"),
        "{}",
        ended.err
    );
    for entry in std::fs::read_dir(home.path("back")).unwrap() {
        let name = entry.unwrap().file_name();
        let read = |folder: &str| std::fs::read(home.path(folder).join(&name)).unwrap();
        assert!(read("back") == read("much"), "{name:?}");
    }
    home.ok(["restore", &from, "back", "--overwrite", "if-changed", "--verify"]);
}

/// Returns the bytes that a process has read so far, from files and pipes.
fn read_so_far(child: &Child) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.map_or(0, |bytes| bytes.parse().unwrap())
}

/// Starts a program and waits until it has read `bytes`.
fn reading(command: &mut Command, bytes: u64) -> Child {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while read_so_far(&child) < bytes {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        assert!(start.elapsed() < Duration::from_secs(60), "it does not read");
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

#[test]
fn a_backup_stopped_while_it_reads_large_files_makes_no_snapshot() {
    let home = Home::new();
    let bytes = noise(250 << 20, 7);
    home.write("one/large", &bytes);
    home.write("several/1", &bytes[..60 << 20]);
    home.write("several/2", &bytes[1 << 20..]);
    home.write("several/3", "a small one");
    let slowly = ["--threads", "1", "--compression", "19"];
    let cases: [&[&str]; 4] = [&["one"], &["several"], &["one", "--dry-run"], &["--stdin", "large"]];
    for (n, arguments) in cases.into_iter().enumerate() {
        let mut command = home.ibid([&["backup"], arguments, &slowly].concat());
        command.stdin(std::fs::File::open(home.path("one/large")).unwrap());
        let child = reading(&mut command, 20 << 20);
        signal(&child, [Signal::INT, Signal::TERM, Signal::HUP][n % 3]);
        let ended = ran(child.wait_with_output().unwrap());
        assert_eq!(ended.code, 130, "{arguments:?}: {ended:?}");
        assert!(ended.out.is_empty() && ended.err.contains("interrupted"), "{ended:?}");
        assert!(home.ids().is_empty(), "{arguments:?}");
    }
    home.ok(["check", "--read-data"]);
}

#[test]
fn a_backup_that_waits_for_standard_input_stops_at_once() {
    let home = Home::new();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut command = home.ibid(["backup", "--stdin", "stream"]);
    command.stdin(reader);
    writer.write_all(&noise(50_000, 9)).unwrap();
    let child = reading(&mut command, 50_000);
    drop(command);
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, Signal::INT);
    let start = Instant::now();
    let ended = ran(child.wait_with_output().unwrap());
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    drop(writer);
    assert!(home.ids().is_empty());
}

#[test]
fn standard_input_that_cannot_be_read_makes_no_snapshot() {
    let home = Home::new();
    let folder = std::fs::File::open(home.path("files")).unwrap();
    let ran = run(home.ibid(["backup", "--stdin", "stream"]).stdin(folder));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.err.contains("cannot read the stream") && ran.err.contains("directory"),
        "{ran:?}"
    );
    assert!(home.ids().is_empty());
}

#[test]
fn a_stream_is_called_like_one_file_or_it_is_a_usage_error_and_nothing_is_made() {
    let home = Home::bare();
    for name in ["", ".", "..", "a/b.sql", "/abs/x"] {
        let error = home.fails(2, ["backup", "--init", "--stdin", name, CHEAP[0], CHEAP[1]]);
        assert!(error.contains("the name of one file"), "{error}");
    }
    assert!(!home.path("repo").exists());
}

/// If the limit on threads is too low, the error says so, whichever thread fails to start. Root has
/// no limit.
#[test]
fn threads_that_cannot_be_started_are_an_error_and_no_panic() {
    let home = Home::bare();
    let made = as_somebody(&home, &["backup", "--init", "files", CHEAP[0], CHEAP[1]])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let commands: [&[&str]; 3] = [
        &["backup", "files"],
        &["check"],
        &["restore", "latest", "back", "--overwrite", "always"],
    ];
    for arguments in commands {
        let mut refused = 0;
        for limit in 1..24 {
            let wanted = as_somebody(&home, arguments);
            let mut command = Command::new("sh");
            command
                .args([
                    "-c",
                    &format!("ulimit -u {limit} 2>/dev/null || ulimit -p {limit}; exec \"$0\" \"$@\""),
                ])
                .arg(wanted.get_program())
                .args(wanted.get_args())
                .current_dir(home.path(""))
                .env_clear()
                .envs(wanted.get_envs().filter_map(|(name, value)| Some((name, value?))));
            if rustix::process::geteuid().is_root() {
                use std::os::unix::process::CommandExt;
                command.uid(65534).gid(65534);
            }
            let ran = run(&mut command);
            assert!(
                !ran.err.contains("panicked") && [0, 1, 3].contains(&ran.code),
                "{limit}: {ran:?}"
            );
            refused += u32::from(ran.err.contains("thread"));
        }
        assert!(refused > 0, "{arguments:?}");
    }
}

/// Whatever can be checked is checked before a repository is created.
#[test]
fn a_backup_that_cannot_work_makes_no_repository() {
    let home = Home::bare();
    home.write("empty", "");
    for (code, arguments) in [
        (1, &["backup", "--init", "files", "--memory", "32MiB"][..]),
        (1, &["init", "--memory", "32MiB"]),
        (2, &["backup", "--init", "files", "--exclude", "["]),
        (2, &["backup", "--init", "files", "--iexclude", "./x"]),
        (1, &["backup", "--init", "files", "--exclude-file", "none"]),
        (1, &["backup", "--init", "nowhere"]),
        (1, &["backup", "--init", "--files-from", "empty"]),
        (2, &["backup", "--init", "files", "--average", "1"]),
    ] {
        home.fails(code, arguments);
        assert!(!home.path("repo").exists(), "{arguments:?}");
    }
    home.ok(["backup", "--init", "files", CHEAP[0], CHEAP[1]]);
    assert_eq!(home.ids().len(), 1);
}

/// The way to the end of a loss, as each message says it.
#[test]
fn what_is_lost_for_good_can_be_left_out_of_all_snapshots() {
    let home = Home::with_snapshot();
    std::fs::remove_dir_all(home.path("files/deep")).unwrap();
    home.write("files/new", "new");
    home.ok(["backup", "files"]);
    let lost = packs(&home)
        .into_iter()
        .max_by_key(|pack| std::fs::metadata(pack).unwrap().len());
    std::fs::remove_file(lost.unwrap()).unwrap();
    let ran = home.run(["repair"]);
    assert!(
        ran.code == 4 && ran.out.contains("rewrite --all --exclude-lost --forget"),
        "{ran:?}"
    );
    let ran = home.run(["rewrite", "--all", "--exclude-lost", "--forget", "--dry-run"]);
    assert!(
        ran.err.contains("data.bin") && ran.out.contains("would be stored again"),
        "{ran:?}"
    );
    let ran = home.run(["rewrite", "--all", "--exclude-lost", "--forget"]);
    assert!(
        ran.err.contains("left out, because it is lost") && ran.code == 0,
        "{ran:?}"
    );
    home.ok(["check", "--read-data"]);
    home.ok(["repair"]);
    home.ok(["prune"]);
    assert!(home.ok(["repair"]).contains("nothing to repair"));
}
