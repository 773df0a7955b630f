//! Options are obeyed, or refused with a helpful message.

use std::io::Write;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use crate::support::{CHEAP, Home, noise, ran, run};

#[test]
fn a_key_that_could_never_be_opened_is_refused_at_once() {
    let home = Home::bare();
    let said = home.fails(2, ["init", "--argon2", "2GiB:1:1"]);
    assert!(said.contains("2048 MiB of memory, the limit is 1024 MiB"), "{said}");
    assert!(!home.path("repo").exists());
    home.ok(["init", "-q", CHEAP[0], CHEAP[1]]);
    home.fails(2, ["key", "passwd", "--argon2", "2GiB:1:1"]);
    home.ok(["snapshots"]);
}

#[test]
fn a_key_that_is_cheap_to_guess_is_warned_of() {
    let home = Home::bare();
    let cheap = home.run(["init", CHEAP[0], CHEAP[1]]);
    assert!(cheap.code == 0 && cheap.err.contains("cheap"), "{cheap:?}");
    let enough = home.run(["-r", "other", "init", "--argon2", "32MiB:1:1"]);
    assert_eq!((enough.code, enough.err.as_str()), (0, ""));
}

/// The default key needs 46 MiB of memory.
#[test]
fn memory_that_is_not_to_be_had_is_no_damage() {
    let home = Home::bare();
    home.ok(["init"]);
    let ibid = home.ibid(["snapshots"]);
    let mut limited = Command::new("sh");
    limited.args([
        "-c",
        "ulimit -v 40000; exec \"$0\" snapshots",
        env!("CARGO_BIN_EXE_ibid"),
    ]);
    limited
        .env_clear()
        .envs(ibid.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = run(&mut limited);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.err.contains("46 MiB of memory") && !ran.err.contains("damaged"),
        "{ran:?}"
    );
}

#[test]
fn a_folder_without_a_repository_is_not_called_damaged() {
    let home = Home::bare();
    home.write(
        "restic/config",
        [&[0xE8, 0xF3, 0x01, 0x80][..], &noise(150, 1)].concat(),
    );
    home.write(
        "restic/keys/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "{}",
    );
    let said = home.fails(10, ["-r", "restic", "snapshots"]);
    assert!(
        said.contains("no ibid repository") && !said.contains("damaged"),
        "{said}"
    );
    let said = home.fails(10, ["-r", "files/anna.txt", "snapshots"]);
    assert!(said.contains("it is a file"), "{said}");
    for address in ["sftp:host:/backup", "s3:bucket", "me@host:backup"] {
        let said = home.fails(2, ["-r", address, "init"]);
        assert!(said.contains(&format!("./{address}")), "{said}");
    }
    home.ok(["-r", "./a:b", "init", "-q", CHEAP[0], CHEAP[1]]);
    home.ok(["-r", &home.path("a:b").display().to_string(), "snapshots"]);
}

#[test]
fn values_that_mean_nothing_are_refused_in_our_own_words() {
    let home = Home::with_snapshot();
    for time in ["1.1.2020", "2020-13-01 00:00:00"] {
        let said = home.fails(2, ["backup", "files", "--time", time]);
        assert!(said.contains(&format!("found \"{time}\"\n")), "{said}");
    }
    home.fails(2, ["backup", "files", "--host", ""]);
    home.fails(2, ["snapshots", "--host", ""]);
    home.ok(["backup", "files", "--time", "@9223372036854775807"]);
    assert!(
        home.ok(["snapshots", "--json"])
            .contains("\"time\":\"@9223372036854775807\"")
    );
    let said = home.fails(1, ["snapshots", "--memory", "1MiB"]);
    assert!(said.contains("1 MiB is too small: 128 MiB are needed"), "{said}");
}

#[test]
fn names_in_errors_are_shown_as_everywhere() {
    let home = Home::with_snapshot();
    home.write("out/\x1b[31mred/x", "x");
    home.write("files/\x1b[31mred/x", "x");
    home.ok(["backup", "-q", "files"]);
    let said = home.fails(1, ["restore", &home.at("files"), "out"]);
    assert!(said.contains("out/\\x1b[31mred"), "{said}");
}

#[test]
fn a_fatal_error_is_json_where_json_was_asked_for() {
    let home = Home::with_snapshot();
    let ran = home.run(["ls", "nothing", "--json"]);
    let error: serde_json::Value = serde_json::from_str(ran.err.lines().last().unwrap()).unwrap();
    assert_eq!(
        (ran.code, &error["type"], &error["code"]),
        (1, &"error".into(), &1.into())
    );
    assert!(error["message"].as_str().unwrap().contains("no snapshot"), "{error}");
    assert!(home.run(["ls", "nothing"]).err.starts_with("ibid: no snapshot"));
}

#[test]
fn a_path_is_the_same_however_it_is_written() {
    let home = Home::with_snapshot();
    std::os::unix::fs::symlink(home.path(""), home.path("here")).unwrap();
    home.ok(["backup", "-q", "files/anna.txt"]);
    std::fs::create_dir(home.path("files/gone")).unwrap();
    home.ok(["backup", "-q", "files/gone"]);
    std::fs::remove_dir(home.path("files/gone")).unwrap();
    let count = |path: &str| {
        home.ok(["snapshots", "--path", path])
            .lines()
            .last()
            .unwrap()
            .to_owned()
    };
    for path in [
        "files",
        "files/",
        "./files/.",
        "files/deep/..",
        "here/files",
        "nowhere/../files",
    ] {
        assert_eq!(count(path), "1 snapshot", "{path}");
    }
    for path in ["files/gone/", "here/files/gone", "files/other/../gone"] {
        assert_eq!(count(path), "1 snapshot", "what is no more, as {path}");
    }
    assert_eq!(count("files/deep"), "0 snapshots");
}

#[test]
fn several_backups_that_make_the_repository_at_once_all_succeed() {
    for round in 0..3 {
        let home = Home::bare();
        let start = || {
            let mut command = home.ibid(["backup", "--init", "files", CHEAP[0], CHEAP[1]]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let children: Vec<_> = (0..4).map(|_| start()).collect();
        for child in children {
            let ended = ran(child.wait_with_output().unwrap());
            assert_eq!(ended.code, 0, "round {round}: {ended:?}");
        }
        assert_eq!(home.ids().len(), 4);
        assert_eq!(
            std::fs::read_dir(home.path("repo/keys")).unwrap().count(),
            1,
            "the others' keys are gone"
        );
        assert!(home.ok(["check"]).contains("no faults"));
    }
}

#[test]
fn options_that_come_too_late_are_told_of() {
    let home = Home::new();
    let ran = home.run(["backup", "--init", "files", "--average", "1MiB", "--frame", "1MiB"]);
    assert_eq!(ran.code, 0);
    assert!(ran.err.contains("--average") && !ran.err.contains("--frame"), "{ran:?}");
    let ran = home.run(["backup", "--init", "files", "-q", "--average", "128KiB"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "as it is");
}

#[test]
fn a_snapshot_with_gaps_is_marked_in_the_list() {
    let home = Home::new();
    assert_eq!(home.run(["backup", "files", "nowhere"]).code, 3);
    home.ok(["backup", "files"]);
    let listed = home.ok(["snapshots"]);
    let marked: Vec<bool> = listed
        .lines()
        .skip(1)
        .map(|line| line.ends_with("1 not read"))
        .collect();
    assert_eq!(marked, [true, false, false], "{listed}");
}

#[test]
fn a_file_that_changed_while_it_was_read_is_marked_in_lists() {
    let home = Home::new();
    home.write("busy/file", noise(30_000_000, 1));
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = std::fs::OpenOptions::new()
                .append(true)
                .open(home.path("busy/file"))
                .unwrap();
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                file.write_all(b"more").unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let marked = (0..10).any(|_| {
            home.ok(["backup", "busy", "--force"])
                .contains("changed while being read")
        });
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(marked, "no backup has noticed");
    });
    let listed = home.ok(["ls", "-l", &home.at("busy")]);
    assert!(listed.contains("busy/file  (changed while it was read)"), "{listed}");
    assert!(home.ok(["snapshots"]).contains("1 changed while read"));
}

#[test]
fn a_share_of_a_small_repository_reads_something_and_says_what() {
    let home = Home::with_snapshot();
    for _ in 0..3 {
        let said = home.ok(["check", "--read-data=1%"]);
        assert!(
            said.contains("2 packs, 1 read whole") && said.contains("--seed "),
            "{said}"
        );
    }
    let seeded = || home.ok(["check", "--read-data=1%", "--seed", "7", "--json"]);
    assert_eq!(seeded(), seeded());
    home.fails(2, ["check", "--seed", "7"]);
}

#[test]
fn holes_are_counted_as_often_as_the_files_they_are_in() {
    let home = Home::new();
    home.write("sparse/file", "beginning");
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(home.path("sparse/file"))
        .unwrap();
    file.set_len(1 << 30).unwrap();
    let holes = |snapshots: u64| {
        home.ok(["backup", "-q", "sparse"]);
        let stats: serde_json::Value = serde_json::from_str(&home.ok(["stats", "--json"])).unwrap();
        assert_eq!(stats["logical_bytes"].as_u64().unwrap() >> 30, snapshots);
        assert!(stats["unique_bytes"].as_u64().unwrap() < 1 << 20);
        assert!(stats["index_memory_bytes"].as_u64().unwrap() < 10_000, "{stats}");
        stats["hole_bytes"].as_u64().unwrap()
    };
    let one = holes(1);
    assert!(one > (1 << 30) - (1 << 20), "{one}");
    assert_eq!(holes(2), 2 * one);
    home.write("sparse/other", "the folder is another one now");
    assert_eq!(holes(3), 3 * one);
}

/// After Ctrl-C, Ctrl-D or a typing error at the question for a password, the terminal echoes again.
#[test]
fn a_question_leaves_the_terminal_as_it_was() {
    let home = Home::new();
    for (answer, code) in [
        (&b"sec\x03"[..], 130),
        (b"\x04", 5),
        (b"wrong\n", 5),
        (b"secrex\x7ft\n", 0),
    ] {
        asked(&home, answer, code);
    }
}

/// A terminal shows what is done and what is worked on; a log has no use for that.
#[test]
fn progress_is_for_terminals() {
    use std::io::Read;
    let home = Home::new();
    let backup = || {
        let slow = ["--stdin-name", "slow.sql", "--", "sh", "-c", "echo x; sleep 1"];
        home.ibid(["backup", "--stdin-from-command"].iter().chain(&slow))
    };
    let ran = run(&mut backup());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let (master, path) = terminal();
    // A terminal without columns shows nothing.
    let size = rustix::termios::Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(&master, size).unwrap();
    let stderr = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut on_terminal = backup();
    let mut child = on_terminal
        .env("TERM", "xterm")
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .unwrap();
    // It holds the terminal open, too.
    drop(on_terminal);
    let reader = std::thread::spawn(move || {
        let mut shown = Vec::new();
        let mut part = [0; 4096];
        let mut master = std::fs::File::from(master);
        // At the end, a terminal without programs gives an error.
        while let Ok(length @ 1..) = master.read(&mut part) {
            shown.extend_from_slice(&part[..length]);
        }
        String::from_utf8_lossy(&shown).into_owned()
    });
    assert!(child.wait().unwrap().success());
    let shown = reader.join().unwrap();
    assert!(shown.contains("0 files  /slow.sql"), "{shown:?}");
}

/// Returns the end of a new terminal for its user, and the path of the one for programs.
pub(crate) fn terminal() -> (std::os::fd::OwnedFd, std::path::PathBuf) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let path = ptsname(&master, Vec::new()).unwrap();
    (master, path.to_str().unwrap().into())
}

fn asked(home: &Home, answer: &[u8], code: i32) {
    let (master, path) = terminal();
    let open = || std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let terminal = open();
    let before = tcgetattr(&terminal).unwrap().local_modes;
    assert!(before.contains(LocalModes::ECHO));
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait", env!("CARGO_BIN_EXE_ibid"), "snapshots"]);
    command
        .env_clear()
        .env("IBID_REPO", home.path("repo"))
        .env("PATH", std::env::var_os("PATH").unwrap());
    let mut child = command
        .stdin(open())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Wait until the question turns off echo.
    while tcgetattr(&terminal).unwrap().local_modes.contains(LocalModes::ECHO) {
        assert!(child.try_wait().unwrap().is_none(), "nobody was asked");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let mut master = std::fs::File::from(master);
    master.write_all(answer).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(code));
    assert_eq!(tcgetattr(&terminal).unwrap().local_modes, before);
}
