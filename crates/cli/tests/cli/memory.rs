//! The budget of memory: a process takes no more than `--memory`, and 20 MiB for the program itself.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use ibid_format::record::{Epoch, Query, Request};
use ibid_record::{Options, Store, Versions};
use rustix::process::Signal;

use crate::replicas::Stores;
use crate::support::{CHEAP, Home, Ran, growing_pages, json_lines, noise, run, signal, wait_until};

/// Code, stacks, and what the allocator needs for itself, bytes.
const PROGRAM_OWN: u64 = 20 << 20;

/// Returns the most memory that a process has had, bytes, as long as it runs.
fn peak(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib << 10)
}

/// How often a command runs at most until its memory is seen.
const RUNS: usize = 20;

#[track_caller]
fn stays_within(home: &Home, mib: u64, arguments: &[&str]) {
    takes_at_most(home, (mib << 20) + PROGRAM_OWN, mib, arguments);
}

/// Runs a command with so many MiB of `--memory`, which must take at most so many bytes.
#[track_caller]
fn takes_at_most(home: &Home, bytes: u64, mib: u64, arguments: &[&str]) {
    let budget = format!("--memory={mib}MiB");
    let mut most = 0;
    // On a busy machine a short command may have ended before it is looked at for the first time. Then it runs again.
    for _ in 0..RUNS {
        let mut command = home.ibid(arguments.iter().copied().chain(["--quiet", &budget]));
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let ended = loop {
            // The highest value so far is read again and again, so only what comes in the last moments
            // can be missed.
            most = peak(child.id()).unwrap_or(0).max(most);
            match child.try_wait().unwrap() {
                Some(ended) => break ended,
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        assert!(ended.success(), "{arguments:?}: {ended}");
        if most > 0 {
            break;
        }
    }
    assert!(
        most > 0 && most <= bytes,
        "{arguments:?}: {} of {} MiB with --memory {mib}MiB",
        most >> 20,
        bytes >> 20
    );
}

/// Returns bytes, the same with a few of them changed, and pieces of the first in another order.
fn versions(length: usize) -> [Vec<u8>; 3] {
    let first = noise(length, 1);
    let mut second = first.clone();
    for at in (0..length).step_by(50_000) {
        second[at] ^= 1;
    }
    // Many copies of a few bytes, which take the encoder's tables.
    let pieces = length / 32;
    let third = (0..pieces).flat_map(|at| &first[at * 977 % pieces * 32..][..32]);
    let third = third.copied().collect();
    [first, second, third]
}

/// New, with pieces that are deltas of others, and compressed.
#[test]
fn bodies_of_any_length_take_no_more_memory_than_is_given() {
    const MIB: u64 = 16;
    let home = Home::bare();
    let bodies = versions(40 << 20);
    let takes = |arguments: &[&str]| {
        stays_within(&home, MIB, &[&["records"], arguments, &["--store=store"]].concat());
    };
    let are_there = || {
        for (version, body) in (1..).zip(&bodies) {
            let version = format!("key@{version}");
            takes(&["get", &version]);
            let ran = home.run(["records", "get", &version, "--store=store", "--memory=16MiB"]);
            assert!(ran.code == 0 && ran.raw == *body, "{version}: {}", ran.err);
        }
        for arguments in [
            &["verify"][..],
            &["stats"],
            &["versions", "key"],
            &["scan", "--keys-only"],
        ] {
            takes(arguments);
        }
        let ran = home.run(["records", "scan", "--store=store", "--memory=16MiB"]);
        assert!(
            ran.code == 3 && ran.err.contains("Give --memory 201MiB or more"),
            "{ran:?}"
        );
    };
    for body in &bodies {
        home.write("body", body);
        takes(&["put", "key", "body"]);
    }
    are_there();
    takes(&["compact"]);
    are_there();
    takes(&["purge", "key", "1-2"]);
    takes(&["compact"]);
    assert!(home.run(["records", "get", "key", "--store=store"]).raw == bodies[2]);
}

/// A store of an earlier version has long bodies in one record each: the base of a delta, a delta, and compressed. Each
/// command takes so many times their length as `docs/records.md` says, rounded up.
#[test]
fn long_records_of_earlier_versions_take_a_few_times_their_length() {
    const LENGTH: usize = 24 << 20;
    let home = Home::bare();
    let bodies = versions(LENGTH);
    let options = Options::default().with_whole_bytes_max(usize::MAX);
    let store = Store::open(home.path("store"), options).unwrap();
    let records = store.namespace("records", Versions::Kept).unwrap();
    for body in &bodies {
        records.put(b"key", body).unwrap();
        store.finish_encoding().unwrap();
    }
    drop((records, store));
    assert!(deltas(&home) > 0);
    let takes = |times: f64, arguments: &[&str]| {
        let command = [&["records"], arguments, &["--store=store"]].concat();
        takes_at_most(&home, (times * LENGTH as f64) as u64 + PROGRAM_OWN, 256, &command);
    };
    let are_there = |latest: f64| {
        for (version, body) in (1..).zip(&bodies) {
            let version = format!("key@{version}");
            takes(if version == "key@3" { latest } else { 3.3 }, &["get", &version]);
            let ran = home.run(["records", "get", &version, "--store=store", "--memory=256MiB"]);
            assert!(ran.code == 0 && ran.raw == *body, "{version}: {}", ran.err);
        }
        takes(3.3, &["get", "key", "key@1", "key@2"]);
        takes(3.3, &["verify"]);
        takes(4.3, &["stats"]);
        takes(2.3, &["versions", "key"]);
        takes(3.3, &["scan"]);
    };
    are_there(2.3);
    takes(6.3, &["compact"]);
    are_there(3.3);
    // As text, and as digits.
    let letters: String = bodies[0]
        .iter()
        .skip(1000)
        .map(|byte| char::from(b'a' + byte % 16))
        .collect();
    for number in 0..2 {
        let line = format!("{{\"do\": \"put\", \"key\": \"batch\", \"body\": \"{number}{letters}\"}}");
        home.write("batch", line);
        takes(6.3, &["batch", "batch"]);
    }
    // The page of the record before may be kept.
    takes(5.3, &["scan", "--json"]);
}

/// As new records, as deltas of those that the replica has, and in a copy of the whole store.
#[test]
fn replication_of_long_records_stays_within_the_budget() {
    const MIB: u64 = 16;
    let stores = Stores::new();
    let budget = format!("--memory={MIB}MiB");
    let put = |seed: u64| {
        let mut body = noise((MIB << 20) as usize, 1);
        body[..1 << 20].copy_from_slice(&noise(1 << 20, seed));
        stores.home.write("body", body);
        stores.ok("primary", &["put", "key", "body", &budget]);
        stores.ok("primary", &["put", &seed.to_string(), "body", &budget]);
    };
    put(1);
    for seed in 2..4 {
        let (serving, address) = stores.serve("primary", &[&budget]);
        for replica in ["first", &format!("copy{seed}")] {
            let store = format!("--store={replica}");
            stays_within(
                &stores.home,
                MIB,
                &["records", "replicate", "--once", "--from", &address, &store],
            );
        }
        let most = peak(serving.id()).unwrap();
        assert!(most <= (MIB << 20) + PROGRAM_OWN, "{} MiB", most >> 20);
        assert_eq!(serving.end(), Some(0));
        stores.assert_same("primary", "first");
        put(seed);
    }
}

/// Several at once, in a copy of the whole store and in following, beside one that reads no answer.
#[test]
fn many_replicas_take_no_more_memory_than_one() {
    const MIB: u64 = 16;
    let stores = Stores::new();
    let budget = format!("--memory={MIB}MiB");
    let replicas: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    for seed in 1..3 {
        stores.home.write("body", noise((MIB as usize) << 20, seed));
        stores.ok("primary", &["put", "key", "body", &budget]);
        let (serving, address) = stores.serve("primary", &[&budget]);
        let silent = asks_and_does_not_read(&address);
        let followed = replicas.map(|replica| {
            let arguments = ["replicate", "--once", "--from", &address, &budget, "--quiet"];
            let mut command = stores.command(replica, &arguments);
            command.stdout(Stdio::null()).spawn().unwrap()
        });
        for mut replica in followed {
            assert!(replica.wait().unwrap().success());
        }
        let most = peak(serving.id()).unwrap();
        assert!(most <= (MIB << 20) + PROGRAM_OWN, "{} MiB", most >> 20);
        drop(silent);
        assert_eq!(serving.end(), Some(0));
    }
    for replica in replicas {
        stores.assert_same("primary", replica);
    }
}

/// Asks a primary for all contents again and again, and reads no answer.
fn asks_and_does_not_read(address: &str) -> TcpStream {
    let asked = Request {
        store: [0; 16],
        epoch: Epoch::default(),
        query: Query::Transfer {
            transfer: 0,
            table: 0,
            key: Vec::new(),
        },
    };
    let asked = asked.encode();
    let mut stream = TcpStream::connect(address).unwrap();
    for _ in 0..50 {
        stream.write_all(&(asked.len() as u32).to_le_bytes()).unwrap();
        stream.write_all(&asked).unwrap();
    }
    stream
}

/// Returns how many records are deltas.
fn deltas(home: &Home) -> u64 {
    let stats = home.ok(["records", "stats", "--store=store", "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    stats["namespaces"][0]["deltas"]["count"].as_u64().unwrap()
}

#[test]
fn a_load_of_long_lines_stays_within_the_budget() {
    let home = Home::bare();
    let letters = |seed: u64| {
        noise(15 << 20, seed)
            .into_iter()
            .map(|byte| char::from(b'a' + byte % 16))
    };
    let mut lines = String::new();
    for line in 0..6_u64 {
        let body: String = letters(line % 3).collect();
        lines += &format!("{{\"key\": \"{}\", \"body\": \"{body}\"}}\n", line % 2);
        lines += "{\"key\": \"short\", \"body\": \"in the same place\"}\n";
    }
    home.write("lines", &lines);
    stays_within(
        &home,
        128,
        &["records", "load", "lines", "--body=body", "--store=store"],
    );
    let expected: String = letters(2).collect();
    assert!(home.ok(["records", "get", "1", "--store=store"]) == expected);
}

#[test]
fn a_record_that_needs_more_memory_says_how_much() {
    let home = Home::bare();
    home.write("body", noise(6 << 20, 1));
    home.ok(["records", "put", "key", "body", "--store=store"]);
    let records = |code: i32, arguments: &[&str], memory: &str| {
        let mut command = home.ibid(["records"]);
        command.args(arguments).args(["--store=store", "--memory", memory]);
        let ran = run(&mut command);
        assert_eq!(ran.code, code, "{arguments:?} with {memory}: {ran:?}");
        assert!(!ran.err.contains("damaged"), "{ran:?}");
        ran
    };
    for is_compacted in [false, true] {
        for arguments in [&["get", "key", "key@1"][..], &["get", "key", "--json"], &["scan"]] {
            let code = if arguments == ["scan"] { 3 } else { 1 };
            let said = records(code, arguments, "16MiB").err;
            let needed = said
                .split_once("Give --memory ")
                .unwrap_or_else(|| panic!("{arguments:?}: {said}"))
                .1;
            let needed = needed.split_once(" or more").unwrap().0;
            records(0, arguments, needed);
        }
        assert!(records(0, &["get", "key"], "16MiB").raw == noise(6 << 20, 1));
        if !is_compacted {
            records(0, &["compact"], "16MiB");
        }
    }
}

/// Returns the command in a shell that lets it have so many KiB of addresses.
fn with_addresses(kib: u32, command: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited
        .args(["-c", &format!("ulimit -v {kib}; exec \"$0\" \"$@\"")])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(command.get_current_dir().unwrap())
        .env_clear()
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("RUST_BACKTRACE", "1");
    limited
}

/// Returns with how many KiB of addresses the program itself, as it was built, is loaded.
fn addresses_to_start(home: &Home) -> u32 {
    let starts = |kib: &u32| run(&mut with_addresses(*kib, &home.ibid(["--version"]))).code == 0;
    (12_000..200_000).step_by(4000).find(starts).unwrap()
}

/// Runs a command with so many KiB of addresses. It is done, which is returned, or ends with a message that says what
/// the limit is and what to do: this is the last of what it says.
#[track_caller]
fn is_done_or_says_what_to_do(kib: u32, command: &Command) -> (Ran, Option<String>) {
    let ran = run(&mut with_addresses(kib, command));
    let case = format!("{command:?}, {kib} KiB: {ran:?}");
    assert!([0, 1].contains(&ran.code), "{case}");
    for word in ["panicked", "backtrace", "memory allocation of", "damaged"] {
        assert!(!ran.err.contains(word), "{case}");
    }
    if ran.code == 0 {
        return (ran, None);
    }
    // Another thread may have had the time to say something, too.
    let last = ran.err.lines().rfind(|line| line.contains("ulimit -v"));
    let last = last.unwrap_or_else(|| panic!("{case}")).to_owned();
    assert!(last.contains(&format!("`ulimit -v` is {kib} KiB")), "{case}");
    (ran, Some(last))
}

#[test]
fn where_memory_is_short_a_backup_says_so_and_what_to_do() {
    let home = Home::new();
    for number in 0..200_u64 {
        let length = 4000 * number as usize;
        home.write(format!("tree/{}/{number}", number % 7), text(length, number));
    }
    home.ok(["backup", "--quiet", "tree"]);
    let commands: [&[&str]; 4] = [
        &["backup", "tree", "files", "--no-cache"],
        &["backup", "tree", "--memory=128MiB", "--threads=1"],
        &["restore", "latest", "out", "--overwrite=always"],
        &["check", "--read-data"],
    ];
    let least = addresses_to_start(&home);
    let (mut refused, mut done) = (0, 0);
    for arguments in commands {
        for kib in (0..120_000).step_by(5000).map(|more| least + more) {
            match is_done_or_says_what_to_do(kib, &home.ibid(arguments)) {
                (_, None) => done += 1,
                (_, Some(_)) => refused += 1,
            }
        }
    }
    assert!(refused > 10 && done > 10, "{refused} refused, {done} done");
    home.ok(["check", "--read-data", "--quiet"]);
}

/// Whatever allocation fails, in whichever thread.
#[test]
fn where_memory_is_short_a_record_command_says_so_and_what_to_do() {
    let home = Home::bare();
    let records = |store: &str, arguments: &[&str]| {
        let mut command = home.ibid(["records"]);
        command.args(arguments).env("IBID_STORE", home.path(store));
        command
    };
    let pages = growing_pages(20, 100);
    home.write("lines", json_lines(&pages));
    home.write("large", noise(8 << 20, 1));
    let batch = |line: u32| {
        format!(
            "{{\"do\": \"put\", \"key\": \"{line}\", \"body\": \"{}\"}}\n",
            "x".repeat(3000)
        )
    };
    home.write("batch", (0..2000).map(batch).collect::<String>());
    assert_eq!(run(&mut records("store", &["load", "lines", "--body", "body"])).code, 0);
    let commands: [&[&str]; 9] = [
        &["load", "lines", "--body", "body", "--compact"],
        &["load", "lines", "--body", "body", "--durability", "sync", "--json"],
        &["put", "large", "large"],
        &["batch", "batch"],
        &["get", "page 1"],
        &["get", "page 1", "page 2@3"],
        &["scan"],
        &["compact"],
        &["verify"],
    ];
    let least = addresses_to_start(&home);
    let (mut refused, mut done) = (0, 0);
    for arguments in commands {
        for kib in (0..56_000).step_by(4000).map(|more| least + more) {
            copy_store(&home);
            let (ran, said) = is_done_or_says_what_to_do(kib, &records("copy", arguments));
            let Some(last) = said else {
                done += 1;
                continue;
            };
            refused += 1;
            let case = format!("{arguments:?}, {kib} KiB: {ran:?}");
            if arguments.contains(&"--json") {
                let error: serde_json::Value = serde_json::from_str(&last).unwrap();
                assert_eq!(error["code"], 1, "{case}");
            }
            // Nothing is lost, and what was said to be stored is there.
            let stats = run(&mut records("copy", &["stats", "--json"])).out;
            let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
            let line = last
                .split_once("stored up to line ")
                .map_or(0, |(_, rest)| rest.split(',').next().unwrap().parse::<u64>().unwrap());
            assert!(stats["total"]["records"].as_u64().unwrap() >= 2000 + line, "{case}");
        }
    }
    assert!(refused > 20 && done > 20, "{refused} refused, {done} done");
}

/// Replaces the store `copy` by a copy of `store`.
fn copy_store(home: &Home) {
    let _ = std::fs::remove_dir_all(home.path("copy"));
    let copied = Command::new("cp")
        .arg("-r")
        .args([home.path("store"), home.path("copy")])
        .status();
    assert!(copied.unwrap().success());
}

/// To make the older version a delta takes more memory than to store the new one.
#[test]
fn a_record_that_is_stored_when_memory_runs_out_is_said_to_be() {
    let home = Home::bare();
    let mut body = noise(4 << 20, 1);
    home.write("body", &body);
    home.ok(["records", "put", "key", "body", "--store=store"]);
    home.ok(["records", "compact", "--quiet", "--store=store"]);
    for at in (0..body.len()).step_by(50_000) {
        body[at] ^= 1;
    }
    home.write("body", &body);
    let mut stored = 0;
    for kib in (40_000..100_000).step_by(2000) {
        copy_store(&home);
        let put = home.ibid(["records", "put", "key", "body", "--store=copy"]);
        let (_, said) = is_done_or_says_what_to_do(kib, &put);
        let is_said = said.is_some_and(|said| said.contains("everything is stored"));
        if is_said {
            stored += 1;
            assert!(
                home.run(["records", "get", "key", "--store=copy"]).raw == body,
                "{kib} KiB"
            );
        }
        home.ok(["records", "verify", "--quiet", "--store=copy"]);
    }
    assert!(stored > 0);
}

/// Only where memory is short, an abort becomes a message.
#[test]
fn a_program_that_is_made_to_abort_aborts() {
    let home = Home::bare();
    let mut command = home.ibid(["records", "load", "-"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("it catches the signal", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << (Signal::ABORT.as_raw() - 1)) != 0
    });
    signal(&child, Signal::ABORT);
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::ABORT.as_raw()));
}

/// The advice helps.
#[test]
fn with_less_memory_a_load_needs_fewer_addresses() {
    let home = Home::bare();
    home.write("lines", json_lines(&growing_pages(20, 200)));
    let load = |kib: u32, memory: &str| {
        let _ = std::fs::remove_dir_all(home.path("store"));
        let mut load = home.ibid(["records", "load", "lines", "--body", "body", "--memory", memory]);
        load.env("IBID_STORE", home.path("store"));
        run(&mut with_addresses(kib, &load)).code
    };
    let fewest = |memory: &str| (20_000..).step_by(2000).find(|&kib| load(kib, memory) == 0);
    let (large, small) = (fewest("512MiB").unwrap(), fewest("16MiB").unwrap());
    assert!(small < large && large < 300_000, "{small} and {large} KiB");
}

/// Returns text of about this length that compresses like program text.
fn text(length: usize, seed: u64) -> Vec<u8> {
    let mut text = Vec::with_capacity(length + 32);
    for pair in noise(length / 2, seed).chunks_exact(2) {
        let word = (usize::from(pair[0]) << 5) | usize::from(pair[1] >> 3);
        // Short words are frequent.
        text.extend_from_slice(format!("{:x}", (word * word) >> (pair[1] & 7)).as_bytes());
        text.push(if pair[1] & 31 == 0 { b'\n' } else { b' ' });
        if text.len() >= length {
            break;
        }
    }
    text
}

/// Writes files of all sizes, each in several versions that become deltas: more than three times the
/// budget.
fn write_tree(home: &Home) {
    for family in 0..200u64 {
        let mut bytes = text(40 << (family % 17), family);
        for version in 0..6 {
            for change in 0..1 + bytes.len() / 20_000 {
                let at = (change * 20_011 + version * 7919) % bytes.len();
                bytes.splice(at..at, format!("change {version} of {change}\n").into_bytes());
            }
            home.write(format!("tree/{}/{family}-{version}", family % 10), &bytes);
        }
    }
    for number in 0..2 {
        home.write(format!("tree/large/{number}"), noise(32 << 20, number));
    }
    for number in 0..3000 {
        home.write(
            format!("tree/small/{}/{number}", number % 50),
            text(number * 3, number as u64),
        );
    }
}

#[test]
fn backup_restore_and_check_stay_within_the_budget() {
    let home = Home::new();
    write_tree(&home);
    for (mib, threads) in [(128, 1), (128, 16), (256, 16)] {
        let _ = std::fs::remove_dir_all(home.path("repo"));
        home.ok(["init", "--quiet", CHEAP[0], CHEAP[1]]);
        stays_within(&home, mib, &["backup", "tree", &format!("--threads={threads}")]);
        stays_within(&home, mib, &["backup", "tree"]);
    }
    // What was stored with more memory has deltas, and is read with less.
    for mib in [256, 128] {
        stays_within(&home, mib, &["check", "--read-data"]);
        for threads in [1, 16] {
            stays_within(
                &home,
                mib,
                &["restore", "latest", "out", &format!("--threads={threads}")],
            );
            std::fs::remove_dir_all(home.path("out")).unwrap();
        }
    }
}

#[test]
fn long_lists_of_patterns_stay_within_the_budget() {
    let home = Home::new();
    home.write("tree/file", text(1000, 1));
    let lines = |line: fn(u32) -> String| (0..100_000).map(line).collect::<String>();
    home.write("names", lines(|number| format!("build-{number}\n")));
    home.write("paths", lines(|number| format!("/srv/*/cache/{number}/**/*.tmp\n")));
    for list in ["names", "paths"] {
        stays_within(&home, 128, &["backup", "tree", &format!("--exclude-file={list}")]);
    }
}
